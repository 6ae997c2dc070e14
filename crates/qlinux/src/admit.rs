// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the reservations of a class fit into its share.
//!
//! A class has a guaranteed rate r: along its path, the product of its weight over the weights of
//! all siblings, runnable or not. SFQ guarantees that rate with a delay (OSDI'96, section 3): where
//! the server above has rate C and delay Δ, the child f has
//!
//! ```text
//! r = C w_f / Σ w_n        Δ_f = Δ + Σ_{n≠f} l_n / C + l_f (1 / r - 1 / C)
//! ```
//!
//! with l_n the longest quantum of n, so in a busy interval of length t the class gets at least
//! r (t - Δ). (The paper's theorem adds 2 l_f / C, as it counts quanta when they are over. Counted
//! while they last: f's start tag is at most l_f / w_f beyond v when the interval begins, and another
//! flow n gets at most w_n for every unit by which f's start tag then grows from v, and a quantum;
//! what f and all others get adds up to C t.) Against that supply the demand of its threads is tested:
//!
//! * `edf`: Σ max(0, ⌊(t - D) / T⌋ + 1) C ≤ r (t - Δ) at every deadline t up to
//!   (rΔ + Σ (T - D) C / T) / (r - Σ C / T), beyond which it holds when it holds at all; the test
//!   walks back from there (Zhang and Burns, 2009);
//! * `rm`: the least R with R = Δ + (C_i + Σ ⌈R / T_j⌉ C_j) / r, over all j that go before or
//!   beside i, is at most D_i (Joseph and Pandya, 1986).
//!
//! Both are exact for that supply. On P processors a class of k such threads is served by at least
//! one processor for P / min(k, P) times its share of one, but never more than all the time. Quanta
//! are P times as long there, and siblings may be paid first what they are owed (core/tree/sfq.h), by P
//! processors. That this covers the delay is tested on up to 8 processors, and not proved.

use crate::reserve::Reservation;
use serde::Serialize;

/// Rates count in 2^-40.
const ONE: u128 = 1 << 40;
/// The demand test gives up after so many deadlines, and says no.
const STEPS: u32 = 1_000_000;

/// Lengths of quanta: core/cpu/quantum.h and core/cpu/leaf.h, and what the mechanism adds.
#[derive(Clone, Copy, Debug)]
pub struct Quanta {
    /// The period in which every runnable leaf has its turn.
    pub period_ns: u64,
    /// Quantum while nobody waits.
    pub alone_ns: u64,
    /// Quantum of a leaf under edf or rm.
    pub prompt_ns: u64,
    /// Service that a thread may have before one of another class takes over.
    pub peace_ns: u64,
    /// No quantum is shorter.
    pub least_ns: u64,
    /// Quanta that need not be exact end at a tick.
    pub tick_ns: u64,
    /// What a class of average weight is paid first for the time before.
    pub owed_ns: u64,
}

impl Quanta {
    /// On a kernel with a tick of 4 ms, `leaves` classes and so many processors.
    pub fn new(leaves: usize, processors: u32) -> Quanta {
        let processors = u64::from(processors.max(1));
        let period_ns = (leaves as u64 * 1_000_000).clamp(6_000_000, 20_000_000);
        Quanta {
            period_ns: period_ns * processors,
            alone_ns: 20_000_000,
            prompt_ns: 2_000_000,
            peace_ns: 500_000,
            least_ns: 100_000,
            tick_ns: 4_000_000,
            owed_ns: match processors {
                1 => 0,
                _ => 750_000 * processors.max(4) / processors,
            },
        }
    }
}

/// One step of the path from the root to the threads.
#[derive(Clone, Debug)]
pub struct Level {
    /// Weight of what is on the path.
    pub weight: u32,
    /// Weights of its siblings.
    pub siblings: Vec<u32>,
    /// Only threads of this leaf are below it.
    pub own: bool,
}

