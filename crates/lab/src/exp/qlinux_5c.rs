// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 5(c): work conservation. One of two equal Inf processes is
//! suspended for a while; the other doubles its rate meanwhile.

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::{Claim, Target};
use crate::scene::{Sample, Scene};
use crate::sys;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-5c",
    source: "QLinux, figure 5(c)",
    title: "Work conservation: one of two equal loops is suspended for a while",
    says: "While one of two Inf processes of equal weight is suspended, the other progresses \
           at twice its rate; it returns to its normal share when the first one goes on.",
    cpus: 1,
    seconds: 42,
    run,
};

const STEP: Duration = Duration::from_millis(50);
/// A rate is a mean over this many steps, 0.5 s.
const WINDOW: usize = 10;
/// A rate this close to its target has arrived.
const NEAR: f64 = 0.03;

/// Steps before the suspension, during it and after it.
fn phases(lab: &Lab) -> [usize; 3] {
    let seconds = if lab.full { [250, 100, 250] } else { [6, 6, 6] };
    seconds.map(|s| s * 1000 / STEP.as_millis() as usize)
}

fn record(session: &Session, phases: [usize; 3]) -> Result<Vec<Sample>> {
    let mut scene = Scene::new(session)?;
    for class in ["/kept", "/suspended"] {
        scene.class(class, 100)?;
        scene.start(class, "inf", &[])?;
    }
    scene.settle()?;
    let suspend = phases[0] as u64;
    let resume = suspend + phases[1] as u64;
    let mut samples = vec![scene.sample()?];
    for index in 1..=resume + phases[2] as u64 {
        sys::sleep_until(samples[0].time_ns + index * STEP.as_nanos() as u64);
        samples.push(scene.sample()?);
        if index == suspend {
            scene.workers[1].process.suspend()?;
        } else if index == resume {
            scene.workers[1].process.resume()?;
        }
    }
    Ok(samples)
}

/// Loops per second of the kept process in the window that begins at step `at`.
fn rate(samples: &[Sample], at: usize) -> f64 {
    let (from, to) = (&samples[at], &samples[at + WINDOW]);
    to.counted(from, 0) as f64 / to.since(from)
}

/// Seconds after step `begin` until the rate stays near `target` until step `end`.
fn settled(samples: &[Sample], begin: usize, end: usize, target: f64) -> f64 {
    let far = |&at: &usize| (rate(samples, at) / target - 1.0).abs() > NEAR;
    let last = (begin..=end - WINDOW).rev().find(far);
    let steps = last.map_or(0, |at| at + 1 - begin);
    steps as f64 * STEP.as_secs_f64()
}

/// (times the normal rate while suspended, s until it was reached, s until the normal rate was back)
fn judge(samples: &[Sample], [first, second, third]: [usize; 3]) -> (f64, f64, f64) {
    let (stop, go, end) = (first, first + second, first + second + third);
    let mean = |from: usize, to: usize| {
        samples[to].counted(&samples[from], 0) as f64 / samples[to].since(&samples[from])
    };
    let normal = mean(0, stop);
    // The mean of the phase without its first second, which is what is judged.
    let second = 1000 / STEP.as_millis() as usize;
    let faster = mean(stop + second, go) / normal;
    (
        faster,
        settled(samples, stop, go, 2.0 * normal),
        settled(samples, go, end, normal),
    )
}

fn run(lab: &Lab) -> Result<Outcome> {
    let phases = phases(lab);
    let sides = lab.each_side(|session| {
        lab.say(&format!("{}: suspend and resume", session.side()));
        record(session, phases)
    })?;
    let mut table = Table::new(&["side", "time_s", "kept_loops", "suspended_loops"]);
    let mut series = Vec::new();
    for (side, samples) in sides.iter() {
        let kept = |s: &Sample| (s.since(&samples[0]), s.counted(&samples[0], 0) as f64);
        for s in samples {
            table.push(vec![
                side.to_string().into(),
                s.since(&samples[0]).into(),
                s.counted(&samples[0], 0).into(),
                s.counted(&samples[0], 1).into(),
            ]);
        }
        let points = samples.iter().map(kept).collect();
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            points,
        ));
    }
    let faster = sides.both(|samples| judge(samples, phases).0);
    let up = sides.both(|samples| judge(samples, phases).1);
    let back = sides.both(|samples| judge(samples, phases).2);
    let at = |steps: usize| steps as f64 * STEP.as_secs_f64();
    let (stop, go) = (at(phases[0]), at(phases[0] + phases[1]));
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!(
                "{}: {} Suspended at {stop} s, resumed at {go} s.",
                EXPERIMENT.source, EXPERIMENT.says
            ),
            x: "time (s)".into(),
            y: "loops of the process that is not suspended".into(),
            shape: Shape::Lines { marks: false },
            series,
        },
        claims: vec![
            Claim::new(
                "rate during the suspension, of the normal one",
                "",
                Target::Within(1.98, 2.02),
                faster.0,
            )
            .stock(faster.1),
            Claim::new(
                "until the rate has doubled after the suspension",
                "s",
                Target::AtMost(1.0),
                up.0,
            )
            .stock(up.1),
            Claim::new(
                "until the rate is normal after the resumption",
                "s",
                Target::AtMost(1.0),
                back.0,
            )
            .stock(back.1),
        ],
        scale: format!(
            "Suspended at {stop} s, resumed at {go} s of virtual time; the paper: 250 s and 350 s. \
             A rate is a mean over 0.5 s and has arrived when it stays within 3 %."
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rates: &[(usize, u64)]) -> Vec<Sample> {
        let mut count = 0;
        let mut all = vec![];
        let steps = rates.iter().flat_map(|&(steps, rate)| vec![rate; steps]);
        for (index, rate) in std::iter::once(0).chain(steps).enumerate() {
            count += rate;
            all.push(Sample {
                time_ns: index as u64 * STEP.as_nanos() as u64,
                counts: vec![vec![count]],
                ..Default::default()
            });
        }
        all
    }

    #[test]
    fn doubling_at_once_and_late() {
        let (faster, up, back) = judge(&samples(&[(100, 10), (100, 20), (100, 10)]), [100; 3]);
        assert_eq!((faster, up, back), (2.0, 0.0, 0.0));
        // Half a second late to double: some windows mix both rates.
        let late = samples(&[(110, 10), (90, 20), (100, 10)]);
        let (_, up, back) = judge(&late, [100; 3]);
        assert!((0.45..=0.55).contains(&up), "{up}");
        assert_eq!(back, 0.0);
    }
}
