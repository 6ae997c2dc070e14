// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be refused about a link. A message is one sentence that names the
//! object, the reason and the remedy.

use nix::errno::Errno;

/// A refusal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages describe the variants
pub enum Refusal {
    #[error("rate '{given}' is not valid: write bits a second like 800kbit, 20mbit or 2.5gbit, from 1kbit to 1tbit, or none")]
    Rate { given: String },
    #[error("leaf scheduler '{given}' of a link does not exist: choose fifo, sfq, fq, or none for a class with classes below it")]
    Discipline { given: String },
    #[error("goal '{given}' is not valid: write off, or target and interval like 5ms/100ms, with 0 < target < interval <= 10s")]
    Codel { given: String },
    #[error("name '{given}' of a class or queue is not valid: {why}")]
    QueueName { given: String, why: &'static str },
    #[error("{what} {given} is out of range: give {range}")]
    Range {
        what: &'static str,
        given: String,
        range: &'static str,
    },
    #[error("{0}")]
    Usage(String),

    #[error("{dev} is not scheduled by H-SFQ: start it with `qlinux up link {dev}`")]
    Down { dev: String },
    #[error("{dev} is not scheduled by H-SFQ any more, its root queueing discipline was deleted or replaced: `qlinux down link {dev}` clears what is left")]
    Ended { dev: String },
    #[error("{dev} is scheduled by H-SFQ already: change it with `qlinux link set {dev}`, or start it anew with `qlinux up link {dev} --replace`")]
    AlreadyUp { dev: String },
    #[error("{dev} has the queueing discipline {kind}: add --replace to put H-SFQ in its place until `qlinux down link {dev}`")]
    Foreign { dev: String, kind: String },
    #[error("the queueing discipline of {dev} speaks interface {found}, this program {ours}: start it anew with `qlinux up link {dev} --replace`")]
    Version { dev: String, found: u32, ours: u32 },
    #[error("kernel {release} has no queueing disciplines in BPF: boot a kernel of 6.16 or newer that was built with CONFIG_NET_SCH_BPF=y; see `qlinux check`")]
    NoBpfQdisc { release: String },
    #[error("no network interface here is scheduled by H-SFQ under the handle {major:x}: `qlinux status` lists those that are")]
    NoLink { major: u16 },
    #[error("the kernel did not put H-SFQ on {dev}: {why}")]
    NotInstalled { dev: String, why: String },
    #[error("no free handle is left for a queueing discipline: delete others first; see `tc qdisc show`")]
    NoHandle,

    #[error("the packet scheduler of {dev} keeps no trace: start it with `qlinux up link {dev} --trace 16M`")]
    NoTrace { dev: String },

    #[error("class {path} of {dev} does not exist: see `qlinux link show {dev}`")]
    NoClass { dev: String, path: String },
    #[error("class {path} cannot be created on {dev} because its parent {parent} does not exist: create that first with `qlinux link class add {dev} {parent} --leaf none`")]
    NoParent {
        dev: String,
        path: String,
        parent: String,
    },
    #[error(
        "class {path} of {dev} exists already: change it with `qlinux link class set {dev} {path}`"
    )]
    Exists { dev: String, path: String },
    #[error("class {path} of {dev} holds queues, not classes: classes go below one that was created with `--leaf none`")]
    IsLeaf { dev: String, path: String },
    #[error("class {path} of {dev} holds classes, not queues: name a leaf")]
    NotLeaf { dev: String, path: String },
    #[error("class {path} of {dev} cannot be deleted because {why}")]
    ClassInUse {
        dev: String,
        path: String,
        why: String,
    },
    #[error("the tree of {dev} is full or deeper than 64: delete other classes first")]
    TreeFull { dev: String },
    #[error("the root class cannot {what}: name a class below it")]
    Root { what: &'static str },

    #[error("queue {name} of {dev} does not exist: see `qlinux link show {dev}`")]
    NoQueue { dev: String, name: String },
    #[error(
        "queue {name} of {dev} exists already: change it with `qlinux link queue set {dev} {name}`"
    )]
    QueueExists { dev: String, name: String },
    #[error("queue {name} of {dev} cannot be deleted because {why}")]
    QueueInUse {
        dev: String,
        name: String,
        why: String,
    },
    #[error("queue {name} of {dev} is its class's own: delete it together with the class, or create another with `qlinux link queue add {dev} NAME`")]
    OwnQueue { dev: String, name: String },
    #[error("queue {name} of {dev} {why}")]
    Attached {
        dev: String,
        name: String,
        why: String,
    },
    #[error("all {max} queues of {dev} are in use: delete others first")]
    QueuesFull { dev: String, max: u32 },

    #[error("{dev} has no rule {at}: `qlinux link rule show {dev}` numbers them")]
    NoRule { dev: String, at: u32 },
    #[error("all 256 rules of {dev} are in use: delete others first")]
    RulesFull { dev: String },
    #[error("all 16384 places for cgroups of {dev} are taken: detach one with `qlinux link detach {dev} --cgroup PATH` first")]
    CgroupsFull { dev: String },
    #[error("rule '{given}' is not valid: {why}")]
    Rule { given: String, why: String },
    #[error(
        "cgroup {path} has no queue of its own on {dev}: `qlinux link show {dev}` tells which have"
    )]
    NoCgroup { dev: String, path: String },
    #[error("user '{name}' does not exist: see `getent passwd`")]
    NoUser { name: String },
    #[error("{who} was not granted queue {name} of {dev}: see `qlinux link show {dev}`")]
    NoGrant {
        dev: String,
        who: String,
        name: String,
    },
}

impl Refusal {
    /// The errno of the kernel's usual meaning.
    pub fn errno(&self) -> Errno {
        use Refusal::*;
        match self {
            Rate { .. } | Range { .. } => Errno::ERANGE,
            Discipline { .. }
            | Codel { .. }
            | QueueName { .. }
            | Usage(_)
            | Rule { .. }
            | Root { .. }
            | IsLeaf { .. }
            | NotLeaf { .. }
            | Attached { .. } => Errno::EINVAL,
            Down { .. } | Ended { .. } => Errno::ESRCH,
            AlreadyUp { .. } | Exists { .. } | QueueExists { .. } => Errno::EEXIST,
            Foreign { .. } | ClassInUse { .. } | QueueInUse { .. } | OwnQueue { .. } => {
                Errno::EBUSY
            }
            Version { .. } => Errno::EPROTO,
            NoBpfQdisc { .. } | NoTrace { .. } => Errno::EOPNOTSUPP,
            NotInstalled { .. } => Errno::EIO,
            NoHandle
            | TreeFull { .. }
            | QueuesFull { .. }
            | RulesFull { .. }
            | CgroupsFull { .. } => Errno::ENOSPC,
            NoLink { .. }
            | NoClass { .. }
            | NoParent { .. }
            | NoQueue { .. }
            | NoRule { .. }
            | NoCgroup { .. }
            | NoUser { .. }
            | NoGrant { .. } => Errno::ENOENT,
        }
    }

    /// Whether the words of the command are wrong, whatever the system's state.
    pub fn is_usage(&self) -> bool {
        use Refusal::*;
        matches!(
            self,
            Rate { .. }
                | Discipline { .. }
                | Codel { .. }
                | QueueName { .. }
                | Range { .. }
                | Usage(_)
                | Rule { .. }
                | Root { .. }
        )
    }
}
