// SPDX-License-Identifier: MIT OR Apache-2.0
//! The far end of a link: what takes packets in, and what notes every packet that came.

use super::net::{must, set_option};
use crate::counter::Counter;
use crate::sys;
use clap::Args;
use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Words that [`run`] logs for a packet.
pub const WORDS: usize = 3;
/// Time between two looks at what has come. The kernel notes when each packet came.
const LOOK: Duration = Duration::from_millis(5);
/// Packets taken at once.
const BATCH: usize = 64;
/// Room for the kernel's virtio header, all headers and the stamp of a datagram.
const HEAD: usize = 160;
/// Bytes that may wait in the kernel between two looks.
const WAITING: i32 = 64 << 20;
/// `struct virtio_net_hdr`: flags, type, header length, segment size, ...
const VIRTIO: usize = 10;
const ETHERNET: usize = 14;
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// Ports at which packets are taken in.
#[derive(Args, Clone, Debug)]
#[group(skip)] // its variant of `Work` has the name
pub struct Sink {
    /// Take datagrams at this port
    #[arg(long, value_name = "PORT")]
    udp: Vec<u16>,
    /// Take connections at this port
    #[arg(long, value_name = "PORT")]
    tcp: Vec<u16>,
}

/// Takes in everything, as another machine would. Datagrams are counted by the [`run`] of the link and not
/// read: their sockets are full at once, and the kernel drops them where a reader would have got them.
pub fn sink(count: &AtomicU64, ports: &Sink) {
    let udp = |&port: &u16| {
        let socket = must("a port", UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)));
        must(
            "a small buffer",
            set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 0),
        );
        socket
    };
    let _open: Vec<UdpSocket> = ports.udp.iter().map(udp).collect();
    for &port in &ports.tcp {
        let listener = must("a port", TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
        thread::spawn(move || accept(&listener));
    }
    count.store(1, Ordering::Relaxed);
    loop {
        sys::sleep(Duration::from_secs(3600));
    }
}

fn accept(listener: &TcpListener) {
    loop {
        let (stream, _) = must("a connection", listener.accept());
        thread::spawn(move || discard(&stream));
    }
}

/// Reads without copying until the connection ends.
fn discard(stream: &TcpStream) {
    // Another machine's readers would not wait for this one's processor.
    if let Err(error) = sys::become_real_time() {
        eprintln!("qlinux-work: {error:#}");
    }
    loop {
        // SAFETY: with MSG_TRUNC nothing is written to the buffer, which may be none.
        let length = unsafe {
            libc::recv(
                stream.as_raw_fd(),
                std::ptr::null_mut(),
                1 << 20,
                libc::MSG_TRUNC,
            )
        };
        if length <= 0 {
            return;
        }
    }
}

/// Which device, and how much room.
#[derive(Args, Clone, Debug)]
#[group(skip)] // its variant of `Work` has the name
pub struct Tap {
    /// Device whose incoming packets are noted
    #[arg(long, value_name = "NAME")]
    dev: String,
    /// Packets there is room for
    #[arg(long, default_value_t = 1 << 20, value_name = "N")]
    room: usize,
}

impl Tap {
    /// Entries of the log.
    pub fn log_capacity(&self) -> usize {
        self.room * WORDS
    }
}

fn open(dev: &str) -> io::Result<OwnedFd> {
    let name = CString::new(dev)?;
    // SAFETY: plain system calls; what they point to is valid, and the descriptor is owned at once.
    unsafe {
        let index = libc::if_nametoindex(name.as_ptr());
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // No protocol until it is bound, or it would hear all devices.
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(fd);
        set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, WAITING)?;
        set_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        set_option(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        let size = size_of_val(&address) as libc::socklen_t;
        if libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(fd)
    }
}

/// CLOCK_REALTIME, in which the kernel notes arrivals, less CLOCK_MONOTONIC.
fn offset_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64 - sys::now_ns()
}

/// Room for what the kernel says beside the data; aligned as its heads are.
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// Buffers of one [`BATCH`].
struct Batch {
    heads: Vec<[u8; HEAD]>,
    control: Vec<Control>,
}

impl Batch {
    /// Takes what waits, and returns (arrival, bytes with the virtio header) of each packet.
    fn receive(&mut self, fd: &OwnedFd) -> Vec<(u64, usize)> {
        let heads = self.heads.iter_mut().zip(&mut self.control);
        let mut parts: Vec<(libc::iovec, *mut libc::c_void)> = heads
            .map(|(head, control)| {
                let part = libc::iovec {
                    iov_base: head.as_mut_ptr().cast(),
                    iov_len: HEAD,
                };
                (part, control.0.as_mut_ptr().cast())
            })
            .collect();
        let message = |(part, control): &mut (libc::iovec, *mut libc::c_void)| {
            // SAFETY: zero is a valid value of all fields.
            let mut one: libc::mmsghdr = unsafe { std::mem::zeroed() };
            one.msg_hdr.msg_iov = part;
            one.msg_hdr.msg_iovlen = 1;
            one.msg_hdr.msg_control = *control;
            one.msg_hdr.msg_controllen = size_of::<Control>() as _;
            one
        };
        let mut all: Vec<libc::mmsghdr> = parts.iter_mut().map(message).collect();
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        // SAFETY: all messages point to buffers of this batch, which are as long as said.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                all.as_mut_ptr(),
                BATCH as u32,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let got = all.iter().take(got.max(0) as usize);
        got.map(|one| (arrival(&one.msg_hdr), one.msg_len as usize))
            .collect()
    }
}

