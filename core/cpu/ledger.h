/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ledger.h - many processors: several trees, one division
 *
 * One tree under one lock serves some processors, not hundreds. So processors that share a
 * cache form a domain, with a tree of its own. Left to themselves such trees would divide each
 * domain by the weights among whoever happens to be there, and err by half. The ledger keeps
 * the whole exact. The hierarchy is here; a domain's tree holds the leaves alone, and their
 * weights are what they are to get there. Every LEDGER_PERIOD_NS the ledger
 *
 *   1. reads of each leaf, in each domain, how many threads are runnable, for how long they
 *      were, and what they were served (ledger_see);
 *   2. finds what each leaf was entitled to of all processors (readjust.h, level by level),
 *      and adds entitlement minus service to what it is owed (ledger_owe);
 *   3. spreads over the domains what each leaf is to get from now on: its entitlement and
 *      what it is owed, in proportion to its threads, but of no domain more than it has and
 *      for no thread more than a processor (ledger_fit);
 *   4. makes that the weights in the domains (ledger_share);
 *   5. says which threads are to move: where a leaf cannot get all of it where its threads
 *      are, and where its threads get less in one domain than in another (ledger_move).
 *
 * Between two runs a domain divides exactly by those weights; what comes out otherwise, as
 * when a leaf sleeps, is made up for later. Step 3 is iterative proportional fitting: rows are
 * leaves, columns domains.
 *
 *   two domains of 1 processor, leaves x and y of equal weight; x has 2 threads in A, y has
 *   1 in A and 1 in B. Each is entitled to 1 processor.
 *       by threads       A   B        fitted   A   B
 *            x           1   0          x      1   0
 *            y          .5  .5          y      0   1
 *
 * A node that is entitled to all that it can use is full. It is owed nothing: what it leaves,
 * while it sleeps or a moment before it is served, is its siblings'. What was due to it and it
 * could not use is remembered apart (missed_ns), and makes that it stays full for a while when
 * others have a claim on more for a moment, as one tree lets a flow catch up (sfq.h).
 *
 * Threads of a leaf get the same in all domains, by their weights. Their number can seldom be
 * divided so, and then they take turns at being where there are fewer: each domain's are ahead of
 * the leaf's mean, or behind, by so much service, and one of those that are furthest behind goes
 * where they are furthest ahead, if it gets no less there from then on.
 *
 * The caller serialises calls, owns the memory, and counts the time. Amounts are in
 * 1/LEDGER_CPU of a processor.
 */
#ifndef QLINUX_CORE_LEDGER_H
#define QLINUX_CORE_LEDGER_H

#include "../tree/hsfq.h"
#include "../tree/readjust.h"

enum {
	LEDGER_CPU = 1 << 16,
	LEDGER_DOMAINS = 64, /* of 16 processors: 1,024 */
	LEDGER_ROUNDS = 6,   /* of fitting: nothing is gained by more */
	LEDGER_SPARE = 4,    /* a quarter: more than quanta are late */
	LEDGER_USUAL = 7,    /* of late: 2^7 runs, a quarter of a second */
	LEDGER_ASLEEP = 64,  /* leaves with nothing runnable that are looked at in one run */
	LEDGER_MOVES = 8,    /* less than this part of a processor moves nobody */
	LEDGER_MOMENT = 256, /* this part of a run is 8 us */
	LEDGER_FINE = 256,   /* of one, for mean weights; and so many ns */
};

/* So often the ledger is drawn up. */
#define LEDGER_PERIOD_NS 2000000ULL
/* What a leaf is owed is made up for within about this time: several turns, for a turn
 * that has not come yet is nothing that is owed. */
#define LEDGER_SETTLE_NS 32000000LL
/* The most that is owed, for each processor that the leaf is usually entitled to, either way. */
#define LEDGER_OWED_NS 64000000LL
/* And besides: turns that processors give a leaf at the same time, however little it is to get. */
#define LEDGER_TURNS_NS 32000000LL
/* Threads of a leaf are further apart than that, in different domains, before one moves: more than
 * turns differ. */
#define LEDGER_APART_NS 24000000LL
/* No further is remembered, either way. */
#define LEDGER_AHEAD_NS 48000000LL

/* A leaf in a domain. */
struct ledger_cell {
	u64 served_ns;   /* so far */
	u64 runnable_ns; /* so long its threads were runnable so far, all together */
	u32 runnable;    /* threads that are now, */
	u32 weights;     /* and their weights */
	u32 share;       /* what it is to get there: its weight */
	u32 was;         /* at the last run: threads that were runnable, */
	u64 served_before_ns;
	u64 runnable_before_ns;
	s64 ahead_ns; /* of a thread here: what it was served, more than others of the leaf */
};

