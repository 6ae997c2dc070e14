// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet scheduler of one interface, through its pins: what its control programs
//! offer, one call each.

use super::intf::{
    self, op, set, CtlCgroup, CtlLink, CtlNode, CtlNodes, CtlQueue, CtlQueues, CtlRule, Grant,
    NodeRecord, QueueRecord, Rule,
};
use super::pins::{self, Pins};
use super::{Codel, Discipline, Rate, Refusal};
use crate::bpf::{self, read_global, variables, Offsets};
use crate::intf::Plain;
use crate::{Error, Result, Weight};
use libbpf_rs::btf::Btf;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Program};
use nix::errno::Errno;
use std::os::fd::AsFd;

/// What was set when it was loaded.
#[derive(Clone, Debug)]
pub struct Constants {
    /// Interface version.
    pub version: u32,
    /// Name of the interface then.
    pub device: String,
    /// Major number of the queueing discipline's handle.
    pub major: u16,
    /// It writes a trace.
    pub trace: bool,
}

/// The packet scheduler of one interface.
pub struct Running {
    pub(super) pins: Pins,
    /// Name of the interface, for errors.
    pub(super) dev: String,
    pub(super) constants: Constants,
}

/// What a control program answers: the errno of a refusal is the caller's to explain.
pub type Answer<T> = std::result::Result<T, Errno>;

/// A number by which outsiders name what belongs to a link: its major number above, the
/// queue's id or the node's index below.
pub fn sid(major: u16, id: u32) -> u32 {
    u32::from(major) << 16 | (id & 0xffff)
}

#[derive(Clone, Copy)]
#[repr(transparent)]
struct U32(u32);
#[derive(Clone, Copy)]
#[repr(transparent)]
struct U8(u8);
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Name([u8; 16]);
// SAFETY: integers.
unsafe impl Plain for U32 {}
// SAFETY: integers.
unsafe impl Plain for U8 {}
// SAFETY: integers.
unsafe impl Plain for Name {}

fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

pub(super) fn name_of(bytes: &[u8; intf::NAME]) -> String {
    text(bytes)
}

