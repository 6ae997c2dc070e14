// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the CPU's scheduler and that of links need.

use super::system::{System, CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};
use super::{item, Item, Resource, Verdict};
use crate::features::{Lack, GROUPS, IDLE, LIMITS};
use std::collections::HashSet;

/// In these a thread waits for a futex; the second one if that lends priorities.
const LENDING: [&str; 2] = ["__futex_wait", "rt_mutex_wait_proxy_lock"];
/// Processors for whose BPF compiler there are arenas.
const ARENAS: [&str; 5] = ["x86_64", "aarch64", "riscv64", "s390x", "powerpc64"];
const HOST: &str = "run qlinux on the host, outside the container";

impl System {
    pub(super) fn cpu(&self) -> Vec<Item> {
        let sched_ext = self.sched_ext();
        if sched_ext.verdict == Verdict::No {
            // The rest is a matter of the kernel that is to be booted.
            let place = self.place(Resource::Cpu);
            return vec![sched_ext, place, self.cgroup(), self.privilege()];
        }
        let mut items = vec![sched_ext, self.group_sched()];
        items.extend(self.loading(Resource::Cpu));
        items.extend([
            self.cgroup(),
            self.timer(),
            self.limits(),
            self.idle(),
            self.lock(),
            self.lending(),
            self.privilege(),
        ]);
        items
    }

    pub(super) fn link(&self) -> Vec<Item> {
        let qdiscs = self.qdiscs();
        // Without the option there are no functions, and that is said.
        let functions = match qdiscs.verdict {
            Verdict::No => Vec::new(),
            _ => self.functions(Resource::Link),
        };
        [vec![qdiscs], functions].concat()
    }

    /// What every BPF object of ours needs to be loaded.
    pub(super) fn loading(&self, resource: Resource) -> Vec<Item> {
        let mut items = vec![
            self.place(resource),
            self.lockdown_mode(resource),
            self.types(resource),
            self.compiler(resource),
        ];
        items.extend(self.functions(resource));
        items
    }

    fn lack(&self, name: &str) -> Option<Lack> {
        let all = self.features().lacking();
        all.into_iter().find(|lack| lack.name == name)
    }

    pub(super) fn sched_ext(&self) -> Item {
        let what = "sched_ext";
        if !self.path("/sys/kernel/sched_ext").is_dir() {
            let found = "/sys/kernel/sched_ext is missing";
            return item(
                Resource::Cpu,
                what,
                Verdict::No,
                found,
                self.kernel_remedy(),
            );
        }
        let state = self.text("/sys/kernel/sched_ext/state").unwrap_or_default();
        let ops = self
            .text("/sys/kernel/sched_ext/root/ops")
            .unwrap_or_default();
        if state == "disabled" || ops.starts_with("hsfq") {
            return item(Resource::Cpu, what, Verdict::Yes, state, "");
        }
        let found = format!("the scheduler '{ops}' is running");
        let remedy = "stop that scheduler first: the kernel takes one at a time";
        item(Resource::Cpu, what, Verdict::Limited, found, remedy)
    }

    pub(super) fn group_sched(&self) -> Item {
        let lack = self.lack(GROUPS);
        let (verdict, found) = match (self.features().known(), lack) {
            (_, Some(lack)) => (Verdict::No, lack.found),
            (true, None) => (Verdict::Yes, "by the kernel's types".into()),
            (false, None) => self.option("CONFIG_EXT_GROUP_SCHED"),
        };
        let remedy = "boot a kernel built with CONFIG_EXT_GROUP_SCHED=y";
        item(
            Resource::Cpu,
            "classes in sched_ext",
            verdict,
            found,
            remedy,
        )
    }

