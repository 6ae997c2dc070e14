/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello_room.h - room for requests: tags, of which a disk's scheduler has so many
 *
 * Who wants a tag while there is none waits for one outside of every share. So the last quarter is
 * left to those who hold little: whoever holds a quarter takes further ones only from the first
 * three quarters. Whoever that is: a group, all of a tenant's, which is a group at the top with
 * what is below it, or all of a class's. Were groups alone to leave some, many of them, which hold
 * one each, would leave none. So a tenant that holds an eighth leaves the last eighth, and a class
 * that holds a sixteenth the last sixteenth.
 *
 * From then on, and not only when three quarters are full: a tag of the last that comes free wakes
 * one of all who wait, and if that one may not take it, it wakes nobody.
 *
 *   128 tags, 512 requests of one group and 12 of another: the first holds 96, the second 12,
 *   and which of them is served is the scheduler's choice. Two that want all have 96 between them.
 *   200 groups of one tenant with a request each: they hold 112, and another tenant gets the
 *   next 8, and another class the last.
 *
 * Groups and tenants are counted by slot: two that share one count as one.
 *
 * An arm's are not filled with what nobody waits for, as writeback, for before long somebody does
 * wait: a journal that commits for an fsync waits for all that was written of files which it names,
 * whoever wrote them. They come by the order of their places in a file, so a few are sorted as well
 * as many.
 */
#ifndef QLINUX_CORE_CELLO_ROOM_H
#define QLINUX_CORE_CELLO_ROOM_H

#include "../port.h"

enum {
	CELLO_ROOM_SLOTS = 256,
	/* Tags that are divided among requests nobody waits for, with an arm: three quarters of
	 * them take longer than what a class gathers (CELLO_GATHER_NS). */
	CELLO_ROOM_BEHIND = 32,
};

/* Who holds a tag, from the smallest to the largest. */
enum { CELLO_ROOM_GROUP, CELLO_ROOM_TENANT, CELLO_ROOM_CLASS, CELLO_ROOM_LEVELS };

/* Where a group counts, on each level. */
struct cello_room_at {
	u32 slot[CELLO_ROOM_LEVELS];
};

struct cello_room {
	u32 held[CELLO_ROOM_LEVELS][CELLO_ROOM_SLOTS];
};

/* The slot of a group or tenant, by anything that is its own: a Fibonacci hash. */
CORE_FN u32 cello_room_slot(u64 key)
{
	return key * 0x9e3779b97f4a7c15ULL >> 56;
}

CORE_FN void cello_room_take(struct cello_room *room, const struct cello_room_at *at)
{
	room->held[CELLO_ROOM_GROUP][at->slot[CELLO_ROOM_GROUP]]++;
	room->held[CELLO_ROOM_TENANT][at->slot[CELLO_ROOM_TENANT]]++;
	room->held[CELLO_ROOM_CLASS][at->slot[CELLO_ROOM_CLASS]]++;
}

CORE_FN void cello_room_give(struct cello_room *room, const struct cello_room_at *at)
{
	room->held[CELLO_ROOM_GROUP][at->slot[CELLO_ROOM_GROUP]]--;
	room->held[CELLO_ROOM_TENANT][at->slot[CELLO_ROOM_TENANT]]--;
	room->held[CELLO_ROOM_CLASS][at->slot[CELLO_ROOM_CLASS]]--;
}

/* How many of the tags one of that level that holds as many leaves: at least one. */
CORE_FN u32 cello_room_left(u32 tags, u32 level)
{
	u32 parts = 4U << level;

	return (tags + parts - 1) / parts;
}

/* How many it may choose from then. */
CORE_FN u32 cello_room_most(u32 tags, u32 level)
{
	return tags > 1 ? tags - cello_room_left(tags, level) : 1;
}

/* Of so many tags those that are divided among requests, by whether somebody waits for them. */
CORE_FN u32 cello_room_tags(u32 tags, bool arm, bool waited_for)
{
	return arm && !waited_for && tags > CELLO_ROOM_BEHIND ? CELLO_ROOM_BEHIND : tags;
}

/* While so few requests are there in all, each may choose from all tags. */
CORE_FN bool cello_room_ample(u32 requests, u32 tags)
{
	return requests < cello_room_left(tags, CELLO_ROOM_CLASS);
}

/* How many tags the next request of a group there may choose from. */
CORE_FN u32 cello_room_for(const struct cello_room *room, const struct cello_room_at *at, u32 tags)
{
	u32 i;

	for (i = 0; i < CELLO_ROOM_LEVELS; i++)
		if (room->held[i][at->slot[i]] >= cello_room_left(tags, i))
			return cello_room_most(tags, i);
	return tags;
}

#endif