fn name_bytes(name: &str) -> [u8; intf::NAME] {
    let mut bytes = [0; intf::NAME];
    let length = name.len().min(intf::NAME - 1);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

impl Running {
    /// Through the pins, whatever became of the queueing discipline.
    pub(super) fn open(pins: Pins, dev: &str) -> Result<Running> {
        let rodata = bpf::open_map(&pins.path(pins::RODATA))?;
        let offsets = layout(&pins, ".rodata")?;
        let constants = constants(&rodata, &offsets).ok_or_else(|| Error::Bpf {
            doing: "reading",
            path: pins.path(pins::RODATA),
            why: "it is not what this program knows".into(),
        })?;
        Ok(Running {
            pins,
            dev: dev.to_string(),
            constants,
        })
    }

    /// What was set when it was loaded.
    pub fn constants(&self) -> &Constants {
        &self.constants
    }

    fn call<T: Plain>(&self, program: &'static str, context: &mut T) -> Result<Answer<()>> {
        bpf::call(&self.pins.path(program), context)
    }

    fn ctl_error(&self, program: &'static str, object: impl Into<String>, errno: Errno) -> Error {
        Error::Ctl {
            program,
            object: format!("{} of {}", object.into(), self.dev),
            errno,
        }
    }

    // ---- the link as a whole -------------------------------------------------

    /// How it stands, after changing what `change` says.
    fn link(&self, mut change: CtlLink) -> Result<CtlLink> {
        self.call(CTL_LINK, &mut change)?
            .map_err(|errno| self.ctl_error(CTL_LINK, "the link", errno))?;
        Ok(change)
    }

    /// How the link stands.
    pub fn look(&self) -> Result<CtlLink> {
        self.link(CtlLink::zeroed())
    }

    /// Paces the link: its rate, and what a packet takes on the line besides itself and at least.
    pub fn set_rate(&self, rate: Rate, overhead: u32, least: u32) -> Result<()> {
        self.link(CtlLink {
            set: set::RATE,
            rate: rate.bytes(),
            overhead,
            least,
            ..CtlLink::zeroed()
        })
        .map(drop)
    }

    /// When queues are taken for standing.
    pub fn set_codel(&self, codel: Codel) -> Result<()> {
        self.link(CtlLink {
            set: set::CODEL,
            target_ns: codel.target_ns,
            interval_ns: codel.interval_ns,
            ..CtlLink::zeroed()
        })
        .map(drop)
    }

    /// The queue of packets that nothing else is said of.
    pub fn set_default(&self, queue: u32) -> Result<()> {
        self.link(CtlLink {
            set: set::DEFAULT,
            standard: queue,
            ..CtlLink::zeroed()
        })
        .map(drop)
    }

    // ---- nodes ---------------------------------------------------------------

    /// All nodes, by number.
    pub fn nodes(&self) -> Result<Vec<NodeRecord>> {
        let mut all = Vec::new();
        let mut part = CtlNodes::zeroed();
        loop {
            self.call(CTL_NODES, &mut part)?
                .map_err(|errno| self.ctl_error(CTL_NODES, "the tree", errno))?;
            let told = part.record.iter().take(part.count as usize);
            all.extend(told.filter(|record| record.node != 0));
            if part.from == 0 {
                return Ok(all);
            }
        }
    }

    fn node(&self, mut change: CtlNode) -> Result<Answer<u32>> {
        let done = self.call(CTL_NODE, &mut change)?;
        Ok(done.map(|()| change.node))
    }

    /// `hsfq_link_mknod`: a node below another. Its number, or why not.
    pub fn mknod(
        &self,
        name: &str,
        parent: u32,
        weight: Weight,
        leaf: Discipline,
    ) -> Result<Answer<u32>> {
        self.node(CtlNode {
            op: op::ADD,
            parent,
            weight: weight.get(),
            leaf: leaf.number(),
            name: name_bytes(name),
            ..CtlNode::zeroed()
        })
    }

    /// `hsfq_link_rmnod`
    pub fn rmnod(&self, node: u32) -> Result<Answer<u32>> {
        self.node(CtlNode {
            op: op::DEL,
            node,
            ..CtlNode::zeroed()
        })
    }

    /// `hsfq_link_modify`, of a node.
    pub fn set_weight(&self, node: u32, weight: Weight) -> Result<Answer<u32>> {
        self.node(CtlNode {
            op: op::SET,
            node,
            weight: weight.get(),
            ..CtlNode::zeroed()
        })
    }

    // ---- queues --------------------------------------------------------------

    /// All queues, by number.
    pub fn queues(&self) -> Result<Vec<QueueRecord>> {
        let mut all = Vec::new();
        let mut part = CtlQueues::zeroed();
        loop {
            self.call(CTL_QUEUES, &mut part)?
                .map_err(|errno| self.ctl_error(CTL_QUEUES, "the queues", errno))?;
            let told = part.record.iter().take(part.count as usize);
            all.extend(told.filter(|record| record.queue != 0));
            if part.from == 0 {
                return Ok(all);
            }
        }
    }

    fn queue(&self, mut change: CtlQueue) -> Result<Answer<u32>> {
        let done = self.call(CTL_QUEUE, &mut change)?;
        Ok(done.map(|()| change.queue))
    }

    /// `hsfq_link_createq`: a queue that is attached nowhere. Its id, or why not.
    pub fn createq(&self, name: &str, weight: Weight) -> Result<Answer<u32>> {
        self.queue(CtlQueue {
            op: op::ADD,
            weight: weight.get(),
            name: name_bytes(name),
            ..CtlQueue::zeroed()
        })
    }

    /// `hsfq_link_attachq`, `hsfq_link_moveq`
    pub fn attachq(&self, queue: u32, leaf: u32) -> Result<Answer<u32>> {
        self.queue(CtlQueue {
            op: op::ATTACH,
            queue,
            leaf,
            ..CtlQueue::zeroed()
        })
    }

    /// `hsfq_link_rmq`
    pub fn rmq(&self, queue: u32) -> Result<Answer<u32>> {
        self.queue(CtlQueue {
            op: op::DEL,
            queue,
            ..CtlQueue::zeroed()
        })
    }

    /// `hsfq_link_modify`, of a queue: weight, or limits in packets and bytes.
    pub fn set_queue(
        &self,
        queue: u32,
        weight: Option<Weight>,
        limits: Option<(u32, u64)>,
    ) -> Result<Answer<u32>> {
        let mut change = CtlQueue {
            op: op::SET,
            queue,
            ..CtlQueue::zeroed()
        };
        if let Some(weight) = weight {
            change.set |= set::QUEUE_WEIGHT;
            change.weight = weight.get();
        }
        if let Some((packets, bytes)) = limits {
            change.set |= set::QUEUE_LIMITS;
            change.packets_max = packets;
            change.bytes_max = bytes;
        }
        self.queue(change)
    }

    // ---- who goes where --------------------------------------------------------

    /// All rules, in order; their queues are ids.
    pub fn rules(&self) -> Result<Vec<Rule>> {
        let mut all = Vec::new();
        loop {
            let mut ask = CtlRule {
                op: op::GET,
                at: all.len() as u32,
                ..CtlRule::zeroed()
            };
            match self.call(CTL_RULE, &mut ask)? {
                Ok(()) => all.push(ask.rule),
                Err(Errno::ENOENT) => return Ok(all),
                Err(errno) => return Err(self.ctl_error(CTL_RULE, "a rule", errno)),
            }
        }
    }

    /// Puts a rule before the one at that place, from 0, or last.
    pub fn add_rule(&self, at: u32, rule: Rule) -> Result<()> {
        let mut change = CtlRule {
            op: op::ADD,
            at,
            rule,
            ..CtlRule::zeroed()
        };
        match self.call(CTL_RULE, &mut change)? {
            Ok(()) => Ok(()),
            Err(Errno::ENOSPC) => Err(Refusal::RulesFull {
                dev: self.dev.clone(),
            }
            .into()),
            Err(errno) => Err(self.ctl_error(CTL_RULE, "the rule", errno)),
        }
    }

    /// Removes the rule at that place, from 0.
    pub fn del_rule(&self, at: u32) -> Result<Answer<()>> {
        let mut change = CtlRule {
            op: op::DEL,
            at,
            ..CtlRule::zeroed()
        };
        self.call(CTL_RULE, &mut change)
    }

    /// Sockets of the cgroup go to the queue; 0: not any more.
    pub fn set_cgroup(&self, cgroup_id: u64, queue: u32) -> Result<Answer<()>> {
        let mut change = CtlCgroup {
            cgroup_id,
            queue,
            pad: 0,
        };
        self.call(CTL_CGROUP, &mut change)
    }

    /// Cgroup ids, and the numbers of their queues.
    pub fn cgroups(&self) -> Result<Vec<(u64, u32)>> {
        let map = bpf::open_map(&self.pins.path(pins::CGROUPS))?;
        let entry = |key: Vec<u8>| {
            let value = map.lookup(&key, MapFlags::ANY).ok()??;
            Some((
                u64::from_ne_bytes(key.try_into().ok()?),
                U32::from_bytes(&value)?.0,
            ))
        };
        Ok(map.keys().filter_map(entry).collect())
    }

    // ---- who may choose --------------------------------------------------------

    /// Grants, some of which may be of queues that are gone.
    pub fn grants(&self) -> Result<Vec<Grant>> {
        let map = bpf::open_map(&self.pins.path(pins::GRANTS))?;
        let all = map.keys().filter_map(|key| Grant::from_bytes(&key));
        Ok(all.collect())
    }

    /// Lets somebody attach sockets to a queue.
    pub fn grant(&self, mut grant: Grant) -> Result<()> {
        let path = self.pins.path(pins::GRANTS);
        bpf::open_map(&path)?
            .update(grant.bytes_mut(), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| bpf::error("changing", path, &e))
    }

    /// Not any more; false: nobody had.
    pub fn revoke(&self, mut grant: Grant) -> Result<bool> {
        let path = self.pins.path(pins::GRANTS);
        match bpf::open_map(&path)?.delete(grant.bytes_mut()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(bpf::error("changing", path, &e)),
        }
    }

    /// What was there before, as bytes.
    pub(super) fn before(&self) -> Result<Vec<u8>> {
        let path = self.pins.path(pins::BEFORE);
        let value = bpf::open_map(&path)?
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| bpf::error("reading", path, &e))?;
        Ok(value.unwrap_or_default())
    }

    /// The ring buffer of packets that left.
    pub fn trace_map(&self) -> Result<MapHandle> {
        bpf::open_map(&self.pins.path(pins::TRACE))
    }
}

