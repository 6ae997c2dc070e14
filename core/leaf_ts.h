/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_ts.h - time sharing, the default
 *
 * Start-time fair queueing by nice value, with one favour: a thread that slept
 * returns up to LEAF_TS_CREDIT_NS of service (at nice 0) behind v(t), so one
 * that uses little of the processor runs at once when it wakes. The favour is
 * bounded: sleeping longer earns nothing more, and never more than was missed.
 * A new thread has missed nothing and starts at v(t): otherwise a stream of
 * short-lived ones would keep all others away.
 */
#ifndef QLINUX_CORE_LEAF_TS_H
#define QLINUX_CORE_LEAF_TS_H

#define LEAF_TS_CREDIT_NS 3000000ULL

CORE_FN void leaf_ts_arrive(hsfq_node_t *l, leaf_thread_t *th)
{
	sfq_arrive(&l->clock, &th->flow, sfq_virtual(LEAF_TS_CREDIT_NS, SFQ_WEIGHT_DEFAULT));
}

CORE_FN void leaf_ts_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns)
{
	leaf_sfq_charge(l, th, length_ns);
}

CORE_FN u64 leaf_ts_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns)
{
	return leaf_sfq_ahead(l, th, length_ns);
}

CORE_FN u64 leaf_ts_slice(hsfq_node_t *l, leaf_thread_t *th)
{
	return leaf_sfq_slice(l, th);
}

#endif
