// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of a row, and plain text made of them.

use super::tree::{self, Hiding, Shown};
use crate::args::Sort;
use crate::table::duration;
use qlinux::view::{Part, Row, View};
use std::fmt::Write;
use std::time::{Duration, SystemTime};

const NONE: &str = "-";

/// Columns after the name; widths hold what is usual.
pub const COLUMNS: [(&str, usize); 9] = [
    ("WEIGHT", 6),
    ("LEAF", 4),
    ("RUN/THR", 7),
    ("ENTITLED", 8),
    ("RECEIVED", 8),
    ("WAKE P50", 8),
    ("P99", 6),
    ("MAX", 6),
    ("MISS", 4),
];

/// The column that an order goes by.
pub fn column_of(sort: Sort) -> Option<usize> {
    Some(match sort {
        Sort::Name => return None,
        Sort::Entitled => 3,
        Sort::Received => 4,
        Sort::Runnable => 2,
        Sort::Latency => 6,
    })
}

/// How shares are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Percent,
    Cpus,
}

/// The name of a row, indented.
pub fn name(shown: &Shown) -> String {
    let row = shown.row;
    let name = match row.part {
        Part::Own => "(own)",
        Part::Kernel => "(kernel)",
        Part::Class if shown.level == 0 => &row.path,
        Part::Class => row.path.rsplit('/').next().unwrap_or_default(),
    };
    let mut indent = "  ".repeat(shown.level);
    if shown.folded == Some(true) {
        indent.truncate(indent.len().saturating_sub(2));
        indent += if shown.level > 0 { "+ " } else { "+" };
    }
    indent + name
}

/// The cells of a row, in the order of [`COLUMNS`].
pub fn cells(row: &Row, unit: Unit) -> [String; COLUMNS.len()] {
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| NONE.into());
    let share = |cpus: Option<f64>, percent: Option<f64>| {
        or_none(match unit {
            Unit::Percent => percent.map(|percent| format!("{percent:.1} %")),
            Unit::Cpus => cpus.map(|cpus| format!("{cpus:.3}")),
        })
    };
    let entitled = (row.entitled_cpus > 0.0).then_some(());
    [
        or_none(row.weight.map(|weight| weight.to_string())),
        or_none(row.leaf.clone()),
        format!("{}/{}", row.runnable, row.threads),
        share(
            entitled.map(|()| row.entitled_cpus),
            entitled.map(|()| row.entitled_percent),
        ),
        share(row.received_cpus, row.received_percent),
        or_none(row.wakeup_p50_ns.map(duration)),
        or_none(row.wakeup_p99_ns.map(duration)),
        or_none(row.wakeup_max_ns.map(duration)),
        or_none(row.misses.map(|misses| misses.to_string())),
    ]
}

/// The two lines above the table.
pub fn summary(view: &View) -> (String, String) {
    let several = if view.cpus == 1 { "" } else { "s" };
    let mut first = format!("{} CPU{several}", view.cpus);
    if let Some(idle) = view.idle_cpus {
        let _ = write!(first, ", {idle:.2} idle");
    }
    let rates = view.per_second.as_ref().map_or(String::new(), |rates| {
        format!(
            "a second: {:.0} quanta, {:.0} preemptions, {:.0} passed over, {:.1} rescued",
            rates.quanta, rates.preemptions, rates.passed_over, rates.rescued
        )
    });
    (first, rates)
}

/// Everything, for `--batch`.
pub fn text(view: &View, sort: Sort) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(view.time.max(0.0));
    let (machine, rates) = summary(view);
    let interval = view.interval_s.unwrap_or(0.0);
    let mut text = format!(
        "{}  {machine}, {interval:.1} s\n{rates}\n",
        humantime::format_rfc3339_seconds(time)
    );
    let shown = tree::shown(view, sort, &Hiding::default());
    let names: Vec<String> = shown.iter().map(name).collect();
    let rows: Vec<_> = shown
        .iter()
        .map(|shown| cells(shown.row, Unit::Percent))
        .collect();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let width = longest.unwrap_or(0).max("CLASS".len());
    let mut line = |name: &str, cells: &[&str]| {
        let _ = write!(text, "{name:<width$}");
        for (at, (cell, (_, width))) in cells.iter().zip(COLUMNS).enumerate() {
            let _ = match at {
                1 => write!(text, " {cell:<width$}"),
                _ => write!(text, " {cell:>width$}"),
            };
        }
        text.push('\n');
    };
    line("CLASS", &COLUMNS.map(|(heading, _)| heading));
    for (name, cells) in names.iter().zip(&rows) {
        line(name, &cells.each_ref().map(String::as_str));
    }
    text
}
