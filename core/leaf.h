/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf.h - the schedulers of leaf nodes
 *
 * A leaf scheduler orders the threads of one leaf. It is one file that defines
 * four functions, and one line in LEAF_POLICIES:
 *
 *   leaf_NAME_arrive  a thread becomes runnable: give it its key
 *   leaf_NAME_charge  it was served for some time: move its key
 *   leaf_NAME_ahead   its key if it were charged that much now
 *   leaf_NAME_slice   longest service it wants at once
 *
 * Waiting threads are served least key first, FIFO among equals; keys compare
 * modulo 2^64 like tags (sfq_before). Where the threads wait is the
 * mechanism's business. A leaf's clock and its arrival counter are in its
 * node; what a policy keeps for each thread is struct leaf_thread.
 */
#ifndef QLINUX_CORE_LEAF_H
#define QLINUX_CORE_LEAF_H

#include "hsfq.h"

struct leaf_thread {
	struct sfq_flow flow; /* flow.start is the key */
	u32 weight;           /* SFQ_WEIGHT_MIN … SFQ_WEIGHT_MAX */
	u32 generation;       /* the leaf's, when the key was made */
	u64 left_ns;          /* rr: what is left of the quantum */
};

typedef struct leaf_thread CORE_MEM leaf_thread_t;

/* The longest a thread runs while others of its leaf wait, at equal weights. */
#define LEAF_QUANTUM_NS 3000000ULL

#include "leaf_sfq.h"
#include "leaf_ts.h"
#include "leaf_rr.h"
#include "leaf_fifo.h"

/* number, name; the first is the default. Numbers are part of the interface. */
#define LEAF_POLICIES(X)                                                                           \
	X(0, ts)                                                                                   \
	X(1, sfq)                                                                                  \
	X(2, rr)                                                                                   \
	X(3, fifo)

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

CORE_FN void leaf_policy_arrive(hsfq_node_t *l, leaf_thread_t *th)
{
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		leaf_##name##_arrive(l, th);                                                       \
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

CORE_FN void leaf_greet(hsfq_node_t *l, leaf_thread_t *th)
{
	sfq_flow_init(&l->clock, &th->flow);
	th->left_ns = 0;
	leaf_policy_arrive(l, th);
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

/* The thread becomes runnable. */
CORE_FN void leaf_arrive(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th)
{
	hsfq_node_t *l = &t->node[leaf];

	l->weights += th->weight;
	if (leaf_stranger(l, th))
		leaf_greet(l, th);
	else
		leaf_policy_arrive(l, th);
	if (!l->runnable++)
		hsfq_activate(t, leaf);
}

/* The thread, charged and not waiting, blocks. */
CORE_FN void leaf_depart(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th)
{
	hsfq_node_t *l = &t->node[leaf];

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
	if (!t->node[leaf].waiting++)
		hsfq_ready(t, leaf);
}

/* It stops waiting: taken into service, blocked, or moved. */
CORE_FN void leaf_unwait(hsfq_tree_t *t, u32 leaf)
{
	if (!--t->node[leaf].waiting)
		hsfq_busy(t, leaf);
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
	return leaf;
}

/* The list's first leaf may be chosen again. Returns the rest of the list. */
CORE_FN u32 leaf_restore(hsfq_tree_t *t, u32 passed)
{
	hsfq_node_t *l = &t->node[passed];
	u32 rest = l->next;

	l->flags &= ~HSFQ_PASSED;
	l->next = HSFQ_NIL;
	if (l->waiting)
		hsfq_ready(t, passed);
	hsfq_sweep(t, passed);
	return rest;
}

/* The thread is taken into service. */
CORE_FN void leaf_serve(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th)
{
	sfq_serve(&t->node[leaf].clock, th->flow.start);
}

/* The runnable thread was served for this long. */
CORE_FN void leaf_charge(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 length_ns)
{
	hsfq_node_t *l = &t->node[leaf];

	hsfq_update(t, leaf, length_ns);
	if (leaf_stranger(l, th)) {
		leaf_greet(l, th);
		return;
	}
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		leaf_##name##_charge(l, th, length_ns);                                            \
		break;
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
	}
	l->clock.max_finish = sfq_max(l->clock.max_finish, th->flow.start);
}

/* A stranger in service keeps its old place for a quantum; charging it gives it
 * a key and a turn of the present policy. */
CORE_FN u64 leaf_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns)
{
	if (leaf_stranger(l, th))
		return th->flow.start;
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		return leaf_##name##_ahead(l, th, length_ns);
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
	}
	return th->flow.start;
}

CORE_FN u64 leaf_slice(hsfq_node_t *l, leaf_thread_t *th)
{
	if (leaf_stranger(l, th))
		return LEAF_QUANTUM_NS;
	switch (l->policy) {
#define LEAF_CASE(number, name)                                                                    \
	case number:                                                                               \
		return leaf_##name##_slice(l, th);
		LEAF_POLICIES(LEAF_CASE)
#undef LEAF_CASE
	}
	return LEAF_QUANTUM_NS;
}

/*
 * The leaf changes its scheduler. Every key handed out so far lies before
 * every key to come, so threads that wait are served once in their old order.
 */
CORE_FN int leaf_set_policy(hsfq_tree_t *t, u32 leaf, u32 policy)
{
	hsfq_node_t *l = &t->node[leaf];

	if (!leaf_policy_valid(policy))
		return -CORE_EINVAL;
	if (l->policy == policy)
		return 0;
	l->clock.max_finish = sfq_max(l->clock.max_finish, l->tail);
	sfq_advance(&l->clock, l->clock.max_finish);
	l->tail = l->clock.vtime;
	l->policy = policy;
	l->generation++;
	return 0;
}

/*
 * The thread's weight changes; `runnable` tells whether it is counted now.
 * Returns 0 or -CORE_ERANGE.
 */
CORE_FN int leaf_set_weight(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u32 weight, bool runnable)
{
	hsfq_node_t *l = &t->node[leaf];

	if (weight < SFQ_WEIGHT_MIN || weight > SFQ_WEIGHT_MAX)
		return -CORE_ERANGE;
	if (runnable)
		l->weights += weight - th->weight;
	if (!leaf_stranger(l, th) && (l->policy == LEAF_ts || l->policy == LEAF_sfq))
		sfq_reweight(&l->clock, &th->flow, th->weight, weight);
	th->weight = weight;
	return 0;
}

#endif
