// SPDX-License-Identifier: MIT OR Apache-2.0
//! What weights entitle to where one child cannot use it all (core/tree/readjust.h).

/// Parts of a processor that one may count in; any other unit will do.
pub const CPU: u64 = 1 << 20;

/// Greatest amount, and greatest sum of amounts.
pub const AMOUNT_MAX: u64 = 1 << 34;

/// Weights must add up to less.
const WEIGHTS_END: u64 = 1 << 28;

/// One of those who share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Child {
    /// The most it can use.
    pub theta: u64,
    /// What it is entitled to, `min(theta, λ·weight)`.
    pub share: u64,
    /// Its weight, at least 1.
    pub weight: u32,
    pub(crate) full: u32,
}

impl Child {
    /// One that can use up to `theta`.
    pub fn new(weight: u32, theta: u64) -> Child {
        Child {
            theta,
            weight,
            ..Child::default()
        }
    }

    /// It is entitled to all that it can use.
    pub fn is_full(&self) -> bool {
        self.full != 0
    }
}

/// Divides `capacity` among the children, whose `share` is set. Returns how
/// much of it they can use.
///
/// # Panics
/// When the weights or amounts are beyond what `core/tree/readjust.h` allows.
pub fn readjust(children: &mut [Child], capacity: u64) -> u64 {
    let weights: u64 = children.iter().map(|c| u64::from(c.weight)).sum();
    assert!(
        weights < WEIGHTS_END && children.iter().all(|c| c.weight > 0),
        "weights out of range"
    );
    assert!(
        capacity <= AMOUNT_MAX && children.iter().all(|c| c.theta <= AMOUNT_MAX),
        "amounts out of range"
    );
    // SAFETY: the layout is C's (ffi.rs compares), the length is the slice's.
    unsafe { crate::ffi::qcore_readjust(children.as_mut_ptr(), children.len() as u32, capacity) }
}
