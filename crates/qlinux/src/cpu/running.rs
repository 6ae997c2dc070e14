// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler that was started, through its pins.

use super::{orderly, pins, seconds, Ending, Lending, Totals};
use crate::bpf::{self, read_global, variables, Offsets};
use crate::intf::{
    self, CgroupNodes, ClassRecord, CtlClass, CtlPolicy, CtlThread, CtlTree, End, Plain,
};
use crate::reserve::Param;
use crate::{Error, Leaf, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Program};
use nix::errno::Errno;
use std::cell::OnceCell;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

/// What was set when it was loaded.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// Interface version.
    pub version: u32,
    /// It writes a trace.
    pub trace: bool,
    /// Blocked threads lend their weight.
    pub lending: bool,
    /// Domains of processors, each with a tree of its own.
    pub domains: u32,
}

/// A scheduler with pins: running, or ended by the kernel.
pub struct Running {
    link: Link,
    /// Its global variables, held: once its pins are gone they still tell how it ended.
    bss: Option<MapHandle>,
    rodata: Option<MapHandle>,
    layout: OnceCell<Layout>,
}

/// What [`Running::tree`] found.
#[derive(Default)]
pub struct Tree {
    /// When each was looked at, in ns of CLOCK_MONOTONIC, and what it was like.
    pub leaves: Vec<(u64, ClassRecord)>,
    /// Leaf of the calling thread, 0 if it is not scheduled by H-SFQ.
    pub caller: u32,
}

/// Where the global variables are, by the account that the loaded object
/// itself carries: it may be of another version than this library.
#[derive(Default)]
struct Layout {
    bss: Offsets,
    rodata: Offsets,
}

fn bpf_error(doing: &'static str, name: &str, error: &libbpf_rs::Error) -> Error {
    bpf::error(doing, pins::path(name), error)
}

impl Running {
    /// The one that runs; refuses when none does or its interface is another.
    pub fn open() -> Result<Running> {
        if !pins::exist()? {
            super::require_sched_ext()?;
            return Err(Error::NotLoaded);
        }
        let running = Running::open_any()?;
        match running.ending() {
            Some(e) if orderly(e.kind) => return Err(Error::NotLoaded),
            Some(e) => return Err(Error::Ended { reason: e.reason }),
            None => {}
        }
        let found = running.constants().map_or(0, |c| c.version);
        if found != intf::VERSION {
            return Err(Error::Version {
                found,
                ours: intf::VERSION,
            });
        }
        Ok(running)
    }

    /// What the kernel does not tell it of, or has no function for.
    pub fn lacking(&self) -> Vec<crate::features::Lack> {
        crate::features::Features::here().lacking()
    }

    /// The one that has pins, whatever became of it.
    pub(super) fn open_any() -> Result<Running> {
        let path = pins::path(pins::LINK);
        match Link::open(path) {
            Ok(link) => Ok(Running {
                link,
                bss: open_map(pins::BSS).ok(),
                rodata: open_map(pins::RODATA).ok(),
                layout: OnceCell::new(),
            }),
            Err(e) if e.kind() == libbpf_rs::ErrorKind::NotFound => Err(Error::NotLoaded),
            Err(e) => Err(bpf_error("opening", pins::LINK, &e)),
        }
    }

    /// Ends it, if it runs.
    pub(super) fn detach(&self) -> Result<()> {
        self.link
            .detach()
            .map_err(|e| bpf_error("detaching", pins::LINK, &e))
    }

    /// How it ended; `None` while it runs.
    pub fn ending(&self) -> Option<Ending> {
        let end: End = self.variable("hsfq_end")?;
        (end.kind != 0).then(|| Running::describe(&end))
    }

