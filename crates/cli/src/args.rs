// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of the command. From here come parser, help, man pages and
//! completions.

use crate::disk::args::{Disk, UpDisk, UP_HELP as UP_DISK_HELP};
use crate::link::args::{Link, UpLink, UP_HELP};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use qlinux::class::{Settings, ThreadWeight};
use qlinux::link::QueueName;
use qlinux::reserve::{Priority, Reservation};
use qlinux::{Burst, ClassPath, Leaf, Max, Weight};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Parser)]
#[command(
    name = "qlinux",
    version,
    about = "Hierarchical, weighted, predictable sharing of CPU, network links and disks among classes of programs",
    long_about = "Divides the CPU among classes of ordinary programs by hierarchical start-time fair queueing (H-SFQ), on a \
                  stock kernel.\n\nA class is a cgroup: PATH /a/b is /sys/fs/cgroup/a/b, its weight is cpu.weight, and whatever \
                  else makes cgroups or changes weights (systemd, containers) makes and changes classes. The scheduler stays in \
                  the kernel; no process of qlinux does.",
    after_help = EXAMPLES,
    after_long_help = EXAMPLES,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Print JSON instead of text, errors too
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  qlinux check                                  does this kernel do?
  qlinux up cpu                                 H-SFQ schedules from now on
  qlinux run /film --weight 400 -- mpv a.mkv    a film that four times the rest cannot disturb
  qlinux run /compile --weight 50 -- make -j8
  qlinux link share eth0 web=3 video=5 rest=2 --rate 20mbit
  qlinux run --link eth0:/video -- ffmpeg -re -i a.mpg -f mpegts udp://10.0.0.9:5000
  qlinux up disk sda && qlinux disk run throughput -- tar cf /mnt/b.tar /home
  qlinux top                                    who is entitled to what, and gets what
  qlinux down cpu                               back to the stock scheduler

Exit status: 0 done, 1 refused by the system, 2 wrong usage.";

#[derive(Subcommand)]
pub enum Command {
    /// Tell what this kernel offers, and what to do about the rest
    #[command(
        after_help = CHECK_HELP
    )]
    Check,
    /// Start scheduling a resource
    #[command(subcommand)]
    Up(Up),
    /// Give a resource back to the stock scheduler
    #[command(subcommand)]
    Down(Down),
    /// Tell what runs, since when, and how it ended if the kernel ended it
    #[command(after_help = "Examples:\n  qlinux status\n  qlinux status --json | jq .cpu.state")]
    Status,
    /// Create, change, delete and show classes; move processes among them
    #[command(subcommand)]
    Class(Class),
    /// Divide network interfaces among classes of traffic
    #[command(subcommand)]
    Link(Link),
    /// Divide disks among interactive, throughput and real-time requests
    #[command(subcommand)]
    Disk(Disk),
    /// Run a command in a class, which is created if it is missing
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Promise a thread service before its deadlines, if the share of its class suffices
    #[command(after_help = RESERVE_HELP)]
    Reserve(Reserve),
    /// Watch what every class is entitled to, receives and waits for
    #[command(after_help = TOP_HELP)]
    Top(Top),
    /// Write the scheduler's trace as CSV
    #[command(after_help = TRACE_HELP)]
    Trace(Trace),
    /// Reproduce the papers' experiments, with figures
    #[command(subcommand, after_help = LAB_EXAMPLES)]
    Lab(qlinux_lab::cli::LabCommand),
    /// Write man pages or completions
    #[command(subcommand, hide = true)]
    Generate(Generate),
}

#[derive(Subcommand)]
pub enum Up {
    /// Schedule the CPU by H-SFQ until `down cpu`, the next boot, or a fault
    #[command(
        after_help = "Examples:\n  qlinux up cpu\n  qlinux up cpu --trace 16M      with a trace for `qlinux trace`\n  \
                            qlinux up cpu --replace        after an upgrade"
    )]
    Cpu(UpCpu),
    /// Schedule the packets of a network interface by H-SFQ until `down link` or the next boot
    #[command(after_help = UP_HELP)]
    Link(UpLink),
    /// Schedule the requests of a disk by Cello until `down disk` or the next boot
    #[command(after_help = UP_DISK_HELP)]
    Disk(UpDisk),
}

