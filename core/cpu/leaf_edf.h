/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_edf.h - earliest deadline first
 *
 * A thread with a reservation (C, T, D) gets C of service within D of the
 * moment it asks for it, once in every T. Each is a constant-bandwidth server
 * (Abeni and Buttazzo, RTSS'98), so that one which wants more than it said
 * hurts itself first:
 *
 *   wakes           a new job, due after D with a budget of C, if the last one
 *                   was T ago; else the old deadline and budget, where what is
 *                   left of the budget fits before the deadline at rate C / D;
 *                   else the next job, early
 *   budget is used  the next job: due T later, with a new budget
 *
 * While nobody else in the leaf is runnable nobody can be hurt: what a thread has
 * then is not held against it later, beyond its next period.
 */
#ifndef QLINUX_CORE_LEAF_EDF_H
#define QLINUX_CORE_LEAF_EDF_H

enum { LEAF_edf_PROMPT = 1 };

CORE_COLD void leaf_edf_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	bool alone = !l->runnable, postponed = th->due_ns > now_ns + th->deadline_ns;

	if (!th->cost_ns) {
		leaf_background(l, th, now_ns);
		return;
	}
	if (!leaf_job_over(th, now_ns) && leaf_job_fits(th, now_ns) && !(alone && postponed)) {
		leaf_key_set(l, th, th->due_ns - l->since_ns);
		return;
	}
	if (leaf_job_over(th, now_ns) || alone || th->deadline_ns == th->period_ns)
		th->due_ns = now_ns + th->deadline_ns;
	else
		th->due_ns += th->period_ns;
	th->left_ns = th->cost_ns;
	leaf_key_set(l, th, th->due_ns - l->since_ns);
}

/* When it would be due, and with what budget, after that much service. */
CORE_FN u64 leaf_edf_due(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns, u64 *left_ns)
{
	u64 over_ns, due_ns, soon_ns = now_ns + th->deadline_ns + th->period_ns;

	if (length_ns > SFQ_LENGTH_MAX_NS)
		length_ns = SFQ_LENGTH_MAX_NS;
	*left_ns = th->left_ns - length_ns;
	if (length_ns < th->left_ns)
		return th->due_ns;
	over_ns = length_ns - th->left_ns;
	*left_ns = th->cost_ns - over_ns % th->cost_ns;
	due_ns = leaf_job_next(th, over_ns, now_ns);
	return l->runnable > 1 || due_ns < soon_ns ? due_ns : soon_ns;
}

CORE_COLD void leaf_edf_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	u64 left_ns;

	if (!th->cost_ns) {
		leaf_background_charge(l, th, length_ns, now_ns);
		return;
	}
	leaf_job_late(l, th, now_ns);
	th->due_ns = leaf_edf_due(l, th, length_ns, now_ns, &left_ns);
	th->left_ns = left_ns;
	leaf_key_set(l, th, th->due_ns - l->since_ns);
}

CORE_COLD u64 leaf_edf_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	u64 left_ns;

	if (!th->cost_ns)
		return leaf_background_ahead(l, th, length_ns, now_ns);
	return l->base + leaf_edf_due(l, th, length_ns, now_ns, &left_ns) - l->since_ns;
}

CORE_FN u64 leaf_edf_slice(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	return th->left_ns;
}

CORE_FN void leaf_edf_yield(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	leaf_background_yield(l, th, now_ns);
}

#endif
