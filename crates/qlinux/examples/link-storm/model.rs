// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a link should be: classes, queues, rules and who goes where, all by name.

use qlinux::cgroup::Hierarchy;
use qlinux::link::{Address, Discipline, Link, Match, Ports, Rule};
use qlinux::{ClassPath, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Its queue exists, but its id was not asked for yet.
pub const ID_UNKNOWN: u32 = 0;

#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub weight: u32,
    pub leaf: Discipline,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub id: u32,
    pub weight: u32,
    pub limits: (u32, u64),
    /// Path of the class.
    pub leaf: Option<String>,
    /// Rules, cgroups and the like that send packets to it.
    pub users: u32,
}

/// All that edits change. The own queue of a class has the class's path for a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub classes: BTreeMap<String, Class>,
    pub queues: BTreeMap<String, Queue>,
    pub rules: Vec<(Said, String)>,
    pub cgroups: BTreeMap<String, String>,
    pub grants: BTreeSet<(u64, u32)>,
    pub default: String,
}

/// A rule, and what it means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    pub six: Option<bool>,
    pub ports: Option<(u16, u16)>,
    pub dscp: Option<u8>,
    pub mark: Option<u32>,
    pub tcp: bool,
}

/// Of a UDP packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub six: bool,
    pub port: u16,
    pub dscp: u8,
    pub mark: u32,
}

impl Said {
    pub fn matches(&self, packet: &Packet) -> bool {
        !self.tcp
            && self.six.is_none_or(|six| six == packet.six)
            && self
                .ports
                .is_none_or(|(least, most)| (least..=most).contains(&packet.port))
            && self.dscp.is_none_or(|dscp| dscp == packet.dscp)
            && self.mark.is_none_or(|mark| mark == packet.mark)
    }

    pub fn rule(&self) -> Rule {
        let to = self
            .six
            .map(|six| if six { "fd00::/64" } else { "10.0.0.0/24" });
        let ports = self.ports.map(|(least, most)| format!("{least}-{most}"));
        Rule {
            protocol: self.tcp.then_some(Match::Protocol(6)),
            to: to.map(|to| to.parse::<Address>().expect("an address")),
            dport: ports.map(|ports| ports.parse::<Ports>().expect("ports")),
            dscp: self.dscp.map(Match::Dscp),
            mark: self.mark.map(|mark| (mark, u32::MAX)),
            ..Rule::default()
        }
    }
}

pub fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

impl Model {
    /// A link that has just come up.
    pub fn fresh() -> Model {
        let class = |leaf| Class { weight: 100, leaf };
        let mut model = Model {
            classes: BTreeMap::from([("/".into(), class(Discipline::None))]),
            queues: BTreeMap::new(),
            rules: Vec::new(),
            cgroups: BTreeMap::new(),
            grants: BTreeSet::new(),
            default: "/default".into(),
        };
        model.add_class("/default", class(Discipline::Fifo));
        model.use_queue("/default", 1);
        model
    }

    pub fn add_class(&mut self, path: &str, class: Class) {
        if class.leaf != Discipline::None {
            self.add_queue(path, 100, None, Some(path));
        }
        self.classes.insert(path.into(), class);
    }

    pub fn add_queue(
        &mut self,
        name: &str,
        weight: u32,
        limits: Option<(u32, u64)>,
        leaf: Option<&str>,
    ) {
        let queue = Queue {
            id: ID_UNKNOWN,
            weight,
            limits: limits.unwrap_or((1000, 32 << 20)),
            leaf: leaf.map(String::from),
            users: 0,
        };
        self.queues.insert(name.into(), queue);
    }

    pub fn remove_queue(&mut self, name: &str) {
        if let Some(queue) = self.queues.remove(name) {
            self.grants.retain(|(_, id)| *id != queue.id);
        }
    }

    pub fn use_queue(&mut self, name: &str, more: i32) {
        let queue = self.queues.get_mut(name).expect("it exists");
        queue.users = queue.users.checked_add_signed(more).expect("users");
    }

    pub fn is_leaf(&self, path: &str) -> bool {
        self.classes
            .get(path)
            .is_some_and(|class| class.leaf != Discipline::None)
    }

    pub fn has_children(&self, path: &str) -> bool {
        self.classes.keys().any(|p| p != "/" && parent(p) == path)
    }

    /// Queues with names that are attached to the class.
    pub fn has_queues(&self, path: &str) -> bool {
        let attached =
            |(name, queue): (&String, &Queue)| name != path && queue.leaf.as_deref() == Some(path);
        self.queues.iter().any(attached)
    }

