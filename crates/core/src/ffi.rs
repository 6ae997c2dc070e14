// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C structures and functions as they are. Everything else goes through
//! [`crate::Tree`], which checks what C takes for granted.

use std::mem::{offset_of, size_of};

/// Capacity of a tree, `HSFQ_NODES` in C.
pub const NODES: usize = 16384;

/// What a flow (a child of an inner node, a thread of a leaf) carries.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    /// Start tag, in 1/1024 ns per unit of weight, modulo 2^64.
    pub start: u64,
    /// Remainder of the last division by the weight.
    pub rem: u32,
    /// The clock's epoch when the flow went to sleep.
    pub epoch: u32,
}

/// Virtual time of one server.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// v(t), unit as [`Flow::start`].
    pub vtime: u64,
    /// Greatest finish tag served.
    pub max_finish: u64,
    /// Least start tag that the last flow to arrive could have.
    pub arrival: u64,
    /// Eighths of the tag circle that v(t) has passed.
    pub epoch: u32,
    pad: u32,
}

/// One node of the tree, inner node or leaf.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // the fields are described in core/tree/hsfq.h
pub struct Node {
    pub flow: Flow,
    pub clock: Clock,
    pub order: u64,
    pub tail: u64,
    pub served_ns: u64,
    pub base: u64,
    pub since_ns: u64,
    pub misses: u64,
    pub mean_base: u64,
    pub mean_sum: u64,
    pub mean_weights: u64,
    pub weight: u32,
    pub flags: u32,
    pub parent: u32,
    pub depth: u32,
    pub heap: u32,
    pub up: u32,
    pub left: u32,
    pub right: u32,
    pub who: u32,
    pub slot: u32,
    pub children: u32,
    pub runnable: u32,
    pub weights: u32,
    pub threads: u32,
    pub waiting: u32,
    pub policy: u32,
    pub generation: u32,
    pub next: u32,
}

/// How much service a node may have.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // the fields are described in core/tree/budget.h
pub struct Budget {
    pub quota_ns: u64,
    pub period_ns: u64,
    pub burst_ns: u64,
    pub left_ns: i64,
    pub over_ns: u64,
    pub end_ns: u64,
    pub since_ns: u64,
    pub times: u64,
    pub held_ns: u64,
}

/// The whole tree: a header, all its nodes and their budgets.
#[repr(C)]
pub struct RawTree {
    pub order: u64,
    pub early: u64,
    pub release_ns: u64,
    pub free: u32,
    pub unused: u32,
    pub nodes: u32,
    pub runnable: u32,
    pub limited: u32,
    pub held: u32,
    pub idle: u32,
    pub servers: u32,
    pub passed: u32,
    pub solo: u32,
    pub owed_ns: u64,
    pub seen_ns: u64,
    pub node: [Node; NODES],
    pub budget: [Budget; NODES],
}

/// What a leaf policy keeps for each thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawThread {
    pub flow: Flow,
    pub weight: u32,
    pub generation: u32,
    pub left_ns: u64,
    pub early: u64,
    pub cost_ns: u64,
    pub period_ns: u64,
    pub deadline_ns: u64,
    pub due_ns: u64,
    pub missed_ns: u64,
    pub misses: u64,
    pub class: u16,
    pub priority: u16,
    pub level: u32,
    pub planned_ns: u64,
    pub lag: u64,
    pub mean_tag: u64,
    pub mean_weight: u32,
    pub mean_generation: u32,
}

/// A server, `struct sched_server` in C.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs)] // the fields are described in core/cpu/sched.h; pointers are C's alone
pub struct RawServer {
    pub th: usize,
    pub straight: usize,
    pub since_ns: u64,
    pub until_ns: u64,
    pub due_ns: u64,
    pub calm_ns: u64,
    pub next_ns: u64,
    pub next: u32,
    pub passed: u32,
    pub ending: u32,
    pub steps: u32,
}

