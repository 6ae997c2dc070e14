// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bounds of SFQ for every packet of a link that has a rate: sources that burst, pause
//! and send now and then, in trees of classes.

use proptest::prelude::*;
use qlinux_core::bounds::{check, Interval, Node, Options, Quantum, Trace};
use qlinux_core::link::{Discipline, Goal, Link, Next, QueueId};
use qlinux_core::NodeId;
use qlinux_properties::cases;

/// A byte takes a nanosecond, so lengths are times.
const RATE: u64 = 1_000_000_000;

/// A leaf's packets: bytes, and the pause before each.
type Source = Vec<(u32, u64)>;

#[derive(Clone, Debug)]
struct Tree {
    /// Weights of classes below the root, each with the weights and sources of its leaves.
    groups: Vec<(u32, Vec<(u32, Source)>)>,
}

fn sources() -> impl Strategy<Value = Source> {
    let pause = prop_oneof![3 => Just(0u64), 3 => 0u64..3000, 1 => 0u64..30_000];
    prop::collection::vec((64u32..1515, pause), 1..60)
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = (1u32..20, sources());
    let group = (1u32..20, prop::collection::vec(leaf, 1..4));
    prop::collection::vec(group, 1..4).prop_map(|groups| Tree { groups })
}

struct Run {
    link: Link,
    trace: Trace,
    /// By place in the store: node of the trace, length, when it came.
    stored: std::collections::HashMap<u32, (usize, u32, u64)>,
    arrivals: Vec<(u64, usize, QueueId, u32)>,
}

impl Run {
    fn node(&mut self, parent: usize, weight: u32) -> usize {
        let name = format!("n{}", self.trace.nodes.len());
        let (parent, weights) = (Some(parent), vec![(0, weight)]);
        self.trace.nodes.push(Node {
            name,
            parent,
            weights,
        });
        self.trace.nodes.len() - 1
    }

    fn new(tree: &Tree) -> Run {
        let mut link = Link::new();
        link.set_goal(Goal {
            target_ns: 0,
            interval_ns: 0,
        });
        link.pace(RATE, 0, 0, 0).unwrap();
        let root = Node {
            name: "/".into(),
            parent: None,
            weights: vec![(0, 1)],
        };
        let trace = Trace {
            servers: 1,
            fresh: true,
            nodes: vec![root],
            ..Trace::default()
        };
        let mut run = Run {
            link,
            trace,
            stored: Default::default(),
            arrivals: Vec::new(),
        };
        for (weight, leaves) in &tree.groups {
            let above = run.link.mknod(NodeId::ROOT, *weight).unwrap();
            let group = run.node(0, *weight);
            for (weight, source) in leaves {
                let leaf = run.link.mkleaf(above, *weight, Discipline::Fifo).unwrap();
                let queue = run.link.createq(1).unwrap();
                run.link.attachq(queue, leaf).unwrap();
                let node = run.node(group, *weight);
                let mut time = 1;
                for (bytes, pause) in source {
                    time += pause;
                    run.arrivals.push((time, node, queue, *bytes));
                }
            }
        }
        run.arrivals.sort_by_key(|arrival| arrival.0);
        run
    }

    /// What is sent at that moment; when to ask again.
    fn serve(&mut self, now: u64) -> Option<u64> {
        loop {
            match self.link.dequeue(now) {
                Next::Send(place) => {
                    let (node, bytes, came) = self.stored.remove(&place).unwrap();
                    let end_ns = now + u64::from(bytes);
                    self.trace.quanta.push(Quantum::new(node, now, end_ns));
                    self.trace.runnable.push(Interval {
                        node,
                        start_ns: came,
                        end_ns,
                    });
                    self.trace.end_ns = end_ns;
                }
                Next::Wait(at) => return Some(at),
                Next::Nothing => return None,
                Next::Drop(_) => panic!("nothing was to be dropped"),
            }
        }
    }

    fn run(mut self) -> Trace {
        let arrivals = std::mem::take(&mut self.arrivals);
        let mut wake = None;
        for (time, node, queue, bytes) in arrivals {
            while let Some(at) = wake.filter(|&at| at <= time) {
                wake = self.serve(at);
            }
            let place = self.link.enqueue(queue, 0, bytes, time).unwrap().unwrap();
            self.stored.insert(place, (node, bytes, time));
            wake = self.serve(time);
        }
        while let Some(at) = wake {
            wake = self.serve(at);
        }
        self.trace
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Fairness, throughput and delay, for all nodes and all intervals. Tags are rounded to
    /// 1024ths of a byte per unit of weight.
    #[test]
    fn every_packet_of_a_link_is_within_the_bounds(tree in trees()) {
        let trace = Run::new(&tree).run();
        let report = check(&trace, &Options { slack_ns: 2, ..Options::default() });
        prop_assert!(report.violations.is_empty(), "{}", report.violations[0]);
        prop_assert!(report.compared > 0);
    }
}
