/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * state.h - what the packet scheduler of an interface keeps, and where
 *
 * Each interface has an object of its own, and with it maps, an arena and a qdisc of its
 * own name. In the arena: the tree, queues, packets' places, rules. In maps: the packets
 * themselves, which cgroup has which queue, who may choose which.
 */
#ifndef QLINUX_LINK_STATE_H
#define QLINUX_LINK_STATE_H

/* Of the interface. */
const volatile u32 ifindex;
const volatile u64 netns_cookie;
const volatile char device[16];
const volatile u32 major; /* of the qdisc's handle */
const volatile bool trace_on;
const volatile u32 intf_version = HSFQ_LINK_VERSION;

struct hsfq_link_state hsfq_link_state;

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << 16);
	__ulong(map_extra, 1ull << 44);
} arena SEC(".maps");

struct link __arena link;
struct rules __arena rules;
/* The compiler computes its address once, not for every use. */
static __always_inline link_t *the_link(void)
{
	link_t *l = &link;

	barrier_var(l);
	return l;
}

u64 __arena node_name[HSFQ_NODES][HSFQ_LINK_NAME / 8];
u64 __arena queue_name[LINK_QUEUES][HSFQ_LINK_NAME / 8];
struct waits __arena queue_waits[LINK_QUEUES];
u32 __arena standard; /* the default queue's number */

#define SEEN_CGROUPS 4096
struct seen_cgroup {
	u64 id;
	u32 epoch;
	u32 queue; /* its number */
};
struct seen_cgroup __arena seen_cgroups[SEEN_CGROUPS];
u32 cgroups_epoch = 1; /* changes with the map of cgroups */
u32 cgroups_count;

struct packet_slot {
	struct sk_buff __kptr *skb;
};

/* By place in the store. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LINK_PACKETS);
	__type(key, u32);
	__type(value, struct packet_slot);
} packets SEC(".maps");

/* Cgroup id to the number of its queue. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct hsfq_link_grant);
	__type(value, u32);
} grants SEC(".maps");

/* The qdisc that was there before, as user space described it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, 8); /* sized before load */
} before SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* sized before load */
} hsfq_link_trace SEC(".maps");

#endif
