// SPDX-License-Identifier: MIT OR Apache-2.0
//! The leaf schedulers whose keys are times and priorities: edf, rm and svr4.

use super::{Member, Model};
use crate::leaf::{Class, Policy, Reservation};
use crate::LENGTH_MAX_NS;

/// A thread without a reservation waits behind all that have one.
const BACKGROUND_NS: i128 = 1 << 44;
/// A thread that overruns is not put off further than that.
const POSTPONE_NS: i128 = 1 << 38;
const WAIT_NS: i128 = 1_000_000_000;

/// What these schedulers keep for each thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Job {
    /// Its deadline; `None`: there was no job yet.
    due: Option<i128>,
    /// The last deadline counted as missed.
    missed: Option<i128>,
    pub misses: u64,
    /// Its priority under svr4; `None`: it never ran there.
    level: Option<i128>,
}

/// What a thread's key, budget and job would become.
#[derive(Clone, Copy)]
struct Next {
    place: i128,
    left_ns: i128,
    job: Job,
}

/// The dispatch table of SVR4 by tens of priorities, in milliseconds.
fn svr4_quantum(class: Class, level: i128) -> i128 {
    let ms = match (class, level) {
        (Class::Rt(_), 0..50) => 1000 - level / 10 * 200,
        (Class::Rt(_), _) => 100,
        (_, 59) => 20,
        (_, 0..50) => 200 - level / 10 * 40,
        _ => 40,
    };
    ms * 1_000_000
}

impl Model {
    /// Times count from when the leaf got its scheduler.
    fn elapsed(&self, leaf: usize) -> i128 {
        i128::from(self.now_ns) - self.at(leaf).since
    }

    fn adopt(&mut self, th: usize, leaf: usize, next: Next) {
        let member = &mut self.members[th];
        member.place = next.place;
        member.left_ns = u64::try_from(next.left_ns).expect("a budget is never negative");
        member.job = next.job;
        let node = self.at_mut(leaf);
        node.last_place = node.last_place.max(next.place);
    }

    fn background(&self, leaf: usize, member: &Member) -> Next {
        Next {
            place: self.at(leaf).base + self.elapsed(leaf) + BACKGROUND_NS,
            left_ns: i128::from(self.tunables.quantum_ns),
            job: member.job,
        }
    }

    /// The thread becomes runnable, or is met for the first time.
    pub(super) fn timed_request(&mut self, th: usize, leaf: usize, known: bool) {
        let mut member = self.members[th].clone();
        if !known {
            member.job.due = None;
            member.job.level = None;
        }
        let next = match (self.at(leaf).policy, member.reservation) {
            (Policy::Svr4, _) => self.svr4_wakes(leaf, &member),
            (_, None) => self.background(leaf, &member),
            (Policy::Edf, Some(r)) => {
                let alone = self.runnable_members(leaf).count() <= 1;
                self.edf_wakes(leaf, &member, r, known && alone)
            }
            (_, Some(r)) => self.rm_wakes(leaf, &member, r),
        };
        self.adopt(th, leaf, next);
    }

    fn fresh(&self, r: Reservation, job: Job) -> (i128, Job) {
        let due = Some(i128::from(self.now_ns) + r.d());
        (r.c(), Job { due, ..job })
    }

    /// A period has gone by since the release of the present job, or there is none.
    fn over(&self, r: Reservation, job: Job) -> bool {
        job.due
            .is_none_or(|due| i128::from(self.now_ns) >= due - r.d() + r.t())
    }

    /// What is left of the budget can be served before the deadline, at rate C / D.
    fn fits(&self, member: &Member, r: Reservation) -> bool {
        let ahead = member.job.due.unwrap_or(0) - i128::from(self.now_ns);
        let left = i128::from(member.left_ns);
        ahead > 0 && (ahead >= r.d() || left * r.d() <= ahead * r.c())
    }

    fn edf_wakes(&self, leaf: usize, member: &Member, r: Reservation, alone: bool) -> Next {
        let now = i128::from(self.now_ns);
        let due = member.job.due.unwrap_or(0);
        let left = i128::from(member.left_ns);
        let fits = self.fits(member, r);
        let (left_ns, job) = if self.over(r, member.job) {
            self.fresh(r, member.job)
        } else if fits && !(alone && due > now + r.d()) {
            (left, member.job)
        } else if alone || r.d() == r.t() {
            self.fresh(r, member.job)
        } else {
            let due = Some(due + r.t());
            (r.c(), Job { due, ..member.job })
        };
        self.edf_at(leaf, left_ns, job)
    }

    fn edf_at(&self, leaf: usize, left_ns: i128, job: Job) -> Next {
        let node = self.at(leaf);
        Next {
            place: node.base + job.due.expect("a job has a deadline") - node.since,
            left_ns,
            job,
        }
    }

