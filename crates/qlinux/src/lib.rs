// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel side of QLinux, owned from user space.
//!
//! | Module | Kernel interface |
//! |---|---|
//! | [`check`] | what this kernel offers |
//! | [`features`] | what it lacks of what the schedulers use, and what that costs |
//! | [`cgroup`] | the class hierarchy, which is the cgroup v2 tree |
//! | [`cpu`] | the CPU scheduler: load, attach, pin, read, end |
//! | [`class`] | operations on classes, made of the two above |
//! | [`view`] | what every class is entitled to, receives and waits for |
//! | [`link`] | the packet schedulers of network interfaces |
//! | [`disk`] | the disk scheduler Cello, and who is of which of its classes |
//! | [`trace`] | the scheduler's ring buffer of quanta |
//! | [`netlink`] | network interfaces and their queueing disciplines |
//! | [`intf`] | the structures shared with the BPF program |
//!
//! The kernel holds all state: objects are pinned in bpffs and no process of
//! ours needs to stay. An operation that fails leaves the state as it was.

pub mod admit;
mod bpf;
pub mod cgroup;
pub mod check;
pub mod class;
pub mod cpu;
pub mod disk;
mod error;
pub mod features;
pub mod intf;
mod leaf;
mod limit;
pub mod link;
mod lock;
pub mod netlink;
mod operations;
mod path;
pub mod reserve;
mod stat;
pub mod trace;
mod undo;
pub mod view;
mod weight;

pub use bpf::words as load_words;
pub use error::{Error, Result};
pub use leaf::Leaf;
pub use limit::{Burst, Max};
pub use lock::Lock;
pub use path::ClassPath;
pub use weight::Weight;