struct ledger_node {
	u64 theta;     /* θ: what it could use between the last two runs, */
	u64 got_ns;    /* what it was served, */
	u64 share;     /* and what it was entitled to */
	s64 due_ns;    /* the same if it could use any amount: λ w */
	u64 claim;     /* what it counts for in its parent's division: θ, or what it used of it */
	u64 usual;     /* what it was entitled to of late, 2^LEDGER_USUAL times */
	u64 want;      /* what it is to get */
	s64 owed_ns;   /* what it was entitled to minus what it was served */
	s64 missed_ns; /* what was due to it and it could not use */
	u32 capped;    /* 1: it is entitled to all that it could use between the last two runs */
	u32 full;      /* 1: it is, or was and makes up for what it missed */
	u32 weight;    /* among its siblings; 0: there is no such node */
	u32 weights;   /* of its active children */
	u32 parent;
	u32 depth;     /* root: 0 */
	u32 leaf;      /* 1: it is one */
	u32 active;    /* 1: a thread below it is runnable, or was between the last two runs */
	u32 child;     /* its first active child */
	u32 sibling;   /* the parent's next active child */
	u32 level;     /* the next active node of the same depth */
	u64 served_ns; /* in all domains, up to the last run */
	/* of a leaf */
	u32 next;           /* the next active leaf */
	u32 runnable;       /* threads in all domains, now, */
	u64 thread_weights; /* and their weights */
	u64 runnable_ns;    /* likewise */
	u64 rate;           /* what each of its threads is to get */
	u64 gets;           /* of what it is to get, what it can get where its threads are */
};

typedef struct ledger_cell CORE_MEM ledger_cell_t;
typedef struct ledger_node CORE_MEM ledger_node_t;

/* One thread of the leaf is to move. */
struct ledger_move {
	u32 leaf; /* HSFQ_NIL: nobody has to */
	u32 from, to;
};

struct ledger {
	u32 domains;
	u32 unused;              /* nodes from here on were never used */
	u32 servers;             /* in all domains */
	u32 asleep;              /* the next leaf with nothing runnable that is looked at */
	u32 leaves;              /* the first active leaf */
	u32 mover;               /* the next that may have to move a thread */
	struct ledger_move move; /* the last that was found, */
	u32 behind, ahead;       /* and what was found for it: ledger_find_ends */
	u32 most, least;
	u32 level[HSFQ_DEPTH_MAX + 2]; /* the first active node of each depth */
	u32 of[LEDGER_DOMAINS];        /* servers, by domain */
	u64 column[LEDGER_DOMAINS];    /* what leaves are to get of it, */
	u64 wanted[LEDGER_DOMAINS];    /* and what they would if it had enough for that */
	struct ledger_node node[HSFQ_NODES];
	struct readjust child[HSFQ_NODES];
	ledger_cell_t *cell; /* domains of each node, node after node */
};

typedef struct ledger CORE_MEM ledger_t;

CORE_FN ledger_node_t *ledger_at(ledger_t *l, u32 n)
{
	return CORE_AT(l->node, n);
}

CORE_FN ledger_cell_t *ledger_cell(ledger_t *l, u32 n, u32 domain)
{
	return CORE_AT(l->cell, n * l->domains + domain);
}

/* ---- what the hierarchy looks like -------------------------------------- */

/* The memory is zero, `cell` is set. */
CORE_FN void ledger_init(ledger_t *l, u32 domains)
{
	l->domains = domains;
	l->unused = HSFQ_ROOT + 1;
	l->asleep = HSFQ_ROOT;
	ledger_at(l, HSFQ_ROOT)->weight = 1;
}

CORE_FN void ledger_set_servers(ledger_t *l, u32 domain, u32 servers)
{
	l->servers += servers - *CORE_AT(l->of, domain);
	*CORE_AT(l->of, domain) = servers;
}

/* A leaf with nothing runnable: its weight everywhere is what a thread that wakes would be
 * entitled to. */
CORE_STEP u32 ledger_expect(ledger_t *l CORE_STATE, u32 leaf)
{
	u64 share = LEDGER_CPU;
	u32 n = leaf, d;

	while (n > HSFQ_ROOT && !ledger_at(l, n)->active && CORE_MORE) {
		ledger_node_t *h = ledger_at(l, n), *p = ledger_at(l, h->parent);

		share = share * h->weight / (h->weight + (p->active ? p->weights : 0));
		n = h->parent;
	}
	share = share * (n == HSFQ_ROOT ? (u64)l->servers * LEDGER_CPU : ledger_at(l, n)->share);
	share /= LEDGER_CPU;
	if (share > LEDGER_CPU)
		share = LEDGER_CPU;
	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++)
		ledger_cell(l, leaf, d)->share = share;
	return 0;
}

