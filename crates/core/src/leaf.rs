// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schedulers of leaf nodes (core/cpu/leaf.h) and the length of quanta (core/cpu/quantum.h).

use crate::Error;
use serde::{Deserialize, Serialize};

/// The numbers of core/tree/sfq.h, core/cpu/leaf.h and core/cpu/quantum.h, which say why they are what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tunables {
    /// Longest a thread of average weight runs while others of its leaf wait.
    pub quantum_ns: u64,
    /// Turn of a thread under [`Policy::Rr`].
    pub rr_quantum_ns: u64,
    /// Service of a leaf within which all its threads have a turn under [`Policy::Ts`] and
    /// [`Policy::Sfq`], unless turns would be shorter than the least; one turn at weight 100 is
    /// also what a returning thread gets ahead of v(t) under [`Policy::Ts`].
    pub round_ns: u64,
    /// The least.
    pub turn_min_ns: u64,
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
    /// From a peer that wakes, that for each server, up to so many.
    pub peace_servers: u64,
    /// The most service owed to a flow that could not use its share (core/tree/sfq.h).
    pub lag_ns: u64,
    /// Of that, the most that was owed when another flow arrived.
    pub lag_old_ns: u64,
    /// With several servers: a class that wakes may catch up its share of so much of each.
    pub credit_ns: u64,
    /// Longest service at once in a leaf under edf, rm or svr4.
    pub prompt_ns: u64,
    /// With several servers: turns that a class may be ahead when it loses one of them, one of
    /// its leaves being behind.
    pub turns_ahead: u64,
    /// Fewer servers count as that many in what is owed to a flow.
    pub lag_servers: u64,
    /// A thread under `ts` that has saved up so much of its share when it wakes comes early.
    pub rested_ns: u64,
    /// A server prefers a thread that it served last to one that comes before it by less.
    pub near_ns: u64,
    /// So many threads in a row that wake may take over before the one in service has its peace.
    pub eager: u64,
    /// One in so long, in the long run.
    pub calm_ns: u64,
    /// `LEAF_YIELD_NS`: a thread that yields comes as much later as after so much service.
    pub yield_ns: u64,
    /// `SCHED_OTHERS`: so many other servers are asked whether a service ends there.
    pub others: u64,
    /// Several domains: the most that a class is owed or ahead, for each processor that it is
    /// usually entitled to (core/cpu/ledger.h).
    pub ledger_owed_ns: u64,
    /// And besides, however little it is entitled to.
    pub ledger_turns_ns: u64,
    /// So often the domains' accounts are drawn up.
    pub ledger_period_ns: u64,
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
    /// Earliest deadline first; threads with a [`Reservation`] come first.
    Edf = 4,
    /// Rate monotonic: the shortest period, or deadline, first.
    Rm = 5,
    /// The scheduler of System V Release 4, see [`Class`].
    Svr4 = 6,
}

impl Policy {
    /// Every policy, in the order of its number.
    pub const ALL: [Policy; 7] = [
        Policy::Ts,
        Policy::Sfq,
        Policy::Rr,
        Policy::Fifo,
        Policy::Edf,
        Policy::Rm,
        Policy::Svr4,
    ];

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
            Policy::Edf => "edf",
            Policy::Rm => "rm",
            Policy::Svr4 => "svr4",
        }
    }
}

/// What a thread of a leaf under [`Policy::Edf`] or [`Policy::Rm`] is promised: `cost_ns` of service
/// in every `period_ns`, each within `deadline_ns` of asking for it. The papers' C, T and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Reservation {
    pub cost_ns: u64,
    pub period_ns: u64,
    pub deadline_ns: u64,
}

impl Reservation {
    /// The least C, 100 us: no quantum is shorter.
    pub const COST_MIN_NS: u64 = 100_000;
    /// The greatest T, one minute.
    pub const PERIOD_MAX_NS: u64 = 60_000_000_000;

    /// C in every T, due at the end of the period.
    pub fn periodic(cost_ns: u64, period_ns: u64) -> Reservation {
        Reservation {
            cost_ns,
            period_ns,
            deadline_ns: period_ns,
        }
    }

    /// Refuses what core/cpu/leaf.h refuses.
    pub fn check(r: Option<Reservation>) -> Result<(), Error> {
        let fits = |r: Reservation| {
            r.cost_ns >= Reservation::COST_MIN_NS
                && r.cost_ns <= r.deadline_ns
                && r.deadline_ns <= r.period_ns
                && r.period_ns <= Reservation::PERIOD_MAX_NS
        };
        match r {
            Some(r) if !fits(r) => Err(Error::Reservation),
            _ => Ok(()),
        }
    }

    pub(crate) fn c(self) -> i128 {
        self.cost_ns.into()
    }

    pub(crate) fn t(self) -> i128 {
        self.period_ns.into()
    }

    pub(crate) fn d(self) -> i128 {
        self.deadline_ns.into()
    }
}

/// A thread's scheduling class in a leaf under [`Policy::Svr4`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Time sharing.
    #[default]
    Ts,
    /// Interactive.
    Ia,
    /// Real time, with a priority from 0 to 59.
    Rt(u32),
}

impl Class {
    /// The highest real-time priority.
    pub const TOP: u32 = 59;

    /// Refuses what core/cpu/leaf.h refuses.
    pub fn check(self) -> Result<(), Error> {
        match self {
            Class::Rt(priority) if priority > Class::TOP => Err(Error::Priority(priority)),
            _ => Ok(()),
        }
    }

    /// Its number and priority in C.
    pub fn numbers(self) -> (u32, u32) {
        match self {
            Class::Ts => (0, 0),
            Class::Ia => (1, 0),
            Class::Rt(priority) => (2, priority),
        }
    }
}
