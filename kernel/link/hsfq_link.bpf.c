// SPDX-License-Identifier: GPL-2.0-only
/*
 * hsfq_link - H-SFQ as a queueing discipline
 *
 * The policy is core/link/link.h; this file only connects it to an interface:
 *
 *   enqueue   link_enqueue    destroy, reset  link_flush
 *   dequeue   link_dequeue    watchdog        the link is free again
 *
 * core/link/link.h says which packet leaves by its place in the store; the packets
 * themselves are in a map by that place.
 *
 * guard.h keeps this side and the programs that change the tree (control.h) apart.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "../arena.h"
#include "../compat.h"

#define CORE_HAVE_TYPES
#define CORE_MEM    __arena
#define CORE_MORE   can_loop
#define CORE_FN     static inline __attribute__((unused))
#define CORE_INLINE static __always_inline __attribute__((unused))
#define CORE_COLD   static __noinline __attribute__((unused))
#include "../../core/link/link.h"
#include "../../core/link/rules.h"
#include "../../core/cpu/waits.h"
#include "intf.h"

char _license[] SEC("license") = "GPL";

#define ENOENT 2
#define EPERM  1
#define EBUSY  16
#define EEXIST 17
#define EINVAL 22

#define TC_H_ROOT        0xffffffffU
#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP    1

/* Until a dequeue that could not be is tried again. */
#define RETRY_NS 1000000
/* Who waits for the link looks again then at the latest: its rate may be another. */
#define LOOK_NS 20000000

extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;

/* Not static: the verifier walks it by itself, once, not again for each state of a caller. It
 * returns a number because 6.18 wants that. Not for who holds link_lock. */
#define ONCE __noinline int

#include "state.h"
#include "guard.h"
#include "classify.h"
#include "control.h"
#include "sockopt.h"

/* ---- packets ----------------------------------------------------------- */

/* Bytes that the packet takes on the line: each segment of a large one is framed. */
static __always_inline u32 length_of(link_t *l, struct sk_buff *skb, u32 bytes)
{
	struct skb_shared_info *shared;
	u32 segments;

	if (!(l->pace.overhead | l->pace.least))
		return bytes;
	shared = bpf_core_cast(skb->head + skb->end, struct skb_shared_info);
	segments = shared->gso_segs;
	return pace_length(&l->pace, bytes, segments ? segments : 1);
}

