/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ledger.h - several domains: one division over all of them
 *
 * core/cpu/ledger.h decides; here is what it reads of the domains' trees, and what becomes of
 * its weights and moves, by a timer. What a class was served in all is added up here, too, and a
 * leaf's number is given to another class only when no domain has the leaf any more.
 */
#ifndef QLINUX_CPU_LEDGER_H
#define QLINUX_CPU_LEDGER_H

#ifdef SINGLE_CPU
#define make_domains()          false
#define open_ledger()           0
#define place_everywhere(leaf)  ((void)0)
#define retire_everywhere(leaf) ((void)0)
#define tell_ledger(d, servers) ((void)0)
#define add_up_class(c)         ((void)0)
#define add_up_record(r)        ((void)0)
#define set_policies(...)       0
#else

/* So many leaves of a domain are read while its lock is held. */
#define LEDGER_AT_ONCE 64
/* Of so many threads that wait one is looked for that may be served in another domain. */
#define LEDGER_LOOK    8

/* The first CPU of each domain. */
const volatile u16 domain_cpu[DOMAINS_MAX];

static bool ledger_retired; /* some leaf's number may be free soon */

/* ---- classes come, change and go ---------------------------------------- */

/* Under the lock of the domain. */
static void tell_ledger(u32 domain, u32 servers)
{
	if (nr_domains > 1)
		ledger_set_servers(&the_ledger, domain % LEDGER_DOMAINS, servers);
}

/* The leaf is in this domain's tree, too. */
__noinline int place_leaf(u32 domain, u32 leaf)
{
	struct domain __arena *d = ARENA_AT(domain_trees, domain % DOMAINS_MAX);
	unsigned long flags;
	lock_t lock = lock_tree_irq(domain, &flags);

	if (!lock)
		return -EBUSY;
	d->runnable_ns[leaf % HSFQ_NODES] = 0;
	hsfq_mknod_at(&d->tree, leaf % HSFQ_NODES, HSFQ_ROOT, LEDGER_CPU, HSFQ_LEAF);
	if (limit_held(&hierarchy, leaf))
		limit_follow(&d->tree, leaf % HSFQ_NODES, true);
	unlock_irq(lock, &flags);
	return 0;
}

/* The leaf, which the hierarchy has, is in all domains. Only one class is made at a time. */
__noinline int place_everywhere(u32 leaf)
{
	u32 domain;

	if (nr_domains == 1)
		return 0;
	hierarchy.node[leaf % HSFQ_NODES].threads = 1; /* all domains' */
	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
		place_leaf(domain, leaf);
	return 0;
}

__noinline int retire_leaf(u32 domain, u32 leaf)
{
	unsigned long flags;
	lock_t lock = lock_tree_irq(domain, &flags);

	if (!lock)
		return -EBUSY;
	hsfq_retire(tree_at(domain), leaf);
	unlock_irq(lock, &flags);
	return 0;
}

/* The leaf's class is gone. Threads that die may still be in it. */
__noinline int retire_everywhere(u32 leaf)
{
	u32 domain;

	if (nr_domains == 1)
		return 0;
	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
		retire_leaf(domain, leaf);
	ledger_retired = true;
	return 0;
}

/* Has any domain the leaf? */
__noinline int leaf_somewhere(u32 leaf)
{
	u32 domain;

	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
		if (hsfq_valid(tree_at(domain), leaf))
			return true;
	return false;
}

/* Has the ledger the node still? */
static bool in_ledger(u32 n)
{
	return ledger_at(&the_ledger, n % HSFQ_NODES)->weight;
}

/* Leaves of classes that are gone leave the hierarchy, with the classes above that are gone: those
 * that no domain has any more, and the ledger neither. */
__noinline int sweep_hierarchy(void)
{
	u32 retired = HSFQ_USED | HSFQ_LEAF | HSFQ_RETIRED, leaf;
	unsigned long flags;

	ledger_retired = false;
	for (leaf = ROOT_LEAF + CORE_ZERO; leaf < hierarchy.unused && can_loop; leaf++) {
		hsfq_node_t *h = ARENA_AT(hierarchy.node, leaf % HSFQ_NODES);

		if ((h->flags & retired) != retired)
			continue;
		ledger_retired = true;
		if (in_ledger(leaf) || in_ledger(h->parent) || leaf_somewhere(leaf) ||
		    !lock_hierarchy_irq(&flags))
			continue;
		leaf_leave(&hierarchy, leaf % HSFQ_NODES);
		unlock_hierarchy_irq(&flags);
	}
	return 0;
}

__noinline int copy_node(u32 n)
{
	ledger_copy(&the_ledger, &hierarchy, n % HSFQ_NODES);
	return 0;
}

/* Classes are made, weighed and removed while the ledger is drawn up, so it asks before. */
static void copy_hierarchy(void)
{
	u32 n;

	for (n = ROOT_LEAF + CORE_ZERO; n < hierarchy.unused && can_loop; n++)
		copy_node(n);
}

/* ---- what it reads ------------------------------------------------------ */

