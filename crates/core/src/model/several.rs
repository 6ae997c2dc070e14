// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long quanta are, and with several servers whose goes on.

use super::{id, Clock, Flow, Model, Node, ROOT};
use crate::engine::{Engine, ThreadId};
use crate::{NodeId, Policy, Result, LENGTH_MAX_NS, TAG_SHIFT};

impl Model {
    /// Lets newcomers come before those who were ready, among equal start tags.
    pub fn newcomers_first(&mut self) {
        self.newcomers_first = true;
    }

    /// Does a server have a leaf on its list of those passed over?
    pub(super) fn passing(&self) -> bool {
        self.nodes.iter().flatten().any(|n| n.passed.is_some())
    }

    /// The leaf with the least start tags; where `moves`, v(t) of its path comes to them.
    pub(super) fn choose(&mut self, moves: bool) -> Option<NodeId> {
        let mut n = ROOT;
        while !self.at(n).leaf {
            let next = self.next_below(n)?;
            let start = self.start(next);
            if moves {
                self.at_mut(n).clock.serve(start);
            }
            n = next;
        }
        Some(id(n))
    }

    /// What the node's weights entitle it to of `period_ns`, beside those runnable now.
    pub(super) fn share_of(&self, n: usize, period_ns: u64) -> u64 {
        let mut share = u128::from(period_ns.min(LENGTH_MAX_NS));
        for n in self.path(n) {
            let Node { parent, weight, .. } = *self.at(n);
            let runnable = self.children(parent).filter(|(_, c)| c.runnable);
            let sum = runnable.map(|(_, c)| c.weight).sum::<u32>().max(weight);
            share = share * u128::from(weight) / u128::from(sum);
        }
        u64::try_from(share).expect("a share is not more than the whole")
    }

    /// Start tags of flows of this clock are not less, where those of `weights` are runnable:
    /// a flow of average weight is owed no more than the lag, and of what was before the last
    /// arrival no more than the old lag.
    fn least_of(&self, clock: Clock, servers: u32, weight: u32, weights: Vec<u32>) -> i128 {
        let (flows, sum) = (weights.len().max(1), weights.iter().sum::<u32>());
        let servers = u64::from(servers).max(self.tunables.lag_servers);
        let behind = |lag_ns: u64| {
            (i128::from(lag_ns * servers) << TAG_SHIFT) * flows as i128
                / i128::from(sum.max(weight))
        };
        let old = clock.arrival - behind(self.tunables.lag_old_ns);
        old.max(clock.v - behind(self.tunables.lag_ns))
    }

    /// What a thread of `leaf` is served before one that wakes in `waits_in` takes over.
    pub(super) fn peace(
        &self,
        waits_in: usize,
        waiting: ThreadId,
        leaf: usize,
        eager: bool,
    ) -> u64 {
        if eager && (waits_in != leaf || (self.servers > 1 && self.rested(waiting))) {
            return 0;
        }
        match waits_in == leaf {
            false => self.tunables.peace_ns,
            true if self.prompt(leaf) => 0,
            true if self.rested(waiting) => self.tunables.peace_ns,
            true => {
                self.tunables.peace_ns * u64::from(self.servers).min(self.tunables.peace_servers)
            }
        }
    }

    /// The turn of a thread of average weight, of so many.
    pub(super) fn turn_ns(&self, threads: usize) -> u64 {
        let turn_ns = self.tunables.round_ns / threads.max(1) as u64;
        turn_ns.clamp(self.tunables.turn_min_ns, self.tunables.quantum_ns)
    }

    pub(super) fn period_ns(&self) -> u64 {
        let leaves = self
            .nodes
            .iter()
            .flatten()
            .filter(|n| n.leaf && n.runnable)
            .count() as u64;
        let t = self.tunables;
        let period_ns = leaves * t.period_leaf_ns;
        period_ns.clamp(t.period_min_ns, t.period_max_ns) * u64::from(self.servers)
    }

