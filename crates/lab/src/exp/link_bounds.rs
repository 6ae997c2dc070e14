// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bounds of SFQ for every packet of a link.

mod trace;

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{self, Side};
use crate::manifest::{Claim, Target};
use crate::net::{Leaf, NetScene, Plan, Tree, DEV};
use crate::sys;
use crate::table::Table;
use anyhow::{Context, Result};
use qlinux_core::bounds::{check, Kind, Options, Report};
use std::fs;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "link-bounds",
    source: "OSDI'96, section 3; QLinux, section 2.3",
    title: "The bounds of SFQ for every packet of twenty classes",
    says: "While two classes have packets their bandwidth in proportion to their weights differs by no more than l/w \
           of the one and l/w of the other, and every packet leaves in time, whatever is sent beside it.",
    cpus: 1,
    seconds: 60,
    run,
};

const RATE: u64 = 20;
const GROUPS: usize = 4;
const MEMBERS: usize = 4;
/// A packet of 1514 bytes on this link, in microseconds.
const WHOLE_US: f64 = 1514.0 * 8.0 / RATE as f64;
const PACKETS: f64 = 100_000.0;
const SIZES: [&str; 5] = ["64", "200", "576", "1000", "1500"];
/// Rounding of tags and of the line's times, in ns of service.
const SLACK_NS: u64 = 1000;

/// Groups of classes with random weights; the last class of each has a line for each flow.
fn tree(random: &mut fastrand::Rng) -> Tree {
    let mut classes = Vec::new();
    for group in 0..GROUPS {
        classes.push((format!("/g{group}"), random.u32(1..=50)));
        for member in 0..MEMBERS {
            classes.push((format!("/g{group}/m{member}"), random.u32(1..=50)));
        }
    }
    let tree = Tree::new(
        classes
            .iter()
            .map(|(path, weight)| (path.as_str(), *weight)),
    );
    (0..GROUPS).fold(tree, |tree, group| {
        tree.with(&format!("/g{group}/m{}", MEMBERS - 1), |class| {
            class.leaf = Leaf::Fq
        })
    })
}

/// In each class something else: who always sends, who pauses, who sends now and then, TCP.
fn populate(scene: &mut NetScene, random: &mut fastrand::Rng) -> Result<()> {
    for group in 0..GROUPS {
        for member in 0..MEMBERS {
            let path = format!("/g{group}/m{member}");
            let size = random.choice(SIZES).context("there are sizes")?;
            match member {
                0 => scene.start(&path, "net-inf", &["--size", size])?,
                1 => {
                    let pattern = ["--size", size, "--on", "30ms", "--off", "20ms"];
                    scene.start(&path, "net-inf", &pattern)?
                }
                2 => scene.start(&path, "net-inf", &["--size", size, "--period", "3ms"])?,
                _ => scene.start(&path, "tcp-inf", &["--threads", "2"])?,
            };
        }
    }
    Ok(())
}

struct Found {
    packets: usize,
    delta_ns: u64,
    report: Report,
}

fn measure(lab: &Lab, length: Duration) -> Result<Found> {
    let mut random = fastrand::Rng::with_seed(lab.seed);
    let tree = tree(&mut random);
    let plan = Plan {
        tap: false,
        trace: true,
        ..Plan::mbit(RATE, tree.clone())
    };
    let session = machine::Session::enter(Side::Stock)?;
    let mut scene = NetScene::new(&session, Side::Qlinux, &plan)?;
    populate(&mut scene, &mut random)?;
    scene.settle()?;
    sys::sleep(length);
    // A reader beside the senders would be one more load, so it reads afterwards.
    // Who sends ends before who receives.
    while scene.scene.workers.pop().is_some() {}
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("packets.csv");
    let output = file
        .to_str()
        .context("the temporary folder has no plain name")?;
    machine::qlinux(&[
        "link",
        "trace",
        DEV,
        "--duration",
        "0.2",
        "--output",
        output,
    ])?;
    session.check()?;
    drop(scene);
    let text = fs::read_to_string(&file).context("the trace cannot be read")?;
    let traced = trace::parse(&text, &tree, RATE * 1_000_000)?;
    let packets = traced.trace.quanta.len();
    lab.say(&format!(
        "checking {packets} packets, timers late by up to {} ns",
        traced.delta_ns
    ));
    let options = Options {
        delta_ns: traced.delta_ns,
        slack_ns: SLACK_NS,
        ..Options::default()
    };
    Ok(Found {
        packets,
        delta_ns: traced.delta_ns,
        report: check(&traced.trace, &options),
    })
}

/// Kinds of bounds, as the figure names them.
const KINDS: [(Kind, &str); 3] = [
    (Kind::Fairness, "fairness"),
    (Kind::Throughput, "throughput"),
    (Kind::Delay, "delay"),
];

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(25, 60);
    let found = match lab.wants_side(Side::Qlinux) {
        true => Some(measure(lab, length)?),
        false => None,
    };
    let mut table = Table::new(&["bound", "closest_observed_ns", "allowed_ns", "who"]);
    let mut points = Vec::new();
    for (kind, name) in KINDS {
        let closest = found.as_ref().and_then(|f| f.report.tightest(kind));
        if let Some(closest) = closest {
            let who = closest.what.as_str().into();
            table.push(vec![
                name.into(),
                closest.observed.into(),
                closest.bound.into(),
                who,
            ]);
        }
        points.push((0.0, closest.map_or(0.0, |closest| 100.0 * closest.ratio())));
    }
    for violation in found.iter().flat_map(|f| &f.report.violations) {
        lab.say(&format!("violated: {violation}"));
    }
    let of = |value: fn(&Found) -> f64| found.as_ref().map(value);
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!(
                "{} Of every bound, the closest that any class ever came to it; 100 % would be reaching it.",
                EXPERIMENT.says
            ),
            x: "bound".into(),
            y: "closest approach (% of the bound)".into(),
            shape: Shape::Bars(KINDS.iter().map(|(_, name)| (*name).to_owned()).collect()),
            series: vec![Series::new("QLinux", 0, false, points)],
        },
        claims: vec![
            Claim::new("violations", "", Target::AtMost(0.0), of(|f| f.report.violations_total as f64)),
            Claim::new("packets traced", "", Target::AtLeast(PACKETS), of(|f| f.packets as f64)),
            Claim::new("lateness of the link's timer", "µs", Target::AtMost(WHOLE_US), of(|f| f.delta_ns as f64 / 1e3)),
        ],
        scale: format!(
            "{GROUPS} groups of {MEMBERS} classes with random weights (--seed) on a link of {RATE} Mbit/s: UDP that always \
             sends, pauses, or sends now and then, packets of 64 to 1500 bytes, and TCP in a line for each flow; \
             traced for {} s of virtual time with qlinux link trace from the beginning.",
            length.as_secs()
        ),
    })
}
