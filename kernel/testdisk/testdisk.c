// SPDX-License-Identifier: GPL-2.0-only
/*
 * testdisk - a disk in memory that takes the time of a real one, for tests
 *
 * What a request takes is model.h's, exactly: the disk serves one request at a time in the order in
 * which the driver was given them, the next begins at the very nanosecond where the last one ended
 * or when it came, and what was served when is kept.  So a test can compute each end anew.  A
 * parallel one serves each from when it comes, and takes what flash.h says.
 *
 *   queue_rq   waiting -> serving (timer set to the end) -> recorded, its data copied, completed
 *                     \-> lost (fault "timeout"): nobody answers until the block layer's timeout
 *
 * insmod testdisk.ko [model=turning|flat|parallel|card] [sectors=2^28] [depth=64] [queues=1]
 * [count=1] depth is the number of the disk's own tags; all hardware queues feed the one disk.
 *
 * /sys/kernel/debug/testdisk/
 *   add                    write "1", or a model's name: one more disk
 *   testdiskN/record       of the last 65,536 requests a line
 *                          "begin_ns end_ns op sector sectors status": op r, w, d (discard) or
 *                          f (flush); status ok, eio, timeout or again (requeued); times
 *                          are CLOCK_MONOTONIC's; writing anything forgets them
 *   testdiskN/busy_ns      time spent serving
 *   testdiskN/served       requests
 *   testdiskN/error_every  each Nth request served ends in EIO; 0: none
 *   testdiskN/timeout_every  each Nth is never answered
 *   testdiskN/timeout_ms   after that a request without an answer ends in ETIMEDOUT
 *   testdiskN/busy_every   each Nth dispatch is refused as one without resources
 *   testdiskN/requeue_every  each Nth request served goes back to the scheduler, and comes again
 *   testdiskN/errors, timeouts, busies, requeues  how often that was done
 *   testdiskN/flush_us     how much longer than usual a flush takes
 *   testdiskN/slow         of a parallel one: reads and writes take so many times as long (1, card
 *                          10), from now on
 *   testdiskN/remove       write 1: the disk is pulled out, requests in flight end in EIO
 *
 * The disk has a volatile write cache as far as the kernel can tell, so flushes and FUA writes
 * arrive. A flush or a discard takes the overhead of a request and leaves the arm alone; a write
 * takes the time of the medium, so a flush has nothing left to do, but what flush_us says.  A
 * request lost takes no time, its begin and end in the record are when its turn came.
 *
 * Not here: a cache that loses data, partitions, zones, more than one discard range a request.
 */
#include <linux/bio.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/debugfs.h>
#include <linux/highmem.h>
#include <linux/hrtimer.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include "flash.h"
#include "model.h"

#define RECORD_LINES    65536
#define DISKS_MAX       16
#define DEPTH_MAX       1024
#define QUEUES_MAX      64
#define SECTORS_MIN     (1ULL << 15) /* a track in each zone */
#define SECTORS_MAX     (1ULL << 40)
#define REQUEST_SECTORS 2048
#define DISCARD_SECTORS (1U << 21)
#define TIMEOUT_MS      1000
#define TIMEOUT_MS_MAX  3600000
#define SLOW_MAX        1000

static char *model = "turning";
module_param(model, charp, 0444);
MODULE_PARM_DESC(model, "turning (7,200 turns a minute), flat (no moving parts), parallel (eight "
			"channels) or card (the same, slow)");
static ulong sectors = 1UL << 28;
module_param(sectors, ulong, 0444);
MODULE_PARM_DESC(sectors, "of 512 bytes; memory is taken for what was written");
static uint depth = 64;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "requests that the disk takes at once (1 to 1024)");
static uint queues = 1;
module_param(queues, uint, 0444);
MODULE_PARM_DESC(queues, "hardware queues, which all feed one disk (1 to 64)");
static uint count = 1;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "disks (0 to 16)");

