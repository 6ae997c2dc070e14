// SPDX-License-Identifier: MIT OR Apache-2.0
//! Core and model side by side, and what must always hold inside the core.
#![allow(dead_code)] // every test binary uses its own part

use qlinux_core::engine::{Core, Engine, ThreadId};
use qlinux_core::ffi::{self, RawTree};
use qlinux_core::model::Model;
use qlinux_core::sched::Servers;
use qlinux_core::{Class, Limit, NodeId, Policy, Reservation, Result, Tree, NODES_MAX};

/// Both engines; every call goes to both, and they must answer alike.
#[derive(Default)]
pub struct Pair {
    pub core: Core,
    pub model: Model,
}

macro_rules! both {
    ($self:ident.$call:ident($($arg:expr),*)) => {{
        let c = $self.core.$call($($arg),*);
        let m = $self.model.$call($($arg),*);
        assert_eq!(c, m, "core and model differ in {}{:?}", stringify!($call), ($($arg,)*));
        c
    }};
}

impl Pair {
    /// The thread gives up the rest of its turn.
    pub fn give_up(&mut self, th: ThreadId) {
        both!(self.give_up(th)).unwrap();
    }
}

impl Engine for Pair {
    type Key = (u64, i128);

    fn advance(&mut self, now_ns: u64) {
        both!(self.advance(now_ns))
    }
    fn mknod(&mut self, parent: NodeId, weight: u32, leaf: bool) -> Result<NodeId> {
        both!(self.mknod(parent, weight, leaf))
    }
    fn rmnod(&mut self, n: NodeId) -> Result<()> {
        both!(self.rmnod(n))
    }
    fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()> {
        both!(self.set_weight(n, weight))
    }
    fn another(&self) -> Pair {
        Pair::default()
    }
    fn weigh(&mut self, n: NodeId, weight: u32) -> Result<()> {
        both!(self.weigh(n, weight))
    }
    fn set_idle(&mut self, n: NodeId, idle: bool, weight: u32) -> Result<()> {
        both!(self.set_idle(n, idle, weight))
    }
    fn set_limit(&mut self, n: NodeId, limit: Option<Limit>) -> Result<()> {
        both!(self.set_limit(n, limit))
    }
    fn release(&mut self) -> Option<u64> {
        both!(self.release())
    }
    fn held(&self, n: NodeId) -> Result<bool> {
        both!(self.held(n))
    }
    fn setrun(&mut self, leaf: NodeId) -> Result<()> {
        both!(self.setrun(leaf))
    }
    fn sleep(&mut self, leaf: NodeId) -> Result<()> {
        both!(self.sleep(leaf))
    }
    fn ready(&mut self, leaf: NodeId) -> Result<()> {
        both!(self.ready(leaf))
    }
    fn busy(&mut self, leaf: NodeId) -> Result<()> {
        both!(self.busy(leaf))
    }
    fn schedule(&mut self) -> Option<NodeId> {
        both!(self.schedule())
    }
    fn schedule_but(&mut self) -> Option<NodeId> {
        both!(self.schedule_but())
    }
    fn update(&mut self, leaf: NodeId, length_ns: u64) -> Result<()> {
        both!(self.update(leaf, length_ns))
    }
    fn share(&self, leaf: NodeId, period_ns: u64) -> Result<u64> {
        both!(self.share(leaf, period_ns))
    }
    fn contended(&self, leaf: NodeId) -> Result<bool> {
        both!(self.contended(leaf))
    }
    fn precedes(&self, waiting: NodeId, running: NodeId, ran_ns: u64) -> Result<bool> {
        both!(self.precedes(waiting, running, ran_ns))
    }
    fn start_tag(&self, n: NodeId) -> Result<u64> {
        both!(self.start_tag(n))
    }
    fn vtime(&self, n: NodeId) -> Result<u64> {
        both!(self.vtime(n))
    }
    fn set_policy(&mut self, leaf: NodeId, policy: Policy) -> Result<()> {
        both!(self.set_policy(leaf, policy))
    }
    fn spawn(&mut self, leaf: NodeId, weight: u32) -> Result<ThreadId> {
        both!(self.spawn(leaf, weight))
    }
    fn leave(&mut self, th: ThreadId) -> Result<()> {
        both!(self.leave(th))
    }
    fn join(&mut self, th: ThreadId, leaf: NodeId) -> Result<()> {
        both!(self.join(th, leaf))
    }
    fn arrive(&mut self, th: ThreadId) -> Result<()> {
        both!(self.arrive(th))
    }
    fn depart(&mut self, th: ThreadId) -> Result<()> {
        both!(self.depart(th))
    }
    fn wait(&mut self, th: ThreadId) -> Result<()> {
        both!(self.wait(th))
    }
    fn unwait(&mut self, th: ThreadId) -> Result<()> {
        both!(self.unwait(th))
    }

