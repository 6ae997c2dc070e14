// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler's trace: one record a quantum, in a ring buffer.

use crate::cgroup::Hierarchy;
use crate::cpu::Running;
use crate::intf::{Plain, TraceRecord};
use crate::{Error, Result};
use libbpf_rs::{MapHandle, RingBufferBuilder};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// The kernel lets one reader consume a ring buffer.
const LOCK: &str = "/run/qlinux-trace.lock";

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A thread was served; `length_ns` was charged.
    Quantum,
    /// A leaf became runnable.
    Run,
    /// A leaf stopped being runnable.
    Sleep,
    /// A class has a new `weight`.
    Weight,
}

impl Kind {
    /// From the number in a record.
    pub fn of(record: &TraceRecord) -> Option<Kind> {
        [Kind::Quantum, Kind::Run, Kind::Sleep, Kind::Weight]
            .get(usize::from(record.kind).checked_sub(1)?)
            .copied()
    }

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Quantum => "quantum",
            Kind::Run => "run",
            Kind::Sleep => "sleep",
            Kind::Weight => "weight",
        }
    }
}

/// Reads the trace of the running scheduler and gives each record to `each`,
/// with the path of its class, until `more` says false or the scheduler ends.
/// An error of `each` ends it at once and is returned.
pub fn read<E: From<Error>>(
    more: impl Fn() -> bool,
    mut each: impl FnMut(&TraceRecord, &str) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let running = Running::open()?;
    if !running.constants().is_some_and(|c| c.trace) {
        return Err(Error::NoTrace.into());
    }
    let names = RefCell::new(Names::new(&running)?);
    let last_turn = || {
        names.borrow_mut().look();
        !more() || running.ending().is_some()
    };
    let each = |bytes: &[u8]| match TraceRecord::from_bytes(bytes) {
        Some(record) => each(&record, &names.borrow_mut().of(record.node)),
        None => Ok(()),
    };
    consume(&running.trace_map()?, Path::new(LOCK), last_turn, each)
}

/// Gives the records of a ring buffer to `each` until `last_turn`, asked again and again,
/// says that what is there now is all. An error of `each` ends it at once and is returned.
pub(crate) fn consume<E: From<Error>>(
    map: &MapHandle,
    lock: &Path,
    last_turn: impl Fn() -> bool,
    each: impl FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    const TURN: Duration = Duration::from_millis(50);
    let _lock = crate::lock::try_exclusive(lock)?.ok_or(Error::TraceBusy { path: lock.into() })?;
    let outcome = RefCell::new((each, Ok(())));
    let failed = |e: libbpf_rs::Error| Error::Io {
        doing: "reading",
        path: "the trace".into(),
        source: std::io::Error::other(e.to_string()),
    };
    let mut builder = RingBufferBuilder::new();
    builder
        .add(map, |bytes: &[u8]| {
            let mut outcome = outcome.borrow_mut();
            let (each, result) = &mut *outcome;
            if result.is_ok() {
                *result = each(bytes);
            }
            match result {
                Ok(()) => 0,
                Err(_) => -1,
            }
        })
        .map_err(failed)?;
    let ring = builder.build().map_err(failed)?;
    let mut last = false;
    while !last && outcome.borrow().1.is_ok() {
        last = last_turn();
        // Interrupted by a signal: `last_turn` knows what that means.
        let _ = ring.poll_raw(if last { Duration::ZERO } else { TURN });
        let _ = ring.consume_raw();
    }
    drop(ring);
    outcome.into_inner().1
}

/// Paths of classes by their node in the tree.
struct Names<'a> {
    running: &'a Running,
    fs: Hierarchy,
    known: HashMap<u32, (u64, String)>,
}

impl<'a> Names<'a> {
    fn new(running: &'a Running) -> Result<Names<'a>> {
        let mut names = Names {
            running,
            fs: Hierarchy::discover()?,
            known: HashMap::new(),
        };
        names.look();
        Ok(names)
    }

    /// A node's number is given to a new class some time after the old one is gone.
    fn look(&mut self) {
        for (id, nodes) in self.running.nodes().unwrap_or_default() {
            let same = self
                .known
                .get(&nodes.node)
                .is_some_and(|(known, _)| *known == id);
            if nodes.shared != 0 || same {
                continue;
            }
            if let Some(path) = self.fs.path_of(id) {
                self.known.insert(nodes.node, (id, path.to_string()));
            }
        }
    }

    /// A class that is gone already is named by its node's number.
    fn of(&mut self, node: u32) -> String {
        if !self.known.contains_key(&node) {
            self.look();
        }
        let (_, path) = self
            .known
            .entry(node)
            .or_insert_with(|| (0, format!("node:{node}")));
        path.clone()
    }
}
