// SPDX-License-Identifier: MIT OR Apache-2.0
//! Safe bindings to core/tree/hsfq.h and core/cpu/leaf.h.

use crate::engine::check_weight;
use crate::ffi::{self, RawThread, RawTree};
use crate::{Class, Error, Policy, Reservation, Result, LENGTH_MAX_NS};
use std::alloc::{alloc_zeroed, handle_alloc_error, Layout};
use std::fmt;
use std::num::NonZeroU32;

/// Names a node of one tree. Numbers of removed nodes are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(NonZeroU32);

impl NodeId {
    /// The root, which always exists and is an inner node.
    pub const ROOT: NodeId = NodeId(NonZeroU32::MIN);

    /// The node with this number; 0 is no node.
    pub fn from_number(number: u32) -> Option<NodeId> {
        NonZeroU32::new(number).map(NodeId)
    }

    /// Its number, as the kernel interface shows it.
    pub fn number(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a node looks like at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Start tag among its siblings, in 1/1024 ns per unit of weight, modulo 2^64.
    pub start_tag: u64,
    /// v(t) of its children or threads, in the same unit.
    pub vtime: u64,
    /// 1 … 10000
    pub weight: u32,
    /// Below which node; the root is its own parent here.
    pub parent: NodeId,
    /// Distance from the root.
    pub depth: u32,
    /// It holds threads rather than nodes.
    pub leaf: bool,
    /// A thread below it is runnable.
    pub runnable: bool,
    /// A thread below it waits, so it may be chosen.
    pub ready: bool,
    /// Children of an inner node.
    pub children: u32,
    /// Runnable children of an inner node, runnable threads of a leaf.
    pub runnable_children: u32,
    /// Sum of the weights of what is runnable.
    pub weights: u32,
    /// Threads of a leaf, runnable or not.
    pub threads: u32,
    /// Threads of a leaf that are runnable and not in service.
    pub waiting: u32,
    /// A leaf's scheduler.
    pub policy: Policy,
    /// Service received since creation.
    pub served_ns: u64,
}

/// So much service in every period, and no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Added at the beginning of every period; more than 0.
    pub quota_ns: u64,
    /// Period k begins at k times this.
    pub period_ns: u64,
    /// What may be kept of earlier quotas, besides one.
    pub burst_ns: u64,
}

/// A thread as its leaf's policy sees it.
#[derive(Clone, Debug)]
pub struct Thread {
    pub(crate) raw: RawThread,
    leaf: Option<NodeId>,
    pub(crate) runnable: bool,
    pub(crate) waiting: bool,
}

impl Thread {
    /// A thread of this weight (1 … 10000) that belongs to no leaf yet.
    pub fn new(weight: u32) -> Result<Thread> {
        check_weight(weight)?;
        let raw = RawThread {
            weight,
            ..RawThread::default()
        };
        Ok(Thread {
            raw,
            leaf: None,
            runnable: false,
            waiting: false,
        })
    }

    /// The leaf it is a member of.
    pub fn leaf(&self) -> Option<NodeId> {
        self.leaf
    }

    /// Whether it is runnable, waiting or in service.
    pub fn is_runnable(&self) -> bool {
        self.runnable
    }

    /// Its place in its leaf: the thread with the least key is served next.
    /// Keys compare by the sign of their difference, see [`Tree::before`].
    pub fn key(&self) -> u64 {
        self.raw.flow.start.wrapping_sub(self.raw.early)
    }

    /// 1 … 10000
    pub fn weight(&self) -> u32 {
        self.raw.weight
    }

    /// Gives it a reservation, or takes it away. It has a new key when it is served or wakes.
    pub fn reserve(&mut self, r: Option<Reservation>) -> Result<()> {
        let (c, t, d) = r.map_or((0, 0, 0), |r| (r.cost_ns, r.period_ns, r.deadline_ns));
        Reservation::check(r.filter(|r| r.cost_ns == 0))?;
        // SAFETY: the thread is apart from the tree.
        match unsafe { ffi::qcore_leaf_reserve(&mut self.raw, c, t, d) } {
            0 => Ok(()),
            _ => Err(Error::Reservation),
        }
    }

