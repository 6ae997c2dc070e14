// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulator and the tests ask of a scheduler, whoever it is.

use crate::{Class, Error, Limit, NodeId, Policy, Reservation, Result, Thread, Tree};

/// Names a thread of one engine. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub usize);

/// A hierarchical scheduler: the tree of OSDI'96 section 4 and its leaves' threads.
///
/// Implementations must agree in everything observable: node numbers (removed
/// ones are used again, last first), tags modulo 2^64, and whom they choose.
/// The caller keeps the queue of waiting threads: least key first, FIFO among equals.
pub trait Engine {
    /// A thread's place in its leaf, good until the thread is charged or sleeps.
    type Key: Copy;

    /// What happens from now on happens at `now_ns`, which never goes back.
    fn advance(&mut self, now_ns: u64);
    /// How many servers there are; one, unless told. To be told before any service.
    fn set_servers(&mut self, servers: u32);
    /// Creates a node below an inner node.
    fn mknod(&mut self, parent: NodeId, weight: u32, leaf: bool) -> Result<NodeId>;
    /// Removes a node without children and threads.
    fn rmnod(&mut self, n: NodeId) -> Result<()>;
    /// An empty one of its kind.
    fn another(&self) -> Self;
    /// Gives a node a weight that is not a user's, at once: 1 to [`crate::ledger::SHARE_MAX`].
    fn weigh(&mut self, n: NodeId, weight: u32) -> Result<()>;
    /// Gives a node another weight, at once.
    fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()>;
    /// Makes a node idle, or gives it that weight again.
    fn set_idle(&mut self, n: NodeId, idle: bool, weight: u32) -> Result<()>;
    /// Gives a node a full budget, or takes it away.
    fn set_limit(&mut self, n: NodeId, limit: Option<Limit>) -> Result<()>;
    /// Nodes that are held return if their budgets have been refilled. Returns when that may be.
    fn release(&mut self) -> Option<u64>;
    /// Whether the node, or one above it, has used up its budget.
    fn held(&self, n: NodeId) -> Result<bool>;
    /// The leaf's first runnable thread waits.
    fn setrun(&mut self, leaf: NodeId) -> Result<()>;
    /// The leaf's last runnable thread blocked.
    fn sleep(&mut self, leaf: NodeId) -> Result<()>;
    /// A thread of the runnable leaf waits.
    fn ready(&mut self, leaf: NodeId) -> Result<()>;
    /// No thread of the leaf waits.
    fn busy(&mut self, leaf: NodeId) -> Result<()>;
    /// Takes the leaf with the least start tags into service.
    fn schedule(&mut self) -> Option<NodeId>;
    /// Likewise in place of leaves that this server passed over for good.
    fn schedule_but(&mut self) -> Option<NodeId>;
    /// Charges the leaf and its ancestors.
    fn update(&mut self, leaf: NodeId, length_ns: u64) -> Result<()>;
    /// The leaf's part of a period.
    fn share(&self, leaf: NodeId, period_ns: u64) -> Result<u64>;
    /// Whether a thread of any other leaf waits.
    fn contended(&self, leaf: NodeId) -> Result<bool>;
    /// Whether `waiting` comes before `running` once that is charged `ran_ns`.
    fn precedes(&self, waiting: NodeId, running: NodeId, ran_ns: u64) -> Result<bool>;
    /// Start tag modulo 2^64.
    fn start_tag(&self, n: NodeId) -> Result<u64>;
    /// Virtual time modulo 2^64.
    fn vtime(&self, n: NodeId) -> Result<u64>;

