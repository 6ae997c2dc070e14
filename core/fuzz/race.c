/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * race.c - processors that serve at the same time, for ThreadSanitizer
 *
 * race PROCESSORS DOMAINS SECONDS: each processor is a thread of this machine, each domain a
 * tree and a lock, as core/cpu/ledger.h has it, and one more thread draws up the ledger. They
 * choose, charge, sleep, wake, steal and move as fast as they can. Nobody touches a tree but
 * under its lock, and at the end every account must be exact: what processors gave, what trees,
 * leaves and threads received, and what the ledger read. What sched.h reads without the
 * lock is not tried. Run it with core/fuzz/run-race.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../cpu/ledger.h"
#include "../cpu/sched.h"

enum { PROCESSORS = 64, DOMAINS = 8, CLASSES = 5, LEAVES = 12, THREADS = 96 };

struct thread {
	struct lend_thread l;
	u64 served_ns;
	struct thread *next; /* in a queue, or among those asleep */
};

/* Of a leaf: who waits, and how long threads were runnable, less the time now for each. */
struct queue {
	struct thread *first;
	u64 runnable_ns;
};

static struct domain {
	pthread_mutex_t lock;
	struct hsfq_tree tree;
	struct lend_book book;
	struct queue queue[HSFQ_NODES];
	struct thread *asleep;
} domains[DOMAINS];

static struct processor {
	pthread_t thread;
	u32 domain;
	struct sched_server server;
	u64 random, given_ns, quanta, stolen, ended;
} processors[PROCESSORS];

static struct thread threads[THREADS];
static struct ledger ledger;
static struct ledger_cell cells[DOMAINS * HSFQ_NODES];
static u32 leaves[LEAVES], servers, parts;
static u64 runs, moves;
static atomic_ullong clock_ns = 1;
static atomic_bool stop;

static u64 tick(u64 length_ns)
{
	return atomic_fetch_add(&clock_ns, length_ns / servers + 1);
}

static u32 draw(u64 *random, u32 below)
{
	*random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*random >> 33) % below;
}

/* ---- under a domain's lock ---------------------------------------------- */

static void enqueue(struct domain *d, struct thread *th)
{
	th->next = d->queue[th->l.leaf].first;
	d->queue[th->l.leaf].first = th;
}

static void arrive(struct domain *d, struct thread *th)
{
	u64 now = tick(0);

	d->queue[th->l.leaf].runnable_ns -= now;
	sched_arrive(&d->tree, &d->book, &th->l, now);
	sched_wait(&d->tree, &d->book, &th->l);
	enqueue(d, th);
}

/* The leaf's first thread, out of its queue. */
static struct thread *first(struct domain *d, u32 leaf)
{
	struct thread **best = NULL, **at, *th;

	for (at = &d->queue[leaf].first; *at; at = &(*at)->next)
		if (!best || sfq_before(leaf_key(&(*at)->l.lt), leaf_key(&(*best)->l.lt)))
			best = at;
	th = best ? *best : NULL;
	if (th)
		*best = th->next;
	return th;
}

static struct thread *chosen(struct domain *d)
{
	u32 leaf = sched_choose(&d->tree);

	return leaf ? first(d, leaf) : NULL;
}

/* Somebody wakes in this domain, and one that is served there may have to give way. */
static void wake(struct domain *d)
{
	struct thread *th = d->asleep;
	u64 now = tick(0);
	u32 i;

	if (!th)
		return;
	d->asleep = th->next;
	arrive(d, th);
	for (i = 0; i < servers; i++)
		if (&domains[processors[i].domain] == d &&
		    sched_ends_elsewhere(&d->tree, &processors[i].server, &th->l, now))
			break;
}

/* ---- what a processor does ---------------------------------------------- */

/* A thread that waits goes from one domain to another, with one lock at a time. */
static bool carry(struct domain *from, struct domain *to, u32 leaf)
{
	struct thread *th;

	pthread_mutex_lock(&from->lock);
	th = leaf ? first(from, leaf) : chosen(from);
	if (th) {
		u64 now = tick(0);

		from->queue[th->l.leaf].runnable_ns += now;
		sched_leave(&from->tree, &th->l, now);
	}
	pthread_mutex_unlock(&from->lock);
	if (!th)
		return false;
	pthread_mutex_lock(&to->lock);
	sched_enter(&to->tree, &th->l, 0, tick(0));
	arrive(to, th);
	pthread_mutex_unlock(&to->lock);
	return true;
}

