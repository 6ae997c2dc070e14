// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Gives the static inline functions of core/ names that Rust can link to. The
 * layout tables let Rust check its own idea of the structures against C's.
 */
#include <stddef.h>

#include "cpu/ledger.h"
#include "cpu/lend.h"
#include "cpu/quantum.h"
#include "cpu/speed.h"
#include "cpu/rescue.h"
#include "cpu/sched.h"
#include "tree/readjust.h"
#include "cpu/waits.h"

/* The formatter does not settle on a layout of this list. */
/* clang-format off */
#define NODE_FIELDS(X) \
	X(flow) X(clock) X(order) X(tail) X(served_ns) X(base) X(since_ns) X(misses) \
	X(mean_base) X(mean_sum) X(mean_weights) X(weight) X(flags) X(parent) X(depth) X(heap) X(up) X(left) \
	X(right) X(who) X(slot) X(children) X(runnable) X(weights) \
	X(threads) X(waiting) X(policy) X(generation) X(next)
void qcore_leaf_yield(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns) { leaf_yield(t, leaf, th, now_ns); }
bool qcore_rescue_waits(bool dies, bool inside, u32 *quanta) { return rescue_waits(dies, inside, quanta); }
bool qcore_rescue_reads_on(u64 steps) { return rescue_reads_on(steps); }
bool qcore_rescue_now(u64 waited_ns, bool held, bool dies, bool inside, bool reads, u32 *left) { return rescue_now(waited_ns, held, dies, inside, reads, left); }
/* clang-format on */

#define SERVER_FIELDS(X)                                                                           \
	X(straight)                                                                                \
	X(since_ns) X(until_ns) X(due_ns) X(calm_ns) X(next_ns) X(next) X(passed) X(ending) X(steps)
#define SERVER_OFFSET(field) offsetof(struct sched_server, field),
#define NODE_OFFSET(field)   offsetof(struct hsfq_node, field),

void qcore_speed_init(cpu_speed_t *p, u64 now_ns)
{
	speed_init(p, now_ns);
}
void qcore_speed_rests(cpu_speed_t *p, u64 now_ns)
{
	speed_rests(p, now_ns);
}
void qcore_speed_serves(cpu_speed_t *p, u64 now_ns)
{
	speed_serves(p, now_ns);
}
u32 qcore_speed_see(cpu_speed_t *p, u32 speed, u64 now_ns)
{
	return speed_see(p, speed, now_ns);
}
bool qcore_speed_over(cpu_speed_t *p, u64 now_ns)
{
	return speed_over(p, now_ns);
}

/* struct Tunables in leaf.rs, in its order. */
const u64 qcore_tunables[] = {
	LEAF_QUANTUM_NS,       LEAF_RR_QUANTUM_NS,    LEAF_ROUND_NS,          LEAF_TURN_MIN_NS,
	QUANTUM_PERIOD_MIN_NS, QUANTUM_PERIOD_MAX_NS, QUANTUM_PERIOD_LEAF_NS, QUANTUM_MIN_NS,
	QUANTUM_ALONE_NS,      QUANTUM_PEACE_NS,      QUANTUM_PEACE_SERVERS,  SFQ_LAG_NS,
	SFQ_LAG_OLD_NS,        SFQ_CREDIT_NS,         QUANTUM_PROMPT_NS,      QUANTUM_TURNS_AHEAD,
	SFQ_LAG_SERVERS,       LEAF_RESTED_NS,        LEAF_NEAR_NS,           QUANTUM_EAGER,
	QUANTUM_CALM_NS,       LEAF_YIELD_NS,         SCHED_OTHERS,           LEDGER_OWED_NS,
	LEDGER_TURNS_NS,       LEDGER_PERIOD_NS,
};