/* The node, new, has this weight. A leaf's number is that in the trees. */
CORE_FN void ledger_mknod(ledger_t *l, u32 n, u32 parent, u32 weight, bool leaf)
{
	struct ledger_cell no_cell = {};
	struct ledger_node fresh = {};
	u32 d;

	fresh.weight = weight;
	fresh.parent = parent;
	fresh.depth = ledger_at(l, parent)->depth + 1;
	fresh.leaf = leaf;
	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++)
		*ledger_cell(l, n, d) = no_cell;
	*ledger_at(l, n) = fresh;
	if (n >= l->unused)
		l->unused = n + 1;
	if (leaf)
		ledger_expect(l, n);
}

CORE_FN void ledger_rmnod(ledger_t *l, u32 n)
{
	ledger_at(l, n)->weight = 0;
}

CORE_FN void ledger_set_weight(ledger_t *l, u32 n, u32 weight)
{
	ledger_at(l, n)->weight = weight;
}

/*
 * The node is here what it is in this tree, that of the hierarchy: there or not, and of that
 * weight. An idle one's service counts HSFQ_IDLE_TIMES times (idle.h), so weights of the others do.
 */
CORE_FN void ledger_copy(ledger_t *l, hsfq_tree_t *t, u32 n)
{
	hsfq_node_t *h = CORE_AT(t->node, n);
	u32 weight = h->weight;

	if ((h->flags & (HSFQ_USED | HSFQ_RETIRED)) != HSFQ_USED) {
		ledger_rmnod(l, n);
		return;
	}
	if (!(h->flags & HSFQ_IDLE))
		weight *= HSFQ_IDLE_TIMES;
	if (ledger_at(l, n)->weight)
		ledger_set_weight(l, n, weight);
	else
		ledger_mknod(l, n, h->parent, weight, h->flags & HSFQ_LEAF);
}

/* ---- step 1: what there was --------------------------------------------- */

/* So many threads of the leaf, of these weights together, are runnable in the domain now. Since it
 * is there they were so for so long, all together, and it was served so much. */
CORE_FN void ledger_see(ledger_t *l, u32 leaf, u32 domain, u32 runnable, u32 weights,
			u64 runnable_ns, u64 served_ns)
{
	ledger_cell_t *c = ledger_cell(l, leaf, domain);

	c->runnable = runnable;
	c->weights = weights;
	c->runnable_ns = runnable_ns;
	c->served_ns = served_ns;
}

/* part / all of this time, which may be long. */
CORE_FN s64 ledger_part(u64 part, u64 all, s64 time_ns)
{
	u64 length_ns = time_ns < 0 ? -time_ns : time_ns;
	u32 shift = length_ns >> 32 ? 16 : 0;
	s64 some_ns = (part * (length_ns >> shift) / all) << shift;

	return time_ns < 0 ? -some_ns : some_ns;
}

/* A leaf, in all domains: what it was served since the last run, and what it could use. */
CORE_STEP u32 ledger_read(ledger_t *l CORE_STATE, u32 n, u64 elapsed_ns)
{
	ledger_node_t *h = ledger_at(l, n);
	u64 served_ns = 0, runnable_ns = 0;
	u32 d;

	h->runnable = 0;
	h->thread_weights = 0;
	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++) {
		ledger_cell_t *c = ledger_cell(l, n, d);

		h->runnable += c->runnable;
		h->thread_weights += c->weights;
		served_ns += c->served_ns;
		runnable_ns += c->runnable_ns;
	}
	/* What is in service may just be charged, and is in neither. */
	served_ns = sfq_max(served_ns, h->served_ns);
	h->got_ns = served_ns - h->served_ns;
	h->theta = (runnable_ns - h->runnable_ns) * LEDGER_CPU / elapsed_ns;
	if (!h->theta && h->runnable)
		h->theta = 1; /* they woke this moment */
	h->served_ns = served_ns;
	h->runnable_ns = runnable_ns;
	return 0;
}

/* How long threads of the leaf were runnable in the domain since the last run, in LEDGER_FINE ns:
 * each as much longer as it weighs more than those of the leaf in the mean. */
CORE_FN u64 ledger_runnable(ledger_node_t *h, ledger_cell_t *c)
{
	u64 moments = (c->runnable_ns - c->runnable_before_ns) / LEDGER_FINE;

	if (!c->runnable || !c->weights)
		return moments;
	return moments * ((u64)c->weights * LEDGER_FINE / c->runnable) /
	       (h->thread_weights * LEDGER_FINE / h->runnable + 1);
}

/* How far the active leaf's threads are ahead in each domain. Those that have come since the last
 * run are neither ahead nor behind. */
