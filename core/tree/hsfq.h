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
 *   hsfq_plan      several servers: a quantum of this length begins
 *
 * With one server a leaf in service simply stays at its start tag. With
 * several, a leaf all of whose runnable threads are in service must not be
 * chosen again: hsfq_busy() takes it off its parent's heap, hsfq_ready() puts
 * it back. Being runnable decides tags and weights; being ready decides who
 * may be chosen.
 *
 * While a single leaf is runnable on a single server nobody competes, and tags
 * may wait: its service is added up, and charged to its path when a second leaf
 * becomes runnable, or somebody looks (hsfq_settle). A quantum then costs the
 * same at any depth, and every tag is what it would have been.
 *
 * The ready children of a node form a binary heap, least (start tag, order of
 * arrival) first: insertion, removal and a new tag of any node take O(log children).
 * SFQ's bounds hold whichever of equal start tags comes first. So one that has just
 * become ready may (hsfq_newcomers_first): with S = v(t) it then waits for the quantum
 * in service alone, and not for each of the others that have come to v(t) as well.
 *
 * The state is one flat array of nodes named by index: 0 is no node, 1 the
 * root. The caller serialises calls, owns the memory, and counts the time.
 */
#ifndef QLINUX_CORE_HSFQ_H
#define QLINUX_CORE_HSFQ_H

#include "heap.h"

/* ---- charging ---------------------------------------------------------- */

/* Charges the leaf and all its ancestors. */
CORE_FN void hsfq_charge(hsfq_tree_t *t, u32 leaf, u64 length_ns, u64 planned_ns)
{
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n];

		hsfq_charge_node(t, n, length_ns, planned_ns);
		n = h->parent;
	}
	t->node[HSFQ_ROOT].served_ns += length_ns;
}

CORE_COLD void hsfq_settle_solo(hsfq_tree_t *t)
{
	u64 owed_ns = t->owed_ns, seen_ns = t->seen_ns;
	u32 n = t->solo;

	t->solo = HSFQ_NIL;
	t->owed_ns = t->seen_ns = 0;
	if (!owed_ns)
		return; /* it came to v(t), as all of its path, and is there still */
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];
		/* hsfq_length() of what is this short, without a branch. */
		u32 times = 1 + !!(h->flags & HSFQ_IDLE) * (HSFQ_IDLE_TIMES - 1);

		sfq_move(&h->flow, seen_ns * times, h->weight);
		sfq_serve(&p->clock, h->flow.start);
		sfq_move(&h->flow, (owed_ns - seen_ns) * times, h->weight);
		p->clock.max_finish = sfq_max(p->clock.max_finish, h->flow.start);
		h->served_ns += owed_ns;
		h->order = ++t->order; /* alone in its heap, and no newcomer any more */
		n = h->parent;
	}
	t->node[HSFQ_ROOT].served_ns += owed_ns;
}

/* All service is charged now. Before tags, weights or what is runnable change, and
 * before tags or service are read. */
CORE_FN void hsfq_settle(hsfq_tree_t *t)
{
	if (CORE_ALONE && t->solo)
		hsfq_settle_solo(t);
}

/* ---- the paper's four operations --------------------------------------- */

/* A thread of the leaf waits for service: the leaf may be chosen. */
CORE_FN void hsfq_ready(hsfq_tree_t *t, u32 n)
{
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n];

		if (h->flags & (HSFQ_READY | HSFQ_PASSED | HSFQ_HELD))
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
		if (t->node[n].waiting)
			return;
	}
}

/* What a node that becomes runnable, one of those with these weights, may be behind v(t). */
CORE_FN u64 hsfq_credit(hsfq_tree_t *t, u32 weights)
{
	return t->servers == 1 ? 0 : sfq_virtual(SFQ_CREDIT_NS * t->servers, weights);
}

/* The node has something runnable: tags and weights of its path. */
CORE_FN void hsfq_activate(hsfq_tree_t *t, u32 n)
{
	hsfq_settle(t);
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

		if (h->flags & (HSFQ_RUNNABLE | HSFQ_HELD))
			return;
		h->flags |= HSFQ_RUNNABLE;
		if (h->flags & HSFQ_LEAF)
			t->runnable++;
		p->runnable++;
		p->weights += h->weight;
		sfq_arrive(&p->clock, &h->flow, hsfq_credit(t, p->weights));
		n = h->parent;
	}
}

