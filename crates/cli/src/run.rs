// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux run`

use crate::args::{Limits, Run};
use crate::{Failure, Outcome};
use nix::sys::signal::{self, SigHandler, Signal};
use qlinux::cgroup::Hierarchy;
use qlinux::class::{self, Classes, Member, New, Settings};
use qlinux::link::{Link, QueueName};
use qlinux::{ClassPath, Lock};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicI32, Ordering};

pub fn run(what: &Run) -> Outcome {
    match &what.path {
        Some(path) => run_in_class(what, path),
        None => run_linked(what),
    }
}

/// Only its traffic is of a class: a cgroup below the caller's own tells it from others'.
fn run_linked(what: &Run) -> Outcome {
    let p = &what.properties;
    let nothing = p.weight.is_none() && p.leaf.is_none() && p.limits == Limits::default();
    if !nothing || what.reserve.is_some() || what.rm {
        let words = "--weight, --leaf, --reserve and the like are of a class: name its PATH, too";
        return Err(qlinux::Error::Usage(words.into()).into());
    }
    let lock = Lock::take()?;
    let fs = Hierarchy::discover()?;
    let me = std::process::id() as i32;
    let home = fs.class_of(me)?;
    let names: Vec<String> = what
        .link
        .iter()
        .map(|(dev, queue)| format!("{dev}{}", queue.to_string().replace('/', ".")))
        .collect();
    let path = home.join(&format!("link.{}", names.join("+")))?;
    let new = !fs.exists(&path);
    if new {
        fs.create(&path)?;
    }
    let entered = Attached::to(what, &path).and_then(|attached| {
        let moved = fs.move_process(&path, me);
        moved.map(|()| attached).map_err(|e| {
            Failure::refused(format!("cgroup {path} took no process: {e}; name a PATH"))
        })
    });
    drop(lock);
    let failure = match entered {
        Ok(_attached) => {
            let mut command = Command::new(&what.command[0]);
            not_started(what, command.args(&what.command[1..]).exec())
        }
        Err(failure) => failure,
    };
    let _ = fs.move_process(&home, me);
    if new {
        let _ = fs.remove(&path);
    }
    Err(failure)
}

/// The class's sockets go to the queues that were named, until this is dropped: then to those
/// of before. A command that has started leaves it behind.
struct Attached<'a> {
    path: &'a ClassPath,
    before: Vec<(&'a str, Option<QueueName>)>,
}

impl<'a> Attached<'a> {
    fn to(what: &'a Run, path: &'a ClassPath) -> Outcome<Attached<'a>> {
        let mut attached = Attached {
            path,
            before: Vec::new(),
        };
        for (dev, queue) in &what.link {
            let link = Link::open(dev)?;
            let before = link.queue_of_cgroup(path)?;
            link.attach_cgroup(queue, path)?;
            attached.before.push((dev, before));
        }
        Ok(attached)
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        for (dev, before) in self.before.drain(..).rev() {
            let _ = Link::open(dev).and_then(|link| match &before {
                Some(queue) => link.attach_cgroup(queue, self.path),
                None => link.detach_cgroup(self.path),
            });
        }
    }
}

fn not_started(what: &Run, e: std::io::Error) -> Failure {
    let name = what.command[0].to_string_lossy();
    Failure::refused(format!(
        "command '{name}' did not start: {e}; see that it is installed and executable"
    ))
}

