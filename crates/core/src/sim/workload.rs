// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workload files: what the simulator simulates. Described in docs/simulator.md.

use super::locks::LockCosts;
use super::SimError;
use crate::{Policy, Reservation, LENGTH_MAX_NS, WEIGHTS};
use serde::{Deserialize, Deserializer};
use std::path::Path;

/// A time or a length of time, written like `250ms` or `1s 500us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ns(pub u64);

impl<'de> Deserialize<'de> for Ns {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Ns, D::Error> {
        let text = String::deserialize(d)?;
        let refuse = |why: String| {
            serde::de::Error::custom(format!("'{text}' is no time: {why}; write one like '20ms'"))
        };
        let time = humantime::parse_duration(&text).map_err(|e| refuse(e.to_string()))?;
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if ns > 1000 * LENGTH_MAX_NS {
            return Err(refuse("it is longer than 50 days".into()));
        }
        Ok(Ns(ns))
    }
}

/// A length of time: fixed, or uniformly distributed between two (both included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Shortest.
    pub least: Ns,
    /// Longest.
    pub most: Ns,
}

impl Span {
    /// Always this long.
    pub fn fixed(ns: u64) -> Span {
        Span {
            least: Ns(ns),
            most: Ns(ns),
        }
    }

    /// Anything between the two.
    pub fn between(least_ns: u64, most_ns: u64) -> Span {
        Span {
            least: Ns(least_ns),
            most: Ns(most_ns),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a time like '20ms' or two like ['5ms', '20ms']")]
        enum Either {
            One(String),
            Two([String; 2]),
        }
        let ns = |text: String| {
            Ns::deserialize(serde::de::value::StringDeserializer::<D::Error>::new(text))
        };
        let (least, most) = match Either::deserialize(d)? {
            Either::One(text) => (ns(text.clone())?, ns(text)?),
            Either::Two([a, b]) => (ns(a)?, ns(b)?),
        };
        if least > most {
            return Err(serde::de::Error::custom(
                "the shorter of two times comes first",
            ));
        }
        Ok(Span { least, most })
    }
}

fn time<E: serde::de::Error>(text: &str) -> Result<u64, E> {
    let deserializer = serde::de::value::StrDeserializer::<E>::new(text);
    Ns::deserialize(deserializer).map(|ns| ns.0)
}

impl<'de> Deserialize<'de> for Reservation {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Reservation, D::Error> {
        let text = String::deserialize(d)?;
        let times: Vec<u64> = text
            .split('/')
            .map(|part| time(part.trim()))
            .collect::<Result<_, D::Error>>()?;
        let r = match times[..] {
            [c, t] => Reservation::periodic(c, t),
            [cost_ns, period_ns, deadline_ns] => Reservation {
                cost_ns,
                period_ns,
                deadline_ns,
            },
            _ => {
                let what = format!("'{text}' is no reservation: write C/T or C/T/D like 5ms/30ms");
                return Err(serde::de::Error::custom(what));
            }
        };
        Reservation::check(Some(r)).map_err(serde::de::Error::custom)?;
        Ok(r)
    }
}

/// A scheduling class under svr4, written `ts`, `ia`, or `rt:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Svr4(pub crate::Class);

impl<'de> Deserialize<'de> for Svr4 {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Svr4, D::Error> {
        let text = String::deserialize(d)?;
        let class = match text.as_str() {
            "ts" => Some(crate::Class::Ts),
            "ia" => Some(crate::Class::Ia),
            other => other
                .strip_prefix("rt:")
                .and_then(|n| n.parse().ok())
                .map(crate::Class::Rt)
                .filter(|c| c.check().is_ok()),
        };
        class.map(Svr4).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "'{text}' is no class: write ts, ia, or rt:0 to rt:59"
            ))
        })
    }
}

/// A whole workload. Every default is that of the file format.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Simulated time.
    pub duration: Ns,
    /// Processors, 1 to 512.
    #[serde(default = "one")]
    pub servers: u32,
    /// Domains that the processors are divided into, evenly, each with a tree of its own; the
    /// ledger (core/cpu/ledger.h) keeps the whole exact. Up to 64, and no more than processors.
    #[serde(default = "one")]
    pub domains: u32,
    /// A fixed quantum; without it quanta are those of core/cpu/quantum.h.
    pub quantum: Option<Ns>,
    /// Whether a thread that wakes may end a quantum. Default: unless quanta are fixed.
    pub preempt: Option<bool>,
    /// How late a quantum ends unless its thread blocks before, as timers and interrupts
    /// make it. Default: not at all.
    pub late: Option<Span>,
    /// What the domains' locks cost.
    #[serde(default)]
    pub lock: LockCosts,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// The tree, parents before children. The root exists.
    #[serde(default, rename = "class")]
    pub classes: Vec<Class>,
    /// Who runs.
    #[serde(default, rename = "thread")]
    pub threads: Vec<Thread>,
    /// What happens meanwhile.
    #[serde(default, rename = "event")]
    pub events: Vec<Event>,
}

fn one() -> u32 {
    1
}

fn hundred() -> u32 {
    100
}

/// A node of the tree.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// `/a/b` is `b` below `/a`.
    pub path: String,
    /// 1 … 10000
    #[serde(default = "hundred")]
    pub weight: u32,
    /// Its scheduler if it is a leaf; without, it is an inner node.
    pub leaf: Option<Policy>,
}

