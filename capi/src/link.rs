// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table 2: the packet schedulers of network interfaces.
//!
//! An id is the major number of the interface's queueing discipline, and below it the
//! node's index or the queue's id.

pub(crate) mod status;

use crate::{answer, refuse, string, Outcome, INNER, LEAF, RM_EMPTY};
use nix::errno::Errno;
use nix::libc::{c_char, c_int, c_uint};
use qlinux::link::{self, Codel, Discipline, Limits, Link, Node, Options, QueueName, Rate, Tree};
use qlinux::{ClassPath, Weight};

pub(crate) const REPLACE: u32 = 1;
pub(crate) const NO_CODEL: u32 = 2;
/// Above an `enum link_discipline`, so that no number of the CPU's leaf schedulers passes.
pub(crate) const SID: c_int = 0x100;

pub(crate) const NODE_WEIGHT: c_int = 1;
pub(crate) const QUEUE_WEIGHT: c_int = 2;
pub(crate) const QUEUE_PACKETS: c_int = 3;
pub(crate) const QUEUE_BYTES: c_int = 4;

/// `struct hsfq_qdisc`
#[repr(C)]
pub struct Qdisc {
    pub(crate) size: u32,
    pub(crate) flags: u32,
    pub(crate) rate: u64,
    pub(crate) overhead: u32,
    pub(crate) least: u32,
}

/// The link that an id belongs to, and the number below.
fn parts(id: c_int) -> Outcome<(u16, u32)> {
    u32::try_from(id)
        .map(|id| ((id >> 16) as u16, id & 0xffff))
        .or_else(|_| {
            refuse(
                Errno::ENOENT,
                format!("id {id} names nothing: ids are above 0, see hsfq_link_getroot()"),
            )
        })
}

/// To change the link that the id belongs to.
fn lock(id: c_int) -> Outcome<(Link, u32)> {
    let (major, number) = parts(id)?;
    Ok((Link::lock_major(major)?, number))
}

/// To look at it.
fn open(id: c_int) -> Outcome<(Link, u32)> {
    let (major, number) = parts(id)?;
    Ok((Link::open_major(major)?, number))
}

/// The number goes with an id of this link.
fn require_same(link: &Link, id: c_int) -> Outcome<u32> {
    let (major, number) = parts(id)?;
    if major != link.running().constants().major {
        return refuse(
            Errno::EXDEV,
            format!(
                "id {id} does not belong to {}: name two of the same interface",
                link.device()
            ),
        );
    }
    Ok(number)
}

fn id(link: &Link, number: u32) -> c_int {
    link.sid(number) as c_int
}

fn node<'a>(link: &Link, tree: &'a Tree, number: u32) -> Outcome<&'a Node> {
    tree.number(number).map_or_else(
        || {
            refuse(
                Errno::ENOENT,
                format!(
                    "node {} of {} does not exist: look it up with hsfq_link_parsenode()",
                    id(link, number),
                    link.device()
                ),
            )
        },
        Ok,
    )
}

fn queue(link: &Link, tree: &Tree, number: u32) -> Outcome<QueueName> {
    match tree.queue_by_id(number) {
        Some(queue) => Ok(tree.name(queue).parse()?),
        None => refuse(
            Errno::ENOENT,
            format!(
                "queue {} of {} does not exist: hsfq_link_status() tells all",
                id(link, number),
                link.device()
            ),
        ),
    }
}

fn weight(given: u64) -> Outcome<Weight> {
    Ok(Weight::new(i64::try_from(given).unwrap_or(i64::MAX))?)
}

/// # Safety
/// `options` is NULL or points to a `struct hsfq_qdisc`.
unsafe fn options(given: *const Qdisc) -> Outcome<Options> {
    if given.is_null() {
        return Ok(Options::default());
    }
    // SAFETY: not null; its size comes first.
    let size = unsafe { (*given).size };
    if size as usize != size_of::<Qdisc>() {
        return refuse(
            Errno::EINVAL,
            "struct hsfq_qdisc has another size: set its member `size`, or recompile",
        );
    }
    // SAFETY: it has the size of this structure.
    let given = unsafe { &*given };
    if given.flags & !(REPLACE | NO_CODEL) != 0 {
        return refuse(
            Errno::EINVAL,
            format!(
                "flags {:#x} are not known: combine HSFQ_QDISC_REPLACE and HSFQ_QDISC_NO_CODEL",
                given.flags
            ),
        );
    }
    Ok(Options {
        rate: Rate::new(given.rate).map_err(qlinux::Error::from)?,
        overhead: given.overhead,
        least: given.least,
        codel: match given.flags & NO_CODEL {
            0 => Codel::default(),
            _ => Codel::OFF,
        },
        replace: given.flags & REPLACE != 0,
        ..Options::default()
    })
}

/// `hsfq_qdisc_install(3)`
///
/// # Safety
/// `device` is NULL or a C string, `given` NULL or a `struct hsfq_qdisc`.
#[no_mangle]
pub unsafe extern "C" fn hsfq_qdisc_install(device: *const c_char, given: *const Qdisc) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        let device = unsafe { string(device, "the device") }?;
        // SAFETY: passed on.
        link::up(device, &unsafe { options(given) }?)?;
        Ok(0)
    })
}

/// `hsfq_qdisc_remove(3)`
///
/// # Safety
/// `device` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn hsfq_qdisc_remove(device: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        link::down(unsafe { string(device, "the device") }?)?;
        Ok(0)
    })
}

/// `hsfq_link_getroot(3)`
///
/// # Safety
/// `device` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn hsfq_link_getroot(device: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        let link = Link::open(unsafe { string(device, "the device") }?)?;
        Ok(id(&link, Tree::ROOT))
    })
}