    fn types(&self, resource: Resource) -> Item {
        let there = self.path(crate::features::VMLINUX).is_file();
        let (verdict, found) = match (there, self.features().known()) {
            (false, _) => (Verdict::No, "/sys/kernel/btf/vmlinux is missing"),
            (true, false) => (Verdict::No, "/sys/kernel/btf/vmlinux cannot be read"),
            (true, true) => (Verdict::Yes, "present"),
        };
        let remedy = "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y";
        item(resource, "type information", verdict, found, remedy)
    }

    /// Of the functions that a resource's programs call: a fault each, or one line for all.
    fn functions(&self, resource: Resource) -> Vec<Item> {
        let what = "functions that it calls";
        if !self.features().known() {
            let found = "nothing tells without type information";
            return vec![item(
                resource,
                what,
                Verdict::Unknown,
                found,
                "see type information",
            )];
        }
        let all = self.features().lacking();
        let ours = |lack: &&Lack| lack.resource == resource && lack.name != GROUPS;
        let ours: Vec<&Lack> = all.iter().filter(ours).collect();
        let fatal: Vec<Item> = ours
            .iter()
            .filter(|lack| lack.fatal)
            .map(|lack| {
                let found = lack.found.clone();
                item(resource, what, Verdict::No, found, lack.remedy.clone())
            })
            .collect();
        if !fatal.is_empty() {
            return fatal;
        }
        let replaced: Vec<&str> = ours
            .iter()
            .filter(|lack| lack.cost.is_none())
            .map(|lack| lack.name)
            .collect();
        let found = match replaced.as_slice() {
            [] => "all there".to_string(),
            some => format!("older ones do as well for {}", some.join(", ")),
        };
        vec![item(resource, what, Verdict::Yes, found, "")]
    }

    fn compiler(&self, resource: Resource) -> Item {
        let what = "BPF arena and compiler";
        let arch = std::env::consts::ARCH;
        if !ARENAS.contains(&arch) {
            let found = format!("there is no BPF arena on {arch}");
            let remedy = "use a machine whose BPF compiler knows arenas, such as x86-64";
            return item(resource, what, Verdict::No, found, remedy);
        }
        if self.text("/proc/sys/net/core/bpf_jit_enable").as_deref() == Some("0") {
            let remedy = "switch the BPF compiler on with `sysctl -w net.core.bpf_jit_enable=1`";
            return item(
                resource,
                what,
                Verdict::No,
                "net.core.bpf_jit_enable is 0",
                remedy,
            );
        }
        let (verdict, found) = self.option("CONFIG_BPF_JIT");
        let remedy = "boot a kernel built with CONFIG_BPF_JIT=y";
        item(resource, what, verdict, found, remedy)
    }

    /// Reasons, headers and messages are read from the kernel's memory, which this mode forbids.
    fn lockdown_mode(&self, resource: Resource) -> Item {
        let what = "programs may read the kernel";
        match self.lockdown().as_deref() {
            Some("confidentiality") => item(
                resource,
                what,
                Verdict::No,
                "lockdown is in the mode confidentiality, which forbids BPF programs to read the kernel's memory",
                "boot without the kernel parameter lockdown=confidentiality (integrity is no obstacle)",
            ),
            mode => {
                let found = format!("lockdown: {}", mode.unwrap_or("none"));
                item(resource, what, Verdict::Yes, found, "")
            }
        }
    }

    /// Classes are the host's cgroups, and only the machine's own user namespace loads programs.
    fn place(&self, resource: Resource) -> Item {
        let what = "not in a container";
        let Some(inside) = self.contained() else {
            let found = "/proc/self/ns is not readable";
            return item(resource, what, Verdict::Unknown, found, HOST);
        };
        if inside.contains(&"user") {
            let found = "this is a container with a user namespace of its own, from which no BPF program is loaded";
            return item(resource, what, Verdict::No, found, HOST);
        }
        if !self.path("/sys/fs/bpf").is_dir() {
            let found = "there is no /sys/fs/bpf to keep the scheduler in";
            return item(resource, what, Verdict::No, found, HOST);
        }
        if inside.is_empty() {
            return item(
                resource,
                what,
                Verdict::Yes,
                "the machine's own namespaces",
                "",
            );
        }
        let found = format!(
            "this is a container with a {} namespace of its own",
            inside.join(" and a ")
        );
        let remedy =
            format!("paths of classes and numbers of processes are the container's here; {HOST}");
        item(resource, what, Verdict::Limited, found, remedy)
    }

