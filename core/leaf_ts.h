/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_ts.h - time sharing, the default
 *
 * Start-time fair queueing by nice value, with two favours. A thread that wakes comes before
 * all that have come to v(t), which busy threads with whole quanta do together. And one that
 * has missed LEAF_RESTED_NS of service or more, as those do that use little of the processor,
 * leaves the one in service no more peace than a thread of another leaf does (quantum.h).
 * Neither is worth any service. A turn behind v(t) was tried instead, and each thread that was
 * sent a message then came before all who send, ran for that one message and slept again,
 * with three times as many switches as under EEVDF.
 */
#ifndef QLINUX_CORE_LEAF_TS_H
#define QLINUX_CORE_LEAF_TS_H

enum { LEAF_ts_PROMPT = 0 };

#define LEAF_RESTED_NS 500000ULL

CORE_FN void leaf_ts_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	u64 rest = sfq_virtual(LEAF_RESTED_NS, th->weight);

	th->left_ns = sfq_past(&l->clock, &th->flow, l->clock.vtime - rest);
	sfq_arrive(&l->clock, &th->flow, 1);
}

CORE_FN void leaf_ts_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	th->left_ns = 0;
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
