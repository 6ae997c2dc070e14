// SPDX-License-Identifier: GPL-2.0-only
/*
 * hsfq_cpu - H-SFQ on sched_ext
 *
 * The policy is core/tree/hsfq.h and core/cpu/leaf.h; this file only connects it to
 * sched_ext. A cgroup is an inner node plus the leaf of its own threads:
 *
 *        cgroup tree            nodes
 *          /                    root ─┬─ leaf of the root cgroup's own threads
 *                                    ├─ leaf of the kernel's threads
 *          ├─ a (100)                 ├─ a ── leaf of a's own threads
 *          └─ b (300)                 └─ b ─┬─ leaf of b's own threads
 *             └─ c (100)                    └─ c ── leaf of c's own threads
 *
 * Waiting threads of a leaf are in a dispatch queue of the kernel, ordered by
 * the key that the leaf's scheduler gave them, so the kernel never loses one.
 *
 *   ops.enqueue   hsfq_setrun        ops.dispatch  hsfq_update, hsfq_schedule
 *   ops.stopping  hsfq_update, hsfq_sleep
 *
 * A thread is *waiting* from ops.enqueue until it runs, or is not runnable any
 * more. A leaf is ready while a thread of it waits. In ops.dispatch the running
 * thread, whose quantum is over, counts as waiting too: it competes for the next
 * quantum. A thread that wakes beside an idle CPU runs there at once, and is
 * first heard of in ops.running.
 *
 * Quanta that bound another class's wait (core/cpu/quantum.h) are often shorter
 * than the tick; one timer a CPU ends those.
 *
 * Locking: a lock guards the tree and every struct thread in it (with many CPUs there are
 * several: domains.h). No kfunc may be called under it, so everything is chosen under the lock
 * and done after it.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "../arena.h"
#include "../compat.h"

#define CORE_HAVE_TYPES
#define CORE_MEM    __arena
#define CORE_MORE   can_loop
#define CORE_FN     static inline __attribute__((unused))
#define CORE_INLINE static __always_inline __attribute__((unused))
#define CORE_COLD   static __noinline __attribute__((unused))
#define CORE_STEP   __noinline
#define CORE_STATE  __arg_arena
#define CORE_AT     ARENA_AT
#define CORE_ALONE  (nr_cpus == 1)
static volatile u32 unknown_zero;
#define CORE_ZERO unknown_zero
/* The verifier would follow each value that it knows through every loop that comes after. */
#define CORE_FORGET(number, by) asm volatile("%0 ^= %1\n%0 ^= %1" : "+r"(number) : "r"(by))
#define CORE_SEVERAL(t)         (nr_cpus > 1)
#ifdef SINGLE_CPU
#define nr_cpus    1U
#define nr_domains 1U
#else
const volatile u32 nr_cpus = 1;
const volatile u32 nr_domains = 1; /* domains.h */
#define CORE_HIERARCHY(t) (&hierarchy)
#define CORE_RUNNABLE(t, leaf, more, now_ns)                                                       \
	do {                                                                                       \
		if (nr_domains > 1)                                                                \
			((struct domain __arena *)(t))->runnable_ns[leaf] -= (more) * (now_ns);    \
	} while (0)
#define CORE_COUNT(n)                                                                              \
	do {                                                                                       \
		if (nr_domains > 1)                                                                \
			__sync_fetch_and_add(&(n), 1);                                             \
		else                                                                               \
			(n)++;                                                                     \
	} while (0)
#endif
#include "once.h"
#include "intf.h"

char _license[] SEC("license") = "GPL";

#define ENOENT          2
#define ESRCH           3
#define ENOMEM          12
#define EBUSY           16
#define EINVAL          22
#define NUMA_NO_NODE    (-1)
#define CLOCK_MONOTONIC 1

#define CPUS_MAX 8192
/* Threads looked up lately; a power of two. */
#define SEEN 4096
/* The root cgroup's own threads: the first leaf ever made. */
#define ROOT_LEAF (HSFQ_ROOT + 1)
/* Kernel threads in the root cgroup: the second. They do little and everybody
 * waits for them (RCU, writeback), so no weight of a class may starve them. */