    /// What is here and not there.
    fn beyond(&self, other: &Model) -> String {
        let classes = self
            .classes
            .iter()
            .filter(|c| other.classes.get(c.0) != Some(c.1));
        let queues = self
            .queues
            .iter()
            .filter(|q| other.queues.get(q.0) != Some(q.1));
        let rules = self.rules.iter().filter(|r| !other.rules.contains(r));
        format!(
            "classes {:?}, queues {:?}, rules {:?}, cgroups {:?}, grants {:?}, default {}",
            classes.collect::<Vec<_>>(),
            queues.collect::<Vec<_>>(),
            rules.collect::<Vec<_>>(),
            self.cgroups,
            self.grants,
            self.default
        )
    }

    /// In which it is not like the one that was expected.
    pub fn unlike(&self, expected: &Model) -> String {
        let (is, should) = (self.beyond(expected), expected.beyond(self));
        format!("the link has {is} instead of {should}")
    }

    /// Where a packet goes: by its socket's choice, a rule, the cgroup, the default.
    pub fn queue_of(&self, packet: &Packet, chosen: Option<u32>, cgroup: &str) -> &str {
        let chosen = self
            .queues
            .iter()
            .find(|(_, queue)| Some(queue.id) == chosen);
        let mut above = Some(cgroup);
        let mut by_cgroup = None;
        while let (Some(path), None) = (above, by_cgroup) {
            by_cgroup = self.cgroups.get(path);
            above = (path != "/").then(|| parent(path));
        }
        let by_rule = self.rules.iter().find(|(rule, _)| rule.matches(packet));
        chosen
            .map(|(name, _)| name)
            .or(by_rule.map(|(_, name)| name))
            .or(by_cgroup)
            .unwrap_or(&self.default)
    }
}

/// How a link is: the model of it, and each queue's counts.
pub struct Found {
    pub model: Model,
    pub counts: BTreeMap<String, qlinux::link::intf::Counts>,
    pub held: BTreeMap<String, (u32, u64)>,
}

impl Found {
    /// `said` tells what the rules mean that are as expected.
    pub fn look(link: &Link, cgroups: &[String], said: &[(Said, String)]) -> Result<Found> {
        let tree = link.tree()?;
        let mut found = Found {
            model: Model::fresh(),
            counts: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        let model = &mut found.model;
        model.classes.clear();
        model.queues.clear();
        for node in &tree.nodes {
            let (weight, leaf) = (node.weight, node.leaf);
            let weight = if node.parent == 0 { 100 } else { weight };
            model
                .classes
                .insert(node.path.to_string(), Class { weight, leaf });
        }
        for queue in &tree.queues {
            let name = tree.name(queue);
            let leaf = queue.leaf.and_then(|leaf| tree.number(leaf));
            let is = Queue {
                id: queue.id,
                weight: queue.weight,
                limits: queue.limits,
                leaf: leaf.map(|leaf| leaf.path.to_string()),
                users: queue.users,
            };
            found.counts.insert(name.clone(), queue.counts);
            found.held.insert(name.clone(), queue.held);
            model.queues.insert(name, is);
        }
        let name = |id| tree.queue_by_id(id).map(|queue| tree.name(queue));
        model.default = name(link.running().look()?.standard).unwrap_or_default();
        model.rules = link
            .rules()?
            .into_iter()
            .enumerate()
            .map(|(i, (rule, queue))| match said.get(i) {
                Some((said, _)) if said.rule() == rule => (*said, queue),
                _ => (Said::unknown(), queue),
            })
            .collect();
        model.grants = link
            .running()
            .grants()?
            .iter()
            .map(|grant| (grant.who, grant.queue))
            .collect();
        let fs = Hierarchy::discover()?;
        let numbers: BTreeMap<u64, u32> = link.running().cgroups()?.into_iter().collect();
        for path in cgroups {
            let id = fs.id(&path.parse::<ClassPath>()?)?;
            let queue = numbers.get(&id);
            let queue = queue.and_then(|n| tree.queues.iter().find(|q| q.id % 4096 == *n));
            if let Some(queue) = queue {
                model.cgroups.insert(path.clone(), tree.name(queue));
            }
        }
        Ok(found)
    }
}

impl Said {
    /// No rule of ours.
    fn unknown() -> Said {
        Said {
            six: None,
            ports: None,
            dscp: Some(u8::MAX),
            mark: None,
            tcp: false,
        }
    }
}
