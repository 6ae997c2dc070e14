// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 13(a): a solitary Inf process at growing depth.

use super::{depth, Experiment, Lab, Outcome};
use anyhow::Result;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-13a",
    source: "QLinux, figure 13(a)",
    title: "Iterations of a solitary endless loop by the depth of the hierarchy",
    says: "The bandwidth a solitary Inf process receives is relatively unaffected by the growing \
           overhead of scheduling as its class lies deeper in the hierarchy.",
    cpus: 1,
    seconds: 90,
    run,
};

fn run(lab: &Lab) -> Result<Outcome> {
    let depths: &[usize] = match lab.full {
        true => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30],
        false => &[0, 1, 4, 10, 30],
    };
    let work = ("inf", [].as_slice());
    let paper = "the paper counts for 300 s.";
    depth::run(lab, &EXPERIMENT, work, depths, lab.seconds(3, 300), paper)
}
