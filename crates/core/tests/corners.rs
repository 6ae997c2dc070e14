// SPDX-License-Identifier: MIT OR Apache-2.0
//! Corners where the core once went wrong, each by name.

use qlinux_core::engine::Core;
use qlinux_core::sim::{run, Workload};
use qlinux_core::{NodeId, Policy, Thread, Tree, LENGTH_MAX_NS};

/// Runs the only awake leaf, of weight 1, for `rounds` of the longest quanta.
fn run_alone(t: &mut Tree, leaf: NodeId, rounds: u32) {
    for _ in 0..rounds {
        assert_eq!(t.schedule(), Some(leaf));
        t.update(leaf, LENGTH_MAX_NS).unwrap();
    }
}

fn start(t: &mut Tree, leaf: NodeId, weight: u32) -> Thread {
    let mut th = Thread::new(weight).unwrap();
    t.join(leaf, &mut th).unwrap();
    t.arrive(&mut th).unwrap();
    t.wait(&mut th).unwrap();
    th
}

fn serve(t: &mut Tree, th: &mut Thread, length_ns: u64) {
    t.unwait(th).unwrap();
    t.serve(th, 0).unwrap();
    t.charge(th, length_ns).unwrap();
    t.wait(th).unwrap();
}

/// A leaf in service on one server while another one moves v(t) on goes to
/// sleep behind v(t). Its tag must stay in the past however far v(t) moves.
#[test]
fn a_tag_behind_v_stays_behind_it() {
    let quarter = 1u64 << 62;
    for shorter in [0, 1 << 40, 1 << 41, 3 << 40] {
        let mut t = Tree::new();
        // v(t) enters the next quarter of the tag circle with the first quantum.
        t.begin_at(NodeId::ROOT, quarter - (1 << 52) + (1 << 20))
            .unwrap();
        let slow = t.mknod_leaf(NodeId::ROOT, 1).unwrap();
        let fast = t.mknod_leaf(NodeId::ROOT, 1).unwrap();
        t.setrun(slow).unwrap();
        t.setrun(fast).unwrap();
        assert_eq!(t.schedule(), Some(slow));
        t.busy(slow).unwrap();
        run_alone(&mut t, fast, 1);
        assert_eq!(t.schedule(), Some(fast));
        t.update(slow, 1).unwrap();
        t.sleep(slow).unwrap();

        run_alone(&mut t, fast, 2047);
        t.update(fast, LENGTH_MAX_NS - shorter).unwrap();
        assert_eq!(t.schedule(), Some(fast));
        t.setrun(slow).unwrap();
        let (tag, v) = (
            t.node(slow).unwrap().start_tag,
            t.node(NodeId::ROOT).unwrap().vtime,
        );
        assert_eq!(
            tag, v,
            "S = max{{ v, F }} is v after {shorter} less than half the circle"
        );
    }
}

/// What a lone leaf is charged later is never so much that v(t) would jump over half the
/// tag circle, where what is ahead seems behind.
#[test]
fn a_lone_leaf_owes_no_more_than_tags_can_tell() {
    let mut t = Tree::new();
    let lone = t.mknod_leaf(NodeId::ROOT, 1).unwrap();
    let sleeper = t.mknod_leaf(NodeId::ROOT, 1).unwrap();
    t.setrun(lone).unwrap();
    // 2^36 ns are 2^46 units of a tag of weight 1, all together a little over 2^63.
    for _ in 0..140_000 {
        assert_eq!(t.schedule(), Some(lone));
        t.update(lone, 1 << 36).unwrap();
    }
    assert_eq!(t.schedule(), Some(lone));
    t.setrun(sleeper).unwrap();
    let v = t.node(NodeId::ROOT).unwrap().vtime;
    assert_eq!(t.node(lone).unwrap().start_tag, v, "it is in service");
    assert_eq!(t.node(sleeper).unwrap().start_tag, v);
}

/// While a server passes a leaf over, who is served in its place waits the longer for it: v(t) stays
/// and nobody is alone. Unless the leaf's threads are not for that server.
#[test]
fn a_leaf_passed_over_for_a_moment_does_not_fall_behind() {
    let mut t = Tree::new();
    t.set_servers(2);
    let [first, ahead] = [1, 1].map(|w| t.mknod_leaf(NodeId::ROOT, w).unwrap());
    t.setrun(ahead).unwrap();
    t.update(ahead, 1_000_000).unwrap();
    t.setrun(first).unwrap();
    assert_eq!(t.schedule(), Some(first));
    let v = |t: &Tree| t.node(NodeId::ROOT).unwrap().vtime;
    let (before, tag) = (v(&t), t.node(ahead).unwrap().start_tag);
    assert_ne!(before, tag);
    assert_eq!(t.pass(first, None).unwrap(), Some(first));
    assert_eq!(t.schedule(), Some(ahead));
    assert_eq!(v(&t), before);
    assert!(t.contended(ahead).unwrap());
    assert_eq!(t.schedule_but(), Some(ahead));
    assert_eq!(v(&t), tag);
}

/// What a node is ahead of v(t) by keeps its length also where the remainder
/// of earlier divisions makes it one unit more than the longest quantum.
#[test]
fn a_new_weight_applies_after_the_longest_quantum() {
    let mut t = Tree::new();
    let leaf = t.mknod_leaf(NodeId::ROOT, 2319).unwrap();
    t.setrun(leaf).unwrap();
    t.schedule();
    t.update(leaf, 1_000_000).unwrap();
    run_alone(&mut t, leaf, 1);
    let v = t.node(NodeId::ROOT).unwrap().vtime;
    t.set_weight(leaf, 1).unwrap();
    let ahead = t.node(leaf).unwrap().start_tag - v;
    assert!(ahead >= LENGTH_MAX_NS << 10, "{ahead}");
}

