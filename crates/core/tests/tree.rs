// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree against the reference model, over random sequences of operations.

mod common;

use common::{check_invariants, Pair};
use proptest::collection::vec;
use proptest::prelude::*;
use qlinux_core::engine::Engine;
use qlinux_core::{Error, NodeId, Policy, Thread, Tree, DEPTH_MAX, LENGTH_MAX_NS, NODES_MAX};
use qlinux_properties::cases;

#[derive(Clone, Debug)]
enum Op {
    Mknod {
        parent: u16,
        weight: u32,
        leaf: bool,
    },
    Rmnod {
        n: u16,
    },
    SetWeight {
        n: u16,
        weight: u32,
    },
    SetRun {
        n: u16,
    },
    Sleep {
        n: u16,
    },
    /// Take a leaf into service; `busy`: all its threads are in service then.
    Schedule {
        busy: bool,
    },
    /// One in service ends.
    Finish {
        which: u16,
        length_ns: u64,
        sleep: bool,
    },
    /// Rounds of the longest quanta, which move the tags of light nodes far.
    Long {
        rounds: u16,
    },
    Compare {
        a: u16,
        b: u16,
        ran_ns: u64,
    },
}

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1u32..=10_000, 2 => 1u32..=4, 1 => Just(10_000), 1 => Just(1)]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0u64),
        1 => 1u64..100,
        8 => 1u64..20_000_000,
        1 => 0u64..LENGTH_MAX_NS,
        1 => Just(LENGTH_MAX_NS),
        1 => LENGTH_MAX_NS..=u64::MAX,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let n = any::<u16>;
    prop_oneof![
        3 => (n(), weight(), any::<bool>())
            .prop_map(|(parent, weight, leaf)| Op::Mknod { parent, weight, leaf }),
        1 => n().prop_map(|n| Op::Rmnod { n }),
        2 => (n(), weight()).prop_map(|(n, weight)| Op::SetWeight { n, weight }),
        6 => n().prop_map(|n| Op::SetRun { n }),
        3 => n().prop_map(|n| Op::Sleep { n }),
        10 => any::<bool>().prop_map(|busy| Op::Schedule { busy }),
        10 => (n(), length(), prop::bool::weighted(0.2))
            .prop_map(|(which, length_ns, sleep)| Op::Finish { which, length_ns, sleep }),
        1 => (0u16..3000).prop_map(|rounds| Op::Long { rounds }),
        2 => (n(), n(), length()).prop_map(|(a, b, ran_ns)| Op::Compare { a, b, ran_ns }),
    ]
}

/// Does to both engines what a mechanism would, and refuses what it would not do.
struct Driver {
    pair: Pair,
    nodes: Vec<(NodeId, bool)>,
    awake: Vec<NodeId>,
    in_service: Vec<NodeId>,
}

impl Driver {
    fn new(vtime: u64) -> Driver {
        let mut pair = Pair::default();
        pair.core.tree.begin_at(NodeId::ROOT, vtime).unwrap();
        pair.model.begin_at(NodeId::ROOT, vtime);
        let nodes = vec![(NodeId::ROOT, false)];
        Driver {
            pair,
            nodes,
            awake: Vec::new(),
            in_service: Vec::new(),
        }
    }

    fn node(&self, n: u16) -> (NodeId, bool) {
        self.nodes[usize::from(n) % self.nodes.len()]
    }

    fn leaf(&self, n: u16) -> Option<NodeId> {
        let leaves: Vec<_> = self.nodes.iter().filter(|n| n.1).collect();
        leaves
            .get(usize::from(n) % leaves.len().max(1))
            .map(|n| n.0)
    }

