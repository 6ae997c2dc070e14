// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets in a tree of classes: against an independent model, and by the theorems.

use proptest::prelude::*;
use qlinux_core::engine::Engine;
use qlinux_core::link::{self, Codel, Counts, Discipline, Goal, Link, Next, QueueId};
use qlinux_core::model::Model;
use qlinux_core::{Error, NodeId};
use qlinux_properties::cases;
use std::collections::{BTreeMap, VecDeque};

const NO_GOAL: Goal = Goal {
    target_ns: 0,
    interval_ns: 0,
};

#[test]
fn both_languages_agree_on_the_structures() {
    let (c, ours) = link::layout();
    assert_eq!(c, ours);
}

/// What a link with these nodes and queues does, from the equations' model of the tree and
/// ordinary queues. Lines are never removed here.
#[derive(Default)]
struct Reference {
    tree: Model,
    discipline: BTreeMap<NodeId, Discipline>,
    /// Its leaf, weight, limits and what it holds.
    queues: BTreeMap<QueueId, (NodeId, u32, u32, u64)>,
    held: BTreeMap<QueueId, (u32, u64)>,
    lines: BTreeMap<(NodeId, Option<(QueueId, u32)>), NodeId>,
    packets: BTreeMap<NodeId, VecDeque<(u64, QueueId, u32)>>,
}

impl Reference {
    fn leaf(&mut self, parent: NodeId, weight: u32, how: Discipline) -> NodeId {
        let leaf = self
            .tree
            .mknod(parent, weight, how == Discipline::Fifo)
            .unwrap();
        self.discipline.insert(leaf, how);
        leaf
    }

    fn line(&mut self, leaf: NodeId, q: QueueId, hash: u32, weight: u32) -> NodeId {
        let key = match self.discipline[&leaf] {
            Discipline::Fifo => return leaf,
            Discipline::Sfq => (leaf, Some((q, 0))),
            Discipline::Fq => (leaf, Some((q, hash))),
        };
        let tree = &mut self.tree;
        *self
            .lines
            .entry(key)
            .or_insert_with(|| tree.mknod(leaf, weight, true).unwrap())
    }

    /// Whether there is room for it.
    fn enqueue(&mut self, id: u64, q: QueueId, hash: u32, bytes: u32) -> bool {
        let (leaf, weight, packets_max, bytes_max) = self.queues[&q];
        let (packets, held) = self.held.get(&q).copied().unwrap_or_default();
        if packets >= packets_max || held + u64::from(bytes) > bytes_max {
            return false;
        }
        let n = self.line(leaf, q, hash, weight);
        let waiting = self.packets.entry(n).or_default();
        let flow = self.discipline[&leaf] == Discipline::Fq;
        if flow && waiting.len() as u32 > packets_max - packets {
            return false;
        }
        if waiting.is_empty() {
            self.tree.setrun(n).unwrap();
        }
        waiting.push_back((id, q, bytes));
        self.held.insert(q, (packets + 1, held + u64::from(bytes)));
        true
    }

    fn dequeue(&mut self) -> Option<u64> {
        let n = self.tree.schedule()?;
        let waiting = self.packets.get_mut(&n).unwrap();
        let (id, q, bytes) = waiting.pop_front().unwrap();
        self.tree.update(n, bytes.into()).unwrap();
        if waiting.is_empty() {
            self.tree.sleep(n).unwrap();
        }
        let held = self.held.get_mut(&q).unwrap();
        held.0 -= 1;
        held.1 -= u64::from(bytes);
        Some(id)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Come { queue: usize, hash: u32, bytes: u32 },
    Send(usize),
    Move { queue: usize, leaf: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = prop_oneof![1u32..100, Just(1500u32), 64u32..65_536];
    prop_oneof![
        6 => (any::<usize>(), 0u32..6, bytes).prop_map(|(queue, hash, bytes)| Op::Come {
            queue, hash, bytes
        }),
        4 => (1usize..8).prop_map(Op::Send),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(queue, leaf)| Op::Move { queue, leaf }),
    ]
}

fn discipline() -> impl Strategy<Value = Discipline> {
    prop_oneof![
        Just(Discipline::Fifo),
        Just(Discipline::Sfq),
        Just(Discipline::Fq)
    ]
}

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..10, 1u32..=10_000]
}

