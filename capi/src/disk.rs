// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table 3: the disk scheduler Cello.
//!
//! The kernel keeps no class with an open file, so the library remembers those of the files it
//! opened, by descriptor; what else is known of the file tells whether the number still means it.

use crate::{answer, refuse, string, Outcome, Refusal};
use nix::errno::Errno;
use nix::libc::{self, c_char, c_int, c_long, c_ulong, c_void, mode_t, pid_t};
use qlinux::disk::{self, Arm, Class, Deadline, Disk, OfProcess, Own, Round, Settings, Weight};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{PoisonError, RwLock};

pub(crate) const GET_WEIGHT: c_int = 1;
pub(crate) const SET_WEIGHT: c_int = 2;
pub(crate) const GET_DEADLINE: c_int = 3;
pub(crate) const SET_DEADLINE: c_int = 4;
pub(crate) const GET_STATUS: c_int = 5;

/// `struct cello_status`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    pub(crate) size: u32,
    pub(crate) weight: u32,
    pub(crate) requests: u64,
    pub(crate) time_us: u64,
    pub(crate) waiting: u64,
    pub(crate) late: u64,
    pub(crate) broken: u64,
    pub(crate) round_us: u64,
    pub(crate) rounds: u64,
    pub(crate) bypassed: u64,
    pub(crate) error_us: u64,
    pub(crate) in_flight: u32,
    pub(crate) deadline_ms: u32,
}

impl From<disk::Refusal> for Refusal {
    fn from(refusal: disk::Refusal) -> Refusal {
        qlinux::Error::from(refusal).into()
    }
}

fn class(id: c_int) -> Outcome<Class> {
    let class = u32::try_from(id).ok().and_then(Class::from_number);
    class.map_or_else(
        || {
            refuse(
                Errno::EINVAL,
                format!("class {id} is not known: pass one of enum cello_class"),
            )
        },
        Ok,
    )
}

/// 0: none of its own.
fn deadline(ms: c_long) -> Outcome<Option<Deadline>> {
    match u64::try_from(ms) {
        Ok(0) => Ok(None),
        Ok(ms) => Ok(Some(Deadline::from_ms(ms)?)),
        Err(_) => refuse(
            Errno::ERANGE,
            format!("deadline {ms} is negative: pass milliseconds from a request's arrival, or 0"),
        ),
    }
}

/// A file that was opened here.
#[derive(Clone, Copy)]
struct Opened {
    class: Class,
    /// Device and inode.
    file: (libc::dev_t, libc::ino_t),
}

static FILES: RwLock<BTreeMap<c_int, Opened>> = RwLock::new(BTreeMap::new());

fn identity(fd: c_int) -> Option<(libc::dev_t, libc::ino_t)> {
    // SAFETY: all-zero bytes are a struct stat, which fstat fills.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some((stat.st_dev, stat.st_ino))
    }
}

fn opened(fd: c_int) -> Outcome<Opened> {
    let files = FILES.read().unwrap_or_else(PoisonError::into_inner);
    let found = files.get(&fd).copied();
    match found.filter(|opened| identity(fd) == Some(opened.file)) {
        Some(opened) => Ok(opened),
        None => refuse(
            Errno::EBADF,
            format!("descriptor {fd} is no open file of cello_open(): open it with that"),
        ),
    }
}

fn failed<T>(doing: &str) -> Outcome<T> {
    let errno = Errno::last();
    let why = errno.desc().to_lowercase();
    refuse(
        errno,
        format!("{doing} failed: {why}; see the manual page of the system call of that name"),
    )
}

