// SPDX-License-Identifier: MIT OR Apache-2.0
//! What single threads are promised: reservations under `edf` and `rm`, classes under `svr4`.

use crate::admit::{admit, Answer, Level, Quanta, Supply, Test, Witness};
use crate::cgroup::Kind;
use crate::class::{Classes, Scheduler};
use crate::intf::CtlThread;
use crate::{ClassPath, Error, Leaf, Result};
use serde::Serialize;
use std::fmt;

/// Part of the time that interrupts and the kernel's threads are taken to need: one in so many.
const LOST: u32 = 50;
/// For how long they may keep the processor at once, and how late a timer may be.
const LOST_NS: u64 = 2_000_000;
/// Weight of the leaf that holds a class's own threads, beside its child classes.
const OWN_LEAF: u32 = 100;

/// Of every T, C of service within D of asking for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reservation {
    /// C
    pub cost_ns: u64,
    /// T
    pub period_ns: u64,
    /// D
    pub deadline_ns: u64,
}

impl Reservation {
    /// Least C.
    pub const COST_MIN_NS: u64 = 100_000;
    /// Greatest T.
    pub const PERIOD_MAX_NS: u64 = 60_000_000_000;

    /// C of every T, within D of asking for it.
    pub fn new(cost_ns: u64, period_ns: u64, deadline_ns: u64) -> Result<Reservation> {
        let fits = cost_ns >= Self::COST_MIN_NS
            && cost_ns <= deadline_ns
            && deadline_ns <= period_ns
            && period_ns <= Self::PERIOD_MAX_NS;
        let reservation = Reservation {
            cost_ns,
            period_ns,
            deadline_ns,
        };
        match fits {
            true => Ok(reservation),
            false => Err(Error::Reservation {
                given: reservation.to_string(),
            }),
        }
    }

    /// C / T
    pub fn utilisation(&self) -> f64 {
        self.cost_ns as f64 / self.period_ns as f64
    }

    /// That of a thread, if it has one.
    pub fn of(thread: &CtlThread) -> Option<Reservation> {
        (thread.cost_ns > 0).then_some(Reservation {
            cost_ns: thread.cost_ns,
            period_ns: thread.period_ns,
            deadline_ns: thread.deadline_ns,
        })
    }
}

/// `5ms`, `250us`, `1.5s`; nanoseconds without a unit do not exist.
pub(crate) fn time(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let ns = number.trim().parse::<f64>().ok()? * factor;
    (0.0..1e15).contains(&ns).then_some(ns.round() as u64)
}

/// A time as people write it.
pub fn shown(ns: u64) -> String {
    let round = |n: f64| {
        let text = format!("{n:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    match ns {
        0..1_000_000 => round(ns as f64 / 1e3) + "us",
        1_000_000..1_000_000_000 => round(ns as f64 / 1e6) + "ms",
        _ => round(ns as f64 / 1e9) + "s",
    }
}

impl std::str::FromStr for Reservation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Reservation> {
        let refuse = || Error::Reservation { given: text.into() };
        let times: Vec<u64> = text
            .split('/')
            .map(|part| time(part.trim()).ok_or_else(refuse))
            .collect::<Result<_>>()?;
        let (cost_ns, period_ns, deadline_ns) = match times[..] {
            [c, t] => (c, t, t),
            [c, t, d] => (c, t, d),
            _ => return Err(refuse()),
        };
        Reservation::new(cost_ns, period_ns, deadline_ns).map_err(|_| refuse())
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", shown(self.cost_ns), shown(self.period_ns))?;
        if self.deadline_ns < self.period_ns {
            write!(f, "/{}", shown(self.deadline_ns))?;
        }
        Ok(())
    }
}

/// A thread's scheduling class in a class under `svr4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Time sharing by nice value, the default.
    Ts,
    /// Interactive.
    Ia,
    /// Real time; 59 goes first.
    Rt(u32),
}

impl Priority {
    /// Its numbers in the kernel interface.
    pub fn numbers(self) -> (u32, u32) {
        match self {
            Priority::Ts => (0, 0),
            Priority::Ia => (1, 0),
            Priority::Rt(priority) => (2, priority),
        }
    }

    /// That of a thread.
    pub fn of(thread: &CtlThread) -> Priority {
        match thread.class {
            1 => Priority::Ia,
            2 => Priority::Rt(thread.priority),
            _ => Priority::Ts,
        }
    }
}

impl std::str::FromStr for Priority {
    type Err = Error;