proptest! {
    #![proptest_config(cases(256))]

    /// Core and model send the same packets in the same order, and refuse the same.
    #[test]
    fn packets_leave_as_the_equations_say(
        inner in prop::collection::vec((any::<usize>(), weight()), 0..4),
        leaves in prop::collection::vec((any::<usize>(), weight(), discipline()), 1..6),
        queues in prop::collection::vec((any::<usize>(), weight(), 1u32..40, 1500u64..200_000), 1..8),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let mut link = Link::new();
        let mut reference = Reference::default();
        reference.tree.newcomers_first();
        link.set_goal(NO_GOAL);
        // Node numbers differ: the model keeps lines that the core removes.
        let mut nodes = vec![(NodeId::ROOT, NodeId::ROOT)];
        for (parent, weight) in inner {
            let (c, m) = nodes[parent % nodes.len()];
            nodes.push((link.mknod(c, weight).unwrap(), reference.tree.mknod(m, weight, false).unwrap()));
        }
        let mut ends = Vec::new();
        for (parent, weight, how) in leaves {
            let (c, m) = nodes[parent % nodes.len()];
            ends.push((link.mkleaf(c, weight, how).unwrap(), reference.leaf(m, weight, how)));
        }
        let mut all = Vec::new();
        for (leaf, weight, packets, bytes) in queues {
            let (c, m) = ends[leaf % ends.len()];
            let q = link.createq(weight).unwrap();
            link.attachq(q, c).unwrap();
            link.limitq(q, packets, bytes).unwrap();
            reference.queues.insert(q, (m, weight, packets, bytes));
            all.push(q);
        }
        let mut place = BTreeMap::new();
        let mut sent = 0;
        for (id, op) in ops.into_iter().enumerate() {
            match op {
                Op::Come { queue, hash, bytes } => {
                    let q = all[queue % all.len()];
                    let p = link.enqueue(q, hash, bytes, 0).unwrap();
                    prop_assert_eq!(p.is_some(), reference.enqueue(id as u64, q, hash, bytes));
                    if let Some(p) = p {
                        prop_assert_eq!(place.insert(p, id as u64), None);
                    }
                }
                Op::Send(times) => for _ in 0..times {
                    let found = match link.dequeue(0) {
                        Next::Send(p) => Some(place.remove(&p).unwrap()),
                        Next::Nothing => None,
                        other => panic!("{other:?}"),
                    };
                    prop_assert_eq!(found, reference.dequeue());
                    sent += u64::from(found.is_some());
                },
                Op::Move { queue, leaf } => {
                    let (q, (c, m)) = (all[queue % all.len()], ends[leaf % ends.len()]);
                    link.attachq(q, c).unwrap();
                    reference.queues.get_mut(&q).unwrap().0 = m;
                }
            }
        }
        let total: Vec<Counts> = all.iter().map(|&q| link.counts(q).unwrap()).collect();
        prop_assert_eq!(total.iter().map(|c| c.sent).sum::<u64>(), sent);
        prop_assert_eq!(link.backlog().0 as usize, place.len());
    }

    /// Every packet is counted once, whatever is done to the tree meanwhile.
    #[test]
    fn the_account_balances(
        steps in prop::collection::vec((0u8..12, any::<u16>(), any::<u16>(), 1u32..3000), 1..600),
        rate in prop_oneof![Just(0u64), 1_000u64..10_000_000],
    ) {
        let mut link = Link::new();
        link.pace(rate, 24, 84, 0).unwrap();
        link.set_goal(Goal { target_ns: 1_000_000, interval_ns: 5_000_000 });
        let (mut nodes, mut leaves) = (vec![NodeId::ROOT], vec![link.mkleaf(NodeId::ROOT, 1, Discipline::Fifo).unwrap()]);
        let mut queues: Vec<QueueId> = Vec::new();
        let (mut now, mut came) = (0, 0);
        let mut stored = std::collections::BTreeSet::new();
        let pick = |of: &[NodeId], i: u16| of[usize::from(i) % of.len()];
        for (what, a, b, c) in steps {
            let queue = (!queues.is_empty()).then(|| usize::from(a) % queues.len().max(1));
            now += u64::from(c) * 1000;
            match (what, queue) {
                (0, _) => nodes.extend(link.mknod(pick(&nodes, a), c)),
                (1, _) => {
                    let how = [Discipline::Fifo, Discipline::Sfq, Discipline::Fq][usize::from(b) % 3];
                    leaves.extend(link.mkleaf(pick(&nodes, a), c, how));
                }
                (2, _) | (3, None) => {
                    let q = link.createq(c).unwrap();
                    queues.push(q);
                    link.limitq(q, u32::from(b) % 30 + 1, 60_000).unwrap();
                }
                (3, Some(i)) => link.attachq(queues[i], pick(&leaves, b)).unwrap(),
                (4, Some(i)) => {
                    let waits = link.queued(queues[i]).unwrap().0;
                    match link.rmq(queues[i]) {
                        Ok(()) => { prop_assert_eq!(waits, 0); queues.swap_remove(i); }
                        Err(e) => { prop_assert!(waits > 0); prop_assert_eq!(e, Error::QueueBusy(queues[i].number())); }
                    }
                }
                (5, Some(i)) => link.set_weightq(queues[i], c).unwrap(),
                (5, None) => link.set_weight(pick(&leaves, a), c).unwrap(),
                (6, _) if leaves.len() > 1 => {
                    let leaf = pick(&leaves, a);
                    if link.rmnod(leaf).is_ok() { leaves.retain(|&l| l != leaf); }
                }
                (7, Some(_)) if b % 16 == 0 => {
                    while let Some(p) = link.flush() { prop_assert!(stored.remove(&p)); }
                }
                (7 | 8, _) => loop {
                    match link.dequeue(now) {
                        Next::Send(p) => { prop_assert!(stored.remove(&p)); break }
                        Next::Drop(p) => prop_assert!(stored.remove(&p)),
                        Next::Wait(at) => { prop_assert!(at > now && rate > 0); break }
                        Next::Nothing => { prop_assert!(stored.is_empty()); break }
                    }
                },
                (_, Some(i)) => {
                    came += 1;
                    if let Some(p) = link.enqueue(queues[i], b.into(), c, now).unwrap() {
                        prop_assert!(stored.insert(p));
                    }
                }
                _ => {}
            }
            let mut sum = link.gone();
            prop_assert_eq!(sum.enqueued, sum.sent + sum.refused + sum.dropped);
            let mut held = 0;
            for &q in &queues {
                let (counts, (packets, bytes)) = (link.counts(q).unwrap(), link.queued(q).unwrap());
                prop_assert_eq!(counts.enqueued, counts.sent + counts.refused + counts.dropped + u64::from(packets));
                prop_assert_eq!(counts.enqueued_bytes,
                    counts.sent_bytes + counts.refused_bytes + counts.dropped_bytes + bytes);
                sum.enqueued += counts.enqueued;
                held += packets;
            }
            prop_assert_eq!(sum.enqueued, came);
            prop_assert_eq!(link.backlog().0, held);
            prop_assert_eq!(stored.len(), held as usize);
        }
    }

    /// OSDI'96, section 3: while two flows are backlogged, their service differs by no more than
    /// l_f / w_f + l_m / w_m, whatever the lengths of their packets.
    #[test]
    fn two_backlogged_queues_are_within_the_bound(
        weights in (weight(), weight(), weight()),
        lengths in prop::collection::vec(64u32..1514, 3..200),
        how in prop_oneof![Just(None), Just(Some(Discipline::Sfq)), Just(Some(Discipline::Fq))],
    ) {
        let mut link = Link::new();
        link.set_goal(NO_GOAL);
        let weights = [weights.0, weights.1, weights.2];
        let shared = how.map(|how| link.mkleaf(NodeId::ROOT, 1, how).unwrap());
        let queues: Vec<QueueId> = weights.iter().map(|&weight| {
            let leaf = shared.unwrap_or_else(|| link.mkleaf(NodeId::ROOT, weight, Discipline::Fifo).unwrap());
            let q = link.createq(weight).unwrap();
            link.attachq(q, leaf).unwrap();
            q
        }).collect();
        let mut next = lengths.iter().cycle();
        let mut of = BTreeMap::new();
        let mut put = |link: &mut Link, of: &mut BTreeMap<u32, (usize, u32)>, i: usize| {
            let length = *next.next().unwrap();
            let p = link.enqueue(queues[i], 7, length, 0).unwrap().unwrap();
            of.insert(p, (i, length));
        };
        for i in 0..3 {
            put(&mut link, &mut of, i);
            put(&mut link, &mut of, i);
        }
        let (mut served, longest) = ([0u64; 3], u64::from(*lengths.iter().max().unwrap()));
        let mut history = vec![served];
        for _ in 0..400 {
            let Next::Send(p) = link.dequeue(0) else { panic!("it is backlogged") };
            let (i, length) = of.remove(&p).unwrap();
            served[i] += u64::from(length);
            put(&mut link, &mut of, i);
            history.push(served);
        }
        for (f, m) in [(0, 1), (0, 2), (1, 2)] {
            let (wf, wm) = (i128::from(weights[f]), i128::from(weights[m]));
            // Times w_f w_m; the extremes of the difference over all pairs of moments.
            let ahead = history.iter().map(|s| i128::from(s[f]) * wm - i128::from(s[m]) * wf);
            let (least, most) = ahead.fold((i128::MAX, i128::MIN), |(a, b), d| (a.min(d), b.max(d)));
            // Tags compare in 1024ths of a byte per unit of weight.
            let rounding = 2 * wf * wm / 1024;
            prop_assert!(most - least <= i128::from(longest) * (wf + wm) + rounding);
        }
    }

    /// A paced link lets go no more than C t + one packet, and no less than C t - one packet
    /// while it has something to send, whatever its timer is late by, up to 10 ms.
    #[test]
    fn the_link_keeps_its_rate(
        rate in 10_000u64..1_000_000_000,
        late in prop::collection::vec(0u64..9_000_000, 1..50),
        bytes in prop::collection::vec(1u32..9000, 1..50),
        overhead in 0u32..100,
    ) {
        let mut link = Link::new();
        link.set_goal(NO_GOAL);
        link.pace(rate, overhead, 84, 0).unwrap();
        let leaf = link.mkleaf(NodeId::ROOT, 1, Discipline::Fifo).unwrap();
        let q = link.createq(1).unwrap();
        link.attachq(q, leaf).unwrap();
        let (begin, mut now) = (1_000_000_000u64, 1_000_000_000u64);
        let (mut sent, mut last) = (0u128, 0u128);
        let mut late = late.into_iter().cycle();
        for &bytes in bytes.iter().cycle().take(500) {
            while link.backlog().0 < 3 {
                link.enqueue(q, 0, bytes, now).unwrap().unwrap();
            }
            match link.dequeue(now) {
                Next::Send(_) => {
                    // What was let go before this packet fits into the time before it.
                    prop_assert!(sent * 1_000_000_000 <= u128::from(rate) * u128::from(now - begin + 1));
                    let all = u128::from(link.served(leaf));
                    (sent, last) = (all, all - sent);
                }
                Next::Wait(at) => {
                    prop_assert!(at > now);
                    // The link is busy until then with what was sent: none of its time is lost.
                    prop_assert!(sent * 1_000_000_000 + u128::from(rate) >= u128::from(rate) * u128::from(at - begin));
                    now = at + late.next().unwrap();
                }
                other => panic!("{other:?}"),
            }
            prop_assert!(last > 0 || sent == 0);
        }
    }
}