CORE_STEP u32 ledger_compare(ledger_t *l CORE_STATE, u32 n)
{
	ledger_node_t *h = ledger_at(l, n);
	u64 wanted = 1;
	u32 d;

	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++)
		wanted += ledger_runnable(h, ledger_cell(l, n, d));
	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++) {
		ledger_cell_t *c = ledger_cell(l, n, d);
		u64 served_ns = sfq_max(c->served_ns, c->served_before_ns);
		s64 more_ns = served_ns - c->served_before_ns;
		u32 threads = c->runnable > c->was ? c->runnable : c->was;

		if (c->runnable > c->was)
			c->ahead_ns = ledger_part(c->was, c->runnable, c->ahead_ns);
		more_ns -= ledger_part(ledger_runnable(h, c), wanted, h->got_ns);
		if (threads)
			c->ahead_ns += ledger_part(1, threads, more_ns);
		if (c->ahead_ns > LEDGER_AHEAD_NS)
			c->ahead_ns = LEDGER_AHEAD_NS;
		if (c->ahead_ns < -LEDGER_AHEAD_NS)
			c->ahead_ns = -LEDGER_AHEAD_NS;
		c->was = c->runnable;
		c->served_before_ns = served_ns;
		c->runnable_before_ns = c->runnable_ns;
	}
	return 0;
}

/* The active node is listed with those of its depth; it has no children yet. */
CORE_FN void ledger_activate(ledger_t *l, u32 n)
{
	ledger_node_t *h = ledger_at(l, n);

	h->active = 1;
	h->child = HSFQ_NIL;
	h->weights = 0;
	h->level = *CORE_AT(l->level, h->depth);
	*CORE_AT(l->level, h->depth) = n;
	if (!h->leaf)
		h->theta = h->got_ns = 0;
}

/* Who is active, and below whom: sums from the leaves upwards. */
CORE_STEP u32 ledger_gather(ledger_t *l CORE_STATE, u64 elapsed_ns)
{
	u64 capacity = (u64)l->servers * LEDGER_CPU;
	u32 n, depth;

	l->leaves = HSFQ_NIL;
	for (depth = CORE_ZERO; depth <= HSFQ_DEPTH_MAX && CORE_MORE; depth++)
		*CORE_AT(l->level, depth) = HSFQ_NIL;
	for (n = HSFQ_ROOT + CORE_ZERO; n < l->unused && CORE_MORE; n++) {
		ledger_node_t *h = ledger_at(l, n);

		h->active = 0;
		if (!h->weight || !h->leaf)
			continue;
		ledger_read(l, n, elapsed_ns);
		if (!h->theta)
			continue;
		ledger_compare(l, n);
		ledger_activate(l, n);
		h->next = l->leaves;
		l->leaves = n;
	}
	for (depth = HSFQ_DEPTH_MAX + CORE_ZERO; depth && CORE_MORE; depth--)
		for (n = *CORE_AT(l->level, depth); n && CORE_MORE; n = ledger_at(l, n)->level) {
			ledger_node_t *h = ledger_at(l, n), *p = ledger_at(l, h->parent);

			if (!p->active)
				ledger_activate(l, h->parent);
			if (h->theta > capacity)
				h->theta = capacity;
			h->sibling = p->child;
			p->child = n;
			p->weights += h->weight;
			p->theta += h->theta;
			p->got_ns += h->got_ns;
			if (!h->leaf)
				h->served_ns += h->got_ns;
		}
	ledger_at(l, HSFQ_ROOT)->served_ns += ledger_at(l, HSFQ_ROOT)->got_ns;
	return 0;
}

/* ---- step 2: what each was entitled to ---------------------------------- */

/* Divides this amount among the node's active children: after those that are full. */
CORE_STEP u32 ledger_divide(ledger_t *l CORE_STATE, u32 n, u64 amount)
{
	u64 taken = CORE_ZERO;
	u32 count = CORE_ZERO, m;

	for (m = ledger_at(l, n)->child; m && CORE_MORE; m = ledger_at(l, m)->sibling)
		if (ledger_at(l, m)->full)
			taken += ledger_at(l, m)->claim;
	for (m = ledger_at(l, n)->child; m && count < HSFQ_NODES && CORE_MORE;
	     m = ledger_at(l, m)->sibling) {
		ledger_node_t *h = ledger_at(l, m);

		h->share = h->claim;
		if (h->full && taken > amount)
			h->share = h->claim * amount / taken;
		if (h->full)
			continue;
		CORE_AT(l->child, count)->theta = h->claim;
		CORE_AT(l->child, count)->weight = h->weight;
		count++;
	}
	readjust(l->child, count, taken < amount ? amount - taken : 0);
	count = CORE_ZERO;
	for (m = ledger_at(l, n)->child; m && count < HSFQ_NODES && CORE_MORE;
	     m = ledger_at(l, m)->sibling)
		if (!ledger_at(l, m)->full)
			ledger_at(l, m)->share = CORE_AT(l->child, count++)->share;
	return 0;
}

/*
 * What would be due to each of the node's children if it could use any amount: by its weight what
 * those get that are not full. That is how fast their tree's v(t) moves (sfq.h).
 */
