/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * control.h - what user space asks for: programs of type "syscall"
 */
#ifndef QLINUX_LINK_CONTROL_H
#define QLINUX_LINK_CONTROL_H

#define NAME_WORDS (HSFQ_LINK_NAME / 8)

_Static_assert(HSFQ_LINK_WAITS == WAITS_BUCKETS, "a record holds a histogram");
_Static_assert(HSFQ_LINK_RULES == RULES_MAX, "rules of an interface");

static __always_inline void name_in(u64 __arena *to, const u64 *from)
{
	u32 i;

#pragma unroll
	for (i = 0; i < NAME_WORDS; i++)
		to[i] = from[i];
}

static __always_inline void name_out(u64 *to, const u64 __arena *from)
{
	u32 i;

#pragma unroll
	for (i = 0; i < NAME_WORDS; i++)
		to[i] = from[i];
}

/* ---- nodes ------------------------------------------------------------- */

static int change_node(struct hsfq_link_ctl_node *c)
{
	switch (c->op) {
	case HSFQ_LINK_ADD:
		return c->leaf ? link_mkleaf(&link, c->parent, c->weight, c->leaf)
			       : link_mknod(&link, c->parent, c->weight);
	case HSFQ_LINK_DEL:
		return link_rmnod(&link, c->node);
	case HSFQ_LINK_SET:
		return link_set_weight(&link, c->node, c->weight);
	}
	return -EINVAL;
}

SEC("syscall")
int hsfq_link_ctl_node(struct hsfq_link_ctl_node *c)
{
	unsigned long flags;
	int err;

	if (guard_lock(&flags))
		return -EBUSY;
	err = change_node(c);
	if (err > 0)
		name_in(node_name[(u32)err % HSFQ_NODES], c->name);
	guard_unlock(&flags);
	if (err > 0) {
		c->node = err;
		err = 0;
	}
	return err;
}

static __always_inline void fill_node(struct hsfq_link_node *r, u32 n)
{
	hsfq_node_t *node = &link.tree.node[n];

	r->served = node->served_ns;
	r->node = node->flags & HSFQ_USED ? n : HSFQ_NIL;
	r->parent = node->parent;
	r->weight = node->weight;
	r->leaf = link.discipline[n];
	r->runnable = link_holds(&link, n);
	r->queues = link.attached[n];
	name_out(r->name, node_name[n]);
}

/* The next node from c->from on that is none of the lines below an sfq or fq leaf; HSFQ_NIL:
 * there is none. */
static __noinline u32 next_node(struct hsfq_link_ctl_nodes *c)
{
	volatile u32 *from = &c->from;
	u32 n;

	while ((n = *from) < link.tree.unused && n < HSFQ_NODES && can_loop) {
		*from = n + 1;
		if ((link.tree.node[n].flags & HSFQ_USED) && !link.line[n].queue)
			return n;
	}
	return HSFQ_NIL;
}

/* Each record is of one moment. */
SEC("syscall")
int hsfq_link_ctl_nodes(struct hsfq_link_ctl_nodes *c)
{
	unsigned long flags;
	u32 n, i;

	c->time_ns = bpf_ktime_get_ns();
	if (guard_lock(&flags))
		return -EBUSY;
	link_settle(&link, c->time_ns);
	hsfq_settle(&link.tree);
	guard_unlock(&flags);
	c->count = 0;
#pragma unroll
	for (i = 0; i < HSFQ_LINK_NODES; i++) {
		n = next_node(c);
		if (!n)
			break;
		if (guard_lock(&flags))
			return -EBUSY;
		barrier_var(c); /* a record's own address would be no constant offset */
		fill_node(&c->record[i], n);
		guard_unlock(&flags);
		c->count = i + 1;
	}
	if (c->from >= link.tree.unused)
		c->from = 0;
	return 0;
}

/* ---- queues ------------------------------------------------------------ */

