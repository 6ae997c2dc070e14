// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a simulation leaves behind: a trace as CSV, a summary as JSON; and the command.

use super::machine::{Change, Simulation};
use super::{run, SimError, Workload};
use crate::bounds::{self, Report};
use crate::engine::Core;
use crate::model::Model;
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// One line of a summary.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SummaryRow {
    /// Path of the class or name of the thread.
    pub name: String,
    /// Service received, in ns; of a class, by all below it.
    pub served_ns: u64,
    /// Part of the service of all servers, 0 to 1.
    pub share: f64,
    /// Quanta served.
    pub quanta: u64,
    /// Longest quantum, in ns.
    pub longest_ns: u64,
}

/// A simulation in figures.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Simulated time.
    pub duration_ns: u64,
    /// Servers.
    pub servers: u32,
    /// Service given by all of them.
    pub served_ns: u64,
    /// By class, in the order of creation, the root first.
    pub classes: Vec<SummaryRow>,
    /// By thread.
    pub threads: Vec<SummaryRow>,
    /// The bounds of SFQ on this trace.
    pub bounds: Report,
}

impl Change {
    /// As written in a trace.
    pub fn name(self) -> &'static str {
        match self {
            Change::Expired => "expired",
            Change::Preempted => "preempted",
            Change::Blocked => "blocked",
            Change::Stopped => "stopped",
            Change::Wake => "wake",
            Change::Leave => "leave",
        }
    }
}

fn row(name: &str) -> SummaryRow {
    SummaryRow {
        name: name.into(),
        served_ns: 0,
        share: 0.0,
        quanta: 0,
        longest_ns: 0,
    }
}

impl Simulation {
    /// Adds up who got what, and checks the bounds for ideal servers.
    pub fn summary(&self) -> Summary {
        let mut classes: Vec<_> = self.classes.iter().map(|c| row(c)).collect();
        let mut threads: Vec<_> = self.threads.iter().map(|t| row(t)).collect();
        let mut served_ns = 0;
        for r in self.records.iter().filter(|r| r.change.is_service()) {
            let length_ns = r.end_ns - r.start_ns;
            let count = |row: &mut SummaryRow| {
                row.served_ns += length_ns;
                row.quanta += 1;
                row.longest_ns = row.longest_ns.max(length_ns);
            };
            served_ns += length_ns;
            count(&mut threads[r.thread]);
            let mut class = Some(r.class);
            while let Some(c) = class {
                count(&mut classes[c]);
                class = self.trace.nodes[c].parent;
            }
        }
        let capacity = (self.trace.end_ns * u64::from(self.trace.servers)) as f64;
        for row in classes.iter_mut().chain(&mut threads) {
            row.share = row.served_ns as f64 / capacity;
        }
        Summary {
            duration_ns: self.trace.end_ns,
            servers: self.trace.servers,
            served_ns,
            classes,
            threads,
            bounds: bounds::check(&self.trace, &bounds::Options::default()),
        }
    }

    /// Writes one line for each quantum, each wake-up and each other departure.
    ///
    /// `start_tag` is the leaf's, in 1/1024 ns per unit of weight, modulo 2^64.
    pub fn write_csv(&self, mut to: impl Write) -> io::Result<()> {
        writeln!(to, "what,start_ns,end_ns,server,class,thread,start_tag")?;
        for r in &self.records {
            let server = r.server.map_or(String::new(), |s| s.to_string());
            writeln!(
                to,
                "{},{},{},{},{},{},{}",
                r.change.name(),
                r.start_ns,
                r.end_ns,
                server,
                self.classes[r.class],
                self.threads[r.thread],
                r.start_tag
            )?;
        }
        to.flush()
    }
}

const USAGE: &str = "usage: sim [--model] [--trace FILE] [--summary FILE] [--seed N] WORKLOAD";

struct Args {
    model: bool,
    trace: Option<PathBuf>,
    summary: Option<PathBuf>,
    seed: Option<u64>,
    workload: PathBuf,
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Args, SimError> {
    let usage = |why: &str| SimError::Usage(format!("{why}; {USAGE}"));
    let mut args = args.into_iter();
    let (mut model, mut trace, mut summary, mut seed, mut workload) =
        (false, None, None, None, None);
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .ok_or_else(|| usage("an option lacks its value"))
        };
        match arg.to_str() {
            Some("--model") => model = true,
            Some("--trace") => trace = Some(value()?.into()),
            Some("--summary") => summary = Some(value()?.into()),
            Some("--seed") => {
                let n = value()?.to_str().and_then(|n| n.parse().ok());
                seed = Some(n.ok_or_else(|| usage("the seed is not a number"))?);
            }
            Some(option) if option.starts_with('-') => {
                return Err(usage(&format!("{option} is not an option")));
            }
            _ if workload.is_none() => workload = Some(arg.into()),
            _ => return Err(usage("one workload at a time")),
        }
    }
    let workload = workload.ok_or_else(|| usage("no workload is named"))?;
    Ok(Args {
        model,
        trace,
        summary,
        seed,
        workload,
    })
}

fn write(
    path: &Path,
    content: impl FnOnce(BufWriter<File>) -> io::Result<()>,
) -> Result<(), SimError> {
    let written = File::create(path).and_then(|file| content(BufWriter::new(file)));
    written.map_err(|source| SimError::Io {
        path: path.to_owned(),
        source,
    })
}

/// Simulates a workload file: what `sim` and `qlinux lab sim` do.
///
/// `args` are those after the command's name: `[--model] [--trace FILE]
/// [--summary FILE] [--seed N] WORKLOAD`. The summary goes to standard output
/// unless a file is named. `--model` lets the reference model decide in place
/// of the C core.
pub fn main_sim(args: impl IntoIterator<Item = OsString>) -> Result<Summary, SimError> {
    let args = parse(args)?;
    let mut workload = Workload::read(&args.workload)?;
    if let Some(seed) = args.seed {
        workload.seed = seed;
    }
    let simulation = if args.model {
        run(&workload, Model::new())
    } else {
        run(&workload, Core::new())
    }?;
    let summary = simulation.summary();
    if let Some(path) = &args.trace {
        write(path, |to| simulation.write_csv(to))?;
    }
    let json = serde_json::to_string_pretty(&summary).expect("a summary is plain data");
    match &args.summary {
        Some(path) => write(path, |mut to| {
            writeln!(to, "{json}").and_then(|()| to.flush())
        })?,
        None => println!("{json}"),
    }
    Ok(summary)
}
