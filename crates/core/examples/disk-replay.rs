// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves what the test disk of the guest recorded (kernel/testdisk) once more on the disk of the
//! simulations: each request must take the same time to the nanosecond, and begin when the one
//! before has ended.
//!
//! Of a parallel disk the record must be all that it served, one request after the other.
//!
//!   disk-replay turning|flat|parallel|card [SECTORS] <record

use qlinux_core::cello::Request;
use qlinux_core::disk::{Disk, Flash, Shape};
use std::process::ExitCode;

/// A line of the record: "begin_ns end_ns op sector sectors status".
struct Line {
    begin_ns: u64,
    end_ns: u64,
    op: char,
    sector: u64,
    sectors: u32,
    answered: bool,
}

impl Line {
    fn parse(line: &str) -> Option<Line> {
        let mut words = line.split(' ');
        let line = Line {
            begin_ns: words.next()?.parse().ok()?,
            end_ns: words.next()?.parse().ok()?,
            op: words.next()?.parse().ok()?,
            sector: words.next()?.parse().ok()?,
            sectors: words.next()?.parse().ok()?,
            answered: words.next()? != "timeout",
        };
        words.next().is_none().then_some(line)
    }

    fn moves(&self) -> bool {
        self.answered && matches!(self.op, 'r' | 'w')
    }

    /// What the disk takes for it.
    fn serve(&self, disk: &mut Disk, shape: &Shape) -> u64 {
        if !self.answered {
            return 0;
        }
        if !self.moves() {
            return shape.overhead_ns;
        }
        disk.serve(&self.request(), self.begin_ns)
    }

    fn request(&self) -> Request {
        Request {
            sector: self.sector,
            sectors: self.sectors,
            writes: self.op == 'w',
            sync: true,
            deadline_ns: 0,
        }
    }
}

/// How many requests were found as they should be.
fn replay(record: &str, shape: Shape) -> Result<usize, String> {
    let mut disk = Disk::new(shape);
    let mut arm_known = false;
    let mut ended_ns = 0;
    let mut seen = 0;
    for text in record.lines() {
        let line = Line::parse(text).ok_or_else(|| format!("'{text}' is no line of a record"))?;
        if line.begin_ns < ended_ns {
            return Err(format!("'{text}' begins before {ended_ns}"));
        }
        let time_ns = line.serve(&mut disk, &shape);
        let took_ns = line.end_ns - line.begin_ns;
        // A record does not say where the arm was before.
        if (arm_known || !line.moves()) && took_ns != time_ns {
            return Err(format!("'{text}' took {took_ns} ns instead of {time_ns}"));
        }
        arm_known |= line.moves();
        ended_ns = line.end_ns;
        seen += 1;
    }
    Ok(seen)
}

/// The same of a disk of several channels.
fn replay_flash(record: &str, shape: Shape) -> Result<usize, String> {
    let mut flash = Flash::new(&shape);
    let mut seen = 0;
    for text in record.lines() {
        let line = Line::parse(text).ok_or_else(|| format!("'{text}' is no line of a record"))?;
        let served = match line.moves() {
            true => flash.serve(&line.request(), line.begin_ns),
            false => (line.begin_ns, line.begin_ns + shape.overhead_ns),
        };
        if served != (line.begin_ns, line.end_ns) {
            return Err(format!("'{text}' instead of {served:?}"));
        }
        seen += 1;
    }
    Ok(seen)
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let shape = match args.next().as_deref() {
        Some("turning") => Shape::TURNING,
        Some("flat") => Shape::FLAT,
        Some("parallel") => Shape::PARALLEL,
        Some("card") => Shape::CARD,
        _ => {
            eprintln!("usage: disk-replay turning|flat|parallel|card [SECTORS] <record");
            return ExitCode::from(2);
        }
    };
    let sectors = args.next().map(|word| word.parse().expect("a number"));
    let shape = Shape {
        sectors: sectors.unwrap_or(shape.sectors),
        ..shape
    };
    let record = std::io::read_to_string(std::io::stdin()).expect("a record");
    let found = match shape.channels {
        1 => replay(&record, shape),
        _ => replay_flash(&record, shape),
    };
    match found {
        Ok(seen) => {
            println!("{seen}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
