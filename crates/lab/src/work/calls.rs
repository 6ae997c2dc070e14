// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that ask the kernel for one thing over and over.

use crate::sys;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What this thread cannot do without.
fn must<T>(what: &str, result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| {
        eprintln!("qlinux-work: {what} was refused: {error}");
        std::process::exit(1)
    })
}

/// Starts processes that become `true`.
pub fn exec(count: &AtomicU64) {
    let path = c"/usr/bin/true";
    let argv = [path.as_ptr(), std::ptr::null()];
    loop {
        // SAFETY: the child calls nothing but execv and _exit, with valid strings.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            unsafe {
                libc::execv(path.as_ptr(), argv.as_ptr());
                libc::_exit(1)
            }
        }
        let mut status = 0;
        // SAFETY: `status` is valid for writing.
        if pid < 0 || unsafe { libc::waitpid(pid, &mut status, 0) } != pid || status != 0 {
            must("a new program", Err(io::Error::last_os_error()))
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Where to read and where to write.
fn open_pipe() -> io::Result<[File; 2]> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for both descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: nobody else has these.
    Ok(ends.map(|end| unsafe { File::from_raw_fd(end) }))
}

/// Counts round trips through two pipes between this process and a child that sends everything back.
pub fn pipe(count: &AtomicU64) {
    let open = || must("a pipe", open_pipe());
    let ([mut there, mut send], [mut receive, mut back]) = (open(), open());
    let mut word = [0; 4];
    // SAFETY: this process has a single thread, so the child may do as it likes.
    if unsafe { libc::fork() } == 0 {
        sys::die_with_parent();
        loop {
            must("reading", there.read_exact(&mut word));
            must("writing", back.write_all(&word));
        }
    }
    loop {
        must("writing", send.write_all(&word));
        must("reading", receive.read_exact(&mut word));
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts round trips between this process and a child that sends everything back.
pub fn udp(count: &AtomicU64) {
    let bind = || must("a socket", UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    let (here, there) = (bind(), bind());
    let address = |socket: &UdpSocket| must("an address", socket.local_addr());
    must("a connection", here.connect(address(&there)));
    must("a connection", there.connect(address(&here)));
    let mut word = [0; 4];
    // SAFETY: this process has a single thread, so the child may do as it likes.
    if unsafe { libc::fork() } == 0 {
        sys::die_with_parent();
        loop {
            let length = must("receiving", there.recv(&mut word));
            must("sending", there.send(&word[..length]));
        }
    }
    loop {
        must("sending", here.send(&word));
        must("receiving", here.recv(&mut word));
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the file and removes it.
pub fn files(count: &AtomicU64, path: &Path) {
    loop {
        drop(must("a new file", File::create(path)));
        must("removing a file", fs::remove_file(path));
        count.fetch_add(1, Ordering::Relaxed);
    }
}