    /// Changes a leaf's scheduler.
    fn set_policy(&mut self, leaf: NodeId, policy: Policy) -> Result<()>;
    /// A new thread, asleep, in a leaf.
    fn spawn(&mut self, leaf: NodeId, weight: u32) -> Result<ThreadId>;
    /// Takes a sleeping thread out of its leaf.
    fn leave(&mut self, th: ThreadId) -> Result<()>;
    /// Puts a thread that is in no leaf into one.
    fn join(&mut self, th: ThreadId, leaf: NodeId) -> Result<()>;
    /// The thread becomes runnable.
    fn arrive(&mut self, th: ThreadId) -> Result<()>;
    /// The thread, charged and not waiting, blocks.
    fn depart(&mut self, th: ThreadId) -> Result<()>;
    /// The runnable thread starts to wait.
    fn wait(&mut self, th: ThreadId) -> Result<()>;
    /// It waits no longer.
    fn unwait(&mut self, th: ThreadId) -> Result<()>;
    /// The same, because it is taken into service next. A single server must charge it, and have
    /// it wait again or depart, before it asks for another leaf.
    fn take(&mut self, th: ThreadId) -> Result<()>;
    /// A server that may serve no thread of the leaf takes it out of sight, in front of those it
    /// has `passed` over already. Returns the first of that list now.
    fn pass(&mut self, leaf: NodeId, passed: Option<NodeId>) -> Result<Option<NodeId>>;
    /// The first leaf of a list may be chosen again. Returns the rest.
    fn restore(&mut self, passed: NodeId) -> Result<Option<NodeId>>;
    /// The thread is taken into service, for about `planned_ns`, which several servers count at once.
    fn serve(&mut self, th: ThreadId, planned_ns: u64) -> Result<()>;
    /// The thread was served: charges it, its leaf and their ancestors.
    fn charge(&mut self, th: ThreadId, length_ns: u64) -> Result<()>;
    /// Gives a thread another weight, at once.
    fn set_thread_weight(&mut self, th: ThreadId, weight: u32) -> Result<()>;
    /// Gives the thread a reservation, or takes it away.
    fn reserve(&mut self, th: ThreadId, r: Option<Reservation>) -> Result<()>;
    /// Gives the thread a scheduling class within svr4.
    fn set_class(&mut self, th: ThreadId, class: Class) -> Result<()>;
    /// A runnable thread whose parameters changed gets its new key at once.
    fn rekey(&mut self, th: ThreadId) -> Result<()>;
    /// Its deadlines that passed unmet.
    fn misses(&self, th: ThreadId) -> u64;
    /// Longest service the policy wants for it at once.
    fn slice(&self, th: ThreadId) -> Result<u64>;
    /// How long the thread, in service from now on, may go on.
    fn quantum(&self, th: ThreadId) -> Result<u64>;
    /// How long `th`, in service for `ran_ns`, may go on from its start now that `waiting` waits;
    /// `eager`: not at all, unless they are peers of one leaf.
    fn quantum_left(
        &self,
        waiting: ThreadId,
        th: ThreadId,
        ran_ns: u64,
        eager: bool,
    ) -> Result<u64>;
    /// May one that wakes take over at once on a server whose interruptions so far are
    /// paid for at `calm_ns`?
    fn eager(&self, calm_ns: u64) -> bool;
    /// One did: what is `calm_ns` from now on.
    fn calm(&self, calm_ns: u64) -> u64;
    /// Whether `waiting` would be chosen before `th`, in service for `ran_ns`.
    fn overtakes(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64) -> Result<bool>;
    /// Whether the service of `th`, for `ran_ns`, ends for `waiting`, which woke and waits elsewhere;
    /// `eager` as above.
    fn ends(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64, eager: bool) -> Result<bool>;
    /// How much greater a key than the leaf's first, modulo 2^64, may be of a thread that is
    /// preferred by the server that served it last.
    fn near(&self, leaf: NodeId) -> Result<u64>;
    /// Whether `th`, whose server has `chosen` another leaf, goes on in place of `running`, in
    /// service elsewhere for `ran_ns`.
    fn outranks(
        &self,
        th: ThreadId,
        chosen: NodeId,
        running: ThreadId,
        ran_ns: u64,
    ) -> Result<bool>;
    /// Whether `th`, waiting since its quantum was over and the first of its leaf, goes on
    /// although its server has chosen another leaf: its class would lose a processor that it
    /// cannot make up for.
    fn goes_on(&self, th: ThreadId, chosen: NodeId) -> Result<bool>;
    /// Its key now.
    fn key(&self, th: ThreadId) -> Self::Key;
    /// Its key if it were charged this much now.
    fn ahead(&self, th: ThreadId, length_ns: u64) -> Result<Self::Key>;
    /// Whether key `a` is served before `b`.
    fn before(a: Self::Key, b: Self::Key) -> bool;
    /// A key modulo 2^64.
    fn key_bits(key: Self::Key) -> u64;
}

