// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bounds of SFQ on a traced run with fifty classes.

mod trace;

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{self, Session, Side, LAB};
use crate::manifest::{Claim, Target};
use crate::scene::Scene;
use crate::sys;
use crate::table::Table;
use anyhow::{Context, Result};
use qlinux_core::bounds::{check, Interval, Kind, Options, Report, Trace};
use qlinux_core::leaf::tunables;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "bounds",
    source: "OSDI'96, section 3",
    title: "The bounds of SFQ on every quantum of fifty classes",
    says: "While two classes are runnable their service in proportion to their weights differs \
           by no more than l/w of the one and l/w of the other, and every class receives its \
           share of its parent's rate but for a constant.",
    cpus: 1,
    seconds: 60,
    run: |lab| run(lab, &EXPERIMENT, 1),
};

pub const FOUR: Experiment = Experiment {
    name: "bounds-4",
    title: "The bound of SFQ(D) on every quantum of fifty classes on four processors",
    says: SEVERAL,
    cpus: 4,
    run: |lab| run(lab, &FOUR, 1),
    ..EXPERIMENT
};

pub const EIGHT: Experiment = Experiment {
    name: "bounds-8",
    title: "The bound of SFQ(D) on every quantum of fifty classes on eight processors",
    says: SEVERAL,
    cpus: 8,
    run: |lab| run(lab, &EIGHT, 1),
    ..EXPERIMENT
};

pub const DOMAINS: Experiment = Experiment {
    name: "bounds-domains",
    title: "The bound of SFQ(D) and the ledger on every quantum of fifty classes on eight processors in two domains",
    says: LEDGER,
    cpus: 8,
    run: |lab| run(lab, &DOMAINS, 2),
    ..EXPERIMENT
};

const LEDGER: &str = "On P processors with several trees the service of two classes of which threads wait, in \
                      proportion to their weights, differs by no more than P+1 times l/w of the \
                      one and l/w of the other, and by what the ledger's accounts of both may come to.";

const SEVERAL: &str = "On P processors the service of two classes of which threads wait, in \
                       proportion to their weights, differs by no more than P+1 times l/w of the \
                       one and l/w of the other, and by what a class may be owed and ahead.";

const GROUPS: usize = 5;
/// Classes of a group; with the groups themselves there are fifty.
const MEMBERS: usize = 9;
const QUANTA: f64 = 100_000.0;
/// The measuring itself begins and ends in this part of the length.
const EDGE_NS: u64 = 500_000_000;
/// Room for every record until they are read at the end.
const BUFFER: &str = "64M";

/// What a checker cannot know of a processor: switching takes up to 1 % of it,
/// interrupts a fifth of a millisecond now and then (δ), and the two clocks of a
/// record may differ by the length of a switch.
const OPTIONS: Options = Options {
    rate: 0.99,
    delta_ns: 200_000,
    slack_ns: 20_000,
    owed_ns: 0,
    quantum_max_ns: None,
};

/// Several processors: a class that could not use its share is owed some of it, and one that
/// has lost a processor may be ahead by some of its turns (core/tree/sfq.h, core/cpu/quantum.h).
fn options(cpus: usize, domains: u32) -> Options {
    if domains > 1 {
        let ledger = Options::ledger(cpus as u32);
        return Options {
            slack_ns: OPTIONS.slack_ns + ledger.slack_ns,
            owed_ns: ledger.owed_ns,
            ..OPTIONS
        };
    }
    let t = tunables();
    let servers = (cpus as u64).max(t.lag_servers);
    let owed_ns = t.lag_ns * servers + t.turns_ahead * t.period_max_ns * cpus as u64;
    Options {
        slack_ns: OPTIONS.slack_ns + if cpus > 1 { owed_ns } else { 0 },
        ..OPTIONS
    }
}

/// Makes the classes with random weights, one busy or blocking workload in each
/// leaf, and returns the weights by path. On several processors those that are busy have a
/// thread more than there are processors, so that one of them always waits.
fn populate(scene: &mut Scene, seed: u64, cpus: usize) -> Result<BTreeMap<String, u32>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let threads = [1, 2].map(|n| if cpus > 1 { cpus + 1 } else { n }.to_string());
    let mut weights = BTreeMap::from([(LAB.to_owned(), 100)]);
    let mut add = |scene: &mut Scene, path: &str, weight: u32| {
        weights.insert(format!("{LAB}{path}"), weight);
        scene.class(path, weight)
    };
    for group in 0..GROUPS {
        let group = format!("/g{group}");
        add(scene, &group, random.u32(50..=500))?;
        for member in 0..MEMBERS {
            let path = format!("{group}/m{member}");
            add(scene, &path, random.u32(50..=500))?;
            let seed = random.u64(..).to_string();
            match member % 3 {
                busy @ (0 | 1) => scene.start(&path, "inf", &["--threads", &threads[1 - busy]])?,
                _ => {
                    let short = ["--run", "400us", "--sleep", "4ms", "--seed", &seed];
                    scene.start(&path, "burst", &short)?
                }
            };
        }
    }
    Ok(weights)
}

