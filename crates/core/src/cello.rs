// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of a disk in classes (core/disk/cello.h).

use crate::{Error, Result};
use std::ops::RangeInclusive;

/// Lengths that a round may have, in nanoseconds.
pub const ROUNDS_NS: RangeInclusive<u64> = 1_000_000..=10_000_000_000;
/// Requests that wait or are served at a time, at most.
pub const REQUESTS_MAX: usize = 4096;
/// Requests in the scheduled queue, at most.
pub const SCHEDULED_MAX: usize = 128;

/// QLinux, section 2.4: what a request's program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Class {
    /// A short response time.
    Interactive = 0,
    /// Much data.
    Throughput = 1,
    /// Each request before its deadline.
    Realtime = 2,
}

impl Class {
    /// All of them, by their numbers.
    pub const ALL: [Class; 3] = [Class::Interactive, Class::Throughput, Class::Realtime];
}

/// A cgroup's requests in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u32);

/// Names a request from its arrival to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(i32);

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it begins, in sectors of 512 bytes.
    pub sector: u64,
    /// Its length.
    pub sectors: u32,
    /// It writes.
    pub writes: bool,
    /// Somebody waits for it, as for a read, but not for what is written back.
    pub sync: bool,
    /// Of the real-time class: when it is to be done, in nanoseconds.
    pub deadline_ns: u64,
}

/// What a class or a group was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Served {
    /// The disk's time.
    pub ns: u64,
    /// Requests.
    pub requests: u64,
    /// Of those, real-time ones after their deadline.
    pub late: u64,
    /// Of those, that were said to be in time, by more than the error that was said.
    pub broken: u64,
}

/// What is said of a request that goes to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Said {
    /// It will take so long.
    pub estimate_ns: u64,
    /// Give or take that.
    pub error_ns: u64,
    /// It is real-time, and was estimated to be in time ever since it was scheduled.
    pub promised: bool,
}

#[allow(clippy::missing_safety_doc)]
mod c {
    use super::{Said, Served};

    unsafe extern "C" {
        pub static qcore_cello_limits: [usize; 3];
        pub fn qcore_cello_size() -> usize;
        pub fn qcore_cello_init(p: *mut u64, sectors: u64, turning: bool);
        pub fn qcore_cello_weights(p: *mut u64, weights: *const u32) -> i32;
        pub fn qcore_cello_round(p: *mut u64, round_ns: u64) -> i32;
        pub fn qcore_cello_group(p: *mut u64, class: u32, parent: i32, weight: u32) -> i32;
        pub fn qcore_cello_group_weight(p: *mut u64, group: u32, weight: u32) -> i32;
        pub fn qcore_cello_add(
            p: *mut u64,
            group: u32,
            sector: u64,
            sectors: u32,
            way: u32,
            sync: bool,
            deadline_ns: u64,
            now_ns: u64,
        ) -> i32;
        pub fn qcore_cello_next(p: *mut u64, now_ns: u64) -> i32;
        pub fn qcore_cello_wake(p: *mut u64) -> u64;
        pub fn qcore_cello_full(p: *mut u64) -> bool;
        pub fn qcore_cello_enough(p: *mut u64) -> bool;
        pub fn qcore_cello_said(p: *mut u64, r: i32, said: *mut Said);
        pub fn qcore_cello_done(p: *mut u64, r: i32, now_ns: u64);
        pub fn qcore_cello_remove(p: *mut u64, r: i32);
        pub fn qcore_cello_return(p: *mut u64, r: i32);
        pub fn qcore_cello_grown(p: *mut u64, r: i32, sector: u64, sectors: u32);
        pub fn qcore_cello_flight(p: *mut u64, most: u32) -> i32;
        pub fn qcore_cello_flight_time(p: *mut u64, most_ns: u64) -> i32;
        pub fn qcore_cello_set_deadline(p: *mut u64, ns: u64) -> i32;
        pub fn qcore_cello_deadline(p: *mut u64, own_ns: u64, now_ns: u64) -> u64;
        pub fn qcore_cello_merged(p: *mut u64, r: i32, gone: i32, now_ns: u64);
        pub fn qcore_cello_asked(hint: u32, of_cgroup: u32, deadline_ns: *mut u64) -> u32;
        pub fn qcore_cello_scheduled(p: *mut u64, to: *mut RequestNumber, most: u32) -> u32;
        pub fn qcore_cello_class(p: *mut u64, class: u32, to: *mut Served);
        pub fn qcore_cello_of_group(p: *mut u64, group: u32, to: *mut Served);
        pub fn qcore_cello_rounds(p: *mut u64) -> u64;
        pub fn qcore_cello_at_disk(p: *mut u64, most: *mut u32, lanes: *mut u32);
    }
    pub type RequestNumber = i32;
}