/// The C core with the threads it serves.
#[derive(Default)]
pub struct Core {
    /// The tree itself.
    pub tree: Tree,
    pub(crate) threads: Vec<Thread>,
    pub(crate) servers: Vec<crate::sched::Server>,
}

impl Core {
    /// An empty tree.
    pub fn new() -> Core {
        Core::default()
    }
}

impl Engine for Core {
    type Key = u64;

    fn advance(&mut self, now_ns: u64) {
        self.tree.advance(now_ns);
    }

    fn set_servers(&mut self, servers: u32) {
        self.tree.set_servers(servers);
    }

    fn mknod(&mut self, parent: NodeId, weight: u32, leaf: bool) -> Result<NodeId> {
        if leaf {
            self.tree.mknod_leaf(parent, weight)
        } else {
            self.tree.mknod_inner(parent, weight)
        }
    }

    fn rmnod(&mut self, n: NodeId) -> Result<()> {
        self.tree.rmnod(n)
    }

    fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()> {
        self.tree.set_weight(n, weight)
    }

    fn another(&self) -> Core {
        Core::new()
    }

    fn weigh(&mut self, n: NodeId, weight: u32) -> Result<()> {
        self.tree.weigh(n, weight)
    }

    fn set_idle(&mut self, n: NodeId, idle: bool, weight: u32) -> Result<()> {
        self.tree.set_idle(n, idle, weight)
    }

    fn set_limit(&mut self, n: NodeId, limit: Option<Limit>) -> Result<()> {
        self.tree.set_limit(n, limit)
    }

    fn release(&mut self) -> Option<u64> {
        self.tree.release()
    }

    fn held(&self, n: NodeId) -> Result<bool> {
        self.tree.held(n)
    }

    fn setrun(&mut self, leaf: NodeId) -> Result<()> {
        self.tree.setrun(leaf)
    }

    fn sleep(&mut self, leaf: NodeId) -> Result<()> {
        self.tree.sleep(leaf)
    }

    fn ready(&mut self, leaf: NodeId) -> Result<()> {
        self.tree.ready(leaf)
    }

    fn busy(&mut self, leaf: NodeId) -> Result<()> {
        self.tree.busy(leaf)
    }

    fn schedule(&mut self) -> Option<NodeId> {
        self.tree.schedule()
    }

    fn schedule_but(&mut self) -> Option<NodeId> {
        self.tree.schedule_but()
    }

    fn update(&mut self, leaf: NodeId, length_ns: u64) -> Result<()> {
        self.tree.update(leaf, length_ns)
    }

    fn share(&self, leaf: NodeId, period_ns: u64) -> Result<u64> {
        self.tree.share(leaf, period_ns)
    }

    fn contended(&self, leaf: NodeId) -> Result<bool> {
        self.tree.contended(leaf)
    }

    fn precedes(&self, waiting: NodeId, running: NodeId, ran_ns: u64) -> Result<bool> {
        self.tree.precedes(waiting, running, ran_ns)
    }

    fn start_tag(&self, n: NodeId) -> Result<u64> {
        self.tree.node(n).map(|n| n.start_tag)
    }

    fn vtime(&self, n: NodeId) -> Result<u64> {
        self.tree.node(n).map(|n| n.vtime)
    }

    fn set_policy(&mut self, leaf: NodeId, policy: Policy) -> Result<()> {
        self.tree.set_policy(leaf, policy)
    }

    fn spawn(&mut self, leaf: NodeId, weight: u32) -> Result<ThreadId> {
        let mut th = Thread::new(weight)?;
        self.tree.join(leaf, &mut th)?;
        self.threads.push(th);
        Ok(ThreadId(self.threads.len() - 1))
    }

    fn leave(&mut self, th: ThreadId) -> Result<()> {
        self.tree.leave(&mut self.threads[th.0])
    }

    fn join(&mut self, th: ThreadId, leaf: NodeId) -> Result<()> {
        self.tree.join(leaf, &mut self.threads[th.0])
    }

    fn arrive(&mut self, th: ThreadId) -> Result<()> {
        self.tree.arrive(&mut self.threads[th.0])
    }

    fn depart(&mut self, th: ThreadId) -> Result<()> {
        self.tree.depart(&mut self.threads[th.0])
    }

