// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 11: weights that change, and a thread that sleeps for a while.

use super::pair;
use super::{Experiment, Lab, Outcome};
use crate::figure::Series;
use crate::machine::Session;
use crate::manifest::Target;
use crate::scene::{Sample, Scene};
use crate::sys;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "osdi96-11",
    source: "OSDI'96, figure 11",
    title: "Two threads of one SFQ leaf whose weights change over time",
    says: "Bandwidth is divided by the weights of the moment while they are changed and while one \
           of two threads sleeps.",
    cpus: 1,
    seconds: 70,
    run,
};

/// What is so from a second on: the weights of both threads, 0 being asleep.
struct Phase {
    from_s: u64,
    weights: [u32; 2],
}

const fn phase(from_s: u64, one: u32, two: u32) -> Phase {
    Phase {
        from_s,
        weights: [one, two],
    }
}

/// The paper's own list is lost but for what kinds of changes it has.
const PHASES: [Phase; 6] = [
    phase(0, 4, 4),
    phase(4, 2, 4),
    phase(6, 0, 4),
    phase(9, 2, 4),
    phase(12, 8, 4),
    phase(16, 4, 4),
];
const END_S: u64 = 20;
/// Weight 4 of the figure: that of nice 0, so that the stock kernel has nearly equal ones.
const UNIT: u32 = 25;
const CLASS: &str = "/sfq-1";

const STEP: Duration = Duration::from_millis(100);
/// A share is that of a second: tens of quanta.
const WINDOW: usize = 10;
/// A share this close to the weights' has arrived.
const NEAR: f64 = 0.02;

/// Steps of a second, times `scale` with --full.
fn steps(seconds: u64, scale: u64) -> usize {
    (seconds * scale * 1000) as usize / STEP.as_millis() as usize
}

fn change(scene: &Scene, before: [u32; 2], now: [u32; 2]) -> Result<()> {
    for (thread, (before, now)) in before.into_iter().zip(now).enumerate() {
        let process = &scene.workers[thread].process;
        if now == 0 {
            process.suspend()?;
        } else if before == 0 {
            process.resume()?;
        } else if before != now {
            let weight = now * UNIT;
            scene
                .classes()
                .set_thread_weights(CLASS, process.pid(), weight)?;
        }
    }
    Ok(())
}

fn record(session: &Session, scale: u64) -> Result<Vec<Sample>> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf(CLASS, 100, "sfq")?;
    for _ in 0..2 {
        scene.start(CLASS, "dhry", &[])?;
    }
    scene.settle()?;
    let mut weights = PHASES[0].weights;
    let mut samples = vec![scene.sample()?];
    for index in 1..=steps(END_S, scale) {
        sys::sleep_until(samples[0].time_ns + index as u64 * STEP.as_nanos() as u64);
        samples.push(scene.sample()?);
        let begins = |phase: &&Phase| steps(phase.from_s, scale) == index;
        if let Some(phase) = PHASES.iter().find(begins) {
            change(&scene, weights, phase.weights)?;
            weights = phase.weights;
        }
    }
    Ok(samples)
}

/// Share of the first thread in the window that begins at step `at`.
fn share(samples: &[Sample], at: usize) -> f64 {
    let (from, to) = (&samples[at], &samples[at + WINDOW]);
    let (one, two) = (to.counted(from, 0) as f64, to.counted(from, 1) as f64);
    one / (one + two)
}

/// Seconds after the beginning of a phase until every further second of it has the weights' share.
fn settled(samples: &[Sample], index: usize, scale: u64) -> f64 {
    let [one, two] = PHASES[index].weights.map(f64::from);
    let begin = steps(PHASES[index].from_s, scale);
    let end = PHASES
        .get(index + 1)
        .map_or(END_S, |following| following.from_s);
    let far = |&at: &usize| (share(samples, at) - one / (one + two)).abs() > NEAR;
    let last = (begin..=steps(end, scale) - WINDOW).rev().find(far);
    last.map_or(0.0, |at| (at + 1 - begin) as f64 * STEP.as_secs_f64())
}

fn run(lab: &Lab) -> Result<Outcome> {
    let scale = if lab.full { 10 } else { 1 };
    let sides = lab.every_side(|session| {
        lab.say(&format!("{}: changing weights", session.side()));
        record(session, scale)
    })?;
    let mut table = Table::new(&["side", "time_s", "one_loops", "two_loops"]);
    let mut series = Vec::new();
    for (side, samples) in sides.iter() {
        for pair in samples.windows(2) {
            let counted = |index| pair[1].counted(&pair[0], index).into();
            let time = pair[1].since(&samples[0]).into();
            table.push(vec![side.to_string().into(), time, counted(0), counted(1)]);
        }
        for (index, name) in ["thread 1", "thread 2"].into_iter().enumerate() {
            let rate = |w: &[Sample]| {
                let loops = w[WINDOW].counted(&w[0], index) as f64;
                (w[WINDOW].since(&samples[0]), loops / w[WINDOW].since(&w[0]))
            };
            let points = samples.windows(WINDOW + 1).map(rate).collect();
            let name = format!("{name}, {}", side.label());
            series.push(Series::new(
                &name,
                side.colour() + 3 * index,
                side.dashed(),
                points,
            ));
        }
    }
    let claims = PHASES.iter().enumerate().map(|(index, phase)| {
        let [one, two] = phase.weights;
        let text = format!("time until {one}:{two}, set at {} s", phase.from_s * scale);
        let target = Target::AtMost(1.0);
        sides.claim(&text, "s", target, |samples| settled(samples, index, scale))
    });
    Ok(Outcome {
        claims: claims.collect(),
        table,
        figure: pair::figure(&EXPERIMENT, "loops per second, mean of a second", series),
        scale: format!(
            "{} s of virtual time after a warm-up. The paper's list of changes is lost: these are weights \
             4:4, 2:4, thread 1 asleep, 2:4, 8:4 and 4:4. A share has arrived when every second from then on \
             is within {NEAR} of it. Other schedulers than QLinux get the nearest nice values in place of weights.",
            END_S * scale
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_arrives() {
        let sample = |step: usize| {
            // Thread 1 has nothing for the first second after 4 s, then a third.
            let late = step.saturating_sub(50) as u64;
            let counts = vec![
                vec![100 * late],
                vec![200 * late + 300 * (step as u64 - late)],
            ];
            Sample {
                time_ns: step as u64 * 100_000_000,
                counts,
                ..Default::default()
            }
        };
        let samples: Vec<Sample> = (0..=200).map(sample).collect();
        let time = settled(&samples, 1, 1);
        assert!((0.8..=1.0).contains(&time), "{time}");
        assert!(settled(&samples, 4, 1) > 2.0, "8:4 never arrives");
    }
}
