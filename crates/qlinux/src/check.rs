// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this kernel offers, and what to do about the rest.

use crate::disk::module::{self, Module};
use flate2::read::GzDecoder;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The oldest kernel this is tested with.
const KERNEL_MIN: (u32, u32) = (7, 3);

/// In these a thread waits for a futex; the second one if that lends priorities.
const LENDING: [&str; 2] = ["__futex_wait", "rt_mutex_wait_proxy_lock"];

/// What is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// `up cpu`.
    Cpu,
    /// Packets of a network interface.
    Link,
    /// Requests of a disk.
    Disk,
}

/// Outcome of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// There.
    Yes,
    /// Works, with a limit.
    Limited,
    /// Missing, and needed.
    No,
    /// Could not be told.
    Unknown,
}

/// One thing that a resource needs.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// For what.
    pub resource: Resource,
    /// What.
    pub what: &'static str,
    /// Is it there?
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to install or do; empty where nothing is to be done.
    pub remedy: String,
}

/// Everything that was checked.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Release of the running kernel.
    pub kernel: String,
    /// The single checks.
    pub items: Vec<Item>,
}

impl Report {
    /// Is nothing missing that the resource needs?
    pub fn usable(&self, resource: Resource) -> bool {
        !self
            .items
            .iter()
            .any(|item| item.resource == resource && item.verdict == Verdict::No)
    }
}

/// Release of the running kernel.
pub fn release() -> String {
    System::new("/").release()
}

/// Is this a PREEMPT_RT kernel? It refuses BPF timers.
pub fn preempt_rt() -> bool {
    System::new("/").preempt_rt()
}

/// May queueing disciplines be BPF programs? Where the kernel does not tell, yes.
pub fn bpf_qdisc() -> bool {
    let system = System::new("/");
    system.link().iter().all(|item| item.verdict != Verdict::No)
}

/// Checks this machine.
pub fn run() -> Report {
    run_on(Path::new("/"))
}

/// Checks the machine whose /proc, /sys and /boot lie below `root`.
pub fn run_on(root: &Path) -> Report {
    let system = System::new(root);
    let mut items = vec![
        system.kernel_version(),
        system.sched_ext(),
        system.group_sched(),
        system.btf(),
        system.bpf(),
        system.cgroup(),
        system.timer(),
        system.limits(),
        system.lending(),
        system.privilege(),
    ];
    items.extend(system.link());
    items.extend(system.disk());
    Report {
        kernel: system.release(),
        items,
    }
}

struct System {
    root: PathBuf,
    config: Option<HashMap<String, String>>,
}

fn item(
    resource: Resource,
    what: &'static str,
    verdict: Verdict,
    found: impl Into<String>,
    remedy: &str,
) -> Item {
    let remedy = if verdict == Verdict::Yes { "" } else { remedy };
    Item {
        resource,
        what,
        verdict,
        found: found.into(),
        remedy: remedy.into(),
    }
}

