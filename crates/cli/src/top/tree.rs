// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rows of a view are shown, and in which order.

use crate::args::Sort;
use qlinux::view::{Part, Row, View};
use std::cmp::Ordering;
use std::collections::HashSet;

/// One row and where it stands in the tree.
pub struct Shown<'a> {
    pub row: &'a Row,
    /// Classes above it that are shown.
    pub level: usize,
    /// Whether what is below it is hidden; `None` where nothing is.
    pub folded: Option<bool>,
}

/// What hides rows.
#[derive(Default)]
pub struct Hiding {
    /// Paths of classes of which nothing below is shown.
    pub folded: HashSet<String>,
    /// Only classes whose path begins like this, and those above them.
    pub prefix: String,
    /// Only what is runnable or was served.
    pub idle: bool,
}

impl Hiding {
    fn hides(&self, row: &Row) -> bool {
        let under = |long: &str, short: &str| long.starts_with(short);
        let within = under(&row.path, &self.prefix) || under(&self.prefix, &row.path);
        let idle = row.runnable == 0 && row.received_cpus.unwrap_or(0.0) < 5e-5;
        !within || (self.idle && idle)
    }
}

fn depth(row: &Row) -> usize {
    let components = row.path.split('/').filter(|name| !name.is_empty()).count();
    components + usize::from(row.part != Part::Class)
}

/// The rows that are shown, parents first.
pub fn shown<'a>(view: &'a View, sort: Sort, hiding: &Hiding) -> Vec<Shown<'a>> {
    let mut all = Vec::new();
    if !view.classes.is_empty() {
        below(&view.classes, 0, &mut all, sort, hiding);
    }
    all
}

/// The first of the rows and, of what follows, all that is below it.
fn below<'a>(rows: &'a [Row], level: usize, all: &mut Vec<Shown<'a>>, sort: Sort, hiding: &Hiding) {
    let (row, rest) = (&rows[0], &rows[1..]);
    if hiding.hides(row) {
        return;
    }
    let mut children: Vec<&[Row]> = Vec::new();
    let mut start = 0;
    for at in 1..=rest.len() {
        if at == rest.len() || depth(&rest[at]) == depth(row) + 1 {
            children.push(&rest[start..at]);
            start = at;
        }
    }
    let folds = (!children.is_empty()).then(|| hiding.folded.contains(&row.path));
    all.push(Shown {
        row,
        level,
        folded: folds,
    });
    if folds == Some(true) {
        return;
    }
    children.sort_by(|a, b| order(&a[0], &b[0], sort));
    for child in children {
        below(child, level + 1, all, sort, hiding);
    }
}

/// By name they are in order already.
fn order(a: &Row, b: &Row, sort: Sort) -> Ordering {
    let float = |value: fn(&Row) -> f64| value(b).total_cmp(&value(a));
    match sort {
        Sort::Name => Ordering::Equal,
        Sort::Entitled => float(|row| row.entitled_cpus),
        Sort::Received => float(|row| row.received_cpus.unwrap_or(0.0)),
        Sort::Runnable => b.runnable.cmp(&a.runnable),
        Sort::Latency => b.wakeup_p99_ns.cmp(&a.wakeup_p99_ns),
    }
}
