/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * disk.c - any requests in classes, and what else happens to them, for libFuzzer
 *
 * The input is a program: a request comes, goes to the disk, is served, merged, removed or given
 * back; weights and rounds change; time passes. After each step what Cello counts is counted
 * again. Tags are given to groups beside. Run it with core/fuzz/run.
 */
#include "../disk/cello.h"
#include "../disk/cello_hint.h"
#include "../disk/cello_room.h"
#include "input.h"

enum { GROUPS = 15, REQUESTS = 300, TAGS = 40, ASKERS = 50 };

/* Where a request is. */
enum { AWAY, QUEUED, FLYING };

static struct cello c;
static struct cello_group group[GROUPS];
static struct cello_request request[REQUESTS];
static u32 state[REQUESTS];
static struct cello_room room;
static struct cello_room_at taken[TAGS];
static bool gone[TAGS];
static struct cello_room_at askers[ASKERS];
static u32 tags;
static u64 now_ns;

static u64 length(void)
{
	u32 n = byte();

	return 1ULL << (n & 31) | (u64)word() << (n >> 6);
}

/* The first one from anywhere on that is there. */
static struct cello_request *some(u32 where)
{
	u32 at = word() % REQUESTS, i;

	for (i = 0; i < REQUESTS; i++)
		if (state[(at + i) % REQUESTS] == where)
			return &request[(at + i) % REQUESTS];
	return 0;
}

static void is_at(const struct cello_request *r, u32 where)
{
	state[r - request] = where;
}

/* ---- steps ------------------------------------------------------------- */

static void add(void)
{
	struct cello_request *r = some(AWAY);
	u32 n = byte();

	if (!r)
		return;
	/* What the caller does not set may be anything. */
	memset(r, n, sizeof(*r));
	r->group = &group[n % GROUPS];
	r->sector = n & 128 ? length() << 20 : word();
	r->sectors = n & 64 ? word() << 8 : byte();
	r->way = (n >> 4) % 3;
	r->sync = n & 4;
	r->deadline_ns = now_ns + length();
	cello_add(&c, r, now_ns);
	is_at(r, QUEUED);
}

static void next(void)
{
	bool idle = !c.flight.number, wait = c.waiting || c.queued;
	struct cello_request *r = cello_next(&c, now_ns);

	/* It may be idle while somebody is awaited. */
	CHECK(r || !idle || !wait ||
	      (cello_wake_ns(&c) > now_ns &&
	       cello_wake_ns(&c) <= now_ns + CELLO_AWAIT_MAX_NS + CELLO_AWAIT_ARM_NS));
	if (!r)
		return;
	CHECK(state[r - request] == QUEUED);
	is_at(r, FLYING);
}

static void land(bool served)
{
	struct cello_request *r = some(FLYING);

	if (!r)
		return;
	if (served && byte() < 16)
		cello_flushed(r);
	if (served)
		cello_done(&c, r, now_ns);
	else
		cello_return(&c, r);
	is_at(r, AWAY);
}

static void leave(void)
{
	struct cello_request *r = some(QUEUED);

	if (!r)
		return;
	cello_remove(&c, r);
	is_at(r, AWAY);
}

/* Before it or behind it comes a bio, or another request that lies there, which has no sectors of
 * its own any more: most likely of its class. */
static void grow(void)
{
	struct cello_request *r = some(QUEUED), *gone = some(QUEUED);
	u32 sectors = byte();
	bool before = byte() & 1;

	if (!r)
		return;
	if (gone != r) {
		bool both = gone->group->class_id == r->group->class_id;

		sectors = gone->sectors;
		cello_merged(&c, r, gone, now_ns);
		CHECK(!both || r->deadline_ns <= gone->deadline_ns ||
		      r->group->class_id != CELLO_REALTIME);
		is_at(gone, AWAY);
	}
	before &= r->sector >= sectors;
	if (byte() & 1)
		cello_waited_for(&c, r);
	cello_grown(&c, r, before ? r->sector - sectors : r->sector, r->sectors + sectors);
}

static void set(void)
{
	u32 weights[CELLO_CLASSES] = {byte() & 15, byte() & 15, byte() << 6}, n = byte();
	u64 ns = length();
	struct cello_group *g = &group[n % GROUPS];
	int err;

	err = cello_set_weights(&c, weights);
	CHECK(!err == (weights[0] + weights[1] + weights[2] && weights[2] <= CELLO_WEIGHT_MAX));
	err = cello_set_round(&c, ns);
	CHECK(!err == (ns >= CELLO_ROUND_MIN_NS && ns <= CELLO_ROUND_MAX_NS));
	n = word();
	err = cello_group_set_weight(g, n);
	CHECK(!err == (n && n <= CELLO_WEIGHT_MAX));
	n = byte();
	err = cello_set_in_flight(&c, n);
	CHECK(!err);
	ns = length();
	err = cello_set_in_flight_time(&c, ns);
	CHECK(!err == (!ns || (ns >= CELLO_FLIGHT_MIN_NS && ns <= CELLO_FLIGHT_MAX_NS)));
	ns = length();
	err = cello_set_deadline(&c, ns);
	CHECK(!err == (ns >= CELLO_DEADLINE_MIN_NS && ns <= CELLO_DEADLINE_MAX_NS));
}

