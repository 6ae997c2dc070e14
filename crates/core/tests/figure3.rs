// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 3, at every event: A of weight 1, B of weight 2, 10 ms quanta.

mod common;

use common::Pair;
use qlinux_core::engine::{Core, Engine};
use qlinux_core::model::Model;
use qlinux_core::sim::{run, Change, Simulation, Workload};
use qlinux_core::NodeId;

const MS: u64 = 1_000_000;
/// One unit of the paper's tags: 1 ms of service at weight 1.
const UNIT: u64 = MS << 10;

struct Figure {
    pair: Pair,
    a: NodeId,
    b: NodeId,
}

impl Figure {
    /// S_A, S_B and v in the paper's units.
    fn tags(&self) -> (u64, u64, u64) {
        let unit = |tag: u64| {
            assert_eq!(tag % UNIT, 0);
            tag / UNIT
        };
        let tag = |n| unit(self.pair.start_tag(n).unwrap());
        (
            tag(self.a),
            tag(self.b),
            unit(self.pair.vtime(NodeId::ROOT).unwrap()),
        )
    }

    /// Serves one quantum of `ms`; returns who was served.
    fn quantum(&mut self, ms: u64) -> char {
        let leaf = self.pair.schedule().unwrap();
        self.pair.update(leaf, ms * MS).unwrap();
        if leaf == self.a {
            'A'
        } else {
            'B'
        }
    }
}

#[test]
fn tags_and_virtual_time_are_the_papers_at_every_event() {
    let mut pair = Pair::default();
    let a = pair.mknod(NodeId::ROOT, 1, true).unwrap();
    let b = pair.mknod(NodeId::ROOT, 2, true).unwrap();
    let mut f = Figure { pair, a, b };
    // t = 0: both become runnable.
    f.pair.setrun(a).unwrap();
    f.pair.setrun(b).unwrap();
    assert_eq!(f.tags(), (0, 0, 0));
    // Until t = 60 (S_A, S_B, v after each quantum).
    let expected = [
        ('A', (10, 0, 0)),
        ('B', (10, 5, 0)),
        ('B', (10, 10, 5)),
        ('A', (20, 10, 10)),
        ('B', (20, 15, 10)),
        ('B', (20, 20, 15)),
    ];
    for (who, tags) in expected {
        assert_eq!((f.quantum(10), f.tags()), (who, tags));
    }
    let served = |f: &Figure, n| f.pair.core.tree.node(n).unwrap().served_ns / MS;
    assert_eq!((served(&f, a), served(&f, b)), (20, 40));
    // t = 60: B blocks with F_B = 20. v follows A's quanta.
    f.pair.sleep(b).unwrap();
    for (tag, v) in [(30, 20), (40, 30), (50, 40)] {
        assert_eq!((f.quantum(10), f.tags()), ('A', (tag, 20, v)));
    }
    // t = 90: A blocks. While the server is idle v is the greatest finish tag.
    f.pair.sleep(a).unwrap();
    assert_eq!(f.tags(), (50, 20, 50));
    assert_eq!(f.pair.schedule(), None);
    // t = 110: A returns with S = max{50, 50}, and is served at once.
    f.pair.setrun(a).unwrap();
    assert_eq!(f.tags(), (50, 20, 50));
    assert_eq!(f.pair.schedule(), Some(a));
    // t = 115: B returns with S = max{v = 50, F_B = 20}.
    f.pair.setrun(b).unwrap();
    assert_eq!(f.tags(), (50, 50, 50));
    // t = 120: A's quantum ends; from now on 1:2 again.
    f.pair.update(a, 10 * MS).unwrap();
    assert_eq!(f.tags(), (60, 50, 50));
    let order: String = (0..9).map(|_| f.quantum(10)).collect();
    assert_eq!(order, "BBABBABBA");
    // A exits: B has the whole server.
    f.pair.sleep(a).unwrap();
    assert!((0..5).all(|_| f.quantum(10) == 'B'));
}

/// Who is served when, in ms.
fn schedule(s: &Simulation) -> Vec<(u64, u64, String)> {
    let quanta = s.records.iter().filter(|r| r.change.is_service());
    quanta
        .map(|r| (r.start_ns / MS, r.end_ns / MS, s.threads[r.thread].clone()))
        .collect()
}

#[test]
fn the_simulated_workload_comes_out_exactly() {
    let text = include_str!("../workloads/figure3.toml");
    let workload: Workload = text.parse().unwrap();
    let core = run(&workload, Core::new()).unwrap();
    assert_eq!(core, run(&workload, Model::new()).unwrap());

    let until_90 = "ABBABBAAA"
        .chars()
        .enumerate()
        .map(|(i, who)| (10 * i as u64, who));
    let from_110 = "ABBABBABB"
        .chars()
        .enumerate()
        .map(|(i, who)| (110 + 10 * i as u64, who));
    let expected: Vec<_> = until_90
        .chain(from_110)
        .map(|(t, who)| (t, t + 10, who.to_string()))
        .collect();
    assert_eq!(schedule(&core), expected);
    let tags: Vec<_> = core
        .records
        .iter()
        .map(|r| (r.change, r.start_ns / MS, r.start_tag / UNIT))
        .collect();
    assert!(
        tags.contains(&(Change::Wake, 110, 50)),
        "A returns with S = 50"
    );
    assert!(
        tags.contains(&(Change::Wake, 115, 50)),
        "B returns with S = 50"
    );
    let report = core.summary().bounds;
    assert!(report.violations.is_empty(), "{:?}", report.violations);
}
