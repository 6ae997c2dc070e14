// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `qlinux` command. Exit status 0 done, 1 refused by the system, 2 wrong
//! usage; an error is one sentence on standard error.

mod args;
mod check;
mod class;
mod cpu;
mod disk;
mod generate;
mod link;
mod reserve;
mod run;
mod table;
mod top;
mod trace;

use args::{Cli, Command};
use clap::Parser;
use nix::sys::signal::{self, SigHandler, Signal};
use serde::Serialize;
use std::process::ExitCode;

/// A refusal on its way to standard error.
pub(crate) struct Failure {
    sentence: String,
    errno: Option<i32>,
    status: u8,
}

pub(crate) type Outcome<T = ExitCode> = Result<T, Failure>;

impl From<qlinux::Error> for Failure {
    fn from(error: qlinux::Error) -> Failure {
        let status = if error.is_usage() { 2 } else { 1 };
        Failure {
            sentence: error.to_string(),
            errno: Some(error.errno() as i32),
            status,
        }
    }
}

impl Failure {
    /// Refused by the system, for a reason that is not the library's.
    pub(crate) fn refused(sentence: String) -> Failure {
        Failure {
            sentence,
            errno: None,
            status: 1,
        }
    }

    fn from_usage(error: &clap::Error) -> Failure {
        let text = error.to_string();
        let paragraph = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<&str> = paragraph
            .trim_start_matches("error: ")
            .split_whitespace()
            .collect();
        Failure {
            sentence: format!("{}; see `qlinux --help`", words.join(" ")),
            errno: None,
            status: 2,
        }
    }

    fn report(&self, json: bool) -> ExitCode {
        if json {
            let error =
                serde_json::json!({ "error": { "message": self.sentence, "errno": self.errno } });
            eprintln!("{error}");
        } else {
            eprintln!("qlinux: {}", self.sentence);
        }
        ExitCode::from(self.status)
    }
}

/// Writes to standard output, in colour on a terminal only. A reader that
/// closed the pipe has seen enough.
pub(crate) fn print(text: &str) -> Outcome {
    use std::io::Write;
    let mut out = anstream::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::refused(format!(
            "writing to standard output failed: {e}; see where it leads"
        ))),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The value as JSON on standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::refused(format!("JSON output failed: {e}")))?;
    print(&(text + "\n"))
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error)
            if error.exit_code() == 0
                || error.kind()
                    == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
        Err(error) => {
            let json = std::env::args_os()
                .take_while(|arg| arg != "--")
                .any(|arg| arg == "--json");
            return Failure::from_usage(&error).report(json);
        }
    };
    let json = cli.json;
    let outcome = match cli.command {
        Command::Check => check::check(json),
        Command::Up(args::Up::Cpu(options)) => cpu::up(&options, json),
        Command::Up(args::Up::Link(options)) => link::up(&options, json),
        Command::Up(args::Up::Disk(options)) => disk::up(&options, json),
        Command::Down(args::Down::Cpu) => cpu::down(json),
        Command::Down(args::Down::Link { device }) => link::down(&device, json),
        Command::Down(args::Down::Disk { device }) => disk::down(&device, json),
        Command::Status => cpu::status(json),
        Command::Class(command) => class::class(&command, json),
        Command::Reserve(options) => reserve::reserve(&options, json),
        Command::Link(words) => link::link(&words, json),
        Command::Disk(words) => disk::disk(&words, json),
        Command::Run(options) => run::run(&options),
        Command::Top(options) => top::top(&options, json),
        Command::Trace(options) => trace::trace(&options, json),
        Command::Lab(command) => {
            // It prints as it goes; a reader that has seen enough ends it.
            // SAFETY: the default action runs no code of ours.
            let _ = unsafe { signal::signal(Signal::SIGPIPE, SigHandler::SigDfl) };
            qlinux_lab::cli::main(command).map_err(|e| Failure::refused(format!("{e:#}")))
        }
        Command::Generate(what) => generate::generate(&what),
    };
    outcome.unwrap_or_else(|failure| failure.report(json))
}
