/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf.h - the schedulers of leaf nodes
 *
 * A leaf scheduler orders the threads of one leaf. It is one file that defines
 * five functions and a constant, and one line in LEAF_POLICIES;
 * docs/leaf-schedulers.md leads through writing one.
 *
 *   leaf_NAME_arrive  a thread becomes runnable: give it its key
 *   leaf_NAME_charge  it was served for some time: move its key
 *   leaf_NAME_ahead   its key if it were charged that much now
 *   leaf_NAME_slice   longest service it wants at once
 *   leaf_NAME_yield   it gives up the rest of its turn: move its key behind the others'
 *   LEAF_NAME_PROMPT  1: a quantum ends exactly when its slice does, and at once
 *                     for a thread that wakes and comes first; 0: a tick or
 *                     half a millisecond do not matter
 *
 * now_ns is the time now, of one clock that never goes back. Waiting threads
 * are served least key first, FIFO among equals; keys compare
 * modulo 2^64 like tags (sfq_before). Where the threads wait is the
 * mechanism's business. A leaf's clock and its arrival counter are in its
 * node; what a policy keeps for each thread is struct leaf_thread.
 */
#ifndef QLINUX_CORE_LEAF_H
#define QLINUX_CORE_LEAF_H

#include "../tree/limit.h"

struct leaf_thread {
	struct sfq_flow flow; /* flow.start is the key, but for `early` */
	u32 weight;           /* SFQ_WEIGHT_MIN … SFQ_WEIGHT_MAX */
	u32 generation;       /* the leaf's, when the key was made */
	u64 left_ns;          /* what is left of its turn, quantum or budget; ts: savings */
	u64 early;            /* ts: its key is so much before its start tag, until it is served */
	/* edf, rm: the reservation (C, T, D), all 0 without one, and the present job */
	u64 cost_ns, period_ns, deadline_ns;
	u64 due_ns;    /* the job's deadline, 0: there was none yet; ts: it was served or woke last
			  then */
	u64 missed_ns; /* the last deadline that was counted as missed */
	u64 misses;
	/* svr4 */
	u16 class;      /* enum leaf_svr4_class */
	u16 priority;   /* rt: 0 … LEAF_SVR4_TOP */
	u32 level;      /* present priority */
	u64 planned_ns; /* several servers: service its leaf is charged for already */
	/* ts (mean.h): what it was behind the mean by when it went to sleep; while it is runnable,
	 * tag and weight that it is counted with, 0: it is not, and the leaf's generation then */
	u64 lag, mean_tag;
	u32 mean_weight, mean_generation;
};

typedef struct leaf_thread CORE_MEM leaf_thread_t;

/* The longest a thread runs while others of its leaf wait, at equal weights. */
#define LEAF_QUANTUM_NS 3000000ULL
/* Under ts and sfq all have their turn within this much service of the leaf, as far as
 * turns need not be shorter than the least for that. */
#define LEAF_ROUND_NS    96000000ULL
#define LEAF_TURN_MIN_NS 500000ULL

/* Limits of a reservation: C at least the shortest quantum, C <= D <= T, and T
 * such that deadlines are far nearer than the background. */
#define LEAF_COST_MIN_NS   100000ULL
#define LEAF_PERIOD_MAX_NS 60000000000ULL
/* A thread that overruns is not put off further than that. */
#define LEAF_POSTPONE_NS (1ULL << 38)
/* Threads without a reservation are due this much later than now: never, beside
 * threads with one. */
#define LEAF_BACKGROUND_NS (1ULL << 44)

/* Several servers: a thread that a server served last comes before the first of the leaf
 * there, as long as it is not further behind than this much service of an average thread.
 * What it left in the caches is still there, and half of all switches need no move. */
#define LEAF_NEAR_NS 1000000ULL

/* Under ts and sfq a thread that yields comes as much later as if it, of average weight, had been
 * served for so long: EEVDF's base slice. */
#define LEAF_YIELD_NS 700000ULL

/* ---- for schedulers that make keys of times or priorities -------------- */

