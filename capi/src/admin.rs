// SPDX-License-Identifier: MIT OR Apache-2.0
//! `hsfq_admin`: one command each.

use crate::{leaf, own_if_zero, path_of, refuse, Outcome};
use nix::errno::Errno;
use nix::libc::{c_int, c_void};
use qlinux::cgroup::Kind;
use qlinux::class::{Classes, Settings, ThreadWeight};
use qlinux::reserve::Reservation;
use qlinux::{Error, Weight};

const GET_WEIGHT: c_int = 1;
const SET_WEIGHT: c_int = 2;
const GET_LEAF: c_int = 3;
const SET_LEAF: c_int = 4;
const GET_INFO: c_int = 5;
const GET_THREAD: c_int = 6;
const SET_THREAD: c_int = 7;
const GET_RESERVATION: c_int = 8;
const SET_RESERVATION: c_int = 9;
const WEIGHT_NICE: i32 = -1;

/// `struct hsfq_info`
#[repr(C)]
pub(crate) struct Info {
    pub size: u32,
    pub weight: i32,
    pub sid: i32,
    pub flags: u32,
    pub threads: u32,
    pub runnable: u32,
    pub children: u32,
    pub pad: u32,
    pub served_ns: u64,
    pub own_ns: u64,
    pub share_ppb: u64,
    pub start_tag: u64,
    pub vtime: u64,
    pub cgroup_id: u64,
}

/// `struct hsfq_thread`
#[repr(C)]
pub(crate) struct Thread {
    pub tid: i32,
    pub weight: i32,
    pub fixed: u32,
    pub pad: u32,
    pub served_ns: u64,
}

/// `struct hsfq_reservation`
#[repr(C)]
pub(crate) struct Promise {
    pub tid: i32,
    pub force: u32,
    pub cost_ns: u64,
    pub period_ns: u64,
    pub deadline_ns: u64,
    pub misses: u64,
}

/// # Safety
/// `args` points to what the command takes.
pub(crate) unsafe fn admin(id: c_int, cmd: c_int, args: *mut c_void) -> Outcome {
    let changes = matches!(cmd, SET_WEIGHT | SET_LEAF | SET_THREAD | SET_RESERVATION);
    let looks = matches!(
        cmd,
        GET_WEIGHT | GET_LEAF | GET_INFO | GET_THREAD | GET_RESERVATION
    );
    if !changes && !looks {
        return refuse(
            Errno::EINVAL,
            format!("command {cmd} is not known: see hsfq_admin(3)"),
        );
    }
    // What is wrong whatever the state is refused first.
    let (mut settings, mut thread_weight, mut promise) = (Settings::default(), None, None);
    // SAFETY: by the command, `args` points to an int or a struct hsfq_thread.
    unsafe {
        match cmd {
            SET_WEIGHT => settings.weight = Some(Weight::new((*args.cast::<c_int>()).into())?),
            SET_LEAF => settings.leaf = Some(leaf(*args.cast::<c_int>())?),
            SET_RESERVATION => promise = Some(reservation(&*args.cast::<Promise>())?),
            SET_THREAD => thread_weight = Some(weight_of_thread((*args.cast::<Thread>()).weight)?),
            _ => {}
        }
    }
    let classes = if changes {
        Classes::lock()?
    } else {
        Classes::open()?
    };
    let path = path_of(&classes.fs, id)?;
    if let Some(weight) = thread_weight {
        // SAFETY: as above.
        let tid = own_if_zero(unsafe { (*args.cast::<Thread>()).tid });
        classes.set_thread(&path, tid, weight)?;
        return Ok(0);
    }
    if let Some(wanted) = promise {
        // SAFETY: as above.
        let given = unsafe { &*args.cast::<Promise>() };
        let tid = own_if_zero(given.tid);
        classes.require_member(&path, tid)?;
        classes.reserve(tid, wanted, given.force != 0)?;
        return Ok(0);
    }
    if changes {
        classes.set(&path, &settings)?;
        return Ok(0);
    }
    let node = classes.node(&path)?;
    let weight = classes.fs.weight(&path).map_or(0, |w| w.get() as i32);
    // SAFETY: as above, or to a struct hsfq_info, of which `size` is checked
    // before anything else is written.
    unsafe {
        match cmd {
            GET_WEIGHT => *args.cast() = weight,
            GET_LEAF => *args.cast() = node.policy as c_int,
            GET_RESERVATION => get_reservation(&classes, &mut *args.cast::<Promise>())?,
            GET_THREAD => get_thread(&classes, &mut *args.cast::<Thread>())?,
            _ => {
                let info = args.cast::<Info>();
                if (*info).size as usize != size_of::<Info>() {
                    return refuse(
                        Errno::EINVAL,
                        "struct hsfq_info has another size: set its member `size`, or recompile",
                    );
                }
                let flags = if classes.fs.kind(&path) == Kind::Threaded {
                    crate::THREADED as u32
                } else {
                    0
                };
                *info = Info {
                    size: (*info).size,
                    weight,
                    sid: node.policy as i32,
                    flags,
                    threads: node.threads,
                    runnable: node.runnable,
                    children: node.children,
                    pad: 0,
                    served_ns: node.served_ns,
                    own_ns: node.own_ns,
                    share_ppb: node.share_ppb,
                    start_tag: node.start_tag,
                    vtime: node.vtime,
                    cgroup_id: node.cgroup_id,
                };
            }
        }
    }
    Ok(0)
}

fn weight_of_thread(weight: i32) -> Result<ThreadWeight, Error> {
    match weight {
        WEIGHT_NICE => Ok(ThreadWeight::Nice),
        weight => Weight::new(weight.into()).map(ThreadWeight::Fixed),
    }
}

fn reservation(given: &Promise) -> Result<Option<Reservation>, Error> {
    if given.cost_ns == 0 {
        return Ok(None);
    }
    Reservation::new(given.cost_ns, given.period_ns, given.deadline_ns).map(Some)
}

fn get_reservation(classes: &Classes, promise: &mut Promise) -> Outcome<()> {
    let found = classes.scheduler.thread(own_if_zero(promise.tid), 0)?;
    promise.cost_ns = found.cost_ns;
    promise.period_ns = found.period_ns;
    promise.deadline_ns = found.deadline_ns;
    promise.misses = found.misses;
    Ok(())
}

fn get_thread(classes: &Classes, thread: &mut Thread) -> Outcome<()> {
    let found = classes.scheduler.thread(own_if_zero(thread.tid), 0)?;
    thread.weight = found.weight as i32;
    thread.fixed = found.fixed;
    thread.served_ns = found.served_ns;
    Ok(())
}
