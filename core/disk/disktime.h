/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * disktime.h - how long a disk will take for a request, learned from what it took
 *
 *   time = position(way, distance) + transfer(way, zone) * sectors
 *
 * A way is reading, writing or neither. The distance is from the end of the request before to the
 * begin of this one, forwards or backwards, by powers of two; 0 is what follows at once.
 * Zones are eighths of the disk: outer ones pass more sectors in a turn. A device without
 * seeks comes out flat by itself.
 *
 * Each measured time moves both terms towards it, in proportion to what they had to do
 * with it: with n times seen the position moves by 1/n of its part of the error, down to a
 * floor, so that the first times count at once and later ones as a mean. The transfer is the
 * slope of a line: a time of s times the length weighs s squared as much.
 * A distance that was not seen yet costs what the nearest that was does. Where there is no arm all
 * are one.
 *
 * The error is part of the answer: disktime_spread() is how far times of such requests were
 * from what was said, on average, and the less was seen of them the more of what is said. The
 * time of several requests in a row is said with disktime_error(): what a turn of the disk
 * does to one of them is chance, and chances add up as the root of their squares.
 */
#ifndef QLINUX_CORE_DISKTIME_H
#define QLINUX_CORE_DISKTIME_H

#include "../port.h"

enum {
	DISKTIME_WAYS = 3,       /* reading, writing, neither (discards) */
	DISKTIME_DISTANCES = 48, /* powers of two of sectors, and contiguous */
	DISKTIME_ZONES = 8,
	/* The position moves by at least one part in so many of the error. */
	DISKTIME_POSITION_FLOOR = 64,
	/* Sectors (64 KB) at which the two terms have equally much to do with the time. */
	DISKTIME_EVEN = 128,
	/* Requests below that tell nothing of the transfer. */
	DISKTIME_SHORT = DISKTIME_EVEN / 4,
	/* What was seen of the transfer, at most; and what the first guess counts for. A request of
	   DISKTIME_EVEN sectors counts for 256. */
	DISKTIME_WEIGHT_MAX = 512 * 256,
	DISKTIME_WEIGHT_GUESS = 4 * 256,
	/* Mean distances that chance hardly ever goes beyond. */
	DISKTIME_CHANCES = 6,
};

/* No request takes longer, for all that is learned: a device that was asleep. */
#define DISKTIME_MAX_NS 4000000000ULL

/* What is said of a disk that nothing is known of. */
#define DISKTIME_TURNING_NS 8000000ULL
#define DISKTIME_FLAT_NS    100000ULL
/* For DISKTIME_EVEN sectors. */
#define DISKTIME_TURNING_EVEN_NS 650000ULL
#define DISKTIME_FLAT_EVEN_NS    130000ULL

struct disktime_position {
	u64 ns;
	u32 seen;
	u32 error_ns; /* mean distance of times from what was said */
};

struct disktime_transfer {
	u64 even_ns; /* for DISKTIME_EVEN sectors */
	u32 weight;  /* of what was seen; 0: nothing */
	u32 longest; /* in sectors */
};

struct disktime {
	struct disktime_position position[DISKTIME_WAYS][2]
					 [DISKTIME_DISTANCES]; /* forwards, backwards */
	struct disktime_transfer transfer[DISKTIME_WAYS][DISKTIME_ZONES];
	u32 known[DISKTIME_WAYS][2]; /* distances that were seen */
	u64 sectors;                 /* of the disk */
	bool turning;                /* it has an arm */
	u64 unknown_ns;              /* what is said at first */
	u64 unknown_even_ns;
	u64 error_ns; /* mean distance of times from what was said */
	u64 worst_ns; /* the greatest of late; it wears off */
	u64 seen;
};

struct disktime_of {
	u64 from;    /* sector where the request before ends */
	u64 sector;  /* where this one begins */
	u32 sectors; /* its length */
	u32 way;     /* 0 it reads, 1 it writes, 2 neither */
};

CORE_FN u32 disktime_log2(u64 x)
{
	return x ? 63 - __builtin_clzll(x) : 0;
}

CORE_FN u32 disktime_backwards(const struct disktime CORE_MEM *m, const struct disktime_of *r)
{
	return m->turning && r->sector < r->from;
}

/* Of the table of positions: 0 is contiguous, 1 a sector, 2 two or three, … */
CORE_FN u32 disktime_distance(const struct disktime CORE_MEM *m, const struct disktime_of *r)
{
	u64 d = r->sector < r->from ? r->from - r->sector : r->sector - r->from;
	u32 n = d && m->turning ? 1 + disktime_log2(d) : 0;

	return n < DISKTIME_DISTANCES ? n : DISKTIME_DISTANCES - 1;
}

CORE_FN u32 disktime_zone(const struct disktime CORE_MEM *m, u64 sector)
{
	u64 zone = m->sectors && m->turning ? CORE_DIV(sector, m->sectors / DISKTIME_ZONES + 1) : 0;

	return zone < DISKTIME_ZONES ? zone : DISKTIME_ZONES - 1;
}

