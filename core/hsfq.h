/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hsfq.h - hierarchical start-time fair queueing: the tree
 *
 * Goyal, Guo and Vin, OSDI'96, sections 2 to 4. Every node has a weight and
 * gets that share of its parent's service, relative to its runnable siblings;
 * a leaf holds threads (or packet queues) which its own policy orders.
 *
 *                 root                 /rt w 1, /be w 3
 *               /      \               of 12 ms the leaves get
 *        /rt (1)       /be (3)         rt 3, user1 4.5, user2 4.5
 *                     /       \
 *              user1 (1)    user2 (1)
 *
 * Each inner node is an SFQ server whose flows are its children (sfq.h):
 *
 *   hsfq_setrun    a leaf got its first runnable thread: it, and every
 *                  ancestor that was not runnable, requests a quantum
 *   hsfq_sleep     a leaf lost its last runnable thread: the reverse
 *   hsfq_schedule  follow the least start tag from the root to a leaf
 *   hsfq_update    a quantum ended: charge the leaf and all its ancestors
 *
 * With one server a leaf in service simply stays at its start tag. With
 * several, a leaf all of whose runnable threads are in service must not be
 * chosen again: hsfq_busy() takes it off its parent's heap, hsfq_ready() puts
 * it back. Being runnable decides tags and weights; being ready decides who
 * may be chosen.
 *
 * The ready children of a node form a leftist heap, least (start tag, order of
 * arrival) first: insertion and removal, of any node, take O(log children).
 *
 * The state is one flat array of nodes named by index: 0 is no node, 1 the
 * root. The caller serialises calls, owns the memory, and counts the time.
 */
#ifndef QLINUX_CORE_HSFQ_H
#define QLINUX_CORE_HSFQ_H

#include "sfq.h"

enum {
	HSFQ_NODES = 16384,  /* capacity: two nodes for each of 8,191 classes */
	HSFQ_DEPTH_MAX = 64, /* longest path below the root */
	HSFQ_NIL = 0,
	HSFQ_ROOT = 1,
};

enum hsfq_flag {
	HSFQ_USED = 1,
	HSFQ_LEAF = 2,
	HSFQ_RUNNABLE = 4, /* a thread below it is runnable */
	HSFQ_READY = 8,    /* a thread below it waits: the node is in its parent's heap */
	HSFQ_RETIRED = 16, /* goes when its last thread and child are gone */
};

struct hsfq_node {
	struct sfq_flow flow;   /* as a child of its parent */
	struct sfq_clock clock; /* of its children, or of a leaf's threads */
	u64 order;              /* FIFO among equal start tags */
	u64 tail;               /* leaf: last arrival number handed out */
	u64 served_ns;          /* service received since creation */
	u32 weight;
	u32 flags;
	u32 parent;
	u32 depth;                 /* root: 0 */
	u32 heap;                  /* inner: ready child with the least start tag */
	u32 up, left, right, rank; /* place among the ready siblings */
	u32 children;              /* inner: all children */
	u32 runnable;              /* inner: runnable children; leaf: runnable threads */
	u32 weights;               /* sum of the weights of what is runnable */
	u32 threads;               /* leaf: members, runnable or not */
	u32 waiting;               /* leaf: runnable threads not in service */
	u32 policy;                /* leaf: enum leaf_policy */
	u32 generation;            /* leaf: changes with its policy */
	u32 next_free;
	u32 pad;
};

struct hsfq_tree {
	u64 order;
	u32 free;     /* head of the list of freed nodes */
	u32 unused;   /* nodes from here on were never used */
	u32 nodes;    /* in use, the root included */
	u32 runnable; /* leaves */
	struct hsfq_node node[HSFQ_NODES];
};

typedef struct hsfq_tree CORE_MEM hsfq_tree_t;
typedef struct hsfq_node CORE_MEM hsfq_node_t;

/* ---- the heap of ready siblings ---------------------------------------- */

CORE_FN bool hsfq_first(hsfq_tree_t *t, u32 a, u32 b)
{
	hsfq_node_t *na = &t->node[a], *nb = &t->node[b];

	if (na->flow.start != nb->flow.start)
		return sfq_before(na->flow.start, nb->flow.start);
	return sfq_before(na->order, nb->order);
}

