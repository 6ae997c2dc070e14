// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on a link's classes, queues and rules, by their names. An operation that
//! fails leaves the state as it was.

use super::intf::{who, Grant, VERSION};
use super::names::{check_name, Node, Queue, QueueName, Tree};
use super::rule::Rule;
use super::running::{sid, Answer, Running};
use super::up::{by_major, find, gso_max_of, Before};
use super::{Codel, Discipline, Rate, Refusal};
use crate::cgroup::Hierarchy;
use crate::{netlink, ClassPath, Error, Lock, Result, Weight};
use nix::errno::Errno;

/// Queues that a link can have.
const QUEUES_MAX: u32 = 4095;

/// What a queue may hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Packets: 1 to 65535.
    pub packets: Option<u32>,
    /// Bytes: at least 1.
    pub bytes: Option<u64>,
}

/// Who is granted a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A user's programs.
    User(u32),
    /// Programs in a cgroup, and in those below it.
    Cgroup(ClassPath),
}

/// A link that is up, held by one caller while that changes it.
pub struct Link {
    running: Running,
    index: u32,
    _lock: Option<Lock>,
}

impl Link {
    /// To change it: others wait.
    pub fn lock(dev: &str) -> Result<Link> {
        let lock = Lock::take()?;
        Link::open_with(dev, Some(lock))
    }

    /// To look at it.
    pub fn open(dev: &str) -> Result<Link> {
        Link::open_with(dev, None)
    }

    /// The link whose queueing discipline has this major number, to change it.
    pub fn lock_major(major: u16) -> Result<Link> {
        let lock = Lock::take()?;
        Link::open_with(&by_major(major)?, Some(lock))
    }

    /// The same, to look at it.
    pub fn open_major(major: u16) -> Result<Link> {
        Link::open_with(&by_major(major)?, None)
    }

    fn open_with(dev: &str, lock: Option<Lock>) -> Result<Link> {
        let (pins, device) = find(dev)?;
        let running = Running::open(pins, dev)?;
        let found = running.constants().version;
        if found != VERSION {
            return Err(Refusal::Version {
                dev: dev.into(),
                found,
                ours: VERSION,
            }
            .into());
        }
        if running.look()?.state.qdisc == 0 {
            return Err(Refusal::Ended { dev: dev.into() }.into());
        }
        Ok(Link {
            running,
            index: device.index,
            _lock: lock,
        })
    }

    /// Name of the interface.
    pub fn device(&self) -> &str {
        &self.running.dev
    }

    /// What its control programs offer.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Classes and queues by name.
    pub fn tree(&self) -> Result<Tree> {
        Tree::look(&self.running)
    }

    /// What names a queue, or a class, all over the network namespace.
    pub fn sid(&self, id: u32) -> u32 {
        sid(self.running.constants().major, id)
    }

    fn dev(&self) -> String {
        self.running.dev.clone()
    }

    // ---- classes ---------------------------------------------------------------

    /// Creates a class; a leaf with a queue of its own.
    pub fn add_class(&self, path: &ClassPath, weight: Weight, leaf: Discipline) -> Result<()> {
        let tree = self.tree()?;
        let node = self.make_node(&tree, path, weight, leaf)?;
        if leaf == Discipline::None {
            return Ok(());
        }
        let made = self
            .running
            .createq("", Weight::DEFAULT)
            .and_then(|answer| self.made_queue(answer))
            .and_then(|queue| {
                let attached = self.running.attachq(queue, node)?;
                attached.map_err(|errno| {
                    let _ = self.running.rmq(queue);
                    self.unexpected("the queue", errno)
                })
            });
        if made.is_err() {
            let _ = self.running.rmnod(node);
        }
        made.map(drop)
    }

    /// Creates a class without queues; `hsfq_link_mknod`. Returns its number.
    pub fn make_node(
        &self,
        tree: &Tree,
        path: &ClassPath,
        weight: Weight,
        leaf: Discipline,
    ) -> Result<u32> {
        let Some(parent) = path.parent() else {
            return Err(Refusal::Root { what: "be created" }.into());
        };
        let (dev, path_text) = (self.dev(), path.to_string());
        if tree.class(path).is_ok() {
            return Err(Refusal::Exists {
                dev,
                path: path_text,
            }
            .into());
        }
        check_name(path.name())?;
        let above = tree.class(&parent).map_err(|_| Refusal::NoParent {
            dev: dev.clone(),
            path: path_text,
            parent: parent.to_string(),
        })?;
        let refuse = |errno| match errno {
            Errno::EINVAL => Refusal::IsLeaf {
                dev: dev.clone(),
                path: parent.to_string(),
            }
            .into(),
            Errno::ENOSPC | Errno::ELOOP => Refusal::TreeFull { dev: dev.clone() }.into(),
            errno => self.unexpected(path.as_str(), errno),
        };
        self.running
            .mknod(path.name(), above.number, weight, leaf)?
            .map_err(refuse)
    }

