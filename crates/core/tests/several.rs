// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several processors on which quanta end late: what the classes of an uneven tree get.

use proptest::{collection::vec, prelude::*};
use qlinux_core::bounds::{check, Options};
use qlinux_core::engine::Core;
use qlinux_core::readjust::{readjust, Child, CPU};
use qlinux_core::sim::{run, Class, Ns, Span, Thread, Workload};
use qlinux_core::Policy;
use qlinux_properties::cases;
use std::collections::HashMap;

const MS: u64 = 1_000_000;

/// Of a class: its weight, and the weight and busy threads of each below it.
type Top = (u32, Vec<(u32, u32)>);

fn tree() -> impl Strategy<Value = Vec<Top>> {
    vec((1..=6u32, vec((1..=6u32, 1..=4u32), 1..=3)), 2..=4)
}

/// Processors that each leaf is entitled to.
fn ideal(tree: &[Top], servers: u32) -> HashMap<String, f64> {
    let theta = |threads: u32| u64::from(threads.min(servers)) * CPU;
    let mut tops: Vec<Child> = tree
        .iter()
        .map(|(weight, below)| Child::new(*weight, theta(below.iter().map(|b| b.1).sum())))
        .collect();
    readjust(&mut tops, theta(servers));
    let mut shares = HashMap::new();
    for (t, ((_, below), top)) in tree.iter().zip(&tops).enumerate() {
        let mut children: Vec<Child> = below.iter().map(|b| Child::new(b.0, theta(b.1))).collect();
        readjust(&mut children, top.share);
        for (c, child) in children.iter().enumerate() {
            shares.insert(format!("/{t}/{c}"), child.share as f64 / CPU as f64);
        }
    }
    shares
}

fn workload(tree: &[Top], servers: u32, late: Span) -> Workload {
    let text = format!("duration = '10s'\nservers = {servers}\nseed = 1");
    let mut workload: Workload = text.parse().expect("a workload without classes is one");
    workload.late = Some(late);
    let mut add = |path: String, weight, leaf| {
        workload.classes.push(Class { path, weight, leaf });
    };
    for (t, (weight, below)) in tree.iter().enumerate() {
        add(format!("/{t}"), weight * 100, None);
        for (c, (weight, _)) in below.iter().enumerate() {
            add(format!("/{t}/{c}"), weight * 100, Some(Policy::Ts));
        }
    }
    for (t, (_, below)) in tree.iter().enumerate() {
        for (c, (_, count)) in below.iter().enumerate() {
            let text = format!("class = '/{t}/{c}'\ncount = {count}");
            let thread: Thread = toml::from_str(&text).expect("that is a thread");
            workload.threads.push(thread);
        }
    }
    workload
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn uneven_trees_get_the_readjusted_shares_although_quanta_end_late(
        tree in tree(),
        servers in 2..=8u32,
    ) {
        let simulation = run(&workload(&tree, servers, Span::between(0, MS)), Core::new()).unwrap();
        let duration_ns = simulation.summary().duration_ns as f64;
        let ideal = ideal(&tree, servers);
        for class in &simulation.summary().classes {
            let Some(ideal) = ideal.get(&class.name) else { continue };
            let received = class.served_ns as f64 / duration_ns;
            let error = (received / ideal - 1.0).abs();
            prop_assert!(error < 0.01, "{}: {received} of {ideal}, {tree:?}", class.name);
        }
    }

    /// Nobody is owed anything then, and the bound holds as it is.
    #[test]
    fn classes_that_can_use_their_shares_keep_the_fairness_of_sfq_d(
        mut tree in tree(),
        servers in 2..=6u32,
        quantum in proptest::option::of(200_000..=5 * MS),
    ) {
        tree.iter_mut().flat_map(|top| &mut top.1).for_each(|below| below.1 = servers);
        let mut workload = workload(&tree, servers, Span::fixed(0));
        workload.duration = Ns(1_000 * MS);
        workload.quantum = quantum.map(Ns);
        let report = check(&run(&workload, Core::new()).unwrap().trace, &Options::default());
        prop_assert!(report.violations.is_empty(), "{}", report.violations[0]);
    }
}

/// Quanta are as many times as long as there are servers, and so is what may be owed.
#[test]
fn few_threads_get_their_processors_among_many() {
    for (servers, tree) in [
        (16, vec![(3, vec![(1, 3)]), (13, vec![(2, 16), (3, 16)])]),
        (
            64,
            vec![(3, vec![(1, 3)]), (61, vec![(2, 64), (3, 20), (1, 1)])],
        ),
        (
            64,
            vec![
                (1, vec![(3, 2), (5, 1)]),
                (12, vec![(1, 64)]),
                (2, vec![(1, 64)]),
            ],
        ),
    ] {
        let mut workload = workload(&tree, servers, Span::between(0, MS / 100));
        workload.duration = Ns(4_000 * MS);
        let simulation = run(&workload, Core::new()).unwrap();
        let ideal = ideal(&tree, servers);
        for class in &simulation.summary().classes {
            let Some(ideal) = ideal.get(&class.name) else {
                continue;
            };
            let received = class.served_ns as f64 / simulation.summary().duration_ns as f64;
            let error = (received / ideal - 1.0).abs();
            assert!(
                error < 0.005,
                "{servers}: {} got {received} of {ideal}",
                class.name
            );
        }
    }
}

/// A flow that arrives need not wait for what others are owed; they are paid all the same.
#[test]
fn short_sleepers_cost_no_class_what_it_is_owed() {
    let mut text = String::from("duration = '10s'\nservers = 4\nlate = ['0ms', '1ms']\n");
    for (class, weight, threads) in [("a", 300, 2), ("b", 100, 1), ("c", 150, 2), ("d", 100, 3)] {
        text += &format!("[[class]]\npath = '/{class}'\nleaf = 'ts'\nweight = {weight}\n");
        text += &format!("[[thread]]\nclass = '/{class}'\ncount = {threads}\n");
    }
    text += "[[class]]\npath = '/sleepers'\nleaf = 'ts'\n[[thread]]\nclass = '/sleepers'\n\
             count = 10\nrun = '100us'\nsleep = ['1ms', '10ms']\n";
    let simulation = run(&text.parse().unwrap(), Core::new()).unwrap();
    let classes = simulation.summary().classes;
    let served = |name| {
        let class = classes.iter().find(|c| c.name == name).unwrap();
        class.served_ns as f64
    };
    for (class, weight) in [("/a", 300.0), ("/c", 150.0), ("/d", 100.0)] {
        let part = served(class) / served("/b") * 100.0 / weight;
        assert!((part - 1.0).abs() < 0.005, "{class} got {part} of its due");
    }
}