/// How fast a processor has to be, `struct cpu_speed` in C.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs)] // the fields are described in core/cpu/speed.h
pub struct RawSpeed {
    pub since_ns: u64,
    pub rests_ns: u64,
    pub busy_ns: u64,
    pub idle_ns: u64,
    pub need: u32,
    pub over: u32,
}

/// A thread as shim.c is told of it.
#[repr(C)]
#[allow(missing_docs)]
pub struct ThreadView {
    pub lt: *mut RawThread,
    pub leaf: u32,
    pub waiting: bool,
    pub runnable: bool,
}

pub const USED: u32 = 1;
pub const LEAF: u32 = 2;
pub const RUNNABLE: u32 = 4;
pub const READY: u32 = 8;
pub const RETIRED: u32 = 16;
pub const PASSED: u32 = 32;
pub const LIMITED: u32 = 64;
pub const HELD: u32 = 128;
pub const IDLE: u32 = 256;

extern "C" {
    static qcore_layout: usize;
    static qcore_layout_len: usize;
    pub static qcore_tunables: crate::leaf::Tunables;

    pub fn qcore_init(t: *mut RawTree);
    pub fn qcore_mknod(t: *mut RawTree, parent: u32, weight: u32, flags: u32) -> i32;
    pub fn qcore_rmnod(t: *mut RawTree, n: u32) -> i32;
    pub fn qcore_set_weight(t: *mut RawTree, n: u32, weight: u32) -> i32;
    pub fn qcore_weigh(t: *mut RawTree, n: u32, weight: u32);
    pub fn qcore_setrun(t: *mut RawTree, leaf: u32);
    pub fn qcore_sleep(t: *mut RawTree, leaf: u32);
    pub fn qcore_ready(t: *mut RawTree, leaf: u32);
    pub fn qcore_busy(t: *mut RawTree, leaf: u32);
    pub fn qcore_schedule(t: *mut RawTree) -> u32;
    pub fn qcore_schedule_but(t: *mut RawTree) -> u32;
    pub fn qcore_update(t: *mut RawTree, leaf: u32, ns: u64);
    pub fn qcore_share(t: *const RawTree, leaf: u32, ns: u64) -> u64;
    pub fn qcore_node(t: *const RawTree, n: u32, to: *mut Node);
    pub fn qcore_precedes(t: *const RawTree, waiting: u32, running: u32, ns: u64) -> bool;
    pub fn qcore_contended(t: *const RawTree, leaf: u32) -> bool;
    pub fn qcore_idle_set(t: *mut RawTree, n: u32, idle: bool, weight: u32) -> i32;
    pub fn qcore_limit_set(
        t: *mut RawTree,
        n: u32,
        quota_ns: u64,
        period_ns: u64,
        burst_ns: u64,
        now: u64,
    ) -> i32;
    pub fn qcore_limit_release(t: *mut RawTree, n: u32, now: u64) -> bool;
    pub fn qcore_limit_held(t: *const RawTree, n: u32) -> bool;
    pub fn qcore_limit_left(t: *const RawTree, n: u32) -> u64;
    pub fn qcore_retire(t: *mut RawTree, n: u32);
    pub fn qcore_leaf_join(t: *mut RawTree, leaf: u32, th: *mut RawThread);
    pub fn qcore_leaf_leave(t: *mut RawTree, leaf: u32);
    pub fn qcore_leaf_arrive(t: *mut RawTree, leaf: u32, th: *mut RawThread, now: u64);
    pub fn qcore_leaf_pack(t: *mut RawTree, leaf: u32, th: *mut RawThread, runnable: bool) -> bool;
    pub fn qcore_leaf_unpack(
        t: *mut RawTree,
        leaf: u32,
        th: *mut RawThread,
        runnable: bool,
        ahead: i64,
        now: u64,
    );
    pub fn qcore_leaf_depart(t: *mut RawTree, leaf: u32, th: *mut RawThread);
    pub fn qcore_leaf_wait(t: *mut RawTree, leaf: u32);
    pub fn qcore_leaf_unwait(t: *mut RawTree, leaf: u32);
    pub fn qcore_leaf_take(t: *mut RawTree, leaf: u32);
    pub fn qcore_leaf_pass(t: *mut RawTree, leaf: u32, passed: u32) -> u32;
    pub fn qcore_leaf_restore(t: *mut RawTree, passed: u32) -> u32;
    pub fn qcore_leaf_serve(t: *mut RawTree, leaf: u32, th: *mut RawThread, planned_ns: u64);
    pub fn qcore_leaf_outranks(
        t: *const RawTree,
        leaf: u32,
        th: *const RawThread,
        chosen: u32,
        running_leaf: u32,
        running: *const RawThread,
        ns: u64,
        now_ns: u64,
    ) -> bool;
    pub fn qcore_quantum_goes_on(t: *const RawTree, leaf: u32, chosen: u32) -> bool;
    pub fn qcore_leaf_charge(t: *mut RawTree, leaf: u32, th: *mut RawThread, ns: u64, now: u64);
    pub fn qcore_leaf_yield(t: *mut RawTree, leaf: u32, th: *mut RawThread, now: u64);
    pub fn qcore_leaf_ahead(
        t: *const RawTree,
        leaf: u32,
        th: *const RawThread,
        ns: u64,
        now: u64,
    ) -> u64;
    pub fn qcore_leaf_slice(t: *const RawTree, leaf: u32, th: *const RawThread, now: u64) -> u64;
    pub fn qcore_leaf_set_policy(t: *mut RawTree, leaf: u32, policy: u32, now: u64) -> i32;
    pub fn qcore_leaf_reserve(th: *mut RawThread, cost: u64, period: u64, deadline: u64) -> i32;
    pub fn qcore_leaf_set_class(th: *mut RawThread, class: u32, priority: u32) -> i32;
    pub fn qcore_leaf_rekey(t: *mut RawTree, leaf: u32, th: *mut RawThread, now: u64);
    pub fn qcore_leaf_set_weight(
        t: *mut RawTree,
        leaf: u32,
        th: *mut RawThread,
        weight: u32,
        runnable: bool,
    ) -> i32;
    pub fn qcore_quantum_of(t: *const RawTree, leaf: u32, th: *const RawThread, now: u64) -> u64;
    pub fn qcore_quantum_overtakes(
        t: *const RawTree,
        waiting_leaf: u32,
        waiting: *const RawThread,
        leaf: u32,
        th: *const RawThread,
        ns: u64,
        now_ns: u64,
    ) -> bool;
    pub fn qcore_quantum_ends(
        t: *const RawTree,
        waiting_leaf: u32,
        waiting: *const RawThread,
        leaf: u32,
        th: *const RawThread,
        ns: u64,
        now_ns: u64,
        eager: bool,
    ) -> bool;
    pub fn qcore_leaf_near(t: *const RawTree, leaf: u32) -> u64;
    pub fn qcore_quantum_left(
        t: *const RawTree,
        waiting_leaf: u32,
        waiting: *const RawThread,
        leaf: u32,
        th: *const RawThread,
        ns: u64,
        now: u64,
        eager: bool,
    ) -> u64;
    pub fn qcore_quantum_eager(calm_ns: u64, now_ns: u64) -> bool;
    pub fn qcore_quantum_calm(calm_ns: u64, now_ns: u64) -> u64;
    pub fn qcore_sched_begin(
        t: *mut RawTree,
        s: *mut RawServer,
        th: *mut ThreadView,
        fixed_ns: u64,
        now: u64,
    ) -> u64;
    pub fn qcore_sched_end(
        t: *mut RawTree,
        th: *mut ThreadView,
        ran_ns: u64,
        sleeps: bool,
        now: u64,
    );
    pub fn qcore_sched_contest(
        t: *mut RawTree,
        s: *mut RawServer,
        waiting: *const ThreadView,
        serves: *const ThreadView,
        now: u64,
    ) -> crate::sched::Contest;
    pub fn qcore_sched_ends_elsewhere(
        t: *mut RawTree,
        s: *mut RawServer,
        waiting: *const ThreadView,
        serves: *const ThreadView,
        now: u64,
    ) -> bool;
    pub fn qcore_sched_outranks(
        t: *mut RawTree,
        other: *mut RawServer,
        before: *const ThreadView,
        serves: *const ThreadView,
        chosen: u32,
        now: u64,
    ) -> bool;
    pub fn qcore_sched_timer(s: *mut RawServer, now: u64);
    pub fn qcore_sched_give_way(s: *mut RawServer);
    pub fn qcore_sched_cut(s: *mut RawServer, due_ns: u64);
    pub fn qcore_sched_gives_way(s: *const RawServer) -> bool;
    pub fn qcore_speed_init(p: *mut RawSpeed, now: u64);
    pub fn qcore_speed_rests(p: *mut RawSpeed, now: u64);
    pub fn qcore_speed_serves(p: *mut RawSpeed, now: u64);
    pub fn qcore_speed_see(p: *mut RawSpeed, speed: u32, now: u64) -> u32;
    pub fn qcore_speed_over(p: *mut RawSpeed, now: u64) -> bool;
    pub fn qcore_rescue_waits(dies: bool, inside: bool, quanta: *mut u32) -> bool;
    pub fn qcore_rescue_reads_on(steps: u64) -> bool;
    pub fn qcore_rescue_now(
        waited_ns: u64,
        held: bool,
        dies: bool,
        inside: bool,
        reads: bool,
        left: *mut u32,
    ) -> bool;
    pub fn qcore_waits_count(w: *mut [u32; crate::waits::BUCKETS], wait_ns: u64);
    pub fn qcore_lending_size(n: u32) -> usize;
    pub fn qcore_lend_join(t: *mut RawTree, l: *mut u64, i: u32, leaf: u32, weight: u32);
    pub fn qcore_lend_wait(t: *mut RawTree, l: *mut u64, i: u32, now: u64);
    pub fn qcore_lend_serve(t: *mut RawTree, l: *mut u64, i: u32);
    pub fn qcore_lend_charge(t: *mut RawTree, l: *mut u64, i: u32, ns: u64, now: u64);
    pub fn qcore_lend_block(t: *mut RawTree, l: *mut u64, i: u32);
    pub fn qcore_lend_link(l: *mut u64, i: u32, holder: u32, what: u64) -> bool;
    pub fn qcore_lend_unlink(l: *mut u64, i: u32);
    pub fn qcore_lend_hand_over(l: *mut u64, from: u32, to: u32, what: u64);
    pub fn qcore_lend_set_weight(l: *mut u64, i: u32, weight: u32) -> i32;
    pub fn qcore_lend_move_home(t: *mut RawTree, l: *mut u64, i: u32, leaf: u32);
    pub fn qcore_lend_exit(t: *mut RawTree, l: *mut u64, i: u32);
    pub fn qcore_lend_settle(t: *mut RawTree, l: *mut u64, now: u64) -> bool;
    pub fn qcore_lend_due(l: *mut u64, now: u64) -> bool;
    pub fn qcore_lend_due_before(l: *mut u64, i: u32, now: u64) -> bool;
    pub fn qcore_lend_place(l: *const u64, i: u32) -> crate::lend::Place;
    pub fn qcore_ledger_size(domains: u32) -> usize;
    pub fn qcore_ledger_init(l: *mut u64, domains: u32);
    pub fn qcore_ledger_set_servers(l: *mut u64, domain: u32, servers: u32);
    pub fn qcore_ledger_mknod(l: *mut u64, n: u32, parent: u32, weight: u32, leaf: bool);
    pub fn qcore_ledger_rmnod(l: *mut u64, n: u32);
    pub fn qcore_ledger_set_weight(l: *mut u64, n: u32, weight: u32);
    pub fn qcore_ledger_see(
        l: *mut u64,
        leaf: u32,
        domain: u32,
        runnable: u32,
        weights: u32,
        runnable_ns: u64,
        served_ns: u64,
    );
    pub fn qcore_ledger_apart(l: *mut u64, n: u32, from: u32, to: u32) -> i64;
    pub fn qcore_ledger_share(l: *mut u64, n: u32, domain: u32) -> u32;
    pub fn qcore_ledger_settle(l: *mut u64, elapsed_ns: u64);
    pub fn qcore_ledger_move(l: *mut u64) -> crate::ledger::RawMove;
    pub fn qcore_readjust(child: *mut crate::readjust::Child, n: u32, capacity: u64) -> u64;
}

