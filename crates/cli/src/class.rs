// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux class …`

use crate::args::{Add, Class, Move, Set, Show};
use crate::table::{branches, columns};
use crate::{print, print_json, Failure, Outcome};
use qlinux::cgroup::{Hierarchy, Kind};
use qlinux::class::{self, Classes, Member, New, Settings, Shown, ThreadWeight};
use qlinux::cpu::Running;
use qlinux::reserve::ShownThread;
use qlinux::{ClassPath, Error, Lock, Max};
use std::process::ExitCode;

pub fn class(command: &Class, json: bool) -> Outcome {
    match command {
        Class::Add(what) => add(what, json),
        Class::Del { paths } => del(paths, json),
        Class::Set(what) => set(what, json),
        Class::Show(what) => show(what, json),
        Class::Move(what) => move_members(what, json),
        Class::Join { path } => {
            let shell = nix::unistd::getppid().as_raw();
            Classes::lock()?.move_to(path, &[Member::Process(shell)])?;
            done(
                json,
                || serde_json::json!({ "class": path, "processes": [shell] }),
            )
        }
    }
}

/// Success needs no words, unless a program reads them.
fn done(json: bool, what: impl FnOnce() -> serde_json::Value) -> Outcome {
    if json {
        return print_json(&what());
    }
    Ok(ExitCode::SUCCESS)
}

fn add(what: &Add, json: bool) -> Outcome {
    let settings = what.properties.settings();
    let new = New {
        settings,
        parents: what.parents,
        threaded: what.threaded,
    };
    let created = Classes::lock()?.add(&what.path, &new)?;
    done(json, || serde_json::json!({ "created": created }))
}

/// All of them or, as far as the kernel allows, none: what cannot be deleted
/// is told before anything is.
fn del(paths: &[ClassPath], json: bool) -> Outcome {
    let _lock = Lock::take()?;
    let fs = Hierarchy::discover()?;
    for path in paths {
        fs.require(path)?;
        let stays = |child: &ClassPath| !paths.contains(child);
        let busy =
            fs.threads(path).is_ok_and(|t| !t.is_empty()) || fs.children(path)?.iter().any(stays);
        if busy && !path.is_root() {
            return Err(fs.why_busy(path).into());
        }
    }
    let mut deepest_first: Vec<_> = paths.iter().collect();
    deepest_first.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    deepest_first.dedup();
    for path in &deepest_first {
        class::delete(&fs, path)?;
    }
    done(json, || serde_json::json!({ "deleted": deepest_first }))
}

fn set(what: &Set, json: bool) -> Outcome {
    if let (Some(tid), Some(priority)) = (what.thread, what.priority) {
        Classes::lock()?.set_priority(&what.path, tid, priority)?;
        return done(json, || serde_json::json!({ "class": what.path }));
    }
    let limits = what.limits;
    let limited = limits.max.is_some() || limits.burst.is_some() || limits.idle.is_some();
    if limited && what.thread.is_some() {
        return Err(Error::Usage(
            "--max, --burst and --idle are for classes: leave --thread out".into(),
        )
        .into());
    }
    match (what.thread, what.weight, what.leaf) {
        (Some(tid), Some(weight), _) => Classes::lock()?.set_thread(&what.path, tid, weight)?,
        (Some(_), None, _) | (None, None, None) if !limited => {
            return Err(Error::Usage(
                "nothing to change was named: give --weight, --leaf, --max, --burst or --idle"
                    .into(),
            )
            .into());
        }
        (None, Some(ThreadWeight::Nice), _) => {
            return Err(
                Error::Usage("weight nice is for single threads: add --thread TID".into()).into(),
            );
        }
        (_, weight, leaf) => {
            let weight = weight.and_then(|w| match w {
                ThreadWeight::Fixed(weight) => Some(weight),
                ThreadWeight::Nice => None,
            });
            let settings = Settings {
                weight,
                leaf,
                max: limits.max,
                burst: limits.burst,
                idle: limits.idle,
            };
            Classes::lock()?.set(&what.path, &settings)?;
        }
    }
    done(json, || serde_json::json!({ "class": what.path }))
}

fn move_members(what: &Move, json: bool) -> Outcome {
    let processes = what.processes.iter().copied().map(Member::Process);
    let members: Vec<_> = processes
        .chain(what.threads.iter().copied().map(Member::Thread))
        .collect();
    if let Some(wrong) = what
        .processes
        .iter()
        .chain(&what.threads)
        .find(|id| **id < 1)
    {
        return Err(Error::Usage(format!(
            "{wrong} is no process or thread: give a number from 1"
        ))
        .into());
    }
    Classes::lock()?.move_to(&what.path, &members)?;
    done(
        json,
        || serde_json::json!({ "class": what.path, "processes": what.processes, "threads": what.threads }),
    )
}

