/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * quantum.h - how long a thread is served, and who may interrupt it
 *
 * SFQ holds for quanta of any length; their lengths are the l of its bounds.
 * Three wishes fix them. A class shall be close to its share soon, so a class
 * gets its share of one period at a time and every class has its turn within
 * about that period: |W_f/w_f - W_m/w_m| is at most two periods, 0.4 % of 10 s,
 * whatever the weights. Threads of one leaf take turns as its scheduler says.
 * And nothing switches so often that it is felt: the period grows with the
 * number of classes that share it.
 */
#ifndef QLINUX_CORE_QUANTUM_H
#define QLINUX_CORE_QUANTUM_H

#include "../tree/idle.h"
#include "leaf.h"

#define QUANTUM_PERIOD_MIN_NS  6000000ULL
#define QUANTUM_PERIOD_MAX_NS  20000000ULL
#define QUANTUM_PERIOD_LEAF_NS 1000000ULL
/* Below this, switching would cost more than about 1 % of the time. */
#define QUANTUM_MIN_NS 100000ULL
/* While nobody waits. Bounds how late the accounts are. */
#define QUANTUM_ALONE_NS 20000000ULL
/* Service that a running thread may have in peace before one that wakes takes
 * over: EEVDF's base slice on one processor is 0.7 ms. */
#define QUANTUM_PEACE_NS 500000ULL
/* From a peer, that for each server, up to so many. */
#define QUANTUM_PEACE_SERVERS 4

/* Longest service at once in a leaf with deadlines, also while nobody waits: what
 * the leaf had in the quantum during which another class wakes is held against it
 * (l_f of the bounds), and its own threads must not wait for that. */
#define QUANTUM_PROMPT_NS 2000000ULL

/* Threads that wake may take over before that peace is over, so many in a row, and in the long
 * run one in so long: who wakes seldom hardly waits, and interruptions, of which one takes some
 * 10 us, take a tenth of a server's time at most. */
#define QUANTUM_EAGER   8
#define QUANTUM_CALM_NS 100000ULL

/* Several servers: a class that loses one is ahead by the quanta that the others have
 * begun, on eight servers by more than a turn. */
#define QUANTUM_TURNS_AHEAD 2

struct quantum {
	u64 length_ns;
	bool exact; /* it bounds another class's wait: do not round it up to a tick */
};

/*
 * Service that a thread of `leaf` may have in peace from one that comes before it and starts to
 * wait. `eager`: none, unless they are peers of one leaf. Even a peer gives way to one that uses
 * little of its share, if it can go on elsewhere. Which of two other peers comes first is no
 * promise, and each interruption is a switch: the more servers there are, the sooner a service ends
 * by itself.
 */
CORE_FN u64 quantum_peace(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting, u32 leaf,
			  bool eager)
{
	u32 p = t->servers;

	if (waiting_leaf != leaf)
		return eager ? 0 : QUANTUM_PEACE_NS;
	if (leaf_prompt(&t->node[leaf]))
		return 0;
	if (leaf_rested(waiting))
		return eager && p > 1 ? 0 : QUANTUM_PEACE_NS;
	return QUANTUM_PEACE_NS * (p < QUANTUM_PEACE_SERVERS ? p : QUANTUM_PEACE_SERVERS);
}

/* The service within which every runnable leaf has its turn. Several servers give
 * that much in a fraction of the time, so quanta may be as many times as long; what
 * their ends are late by then matters so much less. */
CORE_FN u64 quantum_period(hsfq_tree_t *t)
{
	u64 period_ns = t->runnable * QUANTUM_PERIOD_LEAF_NS;

	if (period_ns < QUANTUM_PERIOD_MIN_NS)
		period_ns = QUANTUM_PERIOD_MIN_NS;
	if (period_ns > QUANTUM_PERIOD_MAX_NS)
		period_ns = QUANTUM_PERIOD_MAX_NS;
	return period_ns * t->servers;
}

/* A thread's part of its leaf's turn. Its threads in service at once share one turn: with
 * one each, planned at once, a leaf that lost a processor would not seem behind v(t), and
 * quantum_goes_on could not tell. And with several servers what a class gets in a second is off
 * by some quanta of each level above: so the deeper, the shorter. */
CORE_FN u64 quantum_turn(hsfq_tree_t *t, u32 leaf)
{
	u32 served = t->node[leaf].runnable - t->node[leaf].waiting;
	u64 turn_ns = hsfq_share(t, leaf, quantum_period(t));

	if (served > 1)
		turn_ns /= served;
	return t->servers == 1 ? turn_ns : turn_ns / (1 + t->node[leaf].depth / 2);
}

/* Of a thread that is in service from now on and no longer waits. */
CORE_INLINE struct quantum quantum_of(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns)
{
	u64 most_ns = limit_left(CORE_HIERARCHY(t), leaf), turn_ns;
	struct quantum q;

	if (hsfq_contended(t, leaf)) {
		turn_ns = quantum_turn(t, leaf);
		if (turn_ns < most_ns)
			most_ns = turn_ns;
	}
	q.exact = leaf_prompt(&t->node[leaf]);
	q.length_ns = QUANTUM_ALONE_NS;
	if (t->node[leaf].waiting)
		q.length_ns = leaf_slice(&t->node[leaf], th, now_ns);
	if (q.exact && q.length_ns > QUANTUM_PROMPT_NS)
		q.length_ns = QUANTUM_PROMPT_NS;
	if (most_ns < q.length_ns) {
		q.length_ns = most_ns;
		q.exact = true;
	}
	if (q.length_ns < QUANTUM_MIN_NS)
		q.length_ns = QUANTUM_MIN_NS;
	return q;
}

