/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ops.c - random operations on the tree and its leaves, for libFuzzer
 *
 * The input is a program: a byte that chooses the tree, then an operation and
 * its arguments each, in bytes. Like every mechanism it keeps the queues of
 * waiting threads, and never does what the headers say a caller must not. After
 * each operation everything that must hold is checked, by linear searches that
 * share nothing with the code they check. The first byte chooses
 *
 *   a small tree   of at most SMALL nodes, all of it checked each time
 *   a full tree    all HSFQ_NODES in use, checked at the end
 *
 * and where on the circle of tags it begins. Run it with core/fuzz/run.
 */
#include "../cpu/sched.h"
#include "input.h"

enum { SMALL = 48, THREADS = 48, SERVERS = 4 };

enum state { NOBODY, ASLEEP, WAITING, SERVED };

struct thread {
	struct lend_thread l;
	enum state state;
	u64 key;  /* when it began to wait */
	u64 turn; /* FIFO among equal keys */
	struct sched_server *server;
};

static struct hsfq_tree tree;
static struct lend_book book; /* nobody lends here */
static struct sched_server servers[SERVERS];
static struct thread threads[THREADS];
static u64 turns;
static u64 now; /* nanoseconds, of the clock that the caller has */
static u32 served;
static bool full;

/* Servers that look for a thread they may serve. */
static struct {
	u32 leaf;   /* chosen, not looked into yet */
	u32 passed; /* first of those passed over */
} choosing[SERVERS];

/* Mostly plausible, sometimes nothing or more than anything. */
static u64 length(void)
{
	u32 b = byte();

	switch (b >> 5) {
	case 0:
		return b & 31;
	case 1:
		return SFQ_LENGTH_MAX_NS - (b & 31);
	case 2:
		return ~0ULL >> (b & 31);
	default:
		return 1 + (u64)(b & 31) * word() * 13;
	}
}

static u32 weight(void)
{
	u32 w = word();

	switch (w & 3) {
	case 0:
		return w >> 2; /* may be out of range */
	case 1:
		return 1;
	default:
		return 1 + (w >> 2) % SFQ_WEIGHT_MAX;
	}
}

/* Mostly one that exists. */
static u32 some_node(void)
{
	u32 n = word();

	return n & 15 ? 1 + (n >> 4) % (tree.unused - 1) : n >> 4;
}

static u32 some_leaf(void)
{
	u32 i, n = some_node();

	for (i = 0; i < tree.unused; i++, n++)
		if (hsfq_valid(&tree, n % tree.unused) &&
		    (tree.node[n % tree.unused].flags & HSFQ_LEAF))
			return n % tree.unused;
	return HSFQ_NIL;
}

static struct thread *some_thread(enum state state)
{
	u32 i, first = byte();

	for (i = 0; i < THREADS; i++)
		if (threads[(first + i) % THREADS].state == state)
			return &threads[(first + i) % THREADS];
	return NULL;
}

/* ---- what must hold ---------------------------------------------------- */

/* Returns the size of the heap from slot s, the i-th, downwards. */
static u32 check_heap(u32 parent, u32 s, u32 up, u32 i)
{
	struct hsfq_node *slot = &tree.node[s], *who, *above;
	u32 top = 1;

	if (!s)
		return 0;
	CHECK(s < HSFQ_NODES && slot->who < HSFQ_NODES);
	who = &tree.node[slot->who];
	CHECK((slot->flags & HSFQ_READY) && slot->parent == parent);
	CHECK((who->flags & HSFQ_READY) && who->parent == parent);
	CHECK(who->slot == s && slot->up == up && i <= tree.node[parent].waiting);
	if (up) {
		above = &tree.node[tree.node[up].who];
		CHECK(!sfq_before(who->flow.start, above->flow.start));
		CHECK(who->flow.start != above->flow.start || above->order < who->order);
	}
	while (top <= i / 2)
		top *= 2;
	return 1 + check_heap(parent, slot->left, s, i + top) +
	       check_heap(parent, slot->right, s, i + 2 * top);
}