    pub(super) fn cgroup(&self) -> Item {
        let what = "cgroup v2 with cpu controller";
        let table = self.text("/proc/self/mountinfo").unwrap_or_default();
        let Some(mount) = crate::cgroup::mount_point(&table) else {
            let remedy = "mount one with `mount -t cgroup2 none /sys/fs/cgroup`";
            let found = "no cgroup v2 hierarchy is mounted";
            return item(Resource::Cpu, what, Verdict::No, found, remedy);
        };
        let controllers = self
            .text(&format!("{}/cgroup.controllers", mount.display()))
            .unwrap_or_default();
        if controllers.split(' ').any(|c| c == "cpu") {
            let found = format!("{} has: {controllers}", mount.display());
            return item(Resource::Cpu, what, Verdict::Yes, found, "");
        }
        let first = table.lines().any(|line| {
            let after = line.split(" - ").nth(1).unwrap_or_default();
            after.starts_with("cgroup ") && line.split([' ', ',']).any(|word| word == "cpu")
        });
        let found = match first {
            true => "the cpu controller belongs to a hierarchy of cgroup v1".to_string(),
            false => format!("{} has no cpu controller", mount.display()),
        };
        let remedy = "boot with the kernel parameter cgroup_no_v1=all (systemd: systemd.unified_cgroup_hierarchy=1)";
        item(Resource::Cpu, what, Verdict::No, found, remedy)
    }

    fn timer(&self) -> Item {
        let what = "quanta shorter than the tick";
        if self.preempt_rt() {
            let remedy = "classes get their shares, but waits grow to the tick; for short ones boot a kernel without PREEMPT_RT";
            return item(
                Resource::Cpu,
                what,
                Verdict::Limited,
                "PREEMPT_RT refuses BPF timers",
                remedy,
            );
        }
        item(Resource::Cpu, what, Verdict::Yes, "BPF timers", "")
    }

    fn limits(&self) -> Item {
        let what = "limits of classes (cpu.max)";
        let limited = |found: String, boot: &str| {
            let remedy = format!("shares hold, limits do not while H-SFQ is up; for limits {boot}");
            item(Resource::Cpu, what, Verdict::Limited, found, remedy)
        };
        if self.preempt_rt() {
            let found = "PREEMPT_RT refuses BPF timers".to_string();
            return limited(found, "boot a kernel without PREEMPT_RT");
        }
        if let Some(lack) = self.lack(LIMITS) {
            return limited(lack.found, &lack.remedy);
        }
        // The second name is that of before 6.17.
        let ways = ["CONFIG_GROUP_SCHED_BANDWIDTH", "CONFIG_CFS_BANDWIDTH"];
        let ways = ways.map(|name| self.option(name));
        let yes = ways.iter().find(|(verdict, _)| *verdict == Verdict::Yes);
        let [_, old] = &ways;
        match yes.unwrap_or(old) {
            (Verdict::No, found) => limited(
                found.clone(),
                "boot a kernel built with CONFIG_CFS_BANDWIDTH=y",
            ),
            (verdict, found) => item(
                Resource::Cpu,
                what,
                *verdict,
                found.clone(),
                "see whether classes have a file cpu.max",
            ),
        }
    }

    fn idle(&self) -> Item {
        let what = "idle classes (cpu.idle)";
        match self.lack(IDLE) {
            Some(lack) => {
                let remedy = format!(
                    "they share by their weight while H-SFQ is up; to have them idle {}",
                    lack.remedy
                );
                item(Resource::Cpu, what, Verdict::Limited, lack.found, remedy)
            }
            None => item(
                Resource::Cpu,
                what,
                self.by_types(),
                "sched_ext tells of them",
                "see type information",
            ),
        }
    }

