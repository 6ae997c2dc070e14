// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Rust mirrors of kernel/*/intf.h have the C layouts.

use qlinux::intf;
use qlinux::link::intf as link;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

macro_rules! layout {
    ($($c:literal = $rust:ty { $($field:ident),* })*) => {
        (
            vec![$(
                (concat!($c, " size").to_string(), size_of::<$rust>()),
                $((concat!($c, " ", stringify!($field)).to_string(), offset_of!($rust, $field)),)*
            )*],
            concat!($(
                "P(\"", $c, " size\", sizeof(struct ", $c, "));\n",
                $("P(\"", $c, " ", stringify!($field), "\", __builtin_offsetof(struct ", $c, ", ", stringify!($field), "));\n",)*
            )*),
        )
    };
}

type Figures = Vec<(String, usize)>;

#[test]
fn cpu_layouts_agree() {
    let (mut rust, body) = layout! {
        "hsfq_end" = intf::End { kind, code, time_ns, done, reason, message }
        "hsfq_totals" = intf::Totals { quanta, preemptions, timer_ends, passed_over, rescued, shared_cgroups, trace_lost,
            lock_failures, moved }
        "hsfq_lending" = intf::Lending { loans, returned, chained, guests }
        "hsfq_ctl_class" = intf::CtlClass { cgroup_id, served_ns, own_ns, start_tag, vtime, share_ppb, node, leaf,
            weight, policy, threads, runnable, children, shared, misses, throttled, throttled_ns }
        "hsfq_class_record" = intf::ClassRecord { cgroup_id, served_ns, own_ns, misses, node, leaf, parent, weight, leaf_weight,
            policy, threads, runnable, waits }
        "hsfq_ctl_tree" = intf::CtlTree { time_ns, from, count, caller, pad, record }
        "hsfq_ctl_policy" = intf::CtlPolicy { cgroup_id, policy, pad }
        "hsfq_ctl_thread" = intf::CtlThread { tid, set_weight, weight, fixed, cgroup_id, served_ns, key,
            cost_ns, period_ns, deadline_ns, misses, class, priority, set, pad }
        "hsfq_trace_record" = intf::TraceRecord { time_ns, length_ns, start_tag, leaf, node, tid, cpu, kind, weight, pad }
    };
    let values = [
        ("HSFQ_INTF_VERSION", intf::VERSION as usize),
        ("HSFQ_WEIGHT_NICE", intf::WEIGHT_NICE as usize),
        ("HSFQ_WAITS", intf::WAITS),
    ];
    let body = body.to_string() + &constants(&values, &mut rust);
    compare("#include \"cpu/intf.h\"\n", &body, &rust);
}

#[test]
fn link_layouts_agree() {
    let (mut rust, body) = layout! {
        "hsfq_link_state" = link::State { qdisc, begun_ns, ended_ns, unlocked, unlocked_bytes, trace_lost }
        "hsfq_link_ctl_node" = link::CtlNode { op, node, parent, weight, leaf, pad, name }
        "hsfq_link_ctl_queue" = link::CtlQueue { op, queue, leaf, weight, set, packets_max, bytes_max, name }
        "link_counts" = link::Counts { enqueued, enqueued_bytes, sent, sent_bytes, refused, refused_bytes, dropped, dropped_bytes }
        "hsfq_link_ctl_link" = link::CtlLink { set, standard, rate, overhead, least, target_ns, interval_ns, time_ns, packets,
            rules, bytes, gone, state }
        "rule" = link::Rule { from, from_mask, to, to_mask, mark, mark_mask, sport_least, sport_most, dport_least, dport_most,
            protocol, dscp, family, queue }
        "hsfq_link_ctl_rule" = link::CtlRule { op, at, count, pad, rule }
        "hsfq_link_ctl_cgroup" = link::CtlCgroup { cgroup_id, queue, pad }
        "hsfq_link_node" = link::NodeRecord { served, node, parent, weight, leaf, runnable, queues, name }
        "hsfq_link_ctl_nodes" = link::CtlNodes { time_ns, from, count, record }
        "hsfq_link_queue" = link::QueueRecord { counts, bytes, bytes_max, packets, packets_max, queue, leaf, weight, users, waits, name }
        "hsfq_link_ctl_queues" = link::CtlQueues { time_ns, from, count, record }
        "hsfq_link_grant" = link::Grant { who, kind, queue }
        "hsfq_link_trace_record" = link::TraceRecord { time_ns, arrived_ns, queue, line, length, dropped }
    };
    let values = [
        ("HSFQ_LINK_VERSION", link::VERSION as usize),
        ("HSFQ_LINK_NAME", link::NAME),
        ("HSFQ_LINK_NODES", link::NODES),
        ("HSFQ_LINK_QUEUES", link::QUEUES),
        ("HSFQ_LINK_RULES", link::RULES),
        ("HSFQ_LINK_WAITS", link::WAITS),
        ("RULES_ANY", link::ANY as usize),
        ("HSFQ_LINK_ADD", link::op::ADD as usize),
        ("HSFQ_LINK_DEL", link::op::DEL as usize),
        ("HSFQ_LINK_SET", link::op::SET as usize),
        ("HSFQ_LINK_GET", link::op::GET as usize),
        ("HSFQ_LINK_ATTACH", link::op::ATTACH as usize),
        ("HSFQ_LINK_SET_WEIGHT", link::set::QUEUE_WEIGHT as usize),
        ("HSFQ_LINK_SET_LIMITS", link::set::QUEUE_LIMITS as usize),
        ("HSFQ_LINK_SET_RATE", link::set::RATE as usize),
        ("HSFQ_LINK_SET_CODEL", link::set::CODEL as usize),
        ("HSFQ_LINK_SET_DEFAULT", link::set::DEFAULT as usize),
        ("HSFQ_LINK_UID", link::who::UID as usize),
        ("HSFQ_LINK_CGROUP", link::who::CGROUP as usize),
    ];
    let body = body.to_string() + &constants(&values, &mut rust);
    let headers = "#define CORE_HAVE_TYPES\n#include <stdbool.h>\n#define CORE_FN static inline __attribute__((unused))\n\
                   #include \"../core/link/link.h\"\n#include \"../core/link/rules.h\"\n#include \"link/intf.h\"\n";
    compare(headers, &body, &rust);
}

/// Prints each constant; what it should be is added to `rust`.
fn constants(values: &[(&str, usize)], rust: &mut Figures) -> String {
    let print = |(name, value): &(&str, usize)| {
        rust.push((name.to_string(), *value));
        format!("P(\"{name}\", {name});\n")
    };
    values.iter().map(print).collect()
}

fn compare(headers: &str, body: &str, rust: &Figures) {
    let source = format!(
        "#include <stdint.h>\n#include <stdio.h>\n\
         typedef uint64_t u64; typedef int64_t s64; typedef uint32_t u32; typedef int32_t s32; typedef uint16_t u16;\n\
         typedef uint8_t u8;\n{headers}#define P(what, n) printf(\"%s = %zu\\n\", what, (size_t)(n))\n\
         int main(void)\n{{\n{body}return 0;\n}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel"))
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let printed = Command::new(&program).output().unwrap();
    let expected: Vec<String> = rust
        .iter()
        .map(|(what, n)| format!("{what} = {n}"))
        .collect();
    let found = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}
