// SPDX-License-Identifier: GPL-2.0-only
/*
 * cello - the I/O scheduler `cello`: the block layer's side of core/disk/cello.h
 *
 * echo cello > /sys/block/DEVICE/queue/scheduler
 *
 * A request is asked for its class when it comes (insert): its own hint, its cgroup, the
 * process it came from, in this order. Without a class it bypasses Cello. The policy says which
 * request goes to the disk next (dispatch), and is told when it was served (completed), which
 * is also when the next may go. Requests are merged as by the other schedulers: those of one
 * cgroup and one I/O priority, hence of one class, but for what a journal writes right behind what
 * others do, which is served with it.
 *
 * Nothing here decides anything: see core/disk/cello.h. Flushes and commands (passthrough) never
 * reach a scheduler.
 */
#include <linux/hrtimer.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "disk.h"

extern int elv_register(struct elevator_type *type);
extern void elv_unregister(struct elevator_type *type);
extern struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type);
extern bool elv_bio_merge_ok(struct request *rq, struct bio *bio);
extern void elv_rqhash_add(struct request_queue *q, struct request *rq);
extern void elv_rqhash_del(struct request_queue *q, struct request *rq);
extern void elv_rb_add(struct rb_root *root, struct request *rq);
extern void elv_rb_del(struct rb_root *root, struct request *rq);
extern struct request *elv_rb_find(struct rb_root *root, sector_t sector);
extern struct request *elv_rb_former_request(struct request_queue *q, struct request *rq);
extern struct request *elv_rb_latter_request(struct request_queue *q, struct request *rq);
extern bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int segments,
				   struct request **merged);
extern bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq,
					  struct list_head *merged);
#ifdef CONFIG_BLK_WBT
extern void wbt_disable_default(struct gendisk *disk);
extern void wbt_enable_default(struct gendisk *disk);
#else
static void wbt_disable_default(struct gendisk *disk)
{
}
static void wbt_enable_default(struct gendisk *disk)
{
}
#endif

static bool impatient;
module_param(impatient, bool, 0644);
MODULE_PARM_DESC(impatient, "wait for no other processor when a request comes (for tests)");

static struct kmem_cache *request_cache;
static mempool_t *requests;

const char *const class_names[CELLO_CLASSES] = {"interactive", "throughput", "realtime"};

static struct disk_request *request_of(struct request *rq)
{
	return rq->elv.priv[0];
}

/* ---- a request's class ------------------------------------------------- */

static_assert((u32)CELLO_CLASSES == (u32)CELLO_HINT_NONE);

/* What the journal of a file system writes: many wait for it. */
static bool is_journal(const struct bio *bio)
{
	return op_is_write(bio_op(bio)) && (bio->bi_opf & REQ_META) && (bio->bi_opf & REQ_SYNC);
}

/* Where it belongs, or nowhere: it bypasses Cello. */
static __always_inline struct cello_group *group_for(const struct disk *d, const struct bio *bio,
						     struct cello_asked *asked)
{
	struct disk_cgroup *cgroup = cgroup_of(bio->bi_blkg);
	u32 of_cgroup = cgroup ? member_class(cgroup) : CELLO_CLASSES;
	*asked = cello_asked(IOPRIO_PRIO_HINT(bio->bi_ioprio), of_cgroup);
	asked->class_id = cello_class_of(&d->cello, asked->class_id, is_journal(bio));
	return cgroup && asked->class_id < CELLO_CLASSES ? &cgroup->group[asked->class_id] : NULL;
}

/* ---- merging ----------------------------------------------------------- */

static bool is_transfer(struct request *rq)
{
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE;
}

/* No discards: one of several ranges does not end where its first begins and all are long. */
static bool is_mergeable(struct request *rq)
{
	return is_transfer(rq) && !(rq->cmd_flags & REQ_NOMERGE_FLAGS) &&
	       !(rq->rq_flags & RQF_NOMERGE_FLAGS);
}

static void sort_in(struct disk *d, struct request *rq)
{
	if (!is_mergeable(rq))
		return;
	elv_rb_add(&d->sorted[rq_data_dir(rq)], rq);
	elv_rqhash_add(d->q, rq);
	if (!d->q->last_merge)
		d->q->last_merge = rq;
}

/* That which waits alone most likely goes to the disk before another comes that could be merged. */
static void sort_in_later(struct disk *d, struct request *rq)
{
	if (waiting(d) == 1)
		d->unsorted = rq;
	else
		sort_in(d, rq);
}

