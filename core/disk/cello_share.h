/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello_share.h - class-independent: whose request is scheduled next (cello.h)
 *
 * Who asks for one thing after the other has nothing at the disk when it is served, and would lose
 * its share to those that have. So a group is *awaited* that had one request at a time lately and
 * came back soon after each: until it comes, or twice its mean think time and 1 ms have gone (4 ms
 * with an arm), the round goes on as if it had requests. On an arm that which was served last is
 * waited for, if it has something left of its share, also where another class or group could be
 * served (Iyer and Druschel, "Anticipatory scheduling", 2001): two seeks would cost more. If that
 * was the last of a round the arm goes on with the next one there, so that it goes to another place
 * once in a round. It is charged for that. But no real-time request waits for it, and no
 * interactive one if it is none.
 *
 * What nobody waits for, as writeback, an arm serves in few long pieces: each that it goes to costs
 * two seeks, and makes whoever else there is wait. So while nobody waits for any of the
 * throughput-intensive class's requests, it gathers its shares of CELLO_GATHER_NS before it is
 * served, and then has them at once. It gets no less: where nobody else has requests, those rounds
 * are over at once.
 *
 * A disk without an arm that hardly serves any side by side has turns instead: while an
 * interactive class has something left of its share, a group of it that asks for one thing after
 * the other has the disk for itself, also while its request is served, so that it waits for others
 * once in a round and not each time. That is so where it has more of it than it costs: where it
 * would wait longer for the requests of others (`waits_ns`) and the processors than it takes by
 * itself, in proportion to the weights, and has room for fifty in a turn. Where the
 * throughput-intensive class does not use its share, though somebody waits for what it asks for,
 * turns are short.
 *
 * A disk that serves many side by side and has room is not left empty for the sake of shares: who
 * has several requests waiting is served though it has used its share, if nobody waits who has not,
 * and so the round is over. Who has but one waiting is held to its share.
 */
#ifndef QLINUX_CORE_CELLO_SHARE_H
#define QLINUX_CORE_CELLO_SHARE_H

#include "cello_group.h"

CORE_FN bool cello_left(const struct cello_part *p, u64 share_ns)
{
	return p->used_ns < (s64)share_ns;
}

/* Does it gather its shares? Once it is served it is until they are used. */
CORE_FN bool cello_gathers(const struct cello *c, const struct cello_class *k)
{
	return c->flight.arm && k == &c->class[CELLO_THROUGHPUT] && k->part.present && !k->sync &&
	       !(k->pours && cello_left(&k->part, cello_share(c, k)));
}

/* What a class is to have left beyond a round's share to be served. */
CORE_FN u64 cello_to_gather(const struct cello *c, const struct cello_class *k)
{
	u64 all_ns, share_ns;

	if (!cello_gathers(c, k))
		return 0;
	share_ns = cello_share(c, k);
	all_ns = CORE_DIV(CELLO_GATHER_NS * k->part.weight, c->weights);
	return all_ns > share_ns ? all_ns - share_ns : 0;
}

/* By how much the class is from being served, if at least 0. */
CORE_FN s64 cello_over_ns(const struct cello *c, const struct cello_class *k, u64 share_ns)
{
	return k->part.used_ns + (s64)cello_to_gather(c, k) - (s64)share_ns;
}

/* Is the class, which has a share, served in this round? */
CORE_FN bool cello_ready(const struct cello *c, const struct cello_class *k)
{
	return k->part.weight && cello_over_ns(c, k, cello_share(c, k)) < 0;
}

/* Rounds until then. */
CORE_FN u64 cello_rounds(const struct cello *c, const struct cello_class *k)
{
	u64 share_ns = cello_share(c, k);
	s64 over_ns = cello_over_ns(c, k, share_ns);

	return over_ns < 0 ? 0 : CORE_DIV((u64)over_ns, share_ns) + 1;
}

/* Rounds have ended, the last of them before it had used its share if it has something left; it may
 * have gathered so much. */
CORE_FN void cello_renew(struct cello_part *p, u64 share_ns, u64 rounds, u64 gathered_ns)
{
	s64 before = p->used_ns, least = -(s64)gathered_ns;

	if (before < least)
		least = before;
	p->used_ns -= (s64)(share_ns * rounds);
	if (p->used_ns < least)
		p->used_ns = least;
}

