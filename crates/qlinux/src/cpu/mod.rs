// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU scheduler: start it, end it, look at it, ask it.

mod domains;
mod frequency;
mod object;
mod pins;
mod reason;
mod running;
mod speeds;

pub use frequency::Frequency;
pub use running::{Constants, Running, Tree};

use crate::cgroup::Hierarchy;
use crate::features::{Features, Lack, IDLE, IDLE_AT_START};
use crate::intf;
use crate::{bpf, check, ClassPath, Error, Lock, Result};
use domains::Domains;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, MapCore, MapType, ProgramType};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Folder of the kernel's own account of sched_ext.
const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// The name our scheduler gives itself.
const NAME: &str = "hsfq";
/// The kernel takes its time to hand every thread back.
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs that answer user space, pinned under their own names.
const PROGRAMS: [&str; 4] = [
    "hsfq_ctl_class",
    "hsfq_ctl_policy",
    "hsfq_ctl_thread",
    "hsfq_ctl_tree",
];

/// How to start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Size of the trace in bytes; it is rounded up to a power of two.
    pub trace_bytes: Option<u64>,
    /// End the H-SFQ that runs, if one does, and start this one.
    pub replace: bool,
    /// Blocked threads keep their weight to themselves.
    pub no_lending: bool,
    /// For tests: so often the tree's lock is not to be had, once.
    pub fail_lock: Option<Duration>,
    /// Idle processors of such a list as `0-3,8` are preferred; `None`: those that are faster than
    /// others by design, if some are.
    pub fast_cpus: Option<String>,
    /// How fast processors run.
    pub frequency: Frequency,
    /// So many domains of processors, each with a tree and a lock of its own; `None`: as this
    /// machine's caches suggest.
    pub domains: Option<u32>,
}

/// Whether the scheduler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Not started, or ended by command.
    Down,
    /// It schedules.
    Up,
    /// It was started and the kernel ended it.
    Ejected,
}

/// Why and when the kernel ended it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Ending {
    /// The kernel's name for the cause.
    pub reason: String,
    /// The particulars; may be empty.
    pub message: String,
    /// `enum scx_exit_kind`.
    pub kind: u64,
    /// When, in seconds of the Unix epoch.
    pub at: Option<f64>,
}

/// What the scheduler counted since it was started.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Totals {
    /// Services charged.
    pub quanta: u64,
    /// Running threads ended early for a waiting class.
    pub preemptions: u64,
    /// Quanta ended by the timer, between two ticks.
    pub timer_ends: u64,
    /// Choices of a leaf with nothing for that processor.
    pub passed_over: u64,
    /// Threads served out of turn because they waited too long.
    pub rescued: u64,
    /// Cgroups without a node of their own: tree full or too deep.
    pub shared_cgroups: u64,
    /// Trace records that found the buffer full.
    pub trace_lost: u64,
    /// Times that the tree's lock was not to be had, and a thread was served in order of arrival.
    pub lock_failures: u64,
    /// Threads moved to another domain, so that each class gets its share of all processors.
    pub moved: u64,
}

/// Loans of weight, to threads that hold what others wait for.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Lending {
    /// A thread was blocked, and its weight lent to who blocked it.
    pub loans: u64,
    /// It was given back.
    pub returned: u64,
    /// Of the loans, to a thread that was blocked itself and lent them on.
    pub chained: u64,
    /// Times that a thread was served in another class, that of a lender.
    pub guests: u64,
}

/// Everything `qlinux status` tells of the CPU.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Status {
    /// Whether it runs.
    pub state: State,
    /// When it was started, in seconds of the Unix epoch.
    pub since: Option<f64>,
    /// Interface version of the one that was started.
    pub interface: Option<u32>,
    /// It writes a trace.
    pub trace: bool,
    /// Domains of processors, each with a tree of its own.
    pub domains: Option<u32>,
    /// How it ended, unless it runs or was ended by command.
    pub ended: Option<Ending>,
    /// What it counted.
    pub totals: Option<Totals>,
    /// Loans of weight; `None`: no weight is lent.
    pub lending: Option<Lending>,
    /// Name of another sched_ext scheduler that runs.
    pub other: Option<String>,
    /// What an interrupted command left behind, cleared by the next `up` or `down`.
    pub leftovers: bool,
    /// What the kernel lacks of what it uses, while it runs.
    pub lacking: Option<Vec<Lack>>,
    /// Its programs, while it runs and to those who may ask the kernel for them.
    pub programs: Vec<Program>,
}

