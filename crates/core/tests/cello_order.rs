// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which Cello (core/disk/cello.h) serves requests: each class's place in the scheduled
//! queue.

use qlinux_core::cello::{Cello, Class, GroupId, Request, RequestId, ROUNDS_NS};
use qlinux_core::disk::Shape;
use std::collections::BTreeMap;
use world::Dice;

#[path = "common/world.rs"]
mod world;

/// A disk with an arm, and a group of each class.
struct Queue {
    cello: Cello,
    groups: [GroupId; 3],
    sectors: BTreeMap<RequestId, u64>,
    now_ns: u64,
    /// What serving a request takes.
    takes_ns: u64,
}

const SECTORS: u32 = 8;

impl Queue {
    fn new() -> Queue {
        let mut cello = Cello::new(Shape::TURNING.sectors, true);
        cello.set_round(*ROUNDS_NS.end()).unwrap();
        cello.set_in_flight(1).unwrap();
        let groups = Class::ALL.map(|class| cello.group(class, 100).unwrap());
        Queue {
            cello,
            groups,
            sectors: BTreeMap::new(),
            now_ns: 0,
            takes_ns: 0,
        }
    }

    fn add(&mut self, class: Class, sector: u64, deadline_us: u64) -> RequestId {
        let request = Request {
            sector,
            sectors: SECTORS,
            writes: false,
            sync: true,
            deadline_ns: self.now_ns + deadline_us * 1000,
        };
        let group = self.groups[class as usize];
        let id = self.cello.add(group, request, self.now_ns).expect("room");
        self.sectors.insert(id, sector);
        id
    }

    fn bulk(&mut self, sectors: &[u64]) {
        for sector in sectors {
            self.add(Class::Throughput, *sector, 0);
        }
    }

    /// From now on it is well known that a request of the first sectors takes so long.
    fn learn(&mut self, takes_us: u64) {
        self.learn_in(takes_us, 20_000);
    }

    fn learn_in(&mut self, takes_us: u64, requests: u32) {
        self.takes_ns = takes_us * 1000;
        let mut random = 1u64;
        for _ in 0..requests {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            self.bulk(&[(random >> 33) % 100_000]);
            self.serve(1);
        }
    }

    /// Serves so many, at most. Where they begin.
    fn serve(&mut self, most: usize) -> Vec<u64> {
        let mut served = Vec::new();
        while served.len() < most {
            let Some(id) = self.cello.next(self.now_ns) else {
                break;
            };
            self.now_ns += self.takes_ns;
            self.cello.done(id, self.now_ns);
            served.push(self.sectors[&id]);
        }
        served
    }
}

/// SCAN order, from where the arm is, in the direction it has; it turns at the last request.
#[test]
fn the_arm_sweeps() {
    let mut queue = Queue::new();
    queue.bulk(&[5000, 1000, 9000, 3000]);
    assert_eq!(queue.serve(2), [1000, 3000]);
    // One that lies before the arm, one behind it, one beyond where it would have turned.
    queue.bulk(&[4000, 2000, 10_000]);
    assert_eq!(queue.serve(4), [4000, 5000, 9000, 10_000]);
    queue.bulk(&[500, 11_000, 9500]);
    assert_eq!(queue.serve(2), [11_000, 9500]);
    queue.bulk(&[2500, 12_000, 1500]);
    assert_eq!(queue.serve(9), [2500, 2000, 1500, 500, 12_000]);
}

/// The arm does not turn for every pair of requests around it.
#[test]
fn both_sides() {
    let mut queue = Queue::new();
    queue.bulk(&[5000]);
    assert_eq!(queue.serve(1), [5000]);
    queue.bulk(&[4000, 6000, 3000, 7000, 2000, 8000]);
    assert_eq!(queue.serve(9), [6000, 7000, 8000, 4000, 3000, 2000]);
}

/// What continues where another ends follows it, whichever way the arm moves; nothing comes
/// between the two.
#[test]
fn sequences_stay_together() {
    let mut queue = Queue::new();
    queue.bulk(&[9000]);
    assert_eq!(queue.serve(1), [9000]);
    queue.bulk(&[5000, 1000, 5008, 5016, 5000]);
    assert_eq!(queue.serve(9), [5000, 5000, 5008, 5016, 1000]);

    // Of the one that is being served, too.
    queue.bulk(&[500, 1500]);
    assert_eq!(queue.serve(1), [500]);
    queue.bulk(&[400, 508]);
    assert_eq!(queue.serve(9), [508, 400, 1500]);
}

/// What is near is served upwards by an arm on its way down, too: downwards each request would wait
/// for a turn of the disk.
#[test]
fn near_ones_are_served_upwards() {
    let mut queue = Queue::new();
    queue.bulk(&[9000]);
    assert_eq!(queue.serve(1), [9000]);
    queue.bulk(&[5000, 5040, 5020, 1000, 5200, 5500]);
    assert_eq!(queue.serve(9), [5500, 5000, 5020, 5040, 5200, 1000]);
}

