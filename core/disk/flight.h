/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * flight.h - requests at the disk: how many it serves side by side, and how many it is given
 *
 * A disk with an arm serves one request after the other, one without serves many side by side, in
 * lanes. Time between completions tells neither, nor how many there are; occupancy does. With
 *
 *   alone(r)  what a request of such a length took that came to a disk which had no other
 *   B         sum of alone(r) over all that was served in a time, by that time: the lanes that
 *             were busy (Little's law), and how much was served in units of what one lane serves
 *
 * two numbers are learned while there is always more to serve than the disk is given:
 *
 *   lanes     B, rounded
 *   most      requests it is given at a time, a power of two: the fewest with which B is within
 *             2 % of the greatest that was seen
 *
 * At first `most` is 1 and is doubled while B grows by a sixth at least. From then on twice, eight
 * times and half as many are tried by turns, against what is given now, so that a load that changes
 * meanwhile counts for both; more and more seldom as long as nothing comes of it, and soon again
 * when B has changed by a quarter (a write cache that is full, garbage collection). What serves
 * half as fast is seen after some dozen requests, so trying costs little. Where requests take twice
 * or half as long in a lane as alone, alone(r) is learned anew with some that are given one at a
 * time, or lanes would be taken for fewer, or more.
 *
 *   64 lanes of 5 ms: 1, 2, 4, … 64 at a time after 0.2 s; with 128 nothing more is served.
 *
 * Who asks for many at once, and for more only when all of them are there, never has so many
 * waiting for so long that B is known. After eight such bursts twice as many are given, as long as
 * some wait and requests are at the disk for less than half as long again as they would be alone.
 *
 * The disk's time is divided evenly among the requests that it serves at a moment: of a time dt
 * each of n has dt / n, so all of the time that the disk is busy is somebody's. What comes while
 * all lanes are busy waits in the disk, in order of arrival, and has its part from when a lane is
 * free: with one lane that is the time since the one before it was done.
 *
 * The caller owns the requests and serialises calls.
 */
#ifndef QLINUX_CORE_FLIGHT_H
#define QLINUX_CORE_FLIGHT_H

#include "cello_ring.h"
#include "disktime.h"

enum {
	FLIGHT_LEVELS = 11,
	FLIGHT_MAX = 1 << (FLIGHT_LEVELS - 1),
	/* Two: one that is served, one that is next, or the disk idles between. */
	FLIGHT_BASE = 1,
	FLIGHT_WAYS = 3,
	FLIGHT_LENGTHS = 16, /* powers of two of sectors */
	/* Of a length so many are seen alone before the mean moves slower. */
	FLIGHT_ALONE = 16,
	/* Requests after which a number that is given at a time is judged: at first, to tell twice
	 * as much from as much; after some more, to give it up as much worse; and to be sure. */
	FLIGHT_CLIMB = 8,
	FLIGHT_BURSTS = 8, /* or so many bursts that were shorter */
	FLIGHT_GLANCE = 64,
	FLIGHT_SURE = 1024,
	/* What B and `busy` count one lane as. */
	FLIGHT_UNIT = 1024,
	FLIGHT_BUSY = 256,
	/* Measured so often each, by turns, before two numbers are compared by all but the least: a
	 * pause of the disk falls upon one. */
	FLIGHT_TURNS = 4,
	/* Levels at a time, where one makes no difference that can be told. */
	FLIGHT_LEAP = 3,
};

#define FLIGHT_EPOCH_NS    500000000ULL   /* or as many requests as come in that */
#define FLIGHT_REST_MIN_NS 1000000000ULL  /* between two tries */
#define FLIGHT_REST_MAX_NS 32000000000ULL /* at most */

struct flight_request {
	struct cello_link link; /* among those served or those that wait in the disk */
	u64 given_ns;
	u64 begun_ns;       /* a lane was free for it */
	u64 begun_share_ns; /* of share_ns, then */
	bool serving;
	bool alone; /* the disk had no other when it came */
};

struct flight_alone {
	u64 ns;
	u32 seen;
};

enum flight_phase {
	FLIGHT_CLIMBS, /* twice as many, as long as more is served */
	FLIGHT_RESTS,
	FLIGHT_LOOKS, /* one at a time, to know what requests take alone */
	FLIGHT_TRIES, /* another number */
};

struct flight_trial {
	enum flight_phase phase;
	u32 level;   /* 2^level are given now */
	u32 base;    /* and otherwise */
	int step;    /* levels above the base that are tried */
	bool was;    /* the one before in the same round of tries made a difference */
	bool shared; /* it was given less for the sake of shares since begun_ns */
	bool spared; /* and that since the last one was served, */
	u32 less;    /* as before so many of those that were measured */
	bool more;   /* but for this number it would have been given more since then */
	u32 bursts;  /* that ended before this number was measured; */
	u64 here_ns; /* how long requests were at the disk then, and would have been alone */
	u64 here_alone_ns;
	u32 turn; /* epochs so far of the try */
	u32 skip; /* completions until it is measured: those of the number before */
	u32 served;
	u64 begun_ns;
	u64 work_ns;  /* what those took alone that were served since, */
	u64 lane_ns;  /* and in their lanes */
	u64 before;   /* B of the level below, or while it rested */
	u64 rate[2];  /* sums of B at the base and at the other, */
	u64 least[2]; /* and the least */
	u64 rest_ns, rested_ns;
	u64 changed_ns; /* when alone(r) was last found to be another */
	bool anew;      /* lanes are learned anew since then */
};

struct flight {
	struct cello_link served, stalled; /* oldest first */
	u32 number;                        /* at the disk */
	u32 serving;                       /* of those, in lanes */
	u32 lanes;
	u32 most;
	bool learns;  /* `most` is not set */
	bool arm;     /* it has one lane */
	u32 busy;     /* mean of `serving`, in parts of FLIGHT_BUSY */
	u64 clock_ns; /* share_ns is known up to then */
	u64 share_ns; /* what one had that was always served */
	u64 looked_ns;
	struct flight_alone alone[FLIGHT_WAYS][FLIGHT_LENGTHS];
	struct flight_trial trial;
};

/* ---- whose the disk's time is ------------------------------------------ */

CORE_FN struct flight_request *flight_first(struct cello_link *ring)
{
	return cello_empty(ring) ? 0 : (struct flight_request *)ring->next;
}

CORE_FN void flight_clock(struct flight *f, u64 now_ns)
{
	if (now_ns <= f->clock_ns)
		return;
	if (f->serving)
		f->share_ns += CORE_DIV(now_ns - f->clock_ns, f->serving);
	f->clock_ns = now_ns;
}

CORE_FN void flight_serve(struct flight *f, struct flight_request *r)
{
	cello_before(&f->served, &r->link);
	r->serving = true;
	r->begun_ns = f->clock_ns;
	r->begun_share_ns = f->share_ns;
	f->serving++;
}

CORE_FN void flight_next(struct flight *f)
{
	struct flight_request *r;

	while (f->serving < f->lanes && (r = flight_first(&f->stalled))) {
		cello_unlink(&r->link);
		flight_serve(f, r);
	}
}

/* The request is given to the disk. */
CORE_FN void flight_give(struct flight *f, struct flight_request *r, u64 now_ns)
{
	flight_clock(f, now_ns);
	r->given_ns = now_ns;
	r->alone = !f->number++;
	r->serving = false;
	if (f->serving < f->lanes)
		flight_serve(f, r);
	else
		cello_before(&f->stalled, &r->link);
}

/* It is there no longer. */
CORE_FN void flight_leave(struct flight *f, struct flight_request *r)
{
	cello_unlink(&r->link);
	f->number--;
	f->serving -= r->serving;
	flight_next(f);
}

/* What was served has overtaken the oldest one, which begins now. */
CORE_FN void flight_overtakes(struct flight *f, struct flight_request *r)
{
	struct flight_request *old = flight_first(&f->served);

	if (!old)
		return;
	r->begun_ns = old->begun_ns;
	r->begun_share_ns = old->begun_share_ns;
	old->begun_ns = f->clock_ns;
	old->begun_share_ns = f->share_ns;
}

/* What was served was none of these: with one lane it was not this one's time. */
CORE_FN void flight_other(struct flight *f, u64 now_ns)
{
	struct flight_request *old = flight_first(&f->served);

	flight_clock(f, now_ns);
	if (f->lanes > 1 || !old)
		return;
	old->begun_ns = f->clock_ns;
	old->begun_share_ns = f->share_ns;
}

/* ---- lanes, and how many are given ------------------------------------- */

CORE_FN struct flight_alone *flight_alone(struct flight *f, u32 way, u32 sectors)
{
	u32 at = disktime_log2(sectors);

	return &f->alone[way][at < FLIGHT_LENGTHS ? at : FLIGHT_LENGTHS - 1];
}

CORE_FN void flight_was_alone(struct flight *f, struct flight_alone *a, u64 took_ns)
{
	f->looked_ns = f->clock_ns;
	a->seen += a->seen < FLIGHT_ALONE;
	a->ns = took_ns > a->ns ? a->ns + CORE_DIV(took_ns - a->ns, a->seen)
				: a->ns - CORE_DIV(a->ns - took_ns, a->seen);
}

/* It is measured from now on, but for those that are there already. */
CORE_FN void flight_epoch(struct flight *f, u64 now_ns)
{
	struct flight_trial *t = &f->trial;

	t->shared = t->more = false;
	t->skip = f->number > f->most ? f->number : f->most;
	t->served = t->less = 0;
	t->work_ns = t->lane_ns = 0;
	t->begun_ns = now_ns;
}

/* No bursts were in vain so far. */
CORE_FN void flight_knows(struct flight_trial *t)
{
	t->bursts = 0;
	t->here_ns = t->here_alone_ns = 0;
}

/* 2^level are given. */
CORE_FN void flight_level(struct flight *f, u32 level, u64 now_ns)
{
	f->trial.level = level;
	f->most = 1U << level;
	flight_knows(&f->trial);
	flight_epoch(f, now_ns);
}

CORE_FN void flight_rest(struct flight *f, u64 now_ns)
{
	struct flight_trial *t = &f->trial;

	t->phase = FLIGHT_RESTS;
	t->before = 0;
	t->rested_ns = now_ns;
	flight_level(f, t->base, now_ns);
}

/* Another number is compared with the base, where there is one. */
CORE_FN void flight_try(struct flight *f, int step, u64 now_ns)
{
	struct flight_trial *t = &f->trial;

	if (step > 0 && t->base + step >= FLIGHT_LEVELS)
		step = -1;
	if (step < 0 && t->base <= FLIGHT_BASE) {
		flight_rest(f, now_ns);
		return;
	}
	t->phase = FLIGHT_TRIES;
	t->step = step;
	t->turn = 0;
	t->rate[0] = t->rate[1] = 0;
	t->least[0] = t->least[1] = ~0ULL;
	flight_level(f, t->base, now_ns);
}

/* Is the other number of the try the better one? */
CORE_FN bool flight_better(const struct flight_trial *t)
{
	u64 base = t->rate[0] - t->least[0], other = t->rate[1] - t->least[1];

	return t->step > 0 ? other * 100 > base * 102 : other * 100 >= base * 98;
}

/* Was it given less than that, for the sake of shares? */
CORE_FN bool flight_less(const struct flight_trial *t)
{
	return t->less > t->served / 4;
}

CORE_FN void flight_tried(struct flight *f, bool better, u64 now_ns)
{
	struct flight_trial *t = &f->trial;

	if (better) {
		/* It was better, and was not that much. */
		t->base += t->step > 0 && flight_less(t) ? 1 : t->step;
		t->was = true;
		flight_try(f, t->step, now_ns);
	} else if (t->step > 0) {
		/* Where each step brings little, many may bring much. */
		flight_try(f, t->step < FLIGHT_LEAP ? FLIGHT_LEAP : -1, now_ns);
	} else {
		t->rest_ns = t->was ? FLIGHT_REST_MIN_NS : t->rest_ns * 2;
		if (t->rest_ns > FLIGHT_REST_MAX_NS)
			t->rest_ns = FLIGHT_REST_MAX_NS;
		flight_rest(f, now_ns);
	}
}

/* After one short turn each: is it clear already? Else they are measured anew, longer. */
CORE_FN bool flight_clear(struct flight *f, u64 now_ns)
{
	struct flight_trial *t = &f->trial;
	bool better = t->step > 0 && t->rate[1] * 100 > t->rate[0] * 105;
	bool worse = t->step > 0 ? t->rate[1] <= t->rate[0] : t->rate[1] * 100 < t->rate[0] * 93;

	if (better || worse) {
		flight_tried(f, better, now_ns);
		return true;
	}
	t->rate[0] = t->rate[1] = 0;
	t->least[0] = t->least[1] = ~0ULL;
	return false;
}

/* So many requests tell something of the number that is given now. */
CORE_FN u32 flight_enough(const struct flight *f)
{
	const struct flight_trial *t = &f->trial;

	if (t->phase == FLIGHT_CLIMBS || t->phase == FLIGHT_LOOKS)
		return f->most * 2 > FLIGHT_CLIMB ? f->most * 2 : FLIGHT_CLIMB;
	if (t->phase == FLIGHT_TRIES && t->turn < 2)
		return FLIGHT_SURE / 4 + 2 * f->most;
	return FLIGHT_SURE + 2 * f->most;
}

/* One at a time are given. */
CORE_FN void flight_look(struct flight *f, u64 now_ns)
{
	f->trial.phase = FLIGHT_LOOKS;
	flight_level(f, 0, now_ns);
}

/* Is the base what is measured? */
CORE_FN bool flight_based(const struct flight_trial *t)
{
	return t->phase == FLIGHT_RESTS || (t->phase == FLIGHT_TRIES && !(t->turn & 1));
}

/* Do requests take another time than alone, by far? Not before lanes were learned since that was
 * looked at last, and not too soon. */
CORE_FN bool flight_differs(const struct flight_trial *t, u64 now_ns)
{
	return !t->anew && (t->lane_ns > t->work_ns * 2 || t->lane_ns * 2 < t->work_ns) &&
	       now_ns - t->changed_ns >= FLIGHT_REST_MIN_NS;
}

/* What they take alone is known by estimates only until it has been looked at. */
CORE_FN void flight_changed(struct flight *f, u64 now_ns)
{
	struct flight_trial *t = &f->trial;
	u32 way, at;

	for (way = 0; way < FLIGHT_WAYS; way++)
		for (at = 0; at < FLIGHT_LENGTHS; at++)
			f->alone[way][at].seen = 0;
	t->anew = true;
	t->rest_ns = FLIGHT_REST_MIN_NS;
	t->changed_ns = now_ns;
	flight_look(f, now_ns);
}

/* B of this epoch is known. */
CORE_FN void flight_judge(struct flight *f, u64 rate, u64 now_ns)
{
	struct flight_trial *t = &f->trial;
	bool other = t->turn & 1;

	/* Given less than the base for the sake of shares fewer would be no worse, and more no
	 * better. That may be over soon. */
	if (flight_less(t) && t->phase == FLIGHT_TRIES && !other) {
		t->rest_ns = FLIGHT_REST_MIN_NS;
		flight_rest(f, now_ns);
		return;
	}
	switch (t->phase) {
	case FLIGHT_CLIMBS:
		if (t->level && rate * 6 < t->before * 7) {
			t->base = rate * 100 > t->before * 102 ? t->level : t->level - 1;
			if (t->base < FLIGHT_BASE)
				t->base = FLIGHT_BASE;
			t->was = false;
			flight_try(f, 1, now_ns);
			return;
		}
		t->before = rate;
		t->base = t->level;
		if (t->level + 1 < FLIGHT_LEVELS)
			flight_level(f, t->level + 1, now_ns);
		else
			flight_rest(f, now_ns);
		return;
	case FLIGHT_LOOKS:
		t->was = false;
		flight_try(f, 1, now_ns);
		return;
	case FLIGHT_TRIES:
		t->rate[other] += rate;
		if (rate < t->least[other])
			t->least[other] = rate;
		t->turn++;
		if (t->turn == 2 && flight_clear(f, now_ns))
			return;
		if (t->turn < 2 + 2 * FLIGHT_TURNS) {
			flight_level(f, other ? t->base : t->base + t->step, now_ns);
			return;
		}
		flight_tried(f, flight_better(t), now_ns);
		return;
	case FLIGHT_RESTS:
		if (t->before && (rate * 4 < t->before * 3 || rate * 3 > t->before * 4))
			t->rest_ns = FLIGHT_REST_MIN_NS;
		t->before = rate;
		flight_knows(t);
		flight_epoch(f, now_ns);
		t->skip = 0;
		if (now_ns - t->rested_ns < t->rest_ns)
			return;
		t->was = false;
		if (now_ns - f->looked_ns < FLIGHT_REST_MAX_NS) {
			flight_try(f, 1, now_ns);
			return;
		}
		flight_look(f, now_ns);
	}
}

/* Had the disk as many as it may be given, or, where more are tried, more than usual? One at a time
 * is no sign of either. */
CORE_FN bool flight_full(const struct flight *f)
{
	u32 had = f->number + 1;

	if (f->trial.phase == FLIGHT_TRIES && had > 1U << f->trial.base)
		return true;
	return had >= f->most && f->most > 1;
}

CORE_FN void flight_lanes(struct flight *f, u64 lanes)
{
	/* Lanes that were left empty are there nevertheless. */
	if (f->trial.shared && lanes < f->lanes && !f->trial.anew)
		return;
	f->trial.anew = false;
	f->lanes = lanes < 1 ? 1 : lanes < f->most ? lanes : f->most;
	flight_next(f);
}

/* After so many bursts of which nothing could be measured: are twice as many to be given? Not where
 * something was known, and requests take half as long again as alone while the disk has as many as
 * now. */
CORE_FN bool flight_raises(struct flight_trial *t)
{
	bool raises;

	if (!t->more || ++t->bursts < FLIGHT_BURSTS || t->level + 1 >= FLIGHT_LEVELS)
		return false;
	raises = t->phase == FLIGHT_CLIMBS || t->here_ns * 2 < t->here_alone_ns * 3;
	flight_knows(t);
	return raises;
}

CORE_FN void flight_raise(struct flight *f, u64 now_ns)
{
	struct flight_trial *t = &f->trial;

	t->base = t->level + 1;
	t->rest_ns = FLIGHT_REST_MIN_NS;
	if (t->phase == FLIGHT_CLIMBS)
		flight_level(f, t->base, now_ns);
	else
		flight_rest(f, now_ns);
}

/* There is no more to serve than the disk has. Programs that ask for some at once and wait for all
 * of them (a read of more than a request may have) may never ask for so much that anything can be
 * measured: they are given more at a time, as long as some wait. What is known may be of others,
 * which needed far fewer (long requests). */
CORE_FN void flight_lull(struct flight *f, u64 now_ns)
{
	struct flight_trial *t = &f->trial;

	if (t->phase == FLIGHT_TRIES && t->level > t->base)
		flight_tried(f, false, now_ns);
	else if (t->phase != FLIGHT_CLIMBS && t->level < t->base)
		flight_rest(f, now_ns);
	else if (f->learns && flight_raises(t))
		flight_raise(f, now_ns);
	else
		flight_epoch(f, now_ns);
}

/* A request was served; `more`: others wait to be given. */
CORE_FN void flight_measure(struct flight *f, const struct flight_request *r, u64 alone_ns,
			    bool more, u64 now_ns)
{
	struct flight_trial *t = &f->trial;
	u64 took_ns, rate;
	bool glance;

	if (!more && !flight_full(f)) {
		flight_lull(f, now_ns);
		return;
	}
	t->here_ns += now_ns - r->given_ns;
	t->here_alone_ns += alone_ns;
	t->more |= more && f->number + 1 >= f->most;
	if (t->skip) {
		if (!--t->skip)
			t->begun_ns = now_ns;
		return;
	}
	t->served++;
	t->less += t->spared;
	t->spared = false;
	t->work_ns += alone_ns;
	t->lane_ns += now_ns - r->begun_ns;
	took_ns = now_ns - t->begun_ns;
	glance = t->phase == FLIGHT_TRIES && t->turn == 1 &&
		 (t->served == FLIGHT_GLANCE / 4 || t->served == FLIGHT_GLANCE);
	if (t->served < flight_enough(f) && !glance &&
	    (took_ns < FLIGHT_EPOCH_NS || t->served < FLIGHT_GLANCE))
		return;
	rate = CORE_DIV(t->work_ns * FLIGHT_UNIT, took_ns ? took_ns : 1);
	/* Much worse than the base. */
	if (glance) {
		if (rate * 4 < t->rate[0] * 3)
			flight_tried(f, false, now_ns);
		return;
	}
	if (f->learns && !f->arm && flight_based(t) && flight_differs(t, now_ns)) {
		flight_changed(f, now_ns);
		return;
	}
	/* Fewer than usual would leave lanes empty. */
	if (!f->arm && (t->phase == FLIGHT_CLIMBS || flight_based(t)))
		flight_lanes(f, (rate + FLIGHT_UNIT / 2) / FLIGHT_UNIT);
	if (f->learns)
		flight_judge(f, rate, now_ns);
	else
		flight_epoch(f, now_ns);
}

/* ---- calls ------------------------------------------------------------- */

/* Learned from the beginning. */
CORE_FN void flight_learn(struct flight *f)
{
	struct flight_trial none = {};

	f->learns = true;
	f->trial = none;
	f->trial.rest_ns = FLIGHT_REST_MIN_NS;
	f->most = 1;
}

CORE_FN void flight_set(struct flight *f, u32 most)
{
	struct flight_trial none = {};

	f->learns = false;
	f->trial = none;
	f->trial.phase = FLIGHT_RESTS;
	f->most = most;
	if (f->lanes > most)
		f->lanes = most;
}

/* `arm`: it serves one after the other, and by itself is given one at a time. */
CORE_FN void flight_init(struct flight *f, bool arm)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->arm = arm;
	cello_ring(&f->served);
	cello_ring(&f->stalled);
	f->lanes = 1;
	f->busy = FLIGHT_BUSY;
	flight_learn(f);
	if (arm)
		flight_set(f, 1);
}

