// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on classes: cgroups with a weight, whose own threads a leaf
//! scheduler orders.

mod ending;
mod moving;
mod show;

pub use moving::Member;
pub use show::{not_held, show, NotHeld, Shown};

use crate::cgroup::{Hierarchy, Kind};
use crate::cpu::Running;
use crate::features::{Lack, IDLE, LIMITS, TIMERS};
use crate::intf::{CtlClass, CtlThread, WEIGHT_NICE};
use crate::reserve::Param;
use crate::undo::Undo;
use crate::{Burst, ClassPath, Error, Leaf, Lock, Max, Result, Weight};
use ending::patiently;
use std::collections::HashMap;

/// What classes need of the scheduler.
pub trait Scheduler {
    /// What it knows of a cgroup; `None`: it has no node.
    fn class(&self, cgroup_id: u64) -> Result<Option<CtlClass>>;
    /// Changes a cgroup's leaf scheduler.
    fn set_leaf(&self, cgroup_id: u64, leaf: Leaf) -> Result<()>;
    /// A thread's place and weight; `set` changes it first (0: no).
    fn thread(&self, tid: i32, set: u32) -> Result<CtlThread>;
    /// Changes what a thread is promised.
    fn set_param(&self, tid: i32, param: &Param) -> Result<CtlThread>;
    /// Processors that each class is entitled to now, by path.
    fn entitled(&self) -> Result<HashMap<String, f64>>;
    /// What its kernel lacks.
    fn lacking(&self) -> Vec<Lack>;
}

impl Scheduler for Running {
    fn class(&self, cgroup_id: u64) -> Result<Option<CtlClass>> {
        Running::class(self, cgroup_id)
    }

    fn set_leaf(&self, cgroup_id: u64, leaf: Leaf) -> Result<()> {
        Running::set_leaf(self, cgroup_id, leaf)
    }

    fn thread(&self, tid: i32, set: u32) -> Result<CtlThread> {
        Running::thread(self, tid, set)
    }

    fn set_param(&self, tid: i32, param: &Param) -> Result<CtlThread> {
        Running::set_param(self, tid, param)
    }

    fn entitled(&self) -> Result<HashMap<String, f64>> {
        crate::view::entitled()
    }

    fn lacking(&self) -> Vec<Lack> {
        Running::lacking(self)
    }
}

/// The classes of this machine, while H-SFQ is loaded.
pub struct Classes<S = Running> {
    /// The cgroup tree.
    pub fs: Hierarchy,
    /// The scheduler that divides by it.
    pub scheduler: S,
    _lock: Option<Lock>,
}

/// How a class is to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Its weight among its siblings.
    pub weight: Option<Weight>,
    /// The scheduler of its own threads.
    pub leaf: Option<Leaf>,
    /// The most it may have.
    pub max: Option<Max>,
    /// What it may keep of earlier quotas.
    pub burst: Option<Burst>,
    /// Whether it gets only what its siblings leave.
    pub idle: Option<bool>,
}

impl Settings {
    fn among_siblings(&self) -> bool {
        let limited = self.max.is_some() || self.burst.is_some();
        self.weight.is_some() || limited || self.idle.is_some()
    }
}

/// How a class is created.
#[derive(Clone, Copy, Debug, Default)]
pub struct New {
    /// How it is to be.
    pub settings: Settings,
    /// Create missing parents too.
    pub parents: bool,
    /// It takes single threads. Below a threaded class it is so in any case.
    pub threaded: bool,
}

/// What decides a thread's weight in its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadWeight {
    /// A weight.
    Fixed(Weight),
    /// Its nice value, as for every thread unless told otherwise.
    Nice,
}

impl std::str::FromStr for ThreadWeight {
    type Err = Error;

    fn from_str(text: &str) -> Result<ThreadWeight> {
        if text == "nice" {
            return Ok(ThreadWeight::Nice);
        }
        text.parse().map(ThreadWeight::Fixed)
    }
}

impl Classes {
    /// To look only.
    pub fn open() -> Result<Classes> {
        Ok(Classes {
            fs: Hierarchy::discover()?,
            scheduler: Running::open()?,
            _lock: None,
        })
    }

    /// To change something: waits for other commands that do.
    pub fn lock() -> Result<Classes> {
        let lock = Lock::take()?;
        Ok(Classes {
            _lock: Some(lock),
            ..Classes::open()?
        })
    }

