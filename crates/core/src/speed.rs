// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast a processor has to be (core/cpu/speed.h).

use crate::ffi;

/// All of a processor.
pub const FULL: u32 = 1024;

/// What is known of a processor. Times are of one clock.
pub struct Speed(ffi::RawSpeed);

impl Speed {
    /// Nothing is known: it runs at full speed.
    pub fn new(now_ns: u64) -> Speed {
        let mut raw = ffi::RawSpeed::default();
        // SAFETY: here and below the structure is C's, and nothing else is touched.
        unsafe { ffi::qcore_speed_init(&mut raw, now_ns) };
        Speed(raw)
    }

    /// It has nobody to serve from now on.
    pub fn rests(&mut self, now_ns: u64) {
        unsafe { ffi::qcore_speed_rests(&mut self.0, now_ns) };
    }

    /// It has again.
    pub fn serves(&mut self, now_ns: u64) {
        unsafe { ffi::qcore_speed_serves(&mut self.0, now_ns) };
    }

    /// What the kernel is to be told while it serves somebody, at that speed (0 to [`FULL`]); `None`: it
    /// was told a moment ago.
    pub fn see(&mut self, speed: u32, now_ns: u64) -> Option<u32> {
        let need = unsafe { ffi::qcore_speed_see(&mut self.0, speed, now_ns) };
        (need <= FULL).then_some(need)
    }

    /// Is the kernel to be told that nothing is needed of it, as it rests so long? Once a rest.
    pub fn over(&mut self, now_ns: u64) -> bool {
        unsafe { ffi::qcore_speed_over(&mut self.0, now_ns) }
    }
}
