// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a disk served, by its own record.

use crate::net::Span;
use anyhow::{ensure, Context, Result};
use std::ops::Range;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// CLOCK_MONOTONIC: the disk began with it.
    pub begin_ns: u64,
    /// It was done.
    pub end_ns: u64,
    /// r, w, d (discard) or f (flush).
    pub op: char,
    /// Where it begins, in sectors of 512 bytes.
    pub sector: u64,
    /// Its length.
    pub sectors: u64,
}

impl Served {
    /// From a line of the record.
    fn parse(line: &str) -> Option<Served> {
        let mut words = line.split_whitespace();
        let mut number = || words.next()?.parse().ok();
        let (begin_ns, end_ns) = (number()?, number()?);
        let op = words.next()?.chars().next()?;
        let mut number = || words.next()?.parse().ok();
        Some(Served {
            begin_ns,
            end_ns,
            op,
            sector: number()?,
            sectors: number()?,
        })
    }

    /// What of its service was in the span.
    fn time_ns(&self, span: Span) -> u64 {
        let begin_ns = self.begin_ns.max(span.begin_ns);
        self.end_ns.min(span.end_ns).saturating_sub(begin_ns)
    }
}

/// A part of a disk, in sectors.
pub type Area = Range<u64>;

/// The requests of one stretch.
pub struct Record {
    /// As they were done.
    pub served: Vec<Served>,
    /// When that was.
    pub span: Span,
    /// The longest service of a request, of any area and also before the span, in nanoseconds: who was
    /// served for long waits for long.
    pub longest_ns: u64,
}

impl Record {
    /// From the disk's own text, which has the last `kept` requests.
    pub fn parse(text: &str, span: Span, kept: usize) -> Result<Record> {
        let damaged = |line: &str| format!("the disk's record is damaged: {line}");
        let line = |line: &str| Served::parse(line).with_context(|| damaged(line));
        let mut served = text.lines().map(line).collect::<Result<Vec<_>>>()?;
        let oldest_ns = served.first().map_or(0, |first| first.begin_ns);
        ensure!(
            served.len() < kept || oldest_ns <= span.begin_ns,
            "the disk served more requests than it keeps a record of: measure a shorter time"
        );
        let longest_ns = served.iter().map(|one| one.end_ns - one.begin_ns).max();
        served.retain(|one| one.end_ns > span.begin_ns && one.begin_ns < span.end_ns);
        Ok(Record {
            served,
            span,
            longest_ns: longest_ns.unwrap_or(0),
        })
    }

    /// Those that began in an area.
    pub fn of<'a>(&'a self, area: &'a Area) -> impl Iterator<Item = &'a Served> {
        self.served
            .iter()
            .filter(|one| one.op != 'f' && area.contains(&one.sector))
    }

    /// How long the disk served the area in a stretch: of several requests at a time the sum.
    pub fn time_ns(&self, area: &Area, span: Span) -> u64 {
        self.of(area).map(|one| one.time_ns(span)).sum()
    }

    /// The area's part of the time in which the disk served any of `areas`.
    pub fn share(&self, area: &Area, areas: &[Area], span: Span) -> f64 {
        let all: u64 = areas.iter().map(|one| self.time_ns(one, span)).sum();
        self.time_ns(area, span) as f64 / all as f64
    }

    /// How many requests of the area were done.
    pub fn count(&self, area: &Area) -> usize {
        self.of(area)
            .filter(|one| one.end_ns <= self.span.end_ns)
            .count()
    }

    /// The part of the time in which the disk served something.
    pub fn busy(&self) -> f64 {
        let mut served: Vec<(u64, u64)> = self
            .served
            .iter()
            .map(|one| (one.begin_ns, one.end_ns))
            .collect();
        served.sort_unstable();
        let (mut known_ns, mut busy_ns) = (self.span.begin_ns, 0);
        for (begin_ns, end_ns) in served {
            let end_ns = end_ns.min(self.span.end_ns);
            busy_ns += end_ns.saturating_sub(begin_ns.max(known_ns));
            known_ns = known_ns.max(end_ns);
        }
        busy_ns as f64 / (self.span.end_ns - self.span.begin_ns) as f64
    }

    /// The longest time in which nothing of the area was served, in nanoseconds.
    pub fn gap_ns(&self, area: &Area) -> u64 {
        let ends = [(self.span.end_ns, self.span.end_ns)];
        let served = self.of(area).map(|one| (one.begin_ns, one.end_ns));
        let mut last_ns = self.span.begin_ns;
        let mut longest = 0;
        for (begin_ns, end_ns) in served.chain(ends) {
            longest = longest.max(begin_ns.saturating_sub(last_ns));
            last_ns = last_ns.max(end_ns);
        }
        longest
    }

    /// All stretches of `length_ns`, one every `step_ns`.
    pub fn windows(&self, length_ns: u64, step_ns: u64) -> impl Iterator<Item = Span> + '_ {
        let begins = (self.span.begin_ns..).step_by(step_ns as usize);
        begins
            .map(move |begin_ns| Span::from(begin_ns, length_ns))
            .take_while(|span| span.end_ns <= self.span.end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "100 200 r 0 8 0\n200 260 w 1000 8 0\n300 400 r 8 8 0\n400 410 f 0 0 0\n\
                        410 500 r 2000 8 0\n";

    #[test]
    fn times_and_counts() {
        let record = Record::parse(TEXT, Span::from(150, 300), 9).unwrap();
        let areas = [0..1000, 1000..3000];
        assert_eq!(record.served.len(), 5);
        assert_eq!(record.time_ns(&areas[0], record.span), 150);
        assert_eq!(record.time_ns(&areas[1], record.span), 100);
        assert_eq!(record.share(&areas[0], &areas, record.span), 0.6);
        assert_eq!(record.share(&areas[0], &areas, Span::from(200, 100)), 0.0);
        assert_eq!(areas.map(|area| record.count(&area)), [2, 1]);
        assert!((record.busy() - 260.0 / 300.0).abs() < 1e-9);
        assert_eq!(record.windows(100, 50).count(), 5);
    }

    #[test]
    fn gaps() {
        let record = Record::parse(TEXT, Span::from(0, 600), 9).unwrap();
        assert_eq!(record.gap_ns(&(0..1000)), 200, "from 400 to the end");
        assert_eq!(record.gap_ns(&(1000..3000)), 200, "from 0 to 200");
        assert_eq!(record.gap_ns(&(5000..6000)), 600);
        assert_eq!(record.longest_ns, 100);
        let later = Record::parse(TEXT, Span::from(405, 100), 9).unwrap();
        assert_eq!(later.longest_ns, 100, "from 300 to 400, before the span");
    }

    #[test]
    fn records_that_will_not_do() {
        let parse = |text, kept| Record::parse(text, Span::from(50, 600), kept);
        assert!(parse("1 2 r x 8 0", 9).is_err());
        assert!(parse(TEXT, 5).is_err(), "older ones may have been there");
        assert!(Record::parse(TEXT, Span::from(150, 10), 5).is_ok());
    }
}
