// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 8: a film over the network against senders as fast as possible.

use super::{link, Compared, Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::Target;
use crate::net::{self, Capture, NetScene, Plan, Tree};
use crate::table::Table;
use anyhow::{ensure, Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-8",
    source: "QLinux, figure 8",
    title: "A streamed film against senders as fast as possible",
    says: "A streaming media server in a class of its own streams at its real-time rate whatever the load in the \
           best-effort class of equal weight is; under plain Linux the load reduces what is received of the film.",
    cpus: 1,
    seconds: 220,
    run,
};

/// The guest's film: MPEG-1 video of 1.5 Mbit/s, the paper's has 1.49.
const FILM: &str = "/usr/share/qlinux/clip.mpg";
const RATE: u64 = 10;
/// Senders of the last point, which the claims are about.
const MOST: usize = 10;
/// Later than a frame's time at 25 frames/s is too late.
const FRAME_MS: f64 = 40.0;
const SERVER: &str = "/soft-real-time";
const OTHERS: &str = "/best-effort";

struct Point {
    senders: usize,
    /// Received of the film, with all headers.
    mbit: f64,
    /// Of the datagrams, percent.
    lost: f64,
    /// Of the datagrams, percent: came, and not later than a frame's time.
    in_time: f64,
    /// The 99th percentile and the greatest, of what did come.
    late_ms: [f64; 2],
}

/// The film as a program stream, which says when each of its packs is due.
pub fn program_stream(dir: &Path) -> Result<String> {
    let path = dir.join("film.mpg").display().to_string();
    let out = Command::new("ffmpeg")
        .args(["-nostdin", "-hide_banner", "-loglevel", "error", "-i", FILM])
        .args(["-c", "copy", "-f", "mpeg", &path])
        .stdin(Stdio::null())
        .output()
        .context("ffmpeg cannot be started: install it")?;
    let why = String::from_utf8_lossy(&out.stderr);
    ensure!(
        out.status.success(),
        "{FILM} cannot be made a stream: {}",
        why.trim()
    );
    Ok(path)
}

fn point(senders: usize, capture: &Capture) -> Point {
    let film: Vec<_> = capture.of(net::PORT).collect();
    let bytes: f64 = film.iter().map(|p| f64::from(p.bytes)).sum();
    let numbers = || film.iter().map(|p| p.number);
    let sent = match (numbers().min(), numbers().max()) {
        (Some(first), Some(last)) => f64::from(last - first + 1),
        _ => f64::NAN,
    };
    let late = |p: &&net::Packet| (p.at_ns as f64 - p.stamp_ns as f64) / 1e6;
    let mut late: Vec<f64> = film.iter().map(late).collect();
    late.sort_unstable_by(f64::total_cmp);
    let quantile = |part: f64| {
        let last = late.len().saturating_sub(1) as f64;
        late.get((last * part).ceil() as usize)
            .copied()
            .unwrap_or(f64::INFINITY)
    };
    Point {
        senders,
        mbit: 8.0 * bytes / capture.span.seconds() / 1e6,
        lost: 100.0 * (1.0 - film.len() as f64 / sent),
        in_time: 100.0 * late.partition_point(|&ms| ms <= FRAME_MS) as f64 / sent,
        late_ms: [quantile(0.99), quantile(1.0)],
    }
}

fn measure(session: &Session, side: Side, senders: usize, length: Duration) -> Result<Point> {
    let plan = Plan::mbit(RATE, Tree::new([(SERVER, 100), (OTHERS, 100)]));
    let mut scene = NetScene::new(session, side, &plan)?;
    let film = program_stream(scene.scene.dir())?;
    for _ in 0..senders {
        scene.start(OTHERS, "net-inf", &["--size", "1500"])?;
    }
    // The film begins when all else has.
    scene.scene.begun()?;
    scene.start(SERVER, "film", &["--file", &film])?;
    scene.settle()?;
    Ok(point(senders, &scene.capture(length)?))
}

fn table(sides: &Compared<Vec<Point>>) -> Table {
    let mut table = Table::new(&[
        "side",
        "senders",
        "film_mbit_per_s",
        "lost_percent",
        "in_time_percent",
        "late_p99_ms",
        "late_max_ms",
    ]);
    for (side, points) in sides.iter() {
        for point in points {
            table.push(vec![
                side.to_string().into(),
                point.senders.into(),
                point.mbit.into(),
                point.lost.into(),
                point.in_time.into(),
                point.late_ms[0].into(),
                point.late_ms[1].into(),
            ]);
        }
    }
    table
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(6, 50);
    let mut loads: Vec<usize> = match lab.full {
        true => (0..=MOST).collect(),
        false => vec![0, 2, 5, MOST],
    };
    loads.retain(|&load| load == 0 || lab.wants(&load.to_string()));
    let sides = lab.on_links(&link::ALL, |session, side| {
        let one = |&senders: &usize| {
            let found = measure(session, side, senders, length)?;
            lab.say(&format!(
                "{side}: {senders} senders: {:.3} Mbit/s, {:.2} % lost, up to {:.1} ms late",
                found.mbit, found.lost, found.late_ms[1]
            ));
            Ok(found)
        };
        loads.iter().map(one).collect::<Result<Vec<_>>>()
    })?;
    let last = |points: &'_ Vec<Point>, of: fn(&Point) -> f64| points.last().map(of);
    let held = |points: &Vec<Point>| Some(100.0 * points.last()?.mbit / points.first()?.mbit);
    let claims = vec![
        sides.claim("lost with 10 senders", "%", Target::AtMost(0.0), |p| {
            last(p, |p| p.lost)
        }),
        sides.claim(
            "came in time with 10 senders",
            "%",
            Target::AtLeast(100.0),
            |p| last(p, |p| p.in_time),
        ),
        sides.claim(
            "latest with 10 senders",
            "ms",
            Target::AtMost(FRAME_MS),
            |p| last(p, |p| p.late_ms[1]),
        ),
        sides.claim(
            "received with 10 senders, of alone",
            "%",
            Target::Within(99.0, 101.0),
            held,
        ),
    ];
    let series = sides.iter().map(|(side, points)| {
        let line = points.iter().map(|p| (p.senders as f64, p.mbit)).collect();
        Series::new(side.label(), side.colour(), side.dashed(), line)
    });
    Ok(Outcome {
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "senders in the best-effort class".into(),
            y: "received of the film (Mbit/s)".into(),
            shape: Shape::Lines { marks: true },
            series: series.collect(),
        },
        table: table(&sides),
        claims,
        scale: format!(
            "{} s of virtual time for each point after a warm-up, on a link of {RATE} Mbit/s; the paper's clip has five \
             minutes, its link 100 Mbit/s. MPEG-1 of 1.5 Mbit/s leaves in datagrams of 1,024 bytes of film when its \
             own clock (SCR) says; late is what comes after that. Senders: UDP packets of 1,500 bytes.",
            length.as_secs()
        ),
    })
}
