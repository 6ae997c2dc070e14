/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * qlinux.h - the calls of the H-SFQ schedulers and of the disk scheduler Cello
 *
 * QLinux (Sundaram et al.), tables 1 to 3. A node of the CPU's scheduling
 * hierarchy is a cgroup: the node /a/b is the cgroup a/b. Each network interface
 * has a hierarchy of its own, of nodes and of queues of packets. Disks are divided
 * among three classes of requests. Link with -lqlinux; every call has a page in
 * section 3 of the manual, qlinux(3) is the overview.
 *
 * Calls return -1 and set errno when they are refused; hsfq_errmsg() then
 * tells object, reason and remedy. A call that is refused changed nothing.
 * All calls may be made from several threads at once.
 */
#ifndef QLINUX_H
#define QLINUX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The root node, wherever a node is wanted. */
#define HSFQ_ROOT 0

/* Weights, of nodes among their siblings and of threads in their leaf. */
#define HSFQ_WEIGHT_MIN     1
#define HSFQ_WEIGHT_MAX     10000
#define HSFQ_WEIGHT_DEFAULT 100
/* As the weight of a thread: that of its nice value. */
#define HSFQ_WEIGHT_NICE (-1)

/* hsfq_mknod: kinds of nodes. */
enum hsfq_node_flag {
	HSFQ_INNER = 0,    /* to be divided further; its own threads are time-shared */
	HSFQ_LEAF = 1,     /* its threads are ordered by the leaf scheduler `sid` */
	HSFQ_THREADED = 2, /* takes single threads of the processes of the node above it */
};

/* Leaf schedulers. */
enum hsfq_sid {
	HSFQ_TS = 0,   /* time sharing by nice value, the default */
	HSFQ_SFQ = 1,  /* start-time fair queueing by weight */
	HSFQ_RR = 2,   /* round robin */
	HSFQ_FIFO = 3, /* first come, first served */
	HSFQ_EDF = 4,  /* earliest deadline first */
	HSFQ_RM = 5,   /* rate monotonic */
	HSFQ_SVR4 = 6, /* System V Release 4 */
};

/* hsfq_rmnod: modes. */
enum hsfq_rm_mode {
	HSFQ_RM_EMPTY = 0, /* only a node without children and threads */
};

/* hsfq_admin: commands, and what `args` points to. */
enum hsfq_cmd {
	HSFQ_GET_WEIGHT = 1,      /* int */
	HSFQ_SET_WEIGHT = 2,      /* const int */
	HSFQ_GET_LEAF = 3,        /* int, an enum hsfq_sid */
	HSFQ_SET_LEAF = 4,        /* const int, an enum hsfq_sid */
	HSFQ_GET_INFO = 5,        /* struct hsfq_info */
	HSFQ_GET_THREAD = 6,      /* struct hsfq_thread, `tid` given */
	HSFQ_SET_THREAD = 7,      /* const struct hsfq_thread, `tid` and `weight` given */
	HSFQ_GET_RESERVATION = 8, /* struct hsfq_reservation, `tid` given */
	HSFQ_SET_RESERVATION = 9, /* const struct hsfq_reservation */
};

struct hsfq_info {
	uint32_t size;     /* in: sizeof(struct hsfq_info) */
	int32_t weight;    /* 0 for the root, which has none */
	int32_t sid;       /* enum hsfq_sid */
	uint32_t flags;    /* HSFQ_THREADED or 0 */
	uint32_t threads;  /* its own, runnable or not */
	uint32_t runnable; /* its own, runnable */
	uint32_t children; /* nodes directly below */
	uint32_t pad;
	uint64_t served_ns; /* service received by it and everything below */
	uint64_t own_ns;    /* service received by its own threads */
	uint64_t share_ppb; /* entitlement now, of one processor, in 1e-9; 0 if nothing is runnable
			     */
	uint64_t start_tag; /* in 1/1024 ns per unit of weight, modulo 2^64 */
	uint64_t vtime;     /* virtual time of its children, same unit */
	uint64_t cgroup_id;
};

struct hsfq_thread {
	int32_t tid;    /* 0: the calling thread */
	int32_t weight; /* 1 to 10000; to set also HSFQ_WEIGHT_NICE */
	uint32_t fixed; /* 1: set by hand, 0: follows the nice value */
	uint32_t pad;
	uint64_t served_ns; /* service since the scheduler knows it */
};

struct hsfq_reservation {
	int32_t tid;    /* 0: the calling thread */
	uint32_t force; /* to set: 1 even where deadlines may be missed */
	/* Of every period, the cost within the deadline; a cost of 0: nothing */
	uint64_t cost_ns;
	uint64_t period_ns;
	uint64_t deadline_ns;
	uint64_t misses; /* deadlines that passed unmet */
};

/* Creates a node below `parent`; returns its id. */
int hsfq_mknod(const char *name, int parent, unsigned weight, int flag, int sid);

