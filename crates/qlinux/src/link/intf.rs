// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mirror of `kernel/link/intf.h`; `tests/intf.rs` holds the layouts together.

use crate::intf::Plain;

/// Version of the interface that this library speaks.
pub const VERSION: u32 = 2;
/// Bytes of a name, zeros behind it.
pub const NAME: usize = 64;
/// Nodes in one answer.
pub const NODES: usize = 4;
/// Queues in one answer.
pub const QUEUES: usize = 4;
/// Rules of a link.
pub const RULES: usize = 256;
/// Buckets of a histogram of waits.
pub const WAITS: usize = 256;
/// [`Rule::protocol`], [`Rule::dscp`]: whatever.
pub const ANY: u16 = 0xffff;

/// `op` of a control program.
pub mod op {
    #![allow(missing_docs)]
    pub const ADD: u32 = 1;
    pub const DEL: u32 = 2;
    pub const SET: u32 = 3;
    pub const GET: u32 = 4;
    pub const ATTACH: u32 = 5;
}

/// `set` of a control program.
pub mod set {
    #![allow(missing_docs)]
    pub const QUEUE_WEIGHT: u32 = 1;
    pub const QUEUE_LIMITS: u32 = 2;
    pub const RATE: u32 = 1;
    pub const CODEL: u32 = 2;
    pub const DEFAULT: u32 = 4;
}

/// [`Grant::kind`].
pub mod who {
    #![allow(missing_docs)]
    pub const UID: u32 = 1;
    pub const CGROUP: u32 = 2;
}

/// `struct hsfq_link_state`: what became of the qdisc.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct State {
    /// It exists.
    pub qdisc: u64,
    /// CLOCK_MONOTONIC; 0: it never did.
    pub begun_ns: u64,
    /// 0: it did not end.
    pub ended_ns: u64,
    /// Packets refused because a change of the tree took too long.
    pub unlocked: u64,
    pub unlocked_bytes: u64,
    pub trace_lost: u64,
}

/// `struct hsfq_link_ctl_node`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CtlNode {
    pub op: u32,
    pub node: u32,
    pub parent: u32,
    pub weight: u32,
    pub leaf: u32,
    pub pad: u32,
    pub name: [u8; NAME],
}

/// `struct hsfq_link_ctl_queue`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CtlQueue {
    pub op: u32,
    pub queue: u32,
    pub leaf: u32,
    pub weight: u32,
    pub set: u32,
    pub packets_max: u32,
    pub bytes_max: u64,
    pub name: [u8; NAME],
}

/// `struct link_counts` of core/link/link.h: enqueued = sent + refused + dropped + queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Counts {
    pub enqueued: u64,
    pub enqueued_bytes: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    /// Dropped as they came.
    pub refused: u64,
    pub refused_bytes: u64,
    /// Dropped later.
    pub dropped: u64,
    pub dropped_bytes: u64,
}

impl Counts {
    pub(crate) const ZERO: Counts = Counts {
        enqueued: 0,
        enqueued_bytes: 0,
        sent: 0,
        sent_bytes: 0,
        refused: 0,
        refused_bytes: 0,
        dropped: 0,
        dropped_bytes: 0,
    };
}

impl CtlLink {
    /// What became of packets of no queue that is there: those of queues that were removed, and those that came
    /// to none, as a change of the tree took too long.
    pub fn elsewhere(&self) -> Counts {
        let mut counts = self.gone;
        counts += Counts {
            enqueued: self.state.unlocked,
            enqueued_bytes: self.state.unlocked_bytes,
            refused: self.state.unlocked,
            refused_bytes: self.state.unlocked_bytes,
            ..Counts::ZERO
        };
        counts
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.enqueued += more.enqueued;
        self.enqueued_bytes += more.enqueued_bytes;
        self.sent += more.sent;
        self.sent_bytes += more.sent_bytes;
        self.refused += more.refused;
        self.refused_bytes += more.refused_bytes;
        self.dropped += more.dropped;
        self.dropped_bytes += more.dropped_bytes;
    }
}

