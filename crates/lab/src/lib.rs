// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads, the papers' experiments, their figures and the report.
//!
//! | Module | What it is |
//! |---|---|
//! | [`work`], [`counter`] | the workloads (`qlinux-work`) and the file in which each shows its progress |
//! | [`machine`], [`scene`] | classes and schedulers; workloads in classes; samples |
//! | [`net`] | a link between two network namespaces, shared by any side; what came over it |
//! | [`ideal`] | the share every class should have received |
//! | [`exp`] | the experiments, one file each |
//! | [`table`], [`figure`], [`manifest`], [`report`] | CSV, SVG, what a result stands on, the page of all results |
//! | [`guest`], [`cli`] | the guest, booted where this machine cannot run an experiment; `qlinux lab` |
//!
//! An experiment runs the same workload under the stock kernel and under QLinux
//! in the same boot, and measures steady state only: what happens while a load
//! starts or ends is not in the figures.

pub mod cli;
pub mod counter;
pub mod disk;
pub mod exp;
pub mod figure;
pub mod guest;
pub mod ideal;
pub mod machine;
pub mod manifest;
pub mod net;
pub mod report;
pub mod scene;
pub mod sys;
pub mod table;
pub mod work;