/// Of what class a request with this hint of an I/O priority is, by number; 3: none. And after how
/// many nanoseconds it is to be done, if the hint says. `of_cgroup`: its cgroup's class, 3: none.
pub fn asked(hint: u32, of_cgroup: u32) -> (u32, Option<u64>) {
    let mut deadline_ns = 0;
    // SAFETY: one number is written.
    let class = unsafe { c::qcore_cello_asked(hint, of_cgroup, &mut deadline_ns) };
    (class, (deadline_ns > 0).then_some(deadline_ns))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Queued,
    InFlight,
}

/// A disk's scheduler.
pub struct Cello {
    /// C's structure, which points to itself: it stays where it is.
    pool: Box<[u64]>,
    state: Vec<State>,
    groups: u32,
}

impl Cello {
    /// For a disk of so many sectors, which turns or does not.
    pub fn new(sectors: u64, turning: bool) -> Cello {
        // SAFETY: a constant of the C text.
        let limits = unsafe { c::qcore_cello_limits };
        assert_eq!(
            limits[1..],
            [REQUESTS_MAX, SCHEDULED_MAX],
            "core/disk/cello.h"
        );
        // SAFETY: it takes nothing.
        let size = unsafe { c::qcore_cello_size() };
        let mut cello = Cello {
            pool: vec![0; size.div_ceil(8)].into_boxed_slice(),
            state: vec![State::Free; REQUESTS_MAX],
            groups: 0,
        };
        // SAFETY: the pool is as large as C says.
        unsafe { c::qcore_cello_init(cello.at(), sectors, turning) };
        cello
    }

    fn at(&mut self) -> *mut u64 {
        self.pool.as_mut_ptr()
    }

    /// Weights by [`Class`], 0…10000 and not all 0: a class of weight 0 is served when no other
    /// has requests.
    pub fn set_weights(&mut self, weights: [u32; 3]) -> Result<()> {
        // SAFETY: three numbers are read.
        match unsafe { c::qcore_cello_weights(self.at(), weights.as_ptr()) } {
            0 => Ok(()),
            _ => Err(Error::DiskWeights(weights)),
        }
    }

    /// Length of a round.
    pub fn set_round(&mut self, round_ns: u64) -> Result<()> {
        // SAFETY: the pool is C's.
        match unsafe { c::qcore_cello_round(self.at(), round_ns) } {
            0 => Ok(()),
            _ => Err(Error::Round(round_ns)),
        }
    }

    /// So many requests may be at the disk at a time: 1…1024; 0: as many as are learned to be needed.
    pub fn set_in_flight(&mut self, most: u32) -> Result<()> {
        // SAFETY: the pool is C's.
        match unsafe { c::qcore_cello_flight(self.at(), most) } {
            0 => Ok(()),
            _ => Err(Error::InFlight(most)),
        }
    }

    /// A further request goes to the disk only while those that it has are estimated to take
    /// less: 1 µs…10 s; 0: any time.
    pub fn set_in_flight_time(&mut self, most_ns: u64) -> Result<()> {
        // SAFETY: the pool is C's.
        match unsafe { c::qcore_cello_flight_time(self.at(), most_ns) } {
            0 => Ok(()),
            _ => Err(Error::InFlightTime(most_ns)),
        }
    }

