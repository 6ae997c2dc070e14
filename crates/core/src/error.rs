// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refusals of the tree, one variant for each reason.

use crate::NodeId;
use thiserror::Error;

/// Why an operation was refused. The state is as it was before.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// `ENOENT`
    #[error("node {0} does not exist; name one that mknod returned and rmnod did not take back")]
    NoSuchNode(NodeId),
    /// `EBUSY`
    #[error("node {0} still has children or threads; remove or move them first")]
    Busy(NodeId),
    /// `EINVAL`: an inner node was expected.
    #[error("node {0} is a leaf, which holds threads and not nodes; choose an inner node")]
    IsLeaf(NodeId),
    /// `EINVAL`: a leaf was expected.
    #[error("node {0} is an inner node, which holds nodes and not threads; choose a leaf")]
    NotLeaf(NodeId),
    /// `EINVAL`: a list of leaves passed over was expected.
    #[error("leaf {0} is on no list of leaves passed over; give what pass or restore returned")]
    NotPassed(NodeId),
    /// `ERANGE`
    #[error("weight {0} is out of range; choose one from 1 to 10000")]
    Weight(u32),
    /// `ERANGE`: a reservation out of limits.
    #[error("the reservation is out of range; choose 100us <= C <= D <= T <= 60s")]
    Reservation,
    /// `ERANGE`: a real-time priority.
    #[error("priority {0} is out of range; choose one from 0 to 59")]
    Priority(u32),
    /// `EINVAL`
    #[error(
        "node {0} is the root, which has neither a budget nor siblings; choose a node below it"
    )]
    RootLimit(NodeId),
    /// `ERANGE`
    #[error("a budget's period is at least 1 ns, and its times are at most 2^60 ns")]
    Budget,
    /// `ENOSPC`
    #[error("all nodes of the tree are in use below node {0}; remove one first")]
    NoSpace(NodeId),
    /// `ELOOP`
    #[error("node {0} is at the greatest depth, 64; create the node higher up")]
    TooDeep(NodeId),
    /// `ERANGE`, `EINVAL`: a disk's classes.
    #[error("weights {0:?} are out of range; choose each from 0 to 10000, and one above 0")]
    DiskWeights([u32; 3]),
    /// `ERANGE`
    #[error("a round of {0} ns is out of range; choose one from 1 ms to 10 s")]
    Round(u64),
    /// `ERANGE`
    #[error("{0} requests at the disk are out of range; choose 1 to 1024")]
    InFlight(u32),
    /// `ERANGE`
    #[error("{0} ns of requests at the disk are out of range; choose 1 us to 10 s")]
    InFlightTime(u64),
    /// `ERANGE`
    #[error("a deadline of {0} ns is out of range; choose one from 1 ms to 49.152 s")]
    Deadline(u64),
    /// `ENOENT`: a queue of packets.
    #[error("queue {0} does not exist; name one that createq returned and rmq did not take back")]
    NoSuchQueue(u32),
    /// `EBUSY`
    #[error("queue {0} still has packets; wait until they are sent")]
    QueueBusy(u32),
    /// `ENOSPC`
    #[error("all 4095 queues of the interface are in use; remove one first")]
    NoQueue,
    /// `ERANGE`
    #[error("a queue's limits are 1 to 65535 packets and at least one byte")]
    QueueLimit,
    /// `ERANGE`
    #[error("a link takes 1 kbit/s to 1 Tbit/s, and a packet adds up to 1024 and takes at least up to 2048 bytes")]
    Rate,
    /// `ERANGE`: a rule that says what no packet can be.
    #[error("a rule's ports go upwards, its protocol is up to 255, its DSCP up to 63, its family 4 or 6")]
    Rule,
    /// `ENOSPC`
    #[error("all 256 rules of the interface are in use; remove one first")]
    RulesFull,
    /// `ENOENT`
    #[error("there is no rule {0}, counted from 0; name one that was inserted")]
    NoSuchRule(u32),
    /// `EINVAL`: a thread that is runnable arrives, one asleep departs, one in a leaf joins, …
    #[error("thread is {is}; it must be {must} for this")]
    ThreadState {
        /// what the thread is
        is: &'static str,
        /// what it must be
        must: &'static str,
    },
}

impl Error {
    /// The errno value that the C functions return for it, positive.
    pub fn errno(&self) -> i32 {
        match self {
            Error::NoSuchNode(_) | Error::NoSuchQueue(_) | Error::NoSuchRule(_) => 2,
            Error::Busy(_) | Error::QueueBusy(_) => 16,
            Error::IsLeaf(_)
            | Error::NotLeaf(_)
            | Error::NotPassed(_)
            | Error::RootLimit(_)
            | Error::ThreadState { .. } => 22,
            Error::NoSpace(_) | Error::NoQueue | Error::RulesFull => 28,
            Error::Weight(_)
            | Error::DiskWeights(_)
            | Error::Round(_)
            | Error::InFlight(_)
            | Error::InFlightTime(_)
            | Error::Deadline(_)
            | Error::Reservation
            | Error::Priority(_)
            | Error::Budget
            | Error::QueueLimit
            | Error::Rate
            | Error::Rule => 34,
            Error::TooDeep(_) => 40,
        }
    }

    /// The refusal that C reported as `-errno` about this node or weight.
    pub(crate) fn from_c(code: i32, node: NodeId, weight: u32) -> Error {
        match -code {
            2 => Error::NoSuchNode(node),
            16 => Error::Busy(node),
            22 => Error::IsLeaf(node),
            28 => Error::NoSpace(node),
            34 => Error::Weight(weight),
            40 => Error::TooDeep(node),
            other => unreachable!("core/tree/hsfq.h does not return errno {other}"),
        }
    }
}
