// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting threads, and which of them a server is to serve.

use super::machine::{refused, Machine};
use super::SimError;
use crate::sched::Servers;
use crate::NodeId;
use std::collections::HashMap;

/// By domain and leaf: key when they began to wait, thread; in the order in which they came.
pub(super) type Queues<Key> = HashMap<(usize, NodeId), Vec<(Key, usize)>>;

impl<E: Servers> Machine<E> {
    /// The thread that the server is to serve: leaves with none for it are passed over. Of a
    /// leaf it prefers one that it served last, if that is near the first, but for the one
    /// `before`, whose quantum is over, and where a quantum was cut short.
    pub(super) fn choose(
        &mut self,
        server: usize,
        domain: usize,
        before: Option<usize>,
        cut: bool,
    ) -> Result<Option<usize>, SimError> {
        let failed = || refused(self.now, "passing over a class");
        if self.queued[domain] == 0 {
            return Ok(None);
        }
        let (mut thread, mut passed) = (None, None);
        let mut next = self.engines[domain].schedule();
        while let Some(leaf) = next {
            thread = self.first(domain, leaf, server);
            if thread != before && !cut && self.servers.len() > 1 && self.quantum_ns.is_none() {
                thread = self.near(domain, leaf, server, before, thread)?.or(thread);
            }
            if thread.is_some() {
                break;
            }
            passed = self.engines[domain].pass(leaf, passed).map_err(failed())?;
            next = self.engines[domain].schedule_but();
        }
        while let Some(first) = passed {
            passed = self.engines[domain].restore(first).map_err(failed())?;
        }
        Ok(thread)
    }

    pub(super) fn may(&self, thread: usize, server: usize) -> bool {
        let on = &self.threads[thread].spec.on;
        on.as_ref().is_none_or(|on| on.contains(&(server as u32)))
    }

    /// Of the threads that wait in the leaf and may use the server, the one with the least key.
    pub(super) fn first(&self, domain: usize, leaf: NodeId, server: usize) -> Option<usize> {
        let mut best: Option<&(E::Key, usize)> = None;
        for q in self.queue.get(&(domain, leaf)).into_iter().flatten() {
            if self.may(q.1, server) && best.is_none_or(|b| E::before(q.0, b.0)) {
                best = Some(q);
            }
        }
        best.map(|q| q.1)
    }

    /// The first of the leaf's threads that the server served last, and its key is not greater
    /// than the first one's by more than what is near.
    fn near(
        &self,
        domain: usize,
        leaf: NodeId,
        server: usize,
        before: Option<usize>,
        first: Option<usize>,
    ) -> Result<Option<usize>, SimError> {
        let engine = &self.engines[domain];
        let near = engine.near(leaf);
        let near = near.map_err(refused(self.now, "comparing threads"))?;
        let key = |thread: usize| E::key_bits(engine.key(self.threads[thread].id));
        let Some(least) = first.map(key) else {
            return Ok(None);
        };
        let queue = self.queue.get(&(domain, leaf)).into_iter().flatten();
        let last_here = queue.map(|q| q.1).filter(|&thread| {
            let here = self.threads[thread].server == server && self.may(thread, server);
            here && Some(thread) != before
        });
        let found = last_here.filter(|&thread| key(thread).wrapping_sub(least) <= near);
        Ok(found.min_by_key(|&thread| key(thread).wrapping_sub(least)))
    }
}
