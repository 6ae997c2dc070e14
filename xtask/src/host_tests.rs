// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests on this machine: those of the crates, and the scripts of tests/host.

use crate::guest_tests::{tap_counts, Script};
use crate::shell::{cargo, command};
use crate::test::{log_path, show_tail, Options, Tally};
use anyhow::{Context, Result};
use regex::Regex;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// The scripts of tests/host that `options` ask for.
pub fn find(options: &Options) -> Result<Vec<Script>> {
    Script::find("tests/host", options)
}

/// Both streams of a command in the order they were written.
fn output(command: &mut Command) -> Result<(Output, String)> {
    let (mut reader, writer) = std::io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let child = command
        .spawn()
        .with_context(|| format!("{command:?} cannot be started"))?;
    // The command holds the writing ends: without this the pipe would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((child.wait_with_output()?, text))
}

/// Every `#[test]` of the workspace.
pub fn cargo_test(tally: &Tally) -> Result<()> {
    let name = "cargo";
    let start = Instant::now();
    println!("run  {name}: unit, model and property tests of the crates");
    let (result, text) =
        output(cargo().args(["test", "--workspace", "--locked", "--no-fail-fast"]))?;
    fs::write(log_path(name), &text)?;
    let line = Regex::new(r"(?m)^test result: .*?(\d+) passed; (\d+) failed").expect("a pattern");
    let (mut passed, mut failed) = (0, 0);
    for found in line.captures_iter(&text) {
        passed += found[1].parse::<usize>()?;
        failed += found[2].parse::<usize>()?;
    }
    if !result.status.success() {
        // A test program that does not build or crashes has no result line.
        failed = failed.max(1);
        show_tail(&text);
    }
    tally.note(name, passed, failed, start);
    Ok(())
}

/// Runs `scripts` one after the other.
pub fn run(scripts: &[Script], tally: &Tally) -> Result<()> {
    for script in scripts {
        let start = Instant::now();
        println!("run  {}: {}", script.name, script.description);
        let (result, text) = output(
            command("timeout")
                .args(["-k", "5", &script.timeout.to_string()])
                .arg(&script.path),
        )?;
        fs::write(log_path(&script.name), &text)?;
        let (passed, failed) = tap_counts(&text, result.status.success());
        if failed > 0 {
            show_tail(&text);
        }
        tally.note(&script.name, passed, failed, start);
    }
    Ok(())
}