/// The time the kernel noted, CLOCK_REALTIME.
fn arrival(message: &libc::msghdr) -> u64 {
    // SAFETY: the kernel filled in the message; its control data is aligned and as long as it says.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SO_TIMESTAMPNS {
                let t: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(at).cast());
                return t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    0
}

/// What is noted of one packet, beside its arrival: the stamp of a datagram, and [`pack`].
fn note(head: &[u8; HEAD], length: usize) -> Option<(u64, u64)> {
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let ip = VIRTIO + ETHERNET;
    if word(ip - 2) != 0x0800 {
        return None;
    }
    let transport = ip + 4 * usize::from(head[ip] & 15);
    let (tcp, headers) = match head[ip + 9] {
        6 => (
            true,
            transport - VIRTIO + 4 * usize::from(head[transport + 12] >> 4),
        ),
        17 => (false, transport - VIRTIO + 8),
        _ => return None,
    };
    // One of the two is a server's port, the other one was given by the kernel and is higher.
    let port = word(transport).min(word(transport + 2));
    let (mut bytes, mut stamp, mut number) = (length - VIRTIO, 0, 0);
    if tcp {
        // Each segment of a packet that leaves in one piece has headers of its own on a line.
        let segment = usize::from(u16::from_ne_bytes([head[4], head[5]]));
        let data = bytes - headers;
        if segment > 0 && data > segment {
            bytes += (data.div_ceil(segment) - 1) * headers;
        }
    } else {
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        number = long(transport + 8);
        stamp = long(transport + 16);
    }
    Some((stamp, pack(port, tcp, bytes, number)))
}

/// Port, protocol, bytes on the wire (23 bits) and number (24 bits) in one word.
fn pack(port: u16, tcp: bool, bytes: usize, number: u64) -> u64 {
    u64::from(port) << 48
        | u64::from(tcp) << 47
        | (bytes as u64 & 0x7f_ffff) << 24
        | number & 0xff_ffff
}

/// Port, whether TCP, bytes on the wire, and number.
pub fn unpack(word: u64) -> (u16, bool, u32, u32) {
    (
        (word >> 48) as u16,
        word >> 47 & 1 != 0,
        (word >> 24 & 0x7f_ffff) as u32,
        (word & 0xff_ffff) as u32,
    )
}

/// Notes every packet of IP that comes in at a device: its arrival (CLOCK_MONOTONIC), the stamp of
/// a datagram, and [`unpack`]'s word. Counts packets.
pub fn run(counter: &Counter, count: &AtomicU64, tap: &Tap) {
    let fd = must("a packet socket", open(&tap.dev));
    if let Err(error) = sys::become_real_time() {
        eprintln!("qlinux-work: {error:#}");
    }
    let offset = offset_ns();
    let mut batch = Batch {
        heads: vec![[0; HEAD]; BATCH],
        control: vec![Control([0; 64]); BATCH],
    };
    loop {
        let got = batch.receive(&fd);
        for (head, &(time_ns, length)) in batch.heads.iter().zip(&got) {
            if let Some((stamp, word)) = note(head, length) {
                counter.log_all(&[time_ns.saturating_sub(offset), stamp, word]);
            }
        }
        count.fetch_add(got.len() as u64, Ordering::Relaxed);
        if got.len() < BATCH {
            sys::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Head of a packet of `protocol` between `ports`.
    fn head(protocol: u8, ports: [u16; 2], segment: u16) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[4..6].copy_from_slice(&segment.to_ne_bytes());
        head[VIRTIO + 12..VIRTIO + 14].copy_from_slice(&[8, 0]);
        let ip = VIRTIO + ETHERNET;
        head[ip] = 0x45;
        head[ip + 9] = protocol;
        head[ip + 20..ip + 22].copy_from_slice(&ports[0].to_be_bytes());
        head[ip + 22..ip + 24].copy_from_slice(&ports[1].to_be_bytes());
        head[ip + 32] = 8 << 4; // of TCP: 32 bytes of header
        head
    }

    #[test]
    fn packets_of_both_kinds() {
        let mut udp = head(17, [40_000, 9001], 0);
        super::super::net::stamp(&mut udp[VIRTIO + ETHERNET + 28..], 7, 99);
        let (stamp, word) = note(&udp, VIRTIO + 1514).unwrap();
        assert_eq!((stamp, unpack(word)), (99, (9001, false, 1514, 7)));
        let tcp = head(6, [8081, 50_000], 1448);
        let (_, word) = note(&tcp, VIRTIO + 66 + 3000).unwrap();
        assert_eq!(unpack(word), (8081, true, 66 + 3000 + 2 * 66, 0));
        assert!(note(&head(1, [0, 0], 0), VIRTIO + 98).is_none());
    }
}
