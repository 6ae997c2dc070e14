// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests with the shape of the ClarkNet logs.
//!
//! The QLinux paper replays logs of ClarkNet's server (Internet Traffic Archive: 3,328,587 requests from August 28
//! to September 10, 1995, to the second). They are not shipped here. What is known of them is:
//!
//! | | Here | Source |
//! |---|---|---|
//! | popularity | Zipf: the file of rank r is asked for in proportion to 1/r | Arlitt and Williamson, SIGMETRICS'96 (10 % of the files have 90 % of the requests); Barford and Crovella, SIGMETRICS'98 |
//! | size of a file | lognormal, μ 9.357, σ 1.318, and 7 % of the files Pareto from 133,000 bytes on, α 1.1 | Barford and Crovella, table 1 |
//! | requests of a page view | Pareto from 1 on, α 2.43 | the same |
//! | time | a day's curve, least at night: 1 - ½ cos | Arlitt and Williamson; ClarkNet's own figures |
//!
//! Time is compressed: the day takes as long as the run, and the rate is what gives the wanted load in bytes. Files
//! end at half a megabyte, or a run of seconds would be about its longest file.

use std::f64::consts::TAU;
use std::fmt::Write;
use std::time::Duration;

const FILES: usize = 300;
const BODY_MU: f64 = 9.357;
const BODY_SIGMA: f64 = 1.318;
const TAIL_PART: f64 = 0.07;
const TAIL_FROM: f64 = 133_000.0;
const TAIL_ALPHA: f64 = 1.1;
const LONGEST: f64 = 500_000.0;
const VIEW_ALPHA: f64 = 2.43;
/// Requests of a page view, at most.
const VIEW_MOST: f64 = 20.0;
/// Between two requests of a page view.
const WITHIN_VIEW_S: f64 = 0.02;

/// A site: its files and who asks for them.
pub struct Site {
    /// Bytes of each file, the most popular first.
    pub files: Vec<u64>,
    /// (seconds, file), in the order of time.
    pub requests: Vec<(f64, usize)>,
}

/// Pareto from 1 on.
fn pareto(random: &mut fastrand::Rng, alpha: f64) -> f64 {
    (1.0 - random.f64()).powf(-1.0 / alpha)
}

fn size(random: &mut fastrand::Rng) -> f64 {
    if random.f64() < TAIL_PART {
        return TAIL_FROM * pareto(random, TAIL_ALPHA);
    }
    // Box and Muller.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    let normal = radius * (TAU * random.f64()).cos();
    (BODY_MU + BODY_SIGMA * normal).exp()
}

impl Site {
    /// A site that is asked for `bits` in a second on average, over `length`.
    pub fn new(seed: u64, bits: f64, length: Duration) -> Site {
        let mut random = fastrand::Rng::with_seed(seed);
        let files: Vec<u64> = (0..FILES)
            .map(|_| size(&mut random).clamp(100.0, LONGEST) as u64)
            .collect();
        let mut sum = 0.0;
        let ranks: Vec<f64> = (1..=FILES)
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        let length = length.as_secs_f64();
        let wanted = bits / 8.0 * length;
        let (mut requests, mut bytes) = (Vec::new(), 0.0);
        while bytes < wanted {
            let begin = moment(&mut random) * length;
            let count = pareto(&mut random, VIEW_ALPHA).min(VIEW_MOST) as usize;
            for index in 0..count {
                let at = random.f64() * sum;
                let file = ranks.partition_point(|&rank| rank < at).min(FILES - 1);
                requests.push((begin + WITHIN_VIEW_S * index as f64, file));
                bytes += files[file] as f64;
            }
        }
        requests.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Site { files, requests }
    }
}

/// A moment of the day, 0 to 1: by rejection, as likely as the day's curve is high.
fn moment(random: &mut fastrand::Rng) -> f64 {
    loop {
        let at = random.f64();
        if 1.5 * random.f64() < 1.0 - 0.5 * (TAU * at).cos() {
            return at;
        }
    }
}

/// The lines that `qlinux-work web-client` takes, of sites by their ports.
pub fn trace(sites: &[(u16, &Site)]) -> String {
    let mut all: Vec<(f64, u16, usize)> = Vec::new();
    for (port, site) in sites {
        all.extend(site.requests.iter().map(|(at, file)| (*at, *port, *file)));
    }
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut text = String::new();
    for (at, port, file) in all {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {port} /{port}/{file}", (at * 1e6) as u64);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_the_requests() {
        let length = Duration::from_secs(100);
        let site = Site::new(1, 5e6, length);
        let bytes: u64 = site
            .requests
            .iter()
            .map(|(_, file)| site.files[*file])
            .sum();
        let wanted = 5e6 / 8.0 * 100.0;
        assert!((bytes as f64 / wanted - 1.0).abs() < 0.1, "{bytes}");
        // A tenth of the files has most of the requests; noon is busier than midnight.
        let popular = site.requests.iter().filter(|(_, file)| *file < FILES / 10);
        assert!(popular.count() * 10 > site.requests.len() * 6);
        let within = |from: f64, to: f64| {
            let some = site
                .requests
                .iter()
                .filter(|(at, _)| (from..to).contains(at));
            some.count()
        };
        assert!(within(40.0, 60.0) > 2 * (within(0.0, 10.0) + within(90.0, 100.0)));
        let trace = trace(&[(8081, &site)]);
        assert_eq!(trace.lines().count(), site.requests.len());
    }
}