pub(super) const CTL_LINK: &str = "hsfq_link_ctl_link";
const CTL_NODE: &str = "hsfq_link_ctl_node";
const CTL_NODES: &str = "hsfq_link_ctl_nodes";
const CTL_QUEUE: &str = "hsfq_link_ctl_queue";
const CTL_QUEUES: &str = "hsfq_link_ctl_queues";
const CTL_RULE: &str = "hsfq_link_ctl_rule";
const CTL_CGROUP: &str = "hsfq_link_ctl_cgroup";

/// Programs that answer user space, pinned under their own names.
pub(super) const PROGRAMS: [&str; 7] = [
    CTL_LINK, CTL_NODE, CTL_NODES, CTL_QUEUE, CTL_QUEUES, CTL_RULE, CTL_CGROUP,
];

/// Where global variables are, by the account that the loaded object itself carries: it
/// may be of another version than this library.
fn layout(pins: &Pins, section: &str) -> Result<Offsets> {
    let fd = bpf::open_program(&pins.path(CTL_LINK))?;
    let load = || {
        let btf = Btf::from_prog_id(Program::id_from_fd(fd.as_fd()).ok()?).ok()?;
        Some(variables(&btf, section))
    };
    Ok(load().unwrap_or_default())
}

fn constants(rodata: &MapHandle, offsets: &Offsets) -> Option<Constants> {
    Some(Constants {
        version: read_global::<U32>(rodata, offsets, "intf_version")?.0,
        device: text(&read_global::<Name>(rodata, offsets, "device")?.0),
        major: read_global::<U32>(rodata, offsets, "major")?.0 as u16,
        trace: read_global::<U8>(rodata, offsets, "trace_on")?.0 != 0,
    })
}
