// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the CSV of `qlinux link trace` to what the checker wants.
//!
//! Service is the time that a packet takes on the line, so the line's rate is 1. A packet is in service
//! from when it is let go until it has crossed the line, or until the next one is let go: a timer that
//! was late makes up for it. What it is late by is the δ of the bounds.

use crate::net::Tree;
use anyhow::{ensure, Context, Result};
use qlinux_core::bounds::{Interval, Node, Quantum, Trace};
use serde::Deserialize;
use std::collections::BTreeMap;

/// `PACE_LATE_MAX_NS` of core/link/pace.h: lateness beyond is not made up for.
const LATE_MAX_NS: u64 = 10_000_000;

/// A line of the trace; columns that nothing here needs are left out.
#[derive(Deserialize)]
struct Record {
    time_ns: u64,
    kind: String,
    class: String,
    line: u32,
    arrived_ns: u64,
    length: u32,
}

/// What is checked.
pub struct Traced {
    pub trace: Trace,
    /// The greatest lateness of the link's timer, in ns.
    pub delta_ns: u64,
}

/// Nodes of the classes, and of the lines of packets below those that have several.
struct Nodes<'a> {
    tree: &'a Tree,
    all: Vec<Node>,
    by_name: BTreeMap<String, usize>,
}

impl Nodes<'_> {
    fn new(tree: &Tree) -> Nodes<'_> {
        let mut nodes = Nodes {
            tree,
            all: Vec::new(),
            by_name: BTreeMap::new(),
        };
        nodes.add("/", None, 1);
        for class in &tree.classes {
            let above = nodes.by_name.get(class.parent()).copied();
            nodes.add(&class.path, Some(above.unwrap_or(0)), class.weight);
        }
        nodes
    }

    fn add(&mut self, name: &str, parent: Option<usize>, weight: u32) -> usize {
        let weights = vec![(0, weight)];
        self.by_name.insert(name.to_owned(), self.all.len());
        self.all.push(Node {
            name: name.to_owned(),
            parent,
            weights,
        });
        self.all.len() - 1
    }

    /// The node of the line that a packet was in: the class itself, or a flow of it. Classes that are not the
    /// experiment's have QLinux's default weight.
    fn of(&mut self, record: &Record) -> usize {
        let class = match self.by_name.get(&record.class) {
            Some(&class) => class,
            None => self.add(&record.class, Some(0), 100),
        };
        let fifo =
            |c: &crate::net::Class| c.path != record.class || c.leaf == crate::net::Leaf::Fifo;
        if self.tree.classes.iter().all(fifo) {
            return class;
        }
        let name = format!("{} (line {})", record.class, record.line);
        match self.by_name.get(&name) {
            Some(&line) => line,
            None => self.add(&name, Some(class), 1),
        }
    }
}

/// What the trace of a link with this tree and rate (bits a second) tells, from its beginning.
pub fn parse(text: &str, tree: &Tree, rate: u64) -> Result<Traced> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut records: Vec<Record> = Vec::new();
    for record in reader.deserialize() {
        records.push(record.context("a line of the trace is damaged")?);
    }
    ensure!(!records.is_empty(), "the trace is empty");
    records.sort_by_key(|record| record.time_ns);
    let ns_of = |record: &Record| (u64::from(record.length) * 8_000_000_000).div_ceil(rate);
    let mut nodes = Nodes::new(tree);
    let mut trace = Trace {
        servers: 1,
        start_ns: records.iter().map(|r| r.arrived_ns).min().unwrap_or(0),
        fresh: true,
        ..Trace::default()
    };
    let sent: Vec<bool> = records.iter().map(|r| r.kind == "sent").collect();
    let mut next_ns = u64::MAX;
    for (record, sent) in records.iter().zip(&sent).rev() {
        let (node, start_ns) = (nodes.of(record), record.time_ns);
        let mut end_ns = start_ns;
        if *sent {
            end_ns = (start_ns + ns_of(record)).min(next_ns);
            next_ns = start_ns;
            trace.end_ns = trace.end_ns.max(end_ns);
            trace.quanta.push(Quantum {
                served_ns: ns_of(record),
                ..Quantum::new(node, start_ns, end_ns)
            });
        }
        trace.runnable.push(Interval {
            node,
            start_ns: record.arrived_ns,
            end_ns,
        });
    }
    trace.nodes = nodes.all;
    let packets: Vec<_> = records
        .iter()
        .zip(&sent)
        .map(|(r, sent)| (r.arrived_ns, r.time_ns, if *sent { ns_of(r) } else { 0 }))
        .collect();
    Ok(Traced {
        trace,
        delta_ns: lateness(&packets),
    })
}

