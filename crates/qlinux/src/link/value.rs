// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that people write: rates, disciplines, CoDel's goal.

use super::Refusal;
use std::fmt;
use std::str::FromStr;

/// Bits a second of a link; none: as fast as the device takes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(Option<u64>);

const RATE_BYTES: std::ops::RangeInclusive<u64> = 125..=125_000_000_000;
const UNITS: [(&str, f64); 5] = [
    ("tbit", 1e12),
    ("gbit", 1e9),
    ("mbit", 1e6),
    ("kbit", 1e3),
    ("bit", 1.0),
];

impl Rate {
    /// No rate of its own.
    pub const NONE: Rate = Rate(None);

    /// Checks the range of bytes a second, 0 for none.
    pub fn new(bytes: u64) -> Result<Rate, Refusal> {
        if bytes > 0 && !RATE_BYTES.contains(&bytes) {
            return Err(Refusal::Range {
                what: "rate",
                given: bytes.to_string(),
                range: "125 to 125000000000 bytes a second, or 0 for none",
            });
        }
        Ok(Rate::from_bytes(bytes))
    }

    /// From bytes a second, 0 for none.
    pub fn from_bytes(bytes: u64) -> Rate {
        Rate((bytes > 0).then_some(bytes))
    }

    /// Bytes a second, 0 for none.
    pub fn bytes(self) -> u64 {
        self.0.unwrap_or(0)
    }

    /// Bits a second.
    pub fn bits(self) -> Option<f64> {
        self.0.map(|bytes| bytes as f64 * 8.0)
    }
}

impl FromStr for Rate {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Rate, Refusal> {
        let refuse = || Refusal::Rate {
            given: text.escape_debug().to_string(),
        };
        let lower = text.to_ascii_lowercase();
        if lower == "none" {
            return Ok(Rate::NONE);
        }
        let (number, unit) = UNITS
            .iter()
            .find_map(|(unit, scale)| Some((lower.strip_suffix(unit)?, scale)))
            .ok_or_else(refuse)?;
        let number: f64 = number
            .trim_end()
            .parse()
            .ok()
            .filter(|_| number.starts_with(|c: char| c.is_ascii_digit()))
            .ok_or_else(refuse)?;
        let bytes = (number * unit / 8.0).round();
        if !(*RATE_BYTES.start() as f64..=*RATE_BYTES.end() as f64).contains(&bytes) {
            return Err(refuse());
        }
        Ok(Rate(Some(bytes as u64)))
    }
}

/// `20 Mbit/s`
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits() {
            None => f.pad("none"),
            Some(bits) => f.pad(&bits_per_second(bits)),
        }
    }
}