#define KERNEL_LEAF (HSFQ_ROOT + 2)
#define PF_KTHREAD  0x00200000

#include "state.h"
#include "domains.h"
#include "room.h"
#include "lock.h"
#include "accounts.h"
#include "speed.h"
#include "rescue.h"
#include "limits.h"
#include "quanta.h"
#include "service.h"
#include "lend.h"
#include "others.h"
#include "ledger.h"

/* ---- sched_ext callbacks ----------------------------------------------- */

SEC("struct_ops/op_select_cpu")
s32 BPF_PROG(op_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct thread __arena *th = hierarchy.held ? thread_of(p) : NULL;
	bool idle = false;
	s32 cpu;

	if (nr_cpus == 1 || (th && must_wait(p, th)))
		return prev_cpu;
	cpu = uneven ? idle_fast(p, prev_cpu, wake_flags) : -EBUSY;
	if (cpu < 0 && nr_domains > 1)
		cpu = idle_at_home(p, prev_cpu, wake_flags);
	if (cpu >= 0)
		idle = true;
	else
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	/* `idle` is said of the waker's own CPU, too. */
	if (idle && (wake_flags & SCX_WAKE_SYNC) && cpu == (s32)bpf_get_smp_processor_id() &&
	    cpu_of(cpu)->th)
		idle = sched_may_follow(tree_at(domain_of(cpu)));
	if (idle)
		dsq_insert(p, SCX_DSQ_LOCAL, QUANTUM_ALONE_NS, 0);
	else if (nr_domains > 1 && (wake_flags & SCX_WAKE_FORK) && (th = thread_of(p)))
		cpu = cpu_for_new(p, th->leaf, cpu);
	return cpu;
}

/*
 * The thread's quantum is over, and ops.dispatch or ops.stopping has told the tree that it waits.
 * Nothing is left to be asked there. Should a loan change its key meanwhile, ops.dispatch looks for
 * it until it is in its queue.
 */
