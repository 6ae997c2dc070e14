// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of `qlinux link`, `qlinux up link` and `qlinux down link`.

use crate::args::{seconds, size, Trace};
use clap::{Args, Subcommand};
use qlinux::link::{parse_mark, Address, Codel, Discipline, Match, Ports, QueueName, Rate};
use qlinux::{ClassPath, Weight};
use std::time::Duration;

#[derive(Args)]
pub struct Pace {
    /// Rate of the link, e.g. 20mbit, or none: as fast as the device takes packets
    #[arg(short, long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Bytes that a packet takes on the line besides what the device counts, e.g. 24 of Ethernet
    #[arg(long, value_name = "BYTES")]
    pub overhead: Option<u32>,
    /// Bytes that a packet takes on the line at least, e.g. 84 of Ethernet
    #[arg(long, value_name = "BYTES")]
    pub least: Option<u32>,
    /// The largest packet that is segmented behind the scheduler, e.g. 16384 [default: what the
    /// link sends in 1 ms, if it has a rate]
    #[arg(long, value_name = "BYTES")]
    pub gso_max: Option<u32>,
    /// Delay that makes a queue a standing one, and for how long: 5ms/100ms, or off
    #[arg(long, value_name = "GOAL")]
    pub codel: Option<Codel>,
    /// Leave standing queues alone
    #[arg(long, conflicts_with = "codel")]
    pub no_codel: bool,
}

impl Pace {
    pub fn codel(&self) -> Option<Codel> {
        match self.no_codel {
            true => Some(Codel::OFF),
            false => self.codel,
        }
    }
}

#[derive(Args)]
pub struct UpLink {
    /// Network interface, as `ip link` lists them
    #[arg(value_name = "DEV")]
    pub device: String,
    #[command(flatten)]
    pub pace: Pace,
    /// Keep a trace of every packet in a buffer of this size, e.g. 16M (4K to 1G)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub trace: Option<u64>,
    /// Take the place of another queueing discipline until `down link`, or begin anew
    #[arg(long)]
    pub replace: bool,
    /// Print the words of the BPF loader and the verifier
    #[arg(long)]
    pub verbose: bool,
}

#[derive(Subcommand)]
pub enum Link {
    /// Divide an interface among classes in one step
    #[command(after_help = SHARE_HELP)]
    Share(Share),
    /// Create, change and delete classes
    #[command(subcommand)]
    Class(LinkClass),
    /// Create, change, attach, move and delete queues
    #[command(subcommand)]
    Queue(LinkQueue),
    /// Send the traffic of a cgroup, or of a service, to a queue
    #[command(after_help = ATTACH_HELP)]
    Attach(Attach),
    /// Undo `attach`
    #[command(after_help = "Example:\n  qlinux link detach eth0 --unit nginx.service")]
    Detach {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        #[command(flatten)]
        source: Source,
    },
    /// Send packets to queues by their headers
    #[command(subcommand)]
    Rule(LinkRule),
    /// Let a user's, or a cgroup's, programs attach their sockets to a queue
    #[command(after_help = GRANT_HELP)]
    Grant(Grant),
    /// Undo `grant`; sockets that are attached stay
    #[command(after_help = "Example:\n  qlinux link revoke eth0 /video --user streamer")]
    Revoke(Grant),
    /// Change the link's rate, what packets take on it, its default queue
    #[command(
        after_help = "Examples:\n  qlinux link set eth0 --rate 50mbit\n  qlinux link set eth0 --rate none --no-codel\n  \
                            qlinux link set eth0 --default /bulk"
    )]
    Set(SetLink),
    /// Draw the tree with what each class is entitled to, receives, holds and drops
    #[command(after_help = SHOW_HELP)]
    Show(ShowLink),
    /// Write a line for every packet that leaves, as CSV
    #[command(after_help = TRACE_HELP)]
    Trace(TraceLink),
}

#[derive(Args)]
pub struct Share {
    /// Network interface
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Classes and their weights, like web=3; `rest` is what nothing else is said of
    #[arg(value_name = "NAME=WEIGHT", required = true, value_parser = share)]
    pub classes: Vec<(String, Weight)>,
    #[command(flatten)]
    pub pace: Pace,
    /// Scheduler of the classes' packets: fifo, sfq or fq
    #[arg(short, long, value_name = "NAME", default_value = "fifo")]
    pub leaf: Discipline,
    /// Take the place of what is on the interface now
    #[arg(long)]
    pub replace: bool,
}

fn share(text: &str) -> Result<(String, Weight), String> {
    let (name, weight) = text
        .split_once('=')
        .ok_or("write a class and its weight like web=3")?;
    let weight = weight.parse::<Weight>().map_err(|e| e.to_string())?;
    Ok((name.trim_matches('/').to_string(), weight))
}

