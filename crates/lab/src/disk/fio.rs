// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio as the papers' IO_inf, and as what reads or writes one after the other.

use super::{Area, Disk};
use crate::scene::{Process, Scene};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};

/// Longer than any experiment, in seconds.
const FOR_EVER: u32 = 1_000_000;

/// One fio: clients that ask for the next as soon as they have one.
#[derive(Clone, Debug)]
pub struct Fio {
    /// fio's word: randread, read, write, randwrite.
    pub rw: &'static str,
    /// Bytes of a request.
    pub block: u64,
    /// Clients, each with one request at a time.
    pub clients: u32,
    /// Requests at a time of each client.
    pub depth: u32,
    /// Where on the disk.
    pub area: Area,
    /// Of random places.
    pub seed: u64,
}

impl Fio {
    /// The papers' IO_inf: so many clients who read 4 KB at random places.
    pub fn io_inf(clients: u32, area: &Area, seed: u64) -> Fio {
        Fio {
            rw: "randread",
            block: 4096,
            clients,
            depth: 1,
            area: area.clone(),
            seed,
        }
    }

    /// fio's words for it.
    fn args(&self, file: &Path) -> Vec<String> {
        let engine = if self.depth > 1 { "libaio" } else { "psync" };
        let size = (self.area.end - self.area.start) * 512;
        let mut args = vec![
            "--name=io-inf".to_owned(),
            format!("--filename={}", file.display()),
            format!("--rw={}", self.rw),
            format!("--bs={}", self.block),
            format!("--numjobs={}", self.clients),
            format!("--ioengine={engine}"),
            format!("--iodepth={}", self.depth),
            format!("--offset={}", self.area.start * 512),
            format!("--size={size}"),
            format!("--randseed={}", 1 + self.seed),
            format!("--runtime={FOR_EVER}"),
        ];
        // Without what fio does beside: asking the clock for its speed and the disk for its accounts.
        let rest = "--direct=1 --thread --time_based --norandommap --invalidate=0 --clocksource=clock_gettime \
                    --disk_util=0 --group_reporting --eta=never --output-format=json";
        args.extend(rest.split_whitespace().map(str::to_owned));
        args
    }

    /// Starts it in a class. It is ended with the process.
    pub fn start(&self, scene: &Scene, class: &str, disk: &Disk) -> Result<Process> {
        let mut command = Command::new("fio");
        command
            .args(self.args(disk.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Process::start(scene.classes(), class, command)
            .context("fio, which reads from the disk, is needed: install it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let args = Fio::io_inf(6, &(8..16), 1).args(Path::new("/dev/x"));
        for word in ["--numjobs=6", "--offset=4096", "--size=4096", "--bs=4096"] {
            assert!(args.iter().any(|arg| arg == word), "{word}: {args:?}");
        }
    }
}
