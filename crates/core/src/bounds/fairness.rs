// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fairness among the children of each node.
//!
//! Let D = W_f·w_m − W_m·w_f. Over all intervals within a time in which the
//! premises hold, |D(t₂) − D(t₁)| is largest between D's maximum and minimum,
//! and D is linear between the beginnings and ends of quanta. So one pass that
//! keeps both for every pair covers all intervals, in O(quanta · siblings).

use super::index::{Index, Service};
use super::{Kind, Options, Report};

/// Extremes of D since the premises hold.
#[derive(Clone, Copy, Default)]
struct Extremes {
    /// Chosen since both are eligible: the child with the lower place, the other one.
    chosen: [bool; 2],
    least: i128,
    most: i128,
    least_ns: u64,
    most_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    // In this order at one moment: service up to it, then who is eligible.
    Stop(usize),
    Serve(usize),
    NotEligible,
    Weight,
    Eligible,
}

struct Siblings<'a> {
    index: &'a Index<'a>,
    ids: &'a [usize],
    weights: Vec<u32>,
    served: Vec<i128>,
    /// By child: its quanta in service, and how much of each is counted.
    in_service: Vec<Vec<(usize, u64)>>,
    eligible: Vec<bool>,
    extremes: Vec<Extremes>,
    factor: i128,
    /// By child.
    slack_ns: Vec<i128>,
}

