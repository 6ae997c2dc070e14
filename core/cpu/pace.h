/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pace.h - how fast a processor has to be
 *
 * A kernel that lets processors run slower and cooler asks for how much of one is needed. Its own
 * scheduler tells from what its threads used; nobody tells where threads are scheduled otherwise,
 * and the processor runs at its highest frequency whatever there is to do.
 *
 * What is needed is the part of the time in which somebody was served, at the speed of then: half
 * of the time at half the speed is a quarter. One that has had no rest for some ticks may need any
 * speed, so that counts as all of it. The need follows soon where it grows, and is given up slowly: what comes again
 * shall find the speed that it needed last, or half of that after a long rest.
 */
#ifndef QLINUX_CORE_PACE_H
#define QLINUX_CORE_PACE_H

#include "../port.h"

/* All of a processor. */
#define PACE_FULL 1024U
/* Nothing new is told: pace_see. */
#define PACE_SAME (~0U)
/* It is looked at no oftener. */
#define PACE_LEAST_NS 3000000ULL
/* Without a rest for so long. */
#define PACE_BUSY_NS 8000000ULL
/* Half of a greater need is known after so long, and of a lesser one. */
#define PACE_UP_NS   4000000ULL
#define PACE_DOWN_NS 64000000ULL
/* A change by less is not worth telling: a sixteenth. */
#define PACE_STEP 64U
/* One that rests for so long needs nothing: processors that share a frequency must not wait
 * for it. */
#define PACE_REST_NS 250000000ULL

struct pace {
	u64 since_ns; /* seen last then */
	u64 rests_ns; /* has nobody to serve since then, 0: has */
	u64 busy_ns;  /* has had no rest since then */
	u64 idle_ns;  /* rested so long since it was seen */
	u32 need;     /* 0 … PACE_FULL */
	u32 told;     /* what it was told to be last */
};

typedef struct pace CORE_MEM pace_t;

/* Nothing is known of it yet: the kernel has it at full speed. */
CORE_FN void pace_init(pace_t *p, u64 now_ns)
{
	p->since_ns = p->busy_ns = now_ns;
	p->need = p->told = PACE_FULL;
}

/* The processor has nobody to serve. */
CORE_FN void pace_rests(pace_t *p, u64 now_ns)
{
	if (!p->rests_ns)
		p->rests_ns = now_ns;
}

/* It has again. */
CORE_FN void pace_serves(pace_t *p, u64 now_ns)
{
	if (p->rests_ns && now_ns > p->rests_ns)
		p->idle_ns += now_ns - p->rests_ns;
	if (p->rests_ns)
		p->busy_ns = now_ns;
	p->rests_ns = 0;
}

/*
 * What is it to be told, where somebody is served? `speed`: how fast it is now, of PACE_FULL, which
 * is as fast as it can be. Returns 0 … PACE_FULL, or PACE_SAME.
 */
CORE_FN u32 pace_see(pace_t *p, u32 speed, u64 now_ns)
{
	u64 all_ns = now_ns - p->since_ns, idle_ns = p->idle_ns, part = PACE_FULL, slow_ns;
	u64 need = p->need;

	if (now_ns < p->since_ns + PACE_LEAST_NS)
		return PACE_SAME;
	if (idle_ns > all_ns)
		idle_ns = all_ns;
	if (now_ns < p->busy_ns + PACE_BUSY_NS)
		part = (all_ns - idle_ns) * (speed < PACE_FULL ? speed : PACE_FULL) / all_ns;
	slow_ns = part > need ? PACE_UP_NS : PACE_DOWN_NS;
	if (all_ns > PACE_DOWN_NS)
		all_ns = PACE_DOWN_NS;
	need = (need * slow_ns + part * all_ns) / (slow_ns + all_ns);
	p->since_ns = now_ns;
	p->idle_ns = 0;
	p->need = need;
	if (need + PACE_STEP > p->told && need < p->told + PACE_STEP)
		return PACE_SAME;
	p->told = need;
	return need;
}

/* Does it rest for so long that it is to be told that nothing is needed of it? */
CORE_FN bool pace_over(pace_t *p, u64 now_ns)
{
	if (!p->told || !p->rests_ns || now_ns < p->rests_ns + PACE_REST_NS)
		return false;
	p->told = 0;
	return true;
}

#endif