    /// Gives it a scheduling class within svr4. It has a new key when it is served or wakes.
    pub fn set_class(&mut self, class: Class) -> Result<()> {
        let (number, priority) = class.numbers();
        // SAFETY: the thread is apart from the tree.
        match unsafe { ffi::qcore_leaf_set_class(&mut self.raw, number, priority) } {
            0 => Ok(()),
            _ => Err(Error::Priority(priority)),
        }
    }

    /// Its deadlines that passed unmet, under edf and rm.
    pub fn misses(&self) -> u64 {
        self.raw.misses
    }
}

/// The H-SFQ tree of core/tree/hsfq.h.
///
/// The four operations of OSDI'96 section 4 are [`setrun`](Tree::setrun),
/// [`sleep`](Tree::sleep), [`schedule`](Tree::schedule) and [`update`](Tree::update).
pub struct Tree {
    raw: Box<RawTree>,
    pub(crate) now_ns: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Tree::new()
    }
}

impl Tree {
    /// A tree with a root and nothing else.
    pub fn new() -> Tree {
        debug_assert!(ffi::layout_agrees());
        let layout = Layout::new::<RawTree>();
        // SAFETY: the layout is not empty, zero is a valid RawTree (integers
        // only), and the Box frees with the same layout. Going through a Box
        // made on the stack would not do: the structure takes 2 MB.
        let raw = unsafe {
            let memory = alloc_zeroed(layout).cast::<RawTree>();
            if memory.is_null() {
                handle_alloc_error(layout);
            }
            ffi::qcore_init(memory);
            Box::from_raw(memory)
        };
        Tree { raw, now_ns: 0 }
    }

    fn check(&self, n: NodeId) -> Result<&ffi::Node> {
        match self.raw.node.get(n.number() as usize) {
            Some(node) if node.flags & ffi::USED != 0 => Ok(node),
            _ => Err(Error::NoSuchNode(n)),
        }
    }

    pub(crate) fn check_leaf(&self, n: NodeId) -> Result<&ffi::Node> {
        let node = self.check(n)?;
        if node.flags & ffi::LEAF == 0 {
            return Err(Error::NotLeaf(n));
        }
        Ok(node)
    }

    fn mknod(&mut self, parent: NodeId, weight: u32, flags: u32) -> Result<NodeId> {
        // SAFETY: C checks its arguments; the tree is well formed.
        let n = unsafe { ffi::qcore_mknod(&mut *self.raw, parent.number(), weight, flags) };
        match u32::try_from(n).ok().and_then(NodeId::from_number) {
            Some(id) => Ok(id),
            None => Err(Error::from_c(n, parent, weight)),
        }
    }

    /// Creates a leaf below an inner node. Weight 1 … 10000.
    pub fn mknod_leaf(&mut self, parent: NodeId, weight: u32) -> Result<NodeId> {
        self.mknod(parent, weight, ffi::LEAF)
    }

    /// Creates an inner node below an inner node. Weight 1 … 10000.
    pub fn mknod_inner(&mut self, parent: NodeId, weight: u32) -> Result<NodeId> {
        self.mknod(parent, weight, 0)
    }

    /// Removes a node without children and threads. Never the root.
    pub fn rmnod(&mut self, n: NodeId) -> Result<()> {
        // SAFETY: C checks its arguments.
        match unsafe { ffi::qcore_rmnod(&mut *self.raw, n.number()) } {
            0 => Ok(()),
            code => Err(Error::from_c(code, n, 0)),
        }
    }

    /// Gives a node another weight (1 … 10000), at once.
    pub fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()> {
        // SAFETY: C checks its arguments.
        match unsafe { ffi::qcore_set_weight(&mut *self.raw, n.number(), weight) } {
            0 => Ok(()),
            code => Err(Error::from_c(code, n, weight)),
        }
    }

    /// Gives a node a weight that is not a user's, 1 to [`crate::ledger::SHARE_MAX`].
    pub fn weigh(&mut self, n: NodeId, weight: u32) -> Result<()> {
        self.node(n)?;
        if !(1..=crate::ledger::SHARE_MAX).contains(&weight) {
            return Err(Error::Weight(weight));
        }
        // SAFETY: the node exists, and the weight is in range.
        unsafe { ffi::qcore_weigh(&mut *self.raw, n.number(), weight) };
        Ok(())
    }

    /// `hsfq_setrun`: the leaf's first thread became runnable and waits.
    pub fn setrun(&mut self, leaf: NodeId) -> Result<()> {
        self.check_leaf(leaf)?;
        // SAFETY: the node exists and is a leaf.
        unsafe { ffi::qcore_setrun(&mut *self.raw, leaf.number()) };
        Ok(())
    }

