/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello_group.h - the cgroups of a class: which of them is served next (cello.h)
 *
 * Hierarchical start-time fair queueing (Goyal, Guo and Vin, OSDI'96; tree/sfq.h): what a class has
 * is divided among its groups by weight, what a group has among its children, at any depth. The
 * groups are the cgroups with requests of the class; the requests of a cgroup that has children
 * count as one child more, of the usual weight. However many children a group has, they have what
 * it has.
 *
 *   /p (100) with /p/a (100) and /p/b (300), /q (100), all with requests: 1/8, 3/8, 1/2
 *
 * A request counts as long as it is estimated to take when it is scheduled, and as long as it took
 * once it was served. Who has requests at the disk and none that wait, or is awaited, keeps its
 * place. So that it finds its share when it comes, those that are ahead of it by half of a round's
 * share are held (cello_near), and so an arm stays for a round's share with each. Who is far
 * behind, because it cannot use its share, is owed no more than a round's.
 *
 * While one group alone has requests, or is awaited, nothing of this is kept: whenever another
 * comes, both begin at v(t). It counts as there until then.
 */
#ifndef QLINUX_CORE_CELLO_GROUP_H
#define QLINUX_CORE_CELLO_GROUP_H

#include "cello_queue.h"

enum {
	CELLO_WAITS = 1, /* requests wait below it */
	CELLO_DEEP = 2,  /* more than one at some leaf */
	CELLO_ALL = 1 << 16,
};

CORE_FN void cello_child_init(struct cello_child *n, struct cello_group *parent, u32 weight)
{
	struct cello_child none = {.parent = parent, .weight = weight};

	*n = none;
	if (parent)
		sfq_flow_init(&parent->clock, &n->at.flow);
}

/* A cgroup in a class, below another one's or in none; it has no requests. */
CORE_FN void cello_group_init(struct cello *c, struct cello_group *g, struct cello_group *parent,
			      u32 class_id, u32 weight)
{
	struct cello_group none = {.class_id = class_id, .class = &c->class[class_id]};
	struct cello_group *root = &c->class[class_id].root;

	*g = none;
	cello_ring(&g->awaited);
	cello_ring(&g->pending);
	cello_child_init(&g->child, parent ? parent : g == root ? 0 : root, weight);
	cello_child_init(&g->own, g, CELLO_WEIGHT_DEFAULT);
}

/* What the parent of these is a child itself, or none. */
CORE_FN struct cello_child *cello_above(struct cello_child *n)
{
	return n->parent->child.parent ? &n->parent->child : 0;
}

/* Of a round, in nanoseconds. */
CORE_FN u64 cello_share(const struct cello *c, const struct cello_class *k)
{
	return c->weights ? CORE_DIV(c->round_ns * k->part.weight, c->weights) : 0;
}

/* What its groups divide in a round. */
CORE_FN u64 cello_length(const struct cello *c, const struct cello_class *k)
{
	return k->part.weight ? cello_share(c, k) : c->round_ns;
}

/* So many more wait below it, and at leaves with more than one. */
CORE_FN void cello_mark(struct cello_child *n, int more, int deeper)
{
	n->waiting += more;
	n->deep += deeper;
	n->at.marks = (n->waiting ? CELLO_WAITS : 0) | (n->deep ? CELLO_DEEP : 0);
}

/* The group has its place in the tree, and those above it. */
CORE_FN void cello_enters(struct cello_group *g)
{
	struct cello_child *n;

	for (n = &g->own; n; n = cello_above(n)) {
		struct cello_group *p = n->parent;

		p->weights += n->weight;
		sfq_arrive(&p->clock, &n->at.flow, 0);
		leftist_insert(&p->heap, &n->at, ++p->order);
		if (p->members++)
			return;
	}
}

/* Another comes than that which was alone. */
CORE_FN void cello_joined(struct cello *c)
{
	struct cello_group *g = c->sole;
	u64 length_ns = cello_length(c, g->class);
	struct cello_child *n;

	c->sole = 0;
	for (n = &g->own; n; n = cello_above(n)) {
		n->parent->length_ns = length_ns;
		if (n != &g->own)
			cello_mark(n, g->own.waiting, g->own.deep);
	}
	cello_enters(g);
}

CORE_FN u32 cello_members(const struct cello *c)
{
	return c->class[0].members + c->class[1].members + c->class[2].members;
}

/* Its part of the disk, as long as nobody else comes or goes. */
CORE_FN u32 cello_part_of(const struct cello *c, struct cello_group *g)
{
	u32 weight = g->class->part.weight, weights = 0, i;
	u64 part = CELLO_ALL;
	struct cello_child *n;

	for (i = 0; i < CELLO_CLASSES; i++)
		weights += c->class[i].members ? c->class[i].part.weight : 0;
	if (weights)
		part = CORE_DIV(part * weight, weights);
	for (n = &g->own; n; n = cello_above(n))
		part = CORE_DIV(part * n->weight, n->parent->weights);
	return part;
}

/* Could it have its share of so many at the disk? */
CORE_FN bool cello_fills_share(const struct cello_group *g, u32 part, u32 number)
{
	return (u64)part * number <= (u64)g->present * CELLO_ALL;
}

/* The last of its requests goes to the disk. Of several who want more than now and then, who would
 * have its share of the fewest counts. */
CORE_FN void cello_runs_dry(struct cello *c, struct cello_group *g)
{
	u32 part;

	if (c->flight.arm || c->sole || g == c->dry)
		return;
	part = cello_part_of(c, g);
	if (!cello_fills_share(g, part, c->flight.lanes)) {
		c->scant_ns = c->flight.clock_ns;
		return;
	}
	if (c->flight.clock_ns < g->since_ns + c->round_ns)
		return;
	if (c->dry && (u64)c->dry->present * part < (u64)g->present * c->dry_part)
		return;
	c->dry = g;
	c->dry_part = part;
}

/* With one more at the disk there would be less than its share of one who has all of its own there,
 * though with fewer, which are as many as it serves side by side, there would not. */
CORE_FN bool cello_dries(const struct cello *c)
{
	const struct flight *f = &c->flight;
	const struct cello_group *g = c->dry;

	return g && f->number >= f->lanes && cello_fills_share(g, c->dry_part, f->lanes) &&
	       !cello_fills_share(g, c->dry_part, f->number + 1);
}

/* Somebody was there lately who cannot have its share of any number that is of use: as many wait as
 * are at the disk, once all lanes are busy twice, or it would wait for long. */
CORE_FN bool cello_scant(const struct cello *c)
{
	const struct flight *f = &c->flight;

	return f->clock_ns < c->scant_ns + CELLO_LATELY_NS && f->number >= f->lanes * 2 &&
	       f->number >= c->waiting + c->queued;
}

/* Is there nothing more for the disk for the sake of shares? What it has all of nobody divides, and
 * it is not what is short where it could have served more just now: processors ask for less, and
 * have more to do the more often they are sent for the next. */
CORE_FN bool cello_shares(const struct cello *c)
{
	const struct flight *f = &c->flight;

	if (!f->learns || f->trial.phase == FLIGHT_CLIMBS || f->number < CELLO_FLIGHT_LEAST ||
	    f->clock_ns < c->idle_ns + CELLO_IDLE_NS)
		return false;
	return cello_members(c) > 1 && (cello_dries(c) || cello_scant(c));
}

CORE_FN void cello_sole_goes(struct cello *c)
{
	c->sole->class->members--;
	c->sole = 0;
}

/* The group has requests, or is awaited: so have those above it. */
CORE_FN void cello_comes(struct cello *c, struct cello_group *g)
{
	if (c->sole == g)
		return;
	if (c->sole && !c->sole->present && !c->sole->await_ns)
		cello_sole_goes(c);
	if (c->sole)
		cello_joined(c);
	if (cello_members(c))
		cello_enters(g);
	else
		c->sole = g;
	g->class->members++;
}

CORE_FN void cello_goes(struct cello *c, struct cello_group *g)
{
	struct cello_child *n;

	if (c->dry == g)
		c->dry = 0;
	if (c->sole)
		return;
	g->class->members--;
	for (n = &g->own; n; n = cello_above(n)) {
		struct cello_group *p = n->parent;

		p->weights -= n->weight;
		leftist_remove(&p->heap, &n->at);
		sfq_depart(&p->clock, &n->at.flow);
		if (--p->members)
			return;
		sfq_idle(&p->clock);
	}
}

/* The group has a request more waiting, or one less. */
CORE_FN void cello_wait(struct cello *c, struct cello_group *g, int more)
{
	struct cello_class *k = g->class;
	bool deep = g->own.waiting > 1;
	int deeper = (g->own.waiting + more > 1) - deep;
	struct cello_child *n;

	for (n = &g->own; n; n = c->sole ? 0 : cello_above(n))
		cello_mark(n, more, deeper);
	k->waiting += more;
	k->deep += deeper;
	c->waiting += more;
}

/* The child, which is active, has this start tag now. */
CORE_FN void cello_restart(struct cello_child *n, u64 start)
{
	struct cello_group *p = n->parent;

	if (p->members == 1) {
		n->at.flow.start = start;
		return;
	}
	leftist_remove(&p->heap, &n->at);
	n->at.flow.start = start;
	leftist_insert(&p->heap, &n->at, ++p->order);
}

/* The group, which is active, was served for so much longer, or shorter, than was held. */
CORE_FN void cello_serve(struct cello_group *g, s64 more_ns)
{
	u64 forth = more_ns > 0 ? more_ns : 0, back = more_ns < 0 ? -more_ns : 0;
	struct cello_child *n;

	if (!more_ns)
		return;
	for (n = &g->own; n; n = cello_above(n)) {
		struct cello_group *p = n->parent;
		struct sfq_flow *f = &n->at.flow;

		cello_restart(n, sfq_moved(f, forth, back, n->weight, &f->rem));
		p->clock.max_finish = sfq_max(p->clock.max_finish, f->start);
	}
}

/* Of a round's share of a parent, in tags of its children. */
CORE_FN u64 cello_round_tag(const struct cello_group *p)
{
	return sfq_virtual(p->length_ns, p->weights);
}

/* Is the child not ahead of the last one of its parent's by half of a round's share? */
CORE_FN bool cello_near(const struct cello_child *n)
{
	const struct cello_group *p = n->parent;
	u64 round = cello_round_tag(p);
	u64 last = sfq_max(p->heap->flow.start, p->clock.vtime - round);

	return p->heap == &n->at || sfq_before(n->at.flow.start, last + round / 2 + 1);
}

/* The same of the group and all above it. */
CORE_FN bool cello_all_near(const struct cello *c, struct cello_group *g)
{
	struct cello_child *n;

	if (c->sole)
		return true;
	for (n = &g->own; n; n = cello_above(n))
		if (!cello_near(n))
			return false;
	return true;
}

/* The group's request is scheduled: v(t) of its path comes to it. */
CORE_FN void cello_taken(const struct cello *c, struct cello_group *g)
{
	struct cello_child *n;

	if (c->sole)
		return;
	for (n = &g->own; n; n = cello_above(n)) {
		struct sfq_clock *clock = &n->parent->clock;
		struct sfq_flow *f = &n->at.flow;
		u64 least = clock->vtime - cello_round_tag(n->parent);

		if (sfq_before(f->start, least))
			cello_restart(n, least);
		sfq_serve(clock, f->start);
	}
}

/*
 * The group of the class that comes first of those with the mark, each child before the next of its
 * parent's; or none. Not one that is held, unless any may be.
 */
CORE_FN struct cello_group *cello_first(struct cello_group *root, u32 mark, bool any)
{
	struct cello_group *p = root;
	struct cello_child *n = (struct cello_child *)leftist_next(p->heap, 0, mark);

	for (;;) {
		struct cello_child *above = &p->child;

		if (n && n == &p->own)
			return p;
		if (n && (any || cello_near(n))) {
			struct cello_group *g = (struct cello_group *)n;

			g->length_ns = CORE_DIV(p->length_ns * n->weight, p->weights);
			p = g;
			n = (struct cello_child *)leftist_next(p->heap, 0, mark);
			continue;
		}
		/* Those behind it are further ahead: the parent is passed over. */
		if (p == root)
			return 0;
		p = above->parent;
		n = (struct cello_child *)leftist_next(p->heap, &above->at, mark);
	}
}

/* Returns 0 or -CORE_ERANGE. */
CORE_FN int cello_group_set_weight(struct cello_group *g, u32 weight)
{
	struct cello_group *p = g->child.parent;
	struct leftist *at = &g->child.at;

	if (!weight || weight > CELLO_WEIGHT_MAX)
		return -CORE_ERANGE;
	sfq_reweight(&p->clock, &at->flow, g->child.weight, weight, !g->members);
	if (g->members) {
		p->weights += weight - g->child.weight;
		leftist_remove(&p->heap, at);
		leftist_insert(&p->heap, at, ++p->order);
	}
	g->child.weight = weight;
	return 0;
}

#endif
