/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waits.h - how long threads waited, as a histogram
 *
 * Counters only ever grow, so any number of readers take the differences between
 * their own looks, and none disturbs another. The step of a level is between a
 * quarter and a thirty-second of the waits counted in it:
 *
 *   level 0  0 to 16 µs      in steps of 512 ns
 *   level 1  16 to 131 µs    in steps of 4 µs
 *   level 2  131 to 1049 µs  in steps of 33 µs
 *   level 3  1 to 8.4 ms     in steps of 262 µs   and so on to 34 s
 *
 * Waits are shorter than 2^41 ns; those of 34 s and more are in the last bucket.
 * Counting one takes about twelve instructions, and three more a level.
 */
#ifndef QLINUX_CORE_WAITS_H
#define QLINUX_CORE_WAITS_H

#include "../port.h"

enum {
	WAITS_UNIT_SHIFT = 9, /* the least step, 512 ns */
	WAITS_STEPS = 32,     /* of a level; the first WAITS_STEPS / 8 lie in the level before */
	WAITS_LEVEL_SHIFT = 3,
	WAITS_LEVELS = 8,
	WAITS_BUCKETS = WAITS_STEPS * WAITS_LEVELS,
};

struct waits {
	u32 count[WAITS_BUCKETS]; /* modulo 2^32 */
};

typedef struct waits CORE_MEM waits_t;

CORE_FN u32 waits_bucket(u64 wait_ns)
{
	u32 steps = wait_ns >> WAITS_UNIT_SHIFT, level;

#pragma GCC unroll 8
	for (level = 0; level < WAITS_LEVELS; level++) {
		if (steps < WAITS_STEPS)
			return level * WAITS_STEPS + steps;
		steps >>= WAITS_LEVEL_SHIFT;
	}
	return WAITS_BUCKETS - 1;
}

CORE_FN void waits_count(waits_t *w, u64 wait_ns)
{
	CORE_COUNT(w->count[waits_bucket(wait_ns)]);
}

#endif