    /// `hsfq_sleep`: the leaf's last runnable thread blocked and has been charged.
    pub fn sleep(&mut self, leaf: NodeId) -> Result<()> {
        self.check_leaf(leaf)?;
        // SAFETY: the node exists and is a leaf.
        unsafe { ffi::qcore_sleep(&mut *self.raw, leaf.number()) };
        Ok(())
    }

    /// `hsfq_ready`: a thread of the runnable leaf waits, the leaf may be chosen.
    pub fn ready(&mut self, leaf: NodeId) -> Result<()> {
        if self.check_leaf(leaf)?.flags & ffi::RUNNABLE == 0 {
            return Err(Error::ThreadState {
                is: "asleep",
                must: "runnable",
            });
        }
        // SAFETY: the node exists, is a leaf and is runnable.
        unsafe { ffi::qcore_ready(&mut *self.raw, leaf.number()) };
        Ok(())
    }

    /// `hsfq_busy`: all the leaf's runnable threads are in service.
    pub fn busy(&mut self, leaf: NodeId) -> Result<()> {
        self.check_leaf(leaf)?;
        // SAFETY: the node exists and is a leaf.
        unsafe { ffi::qcore_busy(&mut *self.raw, leaf.number()) };
        Ok(())
    }

    /// `hsfq_schedule`: takes the leaf with the least start tags into service.
    pub fn schedule(&mut self) -> Option<NodeId> {
        // SAFETY: the tree is well formed.
        NodeId::from_number(unsafe { ffi::qcore_schedule(&mut *self.raw) })
    }

    /// `hsfq_schedule_but`: likewise in place of leaves that were passed over because this server
    /// may serve none of their threads.
    pub fn schedule_but(&mut self) -> Option<NodeId> {
        // SAFETY: the tree is well formed.
        NodeId::from_number(unsafe { ffi::qcore_schedule_but(&mut *self.raw) })
    }

    /// `hsfq_update`: charges the leaf and its ancestors for service that ended.
    pub fn update(&mut self, leaf: NodeId, length_ns: u64) -> Result<()> {
        self.check_leaf(leaf)?;
        // SAFETY: the node exists and is a leaf.
        unsafe { ffi::qcore_update(&mut *self.raw, leaf.number(), length_ns) };
        Ok(())
    }

    /// The part of `period_ns` (at most [`LENGTH_MAX_NS`]) that is the leaf's now.
    pub fn share(&self, leaf: NodeId, period_ns: u64) -> Result<u64> {
        self.check_leaf(leaf)?;
        let period_ns = period_ns.min(LENGTH_MAX_NS);
        // SAFETY: the node exists.
        Ok(unsafe { ffi::qcore_share(&*self.raw, leaf.number(), period_ns) })
    }

    /// Whether `waiting` would be chosen before `running` once that is charged `ran_ns`.
    pub fn precedes(&self, waiting: NodeId, running: NodeId, ran_ns: u64) -> Result<bool> {
        self.check_leaf(waiting)?;
        self.check_leaf(running)?;
        let (w, r) = (waiting.number(), running.number());
        // SAFETY: both nodes exist.
        Ok(unsafe { ffi::qcore_precedes(&*self.raw, w, r, ran_ns) })
    }

    /// `hsfq_contended`: whether a thread of any other leaf waits.
    pub fn contended(&self, leaf: NodeId) -> Result<bool> {
        self.check_leaf(leaf)?;
        // SAFETY: the node exists.
        Ok(unsafe { ffi::qcore_contended(&*self.raw, leaf.number()) })
    }

    /// `hsfq_retire`: removes the node as soon as nothing is left in it.
    pub fn retire(&mut self, n: NodeId) -> Result<()> {
        self.check(n)?;
        // SAFETY: the node exists.
        unsafe { ffi::qcore_retire(&mut *self.raw, n.number()) };
        Ok(())
    }

    /// `limit_set`: gives the node a full budget, or takes it away.
    pub fn set_limit(&mut self, n: NodeId, limit: Option<Limit>) -> Result<()> {
        let l = limit.unwrap_or_default();
        // SAFETY: C checks its arguments.
        let code = unsafe {
            ffi::qcore_limit_set(
                &mut *self.raw,
                n.number(),
                l.quota_ns,
                l.period_ns,
                l.burst_ns,
                self.now_ns,
            )
        };
        match code {
            0 => Ok(()),
            -22 => Err(Error::RootLimit(n)),
            -34 => Err(Error::Budget),
            code => Err(Error::from_c(code, n, 0)),
        }
    }

