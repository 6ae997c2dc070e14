/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * service.h - a thread's service begins and ends
 *
 * Functions that are not static are verified by themselves, once, whatever their
 * callers know: op_dispatch, the largest program, calls those.
 */
#ifndef QLINUX_CPU_SERVICE_H
#define QLINUX_CPU_SERVICE_H

/* Where serve_anybody() is in the tree. Not on the stack, as rescue_next. */
static volatile u32 anybody_next;

/* What was chosen as the next leaf holds for so long. */
#define NEXT_OLD_NS 10000ULL

/* What choose() returns where the tree cannot be asked (lock.h). */
#define LEAF_UNKNOWN (~0U)

/* Was the thread given to this CPU to be the next, and is no longer to be expected? */
static __always_inline bool was_straight(s32 cpu, struct thread __arena *th)
{
	struct cpu_state __arena *c = cpu_of(cpu);

	if (!CORE_ALONE || c->straight != th)
		return false;
	c->straight = NULL;
	return true;
}

/* The thread is in service on this CPU from now on. False: the tree does not know it. */
static __always_inline bool serve(struct task_struct *p, s32 cpu, struct thread __arena *th)
{
	struct hsfq_trace_record r;
	bool first, straight, second = false;
	u64 now = clock_now();
	struct quantum q;
	u32 leaf;

	if (!lock_tree()) {
		begin_quantum(p, cpu, th, (struct quantum){LEAF_QUANTUM_NS, true}, now);
		return false;
	}
	leaf = th->leaf;
	first = !th->runnable && arrive_late(th, now);
	straight = was_straight(cpu, th);
	if (straight)
		second = hsfq_schedule(&tree) != leaf;
	if (th->waiting) {
		th->waiting = 0;
		leaf_take(&tree, leaf);
	}
	count_wait(th, now);
	th->hungry_ns = 0;
	th->chosen = 0;
	if (th->inside && !limit_held(&tree, leaf))
		th->inside = 0;
	q = quantum_of(&tree, leaf, &th->lt, now);
	q = quantum_forgotten(q, now);
	leaf_serve(&tree, leaf, &th->lt, q.length_ns);
	first = trace_on && first && name_first(&r, leaf);
	unlock_tree();
	if (first)
		trace(HSFQ_TRACE_RUN, &r);
	if (straight && (second || dsq_first_before(leaf, leaf_key(&th->lt))))
		q = (struct quantum){0, true};
	begin_quantum(p, cpu, th, q, now);
	return true;
}

__noinline int serve_again(struct task_struct *p __arg_trusted, s32 cpu,
			   struct thread __arena *th __arg_arena)
{
	return serve(p, cpu, th);
}

/* Charges what the thread was served since its last charge. Returns how many classes
 * of its path have used up their budgets by that. */
static u32 charge(struct thread __arena *th, u32 leaf, u64 exec, u64 now)
{
	u64 ran = exec - th->charged;

	if (!ran && !th->lt.planned_ns)
		return 0;
	if (th->borrows)
		lend_served(&tree, as_lend(th));
	th->charged = exec;
	th->served_ns += ran;
	hsfq_totals.quanta++;
	return leaf_charge(&tree, leaf, &th->lt, ran, now);
}

/* What the end of a thread's service brought about. */
struct ended {
	u32 leaf;  /* the one to be served next, unless the thread was preempted */
	u32 times; /* classes of its path that have used up their budgets by that */
	u32 timer; /* the timer of limits is to be set */
	u32 last;  /* it was the last runnable thread of its leaf */
	struct hsfq_trace_record quantum, sleep;
};

enum then { SLEEPS, WAITS, ASKS };

/* Here the thread's service ends: it is charged, and so on. */
static __always_inline bool end_of_service(struct ended *e, struct thread __arena *th, u64 exec,
					   u64 now, enum then then)
{
	bool departed;
	u32 leaf;

	if (!lock_tree())
		return false;
	/* Served since the tree could not be asked: it has yet to be queued. */
	if (then == ASKS && !th->runnable) {
		unlock_tree();
		return false;
	}
	leaf = th->leaf;
	if (trace_on) {
		hsfq_settle(&tree);
		name_leaf(&e->quantum, leaf);
		e->quantum.length_ns = exec - th->charged;
		e->quantum.start_tag = tree.node[leaf].flow.start;
		name_leaf(&e->sleep, leaf);
	}
	e->times = charge(th, leaf, exec, now);
	if (e->times)
		e->timer = limit_timer_late();
	departed = then == SLEEPS && depart(th);
	if (trace_on)
		e->last = departed && !tree.node[leaf].runnable;
	if (then == ASKS)
		wait_begin(th, leaf, now);
	if (then == ASKS || (then == SLEEPS && nr_cpus > 1))
		e->leaf = hsfq_schedule(&tree);
	/* Or another CPU would think that nobody waits, until it is in its queue. */
	if (then == WAITS && nr_cpus > 1 && th->runnable)
		wait_soon(th, leaf);
	unlock_tree();
	return true;
}

