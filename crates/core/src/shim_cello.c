// SPDX-License-Identifier: MIT OR Apache-2.0
/* shim.c's counterpart for a disk's requests (core/disk/cello.h), by number. */
#include <stddef.h>

#include "disk/cello.h"
#include "disk/cello_hint.h"
#include "disk/cello_room.h"

enum { GROUPS = 256, REQUESTS = 4096, NONE = -1 };

struct pool {
	struct cello cello;
	struct cello_group group[GROUPS];
	struct cello_request request[REQUESTS];
	int free[REQUESTS]; /* from the place `unused` on */
	int unused;
	int groups;
};

const size_t qcore_cello_limits[] = {GROUPS, REQUESTS, CELLO_SCHEDULED_MAX};

struct qcore_cello_part {
	u64 served_ns;
	u64 served;
	u64 late;
	u64 broken;
};

struct qcore_cello_said {
	u64 estimate_ns;
	u64 error_ns;
	bool promised;
};

static int number(struct pool *p, struct cello_request *r)
{
	return r ? r - p->request : NONE;
}

static void give_back(struct pool *p, int r)
{
	p->free[--p->unused] = r;
}

size_t qcore_cello_size(void)
{
	return sizeof(struct pool);
}

void qcore_cello_init(struct pool *p, u64 sectors, bool turning)
{
	int i;

	cello_init(&p->cello, sectors, turning);
	p->unused = 0;
	p->groups = 0;
	for (i = 0; i < REQUESTS; i++)
		p->free[i] = i;
}

int qcore_cello_weights(struct pool *p, const u32 *weights)
{
	return cello_set_weights(&p->cello, weights);
}

int qcore_cello_round(struct pool *p, u64 round_ns)
{
	return cello_set_round(&p->cello, round_ns);
}

/* Below another one of the class, or below none: NONE. */
int qcore_cello_group(struct pool *p, u32 class_id, int parent, u32 weight)
{
	struct cello_group *g = &p->group[p->groups];

	if (p->groups == GROUPS)
		return -CORE_ENOSPC;
	if (class_id >= CELLO_CLASSES)
		return -CORE_EINVAL;
	cello_group_init(&p->cello, g, parent == NONE ? NULL : &p->group[parent], class_id, 1);
	if (cello_group_set_weight(g, weight))
		return -CORE_ERANGE;
	return p->groups++;
}

int qcore_cello_group_weight(struct pool *p, u32 group, u32 weight)
{
	return cello_group_set_weight(&p->group[group], weight);
}

int qcore_cello_add(struct pool *p, u32 group, u64 sector, u32 sectors, u32 way, bool sync,
		    u64 deadline_ns, u64 now_ns)
{
	struct cello_request *r;

	if (p->unused == REQUESTS)
		return -CORE_ENOSPC;
	r = &p->request[p->free[p->unused++]];
	r->group = &p->group[group];
	r->sector = sector;
	r->sectors = sectors;
	r->way = way;
	r->sync = sync;
	r->deadline_ns = deadline_ns;
	cello_add(&p->cello, r, now_ns);
	return number(p, r);
}

int qcore_cello_next(struct pool *p, u64 now_ns)
{
	return number(p, cello_next(&p->cello, now_ns));
}

u64 qcore_cello_wake(struct pool *p)
{
	return cello_wake_ns(&p->cello);
}

bool qcore_cello_full(struct pool *p)
{
	return cello_full(&p->cello);
}

bool qcore_cello_enough(struct pool *p)
{
	return cello_enough(&p->cello);
}

void qcore_cello_said(struct pool *p, u32 r, struct qcore_cello_said *said)
{
	u64 root = 0;

	said->estimate_ns = p->request[r].estimate_ns;
	said->error_ns = disktime_error(&p->cello.time, p->request[r].spread, &root);
	said->promised = p->request[r].promised;
}

void qcore_cello_done(struct pool *p, u32 r, u64 now_ns)
{
	cello_done(&p->cello, &p->request[r], now_ns);
	give_back(p, r);
}

void qcore_cello_remove(struct pool *p, u32 r)
{
	cello_remove(&p->cello, &p->request[r]);
	give_back(p, r);
}

