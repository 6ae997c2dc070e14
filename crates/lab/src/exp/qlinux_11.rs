// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 11: a film from a disk over a link, with load on both.

use super::stream::{self, Films, Streamed, ROUND};
use super::{disk, Experiment, Lab, Layouts, Outcome};
use crate::disk::{Class, Disk, Fio, Model, Plan as DiskPlan};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::{Claim, Target};
use crate::net::{self, Capture, NetScene, Packet, Plan, Span, Tree};
use crate::sys;
use crate::table::Table;
use anyhow::{ensure, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-11",
    source: "QLinux, figure 11",
    title: "A film from a disk over a link, with load on both",
    says: "With classes of the disk and of packets a streaming media server loses no packet and streams at the real-time rate \
           whatever the best-effort load is; under plain Linux loss grows and the bit rate drops.",
    cpus: 1,
    seconds: 160,
    run,
};

/// Mbit/s of the link.
const RATE: u64 = 10;
const SERVER: &str = "/soft-real-time";
const SENDERS: &str = "/best-effort";
const READERS: &str = "/readers";
/// Best-effort to real-time, on the disk and on the link.
const WEIGHTS: [u32; 2] = [1, 2];
/// Of each IO_inf application.
const CONCURRENCY: u32 = 2;
/// IO_inf applications of the last point, and as many of Net_inf.
const MOST: u32 = 10;
/// Later than a round is too late.
const LATE_MS: f64 = ROUND.as_millis() as f64;

/// How disk and link are divided.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Plain,
    Peers,
    Qlinux,
}

impl Layout {
    const EVERY: [Layout; 3] = [Layout::Plain, Layout::Peers, Layout::Qlinux];

    fn label(self) -> &'static str {
        match self {
            Layout::Plain => "stock Linux",
            Layout::Peers => "BFQ and HTB",
            Layout::Qlinux => "QLinux",
        }
    }

    /// Of the disk, and of the link.
    fn sides(self) -> (Side, Side) {
        match self {
            Layout::Plain => (Side::MqDeadline, Side::Fifo),
            Layout::Peers => (Side::Bfq, Side::Htb),
            Layout::Qlinux => (Side::Qlinux, Side::Qlinux),
        }
    }

    fn wanted(self, lab: &Lab) -> bool {
        match lab.side {
            Some(Side::Stock) => self == Layout::Plain,
            Some(one) => self.sides().0 == one,
            None => true,
        }
    }
}

struct Point {
    load: u32,
    /// From the disk.
    read: Streamed,
    /// Of the datagrams that should have been sent, percent.
    lost: f64,
    /// Of those that came, percent: not later than a round.
    in_time: f64,
    /// Mean time from one to the next within a second, averaged over all seconds, in milliseconds.
    between_ms: f64,
    /// Received, with all headers, in Mbit/s.
    mbit: f64,
}

/// Mean time between packets in each second, as the paper has it.
fn between_ms(film: &[&Packet], span: Span) -> f64 {
    let second = |packet: &&&Packet| (packet.at_ns - span.begin_ns) / 1_000_000_000;
    let seconds = film.chunk_by(|a, b| second(&a) == second(&b));
    let mean = |packets: &[&Packet]| match packets {
        [first, .., last] => {
            Some((last.at_ns - first.at_ns) as f64 / (packets.len() - 1) as f64 / 1e6)
        }
        _ => None,
    };
    let means: Vec<f64> = seconds.filter_map(mean).collect();
    means.iter().sum::<f64>() / means.len() as f64
}

