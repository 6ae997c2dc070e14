// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission against the simulator, which shares nothing with it: a yes is kept, a no has a reason.

use proptest::collection::vec;
use proptest::prelude::*;
use qlinux::admit::{admit, Answer, Level, Quanta, Supply, Test, Witness};
use qlinux::reserve::Reservation;
use qlinux_core::engine::Core;
use qlinux_core::leaf::tunables;
use qlinux_core::sim::{run, Simulation, Workload};
use qlinux_properties::cases;
use std::fmt::Write;

const MS: u64 = 1_000_000;

/// The simulator's quanta are exact, and nothing is lost.
fn quanta(leaves: usize, processors: u32) -> Quanta {
    Quanta {
        tick_ns: 0,
        ..Quanta::new(leaves, processors)
    }
}

#[test]
fn lengths_are_those_of_core() {
    let (t, q) = (tunables(), Quanta::new(0, 1));
    assert_eq!(
        (
            t.period_min_ns,
            t.alone_ns,
            t.prompt_ns,
            t.peace_ns,
            t.least_ns
        ),
        (q.period_ns, q.alone_ns, q.prompt_ns, q.peace_ns, q.least_ns)
    );
    assert_eq!(Quanta::new(12, 1).period_ns, 12 * t.period_leaf_ns);
    assert_eq!(Quanta::new(1000, 1).period_ns, t.period_max_ns);
    assert_eq!(Quanta::new(12, 3).period_ns, 36 * t.period_leaf_ns);
    let owed = [1, 3, 64].map(|processors| Quanta::new(0, processors).owed_ns);
    assert_eq!(owed, [0, t.lag_old_ns * 4 / 3, t.lag_old_ns]);
}

#[derive(Clone, Debug)]
struct Case {
    test: Test,
    processors: u32,
    weight: u32,
    others: Vec<(u32, bool)>,
    threads: Vec<Reservation>,
    starts: Vec<u64>,
}

fn case() -> impl Strategy<Value = Case> {
    let reservation = (10u64..200, 1u64..60, 500u64..=1000).prop_map(|(period, c, d)| {
        let period_ns = period * MS;
        let deadline_ns = period_ns * d / 1000;
        let cost_ns = (period_ns * c / 200).clamp(MS / 5, deadline_ns);
        Reservation {
            cost_ns,
            period_ns,
            deadline_ns,
        }
    });
    (
        prop_oneof![Just(Test::Edf), Just(Test::Rm)],
        1u32..=8,
        50u32..2000,
        vec((1u32..500, any::<bool>()), 0..4),
        vec(reservation, 1..4),
        vec(0..100 * MS, 4),
    )
        .prop_map(|(test, processors, weight, others, threads, starts)| Case {
            test,
            processors,
            weight,
            others,
            threads,
            starts,
        })
}

impl Case {
    fn supply(&self) -> Supply {
        let quanta = quanta(self.others.len() + 1, self.processors);
        let level = Level {
            weight: self.weight,
            siblings: self.others.iter().map(|o| o.0).collect(),
            own: true,
        };
        // A quantum is not shorter than the least, whatever is left of a budget.
        Supply::processor(None, quanta.least_ns)
            .along(&[level], &quanta)
            .parallel(self.processors, self.threads.len())
    }

    fn answer(&self) -> Answer {
        admit(self.test, self.supply(), &self.threads)
    }

    fn simulate(&self) -> Simulation {
        let leaf = match self.test {
            Test::Edf => "edf",
            Test::Rm => "rm",
        };
        let mut text = format!(
            "duration = '3s'\nservers = {}\n[[class]]\npath = '/rt'\nleaf = '{leaf}'\nweight = {}\n",
            self.processors, self.weight
        );
        for (i, (weight, busy)) in self.others.iter().enumerate() {
            let _ = write!(
                text,
                "[[class]]\npath = '/o{i}'\nleaf = 'sfq'\nweight = {weight}\n"
            );
            let run = match busy {
                true => "",
                false => "run = ['1ms', '40ms']\nsleep = ['0ms', '30ms']\n",
            };
            let _ = write!(
                text,
                "[[thread]]\nclass = '/o{i}'\ncount = {}\n{run}",
                2 + self.processors
            );
        }
        for (i, (r, start)) in self.threads.iter().zip(&self.starts).enumerate() {
            let (c, t, d) = (r.cost_ns, r.period_ns, r.deadline_ns);
            let _ = write!(
                text,
                "[[thread]]\nclass = '/rt'\nname = 't{i}'\nstart = '{start}ns'\nrun = '{c}ns'\n\
                 every = '{t}ns'\nreserve = '{c}ns/{t}ns/{d}ns'\n"
            );
        }
        run(&text.parse::<Workload>().unwrap(), Core::new()).unwrap()
    }

