/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * others.h - several CPUs: whose quantum is to end elsewhere
 *
 * Other CPUs are looked at without the lock, one path of the tree each. What is
 * seen may be out of date the next moment; that costs a switch or a short wait,
 * the accounts are kept under the lock.
 */
#ifndef QLINUX_CPU_OTHERS_H
#define QLINUX_CPU_OTHERS_H

/* So many other CPUs at most are looked at for some that the thread may be served on. */
#define OTHERS_MAX 64

/* The next CPU of the domain, the first after the last. */
static u32 after(u32 cpu)
{
	if (nr_domains > 1)
		return cpu_after[cpu % CPUS_MAX];
	return cpu + 1 < nr_cpus ? cpu + 1 : 0;
}

/* Its quantum is to end, as the tree's rules have it. */
static void end_on(u32 cpu)
{
	CORE_COUNT(hsfq_totals.preemptions);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Of a thread that is in no queue, and the first that waits in the same leaf: does
 * it come first? */
static bool first_of_leaf(struct thread __arena *th)
{
	return !dsq_first_before(queue_for(th), leaf_key(&th->lt));
}

/* Of a thread that is in no queue: is no thread of its leaf so far before it that this CPU,
 * where it was served last, would not prefer it? */
static bool near_first(struct thread __arena *th)
{
	hsfq_node_t *h = &tree_of(th)->node[th->leaf % HSFQ_NODES];
	u64 near = nr_cpus > 1 ? leaf_near(h) : 0;

	return h->waiting == 1 || !dsq_first_before(queue_for(th), leaf_key(&th->lt) - near);
}

/* Of so many threads of a leaf this CPU looks for one that it has served last. */
#define NEAR_MOST 8

/* Does a thread wait in the leaf that was served here last, or so many that one may well be? */
__noinline int waits_here(u32 queue, s32 cpu)
{
	struct task_struct *p;
	u32 n = 0;

	bpf_for_each (scx_dsq, p, queue, 0) {
		if (task_cpu(p) == cpu || ++n == NEAR_MOST)
			return true;
	}
	return false;
}

/* Takes the leaf's first thread that was served here last, if its key is not greater than
 * the first one's by more than this. */
__noinline int take_near(u32 queue, s32 cpu, u64 near)
{
	struct task_struct *p;
	bool moved = false;
	u64 first = 0;
	u32 n = 0;

	bpf_for_each (scx_dsq, p, queue, 0) {
		if (!n)
			first = p->scx.dsq_vtime;
		if (n++ == NEAR_MOST || p->scx.dsq_vtime - first > near)
			break;
		if (task_cpu(p) != cpu)
			continue;
		moved = dsq_move(THIS_ITER, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	return moved;
}

/* A thread of the leaf is the next to be served here: the first where a quantum was cut for
 * it. False: there is none for this CPU. */
static bool take(u32 leaf, s32 cpu)
{
	u32 domain = domain_of(cpu), queue = queue_of(domain, leaf);
	hsfq_node_t *h = &tree_at(domain)->node[leaf % HSFQ_NODES];
	u64 near = 0;

	if (nr_cpus > 1 && h->waiting > 1 && !sched_gives_way(as_server(cpu_of(cpu))))
		near = leaf_near(h);
	return (near && take_near(queue, cpu, near)) || dsq_move_to_local(queue);
}

/*
 * Both comparisons are functions of their own that are not static: as part of a loop over CPUs,
 * 6.18's verifier stumbles over them ("backtracking exit unexpected regs") from three CPUs on.
 */
__noinline int outranks(struct thread __arena *th __arg_arena, u32 chosen, u32 other, u64 now)
{
	return sched_outranks(tree_of(th), as_server(cpu_of(other)), as_lend(th), chosen, now);
}

__noinline int ends(struct thread __arena *th __arg_arena, u32 other, u64 now)
{
	return sched_ends_elsewhere(tree_of(th), as_server(cpu_of(other)), as_lend(th), now);
}

/* This CPU has chosen another leaf than that of its thread, whose quantum is over. Does that
 * thread go on all the same, here or in place of one in service elsewhere? */
__noinline int takes_over(s32 cpu, struct thread __arena *th __arg_arena, u32 chosen, u64 now)
{
	u32 i, other = cpu;

	if (sched_gives_way(as_server(cpu_of(cpu))))
		return false;
	if (sched_goes_on(tree_of(th), as_lend(th), chosen) && first_of_leaf(th))
		return true;
	for (i = 1 + CORE_ZERO; i < nr_cpus && i <= SCHED_OTHERS && can_loop; i++) {
		other = after(other);
		if (nr_domains > 1 && other == cpu)
			break;
		if (!outranks(th, chosen, other, now))
			continue;
		end_on(other);
		return true;
	}
	return false;
}

/*
 * The thread waits, no CPU is idle, and the quantum in service on its own does not end for
 * it at once. Does one end elsewhere?
 */
static bool served_elsewhere(struct task_struct *p, s32 cpu, struct thread __arena *th, u64 now)
{
	u64 peace = sched_peace(tree_of(th), as_lend(th));
	u32 i, other = cpu, left = SCHED_OTHERS + CORE_ZERO;

	for (i = 1 + CORE_ZERO; i < nr_cpus && i < OTHERS_MAX && left && can_loop; i++) {
		other = after(other);
		if (nr_domains > 1 && other == cpu)
			break;
		if (!bpf_cpumask_test_cpu(other, p->cpus_ptr))
			continue;
		left--;
		if (sched_in_peace(as_server(cpu_of(other)), th->leaf, peace, now) ||
		    !ends(th, other, now))
			continue;
		end_on(other);
		return true;
	}
	return false;
}

#ifndef SINGLE_CPU
/* The thread has this CPU, a slow one, to itself: does one of the fast ones serve nobody? */
__noinline int faster_rests(struct task_struct *p __arg_trusted, s32 cpu)
{
	u32 other;

	if (cpu_fast[(u32)cpu % CPUS_MAX])
		return false;
	for (other = CORE_ZERO; other < nr_cpus && can_loop; other++)
		if (cpu_fast[other % CPUS_MAX] && !cpu_of(other)->th && !cpu_of(other)->leaving &&
		    bpf_cpumask_test_cpu(other, p->cpus_ptr))
			return true;
	return false;
}
#endif

#endif
