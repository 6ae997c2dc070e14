// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several domains, each with a tree of its own: the ledger keeps the whole exact.

use proptest::{collection::vec, prelude::*};
use qlinux_core::bounds::{check, Finding, Interval, Kind, Options};
use qlinux_core::engine::{Core, Engine};
use qlinux_core::ledger::{Ledger, Seen, CPU, PERIOD_NS};
use qlinux_core::model::Model;
use qlinux_core::sched::Servers;
use qlinux_core::sim::{due, run, Change, Due, Workload};
use qlinux_core::{Error, NodeId, Policy};
use qlinux_properties::cases;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

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
fn on_the_edge(workload: &Workload, all: &[(String, Due)], seconds: u64) -> bool {
    all.iter().any(|(class, due)| {
        let threads = workload.threads.iter().find(|th| th.class == *class);
        let most_ns = u64::from(threads.unwrap().count) * seconds * SECOND;
        (0.93..1.0).contains(&(due.due_ns as f64 / most_ns as f64))
    })
}

/// Of one tree, how far the classes are from what is their due: the greatest relative error of one
/// in a second, less what a turn is, and over all of them.
struct Exactness {
    each: f64,
    all: f64,
    edge: bool,
}

fn exactness(workload: &Workload, seconds: u64) -> Exactness {
    let sim = run(workload, Core::new()).unwrap();
    let window = |seconds: u64| -> Vec<(String, Due)> {
        let all = due(workload, &sim, SECOND, seconds * SECOND);
        let named = all.into_iter();
        named
            .map(|due| (sim.classes[due.class].clone(), due))
            .collect()
    };
    let error = |due: &Due| due.got_ns.abs_diff(due.due_ns) as f64 / due.due_ns as f64;
    let beyond_a_turn = |due: &Due| {
        let off_ns = due.got_ns.abs_diff(due.due_ns).saturating_sub(TURN);
        off_ns as f64 / due.due_ns as f64
    };
    let all = window(seconds);
    Exactness {
        each: window(1)
            .iter()
            .map(|(_, d)| beyond_a_turn(d))
            .fold(0.0, f64::max),
        all: all.iter().map(|(_, d)| error(d)).fold(0.0, f64::max),
        edge: on_the_edge(workload, &all, seconds),
    }
}

/// Prints the errors of 60 trees, with one tree of all processors beside two domains:
/// `cargo test --release -p qlinux-core --test domains -- --nocapture random_trees`.
#[test]
fn random_trees_get_their_shares_of_two_sockets() {
    println!("tree  one tree: in a second, in ten   two domains: in a second, in ten   (%)");
    let (mut plain, mut edges) = (0, 0);
    for seed in 1..=60 {
        let [one, two] = [1, 2].map(|domains| exactness(&workload(seed, 8, domains, 50, 10), 10));
        let percent = [one.each, one.all, two.each, two.all].map(|part| 100.0 * part);
        let edge = if two.edge { "on the edge" } else { "" };
        println!("{seed:4} {percent:8.3?} {edge}");
        if two.edge {
            edges += 1;
            assert!(two.all < 0.03, "seed {seed}, on the edge: {}", two.all);
        } else {
            plain += 1;
            assert!(two.each < 0.01, "seed {seed} in a second: {}", two.each);
            assert!(two.all < 0.005, "seed {seed} in ten: {}", two.all);
        }
    }
    println!("{plain} trees, and {edges} on the edge");
    assert!(plain >= 40, "only {plain} trees have a sharp due");
}

/// Two levels of classes, each with a thread more than there are servers, but for some that block.
fn crowded(seed: u64, servers: u32, domains: u32) -> Workload {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut text = format!(
        "duration = '6s'\nservers = {servers}\ndomains = {domains}\nseed = {seed}\n\
         late = ['0us', '50us']\n"
    );
    for top in 0..3 {
        let weight = rng.random_range(50..=500);
        text += &format!("[[class]]\npath = '/{top}'\nweight = {weight}\n");
        for class in 0..4 {
            let weight = rng.random_range(50..=500);
            let (count, how) = match class {
                3 => (2, "run = ['100us', '1ms']\nsleep = ['3ms', '6ms']\n"),
                _ => (servers + 1, ""),
            };
            text += &format!(
                "[[class]]\npath = '/{top}/{class}'\nleaf = 'ts'\nweight = {weight}\n\
                 [[thread]]\nclass = '/{top}/{class}'\ncount = {count}\n{how}"
            );
        }
    }
    text.parse().expect("that is a workload")
}

