// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a disk that says it turns has an arm.
//!
//! The kernel takes a disk for one that turns unless it says otherwise, and many without an arm
//! say nothing: those of virtual machines, and many behind USB and RAID controllers. Given one
//! request at a time, as an arm is, they would serve a fraction of what they can. But an arm needs
//! a seek and half a turn for a place somewhere else, and serves one read after the other. So a
//! few reads all over the disk tell: one at a time, then eight.

use super::Disk;
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads one at a time; an arm takes some 0.3 s for them.
const READS: u32 = 24;
/// Reads at a time then, and how many each of those who read has in all.
const SIDE_BY_SIDE: u32 = 8;
const EACH: u32 = 6;
/// No arm takes less, on average, for places all over a disk.
const SEEK: Duration = Duration::from_millis(1);
/// An arm that has eight to choose from, and takes the nearest, serves less than so many times as much.
const GAIN: u32 = 3;
/// Bytes of a read, and what its place is a multiple of: the largest block of a disk.
const BLOCK: usize = 4096;
/// A smaller disk has no places far from each other.
const SMALLEST: u64 = 1 << 26;
/// What /sys/block/DEV/size counts.
const SECTOR: u64 = 512;

/// What a disk is taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arm {
    /// One with an arm if it says that it turns, and reads all over it do not tell otherwise.
    #[default]
    Auto,
    /// One with an arm.
    Yes,
    /// One without.
    No,
}

/// What was found of a disk that says it turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// It may have an arm.
    Arm,
    /// It has none.
    NoArm,
    /// Others read and wrote too much meanwhile.
    Busy,
    /// It could not be read.
    Unread,
}

/// Reads all over the disk, for a second at most if it has an arm.
pub(super) fn look(disk: &Disk) -> Found {
    measure(disk).unwrap_or(Found::Unread)
}

fn measure(disk: &Disk) -> io::Result<Found> {
    let odd = || io::Error::from(io::ErrorKind::InvalidData);
    let file = open(disk)?;
    let bytes = disk.text("size")?.parse::<u64>().map_err(|_| odd())? * SECTOR;
    if bytes < SMALLEST {
        return Ok(Found::Unread);
    }
    // Other places each time: a disk remembers what it read lately.
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_nanos() as u64);
    let read = |first: u32, n: u32| -> io::Result<()> {
        let mut buffer = Buffer::default();
        (first..first + n).try_for_each(|i| {
            let at = place(bytes, seed, i.into());
            file.read_exact_at(buffer.block(), at)
        })
    };
    // One that sleeps wakes up.
    read(0, 1)?;
    let before = served(disk)?;
    let began = Instant::now();
    read(1, READS)?;
    let alone = began.elapsed();
    let began = Instant::now();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..SIDE_BY_SIDE)
            .map(|i| scope.spawn(move || read(1 + READS + i * EACH, EACH)))
            .collect();
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().unwrap_or_else(|_| Err(odd())))
    })?;
    let together = began.elapsed();
    let others = served(disk)?.saturating_sub(before + u64::from(READS + SIDE_BY_SIDE * EACH));
    Ok(judge(alone, together, others))
}

/// What reads one at a time, and those side by side, took; `others` came in between.
fn judge(alone: Duration, together: Duration, others: u64) -> Found {
    if alone < SEEK * READS {
        return Found::NoArm;
    }
    if others > u64::from(READS + SIDE_BY_SIDE * EACH) / 8 {
        return Found::Busy;
    }
    // Together were so many times as many.
    match together * GAIN * READS < alone * SIDE_BY_SIDE * EACH {
        true => Found::NoArm,
        false => Found::Arm,
    }
}

/// The disk itself, past the page cache.
fn open(disk: &Disk) -> io::Result<File> {
    let path = format!("/dev/{}", disk.name().replace('!', "/"));
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    let device = file.metadata()?.rdev();
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    match disk.number() == Some(number) {
        true => Ok(file),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Reads and writes that the disk has served.
fn served(disk: &Disk) -> io::Result<u64> {
    let stat = disk.text("stat")?;
    let field = |n| stat.split_whitespace().nth(n)?.parse::<u64>().ok();
    let sum = field(0).zip(field(4)).map(|(reads, writes)| reads + writes);
    sum.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The i-th of places that are spread evenly, however many there are: multiples of the golden
/// ratio, less their whole parts.
fn place(bytes: u64, seed: u64, i: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let part = seed.wrapping_add(i).wrapping_mul(GOLDEN);
    let blocks = bytes / BLOCK as u64;
    ((u128::from(part) * u128::from(blocks)) >> 64) as u64 * BLOCK as u64
}

/// Memory for a block where a disk can put it.
struct Buffer(Vec<u8>);

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer(vec![0; 2 * BLOCK])
    }
}

impl Buffer {
    fn block(&mut self) -> &mut [u8] {
        let from = self.0.as_ptr().align_offset(BLOCK);
        &mut self.0[from..from + BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn disks_of_several_kinds() {
        // (what it is, one read, eight side by side, others, what it is taken for)
        for (what, one_us, eight_us, others, found) in [
            ("7,200 turns a minute", 12_500, 100_000, 0, Found::Arm),
            ("likewise, chooses of eight", 12_500, 55_000, 0, Found::Arm),
            ("15,000 turns a minute", 5_500, 24_000, 0, Found::Arm),
            ("an SSD", 90, 100, 0, Found::NoArm),
            ("an SSD, with one processor", 60, 400, 0, Found::NoArm),
            ("an SSD that others use", 500, 600, 5_000, Found::NoArm),
            ("a network's disk", 5_000, 5_500, 0, Found::NoArm),
            ("eight arms", 9_000, 18_000, 0, Found::NoArm),
            ("an arm that others use", 90_000, 100_000, 30, Found::Busy),
        ] {
            let alone = READS * Duration::from_micros(one_us);
            let together = EACH * Duration::from_micros(eight_us);
            assert_eq!(judge(alone, together, others), found, "{what}");
        }
        assert_eq!(judge(MS * READS, MS, 9), Found::NoArm, "a few others");
    }

    proptest! {
        #![proptest_config(cases(256))]

        /// Each read is one of the disk, and they are far from each other.
        #[test]
        fn places_are_all_over(blocks in SMALLEST / BLOCK as u64..1 << 50, odd in 0..BLOCK as u64, seed in any::<u64>()) {
            let bytes = blocks * BLOCK as u64 + odd;
            let mut all: Vec<u64> = (0..64).map(|i| place(bytes, seed, i)).collect();
            all.sort_unstable();
            prop_assert!(all.iter().all(|at| at % BLOCK as u64 == 0 && at + BLOCK as u64 <= bytes));
            prop_assert!(all.windows(2).all(|two| two[1] - two[0] > bytes / 64 / 4));
        }
    }

    #[test]
    fn what_is_read_lies_where_disks_can_put_it() {
        let mut buffer = Buffer::default();
        let block = buffer.block();
        assert_eq!((block.len(), block.as_ptr() as usize % BLOCK), (BLOCK, 0));
    }
}
