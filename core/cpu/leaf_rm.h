/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_rm.h - rate monotonic
 *
 * Of the threads with a reservation (C, T, D) the one with the shortest period
 * is served (Liu and Layland, 1973); where deadlines are shorter than periods,
 * the one with the shortest deadline (deadline monotonic: Leung and Whitehead,
 * 1982). The order is fixed: a thread that wants more than it said hurts those
 * with longer periods. Jobs are told apart much as in leaf_edf.h, to count misses.
 */
#ifndef QLINUX_CORE_LEAF_RM_H
#define QLINUX_CORE_LEAF_RM_H

enum { LEAF_rm_PROMPT = 1 };

/* A job that was interrupted goes on before those that are as urgent. */
CORE_FN u64 leaf_rm_key(leaf_thread_t *th, u64 length_ns)
{
	return 2 * th->deadline_ns - (length_ns && length_ns < th->left_ns);
}

CORE_COLD void leaf_rm_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	if (!th->cost_ns) {
		leaf_background(l, th, now_ns);
		return;
	}
	if (leaf_job_over(th, now_ns) || !leaf_job_fits(th, now_ns)) {
		th->due_ns = now_ns + th->deadline_ns;
		th->left_ns = th->cost_ns;
	}
	leaf_key_set(l, th, leaf_rm_key(th, 0));
}

CORE_COLD void leaf_rm_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	u64 over_ns;

	if (!th->cost_ns) {
		leaf_background_charge(l, th, length_ns, now_ns);
		return;
	}
	leaf_job_late(l, th, now_ns);
	leaf_key_set(l, th, leaf_rm_key(th, length_ns));
	if (length_ns > SFQ_LENGTH_MAX_NS)
		length_ns = SFQ_LENGTH_MAX_NS;
	if (length_ns < th->left_ns) {
		th->left_ns -= length_ns;
		return;
	}
	over_ns = length_ns - th->left_ns;
	th->due_ns = leaf_job_next(th, over_ns, now_ns);
	th->left_ns = th->cost_ns - over_ns % th->cost_ns;
}

CORE_COLD u64 leaf_rm_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	if (!th->cost_ns)
		return leaf_background_ahead(l, th, length_ns, now_ns);
	return l->base + leaf_rm_key(th, length_ns);
}

CORE_FN u64 leaf_rm_slice(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	return th->left_ns;
}

CORE_FN void leaf_rm_yield(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	leaf_background_yield(l, th, now_ns);
}

#endif
