// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 8(a): two SFQ nodes beside a node whose load fluctuates.

use super::pair::{self, Pair};
use super::{Experiment, Lab, Outcome};
use crate::figure::Series;
use crate::machine::Session;
use crate::scene::{Sample, Scene};
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "osdi96-8a",
    source: "OSDI'96, figure 8(a)",
    title: "Nodes of weight 2 and 6 beside a fluctuating load of weight 1",
    says: "The throughput of nodes SFQ-1 and SFQ-2 fluctuates with the load of node SVR4, yet \
           it is in the ratio 1:3 of their weights over time.",
    cpus: 1,
    seconds: 35,
    run,
};

const STEP: Duration = Duration::from_millis(500);
const PAIR: Pair = Pair {
    light: "/sfq-1",
    heavy: "/sfq-2",
    ratio: 3.0,
    window: (4, "2 s"),
    worst: 2.5,
};

fn record(session: &Session, seed: u64, steps: usize) -> Result<Vec<Sample>> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf("/sfq-1", 200, "sfq")?;
    scene.class_with_leaf("/sfq-2", 600, "sfq")?;
    scene.class_with_leaf("/svr4", 100, "ts")?;
    scene.start("/sfq-1", "dhry", &["--threads", "2"])?;
    scene.start("/sfq-2", "dhry", &["--threads", "2"])?;
    let seed = seed.to_string();
    let slow = ["--run", "300ms", "--sleep", "1s", "--seed", &seed];
    scene.start("/svr4", "burst", &slow)?;
    let fast = [
        "--run",
        "5ms",
        "--sleep",
        "200ms",
        "--threads",
        "3",
        "--seed",
        &seed,
    ];
    scene.start("/svr4", "burst", &fast)?;
    scene.settle()?;
    scene.series(STEP, steps)
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(14, 120);
    let steps = (length.as_millis() / STEP.as_millis()) as usize;
    let sides = lab.each_side(|session| {
        lab.say(&format!("{}: weights 2:6:1", session.side()));
        record(session, lab.seed, steps)
    })?;
    let columns = ["side", "time_s", "sfq1_loops", "sfq2_loops", "svr4_cpu_s"];
    let mut table = Table::new(&columns);
    let mut series = Vec::new();
    for (side, samples) in sides.iter() {
        let start = &samples[0];
        for pair in samples.windows(2) {
            let counted = |index| pair[1].counted(&pair[0], index);
            table.push(vec![
                side.to_string().into(),
                pair[1].since(start).into(),
                counted(0).into(),
                counted(1).into(),
                pair[1].used(&pair[0], "/svr4").into(),
            ]);
        }
        for (index, name) in [(1, "SFQ-2, weight 6"), (0, "SFQ-1, weight 2")] {
            let rate = |pair: &[Sample]| {
                let time = pair[1].since(start);
                (
                    time,
                    pair[1].counted(&pair[0], index) as f64 / pair[1].since(&pair[0]),
                )
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
            "{} s of virtual time after a warm-up; node SVR4 has the leaf scheduler ts and random \
             bursts (--seed) in place of the system's other threads.",
            length.as_secs()
        ),
    })
}
