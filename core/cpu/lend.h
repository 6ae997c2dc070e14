/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lend.h - priority inversion: a blocked thread lends its weight
 *
 * A thread that waits for a lock has no use for its weight; who holds the lock
 * has. OSDI'96, section 4: the weight of the blocked thread is lent to the one
 * that blocks it, for as long as that lasts.
 *
 *   same leaf      the holder weighs what it has itself and all that is lent
 *                  to it: no weight is lost, none is there twice. So its turn comes
 *                  sooner; what its start tag was put back for that is added
 *                  again at the end, or each loan would be a gift
 *   another leaf   weights of two leaves do not compare, but shares of the
 *                  processor do. The holder is served in the lender's leaf, with
 *                  the lender's weight, if it gets more there than at home; the
 *                  lender's class pays, and the lender's own start tag
 *   chains         a holder that is blocked too lends what it has been lent
 *
 *        W 100 ──▶ H1 1 ──▶ H2 5        one leaf: H2 weighs 106 meanwhile
 *
 *   lend_link, lend_unlink   who waits for whom
 *   lend_begin, lend_end     the waiter stops, and starts, being runnable
 *   lend_settle              a thread gets the weight and the leaf due to it
 *
 * The first four only note whose loans have changed. The caller settles all of
 * them before it chooses next, once they are due (lend_due): most waits for a lock take
 * microseconds, and to settle a loan that is over by then would cost more than the wait.
 * What a thread was lent is worked out anew from
 * those that lend to it, so nothing adds up over time. Links never form a
 * circle: the one that would close it, a deadlock, lends nothing.
 *
 * Only leaves scheduled by weight (ts, sfq) take guests; where weights mean
 * nothing within a leaf, lending there changes nothing.
 */
#ifndef QLINUX_CORE_LEND_H
#define QLINUX_CORE_LEND_H

#include "leaf.h"

enum {
	LEND_CHAIN_MAX = 16,   /* threads that one loan is passed on through */
	LEND_LENDERS_MAX = 32, /* threads that lend to one */
};

/* Loans that change within so long are settled together. */
#define LEND_TOGETHER_NS 500000ULL

/* All of a CPU, for comparing what two leaves give a thread. */
#define LEND_WHOLE (1ULL << 48)

#ifndef NULL
#define NULL ((void *)0)
#endif

struct lend_thread {
	struct leaf_thread lt;
	u32 leaf; /* it is served in this leaf and charged there */
	u16 waiting;
	u16 runnable;
	u32 home;   /* its own leaf */
	u32 own;    /* its own weight there */
	u8 lends;   /* it is blocked: its holder has the use of its weight */
	u8 borrows; /* others wait for it, or it is not yet back from their loans */
	u8 changed; /* it is in the list of those to settle */
	u8 lenders_count;
	u8 yields;  /* it gives up the rest of its turn (sched.h) */
	u8 moves;   /* it belongs in another leaf, but was in service when it was settled */
	u16 domain; /* several trees: it is in that of this one (ledger.h) */
	u32 at_home_generation;
	struct sfq_flow at_home;              /* a guest's tags at home */
	u64 sooner;                           /* its start tag was put back by that for loans */
	u64 what;                             /* which lock it waits for */
	struct lend_thread CORE_MEM *holder;  /* who holds it */
	struct lend_thread CORE_MEM *lenders; /* the first that waits for this thread */
	struct lend_thread CORE_MEM *next;    /* the next that waits for the same holder */
	struct lend_thread CORE_MEM *next_changed;
};

typedef struct lend_thread CORE_MEM lend_thread_t;

/* What there is once. */
struct lend_book {
	lend_thread_t *changed, *last; /* to be settled, in this order */
	u64 loans;
	u64 chained; /* of those, to a holder that lent them on */
	u64 guests;  /* times that a thread went to be served in another leaf */
	u64 returned;
	u64 settled_ns; /* all were settled last then */
};

typedef struct lend_book CORE_MEM lend_book_t;

/* ---- whose loans have changed ------------------------------------------ */