    pub(super) fn describe(end: &End) -> Ending {
        let text = |bytes: &[u8]| {
            let length = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..length]).trim().to_string()
        };
        let now = nix::time::ClockId::CLOCK_BOOTTIME
            .now()
            .map(Duration::from)
            .ok();
        let ago = now.map(|now| now.saturating_sub(Duration::from_nanos(end.time_ns)));
        Ending {
            reason: text(&end.reason),
            message: text(&end.message),
            kind: end.kind,
            at: ago
                .and_then(|ago| SystemTime::now().checked_sub(ago))
                .map(seconds),
        }
    }

    /// What it counted.
    pub fn totals(&self) -> Option<Totals> {
        self.variable::<intf::Totals>("hsfq_totals")
            .map(Totals::from)
    }

    /// The loans it counted; `None` while no weight is lent.
    pub fn lending(&self) -> Option<Lending> {
        self.constants().filter(|c| c.lending)?;
        self.variable::<intf::Lending>("hsfq_lending")
            .map(Lending::from)
    }

    /// What was set when it was loaded.
    pub fn constants(&self) -> Option<Constants> {
        let version = self.constant::<U32>("intf_version")?.0;
        let trace = self.constant::<U8>("trace_on")?.0 != 0;
        let lending = self
            .constant::<U8>("lending_on")
            .is_some_and(|on| on.0 != 0);
        // The form for a single processor does not say.
        let domains = self.constant::<U32>("nr_domains").map_or(1, |n| n.0);
        Some(Constants {
            version,
            trace,
            lending,
            domains,
        })
    }

    /// What the scheduler knows of the cgroup with this id; `None`: it has no node.
    pub fn class(&self, cgroup_id: u64) -> Result<Option<CtlClass>> {
        let mut class = CtlClass {
            cgroup_id,
            ..CtlClass::zeroed()
        };
        match call("hsfq_ctl_class", &mut class)? {
            Ok(()) => Ok(Some(class)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(refused(
                "hsfq_ctl_class",
                format!("cgroup {cgroup_id}"),
                errno,
            )),
        }
    }

    /// The whole tree, leaf by leaf, in the order of their indices.
    pub fn tree(&self) -> Result<Tree> {
        let mut tree = Tree::default();
        let mut part = CtlTree::zeroed();
        loop {
            call("hsfq_ctl_tree", &mut part)?
                .map_err(|errno| refused("hsfq_ctl_tree", "the tree".into(), errno))?;
            if part.count == 1 {
                tree.leaves.push((part.time_ns, part.record));
            }
            tree.caller = part.caller;
            if part.from == 0 {
                return Ok(tree);
            }
        }
    }

    /// Changes the leaf scheduler of a cgroup's own threads.
    pub fn set_leaf(&self, cgroup_id: u64, leaf: Leaf) -> Result<()> {
        let mut policy = CtlPolicy {
            cgroup_id,
            policy: leaf.number(),
            pad: 0,
        };
        call("hsfq_ctl_policy", &mut policy)?
            .map_err(|errno| refused("hsfq_ctl_policy", format!("cgroup {cgroup_id}"), errno))
    }

    /// A thread's place and weight; `set` changes it first (0: no).
    pub fn thread(&self, tid: i32, set: u32) -> Result<CtlThread> {
        let mut thread = CtlThread {
            tid,
            set_weight: set,
            ..CtlThread::zeroed()
        };
        match call("hsfq_ctl_thread", &mut thread)? {
            Ok(()) => Ok(thread),
            Err(Errno::ESRCH) => Err(Error::NoThread { tid }),
            Err(errno) => Err(refused("hsfq_ctl_thread", format!("thread {tid}"), errno)),
        }
    }

    /// Changes what a thread is promised.
    pub fn set_param(&self, tid: i32, param: &Param) -> Result<CtlThread> {
        let mut thread = CtlThread {
            tid,
            ..CtlThread::zeroed()
        };
        match param {
            Param::Reservation(reservation) => {
                thread.set = intf::SET_RESERVATION;
                if let Some(r) = reservation {
                    thread.cost_ns = r.cost_ns;
                    thread.period_ns = r.period_ns;
                    thread.deadline_ns = r.deadline_ns;
                }
            }
            Param::Priority(priority) => {
                thread.set = intf::SET_CLASS;
                (thread.class, thread.priority) = priority.numbers();
            }
        }
        match call("hsfq_ctl_thread", &mut thread)? {
            Ok(()) => Ok(thread),
            Err(Errno::ESRCH) => Err(Error::NoThread { tid }),
            Err(errno) => Err(refused("hsfq_ctl_thread", format!("thread {tid}"), errno)),
        }
    }

    /// Cgroup ids and their nodes in the tree.
    pub fn nodes(&self) -> Result<Vec<(u64, CgroupNodes)>> {
        let map = open_map(pins::CGROUPS)?;
        let entry = |key: Vec<u8>| {
            let value = map.lookup(&key, MapFlags::ANY).ok()??;
            Some((
                u64::from_ne_bytes(key.try_into().ok()?),
                CgroupNodes::from_bytes(&value)?,
            ))
        };
        Ok(map.keys().filter_map(entry).collect())
    }

    /// Its ring buffer of trace records.
    pub(crate) fn trace_map(&self) -> Result<MapHandle> {
        open_map(pins::TRACE)
    }

    fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| {
            let load = || {
                let fd = bpf::open_program(&pins::path("hsfq_ctl_class")).ok()?;
                let btf = Btf::from_prog_id(Program::id_from_fd(fd.as_fd()).ok()?).ok()?;
                Some(Layout {
                    bss: variables(&btf, ".bss"),
                    rodata: variables(&btf, ".rodata"),
                })
            };
            load().unwrap_or_default()
        })
    }

    fn variable<T: Plain>(&self, name: &str) -> Option<T> {
        read_global(self.bss.as_ref()?, &self.layout().bss, name)
    }

    fn constant<T: Plain>(&self, name: &str) -> Option<T> {
        read_global(self.rodata.as_ref()?, &self.layout().rodata, name)
    }
}

fn open_map(name: &str) -> Result<MapHandle> {
    bpf::open_map(&pins::path(name))
}

/// Runs a "syscall" program on its context, which it fills in.
fn call<T: Plain>(name: &'static str, context: &mut T) -> Result<std::result::Result<(), Errno>> {
    bpf::call(&pins::path(name), context)
}

fn refused(program: &'static str, object: String, errno: Errno) -> Error {
    Error::Ctl {
        program,
        object,
        errno,
    }
}

#[derive(Clone, Copy)]
#[repr(transparent)]
struct U32(u32);
#[derive(Clone, Copy)]
#[repr(transparent)]
struct U8(u8);
// SAFETY: integers.
unsafe impl Plain for U32 {}
// SAFETY: integers.
unsafe impl Plain for U8 {}
