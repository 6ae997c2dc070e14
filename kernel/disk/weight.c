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

/* What is being written, which the kernel may refuse. */
struct written {
	struct cgroup_subsys_state *css;
	u32 weight;
};

/* Called with the text. Nonzero: it is nothing to us. */
static int before_write(struct kretprobe_instance *call, struct pt_regs *regs)
{
	struct kernfs_open_file *of = (void *)regs_get_kernel_argument(regs, 0);
	const char *text = (void *)regs_get_kernel_argument(regs, 1);
	struct written *written = (void *)call->data;

	if (strchr(text, ':'))
		return 1;
	if (sscanf(text, " default %u", &written->weight) != 1 &&
	    sscanf(text, "%u", &written->weight) != 1)
		return 1;
	written->css = of_css(of);
	return 0;
}

static int after_write(struct kretprobe_instance *call, struct pt_regs *regs)
{
	const struct written *written = (void *)call->data;

	if ((long)regs_return_value(regs) > 0)
		cgroup_follow(written->css, written->weight);
	return 0;
}

#define WRITER(function)                                                                           \
	{                                                                                          \
		.kp.symbol_name = function,                                                        \
		.entry_handler = before_write,                                                     \
		.handler = after_write,                                                            \
		.data_size = sizeof(struct written),                                               \
	}

static struct writer {
	struct kretprobe probe;
	const char *module; /* it may be part of, which comes and goes */
	bool probing;
} writers[] = {
	{.probe = WRITER("ioc_weight_write")},
	{.probe = WRITER("bfq_io_set_weight"), .module = "bfq"},
};
static DEFINE_MUTEX(registering);

static bool following;
module_param_named(weights_followed, following, bool, 0444);
MODULE_PARM_DESC(weights_followed, "Y: io.weight counts where io.cello.weight is not set; N: this "
				   "kernel has no probe for that (read only)");

static void follow(struct writer *w)
{
	mutex_lock(&registering);
	if (!w->probing) {
		/* What an earlier one has left. */
		w->probe.kp.addr = NULL;
		w->probe.kp.flags = 0;
		w->probing = !register_kretprobe(&w->probe);
	}
	mutex_unlock(&registering);
}

static void unfollow(struct writer *w)
{
	mutex_lock(&registering);
	if (w->probing)
		unregister_kretprobe(&w->probe);
	w->probing = false;
	mutex_unlock(&registering);
}

static int module_changes(struct notifier_block *notifier, unsigned long state, void *module)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(writers); i++) {
		struct writer *w = &writers[i];

		if (!w->module || strcmp(w->module, ((struct module *)module)->name))
			continue;
		if (state == MODULE_STATE_LIVE)
			follow(w);
		else if (state == MODULE_STATE_GOING)
			unfollow(w);
	}
	return NOTIFY_OK;
}

static struct notifier_block modules = {.notifier_call = module_changes};

void weights_register(void)
{
	u32 i;

	register_module_notifier(&modules);
	for (i = 0; i < ARRAY_SIZE(writers); i++)
		follow(&writers[i]);
	following = writers[0].probing;
}

void weights_unregister(void)
{
	u32 i;

	unregister_module_notifier(&modules);
	for (i = 0; i < ARRAY_SIZE(writers); i++)
		unfollow(&writers[i]);
}
