// SPDX-License-Identifier: MIT OR Apache-2.0
//! Putting the packet scheduler on an interface, and taking it off.

use super::intf::CtlLink;
use super::names::{check_name, Tree};
use super::object::{self, Settings};
use super::ops::check_frame;
use super::pins::{self, netns_cookie, Pins};
use super::running::{self, Running};
use super::{intf, Codel, Discipline, Rate, Refusal};
use crate::netlink::{self, Device, Saved};
use crate::undo::Undo;
use crate::{bpf, cgroup::Hierarchy, check, ClassPath, Error, Lock, Result, Weight};
use libbpf_rs::{MapCore, MapFlags, MapType, Object};
use std::io::ErrorKind;
use std::time::SystemTime;

/// Of the qdisc that was there before, a map holds at most so much.
const BEFORE_MAX: usize = 300 << 10;
/// Majors of handles that are ours to give away; the kernel's own begin at 0x8000.
const MAJORS: std::ops::Range<u16> = 0x5100..0x7f00;

/// How to start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Paces the link.
    pub rate: Rate,
    /// Bytes that a packet takes on the line besides itself: 0 to 1024.
    pub overhead: u32,
    /// Bytes that a packet takes there at least: 0 to 2048.
    pub least: u32,
    /// When queues are taken for standing.
    pub codel: Codel,
    /// The largest packet that is segmented behind the scheduler, in bytes; `None`: what the rate makes of it,
    /// as [`gso_max_of`] says.
    pub gso_max: Option<u32>,
    /// Size of the trace in bytes; it is rounded up to a power of two.
    pub trace_bytes: Option<u64>,
    /// Take the place of a foreign queueing discipline, or of an H-SFQ, which loses its tree.
    pub replace: bool,
    /// The first tree; `None`: the root with one FIFO leaf, `/default`, as in QLinux, section 3.3.
    pub share: Option<Share>,
}

/// A tree of leaves below the root, there before the first packet comes.
#[derive(Clone, Debug)]
pub struct Share {
    /// Names and weights. What nothing else is said of goes to `/rest`, if that is one of them, else to `/default`,
    /// of weight 1 unless it is one of them.
    pub classes: Vec<(ClassPath, Weight)>,
    /// The leaf scheduler of each.
    pub leaf: Discipline,
}

impl Share {
    /// The class of packets that nothing is said of, if it can be one.
    const REST: &str = "rest";

    fn check(&self) -> Result<()> {
        if self.leaf == Discipline::None {
            let why = "classes of a shared link hold queues: give --leaf fifo, sfq or fq";
            return Err(Refusal::Usage(why.into()).into());
        }
        for (i, (path, _)) in self.classes.iter().enumerate() {
            check_name(path.name())?;
            let twice = self.classes[..i].iter().any(|(other, _)| other == path);
            if twice || path.components().count() != 1 {
                let why = format!(
                    "'{}' is below another, or is named twice: write each class and its weight once, like web=3",
                    path.name()
                );
                return Err(Refusal::Usage(why).into());
            }
        }
        Ok(())
    }

    /// All classes, and the name of the one for what nothing is said of.
    fn leaves(&self) -> Result<(Vec<(&str, Weight)>, &str)> {
        let mut all: Vec<_> = self.classes.iter().map(|(p, w)| (p.name(), *w)).collect();
        let has = |name: &str| self.classes.iter().any(|(path, _)| path.name() == name);
        if has(Share::REST) {
            return Ok((all, Share::REST));
        }
        if !has(Tree::DEFAULT) {
            all.push((Tree::DEFAULT, Weight::new(1)?));
        }
        Ok((all, Tree::DEFAULT))
    }
}

/// Whether the interface is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// H-SFQ is the interface's root queueing discipline.
    Up,
    /// It was, and was deleted or replaced by somebody else.
    Replaced,
    /// The interface, or its network namespace, has gone.
    Gone,
}

/// What is known of a link.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Status {
    /// Name of the interface.
    pub device: String,
    /// Its number.
    pub index: u32,
    /// It is in the caller's network namespace.
    pub here: bool,
    /// Whether it is scheduled.
    pub state: State,
    /// Since when, in seconds of the Unix epoch.
    pub since: Option<f64>,
    /// Interface version of its program.
    pub interface: u32,
    /// Bytes a second; `None`: as fast as the device takes them.
    pub rate_bytes: Option<u64>,
    /// It writes a trace.
    pub trace: bool,
    /// Packets queued.
    pub packets: u32,
    /// What became of all packets.
    pub counts: intf::Counts,
}

