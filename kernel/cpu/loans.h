/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loans.h - several domains: one lock for the loans of all
 *
 * Who lends to whom goes across domains, each of which has a lock for its tree. So loans have one
 * of their own, which is taken inside of those and never around one. With one domain the tree's
 * lock is theirs too.
 *
 * It is not to be had only where its holder's CPU stands still (lock.h). Then a loan is not made,
 * or is noticed to be over the next time that one of its threads is settled.
 */
#ifndef QLINUX_CPU_LOANS_H
#define QLINUX_CPU_LOANS_H

#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))

#ifndef SINGLE_CPU
private
(loans) struct bpf_res_spin_lock loans_lock;

/* Inside of a domain's lock; with one domain that will do. */
static __always_inline bool enter_loans(void)
{
	return nr_domains == 1 || !bpf_res_spin_lock(&loans_lock);
}

static __always_inline void leave_loans(void)
{
	if (nr_domains > 1)
		bpf_res_spin_unlock(&loans_lock);
}

static __always_inline void loans_changed(struct lend_book __arena *b, lend_thread_t *th)
{
	if (!enter_loans())
		return;
	lend_changed(b, th);
	leave_loans();
}

static __always_inline void loans_begin(struct lend_book __arena *b, lend_thread_t *th)
{
	if (!enter_loans())
		return;
	if (th->holder)
		lend_begin(b, th);
	leave_loans();
}

static __always_inline void loans_end(struct lend_book __arena *b, lend_thread_t *th)
{
	if (enter_loans()) {
		lend_end(b, th);
		leave_loans();
	}
	th->lends = 0;
}

static __always_inline void loans_served(hsfq_tree_t *t, lend_thread_t *th)
{
	if (!enter_loans())
		return;
	lend_served(t, th);
	leave_loans();
}

static __always_inline void loans_settle(hsfq_tree_t *t, struct lend_book __arena *b,
					 lend_thread_t *th, u64 now)
{
	if (!enter_loans())
		return;
	lend_settle(t, b, th, now);
	leave_loans();
}

static __always_inline void loans_exit(hsfq_tree_t *t, struct lend_book __arena *b,
				       lend_thread_t *th)
{
	if (!enter_loans())
		return;
	lend_exit(t, b, th);
	leave_loans();
}

static __always_inline void loans_move_home(hsfq_tree_t *t, struct lend_book __arena *b,
					    lend_thread_t *th, u32 home)
{
	if (!enter_loans())
		return;
	lend_move_home(t, b, th, home);
	leave_loans();
}

static __always_inline int loans_set_weight(struct lend_book __arena *b, lend_thread_t *th,
					    u32 weight)
{
	int err;

	if (!enter_loans())
		return -CORE_EBUSY;
	err = lend_set_weight(b, th, weight);
	leave_loans();
	return err;
}

/* From here on these mean those. */
#define lend_changed(b, th)            loans_changed(b, th)
#define lend_begin(b, th)              loans_begin(b, th)
#define lend_end(b, th)                loans_end(b, th)
#define lend_served(t, th)             loans_served(t, th)
#define lend_settle(t, b, th, now)     loans_settle(t, b, th, now)
#define lend_exit(t, b, th)            loans_exit(t, b, th)
#define lend_move_home(t, b, th, home) loans_move_home(t, b, th, home)
#define lend_set_weight(b, th, weight) loans_set_weight(b, th, weight)
#else
#define enter_loans() true
#define leave_loans() ((void)0)
#endif

#endif
