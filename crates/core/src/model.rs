// SPDX-License-Identifier: MIT OR Apache-2.0
//! H-SFQ straight from the equations of OSDI'96 section 3, for comparison.
//!
//! ```text
//! S(j) = max{ v(A(j)), F(j-1) }      F(j) = S(j) + l(j) / w      F(0) = 0
//! v(t) = start tag in service; when idle, the greatest finish tag served
//! ```
//!
//! Nothing is shared with the C text: no heap but a search through all
//! children, no modular arithmetic but 128-bit integers, no counters but sums
//! over those concerned. Only two decisions of C's are repeated, so that whole
//! schedules compare exactly:
//!
//! * among equal start tags the node that entered the ready set first is served;
//! * F is rounded down to 1/1024 ns per unit of weight. The rounding is applied
//!   to all service since the tag was last set from v(t), so it is never off by
//!   a whole unit, however many quanta there were: F = base + ⌊1024·Σl / w⌋.

use crate::engine::{check_weight, Engine, ThreadId};
use crate::leaf::{tunables, Tunables};
use crate::{Error, NodeId, Policy, Result, DEPTH_MAX, LENGTH_MAX_NS, NODES_MAX, TAG_SHIFT};

const ROOT: usize = 1;

/// A flow's tag: where it was last set, and what was served since.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    base: i128,
    served_ns: i128,
}

impl Flow {
    fn at(base: i128) -> Flow {
        Flow { base, served_ns: 0 }
    }

    fn start(&self, weight: u32) -> i128 {
        self.base + (self.served_ns << TAG_SHIFT).div_euclid(i128::from(weight))
    }

    /// The flow after `length_ns` more: its finish tag is the next start tag.
    /// More than `lag_ns` of service behind v is not owed to it.
    fn served(&self, length_ns: u64, weight: u32, v: i128, lag_ns: u64) -> Flow {
        let served_ns = self.served_ns + i128::from(length_ns.min(LENGTH_MAX_NS));
        let flow = Flow { served_ns, ..*self };
        let least = v - (i128::from(lag_ns) << TAG_SHIFT) / i128::from(weight);
        if flow.start(weight) < least {
            Flow::at(least)
        } else {
            flow
        }
    }

    /// S = max{ v, F }
    fn request(&mut self, v: i128, weight: u32) {
        if self.start(weight) < v {
            *self = Flow::at(v);
        }
    }

    /// What the flow is ahead of v by is a length of service; that stays.
    fn reweight(&mut self, v: i128, from: u32, to: u32) {
        let ahead = (self.start(from) - v).max(0);
        *self = match ahead {
            0 => Flow::at(self.start(from)),
            _ => Flow::at(v + ahead * i128::from(from) / i128::from(to)),
        };
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    v: i128,
    greatest_finish: i128,
}

impl Clock {
    fn serve(&mut self, start: i128) {
        self.v = self.v.max(start);
    }

    fn finished(&mut self, finish: i128) {
        self.greatest_finish = self.greatest_finish.max(finish);
    }

    fn idle(&mut self) {
        self.v = self.v.max(self.greatest_finish);
    }
}

#[derive(Clone, Debug)]
struct Node {
    parent: usize,
    depth: u32,
    weight: u32,
    leaf: bool,
    flow: Flow,
    clock: Clock,
    runnable: bool,
    ready: bool,
    entered: u64,
    policy: Policy,
    /// Counts changes of the policy.
    regime: u64,
    /// Last place in a queue of turns handed out.
    last_place: i128,
    /// A server passed it over, after that other one.
    passed: Option<Option<NodeId>>,
}

#[derive(Clone, Debug)]
struct Member {
    leaf: Option<usize>,
    weight: u32,
    runnable: bool,
    waiting: bool,
    /// The regime its key is from; `None` before it first arrived in this leaf.
    regime: Option<u64>,
    /// The policy of that regime.
    under: Policy,
    /// Makes its key under ts and sfq.
    flow: Flow,
    /// Its key under rr and fifo.
    place: i128,
    left_ns: u64,
}

/// The reference. See the [module](self).
pub struct Model {
    nodes: Vec<Option<Node>>,
    free: Vec<usize>,
    members: Vec<Member>,
    entries: u64,
    tunables: Tunables,
}

impl Default for Model {
    fn default() -> Self {
        Model::new()
    }
}

fn id(n: usize) -> NodeId {
    u32::try_from(n)
        .ok()
        .and_then(NodeId::from_number)
        .expect("nodes are numbered from 1")
}

impl Model {
    /// An empty tree.
    pub fn new() -> Model {
        let root = Node {
            parent: 0,
            depth: 0,
            weight: 100,
            leaf: false,
            flow: Flow::default(),
            clock: Clock::default(),
            runnable: false,
            ready: false,
            entered: 0,
            policy: Policy::default(),
            regime: 0,
            last_place: 0,
            passed: None,
        };
        Model {
            nodes: vec![None, Some(root)],
            free: Vec::new(),
            members: Vec::new(),
            entries: 0,
            tunables: tunables(),
        }
    }

