/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello_room.h - room for requests: tags, of which a disk's scheduler has so many
 *
 * Who wants a tag while there is none waits for one outside of every share. So the last quarter is
 * left to those who hold little: whoever holds a quarter takes further ones only while less than
 * three quarters are taken. Whoever that is: a group, all of a tenant's, which is a group at the
 * top with what is below it, or all of a class's. Were groups alone to leave some, many of them,
 * which hold one each, would leave none. So a tenant that holds an eighth leaves the last eighth,
 * and a class that holds a sixteenth the last sixteenth.
 *
 * From then on, and not only when three quarters are full: a tag of the last that comes free wakes
 * one of all who wait, and if that one may not take it, it wakes nobody.
 *
 * A disk that serves many at once may have half of the tags. Who holds the others is served in
 * order of arrival as well, as one comes free only for who had one: groups of 1:3 with more
 * requests than there are tags would have 1:1. So without an arm who holds a few leaves the more
 * the greater a part of that waits for the disk: three quarters of the tags where all of a group's
 * do, half as many where all of a tenant's do, and a quarter of that where all of a class's do. Who
 * is served faster has a smaller part waiting, and tags that the others leave, until as great a
 * part waits of each: each holds as many times what it has at the disk. With N tags and G requests
 * at the disk groups then hold T of them in all, where the part that waits, 1 - G/T, is
 * (1 - T/N) 4/3: of 512, 150 with 8 at the disk, 233 with 64. Where nobody else holds any nobody
 * would have what is left.
 *
 * What a group may have changes while it waits for that. So who waits does so with those who wait
 * for the same, and one of them is told when some of what they hold came back (cello_room_tells):
 * it sees what it may have by then.
 *
 *   512 tags, 8 requests at a time, groups with 128 requests each: five of 5, 5, 10, 12 and 28
 *   sixtieths have their share of the disk within 1 %, and fourteen of 3, 7 and twelve times 5/12
 *   fifteenths
 *
 *   128 tags, 512 requests of one group and 12 of another: the first holds 96, the second 12,
 *   and which of them is served is the scheduler's choice. Two that want all have 96 between them.
 *   200 groups of one tenant with a request each: they hold 112, and another tenant gets the
 *   next 8, and another class the last.
 *
 * Who has asked once has a slot of its own, in which what it holds is counted. Who comes when there
 * are no more is counted nowhere, and leaves none but as one of its class's.
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
	CELLO_ROOM_SLOTS = 1024,
	CELLO_ROOM_FEW = 8, /* of a group's, whether they wait or not */
	/* Tags that are divided among requests nobody waits for, with an arm: three quarters of
	 * them take longer than what a class gathers (CELLO_GATHER_NS). */
	CELLO_ROOM_BEHIND = 32,
};

/* Slots that are nobody's: of who has not asked yet, and, when all were lent, of who came then; and
 * from CELLO_ROOM_CLASSES on the classes'. */
enum { CELLO_ROOM_NONE, CELLO_ROOM_OTHERS, CELLO_ROOM_CLASSES, CELLO_ROOM_LENT = 8 };

/* Who holds a tag, from the smallest to the largest. */
enum { CELLO_ROOM_GROUP, CELLO_ROOM_TENANT, CELLO_ROOM_CLASS, CELLO_ROOM_LEVELS };

/* Where a group counts, on each level. */
struct cello_room_at {
	u32 slot[CELLO_ROOM_LEVELS];
};

struct cello_room_slot {
	u32 held;
	u32 waits; /* of those, for the disk */
	u32 given; /* since somebody was told */
};

struct cello_room {
	struct cello_room_slot slot[CELLO_ROOM_SLOTS];
	u16 back[CELLO_ROOM_SLOTS]; /* slots that came back, */
	u32 backs;                  /* how many, and how many were lent for the first time */
	u32 lent;
	u32 held; /* in all */
};

/* A slot for a group, or for a tenant. */
CORE_FN u32 cello_room_lend(struct cello_room *room)
{
	if (room->backs)
		return room->back[--room->backs];
	if (room->lent < CELLO_ROOM_SLOTS - CELLO_ROOM_LENT)
		return CELLO_ROOM_LENT + room->lent++;
	return CELLO_ROOM_OTHERS;
}

/* It, if it was lent, is wanted no more. */
CORE_FN void cello_room_end(struct cello_room *room, u32 slot)
{
	if (slot >= CELLO_ROOM_LENT)
		room->back[room->backs++] = slot;
}

