/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * control.h - what user space asks for: programs of type "syscall"
 */
#ifndef QLINUX_CPU_CONTROL_H
#define QLINUX_CPU_CONTROL_H

SEC("syscall")
int hsfq_ctl_class(struct hsfq_ctl_class *c)
{
	u64 id = c->cgroup_id; /* 7.1 takes it where it is */
	struct cgroup_nodes *n;
	unsigned long flags;
	hsfq_node_t *node, *leaf;

	n = bpf_map_lookup_elem(&cgroups, &id);
	if (!n)
		return -ENOENT;
	if (!lock_hierarchy_irq(&flags))
		return -EBUSY;
	hsfq_settle(&hierarchy);
	node = &hierarchy.node[n->node];
	leaf = &hierarchy.node[n->leaf];
	c->served_ns = node->served_ns;
	c->own_ns = leaf->served_ns;
	c->start_tag = node->flow.start;
	c->vtime = node->clock.vtime;
	c->share_ppb = node->flags & HSFQ_RUNNABLE || n->node == HSFQ_ROOT
			       ? hsfq_share(&hierarchy, n->node, 1000000000)
			       : 0;
	c->node = n->node;
	c->leaf = n->leaf;
	c->weight = node->weight;
	c->policy = leaf->policy;
	c->threads = leaf->threads;
	c->runnable = leaf->runnable;
	c->misses = leaf->misses;
	c->throttled = node->flags & HSFQ_LIMITED ? hierarchy.budget[n->node].times : 0;
	c->throttled_ns = node->flags & HSFQ_LIMITED ? hierarchy.budget[n->node].held_ns : 0;
	c->children = node->children - (n->node == HSFQ_ROOT ? 2 : 1);
	unlock_hierarchy_irq(&flags);
	c->shared = n->shared;
	add_up_class(c);
	return 0;
}

_Static_assert(HSFQ_WAITS == WAITS_BUCKETS, "a record holds a histogram");

/* The address of the leaf's histogram. As a number, for of two pointers the verifier would follow
 * each through the copying of all of it. */
__noinline u64 counts_of(u32 leaf)
{
	return (u64)(leaf_waits[leaf % HSFQ_NODES] ?: &no_counts);
}

static __always_inline void fill_record(struct hsfq_class_record *r, u32 leaf)
{
	hsfq_node_t *l = ARENA_AT(hierarchy.node, leaf),
		    *node = ARENA_AT(hierarchy.node, l->parent);
	u64 __arena *counts = (u64 __arena *)counts_of(leaf); /* whole words at a time */

	r->cgroup_id = leaf_cgroup[leaf];
	r->served_ns = node->served_ns;
	r->own_ns = l->served_ns;
	r->misses = l->misses;
	r->node = l->parent;
	r->leaf = leaf;
	r->parent = node->parent;
	r->weight = node->weight;
	r->leaf_weight = l->weight;
	r->policy = l->policy;
	r->threads = l->threads;
	r->runnable = l->runnable;
	add_up_record(r);
	CONTEXT_COPY(u64, r->waits, counts, sizeof(r->waits));
}

/* The next leaf from c->from on; HSFQ_NIL: there is none. That is counted in the context,
 * where the verifier does not follow each value. */
static __noinline u32 next_leaf(struct hsfq_ctl_tree *c)
{
	u32 leaf, used = HSFQ_USED | HSFQ_LEAF;
	volatile u32 *from = &c->from;

	while ((leaf = *from) < hierarchy.unused && leaf < HSFQ_NODES && can_loop) {
		*from = leaf + 1;
		if ((ARENA_AT(hierarchy.node, leaf)->flags & used) == used)
			return leaf;
	}
	return HSFQ_NIL;
}

