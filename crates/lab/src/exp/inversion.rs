// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority inversion: how long a thread of great weight waits for a lock that
//! one of little weight holds beside busy threads.

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{self, Session, Side, LAB};
use crate::manifest::{Claim, Target};
use crate::scene::Scene;
use crate::sys;
use crate::table::Table;
use anyhow::{ensure, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "inversion",
    source: "OSDI'96, section 4: priority inversion",
    title: "Wait for a lock that a thread of little weight holds",
    says:
        "The weight of a blocked thread is lent to the one that blocks it, so the wait depends on \
           the waiter's weight and not on the holder's.",
    cpus: 1,
    seconds: 90,
    run,
};

/// The holder's CPU time with the lock, each time.
const HOLD: Duration = Duration::from_millis(2);
const BUSY: &str = "10";

struct Case {
    name: &'static str,
    /// Classes of the holder with the busy threads, and of the waiter, with their weights.
    holder: (&'static str, u32),
    waiter: (&'static str, u32),
    /// Weights of these threads, where they share a class.
    threads: Option<(u32, u32, u32)>,
    lock: &'static [&'static str],
}

const CASES: [Case; 3] = [
    Case {
        name: "one class",
        holder: ("/one", 100),
        waiter: ("/one", 100),
        threads: Some((1, 10, 100)),
        lock: &[],
    },
    Case {
        name: "two classes",
        holder: ("/light", 1),
        waiter: ("/heavy", 100),
        threads: None,
        lock: &[],
    },
    Case {
        name: "two classes, inheriting mutex",
        holder: ("/light", 1),
        waiter: ("/heavy", 100),
        threads: None,
        lock: &["--inherit"],
    },
];

/// A lock that was free is taken in less.
const FREE_MS: f64 = 0.02;

/// Waits for a lock that was taken, in milliseconds, ascending.
type Waits = Vec<f64>;

fn set_weight(class: &str, tid: u32, weight: u32) -> Result<()> {
    let (class, tid) = (format!("{LAB}{class}"), tid.to_string());
    machine::qlinux(&[
        "class",
        "set",
        &class,
        "--thread",
        &tid,
        "--weight",
        &weight.to_string(),
    ])?;
    Ok(())
}

fn waits(session: &Session, case: &Case, length: Duration) -> Result<Waits> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf(case.holder.0, case.holder.1, "sfq")?;
    if case.waiter.0 != case.holder.0 {
        scene.class_with_leaf(case.waiter.0, case.waiter.1, "sfq")?;
    }
    let mutex = scene.file("mutex");
    let hold = format!("{}us", HOLD.as_micros());
    let take = [&["--take", mutex.as_str()], case.lock].concat();
    let holds = [&take[..], &["--hold", &hold, "--pause", "1ms"]].concat();
    let waits = [&take[..], &["--hold", "10us", "--pause", "3ms"]].concat();
    let holder = scene.start(case.holder.0, "lock", &holds)?;
    scene.begun()?;
    let waiter = scene.start(case.waiter.0, "lock", &waits)?;
    scene.begun()?;
    let mut busy = Vec::new();
    for _ in 0..BUSY.parse()? {
        busy.push(scene.start(case.holder.0, "inf", &[])?);
    }
    scene.begun()?;
    if let Some((h, b, w)) = case.threads {
        let pid = |index: usize| scene.workers[index].process.pid();
        set_weight(case.holder.0, pid(waiter), w)?;
        for &index in &busy {
            set_weight(case.holder.0, pid(index), b)?;
        }
        set_weight(case.holder.0, pid(holder), h)?;
    }
    scene.settle()?;
    let counter = scene.workers[waiter].counter()?;
    let from = counter.log_len();
    sys::sleep(length);
    let mut all: Waits = counter
        .log_from(from)
        .iter()
        .map(|&ns| ns as f64 / 1e6)
        .filter(|&ms| ms > FREE_MS)
        .collect();
    ensure!(!all.is_empty(), "{}: nobody waited", case.name);
    all.sort_unstable_by(f64::total_cmp);
    // Who waits goes before who has the lock, or it would find it orphaned.
    scene.workers.reverse();
    Ok(all)
}

fn mean(all: &Waits) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

/// Of each case; none where the side knows no weights of threads.
fn all_waits(lab: &Lab, session: &Session, name: &str) -> Result<Vec<Option<Waits>>> {
    let length = lab.seconds(6, 60);
    let one = |case: &Case| {
        if case.threads.is_some() && session.side() != Side::Qlinux {
            return Ok(None);
        }
        let found = waits(session, case, length)?;
        lab.say(&format!(
            "{name}: {}: mean {:.3} ms of {}",
            case.name,
            mean(&found),
            found.len()
        ));
        Ok(Some(found))
    };
    CASES.iter().map(one).collect()
}

fn run(lab: &Lab) -> Result<Outcome> {
    let sides = lab.each_side(|session| all_waits(lab, session, &session.side().to_string()))?;
    let without = {
        let session = Session::enter_with(Side::Qlinux, &["--no-lending"])?;
        let found = all_waits(lab, &session, "no lending")?;
        session.check()?;
        found
    };
    let mut table = Table::new(&["side", "case", "waits", "mean_ms", "median_ms", "max_ms"]);
    let mut series = Vec::new();
    let mut add =
        |side: &str, label: &str, dashed: bool, colour: usize, found: &[Option<Waits>]| {
            for (case, waits) in CASES.iter().zip(found) {
                let Some(all) = waits else { continue };
                table.push(vec![
                    side.into(),
                    case.name.into(),
                    all.len().into(),
                    mean(all).into(),
                    all[all.len() / 2].into(),
                    all[all.len() - 1].into(),
                ]);
            }
            let point = |waits: &Option<Waits>| (0.0, waits.as_ref().map_or(0.0, mean));
            series.push(Series::new(
                label,
                colour,
                dashed,
                found.iter().map(point).collect(),
            ));
        };
    add("no-lending", "QLinux without lending", true, 3, &without);
    for (side, found) in sides.iter() {
        add(
            &side.to_string(),
            side.label(),
            side.dashed(),
            usize::from(side.dashed()),
            found,
        );
    }
    let mut claims = Vec::new();
    for (index, case) in CASES.iter().enumerate() {
        let (qlinux, stock) = sides.both(|found| found[index].as_ref().map_or(f64::NAN, mean));
        let without = without[index].as_ref().map_or(f64::NAN, mean);
        let target = Target::AtMost(without / 10.0);
        let text = format!("mean wait, {}: a tenth of that without lending", case.name);
        let stock = stock.filter(|ms| ms.is_finite());
        claims.push(Claim::new(&text, "ms", target, qlinux).stock(stock));
    }
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: EXPERIMENT.says.into(),
            x: "where the holder and the waiter are".into(),
            y: "mean wait for the lock (ms)".into(),
            shape: Shape::Bars(CASES.iter().map(|case| case.name.to_owned()).collect()),
            series,
        },
        claims,
        scale: format!(
            "The holder works {} ms with the lock beside {BUSY} busy threads; weights 1:10:100 of holder, busy \
             thread and waiter in one class, or classes of weight 1 and 100. {} s for each case.",
            HOLD.as_millis(),
            lab.seconds(6, 60).as_secs()
        ),
    })
}
