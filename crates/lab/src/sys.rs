// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few system calls that the standard library does not offer.

use anyhow::{ensure, Context, Result};
use std::io;
use std::time::Duration;

/// Linux's flag of `sched_setscheduler`: children start with the ordinary policy.
const RESET_ON_FORK: libc::c_int = 0x4000_0000;

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is valid for writing; the clocks used here always exist.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of a process in nanoseconds, up to the moment.
pub fn cpu_ns(pid: u32) -> Result<u64> {
    let mut id = 0;
    // SAFETY: `id` is valid for writing.
    let error = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut id) };
    ensure!(error == 0, "process {pid} is gone");
    Ok(clock(id))
}

/// Sleeps until `at_ns` of CLOCK_MONOTONIC.
pub fn sleep_until(at_ns: u64) {
    let t = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000) as _,
        tv_nsec: (at_ns % 1_000_000_000) as _,
    };
    // SAFETY: `t` is valid; the remaining time is not asked for with an absolute time.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &t,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Sleeps for `length`.
pub fn sleep(length: Duration) {
    sleep_until(now_ns() + length.as_nanos() as u64);
}

/// Wakes exactly when asked to: timers of ordinary threads may be 50 µs late.
pub fn wake_exactly() {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Puts the calling thread before every ordinary one, so that its samples are
/// taken on time and its own work is in no class. Its children are ordinary.
pub fn become_real_time() -> Result<()> {
    let param = libc::sched_param { sched_priority: 10 };
    // SAFETY: `param` is valid for reading.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | RESET_ON_FORK, &param) };
    ensure!(
        done == 0,
        "real-time priority was refused ({}): run it as root",
        io::Error::last_os_error()
    );
    Ok(())
}

/// Sends `signal` to process `pid`.
pub fn kill(pid: u32, signal: libc::c_int) -> Result<()> {
    // SAFETY: takes no pointers.
    let done = unsafe { libc::kill(pid as libc::pid_t, signal) };
    if done != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("process {pid} took no signal {signal}"));
    }
    Ok(())
}

/// Gives one thread a nice value.
pub fn set_nice(tid: u32, nice: i32) -> Result<()> {
    // SAFETY: takes no pointers. The kernel takes a thread for a process here.
    let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice) };
    if done != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("thread {tid} took no nice value {nice}"));
    }
    Ok(())
}

/// The caller ends when the thread that started it ends.
pub fn die_with_parent() {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Waits until `fd` can be read; false after `timeout` of nothing.
pub fn readable(fd: std::os::fd::RawFd, timeout: Duration) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let t = libc::timespec {
        tv_sec: timeout.as_secs() as _,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: one valid descriptor and a valid time.
    unsafe { libc::ppoll(&mut poll, 1, &t, std::ptr::null()) > 0 }
}

/// Is the caller root?
pub fn is_root() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Does the guest count instructions instead of following real time? Then two
/// runs of the same few instructions take the same time to the nanosecond.
pub fn is_deterministic() -> bool {
    if std::env::var_os("QLINUX_GUEST").is_none() {
        return false;
    }
    let mut lengths: Vec<u64> = (0..101)
        .map(|_| {
            let start = now_ns();
            let mut x = start;
            for _ in 0..1000 {
                x = std::hint::black_box(x ^ (x << 1));
            }
            now_ns() - start
        })
        .collect();
    lengths.sort_unstable();
    // The first ones meet cold pages, a few an interrupt; the clock itself rounds by a few ns.
    lengths[75] - lengths[10] <= 16
}