    fn from_str(text: &str) -> Result<Priority> {
        let refuse = || Error::Priority { given: text.into() };
        match text.split_once(':') {
            None if text == "ts" => Ok(Priority::Ts),
            None if text == "ia" => Ok(Priority::Ia),
            Some(("rt", number)) => match number.parse() {
                Ok(priority @ 0..=59) => Ok(Priority::Rt(priority)),
                _ => Err(refuse()),
            },
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Priority::Ts => write!(f, "ts"),
            Priority::Ia => write!(f, "ia"),
            Priority::Rt(priority) => write!(f, "rt:{priority}"),
        }
    }
}

/// What of a thread is to change.
#[derive(Clone, Copy, Debug)]
pub enum Param {
    /// Its reservation; `None` takes it away.
    Reservation(Option<Reservation>),
    /// Its scheduling class.
    Priority(Priority),
}

/// What is known of a thread, for people.
#[derive(Clone, Debug, Serialize)]
pub struct ShownThread {
    /// Its id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Its weight in its leaf.
    pub weight: u32,
    /// What it is promised under edf and rm.
    pub reservation: Option<Reservation>,
    /// Its deadlines that passed unmet.
    pub misses: u64,
    /// What it is under svr4.
    pub priority: Priority,
    /// Service since the scheduler knows it.
    pub served_ns: u64,
}

impl<S: Scheduler> Classes<S> {
    /// Where the thread is, and what the scheduler knows of it.
    pub fn thread(&self, tid: i32) -> Result<(ClassPath, CtlThread)> {
        let thread = self.scheduler.thread(tid, 0)?;
        match self.fs.path_of(thread.cgroup_id) {
            Some(path) => Ok((path, thread)),
            None => Err(Error::NoThread { tid }),
        }
    }

    /// The class's own threads.
    pub fn threads(&self, path: &ClassPath) -> Result<Vec<ShownThread>> {
        let mut threads = Vec::new();
        let tids = self.fs.threads(path);
        for tid in tids.map_err(|e| Error::io("reading", &self.fs.directory(path), e))? {
            // One that has ended meanwhile is not there.
            let Ok(thread) = self.scheduler.thread(tid, 0) else {
                continue;
            };
            let name = std::fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
            threads.push(ShownThread {
                tid,
                name: name.trim_end().into(),
                weight: thread.weight,
                reservation: Reservation::of(&thread),
                misses: thread.misses,
                priority: Priority::of(&thread),
                served_ns: thread.served_ns,
            });
        }
        Ok(threads)
    }

    /// Whether the class's reservations fit into its share when this thread has that one (`None`:
    /// none). The thread need not be in the class yet. Answers are in the order of the threads.
    pub fn admit(
        &self,
        path: &ClassPath,
        tid: i32,
        wanted: Option<Reservation>,
    ) -> Result<(Answer, Vec<(i32, Reservation)>)> {
        let leaf = Leaf::from_number(self.node(path)?.policy);
        let test = match leaf.map(Leaf::name) {
            Some("edf") => Test::Edf,
            Some("rm") => Test::Rm,
            _ => {
                return Err(Error::NoReservations {
                    path: path.to_string(),
                    leaf: leaf.map_or("?", Leaf::name).into(),
                })
            }
        };
        let mut all: Vec<(i32, Reservation)> = self
            .threads(path)?
            .iter()
            .filter(|t| t.tid != tid)
            .filter_map(|t| Some((t.tid, t.reservation?)))
            .collect();
        all.extend(wanted.map(|r| (tid, r)));
        let reservations: Vec<_> = all.iter().map(|(_, r)| *r).collect();
        let supply = self.supply(path, reservations.len())?;
        Ok((admit(test, supply, &reservations), all))
    }

