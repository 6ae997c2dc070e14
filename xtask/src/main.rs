// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `make` delegates to: everything about the repository that is more than one command.

mod build;
mod guest_tests;
mod host_tests;
mod install;
mod kernels;
mod lint;
mod shell;
mod style;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Builds, tests, lints and installs QLinux")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the programs and libraries, optimised
    Build,
    /// Build, and lay out below target/stage what vm/run puts into the guest
    Stage,
    /// Run the tests: on this machine, then in the guest
    Test(test::Options),
    /// Check formatting, lints and the rules of the repository
    Lint,
    /// Format Rust and C
    Fmt,
    /// Install programs, library, header, man pages and completions
    Install {
        /// Where the programs will be used from
        #[arg(long, env = "PREFIX", default_value = "/usr/local")]
        prefix: PathBuf,
        /// Put in front of every installed path, for packaging
        #[arg(long, env = "DESTDIR", default_value = "/")]
        destdir: PathBuf,
    },
    /// Run `qlinux` with these arguments, e.g. `lab list`
    Qlinux {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Build => build::release().map(drop),
        Task::Stage => build::stage(),
        Task::Test(options) => test::run(&options),
        Task::Lint => lint::run(),
        Task::Fmt => style::format(),
        Task::Install { prefix, destdir } => {
            install::install(&build::release()?, &prefix, &destdir, install::Files::All)
        }
        Task::Qlinux { args } => build::run_qlinux(&args),
    }
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        // The tests have said everything, on a last line others look for.
        Err(error) if error.is::<test::Failed>() => ExitCode::FAILURE,
        Err(error) => {
            eprintln!(
                "xtask: {}",
                error
                    .chain()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(": ")
            );
            ExitCode::FAILURE
        }
    }
}
