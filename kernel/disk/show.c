// SPDX-License-Identifier: GPL-2.0-only
/* What a disk shows and lets one set: queue/iosched/ in sysfs, sched/ in debugfs. */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sysfs.h>

#include "disk.h"

/* ---- sysfs: one value a file ------------------------------------------- */

static u64 read_under_lock(struct elevator_queue *e, u64 (*value)(const struct disk *d))
{
	struct disk *d = e->elevator_data;
	unsigned long irq;
	u64 x;

	spin_lock_irqsave(&d->lock, irq);
	x = value(d);
	spin_unlock_irqrestore(&d->lock, irq);
	return x;
}

/* A number, in a range; `set` may still refuse it. */
static ssize_t write_under_lock(struct elevator_queue *e, const char *text, size_t size, u64 least,
				u64 most, int (*set)(struct disk *d, u64 x))
{
	struct disk *d = e->elevator_data;
	unsigned long irq;
	int refused;
	u64 x;

	refused = kstrtou64(text, 10, &x);
	if (refused)
		return refused;
	if (x < least || x > most)
		return -ERANGE;
	spin_lock_irqsave(&d->lock, irq);
	refused = set(d, x);
	d->full = false;
	spin_unlock_irqrestore(&d->lock, irq);
	if (refused)
		return refused;
	/* What waited for the old value. */
	blk_mq_run_hw_queues(d->q, true);
	return size;
}

