// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments, one file each, and what they have in common.

mod bounds;
mod cyclictest;
mod depth;
mod disk;
mod disk_groups;
mod disk_idle;
mod disk_latency;
mod disk_promise;
mod inversion;
mod latency;
mod link;
mod link_bounds;
mod link_shares;
mod link_sparse;
mod link_wake;
mod osdi96_10;
mod osdi96_11;
mod osdi96_5;
mod osdi96_7a;
mod osdi96_7b;
mod osdi96_8a;
mod osdi96_8b;
mod osdi96_9;
mod pair;
mod player;
mod price;
mod qlinux_10;
mod qlinux_11;
mod qlinux_12;
mod qlinux_13a;
mod qlinux_13b;
mod qlinux_5a;
mod qlinux_5b;
mod qlinux_5c;
mod qlinux_6a;
mod qlinux_6b;
mod qlinux_7a;
mod qlinux_7b;
mod qlinux_8;
mod qlinux_9a;
mod qlinux_9b;
mod shares;
mod stream;
mod table4;
mod wake;

use crate::figure::Figure;
use crate::machine::{self, Session, Side};
use crate::manifest::{self, Claim, Manifest, Target};
use crate::table::Table;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// An experiment.
pub struct Experiment {
    /// `qlinux lab run NAME`
    pub name: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// One line.
    pub title: &'static str,
    /// The claim.
    pub says: &'static str,
    /// Processors it is meant for.
    pub cpus: usize,
    /// Seconds of virtual time it takes, about.
    pub seconds: u32,
    /// Does it.
    pub run: fn(&Lab) -> Result<Outcome>,
}

/// All experiments, in the order of the papers.
pub const ALL: &[Experiment] = &[
    qlinux_5a::EXPERIMENT,
    qlinux_5b::EXPERIMENT,
    qlinux_5c::EXPERIMENT,
    qlinux_6a::EXPERIMENT,
    qlinux_6b::EXPERIMENT,
    qlinux_7a::EXPERIMENT,
    qlinux_7b::EXPERIMENT,
    qlinux_8::EXPERIMENT,
    qlinux_9a::EXPERIMENT,
    qlinux_9b::EXPERIMENT,
    qlinux_10::EXPERIMENT,
    qlinux_11::EXPERIMENT,
    qlinux_12::EXPERIMENT,
    qlinux_13a::EXPERIMENT,
    qlinux_13b::EXPERIMENT,
    table4::EXPERIMENT,
    price::EXPERIMENT,
    price::SEVERAL,
    price::DOMAINS,
    osdi96_5::EXPERIMENT,
    osdi96_7a::EXPERIMENT,
    osdi96_7b::EXPERIMENT,
    osdi96_8a::EXPERIMENT,
    osdi96_8b::EXPERIMENT,
    osdi96_9::EXPERIMENT,
    osdi96_10::EXPERIMENT,
    osdi96_11::EXPERIMENT,
    shares::EXPERIMENT,
    shares::SEVERAL,
    shares::EIGHT,
    bounds::EXPERIMENT,
    bounds::FOUR,
    bounds::EIGHT,
    bounds::DOMAINS,
    latency::EXPERIMENT,
    wake::EXPERIMENT,
    wake::TWO,
    wake::FOUR,
    wake::EIGHT,
    cyclictest::EXPERIMENT,
    inversion::EXPERIMENT,
    link_shares::EXPERIMENT,
    link_bounds::EXPERIMENT,
    link_wake::EXPERIMENT,
    link_sparse::EXPERIMENT,
    disk_groups::EXPERIMENT,
    disk_latency::EXPERIMENT,
    disk_idle::EXPERIMENT,
    disk_promise::EXPERIMENT,
];

/// The experiment of that name.
pub fn find(name: &str) -> Result<&'static Experiment> {
    let all = || ALL.iter().map(|e| e.name).collect::<Vec<_>>().join(", ");
    ALL.iter()
        .find(|experiment| experiment.name == name)
        .with_context(|| format!("experiment {name} is unknown: there are {}", all()))
}