static void serve(struct processor *p, struct domain *d, struct thread *th)
{
	struct quantum q;
	u64 length_ns, now = tick(0);
	bool sleeps, ended;

	q = sched_begin(&d->tree, &d->book, &p->server, &th->l, now).quantum;
	sched_set(&p->server, &th->l, q, now);
	pthread_mutex_unlock(&d->lock);

	length_ns = 1 + q.length_ns * draw(&p->random, 1000) / 1000;
	p->given_ns += length_ns;
	p->quanta++;
	now = tick(length_ns);

	pthread_mutex_lock(&d->lock);
	ended = sched_gives_way(&p->server);
	p->ended += ended;
	sleeps = !ended && !draw(&p->random, 4);
	sched_end(&d->tree, &d->book, &th->l, length_ns, now, sleeps ? SCHED_SLEEPS : SCHED_ASKS);
	p->server.th = NULL;
	th->served_ns += length_ns;
	if (!sleeps) {
		enqueue(d, th);
	} else {
		d->queue[th->l.leaf].runnable_ns += now;
		th->next = d->asleep;
		d->asleep = th;
	}
	if (!draw(&p->random, 3))
		wake(d);
}

static void *processor(void *arg)
{
	struct processor *p = arg;
	struct domain *d = &domains[p->domain];
	struct thread *th;
	u32 other;

	while (!atomic_load(&stop)) {
		pthread_mutex_lock(&d->lock);
		th = chosen(d);
		if (th)
			serve(p, d, th);
		else
			wake(d);
		pthread_mutex_unlock(&d->lock);
		other = draw(&p->random, parts);
		if (!th && other != p->domain)
			p->stolen += carry(&domains[other], d, HSFQ_NIL);
	}
	return NULL;
}

/* ---- the ledger --------------------------------------------------------- */

static void see(void)
{
	u32 i, n;

	for (i = 0; i < parts; i++) {
		struct domain *d = &domains[i];

		pthread_mutex_lock(&d->lock);
		for (n = 0; n < LEAVES; n++) {
			hsfq_node_t *l = &d->tree.node[leaves[n]];
			u64 until_now = l->runnable * tick(0);

			ledger_see(&ledger, leaves[n], i, l->runnable, l->weights,
				   d->queue[leaves[n]].runnable_ns + until_now, l->served_ns);
		}
		pthread_mutex_unlock(&d->lock);
	}
}

static void *keeper(void *arg)
{
	u64 random = 1, last_ns = tick(0), now;
	struct timespec moment = {0, 200000};
	struct ledger_move m;
	u32 i, n;

	while (!atomic_load(&stop)) {
		nanosleep(&moment, NULL);
		see();
		now = tick(0);
		ledger_settle(&ledger, now - last_ns);
		last_ns = now;
		for (i = 0; i < parts; i++) {
			pthread_mutex_lock(&domains[i].lock);
			for (n = 0; n < LEAVES; n++)
				hsfq_weigh(&domains[i].tree, leaves[n],
					   ledger_share(&ledger, leaves[n], i));
			pthread_mutex_unlock(&domains[i].lock);
		}
		while ((m = ledger_move(&ledger)).leaf)
			moves += carry(&domains[m.from], &domains[m.to], m.leaf);
		ledger_set_weight(&ledger, leaves[draw(&random, LEAVES)], 1 + draw(&random, 1000));
		runs++;
	}
	return arg;
}

/* ---- the whole ---------------------------------------------------------- */

