// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux disk show`, and the disks of `qlinux status`

use super::args::ShowDisk;
use crate::table::columns;
use crate::{print, print_json, Outcome};
use qlinux::disk::{self, Attributes, Class, Counts, Disk, Group, Row, Shown, State, Status};
use qlinux::reserve::shown as time;
use std::fmt::Write;

const NONE: &str = "-";

pub fn show(what: &ShowDisk, json: bool) -> Outcome {
    let names = match &what.device {
        Some(device) => vec![device.clone()],
        None => {
            let up = disk::list().into_iter().filter(|d| d.state == State::Up);
            up.map(|d| d.device).collect()
        }
    };
    let disks: Vec<Disk> = names
        .iter()
        .map(|name| Disk::find(name))
        .collect::<qlinux::Result<_>>()?;
    // All at once, so that they are shown for the same interval.
    let all: Vec<Shown> = std::thread::scope(|scope| {
        let looks: Vec<_> = disks
            .iter()
            .map(|disk| scope.spawn(|| disk.show(what.interval)))
            .collect();
        let results = looks.into_iter().filter_map(|look| look.join().ok());
        results.collect::<qlinux::Result<_>>()
    })?;
    if json {
        return match what.device {
            Some(_) => print_json(&all[0]),
            None => print_json(&serde_json::json!({ "disks": all })),
        };
    }
    if all.is_empty() {
        return print("Cello schedules no disk here; start with `qlinux up disk DEV`.\n");
    }
    let texts: Vec<String> = all.iter().map(text).collect();
    print(&texts.join("\n"))
}

fn text(shown: &Shown) -> String {
    let a = &shown.attributes;
    let mut text = format!(
        "{}: rounds of {}, {} at a time, deadline {}\n",
        shown.device,
        time(a.round_us * 1000),
        in_flight(a, &shown.counts),
        time(a.deadline_ms * 1_000_000)
    );
    let since = match shown.interval_s {
        Some(s) => format!("in {s:.1} s"),
        None => "since the start".into(),
    };
    let _ = writeln!(text, "{} {since}\n", counts(&shown.counts));
    text += &table(&shown.classes);
    if !shown.cgroups.is_empty() {
        text += "\nCgroups, since the start\n";
        text += &cgroups(&shown.cgroups);
    }
    text
}

/// How many requests the disk has, or how long ones.
fn in_flight(a: &Attributes, c: &Counts) -> String {
    let requests = requests(c.in_flight_now.into());
    match (a.in_flight, a.in_flight_us) {
        (1, _) | (_, 0) => requests,
        (_, us) => format!("{requests} or {}", time(us * 1000)),
    }
}

fn requests(n: u64) -> String {
    match n {
        1 => "1 request".into(),
        n => format!("{n} requests"),
    }
}

fn counts(c: &Counts) -> String {
    let served: u64 = c.classes.iter().map(|class| class.requests).sum();
    let mut text = format!(
        "{} rounds, {} in classes, {} in none",
        c.rounds,
        requests(served),
        c.bypassed
    );
    if c.realtime_late > 0 {
        let _ = write!(
            text,
            ", {} late ({} promised)",
            c.realtime_late, c.realtime_broken
        );
    }
    text + ","
}

fn table(rows: &[Row]) -> String {
    let heading = [
        "CLASS", "WEIGHT", "ENTITLED", "RECEIVED", "REQUESTS", "TIME", "WAITING",
    ];
    let mut lines = vec![heading.map(String::from).to_vec()];
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    lines.extend(rows.iter().map(|row| {
        vec![
            row.class.to_string(),
            row.weight.to_string(),
            percent(row.entitled),
            row.received.map_or_else(|| NONE.into(), percent),
            row.counts.requests.to_string(),
            seconds(row.counts.time_us),
            row.counts.waiting.to_string(),
        ]
    }));
    columns(&lines, &[0])
}

fn seconds(us: u64) -> String {
    format!("{:.3} s", us as f64 / 1e6)
}

fn cgroups(groups: &[Group]) -> String {
    let mut lines = vec![["CGROUP", "CLASS", "WEIGHT", "REQUESTS", "TIME"]
        .map(String::from)
        .to_vec()];
    lines.extend(groups.iter().map(|group| {
        vec![
            group.path.to_string(),
            match group.class {
                Class::None => NONE.into(),
                class => class.to_string(),
            },
            group.weight.to_string(),
            group.requests.to_string(),
            seconds(group.time_us.iter().sum()),
        ]
    }));
    columns(&lines, &[0, 1])
}