/* Would the waiting thread be chosen before one in service, served `ran_ns` that
 * are not charged yet? */
CORE_INLINE bool quantum_overtakes(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting,
				   u32 leaf, leaf_thread_t *th, u64 ran_ns, u64 now_ns)
{
	if (waiting_leaf != leaf)
		return hsfq_precedes(t, waiting_leaf, leaf, ran_ns, th->planned_ns);
	return sfq_before(leaf_key(waiting), leaf_ahead(&t->node[leaf], th, ran_ns, now_ns));
}

/* May one that wakes take over on this server at once? `calm_ns` is when its interruptions so
 * far will be paid for. */
CORE_FN bool quantum_eager(u64 calm_ns, u64 now_ns)
{
	return calm_ns < now_ns + QUANTUM_EAGER * QUANTUM_CALM_NS;
}

/* One did. Returns what is `calm_ns` from now on. */
CORE_FN u64 quantum_calm(u64 calm_ns, u64 now_ns)
{
	return (calm_ns > now_ns ? calm_ns : now_ns) + QUANTUM_CALM_NS;
}

/*
 * Another thread starts to wait while one is served, and its class has something left.
 * How long may the one in service, served `ran_ns` that are not charged yet, go on from
 * the start of its quantum?
 */
CORE_INLINE struct quantum quantum_cut(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting,
				       u32 leaf, leaf_thread_t *th, u64 ran_ns, u64 now_ns,
				       bool eager)
{
	if (idle_yields(CORE_HIERARCHY(t), waiting_leaf, leaf))
		return (struct quantum){0, true};
	if (!quantum_overtakes(t, waiting_leaf, waiting, leaf, th, ran_ns, now_ns))
		return quantum_of(t, leaf, th, now_ns);
	return (struct quantum){quantum_peace(t, waiting_leaf, waiting, leaf, eager), true};
}

/* The same of any thread: it does not matter while its class is held. */
CORE_FN struct quantum quantum_left(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting,
				    u32 leaf, leaf_thread_t *th, u64 ran_ns, u64 now_ns, bool eager)
{
	if (limit_held(t, waiting_leaf))
		return quantum_of(t, leaf, th, now_ns);
	return quantum_cut(t, waiting_leaf, waiting, leaf, th, ran_ns, now_ns, eager);
}

/*
 * Several servers: a thread woke, none of them is idle, and on the one where it waits nothing
 * ends for it at once. Does the service of this one, elsewhere, end for it now? It will not be
 * asked again, so who has not had the peace that it is due goes on.
 */
CORE_INLINE bool quantum_ends(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting, u32 leaf,
			      leaf_thread_t *th, u64 ran_ns, u64 now_ns, bool eager)
{
	return ran_ns >= quantum_peace(t, waiting_leaf, waiting, leaf, eager) &&
	       quantum_overtakes(t, waiting_leaf, waiting, leaf, th, ran_ns, now_ns);
}

/*
 * A thread of the leaf has started to wait. May a single server have it at once, to serve it
 * when it is done with the one in service? Nobody else waits, so it is the next. Whoever wakes
 * before it begins may come before it: it asks hsfq_schedule() then, and gives way.
 */
CORE_FN bool quantum_straight(hsfq_tree_t *t, u32 leaf)
{
	return t->solo == leaf && t->node[leaf].waiting == 1;
}

/*
 * With several servers: the thread whose quantum is over waits again, its server has
 * chosen another leaf, and the thread's leaf is the next of its class. May it go on?
 *
 * Quanta end late, so a class that is to have one and a half processors has none at
 * times and then two. A leaf of it that is to have all of one loses the one each time
 * and cannot use the other. Such a leaf is behind v(t) of its class. It goes on, and
 * its class is charged for that, as long as the class is not ahead of v(t) among its
 * own siblings, where the two leaves part, by more than QUANTUM_TURNS_AHEAD of its turns.
 */
CORE_FN bool quantum_goes_on(hsfq_tree_t *t, u32 leaf, u32 chosen)
{
	u32 a = leaf, b = chosen, n = leaf;
	bool behind = false;
	u64 turn;

	if (limit_held(t, leaf) || !hsfq_siblings(t, &a, &b))
		return false;
	while (n != a && n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

		if (t->node[p->heap].who != n)
			return false;
		/* Alone it is behind nobody: a quantum of its own that ended early moved v(t). */
		behind = behind || (p->runnable > 1 && sfq_before(h->flow.start, p->clock.vtime));
		n = h->parent;
	}
	if (!behind)
		return false;
	turn = sfq_virtual(QUANTUM_TURNS_AHEAD * hsfq_share(t, a, quantum_period(t)),
			   t->node[a].weight);
	return !sfq_before(t->node[t->node[a].parent].clock.vtime + turn, t->node[a].flow.start);
}

#endif