/// One BPF program of the scheduler.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Program {
    /// Its name in the kernel.
    pub name: String,
    /// Instructions the verifier walked through to accept it.
    pub verified_instructions: u32,
}

/// What [`down`] found.
#[derive(Debug)]
pub enum Ended {
    /// It ran and was ended.
    Running,
    /// The kernel had ended it before.
    Ejected(Ending),
    /// Only remains of an interrupted command.
    Leftovers,
}

/// Starts the scheduler. It stays when this process ends. Returns how an
/// earlier one had ended, if the kernel ended it.
pub fn up(options: &Options) -> Result<Option<Ending>> {
    require_sched_ext()?;
    let _lock = Lock::take()?;
    check::before_cpu()?;
    let settings = settings(options)?;
    let earlier = make_room(options.replace)?;
    pins::make_folder()?;
    let result = start(&settings);
    if result.is_err() {
        // Nothing was running before, nothing remains.
        let _ = pins::clear();
    }
    result.map(|()| {
        tell_idle();
        earlier
    })
}

/// Kernels before 7.3 do not say which classes are idle when a scheduler starts, but do when
/// `cpu.idle` is written.
fn tell_idle() {
    let lacking = Features::here().lacking();
    let lacks = |name| lacking.iter().any(|lack| lack.name == name);
    if !lacks(IDLE_AT_START) || lacks(IDLE) {
        return;
    }
    if let Ok(fs) = Hierarchy::discover() {
        for path in fs.walk(&ClassPath::root()) {
            if fs.idle(&path) == Some(true) {
                // One that vanishes meanwhile needs nothing.
                let _ = fs.set_idle(&path, true);
            }
        }
    }
}

/// Ends the scheduler; every thread returns to the stock one.
pub fn down() -> Result<Ended> {
    let _lock = Lock::take()?;
    let was = if pins::exist()? {
        Some(Running::open_any()?)
    } else {
        None
    };
    let ending = was.as_ref().and_then(Running::ending);
    match (was, ending) {
        (Some(running), ending) => {
            running.detach()?;
            drop(running);
            pins::clear()?;
            wait_until_gone()?;
            Ok(ending
                .filter(|e| !orderly(e.kind))
                .map_or(Ended::Running, Ended::Ejected))
        }
        (None, _) if pins::clear()? => Ok(Ended::Leftovers),
        (None, _) => Err(Error::NotLoaded),
    }
}

/// How things stand. Without privilege only what the kernel tells everybody.
pub fn status() -> Result<Status> {
    let mut status = Status {
        state: State::Down,
        since: None,
        interface: None,
        trace: false,
        domains: None,
        ended: None,
        totals: None,
        lending: None,
        other: other_scheduler(),
        leftovers: false,
        lacking: None,
        programs: Vec::new(),
    };
    if !pins::exist()? {
        status.leftovers = pins::path(pins::BSS).exists();
        return Ok(status);
    }
    let running = Running::open_any()?;
    let ending = running.ending();
    status.state = match &ending {
        None => State::Up,
        Some(e) if orderly(e.kind) => State::Down,
        Some(_) => State::Ejected,
    };
    status.leftovers = status.state == State::Down;
    status.other = status
        .other
        .filter(|name| status.state != State::Up || name != NAME);
    if status.state == State::Up {
        status.programs = programs();
        let mut lacking = Features::here().lacking();
        lacking.retain(|lack| lack.resource == check::Resource::Cpu);
        status.lacking = Some(lacking);
    }
    if status.state != State::Down {
        let constants = running.constants();
        status.since = pins::since().map(seconds);
        status.interface = constants.as_ref().map(|c| c.version);
        status.domains = constants.as_ref().map(|c| c.domains);
        status.trace = constants.is_some_and(|c| c.trace);
        status.totals = running.totals();
        status.lending = running.lending();
        status.ended = ending;
    }
    Ok(status)
}