static void check_budget(u32 n)
{
	struct budget *b = &tree.budget[n];
	bool held = tree.node[n].flags & HSFQ_HELD;

	if (!(tree.node[n].flags & HSFQ_LIMITED)) {
		CHECK(!held);
		return;
	}
	CHECK(b->quota_ns && b->left_ns <= (s64)(b->quota_ns + b->burst_ns));
	CHECK(b->over_ns <= b->quota_ns);
	CHECK(b->end_ns % b->period_ns == 0 && (held || b->left_ns > 0));
}

/* A leaf may stay ready while a single server serves its thread: the next choice comes after that.
 */
static bool served_alone(u32 leaf)
{
	u32 i;

	for (i = 0; tree.servers == 1 && i < THREADS; i++)
		if (threads[i].state == SERVED && threads[i].l.leaf == leaf)
			return true;
	return false;
}

static void check_node(u32 n)
{
	struct hsfq_node *h = &tree.node[n], *p = &tree.node[h->parent];

	if (n != HSFQ_ROOT) {
		CHECK(hsfq_valid(&tree, h->parent) && !(p->flags & HSFQ_LEAF));
		CHECK(h->depth == p->depth + 1 && h->depth <= HSFQ_DEPTH_MAX);
		CHECK(h->weight >= SFQ_WEIGHT_MIN && h->weight <= SFQ_WEIGHT_MAX);
		CHECK(h->flow.rem < SFQ_WEIGHT_MAX);
		CHECK(!(h->flags & HSFQ_READY) || (h->flags & HSFQ_RUNNABLE));
		CHECK(!(h->flags & HSFQ_RUNNABLE) == (!h->runnable || (h->flags & HSFQ_HELD)));
		CHECK(!(h->flags & HSFQ_READY) ||
		      ((h->waiting || served_alone(n)) && !(h->flags & (HSFQ_PASSED | HSFQ_HELD))));
		CHECK(!h->waiting || (h->flags & (HSFQ_READY | HSFQ_PASSED | HSFQ_HELD)));
		check_budget(n);
		if (h->flags & HSFQ_RUNNABLE) {
			s64 gap = h->flow.start - p->clock.vtime;

			CHECK(gap < 1LL << 60 && gap > -(1LL << 60));
		}
	}
	if (h->flags & HSFQ_LEAF)
		CHECK(!h->heap && !h->children);
	else
		CHECK(!h->threads && check_heap(n, h->heap, 0, 1) == h->waiting);
}

static void check_tree(void)
{
	static u32 children[HSFQ_NODES], runnable[HSFQ_NODES], weights[HSFQ_NODES];
	u32 n, nodes = 0, leaves = 0, unused = 0, limited = 0, held = 0, passed = 0;
	struct hsfq_node *h;

	memset(children, 0, tree.unused * sizeof(u32));
	memset(runnable, 0, tree.unused * sizeof(u32));
	memset(weights, 0, tree.unused * sizeof(u32));
	for (n = 1; n < tree.unused; n++) {
		h = &tree.node[n];
		if (!(h->flags & HSFQ_USED))
			continue;
		check_node(n);
		nodes++;
		limited += !!(h->flags & HSFQ_LIMITED);
		held += !!(h->flags & HSFQ_HELD);
		passed += !!(h->flags & HSFQ_PASSED);
		children[h->parent]++;
		if (h->flags & HSFQ_RUNNABLE) {
			runnable[h->parent]++;
			weights[h->parent] += h->weight;
			leaves += !!(h->flags & HSFQ_LEAF);
		}
	}
	CHECK(nodes == tree.nodes && leaves == tree.runnable);
	CHECK(limited == tree.limited && held == tree.held && passed == tree.passed);
	for (n = 1; n < tree.unused; n++) {
		h = &tree.node[n];
		if (!(h->flags & HSFQ_USED) || (h->flags & HSFQ_LEAF))
			continue;
		CHECK(h->children == children[n]);
		CHECK(h->runnable == runnable[n] && h->weights == weights[n]);
	}
	for (n = tree.free; n; n = tree.node[n].next) {
		CHECK(!tree.node[n].flags && unused < HSFQ_NODES);
		unused++;
	}
	CHECK(nodes + unused + 1 == tree.unused);
}

