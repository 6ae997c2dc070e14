/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroups.h - cgroups come, change and go
 */
#ifndef QLINUX_CPU_CGROUPS_H
#define QLINUX_CPU_CGROUPS_H

static u64 parent_id(struct cgroup *cgrp)
{
	struct cgroup *parent;
	u64 id = 0;

	if (!cgrp->level)
		return 0;
	parent = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (parent) {
		id = parent->kn->id;
		bpf_cgroup_release(parent);
	}
	return id;
}

/* Under the hierarchy's lock: the two nodes of a cgroup. False: the tree has no room. */
static bool make_nodes(u32 parent, u32 weight, struct cgroup_nodes *n)
{
	int node = hsfq_mknod(&hierarchy, parent, weight, 0), leaf;

	if (node < 0)
		return false;
	leaf = hsfq_mknod(&hierarchy, node, SFQ_WEIGHT_DEFAULT, HSFQ_LEAF);
	if (leaf < 0) {
		hsfq_rmnod(&hierarchy, node);
		return false;
	}
	n->node = node;
	n->leaf = leaf;
	return true;
}

/* The leaf's dispatch queues; they are kept for the next class of this index. */
static int make_queue(u32 leaf)
{
	u32 domain;
	int err;

	if (leaf >= HSFQ_NODES || leaf_has_queue[leaf])
		return 0;
	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++) {
		err = scx_bpf_create_dsq(queue_of(domain, leaf), -1);
		if (err)
			return err;
	}
	leaf_has_queue[leaf] = 1;
	return 0;
}

/* The leaf's histogram of waits; it is kept, too. Without memory for one they
 * are not counted. Only one cgroup is made at a time. */
__noinline int make_waits(u32 leaf)
{
	struct waits __arena *w;
	u64 __arena *counts;
	u32 i;

	if (leaf >= HSFQ_NODES)
		return 0;
	w = leaf_waits[leaf];
	if (!w) {
		if (!spare_waits.left) {
			spare_waits.next = bpf_arena_alloc_pages(&arena, NULL, 1, NUMA_NO_NODE, 0);
			if (!spare_waits.next)
				return 0;
			spare_waits.left = ARENA_PAGE / sizeof(*w);
		}
		spare_waits.left--;
		w = spare_waits.next++;
	}
	counts = (u64 __arena *)(u64)w; /* whole words at a time */
#pragma unroll
	for (i = 0; i < sizeof(*w) / sizeof(*counts); i++)
		counts[i] = 0;
	leaf_waits[leaf] = w;
	return 0;
}

static int root_init(u64 id)
{
	struct cgroup_nodes n = {.node = HSFQ_ROOT, .leaf = ROOT_LEAF};
	unsigned long flags;
	bool made;
	int err;

	if (!lock_hierarchy_irq(&flags))
		return -EINVAL;
	made = hsfq_mknod(&hierarchy, HSFQ_ROOT, SFQ_WEIGHT_DEFAULT, HSFQ_LEAF) == ROOT_LEAF &&
	       hsfq_mknod(&hierarchy, HSFQ_ROOT, SFQ_WEIGHT_MAX, HSFQ_LEAF) == KERNEL_LEAF;
	leaf_cgroup[ROOT_LEAF] = leaf_cgroup[KERNEL_LEAF] = id;
	unlock_hierarchy_irq(&flags);
	if (!made)
		return -EINVAL;
	place_everywhere(ROOT_LEAF);
	place_everywhere(KERNEL_LEAF);
	make_waits(ROOT_LEAF);
	make_waits(KERNEL_LEAF);
	err = make_queue(ROOT_LEAF) ?: make_queue(KERNEL_LEAF);
	return err ?: (int)bpf_map_update_elem(&cgroups, &id, &n, BPF_ANY);
}

