// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the running kernel lacks of what the schedulers use, what that costs, and what is done
//! instead. The kernel's own type information is asked, never its version: distributions carry
//! features back, and builds lose some.

#[cfg(test)]
pub mod fixture;
mod table;
mod types;

use table::SCHED_EXT;
pub use table::{GROUPS, IDLE, IDLE_AT_START, LIMITS, TIMERS};
pub use types::{Ask, VMLINUX};

use crate::check::Resource;
use serde::Serialize;
use std::path::Path;
use std::sync::OnceLock;
use table::{Feature, ALL};
use types::{Answer, Types};

/// Something that this kernel lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// Short and stable, for programs.
    pub name: &'static str,
    /// In words.
    pub what: &'static str,
    /// Which scheduler uses it.
    pub resource: Resource,
    /// The first kernel that has it; `None`: a matter of how the kernel was built.
    pub since: Option<&'static str>,
    /// What that costs; `None`: nothing that could be noticed.
    pub cost: Option<&'static str>,
    /// What is done instead; `None`: nothing can be.
    pub instead: Option<&'static str>,
    /// The resource cannot be scheduled for want of it.
    pub fatal: bool,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where it costs nothing.
    pub remedy: String,
}

/// What a class may be told while H-SFQ is up, and is then held to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Holds {
    /// `cpu.max`.
    pub limits: bool,
    /// `cpu.idle`.
    pub idle: bool,
}

/// A kernel's own account of itself.
pub struct Features {
    types: Option<Types>,
    timers: bool,
}

/// Options of the kernel's configuration that can be told from its types.
const OPTIONS: &[(&str, Ask)] = &[
    (
        "CONFIG_EXT_GROUP_SCHED",
        Ask::Member("sched_ext_ops", "cgroup_init"),
    ),
    ("CONFIG_SCHED_CLASS_EXT", Ask::Member("task_struct", "scx")),
    ("CONFIG_BPF_JIT", Ask::Function("bpf_jit_binary_pack_alloc")),
    (
        "CONFIG_NET_SCH_BPF",
        Ask::Function("bpf_qdisc_init_prologue"),
    ),
    (
        "CONFIG_CFS_BANDWIDTH",
        Ask::Member("cfs_bandwidth", "quota"),
    ),
    (
        "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS",
        Ask::Member("ftrace_ops", "direct_call"),
    ),
    ("CONFIG_MODULES", Ask::Member("module", "init_layout")),
    ("CONFIG_MODULES", Ask::Member("module", "mem")),
    (
        "CONFIG_PREEMPT_RT",
        Ask::Member("task_struct", "softirq_disable_cnt"),
    ),
];

/// Locks that give up (6.15), of which a program may hold several.
const LOCKS_GIVE_UP: Ask = Ask::Call("bpf_res_spin_lock", 1);
/// An idle CPU of some is chosen (6.19, 6.16).
const CHOOSES: [Ask; 2] = [
    Ask::Call("__scx_bpf_select_cpu_and", 3),
    Ask::Call("scx_bpf_select_cpu_and", 5),
];
/// A kernel that has this member lets functions be called while interrupts are off.
const CALLS_WITHOUT_INTERRUPTS: Ask = Ask::Member("bpf_subprog_info", "might_sleep");
/// What warns of a scheduler that does not say by a flag that it honours `cpu.weight`.
const WARNS_OF_WEIGHTS: Ask = Ask::Function("scx_cgroup_warn_missing_weight");
/// Asked beside what may be lacking: what decides on the form in which objects are loaded.
const FORMS: &[Ask] = &[CALLS_WITHOUT_INTERRUPTS, WARNS_OF_WEIGHTS];

impl Features {
    /// Of the kernel whose files lie below `root`. `timers`: BPF programs may have them, which
    /// types do not tell.
    pub fn probe(root: &Path, timers: bool) -> Features {
        let alternatives = ALL
            .iter()
            .flat_map(|f| f.stand_in.iter().copied().flatten());
        let asked = ALL.iter().flat_map(|f| f.is).chain(alternatives);
        let asked = asked.chain(OPTIONS.iter().map(|(_, ask)| ask));
        let asked = asked.chain(FORMS).copied();
        let mut features = Features {
            types: Types::read(root, asked),
            timers,
        };
        features.timers &= features.option("CONFIG_PREEMPT_RT") != Some(true);
        features
    }