void qcore_cello_return(struct pool *p, u32 r)
{
	cello_return(&p->cello, &p->request[r]);
	give_back(p, r);
}

void qcore_cello_grown(struct pool *p, u32 r, u64 sector, u32 sectors)
{
	cello_grown(&p->cello, &p->request[r], sector, sectors);
}

int qcore_cello_flight(struct pool *p, u32 most)
{
	return cello_set_in_flight(&p->cello, most);
}

int qcore_cello_flight_time(struct pool *p, u64 most_ns)
{
	return cello_set_in_flight_time(&p->cello, most_ns);
}

int qcore_cello_set_deadline(struct pool *p, u64 ns)
{
	return cello_set_deadline(&p->cello, ns);
}

u64 qcore_cello_deadline(struct pool *p, u64 own_ns, u64 now_ns)
{
	return cello_deadline(&p->cello, own_ns, now_ns);
}

void qcore_cello_merged(struct pool *p, u32 r, u32 gone, u64 now_ns)
{
	cello_merged(&p->cello, &p->request[r], &p->request[gone], now_ns);
	give_back(p, gone);
}

/* The class, and after how long it is to be done. */
u32 qcore_cello_asked(u32 hint, u32 of_cgroup, u64 *deadline_ns)
{
	struct cello_asked asked = cello_asked(hint, of_cgroup);

	*deadline_ns = asked.deadline_ns;
	return asked.class_id;
}

/* Numbers of the scheduled requests, from the head. Returns how many there are. */
u32 qcore_cello_scheduled(struct pool *p, int *to, u32 most)
{
	struct cello_link *l;
	u32 n = 0;

	for (l = p->cello.scheduled.next; l != &p->cello.scheduled; l = l->next, n++)
		if (n < most)
			to[n] = number(p, cello_at(l));
	return n;
}

void qcore_cello_class(struct pool *p, u32 class_id, struct qcore_cello_part *to)
{
	struct cello_class *k = &p->cello.class[class_id];

	to->served_ns = k->part.served_ns;
	to->served = k->part.served;
	to->late = k->late;
	to->broken = k->broken;
}

void qcore_cello_of_group(struct pool *p, u32 group, struct qcore_cello_part *to)
{
	to->served_ns = p->group[group].served_ns;
	to->served = p->group[group].served;
	to->late = to->broken = 0;
}

u64 qcore_cello_rounds(struct pool *p)
{
	return p->cello.rounds;
}

/* Requests that the disk is given at a time, and serves side by side. */
void qcore_cello_at_disk(struct pool *p, u32 *most, u32 *lanes)
{
	*most = p->cello.flight.most;
	*lanes = p->cello.flight.lanes;
}

/* ---- room for requests (core/disk/cello_room.h) ------------------------------ */

size_t qcore_room_size(void)
{
	return sizeof(struct cello_room);
}

u32 qcore_room_lend(struct cello_room *room)
{
	return cello_room_lend(room);
}

void qcore_room_end(struct cello_room *room, u32 slot)
{
	cello_room_end(room, slot);
}

void qcore_room_take(struct cello_room *room, const struct cello_room_at *at)
{
	cello_room_take(room, at);
}

void qcore_room_go(struct cello_room *room, const struct cello_room_at *at)
{
	cello_room_go(room, at);
}

void qcore_room_give(struct cello_room *room, const struct cello_room_at *at)
{
	cello_room_give(room, at);
}

u32 qcore_room_for(const struct cello_room *room, const struct cello_room_at *at, bool arm,
		   u32 tags)
{
	u32 level;

	return cello_room_for(room, at, arm, tags, &level);
}

u32 qcore_room_left(const struct cello_room *room, const struct cello_room_at *at, u32 tags)
{
	u32 level;

	return cello_room_left(room, at, tags, &level);
}

u32 qcore_room_tags(u32 tags, bool arm, bool waited_for)
{
	return cello_room_tags(tags, arm, waited_for);
}

bool qcore_room_ample(u32 requests, u32 tags)
{
	return cello_room_ample(requests, tags);
}
