// SPDX-License-Identifier: MIT OR Apache-2.0

use super::fixture::Kernel;
use super::*;
use crate::bpf;
use libbpf_rs::btf::Btf;
use std::collections::BTreeSet;

fn probe(kernel: &Kernel) -> Features {
    let root = tempfile::tempdir().unwrap();
    kernel.write(root.path());
    Features::probe(root.path(), true)
}

fn names(kernel: &Kernel) -> Vec<&'static str> {
    let lacking = probe(kernel).lacking();
    lacking.into_iter().map(|lack| lack.name).collect()
}

#[test]
fn each_version_lacks_what_came_later() {
    let newest_first: [(u32, &[&str]); 9] = [
        (703, &[]),
        (619, &[IDLE_AT_START]),
        (
            618,
            &[
                "scx_bpf_dsq_peek",
                "scx_bpf_task_set_slice",
                "__scx_bpf_dsq_insert_vtime",
                "__scx_bpf_select_cpu_and",
                IDLE,
            ],
        ),
        (617, &[]),
        (616, &[LIMITS]),
        (615, &["bpf_qdisc"]),
        (614, &["bpf_res_spin_lock"]),
        (
            613,
            &[
                "scx_bpf_now",
                "bpf_task_from_vpid",
                "SCX_OPS_ENQ_MIGRATION_DISABLED",
            ],
        ),
        (612, &["scx_bpf_dsq_insert"]),
    ];
    let mut expected = BTreeSet::new();
    for (version, more) in newest_first {
        expected.extend(more);
        if expected.contains(&IDLE) {
            // That there is none at all says it.
            expected.remove(&IDLE_AT_START);
        }
        let lacking = names(&Kernel::version(version));
        let found: BTreeSet<_> = lacking.iter().copied().collect();
        assert_eq!(found, expected, "{version}");
        assert_eq!(found.len(), lacking.len(), "{lacking:?}");
    }
}

#[test]
fn a_kernel_of_6_12_schedules_the_cpu_with_what_it_has() {
    let lacking = probe(&Kernel::version(612)).lacking();
    for lack in lacking.iter().filter(|l| l.resource == Resource::Cpu) {
        assert!(!lack.fatal && lack.instead.is_some(), "{lack:?}");
        assert_eq!(lack.cost.is_none(), lack.remedy.is_empty(), "{lack:?}");
        assert!(lack.found.starts_with("this kernel has no "), "{lack:?}");
    }
    let limits = lacking.iter().find(|l| l.name == LIMITS).unwrap();
    assert_eq!(
        limits.found,
        "this kernel has no sched_ext_ops.cgroup_set_bandwidth and 3 more"
    );
    assert_eq!(limits.remedy, "boot kernel 6.17 or newer");
    assert!(limits.cost.unwrap().contains("cpu.max"));
    let link = lacking.iter().find(|l| l.name == "bpf_qdisc").unwrap();
    assert!(link.fatal && link.remedy == "boot kernel 6.16 or newer");
}

#[test]
fn classes_are_held_to_what_the_kernel_tells_of() {
    let holds = |version| probe(&Kernel::version(version)).holds();
    let (yes, no) = (true, false);
    for (version, limits, idle) in [
        (616, no, no),
        (617, yes, no),
        (619, yes, yes),
        (703, yes, yes),
    ] {
        assert_eq!(holds(version), Holds { limits, idle }, "{version}");
    }
    let root = tempfile::tempdir().unwrap();
    Kernel::version(703).write(root.path());
    let untimed = Features::probe(root.path(), false);
    assert_eq!(
        untimed.holds(),
        Holds {
            limits: no,
            idle: yes
        }
    );
    assert_eq!(untimed.lacking().len(), 1);
    let carried_back = Kernel::version(612).with("sched_ext_ops", "cgroup_set_idle");
    assert!(probe(&carried_back).holds().idle);
}

#[test]
fn a_kernel_without_sched_ext_lacks_that_and_not_each_part() {
    let mut off = Kernel::version(617);
    for name in [
        "scx",
        "cgroup_init",
        "scx_bpf_kick_cpu",
        "scx_bpf_dsq_insert",
    ] {
        off = off.without(name);
    }
    let lacking = probe(&off).lacking();
    assert!(lacking.len() == 1 && lacking[0].fatal, "{lacking:?}");
    assert_eq!(lacking[0].name, "sched_ext");
}

