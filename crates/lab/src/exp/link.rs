// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the experiments with shares of a link have in common.

use super::{Compared, Lab};
use crate::figure::Series;
use crate::machine::{Session, Side};
use crate::net::{self, Capture, NetScene, Plan, Span};
use crate::table::{Cell, Table};
use anyhow::Result;
use std::time::Duration;

/// Everyone who divides a link.
pub const ALL: [Side; 6] = [
    Side::Fifo,
    Side::Htb,
    Side::Hfsc,
    Side::Drr,
    Side::Cake,
    Side::Qlinux,
];
/// Shares are asked to be right over this time.
const WINDOW: Duration = Duration::from_secs(5);
/// From the beginning of one such time to that of the next.
const STEP: Duration = Duration::from_millis(250);
/// Points of a curve in a second.
const POINTS: u64 = 10;

/// What sends in a leaf.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// UDP as fast as possible, packets of so many bytes.
    Udp(usize),
    /// So many TCP connections.
    Tcp(usize),
}

impl Load {
    fn start(self, scene: &mut NetScene, path: &str) -> Result<()> {
        match self {
            Load::Udp(size) => scene.start(path, "net-inf", &["--size", &size.to_string()])?,
            Load::Tcp(count) => scene.start(path, "tcp-inf", &["--threads", &count.to_string()])?,
        };
        Ok(())
    }
}

/// A link whose leaves all have packets, always.
pub struct Case {
    /// In tables.
    pub name: String,
    /// Below its bars.
    pub short: String,
    /// The link.
    pub plan: Plan,
    /// Of each leaf, in the order of the leaves.
    pub loads: Vec<Load>,
}

/// What one leaf got.
pub struct Row {
    pub path: String,
    pub weight: u32,
    pub load: Load,
    /// Of the link: what it should have got.
    pub ideal: f64,
    /// And what it did get.
    pub share: f64,
    /// Over time: bytes, [`POINTS`] a second.
    pub curve: Vec<(f64, f64)>,
}

/// What one case found.
pub struct Found {
    pub rows: Vec<Row>,
    /// The greatest error of any share in any 5 s, in percent of the share.
    pub error: f64,
    /// The greatest error of the link's rate in any 5 s, in percent.
    pub rate_error: f64,
    /// How far two siblings came apart over any time, in percent of what SFQ allows; none where some sender waits
    /// for acknowledgements and so has no packets now and then.
    pub apart: Option<f64>,
}

fn curve(capture: &Capture, port: u16) -> Vec<(f64, f64)> {
    let step_ns = 1_000_000_000 / POINTS;
    let count = (capture.span.seconds() * POINTS as f64) as u64;
    let mut sum = 0.0;
    let mut points = vec![(0.0, 0.0)];
    for index in 0..count {
        let span = Span::from(capture.span.begin_ns + index * step_ns, step_ns);
        sum += capture.bytes(port, span);
        points.push(((index + 1) as f64 / POINTS as f64, sum));
    }
    points
}

/// Runs `case` on one side; none where the side cannot do it.
pub fn measure(
    lab: &Lab,
    session: &Session,
    side: Side,
    case: &Case,
    length: Duration,
) -> Result<Option<Found>> {
    let tree = &case.plan.tree;
    if let Some(why) = net::unable(side, tree) {
        lab.say(&format!("{side}: {}: {why}", case.name));
        return Ok(None);
    }
    let mut scene = NetScene::new(session, side, &case.plan)?;
    for (index, load) in tree.leaves().zip(&case.loads) {
        load.start(&mut scene, &tree.classes[index].path)?;
    }
    scene.settle()?;
    let capture = scene.capture(length)?;
    let parts: Vec<(u16, f64)> = tree
        .leaves()
        .map(|index| (net::port(index), tree.share(index)))
        .collect();
    let total = capture.total(capture.span);
    let row = |(index, load): (usize, &Load)| Row {
        path: tree.classes[index].path.clone(),
        weight: tree.classes[index].weight,
        load: *load,
        ideal: tree.share(index),
        share: capture.bytes(net::port(index), capture.span) / total,
        curve: curve(&capture, net::port(index)),
    };
    let windows = || capture.windows(WINDOW.as_nanos() as u64, STEP.as_nanos() as u64);
    let worst = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0.0, f64::max);
    let rate = case.plan.rate.unwrap_or(0);
    let always = case.loads.iter().all(|load| matches!(load, Load::Udp(_)));
    let found = Found {
        apart: always.then(|| net::apart(tree, &capture)),
        rows: tree.leaves().zip(&case.loads).map(row).collect(),
        error: worst(&mut windows().map(|span| capture.worst_share(&parts, span))),
        rate_error: worst(&mut windows().map(|span| capture.rate_error(rate, span))),
    };
    let apart = found
        .apart
        .map(|part| format!(", {part:.0} % of SFQ's bound"));
    lab.say(&format!(
        "{side}: {}: shares {:.3} %, rate {:.3} %{}, {} packets",
        case.name,
        found.error,
        found.rate_error,
        apart.unwrap_or_default(),
        capture.packets.len()
    ));
    Ok(Some(found))
}

/// All cases that are asked for on each of `sides`.
pub fn measure_all(
    lab: &Lab,
    sides: &[Side],
    cases: &[Case],
    length: Duration,
) -> Result<Compared<Vec<Option<Found>>>> {
    lab.on_links(sides, |session, side| {
        let one = |case: &Case| measure(lab, session, side, case, length);
        cases.iter().map(one).collect()
    })
}

/// All that was found, a row for each leaf.
pub fn table(sides: &Compared<Vec<Option<Found>>>, cases: &[Case]) -> Table {
    let mut table = Table::new(&[
        "side",
        "case",
        "class",
        "weight",
        "load",
        "ideal_percent",
        "share_percent",
        "worst_share_error_5_s_percent",
        "worst_rate_error_5_s_percent",
        "of_sfq_bound_percent",
    ]);
    for (side, all) in sides.iter() {
        for (case, found) in cases.iter().zip(all) {
            let Some(found) = found else { continue };
            for row in &found.rows {
                let load = match row.load {
                    Load::Udp(size) => format!("UDP {size} bytes"),
                    Load::Tcp(count) => format!("TCP {count} connections"),
                };
                table.push(vec![
                    side.to_string().into(),
                    case.name.as_str().into(),
                    row.path.as_str().into(),
                    row.weight.into(),
                    load.into(),
                    (100.0 * row.ideal).into(),
                    (100.0 * row.share).into(),
                    found.error.into(),
                    found.rate_error.into(),
                    found.apart.map_or(Cell::from(""), Cell::from),
                ]);
            }
        }
    }
    table
}

/// Bars of the greatest error of each case, one colour a side.
pub fn bars(sides: &Compared<Vec<Option<Found>>>) -> Vec<Series> {
    let bar = |found: &Option<Found>| (0.0, found.as_ref().map_or(0.0, |f| f.error));
    let series = |(side, all): (Side, &Vec<Option<Found>>)| {
        let points = all.iter().map(bar).collect();
        Series::new(side.label(), side.colour(), side.dashed(), points)
    };
    sides.iter().map(series).collect()
}