impl<'a> Siblings<'a> {
    fn new(index: &'a Index<'a>, ids: &'a [usize], options: &Options) -> Siblings<'a> {
        let n = ids.len();
        let servers = i128::from(index.trace.servers);
        let length_ns = (index.trace.end_ns - index.trace.start_ns).max(1);
        let slack_ns = |&id: &usize| {
            let served_ns: u64 = index.service[id].iter().map(|s| s.served_ns).sum();
            let owed_ns = u128::from(2 * options.owed_ns) * u128::from(served_ns);
            i128::from(options.slack_ns) + owed_ns.div_ceil(length_ns.into()) as i128
        };
        Siblings {
            index,
            ids,
            weights: ids
                .iter()
                .map(|&id| index.weight(id, index.trace.start_ns))
                .collect(),
            served: vec![0; n],
            in_service: vec![Vec::new(); n],
            eligible: vec![false; n],
            extremes: vec![Extremes::default(); n * n],
            factor: if servers == 1 { 1 } else { servers + 1 },
            slack_ns: ids.iter().map(slack_ns).collect(),
        }
    }

    fn service(&self, child: usize, quantum: usize) -> Service {
        self.index.service[self.ids[child]][quantum]
    }

    fn difference(&self, f: usize, m: usize) -> i128 {
        self.served[f] * i128::from(self.weights[m]) - self.served[m] * i128::from(self.weights[f])
    }

    /// Counts the child's service up to `t` and looks at all its pairs.
    fn advance(&mut self, child: usize, t: u64) {
        let mut more = 0;
        for i in 0..self.in_service[child].len() {
            let (quantum, counted) = self.in_service[child][i];
            let now = self.service(child, quantum).until(t);
            more += i128::from(now - counted);
            self.in_service[child][i].1 = now;
        }
        self.served[child] += more;
        if more == 0 || !self.eligible[child] {
            return;
        }
        for other in 0..self.ids.len() {
            if other != child && self.eligible[other] {
                self.look(child.min(other), child.max(other), t);
            }
        }
    }

    /// On one server the premises hold as soon as both are runnable. On several, a
    /// child that could not use all servers may lag behind; but once each was
    /// chosen while the other one waited, neither is further ahead than its
    /// quanta in service.
    fn holds(&self, f: usize, m: usize) -> bool {
        self.factor == 1 || self.extremes[f * self.ids.len() + m].chosen == [true; 2]
    }

    fn choose(&mut self, child: usize, t: u64) {
        for other in 0..self.ids.len() {
            let (f, m) = (child.min(other), child.max(other));
            if other == child || !self.eligible[other] || !self.eligible[child] {
                continue;
            }
            let before = self.holds(f, m);
            self.extremes[f * self.ids.len() + m].chosen[usize::from(child == m)] = true;
            if !before && self.holds(f, m) {
                self.begin(f, m, t);
            }
        }
    }

    fn look(&mut self, f: usize, m: usize, t: u64) {
        if !self.holds(f, m) {
            return;
        }
        let d = self.difference(f, m);
        let e = &mut self.extremes[f * self.ids.len() + m];
        if d < e.least {
            (e.least, e.least_ns) = (d, t);
        }
        if d > e.most {
            (e.most, e.most_ns) = (d, t);
        }
    }

    fn begin(&mut self, f: usize, m: usize, t: u64) {
        let d = self.difference(f, m);
        let e = &mut self.extremes[f * self.ids.len() + m];
        *e = Extremes {
            chosen: e.chosen,
            least: d,
            most: d,
            least_ns: t,
            most_ns: t,
        };
    }

    /// The time in which the premises held for this pair is over.
    fn end(&self, f: usize, m: usize, report: &mut Report) {
        let e = self.extremes[f * self.ids.len() + m];
        if e.least == e.most {
            return;
        }
        let (wf, wm) = (i128::from(self.weights[f]), i128::from(self.weights[m]));
        let longest = |child: usize| i128::from(self.index.longest_ns[self.ids[child]]);
        // Tags are rounded to whole units: less than 2/1024 ns per unit of weight each.
        let rounding = 4 * wf * wm / 1024 + 1;
        let bound = self.factor * (longest(f) * wm + longest(m) * wf)
            + rounding
            + self.slack_ns[f] * wm
            + self.slack_ns[m] * wf;
        let unit = (wf * wm) as f64;
        let seen = ((e.most - e.least) as f64 / unit, bound as f64 / unit);
        let span = (e.least_ns.min(e.most_ns), e.least_ns.max(e.most_ns));
        report.add(Kind::Fairness, seen, span, || {
            let (f, m) = if e.least_ns < e.most_ns {
                (f, m)
            } else {
                (m, f)
            };
            let name = |child: usize| self.index.name(self.ids[child]);
            let weight = |child: usize| self.weights[child];
            format!(
                "{} (weight {}) is ahead of {} (weight {}), per unit of weight,",
                name(f),
                weight(f),
                name(m),
                weight(m)
            )
        });
    }

    fn set_eligible(&mut self, child: usize, eligible: bool, t: u64, report: &mut Report) {
        for other in 0..self.ids.len() {
            if other == child || !self.eligible[other] {
                continue;
            }
            let (f, m) = (child.min(other), child.max(other));
            if eligible {
                self.extremes[f * self.ids.len() + m].chosen = [false; 2];
                self.begin(f, m, t);
            } else {
                self.end(f, m, report);
            }
        }
        self.eligible[child] = eligible;
    }

    fn apply(&mut self, t: u64, child: usize, what: What, report: &mut Report) {
        for i in 0..self.ids.len() {
            if !self.in_service[i].is_empty() {
                self.advance(i, t);
            }
        }
        match what {
            What::Serve(quantum) => {
                self.in_service[child].push((quantum, 0));
                self.choose(child, t);
            }
            What::Stop(quantum) => self.in_service[child].retain(|s| s.0 != quantum),
            What::NotEligible => self.set_eligible(child, false, t, report),
            What::Eligible => self.set_eligible(child, true, t, report),
            What::Weight => {
                let eligible = self.eligible[child];
                if eligible {
                    self.set_eligible(child, false, t, report);
                }
                self.weights[child] = self.index.weight(self.ids[child], t);
                if eligible {
                    self.set_eligible(child, true, t, report);
                }
            }
        }
    }
}

pub fn check(index: &Index<'_>, options: &Options, report: &mut Report) {
    let eligible = if index.trace.servers == 1 {
        &index.runnable
    } else {
        &index.waiting
    };
    for &parent in &index.order {
        let ids = &index.children[parent];
        if ids.len() < 2 {
            continue;
        }
        let mut events = Vec::new();
        for (child, &id) in ids.iter().enumerate() {
            for (i, s) in index.service[id].iter().enumerate() {
                events.push((s.start_ns, What::Serve(i), child));
                events.push((s.end_ns, What::Stop(i), child));
            }
            for &(start, end) in &eligible[id] {
                events.push((start, What::Eligible, child));
                events.push((end, What::NotEligible, child));
            }
            for &(t, _) in &index.trace.nodes[id].weights {
                events.push((t, What::Weight, child));
            }
        }
        events.sort_unstable();
        let mut siblings = Siblings::new(index, ids, options);
        for (t, what, child) in events {
            siblings.apply(t, child, what, report);
        }
    }
}
