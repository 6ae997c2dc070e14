// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated workloads: core and model decide alike, and every trace keeps the bounds.

use proptest::collection::vec;
use proptest::prelude::*;
use qlinux_core::bounds::{check, Kind, Options};
use qlinux_core::engine::Core;
use qlinux_core::leaf::tunables;
use qlinux_core::model::Model;
use qlinux_core::sim::{
    run, simulate, Change, Class, Event, Ns, Request, Simulation, Span, Thread, Workload,
};
use qlinux_core::Policy;
use qlinux_properties::cases;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..=10_000, 1u32..=10, Just(100)]
}

/// Not so short that simulating a second takes minutes.
fn time(most_ns: u64) -> impl Strategy<Value = u64> {
    let least_ns = 50_000;
    prop_oneof![
        least_ns..=most_ns,
        least_ns..=most_ns / 20 + least_ns,
        (1..=most_ns / MS).prop_map(|ms| ms * MS)
    ]
}

/// A class hangs below one of the inner nodes before it.
fn classes() -> impl Strategy<Value = Vec<Class>> {
    let class = (
        any::<prop::sample::Index>(),
        weight(),
        prop::option::weighted(0.7, 0usize..4),
    );
    vec(class, 2..16).prop_map(|list| {
        let mut inner = vec![String::new()];
        let mut classes = Vec::new();
        for (i, (parent, weight, leaf)) in list.into_iter().enumerate() {
            let path = format!("{}/c{i}", parent.get(&inner));
            let leaf = leaf.map(|l| Policy::ALL[l]);
            if leaf.is_none() {
                inner.push(path.clone());
            }
            classes.push(Class { path, weight, leaf });
        }
        classes.push(Class {
            path: "/last".into(),
            weight: 100,
            leaf: Some(Policy::Sfq),
        });
        classes
    })
}

#[derive(Clone, Debug)]
enum Pattern {
    Busy,
    Burst(u64, u64, u64),
    Periodic(u64, u64),
    Phases(Vec<u64>),
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        3 => Just(Pattern::Busy),
        3 => (time(30 * MS), time(30 * MS), 0..30 * MS)
            .prop_map(|(a, b, sleep)| Pattern::Burst(a.min(b), a.max(b), sleep)),
        2 => (time(10 * MS), time(50 * MS)).prop_map(|(run, every)| Pattern::Periodic(run, every)),
        1 => vec(time(100 * MS), 1..8).prop_map(Pattern::Phases),
    ]
}

fn thread(leaves: Vec<String>) -> impl Strategy<Value = Thread> {
    (
        prop::sample::select(leaves),
        weight(),
        1u32..3,
        0..200 * MS,
        pattern(),
    )
        .prop_map(|(class, weight, count, start, pattern)| {
            let mut t = Thread {
                name: None,
                class,
                weight,
                count,
                on: None,
                start: Ns(start),
                work: None,
                run: None,
                sleep: None,
                every: None,
                phases: None,
                reserve: None,
                priority: None,
            };
            match pattern {
                Pattern::Busy => {}
                Pattern::Burst(least, most, sleep) => {
                    t.run = Some(Span::between(least, most));
                    t.sleep = Some(Span::between(0, sleep));
                }
                Pattern::Periodic(run, every) => {
                    t.run = Some(Span::fixed(run));
                    t.every = Some(Ns(every));
                }
                Pattern::Phases(phases) => t.phases = Some(phases.into_iter().map(Ns).collect()),
            }
            t
        })
}

/// What may happen on the way. Moves make a leaf's threads no nodes of the trace.
fn events(classes: Vec<Class>, leaves: Vec<String>) -> impl Strategy<Value = Vec<Event>> {
    let paths: Vec<String> = classes.iter().map(|c| c.path.clone()).collect();
    let leaf = || prop::sample::select(leaves.clone());
    let event = prop_oneof![
        4 => (prop::sample::select(paths.clone()), weight())
            .prop_map(|(class, weight)| Event::Weight { at: Ns(0), class, weight }),
        1 => (leaf(), 0usize..Policy::ALL.len())
            .prop_map(|(class, l)| Event::Leaf { at: Ns(0), class, leaf: Policy::ALL[l] }),
        2 => (prop::sample::select(paths.clone()), any::<bool>()).prop_map(|(class, suspend)| {
            let (at, class, thread) = (Ns(0), Some(class), None);
            if suspend {
                Event::Suspend { at, class, thread }
            } else {
                Event::Resume { at, class, thread }
            }
        }),
        2 => leaf().prop_map(|class| Event::Move { at: Ns(0), thread: "mover".into(), class }),
        1 => weight().prop_map(|weight| Event::ThreadWeight {
            at: Ns(0),
            thread: "mover".into(),
            weight,
        }),
    ];
    vec((0..400 * MS, event), 0..12).prop_map(|list| {
        let at = |t, mut e: Event| {
            match &mut e {
                Event::Weight { at, .. }
                | Event::Leaf { at, .. }
                | Event::Suspend { at, .. }
                | Event::Resume { at, .. }
                | Event::Move { at, .. }
                | Event::ThreadWeight { at, .. } => *at = Ns(t),
                _ => unreachable!("not among the random events"),
            }
            e
        };
        list.into_iter().map(|(t, e)| at(t, e)).collect()
    })
}

