// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening and loading the BPF object, and finding its global variables.

use crate::intf::{End, Plain};
use crate::{Error, Result};
use libbpf_rs::btf::{types::DataSec, Btf};
use libbpf_rs::{
    AsRawLibbpf, MapCore, MapFlags, Object, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel,
};
use std::ffi::OsStr;
use std::sync::Mutex;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hsfq_cpu.bpf.o"));

/// Name of the struct_ops map, which is the scheduler itself.
pub const OPS: &str = "hsfq_ops";
const TIMERS: &str = "timers";
const TRACE: &str = "hsfq_trace";

/// libbpf's and the verifier's words during the last load.
static WORDS: Mutex<String> = Mutex::new(String::new());

fn keep_words(_: PrintLevel, text: String) {
    if let Ok(mut words) = WORDS.lock() {
        words.push_str(&text);
    }
}

/// What libbpf and the verifier said during the last load.
pub fn words() -> String {
    WORDS.lock().map(|w| w.clone()).unwrap_or_default()
}

/// What is set before the object is loaded.
pub struct Settings {
    /// Processors there can be.
    pub cpus: u32,
    /// Quanta may end between two ticks. PREEMPT_RT refuses BPF timers.
    pub timer: bool,
    /// Size of the trace; a power of two and multiple of the page size.
    pub trace_bytes: Option<u32>,
    /// With the programs that watch who waits for whom.
    pub lending: bool,
}

/// Loads the object: verified and in the kernel, attached to nothing.
pub fn load(settings: &Settings) -> Result<Object> {
    if let Ok(mut words) = WORDS.lock() {
        words.clear();
    }
    libbpf_rs::set_print(Some((PrintLevel::Info, keep_words)));
    let refuse = |e: libbpf_rs::Error| Error::Load { why: why(&e) };
    let mut open = ObjectBuilder::default()
        .name("hsfq_cpu")
        .and_then(|builder| builder.open_memory(OBJECT))
        .map_err(refuse)?;
    let offsets = offsets(&open).map_err(refuse)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let done = match name.as_str() {
            TIMERS => map.set_max_entries(settings.cpus),
            TRACE => settings
                .trace_bytes
                .map_or(Ok(()), |bytes| map.set_max_entries(bytes)),
            _ if name.ends_with(".rodata") => set_constants(&mut map, &offsets, settings),
            _ => Ok(()),
        };
        done.map_err(refuse)?;
    }
    for mut program in open.progs_mut() {
        if settings.lending && lends(program.name()) {
            program.set_autoload(true);
        }
    }
    open.load().map_err(|e| {
        if e.kind() == libbpf_rs::ErrorKind::PermissionDenied && !nix::unistd::geteuid().is_root() {
            return Error::Privilege {
                doing: "loading",
                path: "the scheduler".into(),
            };
        }
        refuse(e)
    })
}

/// Is it the name of a program that watches who waits for whom?
pub fn lends(program: &OsStr) -> bool {
    program.as_encoded_bytes().starts_with(b"lend_")
}

/// The verifier's complaint is on the line before its statistics.
fn why(error: &libbpf_rs::Error) -> String {
    let words = words();
    let complaint = words
        .lines()
        .rev()
        .skip_while(|line| !line.starts_with("processed "))
        .nth(1)
        .map(|line| format!("the verifier says '{}'", line.trim()));
    complaint.unwrap_or_else(|| format!("{error:#}"))
}

/// Names and offsets of variables.
pub type Offsets = Vec<(String, usize)>;

fn offsets(open: &OpenObject) -> libbpf_rs::Result<Offsets> {
    // SAFETY: the pointer is that of the open object, which outlives the use.
    let btf = Btf::from_bpf_object(unsafe { open.as_libbpf_object().as_ref() })?;
    Ok(btf
        .map(|btf| variables(&btf, ".rodata"))
        .unwrap_or_default())
}

/// Names and offsets of the variables in a section.
pub fn variables(btf: &Btf<'_>, section: &str) -> Offsets {
    let Some(section) = btf.type_by_name::<DataSec<'_>>(section) else {
        return Vec::new();
    };
    let variable = |member: libbpf_rs::btf::types::VarSecInfo| {
        let name = btf
            .type_by_id::<libbpf_rs::btf::BtfType<'_>>(member.ty)?
            .name()?
            .to_str()?
            .to_string();
        Some((name, member.offset as usize))
    };
    section.iter().filter_map(variable).collect()
}

/// Offset of a variable.
pub fn offset(offsets: &Offsets, name: &str) -> Option<usize> {
    offsets.iter().find(|(n, _)| n == name).map(|(_, at)| *at)
}

fn set_constants(
    map: &mut OpenMapMut<'_>,
    offsets: &Offsets,
    settings: &Settings,
) -> libbpf_rs::Result<()> {
    let lacking = |what: &str| {
        libbpf_rs::Error::from(std::io::Error::other(format!(
            "the embedded object has no constant {what}"
        )))
    };
    let data = map.initial_value_mut().ok_or_else(|| lacking("at all"))?;
    let mut set = |name: &str, bytes: &[u8]| {
        let at = offset(offsets, name)
            .filter(|at| at + bytes.len() <= data.len())
            .ok_or_else(|| lacking(name))?;
        data[at..at + bytes.len()].copy_from_slice(bytes);
        Ok::<(), libbpf_rs::Error>(())
    };
    set("nr_cpus", &settings.cpus.to_ne_bytes())?;
    set("use_timer", &[settings.timer.into()])?;
    set("trace_on", &[settings.trace_bytes.is_some().into()])?;
    set("lending_on", &[settings.lending.into()])
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
