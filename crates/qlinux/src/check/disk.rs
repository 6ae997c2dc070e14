// SPDX-License-Identifier: MIT OR Apache-2.0
//! What disks need.

use super::system::System;
use super::{item, Item, Resource, Verdict};
use crate::disk::module::{self, Module};

/// Where the module has its probes (kernel/disk/readahead.c, weight.c).
const READS_AHEAD: &str = "page_cache_sync_ra";
const TAKES_WEIGHT: &str = "ioc_weight_write";

impl System {
    pub(super) fn disk(&self) -> Vec<Item> {
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
        items.push(self.disk_signature(&module, &release));
        items.push(self.disk_cgroups());
        items.push(self.disk_readahead());
        items.push(self.disk_weights());
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

    fn disk_signature(&self, module: &Module, release: &str) -> Item {
        let secure = module::secure_boot(&self.root) == Some(true);
        let signed = module::signed_only(&self.root);
        let enrolled = module::is_enrolled(&self.root);
        let (verdict, found) = match (secure || signed, module) {
            (false, _) => (Verdict::Yes, "modules need no signature"),
            (true, Module::Loaded) => (Verdict::Yes, "the kernel took the module"),
            (true, Module::There(_)) if enrolled => (Verdict::Yes, "the key of dkms is enrolled"),
            (true, _) if secure => (Verdict::Limited, "Secure Boot is on"),
            (true, _) => (Verdict::Limited, "the kernel takes only signed modules"),
        };
        let what = "modules of one's own";
        let remedy = module::sign_remedy(&self.root, release);
        item(Resource::Disk, what, verdict, found, &remedy)
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

    fn disk_readahead(&self) -> Item {
        let (verdict, found) = self.probed("readahead_stopped", READS_AHEAD);
        let remedy = "Cello works without: what is read ahead is charged to the real-time class (posix_fadvise with POSIX_FADV_RANDOM stops it for a file)";
        let what = "no readahead for real-time programs";
        item(Resource::Disk, what, verdict, found, remedy)
    }

    fn disk_weights(&self) -> Item {
        let (verdict, found) = self.probed("weights_followed", TAKES_WEIGHT);
        let remedy = "Cello works without: set weights by `qlinux disk class /PATH --weight`";
        let what = "disk weights of systemd and Docker";
        item(Resource::Disk, what, verdict, found, remedy)
    }

    /// A module that is loaded has found out; else the kernel tells what it would.
    fn probed(&self, parameter: &str, function: &str) -> (Verdict, String) {
        let probed = self.text(&format!("/sys/module/cello/parameters/{parameter}"));
        let symbols = self.text("/proc/kallsyms").unwrap_or_default();
        let named = |line: &str| line.split_whitespace().nth(2) == Some(function);
        let (option, found) = self.option("CONFIG_KRETPROBES");
        match (probed.as_deref().map(str::trim), option) {
            (Some("Y"), _) => (Verdict::Yes, "the kernel is probed".into()),
            (Some(_), _) => (Verdict::Limited, "the kernel refused the probe".into()),
            (None, Verdict::No) => (Verdict::Limited, found),
            _ if symbols.is_empty() => (Verdict::Unknown, "/proc/kallsyms is not readable".into()),
            _ if !symbols.lines().any(named) => {
                (Verdict::Limited, format!("the kernel has no {function}"))
            }
            _ => (Verdict::Yes, format!("{function} can be probed")),
        }
    }
}