#[derive(Subcommand)]
pub enum LinkClass {
    /// Create a class
    #[command(
        after_help = "Examples:\n  qlinux link class add eth0 /video --weight 5\n  \
                            qlinux link class add eth0 /tenants --leaf none\n  \
                            qlinux link class add eth0 /tenants/a --weight 2 --leaf fq"
    )]
    Add {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Class, as in /tenants/a
        path: ClassPath,
        /// Weight among its siblings: 1 to 10000 [default: 100]
        #[arg(short, long, value_name = "W", allow_negative_numbers = true)]
        weight: Option<Weight>,
        /// In which order its packets are sent: fifo (as they came), sfq (queues by their
        /// weights), fq (connections alike), or none: it holds classes
        #[arg(short, long, value_name = "NAME", default_value = "fifo")]
        leaf: Discipline,
    },
    /// Change a class's weight
    #[command(after_help = "Example:\n  qlinux link class set eth0 /video --weight 8")]
    Set {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Class, as in /tenants/a
        path: ClassPath,
        /// Weight among its siblings: 1 to 10000
        #[arg(short, long, value_name = "W", allow_negative_numbers = true)]
        weight: Weight,
    },
    /// Delete a class in which nothing is left
    #[command(after_help = "Example:\n  qlinux link class del eth0 /video")]
    Del {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Class, as in /tenants/a
        path: ClassPath,
    },
}

#[derive(Args)]
pub struct Limits {
    /// Packets that the queue may hold: 1 to 65535 [default: 1000]
    #[arg(long, value_name = "N")]
    pub packets: Option<u32>,
    /// Bytes that the queue may hold, e.g. 256K [default: 32M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bytes: Option<u64>,
}

#[derive(Subcommand)]
pub enum LinkQueue {
    /// Create a queue
    #[command(
        after_help = "Example:\n  qlinux link queue add eth0 backup --weight 1 --attach /bulk"
    )]
    Add {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Its name: 1 to 63 bytes without blanks and /
        name: String,
        /// Weight among the queues of an sfq or fq leaf: 1 to 10000 [default: 100]
        #[arg(short, long, value_name = "W", allow_negative_numbers = true)]
        weight: Option<Weight>,
        #[command(flatten)]
        limits: Limits,
        /// Attach it to this class
        #[arg(short, long, value_name = "PATH")]
        attach: Option<ClassPath>,
    },
    /// Change a queue
    #[command(after_help = "Example:\n  qlinux link queue set eth0 /video --packets 200")]
    Set {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Queue: a name, or a class for its own queue
        name: QueueName,
        /// Weight among the queues of an sfq or fq leaf: 1 to 10000
        #[arg(short, long, value_name = "W", allow_negative_numbers = true)]
        weight: Option<Weight>,
        #[command(flatten)]
        limits: Limits,
    },
    /// Attach a queue that is attached nowhere
    #[command(after_help = "Example:\n  qlinux link queue attach eth0 backup /bulk")]
    Attach {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Queue
        name: QueueName,
        /// Class
        path: ClassPath,
    },
    /// Move a queue to another class; what waits in it leaves from where it is
    #[command(after_help = "Example:\n  qlinux link queue move eth0 backup /night")]
    Move {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Queue
        name: QueueName,
        /// Class
        path: ClassPath,
    },
    /// Delete a queue in which nothing waits
    #[command(after_help = "Example:\n  qlinux link queue del eth0 backup")]
    Del {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Queue
        name: QueueName,
    },
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Source {
    /// Sockets of this cgroup, and of those below it that have no queue of their own
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<ClassPath>,
    /// Sockets of this systemd unit, e.g. nginx.service
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,
}

#[derive(Args)]
pub struct Attach {
    /// Network interface
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Queue: a name, or a class for its own queue
    pub queue: QueueName,
    #[command(flatten)]
    pub source: Source,
}

#[derive(Args)]
pub struct RuleWords {
    /// IP protocol: tcp, udp, icmp, icmpv6, sctp or a number
    #[arg(long, value_name = "PROTO", value_parser = Match::protocol)]
    pub proto: Option<Match>,
    /// Address of the sender, e.g. 10.0.0.0/8
    #[arg(long, value_name = "ADDR[/N]")]
    pub from: Option<Address>,
    /// Address of the receiver, e.g. fd00::/8
    #[arg(long, value_name = "ADDR[/N]")]
    pub to: Option<Address>,
    /// Port of the sender
    #[arg(long, value_name = "P[-Q]")]
    pub sport: Option<Ports>,
    /// Port of the receiver
    #[arg(long, value_name = "P[-Q]")]
    pub dport: Option<Ports>,
    /// Class of service: ef, cs0 to cs7, af11 to af43, or 0 to 63
    #[arg(long, value_name = "DSCP", value_parser = Match::dscp)]
    pub dscp: Option<Match>,
    /// Firewall mark
    #[arg(long, value_name = "MARK[/MASK]", value_parser = parse_mark)]
    pub mark: Option<(u32, u32)>,
}

