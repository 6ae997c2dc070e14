// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux link …`, `qlinux up link`, `qlinux down link`

pub mod args;
mod show;
mod trace;

use crate::{print, print_json, Failure, Outcome};
use args::{
    Attach, Grant, Limits, Link as Words, LinkClass, LinkQueue, LinkRule, Pace, RuleWords, SetLink,
    Share, Source, UpLink, Whom,
};
use qlinux::cgroup::Hierarchy;
use qlinux::link::{self, Ended, Link, Options, Rate, Refusal, Rule, Who};
use qlinux::{ClassPath, Weight};
use std::process::ExitCode;

pub use show::{status, status_json};

pub fn link(words: &Words, json: bool) -> Outcome {
    match words {
        Words::Share(what) => share(what, json),
        Words::Class(what) => class(what, json),
        Words::Queue(what) => queue(what, json),
        Words::Attach(what) => attach(what, json),
        Words::Detach { device, source } => {
            let cgroup = cgroup(source)?;
            Link::lock(device)?.detach_cgroup(&cgroup)?;
            done(json, || serde_json::json!({ "cgroup": cgroup }))
        }
        Words::Rule(what) => rule(what, json),
        Words::Grant(what) => grant(what, json, true),
        Words::Revoke(what) => grant(what, json, false),
        Words::Set(what) => set(what, json),
        Words::Show(what) => show::show(what, json),
        Words::Trace(what) => trace::trace(what, json),
    }
}

/// Success needs no words, unless a program reads them.
fn done(json: bool, what: impl FnOnce() -> serde_json::Value) -> Outcome {
    if json {
        return print_json(&what());
    }
    Ok(ExitCode::SUCCESS)
}

fn options(pace: &Pace, trace: Option<u64>, replace: bool) -> Options {
    Options {
        rate: pace.rate.unwrap_or(Rate::NONE),
        overhead: pace.overhead.unwrap_or(0),
        least: pace.least.unwrap_or(0),
        codel: pace.codel().unwrap_or_default(),
        gso_max: pace.gso_max,
        trace_bytes: trace,
        replace,
        share: None,
    }
}

pub fn up(what: &UpLink, json: bool) -> Outcome {
    let dev = &what.device;
    let result = link::up(dev, &options(&what.pace, what.trace, what.replace));
    if what.verbose {
        eprint!("{}", qlinux::load_words());
    }
    result?;
    if json {
        return print_json(&serde_json::json!({ "link": status_json()? }));
    }
    let rate = what.pace.rate.filter(|rate| *rate != Rate::NONE);
    let pace = rate.map_or_else(String::new, |rate| format!(" at {rate}"));
    print(&format!("H-SFQ schedules {dev}{pace}.\n"))
}

pub fn down(dev: &str, json: bool) -> Outcome {
    let ended = link::down(dev)?;
    let (was, words) = match ended {
        Ended::Running => ("up", format!("{dev} is as it was before H-SFQ.\n")),
        Ended::Replaced => (
            "replaced",
            format!("{dev} was not scheduled by H-SFQ any more; what it left is cleared.\n"),
        ),
        Ended::Gone => (
            "gone",
            format!("Interface {dev} has gone; what H-SFQ left of it is cleared.\n"),
        ),
        Ended::Leftovers => (
            "leftovers",
            format!("What an interrupted command left of {dev} is cleared.\n"),
        ),
    };
    match json {
        true => print_json(&serde_json::json!({ "was": was })),
        false => print(&words),
    }
}

fn share(what: &Share, json: bool) -> Outcome {
    let dev = &what.device;
    let mut classes = Vec::new();
    for (name, weight) in &what.classes {
        let path: ClassPath = format!("/{name}").parse()?;
        classes.push((path, *weight));
    }
    let names: Vec<_> = classes
        .iter()
        .map(|(path, weight)| format!("{} ({weight})", path.name()))
        .collect();
    let share = link::Share {
        classes,
        leaf: what.leaf,
    };
    let options = Options {
        share: Some(share),
        ..options(&what.pace, None, what.replace)
    };
    link::up(dev, &options)?;
    match json {
        true => print_json(&serde_json::json!({ "link": status_json()? })),
        false => print(&format!("H-SFQ shares {dev} among {}.\n", names.join(", "))),
    }
}

fn class(what: &LinkClass, json: bool) -> Outcome {
    let path = match what {
        LinkClass::Add {
            device,
            path,
            weight,
            leaf,
        } => {
            Link::lock(device)?.add_class(path, weight.unwrap_or(Weight::DEFAULT), *leaf)?;
            path
        }
        LinkClass::Set {
            device,
            path,
            weight,
        } => {
            Link::lock(device)?.set_class(path, *weight)?;
            path
        }
        LinkClass::Del { device, path } => {
            Link::lock(device)?.del_class(path)?;
            path
        }
    };
    done(json, || serde_json::json!({ "class": path }))
}

fn limits(limits: &Limits) -> link::Limits {
    link::Limits {
        packets: limits.packets,
        bytes: limits.bytes,
    }
}