/* What is done to each Nth request; under the disk's lock. */
struct fault {
	struct disk *disk;
	u64 every; /* 0: to none */
	u64 least; /* the smallest N that lets a request through */
	u64 seen;  /* since the last one it was done to */
	u64 done;  /* so often */
};

struct line {
	u64 begin_ns, end_ns, sector;
	u32 sectors;
	char op;
	blk_status_t status;
};

/* One between the driver's queue_rq and its completion. */
struct waiting {
	struct list_head list; /* of waiting, busy or lost ones */
	u64 arrived_ns, begin_ns, end_ns;
	blk_status_t status;
	bool lost; /* on that list */
};

struct disk {
	spinlock_t lock; /* what follows to "pages" */
	bool dead;
	bool rerun; /* a dispatch was refused in the promise to ask again */
	struct list_head waiting, lost;
	struct list_head busy; /* being served, the first to be done first */
	u64 free_ns;           /* when the last service ended */
	u64 busy_ns, served;
	struct model model;
	struct flash flash;
	struct fault errors, timeouts, busies, requeues;
	u64 flush_us;
	struct line *record;
	u64 recorded, forgotten; /* lines written ever, and those before which none is kept */

	struct xarray pages; /* by their number; a page's private: writes in flight that need it */
	struct hrtimer timer;
	struct blk_mq_tag_set tags;
	struct gendisk *gendisk;
	struct dentry *dir;
	struct work_struct removal;
	atomic_t removing;
	u64 timeout_ms;
	int index;
	struct list_head list; /* of disks */
};

static DEFINE_MUTEX(disks_lock);
static LIST_HEAD(disks);
static DEFINE_IDA(indices);
static struct workqueue_struct *removals;
static struct dentry *root_dir, *add_file;

/* --- what was served, and faults; all under the lock */

static char op_char(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return 'r';
	case REQ_OP_WRITE:
		return 'w';
	case REQ_OP_DISCARD:
		return 'd';
	default:
		return 'f';
	}
}

static void record(struct disk *disk, struct request *rq)
{
	struct waiting *w = blk_mq_rq_to_pdu(rq);
	bool flush = req_op(rq) == REQ_OP_FLUSH;

	disk->record[disk->recorded++ % RECORD_LINES] = (struct line){
		.begin_ns = w->begin_ns,
		.end_ns = w->end_ns,
		.sector = flush ? 0 : blk_rq_pos(rq),
		.sectors = flush ? 0 : blk_rq_sectors(rq),
		.op = op_char(rq),
		.status = w->status,
	};
	disk->busy_ns += w->end_ns - w->begin_ns;
	disk->served += w->status != BLK_STS_TIMEOUT;
}

static bool strikes(struct fault *fault)
{
	if (!fault->every || ++fault->seen < fault->every)
		return false;
	fault->seen = 0;
	fault->done++;
	return true;
}

/* --- the data */

/* Makes sure that what the write will bring finds its pages: its completion cannot wait for memory.
 */
static bool hold_pages(struct disk *disk, struct request *rq)
{
	u64 first = blk_rq_pos(rq) >> PAGE_SECTORS_SHIFT;
	u64 last = (blk_rq_pos(rq) + blk_rq_sectors(rq) - 1) >> PAGE_SECTORS_SHIFT, i;
	struct page *page;
	unsigned long flags;

	xa_lock_irqsave(&disk->pages, flags);
	for (i = first; i <= last; i++) {
		page = xa_load(&disk->pages, i);
		if (!page) {
			page = alloc_page(GFP_ATOMIC | __GFP_ZERO | __GFP_NOWARN);
			if (!page)
				break;
			set_page_private(page, 0);
			if (xa_err(__xa_store(&disk->pages, i, page, GFP_ATOMIC | __GFP_NOWARN))) {
				__free_page(page);
				break;
			}
		}
		set_page_private(page, page_private(page) + 1);
	}
	if (i <= last) {
		while (i-- > first) {
			page = xa_load(&disk->pages, i);
			set_page_private(page, page_private(page) - 1);
		}
	}
	xa_unlock_irqrestore(&disk->pages, flags);
	return i > last;
}