fn judge(load: u32, read: Streamed, capture: &Capture, due: Span) -> Point {
    // By when they were due: one that came after the end is not lost.
    let was_due = |packet: &&Packet| (due.begin_ns..due.end_ns).contains(&packet.stamp_ns);
    let film: Vec<&Packet> = capture.of(net::PORT).filter(was_due).collect();
    let numbers = || film.iter().map(|packet| packet.number);
    let sent = match (numbers().min(), numbers().max()) {
        (Some(first), Some(last)) => f64::from(last - first + 1),
        _ => f64::NAN,
    };
    let late_ms = |packet: &&&Packet| (packet.at_ns as f64 - packet.stamp_ns as f64) / 1e6;
    let in_time = film
        .iter()
        .filter(|packet| late_ms(packet) <= LATE_MS)
        .count();
    let came: Vec<&Packet> = capture
        .of(net::PORT)
        .filter(|packet| (due.begin_ns..due.end_ns).contains(&packet.at_ns))
        .collect();
    let bytes: f64 = came.iter().map(|packet| f64::from(packet.bytes)).sum();
    Point {
        load,
        read,
        lost: 100.0 * (1.0 - film.len() as f64 / sent),
        in_time: 100.0 * in_time as f64 / sent,
        between_ms: between_ms(&came, due),
        mbit: 8.0 * bytes / due.seconds() / 1e6,
    }
}

fn point(
    lab: &Lab,
    session: &Session,
    layout: Layout,
    load: u32,
    length: Duration,
) -> Result<Point> {
    let (disk_side, link_side) = layout.sides();
    let disk_plan = DiskPlan {
        deadline: ROUND,
        ..DiskPlan::new(Model::Turning, [WEIGHTS[0], 0, WEIGHTS[1]])
    };
    // Declared before what uses it.
    let disk = Disk::new(disk_side, &disk_plan)?;
    let tree = Tree::new([(SERVER, 100 * WEIGHTS[1]), (SENDERS, 100 * WEIGHTS[0])]);
    let mut scene = NetScene::new(session, link_side, &Plan::mbit(RATE, tree))?;
    scene.scene.class(READERS, 100)?;
    scene.scene.classes().divide_disks()?;
    let cgroup = |path: &str| scene.scene.classes().dir(path);
    disk.class(&cgroup(SERVER), Class::Realtime, 1)?;
    disk.class(&cgroup(READERS), Class::Interactive, 1)?;
    let areas = Disk::areas(2);
    let films = Films::store(&disk, &areas[0], 1, scene.scene.dir())?;
    for _ in 0..load {
        scene.start(SENDERS, "net-inf", &["--size", "1500"])?;
    }
    let fio = Fio::io_inf(load * CONCURRENCY, &areas[1], lab.seed);
    let readers = (load > 0).then(|| fio.start(&scene.scene, READERS, &disk));
    let readers = readers.transpose()?;
    scene.scene.begun()?;
    let args = films.args(1);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = scene.start(SERVER, "stream", &args)?;
    scene.scene.begun()?;
    let due = stream::span(&scene.scene, server, length)?;
    // The last ones may be late.
    sys::sleep_until(due.end_ns + 5 * ROUND.as_nanos() as u64);
    let capture = scene.captured_since(due.begin_ns)?;
    let log = scene.scene.workers[server].counter()?.log_from(0);
    // The disk goes after those who use it.
    drop(readers);
    scene.scene.end();
    Ok(judge(load, Streamed::new(&log, due, 1), &capture, due))
}

type Curves = Vec<(Layout, Vec<Point>)>;

fn table(curves: &Curves) -> Table {
    let mut table = Table::new(&[
        "layout",
        "io_inf_and_net_inf",
        "rounds_missed_percent",
        "lost_percent",
        "in_time_percent",
        "between_packets_ms",
        "mbit_per_s",
    ]);
    for (layout, points) in curves {
        for point in points {
            table.push(vec![
                layout.label().into(),
                point.load.into(),
                point.read.missed.into(),
                point.lost.into(),
                point.in_time.into(),
                point.between_ms.into(),
                point.mbit.into(),
            ]);
        }
    }
    table
}