#define SHOWN(name, expression)                                                                    \
	static u64 get_##name(const struct disk *d)                                                \
	{                                                                                          \
		return (expression);                                                               \
	}                                                                                          \
	static ssize_t name##_show(struct elevator_queue *e, char *page)                           \
	{                                                                                          \
		return sysfs_emit(page, "%llu\n", read_under_lock(e, get_##name));                 \
	}

#define STORED(name, least, most)                                                                  \
	static ssize_t name##_store(struct elevator_queue *e, const char *text, size_t size)       \
	{                                                                                          \
		return write_under_lock(e, text, size, least, most, set_##name);                   \
	}

static int set_round_us(struct disk *d, u64 x)
{
	return cello_set_round(&d->cello, x * NSEC_PER_USEC);
}

static int set_in_flight(struct disk *d, u64 x)
{
	return cello_set_in_flight(&d->cello, x);
}

static int set_in_flight_us(struct disk *d, u64 x)
{
	return cello_set_in_flight_time(&d->cello, x * NSEC_PER_USEC);
}

static int set_deadline_ms(struct disk *d, u64 x)
{
	return cello_set_deadline(&d->cello, x * NSEC_PER_MSEC);
}

SHOWN(round_us, div_u64(d->cello.round_ns, NSEC_PER_USEC))
STORED(round_us, CELLO_ROUND_MIN_NS / NSEC_PER_USEC, CELLO_ROUND_MAX_NS / NSEC_PER_USEC)
SHOWN(in_flight, d->cello.flight.learns ? 0 : d->cello.flight.most)
STORED(in_flight, 0, FLIGHT_MAX)
SHOWN(in_flight_now, d->cello.flight.most)
SHOWN(lanes, d->cello.flight.lanes)
SHOWN(tags, tags_of(d))
SHOWN(in_flight_us, div_u64(d->cello.flight_max_ns, NSEC_PER_USEC))
STORED(in_flight_us, 0, CELLO_FLIGHT_MAX_NS / NSEC_PER_USEC)
SHOWN(deadline_ms, div_u64(d->cello.deadline_ns, NSEC_PER_MSEC))
STORED(deadline_ms, CELLO_DEADLINE_MIN_NS / NSEC_PER_MSEC, CELLO_DEADLINE_MAX_NS / NSEC_PER_MSEC)
SHOWN(rounds, d->cello.rounds)
SHOWN(bypassed, d->bypassed)
SHOWN(error_us, div_u64(d->cello.time.error_ns, NSEC_PER_USEC))
SHOWN(realtime_late, d->cello.class[CELLO_REALTIME].late)
SHOWN(realtime_broken, d->cello.class[CELLO_REALTIME].broken)

static ssize_t unclassified_show(struct elevator_queue *e, char *page)
{
	u32 class_id = READ_ONCE(((struct disk *)e->elevator_data)->cello.unclassified);

	return sysfs_emit(page, "%s\n", class_id < CELLO_CLASSES ? class_names[class_id] : "none");
}

static ssize_t unclassified_store(struct elevator_queue *e, const char *text, size_t size)
{
	struct disk *d = e->elevator_data;
	u32 class_id = class_named(text);

	if (class_id > CELLO_CLASSES)
		return -EINVAL;
	spin_lock_irq(&d->lock);
	cello_set_unclassified(&d->cello, class_id);
	spin_unlock_irq(&d->lock);
	return size;
}

static int set_weight(struct disk *d, u32 class_id, u64 x)
{
	u32 weights[CELLO_CLASSES], i;

	for (i = 0; i < CELLO_CLASSES; i++)
		weights[i] = i == class_id ? x : d->cello.class[i].part.weight;
	return cello_set_weights(&d->cello, weights);
}

#define OF_CLASS(name, id)                                                                         \
	static int set_weight_##name(struct disk *d, u64 x)                                        \
	{                                                                                          \
		return set_weight(d, id, x);                                                       \
	}                                                                                          \
	SHOWN(weight_##name, d->cello.class[id].part.weight)                                       \
	STORED(weight_##name, 0, CELLO_WEIGHT_MAX)                                                 \
	SHOWN(name##_requests, d->cello.class[id].part.served)                                     \
	SHOWN(name##_time_us, div_u64(d->cello.class[id].part.served_ns, NSEC_PER_USEC))           \
	SHOWN(name##_waiting, d->cello.class[id].part.present)

OF_CLASS(interactive, CELLO_INTERACTIVE)
OF_CLASS(throughput, CELLO_THROUGHPUT)
OF_CLASS(realtime, CELLO_REALTIME)

#define SET(name) __ATTR(name, 0644, name##_show, name##_store)
#define GET(name) __ATTR(name, 0444, name##_show, NULL)

const struct elv_fs_entry disk_attributes[] = {
	SET(round_us),
	SET(in_flight),
	SET(in_flight_us),
	SET(deadline_ms),
	SET(unclassified),
	SET(weight_interactive),
	SET(weight_throughput),
	SET(weight_realtime),
	GET(in_flight_now),
	GET(lanes),
	GET(tags),
	GET(rounds),
	GET(bypassed),
	GET(error_us),
	GET(realtime_late),
	GET(realtime_broken),
	GET(interactive_requests),
	GET(interactive_time_us),
	GET(interactive_waiting),
	GET(throughput_requests),
	GET(throughput_time_us),
	GET(throughput_waiting),
	GET(realtime_requests),
	GET(realtime_time_us),
	GET(realtime_waiting),
	{},
};

/* ---- debugfs: the queues ------------------------------------------------
 * What is shown is copied under the lock and printed without it. From 6.16 on the kernel takes
 * these files away when the disk has another scheduler already, or none, and brings them likewise.
 */

static LIST_HEAD(shown);
static DEFINE_MUTEX(showing); /* the list, and that no disk of it goes; no memory is asked for */

void show_begin(struct disk *d)
{
	mutex_lock(&showing);
	list_add(&d->shown, &shown);
	mutex_unlock(&showing);
}

void show_end(struct disk *d)
{
	mutex_lock(&showing);
	list_del(&d->shown);
	mutex_unlock(&showing);
}

/* Its disk under Cello, which stays until it is let go; NULL: it is not. */
static struct disk *hold(struct request_queue *q)
{
	struct disk *d;

	mutex_lock(&showing);
	list_for_each_entry(d, &shown, shown)
	{
		if (d->q == q)
			return d;
	}
	mutex_unlock(&showing);
	return NULL;
}

static void let_go(void)
{
	mutex_unlock(&showing);
}

/* A scheduled request. */
struct line {
	u64 sector, estimate_ns;
	s64 left_ns; /* real-time: until its deadline */
	u32 class_id, sectors;
	bool writes;
};

static u32 copy_scheduled(struct request_queue *q, struct line *to)
{
	struct disk *d = hold(q);
	u64 now_ns = ktime_get_ns();
	struct cello_link *l;
	u32 n = 0;

	if (!d)
		return 0;
	spin_lock_irq(&d->lock);
	for (l = d->cello.scheduled.next; l != &d->cello.scheduled; l = l->next) {
		const struct cello_request *r = cello_at(l);

		to[n++] = (struct line){r->sector,          r->estimate_ns, r->deadline_ns - now_ns,
					r->group->class_id, r->sectors,     r->way};
	}
	spin_unlock_irq(&d->lock);
	let_go();
	return n;
}

/* The scheduled queue from its head: class, sector, sectors, r or w, estimate, time left. */
static int scheduled_show(void *queue, struct seq_file *s)
{
	struct line *line = kvcalloc(CELLO_SCHEDULED_MAX, sizeof(*line), GFP_KERNEL);
	u32 i, n;

	if (!line)
		return -ENOMEM;
	n = copy_scheduled(queue, line);
	for (i = 0; i < n; i++) {
		seq_printf(s, "%s %llu %u %c %llu ", class_names[line[i].class_id], line[i].sector,
			   line[i].sectors, line[i].writes ? 'w' : 'r',
			   div_u64(line[i].estimate_ns, NSEC_PER_USEC));
		if (line[i].class_id == CELLO_REALTIME)
			seq_printf(s, "%lld\n", div_s64(line[i].left_ns, NSEC_PER_MSEC));
		else
			seq_puts(s, "-\n");
	}
	kvfree(line);
	return 0;
}

/* A group that has or had requests. */
struct counts {
	u64 cgroup, served, served_ns;
	u32 class_id, weight, waiting;
};

/* How many there may be. */
static u32 most_counts(struct request_queue *q)
{
	struct disk *d = hold(q);
	u32 n;

	if (!d)
		return 0;
	spin_lock_irq(&d->lock);
	n = list_count_nodes(&d->cgroups) * CELLO_CLASSES;
	spin_unlock_irq(&d->lock);
	let_go();
	return n;
}

/* Of so many at most. */
static u32 copy_counts(struct request_queue *q, struct counts *to, u32 most)
{
	struct disk *d = hold(q);
	struct disk_cgroup *c;
	u32 i, n = 0;

	if (!d)
		return 0;
	spin_lock_irq(&d->lock);
	list_for_each_entry(c, &d->cgroups, at)
	{
		for (i = 0; i < CELLO_CLASSES && n < most; i++) {
			const struct cello_group *g = &c->group[i];

			if (g->present || g->served)
				to[n++] = (struct counts){c->id, g->served,       g->served_ns,
							  i,     g->child.weight, g->own.waiting};
		}
	}
	spin_unlock_irq(&d->lock);
	let_go();
	return n;
}

static int each_group(struct request_queue *q, struct seq_file *s,
		      void (*print)(struct seq_file *s, const struct counts *g))
{
	struct counts *counts;
	u32 i, n = most_counts(q);

	counts = kvcalloc(n + 1, sizeof(*counts), GFP_KERNEL);
	if (!counts)
		return -ENOMEM;
	n = copy_counts(q, counts, n);
	for (i = 0; i < n; i++) {
		const struct counts *g = &counts[i];

		seq_printf(s, "%llu %s %u ", g->cgroup, class_names[g->class_id], g->weight);
		print(s, g);
	}
	kvfree(counts);
	return 0;
}

static void print_waiting(struct seq_file *s, const struct counts *g)
{
	seq_printf(s, "%u\n", g->waiting);
}

/* Cgroup, class, weight, pending requests. */
static int pending_show(void *queue, struct seq_file *s)
{
	return each_group(queue, s, print_waiting);
}

static void print_served(struct seq_file *s, const struct counts *g)
{
	seq_printf(s, "%llu %llu\n", g->served, div_u64(g->served_ns, NSEC_PER_USEC));
}

/* Cgroup, class, weight, requests served, disk time in microseconds. */
static int groups_show(void *queue, struct seq_file *s)
{
	return each_group(queue, s, print_served);
}

/* How many there ever were. */
static u64 copy_ended(struct request_queue *q, struct ended *to)
{
	struct disk *d = hold(q);
	u64 ends;

	if (!d)
		return 0;
	spin_lock_irq(&d->lock);
	memcpy(to, d->ended, REALTIME_KEPT * sizeof(*to));
	ends = d->ends;
	spin_unlock_irq(&d->lock);
	let_go();
	return ends;
}

/* The latest real-time requests: arrival, sector, sectors, deadline, end, promised, error. */
static int realtime_show(void *queue, struct seq_file *s)
{
	struct ended *ended = kvcalloc(REALTIME_KEPT, sizeof(*ended), GFP_KERNEL);
	u64 i, ends;

	if (!ended)
		return -ENOMEM;
	ends = copy_ended(queue, ended);
	for (i = ends > REALTIME_KEPT ? ends - REALTIME_KEPT : 0; i < ends; i++) {
		const struct ended *e = &ended[i % REALTIME_KEPT];

		seq_printf(s, "%llu %llu %u %llu %llu %u %llu\n", e->arrived_ns, e->sector,
			   e->sectors, e->deadline_ns, e->end_ns, e->promised, e->error_ns);
	}
	kvfree(ended);
	return 0;
}

const struct blk_mq_debugfs_attr disk_debugfs[] = {
	{"scheduled", 0400, scheduled_show},
	{"pending", 0400, pending_show},
	{"groups", 0400, groups_show},
	{"realtime", 0400, realtime_show},
	{},
};
