/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * domains.h - several trees: one for each group of CPUs
 *
 * One tree under one lock serves some CPUs, not hundreds. So CPUs beyond that form domains, those
 * of a last-level cache together, each with a tree, a lock and a queue for each leaf. What such
 * trees divide is one by the ledger (core/cpu/ledger.h, ledger.h).
 *
 *   one domain         `hierarchy` is the tree of classes, and the one that is scheduled
 *   several domains    `hierarchy` has the classes, budgets and weights that users gave; a tree
 *                      of a domain has the leaves alone, of the same numbers, below its root
 *
 * A thread is in the tree of one domain, th->domain, under whose lock it is. Where it is to be
 * served, or to wait, on a CPU of another, it goes there first (go_home).
 */
#ifndef QLINUX_CPU_DOMAINS_H
#define QLINUX_CPU_DOMAINS_H

#ifndef SINGLE_CPU
#include "../../core/cpu/ledger.h"
#endif

#define DOMAINS_MAX 64

/* Where the trees of several domains are (room.h). */
#define domain_trees ((struct domain __arena *)(ARENA_START + (1ULL << 30) + (1ULL << 24)))

/* The domain of a CPU. */
static __always_inline u32 domain_of(s32 cpu)
{
	return nr_domains == 1 ? 0 : cpu_domain[(u32)cpu % CPUS_MAX];
}

static __always_inline hsfq_tree_t *tree_at(u32 domain)
{
	return nr_domains == 1 ? &hierarchy : &domain_trees[domain % DOMAINS_MAX].tree;
}

static __always_inline u32 domain_of_thread(struct thread __arena *th)
{
	return nr_domains == 1 ? 0 : th->domain;
}

static __always_inline hsfq_tree_t *tree_of(struct thread __arena *th)
{
	return tree_at(domain_of_thread(th));
}

/* The dispatch queue of a leaf in a domain. */
static __always_inline u32 queue_of(u32 domain, u32 leaf)
{
	return nr_domains == 1 ? leaf : domain * HSFQ_NODES + leaf;
}

/* Of the leaf in which the thread is. */
static __always_inline u32 queue_for(struct thread __arena *th)
{
	return queue_of(domain_of_thread(th), th->leaf);
}

#ifdef SINGLE_CPU
#define ledger_rests                0
#define wake_ledger(now)            ((void)0)
#define idle_at_home(p, cpu, flags) (-EBUSY)
#define cpu_for_new(p, leaf, cpu)   (cpu)
#define ahead_by(leaf, from, to)    0
#define name_cpus(domain)           0
#else
/* Where the ledger is (room.h). */
#define the_ledger   (*(struct ledger __arena *)(ARENA_START + (3ULL << 30)))
#define ledger_cells ((struct ledger_cell __arena *)(ARENA_START + (3ULL << 30) + (1ULL << 24)))

_Static_assert(sizeof(struct ledger) <= 1 << 24, "its cells come after it");

/* How much more a thread of the leaf was served in one domain than in another. */
static __always_inline s64 ahead_by(u32 leaf, u32 from, u32 to)
{
	return ledger_apart(&the_ledger, leaf, from, to);
}

/* Its CPUs, and those of them that are among the machine's fastest. */
struct domain_cpus {
	struct bpf_cpumask __kptr *mask;
	struct bpf_cpumask __kptr *fast;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one a domain, sized before load */
	__type(key, u32);
	__type(value, struct domain_cpus);
} domain_cpus SEC(".maps");

/* Before anybody is scheduled. */
__noinline int name_cpus(u32 domain)
{
	struct domain_cpus *cpus_of = bpf_map_lookup_elem(&domain_cpus, &domain);
	struct bpf_cpumask *mask, *fast;
	u32 cpu;

	if (!cpus_of)
		return -EINVAL;
	mask = bpf_cpumask_create();
	if (!mask)
		return -ENOMEM;
	fast = bpf_cpumask_create();
	if (!fast) {
		bpf_cpumask_release(mask);
		return -ENOMEM;
	}
	for (cpu = CORE_ZERO; cpu < nr_cpus && can_loop; cpu++) {
		if (domain_of(cpu) != domain)
			continue;
		bpf_cpumask_set_cpu(cpu, mask);
		if (cpu_fast[cpu % CPUS_MAX])
			bpf_cpumask_set_cpu(cpu, fast);
	}
	mask = bpf_kptr_xchg(&cpus_of->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	fast = bpf_kptr_xchg(&cpus_of->fast, fast);
	if (fast)
		bpf_cpumask_release(fast);
	return 0;
}

/* Of the domain where the thread was served last, an idle CPU as the kernel chooses among those, or
 * a negative number. Where domains are no caches, the kernel by itself would take it from one to
 * the other at each wake-up. Nor does it look at speed: a fast CPU comes first, unless the other
 * half of its core is busy, which would slow both down by more than a slow one is slower. */
static __always_inline s32 idle_at_home(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 domain = domain_of(prev_cpu);
	struct domain_cpus *cpus_of = bpf_map_lookup_elem(&domain_cpus, &domain);
	struct bpf_cpumask *mask = cpus_of && uneven ? cpus_of->fast : NULL;
	s32 cpu = -EBUSY;

	if (mask)
		cpu = select_idle_of(p, prev_cpu, wake_flags, (const struct cpumask *)mask,
				     SCX_PICK_IDLE_CORE);
	if (cpu >= 0 || nr_domains == 1)
		return cpu;
	mask = cpus_of ? cpus_of->mask : NULL;
	if (mask)
		cpu = select_idle_of(p, prev_cpu, wake_flags, (const struct cpumask *)mask, 0);
	return cpu;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct quantum_timer);
} ledger_timer SEC(".maps");

static u64 ledger_last_ns; /* drawn up last then */
static u32 ledger_rests;   /* nobody was runnable then, so its timer is not set */

/* A thread is served: the ledger is drawn up from now on. A machine that does nothing is left
 * asleep. */
__noinline int wake_ledger(u64 now)
{
	struct quantum_timer *t;
	u32 i = 0;

	t = bpf_map_lookup_elem(&ledger_timer, &i);
	if (!t || __sync_val_compare_and_swap(&ledger_rests, 1, 0) != 1)
		return 0;
	ledger_last_ns = now;
	bpf_timer_start(&t->timer, LEDGER_PERIOD_NS, 0);
	return 0;
}
#endif

#endif
