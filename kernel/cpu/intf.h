/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * intf.h - what the CPU scheduler and user space say to each other
 *
 * Included by the BPF program and mirrored, with sizes asserted on both sides,
 * by the Rust library. Sizes are multiples of 8 and hold no pointers. Each
 * hsfq_ctl_* structure is the context of the "syscall" program of that name;
 * the program's return value is 0 or a negative errno.
 */
#ifndef QLINUX_CPU_INTF_H
#define QLINUX_CPU_INTF_H

enum {
	HSFQ_INTF_VERSION = 6,
	HSFQ_WAITS = 256,
	HSFQ_REASON_LEN = 128,
	HSFQ_MESSAGE_LEN = 1024,
};

/* What became of the scheduler; zero while it runs. In .bss as `hsfq_end`. */
struct hsfq_end {
	u64 kind;    /* enum scx_exit_kind, 0: running */
	s64 code;    /* exit code of an orderly exit */
	u64 time_ns; /* CLOCK_BOOTTIME */
	u64 done;    /* 1 once the texts are complete */
	char reason[HSFQ_REASON_LEN];
	char message[HSFQ_MESSAGE_LEN];
};

/* Totals since load. In .bss as `hsfq_totals`. */
struct hsfq_totals {
	u64 quanta;         /* services charged */
	u64 preemptions;    /* running threads ended early for a waiting class */
	u64 timer_ends;     /* quanta ended by the timer, between two ticks */
	u64 passed_over;    /* choices of a leaf with nothing for this CPU */
	u64 rescued;        /* threads served out of turn: they waited too long */
	u64 shared_cgroups; /* cgroups without a node of their own: tree full or too deep */
	u64 trace_lost;     /* trace records that found the buffer full */
	u64 lock_failures;  /* the tree's lock was not to be had: served in order of arrival */
	u64 moved;          /* threads that the ledger moved to another domain */
};

/* Loans of weight since load (core/cpu/lend.h). In .bss as `hsfq_lending`. */
struct hsfq_lending {
	u64 loans;    /* a thread was blocked, and its weight lent to who blocked it */
	u64 returned; /* and taken back */
	u64 chained;  /* of the loans, to a thread that was blocked itself */
	u64 guests;   /* threads served in another class, that of a lender */
};

/* hsfq_ctl_class: what the tree knows of a cgroup. */
struct hsfq_ctl_class {
	u64 cgroup_id; /* in */
	u64 served_ns; /* all service below it */
	u64 own_ns;    /* service of its own threads */
	u64 start_tag; /* S, in 1/1024 ns per unit of weight */
	u64 vtime;     /* v(t) of its children */
	u64 share_ppb; /* what it is entitled to now, of one CPU, in 1e-9 */
	u32 node;      /* index in the tree */
	u32 leaf;      /* index of the leaf of its own threads */
	u32 weight;
	u32 policy;       /* enum leaf_policy of its own threads */
	u32 threads;      /* its own, runnable or not */
	u32 runnable;     /* its own, runnable */
	u32 children;     /* child cgroups with a node */
	u32 shared;       /* 1: it has no node and shares this one of its ancestor */
	u64 misses;       /* deadlines of its own threads that passed unmet (edf, rm) */
	u64 throttled;    /* how often nothing was left of its budget (cpu.max) */
	u64 throttled_ns; /* and for how long, until it returned */
};

/* One leaf of the tree and the class whose own threads it holds. */
struct hsfq_class_record {
	u64 cgroup_id;
	u64 served_ns; /* all service below the class */
	u64 own_ns;    /* service of this leaf */
	u64 misses;    /* deadlines of its threads that passed unmet */
	u32 node;      /* the class's index in the tree */
	u32 leaf;
	u32 parent;      /* index of the class above it, 0: this is the root */
	u32 weight;      /* of the class among its siblings */
	u32 leaf_weight; /* of the leaf among the class's children */
	u32 policy;
	u32 threads;
	u32 runnable;          /* of the threads */
	u32 waits[HSFQ_WAITS]; /* core/cpu/waits.h: from waking to service */
};

/* hsfq_ctl_tree: the next leaf of the tree. Each figure is right; together they are as old as
 * the call is long, for the tree is not locked. One an answer: each would be one more copy of
 * what fills it in (control.h). */
struct hsfq_ctl_tree {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u32 from;    /* in: leaves from this index on, first 0; out: next one, 0: that was all */
	u32 count;   /* 1: the record is filled in */
	u32 caller;  /* leaf of the calling thread, 0: it is not scheduled here */
	u32 pad;
	struct hsfq_class_record record;
};

/* hsfq_ctl_policy: the leaf scheduler of a cgroup's own threads. */
struct hsfq_ctl_policy {
	u64 cgroup_id; /* in */
	u32 policy;    /* in */
	u32 pad;
};

/* hsfq_ctl_thread: one thread's place, weight and parameters. */
struct hsfq_ctl_thread {
	s32 tid;        /* in, initial PID namespace */
	u32 set_weight; /* in: 0 only look, 1…10000, or HSFQ_WEIGHT_NICE */
	u32 weight;
	u32 fixed; /* 1: set by hand, 0: follows the nice value */
	u64 cgroup_id;
	u64 served_ns;
	u64 key;
	/* Of every period_ns, cost_ns within deadline_ns (edf, rm); all 0: nothing
	 * is reserved. In with HSFQ_SET_RESERVATION, always out. */
	u64 cost_ns;
	u64 period_ns;
	u64 deadline_ns;
	u64 misses; /* its deadlines that passed unmet */
	/* enum leaf_svr4_class, and the priority of a real-time thread (svr4). In
	 * with HSFQ_SET_CLASS, always out. */
	u32 class;
	u32 priority;
	u32 set; /* in: HSFQ_SET_* */
	u32 pad;
};

enum hsfq_thread_set {
	HSFQ_SET_RESERVATION = 1,
	HSFQ_SET_CLASS = 2,
};

#define HSFQ_WEIGHT_NICE 0xffffffffU

/* Trace records, in the ring buffer `hsfq_trace`. */
enum hsfq_trace_kind {
	HSFQ_TRACE_QUANTUM = 1, /* a thread was served */
	HSFQ_TRACE_RUN = 2,     /* a leaf became runnable */
	HSFQ_TRACE_SLEEP = 3,   /* a leaf stopped being runnable */
	HSFQ_TRACE_WEIGHT = 4,  /* a node's weight changed */
};

struct hsfq_trace_record {
	u64 time_ns;   /* CLOCK of scx_bpf_now(): end of the quantum, or when it happened */
	u64 length_ns; /* service charged */
	u64 start_tag; /* of the leaf, before the charge; several CPUs: with what is planned;
			  several domains: in the tree of the CPU's */
	u32 leaf;
	u32 node; /* the leaf's class */
	s32 tid;
	u16 cpu;
	u16 kind;
	u32 weight; /* of the leaf; of kind 4, the node's new one */
	u32 pad;
};

#endif