/// What [`down`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was up; what was there before is there again.
    Running,
    /// Somebody had replaced or deleted it.
    Replaced,
    /// Its interface had gone.
    Gone,
    /// Only remains of an interrupted command.
    Leftovers,
}

/// What the interface was like before.
#[derive(Clone, Debug)]
pub struct Before {
    /// Of packets that are segmented late, as [`Device`]: bytes, of IPv4, segments.
    gso: (u32, Option<u32>, u32),
    /// Its queueing disciplines.
    saved: Saved,
}

impl Before {
    fn of(device: &Device) -> Result<Before> {
        Ok(Before {
            gso: (
                device.gso_max_size,
                device.gso_ipv4_max_size,
                device.gso_max_segs,
            ),
            saved: Saved::take(device.index)?,
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.gso.0.to_ne_bytes());
        bytes.extend(self.gso.1.unwrap_or(0).to_ne_bytes());
        bytes.extend(self.gso.2.to_ne_bytes());
        bytes.extend(self.saved.to_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Before> {
        let word = |at: usize| {
            bytes
                .get(at..at + 4)
                .and_then(|b| b.try_into().ok())
                .map_or(0, u32::from_ne_bytes)
        };
        Ok(Before {
            gso: (word(0), Some(word(4)).filter(|n| *n > 0), word(8)),
            saved: Saved::from_bytes(bytes.get(12..).unwrap_or(&[]))?,
        })
    }

    /// The interface as it was.
    pub(super) fn device(&self, now: &Device) -> Device {
        Device {
            gso_max_size: self.gso.0,
            gso_ipv4_max_size: self.gso.1,
            gso_max_segs: self.gso.2,
            ..now.clone()
        }
    }

    /// Puts everything back.
    fn restore(&self, device: &Device) -> Result<()> {
        netlink::bound_gso_as(&self.device(device))?;
        self.saved.restore(device.index)
    }
}

/// How long a link may take for a packet that is segmented behind the scheduler.
const GSO_PART_OF_SECOND: u64 = 1000;

/// The largest packet that is segmented behind the scheduler, if nothing is said of it: what the link sends in a
/// millisecond, and never less than one segment. Everyone else waits for all of it. `None`: it need not be bounded.
pub fn gso_max_of(rate: Rate, mtu: u32) -> Option<u32> {
    let bytes = (rate.bytes() / GSO_PART_OF_SECOND).max(mtu.into());
    let bytes = u32::try_from(bytes).ok()?;
    (rate != Rate::NONE && bytes < 65536).then_some(bytes)
}

/// Is our queueing discipline the root of that interface?
fn installed(index: u32, major: u16) -> Result<bool> {
    let root = netlink::root_qdisc(index)?;
    Ok(root.is_some_and(|q| q.kind.starts_with("hsfq") && q.handle == u32::from(major) << 16))
}

/// Puts the scheduler on the interface. It stays when this process ends.
pub fn up(dev: &str, options: &Options) -> Result<()> {
    check_options(options)?;
    let _lock = Lock::take()?;
    let device = netlink::device(dev)?;
    let pins = Pins::new(netns_cookie()?, device.index);
    recover(&device, &pins)?;
    let device = unbound(&device, &pins)?;
    let mut undo = Undo::new();
    let before = make_room(&device, &pins, options.replace)?;
    undo.push(|| {
        let _ = pins.clear();
        let _ = pins.bring_back();
    });
    sweep()?;
    pins.make()?;
    let major = free_major()?;
    start(&device, &pins, major, options, &before)?;
    let bounded = match options.gso_max {
        Some(bytes) => Some(device.with_gso_max(bytes)),
        None => gso_max_of(options.rate, device.mtu)
            .map(|bytes| before.device(&device).with_gso_at_most(bytes)),
    };
    if let Some(bounded) = bounded {
        netlink::bound_gso_as(&bounded)?;
        let device = device.clone();
        undo.push(move || drop(netlink::bound_gso_as(&device)));
    }
    netlink::replace_root(device.index, &id_of(&pins, major), major)
        .map_err(|e| not_installed(dev, &e))?;
    if !installed(device.index, major)? {
        return Err(not_installed(dev, &"it is not there afterwards").into());
    }
    undo.keep();
    pins.drop_aside()
}

fn not_installed(dev: &str, why: &dyn std::fmt::Display) -> Refusal {
    Refusal::NotInstalled {
        dev: dev.into(),
        why: why.to_string(),
    }
}

fn check_options(options: &Options) -> Result<()> {
    check_frame(options.overhead, options.least)?;
    match options.trace_bytes {
        Some(bytes @ 1073741825..) => Err(Refusal::Range {
            what: "trace size",
            given: bytes.to_string(),
            range: "4K to 1G",
        }
        .into()),
        _ => options.share.as_ref().map_or(Ok(()), Share::check),
    }
}

/// A command that was replacing the link's H-SFQ was killed: the one that is installed counts.
fn recover(device: &Device, pins: &Pins) -> Result<()> {
    let old = pins.replaced();
    match Running::open(old.clone(), &device.name) {
        Ok(running) if installed(device.index, running.constants.major)? => {
            pins.clear()?;
            netlink::bound_gso_as(&before(&running, device)?)?;
            pins.bring_back()
        }
        Ok(_) => pins.drop_aside(),
        Err(e) if old.exist() => match old.path(pins::RODATA).exists() {
            true => Err(e),
            false => pins.drop_aside(),
        },
        Err(_) => Ok(()),
    }
}

/// The interface as it was before that link.
fn before(running: &Running, now: &Device) -> Result<Device> {
    Ok(Before::from_bytes(&running.before()?)?.device(now))
}

/// Of a link that somebody else took off the interface, the bound of large packets has stayed.
fn unbound(device: &Device, pins: &Pins) -> Result<Device> {
    if let Some(running) = pinned(pins, &device.name)? {
        if !installed(device.index, running.constants.major)? {
            netlink::bound_gso_as(&before(&running, device)?)?;
            return netlink::device_by_index(device.index);
        }
    }
    Ok(device.clone())
}

/// Through pins that are whole; `None`: there are none, or only remains of an interrupted command.
fn pinned(pins: &Pins, dev: &str) -> Result<Option<Running>> {
    if !pins.path(pins::RODATA).exists() || !pins.path(pins::BEFORE).exists() {
        return Ok(None);
    }
    Running::open(pins.clone(), dev).map(Some)
}

/// Ends or refuses what is there. Returns what to put back one day.
fn make_room(device: &Device, pins: &Pins, replace: bool) -> Result<Before> {
    check::before_link()?;
    let dev = &device.name;
    if let Some(running) = pinned(pins, dev)? {
        if installed(device.index, running.constants.major)? {
            if !replace {
                return Err(Refusal::AlreadyUp { dev: dev.clone() }.into());
            }
            let before = Before::from_bytes(&running.before()?)?;
            pins.set_aside()?;
            return Ok(before);
        }
    }
    pins.clear_all()?;
    let root = netlink::root_qdisc(device.index)?.filter(|q| !q.default);
    match root {
        Some(foreign) if !replace => Err(Refusal::Foreign {
            dev: dev.clone(),
            kind: foreign.kind,
        }
        .into()),
        _ => Before::of(device),
    }
}

/// Links whose interfaces have gone leave pins behind.
fn sweep() -> Result<()> {
    for pins in Pins::all()? {
        if let Ok(Status {
            state: State::Gone, ..
        }) = status(&pins)
        {
            pins.clear_all()?;
        }
    }
    Ok(())
}

fn free_major() -> Result<u16> {
    let used = netlink::handles()?;
    let ours: Vec<u16> = Pins::all()?
        .into_iter()
        .filter_map(|pins| Running::open(pins, "").ok())
        .map(|running| running.constants.major)
        .collect();
    MAJORS
        .clone()
        .find(|major| !used.contains(major) && !ours.contains(major))
        .ok_or_else(|| Refusal::NoHandle.into())
}

/// The kernel knows queueing disciplines by their names, all over the machine.
fn id_of(pins: &Pins, major: u16) -> String {
    format!("hsfq.{:x}.{major:x}", pins.netns & 0xffff)
}

fn start(
    device: &Device,
    pins: &Pins,
    major: u16,
    options: &Options,
    before: &Before,
) -> Result<()> {
    let before = before.to_bytes();
    if before.len() > BEFORE_MAX {
        return Err(not_installed(&device.name, &"what is there is too large to keep").into());
    }
    let object = object::load(&Settings {
        index: device.index,
        device: &device.name,
        netns: pins.netns,
        major,
        id: &id_of(pins, major),
        trace_bytes: options
            .trace_bytes
            .map(|bytes| bytes.max(4096).next_power_of_two() as u32),
        before_bytes: before.len() as u32,
    })?;
    let mut object = pin(object, pins, &before)?;
    configure(pins, &device.name, options)?;
    attach_sockets(&mut object, pins)?;
    let pinned = |e: libbpf_rs::Error| bpf::error("pinning", pins.path(pins::LINK), &e);
    let mut link = object
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps && map.name() == object::OPS)
        .ok_or_else(|| Error::Load {
            why: format!("the embedded object has no {}", object::OPS),
        })?
        .attach_struct_ops()
        .map_err(|e| not_installed(&device.name, &format!("{e:#}")))?;
    link.pin(pins.path(pins::LINK)).map_err(pinned)
}

/// Pins everything but what attaches it.
fn pin(mut object: Object, pins: &Pins, before: &[u8]) -> Result<Object> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let pin = match name.as_str() {
            "cgroups" => pins::CGROUPS,
            "grants" => pins::GRANTS,
            "before" => pins::BEFORE,
            "hsfq_link_trace" => pins::TRACE,
            _ if name.ends_with(".bss") => pins::BSS,
            _ if name.ends_with(".rodata") => pins::RODATA,
            _ => continue,
        };
        let path = pins.path(pin);
        if pin == pins::BEFORE {
            let mut value = before.to_vec();
            value.resize(before.len().next_multiple_of(8).max(8), 0);
            map.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
                .map_err(|e| bpf::error("writing", path.clone(), &e))?;
        }
        map.pin(&path)
            .map_err(|e| bpf::error("pinning", path, &e))?;
    }
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if running::PROGRAMS.contains(&name.as_str()) {
            let path = pins.path(&name);
            program
                .pin(&path)
                .map_err(|e| bpf::error("pinning", path, &e))?;
        }
    }
    Ok(object)
}

