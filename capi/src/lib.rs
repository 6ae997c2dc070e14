// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface: tables 1 to 3 of QLinux on top of the `qlinux` library. The
//! contract is `include/qlinux.h` and the manual pages beside it.

mod admin;
mod disk;
mod link;

use nix::errno::Errno;
use nix::libc::{c_char, c_int, c_uint, c_void, pid_t};
use qlinux::cgroup::Hierarchy;
use qlinux::class::{self, Classes, Member, New, Settings};
use qlinux::{ClassPath, Error, Leaf, Lock, Weight};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

const INNER: c_int = 0;
const LEAF: c_int = 1;
const THREADED: c_int = 2;
const RM_EMPTY: c_int = 0;

/// A refusal of this interface, or of the library below it.
#[derive(Debug)]
pub(crate) struct Refusal {
    errno: Errno,
    sentence: String,
}

pub(crate) type Outcome<T = c_int> = Result<T, Refusal>;

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal {
            errno: error.errno(),
            sentence: error.to_string(),
        }
    }
}

pub(crate) fn refuse<T>(errno: Errno, sentence: impl Into<String>) -> Outcome<T> {
    Err(Refusal {
        errno,
        sentence: sentence.into(),
    })
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs a call the C way: -1 and errno, and no panic crosses the border.
fn answer<T: From<i8>>(call: impl FnOnce() -> Outcome<T>) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        refuse(
            Errno::EIO,
            "libqlinux failed inside: report this as a fault of the library",
        )
    });
    outcome.unwrap_or_else(|refusal| {
        MESSAGE.with(|message| {
            *message.borrow_mut() = CString::new(refusal.sentence).unwrap_or_default()
        });
        refusal.errno.set();
        T::from(-1)
    })
}

/// # Safety
/// `text` is NULL or a C string that lives as long as the result is used.
unsafe fn string<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    if text.is_null() {
        return refuse(
            Errno::EFAULT,
            format!("{what} is a null pointer: pass a string"),
        );
    }
    // SAFETY: not null, so a C string by this function's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().or_else(|_| {
        refuse(
            Errno::EINVAL,
            format!("{what} is not UTF-8: choose another name"),
        )
    })
}

/// Path of the node with this id. An id is the cgroup's number in the kernel,
/// which never names another cgroup later.
pub(crate) fn path_of(fs: &Hierarchy, id: c_int) -> Outcome<ClassPath> {
    let found = match u64::try_from(id) {
        Ok(0) => Some(ClassPath::root()),
        Ok(id) => fs.path_of(id),
        Err(_) => None,
    };
    found.map_or_else(
        || {
            refuse(
                Errno::ENOENT,
                format!("node {id} does not exist: look it up with hsfq_parse()"),
            )
        },
        Ok,
    )
}

fn id_of(fs: &Hierarchy, path: &ClassPath) -> Outcome {
    c_int::try_from(fs.id(path)?).or_else(|_| {
        // Two thousand million cgroup files were created since boot.
        refuse(
            Errno::EOVERFLOW,
            format!("the number of class {path} does not fit an int: use the qlinux command"),
        )
    })
}

/// `hsfq_mknod(3)`
///
/// # Safety
/// `name` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn hsfq_mknod(
    name: *const c_char,
    parent: c_int,
    weight: c_uint,
    flag: c_int,
    sid: c_int,
) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        let name = unsafe { string(name, "the name") }?;
        if name.is_empty() || name.contains('/') {
            return refuse(
                Errno::EINVAL,
                format!("'{name}' is no name of one node: give it without /"),
            );
        }
        if flag & !(LEAF | THREADED) != 0 {
            return refuse(
                Errno::EINVAL,
                format!("flag {flag} is not known: combine HSFQ_LEAF and HSFQ_THREADED"),
            );
        }
        if flag & LEAF == 0 && sid != 0 {
            return refuse(
                Errno::EINVAL,
                "an inner node takes no leaf scheduler: pass HSFQ_LEAF or sid 0",
            );
        }
        let weight = Weight::new(weight.into())?;
        let leaf = leaf(sid)?;
        let classes = Classes::lock()?;
        let path = path_of(&classes.fs, parent)?.join(name)?;
        let settings = Settings {
            weight: Some(weight),
            leaf: Some(leaf),
            ..Settings::default()
        };
        classes.add(
            &path,
            &New {
                settings,
                parents: false,
                threaded: flag & THREADED != 0,
            },
        )?;
        id_of(&classes.fs, &path).inspect_err(|_| drop(class::delete(&classes.fs, &path)))
    })
}

