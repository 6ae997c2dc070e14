// SPDX-License-Identifier: GPL-2.0-only
/*
 * hsfq_cpu - H-SFQ on sched_ext
 *
 * The policy is core/hsfq.h and core/leaf.h; this file only connects it to
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
 * Quanta that bound another class's wait (core/quantum.h) are often shorter
 * than the tick; one timer a CPU ends those.
 *
 * Locking: tree_lock guards the tree and every struct thread. No kfunc may be
 * called under it, so everything is chosen under the lock and done after it.
 *
 * Not done here: exact shares on several CPUs, cpu.max and cpu.idle.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "arena.h"

#define CORE_HAVE_TYPES
#define CORE_MEM  __arena
#define CORE_MORE can_loop
#define CORE_FN   static inline __attribute__((unused))
#include "../../core/quantum.h"
#include "intf.h"

char _license[] SEC("license") = "GPL";

#define ENOENT          2
#define ESRCH           3
#define ENOMEM          12
#define EBUSY           16
#define EINVAL          22
#define NUMA_NO_NODE    (-1)
#define CLOCK_MONOTONIC 1

/* The timer may fire this early without being set again. */
#define TIMER_SLACK_NS 10000ULL

/* A thread that waited this long is served out of turn. */
#define RESCUE_NS 10000000000ULL

#define CPUS_MAX 8192
/* The root cgroup's own threads: the first leaf ever made. */
#define ROOT_LEAF (HSFQ_ROOT + 1)
/* Kernel threads in the root cgroup: the second. They do little and everybody
 * waits for them (RCU, writeback), so no weight of a class may starve them. */
#define KERNEL_LEAF (HSFQ_ROOT + 2)
#define PF_KTHREAD  0x00200000

#include "state.h"

/* ---- small things ------------------------------------------------------ */

static void eject(const char *what)
{
	static char fmt[] = "hsfq: %s";
	unsigned long long args[] = {(unsigned long)what};

	scx_bpf_error_bstr(fmt, args, sizeof(args));
}

/* Interrupts are off in every callback that holds a run queue's lock. */
static __always_inline bool lock_tree(void)
{
	if (!bpf_res_spin_lock(&tree_lock))
		return true;
	eject("the tree's lock could not be taken");
	return false;
}

#define unlock_tree() bpf_res_spin_unlock(&tree_lock)

static struct thread __arena *thread_of(struct task_struct *p)
{
	struct task_ref *ref = bpf_task_storage_get(&threads, p, NULL, 0);

	return ref ? ref->th : NULL;
}

static struct cpu_state __arena *cpu_of(s32 cpu)
{
	return &cpus[(u32)cpu % CPUS_MAX];
}

static void trace(u32 kind, struct hsfq_trace_record *r)
{
	r->time_ns = scx_bpf_now();
	r->cpu = bpf_get_smp_processor_id();
	r->kind = kind;
	if (bpf_ringbuf_output(&hsfq_trace, r, sizeof(*r), 0))
		hsfq_totals.trace_lost++;
}

/* ---- under the lock ---------------------------------------------------- */

/* The thread is runnable; true: the first of its leaf. */
static bool arrive(struct thread __arena *th)
{
	if (th->runnable)
		return false;
	th->runnable = 1;
	leaf_arrive(&tree, th->leaf, &th->lt);
	return tree.node[th->leaf].runnable == 1;
}

static void wait_begin(struct thread __arena *th, u64 now)
{
	if (th->waiting)
		return;
	th->waiting = 1;
	th->chosen = 1;
	if (!th->hungry_ns)
		th->hungry_ns = now;
	leaf_wait(&tree, th->leaf);
}

static void wait_end(struct thread __arena *th)
{
	if (!th->waiting)
		return;
	th->waiting = 0;
	leaf_unwait(&tree, th->leaf);
}

/* The thread is not runnable any more; true: it was the last of its leaf. */
static bool depart(struct thread __arena *th)
{
	wait_end(th);
	if (!th->runnable)
		return false;
	th->runnable = 0;
	leaf_depart(&tree, th->leaf, &th->lt);
	return !tree.node[th->leaf].runnable;
}

static void name_leaf(struct hsfq_trace_record *r, u32 leaf)
{
	r->leaf = leaf;
	r->node = tree.node[leaf].parent;
	r->weight = tree.node[leaf].weight;
}

