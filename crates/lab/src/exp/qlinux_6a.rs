// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 6(a): a film against busy programs.

use super::player::Player;
use super::{Experiment, Lab, Outcome, Sides};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::{Claim, Target};
use crate::scene::{Scene, WARM_UP};
use crate::sys;
use crate::table::Table;
use anyhow::Result;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-6a",
    source: "QLinux, figure 6(a)",
    title: "A film against busy programs",
    says: "The CPU bandwidth an MPEG player receives in a class of its own does not depend on \
           the load in the best-effort class of equal weight; under plain Linux the player \
           degrades like everything else as the load increases.",
    cpus: 1,
    seconds: 110,
    run,
};

/// Competitors of the last point, which the claims are about.
const MOST: usize = 10;

/// What was seen beside that many competitors.
struct Point {
    competitors: usize,
    rate: f64,
    /// Processors the player had.
    used: f64,
}

/// How the processes are put into classes.
#[derive(Clone, Copy)]
enum Layout {
    /// All in one: a machine that nobody divided.
    Flat,
    /// Player and competitors in classes of equal weight.
    Classes,
}

fn point(session: &Session, layout: Layout, competitors: usize, length: Duration) -> Result<Point> {
    let mut scene = Scene::new(session)?;
    let (player, others) = match layout {
        Layout::Flat => {
            scene.class("/all", 100)?;
            ("/all", "/all")
        }
        Layout::Classes => {
            scene.class_with_leaf("/soft-real-time", 100, "sfq")?;
            scene.class_with_leaf("/best-effort", 100, "ts")?;
            ("/soft-real-time", "/best-effort")
        }
    };
    let mut film = Player::start(scene.classes(), player)?;
    film.playing()?;
    for _ in 0..competitors {
        scene.start(others, "dhry", &[])?;
    }
    scene.begun()?;
    film.follow(sys::now_ns() + WARM_UP.as_nanos() as u64)?;
    let before = scene.sample()?;
    film.follow(before.time_ns + length.as_nanos() as u64)?;
    let after = scene.sample()?;
    Ok(Point {
        competitors,
        rate: film.rate(before.time_ns),
        used: after.used(&before, player) / after.since(&before),
    })
}

/// Each layout of a side, by the name it has in the legend.
fn layouts(side: Side) -> &'static [(&'static str, Layout)] {
    match side {
        Side::Stock => &[
            ("stock Linux", Layout::Flat),
            ("stock Linux, the same cgroups", Layout::Classes),
        ],
        Side::Flatcg => &[("scx_flatcg", Layout::Classes)],
        _ => &[("QLinux", Layout::Classes)],
    }
}

/// Numbers of competitors. The curve that is flat and beside the point gets fewer.
fn loads(lab: &Lab, side: Side, layout: Layout) -> Vec<usize> {
    match (lab.full, side, layout) {
        (true, ..) => (0..=MOST).collect(),
        (_, Side::Stock, Layout::Classes) => vec![0, 5, MOST],
        _ => vec![0, 2, 4, 7, MOST],
    }
}

type Curves = Vec<(&'static str, Vec<Point>)>;

fn curves(lab: &Lab, session: &Session) -> Result<Curves> {
    let length = lab.seconds(5, 30);
    let mut curves = Vec::new();
    for (name, layout) in layouts(session.side()) {
        let mut points = Vec::new();
        for load in loads(lab, session.side(), *layout) {
            let found = point(session, *layout, load, length)?;
            lab.say(&format!(
                "{name}, {load} competitors: {:.1} frames/s",
                found.rate
            ));
            points.push(found);
        }
        curves.push((*name, points));
    }
    Ok(curves)
}

fn run(lab: &Lab) -> Result<Outcome> {
    let sides = lab.each_side(|session| curves(lab, session))?;
    let mut table = Table::new(&[
        "side",
        "layout",
        "competitors",
        "frames_per_s",
        "player_cpus",
    ]);
    let mut series = Vec::new();
    for (side, curves) in sides.iter() {
        for (name, points) in curves {
            for point in points {
                table.push(vec![
                    side.to_string().into(),
                    (*name).into(),
                    point.competitors.into(),
                    point.rate.into(),
                    point.used.into(),
                ]);
            }
            let line = points.iter().map(|p| (p.competitors as f64, p.rate));
            let colour = match (side, *name) {
                (Side::Stock, "stock Linux, the same cgroups") => 4,
                _ => side.colour(),
            };
            series.push(Series::new(name, colour, side.dashed(), line.collect()));
        }
    }
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "Dhrystone-like competitors".into(),
            y: "frames per second".into(),
            shape: Shape::Lines { marks: true },
            series,
        },
        claims: claims(&sides),
        scale: format!(
            "{} s of virtual time for each point after a warm-up; the paper plays a clip of five \
             minutes on a machine of 1999. The player (ffmpeg) decodes MPEG-1 of 1.5 Mbit/s to true \
             colour at twice its size, which takes a third of this guest's processor at 25 frames/s.",
            lab.seconds(5, 30).as_secs()
        ),
    })
}

/// Rate of the first curve of a side beside `competitors`.
fn rate(curves: &Curves, competitors: usize) -> f64 {
    let points = &curves[0].1;
    let point = points.iter().find(|p| p.competitors == competitors);
    point.map_or(f64::NAN, |p| p.rate)
}

fn claims(sides: &Sides<Curves>) -> Vec<Claim> {
    let alone = sides.both(|curves| rate(curves, 0));
    let loaded = sides.both(|curves| rate(curves, MOST));
    let held = sides.both(|curves| 100.0 * rate(curves, MOST) / rate(curves, 0));
    vec![
        Claim::new("unloaded", "frames/s", Target::AtLeast(24.5), alone.0).stock(alone.1),
        Claim::new(
            "with 10 competitors",
            "frames/s",
            Target::AtLeast(24.0),
            loaded.0,
        )
        .stock(loaded.1),
        Claim::new(
            "held with 10 competitors",
            "%",
            Target::AtLeast(98.0),
            held.0,
        )
        .stock(held.1),
    ]
}