#[derive(Subcommand)]
pub enum LinkRule {
    /// Add a rule
    #[command(
        after_help = "Examples:\n  qlinux link rule add eth0 /video --proto udp --dport 5000-5100\n  \
                            qlinux link rule add eth0 /bulk --to 192.168.7.0/24 --at 1\n\n\
                            A packet goes where the first rule that matches says; a rule says nothing of what it leaves out."
    )]
    Add {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Queue: a name, or a class for its own queue
        queue: QueueName,
        #[command(flatten)]
        words: RuleWords,
        /// Its place among the rules, from 1 [default: the last]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        at: Option<u32>,
    },
    /// Delete a rule
    #[command(after_help = "Example:\n  qlinux link rule del eth0 1")]
    Del {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
        /// Its number, as `rule show` has it
        #[arg(value_name = "N")]
        at: u32,
    },
    /// Show the rules, with their numbers
    #[command(after_help = "Example:\n  qlinux link rule show eth0")]
    Show {
        /// Network interface
        #[arg(value_name = "DEV")]
        device: String,
    },
}

#[derive(Args)]
pub struct Grant {
    /// Network interface
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Queue: a name, or a class for its own queue
    pub queue: QueueName,
    #[command(flatten)]
    pub whom: Whom,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Whom {
    /// Programs of this user, by name or number
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Programs in this cgroup, and in those below it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<ClassPath>,
}

#[derive(Args)]
pub struct SetLink {
    /// Network interface
    #[arg(value_name = "DEV")]
    pub device: String,
    #[command(flatten)]
    pub pace: Pace,
    /// Queue of packets that nothing else is said of
    #[arg(long, value_name = "QUEUE")]
    pub default: Option<QueueName>,
}

#[derive(Args)]
pub struct ShowLink {
    /// Network interface [default: all that H-SFQ schedules]
    #[arg(value_name = "DEV")]
    pub device: Option<String>,
    /// Look for S seconds
    #[arg(short, long, value_name = "S", value_parser = seconds, default_value = "1")]
    pub interval: Duration,
}

pub const UP_HELP: &str = "\
Examples:
  qlinux up link eth0                              as fast as the device takes packets
  qlinux up link eth0 --rate 20mbit                an uplink behind a modem
  qlinux up link eth0 --rate 100mbit --overhead 24 --least 84
  qlinux up link eth0 --replace                    where fq_codel or another discipline is

The tree is the root with one class, /default, which sends packets as they come. With --rate the queue is here, where
it is scheduled, and not in the modem: give a little less than what the modem sends. --overhead and --least are what
the line adds to each packet: 24 and 84 on Ethernet (preamble, checksum and gap). Packets of up to 64 KB that are segmented
behind the scheduler (GSO) are one packet to it, and others wait for all of it. So with --rate new connections may make
packets of no more than the link sends in 1 ms; --gso-max bounds them otherwise, smaller ones at the cost of more work a
byte. Packets that another machine's connections became on the way in (GRO) are not bounded by it.";

const SHARE_HELP: &str = "\
Examples:
  qlinux link share eth0 web=3 video=5 rest=2 --rate 20mbit
  qlinux link attach eth0 /web --unit nginx.service
  qlinux run --link eth0:/video -- ffmpeg -re -i film.mpg -f mpegts udp://10.0.0.9:5000

Puts H-SFQ on the interface and makes the classes. Traffic goes to `rest` until something else is said of it; without a
`rest` there is a class /default of weight 1 for it.";

const ATTACH_HELP: &str = "\
Examples:
  qlinux link attach eth0 /web --unit nginx.service
  qlinux link attach eth0 /video --cgroup /film

A socket belongs to the cgroup of the process that made it. Where a cgroup has no queue of its own, its nearest ancestor's
is meant. A rule, and a socket's own choice, come first. Programs in a network namespace of their own, as most
containers are, reach this interface as forwarded packets: those go by rule.";

const GRANT_HELP: &str = "\
Example:
  qlinux link grant eth0 /video --user streamer

Such a program attaches a socket by setsockopt(fd, SOL_HSFQ, HSFQ_SO_QUEUE, &sid, sizeof(sid)), where sid is what
`qlinux link show --json` calls the queue's sid; see hsfq_link_attach_socket(3). With CAP_NET_ADMIN no grant is needed.";

#[derive(Args)]
pub struct TraceLink {
    /// Network interface; `up link` must have been told --trace
    #[arg(value_name = "DEV")]
    pub device: String,
    #[command(flatten)]
    pub trace: Trace,
}

const TRACE_HELP: &str = "\
Examples:
  qlinux up link eth0 --rate 20mbit --trace 16M
  qlinux link trace eth0 --duration 10 --output packets.csv

KIND is sent or dropped. LINE names the packets that are served in order: a fifo class has one, an sfq class one a queue,
an fq class one a flow. TIME_NS and ARRIVED_NS, when the packet left and came, are of the monotonic clock; LENGTH is in
bytes on the line.";

const SHOW_HELP: &str = "\
Examples:
  qlinux link show
  qlinux link show eth0 --interval 5 --json

ENTITLED is what its weight guarantees a class while all classes have packets, of the link's rate, or in percent where
it has none; RECEIVED what it got during the interval. QUEUED is what waits now, DROPPED what was dropped since `up
link`. DELAY is the time that packets sent during the interval had waited: half of them, and 99 in a hundred, for less.";