    /// `idle_set`: the node gets what its siblings leave, or has that weight again.
    pub fn set_idle(&mut self, n: NodeId, idle: bool, weight: u32) -> Result<()> {
        // SAFETY: C checks its arguments.
        match unsafe { ffi::qcore_idle_set(&mut *self.raw, n.number(), idle, weight) } {
            0 => Ok(()),
            -22 => Err(Error::RootLimit(n)),
            code => Err(Error::from_c(code, n, weight)),
        }
    }

    /// `limit_release`: nodes that were held and whose budgets have been refilled by now return.
    /// Returns when that may next be, `None`: no node is held.
    pub fn release(&mut self) -> Option<u64> {
        if self.raw.held == 0 {
            return None;
        }
        self.raw.release_ns = u64::MAX;
        for n in 1..self.raw.unused {
            // SAFETY: the node exists or has no flags.
            unsafe { ffi::qcore_limit_release(&mut *self.raw, n, self.now_ns) };
        }
        (self.raw.held > 0).then_some(self.raw.release_ns)
    }

    /// `limit_held`: whether the node, or one above it, has used up its budget.
    pub fn held(&self, n: NodeId) -> Result<bool> {
        self.check(n)?;
        // SAFETY: the node exists.
        Ok(unsafe { ffi::qcore_limit_held(&*self.raw, n.number()) })
    }

    /// How a node stands now.
    pub fn node(&self, n: NodeId) -> Result<NodeState> {
        self.check(n)?;
        let mut node = ffi::Node::default();
        // SAFETY: the node exists.
        unsafe { ffi::qcore_node(&*self.raw, n.number(), &mut node) };
        Ok(NodeState {
            start_tag: node.flow.start,
            vtime: node.clock.vtime,
            weight: node.weight,
            parent: NodeId::from_number(node.parent).unwrap_or(NodeId::ROOT),
            depth: node.depth,
            leaf: node.flags & ffi::LEAF != 0,
            runnable: node.flags & ffi::RUNNABLE != 0,
            ready: node.flags & ffi::READY != 0,
            children: node.children,
            runnable_children: node.runnable,
            weights: node.weights,
            threads: node.threads,
            waiting: node.waiting,
            policy: Policy::from_number(node.policy).unwrap_or_default(),
            served_ns: node.served_ns,
        })
    }

    /// Lets time pass: what happens from now on happens at `now_ns`. It never goes back.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Nodes in use, the root included.
    pub fn nodes(&self) -> u32 {
        self.raw.nodes
    }

    /// Whether tag or key `a` lies before `b`: the sign of their difference modulo 2^64.
    pub fn before(a: u64, b: u64) -> bool {
        (a.wrapping_sub(b) as i64) < 0
    }

    /// Starts the virtual time of a node nothing was ever created in. For tests of the wrap.
    #[doc(hidden)]
    pub fn begin_at(&mut self, n: NodeId, vtime: u64) -> Result<()> {
        let node = self.check(n)?;
        if node.children + node.threads > 0 {
            return Err(Error::Busy(n));
        }
        let clock = &mut self.raw.node[n.number() as usize].clock;
        clock.vtime = vtime;
        clock.max_finish = vtime;
        clock.arrival = vtime;
        Ok(())
    }

    /// The structures as C sees them, for checks of their invariants.
    #[doc(hidden)]
    pub fn raw(&self) -> &RawTree {
        &self.raw
    }

    /// For benchmarks that call C without the checks above.
    #[doc(hidden)]
    pub fn raw_mut_ptr(&mut self) -> *mut RawTree {
        &mut *self.raw
    }
}

/// Threads of a leaf. A thread is asleep, waits, or is in service:
///
/// ```text
///   join -> asleep -- arrive --> runnable -- wait --> waiting
///              ^                 | in service <- unwait, serve
///              +---- depart -----+ charge when service ends
/// ```
impl Tree {
    fn member(&self, th: &Thread) -> Result<u32> {
        let Some(leaf) = th.leaf else {
            return Err(Error::ThreadState {
                is: "in no leaf",
                must: "a member of one",
            });
        };
        self.check_leaf(leaf)?;
        Ok(leaf.number())
    }