    fn finish(&mut self, which: u16, length_ns: u64, sleep: bool) {
        if self.in_service.is_empty() {
            return;
        }
        let which = usize::from(which) % self.in_service.len();
        let leaf = self.in_service.swap_remove(which);
        self.pair.update(leaf, length_ns).unwrap();
        if sleep && !self.in_service.contains(&leaf) {
            self.pair.sleep(leaf).unwrap();
            self.awake.retain(|&l| l != leaf);
        } else {
            self.pair.ready(leaf).unwrap();
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Mknod {
                parent,
                weight,
                leaf,
            } => {
                if let Ok(n) = self.pair.mknod(self.node(parent).0, weight, leaf) {
                    self.nodes.push((n, leaf));
                }
            }
            Op::Rmnod { n } => {
                let n = self.node(n).0;
                if self.pair.rmnod(n).is_ok() {
                    self.nodes.retain(|&(m, _)| m != n);
                }
            }
            Op::SetWeight { n, weight } => self.pair.set_weight(self.node(n).0, weight).unwrap(),
            Op::SetRun { n } => {
                let Some(leaf) = self.leaf(n) else { return };
                if !self.awake.contains(&leaf) {
                    self.pair.setrun(leaf).unwrap();
                    self.awake.push(leaf);
                }
            }
            Op::Sleep { n } => {
                let Some(leaf) = self.leaf(n) else { return };
                if !self.in_service.contains(&leaf) {
                    self.pair.sleep(leaf).unwrap();
                    self.awake.retain(|&l| l != leaf);
                }
            }
            Op::Schedule { busy } if self.in_service.len() < 4 => {
                let Some(leaf) = self.pair.schedule() else {
                    return;
                };
                self.in_service.push(leaf);
                if busy {
                    self.pair.busy(leaf).unwrap();
                }
            }
            Op::Schedule { .. } => self.finish(0, 1_000_000, false),
            Op::Finish {
                which,
                length_ns,
                sleep,
            } => self.finish(which, length_ns, sleep),
            Op::Long { rounds } => {
                while !self.in_service.is_empty() {
                    self.finish(0, 1_000_000, false);
                }
                for _ in 0..rounds {
                    let Some(leaf) = self.pair.schedule() else {
                        return;
                    };
                    self.pair.update(leaf, LENGTH_MAX_NS).unwrap();
                }
            }
            Op::Compare { a, b, ran_ns } => {
                let (Some(a), Some(b)) = (self.leaf(a), self.leaf(b)) else {
                    return;
                };
                self.pair.share(a, 20_000_000).unwrap();
                self.pair.contended(a).unwrap();
                if self.awake.contains(&a) && self.awake.contains(&b) {
                    self.pair.precedes(a, b, ran_ns).unwrap();
                }
            }
        }
    }

    fn check(&self) {
        check_invariants(self.pair.core.tree.raw());
        for &(n, _) in &self.nodes {
            self.pair.vtime(n).unwrap();
            // The tag of a node asleep for long is only defined once it returns.
            if self.pair.core.tree.node(n).unwrap().runnable {
                self.pair.start_tag(n).unwrap();
            }
        }
    }
}

fn vtime() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0u64),
        3 => any::<u64>(),
        3 => (0u64..1 << 40).prop_map(|d| d.wrapping_neg()),
        1 => (0u64..1 << 20).prop_map(|d| (1u64 << 63) - d),
    ]
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn core_and_model_agree(vtime in vtime(), ops in vec(op(), 1..200)) {
        let mut driver = Driver::new(vtime);
        for op in &ops {
            driver.apply(op);
            driver.check();
        }
    }
}

/// So many of the longest quanta at weight 1 move v(t) by 15/16 of the circle of tags: what was
/// left behind seems to be 1/16 ahead then.
const NEARLY_ROUND: u32 = 3840;