fn workload(servers: std::ops::Range<u32>) -> impl Strategy<Value = Workload> {
    classes()
        .prop_flat_map(move |classes| {
            let leaves: Vec<String> = classes
                .iter()
                .filter(|c| c.leaf.is_some())
                .map(|c| c.path.clone())
                .collect();
            let threads = vec(thread(leaves.clone()), 1..12);
            let events = events(classes.clone(), leaves);
            let quantum = prop::option::weighted(0.3, time(20 * MS).prop_map(Ns));
            (
                Just(classes),
                threads,
                events,
                quantum,
                any::<bool>(),
                any::<u64>(),
                servers.clone(),
            )
        })
        .prop_map(
            |(classes, mut threads, events, quantum, preempt, seed, servers)| {
                let mover = Thread {
                    name: Some("mover".into()),
                    count: 1,
                    ..threads[0].clone()
                };
                threads.push(mover);
                let duration = Ns(400 * MS);
                let preempt = Some(preempt);
                Workload {
                    domains: 1,
                    lock: Default::default(),
                    duration,
                    servers,
                    quantum,
                    preempt,
                    late: None,
                    seed,
                    classes,
                    threads,
                    events,
                }
            },
        )
}

/// The same happened in both; where not, the first of it is what one would look at.
fn alike(core: &Simulation, model: &Simulation) -> Result<(), TestCaseError> {
    for (core, model) in core.records.iter().zip(&model.records) {
        prop_assert_eq!(core, model);
    }
    prop_assert!(core == model, "they differ in what was not recorded");
    Ok(())
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn core_and_model_simulate_alike_within_the_bounds(workload in workload(1..2)) {
        let core = run(&workload, Core::new()).unwrap();
        alike(&core, &run(&workload, Model::new()).unwrap())?;
        let report = check(&core.trace, &Options::default());
        prop_assert!(report.violations.is_empty(), "{}", report.violations[0]);
    }

    #[test]
    fn several_servers_keep_the_fairness_of_sfq_d_but_for_what_is_owed(workload in workload(2..5)) {
        let core = run(&workload, Core::new()).unwrap();
        alike(&core, &run(&workload, Model::new()).unwrap())?;
        // A class that could not use its share is owed some. Where quanta are not fixed it may
        // be some turns ahead besides, which with so few classes are less than this.
        let turn_ns = match workload.quantum {
            Some(_) => 0,
            None => tunables().turns_ahead * u64::from(workload.servers) * 10 * MS,
        };
        let slack_ns = tunables().lag_ns * tunables().lag_servers + turn_ns;
        let report = check(&core.trace, &Options { slack_ns, ..Options::default() });
        prop_assert!(report.violations.is_empty(), "{}", report.violations[0]);
    }

    #[test]
    fn core_and_model_simulate_domains_alike(mut workload in workload(2..7), domains in 2u32..=3) {
        workload.domains = domains.min(workload.servers);
        let core = run(&workload, Core::new()).unwrap();
        alike(&core, &run(&workload, Model::new()).unwrap())?;
        let report = check(&core.trace, &Options::ledger(workload.servers));
        prop_assert!(report.violations.is_empty(), "{}", report.violations[0]);
    }

    #[test]
    fn threads_stay_on_their_servers_and_no_server_idles_beside_one_for_it(
        mut workload in workload(2..5),
        sets in vec(1u32..16, 12),
    ) {
        for (thread, set) in workload.threads.iter_mut().zip(sets) {
            let on: Vec<u32> = (0..workload.servers).filter(|s| set >> s & 1 != 0).collect();
            thread.on = (!on.is_empty()).then_some(on);
        }
        let simulation = run(&workload, Core::new()).unwrap();
        alike(&simulation, &run(&workload, Model::new()).unwrap())?;
        let on: Vec<Vec<u32>> = workload.threads.iter().flat_map(|t| {
            let all = || (0..workload.servers).collect();
            std::iter::repeat_n(t.on.clone().unwrap_or_else(all), t.count as usize)
        }).collect();
        check_affinity(&simulation, &on, workload.duration.0)?;
    }
}

