// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the experiments with shares of a disk have in common.

use super::{Compared, Lab};
use crate::disk::{Area, Class, Disk, DiskScene, Fio, Model, Plan, Record};
use crate::machine::{Session, Side};
use crate::manifest::{Claim, Target};
use crate::net::Span;
use crate::sys;
use crate::table::{Cell, Table};
use anyhow::{ensure, Result};
use std::rc::Rc;
use std::time::Duration;

/// Everyone who divides a disk's time.
pub const ALL: [Side; 5] = [
    Side::Unscheduled,
    Side::MqDeadline,
    Side::Kyber,
    Side::Bfq,
    Side::Qlinux,
];
/// Shares are asked to be right over so many rounds.
pub const ROUNDS: u32 = 20;
/// Cello's own.
const ROUND: Duration = Duration::from_millis(100);
/// Between two looks at how many rounds have ended.
const LOOK: Duration = Duration::from_millis(2);
/// The papers' concurrency of an IO_inf.
pub const CLIENTS: u32 = 6;
/// Requests at a time of each of its clients on a disk that serves many: to have most of it a class needs
/// as many as that is.
const DEPTH: u32 = 8;

/// One cgroup with an IO_inf.
#[derive(Clone, Debug)]
pub struct User {
    /// Of requests.
    pub class: Class,
    /// Among those of its class.
    pub weight: u32,
    /// Clients at a time.
    pub clients: u32,
    /// Requests at a time of each.
    pub depth: u32,
}

impl User {
    /// The papers' IO_inf in a class.
    pub fn io_inf(model: Model, class: Class, weight: u32) -> User {
        User {
            class,
            weight,
            clients: CLIENTS,
            depth: if model == Model::Parallel { DEPTH } else { 1 },
        }
    }
}

/// A disk whose users all have requests, always.
#[derive(Clone)]
pub struct Case {
    /// In tables.
    pub name: String,
    /// Below its bars.
    pub short: String,
    /// The disk.
    pub plan: Plan,
    /// The cgroups on it.
    pub users: Vec<User>,
}

impl Case {
    /// An IO_inf in each class that has a weight: interactive, throughput-intensive, real-time.
    pub fn classes(model: Model, weights: [u32; 3]) -> Case {
        let used = Class::ALL.into_iter().zip(weights).filter(|(_, w)| *w > 0);
        let (users, words): (Vec<User>, Vec<String>) = used
            .map(|(class, weight)| (User::io_inf(model, class, 1), weight.to_string()))
            .unzip();
        let short = words.join(":");
        Case {
            name: format!("{}, {short}", model.word()),
            short,
            plan: Plan::new(model, weights),
            users,
        }
    }

    /// The part of the disk's time that a user should have.
    pub fn ideal(&self, index: usize) -> f64 {
        let own = &self.users[index];
        let class_weight = |class: Class| f64::from(self.plan.weights[class as usize]);
        let there = |class: &Class| self.users.iter().any(|user| user.class == *class);
        let classes: f64 = Class::ALL.into_iter().filter(there).map(class_weight).sum();
        let peers = self.users.iter().filter(|user| user.class == own.class);
        let groups: f64 = peers.map(|user| f64::from(user.weight)).sum();
        class_weight(own.class) / classes * f64::from(own.weight) / groups
    }

    fn areas(&self) -> Vec<Area> {
        Disk::areas(self.users.len())
    }

    /// What a side that knows no weights sees of it.
    fn shape(&self) -> (Model, u32, Vec<(u32, u32)>) {
        let users = self.users.iter().map(|user| (user.clients, user.depth));
        (self.plan.model, self.plan.depth, users.collect())
    }

    /// In this time shares are to be right.
    fn window(&self) -> Duration {
        self.plan.round.unwrap_or(ROUND) * ROUNDS
    }
}

/// What one user got.
pub struct Row {
    /// Of the disk's time: what it should have got.
    pub ideal: f64,
    /// And what it did get.
    pub share: f64,
    /// Requests served.
    pub requests: usize,
    /// The disk's time that Cello had in its accounts for the class, less what the record has, in percent of that.
    pub account_error: Option<f64>,
}

/// What one case found.
pub struct Found {
    pub rows: Vec<Row>,
    /// The greatest error of any share over twenty rounds, in percent of the disk's time.
    pub error: f64,
    /// Requests of all.
    pub requests: usize,
    /// The part of the time in which the disk served something, in percent.
    pub busy: f64,
}

