// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux run`

use crate::args::Run;
use crate::{Failure, Outcome};
use nix::sys::signal::{self, SigHandler, Signal};
use qlinux::cgroup::Hierarchy;
use qlinux::class::{self, Classes, Member, New, Settings};
use qlinux::{ClassPath, Lock};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicI32, Ordering};

pub fn run(what: &Run) -> Outcome {
    let mut classes = Classes::lock()?;
    let (created, before) = prepare(&classes, what)?;
    if what.reserve.is_none() {
        classes.unlock();
    }
    let me = std::process::id() as i32;
    let home = classes.fs.class_of(me)?;
    let entered = classes.move_to(&what.path, &[Member::Process(me)]);
    let back = |classes: &Classes| {
        let _ = classes.move_to(&home, &[Member::Process(me)]);
        undo(classes, &what.path, &created, before.as_ref());
    };
    if let Err(e) = entered {
        undo(&classes, &what.path, &created, before.as_ref());
        return Err(e.into());
    }
    if what.reserve.is_some() {
        if let Err(e) = classes.reserve(me, what.reserve, what.force) {
            back(&classes);
            return Err(e.into());
        }
        classes.unlock();
    }
    let mut command = Command::new(&what.command[0]);
    command.args(&what.command[1..]);
    let failed = |e: std::io::Error| {
        let name = what.command[0].to_string_lossy();
        Failure::refused(format!(
            "command '{name}' did not start: {e}; see that it is installed and executable"
        ))
    };
    if !what.rm {
        // BPF descriptors are closed by exec.
        let error = command.exec();
        let _ = classes.reserve(me, None, true);
        back(&classes);
        return Err(failed(error));
    }
    // The child inherits the class; this process only waits and goes home, so
    // that the class is empty when the command has ended.
    let child = command.spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(e) => {
            back(&classes);
            return Err(failed(e));
        }
    };
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
fn prepare(classes: &Classes, what: &Run) -> Outcome<(Vec<ClassPath>, Option<Before>)> {
    let mut settings = what.properties.settings();
    if !classes.fs.exists(&what.path) {
        if settings.leaf.is_none() && what.reserve.is_some() {
            settings.leaf = Some("edf".parse()?);
        }
        let new = New {
            settings,
            ..New::default()
        };
        return Ok((classes.add(&what.path, &new)?, None));
    }
    let leaf = qlinux::Leaf::from_number(classes.node(&what.path)?.policy);
    let before = Settings {
        weight: classes.fs.weight(&what.path),
        leaf,
        max: classes.fs.max(&what.path),
        burst: classes.fs.burst(&what.path),
        idle: classes.fs.idle(&what.path),
    };
    classes.set(&what.path, &settings)?;
    Ok((Vec::new(), Some(before)))
}

fn undo(classes: &Classes, path: &ClassPath, created: &[ClassPath], before: Option<&Before>) {
    for path in created.iter().rev() {
        let _ = class::delete(&classes.fs, path);
    }
    if let Some(before) = before {
        let _ = classes.set(path, before);
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
