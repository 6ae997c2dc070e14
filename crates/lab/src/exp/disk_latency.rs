// SPDX-License-Identifier: MIT OR Apache-2.0
//! Responses of interactive requests, and deadlines of real-time ones, beside one who writes as fast as possible.

use super::stream::{self, Films, Streamed, FILMS, ROUND};
use super::{disk, Compared, Experiment, Lab, Outcome};
use crate::disk::{Class, Disk, DiskScene, Fio, Model, Plan};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::Target;
use crate::net::Span;
use crate::sys;
use crate::table::Table;
use anyhow::{ensure, Result};

pub const EXPERIMENT: Experiment = Experiment {
    name: "disk-latency",
    source: "QLinux, section 2.4; Cello, SIGMETRICS'98",
    title: "Interactive responses beside a writer as fast as possible",
    says: "Interactive requests are served as early as no real-time request is late for it (slack stealing), whatever a \
           throughput-intensive application writes.",
    // The disk's memory is as fast as a processor copies.
    cpus: 2,
    seconds: 270,
    run,
};

/// Interactive, throughput-intensive, real-time.
const PATHS: [&str; 3] = ["/interactive", "/writer", "/soft-real-time"];
/// Threads that ask, each after a pause of 80 ms on average: less than the share of their class.
const ASKERS: &str = "2";
/// Bytes of a write, and writes at a time.
const WRITE: u64 = 256 << 10;
const WRITES: u32 = 32;
const PORT: &str = "9000";
/// Where mq-deadline was not run: milliseconds, of each disk. On the flat disk two writes of a megabyte are in service, and
/// half of mq-deadline's is 9.4.
const ENOUGH_MS: [f64; 3] = [25.0, 8.0, 25.0];

struct Found {
    /// Responses of interactive requests, in ascending order, in milliseconds.
    responses: Vec<f64>,
    films: Streamed,
    /// Written, in MB/s.
    written: f64,
}

impl Found {
    fn mean(&self) -> f64 {
        self.responses.iter().sum::<f64>() / self.responses.len() as f64
    }

    fn p99(&self) -> f64 {
        let last = self.responses.len().saturating_sub(1) as f64;
        let value = self.responses.get((last * 0.99).ceil() as usize);
        value.copied().unwrap_or(f64::NAN)
    }
}

fn measure(lab: &Lab, session: &Session, side: Side, model: Model) -> Result<Found> {
    let plan = Plan {
        deadline: ROUND,
        ..Plan::new(model, [1, 1, 1])
    };
    let mut scene = DiskScene::new(session, side, &plan)?;
    let areas = Disk::areas(3);
    let films = Films::store(&scene.disk, &areas[2], FILMS, scene.scene.dir())?;
    for (path, class) in PATHS.into_iter().zip(Class::ALL) {
        scene.class(path, class, 1)?;
    }
    scene.scene.start(PATHS[2], "sink", &["--udp", PORT])?;
    scene.scene.begun()?;
    let writer = Fio {
        rw: "write",
        block: WRITE,
        clients: 1,
        depth: WRITES,
        area: written_area(&areas[1]),
        seed: lab.seed,
    };
    scene.fio(PATHS[1], &writer)?;
    let from = scene.disk.path().display().to_string();
    let at = (areas[0].start * 512).to_string();
    let bytes = ((areas[0].end - areas[0].start) * 512).to_string();
    let ask = [
        "--from",
        &from,
        "--at",
        &at,
        "--bytes",
        &bytes,
        "--threads",
        ASKERS,
    ];
    let asker = scene.scene.start(PATHS[0], "ask", &ask)?;
    let to = format!("127.0.0.1:{PORT}");
    let args = films.args(FILMS);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = scene
        .scene
        .start(PATHS[2], "stream", &[&["--to", &to], &args[..]].concat())?;
    scene.scene.begun()?;
    let span = stream::span(&scene.scene, server, disk::length(lab, model))?;
    // What is late is known after the next round.
    sys::sleep_until(span.end_ns + 2 * ROUND.as_nanos() as u64);
    let logs = [asker, server].map(|worker| Ok(scene.scene.workers[worker].counter()?.log_from(0)));
    let [asked, streamed]: [Result<Vec<u64>>; 2] = logs;
    let record = scene.recorded(span)?;
    let sectors: u64 = record.of(&areas[1]).map(|one| one.sectors).sum();
    Ok(Found {
        responses: responses(&asked?, span),
        films: Streamed::new(&streamed?, span, FILMS),
        written: sectors as f64 * 512.0 / span.seconds() / 1e6,
    })
}

