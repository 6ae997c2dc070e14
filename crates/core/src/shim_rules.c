// SPDX-License-Identifier: MIT OR Apache-2.0
/* shim.c's counterpart for the rules of a link (core/link/rules.h). */
#include <stddef.h>

#include "link/rules.h"

/* Sizes and offsets that rules.rs checks its own idea against, then limits. */
const size_t qcore_rules_layout[] = {
	sizeof(struct rules_key),
	offsetof(struct rules_key, mark),
	offsetof(struct rules_key, family),
	offsetof(struct rules_key, dscp),
	sizeof(struct rule),
	offsetof(struct rule, to_mask),
	offsetof(struct rule, mark_mask),
	offsetof(struct rule, dport_most),
	offsetof(struct rule, queue),
	sizeof(struct rules),
	offsetof(struct rules, rule),
	RULES_MAX,
	RULES_HEADER,
	RULES_ANY,
};
const size_t qcore_rules_layout_len = sizeof(qcore_rules_layout) / sizeof(qcore_rules_layout[0]);

/* clang-format off */
void qcore_rules_ipv4(const u8 *byte, u32 length, struct rules_key *key) { rules_ipv4(&(struct rules_header){byte, length}, key); }
void qcore_rules_ipv6(const u8 *byte, u32 length, struct rules_key *key) { rules_ipv6(&(struct rules_header){byte, length}, key); }
u32 qcore_rules_find(rules_t *rules, const struct rules_key *key) { return rules_find(rules, key); }
int qcore_rules_insert(rules_t *rules, u32 at, const struct rule *r) { return rules_insert(rules, at, r); }
int qcore_rules_remove(rules_t *rules, u32 at) { return rules_remove(rules, at); }
/* clang-format on */
