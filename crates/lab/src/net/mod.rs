// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link with classes of traffic on it: two network namespaces, a pair of veth between them, and at
//! the near end whatever divides the link.
//!
//! A veth gives no back-pressure, so whoever divides the link also gives it its rate. What came over it is
//! noted at the far end, packet by packet, with the kernel's own time of arrival ([`Capture`]).

mod apart;
mod capture;
pub mod clarknet;
mod tc;
mod tree;

pub use apart::apart;
pub use capture::{Capture, Packet, Span};
pub use tc::unable;
pub use tree::{Class, Leaf, Pick, Tree};

use crate::machine::{run, Session, Side};
use crate::scene::{Process, Scene, WARM_UP};
use crate::sys;
use anyhow::{ensure, Context, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// The near end, with the qdisc under test.
pub const DEV: &str = "ql0";
/// The far end, in the namespace.
const FAR: &str = "ql1";
const NAMESPACE: &str = "qlinux-lab";
/// Address of the near end.
pub const NEAR_ADDRESS: &str = "10.77.0.1";
/// Address of the far end.
pub const FAR_ADDRESS: &str = "10.77.0.2";
/// Where a class's packets go to: this and its number.
pub const PORT: u16 = 9000;
/// Class of the CPU's tree in which everything at the far end runs.
const FAR_CLASS: &str = "/far";
/// The far end looks for packets this often, so none is missed that came before a look.
const LOOKED: Duration = Duration::from_millis(20);
/// Of more classes than these the first get packets only.
const SINKS: usize = 64;
/// Modules that ip and tc would ask for one by one.
const MODULES: &str = "veth sch_htb sch_hfsc sch_drr sch_cake sch_tbf sch_fq_codel cls_fw cls_u32";

/// How the link is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bits in a second; none: packets leave as fast as they come.
    pub rate: Option<u64>,
    /// Lets TCP hand over packets of many segments.
    pub gso: bool,
    /// The classes of traffic.
    pub tree: Tree,
    /// Note packets at the far end.
    pub tap: bool,
    /// Let QLinux keep a trace of every packet.
    pub trace: bool,
}

impl Plan {
    /// A link of so many Mbit/s, without GSO.
    pub fn mbit(rate: u64, tree: Tree) -> Plan {
        Plan {
            rate: Some(rate * 1_000_000),
            gso: false,
            tree,
            tap: true,
            trace: false,
        }
    }
}

/// The two ends; gone when dropped.
struct Wire {
    namespace: File,
}

impl Wire {
    fn new(gso: bool) -> Result<Wire> {
        // Left over from a lab that was killed; modules may be built in.
        let _ = run(&format!("ip netns del {NAMESPACE}"));
        let _ = run(&format!("ip link del {DEV}"));
        let _ = run(&format!("modprobe -a {MODULES}"));
        run(&format!("ip netns add {NAMESPACE}"))?;
        let far = format!("ip -n {NAMESPACE}");
        run(&format!(
            "ip link add {DEV} type veth peer name {FAR} netns {NAMESPACE}"
        ))?;
        let segments = if gso { 65535 } else { 1 };
        run(&format!(
            "ip link set {DEV} addrgenmode none gso_max_segs {segments}"
        ))?;
        run(&format!("{far} link set {FAR} addrgenmode none"))?;
        run(&format!("ip link set {DEV} address 02:00:00:00:00:01"))?;
        run(&format!("{far} link set {FAR} address 02:00:00:00:00:02"))?;
        run(&format!("ip addr add {NEAR_ADDRESS}/24 dev {DEV}"))?;
        run(&format!("{far} addr add {FAR_ADDRESS}/24 dev {FAR}"))?;
        run(&format!("ip link set {DEV} up"))?;
        run(&format!("{far} link set {FAR} up"))?;
        // Nobody asks for addresses: no packet on the link but the experiment's.
        let known =
            |lladdr, dev| format!("lladdr 02:00:00:00:00:0{lladdr} dev {dev} nud permanent");
        run(&format!("ip neigh replace {FAR_ADDRESS} {}", known(2, DEV)))?;
        run(&format!(
            "{far} neigh replace {NEAR_ADDRESS} {}",
            known(1, FAR)
        ))?;
        let path = format!("/run/netns/{NAMESPACE}");
        let namespace = File::open(&path).with_context(|| format!("{path} cannot be opened"))?;
        Ok(Wire { namespace })
    }

