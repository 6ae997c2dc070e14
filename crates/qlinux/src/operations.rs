// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations of a BPF object that the running kernel does not know.
//!
//! A kernel is given a structure of callbacks with flags. An older one has fewer of both, and
//! refuses what it does not know; so that is taken out before the object is loaded. What the lack
//! costs is told by `qlinux check`.

use crate::bpf::{lacking, offset, Offsets};
use libbpf_rs::btf::types::{Enum, Enum64, Func, MemberAttr, Struct};
use libbpf_rs::btf::Btf;
use libbpf_rs::{AsRawLibbpf, OpenMapMut, OpenObject};
use std::ops::Range;

/// Flags of the operations of sched_ext, and the enumerator of all that a kernel knows.
const FLAGS: (&str, &str) = ("scx_ops_flags", "SCX_OPS_ALL_FLAGS");
/// In 6.12 to 6.14 a scheduler says by this flag that it honours `cpu.weight`, or the kernel warns
/// that it does not. Later ones warn that the flag means nothing.
const HONOURS_WEIGHTS: &str = "SCX_OPS_HAS_CGROUP_WEIGHT";
/// The function that warns.
const WARNS_OF_WEIGHTS: &str = "scx_cgroup_warn_missing_weight";

/// What is to be changed in a structure of operations.
pub struct Unknown {
    /// Callbacks that the kernel has no place for.
    callbacks: Vec<Range<usize>>,
    /// Where the flags are, which of them the kernel knows, and which it wants besides.
    flags: Option<(Range<usize>, u64, u64)>,
}

impl Unknown {
    /// Of the operations `name` in an object that is not loaded yet.
    pub fn find(open: &OpenObject, kernel: &Btf<'_>, name: &str) -> libbpf_rs::Result<Unknown> {
        // SAFETY: the pointer is that of the open object, which outlives the use.
        let ours = Btf::from_bpf_object(unsafe { open.as_libbpf_object().as_ref() })?
            .ok_or_else(|| lacking("type information"))?;
        let (ours, theirs) = (members(&ours, name), members(kernel, name));
        Ok(Unknown {
            callbacks: ours
                .iter()
                .filter(|(member, _)| offset(&theirs, member).is_none())
                .map(|(_, at)| *at..*at + size_of::<u64>())
                .collect(),
            flags: offset(&ours, "flags").and_then(|at| {
                let known = enumerator(kernel, FLAGS.0, FLAGS.1)?;
                Some((at..at + size_of::<u64>(), known, wanted(kernel)))
            }),
        })
    }

    /// libbpf loads no program for a callback that is zero.
    pub fn take_out(&self, map: &mut OpenMapMut<'_>) -> libbpf_rs::Result<()> {
        let data = map
            .initial_value_mut()
            .ok_or_else(|| lacking("operation at all"))?;
        for callback in &self.callbacks {
            if let Some(bytes) = data.get_mut(callback.clone()) {
                bytes.fill(0);
            }
        }
        let Some((at, known, wanted)) = &self.flags else {
            return Ok(());
        };
        if let Some(bytes) = data.get_mut(at.clone()) {
            let ours = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            bytes.copy_from_slice(&(ours & known | wanted).to_ne_bytes());
        }
        Ok(())
    }
}

/// Flags that only some kernels want.
fn wanted(kernel: &Btf<'_>) -> u64 {
    kernel
        .type_by_name::<Func<'_>>(WARNS_OF_WEIGHTS)
        .and_then(|_| enumerator(kernel, FLAGS.0, HONOURS_WEIGHTS))
        .unwrap_or_default()
}

/// Has this structure of the kernel a member of this name, which may be a field of bits?
pub fn has_member(kernel: &Btf<'_>, structure: &str, member: &str) -> bool {
    kernel
        .type_by_name::<Struct<'_>>(structure)
        .is_some_and(|s| s.iter().any(|m| m.name.is_some_and(|n| n == member)))
}

/// Offsets of a structure's members, in bytes.
fn members(btf: &Btf<'_>, name: &str) -> Offsets {
    let Some(structure) = btf.type_by_name::<Struct<'_>>(name) else {
        return Vec::new();
    };
    let member = |m: libbpf_rs::btf::types::StructMember<'_>| {
        let MemberAttr::Normal { offset } = m.attr else {
            return None;
        };
        Some((m.name?.to_str()?.to_string(), offset as usize / 8))
    };
    structure.iter().filter_map(member).collect()
}

/// Value of an enumerator, whose type has 32 bits or 64.
fn enumerator(btf: &Btf<'_>, of: &str, name: &str) -> Option<u64> {
    if let Some(wide) = btf.type_by_name::<Enum64<'_>>(of) {
        let found = wide.iter().find(|v| v.name.is_some_and(|n| n == name))?;
        return Some(found.value as u64);
    }
    let narrow = btf.type_by_name::<Enum<'_>>(of)?;
    let found = narrow.iter().find(|v| v.name.is_some_and(|n| n == name))?;
    Some(found.value as u64)
}
