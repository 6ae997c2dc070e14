// SPDX-License-Identifier: GPL-2.0-only
/*
 * Weights that are said elsewhere: io.weight, which systemd (IOWeight=) writes, and io.bfq.weight,
 * which Docker (--blkio-weight) does where that is. The kernel offers no way to read them from
 * here, so it is watched who writes them. What is written for single devices is left alone.
 */
#include <linux/cgroup.h>
#include <linux/kernfs.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>

#include "disk.h"

struct writer {
	struct kprobe probe; /* first */
	u32 most;            /* the greatest that it takes */
	bool probing;
};

/* It is called with the text. A weight that it will refuse is none here either. */
static int weight_written(struct kprobe *probe, struct pt_regs *regs)
{
	const struct writer *w = (struct writer *)probe;
	struct kernfs_open_file *of = (void *)regs_get_kernel_argument(regs, 0);
	const char *text = (void *)regs_get_kernel_argument(regs, 1);
	u32 weight;

	if (strchr(text, ':'))
		return 0;
	if (sscanf(text, " default %u", &weight) != 1 && sscanf(text, "%u", &weight) != 1)
		return 0;
	if (weight && weight <= w->most)
		cgroup_follow(of_css(of), weight);
	return 0;
}

static struct writer writers[] = {
	{{.symbol_name = "ioc_weight_write", .pre_handler = weight_written}, 10000},
	{{.symbol_name = "bfq_io_set_weight", .pre_handler = weight_written}, 1000},
};
static DEFINE_MUTEX(registering);

static bool following;
module_param_named(weights_followed, following, bool, 0444);
MODULE_PARM_DESC(weights_followed, "Y: io.weight counts where io.cello.weight is not set; N: this "
				   "kernel has no probe for that (read only)");

static void forget(struct writer *w)
{
	if (w->probing)
		unregister_kprobe(&w->probe);
	w->probing = false;
	/* What an earlier try has left. */
	w->probe.addr = NULL;
	w->probe.flags = 0;
}

/* BFQ is a module, which comes and goes: to be called again. */
void weights_follow(void)
{
	u32 i;

	mutex_lock(&registering);
	for (i = 0; i < ARRAY_SIZE(writers); i++) {
		struct writer *w = &writers[i];

		if (w->probing && !kprobe_gone(&w->probe))
			continue;
		forget(w);
		w->probing = !register_kprobe(&w->probe);
	}
	following = writers[0].probing;
	mutex_unlock(&registering);
}

void weights_unfollow(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(writers); i++)
		forget(&writers[i]);
	following = false;
}
