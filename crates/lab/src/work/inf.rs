// SPDX-License-Identifier: MIT OR Apache-2.0
//! The papers' Inf: an endless loop that counts how often it went round.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of one iteration: short against any quantum, long against counting it.
const STEPS: u32 = 100;

/// One iteration, the unit of work of everything that is busy here.
#[inline(never)]
pub fn iteration() {
    let mut x: u32 = 1;
    for step in 0..STEPS {
        x = black_box(x.wrapping_mul(3).wrapping_add(step));
    }
}

/// Iterates for ever.
pub fn run(count: &AtomicU64) {
    loop {
        iteration();
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