/// What an experiment found.
pub struct Outcome {
    /// All numbers.
    pub table: Table,
    /// The picture.
    pub figure: Figure,
    /// The numbers that matter, judged.
    pub claims: Vec<Claim>,
    /// How the run differs from the paper's.
    pub scale: String,
}

/// What an experiment is given.
pub struct Lab {
    /// Of random choices.
    pub seed: u64,
    /// Take the paper's durations rather than ones that suffice.
    pub full: bool,
    /// The one side to run; without it each experiment runs its own choice of sides.
    pub side: Option<Side>,
    /// Run only the cases whose name contains this, where an experiment has several.
    pub only: Option<String>,
    /// Revision of the sources, for the manifest.
    pub revision: String,
    name: &'static str,
    begun_ns: u64,
}

impl Lab {
    /// A lab for one experiment.
    pub fn new(seed: u64, full: bool, side: Option<Side>, revision: String) -> Lab {
        Lab {
            seed,
            full,
            side,
            only: None,
            revision,
            name: "",
            begun_ns: crate::sys::now_ns(),
        }
    }

    /// `short`, or `long` with --full.
    pub fn seconds(&self, short: u64, long: u64) -> Duration {
        Duration::from_secs(if self.full { long } else { short })
    }

    /// Is the case of this name asked for?
    pub fn wants(&self, case: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|part| case.contains(part.as_str()))
    }

    /// Shows progress.
    pub fn say(&self, text: &str) {
        let seconds = (crate::sys::now_ns() - self.begun_ns) / 1_000_000_000;
        eprintln!("{}: [{seconds:3} s] {text}", self.name);
    }

    /// Is this side asked for?
    pub fn wants_side(&self, side: Side) -> bool {
        self.side.is_none_or(|one| one == side)
    }

    /// Runs `part` under the stock kernel and under QLinux and returns what it found.
    pub fn each_side<T>(&self, part: impl Fn(&Session) -> Result<T>) -> Result<Sides<T>> {
        self.each_side_with(&[], part)
    }

    /// Likewise, with more arguments for `qlinux up cpu`.
    pub fn each_side_with<T>(
        &self,
        options: &[&str],
        part: impl Fn(&Session) -> Result<T>,
    ) -> Result<Sides<T>> {
        self.on(&[Side::Stock, Side::Qlinux], options, part)
    }

    /// Likewise under the peer too, if there is one.
    pub fn every_side<T>(&self, part: impl Fn(&Session) -> Result<T>) -> Result<Sides<T>> {
        self.on(&[Side::Stock, Side::Flatcg, Side::Qlinux], &[], part)
    }

    fn on<T>(
        &self,
        usual: &[Side],
        options: &[&str],
        part: impl Fn(&Session) -> Result<T>,
    ) -> Result<Sides<T>> {
        let mut found = Sides {
            stock: None,
            flatcg: None,
            qlinux: None,
        };
        for &side in self.side.as_ref().map_or(usual, std::slice::from_ref) {
            if let Some(reason) = machine::missing(side) {
                self.say(&reason);
                continue;
            }
            let session = Session::enter_with(side, options)?;
            let result = Some(part(&session)?);
            session.check()?;
            match side {
                Side::Stock => found.stock = result,
                Side::Flatcg => found.flatcg = result,
                _ => found.qlinux = result,
            }
        }
        Ok(found)
    }

    /// Runs `part` with a link on each of `usual` sides, and under the stock scheduler of the CPU.
    pub fn on_links<T>(
        &self,
        usual: &[Side],
        part: impl Fn(&Session, Side) -> Result<T>,
    ) -> Result<Compared<T>> {
        self.compare(usual, Side::Fifo, part)
    }

    /// Runs `part` with a disk on each of `usual` sides, and under the stock scheduler of the CPU.
    pub fn on_disks<T>(
        &self,
        usual: &[Side],
        part: impl Fn(&Session, Side) -> Result<T>,
    ) -> Result<Compared<T>> {
        self.compare(usual, Side::MqDeadline, part)
    }

    /// Of the sides that a link or a disk can be on, `stock` is the kernel as it comes.
    fn compare<T>(
        &self,
        usual: &[Side],
        stock: Side,
        part: impl Fn(&Session, Side) -> Result<T>,
    ) -> Result<Compared<T>> {
        let session = Session::enter(Side::Stock)?;
        let wanted = |side: &&Side| match self.side {
            Some(Side::Stock) => **side == stock,
            Some(one) => **side == one,
            None => true,
        };
        let mut found = Vec::new();
        for &side in usual.iter().filter(wanted) {
            found.push((side, part(&session, side)?));
        }
        session.check()?;
        Ok(Compared(found))
    }

    /// Runs an experiment and writes data, figure and manifest into `folder`.
    pub fn run(&mut self, experiment: &Experiment, folder: &Path) -> Result<Manifest> {
        self.name = experiment.name;
        self.begun_ns = crate::sys::now_ns();
        crate::sys::become_real_time()?;
        crate::sys::wake_exactly();
        let outcome = (experiment.run)(self).with_context(|| experiment.name)?;
        let manifest = Manifest {
            name: experiment.name.to_owned(),
            source: experiment.source.to_owned(),
            title: experiment.title.to_owned(),
            says: experiment.says.to_owned(),
            scale: outcome.scale,
            passed: outcome.claims.iter().all(|claim| claim.passed),
            claims: outcome.claims,
            seed: self.seed,
            full: self.full,
            cpus: manifest::cpus(),
            deterministic: manifest::deterministic(),
            kernel: manifest::kernel_release(),
            revision: self.revision.clone(),
            versions: manifest::versions(),
        };
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
        };
        fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        write("data.csv", outcome.table.to_csv()?)?;
        write("figure.svg", outcome.figure.svg()?)?;
        write(
            "manifest.json",
            serde_json::to_string_pretty(&manifest)? + "\n",
        )?;
        Ok(manifest)
    }
}