/// With several at the disk, what is promised follows what the disk did: it is done later than
/// was estimated if the first of them took longer, and earlier if it did not.
#[test]
fn several_in_flight() {
    // From the first four on, in us: the first is done, the fifth's deadline.
    for (first_us, deadline_us, promised) in [
        (150, 600, false),
        (150, 700, true),
        (50, 500, false),
        (50, 600, true),
    ] {
        let mut queue = Queue::new();
        let mut sector = 1 << 20;
        let mut random = || {
            sector = sector * 48_271 % (Shape::FLAT.sectors - 8);
            sector
        };
        // It is well known that each takes 100 us.
        queue.takes_ns = 100_000;
        for _ in 0..20_000 {
            queue.bulk(&[random()]);
            queue.serve(1);
        }
        queue.cello.set_in_flight(4).unwrap();
        queue.cello.set_in_flight_time(10_000_000).unwrap();
        let now_ns = queue.now_ns;
        queue.bulk(&[(); 4].map(|()| random()));
        let ids = [(); 4].map(|()| queue.cello.next(now_ns).unwrap());
        queue.cello.done(ids[0], now_ns + first_us * 1000);
        queue.add(Class::Realtime, random(), deadline_us);
        let id = queue.cello.next(now_ns + first_us * 1000).unwrap();
        assert_eq!(
            queue.cello.said(id).promised,
            promised,
            "{first_us} {deadline_us}"
        );
    }
}

/// A class with very many requests leaves room in the scheduled queue: one that comes is served
/// at its place.
#[test]
fn there_is_room_for_others() {
    for (many, one) in [
        (Class::Realtime, Class::Interactive),
        (Class::Interactive, Class::Realtime),
        (Class::Throughput, Class::Interactive),
    ] {
        let mut queue = Queue::new();
        queue.takes_ns = 100_000;
        for i in 0..500 {
            queue.add(many, (1 << 20) + i * 1000, 10_000_000);
        }
        assert_eq!(queue.serve(10).len(), 10);
        queue.add(one, 7, 150);
        assert_eq!(queue.serve(1), [7], "beside {many:?}");
    }
}

/// Slack stealing: as many interactive requests go before a real-time one as it can wait for, in
/// the order in which they came; the others go right behind it, before those that want throughput.
/// What is well known is off by less than half of a request.
#[test]
fn as_many_as_there_is_slack_for() {
    let each_us = 100;
    for before in 0..=6 {
        let mut queue = Queue::new();
        queue.learn(each_us);
        queue.bulk(&[90_000, 80_000]);
        queue.add(
            Class::Realtime,
            50_000,
            each_us * (before + 1) + each_us / 2,
        );
        let interactive = [70_000, 10_000, 40_000, 20_000, 60_000, 30_000];
        for sector in interactive {
            queue.add(Class::Interactive, sector, 0);
        }
        let mut served = queue.serve(9);
        let place = served.iter().position(|s| *s == 50_000).unwrap() as u64;
        assert_eq!(place, before);
        served.remove(place as usize);
        assert_eq!(served, [&interactive[..], &[80_000, 90_000]].concat());
    }
}

/// Real-time requests go before those that are there only as far as they must, by deadline.
#[test]
fn no_earlier_than_they_must() {
    let each_us = 100;
    let mut queue = Queue::new();
    queue.learn(each_us);
    for sector in [70_000, 10_000, 40_000, 20_000] {
        queue.add(Class::Interactive, sector, 0);
    }
    // At once the first of them goes to the disk, and the others are scheduled.
    assert_eq!(queue.serve(1), [70_000]);
    queue.add(Class::Realtime, 50_000, 3 * each_us + each_us / 2);
    queue.add(Class::Realtime, 60_000, 100 * each_us);
    queue.add(Class::Realtime, 65_000, 5 * each_us + each_us / 2);
    let expected = [10_000, 40_000, 50_000, 20_000, 65_000, 60_000];
    assert_eq!(queue.serve(9), expected);
}

/// A real-time request that cannot be in time any more is promised nothing, and those that can
/// keep their promises.
#[test]
fn promises_that_can_be_kept() {
    let mut queue = Queue::new();
    queue.learn(8040);
    queue.bulk(&[0]);
    queue.serve(1);
    let late = queue.add(Class::Realtime, 10_000, 7400);
    let first = queue.add(Class::Realtime, 20_000, 17_400);
    let second = queue.add(Class::Realtime, 30_000, 23_300);
    (0..20).for_each(|i| queue.bulk(&[i * 100_000]));
    assert_eq!(queue.cello.next(queue.now_ns), Some(late));
    let promised = [late, first, second].map(|id| queue.cello.said(id).promised);
    assert_eq!(promised, [false, true, false]);
}

