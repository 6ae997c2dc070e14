/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * state.h - what the CPU scheduler keeps, and where
 *
 * In the arena: the tree, every thread, what each CPU is doing. In maps: which
 * thread and which nodes belong to a task and a cgroup, timers, the trace.
 */
#ifndef QLINUX_CPU_STATE_H
#define QLINUX_CPU_STATE_H

const volatile bool use_timer = true; /* false: PREEMPT_RT refuses bpf_timer */
const volatile bool by_load = false;  /* the kernel is told how fast each CPU has to be */
const volatile bool trace_on = false;
const volatile bool lending_on = false; /* for user space: who waits for whom is watched */
/* For tests: the tree's lock is not to be had once in so many nanoseconds, 0: never. */
const volatile u64 fail_lock_ns = 0;
const volatile u32 intf_version = HSFQ_INTF_VERSION;
const volatile bool uneven = false;     /* some CPUs are slower than others */
const volatile u8 cpu_fast[CPUS_MAX];   /* of each CPU: it is not */
const volatile u8 cpu_domain[CPUS_MAX]; /* of each CPU (domains.h) */
const volatile u16 cpu_after[CPUS_MAX]; /* the next CPU of its domain, the first after the last */

struct hsfq_end hsfq_end;
struct hsfq_totals hsfq_totals;
struct hsfq_lending hsfq_lending;

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << 20); /* pages: room for 64 M threads */
	__ulong(map_extra, ARENA_START);
} arena SEC(".maps");

/* A program that uses an arena must name it. Those that only use what has an address of its own
 * there (room.h) would not. */
static __always_inline void name_arena(void)
{
	asm volatile("" : : "r"(&arena));
}

struct thread {
	struct lend_thread;          /* lt, leaf, waiting, runnable and its loans */
	u64 charged;                 /* se.sum_exec_runtime up to which service is charged */
	u64 served_ns;               /* all service since it is known here */
	u32 fixed;                   /* weight set by hand */
	u32 chosen;                  /* it has competed for its next quantum, and won */
	u64 hungry_ns;               /* waits for service since then, 0: does not */
	u64 woke_ns;                 /* became runnable then and was not served since, 0: it was */
	struct waits __arena *waits; /* of its leaf */
	u32 queue;                   /* the queue in which it waits */
	s32 tid;
	u32 inside;   /* quanta inside a system call while its class is held */
	u32 slice_ns; /* that it was given last, and most likely is again */
	u64 task;     /* address of its task, to recognise it by; 0: free */
	struct thread __arena *next_free;
};

struct cpu_state {
	struct sched_server;         /* whom it serves, and until when */
	struct thread __arena *last; /* the last that ran here */
	u64 armed;                   /* the timer fires then, 0: not set */
	struct cpu_speed speed;      /* how fast it has to be */
	u64 leaving;                 /* it goes offline, or is */
};

/* Where the tree and the CPUs are (room.h). */
#define cpus ((struct cpu_state __arena *)(ARENA_START + (1ULL << 31)))

struct cgroup_nodes {
	u32 node;
	u32 leaf;
	u32 shared;
	u32 weight; /* cpu.weight, also while it is idle */
};

struct lend_book __arena loans;
u64 __arena leaf_cgroup[HSFQ_NODES];                  /* cgroup id, by leaf */
u8 __arena leaf_has_queue[HSFQ_NODES];                /* its dispatch queue exists */
struct thread __arena *__arena seen[SEEN];            /* by thread id: the last one looked up */
struct waits __arena *__arena leaf_waits[HSFQ_NODES]; /* from waking to service, by leaf */
struct waits __arena no_waits;                        /* of leaves without */
struct waits __arena no_counts;                       /* zeros, to be read */
struct thread __arena *__arena free_threads;
struct {
	struct waits __arena *next;
	u32 left;
} __arena spare_waits;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct cgroup_nodes);
} cgroups SEC(".maps");

struct task_ref {
	struct thread __arena *th;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ref);
} threads SEC(".maps");

struct quantum_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one a CPU, sized before load */
	__type(key, u32);
	__type(value, struct quantum_timer);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct quantum_timer);
} rescue_timer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* sized before load */
} hsfq_trace SEC(".maps");

/* The time now. One CPU is robbed of no thread, so what its run queue keeps is good everywhere. */
static __always_inline u64 clock_now(void)
{
	return nr_cpus == 1 ? clock_of_queue() : bpf_ktime_get_ns();
}

#endif
