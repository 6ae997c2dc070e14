// SPDX-License-Identifier: MIT OR Apache-2.0
//! Putting Cello on a disk, and taking it off.

use super::device::CELLO;
use super::note::{self, Note, ROTATIONAL};
use super::{arm, elsewhere, module, Arm, Attributes, Counts, Disk, Found, Refusal, Settings};
use crate::cgroup::Hierarchy;
use crate::undo::Undo;
use crate::{Error, Lock, Result};
use nix::errno::Errno;

/// Requests of a hardware queue that the kernel keeps for the scheduler, at least: with fewer there is
/// little to choose among. It is the kernel's own number for most disks.
const REQUESTS: u32 = 128;

/// Those of one without an arm, and of all of them: what the disk has at a time may be half of the
/// kernel's number, and who comes while all are taken waits outside of every share.
const REQUESTS_WIDE: u32 = 512;
const REQUESTS_ALL: u32 = 1024;

/// Whether a disk is scheduled by Cello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is.
    Up,
    /// It was, and somebody has chosen another scheduler since.
    Replaced,
    /// The disk has gone.
    Gone,
}

/// What `up` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The disk.
    pub disk: Disk,
    /// What was found of one that says it turns.
    pub found: Option<Found>,
}

/// What `down` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Cello; this scheduler is back.
    Running(String),
    /// Cello, put there by somebody else; this is the kernel's usual scheduler for the disk.
    Unknown(String),
    /// Another scheduler, which stays; what was noted is cleared.
    Replaced(String),
    /// No such disk any more; what was noted is cleared.
    Gone,
}

/// What is known of a disk under Cello, or that was.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Status {
    /// Its name.
    pub device: String,
    /// Whether it is scheduled.
    pub state: State,
    /// Since when, in seconds of the Unix epoch; `None`: somebody else put Cello there.
    pub since: Option<f64>,
    /// The scheduler that `down` puts back.
    pub before: Option<String>,
    /// Whether it is taken for one with an arm.
    pub arm: Option<bool>,
    /// How it is.
    #[serde(flatten)]
    pub attributes: Option<Attributes>,
    /// What it did.
    pub counts: Option<Counts>,
    /// Requests that the kernel keeps for it at most.
    pub nr_requests: Option<u32>,
}

/// Puts Cello on a disk, which reads all over it first where that is to tell whether it has an arm.
/// What is refused changes nothing.
pub fn up(name: &str, settings: &Settings, arm: Arm) -> Result<Started> {
    settings.check()?;
    let _lock = Lock::take()?;
    let disk = Disk::find(name)?;
    let before = disk.scheduler()?;
    if before == CELLO {
        return Err(Refusal::AlreadyUp {
            dev: disk.name().into(),
        }
        .into());
    }
    let found = (arm == Arm::Auto && turns(&disk) == Some(true)).then(|| arm::look(&disk));
    let note = Note::of(&disk, &before);
    note.keep(disk.name())?;
    let mut undo = Undo::new();
    undo.push(|| drop(note::forget(disk.name())));
    undo.push(|| {
        let _ = disk.set_scheduler(&note.scheduler);
        note.put_back(&disk);
    });
    match (arm, found) {
        (Arm::Yes, _) => set_turns(&disk, true)?,
        (Arm::No, _) | (_, Some(Found::NoArm)) => set_turns(&disk, false)?,
        _ => {}
    }
    switch(&disk)?;
    raise_requests(&disk);
    disk.set_attributes(settings)?;
    undo.keep();
    if let Ok(fs) = Hierarchy::discover() {
        elsewhere::tell(&fs);
    }
    Ok(Started { disk, found })
}

/// As the kernel has it, and Cello takes it when it is put there: a disk that turns has an arm.
fn turns(disk: &Disk) -> Option<bool> {
    let text = disk.text(&format!("queue/{ROTATIONAL}")).ok()?;
    Some(text != "0")
}

fn set_turns(disk: &Disk, turns: bool) -> Result<()> {
    let file = format!("queue/{ROTATIONAL}");
    disk.write(&file, u8::from(turns))
        .map_err(|e| Error::io("writing", &disk.file(&file), e))
}

/// To Cello, whose module the kernel loads, unless it was told to load none.
fn switch(disk: &Disk) -> Result<()> {
    match disk.set_scheduler(CELLO) {
        Err(Error::Disk(Refusal::NotSwitched {
            errno: Errno::EINVAL | Errno::ENOENT,
            ..
        })) => {
            module::load()?;
            disk.set_scheduler(CELLO)
        }
        result => result,
    }
}