static void put_back(struct task_struct *p, struct thread __arena *th, struct dsq_place *to,
		     u64 now)
{
	bool held = limit_held(tree_of(th), th->leaf), stays = held;
	s32 idle = -EBUSY;

	th->chosen = 1;
	if (!th->hungry_ns)
		th->hungry_ns = now;
	/* Nobody else waits for this CPU. */
	if (uneven && (to->enq_flags & SCX_ENQ_LAST) && !held) {
		idle = idle_fast(p, task_cpu(p), 0);
		stays = idle < 0;
	}
	if (stays && !must_wait(p, th)) {
		dsq_insert(p, SCX_DSQ_LOCAL, QUANTUM_MIN_NS, to->enq_flags);
		return;
	}
	to->dsq_id = th->queue = queue_for(th);
	to->vtime = leaf_key(&th->lt);
	dsq_insert_vtime(p, to);
	if (nr_cpus == 1 || held || leaving())
		return;
	if (idle < 0)
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/*
 * The thread waits in its leaf's queue. The quantum in service on its CPU is
 * cut short where this thread shall not wait for all of it.
 */
SEC("struct_ops/op_enqueue")
void BPF_PROG(op_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct dsq_place to = {.enq_flags = enq_flags};
	struct thread __arena *th = thread_of(p);
	s32 cpu = task_cpu(p), idle;
	struct cpu_state __arena *c = cpu_of(cpu);
	struct hsfq_trace_record r;
	u64 now_on, straight;
	bool first;
	struct sched_contest own;
	u64 now = clock_now();
	hsfq_tree_t *t;
	lock_t lock;
	u32 leaf;

	if (!th || !is_home(th, cpu, now)) {
		dsq_insert(p, SCX_DSQ_GLOBAL, QUANTUM_ALONE_NS, enq_flags);
		return;
	}
	to.slice = th->slice_ns ?: QUANTUM_ALONE_NS;
	if (th->waiting && !c->th) {
		put_back(p, th, &to, now);
		return;
	}
	if (th->holder)
		lend_woken(th);
	lock = lock_thread(th);
	if (!lock) {
		dsq_insert(p, SCX_DSQ_GLOBAL, LEAF_QUANTUM_NS, enq_flags);
		return;
	}
	t = tree_of(th);
	leaf = th->leaf;
	woke(th, now);
	first = sched_arrive(t, &loans, as_lend(th), now);
	sched_wait(t, &loans, as_lend(th));
	ask(th, now);
	first = trace_on && first && name_first(&r, t, leaf);
	own = sched_contest(t, as_server(c), as_lend(th), now);
	now_on = own.over && sched_is_next(t, &loans, as_server(c), as_lend(th), now);
	straight = !own.held && sched_straight(t, &loans, as_server(c), as_lend(th), now);
	CORE_FORGET(now_on, now);
	CORE_FORGET(straight, now);
	to.dsq_id = th->queue = queue_for(th);
	to.vtime = leaf_key(&th->lt);
	unlock_tree(lock);

	if (first)
		trace(HSFQ_TRACE_RUN, &r);
	if (own.held && !must_wait(p, th)) {
		dsq_insert(p, SCX_DSQ_LOCAL, QUANTUM_MIN_NS, enq_flags);
		return;
	}
	/* It comes first: to its CPU at once, without an interrupt that would ask the tree. */
	if ((now_on & 1) && near_first(th)) {
		sched_give_way(as_server(c));
		CORE_COUNT(hsfq_totals.preemptions);
		dsq_insert(p, SCX_DSQ_LOCAL, to.slice, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (straight & 1)
		dsq_insert(p, SCX_DSQ_LOCAL, to.slice, enq_flags);
	else
		dsq_insert_vtime(p, &to);
	if (leaving())
		return;
	if (own.over) {
		CORE_COUNT(hsfq_totals.preemptions);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	if (nr_cpus > 1 && !own.held) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0) {
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			return;
		}
		if ((enq_flags & SCX_ENQ_WAKEUP) && served_elsewhere(p, cpu, th, now))
			return;
	}
	if (own.sooner) {
		sched_cut(as_server(c), own.due_ns);
		end_in_time(cpu, c, now);
	}
}

/* The leaves that this CPU has passed over may be chosen again. They were out of sight of
 * other CPUs for a moment, so one that went idle meanwhile is called back. */
__noinline int restore_passed(s32 cpu)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	u32 leaf = c->passed, next, domain = domain_of(cpu);
	s32 idle;

	while (leaf && can_loop) {
		next = restore_leaf(domain, leaf);
		if (next == LEAF_UNKNOWN) { /* the next ops.dispatch restores the rest */
			if (!leaving())
				scx_bpf_kick_cpu(cpu, 0);
			break;
		}
		idle = dsq_idle_cpu(queue_of(domain, leaf));
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		leaf = next;
	}
	c->passed = leaf;
	return 0;
}

SEC("struct_ops/op_dispatch")
void BPF_PROG(op_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	struct thread __arena *th = NULL;
	struct ended e;
	u64 now = 0;
	bool moved = false;
	u32 leaf, passed;

	if (c->passed)
		restore_passed(cpu);
	passed = c->passed;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		th = thread_by(prev, served_on(c));
	if (th) {
		now = clock_now();
		if (reads(prev, true) && reads_on(prev, cpu, now))
			return;
		if (!end_quantum(&e, th, prev->se.sum_exec_runtime, now)) {
			if (!serve_anybody(cpu) && !must_wait(prev, th))
				task_set_slice(prev, LEAF_QUANTUM_NS);
			return;
		}
		leaf = e.leaf;
	} else {
		leaf = choose_next(c, cpu);
	}
	if (loans.changed && lend_due(&loans, as_lend(th), clock_now()))
		leaf = lend_and_choose(cpu, th, clock_now());
	if (th) {
		if (trace_on)
			trace_end(&e, prev->pid);
		if (e.times)
			limits_reached(e.timer, now);
	}

	if (th && leaf && leaf != LEAF_UNKNOWN && nr_cpus > 1 && th->leaf != leaf &&
	    takes_over(cpu, th, leaf, now))
		leaf = HSFQ_NIL;
	while (leaf && leaf != LEAF_UNKNOWN && can_loop) { /* each takes a leaf out of sight */
		if (th && th->leaf == leaf && first_of_leaf(th))
			break;
		moved = take(leaf, cpu);
		if (moved || (th && th->leaf == leaf))
			break;
		leaf = choose_but(leaf, cpu, &passed);
	}
	if (leaf == LEAF_UNKNOWN)
		moved = serve_anybody(cpu);
	if (nr_domains > 1 && !th && !moved)
		moved = steal(cpu);
	/* Without a slice it comes to put_back(), for which no CPU but a faster one may be idle. */
	if (th && !moved && !must_wait(prev, th) && !(uneven && faster_rests(prev, cpu)))
		serve_again(prev, cpu, th);
	if (!th && !moved)
		speed_nobody(c);
	if (passed) {
		c->passed = passed;
		restore_passed(cpu);
	}
}

SEC("struct_ops/op_running")
void BPF_PROG(op_running, struct task_struct *p)
{
	struct thread __arena *th = thread_of(p);
	s32 cpu = task_cpu(p);

	if (by_load && cpu_of(cpu)->speed.rests_ns)
		speed_tell(cpu);
	if (!th)
		return;
	if (nr_domains > 1 && ledger_rests)
		wake_ledger(clock_now());
	if (nr_domains > 1 && !is_home(th, cpu, clock_now())) {
		begin_quantum(p, cpu, th, (struct quantum){LEAF_QUANTUM_NS, true}, clock_now());
		return;
	}
	if (th->chosen || cpu_of(cpu)->last != th)
		serve(p, cpu, th);
	else
		resume_quantum(p, cpu, th);
}

SEC("struct_ops/op_stopping")
void BPF_PROG(op_stopping, struct task_struct *p, bool runnable)
{
	struct cpu_state __arena *c = cpu_of(task_cpu(p));
	struct thread __arena *th = thread_by(p, served_on(c));
	struct ended e;
	u64 now;

	c->th = NULL;
	c->last = th;
	/* Preempted by another scheduling class it would come back with what is
	 * left of its slice, again and again, and the tree would not be asked. */
	if (runnable && p->scx.slice)
		task_set_slice(p, 0);
	if (!th)
		return;
	/* It waits since ops.dispatch, which has charged it but for the moment since then. */
	if (runnable && th->waiting)
		return;
	if (!runnable && p->__state) { /* it sleeps, and will ask for a new quantum */
		th->hungry_ns = 0;
		th->chosen = 1;
	}
	now = clock_now();
	if (!end_service(&e, th, p->se.sum_exec_runtime, now, !runnable))
		return;
	if (nr_cpus > 1 && !runnable)
		sched_note_next(as_server(c), e.leaf, now);
	if (e.times)
		limits_reached(e.timer, now);
	if (trace_on)
		trace_end(&e, p->pid);
}

/* sched_yield(), of the thread in service here. Whom it would let go first, if anybody, does not
 * matter: classes decide. */
SEC("struct_ops/op_yield")
bool BPF_PROG(op_yield, struct task_struct *from, struct task_struct *to)
{
	s32 cpu = task_cpu(from);
	lend_thread_t *th = cpu_of(cpu)->th;

	name_arena();
	if (!th ||
	    sched_give_up(tree_of((struct thread __arena *)th), th,
			  nr_cpus > 1 && waits_here(queue_for((struct thread __arena *)th), cpu)))
		task_set_slice(from, 0);
	return false;
}

/* Without a timer, or set from another CPU, quanta end at the tick. There, too, they end where
 * loans are to be settled and nobody else has asked the tree since. */
SEC("struct_ops/op_tick")
void BPF_PROG(op_tick, struct task_struct *p)
{
	struct cpu_state __arena *c = cpu_of(task_cpu(p));

	if (by_load)
		speed_tell(task_cpu(p));
	if (c->th && (c->due_ns || loans.changed) && sched_tick(&loans, as_server(c), clock_now()))
		task_set_slice(p, 0);
}

#include "threads.h"
#include "cgroups.h"
#include "control.h"
#include "futex.h"
#include "hotplug.h"

/* ---- the scheduler comes and goes -------------------------------------- */

SEC("struct_ops.s/op_init")
s32 BPF_PROG(op_init)
{
	struct quantum_timer *t;
	u32 i;
	int err;

	if (!make_room(&hierarchy, sizeof(hierarchy)) || !make_room(cpus, nr_cpus * sizeof(*cpus)))
		return -ENOMEM;
	hsfq_init(&hierarchy);
	if (nr_domains > 1 && !make_domains())
		return -ENOMEM;
	if (nr_cpus > 1 && uneven && name_cpus(ALL_FAST))
		return -ENOMEM;
	count_servers();
	for (i = CORE_ZERO; by_load && i < nr_cpus && can_loop; i++)
		speed_start(i);
	for (i = CORE_ZERO; use_timer && i < nr_cpus && can_loop; i++) {
		t = bpf_map_lookup_elem(&timers, &i);
		if (!t)
			return -EINVAL;
		err = bpf_timer_init(&t->timer, &timers, CLOCK_MONOTONIC);
		if (err)
			return err;
		bpf_timer_set_callback(&t->timer, timer_fires);
	}
	i = 0;
	t = bpf_map_lookup_elem(&rescue_timer, &i);
	if (!t)
		return -EINVAL;
	if (use_timer && !bpf_timer_init(&t->timer, &rescue_timer, CLOCK_MONOTONIC)) {
		bpf_timer_set_callback(&t->timer, rescue_fires);
		bpf_timer_start(&t->timer, RESCUE_EVERY_NS, 0);
	}
	t = bpf_map_lookup_elem(&limit_timer, &i);
	if (!t)
		return -EINVAL;
	if (use_timer && !bpf_timer_init(&t->timer, &limit_timer, CLOCK_MONOTONIC))
		bpf_timer_set_callback(&t->timer, limit_timer_fires);
	return nr_domains > 1 ? open_ledger() : 0;
}

SEC("struct_ops/op_exit")
void BPF_PROG(op_exit, struct scx_exit_info *ei)
{
	hsfq_end.kind = ei->kind;
	hsfq_end.code = ei->exit_code;
	hsfq_end.time_ns = bpf_ktime_get_boot_ns();
	bpf_probe_read_kernel_str(hsfq_end.reason, sizeof(hsfq_end.reason), ei->reason);
	bpf_probe_read_kernel_str(hsfq_end.message, sizeof(hsfq_end.message), ei->msg);
	hsfq_end.done = 1;
}

SEC(".struct_ops.link")
struct sched_ext_ops hsfq_ops = {
	.select_cpu = (void *)op_select_cpu,
	.enqueue = (void *)op_enqueue,
	.dispatch = (void *)op_dispatch,
	.yield = (void *)op_yield,
	.tick = (void *)op_tick,
	.running = (void *)op_running,
	.stopping = (void *)op_stopping,
	.init_task = (void *)op_init_task,
	.exit_task = (void *)op_exit_task,
	.enable = (void *)op_enable,
	.disable = (void *)op_disable,
	.set_weight = (void *)op_set_weight,
	.cgroup_init = (void *)op_cgroup_init,
	.cgroup_exit = (void *)op_cgroup_exit,
	.cgroup_move = (void *)op_cgroup_move,
	.cgroup_set_weight = (void *)op_cgroup_set_weight,
	.cgroup_set_idle = (void *)op_cgroup_set_idle,
	.cgroup_set_bandwidth = (void *)op_cgroup_set_bandwidth,
	.cpu_online = (void *)op_cpu_online,
	.cpu_offline = (void *)op_cpu_offline,
	.init = (void *)op_init,
	.exit = (void *)op_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "hsfq",
};
