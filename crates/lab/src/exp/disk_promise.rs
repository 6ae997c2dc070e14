// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Cello says of real-time requests, against when the disk was done with them.

use super::disk::{self, User, CLIENTS};
use super::{Experiment, Lab, Outcome};
use crate::disk::{Class, Disk, DiskScene, Fio, Hold, Model, Plan, Record};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::{Claim, Target};
use crate::net::Span;
use crate::sys;
use crate::table::Table;
use anyhow::{ensure, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "disk-promise",
    source: "Cello, SIGMETRICS'98; QLinux, section 2.4",
    title: "Real-time requests that were promised to be in time",
    says: "A real-time request that is promised to be in time is served in time: by the disk's estimated service times it is \
           due later than all that these may be off by.",
    cpus: 1,
    seconds: 145,
    run,
};

/// Interactive, throughput-intensive, real-time.
const PATHS: [&str; 3] = ["/interactive", "/throughput", "/soft-real-time"];
/// At least so many of a hundred requests are promised in a case that is not too much for the disk.
const PROMISED: f64 = 90.0;

/// What is asked of a disk.
struct Case {
    name: &'static str,
    model: Model,
    weights: [u32; 3],
    deadline: Duration,
    /// Real-time clients.
    clients: u32,
    /// The disk can do it: it has time for all of them.
    light: bool,
}

const fn case(
    name: &'static str,
    model: Model,
    weights: [u32; 3],
    deadline_ms: u64,
    clients: u32,
    light: bool,
) -> Case {
    Case {
        name,
        model,
        weights,
        deadline: Duration::from_millis(deadline_ms),
        clients,
        light,
    }
}

const CASES: [Case; 9] = [
    case("turning, 200 ms", Model::Turning, [1, 1, 4], 200, 4, true),
    case("turning, 60 ms", Model::Turning, [1, 1, 4], 60, 4, false),
    case(
        "turning, 1 of 3 and 100 ms",
        Model::Turning,
        [1, 1, 1],
        100,
        12,
        false,
    ),
    case("flat, 20 ms", Model::Flat, [1, 1, 4], 20, 4, true),
    case("flat, 2 ms", Model::Flat, [1, 1, 4], 2, 4, false),
    case(
        "flat, 1 of 3 and 3 ms",
        Model::Flat,
        [1, 1, 1],
        3,
        12,
        false,
    ),
    // It pauses for 40 ms now and then.
    case("parallel, 100 ms", Model::Parallel, [1, 1, 4], 100, 4, true),
    case("parallel, 8 ms", Model::Parallel, [1, 1, 4], 8, 4, false),
    case(
        "parallel, 1 of 3 and 12 ms",
        Model::Parallel,
        [1, 1, 1],
        12,
        12,
        false,
    ),
];

/// What became of real-time requests.
#[derive(Default, Debug, PartialEq)]
struct Found {
    requests: usize,
    /// In the disk's record too.
    recorded: usize,
    promised: usize,
    /// Of all, after their deadline.
    late: usize,
    /// Of those promised, after their deadline.
    promised_late: usize,
    /// What an estimated end was taken to be off by at most, on average, in milliseconds.
    error_ms: f64,
}

/// Joins what Cello had of each request with what the disk has: the same place, done last before Cello knew.
fn join(holds: &[Hold], record: &Record) -> Found {
    let mut found = Found::default();
    let inside =
        |hold: &&Hold| hold.arrived_ns >= record.span.begin_ns && hold.end_ns < record.span.end_ns;
    let mut error_ns = 0;
    for hold in holds.iter().filter(inside) {
        found.requests += 1;
        found.promised += usize::from(hold.promised);
        error_ns += hold.error_ns;
        let known = record
            .served
            .partition_point(|one| one.end_ns <= hold.end_ns);
        let same =
            |one: &&crate::disk::Served| one.sector == hold.sector && one.sectors == hold.sectors;
        let begun = |one: &&crate::disk::Served| one.end_ns >= hold.arrived_ns;
        let own = record.served[..known]
            .iter()
            .rev()
            .take_while(begun)
            .find(same);
        let Some(one) = own else { continue };
        found.recorded += 1;
        let late_ns = one.end_ns.saturating_sub(hold.deadline_ns);
        found.late += usize::from(late_ns > 0);
        found.promised_late += usize::from(hold.promised && late_ns > 0);
    }
    found.error_ms = error_ns as f64 / found.requests as f64 / 1e6;
    found
}