/// What a class gets in a busy interval of length t, at least: rate (t - delay).
#[derive(Clone, Copy, Debug)]
pub struct Supply {
    rate: u128,
    delay_ns: u64,
}

fn up(amount: u128, rate: u128) -> u64 {
    u64::try_from((amount * ONE).div_ceil(rate)).unwrap_or(u64::MAX / 4)
}

impl Supply {
    /// A processor of which interrupts and the kernel's own threads take one part in `lost`, up
    /// to `delay_ns` at once. `None`: nothing is lost.
    pub fn processor(lost: Option<u32>, delay_ns: u64) -> Supply {
        let rate = ONE - lost.map_or(0, |n| ONE / u128::from(n));
        Supply { rate, delay_ns }
    }

    /// What the SFQ theorem leaves for the end of the path.
    pub fn along(self, path: &[Level], quanta: &Quanta) -> Supply {
        path.iter().fold(self, |above, level| {
            if level.siblings.is_empty() {
                return above;
            }
            let weight = u128::from(level.weight);
            let all = weight + level.siblings.iter().map(|&w| u128::from(w)).sum::<u128>();
            let rate = above.rate * weight / all;
            let mine = match level.own {
                true => quanta.prompt_ns,
                false => quanta.alone_ns + quanta.tick_ns,
            };
            let theirs = |&w: &u32| {
                let share = quanta.period_ns * u64::from(w) / u64::from(w + level.weight);
                share.max(quanta.peace_ns) + quanta.tick_ns
            };
            let owed_ns = quanta.owed_ns * (level.siblings.len() as u64 + 1);
            let others = level.siblings.iter().map(theirs).sum::<u64>() + owed_ns;
            let mine = up(mine.into(), rate)
                - u64::try_from(u128::from(mine) * ONE / above.rate).unwrap_or(0);
            let delay_ns = above.delay_ns + up(others.into(), above.rate) + mine;
            Supply { rate, delay_ns }
        })
    }

    /// The time during which at least one of so many processors serves the class.
    pub fn parallel(self, processors: u32, threads: usize) -> Supply {
        let used = u128::from(processors).min(threads.max(1) as u128);
        Supply {
            rate: (self.rate * u128::from(processors) / used).min(ONE),
            ..self
        }
    }

    /// The rate, of one processor.
    pub fn share(&self) -> f64 {
        self.rate as f64 / ONE as f64
    }

    /// When the class has received so much at the latest.
    fn reached(&self, service_ns: u128) -> u64 {
        self.delay_ns.saturating_add(up(service_ns, self.rate))
    }
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// Earliest deadline first.
    Edf,
    /// Rate monotonic, or deadline monotonic where deadlines are shorter than periods.
    Rm,
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[allow(missing_docs)]
pub enum Witness {
    /// The threads want more than the class's share.
    Overload,
    /// In an interval of this length they can want more than the class surely gets.
    Demand {
        interval_ns: u64,
        demand_ns: u64,
        supply_ns: u64,
    },
    /// A thread may be done only after its deadline.
    Response { thread: usize, response_ns: u64 },
    /// The test takes too long: utilisation and share are almost the same.
    Undecided,
}

/// The answer, with the numbers behind it.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Every deadline is met.
    pub admitted: bool,
    /// Which test.
    pub test: Test,
    /// Σ C / T
    pub utilisation: f64,
    /// Guaranteed rate of the class, of one processor.
    pub share: f64,
    /// What Liu and Layland's n (2^(1/n) - 1) leaves of the share: below it rm needs no further test.
    pub bound: f64,
    /// Delay of the share.
    pub delay_ns: u64,
    /// Of each thread, under rm: within which time it is done at the latest.
    pub response_ns: Vec<Option<u64>>,
    /// Why not.
    pub witness: Option<Witness>,
}

