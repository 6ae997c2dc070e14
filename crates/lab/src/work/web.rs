// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client of web servers that makes the requests of a trace, each at its time.

use super::net::must;
use crate::counter::Counter;
use crate::sys;
use clap::Args;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// Words that are logged for a request: when it was due, when it was answered (0: it failed), and its port
/// (16 bits) with the bytes received.
pub const WORDS: usize = 3;

/// Whose requests.
#[derive(Args, Clone, Debug)]
pub struct Client {
    /// Address of the servers
    #[arg(long)]
    server: Ipv4Addr,
    /// Lines "MICROSECONDS PORT PATH", in the order of their times
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// CLOCK_MONOTONIC in nanoseconds at which the trace begins
    #[arg(long, value_name = "NS")]
    begin: u64,
}

/// A line of the trace.
struct Request {
    due_ns: u64,
    port: u16,
    path: String,
}

/// The requests, of which each thread takes the next, and how many were taken.
#[derive(Default)]
pub struct Requests {
    all: OnceLock<Vec<Request>>,
    taken: AtomicUsize,
}

fn parse(line: &str, begin_ns: u64) -> Option<Request> {
    let mut words = line.split_whitespace();
    let us: u64 = words.next()?.parse().ok()?;
    Some(Request {
        due_ns: begin_ns + us * 1000,
        port: words.next()?.parse().ok()?,
        path: words.next()?.to_owned(),
    })
}

/// Asks for a page and returns the bytes that came.
fn fetch(to: SocketAddrV4, path: &str) -> io::Result<u64> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut data = [0; 32 << 10];
    let mut bytes = 0;
    loop {
        match stream.read(&mut data)? {
            0 => return Ok(bytes),
            length => bytes += length as u64,
        }
    }
}

/// Makes requests until there are none left; each thread one at a time, so there must be more threads
/// than requests ever overlap. Counts those that were answered.
pub fn run(counter: &Counter, count: &AtomicU64, client: &Client, requests: &Requests) {
    // Clients are other machines: they do not wait for this one's processor.
    if let Err(error) = sys::become_real_time() {
        eprintln!("qlinux-work: {error:#}");
    }
    let all = requests.all.get_or_init(|| {
        let text = must("the trace", fs::read_to_string(&client.trace));
        text.lines()
            .filter_map(|line| parse(line, client.begin))
            .collect()
    });
    while let Some(request) = all.get(requests.taken.fetch_add(1, Ordering::Relaxed)) {
        sys::sleep_until(request.due_ns);
        let got = fetch(
            SocketAddrV4::new(client.server, request.port),
            &request.path,
        );
        let (done, bytes) = match got {
            Ok(bytes) => (sys::now_ns(), bytes),
            Err(_) => (0, 0),
        };
        counter.log_all(&[request.due_ns, done, u64::from(request.port) << 48 | bytes]);
        count.fetch_add(1, Ordering::Relaxed);
    }
    loop {
        sys::sleep(Duration::from_secs(3600));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_of_a_trace() {
        let request = super::parse("1500 8081 /7", 1_000).unwrap();
        assert_eq!((request.due_ns, request.port), (1_501_000, 8081));
        assert_eq!(request.path, "/7");
        assert!(super::parse("", 0).is_none());
    }
}