/// The value that the given part of all, which are in ascending order, does not exceed.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    let value = sorted.get((last * part).ceil() as usize);
    value.copied().unwrap_or(f64::NAN)
}

/// Results of the sides, as far as they were run.
pub struct Sides<T> {
    /// Of the stock kernel.
    pub stock: Option<T>,
    /// Of the peer.
    pub flatcg: Option<T>,
    /// Of QLinux.
    pub qlinux: Option<T>,
}

impl<T> Sides<T> {
    /// Those there are, the stock kernel's first.
    pub fn iter(&self) -> impl Iterator<Item = (Side, &T)> {
        let all = [
            (Side::Stock, &self.stock),
            (Side::Flatcg, &self.flatcg),
            (Side::Qlinux, &self.qlinux),
        ];
        all.into_iter()
            .filter_map(|(side, found)| Some((side, found.as_ref()?)))
    }

    /// A claim about QLinux's value, with the others' beside it.
    pub fn claim(
        &self,
        text: &str,
        unit: &str,
        target: Target,
        value: impl Fn(&T) -> f64,
    ) -> Claim {
        let of = |found: &Option<T>| found.as_ref().map(&value);
        Claim::new(text, unit, target, of(&self.qlinux))
            .stock(of(&self.stock))
            .flatcg(of(&self.flatcg))
    }

    /// A value of each side: QLinux's, then the stock kernel's.
    pub fn both(&self, value: impl Fn(&T) -> f64) -> (Option<f64>, Option<f64>) {
        (
            self.qlinux.as_ref().map(&value),
            self.stock.as_ref().map(&value),
        )
    }
}

/// Results of a link's sides or a disk's, as far as they were run.
pub struct Compared<T>(Vec<(Side, T)>);

impl<T> Compared<T> {
    /// Those there are.
    pub fn iter(&self) -> impl Iterator<Item = (Side, &T)> {
        self.0.iter().map(|(side, found)| (*side, found))
    }

