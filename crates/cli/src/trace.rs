// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux trace`

use crate::args::Trace;
use crate::{Failure, Outcome};
use nix::sys::signal::{self, SigHandler, Signal};
use qlinux::intf::TraceRecord;
use qlinux::trace::Kind;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const HEADER: &str = "time_ns,kind,cpu,tid,class,node,leaf,length_ns,start_tag,weight";

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: i32) {
    STOP.store(true, Ordering::Relaxed);
}

pub fn trace(options: &Trace, json: bool) -> Outcome {
    write(options, json, HEADER, |more, line| {
        qlinux::trace::read(more, |record, class| {
            line(match json {
                true => json_line(record, class),
                false => csv_line(record, class),
            })
        })
    })
}

/// Whether there is still time.
type More<'a> = &'a dyn Fn() -> bool;
/// Writes a line.
type Line<'a> = &'a mut dyn FnMut(String) -> Result<(), Stopped>;

/// Where the options say, the lines that `read` gives, below a header unless they are JSON.
pub fn write(
    options: &Trace,
    json: bool,
    header: &str,
    read: impl FnOnce(More, Line) -> Result<(), Stopped>,
) -> Outcome {
    let name = options
        .output
        .as_ref()
        .map_or("standard output".to_string(), |path| {
            path.display().to_string()
        });
    let failed = |e: io::Error| {
        Failure::refused(format!(
            "writing the trace to {name} failed: {e}; see that there is room"
        ))
    };
    let mut out: Box<dyn Write> = match &options.output {
        Some(path) => Box::new(BufWriter::new(File::create(path).map_err(failed)?)),
        None => Box::new(BufWriter::new(io::stdout())),
    };
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler only stores to an atomic.
        let _ = unsafe { signal::signal(signal, SigHandler::Handler(stop)) };
    }
    let started = Instant::now();
    let more =
        || !STOP.load(Ordering::Relaxed) && options.duration.is_none_or(|d| started.elapsed() < d);
    if !json {
        writeln!(out, "{header}").map_err(failed)?;
    }
    let result = read(&more, &mut |line| {
        writeln!(out, "{line}").map_err(Stopped::Write)
    });
    match result {
        Ok(()) => out.flush().map_err(failed)?,
        Err(Stopped::Write(e)) if e.kind() == io::ErrorKind::BrokenPipe => {}
        Err(Stopped::Write(e)) => return Err(failed(e)),
        Err(Stopped::Refused(e)) => return Err(e.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a trace ended early.
pub enum Stopped {
    Write(io::Error),
    Refused(qlinux::Error),
}

impl From<qlinux::Error> for Stopped {
    fn from(e: qlinux::Error) -> Stopped {
        Stopped::Refused(e)
    }
}

fn kind(record: &TraceRecord) -> &'static str {
    Kind::of(record).map_or("unknown", Kind::name)
}

/// A field of CSV.
pub fn field(text: &str) -> String {
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

fn csv_line(r: &TraceRecord, class: &str) -> String {
    format!(
        "{},{},{},{},{},{},{},{},{},{}",
        r.time_ns,
        kind(r),
        r.cpu,
        r.tid,
        field(class),
        r.node,
        r.leaf,
        r.length_ns,
        r.start_tag,
        r.weight
    )
}

fn json_line(r: &TraceRecord, class: &str) -> String {
    serde_json::json!({
        "time_ns": r.time_ns, "kind": kind(r), "cpu": r.cpu, "tid": r.tid, "class": class, "node": r.node,
        "leaf": r.leaf, "length_ns": r.length_ns, "start_tag": r.start_tag, "weight": r.weight,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_columns_of_the_header() {
        let mut record = TraceRecord {
            time_ns: 9,
            length_ns: 7,
            start_tag: 5,
            leaf: 3,
            node: 2,
            tid: 11,
            cpu: 1,
            kind: 1,
            weight: 100,
            pad: 0,
        };
        assert_eq!(csv_line(&record, "/a"), "9,quantum,1,11,/a,2,3,7,5,100");
        assert_eq!(
            csv_line(&record, "/a").split(',').count(),
            HEADER.split(',').count()
        );
        record.kind = 4;
        assert_eq!(
            csv_line(&record, "/a,\"b"),
            "9,weight,1,11,\"/a,\"\"b\",2,3,7,5,100"
        );
        let value: serde_json::Value = serde_json::from_str(&json_line(&record, "/a")).unwrap();
        assert_eq!(
            (value["weight"].as_u64(), value["length_ns"].as_u64()),
            (Some(100), Some(7))
        );
    }
}
