// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Rust mirror of kernel/cpu/intf.h has the C layout.

use qlinux::intf;
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

#[test]
fn layouts_agree() {
    let (mut rust, body) = layout! {
        "hsfq_end" = intf::End { kind, code, time_ns, done, reason, message }
        "hsfq_totals" = intf::Totals { quanta, preemptions, timer_ends, passed_over, rescued, shared_cgroups, trace_lost }
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
    rust.push(("version".to_string(), intf::VERSION as usize));
    rust.push(("weight nice".to_string(), intf::WEIGHT_NICE as usize));
    rust.push(("classes".to_string(), intf::TREE_CLASSES));
    rust.push(("waits".to_string(), intf::WAITS));
    let source = format!(
        "#include <stdint.h>\n#include <stdio.h>\n\
         typedef uint64_t u64; typedef int64_t s64; typedef uint32_t u32; typedef int32_t s32; typedef uint16_t u16;\n\
         #include \"intf.h\"\n#define P(what, n) printf(\"%s = %zu\\n\", what, (size_t)(n))\n\
         int main(void)\n{{\n{body}P(\"version\", HSFQ_INTF_VERSION); P(\"weight nice\", HSFQ_WEIGHT_NICE);\nP(\"classes\", HSFQ_TREE_CLASSES); P(\"waits\", HSFQ_WAITS);\nreturn 0;\n}}\n"
    );

    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/cpu"))
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