fn show(what: &Show, json: bool) -> Outcome {
    // Classes are there without the scheduler; then little is known of them.
    let running = match Running::open() {
        Ok(running) => Some(running),
        Err(
            Error::NotLoaded
            | Error::NoSchedExt { .. }
            | Error::Ended { .. }
            | Error::Privilege { .. },
        ) => None,
        Err(e) => return Err(e.into()),
    };
    let fs = Hierarchy::discover()?;
    let classes = class::show(&fs, running.as_ref(), &what.path, what.interval)?;
    let threads = match what.threads && running.is_some() {
        true => own_threads(&classes)?,
        false => Vec::new(),
    };
    if json {
        let mut shown = serde_json::json!({ "loaded": running.is_some(), "classes": classes });
        if what.threads {
            shown["threads"] = serde_json::json!(threads);
        }
        return print_json(&shown);
    }
    if classes.is_empty() {
        return Err(Failure::from(Error::NoClass {
            path: what.path.to_string(),
        }));
    }
    let mut text = table(&classes, what.interval.is_some());
    if !threads.is_empty() {
        text += &format!("\n{}", columns(&thread_rows(&threads), &[0, 2]));
    }
    if running.is_none() {
        text +=
            "H-SFQ is not loaded, or not to be seen without privilege: `qlinux status` tells.\n";
    }
    print(&text)
}

const NONE: &str = "-";
/// Behind what nobody holds a class to.
const NOT_HELD: &str = " (not held)";

fn table(classes: &[Shown], received: bool) -> String {
    let limited = classes
        .iter()
        .any(|c| matches!(c.max, Some(Max::Quota(..))));
    let mut rows = vec![heading(received, limited)];
    let labels = labels(classes);
    rows.extend(
        classes
            .iter()
            .zip(labels)
            .map(|(class, label)| row(class, label, received, limited)),
    );
    columns(&rows, &[0, 2])
}

#[derive(serde::Serialize)]
struct OwnThread {
    class: ClassPath,
    leaf: Option<qlinux::Leaf>,
    #[serde(flatten)]
    thread: ShownThread,
}

fn own_threads(classes: &[Shown]) -> Outcome<Vec<OwnThread>> {
    let opened = Classes::open()?;
    let mut all = Vec::new();
    for class in classes.iter().filter(|c| c.threads > 0) {
        let of_class = |thread| OwnThread {
            class: class.path.clone(),
            leaf: class.leaf,
            thread,
        };
        all.extend(opened.threads(&class.path)?.into_iter().map(of_class));
    }
    Ok(all)
}

fn thread_rows(threads: &[OwnThread]) -> Vec<Vec<String>> {
    let heading = ["CLASS", "TID", "NAME", "PROMISED", "MISSES", "SERVED"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    for OwnThread {
        class,
        leaf,
        thread,
    } in threads
    {
        let or_none = |cell: Option<String>| cell.unwrap_or_else(|| NONE.into());
        let deadlines = matches!(leaf.map(|l| l.name()), Some("edf" | "rm"));
        let promised = match leaf.map(|l| l.name()) {
            Some("edf" | "rm") => thread.reservation.map(|r| r.to_string()),
            Some("svr4") => Some(thread.priority.to_string()),
            Some("ts" | "sfq") => Some(format!("weight {}", thread.weight)),
            _ => None,
        };
        rows.push(vec![
            class.to_string(),
            thread.tid.to_string(),
            thread.name.clone(),
            or_none(promised),
            or_none(deadlines.then(|| thread.misses.to_string())),
            format!("{:.3} s", thread.served_ns as f64 / 1e9),
        ]);
    }
    rows
}

fn heading(received: bool, limited: bool) -> Vec<String> {
    let mut row = vec!["CLASS", "WEIGHT", "LEAF", "ENTITLED"];
    if received {
        row.push("RECEIVED");
    }
    row.extend(["SERVED", "THREADS", "RUNNABLE"]);
    if limited {
        row.extend(["MAX", "THROTTLED"]);
    }
    row.into_iter().map(String::from).collect()
}

fn row(class: &Shown, label: String, received: bool, limited: bool) -> Vec<String> {
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| NONE.into());
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let leaf = class.leaf.map(|leaf| leaf.name().to_string());
    let mut row = vec![
        label,
        or_none(weight(class)),
        or_none(if class.shared {
            Some("(shared)".into())
        } else {
            leaf
        }),
        or_none(
            class
                .entitled_cpus
                .filter(|share| *share > 0.0)
                .map(percent),
        ),
    ];
    if received {
        row.push(or_none(class.received_cpus.map(percent)));
    }
    row.push(or_none(
        class
            .served_ns
            .map(|ns| format!("{:.3} s", ns as f64 / 1e9)),
    ));
    row.push(class.threads.to_string());
    row.push(or_none(class.runnable.map(|n| n.to_string())));
    if limited {
        let max = class.max.filter(|m| *m != Max::None);
        let held = if class.max_held == Some(false) {
            NOT_HELD
        } else {
            ""
        };
        row.push(or_none(max.map(|m| format!("{m}{held}"))));
        let throttled = class.throttled_ns.filter(|_| max.is_some());
        row.push(or_none(
            throttled.map(|ns| format!("{:.3} s", ns as f64 / 1e9)),
        ));
    }
    row
}

