/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pace.h - the kernel is told how fast each CPU has to be (core/cpu/pace.h)
 *
 * By the CPU itself, at ticks and when it has somebody to serve again: told by another, a CPU that
 * has a frequency of its own would take no notice. Whoever rests for long is spoken for by a timer.
 */
#ifndef QLINUX_CPU_PACE_H
#define QLINUX_CPU_PACE_H

/* The CPU serves somebody: it is looked at again, and told if that changes much. */
__noinline int pace_tell(s32 cpu)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	u64 now = clock_now();
	u32 need;

	pace_serves(&c->pace, now);
	need = pace_see(&c->pace, scx_bpf_cpuperf_cur(cpu), now);
	if (need <= PACE_FULL)
		scx_bpf_cpuperf_set(cpu, need);
	return 0;
}

/* It has nobody to serve, but for one who is being brought. */
static void pace_nobody(struct cpu_state __arena *c)
{
	if (paced)
		pace_rests(&c->pace, clock_now());
}

static void pace_start(u32 cpu)
{
	u64 now = clock_now();

	pace_init(&cpu_of(cpu)->pace, now);
	pace_rests(&cpu_of(cpu)->pace, now);
}

/* From a timer. */
__noinline int pace_all(u64 now)
{
	u32 cpu;

	for (cpu = CORE_ZERO; cpu < nr_cpus && can_loop; cpu++) {
		if (pace_over(&cpu_of(cpu)->pace, now))
			scx_bpf_cpuperf_set(cpu, 0);
	}
	return 0;
}

#endif
