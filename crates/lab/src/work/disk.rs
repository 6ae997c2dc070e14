// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that read from a disk: one that waits for each answer, and a streaming media server.

use super::film::{self, Pack, DATAGRAM};
use super::net::{must, send, stamp, Target, STAMP};
use crate::counter::Counter;
use crate::sys;
use anyhow::{ensure, Context, Result};
use clap::Args;
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What requests past the page cache are multiples of.
const BLOCK: u64 = 4096;
/// Words that [`stream`] logs of a round.
pub const WORDS: usize = 3;

/// Memory that a disk can write to.
struct Buffer {
    at: *mut u8,
    layout: Layout,
}

// SAFETY: the memory belongs to nobody else.
unsafe impl Send for Buffer {}

impl Buffer {
    fn new(bytes: u64) -> Buffer {
        let size = bytes.max(BLOCK) as usize;
        let layout = must(
            "a buffer",
            Layout::from_size_align(size, BLOCK as usize).map_err(io::Error::other),
        );
        // SAFETY: the layout has a size.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            must("a buffer", Err(io::ErrorKind::OutOfMemory.into()))
        }
        Buffer { at, layout }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as long as the layout says, initialised, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: from alloc_zeroed with this layout.
        unsafe { dealloc(self.at, self.layout) }
    }
}

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT);
    must("the disk", options.open(path))
}

/// What an interactive program reads.
#[derive(Args, Clone, Debug)]
pub struct Asker {
    /// Disk or file
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Byte where its part begins
    #[arg(long, default_value_t = 0)]
    at: u64,
    /// Bytes of its part
    #[arg(long)]
    bytes: u64,
    /// Mean pause after each answer; each is up to twice as long
    #[arg(long, value_parser = super::parse_duration, default_value = "80ms")]
    pause: Duration,
}

/// Reads 4 KB at random places with pauses; logs when each was asked for and how long it took, in nanoseconds.
pub fn ask(counter: &Counter, count: &AtomicU64, asker: &Asker, slot: usize) {
    let file = open(&asker.from);
    let mut buffer = Buffer::new(BLOCK);
    let mut random = fastrand::Rng::with_seed(1 + slot as u64);
    loop {
        sys::sleep(asker.pause.mul_f64(random.f64() * 2.0));
        let at = asker.at + random.u64(..(asker.bytes / BLOCK).max(1)) * BLOCK;
        let begun = sys::now_ns();
        must("reading", file.read_exact_at(buffer.bytes(), at));
        counter.log_all(&[begun, sys::now_ns() - begun]);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A streaming media server's films, one for each thread.
#[derive(Args, Clone, Debug)]
#[group(skip)] // its variant of `Work` has the name
pub struct Stream {
    /// The film, an MPEG-1 program stream: when each of its packs is due
    #[arg(long, value_name = "FILE")]
    film: PathBuf,
    /// Disk or file that holds a copy of it for each thread
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Byte where the first copy begins
    #[arg(long, default_value_t = 0)]
    at: u64,
    /// Bytes from the beginning of one copy to that of the next
    #[arg(long)]
    apart: u64,
    /// What is sent in so long is read at once
    #[arg(long, value_parser = super::parse_duration, default_value = "1s")]
    round: Duration,
}

impl Stream {
    /// The film's packs.
    pub fn packs(&self) -> Result<Vec<Pack>> {
        let film = self.film.display();
        let data = fs::read(&self.film).with_context(|| format!("{film} cannot be read"))?;
        let packs = film::packs(&data);
        ensure!(
            film::length_ns(&packs).is_some(),
            "{film} has no packs: it is no MPEG-1 program stream"
        );
        Ok(packs)
    }
}

/// The packs of each round.
fn rounds(packs: &[Pack], round_ns: u64) -> Vec<Range<usize>> {
    let number = |pack: &Pack| pack.due_ns / round_ns;
    let last = packs.last().map_or(0, number);
    let first_of = |round| packs.partition_point(|pack| number(pack) < round);
    (0..=last)
        .map(|round| first_of(round)..first_of(round + 1))
        .collect()
}

/// What was read for a round, and when its first pack of the film would be due.
struct Read {
    buffer: Buffer,
    /// Byte of the film at which it begins.
    from: u64,
    packs: Range<usize>,
    begin_ns: u64,
}

/// Sends what was read, each pack at its time or as soon as it is there.
fn sender(count: &AtomicU64, target: &Target, packs: &[Pack], rounds: &mpsc::Receiver<Read>) {
    let socket = target.udp();
    let mut datagram = vec![0; STAMP + DATAGRAM];
    let mut number = 0;
    for mut read in rounds {
        let data = read.buffer.bytes();
        for pack in &packs[read.packs] {
            let due = read.begin_ns + pack.due_ns;
            sys::sleep_until(due);
            let place = |at: usize| (at as u64 - read.from) as usize;
            for part in data[place(pack.bytes.start)..place(pack.bytes.end)].chunks(DATAGRAM) {
                stamp(&mut datagram, number, due);
                datagram[STAMP..STAMP + part.len()].copy_from_slice(part);
                send(&socket, &datagram[..STAMP + part.len()]);
                number += 1;
                count.store(number, Ordering::Relaxed);
            }
        }
    }
}

/// The papers' streaming media server: in each round it sends what it read in the one before, and reads what the next
/// one needs. Logs of each round when what is read in it is needed, when it was there, and how many bytes it has.
/// Counts datagrams.
pub fn stream(counter: &Counter, slot: usize, target: &Target, stream: &Stream, packs: &[Pack]) {
    let Some(length) = film::length_ns(packs) else {
        return;
    };
    let round_ns = stream.round.as_nanos() as u64;
    let file = open(&stream.from);
    let copy = stream.at + slot as u64 * stream.apart;
    let (give, take) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || sender(counter.slot(slot), target, packs, &take));
        // Films do not begin at the same moment.
        let mut begin_ns = sys::now_ns() + round_ns * (1 + slot as u64) / 4 + round_ns;
        loop {
            for (number, packs_of) in rounds(packs, round_ns).into_iter().enumerate() {
                let needed_ns = begin_ns + number as u64 * round_ns;
                sys::sleep_until(needed_ns - round_ns);
                let all = &packs[packs_of.clone()];
                let Some((first, last)) = all.first().zip(all.last()) else {
                    // There is nothing to be late.
                    counter.log_all(&[needed_ns, needed_ns, 0]);
                    continue;
                };
                let from = first.bytes.start as u64 / BLOCK * BLOCK;
                let to = (last.bytes.end as u64).next_multiple_of(BLOCK);
                let mut buffer = Buffer::new(to - from);
                must("reading", file.read_exact_at(buffer.bytes(), copy + from));
                counter.log_all(&[needed_ns, sys::now_ns(), to - from]);
                let read = Read {
                    buffer,
                    from,
                    packs: packs_of,
                    begin_ns,
                };
                if give.send(read).is_err() {
                    return;
                }
            }
            begin_ns += length;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_a_film() {
        let pack = |due_ns, start: usize| Pack {
            due_ns,
            bytes: start..start + 10,
        };
        let packs = [pack(0, 0), pack(40, 10), pack(100, 20), pack(310, 30)];
        assert_eq!(rounds(&packs, 100), [0..2, 2..3, 3..3, 3..4]);
        assert_eq!(rounds(&[], 100), vec![0..0; 1]);
    }

    #[test]
    fn buffers_are_aligned() {
        let mut buffer = Buffer::new(10_000);
        assert_eq!(buffer.bytes().as_ptr() as usize % BLOCK as usize, 0);
        assert_eq!(buffer.bytes().len(), 10_000);
    }
}
