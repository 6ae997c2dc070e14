/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * readjust.h - what weights entitle to where one child cannot use it all
 *
 * On P processors a class with k runnable threads uses at most min(k, P) of
 * them, whatever its weight. Its parallelism θ says so; what it cannot use goes
 * to its siblings by their weights, and again where one of those is full. Of a
 * node that is entitled to C, child i gets
 *
 *   a_i = min(θ_i, λ w_i)   with λ such that   Σ a_i = min(C, Σ θ_i)
 *
 * In a flat tree of single threads this is Surplus Fair Scheduling's
 * readjustment of infeasible weights (Chandra et al., OSDI 2000). In a deeper
 * one a_i is the C of child i, and θ of a node is min(P, Σ θ of its children).
 *
 *   4 processors, weights 1 1 2 1, threads 3 1 1 3:
 *   λ = 4/5     the third is entitled to 8/5, can use 1, and is full
 *   λ = 3/3     of the 3 that are left the others get 1 each
 *
 * Amounts count some small part of a processor, 1/READJUST_CPU of one say, or
 * processor time, up to READJUST_MAX; weights are at least 1 and add up to less
 * than 2^28, as those of a full tree do. The a_i differ from the real numbers by
 * less than 1, and their sum does not.
 */
#ifndef QLINUX_CORE_READJUST_H
#define QLINUX_CORE_READJUST_H

#include "../port.h"

#define READJUST_CPU (1ULL << 20)
#define READJUST_MAX (1ULL << 34)

struct readjust {
	u64 theta; /* in: the most it can use */
	u64 share; /* out: a_i */
	u32 weight;
	u32 full; /* out: 1 where a_i = θ_i */
};

typedef struct readjust CORE_MEM readjust_t;

/* Divides `capacity` among n children. Returns how much of it they can use. */
CORE_FN u64 readjust(readjust_t *child, u32 n, u64 capacity)
{
	u64 left = capacity, weights = 0, before = 0, upto = 0;
	bool again = true;
	u32 i;

	for (i = CORE_ZERO; i < n && CORE_MORE; i++) {
		CORE_AT(child, i)->full = 0;
		weights += CORE_AT(child, i)->weight;
	}
	/* Whoever is full at this λ is full at any greater one, and λ = left / weights
	 * grows with each that is found. At least one is found a round; with θ of a
	 * processor or more that is at most one round a processor. */
	while (again && CORE_MORE) {
		again = false;
		for (i = CORE_ZERO; i < n && CORE_MORE; i++) {
			if (CORE_AT(child, i)->full ||
			    CORE_AT(child, i)->theta * weights > left * CORE_AT(child, i)->weight)
				continue;
			CORE_AT(child, i)->full = 1;
			left -= CORE_AT(child, i)->theta;
			weights -= CORE_AT(child, i)->weight;
			again = true;
		}
	}
	for (i = CORE_ZERO; i < n && CORE_MORE; i++) {
		CORE_AT(child, i)->share = CORE_AT(child, i)->theta;
		if (CORE_AT(child, i)->full)
			continue;
		upto += CORE_AT(child, i)->weight;
		CORE_AT(child, i)->share = left * upto / weights - before;
		before += CORE_AT(child, i)->share;
	}
	return capacity - left + before;
}

#endif
