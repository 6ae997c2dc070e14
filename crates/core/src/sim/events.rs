// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a workload makes happen while the simulated machine runs.

use super::machine::{refused, Machine, State};
use super::workload::Event;
use super::SimError;
use crate::sched::Servers;

impl<E: Servers> Machine<E> {
    /// Does what the workload says happens now.
    pub(super) fn apply(&mut self, event: &Event) -> Result<(), SimError> {
        let now = self.now;
        match event {
            Event::Weight { class, weight, .. } => {
                let c = self.class(class)?;
                let what = format!("weight of {class}");
                self.set_weight(c, *weight).map_err(refused(now, what))?;
                self.sim.trace.nodes[c].weights.push((now, *weight));
            }
            Event::ThreadWeight { thread, weight, .. } => {
                let t = self.thread(thread)?;
                self.set_thread_weight(t, *weight)?;
            }
            Event::Reserve {
                thread, reserve, ..
            } => {
                let t = self.thread(thread)?;
                let id = self.threads[t].id;
                let set = self.each(|engine| engine.reserve(id, *reserve));
                set.map_err(refused(now, format!("reservation of {thread}")))?;
                self.rekey(t)?;
            }
            Event::Priority {
                thread, priority, ..
            } => {
                let t = self.thread(thread)?;
                let id = self.threads[t].id;
                let set = self.each(|engine| engine.set_class(id, priority.0));
                set.map_err(refused(now, format!("priority of {thread}")))?;
                self.rekey(t)?;
            }
            Event::Leaf { class, leaf, .. } => {
                let c = self.class(class)?;
                let what = format!("leaf scheduler of {class}");
                let id = self.leaf(c);
                self.each(|engine| engine.set_policy(id, *leaf))
                    .map_err(refused(now, what))?;
                self.classes[c].unchanged &= self.classes[c].policy == Some(*leaf);
                self.classes[c].policy = Some(*leaf);
            }
            Event::Suspend { class, thread, .. } => self.suspend(class, thread, true)?,
            Event::Resume { class, thread, .. } => self.suspend(class, thread, false)?,
            Event::Create {
                path, weight, leaf, ..
            } => self.create(path, *weight, *leaf)?,
            Event::Delete { class, .. } => {
                let c = self.class(class)?;
                let what = format!("deleting {class}");
                let id = self.leaf(c);
                if let Some(books) = &mut self.ledger {
                    let removed = books.ledger.rmnod(id);
                    removed.map_err(refused(now, what.clone()))?;
                }
                self.each(|engine| engine.rmnod(id))
                    .map_err(refused(now, what))?;
                self.classes[c].id = None;
            }
            Event::Move { thread, class, .. } => {
                let (t, c) = (self.thread(thread)?, self.class(class)?);
                let what = || format!("moving thread {thread} to {class}");
                self.stop(t)?;
                if self.threads[t].state != State::Gone {
                    let id = self.threads[t].id;
                    self.classes[self.threads[t].class].unchanged = false;
                    self.classes[c].unchanged = false;
                    let leaf = self.leaf(c);
                    self.each(|engine| engine.leave(id))
                        .map_err(refused(now, what()))?;
                    self.each(|engine| engine.join(id, leaf))
                        .map_err(refused(now, what()))?;
                    self.threads[t].class = c;
                    self.arrive(t)?;
                }
            }
            Event::Exit { thread, .. } => {
                let t = self.thread(thread)?;
                self.stop(t)?;
                if self.threads[t].state != State::Gone {
                    self.exit(t)?;
                }
            }
        }
        Ok(())
    }

    fn set_thread_weight(&mut self, thread: usize, weight: u32) -> Result<(), SimError> {
        let state = self.threads[thread].state;
        if state == State::Gone {
            return Ok(());
        }
        // The weight moves the key, so a waiting thread is queued anew.
        if state == State::Waiting {
            self.unwait(thread)?;
        }
        let what = format!("weight of thread {}", self.names[thread]);
        let id = self.threads[thread].id;
        let set = self.each(|engine| engine.set_thread_weight(id, weight));
        set.map_err(refused(self.now, what))?;
        let runnable = state != State::Asleep;
        if runnable {
            self.departed(thread);
        }
        self.threads[thread].weights.push((self.now, weight));
        if runnable {
            self.arrived(thread);
        }
        if state == State::Waiting {
            self.wait(thread)?;
        }
        Ok(())
    }

    /// The parameters of a thread changed: one that waits is queued anew.
    fn rekey(&mut self, thread: usize) -> Result<(), SimError> {
        if self.threads[thread].state != State::Waiting {
            return Ok(());
        }
        let what = format!("queueing thread {} anew", self.names[thread]);
        self.unwait(thread)?;
        let th = &self.threads[thread];
        let rekeyed = self.engines[th.domain].rekey(th.id);
        rekeyed.map_err(refused(self.now, what))?;
        self.wait(thread)?;
        self.interrupt(thread)
    }

    fn suspend(
        &mut self,
        class: &Option<String>,
        thread: &Option<String>,
        suspend: bool,
    ) -> Result<(), SimError> {
        match (class, thread) {
            (Some(class), None) => {
                let c = self.class(class)?;
                self.classes[c].suspended = suspend;
            }
            (None, Some(thread)) => {
                let t = self.thread(thread)?;
                self.threads[t].suspended = suspend;
            }
            _ => {
                let what = "suspend and resume name either a class or a thread";
                return Err(SimError::Invalid(what.into()));
            }
        }
        for t in 0..self.threads.len() {
            match self.suspended(t) {
                true => self.stop(t)?,
                false => self.arrive(t)?,
            }
        }
        Ok(())
    }
}
