// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bounds that SFQ promises, checked on a trace: of the simulator, or of a kernel.
//!
//! For children f and m of one node, with weights w and longest quanta l
//! (OSDI'96 section 3; W(t₁,t₂) is the service received):
//!
//! * **Fairness**, on any server, while both are runnable:
//!   `|W_f/w_f − W_m/w_m| ≤ l_f/w_f + l_m/w_m`. On P servers P+1 times that
//!   (SFQ(D)), while threads of both wait and once each was chosen since. Several trees and a
//!   ledger (core/cpu/ledger.h) keep an account of each node, c processors' worth of service in
//!   the mean: in debt or credit by at most o·c and some turns, whatever else was served since
//!   it was drawn up. So `(2·o·c_f + s)/w_f + (2·o·c_m + s)/w_m` comes on top, with
//!   o = [`Options::owed_ns`] and twice those turns in s = [`Options::slack_ns`].
//! * **Throughput**, if the node is served at rate C but for δ:
//!   `W_f ≥ r_f(t₂−t₁) − r_f·Σl_n/C − r_f·δ/C − l_f` while f is runnable,
//!   with `r_f = C·w_f/Σw`. So f in turn is served at rate r_f but for δ_f,
//!   and the bound applies below it.
//! * **Delay**: quantum j of f is done by `EAT(j) + Σ_{n≠f} l_n/C + l_j/C + δ/C`,
//!   with `EAT(j) = max{A(j), EAT(j−1) + l(j−1)/r_f}`.
//!
//! All intervals in which the premises hold are covered, those that begin or
//! end within a quantum too. Weights are constant within an interval; where one
//! changes, a new interval begins. Throughput and delay are claimed for one
//! server only. Siblings that are never runnable between two changes of weights
//! take no part in Σw and Σl.
//!
//! ```
//! use qlinux_core::bounds::{check, Interval, Node, Options, Quantum, Trace};
//!
//! let ms = 1_000_000;
//! let child = |name: &str| Node { name: name.into(), parent: Some(0), weights: vec![(0, 1)] };
//! let mut trace = Trace {
//!     servers: 1,
//!     end_ns: 40 * ms,
//!     fresh: true,
//!     nodes: vec![Node { parent: None, ..child("/") }, child("/a"), child("/b")],
//!     runnable: (1..3).map(|node| Interval { node, start_ns: 0, end_ns: 40 * ms }).collect(),
//!     quanta: (0..4)
//!         .map(|i| Quantum::new(1 + i % 2, i as u64 * 10 * ms, (i as u64 + 1) * 10 * ms))
//!         .collect(),
//!     ..Trace::default()
//! };
//! assert!(check(&trace, &Options::default()).violations.is_empty());
//! trace.quanta[1].node = 1; // three in a row for /a
//! trace.quanta[3].node = 1;
//! assert!(!check(&trace, &Options::default()).violations.is_empty());
//! ```

mod fairness;
mod index;
mod service;

use index::Index;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What happened. Times are in ns on one clock.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Trace {
    /// Processors (or links) that serve at the same time.
    pub servers: u32,
    /// When recording began.
    pub start_ns: u64,
    /// When recording ended.
    pub end_ns: u64,
    /// Nothing was served before `start_ns`, so no tag was ahead then.
    pub fresh: bool,
    /// The tree. Quanta and intervals name nodes by their place here.
    pub nodes: Vec<Node>,
    /// Service, in any order. Of nodes without children.
    pub quanta: Vec<Quantum>,
    /// When a node without children was runnable, in any order. Intervals that
    /// overlap are one, those that only touch are two.
    pub runnable: Vec<Interval>,
    /// When a thread of it waited. Needed for more than one server only.
    #[serde(default)]
    pub waiting: Vec<Interval>,
}

/// A node of the traced tree: a class, or a thread of a leaf scheduled by SFQ.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Node {
    /// Its path, for explanations.
    pub name: String,
    /// `None` for the root only.
    pub parent: Option<usize>,
    /// Its weight from each time on, by time; the first entry holds before, too.
    pub weights: Vec<(u64, u32)>,
}

/// One uninterrupted service, charged at its end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct Quantum {
    /// Who was served.
    pub node: usize,
    /// By which server.
    pub server: u32,
    /// Taken into service.
    pub start_ns: u64,
    /// End of service.
    pub end_ns: u64,
    /// Service charged; less than the time if the server was interrupted.
    pub served_ns: u64,
}

impl Quantum {
    /// A quantum of server 0, charged in full.
    pub fn new(node: usize, start_ns: u64, end_ns: u64) -> Quantum {
        Quantum {
            node,
            server: 0,
            start_ns,
            end_ns,
            served_ns: end_ns - start_ns,
        }
    }
}

/// Time during which something held for a node.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct Interval {
    /// For which node.
    pub node: usize,
    /// From when on.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
}