#[test]
fn what_nothing_stands_in_for_is_fatal() {
    for name in ["scx_bpf_create_dsq", "bpf_arena_alloc_pages", "cgroup_init"] {
        let lacking = probe(&Kernel::version(703).without(name)).lacking();
        let [lack] = lacking.as_slice() else {
            panic!("{name}: {lacking:?}");
        };
        assert!(lack.fatal && lack.instead.is_none(), "{lack:?}");
        assert!(lack.found.contains(name), "{lack:?}");
    }
    // Neither the name of 6.13 nor that of 6.12.
    let neither = Kernel::version(703)
        .without("scx_bpf_dsq_move")
        .without("scx_bpf_consume");
    let lacking = probe(&neither).lacking();
    assert!(lacking.len() == 1 && lacking[0].fatal, "{lacking:?}");
    assert_eq!(lacking[0].cost, Some("H-SFQ cannot be loaded"));
    // The older form of the newest names.
    let older = Kernel::version(703).without("__scx_bpf_dsq_insert_vtime");
    assert!(!probe(&older).lacking()[0].fatal);
    let none = older
        .without("scx_bpf_dsq_insert_vtime")
        .without("scx_bpf_dispatch_vtime");
    assert!(probe(&none).lacking()[0].fatal);
}

#[test]
fn functions_that_lost_their_mark_are_told_from_those_that_are_missing() {
    let broken = Kernel::version(703)
        .unmarked("scx_bpf_kick_cpu", 3)
        .unmarked("scx_bpf_task_set_slice", 3);
    let lacking = probe(&broken).lacking();
    let kick = &lacking[0];
    assert!(kick.fatal);
    assert_eq!(
        format!("{}: {}", kick.found, kick.remedy),
        "this kernel's type information lost the bpf_kfunc tag of scx_bpf_kick_cpu (a fault of pahole 1.30 when it \
         was built): boot 7.3 or newer, or 6.12 to 7.0"
    );
    let slice = &lacking[1];
    assert!(!slice.fatal && slice.found.contains("tag of scx_bpf_task_set_slice "));
    // Where nothing is marked, marks say nothing, and shapes still do.
    assert!(names(&Kernel::version(703).without_marks()).is_empty());
    let changed = probe(&broken.without_marks()).lacking();
    assert!(
        changed[0].fatal
            && changed[0]
                .found
                .contains("arguments for scx_bpf_kick_cpu and marks no function"),
        "{changed:?}"
    );
}

#[test]
fn options_are_told_from_types() {
    let features = probe(&Kernel::version(612));
    let on = [
        "CONFIG_EXT_GROUP_SCHED",
        "CONFIG_SCHED_CLASS_EXT",
        "CONFIG_BPF_JIT",
        "CONFIG_CFS_BANDWIDTH",
        "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS",
        "CONFIG_MODULES",
    ];
    for name in on {
        assert_eq!(features.option(name), Some(true), "{name}");
    }
    assert_eq!(features.option("CONFIG_NET_SCH_BPF"), Some(false));
    assert_eq!(features.option("CONFIG_PREEMPT_RT"), Some(false));
    assert_eq!(features.option("CONFIG_HZ"), None);
    assert_eq!(
        probe(&Kernel::version(616)).option("CONFIG_NET_SCH_BPF"),
        Some(true)
    );
    let timely = Kernel::version(616).with("task_struct", "softirq_disable_cnt");
    assert_eq!(probe(&timely).option("CONFIG_PREEMPT_RT"), Some(true));
    let bare = Kernel::version(612)
        .without("cgroup_init")
        .without("quota")
        .without("mem");
    for name in [
        "CONFIG_EXT_GROUP_SCHED",
        "CONFIG_CFS_BANDWIDTH",
        "CONFIG_MODULES",
    ] {
        assert_eq!(probe(&bare).option(name), Some(false), "{name}");
    }
}

#[test]
fn without_type_information_nothing_is_claimed() {
    let root = tempfile::tempdir().unwrap();
    let nothing = Features::probe(root.path(), true);
    assert!(!nothing.known() && nothing.lacking().is_empty());
    assert_eq!(nothing.option("CONFIG_BPF_JIT"), None);
    let path = root.path().join("sys/kernel/btf/vmlinux");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    for rubbish in [
        &b""[..],
        b"x",
        b"\x9f\xeb\x01\x00\x18\x00\x00\x00",
        &[0x9f; 4096],
    ] {
        std::fs::write(&path, rubbish).unwrap();
        assert!(!Features::probe(root.path(), true).known(), "{rubbish:?}");
    }
}

/// Every function that an embedded object calls is one that the table asks about.
#[test]
fn the_table_knows_every_function_that_is_called() {
    let asked: BTreeSet<String> = ALL
        .iter()
        .flat_map(|f| f.is.iter().chain(f.stand_in.iter().copied().flatten()))
        .map(Ask::words)
        .collect();
    for object in [
        &include_bytes!(concat!(env!("OUT_DIR"), "/hsfq_cpu.bpf.o.gz"))[..],
        &include_bytes!(concat!(env!("OUT_DIR"), "/hsfq_link.bpf.o.gz"))[..],
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, bpf::unpack(object).unwrap()).unwrap();
        let btf = Btf::from_path(&file).unwrap();
        let called = bpf::variables(&btf, ".ksyms");
        assert!(called.len() > 5, "{called:?}");
        for (name, _) in called {
            // What follows three underscores tells the forms of one function apart.
            let name = name.split("___").next().unwrap();
            assert!(asked.contains(name), "{name}");
        }
    }
}
