// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations of a BPF object that the running kernel does not know.
//!
//! A kernel is given a structure of callbacks with flags. An older one has fewer of both, and
//! refuses what it does not know; so that is taken out before the object is loaded. What the lack
//! costs is told by `qlinux check`.

use crate::bpf::{lacking, offset, Offsets};
use crate::features::Features;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::Btf;
use libbpf_rs::{AsRawLibbpf, OpenMapMut, OpenObject};
use std::ops::Range;

/// Flags of the operations of sched_ext, and the enumerator of all that a kernel knows.
const FLAGS: (&str, &str) = ("scx_ops_flags", "SCX_OPS_ALL_FLAGS");
/// In 6.12 to 6.14 a scheduler says by this flag that it honours `cpu.weight`, or the kernel warns
/// that it does not. Later ones warn that the flag means nothing.
const HONOURS_WEIGHTS: &str = "SCX_OPS_HAS_CGROUP_WEIGHT";

/// What is to be changed in a structure of operations.
pub struct Unknown {
    /// Callbacks that the kernel has no place for.
    callbacks: Vec<Range<usize>>,
    /// Where the flags are, which of them the kernel knows, and which it wants besides.
    flags: Option<(Range<usize>, u64, u64)>,
}

impl Unknown {
    /// Of the operations `name` in an object that is not loaded yet.
    pub fn find(open: &OpenObject, kernel: &Features, name: &str) -> libbpf_rs::Result<Unknown> {
        // SAFETY: the pointer is that of the open object, which outlives the use.
        let ours = Btf::from_bpf_object(unsafe { open.as_libbpf_object().as_ref() })?
            .ok_or_else(|| lacking("type information"))?;
        let ours = members(&ours, name);
        Ok(Unknown {
            callbacks: ours
                .iter()
                .filter(|(member, _)| kernel.part(name, member).is_none())
                .map(|(_, at)| *at..*at + size_of::<u64>())
                .collect(),
            flags: offset(&ours, "flags").and_then(|at| {
                let known = kernel.part(FLAGS.0, FLAGS.1)?;
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
fn wanted(kernel: &Features) -> u64 {
    let flag = kernel.part(FLAGS.0, HONOURS_WEIGHTS);
    flag.filter(|_| kernel.warns_of_weights())
        .unwrap_or_default()
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
