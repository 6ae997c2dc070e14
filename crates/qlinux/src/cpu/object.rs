// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening and loading the BPF object, and finding its global variables.

use super::domains::Domains;
use crate::bpf::{self, offset, variables, Offsets};
use crate::features::Features;
use crate::intf::{End, Plain};
use crate::operations::Unknown;
use crate::Result;
use libbpf_rs::btf::Btf;
use libbpf_rs::{AsRawLibbpf, MapCore, MapFlags, Object, ObjectBuilder, OpenMapMut};
use std::ffi::OsStr;
use std::time::Duration;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hsfq_cpu.bpf.o.gz"));
/// The form for a single processor, which costs the verifier a fraction (kernel/cpu/once.h).
const SINGLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hsfq_cpu_single.bpf.o.gz"));

/// Name of the struct_ops map, which is the scheduler itself.
pub const OPS: &str = "hsfq_ops";
const TIMERS: &str = "timers";
const CGROUPS: &str = "cgroups";
const TRACE: &str = "hsfq_trace";
/// One of each a domain.
const OF_DOMAINS: [&str; 2] = ["domain_locks", "domain_cpus"];

/// Flags of a map whose memory is there from the start.
const PREALLOCATED: u32 = 0;

/// What is set before the object is loaded.
pub struct Settings {
    /// Processors there can be.
    pub cpus: u32,
    /// The kernel is one of PREEMPT_RT, which refuses BPF timers: quanta end at the tick. It also
    /// allocates what a map needs only later, while starting asks for every cgroup's at once.
    pub preempt_rt: bool,
    /// Size of the trace; a power of two and multiple of the page size.
    pub trace_bytes: Option<u32>,
    /// With the programs that watch who waits for whom.
    pub lending: bool,
    /// For tests: so often the tree's lock is not to be had, zero: always is.
    pub fail_lock: Duration,
    /// The kernel is told how fast each processor has to be.
    pub by_load: bool,
    /// `cpu_fast`: 1 for those that are faster than others, empty: none is.
    pub fast: Vec<u8>,
    /// Which of them share a tree and a lock.
    pub domains: Domains,
}

/// Loads the object: verified and in the kernel, attached to nothing.
pub fn load(settings: &Settings) -> Result<Object> {
    bpf::listen();
    let refuse = |e: libbpf_rs::Error| bpf::refused_load("the scheduler", &e);
    let kernel = Features::here();
    let single = settings.cpus == 1 && kernel.calls_without_interrupts();
    let object = bpf::unpack(if single { SINGLE } else { OBJECT }).map_err(refuse)?;
    let mut open = ObjectBuilder::default()
        .name("hsfq_cpu")
        .and_then(|builder| builder.open_memory(&object))
        .map_err(refuse)?;
    let offsets = bpf::constants(&open).map_err(refuse)?;
    let unknown = Unknown::find(&open, kernel, "sched_ext_ops").map_err(refuse)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let done = match name.as_str() {
            OPS => unknown.take_out(&mut map),
            TIMERS => map.set_max_entries(settings.cpus),
            name if OF_DOMAINS.contains(&name) => {
                map.set_max_entries(settings.domains.count() as u32)
            }
            CGROUPS if settings.preempt_rt => map.set_map_flags(PREALLOCATED),
            TRACE => settings
                .trace_bytes
                .map_or(Ok(()), |bytes| map.set_max_entries(bytes)),
            _ if name.ends_with(".rodata") => set_constants(&mut map, &offsets, settings, single),
            _ => Ok(()),
        };
        done.map_err(refuse)?;
    }
    for mut program in open.progs_mut() {
        if settings.lending && lends(program.name()) {
            program.set_autoload(true);
        }
    }
    open.load().map_err(refuse)
}

/// Is it the name of a program that watches who waits for whom?
pub fn lends(program: &OsStr) -> bool {
    program.as_encoded_bytes().starts_with(b"lend_")
}

fn set_constants(
    map: &mut OpenMapMut<'_>,
    offsets: &Offsets,
    settings: &Settings,
    single: bool,
) -> libbpf_rs::Result<()> {
    let fail_lock = settings.fail_lock.as_nanos() as u64;
    let domains = &settings.domains;
    let bytes = |all: Vec<u16>| -> Vec<u8> { all.into_iter().flat_map(u16::to_ne_bytes).collect() };
    let (of, after, first) = (
        domains.of_each(),
        bytes(domains.after_each()),
        bytes(domains.first()),
    );
    let values: [(&str, &[u8]); 12] = [
        ("use_timer", &[(!settings.preempt_rt).into()]),
        ("by_load", &[settings.by_load.into()]),
        ("trace_on", &[settings.trace_bytes.is_some().into()]),
        ("lending_on", &[settings.lending.into()]),
        ("fail_lock_ns", &fail_lock.to_ne_bytes()),
        ("nr_cpus", &settings.cpus.to_ne_bytes()),
        ("nr_domains", &(domains.count() as u32).to_ne_bytes()),
        ("cpu_domain", &of),
        ("uneven", &[(!settings.fast.is_empty()).into()]),
        ("cpu_fast", &settings.fast),
        ("cpu_after", &after),
        ("domain_cpu", &first),
    ];
    // The form for a single processor has only the first of them.
    let several = if single { 7 } else { 0 };
    bpf::set_constants(map, offsets, &values[..values.len() - several])
}

/// What the scheduler left when it ended before its pins were made.
pub fn end_of(object: &Object) -> Option<End> {
    // SAFETY: the pointer is that of the object, which outlives the use.
    let btf = Btf::from_bpf_object(unsafe { object.as_libbpf_object().as_ref() }).ok()??;
    let at = offset(&variables(&btf, ".bss"), "hsfq_end")?;
    let bss = object
        .maps()
        .find(|map| map.name().to_string_lossy().ends_with(".bss"))?;
    let data = bss.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    End::from_bytes(data.get(at..)?)
}