/* Its key; `key` counts from l->base, behind all keys of earlier schedulers. */
CORE_FN void leaf_key_set(hsfq_node_t *l, leaf_thread_t *th, u64 key)
{
	th->flow.start = l->base + key;
	l->tail = sfq_max(l->tail, th->flow.start);
}

/* A thread without a reservation, behind all that have one: first come, first
 * served, in turns. */
CORE_FN void leaf_background(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	th->left_ns = LEAF_QUANTUM_NS;
	leaf_key_set(l, th, now_ns - l->since_ns + LEAF_BACKGROUND_NS);
}

CORE_FN void leaf_background_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	if (length_ns < th->left_ns)
		th->left_ns -= length_ns;
	else
		leaf_background(l, th, now_ns);
}

/* One with a reservation has promised to need no more than that, and gives up nothing. */
CORE_FN void leaf_background_yield(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	if (!th->cost_ns)
		leaf_background(l, th, now_ns);
}

CORE_FN u64 leaf_background_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	if (length_ns < th->left_ns)
		return th->flow.start;
	return l->base + now_ns - l->since_ns + LEAF_BACKGROUND_NS;
}

/* Is it at least a period since the present job was released? */
CORE_FN bool leaf_job_over(leaf_thread_t *th, u64 now_ns)
{
	return !th->due_ns || now_ns + th->deadline_ns >= th->due_ns + th->period_ns;
}

/* a b <= c d, exactly, of times below 2^36. */
CORE_FN bool leaf_job_le(u64 a, u64 b, u64 c, u64 d)
{
	u64 low = (1 << 18) - 1, ab = (a & low) * b, cd = (c & low) * d;
	u64 high_ab = (a >> 18) * b + (ab >> 18), high_cd = (c >> 18) * d + (cd >> 18);

	return high_ab != high_cd ? high_ab < high_cd : (ab & low) <= (cd & low);
}

/* Does what is left of the budget fit before the deadline, at rate C / D? */
CORE_FN bool leaf_job_fits(leaf_thread_t *th, u64 now_ns)
{
	u64 ahead_ns = th->due_ns - now_ns;

	if (now_ns >= th->due_ns)
		return false;
	if (ahead_ns >= th->deadline_ns)
		return true;
	return leaf_job_le(th->left_ns, th->deadline_ns, ahead_ns, th->cost_ns);
}

/* Was it served after its deadline? A deadline counts once. */
CORE_FN void leaf_job_late(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	if (now_ns <= th->due_ns || th->missed_ns == th->due_ns)
		return;
	th->missed_ns = th->due_ns;
	th->misses++;
	l->misses++;
}

/* The budget is used, and so much more: the deadline of the next job. */
CORE_FN u64 leaf_job_next(leaf_thread_t *th, u64 over_ns, u64 now_ns)
{
	u64 due_ns = th->due_ns + th->period_ns * (1 + over_ns / th->cost_ns);

	return due_ns < now_ns + LEAF_POSTPONE_NS ? due_ns : now_ns + LEAF_POSTPONE_NS;
}

/* ---- for schedulers that divide their leaf's service ------------------- */

/* The turn of a thread of average weight. */
CORE_FN u64 leaf_turn(hsfq_node_t *l)
{
	u64 turn_ns;

	if (l->runnable <= LEAF_ROUND_NS / LEAF_QUANTUM_NS)
		return LEAF_QUANTUM_NS;
	turn_ns = LEAF_ROUND_NS / l->runnable;
	return turn_ns > LEAF_TURN_MIN_NS ? turn_ns : LEAF_TURN_MIN_NS;
}

/* ---- the schedulers ---------------------------------------------------- */

#include "mean.h"
#include "leaf_sfq.h"
#include "leaf_ts.h"
#include "leaf_rr.h"
#include "leaf_fifo.h"
#include "leaf_edf.h"
#include "leaf_rm.h"
#include "leaf_svr4.h"

