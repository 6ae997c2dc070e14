// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of `qlinux disk`, `qlinux up disk` and `qlinux down disk`.

use crate::args::seconds;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use qlinux::disk::{
    self, Class, Deadline, InFlight, InFlightTime, Refusal, Round, Settings, Weight,
};
use qlinux::ClassPath;
use std::ffi::OsString;
use std::time::Duration;

#[derive(Args)]
pub struct Attributes {
    /// Length of a round, over which the shares hold: 1ms to 10s [default: 100ms]
    #[arg(short, long, value_name = "TIME")]
    pub round: Option<Round>,
    /// Weight of class interactive: 0 to 10000 [default: 200; 400 on a disk that turns]
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    pub interactive: Option<Weight>,
    /// Weight of class throughput: 0 to 10000 [default: 100]
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    pub throughput: Option<Weight>,
    /// Weight of class realtime: 0 to 10000 [default: 200; 400 on a disk that turns]
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    pub realtime: Option<Weight>,
    /// The same in other words: a class and its weight, like interactive=300
    #[arg(short, long, value_name = "CLASS=W", num_args = 1.., value_parser = class_weight)]
    pub weight: Vec<(Class, Weight)>,
    /// Of real-time requests without one of their own: 1ms to 49.152s [default: 300ms]
    #[arg(short, long, value_name = "TIME")]
    pub deadline: Option<Deadline>,
    /// Requests that the disk has at a time: 1 to 1024, or auto: as few as it needs [default: 1 where it turns, else auto]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    pub in_flight: Option<InFlight>,
    /// Time that those may take before the disk gets a further one: 1us to 10s, or auto: any [default: auto]
    #[arg(long, value_name = "TIME")]
    pub in_flight_time: Option<InFlightTime>,
    /// Of what has no class: one of the three, or none: it bypasses Cello [default: throughput]
    #[arg(short, long, value_name = "CLASS")]
    pub unclassified: Option<Class>,
}

fn class_weight(text: &str) -> Result<(Class, Weight), String> {
    let (class, weight) = text
        .split_once('=')
        .ok_or("write a class and its weight, like interactive=300")?;
    let class = class.parse::<Class>().map_err(|e| e.to_string())?;
    if class == Class::None {
        return Err(Refusal::NoneOfThree.to_string());
    }
    let weight = weight.parse::<Weight>().map_err(|e| e.to_string())?;
    Ok((class, weight))
}

impl Attributes {
    /// Each class may be given a weight once.
    pub fn settings(&self) -> Result<Settings, Refusal> {
        let mut weights = [self.interactive, self.throughput, self.realtime];
        for (class, weight) in &self.weight {
            if weights[*class as usize].replace(*weight).is_some() {
                let words = format!("the weight of class {class} is named twice: name it once");
                return Err(Refusal::Usage(words));
            }
        }
        Ok(Settings {
            round: self.round,
            weights,
            in_flight: self.in_flight,
            in_flight_time: self.in_flight_time,
            deadline: self.deadline,
            unclassified: self.unclassified,
        })
    }
}

#[derive(Args)]
pub struct UpDisk {
    /// Disk, as `lsblk` lists them: sda or /dev/sda; a partition means its disk
    #[arg(value_name = "DEV")]
    pub device: String,
    #[command(flatten)]
    pub attributes: Attributes,
    /// Whether it has an arm; auto: if it says that it turns, and reads all over it, for a second at most, do not tell otherwise
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub arm: Arm,
}

/// What a disk is taken for.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Arm {
    #[default]
    Auto,
    Yes,
    No,
}

impl From<Arm> for disk::Arm {
    fn from(arm: Arm) -> disk::Arm {
        match arm {
            Arm::Auto => disk::Arm::Auto,
            Arm::Yes => disk::Arm::Yes,
            Arm::No => disk::Arm::No,
        }
    }
}

#[derive(Subcommand)]
pub enum Disk {
    /// Show what each class of a disk is entitled to and gets
    #[command(after_help = SHOW_HELP)]
    Show(ShowDisk),
    /// Change a disk's round, weights, deadline, requests at a time
    #[command(after_help = SET_HELP)]
    Set(SetDisk),
    /// Give a cgroup, or a process, a class on all disks; show the one it has
    #[command(after_help = CLASS_HELP)]
    Class(DiskClass),
    /// Run a command whose requests are of a class
    #[command(after_help = RUN_HELP)]
    Run(DiskRun),
}

#[derive(Args)]
pub struct ShowDisk {
    /// Disk [default: all that Cello schedules]
    #[arg(value_name = "DEV")]
    pub device: Option<String>,
    /// Show what came in the next S seconds [default: all since the start]
    #[arg(short, long, value_name = "S", value_parser = seconds)]
    pub interval: Option<Duration>,
}

#[derive(Args)]
pub struct SetDisk {
    /// Disk
    #[arg(value_name = "DEV")]
    pub device: String,
    #[command(flatten)]
    pub attributes: Attributes,
}