    /// How long the thread, in service from now on, may go on.
    pub(super) fn quantum(&self, th: ThreadId) -> Result<u64> {
        let (leaf, _) = self.in_service(th)?;
        let mut length_ns = self.tunables.alone_ns;
        if self.waits(leaf) {
            length_ns = self.slice(th)?;
        }
        if self.prompt(leaf) {
            length_ns = length_ns.min(self.tunables.prompt_ns);
        }
        if self.contended(super::id(leaf))? {
            length_ns = length_ns.min(self.part_of_turn(leaf));
        }
        for n in self.path(leaf) {
            if let Some(budget) = self.at(n).budget {
                length_ns = length_ns.min(u64::try_from(budget.left).unwrap_or(0));
            }
        }
        Ok(length_ns.max(self.tunables.least_ns))
    }

    /// Whether fewer than so many interruptions are still to be paid for.
    pub(super) fn is_calm_by(&self, calm_ns: u64) -> bool {
        calm_ns.saturating_sub(self.now_ns) < self.tunables.eager * self.tunables.calm_ns
    }

    pub(super) fn quantum_left(
        &self,
        waiting: ThreadId,
        th: ThreadId,
        ran_ns: u64,
        eager: bool,
    ) -> Result<u64> {
        let ((waits_in, _), (leaf, _)) = (self.runnable(waiting)?, self.in_service(th)?);
        if !self.is_held(waits_in) && self.yields(waits_in, leaf) {
            return Ok(0);
        }
        if self.is_held(waits_in) || !self.overtakes(waiting, th, ran_ns)? {
            return Model::quantum(self, th);
        }
        Ok(self.peace(waits_in, waiting, leaf, eager))
    }

    /// Whether the one in service has had its peace, and the one that waits comes before it.
    pub(super) fn ends(
        &self,
        waiting: ThreadId,
        th: ThreadId,
        ran_ns: u64,
        eager: bool,
    ) -> Result<bool> {
        let ((waits_in, _), (leaf, _)) = (self.runnable(waiting)?, self.in_service(th)?);
        let peace_ns = self.peace(waits_in, waiting, leaf, eager);
        Ok(peace_ns <= ran_ns && self.overtakes(waiting, th, ran_ns)?)
    }

    /// A millisecond of service of a thread of average weight.
    pub(super) fn near(&self, leaf: NodeId) -> Result<u64> {
        let leaf = self.find_leaf(leaf)?;
        let peers: Vec<u32> = self.runnable_members(leaf).map(|m| m.weight).collect();
        let ordered = matches!(self.at(leaf).policy, Policy::Sfq | Policy::Ts);
        let near_ns = i128::from(self.tunables.near_ns) * peers.len() as i128;
        let weights = peers.iter().sum::<u32>().max(1);
        Ok(u64::from(ordered) * ((near_ns << TAG_SHIFT) / i128::from(weights)) as u64)
    }

    /// The thread's start tag, or its place where there are none.
    pub(super) fn start_tag(&self, th: ThreadId) -> i128 {
        let member = &self.members[th.0];
        match member.under {
            Policy::Sfq | Policy::Ts => member.flow.start(member.weight),
            _ => member.place,
        }
    }

    /// The thread comes behind others of its leaf.
    pub(super) fn gives_up(&mut self, th: ThreadId) -> Result<()> {
        let (leaf, member) = self.in_service(th)?;
        if !self.knows(leaf, member) {
            return Ok(());
        }
        match self.at(leaf).policy {
            Policy::Sfq | Policy::Ts => {
                let later = (i128::from(self.tunables.yield_ns) << TAG_SHIFT) / 100;
                let flow = Flow::at(self.start_tag(th) + later);
                self.members[th.0].flow = flow;
                self.recount(th.0, leaf);
            }
            Policy::Rr | Policy::Fifo => self.request(th.0, leaf),
            Policy::Svr4 => self.svr4_yields(th.0, leaf),
            Policy::Edf | Policy::Rm if member.reservation.is_none() => {
                self.timed_request(th.0, leaf, true);
            }
            Policy::Edf | Policy::Rm => {}
        }
        let start = self.start_tag(th);
        self.at_mut(leaf).clock.finished(start);
        Ok(())
    }

