// SPDX-License-Identifier: MIT OR Apache-2.0
//! Type information of kernels that are not there, written by libbpf.

use libbpf_sys as sys;
use std::ffi::{c_int, CString};
use std::fs;
use std::path::Path;

/// What a kernel's type information says.
#[derive(Clone, Default)]
pub struct Kernel {
    functions: Vec<(&'static str, usize, bool)>,
    members: Vec<(&'static str, Vec<&'static str>)>,
    flags: Vec<&'static str>,
}

/// Functions that programs may call, with their arguments, by the first version with them.
const FUNCTIONS: [(u32, &[(&str, usize)]); 6] = [
    (
        612,
        &[
            ("scx_bpf_kick_cpu", 2),
            ("scx_bpf_create_dsq", 2),
            ("scx_bpf_select_cpu_dfl", 4),
            ("scx_bpf_pick_idle_cpu", 2),
            ("scx_bpf_cpuperf_cur", 1),
            ("scx_bpf_cpuperf_set", 2),
            ("scx_bpf_dsq_nr_queued", 1),
            ("scx_bpf_get_online_cpumask", 0),
            ("scx_bpf_put_cpumask", 1),
            ("scx_bpf_error_bstr", 3),
            ("bpf_iter_scx_dsq_new", 3),
            ("bpf_iter_scx_dsq_next", 1),
            ("bpf_iter_scx_dsq_destroy", 1),
            ("bpf_task_release", 1),
            ("bpf_task_from_pid", 1),
            ("bpf_cgroup_ancestor", 2),
            ("bpf_cgroup_release", 1),
            ("bpf_rcu_read_lock", 0),
            ("bpf_rcu_read_unlock", 0),
            ("bpf_cpumask_test_cpu", 2),
            ("bpf_cpumask_create", 0),
            ("bpf_cpumask_set_cpu", 2),
            ("bpf_cpumask_release", 1),
            ("bpf_arena_alloc_pages", 5),
            ("bpf_rdonly_cast", 2),
            ("scx_bpf_dispatch", 4),
            ("scx_bpf_dispatch_vtime", 5),
            ("scx_bpf_consume", 1),
            ("scx_bpf_dispatch_from_dsq", 4),
            ("scx_bpf_dispatch_vtime_from_dsq", 4),
            ("scx_bpf_dispatch_from_dsq_set_slice", 2),
            ("scx_bpf_dispatch_from_dsq_set_vtime", 2),
        ],
    ),
    (
        613,
        &[
            ("scx_bpf_dsq_insert", 4),
            ("scx_bpf_dsq_insert_vtime", 5),
            ("scx_bpf_dsq_move_to_local", 1),
            ("scx_bpf_dsq_move", 4),
            ("scx_bpf_dsq_move_vtime", 4),
            ("scx_bpf_dsq_move_set_slice", 2),
            ("scx_bpf_dsq_move_set_vtime", 2),
        ],
    ),
    (614, &[("scx_bpf_now", 0), ("bpf_task_from_vpid", 1)]),
    (
        615,
        &[
            ("bpf_res_spin_lock", 1),
            ("bpf_res_spin_unlock", 1),
            ("bpf_res_spin_lock_irqsave", 2),
            ("bpf_res_spin_unlock_irqrestore", 2),
        ],
    ),
    (
        616,
        &[
            ("bpf_qdisc_init_prologue", 2),
            ("bpf_qdisc_skb_drop", 2),
            ("bpf_kfree_skb", 1),
            ("bpf_skb_get_hash", 1),
            ("bpf_qdisc_watchdog_schedule", 3),
            ("bpf_qdisc_bstats_update", 2),
            ("scx_bpf_select_cpu_and", 5),
        ],
    ),
    (
        619,
        &[
            ("scx_bpf_dsq_peek", 1),
            ("scx_bpf_task_set_slice", 2),
            ("__scx_bpf_dsq_insert_vtime", 2),
            ("__scx_bpf_select_cpu_and", 3),
        ],
    ),
];

/// Structures' members, likewise.
const MEMBERS: [(u32, &str, &[&str]); 10] = [
    (
        612,
        "sched_ext_ops",
        &["dispatch", "cgroup_init", "cgroup_set_weight"],
    ),
    (612, "scx_cgroup_init_args", &["weight"]),
    (612, "sched_ext_entity", &["slice", "dsq_vtime"]),
    (612, "task_struct", &["se", "scx"]),
    (612, "cfs_bandwidth", &["period", "quota"]),
    (612, "module", &["name", "mem"]),
    (612, "ftrace_ops", &["func", "direct_call"]),
    (617, "sched_ext_ops", &["cgroup_set_bandwidth"]),
    (
        617,
        "scx_cgroup_init_args",
        &["bw_period_us", "bw_quota_us", "bw_burst_us"],
    ),
    (703, "scx_cgroup_init_args", &["sched_idle"]),
];

impl Kernel {
    /// Of a version like 6.12, 612, or 7.3, 703, with everything switched on.
    pub fn version(version: u32) -> Kernel {
        let mut kernel = Kernel {
            flags: vec!["SCX_OPS_SWITCH_PARTIAL", "SCX_OPS_ENQ_EXITING"],
            functions: vec![
                ("schedule", 0, false),
                ("bpf_jit_binary_pack_alloc", 6, false),
            ],
            ..Kernel::default()
        };
        for (_, names) in FUNCTIONS.iter().filter(|(since, _)| *since <= version) {
            kernel
                .functions
                .extend(names.iter().map(|(name, args)| (*name, *args, true)));
        }
        for (_, of, names) in MEMBERS.iter().filter(|(since, ..)| *since <= version) {
            kernel.add_members(of, names);
        }
        if version >= 614 {
            kernel.flags.push("SCX_OPS_ENQ_MIGRATION_DISABLED");
        }
        if version >= 619 {
            kernel.add_members("sched_ext_ops", &["cgroup_set_idle"]);
        }
        kernel
    }