/* Sizes first, then offsets in order of declaration, then capacities. */
const size_t qcore_layout[] = {
	sizeof(struct sfq_flow),
	sizeof(struct sfq_clock),
	sizeof(struct hsfq_node),
	sizeof(struct hsfq_tree),
	sizeof(struct leaf_thread),
	sizeof(struct budget),
	offsetof(struct sfq_flow, rem),
	offsetof(struct sfq_flow, epoch),
	offsetof(struct sfq_clock, max_finish),
	offsetof(struct sfq_clock, arrival),
	offsetof(struct sfq_clock, epoch),
	NODE_FIELDS(NODE_OFFSET) offsetof(struct hsfq_tree, early),
	offsetof(struct hsfq_tree, release_ns),
	offsetof(struct hsfq_tree, free),
	offsetof(struct hsfq_tree, unused),
	offsetof(struct hsfq_tree, nodes),
	offsetof(struct hsfq_tree, runnable),
	offsetof(struct hsfq_tree, limited),
	offsetof(struct hsfq_tree, held),
	offsetof(struct hsfq_tree, idle),
	offsetof(struct hsfq_tree, servers),
	offsetof(struct hsfq_tree, passed),
	offsetof(struct hsfq_tree, solo),
	offsetof(struct hsfq_tree, owed_ns),
	offsetof(struct hsfq_tree, seen_ns),
	offsetof(struct hsfq_tree, node),
	offsetof(struct hsfq_tree, budget),
	offsetof(struct leaf_thread, weight),
	offsetof(struct leaf_thread, generation),
	offsetof(struct leaf_thread, left_ns),
	offsetof(struct leaf_thread, early),
	offsetof(struct leaf_thread, deadline_ns),
	offsetof(struct leaf_thread, misses),
	offsetof(struct leaf_thread, class),
	offsetof(struct leaf_thread, level),
	offsetof(struct leaf_thread, planned_ns),
	offsetof(struct leaf_thread, lag),
	offsetof(struct leaf_thread, mean_tag),
	offsetof(struct leaf_thread, mean_weight),
	offsetof(struct leaf_thread, mean_generation),
	offsetof(struct budget, period_ns),
	offsetof(struct budget, burst_ns),
	offsetof(struct budget, left_ns),
	offsetof(struct budget, over_ns),
	offsetof(struct budget, end_ns),
	offsetof(struct budget, since_ns),
	offsetof(struct budget, times),
	offsetof(struct budget, held_ns),
	HSFQ_NODES,
	HSFQ_DEPTH_MAX,
	SFQ_WEIGHT_MIN,
	SFQ_WEIGHT_MAX,
	SFQ_SHIFT,
	SFQ_LENGTH_MAX_NS,
	sizeof(qcore_tunables),
	sizeof(struct readjust),
	offsetof(struct readjust, share),
	offsetof(struct readjust, weight),
	offsetof(struct readjust, full),
	sizeof(struct sched_server),
	SERVER_FIELDS(SERVER_OFFSET) sizeof(struct cpu_speed),
	offsetof(struct cpu_speed, busy_ns),
	offsetof(struct cpu_speed, idle_ns),
	offsetof(struct cpu_speed, need),
	offsetof(struct cpu_speed, over),
	READJUST_CPU,
	READJUST_MAX,
	WAITS_BUCKETS,
	sizeof(waits_t),
	LEDGER_CPU,
	LEDGER_DOMAINS,
	LEDGER_PERIOD_NS,
	HSFQ_WEIGHT_MAX,
};
const size_t qcore_layout_len = sizeof(qcore_layout) / sizeof(qcore_layout[0]);

/* The child's tags, and the clock of its siblings, as hsfq_settle would make them. */
static void settled(const hsfq_tree_t *t, u32 n, struct sfq_flow *flow, struct sfq_clock *clock)
{
	hsfq_node_t h = t->node[n], p = t->node[h.parent];
	u64 seen_ns = hsfq_length(&h, t->seen_ns);
	u64 rest_ns = hsfq_length(&h, t->owed_ns - t->seen_ns);

	*flow = h.flow;
	*clock = p.clock;
	sfq_charge(clock, flow, seen_ns, 0, h.weight, 1, p.runnable, p.weights);
	sfq_serve(clock, flow->start);
	sfq_charge(clock, flow, rest_ns, 0, h.weight, 1, p.runnable, p.weights);
}

/* A node as it is after hsfq_settle, which is not called: the tests look at nodes
 * all the time, and what is charged later shall be. */