/* The node has nothing runnable any more, or none that may be served. */
CORE_FN void hsfq_deactivate(hsfq_tree_t *t, u32 n)
{
	hsfq_settle(t);
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

		if (!(h->flags & HSFQ_RUNNABLE))
			return;
		h->flags &= ~HSFQ_RUNNABLE;
		if (h->flags & HSFQ_LEAF)
			t->runnable--;
		sfq_depart(&p->clock, &h->flow);
		p->weights -= h->weight;
		if (--p->runnable)
			return;
		sfq_idle(&p->clock);
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
	hsfq_busy(t, leaf);
	hsfq_deactivate(t, leaf);
}

/* The leaf with the least start tags, HSFQ_NIL if none. `moves`: v(t) of its path comes to them. */
CORE_INLINE u32 hsfq_least(hsfq_tree_t *t, bool moves)
{
	bool solo = CORE_ALONE && t->runnable == 1 && t->servers == 1;
	u32 n = HSFQ_ROOT;

	if (CORE_ALONE && t->solo && (t->node[t->solo].flags & HSFQ_READY)) {
		if (moves)
			t->seen_ns = t->owed_ns;
		return t->solo;
	}
	while (CORE_MORE) {
		hsfq_node_t *h = &t->node[n];

		if (h->flags & HSFQ_LEAF)
			break;
		if (!h->heap)
			return HSFQ_NIL;
		n = t->node[h->heap].who;
		if (moves)
			sfq_serve(&h->clock, t->node[n].flow.start);
		/* One that was passed over may be behind v(t): sfq_finish sees to that. */
		solo = solo && h->clock.vtime == t->node[n].flow.start;
	}
	if (solo)
		t->solo = n;
	return n;
}

/*
 * Takes the leaf with the least start tags into service, HSFQ_NIL if none. With several servers
 * another may be passing over a leaf at this moment, whose threads come back to their queue in the
 * next. Who is served in its place is so out of turn, and waits the longer for it: v(t) does not
 * move to its tag, or the leaf that was to be served would be behind and be owed less.
 */
CORE_FN u32 hsfq_schedule(hsfq_tree_t *t)
{
	return hsfq_least(t, !t->passed);
}

/* Likewise in place of leaves that this server cannot serve: who cannot use its share falls behind.
 */
CORE_FN u32 hsfq_schedule_but(hsfq_tree_t *t)
{
	return hsfq_least(t, true);
}

/* A quantum of this length begins on one of several servers: the tags of the
 * whole path say so. It is told to hsfq_update when the quantum ends. */
CORE_FN void hsfq_plan(hsfq_tree_t *t, u32 leaf, u64 planned_ns)
{
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n];

		sfq_move(&h->flow, hsfq_length(h, planned_ns), h->weight);
		if (h->flags & HSFQ_READY)
			hsfq_heap_move(t, n);
		n = h->parent;
	}
}

/* Service of this length was given to the leaf, planned or not: charges its
 * whole path. */
CORE_FN void hsfq_update(hsfq_tree_t *t, u32 leaf, u64 length_ns, u64 planned_ns)
{
	if (CORE_ALONE && leaf == t->solo && length_ns < HSFQ_OWED_MAX_NS &&
	    t->owed_ns < HSFQ_OWED_MAX_NS) {
		t->owed_ns += length_ns;
		return;
	}
	hsfq_settle(t);
	hsfq_charge(t, leaf, length_ns, planned_ns);
}

/*
 * A leaf requests one quantum and is served it, and nothing else is runnable before it
 * ends: hsfq_setrun, hsfq_schedule, hsfq_update and hsfq_sleep in one. No tag need move.
 * Everything that comes next starts at v(t), the greatest finish tag now, as everything
 * would have started before the quantum: it is as if all tags moved alike.
 */
CORE_FN void hsfq_through(hsfq_tree_t *t, u32 leaf, u64 length_ns)
{
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		t->node[n].served_ns += length_ns;
		n = t->node[n].parent;
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

CORE_FN bool hsfq_contended_path(hsfq_tree_t *t, u32 leaf)
{
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n];
		u32 itself = h->flags & HSFQ_READY ? 1 : 0;

		if (t->node[h->parent].waiting > itself)
			return true;
		n = h->parent;
	}
	return false;
}