/* Charges what the thread was served since its last charge. */
static bool charge(struct thread __arena *th, u64 exec, struct hsfq_trace_record *r)
{
	u64 ran = exec - th->charged;

	if (!ran)
		return false;
	r->length_ns = ran;
	r->start_tag = tree.node[th->leaf].flow.start;
	name_leaf(r, th->leaf);
	th->charged = exec;
	th->served_ns += ran;
	leaf_charge(&tree, th->leaf, &th->lt, ran);
	hsfq_totals.quanta++;
	return true;
}

/* ---- quanta ------------------------------------------------------------ */

static int timer_fires(void *map, u32 *key, struct quantum_timer *t)
{
	struct cpu_state __arena *c = cpu_of(*key);
	u64 now = scx_bpf_now(), due = c->due;

	c->armed = 0;
	if (!due || !c->th)
		return 0;
	if (now + TIMER_SLACK_NS >= due) {
		hsfq_totals.timer_ends++;
		scx_bpf_kick_cpu(*key, SCX_KICK_PREEMPT);
	} else {
		c->armed = due;
		bpf_timer_start(&t->timer, due - now, BPF_F_TIMER_CPU_PIN);
	}
	return 0;
}

/* Ends the quantum on this CPU at c->due. A timer that fires before then sets
 * itself again, which is cheaper than setting it anew with interrupts off. */
static void end_in_time(u32 cpu, struct cpu_state __arena *c, u64 now)
{
	struct quantum_timer *t;
	u64 armed = c->armed;

	if (!use_timer || (armed && armed <= c->due && armed + QUANTUM_ALONE_NS > now))
		return;
	t = bpf_map_lookup_elem(&timers, &cpu);
	if (!t)
		return;
	c->armed = c->due;
	bpf_timer_start(&t->timer, c->due - now, BPF_F_TIMER_CPU_PIN);
}

/* The thread's quantum begins on this CPU. */
static void begin_quantum(struct task_struct *p, s32 cpu, struct thread __arena *th,
			  struct quantum q)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	u64 now = scx_bpf_now();

	c->th = th;
	c->since = now;
	c->until = now + q.length_ns;
	c->due = q.exact ? c->until : 0;
	scx_bpf_task_set_slice(p, q.length_ns);
	if (q.exact)
		end_in_time(cpu, c, now);
}

/* The thread goes on with the quantum that a change of its properties broke
 * off: it has not competed for a new one. */
static void resume_quantum(struct task_struct *p, s32 cpu, struct thread __arena *th)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	u64 now = scx_bpf_now(), left = c->until > now ? c->until - now : 1;
	struct hsfq_trace_record r = {};
	bool first;

	if (!lock_tree())
		return;
	first = arrive(th);
	wait_end(th);
	name_leaf(&r, th->leaf);
	unlock_tree();
	if (trace_on && first)
		trace(HSFQ_TRACE_RUN, &r);
	c->th = th;
	c->since = now;
	scx_bpf_task_set_slice(p, left);
	if (!c->due)
		return;
	c->due = now + left;
	end_in_time(cpu, c, now);
}

/* ---- rescue ------------------------------------------------------------ */

/* The iterator of the bpf_for_each() loop around. */
#define THIS_ITER (&___it)

/*
 * Weights may be such that a thread's turn comes after hours, and sched_ext
 * takes a scheduler off that keeps one waiting for 30 s. So a thread that has
 * waited for RESCUE_NS gets one quantum out of turn, charged like any other.
 */
static void rescue_leaf(u32 leaf, u64 now)
{
	struct thread __arena *th;
	struct task_struct *p;
	u64 since;

	bpf_for_each (scx_dsq, p, leaf, 0) {
		th = thread_of(p);
		since = th ? th->hungry_ns : 0;
		if (!since || now - since < RESCUE_NS || now < since)
			continue;
		scx_bpf_dsq_move_set_slice(THIS_ITER, QUANTUM_MIN_NS);
		if (scx_bpf_dsq_move(THIS_ITER, p, SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p),
				     SCX_ENQ_PREEMPT))
			hsfq_totals.rescued++;
	}
}

