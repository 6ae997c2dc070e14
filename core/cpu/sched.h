/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sched.h - the scheduler of threads: who is served, where, and until when
 *
 * What happens to threads and servers goes in here, and what is to be done about it comes out.
 * Below are the tree, the leaves, loans and quanta, which know nothing of servers; around it is
 * the mechanism, which knows queues, interrupts and timers and decides nothing.
 *
 *   a thread wakes       sched_arrive, sched_wait; sched_contest: does the service where it waits
 *                        end for it? If not now, the mechanism looks for an idle server, and
 *                        asks some others then: sched_ends_elsewhere
 *   a server is free     sched_choose; sched_choose_but where it cannot have that leaf
 *   a service begins     sched_begin says for how long; sched_set: the server knows of it
 *   it ends              sched_end: the thread is charged, and sleeps, waits or asks for more;
 *                        after sched_give_up it comes behind the others of its leaf
 *   another was chosen   sched_goes_on, sched_outranks: does the thread go on all the same?
 *   time passes          sched_timer, sched_tick: is the quantum over?
 *
 * Calls that change the tree are serialised by the caller. Those that say so only read it: they
 * may be made meanwhile, and what they see may be out of date, which costs a switch or a short
 * wait.
 */
#ifndef QLINUX_CORE_SCHED_H
#define QLINUX_CORE_SCHED_H

#include "lend.h"
#include "quantum.h"

/* An end that is so near is now. */
#define SCHED_SLACK_NS 10000ULL
/* What was chosen as the next leaf holds for so long. */
#define SCHED_NEXT_OLD_NS 10000ULL
/* So many other servers at most are asked whether a service ends there. With more of them
 * one ends soon anyway, somewhere. */
#define SCHED_OTHERS 16

/* A server, and whom it serves. */
struct sched_server {
	lend_thread_t *th;       /* in service, NULL: nobody */
	lend_thread_t *straight; /* was given to it to be the next, before that was sure */
	u64 since_ns;            /* the service began */
	u64 until_ns;            /* its quantum ends then, */
	u64 due_ns;              /* and must not end later, 0: open end */
	u64 calm_ns;             /* interruptions so far are paid for then (quantum.h) */
	u64 next_ns;             /* the next leaf was chosen then */
	u32 next;                /* which, when the thread here went to sleep */
	u32 passed;              /* leaves that it has passed over and not restored yet */
	u32 ending;              /* its quantum was ended for another thread */
	u32 steps;               /* since its quantum was over (rescue.h) */
};

typedef struct sched_server CORE_MEM sched_server_t;

/* ---- a thread wakes, waits, sleeps -------------------------------------- */

/* The thread is runnable; false: it was. */
CORE_INLINE bool sched_arrive(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th, u64 now_ns)
{
	if (th->runnable)
		return false;
	if (th->lends)
		lend_end(b, th);
	th->runnable = 1;
	leaf_arrive(t, th->leaf, &th->lt, now_ns);
	return true;
}

/* Likewise, of one that was served without having waited. */
CORE_COLD bool sched_arrive_late(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th, u64 now_ns)
{
	return sched_arrive(t, b, th, now_ns);
}

/* The thread, which is in no queue yet, asks for service. */
CORE_INLINE void sched_wait(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th)
{
	if (th->waiting)
		return;
	if (th->borrows)
		lend_changed(b, th);
	th->waiting = 1;
	leaf_wait(t, th->leaf);
}

CORE_FN void sched_unwait(hsfq_tree_t *t, lend_thread_t *th)
{
	if (!th->waiting)
		return;
	th->waiting = 0;
	leaf_unwait(t, th->leaf);
}

/* The thread is not runnable any more; false: it was not. */
CORE_INLINE bool sched_depart(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th, u64 now_ns)
{
	sched_unwait(t, th);
	if (!th->runnable)
		return false;
	th->runnable = 0;
	leaf_depart(t, th->leaf, &th->lt, now_ns);
	if (th->borrows)
		lend_changed(b, th);
	if (th->holder)
		lend_begin(b, th);
	return true;
}

/*
 * Several domains: the thread, which is not in service, goes from the tree of one to that of
 * another: sched_leave, then sched_enter. In between it is in none, and the caller holds that.
 * `ahead_ns`: so much more than its new peers its old ones were served (ledger_apart).
 */
CORE_INLINE void sched_leave(hsfq_tree_t *t, lend_thread_t *th, u64 now_ns)
{
	if (th->lt.planned_ns) /* it was taken into service, and that is off */
		hsfq_update(t, th->leaf, 0, th->lt.planned_ns);
	th->lt.planned_ns = 0;
	sched_unwait(t, th);
	th->lt.generation = leaf_pack(&t->node[th->leaf], &th->lt, th->runnable);
	if (th->runnable)
		leaf_depart(t, th->leaf, &th->lt, now_ns);
	leaf_leave(t, th->leaf);
}

