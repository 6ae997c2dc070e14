// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulator and the tests ask of a scheduler, whoever it is.

use crate::{Error, NodeId, Policy, Result, Thread, Tree};

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

    /// Creates a node below an inner node.
    fn mknod(&mut self, parent: NodeId, weight: u32, leaf: bool) -> Result<NodeId>;
    /// Removes a node without children and threads.
    fn rmnod(&mut self, n: NodeId) -> Result<()>;
    /// Gives a node another weight, at once.
    fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()>;
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
    /// A server that may serve no thread of the leaf takes it out of sight, in front of those it
    /// has `passed` over already. Returns the first of that list now.
    fn pass(&mut self, leaf: NodeId, passed: Option<NodeId>) -> Result<Option<NodeId>>;
    /// The first leaf of a list may be chosen again. Returns the rest.
    fn restore(&mut self, passed: NodeId) -> Result<Option<NodeId>>;
    /// The thread is taken into service.
    fn serve(&mut self, th: ThreadId) -> Result<()>;
    /// The thread was served: charges it, its leaf and their ancestors.
    fn charge(&mut self, th: ThreadId, length_ns: u64) -> Result<()>;
    /// Gives a thread another weight, at once.
    fn set_thread_weight(&mut self, th: ThreadId, weight: u32) -> Result<()>;
    /// Longest service the policy wants for it at once.
    fn slice(&self, th: ThreadId) -> Result<u64>;
    /// How long the thread, in service from now on, may go on.
    fn quantum(&self, th: ThreadId) -> Result<u64>;
    /// How long `th`, in service for `ran_ns`, may go on from its start now that `waiting` waits.
    fn quantum_left(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64) -> Result<u64>;
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
    threads: Vec<Thread>,
}

impl Core {
    /// An empty tree.
    pub fn new() -> Core {
        Core::default()
    }
}

impl Engine for Core {
    type Key = u64;

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

    fn pass(&mut self, leaf: NodeId, passed: Option<NodeId>) -> Result<Option<NodeId>> {
        self.tree.pass(leaf, passed)
    }

    fn restore(&mut self, passed: NodeId) -> Result<Option<NodeId>> {
        self.tree.restore(passed)
    }

    fn serve(&mut self, th: ThreadId) -> Result<()> {
        self.tree.serve(&mut self.threads[th.0])
    }

    fn charge(&mut self, th: ThreadId, length_ns: u64) -> Result<()> {
        self.tree.charge(&mut self.threads[th.0], length_ns)
    }

    fn set_thread_weight(&mut self, th: ThreadId, weight: u32) -> Result<()> {
        self.tree.set_thread_weight(&mut self.threads[th.0], weight)
    }

    fn slice(&self, th: ThreadId) -> Result<u64> {
        self.tree.slice(&self.threads[th.0])
    }

    fn quantum(&self, th: ThreadId) -> Result<u64> {
        self.tree.quantum(&self.threads[th.0])
    }

    fn quantum_left(&self, waiting: ThreadId, th: ThreadId, ran_ns: u64) -> Result<u64> {
        self.tree
            .quantum_left(&self.threads[waiting.0], &self.threads[th.0], ran_ns)
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
