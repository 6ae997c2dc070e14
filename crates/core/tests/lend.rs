// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weight lent to the holder of what a thread waits for: nothing is lost,
//! nothing is there twice, everything comes back.

use proptest::collection::vec;
use proptest::prelude::*;
use qlinux_core::lend::{Lending, LENDERS_MAX, TOGETHER_NS};
use qlinux_core::{NodeId, Policy, Tree};
use qlinux_properties::cases;

const MS: u64 = 1_000_000;

/// A thread as the model sees it: what was said of it, nothing computed.
#[derive(Clone, Copy)]
struct Said {
    home: usize,
    own: u32,
    holder: Option<usize>,
    what: u64,
    blocked: bool,
}

struct World {
    lending: Lending,
    leaves: Vec<NodeId>,
    threads: Vec<Option<Said>>,
}

#[derive(Clone, Debug)]
enum Op {
    Join {
        i: usize,
        leaf: usize,
        weight: u32,
    },
    Exit {
        i: usize,
    },
    /// Wakes, blocks, is served, or ends its quantum, as `way` says.
    Step {
        i: usize,
        way: u8,
        ns: u64,
    },
    Link {
        i: usize,
        holder: usize,
        what: u64,
    },
    Unlink {
        i: usize,
    },
    HandOver {
        from: usize,
        to: usize,
        what: u64,
    },
    Weight {
        i: usize,
        weight: u32,
    },
    Move {
        i: usize,
        leaf: usize,
    },
}

const THREADS: usize = 12;

fn op() -> impl Strategy<Value = Op> {
    let i = 0..THREADS;
    prop_oneof![
        2 => (i.clone(), 0..8usize, 1..=10_000u32).prop_map(|(i, leaf, weight)| Op::Join { i, leaf, weight }),
        1 => i.clone().prop_map(|i| Op::Exit { i }),
        8 => (i.clone(), any::<u8>(), 1..30 * MS).prop_map(|(i, way, ns)| Op::Step { i, way, ns }),
        6 => (i.clone(), i.clone(), 0..3u64).prop_map(|(i, holder, what)| Op::Link { i, holder, what }),
        2 => i.clone().prop_map(|i| Op::Unlink { i }),
        2 => (i.clone(), i.clone(), 0..3u64).prop_map(|(from, to, what)| Op::HandOver { from, to, what }),
        1 => (i.clone(), 1..=10_000u32).prop_map(|(i, weight)| Op::Weight { i, weight }),
        1 => (i, 0..8usize).prop_map(|(i, leaf)| Op::Move { i, leaf }),
    ]
}

/// Loans are settled some time after they have changed, with others.
fn settled_or_not() -> impl Strategy<Value = (Op, bool)> {
    (op(), proptest::bool::weighted(0.7))
}

impl World {
    fn new(policies: &[Policy]) -> World {
        let mut tree = Tree::new();
        let group = tree.mknod_inner(NodeId::ROOT, 10).unwrap();
        let mut leaves = Vec::new();
        for (n, policy) in policies.iter().enumerate() {
            let parent = if n % 2 == 0 { NodeId::ROOT } else { group };
            let leaf = tree.mknod_leaf(parent, 1 + 50 * n as u32).unwrap();
            tree.set_policy(leaf, *policy).unwrap();
            leaves.push(leaf);
        }
        World {
            lending: Lending::new(tree, THREADS),
            leaves,
            threads: vec![None; THREADS],
        }
    }

    fn said(&self, i: usize) -> Option<Said> {
        self.threads[i]
    }

    /// Does `i` wait, directly or not, for `j`?
    fn waits_for(&self, i: usize, j: usize) -> bool {
        let holder = self.said(i).and_then(|s| s.holder);
        i == j || holder.is_some_and(|h| self.waits_for(h, j))
    }

    fn lenders(&self, i: usize) -> Vec<usize> {
        let of = |&l: &usize| self.said(l).is_some_and(|s| s.holder == Some(i));
        (0..THREADS).filter(of).collect()
    }

    fn link(&mut self, i: usize, holder: usize, what: u64) {
        let refused = self.waits_for(holder, i);
        let done = self.lending.link(i, holder, what);
        assert_eq!(done, !refused, "thread {i} waits for {holder}");
        let said = self.threads[i].as_mut().unwrap();
        said.holder = done.then_some(holder);
        said.what = what;
    }

