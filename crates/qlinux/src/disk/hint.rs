// SPDX-License-Identifier: MIT OR Apache-2.0
//! A class and a deadline in the hint of an I/O priority (core/disk/cello_hint.h).
//!
//! An I/O priority of the kernel is `base << 13 | hint << 3 | level`. Cello's hint has bit 9
//! set, bit 8 where it is a request's own, the class in bits 7 and 6, and below them a step of
//! a deadline.

use super::Refusal;
use crate::reserve::{shown, time};
use std::fmt;
use std::str::FromStr;

/// What a program needs of a disk: QLinux, section 2.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Short response times.
    Interactive = 0,
    /// Much data.
    Throughput = 1,
    /// Each request before its deadline.
    Realtime = 2,
    /// Nothing: its requests are of the disk's class for those.
    None = 3,
}

/// What there is one of for each of the three classes, by their names.
pub(super) fn by_name<T: serde::Serialize, S: serde::Serializer>(
    each: &[T; 3],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(Class::THREE.iter().zip(each))
}

impl Class {
    /// Those among which a disk is divided, by their numbers.
    pub const THREE: [Class; 3] = [Class::Interactive, Class::Throughput, Class::Realtime];

    /// By its number; 3: none.
    pub fn from_number(number: u32) -> Option<Class> {
        [
            Class::Interactive,
            Class::Throughput,
            Class::Realtime,
            Class::None,
        ]
        .get(number as usize)
        .copied()
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Its name, everywhere.
    pub fn name(self) -> &'static str {
        ["interactive", "throughput", "realtime", "none"][self as usize]
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Class {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Class, Refusal> {
        (0..4)
            .filter_map(Class::from_number)
            .find(|class| class.name() == text)
            .ok_or_else(|| Refusal::Class {
                given: text.escape_debug().to_string(),
            })
    }
}

/// From a request's arrival to when it is to be done: 1 ms to 49.152 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// The shortest.
    pub const MIN_NS: u64 = 1_000_000;
    /// The longest.
    pub const MAX_NS: u64 = 49_152_000_000;
    /// Of the shortest deadlines.
    const STEP_NS: u64 = 250_000;

    /// Checks the range.
    pub fn new(ns: u64) -> Result<Deadline, Refusal> {
        match ns {
            Self::MIN_NS..=Self::MAX_NS => Ok(Deadline(ns)),
            _ => Err(Refusal::Deadline { given: shown(ns) }),
        }
    }

    /// Of whole milliseconds.
    pub fn from_ms(ms: u64) -> Result<Deadline, Refusal> {
        Deadline::new(ms.saturating_mul(1_000_000)).map_err(|_| Refusal::Deadline {
            given: format!("{ms}ms"),
        })
    }

    /// In nanoseconds.
    pub fn ns(self) -> u64 {
        self.0
    }

    /// In whole milliseconds, rounded down.
    pub fn ms(self) -> u64 {
        self.0 / 1_000_000
    }

    fn of_code(code: u64) -> u64 {
        ((4 + ((code - 1) & 3)) << ((code - 1) >> 2)) * Self::STEP_NS
    }

    /// The latest step that is not later.
    fn code(self) -> u64 {
        (1..64)
            .rev()
            .find(|code| Self::of_code(*code) <= self.0)
            .unwrap_or(1)
    }

    /// What a hint can say: a quarter of a power of two, and never later than this.
    pub fn as_hinted(self) -> Deadline {
        Deadline(Self::of_code(self.code()))
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shown(self.0))
    }
}

impl FromStr for Deadline {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Deadline, Refusal> {
        let refuse = || Refusal::Deadline {
            given: text.escape_debug().to_string(),
        };
        Deadline::new(time(text.trim()).ok_or_else(refuse)?).map_err(|_| refuse())
    }
}

impl serde::Serialize for Deadline {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

/// What Cello reads of an I/O priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// It is one request's own, not of the program that asks.
    pub own: bool,
    /// The class.
    pub class: Class,
    /// A deadline instead of the disk's.
    pub deadline: Option<Deadline>,
}

const MARK: u16 = 1 << 9;
const OWN: u16 = 1 << 8;
const CLASS_SHIFT: u32 = 6;

