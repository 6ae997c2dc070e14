/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_sfq.h - start-time fair queueing among the threads of a leaf
 *
 * The equations of sfq.h with each thread's own weight: the leaf's service is
 * divided in proportion to the weights, with the bounds of OSDI'96 section 3.
 */
#ifndef QLINUX_CORE_LEAF_SFQ_H
#define QLINUX_CORE_LEAF_SFQ_H

enum { LEAF_sfq_PROMPT = 0 };

CORE_FN void leaf_sfq_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	sfq_arrive(&l->clock, &th->flow, 0);
}

CORE_FN void leaf_sfq_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	sfq_charge(&l->clock, &th->flow, length_ns, 0, th->weight, 1, l->runnable, l->weights);
}

CORE_FN u64 leaf_sfq_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	u32 rem;

	return sfq_finish(&l->clock, &th->flow, length_ns, 0, th->weight, 1, l->runnable,
			  l->weights, &rem);
}

/* A thread of average weight gets a full turn, a lighter one less. */
CORE_FN u64 leaf_sfq_slice(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	u64 mine = (u64)th->weight * l->runnable, turn_ns = leaf_turn(l);

	return mine < l->weights ? turn_ns * mine / l->weights : turn_ns;
}

/* Behind those that wait, as after LEAF_YIELD_NS of service; less than LEAF_NEAR_NS, so that a
 * server goes on with threads that it served last. */
CORE_FN void leaf_sfq_yield(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	th->flow.start += sfq_virtual(LEAF_YIELD_NS, SFQ_WEIGHT_DEFAULT);
	th->flow.rem = 0;
}

#endif
