// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every class is entitled to, receives and waits for: one look at the
//! whole tree, compared with the look before.

use crate::cgroup::Hierarchy;
use crate::cpu::{Running, Totals, Tree};
use crate::intf::ClassRecord;
use crate::{ClassPath, Error, Leaf, Result};
use qlinux_core::readjust::{readjust, Child, CPU};
use qlinux_core::waits::Waits;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::SystemTime;

/// The root of the tree.
const ROOT: u32 = 1;
/// The leaf of the kernel's threads in the root class.
const KERNEL_LEAF: u32 = 3;

/// What a [`Row`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// A class with everything below it.
    Class,
    /// The own threads of a class that has classes below it, too.
    Own,
    /// The kernel's threads in the root class.
    Kernel,
}

/// One class. Shares and rates are means over the interval; in the first look,
/// which has none, they are `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its path; one that is deleted and still has threads ends in `(deleted)`.
    pub path: String,
    /// Whether it is the class, or threads of it.
    pub part: Part,
    /// Weight among its siblings; the root has none.
    pub weight: Option<u32>,
    /// Scheduler of the class's own threads.
    pub leaf: Option<String>,
    /// Threads.
    pub threads: u64,
    /// Those that were runnable at the look, the one that looks left out.
    pub runnable: u64,
    /// Processors it is entitled to by the weights of what was runnable then,
    /// where no class is entitled to more than its threads can use, and the kernel's
    /// threads to what they received.
    pub entitled_cpus: f64,
    /// Processors it received.
    pub received_cpus: Option<f64>,
    /// `entitled_cpus` in percent of all processors.
    pub entitled_percent: f64,
    /// `received_cpus` in percent of all processors.
    pub received_percent: Option<f64>,
    /// Times that a thread, having become runnable, was taken into service.
    pub wakeups: Option<u64>,
    /// Half of those waited for service less than this. Waits are rounded up, by a
    /// quarter at most; `None` where there were none.
    pub wakeup_p50_ns: Option<u64>,
    /// 99 in a hundred waited less.
    pub wakeup_p99_ns: Option<u64>,
    /// All waited less.
    pub wakeup_max_ns: Option<u64>,
    /// Deadlines that passed unmet; `None` where no leaf scheduler has deadlines.
    pub misses: Option<u64>,
}

/// What the scheduler did a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Services charged.
    pub quanta: f64,
    /// Running threads ended early for a waiting class.
    pub preemptions: f64,
    /// Choices of a leaf with nothing for that processor.
    pub passed_over: f64,
    /// Threads served out of turn because they waited too long.
    pub rescued: f64,
}

/// All classes at one look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// When, in seconds of the Unix epoch.
    pub time: f64,
    /// Seconds since the look before; `None` at the first.
    pub interval_s: Option<f64>,
    /// Processors online.
    pub cpus: u32,
    /// Processors that idled.
    pub idle_cpus: Option<f64>,
    /// What the scheduler did a second.
    pub per_second: Option<Rates>,
    /// Parents first, siblings by name.
    pub classes: Vec<Row>,
}

/// Processors that each class is entitled to now, by path, as [`Row::entitled_cpus`].
pub(crate) fn entitled() -> Result<HashMap<String, f64>> {
    let view = Observer::new()?.look(&ClassPath::root())?;
    let classes = view.classes.into_iter().filter(|c| c.part == Part::Class);
    Ok(classes.map(|c| (c.path, c.entitled_cpus)).collect())
}

/// What was there at one moment.
struct Look {
    tree: Tree,
    totals: Totals,
    machine: Machine,
    at: SystemTime,
}

/// Looks again and again, and compares.
pub struct Observer {
    fs: Hierarchy,
    paths: HashMap<u64, Option<String>>,
    before: Option<Look>,
}

impl Observer {
    /// One that has seen nothing yet.
    pub fn new() -> Result<Observer> {
        Ok(Observer {
            fs: Hierarchy::discover()?,
            paths: HashMap::new(),
            before: None,
        })
    }

