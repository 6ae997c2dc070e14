// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the domains' locks would cost: who waits for one waits until all before have had it.
//!
//! The simulated machine itself takes no time for them; what they would take is counted.

use super::workload::Ns;
use serde::{Deserialize, Serialize};

/// What a lock costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LockCosts {
    /// From one processor's release to the next one's grant: the line with the lock changes
    /// caches, within the one that a domain shares. David, Guerraoui and Trigonakis, SOSP 2013,
    /// have measured what that takes on several machines; this is of that order.
    pub pass: Ns,
    /// What is done under it: a wake-up, a charge with the next choice, a beginning. The kernel's
    /// programs take 140 to 1,300 instructions for each, not all of them under the lock.
    pub hold: Ns,
}

impl Default for LockCosts {
    fn default() -> LockCosts {
        LockCosts {
            pass: Ns(100),
            hold: Ns(250),
        }
    }
}

/// What the locks cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LockTimes {
    /// How often one was taken.
    pub taken: u64,
    /// Time until it was granted, over all processors.
    pub waited_ns: u64,
    /// Time under it.
    pub held_ns: u64,
}

/// A lock a domain.
pub(super) struct Locks {
    costs: LockCosts,
    free_ns: Vec<u64>,
    pub(super) times: LockTimes,
}

impl Locks {
    pub(super) fn new(costs: LockCosts, domains: usize) -> Locks {
        Locks {
            costs,
            free_ns: vec![0; domains],
            times: LockTimes::default(),
        }
    }

    /// Somebody takes the domain's lock for so many operations.
    pub(super) fn take(&mut self, domain: usize, now: u64, operations: u64) {
        let held_ns = self.costs.hold.0 * operations;
        let free_ns = &mut self.free_ns[domain];
        self.times.taken += 1;
        self.times.held_ns += held_ns;
        if *free_ns > now {
            // The line comes from the one before, when that is done with it.
            self.times.waited_ns += *free_ns - now + self.costs.pass.0;
            *free_ns += self.costs.pass.0 + held_ns;
        } else {
            *free_ns = now + held_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_later_waits_for_all_before() {
        let costs = LockCosts {
            pass: Ns(10),
            hold: Ns(100),
        };
        let mut locks = Locks::new(costs, 2);
        locks.take(0, 1000, 1); // until 1100
        locks.take(1, 1000, 1); // another domain's
        locks.take(0, 1040, 1); // waits 70, until 1210
        locks.take(0, 1200, 2); // waits 20, until 1420
        locks.take(0, 1420, 1); // free again
        let times = LockTimes {
            taken: 5,
            waited_ns: 90,
            held_ns: 600,
        };
        assert_eq!(locks.times, times);
    }
}