    /// Of real-time requests without one of their own, after they come: 1 ms…49.152 s.
    pub fn set_deadline(&mut self, ns: u64) -> Result<()> {
        // SAFETY: the pool is C's.
        match unsafe { c::qcore_cello_set_deadline(self.at(), ns) } {
            0 => Ok(()),
            _ => Err(Error::Deadline(ns)),
        }
    }

    /// When a request that comes now is to be done; `own_ns` after that, or as is usual.
    pub fn deadline(&mut self, own_ns: Option<u64>, now_ns: u64) -> u64 {
        // SAFETY: the pool is C's.
        unsafe { c::qcore_cello_deadline(self.at(), own_ns.unwrap_or(0), now_ns) }
    }

    /// A new group of the class, of weight 1…10000.
    pub fn group(&mut self, class: Class, weight: u32) -> Result<GroupId> {
        self.new_group(class, None, weight)
    }

    /// The same below another group of the class, with whose children it shares what that has.
    pub fn group_in(&mut self, class: Class, parent: GroupId, weight: u32) -> Result<GroupId> {
        assert!(parent.0 < self.groups, "a group of another disk");
        self.new_group(class, Some(parent), weight)
    }

    fn new_group(&mut self, class: Class, parent: Option<GroupId>, weight: u32) -> Result<GroupId> {
        let parent = parent.map_or(-1, |parent| parent.0 as i32);
        // SAFETY: the pool is C's, and the parent exists.
        let number = unsafe { c::qcore_cello_group(self.at(), class as u32, parent, weight) };
        let number = u32::try_from(number).map_err(|_| Error::Weight(weight))?;
        self.groups = number + 1;
        Ok(GroupId(number))
    }

    /// Another weight for it.
    pub fn set_group_weight(&mut self, group: GroupId, weight: u32) -> Result<()> {
        assert!(group.0 < self.groups, "a group of another disk");
        // SAFETY: the group exists.
        match unsafe { c::qcore_cello_group_weight(self.at(), group.0, weight) } {
            0 => Ok(()),
            _ => Err(Error::Weight(weight)),
        }
    }

    /// A request comes, or None: [`REQUESTS_MAX`] are there.
    pub fn add(&mut self, group: GroupId, request: Request, now_ns: u64) -> Option<RequestId> {
        assert!(group.0 < self.groups, "a group of another disk");
        // SAFETY: the group exists.
        let number = unsafe {
            c::qcore_cello_add(
                self.at(),
                group.0,
                request.sector,
                request.sectors,
                request.writes.into(),
                request.sync,
                request.deadline_ns,
                now_ns,
            )
        };
        *self.state.get_mut(usize::try_from(number).ok()?)? = State::Queued;
        Some(RequestId(number))
    }

    /// The request that goes to the disk now.
    pub fn next(&mut self, now_ns: u64) -> Option<RequestId> {
        // SAFETY: the pool is C's.
        let number = unsafe { c::qcore_cello_next(self.at(), now_ns) };
        *self.state.get_mut(usize::try_from(number).ok()?)? = State::InFlight;
        Some(RequestId(number))
    }

    /// Where there is no next one though some wait: when to ask again, at the latest. Somebody is awaited
    /// until then.
    pub fn wake_ns(&mut self) -> Option<u64> {
        // SAFETY: the pool is C's.
        let ns = unsafe { c::qcore_cello_wake(self.at()) };
        (ns > 0).then_some(ns)
    }

    /// There is no next one until one of those comes back that the disk has.
    pub fn full(&mut self) -> bool {
        // SAFETY: the pool is C's.
        unsafe { c::qcore_cello_full(self.at()) }
    }