/// One flow that sends as fast as it can leaves room in the queue, and half of the line.
#[test]
fn one_connection_does_not_crowd_out_another() {
    let mut link = Link::new();
    link.set_goal(NO_GOAL);
    let leaf = link.mkleaf(NodeId::ROOT, 1, Discipline::Fq).unwrap();
    let q = link.createq(1).unwrap();
    link.attachq(q, leaf).unwrap();
    let mut whose = BTreeMap::new();
    let mut sent = [0u64; 2];
    for _ in 0..10_000 {
        for _ in 0..5 {
            if let Some(p) = link.enqueue(q, 1, 1500, 0).unwrap() {
                whose.insert(p, 0);
            }
        }
        // One packet at a time, again as soon as it was sent.
        if !whose.values().any(|&flow| flow == 1) {
            let p = link
                .enqueue(q, 2, 1500, 0)
                .unwrap()
                .expect("room for a sparse flow");
            whose.insert(p, 1);
        }
        let Next::Send(p) = link.dequeue(0) else {
            panic!("it is backlogged")
        };
        sent[whose.remove(&p).unwrap()] += 1;
    }
    assert!(sent[0].abs_diff(sent[1]) <= 2, "{sent:?}");
}

/// Flows that come and go are forgotten, but not before their service counts no more.
/// A sparse flow, or class, waits for the packet in service and not for each of the busy ones: packets of one length
/// bring those to the same start tags in every round.
#[test]
fn who_had_nothing_comes_first_among_equals() {
    for how in [Discipline::Fq, Discipline::Fifo] {
        let mut link = Link::new();
        link.set_goal(NO_GOAL);
        let mut leaf = || {
            let leaf = link.mkleaf(NodeId::ROOT, 100, how).unwrap();
            let q = link.createq(100).unwrap();
            link.attachq(q, leaf).unwrap();
            q
        };
        // Flows of one class, or a class each.
        let queues: Vec<QueueId> = match how {
            Discipline::Fq => vec![leaf(); 6],
            _ => (0..6).map(|_| leaf()).collect(),
        };
        let come = |link: &mut Link, of: usize, bytes: u32| {
            link.enqueue(queues[of], of as u32 + 1, bytes, 0)
                .unwrap()
                .unwrap()
        };
        for _ in 0..20 {
            for of in 0..4 {
                come(&mut link, of, 1500);
            }
        }
        for round in 0..12 {
            // Each time at another point of it, and below their shares.
            for _ in 0..5 {
                assert!(matches!(link.dequeue(0), Next::Send(_)));
            }
            let sparse = [4, 5].map(|of| come(&mut link, of, 100));
            for place in sparse {
                assert_eq!(link.dequeue(0), Next::Send(place), "{how:?}, {round}");
            }
        }
    }
}