    /// What is surely the class's, whatever all others do.
    fn supply(&self, path: &ClassPath, threads: usize) -> Result<Supply> {
        let weight = |p: &ClassPath| self.fs.weight(p).map_or(100, |w| w.get());
        let mut levels = Vec::new();
        for at in path.ancestors().into_iter().chain([path.clone()]) {
            let Some(parent) = at.parent() else {
                continue;
            };
            let others = self.fs.children(&parent)?.into_iter().filter(|c| *c != at);
            let mut siblings: Vec<u32> = others.map(|c| weight(&c)).collect();
            // Threads of the class above: only the root, and threaded classes, have them beside children.
            if parent.is_root() || self.fs.kind(&at) == Kind::Threaded {
                siblings.push(OWN_LEAF);
            }
            levels.push(Level {
                weight: weight(&at),
                siblings,
                own: at == *path && self.fs.children(path)?.is_empty(),
            });
        }
        let children = self.fs.children(path)?;
        levels.push(Level {
            weight: OWN_LEAF,
            siblings: children.iter().map(weight).collect(),
            own: true,
        });
        let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
        let processors = online.ok().flatten().map_or(1, |n| n as u32);
        let quanta = Quanta::new(self.fs.walk(&ClassPath::root()).len() + 2, processors);
        let processor = Supply::processor(Some(LOST), LOST_NS + quanta.least_ns);
        Ok(processor
            .along(&levels, &quanta)
            .parallel(processors, threads))
    }

    /// Gives a thread of a class under svr4 a scheduling class.
    pub fn set_priority(&self, path: &ClassPath, tid: i32, priority: Priority) -> Result<()> {
        self.require_member(path, tid)?;
        let leaf = Leaf::from_number(self.node(path)?.policy).map_or("?", Leaf::name);
        if leaf != "svr4" {
            return Err(Error::NoPriorities {
                path: path.to_string(),
                leaf: leaf.into(),
            });
        }
        self.scheduler
            .set_param(tid, &Param::Priority(priority))
            .map(drop)
    }

    /// Gives a thread a reservation, or takes it away. Refused where the class's share does not
    /// suffice, unless `force`.
    pub fn reserve(
        &self,
        tid: i32,
        wanted: Option<Reservation>,
        force: bool,
    ) -> Result<Option<Answer>> {
        let (path, _) = self.thread(tid)?;
        let mut answer = None;
        if let Some(reservation) = wanted {
            let (found, all) = self.admit(&path, tid, wanted)?;
            if !found.admitted && !force {
                return Err(Error::NotAdmitted {
                    reservation,
                    path: path.to_string(),
                    why: explain(&found, &all),
                });
            }
            answer = Some(found);
        }
        self.scheduler
            .set_param(tid, &Param::Reservation(wanted))
            .map(|_| answer)
    }
}

/// The numbers behind a no, as the part of a sentence.
pub fn explain(answer: &Answer, threads: &[(i32, Reservation)]) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let share = format!(
        "its share is {} of a CPU, up to {} late",
        percent(answer.share),
        shown(answer.delay_ns)
    );
    match answer.witness {
        None | Some(Witness::Overload) => {
            format!(
                "{share}, and its threads reserve {}",
                percent(answer.utilisation)
            )
        }
        Some(Witness::Demand {
            interval_ns,
            demand_ns,
            supply_ns,
        }) => format!(
            "{share}, and within {} its threads can want {} where only {} is sure",
            shown(interval_ns),
            shown(demand_ns),
            shown(supply_ns)
        ),
        Some(Witness::Response {
            thread,
            response_ns,
        }) => {
            let (tid, r) = threads[thread];
            format!(
                "{share}, and thread {tid} ({r}) may need {} for what is due after {}",
                shown(response_ns),
                shown(r.deadline_ns)
            )
        }
        Some(Witness::Undecided) => format!(
            "{share}, which is too close to the {} that its threads reserve",
            percent(answer.utilisation)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_read_and_written() {
        let r: Reservation = "5ms/30ms".parse().unwrap();
        assert_eq!((r.cost_ns, r.period_ns), (5_000_000, 30_000_000));
        assert_eq!(r.to_string(), "5ms/30ms");
        let r: Reservation = "1.5ms/1s/250ms".parse().unwrap();
        assert_eq!(r.deadline_ns, 250_000_000);
        assert_eq!(r.to_string(), "1.5ms/1s/250ms");
        for wrong in [
            "",
            "5ms",
            "5/30",
            "30ms/5ms",
            "5ms/30ms/2ms",
            "5ms/30ms/40ms",
            "99us/1ms",
            "1s/61s",
            "5ms/30ms/20ms/1ms",
            "-5ms/30ms",
            "nanms/1s",
            "5min/1s",
        ] {
            assert!(wrong.parse::<Reservation>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn priorities_are_read_and_written() {
        for text in ["ts", "ia", "rt:0", "rt:59"] {
            assert_eq!(text.parse::<Priority>().unwrap().to_string(), text);
        }
        for wrong in ["", "rt", "rt:60", "rt:-1", "ts:1", "xx"] {
            assert!(wrong.parse::<Priority>().is_err(), "{wrong}");
        }
    }
}