impl System {
    fn new(root: impl Into<PathBuf>) -> System {
        let mut system = System {
            root: root.into(),
            config: None,
        };
        system.config = system.read_config();
        system
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read(self.path(path))
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).trim().to_string())
    }

    fn release(&self) -> String {
        self.text("/proc/sys/kernel/osrelease")
            .unwrap_or_else(|| "?".into())
    }

    fn read_config(&self) -> Option<HashMap<String, String>> {
        let release = self.release();
        let plain = [
            format!("/boot/config-{release}"),
            format!("/lib/modules/{release}/config"),
        ];
        let text = plain.iter().find_map(|path| self.text(path)).or_else(|| {
            let mut text = String::new();
            let file = fs::File::open(self.path("/proc/config.gz")).ok()?;
            GzDecoder::new(file)
                .read_to_string(&mut text)
                .ok()
                .map(|_| text)
        })?;
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Some(
            lines
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        )
    }

    /// Verdict and words for an option of the kernel's configuration.
    fn option(&self, name: &str) -> (Verdict, String) {
        match self
            .config
            .as_ref()
            .map(|config| config.get(name).map(String::as_str))
        {
            None => (
                Verdict::Unknown,
                format!("{name} is not known: the kernel's configuration is not readable"),
            ),
            Some(Some("y")) => (Verdict::Yes, format!("{name}=y")),
            Some(Some("m")) => (Verdict::Yes, format!("{name}=m")),
            Some(_) => (Verdict::No, format!("{name} is not set")),
        }
    }

    fn preempt_rt(&self) -> bool {
        self.text("/sys/kernel/realtime").as_deref() == Some("1")
            || self.option("CONFIG_PREEMPT_RT").0 == Verdict::Yes
    }

    fn kernel_version(&self) -> Item {
        let release = self.release();
        let mut parts = release
            .split(['.', '-', '+'])
            .map(|n| n.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let verdict = if version >= KERNEL_MIN {
            Verdict::Yes
        } else {
            Verdict::No
        };
        let remedy = "boot a kernel of at least 7.3; Debian has it in backports: apt install -t stable-backports linux-image-amd64";
        item(Resource::Cpu, "kernel 7.3", verdict, release, remedy)
    }

    fn sched_ext(&self) -> Item {
        let remedy = "boot a kernel built with CONFIG_SCHED_CLASS_EXT=y";
        if !self.path("/sys/kernel/sched_ext").is_dir() {
            let found = "/sys/kernel/sched_ext is missing";
            return item(Resource::Cpu, "sched_ext", Verdict::No, found, remedy);
        }
        let state = self.text("/sys/kernel/sched_ext/state").unwrap_or_default();
        let ops = self
            .text("/sys/kernel/sched_ext/root/ops")
            .unwrap_or_default();
        if state == "disabled" || ops.starts_with("hsfq") {
            return item(Resource::Cpu, "sched_ext", Verdict::Yes, state, "");
        }
        let found = format!("the scheduler '{ops}' is running");
        item(
            Resource::Cpu,
            "sched_ext",
            Verdict::Limited,
            found,
            "stop that scheduler first: the kernel takes one at a time",
        )
    }

    fn group_sched(&self) -> Item {
        let (verdict, found) = self.option("CONFIG_EXT_GROUP_SCHED");
        item(
            Resource::Cpu,
            "classes in sched_ext",
            verdict,
            found,
            "boot a kernel built with CONFIG_EXT_GROUP_SCHED=y",
        )
    }

    fn btf(&self) -> Item {
        let there = self.path("/sys/kernel/btf/vmlinux").is_file();
        let (verdict, found) = if there {
            (Verdict::Yes, "present")
        } else {
            (Verdict::No, "/sys/kernel/btf/vmlinux is missing")
        };
        item(
            Resource::Cpu,
            "type information",
            verdict,
            found,
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        )
    }

    fn bpf(&self) -> Item {
        let (verdict, found) = self.option("CONFIG_BPF_JIT");
        let arch = std::env::consts::ARCH;
        if verdict != Verdict::No
            && !matches!(
                arch,
                "x86_64" | "aarch64" | "riscv64" | "s390x" | "powerpc64"
            )
        {
            let found = format!("no BPF arena on {arch}");
            return item(
                Resource::Cpu,
                "BPF arena",
                Verdict::No,
                found,
                "use a machine whose BPF compiler knows arenas, such as x86-64",
            );
        }
        item(
            Resource::Cpu,
            "BPF arena",
            verdict,
            found,
            "boot a kernel built with CONFIG_BPF_JIT=y",
        )
    }

    fn cgroup(&self) -> Item {
        let what = "cgroup v2 with cpu controller";
        let table = self.text("/proc/self/mountinfo").unwrap_or_default();
        let Some(mount) = crate::cgroup::mount_point(&table) else {
            let remedy = "mount it: mount -t cgroup2 none /sys/fs/cgroup";
            return item(Resource::Cpu, what, Verdict::No, "not mounted", remedy);
        };
        let controllers = self
            .text(&format!("{}/cgroup.controllers", mount.display()))
            .unwrap_or_default();
        let verdict = if controllers.split(' ').any(|c| c == "cpu") {
            Verdict::Yes
        } else {
            Verdict::No
        };
        let found = format!("{} has: {controllers}", mount.display());
        let remedy = "boot with the kernel parameter cgroup_no_v1=all (systemd: systemd.unified_cgroup_hierarchy=1)";
        item(Resource::Cpu, what, verdict, found, remedy)
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
        if self.preempt_rt() {
            return item(
                Resource::Cpu,
                what,
                Verdict::Limited,
                "PREEMPT_RT refuses BPF timers",
                "shares hold, limits do not; for limits boot a kernel without PREEMPT_RT",
            );
        }
        let (verdict, found) = self.option("CONFIG_GROUP_SCHED_BANDWIDTH");
        let verdict = match verdict {
            Verdict::No => Verdict::Limited,
            other => other,
        };
        let remedy = "shares hold, limits do not; for limits boot a kernel built with CONFIG_CFS_BANDWIDTH=y";
        item(Resource::Cpu, what, verdict, found, remedy)
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
        let (verdict, found) = match (names.is_empty(), missing.is_empty(), traced) {
            (true, ..) => (Verdict::Unknown, "/proc/kallsyms is not readable".into()),
            (_, false, _) => (
                Verdict::Limited,
                format!("the kernel has no {}", missing.join(", ")),
            ),
            (.., Verdict::No) => (Verdict::Limited, option),
            (.., traced) => (traced, "waits for futexes can be watched".into()),
        };
        let remedy = "the scheduler works without: a thread with a lock keeps its own weight while others wait for it";
        item(Resource::Cpu, what, verdict, found, remedy)
    }

    fn privilege(&self) -> Item {
        const CAP_SYS_ADMIN: u64 = 1 << 21;
        let status = self.text("/proc/self/status").unwrap_or_default();
        let effective = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        let (verdict, found) = match effective {
            Some(set) if set & CAP_SYS_ADMIN != 0 => (Verdict::Yes, "may administer this system"),
            Some(_) => (Verdict::Limited, "may not administer this system"),
            None => (Verdict::Unknown, "not told"),
        };
        item(
            Resource::Cpu,
            "privilege",
            verdict,
            found,
            "run commands that change something as root",
        )
    }

    fn link(&self) -> Vec<Item> {
        let (verdict, found) = self.option("CONFIG_NET_SCH_BPF");
        vec![item(
            Resource::Link,
            "qdiscs in BPF",
            verdict,
            found,
            "boot a kernel built with CONFIG_NET_SCH_BPF=y",
        )]
    }

    fn disk(&self) -> Vec<Item> {
        let release = self.release();
        let module = Module::find(&self.root, &release);
        let (modules, found) = self.option("CONFIG_MODULES");
        let remedy = "boot a kernel built with CONFIG_MODULES=y";
        let mut items = vec![item(
            Resource::Disk,
            "loadable modules",
            modules,
            found,
            remedy,
        )];
        items.push(self.disk_module(&module, &release));
        items.push(self.disk_headers(&module, &release));
        items.push(self.disk_signature(&module));
        items.push(self.disk_cgroups());
        items
    }

    fn disk_module(&self, module: &Module, release: &str) -> Item {
        let (verdict, found) = match module {
            Module::Loaded => (Verdict::Yes, "loaded".into()),
            Module::There(file) => {
                let below = file.strip_prefix(&self.root).unwrap_or(file);
                (Verdict::Yes, format!("/{}", below.display()))
            }
            Module::Missing => (Verdict::No, format!("not built for kernel {release}")),
        };
        let remedy = module::build_remedy(&self.root, release);
        item(Resource::Disk, "module cello", verdict, found, &remedy)
    }

    /// A module that is there needs them with the next kernel only.
    fn disk_headers(&self, module: &Module, release: &str) -> Item {
        let build = format!("/lib/modules/{release}/build");
        let (verdict, found) = match (self.path(&build).exists(), module) {
            (true, _) => (Verdict::Yes, format!("{build} is there")),
            (false, Module::Missing) => (Verdict::No, format!("{build} is missing")),
            (false, _) => (Verdict::Limited, format!("{build} is missing")),
        };
        item(
            Resource::Disk,
            "headers to build a module",
            verdict,
            found,
            "install the kernel's headers: apt install linux-headers-$(uname -r) dkms",
        )
    }

    fn disk_signature(&self, module: &Module) -> Item {
        let secure = module::secure_boot(&self.root) == Some(true);
        let signed = module::signed_only(&self.root);
        let (verdict, found) = match (secure || signed, module) {
            (false, _) => (Verdict::Yes, "modules need no signature"),
            (true, Module::Loaded) => (Verdict::Yes, "the kernel took the module"),
            (true, _) if secure => (Verdict::Limited, "Secure Boot is on"),
            (true, _) => (Verdict::Limited, "the kernel takes only signed modules"),
        };
        let what = "modules of one's own";
        item(Resource::Disk, what, verdict, found, module::SIGN_REMEDY)
    }

    fn disk_cgroups(&self) -> Item {
        let table = self.text("/proc/self/mountinfo").unwrap_or_default();
        let mount = crate::cgroup::mount_point(&table).unwrap_or_default();
        let controllers = self.text(&format!("{}/cgroup.controllers", mount.display()));
        let controllers = controllers.unwrap_or_default();
        let missing: Vec<&str> = ["io", "memory"]
            .into_iter()
            .filter(|name| !controllers.split(' ').any(|c| c == *name))
            .collect();
        let (verdict, found) = match missing.is_empty() {
            true => (Verdict::Yes, "controllers io and memory".to_string()),
            false => (
                Verdict::Limited,
                format!("no controller {}", missing.join(", no controller ")),
            ),
        };
        let remedy = match missing.first() {
            Some(&"io") => "processes can have disk classes, cgroups cannot: boot with the kernel parameter cgroup_no_v1=all",
            _ => "what is written through the page cache has no class: boot with the kernel parameter cgroup_enable=memory",
        };
        item(
            Resource::Disk,
            "disk classes of cgroups",
            verdict,
            found,
            remedy,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{write::GzEncoder, Compression};
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
            machine.file("sys/kernel/btf/vmlinux", "x");
            machine.file(
                "boot/config-7.3.4+deb13-amd64",
                "CONFIG_EXT_GROUP_SCHED=y\nCONFIG_BPF_JIT=y\nCONFIG_MODULES=y\nCONFIG_NET_SCH_BPF=m\n\
                 CONFIG_GROUP_SCHED_BANDWIDTH=y\nCONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y\n# CONFIG_PREEMPT_RT is not set\n",
            );
            machine.file(
                "proc/kallsyms",
                "0000000000000000 T __futex_wait\n0000000000000000 T rt_mutex_wait_proxy_lock\n0000000000000000 t x\t[m]\n",
            );
            machine
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
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
        machine.file("proc/sys/kernel/osrelease", "6.12.9-amd64\n");
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
                "privilege",
                "disk classes of cgroups"
            ]
        );
        let no = machine.verdicts(Verdict::No);
        assert_eq!(
            no,
            [
                "kernel 7.3",
                "cgroup v2 with cpu controller",
                "module cello",
                "headers to build a module"
            ]
        );
        assert!(machine
            .verdicts(Verdict::Unknown)
            .contains(&"classes in sched_ext"));
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
        machine.file("sys/module/cello/refcnt", "0\n");
        assert_eq!(
            machine.verdicts(Verdict::Limited),
            ["disk classes of cgroups"]
        );
    }

    #[test]
    fn functions_that_cannot_be_watched() {
        let machine = Machine::capable();
        machine.file("proc/kallsyms", "0000000000000000 T __futex_wait\n");
        assert_eq!(
            machine.verdicts(Verdict::Limited),
            ["weights lent to lock holders"]
        );
        machine.file("proc/kallsyms", "");
        assert_eq!(
            machine.verdicts(Verdict::Unknown),
            ["weights lent to lock holders"]
        );
        assert!(run_on(machine.0.path()).usable(Resource::Cpu));
    }

    #[test]
    fn compressed_configuration() {
        let machine = Machine::capable();
        fs::remove_dir_all(machine.0.path().join("boot")).unwrap();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder
            .write_all(b"CONFIG_EXT_GROUP_SCHED=y\nCONFIG_BPF_JIT=y\n")
            .unwrap();
        fs::write(
            machine.0.path().join("proc/config.gz"),
            encoder.finish().unwrap(),
        )
        .unwrap();
        assert!(machine.verdicts(Verdict::Unknown).is_empty());
        assert!(machine.verdicts(Verdict::No).contains(&"qdiscs in BPF"));
    }
}
