/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of this module share: a disk under Cello, its requests, and its cgroups. */
#ifndef QLINUX_DISK_H
#define QLINUX_DISK_H

#include <linux/blk-cgroup.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/cgroup.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/mempool.h>
#include <linux/percpu-refcount.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/u64_stats_sync.h>

#include "private.h"

/* core/port.h: these exist here already. */
#define CORE_HAVE_TYPES
#define CORE_INLINE static __always_inline
#if BITS_PER_LONG == 32
#define CORE_DIV(n, d) ((typeof(n))((typeof(n))-1 > 0 ? div64_u64(n, d) : div64_s64(n, d)))
#define CORE_MOD(n, d) ((n) - CORE_DIV(n, d) * (d))
#endif
#include "../../core/disk/cello.h"
#include "../../core/disk/cello_hint.h"
#include "../../core/disk/cello_room.h"

#ifdef CONFIG_ARM /* does not say where a probed function has its arguments */
#define regs_get_kernel_argument(regs, n) ((regs)->uregs[n])
#endif

enum {
	REALTIME_KEPT = 1024,   /* of the real-time requests that ended */
	REQUESTS_RESERVED = 64, /* when there is no memory for more */
	NOTED_BITS = 8,
	SPARES_MAX = 256,     /* of struct disk_request that are kept */
	INSERTED_AT_ONCE = 4, /* of requests that come together, while interrupts are off */
};

/* Of the bio that a task was last seen with: where its group counts. */
struct noted {
	struct task_struct *task;
	struct cello_room_at at;
};

/* Of a real-time request that ended; what `realtime` of debugfs shows. */
struct ended {
	u64 arrived_ns;
	u64 sector;
	u32 sectors;
	bool promised;
	u64 deadline_ns;
	u64 end_ns;
	u64 error_ns;
};

/* A disk under Cello. */
struct disk {
	spinlock_t lock; /* of all below; interrupts off */
	struct request_queue *q;
	struct cello cello;
	struct list_head first;  /* requests that must go before all others */
	struct list_head bypass; /* requests without a class; */
	u32 direct;              /* how many are in both, also without the lock */
	struct llist_node *left; /* requests that came while another processor had the lock, */
	struct list_head cgroups;
	struct rb_root sorted[2];   /* reads and writes with a class, for merging, */
	struct request *unsorted;   /* but for this one */
	struct disk_request *spare; /* kept for the next, and how many are */
	u32 spares;
	struct blkcg_gq *pinned; /* by the last request that left, for the next of that cgroup */
	bool full;           /* nothing goes to the disk before something comes back or arrives */
	struct hrtimer wake; /* or before somebody who is awaited has not come in time */
	u64 bypassed;
	struct ended *ended;
	u64 ends;
	u32 queues; /* hardware queues with tags of their own */
	struct cello_room room;
	atomic_t waiters; /* tasks that wait for room, each with those who wait for the same: */
	struct wait_queue_head waiters_at[CELLO_ROOM_SLOTS];
	struct noted noted[1 << NOTED_BITS]; /* not under the lock */
	struct list_head shown;              /* nor this */
	struct llist_head leaves;            /* nor these: those of `left` that came last, */
	atomic_t leaving;                    /* and how many are in both, or will be at once */
};

enum place { QUEUED, AT_DISK, OUT };

/* A request with a class, or whose class is not asked any more. */
struct disk_request {
	struct cello_request cello; /* first */
	union {
		struct request *rq;
		struct disk_request *next; /* while it is spare */
	};
	struct blkcg_gq *blkg; /* pinned: the group is part of it */
	enum place place;
	bool counted; /* among those that hold tags: it came when they were not ample */
	u32 flushes;  /* as it went to the disk (flushes) */
};

/* A cgroup's requests at one disk. */
struct disk_cgroup {
	struct blkg_policy_data pd; /* first */
	struct disk *disk;
	struct list_head at; /* among all of the disk's */
	u64 id;
	u32 class_known; /* its class, and in the upper bits as of which write of one */
	struct cello_group group[CELLO_CLASSES];
	struct cello_room_at at_room[CELLO_CLASSES];
};

extern const char *const class_names[CELLO_CLASSES];
extern const struct elv_fs_entry disk_attributes[];
extern const struct blk_mq_debugfs_attr disk_debugfs[];

static inline struct disk *disk_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* Requests that wait, also without the lock. */
static inline u32 waiting(const struct disk *d)
{
	return READ_ONCE(d->cello.waiting) + READ_ONCE(d->cello.queued);
}

