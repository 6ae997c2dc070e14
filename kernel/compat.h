/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.h - what differs from kernel to kernel, from 6.12 on
 *
 * One object is loaded by all of them. A function that the running kernel lacks has the
 * address 0 then, which the verifier knows: it does not look at the branch that calls it.
 * Callbacks and flags that a kernel does not know are taken out of the operations before
 * they are loaded (crates/qlinux, operations.rs). Functions and members are asked for, never a
 * version, since distributions carry changes back. No other file here has a weak symbol.
 *
 *   6.13  a queue's functions were called dispatch and consume
 *   6.14  scx_bpf_now, bpf_task_from_vpid, bpf_local_irq_save
 *   6.15  bpf_res_spin_lock; scx_bpf_cpuperf_set of any CPU
 *   6.16  scx_bpf_select_cpu_and; 6.19 with a structure
 *   6.17  limits of cgroups (cpu.max)
 *   6.19  scx_bpf_dsq_peek, scx_bpf_task_set_slice, insertion with a structure
 *   7.1   the context of a "syscall" program at variable offsets, or as a map's key
 *   7.3   a cgroup that is idle already (cpu.idle)
 */
#ifndef QLINUX_COMPAT_H
#define QLINUX_COMPAT_H

#define HAS(function) bpf_ksym_exists(function)

/* The newest kernel's types have these no more. */
extern void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice,
			     u64 enq_flags) __weak __ksym;
extern void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				   u64 enq_flags) __weak __ksym;
extern bool scx_bpf_consume(u64 dsq_id) __weak __ksym;
extern void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it__iter,
						u64 slice) __weak __ksym;
extern void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it__iter,
						u64 vtime) __weak __ksym;
extern bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
				      u64 dsq_id, u64 enq_flags) __weak __ksym;
extern bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it__iter,
					    struct task_struct *p, u64 dsq_id,
					    u64 enq_flags) __weak __ksym;

/* ---- a thread into a queue, and out of it ------------------------------- */

/* 6.13 */
static __always_inline void dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	if (HAS(scx_bpf_dsq_insert))
		scx_bpf_dsq_insert(p, dsq, slice, flags);
	else
		scx_bpf_dispatch(p, dsq, slice, flags);
}

/* As struct scx_bpf_dsq_insert_vtime_args, which must not be named: a kernel that
 * lacks it refuses the whole program for that, called or not. */
struct dsq_place {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

/* 6.19; 6.13 with five arguments */
static __always_inline void dsq_insert_vtime(struct task_struct *p, struct dsq_place *to)
{
	if (HAS(__scx_bpf_dsq_insert_vtime))
		__scx_bpf_dsq_insert_vtime(p, (void *)to);
	else if (HAS(scx_bpf_dsq_insert_vtime))
		scx_bpf_dsq_insert_vtime(p, to->dsq_id, to->slice, to->vtime, to->enq_flags);
	else
		scx_bpf_dispatch_vtime(p, to->dsq_id, to->slice, to->vtime, to->enq_flags);
}

/* 6.13 */
static __always_inline bool dsq_move_to_local(u64 dsq)
{
	return HAS(scx_bpf_dsq_move_to_local) ? scx_bpf_dsq_move_to_local(dsq)
					      : scx_bpf_consume(dsq);
}

/* 6.13 */
static __always_inline void dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice)
{
	if (HAS(scx_bpf_dsq_move_set_slice))
		scx_bpf_dsq_move_set_slice(it, slice);
	else
		scx_bpf_dispatch_from_dsq_set_slice(it, slice);
}

/* 6.13 */
static __always_inline void dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime)
{
	if (HAS(scx_bpf_dsq_move_set_vtime))
		scx_bpf_dsq_move_set_vtime(it, vtime);
	else
		scx_bpf_dispatch_from_dsq_set_vtime(it, vtime);
}

/* 6.13 */
static __always_inline bool dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq,
				     u64 flags)
{
	return HAS(scx_bpf_dsq_move) ? scx_bpf_dsq_move(it, p, dsq, flags)
				     : scx_bpf_dispatch_from_dsq(it, p, dsq, flags);
}

/* 6.13 */
static __always_inline bool dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					   u64 dsq, u64 flags)
{
	return HAS(scx_bpf_dsq_move_vtime) ? scx_bpf_dsq_move_vtime(it, p, dsq, flags)
					   : scx_bpf_dispatch_vtime_from_dsq(it, p, dsq, flags);
}

/* On frames of their own: the iterator is large. */
static __noinline bool dsq_first_before_iterated(u64 dsq, u64 vtime)
{
	struct task_struct *head;

	bpf_for_each (scx_dsq, head, dsq, 0) {
		return (s64)(head->scx.dsq_vtime - vtime) <= 0;
	}
	return false;
}

static __noinline s32 dsq_idle_cpu_iterated(u64 dsq)
{
	struct task_struct *head;

	bpf_for_each (scx_dsq, head, dsq, 0) {
		return scx_bpf_pick_idle_cpu(head->cpus_ptr, 0);
	}
	return -1;
}

/* 6.19: does the first thread of the queue, if there is one, not come after this key? */
static __always_inline bool dsq_first_before(u64 dsq, u64 vtime)
{
	struct task_struct *head;

	if (!HAS(scx_bpf_dsq_peek))
		return dsq_first_before_iterated(dsq, vtime);
	head = scx_bpf_dsq_peek(dsq);
	return head && (s64)(head->scx.dsq_vtime - vtime) <= 0;
}

/* 6.19: a CPU that is idle, and is no longer counted so, for the queue's first thread;
 * negative: there is none. */