/// What two classes get that wait is in proportion to their weights, in every interval, but for
/// the quanta of all servers and what the ledger's accounts may come to. With `--nocapture` it
/// prints how close each machine came to that.
#[test]
fn several_domains_keep_the_bounds_of_their_ledger() {
    for (servers, domains) in [(2, 2), (4, 2), (8, 2), (16, 4), (64, 4)] {
        let options = Options::ledger(servers);
        for seed in 1..=3 {
            let mut trace = run(&crowded(seed, servers, domains), Core::new())
                .unwrap()
                .trace;
            let nodes = trace.nodes.iter().enumerate();
            let busy = nodes.filter(|(_, n)| n.name.len() == 4 && !n.name.ends_with('3'));
            let always = |(node, _)| Interval {
                node,
                start_ns: trace.start_ns,
                end_ns: trace.end_ns,
            };
            trace.waiting = busy.map(always).collect();
            assert_eq!(trace.waiting.len(), 9);
            let report = check(&trace, &options);
            assert!(report.violations.is_empty(), "{}", report.violations[0]);
            let closest = report.tightest(Kind::Fairness).map_or(0.0, Finding::ratio);
            println!(
                "{servers} servers in {domains} domains, seed {seed}: {closest:.3} of the bound"
            );
            // A tenth more for some would be seen.
            for node in trace.nodes.iter_mut().filter(|n| n.name.ends_with("/1")) {
                node.weights[0].1 = node.weights[0].1 * 11 / 10;
            }
            assert!(!check(&trace, &options).violations.is_empty());
        }
    }
}

/// What `/alone` gets, by what is its due, in each of three seconds from when `/other` has come,
/// with a thread for each of eight processors, two of them 30 ms before the others.
fn after_another_comes(threads: u32, weights: [u32; 2]) -> Vec<f64> {
    let [alone, other] = weights;
    let text = format!(
        "duration = '5s'\nservers = 8\ndomains = 2\nlate = ['0us', '50us']\n\
         [[class]]\npath = '/alone'\nleaf = 'ts'\nweight = {alone}\n\
         [[class]]\npath = '/other'\nleaf = 'ts'\nweight = {other}\n\
         [[thread]]\nclass = '/alone'\ncount = {threads}\n\
         [[thread]]\nclass = '/other'\ncount = 2\nstart = '1470ms'\n\
         [[thread]]\nclass = '/other'\ncount = 6\nstart = '1500ms'\n"
    );
    let workload = text.parse().expect("that is a workload");
    let sim = run(&workload, Core::new()).unwrap();
    let seconds = [3, 5, 7].map(|half| due(&workload, &sim, half * SECOND / 2, SECOND));
    let alone = seconds.iter().map(|all| {
        let named = |d: &&Due| sim.classes[d.class] == "/alone";
        let due = all.iter().find(named).unwrap();
        due.got_ns as f64 / due.due_ns as f64
    });
    alone.collect()
}

/// What a class got while nobody else wanted it is no claim on what others want, nor a debt.
#[test]
fn who_was_alone_is_divided_with_like_any_other() {
    for (threads, weights) in [(8, [1, 100]), (4, [1, 100]), (8, [100, 100]), (12, [1, 3])] {
        let seconds = after_another_comes(threads, weights);
        println!("{threads} threads, {weights:?}: {seconds:.3?}");
        for part in seconds {
            assert!(
                (part - 1.0).abs() < 0.02,
                "{threads} threads, {weights:?}: {part}"
            );
        }
    }
}

