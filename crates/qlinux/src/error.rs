// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that can be refused. A message is one sentence that names the
//! object, the reason and the remedy.

use nix::errno::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// Result of an operation that can be refused.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages describe the variants
pub enum Error {
    #[error("class path '{path}' is not valid: {why}; write it like /best-effort/user1")]
    Path { path: String, why: &'static str },
    #[error("weight {given} is out of range: give a whole number from 1 to 10000")]
    Weight { given: String },
    #[error(
        "leaf scheduler '{name}' does not exist: choose one of {}",
        crate::Leaf::names()
    )]
    UnknownLeaf { name: String },
    #[error("reservation '{given}' is not valid: write C/T or C/T/D like 5ms/30ms, with 100us <= C <= D <= T <= 60s")]
    Reservation { given: String },
    #[error("priority '{given}' is not valid: write ts, ia, or rt:N with N from 0 to 59")]
    Priority { given: String },
    #[error("limit '{given}' is not valid: write 20%, 150%, or quota and period like 20ms/100ms, of at least 1ms and a period of at most 1s, or none")]
    Max { given: String },
    #[error(
        "burst '{given}' is not valid: write a time like 10ms that is not longer than the quota"
    )]
    Burst { given: String },
    #[error("the root class cannot {what}: name a class below it")]
    Root { what: &'static str },
    #[error("{0}")]
    Usage(String),

    #[error("class {path} does not exist: create it with `qlinux class add {path}`")]
    NoClass { path: String },
    #[error("class {path} cannot be created because its parent {parent} does not exist: create that first or add --parents")]
    NoParent { path: String, parent: String },
    #[error("class {path} exists already: change it with `qlinux class set {path}`")]
    Exists { path: String },
    #[error(
        "class {path} cannot be deleted because it has the children {children}: delete them first"
    )]
    HasChildren { path: String, children: String },
    #[error("class {path} cannot be deleted because {members} still belong to it: move them elsewhere or end them first")]
    HasMembers { path: String, members: String },
    #[error(
        "class {path} cannot be divided because {members} belong to it: move them into a class below it first, \
         or give it only threaded classes (`class add --threaded`)"
    )]
    Occupied { path: String, members: String },
    #[error("class {path} got no node in the scheduler because its tree is full or deeper than 64: delete other classes first")]
    TreeFull { path: String },
    #[error("class {path} has no node in the scheduler: its cgroup lacks the cpu controller; delete it and create it with `qlinux class add {path}`")]
    NotScheduled { path: String },
    #[error("cgroup {path} offers no cpu controller: a real-time or other owner withholds it; see `qlinux check`")]
    NoCpuController { path: String },

    #[error("class {path} cannot hold a reservation because its leaf scheduler {leaf} knows none: give it one that does with `qlinux class set {path} --leaf edf` (or rm)")]
    NoReservations { path: String, leaf: String },
    #[error("class {path} has no priorities because its leaf scheduler is {leaf}: change it with `qlinux class set {path} --leaf svr4`")]
    NoPriorities { path: String, leaf: String },
    #[error("{reservation} does not fit into class {path}: {why}; raise its weight, reserve less, or add --force to go without a guarantee")]
    NotAdmitted {
        reservation: crate::reserve::Reservation,
        path: String,
        why: String,
    },

    #[error("H-SFQ is not loaded; start it with `qlinux up cpu`")]
    NotLoaded,
    #[error("H-SFQ was ended by the kernel ({reason}); start it again with `qlinux up cpu`")]
    Ended { reason: String },
    #[error("H-SFQ is loaded already; replace it with `qlinux up cpu --replace`")]
    AlreadyUp,
    #[error("another sched_ext scheduler, '{name}', is running and the kernel takes one at a time: stop it first")]
    OtherScheduler { name: String },
    #[error("kernel {release} has no sched_ext: {remedy}; see `qlinux check`")]
    NoSchedExt { release: String, remedy: String },
    #[error("H-SFQ cannot be loaded because {why}: {remedy}; see `qlinux check`")]
    Unable { why: String, remedy: String },
    #[error("class {path} cannot be held to {option} by H-SFQ: {why}; {remedy}, or end H-SFQ with `qlinux down cpu` and let the stock scheduler hold it")]
    NotHeld {
        path: String,
        option: &'static str,
        why: String,
        remedy: String,
    },
    #[error("the running scheduler speaks interface {found}, this program {ours}: replace it with `qlinux up cpu --replace`")]
    Version { found: u32, ours: u32 },
    #[error("this H-SFQ keeps no trace: start it with `qlinux up cpu --trace 16M`")]
    NoTrace,
    #[error("another program reads the trace (lock {}): wait until it ends", path.display())]
    TraceBusy { path: PathBuf },
    #[error("the kernel refused to load H-SFQ: {why}; see `qlinux check`, and add --verbose for its words")]
    Load { why: String },
    #[error("the kernel loaded H-SFQ but did not start it: {why}; see `qlinux check` and the kernel log")]
    Attach { why: String },
    #[error("{doing} {} failed: {why}; `qlinux down` (`cpu`, or `link DEV`) clears what is left of an earlier run", path.display())]
    Bpf {
        doing: &'static str,
        path: PathBuf,
        why: String,
    },
    #[error("another qlinux command has held {} for {seconds} s: wait for it or end it", path.display())]
    Locked { path: PathBuf, seconds: u64 },

    #[error("process {pid} does not exist: see `ps -e` for those that do")]
    NoProcess { pid: i32 },
    #[error("thread {tid} does not exist or is not scheduled by H-SFQ: see `ps -eL` and `chrt -p {tid}`")]
    NoThread { tid: i32 },
    #[error("thread {tid} belongs to class {at}, not to {path}: name that class")]
    ThreadElsewhere { tid: i32, at: String, path: String },
    #[error("{what} cannot move to class {path}: {why}")]
    NotMovable {
        what: String,
        path: String,
        why: String,
    },
    #[error(
        "class {path} cannot be threaded ({why}): its parent must divide nothing but the CPU and \
         have no other classes with processes below it; choose another parent"
    )]
    NotThreaded { path: String, why: String },

    #[error("network interface {name} does not exist: `ip link` lists those that do")]
    NoDevice { name: String },
    #[error("{doing} failed: {why}; see `ip -d link` and `tc qdisc show` for what is there")]
    Netlink {
        doing: String,
        why: String,
        errno: Errno,
    },
    #[error("{doing} is not permitted: run the command as root")]
    NetPrivilege { doing: String },
    #[error("the queueing discipline {kind} of {dev} cannot be put back later, because {why}: remove it first with `tc qdisc del dev {dev} root`")]
    NotRestorable {
        kind: String,
        dev: String,
        why: String,
    },
    #[error("{object} of {dev} could not be put back: {why}; the kernel's default serves {dev} now, set it up anew with `tc`")]
    NotRestored {
        object: String,
        dev: String,
        why: String,
        errno: Errno,
    },
    #[error("the queueing discipline of {dev} is back, but {differences}; see `tc qdisc show dev {dev}` and set that right with `tc`")]
    RestoredOtherwise { dev: String, differences: String },
    #[error("what was kept of the earlier queueing discipline is not readable, because {why}: set it up anew with `tc`")]
    SavedQdisc { why: &'static str },

    #[error(
        "no cgroup v2 hierarchy is mounted: mount one with `mount -t cgroup2 none /sys/fs/cgroup`"
    )]
    NoCgroup2,
    #[error(transparent)]
    Link(#[from] crate::link::Refusal),
    #[error(transparent)]
    Disk(#[from] crate::disk::Refusal),
    #[error("{doing} {} is not permitted: run the command as root", path.display())]
    Privilege { doing: &'static str, path: PathBuf },
    #[error("{doing} {} failed: {source}; see the kernel log for more", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("scheduler program {program} refused {object}: {errno}; see `qlinux status`")]
    Ctl {
        program: &'static str,
        object: String,
        errno: Errno,
    },
}

impl Error {
    /// A failed operation on a file.
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Error {
        let path = path.to_path_buf();
        match source.raw_os_error() {
            Some(libc_eacces)
                if libc_eacces == Errno::EACCES as i32 || libc_eacces == Errno::EPERM as i32 =>
            {
                Error::Privilege { doing, path }
            }
            _ => Error::Io {
                doing,
                path,
                source,
            },
        }
    }

    /// The errno of the kernel's usual meaning.
    pub fn errno(&self) -> Errno {
        use Error::*;
        match self {
            Link(refusal) => refusal.errno(),
            Disk(refusal) => refusal.errno(),
            Path { .. } | UnknownLeaf { .. } | Root { .. } | Usage(_) => Errno::EINVAL,
            Weight { .. } | Reservation { .. } | Priority { .. } | Max { .. } | Burst { .. } => {
                Errno::ERANGE
            }
            NoReservations { .. } | NoPriorities { .. } => Errno::EOPNOTSUPP,
            NotAdmitted { .. } => Errno::ENOSPC,
            NoClass { .. } | NoParent { .. } | NotScheduled { .. } => Errno::ENOENT,
            Exists { .. } | AlreadyUp => Errno::EEXIST,
            HasChildren { .. }
            | HasMembers { .. }
            | Occupied { .. }
            | OtherScheduler { .. }
            | TraceBusy { .. } => Errno::EBUSY,
            TreeFull { .. } => Errno::ENOSPC,
            NotLoaded | Ended { .. } | NoProcess { .. } | NoThread { .. } => Errno::ESRCH,
            NoSchedExt { .. }
            | Unable { .. }
            | NotHeld { .. }
            | NoCpuController { .. }
            | NotMovable { .. }
            | NotThreaded { .. }
            | NotRestorable { .. }
            | NoTrace => Errno::EOPNOTSUPP,
            Version { .. } | SavedQdisc { .. } => Errno::EPROTO,
            ThreadElsewhere { .. } => Errno::EXDEV,
            Load { .. } | Attach { .. } | Bpf { .. } | RestoredOtherwise { .. } => Errno::EIO,
            Locked { .. } => Errno::EAGAIN,
            NoCgroup2 | NoDevice { .. } => Errno::ENODEV,
            Privilege { .. } | NetPrivilege { .. } => Errno::EPERM,
            Io { source, .. } => {
                Errno::from_raw(source.raw_os_error().unwrap_or(Errno::EIO as i32))
            }
            Ctl { errno, .. } | Netlink { errno, .. } | NotRestored { errno, .. } => *errno,
        }
    }

    /// Whether the words of the command are wrong, whatever the system's state.
    pub fn is_usage(&self) -> bool {
        use Error::*;
        matches!(
            self,
            Path { .. }
                | Weight { .. }
                | Reservation { .. }
                | Priority { .. }
                | UnknownLeaf { .. }
                | Root { .. }
                | Usage(_)
        ) || matches!(self, Link(refusal) if refusal.is_usage())
            || matches!(self, Disk(refusal) if refusal.is_usage())
    }
}