CORE_FN void lend_changed(lend_book_t *b, lend_thread_t *th)
{
	if (th->changed)
		return;
	th->changed = 1;
	th->next_changed = NULL;
	if (b->changed)
		b->last->next_changed = th;
	else
		b->changed = th;
	b->last = th;
}

/* One to settle, NULL: none is left. */
CORE_FN lend_thread_t *lend_next(lend_book_t *b)
{
	lend_thread_t *th = b->changed;

	if (th) {
		b->changed = th->next_changed;
		th->changed = 0;
	}
	return th;
}

/* Are there any to settle? The first after a pause at once; and before a thread that could not
 * change its leaf in service, NULL: none, competes again, or others' loans would keep it there. */
CORE_FN bool lend_due(lend_book_t *b, const lend_thread_t *competes, u64 now_ns)
{
	if (!b->changed)
		return false;
	return (competes && competes->moves) || now_ns - b->settled_ns >= LEND_TOGETHER_NS;
}

/* The caller has settled what it could. What it could not is due at once. */
CORE_FN void lend_settled(lend_book_t *b, u64 now_ns)
{
	if (!b->changed)
		b->settled_ns = now_ns;
}

/* ---- who waits for whom ------------------------------------------------ */

/* Would the thread, waiting for this holder, lend to itself, or be the end of
 * too long a chain? */
CORE_FN bool lend_refused(lend_thread_t *th, lend_thread_t *holder)
{
	u32 n = 0;

	while (holder && n < LEND_CHAIN_MAX && CORE_MORE) {
		if (holder == th)
			return true;
		holder = holder->holder;
		n++;
	}
	return holder;
}

/* The thread no longer waits for a lock, or it has no holder any more. A guest
 * of its leaf leaves its start tag with it: who lends pays. */
CORE_FN void lend_unlink(lend_book_t *b, lend_thread_t *th)
{
	lend_thread_t *holder = th->holder, *l;

	if (!holder)
		return;
	if (holder->leaf == th->leaf && holder->leaf != holder->home &&
	    holder->domain == th->domain)
		th->lt.flow.start = sfq_max(th->lt.flow.start, holder->lt.flow.start);
	l = holder->lenders;
	if (l == th)
		holder->lenders = th->next;
	while (l && l->next != th && CORE_MORE)
		l = l->next;
	if (l)
		l->next = th->next;
	holder->lenders_count--;
	b->returned += th->lends;
	th->holder = th->next = NULL;
	lend_changed(b, holder);
}

/* The thread waits for what the holder has. False: nothing is lent. */
CORE_FN bool lend_link(lend_book_t *b, lend_thread_t *th, lend_thread_t *holder, u64 what)
{
	lend_unlink(b, th);
	if (holder->lenders_count >= LEND_LENDERS_MAX || lend_refused(th, holder))
		return false;
	th->what = what;
	th->holder = holder;
	th->next = holder->lenders;
	holder->lenders = th;
	holder->lenders_count++;
	holder->borrows = 1;
	if (th->lends) {
		b->loans++;
		lend_changed(b, holder);
	}
	return true;
}

/* The lock changes hands: those that wait for it lend to the new holder. */
CORE_FN void lend_hand_over(lend_book_t *b, lend_thread_t *from, lend_thread_t *to, u64 what)
{
	lend_thread_t *l = from->lenders, *next;

	for (; l && CORE_MORE; l = next) {
		next = l->next;
		if (l != to && l->what == what)
			lend_link(b, l, to, what);
	}
}

/* The thread, which has a holder, is blocked from now on. */
CORE_FN void lend_begin(lend_book_t *b, lend_thread_t *th)
{
	th->lends = 1;
	b->loans++;
	b->chained += th->holder->lends;
	lend_changed(b, th->holder);
}

/* The thread that was blocked is runnable again. */
CORE_FN void lend_end(lend_book_t *b, lend_thread_t *th)
{
	th->lends = 0;
	if (!th->holder)
		return;
	b->returned++;
	lend_changed(b, th->holder);
}

/* ---- what is due to a thread ------------------------------------------- */