/* Some of the domain's leaves, from this one on. */
__noinline int read_leaves(u32 domain, u32 from, u64 now)
{
	struct domain __arena *d = ARENA_AT(domain_trees, domain % DOMAINS_MAX);
	unsigned long flags;
	lock_t lock = lock_tree_irq(domain, &flags);
	u32 n;

	if (!lock)
		return 0;
	for (n = from; n < from + LEDGER_AT_ONCE && n < HSFQ_NODES && can_loop; n++) {
		hsfq_node_t *h = ARENA_AT(d->tree.node, n);

		if (h->flags & HSFQ_LEAF)
			ledger_see(&the_ledger, n, domain, h->runnable, h->weights,
				   *ARENA_AT(d->runnable_ns, n) + h->runnable * now, h->served_ns);
	}
	unlock_irq(lock, &flags);
	return 0;
}

/* And what is in service, which is not charged yet. */
__noinline int read_cpus(u64 now)
{
	struct thread __arena *th;
	u32 cpu;

	for (cpu = CORE_ZERO; cpu < nr_cpus && can_loop; cpu++) {
		struct cpu_state __arena *c = cpu_of(cpu);

		th = served_on(c);
		if (th)
			ledger_cell(&the_ledger, th->leaf % HSFQ_NODES, th->domain % LEDGER_DOMAINS)
				->served_ns += sched_served(as_server(c), now);
	}
	return 0;
}

static void read_domains(u64 now)
{
	u32 domain, from;

	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
		for (from = CORE_ZERO; from < the_ledger.unused && can_loop; from += LEDGER_AT_ONCE)
			read_leaves(domain, from, now);
	read_cpus(now);
}

/* ---- what becomes of it ------------------------------------------------- */

__noinline int settle_ledger(u64 elapsed_ns)
{
	ledger_settle(&the_ledger, elapsed_ns);
	return 0;
}

__noinline int weigh_leaf(u32 domain, u32 leaf)
{
	u32 weight = ledger_share(&the_ledger, leaf % HSFQ_NODES, domain % LEDGER_DOMAINS);
	hsfq_tree_t *t = tree_at(domain);
	unsigned long flags;
	lock_t lock;

	if (t->node[leaf % HSFQ_NODES].weight == weight)
		return 0;
	lock = lock_tree_irq(domain, &flags);
	if (!lock)
		return 0;
	if (hsfq_valid(t, leaf))
		hsfq_weigh(t, leaf % HSFQ_NODES, weight);
	unlock_irq(lock, &flags);
	return 0;
}

static void weigh_leaves(void)
{
	u32 domain, leaf;

	for (leaf = ROOT_LEAF + CORE_ZERO; leaf < the_ledger.unused && can_loop; leaf++) {
		if (!the_ledger.node[leaf % HSFQ_NODES].leaf ||
		    !the_ledger.node[leaf % HSFQ_NODES].weight)
			continue;
		for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
			weigh_leaf(domain, leaf);
	}
}

/* A CPU of the domain that may serve the thread, -1: there is none. */
__noinline int cpu_in(struct task_struct *p __arg_trusted, u32 domain)
{
	u32 first = domain_cpu[domain % DOMAINS_MAX], cpu = first, i;
	s32 found = -1;

	bpf_rcu_read_lock();
	for (i = CORE_ZERO; i < nr_cpus && can_loop; i++) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !cpu_of(cpu)->leaving) {
			found = cpu;
			break;
		}
		cpu = cpu_after[cpu % CPUS_MAX];
		if (cpu == first)
			break;
	}
	bpf_rcu_read_unlock();
	return found;
}

/* A CPU for a new thread that found none idle, whose parent runs on this one. */
__noinline int cpu_for_new(struct task_struct *p __arg_trusted, u32 leaf, s32 cpu)
{
	u32 home = domain_of(cpu), to;

	barrier_var(leaf);
	to = ledger_place(&the_ledger, leaf % HSFQ_NODES, home);
	if (to == home)
		return cpu;
	home = cpu_in(p, to);
	return (s32)home >= 0 ? (s32)home : cpu;
}

/* A thread waits in the domain of which no CPU there has heard. */
__noinline int look_again_in(u32 domain)
{
	u32 first = domain_cpu[domain % DOMAINS_MAX], cpu = first, i;

	for (i = CORE_ZERO; i < nr_cpus && can_loop; i++) {
		look_again(cpu);
		cpu = cpu_after[cpu % CPUS_MAX];
		if (cpu == first)
			break;
	}
	return 0;
}

/* One of the leaf's threads that wait in one domain waits in the other from now on. */
__noinline int move_one(u32 leaf, u32 from, u32 to, u64 now)
{
	struct thread __arena *th;
	struct task_struct *p;
	s32 cpu = -1;
	u32 n = 0;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, queue_of(from, leaf), 0) {
		th = thread_of(p);
		cpu = cpu_in(p, to);
		if (th && cpu >= 0 && go_waiting(th, cpu, now)) {
			dsq_move_set_vtime(THIS_ITER, leaf_key(&th->lt));
			dsq_move_vtime(THIS_ITER, p, queue_of(to, leaf), 0);
			break;
		}
		cpu = -1;
		if (++n == LEDGER_LOOK)
			break;
	}
	bpf_rcu_read_unlock();
	if (cpu < 0)
		return 0;
	CORE_COUNT(hsfq_totals.moved);
	look_again_in(to);
	return 0;
}

