/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sfq.h - start-time fair queueing: the equations
 *
 * Goyal, Guo and Vin, OSDI'96, section 3. A server shares its capacity among
 * flows. Quantum j of flow f, of length l and requested at time A, carries
 *
 *   start tag   S(j) = max{ v(A), F(j-1) }
 *   finish tag  F(j) = S(j) + l / w           (F(0) = 0)
 *
 * and the flow with the least start tag is served. The virtual time v(t) is
 * the start tag of the quantum in service; while the server is idle it is the
 * greatest finish tag of any quantum served. The length is the one actually
 * used, so the finish tag is computed when the quantum ends.
 *
 * Worked example (figure 3), A of weight 1, B of weight 2, 10 ms quanta:
 *
 *   t  0..60   A is served 20 ms, B 40 ms; both start tags stand at 20
 *   t  60      B blocks; A runs on alone, S_A = 20, 30, 40
 *   t  90      A blocks with F_A = 50: idle, so v = 50
 *   t 110      A returns, S_A = max{50, 50} = 50
 *   t 115      B returns, S_B = max{v = 50, F_B = 20} = 50; 1:2 again
 *
 * With several servers v(t) is the greatest start tag taken into service, and
 * the bounds are those of SFQ(D). A quantum's length is not known when the next
 * one is taken into service elsewhere: it counts as planned until it ends, or
 * all servers would flock to the flow with the least tag (sfq_move).
 *
 * A flow that cannot use its share, as a single thread with most of the weight,
 * falls behind v(t) then. It is owed at most SFQ_LAG_NS of each server's service for
 * that, if its weight is the average: from there on its tag moves with v(t). That is the
 * readjustment of weights: v(t) is set by the flows that can use their shares, at
 * the rate lambda at which sum min(theta_i, lambda w_i) is the capacity, and one
 * that is behind is served whenever it can be, at its parallelism theta_i. Nothing
 * is sorted or recomputed when a parallelism changes, whatever limits it: few
 * threads, affinity or sleep. With one server nobody falls behind.
 *
 * A flow that arrives shall not wait for what others are owed from before. So no more
 * than SFQ_LAG_OLD_NS of it is paid from then on. And it shall not wait until all who are
 * in service have come to v(t), the greatest of their tags: with several servers it
 * requests S = max{ v - credit, F }. The credit is a flow's share of SFQ_CREDIT_NS of each
 * server's service. A flow cannot have more by it than it has missed, and the bounds of
 * SFQ(D) hold with the credit added for each of the two flows.
 *
 * Arithmetic. A tag counts 1/1024 ns of service per unit of weight, modulo
 * 2^64. The remainder of every division is carried to the flow's next
 * quantum, so tags do not drift however short the quanta are. Two tags compare
 * by the sign of their difference. That fails for a flow asleep while v(t)
 * moved by 2^63 or more; the epoch, which counts eighths of the tag circle,
 * tells such tags, and they lie in the past. Up to two epochs on, v(t) is less
 * than 3/8 of the circle further, and a tag within 1/8 of v(t) compares rightly.
 */
#ifndef QLINUX_CORE_SFQ_H
#define QLINUX_CORE_SFQ_H

#include "../port.h"

enum {
	SFQ_WEIGHT_MIN = 1,
	SFQ_WEIGHT_DEFAULT = 100,
	SFQ_WEIGHT_MAX = 10000,
	SFQ_SHIFT = 10, /* tag units per nanosecond at weight 1, as a power of two */
	SFQ_EPOCH_SHIFT = 61,
};

/* Longest service charged at once, about 73 minutes: tags stay comparable. */
#define SFQ_LENGTH_MAX_NS (1ULL << 42)

/* The most that is owed to a flow of average weight which could not use its share, and
 * of that, what was owed when another flow arrived: of each server's service, for quanta
 * are as many times as long as there are servers. Fewer than SFQ_LAG_SERVERS count as
 * that many, for the threads of a leaf do not take longer turns. */