CORE_INLINE void sched_enter(hsfq_tree_t *t, lend_thread_t *th, s64 ahead_ns, u64 now_ns)
{
	u32 packed = th->lt.generation;

	th->at_home_generation = 0;
	leaf_join(t, th->leaf, &th->lt);
	leaf_enter(t, th->leaf, &th->lt, packed, th->runnable, ahead_ns, now_ns);
}

/* ---- whose service ends for one that waits ------------------------------ */

/* How long the thread there has been served by now. It may have begun since another server has
 * read the time. */
CORE_FN u64 sched_served(sched_server_t *s, u64 now_ns)
{
	u64 since_ns = s->since_ns;

	return now_ns > since_ns ? now_ns - since_ns : 0;
}

/* The quantum in service here is ended for another thread. */
CORE_FN void sched_give_way(sched_server_t *s)
{
	s->ending = 1;
}

/* Was the quantum here ended for another thread? Then the one in service does not go on, nor is
 * another preferred to the first. */
CORE_FN bool sched_gives_way(sched_server_t *s)
{
	return s->ending;
}

struct sched_contest {
	u64 due_ns; /* the service of this server ends then, 0: it does not matter */
	bool over;  /* that is now */
	bool sooner;
	bool held; /* the thread's class has used up its budget: it has to wait for that */
};

/*
 * The thread waits, from now on or under a better key, and would be served here. Does what is in
 * service end for it? Where that is over now, an interruption is counted.
 */
CORE_INLINE struct sched_contest sched_contest(hsfq_tree_t *t, sched_server_t *s, lend_thread_t *th,
					       u64 now_ns)
{
	u32 leaf = th->leaf;
	bool held = limit_held(t, leaf);
	lend_thread_t *cur = s->th;
	u64 due_ns = 0;
	bool over, sooner = false;

	if (cur && cur != th && !held) {
		due_ns = s->since_ns + quantum_cut(t, leaf, &th->lt, cur->leaf, &cur->lt,
						   sched_served(s, now_ns), now_ns,
						   quantum_eager(s->calm_ns, now_ns))
					       .length_ns;
		due_ns += !due_ns; /* 0 says that it does not matter */
		sooner = !s->due_ns || due_ns < s->due_ns;
	}
	over = due_ns && due_ns <= now_ns + SCHED_SLACK_NS;
	if (over)
		s->calm_ns = quantum_calm(s->calm_ns, now_ns);
	return (struct sched_contest){due_ns, over, sooner, held};
}

/* The service ends sooner, as a contest had it. */
CORE_FN void sched_cut(sched_server_t *s, u64 due_ns)
{
	s->due_ns = due_ns;
}

/* Would the leaf of a thread for which the service here is over now be chosen next, so that nobody
 * need be asked? Its queue is the caller's business. */
CORE_INLINE bool sched_is_next(hsfq_tree_t *t, lend_book_t *b, sched_server_t *s, lend_thread_t *th,
			       u64 now_ns)
{
	if (lend_due(b, NULL, now_ns))
		return false;
	if (!CORE_ALONE || CORE_SEVERAL(t))
		return hsfq_is_next(t, th->leaf);
	if (!hsfq_is_next_after(t, th->leaf, s->th->leaf, sched_served(s, now_ns)))
		return false;
	s->straight = th; /* v(t) comes to its tag when it begins */
	return true;
}

/* May a single server have the thread, which starts to wait, at once (quantum_straight)? */
CORE_INLINE bool sched_straight(hsfq_tree_t *t, lend_book_t *b, sched_server_t *s,
				lend_thread_t *th, u64 now_ns)
{
	if (!CORE_ALONE || lend_due(b, NULL, now_ns) || !quantum_straight(t, th->leaf))
		return false;
	s->straight = th;
	return true;
}

/* How long a peer of the thread, which waits, is surely left in peace. Only reads the tree. */
CORE_FN u64 sched_peace(hsfq_tree_t *t, lend_thread_t *th)
{
	return quantum_peace(t, th->leaf, &th->lt, th->leaf, true);
}

/* Is it sure without the tree that the service here does not end for a thread of this leaf? Most
 * services are shorter than that, so most servers need not be asked. */
CORE_FN bool sched_in_peace(sched_server_t *s, u32 leaf, u64 peace_ns, u64 now_ns)
{
	lend_thread_t *cur = s->th;

	return !cur || s->ending || (cur->leaf == leaf && sched_served(s, now_ns) < peace_ns);
}

/* A thread woke, and its waker, in service, is about to sleep. May it follow there without having
 * waited? Not where it would pass somebody, who may be bound to that server and would wait for as
 * long as the two go on. Only reads the tree. */