CORE_FN u32 hsfq_rank(hsfq_tree_t *t, u32 n)
{
	return n ? t->node[n].rank : 0;
}

/*
 * Restores rank and lean from node n upwards: the left subtree's rank is never
 * below the right one's. Stops where nothing changes; returns the last node
 * looked at.
 */
CORE_FN u32 hsfq_heap_fix(hsfq_tree_t *t, u32 n, bool whole_path)
{
	u32 last = n;

	while (n && CORE_MORE) {
		hsfq_node_t *h = &t->node[n];
		u32 left = h->left, right = h->right, rank;

		if (hsfq_rank(t, left) < hsfq_rank(t, right)) {
			h->left = right;
			h->right = left;
		}
		rank = hsfq_rank(t, h->right) + 1;
		if (rank == h->rank && !whole_path)
			return n;
		h->rank = rank;
		last = n;
		n = h->up;
	}
	return last;
}

/* Merges two heaps along their right spines; returns the new root. */
CORE_FN u32 hsfq_heap_merge(hsfq_tree_t *t, u32 a, u32 b)
{
	u32 last = HSFQ_NIL;

	if (!a || !b) {
		if (a | b)
			t->node[a | b].up = HSFQ_NIL;
		return a | b;
	}
	while (a && b && CORE_MORE) {
		if (hsfq_first(t, b, a)) {
			u32 swap = a;

			a = b;
			b = swap;
		}
		t->node[a].up = last;
		if (last)
			t->node[last].right = a;
		last = a;
		a = t->node[a].right;
	}
	t->node[last].right = a | b;
	if (a | b)
		t->node[a | b].up = last;
	return hsfq_heap_fix(t, last, true);
}

CORE_FN void hsfq_heap_insert(hsfq_tree_t *t, u32 parent, u32 n)
{
	hsfq_node_t *h = &t->node[n];

	h->left = h->right = HSFQ_NIL;
	h->rank = 1;
	h->order = ++t->order;
	t->node[parent].heap = hsfq_heap_merge(t, t->node[parent].heap, n);
}

CORE_FN void hsfq_heap_remove(hsfq_tree_t *t, u32 parent, u32 n)
{
	u32 up = t->node[n].up;
	u32 rest = hsfq_heap_merge(t, t->node[n].left, t->node[n].right);

	if (!up) {
		t->node[parent].heap = rest;
		return;
	}
	if (t->node[up].left == n)
		t->node[up].left = rest;
	else
		t->node[up].right = rest;
	if (rest)
		t->node[rest].up = up;
	hsfq_heap_fix(t, up, false);
}

/* ---- the paper's four operations --------------------------------------- */

/* A thread of the leaf waits for service: the leaf may be chosen. */
CORE_FN void hsfq_ready(hsfq_tree_t *t, u32 n)
{
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n];

		if (h->flags & HSFQ_READY)
			return;
		h->flags |= HSFQ_READY;
		hsfq_heap_insert(t, h->parent, n);
		n = h->parent;
	}
}

/* No thread of the leaf waits (all are asleep or in service). */
CORE_FN void hsfq_busy(hsfq_tree_t *t, u32 n)
{
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n];

		if (!(h->flags & HSFQ_READY))
			return;
		h->flags &= ~HSFQ_READY;
		hsfq_heap_remove(t, h->parent, n);
		n = h->parent;
		if (t->node[n].heap)
			return;
	}
}

/* The leaf's first thread became runnable: tags and weights of its path. */
CORE_FN void hsfq_activate(hsfq_tree_t *t, u32 leaf)
{
	u32 n = leaf;

	if (!(t->node[leaf].flags & HSFQ_RUNNABLE))
		t->runnable++;
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

		if (h->flags & HSFQ_RUNNABLE)
			break;
		h->flags |= HSFQ_RUNNABLE;
		sfq_arrive(&p->clock, &h->flow, 0);
		p->runnable++;
		p->weights += h->weight;
		n = h->parent;
	}
}

