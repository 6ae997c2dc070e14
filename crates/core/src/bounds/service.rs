// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput, delay and work conservation, from the root down.

use super::index::{Index, Service};
use super::{Kind, Options, Report};

/// A server with fluctuating capacity: W ≥ rate·t − delta while it is busy.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    rate: f64,
    delta: f64,
}

/// Time between two changes of any weight.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start_ns: u64,
    end_ns: u64,
    /// Nothing was served before it.
    fresh: bool,
}

fn segments(index: &Index<'_>) -> Vec<Segment> {
    let trace = index.trace;
    let changes = trace
        .nodes
        .iter()
        .flat_map(|n| n.weights.iter().map(|w| w.0));
    let mut cuts: Vec<u64> = changes
        .filter(|&t| t > trace.start_ns && t < trace.end_ns)
        .collect();
    cuts.extend([trace.start_ns, trace.end_ns]);
    cuts.sort_unstable();
    cuts.dedup();
    let fresh = |start_ns| trace.fresh && start_ns == trace.start_ns;
    let cut = |w: &[u64]| Segment {
        start_ns: w[0],
        end_ns: w[1],
        fresh: fresh(w[0]),
    };
    cuts.windows(2).map(cut).collect()
}

/// The parts of `spans` within the segment.
fn within(spans: &[(u64, u64)], segment: Segment) -> impl Iterator<Item = (u64, u64)> + '_ {
    let first = spans.partition_point(|s| s.1 <= segment.start_ns);
    spans[first..]
        .iter()
        .take_while(move |s| s.0 < segment.end_ns)
        .map(move |s| (s.0.max(segment.start_ns), s.1.min(segment.end_ns)))
}

/// The greatest shortfall of service against `rate`, over all intervals within
/// `span`: G(t) = rate·t − W(t) rises while there is no service. Returns it and
/// the interval it was seen in. `service` must not overlap itself.
fn shortfall(service: &[Service], span: (u64, u64), rate: f64) -> (f64, (u64, u64)) {
    let first = service.partition_point(|s| s.end_ns <= span.0);
    let (mut least, mut least_ns) = (0.0, span.0);
    let mut worst = (0.0, span);
    let mut served = 0.0;
    let g = |t: u64, served: f64| rate * (t - span.0) as f64 - served;

    for s in &service[first..] {
        if s.start_ns >= span.1 {
            break;
        }
        let (start, end) = (s.start_ns.max(span.0), s.end_ns.min(span.1));
        if g(start, served) - least > worst.0 {
            worst = (g(start, served) - least, (least_ns, start));
        }
        served += (s.until(end) - s.until(start)) as f64;
        if g(end, served) < least {
            (least, least_ns) = (g(end, served), end);
        }
        if g(end, served) - least > worst.0 {
            worst = (g(end, served) - least, (least_ns, end));
        }
    }
    if g(span.1, served) - least > worst.0 {
        worst = (g(span.1, served) - least, (least_ns, span.1));
    }
    worst
}

/// One child of a node in one segment.
struct Child<'a> {
    index: &'a Index<'a>,
    id: usize,
    segment: Segment,
    /// The parent's.
    server: Capacity,
    /// Its own, r_f and δ_f.
    own: Capacity,
    /// Σ l_n of its siblings, without it.
    others_ns: f64,
    slack: f64,
}

