// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes with workloads in them, and samples of how far each has come.

use crate::counter::Counter;
use crate::machine::{Classes, Session};
use crate::sys;
use anyhow::{bail, ensure, Context, Result};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starting and ending a load skews every figure; what is measured comes after this long.
pub const WARM_UP: Duration = Duration::from_secs(2);
/// A workload that shows nothing after this long has failed.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A process of the experiment; killed when dropped.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `command` as a member of class `path`.
    pub fn start(classes: &Classes, path: &str, mut command: Command) -> Result<Process> {
        let file = classes.dir(path).join("cgroup.procs");
        let mut procs = OpenOptions::new()
            .write(true)
            .open(&file)
            .with_context(|| format!("{} cannot be opened", file.display()))?;
        // SAFETY: between fork and exec only one write happens. "0" is the writer itself.
        unsafe { command.pre_exec(move || procs.write_all(b"0")) };
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .spawn()
            .with_context(|| format!("{name} cannot be started in class {path}"))?;
        Ok(Process { child })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Takes it off the CPU until [`Process::resume`].
    pub fn suspend(&self) -> Result<()> {
        sys::kill(self.pid(), libc::SIGSTOP)
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        sys::kill(self.pid(), libc::SIGCONT)
    }

    /// Waits for its end and returns what it printed, to which its pipe must lead.
    pub fn output(mut self) -> Result<String> {
        let mut text = String::new();
        let pipe = self.child.stdout.as_mut().context("no pipe to a tool")?;
        pipe.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a tool ended with {status}: {text}");
        Ok(text)
    }

    /// Has it ended by itself?
    pub fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `qlinux-work`.
pub struct Worker {
    /// The process.
    pub process: Process,
    /// Its class.
    pub class: String,
    /// What it does.
    pub work: String,
    file: PathBuf,
    counter: Option<Counter>,
}

impl Worker {
    /// Its counters, once it has begun.
    pub fn counter(&self) -> Result<&Counter> {
        let none = || format!("a workload of class {} has not begun", self.class);
        self.counter.as_ref().with_context(none)
    }
}

/// What had been done at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The counters of every worker's threads, in the order the workers were started.
    pub counts: Vec<Vec<u64>>,
    /// CPU time of every class, by path. What runs at the moment is counted up to the last tick.
    pub usage_ns: BTreeMap<String, u64>,
    /// CPU time of every worker, up to the moment.
    pub cpu_ns: Vec<u64>,
}

impl Sample {
    /// What worker `index` has counted in all its threads since `before`.
    pub fn counted(&self, before: &Sample, index: usize) -> u64 {
        let sum = |sample: &Sample| sample.counts[index].iter().sum::<u64>();
        sum(self) - sum(before)
    }

    /// CPU time of a class since `before`, in seconds.
    pub fn used(&self, before: &Sample, class: &str) -> f64 {
        (self.usage_ns[class] - before.usage_ns[class]) as f64 / 1e9
    }

    /// CPU time of worker `index` since `before`, in seconds.
    pub fn worked(&self, before: &Sample, index: usize) -> f64 {
        (self.cpu_ns[index] - before.cpu_ns[index]) as f64 / 1e9
    }

    /// Time since `before` in seconds.
    pub fn since(&self, before: &Sample) -> f64 {
        (self.time_ns - before.time_ns) as f64 / 1e9
    }
}

/// The classes and workloads of one case of an experiment.
pub struct Scene {
    /// In the order they were started. Ended before the classes.
    pub workers: Vec<Worker>,
    classes: Classes,
    paths: Vec<String>,
    dir: tempfile::TempDir,
    /// Workers so far, those that were ended included.
    started: usize,
}

impl Scene {
    /// An empty scene on the side of `session`.
    pub fn new(session: &Session) -> Result<Scene> {
        let memory = PathBuf::from("/dev/shm");
        let dir = tempfile::Builder::new()
            .prefix("qlinux-lab.")
            .tempdir_in(if memory.is_dir() {
                memory
            } else {
                std::env::temp_dir()
            })
            .context("no folder for the counters can be made")?;
        Ok(Scene {
            workers: Vec::new(),
            classes: Classes::new(session)?,
            paths: Vec::new(),
            dir,
            started: 0,
        })
    }

    /// Adds a class, its parents being there already.
    pub fn class(&mut self, path: &str, weight: u32) -> Result<()> {
        self.classes.add(path, weight)?;
        self.paths.push(path.to_owned());
        Ok(())
    }

    /// Adds a class with a leaf scheduler.
    pub fn class_with_leaf(&mut self, path: &str, weight: u32, leaf: &str) -> Result<()> {
        self.class(path, weight)?;
        self.classes.set_leaf(path, leaf)
    }

