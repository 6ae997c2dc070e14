// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pinned objects of the scheduler.
//!
//! The pin `link` is the one that counts: while it exists the scheduler is
//! ours to keep. Everything else is pinned before it and removed after it, so
//! wherever a command is killed, `link` is there or not, and what lies around
//! without it is cleared by the next `up` or `down`.

use crate::{bpf, Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
pub const LEDGER_TIMER: &str = "ledger_timer";

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
    bpf::make_folder(Path::new(FOLDER))
}

/// Removes every pin, `link` first; false: there was none.
pub fn clear() -> Result<bool> {
    bpf::clear(Path::new(FOLDER), LINK)
}