static void sort_in_all(struct disk *d)
{
	struct request *rq = d->unsorted;

	d->unsorted = NULL;
	if (rq)
		sort_in(d, rq);
}

static void sort_out(struct disk *d, struct request *rq)
{
	if (rq == d->unsorted) {
		d->unsorted = NULL;
		return;
	}
	if (!RB_EMPTY_NODE(&rq->rb_node))
		elv_rb_del(&d->sorted[rq_data_dir(rq)], rq);
	elv_rqhash_del(d->q, rq);
	if (d->q->last_merge == rq)
		d->q->last_merge = NULL;
}

static int disk_request_merge(struct request_queue *q, struct request **to, struct bio *bio)
{
	struct disk *d = disk_of(q);
	struct request *rq = elv_rb_find(&d->sorted[bio_data_dir(bio)], bio_end_sector(bio));

	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*to = rq;
	return ELEVATOR_FRONT_MERGE;
}

/* Somebody waits for it, or for what was merged into it last. */
static bool is_sync(const struct request *rq)
{
	return waited_for(rq->cmd_flags | rq->bio->bi_opf | rq->biotail->bi_opf);
}

static void grown(struct disk *d, struct request *rq)
{
	struct disk_request *r = request_of(rq);

	if (!r || r->place != QUEUED)
		return;
	cello_grown(&d->cello, &r->cello, blk_rq_pos(rq), blk_rq_sectors(rq));
	if (is_sync(rq))
		cello_waited_for(&d->cello, &r->cello);
}

static void disk_request_merged(struct request_queue *q, struct request *rq, enum elv_merge how)
{
	struct disk *d = disk_of(q);

	if (how == ELEVATOR_FRONT_MERGE && !RB_EMPTY_NODE(&rq->rb_node)) {
		elv_rb_del(&d->sorted[rq_data_dir(rq)], rq);
		elv_rb_add(&d->sorted[rq_data_dir(rq)], rq);
	}
	grown(d, rq);
}

static void disk_requests_merged(struct request_queue *q, struct request *rq, struct request *gone)
{
	struct disk *d = disk_of(q);
	struct disk_request *r = request_of(rq), *g = request_of(gone);

	sort_out(d, gone);
	if (g && g->place == QUEUED) {
		if (r && r->place == QUEUED)
			cello_merged(&d->cello, &r->cello, &g->cello, ktime_get_ns());
		else
			cello_remove(&d->cello, &g->cello);
		room_go(d, g);
		g->place = OUT;
	}
	grown(d, rq);
}

/* ---- a request's way --------------------------------------------------- */

static void disk_prepare_request(struct request *rq)
{
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
}

/* Under the lock: one that was used before, if there is one. */
static struct disk_request *new_request(struct disk *d)
{
	struct disk_request *r = d->spare;

	if (!r)
		return mempool_alloc(requests, GFP_NOWAIT | __GFP_NOWARN);
	d->spare = r->next;
	d->spares--;
	return r;
}

/* What is let go of a request that is out, without the lock. */
struct gone {
	struct disk_request *r;
	struct blkcg_gq *blkg;
	u32 tells; /* who waits for room with it, by level (room_tell) */
	struct cello_room_at at;
};

/* Under the lock: this is not asked of the request any more. */
static __always_inline void out(struct disk *d, struct request *rq, struct disk_request *r,
				struct gone *gone)
{
	rq->elv.priv[0] = NULL;
	gone->tells = r->counted ? room_give(d, r, &gone->at) : 0;
	gone->blkg = cgroup_unpin(d, r);
	gone->r = NULL;
	if (d->spares == SPARES_MAX) {
		gone->r = r;
		return;
	}
	r->next = d->spare;
	d->spare = r;
	d->spares++;
}

static __always_inline void forget(struct disk *d, const struct gone *gone)
{
	if (unlikely(gone->tells))
		room_tell(d, &gone->at, gone->tells);
	if (gone->blkg)
		percpu_ref_put(&gone->blkg->refcnt);
	if (gone->r)
		mempool_free(gone->r, requests);
}

static void free_spares(struct disk *d)
{
	struct disk_request *r;

	while ((r = d->spare)) {
		d->spare = r->next;
		mempool_free(r, requests);
	}
}

/* Where flushes are: 1 if one waits or the disk has it, and a number that changes with each that
 * begins or ends, as one of two bits of its hardware queue does. */
