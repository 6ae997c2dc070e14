/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * port.h - what the policies in this folder ask of the place they run in
 *
 * The same text is compiled for several environments. An environment that
 * differs from plain C defines some of these before including a policy:
 *
 *   CORE_HAVE_TYPES  u8 … u64, s64 and bool exist already
 *   CORE_MEM         qualifier of pointers into the shared state
 *   CORE_MORE        extra loop condition, for environments that must see
 *                    every loop end; it never fails within the stated bounds
 *   CORE_FN          linkage of every function here
 *   CORE_INLINE      the same, of functions that return a structure or have more
 *                    parameters than registers pass
 *   CORE_COLD        the same, of functions too long or too rare to be inlined
 *   CORE_STEP        the same, of the steps of a long computation, which are
 *                    checked one by one: they return a number, and the state
 *                    that is their first argument is a CORE_STATE
 *   CORE_ALONE       false where several servers are known to serve: what only
 *                    one that is alone does is left out
 *   CORE_SEVERAL     do several servers serve this tree?
 *   CORE_HIERARCHY   the tree that has the classes of this one's leaves, with
 *                    their budgets: where this one is a domain's (cpu/ledger.h)
 *                    it is another
 *   CORE_RUNNABLE    so many threads more are runnable in a leaf from now on,
 *                    for a ledger
 *   CORE_AT          address of an element, for environments that mind how it
 *                    is found
 *   CORE_ZERO        0, of which an environment that follows what a number can
 *                    be knows nothing: long loops begin there
 *   CORE_COUNT       adds one to what is counted also where others may count at
 *                    once
 *   CORE_DIV         quotient of two numbers of 64 bits, of which the second may have fewer, and
 *   CORE_MOD         what is left over, where the machine cannot divide those
 *   CORE_FORGET      an environment that follows what a number can be knows
 *                    nothing of this one any more; the second is one that it
 *                    knows nothing of
 */
#ifndef QLINUX_CORE_PORT_H
#define QLINUX_CORE_PORT_H

#ifndef CORE_HAVE_TYPES
#include <stdbool.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
#endif

#ifndef CORE_MEM
#define CORE_MEM
#endif

#ifndef CORE_MORE
#define CORE_MORE true
#endif

#ifndef CORE_FN
#define CORE_FN static inline
#endif

#ifndef CORE_INLINE
#define CORE_INLINE CORE_FN
#endif

#ifndef CORE_COLD
#define CORE_COLD CORE_FN
#endif

#ifndef CORE_STEP
#define CORE_STEP CORE_FN
#define CORE_STATE
#endif

#ifndef CORE_ALONE
#define CORE_ALONE true
#endif

#ifndef CORE_SEVERAL
#define CORE_SEVERAL(t) ((t)->servers > 1)
#endif

#ifndef CORE_HIERARCHY
#define CORE_HIERARCHY(t) (t)
#endif

#ifndef CORE_RUNNABLE
#define CORE_RUNNABLE(t, leaf, more, now_ns) ((void)(now_ns))
#endif

#ifndef CORE_AT
#define CORE_AT(array, index) (&(array)[index])
#endif

#ifndef CORE_ZERO
#define CORE_ZERO 0
#endif

#ifndef CORE_COUNT
#define CORE_COUNT(n) ((n)++)
#endif

#ifndef CORE_FORGET
#define CORE_FORGET(number, by) ((void)0)
#endif

#ifndef CORE_DIV
#define CORE_DIV(n, d) ((n) / (d))
#define CORE_MOD(n, d) ((n) % (d))
#endif

/* Refusals are negative errno values; these carry the kernel's numbers. */
enum core_error {
	CORE_ENOENT = 2,
	CORE_EBUSY = 16,
	CORE_EINVAL = 22,
	CORE_ENOSPC = 28,
	CORE_ERANGE = 34,
	CORE_ELOOP = 40,
};

#endif