    /// Cgroups that were removed send nothing any more.
    fn sweep_cgroups(&self) -> Result<()> {
        let fs = Hierarchy::discover()?;
        for (id, _) in self.running.cgroups()? {
            if fs.is_gone(id) {
                let _ = self.running.set_cgroup(id, 0)?;
            }
        }
        Ok(())
    }

    /// Deletes a class, with its own queue.
    pub fn del_class(&self, path: &ClassPath) -> Result<()> {
        self.sweep_cgroups()?;
        let tree = self.tree()?;
        let node = tree.class(path)?;
        if path.is_root() {
            return Err(Refusal::Root { what: "be deleted" }.into());
        }
        self.check_idle(&tree, node)?;
        let own = tree.queues_of(node.number).next();
        if let Some(own) = own {
            let busy = |errno| self.class_in_use(path, &why_queue(own, errno));
            self.running.rmq(own.id)?.map_err(busy)?;
        }
        let removed = self.running.rmnod(node.number)?;
        if let (Err(_), Some(own)) = (removed, own) {
            self.bring_back(own, node.number)?;
        }
        removed.map_err(|_| self.class_in_use(path, "packets wait in it: try again"))?;
        if let Some(own) = own {
            self.forget_grants(own.id);
        }
        Ok(())
    }

    /// A class in which nothing is left but its own queue.
    fn check_idle(&self, tree: &Tree, node: &Node) -> Result<()> {
        let names = |all: Vec<String>| all.join(", ");
        let children: Vec<String> = tree
            .children(node.number)
            .map(|n| n.path.to_string())
            .collect();
        if !children.is_empty() {
            let why = format!("it has the children {}: delete them first", names(children));
            return Err(self.class_in_use(&node.path, &why).into());
        }
        let queues: Vec<String> = tree
            .queues_of(node.number)
            .filter(|q| !q.name.is_empty())
            .map(|q| q.name.clone())
            .collect();
        if !queues.is_empty() {
            let why = format!(
                "it has the queues {}: move or delete them first",
                names(queues)
            );
            return Err(self.class_in_use(&node.path, &why).into());
        }
        for own in tree.queues_of(node.number) {
            if own.users > 0 || own.held.0 > 0 {
                let why = why_queue(own, Errno::EBUSY);
                return Err(self.class_in_use(&node.path, &why).into());
            }
        }
        // Of a queue that was moved away: found before the own queue goes.
        if node.runnable {
            let why = "packets wait in it: try again when they have left";
            return Err(self.class_in_use(&node.path, why).into());
        }
        Ok(())
    }

    fn class_in_use(&self, path: &ClassPath, why: &str) -> Refusal {
        Refusal::ClassInUse {
            dev: self.dev(),
            path: path.to_string(),
            why: why.into(),
        }
    }

    /// A queue like the one that was removed.
    fn bring_back(&self, was: &Queue, leaf: u32) -> Result<()> {
        let weight = Weight::new(was.weight.into())?;
        let Ok(queue) = self.running.createq(&was.name, weight)? else {
            return Ok(());
        };
        let _ = self.running.set_queue(queue, None, Some(was.limits))?;
        let _ = self.running.attachq(queue, leaf)?;
        Ok(())
    }

    /// Changes a class's weight.
    pub fn set_class(&self, path: &ClassPath, weight: Weight) -> Result<()> {
        let tree = self.tree()?;
        let node = tree.class(path)?;
        if path.is_root() {
            return Err(Refusal::Root {
                what: "have a weight",
            }
            .into());
        }
        self.running
            .set_weight(node.number, weight)?
            .map(drop)
            .map_err(|errno| self.unexpected(path.as_str(), errno))
    }

    // ---- queues ----------------------------------------------------------------

