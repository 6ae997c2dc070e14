/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * once.h - the policies, each layer of which the verifier walks once
 *
 * It walks a static function again for every call, in every state a caller may be in: a heap
 * inside a walk up the tree inside a charge. A function that is not static is walked by itself,
 * once a program, whatever its callers know. So each layer of core/ is followed here by
 * functions of that kind around what the layers above call, and the names mean those from there
 * on. There is one tree and one book of loans, so they need not be told which.
 *
 * The verifier refuses such a call while a lock is held. So this is for a single processor,
 * where interrupts that are off take the lock's place (accounts.h); with several nothing is
 * wrapped. They return a number because 6.18 wants that.
 */
#ifndef QLINUX_CPU_ONCE_H
#define QLINUX_CPU_ONCE_H

#include "../../core/tree/heap.h"

/* The hierarchy of classes, and with one domain (domains.h) the tree that is scheduled. At an
 * address of its own, for it is large (room.h). */
#define hierarchy (*(struct hsfq_tree __arena *)(ARENA_START + (1ULL << 30)))

/* A domain's tree, and by leaf, for how long its threads were runnable so far, all together, less
 * the time now for each that is. */
struct domain {
	struct hsfq_tree tree;
	u64 runnable_ns[HSFQ_NODES];
};

#ifdef SINGLE_CPU
#define ONCE      __noinline int
#define ONCE_LONG __noinline u64

extern struct lend_book __arena loans;

/* name(t, ...) of core/ is once_name(...) from here on. */
ONCE once_heap_insert(u32 parent, u32 n)
{
	hsfq_heap_insert(&hierarchy, parent, n);
	return 0;
}

ONCE once_heap_remove(u32 parent, u32 n)
{
	hsfq_heap_remove(&hierarchy, parent, n);
	return 0;
}

ONCE once_sift(u32 s, u32 n)
{
	hsfq_sift(&hierarchy, s, n);
	return 0;
}

/* Nothing is planned with one server. */
ONCE once_charge_node(u32 n, u64 length_ns)
{
	hsfq_charge_node(&hierarchy, n, length_ns, 0);
	return 0;
}

#define hsfq_charge_node(t, n, l, pl)  once_charge_node(n, l)
#define hsfq_heap_insert(t, parent, n) once_heap_insert(parent, n)
#define hsfq_heap_remove(t, parent, n) once_heap_remove(parent, n)
#define hsfq_sift(t, s, n)             once_sift(s, n)
#endif

#include "../../core/tree/hsfq.h"

#ifdef SINGLE_CPU
ONCE once_settle(void)
{
	hsfq_settle_solo(&hierarchy);
	return 0;
}

ONCE once_ready(u32 n)
{
	hsfq_ready(&hierarchy, n);
	return 0;
}

ONCE once_busy(u32 n)
{
	hsfq_busy(&hierarchy, n);
	return 0;
}

ONCE once_activate(u32 n)
{
	hsfq_activate(&hierarchy, n);
	return 0;
}

ONCE once_deactivate(u32 n)
{
	hsfq_deactivate(&hierarchy, n);
	return 0;
}

ONCE once_schedule(void)
{
	return hsfq_schedule(&hierarchy);
}

ONCE once_update(u32 leaf, u64 length_ns)
{
	hsfq_update(&hierarchy, leaf, length_ns, 0);
	return 0;
}

ONCE once_contended_path(u32 leaf)
{
	return hsfq_contended_path(&hierarchy, leaf);
}

ONCE once_is_next_after(u32 leaf, u32 running, u64 ran_ns)
{
	return hsfq_is_next_after(&hierarchy, leaf, running, ran_ns);
}

ONCE once_precedes(u32 waiting, u32 running, u64 ran_ns, u64 planned_ns)
{
	return hsfq_precedes(&hierarchy, waiting, running, ran_ns, planned_ns);
}

ONCE once_mknod(u32 parent, u32 weight, u32 flags)
{
	return hsfq_mknod(&hierarchy, parent, weight, flags);
}

ONCE once_rmnod(u32 n)
{
	return hsfq_rmnod(&hierarchy, n);
}

ONCE once_sweep(u32 n)
{
	hsfq_sweep(&hierarchy, n);
	return 0;
}

ONCE once_retire(u32 n)
{
	hsfq_retire(&hierarchy, n);
	return 0;
}

ONCE once_set_weight(u32 n, u32 weight)
{
	return hsfq_set_weight(&hierarchy, n, weight);
}

ONCE_LONG once_share(u32 leaf, u64 period_ns)
{
	return hsfq_share(&hierarchy, leaf, period_ns);
}