/* Deletes a node. */
int hsfq_rmnod(int id, int mode);

/* Moves the calling process to a node. */
int hsfq_join_node(int id);

/* Moves a process (0: the calling one) with all its threads to a node. */
int hsfq_move(pid_t pid, int id);

/* Moves one thread (0: the calling one) to a threaded node. */
int hsfq_move_thread(pid_t tid, int id);

/* Id of a node by its path; one that does not start with / is below `hint`. */
int hsfq_parse(const char *name, int hint);

/* Path of a node into `path`; returns its length without the final NUL. */
int hsfq_path(int id, char *path, size_t size);

/* Reads or changes a node. */
int hsfq_admin(int id, int cmd, void *args);

/*
 * Packets of a network interface: table 2. An interface is named once, to get the id of
 * its root; further ids tell where they belong. Nodes and queues are numbered apart.
 */

/* hsfq_qdisc_install: flags. */
enum hsfq_qdisc_flag {
	HSFQ_QDISC_REPLACE = 1,  /* whatever queueing discipline is there */
	HSFQ_QDISC_NO_CODEL = 2, /* leave standing queues alone; else 5 ms, 100 ms (RFC 8289) */
};

struct hsfq_qdisc {
	uint32_t size;     /* sizeof(struct hsfq_qdisc) */
	uint32_t flags;    /* enum hsfq_qdisc_flag */
	uint64_t rate;     /* bytes a second, 125 to 125e9; 0: as fast as the device takes them */
	uint32_t overhead; /* bytes that a packet takes on the line besides itself, at most 1024 */
	uint32_t least;    /* bytes that it takes there at least, at most 2048 */
};

/* hsfq_link_mknod: leaf schedulers. */
enum hsfq_link_sid {
	HSFQ_LINK_FIFO = 0x101, /* packets as they came */
	HSFQ_LINK_SFQ = 0x102,  /* queues by weight */
	HSFQ_LINK_FQ = 0x103,   /* flows, by the weights of their queues */
};

/* hsfq_link_modify: what is given another value. */
enum hsfq_link_what {
	HSFQ_LINK_NODE_WEIGHT = 1,   /* 1 to 10000 */
	HSFQ_LINK_QUEUE_WEIGHT = 2,  /* 1 to 10000 */
	HSFQ_LINK_QUEUE_PACKETS = 3, /* it may hold, 1 to 65535 */
	HSFQ_LINK_QUEUE_BYTES = 4,   /* it may hold, at least 1 */
};

enum hsfq_link_kind {
	HSFQ_LINK_NODE = 1,
	HSFQ_LINK_QUEUE = 2,
};

enum hsfq_link_flag {
	HSFQ_LINK_RUNNABLE = 1, /* packets wait in it, or below it */
	HSFQ_LINK_DEFAULT = 2,  /* the queue of packets that nothing else is said of */
};

/* A node or a queue. */
struct hsfq_link_record {
	int32_t id;
	int32_t parent;       /* the node above; 0: the root, or a queue attached nowhere */
	uint32_t kind;        /* enum hsfq_link_kind */
	uint32_t depth;       /* 0: the root; of a queue one more than of its leaf */
	int32_t weight;       /* 0 for the root, which has none */
	int32_t sid;          /* node: enum hsfq_link_sid; 0: an inner one */
	uint32_t flags;       /* enum hsfq_link_flag */
	uint32_t users;       /* queue: rules, cgroups and the like that send packets to it */
	uint32_t packets;     /* waiting */
	uint32_t packets_max; /* queue: it may hold */
	uint64_t bytes;       /* waiting */
	uint64_t bytes_max;   /* queue: it may hold */
	uint64_t served;      /* node: bytes on the line */
	/*
	 * Since a queue was created; of a node the sum of the queues that are below it, of
	 * the root all since the install: enqueued = sent + refused + dropped + waiting.
	 */
	uint64_t enqueued, enqueued_bytes;
	uint64_t sent, sent_bytes;
	uint64_t refused, refused_bytes; /* dropped as they came */
	uint64_t dropped, dropped_bytes; /* dropped later */
	char name[64];                   /* empty: the root, or a leaf's own queue */
};

/* setsockopt(fd, SOL_HSFQ, HSFQ_SO_QUEUE, &queue, sizeof(int)): what the socket sends
 * goes to that queue; 0: not any more. */
#define SOL_HSFQ      0x5153
#define HSFQ_SO_QUEUE 1

/* Makes an interface's root queueing discipline H-SFQ; NULL: an options structure of zeros. */
int hsfq_qdisc_install(const char *device, const struct hsfq_qdisc *options);

/* Takes it off, and puts back what was there. */
int hsfq_qdisc_remove(const char *device);

/* Id of the root at an interface. */
int hsfq_link_getroot(const char *device);