    /// Creates a queue, and attaches it if a leaf is named. Returns its id.
    pub fn add_queue(
        &self,
        name: &str,
        weight: Weight,
        limits: Limits,
        leaf: Option<&ClassPath>,
    ) -> Result<u32> {
        check_name(name)?;
        check_limits(limits)?;
        let tree = self.tree()?;
        let named = QueueName::Named(name.into());
        if tree.queue(&named).is_ok() {
            return Err(Refusal::QueueExists {
                dev: self.dev(),
                name: name.into(),
            }
            .into());
        }
        let leaf = leaf.map(|path| tree.leaf(path)).transpose()?;
        let queue = self.made_queue(self.running.createq(name, weight)?)?;
        let finish = || {
            self.limit(queue, limits)?;
            match leaf {
                Some(leaf) => self.attach_to(queue, leaf),
                None => Ok(()),
            }
        };
        finish().inspect_err(|_| drop(self.running.rmq(queue)))?;
        Ok(queue)
    }

    fn made_queue(&self, answer: Answer<u32>) -> Result<u32> {
        answer.map_err(|errno| match errno {
            Errno::ENOSPC => Refusal::QueuesFull {
                dev: self.dev(),
                max: QUEUES_MAX,
            }
            .into(),
            errno => self.unexpected("the queue", errno),
        })
    }

    fn limit(&self, queue: u32, limits: Limits) -> Result<()> {
        if limits.packets.is_none() && limits.bytes.is_none() {
            return Ok(());
        }
        let tree = self.tree()?;
        let now = tree
            .queue_by_id(queue)
            .map_or((1000, 32 << 20), |q| q.limits);
        let wanted = (
            limits.packets.unwrap_or(now.0),
            limits.bytes.unwrap_or(now.1),
        );
        self.running
            .set_queue(queue, None, Some(wanted))?
            .map(drop)
            .map_err(|errno| self.unexpected("the queue", errno))
    }

    fn attach_to(&self, queue: u32, leaf: &Node) -> Result<()> {
        self.running
            .attachq(queue, leaf.number)?
            .map(drop)
            .map_err(|errno| self.unexpected(leaf.path.as_str(), errno))
    }

    /// Changes a queue's weight and limits.
    pub fn set_queue(
        &self,
        name: &QueueName,
        weight: Option<Weight>,
        limits: Limits,
    ) -> Result<()> {
        check_limits(limits)?;
        let id = self.tree()?.queue(name)?.id;
        self.limit(id, limits)?;
        if weight.is_some() {
            self.running
                .set_queue(id, weight, None)?
                .map_err(|errno| self.unexpected("the queue", errno))?;
        }
        Ok(())
    }

    /// `hsfq_link_attachq`: attaches a queue that is attached nowhere.
    pub fn attach_queue(&self, name: &QueueName, path: &ClassPath) -> Result<()> {
        let tree = self.tree()?;
        let queue = tree.queue(name)?;
        let leaf = tree.leaf(path)?;
        if queue.leaf.is_some() {
            let why = format!(
                "is attached already: move it with `qlinux link queue move {} {name} {path}`",
                self.dev()
            );
            return Err(self.attached(name, why).into());
        }
        self.attach_to(queue.id, leaf)
    }

    /// `hsfq_link_moveq`: moves a queue to another leaf; what waits in it leaves from where
    /// it is.
    pub fn move_queue(&self, name: &QueueName, path: &ClassPath) -> Result<()> {
        let tree = self.tree()?;
        let queue = tree.queue(name)?;
        let leaf = tree.leaf(path)?;
        self.check_own(queue, name)?;
        if queue.leaf.is_none() {
            let why = format!(
                "is attached nowhere: attach it with `qlinux link queue attach {} {name} {path}`",
                self.dev()
            );
            return Err(self.attached(name, why).into());
        }
        self.attach_to(queue.id, leaf)
    }

    fn attached(&self, name: &QueueName, why: String) -> Refusal {
        Refusal::Attached {
            dev: self.dev(),
            name: name.to_string(),
            why,
        }
    }

    fn check_own(&self, queue: &Queue, name: &QueueName) -> Result<()> {
        if queue.name.is_empty() {
            return Err(Refusal::OwnQueue {
                dev: self.dev(),
                name: name.to_string(),
            }
            .into());
        }
        Ok(())
    }