static u32 flushes(const struct disk *d)
{
	struct blk_mq_hw_ctx *hctx;
	u32 number = 0, some = 0;
	unsigned long i;

	queue_for_each_hw_ctx(d->q, hctx, i)
	{
		number += hctx->fq->flush_pending_idx + 2 * hctx->fq->flush_running_idx;
		some |= hctx->fq->flush_pending_idx != hctx->fq->flush_running_idx;
	}
	return number << 1 | some;
}

static bool flushed(const struct disk *d, u32 before)
{
	return (before & 1) || flushes(d) != before;
}

static struct disk_request *classified(struct disk *d, struct request *rq)
{
	struct cello_asked asked;
	struct cello_group *group = rq->bio ? group_for(d, rq->bio, &asked) : NULL;
	u64 now_ns = rq->start_time_ns ?: ktime_get_ns();
	struct disk_request *r;

	if (!group)
		return NULL;
	r = new_request(d);
	if (!r)
		return NULL;
	r->rq = rq;
	r->blkg = rq->bio->bi_blkg;
	cgroup_pin(d, r->blkg);
	r->place = QUEUED;
	r->cello.group = group;
	r->counted = !room_ample(d);
	if (r->counted)
		room_take(d, r);
	r->cello.sector = blk_rq_pos(rq);
	r->cello.sectors = blk_rq_sectors(rq);
	r->cello.sync = is_sync(rq);
	r->cello.way = req_op(rq) == REQ_OP_READ ? 0 : is_transfer(rq) ? 1 : 2;
	r->cello.deadline_ns = cello_deadline(&d->cello, asked.deadline_ns, now_ns);
	rq->elv.priv[0] = r;
	cello_add(&d->cello, &r->cello, now_ns);
	return r;
}

static void insert(struct disk *d, struct request *rq, blk_insert_t flags, struct list_head *merged)
{
	d->full = false;
	/* It was at the disk, and comes back to be tried again; or it must not wait: until what is
	 * written after a flush is at the disk the kernel sends no other flush. */
	if (request_of(rq) || flags) {
		list_add(&rq->queuelist, &d->first);
		d->direct++;
		return;
	}
	if (waiting(d)) {
		sort_in_all(d);
		if (blk_mq_sched_try_insert_merge(d->q, rq, merged))
			return;
	}
	if ((rq->rq_flags & RQF_USE_SCHED) && classified(d, rq)) {
		sort_in_later(d, rq);
		return;
	}
	d->bypassed++;
	list_add_tail(&rq->queuelist, &d->bypass);
	d->direct++;
}

static struct request *next_of(struct list_head *list)
{
	struct request *rq = list_first_entry_or_null(list, struct request, queuelist);

	if (rq)
		list_del_init(&rq->queuelist);
	return rq;
}

/* Under the lock, with interrupts off. */
static noinline void insert_some(struct disk *d, struct list_head *list, blk_insert_t flags,
				 struct list_head *merged)
{
	u32 n;

	for (n = 0; n < INSERTED_AT_ONCE && !list_empty(list); n++)
		insert(d, next_of(list), flags, merged);
}

/* The same of those that were left without the lock; how many. They are counted until they are seen
 * otherwise. */
static noinline u32 insert_left(struct disk *d, struct list_head *merged)
{
	struct request *rq;
	LIST_HEAD(some);
	u32 n;

	if (!d->left)
		d->left = llist_reverse_order(llist_del_all(&d->leaves));
	for (n = 0; n < INSERTED_AT_ONCE && d->left; n++) {
		rq = llist_entry(d->left, struct request, ipi_list);
		d->left = d->left->next;
		list_add_tail(&rq->queuelist, &some);
	}
	insert_some(d, &some, 0, merged);
	atomic_sub_return_release(n, &d->leaving);
	return n;
}

/* Without the lock. */
static noinline void free_some(struct list_head *merged)
{
	struct request *rq;

	while ((rq = next_of(merged)))
		blk_mq_free_request(rq);
}

static inline void free_merged(struct list_head *merged)
{
	if (!list_empty(merged))
		free_some(merged);
}

/* Some of those that were left. */
static noinline u32 put_in_some(struct disk *d)
{
	unsigned long irq;
	LIST_HEAD(merged);
	u32 n;

	spin_lock_irqsave(&d->lock, irq);
	n = insert_left(d, &merged);
	spin_unlock_irqrestore(&d->lock, irq);
	free_merged(&merged);
	return n;
}

