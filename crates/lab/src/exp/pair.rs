// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two classes, each with one counting worker, that should progress in a ratio.

use super::{Experiment, Sides};
use crate::figure::{Figure, Series, Shape};
use crate::manifest::{Claim, Target};
use crate::scene::Sample;

pub struct Pair {
    /// Class of the first worker.
    pub light: &'static str,
    /// Class of the second.
    pub heavy: &'static str,
    /// Of the weights, heavy to light.
    pub ratio: f64,
    /// Samples of the windows over which the ratio is followed, and their name.
    pub window: (usize, &'static str),
    /// The most that it may be off in any of them, in percent.
    pub worst: f64,
}

/// Loops pay for switching too, which costs the lighter class the same in less time.
fn loops(before: &Sample, after: &Sample) -> f64 {
    after.counted(before, 1) as f64 / after.counted(before, 0) as f64
}

impl Pair {
    fn cpu(&self, before: &Sample, after: &Sample) -> f64 {
        after.used(before, self.heavy) / after.used(before, self.light)
    }

    fn furthest(&self, samples: &[Sample]) -> f64 {
        let windows = samples.windows(self.window.0 + 1);
        let errors = windows.map(|w| (loops(&w[0], &w[self.window.0]) / self.ratio - 1.0).abs());
        100.0 * errors.fold(0.0, f64::max)
    }

    /// CPU time within 0.5 % of the ratio, loops within 2 %.
    pub fn claims(&self, sides: &Sides<Vec<Sample>>) -> Vec<Claim> {
        let ends = |samples: &[Sample]| (samples[0].clone(), samples[samples.len() - 1].clone());
        let around =
            |part: f64| Target::Within(self.ratio * (1.0 - part), self.ratio * (1.0 + part));
        let claim = |text: &str, unit, target, value: &dyn Fn(&[Sample]) -> f64| {
            let (qlinux, stock) = sides.both(|samples| value(samples));
            Claim::new(text, unit, target, qlinux).stock(stock)
        };
        vec![
            claim("ratio of the CPU time", "", around(0.005), &|samples| {
                let (first, last) = ends(samples);
                self.cpu(&first, &last)
            }),
            claim("ratio of the loops", "", around(0.02), &|samples| {
                let (first, last) = ends(samples);
                loops(&first, &last)
            }),
            claim(
                &format!("furthest from {} in any {}", self.ratio, self.window.1),
                "%",
                Target::AtMost(self.worst),
                &|samples| self.furthest(samples),
            ),
        ]
    }
}

/// The progress of an experiment's workers over time.
pub fn figure(experiment: &Experiment, y: &str, series: Vec<Series>) -> Figure {
    Figure {
        title: experiment.title.into(),
        caption: format!("{}: {}", experiment.source, experiment.says),
        x: "time (s)".into(),
        y: y.into(),
        shape: Shape::Lines { marks: false },
        series,
    }
}
