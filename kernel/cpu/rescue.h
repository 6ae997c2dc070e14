/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rescue.h - who is to be served out of turn, or a little longer, and is
 *
 * core/cpu/rescue.h decides; here is what it asks of a thread. The kernel does not tell who
 * is killed while waiting: all are looked at once a second, and at the end of the period in
 * which a thread of a held class was seen to die, for it may not be the only one.
 */
#ifndef QLINUX_CPU_RESCUE_H
#define QLINUX_CPU_RESCUE_H

#define PF_EXITING        0x00000004
#define SIGKILL_BIT       (1ULL << 8)
#define SIGNAL_GROUP_EXIT 0x00000004

/* The iterator of the bpf_for_each() loop around. */
#define THIS_ITER (&___it)

/* Where rescue() is in the tree. Not on the stack, for there the verifier would follow every
 * value that it may have. Two timers at once leave some leaves to the next time. */
static volatile u32 rescue_next;
/* So many of the leaf there that are inside a system call may be served. Two timers at once share
 * them. */
static volatile u32 rescue_left;

/* A thread of a held class was seen to die. */
static bool some_die;

struct pt_regs___arm64 {
	s32 syscallno;
} __attribute__((preserve_access_index));

/* Between taking its SIGKILL and being PF_EXITING a thread shows neither, but its process
 * does; one that dies of another's execve() too. */
static bool dies(struct task_struct *p)
{
	struct signal_struct *process = p->signal;

	if ((p->flags & PF_EXITING) || (p->pending.signal.sig[0] & SIGKILL_BIT))
		return true;
	return process && ((process->flags & SIGNAL_GROUP_EXIT) ||
			   (process->group_exec_task && process->group_exec_task != p));
}

/* Is it inside an RCU read section? A BPF program that it runs itself is one. */
static bool reads(struct task_struct *p, bool runs)
{
	return bpf_core_field_exists(p->rcu_read_lock_nesting) && p->rcu_read_lock_nesting > runs;
}

/* Was it preempted inside a system call? One that sleeps there holds its locks for as long as it
 * likes; whoever wakes waits for the period like one that was in user space. */
static bool inside(struct task_struct *p, struct thread __arena *th)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);

	if (!th->runnable || th->woke_ns)
		return false;
	if (bpf_core_field_exists(regs->orig_ax))
		return (s64)regs->orig_ax >= 0;
	return BPF_CORE_READ((struct pt_regs___arm64 *)regs, syscallno) >= 0;
}

/* Must the thread wait for its class's next period? Where one dies, the others of its kind are
 * looked for from now on. */
static bool must_wait(struct task_struct *p, struct thread __arena *th)
{
	u32 quanta = th->inside;
	bool dying, wait;

	if (!hierarchy.held || !limit_held(tree_of(th), th->leaf))
		return false;
	dying = dies(p);
	some_die |= dying;
	wait = rescue_waits(dying, !dying && inside(p, th), &quanta);
	th->inside = quanta;
	return wait;
}

/* A function of its own, for else the verifier would follow each thing that is seen of a thread
 * through the loop. */
__noinline int serves_now(u64 waited_ns, bool held, bool dying, bool within, bool reading)
{
	u32 left = rescue_left;
	bool now = rescue_now(waited_ns, held, dying, within, reading, &left);

	rescue_left = left;
	return now;
}

static void rescue_leaf(u32 domain, u32 leaf, u64 now)
{
	bool held = limit_held(tree_at(domain), leaf);
	struct thread __arena *th;
	struct task_struct *p;
	u64 since;

	rescue_left = RESCUE_INSIDE_LEAF;
	/* 6.12 takes a timer's function to be as sleepable as op_init, which sets it. */
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, queue_of(domain, leaf), 0) {
		th = thread_of(p);
		since = th ? th->hungry_ns : 0;
		if (!since || now < since)
			continue;
		if (!serves_now(now - since, held, held && dies(p), held && inside(p, th),
				reads(p, false)))
			continue;
		dsq_move_set_slice(THIS_ITER, QUANTUM_MIN_NS);
		if (dsq_move(THIS_ITER, p, SCX_DSQ_LOCAL_ON | task_cpu(p), SCX_ENQ_PREEMPT))
			CORE_COUNT(hsfq_totals.rescued);
	}
	bpf_rcu_read_unlock();
}

__noinline int rescue_in(u32 domain, u64 now)
{
	hsfq_tree_t *t;
	u32 leaf;

	barrier_var(domain);
	t = tree_at(domain);
	for (rescue_next = t->unused; (leaf = rescue_next) > HSFQ_ROOT && can_loop;) {
		rescue_next = leaf - 1;
		if (leaf < HSFQ_NODES && t->node[leaf].waiting)
			rescue_leaf(domain, leaf, now);
	}
	return 0;
}

static void rescue(u64 now)
{
	u32 domain;

	some_die = false;
	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
		rescue_in(domain, now);
}

static int rescue_fires(void *map, u32 *key, struct quantum_timer *t)
{
	rescue(clock_now());
	if (by_load)
		speed_all(clock_now());
	bpf_timer_start(&t->timer, RESCUE_EVERY_NS, 0);
	return 0;
}

#endif
