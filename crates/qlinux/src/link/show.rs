// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every class of a link is entitled to, received, holds and has dropped.

use super::intf::{self, Counts};
use super::names::{Node, Queue, Tree};
use super::ops::Link;
use super::{Codel, Discipline};
use crate::cgroup::Hierarchy;
use crate::{ClassPath, Result};
use qlinux_core::waits::Waits;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// A class, or a queue of it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The class, or the queue's name.
    pub name: String,
    /// A queue that was created by its name; the own queue of a class is in the class's row.
    pub queue: bool,
    /// How deep it is in the tree; a queue is one deeper than its class.
    pub depth: usize,
    /// Among its siblings.
    pub weight: Option<u32>,
    /// In which order its packets are sent.
    pub leaf: Option<Discipline>,
    /// Share of the link that its weight guarantees it while all classes have packets.
    pub entitled: Option<f64>,
    /// The same in bits a second, where the link has a rate.
    pub entitled_bits: Option<f64>,
    /// Bits a second that it received during the interval.
    pub received_bits: f64,
    /// Packets that wait.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What became of its packets since it was created.
    pub counts: Counts,
    /// Half of the packets sent during the interval had waited for less.
    pub delay_p50_ns: Option<u64>,
    /// 99 in a hundred.
    pub delay_p99_ns: Option<u64>,
    /// All.
    pub delay_max_ns: Option<u64>,
    /// Packets, and bytes, that a queue may hold.
    pub limits: Option<(u32, u64)>,
    /// Number by which a program attaches a socket to the queue.
    pub sid: Option<u32>,
}

/// A link.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Name of the interface.
    pub device: String,
    /// Bits a second; `None`: as fast as the device takes them.
    pub rate_bits: Option<f64>,
    /// Bytes that a packet adds on the line.
    pub overhead: u32,
    /// Bytes that it takes there at least.
    pub least: u32,
    /// When queues are taken for standing.
    pub codel: Codel,
    /// The queue of packets that nothing else is said of.
    pub default: Option<String>,
    /// Seconds of the interval.
    pub interval_s: f64,
    /// What became of all packets since `up link`, those of deleted queues too.
    pub counts: Counts,
    /// Packets that wait.
    pub packets: u64,
    /// Classes and queues, parents first.
    pub rows: Vec<Row>,
    /// Rules, first match first, and their queues.
    pub rules: Vec<(String, String)>,
    /// Cgroups and their queues.
    pub cgroups: Vec<(String, String)>,
    /// Who may attach sockets to which queue.
    pub grants: Vec<(String, String)>,
}

/// What is summed over a class's queues.
#[derive(Clone)]
struct Sums {
    counts: Counts,
    packets: u64,
    bytes: u64,
    waits: [u32; intf::WAITS],
}

impl Sums {
    const NONE: Sums = Sums {
        counts: Counts::ZERO,
        packets: 0,
        bytes: 0,
        waits: [0; intf::WAITS],
    };

    fn add(&mut self, queue: &Queue) {
        self.counts += queue.counts;
        self.packets += u64::from(queue.held.0);
        self.bytes += queue.held.1;
        for (sum, more) in self.waits.iter_mut().zip(queue.waits) {
            *sum = sum.wrapping_add(more);
        }
    }
}

/// One moment.
struct Look {
    tree: Tree,
    sums: HashMap<u32, Sums>,
    time_ns: u64,
}

impl Look {
    fn now(link: &Link) -> Result<Look> {
        let tree = link.tree()?;
        let time_ns = link.running().look()?.time_ns;
        let mut sums: HashMap<u32, Sums> = HashMap::new();
        for queue in &tree.queues {
            let mut at = queue.leaf.and_then(|leaf| tree.number(leaf));
            while let Some(node) = at {
                sums.entry(node.number).or_insert(Sums::NONE).add(queue);
                at = tree.number(node.parent);
            }
        }
        Ok(Look {
            tree,
            sums,
            time_ns,
        })
    }
}

impl Link {
    /// How the link stands, after looking at it for `interval`.
    pub fn show(&self, interval: Duration) -> Result<Shown> {
        let before = Look::now(self)?;
        std::thread::sleep(interval);
        let after = Look::now(self)?;
        let link = self.running().look()?;
        let codel = Codel {
            target_ns: link.target_ns,
            interval_ns: link.interval_ns,
        };
        let seconds = (after.time_ns.saturating_sub(before.time_ns)).max(1) as f64 / 1e9;
        let rate_bits = (link.rate > 0).then_some(link.rate as f64 * 8.0);
        let tree = &after.tree;
        let mut counts = link.elsewhere();
        // Each queue was read in one piece; the link's own number of packets is of another moment.
        let mut packets = 0;
        for queue in &tree.queues {
            counts += queue.counts;
            packets += u64::from(queue.held.0);
        }
        let name = |id: u32| tree.queue_by_id(id).map(|q| tree.name(q));
        let rules = self.rules()?;
        Ok(Shown {
            device: self.device().into(),
            rate_bits,
            overhead: link.overhead,
            least: link.least,
            codel,
            default: name(link.standard),
            interval_s: seconds,
            counts,
            packets,
            rows: self.rows(&before, &after, seconds, rate_bits),
            rules: rules
                .into_iter()
                .map(|(rule, queue)| (rule.to_string(), queue))
                .collect(),
            cgroups: self.shown_cgroups(tree)?,
            grants: self.shown_grants(tree)?,
        })
    }