fn queue(what: &LinkQueue, json: bool) -> Outcome {
    let name = match what {
        LinkQueue::Add {
            device,
            name,
            weight,
            limits: l,
            attach,
        } => {
            let link = Link::lock(device)?;
            let weight = weight.unwrap_or(Weight::DEFAULT);
            let id = link.add_queue(name, weight, limits(l), attach.as_ref())?;
            return done(
                json,
                || serde_json::json!({ "queue": name, "sid": link.sid(id) }),
            );
        }
        LinkQueue::Set {
            device,
            name,
            weight,
            limits: l,
        } => {
            if weight.is_none() && l.packets.is_none() && l.bytes.is_none() {
                let words = "nothing to change was named: give --weight, --packets or --bytes";
                return Err(Refusal::Usage(words.into()).into());
            }
            Link::lock(device)?.set_queue(name, *weight, limits(l))?;
            name
        }
        LinkQueue::Attach { device, name, path } => {
            Link::lock(device)?.attach_queue(name, path)?;
            name
        }
        LinkQueue::Move { device, name, path } => {
            Link::lock(device)?.move_queue(name, path)?;
            name
        }
        LinkQueue::Del { device, name } => {
            Link::lock(device)?.del_queue(name)?;
            name
        }
    };
    done(json, || serde_json::json!({ "queue": name.to_string() }))
}

/// The cgroup that is meant.
fn cgroup(source: &Source) -> Outcome<ClassPath> {
    if let Some(path) = &source.cgroup {
        return Ok(path.clone());
    }
    let unit = source.unit.as_deref().unwrap_or_default();
    let found = std::process::Command::new("systemctl")
        .args(["show", "--property=ControlGroup", "--value", "--", unit])
        .output();
    let path = found
        .ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string())
        .filter(|path| path.starts_with('/'));
    if let Some(path) = path {
        return Ok(path.parse()?);
    }
    // Without systemd, or as another does it: the one cgroup of that name.
    let fs = Hierarchy::discover()?;
    let mut named = fs
        .walk(&ClassPath::root())
        .into_iter()
        .filter(|path| path.name() == unit);
    match (named.next(), named.next()) {
        (Some(path), None) => Ok(path),
        _ => Err(Failure::refused(format!(
            "unit {unit} does not run, or has no cgroup: see `systemctl status {unit}`, or name the cgroup with --cgroup"
        ))),
    }
}

fn attach(what: &Attach, json: bool) -> Outcome {
    let path = cgroup(&what.source)?;
    Link::lock(&what.device)?.attach_cgroup(&what.queue, &path)?;
    done(
        json,
        || serde_json::json!({ "cgroup": path, "queue": what.queue.to_string() }),
    )
}

fn words_of(words: &RuleWords) -> Result<Rule, Refusal> {
    Rule {
        protocol: words.proto,
        from: words.from,
        to: words.to,
        sport: words.sport,
        dport: words.dport,
        dscp: words.dscp,
        mark: words.mark,
    }
    .check()
}

fn rule(what: &LinkRule, json: bool) -> Outcome {
    match what {
        LinkRule::Add {
            device,
            queue,
            words,
            at,
        } => {
            let rule = words_of(words)?;
            Link::lock(device)?.add_rule(*at, queue, &rule)?;
            done(
                json,
                || serde_json::json!({ "rule": rule.to_string(), "queue": queue.to_string() }),
            )
        }
        LinkRule::Del { device, at } => {
            Link::lock(device)?.del_rule(*at)?;
            done(json, || serde_json::json!({ "deleted": at }))
        }
        LinkRule::Show { device } => {
            let rules: Vec<(String, String)> = Link::open(device)?
                .rules()?
                .into_iter()
                .map(|(rule, queue)| (rule.to_string(), queue))
                .collect();
            match json {
                true => print_json(&serde_json::json!({ "rules": show::rules_json(&rules) })),
                false => print(&show::rules(&rules)),
            }
        }
    }
}

fn whom(whom: &Whom) -> Outcome<Who> {
    if let Some(path) = &whom.cgroup {
        return Ok(Who::Cgroup(path.clone()));
    }
    let name = whom.user.clone().unwrap_or_default();
    if let Ok(uid) = name.parse() {
        return Ok(Who::User(uid));
    }
    match nix::unistd::User::from_name(&name) {
        Ok(Some(user)) => Ok(Who::User(user.uid.as_raw())),
        _ => Err(Refusal::NoUser { name }.into()),
    }
}

fn grant(what: &Grant, json: bool, give: bool) -> Outcome {
    let who = whom(&what.whom)?;
    let link = Link::lock(&what.device)?;
    match give {
        true => link.grant(&what.queue, &who)?,
        false => link.revoke(&what.queue, &who)?,
    }
    done(
        json,
        || serde_json::json!({ "queue": what.queue.to_string(), "who": who.to_string() }),
    )
}

fn set(what: &SetLink, json: bool) -> Outcome {
    let pace = &what.pace;
    let codel = pace.codel();
    let paced = pace.rate.is_some() || pace.overhead.is_some() || pace.least.is_some();
    if !paced && codel.is_none() && pace.gso_max.is_none() && what.default.is_none() {
        let words = "nothing to change was named: see `qlinux link set --help`";
        return Err(Refusal::Usage(words.into()).into());
    }
    let link = Link::lock(&what.device)?;
    // All or nothing: first what can be seen to be wrong, then what the kernel may refuse.
    link::check_frame(pace.overhead.unwrap_or(0), pace.least.unwrap_or(0))?;
    if let Some(queue) = &what.default {
        link.tree()?.queue(queue)?;
    }
    if let Some(bytes) = pace.gso_max {
        link.set_gso_max(bytes)?;
    }
    link.set(pace.rate, pace.overhead, pace.least, codel)?;
    if let Some(queue) = &what.default {
        link.set_default(queue)?;
    }
    done(json, || serde_json::json!({ "device": what.device }))
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        qlinux::Error::from(refusal).into()
    }
}
