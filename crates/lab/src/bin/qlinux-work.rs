// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workloads of the experiments.

use clap::Parser;

#[derive(Parser)]
#[command(version, about = "Runs a workload until it is ended")]
struct Args {
    #[command(subcommand)]
    work: qlinux_lab::work::Work,
}

fn main() -> anyhow::Result<()> {
    qlinux_lab::work::run(&Args::parse().work)
}
