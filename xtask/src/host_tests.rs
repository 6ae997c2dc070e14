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
        for line in reasons(&text) {
            println!("     | {line}");
        }
        show_failure(&text);
    }
    tally.note(name, passed, failed, start);
    Ok(())
}

/// Of every failed test what it said last: a property fails again at each step towards the
/// minimal input, which it names at the end. Before it the seed, to be kept with the sources.
fn reasons(text: &str) -> Vec<&str> {
    const MOST_LINES: usize = 40;
    let mut found = Vec::new();
    let mut parts = text.split("\n---- ");
    parts.next();
    for part in parts {
        let lines: Vec<&str> = part.lines().collect();
        let last = lines
            .iter()
            .rposition(|line| line.contains(" panicked at "));
        let said = lines[last.unwrap_or(1).min(lines.len())..].iter();
        found.push(lines[0]);
        found.extend(lines.iter().filter(|line| line.starts_with("cc ")));
        let said = said.take_while(|line| {
            !line.is_empty() && !line.starts_with("stack backtrace:") && !line.starts_with("note:")
        });
        found.extend(said.take(MOST_LINES));
    }
    found
}

/// Runs one script.
pub fn run(script: &Script, long: bool, tally: &Tally) -> Result<()> {
    let start = Instant::now();
    let word = long.then_some("long");
    let (success, text) = run_logged(
        command("timeout")
            .args(["-k", "5", &script.timeout.to_string()])
            .arg(&script.path)
            .args(word),
        &script.name,
    )?;
    let (passed, failed) = tap_counts(&text, success);
    tally.note(&script.name, passed, failed, start);
    if failed > 0 {
        show_failure(&text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::reasons;

    #[test]
    fn the_minimal_input_is_shown() {
        let text = "
test numbers ... FAILED
test strings ... FAILED

failures:

---- numbers stdout ----

thread 'numbers' (1) panicked at tests/a.rs:7:9:
too big
stack backtrace:
   0: somewhere
proptest: Saving this and future failures in tests/a.regressions
cc 0123

thread 'numbers' (1) panicked at tests/a.rs:3:1:
Test failed: too big.
minimal failing input: n = [
    40000,
]
\tsuccesses: 3

stack backtrace:
   0: somewhere

---- strings stdout ----

thread 'strings' (2) panicked at tests/a.rs:20:5:
empty
note: run with `RUST_BACKTRACE=1`


failures:
    numbers
";
        let expected = [
            "numbers stdout ----",
            "cc 0123",
            "thread 'numbers' (1) panicked at tests/a.rs:3:1:",
            "Test failed: too big.",
            "minimal failing input: n = [",
            "    40000,",
            "]",
            "\tsuccesses: 3",
            "strings stdout ----",
            "thread 'strings' (2) panicked at tests/a.rs:20:5:",
            "empty",
        ];
        assert_eq!(reasons(text), expected);
        assert!(reasons("error: could not compile").is_empty());
    }
}
