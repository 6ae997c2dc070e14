// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mirror of `kernel/cpu/intf.h`; `tests/intf.rs` holds the layouts together.

/// Version of the interface that this library speaks.
pub const VERSION: u32 = 6;
/// Buckets of a histogram of waits.
pub const WAITS: usize = 256;
/// Size of [`End::reason`].
pub const REASON_LEN: usize = 128;
/// Size of [`End::message`].
pub const MESSAGE_LEN: usize = 1024;
/// [`CtlThread::set_weight`]: follow the nice value again.
pub const WEIGHT_NICE: u32 = u32::MAX;

/// [`CtlThread::set`]: the reservation.
pub const SET_RESERVATION: u32 = 1;
/// [`CtlThread::set`]: scheduling class and priority.
pub const SET_CLASS: u32 = 2;

/// A structure that consists of integers and byte arrays without padding, so
/// that every pattern of bytes is a value of it.
///
/// # Safety
/// The implementor upholds just that.
pub unsafe trait Plain: Copy {
    /// A value of zeros.
    fn zeroed() -> Self {
        // SAFETY: zeros are a value of a Plain type.
        unsafe { std::mem::zeroed() }
    }

    /// The value whose memory begins with `bytes`; `None` when they are too few.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: the length is checked, and any bytes are a value of a Plain type.
        (bytes.len() >= size_of::<Self>())
            .then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
    }

    /// Its memory.
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: no padding, and any bytes written are a value of a Plain type.
        unsafe {
            std::slice::from_raw_parts_mut(std::ptr::from_mut(self).cast(), size_of::<Self>())
        }
    }
}

/// What became of the scheduler: `struct hsfq_end`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct End {
    /// `enum scx_exit_kind`, 0 while it runs.
    pub kind: u64,
    /// Exit code of an orderly exit.
    pub code: i64,
    /// When, CLOCK_BOOTTIME.
    pub time_ns: u64,
    /// 1 once the texts are complete.
    pub done: u64,
    /// The kernel's words for `kind`.
    pub reason: [u8; REASON_LEN],
    /// The particulars.
    pub message: [u8; MESSAGE_LEN],
}

/// Totals since load: `struct hsfq_totals`.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)] // described where they are shown, crate::cpu::Totals
pub struct Totals {
    pub quanta: u64,
    pub preemptions: u64,
    pub timer_ends: u64,
    pub passed_over: u64,
    pub rescued: u64,
    pub shared_cgroups: u64,
    pub trace_lost: u64,
    pub lock_failures: u64,
    pub moved: u64,
}

/// Loans of weight since load: `struct hsfq_lending`.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)] // described where they are shown, crate::cpu::Lending
pub struct Lending {
    pub loans: u64,
    pub returned: u64,
    pub chained: u64,
    pub guests: u64,
}

/// Context of the program `hsfq_ctl_class`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CtlClass {
    /// In: whose.
    pub cgroup_id: u64,
    /// All service below it.
    pub served_ns: u64,
    /// Service of its own threads.
    pub own_ns: u64,
    /// Start tag S.
    pub start_tag: u64,
    /// v(t) of its children.
    pub vtime: u64,
    /// Its entitlement now, of one processor, in 1e-9.
    pub share_ppb: u64,
    /// Index in the tree.
    pub node: u32,
    /// Index of the leaf of its own threads.
    pub leaf: u32,
    /// Weight among its siblings.
    pub weight: u32,
    /// Number of its leaf scheduler.
    pub policy: u32,
    /// Own threads, runnable or not.
    pub threads: u32,
    /// Own threads that are runnable.
    pub runnable: u32,
    /// Child cgroups with a node.
    pub children: u32,
    /// 1: it has no node and shares this one of its ancestor.
    pub shared: u32,
    /// Deadlines of its own threads that passed unmet.
    pub misses: u64,
    /// How often nothing was left of its budget.
    pub throttled: u64,
    /// And for how long.
    pub throttled_ns: u64,
}

/// One leaf of the tree and the class whose own threads it holds.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ClassRecord {
    /// The class.
    pub cgroup_id: u64,
    /// All service below it.
    pub served_ns: u64,
    /// Service of this leaf.
    pub own_ns: u64,
    /// Deadlines of its threads that passed unmet.
    pub misses: u64,
    /// The class's index in the tree.
    pub node: u32,
    /// The leaf's.
    pub leaf: u32,
    /// That of the class above it, 0: it is the root.
    pub parent: u32,
    /// Weight of the class among its siblings.
    pub weight: u32,
    /// Weight of the leaf among the class's children.
    pub leaf_weight: u32,
    /// Number of the leaf scheduler.
    pub policy: u32,
    /// The leaf's threads, runnable or not.
    pub threads: u32,
    /// Those of them that are runnable.
    pub runnable: u32,
    /// How long threads waited from waking to service (`core/cpu/waits.h`).
    pub waits: [u32; WAITS],
}