/// `cello_open(3)`
///
/// # Safety
/// `path` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn cello_open(
    path: *const c_char,
    flags: c_int,
    class_id: c_int,
    mode: mode_t,
) -> c_int {
    answer(|| {
        let class = class(class_id)?;
        if path.is_null() {
            return refuse(Errno::EFAULT, "the path is a null pointer: pass a string");
        }
        // SAFETY: a C string.
        let fd = unsafe { libc::open(path, flags, libc::c_uint::from(mode)) };
        if fd < 0 {
            // SAFETY: a C string.
            let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
            return failed(&format!("open of {path}"));
        }
        if class == Class::Realtime {
            // What is read ahead would use the class's share; what cannot be read ahead
            // refuses, and need not be told.
            // SAFETY: takes numbers only.
            unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_RANDOM) };
        }
        let file = identity(fd).unwrap_or_default();
        let mut files = FILES.write().unwrap_or_else(PoisonError::into_inner);
        files.insert(fd, Opened { class, file });
        Ok(fd)
    })
}

/// `cello_close(3)`
#[no_mangle]
pub extern "C" fn cello_close(fd: c_int) -> c_int {
    answer(|| {
        opened(fd)?;
        // First: another thread may be given the number as soon as it is closed.
        let mut files = FILES.write().unwrap_or_else(PoisonError::into_inner);
        files.remove(&fd);
        drop(files);
        // SAFETY: the caller's descriptor, which it wants to be closed.
        match unsafe { libc::close(fd) } {
            0 => Ok(0),
            _ => failed("close"),
        }
    })
}

/// A transfer in the file's class.
fn transfer(
    fd: c_int,
    deadline_ms: c_long,
    doing: &str,
    call: impl FnOnce() -> isize,
) -> Outcome<isize> {
    let class = opened(fd)?.class;
    let own = Own::begin(class, deadline(deadline_ms)?)?;
    let done = call();
    let outcome = match done {
        0.. => Ok(done),
        _ => failed(doing),
    };
    drop(own);
    outcome
}

/// `cello_read(3)`
///
/// # Safety
/// `buf` is what read(2) takes.
#[no_mangle]
pub unsafe extern "C" fn cello_read(
    fd: c_int,
    buf: *mut c_void,
    count: usize,
    deadline_ms: c_long,
) -> isize {
    // SAFETY: passed on; the kernel checks the buffer.
    answer(|| {
        transfer(fd, deadline_ms, "read", || unsafe {
            libc::read(fd, buf, count)
        })
    })
}

/// `cello_write(3)`
///
/// # Safety
/// `buf` is what write(2) takes.
#[no_mangle]
pub unsafe extern "C" fn cello_write(
    fd: c_int,
    buf: *const c_void,
    count: usize,
    deadline_ms: c_long,
) -> isize {
    // SAFETY: passed on; the kernel checks the buffer.
    answer(|| {
        transfer(fd, deadline_ms, "write", || unsafe {
            libc::write(fd, buf, count)
        })
    })
}

/// `cello_set_class(3)`
#[no_mangle]
pub extern "C" fn cello_set_class(pid: pid_t, class_id: c_int) -> c_int {
    answer(|| {
        let wanted = OfProcess {
            class: class(class_id)?,
            deadline: None,
        };
        wanted.give(pid)?;
        Ok(0)
    })
}

/// `cello_get_class(3)`
#[no_mangle]
pub extern "C" fn cello_get_class(pid: pid_t) -> c_int {
    answer(|| {
        let pid = match pid {
            0 => nix::unistd::getpid().as_raw(),
            pid => pid,
        };
        Ok(OfProcess::of(pid)?.class.number() as c_int)
    })
}

/// One of the three among which a disk is divided.
fn one_of_three(id: c_int) -> Outcome<Class> {
    match class(id)? {
        Class::None => Err(disk::Refusal::NoneOfThree.into()),
        class => Ok(class),
    }
}