/// What `qcore_layout` in shim.c must hold, from Rust's point of view.
fn layout() -> Vec<usize> {
    macro_rules! offsets {
        ($type:ty: $($field:ident)*) => { [$(offset_of!($type, $field)),*] };
    }
    let mut all = vec![
        size_of::<Flow>(),
        size_of::<Clock>(),
        size_of::<Node>(),
        size_of::<RawTree>(),
        size_of::<RawThread>(),
        size_of::<Budget>(),
    ];
    all.extend(offsets!(Flow: rem epoch));
    all.extend(offsets!(Clock: max_finish arrival epoch));
    all.extend(
        offsets!(Node: flow clock order tail served_ns base since_ns misses mean_base mean_sum mean_weights weight flags parent depth heap up
        left right who slot children runnable weights threads waiting policy generation next),
    );
    all.extend(
        offsets!(RawTree: early release_ns free unused nodes runnable limited held idle servers passed solo owed_ns seen_ns node budget),
    );
    all.extend(
        offsets!(RawThread: weight generation left_ns early deadline_ns misses class level planned_ns lag mean_tag mean_weight mean_generation),
    );
    all.extend(offsets!(Budget: period_ns burst_ns left_ns over_ns end_ns since_ns times held_ns));
    all.extend([
        NODES,
        crate::DEPTH_MAX as usize,
        *crate::WEIGHTS.start() as usize,
        *crate::WEIGHTS.end() as usize,
        crate::TAG_SHIFT as usize,
        crate::LENGTH_MAX_NS as usize,
        size_of::<crate::leaf::Tunables>(),
        size_of::<crate::readjust::Child>(),
    ]);
    all.extend(offsets!(crate::readjust::Child: share weight full));
    all.push(size_of::<RawServer>());
    all.extend(
        offsets!(RawServer: straight since_ns until_ns due_ns calm_ns next_ns next passed ending steps),
    );
    all.push(size_of::<RawSpeed>());
    all.extend(offsets!(RawSpeed: busy_ns idle_ns need over));
    all.extend([
        crate::readjust::CPU as usize,
        crate::readjust::AMOUNT_MAX as usize,
        crate::waits::BUCKETS,
        size_of::<[u32; crate::waits::BUCKETS]>(),
        crate::ledger::CPU as usize,
        crate::ledger::DOMAINS_MAX as usize,
        crate::ledger::PERIOD_NS as usize,
        crate::ledger::SHARE_MAX as usize,
    ]);
    all
}

/// Whether Rust and C agree on every size, offset and constant.
pub fn layout_agrees() -> bool {
    // SAFETY: both are constants of shim.c; the slice is as long as C says.
    let c = unsafe { std::slice::from_raw_parts(&raw const qcore_layout, qcore_layout_len) };
    layout() == c
}

#[cfg(test)]
mod tests {
    #[test]
    fn rust_and_c_agree_on_the_layout() {
        assert!(super::layout_agrees());
    }
}