/// The tree, before any packet comes.
fn configure(pins: &Pins, dev: &str, options: &Options) -> Result<()> {
    let running = Running::open(pins.clone(), dev)?;
    running.look()?;
    let failed = |errno| not_installed(dev, &format!("its tree could not be made ({errno})"));
    let alone = (vec![(Tree::DEFAULT, Weight::DEFAULT)], Tree::DEFAULT);
    let (leaves, rest) = match &options.share {
        Some(share) => share.leaves()?,
        None => alone,
    };
    let leaf = options.share.as_ref().map_or(Discipline::Fifo, |s| s.leaf);
    for (name, weight) in leaves {
        let node = running
            .mknod(name, Tree::ROOT, weight, leaf)?
            .map_err(failed)?;
        let queue = running.createq("", Weight::DEFAULT)?.map_err(failed)?;
        running.attachq(queue, node)?.map_err(failed)?;
        if name == rest {
            running.set_default(queue)?;
        }
    }
    running.set_rate(options.rate, options.overhead, options.least)?;
    running.set_codel(options.codel)
}

/// Sockets choose their queues by setsockopt, wherever their programs are.
fn attach_sockets(object: &mut Object, pins: &Pins) -> Result<()> {
    let fs = Hierarchy::discover()?;
    let root = std::fs::File::open(fs.mount()).map_err(|e| Error::io("opening", fs.mount(), e))?;
    let path = pins.path(pins::SOCKETS);
    let program = object
        .progs_mut()
        .find(|p| p.name() == "hsfq_link_setsockopt")
        .ok_or_else(|| Error::Load {
            why: "the embedded object has no hsfq_link_setsockopt".into(),
        })?;
    let mut link = program
        .attach_cgroup(std::os::fd::AsRawFd::as_raw_fd(&root))
        .map_err(|e| bpf::error("attaching", path.clone(), &e))?;
    link.pin(&path).map_err(|e| bpf::error("pinning", path, &e))
}