pub(crate) fn leaf(sid: c_int) -> Outcome<Leaf> {
    let leaf = u32::try_from(sid).ok().and_then(Leaf::from_number);
    leaf.map_or_else(
        || {
            Err(Error::UnknownLeaf {
                name: sid.to_string(),
            }
            .into())
        },
        Ok,
    )
}

/// `hsfq_rmnod(3)`
#[no_mangle]
pub extern "C" fn hsfq_rmnod(id: c_int, mode: c_int) -> c_int {
    answer(|| {
        if mode != RM_EMPTY {
            return refuse(
                Errno::EINVAL,
                format!("mode {mode} is not known: pass HSFQ_RM_EMPTY"),
            );
        }
        let _lock = Lock::take()?;
        let fs = Hierarchy::discover()?;
        class::delete(&fs, &path_of(&fs, id)?)?;
        Ok(0)
    })
}

/// One write to one file: it needs no lock, and the caller, moved into a class
/// where it is not served for long, would keep it.
fn move_to(id: c_int, member: Member) -> Outcome {
    let classes = Classes::open()?;
    classes.move_to(&path_of(&classes.fs, id)?, &[member])?;
    Ok(0)
}

/// `hsfq_join_node(3)`
#[no_mangle]
pub extern "C" fn hsfq_join_node(id: c_int) -> c_int {
    hsfq_move(0, id)
}

/// `hsfq_move(3)`
#[no_mangle]
pub extern "C" fn hsfq_move(pid: pid_t, id: c_int) -> c_int {
    let pid = if pid == 0 {
        nix::unistd::getpid().as_raw()
    } else {
        pid
    };
    answer(|| move_to(id, Member::Process(pid)))
}

/// `hsfq_move_thread(3)`
#[no_mangle]
pub extern "C" fn hsfq_move_thread(tid: pid_t, id: c_int) -> c_int {
    answer(|| move_to(id, Member::Thread(own_if_zero(tid))))
}

pub(crate) fn own_if_zero(tid: pid_t) -> pid_t {
    if tid == 0 {
        return nix::unistd::gettid().as_raw();
    }
    tid
}

/// `hsfq_parse(3)`
///
/// # Safety
/// `name` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn hsfq_parse(name: *const c_char, hint: c_int) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        let name = unsafe { string(name, "the name") }?;
        let fs = Hierarchy::discover()?;
        let path = match name {
            "" => {
                return refuse(
                    Errno::ENOENT,
                    "the name is empty: give a path such as /best-effort/user1",
                )
            }
            absolute if absolute.starts_with('/') => absolute.parse()?,
            relative => path_of(&fs, hint)?.join(relative)?,
        };
        fs.require(&path)?;
        id_of(&fs, &path)
    })
}

/// `hsfq_path(3)`
///
/// # Safety
/// `path` is NULL or points to `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn hsfq_path(id: c_int, path: *mut c_char, size: usize) -> c_int {
    answer(|| {
        let found = path_of(&Hierarchy::discover()?, id)?;
        let bytes = found.as_str().as_bytes();
        if path.is_null() {
            return refuse(Errno::EFAULT, "the buffer is a null pointer: pass one");
        }
        if bytes.len() >= size {
            return refuse(
                Errno::ERANGE,
                format!(
                    "the path needs {} bytes: pass a larger buffer",
                    bytes.len() + 1
                ),
            );
        }
        // SAFETY: the buffer holds the bytes and the NUL.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), path, bytes.len());
            *path.add(bytes.len()) = 0;
        }
        Ok(bytes.len() as c_int)
    })
}

/// `hsfq_admin(3)`
///
/// # Safety
/// `args` is NULL or points to what the command takes.
#[no_mangle]
pub unsafe extern "C" fn hsfq_admin(id: c_int, cmd: c_int, args: *mut c_void) -> c_int {
    answer(|| {
        if args.is_null() {
            return refuse(
                Errno::EFAULT,
                "the argument is a null pointer: pass what the command takes",
            );
        }
        // SAFETY: passed on.
        unsafe { admin::admin(id, cmd, args) }
    })
}

/// `hsfq_errmsg(3)`
#[no_mangle]
pub extern "C" fn hsfq_errmsg() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

#[cfg(test)]
mod tests;
