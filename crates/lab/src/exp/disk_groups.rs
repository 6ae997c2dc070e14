// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups of one class: its part of the disk by their weights.

use super::disk::{self, Case, Found, User};
use super::{Experiment, Lab, Outcome};
use crate::disk::{Class, Model, Plan};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Side;
use anyhow::Result;

pub const EXPERIMENT: Experiment = Experiment {
    name: "disk-groups",
    source: "QLinux, section 2.4; BFQ",
    title: "Cgroups of one class by their weights",
    says: "QLinux leaves shares of applications within a class to future work: here the cgroups of a class divide its part \
           of the disk's time by their weights, however many requests one of them has.",
    cpus: 1,
    seconds: 540,
    run,
};

const SIDES: [Side; 3] = [Side::MqDeadline, Side::Bfq, Side::Qlinux];
/// Percent of the disk's time, over twenty rounds.
const ERROR: f64 = 3.0;
/// Requests at a time of one that has very many.
const MANY: u32 = 512;

/// Two to five, with weights 1, 2, 3, ...
fn counted(model: Model, count: u32) -> Case {
    let users = (1..=count).map(|weight| User::io_inf(model, Class::Throughput, weight));
    let words: Vec<String> = (1..=count).map(|weight| weight.to_string()).collect();
    let short = words.join(":");
    Case {
        name: format!("{}, {short}", model.word()),
        short,
        // Their class has whole rounds.
        plan: Plan::new(model, [0, 1, 0]),
        users: users.collect(),
    }
}

/// Beside an interactive class of the same weight.
fn beside(model: Model) -> Case {
    let mut case = counted(model, 3);
    case.plan.weights = [1, 1, 0];
    case.users.push(User::io_inf(model, Class::Interactive, 1));
    case.name += " beside a class";
    case.short += " + class";
    case
}

/// One of them always has so many requests.
fn crowded(model: Model) -> Case {
    let mut case = counted(model, 2);
    case.users.push(User {
        clients: 1,
        depth: MANY,
        ..User::io_inf(model, Class::Throughput, 1)
    });
    case.name += &format!(" beside 1 with {MANY} requests");
    case.short += &format!(" + {MANY}");
    case
}

fn run(lab: &Lab) -> Result<Outcome> {
    let of_model = |model| {
        let counted = (2..=5).map(move |count| counted(model, count));
        counted.chain([beside(model), crowded(model)])
    };
    let mut cases: Vec<Case> = Model::ALL.into_iter().flat_map(of_model).collect();
    cases.retain(|case| lab.wants(&case.name));
    let sides = disk::measure_all(lab, &SIDES, &cases)?;
    let series = sides.iter().map(|(side, all)| {
        let points = all.iter().map(|found: &Found| (0.0, found.error)).collect();
        Series::new(side.label(), side.colour(), side.dashed(), points)
    });
    let group = |case: &Case| format!("{} {}", case.plan.model.initial(), case.short);
    Ok(Outcome {
        table: disk::table(&sides, &cases),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{} Shown is the greatest error of any share in any 2 s.", EXPERIMENT.says),
            x: "weights of the cgroups; t: turning disk, f: flat, p: parallel".into(),
            y: "greatest error (% of the disk's time)".into(),
            shape: Shape::Bars(cases.iter().map(group).collect()),
            series: series.collect(),
        },
        claims: disk::errors(&sides, &cases, ERROR),
        scale: format!(
            "Two to five cgroups in the throughput-intensive class, six clients each; beside an interactive class; and beside \
             one more of weight 1 with {MANY} requests at a time, more than the scheduler has tags for. {} s of virtual time \
             (turning) and {} s (flat, parallel) after a warm-up. {} {}",
            disk::length(lab, Model::Turning).as_secs(),
            disk::length(lab, Model::Flat).as_secs(),
            disk::DISK,
            disk::STRICT,
        ),
    })
}
