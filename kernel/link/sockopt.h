/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sockopt.h - a socket chooses its queue
 *
 * QLinux, section 2.3: "applications ... associated to a specific queue at a leaf node
 * (via the setsockopt system call)". The choice becomes the socket's priority, which
 * its packets carry. A program without CAP_NET_ADMIN may choose among the queues that
 * its user, its cgroup or a cgroup above was granted.
 */
#ifndef QLINUX_LINK_SOCKOPT_H
#define QLINUX_LINK_SOCKOPT_H

#define SOL_SOCKET    1
#define SO_PRIORITY   12
#define AF_INET       2
#define AF_INET6      10
#define CAP_NET_ADMIN 12

/* In the machine's own user namespace: a container's root has no say here. */
static bool privileged(struct task_struct *p)
{
	const struct cred *cred = p->cred;

	return cred && !cred->user_ns->level && cred->cap_effective.val >> CAP_NET_ADMIN & 1;
}

static bool granted(struct task_struct *p, u32 id)
{
	struct hsfq_link_grant g = {.who = p->cred->uid.val, .kind = HSFQ_LINK_UID, .queue = id};
	struct cgroup *cgrp = p->cgroups->dfl_cgrp;

	if (bpf_map_lookup_elem(&grants, &g))
		return true;
	g.kind = HSFQ_LINK_CGROUP;
	while (cgrp && can_loop) {
		g.who = cgrp->kn->id;
		if (bpf_map_lookup_elem(&grants, &g))
			return true;
		cgrp = bpf_core_cast(cgrp->self.parent, struct cgroup);
	}
	return false;
}

/* 0, or why not. */
static int attach_socket(struct bpf_sockopt *ctx, u32 sid)
{
	struct task_struct *p = bpf_get_current_task_btf();
	u32 priority = sid;

	if (ctx->sk->family != AF_INET && ctx->sk->family != AF_INET6)
		return -EINVAL;
	if (!link_by_id(&link, sid & 0xffff))
		return -ENOENT;
	if (!privileged(p) && !granted(p, sid & 0xffff))
		return -EPERM;
	return bpf_setsockopt(ctx->sk, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));
}

/* Fails with this errno. */
static __always_inline int refuse(int err)
{
	bpf_set_retval(err < 0 && err >= -4095 ? err : -EINVAL);
	return 0;
}

/* Options of others, and of other links, go their way. */
SEC("cgroup/setsockopt")
int hsfq_link_setsockopt(struct bpf_sockopt *ctx)
{
	u32 *sid = ctx->optval, none = 0;
	int err;

	if (ctx->level != SOL_HSFQ || ctx->optname != HSFQ_SO_QUEUE || ctx->optlen < 0 || !ctx->sk)
		return 1;
	if (sid + 1 > (u32 *)ctx->optval_end || ctx->optlen != sizeof(*sid))
		return refuse(-EINVAL);
	if (*sid && (*sid >> 16 != major || bpf_get_netns_cookie(ctx) != netns_cookie))
		return 1;
	err = *sid ? attach_socket(ctx, *sid)
		   : bpf_setsockopt(ctx->sk, SOL_SOCKET, SO_PRIORITY, &none, sizeof(none));
	if (err)
		return refuse(err);
	ctx->optlen = -1;
	return 1;
}

#endif
