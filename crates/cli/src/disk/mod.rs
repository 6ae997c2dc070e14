// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux disk …`, `qlinux up disk`, `qlinux down disk`

pub mod args;
mod show;

use crate::{print, print_json, Failure, Outcome};
use args::{Disk as Words, DiskClass, DiskRun, SetDisk, UpDisk, Whom};
use qlinux::cgroup::Hierarchy;
use qlinux::disk::{
    self, Charged, Class, Deadline, Ended, Found, OfGroup, OfProcess, Refusal, Started,
};
use qlinux::ClassPath;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

pub use show::{status, status_json};

pub fn disk(words: &Words, json: bool) -> Outcome {
    match words {
        Words::Show(what) => show::show(what, json),
        Words::Set(what) => set(what, json),
        Words::Class(what) => class(what, json),
        Words::Run(what) => run(what),
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        qlinux::Error::from(refusal).into()
    }
}

pub fn up(what: &UpDisk, json: bool) -> Outcome {
    let started = disk::up(&what.device, &what.attributes.settings()?, what.arm.into())?;
    match json {
        true => print_json(&serde_json::json!({ "disk": status_json(), "found": started.found })),
        false => print(&up_words(&started)),
    }
}

fn up_words(started: &Started) -> String {
    let dev = started.disk.name();
    let advice = match started.found {
        None | Some(Found::Arm) => "",
        Some(Found::NoArm) => {
            "It says that it turns, but reads all over it tell that it has no arm; if it has: --arm yes.\n"
        }
        Some(Found::Busy) => {
            "It says that it turns, and others kept it too busy to see whether it has an arm; if it has none: --arm no.\n"
        }
        Some(Found::Unread) => {
            "It says that it turns, and could not be read to see whether it has an arm; if it has none: --arm no.\n"
        }
    };
    format!("Cello schedules {dev}.\n{advice}")
}

pub fn down(dev: &str, json: bool) -> Outcome {
    let (was, scheduler, words) = match disk::down(dev)? {
        Ended::Running(now) => (
            "up",
            Some(now.clone()),
            format!("{dev} has its scheduler of before, {now}.\n"),
        ),
        Ended::Unknown(now) => (
            "unknown",
            Some(now.clone()),
            format!("{dev} has the kernel's usual scheduler, {now}; the one of before was not noted.\n"),
        ),
        Ended::Replaced(now) => (
            "replaced",
            Some(now.clone()),
            format!("{dev} was not scheduled by Cello any more, but by {now}; what was noted is cleared.\n"),
        ),
        Ended::Gone => (
            "gone",
            None,
            format!("Disk {dev} has gone; what was noted of it is cleared.\n"),
        ),
    };
    match json {
        true => print_json(&serde_json::json!({ "was": was, "scheduler": scheduler })),
        false => print(&words),
    }
}

/// Success needs no words, unless a program reads them.
fn done(json: bool, what: impl FnOnce() -> serde_json::Value) -> Outcome {
    if json {
        return print_json(&what());
    }
    Ok(ExitCode::SUCCESS)
}

fn set(what: &SetDisk, json: bool) -> Outcome {
    let settings = what.attributes.settings()?;
    if settings == disk::Settings::default() {
        let words = "nothing to change was named: see `qlinux disk set --help`";
        return Err(Refusal::Usage(words.into()).into());
    }
    let disk = disk::set(&what.device, &settings)?;
    done(
        json,
        || serde_json::json!({ "device": disk.name(), "attributes": disk.attributes().ok() }),
    )
}

fn class(what: &DiskClass, json: bool) -> Outcome {
    match &what.whom {
        Whom::Cgroup(path) => of_cgroup(what, path, json),
        Whom::Process(pid) => of_process(what, *pid, json),
    }
}

fn of_cgroup(what: &DiskClass, path: &ClassPath, json: bool) -> Outcome {
    if what.deadline.is_some() {
        let words = "a deadline is of a process, or of a disk: name a process, or use `qlinux disk set DEV --deadline`";
        return Err(Refusal::Usage(words.into()).into());
    }
    if what.class.is_none() && what.weight.is_none() {
        return show_cgroup(path, json);
    }
    let charged = disk::set_group(path, what.class, what.weight)?;
    advise(what.class.unwrap_or(Class::None));
    if !charged.writeback {
        eprintln!(
            "qlinux: cgroup {path} has no memory controller, so what it writes through the page cache has no class: boot with \
             the kernel parameter cgroup_enable=memory, or ask the owner of the cgroups above it"
        );
    }
    let Charged { writeback } = charged;
    done(
        json,
        || serde_json::json!({ "cgroup": path, "class": what.class, "weight": what.weight, "writeback": writeback }),
    )
}

