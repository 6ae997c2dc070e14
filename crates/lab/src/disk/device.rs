// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test disk, who divides its time, and what is asked of either.

use super::{Area, Class, Record};
use crate::machine::{await_removed_cgroups, run, Side};
use crate::net::Span;
use crate::sys;
use anyhow::{bail, Context, Result};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The module, and the disk it makes.
const MODULE: &str = "testdisk";
const NAME: &str = "testdisk0";
/// Requests that its record has room for.
const KEPT: usize = 65_536;
/// Sectors of the disk: 128 GiB.
pub const SECTORS: u64 = 1 << 28;
/// One weight of the experiments in units of the kernel's, whose usual one is 100.
const UNIT: u32 = 100;

/// How long the disk takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// An arm that seeks and a disk that turns 7,200 times a minute.
    Turning,
    /// 100 µs and 500 MB/s wherever the request is.
    Flat,
    /// Eight channels that serve side by side, each of them about 0.8 ms for a read.
    Parallel,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 3] = [Model::Turning, Model::Flat, Model::Parallel];

    /// In tables.
    pub fn word(self) -> &'static str {
        match self {
            Model::Turning => "turning",
            Model::Flat => "flat",
            Model::Parallel => "parallel",
        }
    }

    /// As the module has it. A guest's processors are too slow for the faster one of those with channels.
    fn module_word(self) -> &'static str {
        match self {
            Model::Parallel => "card",
            one => one.word(),
        }
    }

    /// Below bars.
    pub fn initial(self) -> char {
        match self {
            Model::Turning => 't',
            Model::Flat => 'f',
            Model::Parallel => 'p',
        }
    }
}

/// How the disk is, and how its time is to be divided.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it takes.
    pub model: Model,
    /// Requests that it takes over before it has served them, in that order.
    pub depth: u32,
    /// Of the classes, by number: for Cello and, among cgroups of different classes, for BFQ.
    pub weights: [u32; 3],
    /// Length of a round; none: Cello's own.
    pub round: Option<Duration>,
    /// Of real-time requests, from their arrival; as Cello's own.
    pub deadline: Duration,
    /// BFQ is to go by weights only: without what it does for programs that have just begun.
    pub strict: bool,
}

impl Plan {
    /// A disk with weights of classes. One that turns takes one request at a time: whoever schedules decides on the
    /// order of all of them. A flat one takes sixty-four, one with channels as many as it has use for.
    pub fn new(model: Model, weights: [u32; 3]) -> Plan {
        Plan {
            model,
            depth: match model {
                Model::Turning => 1,
                Model::Flat => 64,
                Model::Parallel => 128,
            },
            weights,
            round: None,
            deadline: Duration::from_millis(300),
            strict: false,
        }
    }
}

/// Writes `value` to an attribute.
fn set(file: &Path, value: impl ToString) -> Result<()> {
    let value = value.to_string();
    fs::write(file, &value).with_context(|| format!("{} takes no {value}", file.display()))
}

fn get(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file);
    Ok(text
        .with_context(|| format!("{} cannot be read", file.display()))?
        .trim()
        .to_owned())
}

/// A real-time request as Cello had it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hold {
    /// CLOCK_MONOTONIC.
    pub arrived_ns: u64,
    /// Where.
    pub sector: u64,
    /// Of 512 bytes.
    pub sectors: u64,
    /// It was to be done then.
    pub deadline_ns: u64,
    /// It was done, as far as Cello knows.
    pub end_ns: u64,
    /// Cello said it would be in time,
    pub promised: bool,
    /// give or take that.
    pub error_ns: u64,
}

impl Hold {
    /// From a line of debugfs.
    fn parse(line: &str) -> Option<Hold> {
        let words: Vec<u64> = line
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        let &[arrived_ns, sector, sectors, deadline_ns, end_ns, promised, error_ns] = &words[..]
        else {
            return None;
        };
        Some(Hold {
            arrived_ns,
            sector,
            sectors,
            deadline_ns,
            end_ns,
            promised: promised != 0,
            error_ns,
        })
    }
}

/// The disk; gone when dropped.
pub struct Disk {
    side: Side,
    plan: Plan,
    path: PathBuf,
    /// In sysfs.
    queue: PathBuf,
    open: bool,
}

/// The scheduler's module, where it has one of its own.
fn scheduler_module(side: Side) -> Option<&'static str> {
    match side {
        Side::Kyber => Some("kyber-iosched"),
        Side::Bfq => Some("bfq"),
        Side::Qlinux => Some("cello"),
        _ => None,
    }
}

/// Takes a module out, as soon as nobody holds it.
fn unload(module: &str) -> Result<()> {
    let limit = sys::now_ns() + 2_000_000_000;
    loop {
        match run(&format!("rmmod {module}")) {
            Err(_) if sys::now_ns() < limit => sys::sleep(Duration::from_millis(10)),
            done => return done,
        }
    }
}

impl Disk {
    /// The disk of `plan`, on a side.
    pub fn new(side: Side, plan: &Plan) -> Result<Disk> {
        if Path::new("/sys/module").join(MODULE).exists() {
            // Left over from a lab that was killed.
            unload(MODULE)?;
        }
        // Linux 7.3's BFQ follows a pointer to nowhere (bfq_end_wr_async_queues) where a removed cgroup is still held.
        await_removed_cgroups()?;
        run(&format!(
            "modprobe {MODULE} model={} depth={} sectors={SECTORS}",
            plan.model.module_word(),
            plan.depth
        ))?;
        let mut disk = Disk {
            side,
            plan: plan.clone(),
            path: Path::new("/dev").join(NAME),
            queue: Path::new("/sys/block").join(NAME).join("queue"),
            open: true,
        };
        if let Err(error) = disk.schedule() {
            disk.close();
            return Err(error);
        }
        Ok(disk)
    }