    /// The class and all below it. Refuses when the scheduler does not run, also
    /// when it ended since the last look.
    pub fn look(&mut self, from: &ClassPath) -> Result<View> {
        // Opened anew each time: it may have been replaced.
        let running = Running::open()?;
        let look = Look {
            tree: running.tree()?,
            totals: running.totals().unwrap_or_default(),
            machine: Machine::look()?,
            at: SystemTime::now(),
        };
        self.learn_paths(&look.tree);
        let before = self
            .before
            .as_ref()
            .filter(|before| before.totals.quanta <= look.totals.quanta);
        let mut view = view(&look, before, |id| self.paths.get(&id).cloned().flatten());
        self.before = Some(look);
        if !from.is_root() {
            self.fs.require(from)?;
            let below = format!("{from}/");
            view.classes
                .retain(|row| row.path == from.as_str() || row.path.starts_with(&below));
            if view.classes.is_empty() {
                let path = from.to_string();
                return Err(Error::NotScheduled { path });
            }
        }
        Ok(view)
    }

    /// Cgroups are never renamed and their ids never used again.
    fn learn_paths(&mut self, tree: &Tree) {
        let mut known = std::mem::take(&mut self.paths);
        for (_, leaf) in &tree.leaves {
            let id = leaf.cgroup_id;
            let path = known
                .remove(&id)
                .unwrap_or_else(|| self.fs.path_of(id).map(|path| path.to_string()));
            self.paths.insert(id, path);
        }
    }
}

/// Processors online and how long they have idled, all together.
struct Machine {
    cpus: u32,
    idle_s: f64,
}

impl Machine {
    fn look() -> Result<Machine> {
        let path = Path::new("/proc/stat");
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, e))?;
        Ok(Machine::parse(&text))
    }

    /// `cpu  user nice system idle iowait …`, in hundredths, then a line a processor.
    fn parse(text: &str) -> Machine {
        const TICKS: f64 = 100.0;
        let cpus = text
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        let mut all = text.split_whitespace().skip(4);
        let mut idle = || all.next().and_then(|n| n.parse::<f64>().ok());
        Machine {
            cpus: (cpus.count() as u32).max(1),
            idle_s: (idle().unwrap_or(0.0) + idle().unwrap_or(0.0)) / TICKS,
        }
    }
}

/// A class while the view is made.
#[derive(Default)]
struct Class {
    /// Of its own threads; for the root, of the kernel's too.
    leaves: Vec<usize>,
    below: Vec<u32>,
    parent: u32,
    weight: u32,
    /// Processors that it and all below it could use, and is entitled to.
    theta: u64,
    entitled: u64,
    threads: u64,
    runnable: u64,
    /// Large, and classes are moved about.
    waits: Box<Waits>,
    misses: Option<u64>,
}

/// The sum of what there is.
fn both(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.map_or(b, |a| Some(a + b.unwrap_or(0)))
}

fn is_kernel(leaf: &ClassRecord) -> bool {
    leaf.node == ROOT && leaf.leaf == KERNEL_LEAF
}

struct Making<'a> {
    now: &'a Look,
    before: Option<&'a Look>,
    earlier: HashMap<(u64, u32), (u64, &'a ClassRecord)>,
    classes: BTreeMap<u32, Class>,
    rows: Vec<Row>,
}

fn view(now: &Look, before: Option<&Look>, path: impl Fn(u64) -> Option<String>) -> View {
    let mut making = Making {
        now,
        before,
        earlier: HashMap::new(),
        classes: BTreeMap::new(),
        rows: Vec::new(),
    };
    for (time_ns, leaf) in before.iter().flat_map(|before| &before.tree.leaves) {
        let key = (leaf.cgroup_id, leaf.leaf);
        making.earlier.insert(key, (*time_ns, leaf));
    }
    making.gather();
    making.sum(ROOT);
    making.entitle(ROOT, u64::from(now.machine.cpus) * CPU);
    making.list(ROOT, "", &path);
    let seconds = before.map(|before| {
        now.at
            .duration_since(before.at)
            .unwrap_or_default()
            .as_secs_f64()
            .max(1e-9)
    });
    let rate = |count: fn(&Totals) -> u64| {
        let earlier = before.map_or(0, |before| count(&before.totals));
        (count(&now.totals) - earlier) as f64 / seconds.unwrap_or(1.0)
    };
    View {
        time: now
            .at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64(),
        interval_s: seconds,
        cpus: now.machine.cpus,
        idle_cpus: seconds
            .zip(before)
            .map(|(s, before)| ((now.machine.idle_s - before.machine.idle_s) / s).max(0.0)),
        per_second: seconds.map(|_| Rates {
            quanta: rate(|t| t.quanta),
            preemptions: rate(|t| t.preemptions),
            passed_over: rate(|t| t.passed_over),
            rescued: rate(|t| t.rescued),
        }),
        classes: making.rows,
    }
}

