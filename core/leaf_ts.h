/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_ts.h - time sharing, the default
 *
 * Start-time fair queueing by nice value, with one favour: a thread that slept
 * returns up to a turn of service (at nice 0) behind v(t), so one that uses little
 * of the processor runs at once when it wakes. The favour is bounded: sleeping
 * longer earns nothing more, and never more than was missed; and where there are
 * many to have it, it is small (leaf_turn), so that nobody is kept waiting by it.
 * A new thread has missed nothing and starts at v(t): otherwise a stream of
 * short-lived ones would keep all others away.
 */
#ifndef QLINUX_CORE_LEAF_TS_H
#define QLINUX_CORE_LEAF_TS_H

enum { LEAF_ts_PROMPT = 0 };

CORE_FN void leaf_ts_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	sfq_arrive(&l->clock, &th->flow, sfq_virtual(leaf_turn(l), SFQ_WEIGHT_DEFAULT));
}

CORE_FN void leaf_ts_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
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

#endif
