/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rules.c - any packets and any changes of the rules, for libFuzzer
 *
 * The input is a program: a rule is inserted or removed, or a packet of any bytes comes.
 * It lies in memory of just its length, so that a read beyond it is found. The rules are
 * kept a second time, in a list, and matched bit by bit. Run it with core/fuzz/run.
 */
#include "../link/rules.h"
#include "input.h"

static struct rules rules;
static struct rule list[RULES_MAX];
static u32 listed;

/* ---- rules ------------------------------------------------------------- */

/* Mostly one or two of few, so that rules and packets meet. */
static void address(u32 *to, u32 *mask)
{
	u32 n = byte(), bits = n & 128 ? byte() % 129 : 0, i;

	for (i = 0; i < 4; i++) {
		to[i] = n & 64 ? word() << 16 | word() : n & 3;
		mask[i] = bits >= 32 ? ~0U : bits ? ~0U << (32 - bits) : 0;
		bits -= bits > 32 ? 32 : bits;
	}
}

static void range(u16 *least, u16 *most)
{
	u32 n = byte();

	*least = n & 128 ? n & 7 : 0;
	*most = n & 64 ? word() : 65535;
}

static struct rule some_rule(void)
{
	struct rule r = {.queue = 1 + byte(), .protocol = RULES_ANY, .dscp = RULES_ANY};
	u32 n = byte();

	address(r.from, r.from_mask);
	address(r.to, r.to_mask);
	range(&r.sport_least, &r.sport_most);
	range(&r.dport_least, &r.dport_most);
	if (n & 1)
		r.protocol = word();
	if (n & 2)
		r.dscp = byte();
	if (n & 4)
		r.mark_mask = byte();
	if (n & 8)
		r.mark = byte();
	if (n & 16)
		r.family = byte() % 7;
	return r;
}

static bool sensible(const struct rule *r)
{
	return r->sport_least <= r->sport_most && r->dport_least <= r->dport_most &&
	       (r->protocol < 256 || r->protocol == 0xffff) &&
	       (r->dscp < 64 || r->dscp == 0xffff) &&
	       (r->family == 0 || r->family == 4 || r->family == 6);
}

static void insert(void)
{
	struct rule r = some_rule();
	u32 at = byte(), err = -rules_insert(&rules, at, &r);

	if (!sensible(&r)) {
		CHECK(err == CORE_ERANGE);
		return;
	}
	if (listed == RULES_MAX) {
		CHECK(err == CORE_ENOSPC);
		return;
	}
	CHECK(!err);
	at = at < listed ? at : listed;
	memmove(&list[at + 1], &list[at], (listed - at) * sizeof(list[0]));
	list[at] = r;
	listed++;
}

static void take_out(void)
{
	u32 at = byte(), err = -rules_remove(&rules, at);

	if (at >= listed) {
		CHECK(err == CORE_ENOENT);
		return;
	}
	CHECK(!err);
	listed--;
	memmove(&list[at], &list[at + 1], (listed - at) * sizeof(list[0]));
}

/* ---- packets ----------------------------------------------------------- */

static bool same(const u32 *a, const u32 *b, const u32 *mask)
{
	u32 bit;

	for (bit = 0; bit < 128; bit++)
		if ((mask[bit / 32] & ~a[bit / 32] & b[bit / 32]) >> bit % 32 & 1 ||
		    (mask[bit / 32] & a[bit / 32] & ~b[bit / 32]) >> bit % 32 & 1)
			return false;
	return true;
}

static bool port(u32 least, u32 most, bool has, u32 is)
{
	return most - least == 65535 || (has && least <= is && is <= most);
}

static bool matches(const struct rule *r, const struct rules_key *k)
{
	return (!r->family || r->family == k->family) &&
	       (r->protocol == 0xffff || (k->family && r->protocol == k->protocol)) &&
	       (r->dscp == 0xffff || (k->family && r->dscp == k->dscp)) &&
	       (k->mark & r->mark_mask) == (r->mark & r->mark_mask) &&
	       port(r->sport_least, r->sport_most, k->has_ports, k->sport) &&
	       port(r->dport_least, r->dport_most, k->has_ports, k->dport) &&
	       same(r->from, k->from, r->from_mask) && same(r->to, k->to, r->to_mask);
}

/* Of the first `length` bytes. */
static struct rules_key key_of(const u8 *bytes, u32 length, bool six, u32 mark)
{
	struct rules_key key = {.mark = mark};
	u8 *packet = malloc(length ? length : 1);
	struct rules_header h = {.byte = packet, .length = length};

	CHECK(packet);
	memcpy(packet, bytes, length);
	if (six)
		rules_ipv6(&h, &key);
	else
		rules_ipv4(&h, &key);
	free(packet);
	return key;
}

/* What less of a packet tells is so in all of it. */
static void check_less(const struct rules_key *all, const struct rules_key *less)
{
	if (!less->family)
		return;
	CHECK(less->family == all->family && less->dscp == all->dscp);
	CHECK(!memcmp(less->from, all->from, sizeof(all->from)));
	CHECK(!memcmp(less->to, all->to, sizeof(all->to)));
	CHECK(!less->has_ports || !memcmp(less, all, sizeof(*all)));
}

static void come(bool six)
{
	static const struct rules_key none;
	u32 length = byte(), mark = byte(), cut = byte(), i, found = 0;
	u8 bytes[RULES_HEADER];
	struct rules_key key, less, nothing = none;

	length = length < left ? length : left;
	length = length < RULES_HEADER ? length : RULES_HEADER;
	for (i = 0; i < length; i++)
		bytes[i] = byte();
	key = key_of(bytes, length, six, mark);
	less = key_of(bytes, cut < length ? cut : length, six, mark);
	check_less(&key, &less);
	CHECK(key.family == 0 || key.family == (six ? 6 : 4));
	CHECK(key.has_ports <= 1 && (key.has_ports || (!key.sport && !key.dport)));
	nothing.mark = mark;
	CHECK(key.family || !memcmp(&key, &nothing, sizeof(key)));
	for (i = 0; i < listed && !found; i++)
		if (matches(&list[i], &key))
			found = list[i].queue;
	CHECK(rules_find(&rules, &key) == found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 what;

	input = data;
	left = size;
	memset(&rules, 0, sizeof(rules));
	listed = 0;
	while (left) {
		what = byte() % 8;
		if (what < 3)
			insert();
		else if (what == 3)
			take_out();
		else
			come(what & 1);
		CHECK(rules.count == listed);
	}
	CHECK(!memcmp(rules.rule, list, listed * sizeof(list[0])));
	return 0;
}
