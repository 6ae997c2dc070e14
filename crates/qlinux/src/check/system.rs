// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine, by the files below its root: configuration, mounts, namespaces, distribution.

use super::Verdict;
use crate::features::Features;
use flate2::read::GzDecoder;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Inode numbers of the namespaces that every kernel starts with.
const INITIAL: [(&str, &str); 3] = [
    ("user", "user:[4026531837]"),
    ("pid", "pid:[4026531836]"),
    ("cgroup", "cgroup:[4026531835]"),
];

/// Capabilities, by the numbers of their bits.
pub const CAP_SYS_ADMIN: u32 = 21;
pub const CAP_PERFMON: u32 = 38;
pub const CAP_BPF: u32 = 39;

type Config = HashMap<String, String>;

/// What is read is read once, and only when it is asked for.
pub struct System {
    pub root: PathBuf,
    config: OnceCell<Option<Config>>,
    features: OnceCell<Features>,
}

impl System {
    pub fn new(root: impl Into<PathBuf>) -> System {
        System {
            root: root.into(),
            config: OnceCell::new(),
            features: OnceCell::new(),
        }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub fn text(&self, path: &str) -> Option<String> {
        fs::read(self.path(path))
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).trim().to_string())
    }

    pub fn release(&self) -> String {
        self.text("/proc/sys/kernel/osrelease")
            .unwrap_or_else(|| "?".into())
    }

    pub fn features(&self) -> &Features {
        if self.root == Path::new("/") {
            return Features::here();
        }
        self.features
            .get_or_init(|| Features::probe(&self.root, !self.preempt_rt()))
    }

    fn config(&self) -> Option<&Config> {
        self.config.get_or_init(|| self.read_config()).as_ref()
    }

    fn read_config(&self) -> Option<Config> {
        let release = self.release();
        let plain = [
            format!("/boot/config-{release}"),
            format!("/lib/modules/{release}/config"),
        ];
        let text = plain.iter().find_map(|path| self.text(path)).or_else(|| {
            let mut text = String::new();
            let file = fs::File::open(self.path("/proc/config.gz")).ok()?;
            GzDecoder::new(file)
                .read_to_string(&mut text)
                .ok()
                .map(|_| text)
        })?;
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Some(
            lines
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        )
    }

    /// Verdict and words for an option of the kernel's configuration. Where that is not
    /// readable, the kernel's types may tell.
    pub fn option(&self, name: &str) -> (Verdict, String) {
        let Some(config) = self.config() else {
            return match self.features().option(name) {
                Some(true) => (Verdict::Yes, format!("{name}, by the kernel's types")),
                Some(false) => (
                    Verdict::No,
                    format!("the kernel's types are those of one without {name}"),
                ),
                None => (
                    Verdict::Unknown,
                    format!("{name} is not known: the kernel's configuration is not readable"),
                ),
            };
        };
        match config.get(name).map(String::as_str) {
            Some(value @ ("y" | "m")) => (Verdict::Yes, format!("{name}={value}")),
            _ => (Verdict::No, format!("{name} is not set")),
        }
    }

    /// The kernel names itself so; one that does not may be of before it did.
    pub fn preempt_rt(&self) -> bool {
        let named = self.text("/proc/sys/kernel/version");
        self.text("/sys/kernel/realtime").as_deref() == Some("1")
            || match named {
                Some(words) => words.split_whitespace().any(|word| word == "PREEMPT_RT"),
                None => self
                    .config()
                    .is_some_and(|c| c.get("CONFIG_PREEMPT_RT").is_some_and(|v| v == "y")),
            }
    }

    /// Namespaces of this process that are not the machine's own; `None`: not told.
    pub fn contained(&self) -> Option<Vec<&'static str>> {
        let mut inside = Vec::new();
        for (kind, initial) in INITIAL {
            let link = fs::read_link(self.path(&format!("/proc/self/ns/{kind}"))).ok()?;
            if link.to_str() != Some(initial) {
                inside.push(kind);
            }
        }
        Some(inside)
    }

    /// Effective capabilities; `None`: not told.
    pub fn capabilities(&self) -> Option<u64> {
        let status = self.text("/proc/self/status")?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    }

    /// The mode of lockdown that is on, if the kernel knows any.
    pub fn lockdown(&self) -> Option<String> {
        let modes = self.text("/sys/kernel/security/lockdown")?;
        let on = modes.split_whitespace().find(|mode| mode.starts_with('['));
        on.map(|mode| mode.trim_matches(['[', ']']).to_string())
    }

    /// Where to get a kernel with sched_ext.
    pub fn kernel_remedy(&self) -> String {
        let os = self.text("/etc/os-release").unwrap_or_default();
        let field = |name: &str| {
            let value = os.lines().find_map(|line| line.strip_prefix(name));
            value.map(|value| value.trim_matches('"'))
        };
        let trixie = field("ID=") == Some("debian") && field("VERSION_ID=") == Some("13");
        if trixie && !self.release().contains("bpo") && self.release().contains("deb13") {
            let package = match std::env::consts::ARCH {
                "x86_64" => "linux-image-amd64",
                "aarch64" => "linux-image-arm64",
                other => return format!("Debian 13's own kernel has it switched off; take linux-image of trixie-backports for {other}"),
            };
            return format!("Debian 13's own kernel has it switched off; take the one of trixie-backports with `apt install -t trixie-backports {package}` and boot it");
        }
        "boot a kernel of 6.12 or newer that was built with CONFIG_SCHED_CLASS_EXT=y".into()
    }
}
