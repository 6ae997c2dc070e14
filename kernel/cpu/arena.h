/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * arena.h - the compiler's and verifier's view of BPF arena memory and loops
 */
#ifndef QLINUX_CPU_ARENA_H
#define QLINUX_CPU_ARENA_H

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

#define ARENA_PAGE 4096

#endif
