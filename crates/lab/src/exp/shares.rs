// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of every busy class against its ideal, for trees of all kinds.

mod cases;

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::ideal::{self, Class};
use crate::machine::Session;
use crate::manifest::{self, Claim, Target};
use crate::scene::Scene;
use crate::table::Table;
use anyhow::{ensure, Result};
use cases::{Case, Load};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "shares",
    source: "QLinux, section 2.1",
    title: "Received share of every busy class against its ideal",
    says: "Every class receives CPU bandwidth in proportion to its weight at every level of the \
           hierarchy, whatever its threads are and whichever others block.",
    cpus: 1,
    seconds: 230,
    run: |lab| {
        let cases = cases::all(lab.seed, if lab.full { 6 } else { 1 });
        compare(lab, &EXPERIMENT, cases, 0.5)
    },
};

pub const SEVERAL: Experiment = Experiment {
    name: "shares-several",
    source: "OSDI'96, section 3; Surplus Fair Scheduling",
    title: "Received share of every busy class on several processors",
    says: "With several processors a class cannot use more than its threads can; what that leaves \
           over goes to the others in proportion to their weights, at every level.",
    cpus: 4,
    seconds: 250,
    run: |lab| {
        let cases = cases::several(lab.seed, if lab.full { 20 } else { 4 });
        compare(lab, &SEVERAL, cases, 1.0)
    },
};

/// One busy class of one case.
struct Row {
    path: String,
    weight: u32,
    threads: u32,
    used: f64,
    ideal: f64,
    /// Loops counted and their error, where all its threads count loops only.
    loops: Option<(u64, f64)>,
}

impl Row {
    /// In percent of the ideal.
    fn error(&self) -> f64 {
        100.0 * (self.used / self.ideal - 1.0)
    }
}

/// Largest error of a case, in percent.
fn worst(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.error().abs()).fold(0.0, f64::max)
}

fn start(scene: &mut Scene, path: &str, load: &Load) -> Result<()> {
    let threads = |n: u32| n.to_string();
    if load.busy > 0 {
        scene.start(path, "inf", &["--threads", &threads(load.busy)])?;
    }
    if load.sleepers > 0 {
        let count = threads(load.sleepers);
        let args = ["--run", "1ms", "--period", "10ms", "--threads", &count];
        scene.start(path, "sleeper", &args)?;
    }
    if load.bursts > 0 {
        let count = threads(load.bursts);
        let args = ["--run", "3ms", "--sleep", "20ms", "--threads", &count];
        scene.start(path, "burst", &args)?;
    }
    Ok(())
}

fn measure(session: &Session, case: &Case, length: Duration) -> Result<Vec<Row>> {
    let mut scene = Scene::new(session)?;
    for class in &case.classes {
        scene.class(&class.path, class.weight)?;
        start(&mut scene, &class.path, &class.load)?;
    }
    scene.settle()?;
    let (before, after) = scene.measure(length)?;
    let classes: Vec<Class> = case
        .classes
        .iter()
        .map(|class| Class {
            path: class.path.clone(),
            weight: class.weight,
            busy: class.load.busy,
            used: after.used(&before, &class.path),
        })
        .collect();
    let ideal = ideal::ideal(&classes, after.since(&before), manifest::cpus());
    let mut rows: Vec<Row> = classes
        .iter()
        .filter_map(|class| {
            Some(Row {
                path: class.path.clone(),
                weight: class.weight,
                threads: class.busy,
                used: class.used,
                ideal: *ideal.get(&class.path)?,
                loops: None,
            })
        })
        .collect();
    for (index, worker) in scene.workers.iter().enumerate() {
        let pure = case.classes.iter().any(|class| {
            class.path == worker.class && class.load.sleepers + class.load.bursts == 0
        });
        if let (true, Some(row)) = (pure, rows.iter_mut().find(|r| r.path == worker.class)) {
            row.loops = Some((after.counted(&before, index), 0.0));
        }
    }
    compare_loops(&mut rows);
    Ok(rows)
}

