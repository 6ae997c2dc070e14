// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weight lent to the holder of what a thread waits for (core/cpu/lend.h).

use crate::{ffi, NodeId, Tree};

/// Longest chain that one loan is passed on through.
pub const CHAIN_MAX: usize = 16;
/// Most threads that lend to one.
pub const LENDERS_MAX: usize = 32;
/// Loans that change within so long, in ns, are settled together.
pub const TOGETHER_NS: u64 = 500_000;

/// Where a thread is served, and what it weighs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    leaf: u32,
    /// Its own weight and what is lent to it.
    pub weight: u32,
    runnable: u32,
    waiting: u32,
    /// Its key there.
    pub key: u64,
}

impl Place {
    /// Its home, or a lender's.
    pub fn leaf(&self) -> u32 {
        self.leaf
    }
}

/// A tree, and threads numbered from 0 that lend each other their weight.
///
/// # Panics
/// Every function, when a thread is not in the state that it asks for.
pub struct Lending {
    tree: Tree,
    memory: Vec<u64>,
    threads: Vec<bool>,
    now_ns: u64,
}

impl Lending {
    /// No threads yet; at most `n`.
    pub fn new(tree: Tree, n: usize) -> Lending {
        // SAFETY: only computes.
        let size = unsafe { ffi::qcore_lending_size(n as u32) };
        Lending {
            tree,
            memory: vec![0; size.div_ceil(8)],
            threads: vec![false; n],
            now_ns: 0,
        }
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    fn call(&mut self, i: usize, run: impl FnOnce(*mut ffi::RawTree, *mut u64, u32)) {
        assert!(self.threads[i], "thread {i} does not exist");
        run(self.tree.raw_mut_ptr(), self.memory.as_mut_ptr(), i as u32);
    }

    /// Thread `i` comes: a member of this leaf, not runnable.
    pub fn join(&mut self, i: usize, leaf: NodeId, weight: u32) {
        assert!(!self.threads[i] && crate::WEIGHTS.contains(&weight));
        assert!(self.tree.node(leaf).is_ok_and(|n| n.leaf));
        self.threads[i] = true;
        // SAFETY: leaf and weight are valid, the memory has room for i.
        self.call(i, |t, l, i| unsafe {
            ffi::qcore_lend_join(t, l, i, leaf.number(), weight)
        });
    }

    /// It is runnable, if it was not, and waits for service.
    pub fn wait(&mut self, i: usize) {
        assert!(!self.is_waiting(i));
        let now = self.now_ns;
        // SAFETY: it exists and does not wait.
        self.call(i, |t, l, i| unsafe { ffi::qcore_lend_wait(t, l, i, now) });
    }

    /// It is taken into service.
    pub fn serve(&mut self, i: usize) {
        assert!(self.is_waiting(i));
        // SAFETY: it exists and waits.
        self.call(i, |t, l, i| unsafe { ffi::qcore_lend_serve(t, l, i) });
    }

    /// It was served for so long.
    pub fn charge(&mut self, i: usize, ns: u64) {
        assert!(self.is_runnable(i) && !self.is_waiting(i));
        self.now_ns += ns;
        let now = self.now_ns;
        // SAFETY: it exists and is in service.
        self.call(i, |t, l, i| unsafe {
            ffi::qcore_lend_charge(t, l, i, ns, now)
        });
    }

    /// It is not runnable any more.
    pub fn block(&mut self, i: usize) {
        assert!(self.is_runnable(i));
        // SAFETY: it exists and is runnable.
        self.call(i, |t, l, i| unsafe { ffi::qcore_lend_block(t, l, i) });
    }

    /// It is about to wait for `what`, which `holder` has. False: it cannot lend.
    pub fn link(&mut self, i: usize, holder: usize, what: u64) -> bool {
        assert!(self.threads[holder]);
        let mut done = false;
        // SAFETY: both exist.
        self.call(i, |_, l, i| {
            done = unsafe { ffi::qcore_lend_link(l, i, holder as u32, what) }
        });
        done
    }

    /// It waits no longer.
    pub fn unlink(&mut self, i: usize) {
        // SAFETY: it exists.
        self.call(i, |_, l, i| unsafe { ffi::qcore_lend_unlink(l, i) });
    }

    /// `what` passes from one to the other.
    pub fn hand_over(&mut self, from: usize, to: usize, what: u64) {
        assert!(self.threads[to]);
        // SAFETY: both exist.
        self.call(from, |_, l, i| unsafe {
            ffi::qcore_lend_hand_over(l, i, to as u32, what)
        });
    }

    /// Its own weight; false: out of range.
    pub fn set_weight(&mut self, i: usize, weight: u32) -> bool {
        let mut done = 0;
        // SAFETY: it exists.
        self.call(i, |_, l, i| {
            done = unsafe { ffi::qcore_lend_set_weight(l, i, weight) }
        });
        done == 0
    }

    /// It, not runnable, gets another home.
    pub fn move_home(&mut self, i: usize, leaf: NodeId) {
        assert!(!self.is_runnable(i) && self.tree.node(leaf).is_ok_and(|n| n.leaf));
        // SAFETY: it exists and is not runnable, the leaf is one.
        self.call(i, |t, l, i| unsafe {
            ffi::qcore_lend_move_home(t, l, i, leaf.number())
        });
    }

    /// It, not runnable, goes.
    pub fn exit(&mut self, i: usize) {
        assert!(!self.is_runnable(i));
        // SAFETY: it exists and is not runnable.
        self.call(i, |t, l, i| unsafe { ffi::qcore_lend_exit(t, l, i) });
        self.threads[i] = false;
    }

    /// Gives everybody what is due. Returns how many were looked at.
    pub fn settle(&mut self) -> usize {
        let (now, mut n) = (self.now_ns, 0);
        // SAFETY: the list holds only threads that exist.
        while unsafe {
            ffi::qcore_lend_settle(self.tree.raw_mut_ptr(), self.memory.as_mut_ptr(), now)
        } {
            n += 1;
            assert!(n < 1_000_000, "settling does not end");
        }
        n
    }

    /// Are there loans to settle at that time?
    pub fn due(&mut self, now_ns: u64) -> bool {
        // SAFETY: only looks.
        unsafe { ffi::qcore_lend_due(self.memory.as_mut_ptr(), now_ns) }
    }

    /// Likewise, when the quantum of this thread is over and it competes for the next.
    pub fn due_before(&mut self, i: usize, now_ns: u64) -> bool {
        assert!(self.threads[i]);
        // SAFETY: it exists.
        unsafe { ffi::qcore_lend_due_before(self.memory.as_mut_ptr(), i as u32, now_ns) }
    }

    /// Where it is served.
    pub fn place(&self, i: usize) -> Place {
        assert!(self.threads[i]);
        // SAFETY: it exists.
        unsafe { ffi::qcore_lend_place(self.memory.as_ptr(), i as u32) }
    }

    /// Does it exist?
    pub fn exists(&self, i: usize) -> bool {
        self.threads[i]
    }

    /// Does it wait or is it in service?
    pub fn is_runnable(&self, i: usize) -> bool {
        self.place(i).runnable != 0
    }

    /// Does it wait for service?
    pub fn is_waiting(&self, i: usize) -> bool {
        self.place(i).waiting != 0
    }
}
