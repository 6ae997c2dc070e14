// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schedulers of leaf nodes (core/leaf.h) and the length of quanta (core/quantum.h).

use serde::{Deserialize, Serialize};

/// The numbers of core/sfq.h, core/leaf.h and core/quantum.h, which say why they are what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tunables {
    /// Longest a thread of average weight runs while others of its leaf wait.
    pub quantum_ns: u64,
    /// Turn of a thread under [`Policy::Rr`].
    pub rr_quantum_ns: u64,
    /// Service at weight 100 that a returning thread gets ahead of v(t) under [`Policy::Ts`].
    pub ts_credit_ns: u64,
    /// Every runnable leaf gets its share of a period at a time; its least length.
    pub period_min_ns: u64,
    /// Its greatest length.
    pub period_max_ns: u64,
    /// Its length for each runnable leaf, within these limits.
    pub period_leaf_ns: u64,
    /// No quantum is shorter, unless the thread blocks.
    pub least_ns: u64,
    /// Quantum while nobody waits.
    pub alone_ns: u64,
    /// Service a thread may have before one that wakes takes over.
    pub peace_ns: u64,
    /// The most service owed to a flow that could not use its share (core/sfq.h).
    pub lag_ns: u64,
}

/// What core/ was compiled with.
pub fn tunables() -> Tunables {
    // SAFETY: a constant of shim.c, of the size that the layout check compares.
    unsafe { crate::ffi::qcore_tunables }
}

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
    /// Turns.
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
