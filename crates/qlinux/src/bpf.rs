// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the BPF objects of all resources have in common: loading, pins, global
//! variables, programs that answer user space.

use crate::intf::Plain;
use crate::{Error, Result};
use libbpf_rs::btf::{types::DataSec, Btf};
use libbpf_rs::{AsRawLibbpf, MapCore, MapFlags, MapHandle, OpenMapMut, OpenObject, PrintLevel};
use nix::errno::Errno;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Where bpffs is, or gets, mounted.
const BPFFS: &str = "/sys/fs/bpf";
const BPFFS_MAGIC: i64 = 0xcafe_4a11;
/// The folder of all our pins.
pub const FOLDER: &str = "/sys/fs/bpf/qlinux";

// ---- loading ---------------------------------------------------------------

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

/// From now on libbpf's words are kept.
pub fn listen() {
    if let Ok(mut words) = WORDS.lock() {
        words.clear();
    }
    libbpf_rs::set_print(Some((PrintLevel::Info, keep_words)));
}

/// The object that was embedded compressed.
pub fn unpack(embedded: &[u8]) -> libbpf_rs::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(embedded)
        .read_to_end(&mut bytes)
        .map_err(libbpf_rs::Error::from)?;
    Ok(bytes)
}

/// Why an object was not loaded. `what` is its name in an error.
pub fn refused_load(what: &'static str, error: &libbpf_rs::Error) -> Error {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !nix::unistd::geteuid().is_root() {
        return Error::Privilege {
            doing: "loading",
            path: what.into(),
        };
    }
    Error::Load { why: why(error) }
}

/// The verifier's complaint is on the line before its statistics.
fn why(error: &libbpf_rs::Error) -> String {
    let words = words();
    let complaint = words
        .lines()
        .rev()
        .skip_while(|line| !line.starts_with("processed "))
        .skip(1)
        .find(|line| !line.trim().is_empty())
        .map(|line| format!("the verifier says '{}'", line.trim()));
    complaint.unwrap_or_else(|| format!("{error:#}"))
}

// ---- global variables ------------------------------------------------------

/// Names and offsets of variables.
pub type Offsets = Vec<(String, usize)>;

/// Of the constants of an object that is not loaded yet.
pub fn constants(open: &OpenObject) -> libbpf_rs::Result<Offsets> {
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

/// What the embedded object should have and has not.
pub fn lacking(what: &str) -> libbpf_rs::Error {
    libbpf_rs::Error::from(io::Error::other(format!(
        "the embedded object has no {what}"
    )))
}

/// Sets constants before the object is loaded.
pub fn set_constants(
    map: &mut OpenMapMut<'_>,
    offsets: &Offsets,
    values: &[(&str, &[u8])],
) -> libbpf_rs::Result<()> {
    let data = map
        .initial_value_mut()
        .ok_or_else(|| lacking("constant at all"))?;
    for (name, bytes) in values {
        let at = offset(offsets, name)
            .filter(|at| at + bytes.len() <= data.len())
            .ok_or_else(|| lacking(&format!("constant {name}")))?;
        data[at..at + bytes.len()].copy_from_slice(bytes);
    }
    Ok(())
}

/// A variable of a map that holds a section.
pub fn read_global<T: Plain>(map: &MapHandle, offsets: &Offsets, name: &str) -> Option<T> {
    let data = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    T::from_bytes(data.get(offset(offsets, name)?..)?)
}

// ---- pins ------------------------------------------------------------------

/// Makes a folder of pins, mounting bpffs where that is missing.
pub fn make_folder(folder: &Path) -> Result<()> {
    let root = Path::new(BPFFS);
    let kind = nix::sys::statfs::statfs(root)
        .map_err(|e| Error::io("looking at", root, e.into()))?
        .filesystem_type();
    if kind.0 != BPFFS_MAGIC {
        nix::mount::mount(
            Some("bpf"),
            root,
            Some("bpf"),
            nix::mount::MsFlags::empty(),
            Some("mode=0700"),
        )
        .map_err(|e| Error::io("mounting bpffs on", root, e.into()))?;
    }
    fs::create_dir_all(folder).map_err(|e| Error::io("creating", folder, e))
}

/// Removes every pin of the folder, `first` first; false: there was none.
pub fn clear(folder: &Path, first: &str) -> Result<bool> {
    let link = folder.join(first);
    match fs::remove_file(&link) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("removing", &link, e))
        }
        _ => {}
    }
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(|e| Error::io("listing", folder, e))?,
    };
    for entry in entries.flatten() {
        fs::remove_file(entry.path()).map_err(|e| Error::io("removing", &entry.path(), e))?;
    }
    fs::remove_dir(folder).map_err(|e| Error::io("removing", folder, e))?;
    // Shared with others: these may stay.
    for parent in folder
        .ancestors()
        .skip(1)
        .take_while(|p| p.starts_with(FOLDER))
    {
        let _ = fs::remove_dir(parent);
    }
    Ok(true)
}

/// An operation on a pin that libbpf refused.
pub fn error(doing: &'static str, path: PathBuf, error: &libbpf_rs::Error) -> Error {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        return Error::Privilege { doing, path };
    }
    Error::Bpf {
        doing,
        path,
        why: format!("{error:#}"),
    }
}

/// A pinned map.
pub fn open_map(path: &Path) -> Result<MapHandle> {
    MapHandle::from_pinned_path(path).map_err(|e| error("opening", path.into(), &e))
}

/// A pinned program.
pub fn open_program(path: &Path) -> Result<OwnedFd> {
    libbpf_rs::Program::fd_from_pinned_path(path).map_err(|e| error("opening", path.into(), &e))
}

/// Runs a pinned "syscall" program on its context, which it fills in.
pub fn call<T: Plain>(path: &Path, context: &mut T) -> Result<std::result::Result<(), Errno>> {
    let fd = open_program(path)?;
    // SAFETY: zeros are an empty bpf_test_run_opts; the context outlives the
    // call, which reads and writes just its bytes.
    let (code, returned) = unsafe {
        let mut options: libbpf_sys::bpf_test_run_opts = std::mem::zeroed();
        options.sz = size_of_val(&options) as _;
        options.ctx_in = std::ptr::from_mut(context).cast();
        options.ctx_size_in = size_of::<T>() as u32;
        (
            libbpf_sys::bpf_prog_test_run_opts(fd.as_raw_fd(), &mut options),
            options.retval as i32,
        )
    };
    match (code, returned) {
        (0, 0) => Ok(Ok(())),
        (0, errno) => Ok(Err(Errno::from_raw(-errno))),
        (code, _) => Err(Error::io(
            "calling",
            path,
            io::Error::from_raw_os_error(-code),
        )),
    }
}
