// SPDX-License-Identifier: MIT OR Apache-2.0
//! The leaf schedulers by name. Their list is LEAF_POLICIES of core/cpu/leaf.h.

use crate::Error;

const NAMES: &[(u32, &str)] = &include!(concat!(env!("OUT_DIR"), "/leaf_names.rs"));

/// A leaf scheduler: it orders the threads of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf(usize);

impl Leaf {
    /// Every leaf scheduler; the first is the default.
    pub fn all() -> impl Iterator<Item = Leaf> {
        (0..NAMES.len()).map(Leaf)
    }

    /// The one with this number in the kernel interface.
    pub fn from_number(number: u32) -> Option<Leaf> {
        Self::all().find(|leaf| leaf.number() == number)
    }

    /// Its number in the kernel interface.
    pub fn number(self) -> u32 {
        NAMES[self.0].0
    }

    /// Its name, as in `--leaf NAME`.
    pub fn name(self) -> &'static str {
        NAMES[self.0].1
    }

    /// All names, for messages.
    pub fn names() -> String {
        let names: Vec<_> = Self::all().map(Leaf::name).collect();
        names.join(", ")
    }
}

impl std::str::FromStr for Leaf {
    type Err = Error;

    fn from_str(name: &str) -> Result<Leaf, Error> {
        Self::all()
            .find(|leaf| leaf.name() == name)
            .ok_or_else(|| Error::UnknownLeaf {
                name: name.to_string(),
            })
    }
}

impl serde::Serialize for Leaf {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_inverse() {
        assert_eq!(Leaf::all().next().unwrap().name(), "ts");
        for leaf in Leaf::all() {
            assert_eq!(leaf.name().parse::<Leaf>().unwrap(), leaf);
            assert_eq!(Leaf::from_number(leaf.number()), Some(leaf));
        }
        let refusal = "lottery".parse::<Leaf>().unwrap_err();
        assert!(refusal.to_string().contains("ts, sfq"), "{refusal}");
        assert!(Leaf::from_number(1000).is_none());
    }
}
