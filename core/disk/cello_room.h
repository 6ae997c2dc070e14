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
 * A disk that serves many at once may have half of the tags. Who holds the others is served in
 * order of arrival as well, as one comes free only for who had one: groups of 1:3 with more
 * requests than there are tags would have 1:1. So who holds a sixteenth leaves the more the greater
 * a part of that waits: three quarters of the tags where all of a group's do, half as many where
 * all of a tenant's do, and a quarter of that where all of a class's do. Who is served faster has a
 * smaller part waiting, and tags that the others leave, until as great a part waits of each: each
 * holds as many times what it has at the disk.
 *
 *   512 tags, 8 requests at a time, five groups of 5, 5, 10, 12 and 28 sixtieths with 128 requests
 *   each: classes have their share of the disk within 1 %, groups in most runs
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

/* So many sixteenths of the tags: at least one. */
CORE_FN u32 cello_room_part(u32 tags, u32 sixteenths)
{
	return (tags * sixteenths + 15) / 16;
}

/* How many of the tags one of that level leaves that holds so many, of which so many wait. */
CORE_FN u32 cello_room_leaves(u32 tags, u32 level, u32 held, u32 waits)
{
	u32 part = cello_room_part(tags, 4U >> level), least = held >= part ? part : 0, more;

	if (!held || held < cello_room_part(tags, 1))
		return least;
	more = (waits < held ? waits : held) * tags / held * 3 / (4U << level);
	return more > least ? more : least;
}

/* Of so many tags those that are divided among requests, by whether somebody waits for them. */
CORE_FN u32 cello_room_tags(u32 tags, bool arm, bool waited_for)
{
	return arm && !waited_for && tags > CELLO_ROOM_BEHIND ? CELLO_ROOM_BEHIND : tags;
}

/* While so few requests are there in all, each may choose from all tags. */
CORE_FN bool cello_room_ample(u32 requests, u32 tags)
{
	return requests < cello_room_part(tags, 1);
}

/* Anybody may choose from so many: who leaves most leaves three quarters. */
CORE_FN u32 cello_room_least(u32 tags)
{
	return tags >= 4 ? tags / 4 : 1;
}

/* How many tags the next request of a group there may choose from; `waits`: how many are waiting on
 * each level (cello_backlog). */
CORE_FN u32 cello_room_for(const struct cello_room *room, const struct cello_room_at *at,
			   const u32 *waits, u32 tags)
{
	u32 i, held, leaves, most = 0;

	for (i = 0; i < CELLO_ROOM_LEVELS; i++) {
		held = room->held[i][at->slot[i]];
		leaves = cello_room_leaves(tags, i, held, waits[i]);
		most = leaves > most ? leaves : most;
	}
	return most < tags ? tags - most : 1;
}

#endif
