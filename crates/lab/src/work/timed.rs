// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that block: periodic, at random, and in `fork`.

use super::inf::iteration;
use crate::counter::Counter;
use crate::sys;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Iterations between two looks at the clock, about 30 µs of the guest's time.
const BETWEEN_LOOKS: u32 = 20;

/// Works until the thread has had `cpu` more CPU time.
pub fn work_for(count: &AtomicU64, cpu: Duration) {
    let end = sys::thread_cpu_ns() + cpu.as_nanos() as u64;
    while sys::thread_cpu_ns() < end {
        for _ in 0..BETWEEN_LOOKS {
            iteration();
        }
        count.fetch_add(BETWEEN_LOOKS.into(), Ordering::Relaxed);
    }
}

/// Wakes once in every period, logs by how many nanoseconds late, works for `run`. Each period is
/// longer than `period` by up to `vary`, at random.
pub fn sleeper(
    counter: &Counter,
    count: &AtomicU64,
    run: Duration,
    period: Duration,
    vary: Duration,
    seed: u64,
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let period = (period.as_nanos() as u64).max(1);
    let mut wake = sys::now_ns() + period;
    loop {
        sys::sleep_until(wake);
        counter.log(sys::now_ns() - wake);
        work_for(count, run);
        // A period that overran is left out, as a player leaves out a frame.
        let missed = sys::now_ns().saturating_sub(wake) / period;
        wake += (missed + 1) * period + random.u64(0..=vary.as_nanos() as u64);
    }
}

/// Works for `run` in every period and logs, in nanoseconds after the period's beginning, when it
/// was served and when it was done. One that is late begins the next at once.
pub fn rounds(counter: &Counter, count: &AtomicU64, run: Duration, period: Duration) {
    let period = (period.as_nanos() as u64).max(1);
    let mut wake = sys::now_ns() + period;
    loop {
        sys::sleep_until(wake);
        counter.log(sys::now_ns() - wake);
        work_for(count, run);
        counter.log(sys::now_ns() - wake);
        wake += period;
    }
}

/// Works and sleeps in turn, each for up to twice its mean.
pub fn burst(count: &AtomicU64, run: Duration, sleep: Duration, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut up_to_twice = |mean: Duration| mean.mul_f64(random.f64() * 2.0);
    loop {
        work_for(count, up_to_twice(run));
        sys::sleep(up_to_twice(sleep));
    }
}

/// Starts processes that end at once.
pub fn forkstorm(count: &AtomicU64) {
    loop {
        // SAFETY: the child calls nothing but _exit.
        let pid = unsafe { libc::fork() };
        match pid {
            0 => unsafe { libc::_exit(0) },
            // At the limit of processes: others have to end first.
            -1 => sys::sleep(Duration::from_millis(1)),
            pid => {
                let mut status = 0;
                // SAFETY: `status` is valid for writing.
                unsafe { libc::waitpid(pid, &mut status, 0) };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