    /// Whether the thread used little of its share when it woke.
    fn rested(&self, th: ThreadId) -> bool {
        self.members[th.0].early > 0
    }

    /// What a child of the node that becomes runnable may be behind v(t).
    pub(super) fn credit(&self, parent: usize) -> i128 {
        if self.servers == 1 {
            return 0;
        }
        let runnable = self.children(parent).filter(|(_, c)| c.runnable);
        let weights: u32 = runnable.map(|(_, c)| c.weight).sum();
        (i128::from(self.tunables.credit_ns * u64::from(self.servers)) << TAG_SHIFT)
            / i128::from(weights)
    }

    pub(super) fn least(&self, n: usize) -> i128 {
        let Node { parent, weight, .. } = *self.at(n);
        let runnable = self.children(parent).filter(|(_, c)| c.runnable);
        let weights = runnable.map(|(_, c)| c.weight).collect();
        self.least_of(self.at(parent).clock, self.servers, weight, weights)
    }

    pub(super) fn least_of_members(&self, leaf: usize, weight: u32) -> i128 {
        let weights = self.runnable_members(leaf).map(|m| m.weight).collect();
        self.least_of(self.at(leaf).clock, 1, weight, weights)
    }

    /// The turn of the leaf, divided among its threads in service; the deeper the shorter, with
    /// several servers.
    pub(super) fn part_of_turn(&self, leaf: usize) -> u64 {
        let served = self.runnable_members(leaf).filter(|m| !m.waiting).count() as u64;
        let part_ns = self.share_of(leaf, self.period_ns()) / served.max(1);
        match self.servers {
            1 => part_ns,
            _ => part_ns / u64::from(1 + self.at(leaf).depth / 2),
        }
    }

    /// Whether `th` comes before `running`, and they part below where `th` and `chosen` do.
    pub(super) fn outranks(
        &self,
        th: ThreadId,
        chosen: NodeId,
        running: ThreadId,
        ran_ns: u64,
    ) -> Result<bool> {
        let chosen = self.find_leaf(chosen)?;
        let (leaf, _) = self.runnable(th)?;
        let (runs_in, member) = self.in_service(running)?;
        let parted = self.parted(leaf, chosen).filter(|_| !self.is_held(leaf));
        let Some((apart, _)) = parted else {
            return Ok(false);
        };
        if leaf == runs_in {
            return Ok(self.key(th) < self.ahead(running, ran_ns)?);
        }
        Ok(self.parted(leaf, runs_in).is_some_and(|(a, b)| {
            self.at(a).depth > self.at(apart).depth
                && self.comes_first(a, b, ran_ns, member.planned_ns)
        }))
    }

    /// Whether the leaf of `th` is the next one of the class that is a sibling of one with
    /// `chosen` in it, and some node on the way is behind, and that class is at most two
    /// of its turns ahead.
    pub(super) fn goes_on(&self, th: ThreadId, chosen: NodeId) -> Result<bool> {
        let chosen = self.find_leaf(chosen)?;
        let (leaf, _) = self.runnable(th)?;
        let parted = self.parted(leaf, chosen).filter(|_| !self.is_held(leaf));
        let Some((class, _)) = parted else {
            return Ok(false);
        };
        let (mut n, mut behind) = (class, false);
        while n != leaf {
            let Some(next) = self.next_below(n) else {
                return Ok(false);
            };
            let rivals = self.children(n).filter(|(_, c)| c.runnable).count() > 1;
            behind |= rivals && self.start(next) < self.at(n).clock.v;
            n = next;
            if self.at(n).leaf && n != leaf {
                return Ok(false);
            }
        }
        let Node { parent, weight, .. } = *self.at(class);
        let turns_ns =
            i128::from(self.tunables.turns_ahead * self.share_of(class, self.period_ns()));
        let ahead = self.start(class) - self.at(parent).clock.v;
        Ok(behind && ahead <= (turns_ns << TAG_SHIFT) / i128::from(weight))
    }
}
