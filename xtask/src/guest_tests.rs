// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests in the guest: one boot of `vm/run` for each script of tests/guest.
//!
//! A script begins with a head that says how to run it:
//!
//! ```sh
//! #!/bin/bash
//! # SPDX-License-Identifier: MIT OR Apache-2.0
//! # name: shares
//! # description: two classes of weight 1:2 get a third and two thirds
//! # cpus: 1
//! # timeout: 1800
//! # allow-ejection: no
//! # minutes: 8
//! # only: long
//! # prepare: qlinux up cpu
//! # append: lockdown=integrity
//! # kernels: cpu
//! # kernels-long: link
//! ```
//!
//! Those that took longest last time start first, or that say they take minutes. `only: long` keeps
//! one out of the usual run, unless it is asked for by name. In the long run, `--long`, every script
//! gets the word "long" as its argument, and those that repeat something do so more often. In the
//! usual run, a script on a further kernel gets the word "brief", and may leave out what does not
//! depend on the kernel.
//!
//! `prepare` names what has been run in the guest when the script begins: the machine is saved after
//! it, once for all scripts that say the same. `turns: coarse` is for those of several processors that
//! need not be equally fast in the usual run, which takes less time; `cpus-long` says how many there are in the long run, if not as many. `append` are more parameters of the kernel. `kernels` lists kinds of kernels on which the script
//! runs as well, beside the newest: those of `vm/kernels.conf` that have one of them. A kernel of the
//! long run has its turn there only, and so has every kernel with `kernels-long`.
//!
//! Its exit status decides, unless it prints lines "ok NAME" and "not ok NAME":
//! then each of them counts as one test, so that one boot can serve many.

use crate::build::stage_dir;
use crate::kernels::{self, Kernel, When};
use crate::shell::{command, files, has_extension, root};
use crate::test::{last_times, log_path, show_failure, skip, Options, Tally};
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A test script and what its head says.
#[derive(Clone)]
pub struct Script {
    /// The script itself.
    pub path: PathBuf,
    /// Its folder and name, as in guest/shares.
    pub name: String,
    /// What it shows, in one sentence.
    pub description: String,
    /// Real seconds it may take, 1200 if it does not say: several times what it needs,
    /// since a machine may have other work.
    pub timeout: u32,
    cpus: u32,
    /// As many in the long run.
    cpus_long: u32,
    mem: String,
    allow_ejection: bool,
    /// Real time it takes, where it is long.
    minutes: u32,
    /// Not in the usual run.
    only_long: bool,
    /// In the usual run its processors need not be equally fast.
    coarse: bool,
    /// Has been run in the guest when the script begins.
    prepare: Option<String>,
    /// More parameters of the kernel.
    append: Option<String>,
    /// Kinds of further kernels on which it runs.
    kernels: Vec<String>,
    /// Likewise, in the long run only.
    kernels_long: Vec<String>,
}

/// What says that a kernel needs modules of ours for a script.
const DISK: &str = "disk";

/// A script on one kernel.
pub struct Run {
    /// That of the script, and the kernel's unless it is the guest's own.
    name: String,
    script: Script,
    kernel: Option<Kernel>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<32} {}", self.name, self.description)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<32} {}", self.name, self.script.description)
    }
}

impl Script {
    /// The scripts of `folder` that `options` ask for.
    pub fn find(folder: &str, options: &Options) -> Result<Vec<Script>> {
        let mut scripts = Script::all(folder)?;
        scripts.retain(|script| options.wants(&script.name) && script.has_its_turn(options));
        Ok(scripts)
    }

    fn all(folder: &str) -> Result<Vec<Script>> {
        files(folder)
            .iter()
            .filter(|path| has_extension(path, &["sh"]))
            .filter(|path| path.parent() == Some(&root().join(folder)))
            .map(|path| Script::read(path))
            .collect()
    }

    fn has_its_turn(&self, options: &Options) -> bool {
        options.everything() || !self.only_long
    }

