// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trees whose shares are measured.

use std::time::Duration;

/// Threads of a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Threads that never block.
    pub busy: u32,
    /// Threads that want [`RUN`] of every [`PERIOD`].
    pub sleepers: u32,
    /// Threads that run and sleep for random times.
    pub bursts: u32,
}

/// A class of a case; its parent stands before it.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseClass {
    pub path: String,
    pub weight: u32,
    pub load: Load,
}

/// Ratios are given in whole hundreds: `cpu.weight` 1 and 4 would be a ratio of
/// 1:4.1 to the stock kernel, which rounds weights to 1/10.24.
pub const UNIT: u32 = 100;

/// A tree with its threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub name: String,
    /// For the axis of the figure.
    pub short: String,
    pub classes: Vec<CaseClass>,
}

/// What a sleeper does in each of its periods,
pub const RUN: Duration = Duration::from_millis(1);
/// and how long they are.
pub const PERIOD: Duration = Duration::from_millis(10);
/// A class whose share is so many times what it wants is to get it.
const ENOUGH: f64 = 1.25;

impl Case {
    /// The processors that a class without busy threads wants, if all wants of its sleepers are
    /// known and its share of `cpus` is enough for them whatever its siblings do.
    pub fn wish(&self, path: &str, cpus: usize) -> Option<f64> {
        let of = |path: &str| self.classes.iter().find(|c| c.path == path);
        let load = &of(path)?.load;
        if load.sleepers == 0 || load.busy + load.bursts > 0 {
            return None;
        }
        let above = |path: &str| {
            path.rsplit_once('/')
                .map_or("", |(above, _)| above)
                .to_owned()
        };
        let (mut share, mut at) = (cpus as f64, path.to_owned());
        while let Some(class) = of(&at) {
            let siblings = self.classes.iter().filter(|c| above(&c.path) == above(&at));
            share *= f64::from(class.weight) / siblings.map(|c| f64::from(c.weight)).sum::<f64>();
            at = above(&at);
        }
        let wish = f64::from(load.sleepers) * RUN.as_secs_f64() / PERIOD.as_secs_f64();
        (share >= ENOUGH * wish).then_some(wish)
    }
}

fn class(path: &str, weight: u32, busy: u32) -> CaseClass {
    CaseClass {
        path: path.to_owned(),
        weight: weight * UNIT,
        load: Load {
            busy,
            ..Load::default()
        },
    }
}

/// Siblings of these weights with one busy thread each.
fn flat(weights: &[u32]) -> Case {
    let names: Vec<String> = weights.iter().map(u32::to_string).collect();
    let classes = weights.iter().enumerate();
    Case {
        name: format!("weights {}", names.join(":")),
        short: names.join(":"),
        classes: classes
            .map(|(i, &w)| class(&format!("/c{i}"), w, 1))
            .collect(),
    }
}

/// A chain: at each of eight levels a busy class beside the next level.
fn nested() -> Case {
    let weights = [(1, 4), (2, 3), (1, 3), (3, 5), (1, 2), (2, 7), (1, 1)];
    let mut classes = Vec::new();
    let mut parent = String::new();
    for (level, (leaf, inner)) in weights.into_iter().enumerate() {
        classes.push(class(&format!("{parent}/leaf{level}"), leaf, 1));
        parent = format!("{parent}/in{level}");
        classes.push(class(&parent, inner, 0));
    }
    classes.push(class(&format!("{parent}/a"), 3, 1));
    classes.push(class(&format!("{parent}/b"), 4, 1));
    Case {
        name: "nested to depth 8".into(),
        short: "depth 8".into(),
        classes,
    }
}

/// Many threads here, one there: threads must not matter.
fn threads() -> Case {
    Case {
        name: "weights 1:2:3 with 12, 1 and 4 threads".into(),
        short: "threads".into(),
        classes: vec![
            class("/many", 1, 12),
            class("/one", 2, 1),
            class("/four", 3, 4),
        ],
    }
}

/// Busy classes beside classes that block, and both kinds in one class.
fn mix() -> Case {
    let mut classes = vec![
        class("/busy", 3, 2),
        class("/both", 5, 1),
        class("/sleepers", 2, 0),
        class("/group", 4, 0),
        class("/group/busy", 1, 1),
        class("/group/bursts", 2, 0),
    ];
    classes[1].load.sleepers = 2;
    classes[2].load.sleepers = 2;
    classes[5].load.bursts = 3;
    Case {
        name: "busy and blocking threads".into(),
        short: "blocking".into(),
        classes,
    }
}

/// Below this share a class gets no children: its least quantum would be
/// more than the error allowed over ten seconds.
const SHARE_MIN: f64 = 0.1;
const DEPTH_MAX: u32 = 8;

fn grow(
    random: &mut fastrand::Rng,
    parent: &str,
    depth: u32,
    share: f64,
    classes: &mut Vec<CaseClass>,
) {
    let weights: Vec<u32> = (0..random.u32(2..=3)).map(|_| random.u32(1..=6)).collect();
    let sum: u32 = weights.iter().sum();
    for (index, &weight) in weights.iter().enumerate() {
        let path = format!("{parent}/{}", (b'a' + index as u8) as char);
        let mine = share * f64::from(weight) / f64::from(sum);
        let inner = depth < DEPTH_MAX && mine > SHARE_MIN && random.u32(0..3) > 0;
        classes.push(class(&path, weight, 0));
        if inner {
            grow(random, &path, depth + 1, mine, classes);
        } else if let Some(leaf) = classes.last_mut() {
            leaf.load.busy = random.u32(1..=3);
            if index > 0 && random.u32(0..5) == 0 {
                // A class that only blocks, beside one that is busy.
                leaf.load.busy = 0;
                leaf.load.sleepers = 1;
            }
        }
    }
}