/// Context of the program `hsfq_ctl_tree`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CtlTree {
    /// When, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// In: leaves from this index on, at first 0. Out: the next one, 0 for none.
    pub from: u32,
    /// 1: the record is filled in.
    pub count: u32,
    /// Leaf of the calling thread, 0: it is not scheduled by H-SFQ.
    pub caller: u32,
    /// Always 0.
    pub pad: u32,
    /// The leaf's.
    pub record: ClassRecord,
}

/// Context of the program `hsfq_ctl_policy`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CtlPolicy {
    /// In: whose.
    pub cgroup_id: u64,
    /// In: number of the leaf scheduler.
    pub policy: u32,
    /// Always 0.
    pub pad: u32,
}

/// Context of the program `hsfq_ctl_thread`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CtlThread {
    /// In: thread, in the initial PID namespace.
    pub tid: i32,
    /// In: 0 to only look, a weight, or [`WEIGHT_NICE`].
    pub set_weight: u32,
    /// Its weight.
    pub weight: u32,
    /// 1: set by hand, 0: follows the nice value.
    pub fixed: u32,
    /// Its class.
    pub cgroup_id: u64,
    /// Service since the scheduler knows it.
    pub served_ns: u64,
    /// Its key in the leaf.
    pub key: u64,
    /// C of its reservation; 0: nothing is reserved. In with [`SET_RESERVATION`].
    pub cost_ns: u64,
    /// T of its reservation.
    pub period_ns: u64,
    /// D of its reservation.
    pub deadline_ns: u64,
    /// Its deadlines that passed unmet.
    pub misses: u64,
    /// Its scheduling class under svr4. In with [`SET_CLASS`].
    pub class: u32,
    /// Its real-time priority under svr4.
    pub priority: u32,
    /// In: what else to change.
    pub set: u32,
    /// Always 0.
    pub pad: u32,
}

/// One record of the ring buffer `hsfq_trace`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TraceRecord {
    /// End of the quantum, or when it happened.
    pub time_ns: u64,
    /// Service charged.
    pub length_ns: u64,
    /// Of the leaf, before the charge.
    pub start_tag: u64,
    /// Leaf.
    pub leaf: u32,
    /// The leaf's class.
    pub node: u32,
    /// Thread, 0 where none is concerned.
    pub tid: i32,
    /// Processor.
    pub cpu: u16,
    /// 1 quantum, 2 run, 3 sleep, 4 weight.
    pub kind: u16,
    /// Of the leaf; in a record of kind 4, the node's new one.
    pub weight: u32,
    /// Always 0.
    pub pad: u32,
}

/// Value of the map `cgroups`: `struct cgroup_nodes`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CgroupNodes {
    /// The class's node.
    pub node: u32,
    /// Leaf of its own threads.
    pub leaf: u32,
    /// 1: node and leaf are an ancestor's.
    pub shared: u32,
    /// Always 0.
    pub pad: u32,
}

// SAFETY: integers and byte arrays, without padding (sizes asserted below).
unsafe impl Plain for End {}
// SAFETY: as above.
unsafe impl Plain for Totals {}
// SAFETY: as above.
unsafe impl Plain for Lending {}
// SAFETY: as above.
unsafe impl Plain for CtlClass {}
// SAFETY: as above.
unsafe impl Plain for ClassRecord {}
// SAFETY: as above.
unsafe impl Plain for CtlTree {}
// SAFETY: as above.
unsafe impl Plain for CtlPolicy {}
// SAFETY: as above.
unsafe impl Plain for CtlThread {}
// SAFETY: as above.
unsafe impl Plain for TraceRecord {}
// SAFETY: as above.
unsafe impl Plain for CgroupNodes {}

const _: () = {
    assert!(size_of::<End>() == 32 + REASON_LEN + MESSAGE_LEN);
    assert!(size_of::<Totals>() == 72);
    assert!(size_of::<Lending>() == 32);
    assert!(size_of::<CtlClass>() == 104);
    assert!(size_of::<ClassRecord>() == 64 + 4 * WAITS);
    assert!(size_of::<CtlTree>() == 24 + size_of::<ClassRecord>());
    // The kernel takes no larger context.
    assert!(size_of::<CtlTree>() <= u16::MAX as usize);
    assert!(size_of::<CtlPolicy>() == 16);
    assert!(size_of::<CtlThread>() == 88);
    assert!(size_of::<TraceRecord>() == 48);
    assert!(size_of::<CgroupNodes>() == 16);
};