struct Found {
    quanta: usize,
    report: Report,
}

fn measure(lab: &Lab, cpus: usize, domains: u32, length: Duration) -> Result<Found> {
    let settings = ["--trace", BUFFER, "--domains", &domains.to_string()];
    let session = Session::enter_with(Side::Qlinux, &settings)?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("trace.csv");
    let mut scene = Scene::new(&session)?;
    let weights = populate(&mut scene, lab.seed, cpus)?;
    let classes = weights.len() - 1;
    lab.say(&format!(
        "{classes} classes, tracing {} s",
        length.as_secs()
    ));
    scene.settle()?;
    let begin_ns = sys::now_ns() + EDGE_NS;
    sys::sleep(length);
    let end_ns = sys::now_ns() - EDGE_NS;
    // A reader beside the classes would be one more load, so it reads afterwards.
    scene.workers.clear();
    let output = file
        .to_str()
        .context("the temporary folder has no plain name")?;
    machine::qlinux(&["trace", "--duration", "1", "--output", output])?;
    session.check()?;
    drop(scene);
    let text = fs::read_to_string(&file).context("the trace cannot be read")?;
    let mut trace = trace::parse(&text, &weights, begin_ns..end_ns)?;
    if cpus > 1 {
        trace.waiting = busy(&trace);
    }
    lab.say(&format!("checking {} quanta", trace.quanta.len()));
    Ok(Found {
        quanta: trace.quanta.len(),
        report: check(&trace, &options(cpus, domains)),
    })
}

/// A thread always waits of the classes that have one more than there are processors, though
/// not in each domain.
fn busy(trace: &Trace) -> Vec<Interval> {
    let member = |name: &str| name.rsplit_once("/m")?.1.parse::<usize>().ok();
    let nodes = trace.nodes.iter().enumerate();
    let waits = nodes.filter(|(_, node)| member(&node.name).is_some_and(|member| member % 3 < 2));
    let always = |(node, _)| Interval {
        node,
        start_ns: trace.start_ns,
        end_ns: trace.end_ns,
    };
    waits.map(always).collect()
}

/// Kinds of bounds, as the figure names them: the first is claimed for several processors.
const KINDS: [(Kind, &str); 3] = [
    (Kind::Fairness, "fairness"),
    (Kind::Throughput, "throughput"),
    (Kind::Delay, "delay"),
];

fn run(lab: &Lab, experiment: &Experiment, domains: u32) -> Result<Outcome> {
    let cpus = experiment.cpus;
    let length = match cpus {
        1 => lab.seconds(45, 120),
        _ => lab.seconds(30, 60),
    };
    let kinds = if cpus == 1 { &KINDS[..] } else { &KINDS[..1] };
    let found = match lab.wants_side(Side::Qlinux) {
        true => Some(measure(lab, cpus, domains, length)?),
        false => None,
    };
    let mut table = Table::new(&["bound", "closest_observed_ns", "allowed_ns", "who"]);
    let mut points = Vec::new();
    for &(kind, name) in kinds {
        let closest = found.as_ref().and_then(|f| f.report.tightest(kind));
        if let Some(closest) = closest {
            let (observed, bound) = (closest.observed, closest.bound);
            let who = closest.what.as_str().into();
            table.push(vec![name.into(), observed.into(), bound.into(), who]);
        }
        points.push((0.0, closest.map_or(0.0, |closest| 100.0 * closest.ratio())));
    }
    for violation in found.iter().flat_map(|f| &f.report.violations) {
        lab.say(&format!("violated: {violation}"));
    }
    let violations = found.as_ref().map(|f| f.report.violations_total as f64);
    let quanta = found.as_ref().map(|f| f.quanta as f64);
    Ok(Outcome {
        table,
        figure: Figure {
            title: experiment.title.into(),
            caption: format!(
                "{} Of every bound, the closest that any class ever came to it; 100 % would be reaching it.",
                experiment.says
            ),
            x: "bound".into(),
            y: "closest approach (% of the bound)".into(),
            shape: Shape::Bars(kinds.iter().map(|(_, name)| (*name).to_owned()).collect()),
            series: vec![Series::new("QLinux", 0, false, points)],
        },
        claims: vec![
            Claim::new("violations", "", Target::AtMost(0.0), violations),
            Claim::new("quanta traced", "", Target::AtLeast(QUANTA), quanta),
        ],
        scale: format!(
            "{GROUPS} groups of {MEMBERS} classes with random weights (--seed), busy and blocking, \
             traced for {} s of virtual time with qlinux trace after a warm-up.",
            length.as_secs()
        ),
    })
}
