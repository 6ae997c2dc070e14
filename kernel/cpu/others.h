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

/* So many other CPUs at most are looked at. */
#define OTHERS_MAX 64

/* The i-th CPU after this one, and the thread that is served there; NULL: none
 * of ours, or its quantum is ending already. */
static struct thread __arena *served_by(s32 cpu, u32 i, struct cpu_state __arena **c)
{
	u32 other = ((u32)cpu + i) % nr_cpus;

	*c = cpu_of(other);
	return (*c)->ending ? NULL : (*c)->th;
}

static void end_elsewhere(s32 cpu, u32 i, struct cpu_state __arena *c)
{
	c->ending = 1;
	hsfq_totals.preemptions++;
	scx_bpf_kick_cpu(((u32)cpu + i) % nr_cpus, SCX_KICK_PREEMPT);
}

/* Of a thread that is in no queue, and the first that waits in the same leaf: does
 * it come first? */
static bool first_of_leaf(struct thread __arena *th)
{
	return !dsq_first_before(th->leaf, leaf_key(&th->lt));
}

/* Of a thread that is in no queue: is no thread of its leaf so far before it that this CPU,
 * where it was served last, would not prefer it? */
static bool near_first(struct thread __arena *th)
{
	u64 near = nr_cpus > 1 ? leaf_near(&tree.node[th->leaf % HSFQ_NODES]) : 0;

	return !dsq_first_before(th->leaf, leaf_key(&th->lt) - near);
}

/* Of so many threads of a leaf this CPU looks for one that it has served last. */
#define NEAR_MOST 8

/* Takes the leaf's first thread that was served here last, if its key is not greater than
 * the first one's by more than this. */
__noinline int take_near(u32 leaf, s32 cpu, u64 near)
{
	struct task_struct *p;
	bool moved = false;
	u64 first = 0;
	u32 n = 0;

	bpf_for_each (scx_dsq, p, leaf, 0) {
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
	u64 near = 0;

	if (nr_cpus > 1 && !cpu_of(cpu)->ending)
		near = leaf_near(&tree.node[leaf % HSFQ_NODES]);

	return (near && take_near(leaf, cpu, near)) || dsq_move_to_local(leaf);
}

/*
 * Both comparisons are functions of their own that are not static: as part of a loop over CPUs,
 * 6.18's verifier stumbles over them ("backtracking exit unexpected regs") from three CPUs on.
 */
__noinline int outranks(struct thread __arena *th __arg_arena, u32 chosen,
			struct thread __arena *other __arg_arena, u64 ran_ns, u64 now)
{
	return leaf_outranks(&tree, th->leaf, &th->lt, chosen, other->leaf, &other->lt, ran_ns,
			     now);
}

__noinline int ends(struct thread __arena *th __arg_arena, struct thread __arena *other __arg_arena,
		    u64 ran_ns, u64 now, bool eager)
{
	return quantum_ends(&tree, th->leaf, &th->lt, other->leaf, &other->lt, ran_ns, now, eager);
}

/*
 * This CPU has chosen another leaf than that of its thread, whose quantum is
 * over. Does that thread go on all the same (core/cpu/quantum.h)? If it outranks one
 * in service elsewhere (core/cpu/leaf.h), it is the other one's CPU that changes, and
 * one that has to does not pass that on.
 */
__noinline int takes_over(s32 cpu, struct thread __arena *th __arg_arena, u32 chosen, u64 now)
{
	struct cpu_state __arena *c;
	struct thread __arena *other;
	u32 i;

	if (cpu_of(cpu)->ending)
		return false;
	if (quantum_goes_on(&tree, th->leaf, chosen) && first_of_leaf(th))
		return true;
	for (i = 1; i < nr_cpus && i < OTHERS_MAX && can_loop; i++) {
		other = served_by(cpu, i, &c);
		if (!other || !outranks(th, chosen, other, served_for(c, now), now))
			continue;
		end_elsewhere(cpu, i, c);
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
	struct cpu_state __arena *c;
	struct thread __arena *other;
	u32 i;

	for (i = 1; i < nr_cpus && i < OTHERS_MAX && can_loop; i++) {
		other = served_by(cpu, i, &c);
		if (!other || !bpf_cpumask_test_cpu(((u32)cpu + i) % nr_cpus, p->cpus_ptr))
			continue;
		if (!ends(th, other, served_for(c, now), now, quantum_eager(c->calm, now)))
			continue;
		c->calm = quantum_calm(c->calm, now);
		end_elsewhere(cpu, i, c);
		return true;
	}
	return false;
}

#endif
