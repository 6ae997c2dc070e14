// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cello (core/disk/cello.h) on a simulated disk: who gets how much of its time, in which order,
//! and what was promised.

use proptest::prelude::*;
use qlinux_core::cello::{asked, Cello, Class, GroupId, Request, RequestId, ROUNDS_NS};
use qlinux_core::disk::Shape;
use qlinux_properties::cases;
use std::collections::{BTreeMap, BTreeSet};
use world::{shape, World, SECOND};

#[path = "common/world.rs"]
mod world;

proptest! {
    #![proptest_config(cases(30))]

    /// Backlogged classes get the disk's time by their weights, within 2 % over 20 rounds, whatever
    /// their requests' sizes.
    #[test]
    fn shares(
        turning: bool,
        weights in prop::array::uniform3(1u32..=8),
        sectors in prop::array::uniform3(1u32..=256),
        round_ms in 300u64..=1000,
        seed: u64,
    ) {
        let round_ns = round_ms * 1_000_000;
        let mut world = World::new(shape(turning), weights, round_ns, seed);
        for (class, sectors) in Class::ALL.into_iter().zip(sectors) {
            world.client(class, 100, 24, sectors);
        }
        world.begin();
        // Not before it is known what requests take.
        world.run(2 * round_ns);
        let begun = Class::ALL.map(|class| world.cello.class(class).ns);
        let from_ns = world.now_ns;
        world.run(from_ns + 20 * round_ns);
        let sum = f64::from(weights.iter().sum::<u32>());
        for (class, weight) in Class::ALL.into_iter().zip(weights) {
            let ns = world.cello.class(class).ns - begun[class as usize];
            let share = ns as f64 / (world.now_ns - from_ns) as f64;
            let ideal = f64::from(weight) / sum;
            prop_assert!((share - ideal).abs() < 0.02, "{class:?}: {share} for {ideal}");
        }
    }

    /// Groups of a class get its time by their weights.
    #[test]
    fn groups(turning: bool, weights in prop::collection::vec(1u32..=8, 2..=5), seed: u64) {
        let shape = match turning {
            true => Shape::TURNING,
            // As many requests as the other, not more.
            false => Shape { overhead_ns: 5_000_000, ..Shape::FLAT },
        };
        let mut world = World::new(shape, [1, 1, 1], 500_000_000, seed);
        for weight in &weights {
            world.client(Class::Throughput, weight * 100, 16, 16);
        }
        world.client(Class::Interactive, 100, 16, 16);
        world.begin();
        world.run(30 * SECOND);
        let all = world.cello.class(Class::Throughput).ns as f64;
        let sum = f64::from(weights.iter().sum::<u32>());
        for (i, weight) in weights.iter().enumerate() {
            let group = world.clients[i].group;
            let share = world.cello.of_group(group).ns as f64 / all;
            let ideal = f64::from(*weight) / sum;
            prop_assert!((share - ideal).abs() < 0.03, "{share} for {ideal}");
        }
    }

    /// Every request is served once, or leaves once, whatever happens to it; and while any is
    /// there the disk is not idle.
    #[test]
    fn each_request_once(
        weights in prop::array::uniform3(0u32..=3),
        in_flight in 1u32..=40,
        in_flight_us in 1u64..=10_000,
        ops in prop::collection::vec((0u32..11, 0usize..6, any::<u64>()), 1..800),
    ) {
        let mut cello = Cello::new(Shape::FLAT.sectors, false);
        prop_assume!(weights.iter().any(|w| *w > 0));
        cello.set_weights(weights).unwrap();
        cello.set_in_flight(in_flight).unwrap();
        cello.set_in_flight_time(in_flight_us * 1000).unwrap();
        let groups: Vec<_> = (0..6)
            .map(|i| cello.group(Class::ALL[i % 3], 1 + i as u32).unwrap())
            .collect();
        let (mut queued, mut flying) = (BTreeSet::new(), Vec::new());
        let mut now_ns = 0;
        for (op, i, number) in ops {
            now_ns += number % 1_000_000;
            let pick = |n: usize| (number >> 20) as usize % n;
            match op {
                0..=3 => {
                    let request = Request {
                        sector: number % Shape::FLAT.sectors,
                        sectors: 1 + (number % 100) as u32,
                        writes: number % 3 == 0,
                        sync: number % 5 >= 3,
                        deadline_ns: now_ns + number % SECOND,
                    };
                    prop_assert!(queued.insert(cello.add(groups[i], request, now_ns).unwrap()));
                }
                4..=6 => match cello.next(now_ns) {
                    Some(id) => {
                        prop_assert!(queued.remove(&id), "it was not waiting");
                        flying.push(id);
                    }
                    // It may be idle while somebody is awaited, but not for longer.
                    None if !queued.is_empty() && flying.is_empty() => {
                        let wakes_ns = cello.wake_ns();
                        prop_assert!(wakes_ns.is_some_and(|ns| ns > now_ns && ns <= now_ns + 5_000_000),
                            "requests wait and the disk is idle");
                    }
                    None => (),
                },
                7 if !flying.is_empty() => {
                    let id = flying.swap_remove(pick(flying.len()));
                    cello.done(id, now_ns);
                }
                8 if !queued.is_empty() => {
                    let id = *queued.iter().nth(pick(queued.len())).unwrap();
                    if number % 2 == 0 {
                        queued.remove(&id);
                        cello.remove(id);
                    } else {
                        cello.grown(id, number % Shape::FLAT.sectors, 1 + (number % 900) as u32);
                    }
                }
                9 if !flying.is_empty() => cello.give_back(flying.swap_remove(pick(flying.len()))),
                10 if queued.len() > 1 => {
                    let into = *queued.iter().nth(pick(queued.len())).unwrap();
                    let gone = *queued.iter().find(|id| **id != into).unwrap();
                    queued.remove(&gone);
                    cello.merged(into, gone, now_ns);
                }
                _ => (),
            }
            prop_assert!(flying.len() <= in_flight as usize);
        }
        while !queued.is_empty() {
            if let Some(id) = cello.next(now_ns) {
                prop_assert!(queued.remove(&id));
                flying.push(id);
                continue;
            }
            if flying.is_empty() {
                let wakes_ns = cello.wake_ns().filter(|ns| *ns > now_ns);
                prop_assert!(wakes_ns.is_some(), "requests wait for ever");
                now_ns = wakes_ns.unwrap();
            }
            flying.drain(..).for_each(|id| cello.done(id, now_ns));
        }
    }

    /// Real-time requests leave the scheduled queue in deadline order; of equal deadlines the
    /// one of the lower sector is first.
    #[test]
    fn deadline_order(requests in prop::collection::vec((0u64..20, 0u64..1 << 20), 2..=SCHEDULED_CLASS)) {
        let mut expected = requests.clone();
        expected.sort_unstable();
        prop_assert_eq!(order_of_service(&requests), expected);
    }
}

