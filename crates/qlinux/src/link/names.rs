// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link's tree by name: classes by their paths, queues by their names.

use super::intf::{self, Counts, NodeRecord, QueueRecord};
use super::running::{name_of, Running};
use super::{Discipline, Refusal};
use crate::{ClassPath, Result};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// A class.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number in the tree.
    pub number: u32,
    /// 0: this is the root.
    pub parent: u32,
    /// From the root.
    pub path: ClassPath,
    /// Among its siblings.
    pub weight: u32,
    /// In which order its packets are sent.
    pub leaf: Discipline,
    /// A packet is queued in it or below it, or on its way.
    pub runnable: bool,
    /// Bytes on the line of all packets that were sent.
    pub served: u64,
}

/// A queue of packets.
#[derive(Clone)]
pub struct Queue {
    /// What names it outside.
    pub id: u32,
    /// Its name, or empty: it is its class's own.
    pub name: String,
    /// Where it is attached.
    pub leaf: Option<u32>,
    /// Among the queues of its leaf, where that heeds it.
    pub weight: u32,
    /// Packets, and bytes, that it may hold.
    pub limits: (u32, u64),
    /// Packets, and bytes, that it holds.
    pub held: (u32, u64),
    /// Rules, cgroups and the like that send packets to it.
    pub users: u32,
    /// What became of its packets.
    pub counts: Counts,
    /// How long they waited.
    pub waits: [u32; intf::WAITS],
}

/// What people call a queue: `/web` is the own queue of class /web, `backup` one that was
/// created by that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueName {
    /// The own queue of a class.
    Own(ClassPath),
    /// One with a name.
    Named(String),
}

/// A queue's id is its place, and a multiple of this that tells it from earlier ones there.
const PLACES: u32 = 4096;
/// Longest name of a class or queue, in bytes.
const NAME_MAX: usize = intf::NAME - 1;

/// Checks the name of a class or queue.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    let refuse = |why| {
        Err(Refusal::QueueName {
            given: name.escape_debug().to_string(),
            why,
        })
    };
    if name.is_empty() || name.len() > NAME_MAX {
        return refuse("it must have 1 to 63 bytes");
    }
    if name.contains(|c: char| c.is_control() || c.is_whitespace() || c == '/') {
        return refuse("blanks, / and control characters are not allowed");
    }
    Ok(())
}

impl FromStr for QueueName {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<QueueName> {
        if text.starts_with('/') {
            return Ok(QueueName::Own(text.parse()?));
        }
        check_name(text)?;
        Ok(QueueName::Named(text.into()))
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueName::Own(path) => f.pad(path.as_str()),
            QueueName::Named(name) => f.pad(name),
        }
    }
}

/// All of a link's classes and queues at one look.
pub struct Tree {
    dev: String,
    /// Parents first, siblings in the order of their making.
    pub nodes: Vec<Node>,
    /// By number.
    pub queues: Vec<Queue>,
    by_number: HashMap<u32, usize>,
}

impl Tree {
    /// The root's number.
    pub const ROOT: u32 = 1;
    /// Name of the class that a new tree has.
    pub const DEFAULT: &'static str = "default";

    /// How it is now.
    pub fn look(running: &Running) -> Result<Tree> {
        let queues = running.queues()?.iter().map(queue).collect();
        Ok(Tree::new(&running.dev, &running.nodes()?, queues))
    }

