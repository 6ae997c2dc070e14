// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 5(b): loops of two Inf processes for weights 1:1, 1:2 and 1:4.

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::{Claim, Target};
use crate::scene::Scene;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-5b",
    source: "QLinux, figure 5(b)",
    title: "Loops executed for different weights",
    says: "The numbers of loops that two Inf processes execute are in the ratio of their \
           classes' weights, 1:1, 1:2 and 1:4.",
    cpus: 1,
    seconds: 45,
    run,
};

const WEIGHTS: [u32; 3] = [1, 2, 4];

fn pair(session: &Session, weight: u32, length: Duration) -> Result<[u64; 2]> {
    let mut scene = Scene::new(session)?;
    scene.class("/a", 100)?;
    scene.class("/b", 100 * weight)?;
    scene.start("/a", "inf", &[])?;
    scene.start("/b", "inf", &[])?;
    scene.settle()?;
    let (before, after) = scene.measure(length)?;
    Ok([after.counted(&before, 0), after.counted(&before, 1)])
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(5, 337);
    let sides = lab.each_side(|session| {
        let one = |&weight| {
            lab.say(&format!("{}: weights 1:{weight}", session.side()));
            pair(session, weight, length)
        };
        WEIGHTS.iter().map(one).collect::<Result<Vec<_>>>()
    })?;

    let mut table = Table::new(&["side", "weight_a", "weight_b", "a_loops", "b_loops"]);
    let mut series = Vec::new();
    for (side, pairs) in sides.iter() {
        for (weight, [a, b]) in WEIGHTS.iter().zip(pairs) {
            let row = [1u32.into(), (*weight).into(), (*a).into(), (*b).into()];
            let row = std::iter::once(side.to_string().into()).chain(row);
            table.push(row.collect());
        }
        for (index, name) in ["weight 1", "weight 1, 2, 4"].iter().enumerate() {
            let points = pairs.iter().map(|pair| (0.0, pair[index] as f64)).collect();
            let name = format!("{name}, {}", side.label());
            series.push(Series::new(&name, index, side.dashed(), points));
        }
    }
    let claims = WEIGHTS.iter().enumerate().map(|(index, &weight)| {
        let w = f64::from(weight);
        let (qlinux, stock) = sides.both(|pairs| pairs[index][1] as f64 / pairs[index][0] as f64);
        let target = Target::Within(w * 0.995, w * 1.005);
        Claim::new(&format!("ratio at weights 1:{weight}"), "", target, qlinux).stock(stock)
    });
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "weights".into(),
            y: "loops".into(),
            shape: Shape::Bars(WEIGHTS.iter().map(|w| format!("1:{w}")).collect()),
            series,
        },
        claims: claims.collect(),
        scale: format!(
            "{} s of virtual time for each pair after a warm-up; the paper shows t = 337 s.",
            length.as_secs()
        ),
    })
}