/* The thread's service ends: it is charged, and sleeps or will wait. False: it will be
 * charged later. */
__noinline int end_service(struct ended *e __arg_nonnull, struct thread __arena *th __arg_arena,
			   u64 exec, u64 now, bool sleeps)
{
	return end_of_service(e, th, exec, now, sleeps ? SLEEPS : WAITS);
}

/* Its quantum ends: it is charged, and asks for the next at once. Likewise. */
__noinline int end_quantum(struct ended *e __arg_nonnull, struct thread __arena *th __arg_arena,
			   u64 exec, u64 now)
{
	return end_of_service(e, th, exec, now, ASKS);
}

/* The leaf that comes first, HSFQ_NIL: none, LEAF_UNKNOWN: the tree cannot be asked. */
__noinline int choose(void)
{
	u32 leaf;

	if (!lock_tree())
		return LEAF_UNKNOWN;
	leaf = hsfq_schedule(&tree);
	unlock_tree();
	return leaf;
}

/* Likewise, where the thread in service here has gone to sleep. The leaf was chosen in ops.stopping
 * then, unless that is long ago. That none waited is asked again: who came since has found no
 * idle CPU, which this one would now be. */
static __always_inline u32 choose_next(struct cpu_state __arena *c)
{
	u32 leaf = nr_cpus > 1 ? c->next : HSFQ_NIL;

	if (!leaf)
		return choose();
	c->next = HSFQ_NIL;
	return clock_now() - c->next_at < NEXT_OLD_NS ? leaf : choose();
}

/*
 * The CPU could not have a thread of the leaf. Is that over in a moment? None is in its queue: they
 * are being put there or taken from there. Or one is that may be served here, but the kernel moves
 * nobody whose own CPU is still in the switch away from it.
 */
__noinline int comes_soon(u32 leaf, s32 cpu)
{
	struct task_struct *p;
	bool none = true;

	bpf_for_each (scx_dsq, p, leaf, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return true;
		none = false;
	}
	return none;
}

/* This CPU cannot serve the leaf, which joins those it has passed over. Likewise. */
__noinline int choose_but(u32 leaf, s32 cpu, u32 *passed __arg_nonnull)
{
	bool soon = comes_soon(leaf, cpu);

	if (!lock_tree())
		return LEAF_UNKNOWN;
	hsfq_totals.passed_over++;
	*passed = leaf_pass(&tree, leaf, *passed);
	leaf = soon ? hsfq_schedule(&tree) : hsfq_schedule_but(&tree);
	unlock_tree();
	return leaf;
}

/* The first of the leaves passed over may be chosen again. Returns the next of them. */
__noinline int restore_leaf(u32 leaf)
{
	u32 next;

	if (!lock_tree())
		return LEAF_UNKNOWN;
	next = leaf_restore(&tree, leaf);
	unlock_tree();
	return next;
}

/* The tree cannot be asked: a leaf that has a thread for this CPU, each in turn. */
__noinline int serve_anybody(void)
{
	u32 left = tree.unused, leaf;

	for (; left && can_loop; left--) {
		leaf = anybody_next++;
		if (leaf >= tree.unused)
			anybody_next = leaf = ROOT_LEAF;
		if (leaf < HSFQ_NODES && tree.node[leaf].waiting &&
		    (tree.node[leaf].flags & HSFQ_LEAF) && dsq_move_to_local(leaf))
			return true;
	}
	return false;
}

/* After those, without the lock. */
static void trace_end(struct ended *e, s32 tid)
{
	e->quantum.tid = tid;
	if (e->quantum.length_ns)
		trace(HSFQ_TRACE_QUANTUM, &e->quantum);
	if (e->last)
		trace(HSFQ_TRACE_SLEEP, &e->sleep);
}

#endif
