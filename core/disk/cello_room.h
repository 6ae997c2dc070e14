/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello_room.h - room for requests: tags, of which a disk's scheduler has so many
 *
 * Who wants a tag while there is none waits for one outside of every share. So whoever holds as
 * many as it would have if all were divided evenly takes further ones only from the first three
 * quarters: the last quarter is left to those who hold less. Whoever that is: a group, all of a
 * tenant's, which is a group at the top with what is below it, or all of a class's. Were groups
 * alone to leave some, many of them, which hold one each, would leave none. The last quarter's
 * second half is for tenants that hold less, and half of that for classes.
 *
 *   128 tags, 512 requests of one group and 12 of another: the first holds 96, the second 12,
 *   and which of them is served is the scheduler's choice.
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

struct cello_room_level {
	u32 held[CELLO_ROOM_SLOTS];
	u32 holders; /* slots that hold some */
};

struct cello_room {
	struct cello_room_level level[CELLO_ROOM_LEVELS];
};

/* The slot of a group or tenant, by anything that is its own: a Fibonacci hash. */
CORE_FN u32 cello_room_slot(u64 key)
{
	return key * 0x9e3779b97f4a7c15ULL >> 56;
}

CORE_FN void cello_room_takes(struct cello_room *room, const struct cello_room_at *at, u32 level)
{
	struct cello_room_level *l = &room->level[level];

	if (!l->held[at->slot[level]]++)
		l->holders++;
}

CORE_FN void cello_room_gives(struct cello_room *room, const struct cello_room_at *at, u32 level)
{
	struct cello_room_level *l = &room->level[level];

	if (!--l->held[at->slot[level]])
		l->holders--;
}

/* No loop: with constants each is a few instructions. */
CORE_FN void cello_room_take(struct cello_room *room, const struct cello_room_at *at)
{
	cello_room_takes(room, at, CELLO_ROOM_GROUP);
	cello_room_takes(room, at, CELLO_ROOM_TENANT);
	cello_room_takes(room, at, CELLO_ROOM_CLASS);
}

CORE_FN void cello_room_give(struct cello_room *room, const struct cello_room_at *at)
{
	cello_room_gives(room, at, CELLO_ROOM_GROUP);
	cello_room_gives(room, at, CELLO_ROOM_TENANT);
	cello_room_gives(room, at, CELLO_ROOM_CLASS);
}

/* How many tags one of that level that holds much may choose from; at least one is left. */
CORE_FN u32 cello_room_most(u32 tags, u32 level)
{
	u32 parts = 4U << level;

	return tags > 1 ? tags - (tags + parts - 1) / parts : 1;
}

/* Of so many tags those that are divided among requests, by whether somebody waits for them. */
CORE_FN u32 cello_room_tags(u32 tags, bool arm, bool waited_for)
{
	return arm && !waited_for && tags > CELLO_ROOM_BEHIND ? CELLO_ROOM_BEHIND : tags;
}

/* While so few requests are there in all, each may choose from all tags. */
CORE_FN bool cello_room_ample(u32 requests, u32 tags)
{
	return (u64)requests * requests < tags / 2;
}

/* How many tags the next request of a group there may choose from. */
CORE_FN u32 cello_room_for(const struct cello_room *room, const struct cello_room_at *at, u32 tags)
{
	u32 i;

	for (i = 0; i < CELLO_ROOM_LEVELS; i++) {
		const struct cello_room_level *l = &room->level[i];
		u32 held = l->held[at->slot[i]], holders = l->holders + !held;
		u32 most = cello_room_most(tags, i);

		if (held >= most || held * holders >= tags)
			return most;
	}
	return tags;
}

#endif
