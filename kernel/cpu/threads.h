/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * threads.h - threads come, change and go
 */
#ifndef QLINUX_CPU_THREADS_H
#define QLINUX_CPU_THREADS_H

static void thread_free(struct thread __arena *th)
{
	unsigned long flags;

	if (!lock_hierarchy_irq(&flags))
		return; /* one struct thread is lost, nothing else */
	th->next_free = free_threads;
	free_threads = th;
	unlock_hierarchy_irq(&flags);
}

static struct thread __arena *thread_take(void)
{
	struct thread __arena *th;
	unsigned long flags;

	if (!lock_hierarchy_irq(&flags))
		return NULL;
	th = free_threads;
	if (th)
		free_threads = th->next_free;
	unlock_hierarchy_irq(&flags);
	return th;
}

/* Sleepable. A page of new ones when none is left. */
static struct thread __arena *thread_alloc(void)
{
	struct thread __arena *th = thread_take(), *page;
	u32 i;

	if (th)
		return th;
	page = bpf_arena_alloc_pages(&arena, NULL, 1, NUMA_NO_NODE, 0);
	if (!page)
		return NULL;
	for (i = ARENA_PAGE / sizeof(*page) - 1; i && can_loop; i--)
		thread_free(&page[i]);
	return page;
}

/* While the scheduler is being taken off, threads are born into cgroups that
 * are gone already: they belong to the root's leaf, or fork would fail. */
static u32 leaf_for(struct task_struct *p, struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	struct cgroup_nodes *n = bpf_map_lookup_elem(&cgroups, &id);
	u32 leaf = n ? n->leaf : ROOT_LEAF;

	return leaf == ROOT_LEAF && (p->flags & PF_KTHREAD) ? KERNEL_LEAF : leaf;
}

SEC("struct_ops.s/op_init_task")
s32 BPF_PROG(op_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread __arena *th;
	struct task_ref *ref;
	struct thread empty = {};
	unsigned long flags;
	u32 leaf = leaf_for(p, args->cgroup), weight = p->scx.weight ?: SFQ_WEIGHT_DEFAULT;
	u32 domain = domain_of(task_cpu(p));
	lock_t lock;

	ref = bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ref)
		return -ENOMEM;
	th = thread_alloc();
	if (!th)
		return -ENOMEM;
	*th = empty;
	th->waits = waits_of(leaf);
	th->tid = p->pid;
	th->task = (u64)p;
	th->charged = p->se.sum_exec_runtime;
	ref->th = th;
	lock = lock_tree_irq(domain, &flags);
	if (!lock)
		return -EINVAL;
	if (nr_domains > 1 && !hsfq_valid(tree_at(domain), leaf))
		leaf = ROOT_LEAF;
	th->domain = domain;
	lend_join(tree_at(domain), as_lend(th), leaf, weight);
	unlock_irq(lock, &flags);
	return 0;
}

/* Also called for a thread that comes back from another scheduling class. */
SEC("struct_ops/op_enable")
void BPF_PROG(op_enable, struct task_struct *p)
{
	struct thread __arena *th = thread_of(p);

	name_arena();
	if (th)
		th->charged = p->se.sum_exec_runtime;
}

/* A thread leaves for another scheduling class. It may be waiting. */
SEC("struct_ops/op_disable")
void BPF_PROG(op_disable, struct task_struct *p)
{
	struct thread __arena *th = thread_of(p);
	struct hsfq_trace_record r = {};
	u64 now = clock_now();
	lock_t lock;
	bool last;

	if (!th)
		return;
	lock = lock_thread_surely(th);
	if (!lock)
		return;
	name_leaf(&r, th->leaf);
	last = sched_depart(tree_of(th), &loans, as_lend(th), now) && trace_on &&
	       !tree_of(th)->node[r.leaf].runnable;
	unlock_tree(lock);
	if (last)
		trace(HSFQ_TRACE_SLEEP, &r);
}

SEC("struct_ops/op_exit_task")
void BPF_PROG(op_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ref *ref = bpf_task_storage_get(&threads, p, NULL, 0);
	struct thread __arena *th = ref ? ref->th : NULL;
	u64 now = clock_now();
	lock_t lock;
	bool over;

	if (!th)
		return;
	ref->th = NULL;
	th->task = 0; /* nobody's guess any more */
	th->tid = 0;
	lock = lock_thread_surely(th);
	if (!lock)
		return;
	sched_depart(tree_of(th), &loans, as_lend(th), now);
	over = lend_exit(tree_of(th), &loans, as_lend(th));
	show_loans();
	if (nr_domains > 1) { /* the list is under the hierarchy's lock, which is another there */
		unlock_tree(lock);
		if (!over || !lock_hierarchy())
			return; /* one struct thread is lost, as others may point to it */
	}
	th->next_free = free_threads;
	free_threads = th;
	if (nr_domains > 1)
		unlock_hierarchy();
	else
		unlock_tree(lock);
}

SEC("struct_ops/op_set_weight")
void BPF_PROG(op_set_weight, struct task_struct *p, u32 weight)
{
	struct thread __arena *th = thread_of(p);
	lock_t lock;

	if (!th || th->fixed)
		return;
	lock = lock_thread_surely(th);
	if (!lock)
		return;
	lend_set_weight(&loans, as_lend(th), weight);
	unlock_tree(lock);
}

#endif