    pub(crate) fn asleep(&self, th: &Thread) -> Result<u32> {
        match th.runnable {
            true => Err(Error::ThreadState {
                is: "runnable",
                must: "asleep",
            }),
            false => self.member(th),
        }
    }

    pub(crate) fn runnable(&self, th: &Thread) -> Result<u32> {
        match th.runnable {
            true => self.member(th),
            false => Err(Error::ThreadState {
                is: "asleep",
                must: "runnable",
            }),
        }
    }

    pub(crate) fn in_service(&self, th: &Thread) -> Result<u32> {
        match th.waiting {
            true => Err(Error::ThreadState {
                is: "waiting",
                must: "in service",
            }),
            false => self.runnable(th),
        }
    }

    /// Makes the thread, which sleeps, a member of the leaf.
    pub fn join(&mut self, leaf: NodeId, th: &mut Thread) -> Result<()> {
        self.check_leaf(leaf)?;
        if th.leaf.is_some() {
            return Err(Error::ThreadState {
                is: "in a leaf",
                must: "in none",
            });
        }
        // SAFETY: here and below the leaf exists and the thread is apart from the tree.
        unsafe { ffi::qcore_leaf_join(&mut *self.raw, leaf.number(), &mut th.raw) };
        th.leaf = Some(leaf);
        Ok(())
    }

