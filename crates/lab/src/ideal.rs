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
use qlinux_core::sim::{divide, Part};
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
    /// CPU time that its own threads received which block, in seconds.
    pub blocking: f64,
    /// CPU time it and all below it received, in seconds.
    pub used: f64,
}

/// Amounts count these parts of a second.
const UNITS: f64 = 1e5;

fn units(seconds: f64) -> u64 {
    (seconds.max(0.0) * UNITS).round() as u64
}

/// The ideal CPU time in seconds of every busy class, when `length` seconds of
/// `cpus` processors were shared.
pub fn ideal(classes: &[Class], length: f64, cpus: usize) -> BTreeMap<String, f64> {
    let mut classes: Vec<&Class> = classes.iter().collect();
    classes.sort_by_key(|class| class.path.matches('/').count());
    let above = |path: &str| {
        path.rsplit_once('/')
            .map_or("", |(above, _)| above)
            .to_owned()
    };
    let index = |path: &str| classes.iter().position(|class| class.path == path);
    let parent = |class: &Class| index(&above(&class.path)).map_or(0, |i| i + 1);
    let below = |path: &str| {
        let own = classes.iter().filter(|class| above(&class.path) == path);
        own.map(|class| class.used).sum::<f64>()
    };
    let root = Part {
        weight: 1,
        ..Part::default()
    };
    let part = |class: &&Class| Part {
        parent: parent(class),
        weight: class.weight,
        most: match class.busy {
            0 => units(class.used - below(&class.path)),
            threads => units(f64::from(threads) * length + class.blocking),
        },
        busy: class.busy > 0,
    };
    let parts: Vec<Part> = std::iter::once(root)
        .chain(classes.iter().map(part))
        .collect();
    let shares = divide(&parts, units(below("")), units(cpus as f64 * length));
    let busy = |path: &str| {
        let within =
            |class: &&&Class| class.path == path || class.path.starts_with(&format!("{path}/"));
        classes.iter().filter(within).any(|class| class.busy > 0)
    };
    let all = classes.iter().zip(&shares[1..]);
    all.filter(|(class, _)| busy(&class.path))
        .map(|(class, &share)| (class.path.clone(), share as f64 / UNITS))
        .collect()
}

/// Divides `amount` seconds in proportion to weights, no one above its limit:
/// pairs (weight, limit).
pub fn fill(limits: &[(u32, f64)], amount: f64) -> Vec<f64> {
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
            blocking: 0.0,
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

    /// A class can use what its threads that block use, beside its busy ones.
    #[test]
    fn threads_that_block_beside_few_that_do_not() {
        let classes = [
            class("/a", 1, 0, 13.0),
            class("/a/busy", 1, 1, 10.0),
            class("/a/blocks", 1, 0, 3.0),
            class("/b", 1, 4, 27.0),
        ];
        let ideal = ideal(&classes, 10.0, 4);
        close(ideal["/a"], 13.0);
        close(ideal["/a/busy"], 10.0);
        close(ideal["/b"], 27.0);
    }

    /// As much again within one class.
    #[test]
    fn both_kinds_of_threads_in_a_class() {
        let classes = [
            Class {
                blocking: 2.0,
                ..class("/a", 5, 1, 11.0)
            },
            class("/b", 1, 4, 29.0),
        ];
        let ideal = ideal(&classes, 10.0, 4);
        close(ideal["/a"], 12.0);
        close(ideal["/b"], 28.0);
    }

    #[test]
    fn filling() {
        assert_eq!(fill(&[(1, 9.0), (1, 9.0)], 10.0), [5.0, 5.0]);
        assert_eq!(fill(&[(1, 2.0), (1, 9.0)], 10.0), [2.0, 8.0]);
        assert_eq!(fill(&[(1, 2.0), (1, 3.0)], 10.0), [2.0, 3.0]);
        assert!(fill(&[], 10.0).is_empty());
    }
}
