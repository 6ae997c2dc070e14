// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which tags a request may choose from (core/disk/cello_room.h). The block layer asks before it has
 * the request, and tells neither the bio: that was seen just before, in the same task, when it was
 * tried for merging, and its group is noted there. A note that another task has overwritten is no
 * note. While few requests are there nothing is noted, and no note is looked for: one from before
 * may be of another cgroup then, which keeps a request from a quarter of the tags at worst.
 */
#include <linux/hash.h>
#include <linux/sbitmap.h>
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
	if (g) {
		n->at = *room_at(g);
		cello_backlog(&d->cello, g, n->waits);
	}
	WRITE_ONCE(n->task, g ? current : NULL);
}

/* Before 6.18, when depth_updated() changed too, the depth was one of each word of the bitmap. */
static u32 depth_of(const struct blk_mq_hw_ctx *hctx, u32 most, u32 tags)
{
#ifdef DEPTH_UPDATED_HAS_QUEUE
	return most;
#else
	u32 word = 1U << hctx->sched_tags->bitmap_tags.sb.shift;

	return max(1U, (u32)div_u64((u64)word * most, tags));
#endif
}

void disk_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct disk *d = disk_of(data->q);
	bool arm = d->cello.flight.arm, ample = room_ample(d);
	u32 all = data->q->nr_requests, tags, most;
	struct noted *n;

	if (ample && !arm)
		return;
	most = tags = cello_room_tags(all, arm, waited_for(opf));
	n = note_of(d);
	if (!ample && READ_ONCE(n->task) == current)
		most = cello_room_for(&d->room, &n->at, n->waits, tags);
	if (most < all)
		data->shallow_depth = depth_of(data->hctx, most, all);
}

/*
 * Tags are waited for by groups of waiters, whose size depends on the fewest there are for any. It
 * is to be what it is with the tags that the kernel gives a disk, twice the disk's own: a disk of
 * one has served all long before a program that waited for eight has asked for the first of eight.
 */
static void depth_updated(struct request_queue *q, bool arm)
{
	u32 tags = q->nr_requests;
	u32 least = min(cello_room_least(cello_room_tags(tags, arm, false)),
			2 * q->tag_set->queue_depth);
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i) if (hctx->sched_tags) sbitmap_queue_min_shallow_depth(
		&hctx->sched_tags->bitmap_tags, depth_of(hctx, least, tags));
}

#ifdef DEPTH_UPDATED_HAS_QUEUE
void disk_depth_updated(struct request_queue *q)
{
	depth_updated(q, disk_of(q)->cello.flight.arm);
}
#else
void disk_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	depth_updated(hctx->queue, disk_of(hctx->queue)->cello.flight.arm);
}
#endif

void room_begin(struct disk *d)
{
	depth_updated(d->q, d->cello.flight.arm);
}
