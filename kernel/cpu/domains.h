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
#define idle_fast(p, cpu, flags)    (-EBUSY)
#define faster_rests(p, cpu)        0
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

struct some_cpus {
	struct bpf_cpumask __kptr *mask;
};

/* Those of each domain. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one a domain, sized before load */
	__type(key, u32);
	__type(value, struct some_cpus);
} domain_cpus SEC(".maps");

/* The machine's fast ones, where others are slower. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct some_cpus);
} fast_cpus SEC(".maps");

/* Before anybody is scheduled. `domain`: ALL_FAST for the fast ones of all. */
#define ALL_FAST     (~0U)
__noinline int name_cpus(u32 domain)
{
	struct bpf_cpumask *mask;
	struct some_cpus *some;
	u32 cpu, i = 0;

	if (domain == ALL_FAST)
		some = bpf_map_lookup_elem(&fast_cpus, &i);
	else
		some = bpf_map_lookup_elem(&domain_cpus, &domain);
	if (!some)
		return -EINVAL;
	mask = bpf_cpumask_create();
	if (!mask)
		return -ENOMEM;
	for (cpu = CORE_ZERO; cpu < nr_cpus && can_loop; cpu++)
		if (domain == ALL_FAST ? cpu_fast[cpu % CPUS_MAX] : domain_of(cpu) == domain)
			bpf_cpumask_set_cpu(cpu, mask);
	mask = bpf_kptr_xchg(&some->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

/* An idle CPU of the domain where the thread was served last, as the kernel chooses among those,
 * or a negative number. Where domains are no caches, the kernel by itself would take it from one
 * to the other at each wake-up. */
static __always_inline s32 idle_at_home(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 domain = domain_of(prev_cpu);
	struct some_cpus *some = bpf_map_lookup_elem(&domain_cpus, &domain);
	struct bpf_cpumask *mask = some ? some->mask : NULL;

	return mask ? select_idle_of(p, prev_cpu, wake_flags, (const struct cpumask *)mask, 0)
		    : -EBUSY;
}

/* A fast one, which the kernel does not look for; not one whose core is busy with somebody else:
 * both would lose more than a slow one is slower. Who is woken synchronously may get the waker's.
 */
static __always_inline s32 idle_fast(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 i = 0;
	struct some_cpus *some = bpf_map_lookup_elem(&fast_cpus, &i);
	struct bpf_cpumask *mask = some ? some->mask : NULL;

	return mask ? select_idle_of(p, prev_cpu, wake_flags, (const struct cpumask *)mask,
				     SCX_PICK_IDLE_CORE)
		    : -EBUSY;
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
