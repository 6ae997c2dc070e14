// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram of waits says of any waits what a sorted list of them says.

use proptest::collection::vec;
use proptest::prelude::*;
use qlinux_core::waits::{count, end_ns, Waits, BUCKETS};
use qlinux_properties::cases;

const LONGEST_NS: u64 = 1 << 35;

fn wait_ns() -> impl Strategy<Value = u64> {
    (0u32..36).prop_flat_map(|bits| 0..1u64 << bits)
}

fn counters(waits: &[u64]) -> [u32; BUCKETS] {
    let mut counters = [0; BUCKETS];
    for &wait_ns in waits {
        count(&mut counters, wait_ns);
    }
    counters
}

proptest! {
    #![proptest_config(cases(300))]

    /// A bucket holds what lies between the end of the one before and its own,
    /// which is not far off.
    #[test]
    fn a_wait_is_counted_where_it_belongs(wait_ns in wait_ns()) {
        let bucket = counters(&[wait_ns]).iter().position(|&n| n == 1).unwrap();
        prop_assert!(wait_ns < end_ns(bucket), "{wait_ns} in {bucket}");
        prop_assert!(end_ns(bucket) - wait_ns <= (wait_ns / 4).max(512), "{wait_ns} in {bucket}");
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_waits(
        mut waits in vec(wait_ns(), 1..200), earlier in vec(wait_ns(), 0..50), part in 0.01f64..=1.0,
    ) {
        let before = counters(&earlier);
        let mut after = before;
        for &wait_ns in &waits {
            count(&mut after, wait_ns);
        }
        let found = Waits::between(&before, &after);
        waits.sort_unstable();
        let rank = (waits.len() as f64 * part).ceil() as usize;
        for (found, exact) in [
            (found.quantile_ns(part), waits[rank - 1]),
            (found.quantile_ns(1.0), *waits.last().unwrap()),
            (found.max_ns(), *waits.last().unwrap()),
        ] {
            let found = found.unwrap();
            prop_assert!(found > exact && found - exact <= (exact / 4).max(512), "{found} {exact}");
        }
        prop_assert_eq!(found.count(), waits.len() as u64);
    }
}

#[test]
fn counters_may_go_round() {
    let mut before = [0; BUCKETS];
    before[0] = u32::MAX;
    let mut after = before;
    count(&mut after, 0);
    count(&mut after, 0);
    assert_eq!(after[0], 1);
    assert_eq!(Waits::between(&before, &after).count(), 2);
}

#[test]
fn none_and_the_longest() {
    assert_eq!(Waits::default().quantile_ns(0.5), None);
    assert_eq!(Waits::default().max_ns(), None);
    for wait_ns in [LONGEST_NS - 1, LONGEST_NS, 60 * LONGEST_NS] {
        assert_eq!(counters(&[wait_ns])[BUCKETS - 1], 1, "{wait_ns}");
    }
    let mut sum = Waits::between(&[0; BUCKETS], &counters(&[1]));
    sum += &Waits::between(&[0; BUCKETS], &counters(&[1_000_000, 2_000_000]));
    assert_eq!((sum.count(), sum.quantile_ns(0.3)), (3, Some(512)));
}
