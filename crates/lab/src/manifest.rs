// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a result stands on, and what it says: `manifest.json`.

use crate::sys;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Everything needed to judge and to repeat a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `qlinux lab run NAME`
    pub name: String,
    /// Paper and figure.
    pub source: String,
    /// One line.
    pub title: String,
    /// The paper's claim.
    pub says: String,
    /// How this run differs from the paper's.
    pub scale: String,
    /// Measured against the targets.
    pub claims: Vec<Claim>,
    /// No claim failed.
    pub passed: bool,
    /// Of random choices.
    pub seed: u64,
    /// Asked for with --full.
    pub full: bool,
    /// Processors of the machine.
    pub cpus: usize,
    /// True where the machine counts instructions: the run repeats exactly.
    pub deterministic: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Revision of the sources; "-dirty" with changes not committed.
    pub revision: String,
    /// What else took part, by name.
    pub versions: BTreeMap<String, String>,
}

/// One claim, as a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// What is measured.
    pub text: String,
    /// What is asked of it.
    pub target: Target,
    /// Of the measured value and the target.
    pub unit: String,
    /// Under QLinux; absent when that side was left out.
    pub measured: Option<f64>,
    /// Under the stock kernel, where the claim makes sense for it.
    pub stock: Option<f64>,
    /// Under scx_flatcg, where it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flatcg: Option<f64>,
    /// On other sides, by name; no value where there is no such thing, as a time that never came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<(String, Option<f64>)>,
    /// Measured and on target.
    pub passed: bool,
}

/// Bounds of a measured value, both included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Not above.
    AtMost(f64),
    /// Not below.
    AtLeast(f64),
    /// Not outside.
    Within(f64, f64),
}

impl Target {
    fn holds(self, value: f64) -> bool {
        match self {
            Target::AtMost(limit) => value <= limit,
            Target::AtLeast(limit) => value >= limit,
            Target::Within(low, high) => (low..=high).contains(&value),
        }
    }

    /// In words.
    pub fn show(self, unit: &str) -> String {
        match self {
            Target::AtMost(limit) => format!("≤ {}", show(limit, unit)),
            Target::AtLeast(limit) => format!("≥ {}", show(limit, unit)),
            Target::Within(low, high) => format!("{} … {}", show(low, ""), show(high, unit)),
        }
    }
}

/// A number for people: three digits after the point at most, and its unit.
pub fn show(value: f64, unit: &str) -> String {
    let digits = if value.abs() >= 1000.0 { 0 } else { 3 };
    let mut text = format!("{value:.digits$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if !unit.is_empty() {
        text.push(' ');
        text.push_str(unit);
    }
    text
}

impl Claim {
    /// A claim about the value measured under QLinux.
    pub fn new(text: &str, unit: &str, target: Target, measured: Option<f64>) -> Claim {
        Claim {
            text: text.to_owned(),
            target,
            unit: unit.to_owned(),
            measured,
            stock: None,
            flatcg: None,
            peers: Vec::new(),
            passed: measured.is_some_and(|value| target.holds(value)),
        }
    }

    /// The stock kernel's value beside it.
    pub fn stock(mut self, value: Option<f64>) -> Claim {
        self.stock = value;
        self
    }

    /// The peer's value beside it.
    pub fn flatcg(mut self, value: Option<f64>) -> Claim {
        self.flatcg = value;
        self
    }

    /// The value on one more side beside it.
    pub fn peer(mut self, name: &str, value: f64) -> Claim {
        let value = Some(value).filter(|value| value.is_finite());
        self.peers.push((name.to_owned(), value));
        self
    }

    /// Each of the other sides with its value.
    pub fn show_peers(&self) -> String {
        let show = |value: Option<f64>| value.map_or("none".to_owned(), |v| show(v, &self.unit));
        let one = |(name, value): &(String, Option<f64>)| format!("{name} {}", show(*value));
        self.peers.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// In one line.
    pub fn line(&self) -> String {
        let value = |value: Option<f64>| value.map_or("-".to_owned(), |v| show(v, &self.unit));
        let mut peer = self.flatcg.map_or(String::new(), |v| {
            format!(", scx_flatcg {}", show(v, &self.unit))
        });
        if !self.peers.is_empty() {
            peer += ", ";
            peer += &self.show_peers();
        }
        format!(
            "{} {}: {} (asked {}; stock {}{peer})",
            if self.passed { "pass" } else { "FAIL" },
            self.text,
            value(self.measured),
            self.target.show(&self.unit),
            value(self.stock),
        )
    }
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// First line of what `program ARG` prints.
fn version(program: &str, arg: &str) -> Option<String> {
    let out = Command::new(program).arg(arg).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Some(text.lines().next()?.to_owned())
}

/// Release of the running kernel.
pub fn kernel_release() -> String {
    first_line("/proc/sys/kernel/osrelease")
}

/// Processors of this machine.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// True where the machine counts instructions.
pub fn deterministic() -> bool {
    sys::is_deterministic()
}

/// What took part beside the kernel.
pub fn versions() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    all.insert("qlinux".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    all.insert("rustc".to_owned(), env!("QLINUX_LAB_RUSTC").to_owned());
    all.insert(
        "kernel build".to_owned(),
        first_line("/proc/sys/kernel/version"),
    );
    if let Some(ffmpeg) = version("ffmpeg", "-version") {
        let words: Vec<&str> = ffmpeg.split(' ').take(3).collect();
        all.insert("ffmpeg".to_owned(), words.join(" "));
    }
    // What the guest's image was made with; absent on a real machine.
    let guest = fs::read_to_string("/etc/qlinux-guest").unwrap_or_default();
    let guest: serde_json::Value = serde_json::from_str(&guest).unwrap_or_default();
    for key in ["clang", "qemu", "kernel_package", "scx_flatcg"] {
        if let Some(text) = guest[key].as_str() {
            all.insert(key.to_owned(), text.to_owned());
        }
    }
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn manifest() -> Manifest {
        Manifest {
            name: "qlinux-5a".into(),
            source: "QLinux, figure 5(a)".into(),
            title: "Progress".into(),
            says: "In proportion.".into(),
            scale: "30 s for 337 s.".into(),
            claims: vec![
                Claim::new("ratio", "", Target::Within(3.98, 4.02), Some(4.001)).stock(Some(4.0)),
            ],
            passed: true,
            seed: 1,
            full: false,
            cpus: 1,
            deterministic: true,
            kernel: "7.3".into(),
            revision: "abc".into(),
            versions: [("qlinux".to_owned(), "0.1".to_owned())].into(),
        }
    }

    #[test]
    fn json_round_trip() {
        let manifest = manifest();
        let text = serde_json::to_string_pretty(&manifest).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
    }

    #[test]
    fn targets() {
        let claim = |target, value| Claim::new("x", "%", target, value).passed;
        assert!(claim(Target::AtMost(0.5), Some(0.5)));
        assert!(!claim(Target::AtMost(0.5), Some(0.51)));
        assert!(!claim(Target::AtLeast(98.0), Some(97.9)));
        assert!(!claim(Target::AtMost(0.5), Some(f64::NAN)));
        assert!(
            !claim(Target::AtMost(0.5), None),
            "not measured is not passed"
        );
        assert_eq!(Target::Within(3.98, 4.02).show("s"), "3.98 … 4.02 s");
        assert_eq!(show(25.0, "frames/s"), "25 frames/s");
        assert_eq!(show(0.12345, ""), "0.123");
    }
}