/* Does a thread of any other leaf wait? That of one which is being passed over does, most likely.
 */
CORE_FN bool hsfq_contended(hsfq_tree_t *t, u32 leaf)
{
	return t->passed || (leaf != t->solo && hsfq_contended_path(t, leaf));
}

/* Of two different leaves: their ancestors, or themselves, that are siblings.
 * False: there are none. */
CORE_FN bool hsfq_siblings(hsfq_tree_t *t, u32 *a, u32 *b)
{
	while (*a > HSFQ_ROOT && *b > HSFQ_ROOT && *a != *b && CORE_MORE) {
		hsfq_node_t *ha = &t->node[*a], *hb = &t->node[*b];

		if (ha->parent == hb->parent)
			return true;
		if (ha->depth >= hb->depth)
			*a = ha->parent;
		if (hb->depth >= ha->depth)
			*b = hb->parent;
	}
	return false;
}

/* The node's tag if `ran_ns` of a quantum, which are not charged yet, were. */
CORE_FN u64 hsfq_finish(hsfq_tree_t *t, u32 n, u64 ran_ns, u64 planned_ns)
{
	hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];
	u32 rem;

	return sfq_finish(&p->clock, &h->flow, hsfq_length(h, ran_ns), hsfq_length(h, planned_ns),
			  h->weight, t->servers, p->runnable, p->weights, &rem);
}

/* Of two siblings: does n come before m, below which `ran_ns` of a quantum are
 * not charged yet? */
CORE_FN bool hsfq_ahead(hsfq_tree_t *t, u32 n, u32 m, u64 ran_ns, u64 planned_ns)
{
	return sfq_before(t->node[n].flow.start, hsfq_finish(t, m, ran_ns, planned_ns));
}

/* The node after the first in the heap of the parent's ready children, HSFQ_NIL: none. */
CORE_FN u32 hsfq_second(hsfq_tree_t *t, u32 parent)
{
	u32 first = t->node[parent].heap, left = t->node[first].left, right = t->node[first].right;
	u32 a = t->node[left].who, b = t->node[right].who;

	if (!left || !right)
		return left ? a : HSFQ_NIL;
	return hsfq_first(t, a, b) ? a : b;
}

/* Would hsfq_schedule choose the leaf now? */
CORE_FN bool hsfq_is_next(hsfq_tree_t *t, u32 leaf)
{
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

		if (!(h->flags & HSFQ_READY) || t->node[p->heap].who != n)
			return false;
		n = h->parent;
	}
	return true;
}

/* Likewise of a single server, when `running`, the leaf in service, has been charged this much.
 * Until then that may keep its place in the heap (leaf_take). */
CORE_FN bool hsfq_is_next_after(hsfq_tree_t *t, u32 leaf, u32 running, u64 ran_ns)
{
	u32 n = leaf, a = leaf, b = running, both, first, second;

	if (hsfq_siblings(t, &a, &b) &&
	    (!ran_ns || sfq_before(t->node[b].flow.start, t->node[a].flow.start)) &&
	    !hsfq_ahead(t, a, b, ran_ns, 0))
		return false;
	both = t->node[a].depth + (a == b); /* what is less deep is above both, and charged */
	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

		if (!(h->flags & HSFQ_READY))
			return false;
		first = t->node[p->heap].who;
		if (first != n && (n != a || first != b || hsfq_second(t, h->parent) != n))
			return false;
		second = h->depth < both ? hsfq_second(t, h->parent) : HSFQ_NIL;
		if (second && !sfq_before(hsfq_finish(t, n, ran_ns, 0), t->node[second].flow.start))
			return false;
		n = h->parent;
	}
	return true;
}

/* Of two different leaves, both runnable: would `waiting` be chosen before
 * `running`, which has been served `ran_ns` that are not charged yet? */
CORE_FN bool hsfq_precedes(hsfq_tree_t *t, u32 waiting, u32 running, u64 ran_ns, u64 planned_ns)
{
	return hsfq_siblings(t, &waiting, &running) &&
	       hsfq_ahead(t, waiting, running, ran_ns, planned_ns);
}

/* ---- structure --------------------------------------------------------- */

CORE_FN bool hsfq_valid(hsfq_tree_t *t, u32 n)
{
	return n && n < HSFQ_NODES && (t->node[n].flags & HSFQ_USED);
}

