/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_ts.h - time sharing, the default
 *
 * Start-time fair queueing by nice value, with lag. A thread that wakes requests
 *
 *   S = max{ V - lag, F }
 *
 * where V is the mean of its peers' start tags (mean.h) and lag what it was behind that by when
 * it went to sleep, at most a turn. So sleep neither pays nor costs anything, time spent waiting
 * is not lost, and who has been served more than its share waits for its peers to come up to it. It
 * comes among them where it belongs: neither before all of them each time, where a switch follows
 * each message that one thread sends to another, nor after a round.
 *
 * One that uses little of its share comes before all others, that is, has its key before their
 * start tags until it is served; that is worth no service, for its own start tag has no part in
 * it. It leaves the one in service no more peace than a thread of another leaf does (quantum.h).
 * It saves up what it would have been served while it slept, spends what it is served, and uses
 * little as long as LEAF_RESTED_NS are left. Of a leaf that several serve it saves a quarter: with
 * half of it, hackbench -p took nearly twice as many switches, for who reads is asleep while others
 * write.
 *
 * The last sleep alone was tried for that: one that wakes every 2 ms and came late once had slept
 * little when it woke next, and came late again.
 */
#ifndef QLINUX_CORE_LEAF_TS_H
#define QLINUX_CORE_LEAF_TS_H

enum { LEAF_ts_PROMPT = 0 };

#define LEAF_RESTED_NS     500000ULL
#define LEAF_RESTED_MAX_NS (4 * LEAF_RESTED_NS)
#define LEAF_ASLEEP_MAX_NS (1ULL << 36)
/* Where several serve the leaf, it uses little of its share that uses less than one in so many. */
#define LEAF_LITTLE 4

/* What it saves of the time since it was served last, or asked to be, as the leaf is served now. */
CORE_FN u64 leaf_ts_saved(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	u64 asleep_ns = now_ns - th->due_ns, served = l->runnable - l->waiting;

	if (!th->due_ns)
		return 0;
	if (asleep_ns > LEAF_ASLEEP_MAX_NS)
		asleep_ns = LEAF_ASLEEP_MAX_NS;
	if (served < 2) /* one is served, or it is alone */
		return asleep_ns * th->weight / l->weights;
	return asleep_ns * served * th->weight / (LEAF_LITTLE * (u64)l->weights);
}

/* A runnable thread goes to sleep: it keeps what it is behind the mean by, up to a turn. */
CORE_FN void leaf_ts_depart(hsfq_node_t *l, leaf_thread_t *th)
{
	u64 most, lag;

	if (!th->mean_weight)
		return;
	lag = leaf_mean(l) - th->mean_tag;
	leaf_mean_out(l, th);
	most = sfq_virtual(leaf_turn(l), th->weight);
	th->lag = (s64)lag < 0 ? 0 : lag < most ? lag : most;
}

CORE_FN void leaf_ts_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	u64 first, v;

	leaf_mean_out(l, th);
	v = leaf_mean(l) - th->lag;
	if (!th->due_ns) /* it is new */
		th->flow.start = v;
	th->left_ns += leaf_ts_saved(l, th, now_ns);
	if (th->left_ns > LEAF_RESTED_MAX_NS)
		th->left_ns = LEAF_RESTED_MAX_NS;
	th->due_ns = now_ns;
	sfq_request(&l->clock, &th->flow, v);
	l->clock.max_finish = sfq_max(l->clock.max_finish, th->flow.start);
	th->lag = 0;
	leaf_mean_in(l, th);
	if (th->left_ns < LEAF_RESTED_NS)
		return;
	first = sfq_before(th->flow.start, l->clock.vtime) ? th->flow.start : l->clock.vtime;
	th->early = th->flow.start - first + sfq_virtual(leaf_turn(l), SFQ_WEIGHT_DEFAULT);
}

CORE_FN void leaf_ts_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	th->left_ns -= length_ns < th->left_ns ? length_ns : th->left_ns;
	th->due_ns = now_ns;
	leaf_sfq_charge(l, th, length_ns, now_ns);
	leaf_mean_move(l, th);
}

/* The weight changes: what it is ahead of the mean by keeps its length, as far as that is a turn.
 * It may be there without having been served so much: the mean goes back when one goes to sleep. */
CORE_FN void leaf_ts_weigh(hsfq_node_t *l, leaf_thread_t *th, u32 to, bool asleep)
{
	u64 mean = leaf_mean(l), ahead = th->flow.start - mean, turn, more;

	th->lag = 0; /* it was of another length */
	th->flow.rem = 0;
	if (asleep ? sfq_past(&l->clock, &th->flow, mean) : !sfq_before(mean, th->flow.start))
		return;
	turn = sfq_virtual(leaf_turn(l), to);
	more = sfq_rescaled(ahead, th->weight, to);
	if (more > ahead && more > turn)
		more = turn > ahead ? turn : ahead;
	th->flow.start = mean + more;
	l->clock.max_finish = sfq_max(l->clock.max_finish, th->flow.start);
}

CORE_FN u64 leaf_ts_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	return leaf_sfq_ahead(l, th, length_ns, now_ns);
}

CORE_FN u64 leaf_ts_slice(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	return leaf_sfq_slice(l, th, now_ns);
}

CORE_FN void leaf_ts_yield(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	leaf_sfq_yield(l, th, now_ns);
	leaf_mean_move(l, th);
}

#endif
