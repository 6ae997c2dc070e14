// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and threads that have ended and are still there.
//!
//! A process that ends leaves `cgroup.procs` at once, and its cgroup only with the
//! kernel's last switch away from it, which may take as long as its class waits for
//! service. In between it is out of sight, and yet it keeps a class from being
//! divided, entered or removed. A thread that ends stays in `cgroup.threads` as long,
//! although whoever waits for it (`pthread_join`) has gone on, and cannot be moved any
//! more. Such a refusal is no answer: it is waited for.

use crate::cgroup::{Hierarchy, Kind};
use crate::stat::field;
use crate::ClassPath;
use nix::errno::Errno;
use std::time::{Duration, Instant};
use std::{fs, io};

/// After this the refusal stands.
const ENDING_MAX: Duration = Duration::from_secs(2);

/// Tries again while the refusal is only due to processes that are just ending.
pub(super) fn patiently<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    only_ending: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(e) if started.elapsed() < ENDING_MAX && only_ending(&e) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// Is the class part of a threaded subtree, apart from its own kind?
pub(super) fn among_threaded(fs: &Hierarchy, path: &ClassPath) -> bool {
    let above = path.ancestors().into_iter().filter(|a| !a.is_root());
    above.into_iter().any(|a| {
        let children = fs.children(&a).unwrap_or_default();
        fs.kind(&a) == Kind::Threaded
            || children
                .iter()
                .any(|child| child != path && fs.kind(child) == Kind::Threaded)
    })
}

/// No process or thread of its own is in sight, but for such as are ending.
pub(super) fn looks_empty(fs: &Hierarchy, path: &ClassPath) -> bool {
    fs.threads(path)
        .is_ok_and(|threads| threads.into_iter().all(is_ending))
}

/// The kernel's PF_EXITING, among the flags in `/proc/TID/stat`.
const EXITING: u32 = 0x4;

/// In a list of threads: one that this process cannot see.
const UNSEEN: i32 = 0;

/// Has a thread begun to end, or ended since it was seen?
fn is_ending(tid: i32) -> bool {
    match fs::read(format!("/proc/{tid}/stat")) {
        Ok(stat) => ends(&stat),
        Err(e) => tid != UNSEEN && gone(&e),
    }
}

fn ends(stat: &[u8]) -> bool {
    let flags = field(stat, 9).and_then(|text| text.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

fn gone(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOENT | Errno::ESRCH)
    )
}

/// Nothing in sight keeps processes out of the class.
pub(super) fn looks_open(fs: &Hierarchy, path: &ClassPath) -> bool {
    match fs.kind(path) {
        Kind::Threaded => false,
        Kind::Invalid => {
            let empty = |a: &ClassPath| a.is_root() || looks_empty(fs, a);
            !among_threaded(fs, path) && path.ancestors().iter().all(empty)
        }
        Kind::Domain | Kind::DomainThreaded => {
            let children = fs.children(path).unwrap_or_default();
            fs.divides_only_threaded(path)
                && !children.iter().any(|child| fs.kind(child) == Kind::Domain)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_end_are_told_from_others() {
        let line = |flags: u32| format!("7 (a) b) R 1 7 7 0 -1 {flags} 0 0");
        assert!(ends(line(0x40_0044).as_bytes()));
        assert!(!ends(line(0x40_0040).as_bytes()));
        assert!(!ends(b""));
        assert!(!is_ending(1));
        assert!(!is_ending(0));
        assert!(is_ending(i32::MAX));
    }
}
