// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link's trace: one record a packet that left, in a ring buffer.

use super::intf::TraceRecord;
use super::names::{Queue, Tree};
use super::{Link, Refusal};
use crate::intf::Plain;
use crate::{trace, Error, Result};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

impl Link {
    /// Gives each record of the trace to `each`, with the path of the queue's class and the
    /// queue's name, until `more` says false or the queueing discipline goes. An error of
    /// `each` ends it at once and is returned.
    pub fn trace<E: From<Error>>(
        &self,
        more: impl Fn() -> bool,
        mut each: impl FnMut(&TraceRecord, &str, &str) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let running = self.running();
        if !running.constants().trace {
            let dev = self.device().into();
            return Err(Error::from(Refusal::NoTrace { dev }).into());
        }
        let names = RefCell::new(HashMap::new());
        let last_turn = || {
            let known = self.tree().map(|tree| look(&tree, &mut names.borrow_mut()));
            let ended = running.look().map_or(true, |link| link.state.qdisc == 0);
            !more() || ended || known.is_err()
        };
        let each = |bytes: &[u8]| {
            let Some(record) = TraceRecord::from_bytes(bytes) else {
                return Ok(());
            };
            let mut names = names.borrow_mut();
            if !names.contains_key(&record.queue) {
                // A queue of just now; one that is gone is told by its number.
                self.tree().map(|tree| look(&tree, &mut names))?;
                let gone = || ("-".into(), format!("#{}", record.queue));
                names.entry(record.queue).or_insert_with(gone);
            }
            let (class, queue) = &names[&record.queue];
            each(&record, class, queue)
        };
        let lock = PathBuf::from(format!(
            "/run/qlinux-trace-{:x}.lock",
            running.constants().major
        ));
        trace::consume(&running.trace_map()?, &lock, last_turn, each)
    }

    /// Records that found the buffer full.
    pub fn trace_lost(&self) -> Result<u64> {
        Ok(self.running().look()?.state.trace_lost)
    }
}

/// Class and name of each queue by its number.
fn look(tree: &Tree, names: &mut HashMap<u32, (String, String)>) {
    let class = |queue: &Queue| queue.leaf.and_then(|leaf| tree.number(leaf));
    for queue in &tree.queues {
        let class = class(queue).map_or("-".into(), |class| class.path.to_string());
        names.insert(queue.id, (class, tree.name(queue)));
    }
}