/// A piece of the writer's area, written over and over: the memory of the disk is the machine's.
fn written_area(area: &crate::disk::Area) -> crate::disk::Area {
    area.start..area.start + (256 << 20) / 512
}

fn responses(log: &[u64], span: Span) -> Vec<f64> {
    let asked = log.chunks_exact(2);
    let inside = asked.filter(|words| (span.begin_ns..span.end_ns).contains(&words[0]));
    let mut all: Vec<f64> = inside.map(|words| words[1] as f64 / 1e6).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

fn table(sides: &Compared<Vec<Found>>, models: &[Model]) -> Table {
    let mut table = Table::new(&[
        "side",
        "disk",
        "responses",
        "mean_ms",
        "p99_ms",
        "film_rounds_missed_percent",
        "film_latest_ms",
        "written_mb_per_s",
    ]);
    for (side, all) in sides.iter() {
        for (model, found) in models.iter().zip(all) {
            table.push(vec![
                side.to_string().into(),
                model.word().into(),
                found.responses.len().into(),
                found.mean().into(),
                found.p99().into(),
                found.films.missed.into(),
                found.films.late_ms.into(),
                found.written.into(),
            ]);
        }
    }
    table
}

fn run(lab: &Lab) -> Result<Outcome> {
    let mut models = Model::ALL.to_vec();
    models.retain(|model| lab.wants(model.word()));
    ensure!(
        !models.is_empty(),
        "no disk has such a name: there are turning, flat and parallel"
    );
    let sides = lab.on_disks(&disk::ALL, |session, side| {
        let one = |&model: &Model| {
            let found = measure(lab, session, side, model)?;
            lab.say(&format!(
                "{side}, {}: mean {:.2} ms, p99 {:.2} ms, {:.2} % of rounds missed, {:.1} MB/s written",
                model.word(),
                found.mean(),
                found.p99(),
                found.films.missed,
                found.written
            ));
            Ok(found)
        };
        models.iter().map(one).collect::<Result<Vec<_>>>()
    })?;
    let mut claims = Vec::new();
    for (index, model) in models.iter().enumerate() {
        // Where a channel serves a write, whoever schedules, a read of that channel waits for it.
        let part = if *model == Model::Parallel { 1.0 } else { 0.5 };
        let stock = sides
            .of(Side::MqDeadline)
            .map(|all| all[index].mean() * part);
        let limit = stock.unwrap_or(ENOUGH_MS[*model as usize]);
        let text = format!("{}: mean response of interactive requests", model.word());
        claims.push(sides.claim(&text, "ms", Target::AtMost(limit), |all| {
            Some(all[index].mean())
        }));
        let text = format!("{}: missed real-time deadlines", model.word());
        claims.push(sides.claim(&text, "%", Target::AtMost(0.0), |all| {
            Some(all[index].films.missed)
        }));
    }
    let series = sides.iter().map(|(side, all)| {
        let points = all.iter().map(|found| (0.0, found.mean())).collect();
        Series::new(side.label(), side.colour(), side.dashed(), points)
    });
    Ok(Outcome {
        table: table(&sides, &models),
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{} Asked: at most half of mq-deadline's; of the parallel disk as much as it.", EXPERIMENT.says),
            x: "disk".into(),
            y: "mean response of interactive requests (ms)".into(),
            shape: Shape::Bars(models.iter().map(|model| model.word().to_owned()).collect()),
            series: series.collect(),
        },
        claims,
        scale: format!(
            "{} s (turning) and {} s (flat, parallel) of virtual time after a warm-up; classes of equal weights. {ASKERS} programs read 4 KB \
             at random places with pauses of 80 ms on average; fio writes {} KB one after the other, {WRITES} at a time; \
             {FILMS} films of 1.5 Mbit/s are read in rounds of {} ms. {}",
            disk::length(lab, Model::Turning).as_secs(),
            disk::length(lab, Model::Flat).as_secs(),
            WRITE >> 10,
            ROUND.as_millis(),
            disk::DISK,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_in_the_span() {
        let log = [5, 9_000_000, 10, 3_000_000, 19, 1_000_000, 20, 7_000_000];
        assert_eq!(responses(&log, Span::from(10, 10)), [1.0, 3.0]);
    }
}