static void release_pages_of(struct disk *disk, struct request *rq)
{
	u64 i = blk_rq_pos(rq) >> PAGE_SECTORS_SHIFT;
	u64 last = (blk_rq_pos(rq) + blk_rq_sectors(rq) - 1) >> PAGE_SECTORS_SHIFT;
	unsigned long flags;

	xa_lock_irqsave(&disk->pages, flags);
	for (; i <= last; i++) {
		struct page *page = xa_load(&disk->pages, i);

		set_page_private(page, page_private(page) - 1);
	}
	xa_unlock_irqrestore(&disk->pages, flags);
}

static void copy_segment(struct disk *disk, u64 sector, struct bio_vec bv, bool write)
{
	while (bv.bv_len) {
		unsigned int offset = (sector << SECTOR_SHIFT) & ~PAGE_MASK;
		unsigned int length = min_t(unsigned int, bv.bv_len, PAGE_SIZE - offset);
		struct page *page = xa_load(&disk->pages, sector >> PAGE_SECTORS_SHIFT);

		if (write)
			memcpy_page(page, offset, bv.bv_page, bv.bv_offset, length);
		else if (page)
			memcpy_page(bv.bv_page, bv.bv_offset, page, offset, length);
		else
			memzero_page(bv.bv_page, bv.bv_offset, length);
		bv.bv_offset += length;
		bv.bv_len -= length;
		sector += length >> SECTOR_SHIFT;
	}
}

/* Under the lock of the pages: a discard beside a read of the same must not take its page away. */
static void copy_data(struct disk *disk, struct request *rq)
{
	bool write = req_op(rq) == REQ_OP_WRITE;
	u64 sector = blk_rq_pos(rq);
	struct req_iterator iter;
	struct bio_vec bv;
	unsigned long flags;

	xa_lock_irqsave(&disk->pages, flags);
	rq_for_each_segment(bv, rq, iter)
	{
		copy_segment(disk, sector, bv, write);
		sector += bv.bv_len >> SECTOR_SHIFT;
	}
	xa_unlock_irqrestore(&disk->pages, flags);
	if (!write)
		rq_for_each_segment(bv, rq, iter) flush_dcache_page(bv.bv_page);
}

/* Pages that are discarded as a whole; one that a write in flight needs is only emptied. */
static void drop_pages(struct disk *disk, u64 sector, u64 length)
{
	u64 from = DIV_ROUND_UP(sector, PAGE_SECTORS), to = (sector + length) / PAGE_SECTORS;
	struct page *page;
	unsigned long flags, i;

	if (from >= to)
		return;
	xa_lock_irqsave(&disk->pages, flags);
	xa_for_each_range(&disk->pages, i, page, from, to - 1)
	{
		if (page_private(page)) {
			clear_highpage(page);
		} else {
			__xa_erase(&disk->pages, i);
			__free_page(page);
		}
	}
	xa_unlock_irqrestore(&disk->pages, flags);
}

static void free_pages_of(struct disk *disk)
{
	struct page *page;
	unsigned long i;

	xa_for_each(&disk->pages, i, page) __free_page(page);
	xa_destroy(&disk->pages);
}

/* --- the arm */

static struct waiting *first_busy(struct disk *disk)
{
	return list_first_entry_or_null(&disk->busy, struct waiting, list);
}

/* It is served from w->begin_ns on. */
static void begin(struct disk *disk, struct request *rq, struct waiting *w)
{
	bool write = req_op(rq) == REQ_OP_WRITE, data = write || req_op(rq) == REQ_OP_READ;
	struct waiting *before;

	if (!data)
		w->end_ns += disk->model.shape->overhead_ns;
	else if (disk->model.shape->parallel)
		flash_serve(&disk->flash, blk_rq_pos(rq), blk_rq_sectors(rq), write, w->arrived_ns,
			    &w->begin_ns, &w->end_ns);
	else
		w->end_ns +=
			model_serve(&disk->model, blk_rq_pos(rq), blk_rq_sectors(rq), w->begin_ns);
	if (req_op(rq) == REQ_OP_FLUSH)
		w->end_ns += disk->flush_us * 1000;
	list_for_each_entry_reverse(before, &disk->busy,
				    list) if (before->end_ns <= w->end_ns) break;
	list_add(&w->list, &before->list);
}

