// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests, fastest first, and the one line that sums them up.

use crate::guest_tests::{Run, Script};
use crate::shell::target;
use crate::{build, guest_tests, host_tests};
use anyhow::{bail, Context, Result};
use clap::Args;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// Which tests to run, and how.
#[derive(Args)]
pub struct Options {
    /// Only tests whose name contains this
    pub filter: Option<String>,
    /// Print the tests instead of running them
    #[arg(long)]
    pub list: bool,
    /// All tests in the guest, and at full length: hours
    #[arg(long)]
    pub long: bool,
    /// Tests in the guest at a time; each keeps one processor busy
    #[arg(long, env = "QLINUX_JOBS")]
    pub jobs: Option<usize>,
}

impl Options {
    /// Whether what belongs to the long run has its turn: there, and where it is asked for by name.
    pub fn everything(&self) -> bool {
        self.long || self.filter.is_some()
    }

    /// Whether the test of this name was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|part| name.contains(part))
    }
}

/// Some test failed, as the output tells.
#[derive(Debug)]
pub struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not every test passed")
    }
}

impl std::error::Error for Failed {}

/// Counts results; tests report from several threads.
#[derive(Default)]
pub struct Tally {
    inner: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    failures: Vec<String>,
    seconds: BTreeMap<String, f64>,
}

impl Tally {
    /// Notes that one program of tests, `name`, took from `start` until now.
    pub fn note(&self, name: &str, passed: usize, failed: usize, start: Instant) {
        let mut counts = self.inner.lock().expect("no test panics while it reports");
        counts.passed += passed;
        counts.failed += failed;
        let seconds = start.elapsed().as_secs_f64();
        let word = if failed == 0 { "ok  " } else { "FAIL" };
        let several = match passed + failed {
            0 | 1 => String::new(),
            all => format!(", {passed} of {all}"),
        };
        println!("{word} {name} ({seconds:.1} s{several})");
        if failed > 0 {
            println!("     its output: {}", log_path(name).display());
            counts.failures.push(name.to_owned());
        }
        counts.seconds.insert(name.to_owned(), seconds);
    }
}

/// Says that the test of this name is left out, which is no failure.
pub fn skip(name: &str, reason: &str) {
    println!("skip {name}: {reason}");
}

fn times_path() -> PathBuf {
    target().join("test").join("times")
}

/// Seconds that each test took when it ran last, by name; none on a machine that has not run any.
pub fn last_times() -> BTreeMap<String, f64> {
    let text = fs::read_to_string(times_path()).unwrap_or_default();
    let line = |line: &str| -> Option<(String, f64)> {
        let (seconds, name) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Keeps how long the tests of this run took, longest first, beside what is known of others.
fn keep_times(now: BTreeMap<String, f64>) -> Result<()> {
    let mut times = last_times();
    times.extend(now);
    let mut lines: Vec<_> = times.into_iter().collect();
    lines.sort_by(|a, b| b.1.total_cmp(&a.1));
    let text: String = lines
        .iter()
        .map(|(name, seconds)| format!("{seconds:.1} {name}\n"))
        .collect();
    fs::write(times_path(), text)
        .with_context(|| format!("{} cannot be written", times_path().display()))
}

/// Where the output of test `name` is kept.
pub fn log_path(name: &str) -> PathBuf {
    target()
        .join("test")
        .join(format!("{}.log", name.replace(['/', ' '], "-")))
}

/// Prints what tells most about a failed test: its failed checks, and the end of its output.
pub fn show_failure(text: &str) {
    const MOST_CHECKS: usize = 20;
    const LAST_LINES: usize = 15;
    let lines: Vec<&str> = text.lines().collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(LAST_LINES));
    let checks = before.iter().filter(|line| line.starts_with("not ok "));
    for line in checks.take(MOST_CHECKS).chain(last) {
        println!("     | {line}");
    }
}

/// Runs scripts, some at a time: guests do not disturb each other, their clocks count instructions,
/// and what runs on this machine asserts nothing of time.
fn run_scripts(host: &[Script], guest: &[Run], options: &Options, tally: &Tally) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.unwrap_or(processors).clamp(1, 8);
    println!(
        "run  {} scripts on this machine and {} in the guest, {jobs} at a time",
        host.len(),
        guest.len()
    );
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            match (host.get(at), guest.get(at.saturating_sub(host.len()))) {
                (Some(script), _) => host_tests::run(script, options.long, tally)?,
                (None, Some(run)) => run.run(options.long, tally)?,
                (None, None) => return Ok(()),
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("workers do not panic"))
    })
}

/// Runs what `options` ask for; fails when a test did.
pub fn run(options: &Options) -> Result<()> {
    let host = host_tests::find(options)?;
    let guest = guest_tests::find(options)?;
    if options.list {
        host.iter().for_each(|script| println!("{script}"));
        guest.iter().for_each(|run| println!("{run}"));
        return Ok(());
    }
    let logs = target().join("test");
    fs::create_dir_all(&logs).with_context(|| format!("{} cannot be made", logs.display()))?;
    let tally = Tally::default();
    if options.wants("cargo") {
        host_tests::cargo_test(&tally)?;
    }
    let guest = guest_tests::with_kernels(guest)?;
    build::stage()?;
    let guest = guest_tests::with_modules(guest)?;
    run_scripts(&host, &guest, options, &tally)?;
    let counts = tally
        .inner
        .into_inner()
        .expect("no test panics while it reports");
    for name in &counts.failures {
        println!("failed: {name}");
    }
    keep_times(counts.seconds)?;
    let summary = format!("{} passed, {} failed", counts.passed, counts.failed);
    fs::write(logs.join("summary"), format!("{summary}\n"))?;
    println!("{summary}");
    if counts.failed > 0 || counts.passed == 0 {
        bail!(Failed);
    }
    Ok(())
}
