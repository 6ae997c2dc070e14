/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * speed.h - how fast a processor has to be
 *
 * A kernel that lets processors run slower and cooler asks for how much of one is needed. Its own
 * scheduler tells from what its threads used; nobody tells where threads are scheduled otherwise,
 * and the processor runs at its highest frequency whatever there is to do.
 *
 * What is needed is the part of the time in which somebody was served, at the speed of then: half
 * of the time at half the speed is a quarter. One that has had no rest for some ticks may need any
 * speed, so that counts as all of it. The need follows soon where it grows, and is given up slowly:
 * what comes again shall find the speed that it needed last, or half of that after a long rest.
 */
#ifndef QLINUX_CORE_SPEED_H
#define QLINUX_CORE_SPEED_H

#include "../port.h"

/* All of a processor. */
#define SPEED_FULL 1024U
/* Nothing is told: speed_see. */
#define SPEED_SAME (~0U)
/* It is looked at no oftener. */
#define SPEED_LEAST_NS 3000000ULL
/* Without a rest for so long. */
#define SPEED_BUSY_NS 8000000ULL
/* Half of a greater need is known after so long, and of a lesser one. */
#define SPEED_UP_NS   4000000ULL
#define SPEED_DOWN_NS 64000000ULL
/* One that rests for so long needs nothing: others may share its frequency. */
#define SPEED_REST_NS 250000000ULL

struct cpu_speed {
	u64 since_ns; /* seen last then */
	u64 rests_ns; /* has nobody to serve since then, 0: has */
	u64 busy_ns;  /* has had no rest since then */
	u64 idle_ns;  /* rested so long since it was seen */
	u32 need;     /* 0 … SPEED_FULL */
	u32 over;     /* it is known to need nothing, as it rests for long */
};

typedef struct cpu_speed CORE_MEM cpu_speed_t;

/* Nothing is known of it yet: the kernel has it at full speed. */
CORE_FN void speed_init(cpu_speed_t *p, u64 now_ns)
{
	p->since_ns = p->busy_ns = now_ns;
	p->need = SPEED_FULL;
}

/* The processor has nobody to serve. */
CORE_FN void speed_rests(cpu_speed_t *p, u64 now_ns)
{
	if (!p->rests_ns)
		p->rests_ns = now_ns;
}

/* It has again. */
CORE_FN void speed_serves(cpu_speed_t *p, u64 now_ns)
{
	if (p->rests_ns && now_ns > p->rests_ns)
		p->idle_ns += now_ns - p->rests_ns;
	if (p->rests_ns)
		p->busy_ns = now_ns;
	p->rests_ns = 0;
	p->over = 0;
}

/*
 * What is the kernel to be told, where somebody is served? `speed`: how fast it is now, of
 * SPEED_FULL, which is as fast as it can be. Returns 0 … SPEED_FULL, or SPEED_SAME: it was told a
 * moment ago. It is told again and again, for who sets frequencies may take no notice of a change
 * that comes soon after another.
 */
CORE_FN u32 speed_see(cpu_speed_t *p, u32 speed, u64 now_ns)
{
	u64 all_ns = now_ns - p->since_ns, idle_ns = p->idle_ns, part = SPEED_FULL, slow_ns;
	u64 need = p->need;

	if (now_ns < p->since_ns + SPEED_LEAST_NS)
		return SPEED_SAME;
	if (idle_ns > all_ns)
		idle_ns = all_ns;
	if (now_ns < p->busy_ns + SPEED_BUSY_NS)
		part = (all_ns - idle_ns) * (speed < SPEED_FULL ? speed : SPEED_FULL) / all_ns;
	slow_ns = part > need ? SPEED_UP_NS : SPEED_DOWN_NS;
	if (all_ns > SPEED_DOWN_NS)
		all_ns = SPEED_DOWN_NS;
	need = (need * slow_ns + part * all_ns) / (slow_ns + all_ns);
	p->since_ns = now_ns;
	p->idle_ns = 0;
	p->need = need;
	return need;
}

/* Does it rest for so long that somebody else is to say that nothing is needed of it? Once a rest.
 */
CORE_FN bool speed_over(cpu_speed_t *p, u64 now_ns)
{
	u64 rests_ns = p->rests_ns;

	if (p->over || !rests_ns || now_ns < rests_ns + SPEED_REST_NS)
		return false;
	p->over = 1;
	return true;
}

#endif