    fn add_members(&mut self, of: &'static str, names: &[&'static str]) {
        match self.members.iter_mut().find(|(name, _)| *name == of) {
            Some((_, members)) => members.extend(names),
            None => self.members.push((of, names.to_vec())),
        }
    }

    /// Without a function, or all members and flags of that name.
    pub fn without(mut self, name: &str) -> Kernel {
        self.functions.retain(|(function, ..)| *function != name);
        self.flags.retain(|flag| *flag != name);
        for (_, members) in &mut self.members {
            members.retain(|member| *member != name);
        }
        self
    }

    /// The function is there, but lost its mark, and with it the form that programs see.
    pub fn unmarked(mut self, name: &'static str, arguments: usize) -> Kernel {
        self.functions.retain(|(function, ..)| *function != name);
        self.functions.push((name, arguments, false));
        self
    }

    /// No function is marked, as older builds leave it.
    pub fn without_marks(mut self) -> Kernel {
        self.functions
            .iter_mut()
            .for_each(|function| function.2 = false);
        self
    }

    /// With one more member.
    pub fn with(mut self, of: &'static str, member: &'static str) -> Kernel {
        self.add_members(of, &[member]);
        self
    }

    /// Puts it where a kernel whose files lie below `root` has it.
    pub fn write(&self, root: &Path) {
        let path = root.join("sys/kernel/btf/vmlinux");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.bytes()).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        let c = |text: &str| CString::new(text).unwrap();
        let done = |id: c_int| {
            assert!(id >= 0, "libbpf refused: {id}");
            id
        };
        // SAFETY: the object is made, used and freed here; the strings outlive the calls, which
        // copy them.
        unsafe {
            let btf = sys::btf__new_empty();
            let int = done(sys::btf__add_int(btf, c("int").as_ptr(), 4, 0));
            for (name, arguments, marked) in &self.functions {
                let prototype = done(sys::btf__add_func_proto(btf, int));
                for _ in 0..*arguments {
                    done(sys::btf__add_func_param(btf, c("x").as_ptr(), int));
                }
                let function = sys::btf__add_func(btf, c(name).as_ptr(), 0, prototype);
                if *marked {
                    let tag = c("bpf_kfunc");
                    done(sys::btf__add_decl_tag(
                        btf,
                        tag.as_ptr(),
                        done(function),
                        -1,
                    ));
                }
            }
            for (name, members) in &self.members {
                done(sys::btf__add_struct(btf, c(name).as_ptr(), 512));
                for (at, member) in (0..).zip(members) {
                    done(sys::btf__add_field(
                        btf,
                        c(member).as_ptr(),
                        int,
                        at * 32,
                        0,
                    ));
                }
            }
            done(sys::btf__add_enum64(
                btf,
                c("scx_ops_flags").as_ptr(),
                8,
                false,
            ));
            for (bit, flag) in self.flags.iter().enumerate() {
                done(sys::btf__add_enum64_value(btf, c(flag).as_ptr(), 1 << bit));
            }
            let mut size = 0;
            let data = sys::btf__raw_data(btf, &mut size);
            let bytes = std::slice::from_raw_parts(data.cast::<u8>(), size as usize).to_vec();
            sys::btf__free(btf);
            bytes
        }
    }
}