/// The callbacks of the scheduler that runs: only one may, so names suffice.
fn programs() -> Vec<Program> {
    let mut programs: Vec<Program> = ProgInfoIter::default()
        .filter(|p| p.ty == ProgramType::StructOps)
        .map(|p| Program {
            name: p.name.to_string_lossy().into_owned(),
            verified_instructions: p.verified_insns,
        })
        .filter(|p| p.name.starts_with("op_"))
        .collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

/// Refuses a kernel without sched_ext.
pub fn require_sched_ext() -> Result<()> {
    if Path::new(SCHED_EXT).is_dir() {
        return Ok(());
    }
    check::before_cpu()
}

/// Name of the sched_ext scheduler that the kernel runs now.
pub(crate) fn other_scheduler() -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(Path::new(SCHED_EXT).join(name)).ok();
    if read("state")?.trim() == "disabled" {
        return None;
    }
    // "name" or "name_version"
    Some(read("root/ops").map_or_else(|| "?".into(), |ops| ops.trim().to_string()))
}

/// Ended by command, not by a fault: unregistered from user space.
fn orderly(kind: u64) -> bool {
    const SCX_EXIT_DONE: u64 = 1;
    const SCX_EXIT_UNREG: u64 = 64;
    kind == SCX_EXIT_DONE || kind == SCX_EXIT_UNREG
}

fn settings(options: &Options) -> Result<object::Settings> {
    const PAGE: u64 = 4096;
    const LARGEST: u64 = 1 << 30;
    let trace_bytes = match options.trace_bytes {
        Some(bytes) if !(1..=LARGEST).contains(&bytes) => {
            return Err(Error::Usage(format!(
                "trace size {bytes} is out of range: give 4K to 1G"
            )));
        }
        other => other.map(|bytes| bytes.max(PAGE).next_power_of_two() as u32),
    };
    let cpus = libbpf_rs::num_possible_cpus().map_err(|e| Error::Load {
        why: format!("{e:#}"),
    })?;
    Ok(object::Settings {
        cpus: cpus as u32,
        preempt_rt: check::preempt_rt(),
        trace_bytes,
        lending: !options.no_lending,
        fail_lock: options.fail_lock.unwrap_or_default(),
        by_load: options.frequency.by_load(),
        fast: fast(cpus, options.fast_cpus.as_deref())?,
        domains: domains(cpus, options.domains)?,
    })
}

/// A kernel that chooses an idle processor among all only cannot prefer some.
fn fast(cpus: usize, wanted: Option<&str>) -> Result<Vec<u8>> {
    let fast = speeds::fast(cpus, wanted)?;
    match (Features::here().chooses_among(), wanted) {
        (true, _) => Ok(fast),
        (false, None) => Ok(Vec::new()),
        (false, Some(_)) => Err(Error::Usage(
            "this kernel cannot prefer processors: that needs scx_bpf_select_cpu_and() \
             (Linux 6.16); leave out --fast-cpus"
                .into(),
        )),
    }
}

/// A kernel without such locks, or without timers for the ledger, has one.
fn domains(cpus: usize, wanted: Option<u32>) -> Result<Domains> {
    if check::preempt_rt() || !Features::here().locks_give_up() {
        return match wanted {
            None | Some(1) => Ok(Domains::one(cpus)),
            Some(_) => Err(Error::Usage(
                "this kernel can have one domain only: several need bpf_res_spin_lock() (Linux 6.15) \
                 and BPF timers (not PREEMPT_RT); leave out --domains"
                    .into(),
            )),
        };
    }
    Domains::of_here(cpus, wanted)
}

/// Ends or refuses what runs, and clears what an interrupted command left.
fn make_room(replace: bool) -> Result<Option<Ending>> {
    let mut earlier = None;
    if pins::exist()? {
        let running = Running::open_any()?;
        earlier = running.ending();
        if earlier.is_none() && !replace {
            return Err(Error::AlreadyUp);
        }
        running.detach()?;
        drop(running);
        pins::clear()?;
        wait_until_gone()?;
    } else {
        pins::clear()?;
    }
    if let Some(name) = other_scheduler() {
        // One of ours without pins is on its way out: its command was killed.
        if name != NAME || wait_until_gone().is_err() {
            return Err(Error::OtherScheduler { name });
        }
    }
    Ok(earlier.filter(|e| !orderly(e.kind)))
}

