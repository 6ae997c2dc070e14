/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * accounts.h - small things, and what is done under the lock
 */
#ifndef QLINUX_CPU_ACCOUNTS_H
#define QLINUX_CPU_ACCOUNTS_H

/* ---- small things ------------------------------------------------------ */

static __noinline struct thread __arena *thread_stored(struct task_struct *p)
{
	struct task_ref *ref = bpf_task_storage_get(&threads, p, NULL, 0);
	struct thread __arena *th = ref ? ref->th : NULL;

	if (th)
		seen[(u32)p->pid % SEEN] = th;
	return th;
}

/* A look into the arena is cheaper than one into the task's storage. */
static __always_inline struct thread __arena *thread_of(struct task_struct *p)
{
	struct thread __arena *th = seen[(u32)p->pid % SEEN];

	return th && th->task == (u64)p ? th : thread_stored(p);
}

static struct waits __arena *waits_of(u32 leaf)
{
	return leaf_waits[leaf % HSFQ_NODES] ?: &no_waits;
}

static lend_thread_t *as_lend(struct thread __arena *th)
{
	return (lend_thread_t *)th;
}

/* Likewise, where it is most likely this one. */
static __always_inline struct thread __arena *thread_by(struct task_struct *p,
							struct thread __arena *guess)
{
	return guess && guess->task == (u64)p ? guess : thread_of(p);
}

static struct cpu_state __arena *cpu_of(s32 cpu)
{
	return &cpus[(u32)cpu % CPUS_MAX];
}

static sched_server_t *as_server(struct cpu_state __arena *c)
{
	return (sched_server_t *)c;
}

/* The thread of ours that runs there, NULL: none. */
static struct thread __arena *served_on(struct cpu_state __arena *c)
{
	return (struct thread __arena *)c->th;
}

/* What scx_bpf_task_cpu() returns, without the call. */
static __always_inline s32 task_cpu(struct task_struct *p)
{
	return p->thread_info.cpu;
}

/*
 * Does this CPU go offline? The last it does is to wake whoever waits for that. An
 * interrupt it sends itself then is lost, and with it every later irq_work of this
 * CPU: the kernel sends no second one while its list is not empty. Kicks, timers set
 * under a run queue's lock and wake-ups of the trace's reader are irq_work.
 */
static __always_inline bool leaving(void)
{
	return nr_cpus > 1 && cpu_of(bpf_get_smp_processor_id())->leaving;
}

static void trace(u32 kind, struct hsfq_trace_record *r)
{
	u64 flags = leaving() ? BPF_RB_NO_WAKEUP : 0;

	r->time_ns = bpf_ktime_get_ns();
	r->cpu = bpf_get_smp_processor_id();
	r->kind = kind;
	if (bpf_ringbuf_output(&hsfq_trace, r, sizeof(*r), flags))
		hsfq_totals.trace_lost++;
}

/*
 * The thread goes to the tree of that CPU's domain: both locks are taken, that of the lower domain
 * first. `waits`: only if it waits, and it waits there as well. False: it did not, or a lock is not
 * to be had.
 */
static __always_inline bool go_to(struct thread __arena *th, s32 cpu, u64 now, bool waits)
{
	u32 from = domain_of_thread(th), to = domain_of(cpu);
	lock_t low = lock_of(from < to ? from : to), high = lock_of(from < to ? to : from);
	unsigned long of_low, of_high; /* the ledger's timer has interrupts on */
	bool done = false;

	if (nr_domains == 1 || from == to || !low || !high || lock_rests())
		return false;
	if (bpf_res_spin_lock_irqsave(low, &of_low))
		return lock_failed();
	if (bpf_res_spin_lock_irqsave(high, &of_high)) {
		bpf_res_spin_unlock_irqrestore(low, &of_low);
		return lock_failed();
	}
	if (th->domain == from && (!waits || th->waiting)) {
		sched_leave(tree_at(from), as_lend(th), now);
		if (!hsfq_valid(tree_at(to), th->leaf)) { /* it dies, and its class is gone */
			th->leaf = th->home = ROOT_LEAF;
			th->lt.generation = 0;
		}
		th->domain = to;
		sched_enter(tree_at(to), as_lend(th), ahead_by(th->leaf, from, to), now);
		if (waits) {
			sched_wait(tree_at(to), &loans, as_lend(th));
			th->queue = queue_for(th);
		}
		done = true;
	}
	bpf_res_spin_unlock_irqrestore(high, &of_high);
	bpf_res_spin_unlock_irqrestore(low, &of_low);
	return done;
}

__noinline int go_home(struct thread __arena *th __arg_arena, s32 cpu, u64 now)
{
	return go_to(th, cpu, now, false);
}

__noinline int go_waiting(struct thread __arena *th __arg_arena, s32 cpu, u64 now)
{
	return go_to(th, cpu, now, true);
}

/* Is the thread, which is not in service, in the tree of that CPU's domain, by now? */
static __always_inline bool is_home(struct thread __arena *th, s32 cpu, u64 now)
{
	return nr_domains == 1 || th->domain == domain_of(cpu) || go_home(th, cpu, now);
}

/* ---- under the lock ---------------------------------------------------- */

/* User space sees no arena. */
static void show_loans(void)
{
	hsfq_lending.loans = loans.loans;
	hsfq_lending.returned = loans.returned;
	hsfq_lending.chained = loans.chained;
	hsfq_lending.guests = loans.guests;
}

/* The thread is going to be runnable. */
static __always_inline void woke(struct thread __arena *th, u64 now)
{
	if (!th->runnable)
		th->woke_ns = now;
}

/* The thread wants service, and wants it still when it has had to wait. */
static __always_inline void ask(struct thread __arena *th, u64 now)
{
	th->chosen = 1;
	if (!th->hungry_ns)
		th->hungry_ns = now;
}

/* The thread is taken into service. One that woke beside an idle CPU is heard of
 * now for the first time, and did not wait. */
static __always_inline void count_wait(struct thread __arena *th, u64 now)
{
	u64 woke_ns = th->woke_ns;

	if (!woke_ns)
		return;
	th->woke_ns = 0;
	waits_count(th->waits, now - woke_ns);
}

/* A record of this leaf, of no thread and no service so far. */
static void name_leaf(struct hsfq_trace_record *r, u32 leaf)
{
	r->tid = r->pad = 0;
	r->length_ns = r->start_tag = 0;
	r->leaf = leaf;
	r->node = hierarchy.node[leaf].parent;
	r->weight = hierarchy.node[leaf].weight;
}

/* Is the thread that arrived in it the leaf's first? */
static bool name_first(struct hsfq_trace_record *r, hsfq_tree_t *t, u32 leaf)
{
	name_leaf(r, leaf);
	return t->node[leaf].runnable == 1;
}

#endif
