// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux lab`: list, run, demo and report.

use crate::exp::{self, Experiment, Lab};
use crate::machine::Side;
use crate::manifest::{show, Manifest};
use crate::{guest, report};
use anyhow::{anyhow, Context, Result};
use clap::{Args, Subcommand};
use qlinux_core::sim;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The papers' experiments, with figures.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// List the experiments
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run experiments: data, figure and manifest of each are written to a folder
    Run(RunArgs),
    /// Play a film against ten busy programs, stock kernel and QLinux, and say what was seen
    Demo {
        /// Folder of the results [default: target/demo in a checkout, else ./results]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Simulate a workload file; status 1 if a bound of SFQ is violated
    #[command(after_help = SIM_HELP)]
    Sim(SimArgs),
    /// Write the page of all results anew; `run` and `demo` do so by themselves
    Report {
        /// Folder of the results
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

const SIM_HELP: &str = "\
The file names classes, threads and events: see docs/simulator.md. The summary (JSON) has the
service of every class and thread, and how close each bound of SFQ was approached.

Example, WORKLOAD being
  duration = \"1s\"
  class = [{ path = \"/a\", weight = 1, leaf = \"ts\" }, { path = \"/b\", weight = 3, leaf = \"ts\" }]
  thread = [{ class = \"/a\" }, { class = \"/b\" }]:
  qlinux lab sim --trace quanta.csv WORKLOAD";

/// What `qlinux lab sim` takes.
#[derive(Args, Debug)]
pub struct SimArgs {
    /// The workload file
    workload: PathBuf,
    /// Let the reference model decide in place of the scheduler's own code
    #[arg(long)]
    model: bool,
    /// Write a line for each quantum, wake-up and departure to this file (CSV)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the summary to this file rather than print it
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Seed of everything random, in place of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// What `qlinux lab run` takes.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Experiments, as `qlinux lab list` names them
    #[arg(required_unless_present = "all", value_name = "NAME")]
    names: Vec<String>,
    /// Run all of them
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Folder of the results [default: docs/results in a checkout, else ./results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of random choices
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Processors of the guest [default: what each experiment is meant for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Option<u32>,
    /// Take the papers' durations and more points
    #[arg(long)]
    full: bool,
    /// Run one side only; its claims alone are judged
    #[arg(long, value_name = "SIDE")]
    side: Option<Side>,
    /// Of shares, measure only the trees whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print the manifests as JSON
    #[arg(long)]
    json: bool,
    /// Run on this machine, as root, rather than in the guest
    #[arg(long)]
    here: bool,
    /// Revision to note in the manifests
    #[arg(long, hide = true)]
    revision: Option<String>,
}

/// Does what `command` says. Status 1: done, but a claim was missed.
pub fn main(command: LabCommand) -> Result<ExitCode> {
    match command {
        LabCommand::List { json } => list(json),
        LabCommand::Run(args) => run(&args),
        LabCommand::Demo { out } => demo(out),
        LabCommand::Sim(args) => simulate(args),
        LabCommand::Report { out } => {
            println!("{}", report::write(&results(out))?.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Where results go: those that are published with the sources.
fn results(out: Option<PathBuf>) -> PathBuf {
    out.unwrap_or_else(|| below_checkout("docs/results", guest::checkout()))
}

/// Where those of the demo go: who looks at it has a checkout that is as it was.
fn demo_results(out: Option<PathBuf>) -> PathBuf {
    out.unwrap_or_else(|| below_checkout("target/demo", guest::checkout()))
}

fn below_checkout(folder: &str, checkout: Option<PathBuf>) -> PathBuf {
    match checkout {
        Some(dir) => dir.join(folder),
        None => "results".into(),
    }
}

fn list(json: bool) -> Result<ExitCode> {
    if json {
        let entry = |e: &Experiment| {
            serde_json::json!({
                "name": e.name, "source": e.source, "title": e.title, "says": e.says, "cpus": e.cpus,
            })
        };
        let all: Vec<_> = exp::ALL.iter().map(entry).collect();
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        for e in exp::ALL {
            println!("{:<12} {:<24} {}", e.name, e.source, e.title);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn simulate(args: SimArgs) -> Result<ExitCode> {
    let summary = sim::simulate(&sim::Request {
        workload: args.workload,
        model: args.model,
        trace: args.trace,
        summary: args.summary,
        seed: args.seed,
    })
    .map_err(|e| anyhow!("{e}"))?; // its words hold the cause already
    for violation in &summary.bounds.violations {
        eprintln!("qlinux: {violation}");
    }
    let kept = summary.bounds.violations.is_empty();
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn chosen(args: &RunArgs) -> Result<Vec<&'static Experiment>> {
    if args.all {
        return Ok(exp::ALL.iter().collect());
    }
    args.names.iter().map(|name| exp::find(name)).collect()
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let chosen = chosen(args)?;
    let out = results(args.out.clone());
    let manifests = if args.here || guest::inside() {
        run_here(args, &chosen, &out)?
    } else {
        run_in_guest(args, &chosen, &out)?
    };
    if args.out.is_none() {
        report::write(&out)?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&manifests)?);
    } else {
        for manifest in &manifests {
            print_manifest(manifest, &out);
        }
    }
    let passed = manifests.iter().all(|manifest| manifest.passed);
    Ok(ExitCode::from(u8::from(!passed)))
}

fn run_here(args: &RunArgs, chosen: &[&'static Experiment], out: &Path) -> Result<Vec<Manifest>> {
    let revision = args.revision.clone().unwrap_or_else(guest::revision);
    let mut manifests = Vec::new();
    for experiment in chosen {
        let mut lab = Lab::new(args.seed, args.full, args.side, revision.clone());
        lab.only.clone_from(&args.only);
        manifests.push(lab.run(experiment, &out.join(experiment.name))?);
    }
    Ok(manifests)
}

/// The work of each guest, as (processors, names). There are two of every kind
/// asked for, as a guest keeps one processor of this machine busy.
fn boots(args: &RunArgs, chosen: &[&'static Experiment]) -> Vec<(usize, Vec<&'static str>)> {
    let mut longest_first = chosen.to_vec();
    longest_first.sort_by_key(|e| std::cmp::Reverse(e.seconds));
    let mut boots: BTreeMap<usize, [(u32, Vec<&str>); 2]> = BTreeMap::new();
    for e in longest_first {
        let cpus = args.cpus.map_or(e.cpus, |n| n as usize);
        let pair = boots.entry(cpus).or_default();
        let idler = usize::from(pair[1].0 < pair[0].0);
        pair[idler].0 += e.seconds;
        pair[idler].1.push(e.name);
    }
    let all = boots
        .into_iter()
        .flat_map(|(cpus, pair)| pair.map(|(_, names)| (cpus, names)));
    all.filter(|(_, names)| !names.is_empty()).collect()
}

fn run_in_guest(
    args: &RunArgs,
    chosen: &[&'static Experiment],
    out: &Path,
) -> Result<Vec<Manifest>> {
    let revision = args.revision.clone().unwrap_or_else(guest::revision);
    let mut options = vec![
        "--json".to_owned(),
        format!("--seed={}", args.seed),
        format!("--revision={revision}"),
    ];
    if args.full {
        options.push("--full".to_owned());
    }
    if let Some(side) = args.side {
        options.push(format!("--side={side}"));
    }
    if let Some(only) = &args.only {
        options.push(format!("--only={only}"));
    }
    let boots = boots(args, chosen);
    std::thread::scope(|scope| -> Result<()> {
        let start = |(cpus, names): &(usize, Vec<&'static str>)| {
            let (cpus, names, options) = (*cpus, names.clone(), &options);
            scope.spawn(move || guest::run(&names, cpus, options, out))
        };
        let running: Vec<_> = boots.iter().map(start).collect();
        let ended = running.into_iter().map(|boot| boot.join());
        let unwatched = |_| Err(anyhow!("a guest could not be watched"));
        ended
            .map(|end| end.unwrap_or_else(unwatched))
            .try_for_each(|end| end)
    })?;
    let manifest = |e: &&Experiment| report::read(&out.join(e.name).join("manifest.json"));
    chosen.iter().map(manifest).collect()
}

fn print_manifest(manifest: &Manifest, out: &Path) {
    println!("{}: {}", manifest.name, manifest.title);
    for claim in &manifest.claims {
        println!("  {}", claim.line());
    }
    println!(
        "  {}",
        out.join(&manifest.name).join("figure.svg").display()
    );
}

fn demo(given: Option<PathBuf>) -> Result<ExitCode> {
    const NAME: &str = "qlinux-6a";
    let out = demo_results(given.clone());
    let args = RunArgs {
        names: vec![NAME.to_owned()],
        all: false,
        out: Some(out.clone()),
        seed: 1,
        cpus: None,
        full: false,
        side: None,
        only: None,
        json: false,
        here: false,
        revision: None,
    };
    let manifests = if guest::inside() {
        run_here(&args, &chosen(&args)?, &out)?
    } else {
        run_in_guest(&args, &chosen(&args)?, &out)?
    };
    if given.is_none() {
        report::write(&out)?;
    }
    let manifest = manifests.first().context("the demo left no result")?;
    for line in verdict(manifest, &out.join(NAME).join("figure.svg"))? {
        println!("{line}");
    }
    Ok(ExitCode::from(u8::from(!manifest.passed)))
}

/// Five lines about figure 6(a).
fn verdict(manifest: &Manifest, figure: &Path) -> Result<[String; 5]> {
    let [alone, loaded, held] = manifest.claims.as_slice() else {
        anyhow::bail!("{}: three claims were expected", manifest.name);
    };
    let side = |name: &str, of: fn(&crate::manifest::Claim) -> Option<f64>| {
        let value = |claim| of(claim).unwrap_or(f64::NAN);
        format!(
            "{name:<12} {:>5.1} frames/s alone, {:>5.1} beside 10 busy programs: {:.0} % held",
            value(alone),
            value(loaded),
            value(held)
        )
    };
    let measured = held.measured.unwrap_or(f64::NAN);
    Ok([
        format!(
            "{} ({}), kernel {}",
            manifest.title, manifest.source, manifest.kernel
        ),
        side("stock Linux", |claim| claim.stock),
        side("QLinux", |claim| claim.measured),
        format!(
            "verdict: {}, the player holds {} of its unloaded rate (asked {})",
            if manifest.passed { "pass" } else { "FAIL" },
            show(measured, "%"),
            held.target.show("%")
        ),
        format!("picture: {}", figure.display()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::manifest;
    use crate::manifest::{Claim, Target};
    use clap::Parser;

    #[test]
    fn results_are_kept_apart_from_those_of_the_demo() {
        let below = |folder| below_checkout(folder, Some("/checkout".into()));
        assert_eq!(below("target/demo"), PathBuf::from("/checkout/target/demo"));
        assert_eq!(
            below_checkout("target/demo", None),
            PathBuf::from("results")
        );
        let given = Some(PathBuf::from("/x"));
        assert_eq!(
            (results(given.clone()), demo_results(given.clone())),
            ("/x".into(), "/x".into())
        );
        let (published, demo) = (results(None), demo_results(None));
        assert!(
            published != demo && !demo.starts_with(published),
            "{demo:?}"
        );
    }

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: LabCommand,
    }

    #[test]
    fn arguments() {
        assert!(Cli::try_parse_from(["lab", "run"]).is_err());
        assert!(Cli::try_parse_from(["lab", "run", "--all", "shares"]).is_err());
        let parsed = Cli::try_parse_from(["lab", "run", "--side", "stock", "shares"]).unwrap();
        assert!(matches!(parsed.command, LabCommand::Run(_)));
        assert!(Cli::try_parse_from(["lab", "run", "shares", "--cpus", "0"]).is_err());
    }

    #[test]
    fn two_guests_share_the_work() {
        let Cli { command } = Cli::try_parse_from(["lab", "run", "--all"]).unwrap();
        let LabCommand::Run(args) = command else {
            panic!("run was asked for");
        };
        let mut boots = boots(&args, &chosen(&args).unwrap());
        assert_eq!(
            boots.iter().map(|b| b.1.len()).sum::<usize>(),
            exp::ALL.len()
        );
        boots.retain(|(cpus, _)| *cpus == 1);
        assert_eq!(boots.len(), 2);
        let seconds = |names: &[&str]| names.iter().map(|n| exp::find(n).unwrap().seconds).sum();
        let (a, b): (u32, u32) = (seconds(&boots[0].1), seconds(&boots[1].1));
        assert!(a.abs_diff(b) < 60, "{a} and {b}");
    }

    #[test]
    fn five_lines() {
        let claim = |text, value, stock| {
            Claim::new(text, "", Target::AtLeast(98.0), Some(value)).stock(Some(stock))
        };
        let mut manifest = manifest();
        manifest.claims = vec![
            claim("unloaded", 25.0, 25.0),
            claim("loaded", 24.9, 9.0),
            claim("held", 99.6, 36.0),
        ];
        let lines = verdict(&manifest, Path::new("f.svg")).unwrap();
        assert_eq!(
            lines[1],
            "stock Linux   25.0 frames/s alone,   9.0 beside 10 busy programs: 36 % held"
        );
        assert!(
            lines[3].contains("pass, the player holds 99.6 %"),
            "{}",
            lines[3]
        );
        assert_eq!(lines[4], "picture: f.svg");
    }
}
