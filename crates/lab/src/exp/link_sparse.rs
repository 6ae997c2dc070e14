// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delay of a flow of few small packets beside a class that always has some.

use super::{quantile, Compared, Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::Target;
use crate::net::{Leaf, NetScene, Plan, Tree};
use crate::table::Table;
use anyhow::{ensure, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "link-sparse",
    source: "SFQ's delay bound; CAKE and fq_codel",
    title: "Delay of a sparse flow beside a saturated class",
    says: "A class that sends less than its share waits for the packet that is being sent, and no longer than under \
           the kernel's own queues for low delay.",
    cpus: 1,
    seconds: 360,
    run,
};

const SIDES: [Side; 5] = [
    Side::Fifo,
    Side::Htb,
    Side::FqCodel,
    Side::Cake,
    Side::Qlinux,
];
const RATE: u64 = 10;
/// Fifty packets a second of 100 bytes, at times that are random.
const SPARSE: [&str; 4] = ["--size", "100", "--period", "20ms"];
/// Such a packet on the wire.
const SPARSE_BYTES: u32 = 114;
/// What is asked where no peer was run: two whole packets of the link, one in service and its own.
const TWO_PACKETS_MS: f64 = 2.0 * 1514.0 * 8.0 / (RATE * 1000) as f64;

/// Who is served at once waits for the rest of the packet in service, evenly distributed over its 1.2 ms. The
/// 99th percentile of so many samples of that is right to 5 µs: two sides that are the same differ by no more than this.
const SAME_MS: f64 = 0.03;

/// Packets as fast as possible.
const UDP: &[&str] = &["net-inf", "--size", "1500"];
const TCP: &[&str] = &["tcp-inf", "--threads", "4"];

/// (name, the workload of each saturated class, GSO, saturated classes; 0: it is in the sparse flow's class, which
/// has a queue for each flow)
type Case = (&'static str, &'static [&'static str], bool, usize);
const CASES: [Case; 5] = [
    ("UDP", UDP, false, 1),
    ("four of UDP", UDP, false, 4),
    ("TCP", TCP, false, 1),
    ("TCP, GSO", TCP, true, 1),
    ("TCP, same class", TCP, false, 0),
];

/// One-way delays in ascending order, in milliseconds.
type Delays = Vec<f64>;

fn measure(session: &Session, side: Side, case: &Case, length: Duration) -> Result<Delays> {
    let &(_, work, gso, others) = case;
    let tree = match others {
        0 => Tree::flat(&[1]).with("/c0", |class| class.leaf = Leaf::Fq),
        _ => Tree::flat(&vec![1; 1 + others]),
    };
    let plan = Plan {
        gso,
        ..Plan::mbit(RATE, tree)
    };
    let mut scene = NetScene::new(session, side, &plan)?;
    scene.start("/c0", "net-inf", &SPARSE)?;
    for index in others.min(1)..=others {
        scene.start(&format!("/c{index}"), work[0], &work[1..])?;
    }
    scene.settle()?;
    let capture = scene.capture(length)?;
    let sparse = capture.packets.iter();
    let sparse = sparse.filter(|p| !p.tcp && p.bytes == SPARSE_BYTES);
    let mut delays: Delays = sparse
        .map(|p| p.at_ns.saturating_sub(p.stamp_ns) as f64 / 1e6)
        .collect();
    delays.sort_unstable_by(f64::total_cmp);
    Ok(delays)
}

fn table(sides: &Compared<Vec<Delays>>, cases: &[Case]) -> Table {
    let mut table = Table::new(&["side", "beside", "packets", "median_ms", "p99_ms", "max_ms"]);
    for (side, all) in sides.iter() {
        for ((name, ..), delays) in cases.iter().zip(all) {
            table.push(vec![
                side.to_string().into(),
                (*name).into(),
                delays.len().into(),
                quantile(delays, 0.5).into(),
                quantile(delays, 0.99).into(),
                quantile(delays, 1.0).into(),
            ]);
        }
    }
    table
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(12, 60);
    let mut cases = CASES.to_vec();
    cases.retain(|case| lab.wants(case.0));
    ensure!(
        !cases.is_empty(),
        "no case has such a name: see data.csv of a whole run"
    );
    let sides = lab.on_links(&SIDES, |session, side| {
        let one = |case: &Case| {
            let found = measure(session, side, case, length)?;
            let p99 = quantile(&found, 0.99);
            lab.say(&format!("{side}: beside {}: p99 {p99:.3} ms", case.0));
            Ok(found)
        };
        cases.iter().map(one).collect::<Result<Vec<_>>>()
    })?;
    let mut claims = Vec::new();
    for (index, (name, ..)) in cases.iter().enumerate() {
        let p99 = |all: &Vec<Delays>| quantile(&all[index], 0.99);
        // At most the better of the two peers, as far as it can be told.
        let peers = [Side::Cake, Side::FqCodel].map(|side| sides.of(side).map(p99));
        let limit = peers.into_iter().flatten().fold(f64::INFINITY, f64::min);
        let limit = if limit.is_finite() {
            limit + SAME_MS
        } else {
            TWO_PACKETS_MS
        };
        let text = format!("99th percentile of the delay beside {name}");
        claims.push(sides.claim(&text, "ms", Target::AtMost(limit), |all| Some(p99(all))));
    }
    let low = sides.iter().filter(|(side, _)| *side != Side::Fifo);
    let series = low.map(|(side, all)| {
        let points = all.iter().map(|delays| (0.0, quantile(delays, 0.99)));
        Series::new(side.label(), side.colour(), side.dashed(), points.collect())
    });
    Ok(Outcome {
        table: table(&sides, &cases),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{} 99 of 100 packets come no later than shown.", EXPERIMENT.says),
            x: "what saturates the link".into(),
            y: "one-way delay, 99th percentile (ms)".into(),
            shape: Shape::Bars(cases.iter().map(|(name, ..)| (*name).to_owned()).collect()),
            series: series.collect(),
        },
        claims,
        scale: format!(
            "{} s of virtual time for each case after a warm-up on a link of {RATE} Mbit/s: 50 packets a second of 100 \
             bytes, from when one is due to the kernel's time of arrival. Classes have equal weights; beside \
             \"same class\" there is one class with a queue for each flow (leaf fq, fq_codel). HTB lets a class below its \
             own rate send while the link's bucket is empty: on a line such a packet waits in the modem instead.",
            length.as_secs()
        ),
    })
}
