/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rescue.h - threads that are served out of turn, or a little longer
 *
 * Weights may be such that a thread's turn comes after hours, and whoever watches over a
 * scheduler takes it for lost then. So a thread that has waited for RESCUE_NS gets one
 * quantum out of turn, charged like any other.
 *
 * One that dies need not wait for its class's next period: somebody waits for it
 * to be gone, and it gives back more than it takes. Nor need one that was preempted
 * inside a system call, for RESCUE_INSIDE_MOST short quanta: it may hold what the whole
 * machine waits for. What they take is a debt of the class. Of those, RESCUE_INSIDE_LEAF in
 * each leaf are served when all are looked at; periods are as short as a user likes.
 *
 * One that is preempted inside a read section holds up every grace period, and
 * all who wait for one, until its turn comes. It may leave the section first, if that
 * takes it RESCUE_READ_MOST steps at most; if it takes longer, it is served out of turn
 * when all are looked at next and it has waited for RESCUE_READER_NS.
 */
#ifndef QLINUX_CORE_RESCUE_H
#define QLINUX_CORE_RESCUE_H

#include "../port.h"

/* A thread that waited this long is served out of turn; in a class that has used
 * up its budget, this long. */
#define RESCUE_NS      10000000000ULL
#define RESCUE_HELD_NS 20000000000ULL
/* Inside a read section, this long. */
#define RESCUE_READER_NS 1000000000ULL
/* So often all are looked at. */
#define RESCUE_EVERY_NS 1000000000ULL
/* So many quanta has one inside a system call while its class is held; so many of those that
 * wait inside one, in each leaf, are served when all are looked at. */
#define RESCUE_INSIDE_MOST 2
#define RESCUE_INSIDE_LEAF 8
/* Nobody tells when a read section ends: so often one looks. */
#define RESCUE_READ_STEP_NS 20000ULL
#define RESCUE_READ_MOST    50

/* Must a thread of a class that is held wait for the next period? `quanta`: how many it had inside
 * a system call since then; one more, if it need not wait for that. */
CORE_FN bool rescue_waits(bool dies, bool inside, u32 *quanta)
{
	if (dies)
		return false;
	return !inside || (*quanta)++ >= RESCUE_INSIDE_MOST;
}

/* May a thread whose quantum is over go on, inside a read section, for one more step? */
CORE_FN bool rescue_reads_on(u64 steps)
{
	return steps < RESCUE_READ_MOST;
}

/* All are looked at: is this one, which has waited for so long, served now? `left`: so many of its
 * leaf that are inside a system call may be, while their class is held. */
CORE_INLINE bool rescue_now(u64 waited_ns, bool held, bool dies, bool inside, bool reads, u32 *left)
{
	if (held && inside && *left) {
		(*left)--;
		return true;
	}
	if (held && dies)
		return true;
	return waited_ns >= (reads ? RESCUE_READER_NS : held ? RESCUE_HELD_NS : RESCUE_NS);
}

#endif
