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
 * Each takes O(log n) of what is pending and O(n) of what is scheduled, which is bounded
 * (CELLO_SCHEDULED_MAX); cello_next takes that many times, so there are steps of it
 * (cello_next_step).
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
 * until the first is over. So a request may be overtaken by a round of others, and by no more (but
 * for those that nobody waits for, cello_share.h).
 *
 *   P = 100 ms, interactive 1, throughput-intensive 4, soft real-time 0; requests of 10 ms:
 *   2 of the first class and 8 of the second to a round. Alone, either has the disk.
 *
 * What a class has is divided among its cgroups by H-SFQ (cello_group.h).
 *
 * Class-specific, the place in the scheduled queue:
 *
 *   soft real-time         with an arm in SCAN order as the last class, as long as all of them
 *                          are in time. Else by deadline; of equal ones in order of sectors.
 *                          Before requests of other classes as far as it must to be in time,
 *                          and no further
 *   interactive            by slack stealing: as early as no real-time request is late for it,
 *                          among the interactive ones where the queue grows least. A class
 *                          that waits for its next share anyway is placed as the next is
 *   throughput-intensive   behind those, in SCAN order, turning at the last request (LOOK), as
 *                          soon as no real-time request is late for it
 *
 * What continues where another request ends, or begins a little behind one of its class, goes right
 * behind that one.
 *
 * A disk without an arm serves many requests side by side, in whatever order (flight.h). Then only
 * real-time ones are scheduled ahead; of each other class one at a time, so that who comes next is
 * chosen as late as can be.
 *
 * Non-goals: merging and flushes are the block layer's.
 * The caller serialises calls, owns the memory of requests and groups, and tells the time.
 */
#ifndef QLINUX_CORE_CELLO_H
#define QLINUX_CORE_CELLO_H

#include "cello_place.h"
#include "cello_share.h"

/* So much in all. What took longer than any request was no fault of who asked. */
CORE_FN void cello_charge(struct cello *c, struct cello_request *r, u64 ns)
{
	struct cello_class *k = r->group->class;
	s64 more;

	if (ns > DISKTIME_MAX_NS)
		ns = DISKTIME_MAX_NS;
	more = (s64)ns - (s64)r->charged_ns;
	r->charged_ns = ns;
	if (!c->sole)
		cello_serve(r->group, more);
	cello_use(k, more);
}

/* The request goes from its group's pending queue to its place in the scheduled queue. */
CORE_FN void cello_schedule(struct cello *c, struct cello_request *r, u64 now_ns)
{
	struct cello_group *g = r->group;
	struct cello_class *k = g->class;
	struct cello_link *at;

	/* To be early gains nothing for a class that waits for its next share anyway. */
	r->early = g->class_id == CELLO_INTERACTIVE && !k->greedy;
	at = cello_place(c, r, now_ns);
	cello_unlink(&r->link);
	cello_wait(c, g, -1);
	if (!g->own.waiting)
		cello_runs_dry(c, g);
	cello_taken(c, g);
	if (c->flight.arm)
		cello_charge(c, r, cello_growth(c, at, r));
	cello_before(at, &r->link);
	cello_reached(c, &r->link);
	if (!c->flight.arm)
		cello_charge(c, r, r->estimate_ns);
	r->scheduled = true;
	cello_changed(c, &r->link);
	r->promised = g->class_id == CELLO_REALTIME;
	k->scheduled++;
	r->round = c->rounds;
	c->queued++;
	cello_reached(c, at);
}

CORE_FN bool cello_may_move(const struct cello *c)
{
	return c->waiting && c->queued < CELLO_SCHEDULED_MAX && !cello_scheduled_all(c);
}

/* Moves one that may be moved. Returns whether there may be more. */
CORE_FN bool cello_fill(struct cello *c, u64 now_ns)
{
	struct cello_group *stays = cello_stayed(c), *g = stays;

	if (!g && cello_may_move(c))
		g = cello_choose(c);
	if (g)
		cello_schedule(c, cello_at(g->pending.next), now_ns);
	return g && !stays && cello_may_move(c);
}

/* ---- what the block layer calls ---------------------------------------- */