/// Takes the scheduler off the interface and puts back what was there. An interface
/// that has gone is known by the name it had.
pub fn down(dev: &str) -> Result<Ended> {
    let _lock = Lock::take()?;
    let netns = netns_cookie()?;
    let device = match netlink::device(dev) {
        Err(Error::NoDevice { .. }) => return clear_gone(netns, dev),
        other => other?,
    };
    let pins = Pins::new(netns, device.index);
    recover(&device, &pins)?;
    if !pins.exist() {
        return Err(Refusal::Down { dev: dev.into() }.into());
    }
    let Some(running) = pinned(&pins, dev)? else {
        pins.clear_all()?;
        return Ok(Ended::Leftovers);
    };
    let ours = installed(device.index, running.constants.major)?;
    let root = netlink::root_qdisc(device.index)?;
    let foreign = !ours && root.is_some_and(|q| !q.default);
    let before = Before::from_bytes(&running.before()?)?;
    if foreign {
        netlink::bound_gso_as(&before.device(&device))?;
    } else {
        if ours {
            netlink::delete_root(device.index)?;
        }
        before.restore(&device)?;
    }
    pins.clear_all()?;
    Ok(match ours {
        true => Ended::Running,
        false => Ended::Replaced,
    })
}

fn clear_gone(netns: u64, dev: &str) -> Result<Ended> {
    for pins in Pins::all()?.into_iter().filter(|pins| pins.netns == netns) {
        let named = Running::open(pins.clone(), dev).is_ok_and(|r| r.constants.device == dev);
        let device = netlink::device_by_index(pins.index);
        if named && matches!(device, Err(Error::NoDevice { .. })) {
            pins.clear_all()?;
            return Ok(Ended::Gone);
        }
    }
    Err(Error::NoDevice { name: dev.into() })
}

