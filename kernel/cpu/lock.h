/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lock.h - the tree's lock, and what is done where it is not to be had
 *
 * bpf_res_spin_lock gives up after a quarter of a second, as when a host does not let the
 * virtual CPU go on that holds it. That ends no scheduler: it is tried again, and then the
 * tree is not asked. A thread that wants a CPU is served in order of arrival, and what it
 * was served is charged the next time, for charges go from one reading of its clock to the
 * next. One that goes to sleep stays runnable in the books until it wakes. And nobody tries
 * for a while, which is twice as long each time that it fails soon after: who tries has his
 * interrupts off.
 *
 * Interrupts are off in every callback that holds a run queue's lock. With a single
 * processor that is enough: whoever else takes the lock has them off, too.
 */
#ifndef QLINUX_CPU_LOCK_H
#define QLINUX_CPU_LOCK_H

/* Nobody tries for so long after it has failed, and for so long at most. */
#define LOCK_REST_MIN_NS 5000000ULL
#define LOCK_REST_MAX_NS 320000000ULL
/* So soon after a failure the next is one of the same cause. */
#define LOCK_SOON_NS 2000000000ULL

#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))
private
(tree) struct bpf_res_spin_lock tree_lock;
private
(plain) struct bpf_spin_lock tree_lock_plain; /* where the kernel has no other (compat.h) */

static volatile u64 lock_rests_until; /* 0: it did not fail lately */
static volatile u64 lock_failed_at;   /* the last time that it did, */
static volatile u64 lock_rest_ns;     /* and how long the rest was after it */
static volatile u64 lock_fails_at;    /* a test makes it fail next (fail_lock_ns) */

/* Is it not to be tried now? */
static __always_inline bool lock_rests(void)
{
	u64 until = lock_rests_until, now;

	if (!until && !fail_lock_ns)
		return false;
	now = clock_now();
	if (until && now < until)
		return true;
	lock_rests_until = 0;
	if (!fail_lock_ns || now < lock_fails_at)
		return false;
	lock_fails_at = now + fail_lock_ns;
	hsfq_totals.lock_failures++;
	return true;
}

static __noinline bool lock_failed(void)
{
	u64 now = clock_now(), rest = lock_rest_ns * 2;

	if (now - lock_failed_at > LOCK_SOON_NS || rest < LOCK_REST_MIN_NS)
		rest = LOCK_REST_MIN_NS;
	if (rest > LOCK_REST_MAX_NS)
		rest = LOCK_REST_MAX_NS;
	lock_rest_ns = rest;
	lock_failed_at = now;
	lock_rests_until = now + rest;
	hsfq_totals.lock_failures++;
	return false;
}

static __always_inline bool lock_take_again(void)
{
	return lock_take(&tree_lock, &tree_lock_plain) || lock_take(&tree_lock, &tree_lock_plain);
}

static __always_inline bool lock_tree(void)
{
	if (nr_cpus == 1)
		return true;
	if (lock_rests())
		return false;
	return lock_take_again() || lock_failed();
}

/* Where what is to be done cannot be left undone: it is tried for a second. */
static __always_inline bool lock_tree_surely(void)
{
	return nr_cpus == 1 || lock_take_again() || lock_take_again() || lock_failed();
}

static __always_inline void unlock_tree(void)
{
	if (nr_cpus > 1)
		lock_leave(&tree_lock, &tree_lock_plain);
}

#ifdef SINGLE_CPU
static __always_inline bool lock_tree_irq(unsigned long *flags)
{
	name_arena();
	bpf_local_irq_save(flags);
	return true;
}

static __always_inline void unlock_tree_irq(unsigned long *flags)
{
	bpf_local_irq_restore(flags);
}
#else
static __always_inline bool lock_take_again_irq(unsigned long *flags)
{
	return lock_take_irq(&tree_lock, &tree_lock_plain, flags) ||
	       lock_take_irq(&tree_lock, &tree_lock_plain, flags);
}

/* Where interrupts may be on, likewise. */
static __always_inline bool lock_tree_irq(unsigned long *flags)
{
	name_arena();
	return lock_take_again_irq(flags) || lock_take_again_irq(flags) || lock_failed();
}

static __always_inline void unlock_tree_irq(unsigned long *flags)
{
	lock_leave_irq(&tree_lock, &tree_lock_plain, flags);
}
#endif

#endif