static int rescue_fires(void *map, u32 *key, struct quantum_timer *t)
{
	u64 now = scx_bpf_now();
	u32 leaf;

	for (leaf = tree.unused; leaf > HSFQ_ROOT && can_loop; leaf--)
		if (leaf < HSFQ_NODES && tree.node[leaf].waiting)
			rescue_leaf(leaf, now);
	bpf_timer_start(&t->timer, RESCUE_NS / 2, 0);
	return 0;
}

/* ---- sched_ext callbacks ----------------------------------------------- */

SEC("struct_ops/op_select_cpu")
s32 BPF_PROG(op_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;
	s32 cpu;

	if (nr_cpus == 1)
		return prev_cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, QUANTUM_ALONE_NS, 0);
	return cpu;
}

/*
 * The thread waits in its leaf's queue. The quantum in service on its CPU is
 * cut short where this thread shall not wait for all of it.
 */
SEC("struct_ops/op_enqueue")
void BPF_PROG(op_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct scx_bpf_dsq_insert_vtime_args to = {.slice = QUANTUM_ALONE_NS,
						   .enq_flags = enq_flags};
	struct thread __arena *th = thread_of(p), *cur;
	s32 cpu = scx_bpf_task_cpu(p), idle;
	struct cpu_state __arena *c = cpu_of(cpu);
	struct hsfq_trace_record r = {};
	u64 now = scx_bpf_now(), due = 0;
	bool sooner = false, first;

	if (!th) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, QUANTUM_ALONE_NS, enq_flags);
		return;
	}
	if (!lock_tree())
		return;
	first = arrive(th);
	wait_begin(th, now);
	name_leaf(&r, th->leaf);
	cur = c->th;
	if (cur && cur != th) {
		due = c->since +
		      quantum_left(&tree, th->leaf, &th->lt, cur->leaf, &cur->lt, now - c->since)
			      .length_ns;
		sooner = !c->due || due < c->due;
		if (sooner)
			c->due = due;
	}
	to.dsq_id = th->leaf;
	to.vtime = th->lt.flow.start;
	unlock_tree();

	if (trace_on && first)
		trace(HSFQ_TRACE_RUN, &r);
	__scx_bpf_dsq_insert_vtime(p, &to);
	if (due && due <= now + TIMER_SLACK_NS) {
		hsfq_totals.preemptions++;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	if (sooner && cpu == bpf_get_smp_processor_id())
		end_in_time(cpu, c, now);
	if (nr_cpus > 1) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
}

/* Of the running thread, whose quantum is over, and the first that waits in
 * the same leaf: does the running one come first? */
static bool goes_on(struct thread __arena *th)
{
	struct task_struct *head = scx_bpf_dsq_peek(th->leaf);

	return !head || sfq_before(th->lt.flow.start, head->scx.dsq_vtime);
}

/* The thread is in service on this CPU from now on. */
static void serve(struct task_struct *p, s32 cpu, struct thread __arena *th)
{
	struct hsfq_trace_record r = {};
	struct quantum q;
	bool first;

	if (!lock_tree())
		return;
	first = arrive(th);
	wait_end(th);
	th->hungry_ns = 0;
	th->chosen = 0;
	leaf_serve(&tree, th->leaf, &th->lt);
	q = quantum_of(&tree, th->leaf, &th->lt);
	name_leaf(&r, th->leaf);
	unlock_tree();
	if (trace_on && first)
		trace(HSFQ_TRACE_RUN, &r);
	begin_quantum(p, cpu, th, q);
}

/* Leaves that were passed over may be chosen again. They were out of sight of
 * other CPUs for a moment, so one that went idle meanwhile is called back. */
static void restore_passed(u32 passed)
{
	struct task_struct *head;
	u32 leaf = passed, next;
	s32 idle;

	while (leaf && can_loop) {
		if (!lock_tree())
			return;
		next = leaf_restore(&tree, leaf);
		unlock_tree();
		head = scx_bpf_dsq_peek(leaf);
		if (head) {
			idle = scx_bpf_pick_idle_cpu(head->cpus_ptr, 0);
			if (idle >= 0)
				scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		}
		leaf = next;
	}
}