impl Child<'_> {
    fn check_throughput(&self, report: &mut Report) {
        for span in within(&self.index.runnable[self.id], self.segment) {
            let service = &self.index.service[self.id];
            let (observed, seen) = shortfall(service, span, self.own.rate);
            report.add(Kind::Throughput, (observed, self.own.delta), seen, || {
                let name = self.index.name(self.id);
                format!("{name} misses service of its rate of {:.4}", self.own.rate)
            });
        }
    }

    fn check_delay(&self, report: &mut Report) {
        let spans = &self.index.runnable[self.id];
        let service = &self.index.service[self.id];
        let (start_ns, end_ns) = (self.segment.start_ns, self.segment.end_ns);
        // What it may be ahead of v(t) from before the weights changed.
        let lead = self.index.longest_ns[self.id] as f64 / self.own.rate;
        let mut eat = if self.segment.fresh {
            0.0
        } else {
            start_ns as f64 + lead
        };
        let first = service.partition_point(|s| s.end_ns <= start_ns);
        let mut previous_end = 0;

        for s in service[first..].iter().take_while(|s| s.end_ns <= end_ns) {
            let span = spans.partition_point(|r| r.0 <= s.start_ns) - 1;
            let requested = previous_end.max(spans[span].0).max(start_ns);
            eat = f64::max(eat, requested as f64);
            let due = eat
                + (self.others_ns + s.served_ns as f64 + self.server.delta + self.slack)
                    / self.server.rate;
            let took = (s.end_ns as f64 - eat, due - eat);
            report.add(Kind::Delay, took, (requested, s.end_ns), || {
                format!("{} gets a quantum late", self.index.name(self.id))
            });
            eat += s.served_ns as f64 / self.own.rate;
            previous_end = s.end_ns;
        }
    }
}

/// Checks the children of a node that is served with this capacity, and all below them.
fn descend(
    index: &Index<'_>,
    node: usize,
    segment: Segment,
    server: Capacity,
    options: &Options,
    report: &mut Report,
) {
    let taking_part: Vec<usize> = index.children[node]
        .iter()
        .copied()
        .filter(|&c| within(&index.runnable[c], segment).next().is_some())
        .collect();
    let weight = |c: usize| f64::from(index.weight(c, segment.start_ns));
    let longest = |c: usize| index.longest_ns[c] as f64;
    let weights: f64 = taking_part.iter().map(|&c| weight(c)).sum();
    let all_ns: f64 = taking_part.iter().map(|&c| longest(c)).sum();
    // Tags are rounded to whole units of 1/1024 ns per unit of weight; and
    // the sums here to 53 bits.
    let slack = 4.0 * weights / 1024.0 + 4.0 + options.slack_ns as f64;

    for &id in &taking_part {
        let rate = server.rate * weight(id) / weights;
        let delta = rate / server.rate * (all_ns + server.delta) + longest(id) + slack;
        let own = Capacity { rate, delta };
        let others_ns = all_ns - longest(id);
        let child = Child {
            index,
            id,
            segment,
            server,
            own,
            others_ns,
            slack,
        };
        child.check_throughput(report);
        child.check_delay(report);
        descend(index, id, segment, own, options, report);
    }
}

/// No server is idle while a thread waits.
fn check_work(index: &Index<'_>, options: &Options, report: &mut Report) {
    let root = index.order[0];
    let servers = index.trace.servers;
    let spans = if servers == 1 {
        &index.runnable[root]
    } else {
        &index.waiting[root]
    };
    let allowed = (options.delta_ns + options.slack_ns) as f64 + 4.0;

    for server in 0..servers {
        let quanta = index.trace.quanta.iter().filter(|q| q.server == server);
        let mut service: Vec<Service> = quanta
            .map(|q| Service {
                start_ns: q.start_ns,
                end_ns: q.end_ns,
                served_ns: q.served_ns,
            })
            .collect();
        service.sort_by_key(|s| s.start_ns);
        for &span in spans {
            let (observed, seen) = shortfall(&service, span, options.rate);
            report.add(Kind::Work, (observed, allowed), seen, || {
                format!("server {server} idles while threads wait")
            });
        }
    }
}

pub fn check(index: &Index<'_>, options: &Options, report: &mut Report) {
    check_work(index, options, report);
    if index.trace.servers != 1 {
        return;
    }
    let server = Capacity {
        rate: options.rate,
        delta: options.delta_ns as f64,
    };
    for segment in segments(index) {
        descend(index, index.order[0], segment, server, options, report);
    }
}
