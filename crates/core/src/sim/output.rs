// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a simulation leaves behind: a trace as CSV, a summary as JSON; and the command.

use super::locks::LockTimes;
use super::machine::{Change, Simulation};
use super::{run, SimError, Workload};
use crate::bounds::{self, Report};
use crate::engine::Core;
use crate::model::Model;
use serde::Serialize;
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
    /// Of a thread under edf or rm: its deadlines that passed unmet, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
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
    /// Domains of servers, each with a tree of its own.
    pub domains: u32,
    /// What the domains' locks would cost, over all servers.
    pub locks: LockTimes,
    /// Threads that the ledger moved to another domain.
    pub moved: u64,
    /// Threads that idle servers took from another domain.
    pub stolen: u64,
    /// By class, in the order of creation, the root first.
    pub classes: Vec<SummaryRow>,
    /// By thread.
    pub threads: Vec<SummaryRow>,
    /// The bounds of SFQ on this trace; none with several domains, for they are those of one tree.
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
        misses: None,
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
        for (row, &misses) in threads.iter_mut().zip(&self.misses) {
            row.misses = (misses > 0).then_some(misses);
        }
        Summary {
            duration_ns: self.trace.end_ns,
            servers: self.trace.servers,
            served_ns,
            domains: self.domains,
            locks: self.locks,
            moved: self.moved,
            stolen: self.stolen,
            classes,
            threads,
            bounds: bounds::check(
                &self.trace,
                &match self.domains {
                    1 => bounds::Options::default(),
                    _ => bounds::Options::ledger(self.trace.servers),
                },
            ),
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

/// A simulation and what is to be kept of it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The workload file.
    pub workload: PathBuf,
    /// Let the reference model decide in place of the C core.
    pub model: bool,
    /// Where the trace goes, if it is wanted.
    pub trace: Option<PathBuf>,
    /// Where the summary goes; without, to standard output.
    pub summary: Option<PathBuf>,
    /// In place of the workload's seed.
    pub seed: Option<u64>,
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

/// Simulates a workload file and writes what is asked for: what `qlinux lab sim` does.
pub fn simulate(request: &Request) -> Result<Summary, SimError> {
    let mut workload = Workload::read(&request.workload)?;
    workload.seed = request.seed.unwrap_or(workload.seed);
    let simulation = if request.model {
        run(&workload, Model::new())
    } else {
        run(&workload, Core::new())
    }?;
    let summary = simulation.summary();
    if let Some(path) = &request.trace {
        write(path, |to| simulation.write_csv(to))?;
    }
    let json = serde_json::to_string_pretty(&summary).expect("a summary is plain data");
    match &request.summary {
        Some(path) => write(path, |mut to| {
            writeln!(to, "{json}").and_then(|()| to.flush())
        })?,
        None => println!("{json}"),
    }
    Ok(summary)
}