static void check_threads(void)
{
	u32 i, k;

	for (i = 0; i < THREADS; i++) {
		u32 members = 0, runnable = 0, waiting = 0, weights = 0;
		struct hsfq_node *l = &tree.node[threads[i].l.leaf];

		if (threads[i].state == NOBODY)
			continue;
		CHECK(hsfq_valid(&tree, threads[i].l.leaf) && (l->flags & HSFQ_LEAF));
		for (k = 0; k < THREADS; k++) {
			if (threads[k].state == NOBODY || threads[k].l.leaf != threads[i].l.leaf)
				continue;
			members++;
			waiting += threads[k].state == WAITING;
			if (threads[k].state == ASLEEP)
				continue;
			runnable++;
			weights += threads[k].l.lt.weight;
		}
		CHECK(l->threads == members && l->runnable == runnable);
		CHECK(l->waiting == waiting && l->weights == weights);
	}
}

/* The chosen leaf has the least tag at every level. `moved`: v(t) came to its tags. */
static void check_choice(u32 leaf, bool moved)
{
	u32 n, c;

	for (n = leaf; n != HSFQ_ROOT; n = tree.node[n].parent) {
		u32 parent = tree.node[n].parent;

		CHECK(tree.node[n].flags & HSFQ_READY);
		CHECK(!moved ||
		      !sfq_before(tree.node[parent].clock.vtime, tree.node[n].flow.start));
		for (c = 1; c < tree.unused; c++)
			if (c != n && tree.node[c].parent == parent &&
			    (tree.node[c].flags & HSFQ_READY))
				CHECK(hsfq_first(&tree, n, c));
	}
}

/* ---- the mechanism ----------------------------------------------------- */

static void enqueue(struct thread *th)
{
	th->state = WAITING;
	th->key = leaf_key(&th->l.lt);
	th->turn = ++turns;
}

/* A single server serves this thread, said to be the next, in place of the one in service. */
static void take_over(struct sched_server *s, struct thread *th)
{
	struct thread *before = (struct thread *)s->th;
	struct sched_begin b;
	struct sched_end e;

	e = sched_end(&tree, &book, &before->l, sched_served(s, now), now, SCHED_WAITS);
	before->server = NULL;
	s->th = NULL;
	b = sched_begin(&tree, &book, s, &th->l, now);
	CHECK(b.straight && (!b.second || e.held));
	sched_set(s, &th->l, b.quantum, now);
	th->server = s;
	th->state = SERVED;
	sched_wait(&tree, &book, &before->l);
	enqueue(before);
}

/* The server on which it begins to wait, and the others, where somebody is served. */
static void contest(struct thread *th)
{
	u32 i, own = th->turn % SERVERS;

	for (i = 0; i < SERVERS; i++) {
		struct sched_server *s = &servers[i];
		struct sched_contest c = {};
		bool peaceful = sched_in_peace(s, th->l.leaf, sched_peace(&tree, &th->l), now);

		if (i == own)
			c = sched_contest(&tree, s, &th->l, now);
		if (c.over && sched_is_next(&tree, &book, s, &th->l, now) && tree.servers == 1)
			take_over(s, th);
		CHECK(!c.over || (s->th && c.due_ns <= now + SCHED_SLACK_NS));
		if (c.sooner && !c.over)
			sched_cut(s, c.due_ns);
		if (i != own && sched_ends_elsewhere(&tree, s, &th->l, now))
			CHECK(s->th && sched_gives_way(s) && !peaceful);
		if (s->th && s->th != &th->l)
			sched_outranks(&tree, s, &th->l, th->l.leaf, now);
		CHECK(s->calm_ns <= now + (QUANTUM_EAGER + 1) * QUANTUM_CALM_NS);
	}
}

/* Runnable, from now on. */
static void wake(struct thread *th)
{
	sched_arrive(&tree, &book, &th->l, now);
	sched_wait(&tree, &book, &th->l);
	enqueue(th);
	contest(th);
}

