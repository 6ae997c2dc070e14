// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux link show`, and the links of `qlinux status`

use super::args::ShowLink;
use crate::table::{branches, columns, duration};
use crate::{print, print_json, Outcome};
use qlinux::link::{self, bits_per_second, Link, Row, Shown, State, Status};
use std::fmt::Write;

const NONE: &str = "-";

pub fn show(what: &ShowLink, json: bool) -> Outcome {
    let devices = match &what.device {
        Some(device) => vec![device.clone()],
        None => link::list()?
            .into_iter()
            .filter(|l| l.here && l.state == State::Up)
            .map(|l| l.device)
            .collect(),
    };
    let mut all = Vec::new();
    for device in &devices {
        all.push(Link::open(device)?.show(what.interval)?);
    }
    if json {
        let links: Vec<_> = all.iter().map(json_of).collect();
        return match what.device {
            Some(_) => print_json(&links[0]),
            None => print_json(&serde_json::json!({ "links": links })),
        };
    }
    if all.is_empty() {
        return print("H-SFQ schedules no interface here; start with `qlinux up link DEV`.\n");
    }
    let texts: Vec<String> = all.iter().map(text).collect();
    print(&texts.join("\n"))
}

/// Pairs have names in JSON.
fn json_of(shown: &Shown) -> serde_json::Value {
    let mut value = serde_json::json!(shown);
    let pairs = |of: &[(String, String)], what: &str| {
        of.iter()
            .map(|(a, queue)| serde_json::json!({ what: a, "queue": queue }))
            .collect::<Vec<_>>()
    };
    value["rules"] = rules_json(&shown.rules);
    value["cgroups"] = pairs(&shown.cgroups, "cgroup").into();
    value["grants"] = pairs(&shown.grants, "who").into();
    value
}

pub fn rules_json(rules: &[(String, String)]) -> serde_json::Value {
    rules
        .iter()
        .enumerate()
        .map(|(at, (rule, queue))| serde_json::json!({ "number": at + 1, "rule": rule, "queue": queue }))
        .collect::<Vec<_>>()
        .into()
}

pub fn rules(rules: &[(String, String)]) -> String {
    let mut text = String::new();
    for (at, (rule, queue)) in rules.iter().enumerate() {
        let _ = writeln!(text, "{:>4}  {rule} -> {queue}", at + 1);
    }
    text
}

fn text(shown: &Shown) -> String {
    let mut text = format!("{}: ", shown.device);
    text += &match shown.rate_bits {
        Some(bits) => bits_per_second(bits),
        None => "as fast as the device takes packets".into(),
    };
    if shown.overhead > 0 || shown.least > 0 {
        let _ = write!(
            text,
            ", {} bytes more a packet, at least {}",
            shown.overhead, shown.least
        );
    }
    let c = &shown.counts;
    let _ = writeln!(
        text,
        ", CoDel {}\n{} packets came: {} sent, {} refused, {} dropped, {} queued\n",
        shown.codel, c.enqueued, c.sent, c.refused, c.dropped, shown.packets
    );
    text += &table(&shown.rows);
    if let Some(default) = &shown.default {
        let _ = writeln!(text, "\nDefault: {default}");
    }
    for (title, pairs) in [("Cgroups", &shown.cgroups), ("Grants", &shown.grants)] {
        if !pairs.is_empty() {
            let _ = writeln!(text, "{title}:");
        }
        for (from, to) in pairs {
            let _ = writeln!(text, "      {from} -> {to}");
        }
    }
    if !shown.rules.is_empty() {
        text += "Rules:\n";
        text += &rules(&shown.rules);
    }
    text
}