/* number, name; the first is the default. Numbers are part of the interface. */
#define LEAF_POLICIES(X)                                                                           \
	X(0, ts)                                                                                   \
	X(1, sfq)                                                                                  \
	X(2, rr)                                                                                   \
	X(3, fifo)                                                                                 \
	X(4, edf)                                                                                  \
	X(5, rm)                                                                                   \
	X(6, svr4)

enum leaf_policy {
#define LEAF_ENUM(number, name) LEAF_##name = number,
	LEAF_POLICIES(LEAF_ENUM)
#undef LEAF_ENUM
};

CORE_FN bool leaf_policy_valid(u32 policy)
{
	switch (policy) {
#define LEAF_CASE(number, name) case number:
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
		return true;
	}
	return false;
}

CORE_INLINE void leaf_policy_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	th->early = 0;
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		leaf_##name##_arrive(l, th, now_ns);                                               \
		break;
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
	}
	th->generation = l->generation;
}

/* A thread that the leaf's policy has no key for yet: new, moved in, or from
 * before the policy was changed. */
CORE_FN bool leaf_stranger(hsfq_node_t *l, leaf_thread_t *th)
{
	return th->generation != l->generation;
}

CORE_FN void leaf_greet(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	sfq_flow_init(&l->clock, &th->flow);
	th->left_ns = 0;
	th->due_ns = 0;
	th->lag = 0;
	leaf_policy_arrive(l, th, now_ns);
}

/* The thread becomes a member of the leaf. It is not runnable. */
CORE_FN void leaf_join(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th)
{
	t->node[leaf].threads++;
	th->generation = 0;
}

/* The thread, not runnable, leaves for good. */
CORE_FN void leaf_leave(hsfq_tree_t *t, u32 leaf)
{
	t->node[leaf].threads--;
	hsfq_sweep(t, leaf);
}

/* One thread more of the leaf, which has its key, is runnable. */
CORE_INLINE void leaf_add(hsfq_tree_t *t, u32 leaf, u64 now_ns)
{
	CORE_RUNNABLE(t, leaf, 1, now_ns);
	if (!t->node[leaf].runnable++)
		hsfq_activate(t, leaf);
}

/* The thread becomes runnable. */
CORE_INLINE void leaf_arrive(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns)
{
	hsfq_node_t *l = &t->node[leaf];

	l->weights += th->weight;
	if (leaf_stranger(l, th))
		leaf_greet(l, th, now_ns);
	else
		leaf_policy_arrive(l, th, now_ns);
	leaf_add(t, leaf, now_ns);
}

/* The thread, charged and not waiting, blocks. */
CORE_INLINE void leaf_depart(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns)
{
	hsfq_node_t *l = &t->node[leaf];

	CORE_RUNNABLE(t, leaf, -1, now_ns);
	leaf_ts_depart(l, th);
	sfq_depart(&l->clock, &th->flow);
	l->weights -= th->weight;
	if (--l->runnable)
		return;
	sfq_idle(&l->clock);
	hsfq_sleep(t, leaf);
}

/* A runnable thread that is not in service starts to wait. */
CORE_FN void leaf_wait(hsfq_tree_t *t, u32 leaf)
{
	hsfq_node_t *l = &t->node[leaf];

	if (!l->waiting++ && !(l->flags & HSFQ_READY))
		hsfq_ready(t, leaf);
}

/* It stops waiting: blocked, moved, or taken into service. */
CORE_FN void leaf_unwait(hsfq_tree_t *t, u32 leaf)
{
	if (!--t->node[leaf].waiting)
		hsfq_busy(t, leaf);
}

/* It is taken into service. A single server asks for the next leaf only after it has
 * charged this one, so the leaf may as well keep its place. */
CORE_FN void leaf_take(hsfq_tree_t *t, u32 leaf)
{
	if (!--t->node[leaf].waiting && t->servers > 1)
		hsfq_busy(t, leaf);
}

/*
 * Several domains: a thread goes to the same leaf of another domain's tree, whose v(t) is
 * another. Under ts and sfq it takes along by how much its start tag is ahead of v(t) or behind
 * it: what it was served more than its peers, or less. From leaf_pack to leaf_unpack that is its
 * start tag.
 */
