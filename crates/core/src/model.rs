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
//! * among equal start tags the node that entered the ready set first is served, newcomers before others if so decided;
//! * F is rounded down to 1/1024 ns per unit of weight. The rounding is applied
//!   to all service since the tag was last set from v(t), so it is never off by
//!   a whole unit, however many quanta there were: F = base + ⌊1024·Σl / w⌋.

use crate::engine::{check_weight, Engine, ThreadId};
use crate::leaf::{tunables, Class, Reservation, Tunables};
use crate::{Error, Limit, NodeId, Policy, Result, DEPTH_MAX, LENGTH_MAX_NS, NODES_MAX, TAG_SHIFT};

mod budget;
mod mean;
mod sched;
mod several;
mod timed;
use budget::Budget;
use timed::Job;

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

    /// The flow after a quantum of `length_ns`, of which `planned_ns` is in its tag:
    /// its finish tag is the next start tag, but not before `least`.
    fn served(&self, length_ns: u64, planned_ns: u64, weight: u32, least: i128) -> Flow {
        let length_ns = i128::from(length_ns.min(LENGTH_MAX_NS));
        let served_ns = self.served_ns + length_ns - i128::from(planned_ns);
        let flow = Flow { served_ns, ..*self };
        if flow.start(weight) < least {
            Flow::at(least)
        } else {
            flow
        }
    }

    /// S = max{ v, F }
    fn request(&mut self, v: i128, weight: u32) {
        if self.start(weight) <= v {
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
    /// The least start tag that the last flow to arrive could have.
    arrival: i128,
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
    entered: (bool, u64),
    policy: Policy,
    /// Counts changes of the policy.
    regime: u64,
    /// Last place in a queue of turns handed out.
    last_place: i128,
    /// Keys of its scheduler count from here, and times from there.
    base: i128,
    since: i128,
    misses: u64,
    /// A server passed it over, after that other one.
    passed: Option<Option<NodeId>>,
    budget: Option<Budget>,
    /// Its weight is 3/10.
    idle: bool,
    /// Nothing of the budget is left.
    held: bool,
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
    /// Its key under the others.
    place: i128,
    left_ns: u64,
    /// Its key is so much before its start tag, until it is served.
    early: i128,
    /// When it was served or asked last in this regime, 0: not yet.
    last_ns: u64,
    /// Weight and start tag that count in its leaf's mean, and what it was behind that, asleep.
    counted: Option<(u32, i128)>,
    lag: i128,
    reservation: Option<Reservation>,
    class: Class,
    job: Job,
    /// Its path is charged for this much of the service it is receiving.
    planned_ns: u64,
}

/// The reference. See the [module](self).
pub struct Model {
    nodes: Vec<Option<Node>>,
    free: Vec<usize>,
    members: Vec<Member>,
    entries: u64,
    newcomers_first: bool,
    now_ns: u64,
    servers: u32,
    machine: Vec<sched::Server>,
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
            entered: (false, 0),
            policy: Policy::default(),
            regime: 0,
            last_place: 0,
            base: 0,
            since: 0,
            misses: 0,
            passed: None,
            budget: None,
            idle: false,
            held: false,
        };
        Model {
            nodes: vec![None, Some(root)],
            free: Vec::new(),
            members: Vec::new(),
            entries: 0,
            newcomers_first: false,
            now_ns: 0,
            servers: 1,
            machine: Vec::new(),
            tunables: tunables(),
        }
    }

    /// See [`crate::Tree::begin_at`].
    #[doc(hidden)]
    pub fn begin_at(&mut self, n: NodeId, vtime: u64) {
        let clock = &mut self.at_mut(n.number() as usize).clock;
        clock.v = i128::from(vtime);
        clock.greatest_finish = clock.v;
        clock.arrival = clock.v;
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
        let entered = (self.at(n).ready || !self.newcomers_first, self.entries);
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

    /// The ready child to be served next.
    fn next_below(&self, n: usize) -> Option<usize> {
        let ready = self.children(n).filter(|(_, c)| c.ready);
        let next = ready.min_by_key(|(_, c)| (c.flow.start(c.weight), c.entered))?;
        Some(next.0)
    }

    /// Whether a thread that wakes and comes first is served at once.
    fn prompt(&self, leaf: usize) -> bool {
        matches!(
            self.at(leaf).policy,
            Policy::Edf | Policy::Rm | Policy::Svr4
        )
    }

    fn waits(&self, leaf: usize) -> bool {
        self.members
            .iter()
            .any(|m| m.leaf == Some(leaf) && m.waiting)
    }

    /// Siblings where the paths of two nodes part.
    fn parted(&self, a: usize, b: usize) -> Option<(usize, usize)> {
        let (a, b) = (self.path(a), self.path(b));
        let mut pairs = a.iter().rev().zip(b.iter().rev());
        pairs.find(|(a, b)| a != b).map(|(&a, &b)| (a, b))
    }

    /// Whether `a` is before its sibling `b` once `b` is charged `ran_ns`, of which
    /// `planned_ns` is in its tag.
    fn comes_first(&self, a: usize, b: usize, ran_ns: u64, planned_ns: u64) -> bool {
        let (counts, planned) = (self.counts(b, ran_ns), self.counts(b, planned_ns));
        let (b, least) = (self.at(b), self.least(b));
        let served = b.flow.served(counts, planned, b.weight, least);
        self.start(a) < served.start(b.weight)
    }

    /// Charges a leaf's path for a quantum that has ended.
    fn settle(&mut self, leaf: usize, length_ns: u64, planned_ns: u64) {
        for n in self.path(leaf) {
            let Node {
                parent,
                weight,
                flow,
                ..
            } = *self.at(n);
            let counts = self.counts(n, length_ns);
            let planned = self.counts(n, planned_ns);
            let least = self.least(n);
            self.at_mut(n).flow = flow.served(counts, planned, weight, least);
            let finish = self.start(n);
            self.at_mut(parent).clock.finished(finish);
            if self.at(n).ready {
                self.enter(n);
            }
        }
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
            if self.at(n).held {
                break;
            }
            if !runnable {
                self.at_mut(n).runnable = true;
                let credit = self.credit(parent);
                let clock = &mut self.at_mut(parent).clock;
                clock.arrival = clock.v - credit;
                let least = clock.arrival;
                self.at_mut(n).flow.request(least, weight);
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
        let least = self.least_of_members(leaf, member.weight);
        member.flow.served(length_ns, 0, member.weight, least)
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
        self.at_mut(leaf).clock.arrival = clock.v;
        let member = &mut self.members[th];

        member.early = 0;
        member.regime = Some(regime);
        member.under = policy;
        match policy {
            Policy::Ts => self.request_shared(th, leaf, known),
            Policy::Sfq if !known => member.flow = Flow::at(clock.v),
            Policy::Sfq => member.flow.request(clock.v, member.weight),
            Policy::Fifo => self.queue_up(th, leaf),
            Policy::Rr => {
                member.left_ns = self.tunables.rr_quantum_ns;
                self.queue_up(th, leaf);
            }
            Policy::Edf | Policy::Rm | Policy::Svr4 => self.timed_request(th, leaf, known),
        }
    }
}

impl Engine for Model {
    type Key = i128;

    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn set_servers(&mut self, servers: u32) {
        self.servers = servers.max(1);
    }

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
            entered: (false, 0),
            policy: Policy::default(),
            regime: 0,
            last_place: 0,
            base: 0,
            since: 0,
            misses: 0,
            passed: None,
            budget: None,
            idle: false,
            held: false,
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

    fn another(&self) -> Model {
        Model::new()
    }

    fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()> {
        check_weight(weight)?;
        self.weigh(n, weight)
    }

    fn weigh(&mut self, n: NodeId, weight: u32) -> Result<()> {
        let i = self.find(n)?;
        if !(1..=crate::ledger::SHARE_MAX).contains(&weight) {
            return Err(Error::Weight(weight));
        }
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

    fn set_idle(&mut self, n: NodeId, idle: bool, weight: u32) -> Result<()> {
        if n == NodeId::ROOT {
            return Err(Error::RootLimit(n));
        }
        self.set_weight(n, if idle { 3 } else { weight })?;
        let i = self.find(n)?;
        self.at_mut(i).idle = idle;
        Ok(())
    }

    fn set_limit(&mut self, n: NodeId, limit: Option<Limit>) -> Result<()> {
        self.limit_node(n, limit)
    }

    fn release(&mut self) -> Option<u64> {
        self.release_nodes()
    }

    fn held(&self, n: NodeId) -> Result<bool> {
        self.find(n).map(|n| self.is_held(n))
    }

    fn setrun(&mut self, leaf: NodeId) -> Result<()> {
        let i = self.find_leaf(leaf)?;
        self.activate(i);
        self.ready(leaf)
    }

    fn sleep(&mut self, leaf: NodeId) -> Result<()> {
        self.busy(leaf)?;
        let i = self.find_leaf(leaf)?;
        self.retire_path(i);
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
        self.show(i);
        Ok(())
    }

    fn busy(&mut self, leaf: NodeId) -> Result<()> {
        let i = self.find_leaf(leaf)?;
        for n in self.path(i) {
            let below = n != i && self.children(n).any(|(_, c)| c.ready);
            self.at_mut(n).ready = below && !self.at(n).held;
        }
        Ok(())
    }

    fn schedule(&mut self) -> Option<NodeId> {
        self.choose(!self.passing())
    }

    fn schedule_but(&mut self) -> Option<NodeId> {
        self.choose(true)
    }

    fn update(&mut self, leaf: NodeId, length_ns: u64) -> Result<()> {
        self.settle(self.find_leaf(leaf)?, length_ns, 0);
        Ok(())
    }

    fn share(&self, leaf: NodeId, period_ns: u64) -> Result<u64> {
        Ok(self.share_of(self.find_leaf(leaf)?, period_ns))
    }

    fn contended(&self, leaf: NodeId) -> Result<bool> {
        let i = self.find_leaf(leaf)?;
        let own = self.path(i);
        let others = (0..self.nodes.len()).filter(|&n| n != i && self.nodes[n].is_some());
        // One below a node that is held waits only for those below it.
        let waits = |n: usize| {
            let visible = |m: &usize| own.contains(m) || !self.at(*m).held;
            self.at(n).leaf && self.at(n).ready && self.path(n).iter().all(visible)
        };
        Ok(self.passing() || others.into_iter().any(waits))
    }

    fn precedes(&self, waiting: NodeId, running: NodeId, ran_ns: u64) -> Result<bool> {
        let (w, r) = (self.find_leaf(waiting)?, self.find_leaf(running)?);
        Ok(self
            .parted(w, r)
            .is_some_and(|(a, b)| self.comes_first(a, b, ran_ns, 0)))
    }

    fn start_tag(&self, n: NodeId) -> Result<u64> {
        self.find(n).map(|n| self.start(n) as u64)
    }

    fn vtime(&self, n: NodeId) -> Result<u64> {
        self.find(n).map(|n| self.at(n).clock.v as u64)
    }

    fn set_policy(&mut self, leaf: NodeId, policy: Policy) -> Result<()> {
        let i = self.find_leaf(leaf)?;
        let now = i128::from(self.now_ns);
        let node = self.at_mut(i);
        if node.policy != policy {
            // Every key to come lies behind every key handed out.
            node.clock.finished(node.last_place);
            node.clock.idle();
            node.last_place = node.clock.v;
            node.base = node.last_place + 1;
            node.since = now;
            node.policy = policy;
            node.regime += 1;
            let members = self.members.iter_mut();
            members
                .filter(|m| m.leaf == Some(i))
                .for_each(|m| m.counted = None);
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
            early: 0,
            last_ns: 0,
            counted: None,
            lag: 0,
            reservation: None,
            class: Class::Ts,
            job: Job::default(),
            planned_ns: 0,
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
        self.keep_lag(th.0, leaf);
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
        self.show(leaf);
        Ok(())
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

    fn take(&mut self, th: ThreadId) -> Result<()> {
        let (leaf, _) = self.runnable(th)?;
        let ready: Vec<_> = self.path(leaf).iter().map(|&n| self.at(n).ready).collect();
        self.unwait(th)?;
        if self.servers == 1 {
            for (n, ready) in self.path(leaf).into_iter().zip(ready) {
                self.at_mut(n).ready = ready;
            }
        }
        Ok(())
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
            self.show(i);
        }
        Ok(rest)
    }

    fn serve(&mut self, th: ThreadId, planned_ns: u64) -> Result<()> {
        let (leaf, _) = self.in_service(th)?;
        let (start, planned_ns) = (self.start_tag(th), planned_ns.min(LENGTH_MAX_NS));
        self.at_mut(leaf).clock.serve(start);
        if self.servers == 1 {
            return Ok(());
        }
        self.members[th.0].planned_ns = planned_ns;
        for n in self.path(leaf) {
            let planned = i128::from(self.counts(n, planned_ns));
            self.at_mut(n).flow.served_ns += planned;
            if self.at(n).ready {
                self.enter(n);
            }
        }
        Ok(())
    }

    fn charge(&mut self, th: ThreadId, length_ns: u64) -> Result<()> {
        let (leaf, member) = self.in_service(th)?;
        let (known, left_ns) = (self.knows(leaf, member), member.left_ns);
        let planned_ns = std::mem::take(&mut self.members[th.0].planned_ns);
        self.members[th.0].early = 0;
        self.settle(leaf, length_ns, planned_ns);
        self.charge_budgets(leaf, length_ns);
        if !known {
            // Its key is of the previous policy: it starts anew, uncharged.
            self.request(th.0, leaf);
            return Ok(());
        }
        match self.at(leaf).policy {
            Policy::Sfq | Policy::Ts => {
                let flow = self.member_served(leaf, &self.members[th.0], length_ns);
                let member = &mut self.members[th.0];
                (member.flow, member.last_ns) = (flow, self.now_ns);
                member.left_ns = left_ns.saturating_sub(length_ns);
                self.recount(th.0, leaf);
            }
            Policy::Rr if length_ns >= left_ns => self.request(th.0, leaf),
            Policy::Rr => self.members[th.0].left_ns -= length_ns,
            Policy::Fifo => {}
            Policy::Edf | Policy::Rm | Policy::Svr4 => self.timed_charge(th.0, leaf, length_ns),
        }
        let start = self.start_tag(th);
        self.at_mut(leaf).clock.finished(start);
        Ok(())
    }

    fn set_thread_weight(&mut self, th: ThreadId, weight: u32) -> Result<()> {
        let (leaf, member) = self.member(th)?;
        let (known, v) = (self.knows(leaf, member), self.at(leaf).clock.v);
        check_weight(weight)?;
        let member = &mut self.members[th.0];
        match member.under {
            Policy::Ts if known => self.weigh_shared(th.0, leaf, weight),
            Policy::Sfq if known => {
                member.flow.reweight(v, member.weight, weight);
                let finish = member.flow.start(weight);
                self.at_mut(leaf).clock.finished(finish);
            }
            _ => member.flow = Flow::at(member.flow.start(member.weight)),
        }
        self.members[th.0].weight = weight;
        self.recount(th.0, leaf);
        Ok(())
    }

    fn reserve(&mut self, th: ThreadId, r: Option<Reservation>) -> Result<()> {
        Reservation::check(r)?;
        let member = &mut self.members[th.0];
        member.reservation = r;
        member.regime = None;
        Ok(())
    }

    fn set_class(&mut self, th: ThreadId, class: Class) -> Result<()> {
        class.check()?;
        let member = &mut self.members[th.0];
        member.class = class;
        member.regime = None;
        Ok(())
    }

    fn rekey(&mut self, th: ThreadId) -> Result<()> {
        let (leaf, member) = self.runnable(th)?;
        if !self.knows(leaf, member) {
            self.request(th.0, leaf);
        }
        Ok(())
    }

    fn misses(&self, th: ThreadId) -> u64 {
        self.members[th.0].job.misses
    }

    fn slice(&self, th: ThreadId) -> Result<u64> {
        let (leaf, member) = self.runnable(th)?;
        let sum: u64 = self
            .runnable_members(leaf)
            .map(|m| u64::from(m.weight))
            .sum();
        let turn_ns = self.turn_ns(self.runnable_members(leaf).count());
        let mine = u64::from(member.weight) * self.runnable_members(leaf).count() as u64;
        Ok(match self.at(leaf).policy {
            _ if !self.knows(leaf, member) => self.tunables.quantum_ns,
            Policy::Sfq | Policy::Ts => turn_ns.min(turn_ns * mine / sum),
            Policy::Fifo => self.tunables.quantum_ns,
            _ => member.left_ns,
        })
    }

    fn quantum(&self, th: ThreadId) -> Result<u64> {
        Model::quantum(self, th)
    }

    fn quantum_left(&self, w: ThreadId, th: ThreadId, ran_ns: u64, eager: bool) -> Result<u64> {
        Model::quantum_left(self, w, th, ran_ns, eager)
    }

    fn eager(&self, calm_ns: u64) -> bool {
        self.is_calm_by(calm_ns)
    }

    fn calm(&self, calm_ns: u64) -> u64 {
        calm_ns.max(self.now_ns) + self.tunables.calm_ns
    }

    fn overtakes(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64) -> Result<bool> {
        let (leaf, member) = self.in_service(th)?;
        let (waits_in, _) = self.runnable(waiting)?;
        if waits_in == leaf {
            return Ok(self.key(waiting) < self.ahead(th, ran_ns)?);
        }
        let parted = self.parted(waits_in, leaf);
        Ok(parted.is_some_and(|(a, b)| self.comes_first(a, b, ran_ns, member.planned_ns)))
    }

    fn ends(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64, eager: bool) -> Result<bool> {
        Model::ends(self, waiting, th, ran_ns, eager)
    }

    fn near(&self, leaf: NodeId) -> Result<u64> {
        Model::near(self, leaf)
    }

    fn outranks(
        &self,
        th: ThreadId,
        chosen: NodeId,
        running: ThreadId,
        ran_ns: u64,
    ) -> Result<bool> {
        Model::outranks(self, th, chosen, running, ran_ns)
    }

    fn goes_on(&self, th: ThreadId, chosen: NodeId) -> Result<bool> {
        Model::goes_on(self, th, chosen)
    }

    fn key(&self, th: ThreadId) -> i128 {
        self.start_tag(th) - self.members[th.0].early
    }

    fn ahead(&self, th: ThreadId, length_ns: u64) -> Result<i128> {
        let (leaf, member) = self.runnable(th)?;
        Ok(match member.under {
            _ if !self.knows(leaf, member) => self.start_tag(th),
            Policy::Sfq | Policy::Ts => self
                .member_served(leaf, member, length_ns)
                .start(member.weight),
            Policy::Rr if length_ns >= member.left_ns => self.at(leaf).last_place + 1,
            Policy::Rr | Policy::Fifo => member.place,
            _ => self.timed_ahead(leaf, member, length_ns),
        })
    }

    fn before(a: i128, b: i128) -> bool {
        a < b
    }

    fn key_bits(key: i128) -> u64 {
        key as u64
    }
}
