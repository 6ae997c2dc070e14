// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an idle class leaves is used, and a class of little weight is served.

use super::disk::{self, User};
use super::{Compared, Experiment, Lab, Outcome};
use crate::disk::{Class, Disk, DiskScene, Fio, Model, Plan};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::{Claim, Target};
use crate::table::Table;
use anyhow::{ensure, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "disk-idle",
    source: "QLinux, section 2.4",
    title: "A disk's time where classes are idle or of little weight",
    says: "Cello is work-conserving: classes that have requests use the share of those that have none. A class of weight 1 \
           beside one of 1,000 is served.",
    cpus: 1,
    seconds: 385,
    run,
};

const SIDES: [Side; 3] = [Side::MqDeadline, Side::Bfq, Side::Qlinux];
/// Percent of the time.
const BUSY: f64 = 99.0;
/// Weights of the last case.
const LITTLE: [u32; 3] = [1000, 1, 0];

/// A round that has begun, and one that ends late.
const TWO_ROUNDS_MS: f64 = 200.0;

struct Case {
    name: String,
    plan: Plan,
    users: Vec<User>,
    length: Duration,
}

impl Case {
    /// BFQ has no word for a class of weight 1 beside 1,000.
    fn able(&self, side: Side) -> bool {
        side == Side::Qlinux || self.plan.weights != LITTLE
    }
}

fn cases(lab: &Lab) -> Vec<Case> {
    let mut all = Vec::new();
    for model in Model::ALL {
        let mut add = |name: &str, weights, classes: &[Class], length| {
            all.push(Case {
                name: format!("{}, {name}", model.word()),
                plan: Plan::new(model, weights),
                users: classes
                    .iter()
                    .map(|class| User::io_inf(model, *class, 1))
                    .collect(),
                length,
            });
        };
        let usual = disk::length(lab, model);
        let both = [Class::Interactive, Class::Throughput];
        add("1:1:2, the last idle", [1, 1, 2], &both, usual);
        add("1:9, the last idle", [1, 9, 0], &both[..1], usual);
        let long = match model {
            Model::Turning => lab.seconds(60, 200),
            Model::Flat | Model::Parallel => usual,
        };
        add("1000:1", LITTLE, &both, long);
    }
    all.retain(|case| lab.wants(&case.name));
    all
}

struct Found {
    /// Percent of the time.
    busy: f64,
    /// Of each user, percent.
    shares: Vec<f64>,
    /// The longest time in which the last user was not served, in milliseconds.
    gap_ms: f64,
    /// What it may be: its share comes to the longest request in so long, and rounds end when they do.
    bound_ms: f64,
}

fn measure(lab: &Lab, session: &Session, side: Side, case: &Case) -> Result<Found> {
    let mut scene = DiskScene::new(session, side, &case.plan)?;
    let areas = Disk::areas(case.users.len());
    for (index, (user, area)) in case.users.iter().zip(&areas).enumerate() {
        let path = format!("/c{index}");
        scene.class(&path, user.class, user.weight)?;
        let fio = Fio {
            depth: user.depth,
            ..Fio::io_inf(user.clients, area, lab.seed + index as u64)
        };
        scene.fio(&path, &fio)?;
    }
    scene.settle()?;
    let record = scene.record(case.length)?;
    let last = areas.len() - 1;
    let weight = |user: &User| f64::from(case.plan.weights[user.class as usize]);
    let weights: f64 = case.users.iter().map(weight).sum();
    let rounds = weights / weight(&case.users[last]);
    let longest_ms = record.longest_ns as f64 / 1e6;
    Ok(Found {
        busy: 100.0 * record.busy(),
        shares: areas
            .iter()
            .map(|area| 100.0 * record.share(area, &areas, record.span))
            .collect(),
        gap_ms: record.gap_ns(&areas[last]) as f64 / 1e6,
        bound_ms: longest_ms * rounds + TWO_ROUNDS_MS,
    })
}

type All = Vec<Option<Found>>;

fn table(sides: &Compared<All>, cases: &[Case]) -> Table {
    let mut table = Table::new(&[
        "side",
        "case",
        "disk_busy_percent",
        "share_of_last_percent",
        "longest_gap_of_last_ms",
    ]);
    for (side, all) in sides.iter() {
        for (case, found) in cases.iter().zip(all) {
            let Some(found) = found else { continue };
            table.push(vec![
                side.to_string().into(),
                case.name.as_str().into(),
                found.busy.into(),
                found.shares.last().copied().unwrap_or(f64::NAN).into(),
                found.gap_ms.into(),
            ]);
        }
    }
    table
}

fn claims(sides: &Compared<All>, cases: &[Case]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let text = format!("{}: the disk was busy", case.name);
        claims.push(sides.claim(&text, "%", Target::AtLeast(BUSY), |all| {
            Some(all[index].as_ref()?.busy)
        }));
        if case.plan.weights != LITTLE {
            continue;
        }
        let own = sides.of(Side::Qlinux).and_then(|all| all[index].as_ref());
        let bound = own.map_or(0.0, |found| found.bound_ms);
        let text = format!("{}: longest time without service of the last", case.name);
        claims.push(sides.claim(&text, "ms", Target::AtMost(bound), |all| {
            Some(all[index].as_ref()?.gap_ms)
        }));
    }
    claims
}

fn run(lab: &Lab) -> Result<Outcome> {
    let cases = cases(lab);
    ensure!(
        !cases.is_empty(),
        "no case has such a name: see data.csv of a whole run"
    );
    let sides = lab.on_disks(&SIDES, |session, side| {
        let one = |case: &Case| {
            if !case.able(side) {
                return Ok(None);
            }
            let found = measure(lab, session, side, case)?;
            lab.say(&format!(
                "{side}: {}: busy {:.2} %, shares {:.3?} %, gap {:.1} ms of {:.1}",
                case.name, found.busy, found.shares, found.gap_ms, found.bound_ms
            ));
            Ok(Some(found))
        };
        cases.iter().map(one).collect::<Result<All>>()
    })?;
    let series = sides.iter().map(|(side, all)| {
        let busy = |found: &Option<Found>| (0.0, found.as_ref().map_or(0.0, |found| found.busy));
        Series::new(
            side.label(),
            side.colour(),
            side.dashed(),
            all.iter().map(busy).collect(),
        )
    });
    Ok(Outcome {
        table: table(&sides, &cases),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: EXPERIMENT.says.into(),
            x: "weights".into(),
            y: "the disk was busy (% of the time)".into(),
            shape: Shape::Bars(cases.iter().map(|case| case.name.clone()).collect()),
            series: series.collect(),
        },
        claims: claims(&sides, &cases),
        scale: format!(
            "{} s (turning) and {} s (flat, parallel) of virtual time after a warm-up, 1000:1 on the turning disk {} s; six clients in each \
             class that is not idle. A class of weight 1 may wait for as long as its share takes to come to the longest \
             request, and two rounds. {}",
            disk::length(lab, Model::Turning).as_secs(),
            disk::length(lab, Model::Flat).as_secs(),
            lab.seconds(60, 200).as_secs(),
            disk::DISK,
        ),
    })
}