static struct sched_server *free_server(void)
{
	u32 i;

	for (i = 0; i < SERVERS; i++)
		if (!servers[i].th)
			return &servers[i];
	return NULL;
}

static void dispatch(void)
{
	struct sched_server *s = free_server();
	struct thread *first = NULL;
	struct quantum q;
	u32 i, leaf = sched_choose(&tree);

	if (!leaf) {
		CHECK(!tree.node[HSFQ_ROOT].waiting);
		return;
	}
	check_choice(leaf, !tree.passed);
	for (i = 0; i < THREADS; i++) {
		struct thread *th = &threads[i];

		if (th->state != WAITING || th->l.leaf != leaf)
			continue;
		if (!first || sfq_before(th->key, first->key) ||
		    (th->key == first->key && th->turn < first->turn))
			first = th;
	}
	CHECK(first);
	q = sched_begin(&tree, &book, s, &first->l, now).quantum;
	sched_set(s, &first->l, q, now);
	first->server = s;
	first->state = SERVED;
	served++;
	CHECK(q.length_ns >= QUANTUM_MIN_NS && q.length_ns <= QUANTUM_ALONE_NS);
}

/* A server looks into the leaf it chose and finds nobody it may serve. Others
 * do anything between its steps. */
static void look(u32 server, bool give_up)
{
	u32 passed = choosing[server].passed, before = choosing[server].leaf, leaf;
	bool soon = server & 1;

	leaf = before ? sched_choose_but(&tree, before, soon, &passed) : sched_choose(&tree);
	if (leaf)
		check_choice(leaf, (before && !soon) || !tree.passed);
	if (give_up)
		leaf = HSFQ_NIL;
	while (!leaf && passed)
		passed = sched_restore(&tree, passed);
	choosing[server].leaf = leaf;
	choosing[server].passed = passed;
}

/* A single server asks for nothing until it has charged whom it serves. */
static bool serves_alone(void)
{
	return tree.servers == 1 && served;
}

static void all_give_up(void)
{
	u32 n;

	for (n = 0; n < SERVERS; n++)
		look(n, true);
}

static void finish(struct thread *th, u64 length_ns, bool sleep)
{
	u64 told;
	bool stranger;

	now += length_ns > SFQ_LENGTH_MAX_NS ? SFQ_LENGTH_MAX_NS : length_ns;
	told = leaf_ahead(&tree.node[th->l.leaf], &th->l.lt, length_ns, now);
	stranger = leaf_stranger(&tree.node[th->l.leaf], &th->l.lt);
	/* No server looks for so long. */
	if (length_ns > 1ULL << 36)
		all_give_up();
	sched_timer(th->server, now);
	sched_charge(&tree, &th->l, length_ns, now);
	CHECK(stranger || told == th->l.lt.flow.start);
	if (length_ns & 1)
		sched_give_up(&tree, &th->l, length_ns & 2);
	sched_end(&tree, &book, &th->l, 0, now, sleep ? SCHED_SLEEPS : SCHED_ASKS);
	served--;
	th->server->th = NULL;
	th->server = NULL;
	th->state = ASLEEP;
	if (!sleep)
		enqueue(th);
}

static void stop(struct thread *th)
{
	if (th->state == SERVED) {
		finish(th, 1000, true);
	} else if (th->state == WAITING) {
		sched_depart(&tree, &book, &th->l, 0);
		th->state = ASLEEP;
	}
}

/* Time passes, and those whose next period has begun return. */
static void release(u64 wait_ns)
{
	u32 n;

	now += wait_ns;
	for (n = 1; n < tree.unused; n++)
		limit_release(&tree, n, now);
}

static void limit(u32 n, u32 kind)
{
	u64 quota_ns = length();

	if (kind & 4)
		release(quota_ns < BUDGET_MAX_NS ? quota_ns : 0);
	else
		limit_set(&tree, n, kind & 3 ? quota_ns : 0, length(), kind & 1 ? length() : 0,
			  now);
}