#[test]
fn lines_are_used_again() {
    let mut link = Link::new();
    let leaf = link.mkleaf(NodeId::ROOT, 1, Discipline::Fq).unwrap();
    let q = link.createq(1).unwrap();
    link.attachq(q, leaf).unwrap();
    for hash in 0..100_000 {
        link.enqueue(q, hash, 1500, 0).unwrap().unwrap();
        assert!(matches!(link.dequeue(0), Next::Send(_)));
    }
    assert!(link.lines() < 10, "{}", link.lines());
    // More flows at once than there may be lines: they share one, and none is refused.
    link.limitq(q, 20_000, u64::MAX).unwrap();
    for hash in 0..6_000 {
        link.enqueue(q, hash, 100, 0).unwrap().unwrap();
    }
    assert!(link.lines() <= 4100, "{}", link.lines());
    while link.flush().is_some() {}
    link.rmq(q).unwrap();
    link.rmnod(leaf).unwrap();
    assert_eq!(link.lines(), 0);
}

/// Queues that fill the store leave room for one that comes late.
#[test]
fn a_full_store_has_room_for_another_queue() {
    let mut link = Link::new();
    let leaf = link.mkleaf(NodeId::ROOT, 1, Discipline::Fifo).unwrap();
    for _ in 0..20 {
        let q = link.createq(1).unwrap();
        link.attachq(q, leaf).unwrap();
        link.limitq(q, link::PACKETS_MAX, u64::MAX).unwrap();
        let mut taken = 0;
        while link.enqueue(q, 0, 100, 0).unwrap().is_some() {
            taken += 1;
        }
        let free = link::PACKETS_MAX - link.backlog().0;
        assert!(
            taken >= free && (taken > 0 || free == 0),
            "{taken}, {free} free"
        );
    }
    assert!(link.backlog().0 > link::PACKETS_MAX - 10);
}