    /// The classes, for what a scene does not offer.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Path of a file that workloads share, gone with the scene.
    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Starts `qlinux-work NAME ARGS` in a class and returns its index.
    pub fn start(&mut self, class: &str, work: &str, args: &[&str]) -> Result<usize> {
        self.start_as(class, work, args, |_| ())
    }

    /// Likewise; `prepare` changes the command before it begins.
    pub fn start_as(
        &mut self,
        class: &str,
        work: &str,
        args: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<usize> {
        let index = self.workers.len();
        let file = self.dir.path().join(self.started.to_string());
        self.started += 1;
        let mut command = Command::new(work_program());
        command
            .arg(work)
            .args(args)
            .args([OsStr::new("--counter"), file.as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        prepare(&mut command);
        self.workers.push(Worker {
            process: Process::start(&self.classes, class, command)?,
            class: class.to_owned(),
            work: work.to_owned(),
            file,
            counter: None,
        });
        Ok(index)
    }

    /// Starts a program of the machine in a class, its output in a pipe: see [`Process::output`].
    pub fn tool(&self, class: &str, line: &[&str]) -> Result<Process> {
        let mut command = Command::new(line[0]);
        command
            .args(&line[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Process::start(&self.classes, class, command)
    }

    /// A folder for the scene's files, in memory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Ends all workloads. All are told to end before any is waited for: one of little weight would hardly get to
    /// ending beside those that go on.
    pub fn end(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.process.child.kill();
        }
        self.workers.clear();
    }

    /// Waits until every workload has begun.
    pub fn begun(&mut self) -> Result<()> {
        let limit = sys::now_ns() + START_LIMIT.as_nanos() as u64;
        for worker in &mut self.workers {
            while worker.counter.is_none() {
                worker.counter = Counter::open(&worker.file)?;
                if worker.counter.is_some() {
                    break;
                }
                if worker.process.ended() || sys::now_ns() > limit {
                    bail!("a workload of class {} did not begin", worker.class);
                }
                sys::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Waits until every workload has begun and the start has worn off.
    pub fn settle(&mut self) -> Result<()> {
        self.begun()?;
        sys::sleep(WARM_UP);
        Ok(())
    }

    /// Reads all counters, then all accounts. On one processor nothing runs in
    /// between: the reader has real-time priority.
    pub fn sample(&self) -> Result<Sample> {
        let time_ns = sys::now_ns();
        let counters = self.workers.iter().map(|w| w.counter().map(Counter::read));
        let counts = counters.collect::<Result<_>>()?;
        let usage = |path: &String| Ok((path.clone(), self.classes.usage_ns(path)?));
        let worked = self.workers.iter().map(|w| sys::cpu_ns(w.process.pid()));
        Ok(Sample {
            time_ns,
            counts,
            cpu_ns: worked.collect::<Result<_>>()?,
            usage_ns: self.paths.iter().map(usage).collect::<Result<_>>()?,
        })
    }

    /// Samples now and after `length`.
    pub fn measure(&self, length: Duration) -> Result<(Sample, Sample)> {
        let before = self.sample()?;
        sys::sleep_until(before.time_ns + length.as_nanos() as u64);
        Ok((before, self.sample()?))
    }

    /// Samples now and after every `step`, `count` times.
    pub fn series(&self, step: Duration, count: usize) -> Result<Vec<Sample>> {
        let mut samples = vec![self.sample()?];
        for index in 1..=count as u64 {
            sys::sleep_until(samples[0].time_ns + index * step.as_nanos() as u64);
            samples.push(self.sample()?);
        }
        Ok(samples)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end();
    }
}

/// `qlinux-work` beside this program, or wherever the shell finds it.
fn work_program() -> PathBuf {
    let beside = std::env::current_exe().map(|exe| exe.with_file_name("qlinux-work"));
    beside
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(|| "qlinux-work".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time_ns: u64, counts: &[&[u64]], usage: u64) -> Sample {
        Sample {
            time_ns,
            counts: counts.iter().map(|c| c.to_vec()).collect(),
            usage_ns: [("/a".to_owned(), usage)].into(),
            cpu_ns: vec![usage, 0],
        }
    }

    #[test]
    fn differences_of_samples() {
        let before = sample(1_000_000_000, &[&[1, 2], &[5]], 500_000_000);
        let after = sample(3_000_000_000, &[&[4, 4], &[9]], 1_500_000_000);
        assert_eq!(after.counted(&before, 0), 5);
        assert_eq!(after.counted(&before, 1), 4);
        assert_eq!(after.used(&before, "/a"), 1.0);
        assert_eq!(after.worked(&before, 0), 1.0);
        assert_eq!(after.since(&before), 2.0);
    }
}
