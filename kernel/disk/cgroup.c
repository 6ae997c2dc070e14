// SPDX-License-Identifier: GPL-2.0-only
/* Cgroups at a disk: their class and weight (io.cello.*), and their groups of requests. */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/kernfs.h>
#include <linux/llist.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "disk.h"

extern int blkcg_policy_register(struct blkcg_policy *policy);
extern void blkcg_policy_unregister(struct blkcg_policy *policy);
extern int blkcg_activate_policy(struct gendisk *disk, const struct blkcg_policy *policy);
extern void blkcg_deactivate_policy(struct gendisk *disk, const struct blkcg_policy *policy);

/* What was said of a cgroup, for all disks. */
struct said {
	struct blkcg_policy_data pd; /* first */
	u32 class_id;                /* CELLO_CLASSES: as its parent */
	u32 own;                     /* weight by io.cello.weight; 0: none */
	u32 followed;                /* by another file; 0: none */
	struct llist_node follows;   /* while it is to be applied, which pins the cgroup */
	unsigned long follow;
};

static struct blkcg *blkcg_of(struct cgroup_subsys_state *css)
{
	return container_of(css, struct blkcg, css);
}

static struct said *said_of(struct cgroup_subsys_state *css)
{
	return (struct said *)blkcg_of(css)->cpd[cgroup_policy.plid];
}

static u32 weight_of(const struct said *said)
{
	u32 own = said ? READ_ONCE(said->own) : 0, followed = said ? READ_ONCE(said->followed) : 0;

	return own ? own : followed ? followed : CELLO_WEIGHT_DEFAULT;
}

u32 class_writes;
static DEFINE_SPINLOCK(class_lock);

u32 cgroup_class(struct cgroup_subsys_state *css)
{
	for (; css; css = css->parent) {
		struct said *said = said_of(css);
		u32 class_id = said ? READ_ONCE(said->class_id) : CELLO_CLASSES;

		if (class_id < CELLO_CLASSES)
			return class_id;
	}
	return CELLO_CLASSES;
}

u32 member_class_now(struct disk_cgroup *c, u32 writes)
{
	u32 class_id = cgroup_class(&c->pd.blkg->blkcg->css);

	WRITE_ONCE(c->class_known, writes | class_id);
	return class_id;
}

/* It is not pinned for a next request. */
static void unpin(struct disk *d, struct blkcg_gq *blkg)
{
	unsigned long irq;
	bool pinned;

	spin_lock_irqsave(&d->lock, irq);
	pinned = d->pinned == blkg;
	if (pinned)
		d->pinned = NULL;
	spin_unlock_irqrestore(&d->lock, irq);
	if (pinned)
		percpu_ref_put(&blkg->refcnt);
}

/* ---- the kernel's records ---------------------------------------------- */

static struct blkcg_policy_data *said_alloc(gfp_t gfp)
{
	struct said *said = kzalloc(sizeof(*said), gfp);

	if (!said)
		return NULL;
	said->class_id = CELLO_CLASSES;
	return &said->pd;
}

static void said_free(struct blkcg_policy_data *pd)
{
	kfree((struct said *)pd);
}

static struct blkg_policy_data *member_alloc(struct gendisk *gendisk, struct blkcg *blkcg,
					     gfp_t gfp)
{
	struct disk_cgroup *c = kzalloc_node(sizeof(*c), gfp, gendisk->node_id);

	if (!c)
		return NULL;
	INIT_LIST_HEAD(&c->at);
	return &c->pd;
}

/* The root cgroup's requests are a child beside the cgroups below it. */
static bool is_top(const struct blkcg_gq *blkg)
{
	return !blkg->parent || !blkg->parent->parent;
}

/* Under the lock: the first time that it has a request of the class. */
void member_has_room(struct disk_cgroup *c, u32 class_id)
{
	struct blkcg_gq *top = c->pd.blkg;

	while (!is_top(top))
		top = top->parent;
	cello_room_begin(&c->disk->room, &c->at_room[class_id], &cgroup_of(top)->at_room[class_id],
			 class_id);
}

static void member_gives_room(struct disk_cgroup *c, u32 class_id)
{
	struct cello_room_at *at = &c->at_room[class_id];

	cello_room_end(&c->disk->room, at->slot[CELLO_ROOM_GROUP]);
	if (is_top(c->pd.blkg))
		cello_room_end(&c->disk->room, at->slot[CELLO_ROOM_TENANT]);
}

