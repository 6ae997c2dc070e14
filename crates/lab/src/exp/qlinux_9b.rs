// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 9(b): how many requests are served in all, whoever divides the disk.

use super::disk::{self, Case, Found};
use super::{qlinux_9a, Compared, Experiment, Lab, Outcome};
use crate::disk::Model;
use crate::figure::{Figure, Series, Shape};
use crate::machine::Side;
use crate::manifest::{Claim, Target};
use anyhow::Result;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-9b",
    source: "QLinux, figure 9(b)",
    title: "Requests that a divided disk serves in all",
    says: "The total number of requests served is similar with all weights and under vanilla Linux: Cello has low \
           overheads and comparable throughput.",
    cpus: 1,
    seconds: 800,
    run,
};

/// Requests that the second turning disk takes at once.
const SEVERAL: u32 = 32;

/// Percent: a disk that is never idle serves as many whoever divides it, but for who asked at either end.
const SAME: f64 = 99.9;

/// What is asked for, in percent of mq-deadline's. Real-time requests leave an arm's way now and then to be
/// in time.
fn least(case: &Case) -> f64 {
    match (case.plan.model, case.users.len()) {
        (Model::Turning, 2) => 98.0,
        _ => 95.0,
    }
}

/// Those of figure 9(a), and a disk that takes over many requests before it serves them.
fn cases(lab: &Lab) -> Vec<Case> {
    let mut cases = qlinux_9a::cases(lab);
    let several = |weights| {
        let mut case = Case::classes(Model::Turning, weights);
        case.name = format!("turning, {SEVERAL} at once, {}", case.short);
        case.plan.depth = SEVERAL;
        case
    };
    let two = qlinux_9a::WEIGHTS
        .into_iter()
        .filter(|weights| weights[2] == 0);
    let more = two.map(several);
    cases.extend(more.filter(|case| lab.wants(&case.name)));
    cases
}

fn claims(sides: &Compared<Vec<Found>>, cases: &[Case]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let requests = |side| sides.of(side).map(|all| all[index].requests as f64);
        let stock = requests(Side::MqDeadline);
        let own = requests(Side::Qlinux);
        let part = |of: Option<f64>| own.zip(of).map(|(own, other)| 100.0 * own / other);
        let name = &case.name;
        let text = format!("{name}: requests, of mq-deadline's");
        let mut claim = Claim::new(&text, "%", Target::AtLeast(least(case)), part(stock));
        for side in disk::ALL {
            if let (Some(value), Some(stock), false) = (requests(side), stock, side == Side::Qlinux)
            {
                claim = match side {
                    Side::MqDeadline => claim.stock(Some(100.0)),
                    _ => claim.peer(side.label(), 100.0 * value / stock),
                };
            }
        }
        claims.push(claim);
        if sides.of(Side::Bfq).is_some() {
            let text = format!("{name}: requests, of BFQ's");
            claims.push(Claim::new(
                &text,
                "%",
                Target::AtLeast(SAME),
                part(requests(Side::Bfq)),
            ));
        }
    }
    claims
}

fn run(lab: &Lab) -> Result<Outcome> {
    let cases = cases(lab);
    let sides = disk::measure_all(lab, &disk::ALL, &cases)?;
    let stock = sides.of(Side::MqDeadline);
    let series = sides.iter().map(|(side, all)| {
        let height = |(index, found): (usize, &Found)| {
            let stock = stock.map_or(f64::NAN, |all| all[index].requests as f64);
            (0.0, 100.0 * found.requests as f64 / stock)
        };
        let points = all.iter().enumerate().map(height).collect();
        Series::new(side.label(), side.colour(), side.dashed(), points)
    });
    let group = |case: &Case| match (case.plan.model, case.plan.depth) {
        (Model::Turning, SEVERAL) => format!("q {}", case.short),
        (model, _) => format!("{} {}", model.initial(), case.short),
    };
    Ok(Outcome {
        table: disk::table(&sides, &cases),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: format!("weights; t: turning disk, f: flat disk, p: parallel disk, q: turning disk with {SEVERAL} requests at once"),
            y: "requests served (% of mq-deadline's)".into(),
            shape: Shape::Bars(cases.iter().map(group).collect()),
            series: series.collect(),
        },
        claims: claims(&sides, &cases),
        scale: format!(
            "The work of figure 9(a), {} s of virtual time (turning) and {} s (flat, parallel) after a warm-up, rounds of 100 ms. {} \
             A third disk turns and takes over {SEVERAL} requests before it serves them in that order, which leaves a \
             scheduler that hands over all it has nothing to choose from. {}",
            disk::length(lab, Model::Turning).as_secs(),
            disk::length(lab, Model::Flat).as_secs(),
            disk::DISK,
            disk::STRICT,
        ),
    })
}