    fn step(&mut self, i: usize, way: u8, ns: u64) {
        let l = &mut self.lending;
        if !l.is_runnable(i) {
            l.wait(i);
        } else if l.is_waiting(i) {
            if way % 2 == 0 {
                l.serve(i);
            } else {
                l.block(i);
            }
        } else {
            l.charge(i, ns);
            if way % 2 == 0 {
                l.wait(i);
            } else {
                l.block(i);
            }
        }
        self.threads[i].as_mut().unwrap().blocked = !self.lending.is_runnable(i);
    }

    fn run(&mut self, op: &Op) {
        let leaf = |n: usize| n % self.leaves.len();
        match *op {
            Op::Join { i, leaf: n, weight } if self.said(i).is_none() => {
                let home = leaf(n);
                self.lending.join(i, self.leaves[home], weight);
                self.threads[i] = Some(Said {
                    home,
                    own: weight,
                    holder: None,
                    what: 0,
                    blocked: true,
                });
            }
            Op::Exit { i } if self.said(i).is_some_and(|s| s.blocked) => {
                self.lending.exit(i);
                self.threads[i] = None;
                for said in self.threads.iter_mut().flatten() {
                    said.holder = said.holder.filter(|&h| h != i);
                }
            }
            Op::Step { i, way, ns } if self.said(i).is_some() => self.step(i, way, ns),
            // A thread says whom it waits for while it runs.
            Op::Link { i, holder, what }
                if self.said(i).is_some_and(|s| !s.blocked) && self.said(holder).is_some() =>
            {
                self.link(i, holder, what);
            }
            Op::Unlink { i } if self.said(i).is_some_and(|s| !s.blocked) => {
                self.lending.unlink(i);
                self.threads[i].as_mut().unwrap().holder = None;
            }
            Op::HandOver { from, to, what }
                if self.said(from).is_some() && self.said(to).is_some() && from != to =>
            {
                let all = self.lenders(from);
                self.lending.hand_over(from, to, what);
                for l in all {
                    if l != to && self.said(l).unwrap().what == what {
                        let refused = self.waits_for(to, l);
                        self.threads[l].as_mut().unwrap().holder = (!refused).then_some(to);
                    }
                }
            }
            Op::Weight { i, weight } if self.said(i).is_some() => {
                assert!(self.lending.set_weight(i, weight));
                assert!(!self.lending.set_weight(i, 0));
                self.threads[i].as_mut().unwrap().own = weight;
            }
            Op::Move { i, leaf: n } if self.said(i).is_some_and(|s| s.blocked) => {
                let home = leaf(n);
                self.lending.move_home(i, self.leaves[home]);
                self.threads[i].as_mut().unwrap().home = home;
            }
            _ => {}
        }
    }

    /// Every leaf counts just those that are in it.
    fn check_leaves(&self) {
        for &leaf in &self.leaves {
            let inside = || {
                (0..THREADS)
                    .filter(|&i| self.lending.exists(i))
                    .map(|i| (i, self.lending.place(i)))
                    .filter(|(_, p)| p.leaf() == leaf.number())
            };
            let runnable = || inside().filter(|&(i, _)| self.lending.is_runnable(i));
            let node = self.lending.tree().node(leaf).unwrap();
            assert_eq!(node.threads as usize, inside().count());
            assert_eq!(node.runnable_children as usize, runnable().count());
            assert_eq!(
                node.waiting as usize,
                inside()
                    .filter(|&(i, _)| self.lending.is_waiting(i))
                    .count()
            );
            assert_eq!(node.weights, runnable().map(|(_, p)| p.weight).sum::<u32>());
        }
    }

    /// Who is not in service has what those that lend to it give, and no more.
    fn check_places(&self) {
        for i in 0..THREADS {
            let Some(said) = self.said(i) else { continue };
            if self.lending.is_runnable(i) && !self.lending.is_waiting(i) {
                continue; // in service: it goes elsewhere when it competes again
            }
            let place = self.lending.place(i);
            let lent: u32 = self
                .lenders(i)
                .into_iter()
                .filter(|&l| self.said(l).unwrap().blocked)
                .map(|l| self.lending.place(l))
                .filter(|p| p.leaf() == place.leaf())
                .map(|p| p.weight)
                .sum();
            if place.leaf() == self.leaves[said.home].number() {
                assert_eq!(place.weight, said.own + lent, "thread {i} at home");
            } else {
                assert!(lent > 0, "thread {i} is a guest of nobody");
                assert_eq!(place.weight, lent, "thread {i} as a guest");
            }
        }
    }