    fn rm_wakes(&self, leaf: usize, member: &Member, r: Reservation) -> Next {
        let (left_ns, job) = match self.over(r, member.job) || !self.fits(member, r) {
            true => self.fresh(r, member.job),
            false => (i128::from(member.left_ns), member.job),
        };
        Next {
            place: self.at(leaf).base + 2 * r.d(),
            left_ns,
            job,
        }
    }

    /// The job after so much service: jobs that were used up are followed by others.
    fn consumed(&self, member: &Member, r: Reservation, length_ns: i128) -> (i128, Job) {
        let mut job = member.job;
        let left = i128::from(member.left_ns) - length_ns;
        if left > 0 {
            return (left, job);
        }
        let jobs = 1 + -left / r.c();
        let due = job.due.expect("a thread in service has a job") + jobs * r.t();
        job.due = Some(due.min(i128::from(self.now_ns) + POSTPONE_NS));
        (left + jobs * r.c(), job)
    }

    fn timed_after(&self, leaf: usize, member: &Member, length_ns: u64) -> Next {
        let length = i128::from(length_ns.min(LENGTH_MAX_NS));
        let same = Next {
            place: member.place,
            left_ns: i128::from(member.left_ns) - length,
            job: member.job,
        };
        let unused = same.left_ns > 0;
        match (self.at(leaf).policy, member.reservation) {
            (Policy::Svr4, _) => self.svr4_after(leaf, member, same),
            (_, None) if unused => same,
            (_, None) => self.background(leaf, member),
            (Policy::Edf, Some(r)) => {
                let alone = self.runnable_members(leaf).count() <= 1;
                let (left_ns, mut job) = self.consumed(member, r, length);
                if !unused && alone {
                    // At most one period further than a fresh job.
                    let soon = i128::from(self.now_ns) + r.d() + r.t();
                    job.due = job.due.map(|due| due.min(soon));
                }
                self.edf_at(leaf, left_ns, job)
            }
            (_, Some(r)) => {
                let (left_ns, job) = self.consumed(member, r, length);
                let interrupted = i128::from(unused && length > 0);
                let place = self.at(leaf).base + 2 * r.d() - interrupted;
                Next {
                    place,
                    left_ns,
                    job,
                }
            }
        }
    }

    /// The thread, known to the leaf, was served.
    pub(super) fn timed_charge(&mut self, th: usize, leaf: usize, length_ns: u64) {
        let now = i128::from(self.now_ns);
        let timed = self.at(leaf).policy != Policy::Svr4;
        let mut member = self.members[th].clone();
        if timed && member.reservation.is_some() {
            let job = &mut member.job;
            if job.due.is_some_and(|due| now > due) && job.missed != job.due {
                job.missed = job.due;
                job.misses += 1;
                self.at_mut(leaf).misses += 1;
            }
        }
        let next = self.timed_after(leaf, &member, length_ns);
        self.adopt(th, leaf, next);
    }

    pub(super) fn timed_ahead(&self, leaf: usize, member: &Member, length_ns: u64) -> i128 {
        self.timed_after(leaf, member, length_ns).place
    }

    /// To the tail of its priority.
    pub(super) fn svr4_yields(&mut self, th: usize, leaf: usize) {
        let member = self.members[th].clone();
        let level = member.job.level.expect("a thread in service has a level");
        let next = self.svr4_tail(leaf, &member, level);
        self.adopt(th, leaf, next);
    }

    fn svr4_wakes(&self, leaf: usize, member: &Member) -> Next {
        let level = match (member.class, member.job.level) {
            (Class::Rt(priority), _) => i128::from(priority),
            (_, None) => 29,
            (_, Some(level @ 0..50)) => 50 + level / 10,
            _ => 59,
        };
        self.svr4_tail(leaf, member, level)
    }

    /// At the tail of its priority, with a new quantum.
    fn svr4_tail(&self, leaf: usize, member: &Member, level: i128) -> Next {
        let boost = i128::from(member.class == Class::Ia) * 10;
        let steps = 60 - (level + boost).min(59);
        let patience = (steps * WAIT_NS / 60 * 100 / i128::from(member.weight)).min(WAIT_NS);
        let place = match member.class {
            Class::Rt(_) => 2 * (59 - level) + 1,
            _ => 120 + self.elapsed(leaf) + patience,
        };
        let level_now = Some(level);
        Next {
            place: self.at(leaf).base + place,
            left_ns: svr4_quantum(member.class, level),
            job: Job {
                level: level_now,
                ..member.job
            },
        }
    }

    fn svr4_after(&self, leaf: usize, member: &Member, same: Next) -> Next {
        let level = member.job.level.expect("a thread in service has a level");
        match (member.class, same.left_ns > 0) {
            (Class::Rt(_), true) => Next {
                place: self.at(leaf).base + 2 * (59 - level),
                ..same
            },
            // Served, it is not aged any more.
            (_, true) => Next {
                place: same.place.max(self.svr4_tail(leaf, member, 50).place),
                ..same
            },
            (Class::Rt(_), false) => self.svr4_tail(leaf, member, level),
            (_, false) => self.svr4_tail(leaf, member, (level - 10).max(0)),
        }
    }
}