void qcore_node(const hsfq_tree_t *t, u32 n, struct hsfq_node *to)
{
	u32 child = t->solo, below = HSFQ_NIL;
	struct sfq_clock clock;
	struct sfq_flow flow;

	*to = t->node[n];
	while (child != n && child > HSFQ_ROOT) {
		below = child;
		child = t->node[child].parent;
	}
	if (!t->solo || child != n)
		return;
	to->served_ns += t->owed_ns;
	if (n != HSFQ_ROOT)
		settled(t, n, &to->flow, &clock);
	if (below)
		settled(t, below, &flow, &to->clock);
}

/* clang-format off */
void qcore_init(hsfq_tree_t *t) { hsfq_init(t); }
int qcore_mknod(hsfq_tree_t *t, u32 parent, u32 weight, u32 flags) { return hsfq_mknod(t, parent, weight, flags); }
int qcore_rmnod(hsfq_tree_t *t, u32 n) { return hsfq_rmnod(t, n); }
int qcore_set_weight(hsfq_tree_t *t, u32 n, u32 weight) { return hsfq_set_weight(t, n, weight); }
void qcore_weigh(hsfq_tree_t *t, u32 n, u32 weight) { hsfq_weigh(t, n, weight); }
void qcore_setrun(hsfq_tree_t *t, u32 leaf) { hsfq_setrun(t, leaf); }
void qcore_sleep(hsfq_tree_t *t, u32 leaf) { hsfq_sleep(t, leaf); }
void qcore_ready(hsfq_tree_t *t, u32 leaf) { hsfq_ready(t, leaf); }
void qcore_busy(hsfq_tree_t *t, u32 leaf) { hsfq_busy(t, leaf); }
u32 qcore_schedule(hsfq_tree_t *t) { return hsfq_schedule(t); }
u32 qcore_schedule_but(hsfq_tree_t *t) { return hsfq_schedule_but(t); }
void qcore_update(hsfq_tree_t *t, u32 leaf, u64 ns) { hsfq_update(t, leaf, ns, 0); }
u64 qcore_share(hsfq_tree_t *t, u32 leaf, u64 ns) { return hsfq_share(t, leaf, ns); }
bool qcore_contended(hsfq_tree_t *t, u32 leaf) { return hsfq_contended(t, leaf); }
int qcore_idle_set(hsfq_tree_t *t, u32 n, bool idle, u32 weight) { return idle_set(t, n, idle, weight); }
int qcore_limit_set(hsfq_tree_t *t, u32 n, u64 quota_ns, u64 period_ns, u64 burst_ns, u64 now) { return limit_set(t, n, quota_ns, period_ns, burst_ns, now); }
bool qcore_limit_release(hsfq_tree_t *t, u32 n, u64 now) { return limit_release(t, n, now); }
bool qcore_limit_held(hsfq_tree_t *t, u32 n) { return limit_held(t, n); }
u64 qcore_limit_left(hsfq_tree_t *t, u32 n) { return limit_left(t, n); }
void qcore_retire(hsfq_tree_t *t, u32 n) { hsfq_retire(t, n); }
bool qcore_precedes(hsfq_tree_t *t, u32 w, u32 r, u64 ns) { return hsfq_precedes(t, w, r, ns, 0); }

