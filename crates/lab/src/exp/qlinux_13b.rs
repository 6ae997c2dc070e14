// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 13(b): what a packet costs, by the depth of the hierarchy and the number of classes.

use super::{link, Compared, Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::Target;
use crate::net::{self, NetScene, Plan, Tree};
use crate::sys;
use crate::table::Table;
use anyhow::{ensure, Context, Result};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-13b",
    source: "QLinux, figure 13(b)",
    title: "Cost of a packet by depth and number of classes",
    says: "The bandwidth received by a sender as fast as possible is relatively unaffected by the depth of the \
           scheduling hierarchy.",
    cpus: 1,
    seconds: 100,
    run,
};

/// Nodes on the path of the one class, itself among them. HTB ends at seven below its root.
const DEPTHS: [usize; 7] = [1, 2, 4, 7, 8, 16, 30];
const COUNTS: [usize; 2] = [10, 1000];
/// Where HTB was not run: what it took with so many classes when it was.
const HTB_US: [f64; 2] = [2.816, 3.418];
/// What a packet may cost with most classes, in terms of its cost with the fewest.
const GROWTH: f64 = 1.3;
/// The paper's finding, as a number: percent of the throughput.
const CHANGE: f64 = 5.0;
/// Packets of a round; the last of five counts.
const PACKETS: f64 = 20_000.0;
/// A round takes a fifth of a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Nanoseconds for a packet of the last round, system call, qdisc and veth together.
fn blast(scene: &mut NetScene, path: &str, args: &[&str]) -> Result<f64> {
    let index = scene.start(path, "blast", args)?;
    scene.scene.begun()?;
    let limit = sys::now_ns() + LIMIT.as_nanos() as u64;
    let counter = scene.scene.workers[index].counter()?;
    while counter.log_len() < 5 {
        ensure!(sys::now_ns() < limit, "the sender did not end its rounds");
        sys::sleep(Duration::from_millis(50));
    }
    let rounds = counter.log_from(0);
    let last = rounds.last().context("the sender noted no round")?;
    Ok(*last as f64 / PACKETS)
}

/// One class below `depth - 1` others.
fn chain(depth: usize) -> Tree {
    let paths: Vec<String> = (1..=depth).map(|d| "/n".repeat(d)).collect();
    Tree::new(paths.iter().map(|path| (path.as_str(), 100)))
}

fn plan(tree: Tree) -> Plan {
    Plan {
        rate: None,
        gso: false,
        tree,
        tap: false,
        trace: false,
    }
}

fn at_depth(session: &Session, side: Side, depth: usize) -> Result<Option<f64>> {
    let tree = chain(depth);
    if net::unable(side, &tree).is_some() {
        return Ok(None);
    }
    let mut scene = NetScene::new(session, side, &plan(tree))?;
    blast(&mut scene, &"/n".repeat(depth), &[]).map(Some)
}

/// Packets go to each class in turn.
fn among(session: &Session, side: Side, count: usize) -> Result<f64> {
    let mut scene = NetScene::new(session, side, &plan(Tree::flat(&vec![100; count])))?;
    let cgroups = scene.scene.classes().dir("/").display().to_string();
    let sockets = count.to_string();
    let args = ["--sockets", &sockets, "--cgroups", &cgroups];
    blast(&mut scene, "/c0", &args)
}

/// Nanoseconds for a packet on one side.
struct Found {
    depths: Vec<Option<f64>>,
    /// Empty where only depths were asked for.
    counts: Vec<f64>,
}

impl Found {
    /// How much less throughput there is at depth 8 than at depth 1, in percent.
    fn change(&self) -> Option<f64> {
        let at = |depth| self.depths[DEPTHS.iter().position(|&d| d == depth)?];
        Some(100.0 * (1.0 - at(1)? / at(8)?).abs())
    }
}

/// Without any qdisc: what a packet costs anyway.
fn baseline(lab: &Lab) -> Result<f64> {
    let session = Session::enter(Side::Stock)?;
    let mut scene = NetScene::bare(&session, &plan(Tree::flat(&[100])))?;
    let found = blast(&mut scene, "/c0", &[])?;
    lab.say(&format!("without a qdisc: {found:.0} ns a packet"));
    Ok(found)
}

