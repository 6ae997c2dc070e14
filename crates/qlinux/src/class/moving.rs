// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moving processes and threads.

use super::ending::{looks_open, patiently};
use super::{Classes, Scheduler};
use crate::cgroup::{words, Hierarchy, Kind};
use crate::undo::Undo;
use crate::{ClassPath, Error, Result};
use nix::errno::Errno;
use std::io;

/// What moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A process with all its threads.
    Process(i32),
    /// A single thread.
    Thread(i32),
}

impl Member {
    fn id(self) -> i32 {
        match self {
            Member::Process(id) | Member::Thread(id) => id,
        }
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Member::Process(pid) => write!(f, "process {pid}"),
            Member::Thread(tid) => write!(f, "thread {tid}"),
        }
    }
}

impl<S: Scheduler> Classes<S> {
    /// Moves all of them to the class, or none.
    pub fn move_to(&self, path: &ClassPath, members: &[Member]) -> Result<()> {
        self.fs.require(path)?;
        self.node(path)?;
        self.require_enterable(path, members)?;
        let mut undo = Undo::new();
        for &member in members {
            let places = places(&self.fs, member)?;
            let fs = &self.fs;
            // What has ended meanwhile needs no way back.
            undo.push(move || drop(put_back(fs, member, &places)));
            move_one(fs, path, member)?;
        }
        undo.keep();
        Ok(())
    }

    /// The kernel lets a process into a class with empty domain classes below
    /// it, and calls those invalid from then on.
    fn require_enterable(&self, path: &ClassPath, members: &[Member]) -> Result<()> {
        let children = self.fs.children(path)?;
        let spoiled = children
            .iter()
            .any(|child| self.fs.kind(child) == Kind::Domain);
        match members.first() {
            Some(member) if spoiled && !path.is_root() && self.fs.divides_cpu(path) => {
                let busy = io::Error::from_raw_os_error(Errno::EBUSY as i32);
                Err(explain(&self.fs, path, *member, busy))
            }
            _ => Ok(()),
        }
    }
}

/// The threads concerned, and their classes.
fn places(fs: &Hierarchy, member: Member) -> Result<Vec<(i32, ClassPath)>> {
    let id = member.id();
    let own = fs.class_of(id).map_err(|e| match (e, member) {
        (Error::NoProcess { .. }, Member::Thread(tid)) => Error::NoThread { tid },
        (e, _) => e,
    })?;
    let mut all = vec![(id, own.clone())];
    if matches!(member, Member::Process(_)) && fs.kind(&own) != Kind::Domain {
        let tasks = std::fs::read_dir(format!("/proc/{id}/task"))
            .into_iter()
            .flatten()
            .flatten();
        let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        all.extend(
            tids.filter(|tid| *tid != id)
                .filter_map(|tid: i32| Some((tid, fs.class_of(tid).ok()?))),
        );
    }
    Ok(all)
}

fn put_back(fs: &Hierarchy, member: Member, places: &[(i32, ClassPath)]) -> io::Result<()> {
    if let (Member::Process(pid), Some((_, own))) = (member, places.first()) {
        fs.move_process(&fs.domain_of(own), pid)?;
        if fs.kind(own) != Kind::Threaded && places.len() == 1 {
            return Ok(());
        }
    }
    for (tid, path) in places {
        fs.move_thread(path, *tid)?;
    }
    Ok(())
}

fn move_one(fs: &Hierarchy, path: &ClassPath, member: Member) -> Result<()> {
    let attempt = || match member {
        Member::Thread(tid) => fs.move_thread(path, tid),
        Member::Process(pid) if fs.kind(path) == Kind::Threaded => {
            // A process enters a threaded class through the domain above it.
            fs.move_process(path, pid)
                .or_else(|e| match e.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EOPNOTSUPP) => fs
                        .move_process(&fs.domain_of(path), pid)
                        .and_then(|()| fs.move_process(path, pid)),
                    _ => Err(e),
                })
        }
        Member::Process(pid) => fs.move_process(path, pid),
    };
    let only_ending = |e: &io::Error| {
        let closed = matches!(
            e.raw_os_error().map(Errno::from_raw),
            Some(Errno::EBUSY | Errno::EOPNOTSUPP)
        );
        closed && matches!(member, Member::Process(_)) && looks_open(fs, path)
    };
    patiently(attempt, only_ending).map_err(|e| explain(fs, path, member, e))
}

/// The kernel's refusals, by the rule behind them.
fn explain(fs: &Hierarchy, path: &ClassPath, member: Member, error: io::Error) -> Error {
    let refuse = |why: String| Error::NotMovable {
        what: member.to_string(),
        path: path.to_string(),
        why,
    };
    match (error.raw_os_error().map(Errno::from_raw), member) {
        (Some(Errno::ESRCH), Member::Process(pid)) => Error::NoProcess { pid },
        (Some(Errno::ESRCH), Member::Thread(tid)) => Error::NoThread { tid },
        (Some(Errno::ENOENT | Errno::ENODEV), _) => Error::NoClass { path: path.to_string() },
        (Some(Errno::EBUSY), _) => refuse(
            "it divides its CPU among the classes below it, and the kernel lets such a class hold no processes; \
             name one of those"
                .into(),
        ),
        (Some(Errno::EOPNOTSUPP), Member::Thread(tid)) => {
            let home = fs.class_of(tid).map_or_else(|_| "?".into(), |at| fs.domain_of(&at).to_string());
            refuse(format!(
                "a single thread moves only among threaded classes (`class add --threaded`) below the class of its \
                 process, here {home}; move the whole process instead"
            ))
        }
        (Some(Errno::EOPNOTSUPP), _) => {
            refuse("below a threaded class every class must be threaded; delete it and create it again".into())
        }
        (Some(Errno::EINVAL), _) => {
            refuse("it is a kernel thread or real-time thread that the kernel keeps where it is; leave it there".into())
        }
        (Some(Errno::EACCES | Errno::EPERM), _) => Error::io("moving a process to", &fs.directory(path), error),
        _ => refuse(format!("{}; see the kernel log", words(&error))),
    }
}
