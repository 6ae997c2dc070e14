// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 5(a): progress of two Inf processes at weights 1:4.

use super::pair::{self, Pair};
use super::{Experiment, Lab, Outcome};
use crate::figure::Series;
use crate::scene::{Sample, Scene};
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-5a",
    source: "QLinux, figure 5(a)",
    title: "Progress of two endless loops at weights 1:4",
    says: "Each application gets processor bandwidth in proportion to its weight: two Inf \
           processes in classes of weight 1 and 4 progress at rates of 1:4 all the time.",
    cpus: 1,
    seconds: 30,
    run,
};

const STEP: Duration = Duration::from_millis(500);
const PAIR: Pair = Pair {
    light: "/one",
    heavy: "/four",
    ratio: 4.0,
    window: (2, "second"),
    worst: 5.0,
};

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(12, 337);
    let steps = (length.as_millis() / STEP.as_millis()) as usize;
    let sides = lab.each_side(|session| {
        lab.say(&format!("{}: weights 1:4", session.side()));
        let mut scene = Scene::new(session)?;
        scene.class("/one", 100)?;
        scene.class("/four", 400)?;
        scene.start("/one", "inf", &[])?;
        scene.start("/four", "inf", &[])?;
        scene.settle()?;
        scene.series(STEP, steps)
    })?;

    let mut table = Table::new(&["side", "time_s", "weight_1_loops", "weight_4_loops"]);
    let mut series = Vec::new();
    for (side, samples) in sides.iter() {
        let point =
            |s: &Sample, index| (s.since(&samples[0]), s.counted(&samples[0], index) as f64);
        for s in samples {
            let counted = |index| s.counted(&samples[0], index);
            let time = s.since(&samples[0]);
            table.push(vec![
                side.to_string().into(),
                time.into(),
                counted(0).into(),
                counted(1).into(),
            ]);
        }
        for (index, weight) in [(1, 4), (0, 1)] {
            let points = samples.iter().map(|s| point(s, index)).collect();
            let name = format!("weight {weight}, {}", side.label());
            series.push(Series::new(&name, index, side.dashed(), points));
        }
    }
    Ok(Outcome {
        table,
        figure: pair::figure(&EXPERIMENT, "loops", series),
        claims: PAIR.claims(&sides),
        scale: format!(
            "{} s of virtual time after a warm-up; the paper shows 337 s.",
            length.as_secs()
        ),
    })
}
