/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * qlinux.h - the calls of the H-SFQ CPU scheduler
 *
 * QLinux (Sundaram et al.), table 1. A node of the scheduling hierarchy is a
 * cgroup: the node /a/b is the cgroup a/b. Link with -lqlinux; every call has a
 * page in section 3 of the manual, qlinux(3) is the overview.
 *
 * Calls return -1 and set errno when they are refused; hsfq_errmsg() then
 * tells object, reason and remedy. A call that is refused changed nothing.
 * All calls may be made from several threads at once.
 */
#ifndef QLINUX_H
#define QLINUX_H

#include <stddef.h>
#include <stdint.h>
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

/* What the last refused call of this thread was refused for, in one sentence. */
const char *hsfq_errmsg(void);

#ifdef __cplusplus
}
#endif

#endif