/* What nobody used earns no credit. */
CORE_FN void cello_forget(struct cello_part *p, u64 share_ns, u64 rounds)
{
	s64 most = CORE_DIV(p->used_ns, (s64)share_ns) + 1;

	p->used_ns -= (s64)share_ns * ((s64)rounds < most ? (s64)rounds : most);
	if (p->used_ns < 0)
		p->used_ns = 0;
}

/* A round has ended without it, for it is late: what it had left is added to its next share. */
CORE_FN void cello_carry(struct cello_part *p, u64 share_ns)
{
	p->used_ns -= share_ns;
	if (p->used_ns < -(s64)share_ns)
		p->used_ns = -(s64)share_ns;
}

/* Has it used a smaller part of its share than the other? Where there is no arm that takes those of
 * one place together, each has its part of what is at the disk at any time, not one after the
 * other. */
CORE_FN bool cello_less(const struct cello_part *p, const struct cello_part *other)
{
	return p->used_ns * (s64)other->weight < other->used_ns * (s64)p->weight;
}

/* The disk serves many side by side, has a lane free or half of what it needs (one who was just
 * served may ask for more before that), up to four times its lanes, and nobody who has something
 * left of its share waits. */
CORE_FN bool cello_spare(const struct cello *c)
{
	const struct flight *f = &c->flight;
	u32 most = f->lanes * CELLO_FLIGHT_SPARE, half = flight_usual(f) / 2;

	return !f->arm && !c->queued &&
	       (f->number < f->lanes || f->number < (half < most ? half : most));
}

/* The group of the class whose request is next, or none: who has only requests that were scheduled
 * already is waited for. */
CORE_FN struct cello_group *cello_group_next(const struct cello *c, struct cello_class *k)
{
	struct cello_group *g;

	if (c->sole)
		return c->sole;
	k->root.length_ns = cello_length(c, k);
	g = cello_first(&k->root, CELLO_WAITS, false);
	return !g && cello_spare(c) ? cello_first(&k->root, CELLO_DEEP, true) : g;
}

/* Every class with requests has used its share. */
CORE_FN void cello_round(struct cello *c, u64 rounds)
{
	u64 over = c->rounds;
	u32 i;

	c->rounds += rounds;
	c->older = c->queued;
	for (i = 0; i < CELLO_CLASSES; i++) {
		struct cello_class *k = &c->class[i];
		u64 share = cello_share(c, k);

		/* A round may be over before it has used its share (cello_spare). */
		k->greedy = k->part.present && !k->turned && !cello_left(&k->part, share);
		k->turned = false;
		k->pours &= k->members && cello_left(&k->part, share);
		if (share && k->members)
			cello_renew(&k->part, share, rounds, cello_to_gather(c, k));
		else if (share && rounds == 1 && k->missed == over)
			cello_carry(&k->part, share);
		else if (share)
			cello_forget(&k->part, share, rounds);
	}
}

/* Of a class, in the scheduled queue. */
CORE_FN u32 cello_scheduled_most(const struct cello *c, u32 class_id)
{
	return c->flight.arm || class_id == CELLO_REALTIME ? CELLO_SCHEDULED_CLASS
							   : CELLO_SCHEDULED_FLAT;
}

/* An interactive class that uses all of its share gains nothing by being first. */
CORE_FN bool cello_throughput_first(const struct cello *c)
{
	const struct cello_class *k = c->class;

	return !c->flight.arm && k[CELLO_INTERACTIVE].greedy &&
	       cello_less(&k[CELLO_THROUGHPUT].part, &k[CELLO_INTERACTIVE].part);
}

/*
 * The group whose request is scheduled next, or none; of classes that have a share, or of those
 * that have none. Real-time requests come first, to be known to those that steal slack;
 * throughput-intensive ones last, as their place is the tail.
 */