    /// Of the running kernel, which is asked once.
    pub fn here() -> &'static Features {
        static HERE: OnceLock<Features> = OnceLock::new();
        HERE.get_or_init(|| Features::probe(Path::new("/"), !crate::check::preempt_rt()))
    }

    /// Can the kernel's type information be read?
    pub fn known(&self) -> bool {
        self.types.is_some()
    }

    /// Is an option of the configuration on? `None`: types do not tell.
    pub fn option(&self, name: &str) -> Option<bool> {
        let types = self.types.as_ref()?;
        let mut asks = OPTIONS.iter().filter(|(option, _)| *option == name);
        asks.clone().next()?;
        Some(asks.any(|(_, ask)| types.has(*ask)))
    }

    fn has(&self, ask: Ask) -> bool {
        self.types.as_ref().is_some_and(|types| types.has(ask))
    }

    /// May BPF programs call functions while interrupts are off?
    pub fn calls_without_interrupts(&self) -> bool {
        self.has(CALLS_WITHOUT_INTERRUPTS)
    }

    /// Has it locks for BPF programs that give up, of which a program may hold several?
    pub fn locks_give_up(&self) -> bool {
        self.has(LOCKS_GIVE_UP)
    }

    /// Can an idle CPU be asked for that is one of some?
    pub fn chooses_among(&self) -> bool {
        CHOOSES.iter().any(|&ask| self.has(ask))
    }

    /// Does it warn of a scheduler that does not say that it honours `cpu.weight`?
    pub fn warns_of_weights(&self) -> bool {
        self.has(WARNS_OF_WEIGHTS)
    }

    /// A member of one of the structures that `table` asks about, or the value of a constant of
    /// one of its enumerations.
    pub fn part(&self, of: &str, name: &str) -> Option<u64> {
        self.types.as_ref()?.part(of, name)
    }

    /// What it lacks; nothing of a kernel that cannot be asked.
    pub fn lacking(&self) -> Vec<Lack> {
        let mut all: Vec<Lack> = Vec::new();
        if let Some(types) = &self.types {
            // A kernel without sched_ext lacks that, not each of its parts.
            let none = self.option("CONFIG_SCHED_CLASS_EXT") == Some(false);
            for feature in ALL {
                let part = none && feature.resource == Resource::Cpu && feature.name != SCHED_EXT;
                let told = |lack: &Lack| lack.name == feature.unless;
                if !part && !all.iter().any(told) {
                    all.extend(lack(types, feature));
                }
            }
        }
        if !self.timers {
            all.push(no_timers());
        }
        all
    }

    /// What classes can be held to while H-SFQ is up.
    pub fn holds(&self) -> Holds {
        Holds::of(&self.lacking())
    }
}

impl Holds {
    /// The stock scheduler holds both.
    pub const ALL: Holds = Holds {
        limits: true,
        idle: true,
    };

    /// Of a kernel that lacks these.
    pub fn of(all: &[Lack]) -> Holds {
        let lacks = |name| all.iter().any(|lack| lack.name == name);
        Holds {
            limits: !lacks(LIMITS) && !lacks(TIMERS),
            idle: !lacks(IDLE),
        }
    }
}

fn no_timers() -> Lack {
    Lack {
        name: TIMERS,
        what: "timers of BPF programs",
        resource: Resource::Cpu,
        since: None,
        cost: Some(
            "limits of classes (cpu.max) do not hold while H-SFQ is up, and quanta end at the tick",
        ),
        instead: Some("the tick"),
        fatal: false,
        found: "PREEMPT_RT refuses BPF timers".into(),
        remedy: "boot a kernel without PREEMPT_RT".into(),
    }
}

fn lack(types: &Types, feature: &Feature) -> Option<Lack> {
    let absent = |ask: &Ask| !types.has(*ask);
    let missing: Vec<Ask> = feature.is.iter().copied().filter(absent).collect();
    if missing.is_empty() {
        return None;
    }
    let fatal = !feature
        .stand_in
        .iter()
        .any(|group| group.iter().all(|ask| types.has(*ask)));
    let words = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    let cost = match feature.resource {
        _ if !fatal || !feature.cost.is_empty() => words(feature.cost),
        Resource::Link => Some("links cannot be scheduled"),
        _ => Some("H-SFQ cannot be loaded"),
    };
    let (found, remedy) = reason(types, feature, &missing);
    Some(Lack {
        name: feature.name,
        what: feature.what,
        resource: feature.resource,
        since: Some(feature.since),
        cost,
        instead: words(feature.instead).filter(|_| !fatal),
        fatal,
        found,
        remedy: if cost.is_some() {
            remedy
        } else {
            String::new()
        },
    })
}

/// What was found, and what to do.
fn reason(types: &Types, feature: &Feature, missing: &[Ask]) -> (String, String) {
    let named = |wanted: fn(&Answer) -> bool| {
        let of_kind = missing.iter().filter(|ask| wanted(&types.answer(**ask)));
        let names: Vec<String> = of_kind.map(Ask::words).collect();
        match names.len() {
            0..=2 => names.join(" and "),
            n => format!("{} and {} more", names[0], n - 1),
        }
    };
    let unmarked = named(|answer| *answer == Answer::Unmarked);
    let changed = named(|answer| matches!(answer, Answer::Arguments(_)));
    if !unmarked.is_empty() {
        let found = format!(
            "this kernel's type information lost the bpf_kfunc tag of {unmarked} (a fault of pahole 1.30 when it was built)"
        );
        return (found, "boot 7.3 or newer, or 6.12 to 7.0".into());
    }
    if !changed.is_empty() {
        let cause = match types.marks() {
            true => "",
            false => " and marks no function as callable (it was built with a pahole before 1.26)",
        };
        let found =
            format!("this kernel's type information has other arguments for {changed}{cause}");
        return (
            found,
            "boot a kernel that was built otherwise, or 6.12 to 7.0".into(),
        );
    }
    let found = format!("this kernel has no {}", named(|_| true));
    (found, format!("boot kernel {} or newer", feature.since))
}

#[cfg(test)]
mod tests;
