// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file through which a workload shows its progress.
//!
//! The workload maps it and counts in it; whoever samples maps it too and reads
//! the counters of all workloads within a few instructions of each other, with
//! no call into the kernel on either side. One cache line per thread:
//!
//! ```text
//! line 0        magic, number of slots, capacity of the log, entries in the log
//! line 1..      one slot per thread: its count
//! afterwards    the log: u64 entries, such as wake-up latencies in nanoseconds
//! ```

use anyhow::{ensure, Context, Result};
use memmap2::MmapRaw;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = 0x716c_776f_726b_0001;
const LINE: usize = 64;

/// A mapped counter file.
pub struct Counter {
    map: MmapRaw,
    slots: usize,
    log: usize,
}

impl Counter {
    /// Creates the file with `slots` counters and room for `log` entries, all zero.
    pub fn create(path: &Path, slots: usize, log: usize) -> Result<Counter> {
        ensure!(slots > 0, "{}: no slots asked for", path.display());
        let failed = || format!("counter file {} cannot be made", path.display());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .with_context(failed)?;
        file.set_len(((1 + slots) * LINE + log * 8) as u64)
            .with_context(failed)?;
        let map = MmapRaw::map_raw(&file).with_context(failed)?;
        let counter = Counter { map, slots, log };
        counter.word(1).store(slots as u64, Ordering::Relaxed);
        counter.word(2).store(log as u64, Ordering::Relaxed);
        // Whoever sees the magic may rely on the rest.
        counter.word(0).store(MAGIC, Ordering::Release);
        Ok(counter)
    }

    /// Maps the file of a workload; `None` while the workload has not made it yet.
    pub fn open(path: &Path) -> Result<Option<Counter>> {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
            return Ok(None);
        };
        if file.metadata()?.len() < (2 * LINE) as u64 {
            return Ok(None);
        }
        let map = MmapRaw::map_raw(&file)
            .with_context(|| format!("counter file {} cannot be mapped", path.display()))?;
        let mut counter = Counter {
            map,
            slots: 0,
            log: 0,
        };
        if counter.word(0).load(Ordering::Acquire) != MAGIC {
            return Ok(None);
        }
        counter.slots = counter.word(1).load(Ordering::Relaxed) as usize;
        counter.log = counter.word(2).load(Ordering::Relaxed) as usize;
        ensure!(
            (1 + counter.slots) * LINE + counter.log * 8 <= counter.map.len(),
            "counter file {} is damaged: its head promises more than it holds",
            path.display()
        );
        Ok(Some(counter))
    }

    /// Number of threads that count here.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The counter of thread `slot`.
    pub fn slot(&self, slot: usize) -> &AtomicU64 {
        assert!(slot < self.slots);
        self.word((1 + slot) * LINE / 8)
    }

    /// All counters, now.
    pub fn read(&self) -> Vec<u64> {
        let all = (0..self.slots).map(|slot| self.slot(slot));
        all.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Appends to the log; entries beyond its capacity are dropped.
    pub fn log(&self, value: u64) {
        let at = self.word(3).fetch_add(1, Ordering::Relaxed) as usize;
        if at < self.log {
            self.word((1 + self.slots) * LINE / 8 + at)
                .store(value, Ordering::Release);
        }
    }

    /// Appends all of `values`, with nothing of another thread in between.
    pub fn log_all(&self, values: &[u64]) {
        let at = self
            .word(3)
            .fetch_add(values.len() as u64, Ordering::Relaxed) as usize;
        for (at, value) in (at..self.log).zip(values) {
            self.word((1 + self.slots) * LINE / 8 + at)
                .store(*value, Ordering::Release);
        }
    }

    /// Entries in the log, for [`Counter::log_from`].
    pub fn log_len(&self) -> usize {
        (self.word(3).load(Ordering::Acquire) as usize).min(self.log)
    }

    /// Has anything been dropped for want of room?
    pub fn log_full(&self) -> bool {
        self.word(3).load(Ordering::Acquire) as usize > self.log
    }

    /// The log from entry `from` on.
    pub fn log_from(&self, from: usize) -> Vec<u64> {
        let first = (1 + self.slots) * LINE / 8;
        let entries = (from..self.log_len()).map(|at| self.word(first + at));
        entries.map(|word| word.load(Ordering::Acquire)).collect()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!((index + 1) * 8 <= self.map.len());
        // SAFETY: inside the mapping, which lives as long as self and is page-aligned.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(index)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_sees_what_the_workload_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        assert!(Counter::open(&path).unwrap().is_none());
        let writer = Counter::create(&path, 3, 2).unwrap();
        let reader = Counter::open(&path).unwrap().unwrap();
        writer.slot(1).store(7, Ordering::Relaxed);
        assert_eq!(reader.read(), [0, 7, 0]);
        for value in [5, 6, 7] {
            writer.log(value);
        }
        assert_eq!(reader.log_from(0), [5, 6], "the log holds two entries");
        assert_eq!(reader.log_from(1), [6]);
        let writer = Counter::create(&path, 1, 3).unwrap();
        writer.log_all(&[1, 2]);
        writer.log_all(&[3, 4]);
        let reader = Counter::open(&path).unwrap().unwrap();
        assert_eq!(reader.log_from(0), [1, 2, 3]);
    }
}