fn claims(curves: &Curves, last: u32) -> Vec<Claim> {
    let layouts = Layouts {
        found: curves,
        own: Layout::Qlinux,
        stock: Layout::Plain,
        peer: (Layout::Peers, Layout::Peers.label()),
    };
    let text = |what: &str| format!("{what} beside {last} IO_inf and {last} Net_inf");
    let none = Target::AtMost(0.0);
    let held = |of: fn(&Point) -> f64| {
        move |points: &Vec<Point>| Some(100.0 * of(points.last()?) / of(points.first()?))
    };
    vec![
        layouts.claim(&text("packets lost"), "%", none, |points| {
            Some(points.last()?.lost)
        }),
        layouts.claim(&text("rounds not read in time"), "%", none, |points| {
            Some(points.last()?.read.missed)
        }),
        layouts.claim(
            &text("packets no later than a round"),
            "%",
            Target::AtLeast(100.0),
            |points| Some(points.last()?.in_time),
        ),
        layouts.claim(
            &text("bit rate, of alone,"),
            "%",
            Target::Within(99.0, 101.0),
            held(|p| p.mbit),
        ),
        layouts.claim(
            &text("time between packets, of alone,"),
            "%",
            Target::Within(99.0, 101.0),
            held(|p| p.between_ms),
        ),
    ]
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(6, 40);
    let mut loads = match lab.full {
        true => (0..=MOST).collect(),
        false => vec![0, 2, 5, MOST],
    };
    loads.retain(|&load| load == 0 || lab.wants(&load.to_string()));
    let last = loads.last().copied().unwrap_or(0);
    ensure!(
        last > 0,
        "no load has such a name: there are 2, 5 and {MOST}"
    );
    let session = Session::enter(Side::Stock)?;
    let mut curves: Curves = Vec::new();
    for layout in Layout::EVERY
        .into_iter()
        .filter(|layout| layout.wanted(lab))
    {
        let mut points = Vec::new();
        for &load in &loads {
            let found = point(lab, &session, layout, load, length)?;
            lab.say(&format!(
                "{}, load {load}: {:.3} Mbit/s, {:.2} % lost, {:.2} % in time, {:.3} ms between, {:.2} % of rounds missed",
                layout.label(), found.mbit, found.lost, found.in_time, found.between_ms, found.read.missed
            ));
            points.push(found);
        }
        curves.push((layout, points));
    }
    session.check()?;
    let series = curves.iter().map(|(layout, points)| {
        let line = points.iter().map(|p| (f64::from(p.load), p.mbit)).collect();
        let side = layout.sides().0;
        Series::new(layout.label(), side.colour(), side.dashed(), line)
    });
    Ok(Outcome {
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "IO_inf applications on the disk, and as many Net_inf on the link".into(),
            y: "received of the film (Mbit/s)".into(),
            shape: Shape::Lines { marks: true },
            series: series.collect(),
        },
        table: table(&curves),
        claims: claims(&curves, last),
        scale: format!(
            "{} s of virtual time for each point after a warm-up. Every {} ms the server reads what it sends in the next: MPEG-1 of \
             1.5 Mbit/s in datagrams of 1,024 bytes when its own clock says, over a link of {RATE} Mbit/s; the paper's \
             rounds have a second and its datagrams 8 KB. Best-effort to real-time 1:2 on disk and link. {}",
            length.as_secs(),
            ROUND.as_millis(),
            disk::DISK,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(at_ms: u64, stamp_ms: u64, number: u32) -> Packet {
        Packet {
            at_ns: at_ms * 1_000_000,
            stamp_ns: stamp_ms * 1_000_000,
            port: net::PORT,
            tcp: false,
            bytes: 1000,
            number,
        }
    }

    #[test]
    fn lost_late_and_between() {
        let packets = vec![
            packet(100, 100, 1),
            packet(110, 110, 2),
            packet(830, 130, 4),
            packet(1120, 1120, 5),
        ];
        let span = Span::from(0, 2_000_000_000);
        let read = Streamed {
            rounds: 0,
            missed: 0.0,
            late_ms: 0.0,
            mbit: 0.0,
        };
        let capture = Capture { packets, span };
        let found = judge(1, read, &capture, span);
        assert!(
            (found.lost - 20.0).abs() < 1e-9,
            "the third of five did not come"
        );
        assert!((found.in_time - 60.0).abs() < 1e-9, "the fourth was late");
        assert!(
            (found.between_ms - 365.0).abs() < 1e-9,
            "730 ms for two, and a second with one"
        );
    }
}