static void member_init(struct blkg_policy_data *pd)
{
	struct disk_cgroup *c = (struct disk_cgroup *)pd, *parent;
	struct blkcg *blkcg = pd->blkg->blkcg;
	struct said *said = said_of(&blkcg->css);
	u32 i;

	parent = is_top(pd->blkg) ? NULL : cgroup_of(pd->blkg->parent);
	c->disk = disk_of(pd->blkg->q);
	c->id = cgroup_id(blkcg->css.cgroup);
	c->class_known = ~(READ_ONCE(class_writes) << 2);
	spin_lock(&c->disk->lock);
	for (i = 0; i < CELLO_CLASSES; i++)
		cello_group_init(&c->disk->cello, &c->group[i], parent ? &parent->group[i] : NULL,
				 i, weight_of(said));
	list_add_tail(&c->at, &c->disk->cgroups);
	spin_unlock(&c->disk->lock);
}

/* The weight may have been written since: from now on that finds it. */
static void member_online(struct blkg_policy_data *pd)
{
	struct disk_cgroup *c = (struct disk_cgroup *)pd;
	struct said *said = said_of(&pd->blkg->blkcg->css);
	u32 i;

	if (!said)
		return;
	spin_lock(&c->disk->lock);
	for (i = 0; i < CELLO_CLASSES; i++)
		cello_group_set_weight(&c->group[i], weight_of(said));
	spin_unlock(&c->disk->lock);
}

/* The cgroup goes; it is not online any more. */
static void member_offline(struct blkg_policy_data *pd)
{
	unpin(((struct disk_cgroup *)pd)->disk, pd->blkg);
}

static void member_free(struct blkg_policy_data *pd)
{
	struct disk_cgroup *c = (struct disk_cgroup *)pd;
	unsigned long irq;
	u32 i;

	if (c->disk) {
		spin_lock_irqsave(&c->disk->lock, irq);
		list_del(&c->at);
		for (i = 0; i < CELLO_CLASSES; i++) {
			cello_group_end(&c->disk->cello, &c->group[i], ktime_get_ns());
			member_gives_room(c, i);
		}
		spin_unlock_irqrestore(&c->disk->lock, irq);
	}
	kfree(c);
}

/* At the end of the disk's line of io.stat. */
static void member_stat(struct blkg_policy_data *pd, struct seq_file *s)
{
	struct disk_cgroup *c = (struct disk_cgroup *)pd;
	u64 ns[CELLO_CLASSES], served = 0;
	unsigned long irq;
	u32 i;

	spin_lock_irqsave(&c->disk->lock, irq);
	for (i = 0; i < CELLO_CLASSES; i++) {
		ns[i] = c->group[i].served_ns;
		served += c->group[i].served;
	}
	spin_unlock_irqrestore(&c->disk->lock, irq);
	if (!served)
		return;
	for (i = 0; i < CELLO_CLASSES; i++)
		seq_printf(s, " cello.%s_us=%llu", class_names[i], div_u64(ns[i], NSEC_PER_USEC));
	seq_printf(s, " cello.requests=%llu", served);
}

/* ---- io.cello.class, io.cello.weight ----------------------------------- */

/* A class is a claim to the machine's disk: delegation of a cgroup does not delegate it. A weight
 * is none: it changes what its siblings have of their parent's. */
static bool may_write(struct kernfs_open_file *of)
{
	return file_ns_capable(of->file, &init_user_ns, CAP_SYS_ADMIN);
}

u32 class_named(const char *name)
{
	u32 class_id;

	for (class_id = 0; class_id < CELLO_CLASSES; class_id++)
		if (sysfs_streq(name, class_names[class_id]))
			return class_id;
	return sysfs_streq(name, "none") ? CELLO_CLASSES : CELLO_CLASSES + 1;
}

static int class_show(struct seq_file *s, void *unused)
{
	u32 class_id = READ_ONCE(said_of(seq_css(s))->class_id);

	seq_printf(s, "%s\n", class_id < CELLO_CLASSES ? class_names[class_id] : "none");
	return 0;
}