CORE_FN struct cello_group *cello_pick(struct cello *c, bool share)
{
	static const u32 orders[2][CELLO_CLASSES] = {
		{CELLO_REALTIME, CELLO_INTERACTIVE, CELLO_THROUGHPUT},
		{CELLO_REALTIME, CELLO_THROUGHPUT, CELLO_INTERACTIVE},
	};
	const u32 *order = orders[cello_throughput_first(c)];
	struct cello_group *g;
	u32 i;

	for (i = 0; i < CELLO_CLASSES; i++) {
		struct cello_class *k = &c->class[order[i]];

		if (!k->waiting || k->scheduled >= cello_scheduled_most(c, order[i]))
			continue;
		if (share ? !cello_ready(c, k) : k->part.weight)
			continue;
		g = cello_group_next(c, k);
		if (!g)
			continue;
		k->pours = true;
		return g;
	}
	return 0;
}

/* Where there is no arm: is the next one scheduled already, and nobody there who would come before
 * it? */
CORE_FN bool cello_scheduled_all(const struct cello *c)
{
	const struct cello_class *k = &c->class[CELLO_INTERACTIVE];

	if (c->flight.arm || c->class[CELLO_REALTIME].waiting)
		return false;
	if (k->waiting && !k->scheduled && !k->greedy)
		return false;
	return k->scheduled + c->class[CELLO_THROUGHPUT].scheduled > 0;
}

/* Rounds that are over, as every class with requests has used its share of them; or none, or ~0: no
 * class with requests has a share. */
CORE_FN u64 cello_over(struct cello *c)
{
	u64 rounds = ~0ULL, sooner = ~0ULL;
	u32 i;

	for (i = 0; i < CELLO_CLASSES; i++) {
		struct cello_class *k = &c->class[i];
		u64 until;

		if (!k->members || !k->part.weight)
			continue;
		until = cello_rounds(c, k);
		rounds = until < rounds ? until : rounds;
		if (k->deep)
			sooner = until < sooner ? until : sooner;
	}
	if (!rounds && cello_spare(c))
		rounds = sooner == ~0ULL ? 0 : sooner;
	if (rounds != ~0ULL && (c->older || cello_queue_ns(c) > c->round_ns / CELLO_OVERLAP))
		return 0;
	return rounds;
}

/* The same, when rounds that have ended are over. */
CORE_FN struct cello_group *cello_choose(struct cello *c)
{
	struct cello_group *g = cello_pick(c, true);
	u64 rounds;

	if (g)
		return g;
	rounds = cello_over(c);
	if (rounds == ~0ULL)
		return cello_pick(c, false);
	if (!rounds)
		return 0;
	cello_round(c, rounds);
	return cello_pick(c, true);
}

/* ---- who is awaited ---------------------------------------------------- */

/* A class has used so much more of its share, or less. */
CORE_FN void cello_use(struct cello_class *k, s64 more_ns)
{
	/* One without a share does not begin with a debt when it is given one. */
	if (k->part.weight)
		k->part.used_ns += more_ns;
}

/* Has the group's class something left of its share, and is the group not too far ahead? */
CORE_FN bool cello_entitled(const struct cello *c, struct cello_group *g)
{
	const struct cello_class *k = g->class;

	return (!k->part.weight || cello_left(&k->part, cello_share(c, k))) && cello_all_near(c, g);
}

/* It is awaited no longer; what the disk idled for it meanwhile is charged to it. */
CORE_FN void cello_await_ends(struct cello *c, struct cello_group *g, u64 now_ns)
{
	u64 kept_ns = now_ns > g->left_ns ? now_ns - g->left_ns : 0;
	struct cello_class *k = g->class;

	g->await_ns = 0;
	cello_unlink(&g->awaited);
	if (c->keeps != g)
		return;
	c->keeps = 0;
	c->stays = g;
	if (!c->kept)
		return;
	c->kept = false;
	g->served_ns += kept_ns;
	k->part.served_ns += kept_ns;
	if (!c->sole)
		cello_serve(g, kept_ns);
	cello_use(k, kept_ns);
}

/* Those that have not come in time are awaited no longer, and not again before they have come once
 * by themselves. */
