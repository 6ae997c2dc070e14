// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each class should have received of a simulated machine.
//!
//! What a fluid server would give. A class is busy when one of its threads, or of those below
//! it, never blocks. Classes that block use what they use; the rest is divided among the busy
//! ones by weight, where none gets more than its threads can use: core/tree/readjust.h.

use super::{Simulation, Workload};
use crate::readjust::{readjust, Child};

/// A leaf with busy threads, in one window of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// Index in [`Simulation::classes`].
    pub class: usize,
    /// When the window begins.
    pub start_ns: u64,
    /// Service that it should have received.
    pub due_ns: u64,
    /// Service that it received.
    pub got_ns: u64,
}

impl Due {
    /// Relative error: 0.01 is one per cent more than it should have received.
    pub fn error(&self) -> f64 {
        self.got_ns as f64 / self.due_ns as f64 - 1.0
    }
}

/// Amounts count microseconds.
const UNIT_NS: u64 = 1000;

/// Of every leaf whose threads never block, in every whole window from `start_ns` on. Weights
/// and threads are those of the beginning.
pub fn due(workload: &Workload, sim: &Simulation, start_ns: u64, window_ns: u64) -> Vec<Due> {
    let windows = workload.duration.0.saturating_sub(start_ns) / window_ns;
    let got = received(sim, start_ns, window_ns, windows as usize);
    let mut busy = vec![0; sim.classes.len()];
    for th in workload.threads.iter().filter(|th| th.run.is_none()) {
        let class = sim.classes.iter().position(|c| *c == th.class);
        busy[class.expect("a thread's class exists")] += u64::from(th.count);
    }
    let mut all = Vec::new();
    for (i, got) in got.iter().enumerate() {
        let part = |class: usize| Part {
            parent: sim.trace.nodes[class].parent.unwrap_or(0),
            weight: sim.trace.nodes[class].weights[0].1,
            most: match busy[class] {
                0 => got[class] / UNIT_NS,
                threads => threads * window_ns / UNIT_NS,
            },
            busy: busy[class] > 0,
        };
        let parts: Vec<Part> = (0..busy.len()).map(part).collect();
        let all_ns: u64 = got.iter().sum();
        let most_ns = u64::from(workload.servers) * window_ns;
        let share = divide(&parts, all_ns / UNIT_NS, most_ns / UNIT_NS);
        let leaves = (0..busy.len()).filter(|&class| busy[class] > 0);
        all.extend(leaves.map(|class| Due {
            class,
            start_ns: start_ns + i as u64 * window_ns,
            due_ns: share[class] * UNIT_NS,
            got_ns: got[class],
        }));
    }
    all
}

/// By window and class, what the threads of leaves received.
fn received(sim: &Simulation, start_ns: u64, window_ns: u64, windows: usize) -> Vec<Vec<u64>> {
    let mut got = vec![vec![0; sim.classes.len()]; windows];
    for r in sim.records.iter().filter(|r| r.change.is_service()) {
        let mut from = r.start_ns.max(start_ns);
        while from < r.end_ns {
            let window = (from - start_ns) / window_ns;
            let upto = (start_ns + (window + 1) * window_ns).min(r.end_ns);
            if let Some(got) = got.get_mut(window as usize) {
                got[r.class] += upto - from;
            }
            from = upto;
        }
    }
    got
}

/// A class in [`divide`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Index of the class above it; the root's is its own.
    pub parent: usize,
    /// Among its siblings.
    pub weight: u32,
    /// The most that its own threads can use; of those that block, what they used.
    pub most: u64,
    /// Whether one of its own threads never blocks.
    pub busy: bool,
}

/// What a fluid server would give each class of `amount`, of which none can use more than `most`.
/// The root is the first, and parents come before their children. Without a busy thread in or below
/// it a class is given what it can use.
pub fn divide(parts: &[Part], amount: u64, most: u64) -> Vec<u64> {
    let mut could: Vec<u64> = parts.iter().map(|part| part.most.min(most)).collect();
    let mut busy: Vec<bool> = parts.iter().map(|part| part.busy).collect();
    for class in (1..parts.len()).rev() {
        let parent = parts[class].parent;
        could[parent] = (could[parent] + could[class]).min(most);
        busy[parent] |= busy[class];
    }
    let mut share = could.clone();
    share[0] = amount;
    for parent in 0..parts.len() {
        let below = (1..parts.len()).filter(|&c| parts[c].parent == parent);
        let (runs, blocks): (Vec<_>, Vec<_>) = below.partition(|&c| busy[c]);
        let used: u64 = blocks.iter().map(|&c| could[c]).sum();
        let child = |&c: &usize| Child::new(parts[c].weight, could[c]);
        let mut children: Vec<Child> = runs.iter().map(child).collect();
        readjust(&mut children, share[parent].saturating_sub(used));
        for (class, child) in runs.into_iter().zip(&children) {
            share[class] = child.share;
        }
    }
    share
}
