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

struct quantum {
	u64 length_ns;
	bool exact; /* it bounds another class's wait: do not round it up to a tick */
};

/* The time within which every runnable leaf has its turn. */
CORE_FN u64 quantum_period(hsfq_tree_t *t)
{
	u64 period_ns = t->runnable * QUANTUM_PERIOD_LEAF_NS;

	if (period_ns < QUANTUM_PERIOD_MIN_NS)
		return QUANTUM_PERIOD_MIN_NS;
	return period_ns < QUANTUM_PERIOD_MAX_NS ? period_ns : QUANTUM_PERIOD_MAX_NS;
}

/* Of a thread that is in service from now on and no longer waits. */
CORE_FN struct quantum quantum_of(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th)
{
	struct quantum q = {QUANTUM_ALONE_NS, false};
	u64 share;

	if (t->node[leaf].waiting)
		q.length_ns = leaf_slice(&t->node[leaf], th);
	if (hsfq_contended(t, leaf)) {
		share = hsfq_share(t, leaf, quantum_period(t));
		if (share < q.length_ns) {
			q.length_ns = share;
			q.exact = true;
		}
	}
	if (q.length_ns < QUANTUM_MIN_NS)
		q.length_ns = QUANTUM_MIN_NS;
	return q;
}

/*
 * Another thread starts to wait while one is served. How long may the one in
 * service, served `ran_ns` that are not charged yet, go on from the start of
 * its quantum?
 */
CORE_FN struct quantum quantum_left(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting,
				    u32 leaf, leaf_thread_t *th, u64 ran_ns)
{
	struct quantum q = {QUANTUM_PEACE_NS, true};
	bool precedes;

	if (waiting_leaf != leaf)
		precedes = hsfq_precedes(t, waiting_leaf, leaf, ran_ns);
	else
		precedes = sfq_before(waiting->flow.start, leaf_ahead(&t->node[leaf], th, ran_ns));
	return precedes ? q : quantum_of(t, leaf, th);
}

#endif
