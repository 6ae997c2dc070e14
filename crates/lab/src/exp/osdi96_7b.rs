// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 7(b): what the depth of the scheduling structure costs.

use super::{depth, Experiment, Lab, Outcome};
use anyhow::Result;

pub const EXPERIMENT: Experiment = Experiment {
    name: "osdi96-7b",
    source: "OSDI'96, figure 7(b)",
    title: "Throughput by the depth of the scheduling structure",
    says: "With 0 to 30 nodes between the root and class SFQ-1 the throughput of its threads \
           remains within 0.2 %.",
    cpus: 1,
    seconds: 90,
    run,
};

fn run(lab: &Lab) -> Result<Outcome> {
    let depths: &[usize] = match lab.full {
        true => &[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30],
        false => &[0, 4, 10, 20, 30],
    };
    let work = ("dhry", ["--threads", "5"].as_slice());
    let paper = "five Dhrystone-like threads, the paper does not say how many it had.";
    depth::run(lab, &EXPERIMENT, work, depths, lab.seconds(3, 20), paper)
}