/// RFC 8289: a standing queue is thinned at a growing rate; one that empties in time is not.
#[test]
fn codel_drops_as_the_rfc_says() {
    let ms = 1_000_000;
    let goal = Goal {
        target_ns: 5 * ms,
        interval_ns: 100 * ms,
    };
    let mut codel = Codel::default();
    let drops: Vec<u64> = (0..10_000)
        .map(|i| i * ms / 2)
        .filter(|&now| codel.drop(goal, 20 * ms, 100_000, now))
        .collect();
    assert_eq!(drops[0], 100 * ms);
    let mut due = drops[0] as f64;
    for (n, &at) in drops.iter().enumerate().skip(1) {
        due += 100e6 / (n as f64).sqrt();
        assert!(
            (at as f64 - due).abs() < 0.02 * due,
            "{n}: {at} instead of {due}"
        );
    }
    assert!(drops.len() > 400, "{}", drops.len());
    // One packet in time ends it.
    assert!(!codel.drop(goal, ms, 100_000, 5_000 * ms));
    for i in 0..190 {
        assert!(!codel.drop(goal, 20 * ms, 100_000, 5_001 * ms + i * ms / 2));
    }
    // A queue of one packet does not stand, nor one without a goal.
    let mut codel = Codel::default();
    let mut without = Codel::default();
    for i in 0..1000 {
        assert!(!codel.drop(goal, 20 * ms, 1514, i * ms));
        assert!(!without.drop(NO_GOAL, 20 * ms, 100_000, i * ms));
    }
}