/// Of a class so many requests are in the scheduled queue; the others of the same round are
/// pending until there is room.
const SCHEDULED_CLASS: usize = 96;

/// Of real-time requests, a deadline and a sector each, that come at once, in this order.
fn order_of_service(requests: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut cello = Cello::new(Shape::FLAT.sectors, false);
    cello.set_round(*ROUNDS_NS.end()).unwrap();
    cello.set_in_flight(1).unwrap();
    let group = cello.group(Class::Realtime, 100).unwrap();
    let mut asked = BTreeMap::new();
    for &(deadline, sector) in requests {
        let request = Request {
            sector,
            sectors: 8,
            writes: false,
            sync: true,
            deadline_ns: deadline * 1000,
        };
        asked.insert(cello.add(group, request, 0).unwrap(), (deadline, sector));
    }
    let mut found = Vec::new();
    while let Some(id) = cello.next(0) {
        found.push(asked[&id]);
        cello.done(id, 0);
    }
    found
}

/// The order of deadlines is that of the scheduled queue: one for which it has no room is
/// overtaken by the one that leaves it next, whatever its deadline.
#[test]
fn the_earliest_deadline_waits_for_room_in_the_scheduled_queue() {
    let mut requests = vec![(1, 0); SCHEDULED_CLASS];
    requests.push((0, 0));
    let mut expected = requests.clone();
    expected.swap(1, SCHEDULED_CLASS);
    assert_eq!(order_of_service(&requests), expected);
    // With one fewer there is room for all.
    requests.remove(0);
    assert_eq!(order_of_service(&requests)[0], (0, 0));
}