void qcore_leaf_join(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th) { leaf_join(t, leaf, th); }
void qcore_leaf_leave(hsfq_tree_t *t, u32 leaf) { leaf_leave(t, leaf); }
void qcore_leaf_arrive(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns) { leaf_arrive(t, leaf, th, now_ns); }
void qcore_leaf_depart(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th) { leaf_depart(t, leaf, th, 0); }
bool qcore_leaf_pack(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, bool runnable) { return leaf_pack(&t->node[leaf], th, runnable); }
void qcore_leaf_unpack(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, bool runnable, s64 ahead_ns, u64 now_ns) { leaf_enter(t, leaf, th, LEAF_PACKED, runnable, ahead_ns, now_ns); }
void qcore_leaf_wait(hsfq_tree_t *t, u32 leaf) { leaf_wait(t, leaf); }
void qcore_leaf_unwait(hsfq_tree_t *t, u32 leaf) { leaf_unwait(t, leaf); }
void qcore_leaf_take(hsfq_tree_t *t, u32 leaf) { leaf_take(t, leaf); }
u32 qcore_leaf_pass(hsfq_tree_t *t, u32 leaf, u32 passed) { return leaf_pass(t, leaf, passed); }
u32 qcore_leaf_restore(hsfq_tree_t *t, u32 passed) { return leaf_restore(t, passed); }
void qcore_leaf_serve(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 planned_ns) { leaf_serve(t, leaf, th, planned_ns); }
bool qcore_leaf_outranks(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u32 chosen, u32 running_leaf, leaf_thread_t *running, u64 ns, u64 now_ns) { return leaf_outranks(t, leaf, th, chosen, running_leaf, running, ns, now_ns); }
void qcore_leaf_charge(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 ns, u64 now_ns) { leaf_charge(t, leaf, th, ns, now_ns); }
u64 qcore_leaf_ahead(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 ns, u64 now_ns) { return leaf_ahead(&t->node[leaf], th, ns, now_ns); }
u64 qcore_leaf_slice(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns) { return leaf_slice(&t->node[leaf], th, now_ns); }
int qcore_leaf_set_policy(hsfq_tree_t *t, u32 leaf, u32 policy, u64 now_ns) { return leaf_set_policy(t, leaf, policy, now_ns); }
int qcore_leaf_set_weight(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u32 weight, bool runnable) { return leaf_set_weight(t, leaf, th, weight, runnable); }
u64 qcore_quantum_of(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns) { return quantum_of(t, leaf, th, now_ns).length_ns; }
bool qcore_quantum_overtakes(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting, u32 leaf, leaf_thread_t *th, u64 ns, u64 now_ns) { return quantum_overtakes(t, waiting_leaf, waiting, leaf, th, ns, now_ns); }
u64 qcore_quantum_left(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting, u32 leaf, leaf_thread_t *th, u64 ns, u64 now_ns, bool eager) { return quantum_left(t, waiting_leaf, waiting, leaf, th, ns, now_ns, eager).length_ns; }
bool qcore_quantum_eager(u64 calm_ns, u64 now_ns) { return quantum_eager(calm_ns, now_ns); }
u64 qcore_quantum_calm(u64 calm_ns, u64 now_ns) { return quantum_calm(calm_ns, now_ns); }
bool qcore_quantum_ends(hsfq_tree_t *t, u32 waiting_leaf, leaf_thread_t *waiting, u32 leaf, leaf_thread_t *th, u64 ns, u64 now_ns, bool eager) { return quantum_ends(t, waiting_leaf, waiting, leaf, th, ns, now_ns, eager); }
u64 qcore_leaf_near(hsfq_tree_t *t, u32 leaf) { return leaf_near(&t->node[leaf]); }
bool qcore_quantum_goes_on(hsfq_tree_t *t, u32 leaf, u32 chosen) { return quantum_goes_on(t, leaf, chosen); }
u64 qcore_readjust(readjust_t *child, u32 n, u64 capacity) { return readjust(child, n, capacity); }
void qcore_waits_count(waits_t *w, u64 wait_ns) { waits_count(w, wait_ns); }
int qcore_leaf_reserve(leaf_thread_t *th, u64 c, u64 t, u64 d) { return leaf_reserve(th, c, t, d); }
int qcore_leaf_set_class(leaf_thread_t *th, u32 class, u32 priority) { return leaf_set_class(th, class, priority); }
void qcore_leaf_rekey(hsfq_tree_t *t, u32 leaf, leaf_thread_t *th, u64 now_ns) { leaf_rekey(&t->node[leaf], th, now_ns); }
/* clang-format on */

/* Threads that lend, and what a mechanism does with them. Rust names them by
 * their place in the array, and owns the memory. */
struct qcore_lending {
	struct lend_book book;
	struct lend_thread th[];
};

struct qcore_place {
	u32 leaf, weight;
	u32 runnable, waiting;
	u64 key;
};

size_t qcore_lending_size(u32 n)
{
	return sizeof(struct qcore_lending) + n * sizeof(struct lend_thread);
}

void qcore_lend_join(hsfq_tree_t *t, struct qcore_lending *l, u32 i, u32 leaf, u32 weight)
{
	struct lend_thread empty = {};

	l->th[i] = empty;
	lend_join(t, &l->th[i], leaf, weight);
}

