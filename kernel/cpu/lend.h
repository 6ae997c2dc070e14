/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lend.h - threads whose weight or leaf changes while they wait
 *
 * The key under which a thread waits is in the kernel's dispatch queue. When a
 * loan, or somebody's wish, changes it, core/cpu/lend.h has the thread on a list, and
 * the next ops.dispatch, which alone may, moves it to its new place.
 */
#ifndef QLINUX_CPU_LEND_H
#define QLINUX_CPU_LEND_H

/* Of the list in one ops.dispatch. */
#define REQUEUES_MAX 32

/* The thread is woken by the holder of what it waits for: it is the next to
 * hold it, and needs what the others that wait for it lend, to get so far. */
static void lend_woken(struct thread __arena *th)
{
	lend_thread_t *waker = cpu_of(bpf_get_smp_processor_id())->th;

	if (!waker || !lock_loans())
		return;
	if (th->lends && th->holder == waker)
		lend_hand_over(&loans, th->holder, as_lend(th), th->what);
	unlock_loans();
}

/* A thread waits under a better key. Where the one in service on its CPU need not go at once, the
 * CPU looks at its next tick. */
__noinline int contest(struct thread __arena *th __arg_arena, s32 cpu, u64 now)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	lock_t lock = lock_thread(th);
	struct sched_contest r = {};

	if (!lock)
		return 0;
	if (th->waiting && domain_of(cpu) == domain_of_thread(th))
		r = sched_contest(tree_of(th), as_server(c), as_lend(th), now);
	if (r.sooner)
		sched_cut(as_server(c), r.due_ns);
	unlock_tree(lock);
	if (r.over)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Moves a waiting thread to its leaf's queue, under its present key. False: it
 * is in no queue now, but on its way into one or to a CPU. */
static bool requeue(struct task_struct *p, u32 from, u32 to, u64 key)
{
	struct task_struct *head;
	bool done = false;

	if (from == to && p->scx.dsq_vtime == key)
		return true;
	bpf_for_each (scx_dsq, head, from, 0) {
		dsq_move_set_vtime(THIS_ITER, key);
		done = dsq_move_vtime(THIS_ITER, p, to, 0);
		break;
	}
	return done;
}

/* What is to be done to a thread that was settled. */
struct lend_turn {
	u64 now;
	u64 key;
	s32 tid; /* 0: nothing */
	u32 from, to;
	u32 done;
};

/* Settles the next thread of the list. False: the list is empty, or it has been
 * enough for now. */
__noinline int lend_turn(struct lend_turn *turn __arg_nonnull)
{
	struct thread __arena *th;
	lock_t lock;

	turn->tid = 0;
	if (turn->done++ == REQUEUES_MAX || !lock_loans())
		return false;
	th = (struct thread __arena *)lend_next(&loans);
	show_loans();
	if (nr_domains > 1 || !th)
		unlock_loans();
	if (!th)
		return false;
	lock = nr_domains == 1 ? lock_of(0) : lock_thread(th);
	if (!lock) { /* another time */
		lend_changed(&loans, as_lend(th));
		turn->done = REQUEUES_MAX;
		return true;
	}
	lend_settle(tree_of(th), &loans, as_lend(th), turn->now);
	turn->tid = th->waiting ? th->tid : 0;
	turn->from = th->queue;
	turn->to = queue_for(th);
	turn->key = leaf_key(&th->lt);
	show_loans();
	unlock_tree(lock);
	return true;
}

/* Puts it where it belongs. False: it could not be, it is on its way. */
static bool put_right(struct lend_turn *turn, s32 cpu)
{
	struct task_struct *p = bpf_task_from_pid(turn->tid);
	struct thread __arena *th;
	lock_t lock;
	bool done;

	if (!p)
		return true;
	done = requeue(p, turn->from, turn->to, turn->key);
	th = thread_of(p);
	lock = th ? lock_thread_surely(th) : NULL;
	if (lock) {
		if (done)
			th->queue = turn->to;
		else if (th->waiting)
			lend_changed(&loans, as_lend(th));
		unlock_tree(lock);
		if (done && task_cpu(p) != cpu)
			contest(th, task_cpu(p), turn->now);
	}
	bpf_task_release(p);
	return done;
}

/*
 * From ops.dispatch, where changed loans are due: they are settled, and the leaf
 * is chosen anew. The running thread is in no queue and needs no other place.
 */
__noinline int lend_and_choose(s32 cpu, struct thread __arena *running __arg_arena, u64 now)
{
	struct lend_turn turn = {.now = now};

	while (lend_turn(&turn) && can_loop) {
		if (!turn.tid || (running && running->tid == turn.tid))
			continue;
		if (!put_right(&turn, cpu))
			break;
	}
	lend_settled(&loans, now);
	return choose(domain_of(cpu));
}

#endif
