/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link.h - the packets of one interface in a tree of classes
 *
 * QLinux, section 2.3. A leaf of the tree holds one or more queues of packets, as a
 * leaf of the CPU's tree holds threads; its discipline says in which order they are
 * served. Every packet is a quantum, its length the bytes that it takes on the line
 * (where hsfq.h says ns, a byte is meant here).
 *
 *   fifo  packets of all its queues as they came
 *   sfq   the queues by their weights
 *   fq    the flows of all its queues by the weights of their queues
 *
 * What is served in order is a *line* of packets, and a line is a leaf of the tree in
 * hsfq.h: a fifo leaf is one line, below an sfq leaf there is one for each queue that
 * is in use, below an fq leaf one for each flow. So SFQ among queues or flows is SFQ
 * among nodes. A line that is made when it is needed stays, without packets, until its
 * finish tag lies behind v(t): it must not forget service by leaving. Then it may
 * become another one.
 *
 *   link_enqueue   a packet comes to a queue, or is refused
 *   link_dequeue   the packet that is sent next, or dropped instead of it
 *
 * A queue holds no more than its limits. Nor does it hold more packets than are free in
 * the store, nor a flow of it more than are free in the queue (Choudhury and Hahne's
 * dynamic threshold): one that fills what it shares with others leaves them room.
 *
 * A line that had no packets comes first among equal start tags (hsfq_newcomers_first).
 * Packets of one length bring busy lines to the same tags, turn after turn, and a
 * sparse flow would wait for them all.
 *
 * Every packet that came is counted once: enqueued = sent + refused + dropped + queued, for each
 * queue and for the link. A queue that is attached to another leaf leaves what it has
 * queued where it is, to be sent from there.
 *
 * The caller serialises calls, owns the memory, which must be zero at first, and keeps
 * the packets: the number of one is its place in the store, from 1.
 */
#ifndef QLINUX_CORE_LINK_H
#define QLINUX_CORE_LINK_H

#include "codel.h"
#include "../tree/hsfq.h"
#include "pace.h"

enum {
	LINK_PACKETS = 65536,              /* in the store, place 0 is none */
	LINK_QUEUES = 4096,                /* queue 0 is none */
	LINK_LINES = 8192,                 /* of sfq and fq leaves, */
	LINK_LINES_FLOWS = LINK_LINES / 2, /* beyond which flows of a queue share one */
	LINK_BUCKETS = 8192,               /* of the table that finds them; a power of two */
	LINK_NIL = 0,
	LINK_GENERATIONS = 16,
	LINK_LIMIT_DEFAULT = 1000,         /* packets in a queue, as a device's own */
	LINK_BYTES_DEFAULT = 32 * 1048576, /* bytes in a queue, as fq_codel's */
	LINK_LONGEST = 1514,               /* of the packets that CoDel leaves a queue with */
};

enum link_discipline {
	LINK_NONE, /* an inner node */
	LINK_FIFO,
	LINK_SFQ,
	LINK_FQ,
	LINK_DISCIPLINES,
};

struct link_packet {
	u32 next;  /* in its line, or in the list of free places */
	u32 queue; /* that it came to */
	u32 bytes;
	u32 length; /* bytes on the line */
	u64 arrived_ns;
};

struct link_line {
	u32 head, tail; /* packets */
	u64 bytes;
	u32 packets;
	u32 queue, hash;   /* sfq, fq: whose it is, of which flow */
	u32 chain;         /* sfq, fq: next of its bucket */
	u32 before, after; /* sfq, fq, without packets: others like it, the oldest first */
	struct codel codel;
};

struct link_counts {
	u64 enqueued, enqueued_bytes;
	u64 sent, sent_bytes;
	u64 refused, refused_bytes; /* dropped as they came */
	u64 dropped, dropped_bytes; /* dropped later */
};

struct link_queue {
	struct link_counts counts;
	u64 bytes, bytes_max;
	u32 packets, packets_max; /* queued */
	u32 used;
	u32 leaf; /* where it is attached, or none */
	u32 weight;
	u32 users;      /* rules and the like that send packets to it */
	u32 generation; /* of its number, which is used again */
	u32 next;       /* in the list of free queues */
};