#define SFQ_LAG_NS      12500000ULL
#define SFQ_LAG_OLD_NS  750000ULL
#define SFQ_LAG_SERVERS 4

/* Several servers: of each one's service, what a flow may catch up its share of when it
 * arrives. */
#define SFQ_CREDIT_NS 6000000ULL

struct sfq_flow {
	u64 start; /* S of the quantum requested or in service; F while asleep */
	u32 rem;   /* what the last division left over, < weight */
	u32 epoch; /* the clock's epoch when the flow went to sleep */
};

struct sfq_clock {
	u64 vtime;      /* v(t) */
	u64 max_finish; /* greatest finish tag served: v(t) when idle */
	u64 arrival;    /* least start tag of the last flow to arrive, if before v(t), or 1/8 before
			   that */
	u32 epoch;      /* eighths of the tag circle v(t) has passed */
	u32 pad;
};

CORE_FN bool sfq_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

CORE_FN u64 sfq_max(u64 a, u64 b)
{
	return sfq_before(a, b) ? b : a;
}

/* l / w in tag units. */
CORE_FN u64 sfq_virtual(u64 length_ns, u32 weight)
{
	if (length_ns > SFQ_LENGTH_MAX_NS)
		length_ns = SFQ_LENGTH_MAX_NS;
	return CORE_DIV(length_ns << SFQ_SHIFT, weight);
}

CORE_FN void sfq_advance(struct sfq_clock CORE_MEM *c, u64 to)
{
	if (!sfq_before(c->vtime, to))
		return;
	if ((c->vtime >> SFQ_EPOCH_SHIFT) != (to >> SFQ_EPOCH_SHIFT)) {
		c->epoch++;
		/* An arrival long ago is not to look recent once v(t) has gone round. */
		c->arrival = sfq_max(c->arrival, to - (1ULL << SFQ_EPOCH_SHIFT));
	}
	c->vtime = to;
}

/* A flow that was never served: F(0) = v, not after any v to come. */
CORE_FN void sfq_flow_init(struct sfq_clock CORE_MEM *c, struct sfq_flow CORE_MEM *f)
{
	f->start = c->vtime;
	f->rem = 0;
	f->epoch = c->epoch;
}

/* Of a flow asleep: is F <= v? That is v(t), or a little less. */
CORE_FN bool sfq_past(struct sfq_clock CORE_MEM *c, struct sfq_flow CORE_MEM *f, u64 v)
{
	return c->epoch - f->epoch > 2 || !sfq_before(v, f->start);
}

/* A quantum is requested after a sleep: S = max{ v, F }. What F was rounded by is forgotten where
 * v is not less. */
CORE_FN void sfq_request(struct sfq_clock CORE_MEM *c, struct sfq_flow CORE_MEM *f, u64 v)
{
	if (sfq_past(c, f, v)) {
		f->start = v;
		f->rem = 0;
	}
	f->epoch = c->epoch;
	c->arrival = sfq_before(v, c->vtime) ? v : c->vtime;
}

/* The same of v(t), less a credit. */
CORE_FN void sfq_arrive(struct sfq_clock CORE_MEM *c, struct sfq_flow CORE_MEM *f, u64 credit)
{
	sfq_request(c, f, c->vtime - credit);
}

/* The flow's quantum is taken into service: v = S. */
CORE_FN void sfq_serve(struct sfq_clock CORE_MEM *c, u64 start)
{
	sfq_advance(c, start);
}

/* S + (forth - back) / w; `rem` is left over. */
CORE_FN u64 sfq_moved(struct sfq_flow CORE_MEM *f, u64 forth_ns, u64 back_ns, u32 weight, u32 *rem)
{
	u64 units, tag;

	if (forth_ns >= back_ns) {
		units = ((forth_ns - back_ns) << SFQ_SHIFT) + f->rem;
		tag = CORE_DIV(units, weight);
		*rem = units - tag * weight;
		return f->start + tag;
	}
	units = (back_ns - forth_ns) << SFQ_SHIFT;
	tag = f->start - CORE_DIV(units, weight);
	*rem = f->rem - CORE_MOD(units, weight);
	if (*rem < weight)
		return tag;
	*rem += weight;
	return tag - 1;
}