    fn rows(&self, before: &Look, after: &Look, seconds: f64, rate: Option<f64>) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut shares: HashMap<u32, f64> = HashMap::new();
        for node in &after.tree.nodes {
            let share = share(&after.tree, node, &shares);
            shares.insert(node.number, share);
            let was = before.tree.number(node.number).map_or(0, |n| n.served);
            let sums = after.sums.get(&node.number).unwrap_or(&Sums::NONE);
            let earlier = before.sums.get(&node.number).unwrap_or(&Sums::NONE);
            let depth = node.path.components().count();
            let own = after
                .tree
                .queues_of(node.number)
                .find(|q| q.name.is_empty());
            let row = Row {
                name: node.path.to_string(),
                queue: false,
                depth,
                weight: (node.parent != 0).then_some(node.weight),
                leaf: Some(node.leaf),
                entitled: Some(share),
                entitled_bits: rate.map(|rate| rate * share),
                received_bits: node.served.saturating_sub(was) as f64 * 8.0 / seconds,
                limits: own.map(|q| q.limits),
                sid: own.map(|q| self.sid(q.id)),
                ..summed(sums, &earlier.waits)
            };
            rows.push(row);
            let named = after
                .tree
                .queues_of(node.number)
                .filter(|q| !q.name.is_empty());
            rows.extend(named.map(|q| self.queue_row(q, before, depth + 1, seconds)));
        }
        let loose = after.tree.queues.iter().filter(|q| q.leaf.is_none());
        rows.extend(loose.map(|q| self.queue_row(q, before, 1, seconds)));
        rows
    }

    fn queue_row(&self, queue: &Queue, before: &Look, depth: usize, seconds: f64) -> Row {
        let mut sums = Sums::NONE;
        sums.add(queue);
        let was = before.tree.queue_by_id(queue.id);
        let sent = was.map_or(0, |q| q.counts.sent_bytes);
        Row {
            name: queue.name.clone(),
            queue: true,
            depth,
            weight: Some(queue.weight),
            received_bits: queue.counts.sent_bytes.saturating_sub(sent) as f64 * 8.0 / seconds,
            limits: Some(queue.limits),
            sid: Some(self.sid(queue.id)),
            ..summed(&sums, was.map_or(&Sums::NONE.waits, |q| &q.waits))
        }
    }

    fn shown_cgroups(&self, tree: &Tree) -> Result<Vec<(String, String)>> {
        let fs = Hierarchy::discover()?;
        let mut all: Vec<_> = self
            .running()
            .cgroups()?
            .into_iter()
            .map(|(id, number)| {
                let queue = tree.queue_by_number(number);
                let queue = queue.map_or_else(|| format!("#{number}"), |q| tree.name(q));
                (path_text(&fs, id), queue)
            })
            .collect();
        all.sort();
        Ok(all)
    }

    fn shown_grants(&self, tree: &Tree) -> Result<Vec<(String, String)>> {
        let fs = Hierarchy::discover()?;
        let mut all = Vec::new();
        for grant in self.running().grants()? {
            let Some(queue) = tree.queue_by_id(grant.queue) else {
                continue;
            };
            let who = match grant.kind {
                intf::who::UID => format!("user {}", user_name(grant.who as u32)),
                _ => format!("cgroup {}", path_text(&fs, grant.who)),
            };
            all.push((who, tree.name(queue)));
        }
        all.sort();
        Ok(all)
    }
}

fn user_name(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(uid.into());
    user.ok()
        .flatten()
        .map_or_else(|| uid.to_string(), |user| user.name)
}

fn path_text(fs: &Hierarchy, id: u64) -> String {
    let path: Option<ClassPath> = fs.path_of(id);
    path.map_or_else(|| format!("{id} (deleted)"), |path| path.to_string())
}

/// The product of w / (sum of the siblings' w) along the path.
fn share(tree: &Tree, node: &Node, shares: &HashMap<u32, f64>) -> f64 {
    let Some(above) = shares.get(&node.parent) else {
        return 1.0;
    };
    let all: u32 = tree.children(node.parent).map(|n| n.weight).sum();
    above * f64::from(node.weight) / f64::from(all.max(1))
}

fn summed(sums: &Sums, earlier: &[u32; intf::WAITS]) -> Row {
    let waits = Waits::between(earlier, &sums.waits);
    Row {
        name: String::new(),
        queue: false,
        depth: 0,
        weight: None,
        leaf: None,
        entitled: None,
        entitled_bits: None,
        received_bits: 0.0,
        packets: sums.packets,
        bytes: sums.bytes,
        counts: sums.counts,
        delay_p50_ns: waits.quantile_ns(0.5),
        delay_p99_ns: waits.quantile_ns(0.99),
        delay_max_ns: waits.max_ns(),
        limits: None,
        sid: None,
    }
}