struct link {
	struct pace pace;
	struct codel_goal goal;
	struct link_counts gone; /* of queues that were removed */
	u64 bytes;               /* queued */
	u32 packets;
	u32 free; /* list of places that were used before */
	u32 used; /* places up to here were used */
	u32 free_queue, unused_queue;
	u32 hashed;         /* fq leaves: packets' hashes are asked for */
	u32 through;        /* the line of the only packet, whose nodes are not runnable */
	u32 leaving;        /* the line whose last packet is on its way */
	u32 owed;           /* that packet's length, unless it is charged already */
	u32 lines;          /* of sfq and fq leaves, */
	u32 idle, idle_end; /* and those without packets, the oldest first */
	struct hsfq_tree tree;
	struct link_line line[HSFQ_NODES]; /* by node */
	u8 discipline[HSFQ_NODES];         /* enum link_discipline */
	u32 attached[HSFQ_NODES];          /* queues of a leaf */
	u32 bucket[LINK_BUCKETS];          /* first line */
	struct link_queue queue[LINK_QUEUES];
	struct link_packet packet[LINK_PACKETS];
};

typedef struct link CORE_MEM link_t;
typedef struct link_line CORE_MEM link_line_t;
typedef struct link_queue CORE_MEM link_queue_t;
typedef struct link_packet CORE_MEM link_packet_t;
typedef struct link_counts CORE_MEM link_counts_t;

/* ---- lines that are made when they are needed -------------------------- */

CORE_FN u32 link_bucket(u32 leaf, u32 queue, u32 hash)
{
	u64 mixed =
		((u64)queue << 32 | hash) * 0x9e3779b97f4a7c15ULL + leaf * 0xd1b54a32d192ed03ULL;

	return mixed >> 40 & (LINK_BUCKETS - 1);
}

CORE_FN u32 link_bucket_of(link_t *l, u32 n)
{
	return link_bucket(l->tree.node[n].parent, l->line[n].queue, l->line[n].hash);
}

/* The line has no packets any more, and is the last to have become so. */
CORE_FN void link_idle_add(link_t *l, u32 n)
{
	link_line_t *line = &l->line[n];

	line->before = l->idle_end;
	line->after = LINK_NIL;
	if (l->idle_end)
		l->line[l->idle_end].after = n;
	else
		l->idle = n;
	l->idle_end = n;
}

CORE_FN void link_idle_remove(link_t *l, u32 n)
{
	link_line_t *line = &l->line[n];

	if (line->before)
		l->line[line->before].after = line->after;
	else
		l->idle = line->after;
	if (line->after)
		l->line[line->after].before = line->before;
	else
		l->idle_end = line->before;
}

/* A line without packets goes. */
CORE_COLD void link_line_remove(link_t *l, u32 n)
{
	struct link_line empty = {};
	u32 bucket = link_bucket_of(l, n), at = l->bucket[bucket];

	if (at == n) {
		l->bucket[bucket] = l->line[n].chain;
	} else {
		while (at && l->line[at].chain != n && CORE_MORE)
			at = l->line[at].chain;
		if (at)
			l->line[at].chain = l->line[n].chain;
	}
	link_idle_remove(l, n);
	l->line[n] = empty;
	l->lines--;
	hsfq_rmnod(&l->tree, n);
}

/* Its service so far, its finish tag, does not count any more. */
CORE_FN bool link_line_over(link_t *l, u32 n)
{
	hsfq_node_t *h = &l->tree.node[n], *p = &l->tree.node[h->parent];

	return sfq_past(&p->clock, &h->flow, p->clock.vtime);
}

/* A new line below an sfq or fq leaf. Lines that are over go, two for each that comes, so
 * that there are never many. */
CORE_COLD u32 link_line_make(link_t *l, u32 leaf, u32 queue, u32 hash)
{
	u32 bucket = link_bucket(leaf, queue, hash), i;
	int n;

	hsfq_settle(&l->tree);
	for (i = 0; i < 2 && l->idle; i++) {
		u32 oldest = l->idle;

		if (l->lines == LINK_LINES || link_line_over(l, oldest)) {
			link_line_remove(l, oldest);
		} else {
			link_idle_remove(l, oldest);
			link_idle_add(l, oldest);
		}
	}
	if (l->lines >= LINK_LINES)
		return LINK_NIL;
	n = hsfq_mknod(&l->tree, leaf, l->queue[queue].weight, HSFQ_LEAF);
	if (n < 0)
		return LINK_NIL;
	l->line[n].queue = queue;
	l->line[n].hash = hash;
	l->line[n].chain = l->bucket[bucket];
	l->bucket[bucket] = n;
	l->lines++;
	link_idle_add(l, n);
	return n;
}

