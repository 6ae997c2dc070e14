// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several domains, each with a tree of its own: the ledger keeps the whole exact.

use proptest::{collection::vec, prelude::*};
use qlinux_core::engine::Core;
use qlinux_core::ledger::{Ledger, Seen, CPU, PERIOD_NS};
use qlinux_core::sim::{due, run, Change, Simulation, Thread, Workload};
use qlinux_core::NodeId;
use qlinux_properties::cases;
use rand::{Rng, SeedableRng};

const SECOND: u64 = 1_000_000_000;
/// Within a second a class cannot be closer to what is its due than its turn is long.
const TURN: u64 = 5_000_000;

/// A tree of two levels with busy threads, and with some that block now and then.
fn workload(seed: u64, servers: u32, domains: u32, late_us: u32, seconds: u64) -> Workload {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut text = format!(
        "duration = '{}s'\nservers = {servers}\ndomains = {domains}\nseed = {seed}\n\
         late = ['0us', '{late_us}us']\n",
        seconds + 1
    );
    for top in 0..rng.random_range(2..=4) {
        let weight = rng.random_range(1..=6) * 100;
        text += &format!("[[class]]\npath = '/{top}'\nweight = {weight}\n");
        for class in 0..rng.random_range(1..=3) {
            let weight = match rng.random_bool(0.2) {
                true => rng.random_range(1..=100) * 10,
                false => rng.random_range(1..=6) * 100,
            };
            let blocks = class > 0 && rng.random_bool(0.5);
            let count = rng.random_range(1..=servers * 3 / 2);
            let count = if blocks { (count / 6).max(1) } else { count };
            text += &format!(
                "[[class]]\npath = '/{top}/{class}'\nleaf = 'ts'\nweight = {weight}\n\
                 [[thread]]\nclass = '/{top}/{class}'\ncount = {count}\n"
            );
            if blocks {
                let (run, sleep) = (rng.random_range(1..=3), rng.random_range(4..=12));
                text += &format!("run = ['100us', '{run}ms']\nsleep = ['3ms', '{sleep}ms']\n");
            }
        }
    }
    text.parse().expect("that is a workload")
}

/// Whether a leaf is to have almost all that its threads can use, so that it changes with each
/// sleep of a sibling what its share depends on. What it gets then depends on how long what it
/// missed is made up for, with one tree as well.
fn on_the_edge(workload: &Workload, sim: &Simulation, seconds: u64) -> bool {
    due(workload, sim, SECOND, seconds * SECOND)
        .iter()
        .any(|due| {
            let of = |th: &&Thread| th.class == sim.classes[due.class];
            let threads = workload.threads.iter().find(of).unwrap().count;
            let part = due.due_ns as f64 / (f64::from(threads) * (seconds * SECOND) as f64);
            (0.93..1.0).contains(&part)
        })
}

/// No class is further from what is its due than this, in each second and over all of them.
fn shares_are_exact(workload: &Workload, seconds: u64, each: f64, all: f64) -> Result<(), String> {
    let sim = run(workload, Core::new()).unwrap();
    if on_the_edge(workload, &sim, seconds) {
        return Ok(());
    }
    for (window, tolerance) in [(1, each), (seconds, all)] {
        for due in due(workload, &sim, SECOND, window * SECOND) {
            let off = due.got_ns.abs_diff(due.due_ns);
            if off > TURN && due.error().abs() > tolerance {
                let class = &sim.classes[due.class];
                let (got, due) = (due.got_ns as f64 / 1e9, due.due_ns as f64 / 1e9);
                return Err(format!("{class} got {got} of {due} s in {window} s"));
            }
        }
    }
    Ok(())
}

