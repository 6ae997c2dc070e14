// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disks that serve many requests side by side (core/disk/flight.h): how many they are given, and whose
//! their time is.

use qlinux_core::cello::{Cello, Class, Request};
use qlinux_core::disk::Shape;
use std::collections::BTreeSet;
use world::{Dice, World, SECOND};

#[path = "common/world.rs"]
mod world;

/// A disk of so many lanes that take so long for each request.
fn pool(lanes: usize, takes_us: u64, weights: [u32; 3]) -> World {
    let mut world = parallel(Shape::PARALLEL, weights);
    world.pool = Some((takes_us * 1000, vec![0; lanes]));
    world
}

fn parallel(shape: Shape, weights: [u32; 3]) -> World {
    let mut world = World::new(shape, weights, SECOND / 10, 3);
    world.cello.set_in_flight(0).unwrap();
    world
}

fn served(world: &World) -> u64 {
    world.responses.iter().map(|r| r.requests).sum()
}

/// What a shape serves in ten seconds, from the second on, if it is given all.
fn unscheduled(shape: Shape, outstanding: usize, sectors: u32, writes: bool) -> f64 {
    let mut world = parallel(shape, [1, 1, 1]);
    world.cello.set_in_flight(1024).unwrap();
    let client = world.client(Class::Throughput, 100, outstanding, sectors);
    world.clients[client].writes = writes;
    world.begin();
    world.run(SECOND);
    let before = served(&world);
    world.run(11 * SECOND);
    (served(&world) - before) as f64
}

/// Processors that are busy elsewhere, and see only now and then what was served, are no reason to
/// give the disk less than makes up for it.
#[test]
fn what_is_seen_late_is_served_nevertheless() {
    let unseen = [(300, 150), (1_000, 900), (3_000, 2_000), (10_000, 8_000)];
    for (every_us, long_us) in unseen {
        for (sectors, slow) in [(8, 1), (256, 1), (8, 10)] {
            let [own, all] = [0, 1024].map(|in_flight| {
                let shape = Shape {
                    slow,
                    ..Shape::PARALLEL
                };
                let mut world = parallel(shape, [1, 1, 1]);
                world.cello.set_in_flight(in_flight).unwrap();
                world.unseen = Some((every_us * 1000, long_us * 1000));
                for class in Class::ALL {
                    world.client(class, 100, 32, sectors);
                }
                world.begin();
                [1, 3, 8].map(|until| {
                    world.run(until * SECOND);
                    served(&world)
                })
            });
            let part = |from: usize, to: usize| {
                (own[to] - own[from]) as f64 / (all[to] - all[from]) as f64
            };
            let parts = [part(0, 1), part(1, 2)];
            println!("{long_us} of {every_us} us, {sectors} sectors, {slow}: {parts:.3?}");
            assert!(
                parts[0] > 0.9 && parts[1] > 0.95,
                "{long_us} of {every_us} us: {parts:?}"
            );
        }
    }
}

/// How long bursts take by turns beside what they would if the disk had all at once: of short requests,
/// after long ones of which the disk served few side by side. While it serves no more of the short ones,
/// the first hundred after that, and those from then on.
fn bursts_after(lanes_before: usize, lanes: usize, burst: usize) -> [f64; 3] {
    let mut world = pool(lanes_before, 1000, [0, 1, 0]);
    let steady = world.client(Class::Throughput, 100, 32, 256);
    world.begin();
    world.run(3 * SECOND);
    world.clients[steady].think_ns = 1_000 * SECOND;
    world.run(4 * SECOND);
    let client = world.client(Class::Throughput, 100, burst, 8);
    world.clients[client].think_ns = 1_000 * SECOND;
    [(lanes_before, 300), (lanes, 100), (lanes, 1_000)].map(|(lanes, times)| {
        world.pool = Some((100_000, vec![0; lanes]));
        let least_ns = 100_000 * burst.div_ceil(lanes) as u64;
        let mut took_ns = 0;
        for _ in 0..times {
            let (begun_ns, already) = (world.now_ns, world.responses[client].requests);
            (0..burst).for_each(|_| world.ask(client));
            while world.responses[client].requests < already + burst as u64 {
                assert!(world.step());
            }
            took_ns += world.now_ns - begun_ns;
            world.thinking.clear();
            world.now_ns += 50_000;
        }
        took_ns as f64 / (times * least_ns) as f64
    })
}