/// Two processors or more, and classes with so many threads of weight 100 and of weight 300 that
/// are always runnable: the thread that is furthest from what its class gets in the mean by
/// weight, over ten seconds.
fn furthest_thread(servers: u32, domains: u32, classes: &[[u32; 2]]) -> f64 {
    let mut text = format!(
        "duration = '10s'\nservers = {servers}\ndomains = {domains}\nlate = ['0us', '50us']\n"
    );
    for (class, counts) in classes.iter().enumerate() {
        text += &format!("[[class]]\npath = '/{class}'\nleaf = 'ts'\nweight = 100\n");
        for (count, weight) in counts.iter().zip([100, 300]) {
            if *count > 0 {
                text += &format!(
                    "[[thread]]\nclass = '/{class}'\nname = '{class}:{weight}:'\n\
                     weight = {weight}\ncount = {count}\n"
                );
            }
        }
    }
    let workload: Workload = text.parse().expect("that is a workload");
    let summary = run(&workload, Core::new()).unwrap().summary();
    let mut by_class: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in summary.threads {
        let mut name = row.name.split(':');
        let class = name.next().unwrap().to_string();
        let weight: f64 = name.next().unwrap().parse().unwrap();
        let all = by_class.entry(class).or_default();
        all.push(row.served_ns as f64 / weight);
    }
    let off = by_class.values().flat_map(|all| {
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        all.iter().map(move |served| (served / mean - 1.0).abs())
    });
    off.fold(0.0, f64::max)
}

/// Threads of a class that happen to be many in one domain and few in another get the same all the
/// same, also where their number cannot be divided: they take turns.
#[test]
fn threads_of_a_class_get_the_same_in_every_domain() {
    for (servers, domains) in [(2, 2), (4, 2), (8, 2), (64, 4)] {
        for busy in [servers + 1, servers * 3 / 2, servers * 2 + 1] {
            for classes in [
                &[[busy, 0]][..],
                &[[busy, 0], [servers, 0]],
                &[[busy, busy]],
                &[[busy, busy], [servers, 0]],
            ] {
                let off = furthest_thread(servers, domains, classes);
                println!("{servers} {domains} {classes:?}: {off:.4}");
                assert!(off < 0.02, "{servers} in {domains}, {classes:?}: {off}");
            }
        }
    }
}

/// One that wakes now and then has saved up some of its share, and comes before others for that;
/// also where it wakes in another domain, where who comes for the first time has saved up nothing.
#[test]
fn who_sleeps_keeps_its_savings_where_it_wakes_in_another_domain() {
    fn key<E: Servers>(mut from: E, known: bool) -> E::Key {
        let mut to = from.another();
        let [(leaf, sleeper), (_, busy)] = [&mut from, &mut to].map(|domain| {
            domain.set_servers(2);
            let leaf = domain.mknod(NodeId::ROOT, 100, true).unwrap();
            domain.set_policy(leaf, Policy::Ts).unwrap();
            (leaf, [(); 2].map(|()| domain.spawn(leaf, 100).unwrap()))
        });
        let (sleeper, busy) = (sleeper[0], busy[1]);
        to.arrive(busy).unwrap();
        to.wait(busy).unwrap();
        to.begin(0, busy, Some(3_000_000)).unwrap();
        from.arrive(sleeper).unwrap();
        from.wait(sleeper).unwrap();
        from.begin(0, sleeper, Some(3_000_000)).unwrap();
        for domain in [&mut from, &mut to] {
            domain.advance(3_000_000);
        }
        from.end(0, 1_000_000, true).unwrap();
        to.end(0, 3_000_000, false).unwrap();
        for domain in [&mut from, &mut to] {
            domain.advance(50_000_000);
        }
        let packed = from.pack(sleeper).unwrap();
        assert!(packed.is_some(), "{leaf:?}");
        to.unpack(sleeper, packed.filter(|_| known), false, 40_000_000)
            .unwrap();
        to.arrive(sleeper).unwrap();
        to.wait(sleeper).unwrap();
        to.key(sleeper)
    }
    assert!(Core::before(
        key(Core::new(), true),
        key(Core::new(), false)
    ));
    assert!(Model::before(
        key(Model::new(), true),
        key(Model::new(), false)
    ));
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
            ledger.mknod(node(i), NodeId::ROOT, *weight, true).unwrap();
        }
        for (i, (_, threads)) in leaves.iter().enumerate() {
            for (domain, &runnable) in threads.iter().enumerate() {
                let runnable_ns = u64::from(runnable) * PERIOD_NS;
                ledger.see(node(i), domain as u32, Seen { runnable, weights: 100 * runnable, runnable_ns, served_ns: 0 }).unwrap();
            }
        }
        ledger.settle(PERIOD_NS);
        let mut column = [0u64; 4];
        for (i, (_, threads)) in leaves.iter().enumerate() {
            if threads.iter().all(|&t| t == 0) {
                continue;
            }
            for (domain, &runnable) in threads.iter().enumerate().filter(|t| *t.1 > 0) {
                let share = u64::from(ledger.share(node(i), domain as u32).unwrap());
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
        weights: 100 * runnable,
        runnable_ns: u64::from(runnable) * PERIOD_NS,
        served_ns: 0,
    };
    for (leaf, threads) in [(x, [2, 0]), (y, [1, 1])] {
        ledger.mknod(leaf, NodeId::ROOT, 100, true).unwrap();
        for (domain, runnable) in threads.into_iter().enumerate() {
            ledger.see(leaf, domain as u32, see(runnable)).unwrap();
        }
    }
    ledger.settle(PERIOD_NS);
    let part = |share: u32| f64::from(share) / f64::from(CPU);
    assert!(part(ledger.share(x, 0).unwrap()) > 0.8);
    assert!(part(ledger.share(y, 0).unwrap()) < 0.2);
    assert!(part(ledger.share(y, 1).unwrap()) > 0.8);
}