/// A node that slept while v(t) went nearly round is behind it, although its tag seems to be
/// ahead. A new weight is not to make a finish tag of that: v(t) would jump there, by 1/32 of
/// the circle, as soon as nobody is runnable.
#[test]
fn a_new_weight_of_a_node_that_slept_for_long_does_not_move_v() {
    let mut pair = Pair::default();
    let leaf = pair.mknod(NodeId::ROOT, 1, true).unwrap();
    let sleeper = pair.mknod(NodeId::ROOT, 1, true).unwrap();
    pair.setrun(leaf).unwrap();
    for _ in 0..NEARLY_ROUND {
        assert_eq!(pair.schedule(), Some(leaf));
        pair.update(leaf, LENGTH_MAX_NS).unwrap();
    }
    pair.set_weight(sleeper, 2).unwrap();
    pair.sleep(leaf).unwrap();
    assert_eq!(pair.vtime(NodeId::ROOT), Ok(15 << 60));
    pair.setrun(sleeper).unwrap();
    assert_eq!(pair.start_tag(sleeper), Ok(15 << 60));
}

/// The same of two threads in a leaf.
#[test]
fn a_new_weight_of_a_thread_that_slept_for_long_does_not_move_v() {
    let mut pair = Pair::default();
    let leaf = pair.mknod(NodeId::ROOT, 1, true).unwrap();
    pair.set_policy(leaf, Policy::Sfq).unwrap();
    let [busy, sleeper] = [1, 1].map(|weight| pair.spawn(leaf, weight).unwrap());
    // Its key is one of this leaf's.
    pair.arrive(sleeper).unwrap();
    pair.serve(sleeper, 0).unwrap();
    pair.charge(sleeper, 0).unwrap();
    pair.depart(sleeper).unwrap();
    pair.arrive(busy).unwrap();
    for _ in 0..NEARLY_ROUND {
        pair.wait(busy).unwrap();
        assert_eq!(pair.schedule(), Some(leaf));
        pair.take(busy).unwrap();
        pair.serve(busy, 0).unwrap();
        pair.charge(busy, LENGTH_MAX_NS).unwrap();
    }
    let before = pair.vtime(leaf).unwrap();
    pair.set_thread_weight(sleeper, 2).unwrap();
    pair.depart(busy).unwrap();
    let moved = pair.vtime(leaf).unwrap() - before;
    assert_eq!(moved, LENGTH_MAX_NS << 10, "one quantum was in service");
}

/// v(t) is the greatest tag in service; a class that wakes need not wait until the others are there.
#[test]
fn a_class_that_wakes_comes_before_all_in_service() {
    const QUANTUM_NS: u64 = 3_000_000;
    let mut pair = Pair::default();
    pair.set_servers(4);
    let sleeper = pair.mknod(NodeId::ROOT, 100, true).unwrap();
    let sleeper = pair.spawn(sleeper, 100).unwrap();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let leaf = pair.mknod(NodeId::ROOT, 20, true).unwrap();
        for _ in 0..4 {
            let th = pair.spawn(leaf, 100).unwrap();
            pair.arrive(th).unwrap();
            pair.wait(th).unwrap();
            waiting.push((leaf, th));
        }
    }
    let mut served = Vec::new();
    for round in 0..100 {
        if served.len() == 4 {
            // Servers end in another order than they began.
            let (leaf, th) = served.remove(round % 4);
            pair.charge(th, QUANTUM_NS).unwrap();
            pair.wait(th).unwrap();
            waiting.push((leaf, th));
        }
        let leaf = pair.schedule().unwrap();
        let first = waiting.iter().position(|(l, _)| *l == leaf).unwrap();
        let (_, th) = waiting.remove(first);
        pair.take(th).unwrap();
        pair.serve(th, QUANTUM_NS).unwrap();
        served.push((leaf, th));
    }
    pair.arrive(sleeper).unwrap();
    pair.wait(sleeper).unwrap();
    for (_, th) in served {
        assert_eq!(pair.overtakes(sleeper, th, QUANTUM_NS / 6), Ok(true));
    }
}

