// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be refused about a disk. A message is one sentence that names the
//! object, the reason and the remedy.

use super::Class;
use nix::errno::Errno;

/// A refusal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages describe the variants
pub enum Refusal {
    #[error(
        "disk class '{given}' does not exist: choose interactive, throughput, realtime or none"
    )]
    Class { given: String },
    #[error("class none has neither weight nor service: name interactive, throughput or realtime")]
    NoneOfThree,
    #[error("round '{given}' is not valid: give a time from 1ms to 10s, such as 100ms")]
    Round { given: String },
    #[error(
        "weight '{given}' of a disk class is out of range: give a whole number from 0 to 10000"
    )]
    Weight { given: String },
    #[error("number of requests in flight '{given}' is out of range: give a whole number from 1 to 1024, or auto")]
    InFlight { given: String },
    #[error("time of requests in flight '{given}' is not valid: give a time from 1us to 10s, such as 2ms, or auto")]
    InFlightTime { given: String },
    #[error("deadline '{given}' is not valid: give a time from 1ms to 49.152s, such as 40ms")]
    Deadline { given: String },
    #[error("a deadline is for requests of class realtime, not of {class}: leave it out")]
    DeadlineOf { class: Class },
    #[error("the weights cannot all be 0: give at least one class a weight")]
    NoWeight,
    #[error("{0}")]
    Usage(String),

    #[error("the weights of {dev} cannot all be 0: leave at least one class a weight, as `qlinux disk show {dev}` has them")]
    AllZero { dev: String },
    #[error("disk {name} does not exist: `lsblk` lists those that do")]
    NoDisk { name: String },
    #[error("{path} is not a disk: name a block device such as sda or /dev/sda")]
    NotBlock { path: String },
    #[error("{dev} has no I/O scheduler, because {why}")]
    NoScheduler { dev: String, why: String },
    #[error("{dev} is not scheduled by Cello: start it with `qlinux up disk {dev}`")]
    Down { dev: String },
    #[error("{dev} is scheduled by Cello already: change it with `qlinux disk set {dev}`")]
    AlreadyUp { dev: String },
    #[error("kernel {release} has no I/O scheduler cello, because {why}")]
    NoModule { release: String, why: String },
    #[error("{dev} did not get the I/O scheduler {scheduler}: {why}; see the kernel log")]
    NotSwitched {
        dev: String,
        scheduler: String,
        why: String,
        errno: Errno,
    },
    #[error("{dev} is not scheduled by Cello any more, but {what} could not be put back: set that by hand, below /sys/block/{dev}/queue")]
    RestoredOtherwise { dev: String, what: String },

    #[error("cgroup {path} does not exist: create it with `qlinux class add {path}`, or by mkdir")]
    NoCgroup { path: String },
    #[error("cgroup {path} offers no io controller: boot with the kernel parameter cgroup_no_v1=all, or ask the owner of {path} for it; see `qlinux check`")]
    NoIoController { path: String },
    #[error("cgroup {path} cannot give those below it the io controller because {members} belong to it: move them into a cgroup below it first")]
    Occupied { path: String, members: String },
    #[error("cgroup {path} is threaded, or has threaded cgroups beside it, and the kernel divides disks among whole processes only: set the class of {domain}")]
    Threaded { path: String, domain: String },

    #[error("the disk class of process {pid} cannot be changed because it belongs to another user: run the command as root")]
    NotYours { pid: i32 },
    #[error("the disk class of process {pid} cannot be changed because its I/O priority is a real-time one, which only root may set: run the command as root, or `ionice -c 2 -p {pid}` first")]
    RealtimePriority { pid: i32 },
    #[error("process {pid} makes threads faster than their disk class can be set: try again, or give its cgroup the class")]
    Threads { pid: i32 },
    #[error("the kernel did not take the disk class of process {pid}: {why}; it takes kernel 6.5 or newer, see `qlinux check`")]
    NotTaken { pid: i32, why: String, errno: Errno },
}

impl Refusal {
    /// The errno of the kernel's usual meaning.
    pub fn errno(&self) -> Errno {
        use Refusal::*;
        match self {
            Round { .. }
            | Weight { .. }
            | InFlight { .. }
            | InFlightTime { .. }
            | Deadline { .. } => Errno::ERANGE,
            Class { .. }
            | NoneOfThree
            | DeadlineOf { .. }
            | NoWeight
            | AllZero { .. }
            | Usage(_) => Errno::EINVAL,
            NoDisk { .. } => Errno::ENODEV,
            NotBlock { .. } => Errno::ENOTBLK,
            NoScheduler { .. } | NoModule { .. } | NoIoController { .. } | Threaded { .. } => {
                Errno::EOPNOTSUPP
            }
            Down { .. } => Errno::ESRCH,
            AlreadyUp { .. } => Errno::EEXIST,
            RestoredOtherwise { .. } => Errno::EIO,
            NoCgroup { .. } => Errno::ENOENT,
            Occupied { .. } => Errno::EBUSY,
            NotYours { .. } | RealtimePriority { .. } => Errno::EPERM,
            Threads { .. } => Errno::EAGAIN,
            NotSwitched { errno, .. } | NotTaken { errno, .. } => *errno,
        }
    }

    /// Whether the words of the command are wrong, whatever the system's state.
    pub fn is_usage(&self) -> bool {
        use Refusal::*;
        matches!(
            self,
            Class { .. }
                | NoneOfThree
                | Round { .. }
                | Weight { .. }
                | InFlight { .. }
                | InFlightTime { .. }
                | Deadline { .. }
                | DeadlineOf { .. }
                | NoWeight
                | Usage(_)
        )
    }
}