/// A thread, or several alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Default: its class and a number. Of several, a number is added.
    pub name: Option<String>,
    /// Path of its leaf.
    pub class: String,
    /// 1 … 10000, within its leaf.
    #[serde(default = "hundred")]
    pub weight: u32,
    /// How many alike.
    #[serde(default = "one")]
    pub count: u32,
    /// Servers that may serve it; without, all.
    pub on: Option<Vec<u32>>,
    /// When it first becomes runnable.
    #[serde(default)]
    pub start: Ns,
    /// It exits after this much service.
    pub work: Option<Ns>,
    /// Service it needs before it blocks; without, it never blocks.
    pub run: Option<Span>,
    /// How long it blocks after `run`.
    pub sleep: Option<Span>,
    /// Or: `run` is needed once in every period of this length.
    pub every: Option<Ns>,
    /// Reservation `C/T` or `C/T/D` under edf and rm, like `5ms/30ms`.
    pub reserve: Option<Reservation>,
    /// Scheduling class under svr4: `ts`, `ia`, or `rt:N`.
    pub priority: Option<Svr4>,
    /// Or: alternating service and sleep, beginning with service; it exits after the last.
    pub phases: Option<Vec<Ns>>,
}

/// Something that happens at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)] // docs/simulator.md lists them
pub enum Event {
    Weight {
        at: Ns,
        class: String,
        weight: u32,
    },
    ThreadWeight {
        at: Ns,
        thread: String,
        weight: u32,
    },
    Reserve {
        at: Ns,
        thread: String,
        reserve: Option<Reservation>,
    },
    Priority {
        at: Ns,
        thread: String,
        priority: Svr4,
    },
    Leaf {
        at: Ns,
        class: String,
        leaf: Policy,
    },
    Suspend {
        at: Ns,
        class: Option<String>,
        thread: Option<String>,
    },
    Resume {
        at: Ns,
        class: Option<String>,
        thread: Option<String>,
    },
    Create {
        at: Ns,
        path: String,
        weight: u32,
        leaf: Option<Policy>,
    },
    Delete {
        at: Ns,
        class: String,
    },
    Move {
        at: Ns,
        thread: String,
        class: String,
    },
    Exit {
        at: Ns,
        thread: String,
    },
}

impl Event {
    /// When it happens.
    pub fn at(&self) -> Ns {
        match self {
            Event::Weight { at, .. }
            | Event::ThreadWeight { at, .. }
            | Event::Reserve { at, .. }
            | Event::Priority { at, .. }
            | Event::Leaf { at, .. }
            | Event::Suspend { at, .. }
            | Event::Resume { at, .. }
            | Event::Create { at, .. }
            | Event::Delete { at, .. }
            | Event::Move { at, .. }
            | Event::Exit { at, .. } => *at,
        }
    }
}

impl Workload {
    /// Reads a workload file.
    pub fn read(path: &Path) -> Result<Workload, SimError> {
        let io = |source| SimError::Io {
            path: path.to_owned(),
            source,
        };
        let text = std::fs::read_to_string(path).map_err(io)?;
        text.parse().map_err(|e| match e {
            SimError::Syntax { source, .. } => SimError::Syntax {
                what: path.display().to_string(),
                source,
            },
            other => other,
        })
    }

    fn validate(&self) -> Result<(), SimError> {
        let refuse = |what: String| Err(SimError::Invalid(what));
        if !(1..=512).contains(&self.servers) {
            return refuse(format!("servers = {} is not 1 to 512", self.servers));
        }
        if !(1..=self.servers.min(crate::ledger::DOMAINS_MAX)).contains(&self.domains) {
            let most = self.servers.min(crate::ledger::DOMAINS_MAX);
            return refuse(format!("domains = {} is not 1 to {most}", self.domains));
        }
        if self.duration.0 == 0 || self.quantum == Some(Ns(0)) {
            return refuse("duration and quantum must be longer than nothing".into());
        }
        for c in &self.classes {
            if !c.path.starts_with('/') || c.path.contains([',', '"', '\n']) {
                return refuse(format!(
                    "class path '{}' must begin with / and hold no , or \"",
                    c.path
                ));
            }
        }
        for t in &self.threads {
            let who = t.name.as_deref().unwrap_or(&t.class);
            if !WEIGHTS.contains(&t.weight) {
                return refuse(format!(
                    "thread {who}: weight {} is not 1 to 10000",
                    t.weight
                ));
            }
            if who.contains([',', '"', '\n']) {
                return refuse(format!("thread name '{who}' must not hold , or \""));
            }
            let blocks = usize::from(t.sleep.is_some()) + usize::from(t.every.is_some());
            let patterns_clash = match (&t.phases, t.run) {
                (Some(phases), None) => blocks > 0 || phases.is_empty(),
                (Some(_), Some(_)) => true,
                (None, Some(_)) => blocks != 1,
                (None, None) => blocks > 0,
            };
            if patterns_clash {
                return refuse(format!(
                    "thread {who}: give run with either sleep or every, or phases alone, or none"
                ));
            }
            let on = t.on.iter().flatten();
            if t.on.as_ref().is_some_and(Vec::is_empty) || on.clone().any(|&s| s >= self.servers) {
                return refuse(format!(
                    "thread {who}: on must name servers from 0 to {}, at least one",
                    self.servers - 1
                ));
            }
            let too_short = t.run.is_some_and(|r| r.least.0 == 0) || t.every == Some(Ns(0));
            let run_phases = t.phases.iter().flatten().step_by(2);
            if too_short || t.work == Some(Ns(0)) || run_phases.into_iter().any(|p| p.0 == 0) {
                return refuse(format!("thread {who}: service and periods must not be 0"));
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Workload {
    type Err = SimError;

    fn from_str(text: &str) -> Result<Workload, SimError> {
        let workload: Workload = toml::from_str(text).map_err(|source| SimError::Syntax {
            what: "the workload".into(),
            source: Box::new(source),
        })?;
        workload.validate()?;
        Ok(workload)
    }
}
