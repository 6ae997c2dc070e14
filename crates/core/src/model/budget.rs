// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes that get no more than their budget, and nodes that get what others leave.

use super::{Model, Node, ROOT};
use crate::{Error, Limit, NodeId, Result, LENGTH_MAX_NS};

/// A budget as cpu.max defines it: at the beginning of every period the quota is added, and at
/// most quota and burst are kept.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    limit: Limit,
    pub left: i128,
    /// What there was no room for when the present period began.
    over: i128,
    /// Number of the present period.
    period: u64,
}

impl Budget {
    fn refill(&mut self, now_ns: u64) {
        let quota = i128::from(self.limit.quota_ns);
        let most = quota + i128::from(self.limit.burst_ns);
        let present = now_ns / self.limit.period_ns;
        while self.period < present {
            let full = self.left == most;
            self.left += quota;
            self.over = (self.left - most).max(0);
            self.left -= self.over;
            // Once it was full before a period began it stays so.
            self.period = if full { present } else { self.period + 1 };
        }
    }

    /// Of service that ends now, what was in earlier periods is paid by what these left over.
    fn charge(&mut self, length_ns: u64, now_ns: u64) {
        self.refill(now_ns);
        let length = i128::from(length_ns.min(1 << 60));
        let since = i128::from(self.period) * i128::from(self.limit.period_ns);
        let before = length - (i128::from(now_ns) - since).clamp(0, length);
        let paid = before.min(self.over);
        self.over -= paid;
        self.left -= length - paid;
    }
}

impl Model {
    /// Service of an idle node counts tenfold: its weight is 3, and not 3/10.
    pub(super) fn counts(&self, n: usize, length_ns: u64) -> u64 {
        match self.at(n).idle {
            true => length_ns.min(LENGTH_MAX_NS) * 10,
            false => length_ns,
        }
    }

    /// Whether the running leaf, and not the waiting one, is below an idle node where they part.
    pub(super) fn yields(&self, waiting: usize, running: usize) -> bool {
        let (w, r) = (self.path(waiting), self.path(running));
        let parted = w.iter().rev().zip(r.iter().rev()).find(|(a, b)| a != b);
        parted.is_some_and(|(&w, &r)| self.at(r).idle && !self.at(w).idle)
    }

    pub(super) fn is_held(&self, n: usize) -> bool {
        self.path(n).iter().any(|&n| self.at(n).held)
    }

    /// The node stops being held: if anything below it is runnable or waits, it is.
    pub(super) fn unhold(&mut self, n: usize) {
        self.at_mut(n).held = false;
        let leaf = self.at(n).leaf;
        let below = |is: fn(&Node) -> bool| self.children(n).any(|(_, c)| is(c));
        let runnable = below(|c| c.runnable) || (leaf && self.runnable_members(n).next().is_some());
        let waits = below(|c| c.ready) || (leaf && self.waits(n));
        if runnable {
            self.activate(n);
        }
        if waits {
            self.show(n);
        }
    }

    /// Nobody below the node may be served.
    pub(super) fn hold(&mut self, n: usize) {
        let parents: Vec<usize> = self.path(n);
        self.at_mut(n).held = true;
        for &m in &parents {
            let ready = !self.at(m).held && m != n && self.children(m).any(|(_, c)| c.ready);
            self.at_mut(m).ready = ready;
        }
        self.retire_path(n);
    }

    /// Nodes from this one upwards stop being runnable where nothing below them is.
    pub(super) fn retire_path(&mut self, from: usize) {
        for n in self.path(from) {
            let still = n != from && self.children(n).any(|(_, c)| c.runnable);
            if still || !self.at(n).runnable {
                break;
            }
            self.at_mut(n).runnable = false;
            let parent = self.at(n).parent;
            if self.children(parent).all(|(_, c)| !c.runnable) {
                self.at_mut(parent).clock.idle();
            }
        }
    }

    /// Somebody below the node waits: it may be chosen, and so may those above it.
    pub(super) fn show(&mut self, from: usize) {
        if self.at(from).passed.is_some() {
            return;
        }
        for n in self.path(from) {
            if self.at(n).held {
                break;
            }
            if !self.at(n).ready {
                self.enter(n);
            }
        }
    }

    pub(super) fn charge_budgets(&mut self, leaf: usize, length_ns: u64) {
        let now_ns = self.now_ns;
        for n in self.path(leaf) {
            let held = self.at(n).held;
            let Some(budget) = &mut self.at_mut(n).budget else {
                continue;
            };
            budget.charge(length_ns, now_ns);
            if budget.left <= 0 && !held {
                self.hold(n);
            }
        }
    }

    pub(super) fn limit_node(&mut self, n: NodeId, limit: Option<Limit>) -> Result<()> {
        let i = self.find(n)?;
        if i == ROOT {
            return Err(Error::RootLimit(n));
        }
        let budget = match limit {
            None => None,
            Some(l) if l.quota_ns == 0 => None,
            Some(l) => {
                let most = l.quota_ns.max(l.period_ns).max(l.burst_ns);
                if l.period_ns == 0 || most > 1 << 60 {
                    return Err(Error::Budget);
                }
                Some(Budget {
                    limit: l,
                    left: i128::from(l.quota_ns),
                    over: 0,
                    period: self.now_ns / l.period_ns,
                })
            }
        };
        if self.at(i).held {
            self.unhold(i);
        }
        self.at_mut(i).budget = budget;
        Ok(())
    }

    pub(super) fn release_nodes(&mut self) -> Option<u64> {
        let now_ns = self.now_ns;
        let mut next = None;
        for n in 1..self.nodes.len() {
            let Some(node) = self.nodes[n].as_mut().filter(|n| n.held) else {
                continue;
            };
            let budget = node.budget.as_mut().expect("only a limited node is held");
            budget.refill(now_ns);
            if budget.left > 0 {
                self.unhold(n);
            } else {
                let end = (budget.period + 1) * budget.limit.period_ns;
                next = Some(next.map_or(end, |t: u64| t.min(end)));
            }
        }
        next
    }
}
