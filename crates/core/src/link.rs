// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of one interface in a tree of classes (core/link/link.h).

use crate::{Error, NodeId, Result};
use std::ops::RangeInclusive;

/// Packets that wait at an interface at most.
pub const PACKETS_MAX: u32 = 65535;
/// Queues of an interface.
pub const QUEUES_MAX: u32 = 4095;
/// Bytes a second that a link may be told to take.
pub const RATES: RangeInclusive<u64> = 125..=125_000_000_000;

/// In which order a leaf's packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Discipline {
    /// As they came.
    Fifo = 1,
    /// Its queues by their weights.
    Sfq = 2,
    /// The flows of its queues by their queues' weights.
    Fq = 3,
}

/// Names a queue. Removed ones are used again, last first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub(crate) u32);

impl QueueId {
    /// Its number, from 1.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What became of packets: enqueued = sent + refused + dropped + queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

#[repr(C)]
#[derive(Clone, Copy)]
struct RawNext {
    place: u32,
    line: u32,
    drop: bool,
    wait_ns: u64,
}

/// What the interface does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Sends the packet at this place of the store.
    Send(u32),
    /// Drops the packet at this place, and asks again.
    Drop(u32),
    /// Waits until then, in nanoseconds: the link is not free before.
    Wait(u64),
    /// Nothing is queued.
    Nothing,
}

/// When a queue is taken for one that stands (RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Goal {
    /// Packets may wait for that long; 0: for as long as they like.
    pub target_ns: u64,
    /// For that long they may wait longer.
    pub interval_ns: u64,
}

/// CoDel's state of one queue.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Codel {
    above_ns: u64,
    drop_ns: u64,
    count: u32,
    before: u32,
    inverse: u32,
    dropping: u32,
}

impl Codel {
    /// Whether the packet that leaves its queue now shall be dropped. It waited for `waited_ns`.
    pub fn drop(&mut self, goal: Goal, waited_ns: u64, bytes_left: u64, now_ns: u64) -> bool {
        let mut goal = goal;
        // SAFETY: both are C's structures.
        unsafe { c::qcore_codel_drop(self, &mut goal, waited_ns, bytes_left, 1514, now_ns) }
    }
}

#[allow(clippy::missing_safety_doc)]
mod c {
    use super::{Codel, Counts, Goal, RawNext};

    unsafe extern "C" {
        pub static qcore_link_layout: [usize; 9];
        pub static qcore_link_layout_len: usize;
        pub fn qcore_link_size() -> usize;
        pub fn qcore_link_init(l: *mut u64);
        pub fn qcore_link_mknod(l: *mut u64, parent: u32, weight: u32) -> i32;
        pub fn qcore_link_mkleaf(l: *mut u64, parent: u32, weight: u32, discipline: u32) -> i32;
        pub fn qcore_link_rmnod(l: *mut u64, n: u32) -> i32;
        pub fn qcore_link_set_weight(l: *mut u64, n: u32, weight: u32) -> i32;
        pub fn qcore_link_createq(l: *mut u64, weight: u32) -> i32;
        pub fn qcore_link_set_weightq(l: *mut u64, q: u32, weight: u32) -> i32;
        pub fn qcore_link_attachq(l: *mut u64, q: u32, leaf: u32) -> i32;
        pub fn qcore_link_rmq(l: *mut u64, q: u32) -> i32;
        pub fn qcore_link_limitq(l: *mut u64, q: u32, packets: u32, bytes: u64) -> i32;
        pub fn qcore_link_pace(
            l: *mut u64,
            rate: u64,
            overhead: u32,
            least: u32,
            now_ns: u64,
        ) -> i32;
        pub fn qcore_link_goal(l: *mut u64, goal: Goal);
        pub fn qcore_link_length(l: *mut u64, bytes: u32, segments: u32) -> u32;
        pub fn qcore_link_enqueue(
            l: *mut u64,
            q: u32,
            hash: u32,
            bytes: u32,
            length: u32,
            now_ns: u64,
        ) -> u32;
        pub fn qcore_link_dequeue(l: *mut u64, now_ns: u64) -> RawNext;
        pub fn qcore_link_flush(l: *mut u64) -> u32;
        pub fn qcore_link_counts(l: *const u64, q: u32, to: *mut Counts);
        pub fn qcore_link_queue_valid(l: *const u64, q: u32) -> bool;
        pub fn qcore_link_queued(l: *const u64, q: u32) -> u32;
        pub fn qcore_link_bytes(l: *const u64, q: u32) -> u64;
        pub fn qcore_link_lines(l: *const u64) -> u32;
        pub fn qcore_link_served(l: *mut u64, n: u32) -> u64;
        pub fn qcore_codel_drop(
            c: *mut Codel,
            goal: *mut Goal,
            waited_ns: u64,
            bytes_left: u64,
            longest: u32,
            now_ns: u64,
        ) -> bool;
    }
}

