// SPDX-License-Identifier: MIT OR Apache-2.0
//! OSDI'96, figure 10: SFQ as a leaf scheduler for two players.

use super::pair;
use super::player::Player;
use super::{Experiment, Lab, Outcome};
use crate::figure::Series;
use crate::machine::Session;
use crate::manifest::Target;
use crate::scene::{Scene, WARM_UP};
use crate::sys;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "osdi96-10",
    source: "OSDI'96, figure 10",
    title: "Two MPEG players of weight 5 and 10 in one SFQ leaf",
    says: "The player of weight 10 decodes twice as many frames as the one of weight 5 in any \
           interval of time.",
    cpus: 1,
    seconds: 70,
    run,
};

const CLASS: &str = "/sfq-1";
/// Ten times the figure's: a weight of 100 is that of nice 0.
const WEIGHTS: [u32; 2] = [50, 100];
const STEP: Duration = Duration::from_millis(500);
/// Steps of the intervals over which the ratio is judged: 5 s.
const WINDOW: usize = 10;
/// Turns in which the reports of both players are read.
const TURN_NS: u64 = 5_000_000;

/// Frames of both players, at every step.
type Frames = Vec<[f64; 2]>;

fn follow(players: &mut [Player; 2], end_ns: u64) -> Result<()> {
    while sys::now_ns() < end_ns {
        for player in players.iter_mut() {
            player.follow(sys::now_ns() + TURN_NS)?;
        }
    }
    Ok(())
}

fn record(session: &Session, steps: usize) -> Result<Frames> {
    let mut scene = Scene::new(session)?;
    scene.class_with_leaf(CLASS, 100, "sfq")?;
    let start = || Player::start_decoding(scene.classes(), CLASS);
    let mut players = [start()?, start()?];
    for (player, weight) in players.iter_mut().zip(WEIGHTS) {
        // All its threads are there once it shows frames.
        player.playing()?;
        scene
            .classes()
            .set_thread_weights(CLASS, player.pid(), weight)?;
    }
    follow(&mut players, sys::now_ns() + WARM_UP.as_nanos() as u64)?;
    let begin_ns = sys::now_ns();
    let at = |step: usize| begin_ns + step as u64 * STEP.as_nanos() as u64;
    // One more report of each, to tell the frames at the end from.
    follow(&mut players, at(steps + 1))?;
    let frames = |step| [0, 1].map(|p: usize| players[p].frames_at(at(step)));
    Ok((0..=steps).map(frames).collect())
}

fn ratio(from: &[f64; 2], to: &[f64; 2]) -> f64 {
    (to[1] - from[1]) / (to[0] - from[0])
}

/// The furthest that any window is from 2, in percent.
fn furthest(frames: &Frames) -> f64 {
    let windows = frames.windows(WINDOW + 1);
    let errors = windows.map(|w| 100.0 * (ratio(&w[0], &w[WINDOW]) / 2.0 - 1.0).abs());
    errors.fold(0.0, f64::max)
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(15, 60);
    let steps = (length.as_millis() / STEP.as_millis()) as usize;
    let sides = lab.every_side(|session| {
        lab.say(&format!("{}: two players", session.side()));
        record(session, steps)
    })?;
    let mut table = Table::new(&["side", "time_s", "weight_5_frames", "weight_10_frames"]);
    let mut series = Vec::new();
    for (side, frames) in sides.iter() {
        let time = |step: usize| step as f64 * STEP.as_secs_f64();
        let since = |step: usize, player: usize| frames[step][player] - frames[0][player];
        for step in 0..frames.len() {
            table.push(vec![
                side.to_string().into(),
                time(step).into(),
                since(step, 0).into(),
                since(step, 1).into(),
            ]);
        }
        for (player, name) in [(1, "weight 10"), (0, "weight 5")] {
            let points = (0..frames.len()).map(|step| (time(step), since(step, player)));
            let name = format!("{name}, {}", side.label());
            let colour = side.colour() + 3 * player;
            series.push(Series::new(&name, colour, side.dashed(), points.collect()));
        }
    }
    let whole = |frames: &Frames| ratio(&frames[0], &frames[frames.len() - 1]);
    Ok(Outcome {
        table,
        figure: pair::figure(&EXPERIMENT, "frames decoded", series),
        claims: vec![
            sides.claim(
                "furthest from 1:2 in any 5 s",
                "%",
                Target::AtMost(2.0),
                furthest,
            ),
            sides.claim("ratio of the frames", "", Target::Within(1.96, 2.04), whole),
        ],
        scale: format!(
            "{} s of virtual time after a warm-up. ffmpeg decodes MPEG-1 of 1.5 Mbit/s as fast as it can; all \
             threads of a player have its weight. Other schedulers than QLinux get the nice values 3 and 0, whose \
             weights are in the ratio 1:1.95.",
            length.as_secs()
        ),
    })
}