    /// Deletes a queue in which nothing waits and to which nothing sends.
    pub fn del_queue(&self, name: &QueueName) -> Result<()> {
        self.sweep_cgroups()?;
        let tree = self.tree()?;
        let queue = tree.queue(name)?;
        self.check_own(queue, name)?;
        let refuse = |errno| Refusal::QueueInUse {
            dev: self.dev(),
            name: name.to_string(),
            why: why_queue(queue, errno),
        };
        self.running.rmq(queue.id)?.map_err(refuse)?;
        self.forget_grants(queue.id);
        Ok(())
    }

    fn forget_grants(&self, queue: u32) {
        for grant in self.running.grants().unwrap_or_default() {
            if grant.queue == queue {
                let _ = self.running.revoke(grant);
            }
        }
    }

    // ---- the link ----------------------------------------------------------------

    /// Changes what is named.
    pub fn set(
        &self,
        rate: Option<Rate>,
        overhead: Option<u32>,
        least: Option<u32>,
        codel: Option<Codel>,
    ) -> Result<()> {
        if rate.is_some() || overhead.is_some() || least.is_some() {
            let now = self.running.look()?;
            let (overhead, least) = (overhead.unwrap_or(now.overhead), least.unwrap_or(now.least));
            check_frame(overhead, least)?;
            let then = Rate::from_bytes(now.rate);
            let rate = rate.unwrap_or(then);
            // What the kernel may refuse comes first.
            self.follow_rate(then, rate)?;
            self.running.set_rate(rate, overhead, least)?;
        }
        codel.map_or(Ok(()), |codel| self.running.set_codel(codel))
    }

    /// Packets that are segmented behind the scheduler are bounded by the rate until something else is said.
    fn follow_rate(&self, then: Rate, rate: Rate) -> Result<()> {
        let device = netlink::device_by_index(self.index)?;
        let before = Before::from_bytes(&self.running.before()?)?.device(&device);
        let of = |rate| match gso_max_of(rate, device.mtu) {
            Some(bytes) => before.with_gso_at_most(bytes),
            None => before.clone(),
        };
        match device.same_gso(&of(then)) {
            true => netlink::bound_gso_as(&of(rate)),
            false => Ok(()),
        }
    }

    /// The largest packet that is segmented behind the scheduler.
    pub fn set_gso_max(&self, bytes: u32) -> Result<()> {
        netlink::set_gso_max(self.index, bytes)
    }

    /// The queue of packets that nothing else is said of.
    pub fn set_default(&self, name: &QueueName) -> Result<()> {
        let id = self.tree()?.queue(name)?.id;
        self.running.set_default(id)
    }

    // ---- who goes where ------------------------------------------------------------

    /// Sockets of the cgroup, and of those below it, go to the queue.
    pub fn attach_cgroup(&self, name: &QueueName, cgroup: &ClassPath) -> Result<()> {
        let fs = Hierarchy::discover()?;
        fs.require(cgroup)?;
        let id = self.tree()?.queue(name)?.id;
        let cgroup_id = fs.id(cgroup)?;
        let mut attached = self.running.set_cgroup(cgroup_id, id)?;
        if attached == Err(Errno::E2BIG) {
            self.sweep_cgroups()?;
            attached = self.running.set_cgroup(cgroup_id, id)?;
        }
        attached.map_err(|errno| match errno {
            Errno::E2BIG => Refusal::CgroupsFull { dev: self.dev() }.into(),
            errno => self.unexpected(cgroup.as_str(), errno),
        })
    }

    /// The queue that sockets of the cgroup itself are sent to.
    pub fn queue_of_cgroup(&self, cgroup: &ClassPath) -> Result<Option<QueueName>> {
        let id = Hierarchy::discover()?.id(cgroup)?;
        let cgroups = self.running.cgroups()?;
        let number = cgroups.iter().find(|(of, _)| *of == id).map(|(_, n)| *n);
        let tree = self.tree()?;
        let queue = number.and_then(|number| tree.queue_by_number(number));
        Ok(queue.and_then(|queue| tree.name(queue).parse().ok()))
    }

    /// They do not any more.
    pub fn detach_cgroup(&self, cgroup: &ClassPath) -> Result<()> {
        let fs = Hierarchy::discover()?;
        fs.require(cgroup)?;
        self.running
            .set_cgroup(fs.id(cgroup)?, 0)?
            .map_err(|errno| match errno {
                Errno::ENOENT => Refusal::NoCgroup {
                    dev: self.dev(),
                    path: cgroup.to_string(),
                }
                .into(),
                errno => self.unexpected(cgroup.as_str(), errno),
            })
    }