/* Classes below the root, and leaves below those: here as a tree, in the domains flat. */
static void make(void)
{
	u32 class[CLASSES], i, n, at;

	for (n = 0; n < CLASSES + LEAVES; n++) {
		bool leaf = n >= CLASSES;
		u32 parent = leaf && n % 6 ? class[n % CLASSES] : HSFQ_ROOT;

		at = 0;
		for (i = 0; i < parts; i++)
			at = hsfq_mknod(&domains[i].tree, HSFQ_ROOT, 100, leaf ? HSFQ_LEAF : 0);
		ledger_mknod(&ledger, at, parent, 50 * (n + 1), leaf);
		if (leaf)
			leaves[n - CLASSES] = at;
		else
			class[n] = at;
	}
	for (n = 0; n < THREADS; n++) {
		struct thread *th = &threads[n];
		struct domain *d = &domains[n % parts];

		th->l.leaf = leaves[n * n % LEAVES];
		th->l.lt.weight = 50 + n;
		leaf_join(&d->tree, th->l.leaf, &th->l.lt);
		arrive(d, th);
	}
}

static u32 wrong;

static void same(const char *what, u64 a, u64 b)
{
	if (a == b)
		return;
	fprintf(stderr, "race: %s: %llu is not %llu\n", what, (unsigned long long)a,
		(unsigned long long)b);
	wrong = 1;
}

static void check(void)
{
	u64 given_ns = 0, received_ns = 0, threads_ns = 0, quanta = 0, stolen = 0, ended = 0;
	u32 i, n, t;

	for (i = 0; i < servers; i++) {
		given_ns += processors[i].given_ns;
		quanta += processors[i].quanta;
		stolen += processors[i].stolen;
		ended += processors[i].ended;
	}
	for (i = 0; i < parts; i++)
		received_ns += domains[i].tree.node[HSFQ_ROOT].served_ns;
	same("given and received", given_ns, received_ns);
	see();
	ledger_settle(&ledger, 1);
	for (n = 0; n < LEAVES; n++) {
		u64 leaf_ns = 0;

		threads_ns = 0;
		for (i = 0; i < parts; i++)
			leaf_ns += domains[i].tree.node[leaves[n]].served_ns;
		for (t = 0; t < THREADS; t++)
			threads_ns += threads[t].l.leaf == leaves[n] ? threads[t].served_ns : 0;
		same("a leaf and its threads", leaf_ns, threads_ns);
		same("a leaf and the ledger", leaf_ns, ledger.node[leaves[n]].served_ns);
	}
	printf("race: %u processors in %u domains: %llu quanta, %llu ended for others, %llu "
	       "stolen, %llu runs of the "
	       "ledger, "
	       "%llu moves\n",
	       servers, parts, (unsigned long long)quanta, (unsigned long long)ended,
	       (unsigned long long)stolen, (unsigned long long)runs, (unsigned long long)moves);
	same("was there a quantum", quanta > 0, 1);
	same("was there a run", runs > 0, 1);
}

int main(int argc, char **argv)
{
	struct timespec length = {0};
	pthread_t ledger_thread;
	u32 i;

	servers = argc > 3 ? atoi(argv[1]) : 0;
	parts = argc > 3 ? atoi(argv[2]) : 0;
	if (!servers || servers > PROCESSORS || !parts || parts > DOMAINS || parts > servers) {
		fprintf(stderr, "usage: race PROCESSORS DOMAINS SECONDS, up to %d in %d\n",
			PROCESSORS, DOMAINS);
		return 2;
	}
	length.tv_sec = atoi(argv[3]);
	ledger.cell = cells;
	ledger_init(&ledger, parts);
	for (i = 0; i < parts; i++) {
		pthread_mutex_init(&domains[i].lock, NULL);
		hsfq_init(&domains[i].tree);
	}
	for (i = 0; i < servers; i++) {
		processors[i].domain = i % parts;
		processors[i].random = i;
		ledger_set_servers(&ledger, i % parts, ledger.of[i % parts] + 1);
	}
	/* Also where a domain has one: threads leave for other domains while they are planned for.
	 */
	for (i = 0; i < parts; i++)
		hsfq_set_servers(&domains[i].tree, ledger.of[i] > 1 ? ledger.of[i] : 2);
	make();
	for (i = 0; i < servers; i++)
		pthread_create(&processors[i].thread, NULL, processor, &processors[i]);
	pthread_create(&ledger_thread, NULL, keeper, NULL);
	nanosleep(&length, NULL);
	atomic_store(&stop, true);
	for (i = 0; i < servers; i++)
		pthread_join(processors[i].thread, NULL);
	pthread_join(ledger_thread, NULL);
	check();
	return wrong;
}
