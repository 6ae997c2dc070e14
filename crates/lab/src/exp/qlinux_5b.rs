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

/// What the processes of both classes did.
struct Pair {
    loops: [u64; 2],
    cpu_s: [f64; 2],
}

fn pair(session: &Session, weight: u32, length: Duration) -> Result<Pair> {
    let mut scene = Scene::new(session)?;
    scene.class("/a", 100)?;
    scene.class("/b", 100 * weight)?;
    scene.start("/a", "inf", &[])?;
    scene.start("/b", "inf", &[])?;
    scene.settle()?;
    let (before, after) = scene.measure(length)?;
    Ok(Pair {
        loops: [after.counted(&before, 0), after.counted(&before, 1)],
        cpu_s: ["/a", "/b"].map(|class| after.used(&before, class)),
    })
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

    let mut table = Table::new(&[
        "side", "weight_a", "weight_b", "a_loops", "b_loops", "a_cpu_s", "b_cpu_s",
    ]);
    let mut series = Vec::new();
    for (side, pairs) in sides.iter() {
        for (weight, pair) in WEIGHTS.iter().zip(pairs) {
            table.push(vec![
                side.to_string().into(),
                100u32.into(),
                (100 * weight).into(),
                pair.loops[0].into(),
                pair.loops[1].into(),
                pair.cpu_s[0].into(),
                pair.cpu_s[1].into(),
            ]);
        }
        for (index, name) in ["weight 1", "weight 1, 2, 4"].iter().enumerate() {
            let points = pairs
                .iter()
                .map(|pair| (0.0, pair.loops[index] as f64))
                .collect();
            let name = format!("{name}, {}", side.label());
            series.push(Series::new(&name, index, side.dashed(), points));
        }
    }
    let mut claims = Vec::new();
    for (index, &weight) in WEIGHTS.iter().enumerate() {
        let w = f64::from(weight);
        // Loops pay for switching too, which costs the lighter class the same in less time.
        let cpu = sides.both(|pairs| pairs[index].cpu_s[1] / pairs[index].cpu_s[0]);
        let loops = sides.both(|pairs| pairs[index].loops[1] as f64 / pairs[index].loops[0] as f64);
        for (of, found, part) in [("CPU time", cpu, 0.005), ("loops", loops, 0.02)] {
            let target = Target::Within(w * (1.0 - part), w * (1.0 + part));
            let text = format!("ratio of {of} at weights 1:{weight}");
            claims.push(Claim::new(&text, "", target, found.0).stock(found.1));
        }
    }
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
        claims,
        scale: format!(
            "{} s of virtual time for each pair after a warm-up; the paper shows t = 337 s.",
            length.as_secs()
        ),
    })
}
