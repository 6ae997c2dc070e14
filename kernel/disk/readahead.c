// SPDX-License-Identifier: GPL-2.0-only
/*
 * No readahead for real-time programs (QLinux, 2.4): what they do not need yet would use up
 * their class's share. Where the kernel is about to read ahead for a program of the class, in a
 * file of a disk under Cello, that is treated as if the program had asked for it (posix_fadvise,
 * POSIX_FADV_RANDOM) until the kernel is done: what a read() asks for is read at once, and no more.
 * Nothing of it stays with the file. Mapped files, other classes and other disks stay as they are.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/iocontext.h>
#include <linux/ioprio.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/xarray.h>

#include "disk.h"

/* At a time; further ones are read ahead for. */
#define READAHEAD_CALLS 256

/* Its cgroup's class, else its own. */
static bool is_realtime(void)
{
	struct io_context *context = current->io_context;
	u32 hint = context ? IOPRIO_PRIO_HINT(READ_ONCE(context->ioprio)) : 0;
	u32 class_id;

	if (cello_hint_is(hint) && cello_hint_own(hint))
		return cello_hint_class(hint) == CELLO_REALTIME;
	rcu_read_lock();
	class_id = cgroup_class(task_css(current, io_cgrp_id));
	rcu_read_unlock();
	if (class_id < CELLO_CLASSES)
		return class_id == CELLO_REALTIME;
	return cello_hint_is(hint) && cello_hint_class(hint) == CELLO_REALTIME;
}

/* The queues of the disks under Cello. */
static DEFINE_XARRAY(queues);

/* Only the pointer is looked at: a disk may be leaving. */
static bool is_under_cello(const struct file *file)
{
	struct inode *inode = file->f_mapping->host;
	struct block_device *bdev = S_ISBLK(inode->i_mode) ? I_BDEV(inode) : inode->i_sb->s_bdev;

	return bdev && xa_load(&queues, (unsigned long)bdev_get_queue(bdev));
}

/* Whether it had that flag already, or has now. No lock may be waited for in a probe. */
static bool set_random(struct file *file, bool random)
{
	fmode_t mode = READ_ONCE(file->f_mode);

	do {
		if (!!(mode & FMODE_RANDOM) == random)
			return false;
	} while (!try_cmpxchg(&file->f_mode, &mode, mode ^ FMODE_RANDOM));
	return true;
}

/* The kernel is about to read ahead. Nonzero: as it likes. */
static int before_readahead(struct kretprobe_instance *call, struct pt_regs *regs)
{
	struct readahead_control *control = (void *)regs_get_kernel_argument(regs, 0);
	struct file *file = control->file;

	if (!file || !is_under_cello(file) || !is_realtime() || !set_random(file, true))
		return 1;
	*(struct file **)call->data = file;
	return 0;
}

static int after_readahead(struct kretprobe_instance *call, struct pt_regs *regs)
{
	set_random(*(struct file **)call->data, false);
	return 0;
}

static struct kretprobe probe = {
	.kp.symbol_name = "page_cache_sync_ra",
	.entry_handler = before_readahead,
	.handler = after_readahead,
	.data_size = sizeof(struct file *),
	.maxactive = READAHEAD_CALLS,
};
static bool probing;
module_param_named(readahead_stopped, probing, bool, 0444);
MODULE_PARM_DESC(readahead_stopped, "Y: real-time programs are not read ahead for; N: this kernel "
				    "has no probe for that (read only)");

void readahead_begin(struct request_queue *q)
{
	/* Without memory for that they are read ahead for. */
	xa_store(&queues, (unsigned long)q, xa_mk_value(1), GFP_KERNEL);
}

void readahead_end(struct request_queue *q)
{
	xa_erase(&queues, (unsigned long)q);
}

void readahead_register(void)
{
	int refused = register_kretprobe(&probe);

	probing = !refused;
	if (refused)
		pr_info("cello: real-time programs are read ahead for (%d): this kernel has no "
			"probe at %s\n",
			refused, probe.kp.symbol_name);
}

void readahead_unregister(void)
{
	if (probing)
		unregister_kretprobe(&probe);
}