    /// Packets that match go to the queue. Places are counted from 1; none: the last.
    pub fn add_rule(&self, at: Option<u32>, name: &QueueName, rule: &Rule) -> Result<()> {
        let tree = self.tree()?;
        let id = tree.queue(name)?.id;
        let at = at.map_or(super::RULES_LAST, |at| at.max(1) - 1);
        self.running.add_rule(at, rule.record(id))
    }

    /// Deletes the rule at that place, from 1.
    pub fn del_rule(&self, at: u32) -> Result<()> {
        let refuse = |_| Refusal::NoRule {
            dev: self.dev(),
            at,
        };
        let place = at.checked_sub(1).ok_or_else(|| refuse(Errno::ENOENT))?;
        Ok(self.running.del_rule(place)?.map_err(refuse)?)
    }

    /// All rules, and the names of their queues.
    pub fn rules(&self) -> Result<Vec<(Rule, String)>> {
        let tree = self.tree()?;
        let name = |id: u16| {
            let queue = tree.queue_by_id(id.into());
            queue.map_or_else(|| format!("#{id}"), |q| tree.name(q))
        };
        let rules = self.running.rules()?;
        Ok(rules
            .iter()
            .map(|r| (Rule::from_record(r), name(r.queue)))
            .collect())
    }

    fn grant_of(&self, name: &QueueName, whom: &Who) -> Result<Grant> {
        let queue = self.tree()?.queue(name)?.id;
        let (kind, who) = match whom {
            Who::User(uid) => (who::UID, u64::from(*uid)),
            Who::Cgroup(path) => {
                let fs = Hierarchy::discover()?;
                fs.require(path)?;
                (who::CGROUP, fs.id(path)?)
            }
        };
        Ok(Grant { who, kind, queue })
    }

    /// Lets somebody's programs attach sockets to the queue.
    pub fn grant(&self, name: &QueueName, whom: &Who) -> Result<()> {
        self.running.grant(self.grant_of(name, whom)?)
    }

    /// Not any more; sockets that are attached stay.
    pub fn revoke(&self, name: &QueueName, whom: &Who) -> Result<()> {
        let grant = self.grant_of(name, whom)?;
        if self.running.revoke(grant)? {
            return Ok(());
        }
        Err(Refusal::NoGrant {
            dev: self.dev(),
            who: whom.to_string(),
            name: name.to_string(),
        }
        .into())
    }

    fn unexpected(&self, object: &str, errno: Errno) -> Error {
        Error::Ctl {
            program: "hsfq_link_ctl",
            object: format!("{object} of {}", self.dev()),
            errno,
        }
    }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Who::User(uid) => write!(f, "user {uid}"),
            Who::Cgroup(path) => write!(f, "cgroup {path}"),
        }
    }
}

/// What a packet may take on the line besides itself, and at least, in bytes.
pub fn check_frame(overhead: u32, least: u32) -> Result<()> {
    let refuse = |what, given: u32, range| {
        Err(Refusal::Range {
            what,
            given: given.to_string(),
            range,
        }
        .into())
    };
    match (overhead, least) {
        (1025.., _) => refuse("overhead", overhead, "0 to 1024 bytes"),
        (_, 2049..) => refuse("least packet size", least, "0 to 2048 bytes"),
        _ => Ok(()),
    }
}

fn check_limits(limits: Limits) -> Result<()> {
    let refuse = |what, given: u64, range| Refusal::Range {
        what,
        given: given.to_string(),
        range,
    };
    match limits {
        Limits {
            packets: Some(n @ (0 | 65536..)),
            ..
        } => Err(refuse("limit in packets", n.into(), "1 to 65535").into()),
        Limits { bytes: Some(0), .. } => Err(refuse("limit in bytes", 0, "at least 1").into()),
        _ => Ok(()),
    }
}

/// Why a queue cannot go.
fn why_queue(queue: &Queue, errno: Errno) -> String {
    match (errno, queue.users) {
        (Errno::EBUSY, 0) => "packets wait in it: try again when they have left".into(),
        (Errno::EBUSY, 1) => {
            "a rule or cgroup sends packets to it, or it is the default: change that first".into()
        }
        (Errno::EBUSY, n) => {
            format!("{n} rules and cgroups send packets to it: change those first")
        }
        (errno, _) => errno.desc().into(),
    }
}