CORE_FN u32 link_line_find(link_t *l, u32 leaf, u32 queue, u32 hash)
{
	u32 n = l->bucket[link_bucket(leaf, queue, hash)];

	while (n && CORE_MORE) {
		if (l->line[n].queue == queue && l->line[n].hash == hash &&
		    l->tree.node[n].parent == leaf)
			break;
		n = l->line[n].chain;
	}
	return n;
}

/* Where a packet of the queue goes that belongs to the flow with this hash. */
CORE_FN u32 link_line_of(link_t *l, u32 queue, u32 hash)
{
	u32 leaf = l->queue[queue].leaf, n;

	if (l->discipline[leaf] == LINK_FIFO)
		return leaf;
	if (l->discipline[leaf] == LINK_SFQ)
		hash = 0;
	n = link_line_find(l, leaf, queue, hash);
	if (!n && hash && l->lines >= LINK_LINES_FLOWS) {
		hash = 0;
		n = link_line_find(l, leaf, queue, hash);
	}
	if (!n)
		return link_line_make(l, leaf, queue, hash);
	if (l->tree.node[n].weight != l->queue[queue].weight)
		hsfq_set_weight(&l->tree, n, l->queue[queue].weight);
	return n;
}

/* ---- packets ----------------------------------------------------------- */

/* Places of the store that are free. */
CORE_FN u32 link_room(link_t *l)
{
	return LINK_PACKETS - 1 - l->packets;
}

CORE_FN bool link_queue_full(link_t *l, link_queue_t *q, u32 bytes)
{
	return q->packets >= q->packets_max || q->bytes + bytes > q->bytes_max ||
	       q->packets >= link_room(l);
}

/* A flow that has more than the rest of its queue could hold. */
CORE_FN bool link_line_full(link_t *l, link_queue_t *q, u32 n)
{
	return l->discipline[q->leaf] == LINK_FQ &&
	       l->line[n].packets > q->packets_max - q->packets;
}

CORE_FN u32 link_take_place(link_t *l)
{
	u32 p = l->free;

	if (p)
		l->free = l->packet[p].next;
	else
		p = ++l->used;
	return p;
}

/* The line has no packets any more. It is charged already but for `owed`, if its only
 * packet went through alone. */
CORE_FN void link_asleep(link_t *l, u32 n, u32 owed)
{
	if (owed)
		hsfq_through(&l->tree, n, owed);
	else
		hsfq_sleep(&l->tree, n);
	if (l->line[n].queue)
		link_idle_add(l, n);
}

/*
 * A packet is in service until the link is free again, and so long its line is runnable:
 * who comes meanwhile must find the virtual time of that service. The line falls asleep
 * when somebody comes, or asks, after that.
 */
CORE_FN void link_gone(link_t *l)
{
	u32 n = l->leaving;

	link_asleep(l, n, l->owed);
	l->leaving = LINK_NIL;
	l->owed = 0;
}

/* The packet that went through alone turns out not to be alone. */
CORE_COLD void link_stay(link_t *l)
{
	hsfq_setrun(&l->tree, l->leaving);
	hsfq_schedule(&l->tree);
	hsfq_update(&l->tree, l->leaving, l->owed, 0);
	l->owed = 0;
}

/* Before what is runnable changes, or is looked at. */
CORE_FN void link_settle(link_t *l, u64 now_ns)
{
	if (!l->leaving)
		return;
	if (pace_open(&l->pace, now_ns))
		link_gone(l);
	else if (l->owed)
		link_stay(l);
}

/*
 * A packet that comes while none is queued mostly leaves before the next one comes. Its
 * line is not made runnable then: it goes through the tree in one step (hsfq_through).
 */
CORE_FN void link_append(link_t *l, u32 n, u32 p)
{
	link_line_t *line = &l->line[n];

	if (l->through) {
		hsfq_setrun(&l->tree, l->through);
		l->through = LINK_NIL;
	}
	if (line->packets++) {
		l->packet[line->tail].next = p;
	} else {
		line->head = p;
		if (n == l->leaving) {
			l->leaving = LINK_NIL;
		} else {
			if (line->queue)
				link_idle_remove(l, n);
			if (l->packets || l->leaving)
				hsfq_setrun(&l->tree, n);
			else
				l->through = n;
		}
	}
	line->tail = p;
	line->bytes += l->packet[p].bytes;
}

