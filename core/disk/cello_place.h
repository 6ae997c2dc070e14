/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cello_place.h - class-specific: a request's place in the scheduled queue (cello.h) */
#ifndef QLINUX_CORE_CELLO_PLACE_H
#define QLINUX_CORE_CELLO_PLACE_H

#include "cello_queue.h"

/*
 * How much later each request, with all behind it, may be served before one of the real-time
 * class, of those that are estimated to be in time, is late; or may be, since estimates are off.
 */
CORE_FN void cello_slacks(struct cello *c, u64 now_ns)
{
	u64 at_ns = cello_free(c, now_ns), least = ~0ULL, spreads = c->flight_spread, root = 0,
	    error_ns, end_ns;
	struct cello_link *l;

	if (!c->class[CELLO_REALTIME].scheduled)
		return;
	for (l = c->scheduled.next; l != &c->scheduled; l = l->next) {
		struct cello_request *r = cello_at(l);

		at_ns += r->estimate_ns;
		spreads += r->spread;
		r->slack_ns = ~0ULL;
		end_ns = cello_served_ns(r, at_ns);
		if (r->group->class_id != CELLO_REALTIME || r->deadline_ns < end_ns)
			continue;
		error_ns = disktime_error(&c->time, spreads, &root);
		r->slack_ns = r->deadline_ns - end_ns;
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

/* The arm is there just before the request's place comes. */
CORE_FN bool cello_just_before(u64 from, u64 sector)
{
	return from <= sector && sector - from <= CELLO_NEXT_SECTORS;
}

/* The group whose request is served before this place. */
CORE_FN const struct cello_group *cello_group_before(const struct cello *c,
						     const struct cello_link *at)
{
	return at->prev == &c->scheduled ? c->serves : cello_at(at->prev)->group;
}

/* Is this place behind one of the same class that ends just before the request, and is it the last
 * of those in a row? */
CORE_FN bool cello_follows(const struct cello *c, const struct cello_request *r,
			   struct cello_link *at)
{
	const struct cello_group *before = cello_group_before(c, at);
	u64 from = cello_from(c, at), next;

	if (!before || before->class_id != r->group->class_id ||
	    !cello_just_before(from, r->sector))
		return false;
	if (at == &c->scheduled)
		return true;
	next = cello_at(at)->sector;
	return next > r->sector || !cello_just_before(from, next);
}

/*
 * From this place on: right behind the request that it continues, or that is near, or none. So what
 * is near is served upwards, whichever way the arm moves otherwise: downwards each would take a
 * turn of the disk.
 */
CORE_FN struct cello_link *cello_neighbour(struct cello *c, const struct cello_request *r,
					   struct cello_link *l)
{
	for (;; l = l->next) {
		if ((cello_from(c, l) == r->sector || cello_follows(c, r, l)) &&
		    cello_fits(c, l, r))
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

		begun |= l == begin;
		/* It is on its way down, and serves what is near upwards. */
		if (turns && cello_just_before(from, to))
			continue;
		up ^= turns;
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

/* What is at this place, and behind it, is served later or earlier than was thought. */
CORE_FN void cello_changed(struct cello *c, struct cello_link *at)
{
	c->changed = true;
	if (at != &c->scheduled)
		cello_at(at)->changed = true;
}

/* The two change places in the scheduled queue; `a` is before `b`. */
CORE_FN void cello_swap(struct cello_link *a, struct cello_link *b)
{
	struct cello_link *place = a->prev;

	cello_unlink(a);
	cello_before(b, a);
	cello_unlink(b);
	cello_before(place->next, b);
}

/* The scheduled real-time requests in order of deadlines; returns whether they were not. */
CORE_FN bool cello_sorted(const struct cello *c, struct cello_request **sorted)
{
	struct cello_link *l;
	bool moved = false;
	u32 n = 0, low, high, middle, i;

	for (l = c->scheduled.next; l != &c->scheduled; l = l->next) {
		struct cello_request *r = cello_at(l);

		if (r->group->class_id != CELLO_REALTIME)
			continue;
		high = n;
		low = n && !cello_sooner(r, sorted[n - 1]) ? n : 0;
		while (low < high) {
			middle = (low + high) / 2;
			if (cello_sooner(r, sorted[middle]))
				high = middle;
			else
				low = middle + 1;
		}
		moved |= low < n;
		for (i = n++; i > low; i--)
			sorted[i] = sorted[i - 1];
		sorted[low] = r;
	}
	return moved;
}

/* Real-time requests take each other's places until they are in order of deadlines. */
CORE_FN void cello_by_deadline(struct cello *c)
{
	struct cello_request *sorted[CELLO_SCHEDULED_CLASS], **next = sorted;
	struct cello_link *l;

	if (!cello_sorted(c, sorted))
		return;
	for (l = c->scheduled.next; l != &c->scheduled; l = l->next) {
		if (cello_at(l)->group->class_id != CELLO_REALTIME)
			continue;
		if (l != &(*next)->link) {
			cello_swap(l, &(*next)->link);
			l = &(*next)->link;
		}
		next++;
	}
	for (l = c->scheduled.next; l != &c->scheduled; l = l->next)
		cello_reached(c, l);
	cello_changed(c, c->scheduled.next);
}

/* Is it in time there, for all that estimates are off by? */
CORE_FN bool cello_in_time(struct cello *c, const struct cello_link *at,
			   const struct cello_request *r, u64 now_ns)
{
	u64 at_ns = cello_free(c, now_ns), spreads = c->flight_spread, root = 0;
	struct cello_link *l;

	for (l = c->scheduled.next; l != at; l = l->next) {
		at_ns += cello_at(l)->estimate_ns;
		spreads += cello_at(l)->spread;
	}
	at_ns += cello_service(c, cello_from(c, at), r);
	return at_ns + disktime_error(&c->time, spreads, &root) <= r->deadline_ns;
}

/* By deadline; before those of other classes only as far as it must to be in time, for all that
 * estimates are off by. */
CORE_FN struct cello_link *cello_place_realtime(struct cello *c, struct cello_request *r,
						u64 now_ns)
{
	u64 at_ns = cello_free(c, now_ns), spreads = c->flight_spread, root = 0, end_ns;
	struct cello_link *l, *place, *tail;

	cello_by_deadline(c);
	l = place = c->scheduled.next;
	tail = cello_tail(c);
	for (; l != tail; l = l->next) {
		struct cello_request *next = cello_at(l);
		bool realtime = next->group->class_id == CELLO_REALTIME;

		if (realtime && cello_sooner(r, next))
			break;
		at_ns += next->estimate_ns;
		spreads += next->spread;
		if (!realtime) {
			end_ns = at_ns + cello_service(c, cello_end(next), r);
			if (end_ns + disktime_error(&c->time, spreads, &root) > r->deadline_ns)
				continue;
		}
		place = l->next;
	}
	return place;
}

/* Real-time requests are in SCAN order, too, as long as all are in time; where one would not be, in
 * order of deadlines. */
CORE_FN struct cello_link *cello_place(struct cello *c, struct cello_request *r, u64 now_ns)
{
	bool realtime = r->group->class_id == CELLO_REALTIME;
	struct cello_link *behind, *at;

	/* There is no order by sectors, and nobody whose slack it could take. */
	if (!c->flight.arm && realtime)
		return cello_place_realtime(c, r, now_ns);
	if (!c->flight.arm && !c->class[CELLO_REALTIME].scheduled)
		return r->early ? c->scheduled.next : &c->scheduled;
	cello_slacks(c, now_ns);
	behind = cello_behind(c);
	if (r->early)
		return cello_cheapest(c, r, behind);
	at = cello_neighbour(c, r, behind);
	if (!at)
		at = cello_scan(c, r, behind);
	if (realtime && !cello_in_time(c, at, r, now_ns))
		return cello_place_realtime(c, r, now_ns);
	return at;
}

/* The queue has changed: who may be late now, for all that estimates are off by, is promised no
 * more to be in time. */
CORE_FN void cello_recheck(struct cello *c, u64 now_ns)
{
	u64 at_ns = cello_free(c, now_ns), spreads = c->flight_spread, root = 0;
	struct cello_link *l;
	bool changed = false;

	c->changed = false;
	if (!c->class[CELLO_REALTIME].scheduled)
		return;
	for (l = c->scheduled.next; l != &c->scheduled; l = l->next) {
		struct cello_request *r = cello_at(l);

		spreads += r->spread;
		at_ns += r->estimate_ns;
		changed |= r->changed;
		r->changed = false;
		if (r->group->class_id != CELLO_REALTIME)
			continue;
		if (changed)
			r->error_ns = disktime_error(&c->time, spreads, &root);
		r->promised &= cello_served_ns(r, at_ns) + r->error_ns <= r->deadline_ns;
	}
}

#endif