/// Two leaves that are to have one processor each, and all threads are in one domain.
#[test]
fn a_thread_moves_where_there_is_something_left() {
    let mut ledger = Ledger::new(&[1, 1]);
    let leaves = [2, 3].map(|n| NodeId::from_number(n).unwrap());
    for leaf in leaves {
        ledger.mknod(leaf, NodeId::ROOT, 100, true).unwrap();
        let (runnable, runnable_ns) = (1, PERIOD_NS);
        ledger
            .see(
                leaf,
                0,
                Seen {
                    runnable,
                    weights: 100,
                    runnable_ns,
                    served_ns: 0,
                },
            )
            .unwrap();
        ledger.see(leaf, 1, Seen::default()).unwrap();
    }
    ledger.settle(PERIOD_NS);
    let moved = ledger.next_move().expect("one has to move");
    assert!(leaves.contains(&moved.leaf));
    assert_eq!((moved.from, moved.to), (0, 1));
    assert_eq!(ledger.next_move(), None, "then there is room");
}

#[test]
fn hundreds_of_processors_are_divided_exactly() {
    println!("processors, domains, seed, late: error in a second (%)");
    for (servers, domains) in [(64, 4), (256, 16), (512, 32)] {
        for seed in 1..=3 {
            for late_us in [0, 50] {
                let error = exactness(&workload(seed, servers, domains, late_us, 1), 1).all;
                println!(
                    "{servers} {domains} {seed} {late_us} us: {:.3}",
                    100.0 * error
                );
                assert!(error < 0.005, "{servers} processors, seed {seed}: {error}");
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

/// As the trees refuse it, and the ledger is as it was.
#[test]
fn what_no_tree_takes_is_refused() {
    let mut ledger = Ledger::new(&[4, 4]);
    let [a, leaf, b] = [2, 3, 4].map(|n| NodeId::from_number(n).unwrap());
    ledger.mknod(a, NodeId::ROOT, 100, false).unwrap();
    ledger.mknod(leaf, a, 100, true).unwrap();
    assert_eq!(ledger.mknod(b, leaf, 100, true), Err(Error::IsLeaf(leaf)));
    assert_eq!(ledger.mknod(b, a, 0, true), Err(Error::Weight(0)));
    assert_eq!(ledger.mknod(b, b, 1, true), Err(Error::NoSuchNode(b)));
    assert_eq!(ledger.mknod(leaf, a, 1, true), Err(Error::Busy(leaf)));
    assert_eq!(ledger.set_weight(a, 10_001), Err(Error::Weight(10_001)));
    assert_eq!(ledger.rmnod(a), Err(Error::Busy(a)));
    assert_eq!(ledger.rmnod(NodeId::ROOT), Err(Error::Busy(NodeId::ROOT)));
    assert_eq!(ledger.share(a, 0), Err(Error::NotLeaf(a)));
    let mut parent = a;
    for n in 5.. {
        let below = NodeId::from_number(n).unwrap();
        match ledger.mknod(below, parent, 100, false) {
            Ok(()) => parent = below,
            refused => {
                assert_eq!(refused, Err(Error::TooDeep(parent)));
                break;
            }
        }
    }
    ledger.rmnod(leaf).unwrap();
    assert_eq!(ledger.share(leaf, 0), Err(Error::NoSuchNode(leaf)));
}
