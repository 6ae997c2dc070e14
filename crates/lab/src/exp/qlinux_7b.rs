// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 7(b): two classes whose packets are of different size.

use super::link::{self, Case, Load};
use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Shape};
use crate::manifest::Target;
use crate::net::{Plan, Tree};
use anyhow::Result;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-7b",
    source: "QLinux, figure 7(b)",
    title: "Shares of two classes with packets of different size",
    says: "The bandwidth that a class receives does not depend on the size of its packets.",
    cpus: 1,
    seconds: 295,
    run,
};

/// Bytes of each class's packets, and weights.
const CASES: [([usize; 2], [u32; 2]); 6] = [
    ([64, 1500], [1, 1]),
    ([64, 1500], [1, 4]),
    ([64, 1500], [4, 1]),
    ([256, 1024], [1, 1]),
    ([512, 1500], [1, 4]),
    ([1500, 512], [1, 4]),
];
/// Mbit/s: at more the processor has no time for packets of 64 bytes.
const RATE: u64 = 10;

fn cases() -> Vec<Case> {
    let case = |(sizes, weights): ([usize; 2], [u32; 2])| Case {
        name: format!(
            "{} and {} bytes, {}:{}",
            sizes[0], sizes[1], weights[0], weights[1]
        ),
        short: format!("{}, {}; {}:{}", sizes[0], sizes[1], weights[0], weights[1]),
        plan: Plan::mbit(RATE, Tree::flat(&weights)),
        loads: sizes.map(Load::Udp).into(),
    };
    CASES.map(case).into()
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(6, 30);
    let mut cases = cases();
    cases.retain(|case| lab.wants(&case.name));
    let sides = link::measure_all(lab, &link::ALL, &cases, length)?;
    let claim = |(index, case): (usize, &Case)| {
        let text = format!("largest error of a share in any 5 s, {}", case.name);
        sides.claim(&text, "%", Target::AtMost(1.0), |all| {
            all[index].as_ref().map(|found| found.error)
        })
    };
    Ok(Outcome {
        claims: cases.iter().enumerate().map(claim).collect(),
        table: link::table(&sides, &cases),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!(
                "{}: {} Largest error of a share in any 5 s, asked: at most 1 %.",
                EXPERIMENT.source, EXPERIMENT.says
            ),
            x: "bytes of a packet; weights".into(),
            y: "largest error of a share (%)".into(),
            shape: Shape::Bars(cases.iter().map(|case| case.short.clone()).collect()),
            series: link::bars(&sides),
        },
        scale: format!(
            "{} s of virtual time after a warm-up on a link of {RATE} Mbit/s; the paper's has 100. Bytes of a packet with its \
             IP header; shares are of bytes at the far end with Ethernet headers.",
            length.as_secs()
        ),
    })
}
