// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the CSV of `qlinux trace` to what the checker wants.

use anyhow::{bail, ensure, Context, Result};
use qlinux_core::bounds::{Interval, Node, Quantum, Trace};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Of a class that nobody gave another.
const DEFAULT_WEIGHT: u32 = 100;

/// A line of the trace; columns that nothing here needs are left out.
#[derive(Deserialize)]
struct Record {
    time_ns: u64,
    kind: String,
    cpu: u32,
    class: String,
    leaf: u32,
    length_ns: u64,
    weight: u32,
}

struct Builder<'a> {
    weights: &'a BTreeMap<String, u32>,
    trace: Trace,
    nodes: BTreeMap<String, usize>,
    /// Since when a leaf is runnable; `None` while it is not.
    runnable: BTreeMap<usize, Option<u64>>,
    /// End of the last quantum, by processor.
    served_until: BTreeMap<u32, u64>,
}

/// What the trace says about the time `span` (in its own clock), for a tree of
/// these weights by path. Classes that are not named have the default weight.
pub fn parse(text: &str, weights: &BTreeMap<String, u32>, span: Range<u64>) -> Result<Trace> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut records = Vec::new();
    for record in reader.deserialize() {
        records.push(record.context("a line of the trace is damaged")?);
    }
    // Records of one moment keep their order.
    records.sort_by_key(|record: &Record| record.time_ns);
    let (Some(first), Some(last)) = (records.first(), records.last()) else {
        bail!("the trace is empty");
    };
    let mut builder = Builder {
        weights,
        trace: Trace {
            servers: 1,
            start_ns: first.time_ns.max(span.start),
            end_ns: last.time_ns.min(span.end),
            ..Trace::default()
        },
        nodes: BTreeMap::new(),
        runnable: BTreeMap::new(),
        served_until: BTreeMap::new(),
    };
    builder.node("/");
    for path in weights.keys() {
        builder.node(path);
    }
    for record in &records {
        builder.add(record)?;
    }
    Ok(builder.finish())
}

