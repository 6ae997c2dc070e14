/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leaf_svr4.h - the scheduler of System V Release 4, inside one leaf
 *
 * Three scheduling classes of 60 priorities each:
 *
 *   rt   real time: always before the others, the higher priority first, in
 *        turns among equals, with quanta of 1 s (priority 0) to 100 ms (59)
 *   ts   time sharing: a thread that uses up its quantum falls ten priorities
 *        (tqexp), one that returns from a sleep rises to the fifties, and to 59
 *        when it does so again (slpret)
 *   ia   interactive: time sharing, ten priorities higher
 *
 * Low priorities get long quanta.
 *
 * SVR4 raises a thread that has waited for about a second (maxwait, lwait). The
 * key of a thread that waits stays, so the ageing is in the key: it is the time
 * at which a thread may have waited long enough, that of its arrival and up to
 * LEAF_SVR4_WAIT_NS, less the higher its priority and the greater its weight,
 * that is the lower its nice value. Nobody who arrives later is served before it.
 * Once it is served it has no more than a priority of 50 (lwait), so that it does
 * not keep interactive threads waiting.
 */
#ifndef QLINUX_CORE_LEAF_SVR4_H
#define QLINUX_CORE_LEAF_SVR4_H

enum { LEAF_svr4_PROMPT = 1 };

enum leaf_svr4_class { LEAF_SVR4_TS, LEAF_SVR4_IA, LEAF_SVR4_RT, LEAF_SVR4_CLASSES };

enum {
	LEAF_SVR4_TOP = 59,   /* highest priority of each class */
	LEAF_SVR4_FIRST = 29, /* of a new ts or ia thread */
	LEAF_SVR4_BOOST = 10, /* of ia over ts */
	LEAF_SVR4_FALL = 10,  /* tqexp: of a thread whose quantum is used up */
	LEAF_SVR4_AGED = 50,  /* lwait: of one that waited too long, once it is served */
	LEAF_SVR4_RT_KEYS = 2 * (LEAF_SVR4_TOP + 1),
};

#define LEAF_SVR4_WAIT_NS 1000000000ULL

/* The dispatch table, by tens of priorities. */
CORE_FN u64 leaf_svr4_quantum(leaf_thread_t *th)
{
	u32 tens = th->level / 10;

	if (th->class == LEAF_SVR4_RT)
		return tens == 5 ? 100000000ULL : (1000 - 200 * tens) * 1000000ULL;
	if (th->level == LEAF_SVR4_TOP)
		return 20000000ULL;
	return tens == 5 ? 40000000ULL : (200 - 40 * tens) * 1000000ULL;
}

/* How long a ts or ia thread of this level may be kept waiting by later ones. */
CORE_FN u64 leaf_svr4_patience(leaf_thread_t *th, u32 level)
{
	u64 patience_ns;

	if (th->class == LEAF_SVR4_IA)
		level += LEAF_SVR4_BOOST;
	if (level > LEAF_SVR4_TOP)
		level = LEAF_SVR4_TOP;
	patience_ns = (LEAF_SVR4_TOP + 1 - level) * LEAF_SVR4_WAIT_NS / (LEAF_SVR4_TOP + 1) *
		      SFQ_WEIGHT_DEFAULT / th->weight;
	return patience_ns < LEAF_SVR4_WAIT_NS ? patience_ns : LEAF_SVR4_WAIT_NS;
}

/* Where it would wait in line at this level, from now on. */
CORE_FN u64 leaf_svr4_tail(hsfq_node_t *l, leaf_thread_t *th, u32 level, u64 now_ns)
{
	if (th->class == LEAF_SVR4_RT)
		return 2 * (LEAF_SVR4_TOP - level) + 1;
	return LEAF_SVR4_RT_KEYS + now_ns - l->since_ns + leaf_svr4_patience(th, level);
}

/* Its key within its quantum: at the head of its priority, but not aged any more. */
CORE_FN u64 leaf_svr4_interrupted(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	u64 aged, key = th->flow.start - l->base;

	if (th->class == LEAF_SVR4_RT)
		return 2 * (LEAF_SVR4_TOP - th->level);
	aged = leaf_svr4_tail(l, th, LEAF_SVR4_AGED, now_ns);
	return key > aged ? key : aged;
}

CORE_COLD void leaf_svr4_arrive(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	u32 returns = th->level < LEAF_SVR4_AGED ? LEAF_SVR4_AGED + th->level / 10 : LEAF_SVR4_TOP;

	if (th->class == LEAF_SVR4_RT)
		th->level = th->priority;
	else if (!th->left_ns)
		th->level = LEAF_SVR4_FIRST;
	else if (th->level < returns)
		th->level = returns;
	th->left_ns = leaf_svr4_quantum(th);
	leaf_key_set(l, th, leaf_svr4_tail(l, th, th->level, now_ns));
}

/* What the end of a quantum makes of it. */
CORE_FN u32 leaf_svr4_expired(leaf_thread_t *th)
{
	if (th->class == LEAF_SVR4_RT)
		return th->level;
	return th->level > LEAF_SVR4_FALL ? th->level - LEAF_SVR4_FALL : 0;
}

CORE_COLD void leaf_svr4_charge(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	if (length_ns >= th->left_ns) {
		th->level = leaf_svr4_expired(th);
		th->left_ns = leaf_svr4_quantum(th);
		leaf_key_set(l, th, leaf_svr4_tail(l, th, th->level, now_ns));
		return;
	}
	th->left_ns -= length_ns;
	leaf_key_set(l, th, leaf_svr4_interrupted(l, th, now_ns));
}

CORE_COLD u64 leaf_svr4_ahead(hsfq_node_t *l, leaf_thread_t *th, u64 length_ns, u64 now_ns)
{
	if (length_ns >= th->left_ns)
		return l->base + leaf_svr4_tail(l, th, leaf_svr4_expired(th), now_ns);
	return l->base + leaf_svr4_interrupted(l, th, now_ns);
}

CORE_FN u64 leaf_svr4_slice(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	return th->left_ns;
}

/* To the end of its priority, which stays. */
CORE_FN void leaf_svr4_yield(hsfq_node_t *l, leaf_thread_t *th, u64 now_ns)
{
	th->left_ns = leaf_svr4_quantum(th);
	leaf_key_set(l, th, leaf_svr4_tail(l, th, th->level, now_ns));
}

#endif