/* Id of a node by its path; one that does not start with / is below `hint`. */
int hsfq_link_parsenode(const char *name, int hint);

/* Creates a node below `parent`; returns its id. */
int hsfq_link_mknod(const char *name, int parent, unsigned weight, int flag, int sid);

/* Deletes a node. */
int hsfq_link_rmnod(int id, int mode);

/* Creates a queue at the interface of `node`, attached nowhere; returns its id. */
int hsfq_link_createq(const char *name, int node, unsigned weight);

/* Attaches a queue to a leaf. */
int hsfq_link_attachq(int queue, int leaf);

/* Moves a queue from the leaf where it is attached to another. */
int hsfq_link_moveq(int queue, int leaf);

/* Deletes a queue. */
int hsfq_link_rmq(int queue);

/* Changes a weight or limit of a node or queue. */
int hsfq_link_modify(int id, int what, uint64_t value);

/* Writes up to `max` records, of `size` bytes each, of a node, its queues and all below;
 * returns how many there are. */
int hsfq_link_status(int node, struct hsfq_link_record *records, size_t size, size_t max);

/* Attaches a socket to a queue, 0: to none. As setsockopt: -1 and errno, no sentence. */
static inline int hsfq_link_attach_socket(int fd, int queue)
{
	return setsockopt(fd, SOL_HSFQ, HSFQ_SO_QUEUE, &queue, sizeof(queue));
}

/*
 * Requests of disks: table 3. A disk is named as the kernel does, sda, or by its device,
 * /dev/sda; a partition means its disk. Classes are those of qlinux-cello(7).
 */

enum cello_class {
	CELLO_INTERACTIVE = 0, /* short response times */
	CELLO_THROUGHPUT = 1,  /* much data */
	CELLO_REALTIME = 2,    /* each request before its deadline */
	CELLO_NONE = 3,        /* as what has no class: `unclassified` of the disk */
};

/* Deadlines, in milliseconds from a request's arrival; 0: the disk's default. */
#define CELLO_DEADLINE_MIN 1
#define CELLO_DEADLINE_MAX 49152

/* cello_admin: commands, and what `args` points to. */
enum cello_cmd {
	CELLO_GET_WEIGHT = 1,   /* int */
	CELLO_SET_WEIGHT = 2,   /* const int, 0 to 10000 */
	CELLO_GET_DEADLINE = 3, /* long, in milliseconds */
	CELLO_SET_DEADLINE = 4, /* const long, in milliseconds; of CELLO_REALTIME only */
	CELLO_GET_STATUS = 5,   /* struct cello_status */
};

struct cello_status {
	uint32_t size;   /* in: sizeof(struct cello_status) */
	uint32_t weight; /* of the class */
	/* Of the class, since the start. */
	uint64_t requests; /* served */
	uint64_t time_us;  /* the disk's time for them */
	uint64_t waiting;  /* now */
	uint64_t late;     /* CELLO_REALTIME: done after their deadline */
	uint64_t broken;   /* of those, promised in time for all that estimates are off by */
	/* Of the disk. */
	uint64_t round_us;    /* length of a round */
	uint64_t rounds;      /* since the start */
	uint64_t bypassed;    /* requests that bypassed Cello, since the start */
	uint64_t error_us;    /* mean error of the estimates of a request's time, now */
	uint32_t in_flight;   /* requests that it is given at a time, now */
	uint32_t deadline_ms; /* of real-time requests without one of their own */
};

/* open(2) a file whose requests by cello_read and cello_write are of that class. */
int cello_open(const char *path, int flags, int class_id, mode_t mode);

/* close(2) a file of cello_open. */
int cello_close(int fd);

/* read(2) and write(2) in the file's class; a deadline takes CELLO_REALTIME. */
ssize_t cello_read(int fd, void *buf, size_t count, long deadline_ms);
ssize_t cello_write(int fd, const void *buf, size_t count, long deadline_ms);

/* Gives a process (0: the calling one), with all its threads, a class; its children inherit it. */
int cello_set_class(pid_t pid, int class_id);

/* The class of a process, an enum cello_class. */
int cello_get_class(pid_t pid);

/* Reads or changes a class of a disk. */
int cello_admin(const char *dev, int class_id, int cmd, void *args);

/* Makes Cello a disk's scheduler. */
int cello_start(const char *dev);

/* Takes it off, and puts back what was there. */
int cello_stop(const char *dev);

/* Changes the length of a disk's rounds: 1000 to 10000000. */
int cello_round(const char *dev, unsigned long round_us);

/* The I/O priority of one asynchronous request, for aio_reqprio and an io_uring_sqe's ioprio. */
int cello_ioprio(int class_id, long deadline_ms);

/* What the last refused call of this thread was refused for, in one sentence. */
const char *hsfq_errmsg(void);

#ifdef __cplusplus
}
#endif

#endif