#define LEAF_PACKED (~0U)

CORE_FN bool leaf_divides(hsfq_node_t *l)
{
	return l->policy == LEAF_ts || l->policy == LEAF_sfq;
}

/* Before it leaves. Returns what its generation is until it is unpacked. */
CORE_FN u32 leaf_pack(hsfq_node_t *l, leaf_thread_t *th, bool runnable)
{
	u64 v = l->clock.vtime;

	if (leaf_stranger(l, th) || !leaf_divides(l))
		return 0;
	/* Alone in its leaf it is ahead of nobody. */
	if (runnable ? l->runnable == 1 && sfq_before(v, th->flow.start)
		     : sfq_past(&l->clock, &th->flow, v))
		th->flow.start = v;
	th->flow.start -= v;
	th->flow.rem = 0;
	return LEAF_PACKED;
}

/* After it has joined. `ahead_ns`: so much more than its new peers its old ones were served.
 * As everywhere, it is not further behind v(t) than a flow may be. */
CORE_FN void leaf_unpack(hsfq_node_t *l, leaf_thread_t *th, s64 ahead_ns)
{
	u32 threads = l->runnable + 1, weights = l->weights + th->weight;
	u64 lag = sfq_lag(&l->clock, 1, threads, weights);
	u64 ahead = th->flow.start;

	if (ahead_ns >= 0)
		ahead += sfq_virtual(ahead_ns * threads, weights);
	else
		ahead -= sfq_virtual(-ahead_ns * threads, weights);
	th->flow.start = l->clock.vtime + sfq_max(ahead, 0 - lag);
	th->flow.epoch = l->clock.epoch;
	if (l->policy != LEAF_ts)
		th->early = 0;
	th->generation = l->generation;
}

/* A thread has joined the leaf, from another domain; `packed` as leaf_pack had it. One that
 * slept answers for itself only. */
CORE_INLINE void leaf_enter(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u32 packed, bool runnable,
			    s64 ahead_ns, u64 now_ns)
{
	hsfq_node_t *l = &t->node[leaf];
	bool known = packed == LEAF_PACKED && leaf_divides(l);

	if (known)
		leaf_unpack(l, th, runnable ? ahead_ns : 0);
	if (!runnable)
		return;
	if (!known) {
		leaf_arrive(t, leaf, th, now_ns);
		return;
	}
	l->weights += th->weight;
	if (l->policy == LEAF_ts)
		leaf_mean_in(l, th);
	leaf_add(t, leaf, now_ns);
}

/*
 * With several servers, the leaf that one has chosen may hold only threads that
 * it must not serve (affinity). It passes the leaf over, which is then out of
 * sight until the server has found another and restores it. Servers choose at
 * the same time, so a leaf may be on another's list already, have nobody waiting
 * any more, or be gone: then it stays off this list. Returns the list's first leaf.
 */
CORE_FN u32 leaf_pass(hsfq_tree_t *t, u32 leaf, u32 passed)
{
	hsfq_node_t *l = &t->node[leaf];

	if ((l->flags & (HSFQ_LEAF | HSFQ_READY)) != (HSFQ_LEAF | HSFQ_READY))
		return passed;
	hsfq_busy(t, leaf);
	l->flags |= HSFQ_PASSED;
	l->next = passed;
	t->passed++;
	return leaf;
}

/* The list's first leaf may be chosen again. Returns the rest of the list. */
CORE_FN u32 leaf_restore(hsfq_tree_t *t, u32 passed)
{
	hsfq_node_t *l = &t->node[passed];
	u32 rest = l->next;

	l->flags &= ~HSFQ_PASSED;
	l->next = HSFQ_NIL;
	t->passed--;
	if (l->waiting)
		hsfq_ready(t, passed);
	hsfq_sweep(t, passed);
	return rest;
}