CORE_FN void cello_await_over(struct cello *c, u64 now_ns)
{
	struct cello_link *l = c->awaited.next;
	u64 first = ~0ULL;

	while (l != &c->awaited) {
		struct cello_group *g = cello_awaited(l);

		l = l->next;
		if (g->await_ns <= now_ns) {
			cello_await_ends(c, g, now_ns);
			c->stays = 0;
			g->class->missed = c->rounds;
			g->single = CELLO_AWAIT_SINGLE - 1;
			cello_goes(c, g);
		} else if (g->await_ns < first) {
			first = g->await_ns;
		}
	}
	c->await_ns = first == ~0ULL ? 0 : first;
}

/* The group has a request more. */
CORE_FN void cello_await_came(struct cello *c, struct cello_group *g, u64 now_ns)
{
	u64 think_ns = now_ns > g->left_ns ? now_ns - g->left_ns : 0;

	if (g->present) { /* one and then another */
		g->single = 0;
		return;
	}
	if (think_ns > CELLO_AWAIT_MAX_NS)
		think_ns = CELLO_AWAIT_MAX_NS;
	g->think_ns = (g->think_ns * 7 + think_ns) / 8;
	if (g->in_turn) {
		g->turn_think_ns = (g->turn_think_ns * 63 + think_ns) / 64;
	} else {
		g->turn_think_ns -= g->turn_think_ns / CELLO_TURNS_TRIED;
		g->open_think_ns = (g->open_think_ns * 63 + think_ns) / 64;
	}
	if (g->single < CELLO_AWAIT_SINGLE)
		g->single++;
	if (g->await_ns)
		cello_await_ends(c, g, now_ns);
	else
		cello_comes(c, g);
}

/* An arm that has served the last of a round goes on with the next where it is, and so moves to
 * another class's place once in a round, not twice. */
CORE_FN void cello_goes_on(struct cello *c, const struct cello_group *g)
{
	const struct cello_class *k = g->class;
	u64 rounds;

	if (!c->flight.arm || !k->part.weight || cello_left(&k->part, cello_share(c, k)))
		return;
	rounds = cello_over(c);
	if (rounds && rounds != ~0ULL)
		cello_round(c, rounds);
}

/* Is it worth while to await the group when it has no requests? */
CORE_FN bool cello_returns(const struct cello_group *g, u64 think_ns)
{
	return g->single >= CELLO_AWAIT_SINGLE && think_ns * 2 <= CELLO_AWAIT_MAX_NS;
}

/* The group's last request was served. */
CORE_FN void cello_await(struct cello *c, struct cello_group *g, u64 now_ns)
{
	u64 think_ns;

	g->left_ns = now_ns;
	g->in_turn = c->turn_ns && g->class_id == CELLO_INTERACTIVE;
	think_ns = g->in_turn ? g->turn_think_ns : g->think_ns;
	if (!cello_returns(g, think_ns))
		return;
	/* Without an arm nobody's share depends on it yet. */
	if (c->sole && !c->flight.arm && !c->turn_ns)
		return;
	g->await_ns =
		now_ns + think_ns * 2 + (c->flight.arm ? CELLO_AWAIT_ARM_NS : CELLO_AWAIT_MIN_NS);
	cello_before(&c->awaited, &g->awaited);
	cello_goes_on(c, g);
	if (!c->await_ns || g->await_ns < c->await_ns)
		c->await_ns = g->await_ns;
	if ((c->flight.arm ? g->class_id != CELLO_REALTIME : g->in_turn) && cello_entitled(c, g))
		c->keeps = g;
}

/* May an arm stay for the group, though others could be served? An interactive class that uses all
 * of its share waits for the next anyway. */
CORE_FN bool cello_may_stay(const struct cello *c, const struct cello_group *g)
{
	const struct cello_class *k = &c->class[CELLO_INTERACTIVE];

	if (!g || c->class[CELLO_REALTIME].part.present)
		return false;
	return g->class_id == CELLO_INTERACTIVE || !k->part.present || k->greedy;
}

/* The group has come for which the arm has stayed, and is next, if it has something left of its
 * share. */
CORE_FN struct cello_group *cello_stayed(struct cello *c)
{
	struct cello_group *g = c->stays;
	const struct cello_class *k;

	c->stays = 0;
	if (!g || !g->own.waiting || !cello_may_stay(c, g))
		return 0;
	k = g->class;
	if (k->scheduled >= cello_scheduled_most(c, g->class_id) ||
	    c->queued >= CELLO_SCHEDULED_MAX)
		return 0;
	cello_goes_on(c, g);
	return cello_entitled(c, g) ? g : 0;
}

