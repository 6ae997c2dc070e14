// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the threads of a leaf under `ts` are on average, and who is behind that.

use super::{Flow, Member, Model};
use crate::{Policy, TAG_SHIFT};

/// Tags count in so many of their units.
const UNIT: i128 = 1 << 12;

fn ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

impl Model {
    /// The mean of the leaf's start tags by weight, rounded up; v(t) where there are none.
    fn mean(&self, leaf: usize) -> i128 {
        let counted = || self.runnable_members(leaf).filter_map(|m| m.counted);
        let weights: i128 = counted().map(|(weight, _)| i128::from(weight)).sum();
        let sum: i128 = counted()
            .map(|(weight, tag)| i128::from(weight) * ceil(tag, UNIT))
            .sum();
        match weights {
            0 => self.at(leaf).clock.v,
            _ => ceil(sum, weights) * UNIT,
        }
    }

    /// The thread is runnable under `ts`, and its start tag or its weight has changed.
    pub(super) fn count(&mut self, th: usize) {
        let member = &mut self.members[th];
        member.counted = Some((member.weight, member.flow.start(member.weight)));
    }

    /// The weight of a thread under `ts` changes. What it is ahead of the mean by keeps its length,
    /// but becomes no longer than a turn.
    pub(super) fn weigh_shared(&mut self, th: usize, leaf: usize, to: u32) {
        let mean = self.mean(leaf);
        let member = &self.members[th];
        let (from, start) = (member.weight, member.flow.start(member.weight));
        let peers = self.runnable_members(leaf).count();
        let turn = (i128::from(self.turn_ns(peers)) << TAG_SHIFT) / i128::from(to);
        let ahead = start - mean;
        let tag = match ahead > 0 {
            true => mean + (ahead * i128::from(from) / i128::from(to)).min(ahead.max(turn)),
            false => start,
        };
        (self.members[th].flow, self.members[th].lag) = (Flow::at(tag), 0);
        self.at_mut(leaf).clock.finished(tag);
    }

    /// It is about to go to sleep.
    pub(super) fn keep_lag(&mut self, th: usize, leaf: usize) {
        let Some((_, tag)) = self.members[th].counted else {
            return;
        };
        let turn_ns = self.turn_ns(self.runnable_members(leaf).count());
        let mean = self.mean(leaf);
        let member = &mut self.members[th];
        let turn = (i128::from(turn_ns) << TAG_SHIFT) / i128::from(member.weight);
        member.lag = (mean - tag).clamp(0, turn);
        member.counted = None;
    }

    /// The thread, runnable, asks for service under `ts`.
    pub(super) fn request_shared(&mut self, th: usize, leaf: usize, known: bool) {
        self.members[th].counted = None;
        let lag = i128::from(known) * self.members[th].lag;
        let (least, v) = (self.mean(leaf) - lag, self.at(leaf).clock.v);
        self.at_mut(leaf).clock.arrival = least.min(v);
        let asked_before = known && self.members[th].last_ns > 0;
        let saved_ns = if asked_before {
            self.saved(th, leaf)
        } else {
            0
        };
        let left_ns = u64::from(known) * self.members[th].left_ns + saved_ns;
        let left_ns = left_ns.min(4 * self.tunables.rested_ns);
        let turn_ns = self.turn_ns(self.runnable_members(leaf).count() - 1);
        let (rested_ns, now_ns) = (self.tunables.rested_ns, self.now_ns);
        let member = &mut self.members[th];
        match asked_before {
            true => member.flow.request(least, member.weight),
            false => member.flow = Flow::at(least),
        }
        let start = member.flow.start(member.weight);
        let first = start.min(v) - (i128::from(turn_ns) << TAG_SHIFT) / 100;
        member.early = i128::from(left_ns >= rested_ns) * (start - first);
        (member.left_ns, member.last_ns, member.lag) = (left_ns, now_ns, 0);
        self.at_mut(leaf).clock.finished(start);
        self.count(th);
    }

    /// What the thread could have had while it slept; of several servers, a quarter.
    fn saved(&self, th: usize, leaf: usize) -> u64 {
        let Member {
            weight, last_ns, ..
        } = self.members[th];
        let peers = || self.runnable_members(leaf);
        let weights: u32 = peers().map(|m| m.weight).sum();
        // It is runnable itself by now, and does not wait yet.
        let served = peers().filter(|m| !m.waiting).count().saturating_sub(1);
        let asleep = u128::from((self.now_ns - last_ns).min(1 << 36));
        let mine = asleep * u128::from(weight);
        let saved = match served {
            0 | 1 => mine / u128::from(weights),
            several => mine * several as u128 / (4 * u128::from(weights)),
        };
        saved as u64
    }

    /// Under `ts`, where it was served or comes later.
    pub(super) fn recount(&mut self, th: usize, leaf: usize) {
        if self.at(leaf).policy == Policy::Ts && self.members[th].counted.is_some() {
            self.count(th);
        }
    }
}