    fn take(&mut self, th: ThreadId) -> Result<()> {
        both!(self.take(th))
    }
    fn pass(&mut self, leaf: NodeId, passed: Option<NodeId>) -> Result<Option<NodeId>> {
        both!(self.pass(leaf, passed))
    }
    fn restore(&mut self, passed: NodeId) -> Result<Option<NodeId>> {
        both!(self.restore(passed))
    }
    fn set_servers(&mut self, servers: u32) {
        self.core.set_servers(servers);
        self.model.set_servers(servers);
    }
    fn serve(&mut self, th: ThreadId, planned_ns: u64) -> Result<()> {
        both!(self.serve(th, planned_ns))
    }
    fn charge(&mut self, th: ThreadId, length_ns: u64) -> Result<()> {
        both!(self.charge(th, length_ns))
    }
    fn set_thread_weight(&mut self, th: ThreadId, weight: u32) -> Result<()> {
        both!(self.set_thread_weight(th, weight))
    }
    fn reserve(&mut self, th: ThreadId, r: Option<Reservation>) -> Result<()> {
        both!(self.reserve(th, r))
    }
    fn set_class(&mut self, th: ThreadId, class: Class) -> Result<()> {
        both!(self.set_class(th, class))
    }
    fn rekey(&mut self, th: ThreadId) -> Result<()> {
        both!(self.rekey(th))
    }
    fn misses(&self, th: ThreadId) -> u64 {
        both!(self.misses(th))
    }
    fn slice(&self, th: ThreadId) -> Result<u64> {
        both!(self.slice(th))
    }
    fn quantum(&self, th: ThreadId) -> Result<u64> {
        both!(self.quantum(th))
    }
    fn quantum_left(
        &self,
        waiting: ThreadId,
        th: ThreadId,
        ran_ns: u64,
        eager: bool,
    ) -> Result<u64> {
        both!(self.quantum_left(waiting, th, ran_ns, eager))
    }
    fn eager(&self, calm_ns: u64) -> bool {
        let eager = (self.core.eager(calm_ns), self.model.eager(calm_ns));
        assert_eq!(eager.0, eager.1, "eager at {calm_ns}");
        eager.0
    }
    fn calm(&self, calm_ns: u64) -> u64 {
        let calm = (self.core.calm(calm_ns), self.model.calm(calm_ns));
        assert_eq!(calm.0, calm.1, "calm after {calm_ns}");
        calm.0
    }
    fn overtakes(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64) -> Result<bool> {
        both!(self.overtakes(waiting, th, ran_ns))
    }
    fn ends(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64, eager: bool) -> Result<bool> {
        both!(self.ends(waiting, th, ran_ns, eager))
    }
    fn near(&self, leaf: NodeId) -> Result<u64> {
        both!(self.near(leaf))
    }
    fn outranks(
        &self,
        th: ThreadId,
        chosen: NodeId,
        running: ThreadId,
        ran_ns: u64,
    ) -> Result<bool> {
        both!(self.outranks(th, chosen, running, ran_ns))
    }
    fn goes_on(&self, th: ThreadId, chosen: NodeId) -> Result<bool> {
        both!(self.goes_on(th, chosen))
    }
    fn key(&self, th: ThreadId) -> Self::Key {
        let key = (self.core.key(th), self.model.key(th));
        assert_eq!(
            key.0,
            Model::key_bits(key.1),
            "core and model differ in the key of {th:?}"
        );
        key
    }
    fn ahead(&self, th: ThreadId, length_ns: u64) -> Result<Self::Key> {
        let key = (
            self.core.ahead(th, length_ns)?,
            self.model.ahead(th, length_ns)?,
        );
        assert_eq!(
            key.0,
            Model::key_bits(key.1),
            "core and model differ in ahead({length_ns})"
        );
        Ok(key)
    }
    fn before(a: Self::Key, b: Self::Key) -> bool {
        let order = Core::before(a.0, b.0);
        assert_eq!(
            order,
            Model::before(a.1, b.1),
            "the wrap changes the order of {a:?}, {b:?}"
        );
        order
    }
    fn key_bits(key: Self::Key) -> u64 {
        key.0
    }
}

