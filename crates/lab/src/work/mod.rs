// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workloads of the papers, written anew: what `qlinux-work` runs.
//!
//! Each counts its progress in a [`Counter`] file and runs until it is ended,
//! so that whoever measures chooses the stretch of steady state.

mod calls;
mod dhry;
pub mod disk;
pub mod film;
mod inf;
mod lock;
pub mod net;
pub mod tap;
mod timed;
pub mod web;

use crate::counter::Counter;
use crate::sys;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// A duration as in 5ms, 250us or 1s.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("{text} is no duration: write it like 5ms or 250us"))?;
    match &text[digits.len()..] {
        "s" => Ok(Duration::from_secs(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "us" => Ok(Duration::from_micros(number)),
        unit => Err(format!("{unit} is no unit of time: use s, ms or us")),
    }
}

/// What all workloads take.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// File to count in, one counter per thread
    #[arg(long, value_name = "FILE")]
    counter: PathBuf,
    /// Threads that do the same
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
}

/// One workload and its parameters.
#[derive(Subcommand, Clone, Debug)]
pub enum Work {
    /// Loop for ever and count: the papers' Inf
    Inf(Common),
    /// A mix of integer, string, record and call work like Dhrystone's, counted by the loop
    Dhry(Common),
    /// N busy threads in one process
    Threads {
        /// How many
        n: usize,
        /// File to count in
        #[arg(long, value_name = "FILE")]
        counter: PathBuf,
    },
    /// Run a while of every period; log how late each wake-up was
    Sleeper {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// CPU time of each period
        #[arg(long, value_parser = parse_duration, default_value = "1ms")]
        run: Duration,
        /// Length of a period
        #[arg(long, value_parser = parse_duration, default_value = "10ms")]
        period: Duration,
        /// Each period is longer by up to so much, at random
        #[arg(long, value_parser = parse_duration, default_value = "0s")]
        vary: Duration,
    },
    /// Like sleeper, but leave no period out; log when each began and was done, after its time
    Rounds {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// CPU time of each period
        #[arg(long, value_parser = parse_duration, default_value = "10ms")]
        run: Duration,
        /// Length of a period
        #[arg(long, value_parser = parse_duration, default_value = "60ms")]
        period: Duration,
    },
    /// Run and sleep for random times
    Burst {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// Mean CPU time of a burst
        #[arg(long, value_parser = parse_duration, default_value = "50ms")]
        run: Duration,
        /// Mean time asleep
        #[arg(long, value_parser = parse_duration, default_value = "50ms")]
        sleep: Duration,
        /// Seed of the random times
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Take mutexes that other processes take too; log how long it took to get them
    Lock {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// Files with the mutexes, in the order they are taken
        #[arg(long, required = true, value_name = "FILE")]
        take: Vec<PathBuf>,
        /// CPU time for which they are held
        #[arg(long, value_parser = parse_duration, default_value = "1ms")]
        hold: Duration,
        /// Time asleep before the next round
        #[arg(long, value_parser = parse_duration, default_value = "1ms")]
        pause: Duration,
        /// Of the mutexes
        #[command(flatten)]
        kind: lock::Kind,
    },
    /// Start processes that end at once, one after the other in each thread
    Forkstorm(Common),
    /// Start processes that become another program, which ends at once
    Exec(Common),
    /// Send a word through a pipe to another process and wait for its answer
    Pipe(Common),
    /// Send a UDP packet of a word to another process and wait for its answer
    Udp(Common),
    /// Create an empty file in memory and delete it
    Files(Common),
    /// Send UDP packets as fast as the socket takes them: the papers' Net_inf
    NetInf {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// The receiver
        #[command(flatten)]
        target: net::Target,
        /// Sizes and pauses
        #[command(flatten)]
        pattern: net::Pattern,
    },
    /// Write to a TCP connection as fast as it takes it, one connection in each thread
    TcpInf {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// The receiver
        #[command(flatten)]
        target: net::Target,
    },
    /// Send rounds of UDP packets and log how long each round took, in nanoseconds
    Blast {
        /// Counter
        #[command(flatten)]
        common: Common,
        /// The receiver
        #[command(flatten)]
        target: net::Target,
        /// Rounds
        #[command(flatten)]
        blast: net::Blast,
    },
    /// Stream a film over UDP in its own time, over and over
    Film {
        /// Counter
        #[command(flatten)]
        common: Common,
        /// The receiver
        #[command(flatten)]
        target: net::Target,
        /// The film
        #[command(flatten)]
        film: film::Film,
    },
    /// Read from a disk with pauses; log how long each answer took
    Ask {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// Where and how often
        #[command(flatten)]
        asker: disk::Asker,
    },
    /// Stream films from a disk over UDP in their own time, one in each thread; log when each part was read
    Stream {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// The receiver
        #[command(flatten)]
        target: net::Target,
        /// The films
        #[command(flatten)]
        stream: disk::Stream,
    },
    /// Make the requests of a trace, each at its time; log when each was answered
    WebClient {
        /// Counter and threads
        #[command(flatten)]
        common: Common,
        /// The requests
        #[command(flatten)]
        client: web::Client,
    },
    /// Take in packets and connections and drop what they hold
    Sink {
        /// Counter
        #[command(flatten)]
        common: Common,
        /// Where
        #[command(flatten)]
        ports: tap::Sink,
    },
    /// Log every packet that comes in at a device
    Tap {
        /// Counter
        #[command(flatten)]
        common: Common,
        /// The device
        #[command(flatten)]
        tap: tap::Tap,
    },
}

impl Work {
    fn common(&self) -> Common {
        match self {
            Work::Inf(common) | Work::Dhry(common) | Work::Forkstorm(common) => common.clone(),
            Work::Exec(common) | Work::Pipe(common) => common.clone(),
            Work::Udp(common) | Work::Files(common) => common.clone(),
            Work::Sleeper { common, .. }
            | Work::Burst { common, .. }
            | Work::Lock { common, .. } => common.clone(),
            Work::Rounds { common, .. } | Work::NetInf { common, .. } => common.clone(),
            Work::TcpInf { common, .. } | Work::Blast { common, .. } => common.clone(),
            Work::Film { common, .. } | Work::WebClient { common, .. } => common.clone(),
            Work::Ask { common, .. } | Work::Stream { common, .. } => common.clone(),
            Work::Sink { common, .. } | Work::Tap { common, .. } => common.clone(),
            Work::Threads { n, counter } => Common {
                counter: counter.clone(),
                threads: *n,
            },
        }
    }