    fn schedule(&self) -> Result<()> {
        let word = match self.side {
            Side::Unscheduled | Side::MqDeadline | Side::Kyber | Side::Bfq => self.side.to_string(),
            Side::Qlinux => "cello".to_owned(),
            other => {
                bail!("{other} divides no disk: choose none, mq-deadline, kyber, bfq or qlinux")
            }
        };
        if let Some(module) = scheduler_module(self.side) {
            run(&format!("modprobe {module}"))?;
        }
        set(&self.queue.join("scheduler"), word)?;
        if self.side != Side::Unscheduled && self.plan.depth == 1 {
            // Else twice the disk's own: of two requests nobody can choose.
            set(&self.queue.join("nr_requests"), 256)?;
        }
        if self.side == Side::Bfq && self.plan.strict {
            set(&self.queue.join("iosched/low_latency"), 0)?;
        }
        if self.side != Side::Qlinux {
            return Ok(());
        }
        for (class, weight) in Class::ALL.into_iter().zip(self.plan.weights) {
            // The last one of those that are above 0 may not go before another comes.
            if weight > 0 {
                self.set_cello(&format!("weight_{}", word_of(class)), weight)?;
            }
        }
        for (class, weight) in Class::ALL.into_iter().zip(self.plan.weights) {
            if weight == 0 {
                self.set_cello(&format!("weight_{}", word_of(class)), weight)?;
            }
        }
        if let Some(round) = self.plan.round {
            self.set_cello("round_us", round.as_micros())?;
        }
        self.set_cello("deadline_ms", self.plan.deadline.as_millis())
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Equal parts of it, one for each who uses it.
    pub fn areas(count: usize) -> Vec<Area> {
        let size = SECTORS / count as u64 / 8 * 8;
        (0..count as u64)
            .map(|index| index * size..(index + 1) * size)
            .collect()
    }

    fn set_cello(&self, name: &str, value: impl ToString) -> Result<()> {
        set(&self.queue.join("iosched").join(name), value)
    }

    /// An attribute of Cello.
    pub fn cello<T: FromStr>(&self, name: &str) -> Result<T> {
        let file = self.queue.join("iosched").join(name);
        let text = get(&file)?;
        let value = text.parse().ok();
        value.with_context(|| format!("{}: {text} is no number", file.display()))
    }

    /// The disk's time that Cello knows of for a class, in nanoseconds.
    pub fn cello_time_ns(&self, class: Class) -> Result<u64> {
        Ok(1000 * self.cello::<u64>(&format!("{}_time_us", word_of(class)))?)
    }

    /// The last real-time requests, as Cello had them.
    pub fn holds(&self) -> Result<Vec<Hold>> {
        let file = Path::new("/sys/kernel/debug/block")
            .join(NAME)
            .join("sched/realtime");
        let damaged = |line: &str| format!("{} is damaged: {line}", file.display());
        let text = get(&file)?;
        let line = |line: &str| Hold::parse(line).with_context(|| damaged(line));
        text.lines().map(line).collect()
    }

    /// Says of a cgroup what this side can be told: class and weight in it, or for BFQ one weight.
    pub fn class(&self, cgroup: &Path, class: Class, weight: u32) -> Result<()> {
        match self.side {
            Side::Qlinux => {
                set(&cgroup.join("io.cello.class"), word_of(class))?;
                set(&cgroup.join("io.cello.weight"), weight * UNIT)
            }
            Side::Bfq => {
                // Of different classes those with 0 leave all to the others, which BFQ has no word for.
                let of_class = self.plan.weights[class as usize].max(1);
                let weight = (weight * of_class * UNIT).min(1000);
                set(&cgroup.join("io.bfq.weight"), weight)
            }
            _ => Ok(()),
        }
    }

    /// Puts data on it, past any class.
    pub fn store(&self, at: u64, data: &[u8]) -> Result<()> {
        let failed = || format!("{} takes no data", self.path.display());
        let file: File = OpenOptions::new()
            .write(true)
            .open(&self.path)
            .with_context(failed)?;
        file.write_all_at(data, at).with_context(failed)?;
        file.sync_all().with_context(failed)
    }

    /// What it served in a stretch that is over.
    pub fn record(&self, span: Span) -> Result<Record> {
        let file = Path::new("/sys/kernel/debug/testdisk")
            .join(NAME)
            .join("record");
        Record::parse(&get(&file)?, span, KEPT)
    }

    /// Takes it away. Nobody uses it any more.
    pub fn close(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let modules = [Some(MODULE), scheduler_module(self.side)];
        for module in modules.into_iter().flatten() {
            if let Err(error) = unload(module) {
                eprintln!("qlinux lab: {error:#}");
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
    }
}

/// As attributes and cgroups name a class.
fn word_of(class: Class) -> &'static str {
    match class {
        Class::Interactive => "interactive",
        Class::Throughput => "throughput",
        Class::Realtime => "realtime",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_requests() {
        let hold = Hold::parse("10 2048 8 110 90 1 5").unwrap();
        assert_eq!((hold.deadline_ns, hold.end_ns, hold.error_ns), (110, 90, 5));
        assert!(hold.promised);
        assert_eq!(Hold::parse("10 2048 8 110 90 1"), None);
        assert_eq!(Hold::parse("10 2048 8 - 90 1 5"), None);
    }

    #[test]
    fn areas() {
        let areas = Disk::areas(3);
        assert!(areas.windows(2).all(|two| two[0].end == two[1].start));
        assert!(areas
            .iter()
            .all(|area| area.start % 8 == 0 && area.end <= SECTORS));
    }
}
