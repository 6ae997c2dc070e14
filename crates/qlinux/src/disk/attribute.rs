// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a disk under Cello can be told, and what it tells: `queue/iosched`.

use super::hint::by_name;
use super::{Class, Deadline, Disk, Refusal};
use crate::reserve::{shown, time};
use crate::undo::Undo;
use crate::{Error, Result};
use std::fmt;
use std::io;
use std::str::FromStr;

/// The word for what Cello finds out by itself; a number of 0 to the kernel.
const AUTO: &str = "auto";

macro_rules! span {
    ($(#[$doc:meta])* $name:ident, $least:literal..=$most:literal $(, $auto:ident)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(u64);

        $(impl $name {
            /// As Cello has learned.
            pub const $auto: $name = $name(0);
        })?

        impl $name {
            /// In microseconds.
            pub fn new(us: u64) -> Result<$name, Refusal> {
                match us {
                    $least..=$most => Ok($name(us)),
                    _ => Err(Refusal::$name {
                        given: format!("{us}us"),
                    }),
                }
            }

            /// In microseconds.
            pub fn us(self) -> u64 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = Refusal;

            fn from_str(text: &str) -> Result<$name, Refusal> {
                let refuse = || Refusal::$name {
                    given: text.escape_debug().to_string(),
                };
                $(if text.trim() == AUTO {
                    return Ok($name::$auto);
                })?
                $name::new(time(text.trim()).ok_or_else(refuse)? / 1000).map_err(|_| refuse())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if *self == $name::$auto {
                    return f.pad(AUTO);
                })?
                f.pad(&shown(self.0 * 1000))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_u64(self.0)
            }
        }
    };
}

span!(
    /// Length of a round: 1 ms to 10 s.
    Round,
    1_000..=10_000_000
);
span!(
    /// What the requests that the disk has may be estimated to take before it gets a further one: 1 µs to 10 s, or any.
    InFlightTime,
    1..=10_000_000,
    AUTO
);

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $least:literal..=$most:literal $(, $auto:ident)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
        pub struct $name(u32);

        $(impl $name {
            /// As Cello has learned.
            pub const $auto: $name = $name(0);
        })?

        impl $name {
            /// Checks the range.
            pub fn new(number: i64) -> Result<$name, Refusal> {
                match number {
                    $least..=$most => Ok($name(number as u32)),
                    _ => Err(Refusal::$name {
                        given: number.to_string(),
                    }),
                }
            }

            /// The number.
            pub fn get(self) -> u32 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = Refusal;

            fn from_str(text: &str) -> Result<$name, Refusal> {
                let refuse = || Refusal::$name {
                    given: text.escape_debug().to_string(),
                };
                $(if text.trim() == AUTO {
                    return Ok($name::$auto);
                })?
                $name::new(text.parse().map_err(|_| refuse())?)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if *self == $name::$auto {
                    return f.pad(AUTO);
                })?
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// Weight of a class of a disk; 0: it gets what the others leave.
    Weight,
    0..=10_000
);
number!(
    /// Requests that the disk has at a time: 1 to 1024, or as many as it is found to need.
    InFlight,
    1..=1024,
    AUTO
);

/// What is to be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Length of a round.
    pub round: Option<Round>,
    /// Of each class.
    pub weights: [Option<Weight>; 3],
    /// Requests that the disk has at a time.
    pub in_flight: Option<InFlight>,
    /// What those may be estimated to take before the disk gets a further one.
    pub in_flight_time: Option<InFlightTime>,
    /// Of real-time requests without one of their own; in whole milliseconds, rounded down.
    pub deadline: Option<Deadline>,
    /// Of requests that have none; `None` of [`Class`]: they bypass Cello.
    pub unclassified: Option<Class>,
}

impl Settings {
    /// Refuses what no disk could have.
    pub fn check(&self) -> Result<(), Refusal> {
        match self.weights.iter().all(|w| w.is_some_and(|w| w.0 == 0)) {
            true => Err(Refusal::NoWeight),
            false => Ok(()),
        }
    }
}

