// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share every class should have received.
//!
//! What a fluid server would do. A class is busy when one of its threads, or of
//! the classes below it, never blocks; busy siblings divide what their parent
//! received in proportion to their weights. Classes that block use what they
//! use: their account is taken as it is and the rest is divided. On several
//! processors a class cannot use more than its busy threads can, and what
//! that leaves over goes to the others: `a_i = min(θ_i, λ·w_i)`, core/tree/readjust.h.

use qlinux_core::readjust::{readjust, Child};
use std::collections::BTreeMap;

/// A class and what was running in it.
#[derive(Clone, Debug)]
pub struct Class {
    /// Full path.
    pub path: String,
    /// `cpu.weight`
    pub weight: u32,
    /// Own threads that never block.
    pub busy: u32,
    /// CPU time it and all below it received, in seconds.
    pub used: f64,
}

struct Tree<'a> {
    classes: &'a [Class],
    length: f64,
    cpus: f64,
    ideal: BTreeMap<String, f64>,
}

/// The ideal CPU time in seconds of every busy class, when `length` seconds of
/// `cpus` processors were shared.
pub fn ideal(classes: &[Class], length: f64, cpus: usize) -> BTreeMap<String, f64> {
    let mut tree = Tree {
        classes,
        length,
        cpus: cpus as f64,
        ideal: BTreeMap::new(),
    };
    let received = tree.children("").map(|class| class.used).sum();
    tree.divide("", received);
    tree.ideal
}

impl<'a> Tree<'a> {
    fn children(&self, parent: &str) -> impl Iterator<Item = &'a Class> + use<'a> {
        let prefix = format!("{parent}/");
        self.classes.iter().filter(move |class| {
            let rest = class.path.strip_prefix(prefix.as_str());
            rest.is_some_and(|name| !name.contains('/'))
        })
    }

    /// Processors a class could keep busy.
    fn parallelism(&self, class: &Class) -> f64 {
        let below: f64 = self
            .children(&class.path)
            .map(|c| self.parallelism(c))
            .sum();
        (f64::from(class.busy) + below).min(self.cpus)
    }

    /// Divides `received` seconds among the children of `parent`.
    fn divide(&mut self, parent: &str, received: f64) {
        let (busy, blocking): (Vec<&Class>, Vec<&Class>) = self
            .children(parent)
            .partition(|class| self.parallelism(class) > 0.0);
        let rest = received - blocking.iter().map(|class| class.used).sum::<f64>();
        let limits: Vec<(u32, f64)> = busy
            .iter()
            .map(|c| (c.weight, self.parallelism(c) * self.length))
            .collect();
        for (class, share) in busy.iter().zip(fill(&limits, rest)) {
            self.ideal.insert(class.path.clone(), share);
            self.divide(&class.path, share);
        }
    }
}

/// Divides `amount` seconds in proportion to weights, no one above its limit:
/// pairs (weight, limit).
pub fn fill(limits: &[(u32, f64)], amount: f64) -> Vec<f64> {
    const UNITS: f64 = 1e5; // in a second
    let units = |seconds: f64| (seconds.max(0.0) * UNITS).round() as u64;
    let mut children: Vec<Child> = limits
        .iter()
        .map(|&(weight, limit)| Child::new(weight, units(limit)))
        .collect();
    readjust(&mut children, units(amount));
    children.iter().map(|c| c.share as f64 / UNITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(path: &str, weight: u32, busy: u32, used: f64) -> Class {
        Class {
            path: path.to_owned(),
            weight,
            busy,
            used,
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn flat() {
        let classes = [
            class("/a", 3, 1, 2.0),
            class("/b", 5, 4, 5.0),
            class("/c", 7, 1, 8.0),
        ];
        let ideal = ideal(&classes, 15.0, 1);
        close(ideal["/a"], 3.0);
        close(ideal["/b"], 5.0);
        close(ideal["/c"], 7.0);
    }

    #[test]
    fn nested_and_blocking() {
        // /s sleeps: what it used is taken off before the rest is divided.
        let classes = [
            class("/a", 1, 0, 4.0),
            class("/a/x", 1, 1, 1.0),
            class("/a/y", 3, 1, 3.0),
            class("/b", 1, 1, 4.0),
            class("/s", 100, 0, 2.0),
        ];
        let ideal = ideal(&classes, 10.0, 1);
        close(ideal["/a"], 4.0);
        close(ideal["/a/x"], 1.0);
        close(ideal["/a/y"], 3.0);
        close(ideal["/b"], 4.0);
        assert!(!ideal.contains_key("/s"));
    }

    #[test]
    fn several_processors() {
        // Weights 1, 1, 2, 1 with 3, 1, 1, 3 threads on 4 processors: 1.0 each.
        let classes = [
            class("/a", 1, 3, 10.0),
            class("/b", 1, 1, 10.0),
            class("/c", 2, 1, 10.0),
            class("/d", 1, 3, 10.0),
        ];
        for (path, share) in ideal(&classes, 10.0, 4) {
            assert!((share - 10.0).abs() < 1e-9, "{path}: {share}");
        }
    }

    #[test]
    fn filling() {
        assert_eq!(fill(&[(1, 9.0), (1, 9.0)], 10.0), [5.0, 5.0]);
        assert_eq!(fill(&[(1, 2.0), (1, 9.0)], 10.0), [2.0, 8.0]);
        assert_eq!(fill(&[(1, 2.0), (1, 3.0)], 10.0), [2.0, 3.0]);
        assert!(fill(&[], 10.0).is_empty());
    }
}