/* Part of LEND_WHOLE that the leaf would get if it was runnable. */
CORE_FN u64 lend_share(hsfq_tree_t *t, u32 leaf)
{
	u64 share = LEND_WHOLE;
	u32 n = leaf;

	while (n > HSFQ_ROOT && CORE_MORE) {
		hsfq_node_t *h = &t->node[n], *p = &t->node[h->parent];
		u32 all = p->weights + (h->flags & HSFQ_RUNNABLE ? 0 : h->weight);

		share = share * h->weight / all;
		n = h->parent;
	}
	return share;
}

/* Part of LEND_WHOLE >> 12 that the thread would get with this weight there. */
CORE_FN u64 lend_rate(hsfq_tree_t *t, lend_thread_t *th, u32 leaf, u32 weight)
{
	u64 all = t->node[leaf].weights + weight;

	if (th->runnable && th->leaf == leaf)
		all -= th->lt.weight;
	return (lend_share(t, leaf) >> 12) * weight / all;
}

struct lend_place {
	u32 leaf, weight;
	lend_thread_t *host; /* a lender in the leaf of a guest */
};

/* Where the thread is served best: at home, or in the leaf of the lender that
 * gets most; and what it weighs there. */
CORE_FN void lend_choose(hsfq_tree_t *t, lend_thread_t *th, struct lend_place *p)
{
	u64 rate, best = 0;
	lend_thread_t *l;
	u32 guest = 0;

	p->leaf = th->home;
	p->weight = th->own;
	p->host = NULL;
	for (l = th->lenders; l && CORE_MORE; l = l->next)
		if (l->lends && l->leaf == th->home)
			p->weight += l->lt.weight;
	for (l = th->lenders; l && CORE_MORE; l = l->next) {
		if (!l->lends || l->leaf == th->home)
			continue;
		if (t->node[l->leaf].policy != LEAF_ts && t->node[l->leaf].policy != LEAF_sfq)
			continue;
		rate = lend_rate(t, th, l->leaf, l->lt.weight);
		if (rate <= best)
			continue;
		best = rate;
		p->host = l;
	}
	if (!p->host)
		return;
	if (best <= lend_rate(t, th, p->leaf, p->weight)) {
		p->host = NULL;
		return;
	}
	p->leaf = p->host->leaf;
	for (l = th->lenders; l && CORE_MORE; l = l->next)
		if (l->lends && l->leaf == p->leaf)
			guest += l->lt.weight;
	p->weight = guest;
}

/* ---- the thread goes there --------------------------------------------- */

/* A guest begins at its host's start tag, and leaves its own there when it
 * goes (lend_unlink, or here). Its tags at home wait until it is back. */
CORE_FN void lend_leave(hsfq_tree_t *t, lend_thread_t *th)
{
	lend_thread_t *l = th->lenders;

	if (th->leaf == th->home) {
		th->lt.flow.start += th->sooner;
		th->sooner = 0;
		th->at_home = th->lt.flow;
		th->at_home_generation = th->lt.generation;
	} else {
		while (l && l->leaf != th->leaf && CORE_MORE)
			l = l->next;
		if (l && l->domain == th->domain)
			l->lt.flow.start =
				sfq_max(l->lt.flow.start, th->lt.flow.start + th->sooner);
		th->sooner = 0;
	}
	leaf_leave(t, th->leaf);
}

CORE_FN void lend_enter(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th, struct lend_place *p)
{
	th->leaf = p->leaf;
	th->lt.weight = p->weight;
	leaf_join(t, p->leaf, &th->lt);
	if (p->host)
		b->guests++;
	if (p->host && p->host->domain == th->domain) {
		th->lt.flow = p->host->lt.flow;
		th->lt.generation = p->host->lt.generation;
	} else if (!p->host) {
		th->lt.flow = th->at_home;
		th->lt.generation = th->at_home_generation;
	}
}

CORE_FN void lend_move(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th, struct lend_place *p,
		       u64 now_ns)
{
	bool runnable = th->runnable, waiting = th->waiting;

	if (waiting)
		leaf_unwait(t, th->leaf);
	if (runnable)
		leaf_depart(t, th->leaf, &th->lt, now_ns);
	lend_leave(t, th);
	lend_enter(t, b, th, p);
	if (runnable)
		leaf_arrive(t, th->leaf, &th->lt, now_ns);
	if (waiting)
		leaf_wait(t, th->leaf);
}