/// A mechanism's queue of waiting threads: least key first, FIFO among equals.
/// Keys are those of the moment a thread began to wait.
pub struct Queues<E: Engine> {
    waiting: Vec<(NodeId, E::Key, ThreadId)>,
}

impl<E: Engine> Default for Queues<E> {
    fn default() -> Self {
        Queues {
            waiting: Vec::new(),
        }
    }
}

impl<E: Engine> Queues<E> {
    pub fn push(&mut self, leaf: NodeId, key: E::Key, th: ThreadId) {
        self.waiting.push((leaf, key, th));
    }

    pub fn pop(&mut self, leaf: NodeId) -> Option<ThreadId> {
        let mut best: Option<usize> = None;
        for (i, entry) in self.waiting.iter().enumerate() {
            if entry.0 == leaf && best.is_none_or(|b| E::before(entry.1, self.waiting[b].1)) {
                best = Some(i);
            }
        }
        best.map(|i| self.waiting.remove(i).2)
    }

    pub fn remove(&mut self, th: ThreadId) {
        self.waiting.retain(|entry| entry.2 != th);
    }
}

fn before(a: u64, b: u64) -> bool {
    Tree::before(a, b)
}

/// Checks the heap of a node's ready children from slot `s`, the `i`-th, downwards;
/// returns its size.
fn check_heap(t: &RawTree, parent: u32, s: u32, up: u32, i: u32) -> u32 {
    if s == 0 {
        return 0;
    }
    let slot = &t.node[s as usize];
    let who = &t.node[slot.who as usize];
    for (n, node) in [(s, slot), (slot.who, who)] {
        assert_eq!(
            node.parent, parent,
            "node {n} is in the heap of another parent"
        );
        assert_ne!(
            node.flags & ffi::READY,
            0,
            "node {n} is in a heap and not ready"
        );
    }
    assert_eq!(who.slot, s, "node {} is in two slots", slot.who);
    assert_eq!(slot.up, up, "slot {s}: link up");
    assert!(
        i <= t.node[parent as usize].waiting,
        "slot {s} is the {i}-th: not balanced"
    );
    if up != 0 {
        let above = &t.node[t.node[up as usize].who as usize];
        let order = (
            who.flow.start.wrapping_sub(above.flow.start) as i64,
            who.order,
        );
        assert!(
            order > (0, above.order),
            "node {} comes before who is above it",
            slot.who
        );
    }
    let top = 1 << (31 - i.leading_zeros());
    let left = check_heap(t, parent, slot.left, s, i + top);
    1 + left + check_heap(t, parent, slot.right, s, i + 2 * top)
}

