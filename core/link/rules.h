/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rules.h - which packet goes where: the packet classifier
 *
 * QLinux, section 2.3: "Packet classifiers are then employed to map each transmitted
 * packet to the corresponding queue." A packet's key is read out of its headers; the
 * first rule that matches it names the queue. A rule says nothing of what it leaves
 * out. Addresses, ports and marks are in the order of the machine.
 *
 * Ports are those of TCP, UDP, SCTP, DCCP and UDP-Lite; a fragment but the first has
 * none, and neither has a packet whose headers are longer than RULES_HEADER. Where IPv6's
 * headers go on behind what is looked at, the protocol is the first that is not. A packet
 * whose header is none of its family's belongs to neither: the headers are the sender's
 * word, and he may be anybody.
 */
#ifndef QLINUX_CORE_RULES_H
#define QLINUX_CORE_RULES_H

#include "../port.h"

enum {
	RULES_MAX = 256,
	RULES_HEADER = 128,   /* bytes of a packet that are looked at */
	RULES_EXTENSIONS = 6, /* headers between IPv6's own and the transport's */
	RULES_PROTOCOLS = 256,
	RULES_DSCPS = 64,
	RULES_ANY = 0xffff, /* of a protocol or DSCP */
};

struct rules_key {
	u32 from[4], to[4]; /* IPv4: the first only */
	u32 mark;
	u16 sport, dport;
	u8 family; /* 4, 6, or 0: neither */
	u8 has_ports;
	u8 protocol, dscp;
};

struct rule {
	u32 from[4], from_mask[4];
	u32 to[4], to_mask[4];
	u32 mark, mark_mask;
	u16 sport_least, sport_most; /* 0 to 65535: whatever, and without ports too */
	u16 dport_least, dport_most;
	u16 protocol, dscp; /* or RULES_ANY */
	u16 family;         /* 0: either */
	u16 queue;
};

struct rules {
	u32 count;
	u32 pad;
	struct rule rule[RULES_MAX];
};

typedef struct rules CORE_MEM rules_t;
typedef struct rule CORE_MEM rule_t;

/* ---- a packet's key ---------------------------------------------------- */

struct rules_header {
	const u8 *byte; /* RULES_HEADER of them */
	u32 length;     /* that came from the packet */
};

CORE_FN u32 rules_byte(const struct rules_header *h, u32 at)
{
	return at < RULES_HEADER && at < h->length ? h->byte[at] : 0;
}

CORE_FN u32 rules_u16(const struct rules_header *h, u32 at)
{
	return rules_byte(h, at) << 8 | rules_byte(h, at + 1);
}

CORE_FN u32 rules_u32(const struct rules_header *h, u32 at)
{
	return rules_u16(h, at) << 16 | rules_u16(h, at + 2);
}

CORE_FN void rules_ports(const struct rules_header *h, u32 at, struct rules_key *key)
{
	u32 p = key->protocol;

	if (at + 4 > h->length || (p != 6 && p != 17 && p != 132 && p != 33 && p != 136))
		return;
	key->has_ports = 1;
	key->sport = rules_u16(h, at);
	key->dport = rules_u16(h, at + 2);
}

CORE_FN void rules_ipv4(const struct rules_header *h, struct rules_key *key)
{
	u32 first = rules_byte(h, 0);

	if (h->length < 20 || first < 0x45 || first > 0x4f)
		return;
	key->family = 4;
	key->dscp = rules_byte(h, 1) >> 2;
	key->protocol = rules_byte(h, 9);
	key->from[0] = rules_u32(h, 12);
	key->to[0] = rules_u32(h, 16);
	if (!(rules_u16(h, 6) & 0x1fff)) /* offset of the fragment */
		rules_ports(h, (first & 15) * 4, key);
}

/* Past hop-by-hop options (0), routing (43), fragment (44), authentication (51) and
 * destination options (60). */
