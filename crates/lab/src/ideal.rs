// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share every class should have received.
//!
//! What a fluid server would do. A class is busy when one of its threads, or of
//! the classes below it, never blocks; busy siblings divide what their parent
//! received in proportion to their weights. Classes that block use what they
//! use: their account is taken as it is and the rest is divided. On several
//! processors a class cannot use more than its busy threads can, and what
//! that leaves over goes to the others (water-filling, section 6.3 of the
//! design: `a_i = min(θ_i, λ·w_i)`).

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
        let limits: Vec<(f64, f64)> = busy
            .iter()
            .map(|c| (f64::from(c.weight), self.parallelism(c) * self.length))
            .collect();
        for (class, share) in busy.iter().zip(fill(&limits, rest)) {
            self.ideal.insert(class.path.clone(), share);
            self.divide(&class.path, share);
        }
    }
}

/// Divides `amount` in proportion to weights, no one above its limit: pairs (weight, limit).
pub fn fill(limits: &[(f64, f64)], amount: f64) -> Vec<f64> {
    let mut shares = vec![None; limits.len()];
    loop {
        let open = |shares: &[Option<f64>], at: usize| shares[at].is_none();
        let taken: f64 = shares.iter().flatten().sum();
        let weight: f64 = (0..limits.len())
            .filter(|&at| open(&shares, at))
            .map(|at| limits[at].0)
            .sum();
        let level = (amount - taken).max(0.0) / weight;
        // One round can only lift the level, so whoever is full stays full.
        let full: Vec<usize> = (0..limits.len())
            .filter(|&at| open(&shares, at) && level * limits[at].0 >= limits[at].1)
            .collect();
        if full.is_empty() {
            let share = |at: usize| shares[at].unwrap_or(level * limits[at].0);
            return (0..limits.len()).map(share).collect();
        }
        for at in full {
            shares[at] = Some(limits[at].1);
        }
        if shares.iter().all(Option::is_some) {
            return shares.into_iter().flatten().collect();
        }
    }
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
        assert_eq!(fill(&[(1.0, 9.0), (1.0, 9.0)], 10.0), [5.0, 5.0]);
        assert_eq!(fill(&[(1.0, 2.0), (1.0, 9.0)], 10.0), [2.0, 8.0]);
        assert_eq!(fill(&[(1.0, 2.0), (1.0, 3.0)], 10.0), [2.0, 3.0]);
        assert!(fill(&[], 10.0).is_empty());
    }
}
