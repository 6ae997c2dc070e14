// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of every busy class against its ideal, for trees of all kinds.

mod cases;

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::ideal::{self, Class};
use crate::machine::Session;
use crate::manifest::{self, Claim, Target};
use crate::scene::{Sample, Scene, Worker};
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
           over goes to the others in proportion to their weights, at every level, whichever \
           others block. A class that wants less than its share gets what it wants.",
    cpus: 4,
    seconds: 300,
    run: |lab| compare_several(lab, &SEVERAL),
};

pub const EIGHT: Experiment = Experiment {
    name: "shares-eight",
    cpus: 8,
    run: |lab| compare_several(lab, &EIGHT),
    ..SEVERAL
};

/// A class that wants less than its share gets this part of it, in percent.
const CONTENT: f64 = 98.0;
/// Errors over one second may be so much larger than over the whole time.
const SECOND: f64 = 2.0;

/// What is due to a class.
#[derive(Clone, Copy, PartialEq)]
enum Due {
    /// It is busy: its part of the processors, no more and no less.
    Share,
    /// It blocks, and its part is more than it wants: all that it wants.
    Wish,
}

/// One class of one case.
struct Row {
    path: String,
    due: Due,
    weight: u32,
    threads: u32,
    used: f64,
    ideal: f64,
    /// Largest error over one second, in percent.
    second: f64,
    /// Loops counted and their error, where all its threads count loops only.
    loops: Option<(u64, f64)>,
}

impl Row {
    /// In percent of the ideal.
    fn error(&self) -> f64 {
        100.0 * (self.used / self.ideal - 1.0)
    }
}

/// Largest error of a case over the whole time, in percent.
fn worst(rows: &[Row]) -> f64 {
    let busy = rows.iter().filter(|row| row.due == Due::Share);
    busy.map(|row| row.error().abs()).fold(0.0, f64::max)
}

/// And over any one second.
fn worst_second(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.second).fold(0.0, f64::max)
}

/// The least part of what it wanted that a class which is entitled to it got, in percent.
fn least(rows: &[Row]) -> Option<f64> {
    let content = rows.iter().filter(|row| row.due == Due::Wish);
    content
        .map(|row| 100.0 + row.error())
        .min_by(|a, b| a.total_cmp(b))
}

fn start(scene: &mut Scene, path: &str, load: &Load) -> Result<()> {
    let threads = |n: u32| n.to_string();
    if load.busy > 0 {
        scene.start(path, "inf", &["--threads", &threads(load.busy)])?;
    }
    if load.sleepers > 0 {
        let count = threads(load.sleepers);
        let micros = |time: Duration| format!("{}us", time.as_micros());
        let (run, period) = (micros(cases::RUN), micros(cases::PERIOD));
        let args = ["--run", &run, "--period", &period, "--threads", &count];
        scene.start(path, "sleeper", &args)?;
    }
    if load.bursts > 0 {
        let count = threads(load.bursts);
        let args = ["--run", "3ms", "--sleep", "20ms", "--threads", &count];
        scene.start(path, "burst", &args)?;
    }
    Ok(())
}

/// What every busy class got between two samples, and what it should have got.
fn rows(case: &Case, scene: &Scene, before: &Sample, after: &Sample) -> Vec<Row> {
    let length = after.since(before);
    let worked = |path: &str, of: &dyn Fn(&Worker) -> bool| -> f64 {
        let workers = scene.workers.iter().enumerate();
        let below = |class: &str| {
            class == path || class.strip_prefix(path).is_some_and(|c| c.starts_with('/'))
        };
        let mine = workers.filter(|(_, worker)| below(&worker.class) && of(worker));
        mine.map(|(index, _)| after.worked(before, index)).sum()
    };
    let class = |class: &cases::CaseClass| Class {
        path: class.path.clone(),
        weight: class.weight,
        busy: class.load.busy,
        blocking: worked(&class.path, &|w| w.class == class.path && w.work != "inf"),
        used: worked(&class.path, &|_| true),
    };
    let classes: Vec<Class> = case.classes.iter().map(class).collect();
    let ideal = ideal::ideal(&classes, length, manifest::cpus());
    let row = |class: Class| {
        Some(Row {
            due: Due::Share,
            ideal: *ideal.get(&class.path)?,
            path: class.path,
            weight: class.weight,
            threads: class.busy,
            used: class.used,
            second: 0.0,
            loops: None,
        })
    };
    classes.into_iter().filter_map(row).collect()
}

