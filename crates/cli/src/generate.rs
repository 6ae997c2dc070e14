// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux generate`: man pages and completions, for packaging.

use crate::args::{Cli, Generate};
use crate::{print, Failure, Outcome};
use clap::CommandFactory;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub fn generate(what: &Generate) -> Outcome {
    match what {
        Generate::Man { directory } => {
            man_pages(directory)
                .map(|()| ExitCode::SUCCESS)
                .map_err(|e| {
                    let directory = directory.display();
                    Failure::refused(format!(
                        "writing to {directory} failed: {e}; name a directory that can be written"
                    ))
                })
        }
        Generate::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "qlinux", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
    }
}

/// One page a command, named like qlinux-class-add.1.
fn man_pages(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), directory)
}