/// Shares are kept in every 20 rounds, not only on average.
#[test]
fn every_20_rounds() {
    let round_ns = SECOND / 2;
    for (turning, weights) in [
        [1, 1, 0],
        [1, 2, 0],
        [1, 4, 0],
        [4, 1, 0],
        [3, 5, 7],
        [7, 3, 5],
    ]
    .into_iter()
    .flat_map(|weights| [(false, weights), (true, weights)])
    {
        let mut world = World::new(shape(turning), weights, round_ns, 11);
        for class in Class::ALL {
            if weights[class as usize] > 0 {
                world.client(class, 100, 6, 8);
            }
        }
        world.begin();
        world.run(2 * round_ns);
        for _ in 0..5 {
            let begun = Class::ALL.map(|class| world.cello.class(class).ns);
            let from_ns = world.now_ns;
            world.run(from_ns + 20 * round_ns);
            for class in Class::ALL {
                let ns = world.cello.class(class).ns - begun[class as usize];
                let share = ns as f64 / (world.now_ns - from_ns) as f64;
                let ideal =
                    f64::from(weights[class as usize]) / f64::from(weights.iter().sum::<u32>());
                assert!(
                    (share - ideal).abs() < 0.02,
                    "{weights:?}, turning {turning}: {class:?} has {share} for {ideal}"
                );
            }
        }
    }
}

/// A reader that is always before the arm, or continues what is being served, does not keep
/// another one waiting for more than two rounds.
#[test]
fn nobody_is_passed_forever() {
    let round_ns = 100_000_000;
    for class in [Class::Throughput, Class::Interactive] {
        let mut world = World::new(Shape::TURNING, [1, 1, 1], round_ns, 5);
        let stream = world.client(class, 100, 24, 256);
        world.clients[stream].sequential = true;
        let other = world.client(class, 100, 1, 8);
        world.clients[other].group = world.clients[stream].group;
        world.begin();
        world.run(60 * SECOND);
        let responses = world.responses[other];
        assert!(responses.requests > 300, "{}", responses.requests);
        assert!(
            responses.worst_ns < 5 * round_ns / 2,
            "{} ns",
            responses.worst_ns
        );
    }
}

/// Alone, every class has the whole disk.
#[test]
fn alone() {
    for class in Class::ALL {
        let mut world = World::new(Shape::TURNING, [1, 10, 1000], 100_000_000, 7);
        world.client(class, 100, 4, 8);
        world.begin();
        world.run(5 * SECOND);
        assert!(world.shares()[class as usize] > 0.999);
    }
}

/// A class of weight 1 beside others of 1,000 is served.
#[test]
fn none_starves() {
    let mut world = World::new(Shape::TURNING, [1000, 1, 1000], 100_000_000, 7);
    for class in Class::ALL {
        world.client(class, 100, 16, 8);
    }
    world.begin();
    world.run(200 * SECOND);
    let served = world.cello.class(Class::Throughput);
    let ideal = 200e9 / 2001.0;
    assert!((served.ns as f64 - ideal).abs() < 30e6, "{served:?}");
}

/// A class of weight 0 has what the others leave, and nothing while they leave nothing.
#[test]
fn weight_0() {
    let mut world = World::new(Shape::FLAT, [0, 1, 1], 100_000_000, 7);
    let idle = world.client(Class::Interactive, 100, 4, 8);
    world.begin();
    world.run(SECOND);
    let before = world.responses[idle].requests;
    assert!(before > 1000);
    world.client(Class::Throughput, 100, 8, 8);
    (0..8).for_each(|_| world.ask(1));
    world.run(2 * SECOND);
    assert!(world.responses[idle].requests - before < 10);
}

