// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux up cpu`, `qlinux down cpu`, `qlinux status`

use crate::args::UpCpu;
use crate::{print, print_json, Outcome};
use qlinux::cgroup::Hierarchy;
use qlinux::class::{self, NotHeld};
use qlinux::cpu::{self, Ended, Ending, State, Status};
use qlinux::features::{Features, Lack, IDLE, LIMITS, TIMERS};
use qlinux::ClassPath;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

pub fn up(options: &UpCpu, json: bool) -> Outcome {
    let result = cpu::up(&cpu::Options {
        trace_bytes: options.trace,
        replace: options.replace,
        no_lending: options.no_lending,
        fail_lock: options.fail_lock,
        fast_cpus: options.fast_cpus.clone(),
        frequency: options.frequency.into(),
        domains: options.domains,
    });
    if options.verbose {
        eprint!("{}", qlinux::load_words());
    }
    let earlier = result?;
    let not_held = class::not_held(&Hierarchy::discover()?, Features::here().holds());
    if json {
        return print_json(
            &serde_json::json!({ "cpu": cpu::status()?, "earlier": earlier, "not_held": not_held }),
        );
    }
    for warning in warnings(&not_held, &Features::here().lacking()) {
        eprintln!("qlinux: {warning}");
    }
    let mut text = String::new();
    if let Some(ending) = earlier {
        let _ = writeln!(text, "The one before {}.", how(&ending));
    }
    text += "H-SFQ schedules the CPU.\n";
    print(&text)
}

/// Of several classes, so many are named.
const NAMED_MAX: usize = 3;

/// A line each on limits and idleness that classes had before, and have no more while it is up.
fn warnings(not_held: &NotHeld, lacking: &[Lack]) -> Vec<String> {
    let line = |classes: &[ClassPath], what: &str, names: &[&str]| {
        let lack = lacking.iter().find(|lack| names.contains(&lack.name))?;
        let named: Vec<&str> = classes
            .iter()
            .take(NAMED_MAX)
            .map(ClassPath::as_str)
            .collect();
        let more = if classes.len() > NAMED_MAX {
            ", …"
        } else {
            ""
        };
        let count = match classes.len() {
            0 => return None,
            1 => "1 class".into(),
            n => format!("{n} classes"),
        };
        Some(format!(
            "{what} of {count} ({}{more}) is not held while H-SFQ is up, because {}; {}",
            named.join(", "),
            lack.found,
            lack.remedy
        ))
    };
    let limits = line(&not_held.limits, "the limit", &[LIMITS, TIMERS]);
    let idle = line(&not_held.idle, "the idleness", &[IDLE]);
    limits.into_iter().chain(idle).collect()
}

pub fn down(json: bool) -> Outcome {
    let ended = cpu::down()?;
    if json {
        let (was, ending) = match ended {
            Ended::Running => ("up", None),
            Ended::Ejected(ending) => ("ejected", Some(ending)),
            Ended::Leftovers => ("leftovers", None),
        };
        return print_json(&serde_json::json!({ "was": was, "ended": ending }));
    }
    match ended {
        Ended::Running => print("The stock scheduler schedules the CPU.\n"),
        Ended::Ejected(ending) => print(&format!(
            "H-SFQ {}; what it left is cleared.\n",
            how(&ending)
        )),
        Ended::Leftovers => {
            print("H-SFQ was not loaded; what an interrupted command left is cleared.\n")
        }
    }
}

pub fn status(json: bool) -> Outcome {
    let status = cpu::status()?;
    if json {
        let links = crate::link::status_json()?;
        let disks = crate::disk::status_json();
        return print_json(&serde_json::json!({ "cpu": status, "links": links, "disks": disks }));
    }
    print(&(words(&status) + &crate::link::status()? + &crate::disk::status()))
}