/// Everything that must hold in a tree between operations.
pub fn check_invariants(t: &RawTree) {
    let used = |n: usize| t.node[n].flags & ffi::USED != 0;
    let mut counts = vec![[0u32; 4]; t.unused as usize]; // children, runnable, ready, weights
    let mut nodes = 0;

    for n in 1..t.unused as usize {
        let h = &t.node[n];
        if !used(n) {
            continue;
        }
        nodes += 1;
        if n == 1 {
            continue;
        }
        let p = h.parent as usize;
        assert!(used(p), "node {n} hangs below {p}, which is free");
        assert_eq!(h.depth, t.node[p].depth + 1, "node {n}: depth");
        assert_eq!(
            t.node[p].flags & ffi::LEAF,
            0,
            "node {n} hangs below a leaf"
        );
        counts[p][0] += 1;
        if h.flags & ffi::RUNNABLE != 0 {
            counts[p][1] += 1;
            counts[p][3] += h.weight;
            // F = S + l / w with l of at most LENGTH_MAX_NS: comparable with v.
            let gap = h.flow.start.wrapping_sub(t.node[p].clock.vtime) as i64;
            assert!(gap.abs() < 1 << 60, "node {n}: tag {gap} away from v");
        }
        if h.flags & ffi::READY != 0 {
            assert_ne!(h.flags & ffi::RUNNABLE, 0, "node {n} is ready and asleep");
            counts[p][2] += 1;
        }
        let clock = h.clock;
        assert!(
            !before(clock.max_finish, clock.vtime.wrapping_sub(1 << 60)),
            "node {n}: clock"
        );
    }
    assert_eq!(nodes, t.nodes, "nodes in use");
    let awake = |h: &&ffi::Node| h.flags & (ffi::LEAF | ffi::RUNNABLE) == ffi::LEAF | ffi::RUNNABLE;
    let leaves = t.node[..t.unused as usize].iter().filter(awake).count();
    assert_eq!(leaves, t.runnable as usize, "runnable leaves");
    let flagged = |flag| {
        let nodes = t.node[..t.unused as usize].iter();
        nodes.filter(|h| h.flags & flag != 0).count() as u32
    };
    assert_eq!(flagged(ffi::LIMITED), t.limited, "nodes with a budget");
    assert_eq!(flagged(ffi::HELD), t.held, "nodes that are held");
    for n in (1..t.unused as usize).filter(|&n| used(n)) {
        let (flags, b) = (t.node[n].flags, &t.budget[n]);
        if flags & ffi::LIMITED != 0 {
            let most = (b.quota_ns + b.burst_ns) as i64;
            assert!(b.left_ns <= most, "node {n} has more than quota and burst");
            let held = flags & ffi::HELD != 0;
            assert!(held || b.left_ns > 0, "node {n} has used up its budget");
        } else {
            assert_eq!(flags & ffi::HELD, 0, "node {n} is held without a budget");
        }
    }
    for n in (1..t.unused as usize).filter(|&n| used(n)) {
        let h = &t.node[n];
        let [children, runnable, ready, weights] = counts[n];
        assert_eq!(h.children, children, "node {n}: children");
        let in_heap = check_heap(t, n as u32, h.heap, 0, 1);
        assert_eq!(
            in_heap, ready,
            "node {n}: the heap holds other than the ready children"
        );
        if h.flags & ffi::LEAF == 0 {
            assert_eq!(
                (h.runnable, h.weights),
                (runnable, weights),
                "node {n}: counters"
            );
            if n != 1 {
                let held = h.flags & ffi::HELD != 0;
                assert_eq!(
                    h.flags & ffi::RUNNABLE != 0,
                    runnable > 0 && !held,
                    "node {n}: runnable"
                );
                let is_ready = h.flags & ffi::READY != 0;
                assert_eq!(is_ready, ready > 0 && !held, "node {n}: ready");
            }
        } else {
            assert!(
                h.waiting <= h.runnable && h.runnable <= h.threads,
                "leaf {n}: counters"
            );
            assert_ne!(
                h.flags & (ffi::READY | ffi::PASSED),
                ffi::READY | ffi::PASSED,
                "leaf {n} may be chosen although it was passed over"
            );
        }
    }
    check_free_list(t, nodes);
}

fn check_free_list(t: &RawTree, nodes: u32) {
    let (mut n, mut free) = (t.free, 0);
    while n != 0 {
        assert_eq!(t.node[n as usize].flags, 0, "node {n} is on the free list");
        free += 1;
        assert!(free <= NODES_MAX, "the free list is a circle");
        n = t.node[n as usize].next;
    }
    assert_eq!(nodes + free + 1, t.unused, "nodes lost");
}
