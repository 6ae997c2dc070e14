/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * limits.h - classes whose budget is used up, and when they return
 *
 * core/tree/limit.h says who is held. Here: CPUs that serve a thread of a class held
 * just now are interrupted; one timer for all releases those whose next period
 * has begun, and calls CPUs that have time for them. Without bpf_timer nothing
 * would ever be released, so there are no limits then.
 */
#ifndef QLINUX_CPU_LIMITS_H
#define QLINUX_CPU_LIMITS_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct quantum_timer);
} limit_timer SEC(".maps");

/* It fires then, 0: it is not set. Under the lock. */
static u64 limit_armed;
/* Where the timer is in the tree. Not on the stack, for there the verifier would
 * follow every value that it may have. */
static volatile u32 limit_next;

/* Under the hierarchy's lock: is the timer to be set, for hierarchy.release_ns? */
static bool limit_timer_late(void)
{
	if (!hierarchy.held || (limit_armed && limit_armed <= hierarchy.release_ns))
		return false;
	limit_armed = hierarchy.release_ns;
	return true;
}

/* A domain's leaf is held where the hierarchy has it so, or not any more. */
__noinline int follow_leaf(u32 domain, u32 leaf)
{
	bool held = limit_held(&hierarchy, leaf);
	unsigned long flags;
	hsfq_tree_t *t;
	lock_t lock;

	barrier_var(domain);
	t = tree_at(domain);
	if (held == !!(t->node[leaf % HSFQ_NODES].flags & HSFQ_HELD))
		return 0;
	lock = lock_tree_irq(domain, &flags);
	if (!lock)
		return 0;
	limit_follow(t, leaf % HSFQ_NODES, limit_held(&hierarchy, leaf));
	unlock_irq(lock, &flags);
	return 0;
}

/* Several domains: what is held in the hierarchy has changed. */
__noinline int follow_hierarchy(void)
{
	u32 leaf, domain;

	for (leaf = ROOT_LEAF + CORE_ZERO; leaf < hierarchy.unused && can_loop; leaf++)
		for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
			if (tree_at(domain)->node[leaf % HSFQ_NODES].flags & HSFQ_LEAF)
				follow_leaf(domain, leaf);
	return 0;
}

/* Several domains: the leaf's service is charged to the budgets of its path. Returns how many
 * classes are held by that, and above 16 bits whether the timer is to be set. */
__noinline int charge_budgets(u32 leaf, u64 ran_ns, u64 now)
{
	u32 held;

	/* All domains have that lock in common. */
	if (!limit_limited(&hierarchy, leaf) || !lock_hierarchy())
		return 0;
	held = limit_charge(&hierarchy, leaf, ran_ns, now);
	if (held)
		held |= limit_timer_late() << 16;
	unlock_hierarchy();
	if (held)
		follow_hierarchy();
	return held;
}

static void set_limit_timer(u64 now)
{
	u64 at = limit_armed;
	u32 i = 0;
	struct quantum_timer *t = bpf_map_lookup_elem(&limit_timer, &i);

	/* Without, nothing is held; but the verifier of PREEMPT_RT refuses the mere call. */
	if (use_timer && t)
		bpf_timer_start(&t->timer, at > now ? at - now : 1, 0);
}

/* A class was held just now: threads below it are served no longer. */
static void limits_reached(bool late, u64 now)
{
	u32 cpu, this = bpf_get_smp_processor_id();
	struct thread __arena *th;

	for (cpu = CORE_ZERO; cpu < nr_cpus && can_loop; cpu++) {
		th = served_on(cpu_of(cpu));
		if (cpu != this && th && limit_held(&hierarchy, th->leaf))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	if (late)
		set_limit_timer(now);
}

/* Somebody waits whom the CPU has not heard of: it looks if it is idle, and if its quantum is
 * open-ended because nobody was waiting when it began. */
static void look_again(u32 cpu)
{
	struct cpu_state __arena *c = cpu_of(cpu);

	if (!c->th)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	else if (!c->due_ns)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Classes have returned. */
static void limits_released(void)
{
	u32 cpu;

	for (cpu = CORE_ZERO; cpu < nr_cpus && can_loop; cpu++)
		look_again(cpu);
}

/* Has the node returned? One at a time, so that nobody waits long for the lock. */
__noinline int release_node(u32 n, u64 now)
{
	unsigned long flags;
	bool released;

	if (!lock_hierarchy_irq(&flags))
		return false;
	released = limit_release(&hierarchy, n, now);
	unlock_hierarchy_irq(&flags);
	return released;
}

static int limit_timer_fires(void *map, u32 *key, struct quantum_timer *t)
{
	u64 now = clock_now();
	unsigned long flags;
	bool released = false, late;
	u32 n;

	if (!lock_hierarchy_irq(&flags))
		return 0;
	limit_armed = 0;
	hierarchy.release_ns = HSFQ_NEVER;
	unlock_hierarchy_irq(&flags);
	if (some_die)
		rescue(now);
	for (limit_next = hierarchy.unused; (n = limit_next) > HSFQ_ROOT && can_loop;) {
		limit_next = n - 1;
		if (n < HSFQ_NODES && (hierarchy.node[n].flags & HSFQ_HELD) &&
		    release_node(n, now + SCHED_SLACK_NS))
			released = true;
	}
	if (!lock_hierarchy_irq(&flags))
		return 0;
	late = limit_timer_late();
	unlock_hierarchy_irq(&flags);
	if (late)
		set_limit_timer(now);
	if (released && nr_domains > 1)
		follow_hierarchy();
	if (released)
		limits_released();
	return 0;
}

/* Under the lock. The kernel's "no limit" is the greatest quota. */
static void set_limit(u32 node, u64 period_us, u64 quota_us, u64 burst_us, u64 now)
{
	if (quota_us == ~0ULL || !use_timer)
		quota_us = 0;
	limit_set(&hierarchy, node, quota_us * 1000, period_us * 1000, burst_us * 1000, now);
}

SEC("struct_ops/op_cgroup_set_bandwidth")
void BPF_PROG(op_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
	      u64 burst_us)
{
	u64 id = cgrp->kn->id, now = clock_now();
	struct cgroup_nodes *n = bpf_map_lookup_elem(&cgroups, &id);
	unsigned long flags;
	u32 held;

	if (!n || n->shared || !lock_hierarchy_irq(&flags))
		return;
	held = hierarchy.held;
	set_limit(n->node, period_us, quota_us, burst_us, now);
	held -= hierarchy.held;
	unlock_hierarchy_irq(&flags);
	if (held && nr_domains > 1)
		follow_hierarchy();
	if (held)
		limits_released();
}

#endif
