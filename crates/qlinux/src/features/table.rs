// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the schedulers use of a kernel that not every kernel from 6.12 on has, and what stands
//! in for it.

use super::types::Ask::{self, Call, Constant, Member};
use crate::check::Resource;

/// Something that the schedulers use.
pub struct Feature {
    /// Short and stable, for programs.
    pub name: &'static str,
    /// In words.
    pub what: &'static str,
    /// Which scheduler uses it.
    pub resource: Resource,
    /// The first kernel that has it.
    pub since: &'static str,
    /// It is there if all of these are.
    pub is: &'static [Ask],
    /// If it is not: one of these groups must be there.
    pub stand_in: &'static [&'static [Ask]],
    /// What is done then.
    pub instead: &'static str,
    /// What that costs the user; empty: nothing that could be noticed.
    pub cost: &'static str,
    /// Says nothing where this is lacking too.
    pub unless: &'static str,
}

/// No question, so always there.
const NOTHING: &[&[Ask]] = &[&[]];
/// Nothing can stand in.
const NEVER: &[&[Ask]] = &[];

/// The scheduling class that programs fill in.
pub const SCHED_EXT: &str = "sched_ext";
/// Limits of classes.
pub const LIMITS: &str = "cgroup_set_bandwidth";
/// Idle classes.
pub const IDLE: &str = "cgroup_set_idle";
/// Idle classes that are idle already when the scheduler starts.
pub const IDLE_AT_START: &str = "sched_idle";
/// Timers in BPF programs.
pub const TIMERS: &str = "bpf_timer";
/// Classes in sched_ext.
pub const GROUPS: &str = "cgroup_init";

/// Where the members and constants are.
const OPS: &str = "sched_ext_ops";
const INIT: &str = "scx_cgroup_init_args";

