// SPDX-License-Identifier: MIT OR Apache-2.0
//! One exact division over several trees (core/cpu/ledger.h): a tree for each domain of
//! processors, whose weights say what each node is to get there.

use crate::{ffi, NodeId, NODES_MAX};
use std::fmt;

/// Amounts count this part of a processor.
pub const CPU: u32 = 1 << 16;

/// Most domains.
pub const DOMAINS_MAX: u32 = 64;

/// Greatest share.
pub const SHARE_MAX: u32 = 1 << 24;

/// So often a ledger is to be drawn up.
pub const PERIOD_NS: u64 = 2_000_000;

/// The ledger of a tree's nodes over several domains.
pub struct Ledger {
    /// C's structure and its cells.
    raw: Box<[u64]>,
    domains: u32,
}

/// What a tree says of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its threads that are runnable now.
    pub runnable: u32,
    /// How long its threads were runnable so far, all together.
    pub runnable_ns: u64,
    /// What it was served so far.
    pub served_ns: u64,
}

/// One thread of the leaf is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Whose.
    pub leaf: NodeId,
    /// The domain it waits in.
    pub from: u32,
    /// The domain it is to wait in.
    pub to: u32,
}

/// `struct ledger_move`.
#[doc(hidden)]
#[repr(C)]
pub struct RawMove {
    leaf: u32,
    from: u32,
    to: u32,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger of {} domains", self.domains)
    }
}

impl Ledger {
    /// The ledger of a tree with only a root, over domains of so many servers each.
    ///
    /// # Panics
    /// Without domains, or with more than [`DOMAINS_MAX`].
    pub fn new(servers: &[u32]) -> Ledger {
        let domains = servers.len() as u32;
        assert!((1..=DOMAINS_MAX).contains(&domains), "{domains} domains");
        // SAFETY: it only computes a size.
        let words = unsafe { ffi::qcore_ledger_size(domains) }.div_ceil(8);
        let mut raw = vec![0; words].into_boxed_slice();
        // SAFETY: the memory is zero and as large as C asks for; a box does not move it.
        unsafe { ffi::qcore_ledger_init(raw.as_mut_ptr(), domains) };
        let mut ledger = Ledger { raw, domains };
        for (domain, &servers) in servers.iter().enumerate() {
            ledger.set_servers(domain as u32, servers);
        }
        ledger
    }

    fn check(&self, n: NodeId, domain: u32) {
        assert!(n.number() <= NODES_MAX, "node {n} is out of range");
        assert!(domain < self.domains, "domain {domain} is out of range");
    }

    /// So many servers are in the domain from now on.
    pub fn set_servers(&mut self, domain: u32, servers: u32) {
        self.check(NodeId::ROOT, domain);
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_set_servers(self.raw.as_mut_ptr(), domain, servers) };
    }

    /// The node was created in all trees.
    pub fn mknod(&mut self, n: NodeId, parent: NodeId, weight: u32, leaf: bool) {
        self.check(n, 0);
        self.check(parent, 0);
        let (n, parent) = (n.number(), parent.number());
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_mknod(self.raw.as_mut_ptr(), n, parent, weight, leaf) };
    }

    /// The node was removed from all trees.
    pub fn rmnod(&mut self, n: NodeId) {
        self.check(n, 0);
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_rmnod(self.raw.as_mut_ptr(), n.number()) };
    }

    /// Weight of a node among its siblings.
    pub fn set_weight(&mut self, n: NodeId, weight: u32) {
        self.check(n, 0);
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_set_weight(self.raw.as_mut_ptr(), n.number(), weight) };
    }

    /// So many threads of the leaf are runnable in the domain now. Since it was created they were
    /// so for so long, all together, and it was served so much there.
    pub fn see(&mut self, leaf: NodeId, domain: u32, seen: Seen) {
        self.check(leaf, domain);
        let raw = self.raw.as_mut_ptr();
        // SAFETY: checked.
        unsafe {
            ffi::qcore_ledger_see(
                raw,
                leaf.number(),
                domain,
                seen.runnable,
                seen.runnable_ns,
                seen.served_ns,
            )
        };
    }

    /// All has been seen, so much time after the last time.
    pub fn settle(&mut self, elapsed_ns: u64) {
        // SAFETY: the ledger is C's.
        unsafe { ffi::qcore_ledger_settle(self.raw.as_mut_ptr(), elapsed_ns.max(1)) };
    }

    /// What the node is to get in the domain: its weight in the domain's tree.
    pub fn share(&mut self, n: NodeId, domain: u32) -> u32 {
        self.check(n, domain);
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_share(self.raw.as_mut_ptr(), n.number(), domain) }
    }

    /// What the node is entitled to, of all processors.
    pub fn entitled(&self, n: NodeId) -> u64 {
        self.check(n, 0);
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_entitled(self.raw.as_ptr(), n.number()) }
    }

    /// What the leaf was entitled to and was not served; less than 0: it was served more.
    pub fn owed_ns(&self, leaf: NodeId) -> i64 {
        self.check(leaf, 0);
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_owed(self.raw.as_ptr(), leaf.number()) }
    }

    /// The next thread that has to move, once the ledger is settled.
    pub fn next_move(&mut self) -> Option<Move> {
        // SAFETY: the ledger is C's.
        let m = unsafe { ffi::qcore_ledger_move(self.raw.as_mut_ptr()) };
        let (from, to) = (m.from, m.to);
        NodeId::from_number(m.leaf).map(|leaf| Move { leaf, from, to })
    }
}
