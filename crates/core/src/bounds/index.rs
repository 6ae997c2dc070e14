// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace sorted by node, and what is wrong with it if it cannot be sorted.

use super::{Interval, Quantum, Trace};

/// Service of a node: its own quanta, or those of all nodes below it.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    pub start_ns: u64,
    pub end_ns: u64,
    pub served_ns: u64,
}

impl Service {
    /// Service received up to time `t`, spread evenly over the quantum.
    pub fn until(&self, t: u64) -> u64 {
        if t >= self.end_ns {
            return self.served_ns;
        }
        let past = u128::from(t.saturating_sub(self.start_ns));
        (u128::from(self.served_ns) * past / u128::from(self.end_ns - self.start_ns)) as u64
    }
}

pub struct Index<'a> {
    pub trace: &'a Trace,
    pub children: Vec<Vec<usize>>,
    /// The root first, every node after its parent.
    pub order: Vec<usize>,
    /// By node, by start time.
    pub service: Vec<Vec<Service>>,
    /// Longest service at once, by node.
    pub longest_ns: Vec<u64>,
    /// By node, by time, merged over all nodes below; neighbours that touch stay apart.
    pub runnable: Vec<Vec<(u64, u64)>>,
    /// Likewise, when a thread below waited.
    pub waiting: Vec<Vec<(u64, u64)>>,
}

impl<'a> Index<'a> {
    pub fn new(trace: &'a Trace) -> Result<Index<'a>, String> {
        let order = top_down(trace)?;
        let n = trace.nodes.len();
        let mut children = vec![Vec::new(); n];
        for (i, node) in trace.nodes.iter().enumerate() {
            if let Some(p) = node.parent {
                children[p].push(i);
            }
            if node.weights.is_empty() || !node.weights.is_sorted_by_key(|w| w.0) {
                return Err(format!("{} has no weights in order of time", node.name));
            }
            if node.weights.iter().any(|w| w.1 == 0) {
                return Err(format!("{} has weight 0", node.name));
            }
        }
        let ancestors = |i: usize| std::iter::successors(Some(i), |&i| trace.nodes[i].parent);
        let mut service = vec![Vec::new(); n];
        let mut longest_ns = vec![0u64; n];
        for q in &trace.quanta {
            check_quantum(trace, &children, q)?;
            for i in ancestors(q.node) {
                service[i].push(Service {
                    start_ns: q.start_ns,
                    end_ns: q.end_ns,
                    served_ns: q.served_ns,
                });
                longest_ns[i] = longest_ns[i].max(q.served_ns);
            }
        }
        for list in &mut service {
            list.sort_by_key(|s| (s.start_ns, s.end_ns));
        }
        check_servers(trace)?;
        let runnable = merged(trace, &trace.runnable)?;
        let waiting = merged(trace, &trace.waiting)?;
        let index = Index {
            trace,
            children,
            order,
            service,
            longest_ns,
            runnable,
            waiting,
        };
        index.check_served_while_runnable()?;
        Ok(index)
    }

    /// A node's weight at a time.
    pub fn weight(&self, node: usize, t: u64) -> u32 {
        let weights = &self.trace.nodes[node].weights;
        let later = weights.partition_point(|w| w.0 <= t);
        weights[later.saturating_sub(1)].1
    }

    pub fn name(&self, node: usize) -> &str {
        &self.trace.nodes[node].name
    }

    fn check_served_while_runnable(&self) -> Result<(), String> {
        for q in &self.trace.quanta {
            let spans = &self.runnable[q.node];
            let later = spans.partition_point(|s| s.0 <= q.start_ns);
            if later == 0 || spans[later - 1].1 < q.end_ns {
                return Err(format!(
                    "{} is served from {} to {} ns, but was not runnable all that time",
                    self.name(q.node),
                    q.start_ns,
                    q.end_ns
                ));
            }
        }
        Ok(())
    }
}

fn top_down(trace: &Trace) -> Result<Vec<usize>, String> {
    let mut depth = Vec::with_capacity(trace.nodes.len());
    for node in &trace.nodes {
        let (mut d, mut parent) = (0, node.parent);
        while let Some(p) = parent {
            if p >= trace.nodes.len() || d > trace.nodes.len() {
                return Err(format!("{} is not below the root", node.name));
            }
            (d, parent) = (d + 1, trace.nodes[p].parent);
        }
        depth.push(d);
    }
    if depth.iter().filter(|&&d| d == 0).count() != 1 {
        return Err("there is not one root".into());
    }
    let mut order: Vec<usize> = (0..trace.nodes.len()).collect();
    order.sort_by_key(|&i| depth[i]);
    Ok(order)
}

fn check_quantum(trace: &Trace, children: &[Vec<usize>], q: &Quantum) -> Result<(), String> {
    let Some(node) = trace.nodes.get(q.node) else {
        return Err(format!(
            "a quantum names node {}, which does not exist",
            q.node
        ));
    };
    if !children[q.node].is_empty() {
        return Err(format!("{} is served itself and has children", node.name));
    }
    if q.end_ns <= q.start_ns || q.start_ns < trace.start_ns || q.end_ns > trace.end_ns {
        return Err(format!(
            "{} is served from {} to {} ns",
            node.name, q.start_ns, q.end_ns
        ));
    }
    if q.server >= trace.servers {
        return Err(format!("{} is served by server {}", node.name, q.server));
    }
    Ok(())
}

/// A server serves one at a time.
fn check_servers(trace: &Trace) -> Result<(), String> {
    let mut quanta: Vec<&Quantum> = trace.quanta.iter().collect();
    quanta.sort_by_key(|q| (q.server, q.start_ns));
    for pair in quanta.windows(2) {
        if pair[0].server == pair[1].server && pair[1].start_ns < pair[0].end_ns {
            return Err(format!(
                "server {} serves {} and {} at {} ns",
                pair[0].server,
                trace.nodes[pair[0].node].name,
                trace.nodes[pair[1].node].name,
                pair[1].start_ns
            ));
        }
    }
    Ok(())
}

/// For every node, when the condition held for at least one node at or below it.
fn merged(trace: &Trace, intervals: &[Interval]) -> Result<Vec<Vec<(u64, u64)>>, String> {
    let mut spans = vec![Vec::new(); trace.nodes.len()];
    for i in intervals {
        if i.node >= trace.nodes.len() || i.end_ns < i.start_ns {
            return Err(format!("interval {i:?} is not one of a node"));
        }
        let mut n = Some(i.node);
        while let Some(node) = n.filter(|_| i.end_ns > i.start_ns) {
            spans[node].push((i.start_ns, i.end_ns));
            n = trace.nodes[node].parent;
        }
    }
    for list in &mut spans {
        list.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(list.len());
        for &(start, end) in list.iter() {
            match joined.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        *list = joined;
    }
    Ok(spans)
}