    /// See [`crate::Tree::begin_at`].
    #[doc(hidden)]
    pub fn begin_at(&mut self, n: NodeId, vtime: u64) {
        let clock = &mut self.at_mut(n.number() as usize).clock;
        clock.v = i128::from(vtime);
        clock.greatest_finish = clock.v;
    }

    fn at(&self, n: usize) -> &Node {
        self.nodes[n].as_ref().expect("links name nodes that exist")
    }

    fn at_mut(&mut self, n: usize) -> &mut Node {
        self.nodes[n].as_mut().expect("links name nodes that exist")
    }

    fn find(&self, n: NodeId) -> Result<usize> {
        let index = n.number() as usize;
        match self.nodes.get(index) {
            Some(Some(_)) => Ok(index),
            _ => Err(Error::NoSuchNode(n)),
        }
    }

    fn find_leaf(&self, n: NodeId) -> Result<usize> {
        let index = self.find(n)?;
        if self.at(index).leaf {
            Ok(index)
        } else {
            Err(Error::NotLeaf(n))
        }
    }

    fn find_passed(&self, n: NodeId) -> Result<usize> {
        let index = self.find_leaf(n)?;
        match self.at(index).passed {
            Some(_) => Ok(index),
            None => Err(Error::NotPassed(n)),
        }
    }

    fn children(&self, n: usize) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter_map(|(i, c)| c.as_ref().map(|c| (i, c)))
            .filter(move |(_, c)| c.parent == n)
    }

    /// The node and its ancestors below the root.
    fn path(&self, n: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut n = n;
        while n != ROOT {
            path.push(n);
            n = self.at(n).parent;
        }
        path
    }

    fn start(&self, n: usize) -> i128 {
        let node = self.at(n);
        node.flow.start(node.weight)
    }

    fn enter(&mut self, n: usize) {
        self.entries += 1;
        let entered = self.entries;
        let node = self.at_mut(n);
        node.ready = true;
        node.entered = entered;
    }

    fn member(&self, th: ThreadId) -> Result<(usize, &Member)> {
        let member = &self.members[th.0];
        match member.leaf {
            Some(leaf) => Ok((leaf, member)),
            None => Err(Error::ThreadState {
                is: "in no leaf",
                must: "a member of one",
            }),
        }
    }

    fn asleep(&self, th: ThreadId) -> Result<(usize, &Member)> {
        match self.member(th)? {
            (_, member) if member.runnable => Err(Error::ThreadState {
                is: "runnable",
                must: "asleep",
            }),
            found => Ok(found),
        }
    }

    fn runnable(&self, th: ThreadId) -> Result<(usize, &Member)> {
        match self.member(th)? {
            (_, member) if !member.runnable => Err(Error::ThreadState {
                is: "asleep",
                must: "runnable",
            }),
            found => Ok(found),
        }
    }

    fn in_service(&self, th: ThreadId) -> Result<(usize, &Member)> {
        match self.runnable(th)? {
            (_, member) if member.waiting => Err(Error::ThreadState {
                is: "waiting",
                must: "in service",
            }),
            found => Ok(found),
        }
    }

    fn runnable_members(&self, leaf: usize) -> impl Iterator<Item = &Member> {
        self.members
            .iter()
            .filter(move |m| m.leaf == Some(leaf) && m.runnable)
    }