/// C's idea of the structures, beside ours.
#[doc(hidden)]
pub fn layout() -> (Vec<usize>, Vec<usize>) {
    use std::mem::{offset_of, size_of};
    // SAFETY: constants.
    let (c, len) = unsafe { (c::qcore_link_layout, c::qcore_link_layout_len) };
    let ours = vec![
        size_of::<Counts>(),
        offset_of!(Counts, dropped_bytes),
        size_of::<RawNext>(),
        offset_of!(RawNext, wait_ns),
        size_of::<Codel>(),
        size_of::<Goal>(),
        PACKETS_MAX as usize + 1,
        QUEUES_MAX as usize + 1,
        8192,
    ];
    (c[..len].to_vec(), ours)
}

/// An interface's tree, queues and packets. Packets are told by their places in the store.
///
/// ```
/// use qlinux_core::link::{Discipline, Link, Next};
/// use qlinux_core::NodeId;
///
/// let mut link = Link::new();
/// let mut queues = Vec::new();
/// for weight in [1, 3] {
///     let leaf = link.mkleaf(NodeId::ROOT, weight, Discipline::Fifo)?;
///     let queue = link.createq(1)?;
///     link.attachq(queue, leaf)?;
///     for _ in 0..100 {
///         link.enqueue(queue, 0, 1500, 0)?.expect("there is room");
///     }
///     queues.push(queue);
/// }
/// for _ in 0..100 {
///     assert!(matches!(link.dequeue(0), Next::Send(_)));
/// }
/// assert_eq!(link.counts(queues[0])?.sent, 25);
/// assert_eq!(link.counts(queues[1])?.sent, 75);
/// # Ok::<(), qlinux_core::Error>(())
/// ```
pub struct Link {
    memory: Vec<u64>,
}

impl Default for Link {
    fn default() -> Link {
        Link::new()
    }
}

impl Link {
    /// The root, no queues; CoDel's usual goal, no rate of its own.
    pub fn new() -> Link {
        // SAFETY: only computes.
        let size = unsafe { c::qcore_link_size() };
        let mut memory = vec![0; size.div_ceil(8)];
        // SAFETY: zeroed memory of that size.
        unsafe { c::qcore_link_init(memory.as_mut_ptr()) };
        Link { memory }
    }

    fn c(&mut self) -> *mut u64 {
        self.memory.as_mut_ptr()
    }

    fn queue(&self, q: QueueId) -> Result<u32> {
        // SAFETY: any number may be asked for.
        match unsafe { c::qcore_link_queue_valid(self.memory.as_ptr(), q.0) } {
            true => Ok(q.0),
            false => Err(Error::NoSuchQueue(q.0)),
        }
    }

    /// An inner node below an inner node.
    pub fn mknod(&mut self, parent: NodeId, weight: u32) -> Result<NodeId> {
        // SAFETY: C checks its arguments.
        let n = unsafe { c::qcore_link_mknod(self.c(), parent.number(), weight) };
        made(n, parent, weight)
    }

    /// A leaf below an inner node.
    pub fn mkleaf(&mut self, parent: NodeId, weight: u32, how: Discipline) -> Result<NodeId> {
        // SAFETY: C checks its arguments.
        let n = unsafe { c::qcore_link_mkleaf(self.c(), parent.number(), weight, how as u32) };
        made(n, parent, weight)
    }

    /// Removes a node without children, queues and packets.
    pub fn rmnod(&mut self, n: NodeId) -> Result<()> {
        // SAFETY: C checks its arguments.
        let code = unsafe { c::qcore_link_rmnod(self.c(), n.number()) };
        done(code, n, 0)
    }

    /// Another weight of a node, at once.
    pub fn set_weight(&mut self, n: NodeId, weight: u32) -> Result<()> {
        // SAFETY: C checks its arguments.
        let code = unsafe { c::qcore_link_set_weight(self.c(), n.number(), weight) };
        done(code, n, weight)
    }

    /// A queue that is attached nowhere: packets that come to it are refused.
    pub fn createq(&mut self, weight: u32) -> Result<QueueId> {
        // SAFETY: C checks its arguments.
        match unsafe { c::qcore_link_createq(self.c(), weight) } {
            q if q > 0 => Ok(QueueId(q as u32)),
            -34 => Err(Error::Weight(weight)),
            _ => Err(Error::NoQueue),
        }
    }

    /// Another weight of a queue.
    pub fn set_weightq(&mut self, q: QueueId, weight: u32) -> Result<()> {
        let q = self.queue(q)?;
        // SAFETY: C checks its arguments.
        match unsafe { c::qcore_link_set_weightq(self.c(), q, weight) } {
            0 => Ok(()),
            _ => Err(Error::Weight(weight)),
        }
    }

    /// Packets of the queue go to that leaf from now on. What it has queued stays where it is.
    pub fn attachq(&mut self, q: QueueId, leaf: NodeId) -> Result<()> {
        let q = self.queue(q)?;
        // SAFETY: C checks its arguments.
        match unsafe { c::qcore_link_attachq(self.c(), q, leaf.number()) } {
            0 => Ok(()),
            _ => Err(Error::NotLeaf(leaf)),
        }
    }

