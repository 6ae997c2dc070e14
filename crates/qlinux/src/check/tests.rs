// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::features::fixture::Kernel;
use flate2::{write::GzEncoder, Compression};
use std::fs;
use std::io::Write;

struct Machine(tempfile::TempDir);

impl Machine {
    /// A Debian kernel that has everything.
    fn capable() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.file("proc/sys/kernel/osrelease", "7.3.4+deb13-amd64\n");
        machine.file(
            "proc/self/mountinfo",
            "30 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        );
        machine.file("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
        machine.file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n");
        machine.file("sys/kernel/sched_ext/state", "disabled\n");
        machine.file("sys/fs/bpf/.keep", "");
        Kernel::version(703).write(machine.0.path());
        machine.namespaces(4026531837, 4026531836, 4026531835);
        machine.file(
            "boot/config-7.3.4+deb13-amd64",
            "CONFIG_EXT_GROUP_SCHED=y\nCONFIG_BPF_JIT=y\nCONFIG_MODULES=y\nCONFIG_KRETPROBES=y\nCONFIG_NET_SCH_BPF=m\n\
             CONFIG_GROUP_SCHED_BANDWIDTH=y\nCONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y\n# CONFIG_PREEMPT_RT is not set\n",
        );
        machine.file(
            "proc/kallsyms",
            "0000000000000000 T __futex_wait\n0000000000000000 T rt_mutex_wait_proxy_lock\n0000000000000000 T page_cache_sync_ra\n0000000000000000 t ioc_weight_write\n0000000000000000 t x\t[m]\n",
        );
        machine
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn namespaces(&self, user: u32, pid: u32, cgroup: u32) {
        let folder = self.0.path().join("proc/self/ns");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for (kind, number) in [("user", user), ("pid", pid), ("cgroup", cgroup)] {
            std::os::unix::fs::symlink(format!("{kind}:[{number}]"), folder.join(kind)).unwrap();
        }
    }

    fn kernel(&self, release: &str, version: u32) {
        let qdiscs = match version {
            616.. => "CONFIG_NET_SCH_BPF=y\n",
            _ => "",
        };
        self.file("proc/sys/kernel/osrelease", release);
        self.file(
            &format!("boot/config-{release}"),
            &format!(
                "CONFIG_EXT_GROUP_SCHED=y\nCONFIG_BPF_JIT=y\nCONFIG_MODULES=y\nCONFIG_KRETPROBES=y\nCONFIG_CFS_BANDWIDTH=y\n\
                 CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y\n{qdiscs}"
            ),
        );
        Kernel::version(version).write(self.0.path());
    }

    fn item(&self, what: &str) -> Item {
        let items = run_on(self.0.path()).items;
        items.into_iter().find(|item| item.what == what).unwrap()
    }

    fn refusal(&self) -> String {
        before_cpu_on(self.0.path()).unwrap_err().to_string()
    }

    fn verdicts(&self, verdict: Verdict) -> Vec<&'static str> {
        let items = run_on(self.0.path()).items;
        items
            .into_iter()
            .filter(|item| item.verdict == verdict)
            .map(|item| item.what)
            .collect()
    }
}

#[test]
fn everything_there() {
    let machine = Machine::capable();
    let report = run_on(machine.0.path());
    assert!(report.usable(Resource::Cpu) && report.usable(Resource::Link));
    assert!(!report.usable(Resource::Disk));
    assert_eq!(
        machine.verdicts(Verdict::No),
        ["module cello", "headers to build a module"]
    );
    for item in report.items {
        assert_eq!(
            item.remedy.is_empty(),
            item.verdict == Verdict::Yes,
            "{item:?}"
        );
    }
}

#[test]
fn kernel_without_sched_ext() {
    let machine = Machine::capable();
    fs::remove_dir_all(machine.0.path().join("sys/kernel/sched_ext")).unwrap();
    assert!(!run_on(machine.0.path()).usable(Resource::Cpu));
    assert!(machine.verdicts(Verdict::No).contains(&"sched_ext"));
}

#[test]
fn other_shortcomings() {
    let machine = Machine::capable();
    machine.kernel("6.12.9-amd64", 612);
    machine.file("proc/self/status", "CapEff:\t0000000000000000\n");
    machine.file("sys/kernel/realtime", "1\n");
    machine.file("sys/kernel/sched_ext/state", "enabled\n");
    machine.file("sys/kernel/sched_ext/root/ops", "simple\n");
    machine.file("sys/fs/cgroup/cgroup.controllers", "memory\n");
    let limited = machine.verdicts(Verdict::Limited);
    assert_eq!(
        limited,
        [
            "sched_ext",
            "quanta shorter than the tick",
            "limits of classes (cpu.max)",
            "idle classes (cpu.idle)",
            "a lock with a time-out",
            "weights lent to lock holders",
            "privilege",
            "disk classes of cgroups"
        ]
    );
    let no = machine.verdicts(Verdict::No);
    assert_eq!(
        no,
        [
            "cgroup v2 with cpu controller",
            "qdiscs in BPF",
            "module cello",
            "headers to build a module"
        ]
    );
    assert!(machine.verdicts(Verdict::Unknown).is_empty());
}

#[test]
fn an_older_kernel_is_good_for_less() {
    let machine = Machine::capable();
    machine.kernel("6.16.12", 616);
    let report = run_on(machine.0.path());
    assert!(report.usable(Resource::Cpu) && report.usable(Resource::Link));
    assert_eq!(
        machine.verdicts(Verdict::Limited),
        ["limits of classes (cpu.max)", "idle classes (cpu.idle)"]
    );
    assert_eq!(
        machine.item("limits of classes (cpu.max)").remedy,
        "shares hold, limits do not while H-SFQ is up; for limits boot kernel 6.17 or newer"
    );
    assert_eq!(
        machine.item("functions that it calls").found,
        "older ones do as well for scx_bpf_dsq_peek, scx_bpf_task_set_slice, __scx_bpf_dsq_insert_vtime, \
         __scx_bpf_select_cpu_and"
    );
    assert!(report.lacking.iter().any(|lack| lack.since == Some("6.17")));
    before_cpu_on(machine.0.path()).unwrap();
    before_link_on(machine.0.path()).unwrap();

    machine.kernel("6.18.1", 618);
    assert_eq!(
        machine.verdicts(Verdict::Limited),
        ["idle classes (cpu.idle)"]
    );
    machine.kernel("6.14.1", 614);
    let lock = machine.item("a lock with a time-out");
    assert_eq!(lock.verdict, Verdict::Limited);
    assert!(lock.remedy.contains("6.15"), "{lock:?}");
    assert!(!run_on(machine.0.path()).usable(Resource::Link));
    machine.kernel("6.13.1", 613);
    let lending = machine.item("weights lent to lock holders");
    assert!(lending.found.contains("bpf_task_from_vpid"), "{lending:?}");
}

#[test]
fn a_kernel_that_lost_marks_is_refused_by_the_name_of_the_fault() {
    let machine = Machine::capable();
    let broken = Kernel::version(703).unmarked("scx_bpf_kick_cpu", 3);
    broken.without("sched_idle").write(machine.0.path());
    let report = run_on(machine.0.path());
    assert!(!report.usable(Resource::Cpu) && report.usable(Resource::Link));
    assert_eq!(
        machine.refusal(),
        "H-SFQ cannot be loaded because this kernel's type information lost the bpf_kfunc tag of scx_bpf_kick_cpu (a \
         fault of pahole 1.30 when it was built): boot 7.3 or newer, or 6.12 to 7.0; see `qlinux check`"
    );
    before_link_on(machine.0.path()).unwrap();
}

#[test]
fn what_is_switched_off_is_named_before_anything_is_tried() {
    let cases: [(&str, &str, &str); 4] = [
        (
            "proc/sys/net/core/bpf_jit_enable",
            "0\n",
            "sysctl -w net.core.bpf_jit_enable=1",
        ),
        (
            "sys/kernel/security/lockdown",
            "none integrity [confidentiality]\n",
            "lockdown=confidentiality",
        ),
        ("proc/self/mountinfo", "", "mount -t cgroup2"),
        (
            "proc/self/status",
            "CapEff:\t0000000000000000\n",
            "neither CAP_SYS_ADMIN nor CAP_BPF",
        ),
    ];
    for (path, text, like) in cases {
        let machine = Machine::capable();
        before_cpu_on(machine.0.path()).unwrap();
        machine.file(path, text);
        let said = machine.refusal();
        assert!(said.contains(like), "{said}");
    }
    let machine = Machine::capable();
    machine.file(
        "sys/kernel/security/lockdown",
        "none [integrity] confidentiality\n",
    );
    before_cpu_on(machine.0.path()).unwrap();
    assert_eq!(
        machine.item("modules of one's own").verdict,
        Verdict::Limited
    );
    machine.file("sys/kernel/btf/vmlinux", "rubbish");
    assert!(machine.refusal().contains("vmlinux cannot be read"));
    fs::remove_file(machine.0.path().join("sys/kernel/btf/vmlinux")).unwrap();
    assert!(machine.refusal().contains("CONFIG_DEBUG_INFO_BTF=y"));
    Kernel::version(703)
        .without("cgroup_init")
        .write(machine.0.path());
    assert!(machine.refusal().contains("CONFIG_EXT_GROUP_SCHED=y"));
}

#[test]
fn the_cpu_controller_of_cgroup_v1() {
    let machine = Machine::capable();
    machine.file("sys/fs/cgroup/unified/cgroup.controllers", "memory\n");
    machine.file(
        "proc/self/mountinfo",
        "30 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
         31 1 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
    );
    let said = machine.refusal();
    assert!(
        said.contains("belongs to a hierarchy of cgroup v1") && said.contains("cgroup_no_v1=all"),
        "{said}"
    );
}

#[test]
fn containers() {
    let machine = Machine::capable();
    machine.namespaces(4026531837, 4026532000, 4026532001);
    before_cpu_on(machine.0.path()).unwrap();
    let place = machine.item("not in a container");
    assert_eq!(place.verdict, Verdict::Limited);
    assert!(
        place.found.contains("a pid and a cgroup namespace"),
        "{place:?}"
    );
    fs::remove_dir_all(machine.0.path().join("sys/fs/bpf")).unwrap();
    assert!(machine.refusal().contains("/sys/fs/bpf"));
    machine.namespaces(4026532002, 4026532000, 4026532001);
    assert!(machine.refusal().contains("user namespace of its own"));
    fs::remove_dir_all(machine.0.path().join("proc/self/ns")).unwrap();
    assert_eq!(machine.item("not in a container").verdict, Verdict::Unknown);
}

#[test]
fn debians_own_kernel() {
    let machine = Machine::capable();
    machine.kernel("6.12.57+deb13-amd64", 612);
    fs::remove_dir_all(machine.0.path().join("sys/kernel/sched_ext")).unwrap();
    assert!(
        machine.refusal().contains("6.12 or newer"),
        "{}",
        machine.refusal()
    );
    machine.file(
        "etc/os-release",
        "NAME=\"Debian\"\nVERSION_ID=\"13\"\nID=debian\n",
    );
    let said = machine.refusal();
    assert!(
        said.starts_with("kernel 6.12.57+deb13-amd64 has no sched_ext: Debian 13's own kernel has it switched off; take"),
        "{said}"
    );
    assert!(
        said.contains("apt install -t trixie-backports linux-image-"),
        "{said}"
    );
}

#[test]
fn without_a_configuration_the_types_tell() {
    let machine = Machine::capable();
    fs::remove_dir_all(machine.0.path().join("boot")).unwrap();
    assert!(machine.verdicts(Verdict::Unknown).is_empty());
    assert!(run_on(machine.0.path()).usable(Resource::Link));
    machine.file(
        "proc/sys/kernel/version",
        "#1 SMP PREEMPT_DYNAMIC Debian 7.3.4-1\n",
    );
    assert!(machine.verdicts(Verdict::Limited).is_empty());
    machine.file(
        "proc/sys/kernel/version",
        "#1 SMP PREEMPT_RT Debian 7.3.4-1\n",
    );
    assert_eq!(
        machine.verdicts(Verdict::Limited),
        [
            "quanta shorter than the tick",
            "limits of classes (cpu.max)"
        ]
    );
    machine.kernel("6.12.9", 612);
    fs::remove_dir_all(machine.0.path().join("boot")).unwrap();
    let qdiscs = machine.item("qdiscs in BPF");
    assert_eq!(qdiscs.verdict, Verdict::No);
    assert!(qdiscs.remedy.contains("6.16"), "{qdiscs:?}");
    let refused = before_link_on(machine.0.path()).unwrap_err().to_string();
    assert!(
        refused.contains("kernel 6.12.9 has no queueing disciplines in BPF"),
        "{refused}"
    );
    fs::remove_file(machine.0.path().join("sys/kernel/btf/vmlinux")).unwrap();
    assert!(machine
        .verdicts(Verdict::Unknown)
        .contains(&"qdiscs in BPF"));
}

#[test]
fn disks() {
    let machine = Machine::capable();
    machine.file("lib/modules/7.3.4+deb13-amd64/updates/dkms/cello.ko.xz", "");
    assert!(run_on(machine.0.path()).usable(Resource::Disk));
    assert_eq!(
        machine.verdicts(Verdict::Limited),
        ["headers to build a module"]
    );
    machine.file("lib/modules/7.3.4+deb13-amd64/build/Makefile", "");
    assert!(machine.verdicts(Verdict::Limited).is_empty());
    machine.file("sys/module/module/parameters/sig_enforce", "Y\n");
    machine.file("sys/fs/cgroup/cgroup.controllers", "cpu io\n");
    assert_eq!(
        machine.verdicts(Verdict::Limited),
        ["modules of one's own", "disk classes of cgroups"]
    );
    machine.file("var/lib/dkms/mok.pub", "key");
    machine.file("sys/firmware/efi/mok-variables/MokListRT", "the key");
    assert_eq!(
        machine.verdicts(Verdict::Limited),
        ["disk classes of cgroups"]
    );
    machine.file("sys/firmware/efi/mok-variables/MokListRT", "another");
    machine.file("sys/module/cello/refcnt", "0\n");
    assert_eq!(
        machine.verdicts(Verdict::Limited),
        ["disk classes of cgroups"]
    );
    for (parameter, what) in [
        ("readahead_stopped", "no readahead for real-time programs"),
        ("weights_followed", "disk weights of systemd and Docker"),
    ] {
        let told = |answer: &str| {
            machine.file(&format!("sys/module/cello/parameters/{parameter}"), answer);
            machine.verdicts(Verdict::Limited).contains(&what)
        };
        assert!(!told("Y\n") && told("N\n"));
    }
}

#[test]
fn functions_that_cannot_be_watched() {
    let machine = Machine::capable();
    machine.file("proc/kallsyms", "0000000000000000 T __futex_wait\n");
    assert_eq!(
        machine.verdicts(Verdict::Limited),
        [
            "weights lent to lock holders",
            "no readahead for real-time programs",
            "disk weights of systemd and Docker"
        ]
    );
    machine.file("proc/kallsyms", "");
    assert_eq!(
        machine.verdicts(Verdict::Unknown),
        [
            "weights lent to lock holders",
            "no readahead for real-time programs",
            "disk weights of systemd and Docker"
        ]
    );
    assert!(run_on(machine.0.path()).usable(Resource::Cpu));
}

#[test]
fn compressed_configuration() {
    let machine = Machine::capable();
    fs::remove_dir_all(machine.0.path().join("boot")).unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(b"CONFIG_BPF_JIT=y\nCONFIG_MODULES=y\n")
        .unwrap();
    fs::write(
        machine.0.path().join("proc/config.gz"),
        encoder.finish().unwrap(),
    )
    .unwrap();
    assert!(machine.verdicts(Verdict::Unknown).is_empty());
    assert!(machine.verdicts(Verdict::No).contains(&"qdiscs in BPF"));
}