    /// Lets other commands go on. To be called before this process enters a
    /// class, where it may not be served for long.
    pub fn unlock(&mut self) {
        self._lock = None;
    }
}

impl<S: Scheduler> Classes<S> {
    /// Creates a class. Returns what was created, parents first.
    pub fn add(&self, path: &ClassPath, new: &New) -> Result<Vec<ClassPath>> {
        if self.fs.exists(path) {
            return Err(Error::Exists {
                path: path.to_string(),
            });
        }
        let missing: Vec<_> = path
            .ancestors()
            .into_iter()
            .filter(|a| !self.fs.exists(a))
            .collect();
        if let (Some(parent), false) = (missing.last(), new.parents) {
            return Err(Error::NoParent {
                path: path.to_string(),
                parent: parent.to_string(),
            });
        }
        self.require_held(path, &new.settings)?;
        let mut undo = Undo::new();
        for parent in &missing {
            self.add_one(parent, false, &mut undo)?;
        }
        self.add_one(path, new.threaded, &mut undo)?;
        self.apply(path, &new.settings, &mut undo)?;
        undo.keep();
        Ok(missing.into_iter().chain([path.clone()]).collect())
    }

    fn add_one<'a>(&'a self, path: &ClassPath, threaded: bool, undo: &mut Undo<'a>) -> Result<()> {
        let fs = &self.fs;
        self.require_divisible(path, threaded)?;
        fs.create(path)?;
        let created = path.clone();
        undo.push(move || drop(fs.remove(&created)));
        // Before the parent divides the CPU: one with processes may do so only
        // for threaded classes.
        if threaded || ending::among_threaded(fs, path) {
            fs.make_threaded(path)?;
        }
        for ancestor in path.ancestors() {
            let divide = || fs.divide_cpu(&ancestor);
            if patiently(divide, |_| ending::looks_empty(fs, &ancestor))? {
                undo.push(move || drop(fs.undivide_cpu(&ancestor)));
            }
        }
        patiently(
            || self.require_valid(path),
            |_| ending::looks_open(fs, path),
        )?;
        self.node(path).map(drop)
    }

    /// Processes that came into a class above meanwhile make this one invalid.
    fn require_valid(&self, path: &ClassPath) -> Result<()> {
        if self.fs.kind(path) != Kind::Invalid {
            return Ok(());
        }
        let above = path.ancestors().into_iter().rev();
        let occupied = above.filter(|a| !a.is_root() && !ending::looks_empty(&self.fs, a));
        let parent = path.parent().unwrap_or_else(ClassPath::root);
        let occupied = occupied.last().unwrap_or(parent);
        Err(Error::Occupied {
            members: self.fs.members(&occupied),
            path: occupied.to_string(),
        })
    }

    /// The kernel would make a domain class below one with processes, and call
    /// it invalid: nothing could enter it.
    fn require_divisible(&self, path: &ClassPath, threaded: bool) -> Result<()> {
        let parent = path.parent().unwrap_or_else(ClassPath::root);
        let occupied = self
            .fs
            .processes(&parent)
            .is_ok_and(|pids| !pids.is_empty());
        if parent.is_root() || threaded || !occupied {
            return Ok(());
        }
        let members = self.fs.members(&parent);
        Err(Error::Occupied {
            path: parent.to_string(),
            members,
        })
    }

    /// Its node in the scheduler.
    pub fn node(&self, path: &ClassPath) -> Result<CtlClass> {
        match self.scheduler.class(self.fs.id(path)?)? {
            None => Err(Error::NotScheduled {
                path: path.to_string(),
            }),
            Some(class) if class.shared != 0 => Err(Error::TreeFull {
                path: path.to_string(),
            }),
            Some(class) => Ok(class),
        }
    }

    /// Changes a class.
    pub fn set(&self, path: &ClassPath, settings: &Settings) -> Result<()> {
        self.fs.require(path)?;
        self.require_held(path, settings)?;
        self.restore(path, settings)
    }

    /// Makes it again what it was, also what nobody holds it to.
    pub fn restore(&self, path: &ClassPath, settings: &Settings) -> Result<()> {
        let mut undo = Undo::new();
        self.apply(path, settings, &mut undo)?;
        undo.keep();
        Ok(())
    }

    /// Refuses what would be written, and by which nothing would be held.
    fn require_held(&self, path: &ClassPath, settings: &Settings) -> Result<()> {
        let limited = settings.max.is_some_and(|max| max != Max::None);
        let burst = settings.burst.is_some_and(|burst| burst.0 > 0);
        let idle = settings.idle == Some(true);
        if path.is_root() || !(limited || burst || idle) {
            return Ok(());
        }
        let lacking = self.scheduler.lacking();
        let asked = [
            (limited, "--max", [LIMITS, TIMERS]),
            (burst, "--burst", [LIMITS, TIMERS]),
            (idle, "--idle", [IDLE, IDLE]),
        ];
        for (_, option, names) in asked.into_iter().filter(|(asked, ..)| *asked) {
            if let Some(lack) = lacking.iter().find(|lack| names.contains(&lack.name)) {
                return Err(Error::NotHeld {
                    path: path.to_string(),
                    option,
                    why: lack.found.clone(),
                    remedy: lack.remedy.clone(),
                });
            }
        }
        Ok(())
    }

    fn apply<'a>(
        &'a self,
        path: &ClassPath,
        settings: &Settings,
        undo: &mut Undo<'a>,
    ) -> Result<()> {
        if path.is_root() && settings.among_siblings() {
            return Err(Error::Root {
                what: "have a weight or a limit",
            });
        }
        let before = self.node(path)?;
        if let Some(leaf) = settings.leaf {
            let id = before.cgroup_id;
            self.scheduler.set_leaf(id, leaf)?;
            undo.push(move || {
                drop(Leaf::from_number(before.policy).map(|old| self.scheduler.set_leaf(id, old)))
            });
        }
        self.limit(path, settings, undo)?;
        if let Some(weight) = settings.weight {
            self.fs.set_weight(path, weight)?;
        }
        Ok(())
    }

    /// The kernel never lets the burst be longer than the quota, so one that is in the way of a
    /// new quota goes first.
    fn limit<'a>(
        &'a self,
        path: &ClassPath,
        settings: &Settings,
        undo: &mut Undo<'a>,
    ) -> Result<()> {
        let fs = &self.fs;
        if settings.max.is_some() || settings.burst.is_some() {
            let (max, burst, at) = (fs.max(path), fs.burst(path), path.clone());
            undo.push(move || {
                let _ = fs.set_burst(&at, Burst(0));
                drop(max.map(|max| fs.set_max(&at, max)));
                drop(burst.map(|burst| fs.set_burst(&at, burst)));
            });
        }
        if let Some(max) = settings.max {
            if settings.burst.is_some() {
                fs.set_burst(path, Burst(0))?;
            }
            fs.set_max(path, max)?;
        }
        if let Some(burst) = settings.burst {
            fs.set_burst(path, burst)?;
        }
        if let Some(idle) = settings.idle {
            let (before, at) = (fs.idle(path), path.clone());
            undo.push(move || drop(before.map(|idle| fs.set_idle(&at, idle))));
            fs.set_idle(path, idle)?;
        }
        Ok(())
    }

    /// Changes the weight of one thread of a class.
    pub fn set_thread(&self, path: &ClassPath, tid: i32, weight: ThreadWeight) -> Result<()> {
        self.require_member(path, tid)?;
        let number = match weight {
            ThreadWeight::Fixed(weight) => weight.get(),
            ThreadWeight::Nice => WEIGHT_NICE,
        };
        self.scheduler.thread(tid, number).map(drop)
    }

    /// The thread must belong to the class.
    pub fn require_member(&self, path: &ClassPath, tid: i32) -> Result<()> {
        self.fs.require(path)?;
        let id = self.node(path)?.cgroup_id;
        let now = self.scheduler.thread(tid, 0)?;
        if now.cgroup_id != id {
            let at = self
                .fs
                .path_of(now.cgroup_id)
                .map_or_else(|| "?".into(), |p| p.to_string());
            return Err(Error::ThreadElsewhere {
                tid,
                at,
                path: path.to_string(),
            });
        }
        Ok(())
    }
}

/// Deletes a class without children and members, whether or not H-SFQ is loaded.
pub fn delete(fs: &Hierarchy, path: &ClassPath) -> Result<()> {
    patiently(
        || fs.remove(path),
        |e| matches!(e, Error::HasMembers { .. }) && ending::looks_empty(fs, path),
    )
}

#[cfg(test)]
mod tests;