SEC("struct_ops/op_dispatch")
void BPF_PROG(op_dispatch, s32 cpu, struct task_struct *prev)
{
	struct thread __arena *th = NULL;
	struct hsfq_trace_record r = {};
	bool charged = false, moved = false;
	u64 now = scx_bpf_now();
	u32 leaf, passed = HSFQ_NIL;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		th = thread_of(prev);
	if (!lock_tree())
		return;
	if (th) {
		charged = charge(th, prev->se.sum_exec_runtime, &r);
		wait_begin(th, now);
	}
	leaf = hsfq_schedule(&tree);
	unlock_tree();
	if (trace_on && charged) {
		r.tid = prev->pid;
		trace(HSFQ_TRACE_QUANTUM, &r);
	}

	while (leaf && can_loop) { /* each round takes a leaf out of sight */
		if (th && th->leaf == leaf && goes_on(th))
			break;
		moved = scx_bpf_dsq_move_to_local(leaf);
		if (moved || (th && th->leaf == leaf))
			break;
		if (!lock_tree())
			return;
		hsfq_totals.passed_over++;
		passed = leaf_pass(&tree, leaf, passed);
		leaf = hsfq_schedule(&tree);
		unlock_tree();
	}
	if (th && !moved)
		serve(prev, cpu, th);
	if (passed)
		restore_passed(passed);
}

SEC("struct_ops/op_running")
void BPF_PROG(op_running, struct task_struct *p)
{
	struct thread __arena *th = thread_of(p);

	if (!th)
		return;
	if (th->chosen || cpu_of(scx_bpf_task_cpu(p))->last != th)
		serve(p, scx_bpf_task_cpu(p), th);
	else
		resume_quantum(p, scx_bpf_task_cpu(p), th);
}

SEC("struct_ops/op_stopping")
void BPF_PROG(op_stopping, struct task_struct *p, bool runnable)
{
	struct thread __arena *th = thread_of(p);
	struct cpu_state __arena *c = cpu_of(scx_bpf_task_cpu(p));
	struct hsfq_trace_record r = {}, asleep = {};
	bool charged, last;

	c->th = NULL;
	c->last = th;
	/* Preempted by another scheduling class it would come back with what is
	 * left of its slice, again and again, and the tree would not be asked. */
	if (runnable)
		scx_bpf_task_set_slice(p, 0);
	if (!th || !lock_tree())
		return;
	charged = charge(th, p->se.sum_exec_runtime, &r);
	name_leaf(&asleep, th->leaf);
	last = !runnable && depart(th);
	unlock_tree();
	if (!trace_on)
		return;
	r.tid = p->pid;
	if (charged)
		trace(HSFQ_TRACE_QUANTUM, &r);
	if (last)
		trace(HSFQ_TRACE_SLEEP, &asleep);
}

/* The thread sleeps, which ops.stopping has seen to, or is taken out of its
 * queue to be changed. */
SEC("struct_ops/op_quiescent")
void BPF_PROG(op_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct thread __arena *th = thread_of(p);
	struct hsfq_trace_record r = {};
	bool last;

	if (!th)
		return;
	if (deq_flags & SCX_DEQ_SLEEP) {
		th->hungry_ns = 0;
		th->chosen = 1; /* when it wakes, it asks for a new quantum */
	}
	if (!th->runnable || !lock_tree())
		return;
	name_leaf(&r, th->leaf);
	last = depart(th);
	unlock_tree();
	if (trace_on && last)
		trace(HSFQ_TRACE_SLEEP, &r);
}

/* Without a timer, or set from another CPU, quanta end at the tick. */
SEC("struct_ops/op_tick")
void BPF_PROG(op_tick, struct task_struct *p)
{
	struct cpu_state __arena *c = cpu_of(scx_bpf_task_cpu(p));

	if (c->due && c->th && scx_bpf_now() >= c->due)
		scx_bpf_task_set_slice(p, 0);
}

/* ---- threads come, change and go --------------------------------------- */

static void thread_free(struct thread __arena *th)
{
	unsigned long flags;

	if (bpf_res_spin_lock_irqsave(&tree_lock, &flags))
		return; /* one struct thread is lost, nothing else */
	th->next_free = free_threads;
	free_threads = th;
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
}

static struct thread __arena *thread_take(void)
{
	struct thread __arena *th;
	unsigned long flags;

	if (bpf_res_spin_lock_irqsave(&tree_lock, &flags))
		return NULL;
	th = free_threads;
	if (th)
		free_threads = th->next_free;
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
	return th;
}

