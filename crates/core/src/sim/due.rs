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
    let mut got = received(sim, start_ns, window_ns, windows as usize);
    let mut busy = vec![0; sim.classes.len()];
    for th in workload.threads.iter().filter(|th| th.run.is_none()) {
        let class = sim.classes.iter().position(|c| *c == th.class);
        busy[class.expect("a thread's class exists")] += u64::from(th.count);
    }
    let mut all = Vec::new();
    for (i, got) in got.iter_mut().enumerate() {
        let share = divide(workload, sim, &busy, got, window_ns);
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

/// By class, what it should have received in the window in which leaves `got` that.
fn divide(
    workload: &Workload,
    sim: &Simulation,
    busy: &[u64],
    got: &[u64],
    window_ns: u64,
) -> Vec<u64> {
    let nodes = &sim.trace.nodes;
    let (window, most) = (window_ns / UNIT_NS, u64::from(workload.servers));
    let mut could: Vec<u64> = (0..nodes.len())
        .map(|c| match busy[c] {
            0 => got[c] / UNIT_NS,
            threads => threads.min(most) * window,
        })
        .collect();
    let mut runs: Vec<bool> = busy.iter().map(|&threads| threads > 0).collect();
    // Parents come before their children.
    for class in (1..nodes.len()).rev() {
        let parent = nodes[class].parent.expect("only the root has none");
        could[parent] = (could[parent] + could[class]).min(most * window);
        runs[parent] |= runs[class];
    }
    let mut share = could.clone();
    share[0] = got.iter().sum::<u64>() / UNIT_NS;
    for parent in 0..nodes.len() {
        let below = (1..nodes.len()).filter(|&c| nodes[c].parent == Some(parent));
        let (runs, blocks): (Vec<_>, Vec<_>) = below.partition(|&c| runs[c]);
        let used: u64 = blocks.iter().map(|&c| could[c]).sum();
        let weigh = |&c: &usize| Child::new(nodes[c].weights[0].1, could[c]);
        let mut children: Vec<Child> = runs.iter().map(weigh).collect();
        readjust(&mut children, share[parent].saturating_sub(used));
        for (class, child) in runs.into_iter().zip(&children) {
            share[class] = child.share;
        }
    }
    share
}