CORE_STEP u32 ledger_find_due(ledger_t *l CORE_STATE, u32 n)
{
	u64 got_ns = 0, weights = 1;
	u32 m;

	for (m = ledger_at(l, n)->child; m && CORE_MORE; m = ledger_at(l, m)->sibling) {
		ledger_node_t *h = ledger_at(l, m);

		h->capped = h->share >= h->theta;
		if (h->capped || h->missed_ns)
			continue;
		got_ns += h->got_ns;
		weights += h->weight;
	}
	for (m = ledger_at(l, n)->child; m && CORE_MORE; m = ledger_at(l, m)->sibling) {
		ledger_node_t *h = ledger_at(l, m);

		h->due_ns = ledger_part(h->weight, weights, got_ns);
		if (ledger_at(l, n)->capped) /* all get what they can use */
			h->due_ns = h->got_ns;
	}
	return 0;
}

/* Whether it was asleep until this moment: it could use nothing, but will. */
CORE_FN bool ledger_woke(ledger_node_t *h)
{
	return h->theta < LEDGER_CPU / LEDGER_MOMENT;
}

/*
 * Is the node full? One that could not use what was due to it is so for some time on, if it
 * is entitled to less for a moment: until it has made up for what it missed. It used what it
 * could, and what it left goes to its siblings.
 */
CORE_FN void ledger_find_full(ledger_node_t *h, u64 elapsed_ns)
{
	u64 used = h->got_ns * LEDGER_CPU / elapsed_ns;
	s64 most_ns = LEDGER_OWED_NS * (s64)h->theta / LEDGER_CPU;

	h->full = 0;
	if (ledger_woke(h))
		return;
	if (h->capped || h->missed_ns)
		h->missed_ns += h->due_ns - (s64)h->got_ns;
	if (h->missed_ns > most_ns)
		h->missed_ns = most_ns;
	if (h->missed_ns < 0)
		h->missed_ns = 0;
	h->full = h->capped || h->missed_ns;
	h->claim = h->full && used < h->theta ? used : h->theta;
}

/* What the node's children were entitled to, of what was left to them that are not full, and
 * what each of them is owed therefore: in all, nothing. */
CORE_STEP u32 ledger_owe(ledger_t *l CORE_STATE, u32 n, u64 elapsed_ns)
{
	u64 shares = 1;
	s64 due_ns = 0;
	u32 m;

	for (m = ledger_at(l, n)->child; m && CORE_MORE; m = ledger_at(l, m)->sibling) {
		ledger_node_t *h = ledger_at(l, m);

		if (h->full && h->owed_ns < 0) /* it pays back */
			h->owed_ns +=
				ledger_part(h->theta, LEDGER_CPU, elapsed_ns) - (s64)h->got_ns;
		if (h->full && h->owed_ns > 0)
			h->owed_ns = 0;
		due_ns -= h->owed_ns;
		if (h->full)
			continue;
		shares += h->share;
		due_ns += h->got_ns;
	}
	for (m = ledger_at(l, n)->child; m && CORE_MORE; m = ledger_at(l, m)->sibling) {
		ledger_node_t *h = ledger_at(l, m);
		s64 most_ns;

		h->usual += ((s64)(h->share << LEDGER_USUAL) - (s64)h->usual) >> LEDGER_USUAL;
		most_ns = LEDGER_OWED_NS * (s64)(h->usual >> LEDGER_USUAL) / LEDGER_CPU;
		most_ns += LEDGER_TURNS_NS;
		if (!h->full)
			h->owed_ns += ledger_part(h->share, shares, due_ns) - (s64)h->got_ns;
		if (h->owed_ns > most_ns)
			h->owed_ns = most_ns;
		if (h->owed_ns < -most_ns)
			h->owed_ns = -most_ns;
	}
	return 0;
}

/* Threads that woke this moment had no claim on what was, and have one on what is to come. */
CORE_STEP u32 ledger_wake(ledger_t *l CORE_STATE, u32 leaf)
{
	u64 capacity = (u64)l->servers * LEDGER_CPU,
	    theta = (u64)ledger_at(l, leaf)->runnable * LEDGER_CPU;
	u32 n;

	for (n = leaf; n > HSFQ_ROOT && CORE_MORE; n = ledger_at(l, n)->parent) {
		ledger_node_t *h = ledger_at(l, n);

		h->theta += theta;
		if (h->theta > capacity)
			h->theta = capacity;
		h->full = h->missed_ns != 0;
	}
	ledger_at(l, HSFQ_ROOT)->theta += theta;
	return 0;
}