/* All that was left. No more can come than there are tags. */
static void put_in_left(struct disk *d)
{
	while (unlikely(is_left(d)) && put_in_some(d) == INSERTED_AT_ONCE)
		;
}

/* Whoever chooses, merges or takes one back next puts them in. The node is not used before a
 * request is sorted in, and after it is served. */
static noinline void leave(struct disk *d, struct list_head *list)
{
	struct llist_node *newest = NULL, *oldest = NULL;
	struct request *rq;
	int n;

	for (n = 0; (rq = next_of(list)); n++) {
		rq->ipi_list.next = newest;
		newest = &rq->ipi_list;
		if (!oldest)
			oldest = newest;
	}
	atomic_add(n, &d->leaving);
	llist_add_batch(newest, oldest, &d->leaves);
}

/* Takes the lock, unless it has many to wait for. Who waits for one only is soon served, and sees
 * to its own requests: whoever does that for others wakes their programs on another processor. */
static bool lock_soon(struct disk *d)
{
	if (spin_trylock_irq(&d->lock))
		return true;
	if (impatient || spin_is_contended(&d->lock))
		return false;
	spin_lock_irq(&d->lock);
	return true;
}

static void disk_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				 blk_insert_t flags)
{
	struct disk *d = disk_of(hctx->queue);
	LIST_HEAD(merged);

	while (!list_empty(list)) {
		if (flags || request_of(list_first_entry(list, struct request, queuelist))) {
			spin_lock_irq(&d->lock);
		} else if (!lock_soon(d)) {
			leave(d, list);
			break;
		}
		insert_some(d, list, flags, &merged);
		spin_unlock_irq(&d->lock);
	}
	free_merged(&merged);
}

static noinline bool merge(struct request_queue *q, struct bio *bio, unsigned int segments)
{
	struct disk *d = disk_of(q);
	struct request *gone = NULL;
	bool done;

	put_in_left(d);
	spin_lock_irq(&d->lock);
	sort_in_all(d);
	done = blk_mq_sched_try_merge(q, bio, segments, &gone);
	spin_unlock_irq(&d->lock);
	if (gone)
		blk_mq_free_request(gone);
	return done;
}

static noinline void note(struct disk *d, const struct bio *bio)
{
	struct cello_asked asked;

	room_note(d, group_for(d, bio, &asked));
}

static bool disk_bio_merge(struct request_queue *q, struct bio *bio, unsigned int segments)
{
	struct disk *d = disk_of(q);

	if (!room_ample(d))
		note(d, bio);
	return (waiting(d) || is_left(d)) && merge(q, bio, segments);
}

static enum hrtimer_restart wakes(struct hrtimer *timer)
{
	struct disk *d = container_of(timer, struct disk, wake);
	unsigned long irq;

	/* Whoever is choosing now has found nothing, or sees that the timer has fired. */
	spin_lock_irqsave(&d->lock, irq);
	d->full = false;
	spin_unlock_irqrestore(&d->lock, irq);
	blk_mq_run_hw_queues(d->q, true);
	return HRTIMER_NORESTART;
}

/* Under the lock. A timer that fires too soon sets itself anew by way of this: one whose function
 * runs is not queued, though it is active. */
static void wake_in_time(struct disk *d)
{
	u64 at_ns = cello_wake_ns(&d->cello);

	if (at_ns && (!hrtimer_is_queued(&d->wake) ||
		      at_ns < (u64)ktime_to_ns(hrtimer_get_expires(&d->wake))))
		hrtimer_start(&d->wake, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}

/* Under the lock, with interrupts off: one step. Not inlined, as insert_some: tracers are to see
 * how long that is. */
static noinline struct request *chosen(struct disk *d, bool *more)
{
	struct disk_request *r;

	r = (struct disk_request *)cello_next_step(&d->cello, ktime_get_ns());
	*more = !r && cello_more(&d->cello);
	d->full = !r && !*more;
	if (d->full)
		wake_in_time(d);
	if (!r)
		return NULL;
	r->place = AT_DISK;
	room_go(d, r);
	if (d->cello.flight.arm)
		r->flushes = flushes(d);
	sort_out(d, r->rq);
	return r->rq;
}

/* The next of those that go before all others, and to the disk at once. */
static noinline struct request *direct(struct disk *d)
{
	d->direct--;
	return next_of(list_empty(&d->first) ? &d->bypass : &d->first);
}

/* Interrupts are on between the steps of choosing. */
static struct request *disk_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct disk *d = disk_of(hctx->queue);
	struct request *rq;
	bool more;

	do {
		put_in_left(d);
		spin_lock_irq(&d->lock);
		more = false;
		rq = d->direct ? direct(d) : chosen(d, &more);
		spin_unlock_irq(&d->lock);
	} while (more);
	return rq;
}