static int set_queue(struct hsfq_link_ctl_queue *c, u32 q)
{
	int err = 0;

	/* Both or neither. */
	if (c->set & HSFQ_LINK_SET_WEIGHT &&
	    (c->weight < SFQ_WEIGHT_MIN || c->weight > SFQ_WEIGHT_MAX))
		return -CORE_ERANGE;
	if (c->set & HSFQ_LINK_SET_LIMITS)
		err = link_limitq(&link, q, c->packets_max, c->bytes_max);
	if (!err && c->set & HSFQ_LINK_SET_WEIGHT)
		err = link_set_weightq(&link, q, c->weight);
	return err;
}

static int change_queue(struct hsfq_link_ctl_queue *c)
{
	u32 q = link_by_id(&link, c->queue);

	switch (c->op) {
	case HSFQ_LINK_ADD:
		return link_createq(&link, c->weight);
	case HSFQ_LINK_DEL:
		return link_rmq(&link, q);
	case HSFQ_LINK_ATTACH:
		return link_attachq(&link, q, c->leaf);
	case HSFQ_LINK_SET:
		return q ? set_queue(c, q) : -ENOENT;
	}
	return -EINVAL;
}

static __noinline void clear_waits(u32 q)
{
	u32 i;

	for (i = 0; i < HSFQ_LINK_WAITS && can_loop; i++)
		queue_waits[q].count[i] = 0;
}

SEC("syscall")
int hsfq_link_ctl_queue(struct hsfq_link_ctl_queue *c)
{
	unsigned long flags;
	int err;

	if (guard_lock(&flags))
		return -EBUSY;
	err = change_queue(c);
	if (err > 0) {
		u32 q = (u32)err % LINK_QUEUES;

		name_in(queue_name[q], c->name);
		clear_waits(q);
		c->queue = link_id(&link, q);
		err = 0;
	}
	guard_unlock(&flags);
	return err;
}

static __always_inline void fill_queue(struct hsfq_link_queue *r, u32 n)
{
	struct link_queue __arena *q = &link.queue[n];

	r->counts = q->counts;
	r->bytes = q->bytes;
	r->bytes_max = q->bytes_max;
	r->packets = q->packets;
	r->packets_max = q->packets_max;
	r->queue = q->used ? link_id(&link, n) : 0;
	r->leaf = q->leaf;
	r->weight = q->weight;
	r->users = q->users;
	CONTEXT_COPY(u64, r->waits, (u64 __arena *)queue_waits[n].count, sizeof(r->waits));
	name_out(r->name, queue_name[n]);
}

/* Likewise. */
static __noinline u32 next_queue(struct hsfq_link_ctl_queues *c)
{
	volatile u32 *from = &c->from;
	u32 n;

	while ((n = *from) < link.unused_queue && n < LINK_QUEUES && can_loop) {
		*from = n + 1;
		if (link.queue[n].used)
			return n;
	}
	return LINK_NIL;
}

/* Each record is of one moment. */
SEC("syscall")
int hsfq_link_ctl_queues(struct hsfq_link_ctl_queues *c)
{
	unsigned long flags;
	u32 n, i;

	c->time_ns = bpf_ktime_get_ns();
	c->count = 0;
#pragma unroll
	for (i = 0; i < HSFQ_LINK_QUEUES; i++) {
		n = next_queue(c);
		if (!n)
			break;
		if (guard_lock(&flags))
			return -EBUSY;
		barrier_var(c); /* a record's own address would be no constant offset */
		fill_queue(&c->record[i], n);
		guard_unlock(&flags);
		c->count = i + 1;
	}
	if (c->from >= link.unused_queue)
		c->from = 0;
	return 0;
}

/* ---- the link as a whole ----------------------------------------------- */

static void set_codel(struct hsfq_link_ctl_link *c)
{
	link.goal.target_ns = c->target_ns;
	link.goal.interval_ns = c->interval_ns;
}

static int set_standard(u32 id)
{
	u32 q = link_by_id(&link, id);

	if (!q)
		return -ENOENT;
	if (standard)
		link.queue[standard].users--;
	link.queue[q].users++;
	standard = q;
	return 0;
}

static int set_link(struct hsfq_link_ctl_link *c, u64 now)
{
	int err = 0;

	if (c->set & HSFQ_LINK_SET_DEFAULT)
		err = set_standard(c->standard);
	if (!err && c->set & HSFQ_LINK_SET_RATE)
		err = pace_set(&link.pace, c->rate, c->overhead, c->least, now);
	if (!err && c->set & HSFQ_LINK_SET_CODEL)
		set_codel(c);
	return err;
}