#[derive(Args)]
pub struct UpCpu {
    /// Keep a trace of every quantum in a buffer of this size, e.g. 16M (4K to 1G)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub trace: Option<u64>,
    /// End the H-SFQ that runs and start this program's
    #[arg(long)]
    pub replace: bool,
    /// Blocked threads do not lend their weight to those that block them
    #[arg(long)]
    pub no_lending: bool,
    /// Divide the processors into so many domains, each with a tree and a lock of its own, instead
    /// of as their caches suggest: one for up to 16 processors, and one for each last-level cache
    /// beyond
    #[arg(long, value_name = "N")]
    pub domains: Option<u32>,
    /// Prefer idle processors of this list, e.g. 0-3,8, instead of those that the machine says are
    /// faster than others by design
    #[arg(long, value_name = "LIST")]
    pub fast_cpus: Option<String>,
    /// How fast processors run where the kernel's schedutil sets their frequency
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub frequency: Frequency,
    /// For tests: the tree's lock is not to be had once in so many seconds
    #[arg(long, hide = true, value_name = "S", value_parser = seconds)]
    pub fail_lock: Option<std::time::Duration>,
    /// Print the words of the BPF loader and the verifier
    #[arg(long)]
    pub verbose: bool,
}

/// How fast processors run.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Frequency {
    /// By load where schedutil can be chosen, as under the stock scheduler
    #[default]
    Auto,
    /// As fast as what they are used for asks
    Load,
    /// As fast as they can while they have something to do
    Full,
}

impl From<Frequency> for qlinux::cpu::Frequency {
    fn from(how: Frequency) -> Self {
        match how {
            Frequency::Auto => Self::Auto,
            Frequency::Load => Self::Load,
            Frequency::Full => Self::Full,
        }
    }
}

#[derive(Subcommand)]
pub enum Down {
    /// End H-SFQ; every thread goes back to the stock scheduler, classes stay as cgroups
    #[command(after_help = "Example:\n  qlinux down cpu")]
    Cpu,
    /// Take H-SFQ off a network interface and put back what was there before
    #[command(after_help = "Example:\n  qlinux down link eth0")]
    Link {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
    },
    /// Take Cello off a disk and put back the scheduler of before
    #[command(after_help = "Example:\n  qlinux down disk sda")]
    Disk {
        /// Disk, as `lsblk` lists them
        #[arg(value_name = "DEV")]
        device: String,
    },
}

#[derive(Subcommand)]
pub enum Class {
    /// Create a class
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// Delete classes that have neither children nor processes
    #[command(after_help = "Example:\n  qlinux class del /best-effort/user1 /best-effort")]
    Del {
        /// Class, as in /best-effort/user1
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<ClassPath>,
    },
    /// Change a class, or one thread in it
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
    /// Show a class and all below it
    #[command(after_help = SHOW_HELP)]
    Show(Show),
    /// Move processes, or single threads, to a class
    #[command(after_help = MOVE_HELP)]
    Move(Move),
    /// Move the calling shell to a class
    #[command(
        after_help = "Example:\n  qlinux class join /film      this shell, and what it starts from now on"
    )]
    Join {
        /// Class, as in /best-effort/user1
        path: ClassPath,
    },
}

#[derive(Args, Clone, Copy)]
pub struct Properties {
    /// Weight among the class's siblings: 1 to 10000 [default: 100]
    #[arg(short, long, value_name = "W", allow_negative_numbers = true)]
    pub weight: Option<Weight>,
    /// Scheduler of the class's own threads [default: ts]
    #[arg(short, long, value_name = "NAME", long_help = leaf_help())]
    pub leaf: Option<Leaf>,
    #[command(flatten)]
    pub limits: Limits,
}

impl Properties {
    pub fn settings(&self) -> Settings {
        Settings {
            weight: self.weight,
            leaf: self.leaf,
            max: self.limits.max,
            burst: self.limits.burst,
            idle: self.limits.idle,
        }
    }
}

#[derive(Args, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// The most the class may have: 20%, 150% (of one CPU), 20ms/100ms, or none; takes kernel 6.17
    #[arg(long, value_name = "MAX", allow_negative_numbers = true)]
    pub max: Option<Max>,
    /// Unused quota of earlier periods that it may keep, e.g. 10ms
    #[arg(long, value_name = "TIME")]
    pub burst: Option<Burst>,
    /// Whether the class gets only what its siblings leave; takes kernel 6.19
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    pub idle: Option<bool>,
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".into()),
    }
}