/// When each thread is runnable and not in service no server of its own is idle.
fn check_affinity(s: &Simulation, on: &[Vec<u32>], end_ns: u64) -> Result<(), TestCaseError> {
    let mut idle: Vec<(u32, u64, u64)> = Vec::new();
    for server in 0..4 {
        let mut busy: Vec<_> = s
            .records
            .iter()
            .filter(|r| r.server == Some(server))
            .collect();
        busy.sort_by_key(|r| r.start_ns);
        let mut at = 0;
        for r in busy {
            prop_assert!(
                on[r.thread].contains(&server),
                "{} on {server}",
                s.threads[r.thread]
            );
            idle.push((server, at, r.start_ns));
            at = r.end_ns;
        }
        idle.push((server, at, end_ns));
    }
    for (thread, on) in on.iter().enumerate() {
        let mut waits = None;
        for r in s.records.iter().filter(|r| r.thread == thread) {
            if let (Some(since), true) = (waits, r.start_ns > waits.unwrap_or(0)) {
                let seen = idle
                    .iter()
                    .find(|i| on.contains(&i.0) && i.1.max(since) < i.2.min(r.start_ns));
                prop_assert!(
                    seen.is_none(),
                    "{} waits beside {seen:?}",
                    s.threads[thread]
                );
            }
            waits = match r.change {
                Change::Wake | Change::Expired | Change::Preempted => Some(r.end_ns),
                Change::Blocked | Change::Stopped | Change::Leave => None,
            };
        }
    }
    Ok(())
}

#[test]
fn a_class_confined_to_two_servers_is_served_beside_pinned_threads() {
    let mut text = String::from("duration = '10s'\nservers = 4\n");
    text += "class = [{ path = '/pinned', leaf = 'ts' }, { path = '/set', leaf = 'ts' }]\n";
    for server in 0..4 {
        text += &format!("[[thread]]\nclass = '/pinned'\non = [{server}]\n");
    }
    text += "[[thread]]\nclass = '/set'\ncount = 5\non = [1, 2]\n";
    let summary = run(&text.parse().unwrap(), Core::new()).unwrap().summary();
    assert_eq!(summary.served_ns, 40_000 * MS, "no processor is ever idle");
    let share = summary
        .classes
        .iter()
        .find(|c| c.name == "/set")
        .unwrap()
        .share;
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

#[test]
fn the_hierarchy_of_the_example_gets_its_shares() {
    let workload: Workload = include_str!("../workloads/hierarchy.toml").parse().unwrap();
    let simulation = run(&workload, Core::new()).unwrap();
    let summary = simulation.summary();
    assert!(
        summary.bounds.violations.is_empty(),
        "{:?}",
        summary.bounds.violations
    );
    assert_eq!(
        summary.served_ns, summary.duration_ns,
        "somebody always runs"
    );
    let share = |name: &str| {
        let rows = summary.classes.iter().chain(&summary.threads);
        rows.clone().find(|r| r.name == name).unwrap().share
    };
    // The player's share of a third suffices for what it wants.
    assert!((share("player") - 0.2).abs() < 0.002, "{}", share("player"));
    for kind in [Kind::Fairness, Kind::Throughput, Kind::Delay] {
        let tightest = summary.bounds.tightest(kind).unwrap();
        assert!(
            tightest.ratio() > 0.2,
            "the bound is hardly tested: {tightest}"
        );
    }
}

#[test]
fn sixty_four_servers_divide_what_a_class_with_few_threads_leaves() {
    let workload: Workload = include_str!("../workloads/processors.toml")
        .parse()
        .unwrap();
    let simulation = run(&workload, Core::new()).unwrap();
    let summary = simulation.summary();
    assert_eq!(summary.served_ns, 64 * summary.duration_ns);
    // Eight of 64 processors, and the rest 1:2:3:4.
    let ideal = [0.0875, 0.175, 0.2625, 0.35, 0.125];
    for (class, ideal) in summary.classes[1..].iter().zip(ideal) {
        let error = (class.share / ideal - 1.0).abs();
        assert!(error < 0.01, "{}: {} of {ideal}", class.name, class.share);
    }
}

#[test]
fn seventy_thousand_quanta_of_fifty_classes_are_checked_in_time() {
    let mut text = String::from("duration = '40s'\n");
    for i in 0..50 {
        text += &format!(
            "[[class]]\npath = '/c{i}'\nweight = {}\nleaf = 'ts'\n",
            1 + i * 37 % 400
        );
        text += &format!("[[thread]]\nclass = '/c{i}'\ncount = 2\n");
        if i % 3 == 0 {
            text += "run = ['100us', '3ms']\nsleep = ['0ms', '5ms']\n";
        }
    }
    let simulation = run(&text.parse().unwrap(), Core::new()).unwrap();
    assert!(
        simulation.trace.quanta.len() > 70_000,
        "{}",
        simulation.trace.quanta.len()
    );
    let report = check(&simulation.trace, &Options::default());
    assert!(report.violations.is_empty(), "{}", report.violations[0]);
}

#[test]
fn classes_come_and_go_and_threads_exit() {
    let text = "
        duration = '1s'
        class = [{ path = '/a', weight = 1, leaf = 'ts' }]
        [[thread]]
        name = 'short'
        class = '/a'
        work = '50ms'
        [[thread]]
        name = 'long'
        class = '/a'
        [[event]]
        at = '100ms'
        do = 'create'
        path = '/b'
        weight = 3
        leaf = 'fifo'
        [[event]]
        at = '200ms'
        do = 'move'
        thread = 'long'
        class = '/b'
        [[event]]
        at = '300ms'
        do = 'delete'
        class = '/a'
        [[event]]
        at = '900ms'
        do = 'exit'
        thread = 'long'
    ";
    let simulation = run(&text.parse().unwrap(), Core::new()).unwrap();
    let summary = simulation.summary();
    assert_eq!(summary.threads[0].served_ns, 50 * MS);
    assert_eq!(summary.threads[1].served_ns, 850 * MS);
    assert_eq!(summary.classes[1].served_ns, 200 * MS);
    assert!(summary.bounds.violations.is_empty());

    let busy = text.replace("at = '200ms'", "at = '400ms'");
    let error = run(&busy.parse().unwrap(), Core::new())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "at 300000000 ns, deleting /a: node 2 still has children or threads; remove or move them first"
    );
}

