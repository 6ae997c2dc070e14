// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cgroups of a class (core/disk/cello_group.h): what a group has is divided among its children.

use proptest::prelude::*;
use qlinux_core::cello::{Class, GroupId};
use qlinux_core::disk::Shape;
use qlinux_properties::cases;
use world::{World, SECOND};

#[path = "common/world.rs"]
mod world;

/// Disks: an arm, one request after the other, lanes, channels that are chosen by place.
const DISKS: [&str; 4] = ["arm", "flat", "lanes", "channels"];

fn world(disk: &str, seed: u64) -> World {
    let (shape, in_flight) = match disk {
        "arm" => (Shape::TURNING, 1),
        "flat" => (
            Shape {
                overhead_ns: 2_000_000,
                ..Shape::FLAT
            },
            1,
        ),
        _ => (Shape::PARALLEL, 0),
    };
    let mut world = World::new(shape, [1, 1, 0], SECOND / 10, seed);
    world.cello.set_in_flight(in_flight).unwrap();
    if disk == "lanes" {
        world.pool = Some((1_000_000, vec![0; 16]));
    }
    world
}

/// What the groups were served between 4 s and 12 s, as parts of all of theirs.
fn parts(world: &mut World, groups: &[GroupId]) -> Vec<f64> {
    world.begin();
    world.run(4 * SECOND);
    let begun: Vec<u64> = groups.iter().map(|g| world.cello.of_group(*g).ns).collect();
    world.run(12 * SECOND);
    let ns: Vec<u64> = groups
        .iter()
        .zip(begun)
        .map(|(g, begun)| world.cello.of_group(*g).ns - begun)
        .collect();
    let all: u64 = ns.iter().sum();
    ns.into_iter().map(|ns| ns as f64 / all as f64).collect()
}

proptest! {
    #![proptest_config(cases(12))]

    /// Any tree of groups: node i + 1 is below one of those before it, or below none. Each has
    /// requests of its own where it has no children, or where `busy` says so.
    #[test]
    fn every_level_divides_what_it_has(
        disk in 0usize..DISKS.len(),
        nodes in prop::collection::vec((0usize..6, 1u32..=6, any::<bool>()), 2..=7),
        seed: u64,
    ) {
        let mut world = world(DISKS[disk], seed);
        let mut groups: Vec<(GroupId, Option<usize>, u32)> = Vec::new();
        for (i, (below, weight, _)) in nodes.iter().enumerate() {
            let parent = (*below < i).then_some(*below);
            let weight = weight * 100;
            let group = match parent {
                Some(parent) => world.cello.group_in(Class::Throughput, groups[parent].0, weight),
                None => world.cello.group(Class::Throughput, weight),
            }
            .unwrap();
            groups.push((group, parent, weight));
        }
        let children = |p: Option<usize>| groups.iter().filter(move |g| g.1 == p);
        let busy = |i: usize| nodes[i].2 || children(Some(i)).next().is_none();
        // The definition: down from the top, by weight; own requests count as a child of weight 100.
        let mut share = vec![0.0; groups.len()];
        let mut all = vec![0.0; groups.len()];
        for (i, (_, parent, weight)) in groups.iter().enumerate() {
            let siblings: u32 = children(*parent).map(|g| g.2).sum();
            let (own, has) = parent.map_or((0, 1.0), |p| (100 * u32::from(busy(p)), all[p]));
            all[i] = has * f64::from(*weight) / f64::from(siblings + own);
            let below: u32 = children(Some(i)).map(|g| g.2).sum();
            share[i] = if busy(i) { all[i] * 100.0 / f64::from(below + 100) } else { 0.0 };
        }
        let users: Vec<usize> = (0..groups.len()).filter(|i| busy(*i)).collect();
        for i in &users {
            world.client_of(groups[*i].0, 64, 8);
        }
        let found = parts(&mut world, &users.iter().map(|i| groups[*i].0).collect::<Vec<_>>());
        for (i, part) in users.iter().zip(found) {
            prop_assert!((part - share[*i]).abs() < 0.02, "{}: {part} for {}", DISKS[disk], share[*i]);
        }
    }
}