/* The leaf's first thread became runnable and waits. */
CORE_FN void hsfq_setrun(hsfq_tree_t *t, u32 leaf)
{
	hsfq_activate(t, leaf);
	hsfq_ready(t, leaf);
}

/* The leaf's last runnable thread blocked. Charge its service first. */
CORE_FN void hsfq_sleep(hsfq_tree_t *t, u32 leaf)
{
	u32 n = leaf;

	hsfq_busy(t, leaf);
	if (t->node[leaf].flags & HSFQ_RUNNABLE)
		t->runnable--;
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

		if (!(h->flags & HSFQ_RUNNABLE))
			return;
		h->flags &= ~HSFQ_RUNNABLE;
		sfq_depart(&p->clock, &h->flow);
		p->weights -= h->weight;
		if (--p->runnable)
			return;
		sfq_idle(&p->clock);
		n = h->parent;
	}
}

/* Takes the leaf with the least start tags into service, HSFQ_NIL if none. */
CORE_FN u32 hsfq_schedule(hsfq_tree_t *t)
{
	u32 n = HSFQ_ROOT;

	while (CORE_MORE) {
		hsfq_node_t *h = &t->node[n];

		if (h->flags & HSFQ_LEAF)
			return n;
		n = h->heap;
		if (!n)
			break;
		sfq_serve(&h->clock, t->node[n].flow.start);
	}
	return HSFQ_NIL;
}

/* Service of this length was given to the leaf: charges its whole path. */
CORE_FN void hsfq_update(hsfq_tree_t *t, u32 leaf, u64 length_ns)
{
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];
		bool ready = h->flags & HSFQ_READY;

		if (ready)
			hsfq_heap_remove(t, h->parent, n);
		sfq_charge(&p->clock, &h->flow, length_ns, h->weight);
		h->served_ns += length_ns;
		if (ready)
			hsfq_heap_insert(t, h->parent, n);
		n = h->parent;
	}
	t->node[HSFQ_ROOT].served_ns += length_ns;
}

/* ---- what a server with a clock needs besides -------------------------- */

/*
 * Share of `period_ns` that is the leaf's now: the product of w / (sum of the
 * runnable siblings' w) along its path. Quanta in proportion to shares make
 * l_f / w_f + l_m / w_m, the fairness bound, the same small figure for every
 * pair of classes, whatever their weights.
 */
CORE_FN u64 hsfq_share(hsfq_tree_t *t, u32 leaf, u64 period_ns)
{
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

		if (p->weights > h->weight)
			period_ns = period_ns * h->weight / p->weights;
		n = h->parent;
	}
	return period_ns;
}

/* Does a thread of any other leaf wait? */
CORE_FN bool hsfq_contended(hsfq_tree_t *t, u32 leaf)
{
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n];
		u32 first = t->node[h->parent].heap;

		if (first && (first != n || h->left))
			return true;
		n = h->parent;
	}
	return false;
}

/*
 * Of two different leaves, both runnable: would `waiting` be chosen before
 * `running`, which has been served `ran_ns` that are not charged yet? They are
 * compared where their paths meet.
 */
CORE_FN bool hsfq_precedes(hsfq_tree_t *t, u32 waiting, u32 running, u64 ran_ns)
{
	u32 w = waiting, r = running;

	while (w > HSFQ_ROOT && r > HSFQ_ROOT && w != r && CORE_MORE) {
		hsfq_node_t *hw = &t->node[w], *hr = &t->node[r];

		if (hw->parent == hr->parent)
			return sfq_before(hw->flow.start,
					  sfq_finish(&hr->flow, ran_ns, hr->weight));
		if (hw->depth >= hr->depth)
			w = hw->parent;
		if (hr->depth >= hw->depth)
			r = hr->parent;
	}
	return false;
}

/* ---- structure --------------------------------------------------------- */

CORE_FN bool hsfq_valid(hsfq_tree_t *t, u32 n)
{
	return n && n < HSFQ_NODES && (t->node[n].flags & HSFQ_USED);
}