/// Loops are a second witness beside the kernel's own accounts: those of the
/// purely busy classes are in the ratio of the ideals, but for what switching
/// cost each class, which is why they are shown and not judged.
fn compare_loops(rows: &mut [Row]) {
    let pure = || {
        rows.iter()
            .filter_map(|row| Some((row.loops?.0 as f64, row.ideal)))
    };
    let (loops, ideal) = pure().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    for row in rows {
        let expected = loops * row.ideal / ideal;
        if let Some((count, error)) = &mut row.loops {
            *error = 100.0 * (*count as f64 / expected - 1.0);
        }
    }
}

/// Measures all cases on each side; `target` is the relative error allowed, in percent.
fn compare(
    lab: &Lab,
    experiment: &Experiment,
    mut cases: Vec<Case>,
    target: f64,
) -> Result<Outcome> {
    let length = lab.seconds(10, if experiment.cpus > 1 { 10 } else { 30 });
    cases.retain(|case| lab.wants(&case.name));
    ensure!(
        !cases.is_empty(),
        "no tree has such a name: see data.csv of a whole run"
    );
    let sides = lab.each_side(|session| {
        let one = |case: &Case| {
            let rows = measure(session, case, length)?;
            let name = &case.name;
            lab.say(&format!(
                "{}: {name}: {:.3} %",
                session.side(),
                worst(&rows)
            ));
            Ok(rows)
        };
        cases.iter().map(one).collect::<Result<Vec<_>>>()
    })?;
    let mut table = Table::new(&[
        "side",
        "case",
        "class",
        "weight",
        "busy_threads",
        "used_s",
        "ideal_s",
        "error_percent",
        "loops",
        "loops_error_percent",
    ]);
    let mut series = Vec::new();
    for (side, found) in sides.iter() {
        for (case, rows) in cases.iter().zip(found) {
            for row in rows {
                let loops = row
                    .loops
                    .map_or(["".into(), "".into()], |l| [l.0.into(), l.1.into()]);
                let head = [
                    side.to_string().into(),
                    case.name.as_str().into(),
                    row.path.as_str().into(),
                    row.weight.into(),
                    row.threads.into(),
                    row.used.into(),
                    row.ideal.into(),
                    row.error().into(),
                ];
                table.push(head.into_iter().chain(loops).collect());
            }
        }
        let points = found.iter().map(|rows| (0.0, worst(rows))).collect();
        series.push(Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            points,
        ));
    }
    let claims = cases.iter().enumerate().map(|(index, case)| {
        let (qlinux, stock) = sides.both(|found| worst(&found[index]));
        let text = format!("largest error: {}", case.name);
        Claim::new(&text, "%", Target::AtMost(target), qlinux).stock(stock)
    });
    let all = sides.both(|found| found.iter().map(|rows| worst(rows)).fold(0.0, f64::max));
    // Equal or better than the stock kernel, over all trees of the run.
    let limit = all.1.unwrap_or(target).min(target);
    let overall = Claim::new(
        "largest error of all trees",
        "%",
        Target::AtMost(limit),
        all.0,
    );
    Ok(Outcome {
        claims: claims.chain([overall.stock(all.1)]).collect(),
        table,
        figure: Figure {
            title: experiment.title.into(),
            caption: format!(
                "{} Largest relative error of any busy class over {} s, asked: at most {target} %.",
                experiment.says,
                length.as_secs()
            ),
            x: "tree".into(),
            y: "largest relative error (%)".into(),
            shape: Shape::Bars(cases.iter().map(|case| case.short.clone()).collect()),
            series,
        },
        scale: format!(
            "{} s of virtual time for each tree after a warm-up. Shares are the kernel's accounts \
             (cpu.stat); loops counted by the threads stand beside them. \
             Classes that block keep what they used, the rest is divided among the busy ones.",
            length.as_secs()
        ),
    })
}