#define hsfq_settle(t)                   ((t)->solo ? once_settle() : 0)
#define hsfq_ready(t, n)                 once_ready(n)
#define hsfq_busy(t, n)                  once_busy(n)
#define hsfq_activate(t, n)              once_activate(n)
#define hsfq_deactivate(t, n)            once_deactivate(n)
#define hsfq_plan(t, leaf, planned)      ((void)0)
#define hsfq_schedule(t)                 ((u32)once_schedule())
#define hsfq_update(t, leaf, length, pl) once_update(leaf, length)
#define hsfq_contended(t, leaf) ((t)->passed || ((leaf) != (t)->solo && once_contended_path(leaf)))
#define hsfq_is_next_after(t, w, r, ran) once_is_next_after(w, r, ran)
#define hsfq_precedes(t, w, r, ran, pl)  once_precedes(w, r, ran, pl)
#define hsfq_mknod(t, parent, w, flags)  once_mknod(parent, w, flags)
#define hsfq_rmnod(t, n)                 once_rmnod(n)
#define hsfq_sweep(t, n)                 once_sweep(n)
#define hsfq_retire(t, n)                once_retire(n)
#define hsfq_set_weight(t, n, weight)    once_set_weight(n, weight)
#define hsfq_share(t, leaf, period)      once_share(leaf, period)
#endif

#include "../../core/tree/limit.h"

#ifdef SINGLE_CPU
ONCE once_held_path(u32 n)
{
	return limit_held_path(&hierarchy, n);
}

ONCE_LONG once_left_path(u32 n)
{
	return limit_left_path(&hierarchy, n);
}

ONCE once_limit_charge(u32 n, u64 length_ns, u64 now)
{
	return limit_charge(&hierarchy, n, length_ns, now);
}

ONCE once_limit_release(u32 n, u64 now)
{
	return limit_release(&hierarchy, n, now);
}

#define limit_held(t, n)           ((t)->held && once_held_path(n))
#define limit_left(t, n)           ((t)->limited ? once_left_path(n) : BUDGET_MAX_NS)
#define limit_charge(t, n, l, now) once_limit_charge(n, l, now)
#define limit_release(t, n, now)   once_limit_release(n, now)
#endif

#include "../../core/tree/idle.h"
#include "../../core/cpu/leaf.h"

#ifdef SINGLE_CPU
ONCE once_leaf_arrive(u32 leaf, leaf_thread_t *th __arg_arena, u64 now)
{
	leaf_arrive(&hierarchy, leaf, th, now);
	return 0;
}

ONCE once_leaf_depart(u32 leaf, leaf_thread_t *th __arg_arena)
{
	leaf_depart(&hierarchy, leaf, th, 0);
	return 0;
}

ONCE once_leaf_charge(u32 leaf, leaf_thread_t *th __arg_arena, u64 length_ns, u64 now)
{
	return leaf_charge(&hierarchy, leaf, th, length_ns, now);
}

ONCE once_leaf_yield(u32 leaf, leaf_thread_t *th __arg_arena, u64 now)
{
	leaf_yield(&hierarchy, leaf, th, now);
	return 0;
}

#define leaf_yield(t, leaf, th, now)          once_leaf_yield(leaf, th, now)
#define leaf_arrive(t, leaf, th, now)         once_leaf_arrive(leaf, th, now)
#define leaf_depart(t, leaf, th, now)         once_leaf_depart(leaf, th)
#define leaf_charge(t, leaf, th, length, now) ((u32)once_leaf_charge(leaf, th, length, now))
#endif

#include "../../core/cpu/quantum.h"
#include "../../core/cpu/lend.h"
#include "loans.h"
#include "../../core/cpu/speed.h"
#include "../../core/cpu/rescue.h"
#include "../../core/cpu/waits.h"

#ifdef SINGLE_CPU
/* A quantum in one word. */
static __always_inline u64 quantum_pack(struct quantum q)
{
	return q.length_ns << 1 | q.exact;
}

static __always_inline struct quantum quantum_unpack(u64 packed)
{
	return (struct quantum){packed >> 1, packed & 1};
}

ONCE_LONG once_quantum_of(u32 leaf, leaf_thread_t *th __arg_arena, u64 now)
{
	barrier_var(now); /* what is not used is not passed, which the verifier does not like */
	return quantum_pack(quantum_of(&hierarchy, leaf, th, now));
}

ONCE_LONG once_quantum_cut(lend_thread_t *waiting __arg_arena, lend_thread_t *th __arg_arena,
			   u64 ran_ns, u64 now, bool eager)
{
	return quantum_pack(quantum_cut(&hierarchy, waiting->leaf, &waiting->lt, th->leaf, &th->lt,
					ran_ns, now, eager));
}

ONCE once_lend_settle(lend_thread_t *th __arg_arena, u64 now)
{
	lend_settle(&hierarchy, &loans, th, now);
	return 0;
}

ONCE once_lend_served(lend_thread_t *th __arg_arena)
{
	lend_served(&hierarchy, th);
	return 0;
}

ONCE once_lend_exit(lend_thread_t *th __arg_arena)
{
	lend_exit(&hierarchy, &loans, th);
	return true;
}

#define quantum_cut(t, wl, w, l, th, ran, now, eager)                                              \
	quantum_unpack(                                                                            \
		once_quantum_cut((lend_thread_t *)(w), (lend_thread_t *)(th), ran, now, eager))
#define quantum_of(t, leaf, th, now) quantum_unpack(once_quantum_of(leaf, th, now))
#define lend_settle(t, b, th, now)   once_lend_settle(th, now)
#define lend_served(t, th)           once_lend_served(th)
#define lend_exit(t, b, th)          once_lend_exit(th)
#endif

#include "../../core/cpu/sched.h"

#endif