    /// The kinds of further kernels on which it runs when `options` are given.
    fn kinds(&self, options: &Options) -> Vec<String> {
        let long: &[String] = if options.everything() {
            &self.kernels_long
        } else {
            &[]
        };
        [&self.kernels, long].concat()
    }

    fn read(path: &Path) -> Result<Script> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let head = |key: &str| {
            let lines = text.lines().take_while(|line| line.starts_with('#'));
            let prefix = format!("# {key}:");
            lines
                .filter_map(|l| l.strip_prefix(&prefix))
                .map(|v| v.trim().to_owned())
                .next()
        };
        let (Some(name), Some(description)) = (head("name"), head("description")) else {
            bail!(
                "{}: its head must give a name and a description",
                path.display()
            );
        };
        let number = |key: &str, default: u32| -> Result<u32> {
            let Some(value) = head(key) else {
                return Ok(default);
            };
            value
                .parse()
                .with_context(|| format!("{}: {key}: {value} is no number", path.display()))
        };
        let words = |key: &str| -> Vec<String> {
            let value = head(key).unwrap_or_default();
            value.split_whitespace().map(str::to_owned).collect()
        };
        let cpus = number("cpus", 1)?;
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        Ok(Script {
            name: format!("{}/{name}", folder.to_string_lossy()),
            description,
            timeout: number("timeout", 1200)?,
            cpus,
            cpus_long: number("cpus-long", cpus)?,
            minutes: number("minutes", 0)?,
            mem: head("mem").unwrap_or_else(|| "2G".to_owned()),
            allow_ejection: head("allow-ejection").is_some_and(|value| value == "yes"),
            only_long: head("only").is_some_and(|value| value == "long"),
            coarse: head("turns").is_some_and(|value| value == "coarse"),
            prepare: head("prepare"),
            append: head("append"),
            kernels: words("kernels"),
            kernels_long: words("kernels-long"),
            path: path.to_owned(),
        })
    }
}

impl Run {
    fn new(script: Script, kernel: Option<Kernel>) -> Run {
        let name = match &kernel {
            Some(kernel) => format!("{} on {}", script.name, kernel.name),
            None => script.name.clone(),
        };
        Run {
            name,
            script,
            kernel,
        }
    }

    fn needs_modules(&self) -> bool {
        let mut kinds = self.script.kernels.iter().chain(&self.script.kernels_long);
        self.kernel.is_some() && kinds.any(|kind| kind == DISK)
    }

    fn seconds(&self, last: &BTreeMap<String, f64>) -> f64 {
        let guess = f64::from(self.script.minutes) * 60.0;
        last.get(&self.name).copied().unwrap_or(guess)
    }

    /// Boots the guest and runs it there.
    pub fn run(&self, long: bool, tally: &Tally) -> Result<()> {
        let start = Instant::now();
        let script = &self.script;
        let mut vm = command(root().join("vm/run"));
        let cpus = if long { script.cpus_long } else { script.cpus };
        vm.args(["--cpus", &cpus.to_string(), "--mem", &script.mem]);
        // What is asked for is up to ten times as much.
        let timeout = script.timeout * if long { 6 } else { 1 };
        vm.args(["--timeout", &timeout.to_string()])
            .env("QLINUX_STAGE", stage_dir())
            .env_remove("QLINUX_KERNEL");
        if let Some(kernel) = &self.kernel {
            vm.args(["--kernel", &kernel.name]);
        }
        if let Some(prepare) = &script.prepare {
            vm.args(["--prepare", prepare]);
        }
        if let Some(append) = &script.append {
            vm.args(["--append", append]);
        }
        if script.coarse && !long {
            vm.arg("--coarse");
        }
        if script.allow_ejection {
            vm.arg("--allow-ejection");
        }
        vm.arg(&script.path);
        match (long, &self.kernel) {
            (true, _) => _ = vm.arg("long"),
            (false, Some(_)) => _ = vm.arg("brief"),
            (false, None) => {}
        }
        let result = vm.output().context("vm/run cannot be started")?;
        let mut text = String::from_utf8_lossy(&result.stdout).into_owned();
        let (passed, failed) = tap_counts(&text, result.status.success());
        text.push_str(&String::from_utf8_lossy(&result.stderr));
        fs::write(log_path(&self.name), &text)?;
        tally.note(&self.name, passed, failed, start);
        if failed > 0 {
            show_failure(&text);
        }
        Ok(())
    }
}

