// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests on this machine: those of the crates, and the scripts of tests/host.

use crate::guest_tests::{tap_counts, Script};
use crate::shell::{cargo, command};
use crate::test::{log_path, show_failure, Options, Tally};
use anyhow::{Context, Result};
use regex::Regex;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The scripts of tests/host that `options` ask for.
pub fn find(options: &Options) -> Result<Vec<Script>> {
    Script::find("tests/host", options)
}

/// Runs `command` with both streams going to the log of test `name`; whether it succeeded, and its output.
fn run_logged(command: &mut Command, name: &str) -> Result<(bool, String)> {
    let path = log_path(name);
    let log =
        fs::File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
    let status = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .with_context(|| format!("{command:?} cannot be started"))?;
    let bytes = fs::read(&path)?;
    Ok((
        status.success(),
        String::from_utf8_lossy(&bytes).into_owned(),
    ))
}

/// Every `#[test]` of the workspace.
pub fn cargo_test(tally: &Tally) -> Result<()> {
    let name = "cargo";
    let start = Instant::now();
    println!("run  {name}: unit, model and property tests of the crates");
    let (success, text) = run_logged(
        cargo().args(["test", "--workspace", "--locked", "--no-fail-fast"]),
        name,
    )?;
    let line = Regex::new(r"(?m)^test result: .*?(\d+) passed; (\d+) failed").expect("a pattern");
    let (mut passed, mut failed) = (0, 0);
    for found in line.captures_iter(&text) {
        passed += found[1].parse::<usize>()?;
        failed += found[2].parse::<usize>()?;
    }
    if !success {
        // A test program that does not build or crashes has no result line.
        failed = failed.max(1);
        show_failure(&text);
    }
    tally.note(name, passed, failed, start);
    Ok(())
}

/// Runs `scripts` one after the other.
pub fn run(scripts: &[Script], tally: &Tally) -> Result<()> {
    for script in scripts {
        let start = Instant::now();
        println!("run  {}: {}", script.name, script.description);
        let (success, text) = run_logged(
            command("timeout")
                .args(["-k", "5", &script.timeout.to_string()])
                .arg(&script.path),
            &script.name,
        )?;
        let (passed, failed) = tap_counts(&text, success);
        if failed > 0 {
            show_failure(&text);
        }
        tally.note(&script.name, passed, failed, start);
    }
    Ok(())
}