/* The longest quanta, one after the other: tags go round the circle. */
static void run_long(u32 rounds)
{
	u32 i;

	all_give_up();
	for (i = 0; i < THREADS; i++)
		if (threads[i].state == SERVED)
			finish(&threads[i], 1000, false);
	while (rounds--) {
		release(0);
		dispatch();
		for (i = 0; i < THREADS; i++)
			if (threads[i].state == SERVED)
				finish(&threads[i], SFQ_LENGTH_MAX_NS, false);
	}
}

static void new_thread(struct thread *th, u32 leaf)
{
	memset(th, 0, sizeof(*th));
	th->l.leaf = leaf;
	th->state = ASLEEP;
	leaf_join(&tree, leaf, &th->l.lt);
	if (leaf_set_weight(&tree, leaf, &th->l.lt, weight(), false))
		leaf_set_weight(&tree, leaf, &th->l.lt, SFQ_WEIGHT_DEFAULT, false);
}

static void move(struct thread *th, u32 leaf)
{
	enum state state = th->state;
	u32 from = th->l.leaf;

	stop(th);
	/* In this order: a retired leaf goes with its last thread. */
	leaf_join(&tree, leaf, &th->l.lt);
	th->l.leaf = leaf;
	leaf_leave(&tree, from);
	if (state != ASLEEP)
		wake(th);
}

static void thread_operation(u32 op)
{
	struct thread *th = some_thread(op % 4);
	u32 leaf = some_leaf();

	if (!th || !leaf)
		return;
	switch (th->state) {
	case NOBODY:
		new_thread(th, leaf);
		return;
	case ASLEEP:
		wake(th);
		return;
	case WAITING:
		if (op & 4)
			stop(th);
		else
			move(th, leaf);
		return;
	case SERVED:
		finish(th, length(), op & 4);
		return;
	}
}

/* Mostly plausible; one that waits may be put elsewhere in its queue. */
static void promise(struct thread *th, u32 op)
{
	u64 period = LEAF_COST_MIN_NS * (1 + word()), deadline = period - period * (byte() & 3) / 8;

	if (op & 4)
		leaf_set_class(&th->l.lt, byte() % 4, byte() % 64);
	else
		leaf_reserve(&th->l.lt, op & 8 ? 0 : deadline * byte() / 256, period, deadline);
	if (th->state != WAITING || !(op & 2))
		return;
	leaf_rekey(&tree.node[th->l.leaf], &th->l.lt, now);
	th->key = leaf_key(&th->l.lt);
	th->turn = ++turns;
}

/* Of all threads that may be served one waits, and it is one of this leaf. */
static void check_alone(u32 leaf)
{
	u32 waiting = 0;

	for (u32 i = 0; i < THREADS; i++) {
		if (threads[i].state != WAITING || limit_held(&tree, threads[i].l.leaf))
			continue;
		CHECK(threads[i].l.leaf == leaf);
		waiting++;
	}
	CHECK(waiting == 1);
}

static void ask(void)
{
	struct thread *waits = some_thread(WAITING), *runs = some_thread(SERVED);
	u32 a = some_leaf(), b = some_leaf();

	if (!a || !b)
		return;
	CHECK(hsfq_share(&tree, a, QUANTUM_PERIOD_MAX_NS) <= QUANTUM_PERIOD_MAX_NS);
	hsfq_precedes(&tree, a, b, length(), byte() * QUANTUM_MIN_NS);
	hsfq_contended(&tree, b);
	if (waits && runs)
		quantum_left(&tree, waits->l.leaf, &waits->l.lt, runs->l.leaf, &runs->l.lt,
			     length(), now, byte() & 1);
	if (waits && runs)
		quantum_ends(&tree, waits->l.leaf, &waits->l.lt, runs->l.leaf, &runs->l.lt,
			     length(), now, byte() & 1);
	if (quantum_straight(&tree, b))
		check_alone(b);
	if (waits && runs)
		leaf_outranks(&tree, waits->l.leaf, &waits->l.lt, a, runs->l.leaf, &runs->l.lt,
			      length(), now);
	if (waits)
		quantum_goes_on(&tree, waits->l.leaf, a);
}

