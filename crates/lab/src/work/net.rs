// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that send packets: the papers' Net_inf and what competes with it.
//!
//! A datagram begins with its number and the time it was sent (CLOCK_MONOTONIC), or was due,
//! each 8 bytes little-endian: [`super::tap`] reads both.

use crate::counter::Counter;
use crate::sys;
use clap::Args;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of the IP and UDP headers.
pub const HEADERS: usize = 28;
/// Number and time at the beginning of a datagram.
pub const STAMP: usize = 16;

/// What this workload cannot do without.
pub fn must<T>(what: &str, result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| {
        eprintln!("qlinux-work: {what} was refused: {error}");
        std::process::exit(1)
    })
}

/// Sets a whole-number option of a socket.
pub fn set_option(socket: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` is valid for reading and as long as said.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Where to send, and as what.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Address and port of the receiver
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddrV4,
    /// Mark of the packets, by which filters tell classes
    #[arg(long, default_value_t = 0, value_name = "N")]
    mark: u32,
}

impl Target {
    /// A socket whose datagrams go there.
    pub fn udp(&self) -> UdpSocket {
        let socket = must("a socket", UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)));
        self.set_mark(&socket);
        must("a connection", socket.connect(self.to));
        socket
    }

    fn set_mark(&self, socket: &impl AsRawFd) {
        if self.mark != 0 {
            let set = set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, self.mark as i32);
            must("a mark", set);
        }
    }
}

/// How a sender paces itself.
#[derive(Args, Clone, Debug)]
pub struct Pattern {
    /// Bytes of a packet, IP header included
    #[arg(long, default_value_t = 1500, value_name = "BYTES")]
    size: usize,
    /// Send one packet in each period rather than as many as the socket takes; each is half as long
    /// again, or half as short, or anything between
    #[arg(long, value_parser = super::parse_duration)]
    period: Option<Duration>,
    /// Send for so long, then pause
    #[arg(long, value_parser = super::parse_duration, requires = "off")]
    on: Option<Duration>,
    /// Length of the pause
    #[arg(long, value_parser = super::parse_duration)]
    off: Option<Duration>,
}

/// Writes number and time to the beginning of a datagram.
pub fn stamp(data: &mut [u8], number: u64, time_ns: u64) {
    data[..8].copy_from_slice(&number.to_le_bytes());
    data[8..STAMP].copy_from_slice(&time_ns.to_le_bytes());
}

/// Sends a datagram; waits while the socket's buffer is full. One that the device refused is sent as
/// far as its program can tell.
pub fn send(socket: &UdpSocket, data: &[u8]) {
    match socket.send(data) {
        Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => must("sending", Err(error)),
        _ => {}
    }
}

/// The papers' Net_inf, and with a period a sparse flow: sends datagrams as fast as the socket takes them, or as `pattern` says.
pub fn udp(count: &AtomicU64, target: &Target, pattern: &Pattern) {
    let socket = target.udp();
    let mut data = vec![0; pattern.size.saturating_sub(HEADERS).max(STAMP)];
    if pattern.period.is_some() {
        // What is asked is how long the link takes, not when this processor has time for the sender.
        if let Err(error) = sys::become_real_time() {
            eprintln!("qlinux-work: {error:#}");
        }
    }
    let ns = |duration: Duration| duration.as_nanos() as u64;
    // In no step with the link, whose packets take equal times.
    let mut random = fastrand::Rng::with_seed(pattern.size as u64);
    let mut due = sys::now_ns();
    let mut begun = due;
    for number in 0.. {
        let mut now = sys::now_ns();
        if let Some(period) = pattern.period {
            due += ns(period.mul_f64(0.5 + random.f64()));
            sys::sleep_until(due);
            now = due;
        }
        if let (Some(on), Some(off)) = (pattern.on, pattern.off) {
            if now - begun >= ns(on) {
                begun = now + ns(off);
                sys::sleep_until(begun);
                now = sys::now_ns();
                begun = now;
            }
        }
        stamp(&mut data, number, now);
        send(&socket, &data);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes to a TCP connection as fast as it takes it; counts bytes.
pub fn tcp(count: &AtomicU64, target: &Target) {
    // SAFETY: plain system call; the descriptor is owned below.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        must("a socket", Err(io::Error::last_os_error()))
    }
    // SAFETY: nobody else has this descriptor.
    let mut stream: TcpStream = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) };
    target.set_mark(&stream);
    must("a connection", connect(&stream, target.to));
    let data = vec![0; 64 << 10];
    loop {
        let length = must("writing", stream.write(&data));
        count.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// Connects a socket that has its options already.
fn connect(stream: &TcpStream, to: SocketAddrV4) -> io::Result<()> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(to.ip().octets()),
        },
        sin_zero: [0; 8],
    };
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is valid and as long as said.
    match unsafe { libc::connect(stream.as_raw_fd(), (&raw const address).cast(), size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a timed burst is made of.
#[derive(Args, Clone, Debug)]
#[group(skip)] // its variant of `Work` has the name
pub struct Blast {
    /// Packets of a round
    #[arg(long, default_value_t = 20_000)]
    packets: u64,
    /// Bytes of a packet, IP header included
    #[arg(long, default_value_t = 200, value_name = "BYTES")]
    size: usize,
    /// Rounds; the last counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Sockets that take turns, with the marks from the target's on
    #[arg(long, default_value_t = 1)]
    sockets: u32,
    /// Open the socket of each turn in the cgroup of this folder that has its number (c0, c1, ...)
    #[arg(long, value_name = "DIR")]
    cgroups: Option<PathBuf>,
}

/// Sends rounds of packets over connected sockets in turn and logs how long each round took. All is
/// warm in the last one, and nothing is done for a packet but one system call.
pub fn blast(counter: &Counter, target: &Target, blast: &Blast) {
    let socket = |index: u32| {
        if let Some(dir) = &blast.cgroups {
            let file = dir.join(format!("c{index}/cgroup.procs"));
            must("a class", fs::write(file, "0"));
        }
        let mark = if target.mark == 0 {
            0
        } else {
            target.mark + index
        };
        Target {
            mark,
            ..target.clone()
        }
        .udp()
    };
    let sockets: Vec<UdpSocket> = (0..blast.sockets).map(socket).collect();
    let data = vec![0u8; blast.size.saturating_sub(HEADERS).max(STAMP)];
    let fds: Vec<i32> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    for _ in 0..blast.rounds {
        let begun = sys::now_ns();
        let mut at = 0;
        for _ in 0..blast.packets {
            // SAFETY: the descriptor is open and the data valid for reading.
            unsafe { libc::send(fds[at], data.as_ptr().cast(), data.len(), 0) };
            at += 1;
            if at == fds.len() {
                at = 0;
            }
        }
        counter.log(sys::now_ns() - begun);
    }
    loop {
        sys::sleep(Duration::from_secs(3600));
    }
}