/// What was seen of a case on a side.
struct Seen {
    record: Record,
    /// Cello's accounts of the classes, in nanoseconds.
    accounts: Option<[u64; 3]>,
    /// When its rounds ended.
    rounds: Vec<u64>,
}

fn accounts(disk: &Disk) -> Result<[u64; 3]> {
    let mut all = [0; 3];
    for class in Class::ALL {
        all[class as usize] = disk.cello_time_ns(class)?;
    }
    Ok(all)
}

/// Longer for an arm, which serves fewer requests in a second: of the others the record keeps seven seconds.
pub fn length(lab: &Lab, model: Model) -> Duration {
    match model {
        Model::Turning => lab.seconds(10, 60),
        Model::Flat | Model::Parallel => lab.seconds(5, 6),
    }
}

fn see(lab: &Lab, session: &Session, side: Side, case: &Case, length: Duration) -> Result<Seen> {
    let plan = Plan {
        strict: true,
        ..case.plan.clone()
    };
    let mut scene = DiskScene::new(session, side, &plan)?;
    let areas = case.areas();
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
    let known = |disk: &Disk| (side == Side::Qlinux).then(|| accounts(disk)).transpose();
    let before = known(&scene.disk)?;
    let span = Span::from(sys::now_ns(), length.as_nanos() as u64);
    let rounds = match side {
        Side::Qlinux => watch_rounds(&scene.disk, span)?,
        _ => Vec::new(),
    };
    sys::sleep_until(span.end_ns);
    let after = known(&scene.disk)?;
    let used = before.zip(after);
    Ok(Seen {
        record: scene.recorded(span)?,
        accounts: used.map(|(before, after)| [0, 1, 2].map(|class| after[class] - before[class])),
        rounds,
    })
}

/// When Cello's rounds end, to two milliseconds.
fn watch_rounds(disk: &Disk, span: Span) -> Result<Vec<u64>> {
    let mut ends = Vec::new();
    let mut rounds: u64 = disk.cello("rounds")?;
    for at_ns in (span.begin_ns..span.end_ns).step_by(LOOK.as_nanos() as usize) {
        sys::sleep_until(at_ns);
        let now: u64 = disk.cello("rounds")?;
        ends.extend((rounds..now).map(|_| at_ns));
        rounds = now;
    }
    Ok(ends)
}

fn judge(case: &Case, seen: &Seen) -> Found {
    let Seen {
        record, accounts, ..
    } = seen;
    let areas = case.areas();
    let of_class = |class: Class| -> u64 {
        let users = case.users.iter().zip(&areas);
        let own = users.filter(|(user, _)| user.class == class);
        own.map(|(_, area)| record.time_ns(area, record.span)).sum()
    };
    let row = |(index, user): (usize, &User)| Row {
        ideal: case.ideal(index),
        share: record.share(&areas[index], &areas, record.span),
        requests: record.count(&areas[index]),
        // Where several are served at a time Cello has the disk's time, the record each request's.
        account_error: accounts
            .filter(|_| case.plan.model != Model::Parallel)
            .map(|all| {
                let (own, recorded) = (all[user.class as usize], of_class(user.class));
                100.0 * (own as f64 / recorded as f64 - 1.0)
            }),
    };
    let rows: Vec<Row> = case.users.iter().enumerate().map(row).collect();
    let mut error: f64 = 0.0;
    for span in windows(case, seen) {
        for (row, area) in rows.iter().zip(&areas) {
            error = error.max(100.0 * (record.share(area, &areas, span) - row.ideal).abs());
        }
    }
    Found {
        requests: rows.iter().map(|row| row.requests).sum(),
        rows,
        error,
        busy: 100.0 * record.busy(),
    }
}

/// Every stretch of twenty rounds; where there are none, any stretch of that length.
fn windows(case: &Case, seen: &Seen) -> Vec<Span> {
    let window = case.window().as_nanos() as u64;
    if seen.rounds.is_empty() {
        let all = seen.record.windows(window, window / u64::from(ROUNDS));
        return all.collect();
    }
    let twenty = seen.rounds.windows(1 + ROUNDS as usize);
    let span = |ends: &[u64]| Span {
        begin_ns: ends[0],
        end_ns: ends[ROUNDS as usize],
    };
    twenty.map(span).collect()
}