/// A thread that never slept in the leaf has missed nothing there. With a
/// credit, threads that live shorter than it would keep all others away.
#[test]
fn a_new_thread_gets_no_credit() {
    let mut t = Tree::new();
    let leaf = t.mknod_leaf(NodeId::ROOT, 100).unwrap();
    let mut old = start(&mut t, leaf, 100);
    for _ in 0..10 {
        serve(&mut t, &mut old, 3_000_000);
    }
    let new = start(&mut t, leaf, 100);
    assert_eq!(new.key(), old.key());
}

/// `ahead` is the key that charging really gives, to the last unit, whatever
/// earlier divisions left over.
#[test]
fn ahead_tells_the_key_that_charging_gives() {
    for policy in Policy::ALL {
        let mut t = Tree::new();
        let leaf = t.mknod_leaf(NodeId::ROOT, 7).unwrap();
        t.set_policy(leaf, policy).unwrap();
        let mut th = start(&mut t, leaf, 9_973);
        for length_ns in [1, 2, 3, 5, 1_000_003, 9_000_000, 10_000_000, 10_000_001] {
            t.unwait(&mut th).unwrap();
            let told = t.ahead(&th, length_ns).unwrap();
            t.charge(&mut th, length_ns).unwrap();
            assert_eq!(told, th.key(), "{policy:?}, {length_ns} ns");
            t.wait(&mut th).unwrap();
        }
    }
}

/// Likewise a leaf in service: a tag that is equal after the charge does not precede it.
#[test]
fn precedes_counts_what_earlier_divisions_left_over() {
    let mut t = Tree::new();
    let a = t.mknod_leaf(NodeId::ROOT, 1_024).unwrap();
    let b = t.mknod_leaf(NodeId::ROOT, 3).unwrap();
    t.setrun(a).unwrap();
    t.setrun(b).unwrap();
    t.update(b, 1).unwrap(); // 341 units, 1 left over
    t.update(a, 682).unwrap();
    t.update(b, 1).unwrap(); // 682, 2 left over
    t.update(a, 341).unwrap(); // 1023
    assert!(
        t.precedes(a, b, 1).unwrap(),
        "1023 comes before 3072 / 3 = 1024"
    );
}

/// A thread whose key is of the policy before, which was in force when it began
/// to wait, has a place and a quantum, not what an earlier turn left over.
#[test]
fn a_thread_from_before_a_change_of_policy_gets_a_whole_quantum() {
    let mut t = Tree::new();
    let leaf = t.mknod_leaf(NodeId::ROOT, 100).unwrap();
    let mut th = start(&mut t, leaf, 100);
    let other = start(&mut t, leaf, 100);
    t.set_policy(leaf, Policy::Rr).unwrap();
    t.unwait(&mut th).unwrap();
    assert_eq!(
        t.slice(&th).unwrap(),
        qlinux_core::leaf::tunables().quantum_ns
    );
    assert_eq!(
        t.ahead(&th, 1).unwrap(),
        th.key(),
        "no key of the new policy yet"
    );
    assert!(!Tree::before(other.key(), th.key()));
}

/// A single thread with most of the weight cannot use its share of four
/// processors. When others join it, the class must not claim what it could not
/// use: the other class would wait for 17 s.
#[test]
fn a_class_is_not_owed_what_it_could_not_use() {
    let text = "
        duration = '3s'
        servers = 4
        class = [
            { path = '/heavy', weight = 2300, leaf = 'sfq' },
            { path = '/light', weight = 100, leaf = 'sfq' },
        ]
        thread = [
            { class = '/heavy' },
            { class = '/heavy', count = 4, start = '1s' },
            { class = '/light', count = 6 },
        ]
    ";
    let workload: Workload = text.parse().unwrap();
    let simulation = run(&workload, Core::new()).unwrap();
    let (mut last_ns, mut gap_ns) = (0, 0);
    for r in simulation.records.iter().filter(|r| r.change.is_service()) {
        if simulation.classes[r.class] == "/light" {
            gap_ns = gap_ns.max(r.start_ns.saturating_sub(last_ns));
            last_ns = last_ns.max(r.end_ns);
        }
    }
    gap_ns = gap_ns.max(simulation.trace.end_ns - last_ns);
    assert!(gap_ns < 100_000_000, "/light waits {gap_ns} ns");
}

/// A lighter weight moves a key ahead; it still lies before every key of the
/// next policy, and what that policy does not know, a weight does not move.
#[test]
fn a_thread_made_lighter_is_served_first_after_a_change_of_policy() {
    let mut t = Tree::new();
    let leaf = t.mknod_leaf(NodeId::ROOT, 100).unwrap();
    let mut th = start(&mut t, leaf, 4_000);
    serve(&mut t, &mut th, 3_000_000);
    t.set_thread_weight(&mut th, 4).unwrap();
    t.set_policy(leaf, Policy::Fifo).unwrap();
    let new = start(&mut t, leaf, 100);
    assert!(Tree::before(th.key(), new.key()));
    t.set_policy(leaf, Policy::Sfq).unwrap();
    let key = th.key();
    t.set_thread_weight(&mut th, 1).unwrap();
    assert_eq!(th.key(), key);
}