#[derive(Args)]
pub struct DiskClass {
    /// Cgroup, as in /backup, or process, as in 4711, with all its threads
    #[arg(value_name = "PATH|PID", value_parser = whom, allow_negative_numbers = true)]
    pub whom: Whom,
    /// interactive, throughput, realtime, or none [default: show the one it has]
    #[arg(value_name = "CLASS")]
    pub class: Option<Class>,
    /// Weight of the cgroup among those of the same class: 1 to 10000
    #[arg(short, long, value_name = "W", allow_negative_numbers = true)]
    pub weight: Option<qlinux::Weight>,
    /// Of each request of a real-time process: 1ms to 49.152s [default: the disk's]
    #[arg(short, long, value_name = "TIME")]
    pub deadline: Option<Deadline>,
}

/// Who is of a class.
#[derive(Clone, Debug, PartialEq)]
pub enum Whom {
    Cgroup(ClassPath),
    Process(i32),
}

fn whom(text: &str) -> Result<Whom, String> {
    if text.starts_with('/') {
        let path = text.parse().map_err(|e: qlinux::Error| e.to_string())?;
        return Ok(Whom::Cgroup(path));
    }
    match text.parse() {
        Ok(pid @ 1..) => Ok(Whom::Process(pid)),
        _ => Err(
            "it is neither a cgroup nor a process: write a path like /backup, or a number from 1"
                .into(),
        ),
    }
}

#[derive(Args)]
pub struct DiskRun {
    /// interactive, throughput, realtime, or none
    #[arg(value_name = "CLASS")]
    pub class: Class,
    /// Of each request of class realtime: 1ms to 49.152s [default: the disk's]
    #[arg(short, long, value_name = "TIME")]
    pub deadline: Option<Deadline>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

pub const UP_HELP: &str = "\
Examples:
  qlinux up disk sda
  qlinux up disk /dev/sda --interactive 300 --throughput 100 --realtime 200
  qlinux up disk nvme0n1 --round 50ms --deadline 40ms --in-flight 4
  qlinux up disk vdb --arm no

In every round each class gets its share of the disk's time, seeks included, in proportion to its weight; what it leaves goes to
the others. A class of weight 0 gets only what the others leave. Who says nothing is of class throughput (--unclassified), what journals
of file systems write interactive. A disk without an arm is given as many requests at a time as it serves side by side; one that says it turns, as those of
virtual machines do, is read for a second to see whether it has one (not with --arm yes or no). If the kernel module cello is not there, the error tells what to install; so does `qlinux check`.";

const SET_HELP: &str = "\
Examples:
  qlinux disk set sda --weight interactive=300 --weight throughput=100
  qlinux disk set sda --round 50ms
  qlinux disk set sda --realtime 0 --deadline 40ms";

const SHOW_HELP: &str = "\
Examples:
  qlinux disk show
  qlinux disk show sda --interval 5
  qlinux disk show sda --json | jq '.classes[] | [.class, .received]'

ENTITLED is the share of the disk's time that a class's weight guarantees it while all classes have requests, RECEIVED the share it
got of the time for requests of classes. TIME is the disk's time, WAITING the requests that wait or are served now. Late are real-time requests
that were done after their deadline; promised are those of them that had been promised to be in time.";

const CLASS_HELP: &str = "\
Examples:
  qlinux disk class /backup throughput
  qlinux disk class /backup throughput --weight 50     beside the other cgroups of that class
  qlinux disk class /backup none                       that of the cgroup above it, if it has one
  qlinux disk class 4711 realtime --deadline 40ms
  qlinux disk class 4711                               the class it has

A request's own class (cello_read(3), ioprio of aio and io_uring) comes first, then that of its cgroup or the nearest above it with
one, then that of its process. What a program writes through the page cache is written later by the kernel, and only its
cgroup's class is known then. Processes inherit the class of the one that starts them. Deadlines are kept in steps of a quarter, and
are never later than what was asked: 100ms is 96ms.";

const RUN_HELP: &str = "\
Examples:
  qlinux disk run interactive -- bash
  qlinux disk run throughput -- tar cf /mnt/b.tar /home
  qlinux disk run realtime --deadline 40ms -- mpv film.mkv

It takes no privilege. The class is that of the command and all it starts, on every disk under Cello.

Exit status: that of the command; 1 or 2 if it did not start.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        attributes: Attributes,
    }

    fn settings(words: &[&str]) -> Result<Settings, Refusal> {
        let all = ["x"].iter().chain(words);
        Words::try_parse_from(all)
            .ok()
            .unwrap()
            .attributes
            .settings()
    }

    #[test]
    fn weights_in_both_words() {
        let weight = |w| Some(Weight::new(w).unwrap());
        let both = settings(&[
            "--weight",
            "interactive=1",
            "throughput=0",
            "--realtime",
            "7",
        ]);
        assert_eq!(both.unwrap().weights, [weight(1), weight(0), weight(7)]);
        let twice = settings(&["--weight", "realtime=1", "--realtime", "7"]);
        assert!(twice.unwrap_err().is_usage());
        for wrong in [
            "",
            "interactive",
            "none=1",
            "x=1",
            "interactive=-1",
            "interactive=",
        ] {
            assert!(class_weight(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cgroups_and_processes() {
        assert_eq!(whom("4711"), Ok(Whom::Process(4711)));
        assert_eq!(whom("/a//b"), Ok(Whom::Cgroup("/a/b".parse().unwrap())));
        for wrong in ["", "0", "-1", "a", "1a", "/..", "99999999999"] {
            assert!(whom(wrong).is_err(), "{wrong}");
        }
    }
}