    /// Removes a queue without packets.
    pub fn rmq(&mut self, q: QueueId) -> Result<()> {
        let q = self.queue(q)?;
        // SAFETY: C checks its arguments.
        match unsafe { c::qcore_link_rmq(self.c(), q) } {
            0 => Ok(()),
            _ => Err(Error::QueueBusy(q)),
        }
    }

    /// What the queue may hold: 1 to [`PACKETS_MAX`] packets, at least one byte.
    pub fn limitq(&mut self, q: QueueId, packets: u32, bytes: u64) -> Result<()> {
        let q = self.queue(q)?;
        // SAFETY: C checks its arguments.
        match unsafe { c::qcore_link_limitq(self.c(), q, packets, bytes) } {
            0 => Ok(()),
            _ => Err(Error::QueueLimit),
        }
    }

    /// Bytes a second that the link takes, 0: as many as the device does; what each packet
    /// adds (up to 1024 bytes) and takes at least (up to 2048).
    pub fn pace(&mut self, rate: u64, overhead: u32, least: u32, now_ns: u64) -> Result<()> {
        // SAFETY: C checks its arguments.
        match unsafe { c::qcore_link_pace(self.c(), rate, overhead, least, now_ns) } {
            0 => Ok(()),
            _ => Err(Error::Rate),
        }
    }

    /// When a queue stands.
    pub fn set_goal(&mut self, goal: Goal) {
        // SAFETY: any goal is one.
        unsafe { c::qcore_link_goal(self.c(), goal) }
    }

    /// Bytes on the line of a packet that is sent in so many segments.
    pub fn length(&mut self, bytes: u32, segments: u32) -> u32 {
        // SAFETY: only computes.
        unsafe { c::qcore_link_length(self.c(), bytes, segments) }
    }

    /// A packet of the flow with this hash comes. Its place in the store; none: it is refused.
    pub fn enqueue(
        &mut self,
        q: QueueId,
        hash: u32,
        bytes: u32,
        now_ns: u64,
    ) -> Result<Option<u32>> {
        let q = self.queue(q)?;
        let length = self.length(bytes, 1);
        // SAFETY: the queue exists.
        match unsafe { c::qcore_link_enqueue(self.c(), q, hash, bytes, length, now_ns) } {
            0 => Ok(None),
            place => Ok(Some(place)),
        }
    }

    /// What is sent next.
    pub fn dequeue(&mut self, now_ns: u64) -> Next {
        // SAFETY: the state is C's own.
        let next = unsafe { c::qcore_link_dequeue(self.c(), now_ns) };
        match next {
            RawNext {
                place: 0,
                wait_ns: u64::MAX,
                ..
            } => Next::Nothing,
            RawNext {
                place: 0, wait_ns, ..
            } => Next::Wait(wait_ns),
            RawNext {
                place, drop: true, ..
            } => Next::Drop(place),
            RawNext { place, .. } => Next::Send(place),
        }
    }

    /// Drops a packet, because the interface goes. Its place; none: nothing is queued.
    pub fn flush(&mut self) -> Option<u32> {
        // SAFETY: the state is C's own.
        match unsafe { c::qcore_link_flush(self.c()) } {
            0 => None,
            place => Some(place),
        }
    }

    /// What became of the queue's packets.
    pub fn counts(&self, q: QueueId) -> Result<Counts> {
        let q = self.queue(q)?;
        Ok(self.raw_counts(q))
    }

    /// What became of the packets of queues that were removed.
    pub fn gone(&self) -> Counts {
        self.raw_counts(0)
    }

    fn raw_counts(&self, q: u32) -> Counts {
        let mut counts = Counts::default();
        // SAFETY: the queue exists, or it is 0.
        unsafe { c::qcore_link_counts(self.memory.as_ptr(), q, &mut counts) };
        counts
    }

    /// Packets and bytes that wait in the queue.
    pub fn queued(&self, q: QueueId) -> Result<(u32, u64)> {
        let (l, q) = (self.memory.as_ptr(), self.queue(q)?);
        // SAFETY: the queue exists.
        Ok(unsafe { (c::qcore_link_queued(l, q), c::qcore_link_bytes(l, q)) })
    }

    /// Packets and bytes that wait at the interface.
    pub fn backlog(&self) -> (u32, u64) {
        let l = self.memory.as_ptr();
        // SAFETY: 0 is the interface.
        unsafe { (c::qcore_link_queued(l, 0), c::qcore_link_bytes(l, 0)) }
    }

    /// Lines that leaves under sfq and fq have.
    pub fn lines(&self) -> u32 {
        // SAFETY: only reads.
        unsafe { c::qcore_link_lines(self.memory.as_ptr()) }
    }

    /// Bytes on the line that were sent from below the node.
    pub fn served(&mut self, n: NodeId) -> u64 {
        // SAFETY: C checks its argument.
        unsafe { c::qcore_link_served(self.c(), n.number()) }
    }
}

fn done(code: i32, n: NodeId, weight: u32) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::from_c(code, n, weight)),
    }
}

fn made(code: i32, parent: NodeId, weight: u32) -> Result<NodeId> {
    u32::try_from(code)
        .ok()
        .and_then(NodeId::from_number)
        .ok_or_else(|| Error::from_c(code, parent, weight))
}
