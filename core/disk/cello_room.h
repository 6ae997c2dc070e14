/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello_room.h - room for requests: tags, of which a disk's scheduler has so many
 *
 * Who wants a tag while there is none waits for one outside of every share. So whoever holds as
 * many as it would have if all were divided evenly takes further ones only from the first three
 * quarters: the last quarter is left to those who hold less.
 *
 *   128 tags, 512 requests of one group and 12 of another: the first holds 96, the second 12,
 *   and which of them is served is the scheduler's choice.
 *
 * Groups are counted by slot: two that share one count as one.
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

struct cello_room {
	u32 held[CELLO_ROOM_SLOTS];
	u32 holders; /* slots that hold some */
};

/* The slot of a group, by anything that is its own: a Fibonacci hash. */
CORE_FN u32 cello_room_slot(u64 key)
{
	return key * 0x9e3779b97f4a7c15ULL >> 56;
}

CORE_FN void cello_room_take(struct cello_room *room, u32 slot)
{
	room->holders += !room->held[slot]++;
}

CORE_FN void cello_room_give(struct cello_room *room, u32 slot)
{
	room->holders -= !--room->held[slot];
}

/* How many tags a group that holds much may choose from; at least one is left. */
CORE_FN u32 cello_room_most(u32 tags)
{
	return tags > 1 ? tags - (tags + 3) / 4 : 1;
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

/* How many tags the next request of the slot may choose from. */
CORE_FN u32 cello_room_for(const struct cello_room *room, u32 slot, u32 tags)
{
	u32 held = room->held[slot], holders = room->holders + !held;
	u32 most = cello_room_most(tags);

	return held >= most || held * holders >= tags ? most : tags;
}

#endif
