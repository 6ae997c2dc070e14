/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * heap.h - the nodes of a tree, and the heap of a node's ready children
 *
 * The state is one flat array of nodes named by index: 0 is no node, 1 the root
 * (hsfq.h). The ready children of a node form a binary heap, least (start tag, order
 * of arrival) first. It has no array of its own: each child that enters lends a slot,
 * its own links up, left and right, and whoever is in that slot may be another.
 *
 *   hsfq_heap_insert  a child becomes ready
 *   hsfq_heap_remove  it is not ready any more
 *   hsfq_heap_move    its tag has changed
 *   hsfq_charge_node  what it was served is added to its tag
 */
#ifndef QLINUX_CORE_HEAP_H
#define QLINUX_CORE_HEAP_H

#include "budget.h"
#include "sfq.h"

enum {
	HSFQ_NODES = 16384,  /* capacity: two nodes for each of 8,191 classes */
	HSFQ_DEPTH_MAX = 64, /* longest path below the root */
	HSFQ_NIL = 0,
	HSFQ_ROOT = 1,
	HSFQ_WEIGHT_MAX = 1 << 24, /* of a node whose weight is not a user's (cpu/ledger.h) */
	HSFQ_IDLE_WEIGHT = 3,      /* of an idle node, whose service counts */
	HSFQ_IDLE_TIMES = 10,      /* that many times */
};

enum hsfq_flag {
	HSFQ_USED = 1,
	HSFQ_LEAF = 2,
	HSFQ_RUNNABLE = 4, /* a thread below it is runnable */
	HSFQ_READY = 8,    /* a thread below it waits: the node is in its parent's heap */
	HSFQ_RETIRED = 16, /* goes when its last thread and child are gone */
	HSFQ_PASSED = 32,  /* leaf: kept out of the heap by a server that passed it over */
	HSFQ_LIMITED = 64, /* it has a budget (limit.h) */
	HSFQ_HELD = 128,   /* of which nothing is left: neither runnable nor ready till then */
	HSFQ_IDLE = 256,   /* gets what others leave (idle.h) */
};

struct hsfq_node {
	struct sfq_flow flow;   /* as a child of its parent */
	struct sfq_clock clock; /* of its children, or of a leaf's threads */
	u64 order;              /* FIFO among equal start tags */
	u64 tail;               /* leaf: last arrival number handed out */
	u64 served_ns;          /* service received since creation */
	u64 base, since_ns;     /* leaf: its scheduler's keys and times count from here */
	u64 misses;             /* leaf: deadlines of its threads that passed unmet */
	u64 mean_base, mean_sum, mean_weights; /* leaf: of its threads' start tags (mean.h) */
	u32 weight;
	u32 flags;
	u32 parent;
	u32 depth;                /* root: 0 */
	u32 heap;                 /* inner: first slot of the heap of its ready children */
	u32 up, left, right, who; /* the slot it lends to its parent's heap, and who is in it */
	u32 slot;                 /* the slot it is in itself */
	u32 children;             /* inner: all children */
	u32 runnable;             /* inner: runnable children; leaf: runnable threads */
	u32 weights;              /* sum of the weights of what is runnable */
	u32 threads;              /* leaf: members, runnable or not */
	u32 waiting;              /* inner: ready children; leaf: runnable threads not in service */
	u32 policy;               /* leaf: enum leaf_policy */
	u32 generation;           /* leaf: changes with its policy */
	u32 next;                 /* in the list of freed nodes, or of leaves passed over */
};

#define HSFQ_NEVER (~0ULL)
/* More than there will ever be arrivals, and orders compare by the sign of the difference. */
#define HSFQ_EARLY (1ULL << 62)
/* Neither is this long, nor what is added to: twice that is below SFQ_LENGTH_MAX_NS,
 * also as the service of an idle node. */
#define HSFQ_OWED_MAX_NS (1ULL << 37)

/* What is small comes first: it is reached by short offsets. */
struct hsfq_tree {
	u64 order;
	u64 early; /* by so much who becomes ready comes before those who were, of equal start tags
		    */
	u64 release_ns; /* no node that is held returns before then */
	u32 free;       /* head of the list of freed nodes */
	u32 unused;     /* nodes from here on were never used */
	u32 nodes;      /* in use, the root included */
	u32 runnable;   /* leaves */
	u32 limited;    /* nodes with a budget */
	u32 held;       /* nodes of whose budget nothing is left */
	u32 idle;       /* nodes that get what others leave */
	u32 servers;
	u32 passed;  /* leaves that a server has on its list of those passed over */
	u32 solo;    /* the one runnable leaf, whose path is charged later; or none */
	u64 owed_ns; /* it was served, and is not charged for yet */
	u64 seen_ns; /* of that, before its last hsfq_schedule */
	struct hsfq_node node[HSFQ_NODES];
	struct budget budget[HSFQ_NODES]; /* by node, apart: most have none */
};

typedef struct hsfq_tree CORE_MEM hsfq_tree_t;
typedef struct hsfq_node CORE_MEM hsfq_node_t;

/* ---- the heap of ready siblings ---------------------------------------- */