/// Does this side take notice of weights?
fn knows_weights(side: Side) -> bool {
    matches!(side, Side::Bfq | Side::Qlinux)
}

/// All cases on each of `sides`. A side that knows no weights does the same in cases that differ in them only.
pub fn measure_all(lab: &Lab, sides: &[Side], cases: &[Case]) -> Result<Compared<Vec<Found>>> {
    ensure!(
        !cases.is_empty(),
        "no case has such a name: see data.csv of a whole run"
    );
    lab.on_disks(sides, |session, side| {
        let mut done: Vec<(&Case, Rc<Seen>)> = Vec::new();
        let mut all = Vec::new();
        for case in cases {
            let same =
                |(other, _): &&(&Case, _)| !knows_weights(side) && other.shape() == case.shape();
            let seen = match done.iter().find(same) {
                Some((_, seen)) => seen.clone(),
                None => Rc::new(see(lab, session, side, case, length(lab, case.plan.model))?),
            };
            let found = judge(case, &seen);
            let shares: Vec<f64> = found.rows.iter().map(|row| 100.0 * row.share).collect();
            lab.say(&format!(
                "{side}: {}: {shares:.2?} %, at worst off by {:.2} %, {} requests, busy {:.2} %",
                case.name, found.error, found.requests, found.busy
            ));
            done.push((case, seen));
            all.push(found);
        }
        Ok(all)
    })
}

/// All that was found, a row for each user.
pub fn table(sides: &Compared<Vec<Found>>, cases: &[Case]) -> Table {
    let mut table = Table::new(&[
        "side",
        "disk",
        "at_once",
        "case",
        "class",
        "weight_of_class",
        "weight_in_class",
        "ideal_percent",
        "share_percent",
        "worst_error_20_rounds_percent",
        "requests",
        "account_error_percent",
        "disk_busy_percent",
    ]);
    for (side, all) in sides.iter() {
        for (case, found) in cases.iter().zip(all) {
            for (user, row) in case.users.iter().zip(&found.rows) {
                table.push(vec![
                    side.to_string().into(),
                    case.plan.model.word().into(),
                    case.plan.depth.into(),
                    case.short.as_str().into(),
                    format!("{:?}", user.class).to_lowercase().into(),
                    case.plan.weights[user.class as usize].into(),
                    user.weight.into(),
                    (100.0 * row.ideal).into(),
                    (100.0 * row.share).into(),
                    found.error.into(),
                    row.requests.into(),
                    row.account_error.map_or(Cell::from(""), Cell::from),
                    found.busy.into(),
                ]);
            }
        }
    }
    table
}

/// Of each case, that no share was off by more than `most` percent of the disk's time.
pub fn errors(sides: &Compared<Vec<Found>>, cases: &[Case], most: f64) -> Vec<Claim> {
    let claim = |(index, case): (usize, &Case)| {
        let text = format!("{}: greatest error over 20 rounds", case.name);
        sides.claim(&text, "% of the disk", Target::AtMost(most), |all| {
            Some(all[index].error)
        })
    };
    cases.iter().enumerate().map(claim).collect()
}

/// What all these experiments stand on, for their scale.
pub const DISK: &str = "The disk is the module testdisk: memory that takes as long as a disk of 128 GiB with 7,200 turns a minute and \
    seeks of 0.5 to 8 ms (\"turning\", one request at a time), or 100 µs and 500 MB/s (\"flat\", 64 requests at a time), \
    or eight channels that each take 0.8 ms for a read (\"parallel\"; each client has eight requests at a time). \
    Each cgroup reads in an area of its own, so that the disk's record of what it served says whose time it was.";

/// How BFQ is where shares are asked for.
pub const STRICT: &str =
    "BFQ runs without low_latency, which would raise weights of programs that have just begun.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideals() {
        let case = Case::classes(Model::Flat, [1, 3, 0]);
        assert_eq!(
            (case.name.as_str(), case.short.as_str()),
            ("flat, 1:3", "1:3")
        );
        assert_eq!([0, 1].map(|index| case.ideal(index)), [0.25, 0.75]);
        let mut case = Case::classes(Model::Turning, [1, 1, 0]);
        case.users
            .push(User::io_inf(Model::Turning, Class::Throughput, 3));
        assert_eq!(
            [0, 1, 2].map(|index| case.ideal(index)),
            [0.5, 0.125, 0.375]
        );
    }
}