CORE_FN void disktime_init(struct disktime CORE_MEM *m, u64 sectors, bool turning)
{
	u32 way;

	/* An empty one to copy would be too much for the stack of a kernel that checks itself. */
	__builtin_memset(m, 0, sizeof(*m));
	m->sectors = sectors;
	m->turning = turning;
	m->unknown_ns = turning ? DISKTIME_TURNING_NS : DISKTIME_FLAT_NS;
	m->unknown_even_ns = turning ? DISKTIME_TURNING_EVEN_NS : DISKTIME_FLAT_EVEN_NS;
	m->error_ns = m->worst_ns = m->unknown_ns / 2;
	/* All of such a disk is one zone: what is said of it at first is there to be found. */
	for (way = 0; way < DISKTIME_WAYS && !turning; way++) {
		m->transfer[way][0].even_ns = m->unknown_even_ns;
		m->transfer[way][0].weight = 1;
	}
}

/* The nearest distance that was seen, of the same way and direction. */
CORE_FN struct disktime_position CORE_MEM *disktime_nearest(struct disktime CORE_MEM *m, u32 way,
							    u32 backwards, u32 at)
{
	struct disktime_position CORE_MEM *p = m->position[way][backwards];
	u32 off;

	for (off = 0; m->known[way][backwards] && off < DISKTIME_DISTANCES; off++) {
		if (at + off < DISKTIME_DISTANCES && p[at + off].seen)
			return &p[at + off];
		/* What follows at once is no hint of what seeks take. */
		if (at > off && p[at - off].seen)
			return &p[at - off];
	}
	return 0;
}

/* Of one that was not seen yet. */
CORE_FN u64 disktime_position_ns(struct disktime CORE_MEM *m, const struct disktime_of *r)
{
	u32 at = disktime_distance(m, r), backwards = disktime_backwards(m, r);
	struct disktime_position CORE_MEM *p = disktime_nearest(m, r->way, backwards, at);

	if (!p)
		p = disktime_nearest(m, r->way, !backwards, at);
	if (!p)
		p = disktime_nearest(m, !r->way, backwards, at);
	return p ? p->ns : m->unknown_ns;
}

/* Of the nearest zone that was seen; or none. */
CORE_FN struct disktime_transfer CORE_MEM *disktime_rate(struct disktime CORE_MEM *m, u32 way,
							 u64 sector)
{
	u32 zone = disktime_zone(m, sector), off;
	struct disktime_transfer CORE_MEM *t = m->transfer[way];

	for (off = 0; off < (m->turning ? DISKTIME_ZONES : 1); off++) {
		if (zone + off < DISKTIME_ZONES && t[zone + off].weight)
			return &t[zone + off];
		if (zone >= off && t[zone - off].weight)
			return &t[zone - off];
	}
	return 0;
}

/* Likewise, of the transfer. */
CORE_FN u64 disktime_even_ns(struct disktime CORE_MEM *m, const struct disktime_of *r)
{
	struct disktime_transfer CORE_MEM *t = disktime_rate(m, r->way, r->sector);

	if (!t)
		t = disktime_rate(m, !r->way, r->sector);
	return t ? t->even_ns : m->unknown_even_ns;
}

/* Where it is learned what such a request takes, and what is known of it. */
struct disktime_terms {
	struct disktime_position CORE_MEM *position;
	struct disktime_transfer CORE_MEM *transfer;
	u64 position_ns, even_ns;
};

CORE_INLINE struct disktime_terms disktime_terms(struct disktime CORE_MEM *m,
						 const struct disktime_of *r)
{
	struct disktime_terms s;

	if (m->turning) {
		s.position =
			&m->position[r->way][disktime_backwards(m, r)][disktime_distance(m, r)];
		s.transfer = &m->transfer[r->way][disktime_zone(m, r->sector)];
	} else {
		s.position = m->position[r->way][0];
		s.transfer = m->transfer[r->way];
	}
	s.position_ns = s.position->seen ? s.position->ns : disktime_position_ns(m, r);
	s.even_ns = s.transfer->weight ? s.transfer->even_ns : disktime_even_ns(m, r);
	return s;
}

CORE_FN u64 disktime_sum(const struct disktime_terms *s, const struct disktime_of *r)
{
	u64 ns = s->position_ns + s->even_ns * r->sectors / DISKTIME_EVEN;

	return ns < DISKTIME_MAX_NS ? ns : DISKTIME_MAX_NS;
}

/* How long the request will take, in nanoseconds. */
CORE_FN u64 disktime_estimate(struct disktime CORE_MEM *m, const struct disktime_of *r)
{
	struct disktime_terms s = disktime_terms(m, r);

	return disktime_sum(&s, r);
}

