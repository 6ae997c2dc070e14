// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, table 4: what single operations of the kernel cost.

use super::{Experiment, Lab, Outcome, Sides};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::{Claim, Target};
use crate::scene::{self, Scene};
use crate::sys;
use crate::table::Table;
use anyhow::{Context, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "table4",
    source: "QLinux, table 4",
    title: "Cost of single operations, by that under the stock kernel",
    says:
        "System calls, fork, exec, local UDP and files cost about the same under QLinux and Linux; \
           a context switch cost 4 µs in place of 1 µs.",
    cpus: 1,
    seconds: 120,
    run,
};

/// What is asked of every ratio.
const RATIO: f64 = 1.1;
/// The class in which everything runs.
const CLASS: &str = "/best-effort";
/// Of that class beside busy ones of weight 1, so that it has most of the processor.
const WEIGHT: u32 = 10_000;
/// A busy process that starts quickly, there being a thousand.
const BUSY: [&str; 4] = ["busybox", "sh", "-c", "while :; do :; done"];
/// Until a workload that has begun repeats itself.
const WARM_UP: Duration = Duration::from_millis(500);

/// How a row is measured.
enum Means {
    /// `qlinux-work NAME`, counted.
    Work(&'static str),
    /// A program that prints how many seconds so many operations took.
    Tool(&'static [&'static str], f64),
}

struct Row {
    name: &'static str,
    short: &'static str,
    means: Means,
}

const SWITCH: usize = 3;

const fn row(name: &'static str, short: &'static str, means: Means) -> Row {
    Row { name, short, means }
}

const ROWS: [Row; 8] = [
    row(
        "system call",
        "syscall",
        Means::Tool(
            &[
                "perf", "bench", "-f", "simple", "syscall", "basic", "-l", "1000000",
            ],
            1e6,
        ),
    ),
    row("fork, exit and wait", "fork", Means::Work("forkstorm")),
    row("fork, exec, exit and wait", "exec", Means::Work("exec")),
    row(
        "two-process context switch, there and back",
        "switch",
        Means::Tool(
            &[
                "perf", "bench", "-f", "simple", "sched", "pipe", "-l", "50000",
            ],
            5e4,
        ),
    ),
    row(
        "perf bench sched messaging, 4 groups",
        "messaging",
        Means::Tool(
            &[
                "perf",
                "bench",
                "-f",
                "simple",
                "sched",
                "messaging",
                "-g",
                "4",
                "-l",
                "50",
            ],
            1.0,
        ),
    ),
    row(
        "hackbench, 4 groups",
        "hackbench",
        Means::Tool(&["hackbench", "-g", "4", "-l", "50"], 1.0),
    ),
    row("local UDP round trip", "UDP", Means::Work("udp")),
    row("file created and deleted", "file", Means::Work("files")),
];

/// Then switches through pipes beside so many classes with a busy thread each.
const CLASSES: [usize; 2] = [10, 1000];

/// The last number in what a tool printed.
fn last_number(text: &str) -> Result<f64> {
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    numbers
        .next_back()
        .with_context(|| format!("a tool printed no number: {text}"))
}

/// Microseconds an operation of the newest worker takes, of real or of its class's CPU time.
fn counted(scene: &mut Scene, length: Duration, cpu: bool) -> Result<f64> {
    let index = scene.workers.len() - 1;
    scene.begun()?;
    sys::sleep(WARM_UP);
    let (before, after) = scene.measure(length)?;
    let took = match cpu {
        true => after.used(&before, CLASS),
        false => after.since(&before),
    };
    Ok(1e6 * took / after.counted(&before, index) as f64)
}

fn beside_name(classes: usize) -> String {
    format!("switch beside {classes} busy classes")
}

/// CPU time that a class is charged for one round trip.
fn beside(session: &Session, classes: usize, length: Duration) -> Result<f64> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf(CLASS, WEIGHT, "ts")?;
    let mut busy = Vec::new();
    for index in 0..classes {
        let class = format!("/busy{index}");
        scene.class(&class, 1)?;
        let process = scene.tool(&class, &BUSY)?;
        // All begin together, or the last would have to start beside all others.
        process.suspend()?;
        busy.push(process);
    }
    scene.start(CLASS, "pipe", &[])?;
    scene.begun()?;
    for process in &busy {
        process.resume()?;
    }
    let took = counted(&mut scene, length, true);
    // Each ends when it is killed, without the others running.
    scene.workers.clear();
    for process in &busy {
        process.suspend()?;
    }
    took
}