/// What the servers are, and what else to check.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// C: service per ns of each server, 1 for a processor that is ours alone.
    pub rate: f64,
    /// δ: service a server may fall short of C·t, in ns: interrupts, switching.
    pub delta_ns: u64,
    /// Added to every bound, in ns of service: inaccuracy of the recorded times.
    pub slack_ns: u64,
    /// Several domains: what a node may be owed or ahead at any time, in ns of service for each
    /// server that it has in the mean. 0: one tree.
    #[serde(default)]
    pub owed_ns: u64,
    /// No quantum may be longer. The bounds themselves follow the longest seen.
    pub quantum_max_ns: Option<u64>,
}

impl Default for Options {
    /// An ideal server.
    fn default() -> Self {
        Options {
            rate: 1.0,
            delta_ns: 0,
            slack_ns: 0,
            owed_ns: 0,
            quantum_max_ns: None,
        }
    }
}

impl Options {
    /// Of ideal servers in several domains, of which a ledger keeps accounts.
    pub fn ledger(servers: u32) -> Options {
        let t = crate::leaf::tunables();
        Options {
            slack_ns: 2 * t.ledger_turns_ns + t.ledger_period_ns * u64::from(servers),
            owed_ns: t.ledger_owed_ns,
            ..Options::default()
        }
    }
}

/// What is promised.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Siblings' service in proportion to their weights.
    Fairness,
    /// A share of the parent's rate.
    Throughput,
    /// A latest end for every quantum.
    Delay,
    /// No server idle while a thread waits.
    Work,
    /// The longest quantum allowed.
    Quantum,
    /// The trace contradicts itself, so nothing can be concluded.
    Trace,
}

/// How close something came to its bound.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Finding {
    /// Which bound.
    pub kind: Kind,
    /// What was seen, in ns: of service per unit of weight for fairness, else of time or service.
    pub observed: f64,
    /// What is allowed, in the same unit.
    pub bound: f64,
    /// From where on.
    pub start_ns: u64,
    /// Until where.
    pub end_ns: u64,
    /// Who, in words.
    pub what: String,
}

impl Finding {
    /// Observed by allowed; above 1 is a violation.
    pub fn ratio(&self) -> f64 {
        if self.bound > 0.0 {
            self.observed / self.bound
        } else if self.observed > 0.0 {
            f64::INFINITY
        } else {
            0.0
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            Kind::Fairness => "fairness",
            Kind::Throughput => "throughput",
            Kind::Delay => "delay",
            Kind::Work => "work conservation",
            Kind::Quantum => "quantum",
            Kind::Trace => return write!(f, "trace: {}", self.what),
        };
        write!(
            f,
            "{name}: {} from {:.6} s to {:.6} s: {:.0} ns, allowed {:.0} ns",
            self.what,
            self.start_ns as f64 / 1e9,
            self.end_ns as f64 / 1e9,
            self.observed,
            self.bound
        )
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Everything beyond its bound, at most [`Report::KEPT`] of each kind.
    pub violations: Vec<Finding>,
    /// Violations in all, those not kept included.
    pub violations_total: u64,
    /// Of each kind, what came closest to its bound.
    pub tightest: Vec<Finding>,
    /// Intervals and quanta compared with a bound.
    pub compared: u64,
}

impl Report {
    /// Violations of each kind kept with their explanation.
    pub const KEPT: usize = 20;

    /// What came closest to this kind of bound.
    pub fn tightest(&self, kind: Kind) -> Option<&Finding> {
        self.tightest.iter().find(|f| f.kind == kind)
    }

    /// `what` is only asked for if the finding is kept.
    fn add(
        &mut self,
        kind: Kind,
        (observed, bound): (f64, f64),
        (start_ns, end_ns): (u64, u64),
        what: impl FnOnce() -> String,
    ) {
        self.compared += 1;
        let mut finding = Finding {
            kind,
            observed,
            bound,
            start_ns,
            end_ns,
            what: String::new(),
        };
        let violated = observed > bound;
        let seen = self.violations.iter().filter(|v| v.kind == kind).count();
        let place = self.tightest.iter().position(|f| f.kind == kind);
        let tighter = place.is_none_or(|i| finding.ratio() > self.tightest[i].ratio());
        self.violations_total += u64::from(violated);
        let keep = violated && seen < Self::KEPT;
        if !keep && !tighter {
            return;
        }
        finding.what = what();
        if keep {
            self.violations.push(finding.clone());
        }
        match place {
            Some(i) if tighter => self.tightest[i] = finding,
            None => self.tightest.push(finding),
            _ => {}
        }
    }
}

/// Compares a trace with everything that is promised for it.
pub fn check(trace: &Trace, options: &Options) -> Report {
    let mut report = Report::default();
    let index = match Index::new(trace) {
        Ok(index) => index,
        Err(what) => {
            let span = (trace.start_ns, trace.end_ns);
            report.add(Kind::Trace, (1.0, 0.0), span, || what);
            return report;
        }
    };
    if let Some(max) = options.quantum_max_ns {
        for q in &trace.quanta {
            let lengths = (q.served_ns as f64, max as f64);
            report.add(Kind::Quantum, lengths, (q.start_ns, q.end_ns), || {
                format!("{} is served without a pause", trace.nodes[q.node].name)
            });
        }
    }
    fairness::check(&index, options, &mut report);
    service::check(&index, options, &mut report);
    report
}