/* What the node's children are to get from now on, of what it is to get. */
CORE_STEP u32 ledger_plan(ledger_t *l CORE_STATE, u32 n)
{
	u32 m;

	for (m = ledger_at(l, n)->child; m && CORE_MORE; m = ledger_at(l, m)->sibling)
		ledger_at(l, m)->claim = ledger_at(l, m)->theta;
	ledger_divide(l, n, ledger_at(l, n)->want);
	for (m = ledger_at(l, n)->child; m && CORE_MORE; m = ledger_at(l, m)->sibling) {
		ledger_node_t *h = ledger_at(l, m);
		s64 want = h->share + h->owed_ns * LEDGER_CPU / LEDGER_SETTLE_NS;

		if (want > (s64)h->theta)
			want = h->theta;
		h->want = want > 0 ? want : 0;
		if (!h->leaf)
			continue;
		h->rate = h->want * LEDGER_CPU / h->theta;
		h->want = h->rate * h->runnable;
	}
	return 0;
}

/* From the root downwards, all of that. */
CORE_FN void ledger_entitle(ledger_t *l, u64 elapsed_ns)
{
	ledger_node_t *root = ledger_at(l, HSFQ_ROOT);
	u64 capacity = (u64)l->servers * LEDGER_CPU;
	u32 depth, n, m;

	root->share = root->theta < capacity ? root->theta : capacity;
	root->capped = root->theta <= capacity;
	for (depth = CORE_ZERO; depth < HSFQ_DEPTH_MAX && CORE_MORE; depth++)
		for (n = *CORE_AT(l->level, depth); n && CORE_MORE; n = ledger_at(l, n)->level) {
			if (ledger_at(l, n)->leaf)
				continue;
			for (m = ledger_at(l, n)->child; m && CORE_MORE;
			     m = ledger_at(l, m)->sibling) {
				ledger_at(l, m)->full = 0;
				ledger_at(l, m)->claim = ledger_at(l, m)->theta;
			}
			ledger_divide(l, n,
				      ledger_at(l, n)->capped ? ledger_at(l, n)->theta
							      : ledger_at(l, n)->share);
			ledger_find_due(l, n);
			for (m = ledger_at(l, n)->child; m && CORE_MORE;
			     m = ledger_at(l, m)->sibling)
				ledger_find_full(ledger_at(l, m), elapsed_ns);
			ledger_divide(l, n, ledger_at(l, n)->share);
			ledger_owe(l, n, elapsed_ns);
		}
}

/* And what each is to get. */
CORE_FN void ledger_plan_all(ledger_t *l)
{
	ledger_node_t *root = ledger_at(l, HSFQ_ROOT);
	u64 capacity = (u64)l->servers * LEDGER_CPU;
	u32 depth, n;

	for (n = l->leaves; n && CORE_MORE; n = ledger_at(l, n)->next)
		if (ledger_woke(ledger_at(l, n)))
			ledger_wake(l, n);
	root->want = root->theta < capacity ? root->theta : capacity;
	for (depth = CORE_ZERO; depth < HSFQ_DEPTH_MAX && CORE_MORE; depth++)
		for (n = *CORE_AT(l->level, depth); n && CORE_MORE; n = ledger_at(l, n)->level)
			if (!ledger_at(l, n)->leaf)
				ledger_plan(l, n);
}

/* ---- step 3: where it is to be served ----------------------------------- */

/* What leaves get of the domain, those that are full or the others. */
CORE_FN u64 ledger_column(ledger_t *l, u32 domain, u32 full)
{
	u64 sum = 0;
	u32 n;

	for (n = l->leaves; n && CORE_MORE; n = ledger_at(l, n)->next)
		if (ledger_at(l, n)->full == full)
			sum += ledger_cell(l, n, domain)->share;
	return sum;
}

/* They get no more than this together. Returns what they get. */
CORE_STEP u64 ledger_squeeze(ledger_t *l CORE_STATE, u32 domain, u32 full, u64 most)
{
	u64 sum = ledger_column(l, domain, full);
	u32 n;

	if (sum <= most)
		return sum;
	for (n = l->leaves; n && CORE_MORE; n = ledger_at(l, n)->next) {
		ledger_cell_t *c = ledger_cell(l, n, domain);

		if (ledger_at(l, n)->full == full)
			c->share = c->share * most / sum;
	}
	return most;
}

/* No domain gives more than it has. Those that are full come first, for the others can get
 * elsewhere what they do not get here. */
CORE_STEP u32 ledger_fit_columns(ledger_t *l CORE_STATE)
{
	u32 d;

	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++) {
		u64 most = (u64)*CORE_AT(l->of, d) * LEDGER_CPU,
		    full = ledger_squeeze(l, d, 1, most);

		*CORE_AT(l->column, d) = full + ledger_squeeze(l, d, 0, most - full);
	}
	return 0;
}