/* At home: what is lent to the thread has changed, or its own weight. */
CORE_FN void lend_weigh(hsfq_tree_t *t, lend_thread_t *th, u32 weight)
{
	u64 before = th->lt.flow.start;
	hsfq_node_t *l = &t->node[th->leaf];

	if (weight >= th->lt.weight || !th->sooner) {
		leaf_weigh(t, th->leaf, &th->lt, weight, th->runnable);
		if (th->lenders)
			th->sooner += before - th->lt.flow.start;
		return;
	}
	if (th->runnable)
		l->weights += weight - th->lt.weight;
	th->lt.weight = weight;
	if (weight != th->own)
		return;
	if (!leaf_stranger(l, &th->lt) && (l->policy == LEAF_ts || l->policy == LEAF_sfq)) {
		th->lt.flow.start += th->sooner;
		l->clock.max_finish = sfq_max(l->clock.max_finish, th->lt.flow.start);
	}
	th->sooner = 0;
}

/* The thread was served and is about to be charged: loans that have ended meanwhile
 * were for the beginning of this quantum, they do not make the rest of it cheaper. */
CORE_COLD void lend_served(hsfq_tree_t *t, lend_thread_t *th)
{
	u32 weight = th->own;
	lend_thread_t *l;

	if (th->leaf != th->home)
		return;
	for (l = th->lenders; l && CORE_MORE; l = l->next)
		if (l->lends && l->leaf == th->home)
			weight += l->lt.weight;
	if (weight < th->lt.weight)
		lend_weigh(t, th, weight);
}

/*
 * The thread gets what is due to it. If it is blocked as well, its holder is the
 * next to be settled. A quantum in service is charged where it began: that
 * thread changes its leaf when it competes again.
 */
CORE_FN void lend_settle(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th, u64 now_ns)
{
	struct lend_place p;

	th->moves = 0;
	lend_choose(t, th, &p);
	if (th->leaf == p.leaf) {
		if (th->lt.weight == p.weight)
			goto out;
		lend_weigh(t, th, p.weight);
	} else if (!th->runnable || th->waiting) {
		lend_move(t, b, th, &p, now_ns);
	} else {
		th->moves = 1;
		return;
	}
	if (th->lends && th->holder)
		lend_changed(b, th->holder);
out:
	th->borrows = th->lenders || th->leaf != th->home;
}

/* ---- threads come, change and go --------------------------------------- */

/* The thread, which is not runnable, is a new member of this leaf. */
CORE_FN void lend_join(hsfq_tree_t *t, lend_thread_t *th, u32 home, u32 weight)
{
	th->leaf = th->home = home;
	th->lt.weight = th->own = weight;
	leaf_join(t, home, &th->lt);
}

/* The thread, not runnable, leaves its home for another. */
CORE_FN void lend_move_home(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th, u32 home)
{
	lend_leave(t, th);
	lend_join(t, th, home, th->own);
	lend_changed(b, th);
	if (th->holder)
		lend_changed(b, th->holder);
}

/* The thread's own weight. Returns 0 or -CORE_ERANGE. */
CORE_FN int lend_set_weight(lend_book_t *b, lend_thread_t *th, u32 weight)
{
	if (weight < SFQ_WEIGHT_MIN || weight > SFQ_WEIGHT_MAX)
		return -CORE_ERANGE;
	th->own = weight;
	lend_changed(b, th);
	return 0;
}

/* The thread, not runnable, goes for good: all its loans end. */
CORE_FN void lend_exit(hsfq_tree_t *t, lend_book_t *b, lend_thread_t *th)
{
	lend_thread_t *l;

	lend_unlink(b, th);
	while (th->lenders && CORE_MORE)
		lend_unlink(b, th->lenders);
	leaf_leave(t, th->leaf);
	if (!th->changed)
		return;
	l = b->changed;
	if (l == th)
		b->changed = th->next_changed;
	while (l && l->next_changed != th && CORE_MORE)
		l = l->next_changed;
	if (l) {
		l->next_changed = th->next_changed;
		if (b->last == th)
			b->last = l;
	}
	th->changed = 0;
}

#endif
