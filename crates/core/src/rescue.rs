// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are served out of turn, or a little longer (core/cpu/rescue.h).

use crate::ffi;

/// What is seen of a thread, besides how long it has waited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sight {
    /// It dies, or was told to.
    pub dies: bool,
    /// It was preempted inside a system call.
    pub inside: bool,
    /// It is inside a read section.
    pub reads: bool,
}

/// Must a thread of a class that is held wait for the next period? `quanta` counts those that it
/// had inside a system call since then.
pub fn waits(sight: Sight, quanta: &mut u32) -> bool {
    // SAFETY: the counter is a valid one.
    unsafe { ffi::qcore_rescue_waits(sight.dies, sight.inside, quanta) }
}

/// May a thread whose quantum is over go on, inside a read section, after so many steps?
pub fn reads_on(steps: u64) -> bool {
    // SAFETY: nothing but the number.
    unsafe { ffi::qcore_rescue_reads_on(steps) }
}

/// All are looked at: is this one, which has waited for `waited_ns`, served now? `left`: so many of
/// its leaf that are inside a system call may be, while their class is held.
pub fn now(waited_ns: u64, held: bool, sight: Sight, left: &mut u32) -> bool {
    let Sight {
        dies,
        inside,
        reads,
    } = sight;
    // SAFETY: the counter is a valid one.
    unsafe { ffi::qcore_rescue_now(waited_ns, held, dies, inside, reads, left) }
}
