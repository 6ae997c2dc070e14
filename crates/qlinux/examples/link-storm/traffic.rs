// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that send to the far end, and choose their queues.

use crate::model::Packet;
use fastrand::Rng;
use qlinux::cgroup::Hierarchy;
use qlinux::link::{HSFQ_SO_QUEUE, SOL_HSFQ};
use qlinux::ClassPath;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const FAR: [&str; 2] = ["10.0.0.2", "fd00::2"];
const FIRST_PORT: u16 = 5000;
pub const PORTS: u16 = 12;

pub struct Sender {
    socket: UdpSocket,
    six: bool,
    dscp: u8,
    /// Where it was opened.
    pub cgroup: String,
    /// Id of its queue.
    pub chosen: Option<u32>,
}

fn set(socket: &UdpSocket, level: i32, option: i32, value: u32) -> io::Result<()> {
    // SAFETY: the value lives until the call returns.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<u32>() as u32,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn ports(rng: &mut Rng) -> (u16, u16) {
    let (a, b) = (rng.u16(0..PORTS), rng.u16(0..PORTS));
    (FIRST_PORT + a.min(b), FIRST_PORT + a.max(b))
}

impl Sender {
    /// Opened in that cgroup, to which the process moves. What an IPv4 socket says of its
    /// service comes first: it sets the priority, by which the socket chooses its queue.
    pub fn open(six: bool, cgroup: &str, dscp: u8) -> qlinux::Result<Sender> {
        let path: ClassPath = cgroup.parse()?;
        let fs = Hierarchy::discover()?;
        let io = |e| qlinux::Error::io("opening a socket in", &fs.directory(&path), e);
        fs.move_process(&path, std::process::id() as i32)
            .map_err(io)?;
        let any: IpAddr = if six {
            [0u16; 8].into()
        } else {
            [0u8; 4].into()
        };
        let socket = UdpSocket::bind((any, 0)).map_err(io)?;
        socket.set_nonblocking(true).map_err(io)?;
        if !six {
            let tos = u32::from(dscp) << 2;
            set(&socket, libc::IPPROTO_IP, libc::IP_TOS, tos).map_err(io)?;
        }
        Ok(Sender {
            socket,
            six,
            dscp,
            cgroup: cgroup.into(),
            chosen: None,
        })
    }

    /// Chooses the queue with that id, or none; the number says of which link.
    pub fn choose(&mut self, id: Option<u32>, sid: u32) -> io::Result<()> {
        set(&self.socket, SOL_HSFQ, HSFQ_SO_QUEUE, sid)?;
        self.chosen = id;
        Ok(())
    }

    /// Some packets alike, as many as the socket takes. How many, and what they are.
    pub fn send(&self, rng: &mut Rng) -> io::Result<(u64, Packet)> {
        let packet = Packet {
            six: self.six,
            port: FIRST_PORT + rng.u16(0..PORTS),
            dscp: if self.six {
                rng.u8(0..3) * 8
            } else {
                self.dscp
            },
            mark: rng.u32(0..3),
        };
        set(&self.socket, libc::SOL_SOCKET, libc::SO_MARK, packet.mark)?;
        if self.six {
            let class = u32::from(packet.dscp) << 2;
            set(&self.socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)?;
        }
        let far: IpAddr = FAR[usize::from(self.six)].parse().expect("an address");
        let data = [0; 1400];
        let sizes = &data[..rng.usize(1..=data.len())];
        let mut sent = 0;
        for _ in 0..rng.u32(0..6) {
            sent += u64::from(self.socket.send_to(sizes, (far, packet.port)).is_ok());
        }
        Ok((sent, packet))
    }

    /// Bytes of packets that the kernel still has.
    pub fn unsent(&self) -> i32 {
        let mut bytes = 0;
        // SAFETY: an integer is asked for.
        unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        bytes
    }
}

/// Waits until the kernel has none of their packets; false: it keeps some.
pub fn drained(senders: &[Sender], patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while senders.iter().any(|s| s.unsent() > 0) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
