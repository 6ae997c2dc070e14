// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pinned objects of the scheduler.
//!
//! The pin `link` is the one that counts: while it exists the scheduler is
//! ours to keep. Everything else is pinned before it and removed after it, so
//! wherever a command is killed, `link` is there or not, and what lies around
//! without it is cleared by the next `up` or `down`.

use crate::{Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where bpffs is, or gets, mounted.
const BPFFS: &str = "/sys/fs/bpf";
const BPFFS_MAGIC: i64 = 0xcafe_4a11;
/// The folder of our pins.
const FOLDER: &str = "/sys/fs/bpf/qlinux/cpu";

pub const LINK: &str = "link";
pub const BSS: &str = "bss";
pub const RODATA: &str = "rodata";
pub const CGROUPS: &str = "cgroups";
pub const TRACE: &str = "trace";
/// The kernel cancels the timers of a map that only programs hold on to.
pub const TIMERS: &str = "timers";
pub const RESCUE_TIMER: &str = "rescue_timer";
pub const LIMIT_TIMER: &str = "limit_timer";

/// Path of a pin.
pub fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Is the scheduler pinned?
pub fn exist() -> Result<bool> {
    let link = path(LINK);
    match fs::symlink_metadata(&link) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("looking at", &link, e)),
    }
}

/// When the scheduler was pinned.
pub fn since() -> Option<std::time::SystemTime> {
    fs::symlink_metadata(path(LINK))
        .and_then(|m| m.modified())
        .ok()
}

/// Makes the folder, mounting bpffs where that is missing.
pub fn make_folder() -> Result<()> {
    let root = Path::new(BPFFS);
    let kind = nix::sys::statfs::statfs(root)
        .map_err(|e| Error::io("looking at", root, e.into()))?
        .filesystem_type();
    if kind.0 != BPFFS_MAGIC {
        nix::mount::mount(
            Some("bpf"),
            root,
            Some("bpf"),
            nix::mount::MsFlags::empty(),
            Some("mode=0700"),
        )
        .map_err(|e| Error::io("mounting bpffs on", root, e.into()))?;
    }
    let folder = Path::new(FOLDER);
    fs::create_dir_all(folder).map_err(|e| Error::io("creating", folder, e))
}

/// Removes every pin, `link` first; false: there was none.
pub fn clear() -> Result<bool> {
    let folder = Path::new(FOLDER);
    let link = path(LINK);
    match fs::remove_file(&link) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("removing", &link, e))
        }
        _ => {}
    }
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(|e| Error::io("listing", folder, e))?,
    };
    for entry in entries.flatten() {
        fs::remove_file(entry.path()).map_err(|e| Error::io("removing", &entry.path(), e))?;
    }
    fs::remove_dir(folder).map_err(|e| Error::io("removing", folder, e))?;
    // Shared with the schedulers of other resources: it may stay.
    let _ = folder.parent().map(fs::remove_dir);
    Ok(true)
}
