// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hierarchical start-time fair queueing in user space.
//!
//! The scheduler itself is the portable C text in `core/`, which the kernel
//! runs too. This crate compiles it and holds it against the papers:
//!
//! | Module | What it is |
//! |---|---|
//! | [`Tree`], [`Thread`] | safe bindings to the C functions |
//! | [`engine`] | what a scheduler is asked to do; implemented by C and by the model |
//! | [`model`] | the equations of OSDI'96 section 3 in exact integers, sharing nothing with C |
//! | [`readjust`] | entitlements where a child cannot use all that its weight gives it |
//! | [`ledger`] | one exact division over the trees of several domains of processors |
//! | [`lend`] | weight lent to the holder of what a thread waits for |
//! | [`link`] | the packets of an interface in such a tree |
//! | [`cello`] | the requests of a disk, in classes with rounds of disk time |
//! | [`disk`] | what a disk takes for a request: seeks, turns and zones |
//! | [`rules`] | which queue a packet goes to, by its headers |
//! | [`speed`] | how fast a processor has to be |
//! | [`rescue`] | threads that are served out of turn, or a little longer |
//! | [`sim`] | a discrete-event simulator driven by workload files |
//! | [`waits`] | how long threads waited, as a histogram |
//! | [`bounds`] | fairness, throughput and delay bounds, checked on any trace |
//!
//! ```
//! use qlinux_core::{NodeId, Tree};
//!
//! let mut tree = Tree::new();
//! let a = tree.mknod_leaf(NodeId::ROOT, 1)?;
//! let b = tree.mknod_leaf(NodeId::ROOT, 2)?;
//! tree.setrun(a)?;
//! tree.setrun(b)?;
//! for _ in 0..6 {
//!     let leaf = tree.schedule().expect("two leaves are runnable");
//!     tree.update(leaf, 10_000_000)?;
//! }
//! assert_eq!(tree.node(b)?.served_ns, 2 * tree.node(a)?.served_ns);
//! # Ok::<(), qlinux_core::Error>(())
//! ```

pub mod bounds;
pub mod cello;
pub mod disk;
pub mod engine;
mod error;
#[doc(hidden)]
pub mod ffi;
pub mod leaf;
pub mod ledger;
pub mod lend;
pub mod link;
pub mod model;
pub mod readjust;
pub mod rescue;
pub mod room;
pub mod rules;
pub mod sched;
pub mod sim;
pub mod speed;
mod tree;
pub mod waits;

pub use error::Error;
pub use leaf::{Class, Policy, Reservation};
pub use tree::{Limit, NodeId, NodeState, Thread, Tree};

/// Weights a node or a thread may have.
pub const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=10_000;

/// Longest path below the root.
pub const DEPTH_MAX: u32 = 64;

/// Nodes a tree can hold, the root included.
pub const NODES_MAX: u32 = ffi::NODES as u32 - 1;

/// A tag counts 2^-10 ns of service per unit of weight.
pub const TAG_SHIFT: u32 = 10;

/// Longest service charged at once; what exceeds it (73 minutes) is not counted.
pub const LENGTH_MAX_NS: u64 = 1 << 42;

/// Result of an operation that can be refused.
pub type Result<T> = std::result::Result<T, Error>;
