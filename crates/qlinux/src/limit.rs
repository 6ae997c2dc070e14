// SPDX-License-Identifier: MIT OR Apache-2.0
//! The most a class may have: `cpu.max`.

use crate::reserve::{shown, time};
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The kernel's period unless told otherwise.
const PERIOD_US: u64 = 100_000;
/// The kernel's bounds of quotas and periods.
const LEAST_US: u64 = 1_000;
const PERIOD_MOST_US: u64 = 1_000_000;
const QUOTA_MOST_US: u64 = 1 << 43;

/// So much CPU time in every period, or as much as there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Max {
    /// No limit.
    None,
    /// Quota and period in microseconds.
    Quota(u64, u64),
}

impl Max {
    /// What a file `cpu.max` says.
    pub fn from_file(text: &str) -> Option<Max> {
        let (quota, period) = text.trim().split_once(' ')?;
        match quota {
            "max" => Some(Max::None),
            _ => Some(Max::Quota(quota.parse().ok()?, period.parse().ok()?)),
        }
    }

    /// What to write into one.
    pub fn to_file(self) -> String {
        match self {
            Max::None => "max".into(),
            Max::Quota(quota, period) => format!("{quota} {period}"),
        }
    }
}

/// A time as people write it, in microseconds.
fn micros(text: &str) -> Option<u64> {
    time(text.trim()).map(|ns| ns / 1000)
}

/// What may be kept of earlier quotas, besides one, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst(pub u64);

impl FromStr for Burst {
    type Err = Error;

    fn from_str(text: &str) -> Result<Burst> {
        let wrong = || Error::Burst {
            given: text.escape_debug().to_string(),
        };
        micros(text).map(Burst).ok_or_else(wrong)
    }
}

impl FromStr for Max {
    type Err = Error;

    fn from_str(text: &str) -> Result<Max> {
        let wrong = || Error::Max {
            given: text.escape_debug().to_string(),
        };
        let max = if text == "none" {
            return Ok(Max::None);
        } else if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| wrong())?;
            Max::Quota(
                (percent * PERIOD_US as f64 / 100.0).round() as u64,
                PERIOD_US,
            )
        } else {
            let (quota, period) = text.split_once('/').ok_or_else(wrong)?;
            let both = micros(quota).zip(micros(period));
            let (quota, period) = both.ok_or_else(wrong)?;
            Max::Quota(quota, period)
        };
        match max {
            Max::Quota(LEAST_US..=QUOTA_MOST_US, LEAST_US..=PERIOD_MOST_US) => Ok(max),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Max {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Max::None => f.write_str("none"),
            Max::Quota(quota, PERIOD_US) => {
                write!(f, "{} %", quota as f64 * 100.0 / PERIOD_US as f64)
            }
            Max::Quota(quota, period) => {
                write!(f, "{}/{}", shown(quota * 1000), shown(period * 1000))
            }
        }
    }
}

impl serde::Serialize for Max {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_times() {
        for (text, max) in [
            ("20%", Max::Quota(20_000, 100_000)),
            ("150%", Max::Quota(150_000, 100_000)),
            ("12.5%", Max::Quota(12_500, 100_000)),
            ("20ms/50ms", Max::Quota(20_000, 50_000)),
            ("2s/1s", Max::Quota(2_000_000, 1_000_000)),
            ("none", Max::None),
        ] {
            assert_eq!(text.parse::<Max>().unwrap(), max, "{text}");
            assert_eq!(
                Max::from_file(&format!("{} 100000", max.to_file())).is_some(),
                max == Max::None
            );
        }
        for wrong in [
            "", "20", "0%", "0.5%", "-5%", "x%", "nan%", "20ms", "20ms/2s", "1us/1ms", "max",
            "20ms/",
        ] {
            assert!(
                matches!(wrong.parse::<Max>(), Err(Error::Max { .. })),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_file_is_read_and_written() {
        assert_eq!(Max::from_file("max 100000\n"), Some(Max::None));
        assert_eq!(
            Max::from_file("20000 100000\n"),
            Some(Max::Quota(20_000, 100_000))
        );
        assert_eq!(Max::Quota(20_000, 100_000).to_file(), "20000 100000");
        assert_eq!(Max::Quota(20_000, 100_000).to_string(), "20 %");
        assert_eq!(Max::Quota(20_000, 50_000).to_string(), "20ms/50ms");
    }
}
