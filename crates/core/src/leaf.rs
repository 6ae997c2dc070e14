// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schedulers of leaf nodes (core/leaf.h) and the length of quanta (core/quantum.h).

use serde::{Deserialize, Serialize};

/// Longest a thread of average weight runs while others of its leaf wait.
pub const QUANTUM_NS: u64 = 3_000_000;
/// Turn of a thread under [`Policy::Rr`].
pub const RR_QUANTUM_NS: u64 = 10_000_000;
/// How much service at weight 100 a returning thread gets ahead of v(t) under [`Policy::Ts`].
pub const TS_CREDIT_NS: u64 = 3_000_000;

/// A contended class gets its share of this at a time.
pub const PERIOD_NS: u64 = 20_000_000;
/// No quantum is shorter, unless the thread blocks.
pub const MIN_NS: u64 = 100_000;
/// Quantum while nobody waits.
pub const ALONE_NS: u64 = 20_000_000;
/// Service a thread may have before one that wakes takes over.
pub const PEACE_NS: u64 = 500_000;

/// Who of a leaf's threads is served next. The numbers are part of the kernel interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u32)]
pub enum Policy {
    /// Time sharing: fair by weight, with a bounded favour to threads that slept. The default.
    #[default]
    Ts = 0,
    /// Start-time fair queueing by weight (OSDI'96, section 3).
    Sfq = 1,
    /// Turns of 10 ms.
    Rr = 2,
    /// First come, first served until it blocks.
    Fifo = 3,
}

impl Policy {
    /// Every policy, in the order of its number.
    pub const ALL: [Policy; 4] = [Policy::Ts, Policy::Sfq, Policy::Rr, Policy::Fifo];

    /// The policy with this number.
    pub fn from_number(number: u32) -> Option<Policy> {
        Policy::ALL.get(number as usize).copied()
    }

    /// The name that workload files and the command line use.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Ts => "ts",
            Policy::Sfq => "sfq",
            Policy::Rr => "rr",
            Policy::Fifo => "fifo",
        }
    }
}
