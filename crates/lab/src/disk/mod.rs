// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk whose time is divided, and what it served.
//!
//! The disk is the module `testdisk`: memory that takes as long as a disk would, and keeps a record of what it
//! served from when to when. Each class of requests has an area of the disk to itself, so that the record says
//! whose time it was.

mod device;
mod fio;
mod record;

pub use device::{Disk, Hold, Model, Plan};
pub use fio::Fio;
pub use qlinux_core::cello::Class;
pub use record::{Area, Record, Served};

use crate::machine::{Session, Side};
use crate::net::Span;
use crate::scene::{Process, Scene, WARM_UP};
use crate::sys;
use anyhow::{ensure, Result};
use std::time::Duration;

/// Of the CPU, for every class.
const CPU_WEIGHT: u32 = 100;

/// A disk with classes, and workloads on it.
pub struct DiskScene {
    /// Classes of the CPU, which are those of the disk, and workloads.
    pub scene: Scene,
    /// The disk.
    pub disk: Disk,
    tools: Vec<Process>,
}

impl DiskScene {
    /// The disk of `plan`, divided by `side`; no class yet.
    pub fn new(session: &Session, side: Side, plan: &Plan) -> Result<DiskScene> {
        let disk = Disk::new(side, plan)?;
        let scene = Scene::new(session)?;
        scene.classes().divide_disks()?;
        Ok(DiskScene {
            scene,
            disk,
            tools: Vec::new(),
        })
    }

    /// Adds a cgroup whose requests are of `class`, with its weight among those of its class.
    pub fn class(&mut self, path: &str, class: Class, weight: u32) -> Result<()> {
        self.scene.class(path, CPU_WEIGHT)?;
        self.disk
            .class(&self.scene.classes().dir(path), class, weight)
    }

    /// Starts fio in a cgroup.
    pub fn fio(&mut self, path: &str, fio: &Fio) -> Result<()> {
        let tool = fio.start(&self.scene, path, &self.disk)?;
        self.tools.push(tool);
        Ok(())
    }

    /// Waits until all have begun and the start has worn off.
    pub fn settle(&mut self) -> Result<()> {
        self.scene.begun()?;
        sys::sleep(WARM_UP);
        Ok(())
    }

    /// What the disk serves from now on, for `length`.
    pub fn record(&mut self, length: Duration) -> Result<Record> {
        let span = Span::from(sys::now_ns(), length.as_nanos() as u64);
        sys::sleep_until(span.end_ns);
        self.recorded(span)
    }

    /// What it served in a stretch that is over. fio is ended: to read the record takes its time.
    pub fn recorded(&mut self, span: Span) -> Result<Record> {
        for tool in &mut self.tools {
            ensure!(!tool.ended(), "fio ended too early: see its messages above");
        }
        self.tools.clear();
        self.disk.record(span)
    }
}

impl Drop for DiskScene {
    /// Those that use the disk go before it, and it before the cgroups whose requests it had.
    fn drop(&mut self) {
        self.tools.clear();
        self.scene.end();
        self.disk.close();
    }
}