#[derive(Args)]
pub struct Add {
    /// Class, as in /best-effort/user1
    pub path: ClassPath,
    #[command(flatten)]
    pub properties: Properties,
    /// Create missing parents too
    #[arg(short, long)]
    pub parents: bool,
    /// The class takes single threads of the processes of the class above it
    #[arg(long)]
    pub threaded: bool,
}

#[derive(Args)]
pub struct Set {
    /// Class, as in /best-effort/user1
    pub path: ClassPath,
    /// Weight of the class, or of the thread: 1 to 10000; for a thread also `nice`
    #[arg(short, long, value_name = "W", allow_negative_numbers = true)]
    pub weight: Option<ThreadWeight>,
    /// Scheduler of the class's own threads
    #[arg(short, long, value_name = "NAME", long_help = leaf_help(), conflicts_with = "thread")]
    pub leaf: Option<Leaf>,
    #[command(flatten)]
    pub limits: Limits,
    /// Change the weight, or the priority, of this thread of the class instead
    #[arg(short, long, value_name = "TID")]
    pub thread: Option<i32>,
    /// Scheduling class of the thread where the class is scheduled by svr4: ts, ia, or rt:0 to rt:59
    #[arg(
        short,
        long,
        value_name = "P",
        requires = "thread",
        conflicts_with = "weight"
    )]
    pub priority: Option<Priority>,
}

#[derive(Args)]
pub struct Show {
    /// Class, as in /best-effort/user1
    #[arg(default_value = "/")]
    pub path: ClassPath,
    /// Show also what every class receives in the next S seconds
    #[arg(short, long, value_name = "S", value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Show also every class's own threads, with what they are promised
    #[arg(short, long)]
    pub threads: bool,
}

#[derive(Args)]
pub struct Move {
    /// Class, as in /best-effort/user1
    pub path: ClassPath,
    /// Processes
    #[arg(value_name = "PID", required_unless_present = "threads")]
    pub processes: Vec<i32>,
    /// Move these single threads
    #[arg(short, long = "thread", value_name = "TID", num_args = 1..)]
    pub threads: Vec<i32>,
}