CORE_FN bool link_queue_valid(link_t *l, u32 q)
{
	return q && q < LINK_QUEUES && l->queue[q].used;
}

/*
 * What names a queue outside, and does not name the next one with its number: who still
 * uses the name of a queue that was removed finds none. 16 bits.
 */
CORE_FN u32 link_id(link_t *l, u32 q)
{
	return l->queue[q].generation * LINK_QUEUES + q;
}

/* The queue with that name, or none. */
CORE_FN u32 link_by_id(link_t *l, u32 id)
{
	u32 q = id % LINK_QUEUES;

	return link_queue_valid(l, q) && link_id(l, q) == id ? q : LINK_NIL;
}

/*
 * A packet of so many bytes, which takes `length` of them on the line, comes to the
 * queue; `hash` tells its flow. Returns its place, or LINK_NIL: there is no room, and
 * it is counted as refused. A queue that is attached nowhere has none.
 */
CORE_FN u32 link_enqueue(link_t *l, u32 queue, u32 hash, u32 bytes, u32 length, u64 now_ns)
{
	link_queue_t *q = &l->queue[queue];
	u32 n = LINK_NIL, p;

	q->counts.enqueued++;
	q->counts.enqueued_bytes += bytes;
	if (q->leaf && !link_queue_full(l, q, bytes))
		n = link_line_of(l, queue, hash);
	if (!n || link_line_full(l, q, n)) {
		q->counts.refused++;
		q->counts.refused_bytes += bytes;
		return LINK_NIL;
	}
	if (!l->packets)
		pace_begin(&l->pace, now_ns);
	p = link_take_place(l);
	l->packet[p].next = LINK_NIL;
	l->packet[p].queue = queue;
	l->packet[p].bytes = bytes;
	l->packet[p].length = length;
	l->packet[p].arrived_ns = now_ns;
	link_settle(l, now_ns);
	link_append(l, n, p);
	q->packets++;
	q->bytes += bytes;
	l->packets++;
	l->bytes += bytes;
	return p;
}

/* The first packet of the line leaves it. It is charged then, unless it is the only one
 * and its line not runnable. */
CORE_FN void link_take(link_t *l, u32 n, u32 p, bool drop)
{
	link_queue_t *q = &l->queue[l->packet[p].queue];
	link_line_t *line = &l->line[n];
	u32 bytes = l->packet[p].bytes;

	if (drop) {
		q->counts.dropped++;
		q->counts.dropped_bytes += bytes;
	} else {
		q->counts.sent++;
		q->counts.sent_bytes += bytes;
	}
	line->head = l->packet[p].next;
	line->bytes -= bytes;
	if (!--line->packets) {
		u32 owed = l->through && !drop ? l->packet[p].length : 0;

		l->through = LINK_NIL;
		/* Without a rate nobody knows how long it is on its way. */
		if (drop || !l->pace.rate) {
			link_asleep(l, n, owed);
		} else {
			l->leaving = n;
			l->owed = owed;
		}
	}
	q->packets--;
	q->bytes -= bytes;
	l->packets--;
	l->bytes -= bytes;
	l->packet[p].next = l->free;
	l->free = p;
}

/* The line that is served next, if there is a packet. */
CORE_FN u32 link_choose(link_t *l)
{
	return l->through ? l->through : hsfq_schedule(&l->tree);
}

struct link_next {
	u32 place;   /* of the packet that leaves now, or LINK_NIL */
	u32 line;    /* that it was in */
	bool drop;   /* it is not sent */
	u64 wait_ns; /* none leaves before then; HSFQ_NEVER: none is queued */
};

/* The packet that is sent next, or dropped: then ask again. */
CORE_INLINE struct link_next link_dequeue(link_t *l, u64 now_ns)
{
	struct link_next next = {LINK_NIL, LINK_NIL, false, HSFQ_NEVER};
	u32 n, p;

	if (!l->packets)
		return next;
	if (!pace_open(&l->pace, now_ns)) {
		next.wait_ns = l->pace.next_ns;
		return next;
	}
	if (l->leaving)
		link_gone(l);
	n = link_choose(l);
	if (!n)
		return next;
	p = l->line[n].head;
	next.place = p;
	next.line = n;
	next.drop = codel_drop(&l->line[n].codel, &l->goal, now_ns - l->packet[p].arrived_ns,
			       l->line[n].bytes - l->packet[p].bytes, LINK_LONGEST, now_ns);
	if (!next.drop) {
		if (!l->through)
			hsfq_update(&l->tree, n, l->packet[p].length, 0);
		pace_sent(&l->pace, l->packet[p].length, now_ns);
	}
	link_take(l, n, p, next.drop);
	return next;
}

