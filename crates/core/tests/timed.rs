// SPDX-License-Identifier: MIT OR Apache-2.0
//! What edf, rm and svr4 promise, on simulated servers.

use proptest::collection::vec;
use proptest::prelude::*;
use qlinux_core::engine::Core;
use qlinux_core::sim::{run, Change, Ns, Simulation, Span, Svr4, Thread, Workload};
use qlinux_core::{Class, Reservation};
use qlinux_properties::cases;

const MS: u64 = 1_000_000;

fn workload(leaf: &str, seconds: u64) -> Workload {
    let text = format!(
        "duration = '{seconds}s'\n[[class]]\npath = '/leaf'\nleaf = '{leaf}'\nweight = 100"
    );
    text.parse().unwrap()
}

fn thread(name: &str) -> Thread {
    let text = format!("duration = '1s'\n[[class]]\npath = '/leaf'\nleaf = 'edf'\n[[thread]]\nclass = '/leaf'\nname = '{name}'");
    text.parse::<Workload>().unwrap().threads.remove(0)
}

/// A thread that does what it reserved.
fn periodic(name: &str, cost_ns: u64, period_ns: u64, start_ns: u64) -> Thread {
    let reservation = Reservation::periodic(cost_ns, period_ns);
    let mut t = thread(name);
    t.reserve = Some(reservation);
    t.run = Some(Span::fixed(cost_ns));
    t.every = Some(Ns(period_ns));
    t.start = Ns(start_ns);
    t
}

/// Of a periodic thread: how long after its release each job was done.
fn responses(sim: &Simulation, thread: usize, spec: &Thread) -> Vec<u64> {
    let (period, mut since_ns) = (spec.every.unwrap().0, 0);
    let cost = spec.run.unwrap().least.0;
    let mut found = Vec::new();
    for r in sim
        .records
        .iter()
        .filter(|r| r.thread == thread && r.change.is_service())
    {
        since_ns += r.end_ns - r.start_ns;
        if since_ns == cost {
            found.push(r.end_ns - (spec.start.0 + found.len() as u64 * period));
            since_ns = 0;
        }
    }
    found
}

/// (C, T, start) with C of T as drawn, together at most the whole processor.
fn tasks(all: Vec<(u64, u64, u64)>) -> Vec<(u64, u64, u64)> {
    let sum: u64 = all.iter().map(|t| t.0).sum();
    let scaled = |(part, period, start): (u64, u64, u64)| {
        let cost = period * part / sum.max(1000);
        (cost, period, start)
    };
    all.into_iter()
        .map(scaled)
        .filter(|t| t.0 >= MS / 10)
        .collect()
}

fn task() -> impl Strategy<Value = (u64, u64, u64)> {
    (1u64..1000, (2u64..100).prop_map(|ms| ms * MS), 0..50 * MS)
}

/// The response time at the worst moment, by trial: the least time within which all released is done.
fn worst_response(tasks: &[(u64, u64, u64)], i: usize) -> Option<u64> {
    let (cost, period, _) = tasks[i];
    let mut t = cost;
    while t <= period {
        let others = tasks
            .iter()
            .enumerate()
            .filter(|(j, other)| *j != i && other.1 <= period);
        let wanted = cost + others.map(|(_, (c, p, _))| t.div_ceil(*p) * c).sum::<u64>();
        if wanted == t {
            return Some(t);
        }
        t = wanted;
    }
    None
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn edf_meets_every_deadline_that_can_be_met(drawn in vec(task(), 1..8), background in any::<bool>()) {
        let tasks = tasks(drawn);
        let mut w = workload("edf", 2);
        w.threads = tasks
            .iter()
            .enumerate()
            .map(|(i, t)| periodic(&format!("t{i}"), t.0, t.1, t.2))
            .collect();
        if background {
            w.threads.push(thread("background"));
        }
        let sim = run(&w, Core::new()).unwrap();
        for (i, t) in tasks.iter().enumerate() {
            let worst = responses(&sim, i, &w.threads[i]).into_iter().max().unwrap_or(0);
            prop_assert!(worst <= t.1, "{t:?} took {worst}");
            prop_assert_eq!(sim.misses[i], 0);
        }
    }

    #[test]
    fn edf_protects_those_who_keep_to_their_reservation(drawn in vec(task(), 2..6)) {
        let tasks = tasks(drawn);
        let mut w = workload("edf", 3);
        w.threads = tasks
            .iter()
            .enumerate()
            .map(|(i, t)| periodic(&format!("t{i}"), t.0, t.1, t.2))
            .collect();
        // The first never has enough.
        if let Some(hog) = w.threads.first_mut() {
            hog.run = None;
            hog.every = None;
        }
        let sim = run(&w, Core::new()).unwrap();
        for (i, t) in tasks.iter().enumerate().skip(1) {
            let worst = responses(&sim, i, &w.threads[i]).into_iter().max().unwrap_or(0);
            // A quantum is not shorter than 100 us, also where the budget is.
            prop_assert!(worst <= t.1 + MS / 10, "{t:?} took {worst}");
        }
    }

    #[test]
    fn rm_responds_as_computed(drawn in vec(task(), 1..7)) {
        // All begin together: the worst that can happen.
        let tasks: Vec<_> = tasks(drawn).into_iter().map(|t| (t.0, t.1, 0)).collect();
        let mut w = workload("rm", 2);
        w.threads = tasks
            .iter()
            .enumerate()
            .map(|(i, t)| periodic(&format!("t{i}"), t.0, t.1, 0))
            .collect();
        w.threads.push(thread("background"));
        let sim = run(&w, Core::new()).unwrap();
        for i in 0..tasks.len() {
            let found = responses(&sim, i, &w.threads[i]);
            let Some(worst) = worst_response(&tasks, i) else {
                continue;
            };
            prop_assert!(found.iter().all(|&r| r <= worst), "{tasks:?} {i}: {found:?}, not {worst}");
            // Where no period is as long as another, the first job meets the worst.
            if tasks.iter().enumerate().all(|(j, t)| j == i || t.1 != tasks[i].1) {
                prop_assert_eq!(found[0], worst);
            }
            prop_assert_eq!(sim.misses[i], 0);
        }
    }

    #[test]
    fn svr4_keeps_nobody_waiting_for_ever(
        threads in vec((any::<bool>(), 1u64..30, 1u64..60, 20u32..1000), 2..9),
    ) {
        let mut w = workload("svr4", 8);
        for (i, &(busy, run_ms, sleep_ms, weight)) in threads.iter().enumerate() {
            let mut t = thread(&format!("t{i}"));
            t.weight = weight;
            if !busy {
                t.run = Some(Span::fixed(run_ms * MS));
                t.sleep = Some(Span::fixed(sleep_ms * MS));
                t.priority = Some(Svr4(Class::Ia));
            }
            w.threads.push(t);
        }
        let sim = run(&w, Core::new()).unwrap();
        // Later ones are kept off after a second; those before it have a quantum each, of 200 ms at most.
        let bound = (1000 + 200 * threads.len() as u64) * MS;
        for i in 0..threads.len() {
            let mut since = None;
            for r in sim.records.iter().filter(|r| r.thread == i) {
                if let Some(since) = since {
                    prop_assert!(r.start_ns - since <= bound, "thread {i} waited {}", r.start_ns - since);
                }
                since = (r.change != Change::Blocked).then_some(r.end_ns);
            }
        }
    }
}

