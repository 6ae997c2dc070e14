// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk, its scheduler and who uses it.
#![allow(dead_code)] // every test binary uses its own part

use qlinux_core::cello::{Cello, Class, GroupId, Request, RequestId};
use qlinux_core::disk::{Disk, Flash, Shape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub const SECOND: u64 = 1_000_000_000;

/// Numbers that are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// One that always has so many requests there (the papers' IO_inf).
#[derive(Clone, Copy)]
pub struct Client {
    pub group: GroupId,
    pub concurrency: usize,
    pub sectors: u32,
    /// One after the other rather than anywhere.
    pub sequential: bool,
    pub writes: bool,
    /// Somebody waits for its requests.
    pub sync: bool,
    /// From the request to its deadline.
    pub deadline_ns: u64,
    /// From when one is served to the next.
    pub think_ns: u64,
    /// After so many requests it thinks for so much longer, once; 0: never.
    pub late: (u64, u64),
}

/// From the arrival of a client's requests to their end.
#[derive(Clone, Copy, Default)]
pub struct Responses {
    pub requests: u64,
    pub sum_ns: u64,
    pub worst_ns: u64,
    /// Promised to be in time, if they are real-time ones.
    pub promised: u64,
    /// When the last one ended, and the longest time between two that did.
    pub last_ns: u64,
    pub gap_ns: u64,
}

/// A disk, its scheduler, and who uses it.
pub struct World {
    pub cello: Cello,
    pub disk: Disk,
    pub flash: Flash,
    /// Instead: lanes, of which any takes so long for any request, and when they are free.
    pub pool: Option<(u64, Vec<u64>)>,
    pub shape: Shape,
    pub dice: Dice,
    pub now_ns: u64,
    pub clients: Vec<Client>,
    pub next_sector: Vec<u64>,
    pub owner: BTreeMap<RequestId, (usize, Request, u64)>,
    /// At the disk, which serves them in this order.
    pub flying: VecDeque<RequestId>,
    /// At a disk of several channels: when they will have been served.
    pub ends: BTreeSet<(u64, RequestId)>,
    pub busy_ns: u64,
    /// What it is at has taken so long by now.
    pub serving_ns: u64,
    /// Who will ask for the next, and when.
    pub thinking: BTreeSet<(u64, usize)>,
    /// The disk was idle so long though requests waited.
    pub held_ns: u64,
    /// By client.
    pub responses: Vec<Responses>,
    /// The disk has enough until more of it come back.
    pub rests: bool,
    /// In each so long time what is served is not seen for up to so long, as where the processors
    /// have something else to do.
    pub unseen: Option<(u64, u64)>,
}

impl World {
    pub fn new(shape: Shape, weights: [u32; 3], round_ns: u64, seed: u64) -> World {
        let mut cello = Cello::new(shape.sectors, shape.turn_ns > 0);
        cello.set_weights(weights).unwrap();
        cello.set_round(round_ns).unwrap();
        cello.set_in_flight(1).unwrap();
        World {
            cello,
            disk: Disk::new(shape),
            flash: Flash::new(&shape),
            pool: None,
            shape,
            dice: Dice(seed | 1),
            now_ns: 0,
            clients: Vec::new(),
            next_sector: Vec::new(),
            owner: BTreeMap::new(),
            flying: VecDeque::new(),
            ends: BTreeSet::new(),
            busy_ns: 0,
            serving_ns: 0,
            thinking: BTreeSet::new(),
            held_ns: 0,
            responses: Vec::new(),
            rests: false,
            unseen: None,
        }
    }

    /// When it is seen that a request was served.
    fn seen_ns(&self, end_ns: u64) -> u64 {
        let Some((every_ns, long_ns)) = self.unseen else {
            return end_ns;
        };
        let mut dice = Dice((end_ns / every_ns).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let long_ns = dice.below(long_ns);
        let begin_ns = end_ns / every_ns * every_ns + dice.below(every_ns - long_ns);
        match end_ns >= begin_ns && end_ns < begin_ns + long_ns {
            true => begin_ns + long_ns,
            false => end_ns,
        }
    }

    pub fn client(&mut self, class: Class, weight: u32, concurrency: usize, sectors: u32) -> usize {
        let group = self.cello.group(class, weight).unwrap();
        self.client_of(group, concurrency, sectors)
    }

    pub fn client_of(&mut self, group: GroupId, concurrency: usize, sectors: u32) -> usize {
        self.clients.push(Client {
            group,
            concurrency,
            sectors,
            sequential: false,
            writes: false,
            sync: true,
            deadline_ns: SECOND,
            think_ns: 0,
            late: (0, 0),
        });
        self.next_sector.push(self.shape.sectors / 2);
        self.responses.push(Responses::default());
        self.clients.len() - 1
    }

    pub fn ask(&mut self, i: usize) {
        let request = self.request(i);
        self.add(i, request, self.now_ns);
    }

    pub fn add(&mut self, i: usize, request: Request, asked_ns: u64) {
        let id = self
            .cello
            .add(self.clients[i].group, request, self.now_ns)
            .expect("room");
        self.rests = false;
        self.owner.insert(id, (i, request, asked_ns));
    }

    /// The client's next one.
    fn request(&mut self, i: usize) -> Request {
        let client = self.clients[i];
        let sector = if client.sequential {
            let at = self.next_sector[i];
            self.next_sector[i] =
                (at + u64::from(client.sectors)) % (self.shape.sectors - u64::from(client.sectors));
            at
        } else {
            self.dice
                .below(self.shape.sectors - u64::from(client.sectors))
        };
        Request {
            sector,
            sectors: client.sectors,
            writes: client.writes,
            sync: client.sync,
            deadline_ns: self.now_ns + client.deadline_ns,
        }
    }

    pub fn begin(&mut self) {
        for i in 0..self.clients.len() {
            (0..self.clients[i].concurrency).for_each(|_| self.ask(i));
        }
    }

    /// Gives the disk what it is to have. When the first of it is served, and which.
    fn served_next(&mut self) -> Option<(u64, RequestId)> {
        if self.rests {
            return self.ends.first().copied();
        }
        if self.shape.channels == 1 {
            while let Some(id) = self.next() {
                self.flying.push_back(id);
            }
            if self.ends.is_empty() {
                let id = self.flying.pop_front()?;
                let (_, request, _) = self.owner[&id];
                let end_ns = self.now_ns + self.disk.serve(&request, self.now_ns);
                self.ends.insert((end_ns, id));
            }
            return self.ends.first().copied();
        }
        while let Some(id) = self.next() {
            let (_, request, _) = self.owner[&id];
            let end_ns = match &mut self.pool {
                Some((takes_ns, lanes)) => {
                    let lane = lanes.iter_mut().min().unwrap();
                    *lane = self.now_ns.max(*lane) + *takes_ns;
                    *lane
                }
                None => self.flash.serve(&request, self.now_ns).1,
            };
            self.ends.insert((self.seen_ns(end_ns), id));
        }
        self.ends.first().copied()
    }

    /// What goes to the disk now. Who asks only while it is not full misses none.
    fn next(&mut self) -> Option<RequestId> {
        let full = self.cello.full();
        let next = self.cello.next(self.now_ns);
        assert!(!full || next.is_none(), "the disk was full");
        next
    }

    /// What happens next: a request has been served, its client asks for another, or the scheduler
    /// has waited for somebody long enough. False: nothing will.
    pub fn step(&mut self) -> bool {
        let served = self.served_next();
        let asks = self.thinking.first().copied();
        let wakes_ns = self.cello.wake_ns().filter(|ns| *ns > self.now_ns);
        let next_ns = [served.map(|s| s.0), asks.map(|a| a.0), wakes_ns];
        let Some(next_ns) = next_ns.into_iter().flatten().min() else {
            return false;
        };
        match served {
            Some(_) => self.serving_ns += next_ns - self.now_ns,
            None if !self.owner.is_empty() => self.held_ns += next_ns - self.now_ns,
            None => (),
        }
        self.now_ns = next_ns;
        if let Some((at_ns, i)) = asks.filter(|a| a.0 == next_ns) {
            self.thinking.remove(&(at_ns, i));
            self.ask(i);
        } else if let Some((end_ns, id)) = served.filter(|s| s.0 == next_ns) {
            self.ends.remove(&(end_ns, id));
            self.served(id);
        } else {
            self.rests = false;
        }
        true
    }

    fn served(&mut self, id: RequestId) {
        self.busy_ns += std::mem::take(&mut self.serving_ns);
        let (i, _, asked_ns) = self.owner.remove(&id).expect("it was asked for once");
        let promised = self.cello.said(id).promised;
        self.cello.done(id, self.now_ns);
        // Nothing more is given for now, unless somebody comes.
        self.rests = self.cello.enough();
        let response_ns = self.now_ns - asked_ns;
        let responses = &mut self.responses[i];
        responses.requests += 1;
        responses.promised += u64::from(promised);
        responses.sum_ns += response_ns;
        responses.worst_ns = responses.worst_ns.max(response_ns);
        responses.gap_ns = responses.gap_ns.max(self.now_ns - responses.last_ns);
        responses.last_ns = self.now_ns;
        let (every, late_ns) = self.clients[i].late;
        let late_ns = match every > 0 && responses.requests % every == 0 {
            true => late_ns,
            false => 0,
        };
        match self.clients[i].think_ns + late_ns {
            0 => self.ask(i),
            think_ns => {
                self.thinking.insert((self.now_ns + think_ns, i));
            }
        }
    }

    pub fn run(&mut self, until_ns: u64) {
        while self.now_ns < until_ns {
            assert!(self.step(), "requests wait and the disk is idle");
        }
    }

    pub fn shares(&mut self) -> [f64; 3] {
        let all = self.busy_ns as f64;
        Class::ALL.map(|class| self.cello.class(class).ns as f64 / all)
    }
}

pub fn shape(turning: bool) -> Shape {
    if turning {
        Shape::TURNING
    } else {
        Shape::FLAT
    }
}
