// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leaf policies against the reference model, and what each policy promises.

mod common;

use common::{check_invariants, Pair, Queues};
use proptest::collection::vec;
use proptest::prelude::*;
use qlinux_core::engine::{Engine, ThreadId};
use qlinux_core::ffi;
use qlinux_core::leaf::tunables;
use qlinux_core::{Class, Error, NodeId, Policy, Reservation};
use qlinux_properties::cases;

/// Leaves, threads and a number of servers, driven as a kernel would.
struct Machine {
    pair: Pair,
    queues: Queues<Pair>,
    leaves: Vec<NodeId>,
    /// Of each thread: its leaf, and whether it is asleep, waits or is in service.
    threads: Vec<(NodeId, State)>,
    served_ns: Vec<u64>,
    now_ns: u64,
    calm_ns: u64,
    /// Of each server that is choosing: its leaves passed over, and the one it looks into.
    choosing: [(Option<NodeId>, Option<NodeId>); 3],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Asleep,
    Waiting,
    Served,
}

impl Machine {
    fn new(weights: &[u32]) -> Machine {
        let mut pair = Pair::default();
        let leaves = weights
            .iter()
            .map(|&w| pair.mknod(NodeId::ROOT, w, true).unwrap())
            .collect();
        Machine {
            pair,
            queues: Queues::default(),
            leaves,
            threads: Vec::new(),
            served_ns: Vec::new(),
            now_ns: 0,
            calm_ns: 0,
            choosing: Default::default(),
        }
    }

    fn with_policy(weights: &[u32], policy: Policy) -> Machine {
        let mut m = Machine::new(weights);
        for leaf in m.leaves.clone() {
            m.pair.set_policy(leaf, policy).unwrap();
        }
        m
    }

    fn spawn(&mut self, leaf: usize, weight: u32) -> usize {
        let leaf = self.leaves[leaf];
        let th = self.pair.spawn(leaf, weight).unwrap();
        self.threads.push((leaf, State::Asleep));
        self.served_ns.push(0);
        th.0
    }

    /// A new thread that is runnable at once.
    fn start(&mut self, leaf: usize, weight: u32) -> usize {
        let th = self.spawn(leaf, weight);
        self.wake(th);
        th
    }

    fn wait(&mut self, th: usize) {
        let leaf = self.threads[th].0;
        self.pair.wait(ThreadId(th)).unwrap();
        let key = self.pair.key(ThreadId(th));
        self.queues.push(leaf, key, ThreadId(th));
        self.threads[th].1 = State::Waiting;
    }

    fn wake(&mut self, th: usize) {
        self.pair.arrive(ThreadId(th)).unwrap();
        self.wait(th);
    }

    fn advance(&mut self, ns: u64) {
        self.now_ns += ns;
        self.pair.advance(self.now_ns);
    }

    /// Takes a thread into service.
    fn dispatch(&mut self) -> Option<usize> {
        self.serve_next(Pair::unwait)
    }

    fn serve_next(&mut self, take: fn(&mut Pair, ThreadId) -> Result<(), Error>) -> Option<usize> {
        let leaf = self.pair.schedule()?;
        let th = self
            .queues
            .pop(leaf)
            .expect("a ready leaf has a waiting thread");
        take(&mut self.pair, th).unwrap();
        self.pair.serve(th, 0).unwrap();
        self.pair.quantum(th).unwrap();
        self.threads[th.0].1 = State::Served;
        Some(th.0)
    }

    fn finish(&mut self, th: usize, length_ns: u64, sleep: bool) {
        self.pair.charge(ThreadId(th), length_ns).unwrap();
        self.served_ns[th] += length_ns;
        if sleep {
            self.pair.depart(ThreadId(th)).unwrap();
            self.threads[th].1 = State::Asleep;
        } else {
            self.wait(th);
        }
    }

    /// A server that finds nobody for it: it chooses, passes over, chooses again,
    /// and at the end restores. Others do the same between its steps.
    fn look(&mut self, server: usize, give_up: bool) {
        let (mut passed, chosen) = self.choosing[server];
        if let Some(leaf) = chosen {
            passed = self.pair.pass(leaf, passed).unwrap();
        }
        let next = (!give_up).then(|| self.pair.schedule()).flatten();
        while next.is_none() && passed.is_some() {
            passed = self.pair.restore(passed.unwrap()).unwrap();
        }
        self.choosing[server] = (passed, next);
    }

