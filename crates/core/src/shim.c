// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Gives the static inline functions of core/ names that Rust can link to. The
 * layout tables let Rust check its own idea of the structures against C's.
 */
#include <stddef.h>

#include "quantum.h"

/* The formatter does not settle on a layout of this list. */
/* clang-format off */
#define NODE_FIELDS(X) \
	X(flow) X(clock) X(order) X(tail) X(served_ns) X(weight) \
	X(flags) X(parent) X(depth) X(heap) X(up) X(left) \
	X(right) X(who) X(slot) X(children) X(runnable) X(weights) \
	X(threads) X(waiting) X(policy) X(generation) X(next)
/* clang-format on */

#define NODE_OFFSET(field) offsetof(struct hsfq_node, field),

/* struct Tunables in leaf.rs, in its order. */
const u64 qcore_tunables[] = {
	LEAF_QUANTUM_NS,       LEAF_RR_QUANTUM_NS,
	LEAF_TS_CREDIT_NS,     QUANTUM_PERIOD_MIN_NS,
	QUANTUM_PERIOD_MAX_NS, QUANTUM_PERIOD_LEAF_NS,
	QUANTUM_MIN_NS,        QUANTUM_ALONE_NS,
	QUANTUM_PEACE_NS,      SFQ_LAG_NS,
};

/* Sizes first, then offsets in order of declaration, then capacities. */
const size_t qcore_layout[] = {
	sizeof(struct sfq_flow),
	sizeof(struct sfq_clock),
	sizeof(struct hsfq_node),
	sizeof(struct hsfq_tree),
	sizeof(struct leaf_thread),
	offsetof(struct sfq_flow, rem),
	offsetof(struct sfq_flow, epoch),
	offsetof(struct sfq_clock, max_finish),
	offsetof(struct sfq_clock, epoch),
	NODE_FIELDS(NODE_OFFSET) offsetof(struct hsfq_tree, free),
	offsetof(struct hsfq_tree, unused),
	offsetof(struct hsfq_tree, nodes),
	offsetof(struct hsfq_tree, runnable),
	offsetof(struct hsfq_tree, node),
	offsetof(struct leaf_thread, weight),
	offsetof(struct leaf_thread, generation),
	offsetof(struct leaf_thread, left_ns),
	HSFQ_NODES,
	HSFQ_DEPTH_MAX,
	SFQ_WEIGHT_MIN,
	SFQ_WEIGHT_MAX,
	SFQ_SHIFT,
	SFQ_LENGTH_MAX_NS,
	sizeof(qcore_tunables),
};
const size_t qcore_layout_len = sizeof(qcore_layout) / sizeof(qcore_layout[0]);

/* clang-format off */
void qcore_init(hsfq_tree_t *t) { hsfq_init(t); }
int qcore_mknod(hsfq_tree_t *t, u32 parent, u32 weight, u32 flags) { return hsfq_mknod(t, parent, weight, flags); }
int qcore_rmnod(hsfq_tree_t *t, u32 n) { return hsfq_rmnod(t, n); }
int qcore_set_weight(hsfq_tree_t *t, u32 n, u32 weight) { return hsfq_set_weight(t, n, weight); }
void qcore_setrun(hsfq_tree_t *t, u32 leaf) { hsfq_setrun(t, leaf); }
void qcore_sleep(hsfq_tree_t *t, u32 leaf) { hsfq_sleep(t, leaf); }
void qcore_ready(hsfq_tree_t *t, u32 leaf) { hsfq_ready(t, leaf); }
void qcore_busy(hsfq_tree_t *t, u32 leaf) { hsfq_busy(t, leaf); }
u32 qcore_schedule(hsfq_tree_t *t) { return hsfq_schedule(t); }
void qcore_update(hsfq_tree_t *t, u32 leaf, u64 ns) { hsfq_update(t, leaf, ns); }
u64 qcore_share(hsfq_tree_t *t, u32 leaf, u64 ns) { return hsfq_share(t, leaf, ns); }
bool qcore_contended(hsfq_tree_t *t, u32 leaf) { return hsfq_contended(t, leaf); }
void qcore_retire(hsfq_tree_t *t, u32 n) { hsfq_retire(t, n); }
bool qcore_precedes(hsfq_tree_t *t, u32 w, u32 r, u64 ns) { return hsfq_precedes(t, w, r, ns); }

void qcore_leaf_join(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th) { leaf_join(t, leaf, th); }
void qcore_leaf_leave(hsfq_tree_t *t, u32 leaf) { leaf_leave(t, leaf); }
void qcore_leaf_arrive(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th) { leaf_arrive(t, leaf, th); }
void qcore_leaf_depart(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th) { leaf_depart(t, leaf, th); }
void qcore_leaf_wait(hsfq_tree_t *t, u32 leaf) { leaf_wait(t, leaf); }
void qcore_leaf_unwait(hsfq_tree_t *t, u32 leaf) { leaf_unwait(t, leaf); }
u32 qcore_leaf_pass(hsfq_tree_t *t, u32 leaf, u32 passed) { return leaf_pass(t, leaf, passed); }
u32 qcore_leaf_restore(hsfq_tree_t *t, u32 passed) { return leaf_restore(t, passed); }
void qcore_leaf_serve(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th) { leaf_serve(t, leaf, th); }
void qcore_leaf_charge(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 ns) { leaf_charge(t, leaf, th, ns); }
u64 qcore_leaf_ahead(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 ns) { return leaf_ahead(&t->node[leaf], th, ns); }
u64 qcore_leaf_slice(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th) { return leaf_slice(&t->node[leaf], th); }
int qcore_leaf_set_policy(hsfq_tree_t *t, u32 leaf, u32 policy) { return leaf_set_policy(t, leaf, policy); }
int qcore_leaf_set_weight(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u32 weight, bool runnable) { return leaf_set_weight(t, leaf, th, weight, runnable); }
u64 qcore_quantum_of(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th) { return quantum_of(t, leaf, th).length_ns; }
u64 qcore_quantum_left(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting, u32 leaf, leaf_thread_t *th, u64 ns) { return quantum_left(t, waiting_leaf, waiting, leaf, th, ns).length_ns; }
/* clang-format on */