    fn period_ns(&self) -> u64 {
        let leaves = self
            .nodes
            .iter()
            .flatten()
            .filter(|n| n.leaf && n.runnable)
            .count() as u64;
        let Tunables {
            period_leaf_ns,
            period_min_ns,
            period_max_ns,
            ..
        } = self.tunables;
        (leaves * period_leaf_ns).clamp(period_min_ns, period_max_ns)
    }

    fn waits(&self, leaf: usize) -> bool {
        self.members
            .iter()
            .any(|m| m.leaf == Some(leaf) && m.waiting)
    }

    /// A thread below became runnable: every node that was not requests a quantum.
    fn activate(&mut self, leaf: usize) {
        for n in self.path(leaf) {
            let Node {
                parent,
                weight,
                runnable,
                ..
            } = *self.at(n);
            if !runnable {
                let v = self.at(parent).clock.v;
                let node = self.at_mut(n);
                node.runnable = true;
                node.flow.request(v, weight);
            }
        }
    }

    /// The thread takes the last place in the queue of turns.
    fn queue_up(&mut self, th: usize, leaf: usize) {
        let node = self.at_mut(leaf);
        node.last_place += 1;
        let place = node.last_place;
        self.members[th].place = place;
    }

    /// Whether the thread's key was made by the leaf's present policy.
    fn knows(&self, leaf: usize, member: &Member) -> bool {
        member.regime == Some(self.at(leaf).regime)
    }

    fn member_served(&self, leaf: usize, member: &Member, length_ns: u64) -> Flow {
        let v = self.at(leaf).clock.v;
        member
            .flow
            .served(length_ns, member.weight, v, self.tunables.lag_ns)
    }

    /// The thread, runnable and a member of the leaf, asks for service.
    fn request(&mut self, th: usize, leaf: usize) {
        let Node {
            policy,
            regime,
            clock,
            ..
        } = *self.at(leaf);
        let known = self.members[th].regime == Some(regime);
        let member = &mut self.members[th];
        let credit = i128::from(self.tunables.ts_credit_ns << TAG_SHIFT) / 100;

        member.regime = Some(regime);
        member.under = policy;
        match policy {
            // One that never was served here has missed nothing: no credit.
            Policy::Sfq | Policy::Ts if !known => member.flow = Flow::at(clock.v),
            Policy::Sfq => member.flow.request(clock.v, member.weight),
            Policy::Ts => member.flow.request(clock.v - credit, member.weight),
            Policy::Fifo => self.queue_up(th, leaf),
            Policy::Rr => {
                member.left_ns = self.tunables.rr_quantum_ns;
                self.queue_up(th, leaf);
            }
        }
    }
}

impl Engine for Model {
    type Key = i128;