impl Builder<'_> {
    /// The node of a path, its parents made before it.
    fn node(&mut self, path: &str) -> usize {
        if let Some(&node) = self.nodes.get(path) {
            return node;
        }
        let parent = match path.rsplit_once('/') {
            _ if path == "/" => None,
            Some(("", _)) | None => Some(self.node("/")),
            Some((above, _)) => Some(self.node(above)),
        };
        let weight = self.weights.get(path).copied().unwrap_or(DEFAULT_WEIGHT);
        self.trace.nodes.push(Node {
            name: path.to_owned(),
            parent,
            weights: vec![(0, weight)],
        });
        self.nodes
            .insert(path.to_owned(), self.trace.nodes.len() - 1);
        self.trace.nodes.len() - 1
    }

    /// The leaf of a class's own threads: the class itself where it has no children.
    /// Where it has, it is a node of its own beside them.
    fn leaf(&mut self, record: &Record) -> usize {
        let Record {
            class,
            leaf,
            weight,
            ..
        } = record;
        let below = format!("{}/", class.trim_end_matches('/'));
        let inner = class == "/" || self.nodes.keys().any(|path| path.starts_with(&below));
        if !inner {
            return self.node(class);
        }
        let node = self.node(&format!("{below}(leaf {leaf})"));
        self.trace.nodes[node].weights = vec![(0, *weight)];
        node
    }

    fn add(&mut self, record: &Record) -> Result<()> {
        if record.class.starts_with("node:") {
            // A class of before, which its last thread has left.
            return Ok(());
        }
        let time = record.time_ns;
        if record.kind == "weight" {
            let class = &record.class;
            ensure!(record.weight > 0, "{class} has weight 0 in the trace");
            let node = self.node(class);
            self.trace.nodes[node].weights.push((time, record.weight));
            return Ok(());
        }
        let leaf = self.leaf(record);
        let start = self.trace.start_ns;
        // A leaf first heard of by anything but "run" was runnable all the time.
        let runnable = self
            .runnable
            .entry(leaf)
            .or_insert(match record.kind.as_str() {
                "run" => None,
                _ => Some(start),
            });
        match record.kind.as_str() {
            "run" => *runnable = runnable.or(Some(time)),
            "sleep" => {
                if let Some(since) = runnable.take() {
                    self.runnable_until(leaf, since, time);
                }
            }
            "quantum" => {
                let since = *runnable.get_or_insert(time - record.length_ns);
                self.quantum(record, leaf, since);
            }
            kind => bail!("the trace has a record of kind {kind}, which is unknown"),
        }
        Ok(())
    }

    /// A record's length is CPU time, its end was read from another clock
    /// shortly after: the beginning is put where it cannot overlap.
    fn quantum(&mut self, record: &Record, leaf: usize, runnable_since: u64) {
        let until = self.served_until.entry(record.cpu).or_insert(0);
        let end_ns = record.time_ns;
        let start_ns = (end_ns - record.length_ns).max(*until).max(runnable_since);
        *until = end_ns;
        if start_ns < end_ns && start_ns >= self.trace.start_ns && end_ns <= self.trace.end_ns {
            self.trace.servers = self.trace.servers.max(record.cpu + 1);
            self.trace.quanta.push(Quantum {
                node: leaf,
                server: record.cpu,
                start_ns,
                end_ns,
                served_ns: record.length_ns,
            });
        }
    }

    fn runnable_until(&mut self, node: usize, since: u64, until: u64) {
        let start_ns = since.max(self.trace.start_ns);
        let end_ns = until.min(self.trace.end_ns);
        if start_ns < end_ns {
            self.trace.runnable.push(Interval {
                node,
                start_ns,
                end_ns,
            });
        }
    }

    fn finish(mut self) -> Trace {
        for (node, since) in std::mem::take(&mut self.runnable) {
            if let Some(since) = since {
                self.runnable_until(node, since, self.trace.end_ns);
            }
        }
        self.trim();
        self.trace
    }

    /// Quanta that were cut by the ends of the span are not known: the trace
    /// begins and ends with a whole one, or a processor would seem idle there.
    fn trim(&mut self) {
        let trace = &mut self.trace;
        let quanta = trace.quanta.iter();
        let first = quanta.clone().map(|q| q.start_ns).min();
        trace.start_ns = first.unwrap_or(trace.start_ns);
        trace.end_ns = quanta.map(|q| q.end_ns).max().unwrap_or(trace.end_ns);
        for interval in &mut trace.runnable {
            interval.start_ns = interval.start_ns.max(trace.start_ns);
            interval.end_ns = interval.end_ns.min(trace.end_ns);
        }
        trace.runnable.retain(|i| i.start_ns < i.end_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qlinux_core::bounds::{check, Options};

    const HEAD: &str = "time_ns,kind,cpu,tid,class,node,leaf,length_ns,start_tag,weight\n";

    fn weights() -> BTreeMap<String, u32> {
        ["/lab", "/lab/a", "/lab/b"]
            .map(|path| (path.to_owned(), 100))
            .into()
    }

    /// Quanta of 10 ms, taken in turn as `order` says.
    fn text(order: &str) -> String {
        let mut text = HEAD.to_owned();
        for class in ["a", "b"] {
            text += &format!("0,run,0,0,/lab/{class},0,0,0,0,0\n");
        }
        for (index, class) in order.chars().enumerate() {
            let end = (index + 1) * 10_000_000;
            text += &format!("{end},quantum,0,7,/lab/{class},0,0,10000000,0,0\n");
        }
        text
    }

    #[test]
    fn fair_and_unfair() {
        let fair = parse(&text("ababab"), &weights(), 0..u64::MAX).unwrap();
        assert_eq!(fair.quanta.len(), 6);
        assert_eq!(fair.nodes[fair.quanta[1].node].name, "/lab/b");
        let report = check(&fair, &Options::default());
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        let unfair = parse(&text("aaaaab"), &weights(), 0..u64::MAX).unwrap();
        assert!(check(&unfair, &Options::default()).violations_total > 0);
    }

    #[test]
    fn what_came_before_only_says_who_is_runnable() {
        let trace = parse(&text("aaabab"), &weights(), 30_000_000..60_000_000).unwrap();
        assert_eq!((trace.start_ns, trace.end_ns), (30_000_000, 60_000_000));
        assert_eq!(trace.quanta.len(), 3);
        assert!(trace.runnable.iter().all(|i| i.start_ns == 30_000_000));
        assert!(check(&trace, &Options::default()).violations.is_empty());
    }

    #[test]
    fn a_quantum_cut_by_the_span_is_no_idle_time() {
        let trace = parse(&text("ababab"), &weights(), 15_000_000..58_000_000).unwrap();
        assert_eq!((trace.start_ns, trace.end_ns), (20_000_000, 50_000_000));
        assert_eq!(trace.quanta.len(), 3);
        assert!(trace
            .runnable
            .iter()
            .all(|i| i.start_ns >= 20_000_000 && i.end_ns <= 50_000_000));
        let report = check(&trace, &Options::default());
        assert!(report.violations.is_empty(), "{:?}", report.violations);
    }

    #[test]
    fn threads_of_an_inner_class_are_a_leaf_of_their_own() {
        let text = format!(
            "{HEAD}0,run,0,0,/,1,2,0,0,100\n10,quantum,0,7,/,1,2,10,0,100\n\
             10,run,0,0,/,1,3,0,0,10000\n20,quantum,0,8,/,1,3,10,0,10000\n"
        );
        let trace = parse(&text, &weights(), 0..u64::MAX).unwrap();
        let node = &trace.nodes[trace.quanta[0].node];
        assert_eq!((node.name.as_str(), node.parent), ("/(leaf 2)", Some(0)));
        let kernel = &trace.nodes[trace.quanta[1].node];
        assert_eq!(
            (kernel.name.as_str(), kernel.weights[0].1),
            ("/(leaf 3)", 10_000)
        );
    }

    #[test]
    fn damaged() {
        assert!(parse(HEAD, &weights(), 0..u64::MAX).is_err());
        assert!(parse(
            &format!("{HEAD}1,who,0,0,/lab,0,0,0,0,0\n"),
            &weights(),
            0..u64::MAX
        )
        .is_err());
        assert!(parse(&format!("{HEAD}x\n"), &weights(), 0..u64::MAX).is_err());
    }
}