    /// One server serves one thread for the quantum that the core allows.
    fn step(&mut self) -> Option<(usize, u64)> {
        let th = self.serve_next(Pair::take)?;
        let length_ns = self.pair.quantum(ThreadId(th)).unwrap();
        self.finish(th, length_ns, false);
        Some((th, length_ns))
    }

    /// The thread stops, wherever it is: killed, moved, frozen.
    fn stop(&mut self, th: usize) {
        match self.threads[th].1 {
            State::Asleep => {}
            State::Waiting => {
                self.queues.remove(ThreadId(th));
                self.pair.unwait(ThreadId(th)).unwrap();
                self.pair.depart(ThreadId(th)).unwrap();
            }
            State::Served => self.finish(th, 1_000, true),
        }
        self.threads[th].1 = State::Asleep;
    }

    fn check(&self) {
        let t = self.pair.core.tree.raw();
        check_invariants(t);
        for &leaf in &self.leaves {
            let mine: Vec<_> = (0..self.threads.len())
                .filter(|&i| self.threads[i].0 == leaf)
                .collect();
            let count = |f: &dyn Fn(State) -> bool| {
                mine.iter().filter(|&&i| f(self.threads[i].1)).count() as u32
            };
            let l = &t.node[leaf.number() as usize];
            assert_eq!(l.threads, mine.len() as u32);
            assert_eq!(l.runnable, count(&|s| s != State::Asleep));
            assert_eq!(l.waiting, count(&|s| s == State::Waiting));
            let in_sight = l.flags & (ffi::READY | ffi::PASSED) != 0;
            assert!(in_sight || l.waiting == 0, "leaf {leaf} is lost from sight");
            self.pair.vtime(leaf).unwrap();
        }
        for (i, (_, state)) in self.threads.iter().enumerate() {
            if *state != State::Asleep {
                self.pair.key(ThreadId(i));
                self.pair.slice(ThreadId(i)).unwrap();
                self.pair.misses(ThreadId(i));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Spawn { leaf: u8, weight: u32 },
    Wake { th: u8 },
    Stop { th: u8 },
    Move { th: u8, leaf: u8 },
    Dispatch,
    Finish { th: u8, length_ns: u64, sleep: bool },
    Yield { th: u8, length_ns: u64 },
    Policy { leaf: u8, policy: u8 },
    Weight { th: u8, weight: u32 },
    Left { waiting: u8, th: u8, ran_ns: u64 },
    Look { server: u8, give_up: bool },
    Advance { ns: u64 },
    Reserve { th: u8, r: Option<Reservation> },
    Class { th: u8, class: Class },
    Rekey { th: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let n = any::<u8>;
    let weight = || prop_oneof![1u32..=10_000, 1u32..=10];
    let length = || prop_oneof![Just(0u64), 1u64..100, 1u64..20_000_000, Just(1 << 42)];
    prop_oneof![
        2 => (n(), weight()).prop_map(|(leaf, weight)| Op::Spawn { leaf, weight }),
        6 => n().prop_map(|th| Op::Wake { th }),
        1 => n().prop_map(|th| Op::Stop { th }),
        1 => (n(), n()).prop_map(|(th, leaf)| Op::Move { th, leaf }),
        8 => Just(Op::Dispatch),
        8 => (n(), length(), prop::bool::weighted(0.3))
            .prop_map(|(th, length_ns, sleep)| Op::Finish { th, length_ns, sleep }),
        2 => (n(), length()).prop_map(|(th, length_ns)| Op::Yield { th, length_ns }),
        1 => (n(), n()).prop_map(|(leaf, policy)| Op::Policy { leaf, policy }),
        2 => (n(), weight()).prop_map(|(th, weight)| Op::Weight { th, weight }),
        8 => (n(), prop::bool::weighted(0.2))
            .prop_map(|(server, give_up)| Op::Look { server, give_up }),
        8 => prop_oneof![1u64..100_000, 1u64..40_000_000, 0u64..100_000_000_000]
            .prop_map(|ns| Op::Advance { ns }),
        4 => (n(), reservation()).prop_map(|(th, r)| Op::Reserve { th, r }),
        2 => (n(), class()).prop_map(|(th, class)| Op::Class { th, class }),
        1 => n().prop_map(|th| Op::Rekey { th }),
        3 => (n(), n(), length()).prop_map(|(waiting, th, ran_ns)| Op::Left { waiting, th, ran_ns }),
    ]
}

/// Mostly one that is accepted.
fn reservation() -> impl Strategy<Value = Option<Reservation>> {
    let period = prop_oneof![
        100_000u64..1_000_000,
        1_000_000u64..100_000_000,
        0u64..70_000_000_000
    ];
    let some = (period, 0u64..=1000, 0u64..=1010).prop_map(|(period_ns, c, d)| {
        let deadline_ns = (period_ns * d / 1000).max(100_000u64.min(period_ns));
        Some(Reservation {
            cost_ns: (deadline_ns * c / 1000).max(100_000),
            period_ns,
            deadline_ns: if d % 2 == 0 { period_ns } else { deadline_ns },
        })
    });
    prop_oneof![4 => some, 1 => Just(None)]
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![
        Just(Class::Ts),
        Just(Class::Ia),
        (0u32..=60).prop_map(Class::Rt)
    ]
}

impl Machine {
    fn pick(&self, n: u8, state: State) -> Option<usize> {
        let all: Vec<_> = (0..self.threads.len())
            .filter(|&i| self.threads[i].1 == state)
            .collect();
        all.get(usize::from(n) % all.len().max(1)).copied()
    }

    fn apply(&mut self, op: &Op) -> Option<()> {
        match *op {
            Op::Spawn { leaf, weight } if self.threads.len() < 30 => {
                self.spawn(usize::from(leaf) % self.leaves.len(), weight);
            }
            Op::Spawn { .. } => {}
            Op::Wake { th } => self.wake(self.pick(th, State::Asleep)?),
            Op::Stop { th } if !self.threads.is_empty() => {
                self.stop(usize::from(th) % self.threads.len());
            }
            Op::Move { th, leaf } if !self.threads.is_empty() => {
                let th = usize::from(th) % self.threads.len();
                let leaf = self.leaves[usize::from(leaf) % self.leaves.len()];
                self.stop(th);
                self.pair.leave(ThreadId(th)).unwrap();
                self.pair.join(ThreadId(th), leaf).unwrap();
                self.threads[th].0 = leaf;
            }
            Op::Stop { .. } | Op::Move { .. } => {}
            Op::Dispatch => {
                let busy = self.threads.iter().filter(|t| t.1 == State::Served).count();
                if busy < 4 {
                    self.dispatch();
                }
            }
            Op::Finish {
                th,
                length_ns,
                sleep,
            } => {
                self.finish(self.pick(th, State::Served)?, length_ns, sleep);
            }
            Op::Yield { th, length_ns } => {
                let th = self.pick(th, State::Served)?;
                self.pair.charge(ThreadId(th), length_ns).unwrap();
                self.served_ns[th] += length_ns;
                self.pair.give_up(ThreadId(th));
                self.wait(th);
            }
            Op::Policy { leaf, policy } => {
                let policy = Policy::ALL[usize::from(policy) % Policy::ALL.len()];
                let leaf = self.leaves[usize::from(leaf) % self.leaves.len()];
                self.pair.set_policy(leaf, policy).unwrap();
            }
            Op::Weight { th, weight } if !self.threads.is_empty() => {
                let th = usize::from(th) % self.threads.len();
                self.pair.set_thread_weight(ThreadId(th), weight).unwrap();
            }
            Op::Weight { .. } => {}
            Op::Look { server, give_up } => {
                self.look(usize::from(server) % self.choosing.len(), give_up);
            }
            Op::Advance { ns } => self.advance(ns),
            Op::Reserve { th, r } if !self.threads.is_empty() => {
                let th = usize::from(th) % self.threads.len();
                let _refused = self.pair.reserve(ThreadId(th), r);
            }
            Op::Class { th, class } if !self.threads.is_empty() => {
                let th = usize::from(th) % self.threads.len();
                let _refused = self.pair.set_class(ThreadId(th), class);
            }
            Op::Reserve { .. } | Op::Class { .. } => {}
            Op::Rekey { th } => {
                let th = self.pick(th, State::Waiting)?;
                self.pair.rekey(ThreadId(th)).unwrap();
                self.queues.remove(ThreadId(th));
                let key = self.pair.key(ThreadId(th));
                self.queues.push(self.threads[th].0, key, ThreadId(th));
            }
            Op::Left {
                waiting,
                th,
                ran_ns,
            } => {
                let waiting = ThreadId(self.pick(waiting, State::Waiting)?);
                let th = ThreadId(self.pick(th, State::Served)?);
                for eager in [false, true] {
                    self.pair.quantum_left(waiting, th, ran_ns, eager).unwrap();
                    self.pair.ends(waiting, th, ran_ns, eager).unwrap();
                }
                self.calm_ns = self.pair.calm(self.calm_ns);
                self.pair.eager(self.calm_ns);
                self.pair.ahead(th, ran_ns).unwrap();
                for &leaf in &self.leaves {
                    self.pair.near(leaf).unwrap();
                }
            }
        }
        Some(())
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn core_and_model_agree(ops in vec(op(), 1..250)) {
        let mut m = Machine::new(&[1, 100, 10_000]);
        for op in &ops {
            m.apply(op);
            m.check();
        }
        // Whatever happened, everybody who is runnable is served once before
        // the last one is, and nobody is forgotten.
        for server in 0..m.choosing.len() {
            m.look(server, true);
        }
        for th in 0..m.threads.len() {
            if m.threads[th].1 == State::Served {
                m.finish(th, 1_000_000, false);
            }
        }
        while let Some(th) = m.dispatch() {
            m.finish(th, 1_000_000, true);
        }
        prop_assert!(m.threads.iter().all(|t| t.1 == State::Asleep), "somebody waits for ever");
        m.check();
    }

    #[test]
    fn a_change_of_policy_leaves_nobody_out(
        weights in vec(1u32..=10_000, 2..12),
        policies in vec(0usize..7, 1..6),
        steps in vec(0usize..40, 6),
    ) {
        let mut m = Machine::new(&[100]);
        for &weight in &weights {
            m.start(0, weight);
        }
        for (policy, steps) in policies.iter().zip(steps) {
            for _ in 0..steps {
                m.step();
            }
            let (leaf, policy) = (m.leaves[0], Policy::ALL[*policy]);
            let same = m.pair.core.tree.node(leaf).unwrap().policy == policy;
            m.pair.set_policy(leaf, policy).unwrap();
            let mut served = vec![false; weights.len()];
            // Everybody who waited is served once before anybody is served anew.
            for _ in 0..weights.len() {
                let th = m.dispatch().unwrap();
                prop_assert!(same || !served[th], "thread {th} again before others once");
                served[th] = true;
                m.finish(th, 1_000_000, policy == Policy::Fifo);
            }
            prop_assert!(same || served.iter().all(|&s| s));
            for th in 0..weights.len() {
                if m.threads[th].1 == State::Asleep {
                    m.wake(th);
                }
            }
        }
    }

    #[test]
    fn sfq_shares_follow_weights(weights in vec(1u32..=10_000, 2..8)) {
        let mut m = Machine::with_policy(&[100], Policy::Sfq);
        for &weight in &weights {
            m.start(0, weight);
        }
        let mut longest = vec![0u64; weights.len()];
        for _ in 0..2_000 {
            let (th, length_ns) = m.step().unwrap();
            longest[th] = longest[th].max(length_ns);
        }
        for i in 0..weights.len() {
            for j in 0..i {
                let w = |i: usize| f64::from(weights[i]);
                let gap = (m.served_ns[i] as f64 / w(i) - m.served_ns[j] as f64 / w(j)).abs();
                let bound = longest[i] as f64 / w(i) + longest[j] as f64 / w(j);
                prop_assert!(gap <= bound + 0.01, "{gap} > {bound}");
            }
        }
    }
}

#[test]
fn rr_gives_turns_and_an_interrupted_turn_goes_on() {
    let mut m = Machine::with_policy(&[100, 100], Policy::Rr);
    let (a, b, c) = (m.start(0, 1), m.start(0, 10_000), m.start(0, 100));
    m.start(1, 100);
    let mut turns: Vec<(usize, u64)> = Vec::new();
    for _ in 0..500 {
        let (th, length_ns) = m.step().unwrap();
        if th > c {
            continue; // the other leaf, which interrupts
        }
        match turns.last_mut() {
            Some(turn) if turn.0 == th => turn.1 += length_ns,
            _ => turns.push((th, length_ns)),
        }
    }
    let order: Vec<_> = turns.iter().map(|t| t.0).collect();
    assert!(order.len() > 30);
    assert!(
        order
            .iter()
            .zip([a, b, c].iter().cycle())
            .all(|(x, y)| x == y),
        "{order:?}"
    );
    turns.pop();
    assert!(
        turns.iter().all(|t| t.1 == tunables().rr_quantum_ns),
        "{turns:?}"
    );
}

#[test]
fn rr_starts_a_new_turn_at_the_tail_after_a_sleep() {
    let mut m = Machine::with_policy(&[100], Policy::Rr);
    let (a, b) = (m.start(0, 100), m.start(0, 100));
    assert_eq!(m.dispatch(), Some(a));
    m.finish(a, 1_000_000, true);
    m.wake(a);
    assert_eq!(m.pair.slice(ThreadId(a)).unwrap(), tunables().rr_quantum_ns);
    assert_eq!(m.dispatch(), Some(b));
}

#[test]
fn fifo_keeps_its_order_while_another_class_interrupts() {
    let mut m = Machine::with_policy(&[100, 300], Policy::Fifo);
    let mine: Vec<_> = (0..5).map(|i| m.start(0, 1 + i * 999)).collect();
    m.start(1, 100);
    for &th in &mine {
        let mut served = 0;
        while served < 10 {
            let now = m.dispatch().unwrap();
            let own = mine.contains(&now);
            assert!(!own || now == th, "thread {now} before {th}");
            served += u32::from(own);
            m.finish(now, 700_000, own && served == 10);
        }
    }
}

/// A busy thread and one that has slept for `sleep` rounds of the busy one.
fn after_a_sleep(policy: Policy, rounds: u32) -> (Machine, usize, usize) {
    let mut m = Machine::with_policy(&[100], policy);
    let (busy, sleeper) = (m.start(0, 100), m.start(0, 100));
    for th in [busy, sleeper] {
        assert_eq!(m.dispatch(), Some(th));
        m.finish(th, tunables().quantum_ns, th == sleeper);
    }
    for _ in 0..rounds {
        let th = m.dispatch().unwrap();
        m.finish(th, tunables().quantum_ns, false);
    }
    m.wake(sleeper);
    (m, busy, sleeper)
}

/// How long the sleeper, once awake and busy, is served before the other one is.
fn head_start(mut m: Machine, busy: usize, sleeper: usize) -> u64 {
    let before = m.served_ns[sleeper];
    loop {
        let th = m.dispatch().unwrap();
        m.finish(th, 10_000, false);
        if th == busy {
            return m.served_ns[sleeper] - before;
        }
    }
}

#[test]
fn a_sleep_earns_no_more_than_a_quantum_before_the_others() {
    for policy in [Policy::Ts, Policy::Sfq] {
        for rounds in [0, 1, 2, 3, 1_000, 100_000] {
            let (m, busy, sleeper) = after_a_sleep(policy, rounds);
            let favour = head_start(m, busy, sleeper);
            // The busy thread has had rounds + 1 quanta, the sleeper one.
            let missed = u64::from(rounds) * tunables().quantum_ns;
            let limit = missed.min(tunables().quantum_ns);
            assert!(favour <= limit + 20_000, "{rounds} rounds: {favour} ns");
        }
    }
}

/// A sleeper that has had more than its peers, and 16 busy ones with whole quanta.
fn among_the_busy(rounds: u32) -> (Machine, usize) {
    let mut m = Machine::with_policy(&[100], Policy::Ts);
    let sleeper = m.start(0, 100);
    for _ in 0..16 {
        m.start(0, 100);
    }
    assert_eq!(m.dispatch(), Some(sleeper));
    m.finish(sleeper, 100_000, true);
    for _ in 0..rounds {
        let th = m.dispatch().unwrap();
        m.finish(th, tunables().quantum_ns, false);
    }
    m.wake(sleeper);
    (m, sleeper)
}

/// However long it has slept, those of its peers come first that have had less than the mean.
#[test]
fn sleep_neither_pays_nor_costs() {
    for rounds in [24, 40, 56, 1_000 * 16 + 8] {
        let (mut m, sleeper) = among_the_busy(rounds);
        for _ in 0..8 {
            let th = m.dispatch().unwrap();
            assert_ne!(th, sleeper, "after {rounds} quanta");
            m.finish(th, tunables().quantum_ns, false);
        }
        assert_eq!(m.dispatch(), Some(sleeper), "after {rounds} quanta");
    }
}

/// One that went to sleep behind its peers' mean is behind it by as much when it wakes.
#[test]
fn what_a_thread_has_waited_for_is_not_lost() {
    let (mut m, sleeper) = among_the_busy(40);
    let key = |m: &Machine, th| m.pair.key(ThreadId(th)).1;
    let before = key(&m, sleeper);
    for _ in 0..4 {
        let th = m.dispatch().unwrap();
        m.finish(th, tunables().quantum_ns, false);
    }
    // The mean of all 17 has gone on by four of their quanta. Then the peers' does, by 16.
    m.stop(sleeper);
    for _ in 0..16 {
        let th = m.dispatch().unwrap();
        m.finish(th, tunables().quantum_ns, false);
    }
    m.wake(sleeper);
    let quantum = (i128::from(tunables().quantum_ns) << 10) / 100;
    let (found, lag) = (key(&m, sleeper) - before, quantum * 4 / 17);
    let due = quantum * (4 + 16) / 16 - lag;
    assert!((found - due).abs() < quantum / 100, "{found}, {due} is due");
}

/// Four servers of nine threads: eight are busy with whole quanta, one wakes every 2 ms for 20 us.
/// v(t) is the greatest start tag in service, and four wait with keys before that.
#[test]
fn who_uses_little_of_its_share_does_not_wait_for_a_round() {
    let mut m = Machine::with_policy(&[100], Policy::Ts);
    m.pair.set_servers(4);
    let light = m.start(0, 100);
    for _ in 0..8 {
        m.start(0, 100);
    }
    let mut served: Vec<_> = (0..4).map(|_| m.dispatch().unwrap()).collect();
    let (mut prompt, mut late) = (0, 0);
    // A quantum ends each quarter of its length; the light thread wakes at every third end.
    for step in 0..900 {
        m.advance(tunables().quantum_ns / 4);
        let done = served.remove(0);
        let length_ns = if done == light {
            20_000
        } else {
            tunables().quantum_ns
        };
        m.finish(done, length_ns, done == light);
        if step % 3 == 0 && m.threads[light].1 == State::Asleep {
            m.wake(light);
        }
        let next = m.dispatch().unwrap();
        served.push(next);
        match (next == light, m.threads[light].1 == State::Waiting) {
            (true, _) => prompt += 1,
            (_, waits) => late += u32::from(waits && step > 100),
        }
    }
    assert!(prompt > 100, "served {prompt} times");
    assert_eq!(late, 0);
}

/// Nothing is earned by that: who sleeps as long as it takes to come early, and is then served
/// for as long as it may, has no more than the busy thread beside it, but for two turns.
#[test]
fn to_come_early_is_worth_no_service() {
    for asleep_ms in [1, 2, 5, 20] {
        let mut m = Machine::with_policy(&[100], Policy::Ts);
        let busy = m.start(0, 100);
        let sly = m.start(0, 100);
        for _ in 0..2_000 {
            let th = m.dispatch().unwrap();
            m.advance(tunables().quantum_ns);
            m.finish(th, tunables().quantum_ns, th == sly);
            if m.threads[sly].1 == State::Asleep {
                for _ in 0..asleep_ms {
                    m.advance(1_000_000);
                }
                m.wake(sly);
            }
            let most = m.served_ns[busy] + 2 * tunables().quantum_ns;
            assert!(m.served_ns[sly] <= most, "asleep for {asleep_ms} ms");
        }
    }
}
