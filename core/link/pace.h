/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pace.h - a link of a given rate
 *
 * A link that is slower than the device which feeds it keeps its queue elsewhere, in
 * a modem, where nobody schedules it. So packets are let go no faster than the link
 * takes them: packet j of wire length l(j) is let go at
 *
 *   t(j) = max{ now, t(j-1) + l(j-1) / C }
 *
 * and the link is an FC server of rate C in the terms of OSDI'96, section 3, whose
 * delta is what a timer is late by. What a packet adds to the line besides itself
 * (framing, a modem's headers) and the least that a packet takes there count as well.
 *
 * Lateness is made up for while packets wait, up to PACE_LATE_MAX_NS; a link that had
 * nothing to send has lost that time.
 */
#ifndef QLINUX_CORE_PACE_H
#define QLINUX_CORE_PACE_H

#include "../port.h"

/* Bytes a second: 1 kbit/s … 1 Tbit/s. */
#define PACE_RATE_MIN 125ULL
#define PACE_RATE_MAX 125000000000ULL
/* Bytes a packet may add, and the least that it may take on the line. */
#define PACE_OVERHEAD_MAX 1024
#define PACE_LEAST_MAX    2048
/* Longest wire length of a packet, with all that its segments add. */
#define PACE_LENGTH_MAX  (1U << 28)
#define PACE_LATE_MAX_NS 10000000ULL

#define PACE_SECOND_NS 1000000000ULL

struct pace {
	u64 rate;     /* bytes a second, 0: as fast as the device takes them */
	u64 next_ns;  /* the next packet is let go then at the earliest */
	u64 rem;      /* what the last division left over, < rate */
	u32 overhead; /* bytes that each packet adds */
	u32 least;    /* bytes that each packet takes at least */
};

typedef struct pace CORE_MEM pace_t;

/* From now on. What is left of the packet on the link goes at the new rate too. Returns 0 or
 * -CORE_ERANGE. */
CORE_INLINE int pace_set(pace_t *p, u64 rate, u32 overhead, u32 least, u64 now_ns)
{
	u64 left_ns = p->next_ns > now_ns ? p->next_ns - now_ns : 0;

	if (rate && (rate < PACE_RATE_MIN || rate > PACE_RATE_MAX))
		return -CORE_ERANGE;
	if (overhead > PACE_OVERHEAD_MAX || least > PACE_LEAST_MAX)
		return -CORE_ERANGE;
	/* At most PACE_LENGTH_MAX bytes: no overflow. */
	if (left_ns)
		p->next_ns = now_ns + (rate ? left_ns * p->rate / rate : 0);
	p->rate = rate;
	p->rem = 0;
	p->overhead = overhead;
	p->least = least;
	return 0;
}

/* Bytes that so many segments of together `bytes` take on the line. */
CORE_FN u32 pace_length(pace_t *p, u32 bytes, u32 segments)
{
	u64 length = bytes + (u64)segments * p->overhead, least = (u64)segments * p->least;

	if (length < least)
		length = least;
	return length < PACE_LENGTH_MAX ? length : PACE_LENGTH_MAX;
}

/* May a packet be let go? If not, not before p->next_ns. */
CORE_FN bool pace_open(pace_t *p, u64 now_ns)
{
	return !p->rate || p->next_ns <= now_ns;
}

/* The link had nothing to send, and has now. */
CORE_FN void pace_begin(pace_t *p, u64 now_ns)
{
	if (p->next_ns < now_ns)
		p->next_ns = now_ns;
}

/* A packet of this wire length is let go. */
CORE_FN void pace_sent(pace_t *p, u32 length, u64 now_ns)
{
	u64 units, ns;

	if (!p->rate) {
		p->next_ns = now_ns;
		return;
	}
	if (p->next_ns + PACE_LATE_MAX_NS < now_ns)
		p->next_ns = now_ns - PACE_LATE_MAX_NS;
	units = length * PACE_SECOND_NS + p->rem;
	ns = units / p->rate;
	p->rem = units - ns * p->rate;
	p->next_ns += ns;
}

#endif