/* The interface goes: a packet leaves, dropped. Its place, LINK_NIL: there was none. */
CORE_FN u32 link_flush(link_t *l)
{
	u32 n, p;

	if (l->leaving)
		link_gone(l);
	n = link_choose(l);
	if (!n)
		return LINK_NIL;
	p = l->line[n].head;
	link_take(l, n, p, true);
	return p;
}

/* Is a packet queued below the node? One that is alone makes none runnable, and one that
 * was sent last keeps its line runnable. */
CORE_COLD bool link_holds(link_t *l, u32 n)
{
	u32 at = l->through;

	if (n == HSFQ_ROOT)
		return l->packets;
	while (at && at != n && CORE_MORE)
		at = l->tree.node[at].parent;
	if (at == n)
		return true;
	if (!(l->tree.node[n].flags & HSFQ_RUNNABLE))
		return false;
	at = l->leaving;
	while (at && at != n && CORE_MORE) {
		at = l->tree.node[at].parent;
		if (l->tree.node[at].runnable > 1)
			break;
	}
	return at != n || l->tree.node[n].runnable > 1;
}

/* ---- structure --------------------------------------------------------- */

CORE_FN void link_init(link_t *l)
{
	hsfq_init(&l->tree);
	hsfq_newcomers_first(&l->tree);
	l->goal.target_ns = CODEL_TARGET_NS;
	l->goal.interval_ns = CODEL_INTERVAL_NS;
	l->unused_queue = 1;
}

CORE_FN bool link_leaf_valid(link_t *l, u32 n)
{
	return hsfq_valid(&l->tree, n) && l->discipline[n];
}

/* An inner node below an inner node. Returns as hsfq_mknod does. */
CORE_FN int link_mknod(link_t *l, u32 parent, u32 weight)
{
	if (hsfq_valid(&l->tree, parent) && l->discipline[parent])
		return -CORE_EINVAL;
	return hsfq_mknod(&l->tree, parent, weight, 0);
}

/* A leaf with this discipline. Returns as hsfq_mknod does. */
CORE_FN int link_mkleaf(link_t *l, u32 parent, u32 weight, u32 discipline)
{
	int n;

	if (!discipline || discipline >= LINK_DISCIPLINES)
		return -CORE_EINVAL;
	if (hsfq_valid(&l->tree, parent) && l->discipline[parent])
		return -CORE_EINVAL;
	if (discipline != LINK_FIFO && hsfq_valid(&l->tree, parent) &&
	    l->tree.node[parent].depth + 1 >= HSFQ_DEPTH_MAX)
		return -CORE_ELOOP; /* no room for its lines */
	n = hsfq_mknod(&l->tree, parent, weight, discipline == LINK_FIFO ? HSFQ_LEAF : 0);
	if (n > 0) {
		l->discipline[n] = discipline;
		l->hashed += discipline == LINK_FQ;
	}
	return n;
}

/* Lines below the leaf that have no packets go. */
CORE_COLD void link_purge(link_t *l, u32 leaf)
{
	u32 n = l->idle;

	while (n && CORE_MORE) {
		u32 after = l->line[n].after;

		if (l->tree.node[n].parent == leaf)
			link_line_remove(l, n);
		n = after;
	}
}

/* Returns 0, -CORE_ENOENT, or -CORE_EBUSY: it has children, queues or packets. */
CORE_FN int link_rmnod(link_t *l, u32 n)
{
	struct link_line empty = {};
	int err;

	if (!hsfq_valid(&l->tree, n) || l->line[n].queue)
		return -CORE_ENOENT;
	if (l->attached[n] || l->line[n].packets)
		return -CORE_EBUSY;
	if (l->leaving)
		link_gone(l);
	if (l->discipline[n] > LINK_FIFO)
		link_purge(l, n);
	err = hsfq_rmnod(&l->tree, n);
	if (err)
		return err;
	l->hashed -= l->discipline[n] == LINK_FQ;
	l->discipline[n] = 0;
	l->line[n] = empty;
	return 0;
}