/* ---- tags -------------------------------------------------------------- */

static void tag_goes(u32 n, bool gives)
{
	if (!gone[n])
		cello_room_go(&room, &taken[n]);
	gone[n] = true;
	if (!gives)
		return;
	cello_room_give(&room, &taken[n]);
	cello_room_tells(&room, &taken[n], n % CELLO_ROOM_LEVELS);
	taken[n] = taken[--tags];
	gone[n] = gone[tags];
}

static void tag(void)
{
	u32 n = byte(), i, most, level, held = 0;
	const struct cello_room_slot *slot;
	struct cello_room_at at;

	if (n & 128 && tags) {
		tag_goes(n % tags, n & 64);
		return;
	}
	n %= ASKERS;
	if (!askers[n].slot[CELLO_ROOM_GROUP])
		cello_room_begin(&room, &askers[n], &askers[n % 5], n % CELLO_CLASSES);
	at = askers[n];
	CHECK(at.slot[CELLO_ROOM_GROUP] < CELLO_ROOM_SLOTS &&
	      at.slot[CELLO_ROOM_GROUP] >= CELLO_ROOM_LENT);
	most = cello_room_for(&room, &at, false, TAGS, &level);
	CHECK(most <= TAGS && most >= cello_room_least(TAGS));
	CHECK(cello_room_for(&room, &at, true, cello_room_tags(n, true, false), &i) <=
	      CELLO_ROOM_BEHIND);
	for (i = 0; i < CELLO_ROOM_LEVELS; i++) {
		slot = &room.slot[at.slot[i]];
		CHECK(slot->waits <= slot->held && slot->held <= tags);
		if (slot->held > held)
			held = slot->held;
	}
	/* Who waits for room waits for what there is. */
	CHECK(most == TAGS || room.slot[at.slot[level]].held >= cello_room_few(TAGS, level));
	/* Where what waits does not count, who holds fewer than he is to leave may choose from all.
	 */
	i = cello_room_for(&room, &at, true, TAGS, &level);
	CHECK(i >= most && (i == TAGS || held >= TAGS - i));
	CHECK(most > tags || !cello_room_ample(tags, TAGS));
	i = cello_room_left(&room, &at, TAGS, &level);
	CHECK(i == (most == TAGS ? TAGS : most > tags ? most - tags : 0));
	if (tags < most) {
		gone[tags] = false;
		taken[tags++] = at;
		cello_room_take(&room, &at);
	}
}

static void hint(void)
{
	u32 class_id = byte() & 3;
	u64 deadline_ns = length(), said_ns;
	int h = cello_hint(class_id, byte() & 1, deadline_ns);

	if (h < 0)
		return;
	said_ns = cello_hint_deadline_ns(h);
	CHECK(cello_hint_is(h) && cello_hint_class(h) == class_id && h < 1 << 10);
	CHECK(said_ns <= deadline_ns && said_ns * 5 / 4 >= deadline_ns);
}

/* ---- what must be so --------------------------------------------------- */

static void check_queue(void)
{
	u32 n = 0, older = 0, class[CELLO_CLASSES] = {};
	const struct cello_request *r;
	struct cello_link *l;

	for (l = c.scheduled.next; l != &c.scheduled; l = l->next) {
		r = cello_at(l);
		CHECK(r->scheduled && state[r - request] == QUEUED && l->next->prev == l);
		n++;
		older += r->round != c.rounds;
		class[r->group->class_id]++;
	}
	CHECK(n == c.queued && n <= CELLO_SCHEDULED_MAX && older == c.older);
	for (n = 0; n < CELLO_CLASSES; n++)
		CHECK(class[n] == c.class[n].scheduled && class[n] <= CELLO_SCHEDULED_CLASS);
}

