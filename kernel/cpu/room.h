/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * room.h - memory for the tree and the CPUs, as far as it is used
 *
 * The tree has room for 8,191 classes, 4 MB. As a variable it would be as many zeros in the
 * program, to be unpacked, copied and kept. So it has an address in the arena, and pages are
 * made there when nodes are. What is not there yet reads as zero.
 */
#ifndef QLINUX_CPU_ROOM_H
#define QLINUX_CPU_ROOM_H

/* An array in the arena: its pages are made up to here. */
struct room {
	u64 end;
};

static struct room node_room, budget_room;

/* Sleepable. All up to `to` is there from now on; false: there is no memory. */
static __always_inline bool make_room(struct room *r, u64 to)
{
	while (r->end < to && can_loop) {
		if (!bpf_arena_alloc_pages(&arena, (void __arena *)r->end, 1, NUMA_NO_NODE, 0))
			return false;
		r->end += ARENA_PAGE;
	}
	return r->end >= to;
}

/* Likewise, nodes below this one. Only one cgroup is made at a time. */
__noinline int make_node_room(u32 n)
{
	u64 budgets = (u64)&tree.budget[0] & -(u64)ARENA_PAGE, nodes = (u64)&tree.node[n];

	if (!node_room.end) {
		node_room.end = (u64)&tree;
		budget_room.end = budgets;
	}
	/* They share a page where the nodes end. */
	return make_room(&node_room, nodes < budgets ? nodes : budgets) &&
	       make_room(&budget_room, (u64)&tree.budget[n]);
}

static bool make_cpu_room(void)
{
	struct room r = {(u64)cpus};

	return make_room(&r, (u64)(cpus + nr_cpus));
}

#endif
