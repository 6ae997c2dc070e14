// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet schedulers of network interfaces: put them on, take them off, change them,
//! look at them.
//!
//! Each interface has a tree, queues and rules of its own. Interfaces are those of the
//! caller's network namespace.

mod error;
pub mod intf;
mod names;
mod object;
mod ops;
mod pins;
mod rule;
mod running;
mod show;
mod trace;
mod up;
mod value;

pub use error::Refusal;
pub use names::{Node, Queue, QueueName, Tree};
pub use ops::{check_frame, Limits, Link, Who};
pub use rule::{parse_mark, Address, Match, Ports, Rule, RULES_LAST};
pub use running::{sid, Constants, Running};
pub use show::{Row, Shown};
pub use up::{down, gso_max_of, list, up, Before, Ended, Options, Share, State, Status};
pub use value::{bits_per_second, Codel, Discipline, Rate};

/// Level of the socket option that attaches a socket to a queue.
pub const SOL_HSFQ: i32 = 0x5153;
/// The option; its value is [`sid`] of the queue, 0: none.
pub const HSFQ_SO_QUEUE: i32 = 1;
