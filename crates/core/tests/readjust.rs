// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readjusted entitlements: the definition, what follows from it, and another
//! way to compute them.

use proptest::collection::vec;
use proptest::prelude::*;
use qlinux_core::readjust::{readjust, Child, AMOUNT_MAX, CPU};
use qlinux_properties::cases;

/// Few and many children, weights of any ratio, threads from none to many.
fn children() -> impl Strategy<Value = Vec<Child>> {
    let theta = prop_oneof![
        Just(0u64),
        (1u64..9).prop_map(|threads| threads * CPU),
        0..CPU,
        0..AMOUNT_MAX,
    ];
    let weight = prop_oneof![1u32..=10_000, 1u32..=4];
    vec((weight, theta), 0..60)
        .prop_map(|all| all.into_iter().map(|(w, t)| Child::new(w, t)).collect())
}

fn capacity() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..=AMOUNT_MAX, (0u64..600).prop_map(|cpus| cpus * CPU)]
}

/// λ by bisection of the definition, in floating point.
fn bisected(children: &[Child], capacity: u64) -> Vec<f64> {
    let at = |lambda: f64| -> Vec<f64> {
        let share = |c: &Child| (lambda * f64::from(c.weight)).min(c.theta as f64);
        children.iter().map(share).collect()
    };
    let (mut low, mut high) = (0.0, AMOUNT_MAX as f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if at(middle).iter().sum::<f64>() <= capacity as f64 {
            low = middle;
        } else {
            high = middle;
        }
    }
    at(low)
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn all_that_can_be_used_is_divided_and_no_one_gets_more_than_it_can_use(
        mut children in children(), capacity in capacity(),
    ) {
        let used = readjust(&mut children, capacity);
        let thetas: u64 = children.iter().map(|c| c.theta).sum();
        prop_assert_eq!(used, capacity.min(thetas));
        prop_assert_eq!(children.iter().map(|c| c.share).sum::<u64>(), used);
        for c in &children {
            prop_assert!(c.share <= c.theta && (!c.is_full() || c.share == c.theta), "{c:?}");
        }
    }

    /// Max-min: nobody could have more unless one with no more for its weight
    /// had less. Rounding makes a share wrong by less than 1.
    #[test]
    fn whoever_is_not_full_has_at_least_as_much_for_its_weight_as_anyone(
        mut children in children(), capacity in capacity(),
    ) {
        readjust(&mut children, capacity);
        for hungry in children.iter().filter(|c| !c.is_full()) {
            for other in &children {
                let mine = u128::from(hungry.share + 1) * u128::from(other.weight);
                let theirs = u128::from(other.share.saturating_sub(1)) * u128::from(hungry.weight);
                prop_assert!(mine >= theirs, "{hungry:?} {other:?}");
            }
        }
    }

    #[test]
    fn bisection_finds_the_same(mut children in children(), capacity in capacity()) {
        let expected = bisected(&children, capacity);
        readjust(&mut children, capacity);
        for (child, expected) in children.iter().zip(expected) {
            let error = (child.share as f64 - expected).abs();
            prop_assert!(error < 1.01, "{child:?} is not {expected}");
        }
    }

    /// The order of the children decides nothing but who is rounded up.
    #[test]
    fn order_does_not_matter(mut children in children(), capacity in capacity()) {
        let mut reversed: Vec<Child> = children.iter().rev().copied().collect();
        readjust(&mut children, capacity);
        readjust(&mut reversed, capacity);
        for (a, b) in children.iter().zip(reversed.iter().rev()) {
            prop_assert!(a.share.abs_diff(b.share) <= 1 && a.is_full() == b.is_full(), "{a:?} {b:?}");
        }
    }
}

fn shares(children: &[(u32, u64)], cpus: u64) -> Vec<f64> {
    let mut children: Vec<Child> = children
        .iter()
        .map(|&(weight, threads)| Child::new(weight, threads.min(cpus) * CPU))
        .collect();
    readjust(&mut children, cpus * CPU);
    children
        .iter()
        .map(|c| c.share as f64 / CPU as f64)
        .collect()
}

#[test]
fn worked_examples() {
    assert_eq!(
        shares(&[(1, 3), (1, 1), (2, 1), (1, 3)], 4),
        [1.0, 1.0, 1.0, 1.0]
    );
    let infeasible = shares(&[(1, 1), (10, 1)], 2);
    assert_eq!(infeasible, [1.0, 1.0], "neither can use more than one");
    let feasible = shares(&[(1, 12), (2, 4), (3, 2), (4, 2)], 4);
    for (share, expected) in feasible.iter().zip([0.4, 0.8, 1.2, 1.6]) {
        assert!((share - expected).abs() < 2e-6, "{feasible:?}");
    }
    assert_eq!(shares(&[(5, 0), (1, 1)], 1), [0.0, 1.0]);
    assert_eq!(shares(&[], 1), [0.0; 0]);
}

/// The largest tree and machine there can be do not overflow.
#[test]
fn largest() {
    let mut children = vec![Child::new(10_000, AMOUNT_MAX); 16_384];
    assert_eq!(readjust(&mut children, AMOUNT_MAX), AMOUNT_MAX);
    assert!(children
        .iter()
        .all(|c| c.share == AMOUNT_MAX / 16_384 && !c.is_full()));
}