/* The thread is taken into service, for this long as far as it is known. */
CORE_FN void leaf_serve(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 planned_ns)
{
	sfq_serve(&t->node[leaf].clock, th->flow.start);
	if (t->servers == 1)
		return;
	th->planned_ns = planned_ns;
	hsfq_plan(t, leaf, planned_ns);
}

/* The runnable thread was served for this long. Returns how many nodes of its path
 * have used up their budgets by that. */
CORE_FN u32 leaf_charge(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	hsfq_node_t *l = &t->node[leaf];
	u32 held = 0;

	hsfq_update(t, leaf, length_ns, th->planned_ns);
	th->planned_ns = 0;
	th->early = 0;
	if (t->limited)
		held = limit_charge(t, leaf, length_ns, now_ns);
	if (leaf_stranger(l, th)) {
		leaf_greet(l, th, now_ns);
		return held;
	}
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		leaf_##name##_charge(l, th, length_ns, now_ns);                                    \
		break;
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
	}
	l->clock.max_finish = sfq_max(l->clock.max_finish, th->flow.start);
	return held;
}

/*
 * The thread, charged for what it had of its turn, gives up the rest of it (sched_yield): it comes
 * behind others of its leaf that wait. Its class pays nothing for that. So one that asks again and
 * again whether somebody else is done costs those little.
 */
CORE_COLD void leaf_yield(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns)
{
	hsfq_node_t *l = &t->node[leaf];

	if (leaf_stranger(l, th))
		return;
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		leaf_##name##_yield(l, th, now_ns);                                                \
		break;
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
	}
	l->clock.max_finish = sfq_max(l->clock.max_finish, th->flow.start);
}

/* A stranger in service keeps its old place for a quantum; charging it gives it
 * a key and a turn of the present policy. */
CORE_INLINE u64 leaf_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	if (leaf_stranger(l, th))
		return th->flow.start;
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		return leaf_##name##_ahead(l, th, length_ns, now_ns);
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
	}
	return th->flow.start;
}

/*
 * With several servers: the quantum of `th` is over and its server has chosen
 * another leaf. Below the node where those two part, a thread that `th` comes
 * before may be in service elsewhere. Then it is that one's turn to end: `th`
 * goes on, and that server serves the leaf that was chosen. Otherwise a thread
 * that is to have all of a processor, in a class that is to have one and a half,
 * would lose it each time the class goes down to one. `ran_ns` is what
 * `running` has been served and is not charged for.
 */
CORE_INLINE bool leaf_outranks(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u32 chosen,
			       u32 running_leaf, leaf_thread_t *running, u64 ran_ns, u64 now_ns)
{
	u32 a = leaf, b = chosen, c = leaf, d = running_leaf;

	if (limit_held(t, leaf) || !hsfq_siblings(t, &a, &b))
		return false;
	if (leaf == running_leaf)
		return sfq_before(th->flow.start,
				  leaf_ahead(&t->node[leaf], running, ran_ns, now_ns));
	return hsfq_siblings(t, &c, &d) && t->node[c].depth > t->node[a].depth &&
	       hsfq_ahead(t, c, d, ran_ns, running->planned_ns);
}

CORE_INLINE u64 leaf_slice(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	if (leaf_stranger(l, th))
		return LEAF_QUANTUM_NS;
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		return leaf_##name##_slice(l, th, now_ns);
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
	}
	return LEAF_QUANTUM_NS;
}

/* How much greater a key than the leaf's first may be, of a thread that is preferred by the
 * server that served it last; 0: the order is kept. */
CORE_FN u64 leaf_near(hsfq_node_t *l)
{
	u32 weights = l->weights;

	if (!leaf_divides(l) || !weights)
		return 0;
	return sfq_virtual(LEAF_NEAR_NS * l->runnable, weights);
}

/* The waiting thread's place: the least key is served next. */
CORE_FN u64 leaf_key(const leaf_thread_t *th)
{
	return th->flow.start - th->early;
}

/* Does the thread, that woke, use little of what is its share? */
CORE_FN bool leaf_rested(leaf_thread_t *th)
{
	return th->early;
}

