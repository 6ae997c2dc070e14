// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Weight of a class among its siblings, or of a thread in its leaf: 1 to 10000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Weight(u32);

impl Weight {
    /// What a class has unless told otherwise.
    pub const DEFAULT: Weight = Weight(100);

    /// Checks the range.
    pub fn new(weight: i64) -> Result<Weight> {
        match u32::try_from(weight) {
            Ok(w @ 1..=10_000) => Ok(Weight(w)),
            _ => Err(Error::Weight {
                given: weight.to_string(),
            }),
        }
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl FromStr for Weight {
    type Err = Error;

    fn from_str(text: &str) -> Result<Weight> {
        let given = || Error::Weight {
            given: format!("'{}'", text.escape_debug()),
        };
        Weight::new(text.parse().map_err(|_| given())?)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range() {
        for (text, weight) in [("1", 1), ("100", 100), ("10000", 10_000)] {
            assert_eq!(text.parse::<Weight>().unwrap().get(), weight);
        }
        for wrong in ["0", "10001", "-1", "", "x", "1.5", "99999999999999999999"] {
            assert!(
                matches!(wrong.parse::<Weight>(), Err(Error::Weight { .. })),
                "{wrong}"
            );
        }
    }
}