/// # Safety
/// `args` points to what the command takes.
unsafe fn admin(dev: &str, class: Class, cmd: c_int, args: *mut c_void) -> Outcome {
    let mut settings = Settings::default();
    // SAFETY: the caller passed what the command takes.
    unsafe {
        match cmd {
            GET_WEIGHT => *args.cast::<c_int>() = look(dev, class)?.weight as c_int,
            GET_DEADLINE => *args.cast::<c_long>() = look(dev, class)?.deadline_ms.into(),
            GET_STATUS => {
                let status = args.cast::<Status>();
                if (*status).size as usize != size_of::<Status>() {
                    return refuse(
                        Errno::EINVAL,
                        "struct cello_status has another size: set its member `size`, or recompile",
                    );
                }
                *status = look(dev, class)?;
            }
            SET_WEIGHT => {
                let weight = Weight::new((*args.cast::<c_int>()).into())?;
                settings.weights[class as usize] = Some(weight);
                disk::set(dev, &settings)?;
            }
            SET_DEADLINE if class != Class::Realtime => {
                return Err(disk::Refusal::DeadlineOf { class }.into())
            }
            SET_DEADLINE => {
                let ms = u64::try_from(*args.cast::<c_long>()).unwrap_or(0);
                settings.deadline = Some(Deadline::from_ms(ms)?);
                disk::set(dev, &settings)?;
            }
            _ => {
                return refuse(
                    Errno::EINVAL,
                    format!("command {cmd} is not known: pass one of enum cello_cmd"),
                )
            }
        }
    }
    Ok(0)
}

fn look(dev: &str, class: Class) -> Outcome<Status> {
    let disk = Disk::find(dev)?;
    disk.require_cello()?;
    let (attributes, counts) = (disk.attributes()?, disk.counts()?);
    let of_class = counts.classes[class as usize];
    let realtime = class == Class::Realtime;
    Ok(Status {
        size: size_of::<Status>() as u32,
        weight: attributes.weights[class as usize],
        requests: of_class.requests,
        time_us: of_class.time_us,
        waiting: of_class.waiting,
        late: if realtime { counts.realtime_late } else { 0 },
        broken: if realtime { counts.realtime_broken } else { 0 },
        round_us: attributes.round_us,
        rounds: counts.rounds,
        bypassed: counts.bypassed,
        error_us: counts.error_us,
        in_flight: counts.in_flight_now,
        deadline_ms: attributes.deadline_ms as u32,
    })
}

/// `cello_admin(3)`
///
/// # Safety
/// `dev` is NULL or a C string, `args` NULL or points to what the command takes.
#[no_mangle]
pub unsafe extern "C" fn cello_admin(
    dev: *const c_char,
    class_id: c_int,
    cmd: c_int,
    args: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        let dev = unsafe { string(dev, "the disk") }?;
        let class = one_of_three(class_id)?;
        if args.is_null() {
            return refuse(
                Errno::EFAULT,
                "the argument is a null pointer: pass what the command takes",
            );
        }
        // SAFETY: not null, passed on.
        unsafe { admin(dev, class, cmd, args) }
    })
}

/// `cello_start(3)`
///
/// # Safety
/// `dev` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn cello_start(dev: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        disk::up(
            unsafe { string(dev, "the disk") }?,
            &Settings::default(),
            Arm::Auto,
        )?;
        Ok(0)
    })
}

/// `cello_stop(3)`
///
/// # Safety
/// `dev` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn cello_stop(dev: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        disk::down(unsafe { string(dev, "the disk") }?)?;
        Ok(0)
    })
}

/// `cello_round(3)`
///
/// # Safety
/// `dev` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn cello_round(dev: *const c_char, round_us: c_ulong) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        let dev = unsafe { string(dev, "the disk") }?;
        let settings = Settings {
            round: Some(Round::new(round_us)?),
            ..Settings::default()
        };
        disk::set(dev, &settings)?;
        Ok(0)
    })
}

/// `cello_ioprio(3)`
#[no_mangle]
pub extern "C" fn cello_ioprio(class_id: c_int, deadline_ms: c_long) -> c_int {
    answer(|| {
        let value = disk::of_request(class(class_id)?, deadline(deadline_ms)?)?;
        Ok(value.into())
    })
}