/* Requests that were not put in yet; also without the lock. */
static inline bool is_left(const struct disk *d)
{
	return atomic_read_acquire(&d->leaving) > 0;
}

/* Somebody waits for such a request; memory is short while it is swapped out. */
static inline bool waited_for(blk_opf_t opf)
{
	return op_is_sync(opf) || (opf & REQ_SWAP);
}

static inline u32 tags_of(const struct disk *d)
{
	return d->q->nr_requests * d->queues;
}

static inline bool room_ample(const struct disk *d)
{
	return cello_room_ample(waiting(d) + READ_ONCE(d->cello.flight.number), tags_of(d));
}

/* The cgroup's record of which the group is a part. */
static inline struct disk_cgroup *member_of(struct cello_group *g)
{
	return container_of(g - g->class_id, struct disk_cgroup, group[0]);
}

/* Where tags of the group's requests count. */
static inline struct cello_room_at *room_at(struct cello_group *g)
{
	return &member_of(g)->at_room[g->class_id];
}

/* It waits for the disk no more. */
static inline void room_go(struct disk *d, struct disk_request *r)
{
	if (r->counted)
		cello_room_go(&d->room, room_at(r->cello.group));
}

/* A cgroup is pinned for each of its requests; under the disk's lock. */
static inline void cgroup_pin(struct disk *d, struct blkcg_gq *blkg)
{
	if (blkg == d->pinned)
		d->pinned = NULL;
	else
		percpu_ref_get(&blkg->refcnt);
}

/* Returns what is to be let go of without the lock, or NULL. */
static inline struct blkcg_gq *cgroup_unpin(struct disk *d, const struct disk_request *r)
{
	if (d->pinned || !member_of(r->cello.group)->pd.online)
		return r->blkg;
	d->pinned = r->blkg;
	return NULL;
}

/* cgroup.c */
int cgroups_register(void);
void cgroups_unregister(void);
int cgroups_begin(struct disk *d);
void cgroups_end(struct disk *d);
/* The class that the cgroup was given, or one above it, or CELLO_CLASSES. */
u32 cgroup_class(struct cgroup_subsys_state *css);
extern struct blkcg_policy cgroup_policy;
extern u32 class_writes; /* how often a class was written, in any cgroup */
u32 member_class_now(struct disk_cgroup *c, u32 writes);
/* It is to have slots of its own, where its requests are counted. */
void member_has_room(struct disk_cgroup *c, u32 class_id);
/* Another file than io.cello.weight says so; in any context. */
void cgroup_follow(struct cgroup_subsys_state *css, u32 weight);
/* The class of that name, CELLO_CLASSES: "none", or a greater number. */
u32 class_named(const char *name);

static inline struct disk_cgroup *cgroup_of(struct blkcg_gq *blkg)
{
	return blkg ? (struct disk_cgroup *)blkg->pd[cgroup_policy.plid] : NULL;
}

static_assert(CELLO_CLASSES < 4);

/* As cgroup_class, of the cgroup's record at a disk, where it is kept. */
static inline u32 member_class(struct disk_cgroup *c)
{
	u32 known = READ_ONCE(c->class_known), now = smp_load_acquire(&class_writes) << 2;

	return (known ^ now) < 4 ? known & 3 : member_class_now(c, now);
}

/* room.c */
void room_note(struct disk *d, struct cello_group *g);
/* Under the lock: a request is put in, and waits. */
void room_take(struct disk *d, struct disk_request *r);
/* It has come back: who may be told, a bit for each level of `at`. */
u32 room_give(struct disk *d, struct disk_request *r, struct cello_room_at *at);
/* Tells one of those who wait there that what counted there came back; a bit for each level. */
void room_tell(struct disk *d, const struct cello_room_at *at, u32 levels);
void room_begin(struct disk *d);
void disk_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);
#ifdef DEPTH_UPDATED_HAS_QUEUE
void disk_depth_updated(struct request_queue *q);
#else
void disk_depth_updated(struct blk_mq_hw_ctx *hctx);
#endif

/* readahead.c */
void readahead_register(void);
void readahead_unregister(void);
void readahead_begin(struct request_queue *q);
void readahead_end(struct request_queue *q);

/* show.c */
void show_begin(struct disk *d);
void show_end(struct disk *d);

/* weight.c */
void weights_register(void);
void weights_unregister(void);

#endif
