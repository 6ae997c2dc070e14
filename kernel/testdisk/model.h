/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the test disk takes for a request, to the nanosecond.  crates/core/src/disk.rs computes
 * the same for simulations, in the same integers: a test replays what one served through the other.
 *
 * After Ruemmler and Wilkes, "An introduction to disk drive modeling", 1994.  A request takes
 *
 *   the overhead of any request, and when it is on another track than where the last one ended
 *   a seek: a + b * sqrt(tracks between / all tracks); then, unless it begins at the very sector
 *   where the last one ended (the disk has read on meanwhile),
 *   the turn until its first sector is below the head: the disk's position is the clock's, modulo a
 *   turn, and a track's first sector passes at 0; and at last
 *   its sectors, as many in a turn as there are on a track of its zone.
 *
 * The disk has 16 zones of equally many sectors, whose tracks get shorter inwards.  Example, of a
 * turning disk of 2^28 sectors with its arm at 0: 8 sectors at 2^27 are 87,993 tracks of 198,844
 * away, hence 50 us + 0.5 ms + 7.5 ms * sqrt(0.4425) = 5.539 ms, then 0 to 8.333 ms, then 48 us.
 */
#ifndef QLINUX_TESTDISK_MODEL_H
#define QLINUX_TESTDISK_MODEL_H

#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define MODEL_ZONES          16
#define MODEL_FLAT_SECTOR_NS 1000

/* The numbers of a kind of disk. */
struct model_shape {
	u64 turn_ns;          /* 0: it has no moving parts */
	u64 seek_ns[2];       /* to the next track, and what one from end to end takes more */
	u64 track_sectors[2]; /* in the first zone and in the last */
	u64 overhead_ns;
	u64 parallel; /* not 0: it serves many at once, so many times as slow as flash.h says */
};

/* 7,200 turns a minute, seeks of 0.5 to 8 ms. */
static const struct model_shape model_turning = {
	.turn_ns = 8333333,
	.seek_ns = {500000, 7500000},
	.track_sectors = {1800, 900},
	.overhead_ns = 50000,
};

/* 100 us and 500 MB/s wherever the request is. */
static const struct model_shape model_flat = {
	.track_sectors = {1, 1},
	.overhead_ns = 100000,
};

/* Eight channels. A flush or a discard takes 100 us beside all others. */
static const struct model_shape model_parallel = {
	.track_sectors = {1, 1},
	.overhead_ns = 100000,
	.parallel = 1,
};

/* Ten times as slow. */
static const struct model_shape model_card = {
	.track_sectors = {1, 1},
	.overhead_ns = 1000000,
	.parallel = 10,
};

struct model {
	const struct model_shape *shape;
	u64 sectors;
	u64 zone_sectors;
	u64 track_sectors[MODEL_ZONES];
	u64 first_track[MODEL_ZONES]; /* the number of a zone's first */
	u64 tracks;                   /* from the first to the last */
	u64 at;                       /* the sector after the last one served */
};

struct model_place {
	u64 track;
	u64 on_track; /* sectors there */
	u64 turn_ns;  /* from the turn's begin until the sector passes */
};

static inline struct model_place model_find(const struct model *m, u64 sector)
{
	u64 zone = sector / m->zone_sectors, inside = sector % m->zone_sectors;
	u64 on_track = m->track_sectors[zone];

	return (struct model_place){
		.track = m->first_track[zone] + inside / on_track,
		.on_track = on_track,
		.turn_ns = inside % on_track * m->shape->turn_ns / on_track,
	};
}

static inline void model_init(struct model *m, const struct model_shape *shape, u64 sectors)
{
	u64 first = shape->track_sectors[0], last = shape->track_sectors[1], track = 0;
	int zone;

	m->shape = shape;
	m->sectors = sectors;
	m->zone_sectors = sectors / MODEL_ZONES + 1;
	for (zone = 0; zone < MODEL_ZONES; zone++) {
		m->track_sectors[zone] = first - (first - last) * zone / (MODEL_ZONES - 1);
		m->first_track[zone] = track;
		track += m->zone_sectors / m->track_sectors[zone];
	}
	m->tracks = model_find(m, sectors - 1).track;
	m->at = 0;
}

static inline u64 model_seek_ns(const struct model *m, u64 from, u64 to)
{
	u64 tracks = from < to ? to - from : from - to, longest = m->shape->seek_ns[1];

	if (!tracks)
		return 0;
	/* The quotient first: the product with the distance would not fit for a large disk. */
	return m->shape->seek_ns[0] + int_sqrt64(longest * longest / m->tracks * tracks);
}

/* What the disk takes for it from now on; the arm stays where it ends. */
static inline u64 model_serve(struct model *m, u64 sector, u64 sectors, u64 now_ns)
{
	const struct model_shape *shape = m->shape;
	u64 from = m->at, time_ns = shape->overhead_ns;
	struct model_place place;

	m->at = sector + sectors;
	if (!shape->turn_ns)
		return time_ns + sectors * MODEL_FLAT_SECTOR_NS;
	place = model_find(m, sector);
	time_ns += model_seek_ns(m, model_find(m, min(from, m->sectors - 1)).track, place.track);
	if (from != sector) {
		u64 turned_ns = (now_ns + time_ns) % shape->turn_ns;

		time_ns += (place.turn_ns + shape->turn_ns - turned_ns) % shape->turn_ns;
	}
	return time_ns + sectors * shape->turn_ns / place.on_track;
}

#endif