/// A tree that the seed determines.
fn random(seed: u64) -> Case {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut classes = Vec::new();
    grow(&mut random, "", 1, 1.0, &mut classes);
    Case {
        name: format!("random tree, seed {seed}"),
        short: format!("seed {seed}"),
        classes,
    }
}

/// All cases, the last `trees` of them random ones.
pub fn all(seed: u64, trees: u64) -> Vec<Case> {
    let weights: [&[u32]; 5] = [&[1, 1], &[1, 2], &[1, 4], &[3, 5, 7], &[1, 100]];
    let mut cases: Vec<Case> = weights.into_iter().map(flat).collect();
    cases.extend([nested(), threads(), mix()]);
    cases.extend((0..trees).map(|tree| random(seed + tree)));
    cases
}

/// Siblings of these weights and numbers of busy threads.
fn crowds(weights: &[u32], threads: &[u32]) -> Case {
    let join = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>();
    let (w, t) = (join(weights), join(threads));
    let pairs = weights.iter().zip(threads).enumerate();
    Case {
        name: format!("weights {} with {} threads", w.join(":"), t.join(", ")),
        short: t.join(","),
        classes: pairs
            .map(|(i, (&w, &n))| class(&format!("/c{i}"), w, n))
            .collect(),
    }
}

/// Threads of a class without children: busy ones, more or fewer than its share is of, or ones
/// that block.
fn crowd(random: &mut fastrand::Rng, load: &mut Load) {
    match random.u32(0..6) {
        0 => load.sleepers = random.u32(1..=3),
        1 => load.bursts = random.u32(1..=3),
        _ => load.busy = random.u32(1..=6),
    }
}

/// Two levels or three, where some class or other has too few threads for its share.
fn uneven(seed: u64) -> Case {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut classes = Vec::new();
    for top in 0..random.u32(2..=4) {
        let path = format!("/{}", (b'a' + top as u8) as char);
        let children = random.u32(0..=3);
        classes.push(class(&path, random.u32(1..=6), 0));
        if children < 2 {
            classes.last_mut().expect("pushed above").load.busy = random.u32(1..=6);
            continue;
        }
        for child in 0..children {
            classes.push(class(&format!("{path}/{child}"), random.u32(1..=6), 0));
            crowd(
                &mut random,
                &mut classes.last_mut().expect("pushed above").load,
            );
        }
    }
    Case {
        name: format!("uneven tree, seed {seed}"),
        short: format!("seed {seed}"),
        classes,
    }
}

/// The chain with enough threads at its end to use what its share of several processors is.
fn nested_crowd() -> Case {
    let mut case = nested();
    for class in case.classes.iter_mut().filter(|c| c.load.busy > 0) {
        class.load.busy = 3;
    }
    case
}

/// For several processors; the last `trees` of them random ones.
pub fn several(seed: u64, trees: u64) -> Vec<Case> {
    let mut cases = vec![
        crowds(&[1, 2, 3, 4], &[4, 4, 4, 4]),
        crowds(&[1, 2, 3, 4], &[12, 4, 2, 2]),
        crowds(&[1, 1, 2, 1], &[3, 1, 1, 3]),
        crowds(&[1, 100], &[8, 8]),
        nested_crowd(),
    ];
    cases.extend((0..trees).map(|tree| uneven(seed + tree)));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;

    #[test]
    fn every_class_stands_after_its_parent_and_has_something_to_do() {
        for case in all(1, 200).into_iter().chain(several(1, 200)) {
            let paths: Vec<&str> = case.classes.iter().map(|c| c.path.as_str()).collect();
            for (index, class) in case.classes.iter().enumerate() {
                let (parent, _) = class.path.rsplit_once('/').unwrap();
                assert!(parent.is_empty() || paths[..index].contains(&parent));
                let leaf = !paths
                    .iter()
                    .any(|p| p.starts_with(&format!("{}/", class.path)));
                assert_eq!(leaf, class.load != Load::default(), "{}", class.path);
                assert!(class.path.matches('/').count() <= DEPTH_MAX as usize);
            }
        }
    }

    #[test]
    fn no_busy_class_is_too_small_to_measure() {
        for case in all(1, 200) {
            let classes: Vec<ideal::Class> = case
                .classes
                .iter()
                .map(|class| ideal::Class {
                    path: class.path.clone(),
                    weight: class.weight,
                    busy: class.load.busy,
                    blocking: 0.0,
                    used: if class.path.matches('/').count() == 1 {
                        1.0
                    } else {
                        0.0
                    },
                })
                .collect();
            for (path, share) in ideal::ideal(&classes, 100.0, 1) {
                assert!(share > 0.005, "{}: {path} gets {share}", case.name);
            }
        }
    }

    #[test]
    fn the_chain_is_eight_deep() {
        let depths = nested()
            .classes
            .into_iter()
            .map(|c| c.path.matches('/').count());
        assert_eq!(depths.max(), Some(8));
    }
}
