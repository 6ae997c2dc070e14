/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rescue.h - threads that are served out of turn, or a little longer
 *
 * Weights may be such that a thread's turn comes after hours, and sched_ext takes
 * a scheduler off that keeps one waiting for 30 s. So a thread that has waited for
 * RESCUE_NS gets one quantum out of turn, charged like any other.
 *
 * One that dies need not wait for its class's next period: somebody waits for it
 * to be gone, and it gives back more than it takes. Nor need one that was preempted
 * inside a system call, for INSIDE_MOST short quanta: it may hold what the whole machine
 * waits for, such as the mutex of all cgroups, which it takes to enter the class. What
 * they take is a debt of the class. The kernel does not tell who is killed while waiting:
 * all are looked at once a second, and at the end of the period in which a thread of a
 * held class was seen to die, for it may not be the only one. Those inside a system call
 * are served once a second only: periods are as short as a user likes.
 *
 * One that is preempted inside an RCU read section holds up every grace period, and
 * all who wait for one, until its turn comes. It may leave the section first, if that
 * takes it READ_MOST steps at most; if it takes longer, it is served out of turn when
 * all are looked at next and it has waited for RESCUE_READER_NS.
 */
#ifndef QLINUX_CPU_RESCUE_H
#define QLINUX_CPU_RESCUE_H

/* A thread that waited this long is served out of turn; in a class that has used
 * up its budget, this long. */
#define RESCUE_NS      10000000000ULL
#define RESCUE_HELD_NS 20000000000ULL
/* Inside an RCU read section, this long. */
#define RESCUE_READER_NS 1000000000ULL
/* So often all are looked at. */
#define RESCUE_EVERY_NS 1000000000ULL
/* So many quanta has one inside a system call while its class is held; so many of those that
 * wait inside one, in each leaf, are served when all are looked at. */
#define INSIDE_MOST 2
#define INSIDE_LEAF 8
/* The kernel does not tell either when a read section ends: so often one looks. */
#define READ_STEP_NS 20000ULL
#define READ_MOST    50

#define PF_EXITING        0x00000004
#define SIGKILL_BIT       (1ULL << 8)
#define SIGNAL_GROUP_EXIT 0x00000004

/* The iterator of the bpf_for_each() loop around. */
#define THIS_ITER (&___it)

/* Where rescue() is in the tree. Not on the stack, for there the verifier would follow every
 * value that it may have. Two timers at once leave some leaves to the next time. */
static volatile u32 rescue_next;

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

/* Must the thread wait for its class's next period? One inside a system call need not at first. One
 * that dies need not, and the others of its kind are looked for from now on (some_die). */
static bool must_wait(struct task_struct *p, struct thread __arena *th)
{
	if (!tree.held || !limit_held(&tree, th->leaf))
		return false;
	if (!dies(p))
		return !inside(p, th) || th->inside++ >= INSIDE_MOST;
	some_die = true;
	return false;
}

static void rescue_leaf(u32 leaf, u64 now)
{
	bool held = limit_held(&tree, leaf);
	u64 since, longest, usual = held ? RESCUE_HELD_NS : RESCUE_NS;
	u32 left = INSIDE_LEAF;
	struct thread __arena *th;
	struct task_struct *p;

	/* 6.12 takes a timer's function to be as sleepable as op_init, which sets it. */
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, leaf, 0) {
		th = thread_of(p);
		since = th ? th->hungry_ns : 0;
		longest = reads(p, false) ? RESCUE_READER_NS : usual;
		if (!since || now < since)
			continue;
		if (held && left && inside(p, th)) {
			left--;
			longest = 0;
		}
		if (now - since < longest && !(held && dies(p)))
			continue;
		dsq_move_set_slice(THIS_ITER, QUANTUM_MIN_NS);
		if (dsq_move(THIS_ITER, p, SCX_DSQ_LOCAL_ON | task_cpu(p), SCX_ENQ_PREEMPT))
			hsfq_totals.rescued++;
	}
	bpf_rcu_read_unlock();
}

__noinline int rescue(u64 now)
{
	u32 leaf;

	some_die = false;
	for (rescue_next = tree.unused; (leaf = rescue_next) > HSFQ_ROOT && can_loop;) {
		rescue_next = leaf - 1;
		if (leaf < HSFQ_NODES && tree.node[leaf].waiting)
			rescue_leaf(leaf, now);
	}
	return 0;
}

static int rescue_fires(void *map, u32 *key, struct quantum_timer *t)
{
	rescue(clock_now());
	bpf_timer_start(&t->timer, RESCUE_EVERY_NS, 0);
	return 0;
}

#endif