static bool disk_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct disk *d = disk_of(hctx->queue);
	bool left = is_left(d); /* first: what is put in meanwhile is seen where it is then */

	if (READ_ONCE(d->direct))
		return true;
	/* They may not belong to Cello. */
	if (cello_full(&d->cello))
		return left && d->cello.unclassified == CELLO_CLASSES;
	return left || (waiting(d) && !READ_ONCE(d->full));
}

static void note_end(struct disk *d, const struct cello_request *r, u64 now_ns)
{
	struct ended *e = &d->ended[d->ends++ % REALTIME_KEPT];

	e->arrived_ns = r->arrived_ns;
	e->sector = r->sector;
	e->sectors = r->sectors;
	e->promised = r->promised;
	e->deadline_ns = r->deadline_ns;
	e->end_ns = now_ns;
	e->error_ns = r->error_ns;
}

/* It was served, and the disk is free for another. */
static void disk_completed_request(struct request *rq, u64 now)
{
	struct disk *d = disk_of(rq->q);
	struct disk_request *r = request_of(rq);
	u64 now_ns = now ?: ktime_get_ns();
	struct gone gone;
	unsigned long irq;
	bool full, more;

	if (unlikely(is_left(d)))
		put_in_some(d);
	spin_lock_irqsave(&d->lock, irq);
	/* Else who chooses is on its way, or waits for what the driver has not: it is sent again
	 * with that, and sent now it would find nothing. */
	full = cello_full(&d->cello);
	more = d->full || full;
	if (r && r->place == AT_DISK) {
		if (unlikely(d->cello.flight.arm) && flushed(d, r->flushes))
			cello_flushed(&r->cello);
		cello_done(&d->cello, &r->cello, now_ns);
		if (r->cello.group->class_id == CELLO_REALTIME)
			note_end(d, &r->cello, now_ns);
		out(d, rq, r, &gone);
	} else {
		cello_bypassed(&d->cello, now_ns);
		gone = (struct gone){};
	}
	more = more && waiting(d);
	/* Nobody has to run for that to be found out. */
	d->full = waiting(d) && (cello_waits(&d->cello) || (more && cello_enough(&d->cello)));
	if (d->full)
		wake_in_time(d);
	more &= !d->full;
	/* Who leaves one while the disk is full does not choose (disk_has_work): it sees now that
	 * the disk is not full any more, or is seen here. */
	if (full) {
		smp_mb();
		more |= is_left(d) || d->direct;
	}
	spin_unlock_irqrestore(&d->lock, irq);
	forget(d, &gone);
	if (more)
		blk_mq_run_hw_queues(rq->q, true);
}

static noinline void gone_otherwise(struct request *rq, struct disk_request *r)
{
	struct disk *d = disk_of(rq->q);
	struct gone gone;
	unsigned long irq;
	bool more = false;

	spin_lock_irqsave(&d->lock, irq);
	if (r->place == AT_DISK) {
		more = d->full || cello_full(&d->cello);
		cello_return(&d->cello, &r->cello);
		d->full = false;
	} else if (r->place == QUEUED) {
		sort_out(d, rq);
		cello_remove(&d->cello, &r->cello);
		room_go(d, r);
	}
	out(d, rq, r, &gone);
	spin_unlock_irqrestore(&d->lock, irq);
	forget(d, &gone);
	if (more)
		blk_mq_run_hw_queues(rq->q, true);
}

/* It goes, served or not. */
static void disk_finish_request(struct request *rq)
{
	struct disk_request *r = request_of(rq);

	if (r)
		gone_otherwise(rq, r);
}

/* ---- a disk's way ------------------------------------------------------ */

static struct disk *new_disk(struct request_queue *q)
{
	bool turning = q->limits.features & BLK_FEAT_ROTATIONAL;
	struct disk *d = kvzalloc_node(sizeof(*d), GFP_KERNEL, q->node);