CORE_FN bool hsfq_first(hsfq_tree_t *t, u32 a, u32 b)
{
	hsfq_node_t *na = &t->node[a], *nb = &t->node[b];
	s64 later = na->flow.start - nb->flow.start;

	if (!later)
		later = na->order - nb->order;
	return later < 0;
}

/*
 * Slot i of a heap is below slot i / 2^k, k bits shorter: the bits of i, least
 * first, are the turns on the way from the first slot, 0 left and 1 right.
 */
CORE_FN u32 hsfq_slot(hsfq_tree_t *t, u32 parent, u32 i)
{
	u32 s = t->node[parent].heap;

	for (; i > 1 && CORE_MORE; i >>= 1)
		s = i & 1 ? t->node[s].right : t->node[s].left;
	return s;
}

/* Puts `by`, which may be none, where slot s is linked to the slot above it. */
CORE_FN void hsfq_relink(hsfq_tree_t *t, u32 parent, u32 s, u32 by)
{
	u32 up = t->node[s].up;

	if (!up)
		t->node[parent].heap = by;
	else if (t->node[up].left == s)
		t->node[up].left = by;
	else
		t->node[up].right = by;
}

CORE_FN void hsfq_place(hsfq_tree_t *t, u32 s, u32 n)
{
	t->node[s].who = n;
	t->node[n].slot = s;
}

/* Node n, which belongs near slot s, finds its place: the others make room. */
CORE_FN void hsfq_sift(hsfq_tree_t *t, u32 s, u32 n)
{
	u32 next, right;

	while ((next = t->node[s].up) && hsfq_first(t, n, t->node[next].who) && CORE_MORE) {
		hsfq_place(t, s, t->node[next].who);
		s = next;
	}
	while ((next = t->node[s].left) && CORE_MORE) {
		right = t->node[s].right;
		if (right && hsfq_first(t, t->node[right].who, t->node[next].who))
			next = right;
		if (hsfq_first(t, n, t->node[next].who))
			break;
		hsfq_place(t, s, t->node[next].who);
		s = next;
	}
	hsfq_place(t, s, n);
}

CORE_COLD void hsfq_heap_insert(hsfq_tree_t *t, u32 parent, u32 n)
{
	hsfq_node_t *h = &t->node[n];
	u32 i = ++t->node[parent].waiting, up;

	h->left = h->right = h->up = HSFQ_NIL;
	h->order = ++t->order - t->early;
	if (i == 1) {
		t->node[parent].heap = n;
		hsfq_place(t, n, n);
		return;
	}
	/* The highest bit says nothing, the one below it is the last turn. */
	for (up = t->node[parent].heap; i > 3 && CORE_MORE; i >>= 1)
		up = i & 1 ? t->node[up].right : t->node[up].left;
	if (i & 1)
		t->node[up].right = n;
	else
		t->node[up].left = n;
	h->up = up;
	hsfq_sift(t, n, n);
}

/* The last slot goes. Who is in it takes n's place, and it replaces slot n,
 * which leaves together with n. */
CORE_COLD void hsfq_heap_remove(hsfq_tree_t *t, u32 parent, u32 n)
{
	hsfq_node_t *h = &t->node[n], *l;
	u32 i = t->node[parent].waiting--, last;

	if (i == 1) {
		t->node[parent].heap = HSFQ_NIL;
		return;
	}
	last = hsfq_slot(t, parent, i);
	l = &t->node[last];
	hsfq_relink(t, parent, last, HSFQ_NIL);
	if (l->who != n)
		hsfq_sift(t, h->slot, l->who);
	if (last == n)
		return;
	hsfq_relink(t, parent, n, last);
	l->up = h->up;
	l->left = h->left;
	l->right = h->right;
	if (l->left)
		t->node[l->left].up = last;
	if (l->right)
		t->node[l->right].up = last;
	hsfq_place(t, last, h->who);
}

/* The ready node's tag has changed: it is the last to arrive with that tag. */
CORE_FN void hsfq_heap_move(hsfq_tree_t *t, u32 n)
{
	t->node[n].order = ++t->order;
	if (t->node[t->node[n].parent].waiting > 1)
		hsfq_sift(t, t->node[n].slot, n);
}

/* ---- a node is charged ------------------------------------------------- */

CORE_COLD u64 hsfq_idle_length(u64 length_ns)
{
	return length_ns < SFQ_LENGTH_MAX_NS ? length_ns * HSFQ_IDLE_TIMES : SFQ_LENGTH_MAX_NS;
}

/* What service of the node counts, of the node's weight. */
CORE_FN u64 hsfq_length(hsfq_node_t *h, u64 length_ns)
{
	return h->flags & HSFQ_IDLE ? hsfq_idle_length(length_ns) : length_ns;
}

/* Its own service only, not that of its ancestors. */
CORE_FN void hsfq_charge_node(hsfq_tree_t *t, u32 n, u64 length_ns, u64 planned_ns)
{
	hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

	sfq_charge(&p->clock, &h->flow, hsfq_length(h, length_ns),
		   planned_ns ? hsfq_length(h, planned_ns) : 0, h->weight, t->servers, p->runnable,
		   p->weights);
	h->served_ns += length_ns;
	if (h->flags & HSFQ_READY)
		hsfq_heap_move(t, n);
}

#endif
