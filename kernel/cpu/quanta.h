/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * quanta.h - quanta that end in time
 */
#ifndef QLINUX_CPU_QUANTA_H
#define QLINUX_CPU_QUANTA_H

static int timer_fires(void *map, u32 *key, struct quantum_timer *t)
{
	struct cpu_state __arena *c = cpu_of(*key);
	u64 now = clock_now(), at;

	c->armed = 0;
	at = sched_timer(as_server(c), now);
	if (!at)
		return 0;
	if (at == now) {
		CORE_COUNT(hsfq_totals.timer_ends);
		scx_bpf_kick_cpu(*key, SCX_KICK_PREEMPT);
	} else {
		c->armed = at;
		bpf_timer_start(&t->timer, at - now, BPF_F_TIMER_CPU_PIN);
	}
	return 0;
}

/* Ends the quantum on this CPU at c->due_ns. A timer that fires before then sets
 * itself again, which is cheaper than setting it anew with interrupts off. */
static void end_in_time(u32 cpu, struct cpu_state __arena *c, u64 now)
{
	struct quantum_timer *t;
	u64 armed = c->armed;

	if (!use_timer || (armed && armed <= c->due_ns && armed + QUANTUM_ALONE_NS > now))
		return;
	t = bpf_map_lookup_elem(&timers, &cpu);
	if (!t)
		return;
	c->armed = c->due_ns;
	bpf_timer_start(&t->timer, c->due_ns - now, BPF_F_TIMER_CPU_PIN);
}

/* The thread's quantum begins on this CPU. */
static __always_inline void begin_quantum(struct task_struct *p, s32 cpu, struct thread __arena *th,
					  struct quantum q, u64 now)
{
	struct cpu_state __arena *c = cpu_of(cpu);

	sched_set(as_server(c), as_lend(th), q, now);
	if (p->scx.slice != q.length_ns) {
		th->slice_ns = q.length_ns;
		task_set_slice(p, q.length_ns);
	}
	if (q.exact)
		end_in_time(cpu, c, now);
}

/* The thread in service here, whose quantum is over, may leave its RCU read section.
 * Without a timer its next step would last until the tick. */
static bool reads_on(struct task_struct *p, s32 cpu, u64 now)
{
	struct cpu_state __arena *c = cpu_of(cpu);

	if (!use_timer || !rescue_reads_on(c->steps))
		return false;
	c->steps++;
	c->due_ns = now + RESCUE_READ_STEP_NS;
	task_set_slice(p, RESCUE_READ_STEP_NS);
	end_in_time(cpu, c, now);
	return true;
}

/* The thread goes on with the quantum that a change of its properties broke
 * off: it has not competed for a new one. */
static void resume_quantum(struct task_struct *p, s32 cpu, struct thread __arena *th)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	u64 now = clock_now(), left = sched_left(as_server(c), now);
	struct hsfq_trace_record r;
	bool first = false;
	lock_t lock = lock_thread(th);

	if (lock) {
		first = sched_resume(tree_of(th), &loans, as_lend(th), left, now);
		th->woke_ns = 0;
		first = trace_on && first && name_first(&r, tree_of(th), th->leaf);
		unlock_tree(lock);
	}
	if (first)
		trace(HSFQ_TRACE_RUN, &r);
	sched_set_again(as_server(c), as_lend(th), left, now);
	task_set_slice(p, left);
	if (c->due_ns)
		end_in_time(cpu, c, now);
}

#endif
