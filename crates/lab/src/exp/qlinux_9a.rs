// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 9(a): the part of a disk's time that a class receives against its share.

use super::disk::{self, Case, Found};
use super::{Compared, Experiment, Lab, Outcome};
use crate::disk::Model;
use crate::figure::{Figure, Series, Shape};
use crate::machine::Side;
use anyhow::Result;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-9a",
    source: "QLinux, figure 9(a)",
    title: "A disk's time in two classes against their shares",
    says: "Two IO_inf applications with six clients each, one in the interactive and one in the throughput-intensive class, \
           receive disk bandwidth in proportion to the weights of their classes.",
    cpus: 1,
    seconds: 580,
    run,
};

/// Of the interactive, the throughput-intensive and the real-time class.
pub const WEIGHTS: [[u32; 3]; 6] = [
    [4, 1, 0],
    [1, 1, 0],
    [1, 2, 0],
    [1, 4, 0],
    [1, 8, 0],
    [3, 5, 7],
];
/// Percent of the disk's time, over twenty rounds.
const ERROR: f64 = 2.0;

/// Both disks with all weights, as far as they are asked for.
pub fn cases(lab: &Lab) -> Vec<Case> {
    let of_model = |model| WEIGHTS.map(|weights| Case::classes(model, weights));
    let mut cases = Model::ALL.map(of_model).concat();
    cases.retain(|case| lab.wants(&case.name));
    cases
}

/// What class 2 got against its share, of cases with two classes.
fn curves(sides: &Compared<Vec<Found>>, cases: &[Case]) -> Vec<Series> {
    let mut series = Vec::new();
    for model in Model::ALL {
        for (side, all) in sides.iter() {
            // All that know no weights are on one line: one of them will do.
            if !matches!(side, Side::Qlinux | Side::Bfq | Side::MqDeadline) {
                continue;
            }
            let of_model = cases
                .iter()
                .zip(all)
                .filter(|(case, _)| case.plan.model == model);
            let two = of_model.filter(|(case, _)| case.users.len() == 2);
            let point = |(_, found): (&Case, &Found)| {
                (100.0 * found.rows[1].ideal, 100.0 * found.rows[1].share)
            };
            let name = format!("{}, {}", side.label(), model.word());
            let colour = side.colour() + 3 * model as usize;
            series.push(Series::new(
                &name,
                colour,
                side.dashed(),
                two.map(point).collect(),
            ));
        }
    }
    series.retain(|one| !one.points.is_empty());
    series
}

fn run(lab: &Lab) -> Result<Outcome> {
    let cases = cases(lab);
    let sides = disk::measure_all(lab, &disk::ALL, &cases)?;
    Ok(Outcome {
        table: disk::table(&sides, &cases),
        claims: disk::errors(&sides, &cases, ERROR),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "share of the throughput-intensive class (%)".into(),
            y: "received of the disk's time (%)".into(),
            shape: Shape::Lines { marks: true },
            series: curves(&sides, &cases),
        },
        scale: format!(
            "fio reads 4 KB at random places past the page cache, six clients in each class, for {} s of virtual time \
             (turning) and {} s (flat, parallel) after a warm-up; rounds of 100 ms. {} The error is the greatest of any class in any \
             twenty of Cello's rounds, elsewhere in any 2 s. {} The paper counts requests, which are in the table too.",
            disk::length(lab, Model::Turning).as_secs(),
            disk::length(lab, Model::Flat).as_secs(),
            disk::DISK,
            disk::STRICT,
        ),
    })
}
