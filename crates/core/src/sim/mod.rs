// SPDX-License-Identifier: MIT OR Apache-2.0
//! A discrete-event simulator of servers, a tree of classes, and threads.
//!
//! It is a mechanism in the sense of the kernel's: it keeps the queues of
//! waiting threads, lets time pass and asks an [`Engine`] for every decision.
//! [`run`] simulates a [`Workload`], [`simulate`] a workload file.

mod domains;
mod due;
mod events;
mod locks;
mod machine;
mod output;
mod queue;
mod workload;

pub use due::{divide, due, Due, Part};
pub use locks::{LockCosts, LockTimes};
pub use machine::{Change, Record, Simulation};
pub use output::{simulate, Request, Summary, SummaryRow};
pub use workload::{Class, Event, Ns, Span, Svr4, Thread, Workload};

use crate::sched::Servers;
use std::path::PathBuf;
use thiserror::Error;

/// Why there is no simulation.
#[derive(Debug, Error)]
pub enum SimError {
    /// A file cannot be read or written.
    #[error("{path}: {source}; check that the path is right and accessible")]
    Io {
        /// which file
        path: PathBuf,
        /// why
        source: std::io::Error,
    },
    /// It is not a workload file.
    #[error("{what} is no workload, see docs/simulator.md: {source}")]
    Syntax {
        /// which file
        what: String,
        /// where and why
        source: Box<toml::de::Error>,
    },
    /// The workload asks for something that makes no sense.
    #[error("{0}; see docs/simulator.md")]
    Invalid(String),
    /// The scheduler refused what the workload does.
    #[error("at {at_ns} ns, {what}: {source}")]
    Refused {
        /// simulated time
        at_ns: u64,
        /// what was tried
        what: String,
        /// why not
        source: crate::Error,
    },
}

/// Simulates a workload with this scheduler, which must be empty.
pub fn run<E: Servers>(workload: &Workload, engine: E) -> Result<Simulation, SimError> {
    machine::Machine::new(workload, engine)?.run()
}