/// A kernel that does not tell H-SFQ of idle classes has them share by weight.
fn weight(class: &Shown) -> Option<String> {
    match (class.idle, class.idle_held) {
        (Some(true), Some(false)) => Some(format!("idle{NOT_HELD}")),
        (Some(true), _) => Some("idle".into()),
        _ => class.weight.map(|w| w.to_string()),
    }
}

/// Names as branches of a tree. The order is depth first.
fn labels(classes: &[Shown]) -> Vec<String> {
    let depth = |class: &Shown| class.path.components().count();
    let top = classes.first().map_or(0, depth);
    let names: Vec<_> = classes
        .iter()
        .enumerate()
        .map(|(at, class)| {
            let name = match at {
                0 => class.path.as_str(),
                _ => class.path.name(),
            };
            let kind = match class.kind {
                Kind::Threaded => " (threaded)",
                _ => "",
            };
            (depth(class) - top, format!("{name}{kind}"))
        })
        .collect();
    branches(&names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> Shown {
        Shown {
            path: path.parse().unwrap(),
            weight: Some(100),
            kind: Kind::Domain,
            leaf: qlinux::Leaf::from_number(0),
            entitled_cpus: Some(0.25),
            received_cpus: Some(0.125),
            served_ns: Some(1_500_000_000),
            own_ns: Some(0),
            threads: 2,
            runnable: Some(1),
            misses: Some(0),
            max: None,
            max_held: None,
            burst_us: None,
            idle: None,
            idle_held: None,
            throttled: None,
            throttled_ns: None,
            shared: false,
        }
    }

    #[test]
    fn trees_are_drawn() {
        let classes: Vec<_> = ["/", "/a", "/a/x", "/a/x/1", "/a/y", "/b", "/b/z"]
            .map(shown)
            .into();
        let expected = [
            "/",
            "├─ a",
            "│  ├─ x",
            "│  │  └─ 1",
            "│  └─ y",
            "└─ b",
            "   └─ z",
        ];
        assert_eq!(labels(&classes), expected);
        let below: Vec<_> = ["/a", "/a/x", "/a/y"].map(shown).into();
        assert_eq!(labels(&below), ["/a", "├─ x", "└─ y"]);
    }

    #[test]
    fn what_nobody_holds_is_said() {
        let limited = Shown {
            max: Some(Max::Quota(20_000, 100_000)),
            idle: Some(true),
            ..shown("/a")
        };
        let text = |max_held, idle_held| {
            let class = Shown {
                max_held,
                idle_held,
                ..limited.clone()
            };
            anstream::adapter::strip_str(&table(&[class], false)).to_string()
        };
        let held = text(Some(true), Some(true));
        assert!(
            held.contains("20 %") && !held.contains("not held"),
            "{held}"
        );
        let not = text(Some(false), Some(false));
        assert!(
            not.contains("20 % (not held)") && not.contains("idle (not held)"),
            "{not}"
        );
    }

    #[test]
    fn columns_line_up() {
        let unknown = Shown {
            weight: None,
            leaf: None,
            entitled_cpus: None,
            served_ns: None,
            runnable: None,
            ..shown("/")
        };
        let text = anstream::adapter::strip_str(&table(&[unknown, shown("/a")], true)).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "CLASS  WEIGHT  LEAF  ENTITLED  RECEIVED   SERVED  THREADS  RUNNABLE"
        );
        assert_eq!(
            lines[1],
            "/           -  -            -    12.5 %        -        2         -"
        );
        assert_eq!(
            lines[2],
            "└─ a      100  ts      25.0 %    12.5 %  1.500 s        2         1"
        );
    }
}