/// The most that packets (came, left, time on the line; in order of leaving) were let go after the line was free.
fn lateness(packets: &[(u64, u64, u64)]) -> u64 {
    // When the line had something to send: the moments at which packets waited, joined.
    let mut waits: Vec<(u64, u64)> = packets.iter().map(|p| (p.0, p.1)).collect();
    waits.sort_unstable();
    let mut busy: Vec<(u64, u64)> = Vec::new();
    for (from, to) in waits {
        match busy.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => busy.push((from, to)),
        }
    }
    let mut busy = busy.into_iter();
    let mut span = busy.next().unwrap_or_default();
    let (mut free_ns, mut worst_ns) = (span.0, 0);
    for &(_, left_ns, length_ns) in packets {
        while left_ns > span.1 {
            let Some(next) = busy.next() else { break };
            span = next;
            free_ns = free_ns.max(span.0);
        }
        worst_ns = worst_ns.max(left_ns.saturating_sub(free_ns));
        free_ns = free_ns.max(left_ns.saturating_sub(LATE_MAX_NS)) + length_ns;
    }
    worst_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use qlinux_core::bounds::{check, Options};

    const HEAD: &str = "time_ns,kind,class,queue,line,arrived_ns,length\n";

    /// Packets of 1000 bytes, 1 ms each at 8 Mbit/s, sent in this order; all come at first.
    fn text(order: &str) -> String {
        let mut text = HEAD.to_owned();
        for (index, class) in order.chars().enumerate() {
            text += &format!("{},sent,/{class},/{class},7,0,1000\n", index * 1_000_000);
        }
        text
    }

    fn tree() -> Tree {
        Tree::new([("/a", 1), ("/b", 1)])
    }

    #[test]
    fn fair_and_unfair() {
        let options = Options::default();
        let fair = parse(&text("abababab"), &tree(), 8_000_000).unwrap();
        assert_eq!((fair.trace.quanta.len(), fair.delta_ns), (8, 0));
        let report = check(&fair.trace, &options);
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        let unfair = parse(&text("aaaabbbb"), &tree(), 8_000_000).unwrap();
        assert!(check(&unfair.trace, &options).violations_total > 0);
    }

    #[test]
    fn a_late_timer_is_made_up_for() {
        // (came, left, takes): late by 300, then on time again; later the line was idle.
        let packets = [
            (0, 0, 1000),
            (0, 1300, 1000),
            (0, 2000, 1000),
            (9000, 9050, 1000),
        ];
        assert_eq!(lateness(&packets), 300);
    }

    #[test]
    fn a_dropped_packet_was_there_and_not_served() {
        let text = format!("{HEAD}5,dropped,/a,/a,7,1,1000\n6,sent,/a,/a,7,1,1000\n");
        let traced = parse(&text, &tree(), 8_000_000).unwrap();
        assert_eq!(
            (traced.trace.quanta.len(), traced.trace.runnable.len()),
            (1, 2)
        );
        assert!(parse(HEAD, &tree(), 8).is_err());
    }

    #[test]
    fn flows_of_a_class_are_nodes_below_it() {
        let tree = tree().with("/b", |class| class.leaf = crate::net::Leaf::Fq);
        let text =
            format!("{HEAD}5,sent,/b,/b,7,1,1000\n6,sent,/b,/b,8,1,1000\n7,sent,/a,/a,3,1,9\n");
        let trace = parse(&text, &tree, 8_000_000).unwrap().trace;
        let names: Vec<_> = trace.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["/", "/a", "/b", "/b (line 8)", "/b (line 7)"]);
    }
}
