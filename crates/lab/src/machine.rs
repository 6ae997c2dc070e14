// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes and schedulers: everything the experiments ask of the machine.
//!
//! A class is a directory of cgroup v2 on every side of a comparison. What only
//! QLinux knows, a class's leaf scheduler and whether the scheduler is up, goes
//! through the `qlinux` command, as a user would do it.

use anyhow::{bail, ensure, Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::sys;

/// Who divides the CPU, a link, or a disk's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The kernel as it comes: EEVDF, `cpu.weight` in the same cgroups. Of a link, `fifo`; of a disk, `mq-deadline`.
    Stock,
    /// The sched_ext scheduler for cgroups that comes with the kernel's sources.
    Flatcg,
    /// H-SFQ; of a disk, Cello.
    Qlinux,
    /// A link without classes: one queue, below a token bucket where the link has a rate.
    Fifo,
    /// The hierarchy of token buckets.
    Htb,
    /// Hierarchical fair service curves.
    Hfsc,
    /// Deficit round robin, below one class of HTB where the link has a rate.
    Drr,
    /// CAKE, which knows flows and no classes.
    Cake,
    /// `fq_codel` below one class of HTB.
    FqCodel,
    /// A disk without a scheduler.
    #[value(name = "none")]
    Unscheduled,
    /// What the kernel gives a disk with one queue: by place, and none waits for ever.
    MqDeadline,
    /// Latency targets of reads and writes; it knows no classes.
    Kyber,
    /// Budget fair queueing, with weights of cgroups.
    Bfq,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Stock => "stock",
            Side::Flatcg => "flatcg",
            Side::Qlinux => "qlinux",
            Side::Fifo => "fifo",
            Side::Htb => "htb",
            Side::Hfsc => "hfsc",
            Side::Drr => "drr",
            Side::Cake => "cake",
            Side::FqCodel => "fq-codel",
            Side::Unscheduled => "none",
            Side::MqDeadline => "mq-deadline",
            Side::Kyber => "kyber",
            Side::Bfq => "bfq",
        })
    }
}

impl Side {
    /// Is it one that a CPU can be on?
    pub fn of_cpus(self) -> bool {
        matches!(self, Side::Stock | Side::Flatcg | Side::Qlinux)
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

/// Runs a program of the machine; its complaint is the error.
pub fn run(line: &str) -> Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let out = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be started: install it", words[0]))?;
    let why = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{line}: {}", why.trim());
    Ok(())
}

/// The program of [`Side::Flatcg`].
const FLATCG: &str = "scx_flatcg";
/// Loading it takes one to two seconds of the deterministic guest.
const FLATCG_START: Duration = Duration::from_secs(60);

/// Why this machine cannot be on `side`, if it cannot.
pub fn missing(side: Side) -> Option<String> {
    let found = |dir| Path::new(dir).join(FLATCG).is_file();
    if side != Side::Flatcg || ["/usr/bin", "/usr/local/bin"].into_iter().any(found) {
        return None;
    }
    Some(format!(
        "{FLATCG} is not installed, so that side is left out: build it from the kernel's tools/sched_ext"
    ))
}

/// One side, entered; left when dropped.
pub struct Session {
    side: Side,
    /// What holds the peer's scheduler in the kernel.
    peer: RefCell<Option<Peer>>,
}

struct Peer {
    process: Child,
    /// Classes have been made since it began.
    used: bool,
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
        let session = Session {
            side,
            peer: RefCell::default(),
        };
        if side == Side::Flatcg {
            session.start_peer()?;
        }
        session.check()?;
        Ok(session)
    }

