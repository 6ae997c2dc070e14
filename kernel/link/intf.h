/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * intf.h - what the packet scheduler of an interface and user space say to each other
 *
 * Included by the BPF program and mirrored, with sizes asserted on both sides, by the
 * Rust library. Sizes are multiples of 8 and hold no pointers. Each hsfq_link_ctl_*
 * structure is the context of the "syscall" program of that name; the program's return
 * value is 0 or a negative errno. A node is named by its index in the tree, a queue by
 * 16 bits that core/link/link.h calls its id.
 */
#ifndef QLINUX_LINK_INTF_H
#define QLINUX_LINK_INTF_H

enum {
	HSFQ_LINK_VERSION = 2,
	HSFQ_LINK_NAME = 64,  /* bytes of a node's or queue's name, zeros behind it */
	HSFQ_LINK_NODES = 4,  /* in one answer: as many copies of what fills one in (control.h) */
	HSFQ_LINK_QUEUES = 4, /* likewise */
	HSFQ_LINK_RULES = 256,
	HSFQ_LINK_WAITS = 256,
};

/* setsockopt(socket, SOL_HSFQ, HSFQ_SO_QUEUE, &sid, 4): the socket's packets go to that
 * queue; the upper half of sid is the qdisc's major number, the lower one the queue's
 * id. 0: not any more. */
#define SOL_HSFQ      0x5153
#define HSFQ_SO_QUEUE 1

/* What became of the qdisc. In .bss as `hsfq_link_state`. */
struct hsfq_link_state {
	u64 qdisc;    /* it exists; 0: not yet, or not any more */
	u64 begun_ns; /* CLOCK_MONOTONIC, 0: it never existed */
	u64 ended_ns; /* 0: it did not end */
	u64 unlocked; /* packets refused because control was at the tree for too long */
	u64 unlocked_bytes;
	u64 trace_lost; /* trace records that found the buffer full */
};

enum hsfq_link_op {
	HSFQ_LINK_ADD = 1,
	HSFQ_LINK_DEL = 2,
	HSFQ_LINK_SET = 3,
	HSFQ_LINK_GET = 4,
	HSFQ_LINK_ATTACH = 5, /* of a queue, to a leaf */
};

struct hsfq_link_ctl_node {
	u32 op;     /* add, del, set (the weight) */
	u32 node;   /* in; add: out */
	u32 parent; /* add */
	u32 weight; /* add, set */
	u32 leaf;   /* add: enum link_discipline */
	u32 pad;
	u64 name[HSFQ_LINK_NAME / 8]; /* add */
};

enum hsfq_link_set_queue {
	HSFQ_LINK_SET_WEIGHT = 1,
	HSFQ_LINK_SET_LIMITS = 2,
};

struct hsfq_link_ctl_queue {
	u32 op;     /* add, del, set, attach */
	u32 queue;  /* id, in; add: out */
	u32 leaf;   /* attach */
	u32 weight; /* add, set */
	u32 set;    /* enum hsfq_link_set_queue */
	u32 packets_max;
	u64 bytes_max;
	u64 name[HSFQ_LINK_NAME / 8]; /* add */
};

enum hsfq_link_set_link {
	HSFQ_LINK_SET_RATE = 1,
	HSFQ_LINK_SET_CODEL = 2,
	HSFQ_LINK_SET_DEFAULT = 4,
};

/* The link as a whole: what `set` names is changed, then all is told. */
struct hsfq_link_ctl_link {
	u32 set;       /* enum hsfq_link_set_link */
	u32 standard;  /* id of the queue of packets that nothing else is said of */
	u64 rate;      /* bytes a second, 0: what the device takes */
	u32 overhead;  /* bytes a packet adds on the line */
	u32 least;     /* bytes a packet takes there at least */
	u64 target_ns; /* CoDel's, 0: off */
	u64 interval_ns;
	u64 time_ns;             /* out, as all that follows: CLOCK_MONOTONIC */
	u32 packets, rules;      /* queued; in force */
	u64 bytes;               /* queued */
	struct link_counts gone; /* of queues that were removed */
	struct hsfq_link_state state;
};

struct hsfq_link_ctl_rule {
	u32 op;    /* add (before the rule at `at`), del, get */
	u32 at;    /* from 0 */
	u32 count; /* out */
	u32 pad;
	struct rule rule; /* add; get: out. Its queue is an id. */
};

/* Sockets of the cgroup, and of those below it that are not named, go to the queue. */
struct hsfq_link_ctl_cgroup {
	u64 cgroup_id;
	u32 queue; /* id; 0: not any more */
	u32 pad;
};

struct hsfq_link_node {
	u64 served; /* bytes on the line, of all below it */
	u32 node;   /* 0: it went just now */
	u32 parent; /* 0: this is the root */
	u32 weight;
	u32 leaf;     /* enum link_discipline */
	u32 runnable; /* a packet is queued below it, or on its way */
	u32 queues;   /* attached to it */
	u64 name[HSFQ_LINK_NAME / 8];
};

/* The next nodes of the tree. */
struct hsfq_link_ctl_nodes {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u32 from;    /* in: nodes from this index on, first 0; out: the next one, 0: that was all */
	u32 count;   /* records filled in */
	struct hsfq_link_node record[HSFQ_LINK_NODES];
};

struct hsfq_link_queue {
	struct link_counts counts;
	u64 bytes, bytes_max;
	u32 packets, packets_max; /* queued */
	u32 queue;                /* id, 0: it went just now */
	u32 leaf;                 /* where it is attached, 0: nowhere */
	u32 weight;
	u32 users;                  /* rules and cgroups that send packets to it */
	u32 waits[HSFQ_LINK_WAITS]; /* core/cpu/waits.h: from coming to being sent */
	u64 name[HSFQ_LINK_NAME / 8];
};

/* The next queues. */
struct hsfq_link_ctl_queues {
	u64 time_ns;
	u32 from; /* as above, by number */
	u32 count;
	struct hsfq_link_queue record[HSFQ_LINK_QUEUES];
};

/* Who may attach sockets to a queue: key of the map `grants`. */
enum hsfq_link_who {
	HSFQ_LINK_UID = 1,
	HSFQ_LINK_CGROUP = 2, /* processes of that cgroup, and of those below it */
};

struct hsfq_link_grant {
	u64 who;   /* uid or cgroup id */
	u32 kind;  /* enum hsfq_link_who */
	u32 queue; /* id */
};

/* Trace records, in the ring buffer `hsfq_link_trace`: a packet that left. */
struct hsfq_link_trace_record {
	u64 time_ns;    /* CLOCK_MONOTONIC: it was let go, or dropped */
	u64 arrived_ns; /* it was queued */
	u32 queue;      /* its id */
	u32 line;       /* it was in, a leaf of the tree */
	u32 length;     /* bytes on the line */
	u32 dropped;
};

#endif
