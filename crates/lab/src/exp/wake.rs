// SPDX-License-Identifier: MIT OR Apache-2.0
//! How soon a class that wakes every two milliseconds is served, beside classes that are busy.

use super::{quantile, Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::{self, Claim, Target};
use crate::scene::Scene;
use crate::sys;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "wake",
    source: "OSDI'96, section 3: delay; EEVDF",
    title: "How soon a class is served that wakes every 2 ms, beside busy classes",
    says: "A class that uses little of its share is served as soon as under the stock kernel, \
           however deep it is and however many such classes there are.",
    cpus: 1,
    seconds: 45,
    run: |lab| compare(lab, &EXPERIMENT),
};

pub const TWO: Experiment = Experiment {
    name: "wake-2",
    cpus: 2,
    run: |lab| compare(lab, &TWO),
    ..EXPERIMENT
};

pub const FOUR: Experiment = Experiment {
    name: "wake-4",
    cpus: 4,
    run: |lab| compare(lab, &FOUR),
    ..EXPERIMENT
};

pub const EIGHT: Experiment = Experiment {
    name: "wake-8",
    cpus: 8,
    run: |lab| compare(lab, &EIGHT),
    ..EXPERIMENT
};

/// (name, classes that wake, their depth)
const CASES: [(&str, usize, usize); 3] = [
    ("one class", 1, 1),
    ("depth 8", 1, 8),
    ("ten classes", 10, 1),
];

/// What each of them does: nothing much, so that it is always entitled to run at once. Its period is
/// about 2 ms. With several processors the guest's have turns of 100 µs (vm/run), and in step with
/// those a wake-up would take the same time each time, a long or a short one as chance has it.
const SLEEPER: [&str; 6] = ["--run", "20us", "--period", "1800us", "--vary", "400us"];

/// Busy classes, and the weight of each; a class that wakes has the default weight.
const BUSY: usize = 3;
const BUSY_WEIGHT: u32 = 20;

/// Waits in ascending order, in microseconds.
type Waits = Vec<f64>;

fn case(session: &Session, classes: usize, depth: usize, length: Duration) -> Result<Waits> {
    let mut scene = Scene::new(session)?;
    for class in 0..classes {
        let mut path = format!("/wake{class}");
        scene.class(&path, 100)?;
        for _ in 1..depth {
            path += "/below";
            scene.class(&path, 100)?;
        }
        scene.start(&path, "sleeper", &SLEEPER)?;
    }
    let threads = manifest::cpus().to_string();
    for class in 0..BUSY {
        let path = format!("/busy{class}");
        scene.class(&path, BUSY_WEIGHT)?;
        scene.start(&path, "inf", &["--threads", &threads])?;
    }
    scene.settle()?;
    let counters = scene.workers[..classes]
        .iter()
        .map(|worker| worker.counter())
        .collect::<Result<Vec<_>>>()?;
    let from: Vec<_> = counters.iter().map(|counter| counter.log_len()).collect();
    sys::sleep(length);
    let logs = counters
        .iter()
        .zip(from)
        .flat_map(|(c, from)| c.log_from(from).to_vec());
    let mut waits: Waits = logs.map(|ns| ns as f64 / 1e3).collect();
    waits.sort_unstable_by(f64::total_cmp);
    Ok(waits)
}

const POINTS: [(&str, f64); 2] = [("median", 0.5), ("p99", 0.99)];

fn compare(lab: &Lab, experiment: &Experiment) -> Result<Outcome> {
    let length = lab.seconds(4, 30);
    let sides = lab.each_side(|session| {
        let one = |&(name, classes, depth): &(&str, usize, usize)| {
            let waits = case(session, classes, depth, length)?;
            let [median, p99] = POINTS.map(|(_, part)| quantile(&waits, part));
            lab.say(&format!(
                "{}: {name}: median {median:.0}, p99 {p99:.0} µs",
                session.side()
            ));
            Ok(waits)
        };
        CASES.iter().map(one).collect::<Result<Vec<_>>>()
    })?;
    let mut table = Table::new(&["side", "case", "wakeups", "median_us", "p99_us", "max_us"]);
    let mut series = Vec::new();
    for (side, found) in sides.iter() {
        for ((name, ..), waits) in CASES.iter().zip(found) {
            let [median, p99, most] = [0.5, 0.99, 1.0].map(|part| quantile(waits, part).into());
            let (side, count) = (side.to_string().into(), waits.len().into());
            table.push(vec![side, (*name).into(), count, median, p99, most]);
        }
        let bars = found
            .iter()
            .flat_map(|waits| POINTS.map(|(_, part)| (0.0, quantile(waits, part))));
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            bars.collect(),
        ));
    }
    let mut claims = Vec::new();
    for (index, (name, ..)) in CASES.iter().enumerate() {
        for (what, part) in POINTS {
            let (qlinux, stock) = sides.both(|found| quantile(&found[index], part));
            let target = Target::AtMost(stock.unwrap_or(f64::INFINITY));
            claims.push(Claim::new(&format!("{name}: {what}"), "µs", target, qlinux).stock(stock));
        }
    }
    let bars = CASES
        .iter()
        .flat_map(|(name, ..)| POINTS.map(|(what, _)| format!("{name}, {what}")));
    Ok(Outcome {
        claims,
        table,
        figure: Figure {
            title: format!("{}; processors: {}", experiment.title, experiment.cpus),
            caption: experiment.says.into(),
            x: "classes that wake".into(),
            y: "from the time to the thread's first instruction (µs)".into(),
            shape: Shape::Bars(bars.collect()),
            series,
        },
        scale: format!(
            "{} s of virtual time for each case, beside {BUSY} classes of weight {BUSY_WEIGHT} with a busy thread \
             for each of {} processors; a class that wakes has weight 100 and runs 20 µs of every 2 ms.",
            length.as_secs(),
            experiment.cpus
        ),
    })
}