/// As far as the kernel lets, which has so many for each of the hardware queues, unless they share.
fn raise_requests(disk: &Disk) {
    let (Some(now), Ok(tags)) = (requests(disk), disk.tags()) else {
        return;
    };
    let queues = (tags / now.max(1)).max(1);
    let wanted = match turns(disk) {
        Some(true) => REQUESTS,
        _ => (REQUESTS_ALL / queues).clamp(REQUESTS, REQUESTS_WIDE),
    };
    if now < wanted {
        let _ = disk.write("queue/nr_requests", wanted);
    }
}

fn requests(disk: &Disk) -> Option<u32> {
    disk.text("queue/nr_requests").ok()?.parse().ok()
}

/// Takes Cello off, and puts back what was there before.
pub fn down(name: &str) -> Result<Ended> {
    let _lock = Lock::take()?;
    let disk = match Disk::find(name) {
        Err(e) if e.errno() == Errno::ENODEV => return forget_gone(name, e),
        found => found?,
    };
    let dev = disk.name();
    let noted = Note::read(dev).filter(|note| note.sequence == disk.sequence());
    let now = disk.scheduler()?;
    if now != CELLO {
        if !note::all().iter().any(|name| name == dev) {
            return Err(Refusal::Down { dev: dev.into() }.into());
        }
        if let Some(was) = noted.as_ref().and_then(|note| note.files.get(ROTATIONAL)) {
            set_turns(&disk, was != "0")?;
        }
        note::forget(dev)?;
        return Ok(Ended::Replaced(now));
    }
    let Some(noted) = noted else {
        let usual = disk.usual_scheduler();
        disk.set_scheduler(usual)?;
        note::forget(dev)?;
        return Ok(Ended::Unknown(usual.into()));
    };
    disk.set_scheduler(&noted.scheduler)?;
    let failed = noted.put_back(&disk);
    note::forget(dev)?;
    match failed.is_empty() {
        true => Ok(Ended::Running(noted.scheduler)),
        false => Err(Refusal::RestoredOtherwise {
            dev: dev.into(),
            what: failed.join(", "),
        }
        .into()),
    }
}

fn forget_gone(name: &str, absent: Error) -> Result<Ended> {
    let name = name.trim_start_matches("/dev/").replace('/', "!");
    match note::all().contains(&name) {
        true => note::forget(&name).map(|()| Ended::Gone),
        false => Err(absent),
    }
}

/// Changes a disk under Cello: all that is named, or nothing.
pub fn set(name: &str, settings: &Settings) -> Result<Disk> {
    settings.check()?;
    let _lock = Lock::take()?;
    let disk = Disk::find(name)?;
    disk.require_cello()?;
    disk.set_attributes(settings)?;
    Ok(disk)
}

/// All disks under Cello, and what is left of those that were.
pub fn list() -> Vec<Status> {
    let noted = note::all();
    let disks = Disk::all();
    let mut all: Vec<Status> = disks
        .iter()
        .filter(|disk| disk.under_cello() || noted.iter().any(|name| name == disk.name()))
        .map(status)
        .collect();
    let gone = noted
        .into_iter()
        .filter(|name| !disks.iter().any(|disk| disk.name() == name));
    all.extend(gone.map(|device| Status {
        state: State::Gone,
        since: note::since(&device),
        before: Note::read(&device).map(|note| note.scheduler),
        device,
        arm: None,
        attributes: None,
        counts: None,
        nr_requests: None,
    }));
    all
}

/// Does Cello schedule any disk?
pub fn any() -> bool {
    Disk::all().iter().any(Disk::under_cello)
}

fn status(disk: &Disk) -> Status {
    let noted = Note::read(disk.name()).filter(|note| note.sequence == disk.sequence());
    let state = match disk.under_cello() {
        true => State::Up,
        false => State::Replaced,
    };
    Status {
        device: disk.name().into(),
        state,
        since: noted.as_ref().and_then(|_| note::since(disk.name())),
        before: noted.map(|note| note.scheduler),
        arm: turns(disk),
        attributes: disk.attributes().ok(),
        counts: disk.counts().ok(),
        nr_requests: requests(disk),
    }
}