SEC("struct_ops.s/op_cgroup_init")
s32 BPF_PROG(op_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	u64 id = cgrp->kn->id, up = parent_id(cgrp);
	struct cgroup_nodes n = {}, *parent;
	unsigned long flags;
	struct cgroup_limit limit = cgroup_limit_of(args);
	u64 now = clock_now();
	bool made, idle = cgroup_idle_of(args);
	s32 err;

	if (!up)
		return root_init(id);
	parent = bpf_map_lookup_elem(&cgroups, &up);
	if (!parent)
		return -ENOENT;
	if (!lock_hierarchy_irq(&flags))
		return -EINVAL;
	made = !parent->shared && make_nodes(parent->node, args->weight, &n);
	if (made) {
		leaf_cgroup[n.leaf % HSFQ_NODES] = id;
		n.weight = args->weight;
		if (idle)
			idle_set(&hierarchy, n.node, true, n.weight);
		set_limit(n.node, limit.period_us, limit.quota_us, limit.burst_us, now);
	}
	unlock_hierarchy_irq(&flags);

	if (made) {
		place_everywhere(n.leaf);
		make_waits(n.leaf);
		err = make_queue(n.leaf);
		if (err)
			return err;
	} else {
		/* No room: its threads belong to its ancestor's leaf. */
		n = *parent;
		n.shared = 1;
		__sync_fetch_and_add(&hsfq_totals.shared_cgroups, 1);
	}
	return bpf_map_update_elem(&cgroups, &id, &n, BPF_ANY);
}

SEC("struct_ops.s/op_cgroup_exit")
void BPF_PROG(op_cgroup_exit, struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	struct cgroup_nodes *n = bpf_map_lookup_elem(&cgroups, &id);
	unsigned long flags;

	if (!n)
		return;
	if (!n->shared && n->node != HSFQ_ROOT) {
		retire_everywhere(n->leaf);
		if (lock_hierarchy_irq(&flags)) {
			hsfq_retire(&hierarchy, n->leaf);
			hsfq_retire(&hierarchy, n->node);
			unlock_hierarchy_irq(&flags);
		}
	}
	bpf_map_delete_elem(&cgroups, &id);
}

SEC("struct_ops/op_cgroup_move")
void BPF_PROG(op_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct thread __arena *th = thread_of(p);
	u32 leaf = leaf_for(p, to);
	u64 now = clock_now();
	lock_t lock;

	if (!th || leaf == th->home)
		return;
	lock = lock_thread_surely(th);
	if (!lock)
		return;
	sched_depart(tree_of(th), &loans, as_lend(th), now);
	lend_move_home(tree_of(th), &loans, as_lend(th), leaf);
	th->waits = waits_of(leaf);
	unlock_tree(lock);
}

SEC("struct_ops/op_cgroup_set_weight")
void BPF_PROG(op_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	u64 id = cgrp->kn->id;
	struct cgroup_nodes *n = bpf_map_lookup_elem(&cgroups, &id);
	struct hsfq_trace_record r = {};
	unsigned long flags;

	if (!n || n->shared || !lock_hierarchy_irq(&flags))
		return;
	n->weight = weight;
	if (!(hierarchy.node[n->node].flags & HSFQ_IDLE))
		hsfq_set_weight(&hierarchy, n->node, weight);
	r.node = n->node;
	r.leaf = n->leaf;
	r.weight = hierarchy.node[n->node].weight;
	unlock_hierarchy_irq(&flags);
	if (trace_on)
		trace(HSFQ_TRACE_WEIGHT, &r);
}

SEC("struct_ops/op_cgroup_set_idle")
void BPF_PROG(op_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	u64 id = cgrp->kn->id;
	struct cgroup_nodes *n = bpf_map_lookup_elem(&cgroups, &id);
	struct hsfq_trace_record r = {};
	unsigned long flags;

	if (!n || n->shared || !lock_hierarchy_irq(&flags))
		return;
	idle_set(&hierarchy, n->node, idle, n->weight);
	r.node = n->node;
	r.leaf = n->leaf;
	r.weight = hierarchy.node[n->node].weight;
	unlock_hierarchy_irq(&flags);
	if (trace_on)
		trace(HSFQ_TRACE_WEIGHT, &r);
}

#endif
