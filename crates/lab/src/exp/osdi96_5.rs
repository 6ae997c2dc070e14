// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 5: five equal threads under time sharing and under SFQ.

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::{Claim, Target};
use crate::scene::Scene;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "osdi96-5",
    source: "OSDI'96, figure 5",
    title: "Five equal threads under time sharing and SFQ",
    says: "Under SFQ five threads of equal weight receive the same throughput; under the time \
           sharing of 1996 it varied although all had the same priority.",
    cpus: 1,
    seconds: 22,
    run,
};

const THREADS: usize = 5;

/// Loops of each thread under one scheduler.
type Loops = Vec<u64>;

fn threads(session: &Session, leaf: &str, length: Duration) -> Result<Loops> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf("/dhrystones", 100, leaf)?;
    scene.start("/dhrystones", "dhry", &["--threads", &THREADS.to_string()])?;
    scene.settle()?;
    let (before, after) = scene.measure(length)?;
    let pairs = after.counts[0].iter().zip(&before.counts[0]);
    Ok(pairs.map(|(after, before)| after - before).collect())
}

/// (max - min) / mean, in percent.
fn spread(loops: &Loops) -> f64 {
    let (min, max) = loops
        .iter()
        .fold((u64::MAX, 0), |(lo, hi), &n| (lo.min(n), hi.max(n)));
    let mean = loops.iter().sum::<u64>() as f64 / loops.len() as f64;
    100.0 * (max - min) as f64 / mean
}

/// Leaf schedulers of a side, and their names in the legend. The one judged is the last.
fn leaves(side: Side) -> &'static [(&'static str, &'static str)] {
    match side {
        Side::Stock => &[("ts", "stock Linux")],
        Side::Flatcg => &[("ts", "scx_flatcg")],
        _ => &[("ts", "QLinux, leaf ts"), ("sfq", "QLinux, leaf sfq")],
    }
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(5, 60);
    let sides = lab.each_side(|session| {
        let one = |&(leaf, name): &(&str, &'static str)| {
            lab.say(&format!("{name}: {THREADS} threads"));
            Ok((name, threads(session, leaf, length)?))
        };
        leaves(session.side())
            .iter()
            .map(one)
            .collect::<Result<Vec<_>>>()
    })?;
    let mut table = Table::new(&["side", "scheduler", "thread", "loops"]);
    let mut series = Vec::new();
    for (side, runs) in sides.iter() {
        for (name, loops) in runs {
            for (thread, &count) in loops.iter().enumerate() {
                let thread = (thread + 1).into();
                table.push(vec![
                    side.to_string().into(),
                    (*name).into(),
                    thread,
                    count.into(),
                ]);
            }
            let points = loops.iter().map(|&count| (0.0, count as f64)).collect();
            let colour = if name.ends_with("ts") {
                3
            } else {
                side.colour()
            };
            series.push(Series::new(name, colour, side.dashed(), points));
        }
    }
    let spread = sides.both(|runs| runs.last().map_or(f64::NAN, |(_, loops)| spread(loops)));
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "thread".into(),
            y: "loops".into(),
            shape: Shape::Bars((1..=THREADS).map(|thread| thread.to_string()).collect()),
            series,
        },
        claims: vec![Claim::new(
            "spread of the threads' loops, of their mean",
            "%",
            Target::AtMost(1.0),
            spread.0,
        )
        .stock(spread.1)],
        scale: format!(
            "{} s of virtual time after a warm-up. Today's stock kernel is fair among equal \
             threads too, unlike the time sharing the paper compares with.",
            length.as_secs()
        ),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn spread_of_equals_is_nothing() {
        assert_eq!(super::spread(&vec![5, 5, 5]), 0.0);
        assert_eq!(super::spread(&vec![9, 10, 11]), 20.0);
    }
}
