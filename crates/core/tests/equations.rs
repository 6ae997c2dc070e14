// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both engines against the equations in exact rational numbers, and against
//! what follows from them.

mod common;

use common::{check_invariants, Pair};
use proptest::collection::vec;
use proptest::prelude::*;
use qlinux_core::engine::Engine;
use qlinux_core::{NodeId, LENGTH_MAX_NS};
use qlinux_properties::cases;

/// 1/1024 ns of service at any weight from 1 to 10 is a whole number of these.
const FINE: i128 = 2520;

/// S, F and v as the paper defines them, without any rounding.
struct Exact {
    start: Vec<i128>,
    v: i128,
    greatest_finish: i128,
}

proptest! {
    #![proptest_config(cases(300))]

    /// The rounding of one division is below one unit. It is carried, so a flow's
    /// tag stays within one unit of S + Σl/w; each time a flow takes over v as its
    /// start tag, it takes over v's error too.
    #[test]
    fn tags_are_the_rational_ones_rounded_down(
        weights in vec(1u32..=10, 1..6),
        steps in vec((1u64..20_000_000, any::<prop::sample::Index>(), 0u8..4), 1..400),
    ) {
        let mut pair = Pair::default();
        let leaves: Vec<NodeId> =
            weights.iter().map(|&w| pair.mknod(NodeId::ROOT, w, true).unwrap()).collect();
        let mut exact = Exact { start: vec![0; leaves.len()], v: 0, greatest_finish: 0 };
        let mut awake = vec![false; leaves.len()];
        let mut taken_over = 0i128;

        for (length_ns, who, what) in steps {
            let i = who.index(leaves.len());
            if what == 0 && awake[i] {
                pair.sleep(leaves[i]).unwrap();
                awake[i] = false;
                if !awake.contains(&true) {
                    exact.v = exact.v.max(exact.greatest_finish);
                }
            } else if what <= 1 && !awake[i] {
                pair.setrun(leaves[i]).unwrap();
                awake[i] = true;
                if exact.start[i] < exact.v {
                    exact.start[i] = exact.v;
                }
                taken_over += 1;
            } else if let Some(leaf) = pair.schedule() {
                let f = leaves.iter().position(|&l| l == leaf).unwrap();
                exact.v = exact.v.max(exact.start[f]);
                exact.start[f] += (i128::from(length_ns) << 10) * FINE / i128::from(weights[f]);
                exact.greatest_finish = exact.greatest_finish.max(exact.start[f]);
                pair.update(leaf, length_ns).unwrap();
            }
            for f in (0..leaves.len()).filter(|&f| awake[f]) {
                let tag = i128::from(pair.start_tag(leaves[f]).unwrap()) * FINE;
                let error = (exact.start[f] - tag).abs();
                prop_assert!(error < FINE * (1 + taken_over), "{error} of {FINE}");
                if taken_over <= leaves.len() as i128 && exact.v == 0 {
                    prop_assert!(tag <= exact.start[f] && error < FINE);
                }
            }
        }
    }

    /// Without sleeps there is no taking over: the error stays below one unit, for ever.
    #[test]
    fn carried_remainders_never_add_up(
        weights in vec(1u32..=10_000, 1..5),
        lengths in vec(1u64..50, 1_000..3_000),
    ) {
        let mut pair = Pair::default();
        let leaves: Vec<NodeId> =
            weights.iter().map(|&w| pair.mknod(NodeId::ROOT, w, true).unwrap()).collect();
        for &leaf in &leaves {
            pair.setrun(leaf).unwrap();
        }
        let mut served_ns = vec![0u64; leaves.len()];
        for length_ns in lengths {
            let leaf = pair.schedule().unwrap();
            pair.update(leaf, length_ns).unwrap();
            served_ns[leaves.iter().position(|&l| l == leaf).unwrap()] += length_ns;
        }
        for (f, &leaf) in leaves.iter().enumerate() {
            let exact = (served_ns[f] << 10) / u64::from(weights[f]);
            prop_assert_eq!(pair.start_tag(leaf).unwrap(), exact);
        }
    }

    /// A leaf sleeps while v(t) moves on by any part of the circle of tags, and
    /// round it. When it returns, S = max{ v, F }.
    #[test]
    fn a_sleeper_returns_with_the_greater_of_v_and_f(
        begin in any::<u64>(),
        rounds in prop_oneof![0u32..50, 0u32..10_000],
        last in 0..LENGTH_MAX_NS,
        ahead in 0..LENGTH_MAX_NS,
    ) {
        let mut pair = Pair::default();
        pair.core.tree.begin_at(NodeId::ROOT, begin).unwrap();
        pair.model.begin_at(NodeId::ROOT, begin);
        let sleeper = pair.mknod(NodeId::ROOT, 1, true).unwrap();
        let busy = pair.mknod(NodeId::ROOT, 1, true).unwrap();
        pair.setrun(sleeper).unwrap();
        pair.setrun(busy).unwrap();
        prop_assert_eq!(pair.schedule(), Some(sleeper));
        pair.update(sleeper, ahead).unwrap();
        pair.sleep(sleeper).unwrap();
        for _ in 0..rounds {
            prop_assert_eq!(pair.schedule(), Some(busy));
            pair.update(busy, LENGTH_MAX_NS).unwrap();
        }
        prop_assert_eq!(pair.schedule(), Some(busy));
        pair.update(busy, last).unwrap();
        prop_assert_eq!(pair.schedule(), Some(busy));
        pair.setrun(sleeper).unwrap();
        let v = pair.vtime(NodeId::ROOT).unwrap();
        let tag = pair.start_tag(sleeper).unwrap();
        prop_assert!(tag == v || tag == begin.wrapping_add(ahead << 10));
        check_invariants(pair.core.tree.raw());
    }

    /// Nobody starves: while a leaf waits, another one gets at most what it is
    /// behind by, and a quantum.
    #[test]
    fn every_leaf_is_served_in_bounded_time(
        weights in vec(1u32..=10_000, 2..40),
        lengths in vec(1u64..20_000_000, 300),
    ) {
        let mut pair = Pair::default();
        let leaves: Vec<NodeId> =
            weights.iter().map(|&w| pair.mknod(NodeId::ROOT, w, true).unwrap()).collect();
        for &leaf in &leaves {
            pair.setrun(leaf).unwrap();
        }
        let longest = *lengths.iter().max().unwrap() as f64;
        let mut waited = vec![0.0f64; leaves.len()];
        for (i, &w) in weights.iter().enumerate() {
            let all: f64 = weights.iter().map(|&o| f64::from(o)).sum();
            waited[i] = longest / f64::from(w) * all + longest * leaves.len() as f64;
        }
        let mut since = vec![0.0f64; leaves.len()];
        for length_ns in lengths {
            let leaf = pair.schedule().unwrap();
            pair.update(leaf, length_ns).unwrap();
            for (i, &l) in leaves.iter().enumerate() {
                since[i] = if l == leaf { 0.0 } else { since[i] + length_ns as f64 };
                prop_assert!(since[i] <= waited[i], "leaf {i} waits {} ns", since[i]);
            }
        }
    }
}