/// Nothing can be measured of such, and what was known says that few are enough.
#[test]
fn bursts_after_others_are_served_side_by_side() {
    for (lanes_before, lanes, burst) in [
        (2, 32, 32),
        (2, 32, 64),
        (4, 64, 64),
        (1, 16, 128),
        (8, 8, 32),
    ] {
        let [few, first, then] = bursts_after(lanes_before, lanes, burst);
        println!(
            "{lanes_before}, then {lanes} lanes, {burst} at once: {few:.2}, {first:.2}, {then:.2}"
        );
        assert!(
            few < 1.05 && first < 4.0 && then < 1.05,
            "{lanes} lanes, {burst} at once: {few} {first} {then}"
        );
    }
}

/// However many lanes there are, all are used, and few requests wait in the disk.
#[test]
fn lanes_are_found() {
    for takes_us in [100, 1000, 5000] {
        for lanes in [1, 2, 8, 24, 64] {
            for outstanding in [1, 8, 128] {
                let mut world = pool(lanes, takes_us, [1, 1, 1]);
                world.client(Class::Throughput, 100, outstanding, 8);
                world.begin();
                world.run(SECOND);
                let before = served(&world);
                let mut given: Vec<u32> = (20..110)
                    .map(|tenths| {
                        world.run(tenths * SECOND / 10);
                        world.cello.at_disk().0
                    })
                    .collect();
                world.run(11 * SECOND);
                given.sort_unstable();
                let most = given[given.len() / 2];
                let possible = (10_000_000 / takes_us) as f64 * lanes.min(outstanding) as f64;
                let part = (served(&world) - before) as f64 / possible;
                let (_, found) = world.cello.at_disk();
                println!("{lanes} lanes of {takes_us} us, {outstanding} outstanding: {part:.3}, {most} given, {found} found");
                assert!(part > 0.96, "{lanes} lanes of {takes_us} us: {part}");
                if outstanding > lanes {
                    assert!(most < 4 * lanes as u32, "{lanes} lanes: {most} at a time");
                    assert!(
                        (found as usize).abs_diff(lanes) <= lanes / 8,
                        "{lanes}: {found}"
                    );
                }
            }
        }
    }
}

/// Channels that are chosen by place, services that differ, writes, a cache: at least 95 % of what is
/// served if the disk has all.
#[test]
fn channels_are_used() {
    for (channels, sectors, writes, outstanding) in [
        (8, 8, false, 128),
        (8, 256, false, 32),
        (8, 8, true, 128),
        (32, 8, false, 256),
        (2, 8, false, 64),
    ] {
        let shape = Shape {
            channels,
            ..Shape::PARALLEL
        };
        let mut world = parallel(shape, [1, 1, 1]);
        let client = world.client(Class::Throughput, 100, outstanding, sectors);
        world.clients[client].writes = writes;
        world.begin();
        world.run(3 * SECOND);
        let before = served(&world);
        world.run(13 * SECOND);
        let part =
            (served(&world) - before) as f64 / unscheduled(shape, outstanding, sectors, writes);
        let (most, lanes) = world.cello.at_disk();
        println!("{channels} channels, {sectors} sectors, {outstanding}: {part:.3}, {most} given, {lanes} lanes");
        assert!(
            part > 0.95,
            "{channels} channels, {sectors} sectors: {part}"
        );
    }
}

/// Classes and groups have their shares of a parallel disk's time, whatever their requests are.
#[test]
fn shares_side_by_side() {
    for (lanes, takes_us) in [(8, 100), (64, 5000), (64, 1000), (0, 0)] {
        for weights in [[1, 1, 0], [1, 4, 0], [3, 5, 7]] {
            let mut world = match lanes {
                0 => parallel(Shape::PARALLEL, weights),
                _ => pool(lanes, takes_us, weights),
            };
            for class in Class::ALL {
                if weights[class as usize] > 0 {
                    world.client(class, 100, 128, 8);
                    world.client(class, 300, 128, 8);
                }
            }
            world.begin();
            // Until it is known how many requests the disk needs.
            world.run(4 * SECOND);
            let begun: Vec<u64> = world.responses.iter().map(|r| r.requests).collect();
            let from_ns = world.now_ns;
            world.run(from_ns + 10 * SECOND);
            let all = (served(&world) - begun.iter().sum::<u64>()) as f64;
            let sum = f64::from(weights.iter().sum::<u32>());
            let mut i = 0;
            for weight in weights.into_iter().filter(|w| *w > 0) {
                for part in [0.25, 0.75] {
                    let ideal = f64::from(weight) / sum * part;
                    let share = (world.responses[i].requests - begun[i]) as f64 / all;
                    println!("{lanes} lanes, {weights:?}: {share:.4} for {ideal:.4}");
                    assert!((share / ideal - 1.0).abs() < 0.03, "{share} for {ideal}");
                    i += 1;
                }
            }
            if lanes > 0 {
                let possible = (10_000_000 / takes_us) as f64 * lanes as f64;
                assert!(all / possible > 0.95, "{}", all / possible);
            }
        }
    }
}

