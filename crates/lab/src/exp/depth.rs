// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput of one class by the number of nodes between it and the root.

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::Target;
use crate::scene::Scene;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

/// What the papers find, and are asked for here: percent.
const CHANGE: f64 = 0.2;

/// Loops of `work` in a class below `depth` nodes with nothing else in them.
fn loops(session: &Session, depth: usize, work: (&str, &[&str]), length: Duration) -> Result<f64> {
    let mut scene = Scene::new(session)?;
    let mut path = String::new();
    for _ in 0..depth {
        path += "/n";
        scene.class(&path, 100)?;
    }
    path += "/leaf";
    scene.class_with_leaf(&path, 100, "sfq")?;
    scene.start(&path, work.0, work.1)?;
    scene.settle()?;
    let (before, after) = scene.measure(length)?;
    Ok(after.counted(&before, 0) as f64)
}

/// The greatest change from the first point, in percent.
fn change(found: &[f64]) -> f64 {
    let changes = found
        .iter()
        .map(|loops| 100.0 * (loops / found[0] - 1.0).abs());
    changes.fold(0.0, f64::max)
}

/// Runs `work` at each depth.
pub fn run(
    lab: &Lab,
    experiment: &Experiment,
    work: (&str, &[&str]),
    depths: &[usize],
    length: Duration,
    paper: &str,
) -> Result<Outcome> {
    let sides = lab.every_side(|session| {
        let one = |&depth| {
            lab.say(&format!("{}: depth {depth}", session.side()));
            loops(session, depth, work, length)
        };
        depths.iter().map(one).collect::<Result<Vec<f64>>>()
    })?;
    let mut table = Table::new(&["side", "depth", "loops", "of_first"]);
    let mut series = Vec::new();
    for (side, found) in sides.iter() {
        for (&depth, &loops) in depths.iter().zip(found) {
            let name = side.to_string().into();
            table.push(vec![
                name,
                depth.into(),
                (loops as u64).into(),
                (loops / found[0]).into(),
            ]);
        }
        let points = depths.iter().zip(found).map(|(&d, &n)| (d as f64, n));
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            points.collect(),
        ));
    }
    let last = depths[depths.len() - 1];
    let text = format!("greatest change of the throughput, depth 0 to {last}");
    Ok(Outcome {
        table,
        figure: Figure {
            title: experiment.title.into(),
            caption: format!("{}: {}", experiment.source, experiment.says),
            x: "nodes between the root and the class".into(),
            y: "loops".into(),
            shape: Shape::Lines { marks: true },
            series,
        },
        claims: vec![sides.claim(&text, "%", Target::AtMost(CHANGE), |found| change(found))],
        scale: format!(
            "{} s of virtual time for each depth after a warm-up; {paper}",
            length.as_secs()
        ),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_greatest_change_either_way() {
        assert!((super::change(&[100.0, 99.0, 100.5]) - 1.0).abs() < 1e-9);
    }
}