    /// The longest that a thread's jobs took from their release.
    fn worst(&self, sim: &Simulation, name: &str, r: &Reservation, start: u64) -> u64 {
        let thread = sim.threads.iter().position(|t| t == name).unwrap();
        let (mut had, mut job, mut worst) = (0, 0, 0);
        for q in sim
            .records
            .iter()
            .filter(|q| q.thread == thread && q.change.is_service())
        {
            had += q.end_ns - q.start_ns;
            if had == r.cost_ns {
                worst = worst.max(q.end_ns - (start + job * r.period_ns));
                (had, job) = (0, job + 1);
            }
        }
        worst
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_yes_is_kept(case in case()) {
        let answer = case.answer();
        prop_assume!(answer.admitted);
        let sim = case.simulate();
        for (i, (r, &start)) in case.threads.iter().zip(&case.starts).enumerate() {
            let worst = case.worst(&sim, &format!("t{i}"), r, start);
            prop_assert!(worst <= r.deadline_ns, "thread {i} took {worst}: {answer:?}");
            if let Some(response) = answer.response_ns[i] {
                prop_assert!(worst <= response, "thread {i} took {worst}, not {response}");
            }
        }
    }

    #[test]
    fn a_no_has_a_witness(case in case()) {
        let answer = case.answer();
        let sum: f64 = case.threads.iter().map(Reservation::utilisation).sum();
        let jobs_due = |t: u64| -> u64 {
            let due = |r: &Reservation| (0..).take_while(|k| k * r.period_ns + r.deadline_ns <= t).count() as u64 * r.cost_ns;
            case.threads.iter().map(due).sum()
        };
        let supply = |t: u64| answer.share * t.saturating_sub(answer.delay_ns) as f64;
        match answer.witness {
            None => {
                // Beyond any doubt: at every deadline of the first seconds.
                prop_assert!(sum <= answer.share);
                for r in case.threads.iter().filter(|_| case.test == Test::Edf) {
                    for k in 0..40 {
                        let t = k * r.period_ns + r.deadline_ns;
                        prop_assert!(jobs_due(t) as f64 <= supply(t) + 2.0, "at {t}");
                    }
                }
            }
            Some(Witness::Overload) => prop_assert!(sum >= answer.share - 1e-9),
            Some(Witness::Demand { interval_ns, demand_ns, .. }) => {
                prop_assert_eq!(demand_ns, jobs_due(interval_ns));
                prop_assert!(demand_ns as f64 > supply(interval_ns) - 2.0);
            }
            Some(Witness::Response { thread, response_ns }) => {
                let mine = case.threads[thread];
                prop_assert!(response_ns > mine.deadline_ns);
                // No time up to the deadline is enough for it and all that go before it.
                let mut t = mine.cost_ns;
                while t <= mine.deadline_ns {
                    let before = case.threads.iter().enumerate();
                    let before = before.filter(|(j, r)| *j != thread && r.deadline_ns <= mine.deadline_ns);
                    let wanted: u64 = mine.cost_ns + before.map(|(_, r)| t.div_ceil(r.period_ns) * r.cost_ns).sum::<u64>();
                    prop_assert!(supply(t) < wanted as f64 + 2.0, "{t} is enough");
                    t += MS / 4;
                }
            }
            Some(Witness::Undecided) => prop_assert!(sum > answer.share * 0.999),
        }
    }
}
