// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 8(b): leaf schedulers of two kinds beside each other.

use super::pair::{self, Pair};
use super::{Experiment, Lab, Outcome};
use crate::figure::Series;
use crate::machine::Session;
use crate::scene::{Sample, Scene};
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "osdi96-8b",
    source: "OSDI'96, figure 8(b)",
    title: "A node under SFQ with two threads beside one under SVR4 with one, of equal weight",
    says: "Nodes with different leaf schedulers are isolated from each other and, their weights \
           being equal, get the same throughput.",
    cpus: 1,
    seconds: 30,
    run,
};

const STEP: Duration = Duration::from_millis(500);
const PAIR: Pair = Pair {
    light: "/sfq-1",
    heavy: "/svr4",
    ratio: 1.0,
    window: (4, "2 s"),
    worst: 2.5,
};

fn record(session: &Session, steps: usize) -> Result<Vec<Sample>> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf("/sfq-1", 100, "sfq")?;
    scene.class_with_leaf("/svr4", 100, "svr4")?;
    scene.start("/sfq-1", "dhry", &["--threads", "2"])?;
    scene.start("/svr4", "dhry", &[])?;
    scene.settle()?;
    scene.series(STEP, steps)
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(10, 60);
    let steps = (length.as_millis() / STEP.as_millis()) as usize;
    let sides = lab.each_side(|session| {
        lab.say(&format!("{}: 2 threads, 1 thread", session.side()));
        record(session, steps)
    })?;
    let mut table = Table::new(&["side", "time_s", "sfq1_loops", "svr4_loops"]);
    let mut series = Vec::new();
    for (side, samples) in sides.iter() {
        let start = &samples[0];
        for pair in samples.windows(2) {
            table.push(vec![
                side.to_string().into(),
                pair[1].since(start).into(),
                pair[1].counted(&pair[0], 0).into(),
                pair[1].counted(&pair[0], 1).into(),
            ]);
        }
        for (index, name) in [(0, "SFQ-1, 2 threads"), (1, "SVR4, 1 thread")] {
            let rate = |pair: &[Sample]| {
                let counted = pair[1].counted(&pair[0], index) as f64;
                (pair[1].since(start), counted / pair[1].since(&pair[0]))
            };
            let points = samples.windows(2).map(rate).collect();
            let name = format!("{name}, {}", side.label());
            series.push(Series::new(&name, index, side.dashed(), points));
        }
    }
    Ok(Outcome {
        table,
        figure: pair::figure(&EXPERIMENT, "loops per second", series),
        claims: PAIR.claims(&sides),
        scale: format!(
            "{} s of virtual time after a warm-up; the paper runs 60 s (--full).",
            length.as_secs()
        ),
    })
}