static __always_inline s32 dsq_idle_cpu(u64 dsq)
{
	struct task_struct *head;

	if (!HAS(scx_bpf_dsq_peek))
		return dsq_idle_cpu_iterated(dsq);
	head = scx_bpf_dsq_peek(dsq);
	return head ? scx_bpf_pick_idle_cpu(head->cpus_ptr, 0) : -1;
}

/* As struct scx_bpf_select_cpu_and_args, which must not be named either. */
struct select_near {
	s32 prev_cpu;
	u64 wake_flags;
	u64 flags;
};

/* 6.19; 6.16 with five arguments: an idle CPU of these, which is no longer counted so, or a
 * negative number. Before, none is said to be. */
static __always_inline s32 select_idle_of(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
					  const struct cpumask *cpus, u64 flags)
{
	struct select_near near = {prev_cpu, wake_flags, flags};

	if (HAS(__scx_bpf_select_cpu_and))
		return __scx_bpf_select_cpu_and(p, cpus, (void *)&near);
	if (HAS(scx_bpf_select_cpu_and))
		return scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, cpus, flags);
	return -1;
}

/* 6.15: of a CPU whose run queue the caller has not locked. Before, nothing guarded that. */
static __always_inline void cpuperf_set_elsewhere(s32 cpu, u32 perf)
{
	if (HAS(bpf_res_spin_lock))
		scx_bpf_cpuperf_set(cpu, perf);
}

/* ---- threads, time ------------------------------------------------------ */

/* 6.19; before, the member was written. */
static __always_inline void task_set_slice(struct task_struct *p, u64 slice)
{
	if (HAS(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

/* 6.14. Within ops that hold this CPU's run queue, the time that the kernel has read last.
 * Elsewhere that may be some milliseconds ago: who moves a thread away from a run queue reads the
 * time for it, and leaves it there as if it were good. */
static __always_inline u64 clock_of_queue(void)
{
	return HAS(scx_bpf_now) ? scx_bpf_now() : bpf_ktime_get_ns();
}

/* 6.14: the thread that has this ID for the current one. Before, only where both are in
 * the machine's own PID namespace. */
static __always_inline struct task_struct *task_from_vpid(s32 vpid)
{
	if (HAS(bpf_task_from_vpid))
		return bpf_task_from_vpid(vpid);
	if (BPF_CORE_READ(bpf_get_current_task_btf(), thread_pid, level))
		return NULL;
	return bpf_task_from_pid(vpid);
}

/* ---- locks -------------------------------------------------------------- */

/*
 * 6.15: a lock that gives up after a quarter of a second. Before, one that waits for as long
 * as it takes, which turns interrupts off itself. Each kernel uses one of the two.
 */
static __always_inline bool lock_take(struct bpf_res_spin_lock *lock, struct bpf_spin_lock *plain)
{
	if (HAS(bpf_res_spin_lock))
		return !bpf_res_spin_lock(lock);
	bpf_spin_lock(plain);
	return true;
}

static __always_inline void lock_leave(struct bpf_res_spin_lock *lock, struct bpf_spin_lock *plain)
{
	if (HAS(bpf_res_spin_lock))
		bpf_res_spin_unlock(lock);
	else
		bpf_spin_unlock(plain);
}

/* The same where interrupts may be on. */
static __always_inline bool lock_take_irq(struct bpf_res_spin_lock *lock,
					  struct bpf_spin_lock *plain, unsigned long *flags)
{
	if (HAS(bpf_res_spin_lock))
		return !bpf_res_spin_lock_irqsave(lock, flags);
	bpf_spin_lock(plain);
	return true;
}

static __always_inline void lock_leave_irq(struct bpf_res_spin_lock *lock,
					   struct bpf_spin_lock *plain, unsigned long *flags)
{
	if (HAS(bpf_res_spin_lock))
		bpf_res_spin_unlock_irqrestore(lock, flags);
	else
		bpf_spin_unlock(plain);
}

/* ---- cgroups ------------------------------------------------------------ */

struct cgroup_limit {
	u64 period_us;
	u64 quota_us; /* the greatest: no limit */
	u64 burst_us;
};

/* 6.17: cpu.max of a cgroup that is being made, or was there before. */
static __always_inline struct cgroup_limit cgroup_limit_of(struct scx_cgroup_init_args *args)
{
	struct cgroup_limit l = {.quota_us = ~0ULL};

	if (bpf_core_field_exists(args->bw_period_us)) {
		l.period_us = args->bw_period_us;
		l.quota_us = args->bw_quota_us;
		l.burst_us = args->bw_burst_us;
	}
	return l;
}

/* 7.3: cpu.idle of it. */
static __always_inline bool cgroup_idle_of(struct scx_cgroup_init_args *args)
{
	return bpf_core_field_exists(args->sched_idle) && args->sched_idle;
}

/* ---- the arena ---------------------------------------------------------- */

/* 6.19: before, a number plus a pointer into the arena was refused, which the compiler likes
 * to make of a pointer plus a number. */
#define ARENA_AT(array, index)                                                                     \
	({                                                                                         \
		typeof(&(array)[0]) at_ = (array);                                                 \
		u64 offset_ = (u64)(index) * sizeof(*at_);                                         \
		asm volatile("%0 += %1" : "+r"(at_) : "r"(offset_));                               \
		at_;                                                                               \
	})

/* ---- the context of "syscall" programs ---------------------------------- */

/* 7.1: before, it was reached at constant offsets only. So what is copied there or from there
 * is copied word by word, in a loop that the compiler unrolls. */
#define CONTEXT_COPY(word, to, from, bytes)                                                        \
	do {                                                                                       \
		volatile word *to_ = (volatile word *)(to);                                        \
		u32 i_;                                                                            \
		_Pragma("unroll") for (i_ = 0; i_ < (bytes) / sizeof(word); i_++) to_[i_] =        \
			(from)[i_];                                                                \
	} while (0)

#endif