/* Under the lock: those that wait are served as far as the disk can, and the timer is set. */
static void serve_next(struct disk *disk)
{
	bool parallel = disk->model.shape->parallel;
	struct request *rq;
	struct waiting *w;

	while ((parallel || list_empty(&disk->busy)) &&
	       (w = list_first_entry_or_null(&disk->waiting, struct waiting, list))) {
		list_del(&w->list);
		rq = blk_mq_rq_from_pdu(w);
		w->begin_ns = w->end_ns =
			parallel ? w->arrived_ns : max(disk->free_ns, w->arrived_ns);
		if (strikes(&disk->timeouts)) {
			w->status = BLK_STS_TIMEOUT;
			w->lost = true;
			list_add_tail(&w->list, &disk->lost);
			record(disk, rq);
			continue;
		}
		begin(disk, rq, w);
		w->status = BLK_STS_OK;
		if (strikes(&disk->errors))
			w->status = BLK_STS_IOERR;
		else if (strikes(&disk->requeues))
			w->status = BLK_STS_AGAIN;
	}
	w = first_busy(disk);
	if (w)
		hrtimer_start(&disk->timer, ns_to_ktime(w->end_ns), HRTIMER_MODE_ABS);
}

static enum hrtimer_restart served(struct hrtimer *timer)
{
	struct disk *disk = container_of(timer, struct disk, timer);
	u64 now_ns = ktime_get_ns();
	struct waiting *w, *next;
	unsigned long flags;
	LIST_HEAD(done);
	bool rerun;

	spin_lock_irqsave(&disk->lock, flags);
	rerun = disk->rerun;
	disk->rerun = false;
	while ((w = first_busy(disk)) && w->end_ns <= now_ns) {
		disk->free_ns = w->end_ns;
		record(disk, blk_mq_rq_from_pdu(w));
		list_move_tail(&w->list, &done);
		if (!disk->model.shape->parallel)
			break;
	}
	serve_next(disk);
	spin_unlock_irqrestore(&disk->lock, flags);
	list_for_each_entry_safe(w, next, &done, list)
		blk_mq_complete_request(blk_mq_rq_from_pdu(w));
	if (rerun)
		blk_mq_run_hw_queues(disk->gendisk->queue, true);
	return HRTIMER_NORESTART;
}

/* What a dispatch is refused with, if it is. */
static blk_status_t refusal(struct disk *disk)
{
	blk_status_t status = BLK_STS_OK;
	unsigned long flags;

	spin_lock_irqsave(&disk->lock, flags);
	if (disk->dead) {
		status = BLK_STS_IOERR;
	} else if (strikes(&disk->busies)) {
		status = BLK_STS_RESOURCE;
		/*
		 * Every other time it is this driver that asks again, when it has served what it
		 * serves now.  The block layer does not miss that with a single queue.
		 */
		if (disk->busies.done % 2 && first_busy(disk) && disk->tags.nr_hw_queues == 1) {
			disk->rerun = true;
			status = BLK_STS_DEV_RESOURCE;
		}
	}
	spin_unlock_irqrestore(&disk->lock, flags);
	return status;
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *data)
{
	struct disk *disk = hctx->queue->queuedata;
	struct request *rq = data->rq;
	struct waiting *w = blk_mq_rq_to_pdu(rq);
	blk_status_t status = refusal(disk);
	unsigned long flags;
	bool dead;

	if (status != BLK_STS_OK)
		return status;
	if (req_op(rq) == REQ_OP_WRITE && !hold_pages(disk, rq))
		return BLK_STS_RESOURCE;
	w->lost = false;
	blk_mq_start_request(rq);
	spin_lock_irqsave(&disk->lock, flags);
	dead = disk->dead;
	if (!dead) {
		w->arrived_ns = ktime_get_ns();
		list_add_tail(&w->list, &disk->waiting);
		serve_next(disk);
	}
	spin_unlock_irqrestore(&disk->lock, flags);
	if (!dead)
		return BLK_STS_OK;
	if (req_op(rq) == REQ_OP_WRITE)
		release_pages_of(disk, rq);
	return BLK_STS_IOERR;
}