/// However many children a group has, and whatever they do, it has no more than another of its weight.
#[test]
fn children_multiply_nothing() {
    // Outstanding, and between two of one client's: always many, one after the other, now and then.
    let kinds = [(8, 0), (1, 50_000), (1, 20_000_000)];
    for (disk, children, (outstanding, think_ns)) in DISKS
        .into_iter()
        .flat_map(|disk| [1, 2, 64].map(|children| (disk, children)))
        .flat_map(|(disk, children)| kinds.map(|kind| (disk, children, kind)))
    {
        let mut world = world(disk, 5);
        let p = world.cello.group(Class::Throughput, 100).unwrap();
        let q = world.cello.group(Class::Throughput, 100).unwrap();
        let mut groups = vec![q];
        world.client_of(q, 64, 8);
        // So that /p wants its half always.
        let steady = world.cello.group_in(Class::Throughput, p, 100).unwrap();
        world.client_of(steady, 64, 8);
        groups.push(steady);
        for _ in 1..children {
            let child = world.cello.group_in(Class::Throughput, p, 100).unwrap();
            let client = world.client_of(child, outstanding, 8);
            world.clients[client].think_ns = think_ns;
            groups.push(child);
        }
        let part = parts(&mut world, &groups)[0];
        println!("{disk}, {children} children of {outstanding}, {think_ns} ns: {part:.4}");
        assert!(
            (part - 0.5).abs() < 0.015,
            "{disk}, {children} children of {outstanding} with pauses of {think_ns} ns: {part}"
        );
    }
}

/// Who sleeps earns nothing by it, at no level, and owes nothing for what others left.
#[test]
fn a_group_that_comes_back() {
    for disk in DISKS {
        let mut world = world(disk, 7);
        let p = world.cello.group(Class::Throughput, 100).unwrap();
        let q = world.cello.group(Class::Throughput, 100).unwrap();
        let [a, b] = [100, 300].map(|w| world.cello.group_in(Class::Throughput, p, w).unwrap());
        let away = world.client_of(a, 0, 8);
        world.client_of(b, 32, 8);
        world.client_of(q, 32, 8);
        world.begin();
        world.run(10 * SECOND);
        (0..32).for_each(|_| world.ask(away));
        world.run(11 * SECOND);
        let begun = [a, b, q].map(|g| world.cello.of_group(g).ns);
        world.run(21 * SECOND);
        let ns: Vec<u64> = [a, b, q]
            .into_iter()
            .zip(begun)
            .map(|(g, begun)| world.cello.of_group(g).ns - begun)
            .collect();
        let all = ns.iter().sum::<u64>() as f64;
        for (ns, ideal) in ns.into_iter().zip([0.125, 0.375, 0.5]) {
            let part = ns as f64 / all;
            assert!((part - ideal).abs() < 0.015, "{disk}: {part} for {ideal}");
        }
    }
}

/// Who is to have most of a disk finds it though others have as many outstanding: of as many at the
/// disk as all of them together could have it cannot fill its share.
#[test]
fn who_has_most_has_it_beside_many() {
    for (outstanding, peers, weight, child) in [
        (32, 2, 1200, 300),
        (64, 2, 1200, 200),
        (64, 2, 1200, 800),
        (64, 6, 3000, 300),
        (100, 1, 600, 300),
    ] {
        let mut world = world("channels", 11);
        let p = world.cello.group(Class::Throughput, weight).unwrap();
        let c = world.cello.group_in(Class::Throughput, p, child).unwrap();
        let mut groups = vec![c, p];
        let peer = |_| world.cello.group(Class::Throughput, 100).unwrap();
        groups.extend((0..peers).map(peer));
        for g in &groups {
            world.client_of(*g, outstanding, 8);
        }
        let part = parts(&mut world, &groups)[0];
        let [has, child] = [weight, child].map(f64::from);
        let ideal = has / (has + 100.0 * f64::from(peers)) * child / (child + 100.0);
        let served = world.responses.iter().map(|r| r.requests).sum::<u64>();
        println!("{outstanding} each: {part:.4} for {ideal:.4}, {served} served");
        assert!(
            (part - ideal).abs() < 0.015,
            "{outstanding} each: {part} for {ideal}"
        );
    }
}