/* The next thread that is to move. False: nobody is. */
__noinline int move_next(u64 now)
{
	struct ledger_move m = ledger_move(&the_ledger);

	if (m.leaf)
		move_one(m.leaf, m.from, m.to, now);
	return m.leaf;
}

__noinline int somebody_runs(void)
{
	u32 domain;

	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
		if (tree_at(domain)->runnable)
			return true;
	return false;
}

static int ledger_fires(void *map, u32 *key, struct quantum_timer *t)
{
	u64 now = clock_now(), elapsed_ns = now - ledger_last_ns;

	ledger_last_ns = now;
	copy_hierarchy();
	read_domains(now);
	settle_ledger(elapsed_ns);
	weigh_leaves();
	while (move_next(now) && can_loop)
		;
	if (ledger_retired)
		sweep_hierarchy();
	if (ledger_retired || somebody_runs())
		bpf_timer_start(&t->timer, LEDGER_PERIOD_NS, 0);
	else
		ledger_rests = 1;
	return 0;
}

/* ---- the scheduler starts ------------------------------------------------ */

/* Sleepable. Trees of the domains and the ledger; false: there is no memory. */
static __always_inline bool make_domains(void)
{
	u32 domain;

	if (!make_room(domain_trees, nr_domains * sizeof(struct domain)) ||
	    !make_room(&the_ledger, sizeof(the_ledger)) ||
	    !make_room(ledger_cells, (u64)nr_domains * HSFQ_NODES * sizeof(*ledger_cells)))
		return false;
	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++) {
		hsfq_init(tree_at(domain));
		if (name_cpus(domain))
			return false;
	}
	the_ledger.cell = ledger_cells;
	ledger_init(&the_ledger, nr_domains);
	ledger_last_ns = clock_now();
	return true;
}

static __always_inline int open_ledger(void)
{
	struct quantum_timer *t;
	u32 i = 0;

	t = bpf_map_lookup_elem(&ledger_timer, &i);
	if (!t || bpf_timer_init(&t->timer, &ledger_timer, CLOCK_MONOTONIC))
		return -EINVAL;
	bpf_timer_set_callback(&t->timer, ledger_fires);
	return bpf_timer_start(&t->timer, LEDGER_PERIOD_NS, 0);
}

/* ---- what user space is told --------------------------------------------- */

enum sum {
	SUM_SERVED,
	SUM_THREADS,
	SUM_RUNNABLE,
	SUM_MISSES,
};

/* Of a leaf, over all domains. */
__noinline u64 sum_of(u32 leaf, u32 what)
{
	u32 domain;
	u64 sum = 0;

	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++) {
		hsfq_node_t *h = &tree_at(domain)->node[leaf % HSFQ_NODES];

		sum += what == SUM_SERVED     ? h->served_ns
		       : what == SUM_THREADS  ? h->threads
		       : what == SUM_RUNNABLE ? h->runnable
					      : h->misses;
	}
	return sum;
}

/* All service below a node, as it was when the ledger was drawn up last. */
__noinline u64 served_below(u32 n)
{
	return the_ledger.node[n % HSFQ_NODES].served_ns;
}

/* What it is entitled to, in 1e-9 of all CPUs. */
__noinline u64 share_of(u32 n)
{
	u64 all = (u64)the_ledger.servers * LEDGER_CPU;

	return all ? the_ledger.node[n % HSFQ_NODES].share * 1000000000 / all : 0;
}

static __always_inline void add_up_class(struct hsfq_ctl_class *c)
{
	if (nr_domains == 1)
		return;
	c->served_ns = served_below(c->node);
	c->share_ppb = share_of(c->node);
	c->own_ns = sum_of(c->leaf, SUM_SERVED);
	c->threads = sum_of(c->leaf, SUM_THREADS);
	c->runnable = sum_of(c->leaf, SUM_RUNNABLE);
	c->misses = sum_of(c->leaf, SUM_MISSES);
}

static __always_inline void add_up_record(struct hsfq_class_record *r)
{
	if (nr_domains == 1)
		return;
	r->served_ns = served_below(r->node);
	r->own_ns = sum_of(r->leaf, SUM_SERVED);
	r->threads = sum_of(r->leaf, SUM_THREADS);
	r->runnable = sum_of(r->leaf, SUM_RUNNABLE);
	r->misses = sum_of(r->leaf, SUM_MISSES);
}

/* The leaf scheduler in all domains. */
__noinline int set_policies(u32 leaf, u32 policy, u64 now)
{
	unsigned long flags;
	u32 domain;
	lock_t lock;
	int err;

	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++) {
		lock = lock_tree_irq(domain, &flags);
		if (!lock)
			return -EBUSY;
		err = leaf_set_policy(tree_at(domain), leaf % HSFQ_NODES, policy, now);
		unlock_irq(lock, &flags);
		if (err)
			return err;
	}
	return 0;
}
#endif

#endif
