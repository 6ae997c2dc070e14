// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of classes on a link, and what sends in them.

use crate::exp::link::{Case, Load};
use crate::net::{Plan, Tree};

/// Mbit/s where packets are small, and where they are not.
const SLOW: u64 = 10;
const FAST: u64 = 50;
/// TCP connections of a class: one may wait for an acknowledgement while another sends.
const CONNECTIONS: usize = 4;
/// Packets of a light class are small enough to be counted: a share of 1 % is right to a part of one of them.
const COUNTABLE: usize = 500;
const SIZES: [usize; 6] = [64, 128, 256, 512, 1024, 1500];

fn flat(name: &str, rate: u64, weights: &[u32], loads: Vec<Load>) -> Case {
    Case {
        name: name.to_owned(),
        short: name.to_owned(),
        plan: Plan::mbit(rate, Tree::flat(weights)),
        loads,
    }
}

/// Links of other rates, from a slow uplink to a fast card. Packets of slow ones are small enough to be counted.
fn other_rates() -> [Case; 5] {
    let mut cases = [
        flat("512 kbit/s, 1:4", 0, &[1, 4], vec![Load::Udp(128); 2]),
        flat(
            "3 Mbit/s, 3:5:7",
            3,
            &[3, 5, 7],
            vec![Load::Udp(COUNTABLE); 3],
        ),
        flat(
            "3 Mbit/s TCP, 1:1",
            3,
            &[1, 1],
            vec![Load::Tcp(CONNECTIONS); 2],
        ),
        flat(
            "200 Mbit/s, 3:5:7",
            200,
            &[3, 5, 7],
            vec![Load::Udp(1500); 3],
        ),
        flat(
            "1 Gbit/s GSO, 3:5:7",
            1000,
            &[3, 5, 7],
            vec![Load::Tcp(CONNECTIONS); 3],
        ),
    ];
    cases[0].plan.rate = Some(512_000);
    cases
}

/// At each level one leaf, and one class with all the rest.
fn nested(depth: usize) -> Case {
    let mut classes: Vec<(String, u32)> = Vec::new();
    let mut above = String::new();
    for level in 1..depth {
        classes.push((format!("{above}/leaf"), 1));
        above += "/n";
        classes.push((above.clone(), 1 + level as u32 % 3));
    }
    classes.push((format!("{above}/leaf"), 1));
    classes.push((format!("{above}/last"), 2));
    let tree = Tree::new(
        classes
            .iter()
            .map(|(path, weight)| (path.as_str(), *weight)),
    );
    Case {
        name: format!("nested to depth {depth}"),
        short: format!("depth {depth}"),
        loads: vec![Load::Udp(COUNTABLE); tree.leaves().count()],
        plan: Plan::mbit(FAST, tree),
    }
}

/// Up to three levels of two to four classes with weights up to 10 and packets of any size.
fn random(seed: u64) -> Case {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut classes: Vec<(String, u32)> = Vec::new();
    let mut inner = vec![String::new()];
    for level in 0..3 {
        let mut next = Vec::new();
        for parent in &inner {
            for child in 0..random.usize(2..=3) {
                let path = format!("{parent}/{child}");
                classes.push((path.clone(), random.u32(1..=10)));
                if level < 2 && child == 0 {
                    next.push(path);
                }
            }
        }
        inner = next;
    }
    let tree = Tree::new(
        classes
            .iter()
            .map(|(path, weight)| (path.as_str(), *weight)),
    );
    let sizes = (0..tree.leaves().count()).map(|_| random.usize(64..=1500));
    Case {
        name: format!("random tree {seed}"),
        short: format!("seed {seed}"),
        loads: sizes.map(Load::Udp).collect(),
        plan: Plan::mbit(20, tree),
    }
}

/// All cases; the random trees are those of `seed` and the numbers after it.
pub fn all(seed: u64, trees: u64) -> Vec<Case> {
    let udp = |size, count| vec![Load::Udp(size); count];
    let tcp = |count| vec![Load::Tcp(CONNECTIONS); count];
    let mut cases = vec![
        flat("1:1", FAST, &[1, 1], udp(1500, 2)),
        flat("1:4", FAST, &[1, 4], udp(1500, 2)),
        flat("3:5:7", FAST, &[3, 5, 7], udp(1500, 3)),
        flat("1:100", FAST, &[1, 100], udp(COUNTABLE, 2)),
        flat("64…1500", SLOW, &[1; 6], SIZES.map(Load::Udp).into()),
        nested(8),
        flat("TCP 1:4", FAST, &[1, 4], tcp(2)),
        flat("TCP 3:5:7", FAST, &[3, 5, 7], tcp(3)),
        flat("GSO 3:5:7", FAST, &[3, 5, 7], tcp(3)),
        flat(
            "TCP, UDP",
            FAST,
            &[3, 5, 7, 5],
            vec![
                Load::Tcp(CONNECTIONS),
                Load::Udp(1500),
                Load::Tcp(1),
                Load::Udp(512),
            ],
        ),
        flat(
            "GSO, UDP",
            FAST,
            &[1, 1],
            vec![Load::Tcp(CONNECTIONS), Load::Udp(1500)],
        ),
    ];
    cases.extend(other_rates());
    for case in &mut cases {
        case.plan.gso = case.name.contains("GSO");
        // Below a bar there is little room.
        case.short = match case.name.as_str() {
            "64…1500" => "sizes".to_owned(),
            "TCP 3:5:7" => "TCP".to_owned(),
            "GSO 3:5:7" => "GSO".to_owned(),
            "TCP, UDP" => "TCP+UDP".to_owned(),
            "GSO, UDP" => "GSO+UDP".to_owned(),
            "3 Mbit/s TCP, 1:1" => "3 M TCP".to_owned(),
            "1 Gbit/s GSO, 3:5:7" => "1 G".to_owned(),
            name => match name.split_once("bit/s, ") {
                Some((rate, _)) => rate.to_owned(),
                None => continue,
            },
        };
    }
    cases.extend((seed..seed + trees).map(random));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leaf_has_a_load() {
        for case in all(1, 20) {
            let leaves = case.plan.tree.leaves().count();
            assert_eq!(case.loads.len(), leaves, "{}", case.name);
            let shares: f64 = case
                .plan
                .tree
                .leaves()
                .map(|l| case.plan.tree.share(l))
                .sum();
            assert!((shares - 1.0).abs() < 1e-9, "{}", case.name);
        }
        assert_eq!(nested(8).plan.tree.depth(), 8);
    }
}
