/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * packets.c - random operations on the packets of a link, for libFuzzer
 *
 * The input is a program: an operation and its arguments each, in bytes. Every packet
 * that came is followed by its place in the store. After each operation the account of
 * every queue must balance, and what the lines hold must be what the queues do. Run it
 * with core/fuzz/run.
 */
#include "../link/link.h"
#include "input.h"

enum { NODES = 24, QUEUES = 12, PLACES = 4096 };

static struct link l;
static u32 nodes[NODES], queues[QUEUES];
static u32 owner[PLACES]; /* queue of the packet at this place, 0: none */
static u64 now;

static u32 node(void)
{
	return nodes[byte() % NODES];
}

static u32 *free_slot(u32 *of, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (!of[i])
			return &of[i];
	return NULL;
}

/* One that was made takes its slot, one that was refused leaves it empty. */
static void made(u32 *slot, int n)
{
	*slot = n > 0 ? n : 0;
}

static void leaves(u32 place)
{
	CHECK(place < PLACES && owner[place]);
	owner[place] = 0;
}

static void come(void)
{
	u32 q = queues[byte() % QUEUES], bytes = word() + 1, place;

	if (!link_queue_valid(&l, q))
		return;
	place = link_enqueue(&l, q, byte() % 8, bytes,
			     pace_length(&l.pace, bytes, 1 + bytes / 1500), now);
	if (!place)
		return;
	CHECK(place < PLACES && !owner[place]);
	owner[place] = q;
}

static void go(void)
{
	struct link_next next;

	do {
		next = link_dequeue(&l, now);
		if (next.place)
			leaves(next.place);
	} while (next.drop);
	if (next.place || next.wait_ns == HSFQ_NEVER)
		CHECK(next.place || !l.packets);
	else
		CHECK(l.packets && next.wait_ns > now);
}

static void structure(u32 what)
{
	u32 *slot = free_slot(what < 3 ? nodes : queues, what < 3 ? NODES : QUEUES), i, n;

	switch (what) {
	case 0:
		if (slot)
			made(slot, link_mknod(&l, node(), word()));
		break;
	case 1:
	case 2:
		if (slot)
			made(slot, link_mkleaf(&l, node(), word(), byte() % 5));
		break;
	case 3:
		if (slot)
			made(slot, link_createq(&l, word()));
		break;
	case 4:
		link_attachq(&l, queues[byte() % QUEUES], node());
		break;
	case 5:
		i = byte() % QUEUES;
		if (!link_rmq(&l, queues[i]))
			queues[i] = 0;
		break;
	case 6:
		i = 1 + byte() % (NODES - 1);
		n = nodes[i];
		if (!link_rmnod(&l, n))
			nodes[i] = 0;
		break;
	case 7:
		link_set_weight(&l, node(), word());
		break;
	case 8:
		link_set_weightq(&l, queues[byte() % QUEUES], word());
		break;
	default:
		link_limitq(&l, queues[byte() % QUEUES], byte(), (u64)word() * 16);
	}
}

static void operate(void)
{
	u32 what = byte() % 32, place;

	if (what < 12) {
		come();
	} else if (what < 18) {
		go();
	} else if (what < 28) {
		structure(what - 18);
	} else if (what < 30) {
		now += (u64)word() * 1000;
	} else if (what == 30) {
		pace_set(&l.pace, (u64)word() * 1000, byte(), byte(), now);
	} else {
		l.goal.target_ns = byte() * 100000ULL;
		l.goal.interval_ns = 5000000;
		place = byte() % 8 ? 0 : link_flush(&l);
		if (place)
			leaves(place);
	}
}

/* What the lines below n hold. */
static u32 held(u32 n)
{
	u32 place = l.line[n].head, i, bytes = 0;

	for (i = 0; i < l.line[n].packets; i++) {
		CHECK(place && place < PLACES && owner[place] == l.packet[place].queue);
		bytes += l.packet[place].bytes;
		if (i + 1 == l.line[n].packets)
			CHECK(l.line[n].tail == place && !l.packet[place].next);
		place = l.packet[place].next;
	}
	CHECK(bytes == l.line[n].bytes);
	CHECK(!i || l.tree.node[n].flags & HSFQ_LEAF);
	if (l.tree.node[n].flags & HSFQ_LEAF)
		CHECK(!!(l.tree.node[n].flags & HSFQ_RUNNABLE) ==
		      (i ? n != l.through : n == l.leaving && !l.owed));
	return i;
}

static u32 below[HSFQ_NODES];

static void check(void)
{
	u32 i, packets = 0, in_queues = 0, idle = 0, lines = 0;

	for (i = 1; i < l.tree.unused; i++) {
		below[i] = held(i);
		packets += below[i];
		lines += !!l.line[i].queue;
	}
	CHECK(!l.leaving || !l.line[l.leaving].packets);
	CHECK(!l.owed || (l.leaving && !l.tree.runnable));
	for (i = l.idle; i; i = l.line[i].after, idle++)
		CHECK(l.line[i].queue && !l.line[i].packets && idle < HSFQ_NODES);
	CHECK(lines == l.lines && idle <= lines);
	for (i = 1; i < l.unused_queue; i++) {
		struct link_counts *c = &l.queue[i].counts;

		CHECK(c->enqueued == c->sent + c->refused + c->dropped + l.queue[i].packets);
		CHECK(c->enqueued_bytes ==
		      c->sent_bytes + c->refused_bytes + c->dropped_bytes + l.queue[i].bytes);
		in_queues += l.queue[i].packets;
	}
	CHECK(packets == l.packets && in_queues == l.packets);
	for (i = 1; i < l.tree.unused; i++) {
		u32 n = l.line[i].packets ? i : 0;

		while (n && (n = l.tree.node[n].parent))
			below[n]++;
	}
	for (i = 1; i < l.tree.unused; i++)
		CHECK(!(l.tree.node[i].flags & HSFQ_USED) || link_holds(&l, i) == !!below[i]);
	CHECK(!l.through || (l.packets == 1 && l.line[l.through].packets == 1 && !l.tree.runnable));
}

/* Zeroes what the last input used: all of it would take longer than most inputs do. */
static void clear(void)
{
	u32 nodes_used = l.tree.unused, queues_used = l.unused_queue, places_used = l.used + 1;

	memset(l.tree.node, 0, nodes_used * sizeof(l.tree.node[0]));
	memset(&l.tree, 0, offsetof(struct hsfq_tree, node));
	memset(l.line, 0, nodes_used * sizeof(l.line[0]));
	memset(l.discipline, 0, nodes_used * sizeof(l.discipline[0]));
	memset(l.attached, 0, nodes_used * sizeof(l.attached[0]));
	memset(l.queue, 0, queues_used * sizeof(l.queue[0]));
	memset(l.packet, 0, places_used * sizeof(l.packet[0]));
	memset(l.bucket, 0, sizeof(l.bucket));
	memset(&l, 0, offsetof(struct link, tree));
	memset(nodes, 0, sizeof(nodes));
	memset(queues, 0, sizeof(queues));
	memset(owner, 0, sizeof(owner));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = data;
	left = size;
	clear();
	now = 1000000000;
	link_init(&l);
	nodes[0] = HSFQ_ROOT;
	while (left) {
		operate();
		check();
	}
	return 0;
}