/* The memory must be zero. One server, unless the caller sets more. */
CORE_FN void hsfq_init(hsfq_tree_t *t)
{
	hsfq_node_t *root = &t->node[HSFQ_ROOT];

	root->flags = HSFQ_USED;
	root->weight = SFQ_WEIGHT_DEFAULT;
	t->release_ns = HSFQ_NEVER;
	t->unused = HSFQ_ROOT + 1;
	t->nodes = 1;
	t->servers = 1;
}

/* So many servers from now on, at least one. */
CORE_FN void hsfq_set_servers(hsfq_tree_t *t, u32 servers)
{
	t->servers = servers ? servers : 1;
}

/* From now on, among equal start tags, who becomes ready comes before those who were. */
CORE_FN void hsfq_newcomers_first(hsfq_tree_t *t)
{
	t->early = HSFQ_EARLY;
}

/* The node with this number, which is free, is one below this parent. */
CORE_FN void hsfq_mknod_at(hsfq_tree_t *t, u32 n, u32 parent, u32 weight, u32 flags)
{
	hsfq_node_t *h = &t->node[n], *p = &t->node[parent];

	hsfq_settle(t);
	h->flags = HSFQ_USED | (flags & HSFQ_LEAF);
	h->weight = weight;
	h->parent = parent;
	h->depth = p->depth + 1;
	h->generation = 1;
	h->next = HSFQ_NIL;
	sfq_flow_init(&p->clock, &h->flow);
	p->children++;
	t->nodes++;
	if (n >= t->unused)
		t->unused = n + 1;
}

/*
 * Creates a node below an inner node; `flags` is HSFQ_LEAF or 0. Returns its
 * index, or -CORE_ENOENT (no such parent), -CORE_EINVAL (parent is a leaf),
 * -CORE_ERANGE (weight), -CORE_ELOOP (too deep), -CORE_ENOSPC (no node left).
 */
CORE_FN int hsfq_mknod(hsfq_tree_t *t, u32 parent, u32 weight, u32 flags)
{
	hsfq_node_t *p;
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
		t->free = t->node[n].next;
	else if (t->unused < HSFQ_NODES)
		n = t->unused;
	else
		return -CORE_ENOSPC;
	hsfq_mknod_at(t, n, parent, weight, flags);
	return n;
}

/* Returns 0, -CORE_ENOENT, or -CORE_EBUSY: it has children or threads, or a
 * server has it on its list of leaves passed over. */
CORE_FN int hsfq_rmnod(hsfq_tree_t *t, u32 n)
{
	struct hsfq_node empty = {};
	hsfq_node_t *h;

	if (!hsfq_valid(t, n))
		return -CORE_ENOENT;
	h = &t->node[n];
	if (n == HSFQ_ROOT || h->children || h->threads ||
	    (h->flags & (HSFQ_RUNNABLE | HSFQ_PASSED)))
		return -CORE_EBUSY;
	t->limited -= !!(h->flags & HSFQ_LIMITED);
	t->held -= !!(h->flags & HSFQ_HELD);
	t->idle -= !!(h->flags & HSFQ_IDLE);
	t->node[h->parent].children--;
	*h = empty;
	h->next = t->free;
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

/* The node, which is there, has this weight from now on, 1 to HSFQ_WEIGHT_MAX. */
CORE_FN void hsfq_weigh(hsfq_tree_t *t, u32 n, u32 weight)
{
	hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];

	if (h->weight == weight)
		return;
	hsfq_settle(t);
	sfq_reweight(&p->clock, &h->flow, h->weight, weight, !(h->flags & HSFQ_RUNNABLE));
	if (h->flags & HSFQ_RUNNABLE)
		p->weights += weight - h->weight;
	h->weight = weight;
	if (h->flags & HSFQ_READY)
		hsfq_heap_move(t, n);
}

/* Returns 0, -CORE_ENOENT or -CORE_ERANGE. Takes effect at once. */
CORE_FN int hsfq_set_weight(hsfq_tree_t *t, u32 n, u32 weight)
{
	if (!hsfq_valid(t, n))
		return -CORE_ENOENT;
	if (weight < SFQ_WEIGHT_MIN || weight > SFQ_WEIGHT_MAX)
		return -CORE_ERANGE;
	hsfq_weigh(t, n, weight);
	return 0;
}

#endif
