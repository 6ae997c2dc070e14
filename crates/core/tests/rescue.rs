// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nobody waits for ever, whatever the weights and limits are, and nobody gets more than that.

use proptest::prelude::*;
use qlinux_core::rescue::{now, reads_on, waits, Sight};
use qlinux_properties::cases;

const SECOND_NS: u64 = 1_000_000_000;
/// sched_ext takes a scheduler off that keeps a thread waiting for so long.
const WATCHDOG_NS: u64 = 30 * SECOND_NS;

fn sight() -> impl Strategy<Value = Sight> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(dies, inside, reads)| Sight {
        dies,
        inside,
        reads,
    })
}

proptest! {
    #![proptest_config(cases(300))]

    /// Whoever is looked at once a second is served long before the watchdog bites.
    #[test]
    fn nobody_waits_as_long_as_the_watchdog(
        sight in sight(), held in any::<bool>(), start_ns in 0..SECOND_NS, mut left in 0u32..9
    ) {
        let served = (0..).map(|looks| start_ns + looks * SECOND_NS)
            .find(|&waited_ns| now(waited_ns, held, sight, &mut left));
        prop_assert!(served.is_some_and(|waited_ns| waited_ns < WATCHDOG_NS - 5 * SECOND_NS));
    }

    /// Who has waited less than another that is like it is not served before it.
    #[test]
    fn who_waited_longer_is_served_first(
        sight in sight(), held in any::<bool>(), a in 0..WATCHDOG_NS, b in 0..WATCHDOG_NS, left in 0u32..9
    ) {
        let serves = |waited_ns| now(waited_ns, held, sight, &mut left.clone());
        prop_assert!(!serves(a.min(b)) || serves(a.max(b)));
    }

    /// In each leaf of a held class no more threads inside system calls are served than may be;
    /// where the class is not held, the kernel's business gives nobody a turn.
    #[test]
    fn a_system_call_is_no_way_round_a_limit(held in any::<bool>(), most in 0u32..20, threads in 0u32..50) {
        let (inside, mut left) = (Sight { inside: true, ..Sight::default() }, most);
        let served = (0..threads).filter(|_| now(0, held, inside, &mut left)).count() as u32;
        prop_assert_eq!(served, if held { most.min(threads) } else { 0 });
    }

    /// One inside system calls all the time has two quanta of a period that is over, and one in
    /// user space none; one that dies always has another.
    #[test]
    fn a_held_thread_waits_for_its_period(sight in sight(), asks in 0usize..20) {
        let mut quanta = 0;
        let served = (0..asks).filter(|_| !waits(sight, &mut quanta)).count();
        prop_assert_eq!(served, match sight {
            Sight { dies: true, .. } => asks,
            Sight { inside: true, .. } => asks.min(2),
            _ => 0,
        });
    }
}

/// Of a millisecond, in steps of 20 us.
#[test]
fn a_read_section_ends_or_its_thread_is_preempted() {
    assert_eq!((0..).find(|&steps| !reads_on(steps)), Some(50));
}
