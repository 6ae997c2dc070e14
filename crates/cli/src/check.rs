// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux check`

use crate::{print, print_json, Outcome};
use anstyle::{AnsiColor, Style};
use qlinux::check::{Item, Resource, Verdict};
use std::fmt::Write;
use std::process::ExitCode;

pub fn check(json: bool) -> Outcome {
    let report = qlinux::check::run();
    if json {
        print_json(&report)?;
    } else {
        let mut text = format!("Kernel {}\n", report.kernel);
        for (resource, title) in [
            (Resource::Cpu, "CPU (qlinux up cpu)"),
            (Resource::Link, "Links (qlinux up link)"),
            (Resource::Disk, "Disks (qlinux up disk)"),
        ] {
            let _ = writeln!(text, "\n{title}");
            for item in report.items.iter().filter(|item| item.resource == resource) {
                line(&mut text, item);
            }
        }
        print(&text)?;
    }
    Ok(if report.usable(Resource::Cpu) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn line(text: &mut String, item: &Item) {
    let (word, colour) = match item.verdict {
        Verdict::Yes => ("yes", AnsiColor::Green),
        Verdict::Limited => ("limited", AnsiColor::Yellow),
        Verdict::No => ("NO", AnsiColor::Red),
        Verdict::Unknown => ("unknown", AnsiColor::Yellow),
    };
    let style = Style::new().fg_color(Some(colour.into()));
    let _ = writeln!(
        text,
        "  {style}{word:<8}{style:#}{:<30}  {}",
        item.what, item.found
    );
    if !item.remedy.is_empty() {
        let _ = writeln!(text, "  {:<8}-> {}", "", item.remedy);
    }
}
