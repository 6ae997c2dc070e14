// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes and schedulers: everything the experiments ask of the machine.
//!
//! A class is a directory of cgroup v2 on every side of a comparison. What only
//! QLinux knows, a class's leaf scheduler and whether the scheduler is up, goes
//! through the `qlinux` command, as a user would do it.

use anyhow::{bail, ensure, Context, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::sys;

/// Who divides the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The kernel as it comes: EEVDF, `cpu.weight` in the same cgroups.
    Stock,
    /// H-SFQ.
    Qlinux,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Stock => "stock",
            Side::Qlinux => "qlinux",
        })
    }
}

/// The `qlinux` command: this program, unless it is a test.
pub fn program() -> PathBuf {
    std::env::current_exe()
        .ok()
        .filter(|path| path.file_name().is_some_and(|name| name == "qlinux"))
        .unwrap_or_else(|| "qlinux".into())
}

/// Runs `qlinux` with these arguments and returns what it printed.
pub fn qlinux(args: &[&str]) -> Result<String> {
    let shown = || format!("qlinux {}", args.join(" "));
    let out = Command::new(program())
        .args(args)
        .output()
        .with_context(|| format!("{} cannot be started: install qlinux first", shown()))?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        bail!("{}: {}", shown(), why.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// One side, entered; left when dropped.
pub struct Session {
    side: Side,
}

impl Session {
    /// Makes `side` the one that divides the CPU.
    pub fn enter(side: Side) -> Result<Session> {
        Session::enter_with(side, &[])
    }

    /// Likewise, with more arguments for `qlinux up cpu`.
    pub fn enter_with(side: Side, options: &[&str]) -> Result<Session> {
        if side == Side::Qlinux {
            qlinux(&[&["up", "cpu"], options].concat())?;
        }
        let session = Session { side };
        session.check()?;
        Ok(session)
    }

    /// Which side this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Fails when another scheduler is at work than the results would say.
    pub fn check(&self) -> Result<()> {
        let state = fs::read_to_string("/sys/kernel/sched_ext/state").unwrap_or_default();
        match (self.side, state.trim()) {
            (Side::Qlinux, "enabled") => Ok(()),
            (Side::Qlinux, _) => {
                let status = qlinux(&["status"]).unwrap_or_default();
                bail!(
                    "the scheduler was detached during the run: {}",
                    status.trim()
                )
            }
            (Side::Stock, "enabled") => {
                bail!("a sched_ext scheduler is loaded, so this is no stock kernel: run qlinux down cpu")
            }
            (Side::Stock, _) => Ok(()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.side == Side::Qlinux {
            if let Err(error) = qlinux(&["down", "cpu"]) {
                eprintln!("qlinux lab: {error:#}");
            }
        }
    }
}

/// The folder of cgroup v2.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Everything of the lab is below this class.
pub const LAB: &str = "/lab";

/// The classes of one experiment; removed when dropped.
pub struct Classes {
    side: Side,
    root: PathBuf,
    made: Vec<PathBuf>,
}

impl Classes {
    /// No class yet, on the side of `session`.
    pub fn new(session: &Session) -> Result<Classes> {
        let root = Path::new(CGROUPS);
        enable_cpu(root)?;
        let mut classes = Classes {
            side: session.side(),
            root: root.join(&LAB[1..]),
            made: Vec::new(),
        };
        classes.make(classes.root.clone())?;
        Ok(classes)
    }

    fn make(&mut self, dir: PathBuf) -> Result<()> {
        if let Err(error) = fs::create_dir(&dir) {
            // Left over from a lab that was killed.
            let reusable = error.kind() == std::io::ErrorKind::AlreadyExists;
            ensure!(reusable, "class {} cannot be made: {error}", dir.display());
        }
        self.made.push(dir);
        Ok(())
    }

    /// The directory of class `path`, which begins with a slash.
    pub fn dir(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Makes a class below existing ones.
    pub fn add(&mut self, path: &str, weight: u32) -> Result<()> {
        let dir = self.dir(path);
        enable_cpu(dir.parent().context("a class has a parent")?)?;
        self.make(dir)?;
        self.set_weight(path, weight)
    }

    /// Gives a class another weight.
    pub fn set_weight(&self, path: &str, weight: u32) -> Result<()> {
        let file = self.dir(path).join("cpu.weight");
        fs::write(&file, weight.to_string())
            .with_context(|| format!("{} takes no weight {weight}", file.display()))
    }

    /// Chooses the leaf scheduler of a class; the stock kernel knows only its own.
    pub fn set_leaf(&self, path: &str, leaf: &str) -> Result<()> {
        if self.side == Side::Qlinux {
            let path = format!("{LAB}{path}");
            qlinux(&["class", "set", path.as_str(), "--leaf", leaf])?;
        }
        Ok(())
    }

    /// CPU time all threads below a class have had, in nanoseconds.
    pub fn usage_ns(&self, path: &str) -> Result<u64> {
        let file = self.dir(path).join("cpu.stat");
        let text = fs::read_to_string(&file)
            .with_context(|| format!("{} cannot be read", file.display()))?;
        let field = |line: &str| line.strip_prefix("usage_usec ")?.parse::<u64>().ok();
        let usec = text.lines().find_map(field);
        Ok(usec.with_context(|| format!("{} lacks usage_usec", file.display()))? * 1000)
    }
}

/// Lets the children of a cgroup have weights.
fn enable_cpu(dir: &Path) -> Result<()> {
    let file = dir.join("cgroup.subtree_control");
    fs::write(&file, "+cpu").with_context(|| {
        format!(
            "{} does not hand out the cpu controller: mount cgroup v2 and be root",
            file.display()
        )
    })
}

impl Drop for Classes {
    fn drop(&mut self) {
        for dir in self.made.iter().rev() {
            // Threads that were killed leave a moment later.
            for _ in 0..200 {
                match fs::remove_dir(dir) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        sys::sleep(Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }
}
