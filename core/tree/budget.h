/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * budget.h - so much service a period, and no more
 *
 * What cgroup v2 calls cpu.max and cpu.max.burst. Period k of a budget lasts
 * from k T to (k + 1) T; at its beginning the quota Q is added to what is left,
 * of which at most Q + B, the quota and the burst, is kept:
 *
 *   left := min(left + Q, Q + B)
 *
 * Service is known when it has ended, and several servers give it at once, so
 * more may be used than was left. That is a debt: `left` is negative and the next
 * quota pays it first. So the service until any time t is at most
 * Q (1 + periods begun until t) + B + what was in service when the rest ran out.
 * And what the refill could not keep pays for service of the period before that
 * ends in this one: it is that period's, only not known yet when the new one begins.
 *
 *   Q 20 ms, T 100 ms, B 0:   used 25 ms by t = 30, held
 *                             t = 100: left = min(-5 + 20, 20) = 15 ms
 *   used 10 ms, in service from t = 195:
 *                             t = 200: left = min(10 + 20, 20) = 20 ms, 10 not kept
 *                             t = 205: the 10 ms since 195 end, 5 were before 200:
 *                                      left = 20 - 5 = 15 ms
 */
#ifndef QLINUX_CORE_BUDGET_H
#define QLINUX_CORE_BUDGET_H

#include "sfq.h"

struct budget {
	u64 quota_ns;  /* Q, 0: there is no limit */
	u64 period_ns; /* T */
	u64 burst_ns;  /* B */
	s64 left_ns;   /* of this period, negative: debt */
	u64 over_ns;   /* of the last period's quota, that was not kept */
	u64 end_ns;    /* of this period */
	u64 since_ns;  /* nothing has been left since then */
	u64 times;     /* how often nothing was left */
	u64 held_ns;   /* and for how long, until it was last refilled */
};

typedef struct budget CORE_MEM budget_t;

/* Q + B is comparable, and no product overflows. */
#define BUDGET_MAX_NS (1ULL << 60)

CORE_FN void budget_init(budget_t *b, u64 quota_ns, u64 period_ns, u64 burst_ns, u64 now)
{
	b->quota_ns = quota_ns;
	b->period_ns = period_ns;
	b->burst_ns = burst_ns;
	b->left_ns = quota_ns;
	b->over_ns = 0;
	b->end_ns = (now / period_ns + 1) * period_ns;
}

/* Adds the quota of each period that has begun since. */
CORE_FN void budget_refill(budget_t *b, u64 now)
{
	u64 periods, missing = b->quota_ns + b->burst_ns - b->left_ns;
	u64 quotas = missing / b->quota_ns; /* that it has room for */

	if (sfq_before(now, b->end_ns))
		return;
	periods = (now - b->end_ns) / b->period_ns + 1;
	b->end_ns += periods * b->period_ns;
	if (periods <= quotas) {
		b->left_ns += periods * b->quota_ns;
		b->over_ns = 0;
		return;
	}
	b->left_ns += missing;
	b->over_ns = b->quota_ns;
	if (periods == quotas + 1)
		b->over_ns -= missing % b->quota_ns;
}

/* Service of this length has ended now. Returns whether nothing is left. */
CORE_FN bool budget_charge(budget_t *b, u64 length_ns, u64 now)
{
	u64 begin, before = length_ns < BUDGET_MAX_NS ? length_ns : BUDGET_MAX_NS;

	budget_refill(b, now);
	b->left_ns -= before;
	begin = b->end_ns - b->period_ns;
	if (sfq_before(begin, now))
		before = sfq_before(now - begin, before) ? before - (now - begin) : 0;
	if (before > b->over_ns)
		before = b->over_ns;
	b->over_ns -= before;
	b->left_ns += before;
	return b->left_ns <= 0;
}

#endif
