/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello.h - Cello, a disk scheduler of two levels
 *
 * Shenoy and Vin, SIGMETRICS'98; QLinux, section 2.4 and figure 4. Requests wait in pending
 * queues, one for each class, and go from there to one scheduled queue, which the disk
 * serves from its head:
 *
 *   cello_add    a request comes: to its class's pending queue
 *   cello_next   the class-independent scheduler moves requests to the scheduled queue, the
 *                class-specific ones say where in it; its head goes to the disk
 *   cello_done   a request was served: what it took is known
 *
 * Class-independent. In a round of length P a class of weight w may use P w / sum w of the
 * disk's time. It uses what the scheduled queue is estimated to grow by for its requests,
 * reconciled with what they took. A round ends when every class that has requests, waiting
 * or at the disk, has used its share: what the others leave goes to those by weight, and
 * earns the others no credit. Who used more, by a long request or a wrong estimate, begins
 * the next round with the difference. A class of weight 0 is served when no other has requests.
 *
 * Requests of the next round join the last of this one (a quarter of a round's) in the scheduled
 * queue, or the arm would have little to choose from at each round's end; those of a third wait
 * until the first is over. So a request may be overtaken by a round of others, and by no more.
 *
 *   P = 100 ms, interactive 1, throughput-intensive 4, soft real-time 0; requests of 10 ms:
 *   2 of the first class and 8 of the second to a round. Alone, either has the disk.
 *
 * The groups (cgroups) of a class share its part in the same way, in rounds of the class's own.
 *
 * Class-specific, the place in the scheduled queue:
 *
 *   soft real-time         by deadline; of equal ones in order of sectors. Before requests of
 *                          other classes as far as it must to be in time, and no further
 *   interactive            by slack stealing: as early as no real-time request is late for it,
 *                          among the interactive ones where the queue grows least. A class
 *                          that waits for its next share anyway is placed as the next is
 *   throughput-intensive   behind those, in SCAN order, turning at the last request (LOOK), as
 *                          soon as no real-time request is late for it
 *
 * What continues where another request ends goes right behind that one.
 *
 * Non-goals: what has no class does not come here; merging and flushes are the block layer's.
 * The caller serialises calls, owns the memory of requests and groups, and tells the time.
 */
#ifndef QLINUX_CORE_CELLO_H
#define QLINUX_CORE_CELLO_H

#include "disktime.h"
#include "../port.h"

enum cello_class_id {
	CELLO_INTERACTIVE = 0,
	CELLO_THROUGHPUT = 1,
	CELLO_REALTIME = 2,
	CELLO_CLASSES = 3,
};

enum {
	CELLO_WEIGHT_MAX = 10000,
	CELLO_WEIGHT_DEFAULT = 100,
	/* The scheduled queue is searched for each request that comes to it. */
	CELLO_SCHEDULED_MAX = 128,
	/* A round begins when no more than this part of one waits to be served. */
	CELLO_OVERLAP = 4,
	/* Of a class, so that there is room for the others. */
	CELLO_SCHEDULED_CLASS = 96,
	/* Requests at the disk. One arm has one: the order is Cello's. */
	CELLO_FLIGHT_TURNING = 1,
	CELLO_FLIGHT_FLAT = 8,
	CELLO_FLIGHT_MAX = 1024,
	/* However long they are: one that is served, one that is next; else it idles between. */
	CELLO_FLIGHT_LEAST = 2,
};

#define CELLO_ROUND_MIN_NS     1000000ULL     /* 1 ms */
#define CELLO_ROUND_MAX_NS     10000000000ULL /* 10 s */
#define CELLO_ROUND_DEFAULT_NS 100000000ULL   /* 100 ms */

/* What requests at the disk are estimated to take before it has no further one: whoever comes now
 * waits for them, however urgent it is. */
#define CELLO_FLIGHT_FLAT_NS 2000000ULL     /* 2 ms */
#define CELLO_FLIGHT_MIN_NS  1000ULL        /* 1 us: two requests at a time */
#define CELLO_FLIGHT_MAX_NS  10000000000ULL /* 10 s: as many as may be */

/* After a real-time request comes, if nothing was said of it. */
#define CELLO_DEADLINE_MIN_NS     1000000ULL     /* 1 ms */
#define CELLO_DEADLINE_MAX_NS     49152000000ULL /* 49.152 s, as in a hint */
#define CELLO_DEADLINE_DEFAULT_NS 100000000ULL   /* 100 ms */

/* A ring; of an empty one both lead to itself. */
struct cello_link {
	struct cello_link *next, *prev;
};

struct cello_group;

struct cello_request {
	struct cello_link link; /* in its group's pending or in the scheduled queue; first */
	struct cello_group *group;
	u64 sector;
	u64 from; /* where the request before it ended, when it went to the disk */
	u32 sectors;
	u32 way;         /* 0 it reads, 1 it writes, 2 neither */
	u64 deadline_ns; /* of the real-time class: absolute */
	u64 arrived_ns;
	u64 estimate_ns; /* of its service, from where the one before it ends */
	u64 charged_ns;  /* that its class and group were charged for it */
	u64 slack_ns;    /* it and all behind it may be so much later; while a place is sought */
	u64 error_ns;    /* real-time: what its estimated end may be off by */
	u64 spread;      /* of that (disktime.h) */
	u64 round;       /* in which it was scheduled */
	bool scheduled;  /* it is in the scheduled queue */
	bool early;      /* placed by slack stealing: SCAN order begins behind it */
	bool promised;   /* real-time, and estimated to be in time ever since it was scheduled */
};

/* What a class may use of a round, or a group of its class's. */
struct cello_part {
	u32 weight;
	u32 present;   /* its requests: pending, scheduled and at the disk */
	s64 used_ns;   /* of its share; below 0: of the last round's, which it was charged too much
			  for */
	u64 served_ns; /* measured, since the beginning */
	u64 served;    /* requests */
};

/* The requests of a cgroup in a class. */
struct cello_group {
	struct cello_link link; /* among the groups of its class that have requests; first */
	struct cello_link pending;
	struct cello_part part;
	u32 class_id;
	u32 waiting; /* pending */
	u64 rounds;  /* of its class's, when it last had requests */
};

struct cello_class {
	struct cello_link groups; /* that have requests, in turn */
	struct cello_part part;
	u32 waiting; /* pending */
	u32 scheduled;
	u32 weights; /* of its groups that have requests */
	u64 rounds;  /* among its groups */
	bool greedy; /* it used its share of the last round, and had requests */
	u64 late;    /* real-time requests served after their deadline */
	u64 broken;  /* of those, promised to be in time, and late by more than the error */
};

struct cello {
	struct cello_class class[CELLO_CLASSES];
	struct cello_link scheduled;
	u32 queued;    /* in the scheduled queue */
	u32 older;     /* of those, scheduled in the round before */
	u32 waiting;   /* pending, of all classes */
	u32 in_flight; /* at the disk */
	u32 flight_max;
	u32 weights;       /* of the classes */
	u64 flight_max_ns; /* that they are estimated to take */
	u64 deadline_ns;   /* of real-time requests without one of their own, from their arrival */
	u64 round_ns;
	u64 rounds;
	u64 head;      /* where the last request that was issued ends */
	bool up;       /* the arm moved to higher sectors for it */
	bool changed;  /* the scheduled queue, since promises were checked */
	u64 begun_ns;  /* the disk was done with a request, or was idle and was given one */
	u64 flight_ns; /* since then what is in flight is estimated to take */
	u64 flight_spread;
	struct disktime time;
};

/* ---- rings ------------------------------------------------------------- */

CORE_FN void cello_ring(struct cello_link *at)
{
	at->next = at->prev = at;
}

CORE_FN bool cello_empty(const struct cello_link *at)
{
	return at->next == at;
}

CORE_FN void cello_before(struct cello_link *at, struct cello_link *l)
{
	l->next = at;
	l->prev = at->prev;
	at->prev->next = l;
	at->prev = l;
}

CORE_FN void cello_unlink(struct cello_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	cello_ring(l);
}

CORE_FN struct cello_request *cello_at(struct cello_link *l)
{
	return (struct cello_request *)l;
}

/* ---- what requests cost ------------------------------------------------ */

CORE_FN u64 cello_end(const struct cello_request *r)
{
	return r->sector + r->sectors;
}

/* Where the disk will be when it comes to this place. */
CORE_FN u64 cello_from(const struct cello *c, const struct cello_link *at)
{
	return at->prev == &c->scheduled ? c->head
					 : cello_end((const struct cello_request *)at->prev);
}

CORE_FN u64 cello_estimate(struct cello *c, u64 from, const struct cello_request *r)
{
	struct disktime_of of = {from, r->sector, r->sectors, r->way};

	return disktime_estimate(&c->time, &of);
}

/* What the scheduled queue will take. */
CORE_FN u64 cello_queue_ns(const struct cello *c)
{
	const struct cello_link *l;
	u64 ns = 0;

	for (l = c->scheduled.next; l != &c->scheduled; l = l->next)
		ns += ((const struct cello_request *)l)->estimate_ns;
	return ns;
}

/* What is there is reached from elsewhere now. */
CORE_FN void cello_reached(struct cello *c, struct cello_link *at)
{
	struct cello_request *r = cello_at(at);
	struct disktime_of of;

	if (at == &c->scheduled)
		return;
	of = (struct disktime_of){cello_from(c, at), r->sector, r->sectors, r->way};
	r->estimate_ns = disktime_estimate(&c->time, &of);
	r->spread = disktime_spread(&c->time, &of);
}

/* By how much the scheduled queue grows with the request before this place. It may shrink:
 * then by nothing. */
CORE_FN u64 cello_growth(struct cello *c, struct cello_link *at, const struct cello_request *r)
{
	u64 alone = cello_estimate(c, cello_from(c, at), r), with;
	struct cello_request *next = cello_at(at);

	if (at == &c->scheduled)
		return alone;
	with = alone + cello_estimate(c, cello_end(r), next);
	return with > next->estimate_ns ? with - next->estimate_ns : 0;
}

/* The disk is done with what it has, and begins with the scheduled queue. */
CORE_FN u64 cello_free(const struct cello *c, u64 now_ns)
{
	u64 free_ns = c->begun_ns + c->flight_ns;

	return c->in_flight && free_ns > now_ns ? free_ns : now_ns;
}

/* ---- class-specific: a place in the scheduled queue -------------------- */

/*
 * How much later each request, with all behind it, may be served before one of the real-time
 * class, of those that are estimated to be in time, is late; or may be, since estimates are off.
 */
CORE_FN void cello_slacks(struct cello *c, u64 now_ns)
{
	u64 at_ns = cello_free(c, now_ns), least = ~0ULL, spreads = c->flight_spread, error_ns;
	struct cello_link *l;

	if (!c->class[CELLO_REALTIME].scheduled)
		return;
	for (l = c->scheduled.next; l != &c->scheduled; l = l->next) {
		struct cello_request *r = cello_at(l);

		at_ns += r->estimate_ns;
		spreads += r->spread;
		r->slack_ns = ~0ULL;
		if (r->group->class_id != CELLO_REALTIME || r->deadline_ns < at_ns)
			continue;
		error_ns = disktime_error(&c->time, spreads);
		r->slack_ns = r->deadline_ns - at_ns;
		r->slack_ns -= error_ns < r->slack_ns ? error_ns : r->slack_ns;
	}
	for (l = c->scheduled.prev; l != &c->scheduled; l = l->prev) {
		struct cello_request *r = cello_at(l);

		least = r->slack_ns < least ? r->slack_ns : least;
		r->slack_ns = least;
	}
}

/* Behind the last request that stole slack, or where the queue begins. */
CORE_FN struct cello_link *cello_behind(struct cello *c)
{
	struct cello_link *l = c->scheduled.prev;

	while (l != &c->scheduled && !cello_at(l)->early)
		l = l->prev;
	return l->next;
}

/* No real-time request is late if it is served before this place. */
CORE_FN bool cello_fits(struct cello *c, struct cello_link *at, const struct cello_request *r)
{
	return at == &c->scheduled || !c->class[CELLO_REALTIME].scheduled ||
	       cello_at(at)->slack_ns == ~0ULL || cello_growth(c, at, r) <= cello_at(at)->slack_ns;
}

/* From this place on: right behind the request that it continues, or none. */
CORE_FN struct cello_link *cello_neighbour(struct cello *c, const struct cello_request *r,
					   struct cello_link *l)
{
	for (;; l = l->next) {
		if (cello_from(c, l) == r->sector && cello_fits(c, l, r))
			return l;
		if (l == &c->scheduled)
			return 0;
	}
}

/*
 * Of the places up to `end` the one where the queue grows least, if no real-time request is
 * late for it; else the first behind.
 */
CORE_FN struct cello_link *cello_cheapest(struct cello *c, const struct cello_request *r,
					  struct cello_link *end)
{
	struct cello_link *l = c->scheduled.next, *place = &c->scheduled;
	u64 least = ~0ULL;
	bool behind = false;

	for (;; l = l->next) {
		u64 growth = cello_growth(c, l, r);

		/* Of equal ones the last: who came first is served first. */
		if (growth <= least && cello_fits(c, l, r)) {
			least = growth;
			place = l;
		}
		behind |= l == end;
		if (l == &c->scheduled || (behind && least != ~0ULL))
			return place;
	}
}

CORE_FN bool cello_ahead(bool up, u64 from, u64 sector)
{
	return up ? sector >= from : sector <= from;
}

/*
 * From `begin` on the first place where the arm is on its way there, or where it turns and might
 * as well go on until there, if no real-time request is late for it.
 */
CORE_FN struct cello_link *cello_scan(struct cello *c, const struct cello_request *r,
				      struct cello_link *begin)
{
	struct cello_link *l;
	bool up = c->up, begun = false;

	for (l = c->scheduled.next; l != &c->scheduled; l = l->next) {
		u64 from = cello_from(c, l), to = cello_at(l)->sector;
		bool further = cello_ahead(up, from, r->sector), turns = !cello_ahead(up, from, to);

		up ^= turns;
		begun |= l == begin;
		if (!begun || (further == turns ? !further : !cello_ahead(up, r->sector, to)))
			continue;
		if (cello_fits(c, l, r))
			break;
	}
	return l;
}

/* Where the requests end that no other class's lie behind. */
CORE_FN struct cello_link *cello_tail(struct cello *c)
{
	struct cello_link *l = &c->scheduled;

	while (l->prev != &c->scheduled && cello_at(l->prev)->group->class_id == CELLO_THROUGHPUT)
		l = l->prev;
	return l;
}

/* Among real-time requests: by deadline, of equal ones in order of sectors. */
CORE_FN bool cello_sooner(const struct cello_request *a, const struct cello_request *b)
{
	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns < b->deadline_ns;
	return a->sector < b->sector;
}

/* By deadline; before those of other classes only as far as it must to be in time, for all that
 * estimates are off by. */
CORE_FN struct cello_link *cello_place_realtime(struct cello *c, struct cello_request *r,
						u64 now_ns)
{
	u64 at_ns = cello_free(c, now_ns), spreads = c->flight_spread, end_ns;
	struct cello_link *l = c->scheduled.next, *place = l, *tail = cello_tail(c);

	for (; l != tail; l = l->next) {
		struct cello_request *next = cello_at(l);
		bool realtime = next->group->class_id == CELLO_REALTIME;

		if (realtime && cello_sooner(r, next))
			break;
		at_ns += next->estimate_ns;
		spreads += next->spread;
		end_ns = at_ns + cello_estimate(c, cello_end(next), r);
		if (realtime || end_ns + disktime_error(&c->time, spreads) <= r->deadline_ns)
			place = l->next;
	}
	return place;
}

CORE_FN struct cello_link *cello_place(struct cello *c, struct cello_request *r, u64 now_ns)
{
	struct cello_link *behind, *at;

	if (r->group->class_id == CELLO_REALTIME)
		return cello_place_realtime(c, r, now_ns);
	cello_slacks(c, now_ns);
	behind = cello_behind(c);
	if (r->early)
		return cello_cheapest(c, r, behind);
	at = cello_neighbour(c, r, behind);
	return at ? at : cello_scan(c, r, behind);
}

/* The queue has changed: who is late now is promised no more to be in time. */
CORE_FN void cello_recheck(struct cello *c, u64 now_ns)
{
	u64 at_ns = cello_free(c, now_ns), spreads = c->flight_spread;
	struct cello_link *l;

	c->changed = false;
	if (!c->class[CELLO_REALTIME].scheduled)
		return;
	for (l = c->scheduled.next; l != &c->scheduled; l = l->next) {
		struct cello_request *r = cello_at(l);
		u64 error_ns;

		spreads += r->spread;
		at_ns += r->estimate_ns;
		if (r->group->class_id != CELLO_REALTIME)
			continue;
		r->promised &= at_ns <= r->deadline_ns;
		error_ns = disktime_error(&c->time, spreads);
		if (r->error_ns < error_ns)
			r->error_ns = error_ns;
	}
}

/* ---- class-independent: shares of a round ------------------------------ */

CORE_FN u64 cello_share(const struct cello *c, const struct cello_class *k)
{
	return c->weights ? c->round_ns * k->part.weight / c->weights : 0;
}

/* At least 1, or a group of little weight would never be served. */
CORE_FN u64 cello_group_share(const struct cello *c, const struct cello_class *k,
			      const struct cello_group *g)
{
	u64 all = k->part.weight ? cello_share(c, k) : c->round_ns;
	u64 share = k->weights ? all * g->part.weight / k->weights : all;

	return share ? share : 1;
}

CORE_FN bool cello_left(const struct cello_part *p, u64 share_ns)
{
	return p->used_ns < (s64)share_ns;
}

/* Rounds until the part has something left, if it has nothing now. */
CORE_FN u64 cello_rounds(const struct cello_part *p, u64 share_ns)
{
	return cello_left(p, share_ns) ? 0 : (u64)(p->used_ns - (s64)share_ns) / share_ns + 1;
}

/* What nobody used earns no credit. */
CORE_FN void cello_forget(struct cello_part *p, u64 share_ns, u64 rounds)
{
	s64 most = p->used_ns / (s64)share_ns + 1;

	p->used_ns -= (s64)share_ns * ((s64)rounds < most ? (s64)rounds : most);
	if (p->used_ns < 0)
		p->used_ns = 0;
}

/*
 * The group of the class whose request is next, or none. Each with requests has used its
 * share: then a round of the class's groups has ended. Who has only requests that were
 * scheduled already is waited for.
 */
CORE_FN struct cello_group *cello_turn(struct cello *c, struct cello_class *k)
{
	u64 rounds = ~0ULL, share;
	struct cello_link *l;

	for (l = k->groups.next; l != &k->groups; l = l->next) {
		struct cello_group *g = (struct cello_group *)l;
		u64 until = cello_rounds(&g->part, cello_group_share(c, k, g));

		if (!until && g->waiting)
			return g;
		rounds = until < rounds ? until : rounds;
	}
	if (!rounds || cello_empty(&k->groups))
		return 0;
	k->rounds += rounds;
	for (l = k->groups.next; l != &k->groups; l = l->next) {
		struct cello_group *g = (struct cello_group *)l;

		share = cello_group_share(c, k, g);
		g->part.used_ns -= (s64)(share * rounds);
	}
	for (l = k->groups.next; l != &k->groups; l = l->next) {
		struct cello_group *g = (struct cello_group *)l;

		if (g->waiting && cello_left(&g->part, cello_group_share(c, k, g)))
			return g;
	}
	return 0;
}

/* Every class with requests has used its share. */
CORE_FN void cello_round(struct cello *c, u64 rounds)
{
	u32 i;

	c->rounds += rounds;
	c->older = c->queued;
	for (i = 0; i < CELLO_CLASSES; i++) {
		struct cello_class *k = &c->class[i];
		u64 share = cello_share(c, k);

		k->greedy = k->part.present;
		if (share && k->part.present)
			k->part.used_ns -= (s64)(share * rounds);
		else if (share)
			cello_forget(&k->part, share, rounds);
	}
}

/*
 * The group whose request is scheduled next, or none; of classes that have a share, or of those
 * that have none. Real-time requests come first, to be known to those that steal slack;
 * throughput-intensive ones last, as their place is the tail.
 */
CORE_FN struct cello_group *cello_pick(struct cello *c, bool share)
{
	static const u32 order[] = {CELLO_REALTIME, CELLO_INTERACTIVE, CELLO_THROUGHPUT};
	struct cello_group *g;
	u32 i;

	for (i = 0; i < CELLO_CLASSES; i++) {
		struct cello_class *k = &c->class[order[i]];

		if (!k->waiting || k->scheduled >= CELLO_SCHEDULED_CLASS)
			continue;
		if (share ? !cello_left(&k->part, cello_share(c, k)) : k->part.weight)
			continue;
		g = cello_turn(c, k);
		if (g)
			return g;
	}
	return 0;
}

/* The same, when rounds that have ended are over. */
CORE_FN struct cello_group *cello_choose(struct cello *c)
{
	struct cello_group *g = cello_pick(c, true);
	u64 rounds = ~0ULL;
	u32 i;

	if (g)
		return g;
	for (i = 0; i < CELLO_CLASSES; i++) {
		struct cello_class *k = &c->class[i];
		u64 until;

		if (!k->part.present || !k->part.weight)
			continue;
		until = cello_rounds(&k->part, cello_share(c, k));
		rounds = until < rounds ? until : rounds;
	}
	if (rounds == ~0ULL)
		return cello_pick(c, false);
	if (!rounds || c->older || cello_queue_ns(c) > c->round_ns / CELLO_OVERLAP)
		return 0;
	cello_round(c, rounds);
	return cello_pick(c, true);
}

/* So much in all. What took longer than any request was no fault of who asked. */
CORE_FN void cello_charge(struct cello_request *r, struct cello_class *k, u64 ns)
{
	s64 more;

	if (ns > DISKTIME_MAX_NS)
		ns = DISKTIME_MAX_NS;
	more = (s64)ns - (s64)r->charged_ns;
	r->charged_ns = ns;
	r->group->part.used_ns += more;
	/* A class without a share does not begin with a debt when it is given one. */
	if (k->part.weight)
		k->part.used_ns += more;
}

/* The request goes from its group's pending queue to its place in the scheduled queue. */
CORE_FN void cello_schedule(struct cello *c, struct cello_request *r, u64 now_ns)
{
	struct cello_group *g = r->group;
	struct cello_class *k = &c->class[g->class_id];
	struct cello_link *at;

	/* To be early gains nothing for a class that waits for its next share anyway. */
	r->early = g->class_id == CELLO_INTERACTIVE && !k->greedy;
	at = cello_place(c, r, now_ns);
	cello_unlink(&r->link);
	g->waiting--;
	k->waiting--;
	c->waiting--;
	cello_charge(r, k, cello_growth(c, at, r));
	cello_before(at, &r->link);
	cello_reached(c, &r->link);
	r->scheduled = c->changed = true;
	r->promised = g->class_id == CELLO_REALTIME;
	k->scheduled++;
	r->round = c->rounds;
	c->queued++;
	cello_reached(c, at);
	/* Its group's turn is over. */
	cello_unlink(&g->link);
	cello_before(&k->groups, &g->link);
}

/* Moves what may be moved. */
CORE_FN void cello_fill(struct cello *c, u64 now_ns)
{
	while (c->waiting && c->queued < CELLO_SCHEDULED_MAX) {
		struct cello_group *g = cello_choose(c);

		if (!g)
			break;
		cello_schedule(c, cello_at(g->pending.next), now_ns);
	}
	if (c->changed)
		cello_recheck(c, now_ns);
}

/* ---- what the block layer calls ---------------------------------------- */

CORE_FN void cello_init(struct cello *c, u64 sectors, bool turning)
{
	struct cello_class none = {};
	u32 i;

	for (i = 0; i < CELLO_CLASSES; i++) {
		c->class[i] = none;
		c->class[i].part.weight = CELLO_WEIGHT_DEFAULT;
		cello_ring(&c->class[i].groups);
	}
	cello_ring(&c->scheduled);
	c->weights = CELLO_CLASSES * CELLO_WEIGHT_DEFAULT;
	c->queued = c->older = c->waiting = c->in_flight = 0;
	c->flight_max = turning ? CELLO_FLIGHT_TURNING : CELLO_FLIGHT_FLAT;
	c->flight_max_ns = turning ? CELLO_FLIGHT_MAX_NS : CELLO_FLIGHT_FLAT_NS;
	c->up = true;
	c->changed = false;
	c->deadline_ns = CELLO_DEADLINE_DEFAULT_NS;
	c->round_ns = CELLO_ROUND_DEFAULT_NS;
	c->rounds = c->head = c->begun_ns = c->flight_ns = c->flight_spread = 0;
	disktime_init(&c->time, sectors, turning);
}

/* Weights of the classes. Returns 0, -CORE_ERANGE, or -CORE_EINVAL: they are all 0. */
CORE_FN int cello_set_weights(struct cello *c, const u32 *weights)
{
	u32 i, sum = 0;

	for (i = 0; i < CELLO_CLASSES; i++) {
		if (weights[i] > CELLO_WEIGHT_MAX)
			return -CORE_ERANGE;
		sum += weights[i];
	}
	if (!sum)
		return -CORE_EINVAL;
	for (i = 0; i < CELLO_CLASSES; i++) {
		c->class[i].part.weight = weights[i];
		if (!weights[i])
			c->class[i].part.used_ns = 0;
	}
	c->weights = sum;
	return 0;
}

/* Length of a round, in nanoseconds. Returns 0 or -CORE_ERANGE. */
CORE_FN int cello_set_round(struct cello *c, u64 round_ns)
{
	if (round_ns < CELLO_ROUND_MIN_NS || round_ns > CELLO_ROUND_MAX_NS)
		return -CORE_ERANGE;
	c->round_ns = round_ns;
	return 0;
}

/* Requests at the disk at a time. Returns 0 or -CORE_ERANGE. */
CORE_FN int cello_set_in_flight(struct cello *c, u32 requests)
{
	if (!requests || requests > CELLO_FLIGHT_MAX)
		return -CORE_ERANGE;
	c->flight_max = requests;
	return 0;
}

/* What those may be estimated to take, in nanoseconds; two may always be there. Returns 0 or
 * -CORE_ERANGE. */
CORE_FN int cello_set_in_flight_time(struct cello *c, u64 ns)
{
	if (ns < CELLO_FLIGHT_MIN_NS || ns > CELLO_FLIGHT_MAX_NS)
		return -CORE_ERANGE;
	c->flight_max_ns = ns;
	return 0;
}

/* Of real-time requests without one of their own, in nanoseconds. Returns 0 or -CORE_ERANGE. */
CORE_FN int cello_set_deadline(struct cello *c, u64 ns)
{
	if (ns < CELLO_DEADLINE_MIN_NS || ns > CELLO_DEADLINE_MAX_NS)
		return -CORE_ERANGE;
	c->deadline_ns = ns;
	return 0;
}

/* When a request that comes now is to be done; `own_ns` after it came, or 0: as usual. */
CORE_FN u64 cello_deadline(const struct cello *c, u64 own_ns, u64 now_ns)
{
	return now_ns + (own_ns ? own_ns : c->deadline_ns);
}

/* A cgroup in a class; it has no requests. */
CORE_FN void cello_group_init(struct cello_group *g, u32 class_id, u32 weight)
{
	struct cello_part part = {.weight = weight};

	cello_ring(&g->link);
	cello_ring(&g->pending);
	g->part = part;
	g->class_id = class_id;
	g->waiting = 0;
	g->rounds = 0;
}

/* Returns 0 or -CORE_ERANGE. */
CORE_FN int cello_group_set_weight(struct cello *c, struct cello_group *g, u32 weight)
{
	if (!weight || weight > CELLO_WEIGHT_MAX)
		return -CORE_ERANGE;
	if (g->part.present)
		c->class[g->class_id].weights += weight - g->part.weight;
	g->part.weight = weight;
	return 0;
}

/* A request comes. Sector, sectors, way, deadline and group are set. */
CORE_FN void cello_add(struct cello *c, struct cello_request *r, u64 now_ns)
{
	struct cello_group *g = r->group;
	struct cello_class *k = &c->class[g->class_id];

	r->arrived_ns = now_ns;
	r->estimate_ns = r->spread = r->charged_ns = r->slack_ns = r->error_ns = 0;
	r->scheduled = r->early = r->promised = false;
	if (!g->part.present++) {
		k->weights += g->part.weight;
		cello_before(&k->groups, &g->link);
		cello_forget(&g->part, cello_group_share(c, k, g), k->rounds - g->rounds);
	}
	k->part.present++;
	cello_before(&g->pending, &r->link);
	g->waiting++;
	k->waiting++;
	c->waiting++;
}

CORE_FN void cello_leave(struct cello *c, struct cello_request *r)
{
	struct cello_group *g = r->group;
	struct cello_class *k = &c->class[g->class_id];

	k->part.present--;
	if (--g->part.present)
		return;
	k->weights -= g->part.weight;
	cello_unlink(&g->link);
	g->rounds = k->rounds;
}

CORE_FN void cello_unschedule(struct cello *c, struct cello_request *r)
{
	struct cello_link *next = r->link.next;

	cello_unlink(&r->link);
	r->scheduled = false;
	c->queued--;
	c->older -= r->round != c->rounds;
	c->class[r->group->class_id].scheduled--;
	cello_reached(c, next);
}

/* The request that goes to the disk now, or none. */
CORE_FN struct cello_request *cello_next(struct cello *c, u64 now_ns)
{
	struct cello_request *r;

	if (c->in_flight >= c->flight_max ||
	    (c->in_flight >= CELLO_FLIGHT_LEAST && c->flight_ns >= c->flight_max_ns))
		return 0;
	cello_fill(c, now_ns);
	if (cello_empty(&c->scheduled))
		return 0;
	r = cello_at(c->scheduled.next);
	r->from = c->head;
	cello_reached(c, &r->link);
	if (r->sector != c->head)
		c->up = r->sector > c->head;
	c->head = cello_end(r);
	cello_unschedule(c, r);
	if (!c->in_flight++)
		c->begun_ns = now_ns;
	c->flight_ns += r->estimate_ns;
	c->flight_spread += r->spread;
	return r;
}

CORE_FN void cello_landed(struct cello *c, const struct cello_request *r)
{
	c->in_flight--;
	c->flight_ns -= r->estimate_ns;
	c->flight_spread -= r->spread;
}

/* The disk has served it. */
CORE_FN void cello_done(struct cello *c, struct cello_request *r, u64 now_ns)
{
	struct cello_class *k = &c->class[r->group->class_id];
	struct disktime_of of = {r->from, r->sector, r->sectors, r->way};
	/* The disk's time since then was for this one, whichever it began with. */
	u64 took_ns = now_ns > c->begun_ns ? now_ns - c->begun_ns : 0;

	disktime_learn(&c->time, &of, r->estimate_ns, took_ns);
	cello_charge(r, k, took_ns);
	k->part.served_ns += took_ns;
	k->part.served++;
	r->group->part.served_ns += took_ns;
	r->group->part.served++;
	if (r->group->class_id == CELLO_REALTIME && now_ns > r->deadline_ns) {
		k->late++;
		k->broken += r->promised && now_ns - r->deadline_ns > r->error_ns;
	}
	cello_landed(c, r);
	c->begun_ns = now_ns;
	cello_leave(c, r);
}

/* It leaves without being served: it was merged into another, or the device goes. */
CORE_FN void cello_remove(struct cello *c, struct cello_request *r)
{
	struct cello_class *k = &c->class[r->group->class_id];

	if (r->scheduled) {
		cello_unschedule(c, r);
		c->changed = true;
	} else {
		cello_unlink(&r->link);
		r->group->waiting--;
		k->waiting--;
		c->waiting--;
	}
	cello_charge(r, k, 0);
	cello_leave(c, r);
}

/* The disk did not take it: it is no longer in flight, and may be added again. */
CORE_FN void cello_return(struct cello *c, struct cello_request *r)
{
	cello_charge(r, &c->class[r->group->class_id], 0);
	cello_landed(c, r);
	/* The arm did not move, unless others went there since. */
	if (c->head == cello_end(r)) {
		c->head = r->from;
		c->changed = true;
		cello_reached(c, c->scheduled.next);
	}
	cello_leave(c, r);
}

/* The disk has served a request that bypassed Cello: its time is nobody's. */
CORE_FN void cello_bypassed(struct cello *c, u64 now_ns)
{
	c->begun_ns = now_ns;
}

/* A bio, or another request, was merged into it: this is where it lies now. */
CORE_FN void cello_grown(struct cello *c, struct cello_request *r, u64 sector, u32 sectors)
{
	u64 before_ns = r->estimate_ns;

	r->sector = sector;
	r->sectors = sectors;
	if (!r->scheduled)
		return;
	c->changed = true;
	cello_reached(c, &r->link);
	if (r->estimate_ns > before_ns)
		cello_charge(r, &c->class[r->group->class_id],
			     r->charged_ns + r->estimate_ns - before_ns);
	cello_reached(c, r->link.next);
}

/*
 * `gone`, of the same class, was merged into the request, which waits as it did: the earlier
 * deadline of the two holds for both.
 */
CORE_FN void cello_merged(struct cello *c, struct cello_request *r, struct cello_request *gone,
			  u64 now_ns)
{
	cello_remove(c, gone);
	if (r->group->class_id != CELLO_REALTIME || r->deadline_ns <= gone->deadline_ns)
		return;
	/* It is placed anew. */
	cello_remove(c, r);
	r->deadline_ns = gone->deadline_ns;
	cello_add(c, r, now_ns);
}

#endif