/// How a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Attributes {
    /// Length of a round.
    pub round_us: u64,
    /// Of each class.
    #[serde(serialize_with = "by_name")]
    pub weights: [u32; 3],
    /// Requests that the disk has at a time; 0: as many as it is found to need.
    pub in_flight: u32,
    /// What those may be estimated to take before the disk gets a further one; 0: any time.
    pub in_flight_us: u64,
    /// Of real-time requests without one of their own.
    pub deadline_ms: u64,
    /// Of requests that have none.
    pub unclassified: Class,
}

/// What a class was served since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ClassCounts {
    /// Requests served.
    pub requests: u64,
    /// The disk's time for them.
    pub time_us: u64,
    /// Requests that wait now.
    pub waiting: u64,
}

/// What a disk did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Rounds.
    pub rounds: u64,
    /// Requests without a class.
    pub bypassed: u64,
    /// Mean error of the estimates of a request's time, now.
    pub error_us: u64,
    /// Requests that the disk is given at a time, now.
    pub in_flight_now: u32,
    /// Requests that it is found to serve side by side.
    pub lanes: u32,
    /// Real-time requests that were done after their deadline.
    pub realtime_late: u64,
    /// Of those, that had been promised to be in time.
    pub realtime_broken: u64,
    /// By class.
    #[serde(skip)]
    pub classes: [ClassCounts; 3],
}

fn attribute(name: &str) -> String {
    format!("queue/iosched/{name}")
}

impl Disk {
    fn number_of(&self, name: &str) -> Result<u64> {
        self.value_of(name, "it is no number")
    }

    fn value_of<T: FromStr>(&self, name: &str, unless: &'static str) -> Result<T> {
        let file = attribute(name);
        let read = self.text(&file);
        let value = read.and_then(|text| {
            text.parse()
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, unless))
        });
        value.map_err(|e| match e.kind() {
            // Another scheduler has taken its place meanwhile.
            io::ErrorKind::NotFound if !self.under_cello() => Refusal::Down {
                dev: self.name().into(),
            }
            .into(),
            _ => Error::io("reading", &self.file(&file), e),
        })
    }

    /// How it is.
    pub fn attributes(&self) -> Result<Attributes> {
        let mut weights = [0; 3];
        for class in Class::THREE {
            weights[class as usize] = self.number_of(&format!("weight_{class}"))? as u32;
        }
        Ok(Attributes {
            round_us: self.number_of("round_us")?,
            weights,
            in_flight: self.number_of("in_flight")? as u32,
            in_flight_us: self.number_of("in_flight_us")?,
            deadline_ms: self.number_of("deadline_ms")?,
            unclassified: self.value_of("unclassified", "it is no class")?,
        })
    }

    /// What it did.
    pub fn counts(&self) -> Result<Counts> {
        let mut classes = [ClassCounts::default(); 3];
        for class in Class::THREE {
            classes[class as usize] = ClassCounts {
                requests: self.number_of(&format!("{class}_requests"))?,
                time_us: self.number_of(&format!("{class}_time_us"))?,
                waiting: self.number_of(&format!("{class}_waiting"))?,
            };
        }
        Ok(Counts {
            rounds: self.number_of("rounds")?,
            bypassed: self.number_of("bypassed")?,
            error_us: self.number_of("error_us")?,
            in_flight_now: self.number_of("in_flight_now")? as u32,
            lanes: self.number_of("lanes")? as u32,
            realtime_late: self.number_of("realtime_late")?,
            realtime_broken: self.number_of("realtime_broken")?,
            classes,
        })
    }

    /// Requests that the kernel keeps for it, of all hardware queues.
    pub(super) fn tags(&self) -> Result<u32> {
        Ok(self.number_of("tags")? as u32)
    }

    /// Changes all of it, or nothing.
    pub(super) fn set_attributes(&self, settings: &Settings) -> Result<()> {
        settings.check()?;
        let before = self.attributes()?;
        let mut weights = before.weights;
        for (weight, new) in weights.iter_mut().zip(settings.weights) {
            *weight = new.map_or(*weight, |new| new.0);
        }
        if weights == [0; 3] {
            return Err(Refusal::AllZero {
                dev: self.name().into(),
            }
            .into());
        }
        let mut undo = Undo::new();
        if weights != before.weights {
            undo.push(|| drop(self.write_weights(&before.weights)));
            self.write_weights(&weights)?;
        }
        for (name, new, old) in [
            ("round_us", settings.round.map(Round::us), before.round_us),
            (
                "in_flight",
                settings.in_flight.map(|n| n.0.into()),
                before.in_flight.into(),
            ),
            (
                "in_flight_us",
                settings.in_flight_time.map(InFlightTime::us),
                before.in_flight_us,
            ),
            (
                "deadline_ms",
                settings.deadline.map(Deadline::ms),
                before.deadline_ms,
            ),
        ] {
            if let Some(new) = new.filter(|new| *new != old) {
                undo.push(move || drop(self.write(&attribute(name), old)));
                self.write_attribute(name, new)?;
            }
        }
        if let Some(class) = settings
            .unclassified
            .filter(|new| *new != before.unclassified)
        {
            self.write_attribute("unclassified", class)?;
        }
        undo.keep();
        Ok(())
    }

    fn write_weights(&self, weights: &[u32; 3]) -> Result<()> {
        for class in order(weights) {
            self.write_attribute(&format!("weight_{class}"), weights[class as usize])?;
        }
        Ok(())
    }

    fn write_attribute(&self, name: &str, value: impl fmt::Display) -> Result<()> {
        let file = attribute(name);
        self.write(&file, value)
            .map_err(|e| Error::io("writing", &self.file(&file), e))
    }
}