    /// What one thread has, and who waits for it: the definition.
    fn weight(&self, i: usize) -> u32 {
        let lent = |l: usize| match self.said(l) {
            Some(s) if s.blocked => self.weight(l),
            _ => 0,
        };
        self.said(i).unwrap().own + self.lenders(i).into_iter().map(lent).sum::<u32>()
    }

    /// All wake, nobody waits for anybody: everybody has its own again.
    fn check_returned(&mut self) {
        for i in 0..THREADS {
            if self.lending.exists(i) {
                if !self.lending.is_runnable(i) || !self.lending.is_waiting(i) {
                    self.lending.wait(i);
                }
                self.lending.unlink(i);
            }
        }
        self.lending.settle();
        for i in 0..THREADS {
            let Some(said) = self.said(i) else { continue };
            let place = self.lending.place(i);
            assert_eq!(
                (place.leaf(), place.weight),
                (self.leaves[said.home].number(), said.own),
                "thread {i}"
            );
        }
        self.check_leaves();
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn in_one_leaf_weights_are_what_the_definition_says(ops in vec(settled_or_not(), 1..120)) {
        let mut world = World::new(&[Policy::Sfq]);
        for (op, settled) in &ops {
            world.run(op);
            world.check_leaves();
            if !settled {
                continue;
            }
            world.lending.settle();
            world.check_leaves();
            let all = || (0..THREADS).filter(|&i| world.said(i).is_some());
            for i in all() {
                prop_assert_eq!(world.lending.place(i).weight, world.weight(i), "thread {} after {:?}", i, op);
            }
            let has_lent = |i: &usize| world.said(*i).is_some_and(|s| s.blocked && s.holder.is_some());
            let used: u32 = all().filter(|i| !has_lent(i)).map(|i| world.lending.place(i).weight).sum();
            prop_assert_eq!(used, all().map(|i| world.said(i).unwrap().own).sum::<u32>());
        }
        world.check_returned();
    }

    #[test]
    fn across_leaves_everybody_is_counted_once_and_comes_back(ops in vec(settled_or_not(), 1..150)) {
        let mut world = World::new(&[Policy::Sfq, Policy::Ts, Policy::Rr, Policy::Sfq, Policy::Fifo]);
        for (op, settled) in &ops {
            world.run(op);
            world.check_leaves();
            if *settled {
                world.lending.settle();
                world.check_leaves();
                world.check_places();
            }
        }
        world.check_returned();
    }
}

/// Two classes of weight 1 and 100, ten busy threads in the light one.
fn inversion() -> (Lending, NodeId, NodeId) {
    let mut tree = Tree::new();
    let light = tree.mknod_leaf(NodeId::ROOT, 1).unwrap();
    let heavy = tree.mknod_leaf(NodeId::ROOT, 100).unwrap();
    for leaf in [light, heavy] {
        tree.set_policy(leaf, Policy::Sfq).unwrap();
    }
    let mut lending = Lending::new(tree, 40);
    lending.join(0, light, 100); // the holder
    lending.join(1, heavy, 100); // who waits for it
    for i in 2..12 {
        lending.join(i, light, 100);
        lending.wait(i);
    }
    lending.wait(0);
    lending.wait(1);
    (lending, light, heavy)
}

fn waits(lending: &mut Lending, i: usize, holder: usize) {
    assert!(lending.link(i, holder, 7));
    lending.block(i);
    lending.settle();
}

#[test]
fn a_holder_is_served_where_it_gets_more() {
    let (mut lending, light, heavy) = inversion();
    waits(&mut lending, 1, 0);
    assert_eq!(lending.place(0).leaf(), heavy.number());
    assert_eq!(lending.place(0).weight, 100);
    lending.wait(1);
    lending.settle();
    assert_eq!(lending.place(0).leaf(), light.number());

    // The other way round it stays where it is.
    lending.unlink(1);
    waits(&mut lending, 0, 1);
    assert_eq!(lending.place(1).leaf(), heavy.number());
}

#[test]
fn the_class_that_lends_pays() {
    let (mut lending, light, heavy) = inversion();
    waits(&mut lending, 1, 0);
    lending.serve(0);
    lending.charge(0, 10 * MS);
    assert_eq!(lending.tree().node(heavy).unwrap().served_ns, 10 * MS);
    assert_eq!(lending.tree().node(light).unwrap().served_ns, 0);

    // What it is served after the return is its own affair.
    lending.wait(1);
    lending.wait(0);
    lending.settle();
    lending.serve(0);
    lending.charge(0, MS);
    assert_eq!(lending.tree().node(light).unwrap().served_ns, MS);
}

#[test]
fn a_quantum_in_service_is_charged_where_it_began() {
    let (mut lending, light, heavy) = inversion();
    lending.serve(0);
    waits(&mut lending, 1, 0);
    assert_eq!(lending.place(0).leaf(), light.number());
    lending.charge(0, MS);
    lending.wait(0);
    // However recently others were settled, who competes again is served where it belongs.
    assert!(!lending.due(1) && !lending.due_before(2, 1));
    assert!(lending.due_before(0, 1));
    lending.settle();
    assert!(!lending.due_before(0, 1));
    assert_eq!(lending.place(0).leaf(), heavy.number());
    assert_eq!(lending.tree().node(light).unwrap().served_ns, MS);
}

#[test]
fn more_lenders_than_there_is_room_for_keep_their_weight() {
    let (mut lending, light, _) = inversion();
    for i in 12..12 + LENDERS_MAX - 10 + 1 {
        lending.join(i, light, 1);
        lending.wait(i);
    }
    let mut lent = 0;
    for i in 2..12 + LENDERS_MAX - 10 + 1 {
        if lending.link(i, 0, 7) {
            lending.block(i);
            lent += 1;
        }
    }
    lending.settle();
    assert_eq!(lent, LENDERS_MAX);
    assert_eq!(lending.place(0).weight, 100 + 10 * 100 + 22);
}

/// Two busy threads, 1:2, and one that the heavier one holds a lock against, again and again,
/// while it waits for its turn: the lock is given up `held_ns` into the next one. Loans are settled
/// after every `settle_every` turns.
fn served_beside_short_loans(held_ns: u64, settle_every: u64) -> [u64; 2] {
    const QUANTUM: u64 = 3 * MS;
    let mut tree = Tree::new();
    let leaf = tree.mknod_leaf(NodeId::ROOT, 100).unwrap();
    tree.set_policy(leaf, Policy::Sfq).unwrap();
    let mut lending = Lending::new(tree, 3);
    for (i, weight) in [50, 100, 100].into_iter().enumerate() {
        lending.join(i, leaf, weight);
    }
    lending.wait(0);
    lending.wait(1);
    let mut served = [0; 2];
    for turn in 0..20_000 {
        let first = |a: &usize, b: &usize| {
            let (a, b) = (lending.place(*a).key, lending.place(*b).key);
            (a.wrapping_sub(b) as i64).cmp(&0)
        };
        let th = [0, 1].into_iter().min_by(first).unwrap();
        lending.serve(th);
        if th == 1 && lending.place(1).weight > 100 {
            lending.wait(2); // it was woken: the lock is free
        }
        let ns = if turn % 7 == 3 { held_ns } else { QUANTUM };
        lending.charge(th, ns);
        served[th] += ns;
        lending.wait(th);
        if lending.is_waiting(2) {
            lending.serve(2);
            lending.charge(2, 1_000);
            lending.unlink(2);
            lending.block(2);
        } else if turn % 3 == 0 && lending.link(2, 1, 7) {
            lending.wait(2);
            lending.block(2);
        }
        if turn % settle_every == 0 {
            lending.settle();
        }
    }
    served
}

#[test]
fn short_loans_leave_the_long_run_shares_as_they_are() {
    for (held_ns, settle_every) in [(20_000, 1), (MS, 1), (3 * MS, 1), (20_000, 2), (MS, 5)] {
        let [light, heavy] = served_beside_short_loans(held_ns, settle_every);
        let ratio = heavy as f64 / light as f64;
        assert!(
            (ratio - 2.0).abs() < 0.02,
            "held {held_ns} ns, settled after {settle_every}: {ratio}"
        );
    }
}

#[test]
fn loans_are_due_at_once_after_a_pause_and_together_in_a_row() {
    let (mut lending, ..) = inversion();
    lending.settle(); // at time 0
    assert!(!lending.due(1_000 * TOGETHER_NS), "nothing has changed");
    lending.set_weight(0, 7);
    assert!(!lending.due(TOGETHER_NS - 1));
    assert!(lending.due(TOGETHER_NS));
    lending.settle();
    assert!(!lending.due(1_000 * TOGETHER_NS), "all is settled");
}