#[test]
fn a_wrong_workload_is_refused_in_one_sentence() {
    let class = "class = [{ path = '/a', leaf = 'ts' }]\n";
    let cases = [
        ("duration = '1'", "is no time"),
        ("duration = '1s'\nquantum = '0s'", "longer than nothing"),
        ("duration = '1s'\nservers = 513", "servers = 513"),
        ("duration = '1s'\nnonsense = 1", "unknown field"),
        (
            "duration = '1s'\nthread = [{ class = '/a', run = '1ms' }]",
            "give run with either",
        ),
        (
            "duration = '1s'\nthread = [{ class = '/a', weight = 0 }]",
            "weight 0",
        ),
        (
            "duration = '1s'\nthread = [{ class = '/a', on = [1] }]",
            "on must name servers from 0 to 0",
        ),
        (
            "duration = '1s'\nevent = [{ at = '1s', do = 'nonsense' }]",
            "unknown variant",
        ),
        (
            "duration = '1s'\nthread = [{ class = '/a', run = ['2s', '1s'] }]",
            "comes first",
        ),
    ];
    for (text, reason) in cases {
        let error = text.parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let cases = [
        ("thread = [{ class = '/b' }]", "class '/b' does not exist"),
        (
            "event = [{ at = '1ms', do = 'weight', class = '/a', weight = 10001 }]",
            "weight 10001",
        ),
        (
            "event = [{ at = '1ms', do = 'resume' }]",
            "either a class or a thread",
        ),
        (
            "event = [{ at = '1ms', do = 'exit', thread = 'x' }]",
            "thread 'x' does not exist",
        ),
        (
            "event = [{ at = '1ms', do = 'create', path = '/a/b', weight = 1 }]",
            "is a leaf",
        ),
    ];
    for (text, reason) in cases {
        let workload: Workload = format!("duration = '1s'\n{class}{text}").parse().unwrap();
        let error = run(&workload, Core::new()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_command_writes_what_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    std::fs::write(file("w.toml"), include_str!("../workloads/figure3.toml")).unwrap();
    let mut traces = Vec::new();
    for model in [false, true] {
        simulate(&Request {
            workload: file("w.toml"),
            model,
            trace: Some(file("t.csv")),
            summary: Some(file("s.json")),
            seed: None,
        })
        .unwrap();
        traces.push(std::fs::read_to_string(file("t.csv")).unwrap());
    }
    assert_eq!(traces[0], traces[1]);
    assert!(
        traces[0].contains("\nexpired,0,10000000,0,/A,A,0\n"),
        "{}",
        traces[0]
    );
    assert!(
        traces[0].contains("\nwake,115000000,115000000,,/B,B,51200000000\n"),
        "{}",
        traces[0]
    );
    let summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file("s.json")).unwrap()).unwrap();
    assert_eq!(summary["served_ns"], 180 * MS);
    assert_eq!(summary["bounds"]["violations"], serde_json::json!([]));

    let workload = file("missing");
    let missing = simulate(&Request {
        workload,
        ..Request::default()
    })
    .unwrap_err();
    assert!(
        missing.to_string().contains("missing: No such file"),
        "{missing}"
    );
}

/// Classes at each of eight levels, and what each gets in every single second.
#[test]
fn deep_down_shares_are_exact_within_a_second() {
    let (mut path, mut classes, mut threads) = (String::new(), Vec::new(), Vec::new());
    let weights = [
        (1, 4),
        (2, 3),
        (1, 3),
        (3, 5),
        (1, 2),
        (2, 7),
        (1, 1),
        (3, 4),
    ];
    for (level, (leaf, inner)) in weights.into_iter().enumerate() {
        classes.push(format!(
            "{{ path = '{path}/leaf', weight = {leaf}00, leaf = 'ts' }}"
        ));
        threads.push(format!(
            "{{ class = '{path}/leaf', name = '{level}', count = 3 }}"
        ));
        path = format!("{path}/in");
        let policy = if level == 7 { ", leaf = 'ts'" } else { "" };
        classes.push(format!(
            "{{ path = '{path}', weight = {inner}00 {policy} }}"
        ));
    }
    threads.push(format!("{{ class = '{path}', name = '8', count = 3 }}"));
    for servers in [4, 8] {
        let text = format!(
            "duration = '5s'\nservers = {servers}\nlate = ['0us', '20us']\nclass = [{}]\nthread = [{}]",
            classes.join(", "),
            threads.join(", ")
        );
        let simulation = run(&text.parse().unwrap(), Core::new()).unwrap();
        let mut served = vec![[0u64; 5]; 9];
        let services = simulation.records.iter().filter(|r| r.change.is_service());
        for r in services.filter(|r| r.end_ns > r.start_ns && r.end_ns <= 5 * SECOND) {
            let level: usize = simulation.threads[r.thread][..1].parse().unwrap();
            for second in r.start_ns / SECOND..=(r.end_ns - 1) / SECOND {
                let (from, to) = (second * SECOND, (second + 1) * SECOND);
                served[level][second as usize] += r.end_ns.min(to) - r.start_ns.max(from);
            }
        }
        let mut rest = servers as f64;
        for (level, seconds) in served.iter().enumerate() {
            let (leaf, inner) = weights.get(level).copied().unwrap_or((1, 0));
            let due = rest * f64::from(leaf) / f64::from(leaf + inner);
            rest -= due;
            for &ns in seconds {
                let off = ns as f64 / 1e9 / due - 1.0;
                assert!(off.abs() < 0.012, "level {level}, {servers} servers: {off}");
            }
        }
    }
}

/// One that waits for a disk: it is ready again long before its peers have had a turn each.
#[test]
fn who_waits_for_something_often_is_served_often() {
    for (servers, least) in [(1, 1_200), (4, 600)] {
        let text = format!(
            "
            duration = '2s'
            servers = {servers}
            class = [{{ path = '/a', leaf = 'ts' }}]
            thread = [
                {{ class = '/a', count = {} }},
                {{ class = '/a', name = 'waits', run = '30us', sleep = '200us' }},
            ]",
            4 * servers
        );
        let simulation = run(&text.parse().unwrap(), Core::new()).unwrap();
        let records = simulation.records.iter();
        let times = records
            .filter(|r| r.change.is_service() && simulation.threads[r.thread] == "waits")
            .count();
        assert!(times >= 2 * least, "{times} with {servers}");
    }
}

#[test]
fn in_a_crowd_that_sleeps_and_wakes_a_busy_thread_has_its_turn_soon() {
    let text = "
        duration = '5s'
        class = [{ path = '/a', leaf = 'ts' }]
        thread = [
            { class = '/a', name = 'busy' },
            { class = '/a', name = 'crowd', count = 400, run = '2ms', sleep = '1ms' },
        ]";
    let simulation = run(&text.parse().unwrap(), Core::new()).unwrap();
    let (mut last_ns, mut longest_ns) = (0, 0);
    for r in &simulation.records {
        if r.change.is_service() && simulation.threads[r.thread] == "busy" {
            longest_ns = longest_ns.max(r.start_ns - last_ns);
            last_ns = r.end_ns;
        }
    }
    // All have a turn of half a millisecond and return that much ahead.
    assert!(
        last_ns > 4_000 * MS && longest_ns < 3 * 400 * MS / 2,
        "{longest_ns}"
    );
}