    /// Lets a command begin at the far end.
    fn at_far_end(&self, command: &mut Command) {
        let fd = self.namespace.as_raw_fd();
        // SAFETY: between fork and exec only one system call happens, on a descriptor that is open.
        unsafe {
            command.pre_exec(move || match libc::setns(fd, libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            })
        };
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for line in [
            format!("ip link del {DEV}"),
            format!("ip netns del {NAMESPACE}"),
        ] {
            if let Err(error) = run(&line) {
                eprintln!("qlinux lab: {error:#}");
            }
        }
    }
}

/// A link with classes, and workloads on it.
pub struct NetScene {
    /// Classes of the CPU and workloads; ended first.
    pub scene: Scene,
    _link: Option<tc::Link>,
    wire: Wire,
    tree: Tree,
    /// Workers of the far end.
    far: usize,
}

impl NetScene {
    /// The link of `plan`, divided by `side`. For each class of traffic there is a class of the CPU.
    pub fn new(session: &Session, side: Side, plan: &Plan) -> Result<NetScene> {
        NetScene::make(session, Some(side), plan)
    }

    /// The same without any qdisc.
    pub fn bare(session: &Session, plan: &Plan) -> Result<NetScene> {
        NetScene::make(session, None, plan)
    }

    fn make(session: &Session, side: Option<Side>, plan: &Plan) -> Result<NetScene> {
        let mut scene = Scene::new(session)?;
        for class in &plan.tree.classes {
            scene.class(&class.path, class.weight)?;
        }
        scene.class(FAR_CLASS, 10_000)?;
        let wire = Wire::new(plan.gso)?;
        let link = side.map(|side| tc::Link::new(side, plan)).transpose()?;
        let mut scene = NetScene {
            scene,
            _link: link,
            wire,
            tree: plan.tree.clone(),
            far: 0,
        };
        if plan.tap {
            scene.start_far("tap", &["--dev", FAR])?;
        }
        scene.start_sinks()?;
        scene.scene.begun()?;
        Ok(scene)
    }

    fn start_sinks(&mut self) -> Result<()> {
        let ports = (0..self.tree.classes.len().min(SINKS)).map(|index| port(index).to_string());
        let mut args = Vec::new();
        for port in ports {
            args.extend(["--udp".to_owned(), port.clone(), "--tcp".to_owned(), port]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.start_far("sink", &args)
    }

    /// Starts a workload at the far end.
    pub fn start_far(&mut self, work: &str, args: &[&str]) -> Result<()> {
        let wire = &self.wire;
        self.scene
            .start_as(FAR_CLASS, work, args, |command| wire.at_far_end(command))?;
        self.far += 1;
        Ok(())
    }

    /// Starts a workload that sends as class `path`.
    pub fn start(&mut self, path: &str, work: &str, args: &[&str]) -> Result<usize> {
        let index = self.tree.index(path)?;
        let to = format!("{FAR_ADDRESS}:{}", port(index));
        let mark = tree::mark(index).to_string();
        let common = ["--to", &to, "--mark", &mark];
        self.scene.start(path, work, &[&common, args].concat())
    }

    /// Starts a program of the machine as class `path`.
    pub fn tool(&self, path: &str, line: &[&str]) -> Result<Process> {
        self.scene.tool(path, line)
    }

    /// Waits until all have begun and the start has worn off.
    pub fn settle(&mut self) -> Result<()> {
        self.scene.begun()?;
        sys::sleep(WARM_UP);
        Ok(())
    }

    /// What comes over the link from now on, for `length`.
    pub fn capture(&self, length: Duration) -> Result<Capture> {
        let counter = self.scene.workers[0].counter()?;
        let from = counter.log_len();
        let begin_ns = sys::now_ns();
        let end_ns = begin_ns + length.as_nanos() as u64;
        sys::sleep_until(end_ns);
        sys::sleep(LOOKED);
        ensure!(
            !counter.log_full(),
            "more packets came than there is room for"
        );
        let span = Span { begin_ns, end_ns };
        // The first look may bring packets that came before the beginning.
        Ok(Capture::new(&counter.log_from(from), span))
    }

    /// Everything that came over the link since `begin_ns`, now that the last of it has come.
    pub fn captured_since(&self, begin_ns: u64) -> Result<Capture> {
        let end_ns = sys::now_ns();
        sys::sleep(LOOKED);
        let counter = self.scene.workers[0].counter()?;
        ensure!(
            !counter.log_full(),
            "more packets came than there is room for"
        );
        Ok(Capture::new(
            &counter.log_from(0),
            Span { begin_ns, end_ns },
        ))
    }
}

/// Where packets of the class with this number go.
pub fn port(index: usize) -> u16 {
    PORT + index as u16
}
