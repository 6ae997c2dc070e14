// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs that do nothing but wake each other lose under a scheduler.

use super::qlinux_6b::{page, start_server};
use super::{Experiment, Lab, Outcome, Sides};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::{Claim, Target};
use crate::scene::{self, Process, Scene};
use crate::sys;
use crate::table::Table;
use anyhow::{Context, Result};
use std::fs;

pub const EXPERIMENT: Experiment = Experiment {
    name: "price",
    source: "QLinux, section 5.5: overheads",
    title: "Time that switching programs take, by that under the stock kernel",
    says: "Programs that wake each other all the time finish as soon as under the stock kernel.",
    cpus: 1,
    seconds: 60,
    run: |lab| {
        let sides = lab.every_side(|session| measure(lab, session))?;
        compare(lab, &EXPERIMENT, sides)
    },
};

pub const SEVERAL: Experiment = Experiment {
    name: "price-several",
    title:
        "Time that switching programs take on several processors, by that under the stock kernel",
    cpus: 4,
    seconds: 40,
    // Without scx_flatcg: it starves a thread of hackbench there, and the kernel takes it off.
    run: |lab| {
        let sides = lab.each_side(|session| measure(lab, session))?;
        compare(lab, &SEVERAL, sides)
    },
    ..EXPERIMENT
};

pub const DOMAINS: Experiment = Experiment {
    name: "price-domains",
    title: "Time that switching programs take on eight processors in two domains, by that under the stock kernel",
    cpus: 8,
    seconds: 40,
    run: |lab| {
        let sides = lab.each_side_with(&["--domains", "2"], |session| measure(lab, session))?;
        compare(lab, &DOMAINS, sides)
    },
    ..EXPERIMENT
};

/// The class in which everything runs.
const CLASS: &str = "/work";
/// What is asked of every ratio, and of their geometric mean.
const EACH: f64 = 1.03;
const MEAN: f64 = 1.0;
const PORT: u16 = 8081;
/// Of the runs of a load, of which the median counts: where the processors of the guest have
/// their turns, runs differ by some percent.
const RUNS: usize = 3;

/// (name, short name, command line)
type Load = (&'static str, &'static str, &'static str);

const LOADS: [Load; 8] = [
    ("hackbench, sockets", "sockets", "hackbench -g 2 -l 100"),
    ("hackbench, pipes", "pipes", "hackbench -p -g 2 -l 100"),
    (
        "perf bench sched messaging",
        "messaging",
        "perf bench sched messaging -g 2 -l 100",
    ),
    (
        "perf bench sched pipe",
        "pipe",
        "perf bench sched pipe -l 20000",
    ),
    (
        "1,000 web requests, 16 at a time",
        "requests",
        "ab -q -n 1000 -c 16 http://127.0.0.1:8081/small",
    ),
    (
        "200 short programs, 8 at a time",
        "programs",
        "seq 200 | xargs -n 1 -P 8 sh -c 'gzip -nc </etc/services >/dev/null'",
    ),
    (
        "sysbench threads, 8",
        "sysbench",
        "sysbench threads --threads=8 --time=0 --events=100 run",
    ),
    (
        "sysbench threads, 16",
        "locks",
        "sysbench threads --threads=16 --time=0 --events=100 run",
    ),
];

/// What one run of a load took, in seconds, and the context switches during it.
type Took = (f64, u64);

fn switches() -> Result<u64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("ctxt "));
    let count = line.and_then(|count| count.trim().parse().ok());
    count.context("/proc/stat has no context switches")
}

fn run_once(scene: &Scene, line: &str) -> Result<Took> {
    let (switched, begun) = (switches()?, sys::now_ns());
    scene.tool(CLASS, &["sh", "-c", line])?.output()?;
    let took = (sys::now_ns() - begun) as f64 / 1e9;
    Ok((took, switches()? - switched))
}

/// The median run of each load, once each has been warm.
fn measure(lab: &Lab, session: &Session) -> Result<Vec<Took>> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf(CLASS, 100, "ts")?;
    fs::create_dir(scene.dir().join("www"))?;
    fs::write(scene.dir().join("www/small"), &page()[..2000])?;
    let _server: Process = start_server(&scene, CLASS, PORT)?;
    sys::sleep(scene::WARM_UP);
    let runs = if lab.full { 3 * RUNS } else { RUNS };
    let one = |&(name, _, line): &Load| {
        run_once(&scene, line)?;
        let mut all = (0..runs)
            .map(|_| run_once(&scene, line))
            .collect::<Result<Vec<_>>>()?;
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (took, switched) = all[runs / 2];
        lab.say(&format!(
            "{}: {name}: {took:.4} s, {switched} switches",
            session.side()
        ));
        Ok((took, switched))
    };
    LOADS.iter().map(one).collect()
}

fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

fn compare(lab: &Lab, experiment: &Experiment, sides: Sides<Vec<Took>>) -> Result<Outcome> {
    let ratios = |found: &Vec<Took>| {
        let of = |stock: &Vec<Took>| {
            found
                .iter()
                .zip(stock)
                .map(|(own, of)| own.0 / of.0)
                .collect()
        };
        sides.stock.as_ref().map_or(vec![f64::NAN; found.len()], of)
    };
    let mut table = Table::new(&["side", "load", "s", "of_stock", "switches"]);
    let mut series = Vec::new();
    for (side, found) in sides.iter() {
        let of_stock = ratios(found);
        for ((load, took), ratio) in LOADS.iter().zip(found).zip(&of_stock) {
            table.push(vec![
                side.to_string().into(),
                load.0.into(),
                took.0.into(),
                (*ratio).into(),
                took.1.into(),
            ]);
        }
        let bars = of_stock
            .iter()
            .map(|&ratio| (0.0, if ratio.is_nan() { 0.0 } else { ratio }));
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            bars.collect(),
        ));
    }
    let each = LOADS.iter().enumerate().map(|(index, (name, ..))| {
        sides.claim(name, "of stock", Target::AtMost(EACH), |found| {
            ratios(found)[index]
        })
    });
    let mut claims: Vec<Claim> = each.collect();
    claims.push(sides.claim(
        "geometric mean",
        "of stock",
        Target::AtMost(MEAN),
        |found| mean(&ratios(found)),
    ));
    Ok(Outcome {
        claims,
        table,
        figure: Figure {
            title: experiment.title.into(),
            caption: format!("{}: {}", experiment.source, experiment.says),
            x: "load".into(),
            y: "time, by that under the stock kernel".into(),
            shape: Shape::Bars(LOADS.iter().map(|(_, short, _)| (*short).to_owned()).collect()),
            series,
        },
        scale: format!(
            "In virtual time of the deterministic guest, which counts instructions (2 ns each) and knows no caches; the \
             median of {} runs, in one class with leaf scheduler ts on every side.",
            if lab.full { 3 * RUNS } else { RUNS }
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_means() {
        assert!((mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
        assert!((mean(&[1.1, 1.1, 1.1]) - 1.1).abs() < 1e-12);
    }
}
