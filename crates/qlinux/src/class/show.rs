// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a class and those below it.

use super::Scheduler;
use crate::cgroup::{Hierarchy, Kind};
use crate::features::Holds;
use crate::{ClassPath, Leaf, Max, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// One class. What only the scheduler knows is `None` while H-SFQ is not
/// loaded, or where the class has no node in it.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Its path.
    pub path: ClassPath,
    /// Weight among its siblings; the root has none.
    pub weight: Option<u32>,
    /// What it may hold.
    pub kind: Kind,
    /// Scheduler of its own threads.
    pub leaf: Option<Leaf>,
    /// What it is entitled to now, in processors, and can use; 0 while nothing in it is
    /// runnable.
    pub entitled_cpus: Option<f64>,
    /// What it received during the interval, in processors.
    pub received_cpus: Option<f64>,
    /// Service of it and everything below since H-SFQ was started.
    pub served_ns: Option<u64>,
    /// Service of its own threads.
    pub own_ns: Option<u64>,
    /// Its own threads.
    pub threads: usize,
    /// Those of them that are runnable.
    pub runnable: Option<u32>,
    /// Deadlines of its own threads that passed unmet, where its leaf scheduler counts them.
    pub misses: Option<u64>,
    /// The most it may have (`cpu.max`); the root has no limit.
    pub max: Option<Max>,
    /// Whoever schedules the CPU holds it to that; `None`: there is no limit, or it is not known.
    pub max_held: Option<bool>,
    /// Of earlier quotas it may keep that much, in microseconds.
    pub burst_us: Option<u64>,
    /// It gets only what its siblings leave.
    pub idle: Option<bool>,
    /// Whoever schedules the CPU holds it to that; `None`: it is not idle, or it is not known.
    pub idle_held: Option<bool>,
    /// How often it has used up its quota.
    pub throttled: Option<u64>,
    /// For how long it was not served because of that.
    pub throttled_ns: Option<u64>,
    /// It has no node of its own: its threads are scheduled as its ancestor's.
    pub shared: bool,
}

/// The class and all below it, parents first and siblings by name, after
/// looking at what they receive for `interval`.
pub fn show<S: Scheduler>(
    fs: &Hierarchy,
    scheduler: Option<&S>,
    from: &ClassPath,
    interval: Option<Duration>,
) -> Result<Vec<Shown>> {
    fs.require(from)?;
    let Some(interval) = interval else {
        let all = snapshot(fs, scheduler, from)?;
        return Ok(all.into_iter().map(|(class, _)| class).collect());
    };
    let before: HashMap<_, _> = snapshot(fs, scheduler, from)?
        .into_iter()
        .map(|(class, at)| (class.path, (class.served_ns, at)))
        .collect();
    std::thread::sleep(interval);
    let mut after = snapshot(fs, scheduler, from)?;
    for (class, at) in &mut after {
        let (Some(now), Some((then, since))) = (class.served_ns, before.get(&class.path)) else {
            continue;
        };
        let received_ns = now.saturating_sub(then.unwrap_or(0)) as f64;
        class.received_cpus = Some(received_ns / (*at - *since).as_nanos().max(1) as f64);
    }
    Ok(after.into_iter().map(|(class, _)| class).collect())
}

/// Each class, and when it was looked at.
fn snapshot<S: Scheduler>(
    fs: &Hierarchy,
    scheduler: Option<&S>,
    from: &ClassPath,
) -> Result<Vec<(Shown, Instant)>> {
    let entitled = scheduler.map_or(Ok(HashMap::new()), Scheduler::entitled)?;
    let look = |path| one(fs, scheduler, &entitled, path).map(|class| (class, Instant::now()));
    let mut all = depth_first(fs, from)
        .into_iter()
        .map(look)
        .collect::<Result<Vec<_>>>()?;
    // One that was deleted meanwhile is not there.
    all.retain(|(class, _)| fs.exists(&class.path));
    Ok(all)
}

fn depth_first(fs: &Hierarchy, from: &ClassPath) -> Vec<ClassPath> {
    let mut waiting = vec![from.clone()];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        waiting.extend(fs.children(&path).unwrap_or_default().into_iter().rev());
        found.push(path);
    }
    found
}

fn one<S: Scheduler>(
    fs: &Hierarchy,
    scheduler: Option<&S>,
    entitled: &HashMap<String, f64>,
    path: ClassPath,
) -> Result<Shown> {
    let node = match (scheduler, fs.id(&path)) {
        (Some(scheduler), Ok(id)) => scheduler.class(id)?,
        _ => None,
    };
    let shared = node.is_some_and(|n| n.shared != 0);
    let own = node.filter(|_| !shared);
    let (max, idle) = (fs.max(&path), fs.idle(&path));
    let limited = matches!(max, Some(Max::Quota(..)));
    let held = match limited || idle == Some(true) {
        true => held_by(scheduler),
        false => None,
    };
    Ok(Shown {
        weight: fs.weight(&path).map(|w| w.get()),
        kind: fs.kind(&path),
        leaf: own.and_then(|n| Leaf::from_number(n.policy)),
        entitled_cpus: own.map(|_| entitled.get(path.as_str()).copied().unwrap_or(0.0)),
        received_cpus: None,
        served_ns: own.map(|n| n.served_ns),
        own_ns: own.map(|n| n.own_ns),
        threads: fs.threads(&path).map_or(0, |t| t.len()),
        runnable: own.map(|n| n.runnable),
        misses: own.map(|n| n.misses),
        max,
        max_held: held.filter(|_| limited).map(|held| held.limits),
        burst_us: fs.burst(&path).map(|b| b.0),
        idle,
        idle_held: held.filter(|_| idle == Some(true)).map(|held| held.idle),
        throttled: own.map(|n| n.throttled),
        throttled_ns: own.map(|n| n.throttled_ns),
        shared,
        path,
    })
}

/// What classes are held to now; `None`: that is up to another scheduler, or to one that cannot be
/// seen.
fn held_by<S: Scheduler>(scheduler: Option<&S>) -> Option<Holds> {
    match scheduler {
        Some(scheduler) => Some(Holds::of(&scheduler.lacking())),
        None if crate::cpu::other_scheduler().is_some() => None,
        None => Some(Holds::ALL),
    }
}

/// Classes with something that H-SFQ does not hold them to on this kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotHeld {
    /// They have a limit.
    pub limits: Vec<ClassPath>,
    /// They are idle.
    pub idle: Vec<ClassPath>,
}

/// Looks for them, below all classes.
pub fn not_held(fs: &Hierarchy, holds: Holds) -> NotHeld {
    if holds == Holds::ALL {
        return NotHeld::default();
    }
    let all = fs.walk(&ClassPath::root());
    let with = |has: &dyn Fn(&ClassPath) -> bool| all.iter().filter(|p| has(p)).cloned().collect();
    let limited = |path: &ClassPath| matches!(fs.max(path), Some(Max::Quota(..)));
    let idle = |path: &ClassPath| fs.idle(path) == Some(true);
    NotHeld {
        limits: with(&|path| !holds.limits && limited(path)),
        idle: with(&|path| !holds.idle && idle(path)),
    }
}