/// What may be owed since the last arrival stays what it is after v(t) has gone round once.
#[test]
fn an_arrival_long_ago_does_not_look_recent() {
    const MS: u64 = 1_000_000;
    let mut pair = Pair::default();
    let [late, other] = [1, 1].map(|weight| pair.mknod(NodeId::ROOT, weight, true).unwrap());
    for leaf in [late, other] {
        pair.setrun(leaf).unwrap();
    }
    for i in 0..2 * 4096 {
        let leaf = pair.schedule().unwrap();
        let less = if i == 0 { 100 * MS } else { 0 };
        pair.update(leaf, LENGTH_MAX_NS - less).unwrap();
    }
    assert_eq!(pair.schedule(), Some(late));
    pair.busy(late).unwrap();
    for _ in 0..2 {
        assert_eq!(pair.schedule(), Some(other));
        pair.update(other, 20 * MS).unwrap();
    }
    pair.update(late, 0).unwrap();
    let [v, start] = [pair.vtime(NodeId::ROOT), pair.start_tag(late)].map(Result::unwrap);
    assert_eq!(v.wrapping_sub(start), (50 * MS) << 10);
}

/// What a lone leaf was served is charged when a second leaf wants service, to the
/// unit, however deep it is and however long it was alone.
fn charged_later(path: &[(u32, bool)], quanta: &[(u64, bool)], at: usize) {
    let mut pair = Pair::default();
    let mut inner = vec![NodeId::ROOT];
    for &(weight, idle) in path {
        let parent = *inner.last().unwrap();
        let n = pair.mknod(parent, weight, false).unwrap();
        pair.set_idle(n, idle, weight).unwrap();
        inner.push(n);
    }
    let leaf = pair.mknod(*inner.last().unwrap(), 7, true).unwrap();
    let other = pair.mknod(inner[at % inner.len()], 3, true).unwrap();
    pair.setrun(leaf).unwrap();
    pair.schedule();
    let mut served = 0u64;
    for &(length_ns, asks) in quanta {
        pair.update(leaf, length_ns).unwrap();
        served = served.wrapping_add(length_ns);
        if asks {
            assert_eq!(pair.schedule(), Some(leaf));
        }
    }
    for settled in [false, true] {
        for &n in inner.iter().chain([&leaf]) {
            pair.vtime(n).unwrap();
            pair.start_tag(n).unwrap();
            assert_eq!(pair.core.tree.node(n).unwrap().served_ns, served);
        }
        if !settled {
            pair.setrun(other).unwrap();
            assert_eq!(pair.core.tree.raw().solo, 0);
        }
    }
    pair.start_tag(other).unwrap();
    check_invariants(pair.core.tree.raw());
    for _ in 0..20 {
        let next = pair.schedule().unwrap();
        pair.update(next, 1_000_000).unwrap();
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn service_of_a_lone_leaf_is_charged_later_and_exactly(
        path in vec((weight(), any::<bool>()), 0..10),
        quanta in vec((prop_oneof![3 => length(), 1 => (1u64 << 36)..(1 << 38)], any::<bool>()), 1..20),
        at in any::<usize>(),
    ) {
        charged_later(&path, &quanta, at);
    }
}

#[test]
fn refusals_leave_everything_as_it_was() {
    let mut t = Tree::new();
    let inner = t.mknod_inner(NodeId::ROOT, 1).unwrap();
    let leaf = t.mknod_leaf(inner, 1).unwrap();
    let gone = t.mknod_leaf(inner, 1).unwrap();
    t.rmnod(gone).unwrap();
    let before = format!("{:?} {:?} {}", t.node(inner), t.node(leaf), t.nodes());

    assert_eq!(t.mknod_leaf(leaf, 1), Err(Error::IsLeaf(leaf)));
    assert_eq!(t.mknod_leaf(gone, 1), Err(Error::NoSuchNode(gone)));
    assert_eq!(t.mknod_leaf(inner, 0), Err(Error::Weight(0)));
    assert_eq!(t.mknod_leaf(inner, 10_001), Err(Error::Weight(10_001)));
    assert_eq!(t.set_weight(inner, 0), Err(Error::Weight(0)));
    assert_eq!(t.set_weight(gone, 5), Err(Error::NoSuchNode(gone)));
    assert_eq!(t.rmnod(inner), Err(Error::Busy(inner)));
    assert_eq!(t.rmnod(NodeId::ROOT), Err(Error::Busy(NodeId::ROOT)));
    assert_eq!(t.setrun(inner), Err(Error::NotLeaf(inner)));
    assert_eq!(t.update(gone, 1), Err(Error::NoSuchNode(gone)));
    assert_eq!(
        t.mknod_leaf(NodeId::from_number(u32::MAX).unwrap(), 1)
            .unwrap_err()
            .errno(),
        2
    );
    assert_eq!(
        before,
        format!("{:?} {:?} {}", t.node(inner), t.node(leaf), t.nodes())
    );

    t.setrun(leaf).unwrap();
    t.sleep(leaf).unwrap();
    t.rmnod(leaf).unwrap();
    t.rmnod(inner).unwrap();
    check_invariants(t.raw());
}

#[test]
fn depth_64_works_and_65_is_refused() {
    let mut pair = Pair::default();
    let mut n = NodeId::ROOT;
    let mut side = Vec::new();
    for depth in 1..DEPTH_MAX {
        side.push(pair.mknod(n, depth, true).unwrap());
        n = pair.mknod(n, 2 * depth, false).unwrap();
    }
    let deep = pair.mknod(n, 7, true).unwrap();
    let inner = pair.mknod(n, 7, false).unwrap();
    assert_eq!(pair.mknod(inner, 1, true), Err(Error::TooDeep(inner)));

    pair.setrun(deep).unwrap();
    assert_eq!(pair.schedule(), Some(deep));
    for &leaf in &side {
        pair.setrun(leaf).unwrap();
    }
    for i in 0..2_000u64 {
        let leaf = pair.schedule().unwrap();
        pair.update(leaf, 1 + i * 7919 % 20_000_000).unwrap();
    }
    assert!(pair.precedes(side[0], deep, u64::MAX).unwrap());
    check_invariants(pair.core.tree.raw());
}

#[test]
fn every_node_can_be_used_and_used_again() {
    let mut t = Tree::new();
    let mut leaves = Vec::new();
    let inner = t.mknod_inner(NodeId::ROOT, 1).unwrap();
    loop {
        match t.mknod_leaf(inner, 1 + leaves.len() as u32 % 10_000) {
            Ok(leaf) => leaves.push(leaf),
            Err(e) => {
                assert_eq!(e, Error::NoSpace(inner));
                break;
            }
        }
    }
    assert_eq!(t.nodes(), NODES_MAX);
    assert!(leaves.len() >= 4096);
    for &leaf in &leaves {
        t.setrun(leaf).unwrap();
    }
    check_invariants(t.raw());
    for i in 0..100_000u64 {
        let leaf = t.schedule().unwrap();
        t.update(leaf, 1 + i * 7919 % 3_000_000).unwrap();
    }
    check_invariants(t.raw());
    for leaf in &leaves {
        t.sleep(*leaf).unwrap();
        t.rmnod(*leaf).unwrap();
    }
    assert_eq!(t.schedule(), None);
    assert_eq!(t.nodes(), 2);
    check_invariants(t.raw());
    assert!(t.mknod_inner(inner, 1).is_ok());
}

#[test]
fn a_retired_branch_goes_with_its_last_thread() {
    let mut t = Tree::new();
    let outer = t.mknod_inner(NodeId::ROOT, 1).unwrap();
    let inner = t.mknod_inner(outer, 1).unwrap();
    let leaf = t.mknod_leaf(inner, 1).unwrap();
    let mut th = Thread::new(100).unwrap();
    t.join(leaf, &mut th).unwrap();
    for n in [outer, inner, leaf] {
        t.retire(n).unwrap();
    }
    assert_eq!(t.nodes(), 4);
    t.arrive(&mut th).unwrap();
    t.wait(&mut th).unwrap();
    assert_eq!(
        t.schedule(),
        Some(leaf),
        "retired classes are served to the end"
    );
    t.unwait(&mut th).unwrap();
    t.depart(&mut th).unwrap();
    t.leave(&mut th).unwrap();
    assert_eq!(t.nodes(), 1);
    check_invariants(t.raw());
}
