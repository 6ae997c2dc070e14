// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `hsfq_schedule` and `hsfq_update` cost, in instructions.
//!
//! A child executes them one instruction at a time under ptrace, so the counts
//! are exact, repeat, and need no performance counters. The child is this
//! program itself. Prints the table; fails if from 10 to 1,000 classes below
//! one node the cost grows more than threefold.

use nix::libc;
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::Pid;
use qlinux_core::{ffi, NodeId, Tree};
use rand::Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::io::{Error, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;

const CHILD: &str = "QLINUX_COST_CHILD";
/// Marks the beginning and the end of what is counted.
const MARK: Signal = Signal::SIGUSR2;
/// Quanta counted in every row. A step takes some 20 µs.
const ROUNDS: usize = 12;

#[derive(Clone, Copy)]
enum Weights {
    Equal,
    Random,
}

#[derive(Clone, Copy)]
enum Shape {
    /// So many leaves below the root.
    Flat(u32, Weights),
    /// The same, random weights; each with one thread, so that a leaf is off
    /// the heap while it is in service, as a kernel does it.
    Single(u32),
    /// One leaf so deep, with a sibling at every level.
    Deep(u32),
    /// Nothing at all: what the marks cost.
    Nothing,
}

impl Shape {
    fn rounds(self) -> usize {
        // All quanta at one depth cost the same.
        if matches!(self, Shape::Deep(_)) {
            2
        } else {
            ROUNDS
        }
    }
}

fn shapes() -> Vec<Shape> {
    let sizes = [10, 100, 1_000, 4_000];
    let flat = |weights| sizes.map(|n| Shape::Flat(n, weights));
    let deep = [1, 2, 4, 8, 16, 32].map(Shape::Deep);
    let mut shapes = vec![Shape::Nothing];
    shapes.extend(flat(Weights::Equal));
    shapes.extend(flat(Weights::Random));
    shapes.extend(sizes.map(Shape::Single));
    shapes.extend(deep);
    shapes
}

fn build(tree: &mut Tree, shape: Shape, rng: &mut ChaCha8Rng) {
    match shape {
        Shape::Nothing => {}
        Shape::Flat(leaves, _) | Shape::Single(leaves) => {
            let equal = matches!(shape, Shape::Flat(_, Weights::Equal));
            for _ in 0..leaves {
                let random = rng.random_range(1..=10_000);
                let weight = if equal { 100 } else { random };
                let leaf = tree.mknod_leaf(NodeId::ROOT, weight).unwrap();
                tree.setrun(leaf).unwrap();
            }
        }
        Shape::Deep(depth) => {
            let mut node = NodeId::ROOT;
            for _ in 1..depth {
                // A light sibling, so that the deep leaf is served nearly always.
                let leaf = tree.mknod_leaf(node, 1).unwrap();
                tree.setrun(leaf).unwrap();
                node = tree.mknod_inner(node, 10_000).unwrap();
            }
            for _ in 0..2 {
                let leaf = tree.mknod_leaf(node, 10_000).unwrap();
                tree.setrun(leaf).unwrap();
            }
        }
    }
}

/// Stops this process, if it is being traced, with few instructions.
#[inline(never)]
fn mark(process: libc::pid_t) {
    // SAFETY: kill(2) touches no memory.
    unsafe { libc::syscall(libc::SYS_kill, process, MARK as libc::c_int) };
}

/// One quantum; the marks are outside, so that nothing else is between them.
#[inline(never)]
fn quantum(tree: *mut ffi::RawTree, length_ns: u64, single: bool) {
    // SAFETY: the pointer comes from a Tree that lives on.
    unsafe {
        let leaf = ffi::qcore_schedule(tree);
        if single {
            ffi::qcore_busy(tree, leaf);
        }
        ffi::qcore_update(tree, leaf, length_ns);
        if single {
            ffi::qcore_ready(tree, leaf);
        }
    }
}

fn child() {
    let process = nix::unistd::getpid().as_raw();
    for shape in shapes() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut tree = Tree::new();
        build(&mut tree, shape, &mut rng);
        let raw = tree.raw_mut_ptr();
        let equal = matches!(shape, Shape::Flat(_, Weights::Equal));
        let mut length_ns = || {
            if equal {
                3_000_000
            } else {
                rng.random_range(100_000..=3_000_000)
            }
        };
        let single = matches!(shape, Shape::Single(_));
        let something = !matches!(shape, Shape::Nothing);
        for _ in 0..if something { 20_000 } else { 0 } {
            quantum(raw, length_ns(), single);
        }
        for _ in 0..shape.rounds() {
            let length_ns = length_ns();
            mark(process);
            if something {
                quantum(raw, length_ns, single);
            }
            mark(process);
        }
    }
}