#[derive(Args)]
pub struct Run {
    /// Class, as in /best-effort/user1
    #[arg(required_unless_present = "link")]
    pub path: Option<ClassPath>,
    /// Send its traffic to this queue: an interface, and a class or queue of it
    #[arg(long, value_name = "DEV:PATH", value_parser = device_and_queue)]
    pub link: Vec<(String, QueueName)>,
    #[command(flatten)]
    pub properties: Properties,
    /// Reserve C/T or C/T/D for the command's first thread; a new class is scheduled by edf then
    #[arg(long, value_name = "C/T[/D]")]
    pub reserve: Option<Reservation>,
    /// Reserve it even where deadlines may be missed
    #[arg(long, requires = "reserve")]
    pub force: bool,
    /// Wait for the command and delete the class afterwards, if this command created it
    #[arg(long)]
    pub rm: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

fn device_and_queue(text: &str) -> Result<(String, QueueName), String> {
    let (device, queue) = text
        .split_once(':')
        .ok_or("write an interface and a class of it, like eth0:/video")?;
    let queue = queue.parse::<QueueName>().map_err(|e| e.to_string())?;
    Ok((device.into(), queue))
}

#[derive(Args)]
pub struct Reserve {
    /// The thread, or a process, which stands for its first thread
    #[arg(value_name = "TID")]
    pub thread: i32,
    /// Service C in every T, within D of asking for it: C/T or C/T/D, like 5ms/30ms
    #[arg(value_name = "C/T[/D]", required_unless_present = "remove")]
    pub reservation: Option<Reservation>,
    /// Take the reservation away
    #[arg(long, conflicts_with_all = ["reservation", "dry_run", "force"])]
    pub remove: bool,
    /// Only tell whether it would fit, with the numbers
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Reserve it even where deadlines may be missed; other classes lose nothing by it
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
pub struct Top {
    /// Class to show, with all below it
    #[arg(default_value = "/")]
    pub path: ClassPath,
    /// Seconds between two refreshes
    #[arg(short = 'd', long, value_name = "S", value_parser = seconds, default_value = "2")]
    pub interval: Duration,
    /// End after N refreshes
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,
    /// Print one table after another, as when standard output is no terminal
    #[arg(short, long)]
    pub batch: bool,
    /// Order of the classes of one parent
    #[arg(short, long, value_name = "BY", value_enum, default_value = "name")]
    pub sort: Sort,
}

/// Order of the classes of one parent; but for the name, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    Name,
    Entitled,
    Received,
    Runnable,
    Latency,
}

#[derive(Args)]
pub struct Trace {
    /// Stop after S seconds instead of at an interrupt or the scheduler's end
    #[arg(short, long, value_name = "S", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Write here instead of to standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum Generate {
    /// Man pages, section 1
    Man {
        /// Where to
        directory: PathBuf,
    },
    /// A completion, to standard output
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

const LAB_EXAMPLES: &str = "\
Examples:
  qlinux lab list
  qlinux lab run qlinux-5a
  qlinux lab run --all --out results
  qlinux lab sim workload.toml
  qlinux lab report

On a machine whose kernel cannot do it, or without root, the experiments run in the guest.";

const CHECK_HELP: &str = "\
Example:
  qlinux check

Kernels from 6.12 on will do, some with less: a line that says `limited` tells what that costs, and what to do about
it. The running kernel's own types are asked, not its version. --json also has `lacking`: everything that the
schedulers would use and this kernel has not, with what is done instead.

Exit status: 0 when the CPU can be scheduled, else 1.";

const ADD_EXAMPLES: &str = "\
Examples:
  qlinux class add /film --weight 400
  qlinux class add --parents /best-effort/user1 --leaf rr
  qlinux class add /server/clients --threaded      for `class move --thread`

A class with processes of its own is divided only into threaded classes; that is a rule of the kernel.";

const SET_EXAMPLES: &str = "\
Examples:
  qlinux class set /film --weight 800
  qlinux class set /film --leaf sfq
  qlinux class set /tenant --max 150%                     one and a half CPUs and no more
  qlinux class set /tenant --max 20ms/100ms --burst 10ms
  qlinux class set /indexer --idle on                     what nobody else wants
  qlinux class set /film --thread 4711 --weight 200
  qlinux class set /film --thread 4711 --weight nice      follow its nice value again
  qlinux class set /desk --leaf svr4 && qlinux class set /desk --thread 4711 --priority ia";

const SHOW_HELP: &str = "\
Examples:
  qlinux class show
  qlinux class show /best-effort --interval 5
  qlinux class show /film --threads

ENTITLED is what the class is to have by the weights of what is runnable now, RECEIVED what it got during the
interval, both in percent of one processor: 150 % is one and a half. No class is entitled to more than its threads
can use. SERVED is all it got since `up cpu`, with everything below it. Where a class is limited, MAX is its limit
and THROTTLED how long it was not served because of that. `(not held)` stands behind a limit, or behind `idle`, of
which the running kernel does not tell H-SFQ: `qlinux check` says what to do about it.";

const MOVE_HELP: &str = "\
Examples:
  qlinux class move /film 4711 4712
  qlinux class move /server/clients --thread 4713

A single thread moves only among threaded classes (`class add --threaded`) below the class of its process: the
kernel keeps the memory and files of a process in one place. What cannot move leaves everything where it was.";

const RUN_EXAMPLES: &str = "\
Examples:
  qlinux run /film --weight 400 -- mpv a.mkv
  qlinux run /backup --weight 10 --rm -- tar cf /mnt/b.tar /home
  qlinux run /sensor --weight 300 --reserve 2ms/10ms -- ./sample
  qlinux run /batch --leaf fifo -- sh -c 'simulate a; simulate b'
  qlinux run --link eth0:/video -- ffmpeg -re -i film.mpg -f mpegts udp://10.0.0.9:5000

Exit status: that of the command; 128 and the signal's number if a signal ended it; 1 or 2 if it did not start.";

const RESERVE_HELP: &str = "\
Examples:
  qlinux class set /film --leaf edf
  qlinux reserve 4711 5ms/30ms            of every 30 ms, 5 ms
  qlinux reserve 4711 5ms/30ms/10ms       the same, within 10 ms of asking for it
  qlinux reserve --dry-run 4711 5ms/30ms
  qlinux reserve --remove 4711

The class must be scheduled by edf (earliest deadline first) or rm (rate monotonic). What all its threads reserve must
fit into what its weight guarantees it beside all its siblings, whether those are busy or not; where it does not, nothing
is changed and the reason is told with the numbers. A reservation is the thread's alone: its children do not inherit it,
and it ends with the thread or with `down cpu`. A thread that wants more than it reserved hurts itself under edf, under rm
those with longer periods, and never another class.

Exit status: 0 reserved, or it would fit; 1 refused, or it would not; 2 wrong usage.";

const TRACE_HELP: &str = "\
The scheduler must have been started with `qlinux up cpu --trace SIZE`. One reader at a time. Columns:
  time_ns    CLOCK_MONOTONIC: end of the quantum, or when it happened
  kind       quantum (a thread was served), run, sleep (a leaf became or stopped being runnable), weight (a new one)
  cpu        processor on which it was recorded
  tid        thread served, 0 where none is concerned
  class      path of the class; node:N once it is deleted
  node,leaf  its node, and the leaf of its own threads, in the tree
  length_ns  service charged, in a quantum record, else 0
  start_tag  of the leaf before the charge, in 1/1024 ns per unit of weight, modulo 2^64; with
             several domains (`qlinux status`), in the tree of the CPU's domain
  weight     of the leaf among its siblings; in a weight record, the new one of the node

Example:
  qlinux up cpu --trace 16M && qlinux trace --duration 10 --output quanta.csv";

const TOP_HELP: &str = "\
A class is shown with everything below it. Where it has classes below it, its own threads have a \
line, too; in the root class, so do the threads of the kernel.

