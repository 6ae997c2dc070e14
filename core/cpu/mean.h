/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mean.h - where the threads of a leaf are on average
 *
 * V is the mean of the start tags of the leaf's runnable threads, each with its weight: a thread
 * that always had its share would be there. V - S is a thread's lag, what it has been served less
 * than that (Stoica, Abdel-Wahab: Earliest Eligible Virtual Deadline First, 1995, section 3). v(t)
 * does not tell: it stands still while busy threads have their turns one after the other, and
 * goes on by a whole turn then.
 *
 * Kept is the sum of w (S - mean_base), rather than V, so that no rounding adds up, in units of
 * 2^LEAF_MEAN_SHIFT of the tags', which is 0.4 us of service at weight 100, so that it fits
 * whatever a service was. A thread is counted with the weight and the tag that it notes, so it can
 * be taken out whatever has become of it since.
 */
#ifndef QLINUX_CORE_MEAN_H
#define QLINUX_CORE_MEAN_H

enum { LEAF_MEAN_SHIFT = 12 };

/* w (S - mean_base) of the tag that the thread notes. */
CORE_FN u64 leaf_mean_part(hsfq_node_t *l, leaf_thread_t *th)
{
	s64 apart = th->mean_tag + (1 << LEAF_MEAN_SHIFT) - 1 - l->mean_base;

	return (apart >> LEAF_MEAN_SHIFT) * th->mean_weight;
}

CORE_FN void leaf_mean_out(hsfq_node_t *l, leaf_thread_t *th)
{
	if (th->mean_weight && th->mean_generation == l->generation) {
		l->mean_sum -= leaf_mean_part(l, th);
		l->mean_weights -= th->mean_weight;
	}
	th->mean_weight = 0;
}

CORE_FN void leaf_mean_in(hsfq_node_t *l, leaf_thread_t *th)
{
	th->mean_tag = th->flow.start;
	th->mean_weight = th->weight;
	th->mean_generation = l->generation;
	if (!l->mean_weights) {
		l->mean_base = th->mean_tag >> LEAF_MEAN_SHIFT << LEAF_MEAN_SHIFT;
		l->mean_sum = 0;
	}
	l->mean_sum += leaf_mean_part(l, th);
	l->mean_weights += th->mean_weight;
}

/* The start tag of a thread that is counted has moved. */
CORE_FN void leaf_mean_move(hsfq_node_t *l, leaf_thread_t *th)
{
	if (!th->mean_weight)
		return;
	l->mean_sum -= leaf_mean_part(l, th);
	th->mean_tag = th->flow.start;
	l->mean_sum += leaf_mean_part(l, th);
}

/* V, rounded up: who is new comes behind those that are there. v(t) where nobody is counted. The
 * sum counts from there from now on, so that it stays small. */
CORE_FN u64 leaf_mean(hsfq_node_t *l)
{
	u64 weights = l->mean_weights, sum = l->mean_sum, by;
	u64 minus = 0 - (sum >> 63); /* all ones where the sum is negative: no branch to verify */

	if (!weights)
		return l->clock.vtime;
	by = ((sum ^ minus) - minus + ((weights - 1) & ~minus)) / weights;
	by = (by ^ minus) - minus;
	l->mean_base += by << LEAF_MEAN_SHIFT;
	l->mean_sum -= by * weights;
	return l->mean_base;
}

#endif