#[test]
fn svr4_serves_real_time_first_and_interactive_soon() {
    let mut w = workload("svr4", 5);
    for i in 0..4 {
        w.threads.push(thread(&format!("busy{i}")));
    }
    let mut editor = thread("editor");
    editor.run = Some(Span::fixed(MS));
    editor.sleep = Some(Span::fixed(49 * MS));
    w.threads.push(editor);
    let mut audio = thread("audio");
    audio.priority = Some(Svr4(Class::Rt(10)));
    audio.run = Some(Span::fixed(5 * MS));
    audio.every = Some(Ns(20 * MS));
    w.threads.push(audio);
    let sim = run(&w, Core::new()).unwrap();
    let worst = |thread: usize, from_ns: u64| {
        let mut woke = None;
        let mut worst = 0;
        for r in sim.records.iter().filter(|r| r.thread == thread) {
            if r.change == Change::Wake {
                woke = Some(r.start_ns);
            } else if let Some(woke) = woke.take().filter(|&w| w >= from_ns) {
                worst = worst.max(r.start_ns - woke);
            }
        }
        worst
    };
    assert_eq!(worst(5, 0), 0, "a real-time thread waits for nobody");
    // Once the busy ones have used up some quanta, an editor waits for real time only.
    assert!(worst(4, 1000 * MS) <= 5 * MS, "{}", worst(4, 1000 * MS));
    // And real time is not served beyond what it wants.
    let busy: u64 = sim
        .records
        .iter()
        .filter(|r| r.thread < 4 && r.change.is_service())
        .map(|r| r.end_ns - r.start_ns)
        .sum();
    assert!(busy > 3500 * MS, "{busy}");
}

#[test]
fn the_leaf_may_change_its_scheduler_on_the_way() {
    let text = "
        duration = '3s'
        [[class]]
        path = '/rt'
        leaf = 'ts'
        weight = 300
        [[class]]
        path = '/busy'
        leaf = 'sfq'
        [[thread]]
        class = '/rt'
        name = 'a'
        run = '2ms'
        every = '10ms'
        reserve = '2ms/10ms'
        [[thread]]
        class = '/rt'
        name = 'hog'
        [[thread]]
        class = '/busy'
        count = 5
        [[event]]
        at = '500ms'
        do = 'leaf'
        class = '/rt'
        leaf = 'edf'
        [[event]]
        at = '1s'
        do = 'leaf'
        class = '/rt'
        leaf = 'rm'
        [[event]]
        at = '1500ms'
        do = 'reserve'
        thread = 'hog'
        reserve = '50ms/1s'
        [[event]]
        at = '2s'
        do = 'leaf'
        class = '/rt'
        leaf = 'svr4'
        [[event]]
        at = '2s'
        do = 'priority'
        thread = 'a'
        priority = 'rt:3'
    ";
    let sim = run(&text.parse().unwrap(), Core::new()).unwrap();
    let late = |r: &&qlinux_core::sim::Record| {
        r.thread == 0
            && r.change == Change::Blocked
            && r.end_ns > 510 * MS
            && r.end_ns % (10 * MS) > 9 * MS
    };
    let late: Vec<u64> = sim.records.iter().filter(late).map(|r| r.end_ns).collect();
    assert!(late.is_empty(), "{late:?}");
    assert_eq!(sim.misses[0], 0);
}
