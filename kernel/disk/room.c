// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which tags a request may choose from (core/disk/cello_room.h), and who waits for one. The block
 * layer asks before it has the request, where the task may sleep, and does not tell the bio: that
 * was seen just before, in the same task, when it was tried for merging, and its group is noted
 * there. A note that another task has overwritten is no note. While few requests are there nothing
 * is noted, and no note is looked for: one from before may be of another cgroup then, with which a
 * request waits at worst.
 */
#include <linux/hash.h>
#include <linux/sched.h>

#include "disk.h"

static struct noted *note_of(struct disk *d)
{
	return &d->noted[hash_ptr(current, NOTED_BITS)];
}

void room_note(struct disk *d, struct cello_group *g)
{
	struct noted *n = note_of(d);

	WRITE_ONCE(n->task, NULL);
	if (g)
		n->at = *room_at(g);
	WRITE_ONCE(n->task, g ? current : NULL);
}

void room_take(struct disk *d, struct disk_request *r)
{
	struct cello_room_at *at = room_at(r->cello.group);

	if (unlikely(!at->slot[CELLO_ROOM_GROUP]))
		member_has_room(member_of(r->cello.group), r->cello.group->class_id);
	cello_room_take(&d->room, at);
}

u32 room_give(struct disk *d, struct disk_request *r, struct cello_room_at *at)
{
	u32 i, tells = 0;

	*at = *room_at(r->cello.group);
	cello_room_give(&d->room, at);
	if (!atomic_read(&d->waiters))
		return 0;
	for (i = 0; i < CELLO_ROOM_LEVELS; i++)
		tells |= cello_room_tells(&d->room, at, i) << i;
	return tells;
}

/* Of so many tags of all hardware queues those of one. Before 6.18, when depth_updated() changed
 * too, the depth was one of each word of the bitmap. */
static u32 depth_of(const struct disk *d, const struct blk_mq_hw_ctx *hctx, u32 most)
{
#ifdef DEPTH_UPDATED_HAS_QUEUE
	u32 all = d->q->nr_requests;
#else
	u32 all = 1U << hctx->sched_tags->bitmap_tags.sb.shift;
#endif

	return max(1U, (u32)div_u64((u64)all * most, tags_of(d)));
}

static u32 room_left(struct disk *d, const struct cello_room_at *at, u32 *level)
{
	u32 left;

	spin_lock_irq(&d->lock);
	left = cello_room_left(&d->room, at, tags_of(d), level);
	spin_unlock_irq(&d->lock);
	return left;
}

/* Whether who leaves tells the next of those who wait on that level: there is room for two, or
 * nothing will come back there that tells one. */
static bool hands_on(struct disk *d, const struct cello_room_at *at, u32 level)
{
	u32 next;
	bool on;

	spin_lock_irq(&d->lock);
	on = !d->room.slot[at->slot[level]].held ||
	     cello_room_left(&d->room, at, tags_of(d), &next) > 1;
	spin_unlock_irq(&d->lock);
	return on;
}

/*
 * Until it has room, or another level leaves what it needs. As requests of this one are there, one
 * of them ends after it was seen here, under the lock, that there is none yet. Of the same group
 * who came first goes first. Whether who leaves tells the next is seen after it left, for who came
 * before that may rely on it.
 */
static bool waited_there(struct disk *d, const struct cello_room_at *at, u32 *level)
{
	struct wait_queue_head *there = &d->waiters_at[at->slot[*level]];
	bool has, in_turn = *level != CELLO_ROOM_GROUP;
	u32 now = *level;
	DEFINE_WAIT_FUNC(wait, default_wake_function);

	for (;;) {
		prepare_to_wait_exclusive(there, &wait, TASK_UNINTERRUPTIBLE);
		has = room_left(d, at, &now);
		in_turn |= READ_ONCE(there->head.next) == &wait.entry;
		if (now != *level || (has && in_turn))
			break;
		io_schedule();
	}
	finish_wait(there, &wait);
	if (!has || hands_on(d, at, *level))
		wake_up(there);
	*level = now;
	return has;
}

static void wait_for_room(struct disk *d, const struct cello_room_at *at)
{
	u32 level;
	bool has = cello_room_left(&d->room, at, tags_of(d), &level); /* as it seems */

	if (has &&
	    !(level == CELLO_ROOM_GROUP && waitqueue_active(&d->waiters_at[at->slot[level]])))
		return;
	atomic_inc(&d->waiters);
	while (!waited_there(d, at, &level))
		;
	atomic_dec(&d->waiters);
}

