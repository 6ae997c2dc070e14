// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments in the guest, where this machine cannot run them itself.

use anyhow::{bail, ensure, Context, Result};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where an installation keeps `vm/run`, seen from its programs.
const INSTALLED: &str = "../share/qlinux/vm/run";
/// Real seconds one experiment may take.
const TIMEOUT_EACH_S: u64 = 3600;

/// Is this the guest, with everything an experiment needs?
pub fn inside() -> bool {
    env::var_os("QLINUX_GUEST").is_some()
        && crate::sys::is_root()
        && Path::new("/sys/kernel/sched_ext").is_dir()
}

/// The checkout around the current folder, or around this program.
pub fn checkout() -> Option<PathBuf> {
    let here = env::current_dir().ok();
    let exe = env::current_exe().ok();
    let starts = [here, exe];
    let mut folders = starts.iter().flatten().flat_map(|path| path.ancestors());
    let checkout = folders.find(|dir| dir.join("vm/run").is_file() && dir.join("core").is_dir());
    checkout.map(Path::to_owned)
}

/// `vm/run`: what the environment names, the checkout's, or the installed one.
fn vm_run() -> Result<PathBuf> {
    let named = env::var_os("QLINUX_VM_RUN").map(PathBuf::from);
    let own = checkout().map(|dir| dir.join("vm/run"));
    let installed = env::current_exe()
        .ok()
        .map(|exe| exe.with_file_name(INSTALLED));
    let places = [named, own, installed];
    let found = places.into_iter().flatten().find(|path| path.is_file());
    found.context(
        "vm/run, which boots the guest, was not found: run this in a checkout of qlinux, or name it in QLINUX_VM_RUN",
    )
}

/// Revision of the checkout, marked when its files differ from it.
pub fn revision() -> String {
    let Some(dir) = checkout() else {
        return format!("qlinux {}", env!("CARGO_PKG_VERSION"));
    };
    let git = |args: &[&str]| {
        let out = Command::new("git")
            .arg("-C")
            .arg(&dir)
            .args(args)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        out.status.success().then_some(text)
    };
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    // Results that were just written do not make the sources different.
    let status = ["status", "--porcelain", "-uno", "--", ".", ":!docs/results"];
    match git(&status) {
        Some(changes) if changes.is_empty() => head,
        _ => head + "-dirty",
    }
}

/// Runs experiments in one boot of the guest; each leaves its results in a folder below `out`.
pub fn run(names: &[&str], cpus: usize, options: &[String], out: &Path) -> Result<()> {
    let vm = vm_run()?;
    let exe = env::current_exe().context("this program's own file was not found")?;
    let work = exe.with_file_name("qlinux-work");
    ensure!(
        work.is_file(),
        "{} is missing: build the whole workspace, it belongs beside qlinux",
        work.display()
    );
    let add = |from: &Path, to: &str| {
        let mut pair = OsString::from(from);
        pair.push(":");
        pair.push(to);
        pair
    };
    eprintln!(
        "qlinux lab: booting the guest ({cpus} CPU{}) for {}",
        if cpus == 1 { "" } else { "s" },
        names.join(", ")
    );
    let timeout = TIMEOUT_EACH_S * names.len() as u64 * if is_full(options) { 10 } else { 1 };
    let status = Command::new(&vm)
        .args(["--cpus", &cpus.to_string()])
        .args(["--timeout", &timeout.to_string()])
        .arg("--out")
        .arg(out)
        .arg("--add")
        .arg(add(&exe, "/usr/local/bin/qlinux"))
        .arg("--add")
        .arg(add(&work, "/usr/local/bin/qlinux-work"))
        .arg("qlinux lab run --here --out /out \"$@\"")
        .args(options)
        .args(names)
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("{} cannot be started", vm.display()))?;
    match status.code() {
        // 1: a claim failed; the manifest says which.
        Some(0 | 1) => Ok(()),
        Some(code) => bail!("the guest ended with status {code}: see its messages above"),
        None => bail!("the guest was ended by a signal"),
    }
}

fn is_full(options: &[String]) -> bool {
    options.iter().any(|option| option == "--full")
}