/// What a class of weight 0 was served is no debt when it is given a weight.
#[test]
fn weight_0_keeps_no_debt() {
    let mut world = World::new(Shape::FLAT, [0, 1, 1], 100_000_000, 7);
    let idle = world.client(Class::Interactive, 100, 4, 8);
    world.begin();
    world.run(20 * SECOND);
    world.client(Class::Throughput, 100, 8, 8);
    (0..8).for_each(|_| world.ask(1));
    world.cello.set_weights([1, 1, 1]).unwrap();
    let before = world.responses[idle].requests;
    world.run(21 * SECOND);
    let requests = world.responses[idle].requests - before;
    // Of 9,259 that the disk can serve.
    assert!((4200..=5100).contains(&requests), "{requests}");
}

/// A request that takes a minute is charged for 4 s.
#[test]
fn the_longest_charge() {
    let mut world = World::new(Shape::FLAT, [1, 1, 0], 100_000_000, 7);
    let slow = world.client(Class::Interactive, 100, 8, 8);
    world.client(Class::Throughput, 100, 8, 8);
    let begun = Request {
        sector: 0,
        sectors: 8,
        writes: false,
        sync: true,
        deadline_ns: 0,
    };
    let group = world.clients[slow].group;
    world.cello.add(group, begun, 0).unwrap();
    let id = world.cello.next(0).unwrap();
    world.begin();
    world.now_ns = 60 * SECOND;
    world.cello.done(id, world.now_ns);
    let before = world.cello.class(Class::Interactive).ns;
    assert_eq!(before, world.now_ns, "it is counted in full");
    world.run(80 * SECOND);
    let ns = world.cello.class(Class::Interactive).ns - before;
    // Of 20 s it waits for 4, and has half of the others.
    assert!(ns.abs_diff(8 * SECOND) < SECOND / 2, "{ns}");
}

/// Four streams of 1.5 Mb/s in the real-time class with enough of a share are in time beside
/// any number of interactive clients, as was promised.
#[test]
fn streams_are_in_time() {
    for clients in [0, 5, 20] {
        let mut world = World::new(Shape::TURNING, [1, 0, 3], 100_000_000, 3);
        let others = (0..clients)
            .map(|_| world.client(Class::Interactive, 100, 2, 8))
            .count();
        assert_eq!(others, clients);
        let streams = world.cello.group(Class::Realtime, 100).unwrap();
        world.begin();
        // 1.5 Mb/s in pieces of 64 KiB: one every 350 ms for each of four.
        let (period_ns, mut due) = (350_000_000, [0u64, 90_000_000, 180_000_000, 260_000_000]);
        while world.now_ns < 60 * SECOND {
            for due_ns in &mut due {
                if *due_ns <= world.now_ns {
                    let request = Request {
                        sector: world.dice.below(1 << 27),
                        sectors: 128,
                        writes: false,
                        sync: true,
                        deadline_ns: *due_ns + period_ns,
                    };
                    let id = world.cello.add(streams, request, world.now_ns).unwrap();
                    world.owner.insert(id, (usize::MAX, request, world.now_ns));
                    *due_ns += period_ns;
                }
            }
            let Some(id) = world.cello.next(world.now_ns) else {
                world.now_ns = *due.iter().min().unwrap();
                continue;
            };
            let (i, request, _) = world.owner.remove(&id).unwrap();
            world.now_ns += world.disk.serve(&request, world.now_ns);
            world.cello.done(id, world.now_ns);
            if i != usize::MAX {
                world.ask(i);
            }
        }
        let served = world.cello.class(Class::Realtime);
        assert!(served.requests >= 4 * 60 * 1000 / 350);
        assert_eq!((served.late, served.broken), (0, 0), "beside {clients}");
    }
}

/// An arm, and requests of a throughput-intensive class that it is to serve.
struct Arm {
    cello: Cello,
    throughput: GroupId,
    now_ns: u64,
    there: Vec<RequestId>,
    waiting: usize,
}

impl Arm {
    fn new() -> Arm {
        let mut cello = Cello::new(Shape::TURNING.sectors, true);
        let throughput = cello.group(Class::Throughput, 100).unwrap();
        Arm {
            cello,
            throughput,
            now_ns: 10 * SECOND,
            there: Vec::new(),
            waiting: 0,
        }
    }

    fn add(&mut self, group: GroupId, sector: u64, sectors: u32) {
        let request = Request {
            sector,
            sectors,
            writes: true,
            sync: true,
            deadline_ns: self.now_ns + SECOND * 3 / 10,
        };
        self.cello.add(group, request, self.now_ns).unwrap();
        self.waiting += 1;
    }