/* None is told after the last that counts there, so then all are. */
void room_tell(struct disk *d, const struct cello_room_at *at, u32 levels)
{
	u32 i, slot;

	for (i = 0; i < CELLO_ROOM_LEVELS; i++) {
		slot = at->slot[i];
		if (!(levels & 1 << i))
			continue;
		if (READ_ONCE(d->room.slot[slot].held))
			wake_up(&d->waiters_at[slot]);
		else
			wake_up_all(&d->waiters_at[slot]);
	}
}

/* Not while memory is short, nor where one thread submits what is of many. */
static bool may_wait(blk_opf_t opf, const struct blk_mq_alloc_data *data)
{
	return !(data->flags & BLK_MQ_REQ_NOWAIT) && !(opf & REQ_SWAP) &&
	       !(current->flags & (PF_KTHREAD | PF_MEMALLOC));
}

/* Whose the request is, if that was noted. It is no longer then: those that are not to be merged
 * are not seen before, and would be taken for the one before them. */
static bool noted(struct disk *d, blk_opf_t opf, struct cello_room_at *at)
{
	struct noted *n = note_of(d);

	if (READ_ONCE(n->task) != current || (opf & REQ_NOMERGE_FLAGS))
		return false;
	*at = n->at;
	return cmpxchg(&n->task, current, NULL) == current;
}

/* Who may not wait, and what is sent to an arm, has so many of the tags by their numbers; who waits
 * for one of those keeps the number that he was told. So has who waited where there are several
 * hardware queues, as one may be full before the others. */
static noinline void limit_depth(struct disk *d, blk_opf_t opf, struct blk_mq_alloc_data *data,
				 bool ample)
{
	bool arm = d->cello.flight.arm, waits;
	u32 all = tags_of(d), tags, most, level;
	struct cello_room_at at;

	most = tags = cello_room_tags(all, arm, waited_for(opf));
	if (!ample && noted(d, opf, &at)) {
		waits = !arm && may_wait(opf, data);
		if (waits)
			wait_for_room(d, &at);
		if (!waits || d->queues > 1)
			most = cello_room_for(&d->room, &at, arm, tags, &level);
	}
	/* Without an arm also where that is all of them: not several with one question. */
	if (most < all || !arm)
		data->shallow_depth = depth_of(d, data->hctx, most);
}

void disk_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct disk *d = disk_of(data->q);
	bool ample = room_ample(d);

	if (!ample || d->cello.flight.arm)
		limit_depth(d, opf, data, ample);
}

/* Hardware queues that have tags of their own; what is polled for is not asked for here. */
static u32 queues_of(const struct request_queue *q)
{
	const struct blk_mq_tag_set *set = q->tag_set;
	u32 polled = set->nr_maps > HCTX_TYPE_POLL ? set->map[HCTX_TYPE_POLL].nr_queues : 0;

	if (set->flags & BLK_MQ_F_TAG_HCTX_SHARED)
		return 1;
	return max(q->nr_hw_queues, polled + 1) - polled;
}

/*
 * Tags are waited for by groups of waiters, whose size depends on the fewest there are for any. It
 * is to be what it is with the tags that the kernel gives a disk, twice the disk's own: a disk of
 * one has served all long before a program that waited for eight has asked for the first of eight.
 */
static void depth_updated(struct disk *d)
{
	struct request_queue *q = d->q;
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;
	u32 least;

	d->queues = queues_of(q);
	least = cello_room_least(cello_room_tags(tags_of(d), d->cello.flight.arm, false));
	least = min(least, 2 * q->tag_set->queue_depth * d->queues);
	queue_for_each_hw_ctx(q, hctx, i) if (hctx->sched_tags) sbitmap_queue_min_shallow_depth(
		&hctx->sched_tags->bitmap_tags, depth_of(d, hctx, least));
}

#ifdef DEPTH_UPDATED_HAS_QUEUE
void disk_depth_updated(struct request_queue *q)
{
	depth_updated(disk_of(q));
}
#else
void disk_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	depth_updated(disk_of(hctx->queue));
}
#endif

void room_begin(struct disk *d)
{
	u32 slot;

	for (slot = 0; slot < CELLO_ROOM_SLOTS; slot++)
		init_waitqueue_head(&d->waiters_at[slot]);
	depth_updated(d);
}