    /// Nothing lacks: yes, if that could be asked.
    fn by_types(&self) -> Verdict {
        match self.features().known() {
            true => Verdict::Yes,
            false => Verdict::Unknown,
        }
    }

    fn lock(&self) -> Item {
        let what = "a lock with a time-out";
        match self.lack("bpf_res_spin_lock") {
            Some(lack) => {
                let cost = lack.cost.unwrap_or_default();
                let remedy = format!("{cost}; for one that ends H-SFQ {}", lack.remedy);
                item(Resource::Cpu, what, Verdict::Limited, lack.found, remedy)
            }
            None => item(
                Resource::Cpu,
                what,
                self.by_types(),
                "bpf_res_spin_lock",
                "see type information",
            ),
        }
    }

    fn lending(&self) -> Item {
        let what = "weights lent to lock holders";
        let symbols = self.text("/proc/kallsyms").unwrap_or_default();
        let names: HashSet<&str> = symbols
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
            .collect();
        let missing: Vec<&str> = LENDING
            .into_iter()
            .filter(|name| !names.contains(name))
            .collect();
        let (traced, option) = self.option("CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS");
        let by_number = self.lack("bpf_task_from_vpid");
        let (verdict, found) = match (names.is_empty(), missing.is_empty(), traced) {
            (true, ..) => (Verdict::Unknown, "/proc/kallsyms is not readable".into()),
            (_, false, _) => (
                Verdict::Limited,
                format!("the kernel has no {}", missing.join(", ")),
            ),
            (.., Verdict::No) => (Verdict::Limited, option),
            (.., Verdict::Yes) if by_number.is_some() => (
                Verdict::Limited,
                "among processes of the machine, not inside containers: this kernel has no bpf_task_from_vpid"
                    .into(),
            ),
            (.., traced) => (traced, "waits for futexes can be watched".into()),
        };
        let remedy = "the scheduler works without: a thread with a lock keeps its own weight while others wait for it";
        item(Resource::Cpu, what, verdict, found, remedy)
    }

    fn privilege(&self) -> Item {
        let has = |set: u64, bit: u32| set & (1 << bit) != 0;
        let loads = |set| has(set, CAP_BPF) && has(set, CAP_PERFMON);
        let (verdict, found) = match self.capabilities() {
            Some(set) if has(set, CAP_SYS_ADMIN) => (Verdict::Yes, "may administer this system"),
            Some(set) if loads(set) => (Verdict::Limited, "may load BPF programs, no more"),
            Some(_) => (Verdict::Limited, "may not administer this system"),
            None => (Verdict::Unknown, "not told"),
        };
        let remedy = "run commands that change something as root, with CAP_SYS_ADMIN; no sysctl (kernel.unprivileged_bpf_disabled) spares that";
        item(Resource::Cpu, "privilege", verdict, found, remedy)
    }

    /// Root without its capabilities, as in most containers.
    pub(super) fn may_load(&self, resource: Resource) -> Item {
        let privilege = self.privilege();
        let verdict = match (self.capabilities(), privilege.verdict) {
            (Some(set), Verdict::Limited) if set & (1 << CAP_BPF) == 0 => Verdict::No,
            (_, verdict) => verdict,
        };
        let found = "this process has neither CAP_SYS_ADMIN nor CAP_BPF";
        item(resource, "privilege", verdict, found, HOST)
    }

    pub(super) fn qdiscs(&self) -> Item {
        let (verdict, found) = self.option("CONFIG_NET_SCH_BPF");
        let remedy = "boot a kernel of 6.16 or newer that was built with CONFIG_NET_SCH_BPF=y";
        item(Resource::Link, "qdiscs in BPF", verdict, found, remedy)
    }
}