static ssize_t class_write(struct kernfs_open_file *of, char *text, size_t size, loff_t offset)
{
	u32 class_id;

	if (!may_write(of))
		return -EPERM;
	class_id = class_named(text);
	if (class_id > CELLO_CLASSES)
		return -EINVAL;
	spin_lock(&class_lock);
	WRITE_ONCE(said_of(of_css(of))->class_id, class_id);
	smp_store_release(&class_writes, class_writes + 1);
	spin_unlock(&class_lock);
	return size;
}

static int weight_show(struct seq_file *s, void *unused)
{
	seq_printf(s, "%u\n", weight_of(said_of(seq_css(s))));
	return 0;
}

/* What was said of it holds from now on. */
static void apply_weight(struct blkcg *blkcg)
{
	struct said *said = said_of(&blkcg->css);
	struct blkcg_gq *blkg;
	u32 i;

	spin_lock_irq(&blkcg->lock);
	hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node)
	{
		struct disk_cgroup *c = cgroup_of(blkg);

		if (!c)
			continue;
		spin_lock(&c->disk->lock);
		for (i = 0; i < CELLO_CLASSES; i++)
			cello_group_set_weight(&c->group[i], weight_of(said));
		spin_unlock(&c->disk->lock);
	}
	spin_unlock_irq(&blkcg->lock);
}

static ssize_t weight_write(struct kernfs_open_file *of, char *text, size_t size, loff_t offset)
{
	u32 weight = 0;
	bool none;

	text = strim(text);
	none = !strcmp(text, "default");
	if (!none && kstrtou32(text, 10, &weight))
		return -EINVAL;
	if (!none && (!weight || weight > CELLO_WEIGHT_MAX))
		return -ERANGE;
	WRITE_ONCE(said_of(of_css(of))->own, weight);
	apply_weight(blkcg_of(of_css(of)));
	return size;
}

static LLIST_HEAD(follows);

static void apply_followed(struct work_struct *unused)
{
	struct said *said, *next;

	llist_for_each_entry_safe(said, next, llist_del_all(&follows), follows)
	{
		struct blkcg *blkcg = said->pd.blkcg;

		clear_bit(0, &said->follow);
		smp_mb__after_atomic();
		apply_weight(blkcg);
		css_put(&blkcg->css);
	}
}

static DECLARE_WORK(follow, apply_followed);

/* Locks are taken later: this is called from a probe. */
void cgroup_follow(struct cgroup_subsys_state *css, u32 weight)
{
	struct said *said = said_of(css);

	if (!said)
		return;
	WRITE_ONCE(said->followed, weight);
	if (test_and_set_bit(0, &said->follow))
		return;
	css_get(css);
	llist_add(&said->follows, &follows);
	schedule_work(&follow);
}

static struct cftype files[] = {
	{
		.name = "cello.class",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = class_show,
		.write = class_write,
	},
	{
		.name = "cello.weight",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = weight_show,
		.write = weight_write,
	},
	{},
};

struct blkcg_policy cgroup_policy = {
	.dfl_cftypes = files,
	.cpd_alloc_fn = said_alloc,
	.cpd_free_fn = said_free,
	.pd_alloc_fn = member_alloc,
	.pd_init_fn = member_init,
	.pd_online_fn = member_online,
	.pd_offline_fn = member_offline,
	.pd_free_fn = member_free,
	.pd_stat_fn = member_stat,
};

int cgroups_register(void)
{
	return blkcg_policy_register(&cgroup_policy);
}

void cgroups_unregister(void)
{
	flush_work(&follow);
	blkcg_policy_unregister(&cgroup_policy);
}

int cgroups_begin(struct disk *d)
{
	return blkcg_activate_policy(d->q->disk, &cgroup_policy);
}

void cgroups_end(struct disk *d)
{
	struct disk_cgroup *c;
	u32 i;

	/* Nobody is awaited any more, whichever of a group and its parent is freed first. */
	spin_lock_irq(&d->lock);
	list_for_each_entry(c, &d->cgroups, at)
	{
		for (i = 0; i < CELLO_CLASSES; i++)
			cello_group_end(&d->cello, &c->group[i], ktime_get_ns());
	}
	spin_unlock_irq(&d->lock);
	blkcg_deactivate_policy(d->q->disk, &cgroup_policy);
}