/// Those above 0 first: the kernel refuses to let all be 0, if only in between.
fn order(weights: &[u32; 3]) -> [Class; 3] {
    let mut order = Class::THREE;
    order.sort_by_key(|class| weights[*class as usize] == 0);
    order
}

#[cfg(test)]
mod tests {
    use super::super::device::fake::Fake;
    use super::*;
    use proptest::prelude::*;
    use qlinux_properties::cases;
    use std::fs;

    fn cello(fake: &Fake) -> Disk {
        let disk = fake.disk("sda", Some("none mq-deadline [cello]\n"));
        for (name, value) in [
            ("round_us", "100000"),
            ("weight_interactive", "100"),
            ("weight_throughput", "100"),
            ("weight_realtime", "100"),
            ("in_flight", "1"),
            ("in_flight_us", "2000"),
            ("deadline_ms", "100"),
            ("unclassified", "throughput"),
        ] {
            fs::write(disk.file(&attribute(name)), format!("{value}\n")).unwrap();
        }
        disk
    }

    #[test]
    fn ranges() {
        for (text, us) in [("1ms", 1_000), ("100ms", 100_000), ("10s", 10_000_000)] {
            assert_eq!(text.parse::<Round>().unwrap().us(), us);
            assert_eq!(text.parse::<Round>().unwrap().to_string(), text);
        }
        for wrong in ["", "100", "0s", "999us", "10.1s", "-1s", "1d", "nans"] {
            assert!(wrong.parse::<Round>().unwrap_err().is_usage(), "{wrong}");
        }
        for (text, us) in [("1us", 1), ("2ms", 2_000), ("10s", 10_000_000)] {
            assert_eq!(text.parse::<InFlightTime>().unwrap().us(), us);
        }
        for wrong in ["", "2000", "0s", "999ns", "10.1s"] {
            let refusal = wrong.parse::<InFlightTime>().unwrap_err();
            assert!(refusal.is_usage(), "{wrong}");
        }
        assert_eq!("0".parse::<Weight>().unwrap().get(), 0);
        assert_eq!("10000".parse::<Weight>().unwrap().get(), 10_000);
        for wrong in ["", "-1", "10001", "1.5", "x", "99999999999999999999"] {
            assert!(wrong.parse::<Weight>().unwrap_err().is_usage(), "{wrong}");
        }
        assert_eq!("auto".parse::<InFlight>().unwrap(), InFlight::AUTO);
        assert_eq!(InFlightTime::AUTO.to_string(), "auto");
        for wrong in ["0", "1025", "-8", ""] {
            assert!(wrong.parse::<InFlight>().unwrap_err().is_usage(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_written() {
        let fake = Fake::new();
        let disk = cello(&fake);
        let settings = Settings {
            round: Some(Round(50_000)),
            weights: [Some(Weight(0)), None, Some(Weight(300))],
            in_flight: Some(InFlight(8)),
            in_flight_time: Some("1.5ms".parse().unwrap()),
            deadline: Some("40.9ms".parse().unwrap()),
            unclassified: Some(Class::None),
        };
        disk.set_attributes(&settings).unwrap();
        let expected = Attributes {
            round_us: 50_000,
            weights: [0, 100, 300],
            in_flight: 8,
            in_flight_us: 1_500,
            deadline_ms: 40,
            unclassified: Class::None,
        };
        assert_eq!(disk.attributes().unwrap(), expected);
    }

    #[test]
    fn refusals_change_nothing() {
        let fake = Fake::new();
        let disk = cello(&fake);
        let zero = Some(Weight(0));
        let all = Settings {
            weights: [zero; 3],
            ..Settings::default()
        };
        let two = Settings {
            weights: [zero, zero, None],
            ..Settings::default()
        };
        let before = disk.attributes().unwrap();
        assert!(disk.set_attributes(&all).unwrap_err().is_usage());
        disk.set_attributes(&two).unwrap();
        let last = Settings {
            round: Some(Round(1_000)),
            weights: [None, None, zero],
            ..Settings::default()
        };
        let refusal = disk.set_attributes(&last).unwrap_err();
        assert!(!refusal.is_usage(), "{refusal}");
        assert_eq!(disk.attributes().unwrap().weights, [0, 0, 100]);
        assert_eq!(disk.attributes().unwrap().round_us, before.round_us);
    }

    #[test]
    fn another_scheduler_meanwhile() {
        let fake = Fake::new();
        let disk = cello(&fake);
        fs::remove_file(disk.file("queue/iosched/round_us")).unwrap();
        let refusal = disk.attributes().unwrap_err();
        assert!(refusal.to_string().contains("reading"), "{refusal}");
        disk.write("queue/scheduler", "[none] cello").unwrap();
        let refusal = disk.attributes().unwrap_err();
        assert!(refusal.to_string().contains("up disk sda"), "{refusal}");
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn no_text_panics(text in any::<String>()) {
            if let Ok(round) = text.parse::<Round>() {
                prop_assert!(round.to_string().parse::<Round>().is_ok());
            }
            if let Ok(weight) = text.parse::<Weight>() {
                prop_assert!(weight.get() <= 10_000);
            }
            let _ = text.parse::<InFlight>();
        }

        #[test]
        fn whole_numbers(number in any::<i64>()) {
            let text = number.to_string();
            prop_assert_eq!(text.parse::<Weight>().is_ok(), (0..=10_000).contains(&number));
            prop_assert_eq!(text.parse::<InFlight>().is_ok(), (1..=1024).contains(&number));
        }

        /// With any weights before and after, never are all 0 in between.
        #[test]
        fn weights_never_all_zero(old in [0u32..3, 0..3, 0..3], new in [0u32..3, 0..3, 0..3]) {
            prop_assume!(old != [0; 3] && new != [0; 3]);
            let mut now = old;
            for class in order(&new) {
                now[class as usize] = new[class as usize];
                prop_assert!(now != [0; 3]);
            }
        }
    }
}