/// Microseconds of a row without other classes.
fn alone(scene: &mut Scene, means: &Means, length: Duration) -> Result<f64> {
    match means {
        Means::Tool(line, operations) => {
            let text = scene.tool(CLASS, line)?.output()?;
            Ok(1e6 * last_number(&text)? / operations)
        }
        Means::Work(name) => {
            scene.start(CLASS, name, &[])?;
            let took = counted(scene, length, false)?;
            scene.workers.clear();
            Ok(took)
        }
    }
}

/// Microseconds of each row.
fn measure(lab: &Lab, session: &Session, length: Duration) -> Result<Vec<f64>> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf(CLASS, 100, "ts")?;
    // The first side would pay for reading programs that the others find in memory, and for what booting left to do.
    let few = [
        "perf", "bench", "-f", "simple", "syscall", "basic", "-l", "1000",
    ];
    scene.tool(CLASS, &few)?.output()?;
    sys::sleep(scene::WARM_UP);
    let mut found = Vec::new();
    let mut keep = |name: &str, took: f64| {
        lab.say(&format!("{}: {name}: {took:.3} µs", session.side()));
        found.push(took);
    };
    for row in &ROWS {
        keep(row.name, alone(&mut scene, &row.means, length)?);
    }
    drop(scene);
    for classes in CLASSES {
        keep(&beside_name(classes), beside(session, classes, length)?);
    }
    Ok(found)
}

fn claims(sides: &Sides<Vec<f64>>) -> Vec<Claim> {
    let by_stock = |found: &[f64], row: usize| {
        let stock = sides.stock.as_ref();
        stock.map_or(f64::NAN, |stock| found[row] / stock[row])
    };
    let at_most = Target::AtMost(RATIO);
    let mut claims = Vec::new();
    for (index, row) in ROWS.iter().enumerate() {
        let text = format!("{}, by stock's", row.name);
        claims.push(sides.claim(&text, "", at_most, |found| by_stock(found, index)));
    }
    if let Some(peer) = &sides.flatcg {
        let text = format!("{}, by scx_flatcg's", ROWS[SWITCH].name);
        claims.push(sides.claim(&text, "", Target::AtMost(0.999), |found| {
            found[SWITCH] / peer[SWITCH]
        }));
    }
    let text = "switch beside 1,000 busy classes, by that beside 10";
    claims.push(sides.claim(text, "", at_most, |found| {
        found[ROWS.len() + 1] / found[ROWS.len()]
    }));
    claims
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(1, 5);
    let sides = lab.every_side(|session| measure(lab, session, length))?;
    let named = ROWS.iter().map(|row| row.name.to_owned());
    let names: Vec<String> = named.chain(CLASSES.map(beside_name)).collect();
    let short = ROWS.iter().map(|row| row.short.to_owned());
    let short = short.chain(CLASSES.map(|classes| format!("{classes} classes")));
    let mut table = Table::new(&["side", "operation", "us", "of_stock"]);
    let mut series = Vec::new();
    for (side, found) in sides.iter() {
        let mut bars = Vec::new();
        for (index, (name, &took)) in names.iter().zip(found).enumerate() {
            let stock = sides.stock.as_ref().map_or(f64::NAN, |stock| stock[index]);
            let side = side.to_string().into();
            table.push(vec![
                side,
                name.as_str().into(),
                took.into(),
                (took / stock).into(),
            ]);
            bars.push((0.0, if stock.is_nan() { 0.0 } else { took / stock }));
        }
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            bars,
        ));
    }
    Ok(Outcome {
        claims: claims(&sides),
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "operation".into(),
            y: "cost, by that under the stock kernel".into(),
            shape: Shape::Bars(short.collect()),
            series,
        },
        scale: "In virtual time of the deterministic guest, which counts instructions (2 ns each) and knows no \
                caches, in a class with leaf scheduler ts in the same cgroups on every side. perf bench, hackbench and \
                own loops in place of lmbench. Beside busy classes it is the CPU time that the class is charged for \
                one round trip through two pipes."
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_that_a_claim_names() {
        assert_eq!(ROWS[SWITCH].short, "switch");
    }

    #[test]
    fn numbers_of_tools() {
        assert_eq!(last_number("1.215\n").unwrap(), 1.215);
        assert_eq!(last_number("Running with 4\nTime: 0.5\n").unwrap(), 0.5);
        assert!(last_number("nothing").is_err());
    }
}
