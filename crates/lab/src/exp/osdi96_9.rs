// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 9: rate-monotonic threads in a node of their own.

use super::{Experiment, Lab, Outcome, Sides};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{qlinux, Session, Side, LAB};
use crate::manifest::{Claim, Target};
use crate::scene::Scene;
use crate::sys;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "osdi96-9",
    source: "OSDI'96, figure 9",
    title: "Two rate-monotonic threads beside 20 busy ones and a fork bomb",
    says:
        "Threads of a rate-monotonic node are scheduled within one quantum of waking and are done \
           before their deadlines, whatever the other nodes do.",
    cpus: 1,
    seconds: 200,
    run,
};

/// Work and period of the paper's threads, in milliseconds, and what they reserve.
const THREADS: [(u64, u64, &str); 2] = [(10, 60, "10300us/60ms"), (150, 960, "152ms/960ms")];
/// The longest quantum beside others: of a class that has half of a period of 6 ms, and of a thread
/// whose class has others that wait.
const QUANTUM_MS: f64 = 3.0;

/// One period of a thread: when it was served at first, and done, after its beginning.
#[derive(Clone, Copy)]
struct Round {
    latency_ms: f64,
    slack_ms: f64,
}

type Rounds = [Vec<Round>; 2];

fn record(session: &Session, length: Duration) -> Result<Rounds> {
    let mut scene = Scene::new(session)?;
    // The rest of the machine is outside of the lab, and hardly counts.
    scene.classes().set_weight("/", 10000)?;
    scene.class_with_leaf("/rm", 300, "rm")?;
    scene.class_with_leaf("/sfq", 100, "sfq")?;
    scene.class_with_leaf("/bomb", 100, "ts")?;
    for (work, period, _) in THREADS {
        let (work, period) = (format!("{work}ms"), format!("{period}ms"));
        scene.start("/rm", "rounds", &["--run", &work, "--period", &period])?;
    }
    scene.start("/sfq", "inf", &["--threads", "20"])?;
    scene.start("/bomb", "forkstorm", &["--threads", "8"])?;
    scene.begun()?;
    if session.side() == Side::Qlinux {
        for (worker, (.., reservation)) in scene.workers.iter().zip(THREADS) {
            let pid = worker.process.pid().to_string();
            qlinux(&["reserve", &pid, reservation])?;
        }
        let shown = qlinux(&["class", "show", &format!("{LAB}/rm"), "--threads"])?;
        eprint!("{shown}");
    }
    scene.settle()?;
    let counters = [scene.workers[0].counter()?, scene.workers[1].counter()?];
    // Whole rounds: an entry for its beginning and one for its end.
    let from = counters.map(|counter| counter.log_len().next_multiple_of(2));
    sys::sleep(length);
    let rounds = |thread: usize| {
        let period = THREADS[thread].1 as f64;
        let log = counters[thread].log_from(from[thread]);
        let round = |pair: &[u64]| Round {
            latency_ms: pair[0] as f64 / 1e6,
            slack_ms: period - pair[1] as f64 / 1e6,
        };
        log.chunks_exact(2).map(round).collect()
    };
    Ok([rounds(0), rounds(1)])
}

fn missed(rounds: &[Round]) -> f64 {
    rounds.iter().filter(|r| r.slack_ms < 0.0).count() as f64
}

fn worst_latency(rounds: &[Round]) -> f64 {
    rounds.iter().map(|r| r.latency_ms).fold(0.0, f64::max)
}

fn least_slack(rounds: &[Round]) -> f64 {
    rounds
        .iter()
        .map(|r| r.slack_ms)
        .fold(f64::INFINITY, f64::min)
}

fn claims(sides: &Sides<Rounds>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (thread, (work, period, _)) in THREADS.iter().enumerate() {
        let name = format!("thread {} ({work} ms of {period})", thread + 1);
        claims.push(sides.claim(
            &format!("{name}: deadlines missed"),
            "",
            Target::AtMost(0.0),
            |rounds| missed(&rounds[thread]),
        ));
        claims.push(sides.claim(
            &format!("{name}: least slack"),
            "ms",
            Target::AtLeast(0.0),
            |rounds| least_slack(&rounds[thread]),
        ));
    }
    claims.push(sides.claim(
        "thread 1: longest scheduling latency",
        "ms",
        Target::AtMost(QUANTUM_MS),
        |rounds| worst_latency(&rounds[0]),
    ));
    claims
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(60, 600);
    let sides = lab.each_side(|session| {
        let rounds = record(session, length)?;
        let side = session.side();
        let (one, two) = (missed(&rounds[0]), missed(&rounds[1]));
        lab.say(&format!("{side}: missed {one} and {two}"));
        Ok(rounds)
    })?;
    let mut table = Table::new(&["side", "thread", "round", "latency_ms", "slack_ms"]);
    let mut series = Vec::new();
    for (side, found) in sides.iter() {
        for (thread, rounds) in found.iter().enumerate() {
            for (number, round) in rounds.iter().enumerate() {
                table.push(vec![
                    side.to_string().into(),
                    (thread + 1).into(),
                    number.into(),
                    round.latency_ms.into(),
                    round.slack_ms.into(),
                ]);
            }
        }
        let first = |value: &dyn Fn(&Round) -> f64| {
            let shown = found[0].iter().take(200).enumerate();
            shown.map(|(n, r)| (n as f64, value(r))).collect()
        };
        let label = |what: &str| format!("{what}, {}", side.label());
        let colour = 2 * side.colour();
        let (slack, latency) = (first(&|r| r.slack_ms), first(&|r| r.latency_ms));
        series.push(Series::new(&label("slack"), colour, side.dashed(), slack));
        let latency = Series::new(&label("latency"), colour + 1, side.dashed(), latency);
        series.push(latency);
    }
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "round of thread 1 (60 ms each)".into(),
            y: "ms".into(),
            shape: Shape::Lines { marks: false },
            series,
        },
        claims: claims(&sides),
        scale: format!(
            "{} s of virtual time after a warm-up, 600 with --full; weights 3:1:1; latency counts from the \
             beginning of a round to the first instruction of its work.",
            length.as_secs()
        ),
    })
}