/* The memory must be zero. */
CORE_FN void hsfq_init(hsfq_tree_t *t)
{
	hsfq_node_t *root = &t->node[HSFQ_ROOT];

	root->flags = HSFQ_USED;
	root->weight = SFQ_WEIGHT_DEFAULT;
	t->unused = HSFQ_ROOT + 1;
	t->nodes = 1;
}

/*
 * Creates a node below an inner node; `flags` is HSFQ_LEAF or 0. Returns its
 * index, or -CORE_ENOENT (no such parent), -CORE_EINVAL (parent is a leaf),
 * -CORE_ERANGE (weight), -CORE_ELOOP (too deep), -CORE_ENOSPC (no node left).
 */
CORE_FN int hsfq_mknod(hsfq_tree_t *t, u32 parent, u32 weight, u32 flags)
{
	hsfq_node_t *h, *p;
	u32 n;

	if (!hsfq_valid(t, parent))
		return -CORE_ENOENT;
	p = &t->node[parent];
	if (p->flags & HSFQ_LEAF)
		return -CORE_EINVAL;
	if (weight < SFQ_WEIGHT_MIN || weight > SFQ_WEIGHT_MAX)
		return -CORE_ERANGE;
	if (p->depth >= HSFQ_DEPTH_MAX)
		return -CORE_ELOOP;
	n = t->free;
	if (n)
		t->free = t->node[n].next_free;
	else if (t->unused < HSFQ_NODES)
		n = t->unused++;
	else
		return -CORE_ENOSPC;

	h = &t->node[n];
	h->flags = HSFQ_USED | (flags & HSFQ_LEAF);
	h->weight = weight;
	h->parent = parent;
	h->depth = p->depth + 1;
	h->generation = 1;
	sfq_flow_init(&p->clock, &h->flow);
	p->children++;
	t->nodes++;
	return n;
}

/* Returns 0, -CORE_ENOENT, or -CORE_EBUSY: it has children or threads. */
CORE_FN int hsfq_rmnod(hsfq_tree_t *t, u32 n)
{
	struct hsfq_node empty = {};
	hsfq_node_t *h;

	if (!hsfq_valid(t, n))
		return -CORE_ENOENT;
	h = &t->node[n];
	if (n == HSFQ_ROOT || h->children || h->threads || (h->flags & HSFQ_RUNNABLE))
		return -CORE_EBUSY;
	t->node[h->parent].children--;
	*h = empty;
	h->next_free = t->free;
	t->free = n;
	t->nodes--;
	return 0;
}

/*
 * Removes the node, and ancestors retired before, as soon as nothing is left
 * in them: at once, or when the caller reports that a thread has left.
 */
CORE_FN void hsfq_sweep(hsfq_tree_t *t, u32 n)
{
	while (hsfq_valid(t, n) && CORE_MORE) {
		u32 parent = t->node[n].parent;

		if (!(t->node[n].flags & HSFQ_RETIRED) || hsfq_rmnod(t, n))
			return;
		n = parent;
	}
}

CORE_FN void hsfq_retire(hsfq_tree_t *t, u32 n)
{
	if (!hsfq_valid(t, n) || n == HSFQ_ROOT)
		return;
	t->node[n].flags |= HSFQ_RETIRED;
	hsfq_sweep(t, n);
}

/* Returns 0, -CORE_ENOENT or -CORE_ERANGE. Takes effect at once. */
CORE_FN int hsfq_set_weight(hsfq_tree_t *t, u32 n, u32 weight)
{
	hsfq_node_t *h, *p;
	bool ready;

	if (!hsfq_valid(t, n))
		return -CORE_ENOENT;
	if (weight < SFQ_WEIGHT_MIN || weight > SFQ_WEIGHT_MAX)
		return -CORE_ERANGE;
	h = &t->node[n];
	if (h->weight == weight)
		return 0;
	p = &t->node[h->parent];
	ready = h->flags & HSFQ_READY;
	if (ready)
		hsfq_heap_remove(t, h->parent, n);
	sfq_reweight(&p->clock, &h->flow, h->weight, weight);
	if (h->flags & HSFQ_RUNNABLE)
		p->weights += weight - h->weight;
	h->weight = weight;
	if (ready)
		hsfq_heap_insert(t, h->parent, n);
	return 0;
}

#endif