    /// Entries of the log: a sleeper's latencies, for up to some minutes.
    fn log_capacity(&self) -> usize {
        match self {
            Work::Tap { tap, .. } => tap.log_capacity(),
            Work::Blast { .. } => 64,
            Work::WebClient { .. } => web::WORDS << 16,
            Work::Stream { .. } => disk::WORDS << 16,
            Work::Ask { .. } => 2 << 16,
            Work::Sleeper { .. } | Work::Rounds { .. } | Work::Lock { .. } => 1 << 16,
            _ => 0,
        }
    }

    /// The mutexes it takes.
    fn mutexes(&self) -> Result<Vec<lock::Mutex>> {
        match self {
            Work::Lock { take, kind, .. } => {
                take.iter().map(|p| lock::Mutex::open(p, *kind)).collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The film it streams from a disk; found out before it begins.
    fn packs(&self) -> Result<Vec<film::Pack>> {
        match self {
            Work::Stream { stream, .. } => stream.packs(),
            _ => Ok(Vec::new()),
        }
    }

    fn run_thread(&self, counter: &Counter, shared: &Shared, slot: usize) {
        let count = counter.slot(slot);
        match self {
            Work::NetInf {
                target, pattern, ..
            } => net::udp(count, target, pattern),
            Work::TcpInf { target, .. } => net::tcp(count, target),
            Work::Blast { target, blast, .. } => net::blast(counter, target, blast),
            Work::Film { target, film, .. } => film::run(count, target, film),
            Work::Ask { asker, .. } => disk::ask(counter, count, asker, slot),
            Work::Stream { target, stream, .. } => {
                disk::stream(counter, slot, target, stream, &shared.packs);
            }
            Work::WebClient { client, .. } => {
                web::run(counter, count, client, &shared.requests);
            }
            Work::Sink { ports, .. } => tap::sink(count, ports),
            Work::Tap { tap, .. } => tap::run(counter, count, tap),
            Work::Inf(_) | Work::Threads { .. } => inf::run(count),
            Work::Dhry(_) => dhry::run(count),
            Work::Sleeper {
                run, period, vary, ..
            } => {
                let seed = u64::from(std::process::id()) << 16 | slot as u64;
                timed::sleeper(counter, count, *run, *period, *vary, seed)
            }
            Work::Rounds { run, period, .. } => timed::rounds(counter, count, *run, *period),
            Work::Burst {
                run, sleep, seed, ..
            } => timed::burst(count, *run, *sleep, seed.wrapping_add(slot as u64)),
            Work::Lock { hold, pause, .. } => {
                lock::run(counter, count, &shared.mutexes, *hold, *pause);
            }
            Work::Forkstorm(_) => timed::forkstorm(count),
            Work::Exec(_) => calls::exec(count),
            Work::Pipe(_) => calls::pipe(count),
            Work::Udp(_) => calls::udp(count),
            Work::Files(common) => calls::files(count, &common.counter.with_extension("made")),
        }
    }
}

/// What the threads of a workload have in common.
struct Shared {
    mutexes: Vec<lock::Mutex>,
    requests: web::Requests,
    packs: Vec<film::Pack>,
}

/// Runs until the process is ended.
pub fn run(work: &Work) -> Result<()> {
    sys::die_with_parent();
    sys::wake_exactly();
    let common = work.common();
    let shared = Shared {
        mutexes: work.mutexes()?,
        requests: web::Requests::default(),
        packs: work.packs()?,
    };
    let counter = Counter::create(&common.counter, common.threads.max(1), work.log_capacity())?;
    thread::scope(|scope| {
        for slot in 1..common.threads {
            let (counter, shared) = (&counter, &shared);
            thread::Builder::new()
                .name(format!("work-{slot}"))
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || work.run_thread(counter, shared, slot))
                .with_context(|| format!("thread {slot} of {} was refused", common.threads))?;
        }
        work.run_thread(&counter, &shared, 0);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Subcommand;

    #[test]
    fn words_of_every_workload() {
        clap::Command::debug_assert(Work::augment_subcommands(clap::Command::new("work")));
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_duration("2s"), Ok(Duration::from_secs(2)));
        assert!(parse_duration("2").is_err());
        assert!(parse_duration("ms").is_err());
        assert!(parse_duration("-1ms").is_err());
    }
}