/// Turned off and on again, it begins anew: what it was about to drop long ago is not made up for.
#[test]
fn codel_forgets_what_it_did_before_it_was_turned_off() {
    let ms = 1_000_000;
    let goal = Goal {
        target_ns: 5 * ms,
        interval_ns: 100 * ms,
    };
    let mut codel = Codel::default();
    let drops = (0..300).filter(|i| codel.drop(goal, 20 * ms, 100_000, i * ms));
    assert!(drops.count() > 2);
    assert!(!codel.drop(NO_GOAL, 20 * ms, 100_000, 301 * ms));
    let later = (20_000..20_100).filter(|i| codel.drop(goal, 20 * ms, 100_000, i * ms));
    assert_eq!(later.count(), 0);
}

/// Another rate counts from now on, for the packet on its way too.
#[test]
fn a_new_rate_counts_at_once() {
    const SECOND: u64 = 1_000_000_000;
    let mut link = Link::new();
    link.set_goal(NO_GOAL);
    let leaf = link.mkleaf(NodeId::ROOT, 1, Discipline::Fifo).unwrap();
    let q = link.createq(1).unwrap();
    link.attachq(q, leaf).unwrap();
    for (then, left_ns) in [(500, 2 * SECOND), (1_000_000, 1_000_000), (0, 0)] {
        link.pace(0, 0, 0, SECOND).unwrap();
        link.pace(1000, 0, 0, SECOND).unwrap();
        for _ in 0..2 {
            link.enqueue(q, 0, 1500, SECOND).unwrap().unwrap();
        }
        assert!(matches!(link.dequeue(SECOND), Next::Send(_)));
        assert_eq!(link.dequeue(SECOND), Next::Wait(SECOND + SECOND * 3 / 2));
        // Half a second later 1000 bytes of the packet are left.
        let now = SECOND * 3 / 2;
        link.pace(then, 0, 0, now).unwrap();
        if left_ns > 0 {
            assert_eq!(link.dequeue(now), Next::Wait(now + left_ns));
        }
        assert!(matches!(link.dequeue(now + left_ns), Next::Send(_)));
        link.pace(0, 0, 0, now + left_ns).unwrap();
        assert_eq!(link.dequeue(now + left_ns), Next::Nothing);
    }
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let mut link = Link::new();
    let leaf = link.mkleaf(NodeId::ROOT, 1, Discipline::Sfq).unwrap();
    let gone = NodeId::from_number(99).unwrap();
    assert_eq!(link.mknod(leaf, 1), Err(Error::IsLeaf(leaf)));
    assert_eq!(
        link.mkleaf(leaf, 1, Discipline::Fifo),
        Err(Error::IsLeaf(leaf))
    );
    assert_eq!(link.mknod(gone, 1), Err(Error::NoSuchNode(gone)));
    assert_eq!(link.mknod(NodeId::ROOT, 0), Err(Error::Weight(0)));
    assert_eq!(link.createq(10_001), Err(Error::Weight(10_001)));
    let q = link.createq(5).unwrap();
    assert_eq!(link.set_weightq(q, 0), Err(Error::Weight(0)));
    assert_eq!(
        link.attachq(q, NodeId::ROOT),
        Err(Error::NotLeaf(NodeId::ROOT))
    );
    assert_eq!(link.limitq(q, 0, 1), Err(Error::QueueLimit));
    assert_eq!(link.limitq(q, 1, 0), Err(Error::QueueLimit));
    assert_eq!(link.pace(124, 0, 0, 0), Err(Error::Rate));
    assert_eq!(link.pace(125, 1025, 0, 0), Err(Error::Rate));
    // Attached nowhere: refused, and counted.
    assert_eq!(link.enqueue(q, 0, 100, 0), Ok(None));
    assert_eq!(link.counts(q).unwrap().refused, 1);
    link.attachq(q, leaf).unwrap();
    assert_eq!(link.rmnod(leaf), Err(Error::Busy(leaf)));
    assert!(link.enqueue(q, 0, 100, 0).unwrap().is_some());
    assert_eq!(link.rmq(q), Err(Error::QueueBusy(q.number())));
    assert!(matches!(link.dequeue(0), Next::Send(_)));
    link.rmq(q).unwrap();
    assert_eq!(link.rmq(q), Err(Error::NoSuchQueue(q.number())));
    link.rmnod(leaf).unwrap();
    assert_eq!(link.rmnod(leaf), Err(Error::NoSuchNode(leaf)));
    // All queues, and the depth that lines need.
    for _ in 0..link::QUEUES_MAX {
        link.createq(1).unwrap();
    }
    assert_eq!(link.createq(1), Err(Error::NoQueue));
    let mut n = NodeId::ROOT;
    for _ in 0..63 {
        n = link.mknod(n, 1).unwrap();
    }
    assert_eq!(link.mkleaf(n, 1, Discipline::Fq), Err(Error::TooDeep(n)));
    link.mkleaf(n, 1, Discipline::Fifo).unwrap();
}