CORE_FN void cello_init(struct cello *c, u64 sectors, bool turning)
{
	struct cello_class none = {};
	u32 i;

	c->weights = 0;
	for (i = 0; i < CELLO_CLASSES; i++) {
		c->class[i] = none;
		c->class[i].part.weight = i == CELLO_THROUGHPUT ? CELLO_WEIGHT_DEFAULT
					  : turning             ? CELLO_WEIGHT_AWAITED_ARM
								: CELLO_WEIGHT_AWAITED;
		c->weights += c->class[i].part.weight;
		c->class[i].missed = ~0ULL;
		cello_group_init(c, &c->class[i].root, 0, i, CELLO_WEIGHT_DEFAULT);
	}
	cello_ring(&c->scheduled);
	cello_ring(&c->awaited);
	c->queued = c->older = c->waiting = 0;
	c->await_ns = 0;
	c->scant_ns = 0;
	c->idle_ns = ~0ULL;
	c->dry = c->keeps = c->stays = c->serves = c->sole = 0;
	c->kept = c->soon = false;
	c->flight_max_ns = c->turn_ns = c->rest_ns = 0;
	c->unclassified = CELLO_THROUGHPUT;
	flight_init(&c->flight, turning);
	c->up = true;
	c->changed = c->fills = false;
	c->deadline_ns = CELLO_DEADLINE_DEFAULT_NS;
	c->round_ns = CELLO_ROUND_DEFAULT_NS;
	c->rounds = c->head = c->begun_ns = c->flight_ns = c->flight_spread = 0;
	disktime_init(&c->time, sectors, turning);
	__builtin_memset(c->said, 0, sizeof(c->said));
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

/* Requests at the disk at a time; 0: as many as are learned to be needed. Returns 0 or
 * -CORE_ERANGE. */
CORE_FN int cello_set_in_flight(struct cello *c, u32 requests)
{
	if (requests > FLIGHT_MAX)
		return -CORE_ERANGE;
	if (requests)
		flight_set(&c->flight, requests);
	else
		flight_learn(&c->flight);
	return 0;
}

/* What those may be estimated to take, in nanoseconds; two may always be there, and as many as it
 * serves side by side. 0: any time. Returns 0 or -CORE_ERANGE. */
CORE_FN int cello_set_in_flight_time(struct cello *c, u64 ns)
{
	if (ns && (ns < CELLO_FLIGHT_MIN_NS || ns > CELLO_FLIGHT_MAX_NS))
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

/* Of what has no class; CELLO_CLASSES: it does not come here. Returns 0 or -CORE_ERANGE. */
CORE_FN int cello_set_unclassified(struct cello *c, u32 class_id)
{
	if (class_id > CELLO_CLASSES)
		return -CORE_ERANGE;
	c->unclassified = class_id;
	return 0;
}

/* Whose class is CELLO_CLASSES has the one for those; all of a file system waits for its journal.
 */
CORE_FN u32 cello_class_of(const struct cello *c, u32 class_id, bool journal)
{
	if (class_id < CELLO_CLASSES || c->unclassified == CELLO_CLASSES)
		return class_id;
	return journal ? CELLO_INTERACTIVE : c->unclassified;
}

/* When a request that comes now is to be done; `own_ns` after it came, or 0: as usual. */
CORE_FN u64 cello_deadline(const struct cello *c, u64 own_ns, u64 now_ns)
{
	return now_ns + (own_ns ? own_ns : c->deadline_ns);
}

/* It will be no more; it has no requests. */
CORE_FN void cello_group_end(struct cello *c, struct cello_group *g, u64 now_ns)
{
	if (g->await_ns) {
		cello_await_ends(c, g, now_ns);
		cello_goes(c, g);
	}
	if (c->sole == g)
		cello_sole_goes(c);
	if (c->stays == g)
		c->stays = 0;
	if (c->serves == g)
		c->serves = 0;
}

/* The class was there lately. */
CORE_FN bool cello_lately(const struct cello_class *k, u64 now_ns)
{
	return now_ns < k->came_ns + CELLO_LATELY_NS;
}

/* A real-time request comes: what was shorter is forgotten in the end. What cannot be in time even
 * alone does not count. */
CORE_FN void cello_hurries(struct cello *c, const struct cello_request *r, u64 now_ns)
{
	struct cello_class *k = &c->class[CELLO_REALTIME];
	u64 ns = r->deadline_ns > now_ns ? r->deadline_ns - now_ns : 0;

	if (ns < flight_alone(&c->flight, r->way, r->sectors)->ns)
		return;
	if (ns < k->urgent_ns || !cello_lately(k, now_ns))
		k->urgent_ns = ns;
	else
		k->urgent_ns += (ns - k->urgent_ns) / 64;
}

/* A request comes. Sector, sectors, way, sync, deadline and group are set. */
CORE_FN void cello_add(struct cello *c, struct cello_request *r, u64 now_ns)
{
	struct cello_group *g = r->group;
	struct cello_class *k = g->class;

	r->arrived_ns = now_ns;
	r->service_ns = r->estimate_ns = r->spread = r->charged_ns = r->slack_ns = r->error_ns = 0;
	r->scheduled = r->early = r->changed = r->promised = r->beside = false;
	cello_await_came(c, g, now_ns);
	if (g->class_id == CELLO_REALTIME)
		cello_hurries(c, r, now_ns);
	k->came_ns = now_ns;
	if (!g->present++)
		g->since_ns = now_ns;
	k->part.present++;
	k->sync += r->sync;
	k->sync_part = (k->sync_part * 63 + r->sync * CELLO_ALL) / 64;
	cello_before(&g->pending, &r->link);
	cello_wait(c, g, 1);
	if (c->dry == g)
		c->dry = 0;
	r->open = g->class_id == CELLO_INTERACTIVE && !c->turn_ns && cello_entitled(c, g);
}

CORE_INLINE void cello_leave(struct cello *c, struct cello_request *r)
{
	struct cello_group *g = r->group;
	struct cello_class *k = g->class;

	k->part.present--;
	k->sync -= r->sync;
	if (!--g->present && !g->await_ns)
		cello_goes(c, g);
}

CORE_FN void cello_unschedule(struct cello *c, struct cello_request *r)
{
	struct cello_link *next = r->link.next;

	cello_unlink(&r->link);
	r->scheduled = false;
	c->queued--;
	c->older -= r->round != c->rounds;
	r->group->class->scheduled--;
	if (r->changed)
		cello_changed(c, next);
	cello_reached(c, next);
}

/* May the disk have one more? */
CORE_FN bool cello_may_have(const struct cello *c)
{
	const struct flight *f = &c->flight;

	if (f->number >= f->most)
		return false;
	if (cello_shares(c))
		return false;
	if (f->number < CELLO_FLIGHT_LEAST || f->number < f->lanes)
		return true;
	if (c->flight_max_ns)
		return c->flight_ns < c->flight_max_ns;
	/* More than it serves side by side are of use where its lanes are chosen by place. */
	return !f->learns || c->flight_ns < CELLO_FLIGHT_LONG_NS ||
	       (f->lanes > 1 && f->number < f->lanes * CELLO_FLIGHT_DEEP);
}

/* May one of this class come before those of the other, as it was there lately, and has something
 * left of its share? */
CORE_FN bool cello_may_come(const struct cello *c, u32 class_id, u32 other, u64 now_ns)
{
	const struct cello_class *k = &c->class[class_id];

	return class_id != other && cello_lately(k, now_ns) && cello_ready(c, k);
}

CORE_FN bool cello_disputed(const struct cello *c, u32 class_id, u64 now_ns)
{
	return cello_may_come(c, CELLO_INTERACTIVE, class_id, now_ns) ||
	       cello_may_come(c, CELLO_THROUGHPUT, class_id, now_ns) ||
	       cello_may_come(c, CELLO_REALTIME, class_id, now_ns);
}

/* From where the arm is going is it there, and done, before long? */
CORE_FN bool cello_soon(const struct cello *c, const struct cello_request *r)
{
	return cello_end(r) - c->head <= CELLO_NEXT_SECTORS;
}

/*
 * An arm that serves a request has that which continues it, or begins a little behind it. Else that
 * place has passed before the disk, which is done, could be told, and comes again after a whole
 * turn. Is such a one there, and may nobody come before it? Behind those that are soon over it has
 * a few, lest it be done with them before the next is chosen; and one is worth what an interactive
 * request might wait for it. No real-time one waits.
 */
CORE_FN bool cello_continues(const struct cello *c, u64 now_ns)
{
	const struct cello_request *r = cello_at(c->scheduled.next);
	u32 class_id, most = 0;
	bool soon;

	if (cello_empty(&c->scheduled) || !cello_just_before(c->head, r->sector))
		return false;
	class_id = r->group->class_id;
	soon = cello_soon(c, r);
	if (!cello_disputed(c, class_id, now_ns))
		most = soon || c->soon ? CELLO_NEXT_MOST : 1;
	else if (soon && !cello_may_come(c, CELLO_REALTIME, class_id, now_ns))
		most = 1;
	return c->flight.number <= most;
}

/* May it be, or come there? Not where the arm may stay for the one that it serves: who was
 * scheduled then would be in the way. */
CORE_FN bool cello_may_continue(const struct cello *c)
{
	const struct cello_group *g = c->serves;

	if (!c->flight.arm || !c->flight.number || c->keeps || !g)
		return false;
	return g->present > 1 || !cello_returns(g, g->think_ns);
}

/* Is the scheduled queue to be filled, whether or not the disk may have one? */
CORE_FN bool cello_fills(const struct cello *c, u64 now_ns)
{
	return c->fills ||
	       (cello_empty(&c->scheduled) && !cello_disputed(c, CELLO_THROUGHPUT, now_ns));
}

/* Would a real-time request that came now wait in the disk for half of the time to its deadline, if
 * that is as short as the shortest were lately? */
CORE_FN bool cello_urgent(const struct cello *c, u64 now_ns)
{
	const struct cello_class *k = &c->class[CELLO_REALTIME];

	return k->urgent_ns && cello_lately(k, now_ns) && cello_behind_ns(c) * 2 > k->urgent_ns;
}

/* Is an interactive class there, or was lately, that waits long, does not use all of its share, and
 * has but few requests? */
CORE_FN bool cello_waits_long(const struct cello *c, u64 now_ns)
{
	const struct cello_class *k = &c->class[CELLO_INTERACTIVE];

	if (c->flight_ns < CELLO_FLIGHT_HELD_NS)
		return false;
	return k->waits_ns > CELLO_FLIGHT_HELD_NS / 2 && cello_lately(k, now_ns) && !k->greedy &&
	       k->part.present <= c->flight.lanes * 2;
}

/* It may, but what such a class waits for, or real-time requests would, is what others have at the
 * disk: where the number of those is learned, with no time said for them, they have less then; but
 * for interactive requests that come before others anyway. */
CORE_FN bool cello_held(const struct cello *c, u64 now_ns)
{
	const struct flight *f = &c->flight;

	if (!f->learns || f->arm || c->flight_max_ns || f->trial.phase == FLIGHT_CLIMBS)
		return false;
	if (f->number < f->lanes || f->number < CELLO_FLIGHT_LEAST)
		return false;
	return cello_waits_long(c, now_ns) || cello_urgent(c, now_ns);
}

/* Though requests may wait, none goes to the disk now: it waits for somebody, or it is the turn of
 * one that is served. */
CORE_FN bool cello_waits(struct cello *c)
{
	const struct cello_class *k = &c->class[CELLO_INTERACTIVE];

	if (cello_may_stay(c, c->keeps)) {
		c->kept = true;
		return true;
	}
	return cello_turns(c) && k->part.present && !k->waiting && !k->scheduled;
}

/* Without an arm: the disk has as many as it may, and none is chosen until one of them comes back.
 * To be asked without the lock, too. */
CORE_FN bool cello_full(const struct cello *c)
{
	const struct flight *f = &c->flight;

	return !f->arm && f->number >= f->most;
}

/* Requests wait, and the disk has enough until more of those that it has come back: to be sent for
 * one at a time costs a processor more than the disk gains. */
CORE_FN bool cello_enough(const struct cello *c)
{
	const struct flight *f = &c->flight;

	return f->learns && f->number > f->lanes && f->number > f->most / 2;
}

/* Where there is no arm, the next request of who is alone there goes past the scheduled queue; no
 * real-time one, which is promised to be in time when it is scheduled. Rounds end as its share is
 * used. */
CORE_FN struct cello_request *cello_alone(struct cello *c)
{
	struct cello_group *g = c->sole;
	struct cello_request *r;
	struct cello_class *k;
	u64 share_ns;

	if (!g || !g->own.waiting || c->queued || c->flight.arm || g->class_id == CELLO_REALTIME)
		return 0;
	k = g->class;
	share_ns = cello_share(c, k);
	if (k->part.weight && !cello_left(&k->part, share_ns))
		cello_round(c, cello_rounds(c, k));
	r = cello_at(g->pending.next);
	cello_unlink(&r->link);
	cello_wait(c, g, -1);
	cello_estimated_flat(c, r);
	cello_charge(c, r, r->estimate_ns);
	return r;
}

/* The head of the scheduled queue, which is filled before if the disk may have it, or none. */
CORE_FN struct cello_request *cello_scheduled_next(struct cello *c, bool may, bool held, u64 now_ns)
{
	struct cello_request *r;

	if (may || cello_fills(c, now_ns)) {
		c->fills = cello_fill(c, now_ns);
		if (c->fills)
			return 0;
		if (c->changed)
			cello_recheck(c, now_ns);
	}
	if (!may && !cello_continues(c, now_ns))
		return 0;
	if (cello_empty(&c->scheduled)) {
		c->flight.trial.shared |= c->waiting > 0;
		return 0;
	}
	r = cello_at(c->scheduled.next);
	if (held && !r->early && r->group->class_id != CELLO_REALTIME) {
		flight_withheld(&c->flight, now_ns);
		return 0;
	}
	cello_reached(c, &r->link);
	return r;
}

/* As cello_next, but one step of it: if it returns none and cello_more is true, another is to
 * follow, before which the caller may let others go on. */
CORE_FN struct cello_request *cello_next_step(struct cello *c, u64 now_ns)
{
	struct cello_request *r = 0;
	bool held, may;

	if (c->await_ns && c->await_ns <= now_ns)
		cello_await_over(c, now_ns);
	if (c->turn_ns && cello_turn_end_ns(c) <= now_ns)
		cello_turn_ends(c, now_ns);
	may = cello_may_have(c);
	if (!may && c->flight.number < c->flight.most && cello_dries(c))
		flight_shared(&c->flight);
	if (may ? cello_waits(c) : !cello_may_continue(c))
		goto none;
	held = cello_held(c, now_ns);
	if (may && !held)
		r = cello_alone(c);
	if (!r)
		r = cello_scheduled_next(c, may, held, now_ns);
	if (!r)
		return 0;
	c->kept = false;
	r->from = c->head;
	r->ahead = !may && r->sector != c->head;
	c->soon = c->flight.arm && cello_soon(c, r);
	if (!cello_just_before(c->head, r->sector))
		c->up = r->sector > c->head;
	c->head = cello_end(r);
	if (r->scheduled)
		cello_unschedule(c, r);
	if (!c->flight.number)
		c->begun_ns = now_ns;
	if (c->idle_ns == ~0ULL)
		c->idle_ns = now_ns;
	cello_turn_of(c, r, now_ns);
	c->serves = r->group;
	flight_give(&c->flight, &r->flight, now_ns);
	c->flight_ns += r->estimate_ns;
	c->flight_spread += r->spread;
	return r;
none:
	c->fills = false;
	return 0;
}

CORE_FN bool cello_more(const struct cello *c)
{
	return c->fills;
}

/* The request that goes to the disk now, or none. */
CORE_FN struct cello_request *cello_next(struct cello *c, u64 now_ns)
{
	struct cello_request *r;

	do
		r = cello_next_step(c, now_ns);
	while (!r && cello_more(c));
	return r;
}

/* If cello_next had none though some wait: when to ask again at the latest, or 0. */
CORE_FN u64 cello_wake_ns(const struct cello *c)
{
	u64 turn_ns = c->turn_ns ? cello_turn_end_ns(c) : 0;

	if (!c->waiting && !c->queued)
		return 0;
	return turn_ns && (!c->await_ns || turn_ns < c->await_ns) ? turn_ns : c->await_ns;
}

/* Is it to be learned from? Without an arm requests are much alike: where one group alone is there,
 * and nothing was promised, one of four is enough, once there were some; not each fourth, as reads
 * and writes may come by turns. */
CORE_FN bool cello_tells(const struct cello *c, const struct cello_request *r)
{
	const u32 golden = 0x9e3779b9; /* 2^32 by the golden ratio: multiples are spread evenly */

	/* Where a promise depends on it, no request is given in advance. */
	if (r->ahead || r->beside)
		return false;
	return c->flight.arm || !c->sole || r->group->class_id == CELLO_REALTIME ||
	       c->time.seen < CELLO_TOLD || (u32)r->group->served * golden < 1U << 30;
}

CORE_FN void cello_landed(struct cello *c, const struct cello_request *r)
{
	c->flight_ns -= r->estimate_ns;
	c->flight_spread -= r->spread;
}

CORE_FN void cello_learn(struct cello *c, const struct cello_request *r)
{
	struct disktime_of of = {r->from, r->sector, r->sectors, r->way};

	disktime_learn(&c->time, &of, r->service_ns, c->flight.clock_ns - r->flight.begun_ns);
}

/* The disk has served it. */
CORE_FN void cello_done(struct cello *c, struct cello_request *r, u64 now_ns)
{
	struct cello_class *k = r->group->class;
	u64 took_ns = flight_done(&c->flight, &r->flight, now_ns);

	/* How much of that was the flush is not known. */
	if (r->beside && took_ns > r->estimate_ns)
		took_ns = r->estimate_ns;
	if (!c->turn_ns && !r->beside)
		flight_served(&c->flight, &r->flight, r->way, r->sectors, r->service_ns,
			      c->waiting || c->queued);
	cello_waited(c, r, now_ns);
	if (cello_tells(c, r))
		cello_learn(c, r);
	cello_charge(c, r, took_ns);
	k->part.served_ns += took_ns;
	k->part.served++;
	r->group->served_ns += took_ns;
	r->group->served++;
	if (r->group->class_id == CELLO_REALTIME && now_ns > r->deadline_ns) {
		k->late++;
		k->broken += r->promised;
	}
	cello_landed(c, r);
	c->begun_ns = now_ns;
	if (r->group->present == 1)
		cello_await(c, r->group, now_ns);
	cello_leave(c, r);
	if (c->flight.number < c->flight.lanes && !c->waiting && !c->queued && !c->await_ns)
		c->idle_ns = ~0ULL;
}

/* It leaves without being served: it was merged into another, or the device goes. */
CORE_FN void cello_remove(struct cello *c, struct cello_request *r)
{
	if (r->scheduled) {
		r->changed = true;
		cello_unschedule(c, r);
	} else {
		cello_unlink(&r->link);
		cello_wait(c, r->group, -1);
	}
	cello_charge(c, r, 0);
	cello_leave(c, r);
}

/* The disk did not take it: it is no longer in flight, and may be added again. */
CORE_FN void cello_return(struct cello *c, struct cello_request *r)
{
	cello_charge(c, r, 0);
	flight_leave(&c->flight, &r->flight);
	cello_landed(c, r);
	/* The arm did not move, unless others went there since. */
	if (c->head == cello_end(r)) {
		c->head = r->from;
		cello_changed(c, c->scheduled.next);
		cello_reached(c, c->scheduled.next);
	}
	cello_leave(c, r);
}

/* The disk has served a request that bypassed Cello: its time is nobody's. */
CORE_FN void cello_bypassed(struct cello *c, u64 now_ns)
{
	c->begun_ns = now_ns;
	flight_other(&c->flight, now_ns);
}

/* A bio, or another request, was merged into it: this is where it lies now. */
CORE_FN void cello_grown(struct cello *c, struct cello_request *r, u64 sector, u32 sectors)
{
	u64 before_ns = r->estimate_ns;

	r->sector = sector;
	r->sectors = sectors;
	if (!r->scheduled)
		return;
	cello_changed(c, &r->link);
	r->service_ns = 0; /* it is not known any more */
	cello_reached(c, &r->link);
	if (r->estimate_ns > before_ns)
		cello_charge(c, r, r->charged_ns + r->estimate_ns - before_ns);
	cello_reached(c, r->link.next);
}

/* The disk, which has one lane, flushed its cache while it had the request: what that takes is
 * nobody's. */
CORE_FN void cello_flushed(struct cello_request *r)
{
	r->beside = true;
}

/* Somebody waits for the request now, as for what was merged into it. */
CORE_FN void cello_waited_for(struct cello *c, struct cello_request *r)
{
	r->group->class->sync += !r->sync;
	r->sync = true;
}

/*
 * `gone` was merged into the request, which waits as it did. Of two real-time ones the earlier
 * deadline holds for both.
 */
CORE_FN void cello_merged(struct cello *c, struct cello_request *r, struct cello_request *gone,
			  u64 now_ns)
{
	u64 urgent_ns;

	if (gone->sync)
		cello_waited_for(c, r);
	cello_remove(c, gone);
	if (r->group->class_id != CELLO_REALTIME || gone->group->class_id != CELLO_REALTIME ||
	    r->deadline_ns <= gone->deadline_ns)
		return;
	/* It is placed anew; nobody comes, in more of a hurry than before. */
	urgent_ns = c->class[CELLO_REALTIME].urgent_ns;
	cello_remove(c, r);
	r->deadline_ns = gone->deadline_ns;
	cello_add(c, r, now_ns);
	c->class[CELLO_REALTIME].urgent_ns = urgent_ns;
}

#endif