fn run_in_class(what: &Run, path: &ClassPath) -> Outcome {
    let mut classes = Classes::lock()?;
    let (created, before) = prepare(&classes, what, path)?;
    let attached = Attached::to(what, path).inspect_err(|_| {
        undo(&classes, path, &created, before.as_ref());
    })?;
    if what.reserve.is_none() {
        classes.unlock();
    }
    let me = std::process::id() as i32;
    let home = classes.fs.class_of(me)?;
    let entered = classes.move_to(path, &[Member::Process(me)]);
    let back = |classes: &Classes, attached: Attached<'_>| {
        let _ = classes.move_to(&home, &[Member::Process(me)]);
        drop(attached);
        undo(classes, path, &created, before.as_ref());
    };
    if let Err(e) = entered {
        back(&classes, attached);
        return Err(e.into());
    }
    if what.reserve.is_some() {
        if let Err(e) = classes.reserve(me, what.reserve, what.force) {
            back(&classes, attached);
            return Err(e.into());
        }
        classes.unlock();
    }
    let mut command = Command::new(&what.command[0]);
    command.args(&what.command[1..]);
    let failed = |e| not_started(what, e);
    if !what.rm {
        // BPF descriptors are closed by exec.
        let error = command.exec();
        let _ = classes.reserve(me, None, true);
        back(&classes, attached);
        return Err(failed(error));
    }
    // The child inherits the class; this process only waits and goes home, so
    // that the class is empty when the command has ended.
    let child = command.spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(e) => {
            back(&classes, attached);
            return Err(failed(e));
        }
    };
    // What the class's sockets do ends with the class.
    std::mem::forget(attached);
    CHILD.store(child.id() as i32, Ordering::Relaxed);
    if what.reserve.is_some() {
        // Reservations are not inherited: this one was taken for the child.
        let _ = classes.reserve(me, None, true);
        classes.reserve(child.id() as i32, what.reserve, true)?;
    }
    forward_signals();
    let _ = classes.move_to(&home, &[Member::Process(me)]);
    drop(classes);
    let status = child.wait().map_err(failed)?;
    let removed = remove(&created);
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    if let Err(e) = removed {
        eprintln!("qlinux: {e}");
    }
    Ok(ExitCode::from(code as u8))
}

type Before = Settings;

/// Creates or changes the class. Returns what was created, and how an existing
/// class was before.
fn prepare(
    classes: &Classes,
    what: &Run,
    path: &ClassPath,
) -> Outcome<(Vec<ClassPath>, Option<Before>)> {
    let mut settings = what.properties.settings();
    if !classes.fs.exists(path) {
        if settings.leaf.is_none() && what.reserve.is_some() {
            settings.leaf = Some("edf".parse()?);
        }
        let new = New {
            settings,
            ..New::default()
        };
        return Ok((classes.add(path, &new)?, None));
    }
    let leaf = qlinux::Leaf::from_number(classes.node(path)?.policy);
    let before = Settings {
        weight: classes.fs.weight(path),
        leaf,
        max: classes.fs.max(path),
        burst: classes.fs.burst(path),
        idle: classes.fs.idle(path),
    };
    classes.set(path, &settings)?;
    Ok((Vec::new(), Some(before)))
}

fn undo(classes: &Classes, path: &ClassPath, created: &[ClassPath], before: Option<&Before>) {
    for path in created.iter().rev() {
        let _ = class::delete(&classes.fs, path);
    }
    if let Some(before) = before {
        let _ = classes.restore(path, before);
    }
}

fn remove(created: &[ClassPath]) -> qlinux::Result<()> {
    let _lock = Lock::take()?;
    let fs = Hierarchy::discover()?;
    created
        .iter()
        .rev()
        .try_for_each(|path| class::delete(&fs, path))
}

static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn forward(number: i32) {
    let child = nix::unistd::Pid::from_raw(CHILD.load(Ordering::Relaxed));
    let _ = signal::kill(child, Signal::try_from(number).ok());
}

/// What would end this process goes to the command, which decides. The
/// terminal's own signals reach it without us.
fn forward_signals() {
    for (signal, handler) in [
        (Signal::SIGINT, SigHandler::SigIgn),
        (Signal::SIGQUIT, SigHandler::SigIgn),
        (Signal::SIGTERM, SigHandler::Handler(forward)),
        (Signal::SIGHUP, SigHandler::Handler(forward)),
        (Signal::SIGUSR1, SigHandler::Handler(forward)),
        (Signal::SIGUSR2, SigHandler::Handler(forward)),
    ] {
        // SAFETY: the handler only loads an atomic and calls kill(2).
        let _ = unsafe { signal::signal(signal, handler) };
    }
}