SEC("syscall")
int hsfq_link_ctl_link(struct hsfq_link_ctl_link *c)
{
	unsigned long flags;
	u64 now = bpf_ktime_get_ns();
	int err;

	if (guard_lock(&flags))
		return -EBUSY;
	if (!link.tree.nodes)
		link_init(&link);
	err = set_link(c, now);
	c->standard = standard ? link_id(&link, standard) : 0;
	c->rate = link.pace.rate;
	c->overhead = link.pace.overhead;
	c->least = link.pace.least;
	c->target_ns = link.goal.target_ns;
	c->interval_ns = link.goal.interval_ns;
	c->packets = link.packets;
	c->bytes = link.bytes;
	c->rules = rules.count;
	c->gone = link.gone;
	guard_unlock(&flags);
	c->state = hsfq_link_state;
	c->time_ns = bpf_ktime_get_ns();
	return err;
}

/* ---- who goes where ---------------------------------------------------- */

static int add_rule(struct hsfq_link_ctl_rule *c)
{
	u32 q = link_by_id(&link, c->rule.queue);
	struct rule r;
	int err;

	if (!q)
		return -ENOENT;
	CONTEXT_COPY(u32, &r, (u32 *)&c->rule, sizeof(r));
	r.queue = q;
	err = rules_insert(&rules, c->at, &r);
	if (!err)
		link.queue[q].users++;
	return err;
}

static int del_rule(u32 at)
{
	if (at >= rules.count || at >= RULES_MAX)
		return -ENOENT;
	link.queue[rules.rule[at].queue].users--;
	return rules_remove(&rules, at);
}

static int get_rule(struct hsfq_link_ctl_rule *c)
{
	if (c->at >= rules.count || c->at >= RULES_MAX)
		return -ENOENT;
	CONTEXT_COPY(u32, &c->rule, (u32 __arena *)&rules.rule[c->at], sizeof(c->rule));
	c->rule.queue = link_id(&link, c->rule.queue);
	return 0;
}

SEC("syscall")
int hsfq_link_ctl_rule(struct hsfq_link_ctl_rule *c)
{
	unsigned long flags;
	int err = -EINVAL;

	if (guard_lock(&flags))
		return -EBUSY;
	if (c->op == HSFQ_LINK_ADD)
		err = add_rule(c);
	else if (c->op == HSFQ_LINK_DEL)
		err = del_rule(c->at);
	else if (c->op == HSFQ_LINK_GET)
		err = get_rule(c);
	c->count = rules.count;
	guard_unlock(&flags);
	return err;
}

/* The queue with that id gets a user more, or one less. */
static u32 use_queue(u32 id, int more)
{
	unsigned long flags;
	u32 q;

	if (guard_lock(&flags))
		return LINK_NIL;
	q = link_by_id(&link, id);
	if (q)
		link.queue[q].users += more;
	guard_unlock(&flags);
	return q;
}

SEC("syscall")
int hsfq_link_ctl_cgroup(struct hsfq_link_ctl_cgroup *c)
{
	u64 id = c->cgroup_id; /* 7.1 takes it where it is */
	u32 *old = bpf_map_lookup_elem(&cgroups, &id), q = LINK_NIL;
	u32 earlier = old ? *old : LINK_NIL;
	long err;

	if (!c->queue && !earlier)
		return -ENOENT;
	if (c->queue) {
		q = use_queue(c->queue, 1);
		if (!q)
			return -ENOENT;
		err = bpf_map_update_elem(&cgroups, &id, &q, 0);
	} else {
		err = bpf_map_delete_elem(&cgroups, &id);
	}
	if (err) {
		if (q)
			use_queue(c->queue, -1);
		return err;
	}
	if (earlier)
		use_queue(link_id(&link, earlier), -1);
	__sync_fetch_and_add(&cgroups_count, (u32)(!!q - !!earlier));
	__sync_fetch_and_add(&cgroups_epoch, 1);
	return 0;
}

#endif