/* Sleepable. A page of new ones when none is left. */
static struct thread __arena *thread_alloc(void)
{
	struct thread __arena *th = thread_take(), *page;
	u32 i;

	if (th)
		return th;
	page = bpf_arena_alloc_pages(&arena, NULL, 1, NUMA_NO_NODE, 0);
	if (!page)
		return NULL;
	for (i = ARENA_PAGE / sizeof(*page) - 1; i && can_loop; i--)
		thread_free(&page[i]);
	return page;
}

/* While the scheduler is being taken off, threads are born into cgroups that
 * are gone already: they belong to the root's leaf, or fork would fail. */
static u32 leaf_for(struct task_struct *p, struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	struct cgroup_nodes *n = bpf_map_lookup_elem(&cgroups, &id);
	u32 leaf = n ? n->leaf : ROOT_LEAF;

	return leaf == ROOT_LEAF && (p->flags & PF_KTHREAD) ? KERNEL_LEAF : leaf;
}

SEC("struct_ops.s/op_init_task")
s32 BPF_PROG(op_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread __arena *th;
	struct task_ref *ref;
	struct thread empty = {};
	unsigned long flags;
	u32 leaf = leaf_for(p, args->cgroup);

	ref = bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ref)
		return -ENOMEM;
	th = thread_alloc();
	if (!th)
		return -ENOMEM;
	*th = empty;
	th->lt.weight = p->scx.weight ?: SFQ_WEIGHT_DEFAULT;
	th->leaf = leaf;
	th->charged = p->se.sum_exec_runtime;
	ref->th = th;
	if (bpf_res_spin_lock_irqsave(&tree_lock, &flags))
		return -EINVAL;
	leaf_join(&tree, leaf, &th->lt);
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
	return 0;
}

/* Also called for a thread that comes back from another scheduling class. */
SEC("struct_ops/op_enable")
void BPF_PROG(op_enable, struct task_struct *p)
{
	struct thread __arena *th = thread_of(p);

	asm volatile("" : : "r"(&arena)); /* a program that uses an arena must name it */
	if (th)
		th->charged = p->se.sum_exec_runtime;
}

SEC("struct_ops/op_exit_task")
void BPF_PROG(op_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ref *ref = bpf_task_storage_get(&threads, p, NULL, 0);
	struct thread __arena *th = ref ? ref->th : NULL;

	if (!th)
		return;
	ref->th = NULL;
	if (!lock_tree())
		return;
	depart(th);
	leaf_leave(&tree, th->leaf);
	th->next_free = free_threads;
	free_threads = th;
	unlock_tree();
}

SEC("struct_ops/op_set_weight")
void BPF_PROG(op_set_weight, struct task_struct *p, u32 weight)
{
	struct thread __arena *th = thread_of(p);

	if (!th || th->fixed || !lock_tree())
		return;
	leaf_set_weight(&tree, th->leaf, &th->lt, weight, th->runnable);
	unlock_tree();
}

/* ---- cgroups come, change and go --------------------------------------- */

static u64 parent_id(struct cgroup *cgrp)
{
	struct cgroup *parent;
	u64 id = 0;

	if (!cgrp->level)
		return 0;
	parent = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (parent) {
		id = parent->kn->id;
		bpf_cgroup_release(parent);
	}
	return id;
}

/* Under the lock: the two nodes of a cgroup. False: the tree has no room. */
static bool make_nodes(u32 parent, u32 weight, struct cgroup_nodes *n)
{
	int node = hsfq_mknod(&tree, parent, weight, 0), leaf;

	if (node < 0)
		return false;
	leaf = hsfq_mknod(&tree, node, SFQ_WEIGHT_DEFAULT, HSFQ_LEAF);
	if (leaf < 0) {
		hsfq_rmnod(&tree, node);
		return false;
	}
	n->node = node;
	n->leaf = leaf;
	return true;
}

/* The leaf's dispatch queue; it is kept for the next class of this index. */
static int make_queue(u32 leaf)
{
	int err;

	if (leaf >= HSFQ_NODES || leaf_has_queue[leaf])
		return 0;
	err = scx_bpf_create_dsq(leaf, -1);
	if (!err)
		leaf_has_queue[leaf] = 1;
	return err;
}