	if (!d)
		return NULL;
	d->ended = kvcalloc(REALTIME_KEPT, sizeof(*d->ended), GFP_KERNEL);
	if (!d->ended) {
		kvfree(d);
		return NULL;
	}
	spin_lock_init(&d->lock);
	d->q = q;
	INIT_LIST_HEAD(&d->first);
	INIT_LIST_HEAD(&d->bypass);
	INIT_LIST_HEAD(&d->cgroups);
	d->sorted[READ] = d->sorted[WRITE] = RB_ROOT;
	cello_init(&d->cello, get_capacity(q->disk), turning);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(&d->wake, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	d->wake.function = wakes;
#else
	hrtimer_setup(&d->wake, wakes, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#endif
	return d;
}

static void free_disk(struct disk *d)
{
	free_spares(d);
	kvfree(d->ended);
	kvfree(d);
}

static int begin(struct request_queue *q, struct elevator_queue *eq)
{
	/* The disk serves nothing meanwhile, so nothing may be written to it to get memory. */
	unsigned int noio = memalloc_noio_save();
	struct disk *d = new_disk(q);
	int refused = -ENOMEM;

	if (!d)
		goto out;
	eq->elevator_data = d;
	spin_lock_irq(&q->queue_lock);
	q->elevator = eq;
	spin_unlock_irq(&q->queue_lock);
	refused = cgroups_begin(d);
	if (refused) {
		free_disk(d);
		goto out;
	}
	room_begin(d);
	readahead_begin(q);
	show_begin(d);
	/* One order for all hardware queues. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	/* It would hold writers back before they come to a share. */
	wbt_disable_default(q->disk);
out:
	memalloc_noio_restore(noio);
	return refused;
}

#ifdef INIT_SCHED_HAS_QUEUE
static int disk_init(struct request_queue *q, struct elevator_queue *eq)
{
	return begin(q, eq);
}
#else
static int disk_init(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq = elevator_alloc(q, type);
	int refused = eq ? begin(q, eq) : -ENOMEM;

	if (refused && eq)
		kobject_put(&eq->kobj);
	return refused;
}
#endif

static void disk_exit(struct elevator_queue *eq)
{
	struct disk *d = eq->elevator_data;

	WARN_ON_ONCE(!list_empty(&d->first) || !list_empty(&d->bypass));
	WARN_ON_ONCE(is_left(d) || waiting(d) + d->cello.flight.number);
	show_end(d);
	readahead_end(d->q);
	hrtimer_cancel(&d->wake);
	cgroups_end(d);
	wbt_enable_default(d->q->disk);
	free_disk(d);
}

static struct elevator_type cello_type = {
	.ops =
		{
			.init_sched = disk_init,
			.exit_sched = disk_exit,
			.bio_merge = disk_bio_merge,
			.request_merge = disk_request_merge,
			.request_merged = disk_request_merged,
			.requests_merged = disk_requests_merged,
			.former_request = elv_rb_former_request,
			.next_request = elv_rb_latter_request,
			.limit_depth = disk_limit_depth,
			.depth_updated = disk_depth_updated,
			.prepare_request = disk_prepare_request,
			.insert_requests = disk_insert_requests,
			.dispatch_request = disk_dispatch_request,
			.has_work = disk_has_work,
			.completed_request = disk_completed_request,
			.finish_request = disk_finish_request,
		},
	/* Not const before 6.17. */
	.elevator_attrs = (void *)disk_attributes,
	.queue_debugfs_attrs = disk_debugfs,
	.elevator_name = "cello",
	.elevator_owner = THIS_MODULE,
};

static int __init cello_load(void)
{
	int refused;

	request_cache = KMEM_CACHE(disk_request, 0);
	if (!request_cache)
		return -ENOMEM;
	refused = -ENOMEM;
	requests = mempool_create_slab_pool(REQUESTS_RESERVED, request_cache);
	if (!requests)
		goto no_requests;
	refused = cgroups_register();
	if (refused)
		goto no_cgroups;
	refused = elv_register(&cello_type);
	if (refused)
		goto no_elevator;
	readahead_register();
	weights_register();
	return 0;
no_elevator:
	cgroups_unregister();
no_cgroups:
	mempool_destroy(requests);
no_requests:
	kmem_cache_destroy(request_cache);
	return refused;
}

static void __exit cello_unload(void)
{
	readahead_unregister();
	weights_unregister();
	elv_unregister(&cello_type);
	cgroups_unregister();
	mempool_destroy(requests);
	kmem_cache_destroy(request_cache);
}

module_init(cello_load);
module_exit(cello_unload);
MODULE_ALIAS("cello-iosched");
MODULE_DESCRIPTION("Cello: disk time by class, deadlines inside the share");
MODULE_LICENSE("GPL");
