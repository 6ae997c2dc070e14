// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checker must find what is wrong: traces that break one promise each.

use qlinux_core::bounds::{check, Interval, Kind, Node, Options, Quantum, Report, Trace};
use qlinux_core::engine::Core;
use qlinux_core::sim::{run, Workload};

const MS: u64 = 1_000_000;

/// A good trace of three classes, one of them nested, for 2 s.
fn good() -> Trace {
    let text = "
        duration = '2s'
        class = [
            { path = '/a', weight = 1, leaf = 'ts' },
            { path = '/b', weight = 3 },
            { path = '/b/c', weight = 1, leaf = 'ts' },
            { path = '/b/d', weight = 1, leaf = 'sfq' },
        ]
        thread = [
            { class = '/a' },
            { class = '/b/c', run = ['1ms', '9ms'], sleep = ['1ms', '20ms'] },
            { class = '/b/d', weight = 10 },
            { class = '/b/d', weight = 20 },
        ]
    ";
    run(&text.parse::<Workload>().unwrap(), Core::new())
        .unwrap()
        .trace
}

fn kinds(report: &Report) -> Vec<Kind> {
    let mut kinds: Vec<_> = report.violations.iter().map(|v| v.kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

fn found(trace: &Trace, options: &Options) -> Vec<Kind> {
    kinds(&check(trace, options))
}

fn ideal(trace: &Trace) -> Vec<Kind> {
    found(trace, &Options::default())
}

/// The node's place in the trace.
fn node(trace: &Trace, name: &str) -> usize {
    trace.nodes.iter().position(|n| n.name == name).unwrap()
}

/// Gives all service of one node within a time to another one.
fn give(trace: &mut Trace, from: &str, to: &str, span: std::ops::Range<u64>) {
    let (from, to) = (node(trace, from), node(trace, to));
    for q in &mut trace.quanta {
        if q.node == from && span.contains(&q.start_ns) && span.contains(&(q.end_ns - 1)) {
            q.node = to;
        }
    }
}

#[test]
fn a_good_trace_has_no_violation_and_comes_close_to_the_bounds() {
    let report = check(&good(), &Options::default());
    assert!(report.violations.is_empty(), "{}", report.violations[0]);
    assert!(report.compared > 1_000);
    let ratio = |kind| report.tightest(kind).unwrap().ratio();
    for kind in [Kind::Fairness, Kind::Throughput, Kind::Delay] {
        assert!(
            (0.3..=1.0).contains(&ratio(kind)),
            "{kind:?}: {}",
            ratio(kind)
        );
    }
    assert_eq!(ratio(Kind::Work), 0.0);
}

#[test]
fn service_of_another_class_is_unfair_and_misses_its_rate() {
    let mut trace = good();
    give(&mut trace, "/a", "/b/d:/b/d-2", 1_000 * MS..1_200 * MS);
    let report = check(&trace, &Options::default());
    assert_eq!(
        kinds(&report),
        [Kind::Fairness, Kind::Throughput, Kind::Delay]
    );
    let text = report
        .violations
        .iter()
        .find(|v| v.kind == Kind::Fairness)
        .unwrap()
        .to_string();
    assert!(
        text.contains("/b (weight 3) is ahead of /a (weight 1)"),
        "{text}"
    );
}

#[test]
fn service_of_another_thread_is_unfair_within_its_leaf_only() {
    let mut trace = good();
    give(&mut trace, "/b/d:/b/d-2", "/b/d:/b/d-3", 500 * MS..800 * MS);
    let report = check(&trace, &Options::default());
    assert!(kinds(&report).contains(&Kind::Fairness));
    assert!(
        report.violations.iter().all(|v| v.what.contains("/b/d:")),
        "{:?}",
        report.violations
    );
}

#[test]
fn a_wrong_weight_is_noticed_from_then_on() {
    let mut trace = good();
    let a = node(&trace, "/a");
    trace.nodes[a].weights.push((1_500 * MS, 2));
    let report = check(&trace, &Options::default());
    assert!(!report.violations.is_empty());
    assert!(
        report.violations.iter().all(|v| v.start_ns >= 1_490 * MS),
        "{:?}",
        report.violations
    );
}

#[test]
fn an_idle_server_is_no_ideal_server() {
    let mut trace = good();
    // Somebody else takes the server for 30 ms.
    let starts = trace.quanta.iter().map(|q| q.start_ns);
    let from = starts.filter(|&t| t >= 1_000 * MS).min().unwrap();
    let begin = |t: &mut u64| *t += if *t >= from { 30 * MS } else { 0 };
    let end = |t: &mut u64| *t += if *t > from { 30 * MS } else { 0 };
    for q in &mut trace.quanta {
        begin(&mut q.start_ns);
        end(&mut q.end_ns);
    }
    for i in &mut trace.runnable {
        begin(&mut i.start_ns);
        end(&mut i.end_ns);
    }
    end(&mut trace.end_ns);
    let violated = ideal(&trace);
    assert!(violated.contains(&Kind::Work), "{violated:?}");
    // Fairness holds on any server.
    assert!(!violated.contains(&Kind::Fairness), "{violated:?}");
    // With a delta that allows for it, the others hold too.
    let options = Options {
        delta_ns: 30 * MS,
        ..Options::default()
    };
    assert!(found(&trace, &options).is_empty());
}

#[test]
fn a_slow_server_needs_a_lower_rate() {
    let mut trace = good();
    for q in &mut trace.quanta {
        q.served_ns = q.served_ns * 9 / 10;
    }
    assert!(ideal(&trace).contains(&Kind::Throughput));
    let options = Options {
        rate: 0.89,
        delta_ns: MS,
        ..Options::default()
    };
    assert!(found(&trace, &options).is_empty());
}

#[test]
fn an_overlong_quantum_is_found_if_a_limit_is_given() {
    let options = Options {
        quantum_max_ns: Some(2 * MS),
        ..Options::default()
    };
    assert_eq!(found(&good(), &options), [Kind::Quantum]);
    let options = Options {
        quantum_max_ns: Some(20 * MS),
        ..Options::default()
    };
    assert!(found(&good(), &options).is_empty());
}

#[test]
fn a_trace_that_contradicts_itself_proves_nothing() {
    type Damage = fn(&mut Trace);
    let cases: [(Damage, &str); 9] = [
        (
            |t| t.quanta[5].end_ns = t.quanta[5].start_ns,
            "is served from",
        ),
        (|t| t.quanta[5].start_ns -= 1, "server 0 serves"),
        (|t| t.quanta[5].server = 1, "server 1"),
        (|t| t.quanta[5].node = 99, "does not exist"),
        (|t| t.quanta[5].node = 0, "has children"),
        (
            |t| t.runnable.retain(|i| i.node != t.quanta[0].node),
            "was not runnable",
        ),
        (|t| t.nodes[1].weights[0].1 = 0, "weight 0"),
        (|t| t.nodes[1].parent = Some(1), "not below the root"),
        (|t| t.nodes[1].parent = None, "not one root"),
    ];
    for (damage, reason) in cases {
        let mut trace = good();
        damage(&mut trace);
        let report = check(&trace, &Options::default());
        assert_eq!(kinds(&report), [Kind::Trace], "{reason}");
        assert!(
            report.violations[0].to_string().contains(reason),
            "{}",
            report.violations[0]
        );
    }
}

/// Every interval counts: also one that begins in the middle of a quantum.
#[test]
fn fairness_covers_intervals_that_begin_within_a_quantum() {
    let class = |name: &str, weight| Node {
        name: name.into(),
        parent: Some(0),
        weights: vec![(0, weight)],
    };
    let mut trace = Trace {
        servers: 1,
        end_ns: 60 * MS,
        fresh: true,
        nodes: vec![
            Node {
                parent: None,
                ..class("/", 1)
            },
            class("/a", 1),
            class("/b", 1),
        ],
        quanta: vec![
            Quantum::new(1, 0, 10 * MS),
            Quantum::new(1, 10 * MS, 20 * MS),
        ],
        runnable: vec![Interval {
            node: 1,
            start_ns: 0,
            end_ns: 60 * MS,
        }],
        ..Trace::default()
    };
    trace.quanta.extend([
        Quantum::new(1, 20 * MS, 30 * MS),
        Quantum::new(2, 30 * MS, 60 * MS),
    ]);
    let wakes_at = |ms| {
        let mut trace = trace.clone();
        trace.runnable.push(Interval {
            node: 2,
            start_ns: ms * MS,
            end_ns: 60 * MS,
        });
        check(&trace, &Options::default())
    };
    // From its wake-up, /b waits for 28 ms and then has 30: at most 40 are allowed.
    let report = wakes_at(2);
    let fairness = report.tightest(Kind::Fairness).unwrap();
    assert_eq!(fairness.observed, (30 * MS) as f64);
    assert!(fairness.ratio() < 1.0);
    // Delay: three quanta of 10 ms are more than the one that SFQ allows.
    assert!(kinds(&report).contains(&Kind::Delay));
    assert!(!kinds(&wakes_at(22)).contains(&Kind::Delay));
}

#[test]
fn traces_survive_json() {
    let trace = good();
    let json = serde_json::to_string(&trace).unwrap();
    assert_eq!(serde_json::from_str::<Trace>(&json).unwrap(), trace);
}

/// What happened before a class fell asleep is not held against a weight it gets later.
#[test]
fn weights_given_during_a_sleep_do_not_count_for_the_time_before() {
    let text = "
        duration = '2s'
        class = [
            { path = '/a', weight = 1, leaf = 'ts' },
            { path = '/b', weight = 1, leaf = 'ts' },
        ]
        thread = [{ class = '/a', work = '500ms' }, { class = '/b' }]
        event = [
            { at = '1500ms', do = 'weight', class = '/a', weight = 100 },
            { at = '1600ms', do = 'weight', class = '/a', weight = 9000 },
            { at = '1700ms', do = 'weight', class = '/a', weight = 10 },
        ]
    ";
    let trace = run(&text.parse::<Workload>().unwrap(), Core::new())
        .unwrap()
        .trace;
    assert_eq!(ideal(&trace), []);
}