/// All of the time that the disk is busy is somebody's.
#[test]
fn nobody_is_charged_more_than_there_is() {
    let mut world = parallel(Shape::PARALLEL, [1, 2, 3]);
    for class in Class::ALL {
        world.client(class, 100, 40, 8);
    }
    world.begin();
    world.run(10 * SECOND);
    let all: u64 = Class::ALL
        .map(|class| world.cello.class(class).ns)
        .iter()
        .sum();
    let off = (all as f64 / world.busy_ns as f64 - 1.0).abs();
    assert!(off < 0.001, "{all} of {}", world.busy_ns);
}

/// What a class had of both's time, and requests a second of all, where one program of each asks for one
/// thing after the other, with a pause between. The other class's is late now and then.
fn one_after_the_other(
    mut world: World,
    sequential: bool,
    think_us: u64,
    late: (u64, u64),
) -> (f64, f64) {
    let both = [Class::Interactive, Class::Throughput];
    for (class, place) in both.into_iter().zip([1 << 26, 3 << 26]) {
        let client = world.client(class, 100, 1, 8);
        world.clients[client].sequential = sequential;
        world.clients[client].think_ns = think_us * 1000;
        world.next_sector[client] = place;
    }
    world.clients[1].late = late;
    world.begin();
    world.run(2 * SECOND);
    let begun = both.map(|class| world.cello.class(class).ns);
    let before = served(&world);
    world.run(22 * SECOND);
    let ns = both.map(|class| world.cello.class(class).ns - begun[class as usize]);
    let share = ns[0] as f64 / (ns[0] + ns[1]) as f64;
    (share, (served(&world) - before) as f64 / 20.0)
}

/// One request at a time is enough to have a share, on an arm as on many lanes; and an arm that stays for
/// who reads on serves many times as many as one that goes back and forth.
#[test]
fn one_at_a_time() {
    for sequential in [false, true] {
        for think_us in [20, 100, 500] {
            for arm in [false, true] {
                let weights = [1, 4, 0];
                let world = match arm {
                    true => World::new(Shape::TURNING, weights, SECOND / 10, 3),
                    false => parallel(Shape::PARALLEL, weights),
                };
                let (share, rate) = one_after_the_other(world, sequential, think_us, (0, 0));
                println!(
                    "arm {arm}, sequential {sequential}, {think_us} us: {share:.3}, {rate:.0}/s"
                );
                assert!((share - 0.2).abs() < 0.01, "{share} for 0.2");
            }
        }
    }
}

/// How often in a round of 100 ms an arm went from one program to the other, of two that ask for one thing
/// after the other in different places, and the time between.
fn changes(sequential: bool) -> f64 {
    let mut world = World::new(Shape::TURNING, [100, 400, 0], SECOND / 10, 3);
    let both = [Class::Interactive, Class::Throughput];
    for (class, place) in both.into_iter().zip([1 << 26, 3 << 26]) {
        let client = world.client(class, 100, 1, 8);
        world.clients[client].sequential = sequential;
        world.clients[client].think_ns = 50_000;
        world.next_sector[client] = place;
    }
    world.begin();
    let (mut last, mut changes, begins_ns) = (0, 0, 2 * SECOND);
    while world.now_ns < 22 * SECOND {
        let before = world.responses[last].requests;
        let all = served(&world);
        assert!(world.step());
        if served(&world) > all && world.responses[last].requests == before {
            last = 1 - last;
            changes += u32::from(world.now_ns > begins_ns);
        }
    }
    f64::from(changes) / 200.0
}

/// An arm goes on with the next round where it has ended the last one: one change in a round, where two
/// programs use all of it.
#[test]
fn an_arm_stays_over_the_end_of_a_round() {
    for sequential in [false, true] {
        let changes = changes(sequential);
        println!("sequential {sequential}: {changes:.2} changes in a round");
        assert!(changes < 1.2, "sequential {sequential}: {changes}");
    }
}

