// SPDX-License-Identifier: MIT OR Apache-2.0
/* shim.c's counterpart for the packets of a link (core/link/link.h). */
#include <stddef.h>

#include "link/link.h"

/* Sizes and offsets that link.rs checks its own idea against, then capacities. */
const size_t qcore_link_layout[] = {
	sizeof(struct link_counts),
	offsetof(struct link_counts, dropped_bytes),
	sizeof(struct link_next),
	offsetof(struct link_next, wait_ns),
	sizeof(struct codel),
	sizeof(struct codel_goal),
	LINK_PACKETS,
	LINK_QUEUES,
	LINK_LINES,
};
const size_t qcore_link_layout_len = sizeof(qcore_link_layout) / sizeof(qcore_link_layout[0]);

/* clang-format off */
size_t qcore_link_size(void) { return sizeof(struct link); }
void qcore_link_init(link_t *l) { link_init(l); }
int qcore_link_mknod(link_t *l, u32 parent, u32 weight) { return link_mknod(l, parent, weight); }
int qcore_link_mkleaf(link_t *l, u32 parent, u32 weight, u32 discipline) { return link_mkleaf(l, parent, weight, discipline); }
int qcore_link_rmnod(link_t *l, u32 n) { return link_rmnod(l, n); }
int qcore_link_set_weight(link_t *l, u32 n, u32 weight) { return link_set_weight(l, n, weight); }
int qcore_link_createq(link_t *l, u32 weight) { return link_createq(l, weight); }
int qcore_link_set_weightq(link_t *l, u32 q, u32 weight) { return link_set_weightq(l, q, weight); }
int qcore_link_attachq(link_t *l, u32 q, u32 leaf) { return link_attachq(l, q, leaf); }
int qcore_link_rmq(link_t *l, u32 q) { return link_rmq(l, q); }
int qcore_link_limitq(link_t *l, u32 q, u32 packets, u64 bytes) { return link_limitq(l, q, packets, bytes); }
int qcore_link_pace(link_t *l, u64 rate, u32 overhead, u32 least, u64 now_ns) { return pace_set(&l->pace, rate, overhead, least, now_ns); }
void qcore_link_goal(link_t *l, struct codel_goal goal) { l->goal = goal; }
u32 qcore_link_length(link_t *l, u32 bytes, u32 segments) { return pace_length(&l->pace, bytes, segments); }
u32 qcore_link_enqueue(link_t *l, u32 q, u32 hash, u32 bytes, u32 length, u64 now_ns) { return link_enqueue(l, q, hash, bytes, length, now_ns); }
struct link_next qcore_link_dequeue(link_t *l, u64 now_ns) { return link_dequeue(l, now_ns); }
u32 qcore_link_flush(link_t *l) { return link_flush(l); }
void qcore_link_counts(const link_t *l, u32 q, struct link_counts *to) { *to = q ? l->queue[q].counts : l->gone; }
bool qcore_link_queue_valid(link_t *l, u32 q) { return link_queue_valid(l, q); }
u32 qcore_link_queued(const link_t *l, u32 q) { return q ? l->queue[q].packets : l->packets; }
u64 qcore_link_bytes(const link_t *l, u32 q) { return q ? l->queue[q].bytes : l->bytes; }
u32 qcore_link_lines(const link_t *l) { return l->lines; }
u64 qcore_link_served(link_t *l, u32 n) { if (l->owed) link_stay(l); hsfq_settle(&l->tree); return hsfq_valid(&l->tree, n) ? l->tree.node[n].served_ns : 0; }
bool qcore_codel_drop(struct codel *c, struct codel_goal *goal, u64 waited_ns, u64 bytes_left, u32 longest, u64 now_ns) { return codel_drop(c, goal, waited_ns, bytes_left, longest, now_ns); }
/* clang-format on */
