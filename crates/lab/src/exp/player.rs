// SPDX-License-Identifier: MIT OR Apache-2.0
//! The player: the guest's own ffmpeg, decoding a film as it would be shown.

use crate::machine::Classes;
use crate::scene::Process;
use crate::sys;
use anyhow::{bail, Context, Result};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

const FILM: &str = "/usr/share/qlinux/clip.mpg";
/// Decoded and made ready for a screen: true colour, twice the size. Together
/// they need about a third of the deterministic guest's processor.
const SCREEN: &str = "scale=704:576:flags=fast_bilinear,format=bgra";

/// A player at work.
pub struct Player {
    process: Process,
    progress: ChildStdout,
    text: String,
    /// (CLOCK_MONOTONIC, frames shown) at each report.
    reports: Vec<(u64, u64)>,
}

impl Player {
    /// Starts the film in class `path`, over and over, in real time.
    pub fn start(classes: &Classes, path: &str) -> Result<Player> {
        let show = ["-vf", SCREEN, "-filter_threads", "1"];
        Player::start_with(classes, path, &["-re"], &show)
    }

    /// Starts decoding the film in class `path`, over and over, as fast as it can.
    pub fn start_decoding(classes: &Classes, path: &str) -> Result<Player> {
        Player::start_with(classes, path, &["-stream_loop", "-1"], &[])
    }

    fn start_with(classes: &Classes, path: &str, input: &[&str], show: &[&str]) -> Result<Player> {
        let mut command = Command::new("ffmpeg");
        command
            .args(["-nostdin", "-nostats", "-hide_banner", "-loglevel", "error"])
            .args(input)
            .args(["-threads", "1", "-i", FILM])
            .args(show)
            .args(["-an", "-f", "null"])
            .args(["-progress", "pipe:1", "-stats_period", "0.1", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = Process::start(classes, path, command)?;
        let progress = process.child().stdout.take().context("no pipe to ffmpeg")?;
        Ok(Player {
            process,
            progress,
            text: String::new(),
            reports: Vec::new(),
        })
    }

    /// Collects reports until `end_ns`.
    pub fn follow(&mut self, end_ns: u64) -> Result<()> {
        loop {
            let left = end_ns.saturating_sub(sys::now_ns());
            if left == 0 {
                return Ok(());
            }
            if !sys::readable(self.progress.as_raw_fd(), Duration::from_nanos(left)) {
                continue;
            }
            let time_ns = sys::now_ns();
            let mut data = [0; 4096];
            let length = self.progress.read(&mut data)?;
            if length == 0 {
                bail!(
                    "the player {} ended before the measurement did",
                    self.process.pid()
                );
            }
            self.text
                .push_str(&String::from_utf8_lossy(&data[..length]));
            self.take_lines(time_ns);
        }
    }

    fn take_lines(&mut self, time_ns: u64) {
        while let Some(end) = self.text.find('\n') {
            let line: String = self.text.drain(..=end).collect();
            let frames = line.trim().strip_prefix("frame=");
            if let Some(frames) = frames.and_then(|n| n.trim().parse().ok()) {
                self.reports.push((time_ns, frames));
            }
        }
    }

    /// Waits for the first frames.
    pub fn playing(&mut self) -> Result<()> {
        let limit = sys::now_ns() + 30_000_000_000;
        while self.reports.last().is_none_or(|report| report.1 == 0) {
            if sys::now_ns() > limit {
                bail!("the player showed no frame within 30 s");
            }
            self.follow(sys::now_ns() + 100_000_000)?;
        }
        Ok(())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Frames decoded until `time_ns`, between two reports in proportion to the time.
    pub fn frames_at(&self, time_ns: u64) -> f64 {
        frames_at(&self.reports, time_ns)
    }

    /// Frames per second between the first and the last report since `from_ns`.
    pub fn rate(&self, from_ns: u64) -> f64 {
        rate(&self.reports, from_ns)
    }
}

fn frames_at(reports: &[(u64, u64)], time_ns: u64) -> f64 {
    let after = reports.partition_point(|report| report.0 < time_ns);
    match (
        after.checked_sub(1).map(|at| reports[at]),
        reports.get(after),
    ) {
        (Some(a), Some(b)) => {
            let part = (time_ns - a.0) as f64 / (b.0 - a.0) as f64;
            a.1 as f64 + part * (b.1 - a.1) as f64
        }
        (None, Some(first)) => first.1 as f64,
        (last, None) => last.map_or(0.0, |last| last.1 as f64),
    }
}

fn rate(reports: &[(u64, u64)], from_ns: u64) -> f64 {
    let first = reports.iter().find(|report| report.0 >= from_ns);
    match (first, reports.last()) {
        (Some(first), Some(last)) if last.0 > first.0 => {
            (last.1 - first.1) as f64 / ((last.0 - first.0) as f64 / 1e9)
        }
        // No two reports: it did not get so far as to report.
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn frames_between_reports() {
        let reports = [(10, 0), (20, 5), (40, 25)];
        let at = [5, 10, 15, 20, 30, 50].map(|time| super::frames_at(&reports, time));
        assert_eq!(at, [0.0, 0.0, 2.5, 5.0, 15.0, 25.0]);
    }

    #[test]
    fn rate_between_reports() {
        let reports = [(0, 0), (1_000_000_000, 20), (3_000_000_000, 70)];
        assert_eq!(super::rate(&reports, 500_000_000), 25.0);
        assert_eq!(super::rate(&reports, 2_000_000_000), 0.0);
        assert_eq!(super::rate(&[], 0), 0.0);
    }
}