fn table(rows: &[Row]) -> String {
    let names: Vec<(usize, String)> = rows
        .iter()
        .map(|row| {
            let name = match (row.depth, row.queue) {
                (0, _) => row.name.clone(),
                (_, true) => format!("[{}]", row.name),
                (_, false) => row.name.rsplit('/').next().unwrap_or_default().into(),
            };
            (row.depth, name)
        })
        .collect();
    let heading = [
        "CLASS",
        "WEIGHT",
        "LEAF",
        "ENTITLED",
        "RECEIVED",
        "QUEUED",
        "DROPPED",
        "DELAY P50",
        "P99",
    ];
    let mut lines = vec![heading.map(String::from).to_vec()];
    let labels = branches(&names);
    lines.extend(rows.iter().zip(labels).map(|(r, label)| row(r, label)));
    columns(&lines, &[0, 2])
}

fn row(row: &Row, label: String) -> Vec<String> {
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| NONE.into());
    let share = row.entitled.map(|share| format!("{:.1} %", share * 100.0));
    vec![
        label,
        or_none(row.weight.map(|w| w.to_string())),
        or_none(row.leaf.map(|leaf| leaf.name().to_string())),
        or_none(row.entitled_bits.map(bits_per_second).or(share)),
        bits_per_second(row.received_bits),
        row.packets.to_string(),
        (row.counts.refused + row.counts.dropped).to_string(),
        or_none(row.delay_p50_ns.map(duration)),
        or_none(row.delay_p99_ns.map(duration)),
    ]
}

/// All links, for `qlinux status`.
pub fn status_json() -> Outcome<serde_json::Value> {
    Ok(serde_json::json!(link::list()?))
}

/// The same in words.
pub fn status() -> Outcome<String> {
    Ok(link::list()?.iter().map(words).collect())
}

fn words(link: &Status) -> String {
    let mut text = format!("LINK {} ", link.device);
    if !link.here {
        text += "(another network namespace) ";
    }
    let rate = link.rate_bytes.map_or_else(String::new, |bytes| {
        format!(" at {}", bits_per_second(bytes as f64 * 8.0))
    });
    let since = link
        .since
        .map_or_else(String::new, |s| format!(" since {}", crate::cpu::time(s)));
    let trace = if link.trace { ", with a trace" } else { "" };
    let dev = &link.device;
    text += &match link.state {
        State::Up => format!("H-SFQ schedules{rate}{since}{trace}\n"),
        State::Replaced => format!(
            "H-SFQ was replaced by somebody; `qlinux down link {dev}` clears what is left\n"
        ),
        State::Gone if !link.here => {
            "the interface has gone; the next `qlinux up link` clears what is left\n".into()
        }
        State::Gone => {
            format!("the interface has gone; `qlinux down link {dev}` clears what is left\n")
        }
    };
    let c = &link.counts;
    let _ = writeln!(
        text,
        "     {} packets came: {} sent, {} refused, {} dropped, {} queued",
        c.enqueued, c.sent, c.refused, c.dropped, link.packets
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use qlinux::link::intf::Counts;

    fn row(name: &str, depth: usize) -> Row {
        Row {
            name: name.into(),
            queue: !name.starts_with('/'),
            depth,
            weight: (depth > 0).then_some(3),
            leaf: None,
            entitled: Some(0.3),
            entitled_bits: Some(6e6),
            received_bits: 5.99e6,
            packets: 12,
            bytes: 18000,
            counts: Counts::default(),
            delay_p50_ns: Some(1_500_000),
            delay_p99_ns: None,
            delay_max_ns: None,
            limits: None,
            sid: None,
        }
    }

    #[test]
    fn a_tree_of_classes_and_queues() {
        let rows = [row("/", 0), row("/web", 1), row("a", 2), row("/video", 1)];
        let text = anstream::adapter::strip_str(&table(&rows)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2],
            "├─ web          3  -     6 Mbit/s  5.99 Mbit/s      12        0     1.50ms    -"
        );
        assert!(lines[3].starts_with("│  └─ [a]"), "{text}");
        assert!(lines[4].starts_with("└─ video"), "{text}");
    }
}