/// Who asks now and then, beside a program of its class that reads on, does not wait for a round's
/// share of that, but for little more than a request: nobody need be told of it to be served soon.
#[test]
fn an_arm_does_not_stay_long_for_a_peer() {
    for sequential in [false, true] {
        let mut world = World::new(Shape::TURNING, [400, 100, 400], SECOND / 10, 3);
        for (think_ns, place) in [(100_000_000, 1 << 26), (50_000, 3 << 26)] {
            let client = world.client(Class::Throughput, 100, 1, 8);
            world.clients[client].sequential = sequential;
            world.clients[client].think_ns = think_ns;
            world.next_sector[client] = place;
        }
        world.begin();
        world.run(30 * SECOND);
        let asks = world.responses[0];
        let mean_ns = asks.sum_ns / asks.requests;
        println!("sequential {sequential}: {mean_ns} ns");
        assert!(
            mean_ns < 20_000_000,
            "sequential {sequential}: {mean_ns} ns"
        );
    }
}

/// A program that reads on is late now and then, by a timer or a task switch. What was left of its class's
/// share is not lost for that: an arm waits for a while, and what was left is added to the next share.
#[test]
fn who_is_late_loses_nothing() {
    for late_ms in [2, 3, 6, 15] {
        let world = World::new(Shape::TURNING, [1, 4, 0], SECOND / 10, 3);
        let (share, rate) = one_after_the_other(world, true, 50, (1000, late_ms * 1_000_000));
        println!("{late_ms} ms late: {share:.4}, {rate:.0}/s");
        assert!((share - 0.2).abs() < 0.01, "{late_ms} ms late: {share}");
    }
}

/// Who comes to a disk that serves one long request after the other waits for two of them at most, also
/// while it is tried whether more at a time help.
#[test]
fn long_requests_do_not_pile_up() {
    let mut world = parallel(Shape::FLAT, [1, 1, 0]);
    let asker = world.client(Class::Interactive, 100, 1, 8);
    world.clients[asker].think_ns = 20_000_000;
    let writer = world.client(Class::Throughput, 100, 32, 2048);
    world.clients[writer].writes = true;
    world.begin();
    // Until it is known what they take.
    world.run(SECOND);
    world.responses[asker].worst_ns = 0;
    world.run(40 * SECOND);
    let worst_ns = world.responses[asker].worst_ns;
    println!("{worst_ns} ns at worst");
    assert!(worst_ns < 3 * 2_150_000, "{worst_ns} ns");
}

/// Lanes that nobody is held up by are not left empty: one that has many requests uses what many others,
/// each with one at a time, and a class of greater weight leave.
#[test]
fn nothing_is_left_empty() {
    let mut world = pool(64, 1000, [9, 1, 0]);
    let first = world.client(Class::Interactive, 100, 1, 8);
    world.clients[first].think_ns = 200_000;
    for _ in 0..45 {
        let single = world.client(Class::Throughput, 100, 1, 8);
        world.clients[single].think_ns = 1_500_000;
    }
    let deep = world.client(Class::Throughput, 100, 40, 8);
    world.begin();
    world.run(2 * SECOND);
    let before = world.responses[deep].requests;
    world.run(4 * SECOND);
    let lanes = (world.responses[deep].requests - before) as f64 / 2000.0;
    assert!(lanes > 36.0, "{lanes} lanes of 40");
}

/// Reads and mean response of one that reads one thing after the other, and what another writes beside it (0
/// sectors: nothing), in so many seconds from the third on, when it is known what the disk can do.
fn beside_writer(shape: Shape, think_ns: u64, sectors: u32, seconds: u64) -> (u64, u64, u64) {
    let mut world = parallel(shape, [1, 1, 0]);
    let asker = world.client(Class::Interactive, 100, 1, 8);
    world.clients[asker].think_ns = think_ns;
    let writer = world.client(Class::Throughput, 100, 32, sectors.max(1));
    world.clients[writer].writes = true;
    world.clients[writer].sequential = true;
    if sectors > 0 {
        world.begin();
    } else {
        world.ask(asker);
    }
    world.run(2 * SECOND);
    let (read, wrote) = (world.responses[asker], world.responses[writer].requests);
    world.run((2 + seconds) * SECOND);
    let reads = world.responses[asker].requests - read.requests;
    let mean_ns = (world.responses[asker].sum_ns - read.sum_ns) / reads;
    (reads, mean_ns, world.responses[writer].requests - wrote)
}

/// Who asks for one thing after the other has its share of a disk that serves one after the other in turns: it
/// waits once in a turn, and so as long as its share of the disk says, not for each request as long as the
/// other's take.
#[test]
fn interactive_requests_have_turns() {
    for sectors in [256, 1024, 2048] {
        let think_ns = 10_000;
        let (alone, alone_ns, _) = beside_writer(Shape::FLAT, think_ns, 0, 10);
        let (reads, mean_ns, wrote) = beside_writer(Shape::FLAT, think_ns, sectors, 10);
        let (_, _, all) = beside_writer(Shape::FLAT, SECOND, sectors, 10);
        println!("{sectors} sectors: {reads} of {alone} reads, {mean_ns} ns of {alone_ns}; {wrote} of {all} written");
        assert!(
            mean_ns + think_ns < (alone_ns + think_ns) * 2 * 105 / 100,
            "{mean_ns} ns"
        );
        assert!(wrote * 100 > all * 47, "{wrote} of {all} written");
    }
}