/// Lets the child run until it gives a mark; `false`: it is done.
fn run_to_mark(child: Pid) -> Result<bool> {
    loop {
        ptrace::cont(child, None)?;
        match waitpid(child, None)? {
            WaitStatus::Stopped(_, MARK) => return Ok(true),
            WaitStatus::Exited(_, 0) => return Ok(false),
            WaitStatus::Stopped(..) => {}
            other => return Err(Error::other(format!("the counted child ended: {other:?}"))),
        }
    }
}

/// Instructions until the child gives the next mark.
fn count_to_mark(child: Pid) -> Result<u64> {
    let mut count = 0;
    loop {
        ptrace::step(child, None)?;
        match waitpid(child, None)? {
            WaitStatus::Stopped(_, MARK) => return Ok(count),
            WaitStatus::Stopped(..) => count += 1,
            other => return Err(Error::other(format!("the counted child ended: {other:?}"))),
        }
    }
}

/// Tracer and child take turns, which is faster on one processor.
fn stay_on_one_processor() -> nix::Result<()> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    let mut one = CpuSet::new();
    let first = (0..CpuSet::count()).find(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    one.set(first.unwrap_or(0))?;
    sched_setaffinity(this, &one)
}

/// Mean and maximum of each shape, without the marks' own instructions.
fn measure() -> Result<Vec<(f64, u64)>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(CHILD, "1");
    // SAFETY: ptrace(2) is a bare system call, fit for between fork and exec.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Error::from)) };
    let process = command.spawn()?;
    let child = Pid::from_raw(process.id() as i32);
    let started = waitpid(child, None)?;
    assert!(
        matches!(started, WaitStatus::Stopped(_, Signal::SIGTRAP)),
        "{started:?}"
    );

    let (mut rows, mut marks) = (Vec::new(), 0);
    for shape in shapes() {
        let mut counts = Vec::with_capacity(ROUNDS);
        for _ in 0..shape.rounds() {
            if !run_to_mark(child)? {
                return Err(Error::other("the counted child ended early"));
            }
            counts.push(count_to_mark(child)?);
        }
        if rows.is_empty() {
            marks = counts[counts.len() / 2];
        }
        let all: u64 = counts.iter().map(|c| c.saturating_sub(marks)).sum();
        let most = counts.iter().max().map_or(0, |c| c.saturating_sub(marks));
        rows.push((all as f64 / counts.len() as f64, most));
    }
    run_to_mark(child)?; // which also takes its exit status
    Ok(rows)
}

fn print(rows: &[(f64, u64)]) {
    println!("instructions of hsfq_schedule + hsfq_update, up to {ROUNDS} quanta each");
    for (shape, (mean, most)) in shapes().iter().zip(rows) {
        let name = match shape {
            Shape::Nothing => continue,
            Shape::Flat(n, Weights::Equal) => format!("{n} classes, equal weights"),
            Shape::Flat(n, Weights::Random) => format!("{n} classes, random weights"),
            Shape::Single(n) => format!("{n} classes, busy and ready"),
            Shape::Deep(depth) => format!("depth {depth}"),
        };
        println!("  {name:<28} mean {mean:>7.1}   most {most:>5}");
    }
}

fn main() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    // Slower if it is refused, but the same.
    let _ = stay_on_one_processor();
    let rows = measure().expect("this needs ptrace(2) on a child of its own");
    print(&rows);
    for (first, what) in [
        (1, "equal weights"),
        (5, "random weights"),
        (9, "busy and ready"),
    ] {
        let (ten, thousand) = (rows[first], rows[first + 2]);
        let grows = thousand.0 / ten.0;
        println!("  {what}, from 10 to 1,000 classes: {grows:.2} times");
        assert!(grows <= 3.0, "{what}: the mean cost grows {grows:.2} times");
        let grows = thousand.1 as f64 / ten.1 as f64;
        assert!(
            grows <= 3.0,
            "{what}: the greatest cost grows {grows:.2} times"
        );
    }
    // As the standard harness says it, for those who count tests.
    println!("\ntest result: ok. 1 passed; 0 failed");
}