/// Everything that the CPU's and the links' programs call or fill in.
pub const ALL: &[Feature] = &[
    Feature {
        name: SCHED_EXT,
        what: "functions of sched_ext that H-SFQ calls",
        resource: Resource::Cpu,
        since: "6.12",
        is: &[
            Call("scx_bpf_kick_cpu", 2),
            Call("scx_bpf_create_dsq", 2),
            Call("scx_bpf_select_cpu_dfl", 4),
            Call("scx_bpf_pick_idle_cpu", 2),
            Call("scx_bpf_cpuperf_cur", 1),
            Call("scx_bpf_cpuperf_set", 2),
            Call("scx_bpf_dsq_nr_queued", 1),
            Call("scx_bpf_get_online_cpumask", 0),
            Call("scx_bpf_put_cpumask", 1),
            Call("scx_bpf_error_bstr", 3),
            Call("bpf_iter_scx_dsq_new", 3),
            Call("bpf_iter_scx_dsq_next", 1),
            Call("bpf_iter_scx_dsq_destroy", 1),
        ],
        stand_in: NEVER,
        instead: "",
        cost: "H-SFQ cannot be loaded",
        unless: "",
    },
    Feature {
        name: "bpf",
        what: "functions of BPF that H-SFQ calls",
        resource: Resource::Cpu,
        since: "6.9",
        is: &[
            Call("bpf_task_release", 1),
            Call("bpf_task_from_pid", 1),
            Call("bpf_cgroup_ancestor", 2),
            Call("bpf_cgroup_release", 1),
            Call("bpf_rcu_read_lock", 0),
            Call("bpf_rcu_read_unlock", 0),
            Call("bpf_cpumask_test_cpu", 2),
            Call("bpf_cpumask_create", 0),
            Call("bpf_cpumask_set_cpu", 2),
            Call("bpf_cpumask_release", 1),
            Call("bpf_arena_alloc_pages", 5),
        ],
        stand_in: NEVER,
        instead: "",
        cost: "H-SFQ cannot be loaded",
        unless: "",
    },
    Feature {
        name: GROUPS,
        what: "classes in sched_ext (CONFIG_EXT_GROUP_SCHED)",
        resource: Resource::Cpu,
        since: "6.12",
        is: &[Member(OPS, "cgroup_init"), Member(OPS, "cgroup_set_weight")],
        stand_in: NEVER,
        instead: "",
        cost: "H-SFQ cannot be loaded",
        unless: "",
    },
    Feature {
        name: "scx_bpf_dsq_insert",
        what: "dispatch queues under their present names",
        resource: Resource::Cpu,
        since: "6.13",
        is: &[
            Call("scx_bpf_dsq_insert", 4),
            Call("scx_bpf_dsq_move_to_local", 1),
            Call("scx_bpf_dsq_move", 4),
            Call("scx_bpf_dsq_move_vtime", 4),
            Call("scx_bpf_dsq_move_set_slice", 2),
            Call("scx_bpf_dsq_move_set_vtime", 2),
        ],
        stand_in: &[&[
            Call("scx_bpf_dispatch", 4),
            Call("scx_bpf_consume", 1),
            Call("scx_bpf_dispatch_from_dsq", 4),
            Call("scx_bpf_dispatch_vtime_from_dsq", 4),
            Call("scx_bpf_dispatch_from_dsq_set_slice", 2),
            Call("scx_bpf_dispatch_from_dsq_set_vtime", 2),
        ]],
        instead: "their names of 6.12",
        cost: "",
        unless: "",
    },
    Feature {
        name: "scx_bpf_now",
        what: "the scheduler's clock",
        resource: Resource::Cpu,
        since: "6.14",
        is: &[Call("scx_bpf_now", 0)],
        stand_in: NOTHING,
        instead: "bpf_ktime_get_ns, read each time",
        cost: "",
        unless: "",
    },
    Feature {
        name: "bpf_task_from_vpid",
        what: "threads by their number in a container",
        resource: Resource::Cpu,
        since: "6.14",
        is: &[Call("bpf_task_from_vpid", 1)],
        stand_in: &[&[Call("bpf_task_from_pid", 1)]],
        instead: "bpf_task_from_pid",
        cost: "weight is lent to holders of locks in the initial PID namespace only, not in containers",
        unless: "",
    },
    Feature {
        name: "SCX_OPS_ENQ_MIGRATION_DISABLED",
        what: "threads that must not migrate are queued as others",
        resource: Resource::Cpu,
        since: "6.14",
        is: &[Constant("scx_ops_flags", "SCX_OPS_ENQ_MIGRATION_DISABLED")],
        stand_in: NOTHING,
        instead: "the flag is left out",
        cost: "",
        unless: "",
    },
    Feature {
        name: "bpf_res_spin_lock",
        what: "a lock with a time-out",
        resource: Resource::Cpu,
        since: "6.15",
        is: &[
            Call("bpf_res_spin_lock", 1),
            Call("bpf_res_spin_unlock", 1),
            Call("bpf_res_spin_lock_irqsave", 2),
            Call("bpf_res_spin_unlock_irqrestore", 2),
        ],
        stand_in: NOTHING,
        instead: "bpf_spin_lock, which waits for ever",
        cost: "a fault of H-SFQ while it holds its lock would hang the machine, not end H-SFQ",
        unless: "",
    },
    Feature {
        name: LIMITS,
        what: "limits of classes (cpu.max)",
        resource: Resource::Cpu,
        since: "6.17",
        is: &[
            Member(OPS, "cgroup_set_bandwidth"),
            Member(INIT, "bw_period_us"),
            Member(INIT, "bw_quota_us"),
            Member(INIT, "bw_burst_us"),
        ],
        stand_in: NOTHING,
        instead: "the kernel does not tell H-SFQ of them",
        cost: "shares hold, limits of classes (cpu.max) do not while H-SFQ is up",
        unless: "",
    },
    Feature {
        name: "scx_bpf_dsq_peek",
        what: "the first thread of a queue, at a glance",
        resource: Resource::Cpu,
        since: "6.19",
        is: &[Call("scx_bpf_dsq_peek", 1)],
        stand_in: &[&[Call("bpf_iter_scx_dsq_new", 3)]],
        instead: "the queue's iterator",
        cost: "",
        unless: "",
    },
    Feature {
        name: "scx_bpf_task_set_slice",
        what: "a function that sets a thread's slice",
        resource: Resource::Cpu,
        since: "6.19",
        is: &[Call("scx_bpf_task_set_slice", 2)],
        stand_in: &[&[Member("sched_ext_entity", "slice")]],
        instead: "it is written into the thread's own account",
        cost: "",
        unless: "",
    },
    Feature {
        name: "__scx_bpf_dsq_insert_vtime",
        what: "insertion by key, its arguments in a structure",
        resource: Resource::Cpu,
        since: "6.19",
        is: &[Call("__scx_bpf_dsq_insert_vtime", 2)],
        stand_in: &[
            &[Call("scx_bpf_dsq_insert_vtime", 5)],
            &[Call("scx_bpf_dispatch_vtime", 5)],
        ],
        instead: "the form with five arguments",
        cost: "",
        unless: "",
    },
    Feature {
        name: "__scx_bpf_select_cpu_and",
        what: "an idle CPU of a domain or among the fast ones, the arguments in a structure",
        resource: Resource::Cpu,
        since: "6.19",
        is: &[Call("__scx_bpf_select_cpu_and", 3)],
        stand_in: &[
            &[Call("scx_bpf_select_cpu_and", 5)],
            &[Call("scx_bpf_select_cpu_dfl", 4)],
        ],
        instead: "the form with five arguments; before 6.16 an idle CPU of all",
        cost: "",
        unless: "",
    },
    Feature {
        name: IDLE,
        what: "idle classes (cpu.idle)",
        resource: Resource::Cpu,
        since: "6.19",
        is: &[Member(OPS, "cgroup_set_idle")],
        stand_in: NOTHING,
        instead: "the kernel does not tell H-SFQ of them",
        cost: "idle classes (cpu.idle) share by their weight while H-SFQ is up",
        unless: "",
    },
    Feature {
        name: IDLE_AT_START,
        what: "classes that are idle when H-SFQ starts",
        resource: Resource::Cpu,
        since: "7.3",
        is: &[Member(INIT, "sched_idle")],
        stand_in: NOTHING,
        instead: "`qlinux up cpu` writes their cpu.idle again",
        cost: "",
        unless: IDLE,
    },
    Feature {
        name: "bpf_qdisc",
        what: "queueing disciplines in BPF (CONFIG_NET_SCH_BPF)",
        resource: Resource::Link,
        since: "6.16",
        is: &[
            Call("bpf_qdisc_skb_drop", 2),
            Call("bpf_kfree_skb", 1),
            Call("bpf_skb_get_hash", 1),
            Call("bpf_qdisc_watchdog_schedule", 3),
            Call("bpf_qdisc_bstats_update", 2),
        ],
        stand_in: NEVER,
        instead: "",
        cost: "links cannot be scheduled",
        unless: "",
    },
    Feature {
        name: "bpf_link",
        what: "functions of BPF that links call",
        resource: Resource::Link,
        since: "6.15",
        is: &[
            Call("bpf_res_spin_lock_irqsave", 2),
            Call("bpf_res_spin_unlock_irqrestore", 2),
            Call("bpf_rdonly_cast", 2),
        ],
        stand_in: NEVER,
        instead: "",
        cost: "links cannot be scheduled",
        unless: "bpf_qdisc",
    },
];