/* Runnable, and waits for service. */
void qcore_lend_wait(hsfq_tree_t *t, struct qcore_lending *l, u32 i, u64 now_ns)
{
	sched_arrive(t, &l->book, &l->th[i], now_ns);
	sched_wait(t, &l->book, &l->th[i]);
}

void qcore_lend_serve(hsfq_tree_t *t, struct qcore_lending *l, u32 i)
{
	sched_resume(t, &l->book, &l->th[i], 0, 0);
}

void qcore_lend_charge(hsfq_tree_t *t, struct qcore_lending *l, u32 i, u64 ns, u64 now_ns)
{
	sched_charge(t, &l->th[i], ns, now_ns);
}

void qcore_lend_block(hsfq_tree_t *t, struct qcore_lending *l, u32 i)
{
	sched_depart(t, &l->book, &l->th[i], 0);
}

bool qcore_lend_link(struct qcore_lending *l, u32 i, u32 holder, u64 what)
{
	return lend_link(&l->book, &l->th[i], &l->th[holder], what);
}

/* clang-format off */
void qcore_lend_unlink(struct qcore_lending *l, u32 i) { lend_unlink(&l->book, &l->th[i]); }
void qcore_lend_hand_over(struct qcore_lending *l, u32 from, u32 to, u64 what) { lend_hand_over(&l->book, &l->th[from], &l->th[to], what); }
int qcore_lend_set_weight(struct qcore_lending *l, u32 i, u32 weight) { return lend_set_weight(&l->book, &l->th[i], weight); }
void qcore_lend_move_home(hsfq_tree_t *t, struct qcore_lending *l, u32 i, u32 leaf) { lend_move_home(t, &l->book, &l->th[i], leaf); }
void qcore_lend_exit(hsfq_tree_t *t, struct qcore_lending *l, u32 i) { lend_exit(t, &l->book, &l->th[i]); }
/* clang-format on */

/* Settles one; false: there is none. */
bool qcore_lend_settle(hsfq_tree_t *t, struct qcore_lending *l, u64 now_ns)
{
	lend_thread_t *th = lend_next(&l->book);

	if (th)
		lend_settle(t, &l->book, th, now_ns);
	else
		lend_settled(&l->book, now_ns);
	return th;
}

bool qcore_lend_due(struct qcore_lending *l, u64 now_ns)
{
	return lend_due(&l->book, NULL, now_ns);
}

bool qcore_lend_due_before(struct qcore_lending *l, u32 i, u64 now_ns)
{
	return lend_due(&l->book, &l->th[i], now_ns);
}

struct qcore_place qcore_lend_place(const struct qcore_lending *l, u32 i)
{
	const struct lend_thread *th = &l->th[i];
	struct qcore_place p = {th->leaf, th->lt.weight, th->runnable, th->waiting,
				leaf_key(&th->lt)};

	return p;
}

/* One ledger over several trees. Rust owns the memory: the ledger, then its cells. */
size_t qcore_ledger_size(u32 domains)
{
	return sizeof(ledger_t) + (size_t)domains * HSFQ_NODES * sizeof(ledger_cell_t);
}

void qcore_ledger_init(ledger_t *l, u32 domains)
{
	l->cell = (ledger_cell_t *)(l + 1);
	ledger_init(l, domains);
}

/* clang-format off */
void qcore_ledger_set_servers(ledger_t *l, u32 domain, u32 servers) { ledger_set_servers(l, domain, servers); }
void qcore_ledger_mknod(ledger_t *l, u32 n, u32 parent, u32 weight, bool leaf) { ledger_mknod(l, n, parent, weight, leaf); }
void qcore_ledger_rmnod(ledger_t *l, u32 n) { ledger_rmnod(l, n); }
void qcore_ledger_set_weight(ledger_t *l, u32 n, u32 weight) { ledger_set_weight(l, n, weight); }
void qcore_ledger_see(ledger_t *l, u32 leaf, u32 domain, u32 runnable, u32 weights, u64 runnable_ns, u64 served_ns) { ledger_see(l, leaf, domain, runnable, weights, runnable_ns, served_ns); }
s64 qcore_ledger_apart(ledger_t *l, u32 n, u32 from, u32 to) { return ledger_apart(l, n, from, to); }
u32 qcore_ledger_share(ledger_t *l, u32 n, u32 domain) { return ledger_share(l, n, domain); }
void qcore_ledger_settle(ledger_t *l, u64 elapsed_ns) { ledger_settle(l, elapsed_ns); }
struct ledger_move qcore_ledger_move(ledger_t *l) { return ledger_move(l); }
/* clang-format on */