static void complete_rq(struct request *rq)
{
	struct disk *disk = rq->q->queuedata;
	struct waiting *w = blk_mq_rq_to_pdu(rq);
	bool data = req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE;

	if (w->status == BLK_STS_OK) {
		if (data)
			copy_data(disk, rq);
		else if (req_op(rq) == REQ_OP_DISCARD)
			drop_pages(disk, blk_rq_pos(rq), blk_rq_sectors(rq));
	}
	if (req_op(rq) == REQ_OP_WRITE)
		release_pages_of(disk, rq);
	if (w->status == BLK_STS_AGAIN)
		blk_mq_requeue_request(rq, true);
	else
		blk_mq_end_request(rq, w->status);
}

/* Who waits for the arm waits on. */
static enum blk_eh_timer_return timed_out(struct request *rq)
{
	struct disk *disk = rq->q->queuedata;
	struct waiting *w = blk_mq_rq_to_pdu(rq);
	unsigned long flags;
	bool lost;

	spin_lock_irqsave(&disk->lock, flags);
	lost = w->lost;
	w->lost = false;
	if (lost)
		list_del(&w->list);
	spin_unlock_irqrestore(&disk->lock, flags);
	if (!lost)
		return BLK_EH_RESET_TIMER;
	blk_mq_complete_request(rq);
	return BLK_EH_DONE;
}

static const struct blk_mq_ops queue_ops = {
	.queue_rq = queue_rq,
	.complete = complete_rq,
	.timeout = timed_out,
};

/* --- its files */

struct reader {
	struct disk *disk;
	u64 end; /* lines that come while it reads are not its own */
	struct line line;
};

static void *read_line(struct reader *reader, loff_t *at)
{
	struct disk *disk = reader->disk;
	u64 oldest, kept;
	bool there;

	spin_lock_irq(&disk->lock);
	kept = min_t(u64, disk->recorded, RECORD_LINES);
	oldest = max(disk->recorded - kept, disk->forgotten);
	if (*at < oldest)
		*at = oldest;
	if (!reader->end)
		reader->end = disk->recorded;
	there = *at < reader->end;
	if (there)
		reader->line = disk->record[*at % RECORD_LINES];
	spin_unlock_irq(&disk->lock);
	return there ? reader : NULL;
}

static void *record_start(struct seq_file *seq, loff_t *at)
{
	return read_line(seq->private, at);
}

static void *record_next(struct seq_file *seq, void *v, loff_t *at)
{
	++*at;
	return read_line(seq->private, at);
}

static void record_stop(struct seq_file *seq, void *v)
{
}

static int record_show(struct seq_file *seq, void *v)
{
	const struct line *line = &((struct reader *)v)->line;
	const char *status = line->status == BLK_STS_AGAIN ? "again" : "ok";

	if (line->status != BLK_STS_OK && line->status != BLK_STS_AGAIN)
		status = line->status == BLK_STS_TIMEOUT ? "timeout" : "eio";
	seq_printf(seq, "%llu %llu %c %llu %u %s\n", line->begin_ns, line->end_ns, line->op,
		   line->sector, line->sectors, status);
	return 0;
}

static const struct seq_operations record_seq = {
	.start = record_start,
	.next = record_next,
	.stop = record_stop,
	.show = record_show,
};

