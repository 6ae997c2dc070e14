// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux gen`: man pages and completions, for packaging.

use crate::args::{Cli, Gen};
use crate::{Failure, Outcome};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub fn generate(what: &Gen) -> Outcome {
    let (directory, result) = match what {
        Gen::Man { directory } => (directory, man_pages(directory)),
        Gen::Completions { directory } => (directory, completions(directory)),
    };
    result.map(|()| ExitCode::SUCCESS).map_err(|e| {
        Failure::refused(format!(
            "writing to {} failed: {e}; name a directory that can be written",
            directory.display()
        ))
    })
}

fn man_pages(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    // One page a command, named like qlinux-class-add.
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, directory)
}

fn completions(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "qlinux", directory)?;
    }
    Ok(())
}
