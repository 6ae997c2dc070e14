// SPDX-License-Identifier: MIT OR Apache-2.0
//! A streaming media server that reads its films from a disk.

use super::qlinux_8::program_stream;
use crate::disk::{Area, Disk};
use crate::net::Span;
use crate::scene::{Scene, WARM_UP};
use crate::sys;
use crate::work::disk::WORDS;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Films at a time, as in the paper.
pub const FILMS: usize = 4;
/// What is sent in so long is read at once, and is needed so long after it was asked for.
pub const ROUND: Duration = Duration::from_millis(200);
/// A server that has read nothing after this long has failed.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Films begin at multiples of this many bytes.
const BLOCK: u64 = 4096;

/// Films on a disk.
pub struct Films {
    /// The film as a file in memory.
    film: String,
    /// In an area of the disk, a copy for each thread.
    at: u64,
    apart: u64,
    from: String,
}

impl Films {
    /// Puts copies of the guest's film, as many as there are threads, all over an area of the disk.
    pub fn store(disk: &Disk, area: &Area, count: usize, dir: &Path) -> Result<Films> {
        let film = program_stream(dir)?;
        let data = fs::read(&film).with_context(|| format!("{film} cannot be read"))?;
        let at = area.start * 512;
        let apart = (area.end - area.start) * 512 / count as u64 / BLOCK * BLOCK;
        for copy in 0..count as u64 {
            disk.store(at + copy * apart, &data)?;
        }
        Ok(Films {
            film,
            at,
            apart,
            from: disk.path().display().to_string(),
        })
    }

    /// What the workload `stream` takes, but for the receiver.
    pub fn args(&self, count: usize) -> Vec<String> {
        let words = [
            ("--film", self.film.clone()),
            ("--from", self.from.clone()),
            ("--at", self.at.to_string()),
            ("--apart", self.apart.to_string()),
            ("--round", format!("{}ms", ROUND.as_millis())),
            ("--threads", count.to_string()),
        ];
        let pairs = words.into_iter();
        pairs
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }
}

/// A stretch of `length` that begins when the films have run for a while: the same part of them in every run.
pub fn span(scene: &Scene, server: usize, length: Duration) -> Result<Span> {
    let counter = scene.workers[server].counter()?;
    let limit = sys::now_ns() + START_LIMIT.as_nanos() as u64;
    while counter.log_len() < WORDS {
        ensure!(
            sys::now_ns() < limit,
            "the streaming server read nothing: see its message above"
        );
        sys::sleep(Duration::from_millis(1));
    }
    let begun_ns = counter.log_from(0)[0];
    let begin_ns = begun_ns + WARM_UP.as_nanos() as u64;
    Ok(Span::from(begin_ns, length.as_nanos() as u64))
}

/// What a streaming server read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Streamed {
    /// Rounds that were due.
    pub rounds: usize,
    /// Rounds whose data was not there in time, in percent.
    pub missed: f64,
    /// By how much the latest one was too late, in milliseconds; below 0: it was early.
    pub late_ms: f64,
    /// Read, in Mbit/s.
    pub mbit: f64,
}

impl Streamed {
    /// From the log of `stream` with so many threads, some time after the span.
    pub fn new(log: &[u64], span: Span, count: usize) -> Streamed {
        let inside = |time_ns: u64| (span.begin_ns..span.end_ns).contains(&time_ns);
        let rounds = || log.chunks_exact(WORDS);
        let due = rounds().filter(|words| inside(words[0]));
        let (mut late, mut there) = (Vec::new(), 0);
        for words in due {
            late.push(words[1] as f64 - words[0] as f64);
            there += usize::from(words[1] <= words[0]);
        }
        // Those that are not there yet are not in the log.
        let length_ns = span.end_ns - span.begin_ns;
        let expected = count * (length_ns / ROUND.as_nanos() as u64) as usize;
        let read = rounds().filter(|words| inside(words[1]));
        let bytes: u64 = read.map(|words| words[2]).sum();
        let latest = late.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Streamed {
            rounds: expected,
            missed: 100.0 * (1.0 - there.min(expected) as f64 / expected as f64),
            late_ms: if late.len() < expected {
                f64::INFINITY
            } else {
                latest / 1e6
            },
            mbit: 8.0 * bytes as f64 / span.seconds() / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_in_time_and_late() {
        let ms = 1_000_000;
        let log = [
            [100, 80, 1000],
            [300, 310, 1000],
            [500, 450, 1000],
            [700, 701, 1000],
        ];
        let log = log
            .map(|[due, done, bytes]| [due * ms, done * ms, bytes])
            .concat();
        let found = Streamed::new(&log, Span::from(200 * ms, 400 * ms), 1);
        assert_eq!((found.rounds, found.missed, found.late_ms), (2, 50.0, 10.0));
        assert!((found.mbit - 0.04).abs() < 1e-9, "{found:?}");
        let found = Streamed::new(&log, Span::from(200 * ms, 1000 * ms), 1);
        assert_eq!((found.rounds, found.missed), (5, 80.0));
        assert_eq!(found.late_ms, f64::INFINITY, "two did not come at all");
    }
}
