// SPDX-License-Identifier: MIT OR Apache-2.0
//! How soon an interactive program runs once it is woken, beside busy threads.

use super::{quantile, Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::{Claim, Target};
use crate::scene::Scene;
use crate::sys;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "latency",
    source: "QLinux: leaf scheduler ts",
    title: "Wake-up latency of an interactive thread beside busy ones",
    says: "The default leaf scheduler keeps an interactive program as responsive as the stock \
           kernel does.",
    cpus: 1,
    seconds: 90,
    run,
};

/// (name, busy threads, in a class of their own)
const CASES: [(&str, usize, bool); 6] = [
    ("1, same class", 1, false),
    ("4, same class", 4, false),
    ("16, same class", 16, false),
    ("1, other class", 1, true),
    ("4, other class", 4, true),
    ("16, other class", 16, true),
];

/// Half a millisecond of every eleven: less than the share beside 16 busy
/// threads, and in no step with the kernel's tick of 4 ms.
const SLEEPER: [&str; 4] = ["--run", "500us", "--period", "11ms"];

/// Latencies in ascending order, in milliseconds.
type Latencies = Vec<f64>;

fn case(session: &Session, busy: usize, apart: bool, length: Duration) -> Result<Latencies> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf("/interactive", 100, "ts")?;
    let mut others = "/interactive";
    if apart {
        others = "/busy";
        scene.class_with_leaf(others, 100, "ts")?;
    }
    scene.start("/interactive", "sleeper", &SLEEPER)?;
    scene.start(others, "inf", &["--threads", &busy.to_string()])?;
    scene.settle()?;
    let counter = scene.workers[0].counter()?;
    let from = counter.log_len();
    sys::sleep(length);
    let mut all: Latencies = counter
        .log_from(from)
        .iter()
        .map(|&ns| ns as f64 / 1e6)
        .collect();
    all.sort_unstable_by(f64::total_cmp);
    Ok(all)
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(5, 60);
    let sides = lab.each_side(|session| {
        let one = |&(name, busy, apart): &(&str, usize, bool)| {
            let found = case(session, busy, apart, length)?;
            let p99 = quantile(&found, 0.99);
            lab.say(&format!("{}: busy {name}: p99 {p99:.3} ms", session.side()));
            Ok(found)
        };
        CASES.iter().map(one).collect::<Result<Vec<_>>>()
    })?;
    let columns = [
        "side",
        "busy_threads",
        "wakeups",
        "median_ms",
        "p99_ms",
        "max_ms",
    ];
    let mut table = Table::new(&columns);
    let mut series = Vec::new();
    for (side, found) in sides.iter() {
        for ((name, ..), latencies) in CASES.iter().zip(found) {
            table.push(vec![
                side.to_string().into(),
                (*name).into(),
                latencies.len().into(),
                quantile(latencies, 0.5).into(),
                quantile(latencies, 0.99).into(),
                quantile(latencies, 1.0).into(),
            ]);
        }
        let points = found.iter().map(|all| (0.0, quantile(all, 0.99))).collect();
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            points,
        ));
    }
    let mut claims = Vec::new();
    for (index, (name, ..)) in CASES.iter().enumerate() {
        for (what, part) in [("median", 0.5), ("p99", 0.99)] {
            let (qlinux, stock) = sides.both(|found| quantile(&found[index], part));
            // As responsive as stock: no more than a tenth and 50 µs beyond it.
            let target = Target::AtMost(stock.unwrap_or(0.0) * 1.1 + 0.05);
            let text = format!("{what} beside busy threads: {name}");
            claims.push(Claim::new(&text, "ms", target, qlinux).stock(stock));
        }
    }
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!(
                "{} 99 of 100 wake-ups are not later than shown.",
                EXPERIMENT.says
            ),
            x: "busy threads, and whether they share the interactive thread's class".into(),
            y: "wake-up latency, 99th percentile (ms)".into(),
            shape: Shape::Bars(CASES.iter().map(|(name, ..)| (*name).to_owned()).collect()),
            series,
        },
        claims,
        scale: format!(
            "{} s of virtual time for each case after a warm-up.",
            length.as_secs()
        ),
    })
}
