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

/* What choose() returns where the tree cannot be asked (lock.h). */
#define LEAF_UNKNOWN (~0U)

/* The thread is in service on this CPU from now on. False: the tree does not know it. */
static __always_inline bool serve(struct task_struct *p, s32 cpu, struct thread __arena *th)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	struct hsfq_trace_record r;
	struct sched_begin b;
	u64 now = clock_now();
	bool first;
	u32 leaf;

	if (!lock_tree()) {
		begin_quantum(p, cpu, th, (struct quantum){LEAF_QUANTUM_NS, true}, now);
		return false;
	}
	leaf = th->leaf;
	woke(th, now);
	b = sched_begin(&tree, &loans, as_server(c), as_lend(th), now);
	count_wait(th, now);
	th->hungry_ns = 0;
	th->chosen = 0;
	if (th->inside && !limit_held(&tree, leaf))
		th->inside = 0;
	first = trace_on && b.late && name_first(&r, leaf);
	unlock_tree();
	if (first)
		trace(HSFQ_TRACE_RUN, &r);
	if (b.straight && (b.second || dsq_first_before(leaf, leaf_key(&th->lt))))
		b.quantum = (struct quantum){0, true};
	begin_quantum(p, cpu, th, b.quantum, now);
	return true;
}

__noinline int serve_again(struct task_struct *p __arg_trusted, s32 cpu,
			   struct thread __arena *th __arg_arena)
{
	return serve(p, cpu, th);
}

/* What the end of a thread's service brought about. */
struct ended {
	u32 leaf;  /* the one to be served next, unless the thread was preempted */
	u32 times; /* classes of its path that have used up their budgets by that */
	u32 timer; /* the timer of limits is to be set */
	u32 last;  /* it was the last runnable thread of its leaf */
	struct hsfq_trace_record quantum, sleep;
};

/* Here the thread's service ends: it is charged, and so on. */
static __always_inline bool end_of_service(struct ended *e, struct thread __arena *th, u64 exec,
					   u64 now, enum sched_then then)
{
	struct sched_end end;
	u64 ran;
	u32 leaf;

	if (!lock_tree())
		return false;
	/* Served since the tree could not be asked: it has yet to be queued. */
	if (then == SCHED_ASKS && !th->runnable) {
		unlock_tree();
		return false;
	}
	leaf = th->leaf;
	ran = exec - th->charged;
	if (trace_on) {
		hsfq_settle(&tree);
		name_leaf(&e->quantum, leaf);
		e->quantum.length_ns = ran;
		e->quantum.start_tag = tree.node[leaf].flow.start;
		name_leaf(&e->sleep, leaf);
	}
	th->charged = exec;
	th->served_ns += ran;
	end = sched_end(&tree, &loans, as_lend(th), ran, now, then);
	hsfq_totals.quanta += end.charged;
	e->leaf = end.next;
	e->times = end.held;
	if (end.held)
		e->timer = limit_timer_late();
	if (trace_on)
		e->last = end.departed && !tree.node[leaf].runnable;
	if (then == SCHED_ASKS)
		ask(th, now);
	unlock_tree();
	return true;
}

/* The thread's service ends: it is charged, and sleeps or will wait. False: it will be
 * charged later. */
__noinline int end_service(struct ended *e __arg_nonnull, struct thread __arena *th __arg_arena,
			   u64 exec, u64 now, bool sleeps)
{
	return end_of_service(e, th, exec, now, sleeps ? SCHED_SLEEPS : SCHED_WAITS);
}

/* Its quantum ends: it is charged, and asks for the next at once. Likewise. */
__noinline int end_quantum(struct ended *e __arg_nonnull, struct thread __arena *th __arg_arena,
			   u64 exec, u64 now)
{
	return end_of_service(e, th, exec, now, SCHED_ASKS);
}

/* The leaf that comes first, HSFQ_NIL: none, LEAF_UNKNOWN: the tree cannot be asked. */
__noinline int choose(void)
{
	u32 leaf;

	if (!lock_tree())
		return LEAF_UNKNOWN;
	leaf = sched_choose(&tree);
	unlock_tree();
	return leaf;
}

/* Likewise, where the thread in service here has gone to sleep, and what comes next was noted. */
static __always_inline u32 choose_next(struct cpu_state __arena *c)
{
	u32 leaf = HSFQ_NIL;

	if (nr_cpus > 1 && c->next)
		leaf = sched_noted(as_server(c), clock_now());
	return leaf ?: choose();
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
	leaf = sched_choose_but(&tree, leaf, soon, passed);
	unlock_tree();
	return leaf;
}

/* The first of the leaves passed over may be chosen again. Returns the next of them. */
__noinline int restore_leaf(u32 leaf)
{
	u32 next;

	if (!lock_tree())
		return LEAF_UNKNOWN;
	next = sched_restore(&tree, leaf);
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