/// The disk has so many requests at a time, and no more than it is estimated to need some time
/// for; two it may always have, so that it does not idle between them.
#[test]
fn at_the_disk() {
    for (each_us, most_us, expected) in [
        (100, 2000, 8),
        (500, 2000, 4),
        (500, 1600, 4),
        (3000, 2000, 2),
    ] {
        let mut queue = Queue::new();
        queue.learn(each_us);
        queue.cello.set_in_flight(8).unwrap();
        queue.cello.set_in_flight_time(most_us * 1000).unwrap();
        queue.bulk(&[(); 20].map(|()| 50_000));
        let mut number =
            || std::iter::from_fn(|| queue.cello.next(queue.now_ns)).collect::<Vec<_>>();
        let at_disk = number();
        assert_eq!(at_disk.len(), expected, "{each_us} us each");
        assert_eq!(number(), [], "before one is served");
        queue.cello.done(at_disk[0], queue.now_ns + each_us * 1000);
        assert!(queue.cello.next(queue.now_ns).is_some());
    }
}

/// Of two requests that become one the earlier deadline holds.
#[test]
fn merged_deadlines() {
    for (first_us, second_us, expected) in
        [(900, 150, [50_000, 10_000]), (260, 900, [10_000, 50_000])]
    {
        let mut queue = Queue::new();
        queue.learn(100);
        let first = queue.add(Class::Realtime, 50_000, first_us);
        let second = queue.add(Class::Realtime, 50_008, second_us);
        queue.add(Class::Realtime, 10_000, 170);
        queue.cello.merged(first, second, queue.now_ns);
        queue.cello.grown(first, 50_000, 16);
        assert_eq!(queue.serve(9), expected);
    }
}

/// What continues is together for the sake of throughput, and does not keep an interactive request
/// waiting.
#[test]
fn interactive_before_a_sequence() {
    for turning in [false, true] {
        let mut queue = Queue::new();
        queue.cello = Cello::new(Shape::TURNING.sectors, turning);
        queue.cello.set_in_flight(1).unwrap();
        queue.groups = Class::ALL.map(|class| queue.cello.group(class, 100).unwrap());
        queue.bulk(&[100_000, 100_008, 100_016, 100_024, 100_032]);
        assert_eq!(queue.serve(2), [100_000, 100_008]);
        queue.add(Class::Interactive, 7, 0);
        assert_eq!(queue.serve(2), [7, 100_016], "turning: {turning}");
    }
}

/// Real-time requests are served on the arm's way while all of them are in time; and where they can be in
/// time in order of deadlines only, in that order.
#[test]
fn real_time_on_the_way() {
    let each_us = 100;
    let mut queue = Queue::new();
    queue.learn(each_us);
    queue.bulk(&[0]);
    assert_eq!(queue.serve(1), [0]);
    queue.bulk(&[20_000, 40_000, 60_000]);
    for (sector, deadline_us) in [(50_000, 2000), (10_000, 4000), (30_000, 3000)] {
        queue.add(Class::Realtime, sector, deadline_us);
    }
    let way = [10_000, 20_000, 30_000, 40_000, 50_000, 60_000];
    assert_eq!(queue.serve(9), way);

    // One that has to be first does not make another late that another may wait for.
    let mut queue = Queue::new();
    queue.learn(each_us);
    queue.bulk(&[0]);
    assert_eq!(queue.serve(1), [0]);
    queue.bulk(&[5000]);
    assert_eq!(queue.serve(1), [5000]);
    for (sector, deadline_us) in [(10_000, 3000), (20_000, 260), (90_000, 2500), (80_000, 150)] {
        queue.add(Class::Realtime, sector, deadline_us);
    }
    assert_eq!(queue.serve(9), [80_000, 20_000, 90_000, 10_000]);
}

/// Whatever can be in time in order of deadlines is in time.
#[test]
fn deadlines_that_can_be_met_are_met() {
    let each_us = 100;
    for seed in 0..200 {
        let mut dice = Dice(seed * 2 + 1);
        let mut queue = Queue::new();
        queue.learn_in(each_us, 3000);
        let bulk = [(); 6].map(|()| dice.below(100_000));
        queue.bulk(&bulk);
        // In order of deadlines the i-th is done after i services; half of one for what estimates are off by.
        let mut times: Vec<u64> = (1..=12)
            .map(|i| i * each_us + each_us / 2 + dice.below(3) * each_us * dice.below(4))
            .collect();
        times.sort_unstable();
        for i in (1..times.len()).rev() {
            times.swap(i, dice.below(i as u64 + 1) as usize);
        }
        for deadline_us in times {
            queue.add(Class::Realtime, dice.below(100_000), deadline_us);
        }
        queue.serve(20);
        assert_eq!(queue.cello.class(Class::Realtime).late, 0, "{seed}");
    }
}
