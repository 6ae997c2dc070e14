// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the property tests of all crates are run, and where the inputs are kept that failed.
//!
//! ```
//! use proptest::prelude::*;
//! use qlinux_properties::cases;
//!
//! proptest! {
//!     #![proptest_config(cases(300))]
//!
//!     # /*
//!     #[test]
//!     # */
//!     fn sums_commute(a in 0..1000, b in 0..1000) {
//!         prop_assert_eq!(a + b, b + a);
//!     }
//! }
//! # sums_commute();
//! ```

use proptest::test_runner::{Config, FileFailurePersistence};

/// So many times as many cases as a property says are run, if it is set.
pub const TIMES: &str = "QLINUX_CASES";

/// A failure is noted beside the source of its test, `tests/tree.rs` in `tests/tree.regressions`.
/// proptest's own place is found from a `lib.rs`, which integration tests have not.
const EXTENSION: &str = "regressions";

/// Shrinking ends after that; proptest itself gives up after four steps a case, far from a
/// minimal input.
const MAX_SHRINK_STEPS: u32 = 1_000_000;
const MAX_SHRINK_MS: u32 = 60_000;

/// The configuration of a property of which that many random cases are run, after all that
/// failed before.
///
/// # Panics
///
/// If [`TIMES`] is set, and to no number from 1 on.
pub fn cases(cases: u32) -> Config {
    let standard = Config::default();
    let times = match std::env::var(TIMES) {
        Err(_) => 1,
        Ok(text) => text.parse().ok().filter(|times| *times > 0).unwrap_or_else(|| {
            panic!("{TIMES} is '{text}', which is no number of times: set it to 100, e.g., or not at all")
        }),
    };
    Config {
        cases: cases.saturating_mul(times),
        max_global_rejects: standard.max_global_rejects.saturating_mul(times),
        max_shrink_iters: MAX_SHRINK_STEPS,
        max_shrink_time: MAX_SHRINK_MS,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(EXTENSION))),
        ..standard
    }
}
