/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * guard.h - who may be at the tree
 *
 * The kernel calls enqueue, dequeue and reset one at a time, under the qdisc's own lock,
 * which nobody else can take. So the packets' side needs no lock of its own but only to
 * keep out the control programs, which come seldom; and what it pays for every packet is
 * two atomic exchanges (Dekker's algorithm, biased):
 *
 *   packets   inside = 1; if (!wanted) { ... } inside = 0
 *   control   under link_lock: wanted = 1; while (inside); ...; wanted = 0
 *
 * Each writes its own word before it reads the other's, and the exchange is a full
 * barrier, so at least one of the two sees the other. Control runs with interrupts off:
 * neither waits for what it interrupted itself.
 */
#ifndef QLINUX_LINK_GUARD_H
#define QLINUX_LINK_GUARD_H

#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))
/* Guards control programs from each other. */
private
(link) struct bpf_res_spin_lock link_lock;

static volatile u32 inside, wanted;

static __always_inline void guard_leave(void)
{
	__sync_lock_test_and_set(&inside, 0);
}

/* May the packets' side go on? False after an absurd time only. */
static __always_inline bool guard_enter(void)
{
	__sync_lock_test_and_set(&inside, 1);
	while (wanted) {
		guard_leave();
		while (wanted && can_loop)
			;
		if (!can_loop)
			return false;
		__sync_lock_test_and_set(&inside, 1);
	}
	return true;
}

static __always_inline void guard_unlock(unsigned long *flags)
{
	__sync_lock_test_and_set(&wanted, 0);
	bpf_res_spin_unlock_irqrestore(&link_lock, flags);
}

/* For control programs. Returns 0 or -EBUSY. */
static __always_inline int guard_lock(unsigned long *flags)
{
	if (bpf_res_spin_lock_irqsave(&link_lock, flags))
		return -EBUSY;
	__sync_lock_test_and_set(&wanted, 1);
	while (inside && can_loop)
		;
	if (!inside)
		return 0;
	guard_unlock(flags);
	return -EBUSY;
}

#endif