/// All links, by network namespace and number.
pub fn list() -> Result<Vec<Status>> {
    let all = Pins::all()?;
    Ok(all.iter().filter_map(|pins| status(pins).ok()).collect())
}

/// The pins of a link that is up, and its name.
pub(super) fn find(dev: &str) -> Result<(Pins, Device)> {
    let device = netlink::device(dev)?;
    let pins = Pins::new(netns_cookie()?, device.index);
    let path = pins.path(pins::LINK);
    match std::fs::symlink_metadata(&path) {
        Ok(_) => Ok((pins, device)),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(Refusal::Down { dev: dev.into() }.into()),
        Err(e) => Err(Error::io("opening", &path, e)),
    }
}

/// The interface of this network namespace whose queueing discipline has that major number.
pub(super) fn by_major(major: u16) -> Result<String> {
    let netns = netns_cookie()?;
    for pins in Pins::all()?.into_iter().filter(|p| p.netns == netns) {
        let index = pins.index;
        let found = match Running::open(pins, "") {
            Err(e @ Error::Privilege { .. }) => return Err(e),
            other => other.is_ok_and(|running| running.constants.major == major),
        };
        if found {
            return Ok(netlink::device_by_index(index)?.name);
        }
    }
    Err(Refusal::NoLink { major }.into())
}

fn status(pins: &Pins) -> Result<Status> {
    let running = Running::open(pins.clone(), "")?;
    let constants = &running.constants;
    let here = netns_cookie().is_ok_and(|cookie| cookie == pins.netns);
    // Of another version: its answers may be of another shape.
    let look = match constants.version {
        intf::VERSION => running.look().ok(),
        _ => None,
    };
    let exists = look.is_none_or(|l| l.state.qdisc != 0);
    let device = match netlink::device_by_index(pins.index) {
        _ if !here => None,
        Err(Error::NoDevice { .. }) => None,
        other => Some(other?),
    };
    let state = match (here, &device) {
        (true, None) => State::Gone,
        (false, _) if !exists => State::Gone,
        (true, _) if !installed(pins.index, constants.major)? => State::Replaced,
        _ => State::Up,
    };
    let mut counts = look.map(|l| l.elsewhere()).unwrap_or_default();
    let mut packets = 0;
    if look.is_some() {
        // Each queue is read in one piece.
        for queue in running.queues()? {
            counts += queue.counts;
            packets += queue.packets;
        }
    }
    Ok(Status {
        device: device.map_or_else(|| constants.device.clone(), |d| d.name),
        index: pins.index,
        here,
        state,
        since: pins.since().map(seconds),
        interface: constants.version,
        rate_bytes: look.map(|l: CtlLink| l.rate).filter(|rate| *rate > 0),
        trace: constants.trace,
        packets,
        counts,
    })
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}