/* Each leaf gets what it is to get, and each of its threads no more than a processor. */
CORE_STEP u32 ledger_fit_rows(ledger_t *l CORE_STATE)
{
	u32 n, d;

	for (n = l->leaves; n && CORE_MORE; n = ledger_at(l, n)->next) {
		u64 sum = 0;

		for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++)
			sum += ledger_cell(l, n, d)->share;
		for (d = CORE_ZERO; sum && d < l->domains && CORE_MORE; d++) {
			ledger_cell_t *c = ledger_cell(l, n, d);
			u64 share = c->share * ledger_at(l, n)->want / sum;
			u64 most = (u64)c->runnable * LEDGER_CPU;

			c->share = share < most ? share : most;
		}
	}
	return 0;
}

/* Of what the leaf is to get, the part of its threads in a domain. */
CORE_FN u64 ledger_by_weight(ledger_node_t *h, ledger_cell_t *c)
{
	return h->thread_weights ? h->want * c->weights / h->thread_weights : 0;
}

CORE_STEP u32 ledger_fit(ledger_t *l CORE_STATE)
{
	u32 round, n, d;

	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++)
		*CORE_AT(l->wanted, d) = 0;
	for (n = l->leaves; n && CORE_MORE; n = ledger_at(l, n)->next)
		for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++) {
			ledger_cell_t *c = ledger_cell(l, n, d);

			c->share = ledger_by_weight(ledger_at(l, n), c);
			*CORE_AT(l->wanted, d) += c->share;
		}
	for (round = CORE_ZERO; round < LEDGER_ROUNDS && CORE_MORE; round++) {
		ledger_fit_columns(l);
		ledger_fit_rows(l);
	}
	ledger_fit_columns(l);
	for (n = l->leaves; n && CORE_MORE; n = ledger_at(l, n)->next) {
		ledger_node_t *h = ledger_at(l, n);

		h->gets = 0;
		for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++) {
			ledger_cell_t *c = ledger_cell(l, n, d);

			h->gets += c->share;
			if (!c->runnable)
				c->share = h->rate; /* of a thread that wakes there */
		}
	}
	return 0;
}

/* All has been seen, so much time after the last run. */
CORE_FN void ledger_settle(ledger_t *l, u64 elapsed_ns)
{
	u32 n, i;

	ledger_gather(l, elapsed_ns);
	ledger_entitle(l, elapsed_ns);
	ledger_plan_all(l);
	ledger_fit(l);
	l->mover = l->leaves;
	for (i = CORE_ZERO; i < LEDGER_ASLEEP && i < l->unused && CORE_MORE; i++) {
		if (++l->asleep >= l->unused)
			l->asleep = HSFQ_ROOT + 1;
		n = l->asleep;
		if (n < l->unused && ledger_at(l, n)->weight && ledger_at(l, n)->leaf &&
		    !ledger_at(l, n)->active)
			ledger_expect(l, n);
	}
}

/* ---- steps 4 and 5: weights, and threads that move ---------------------- */

/* Weight of the leaf in the domain's tree. One that is full has a little more: it takes that
 * from nobody, and could not make up for what it loses. */
CORE_FN u32 ledger_share(ledger_t *l, u32 leaf, u32 domain)
{
	u32 share = ledger_cell(l, leaf, domain)->share;

	if (ledger_at(l, leaf)->full)
		share += share / LEDGER_SPARE;
	return share ? share : 1;
}

/* How much more a thread of the leaf was served in one domain than in another, as far as the ledger
 * knows. Where nobody is, it is ahead of nobody. Between two runs, and meanwhile. */
CORE_FN s64 ledger_apart(ledger_t *l, u32 leaf, u32 from, u32 to)
{
	if (!ledger_cell(l, leaf, to)->runnable)
		return 0;
	return ledger_cell(l, leaf, from)->ahead_ns - ledger_cell(l, leaf, to)->ahead_ns;
}

/* A thread of the leaf goes: so much less is wanted here, and more there. */
CORE_FN u32 ledger_go(ledger_t *l, u32 n, u32 from, u32 to)
{
	ledger_cell_t *f = ledger_cell(l, n, from), *t = ledger_cell(l, n, to);
	u64 rate = ledger_at(l, n)->rate;

	t->ahead_ns = ledger_part(t->runnable, t->runnable + 1, t->ahead_ns) +
		      ledger_part(1, t->runnable + 1, f->ahead_ns);
	f->was--;
	t->was++;
	*CORE_AT(l->wanted, from) -= rate < *CORE_AT(l->wanted, from) ? rate : 0;
	*CORE_AT(l->wanted, to) += rate;
	l->move = (struct ledger_move){n, from, to};
	return true;
}

/* Does the leaf get less than it is to get, since its threads are where more is wanted than there
 * is? One of them moves from the domain where they get least to the one that has most left. */