CORE_FN bool sched_may_follow(hsfq_tree_t *t)
{
	return !t->node[HSFQ_ROOT].waiting && !t->passed;
}

/* A thread that woke waits, no server is idle, and on its own nothing ends for it at once. Does
 * the service of this one? Only reads the tree. */
CORE_INLINE bool sched_ends_elsewhere(hsfq_tree_t *t, sched_server_t *s, lend_thread_t *th,
				      u64 now_ns)
{
	lend_thread_t *cur = s->th;

	if (!cur || s->ending ||
	    !quantum_ends(t, th->leaf, &th->lt, cur->leaf, &cur->lt, sched_served(s, now_ns),
			  now_ns, quantum_eager(s->calm_ns, now_ns)))
		return false;
	s->calm_ns = quantum_calm(s->calm_ns, now_ns);
	sched_give_way(s);
	return true;
}

/* The quantum of a thread is over, and its server, whose quantum was not ended for another, has
 * chosen another leaf. Does the thread go on (quantum.h), if it is the first of its own? Only reads
 * the tree. */
CORE_FN bool sched_goes_on(hsfq_tree_t *t, lend_thread_t *th, u32 chosen)
{
	return quantum_goes_on(t, th->leaf, chosen);
}

/* Likewise. Does it go on because it outranks the one in service on this other server (leaf.h),
 * which changes instead, and does not pass that on? Only reads the tree. */
CORE_INLINE bool sched_outranks(hsfq_tree_t *t, sched_server_t *other, lend_thread_t *th,
				u32 chosen, u64 now_ns)
{
	lend_thread_t *cur = other->th;

	if (!cur || other->ending ||
	    !leaf_outranks(t, th->leaf, &th->lt, chosen, cur->leaf, &cur->lt,
			   sched_served(other, now_ns), now_ns))
		return false;
	sched_give_way(other);
	return true;
}

/* ---- a service begins --------------------------------------------------- */

/* The thread waits no longer: it is served next. */
CORE_INLINE void sched_take(hsfq_tree_t *t, lend_thread_t *th)
{
	if (!th->waiting)
		return;
	th->waiting = 0;
	leaf_take(t, th->leaf);
}

struct sched_begin {
	struct quantum quantum;
	bool late;     /* it was runnable without having waited */
	bool straight; /* it was given to the server before it was sure to be the next */
	bool second;   /* and another leaf comes first by now */
};

/* The thread is served here from now on: for how long? */
CORE_INLINE struct sched_begin sched_begin(hsfq_tree_t *t, lend_book_t *b, sched_server_t *s,
					   lend_thread_t *th, u64 now_ns)
{
	struct sched_begin r = {};
	u32 leaf = th->leaf;
	u64 exact;

	r.late = !th->runnable && sched_arrive_late(t, b, th, now_ns);
	if (CORE_ALONE && s->straight == th) {
		s->straight = NULL;
		r.straight = true;
		r.second = hsfq_schedule(t) != leaf;
	}
	sched_take(t, th);
	r.quantum = quantum_of(t, leaf, &th->lt, now_ns);
	exact = r.quantum.exact;
	CORE_FORGET(r.quantum.length_ns, now_ns);
	CORE_FORGET(exact, now_ns);
	r.quantum.exact = exact & 1;
	leaf_serve(t, leaf, &th->lt, r.quantum.length_ns);
	return r;
}

/* The server knows of it. */
CORE_INLINE void sched_set(sched_server_t *s, lend_thread_t *th, struct quantum q, u64 now_ns)
{
	s->th = th;
	s->since_ns = now_ns;
	s->until_ns = now_ns + q.length_ns;
	s->due_ns = q.exact ? s->until_ns : 0;
	s->ending = 0;
	s->steps = 0;
}

/* A thread goes on with a quantum that was broken off, and has not competed for a new one: for
 * so long. */
CORE_FN u64 sched_left(sched_server_t *s, u64 now_ns)
{
	u64 left_ns = s->until_ns > now_ns ? s->until_ns - now_ns : 1;

	CORE_FORGET(left_ns, now_ns);
	return left_ns;
}

/* It is served for what is left of that. Returns whether it was not runnable before. */
CORE_FN bool sched_resume(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th, u64 left_ns,
			  u64 now_ns)
{
	bool late = !th->runnable && sched_arrive_late(t, b, th, now_ns);

	sched_unwait(t, th);
	leaf_serve(t, th->leaf, &th->lt, left_ns);
	return late;
}

CORE_FN void sched_set_again(sched_server_t *s, lend_thread_t *th, u64 left_ns, u64 now_ns)
{
	s->th = th;
	s->since_ns = now_ns;
	s->ending = 0;
	if (s->due_ns)
		s->due_ns = now_ns + left_ns;
}

/* ---- it ends ------------------------------------------------------------ */