fn measure(lab: &Lab, session: &Session, case: &Case) -> Result<Found> {
    let plan = Plan {
        deadline: case.deadline,
        ..Plan::new(case.model, case.weights)
    };
    let mut scene = DiskScene::new(session, Side::Qlinux, &plan)?;
    let areas = Disk::areas(3);
    for ((path, class), area) in PATHS.into_iter().zip(Class::ALL).zip(&areas) {
        scene.class(path, class, 1)?;
        let clients = if class == Class::Realtime {
            case.clients
        } else {
            CLIENTS
        };
        let fio = Fio {
            depth: User::io_inf(case.model, class, 1).depth,
            ..Fio::io_inf(clients, area, lab.seed + class as u64)
        };
        scene.fio(path, &fio)?;
    }
    scene.settle()?;
    let span = Span::from(
        sys::now_ns(),
        disk::length(lab, case.model).as_nanos() as u64,
    );
    sys::sleep_until(span.end_ns);
    let holds = scene.disk.holds()?;
    let record = scene.recorded(span)?;
    Ok(join(&holds, &record))
}

fn table(cases: &[Case], all: &[Found]) -> Table {
    let mut table = Table::new(&[
        "case",
        "requests",
        "recorded",
        "promised",
        "late",
        "promised_and_late",
        "mean_error_ms",
    ]);
    for (case, found) in cases.iter().zip(all) {
        table.push(vec![
            case.name.into(),
            found.requests.into(),
            found.recorded.into(),
            found.promised.into(),
            found.late.into(),
            found.promised_late.into(),
            found.error_ms.into(),
        ]);
    }
    table
}

fn claims(cases: &[Case], all: &[Found]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (case, found) in cases.iter().zip(all) {
        let mut add = |what: &str, unit: &str, target, value| {
            claims.push(Claim::new(
                &format!("{}: {what}", case.name),
                unit,
                target,
                Some(value),
            ));
        };
        let part = |count: usize| 100.0 * count as f64 / found.requests as f64;
        add(
            "promised, and late",
            "",
            Target::AtMost(0.0),
            found.promised_late as f64,
        );
        add(
            "found in the disk's record",
            "%",
            Target::AtLeast(100.0),
            part(found.recorded),
        );
        if case.light {
            add(
                "promised",
                "%",
                Target::AtLeast(PROMISED),
                part(found.promised),
            );
        }
    }
    claims
}

fn run(lab: &Lab) -> Result<Outcome> {
    let cases: Vec<Case> = CASES
        .into_iter()
        .filter(|case| lab.wants(case.name))
        .collect();
    ensure!(
        !cases.is_empty(),
        "no case has such a name: see data.csv of a whole run"
    );
    ensure!(
        lab.wants_side(Side::Qlinux),
        "promises are Cello's only: leave --side out"
    );
    let session = Session::enter(Side::Stock)?;
    let mut all = Vec::new();
    for case in &cases {
        let found = measure(lab, &session, case)?;
        lab.say(&format!("{}: {found:?}", case.name));
        all.push(found);
    }
    session.check()?;
    let part = |of: fn(&Found) -> usize| -> Vec<(f64, f64)> {
        let percent = |found: &Found| 100.0 * of(found) as f64 / found.requests as f64;
        all.iter().map(|found| (0.0, percent(found))).collect()
    };
    let series = vec![
        Series::new("promised", 0, false, part(|found| found.promised)),
        Series::new("late", 1, true, part(|found| found.late)),
        Series::new(
            "promised and late",
            2,
            false,
            part(|found| found.promised_late),
        ),
    ];
    Ok(Outcome {
        table: table(&cases, &all),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: EXPERIMENT.says.into(),
            x: "disk and deadline".into(),
            y: "of real-time requests (%)".into(),
            shape: Shape::Bars(cases.iter().map(|case| case.name.to_owned()).collect()),
            series,
        },
        claims: claims(&cases, &all),
        scale: format!(
            "The last 1,024 real-time requests of {} s (turning) and {} s (flat, parallel) of virtual time, as Cello keeps them in debugfs, each \
             joined with the disk's record. Six clients in each of the other classes. {}",
            disk::length(lab, Model::Turning).as_secs(),
            disk::length(lab, Model::Flat).as_secs(),
            disk::DISK,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_with_the_record() {
        let text = "100 200 r 0 8 ok\n200 300 r 16 8 ok\n300 420 r 0 8 ok\n420 500 r 32 8 ok\n";
        let record = Record::parse(text, Span::from(0, 600), 9).unwrap();
        let hold = |arrived_ns, sector, deadline_ns, end_ns, promised, error_ns| Hold {
            arrived_ns,
            sector,
            sectors: 8,
            deadline_ns,
            end_ns,
            promised,
            error_ns,
        };
        let holds = [
            hold(50, 0, 200, 205, true, 10),
            hold(60, 16, 295, 303, true, 10),
            hold(210, 0, 400, 421, true, 10),
            hold(220, 32, 400, 503, false, 10),
            hold(230, 48, 400, 504, true, 10),
            hold(500, 0, 700, 700, true, 10),
        ];
        let found = join(&holds, &record);
        let expected = Found {
            requests: 5,
            recorded: 4,
            promised: 4,
            late: 3,
            promised_late: 2,
            error_ms: 1e-5,
        };
        assert_eq!(found, expected);
    }
}