    /// Starts the peer and waits until it schedules.
    fn start_peer(&self) -> Result<()> {
        let limit = sys::now_ns() + FLATCG_START.as_nanos() as u64;
        // Reports are for people and cost CPU: none comes within an hour.
        let child = Command::new(FLATCG)
            .args(["-i", "3600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{FLATCG} cannot be started"))?;
        let mut place = self.peer.borrow_mut();
        let peer = place.insert(Peer {
            process: child,
            used: false,
        });
        while loaded() != "flatcg" {
            if let Some(status) = peer.process.try_wait()? {
                bail!("{FLATCG} ended with {status}: see its message above");
            }
            ensure!(sys::now_ns() < limit, "{FLATCG} did not begin to schedule");
            sys::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn end_peer(&self) -> Result<()> {
        if let Some(mut peer) = self.peer.take() {
            sys::kill(peer.process.id(), libc::SIGINT)?;
            peer.process.wait()?;
        }
        Ok(())
    }

    /// A new tree of classes begins. On Linux 7.3 scx_flatcg ejects itself when a cgroup is made after
    /// some were removed ("unexpected !NULL cgv_node stash"), so each tree gets one just started.
    fn new_tree(&self) -> Result<()> {
        let used = |peer: &mut Peer| std::mem::replace(&mut peer.used, true);
        if self.peer.borrow_mut().as_mut().is_some_and(used) {
            self.check()?;
            self.end_peer()?;
            self.start_peer()?;
            self.peer.borrow_mut().as_mut().map(used);
        }
        Ok(())
    }

    /// Which side this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Fails when another scheduler is at work than the results would say.
    pub fn check(&self) -> Result<()> {
        match (self.side, loaded().as_str()) {
            (Side::Stock, "") | (Side::Flatcg, "flatcg") | (Side::Qlinux, "hsfq") => Ok(()),
            (Side::Stock, name) => {
                bail!("sched_ext scheduler {name} is loaded, so this is no stock kernel: unload it, H-SFQ by qlinux down cpu")
            }
            (Side::Flatcg, _) => bail!("{FLATCG} was detached during the run: see the kernel log"),
            (side, _) if !side.of_cpus() => {
                bail!("{side} divides links or disks, not the CPU: choose stock, flatcg or qlinux")
            }
            _ => {
                let status = qlinux(&["status"]).unwrap_or_default();
                bail!(
                    "the scheduler was detached during the run: {}",
                    status.trim()
                )
            }
        }
    }
}

/// Name of the sched_ext scheduler at work, empty where there is none.
fn loaded() -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(Path::new("/sys/kernel/sched_ext").join(file));
        text.unwrap_or_default().trim().to_owned()
    };
    if read("state") != "enabled" {
        return String::new();
    }
    read("root/ops")
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.end_peer() {
            eprintln!("qlinux lab: {FLATCG} was not ended: {error:#}");
        }
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
        session.new_tree()?;
        let root = Path::new(CGROUPS);
        hand_out(root, "cpu")?;
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
        hand_out(dir.parent().context("a class has a parent")?, "cpu")?;
        self.make(dir)?;
        self.set_weight(path, weight)
    }

    /// Lets the classes right below the lab have parts of disks.
    pub fn divide_disks(&self) -> Result<()> {
        hand_out(Path::new(CGROUPS), "io")?;
        hand_out(&self.root, "io")
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

    /// Gives every thread of a process that is a member of class `path` a weight. Elsewhere than under
    /// QLinux threads have nice values: the one whose weight is nearest.
    pub fn set_thread_weights(&self, path: &str, pid: u32, weight: u32) -> Result<()> {
        let tasks = format!("/proc/{pid}/task");
        let entries = fs::read_dir(&tasks).with_context(|| format!("{tasks} cannot be read"))?;
        for entry in entries {
            let tid = entry?.file_name().to_string_lossy().into_owned();
            if self.side == Side::Qlinux {
                let (path, weight) = (format!("{LAB}{path}"), weight.to_string());
                qlinux(&["class", "set", &path, "--thread", &tid, "--weight", &weight])?;
            } else {
                sys::set_nice(tid.parse()?, nearest_nice(weight))?;
            }
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

/// The nice value whose weight is nearest to `weight`, 100 being that of nice 0. Each step is a factor of 1.25.
fn nearest_nice(weight: u32) -> i32 {
    let steps = (f64::from(weight) / 100.0).ln() / 1.25f64.ln();
    (-steps.round() as i32).clamp(-20, 19)
}

/// Lets the children of a cgroup have parts of a resource.
fn hand_out(dir: &Path, controller: &str) -> Result<()> {
    let file = dir.join("cgroup.subtree_control");
    fs::write(&file, format!("+{controller}")).with_context(|| {
        format!(
            "{} does not hand out the {controller} controller: mount cgroup v2 and be root",
            file.display()
        )
    })
}

/// Waits until the kernel has let go of cgroups that were removed.
pub fn await_removed_cgroups() -> Result<()> {
    let file = Path::new(CGROUPS).join("cgroup.stat");
    let limit = sys::now_ns() + 10_000_000_000;
    loop {
        let text = fs::read_to_string(&file)
            .with_context(|| format!("{} cannot be read", file.display()))?;
        let dying = |line: &&str| {
            let (name, count) = line.split_once(' ').unwrap_or_default();
            matches!(name, "nr_dying_descendants" | "nr_dying_subsys_io") && count != "0"
        };
        let Some(line) = text.lines().find(dying) else {
            return Ok(());
        };
        ensure!(
            sys::now_ns() < limit,
            "cgroups that were removed are still held ({line}): find out by whom"
        );
        sys::sleep(Duration::from_millis(20));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_of_weights() {
        assert_eq!([25, 50, 100, 200].map(nearest_nice), [6, 3, 0, -3]);
        assert_eq!([1, 10_000].map(nearest_nice), [19, -20]);
    }
}
