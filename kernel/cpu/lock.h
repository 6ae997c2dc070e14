/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lock.h - the locks of the trees, and what is done where one is not to be had
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

private
(tree) struct bpf_res_spin_lock tree_lock; /* of the hierarchy */
private
(plain) struct bpf_spin_lock tree_lock_plain; /* where the kernel has no other (compat.h) */

typedef struct bpf_res_spin_lock *lock_t;

struct domain_lock {
	struct bpf_res_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one a domain, sized before load */
	__type(key, u32);
	__type(value, struct domain_lock);
} domain_locks SEC(".maps");

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

static __always_inline lock_t lock_of(u32 domain)
{
	return nr_domains == 1 ? &tree_lock : bpf_map_lookup_elem(&domain_locks, &domain);
}

static __always_inline bool lock_take_again(lock_t lock)
{
	return lock_take(lock, &tree_lock_plain) || lock_take(lock, &tree_lock_plain);
}

static __always_inline void unlock_tree(lock_t lock)
{
	if (nr_cpus > 1)
		lock_leave(lock, &tree_lock_plain);
}

/* The lock of the domain's tree, taken; NULL: it is not to be had. `surely`: what is to be done
 * cannot be left undone, so it is tried for a second. */
static __always_inline lock_t lock_tree_or(u32 domain, bool surely)
{
	lock_t lock = lock_of(domain);

	if (nr_cpus == 1 || !lock)
		return lock;
	if (!surely && lock_rests())
		return NULL;
	if (lock_take_again(lock) || (surely && lock_take_again(lock)))
		return lock;
	lock_failed();
	return NULL;
}

static __always_inline lock_t lock_tree(u32 domain)
{
	return lock_tree_or(domain, false);
}

/* The hierarchy's, likewise. */
static __always_inline bool lock_hierarchy(void)
{
	return nr_cpus == 1 || lock_take_again(&tree_lock) || lock_take_again(&tree_lock) ||
	       lock_failed();
}

static __always_inline void unlock_hierarchy(void)
{
	unlock_tree(&tree_lock);
}

/* Is the thread in another domain than the one that was locked for it? Only the ledger takes it to
 * one behind its back, so twice is as good as never. */
static __always_inline bool went_elsewhere(struct thread __arena *th, u32 domain)
{
	return nr_domains > 1 && th->domain != domain;
}

/* The lock of the tree in which the thread is, likewise. */
static __always_inline lock_t lock_thread_or(struct thread __arena *th, bool surely)
{
	u32 domain = domain_of_thread(th);
	lock_t lock = lock_tree_or(domain, surely);

	if (!lock || !went_elsewhere(th, domain))
		return lock;
	unlock_tree(lock);
	domain = th->domain;
	lock = lock_tree_or(domain, surely);
	if (!lock || !went_elsewhere(th, domain))
		return lock;
	unlock_tree(lock);
	return NULL;
}

static __always_inline lock_t lock_thread(struct thread __arena *th)
{
	return lock_thread_or(th, false);
}

static __always_inline lock_t lock_thread_surely(struct thread __arena *th)
{
	return lock_thread_or(th, true);
}

#ifdef SINGLE_CPU
static __always_inline lock_t lock_irq(lock_t lock, unsigned long *flags)
{
	name_arena();
	bpf_local_irq_save(flags);
	return lock;
}

static __always_inline void unlock_irq(lock_t lock, unsigned long *flags)
{
	bpf_local_irq_restore(flags);
}
#else
static __always_inline bool lock_take_again_irq(lock_t lock, unsigned long *flags)
{
	return lock_take_irq(lock, &tree_lock_plain, flags) ||
	       lock_take_irq(lock, &tree_lock_plain, flags);
}

/* Where interrupts may be on, likewise. */
static __always_inline lock_t lock_irq(lock_t lock, unsigned long *flags)
{
	name_arena();
	if (!lock || lock_take_again_irq(lock, flags) || lock_take_again_irq(lock, flags))
		return lock;
	lock_failed();
	return NULL;
}

static __always_inline void unlock_irq(lock_t lock, unsigned long *flags)
{
	lock_leave_irq(lock, &tree_lock_plain, flags);
}
#endif

static __always_inline lock_t lock_tree_irq(u32 domain, unsigned long *flags)
{
	return lock_irq(lock_of(domain), flags);
}

static __always_inline bool lock_hierarchy_irq(unsigned long *flags)
{
	return lock_irq(&tree_lock, flags);
}

static __always_inline void unlock_hierarchy_irq(unsigned long *flags)
{
	unlock_irq(&tree_lock, flags);
}

/* That of all loans (loans.h). */
#ifdef SINGLE_CPU
#define loans_lock tree_lock
#endif
static __always_inline bool lock_loans(void)
{
	return nr_domains > 1 ? enter_loans() : !!lock_tree(0);
}

static __always_inline void unlock_loans(void)
{
	if (nr_domains > 1)
		leave_loans();
	else
		unlock_hierarchy();
}

static __always_inline bool lock_loans_irq(unsigned long *flags)
{
	return lock_irq(nr_domains == 1 ? &tree_lock : &loans_lock, flags);
}

static __always_inline void unlock_loans_irq(unsigned long *flags)
{
	unlock_irq(nr_domains == 1 ? &tree_lock : &loans_lock, flags);
}

#endif
