/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_rr.h - round robin
 *
 * Threads take turns of LEAF_RR_QUANTUM_NS. One that is interrupted because
 * another class is served keeps its place and what is left of its turn; one
 * that blocks starts a new turn at the tail.
 */
#ifndef QLINUX_CORE_LEAF_RR_H
#define QLINUX_CORE_LEAF_RR_H

enum { LEAF_rr_PROMPT = 0 };

#define LEAF_RR_QUANTUM_NS 10000000ULL

CORE_FN void leaf_rr_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	th->flow.start = ++l->tail;
	th->left_ns = LEAF_RR_QUANTUM_NS;
}

CORE_FN void leaf_rr_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	if (length_ns < th->left_ns)
		th->left_ns -= length_ns;
	else
		leaf_rr_arrive(l, th, now_ns);
}

CORE_FN u64 leaf_rr_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	return length_ns < th->left_ns ? th->flow.start : l->tail + 1;
}

CORE_FN u64 leaf_rr_slice(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	return th->left_ns;
}

CORE_FN void leaf_rr_yield(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	leaf_rr_arrive(l, th, now_ns);
}

#endif