/// What the classes got that want less than their share. A sleeper leaves out a period that it
/// comes too late for: so many were `woken`, by worker.
fn wishes(case: &Case, scene: &Scene, woken: &[usize], length: f64) -> Vec<Row> {
    let row = |class: &cases::CaseClass| {
        let ideal = case.wish(&class.path, manifest::cpus())? * length;
        let mine = |(worker, _): &(&Worker, &usize)| worker.class == class.path;
        let periods = scene.workers.iter().zip(woken).filter(mine);
        Some(Row {
            due: Due::Wish,
            path: class.path.clone(),
            weight: class.weight,
            threads: 0,
            used: periods
                .map(|(_, woken)| *woken as f64 * cases::RUN.as_secs_f64())
                .sum(),
            ideal,
            second: 0.0,
            loops: None,
        })
    };
    case.classes.iter().filter_map(row).collect()
}

fn measure(session: &Session, case: &Case, length: Duration) -> Result<Vec<Row>> {
    let mut scene = Scene::new(session)?;
    for class in &case.classes {
        scene.class(&class.path, class.weight)?;
        start(&mut scene, &class.path, &class.load)?;
    }
    scene.settle()?;
    let logged = |worker: &Worker| Ok(worker.counter()?.log_len());
    let all_logged = || scene.workers.iter().map(logged).collect::<Result<Vec<_>>>();
    let from = all_logged()?;
    let samples = scene.series(Duration::from_secs(1), length.as_secs() as usize)?;
    let woken: Vec<usize> = all_logged()?
        .iter()
        .zip(from)
        .map(|(to, from)| to - from)
        .collect();
    let (before, after) = (&samples[0], &samples[samples.len() - 1]);
    let mut all = rows(case, &scene, before, after);
    for pair in samples.windows(2) {
        for (row, second) in all.iter_mut().zip(rows(case, &scene, &pair[0], &pair[1])) {
            row.second = row.second.max(second.error().abs());
        }
    }
    for (index, worker) in scene.workers.iter().enumerate() {
        let pure = case.classes.iter().any(|class| {
            class.path == worker.class && class.load.sleepers + class.load.bursts == 0
        });
        if let (true, Some(row)) = (pure, all.iter_mut().find(|r| r.path == worker.class)) {
            row.loops = Some((after.counted(before, index), 0.0));
        }
    }
    compare_loops(&mut all);
    all.extend(wishes(case, &scene, &woken, after.since(before)));
    Ok(all)
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

fn compare_several(lab: &Lab, experiment: &Experiment) -> Result<Outcome> {
    let cases = cases::several(lab.seed, if lab.full { 20 } else { 4 });
    compare(lab, experiment, cases, 0.5)
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
                "{}: {name}: {:.3} %, over one second {:.3} %{}",
                session.side(),
                worst(&rows),
                worst_second(&rows),
                least(&rows).map_or(String::new(), |part| format!(
                    ", {part:.1} % of what a class wanted"
                )),
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
        "error_of_one_second_percent",
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
                    row.second.into(),
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
    let mut claims = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let name = &case.name;
        let (qlinux, stock) = sides.both(|found| worst(&found[index]));
        let text = format!("largest error: {name}");
        claims.push(Claim::new(&text, "%", Target::AtMost(target), qlinux).stock(stock));
        let (qlinux, stock) = sides.both(|found| worst_second(&found[index]));
        let text = format!("largest error over one second: {name}");
        let most = Target::AtMost(SECOND * target);
        claims.push(Claim::new(&text, "%", most, qlinux).stock(stock));
        if sides
            .iter()
            .all(|(_, found)| least(&found[index]).is_some())
        {
            let part = |found: &Vec<Vec<Row>>| least(&found[index]).unwrap_or_default();
            let (qlinux, stock) = sides.both(part);
            let text = format!("least part of what a class wanted: {name}");
            let least = Target::AtLeast(CONTENT);
            claims.push(Claim::new(&text, "%", least, qlinux).stock(stock));
        }
    }
    let all = sides.both(|found| found.iter().map(|rows| worst(rows)).fold(0.0, f64::max));
    // Equal or better than the stock kernel, over all trees of the run.
    let limit = all.1.unwrap_or(target).min(target);
    let overall = Claim::new(
        "largest error of all trees",
        "%",
        Target::AtMost(limit),
        all.0,
    );
    claims.push(overall.stock(all.1));
    Ok(Outcome {
        claims,
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