    /// What was found on one side.
    pub fn of(&self, side: Side) -> Option<&T> {
        let one = self.iter().find(|(other, _)| *other == side);
        one.map(|(_, found)| found)
    }

    /// A claim about QLinux's value, with the others' beside it; a FIFO and mq-deadline are the stock kernel's. A
    /// side has no value where it cannot do what is asked.
    pub fn claim(
        &self,
        text: &str,
        unit: &str,
        target: Target,
        value: impl Fn(&T) -> Option<f64>,
    ) -> Claim {
        let own = self.of(Side::Qlinux).and_then(&value);
        let mut claim = Claim::new(text, unit, target, own);
        for (side, found) in self.iter() {
            let value = value(found);
            claim = match (side, value) {
                (Side::Qlinux, _) => claim,
                (Side::Fifo | Side::MqDeadline, _) => claim.stock(value),
                (_, Some(value)) => claim.peer(side.label(), value),
                (_, None) => claim,
            };
        }
        claim
    }
}

/// Results of several ways to divide the whole machine, as far as they were run.
pub struct Layouts<'a, L, T> {
    /// All.
    pub found: &'a [(L, T)],
    /// QLinux's.
    pub own: L,
    /// The stock kernel's.
    pub stock: L,
    /// Another, and its name.
    pub peer: (L, &'static str),
}

impl<L: Copy + PartialEq, T> Layouts<'_, L, T> {
    /// What was found of one.
    pub fn of(&self, layout: L) -> Option<&T> {
        let all = self.found.iter();
        all.filter(|(one, _)| *one == layout)
            .map(|(_, found)| found)
            .next()
    }

    /// A claim about QLinux's value, with the others' beside it.
    pub fn claim(
        &self,
        text: &str,
        unit: &str,
        target: Target,
        value: impl Fn(&T) -> Option<f64>,
    ) -> Claim {
        let of = |layout| self.of(layout).and_then(&value);
        let claim = Claim::new(text, unit, target, of(self.own)).stock(of(self.stock));
        let (peer, name) = self.peer;
        match of(peer) {
            Some(value) => claim.peer(name, value),
            None => claim,
        }
    }
}

impl Side {
    /// What QLinux is compared with is drawn dashed.
    fn dashed(self) -> bool {
        self != Side::Qlinux
    }

    /// Where a side has a colour of its own.
    fn colour(self) -> usize {
        match self {
            Side::Qlinux => 0,
            Side::Stock | Side::Fifo | Side::MqDeadline => 1,
            Side::Flatcg | Side::Htb | Side::Bfq => 2,
            Side::Hfsc | Side::FqCodel | Side::Kyber => 3,
            Side::Drr | Side::Unscheduled => 4,
            Side::Cake => 5,
        }
    }

    /// As legends name it.
    fn label(self) -> &'static str {
        match self {
            Side::Stock => "stock Linux",
            Side::Flatcg => "scx_flatcg",
            Side::Qlinux => "QLinux",
            Side::Fifo => "FIFO",
            Side::Htb => "HTB",
            Side::Hfsc => "HFSC",
            Side::Drr => "DRR",
            Side::Cake => "CAKE",
            Side::FqCodel => "HTB, fq_codel",
            Side::Unscheduled => "no scheduler",
            Side::MqDeadline => "mq-deadline",
            Side::Kyber => "Kyber",
            Side::Bfq => "BFQ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let all: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&all, 0.5), 51.0);
        assert_eq!(quantile(&all, 0.99), 100.0);
        assert_eq!(quantile(&all, 1.0), 100.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn names_are_unique_and_found() {
        for experiment in ALL {
            assert_eq!(find(experiment.name).unwrap().title, experiment.title);
            assert_eq!(ALL.iter().filter(|e| e.name == experiment.name).count(), 1);
        }
        let error = find("qlinux-9z").err().unwrap().to_string();
        assert!(error.contains("qlinux-5a"), "{error}");
    }
}
