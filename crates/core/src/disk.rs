// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a disk takes for a request, to the nanosecond: for simulations, and to check the test
//! disk of the guest (kernel/testdisk/model.h), which computes the same in the same integers.
//!
//! Ruemmler and Wilkes, "An introduction to disk drive modeling", 1994: the arm seeks (a + b
//! times the root of the distance), the disk turns until the sector is below the head, and
//! passes as many sectors in a turn as the zone has on a track.

use crate::cello::Request;

/// The shape of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Of a turn, in nanoseconds; 0: it has no moving parts.
    pub turn_ns: u64,
    /// A seek to the next track, and what one from end to end takes more.
    pub seek_ns: [u64; 2],
    /// On a track, at the first and the last sector of the disk.
    pub track_sectors: [u64; 2],
    /// Before anything else, for each request.
    pub overhead_ns: u64,
    /// That serve side by side; 1: one after the other. With more the rest of what is above says nothing.
    pub channels: u64,
    /// With several channels: so many times as slow as [`Flash`] says.
    pub slow: u64,
}

impl Shape {
    /// 7,200 turns a minute, 128 GiB, seeks of 0.5 to 8 ms.
    pub const TURNING: Shape = Shape {
        sectors: 1 << 28,
        turn_ns: 8_333_333,
        seek_ns: [500_000, 7_500_000],
        track_sectors: [1800, 900],
        overhead_ns: 50_000,
        channels: 1,
        slow: 1,
    };
    /// 100 µs and 500 MB/s wherever the request is.
    pub const FLAT: Shape = Shape {
        sectors: 1 << 28,
        turn_ns: 0,
        seek_ns: [0, 0],
        track_sectors: [1, 1],
        overhead_ns: 100_000,
        channels: 1,
        slow: 1,
    };
    /// Eight channels, see [`Flash`].
    pub const PARALLEL: Shape = Shape {
        channels: 8,
        ..Shape::FLAT
    };
    /// The same, ten times as slow: a memory card.
    pub const CARD: Shape = Shape {
        overhead_ns: 1_000_000,
        slow: 10,
        ..Shape::PARALLEL
    };
}

const ZONES: u64 = 16;
/// Of a flat disk, in nanoseconds.
const FLAT_SECTOR_NS: u64 = 1000;

/// A disk at work.
pub struct Disk {
    shape: Shape,
    at: u64,
}

impl Disk {
    /// With its arm above the first sector.
    pub fn new(shape: Shape) -> Disk {
        Disk { shape, at: 0 }
    }

    /// Sectors on a track there, the track's number, and the part of a turn until the sector
    /// passes, in nanoseconds.
    fn geometry(&self, sector: u64) -> (u64, u64, u64) {
        let [first, last] = self.shape.track_sectors;
        let zone_sectors = self.shape.sectors / ZONES + 1;
        let track_sectors = |zone: u64| first - (first - last) * zone / (ZONES - 1);
        let zone = sector / zone_sectors;
        let before: u64 = (0..zone).map(|z| zone_sectors / track_sectors(z)).sum();
        let on_track = track_sectors(zone);
        let inside = sector % zone_sectors;
        let part_ns = inside % on_track * self.shape.turn_ns / on_track;
        (on_track, before + inside / on_track, part_ns)
    }

    /// From one track to the other.
    fn seek_ns(&self, from: u64, to: u64) -> u64 {
        let (_, tracks, _) = self.geometry(self.shape.sectors - 1);
        let [least, longest] = self.shape.seek_ns;
        match from.abs_diff(to) {
            0 => 0,
            // The quotient first: the product with the distance would not fit for a large disk.
            distance => least + (longest * longest / tracks * distance).isqrt(),
        }
    }

