/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cello_hint.h - a class and a deadline in the ten bits of an I/O priority's hint
 *
 *   bit 9     it is ours: other hints (command duration limits) are below
 *   bit 8     whose: 1 this request's own, 0 the class of the process that asks
 *   bits 7-6  class, CELLO_HINT_NONE: explicitly none
 *   bits 5-0  deadline: 0 the disk's default, else steps of a quarter of a power of two from
 *             1 ms to 49 s after the request comes. A deadline between two steps is the
 *             earlier one: in time for that is in time.
 *
 * A request is of the class that it asks for itself, else of its cgroup's, which the kernel knows
 * of written pages too, else of its process's:
 *
 *   own hint      cgroup        process       class
 *   interactive   throughput    realtime      interactive
 *   -             throughput    realtime      throughput, with the deadline of the process
 *   none          throughput    realtime      none
 *   -             -             realtime      realtime
 */
#ifndef QLINUX_CORE_CELLO_HINT_H
#define QLINUX_CORE_CELLO_HINT_H

#include "../port.h"

enum {
	CELLO_HINT_MARK = 1 << 9,
	CELLO_HINT_OWN = 1 << 8,
	CELLO_HINT_CLASS_SHIFT = 6,
	CELLO_HINT_NONE = 3,
	CELLO_HINT_CODES = 64,
};

#define CELLO_HINT_STEP_NS 250000ULL /* of the shortest deadlines */

CORE_FN bool cello_hint_is(u32 hint)
{
	return hint & CELLO_HINT_MARK;
}

CORE_FN bool cello_hint_own(u32 hint)
{
	return hint & CELLO_HINT_OWN;
}

CORE_FN u32 cello_hint_class(u32 hint)
{
	return hint >> CELLO_HINT_CLASS_SHIFT & 3;
}

/* From a code, 1 or more, to nanoseconds. */
CORE_FN u64 cello_hint_code_ns(u32 code)
{
	return ((4ULL + ((code - 1) & 3)) << ((code - 1) >> 2)) * CELLO_HINT_STEP_NS;
}

/* After the request came, in nanoseconds; 0: the disk's default. */
CORE_FN u64 cello_hint_deadline_ns(u32 hint)
{
	u32 code = hint & (CELLO_HINT_CODES - 1);

	return code ? cello_hint_code_ns(code) : 0;
}

/* What is known of a request. */
struct cello_asked {
	u32 class_id;    /* CELLO_HINT_NONE: none, it bypasses Cello */
	u64 deadline_ns; /* after it came; 0: the disk's default */
};

/* The request's hint, or the one that it has from its process; `of_cgroup`: its cgroup's class or
 * CELLO_HINT_NONE. */
CORE_INLINE struct cello_asked cello_asked(u32 hint, u32 of_cgroup)
{
	struct cello_asked asked = {of_cgroup, 0};

	if (!cello_hint_is(hint))
		return asked;
	asked.deadline_ns = cello_hint_deadline_ns(hint);
	if (cello_hint_own(hint) || of_cgroup == CELLO_HINT_NONE)
		asked.class_id = cello_hint_class(hint);
	return asked;
}

/* The hint, or -CORE_ERANGE: a deadline below 1 ms or above the last step. 0: the default one. */
CORE_FN int cello_hint(u32 class_id, bool own, u64 deadline_ns)
{
	u32 code = 0;

	if (class_id > CELLO_HINT_NONE)
		return -CORE_EINVAL;
	if (deadline_ns) {
		if (deadline_ns < cello_hint_code_ns(1) ||
		    deadline_ns > cello_hint_code_ns(CELLO_HINT_CODES - 1))
			return -CORE_ERANGE;
		while (code < CELLO_HINT_CODES - 1 && cello_hint_code_ns(code + 1) <= deadline_ns)
			code++;
	}
	return CELLO_HINT_MARK | (own ? CELLO_HINT_OWN : 0) | class_id << CELLO_HINT_CLASS_SHIFT |
	       code;
}

#endif