/// `struct hsfq_link_ctl_link`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CtlLink {
    pub set: u32,
    pub standard: u32,
    pub rate: u64,
    pub overhead: u32,
    pub least: u32,
    pub target_ns: u64,
    pub interval_ns: u64,
    pub time_ns: u64,
    pub packets: u32,
    pub rules: u32,
    pub bytes: u64,
    pub gone: Counts,
    pub state: State,
}

/// `struct rule` of core/link/rules.h. Addresses, ports and marks in the machine's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Rule {
    pub from: [u32; 4],
    pub from_mask: [u32; 4],
    pub to: [u32; 4],
    pub to_mask: [u32; 4],
    pub mark: u32,
    pub mark_mask: u32,
    pub sport_least: u16,
    pub sport_most: u16,
    pub dport_least: u16,
    pub dport_most: u16,
    pub protocol: u16,
    pub dscp: u16,
    pub family: u16,
    pub queue: u16,
}

/// `struct hsfq_link_ctl_rule`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CtlRule {
    pub op: u32,
    pub at: u32,
    pub count: u32,
    pub pad: u32,
    pub rule: Rule,
}

/// `struct hsfq_link_ctl_cgroup`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CtlCgroup {
    pub cgroup_id: u64,
    pub queue: u32,
    pub pad: u32,
}

/// `struct hsfq_link_node`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct NodeRecord {
    pub served: u64,
    pub node: u32,
    pub parent: u32,
    pub weight: u32,
    pub leaf: u32,
    pub runnable: u32,
    pub queues: u32,
    pub name: [u8; NAME],
}

/// `struct hsfq_link_ctl_nodes`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CtlNodes {
    pub time_ns: u64,
    pub from: u32,
    pub count: u32,
    pub record: [NodeRecord; NODES],
}

/// `struct hsfq_link_queue`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct QueueRecord {
    pub counts: Counts,
    pub bytes: u64,
    pub bytes_max: u64,
    pub packets: u32,
    pub packets_max: u32,
    pub queue: u32,
    pub leaf: u32,
    pub weight: u32,
    pub users: u32,
    pub waits: [u32; WAITS],
    pub name: [u8; NAME],
}

/// `struct hsfq_link_ctl_queues`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CtlQueues {
    pub time_ns: u64,
    pub from: u32,
    pub count: u32,
    pub record: [QueueRecord; QUEUES],
}

/// `struct hsfq_link_grant`: key of the map `grants`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Grant {
    pub who: u64,
    pub kind: u32,
    pub queue: u32,
}

/// `struct hsfq_link_trace_record`: a packet that left.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct TraceRecord {
    /// CLOCK_MONOTONIC: it was let go, or dropped.
    pub time_ns: u64,
    /// It was queued.
    pub arrived_ns: u64,
    /// Its queue's id.
    pub queue: u32,
    /// The line of packets it was in, a leaf of the tree.
    pub line: u32,
    /// Bytes that it takes.
    pub length: u32,
    /// Whether it was dropped.
    pub dropped: u32,
}

macro_rules! plain {
    ($($name:ty: $size:expr;)*) => {
        $(
            // SAFETY: integers and byte arrays, without padding (sizes asserted).
            unsafe impl Plain for $name {}
            const _: () = assert!(size_of::<$name>() == $size);
        )*
    };
}

plain! {
    State: 48;
    CtlNode: 24 + NAME;
    CtlQueue: 32 + NAME;
    Counts: 64;
    CtlLink: 64 + 64 + 48;
    Rule: 88;
    CtlRule: 16 + 88;
    CtlCgroup: 16;
    NodeRecord: 32 + NAME;
    CtlNodes: 16 + NODES * (32 + NAME);
    QueueRecord: 104 + 4 * WAITS + NAME;
    CtlQueues: 16 + QUEUES * (104 + 4 * WAITS + NAME);
    Grant: 16;
    TraceRecord: 32;
}

// The kernel takes no larger context.
const _: () = assert!(size_of::<CtlNodes>() <= u16::MAX as usize);
const _: () = assert!(size_of::<CtlQueues>() <= u16::MAX as usize);