fn words(status: &Status) -> String {
    let mut text = String::from("CPU  ");
    let since = status
        .since
        .map(|s| format!(" since {}", time(s)))
        .unwrap_or_default();
    match (&status.state, &status.ended) {
        (State::Up, _) => {
            let trace = if status.trace { ", with a trace" } else { "" };
            let domains = match status.domains {
                Some(n) if n > 1 => format!(", in {n} domains"),
                _ => String::new(),
            };
            let _ = writeln!(text, "H-SFQ schedules{since}{domains}{trace}");
        }
        (_, Some(ending)) => {
            let _ = writeln!(text, "H-SFQ was started{since} and {}", how(ending));
            let _ = writeln!(text, "     start it again with `qlinux up cpu`");
        }
        _ => {
            let _ = writeln!(text, "H-SFQ is not loaded; start it with `qlinux up cpu`");
        }
    }
    if let Some(t) = &status.totals {
        let counts = [
            (t.quanta, "quanta"),
            (t.preemptions, "preemptions"),
            (t.timer_ends, "ended by the timer"),
            (t.passed_over, "passed over"),
            (t.rescued, "rescued"),
            (t.shared_cgroups, "cgroups without a node"),
            (t.trace_lost, "trace records lost"),
            (t.lock_failures, "lock failures"),
            (t.moved, "threads moved to other domains"),
        ];
        let shown: Vec<_> = counts
            .iter()
            .take(1)
            .chain(counts[1..].iter().filter(|(n, _)| *n > 0))
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        let _ = writeln!(text, "     {}", shown.join(", "));
    }
    match &status.lending {
        Some(l) if l.loans > 0 => {
            let _ = writeln!(
                text,
                "     weight lent {} times to the holder of a lock, {} times on to the holder of another; {} times across classes",
                l.loans, l.chained, l.guests
            );
        }
        None if status.state == State::Up => {
            let _ = writeln!(text, "     no weight is lent to holders of locks");
        }
        _ => {}
    }
    let lacking = status.lacking.iter().flatten();
    for lack in lacking.filter(|lack| lack.cost.is_some()) {
        let cost = lack.cost.unwrap_or_default();
        let _ = writeln!(text, "     {cost}, because {}; {}", lack.found, lack.remedy);
    }
    match &status.other {
        Some(name) if status.state != State::Up => {
            let _ = writeln!(text, "     the sched_ext scheduler '{name}' is running");
        }
        _ => {}
    }
    if status.leftovers {
        let _ = writeln!(
            text,
            "     an interrupted command left something behind; `qlinux down cpu` clears it"
        );
    }
    text
}

/// "was ended by the kernel at …: reason (particulars)"
fn how(ending: &Ending) -> String {
    let at = ending
        .at
        .map(|s| format!(" at {}", time(s)))
        .unwrap_or_default();
    let message = if ending.message.is_empty() {
        String::new()
    } else {
        format!(" ({})", ending.message)
    };
    format!("was ended by the kernel{at}: {}{message}", ending.reason)
}

pub fn time(seconds: f64) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds.max(0.0));
    humantime::format_rfc3339_seconds(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use qlinux::cpu::Totals;

    fn status(state: State) -> Status {
        Status {
            state,
            since: Some(0.0),
            interface: Some(1),
            trace: false,
            domains: None,
            ended: None,
            totals: None,
            lending: Some(cpu::Lending::default()),
            other: None,
            leftovers: false,
            lacking: None,
            programs: Vec::new(),
        }
    }

    fn lack(name: &'static str, cost: Option<&'static str>) -> Lack {
        Lack {
            name,
            what: "x",
            resource: qlinux::check::Resource::Cpu,
            since: Some("6.17"),
            cost,
            instead: None,
            fatal: false,
            found: format!("this kernel has no {name}"),
            remedy: "boot kernel 6.17 or newer".into(),
        }
    }

    #[test]
    fn what_the_kernel_lacks_is_said_if_it_costs_something() {
        let up = Status {
            lacking: Some(vec![lack("a", None), lack("b", Some("limits do not hold"))]),
            ..status(State::Up)
        };
        assert!(words(&up).ends_with(
            "\n     limits do not hold, because this kernel has no b; boot kernel 6.17 or newer\n"
        ));
    }

    #[test]
    fn classes_that_lose_something_are_counted() {
        let paths = |n: u32| (0..n).map(|i| format!("/c{i}").parse().unwrap()).collect();
        let lacking = [lack(IDLE, None), lack(LIMITS, None)];
        assert!(warnings(&NotHeld::default(), &lacking).is_empty());
        let several = NotHeld {
            limits: paths(5),
            idle: paths(1),
        };
        assert_eq!(
            warnings(&several, &lacking),
            [
                "the limit of 5 classes (/c0, /c1, /c2, …) is not held while H-SFQ is up, because this kernel has no \
                 cgroup_set_bandwidth; boot kernel 6.17 or newer",
                "the idleness of 1 class (/c0) is not held while H-SFQ is up, because this kernel has no \
                 cgroup_set_idle; boot kernel 6.17 or newer"
            ]
        );
    }

    #[test]
    fn words_of_each_state() {
        let up = Status {
            totals: Some(Totals {
                quanta: 5,
                rescued: 1,
                ..Totals::default()
            }),
            ..status(State::Up)
        };
        assert_eq!(
            words(&up),
            "CPU  H-SFQ schedules since 1970-01-01T00:00:00Z\n     5 quanta, 1 rescued\n"
        );
        let ended = Ending {
            reason: "runtime error".into(),
            message: "x".into(),
            kind: 1024,
            at: Some(60.0),
        };
        let ejected = words(&Status {
            ended: Some(ended),
            ..status(State::Ejected)
        });
        assert!(
            ejected.contains("ended by the kernel at 1970-01-01T00:01:00Z: runtime error (x)"),
            "{ejected}"
        );
        let other = words(&Status {
            other: Some("simple".into()),
            leftovers: true,
            ..status(State::Down)
        });
        assert!(
            other.contains("not loaded")
                && other.contains("'simple'")
                && other.contains("down cpu"),
            "{other}"
        );
    }
}