/// A disk that does not answer in a turn has the others' requests when a round is over.
#[test]
fn a_turn_ends_though_the_disk_does_not_answer() {
    let mut world = parallel(Shape::FLAT, [1, 1, 0]);
    let asker = world.client(Class::Interactive, 100, 1, 8);
    let writer = world.client(Class::Throughput, 100, 32, 1024);
    world.clients[writer].writes = true;
    world.begin();
    world.run(2 * SECOND);
    loop {
        assert!(world.step());
        let given: Vec<_> = std::iter::from_fn(|| world.cello.next(world.now_ns)).collect();
        world.flying.extend(given);
        let mut at_disk = world.ends.iter().map(|(_, id)| id).chain(&world.flying);
        if let (Some(id), None) = (at_disk.next(), at_disk.next()) {
            if world.owner[id].0 == asker {
                break;
            }
        }
    }
    let stuck_ns = world.now_ns;
    while world.cello.next(world.now_ns).is_none() {
        world.now_ns = world.cello.wake_ns().expect("others wait");
    }
    let waited_ns = world.now_ns - stuck_ns;
    assert!(
        waited_ns > SECOND / 1000 && waited_ns <= SECOND / 10,
        "{waited_ns} ns"
    );
}

/// Who writes one thing after the other beside it has its share as well.
#[test]
fn turns_leave_others_their_share() {
    for think_ns in [200_000, 800_000, 1_500_000] {
        let mut world = parallel(Shape::FLAT, [1, 1, 0]);
        let asker = world.client(Class::Interactive, 100, 1, 8);
        world.clients[asker].think_ns = 10_000;
        let writer = world.client(Class::Throughput, 100, 1, 2048);
        world.clients[writer].writes = true;
        world.clients[writer].think_ns = think_ns;
        world.begin();
        world.run(2 * SECOND);
        let (read, wrote) = (
            world.responses[asker].requests,
            world.responses[writer].requests,
        );
        world.run(12 * SECOND);
        let wrote = world.responses[writer].requests - wrote;
        let read = world.responses[asker].requests - read;
        // What either takes, and what the disk idles for the reader in its turns.
        let (wrote_ns, read_ns) = (wrote as f64 * 2.15e6, read as f64 * 118e3);
        let part = wrote_ns / (wrote_ns + read_ns);
        println!("{think_ns} ns: {wrote} written, {read} read, {part:.3} of the time");
        assert!((part - 0.5).abs() < 0.03, "{think_ns} ns: {part}");
    }
}

/// It has none where it would keep the disk from others for longer than it waits for them.
#[test]
fn who_thinks_long_has_no_turns() {
    let (_, _, wrote) = beside_writer(Shape::FLAT, 1_500_000, 1024, 10);
    let (_, _, all) = beside_writer(Shape::FLAT, SECOND, 1024, 10);
    println!("{wrote} of {all} written");
    assert!(wrote * 100 > all * 90, "{wrote} of {all} written");
}

/// Whoever comes now and then to a disk whose lanes are chosen by place does not wait for all that these could
/// have, and what it costs the others is little.
#[test]
fn what_is_at_the_disk_is_held_down() {
    for (channels, sectors) in [(2, 512), (4, 1024), (8, 2048)] {
        let shape = Shape {
            channels,
            ..Shape::PARALLEL
        };
        let mut world = parallel(shape, [1, 1, 0]);
        let asker = world.client(Class::Interactive, 100, 1, 8);
        world.clients[asker].think_ns = 40_000_000;
        let writer = world.client(Class::Throughput, 100, 128, sectors);
        world.clients[writer].writes = true;
        world.begin();
        world.run(10 * SECOND);
        let (asked, wrote) = (world.responses[asker], world.responses[writer].requests);
        world.run(30 * SECOND);
        let asks = world.responses[asker].requests - asked.requests;
        let mean_us = (world.responses[asker].sum_ns - asked.sum_ns) / asks / 1000;
        let all = unscheduled(shape, 128, sectors, true) * 2.0;
        let part = (world.responses[writer].requests - wrote) as f64 / all;
        println!("{channels} channels, {sectors} sectors: {mean_us} us, {part:.3} of the disk");
        assert!(mean_us < 5000, "{channels} channels: {mean_us} us");
        assert!(part > 0.85, "{channels} channels: {part}");
    }
}

