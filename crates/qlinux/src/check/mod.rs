// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this kernel offers, and what to do about the rest.

mod cpu;
mod disk;
mod system;

use crate::features::Lack;
use crate::{Error, Result};
use serde::Serialize;
use std::path::Path;
use system::System;

/// What is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// `up cpu`.
    Cpu,
    /// Packets of a network interface.
    Link,
    /// Requests of a disk.
    Disk,
}

/// Outcome of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// There.
    Yes,
    /// Works, with a limit.
    Limited,
    /// Missing, and needed.
    No,
    /// Could not be told.
    Unknown,
}

/// One thing that a resource needs.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// For what.
    pub resource: Resource,
    /// What.
    pub what: &'static str,
    /// Is it there?
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to install or do; empty where nothing is to be done.
    pub remedy: String,
}

/// Everything that was checked.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Release of the running kernel.
    pub kernel: String,
    /// The single checks.
    pub items: Vec<Item>,
    /// What the kernel lacks of what the schedulers use, whether or not that costs anything.
    pub lacking: Vec<Lack>,
}

impl Report {
    /// Is nothing missing that the resource needs?
    pub fn usable(&self, resource: Resource) -> bool {
        !self
            .items
            .iter()
            .any(|item| item.resource == resource && item.verdict == Verdict::No)
    }
}

/// Release of the running kernel.
pub fn release() -> String {
    System::new("/").release()
}

/// Is this a PREEMPT_RT kernel? It refuses BPF timers.
pub fn preempt_rt() -> bool {
    System::new("/").preempt_rt()
}

/// Checks this machine.
pub fn run() -> Report {
    run_on(Path::new("/"))
}

/// Checks the machine whose /proc, /sys and /boot lie below `root`.
pub fn run_on(root: &Path) -> Report {
    let system = System::new(root);
    let mut items = system.cpu();
    items.extend(system.link());
    items.extend(system.disk());
    Report {
        kernel: system.release(),
        items,
        lacking: system.features().lacking(),
    }
}

/// Refuses a machine on which H-SFQ cannot be loaded, before anything is tried.
pub fn before_cpu() -> Result<()> {
    before_cpu_on(Path::new("/"))
}

fn before_cpu_on(root: &Path) -> Result<()> {
    let system = System::new(root);
    let sched_ext = system.sched_ext();
    if sched_ext.verdict == Verdict::No {
        return Err(Error::NoSchedExt {
            release: system.release(),
            remedy: sched_ext.remedy,
        });
    }
    first_no([system.may_load(Resource::Cpu)])?;
    first_no([system.group_sched(), system.cgroup()])?;
    first_no(system.loading(Resource::Cpu))
}

/// Refuses a machine on which links cannot be scheduled.
pub fn before_link() -> Result<()> {
    before_link_on(Path::new("/"))
}

fn before_link_on(root: &Path) -> Result<()> {
    let system = System::new(root);
    if system.qdiscs().verdict == Verdict::No {
        let release = system.release();
        return Err(crate::link::Refusal::NoBpfQdisc { release }.into());
    }
    first_no([system.may_load(Resource::Link)])?;
    first_no(system.loading(Resource::Link))
}

fn first_no(items: impl IntoIterator<Item = Item>) -> Result<()> {
    let no = items.into_iter().find(|item| item.verdict == Verdict::No);
    no.map_or(Ok(()), |item| {
        Err(Error::Unable {
            why: item.found,
            remedy: item.remedy,
        })
    })
}

fn item(
    resource: Resource,
    what: &'static str,
    verdict: Verdict,
    found: impl Into<String>,
    remedy: impl Into<String>,
) -> Item {
    let remedy = match verdict {
        Verdict::Yes => String::new(),
        _ => remedy.into(),
    };
    Item {
        resource,
        what,
        verdict,
        found: found.into(),
        remedy,
    }
}

#[cfg(test)]
mod tests;