/* As many as it needs, also while another number is tried. */
CORE_FN u32 flight_usual(const struct flight *f)
{
	return f->learns ? 1U << f->trial.base : f->most;
}

/* What a request's part of the disk's time will be, if it takes so long. */
CORE_FN u64 flight_part(const struct flight *f, u64 ns)
{
	return CORE_DIV(ns * FLIGHT_BUSY, f->busy);
}

/* The request was served, and has had this much of the disk's time since a lane was free for it. */
CORE_FN u64 flight_done(struct flight *f, struct flight_request *r, u64 now_ns)
{
	flight_clock(f, now_ns);
	f->busy = f->lanes == 1 ? FLIGHT_BUSY : (f->busy * 15 + f->serving * FLIGHT_BUSY + 8) / 16;
	if (!r->serving)
		flight_overtakes(f, r);
	flight_leave(f, r);
	return f->share_ns - r->begun_share_ns;
}

/* It was not given one that it might have had, so what it serves says nothing. */
CORE_FN void flight_withheld(struct flight *f, u64 now_ns)
{
	if (f->trial.phase == FLIGHT_TRIES)
		flight_rest(f, now_ns);
	else
		flight_epoch(f, now_ns);
}

/* Nor was it, for the sake of shares. */
CORE_FN void flight_shared(struct flight *f)
{
	f->trial.shared = f->trial.spared = true;
}

/* What was served in that time is not looked at. */
CORE_FN void flight_passes(struct flight *f, u64 from_ns, u64 to_ns)
{
	struct flight_trial *t = &f->trial;

	t->begun_ns = t->begun_ns < from_ns ? t->begun_ns + (to_ns - from_ns) : to_ns;
}

/* Learns of it, of which `guess_ns` is known otherwise. */
CORE_FN void flight_served(struct flight *f, const struct flight_request *r, u32 way, u32 sectors,
			   u64 guess_ns, bool more)
{
	struct flight_alone *a = flight_alone(f, way, sectors);

	if (r->alone)
		flight_was_alone(f, a, f->clock_ns - r->given_ns);
	flight_measure(f, r, a->seen ? a->ns : guess_ns, more, f->clock_ns);
}

#endif
