// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 7(a): what scheduling costs, by number of threads.

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::{Claim, Target};
use crate::scene::Scene;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "osdi96-7a",
    source: "OSDI'96, figure 7(a)",
    title: "Throughput of 1 to 20 threads, by that of the stock kernel",
    says: "The throughput of 1 to 20 Dhrystone threads under the hierarchical scheduler is within \
           1 % of that under the unmodified kernel.",
    cpus: 1,
    seconds: 90,
    run,
};

/// Loops of all threads in node SFQ-1 of the paper's structure; the other nodes are empty.
fn loops(session: &Session, threads: usize, length: Duration) -> Result<u64> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf("/sfq-1", 200, "sfq")?;
    scene.class_with_leaf("/sfq-2", 600, "sfq")?;
    scene.class_with_leaf("/svr4", 100, "ts")?;
    scene.start("/sfq-1", "dhry", &["--threads", &threads.to_string()])?;
    scene.settle()?;
    let (before, after) = scene.measure(length)?;
    Ok(after.counted(&before, 0))
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(3, 20);
    let threads: Vec<usize> = match lab.full {
        true => (1..=20).collect(),
        false => vec![1, 2, 5, 10, 20],
    };
    let sides = lab.every_side(|session| {
        let one = |&threads| {
            lab.say(&format!("{}: {threads} threads", session.side()));
            Ok(loops(session, threads, length)? as f64)
        };
        threads.iter().map(one).collect::<Result<Vec<f64>>>()
    })?;
    let stock = sides.stock.as_ref();
    let ratio = |found: &[f64], at: usize| stock.map_or(f64::NAN, |stock| found[at] / stock[at]);
    let mut table = Table::new(&["side", "threads", "loops", "of_stock"]);
    let mut series = Vec::new();
    for (side, found) in sides.iter() {
        let mut points = Vec::new();
        for (at, &threads) in threads.iter().enumerate() {
            let part = ratio(found, at);
            let side = side.to_string().into();
            table.push(vec![
                side,
                threads.into(),
                (found[at] as u64).into(),
                part.into(),
            ]);
            points.push((threads as f64, part));
        }
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            points,
        ));
    }
    let claims = threads.iter().enumerate().map(|(at, threads)| -> Claim {
        let text = format!("throughput of {threads} threads, by stock's");
        sides.claim(&text, "", Target::AtLeast(0.99), |found| ratio(found, at))
    });
    Ok(Outcome {
        claims: claims.collect(),
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "threads".into(),
            y: "loops, by those under the stock kernel".into(),
            shape: Shape::Lines { marks: true },
            series,
        },
        scale: format!(
            "{} s of virtual time for each point after a warm-up, with the quanta each scheduler \
             chooses by itself; the paper averages 20 runs with quanta of 20 ms.",
            length.as_secs()
        ),
    })
}