CORE_FN void rules_ipv6(const struct rules_header *h, struct rules_key *key)
{
	u32 next = rules_byte(h, 6), at = 40, i;

	if (h->length < 40 || rules_byte(h, 0) >> 4 != 6)
		return;
	key->family = 6;
	key->dscp = (rules_u16(h, 0) >> 6) & 63;
	for (i = 0; i < 4; i++) {
		key->from[i] = rules_u32(h, 8 + 4 * i);
		key->to[i] = rules_u32(h, 24 + 4 * i);
	}
	for (i = 0; i < RULES_EXTENSIONS; i++) {
		u32 units = rules_byte(h, at + 1), length;

		if (next != 0 && next != 43 && next != 44 && next != 51 && next != 60)
			break;
		if (at + 8 > h->length)
			break;
		if (next == 44 && rules_u16(h, at + 2) >> 3) {
			key->protocol = rules_byte(h, at);
			return;
		}
		length = next == 44 ? 8 : next == 51 ? (units + 2) * 4 : (units + 1) * 8;
		next = rules_byte(h, at);
		at += length;
	}
	key->protocol = next;
	rules_ports(h, at, key);
}

/* ---- rules ------------------------------------------------------------- */

CORE_FN bool rules_address(const u32 CORE_MEM *want, const u32 CORE_MEM *mask, const u32 *is)
{
	return !((is[0] ^ want[0]) & mask[0]) && !((is[1] ^ want[1]) & mask[1]) &&
	       !((is[2] ^ want[2]) & mask[2]) && !((is[3] ^ want[3]) & mask[3]);
}

CORE_FN bool rules_port(u32 least, u32 most, const struct rules_key *key, u32 port)
{
	if (!least && most == 65535)
		return true;
	return key->has_ports && port >= least && port <= most;
}

CORE_FN bool rules_match(rule_t *r, const struct rules_key *key)
{
	if (r->family && r->family != key->family)
		return false;
	if ((key->mark ^ r->mark) & r->mark_mask)
		return false;
	if (r->protocol != RULES_ANY && (!key->family || r->protocol != key->protocol))
		return false;
	if (r->dscp != RULES_ANY && (!key->family || r->dscp != key->dscp))
		return false;
	return rules_port(r->sport_least, r->sport_most, key, key->sport) &&
	       rules_port(r->dport_least, r->dport_most, key, key->dport) &&
	       rules_address(r->from, r->from_mask, key->from) &&
	       rules_address(r->to, r->to_mask, key->to);
}

/* The queue that the first rule which matches names, or 0. */
CORE_FN u32 rules_find(rules_t *rules, const struct rules_key *key)
{
	u32 i;

	for (i = 0; i < rules->count && CORE_MORE; i++)
		if (rules_match(&rules->rule[i], key))
			return rules->rule[i].queue;
	return 0;
}

/* Its place is `at`, from 0, or the last. Returns 0, -CORE_ERANGE (ports, protocol,
 * DSCP or family) or -CORE_ENOSPC. */
CORE_FN int rules_insert(rules_t *rules, u32 at, const struct rule *r)
{
	u32 i = rules->count;

	if (r->sport_least > r->sport_most || r->dport_least > r->dport_most ||
	    (r->protocol >= RULES_PROTOCOLS && r->protocol != RULES_ANY) ||
	    (r->dscp >= RULES_DSCPS && r->dscp != RULES_ANY) ||
	    (r->family && r->family != 4 && r->family != 6))
		return -CORE_ERANGE;
	if (i >= RULES_MAX)
		return -CORE_ENOSPC;
	for (; i > at && i > 0 && CORE_MORE; i--)
		rules->rule[i] = rules->rule[i - 1];
	rules->rule[i] = *r;
	rules->count++;
	return 0;
}

/* Returns 0 or -CORE_ENOENT. */
CORE_FN int rules_remove(rules_t *rules, u32 at)
{
	u32 i;

	if (at >= rules->count)
		return -CORE_ENOENT;
	rules->count--;
	for (i = at; i < rules->count && i + 1 < RULES_MAX && CORE_MORE; i++)
		rules->rule[i] = rules->rule[i + 1];
	return 0;
}

#endif
