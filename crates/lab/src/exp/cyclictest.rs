// SPDX-License-Identifier: MIT OR Apache-2.0
//! cyclictest, in a class of its own beside a hundred busy threads.

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::Target;
use crate::scene::Scene;
use crate::table::Table;
use anyhow::{ensure, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "cyclictest",
    source: "QLinux: isolation of classes",
    title: "cyclictest in its own class beside 100 busy threads",
    says: "A class's wake-up latency does not depend on the load of another class.",
    cpus: 1,
    seconds: 40,
    run,
};

const BUSY: &str = "100";

/// Latencies in ascending order, as (µs, how often).
type Histogram = Vec<(u64, u64)>;

/// Lines "LATENCY COUNT" of cyclictest's histogram; its comments begin with #.
fn parse(text: &str) -> Histogram {
    let line = |line: &str| {
        let (latency, count) = line.split_once(char::is_whitespace)?;
        let count: u64 = count.trim().parse().ok()?;
        Some((latency.parse().ok()?, count))
    };
    let lines = text.lines().filter_map(line);
    lines.filter(|(_, count)| *count > 0).collect()
}

/// The least latency that `part` of all do not exceed.
fn quantile(all: &Histogram, part: f64) -> f64 {
    let total: u64 = all.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    let reached = all.iter().find(|(_, count)| {
        seen += count;
        seen as f64 >= part * total as f64
    });
    reached.map_or(f64::NAN, |(latency, _)| *latency as f64)
}

fn record(session: &Session, length: Duration) -> Result<Histogram> {
    let mut scene = Scene::new(session)?;
    scene.class("/cyclictest", 100)?;
    scene.class("/busy", 100)?;
    scene.start("/busy", "inf", &["--threads", BUSY])?;
    scene.settle()?;
    // A number of cycles would take for ever where each is late by many of them.
    let seconds = length.as_secs().to_string();
    // Room for everything up to a second, so that the histogram has the maximum too.
    let line = [
        "cyclictest",
        "--quiet",
        "--policy=other",
        "--interval=1000",
        "--duration",
        &seconds,
        "--histogram=1000000",
    ];
    let text = scene.tool("/cyclictest", &line)?.output()?;
    let all = parse(&text);
    ensure!(!all.is_empty(), "cyclictest left no histogram: {text}");
    Ok(all)
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(5, 60);
    let sides = lab.every_side(|session| {
        lab.say(&format!("{}: 100 busy threads", session.side()));
        record(session, length)
    })?;
    let points = [("median", 0.5), ("p99", 0.99), ("maximum", 1.0)];
    let mut table = Table::new(&["side", "latency_us", "times"]);
    let mut series = Vec::new();
    for (side, all) in sides.iter() {
        for &(latency, times) in all {
            table.push(vec![side.to_string().into(), latency.into(), times.into()]);
        }
        let bars = points.map(|(_, part)| (0.0, quantile(all, part)));
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            bars.to_vec(),
        ));
    }
    let claims = points[1..].iter().map(|&(name, part)| {
        let stock = sides.stock.as_ref().map_or(0.0, |all| quantile(all, part));
        // Below is at most, less the microsecond that cyclictest rounds to.
        let target = Target::AtMost(stock - 1.0);
        sides.claim(name, "µs", target, |all| quantile(all, part))
    });
    Ok(Outcome {
        claims: claims.collect(),
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: EXPERIMENT.says.into(),
            x: "latency of waking up".into(),
            y: "µs".into(),
            shape: Shape::Bars(points.map(|(name, _)| name.to_owned()).to_vec()),
            series,
        },
        scale: format!(
            "{} s of virtual time, a cycle a millisecond, in two classes of equal weight on every side; cyclictest \
             runs as an ordinary thread (--policy=other).",
            length.as_secs()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\n000012\t000098\n000400 2\n# Total: 000000100\n";
        let all = parse(text);
        assert_eq!(all, [(12, 98), (400, 2)]);
        assert_eq!(
            [0.5, 0.98, 0.99, 1.0].map(|part| quantile(&all, part)),
            [12.0, 12.0, 400.0, 400.0]
        );
    }
}