    fn wait(&mut self, th: ThreadId) -> Result<()> {
        self.tree.wait(&mut self.threads[th.0])
    }

    fn unwait(&mut self, th: ThreadId) -> Result<()> {
        self.tree.unwait(&mut self.threads[th.0])
    }

    fn take(&mut self, th: ThreadId) -> Result<()> {
        self.tree.take(&mut self.threads[th.0])
    }

    fn pass(&mut self, leaf: NodeId, passed: Option<NodeId>) -> Result<Option<NodeId>> {
        self.tree.pass(leaf, passed)
    }

    fn restore(&mut self, passed: NodeId) -> Result<Option<NodeId>> {
        self.tree.restore(passed)
    }

    fn serve(&mut self, th: ThreadId, planned_ns: u64) -> Result<()> {
        self.tree.serve(&mut self.threads[th.0], planned_ns)
    }

    fn charge(&mut self, th: ThreadId, length_ns: u64) -> Result<()> {
        self.tree.charge(&mut self.threads[th.0], length_ns)
    }

    fn set_thread_weight(&mut self, th: ThreadId, weight: u32) -> Result<()> {
        self.tree.set_thread_weight(&mut self.threads[th.0], weight)
    }

    fn reserve(&mut self, th: ThreadId, r: Option<Reservation>) -> Result<()> {
        self.threads[th.0].reserve(r)
    }

    fn set_class(&mut self, th: ThreadId, class: Class) -> Result<()> {
        self.threads[th.0].set_class(class)
    }

    fn rekey(&mut self, th: ThreadId) -> Result<()> {
        self.tree.rekey(&mut self.threads[th.0])
    }

    fn misses(&self, th: ThreadId) -> u64 {
        self.threads[th.0].misses()
    }

    fn slice(&self, th: ThreadId) -> Result<u64> {
        self.tree.slice(&self.threads[th.0])
    }

    fn quantum(&self, th: ThreadId) -> Result<u64> {
        self.tree.quantum(&self.threads[th.0])
    }

    fn quantum_left(
        &self,
        waiting: ThreadId,
        th: ThreadId,
        ran_ns: u64,
        eager: bool,
    ) -> Result<u64> {
        self.tree
            .quantum_left(&self.threads[waiting.0], &self.threads[th.0], ran_ns, eager)
    }

    fn eager(&self, calm_ns: u64) -> bool {
        self.tree.eager(calm_ns)
    }

    fn calm(&self, calm_ns: u64) -> u64 {
        self.tree.calm(calm_ns)
    }

    fn overtakes(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64) -> Result<bool> {
        let (waiting, th) = (&self.threads[waiting.0], &self.threads[th.0]);
        self.tree.overtakes(waiting, th, ran_ns)
    }

    fn ends(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64, eager: bool) -> Result<bool> {
        let (waiting, th) = (&self.threads[waiting.0], &self.threads[th.0]);
        self.tree.ends(waiting, th, ran_ns, eager)
    }

    fn near(&self, leaf: NodeId) -> Result<u64> {
        self.tree.near(leaf)
    }

    fn outranks(
        &self,
        th: ThreadId,
        chosen: NodeId,
        running: ThreadId,
        ran_ns: u64,
    ) -> Result<bool> {
        let (th, running) = (&self.threads[th.0], &self.threads[running.0]);
        self.tree.outranks(th, chosen, running, ran_ns)
    }

    fn goes_on(&self, th: ThreadId, chosen: NodeId) -> Result<bool> {
        self.tree.goes_on(&self.threads[th.0], chosen)
    }

    fn key(&self, th: ThreadId) -> u64 {
        self.threads[th.0].key()
    }

    fn ahead(&self, th: ThreadId, length_ns: u64) -> Result<u64> {
        self.tree.ahead(&self.threads[th.0], length_ns)
    }

    fn before(a: u64, b: u64) -> bool {
        Tree::before(a, b)
    }

    fn key_bits(key: u64) -> u64 {
        key
    }
}

/// The refusals that do not depend on an engine's inner workings.
pub(crate) fn check_weight(weight: u32) -> Result<()> {
    if crate::WEIGHTS.contains(&weight) {
        Ok(())
    } else {
        Err(Error::Weight(weight))
    }
}
