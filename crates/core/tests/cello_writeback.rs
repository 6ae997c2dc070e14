// SPDX-License-Identifier: MIT OR Apache-2.0
//! What nobody waits for, on an arm (core/disk/cello_share.h): few long pieces, no less than its share, and
//! nobody who waits is kept longer for it than for one of those.

use qlinux_core::cello::Class;
use qlinux_core::disk::Shape;
use world::{World, SECOND};

#[path = "common/world.rs"]
mod world;

const MS: u64 = 1_000_000;
const WEIGHTS: [u32; 3] = [400, 100, 400];

fn arm() -> World {
    World::new(Shape::TURNING, WEIGHTS, SECOND / 10, 5)
}

/// One who reads at random, one thing after the other.
fn reader(world: &mut World, class: Class, think_ns: u64) -> usize {
    let i = world.client(class, 100, 1, 8);
    world.clients[i].think_ns = think_ns;
    i
}

/// One who writes in sequence, with many requests of 1 MiB there.
fn writer(world: &mut World, sync: bool) -> usize {
    let i = world.client(Class::Throughput, 100, 32, 2048);
    world.clients[i].sequential = true;
    world.clients[i].writes = true;
    world.clients[i].sync = sync;
    i
}

/// What each of the client's requests took over so many seconds, in order of length.
fn times(world: &mut World, i: usize, seconds: u64) -> Vec<u64> {
    let mut times = Vec::new();
    world.begin();
    while world.now_ns < seconds * SECOND {
        let before = world.responses[i];
        assert!(world.step());
        if world.responses[i].requests > before.requests {
            times.push(world.responses[i].sum_ns - before.sum_ns);
        }
    }
    times.sort_unstable();
    times
}

#[test]
fn it_is_served_in_long_pieces() {
    let [alike, gathered] = [true, false].map(|sync| {
        let mut world = arm();
        let read = reader(&mut world, Class::Interactive, 50_000);
        let write = writer(&mut world, sync);
        let times = times(&mut world, read, 60);
        let share = world.shares()[Class::Throughput as usize];
        let (p98, worst) = (times[times.len() * 98 / 100], times[times.len() - 1]);
        let written = world.responses[write].requests;
        println!(
            "sync {sync}: share {share:.4}, {written} written, p98 {p98} ns, worst {worst} ns"
        );
        assert!((share - 0.2).abs() < 0.005, "share {share}");
        (written as f64, p98, worst)
    });
    assert!(
        gathered.0 > alike.0 * 1.2,
        "written {} and {}",
        alike.0,
        gathered.0
    );
    // One of fifty reads does not meet a piece.
    assert!(gathered.1 < 15 * MS && alike.1 > 15 * MS, "{gathered:?}");
    // A ninth of 1.6 s, and a request or two.
    assert!(gathered.2 < 220 * MS, "{gathered:?}");
}

#[test]
fn alone_it_does_not_wait() {
    let [alike, gathered] = [true, false].map(|sync| {
        let mut world = arm();
        let write = writer(&mut world, sync);
        world.begin();
        world.run(10 * SECOND);
        assert_eq!(world.held_ns, 0, "the disk was idle");
        world.responses[write].requests
    });
    assert!(
        alike.abs_diff(gathered) <= alike / 100,
        "{alike} {gathered}"
    );
}

/// Who asks now and then comes first, whatever was gathered: it waits for what is at the disk, and for
/// what was about to go there.
#[test]
fn who_asks_now_and_then_comes_first() {
    let mut world = arm();
    let read = reader(&mut world, Class::Interactive, 100 * MS);
    writer(&mut world, false);
    let times = times(&mut world, read, 60);
    let mean_ns = times.iter().sum::<u64>() / times.len() as u64;
    println!("mean {mean_ns} ns, worst {} ns", times[times.len() - 1]);
    assert!(mean_ns < 25 * MS, "{mean_ns} ns");
}

/// Nothing is gathered while somebody of the class waits, and no deadline is missed for it.
#[test]
fn nobody_who_waits_waits_for_what_is_gathered() {
    let mut world = arm();
    reader(&mut world, Class::Interactive, 50_000);
    writer(&mut world, false);
    let film = reader(&mut world, Class::Realtime, 40 * MS);
    world.clients[film].deadline_ns = 300 * MS;
    let peer = reader(&mut world, Class::Throughput, 20 * MS);
    let times = times(&mut world, peer, 60);
    let worst_ns = times[times.len() - 1];
    println!("worst {worst_ns} ns");
    assert!(worst_ns < 300 * MS, "{worst_ns} ns");
    assert_eq!(world.cello.class(Class::Realtime).late, 0);
    assert_eq!(world.cello.class(Class::Realtime).broken, 0);
}
