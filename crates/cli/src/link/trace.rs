// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux link trace`

use super::args::TraceLink;
use crate::trace::{field, write};
use crate::Outcome;
use qlinux::link::intf::TraceRecord;
use qlinux::link::Link;

const HEADER: &str = "time_ns,kind,class,queue,line,arrived_ns,length";

pub fn trace(what: &TraceLink, json: bool) -> Outcome {
    let link = Link::open(&what.device)?;
    let before = link.trace_lost()?;
    let outcome = write(&what.trace, json, HEADER, |more, line| {
        link.trace(more, |record, class, queue| {
            line(match json {
                true => json_line(record, class, queue),
                false => csv_line(record, class, queue),
            })
        })
    })?;
    // A trace with gaps must not pass for a whole one; a link that has gone cannot be asked.
    let lost = link.trace_lost().unwrap_or(before) - before;
    if lost > 0 {
        eprintln!(
            "qlinux: {lost} packets are missing from the trace because its buffer was full: start the link with a larger one"
        );
    }
    Ok(outcome)
}

fn kind(r: &TraceRecord) -> &'static str {
    match r.dropped {
        0 => "sent",
        _ => "dropped",
    }
}

fn csv_line(r: &TraceRecord, class: &str, queue: &str) -> String {
    format!(
        "{},{},{},{},{},{},{}",
        r.time_ns,
        kind(r),
        field(class),
        field(queue),
        r.line,
        r.arrived_ns,
        r.length
    )
}

fn json_line(r: &TraceRecord, class: &str, queue: &str) -> String {
    serde_json::json!({
        "time_ns": r.time_ns, "kind": kind(r), "class": class, "queue": queue, "line": r.line,
        "arrived_ns": r.arrived_ns, "length": r.length,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_columns_of_the_header() {
        let record = TraceRecord {
            time_ns: 9,
            arrived_ns: 7,
            queue: 3,
            line: 5,
            length: 1514,
            dropped: 0,
        };
        let line = csv_line(&record, "/a", "b");
        assert_eq!(line, "9,sent,/a,b,5,7,1514");
        assert_eq!(line.split(',').count(), HEADER.split(',').count());
        let line = json_line(
            &TraceRecord {
                dropped: 1,
                ..record
            },
            "/a,x",
            "b",
        );
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (value["kind"].as_str(), value["class"].as_str()),
            (Some("dropped"), Some("/a,x"))
        );
    }
}
