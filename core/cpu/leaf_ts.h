/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_ts.h - time sharing, the default
 *
 * Start-time fair queueing by nice value, with two favours. A thread that wakes comes before
 * all that have come to v(t), which busy threads with whole quanta do together. And one that
 * uses little of its share has its key a turn before its start tag. With several servers v(t)
 * is the greatest start tag in service, and busy threads wait with keys up to a turn behind
 * it; with one, who has just been served would wait for a whole round of the others. It leaves
 * the one in service no more peace than a thread of another leaf does (quantum.h). Neither
 * is worth any service: the start tag, which counts that, has no part in the second.
 *
 * It saves up what it would have been served while it slept, spends what it is served, and is
 * let before the others while LEAF_RESTED_NS are left. With several servers it saves half:
 * threads that wait for each other are few at the moment when one of them wakes, and with all
 * of it hackbench -p took a third more time.
 *
 * A turn behind v(t) for all was tried instead, and each thread that was sent a message then
 * came before all who send, ran for that one message and slept again, with three times as
 * many switches as under EEVDF. So was the last sleep alone: one that wakes every 2 ms and
 * came late once had slept little when it woke next, and came late again.
 */
#ifndef QLINUX_CORE_LEAF_TS_H
#define QLINUX_CORE_LEAF_TS_H

enum { LEAF_ts_PROMPT = 0 };

#define LEAF_RESTED_NS     500000ULL
#define LEAF_RESTED_MAX_NS (4 * LEAF_RESTED_NS)
#define LEAF_ASLEEP_MAX_NS (1ULL << 36)

/* What it saves of the time since it was served last, or asked to be, as the leaf is served now.
 * Virtual time does not tell: it stands still while busy threads have their quanta one after
 * the other. */
CORE_FN u64 leaf_ts_saved(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	u64 asleep_ns = now_ns - th->due_ns, halves = l->runnable - l->waiting;

	if (!th->due_ns)
		return 0;
	if (asleep_ns > LEAF_ASLEEP_MAX_NS)
		asleep_ns = LEAF_ASLEEP_MAX_NS;
	if (halves < 2) /* one is served, or it is alone */
		halves = 2;
	return asleep_ns * halves * th->weight / (2 * (u64)l->weights);
}

CORE_FN void leaf_ts_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	th->left_ns += leaf_ts_saved(l, th, now_ns);
	if (th->left_ns > LEAF_RESTED_MAX_NS)
		th->left_ns = LEAF_RESTED_MAX_NS;
	if (th->left_ns >= LEAF_RESTED_NS)
		th->early = sfq_virtual(leaf_turn(l), SFQ_WEIGHT_DEFAULT);
	th->due_ns = now_ns;
	sfq_arrive(&l->clock, &th->flow, 1);
}

CORE_FN void leaf_ts_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	th->left_ns -= length_ns < th->left_ns ? length_ns : th->left_ns;
	th->due_ns = now_ns;
	leaf_sfq_charge(l, th, length_ns, now_ns);
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
}

#endif