static int record_open(struct inode *inode, struct file *file)
{
	struct reader *reader = __seq_open_private(file, &record_seq, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	reader->disk = inode->i_private;
	return 0;
}

static ssize_t record_write(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	struct reader *reader = ((struct seq_file *)file->private_data)->private;
	struct disk *disk = reader->disk;

	spin_lock_irq(&disk->lock);
	disk->forgotten = disk->recorded;
	spin_unlock_irq(&disk->lock);
	return bytes;
}

static const struct file_operations record_files = {
	.owner = THIS_MODULE,
	.open = record_open,
	.read = seq_read,
	.write = record_write,
	.llseek = seq_lseek,
	.release = seq_release_private,
};

static int fault_get(void *data, u64 *value)
{
	*value = ((struct fault *)data)->every;
	return 0;
}

static int fault_set(void *data, u64 value)
{
	struct fault *fault = data;

	if (value && value < fault->least)
		return -EINVAL;
	spin_lock_irq(&fault->disk->lock);
	fault->every = value;
	fault->seen = 0;
	spin_unlock_irq(&fault->disk->lock);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(fault_files, fault_get, fault_set, "%llu\n");

static int timeout_get(void *data, u64 *value)
{
	*value = ((struct disk *)data)->timeout_ms;
	return 0;
}

static int timeout_set(void *data, u64 value)
{
	struct disk *disk = data;

	if (!value || value > TIMEOUT_MS_MAX)
		return -ERANGE;
	disk->timeout_ms = value;
	blk_queue_rq_timeout(disk->gendisk->queue, msecs_to_jiffies(value));
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(timeout_files, timeout_get, timeout_set, "%llu\n");

static int slow_get(void *data, u64 *value)
{
	*value = ((struct disk *)data)->flash.slow;
	return 0;
}

static int slow_set(void *data, u64 value)
{
	struct disk *disk = data;

	if (!value || value > SLOW_MAX)
		return -ERANGE;
	spin_lock_irq(&disk->lock);
	disk->flash.slow = value;
	spin_unlock_irq(&disk->lock);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(slow_files, slow_get, slow_set, "%llu\n");

/* Not at once: removing the disk waits until nobody is in its files. */
static int remove_set(void *data, u64 value)
{
	struct disk *disk = data;

	if (value != 1)
		return -EINVAL;
	if (!atomic_cmpxchg(&disk->removing, 0, 1))
		queue_work(removals, &disk->removal);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(remove_files, NULL, remove_set, "%llu\n");

static void add_fault(struct disk *disk, struct fault *fault, const char *every, const char *done)
{
	fault->disk = disk;
	debugfs_create_file_unsafe(every, 0600, disk->dir, fault, &fault_files);
	debugfs_create_u64(done, 0400, disk->dir, &fault->done);
}

static void add_files(struct disk *disk)
{
	disk->dir = debugfs_create_dir(disk->gendisk->disk_name, root_dir);
	debugfs_create_file("record", 0600, disk->dir, disk, &record_files);
	debugfs_create_u64("busy_ns", 0400, disk->dir, &disk->busy_ns);
	debugfs_create_u64("served", 0400, disk->dir, &disk->served);
	debugfs_create_u64("flush_us", 0600, disk->dir, &disk->flush_us);
	if (disk->model.shape->parallel)
		debugfs_create_file_unsafe("slow", 0600, disk->dir, disk, &slow_files);
	add_fault(disk, &disk->errors, "error_every", "errors");
	add_fault(disk, &disk->timeouts, "timeout_every", "timeouts");
	add_fault(disk, &disk->busies, "busy_every", "busies");
	add_fault(disk, &disk->requeues, "requeue_every", "requeues");
	debugfs_create_file_unsafe("timeout_ms", 0600, disk->dir, disk, &timeout_files);
	debugfs_create_file_unsafe("remove", 0200, disk->dir, disk, &remove_files);
}

/* --- disks come and go */

static void free_disk(struct gendisk *gendisk)
{
	struct disk *disk = gendisk->private_data;

	vfree(disk->record);
	kfree(disk);
}

static const struct block_device_operations disk_ops = {
	.owner = THIS_MODULE,
	.free_disk = free_disk,
};

/* From now on every request ends in an error, also those that the disk has. */
static void kill_disk(struct disk *disk)
{
	struct waiting *w, *next;
	unsigned long flags;
	LIST_HEAD(all);

	spin_lock_irqsave(&disk->lock, flags);
	disk->dead = true;
	list_splice_init(&disk->waiting, &all);
	list_splice_init(&disk->lost, &all);
	list_splice_init(&disk->busy, &all);
	list_for_each_entry(w, &all, list)
	{
		w->lost = false;
		w->status = BLK_STS_IOERR;
	}
	spin_unlock_irqrestore(&disk->lock, flags);
	hrtimer_cancel(&disk->timer);
	list_for_each_entry_safe(w, next, &all, list)
		blk_mq_complete_request(blk_mq_rq_from_pdu(w));
	blk_mq_run_hw_queues(disk->gendisk->queue, true);
}

static void remove_disk(struct disk *disk)
{
	debugfs_remove_recursive(disk->dir);
	kill_disk(disk);
	blk_mark_disk_dead(disk->gendisk);
	del_gendisk(disk->gendisk);
	free_pages_of(disk);
	blk_mq_free_tag_set(&disk->tags);
	ida_free(&indices, disk->index);
	put_disk(disk->gendisk);
}

static void remove_work(struct work_struct *work)
{
	struct disk *disk = container_of(work, struct disk, removal);

	mutex_lock(&disks_lock);
	list_del(&disk->list);
	mutex_unlock(&disks_lock);
	remove_disk(disk);
}

static int make_gendisk(struct disk *disk)
{
	struct queue_limits limits = {
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA,
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = PAGE_SIZE,
		.max_hw_sectors = REQUEST_SECTORS,
		.max_segments = REQUEST_SECTORS / PAGE_SECTORS,
		.max_hw_discard_sectors = DISCARD_SECTORS,
		.max_discard_segments = 1,
		.discard_granularity = PAGE_SIZE,
	};
	struct gendisk *gendisk;

	if (disk->model.shape->turn_ns)
		limits.features |= BLK_FEAT_ROTATIONAL;
	gendisk = blk_mq_alloc_disk(&disk->tags, &limits, disk);
	if (IS_ERR(gendisk))
		return PTR_ERR(gendisk);
	gendisk->fops = &disk_ops;
	gendisk->private_data = disk;
	/* Else the first requests in the record would be the kernel's, which looks for partitions.
	 */
	gendisk->flags |= GENHD_FL_NO_PART;
	snprintf(gendisk->disk_name, DISK_NAME_LEN, "testdisk%d", disk->index);
	set_capacity(gendisk, disk->model.sectors);
	disk->gendisk = gendisk;
	return 0;
}

static struct disk *make_disk(const struct model_shape *shape)
{
	struct disk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);

	if (!disk)
		return NULL;
	disk->record = vzalloc(array_size(RECORD_LINES, sizeof(*disk->record)));
	if (!disk->record) {
		kfree(disk);
		return NULL;
	}
	spin_lock_init(&disk->lock);
	INIT_LIST_HEAD(&disk->waiting);
	INIT_LIST_HEAD(&disk->lost);
	INIT_LIST_HEAD(&disk->busy);
	INIT_WORK(&disk->removal, remove_work);
	xa_init_flags(&disk->pages, XA_FLAGS_LOCK_IRQ);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(&disk->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	disk->timer.function = served;
#else
	hrtimer_setup(&disk->timer, served, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#endif
	model_init(&disk->model, shape, sectors);
	disk->flash.slow = shape->parallel;
	/* A dispatch that is always refused would never come to an end. */
	disk->busies.least = 2;
	disk->requeues.least = 2;
	disk->timeout_ms = TIMEOUT_MS;
	disk->tags = (struct blk_mq_tag_set){
		.ops = &queue_ops,
		.nr_hw_queues = queues,
		.queue_depth = depth,
		.numa_node = NUMA_NO_NODE,
		.cmd_size = sizeof(struct waiting),
		.timeout = msecs_to_jiffies(TIMEOUT_MS),
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
		.flags = BLK_MQ_F_SHOULD_MERGE,
#endif
	};
	return disk;
}

/* Under disks_lock. */
static int add_disk_of(const struct model_shape *shape)
{
	struct disk *disk = make_disk(shape);
	int err;

	if (!disk)
		return -ENOMEM;
	disk->index = ida_alloc_max(&indices, DISKS_MAX - 1, GFP_KERNEL);
	if (disk->index < 0) {
		err = disk->index;
		goto fail_disk;
	}
	err = blk_mq_alloc_tag_set(&disk->tags);
	if (err)
		goto fail_index;
	err = make_gendisk(disk);
	if (err)
		goto fail_tags;
	err = add_disk(disk->gendisk);
	if (err) {
		put_disk(disk->gendisk);
		goto fail_tags;
	}
	add_files(disk);
	list_add_tail(&disk->list, &disks);
	return 0;

fail_tags:
	blk_mq_free_tag_set(&disk->tags);
fail_index:
	ida_free(&indices, disk->index);
fail_disk:
	vfree(disk->record);
	kfree(disk);
	return err;
}

static const struct model_shape *shape_of(const char *name)
{
	if (sysfs_streq(name, "turning"))
		return &model_turning;
	if (sysfs_streq(name, "flat"))
		return &model_flat;
	if (sysfs_streq(name, "parallel"))
		return &model_parallel;
	if (sysfs_streq(name, "card"))
		return &model_card;
	return NULL;
}

static ssize_t add_write(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	const struct model_shape *shape;
	char name[16] = {};
	int err;

	if (bytes >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, bytes))
		return -EFAULT;
	shape = shape_of(sysfs_streq(name, "1") ? model : name);
	if (!shape)
		return -EINVAL;
	/* The number of one that is being removed is free afterwards. */
	flush_workqueue(removals);
	mutex_lock(&disks_lock);
	err = add_disk_of(shape);
	mutex_unlock(&disks_lock);
	return err ? err : bytes;
}

static const struct file_operations add_ops = {
	.owner = THIS_MODULE,
	.write = add_write,
};

/* --- the module */

static void remove_all(void)
{
	struct disk *disk, *next;

	/* First who could ask for a removal, which then may still be under way. */
	mutex_lock(&disks_lock);
	list_for_each_entry(disk, &disks, list)
	{
		debugfs_remove_recursive(disk->dir);
		disk->dir = NULL;
	}
	mutex_unlock(&disks_lock);
	destroy_workqueue(removals);
	list_for_each_entry_safe(disk, next, &disks, list)
	{
		list_del(&disk->list);
		remove_disk(disk);
	}
	debugfs_remove_recursive(root_dir);
	ida_destroy(&indices);
}

static int __init testdisk_init(void)
{
	const struct model_shape *shape = shape_of(model);
	int err = 0;
	uint i;

	if (!shape || sectors < SECTORS_MIN || sectors > SECTORS_MAX || !depth ||
	    depth > DEPTH_MAX || !queues || queues > QUEUES_MAX || count > DISKS_MAX) {
		pr_err("testdisk: a parameter is out of range: see modinfo testdisk\n");
		return -EINVAL;
	}
	removals = alloc_workqueue("testdisk", WQ_UNBOUND, 0);
	if (!removals)
		return -ENOMEM;
	root_dir = debugfs_create_dir("testdisk", NULL);
	mutex_lock(&disks_lock);
	for (i = 0; i < count && !err; i++)
		err = add_disk_of(shape);
	mutex_unlock(&disks_lock);
	if (err)
		remove_all();
	else
		add_file = debugfs_create_file("add", 0200, root_dir, NULL, &add_ops);
	return err;
}

static void __exit testdisk_exit(void)
{
	struct dentry *add = debugfs_lookup("add", root_dir);

	/* First who could still make one or ask for a removal, which then may still be under way.
	 */
	debugfs_remove(add);
	dput(add);
	remove_all();
}

module_init(testdisk_init);
module_exit(testdisk_exit);
MODULE_DESCRIPTION("A disk in memory that takes the time of a real one, for tests");
MODULE_LICENSE("GPL");