/// Requests that come some at once, the next when all of those are served (a read of more than a request may
/// have), are served side by side, before and after other loads.
#[test]
fn bursts_are_served_side_by_side() {
    let bursts = [2usize, 3, 8, 20].map(|burst| [(burst, 100_000), (burst, 1_000_000)]);
    for (burst, takes_ns) in bursts.concat() {
        for lanes in [2, 64] {
            let mut cello = Cello::new(Shape::FLAT.sectors, false);
            let group = cello.group(Class::Throughput, 100).unwrap();
            let mut now_ns = 0;
            let mut rounds = |cello: &mut Cello, number: usize, burst: usize| {
                let begun_ns = now_ns;
                for _ in 0..number {
                    let mut free = vec![now_ns; lanes];
                    let mut ends = BTreeSet::new();
                    let mut rests = false;
                    for i in 0..burst as u64 {
                        let request = Request {
                            sector: i * 8,
                            sectors: 8,
                            writes: false,
                            sync: true,
                            deadline_ns: 0,
                        };
                        cello.add(group, request, now_ns).unwrap();
                    }
                    loop {
                        let next = || (!rests).then(|| cello.next(now_ns)).flatten();
                        for id in std::iter::from_fn(next) {
                            let lane = free.iter_mut().min().unwrap();
                            *lane = now_ns.max(*lane) + takes_ns;
                            ends.insert((*lane, id));
                        }
                        let Some((end_ns, id)) = ends.pop_first() else {
                            break;
                        };
                        now_ns = end_ns;
                        cello.done(id, now_ns);
                        rests = cello.enough();
                    }
                    now_ns += 10_000;
                }
                (now_ns - begun_ns) / number as u64 - 10_000
            };
            let least = (burst.div_ceil(lanes) as u64) * takes_ns;
            rounds(&mut cello, 80, burst);
            let (given, _) = cello.at_disk();
            assert!(
                given < 4 * burst as u32,
                "{burst} at once: {given} at a time"
            );
            let first = rounds(&mut cello, 1000, burst);
            assert!(
                first <= least * 11 / 10,
                "{burst} at once, {lanes} lanes: {first} ns"
            );
            rounds(&mut cello, 1000, 200);
            let then = rounds(&mut cello, 1000, burst);
            println!(
                "{burst} at once, {lanes} lanes: {first}, {then} ns of {least}; {:?}",
                cello.at_disk()
            );
            assert!(
                then <= least * 11 / 10,
                "{burst} at once, {lanes} lanes: {then} ns"
            );
        }
    }
}

/// Many requests that come at once to a disk of eight lanes, each of which takes its own time: how long
/// the last ten such loads take after ten others, and how often the next requests are chosen meanwhile.
fn loads(rests: bool) -> (u64, u64) {
    const LANES: usize = 8;
    let mut cello = Cello::new(Shape::FLAT.sectors, false);
    let group = cello.group(Class::Throughput, 100).unwrap();
    let mut dice = Dice(7);
    let (mut now_ns, mut begun_ns, mut chosen) = (0, 0, 0);
    for load in 0..20 {
        if load == 10 {
            (begun_ns, chosen) = (now_ns, 0);
        }
        for i in 0..800 {
            let request = Request {
                sector: i * 8,
                sectors: 8,
                writes: false,
                sync: true,
                deadline_ns: 0,
            };
            cello.add(group, request, now_ns).unwrap();
        }
        let (mut free, mut ends) = (vec![now_ns; LANES], BTreeSet::new());
        let mut enough = false;
        loop {
            if !enough {
                chosen += 1;
                for id in std::iter::from_fn(|| cello.next(now_ns)) {
                    let lane = free.iter_mut().min().unwrap();
                    *lane = now_ns.max(*lane) + 50_000 + dice.below(100_000);
                    ends.insert((*lane, id));
                }
            }
            let Some((end_ns, id)) = ends.pop_first() else {
                break;
            };
            now_ns = end_ns;
            cello.done(id, now_ns);
            enough = rests && cello.enough();
        }
    }
    (now_ns - begun_ns, chosen)
}

/// That nothing is chosen while the disk has enough leaves no lane empty, and spares half of the work
/// of choosing at least.
#[test]
fn while_the_disk_has_enough_nothing_is_chosen() {
    let (usual_ns, usual) = loads(false);
    let (took_ns, chosen) = loads(true);
    println!("{took_ns} ns of {usual_ns}, {chosen} times of {usual}");
    assert!(took_ns * 100 <= usual_ns * 102);
    assert!(chosen * 2 <= usual);
}