/// `hsfq_link_parsenode(3)`
///
/// # Safety
/// `name` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn hsfq_link_parsenode(name: *const c_char, hint: c_int) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        let name = unsafe { string(name, "the name") }?;
        if name.is_empty() {
            return refuse(
                Errno::ENOENT,
                "the name is empty: give a path such as /video/alice",
            );
        }
        let (link, above) = open(hint)?;
        let tree = link.tree()?;
        let path: ClassPath = match name.starts_with('/') {
            true => name.parse()?,
            false => node(&link, &tree, above)?.path.join(name)?,
        };
        let found = tree.class(&path).map_err(qlinux::Error::from)?;
        Ok(id(&link, found.number))
    })
}

fn discipline(flag: c_int, sid: c_int) -> Outcome<Discipline> {
    let number = sid.checked_sub(SID).map(u32::try_from);
    let found = number.and_then(|n| Discipline::from_number(n.ok()?));
    match (flag, found) {
        (INNER, _) if sid == 0 => Ok(Discipline::None),
        (INNER, _) => refuse(
            Errno::EINVAL,
            "an inner node takes no leaf scheduler: pass HSFQ_LEAF or sid 0",
        ),
        (LEAF, Some(found)) if found != Discipline::None => Ok(found),
        (LEAF, _) => refuse(
            Errno::EINVAL,
            format!("sid {sid} is no leaf scheduler of packets: pass HSFQ_LINK_FIFO, HSFQ_LINK_SFQ or HSFQ_LINK_FQ"),
        ),
        _ => refuse(
            Errno::EINVAL,
            format!("flag {flag} is not known: pass HSFQ_INNER or HSFQ_LEAF"),
        ),
    }
}

/// `hsfq_link_mknod(3)`
///
/// # Safety
/// `name` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn hsfq_link_mknod(
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
        let discipline = discipline(flag, sid)?;
        let weight = self::weight(weight.into())?;
        let (link, above) = lock(parent)?;
        let tree = link.tree()?;
        let path = node(&link, &tree, above)?.path.join(name)?;
        let made = link.make_node(&tree, &path, weight, discipline)?;
        Ok(id(&link, made))
    })
}

/// `hsfq_link_rmnod(3)`
#[no_mangle]
pub extern "C" fn hsfq_link_rmnod(id: c_int, mode: c_int) -> c_int {
    answer(|| {
        if mode != RM_EMPTY {
            return refuse(
                Errno::EINVAL,
                format!("mode {mode} is not known: pass HSFQ_RM_EMPTY"),
            );
        }
        let (link, number) = lock(id)?;
        let path = node(&link, &link.tree()?, number)?.path.clone();
        link.del_class(&path)?;
        Ok(0)
    })
}

/// `hsfq_link_createq(3)`
///
/// # Safety
/// `name` is NULL or a C string.
#[no_mangle]
pub unsafe extern "C" fn hsfq_link_createq(
    name: *const c_char,
    node: c_int,
    weight: c_uint,
) -> c_int {
    answer(|| {
        // SAFETY: passed on.
        let name = unsafe { string(name, "the name") }?;
        let weight = self::weight(weight.into())?;
        let (link, number) = lock(node)?;
        self::node(&link, &link.tree()?, number)?;
        let made = link.add_queue(name, weight, Limits::default(), None)?;
        Ok(id(&link, made))
    })
}

/// `hsfq_link_attachq(3)`
#[no_mangle]
pub extern "C" fn hsfq_link_attachq(queue: c_int, leaf: c_int) -> c_int {
    place(queue, leaf, Link::attach_queue)
}

/// `hsfq_link_moveq(3)`
#[no_mangle]
pub extern "C" fn hsfq_link_moveq(queue: c_int, leaf: c_int) -> c_int {
    place(queue, leaf, Link::move_queue)
}

type Place = fn(&Link, &QueueName, &ClassPath) -> qlinux::Result<()>;

fn place(queue: c_int, leaf: c_int, how: Place) -> c_int {
    answer(|| {
        let (link, number) = lock(queue)?;
        let leaf = require_same(&link, leaf)?;
        let tree = link.tree()?;
        let name = self::queue(&link, &tree, number)?;
        how(&link, &name, &node(&link, &tree, leaf)?.path)?;
        Ok(0)
    })
}

/// `hsfq_link_rmq(3)`
#[no_mangle]
pub extern "C" fn hsfq_link_rmq(queue: c_int) -> c_int {
    answer(|| {
        let (link, number) = lock(queue)?;
        let name = self::queue(&link, &link.tree()?, number)?;
        link.del_queue(&name)?;
        Ok(0)
    })
}

/// `hsfq_link_modify(3)`
#[no_mangle]
pub extern "C" fn hsfq_link_modify(id: c_int, what: c_int, value: u64) -> c_int {
    answer(|| {
        let (mut weight, mut limits) = (None, Limits::default());
        match what {
            NODE_WEIGHT | QUEUE_WEIGHT => weight = Some(self::weight(value)?),
            QUEUE_PACKETS => limits.packets = Some(u32::try_from(value).unwrap_or(u32::MAX)),
            QUEUE_BYTES => limits.bytes = Some(value),
            _ => {
                return refuse(
                    Errno::EINVAL,
                    format!("member {what} is not known: see hsfq_link_modify(3)"),
                )
            }
        }
        let (link, number) = lock(id)?;
        let tree = link.tree()?;
        match (what, weight) {
            (NODE_WEIGHT, Some(weight)) => {
                link.set_class(&node(&link, &tree, number)?.path, weight)?
            }
            _ => link.set_queue(&queue(&link, &tree, number)?, weight, limits)?,
        }
        Ok(0)
    })
}
