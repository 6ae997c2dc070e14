/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_fifo.h - first come, first served
 *
 * A thread keeps its place from the moment it becomes runnable until it
 * blocks, also while other classes are served in between.
 */
#ifndef QLINUX_CORE_LEAF_FIFO_H
#define QLINUX_CORE_LEAF_FIFO_H

enum { LEAF_fifo_PROMPT = 0 };

CORE_FN void leaf_fifo_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	th->flow.start = ++l->tail;
}

CORE_FN void leaf_fifo_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
}

CORE_FN u64 leaf_fifo_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	return th->flow.start;
}

CORE_FN u64 leaf_fifo_slice(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	return LEAF_QUANTUM_NS;
}

CORE_FN void leaf_fifo_yield(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	leaf_fifo_arrive(l, th, now_ns);
}

#endif