/// A class of greater weight that asks for a few things at a time has its share beside one that asks for many: the
/// disk is given so many that its few are as large a part of them. When it goes the other one has all of the
/// disk within two seconds.
#[test]
fn few_have_their_share_beside_many() {
    for (few, many) in [(8, 64), (12, 128), (32, 128)] {
        let mut world = parallel(Shape::PARALLEL, [4, 1, 0]);
        let first = world.client(Class::Interactive, 100, few, 8);
        let other = world.client(Class::Throughput, 100, many, 8);
        world.begin();
        world.run(4 * SECOND);
        let begun_ns = [Class::Interactive, Class::Throughput].map(|c| world.cello.class(c).ns);
        world.run(20 * SECOND);
        let now_ns = [Class::Interactive, Class::Throughput].map(|c| world.cello.class(c).ns);
        let [a, b] = [0, 1].map(|i| (now_ns[i] - begun_ns[i]) as f64);
        println!("{few} beside {many}: {:.3}", a / (a + b));
        assert!((a / (a + b) - 0.8).abs() < 0.02, "{few} beside {many}");
        world.clients[first].think_ns = 1000 * SECOND;
        world.run(22 * SECOND);
        let before = world.responses[other].requests;
        world.run(24 * SECOND);
        let alone = (world.responses[other].requests - before) as f64;
        let part = alone * 5.0 / unscheduled(Shape::PARALLEL, many, 8, false);
        println!("alone: {part:.3}");
        assert!(part > 0.95, "{many} after {few}: {part}");
    }
}

/// Two who write four things at a time and wait for them, as for `fsync`, beside one who reads on: what each
/// of them does in a second, and the writers' longest time between two. For a while after a write the
/// processors are the writers', and the reader thinks for so long.
fn reader_and_waiting_writers(think_ns: u64, busy_think_ns: u64) -> ([f64; 3], u64) {
    let mut world = parallel(Shape::FLAT, [200, 100, 200]);
    let reader = world.client(Class::Interactive, 100, 1, 8);
    let writers = [0, 1].map(|_| {
        let writer = world.client(Class::Throughput, 100, 4, 16);
        world.clients[writer].writes = true;
        world.clients[writer].think_ns = think_ns;
        writer
    });
    world.begin();
    let (mut written, mut wrote_ns, mut begun) = (0, 0, [0; 3]);
    while world.now_ns < 22 * SECOND {
        let busy = world.now_ns < wrote_ns + 1_000_000;
        world.clients[reader].think_ns = if busy { busy_think_ns } else { 20_000 };
        assert!(world.step());
        let now: u64 = writers.iter().map(|w| world.responses[*w].requests).sum();
        if now > written {
            (written, wrote_ns) = (now, world.now_ns);
        }
        if world.now_ns < 2 * SECOND {
            begun = [0, 1, 2].map(|i| world.responses[i].requests);
            for writer in writers {
                world.responses[writer].gap_ns = 0;
            }
        }
    }
    let rates = [0, 1, 2].map(|i| (world.responses[i].requests - begun[i]) as f64 / 20.0);
    let gap_ns = writers.map(|w| world.responses[w].gap_ns).into_iter().max();
    (rates, gap_ns.unwrap())
}

/// Who waits for what it writes has a turn of the reader's to wait for, and that is a short one; and the
/// reader has turns also where it waits for the processors rather than for the disk.
#[test]
fn turns_are_short_beside_who_waits() {
    for (think_ns, busy_think_ns) in [
        (1_000_000, 20_000),
        (1_000_000, 200_000),
        (2_000_000, 200_000),
    ] {
        let ([read, a, b], gap_ns) = reader_and_waiting_writers(think_ns, busy_think_ns);
        println!(
            "{busy_think_ns} ns: {read:.0}/s read, {a:.0} and {b:.0} written, longest {gap_ns} ns"
        );
        assert!(gap_ns < 8_000_000, "a writer waited for {gap_ns} ns");
        assert!(read > 4500.0, "{read:.0}/s read");
    }
}