fn start(settings: &object::Settings) -> Result<()> {
    let mut object = load(settings)?;
    let pinned = |path: &Path, e: libbpf_rs::Error| Error::Bpf {
        doing: "pinning",
        path: path.to_path_buf(),
        why: format!("{e:#}"),
    };
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let pin = match name.as_str() {
            "cgroups" => pins::CGROUPS,
            "hsfq_trace" => pins::TRACE,
            "timers" => pins::TIMERS,
            "rescue_timer" => pins::RESCUE_TIMER,
            "limit_timer" => pins::LIMIT_TIMER,
            "ledger_timer" => pins::LEDGER_TIMER,
            _ if name.ends_with(".bss") => pins::BSS,
            _ if name.ends_with(".rodata") => pins::RODATA,
            _ => continue,
        };
        let path = pins::path(pin);
        map.pin(&path).map_err(|e| pinned(&path, e))?;
    }
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if PROGRAMS.contains(&name.as_str()) {
            let path = pins::path(&name);
            program.pin(&path).map_err(|e| pinned(&path, e))?;
        }
    }
    watch(&mut object)?;
    let mut link = attach(&mut object)?;
    let path = pins::path(pins::LINK);
    link.pin(&path).map_err(|e| pinned(&path, e))
}

/// A kernel in which nobody can be watched waiting schedules without loans.
fn load(settings: &object::Settings) -> Result<libbpf_rs::Object> {
    let without = object::Settings {
        lending: false,
        fast: settings.fast.clone(),
        domains: settings.domains.clone(),
        ..*settings
    };
    let first = object::load(settings);
    let words = bpf::words();
    let loaded = first.or_else(|e| match settings.lending {
        true => object::load(&without).map_err(|_| e),
        false => Err(e),
    });
    loaded.map_err(|e| reason::of_load(e, &words))
}

/// Watches who waits for whom. The pins of these links go with the others.
fn watch(object: &mut libbpf_rs::Object) -> Result<()> {
    for program in object.progs_mut() {
        if !object::lends(program.name()) || !program.autoload() {
            continue;
        }
        let path = pins::path(&program.name().to_string_lossy());
        let refuse = |e: libbpf_rs::Error| Error::Bpf {
            doing: "pinning",
            path: path.clone(),
            why: format!("{e:#}"),
        };
        let mut link = program.attach().map_err(refuse)?;
        link.pin(&path).map_err(refuse)?;
    }
    Ok(())
}

/// The kernel reports some faults of the start only through ops.exit.
fn attach(object: &mut libbpf_rs::Object) -> Result<Link> {
    let attached = object
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps && map.name() == object::OPS)
        .ok_or_else(|| Error::Load {
            why: format!("the embedded object has no {}", object::OPS),
        })?
        .attach_struct_ops();
    let ending = object::end_of(object)
        .filter(|end| end.kind != 0)
        .map(|end| Running::describe(&end));
    match (attached, ending) {
        (Ok(link), None) => Ok(link),
        (_, Some(end)) => Err(Error::Attach {
            why: reason::of_start(format!("{} {}", end.reason, end.message).trim()),
        }),
        (Err(e), None) => match other_scheduler() {
            Some(name) => Err(Error::OtherScheduler { name }),
            None => Err(Error::Attach {
                why: reason::of_start(&format!("{e:#}")),
            }),
        },
    }
}

fn wait_until_gone() -> Result<()> {
    let started = Instant::now();
    while other_scheduler().is_some_and(|name| name == NAME) {
        if started.elapsed() > PATIENCE {
            return Err(Error::Attach {
                why: "the one before it does not end".into(),
            });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

impl From<intf::Lending> for Lending {
    fn from(l: intf::Lending) -> Lending {
        Lending {
            loans: l.loans,
            returned: l.returned,
            chained: l.chained,
            guests: l.guests,
        }
    }
}

impl From<intf::Totals> for Totals {
    fn from(t: intf::Totals) -> Totals {
        Totals {
            quanta: t.quanta,
            preemptions: t.preemptions,
            timer_ends: t.timer_ends,
            passed_over: t.passed_over,
            rescued: t.rescued,
            shared_cgroups: t.shared_cgroups,
            trace_lost: t.trace_lost,
            lock_failures: t.lock_failures,
            moved: t.moved,
        }
    }
}
