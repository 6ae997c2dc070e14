/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the test disk takes for a request where it has no moving parts and serves many at once.
 * crates/core/src/disk.rs computes the same for simulations, in the same integers.
 *
 * It has FLASH_CHANNELS channels.  Which one a request goes to follows from where it begins, in
 * stripes of 128 KiB, as if by chance; each serves what it was given in order of arrival.  A
 * request takes
 *
 *   80 us to be read; 20 us to be written while the cache has room for it, else 400 us; of which
 *   three quarters to five quarters by its number, as if by chance; and 0.5 us a sector (1 GB/s).
 *
 * The cache holds 16 MiB and empties at 256 MB/s.  After each 128 MiB written all channels pause
 * for 5 ms (garbage is collected).  All of these times can be several times as long: the processors
 * of a guest do not serve as many requests as such a disk could.
 */
#ifndef QLINUX_TESTDISK_FLASH_H
#define QLINUX_TESTDISK_FLASH_H

#include <linux/minmax.h>
#include <linux/types.h>

#define FLASH_CHANNELS        8
#define FLASH_STRIPE_SECTORS  256
#define FLASH_SECTOR_NS       500
#define FLASH_READ_NS         80000
#define FLASH_WRITE_NS        400000
#define FLASH_CACHED_NS       20000
#define FLASH_CACHE_SECTORS   32768
#define FLASH_DRAIN_SECTOR_NS 2000
#define FLASH_PAUSE_SECTORS   262144
#define FLASH_PAUSE_NS        5000000

struct flash {
	u64 free_ns[FLASH_CHANNELS]; /* when a channel has served what it was given */
	u64 cached;                  /* sectors in the cache, at */
	u64 drained_ns;
	u64 served, written; /* requests, and sectors written */
	u64 slow;            /* so many times as long */
};

/* A number that follows from another as if by chance (a Fibonacci hash). */
static inline u64 flash_mixed(u64 x)
{
	return x * 0x9e3779b97f4a7c15ULL >> 32;
}

/* Whether the cache takes the write, which comes now. */
static inline bool flash_caches(struct flash *f, u64 sectors, u64 now_ns)
{
	u64 drained = (now_ns - f->drained_ns) / (FLASH_DRAIN_SECTOR_NS * f->slow);

	f->drained_ns += drained * FLASH_DRAIN_SECTOR_NS * f->slow;
	f->cached -= min(f->cached, drained);
	if (f->cached + sectors > FLASH_CACHE_SECTORS)
		return false;
	f->cached += sectors;
	return true;
}

static inline void flash_pause(struct flash *f, u64 now_ns)
{
	int i;

	for (i = 0; i < FLASH_CHANNELS; i++)
		f->free_ns[i] = max(f->free_ns[i], now_ns) + FLASH_PAUSE_NS * f->slow;
}

/* The request comes now: when it begins to be served, and when it has been. */
static inline void flash_serve(struct flash *f, u64 sector, u64 sectors, bool writes, u64 now_ns,
			       u64 *begin_ns, u64 *end_ns)
{
	u64 *free_ns = &f->free_ns[flash_mixed(sector / FLASH_STRIPE_SECTORS) % FLASH_CHANNELS];
	u64 time_ns = FLASH_READ_NS, before = f->written / FLASH_PAUSE_SECTORS;

	f->served++;
	if (writes) {
		f->written += sectors;
		if (f->written / FLASH_PAUSE_SECTORS > before)
			flash_pause(f, now_ns);
		time_ns = flash_caches(f, sectors, now_ns) ? FLASH_CACHED_NS : FLASH_WRITE_NS;
	}
	time_ns = time_ns * 3 / 4 + time_ns * (flash_mixed(f->served) & 1023) / 2048;
	*begin_ns = max(*free_ns, now_ns);
	*end_ns = *begin_ns + (time_ns + sectors * FLASH_SECTOR_NS) * f->slow;
	*free_ns = *end_ns;
}

#endif