    fn new(dev: &str, records: &[NodeRecord], queues: Vec<Queue>) -> Tree {
        let mut children: HashMap<u32, Vec<&NodeRecord>> = HashMap::new();
        for record in records {
            children.entry(record.parent).or_default().push(record);
        }
        let mut nodes = Vec::new();
        let mut waiting: Vec<(&NodeRecord, ClassPath)> = children
            .get(&0)
            .into_iter()
            .flatten()
            .map(|root| (*root, ClassPath::root()))
            .collect();
        while let Some((record, path)) = waiting.pop() {
            for child in children.get(&record.node).into_iter().flatten().rev() {
                let prefix = path.as_str().trim_end_matches('/');
                let name = format!("{prefix}/{}", name_of(&child.name));
                waiting.push((child, ClassPath::from_kernel(&name)));
            }
            nodes.push(node(record, path));
        }
        let by_number = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.number, at))
            .collect();
        Tree {
            dev: dev.into(),
            nodes,
            queues,
            by_number,
        }
    }

    /// The class with that number.
    pub fn number(&self, number: u32) -> Option<&Node> {
        self.by_number.get(&number).map(|at| &self.nodes[*at])
    }

    /// The class with that path; `hsfq_link_parsenode`.
    pub fn class(&self, path: &ClassPath) -> Result<&Node, Refusal> {
        self.nodes
            .iter()
            .find(|node| node.path == *path)
            .ok_or_else(|| Refusal::NoClass {
                dev: self.dev.clone(),
                path: path.to_string(),
            })
    }

    /// The class with that path, where queues are attached.
    pub fn leaf(&self, path: &ClassPath) -> Result<&Node, Refusal> {
        let node = self.class(path)?;
        match node.leaf {
            Discipline::None => Err(Refusal::NotLeaf {
                dev: self.dev.clone(),
                path: path.to_string(),
            }),
            _ => Ok(node),
        }
    }

    /// Classes right below it.
    pub fn children(&self, number: u32) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |n| n.parent == number)
    }

    /// Queues attached to a class.
    pub fn queues_of(&self, number: u32) -> impl Iterator<Item = &Queue> {
        self.queues.iter().filter(move |q| q.leaf == Some(number))
    }

    /// The queue at that place of the kernel's table.
    pub fn queue_by_number(&self, number: u32) -> Option<&Queue> {
        self.queues.iter().find(|q| q.id % PLACES == number)
    }

    /// The queue of that name.
    pub fn queue(&self, name: &QueueName) -> Result<&Queue, Refusal> {
        let found = match name {
            QueueName::Own(path) => {
                let leaf = self.leaf(path)?;
                let own = self.queues_of(leaf.number).find(|q| q.name.is_empty());
                // A leaf that was made by calls has none; its only one is meant then.
                let mut all = self.queues_of(leaf.number);
                let only = all.next().filter(|_| all.next().is_none());
                own.or(only)
            }
            QueueName::Named(name) => self.queues.iter().find(|q| q.name == *name),
        };
        found.ok_or_else(|| Refusal::NoQueue {
            dev: self.dev.clone(),
            name: name.to_string(),
        })
    }

    /// The queue with that id.
    pub fn queue_by_id(&self, id: u32) -> Option<&Queue> {
        self.queues.iter().find(|q| q.id == id)
    }

    /// What people call it.
    pub fn name(&self, queue: &Queue) -> String {
        let leaf = queue.leaf.and_then(|leaf| self.number(leaf));
        match leaf {
            Some(leaf) if queue.name.is_empty() => leaf.path.to_string(),
            _ if queue.name.is_empty() => format!("#{}", queue.id),
            _ => queue.name.clone(),
        }
    }
}

fn node(r: &NodeRecord, path: ClassPath) -> Node {
    Node {
        number: r.node,
        parent: r.parent,
        path,
        weight: r.weight,
        leaf: Discipline::from_number(r.leaf).unwrap_or(Discipline::None),
        runnable: r.runnable != 0,
        served: r.served,
    }
}

fn queue(r: &QueueRecord) -> Queue {
    Queue {
        id: r.queue,
        name: name_of(&r.name),
        leaf: (r.leaf != 0).then_some(r.leaf),
        weight: r.weight,
        limits: (r.packets_max, r.bytes_max),
        held: (r.packets, r.bytes),
        users: r.users,
        counts: r.counts,
        waits: r.waits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intf::Plain;

    fn record(node: u32, parent: u32, name: &str, leaf: u32) -> NodeRecord {
        let mut r = NodeRecord::zeroed();
        (r.node, r.parent, r.leaf) = (node, parent, leaf);
        r.name[..name.len()].copy_from_slice(name.as_bytes());
        r
    }

    fn own(id: u32, leaf: u32, name: &str) -> Queue {
        let mut r = QueueRecord::zeroed();
        (r.queue, r.leaf) = (id, leaf);
        r.name[..name.len()].copy_from_slice(name.as_bytes());
        queue(&r)
    }

    #[test]
    fn paths_and_queues() {
        let records = [
            record(1, 0, "", 0),
            record(2, 1, "default", 1),
            record(3, 1, "a", 0),
            record(4, 3, "b", 2),
        ];
        let queues = vec![
            own(1, 2, ""),
            own(2, 4, ""),
            own(3, 4, "x"),
            own(4, 0, "loose"),
        ];
        let tree = Tree::new("eth0", &records, queues);
        let paths: Vec<&str> = tree.nodes.iter().map(|n| n.path.as_str()).collect();
        assert_eq!(paths, ["/", "/default", "/a", "/a/b"]);
        let queue = |name: &str| {
            let name = name.parse::<QueueName>().unwrap();
            tree.queue(&name).map(|q| q.id).map_err(|e| e.to_string())
        };
        assert_eq!(queue("/a/b"), Ok(2));
        assert_eq!(queue("x"), Ok(3));
        assert_eq!(queue("loose"), Ok(4));
        assert!(queue("/a").unwrap_err().contains("holds classes"));
        assert!(queue("/c").unwrap_err().contains("does not exist"));
        assert!(queue("y").unwrap_err().contains("does not exist"));
        assert_eq!(tree.name(&tree.queues[1]), "/a/b");
    }

    #[test]
    fn names() {
        for wrong in ["", "a b", "a/b", "a\n", &"x".repeat(64)] {
            assert!(wrong.parse::<QueueName>().is_err(), "{wrong:?}");
        }
        assert_eq!(
            "/web".parse::<QueueName>().unwrap(),
            QueueName::Own("/web".parse().unwrap())
        );
    }
}
