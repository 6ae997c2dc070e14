/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hotplug.h - CPUs come and go
 *
 * A CPU that goes away hands its threads back by itself. Those that are there are the
 * servers of the tree, by which quanta are as long as they are.
 */
#ifndef QLINUX_CPU_HOTPLUG_H
#define QLINUX_CPU_HOTPLUG_H

/* Of each domain, online. */
static volatile u32 domain_servers[DOMAINS_MAX];

static void set_servers(u32 domain)
{
	hsfq_set_servers(tree_at(domain), domain_servers[domain % DOMAINS_MAX]);
	tell_ledger(domain, domain_servers[domain % DOMAINS_MAX]);
}

/* Where the scheduler starts: nobody else has a CPU's state yet. */
static void count_servers(void)
{
#ifndef SINGLE_CPU
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 cpu, domain;

	for (cpu = CORE_ZERO; cpu < nr_cpus && can_loop; cpu++) {
		if (bpf_cpumask_test_cpu(cpu, online))
			domain_servers[domain_of(cpu) % DOMAINS_MAX]++;
		else
			cpu_of(cpu)->leaving = 1;
	}
	scx_bpf_put_cpumask(online);
	for (domain = CORE_ZERO; domain < nr_domains && can_loop; domain++)
		set_servers(domain);
#endif
}

static void cpu_comes_or_goes(s32 cpu, bool leaving)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	u32 domain = domain_of(cpu);
	unsigned long flags;
	lock_t lock;

	if (c->leaving == leaving)
		return;
	c->leaving = leaving;
	lock = lock_tree_irq(domain, &flags);
	if (!lock)
		return;
	domain_servers[domain % DOMAINS_MAX] += leaving ? -1 : 1;
	set_servers(domain);
	unlock_irq(lock, &flags);
}

SEC("struct_ops/op_cpu_online")
void BPF_PROG(op_cpu_online, s32 cpu)
{
	cpu_comes_or_goes(cpu, false);
}

SEC("struct_ops/op_cpu_offline")
void BPF_PROG(op_cpu_offline, s32 cpu)
{
	struct cpu_state __arena *c = cpu_of(cpu);

	c->th = NULL;
	c->due_ns = c->armed = 0;
	cpu_comes_or_goes(cpu, true);
}

#endif
