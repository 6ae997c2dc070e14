/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codel.h - control of standing queues
 *
 * RFC 8289. A queue in which every packet waited for longer than a target during a
 * whole interval stands: it adds delay and no throughput. Then packets are dropped
 * as they leave it, the n-th an interval / sqrt(n) after the one before, until one
 * waited for less. A queue that is left with no more than one packet of the longest
 * kind does not stand.
 *
 * 1 / sqrt(n) is kept in 32 bits after the point and follows n by Newton's method: four
 * steps, since from 1 to 1 / sqrt(2) a single one comes out at 0.5.
 */
#ifndef QLINUX_CORE_CODEL_H
#define QLINUX_CORE_CODEL_H

#include "../port.h"

#define CODEL_TARGET_NS   5000000ULL
#define CODEL_INTERVAL_NS 100000000ULL

struct codel {
	u64 above_ns; /* from then on the queue stands; 0: the last packet was in time */
	u64 drop_ns;  /* dropping: when the next packet is dropped */
	u32 count;    /* packets dropped since dropping began, at least 1 */
	u32 before;   /* count when dropping began */
	u32 inverse;  /* 2^32 / sqrt(count) */
	u32 dropping;
};

/* What queues have in common. */
struct codel_goal {
	u64 target_ns; /* 0: standing queues are left alone */
	u64 interval_ns;
};

typedef struct codel CORE_MEM codel_t;
typedef struct codel_goal CORE_MEM codel_goal_t;

/* x' = x (3 - n x^2) / 2, from x between 0 and sqrt(3 / n). */
CORE_COLD void codel_newton(codel_t *c)
{
	u64 x = c->inverse, rest;
	u32 i;

	for (i = 0; i < 4; i++) {
		rest = (3ULL << 32) - c->count * (x * x >> 32);
		/* rest < 2^34 and x < 2^32: two bits too many for a product of 64. */
		x = (rest >> 2) * x >> 31;
	}
	c->inverse = x;
}

CORE_FN u64 codel_later(codel_t *c, codel_goal_t *goal, u64 from_ns)
{
	return from_ns + (goal->interval_ns * c->inverse >> 32);
}

/* Is the packet one too many? It waited for so long and leaves `bytes_left` behind. */
CORE_FN bool codel_stands(codel_t *c, codel_goal_t *goal, u64 waited_ns, u64 bytes_left,
			  u32 longest, u64 now_ns)
{
	if (waited_ns < goal->target_ns || bytes_left <= longest) {
		c->above_ns = 0;
		return false;
	}
	if (!c->above_ns) {
		c->above_ns = now_ns + goal->interval_ns;
		return false;
	}
	return now_ns >= c->above_ns;
}

CORE_COLD void codel_begin(codel_t *c, codel_goal_t *goal, u64 now_ns)
{
	u32 since = c->count - c->before;

	c->dropping = 1;
	c->count = 1;
	/* It was dropping a moment ago: at about the rate that was needed then. */
	if (since > 1 && (s64)(now_ns - c->drop_ns) < (s64)(16 * goal->interval_ns)) {
		c->count = since;
		codel_newton(c);
	} else {
		c->inverse = ~0U;
	}
	c->before = c->count;
	c->drop_ns = codel_later(c, goal, now_ns);
}

/* The next packet leaves the queue: shall it be dropped? */
CORE_FN bool codel_drop(codel_t *c, codel_goal_t *goal, u64 waited_ns, u64 bytes_left, u32 longest,
			u64 now_ns)
{
	bool stands;

	if (!goal->target_ns) {
		/* Turned on again, it begins anew. */
		c->above_ns = c->dropping = 0;
		return false;
	}
	stands = codel_stands(c, goal, waited_ns, bytes_left, longest, now_ns);
	if (!c->dropping) {
		if (stands)
			codel_begin(c, goal, now_ns);
		return stands;
	}
	if (!stands) {
		c->dropping = 0;
		return false;
	}
	if (now_ns < c->drop_ns)
		return false;
	c->count++;
	codel_newton(c);
	c->drop_ns = codel_later(c, goal, c->drop_ns);
	return true;
}

#endif