/* Do the leaf's quanta end to the nanosecond, and for whoever comes first? */
CORE_FN bool leaf_prompt(hsfq_node_t *l)
{
#define LEAF_BIT(number, name) | (LEAF_##name##_PROMPT << number)
	return (0 LEAF_POLICIES(LEAF_BIT)) >> l->policy & 1;
#undef LEAF_BIT
}

/*
 * The leaf changes its scheduler. Every key handed out so far lies before
 * every key to come, so threads that wait are served once in their old order.
 */
CORE_FN int leaf_set_policy(hsfq_tree_t *t, u32 leaf, u32 policy, u64 now_ns)
{
	hsfq_node_t *l = &t->node[leaf];

	if (!leaf_policy_valid(policy))
		return -CORE_EINVAL;
	if (l->policy == policy)
		return 0;
	l->clock.max_finish = sfq_max(l->clock.max_finish, l->tail);
	sfq_advance(&l->clock, l->clock.max_finish);
	l->tail = l->clock.vtime;
	l->base = l->tail + 1;
	l->since_ns = now_ns;
	l->policy = policy;
	l->generation++;
	l->mean_weights = 0;
	return 0;
}

/* The thread weighs that much from now on; `runnable` tells whether it is counted. */
CORE_FN void leaf_weigh(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u32 weight, bool runnable)
{
	hsfq_node_t *l = &t->node[leaf];
	bool counted = th->mean_weight && th->mean_generation == l->generation;

	if (runnable)
		l->weights += weight - th->weight;
	if (!leaf_stranger(l, th) && l->policy == LEAF_ts)
		leaf_ts_weigh(l, th, weight, !runnable);
	if (!leaf_stranger(l, th) && l->policy == LEAF_sfq)
		sfq_reweight(&l->clock, &th->flow, th->weight, weight, !runnable);
	leaf_mean_out(l, th);
	th->weight = weight;
	if (counted)
		leaf_mean_in(l, th);
}

/* The same on somebody's wish. Returns 0 or -CORE_ERANGE. */
CORE_FN int leaf_set_weight(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u32 weight, bool runnable)
{
	if (weight < SFQ_WEIGHT_MIN || weight > SFQ_WEIGHT_MAX)
		return -CORE_ERANGE;
	leaf_weigh(t, leaf, th, weight, runnable);
	return 0;
}

/* The thread's parameters changed: it is a stranger, which gets a new key when it
 * is served or wakes. The caller that can put one that waits elsewhere in its
 * queue asks for the key at once. */
CORE_FN void leaf_rekey(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	if (leaf_stranger(l, th))
		leaf_greet(l, th, now_ns);
}

/* Its reservation is C of every T, due after D; C = 0 takes it away. Returns 0,
 * or -CORE_ERANGE unless LEAF_COST_MIN_NS <= C <= D <= T <= LEAF_PERIOD_MAX_NS. */
CORE_FN int leaf_reserve(leaf_thread_t *th, u64 cost_ns, u64 period_ns, u64 deadline_ns)
{
	if (!cost_ns)
		period_ns = deadline_ns = 0;
	else if (cost_ns < LEAF_COST_MIN_NS || cost_ns > deadline_ns || deadline_ns > period_ns ||
		 period_ns > LEAF_PERIOD_MAX_NS)
		return -CORE_ERANGE;
	th->cost_ns = cost_ns;
	th->period_ns = period_ns;
	th->deadline_ns = deadline_ns;
	th->generation = 0;
	return 0;
}

/* Its scheduling class and, if that is rt, its priority, in an svr4 leaf. Returns
 * 0 or -CORE_ERANGE. */
CORE_FN int leaf_set_class(leaf_thread_t *th, u32 class, u32 priority)
{
	if (class >= LEAF_SVR4_CLASSES || priority > LEAF_SVR4_TOP ||
	    (priority && class != LEAF_SVR4_RT))
		return -CORE_ERANGE;
	th->class = class;
	th->priority = priority;
	th->generation = 0;
	return 0;
}

#endif