/* By how much that is usually wrong, in microseconds: its square. */
CORE_FN u64 disktime_spread(const struct disktime_terms *s, const struct disktime_of *r)
{
	const struct disktime_position CORE_MEM *p = s->position;
	const struct disktime_transfer CORE_MEM *t = s->transfer;
	u64 transfer_ns = s->even_ns * r->sectors / DISKTIME_EVEN;
	u64 unsure_ns = CORE_DIV(s->position_ns, 1 + p->seen), us;

	/* Of a short one it is part of what was learned of the position. */
	if (r->sectors < DISKTIME_SHORT)
		transfer_ns = CORE_DIV(transfer_ns, 1 + p->seen);
	else if (r->sectors <= 2 * (u64)t->longest)
		transfer_ns = CORE_DIV(transfer_ns * DISKTIME_WEIGHT_GUESS,
				       DISKTIME_WEIGHT_GUESS + t->weight);
	us = CORE_DIV(p->error_ns + unsure_ns + transfer_ns, 1000);
	if (us > DISKTIME_MAX_NS / 1000)
		us = DISKTIME_MAX_NS / 1000;
	return us * us;
}

/* A term moves towards the measured time; it has no sign. */
CORE_FN u64 disktime_moved(u64 ns, u64 error_ns, bool less)
{
	if (less)
		return ns > error_ns ? ns - error_ns : 0;
	return ns + error_ns;
}

/* A mean of so many, or of the latest 32. */
CORE_FN u64 disktime_mean(u64 mean, u64 now, u32 seen)
{
	u32 of = seen < 32 ? seen : 32;

	return now > mean ? mean + CORE_DIV(now - mean, of) : mean - CORE_DIV(mean - now, of);
}

/* The request took so long. `said_ns` is what was estimated when it went to the disk. */
CORE_FN void disktime_learn(struct disktime CORE_MEM *m, const struct disktime_of *r, u64 said_ns,
			    u64 took_ns)
{
	struct disktime_terms s = disktime_terms(m, r);
	struct disktime_position CORE_MEM *p = s.position;
	struct disktime_transfer CORE_MEM *t = s.transfer;
	/* Of 256 parts of the time, those that the length of the request has to do with. */
	u64 size = (u64)r->sectors * 256 / DISKTIME_EVEN, weight, off, now_ns;
	bool less;

	if (took_ns > DISKTIME_MAX_NS)
		took_ns = DISKTIME_MAX_NS;
	if (size > 256 * 64)
		size = 256 * 64;
	now_ns = disktime_sum(&s, r);
	less = took_ns < now_ns;
	off = less ? now_ns - took_ns : took_ns - now_ns;
	if (!p->seen) {
		p->ns = s.position_ns;
		m->known[r->way][disktime_backwards(m, r)]++;
	}
	if (p->seen < DISKTIME_POSITION_FLOOR)
		p->seen++;
	if (r->sectors < DISKTIME_SHORT) {
		p->ns = disktime_moved(p->ns, CORE_DIV(off, p->seen), less);
	} else {
		if (!t->weight)
			t->even_ns = s.even_ns;
		weight = t->weight + size * size / 256;
		t->even_ns = disktime_moved(
			t->even_ns, CORE_DIV(off * size, weight + DISKTIME_WEIGHT_GUESS), less);
		t->weight = weight < DISKTIME_WEIGHT_MAX ? weight : DISKTIME_WEIGHT_MAX;
		if (t->longest < r->sectors)
			t->longest = r->sectors;
		off = CORE_DIV(off * 256 * 256, 256 * 256 + size * size);
		p->ns = disktime_moved(p->ns, CORE_DIV(off, p->seen), less);
	}

	off = took_ns < said_ns ? said_ns - took_ns : took_ns - said_ns;
	p->error_ns = disktime_mean(p->error_ns, off, p->seen);
	m->seen++;
	m->error_ns = disktime_mean(m->error_ns, off, 32);
	m->worst_ns = off > m->worst_ns ? off : m->worst_ns - m->worst_ns / 256;
}

/* By Newton's method, from a root that is near; 0: from a power of two. */
CORE_FN u64 disktime_root(u64 x, u64 near)
{
	u64 root, next;

	if (!x)
		return 0;
	root = near ? near : 1ULL << (63 - __builtin_clzll(x)) / 2;
	next = (root + CORE_DIV(x, root)) / 2; /* not below, from wherever it begins */
	do {
		root = next;
		next = (root + CORE_DIV(x, root)) / 2;
	} while (next < root);
	return root;
}

/* What the time of several requests in a row may be off by, from the sum of their spreads, whose
 * root is kept for the next sum; 0 at first. */
CORE_FN u64 disktime_error(const struct disktime CORE_MEM *m, u64 spreads, u64 *root)
{
	*root = disktime_root(spreads, *root);
	return m->worst_ns + DISKTIME_CHANCES * 1000 * *root;
}

#endif
