// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of every class of a link against its ideal, for trees of all kinds.

mod cases;

use super::link::{self, Case, Found};
use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Shape};
use crate::machine::Side;
use crate::manifest::Target;
use anyhow::{ensure, Result};

pub const EXPERIMENT: Experiment = Experiment {
    name: "link-shares",
    source: "QLinux, section 2.3",
    title: "Share of the link of every class against its ideal",
    says: "Every class receives bandwidth in proportion to its weight at every level of the hierarchy, whatever its \
           packets are.",
    cpus: 1,
    seconds: 430,
    run,
};

/// Percent, of a share and of the rate, in any 5 s.
const TARGET: f64 = 1.0;

fn worst(all: &[Option<Found>], of: impl Fn(&Found) -> f64) -> f64 {
    all.iter().flatten().map(of).fold(0.0, f64::max)
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(6, 30);
    let mut cases = cases::all(lab.seed, if lab.full { 8 } else { 2 });
    cases.retain(|case| lab.wants(&case.name));
    ensure!(
        !cases.is_empty(),
        "no case has such a name: see data.csv of a whole run"
    );
    let sides = [Side::Fifo, Side::Htb, Side::Hfsc, Side::Qlinux];
    let sides = link::measure_all(lab, &sides, &cases, length)?;
    let claim = |(index, case): (usize, &Case)| {
        let text = format!("largest error of a share in any 5 s: {}", case.name);
        sides.claim(&text, "%", Target::AtMost(TARGET), |all| {
            all[index].as_ref().map(|found| found.error)
        })
    };
    let mut claims: Vec<_> = cases.iter().enumerate().map(claim).collect();
    claims.push(sides.claim(
        "error of the link's rate in any 5 s",
        "%",
        Target::AtMost(TARGET),
        |all| Some(worst(all, |found| found.rate_error)),
    ));
    claims.push(sides.claim(
        "largest difference of siblings of UDP over any time, of what SFQ allows",
        "%",
        Target::AtMost(100.0),
        |all| {
            all.iter()
                .flatten()
                .filter_map(|found| found.apart)
                .reduce(f64::max)
        },
    ));
    Ok(Outcome {
        claims,
        table: link::table(&sides, &cases),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!(
                "{} Largest error of any share in any 5 s, asked: at most {TARGET} %. HTB has no eighth level.",
                EXPERIMENT.says
            ),
            x: "classes".into(),
            y: "largest error of a share (%)".into(),
            shape: Shape::Bars(cases.iter().map(|case| case.short.clone()).collect()),
            // The FIFO, which divides nothing, would hide all others.
            series: link::bars(&sides).into_iter().filter(|s| s.name != Side::Fifo.label()).collect(),
        },
        scale: format!(
            "{} s of virtual time for each case after a warm-up, links of 10 to 50 Mbit/s and the rates said. Bytes at the far end with \
             Ethernet headers; a TCP packet of several segments (GSO) counts with the headers each has on a line.",
            length.as_secs()
        ),
    })
}
