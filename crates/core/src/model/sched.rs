// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers, and for whom their services end.

use super::{Flow, Model, Node, Policy, TAG_SHIFT};
use crate::engine::{Engine, ThreadId};
use crate::sched::{Contest, Packed, Servers};
use crate::{NodeId, Result};

/// An end that is so near is now.
const NEAR_NS: u64 = 10_000;

/// A server of the model.
#[derive(Clone, Copy, Default)]
pub(super) struct Server {
    serves: Option<ThreadId>,
    since_ns: u64,
    until_ns: u64,
    due_ns: u64,
    calm_ns: u64,
    ending: bool,
}

impl Model {
    fn server(&mut self, server: usize) -> &mut Server {
        if self.machine.len() <= server {
            self.machine.resize(server + 1, Server::default());
        }
        &mut self.machine[server]
    }

    /// Who is served there, for how long by now, and whether that may end for one that wakes.
    fn service(&mut self, server: usize) -> (ThreadId, u64, bool) {
        let s = *self.server(server);
        let serves = s.serves.expect("somebody is served there");
        (serves, self.now_ns - s.since_ns, self.is_calm_by(s.calm_ns))
    }

    fn interrupted(&mut self, server: usize) {
        let now_ns = self.now_ns;
        let each_ns = self.tunables.calm_ns;
        let s = self.server(server);
        s.calm_ns = s.calm_ns.max(now_ns) + each_ns;
    }
}

impl Servers for Model {
    fn pack(&mut self, th: ThreadId) -> Result<Option<Packed>> {
        let runnable = self.members[th.0].runnable;
        let (leaf, member) = match runnable {
            true => self.in_service(th)?,
            false => self.asleep(th)?,
        };
        let Node { regime, clock, .. } = *self.at(leaf);
        let divides = matches!(member.under, Policy::Sfq | Policy::Ts);
        let known = divides && member.regime == Some(regime);
        let mut start = member.flow.start(member.weight);
        if runnable && self.runnable_members(leaf).count() == 1 {
            start = start.min(clock.v);
        }
        if !runnable {
            start = start.max(clock.v);
        }
        let member = &self.members[th.0];
        let packed = Packed {
            ahead: i64::try_from(start - clock.v).expect("tags are near v(t)"),
            left_ns: member.left_ns,
            early: u64::try_from(member.early).expect("a turn"),
            last_ns: member.last_ns,
            lag: member.lag.try_into().expect("a turn"),
        };
        if runnable {
            self.depart(th)?;
        }
        Ok(known.then_some(packed))
    }

    fn unpack(
        &mut self,
        th: ThreadId,
        packed: Option<Packed>,
        runnable: bool,
        ahead_ns: i64,
    ) -> Result<()> {
        let (leaf, member) = self.asleep(th)?;
        let weight = member.weight;
        let Node {
            regime,
            clock,
            policy,
            ..
        } = *self.at(leaf);
        self.members[th.0].regime = None;
        let Some(packed) = packed else {
            return match runnable {
                true => self.arrive(th),
                false => Ok(()),
            };
        };
        let ahead_ns = if runnable { ahead_ns } else { 0 };
        let peers = self.runnable_members(leaf).map(|m| m.weight);
        let (threads, weights) = peers.fold((1i128, weight), |(n, sum), w| (n + 1, sum + w));
        let ahead = (i128::from(ahead_ns) * threads) << TAG_SHIFT;
        let ahead = i128::from(packed.ahead) + ahead / i128::from(weights);
        self.members[th.0].runnable = true;
        let least = self.least_of_members(leaf, weight);
        let member = &mut self.members[th.0];
        (member.regime, member.under) = (Some(regime), policy);
        member.flow = Flow::at(least.max(clock.v + ahead));
        member.left_ns = packed.left_ns;
        member.early = match policy {
            Policy::Ts => packed.early.into(),
            _ => 0,
        };
        member.last_ns = packed.last_ns;
        member.lag = packed.lag.into();
        member.runnable = runnable;
        if runnable {
            if policy == Policy::Ts {
                self.count(th.0);
            }
            self.activate(leaf);
        }
        Ok(())
    }

    fn begin(&mut self, server: usize, th: ThreadId, fixed_ns: Option<u64>) -> Result<u64> {
        self.take(th)?;
        let length_ns = match fixed_ns {
            Some(fixed_ns) => fixed_ns,
            None => Model::quantum(self, th)?,
        };
        self.serve(th, length_ns)?;
        let now_ns = self.now_ns;
        let s = self.server(server);
        (s.serves, s.since_ns, s.ending) = (Some(th), now_ns, false);
        s.until_ns = now_ns + length_ns;
        s.due_ns = s.until_ns;
        Ok(length_ns)
    }

    fn end(&mut self, server: usize, ran_ns: u64, sleeps: bool) -> Result<()> {
        let th = self.server(server).serves.take();
        let th = th.expect("somebody is served there");
        if ran_ns > 0 || self.members[th.0].planned_ns > 0 {
            self.charge(th, ran_ns)?;
        }
        match sleeps {
            true => self.depart(th)?,
            false => self.wait(th)?,
        }
        if !sleeps || self.servers > 1 {
            self.schedule();
        }
        Ok(())
    }

    fn give_up(&mut self, th: ThreadId) -> Result<()> {
        Model::gives_up(self, th)
    }

    fn contest(&mut self, server: usize, th: ThreadId) -> Result<Contest> {
        let (serves, ran_ns, eager) = self.service(server);
        if self.is_held(self.runnable(th)?.0) {
            return Ok(Contest::default());
        }
        let left_ns = Model::quantum_left(self, th, serves, ran_ns, eager)?;
        let s = *self.server(server);
        let due_ns = (s.since_ns + left_ns).max(1);
        let over = due_ns <= self.now_ns + NEAR_NS;
        if over {
            self.interrupted(server);
        }
        Ok(Contest {
            due_ns,
            over,
            sooner: due_ns < s.due_ns,
        })
    }

    fn cut(&mut self, server: usize, due_ns: u64) {
        self.server(server).due_ns = due_ns;
    }

    fn ends_elsewhere(&mut self, server: usize, th: ThreadId) -> Result<bool> {
        let (serves, ran_ns, eager) = self.service(server);
        let ends = !self.server(server).ending && Model::ends(self, th, serves, ran_ns, eager)?;
        if ends {
            self.interrupted(server);
            self.give_way(server);
        }
        Ok(ends)
    }

    fn outranks_on(&mut self, server: usize, th: ThreadId, chosen: NodeId) -> Result<bool> {
        let (serves, ran_ns, _) = self.service(server);
        let ranks =
            !self.server(server).ending && Model::outranks(self, th, chosen, serves, ran_ns)?;
        if ranks {
            self.give_way(server);
        }
        Ok(ranks)
    }

    fn give_way(&mut self, server: usize) {
        self.server(server).ending = true;
    }

    fn gives_way(&self, server: usize) -> bool {
        self.machine.get(server).is_some_and(|s| s.ending)
    }

    fn timer(&mut self, server: usize) {
        let now_ns = self.now_ns;
        let s = self.server(server);
        s.ending |= s.due_ns <= now_ns + NEAR_NS && s.due_ns < s.until_ns;
    }
}
