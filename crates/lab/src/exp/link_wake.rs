// SPDX-License-Identifier: MIT OR Apache-2.0
//! How soon an idle class's bandwidth is used by others, and how soon the class has it back.

use super::{link, Compared, Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::Target;
use crate::net::{self, Capture, NetScene, Plan, Span, Tree};
use crate::table::Table;
use anyhow::{ensure, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "link-wake",
    source: "QLinux, section 2.3",
    title: "A class that pauses and comes back",
    says: "Bandwidth that a class does not use goes to the classes with packets at once, and is the class's again \
           once it has packets.",
    cpus: 1,
    seconds: 130,
    run,
};

const RATE: u64 = 20;
/// Bytes: 48 such packets come in 10 ms.
const SIZE: &str = "500";
/// What one class does over and over.
const PAUSES: [&str; 6] = ["--size", SIZE, "--on", "400ms", "--off", "400ms"];
/// A class without packets for so long has paused.
const PAUSE_NS: u64 = 100_000_000;
/// Bandwidth is what comes in this time.
const WINDOW_NS: u64 = 10_000_000;
const STEP_NS: u64 = 250_000;
/// Part of the due bandwidth that counts as having it: a window's edge cuts a packet.
const ENOUGH: f64 = 0.9;
/// Weights of the class that is always busy, and of the one that pauses.
const WEIGHTS: [[u32; 2]; 3] = [[1, 1], [4, 1], [1, 4]];
const STEADY: u16 = net::PORT;
const PAUSING: u16 = net::PORT + 1;

struct Found {
    /// Milliseconds until the other class had the whole link, worst pause.
    given: f64,
    /// Milliseconds until the class had its share again, worst return.
    back: f64,
    /// Percent of the link in use, in the worst 10 ms.
    used: f64,
    /// Mbit/s of both in each 10 ms.
    curve: [Vec<(f64, f64)>; 2],
}

/// Milliseconds from `from_ns` until class `port` gets `part` of the link.
fn until(capture: &Capture, port: u16, from_ns: u64, part: f64) -> f64 {
    let enough = ENOUGH * part * (RATE * 1_000_000) as f64 / 8.0 * WINDOW_NS as f64 / 1e9;
    let mut begin_ns = from_ns;
    while begin_ns + WINDOW_NS <= capture.span.end_ns {
        if capture.bytes(port, Span::from(begin_ns, WINDOW_NS)) >= enough {
            return (begin_ns - from_ns) as f64 / 1e6;
        }
        begin_ns += STEP_NS;
    }
    f64::INFINITY
}

/// When the class's last packet before a pause came, and when its next one was sent.
fn pauses(capture: &Capture) -> Vec<(u64, u64)> {
    let packets: Vec<_> = capture.of(PAUSING).collect();
    let pairs = packets
        .windows(2)
        .map(|two| (two[0].at_ns, two[1].stamp_ns, two[1].at_ns));
    let long = pairs.filter(|(last, _, next)| next - last > PAUSE_NS);
    // One that ends with the capture shows too little of what came after.
    let whole = long.filter(|(.., next)| next + PAUSE_NS < capture.span.end_ns);
    whole.map(|(last, sent, _)| (last, sent)).collect()
}

fn curve(capture: &Capture, port: u16) -> Vec<(f64, f64)> {
    let windows = capture.windows(WINDOW_NS, WINDOW_NS);
    let point = |span: Span| {
        let time = (span.begin_ns - capture.span.begin_ns) as f64 / 1e9;
        (time, 8.0 * capture.bytes(port, span) / span.seconds() / 1e6)
    };
    windows
        .map(point)
        .take_while(|point| point.0 < 2.0)
        .collect()
}

fn measure(session: &Session, side: Side, weights: [u32; 2], length: Duration) -> Result<Found> {
    let plan = Plan::mbit(RATE, Tree::flat(&weights));
    let share = plan.tree.share(1);
    let mut scene = NetScene::new(session, side, &plan)?;
    scene.start("/c0", "net-inf", &["--size", SIZE])?;
    scene.start("/c1", "net-inf", &PAUSES)?;
    scene.settle()?;
    let capture = scene.capture(length)?;
    let mut found = Found {
        given: f64::NAN,
        back: f64::NAN,
        used: f64::INFINITY,
        curve: [curve(&capture, STEADY), curve(&capture, PAUSING)],
    };
    for (left_ns, sent_ns) in pauses(&capture) {
        found.given = found.given.max(until(&capture, STEADY, left_ns, 1.0));
        found.back = found.back.max(until(&capture, PAUSING, sent_ns, share));
    }
    let whole = (RATE * 1_000_000) as f64 / 8.0 * WINDOW_NS as f64 / 1e9;
    for span in capture.windows(WINDOW_NS, STEP_NS) {
        found.used = found.used.min(100.0 * capture.total(span) / whole);
    }
    Ok(found)
}

fn table(sides: &Compared<Vec<Found>>, pairs: &[[u32; 2]]) -> Table {
    let mut table = Table::new(&[
        "side",
        "weight_steady",
        "weight_pausing",
        "until_given_ms",
        "until_back_ms",
        "least_use_in_10_ms_percent",
    ]);
    for (side, all) in sides.iter() {
        for (weights, found) in pairs.iter().zip(all) {
            table.push(vec![
                side.to_string().into(),
                weights[0].into(),
                weights[1].into(),
                found.given.into(),
                found.back.into(),
                found.used.into(),
            ]);
        }
    }
    table
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(5, 30);
    let mut pairs = WEIGHTS.to_vec();
    pairs.retain(|weights| lab.wants(&format!("{}:{}", weights[0], weights[1])));
    ensure!(
        !pairs.is_empty(),
        "no pair of weights has such a name: there are 1:1, 4:1 and 1:4"
    );
    let sides = lab.on_links(&link::ALL, |session, side| {
        let one = |&weights: &[u32; 2]| {
            let found = measure(session, side, weights, length)?;
            lab.say(&format!(
                "{side}: {}:{}: given after {:.2} ms, back after {:.2} ms, use {:.1} %",
                weights[0], weights[1], found.given, found.back, found.used
            ));
            Ok(found)
        };
        pairs.iter().map(one).collect::<Result<Vec<_>>>()
    })?;
    let mut claims = Vec::new();
    for (index, weights) in pairs.iter().enumerate() {
        let text = |what: &str| format!("{what}, steady to pausing {}:{}", weights[0], weights[1]);
        let limit = Target::AtMost(10.0);
        claims.push(
            sides.claim(&text("until others have it"), "ms", limit, |all| {
                Some(all[index].given)
            }),
        );
        claims.push(sides.claim(
            &text("until the class has its share again"),
            "ms",
            limit,
            |all| Some(all[index].back),
        ));
        claims.push(sides.claim(
            &text("least use of the link in 10 ms"),
            "%",
            Target::AtLeast(95.0),
            |all| Some(all[index].used),
        ));
    }
    let drawn = sides
        .iter()
        .filter(|(side, _)| matches!(side, Side::Qlinux | Side::Htb));
    let series = drawn.flat_map(|(side, all)| {
        ["steady", "pausing"]
            .into_iter()
            .enumerate()
            .map(move |(index, name)| {
                let name = format!("{name}, {}", side.label());
                let colour = side.colour() + 3 * index;
                Series::new(&name, colour, side.dashed(), all[0].curve[index].clone())
            })
    });
    Ok(Outcome {
        table: table(&sides, &pairs),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{} Each point 10 ms.", EXPERIMENT.says),
            x: "time (s)".into(),
            y: "Mbit/s".into(),
            shape: Shape::Lines { marks: false },
            series: series.collect(),
        },
        claims,
        scale: format!(
            "{} s of virtual time for each pair of weights after a warm-up on a link of {RATE} Mbit/s, packets of {SIZE} \
             bytes. One class sends always, the other for 0.4 s of every 0.8 s. It has paused when its last packet has \
             come and is back when the next is sent; each has its bandwidth from where the next 10 ms have 90 % of it.",
            length.as_secs()
        ),
    })
}