CORE_STEP u32 ledger_find_room(ledger_t *l CORE_STATE, u32 n)
{
	ledger_node_t *h = ledger_at(l, n);
	u64 least = ~0ULL, most = 0;
	u32 d, from = 0, to = 0;

	if (h->gets + LEDGER_CPU / LEDGER_MOVES > h->want)
		return false;
	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++) {
		ledger_cell_t *c = ledger_cell(l, n, d);
		u64 left = (u64)*CORE_AT(l->of, d) * LEDGER_CPU - *CORE_AT(l->column, d);

		if (c->runnable && c->share / c->runnable < least) {
			least = c->share / c->runnable;
			from = d;
		}
		if (left > most) {
			most = left;
			to = d;
		}
	}
	if (most < LEDGER_CPU / LEDGER_MOVES || from == to)
		return false;
	*CORE_AT(l->column, to) += h->rate < most ? h->rate : most;
	return ledger_go(l, n, from, to);
}

/* May a thread of the leaf go there: is no more wanted of each processor there, with it, than here?
 * `far`: a quarter less, and here more than there is. */
CORE_FN bool ledger_worth(ledger_t *l, u32 n, u32 from, u32 to, bool far)
{
	u64 rate = ledger_at(l, n)->rate, more = rate - rate / LEDGER_MOVES;
	u64 here = *CORE_AT(l->wanted, from) * *CORE_AT(l->of, to),
	    there = (*CORE_AT(l->wanted, to) + more) * *CORE_AT(l->of, from);

	if (!far)
		return there <= here;
	return there <= here - here / 4 &&
	       here > (u64)*CORE_AT(l->of, from) * *CORE_AT(l->of, to) * LEDGER_CPU;
}

/* Is less wanted of each processor there than here? */
CORE_FN bool ledger_calmer(ledger_t *l, u32 there, u32 here)
{
	u32 servers = *CORE_AT(l->of, here);

	return !servers || *CORE_AT(l->wanted, there) * servers <
				   *CORE_AT(l->wanted, here) * *CORE_AT(l->of, there);
}

/* Where a new thread of the leaf is to wait, whose parent is at home here and that finds no idle
 * processor: not where its siblings are many already. Between two runs, and meanwhile: what it sees
 * may be out of date. */
CORE_FN u32 ledger_place(ledger_t *l, u32 leaf, u32 home)
{
	u32 d, least = home;

	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++)
		if (ledger_calmer(l, d, least))
			least = d;
	if (!ledger_worth(l, leaf, home, least, true))
		least = home;
	*CORE_AT(l->wanted, least) += ledger_at(l, leaf)->rate;
	return least;
}

/* Of the domains where the leaf has something runnable: where its threads are furthest behind, and
 * ahead, and where most are. And the one where least is wanted. */
CORE_STEP u32 ledger_find_ends(ledger_t *l CORE_STATE, u32 n)
{
	u32 d;

	l->behind = l->ahead = l->most = l->least = 0;
	for (d = CORE_ZERO; d < l->domains && CORE_MORE; d++) {
		ledger_cell_t *c = ledger_cell(l, n, d);

		if (ledger_calmer(l, d, l->least))
			l->least = d;
		if (c->runnable > ledger_cell(l, n, l->most)->runnable)
			l->most = d;
		if (!c->runnable)
			continue;
		if (!ledger_cell(l, n, l->behind)->runnable ||
		    c->ahead_ns < ledger_cell(l, n, l->behind)->ahead_ns)
			l->behind = d;
		if (!ledger_cell(l, n, l->ahead)->runnable ||
		    c->ahead_ns > ledger_cell(l, n, l->ahead)->ahead_ns)
			l->ahead = d;
	}
	return 0;
}

/*
 * Are the leaf's threads in one domain far ahead of those in another? One of those that are
 * furthest behind goes where they are furthest ahead. And without waiting for that, where far less
 * is wanted than where most of it is.
 */
CORE_STEP u32 ledger_find_even(ledger_t *l CORE_STATE, u32 n)
{
	s64 apart_ns;

	ledger_find_ends(l, n);
	if (ledger_cell(l, n, l->most)->runnable > 1 && ledger_worth(l, n, l->most, l->least, true))
		return ledger_go(l, n, l->most, l->least);
	apart_ns = ledger_cell(l, n, l->ahead)->ahead_ns - ledger_cell(l, n, l->behind)->ahead_ns;
	if (apart_ns < LEDGER_APART_NS || !ledger_worth(l, n, l->behind, l->ahead, false))
		return false;
	return ledger_go(l, n, l->behind, l->ahead);
}

/*
 * The next leaf of which a thread is to move, and where to: to where there is room, or else to
 * where there are fewer. Once a leaf and run; the next run sees whether that was enough.
 */
CORE_FN struct ledger_move ledger_move(ledger_t *l)
{
	u32 n = l->mover, moves = CORE_ZERO;

	for (; n && !moves && CORE_MORE; n = ledger_at(l, n)->next)
		moves = ledger_find_room(l, n) || ledger_find_even(l, n);
	l->mover = n;
	return moves ? l->move : (struct ledger_move){};
}

#endif