/// Passed and failed tests of a script that printed `text`.
pub fn tap_counts(text: &str, success: bool) -> (usize, usize) {
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    let failed = text
        .lines()
        .filter(|line| line.starts_with("not ok "))
        .count();
    match (passed + failed, success) {
        (0, true) => (1, 0),
        // It stopped early, or the guest's kernel complained.
        (_, false) => (passed, failed.max(1)),
        _ => (passed, failed),
    }
}

/// Whether a kernel beside the newest is one for this run: by its turn, or because it was asked for by name.
fn has_its_turn(kernel: &Kernel, options: &Options) -> bool {
    let named = options
        .filter
        .as_ref()
        .is_some_and(|part| part.contains(&kernel.name));
    match kernel.when {
        When::Newest => false,
        When::Usual => true,
        When::Long => options.long || named,
        When::Asked => named,
    }
}

/// The scripts of tests/guest that `options` ask for, on each kernel that has its turn.
pub fn find(options: &Options) -> Result<Vec<Run>> {
    let kernels = kernels::all()?;
    let mut runs = Vec::new();
    for script in Script::all("tests/guest")? {
        if !script.has_its_turn(options) {
            continue;
        }
        let kinds = script.kinds(options);
        let further = kernels.iter().filter(|kernel| {
            kernel.takes(&kinds, options.everything()) && has_its_turn(kernel, options)
        });
        runs.extend(further.map(|kernel| Run::new(script.clone(), Some(kernel.clone()))));
        runs.push(Run::new(script, None));
    }
    runs.retain(|run| options.wants(&run.name));
    let last = last_times();
    runs.sort_by(|a, b| b.seconds(&last).total_cmp(&a.seconds(&last)));
    Ok(runs)
}

/// Those of `runs` whose kernels are there, having been built if need be; says which are not.
pub fn with_kernels(runs: Vec<Run>) -> Result<Vec<Run>> {
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    keep(runs, |run| {
        let Some(kernel) = &run.kernel else {
            return Ok(None);
        };
        if !known.contains_key(&kernel.name) {
            known.insert(kernel.name.clone(), kernel.prepare()?.err());
        }
        let mut reason = known[&kernel.name].clone();
        // Headers are asked for before modules are staged.
        if reason.is_none() && run.needs_modules() {
            reason = kernel.headers()?.err();
        }
        Ok(reason)
    })
}

/// Those of `runs` for whose kernels the stage has the modules that they need; says which it has not.
pub fn with_modules(runs: Vec<Run>) -> Result<Vec<Run>> {
    keep(runs, |run| {
        let Some(kernel) = run.kernel.as_ref().filter(|_| run.needs_modules()) else {
            return Ok(None);
        };
        let release = kernel.headers()?.unwrap_or_default();
        let module = stage_dir().join(format!("usr/lib/modules/{release}/extra/cello.ko"));
        let lacks = || format!("{} is not there", module.display());
        Ok((!module.is_file()).then(lacks))
    })
}

/// Those of `runs` for which `reason` finds none to leave them out.
fn keep(
    runs: Vec<Run>,
    mut reason: impl FnMut(&Run) -> Result<Option<String>>,
) -> Result<Vec<Run>> {
    let mut kept = Vec::new();
    for run in runs {
        match reason(&run)? {
            Some(reason) => skip(&run.name, &reason),
            None => kept.push(run),
        }
    }
    Ok(kept)
}
