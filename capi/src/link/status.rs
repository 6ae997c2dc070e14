// SPDX-License-Identifier: MIT OR Apache-2.0
//! `hsfq_link_status`: the tree as an array.

use super::{id, node, open};
use crate::{answer, refuse, Outcome};
use nix::errno::Errno;
use nix::libc::c_int;
use qlinux::link::intf::{Counts, NAME};
use qlinux::link::{Discipline, Link, Node, Queue, Tree};
use std::collections::{HashMap, HashSet};

pub(crate) const NODE: u32 = 1;
pub(crate) const QUEUE: u32 = 2;
pub(crate) const RUNNABLE: u32 = 1;
pub(crate) const DEFAULT: u32 = 2;

/// `struct hsfq_link_record`
#[derive(Clone)]
#[repr(C)]
pub struct Record {
    pub(crate) id: i32,
    pub(crate) parent: i32,
    pub(crate) kind: u32,
    pub(crate) depth: u32,
    pub(crate) weight: i32,
    pub(crate) sid: i32,
    pub(crate) flags: u32,
    pub(crate) users: u32,
    pub(crate) packets: u32,
    pub(crate) packets_max: u32,
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) served: u64,
    pub(crate) counts: Counts,
    pub(crate) name: [u8; NAME],
}

fn name(text: &str) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    let length = text.len().min(NAME - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

fn of_node(link: &Link, node: &Node) -> Record {
    let root = node.path.is_root();
    let above = |number: u32| if root { 0 } else { id(link, number) };
    Record {
        id: id(link, node.number),
        parent: above(node.parent),
        kind: NODE,
        depth: node.path.components().count() as u32,
        weight: if root { 0 } else { node.weight as i32 },
        sid: match node.leaf {
            Discipline::None => 0,
            leaf => super::SID + leaf.number() as i32,
        },
        flags: if node.runnable { RUNNABLE } else { 0 },
        users: 0,
        packets: 0,
        packets_max: 0,
        bytes: 0,
        bytes_max: 0,
        served: node.served,
        counts: Counts::default(),
        name: name(if root { "" } else { node.path.name() }),
    }
}

fn of_queue(link: &Link, queue: &Queue, depth: u32, standard: u32) -> Record {
    let mut flags = if queue.held.0 > 0 { RUNNABLE } else { 0 };
    if queue.id == standard {
        flags |= DEFAULT;
    }
    Record {
        id: id(link, queue.id),
        parent: queue.leaf.map_or(0, |leaf| id(link, leaf)),
        kind: QUEUE,
        depth,
        weight: queue.weight as i32,
        sid: 0,
        flags,
        users: queue.users,
        packets: queue.held.0,
        packets_max: queue.limits.0,
        bytes: queue.held.1,
        bytes_max: queue.limits.1,
        served: 0,
        counts: queue.counts,
        name: name(&queue.name),
    }
}

/// What is summed over the queues at and below each node.
#[derive(Default)]
struct Sum {
    counts: Counts,
    packets: u32,
    bytes: u64,
}

fn sums(tree: &Tree, elsewhere: Counts) -> HashMap<u32, Sum> {
    let mut all: HashMap<u32, Sum> = HashMap::new();
    for queue in &tree.queues {
        // What is attached nowhere counts for the root.
        let mut at = queue.leaf.and_then(|leaf| tree.number(leaf));
        at = at.or_else(|| tree.number(Tree::ROOT));
        while let Some(node) = at {
            let sum = all.entry(node.number).or_default();
            sum.counts += queue.counts;
            sum.packets += queue.held.0;
            sum.bytes += queue.held.1;
            at = tree.number(node.parent);
        }
    }
    all.entry(Tree::ROOT).or_default().counts += elsewhere;
    all
}

/// The node and all below it: a node, its queues, its children.
fn records(link: &Link, number: u32) -> Outcome<Vec<Record>> {
    let look = link.running().look()?;
    let tree = link.tree()?;
    let top = node(link, &tree, number)?;
    let mut sums = sums(&tree, look.elsewhere());
    let mut all = Vec::new();
    let mut within = HashSet::from([top.number]);
    // Parents come first.
    for node in &tree.nodes {
        if node.number != top.number {
            if !within.contains(&node.parent) {
                continue;
            }
            within.insert(node.number);
        }
        let sum = sums.remove(&node.number).unwrap_or_default();
        let mut record = Record {
            counts: sum.counts,
            packets: sum.packets,
            bytes: sum.bytes,
            ..of_node(link, node)
        };
        // A packet that is the only one passes the tree without making nodes runnable.
        if record.packets > 0 {
            record.flags |= RUNNABLE;
        }
        let depth = record.depth + 1;
        all.push(record);
        let queues = tree.queues_of(node.number);
        all.extend(queues.map(|q| of_queue(link, q, depth, look.standard)));
    }
    if top.path.is_root() {
        let loose = tree.queues.iter().filter(|q| q.leaf.is_none());
        all.extend(loose.map(|q| of_queue(link, q, 1, look.standard)));
    }
    Ok(all)
}

/// `hsfq_link_status(3)`
///
/// # Safety
/// `to` has room for `max` records of `size` bytes, or `max` is 0.
#[no_mangle]
pub unsafe extern "C" fn hsfq_link_status(
    node: c_int,
    to: *mut Record,
    size: usize,
    max: usize,
) -> c_int {
    answer(|| {
        if max > 0 && to.is_null() {
            return refuse(
                Errno::EFAULT,
                "the array is a null pointer: pass one, or room for 0 records",
            );
        }
        if max > 0 && size != size_of::<Record>() {
            return refuse(
                Errno::EINVAL,
                "struct hsfq_link_record has another size: pass its size, or recompile",
            );
        }
        let (link, number) = open(node)?;
        let all = records(&link, number)?;
        for (at, record) in all.iter().take(max).enumerate() {
            // SAFETY: `at` is below `max`.
            unsafe { to.add(at).write(record.clone()) };
        }
        Ok(all.len() as c_int)
    })
}