fn table(sides: &Compared<Found>, bare: f64) -> Table {
    let mut table = Table::new(&["side", "classes", "depth", "packet_ns", "over_noqueue_ns"]);
    for (side, found) in sides.iter() {
        let depths = DEPTHS.iter().zip(&found.depths);
        let rows = depths.filter_map(|(&depth, ns)| Some((1, depth, (*ns)?)));
        let flat = COUNTS.iter().zip(&found.counts);
        for (classes, depth, ns) in rows.chain(flat.map(|(&count, &ns)| (count, 1, ns))) {
            table.push(vec![
                side.to_string().into(),
                classes.into(),
                depth.into(),
                ns.into(),
                (ns - bare).into(),
            ]);
        }
    }
    table.push(vec![
        "noqueue".into(),
        0u32.into(),
        0u32.into(),
        bare.into(),
        0.0.into(),
    ]);
    table
}

fn measure(lab: &Lab, session: &Session, side: Side) -> Result<Found> {
    let depth = |&depth: &usize| {
        let flat = matches!(side, Side::Fifo | Side::Cake);
        // Where there are no classes depth is nothing.
        match depth {
            1 => at_depth(session, side, 1),
            _ if flat => Ok(None),
            depth => at_depth(session, side, depth),
        }
    };
    let found = Found {
        depths: DEPTHS.iter().map(depth).collect::<Result<_>>()?,
        counts: COUNTS
            .iter()
            .filter(|_| lab.wants("classes"))
            .map(|&count| among(session, side, count))
            .collect::<Result<_>>()?,
    };
    lab.say(&format!(
        "{side}: depths {DEPTHS:?}: {:.0?} ns; {COUNTS:?} classes: {:.0?} ns",
        found.depths, found.counts
    ));
    Ok(found)
}

fn run(lab: &Lab) -> Result<Outcome> {
    let bare = baseline(lab)?;
    let sides = lab.on_links(&link::ALL, |session, side| measure(lab, session, side))?;
    let us = |ns: f64| Some((ns - bare) / 1000.0);
    let mut claims = vec![sides.claim(
        "change of the throughput, depth 1 to 8",
        "%",
        Target::AtMost(CHANGE),
        Found::change,
    )];
    for (index, count) in COUNTS.iter().enumerate().filter(|_| lab.wants("classes")) {
        let over = |found: &Found| us(*found.counts.get(index)?);
        let limit = sides.of(Side::Htb).and_then(over).unwrap_or(HTB_US[index]);
        let text = format!("over no qdisc, {count} classes, at most HTB's");
        claims.push(sides.claim(&text, "µs", Target::AtMost(limit), over));
    }
    if lab.wants("classes") {
        let growth = |found: &Found| Some(us(*found.counts.last()?)? / us(*found.counts.first()?)?);
        claims.push(sides.claim(
            "over no qdisc, 1000 classes in terms of 10",
            "",
            Target::AtMost(GROWTH),
            growth,
        ));
    }
    let series = sides.iter().map(|(side, found)| {
        let points = DEPTHS.iter().zip(&found.depths);
        let points = points.filter_map(|(&depth, ns)| Some((depth as f64, us((*ns)?)?)));
        Series::new(side.label(), side.colour(), side.dashed(), points.collect())
    });
    Ok(Outcome {
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "nodes from the root to the class".into(),
            y: "time of a packet over no qdisc (µs)".into(),
            shape: Shape::Lines { marks: true },
            series: series.collect(),
        },
        table: table(&sides, bare),
        claims,
        scale: "The last of five rounds of 20,000 UDP packets of 200 bytes over connected sockets, on a link without a rate; 1 µs \
                is 500 instructions. The paper counts what is sent in a fixed time. Classes are chosen by the socket's \
                cgroup (QLinux) or a filter by mark, and shape nothing."
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_one_leaf() {
        let tree = chain(3);
        assert_eq!(tree.depth(), 3);
        assert_eq!(tree.leaves().collect::<Vec<_>>(), [2]);
    }
}
