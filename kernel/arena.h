/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * arena.h - the compiler's and verifier's view of BPF arena memory and loops
 */
#ifndef QLINUX_ARENA_H
#define QLINUX_ARENA_H

#define __arena __attribute__((address_space(1)))

/* A loop condition that lets the verifier see an end; it fails after 8M rounds. */
#define can_loop                                                                                   \
	({                                                                                         \
		__label__ out, go;                                                                 \
		bool more = true;                                                                  \
		asm volatile goto("may_goto %l[out]" : : : : out);                                 \
		goto go;                                                                           \
out:                                                                                               \
		more = false;                                                                      \
go:;                                                                                               \
		more;                                                                              \
	})

/* The index of a loop as the verifier must see it: checked right before its use,
 * whatever the compiler makes of the loop. */
#define INDEX(i, n)                                                                                \
	({                                                                                         \
		u32 checked = i;                                                                   \
		barrier_var(checked);                                                              \
		if (checked >= (n))                                                                \
			break;                                                                     \
		checked;                                                                           \
	})

#define ARENA_PAGE 4096
/* The address of an arena; as its maps' map_extra. */
#define ARENA_START (1ULL << 44)

#endif