fn show_cgroup(path: &ClassPath, json: bool) -> Outcome {
    let found = OfGroup::of(path)?;
    if json {
        let (from, class) = found.inherited.clone().unzip();
        return print_json(&serde_json::json!({
            "cgroup": path, "class": found.class, "weight": found.weight,
            "effective": class.unwrap_or(Class::None), "from": from,
        }));
    }
    print(&(group_words(path, &found) + "\n"))
}

fn group_words(path: &ClassPath, found: &OfGroup) -> String {
    match &found.inherited {
        None => format!("{path}: none"),
        Some((from, class)) if from == path => {
            format!("{path}: {class}, weight {}", found.weight)
        }
        Some((from, class)) => format!(
            "{path}: {class}, as {from} above it, weight {}",
            found.weight
        ),
    }
}

/// The class of a process's cgroup, which comes before its own.
fn cgroup_of(pid: i32) -> Option<(ClassPath, Class)> {
    let fs = Hierarchy::discover().ok()?;
    disk::effective(&fs, &fs.class_of(pid).ok()?)
}

fn of_process(what: &DiskClass, pid: i32, json: bool) -> Outcome {
    if what.weight.is_some() {
        let words =
            "a weight is of a cgroup among those of its class: name a cgroup instead of a process";
        return Err(Refusal::Usage(words.into()).into());
    }
    let Some(class) = what.class else {
        if what.deadline.is_some() {
            let words = "a deadline goes with a class: name realtime";
            return Err(Refusal::Usage(words.into()).into());
        }
        return show_process(pid, json);
    };
    let wanted = OfProcess {
        class,
        deadline: what.deadline,
    };
    wanted.give(pid)?;
    advise(class);
    advise_of_cgroup(pid, class);
    done(json, || process_json(pid, &wanted, what.deadline))
}

fn process_json(pid: i32, of: &OfProcess, deadline: Option<Deadline>) -> serde_json::Value {
    let (from, above) = cgroup_of(pid).unzip();
    serde_json::json!({
        "process": pid, "class": of.class,
        // As it is kept: in steps, and never later.
        "deadline_ns": deadline.map(Deadline::as_hinted),
        "effective": above.unwrap_or(of.class), "from": from,
    })
}

fn show_process(pid: i32, json: bool) -> Outcome {
    let found = OfProcess::of(pid)?;
    if json {
        return print_json(&process_json(pid, &found, found.deadline));
    }
    let mut text = format!("process {pid}: {}", found.class);
    if let Some(deadline) = found.deadline {
        text += &format!(", deadline {deadline}");
    }
    if let Some((path, class)) = cgroup_of(pid) {
        text += &format!("; its cgroup {path} is {class}, which comes first");
    }
    print(&(text + "\n"))
}

/// A class may be given before a disk is scheduled; then it is good to know.
fn advise(class: Class) {
    if class != Class::None && !disk::any() {
        eprintln!(
            "qlinux: no disk is scheduled by Cello, so class {class} has no effect yet: start with `qlinux up disk DEV`"
        );
    }
}

fn advise_of_cgroup(pid: i32, class: Class) {
    match cgroup_of(pid) {
        Some((path, of_cgroup)) if of_cgroup != class => eprintln!(
            "qlinux: cgroup {path} is {of_cgroup}, which comes before the class of a process: change it with \
             `qlinux disk class {path} none`, or run the program elsewhere"
        ),
        _ => (),
    }
}

fn run(what: &DiskRun) -> Outcome {
    let wanted = OfProcess {
        class: what.class,
        deadline: what.deadline,
    };
    wanted.give(0)?;
    advise(what.class);
    advise_of_cgroup(std::process::id() as i32, what.class);
    let error = Command::new(&what.command[0])
        .args(&what.command[1..])
        .exec();
    let name = what.command[0].to_string_lossy();
    Err(Failure::refused(format!(
        "command '{name}' did not start: {error}; see that it is installed and executable"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_cgroups() {
        let path: ClassPath = "/a/b".parse().unwrap();
        let of = |inherited| OfGroup {
            class: Class::None,
            weight: qlinux::Weight::DEFAULT,
            inherited,
        };
        assert_eq!(group_words(&path, &of(None)), "/a/b: none");
        let own = of(Some((path.clone(), Class::Realtime)));
        assert_eq!(group_words(&path, &own), "/a/b: realtime, weight 100");
        let above = of(Some(("/a".parse().unwrap(), Class::Throughput)));
        assert_eq!(
            group_words(&path, &above),
            "/a/b: throughput, as /a above it, weight 100"
        );
    }
}