impl Hint {
    /// A deadline goes with class realtime only.
    pub fn new(own: bool, class: Class, deadline: Option<Deadline>) -> Result<Hint, Refusal> {
        match (class, deadline) {
            (Class::Realtime, _) | (_, None) => Ok(Hint {
                own,
                class,
                deadline,
            }),
            (class, Some(_)) => Err(Refusal::DeadlineOf { class }),
        }
    }

    /// The ten bits.
    pub fn bits(&self) -> u16 {
        let own = if self.own { OWN } else { 0 };
        let code = self.deadline.map_or(0, Deadline::code) as u16;
        MARK | own | (self.class as u16) << CLASS_SHIFT | code
    }

    /// `None`: a hint that is not Cello's.
    pub fn from_bits(bits: u16) -> Option<Hint> {
        let code = u64::from(bits) & 63;
        (bits & MARK != 0).then(|| Hint {
            own: bits & OWN != 0,
            class: Class::from_number(u32::from(bits >> CLASS_SHIFT) & 3).unwrap_or(Class::None),
            deadline: (code > 0).then(|| Deadline(Deadline::of_code(code))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    #[test]
    fn words() {
        for class in (0..4).filter_map(Class::from_number) {
            assert_eq!(class.name().parse::<Class>().unwrap(), class);
            assert_eq!(Class::from_number(class.number()), Some(class));
        }
        for wrong in ["", "Interactive", "real-time", "0", "none "] {
            assert!(wrong.parse::<Class>().unwrap_err().is_usage(), "{wrong}");
        }
        assert_eq!(Class::from_number(4), None);
    }

    #[test]
    fn deadlines_are_rounded_down() {
        for (text, hinted) in [
            ("1ms", "1ms"),
            ("1.1ms", "1ms"),
            ("1250us", "1.25ms"),
            ("40ms", "40ms"),
            ("100ms", "96ms"),
            ("1s", "896ms"),
            ("49.152s", "49.152s"),
            ("49.151s", "40.96s"),
        ] {
            let deadline: Deadline = text.parse().unwrap();
            assert_eq!(deadline.as_hinted().to_string(), hinted, "{text}");
        }
        for wrong in [
            "", "1", "ms", "0ms", "999us", "49.153s", "1h", "-1ms", "nanms", "infs", "1e99s",
        ] {
            assert!(wrong.parse::<Deadline>().unwrap_err().is_usage(), "{wrong}");
        }
        assert!(Deadline::from_ms(u64::MAX).is_err());
        assert_eq!(Deadline::from_ms(49_152).unwrap().ms(), 49_152);
    }

    #[test]
    fn a_deadline_is_for_realtime() {
        let deadline = Some(Deadline::from_ms(5).unwrap());
        assert!(Hint::new(true, Class::Realtime, deadline).is_ok());
        let refusal = Hint::new(true, Class::None, deadline).unwrap_err();
        assert!(refusal.is_usage(), "{refusal}");
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn hints_come_back(bits in 0u16..1024) {
            match Hint::from_bits(bits) {
                Some(hint) => prop_assert_eq!(hint.bits(), bits),
                None => prop_assert!(bits < 512),
            }
        }

        #[test]
        fn never_later_and_at_most_a_fifth_earlier(ns in Deadline::MIN_NS..=Deadline::MAX_NS) {
            let hinted = Deadline::new(ns).unwrap().as_hinted();
            prop_assert!(hinted.ns() <= ns && hinted.ns() * 5 >= ns * 4, "{} {}", hinted, ns);
            prop_assert_eq!(hinted.as_hinted(), hinted);
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            if let Ok(deadline) = text.parse::<Deadline>() {
                prop_assert!(deadline.to_string().parse::<Deadline>().is_ok());
            }
            if let Ok(class) = text.parse::<Class>() {
                prop_assert_eq!(class.name(), text);
            }
        }

        #[test]
        fn times_in_any_unit(number in 0.0f64..100_000.0, unit in proptest::sample::select(vec!["ns", "us", "ms", "s", "h", ""])) {
            let text = format!("{number}{unit}");
            let factor = match unit { "ns" => 1.0, "us" => 1e3, "ms" => 1e6, "s" => 1e9, _ => f64::NAN };
            let ns = (number * factor).round();
            let valid = ns >= Deadline::MIN_NS as f64 && ns <= Deadline::MAX_NS as f64;
            prop_assert_eq!(text.parse::<Deadline>().is_ok(), valid, "{}", text);
        }
    }
}