#[test]
fn random_trees_get_their_shares_of_two_sockets() {
    for seed in 1..=20 {
        let exact = shares_are_exact(&workload(seed, 8, 2, 50, 10), 10, 0.01, 0.005);
        assert!(exact.is_ok(), "seed {seed}: {}", exact.unwrap_err());
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// A thread gets no more than a processor, and a domain gives no more than it has.
    #[test]
    fn what_is_spread_is_there(
        leaves in vec((1..=10_000u32, vec(0..20u32, 4)), 1..20),
        servers in vec(1..16u32, 4),
    ) {
        let mut ledger = Ledger::new(&servers);
        let node = |i: usize| NodeId::from_number(i as u32 + 2).unwrap();
        for (i, (weight, _)) in leaves.iter().enumerate() {
            ledger.mknod(node(i), NodeId::ROOT, *weight, true);
        }
        for (i, (_, threads)) in leaves.iter().enumerate() {
            for (domain, &runnable) in threads.iter().enumerate() {
                let runnable_ns = u64::from(runnable) * PERIOD_NS;
                ledger.see(node(i), domain as u32, Seen { runnable, runnable_ns, served_ns: 0 });
            }
        }
        ledger.settle(PERIOD_NS);
        let mut column = [0u64; 4];
        for (i, (_, threads)) in leaves.iter().enumerate() {
            if threads.iter().all(|&t| t == 0) {
                continue;
            }
            for (domain, &runnable) in threads.iter().enumerate().filter(|t| *t.1 > 0) {
                let share = u64::from(ledger.share(node(i), domain as u32));
                // A leaf that is full has a quarter more weight than what it is to get.
                let share = share * 4 / 5;
                prop_assert!(share <= u64::from(runnable) * u64::from(CPU) + 1);
                column[domain] += share;
            }
        }
        for (domain, sum) in column.iter().enumerate() {
            let most = u64::from(servers[domain]) * u64::from(CPU) + leaves.len() as u64;
            prop_assert!(*sum <= most, "domain {domain} gives {sum} of {most}");
        }
    }
}

/// The example at the head of core/cpu/ledger.h.
#[test]
fn a_leaf_goes_where_another_one_cannot_be_served() {
    let mut ledger = Ledger::new(&[1, 1]);
    let [x, y] = [2, 3].map(|n| NodeId::from_number(n).unwrap());
    let see = |runnable| Seen {
        runnable,
        runnable_ns: u64::from(runnable) * PERIOD_NS,
        served_ns: 0,
    };
    for (leaf, threads) in [(x, [2, 0]), (y, [1, 1])] {
        ledger.mknod(leaf, NodeId::ROOT, 100, true);
        for (domain, runnable) in threads.into_iter().enumerate() {
            ledger.see(leaf, domain as u32, see(runnable));
        }
    }
    ledger.settle(PERIOD_NS);
    let part = |share: u32| f64::from(share) / f64::from(CPU);
    assert!(part(ledger.share(x, 0)) > 0.8);
    assert!(part(ledger.share(y, 0)) < 0.2);
    assert!(part(ledger.share(y, 1)) > 0.8);
}

/// Two leaves that are to have one processor each, and all threads are in one domain.
#[test]
fn a_thread_moves_where_there_is_something_left() {
    let mut ledger = Ledger::new(&[1, 1]);
    let leaves = [2, 3].map(|n| NodeId::from_number(n).unwrap());
    for leaf in leaves {
        ledger.mknod(leaf, NodeId::ROOT, 100, true);
        let (runnable, runnable_ns) = (1, PERIOD_NS);
        ledger.see(
            leaf,
            0,
            Seen {
                runnable,
                runnable_ns,
                served_ns: 0,
            },
        );
        ledger.see(leaf, 1, Seen::default());
    }
    ledger.settle(PERIOD_NS);
    let moved = ledger.next_move().expect("one has to move");
    assert!(leaves.contains(&moved.leaf));
    assert_eq!((moved.from, moved.to), (0, 1));
    assert_eq!(ledger.next_move(), None, "then there is room");
}

#[test]
fn hundreds_of_processors_are_divided_exactly() {
    for (servers, domains) in [(64, 4), (256, 16), (512, 32)] {
        for seed in 1..=3 {
            for late_us in [0, 50] {
                let workload = workload(seed, servers, domains, late_us, 1);
                let exact = shares_are_exact(&workload, 1, 0.005, 0.005);
                assert!(
                    exact.is_ok(),
                    "{servers} servers, seed {seed}: {}",
                    exact.unwrap_err()
                );
            }
        }
    }
}

/// Two classes with a thread for each processor, all of which run and sleep for some microseconds.
fn switching(servers: u32, domains: u32) -> Workload {
    let mut text = format!(
        "duration = '20ms'\nservers = {servers}\ndomains = {domains}\nlate = ['0us', '50us']\n"
    );
    for (class, weight) in [("a", 100), ("b", 300)] {
        text += &format!(
            "[[class]]\npath = '/{class}'\nleaf = 'ts'\nweight = {weight}\n\
             [[thread]]\nclass = '/{class}'\ncount = {servers}\n\
             run = ['15us', '35us']\nsleep = ['60us', '90us']\n"
        );
    }
    text.parse().expect("that is a workload")
}

/// Part of all processors' time that would be spent waiting for locks, at some 20,000 wake-ups a
/// second and processor.
fn waits_for_locks(servers: u32, domains: u32) -> f64 {
    let workload = switching(servers, domains);
    let sim = run(&workload, Core::new()).unwrap();
    let woken = sim.records.iter().filter(|r| r.change == Change::Wake);
    let seconds = f64::from(servers) * workload.duration.0 as f64 / 1e9;
    let rate = woken.count() as f64 / seconds;
    assert!((19_000.0..21_000.0).contains(&rate), "{rate} wake-ups");
    sim.locks.waited_ns as f64 / 1e9 / seconds
}

#[test]
fn domains_do_not_wait_for_each_other() {
    for (servers, domains) in [(16, 1), (64, 4), (256, 16)] {
        let part = waits_for_locks(servers, domains);
        assert!(
            part < 0.02,
            "{servers} in {domains} wait {part} of their time"
        );
    }
    // One lock has not enough time for all of them.
    assert!(waits_for_locks(64, 1) > 1.0);
}
