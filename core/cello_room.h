/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello_room.h - who may take one more of a disk's tags
 *
 * A request needs a tag before a scheduler sees it. Tags are few and go to who asks first: 512
 * writes of one group would leave none to the others, and a scheduler cannot serve by weight
 * what it is not shown. So every group that wants tags has a part of them:
 *
 *   alone                 all but a reserve, so that another one never waits for a whole queue
 *   one of n that want    the reserve apart, tags / n
 *
 * whatever their weights: a share of the disk's time needs requests to choose from, not many.
 * A group wants tags while it holds any, and for a while after it asked. What it held beyond
 * its part when another came it keeps until its requests end. One that holds nothing gets a tag
 * while there are any: of the reserve.
 *
 *   64 tags: alone 56; of two groups each 28; of 56 and more each 1, until none is left
 *
 * Groups are told apart by 64-bit keys in a table of fixed size. Those that do not find a place
 * of their own in it share one, and its part. The caller serialises calls, tells the time, and
 * remembers which place it took a tag from.
 */
#ifndef QLINUX_CORE_CELLO_ROOM_H
#define QLINUX_CORE_CELLO_ROOM_H

#include "port.h"

enum {
	CELLO_ROOM_PLACES = 256,
	CELLO_ROOM_PROBES = 8,
	CELLO_ROOM_RESERVE = 8, /* one in so many tags */
};

/* Who has not asked for so long wants nothing: longer than a round may keep its program waiting. */
#define CELLO_ROOM_ACTIVE_NS 1000000000ULL

struct cello_room_place {
	u64 key;
	u64 asked_ns;
	u32 held;
	bool used; /* the key is somebody's */
	bool wants;
};

struct cello_room {
	struct cello_room_place place[CELLO_ROOM_PLACES];
	u32 tags;
	u32 held;      /* of all places */
	u32 groups;    /* places that want tags */
	u64 looked_ns; /* for places that want none any more */
};

CORE_FN void cello_room_init(struct cello_room *m, u32 tags)
{
	struct cello_room_place none = {};
	u32 i;

	for (i = 0; i < CELLO_ROOM_PLACES; i++)
		m->place[i] = none;
	m->tags = tags;
	m->held = m->groups = 0;
	m->looked_ns = 0;
}

/* How many tags there are was changed; those that are held stay so. */
CORE_FN void cello_room_resize(struct cello_room *m, u32 tags)
{
	m->tags = tags;
}

CORE_FN u32 cello_room_reserve(u32 tags)
{
	return tags > CELLO_ROOM_RESERVE ? tags / CELLO_ROOM_RESERVE : tags > 1;
}

/* The group's place, or one it may have; or another's, which they share. */
CORE_FN u32 cello_room_find(const struct cello_room *m, u64 key)
{
	u32 at = (u32)(key * 0x9e3779b97f4a7c15ULL >> 32) % CELLO_ROOM_PLACES, found = at, i;

	for (i = CELLO_ROOM_PROBES; i--;) {
		u32 n = (at + i) % CELLO_ROOM_PLACES;

		if (m->place[n].used && m->place[n].key == key)
			return n;
		if (!m->place[n].used)
			found = n;
	}
	return found;
}

/* Forgets who holds nothing and has not asked for long. */
CORE_FN void cello_room_look(struct cello_room *m, u64 now_ns)
{
	u32 i;

	/* Clocks of several processors may differ. */
	if (now_ns < m->looked_ns + CELLO_ROOM_ACTIVE_NS / 4)
		return;
	m->looked_ns = now_ns;
	for (i = 0; i < CELLO_ROOM_PLACES; i++) {
		struct cello_room_place *p = &m->place[i];

		if (p->held || now_ns < p->asked_ns + CELLO_ROOM_ACTIVE_NS)
			continue;
		m->groups -= p->wants;
		p->used = p->wants = false;
	}
}

/* A group asks for tags. Returns its place. */
CORE_FN u32 cello_room_note(struct cello_room *m, u64 key, u64 now_ns)
{
	struct cello_room_place *p;
	u32 n;

	cello_room_look(m, now_ns);
	n = cello_room_find(m, key);
	p = &m->place[n];
	if (!p->used)
		p->key = key;
	p->asked_ns = now_ns;
	m->groups += !p->wants;
	p->used = p->wants = true;
	return n;
}

/* May the group of this place take another tag? */
CORE_FN bool cello_room_may(const struct cello_room *m, u32 n)
{
	u32 common = m->tags - cello_room_reserve(m->tags), held = m->place[n].held;

	if (m->held >= m->tags)
		return false;
	return !held || (held < common / (m->groups ? m->groups : 1) && m->held < common);
}

/* It has got one, whether it may or not. */
CORE_FN void cello_room_got(struct cello_room *m, u32 n)
{
	struct cello_room_place *p = &m->place[n];

	/* It may have waited for so long that it was forgotten. */
	m->groups += !p->wants;
	p->used = p->wants = true;
	p->held++;
	m->held++;
}

/* It takes one. False: it may not now. */
CORE_FN bool cello_room_take(struct cello_room *m, u32 n)
{
	bool may = cello_room_may(m, n);

	if (may)
		cello_room_got(m, n);
	return may;
}

/* It gives one back. */
CORE_FN void cello_room_free(struct cello_room *m, u32 n)
{
	m->place[n].held--;
	m->held--;
}

#endif