static int root_init(u64 id)
{
	struct cgroup_nodes n = {.node = HSFQ_ROOT, .leaf = ROOT_LEAF};
	unsigned long flags;
	bool made;
	int err;

	if (bpf_res_spin_lock_irqsave(&tree_lock, &flags))
		return -EINVAL;
	made = hsfq_mknod(&tree, HSFQ_ROOT, SFQ_WEIGHT_DEFAULT, HSFQ_LEAF) == ROOT_LEAF &&
	       hsfq_mknod(&tree, HSFQ_ROOT, SFQ_WEIGHT_MAX, HSFQ_LEAF) == KERNEL_LEAF;
	leaf_cgroup[ROOT_LEAF] = leaf_cgroup[KERNEL_LEAF] = id;
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
	if (!made)
		return -EINVAL;
	err = make_queue(ROOT_LEAF) ?: make_queue(KERNEL_LEAF);
	return err ?: (int)bpf_map_update_elem(&cgroups, &id, &n, BPF_ANY);
}

SEC("struct_ops.s/op_cgroup_init")
s32 BPF_PROG(op_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	u64 id = cgrp->kn->id, up = parent_id(cgrp);
	struct cgroup_nodes n = {}, *parent;
	unsigned long flags;
	bool made;
	s32 err;

	if (!up)
		return root_init(id);
	parent = bpf_map_lookup_elem(&cgroups, &up);
	if (!parent)
		return -ENOENT;
	if (bpf_res_spin_lock_irqsave(&tree_lock, &flags))
		return -EINVAL;
	made = !parent->shared && make_nodes(parent->node, args->weight, &n);
	if (made)
		leaf_cgroup[n.leaf % HSFQ_NODES] = id;
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);

	if (made) {
		err = make_queue(n.leaf);
		if (err)
			return err;
	} else {
		/* No room: its threads belong to its ancestor's leaf. */
		n = *parent;
		n.shared = 1;
		__sync_fetch_and_add(&hsfq_totals.shared_cgroups, 1);
	}
	return bpf_map_update_elem(&cgroups, &id, &n, BPF_ANY);
}

SEC("struct_ops.s/op_cgroup_exit")
void BPF_PROG(op_cgroup_exit, struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	struct cgroup_nodes *n = bpf_map_lookup_elem(&cgroups, &id);
	unsigned long flags;

	if (!n)
		return;
	if (!n->shared && n->node != HSFQ_ROOT && !bpf_res_spin_lock_irqsave(&tree_lock, &flags)) {
		hsfq_retire(&tree, n->leaf);
		hsfq_retire(&tree, n->node);
		bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
	}
	bpf_map_delete_elem(&cgroups, &id);
}

SEC("struct_ops/op_cgroup_move")
void BPF_PROG(op_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct thread __arena *th = thread_of(p);
	u32 leaf = leaf_for(p, to);

	if (!th || leaf == th->leaf || !lock_tree())
		return;
	depart(th);
	leaf_leave(&tree, th->leaf);
	th->leaf = leaf;
	leaf_join(&tree, leaf, &th->lt);
	unlock_tree();
}

SEC("struct_ops/op_cgroup_set_weight")
void BPF_PROG(op_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	u64 id = cgrp->kn->id;
	struct cgroup_nodes *n = bpf_map_lookup_elem(&cgroups, &id);
	struct hsfq_trace_record r = {};
	unsigned long flags;

	if (!n || n->shared || bpf_res_spin_lock_irqsave(&tree_lock, &flags))
		return;
	hsfq_set_weight(&tree, n->node, weight);
	r.node = n->node;
	r.leaf = n->leaf;
	r.weight = weight;
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
	if (trace_on)
		trace(HSFQ_TRACE_WEIGHT, &r);
}

/* Defined, so that hotplug does not end the scheduler. A CPU that goes away
 * hands its threads back by itself. */
SEC("struct_ops/op_cpu_online")
void BPF_PROG(op_cpu_online, s32 cpu)
{
}

SEC("struct_ops/op_cpu_offline")
void BPF_PROG(op_cpu_offline, s32 cpu)
{
	struct cpu_state __arena *c = cpu_of(cpu);

	c->th = NULL;
	c->due = c->armed = 0;
}

