// SPDX-License-Identifier: MIT OR Apache-2.0
//! The papers' streaming media server: a film's packs over UDP, each when its own clock says.

use super::net::{must, send, stamp, Target, STAMP};
use crate::sys;
use clap::Args;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of film in a datagram, at most.
pub const DATAGRAM: usize = 1024;
/// Ticks of the system clock reference in a second: ISO/IEC 11172-1, 2.4.
const TICKS: u64 = 90_000;

/// What is streamed.
#[derive(Args, Clone, Debug)]
#[group(skip)] // its variant of `Work` has the name
pub struct Film {
    /// An MPEG-1 program stream
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

/// A pack: when it is due after the first, and where it is.
#[derive(Debug, PartialEq)]
pub struct Pack {
    /// After the first pack, in nanoseconds.
    pub due_ns: u64,
    /// In the file.
    pub bytes: Range<usize>,
}

/// System clock reference of an MPEG-1 pack header, after its start code: 0010 and 33 bits in
/// three parts, a marker bit after each.
fn clock(head: &[u8]) -> Option<u64> {
    let [a, b, c, d, e] = *head.get(..5)? else {
        return None;
    };
    if a >> 4 != 2 {
        return None;
    }
    let [a, b, c, d, e] = [a, b, c, d, e].map(u64::from);
    Some((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1)
}

/// The packs of a program stream.
pub fn packs(film: &[u8]) -> Vec<Pack> {
    let mut starts: Vec<(usize, u64)> = Vec::new();
    for (at, code) in film.windows(4).enumerate() {
        if code == [0, 0, 1, 0xba] {
            starts.extend(clock(&film[at + 4..]).map(|ticks| (at, ticks)));
        }
    }
    let first = starts.first().map_or(0, |start| start.1);
    let end = |index: usize| starts.get(index + 1).map_or(film.len(), |next| next.0);
    let pack = |(index, &(at, ticks)): (usize, &(usize, u64))| Pack {
        due_ns: (ticks - first) * 1_000_000_000 / TICKS,
        bytes: at..end(index),
    };
    starts.iter().enumerate().map(pack).collect()
}

/// How long a film is: its last pack takes as long as the one before. None: it has not two.
pub fn length_ns(packs: &[Pack]) -> Option<u64> {
    let last = packs.last()?;
    let before = packs.get(packs.len().checked_sub(2)?)?;
    Some(2 * last.due_ns - before.due_ns)
}

/// Sends the film over and over; datagrams are stamped with the time they are due. Counts datagrams.
pub fn run(count: &AtomicU64, target: &Target, film: &Film) {
    let data = must("the film", fs::read(&film.file));
    let packs = packs(&data);
    let Some(length) = length_ns(&packs) else {
        eprintln!(
            "qlinux-work: {} has no packs: it is no MPEG-1 program stream",
            film.file.display()
        );
        std::process::exit(1)
    };
    let socket = target.udp();
    let mut datagram = vec![0; STAMP + DATAGRAM];
    let (mut begin, mut number) = (sys::now_ns(), 0);
    loop {
        for pack in &packs {
            let due = begin + pack.due_ns;
            sys::sleep_until(due);
            for part in data[pack.bytes.clone()].chunks(DATAGRAM) {
                stamp(&mut datagram, number, due);
                datagram[STAMP..STAMP + part.len()].copy_from_slice(part);
                send(&socket, &datagram[..STAMP + part.len()]);
                number += 1;
                count.store(number, Ordering::Relaxed);
            }
        }
        begin += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_their_times() {
        // A clock of 90,000 (one second) in the bits of a pack header, and one of 0.
        let one = [0, 0, 1, 0xba, 0x21, 0, 5, 0xbf, 0x21];
        let zero = [0, 0, 1, 0xba, 0x21, 0, 1, 0, 1];
        assert_eq!(clock(&one[4..]), Some(90_000));
        let film = [&zero[..], &[9; 4], &one[..]].concat();
        let second = 1_000_000_000;
        let found = packs(&film);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].due_ns, found[0].bytes.clone()), (0, 0..13));
        assert_eq!((found[1].due_ns, found[1].bytes.clone()), (second, 13..22));
    }
}
