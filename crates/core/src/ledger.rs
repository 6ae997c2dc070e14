// SPDX-License-Identifier: MIT OR Apache-2.0
//! One exact division over several trees (core/cpu/ledger.h): a tree for each domain of
//! processors, whose weights say what each leaf is to get there.

use crate::engine::check_weight;
use crate::{ffi, Error, NodeId, Result, DEPTH_MAX, NODES_MAX};
use std::collections::HashMap;
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
    nodes: HashMap<NodeId, Known>,
}

/// What C takes for granted of a node.
struct Known {
    parent: Option<NodeId>,
    depth: u32,
    leaf: bool,
    children: u32,
}

/// What a tree says of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its threads that are runnable now.
    pub runnable: u32,
    /// Their weights.
    pub weights: u32,
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
        let root = Known {
            parent: None,
            depth: 0,
            leaf: false,
            children: 0,
        };
        let mut ledger = Ledger {
            raw,
            domains,
            nodes: HashMap::from([(NodeId::ROOT, root)]),
        };
        for (domain, &servers) in servers.iter().enumerate() {
            ledger.set_servers(domain as u32, servers);
        }
        ledger
    }

    fn known(&self, n: NodeId) -> Result<&Known> {
        self.nodes.get(&n).ok_or(Error::NoSuchNode(n))
    }

    fn check_leaf(&self, leaf: NodeId, domain: u32) -> Result<()> {
        assert!(domain < self.domains, "domain {domain} is out of range");
        match self.known(leaf)?.leaf {
            true => Ok(()),
            false => Err(Error::NotLeaf(leaf)),
        }
    }

    /// So many servers are in the domain from now on.
    ///
    /// # Panics
    /// If there is no such domain.
    pub fn set_servers(&mut self, domain: u32, servers: u32) {
        assert!(domain < self.domains, "domain {domain} is out of range");
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_set_servers(self.raw.as_mut_ptr(), domain, servers) };
    }

    /// The node, which has this number in the trees, was created.
    pub fn mknod(&mut self, n: NodeId, parent: NodeId, weight: u32, leaf: bool) -> Result<()> {
        let above = self.known(parent)?;
        if above.leaf {
            return Err(Error::IsLeaf(parent));
        }
        if above.depth >= DEPTH_MAX {
            return Err(Error::TooDeep(parent));
        }
        check_weight(weight)?;
        if n.number() > NODES_MAX {
            return Err(Error::NoSpace(parent));
        }
        if self.nodes.contains_key(&n) {
            return Err(Error::Busy(n));
        }
        let known = Known {
            parent: Some(parent),
            depth: above.depth + 1,
            leaf,
            children: 0,
        };
        self.nodes.insert(n, known);
        self.above(parent).children += 1;
        let (n, parent) = (n.number(), parent.number());
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_mknod(self.raw.as_mut_ptr(), n, parent, weight, leaf) };
        Ok(())
    }

    fn above(&mut self, parent: NodeId) -> &mut Known {
        self.nodes.get_mut(&parent).expect("a parent is there")
    }

    /// The node, without children, was removed.
    pub fn rmnod(&mut self, n: NodeId) -> Result<()> {
        let known = self.known(n)?;
        let (0, Some(parent)) = (known.children, known.parent) else {
            return Err(Error::Busy(n));
        };
        self.above(parent).children -= 1;
        self.nodes.remove(&n);
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_rmnod(self.raw.as_mut_ptr(), n.number()) };
        Ok(())
    }

    /// Weight of a node among its siblings.
    pub fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()> {
        self.known(n)?;
        check_weight(weight)?;
        // SAFETY: checked.
        unsafe { ffi::qcore_ledger_set_weight(self.raw.as_mut_ptr(), n.number(), weight) };
        Ok(())
    }

    /// So many threads of the leaf are runnable in the domain now. Since it was created they were
    /// so for so long, all together, and it was served so much there.
    ///
    /// # Panics
    /// If there is no such domain.
    pub fn see(&mut self, leaf: NodeId, domain: u32, seen: Seen) -> Result<()> {
        self.check_leaf(leaf, domain)?;
        let (raw, leaf) = (self.raw.as_mut_ptr(), leaf.number());
        let Seen {
            runnable,
            weights,
            runnable_ns,
            served_ns,
        } = seen;
        // SAFETY: checked.
        unsafe {
            ffi::qcore_ledger_see(raw, leaf, domain, runnable, weights, runnable_ns, served_ns)
        };
        Ok(())
    }

    /// All has been seen, so much time after the last time.
    pub fn settle(&mut self, elapsed_ns: u64) {
        // SAFETY: the ledger is C's.
        unsafe { ffi::qcore_ledger_settle(self.raw.as_mut_ptr(), elapsed_ns.max(1)) };
    }

    /// What the leaf is to get in the domain: its weight in the domain's tree.
    ///
    /// # Panics
    /// If there is no such domain.
    pub fn share(&mut self, leaf: NodeId, domain: u32) -> Result<u32> {
        self.check_leaf(leaf, domain)?;
        // SAFETY: checked.
        Ok(unsafe { ffi::qcore_ledger_share(self.raw.as_mut_ptr(), leaf.number(), domain) })
    }

    /// How much more a thread of the leaf was served in one domain than in another, in ns.
    ///
    /// # Panics
    /// If there is no such domain.
    pub fn apart(&mut self, leaf: NodeId, from: u32, to: u32) -> Result<i64> {
        self.check_leaf(leaf, from)?;
        self.check_leaf(leaf, to)?;
        // SAFETY: checked.
        Ok(unsafe { ffi::qcore_ledger_apart(self.raw.as_mut_ptr(), leaf.number(), from, to) })
    }

    /// The next thread that has to move, once the ledger is settled.
    pub fn next_move(&mut self) -> Option<Move> {
        // SAFETY: the ledger is C's.
        let m = unsafe { ffi::qcore_ledger_move(self.raw.as_mut_ptr()) };
        let (from, to) = (m.from, m.to);
        NodeId::from_number(m.leaf).map(|leaf| Move { leaf, from, to })
    }
}