    /// How many the disk has when it may have no more, before each of so many is served, and
    /// another class comes so long after.
    fn numbers<const N: usize>(&mut self, waits_ns: [u64; N]) -> [usize; N] {
        waits_ns.map(|wait_ns| {
            let (cello, now_ns) = (&mut self.cello, self.now_ns);
            self.there.extend(std::iter::from_fn(|| cello.next(now_ns)));
            let number = self.there.len();
            self.now_ns += wait_ns + SECOND / 100;
            self.cello.done(self.there.remove(0), self.now_ns);
            number
        })
    }
}

/// An arm has beside the request that it serves the one that continues it, and no other; and none
/// where somebody may come before it.
#[test]
fn an_arm_goes_on_without_a_pause() {
    let mut arm = Arm::new();
    for sector in [0, 1024, 2048, 10000] {
        arm.add(arm.throughput, sector, 1024);
    }
    assert_eq!(arm.numbers([0; 4]), [2, 2, 1, 1]);
    // An interactive program was there, which has used little of its share.
    let interactive = arm.cello.group(Class::Interactive, 100).unwrap();
    arm.add(interactive, 50000, 1024);
    for sector in [51024, 52048, 53072] {
        arm.add(arm.throughput, sector, 1024);
    }
    assert_eq!(arm.numbers([0, 2 * SECOND, 0, 0]), [1, 1, 2, 1]);
}

/// Of what begins just behind it, and is soon over, an arm has a few: else each would be told when
/// its place has passed, and wait for a turn. One where an interactive program may come, and none
/// where a real-time one may; nothing that lies before the arm, or far behind.
#[test]
fn an_arm_is_told_in_time() {
    let mut arm = Arm::new();
    for sector in [1000, 1024, 1040, 1064, 1200, 2000, 1900] {
        arm.add(arm.throughput, sector, 8);
    }
    assert_eq!(arm.numbers([0; 7]), [4, 4, 3, 2, 1, 2, 1]);
    for (class, expected) in [
        (Class::Interactive, [2, 2, 1, 1]),
        (Class::Realtime, [1, 1, 1, 1]),
    ] {
        let mut arm = Arm::new();
        let other = arm.cello.group(class, 100).unwrap();
        arm.add(other, 900, 8);
        arm.numbers([0]);
        for sector in [1000, 1016, 1032] {
            arm.add(arm.throughput, sector, 8);
        }
        arm.add(arm.throughput, 9000, 8);
        assert_eq!(arm.numbers([0; 4]), expected, "{class:?}");
    }
}

/// What was given in advance took no turn of the disk, and is no hint of what others take, before
/// which a real-time program may come: none of its promises is broken.
#[test]
fn no_promise_counts_on_what_is_told_in_time() {
    const TURN_NS: u64 = SECOND / 120;
    let mut arm = Arm::new();
    let realtime = arm.cello.group(Class::Realtime, 100).unwrap();
    let mut sector = 0;
    let mut promised = 0;
    for step in 0..4000 {
        while arm.waiting < 90 {
            arm.add(arm.throughput, sector, 8);
            sector += 40;
        }
        // A program that comes again when nobody has reckoned with it for two seconds.
        if step % 1000 > 800 && step % 20 == 0 {
            arm.add(realtime, 1 << 30, 8);
        }
        let (cello, now_ns) = (&mut arm.cello, arm.now_ns);
        let alone = arm.there.is_empty();
        arm.there.extend(std::iter::from_fn(|| cello.next(now_ns)));
        if arm.there.is_empty() {
            arm.now_ns += SECOND / 1000;
            continue;
        }
        let served = arm.there.remove(0);
        promised += u64::from(cello.said(served).promised);
        arm.now_ns += if alone { TURN_NS } else { SECOND / 4000 };
        arm.cello.done(served, arm.now_ns);
        arm.waiting -= 1;
    }
    assert!(promised > 20, "{promised}");
    assert_eq!(arm.cello.class(Class::Realtime).broken, 0);
}

