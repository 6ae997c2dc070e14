// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux reserve`

use crate::args::Reserve;
use crate::{print, print_json, Outcome};
use qlinux::admit::{Answer, Test};
use qlinux::class::Classes;
use qlinux::reserve::{explain, shown, Reservation};
use qlinux::ClassPath;
use std::process::ExitCode;

pub fn reserve(what: &Reserve, json: bool) -> Outcome {
    let classes = match what.dry_run {
        true => Classes::open()?,
        false => Classes::lock()?,
    };
    let (path, _) = classes.thread(what.thread)?;
    let Some(wanted) = what.reservation else {
        classes.reserve(what.thread, None, false)?;
        let removed =
            || serde_json::json!({ "thread": what.thread, "class": path, "reservation": null });
        return if json {
            print_json(&removed())
        } else {
            Ok(ExitCode::SUCCESS)
        };
    };
    let (answer, all) = classes.admit(&path, what.thread, Some(wanted))?;
    if !what.dry_run {
        // Says no in a sentence of its own.
        classes.reserve(what.thread, Some(wanted), what.force)?;
    }
    if json {
        let threads: Vec<_> = all
            .iter()
            .zip(&answer.response_ns)
            .map(|((tid, r), response_ns)| {
                serde_json::json!({ "thread": tid, "reservation": r, "response_ns": response_ns })
            })
            .collect();
        print_json(&serde_json::json!({
            "thread": what.thread, "class": path, "reservation": wanted, "reserved": !what.dry_run,
            "answer": answer, "threads": threads,
        }))?;
    } else if what.dry_run {
        print(&numbers(&path, wanted, &answer, &all))?;
    }
    let refused = what.dry_run && !answer.admitted;
    Ok(ExitCode::from(u8::from(refused)))
}

/// The answer with the numbers behind it.
fn numbers(
    path: &ClassPath,
    wanted: Reservation,
    answer: &Answer,
    all: &[(i32, Reservation)],
) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let verdict = if answer.admitted {
        "fits"
    } else {
        "does not fit"
    };
    let mut text = format!("{wanted} {verdict} into class {path}\n");
    text += &format!(
        "guaranteed  {} of a CPU, up to {} late\nreserved    {}",
        percent(answer.share),
        shown(answer.delay_ns),
        percent(answer.utilisation)
    );
    if answer.test == Test::Rm {
        text += &format!(" (without further test up to {})", percent(answer.bound));
    }
    text.push('\n');
    for ((tid, r), response) in all.iter().zip(&answer.response_ns) {
        text += &format!("thread      {tid} {r}");
        if let Some(ns) = response {
            text += &format!(", done within {}", shown(*ns));
        }
        text.push('\n');
    }
    if !answer.admitted {
        text += &format!("because     {}\n", explain(answer, all));
    }
    text
}
