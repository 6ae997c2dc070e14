/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leftist.h - a heap of flows, least start tag first, wherever they lie in memory
 *
 * A leftist tree (Crane, 1972; Knuth, The Art of Computer Programming, 5.2.3): no node comes before
 * the one above it, and of each node's two heaps the left one is at least as deep on its right
 * side. So the way to the right is no longer than log2 of the nodes, and that is where two heaps
 * are merged. Insertion and removal of any node take O(log n).
 *
 *   leftist_insert   a flow joins; of equal start tags who came first comes first
 *   leftist_remove   a flow leaves
 *   leftist_next     the first one of those behind a given one that have a mark
 *
 * heap.h is the same for nodes of one array, named by index.
 */
#ifndef QLINUX_CORE_LEFTIST_H
#define QLINUX_CORE_LEFTIST_H

#include "sfq.h"

struct leftist {
	struct leftist *up, *left, *right;
	u32 rank;  /* nodes on the way to the right, itself included */
	u32 marks; /* bits of the caller's */
	u64 order; /* of its arrival */
	struct sfq_flow flow;
};

CORE_FN bool leftist_first(const struct leftist *a, const struct leftist *b)
{
	s64 later = a->flow.start - b->flow.start;

	if (!later)
		later = a->order - b->order;
	return later < 0;
}

CORE_FN u32 leftist_rank(const struct leftist *n)
{
	return n ? n->rank : 0;
}

/* Its two heaps, of which one may be another than before, in their places. Returns whether its
 * rank has changed. */
CORE_FN bool leftist_settle(struct leftist *n)
{
	struct leftist *left = n->left;
	u32 rank = n->rank;

	if (leftist_rank(left) < leftist_rank(n->right)) {
		n->left = n->right;
		n->right = left;
	}
	n->rank = leftist_rank(n->right) + 1;
	return n->rank != rank;
}

/* Of two heaps, of which either may be empty, one, with nothing above it. */
CORE_FN struct leftist *leftist_merge(struct leftist *a, struct leftist *b)
{
	struct leftist *first = 0, *last = 0, *next;

	while (a && b) {
		next = leftist_first(b, a) ? b : a;
		b = next == b ? a : b;
		a = next->right;
		next->up = last;
		if (last)
			last->right = next;
		else
			first = next;
		last = next;
	}
	next = a ? a : b;
	if (next)
		next->up = last;
	if (!last)
		return next;
	last->right = next;
	for (; last; last = last->up)
		leftist_settle(last);
	return first;
}

CORE_FN void leftist_insert(struct leftist **heap, struct leftist *n, u64 order)
{
	n->left = n->right = 0;
	n->rank = 1;
	n->order = order;
	*heap = leftist_merge(*heap, n);
}

CORE_FN void leftist_remove(struct leftist **heap, struct leftist *n)
{
	struct leftist *up = n->up, *below = leftist_merge(n->left, n->right);

	if (below)
		below->up = up;
	if (!up)
		*heap = below;
	else if (up->left == n)
		up->left = below;
	else
		up->right = below;
	while (up && leftist_settle(up))
		up = up->up;
}

/* Of those with this mark, the first behind this one, or of all if that is none. It looks at those
 * that come before it and at some more that have no mark, at all of them if none has it. */
CORE_FN struct leftist *leftist_next(struct leftist *heap, const struct leftist *behind, u32 mark)
{
	struct leftist *n = heap, *best = 0, *from;

	while (n) {
		/* Nobody below one that comes too late is sooner. */
		bool sooner = !best || leftist_first(n, best);

		if (sooner && (n->marks & mark) && (!behind || leftist_first(behind, n))) {
			best = n;
			sooner = false;
		}
		if (sooner && n->left) {
			n = n->left;
			continue;
		}
		/* A leftist tree has a left heap wherever it has a right one. */
		for (from = n, n = n->up; n && (from == n->right || !n->right); n = n->up)
			from = n;
		if (n)
			n = n->right;
	}
	return best;
}

#endif
