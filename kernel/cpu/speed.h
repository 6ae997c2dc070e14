/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * speed.h - the kernel is told how fast each CPU has to be (core/cpu/speed.h)
 *
 * By the CPU itself, at ticks and when it has somebody to serve again: told by another, a CPU that
 * has a frequency of its own would take no notice. For one that rests for long a timer says so, and
 * a CPU that shares its frequency hears of it at its next tick.
 */
#ifndef QLINUX_CPU_SPEED_H
#define QLINUX_CPU_SPEED_H

/* The CPU serves somebody. */
__noinline int speed_tell(s32 cpu)
{
	struct cpu_state __arena *c = cpu_of(cpu);
	u64 now = clock_now();
	u32 need;

	speed_serves(&c->speed, now);
	need = speed_see(&c->speed, scx_bpf_cpuperf_cur(cpu), now);
	if (need <= SPEED_FULL)
		scx_bpf_cpuperf_set(cpu, need);
	return 0;
}

/* It has nobody to serve, but for one who is being brought. */
static void speed_nobody(struct cpu_state __arena *c)
{
	if (by_load)
		speed_rests(&c->speed, clock_now());
}

static void speed_start(u32 cpu)
{
	u64 now = clock_now();

	speed_init(&cpu_of(cpu)->speed, now);
	speed_rests(&cpu_of(cpu)->speed, now);
}

/* From a timer. */
__noinline int speed_all(u64 now)
{
	u32 cpu;

	for (cpu = CORE_ZERO; cpu < nr_cpus && can_loop; cpu++) {
		if (!cpu_of(cpu)->leaving && speed_over(&cpu_of(cpu)->speed, now))
			cpuperf_set_elsewhere(cpu, 0);
	}
	return 0;
}

#endif