/* ---- the scheduler ------------------------------------------------------ */

/* A thread as Rust has it, which knows nothing of loans. */
struct qcore_thread {
	leaf_thread_t *lt;
	u32 leaf;
	bool waiting, runnable;
};

struct qcore_contest {
	u64 due_ns;
	bool over, sooner;
};

static struct lend_thread whole(const struct qcore_thread *q)
{
	struct lend_thread th = {.lt = *q->lt, .leaf = q->leaf};

	th.waiting = q->waiting;
	th.runnable = q->runnable;
	return th;
}

static void back(struct qcore_thread *q, const struct lend_thread *th)
{
	*q->lt = th->lt;
	q->waiting = th->waiting;
	q->runnable = th->runnable;
}

/* `fixed_ns`: the quantum is as long as that, 0: as core/cpu/quantum.h has it. */
u64 qcore_sched_begin(hsfq_tree_t *t, sched_server_t *s, struct qcore_thread *q, u64 fixed_ns,
		      u64 now_ns)
{
	struct lend_thread th = whole(q);
	struct lend_book book = {};
	struct quantum length = {fixed_ns, true};

	if (fixed_ns) {
		sched_take(t, &th);
		leaf_serve(t, th.leaf, &th.lt, fixed_ns);
	} else {
		length = sched_begin(t, &book, s, &th, now_ns).quantum;
	}
	sched_set(s, NULL, length, now_ns);
	back(q, &th);
	return length.length_ns;
}

void qcore_sched_end(hsfq_tree_t *t, struct qcore_thread *q, u64 ran_ns, bool sleeps, u64 now_ns)
{
	struct lend_thread th = whole(q);
	struct lend_book book = {};

	sched_end(t, &book, &th, ran_ns, now_ns, sleeps ? SCHED_SLEEPS : SCHED_ASKS);
	back(q, &th);
}

struct qcore_contest qcore_sched_contest(hsfq_tree_t *t, sched_server_t *s,
					 const struct qcore_thread *waiting,
					 const struct qcore_thread *serves, u64 now_ns)
{
	struct lend_thread th = whole(waiting), cur = whole(serves);
	struct sched_contest c;

	s->th = &cur;
	c = sched_contest(t, s, &th, now_ns);
	s->th = NULL;
	return (struct qcore_contest){c.due_ns, c.over, c.sooner};
}

bool qcore_sched_ends_elsewhere(hsfq_tree_t *t, sched_server_t *s,
				const struct qcore_thread *waiting,
				const struct qcore_thread *serves, u64 now_ns)
{
	struct lend_thread th = whole(waiting), cur = whole(serves);
	bool ends;

	s->th = &cur;
	ends = sched_ends_elsewhere(t, s, &th, now_ns);
	s->th = NULL;
	return ends;
}

bool qcore_sched_outranks(hsfq_tree_t *t, sched_server_t *other, const struct qcore_thread *before,
			  const struct qcore_thread *serves, u32 chosen, u64 now_ns)
{
	struct lend_thread th = whole(before), cur = whole(serves);
	bool outranks;

	other->th = &cur;
	outranks = sched_outranks(t, other, &th, chosen, now_ns);
	other->th = NULL;
	return outranks;
}

/* Somebody is served there. */
void qcore_sched_timer(sched_server_t *s, u64 now_ns)
{
	struct lend_thread cur = {};

	s->th = &cur;
	sched_timer(s, now_ns);
	s->th = NULL;
}

void qcore_sched_give_way(sched_server_t *s)
{
	sched_give_way(s);
}
void qcore_sched_cut(sched_server_t *s, u64 due_ns)
{
	sched_cut(s, due_ns);
}
bool qcore_sched_gives_way(sched_server_t *s)
{
	return sched_gives_way(s);
}
