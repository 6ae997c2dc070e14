// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 7(a): two classes of packets by their weights.

use super::link::{self, Case, Found, Load};
use super::{Compared, Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Side;
use crate::manifest::Target;
use crate::net::{Plan, Tree};
use anyhow::Result;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-7a",
    source: "QLinux, figure 7(a)",
    title: "Bytes of two classes of packets",
    says: "Two senders of UDP as fast as possible, each in a class of its own, receive the link's bandwidth in \
           proportion to the weights of their classes.",
    cpus: 1,
    seconds: 190,
    run,
};

/// The paper's weights of CPU classes, and one more.
const WEIGHTS: [u32; 4] = [1, 2, 4, 8];
/// The one that is drawn, as in the paper.
const DRAWN: usize = 2;
/// Mbit/s; the paper's cards have 100.
const RATE: u64 = 20;
/// Bytes of a packet.
const SIZE: usize = 1500;

fn cases() -> Vec<Case> {
    let case = |weight: u32| Case {
        name: format!("1:{weight}"),
        short: format!("1:{weight}"),
        plan: Plan::mbit(RATE, Tree::flat(&[1, weight])),
        loads: vec![Load::Udp(SIZE); 2],
    };
    WEIGHTS.map(case).into()
}

fn curves(sides: &Compared<Vec<Option<Found>>>) -> Vec<Series> {
    let mut series = Vec::new();
    for (side, all) in sides.iter() {
        // All that divide by weights are on one line: two of them will do.
        if !matches!(side, Side::Qlinux | Side::Fifo | Side::Htb) {
            continue;
        }
        for row in all[DRAWN].iter().flat_map(|found| &found.rows) {
            let name = format!("weight {}, {}", row.weight, side.label());
            let points = row.curve.clone();
            series.push(Series::new(&name, side.colour(), side.dashed(), points));
        }
    }
    series
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(6, 30);
    let mut cases = cases();
    cases.retain(|case| lab.only.is_none() || lab.wants(&case.name));
    let sides = link::measure_all(lab, &link::ALL, &cases, length)?;
    let mut claims = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let text = format!("largest error of a share in any 5 s, weights {}", case.name);
        claims.push(sides.claim(&text, "%", Target::AtMost(1.0), |all| {
            all[index].as_ref().map(|found| found.error)
        }));
    }
    claims.push(sides.claim(
        "error of the link's rate in any 5 s",
        "%",
        Target::AtMost(1.0),
        |all| {
            let errors = all.iter().flatten().map(|found| found.rate_error);
            Some(errors.fold(0.0, f64::max))
        },
    ));
    let drawn = cases.len() == WEIGHTS.len();
    Ok(Outcome {
        table: link::table(&sides, &cases),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {} Weights 1:4.", EXPERIMENT.source, EXPERIMENT.says),
            x: "time (s)".into(),
            y: "bytes received".into(),
            shape: Shape::Lines { marks: false },
            series: if drawn { curves(&sides) } else { Vec::new() },
        },
        claims,
        scale: format!(
            "{} s of virtual time after a warm-up on a link of {RATE} Mbit/s; the paper's has 100. Packets of {SIZE} \
             bytes, counted at the far end with their Ethernet headers. A sender waits while its socket's buffer is full. \
             CAKE has no weights: each sender is a flow to it.",
            length.as_secs()
        ),
    })
}
