// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pinned objects of each link, in a folder named after its network namespace and
//! interface number.
//!
//! The pin `link` is the one that counts: while it exists the queueing discipline is
//! ours to keep. What lies around without it is cleared by the next `up` or `down`.

use crate::{bpf, Error, Result};
use nix::errno::Errno;
use nix::libc;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

pub const LINK: &str = "link";
pub const SOCKETS: &str = "sockets";
pub const BSS: &str = "bss";
pub const RODATA: &str = "rodata";
pub const CGROUPS: &str = "cgroups";
pub const GRANTS: &str = "grants";
pub const BEFORE: &str = "before";
pub const TRACE: &str = "trace";

/// The folder of all links' folders.
fn folder() -> PathBuf {
    Path::new(bpf::FOLDER).join("link")
}

/// The pins of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    folder: PathBuf,
    /// Cookie of the network namespace.
    pub netns: u64,
    /// Of the interface in it.
    pub index: u32,
}

impl Pins {
    pub fn new(netns: u64, index: u32) -> Pins {
        Pins {
            folder: folder().join(format!("{netns:x}-{index}")),
            netns,
            index,
        }
    }

    /// Those of all links, whatever became of them.
    pub fn all() -> Result<Vec<Pins>> {
        let entries = match fs::read_dir(folder()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|e| Error::io("listing", &folder(), e))?,
        };
        let parse = |name: &str| {
            let (netns, index) = name.split_once('-')?;
            Some(Pins::new(
                u64::from_str_radix(netns, 16).ok()?,
                index.parse().ok()?,
            ))
        };
        let mut all: Vec<Pins> = entries
            .flatten()
            .filter_map(|entry| parse(entry.file_name().to_str()?))
            .collect();
        all.sort_by_key(|pins| (pins.netns, pins.index));
        Ok(all)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Is there anything?
    pub fn exist(&self) -> bool {
        self.folder.exists()
    }

    pub fn make(&self) -> Result<()> {
        bpf::make_folder(&self.folder)
    }

    /// Removes every pin; false: there was none.
    pub fn clear(&self) -> Result<bool> {
        bpf::clear(&self.folder, LINK)
    }

    /// Removes also those of one that was being replaced when its command was killed.
    pub fn clear_all(&self) -> Result<bool> {
        self.drop_aside()?;
        self.clear()
    }

    /// Where the pins are of the one that is being replaced.
    fn aside(&self) -> PathBuf {
        let name = format!("{:x}-{}-replaced", self.netns, self.index);
        folder().join(name)
    }

    /// The pins of the one that is being replaced.
    pub fn replaced(&self) -> Pins {
        Pins {
            folder: self.aside(),
            ..self.clone()
        }
    }

    /// Makes room for another with the same name.
    pub fn set_aside(&self) -> Result<()> {
        self.drop_aside()?;
        fs::rename(&self.folder, self.aside()).map_err(|e| Error::io("renaming", &self.folder, e))
    }

    /// Takes that back, if it was done.
    pub fn bring_back(&self) -> Result<()> {
        match fs::rename(self.aside(), &self.folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("renaming", &self.aside(), e))
            }
            _ => Ok(()),
        }
    }

    /// The one that was replaced has gone.
    pub fn drop_aside(&self) -> Result<()> {
        bpf::clear(&self.aside(), LINK).map(drop)
    }

    /// When the queueing discipline was pinned.
    pub fn since(&self) -> Option<std::time::SystemTime> {
        fs::symlink_metadata(self.path(LINK))
            .and_then(|m| m.modified())
            .ok()
    }
}

/// What no other network namespace has had since boot.
pub fn netns_cookie() -> Result<u64> {
    let refuse = |e: io::Error| {
        Error::io(
            "asking for the cookie of",
            Path::new("/proc/self/ns/net"),
            e,
        )
    };
    // SAFETY: the call has no pointers; the descriptor is new and nobody else's.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
    .ok_or_else(|| refuse(io::Error::last_os_error()))?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the cookie.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            std::ptr::from_mut(&mut cookie).cast(),
            &mut length,
        )
    };
    match Errno::result(result) {
        Ok(_) => Ok(cookie),
        Err(errno) => Err(refuse(errno.into())),
    }
}

/// include/uapi/asm-generic/socket.h
const SO_NETNS_COOKIE: i32 = 71;
