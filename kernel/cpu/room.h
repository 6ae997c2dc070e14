/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * room.h - memory for the tree and the CPUs
 *
 * The tree has room for 8,191 classes, 4 MB. As a variable it would be as many zeros in the
 * program, to be unpacked and copied. So it has an address in the arena, and its pages are made
 * at first, and those of as many CPUs as there are.
 *
 * All at once: the kernel gives whoever asks for a page anywhere one of the smallest gap, and
 * that would be the rest of the tree.
 */
#ifndef QLINUX_CPU_ROOM_H
#define QLINUX_CPU_ROOM_H

/* Sleepable. Memory for so many bytes from there on; false: there is none. */
static bool make_room(void __arena *from, u64 bytes)
{
	return bpf_arena_alloc_pages(&arena, from, (bytes + ARENA_PAGE - 1) / ARENA_PAGE,
				     NUMA_NO_NODE, 0);
}

#endif
