// SPDX-License-Identifier: GPL-2.0-only
/*
 * No readahead for real-time programs (QLinux, 2.4): what they do not need yet would use up
 * their class's share. Where the kernel is about to read ahead for a program of the class, its
 * file is treated as if it had asked for that (posix_fadvise, POSIX_FADV_RANDOM): what a
 * read() asks for is read at once, and no more. Mapped files and other classes stay as they are.
 */
#include <linux/fs.h>
#include <linux/iocontext.h>
#include <linux/ioprio.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pagemap.h>

#include "disk.h"

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

static int before_readahead(struct kprobe *probe, struct pt_regs *regs)
{
	struct readahead_control *control = (void *)regs_get_kernel_argument(regs, 0);
	struct file *file = control->file;

	if (!file || (file->f_mode & FMODE_RANDOM) || !is_realtime())
		return 0;
	spin_lock(&file->f_lock);
	file->f_mode |= FMODE_RANDOM;
	spin_unlock(&file->f_lock);
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "page_cache_sync_ra",
	.pre_handler = before_readahead,
};
static bool probing;

void readahead_register(void)
{
	int refused = register_kprobe(&probe);

	probing = !refused;
	if (refused)
		pr_info("cello: real-time programs are read ahead for (%d): this kernel has no "
			"probe at %s\n",
			refused, probe.symbol_name);
}

void readahead_unregister(void)
{
	if (probing)
		unregister_kprobe(&probe);
}