/* S = S + l / w: of a flow that is not behind v(t), or, with several servers, whose
 * next quantum may be wanted before one of the planned length has ended. */
CORE_FN void sfq_move(struct sfq_flow CORE_MEM *f, u64 length_ns, u32 weight)
{
	u32 rem;

	f->start = sfq_moved(f, length_ns, 0, weight, &rem);
	f->rem = rem;
}

/* What a flow may be behind v(t) by, of so many with these weights that are runnable. */
CORE_FN u64 sfq_lag(struct sfq_clock CORE_MEM *c, u32 servers, u32 flows, u32 weights)
{
	u64 times = (u64)(servers > SFQ_LAG_SERVERS ? servers : SFQ_LAG_SERVERS) * flows;
	u64 most = CORE_DIV((SFQ_LAG_NS << SFQ_SHIFT) * times, weights);
	u64 lag = CORE_DIV((SFQ_LAG_OLD_NS << SFQ_SHIFT) * times, weights) + c->vtime - c->arrival;

	return lag < most ? lag : most;
}

/* F = S + l / w, if a quantum of this length ended now, for which `planned_ns`
 * is in the start tag already; `rem` is left over. */
CORE_INLINE u64 sfq_finish(struct sfq_clock CORE_MEM *c, struct sfq_flow CORE_MEM *f, u64 length_ns,
			   u64 planned_ns, u32 weight, u32 servers, u32 flows, u32 weights,
			   u32 *rem)
{
	u64 finish, lag;

	if (length_ns > SFQ_LENGTH_MAX_NS)
		length_ns = SFQ_LENGTH_MAX_NS;
	finish = sfq_moved(f, length_ns, planned_ns, weight, rem);
	if (!sfq_before(finish, c->vtime))
		return finish;
	/* One that is held is charged, but is not among the runnable. */
	lag = sfq_lag(c, servers, flows ? flows : 1, weights > weight ? weights : weight);
	if (c->vtime - finish <= lag)
		return finish;
	*rem = 0;
	return c->vtime - lag;
}

/* A quantum of this length has ended: its finish tag is the next start tag. */
CORE_INLINE void sfq_charge(struct sfq_clock CORE_MEM *c, struct sfq_flow CORE_MEM *f,
			    u64 length_ns, u64 planned_ns, u32 weight, u32 servers, u32 flows,
			    u32 weights)
{
	u32 rem;

	f->start = sfq_finish(c, f, length_ns, planned_ns, weight, servers, flows, weights, &rem);
	f->rem = rem;
	c->max_finish = sfq_max(c->max_finish, f->start);
}

CORE_FN void sfq_depart(struct sfq_clock CORE_MEM *c, struct sfq_flow CORE_MEM *f)
{
	f->epoch = c->epoch;
}

/* The last runnable flow has gone: v = greatest finish tag served. */
CORE_FN void sfq_idle(struct sfq_clock CORE_MEM *c)
{
	sfq_advance(c, c->max_finish);
}

/* What is so far ahead in tags at one weight, at another: the same length of service. */
CORE_FN u64 sfq_rescaled(u64 ahead, u32 from, u32 to)
{
	return CORE_DIV(ahead, to) * from + CORE_DIV(CORE_MOD(ahead, to) * from, to);
}

/* The weight changes: what the flow is ahead of v by keeps its length. The epoch of one that
 * is not asleep is that of its last sleep, and says nothing. */
CORE_FN void sfq_reweight(struct sfq_clock CORE_MEM *c, struct sfq_flow CORE_MEM *f, u32 from,
			  u32 to, bool asleep)
{
	u64 ahead = f->start - c->vtime;

	f->rem = 0;
	if (asleep ? sfq_past(c, f, c->vtime) : !sfq_before(c->vtime, f->start))
		return;
	f->start = c->vtime + sfq_rescaled(ahead, from, to);
	c->max_finish = sfq_max(c->max_finish, f->start);
}

#endif