/// A disk takes several times as long from now on, or less again (a full cache, another zone): what
/// it serves side by side is learned anew, and meanwhile, too, it is used and shares are kept.
#[test]
fn a_disk_that_changes() {
    for (lanes, outstanding) in [(8, 32), (24, 64), (1, 8)] {
        for weights in [[1, 4, 0], [0, 1, 0]] {
            let mut world = pool(lanes, 400, weights);
            if weights[0] > 0 {
                world.client(Class::Interactive, 100, outstanding, 8);
            }
            world.client(Class::Throughput, 100, outstanding, 8);
            world.begin();
            let mut second = 3;
            world.run(second * SECOND);
            for takes_us in [3200, 400, 12_800, 400] {
                world.pool.as_mut().unwrap().0 = takes_us * 1000;
                for since in 1..=4 {
                    let before = world.responses.clone();
                    second += 1;
                    world.run(second * SECOND);
                    let got: Vec<f64> = world
                        .responses
                        .iter()
                        .zip(before)
                        .map(|(now, before)| (now.requests - before.requests) as f64)
                        .collect();
                    let whole = got.iter().sum::<f64>() * takes_us as f64 / (lanes as f64 * 1e6);
                    let case = format!(
                        "{lanes} lanes {weights:?}, {takes_us} us, {since} s: {got:?}, {whole:.3}"
                    );
                    println!("{case}");
                    assert!(whole > if since == 1 { 0.9 } else { 0.95 }, "{case}");
                    // There is one request more or less of each at the seconds' ends.
                    if since > 1 && weights[0] > 0 {
                        assert!(
                            (got[1] - got[0] * 4.0).abs() < 0.03 * got[1] + 8.0,
                            "{case}"
                        );
                    }
                }
            }
        }
    }
}

/// A disk that serves fewer side by side from now on, and as slowly as a throttled volume does.
#[test]
fn lanes_that_are_gone_are_forgotten() {
    for weights in [[1, 4, 0], [0, 1, 0]] {
        let mut world = pool(16, 400, weights);
        if weights[0] > 0 {
            world.client(Class::Interactive, 100, 32, 8);
        }
        world.client(Class::Throughput, 100, 32, 8);
        world.begin();
        world.run(4 * SECOND);
        assert_eq!(world.cello.at_disk().1, 16);
        world.pool = Some((10_000_000, vec![world.now_ns]));
        let lanes: Vec<u32> = (5..15)
            .map(|second| {
                world.run(second * SECOND);
                world.cello.at_disk().1
            })
            .collect();
        println!("{weights:?}: {lanes:?}");
        assert_eq!(lanes[9], 1, "{weights:?}: {lanes:?}");
    }
}

/// Beside one that has as much at the disk as it may, real-time requests are in time, and what is promised
/// is kept, also while it is tried whether more at a time help; and the disk is used.
#[test]
fn deadlines_hold_whatever_is_tried() {
    let pools = [(8, 4000), (8, 400), (64, 5000)].map(Some);
    for (pool_of, deadline_ms) in pools
        .iter()
        .flat_map(|p| [7, 10, 15, 25, 50].map(|d| (*p, d)))
        .chain([(None, 20)])
    {
        let mut world = match pool_of {
            Some((lanes, takes_us)) => pool(lanes, takes_us, [200, 100, 200]),
            None => parallel(Shape::PARALLEL, [200, 100, 200]),
        };
        let asker = world.client(Class::Realtime, 100, 1, 8);
        world.clients[asker].think_ns = 40_000_000;
        world.clients[asker].deadline_ns = deadline_ms * 1_000_000;
        let other = world.client(Class::Throughput, 100, 128, 8);
        world.begin();
        world.run(3 * SECOND);
        let (before, class) = (world.responses.clone(), world.cello.class(Class::Realtime));
        world.run(23 * SECOND);
        let got = |i: usize| world.responses[i].requests - before[i].requests;
        let promised = world.responses[asker].promised - before[asker].promised;
        let all = match pool_of {
            Some((lanes, takes_us)) => 20e6 * lanes as f64 / takes_us as f64,
            None => 2.0 * unscheduled(Shape::PARALLEL, 128, 8, false),
        };
        let whole = (got(asker) + got(other)) as f64 / all;
        let now = world.cello.class(Class::Realtime);
        let case = format!(
            "{pool_of:?}, {deadline_ms} ms: of {}, {promised} promised, {} late; {whole:.3} of the disk",
            got(asker),
            now.late - class.late
        );
        println!("{case}");
        assert_eq!(
            (now.late - class.late, now.broken),
            (0, class.broken),
            "{case}"
        );
        // One in 40 ms and what it takes, of which all that can be are promised.
        assert!(got(asker) > 20_000 / (40 + 10), "{case}");
        assert!(
            promised * 10 > got(asker) * 9 || deadline_ms < 10 || pool_of.is_none(),
            "{case}"
        );
        assert!(whole > 0.95, "{case}");
    }
}