/// `20 Mbit/s`, with three digits.
pub fn bits_per_second(bits: f64) -> String {
    let (scale, unit) = match bits {
        b if b >= 0.9995e9 => (1e9, "Gbit/s"),
        b if b >= 0.9995e6 => (1e6, "Mbit/s"),
        b if b >= 0.9995e3 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    };
    let value = bits / scale;
    let digits = match value {
        v if v >= 99.95 || v == v.trunc() => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// In which order a leaf's packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Discipline {
    /// An inner class: no packets of its own.
    None,
    /// As they came.
    #[default]
    Fifo,
    /// Its queues by their weights.
    Sfq,
    /// The flows of its queues by their queues' weights.
    Fq,
}

impl Discipline {
    const NAMES: [(Discipline, &'static str); 4] = [
        (Discipline::None, "none"),
        (Discipline::Fifo, "fifo"),
        (Discipline::Sfq, "sfq"),
        (Discipline::Fq, "fq"),
    ];

    /// `enum link_discipline`
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The one with that number.
    pub fn from_number(number: u32) -> Option<Discipline> {
        Self::NAMES.get(number as usize).map(|(d, _)| *d)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

impl FromStr for Discipline {
    type Err = Refusal;

    fn from_str(name: &str) -> Result<Discipline, Refusal> {
        Self::NAMES
            .iter()
            .find(|(_, n)| *n == name)
            .map(|(d, _)| *d)
            .ok_or_else(|| Refusal::Discipline {
                given: name.escape_debug().to_string(),
            })
    }
}

impl serde::Serialize for Discipline {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// When a queue is taken for one that stands (RFC 8289); target 0: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Codel {
    /// Every packet waited longer than this,
    pub target_ns: u64,
    /// for so long.
    pub interval_ns: u64,
}

impl Codel {
    /// Standing queues are left alone.
    pub const OFF: Codel = Codel {
        target_ns: 0,
        interval_ns: 100_000_000,
    };
    const INTERVAL_MAX_NS: u64 = 10_000_000_000;

    /// Refuses what makes no sense.
    pub fn new(target_ns: u64, interval_ns: u64) -> Result<Codel, Refusal> {
        let codel = Codel {
            target_ns,
            interval_ns,
        };
        if target_ns == 0 && interval_ns == 0 {
            return Ok(Codel::OFF);
        }
        if (1..interval_ns).contains(&target_ns) && interval_ns <= Self::INTERVAL_MAX_NS {
            return Ok(codel);
        }
        Err(Refusal::Codel {
            given: codel.to_string(),
        })
    }
}

impl Default for Codel {
    fn default() -> Codel {
        Codel {
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
        }
    }
}

impl FromStr for Codel {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Codel, Refusal> {
        let refuse = || Refusal::Codel {
            given: text.escape_debug().to_string(),
        };
        if text == "off" {
            return Ok(Codel::OFF);
        }
        let (target, interval) = text.split_once('/').ok_or_else(refuse)?;
        let (target, interval) = (
            crate::reserve::time(target).ok_or_else(refuse)?,
            crate::reserve::time(interval).ok_or_else(refuse)?,
        );
        Codel::new(target, interval)
            .ok()
            .filter(|c| c.target_ns > 0)
            .ok_or_else(refuse)
    }
}

impl fmt::Display for Codel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target_ns {
            0 => f.pad("off"),
            _ => write!(
                f,
                "{}ms/{}ms",
                self.target_ns as f64 / 1e6,
                self.interval_ns as f64 / 1e6
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let bytes = |text: &str| text.parse::<Rate>().map(Rate::bytes).ok();
        assert_eq!(bytes("20mbit"), Some(2_500_000));
        assert_eq!(bytes("2.5Gbit"), Some(312_500_000));
        assert_eq!(bytes("1kbit"), Some(125));
        assert_eq!(bytes("8000bit"), Some(1000));
        assert_eq!(bytes("none"), Some(0));
        for wrong in [
            "", "0", "0mbit", "20", "-1mbit", "20mb", "mbit", "1e9mbit", "2tbit", "0.5kbit",
            "nanmbit", "infmbit", "+1mbit", "20 m bit",
        ] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        for (bytes, good) in [
            (0, true),
            (124, false),
            (125, true),
            (125_000_000_001, false),
        ] {
            assert_eq!(Rate::new(bytes).is_ok(), good, "{bytes}");
        }
        assert_eq!("20mbit".parse::<Rate>().unwrap().to_string(), "20 Mbit/s");
        assert_eq!(bits_per_second(6_666_666.7), "6.67 Mbit/s");
        assert_eq!(bits_per_second(999_999.9), "1.00 Mbit/s");
        assert_eq!(bits_per_second(123_456.0), "123 kbit/s");
    }

    #[test]
    fn disciplines() {
        for (discipline, name) in Discipline::NAMES {
            assert_eq!(name.parse::<Discipline>().unwrap(), discipline);
            assert_eq!(
                Discipline::from_number(discipline.number()),
                Some(discipline)
            );
        }
        assert!("ts".parse::<Discipline>().is_err());
    }

    #[test]
    fn goals() {
        assert_eq!("5ms/100ms".parse::<Codel>().unwrap(), Codel::default());
        assert_eq!("off".parse::<Codel>().unwrap(), Codel::OFF);
        for wrong in [
            "",
            "5ms",
            "100ms/5ms",
            "0ms/100ms",
            "5ms/11s",
            "x/y",
            "5/100",
        ] {
            assert!(wrong.parse::<Codel>().is_err(), "{wrong}");
        }
    }
}
