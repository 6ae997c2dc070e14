// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long threads waited, as a histogram (core/cpu/waits.h).

use std::ops::AddAssign;

/// Buckets of a histogram.
pub const BUCKETS: usize = 256;

const STEPS: u64 = 32;
const UNIT_SHIFT: u64 = 9;
const LEVEL_SHIFT: u64 = 3;

/// Counts one wait as the kernel does, in counters that grow modulo 2^32.
pub fn count(counters: &mut [u32; BUCKETS], wait_ns: u64) {
    // SAFETY: the layout is C's, which ffi.rs compares.
    unsafe { crate::ffi::qcore_waits_count(counters, wait_ns) }
}

/// The wait that ends a bucket: all in it are shorter. The last has no end; the
/// kernel lets nobody wait that long.
pub fn end_ns(bucket: usize) -> u64 {
    let (level, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    (step + 1) << (UNIT_SHIFT + LEVEL_SHIFT * level)
}

/// The waits between two looks at the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits([u64; BUCKETS]);

impl Default for Waits {
    fn default() -> Waits {
        Waits([0; BUCKETS])
    }
}

impl Waits {
    /// From the counters before and after.
    pub fn between(before: &[u32; BUCKETS], after: &[u32; BUCKETS]) -> Waits {
        let count = |bucket: usize| u64::from(after[bucket].wrapping_sub(before[bucket]));
        Waits(std::array::from_fn(count))
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The wait that at least this part of all did not exceed, rounded up to the
    /// end of its bucket; `None` of none.
    pub fn quantile_ns(&self, part: f64) -> Option<u64> {
        let rank = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut below = 0;
        let reached = |waits: &u64| {
            below += waits;
            below >= rank
        };
        self.0.iter().position(reached).map(end_ns)
    }

    /// The longest, rounded up.
    pub fn max_ns(&self) -> Option<u64> {
        self.0.iter().rposition(|&waits| waits > 0).map(end_ns)
    }
}

impl AddAssign<&Waits> for Waits {
    fn add_assign(&mut self, other: &Waits) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}