    /// Though some wait and there may be a next one, it can wait until more of those come back that the
    /// disk has.
    pub fn enough(&mut self) -> bool {
        // SAFETY: the pool is C's.
        unsafe { c::qcore_cello_enough(self.at()) }
    }

    fn leaves(&mut self, r: RequestId, was: State) {
        let state = &mut self.state[r.0 as usize];
        assert!(*state == was, "request {} is elsewhere", r.0);
        *state = State::Free;
    }

    /// What is estimated of a request that has gone to the disk.
    pub fn said(&mut self, r: RequestId) -> Said {
        let mut said = Said::default();
        // SAFETY: the number is one of C's.
        unsafe { c::qcore_cello_said(self.at(), r.0, &mut said) };
        said
    }

    /// The disk has served it.
    pub fn done(&mut self, r: RequestId, now_ns: u64) {
        self.leaves(r, State::InFlight);
        // SAFETY: it is in flight.
        unsafe { c::qcore_cello_done(self.at(), r.0, now_ns) }
    }

    /// It leaves unserved, as it was merged into another.
    pub fn remove(&mut self, r: RequestId) {
        self.leaves(r, State::Queued);
        // SAFETY: it is pending or scheduled.
        unsafe { c::qcore_cello_remove(self.at(), r.0) }
    }

    /// The disk did not take it.
    pub fn give_back(&mut self, r: RequestId) {
        self.leaves(r, State::InFlight);
        // SAFETY: it is in flight.
        unsafe { c::qcore_cello_return(self.at(), r.0) }
    }

    /// Others were merged into it: this is what it asks for now.
    pub fn grown(&mut self, r: RequestId, sector: u64, sectors: u32) {
        assert!(self.state[r.0 as usize] == State::Queued);
        // SAFETY: it is pending or scheduled.
        unsafe { c::qcore_cello_grown(self.at(), r.0, sector, sectors) }
    }

    /// `gone`, of the same class, was merged into the first; [`Cello::grown`] says where that lies now.
    pub fn merged(&mut self, r: RequestId, gone: RequestId, now_ns: u64) {
        assert!(r != gone && self.state[r.0 as usize] == State::Queued);
        self.leaves(gone, State::Queued);
        // SAFETY: both are pending or scheduled.
        unsafe { c::qcore_cello_merged(self.at(), r.0, gone.0, now_ns) }
    }

    /// The scheduled queue, from its head.
    pub fn scheduled(&mut self) -> Vec<RequestId> {
        let mut numbers = [0; SCHEDULED_MAX];
        // SAFETY: there is room for as many as there can be.
        let n = unsafe {
            c::qcore_cello_scheduled(self.at(), numbers.as_mut_ptr(), SCHEDULED_MAX as u32)
        };
        numbers[..n as usize]
            .iter()
            .map(|r| RequestId(*r))
            .collect()
    }

    /// What the class was served since the beginning.
    pub fn class(&mut self, class: Class) -> Served {
        let mut served = Served::default();
        // SAFETY: the class exists.
        unsafe { c::qcore_cello_class(self.at(), class as u32, &mut served) };
        served
    }

    /// What the group was served since the beginning.
    pub fn of_group(&mut self, group: GroupId) -> Served {
        assert!(group.0 < self.groups, "a group of another disk");
        let mut served = Served::default();
        // SAFETY: the group exists.
        unsafe { c::qcore_cello_of_group(self.at(), group.0, &mut served) };
        served
    }

    /// How many requests the disk is given at a time, and how many it is held to serve side by side.
    pub fn at_disk(&mut self) -> (u32, u32) {
        let (mut most, mut lanes) = (0, 0);
        // SAFETY: two numbers are written.
        unsafe { c::qcore_cello_at_disk(self.at(), &mut most, &mut lanes) };
        (most, lanes)
    }

    /// Rounds that have ended.
    pub fn rounds(&mut self) -> u64 {
        // SAFETY: the pool is C's.
        unsafe { c::qcore_cello_rounds(self.at()) }
    }
}