enum sched_then {
	SCHED_SLEEPS, /* the thread is not runnable any more */
	SCHED_WAITS,  /* it was preempted, and will wait */
	SCHED_ASKS,   /* its quantum is over, and it asks for the next at once */
};

/* The thread in service wants to let others of its leaf go first, and its quantum ends for that.
 * False: it goes on, for none waits; or, with several servers, none that is `near`, having been
 * served here last: others serve those soon, and a switch to one would be a move as well. Only
 * reads the tree. */
CORE_FN bool sched_give_up(hsfq_tree_t *t, lend_thread_t *th, bool near)
{
	if (!t->node[th->leaf].waiting || (CORE_SEVERAL(t) && !near))
		return false;
	th->yields = 1;
	return true;
}

struct sched_end {
	u32 held; /* classes of its path that have used up their budgets by that */
	u32 next; /* the leaf to be served next, unless it was preempted */
	bool charged;
	bool departed;
};

/* It has been served this long since it was charged last. Returns how many classes of its path
 * have used up their budgets by that. */
CORE_INLINE u32 sched_charge(hsfq_tree_t *t, lend_thread_t *th, u64 ran_ns, u64 now_ns)
{
	if (th->borrows)
		lend_served(t, th);
	return leaf_charge(t, th->leaf, &th->lt, ran_ns, now_ns);
}

CORE_INLINE struct sched_end sched_end(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th,
				       u64 ran_ns, u64 now_ns, enum sched_then then)
{
	struct sched_end e = {.charged = ran_ns || th->lt.planned_ns};

	if (e.charged)
		e.held = sched_charge(t, th, ran_ns, now_ns);
	if (th->yields && then != SCHED_SLEEPS)
		leaf_yield(t, th->leaf, &th->lt, now_ns);
	th->yields = 0;
	e.departed = then == SCHED_SLEEPS && sched_depart(t, b, th, now_ns);
	if (then == SCHED_ASKS)
		sched_wait(t, b, th);
	if (then == SCHED_ASKS || (then == SCHED_SLEEPS && CORE_SEVERAL(t)))
		e.next = hsfq_schedule(t);
	/* Or another server would think that nobody waits, until it is in its queue. */
	if (then == SCHED_WAITS && th->runnable)
		sched_wait(t, b, th);
	return e;
}

/* ---- who comes next ----------------------------------------------------- */

/* The leaf that comes first, HSFQ_NIL: none. */
CORE_FN u32 sched_choose(hsfq_tree_t *t)
{
	return hsfq_schedule(t);
}

/* The thread here has gone to sleep, and this leaf comes next (sched_end). */
CORE_FN void sched_note_next(sched_server_t *s, u32 leaf, u64 now_ns)
{
	s->next = leaf;
	s->next_ns = now_ns;
}

/* The leaf noted, unless that is long ago; HSFQ_NIL: choose. That none waited is to be asked again:
 * who came since has found no idle server, which this one would now be. */
CORE_FN u32 sched_noted(sched_server_t *s, u64 now_ns)
{
	u32 leaf = s->next;

	s->next = HSFQ_NIL;
	return now_ns - s->next_ns < SCHED_NEXT_OLD_NS ? leaf : HSFQ_NIL;
}

/* The server cannot have a thread of the leaf, which joins those that it has passed over: the
 * first one after that. `soon`: it could in a moment, so v(t) waits for it. */
CORE_FN u32 sched_choose_but(hsfq_tree_t *t, u32 leaf, bool soon, u32 *passed)
{
	*passed = leaf_pass(t, leaf, *passed);
	return soon ? hsfq_schedule(t) : hsfq_schedule_but(t);
}

/* The first of the leaves passed over may be chosen again. Returns the next of them. */
CORE_FN u32 sched_restore(hsfq_tree_t *t, u32 passed)
{
	return leaf_restore(t, passed);
}

/* ---- time passes -------------------------------------------------------- */

/* The server's timer fires. Returns 0: nothing is to be done, `now_ns`: its quantum is over, or
 * when the timer is to fire again. */
CORE_FN u64 sched_timer(sched_server_t *s, u64 now_ns)
{
	u64 due_ns = s->due_ns;

	if (!due_ns || !s->th)
		return 0;
	if (now_ns + SCHED_SLACK_NS < due_ns)
		return due_ns;
	if (due_ns < s->until_ns)
		sched_give_way(s);
	return now_ns;
}

/* Where there is no timer, or somebody else has set when the quantum ends: is it over? It is, too,
 * where loans are to be settled and nobody has asked the tree since. */
CORE_FN bool sched_tick(lend_book_t *b, sched_server_t *s, u64 now_ns)
{
	return (s->due_ns && now_ns >= s->due_ns) || lend_due(b, NULL, now_ns);
}

#endif