  RUN/THR   runnable threads, and all; qlinux top itself does not count as runnable
  ENTITLED  share of all processors by the weights of what is runnable at the
            moment. No class is entitled to more than its threads can use: one
            thread, on four processors, to 25 %. The kernel's threads go first and
            are entitled to what they use
  RECEIVED  share of all processors since the refresh before
  WAKE P50  wake-up latency: time from becoming runnable, after a sleep or as a new
            thread, to being taken into service; half of them were shorter
  P99, MAX  99 in a hundred, all, were shorter. Figures are rounded up, by a quarter
            at most. A thread that found an idle processor did not wait
  MISS      deadlines of edf and rm leaves that passed unmet

The second line tells what the scheduler did in a second: services (quanta), running threads ended \
early for a waiting class (preemptions), choices of a class with nothing for that processor \
(passed over), threads served out of turn because they had waited for 10 s (rescued).

Keys: arrows and page keys move; space folds and unfolds, as left and right do; s orders by the \
next column; / asks for the beginning of a path; u changes from percent to processors; i hides \
what is idle; + and - change the interval; q quits. NO_COLOR is respected.

With --json each refresh is one object on one line. Fields keep their names and units:

  time, interval_s  seconds of the Unix epoch, and since the refresh before
  cpus, idle_cpus   processors online, and how many of them idled
  per_second        quanta, preemptions, passed_over, rescued
  classes           one for each line of the table, parents first:
    path            of the class
    part            class: with all below it; own: its own threads; kernel
    weight, leaf    null for the root; name of the leaf scheduler
    threads, runnable
    entitled_cpus, received_cpus, entitled_percent, received_percent
                    processors, and percent of all processors
    wakeups, wakeup_p50_ns, wakeup_p99_ns, wakeup_max_ns
                    how many, and how long; null when nothing woke
    misses          null without an edf or rm leaf

Examples:
  qlinux top
  qlinux top /best-effort -d 5 --sort received
  qlinux top --batch -n 1               one table of the next two seconds
  qlinux top --json | jq -c '.classes[] | [.path, .part, .received_percent]'";

fn leaf_help() -> String {
    format!(
        "Scheduler of the class's own threads: {} (the first is the default)",
        Leaf::names()
    )
}

/// `4096`, `64K`, `16M`, `1G`.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("write a size like 64K, 16M or 1G".into()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "write a size like 64K, 16M or 1G".to_string())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "it is too large: give at most 1G".into())
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    const LONGEST: f64 = 1e6;
    match text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        Ok(s) if s > 0.0 && s <= LONGEST => Ok(Duration::from_secs_f64(s)),
        _ => Err("give seconds, above 0 and up to 1000000, such as 0.5 or 10".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn words_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("16m"), Ok(16 << 20));
        for wrong in ["", "M", "1T", "-1", "1.5M", "99999999999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["", "0", "-1", "inf", "nan", "1e9"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
