// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening and loading the BPF object of one interface.

use crate::bpf::{self, lacking, Offsets};
use crate::Result;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::btf::{Btf, HasSize};
use libbpf_rs::{AsRawLibbpf, Object, ObjectBuilder, OpenMapMut, OpenObject};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hsfq_link.bpf.o.gz"));

/// Name of the struct_ops map, which is the queueing discipline itself.
pub const OPS: &str = "hsfq_ops";
/// Longest name of a queueing discipline.
const ID_MAX: usize = 15;

/// What is set before the object is loaded.
pub struct Settings<'a> {
    /// Of the interface.
    pub index: u32,
    /// Its name.
    pub device: &'a str,
    /// Cookie of its network namespace.
    pub netns: u64,
    /// Major number of the handle.
    pub major: u16,
    /// The queueing discipline's name, as `tc` shows it.
    pub id: &'a str,
    /// Size of the trace; a power of two and multiple of the page size.
    pub trace_bytes: Option<u32>,
    /// Size of what was there before.
    pub before_bytes: u32,
}

/// Loads the object: verified and in the kernel, attached to nothing.
pub fn load(settings: &Settings<'_>) -> Result<Object> {
    bpf::listen();
    let refuse = |e: libbpf_rs::Error| bpf::refused_load("the packet scheduler", &e);
    let object = bpf::unpack(OBJECT).map_err(refuse)?;
    let mut open = ObjectBuilder::default()
        .name("hsfq_link")
        .and_then(|builder| builder.open_memory(&object))
        .map_err(refuse)?;
    let offsets = bpf::constants(&open).map_err(refuse)?;
    let id_at = offset_of_id(&open).map_err(refuse)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let done = match name.as_str() {
            OPS => set_id(&mut map, id_at, settings.id),
            "before" => map.set_value_size(settings.before_bytes.next_multiple_of(8).max(8)),
            "hsfq_link_trace" => settings
                .trace_bytes
                .map_or(Ok(()), |bytes| map.set_max_entries(bytes)),
            _ if name.ends_with(".rodata") => set_constants(&mut map, &offsets, settings),
            _ => Ok(()),
        };
        done.map_err(refuse)?;
    }
    open.load().map_err(refuse)
}

fn set_constants(
    map: &mut OpenMapMut<'_>,
    offsets: &Offsets,
    settings: &Settings<'_>,
) -> libbpf_rs::Result<()> {
    let values: [(&str, &[u8]); 5] = [
        ("ifindex", &settings.index.to_ne_bytes()),
        ("netns_cookie", &settings.netns.to_ne_bytes()),
        ("device", settings.device.as_bytes()),
        ("major", &u32::from(settings.major).to_ne_bytes()),
        ("trace_on", &[settings.trace_bytes.is_some().into()]),
    ];
    bpf::set_constants(map, offsets, &values)
}

/// Where `struct Qdisc_ops` has its name.
fn offset_of_id(open: &OpenObject) -> libbpf_rs::Result<usize> {
    // SAFETY: the pointer is that of the open object, which outlives the use.
    let btf = Btf::from_bpf_object(unsafe { open.as_libbpf_object().as_ref() })?
        .ok_or_else(|| lacking("types"))?;
    let ops = btf
        .type_by_name::<Struct<'_>>("Qdisc_ops")
        .ok_or_else(|| lacking("type Qdisc_ops"))?;
    let id = ops
        .iter()
        .find(|member| member.name.is_some_and(|name| name == "id"))
        .ok_or_else(|| lacking("Qdisc_ops.id"))?;
    match id.attr {
        libbpf_rs::btf::types::MemberAttr::Normal { offset }
            if offset as usize / 8 + ID_MAX < ops.size() =>
        {
            Ok(offset as usize / 8)
        }
        _ => Err(lacking("Qdisc_ops.id where it should be")),
    }
}

fn set_id(map: &mut OpenMapMut<'_>, at: usize, id: &str) -> libbpf_rs::Result<()> {
    let place = map
        .initial_value_mut()
        .and_then(|data| data.get_mut(at..=at + ID_MAX))
        .filter(|_| id.len() <= ID_MAX)
        .ok_or_else(|| lacking("room for its name"))?;
    place.fill(0);
    place[..id.len()].copy_from_slice(id.as_bytes());
    Ok(())
}
