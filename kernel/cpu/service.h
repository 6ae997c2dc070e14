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
	hsfq_tree_t *t;
	lock_t lock;
	bool first, others;
	u32 leaf;

	lock = lock_thread(th);
	if (!lock) {
		begin_quantum(p, cpu, th, (struct quantum){LEAF_QUANTUM_NS, true}, now);
		return false;
	}
	t = tree_of(th);
	leaf = th->leaf;
	woke(th, now);
	b = sched_begin(t, &loans, as_server(c), as_lend(th), now);
	count_wait(th, now);
	th->hungry_ns = 0;
	th->chosen = 0;
	if (th->inside && !limit_held(t, leaf))
		th->inside = 0;
	first = trace_on && b.late && name_first(&r, t, leaf);
	others = t->node[leaf].waiting;
	unlock_tree(lock);
	if (first)
		trace(HSFQ_TRACE_RUN, &r);
	if (b.straight &&
	    (b.second || (others && dsq_first_before(queue_for(th), leaf_key(&th->lt)))))
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
	lock_t lock = lock_thread(th);
	struct sched_end end;
	hsfq_tree_t *t;
	u64 ran;
	u32 leaf;

	if (!lock)
		return false;
	/* Served since the tree could not be asked: it has yet to be queued. */
	if (then == SCHED_ASKS && !th->runnable) {
		unlock_tree(lock);
		return false;
	}
	t = tree_of(th);
	leaf = th->leaf;
	ran = exec - th->charged;
	if (trace_on) {
		hsfq_settle(t);
		name_leaf(&e->quantum, leaf);
		e->quantum.length_ns = ran;
		e->quantum.start_tag = t->node[leaf].flow.start;
		name_leaf(&e->sleep, leaf);
	}
	th->charged = exec;
	th->served_ns += ran;
	end = sched_end(t, &loans, as_lend(th), ran, now, then);
	if (end.charged)
		CORE_COUNT(hsfq_totals.quanta);
	e->leaf = end.next;
	e->times = end.held;
	if (end.held)
		e->timer = limit_timer_late();
	if (trace_on)
		e->last = end.departed && !t->node[leaf].runnable;
	if (then == SCHED_ASKS)
		ask(th, now);
	unlock_tree(lock);
	if (nr_domains > 1 && hierarchy.limited && end.charged) {
		e->times = charge_budgets(leaf, ran, now);
		e->timer = e->times >> 16;
		e->times &= 0xffff;
	}
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
__noinline int choose(u32 domain)
{
	lock_t lock;
	u32 leaf;

	barrier_var(domain); /* what is not used is not passed, which the verifier does not like */
	lock = lock_tree(domain);
	if (!lock)
		return LEAF_UNKNOWN;
	leaf = sched_choose(tree_at(domain));
	unlock_tree(lock);
	return leaf;
}

/* Likewise, where the thread in service here has gone to sleep, and what comes next was noted. */
static __always_inline u32 choose_next(struct cpu_state __arena *c, s32 cpu)
{
	u32 leaf = HSFQ_NIL;

	if (nr_cpus > 1 && c->next)
		leaf = sched_noted(as_server(c), clock_now());
	return leaf ?: choose(domain_of(cpu));
}

/*
 * The CPU could not have a thread of the leaf. Is that over in a moment? None is in its queue: they
 * are being put there or taken from there. Or one is that may be served here, but the kernel moves
 * nobody whose own CPU is still in the switch away from it.
 */
__noinline int comes_soon(u32 queue, s32 cpu)
{
	struct task_struct *p;
	bool none = true;

	bpf_for_each (scx_dsq, p, queue, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return true;
		none = false;
	}
	return none;
}

/* This CPU cannot serve the leaf, which joins those it has passed over. Likewise. */
__noinline int choose_but(u32 leaf, s32 cpu, u32 *passed __arg_nonnull)
{
	u32 domain = domain_of(cpu);
	bool soon = comes_soon(queue_of(domain, leaf), cpu);
	lock_t lock = lock_tree(domain);

	if (!lock)
		return LEAF_UNKNOWN;
	CORE_COUNT(hsfq_totals.passed_over);
	leaf = sched_choose_but(tree_at(domain), leaf, soon, passed);
	unlock_tree(lock);
	return leaf;
}

/* The first of the leaves passed over may be chosen again. Returns the next of them. */
__noinline int restore_leaf(u32 domain, u32 leaf)
{
	lock_t lock;
	u32 next;

	barrier_var(domain);
	lock = lock_tree(domain);
	if (!lock)
		return LEAF_UNKNOWN;
	next = sched_restore(tree_at(domain), leaf);
	unlock_tree(lock);
	return next;
}

/* A leaf of the domain that has a thread for this CPU, each in turn, and so many at most. */
__noinline int serve_any_of(u32 domain, u32 left)
{
	hsfq_tree_t *t;
	u32 leaf;

	barrier_var(domain);
	t = tree_at(domain);
	for (; left && can_loop; left--) {
		leaf = anybody_next++;
		if (leaf >= t->unused)
			anybody_next = leaf = ROOT_LEAF;
		if (leaf < HSFQ_NODES && t->node[leaf].waiting &&
		    (t->node[leaf].flags & HSFQ_LEAF) && dsq_move_to_local(queue_of(domain, leaf)))
			return true;
	}
	return false;
}

/* The tree cannot be asked: any leaf. */
static bool serve_anybody(s32 cpu)
{
	return serve_any_of(domain_of(cpu), hierarchy.unused);
}

/* Several domains: nobody waits in that of this CPU. One of another is served here, of the leaf
 * that comes first there if that is possible. */
__noinline int steal(s32 cpu)
{
	u32 i, leaf, domain;

	barrier_var(cpu);
	domain = domain_of(cpu);
	for (i = 1 + CORE_ZERO; i < nr_domains && can_loop; i++) {
		domain = domain + 1 < nr_domains ? domain + 1 : 0;
		if (!tree_at(domain)->node[HSFQ_ROOT].waiting)
			continue;
		leaf = choose(domain);
		if (!leaf)
			continue;
		if ((leaf != LEAF_UNKNOWN && dsq_move_to_local(queue_of(domain, leaf))) ||
		    serve_any_of(domain, hierarchy.unused))
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