static void check_counts(void)
{
	u32 i, flying = 0, queued = 0, waiting = 0, deep[CELLO_CLASSES] = {},
	       sync[CELLO_CLASSES] = {};
	u64 flight_ns = 0, spread = 0;

	for (i = 0; i < REQUESTS; i++) {
		queued += state[i] == QUEUED;
		if (state[i] != AWAY)
			sync[request[i].group->class_id] += request[i].sync;
		if (state[i] != FLYING)
			continue;
		flying++;
		flight_ns += request[i].estimate_ns;
		spread += request[i].spread;
	}
	CHECK(flying == c.flight.number && queued == c.queued + c.waiting);
	CHECK(flight_ns == c.flight_ns && spread == c.flight_spread);
	for (i = 0; i < CELLO_CLASSES; i++) {
		waiting += c.class[i].waiting;
		CHECK(c.class[i].waiting <= c.class[i].part.present);
		CHECK(c.class[i].part.weight || !c.class[i].part.used_ns);
	}
	CHECK(waiting == c.waiting);
	for (i = 0; i < GROUPS; i++)
		deep[group[i].class_id] += group[i].own.waiting > 1;
	for (i = 0; i < CELLO_CLASSES; i++)
		CHECK(deep[i] == c.class[i].deep && sync[i] == c.class[i].sync);
	for (i = 0; i < GROUPS; i++)
		CHECK(!group[i].own.waiting == cello_empty(&group[i].pending) &&
		      !group[i].await_ns == cello_empty(&group[i].awaited));
}

/* The children in the heap, which is one. */
static u32 check_heap(const struct leftist *n, const struct leftist *up, u32 *weights)
{
	const struct cello_child *child = (const struct cello_child *)n;
	u32 members;

	if (!n)
		return 0;
	CHECK(n->up == up && (!up || !leftist_first(n, up)));
	CHECK(leftist_rank(n->left) >= leftist_rank(n->right));
	CHECK(n->rank == leftist_rank(n->right) + 1);
	CHECK(!!child->waiting == !!(n->marks & CELLO_WAITS));
	CHECK(!!child->deep == !!(n->marks & CELLO_DEEP));
	*weights += child->weight;
	members = check_heap(n->left, n, weights);
	return members + 1 + check_heap(n->right, n, weights);
}

/* No other group than that which is alone has requests or is awaited, and none is in a heap. */
static void check_sole(void)
{
	u32 i;

	CHECK(cello_members(&c) == 1 && c.class[c.sole->class_id].members == 1);
	CHECK(c.waiting == c.sole->own.waiting);
	for (i = 0; i < CELLO_CLASSES; i++)
		CHECK(!c.class[i].root.heap && !c.class[i].root.members);
	for (i = 0; i < GROUPS; i++) {
		CHECK(!group[i].heap && !group[i].members && !group[i].child.waiting);
		CHECK(&group[i] == c.sole || (!group[i].present && !group[i].await_ns));
	}
}

/* A group is in its parent's heap as long as anybody below it has requests or is awaited. */
static void check_tree(void)
{
	u32 waiting[GROUPS] = {}, active[GROUPS] = {}, i, j, weights, members;
	struct cello_group *g;

	if (c.sole) {
		check_sole();
		return;
	}
	for (i = GROUPS; i-- > 0;) {
		g = &group[i];
		weights = 0;
		members = check_heap(g->heap, 0, &weights);
		CHECK(members == g->members && weights == g->weights);
		active[i] += g->present || g->await_ns;
		waiting[i] += g->own.waiting;
		CHECK(active[i] == g->members && waiting[i] == g->child.waiting);
		for (j = 0; j < i; j++)
			if (&group[j] == g->child.parent) {
				active[j] += active[i] > 0;
				waiting[j] += waiting[i];
			}
	}
}

static void begin(void)
{
	u32 i;

	now_ns = 1;
	cello_init(&c, 1ULL << 30, byte() & 1);
	for (i = 0; i < GROUPS; i++)
		cello_group_init(&c, &group[i], i < 6 ? 0 : &group[i - (i < 9 ? 3 : 6)],
				 i % CELLO_CLASSES, 1 + i * 100);
	memset(state, 0, sizeof(state));
	memset(&room, 0, sizeof(room));
	memset(askers, 0, sizeof(askers));
	tags = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 what, i;

	input = data;
	left = size;
	begin();
	while (left) {
		what = byte() % 16;
		if (what < 5)
			add();
		else if (what < 8)
			next();
		else if (what < 11)
			land(what != 10);
		else if (what == 11)
			leave();
		else if (what == 12)
			grow();
		else if (what == 13)
			tag();
		else if (what == 14)
			now_ns += length();
		else if (byte() & 1)
			set();
		else
			hint();
		check_queue();
		check_counts();
		check_tree();
	}
	/* All can be served. */
	for (i = 0; i < 3 * REQUESTS && (c.flight.number || c.queued || c.waiting); i++) {
		next();
		land(true);
		if (cello_wake_ns(&c) > now_ns)
			now_ns = cello_wake_ns(&c);
	}
	CHECK(!c.flight.number && !c.queued && !c.waiting);
	return 0;
}