/* ---- turns, without an arm --------------------------------------------- */

/* The class's turn goes on. */
CORE_FN bool cello_turns(const struct cello *c)
{
	const struct cello_class *k = &c->class[CELLO_INTERACTIVE];

	return c->turn_ns && k->members && !k->greedy && c->flight.lanes <= CELLO_TURN_LANES &&
	       cello_left(&k->part, cello_share(c, k)) && !c->class[CELLO_REALTIME].part.present;
}

/* Throughput-intensive requests that follow from one another, as of programs that write and fsync,
 * do not use their share, and fewer of them come the seldomer they are served. */
CORE_FN bool cello_turns_short(const struct cello *c)
{
	const struct cello_class *k = &c->class[CELLO_THROUGHPUT];

	return !k->greedy && k->sync_part > CELLO_ALL / 2;
}

/* When it is over at the latest, also if the disk does not answer. */
CORE_FN u64 cello_turn_end_ns(const struct cello *c)
{
	return c->turn_ns + (cello_turns_short(c) ? CELLO_TURN_SHORT_NS : c->round_ns);
}

/* What was served in one says nothing of how many the disk can serve side by side. */
CORE_FN void cello_turn_ends(struct cello *c, u64 now_ns)
{
	if (c->turn_ns) {
		flight_passes(&c->flight, c->turn_ns, now_ns);
		c->rest_ns = now_ns + CELLO_TURN_SHORT_NS / 2;
	}
	c->turn_ns = 0;
}

/* Does its group gain by a turn? With part s of the disk's time, and t for each request with what
 * it thinks between while nobody else is there, one is done in t / s of that; else in what it
 * thinks, takes and waits then. */
CORE_FN bool cello_gains(struct cello *c, const struct cello_request *r)
{
	const struct flight_alone *alone = flight_alone(&c->flight, r->way, r->sectors);
	const struct cello_class *k = &c->class[CELLO_INTERACTIVE];
	const struct cello_class *other = &c->class[CELLO_THROUGHPUT];
	const struct cello_group *g = r->group;
	u64 each_ns = g->turn_think_ns + alone->ns;
	u64 open_ns = g->open_think_ns + alone->ns + g->waits_ns;

	return alone->seen && g->single >= CELLO_AWAIT_SINGLE &&
	       each_ns * CELLO_TURN_LEAST < cello_share(c, k) &&
	       each_ns * (k->part.weight + other->part.weight) < open_ns * k->part.weight;
}

/* The request goes to the disk: whose turn it is. */
CORE_FN void cello_turn_of(struct cello *c, const struct cello_request *r, u64 now_ns)
{
	bool interactive = r->group->class_id == CELLO_INTERACTIVE;

	if (cello_turns(c) && interactive)
		return;
	cello_turn_ends(c, now_ns);
	if (!interactive || c->flight.arm || !c->flight.learns)
		return;
	if ((cello_turns_short(c) && now_ns < c->rest_ns) || !cello_gains(c, r))
		return;
	c->turn_ns = now_ns;
	if (cello_turns(c))
		c->class[CELLO_INTERACTIVE].turned = true;
	else
		c->turn_ns = 0;
}

/* It was served: how long it waited beside what it takes alone. */
CORE_FN void cello_waited(struct cello *c, struct cello_request *r, u64 now_ns)
{
	struct cello_group *g = r->group;
	struct cello_class *k = g->class;
	const struct flight_alone *alone;
	u64 own_ns, waits_ns;

	if (g->class_id != CELLO_INTERACTIVE)
		return;
	alone = flight_alone(&c->flight, r->way, r->sectors);
	own_ns = r->arrived_ns + alone->ns;
	waits_ns = now_ns > own_ns ? now_ns - own_ns : 0;
	if (r->open && alone->seen) {
		g->waits_ns = (g->waits_ns * 7 + waits_ns) / 8;
		k->waits_ns = (k->waits_ns * 7 + waits_ns) / 8;
	} else if (c->turn_ns) { /* is it still so? */
		g->waits_ns -= g->waits_ns / CELLO_TURNS_TRIED;
	}
}

#endif