/// Tests the reservations of one class against its supply.
pub fn admit(test: Test, supply: Supply, threads: &[Reservation]) -> Answer {
    let utilisation = threads.iter().map(Reservation::utilisation).sum();
    let n = threads.len().max(1) as f64;
    let mut answer = Answer {
        admitted: false,
        test,
        utilisation,
        share: supply.share(),
        bound: n * (2f64.powf(1.0 / n) - 1.0) * supply.share(),
        delay_ns: supply.delay_ns,
        response_ns: vec![None; threads.len()],
        witness: None,
    };
    let used: u128 = threads
        .iter()
        .map(|r| (u128::from(r.cost_ns) * ONE).div_ceil(r.period_ns.into()))
        .sum();
    answer.witness = match test {
        _ if used > supply.rate || supply.rate == 0 => Some(Witness::Overload),
        Test::Edf if used == supply.rate => Some(Witness::Overload),
        Test::Edf => demand(supply, threads, used),
        Test::Rm => responses(supply, threads, &mut answer.response_ns),
    };
    answer.admitted = answer.witness.is_none();
    answer
}

/// What can be due within an interval of this length.
fn due_within(threads: &[Reservation], t: u64) -> u128 {
    let jobs = |r: &Reservation| match t.checked_sub(r.deadline_ns) {
        Some(rest) => u128::from(rest / r.period_ns + 1) * u128::from(r.cost_ns),
        None => 0,
    };
    threads.iter().map(jobs).sum()
}

fn last_deadline_before(threads: &[Reservation], t: u64) -> Option<u64> {
    let last = |r: &Reservation| {
        let rest = t.checked_sub(r.deadline_ns + 1)?;
        Some(r.deadline_ns + rest / r.period_ns * r.period_ns)
    };
    threads.iter().filter_map(last).max()
}

fn demand(supply: Supply, threads: &[Reservation], used: u128) -> Option<Witness> {
    let slack: u128 = threads
        .iter()
        .map(|r| {
            let gap = u128::from(r.period_ns - r.deadline_ns);
            (gap * u128::from(r.cost_ns) * ONE).div_ceil(r.period_ns.into())
        })
        .sum();
    let far = (supply.rate * u128::from(supply.delay_ns) + slack) / (supply.rate - used);
    let Ok(far) = u64::try_from(far) else {
        return Some(Witness::Undecided);
    };
    let latest = threads.iter().map(|r| r.deadline_ns).max().unwrap_or(0);
    let mut t = last_deadline_before(threads, far.max(latest).saturating_add(1))?;
    for _ in 0..STEPS {
        let due = due_within(threads, t);
        let reached = supply.reached(due);
        if reached > t {
            let supply_ns = supply.rate * u128::from(t.saturating_sub(supply.delay_ns)) / ONE;
            return Some(Witness::Demand {
                interval_ns: t,
                demand_ns: due as u64,
                supply_ns: supply_ns as u64,
            });
        }
        t = match reached == t {
            true => last_deadline_before(threads, t)?,
            false => last_deadline_before(threads, reached.saturating_add(1))?,
        };
    }
    Some(Witness::Undecided)
}

fn responses(
    supply: Supply,
    threads: &[Reservation],
    responses: &mut [Option<u64>],
) -> Option<Witness> {
    let mut witness = None;
    for (i, thread) in threads.iter().enumerate() {
        let others = || {
            let before = move |(j, r): &(usize, &Reservation)| {
                *j != i && r.deadline_ns <= thread.deadline_ns
            };
            threads.iter().enumerate().filter(before)
        };
        let mut response = supply.reached(thread.cost_ns.into());
        loop {
            let work = |(_, r): (usize, &Reservation)| {
                u128::from(response.div_ceil(r.period_ns)) * u128::from(r.cost_ns)
            };
            let wanted = u128::from(thread.cost_ns) + others().map(work).sum::<u128>();
            let next = supply.reached(wanted);
            if next == response || response > thread.deadline_ns {
                break;
            }
            response = next;
        }
        responses[i] = Some(response);
        if response > thread.deadline_ns && witness.is_none() {
            witness = Some(Witness::Response {
                thread: i,
                response_ns: response,
            });
        }
    }
    witness
}