static void operate(void)
{
	u32 op = byte(), n = some_node();
	struct thread *th;

	switch (op >> 4) {
	case 0:
		if (full || tree.nodes < SMALL)
			hsfq_mknod(&tree, n, weight(), op & 1 ? HSFQ_LEAF : 0);
		break;
	case 1:
		if (op & 8)
			hsfq_retire(&tree, n);
		else
			hsfq_rmnod(&tree, n);
		if (op & 4)
			limit(some_node(), byte());
		break;
	case 2:
		if (n != HSFQ_NIL)
			hsfq_set_weight(&tree, n, weight());
		break;
	case 3:
		n = some_leaf();
		if (n)
			leaf_set_policy(&tree, n, op % 8, now);
		break;
	case 4:
		th = some_thread(op % 4);
		if (th && th->state != NOBODY)
			leaf_set_weight(&tree, th->l.leaf, &th->l.lt, weight(),
					th->state != ASLEEP);
		break;
	case 5:
		th = some_thread(op % 4);
		if (th && th->state != NOBODY && word() & 1)
			promise(th, byte());
		else
			ask();
		now += length() & 0xfffffff;
		break;
	case 6:
		if (!full)
			run_long(op & 15 ? byte() / 8 : byte() * 16);
		break;
	case 7:
		if (!serves_alone())
			look(op % SERVERS, op & 8);
		break;
	case 8:
	case 9:
	case 10:
		if (served < tree.servers)
			dispatch();
		break;
	default:
		thread_operation(op);
	}
}

static void set_up(void)
{
	u32 b = byte(), n, inner;

	/* What was used last time, which costs less than all of it. */
	memset(tree.node, 0, tree.unused * sizeof(tree.node[0]));
	memset(tree.budget, 0, tree.unused * sizeof(tree.budget[0]));
	memset(&tree, 0, offsetof(struct hsfq_tree, node));
	memset(threads, 0, sizeof(threads));
	memset(choosing, 0, sizeof(choosing));
	memset(servers, 0, sizeof(servers));
	turns = served = now = 0;
	full = (b & 15) == 15;
	hsfq_init(&tree);
	tree.servers = 1 + byte() % 4;
	tree.node[HSFQ_ROOT].clock.vtime = (u64)b << 56 | (b & 16 ? ~0ULL >> 12 : 0);
	tree.node[HSFQ_ROOT].clock.max_finish = tree.node[HSFQ_ROOT].clock.vtime;
	if (!full)
		return;
	inner = hsfq_mknod(&tree, HSFQ_ROOT, 100, 0);
	for (n = 0; hsfq_mknod(&tree, n & 1 ? inner : HSFQ_ROOT, 1 + n % 100, HSFQ_LEAF) > 0; n++)
		;
	CHECK(tree.nodes == HSFQ_NODES - 1);
}

/* Everything can be taken apart again, whatever happened. */
static void tear_down(void)
{
	u32 n, before;

	for (n = 1; n < tree.unused; n++)
		if (n != HSFQ_ROOT && hsfq_valid(&tree, n))
			CHECK(!limit_set(&tree, n, 0, 0, 0, now));
	CHECK(!tree.held && !tree.limited);
	for (n = 0; n < THREADS; n++) {
		if (threads[n].state == NOBODY)
			continue;
		stop(&threads[n]);
		leaf_leave(&tree, threads[n].l.leaf);
	}
	all_give_up();
	CHECK(!hsfq_schedule(&tree) && !tree.runnable);
	do {
		before = tree.nodes;
		for (n = tree.unused - 1; n > HSFQ_ROOT; n--)
			hsfq_rmnod(&tree, n);
	} while (tree.nodes < before);
	CHECK(tree.nodes == 1);
	check_tree();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = data;
	left = size;
	set_up();
	while (left) {
		operate();
		if (!full)
			check_tree();
		check_threads();
	}
	check_tree();
	tear_down();
	return 0;
}