/* Returns 0, -CORE_ENOENT or -CORE_ERANGE. Takes effect at once. */
CORE_FN int link_set_weight(link_t *l, u32 n, u32 weight)
{
	if (!hsfq_valid(&l->tree, n) || l->line[n].queue)
		return -CORE_ENOENT;
	return hsfq_set_weight(&l->tree, n, weight);
}

/* A queue that is attached nowhere. Returns its number, -CORE_ERANGE (weight) or
 * -CORE_ENOSPC. */
CORE_FN int link_createq(link_t *l, u32 weight)
{
	struct link_queue empty = {};
	u32 q = l->free_queue, generation;

	if (weight < SFQ_WEIGHT_MIN || weight > SFQ_WEIGHT_MAX)
		return -CORE_ERANGE;
	if (q)
		l->free_queue = l->queue[q].next;
	else if (l->unused_queue < LINK_QUEUES)
		q = l->unused_queue++;
	else
		return -CORE_ENOSPC;
	generation = l->queue[q].generation;
	l->queue[q] = empty;
	l->queue[q].generation = generation;
	l->queue[q].used = 1;
	l->queue[q].weight = weight;
	l->queue[q].packets_max = LINK_LIMIT_DEFAULT;
	l->queue[q].bytes_max = LINK_BYTES_DEFAULT;
	return q;
}

/* Returns 0, -CORE_ENOENT or -CORE_ERANGE. An sfq leaf heeds it at once, an fq leaf for
 * each flow with its next packet. */
CORE_FN int link_set_weightq(link_t *l, u32 q, u32 weight)
{
	u32 n;

	if (!link_queue_valid(l, q))
		return -CORE_ENOENT;
	if (weight < SFQ_WEIGHT_MIN || weight > SFQ_WEIGHT_MAX)
		return -CORE_ERANGE;
	l->queue[q].weight = weight;
	n = link_line_find(l, l->queue[q].leaf, q, 0);
	return n ? hsfq_set_weight(&l->tree, n, weight) : 0;
}

/* Packets that come from now on go to that leaf. Returns 0, or -CORE_ENOENT (no such
 * queue, or no such leaf). */
CORE_FN int link_attachq(link_t *l, u32 q, u32 leaf)
{
	if (!link_queue_valid(l, q) || !link_leaf_valid(l, leaf))
		return -CORE_ENOENT;
	if (l->queue[q].leaf)
		l->attached[l->queue[q].leaf]--;
	l->queue[q].leaf = leaf;
	l->attached[leaf]++;
	return 0;
}

CORE_FN void link_count_add(link_counts_t *to, link_counts_t *more)
{
	to->enqueued += more->enqueued;
	to->enqueued_bytes += more->enqueued_bytes;
	to->sent += more->sent;
	to->sent_bytes += more->sent_bytes;
	to->refused += more->refused;
	to->refused_bytes += more->refused_bytes;
	to->dropped += more->dropped;
	to->dropped_bytes += more->dropped_bytes;
}

/* Returns 0, -CORE_ENOENT, or -CORE_EBUSY: it has users, or packets, wherever they are. */
CORE_FN int link_rmq(link_t *l, u32 q)
{
	struct link_queue empty = {};
	u32 generation;

	if (!link_queue_valid(l, q))
		return -CORE_ENOENT;
	if (l->queue[q].packets || l->queue[q].users)
		return -CORE_EBUSY;
	if (l->queue[q].leaf)
		l->attached[l->queue[q].leaf]--;
	link_count_add(&l->gone, &l->queue[q].counts);
	generation = (l->queue[q].generation + 1) % LINK_GENERATIONS;
	l->queue[q] = empty;
	l->queue[q].generation = generation;
	l->queue[q].next = l->free_queue;
	l->free_queue = q;
	return 0;
}

/* Returns 0, -CORE_ENOENT or -CORE_ERANGE: its limits, each at least 1. */
CORE_FN int link_limitq(link_t *l, u32 q, u32 packets_max, u64 bytes_max)
{
	if (!link_queue_valid(l, q))
		return -CORE_ENOENT;
	if (!packets_max || packets_max >= LINK_PACKETS || !bytes_max)
		return -CORE_ERANGE;
	l->queue[q].packets_max = packets_max;
	l->queue[q].bytes_max = bytes_max;
	return 0;
}

#endif