    /// Serves the request from now on; returns how long that takes.
    pub fn serve(&mut self, request: &Request, now_ns: u64) -> u64 {
        let Shape { turn_ns, .. } = self.shape;
        let sectors = u64::from(request.sectors);
        let from = std::mem::replace(&mut self.at, request.sector + sectors);
        if turn_ns == 0 {
            return self.shape.overhead_ns + sectors * FLAT_SECTOR_NS;
        }
        let (_, here, _) = self.geometry(from.min(self.shape.sectors - 1));
        let (on_track, there, part_ns) = self.geometry(request.sector);
        let mut time_ns = self.shape.overhead_ns + self.seek_ns(here, there);
        // What follows at once is below the head already: the disk reads ahead.
        if from != request.sector {
            let turned_ns = (now_ns + time_ns) % turn_ns;
            time_ns += (part_ns + turn_ns - turned_ns) % turn_ns;
        }
        time_ns + sectors * turn_ns / on_track
    }
}

/// A disk of several channels at work: kernel/testdisk/flash.h in the same integers.
pub struct Flash {
    /// When a channel has served what it was given.
    free_ns: Vec<u64>,
    /// Of the writes that the cache has, in sectors, at that time.
    cached: u64,
    drained_ns: u64,
    /// Requests and sectors written, so far.
    served: u64,
    written: u64,
    slow: u64,
}

const STRIPE_SECTORS: u64 = 256;
const CHANNEL_SECTOR_NS: u64 = 500;
const READ_NS: u64 = 80_000;
const WRITE_NS: u64 = 400_000;
const CACHED_NS: u64 = 20_000;
const CACHE_SECTORS: u64 = 32_768;
const DRAIN_SECTOR_NS: u64 = 2_000;
const PAUSE_SECTORS: u64 = 262_144;
const PAUSE_NS: u64 = 5_000_000;

/// A number that follows from another as if by chance (a Fibonacci hash).
fn mixed(x: u64) -> u64 {
    x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl Flash {
    /// With nothing in its cache.
    pub fn new(shape: &Shape) -> Flash {
        Flash {
            free_ns: vec![0; shape.channels as usize],
            slow: shape.slow,
            cached: 0,
            drained_ns: 0,
            served: 0,
            written: 0,
        }
    }

    /// Whether the cache takes the write, which comes now.
    fn caches(&mut self, sectors: u64, now_ns: u64) -> bool {
        let drained = (now_ns - self.drained_ns) / (DRAIN_SECTOR_NS * self.slow);
        self.drained_ns += drained * DRAIN_SECTOR_NS * self.slow;
        self.cached = self.cached.saturating_sub(drained);
        let takes = self.cached + sectors <= CACHE_SECTORS;
        if takes {
            self.cached += sectors;
        }
        takes
    }

    /// The request comes now. When it begins to be served, and when it has been.
    pub fn serve(&mut self, request: &Request, now_ns: u64) -> (u64, u64) {
        let sectors = u64::from(request.sectors);
        let stripe = mixed(request.sector / STRIPE_SECTORS);
        let channel = (stripe % self.free_ns.len() as u64) as usize;
        let mut time_ns = READ_NS;
        self.served += 1;
        if request.writes {
            let before = self.written / PAUSE_SECTORS;
            self.written += sectors;
            if self.written / PAUSE_SECTORS > before {
                for free_ns in &mut self.free_ns {
                    *free_ns = (*free_ns).max(now_ns) + PAUSE_NS * self.slow;
                }
            }
            time_ns = match self.caches(sectors, now_ns) {
                true => CACHED_NS,
                false => WRITE_NS,
            };
        }
        // Three quarters to five quarters of it.
        time_ns = time_ns * 3 / 4 + time_ns * (mixed(self.served) & 1023) / 2048;
        let begin_ns = self.free_ns[channel].max(now_ns);
        let end_ns = begin_ns + (time_ns + sectors * CHANNEL_SECTOR_NS) * self.slow;
        self.free_ns[channel] = end_ns;
        (begin_ns, end_ns)
    }
}
