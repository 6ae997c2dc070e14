/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * classify.h - which queue a packet goes to
 *
 * In this order: the socket's own choice (sockopt.h), a rule (core/link/rules.h), the cgroup
 * of the socket or its nearest ancestor with a queue, the default.
 */
#ifndef QLINUX_LINK_CLASSIFY_H
#define QLINUX_LINK_CLASSIFY_H

#define ETH_P_IP         0x0800
#define ETH_P_IPV6       0x86dd
#define TCP_TIME_WAIT    6
#define TCP_NEW_SYN_RECV 12

/* ---- by socket --------------------------------------------------------- */

/* A socket that was attached has the queue for its priority, as `tc` has classes. */
static __always_inline u32 queue_of_socket(link_t *l, u32 priority)
{
	return priority >> 16 == major ? link_by_id(l, priority & 0xffff) : LINK_NIL;
}

/* ---- by rule ----------------------------------------------------------- */

static u8 header[RULES_HEADER]; /* the qdisc's lock guards it */

static __always_inline void read_key(struct sk_buff *skb, struct rules_key *key)
{
	u32 head = skb->data - skb->head, at = skb->network_header;
	struct rules_header h = {.byte = header};
	/* Of the packet, what is not in pages. */
	u32 end = head + (skb->len - skb->data_len);

	key->mark = skb->mark;
	if (at >= end)
		return;
	h.length = end - at < RULES_HEADER ? end - at : RULES_HEADER;
	if (bpf_probe_read_kernel(header, h.length, skb->head + at))
		return;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		rules_ipv4(&h, key);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		rules_ipv6(&h, key);
}

/* The first that matches. Reading and matching stay in one function: verified apart, the verifiers
 * of 6.17 and 6.18 warn of themselves (reg_bounds_sanity_check). */
ONCE queue_of_rules(struct sk_buff *skb __arg_trusted)
{
	struct rules_key key = {};

	read_key(skb, &key);
	return rules_find(&rules, &key);
}

/* ---- by cgroup --------------------------------------------------------- */

/* Walks from the cgroup to the root. */
static __noinline u32 queue_of_ancestors(struct cgroup *cgrp)
{
	while (cgrp && can_loop) {
		u64 id = cgrp->kn->id;
		u32 *queue = bpf_map_lookup_elem(&cgroups, &id);

		if (queue)
			return *queue;
		cgrp = bpf_core_cast(cgrp->self.parent, struct cgroup);
	}
	return LINK_NIL;
}

/* What was found for a cgroup holds until the map of cgroups changes. */
static __always_inline u32 queue_of_cgroup(struct sock *sk)
{
	struct seen_cgroup __arena *c;
	u32 state, epoch = cgroups_epoch;
	struct cgroup *cgrp;
	u64 id;

	if (!sk)
		return LINK_NIL;
	state = sk->__sk_common.skc_state;
	if (state == TCP_TIME_WAIT)
		return LINK_NIL;
	if (state == TCP_NEW_SYN_RECV) {
		/* A request's listener: of a union, so the verifier knows no type. */
		sk = bpf_core_cast(sk->__sk_common.skc_listener, struct sock);
	}
	cgrp = sk->sk_cgrp_data.cgroup;
	if (!cgrp)
		return LINK_NIL;
	id = cgrp->kn->id;
	c = &seen_cgroups[id % SEEN_CGROUPS];
	if (c->id != id || c->epoch != epoch) {
		c->id = id;
		c->epoch = epoch;
		c->queue = queue_of_ancestors(cgrp);
	}
	return c->queue;
}

#endif
