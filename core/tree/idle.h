/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * idle.h - nodes that get what nobody else wants
 *
 * What cgroup v2 calls cpu.idle. An idle node has the weight 3/10: beside a
 * sibling of weight 100 it gets 0.3 %, as EEVDF's SCHED_IDLE does (3 of 1024),
 * and alone everything. Weights are whole numbers, so its weight is 3 and its
 * service counts tenfold. A thread that wakes in a sibling which is not idle
 * interrupts it at once, where it would leave another QUANTUM_PEACE_NS.
 */
#ifndef QLINUX_CORE_IDLE_H
#define QLINUX_CORE_IDLE_H

#include "hsfq.h"

/* Makes the node idle, or gives it that weight again. Returns 0, -CORE_ENOENT,
 * -CORE_EINVAL: the root has no siblings, or -CORE_ERANGE. */
CORE_FN int idle_set(hsfq_tree_t *t, u32 n, bool idle, u32 weight)
{
	int err;

	if (n == HSFQ_ROOT)
		return -CORE_EINVAL;
	hsfq_settle(t);
	err = hsfq_set_weight(t, n, idle ? HSFQ_IDLE_WEIGHT : weight);
	if (err)
		return err;
	t->idle -= !!(t->node[n].flags & HSFQ_IDLE);
	t->idle += idle;
	t->node[n].flags &= ~HSFQ_IDLE;
	if (idle)
		t->node[n].flags |= HSFQ_IDLE;
	return 0;
}

/* Of two leaves: where their paths meet, is only `running` below an idle node? */
CORE_FN bool idle_yields(hsfq_tree_t *t, u32 waiting, u32 running)
{
	u32 w = waiting, r = running;

	while (t->idle && w > HSFQ_ROOT && r > HSFQ_ROOT && w != r && CORE_MORE) {
		hsfq_node_t *hw = &t->node[w], *hr = &t->node[r];

		if (hw->parent == hr->parent)
			return (hr->flags & HSFQ_IDLE) && !(hw->flags & HSFQ_IDLE);
		if (hw->depth >= hr->depth)
			w = hw->parent;
		if (hr->depth >= hw->depth)
			r = hr->parent;
	}
	return false;
}

#endif