/// In which order a real-time request that cannot wait, one that can until its deadline, one that
/// wants throughput and two interactive ones are served.
fn order_with_slack(deadline_us: u64) -> String {
    let mut cello = Cello::new(Shape::TURNING.sectors, true);
    let interactive = cello.group(Class::Interactive, 100).unwrap();
    let realtime = cello.group(Class::Realtime, 100).unwrap();
    let throughput = cello.group(Class::Throughput, 100).unwrap();
    let mut names = BTreeMap::new();
    // An unknown arm takes 8.04 ms for each.
    for (name, group, sector, deadline_us) in [
        ('r', realtime, 100, 8190),
        ('R', realtime, 200, deadline_us),
        ('t', throughput, 300, 0),
        ('i', interactive, 400, 0),
        ('i', interactive, 500, 0),
    ] {
        let request = Request {
            sector,
            sectors: 8,
            writes: false,
            sync: true,
            deadline_ns: deadline_us * 1000,
        };
        names.insert(cello.add(group, request, 0).unwrap(), name);
    }
    let order = std::iter::from_fn(|| {
        let id = cello.next(0)?;
        cello.done(id, 0);
        Some(id)
    });
    order.map(|id| names[&id]).collect()
}

/// Slack stealing: an interactive request goes before real-time ones that can wait, and after
/// those that cannot. The more slack there is the more go before; throughput comes last.
#[test]
fn slack_is_stolen() {
    let mut orders: Vec<_> = (17_000..150_000)
        .step_by(700)
        .map(order_with_slack)
        .collect();
    orders.dedup();
    assert_eq!(orders, ["rRiit", "riRit", "riiRt", "riitR"]);
}

/// What is out of range is refused, and changes nothing.
#[test]
fn refusals() {
    let mut cello = Cello::new(1 << 20, true);
    assert!(cello.set_weights([0, 0, 0]).is_err());
    assert!(cello.set_weights([1, 10_001, 1]).is_err());
    assert!(cello.set_round(ROUNDS_NS.start() - 1).is_err());
    assert!(cello.set_round(ROUNDS_NS.end() + 1).is_err());
    assert!(cello.set_in_flight(1025).is_err());
    for (ns, deadline_ns) in [(999, 999_999), (10_000_000_001, 49_152_000_001)] {
        assert!(cello.set_in_flight_time(ns).is_err());
        assert!(cello.set_deadline(deadline_ns).is_err());
    }
    assert_eq!(
        cello.deadline(None, 7),
        300_000_007,
        "what is usual is as it was"
    );
    assert!(cello.group(Class::Realtime, 0).is_err());
    assert!(cello.group(Class::Realtime, 10_001).is_err());
    let group = cello.group(Class::Realtime, 1).unwrap();
    assert!(cello.set_group_weight(group, 0).is_err());
}

/// Whose word counts: the request's, its cgroup's, its process's. A cgroup's class leaves the
/// process its deadline. Hints of others say nothing.
#[test]
fn whose_class() {
    const NONE: u32 = 3;
    // In words: ours, the request's own, the class, the fifth step of deadlines (2 ms).
    let hint = |own: bool, class: u32| 1 << 9 | u32::from(own) << 8 | class << 6 | 5;
    let in_time = Some(2_000_000);
    for class in 0..=NONE {
        for cgroup in 0..=NONE {
            let own = asked(hint(true, class), cgroup);
            assert_eq!(own, (class, in_time), "its own");
            let process = if cgroup == NONE { class } else { cgroup };
            let found = asked(hint(false, class), cgroup);
            assert_eq!(found, (process, in_time), "its process's");
            for other in [0, 1, 7, 1 << 8 | class << 6] {
                assert_eq!(
                    asked(other, cgroup),
                    (cgroup, None),
                    "none, or a foreign one"
                );
            }
        }
    }
}

/// Who names no deadline has the disk's.
#[test]
fn usual_deadlines() {
    let mut cello = Cello::new(1 << 20, true);
    assert_eq!(cello.deadline(Some(3_000_000), 40), 3_000_040);
    assert_eq!(cello.deadline(None, 40), 300_000_040);
    cello.set_deadline(5_000_000).unwrap();
    assert_eq!(cello.deadline(None, 40), 5_000_040);
}
