// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of trees that are written down here.

use super::*;
use crate::intf::{Plain, WAITS};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// A class: node, parent, weight, own runnable threads, seconds served.
fn class(node: u32, parent: u32, weight: u32, runnable: u32, served: f64) -> ClassRecord {
    let served_ns = (served * SECOND as f64) as u64;
    ClassRecord {
        cgroup_id: 100 + u64::from(node),
        served_ns,
        own_ns: served_ns,
        node,
        leaf: node + 1,
        parent,
        weight,
        leaf_weight: 100,
        threads: runnable + 1,
        runnable,
        ..ClassRecord::zeroed()
    }
}

fn look(at_s: u64, cpus: u32, classes: &[ClassRecord]) -> Look {
    Look {
        tree: Tree {
            leaves: classes.iter().map(|c| (at_s * SECOND, *c)).collect(),
            caller: 0,
        },
        totals: Totals {
            quanta: at_s * 50,
            ..Totals::default()
        },
        machine: Machine {
            cpus,
            idle_s: at_s as f64 * 0.25,
        },
        at: SystemTime::UNIX_EPOCH + Duration::from_secs(at_s),
    }
}

/// The class of node n is /n; those above 90 are deleted.
fn path(id: u64) -> Option<String> {
    match id {
        101 => Some("/".into()),
        id if id > 190 => None,
        id => Some(format!("/{}", id - 100)),
    }
}

fn find<'a>(view: &'a View, name: &str) -> &'a Row {
    let named = |row: &&Row| row.path == name && row.part == Part::Class;
    view.classes.iter().find(named).unwrap()
}

fn entitled(view: &View, name: &str) -> f64 {
    (find(view, name).entitled_cpus * 1e4).round() / 1e4
}

#[test]
fn one_processor_is_divided_by_weight_and_the_one_who_looks_does_not_count() {
    let root = class(1, 0, 100, 1, 0.0);
    let classes = [root, class(4, 1, 100, 1, 0.0), class(6, 1, 300, 2, 0.0)];
    let mut now = look(1, 1, &classes);
    now.tree.caller = root.leaf;
    let view = view(&now, None, path);
    assert_eq!((entitled(&view, "/4"), entitled(&view, "/6")), (0.25, 0.75));
    assert_eq!(
        (find(&view, "/").runnable, find(&view, "/6").runnable),
        (3, 2)
    );
    assert_eq!(find(&view, "/4").received_cpus, None);
    assert_eq!((view.interval_s, &view.per_second), (None, &None));
}

#[test]
fn several_processors_and_levels_are_readjusted() {
    // Weights 1, 1, 2, 1 with 3, 1, 1, 3 threads on 4 processors: one each. The
    // three threads of /4 are in two classes of weight 1:3 below it.
    let classes = [
        class(1, 0, 100, 0, 0.0),
        class(4, 1, 100, 0, 0.0),
        class(6, 1, 100, 1, 0.0),
        class(8, 1, 200, 1, 0.0),
        class(10, 1, 100, 3, 0.0),
        class(12, 4, 100, 2, 0.0),
        class(14, 4, 300, 1, 0.0),
    ];
    let view = view(&look(1, 4, &classes), None, path);
    for name in ["/4", "/6", "/8", "/10"] {
        assert_eq!(entitled(&view, name), 1.0, "{name}");
    }
    assert_eq!(
        (entitled(&view, "/12"), entitled(&view, "/14")),
        (0.25, 0.75)
    );
    assert_eq!(find(&view, "/14").entitled_percent.round(), 19.0);
    assert_eq!((find(&view, "/").runnable, entitled(&view, "/")), (8, 4.0));
}

#[test]
fn figures_of_the_interval() {
    let mut before = [class(1, 0, 100, 0, 10.0), class(4, 1, 100, 1, 4.0)];
    before[1].waits[3] = u32::MAX;
    let mut now = [
        class(1, 0, 100, 0, 13.0),
        class(4, 1, 100, 1, 5.0),
        class(6, 1, 100, 1, 0.5),
    ];
    now[1].waits[3] = 1;
    (before[1].misses, now[1].misses) = (5, 7);
    now[1].policy = "edf".parse::<Leaf>().unwrap().number();
    now[2].waits[0] = 2;
    now[2].waits[WAITS - 1] = 1;
    let view = view(&look(4, 2, &now), Some(&look(2, 2, &before)), path);
    assert_eq!((view.interval_s, view.idle_cpus), (Some(2.0), Some(0.25)));
    assert_eq!(view.per_second.as_ref().unwrap().quanta, 50.0);
    assert_eq!(find(&view, "/").received_cpus, Some(1.5));
    assert_eq!(find(&view, "/").received_percent, Some(75.0));
    assert_eq!(find(&view, "/4").received_cpus, Some(0.5));
    assert_eq!(find(&view, "/6").received_cpus, Some(0.25), "it is new");
    let four = find(&view, "/4");
    assert_eq!((four.wakeups, four.wakeup_p50_ns), (Some(2), Some(2048)));
    assert_eq!((four.misses, find(&view, "/6").misses), (Some(2), None));
    let root = find(&view, "/");
    assert_eq!(root.misses, Some(2));
    assert_eq!((root.wakeups, root.wakeup_p50_ns), (Some(5), Some(2048)));
    assert_eq!(root.wakeup_max_ns, Some(1 << 35));
}

#[test]
fn rows_are_in_order_and_tell_apart_what_is_in_one_class() {
    let mut kernel = class(1, 0, 100, 1, 0.0);
    kernel.leaf = KERNEL_LEAF;
    kernel.leaf_weight = 10_000;
    let classes = [
        class(1, 0, 100, 1, 0.0),
        kernel,
        class(8, 1, 100, 1, 0.0),
        class(4, 1, 100, 1, 0.0),
        class(95, 4, 100, 1, 0.0),
    ];
    let mut busy = classes;
    busy[1].own_ns = SECOND / 5;
    let view = view(&look(2, 1, &busy), Some(&look(1, 1, &classes)), path);
    let rows: Vec<(&str, Part)> = view
        .classes
        .iter()
        .map(|row| (row.path.as_str(), row.part))
        .collect();
    assert_eq!(
        rows,
        [
            ("/", Part::Class),
            ("/", Part::Own),
            ("/", Part::Kernel),
            ("/4", Part::Class),
            ("/4", Part::Own),
            ("/4/95(deleted)", Part::Class),
            ("/8", Part::Class),
        ]
    );
    let parts: f64 = [1, 2, 3, 6]
        .iter()
        .map(|&at: &usize| view.classes[at].entitled_cpus)
        .sum();
    assert!((parts - 1.0).abs() < 1e-5, "{parts}");
    let kernel = view.classes[2].entitled_cpus;
    assert!(
        (kernel - 0.2).abs() < 1e-5,
        "{kernel} instead of what it used"
    );
}

#[test]
fn processors_and_idle_time() {
    let machine = Machine::parse(
        "cpu  1 2 3 400 50 6 0 0 0 0\ncpu0 1 2 3 4 5 6 0 0 0 0\ncpu3 0 0 0 0 0 0 0 0 0 0\nintr 5\n",
    );
    assert_eq!((machine.cpus, machine.idle_s), (2, 4.5));
}
