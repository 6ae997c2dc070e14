/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * limit.h - nodes that get no more than their budget
 *
 * Any node but the root may have a budget (budget.h). All service below it is
 * charged to it. While nothing is left the node is *held*: to its parent it is
 * as if asleep, neither chosen nor counted among the weights, although threads
 * below it are runnable; they go on arriving, waiting and leaving. When the
 * budget is refilled the node returns like one that slept, with
 * S = max{ v, F }: not having been served while held earns nothing.
 *
 *   limit_set      gives a node a budget, another one, or none
 *   limit_charge   hsfq_update's counterpart for budgets
 *   limit_release  a held node whose budget has been refilled returns
 *
 * Quanta are bounded by what is left on the path (quantum.h), so a node is held
 * in time. A tree without budgets pays one test a quantum.
 */
#ifndef QLINUX_CORE_LIMIT_H
#define QLINUX_CORE_LIMIT_H

#include "hsfq.h"

CORE_FN bool limit_held_path(hsfq_tree_t *t, u32 n)
{
	while (n > HSFQ_ROOT && CORE_MORE) {
		if (t->node[n].flags & HSFQ_HELD)
			return true;
		n = t->node[n].parent;
	}
	return false;
}

/* Is the node, or one above it, held? */
CORE_FN bool limit_held(hsfq_tree_t *t, u32 n)
{
	return t->held && limit_held_path(t, n);
}

/* Has the node, or one above it, a budget? Only reads the tree. */
CORE_FN bool limit_limited(hsfq_tree_t *t, u32 n)
{
	while (t->limited && n > HSFQ_ROOT && CORE_MORE) {
		if (t->node[n].flags & HSFQ_LIMITED)
			return true;
		n = t->node[n].parent;
	}
	return false;
}

CORE_FN u64 limit_left_path(hsfq_tree_t *t, u32 n)
{
	s64 left = BUDGET_MAX_NS;

	while (n > HSFQ_ROOT && CORE_MORE) {
		if ((t->node[n].flags & HSFQ_LIMITED) && t->budget[n].left_ns < left)
			left = t->budget[n].left_ns;
		n = t->node[n].parent;
	}
	return left < 0 ? 0 : left;
}

/* The least that is left on the way up from the node. */
CORE_FN u64 limit_left(hsfq_tree_t *t, u32 n)
{
	return t->limited ? limit_left_path(t, n) : BUDGET_MAX_NS;
}

CORE_FN void limit_stop(hsfq_tree_t *t, u32 n)
{
	hsfq_busy(t, n);
	hsfq_deactivate(t, n);
	t->node[n].flags |= HSFQ_HELD;
	t->held++;
}

CORE_FN void limit_go(hsfq_tree_t *t, u32 n)
{
	hsfq_node_t *h = &t->node[n];

	h->flags &= ~HSFQ_HELD;
	t->held--;
	if (h->runnable)
		hsfq_activate(t, n);
	if (h->waiting)
		hsfq_ready(t, n);
}

CORE_FN void limit_hold(hsfq_tree_t *t, u32 n, u64 now)
{
	budget_t *b = &t->budget[n];

	b->times++;
	b->since_ns = now;
	limit_stop(t, n);
	if (b->end_ns < t->release_ns)
		t->release_ns = b->end_ns;
}

CORE_FN void limit_return(hsfq_tree_t *t, u32 n, u64 now)
{
	budget_t *b = &t->budget[n];

	if (now > b->since_ns)
		b->held_ns += now - b->since_ns;
	limit_go(t, n);
	if (!t->held)
		t->release_ns = HSFQ_NEVER;
}

/* Several domains: this is one's tree, of leaves alone. The leaf is held from now on, or is not, as
 * it is in the hierarchy, which has the budgets. */
CORE_FN void limit_follow(hsfq_tree_t *t, u32 leaf, bool held)
{
	if (!hsfq_valid(t, leaf) || held == !!(t->node[leaf].flags & HSFQ_HELD))
		return;
	if (held)
		limit_stop(t, leaf);
	else
		limit_go(t, leaf);
}

/*
 * Service of this length below the node has ended now: charges every budget on
 * the way up. Other servers may still serve threads below a node that is held
 * by that. Returns how many nodes are.
 */
CORE_FN u32 limit_charge(hsfq_tree_t *t, u32 n, u64 length_ns, u64 now)
{
	u32 held = t->held, m = n;
	bool used = false;

	/* In two walks: holding is a walk of its own, inside what is only seldom walked. */
	while (m > HSFQ_ROOT && CORE_MORE) {
		if (t->node[m].flags & HSFQ_LIMITED)
			used |= budget_charge(&t->budget[m], length_ns, now);
		m = t->node[m].parent;
	}
	while (used && n > HSFQ_ROOT && CORE_MORE) {
		if ((t->node[n].flags & (HSFQ_LIMITED | HSFQ_HELD)) == HSFQ_LIMITED &&
		    t->budget[n].left_ns <= 0)
			limit_hold(t, n, now);
		n = t->node[n].parent;
	}
	return t->held - held;
}

/*
 * The held node returns if its budget has been refilled by now. Returns whether
 * it did; otherwise t->release_ns is no later than its next refill.
 */
CORE_FN bool limit_release(hsfq_tree_t *t, u32 n, u64 now)
{
	budget_t *b = &t->budget[n];

	if (!(t->node[n].flags & HSFQ_HELD))
		return false;
	budget_refill(b, now);
	if (b->left_ns > 0) {
		limit_return(t, n, now);
		return true;
	}
	if (b->end_ns < t->release_ns)
		t->release_ns = b->end_ns;
	return false;
}

/*
 * Gives the node a full budget; a quota of 0 takes it away. A node that is held
 * returns. Returns 0, -CORE_ENOENT, -CORE_EINVAL: the root has no budget, or
 * -CORE_ERANGE: no period, or more than can be counted.
 */
CORE_FN int limit_set(hsfq_tree_t *t, u32 n, u64 quota_ns, u64 period_ns, u64 burst_ns, u64 now)
{
	hsfq_node_t *h;
	budget_t *b;

	if (!hsfq_valid(t, n))
		return -CORE_ENOENT;
	if (n == HSFQ_ROOT)
		return -CORE_EINVAL;
	if (quota_ns && (!period_ns || quota_ns > BUDGET_MAX_NS || period_ns > BUDGET_MAX_NS ||
			 burst_ns > BUDGET_MAX_NS))
		return -CORE_ERANGE;
	h = &t->node[n];
	b = &t->budget[n];
	if (h->flags & HSFQ_HELD)
		limit_return(t, n, now);
	if (h->flags & HSFQ_LIMITED)
		t->limited--;
	else
		b->times = b->held_ns = 0;
	h->flags &= ~HSFQ_LIMITED;
	b->quota_ns = 0;
	if (!quota_ns)
		return 0;
	budget_init(b, quota_ns, period_ns, burst_ns, now);
	h->flags |= HSFQ_LIMITED;
	t->limited++;
	return 0;
}

#endif
