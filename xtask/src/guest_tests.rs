// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests in the guest: one boot of `vm/run` for each script of tests/guest.
//!
//! A script begins with a head that says how to run it:
//!
//! ```sh
//! #!/bin/bash
//! # SPDX-License-Identifier: MIT OR Apache-2.0
//! # name: shares
//! # description: two classes of weight 1:2 get a third and two thirds
//! # cpus: 1
//! # timeout: 1800
//! # allow-ejection: no
//! # minutes: 8
//! # only: long
//! ```
//!
//! Those that say they take minutes start first. `only: long` keeps one out of the usual
//! run, unless it is asked for by name. In the long run, `--long`, every script gets the word
//! "long" as its argument, and those that repeat something do so more often.
//!
//! Its exit status decides, unless it prints lines "ok NAME" and "not ok NAME":
//! then each of them counts as one test, so that one boot can serve many.

use crate::build::stage_dir;
use crate::shell::{command, files, has_extension, root};
use crate::test::{log_path, show_failure, Options, Tally};
use anyhow::{bail, Context, Result};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A test script and what its head says.
pub struct Script {
    /// The script itself.
    pub path: PathBuf,
    /// Its folder and name, as in guest/shares.
    pub name: String,
    /// What it shows, in one sentence.
    pub description: String,
    /// Real seconds it may take, 1200 if it does not say: several times what it needs,
    /// since a machine may have other work.
    pub timeout: u32,
    cpus: u32,
    mem: String,
    allow_ejection: bool,
    /// Real time it takes, where it is long.
    minutes: u32,
    /// Not in the usual run.
    only_long: bool,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<32} {}", self.name, self.description)
    }
}

impl Script {
    /// The scripts of `folder` that `options` ask for.
    pub fn find(folder: &str, options: &Options) -> Result<Vec<Script>> {
        let mut scripts = Vec::new();
        for path in files(folder) {
            if !has_extension(&path, &["sh"]) || path.parent() != Some(&root().join(folder)) {
                continue;
            }
            let script = Script::read(&path)?;
            let usual = options.long || options.filter.is_some() || !script.only_long;
            if options.wants(&script.name) && usual {
                scripts.push(script);
            }
        }
        scripts.sort_by_key(|script| std::cmp::Reverse(script.minutes));
        Ok(scripts)
    }

    fn read(path: &Path) -> Result<Script> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let head = |key: &str| {
            let lines = text.lines().take_while(|line| line.starts_with('#'));
            let prefix = format!("# {key}:");
            lines
                .filter_map(|l| l.strip_prefix(&prefix))
                .map(|v| v.trim().to_owned())
                .next()
        };
        let (Some(name), Some(description)) = (head("name"), head("description")) else {
            bail!(
                "{}: its head must give a name and a description",
                path.display()
            );
        };
        let number = |key: &str, default: u32| -> Result<u32> {
            let Some(value) = head(key) else {
                return Ok(default);
            };
            value
                .parse()
                .with_context(|| format!("{}: {key}: {value} is no number", path.display()))
        };
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        Ok(Script {
            name: format!("{}/{name}", folder.to_string_lossy()),
            description,
            timeout: number("timeout", 1200)?,
            cpus: number("cpus", 1)?,
            minutes: number("minutes", 0)?,
            mem: head("mem").unwrap_or_else(|| "2G".to_owned()),
            allow_ejection: head("allow-ejection").is_some_and(|value| value == "yes"),
            only_long: head("only").is_some_and(|value| value == "long"),
            path: path.to_owned(),
        })
    }

    fn run_in_guest(&self, long: bool, tally: &Tally) -> Result<()> {
        let start = Instant::now();
        let mut vm = command(root().join("vm/run"));
        vm.args(["--cpus", &self.cpus.to_string(), "--mem", &self.mem]);
        // What is asked for is up to ten times as much.
        let timeout = self.timeout * if long { 6 } else { 1 };
        vm.args(["--timeout", &timeout.to_string()])
            .env("QLINUX_STAGE", stage_dir());
        if self.allow_ejection {
            vm.arg("--allow-ejection");
        }
        vm.arg(&self.path);
        if long {
            vm.arg("long");
        }
        let result = vm.output().context("vm/run cannot be started")?;
        let mut text = String::from_utf8_lossy(&result.stdout).into_owned();
        let (passed, failed) = tap_counts(&text, result.status.success());
        text.push_str(&String::from_utf8_lossy(&result.stderr));
        fs::write(log_path(&self.name), &text)?;
        tally.note(&self.name, passed, failed, start);
        if failed > 0 {
            show_failure(&text);
        }
        Ok(())
    }
}

/// Passed and failed tests of a script that printed `text`.
pub fn tap_counts(text: &str, success: bool) -> (usize, usize) {
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    let failed = text
        .lines()
        .filter(|line| line.starts_with("not ok "))
        .count();
    match (passed + failed, success) {
        (0, true) => (1, 0),
        // It stopped early, or the guest's kernel complained.
        (_, false) => (passed, failed.max(1)),
        _ => (passed, failed),
    }
}

/// The scripts of tests/guest that `options` ask for.
pub fn find(options: &Options) -> Result<Vec<Script>> {
    Script::find("tests/guest", options)
}

/// Runs `scripts`, some at a time: guests do not disturb each other, their clocks count instructions.
pub fn run(scripts: &[Script], options: &Options, tally: &Tally) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.unwrap_or(processors).clamp(1, 8);
    if !scripts.is_empty() {
        println!(
            "run  {} scripts in the guest, {jobs} at a time",
            scripts.len()
        );
    }
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            script.run_in_guest(options.long, tally)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("workers do not panic"))
    })
}