static __always_inline u32 bytes_of(struct sk_buff *skb)
{
	return ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

/* Inside the guard: the number of the packet's queue. */
static __always_inline u32 choose_queue(link_t *l, u32 of_socket, u32 of_rule, u32 of_cgroup)
{
	if (of_socket)
		return of_socket;
	if (link_queue_valid(l, of_rule))
		return of_rule;
	if (link_queue_valid(l, of_cgroup))
		return of_cgroup;
	return standard;
}

/* Inside the guard. The packet's place, or LINK_NIL. */
ONCE place_of(u32 q, u32 hash, u32 bytes, u32 length, u64 now)
{
	return link_enqueue(the_link(), q, hash, bytes, length, now);
}

/* Likewise. Which packet leaves. */
ONCE next_packet(struct link_next *next __arg_nonnull, u64 now)
{
	*next = link_dequeue(the_link(), now);
	return 0;
}

/* Likewise. The place of one that is dropped because the interface goes. */
ONCE flushed(void)
{
	return link_flush(the_link());
}

SEC("struct_ops/qdisc_enqueue")
int BPF_PROG(qdisc_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	link_t *l = the_link();
	u32 bytes = bytes_of(skb), length = length_of(l, skb, bytes), hash = 0;
	u32 priority = skb->priority, place, q, of_cgroup = LINK_NIL, of_rule = LINK_NIL;
	u64 now = bpf_ktime_get_ns();
	struct packet_slot *slot;

	if (cgroups_count)
		of_cgroup = queue_of_cgroup(skb->sk);
	if (l->hashed)
		hash = bpf_skb_get_hash(skb);
	if (!guard_enter())
		goto unlocked;
	if (rules.count)
		of_rule = queue_of_rules(skb);
	q = choose_queue(l, queue_of_socket(l, priority), of_rule, of_cgroup);
	place = place_of(q, hash, bytes, length, now);
	guard_leave();
	slot = place ? bpf_map_lookup_elem(&packets, &place) : NULL;
	if (!slot)
		goto drop;
	sch->q.qlen++;
	sch->qstats.backlog += bytes;
	skb = bpf_kptr_xchg(&slot->skb, skb);
	if (!skb)
		return NET_XMIT_SUCCESS;
	goto drop;
unlocked:
	hsfq_link_state.unlocked++;
	hsfq_link_state.unlocked_bytes += bytes;
drop:
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

static __noinline void trace(link_t *l, u32 line, u32 place, bool dropped, u64 now)
{
	struct hsfq_link_trace_record r = {
		.time_ns = now,
		.arrived_ns = l->packet[place].arrived_ns,
		.queue = link_id(l, l->packet[place].queue),
		.line = line,
		.length = l->packet[place].length,
		.dropped = dropped,
	};

	if (bpf_ringbuf_output(&hsfq_link_trace, &r, sizeof(r), 0))
		hsfq_link_state.trace_lost++;
}

/* The packet at this place leaves the store. */
static __always_inline struct sk_buff *take(struct Qdisc *sch, u32 place)
{
	struct packet_slot *slot = bpf_map_lookup_elem(&packets, &place);
	struct sk_buff *skb = slot ? bpf_kptr_xchg(&slot->skb, NULL) : NULL;

	if (!skb)
		return NULL;
	sch->q.qlen--;
	sch->qstats.backlog -= bytes_of(skb);
	return skb;
}

SEC("struct_ops/qdisc_dequeue")
struct sk_buff *BPF_PROG(qdisc_dequeue, struct Qdisc *sch)
{
	struct link_next next;
	struct sk_buff *skb;
	u64 now;

	if (!sch->q.qlen)
		return NULL;
	now = bpf_ktime_get_ns();
	while (can_loop) {
		link_t *l = the_link(); /* not to be kept in the loop: it mostly ends at once */
		link_packet_t *p;

		if (!guard_enter()) {
			bpf_qdisc_watchdog_schedule(sch, now + RETRY_NS, 0);
			return NULL;
		}
		next_packet(&next, now);
		guard_leave();
		if (!next.place) {
			if (next.wait_ns == HSFQ_NEVER)
				return NULL;
			if (next.wait_ns > now + LOOK_NS)
				next.wait_ns = now + LOOK_NS;
			bpf_qdisc_watchdog_schedule(sch, next.wait_ns, 0);
			return NULL;
		}
		p = &l->packet[next.place];
		if (trace_on)
			trace(l, next.line, next.place, next.drop, now);
		skb = take(sch, next.place);
		if (!skb)
			return NULL;
		if (!next.drop) {
			waits_count(&queue_waits[p->queue], now - p->arrived_ns);
			bpf_qdisc_bstats_update(sch, skb);
			return skb;
		}
		sch->qstats.drops++;
		bpf_kfree_skb(skb);
	}
	return NULL;
}

/* ---- the qdisc comes and goes ------------------------------------------ */

/* One qdisc, the root of the one interface that the object was loaded for. */
SEC("struct_ops/qdisc_init")
int BPF_PROG(qdisc_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct net_device *dev = sch->dev_queue->dev;

	if (hsfq_link_state.qdisc)
		return -EBUSY;
	if (sch->parent != TC_H_ROOT || dev->ifindex != ifindex ||
	    dev->nd_net.net->net_cookie != netns_cookie)
		return -EINVAL;
	sch->limit = LINK_PACKETS;
	hsfq_link_state.qdisc = (u64)sch;
	hsfq_link_state.begun_ns = bpf_ktime_get_ns();
	hsfq_link_state.ended_ns = 0;
	return 0;
}

/* What is queued is dropped, and counted. */
SEC("struct_ops/qdisc_reset")
void BPF_PROG(qdisc_reset, struct Qdisc *sch)
{
	struct sk_buff *skb;
	u32 place;

	if (hsfq_link_state.qdisc != (u64)sch)
		return;
	while (can_loop) {
		if (!guard_enter())
			return;
		place = flushed();
		guard_leave();
		if (!place)
			break;
		skb = take(sch, place);
		if (skb)
			bpf_kfree_skb(skb);
	}
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

SEC("struct_ops/qdisc_destroy")
void BPF_PROG(qdisc_destroy, struct Qdisc *sch)
{
	if (hsfq_link_state.qdisc != (u64)sch)
		return;
	hsfq_link_state.qdisc = 0;
	hsfq_link_state.ended_ns = bpf_ktime_get_ns();
}

SEC(".struct_ops.link")
struct Qdisc_ops hsfq_ops = {
	.enqueue = (void *)qdisc_enqueue,
	.dequeue = (void *)qdisc_dequeue,
	.init = (void *)qdisc_init,
	.reset = (void *)qdisc_reset,
	.destroy = (void *)qdisc_destroy,
	.id = "hsfq", /* made unique before load */
};