    /// Takes the thread, which sleeps, out of its leaf.
    pub fn leave(&mut self, th: &mut Thread) -> Result<()> {
        let leaf = self.asleep(th)?;
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_leave(&mut *self.raw, leaf) };
        th.leaf = None;
        Ok(())
    }

    /// The thread becomes runnable and gets its key.
    pub fn arrive(&mut self, th: &mut Thread) -> Result<()> {
        let leaf = self.asleep(th)?;
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_arrive(&mut *self.raw, leaf, &mut th.raw, self.now_ns) };
        th.runnable = true;
        Ok(())
    }

    /// The thread, charged and not waiting, blocks.
    pub fn depart(&mut self, th: &mut Thread) -> Result<()> {
        let leaf = self.in_service(th)?;
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_depart(&mut *self.raw, leaf, &mut th.raw) };
        th.runnable = false;
        Ok(())
    }

    /// The runnable thread starts to wait for service.
    pub fn wait(&mut self, th: &mut Thread) -> Result<()> {
        let leaf = self.in_service(th)?;
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_wait(&mut *self.raw, leaf) };
        th.waiting = true;
        Ok(())
    }

    /// The thread no longer waits.
    pub fn unwait(&mut self, th: &mut Thread) -> Result<()> {
        let leaf = self.waiting(th)?;
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_unwait(&mut *self.raw, leaf) };
        th.waiting = false;
        Ok(())
    }

    /// `leaf_take`: the same, because it is taken into service next. A single server must charge
    /// it, and have it wait again or depart, before it asks for another leaf.
    pub fn take(&mut self, th: &mut Thread) -> Result<()> {
        let leaf = self.waiting(th)?;
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_take(&mut *self.raw, leaf) };
        th.waiting = false;
        Ok(())
    }

    fn waiting(&self, th: &Thread) -> Result<u32> {
        let leaf = self.runnable(th)?;
        match th.waiting {
            true => Ok(leaf),
            false => Err(Error::ThreadState {
                is: "in service",
                must: "waiting",
            }),
        }
    }

    /// `leaf_pass`: a server that may serve no thread of the leaf takes it out of
    /// sight, in front of those it has `passed` over already. Returns the first
    /// of that list now; a leaf that does not wait to be chosen stays off it.
    pub fn pass(&mut self, leaf: NodeId, passed: Option<NodeId>) -> Result<Option<NodeId>> {
        self.check_leaf(leaf)?;
        if let Some(first) = passed {
            self.check_passed(first)?;
        }
        let passed = passed.map_or(0, NodeId::number);
        // SAFETY: the leaf exists, and so does the list.
        let first = unsafe { ffi::qcore_leaf_pass(&mut *self.raw, leaf.number(), passed) };
        Ok(NodeId::from_number(first))
    }

    /// `leaf_restore`: the first leaf of a list may be chosen again. Returns the rest.
    pub fn restore(&mut self, passed: NodeId) -> Result<Option<NodeId>> {
        self.check_passed(passed)?;
        // SAFETY: the leaf exists and is on a list.
        let rest = unsafe { ffi::qcore_leaf_restore(&mut *self.raw, passed.number()) };
        Ok(NodeId::from_number(rest))
    }

    fn check_passed(&self, n: NodeId) -> Result<()> {
        match self.check_leaf(n)?.flags & ffi::PASSED {
            0 => Err(Error::NotPassed(n)),
            _ => Ok(()),
        }
    }

    /// How many servers there are (at least 1).
    pub fn set_servers(&mut self, servers: u32) {
        self.raw.servers = servers.max(1);
    }

    /// The thread is taken into service. With several servers its path is charged
    /// `planned_ns` in advance.
    pub fn serve(&mut self, th: &mut Thread, planned_ns: u64) -> Result<()> {
        let leaf = self.in_service(th)?;
        let planned_ns = planned_ns.min(LENGTH_MAX_NS);
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_serve(&mut *self.raw, leaf, &mut th.raw, planned_ns) };
        Ok(())
    }

    /// `leaf_outranks`: whether `th`, whose server has chosen another leaf, goes on
    /// in place of `running`, in service elsewhere for `ran_ns` that are not charged.
    pub fn outranks(
        &self,
        th: &Thread,
        chosen: NodeId,
        running: &Thread,
        ran_ns: u64,
    ) -> Result<bool> {
        self.check_leaf(chosen)?;
        let (leaf, runs_in) = (self.runnable(th)?, self.in_service(running)?);
        // SAFETY: as in join, and the two threads are only read.
        Ok(unsafe {
            ffi::qcore_leaf_outranks(
                &*self.raw,
                leaf,
                &th.raw,
                chosen.number(),
                runs_in,
                &running.raw,
                ran_ns,
                self.now_ns,
            )
        })
    }

    /// `quantum_goes_on`: whether `th`, waiting since its quantum was over and the first of its
    /// leaf, goes on although its server has chosen another leaf.
    pub fn goes_on(&self, th: &Thread, chosen: NodeId) -> Result<bool> {
        self.check_leaf(chosen)?;
        let leaf = self.runnable(th)?;
        // SAFETY: as in join.
        Ok(unsafe { ffi::qcore_quantum_goes_on(&*self.raw, leaf, chosen.number()) })
    }

    /// The thread was served for this long: charges it, its leaf and their ancestors.
    pub fn charge(&mut self, th: &mut Thread, length_ns: u64) -> Result<()> {
        let leaf = self.in_service(th)?;
        // SAFETY: as in join.
        unsafe {
            ffi::qcore_leaf_charge(&mut *self.raw, leaf, &mut th.raw, length_ns, self.now_ns)
        };
        Ok(())
    }

    /// `leaf_yield`: the thread, charged for what it had of its turn, gives up the rest of it.
    pub fn give_up(&mut self, th: &mut Thread) -> Result<()> {
        let leaf = self.in_service(th)?;
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_yield(&mut *self.raw, leaf, &mut th.raw, self.now_ns) };
        Ok(())
    }

    /// The thread's key if it were charged this much now.
    pub fn ahead(&self, th: &Thread, length_ns: u64) -> Result<u64> {
        let leaf = self.runnable(th)?;
        // SAFETY: as in join.
        Ok(unsafe { ffi::qcore_leaf_ahead(&*self.raw, leaf, &th.raw, length_ns, self.now_ns) })
    }

    /// Longest service the policy wants for the thread at once, in ns.
    pub fn slice(&self, th: &Thread) -> Result<u64> {
        let leaf = self.runnable(th)?;
        // SAFETY: as in join.
        Ok(unsafe { ffi::qcore_leaf_slice(&*self.raw, leaf, &th.raw, self.now_ns) })
    }

    /// `quantum_of`: how long the thread, in service from now on, may go on, in ns.
    pub fn quantum(&self, th: &Thread) -> Result<u64> {
        let leaf = self.in_service(th)?;
        // SAFETY: as in join.
        Ok(unsafe { ffi::qcore_quantum_of(&*self.raw, leaf, &th.raw, self.now_ns) })
    }

    /// `quantum_overtakes`: whether `waiting` would be chosen before `th`, in service for
    /// `ran_ns` that are not charged.
    pub fn overtakes(&self, waiting: &Thread, th: &Thread, ran_ns: u64) -> Result<bool> {
        let (leaf, waits_in) = (self.in_service(th)?, self.runnable(waiting)?);
        // SAFETY: as in join, and the two threads are only read.
        Ok(unsafe {
            ffi::qcore_quantum_overtakes(
                &*self.raw,
                waits_in,
                &waiting.raw,
                leaf,
                &th.raw,
                ran_ns,
                self.now_ns,
            )
        })
    }

    /// `quantum_ends`: whether the service of `th`, elsewhere for `ran_ns` that are not charged,
    /// ends for `waiting`, which woke; `eager`: at once, unless they are peers of one leaf.
    pub fn ends(&self, waiting: &Thread, th: &Thread, ran_ns: u64, eager: bool) -> Result<bool> {
        let (leaf, waits_in) = (self.in_service(th)?, self.runnable(waiting)?);
        // SAFETY: as in join, and the two threads are only read.
        Ok(unsafe {
            ffi::qcore_quantum_ends(
                &*self.raw,
                waits_in,
                &waiting.raw,
                leaf,
                &th.raw,
                ran_ns,
                self.now_ns,
                eager,
            )
        })
    }

    /// `leaf_near`: how much greater a key than the first one's may be of a thread that is
    /// preferred by the server that served it last.
    pub fn near(&self, leaf: NodeId) -> Result<u64> {
        self.check_leaf(leaf)?;
        // SAFETY: as in join.
        Ok(unsafe { ffi::qcore_leaf_near(&*self.raw, leaf.number()) })
    }

    /// `quantum_eager`: may one that wakes take over at once on a server whose interruptions so far
    /// are paid for at `calm_ns`?
    pub fn eager(&self, calm_ns: u64) -> bool {
        // SAFETY: numbers only.
        unsafe { ffi::qcore_quantum_eager(calm_ns, self.now_ns) }
    }

    /// `quantum_calm`: one did; what is `calm_ns` from now on.
    pub fn calm(&self, calm_ns: u64) -> u64 {
        // SAFETY: numbers only.
        unsafe { ffi::qcore_quantum_calm(calm_ns, self.now_ns) }
    }

    /// `quantum_left`: how long `th`, in service for `ran_ns` that are not charged,
    /// may go on from the start of its quantum, now that `waiting` waits; `eager`: not at all, unless
    /// they are peers of one leaf.
    pub fn quantum_left(
        &self,
        waiting: &Thread,
        th: &Thread,
        ran_ns: u64,
        eager: bool,
    ) -> Result<u64> {
        let (leaf, waits_in) = (self.in_service(th)?, self.runnable(waiting)?);
        // SAFETY: as in join, and the two threads are only read.
        Ok(unsafe {
            ffi::qcore_quantum_left(
                &*self.raw,
                waits_in,
                &waiting.raw,
                leaf,
                &th.raw,
                ran_ns,
                self.now_ns,
                eager,
            )
        })
    }

    /// Gives the thread another weight (1 … 10000), at once.
    pub fn set_thread_weight(&mut self, th: &mut Thread, weight: u32) -> Result<()> {
        let (leaf, runnable) = (self.member(th)?, th.runnable);
        // SAFETY: as in join.
        let code = unsafe {
            ffi::qcore_leaf_set_weight(&mut *self.raw, leaf, &mut th.raw, weight, runnable)
        };
        match code {
            0 => Ok(()),
            _ => Err(Error::Weight(weight)),
        }
    }

    /// A runnable thread whose parameters changed gets its new key at once.
    pub fn rekey(&mut self, th: &mut Thread) -> Result<()> {
        let leaf = self.runnable(th)?;
        // SAFETY: as in join.
        unsafe { ffi::qcore_leaf_rekey(&mut *self.raw, leaf, &mut th.raw, self.now_ns) };
        Ok(())
    }

    /// Changes a leaf's scheduler; threads that wait are served once in their old order.
    pub fn set_policy(&mut self, leaf: NodeId, policy: Policy) -> Result<()> {
        self.check_leaf(leaf)?;
        // SAFETY: as in join.
        let code = unsafe {
            ffi::qcore_leaf_set_policy(&mut *self.raw, leaf.number(), policy as u32, self.now_ns)
        };
        debug_assert_eq!(code, 0, "every Policy is a policy in C");
        Ok(())
    }
}