/// All disks, for `qlinux status`.
pub fn status_json() -> serde_json::Value {
    serde_json::json!(disk::list())
}

/// The same in words.
pub fn status() -> String {
    disk::list().iter().map(words).collect()
}

fn words(disk: &Status) -> String {
    let dev = &disk.device;
    let since = disk
        .since
        .map_or_else(String::new, |s| format!(" since {}", crate::cpu::time(s)));
    let mut text = format!("DISK {dev} ");
    match disk.state {
        State::Up => {
            let _ = writeln!(text, "Cello schedules{since}");
        }
        State::Replaced => {
            let _ = writeln!(
                text,
                "somebody has replaced Cello; `qlinux down disk {dev}` clears what is left"
            );
        }
        State::Gone => {
            let _ = writeln!(
                text,
                "the disk has gone; `qlinux down disk {dev}` clears what is left"
            );
        }
    }
    if let (Some(a), Some(c)) = (&disk.attributes, &disk.counts) {
        let [interactive, throughput, realtime] = a.weights;
        let _ = writeln!(
            text,
            "     rounds of {}, interactive {interactive}, throughput {throughput}, realtime {realtime}",
            time(a.round_us * 1000)
        );
        let waiting: u64 = c.classes.iter().map(|class| class.waiting).sum();
        let _ = writeln!(text, "     {} {waiting} waiting", counts(c));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use qlinux::disk::ClassCounts;

    const ATTRIBUTES: Attributes = Attributes {
        round_us: 100_000,
        weights: [300, 100, 100],
        in_flight: 1,
        in_flight_us: 0,
        deadline_ms: 40,
        unclassified: Class::Throughput,
    };

    fn some_counts() -> Counts {
        let mut counts = Counts {
            rounds: 12,
            bypassed: 3,
            realtime_late: 2,
            realtime_broken: 1,
            in_flight_now: 1,
            ..Counts::default()
        };
        counts.classes[0] = ClassCounts {
            requests: 10,
            time_us: 1_500_000,
            waiting: 4,
        };
        counts
    }

    #[test]
    fn a_disk_with_its_classes() {
        let row = |class, received| Row {
            class,
            weight: 100,
            entitled: 0.25,
            received,
            counts: some_counts().classes[0],
        };
        let shown = Shown {
            device: "sda".into(),
            attributes: ATTRIBUTES,
            interval_s: Some(2.0),
            counts: some_counts(),
            classes: vec![
                row(Class::Interactive, Some(0.5)),
                row(Class::Realtime, None),
            ],
            cgroups: vec![Group {
                path: "/a".parse().unwrap(),
                class: Class::None,
                weight: qlinux::Weight::DEFAULT,
                time_us: [1_000, 2_000, 0],
                requests: 7,
            }],
        };
        let text = anstream::adapter::strip_str(&text(&shown)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "sda: rounds of 100ms, 1 request at a time, deadline 40ms"
        );
        assert_eq!(
            lines[1],
            "12 rounds, 10 requests in classes, 3 in none, 2 late (1 promised), in 2.0 s"
        );
        assert_eq!(
            lines[4],
            "interactive     100    25.0 %    50.0 %        10  1.500 s        4"
        );
        assert!(lines[5].contains("25.0 %         -"), "{text}");
        assert_eq!(lines[9], "/a      -         100         7  0.003 s");
    }

    #[test]
    fn words_of_each_state() {
        let status = |state| Status {
            device: "sda".into(),
            state,
            since: Some(0.0),
            arm: Some(true),
            before: None,
            attributes: (state == State::Up).then_some(ATTRIBUTES),
            counts: (state == State::Up).then(some_counts),
            nr_requests: None,
        };
        assert_eq!(
            words(&status(State::Up)),
            "DISK sda Cello schedules since 1970-01-01T00:00:00Z\n     \
             rounds of 100ms, interactive 300, throughput 100, realtime 100\n     \
             12 rounds, 10 requests in classes, 3 in none, 2 late (1 promised), 4 waiting\n"
        );
        for state in [State::Replaced, State::Gone] {
            assert!(words(&status(state)).contains("down disk sda"));
        }
    }
}