/* A group that had no slot is to have one, and so is `tenant`, which it is itself or belongs to. */
CORE_FN void cello_room_begin(struct cello_room *room, struct cello_room_at *at,
			      struct cello_room_at *tenant, u32 class_id)
{
	if (!tenant->slot[CELLO_ROOM_TENANT])
		tenant->slot[CELLO_ROOM_TENANT] = cello_room_lend(room);
	at->slot[CELLO_ROOM_GROUP] = cello_room_lend(room);
	at->slot[CELLO_ROOM_TENANT] = tenant->slot[CELLO_ROOM_TENANT];
	at->slot[CELLO_ROOM_CLASS] = CELLO_ROOM_CLASSES + class_id;
}

/* A request has a tag, and waits. */
CORE_FN void cello_room_take(struct cello_room *room, const struct cello_room_at *at)
{
	u32 i;

	for (i = 0; i < CELLO_ROOM_LEVELS; i++) {
		room->slot[at->slot[i]].held++;
		room->slot[at->slot[i]].waits++;
	}
	room->held++;
}

/* It waits no more: the disk has it, or it was merged. */
CORE_FN void cello_room_go(struct cello_room *room, const struct cello_room_at *at)
{
	u32 i;

	for (i = 0; i < CELLO_ROOM_LEVELS; i++)
		room->slot[at->slot[i]].waits--;
}

CORE_FN void cello_room_give(struct cello_room *room, const struct cello_room_at *at)
{
	u32 i;

	for (i = 0; i < CELLO_ROOM_LEVELS; i++)
		room->slot[at->slot[i]].held--;
	room->held--;
}

/* One came back of what counts there: whether one of those who wait with it is told. A group's not
 * each time, for each program that is told runs: when a quarter of what it holds came back. Others
 * wait for a tenant's or a class's, and the first that is told takes what there is. */
CORE_FN bool cello_room_tells(struct cello_room *room, const struct cello_room_at *at, u32 level)
{
	struct cello_room_slot *slot = &room->slot[at->slot[level]];

	if (level != CELLO_ROOM_GROUP)
		return true;
	if (++slot->given <= slot->held / 4)
		return false;
	slot->given = 0;
	return true;
}

/* So many sixteenths of the tags: at least one. */
CORE_FN u32 cello_room_part(u32 tags, u32 sixteenths)
{
	return (tags * sixteenths + 15) / 16;
}

/* From how many on what waits counts. */
CORE_FN u32 cello_room_few(u32 tags, u32 level)
{
	return level == CELLO_ROOM_GROUP ? CELLO_ROOM_FEW : cello_room_part(tags, 1);
}

/* How many of the tags one of that level leaves that holds so many, of which so many wait. */
CORE_FN u32 cello_room_leaves(u32 tags, u32 level, u32 held, u32 waits)
{
	u32 part = cello_room_part(tags, 4U >> level), least = held >= part ? part : 0, more;

	if (!held || held < cello_room_few(tags, level))
		return least;
	more = (waits < held ? waits : held) * tags / held * 3 / (4U << level);
	return more > least ? more : least;
}

/* Of so many tags those that are divided among requests, by whether somebody waits for them. */
CORE_FN u32 cello_room_tags(u32 tags, bool arm, bool waited_for)
{
	return arm && !waited_for && tags > CELLO_ROOM_BEHIND ? CELLO_ROOM_BEHIND : tags;
}

/* While so few requests are there in all, each may have a tag. */
CORE_FN bool cello_room_ample(u32 requests, u32 tags)
{
	return requests < cello_room_part(tags, 1);
}

/* Anybody may choose from so many: who leaves most leaves three quarters. */
CORE_FN u32 cello_room_least(u32 tags)
{
	return tags >= 4 ? tags / 4 : 1;
}

/* How many tags the next request of a group there may choose from, and the level that leaves the
 * others. */
CORE_FN u32 cello_room_for(const struct cello_room *room, const struct cello_room_at *at, bool arm,
			   u32 tags, u32 *level)
{
	const struct cello_room_slot *slot;
	u32 i, held, leaves, most = 0;

	*level = 0;
	for (i = 0; i < CELLO_ROOM_LEVELS; i++) {
		if (at->slot[i] <= CELLO_ROOM_OTHERS)
			continue;
		slot = &room->slot[at->slot[i]];
		held = *(const volatile u32 *)&slot->held; /* also asked without the lock */
		leaves = cello_room_leaves(tags, i, held,
					   arm || held == room->held ? 0 : slot->waits);
		if (leaves > most) {
			most = leaves;
			*level = i;
		}
	}
	return most < tags ? tags - most : 1;
}

/* How many more tags a group there may have now, and the level that leaves the others; all, where
 * none does: then the next is whoever's the kernel gives it to. */
CORE_FN u32 cello_room_left(const struct cello_room *room, const struct cello_room_at *at, u32 tags,
			    u32 *level)
{
	u32 most = cello_room_for(room, at, false, tags, level);
	u32 held = *(const volatile u32 *)&room->held;

	if (most == tags)
		return tags;
	return held < most ? most - held : 0;
}

#endif
