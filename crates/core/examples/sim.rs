// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo run -p qlinux-core --example sim -- WORKLOAD`: simulates a workload file.

use qlinux_core::sim::{main_sim, SimError};
use std::process::ExitCode;

fn main() -> ExitCode {
    match main_sim(std::env::args_os().skip(1)) {
        Ok(summary) if summary.bounds.violations.is_empty() => ExitCode::SUCCESS,
        Ok(summary) => {
            for violation in &summary.bounds.violations {
                eprintln!("sim: {violation}");
            }
            ExitCode::from(1)
        }
        Err(e) => {
            eprintln!("sim: {e}");
            ExitCode::from(if matches!(e, SimError::Usage(_)) {
                2
            } else {
                1
            })
        }
    }
}
