// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 10: a streaming server's disk reads beside IO_inf applications.

use super::stream::{self, Films, Streamed, FILMS, ROUND};
use super::{disk, Compared, Experiment, Lab, Outcome};
use crate::disk::{Class, Disk, DiskScene, Fio, Model, Plan};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::{Claim, Target};
use crate::sys;
use crate::table::Table;
use anyhow::{ensure, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-10",
    source: "QLinux, figure 10",
    title: "Four films from a disk beside readers as fast as possible",
    says: "A streaming media server in the soft real-time class retrieves its data at the real-time rate whatever the load in \
           the interactive class is; under plain Linux what it receives decreases with the load.",
    cpus: 1,
    seconds: 330,
    run,
};

const SERVER: &str = "/soft-real-time";
const OTHERS: &str = "/interactive";
/// Of the interactive and the soft real-time class.
const WEIGHTS: [u32; 3] = [1, 0, 3];
/// Of each IO_inf application.
const CONCURRENCY: u32 = 2;
/// IO_inf applications of the last point.
const MOST: u32 = 20;
/// Those that take the films in.
const PORT: &str = "9000";

fn measure(
    lab: &Lab,
    session: &Session,
    side: Side,
    readers: u32,
    length: Duration,
) -> Result<Streamed> {
    let plan = Plan {
        deadline: ROUND,
        ..Plan::new(Model::Turning, WEIGHTS)
    };
    let mut scene = DiskScene::new(session, side, &plan)?;
    let areas = Disk::areas(2);
    let films = Films::store(&scene.disk, &areas[0], FILMS, scene.scene.dir())?;
    scene.class(SERVER, Class::Realtime, 1)?;
    scene.class(OTHERS, Class::Interactive, 1)?;
    scene.scene.start(SERVER, "sink", &["--udp", PORT])?;
    scene.scene.begun()?;
    if readers > 0 {
        let fio = Fio::io_inf(readers * CONCURRENCY, &areas[1], lab.seed);
        scene.fio(OTHERS, &fio)?;
    }
    let to = format!("127.0.0.1:{PORT}");
    let args = films.args(FILMS);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = scene
        .scene
        .start(SERVER, "stream", &[&["--to", &to], &args[..]].concat())?;
    scene.scene.begun()?;
    let span = stream::span(&scene.scene, server, length)?;
    // What is late is known after the next round.
    sys::sleep_until(span.end_ns + 2 * ROUND.as_nanos() as u64);
    let log = scene.scene.workers[server].counter()?.log_from(0);
    Ok(Streamed::new(&log, span, FILMS))
}

type Points = Vec<(u32, Streamed)>;

fn table(sides: &Compared<Points>) -> Table {
    let mut table = Table::new(&[
        "side",
        "io_inf",
        "rounds",
        "missed_percent",
        "latest_ms",
        "read_mbit_per_s",
    ]);
    for (side, points) in sides.iter() {
        for (readers, found) in points {
            table.push(vec![
                side.to_string().into(),
                (*readers).into(),
                found.rounds.into(),
                found.missed.into(),
                found.late_ms.into(),
                found.mbit.into(),
            ]);
        }
    }
    table
}

fn claims(sides: &Compared<Points>, loads: &[u32]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (index, readers) in loads.iter().enumerate() {
        let text = format!("missed deadlines beside {readers} IO_inf");
        claims.push(sides.claim(&text, "%", Target::AtMost(0.0), |points| {
            Some(points[index].1.missed)
        }));
    }
    let held = |points: &Points| Some(100.0 * points.last()?.1.mbit / points.first()?.1.mbit);
    let last = loads.last().copied().unwrap_or(0);
    let text = format!("read beside {last} IO_inf, of alone");
    claims.push(sides.claim(&text, "%", Target::AtLeast(99.0), held));
    if let (Some(stock), MOST) = (sides.of(Side::MqDeadline), last) {
        // It is a load that matters.
        let missed = stock.last().map(|(_, found)| found.missed);
        let text = format!("missed deadlines beside {MOST} IO_inf under mq-deadline");
        claims.push(Claim::new(&text, "%", Target::AtLeast(1.0), missed).stock(missed));
    }
    claims
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(10, 40);
    let mut loads = vec![0, 5, 10, MOST];
    loads.retain(|&load| load == 0 || lab.wants(&load.to_string()));
    ensure!(
        loads.len() > 1,
        "no load has such a name: there are 5, 10 and {MOST}"
    );
    let sides = lab.on_disks(&disk::ALL, |session, side| {
        let one = |&readers: &u32| {
            let found = measure(lab, session, side, readers, length)?;
            lab.say(&format!(
                "{side}: {readers} IO_inf: {:.2} % of {} rounds missed, latest by {:.1} ms, {:.2} Mbit/s",
                found.missed, found.rounds, found.late_ms, found.mbit
            ));
            Ok((readers, found))
        };
        loads.iter().map(one).collect::<Result<Points>>()
    })?;
    let series = sides.iter().map(|(side, points)| {
        let in_time =
            |(readers, found): &(u32, Streamed)| (f64::from(*readers), 100.0 - found.missed);
        let line = points.iter().map(in_time).collect();
        Series::new(side.label(), side.colour(), side.dashed(), line)
    });
    Ok(Outcome {
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: format!("IO_inf applications in the interactive class, concurrency {CONCURRENCY}"),
            y: "rounds of the films read in time (%)".into(),
            shape: Shape::Lines { marks: true },
            series: series.collect(),
        },
        table: table(&sides),
        claims: claims(&sides, &loads),
        scale: format!(
            "{} s of virtual time for each point after a warm-up. {FILMS} films of 1.5 Mbit/s, each a copy on the turning disk: \
             every {} ms the server reads what it sends over UDP in the next {} ms, and reads past the page cache. fio is the \
             load, which reads 4 KB at random places. Interactive to real-time 1:3, under BFQ as weights of the cgroups. {}",
            length.as_secs(),
            ROUND.as_millis(),
            ROUND.as_millis(),
            disk::DISK,
        ),
    })
}
