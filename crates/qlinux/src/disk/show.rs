// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk with the shares of its classes.

use super::group::{self, Group};
use super::{Attributes, Class, ClassCounts, Counts, Disk};
use crate::Result;
use std::time::{Duration, Instant};

/// A class of a disk.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Row {
    /// Which.
    pub class: Class,
    /// Its weight.
    pub weight: u32,
    /// The share of the disk's time that its weight guarantees while all classes have requests.
    pub entitled: f64,
    /// The share that it got of the time for requests with a class; `None`: there were none.
    pub received: Option<f64>,
    /// In the interval, or since the start.
    #[serde(flatten)]
    pub counts: ClassCounts,
}

/// A disk under Cello.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Shown {
    /// Its name.
    pub device: String,
    /// How it is.
    #[serde(flatten)]
    pub attributes: Attributes,
    /// For how long it was looked at; `None`: the counts are those since the start.
    pub interval_s: Option<f64>,
    /// In the interval, or since the start.
    #[serde(flatten)]
    pub counts: Counts,
    /// By class.
    pub classes: Vec<Row>,
    /// Cgroups with a class, or that were served, with their service since the start.
    pub cgroups: Vec<Group>,
}

impl Disk {
    /// What its classes are entitled to, and got: during an interval that begins now, or since
    /// the start.
    pub fn show(&self, interval: Option<Duration>) -> Result<Shown> {
        self.require_cello()?;
        let (counts, interval_s) = match interval {
            None => (self.counts()?, None),
            Some(interval) => {
                let (before, begin) = (self.counts()?, Instant::now());
                std::thread::sleep(interval);
                let counts = difference(&self.counts()?, &before);
                (counts, Some(begin.elapsed().as_secs_f64()))
            }
        };
        let attributes = self.attributes()?;
        Ok(Shown {
            device: self.name().into(),
            classes: rows(&attributes, &counts),
            attributes,
            interval_s,
            counts,
            cgroups: group::of_disk(self),
        })
    }
}

/// What came in between; a disk that was started anew meanwhile began at 0.
fn difference(after: &Counts, before: &Counts) -> Counts {
    let since = |after: u64, before: u64| after.checked_sub(before).unwrap_or(after);
    let mut classes = after.classes;
    for (class, before) in classes.iter_mut().zip(before.classes) {
        class.requests = since(class.requests, before.requests);
        class.time_us = since(class.time_us, before.time_us);
    }
    Counts {
        rounds: since(after.rounds, before.rounds),
        bypassed: since(after.bypassed, before.bypassed),
        error_us: after.error_us,
        in_flight_now: after.in_flight_now,
        lanes: after.lanes,
        realtime_late: since(after.realtime_late, before.realtime_late),
        realtime_broken: since(after.realtime_broken, before.realtime_broken),
        classes,
    }
}

fn rows(attributes: &Attributes, counts: &Counts) -> Vec<Row> {
    let weights: u32 = attributes.weights.iter().sum();
    let time: u64 = counts.classes.iter().map(|class| class.time_us).sum();
    Class::THREE
        .into_iter()
        .map(|class| {
            let weight = attributes.weights[class as usize];
            let of_class = counts.classes[class as usize];
            Row {
                class,
                weight,
                entitled: f64::from(weight) / f64::from(weights.max(1)),
                received: (time > 0).then(|| of_class.time_us as f64 / time as f64),
                counts: of_class,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(requests: u64, times: [u64; 3]) -> Counts {
        Counts {
            bypassed: requests,
            classes: times.map(|time_us| ClassCounts {
                requests,
                time_us,
                waiting: 3,
            }),
            ..Counts::default()
        }
    }

    #[test]
    fn shares() {
        let attributes = Attributes {
            round_us: 1,
            weights: [100, 300, 0],
            in_flight: 1,
            in_flight_us: 0,
            deadline_ms: 100,
            unclassified: Class::Throughput,
        };
        let between = difference(&counts(9, [40, 70, 0]), &counts(4, [30, 40, 0]));
        assert_eq!(between.bypassed, 5);
        assert_eq!(between.classes[0].waiting, 3);
        let all = rows(&attributes, &between);
        assert_eq!((all[0].entitled, all[0].received), (0.25, Some(0.25)));
        assert_eq!((all[1].entitled, all[1].received), (0.75, Some(0.75)));
        assert_eq!((all[2].entitled, all[2].received), (0.0, Some(0.0)));
        assert_eq!(all[2].counts.requests, 5);
        let idle = difference(&counts(4, [1; 3]), &counts(4, [1; 3]));
        assert_eq!(rows(&attributes, &idle)[0].received, None);
        // Started anew meanwhile.
        assert_eq!(
            difference(&counts(2, [5; 3]), &counts(4, [9; 3])).classes[0].time_us,
            5
        );
    }
}