/* ---- what user space asks for: programs of type "syscall" --------------- */

SEC("syscall")
int hsfq_ctl_class(struct hsfq_ctl_class *c)
{
	struct cgroup_nodes *n;
	unsigned long flags;
	hsfq_node_t *node, *leaf;

	n = bpf_map_lookup_elem(&cgroups, &c->cgroup_id);
	if (!n)
		return -ENOENT;
	if (bpf_res_spin_lock_irqsave(&tree_lock, &flags))
		return -EBUSY;
	node = &tree.node[n->node];
	leaf = &tree.node[n->leaf];
	c->served_ns = node->served_ns;
	c->own_ns = leaf->served_ns;
	c->start_tag = node->flow.start;
	c->vtime = node->clock.vtime;
	c->share_ppb = node->flags & HSFQ_RUNNABLE || n->node == HSFQ_ROOT
			       ? hsfq_share(&tree, n->node, 1000000000)
			       : 0;
	c->node = n->node;
	c->leaf = n->leaf;
	c->weight = node->weight;
	c->policy = leaf->policy;
	c->threads = leaf->threads;
	c->runnable = leaf->runnable;
	c->children = node->children - (n->node == HSFQ_ROOT ? 2 : 1);
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
	c->shared = n->shared;
	return 0;
}

SEC("syscall")
int hsfq_ctl_policy(struct hsfq_ctl_policy *c)
{
	struct cgroup_nodes *n;
	unsigned long flags;
	int err;

	n = bpf_map_lookup_elem(&cgroups, &c->cgroup_id);
	if (!n)
		return -ENOENT;
	if (n->shared)
		return -EBUSY;
	if (bpf_res_spin_lock_irqsave(&tree_lock, &flags))
		return -EBUSY;
	err = leaf_set_policy(&tree, n->leaf, c->policy);
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
	return err;
}

SEC("syscall")
int hsfq_ctl_thread(struct hsfq_ctl_thread *c)
{
	struct task_struct *p = bpf_task_from_pid(c->tid);
	struct thread __arena *th;
	unsigned long flags;
	u32 weight = c->set_weight;
	int err = 0;

	if (!p)
		return -ESRCH;
	th = thread_of(p);
	if (!th || bpf_res_spin_lock_irqsave(&tree_lock, &flags)) {
		bpf_task_release(p);
		return -ESRCH;
	}
	if (weight) {
		if (weight == HSFQ_WEIGHT_NICE)
			weight = p->scx.weight;
		err = leaf_set_weight(&tree, th->leaf, &th->lt, weight, th->runnable);
		if (!err)
			th->fixed = c->set_weight != HSFQ_WEIGHT_NICE;
	}
	c->weight = th->lt.weight;
	c->fixed = th->fixed;
	c->cgroup_id = leaf_cgroup[th->leaf % HSFQ_NODES];
	c->served_ns = th->served_ns;
	c->key = th->lt.flow.start;
	bpf_res_spin_unlock_irqrestore(&tree_lock, &flags);
	bpf_task_release(p);
	return err;
}

/* ---- the scheduler comes and goes -------------------------------------- */

SEC("struct_ops.s/op_init")
s32 BPF_PROG(op_init)
{
	struct quantum_timer *t;
	u32 i;
	int err;

	hsfq_init(&tree);
	for (i = 0; use_timer && i < nr_cpus && can_loop; i++) {
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
		bpf_timer_start(&t->timer, RESCUE_NS / 2, 0);
	}
	return 0;
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
	.tick = (void *)op_tick,
	.running = (void *)op_running,
	.stopping = (void *)op_stopping,
	.quiescent = (void *)op_quiescent,
	.init_task = (void *)op_init_task,
	.exit_task = (void *)op_exit_task,
	.enable = (void *)op_enable,
	.set_weight = (void *)op_set_weight,
	.cgroup_init = (void *)op_cgroup_init,
	.cgroup_exit = (void *)op_cgroup_exit,
	.cgroup_move = (void *)op_cgroup_move,
	.cgroup_set_weight = (void *)op_cgroup_set_weight,
	.cpu_online = (void *)op_cpu_online,
	.cpu_offline = (void *)op_cpu_offline,
	.init = (void *)op_init,
	.exit = (void *)op_exit,
	.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "hsfq",
};