    fn mknod(&mut self, parent: NodeId, weight: u32, leaf: bool) -> Result<NodeId> {
        let p = self.find(parent)?;
        if self.at(p).leaf {
            return Err(Error::IsLeaf(parent));
        }
        check_weight(weight)?;
        if self.at(p).depth >= DEPTH_MAX {
            return Err(Error::TooDeep(parent));
        }
        if self.free.is_empty() && self.nodes.len() > NODES_MAX as usize {
            return Err(Error::NoSpace(parent));
        }
        let node = Node {
            parent: p,
            depth: self.at(p).depth + 1,
            weight,
            leaf,
            // F(0) lies in the past of any v.
            flow: Flow::at(self.at(p).clock.v),
            clock: Clock::default(),
            runnable: false,
            ready: false,
            entered: 0,
            policy: Policy::default(),
            regime: 0,
            last_place: 0,
            passed: None,
        };
        let n = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() - 1
        });
        self.nodes[n] = Some(node);
        Ok(id(n))
    }

    fn rmnod(&mut self, n: NodeId) -> Result<()> {
        let i = self.find(n)?;
        let threads = self.members.iter().any(|m| m.leaf == Some(i));
        let listed = self.at(i).passed.is_some();
        let children = self.children(i).next().is_some();
        if i == ROOT || threads || children || listed || self.at(i).runnable {
            return Err(Error::Busy(n));
        }
        self.nodes[i] = None;
        self.free.push(i);
        Ok(())
    }

    fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()> {
        let i = self.find(n)?;
        check_weight(weight)?;
        let (old, parent) = (self.at(i).weight, self.at(i).parent);
        if old == weight {
            return Ok(());
        }
        if i != ROOT {
            let v = self.at(parent).clock.v;
            let flow = &mut self.at_mut(i).flow;
            flow.reweight(v, old, weight);
            let finish = flow.start(weight);
            self.at_mut(parent).clock.finished(finish);
        }
        self.at_mut(i).weight = weight;
        if self.at(i).ready {
            self.enter(i);
        }
        Ok(())
    }

    fn setrun(&mut self, leaf: NodeId) -> Result<()> {
        let i = self.find_leaf(leaf)?;
        self.activate(i);
        self.ready(leaf)
    }

    fn sleep(&mut self, leaf: NodeId) -> Result<()> {
        self.busy(leaf)?;
        let i = self.find_leaf(leaf)?;
        for n in self.path(i) {
            let still = n != i && self.children(n).any(|(_, c)| c.runnable);
            if still || !self.at(n).runnable {
                break;
            }
            self.at_mut(n).runnable = false;
            let parent = self.at(n).parent;
            if self.children(parent).all(|(_, c)| !c.runnable) {
                self.at_mut(parent).clock.idle();
            }
        }
        Ok(())
    }

    fn ready(&mut self, leaf: NodeId) -> Result<()> {
        let i = self.find_leaf(leaf)?;
        if !self.at(i).runnable {
            return Err(Error::ThreadState {
                is: "asleep",
                must: "runnable",
            });
        }
        if self.at(i).passed.is_some() {
            return Ok(());
        }
        for n in self.path(i) {
            if !self.at(n).ready {
                self.enter(n);
            }
        }
        Ok(())
    }

    fn busy(&mut self, leaf: NodeId) -> Result<()> {
        let i = self.find_leaf(leaf)?;
        for n in self.path(i) {
            self.at_mut(n).ready = n != i && self.children(n).any(|(_, c)| c.ready);
        }
        Ok(())
    }

    fn schedule(&mut self) -> Option<NodeId> {
        let mut n = ROOT;
        while !self.at(n).leaf {
            let ready = self.children(n).filter(|(_, c)| c.ready);
            let (next, _) = ready.min_by_key(|(_, c)| (c.flow.start(c.weight), c.entered))?;
            let start = self.start(next);
            self.at_mut(n).clock.serve(start);
            n = next;
        }
        Some(id(n))
    }

    fn update(&mut self, leaf: NodeId, length_ns: u64) -> Result<()> {
        for n in self.path(self.find_leaf(leaf)?) {
            let Node {
                parent,
                weight,
                flow,
                ..
            } = *self.at(n);
            let v = self.at(parent).clock.v;
            self.at_mut(n).flow = flow.served(length_ns, weight, v, self.tunables.lag_ns);
            let finish = self.start(n);
            self.at_mut(parent).clock.finished(finish);
            if self.at(n).ready {
                self.enter(n);
            }
        }
        Ok(())
    }

    fn share(&self, leaf: NodeId, period_ns: u64) -> Result<u64> {
        let mut share = u128::from(period_ns.min(LENGTH_MAX_NS));
        for n in self.path(self.find_leaf(leaf)?) {
            let Node { parent, weight, .. } = *self.at(n);
            let runnable = self.children(parent).filter(|(_, c)| c.runnable);
            let sum = runnable.map(|(_, c)| c.weight).sum::<u32>().max(weight);
            share = share * u128::from(weight) / u128::from(sum);
        }
        Ok(u64::try_from(share).expect("a share is not more than the whole"))
    }

    fn contended(&self, leaf: NodeId) -> Result<bool> {
        let i = self.find_leaf(leaf)?;
        let others = (0..self.nodes.len()).filter(|&n| n != i);
        Ok(others
            .filter_map(|n| self.nodes[n].as_ref())
            .any(|n| n.leaf && n.ready))
    }

    fn precedes(&self, waiting: NodeId, running: NodeId, ran_ns: u64) -> Result<bool> {
        let w = self.path(self.find_leaf(waiting)?);
        let r = self.path(self.find_leaf(running)?);
        // Siblings where the paths part.
        let parted = w.iter().rev().zip(r.iter().rev()).find(|(a, b)| a != b);
        Ok(parted.is_some_and(|(&a, &b)| {
            let b = self.at(b);
            let v = self.at(b.parent).clock.v;
            let served = b.flow.served(ran_ns, b.weight, v, self.tunables.lag_ns);
            self.start(a) < served.start(b.weight)
        }))
    }

    fn start_tag(&self, n: NodeId) -> Result<u64> {
        self.find(n).map(|n| self.start(n) as u64)
    }

    fn vtime(&self, n: NodeId) -> Result<u64> {
        self.find(n).map(|n| self.at(n).clock.v as u64)
    }

    fn set_policy(&mut self, leaf: NodeId, policy: Policy) -> Result<()> {
        let i = self.find_leaf(leaf)?;
        let node = self.at_mut(i);
        if node.policy != policy {
            // Every key to come lies behind every key handed out.
            node.clock.finished(node.last_place);
            node.clock.idle();
            node.last_place = node.clock.v;
            node.policy = policy;
            node.regime += 1;
        }
        Ok(())
    }

    fn spawn(&mut self, leaf: NodeId, weight: u32) -> Result<ThreadId> {
        check_weight(weight)?;
        let leaf = Some(self.find_leaf(leaf)?);
        self.members.push(Member {
            leaf,
            weight,
            runnable: false,
            waiting: false,
            regime: None,
            under: Policy::default(),
            flow: Flow::default(),
            place: 0,
            left_ns: 0,
        });
        Ok(ThreadId(self.members.len() - 1))
    }

    fn leave(&mut self, th: ThreadId) -> Result<()> {
        self.asleep(th)?;
        self.members[th.0].leaf = None;
        Ok(())
    }

    fn join(&mut self, th: ThreadId, leaf: NodeId) -> Result<()> {
        let i = self.find_leaf(leaf)?;
        if self.members[th.0].leaf.is_some() {
            return Err(Error::ThreadState {
                is: "in a leaf",
                must: "in none",
            });
        }
        self.members[th.0].leaf = Some(i);
        self.members[th.0].regime = None;
        Ok(())
    }

    fn arrive(&mut self, th: ThreadId) -> Result<()> {
        let (leaf, _) = self.asleep(th)?;
        self.members[th.0].runnable = true;
        self.request(th.0, leaf);
        self.activate(leaf);
        Ok(())
    }

    fn depart(&mut self, th: ThreadId) -> Result<()> {
        let (leaf, _) = self.in_service(th)?;
        self.members[th.0].runnable = false;
        if self.runnable_members(leaf).next().is_none() {
            self.at_mut(leaf).clock.idle();
            self.sleep(id(leaf))?;
        }
        Ok(())
    }

    fn wait(&mut self, th: ThreadId) -> Result<()> {
        let (leaf, _) = self.in_service(th)?;
        self.members[th.0].waiting = true;
        self.ready(id(leaf))
    }

    fn unwait(&mut self, th: ThreadId) -> Result<()> {
        let (leaf, member) = self.runnable(th)?;
        if !member.waiting {
            return Err(Error::ThreadState {
                is: "in service",
                must: "waiting",
            });
        }
        self.members[th.0].waiting = false;
        match self.waits(leaf) {
            true => Ok(()),
            false => self.busy(id(leaf)),
        }
    }

    fn pass(&mut self, leaf: NodeId, passed: Option<NodeId>) -> Result<Option<NodeId>> {
        let i = self.find_leaf(leaf)?;
        if let Some(first) = passed {
            self.find_passed(first)?;
        }
        if !self.at(i).ready {
            return Ok(passed);
        }
        self.busy(leaf)?;
        self.at_mut(i).passed = Some(passed);
        Ok(Some(leaf))
    }

    fn restore(&mut self, passed: NodeId) -> Result<Option<NodeId>> {
        let i = self.find_passed(passed)?;
        let rest = self.at_mut(i).passed.take().flatten();
        if self.waits(i) {
            self.ready(passed)?;
        }
        Ok(rest)
    }

    fn serve(&mut self, th: ThreadId) -> Result<()> {
        let (leaf, _) = self.in_service(th)?;
        let key = self.key(th);
        self.at_mut(leaf).clock.serve(key);
        Ok(())
    }

    fn charge(&mut self, th: ThreadId, length_ns: u64) -> Result<()> {
        let (leaf, member) = self.in_service(th)?;
        let (known, left_ns) = (self.knows(leaf, member), member.left_ns);
        self.update(id(leaf), length_ns)?;
        if !known {
            // Its key is of the previous policy: it starts anew, uncharged.
            self.request(th.0, leaf);
            return Ok(());
        }
        match self.at(leaf).policy {
            Policy::Sfq | Policy::Ts => {
                let flow = self.member_served(leaf, &self.members[th.0], length_ns);
                self.members[th.0].flow = flow;
            }
            Policy::Rr if length_ns >= left_ns => self.request(th.0, leaf),
            Policy::Rr => self.members[th.0].left_ns -= length_ns,
            Policy::Fifo => {}
        }
        let key = self.key(th);
        self.at_mut(leaf).clock.finished(key);
        Ok(())
    }

    fn set_thread_weight(&mut self, th: ThreadId, weight: u32) -> Result<()> {
        let (leaf, member) = self.member(th)?;
        let (known, v) = (self.knows(leaf, member), self.at(leaf).clock.v);
        check_weight(weight)?;
        let member = &mut self.members[th.0];
        if known && matches!(member.under, Policy::Ts | Policy::Sfq) {
            member.flow.reweight(v, member.weight, weight);
            let finish = member.flow.start(weight);
            self.at_mut(leaf).clock.finished(finish);
        } else {
            member.flow = Flow::at(member.flow.start(member.weight));
        }
        self.members[th.0].weight = weight;
        Ok(())
    }

    fn slice(&self, th: ThreadId) -> Result<u64> {
        let (leaf, member) = self.runnable(th)?;
        let sum: u64 = self
            .runnable_members(leaf)
            .map(|m| u64::from(m.weight))
            .sum();
        let most_ns = self.tunables.quantum_ns;
        let mine = u64::from(member.weight) * self.runnable_members(leaf).count() as u64;
        Ok(match self.at(leaf).policy {
            _ if !self.knows(leaf, member) => most_ns,
            Policy::Sfq | Policy::Ts => most_ns.min(most_ns * mine / sum),
            Policy::Rr => member.left_ns,
            Policy::Fifo => most_ns,
        })
    }

    fn quantum(&self, th: ThreadId) -> Result<u64> {
        let (leaf, _) = self.in_service(th)?;
        let mut length_ns = self.tunables.alone_ns;
        if self.waits(leaf) {
            length_ns = self.slice(th)?;
        }
        if self.contended(id(leaf))? {
            length_ns = length_ns.min(self.share(id(leaf), self.period_ns())?);
        }
        Ok(length_ns.max(self.tunables.least_ns))
    }

    fn quantum_left(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64) -> Result<u64> {
        let (leaf, _) = self.in_service(th)?;
        let (waits_in, _) = self.runnable(waiting)?;
        let precedes = match waits_in == leaf {
            true => self.key(waiting) < self.ahead(th, ran_ns)?,
            false => self.precedes(id(waits_in), id(leaf), ran_ns)?,
        };
        if precedes {
            Ok(self.tunables.peace_ns)
        } else {
            self.quantum(th)
        }
    }

    fn key(&self, th: ThreadId) -> i128 {
        let member = &self.members[th.0];
        match member.under {
            Policy::Sfq | Policy::Ts => member.flow.start(member.weight),
            Policy::Rr | Policy::Fifo => member.place,
        }
    }

    fn ahead(&self, th: ThreadId, length_ns: u64) -> Result<i128> {
        let (leaf, member) = self.runnable(th)?;
        Ok(match member.under {
            _ if !self.knows(leaf, member) => self.key(th),
            Policy::Sfq | Policy::Ts => self
                .member_served(leaf, member, length_ns)
                .start(member.weight),
            Policy::Rr if length_ns >= member.left_ns => self.at(leaf).last_place + 1,
            Policy::Rr | Policy::Fifo => member.place,
        })
    }

    fn before(a: i128, b: i128) -> bool {
        a < b
    }

    fn key_bits(key: i128) -> u64 {
        key as u64
    }
}