SEC("syscall")
int hsfq_ctl_tree(struct hsfq_ctl_tree *c)
{
	struct thread __arena *th = thread_of(bpf_get_current_task_btf());
	unsigned long flags;
	u32 leaf;

	if (!lock_hierarchy_irq(&flags))
		return -EBUSY;
	hsfq_settle(&hierarchy);
	unlock_hierarchy_irq(&flags);
	c->time_ns = bpf_ktime_get_ns();
	c->caller = th ? th->leaf : 0;
	leaf = next_leaf(c);
	c->count = !!leaf;
	if (leaf)
		fill_record(&c->record, leaf);
	if (c->from >= hierarchy.unused)
		c->from = 0;
	return 0;
}

SEC("syscall")
int hsfq_ctl_policy(struct hsfq_ctl_policy *c)
{
	u64 now = clock_now(), id = c->cgroup_id;
	struct cgroup_nodes *n;
	unsigned long flags;
	int err;

	n = bpf_map_lookup_elem(&cgroups, &id);
	if (!n)
		return -ENOENT;
	if (n->shared)
		return -EBUSY;
	if (!lock_hierarchy_irq(&flags))
		return -EBUSY;
	err = leaf_set_policy(&hierarchy, n->leaf, c->policy, now);
	unlock_hierarchy_irq(&flags);
	if (nr_domains > 1 && !err)
		err = set_policies(n->leaf, c->policy, now);
	return err;
}

/* Under the lock. A thread that waits has its new key at once; true: it is to
 * be put elsewhere in its queue. */
static bool set_thread(struct thread __arena *th, struct hsfq_ctl_thread *c, u32 weight, u64 now,
		       int *err)
{
	if (weight) {
		*err = lend_set_weight(&loans, as_lend(th), weight);
		if (!*err)
			th->fixed = c->set_weight != HSFQ_WEIGHT_NICE;
	}
	if (!*err && (c->set & HSFQ_SET_RESERVATION))
		*err = leaf_reserve(&th->lt, c->cost_ns, c->period_ns, c->deadline_ns);
	if (!*err && (c->set & HSFQ_SET_CLASS))
		*err = leaf_set_class(&th->lt, c->class, c->priority);
	if (*err || !c->set || !th->waiting)
		return false;
	leaf_rekey(&tree_of(th)->node[th->leaf % HSFQ_NODES], &th->lt, now);
	return true;
}

/* The thread waits under its new key from now on, if it waits still. */
static void move_in_queue(u32 leaf, s32 tid, u64 key)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, leaf, 0) {
		if (p->pid != tid)
			continue;
		dsq_move_set_vtime(THIS_ITER, key);
		dsq_move_vtime(THIS_ITER, p, leaf, 0);
		break;
	}
	bpf_rcu_read_unlock();
}

SEC("syscall")
int hsfq_ctl_thread(struct hsfq_ctl_thread *c)
{
	struct task_struct *p = bpf_task_from_pid(c->tid);
	u64 now = clock_now();
	struct thread __arena *th;
	u32 queue, domain, weight = c->set_weight;
	unsigned long flags;
	bool requeue;
	lock_t lock;
	int err = 0;

	if (!p)
		return -ESRCH;
	th = thread_of(p);
	domain = th ? domain_of_thread(th) : 0;
	lock = th ? lock_tree_irq(domain, &flags) : NULL;
	if (lock && went_elsewhere(th, domain)) {
		unlock_irq(lock, &flags);
		lock = NULL;
	}
	if (!lock) {
		bpf_task_release(p);
		return -ESRCH;
	}
	if (weight == HSFQ_WEIGHT_NICE)
		weight = p->scx.weight;
	requeue = set_thread(th, c, weight, now, &err);
	queue = th->queue;
	c->weight = th->own;
	c->fixed = th->fixed;
	c->cgroup_id = leaf_cgroup[th->home % HSFQ_NODES];
	c->served_ns = th->served_ns;
	c->key = leaf_key(&th->lt);
	c->cost_ns = th->lt.cost_ns;
	c->period_ns = th->lt.period_ns;
	c->deadline_ns = th->lt.deadline_ns;
	c->misses = th->lt.misses;
	c->class = th->lt.class;
	c->priority = th->lt.priority;
	unlock_irq(lock, &flags);
	bpf_task_release(p);
	if (requeue)
		move_in_queue(queue, c->tid, c->key);
	return err;
}

#endif
