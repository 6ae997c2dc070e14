// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a class and those below it.

use super::Scheduler;
use crate::cgroup::{Hierarchy, Kind};
use crate::{ClassPath, Leaf, Result};
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
    /// What it is entitled to now, in processors; 0 while nothing in it is runnable.
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
        return snapshot(fs, scheduler, from);
    };
    let started = Instant::now();
    let before: HashMap<_, _> = snapshot(fs, scheduler, from)?
        .into_iter()
        .map(|class| (class.path, class.served_ns))
        .collect();
    std::thread::sleep(interval);
    let elapsed_ns = started.elapsed().as_nanos() as f64;
    let mut after = snapshot(fs, scheduler, from)?;
    for class in &mut after {
        let (then, now) = (
            before.get(&class.path).copied().flatten().unwrap_or(0),
            class.served_ns,
        );
        class.received_cpus = now.map(|now| now.saturating_sub(then) as f64 / elapsed_ns);
    }
    Ok(after)
}

fn snapshot<S: Scheduler>(
    fs: &Hierarchy,
    scheduler: Option<&S>,
    from: &ClassPath,
) -> Result<Vec<Shown>> {
    let mut all = depth_first(fs, from)
        .into_iter()
        .map(|path| one(fs, scheduler, path))
        .collect::<Result<Vec<_>>>()?;
    // One that was deleted meanwhile is not there.
    all.retain(|class| fs.exists(&class.path));
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

fn one<S: Scheduler>(fs: &Hierarchy, scheduler: Option<&S>, path: ClassPath) -> Result<Shown> {
    let node = match (scheduler, fs.id(&path)) {
        (Some(scheduler), Ok(id)) => scheduler.class(id)?,
        _ => None,
    };
    let shared = node.is_some_and(|n| n.shared != 0);
    let own = node.filter(|_| !shared);
    Ok(Shown {
        weight: fs.weight(&path).map(|w| w.get()),
        kind: fs.kind(&path),
        leaf: own.and_then(|n| Leaf::from_number(n.policy)),
        entitled_cpus: own.map(|n| n.share_ppb as f64 / 1e9),
        received_cpus: None,
        served_ns: own.map(|n| n.served_ns),
        own_ns: own.map(|n| n.own_ns),
        threads: fs.threads(&path).map_or(0, |t| t.len()),
        runnable: own.map(|n| n.runnable),
        shared,
        path,
    })
}
