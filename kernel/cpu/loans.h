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

/* Whoever asks core/ for these from here on does it inside. The name that a macro makes anew is not
 * replaced again: it is the function. */
#define IN_LOANS(call)                                                                             \
	({                                                                                         \
		bool entered = enter_loans();                                                      \
		if (entered) {                                                                     \
			call;                                                                      \
			leave_loans();                                                             \
		}                                                                                  \
		entered;                                                                           \
	})

#define lend_changed(b, th)            IN_LOANS(lend_changed(b, th))
#define lend_served(t, th)             IN_LOANS(lend_served(t, th))
#define lend_settle(t, b, th, now)     IN_LOANS(lend_settle(t, b, th, now))
#define lend_exit(t, b, th)            IN_LOANS(lend_exit(t, b, th))
#define lend_move_home(t, b, th, home) IN_LOANS(lend_move_home(t, b, th, home))
/* The holder may be gone by now. */
#define lend_begin(b, th) IN_LOANS(if ((th)->holder) lend_begin(b, th))
#define lend_end(b, th)                                                                            \
	do {                                                                                       \
		if (!IN_LOANS(lend_end(b, th)))                                                    \
			(th)->lends = 0;                                                           \
	} while (0)
#define lend_set_weight(b, th, weight)                                                             \
	({                                                                                         \
		int err = -CORE_EBUSY;                                                             \
		IN_LOANS(err = lend_set_weight(b, th, weight));                                    \
		err;                                                                               \
	})
#else
#define enter_loans() true
#define leave_loans() ((void)0)
#endif

#endif