impl Making<'_> {
    fn leaf(&self, at: usize) -> &ClassRecord {
        &self.now.tree.leaves[at].1
    }

    fn limit(&self) -> u64 {
        u64::from(self.now.machine.cpus) * CPU
    }

    /// Runnable threads of the leaf but the one that looks.
    fn runnable(&self, leaf: &ClassRecord) -> u64 {
        let itself = u64::from(leaf.leaf == self.now.tree.caller);
        u64::from(leaf.runnable).saturating_sub(itself)
    }

    /// Processors the leaf can use. Those of the kernel's threads weigh so much that
    /// one of them, caught at its work, would seem entitled to a processor. They use
    /// what they use, and the rest is divided.
    fn theta(&self, at: usize) -> u64 {
        let leaf = self.leaf(at);
        let theta = if is_kernel(leaf) {
            let received = self.received(at, |leaf| leaf.own_ns);
            (received.unwrap_or(0.0) * CPU as f64) as u64
        } else {
            self.runnable(leaf) * CPU
        };
        theta.min(self.limit())
    }

    /// Classes and who is below whom.
    fn gather(&mut self) {
        for at in 0..self.now.tree.leaves.len() {
            let leaf = &self.now.tree.leaves[at].1;
            let class = self.classes.entry(leaf.node).or_default();
            class.leaves.push(at);
            class.weight = leaf.weight;
            class.parent = leaf.parent;
        }
        let pairs: Vec<(u32, u32)> = self
            .classes
            .iter()
            .map(|(node, class)| (class.parent, *node))
            .collect();
        for (parent, node) in pairs {
            if let Some(parent) = self.classes.get_mut(&parent) {
                parent.below.push(node);
            }
        }
    }

    /// What is below a class, taken together.
    fn sum(&mut self, node: u32) {
        let Some(mut class) = self.classes.remove(&node) else {
            return;
        };
        for &at in &class.leaves {
            let leaf = &self.now.tree.leaves[at].1;
            let runnable = self.runnable(leaf);
            class.threads += u64::from(leaf.threads);
            class.runnable += runnable;
            if let Some(waits) = self.waits(leaf) {
                *class.waits += &waits;
            }
            class.misses = both(class.misses, self.misses(leaf));
            class.theta += self.theta(at);
        }
        for &below in &class.below {
            self.sum(below);
            let Some(child) = self.classes.get(&below) else {
                continue;
            };
            class.threads += child.threads;
            class.runnable += child.runnable;
            class.theta += child.theta;
            *class.waits += &child.waits;
            class.misses = both(class.misses, child.misses);
        }
        class.theta = class.theta.min(self.limit());
        self.classes.insert(node, class);
    }

    /// Divides what a class is entitled to among its leaves and the classes below.
    fn entitle(&mut self, node: u32, capacity: u64) {
        let Some(class) = self.classes.get_mut(&node) else {
            return;
        };
        class.entitled = capacity.min(class.theta);
        let below = class.below.clone();
        let mut children = self.children(node);
        readjust(&mut children, capacity);
        for (&below, share) in below.iter().zip(&children) {
            self.entitle(below, share.share);
        }
    }

    /// The classes below, then the leaves.
    fn children(&self, node: u32) -> Vec<Child> {
        let class = &self.classes[&node];
        let below = class.below.iter().map(|below| {
            let child = &self.classes[below];
            Child::new(child.weight.max(1), child.theta)
        });
        let leaves = class.leaves.iter().map(|&at| {
            let weight = self.leaf(at).leaf_weight.max(1);
            Child::new(weight, self.theta(at))
        });
        below.chain(leaves).collect()
    }

    /// The waits of the interval; `None` if there were none.
    fn waits(&self, leaf: &ClassRecord) -> Option<Waits> {
        self.before?;
        // A class that is new was made with all of them zero.
        let zero = [0; crate::intf::WAITS];
        let earlier = self.earlier.get(&(leaf.cgroup_id, leaf.leaf));
        let earlier = earlier.map_or(&zero, |(_, leaf)| &leaf.waits);
        (earlier != &leaf.waits).then(|| Waits::between(earlier, &leaf.waits))
    }

    fn misses(&self, leaf: &ClassRecord) -> Option<u64> {
        let policy = Leaf::from_number(leaf.policy)?;
        if self.before.is_none() || !["edf", "rm"].contains(&policy.name()) {
            return None;
        }
        let earlier = self.earlier.get(&(leaf.cgroup_id, leaf.leaf));
        Some(
            leaf.misses
                .saturating_sub(earlier.map_or(0, |(_, l)| l.misses)),
        )
    }

    /// Processors received, by the growth of one of the leaf's figures.
    fn received(&self, at: usize, served: fn(&ClassRecord) -> u64) -> Option<f64> {
        let (now_ns, leaf) = &self.now.tree.leaves[at];
        let then_ns = self.before?.tree.leaves.first()?.0;
        let (then_ns, earlier) = match self.earlier.get(&(leaf.cgroup_id, leaf.leaf)) {
            Some((then_ns, earlier)) => (*then_ns, served(earlier)),
            None => (then_ns, 0),
        };
        let received_ns = served(leaf).saturating_sub(earlier) as f64;
        Some(received_ns / now_ns.saturating_sub(then_ns).max(1) as f64)
    }

    /// The class, its own threads where that is something else, and those below.
    fn list(&mut self, node: u32, parent: &str, path: &impl Fn(u64) -> Option<String>) {
        let Some(class) = self.classes.remove(&node) else {
            return;
        };
        let Some(&first) = class.leaves.first() else {
            return;
        };
        let known = path(self.leaf(first).cgroup_id);
        let name = known.unwrap_or_else(|| format!("{parent}/{node}(deleted)"));
        let weight = (node != ROOT).then_some(class.weight);
        let received = self.received(first, |leaf| leaf.served_ns);
        let row = self.row(&name, Part::Class, weight, first);
        self.rows.push(Row {
            threads: class.threads,
            runnable: class.runnable,
            misses: class.misses,
            ..self.measured(row, class.entitled, received, &class.waits)
        });
        let below = class.below.clone();
        self.classes.insert(node, class);
        if !below.is_empty() || node == ROOT {
            self.list_leaves(node, &name);
        }
        let mut named: Vec<(Option<String>, u32)> = below
            .iter()
            .filter_map(|&node| {
                let first = *self.classes.get(&node)?.leaves.first()?;
                Some((path(self.leaf(first).cgroup_id), node))
            })
            .collect();
        named.sort();
        let parent = if node == ROOT { "" } else { name.as_str() };
        for (_, node) in named {
            self.list(node, parent, path);
        }
    }

    fn list_leaves(&mut self, node: u32, name: &str) {
        let class = &self.classes[&node];
        let mut shares = self.children(node);
        readjust(&mut shares, class.entitled);
        let leaves = class.leaves.clone();
        for (at, share) in leaves.iter().zip(&shares[class.below.len()..]) {
            let leaf = &self.now.tree.leaves[*at].1;
            let part = if is_kernel(leaf) {
                Part::Kernel
            } else {
                Part::Own
            };
            let received = self.received(*at, |leaf| leaf.own_ns);
            if leaf.threads == 0 && received.is_none_or(|cpus| cpus == 0.0) {
                continue;
            }
            let row = self.row(name, part, Some(leaf.leaf_weight), *at);
            let waits = self.waits(leaf).unwrap_or_default();
            let row = self.measured(row, share.share, received, &waits);
            self.rows.push(row);
        }
    }

    fn row(&self, path: &str, part: Part, weight: Option<u32>, at: usize) -> Row {
        let leaf = self.leaf(at);
        Row {
            path: path.to_owned(),
            part,
            weight,
            leaf: Leaf::from_number(leaf.policy).map(|leaf| leaf.name().to_owned()),
            threads: leaf.threads.into(),
            runnable: self.runnable(leaf),
            entitled_cpus: 0.0,
            received_cpus: None,
            entitled_percent: 0.0,
            received_percent: None,
            wakeups: None,
            wakeup_p50_ns: None,
            wakeup_p99_ns: None,
            wakeup_max_ns: None,
            misses: self.misses(leaf),
        }
    }

    fn measured(&self, row: Row, entitled: u64, received: Option<f64>, waits: &Waits) -> Row {
        let entitled_cpus = entitled as f64 / CPU as f64;
        let percent = 100.0 / f64::from(self.now.machine.cpus);
        Row {
            entitled_cpus,
            received_cpus: received,
            entitled_percent: entitled_cpus * percent,
            received_percent: received.map(|cpus| cpus * percent),
            wakeups: self.before.map(|_| waits.count()),
            wakeup_p50_ns: waits.quantile_ns(0.5),
            wakeup_p99_ns: waits.quantile_ns(0.99),
            wakeup_max_ns: waits.max_ns(),
            ..row
        }
    }
}

#[cfg(test)]
mod tests;
