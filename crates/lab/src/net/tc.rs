// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link's classes, set up as each side wants them: by `qlinux link`, or by tc as its manual pages say.
//!
//! Every class has the part of the link that its weight gives it, may borrow all that the others leave, and
//! a queue of 1,000 packets. QLinux knows a class's packets by their socket's cgroup, tc by mark or port.

use super::tree::{mark, Class, Leaf, Pick, Tree};
use super::{Plan, DEV};
use crate::machine::{qlinux, run, Side, LAB};
use anyhow::{bail, ensure, Context, Result};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Bits in a second where nothing is to be held back: more than this guest can send.
const UNPACED: u64 = 10_000_000_000;
/// Bytes of a whole packet, and so the least quantum.
const WHOLE: u32 = 1514;
/// Room for a trace of some 300,000 packets.
const TRACE: &str = "16M";
/// Packets in a queue that is not of a class.
const LIMIT: u32 = 1000;
/// HTB: `TC_HTB_MAXDEPTH` of the kernel, less the class that has the link's rate.
const HTB_LEVELS: usize = 7;

/// Why `side` cannot do what `tree` asks, if it cannot.
pub fn unable(side: Side, tree: &Tree) -> Option<&'static str> {
    match side {
        Side::Htb if tree.depth() > HTB_LEVELS => Some("HTB has eight levels, its root among them"),
        Side::Drr if tree.depth() > 1 => Some("DRR is left out of nested trees"),
        _ => None,
    }
}

/// A link that is divided; as it was when dropped.
pub struct Link {
    side: Side,
}

impl Link {
    pub fn new(side: Side, plan: &Plan) -> Result<Link> {
        let link = Link { side };
        if side == Side::Qlinux {
            up(plan)?;
        } else {
            let lines = lines(side, plan)?;
            batch(&lines).with_context(|| format!("{side} cannot be set up"))?;
        }
        Ok(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let done = match self.side {
            Side::Qlinux => qlinux(&["down", "link", DEV]).map(drop),
            _ => run(&format!("tc qdisc del dev {DEV} root")),
        };
        if let Err(error) = done {
            eprintln!("qlinux lab: {error:#}");
        }
    }
}

impl Leaf {
    fn word(self) -> &'static str {
        match self {
            Leaf::Inner => "none",
            Leaf::Fifo => "fifo",
            Leaf::Fq => "fq",
        }
    }
}

/// The commands that make the classes of `plan`: a single one where they are all leaves alike.
fn commands(plan: &Plan) -> Vec<Vec<String>> {
    let words = |line: &[&str]| line.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let rate = plan.rate.map(|rate| format!("{}kbit", rate / 1000));
    let rate: Vec<String> = rate
        .into_iter()
        .flat_map(|rate| ["--rate".to_owned(), rate])
        .collect();
    let trace = match plan.trace {
        true => words(&["--trace", TRACE]),
        false => Vec::new(),
    };
    let classes = &plan.tree.classes;
    let alike = classes.iter().all(|class| class.leaf == classes[0].leaf);
    if alike && plan.tree.depth() == 1 && !plan.trace {
        let share = |class: &Class| format!("{}={}", &class.path[1..], class.weight);
        let shares = classes.iter().map(share).collect();
        let share = words(&["link", "share", DEV, "--leaf", classes[0].leaf.word()]);
        return vec![[share, rate, shares].concat()];
    }
    let add = |class: &Class| {
        let weight = class.weight.to_string();
        let add = ["link", "class", "add", DEV, &class.path];
        words(
            &[
                &add[..],
                &["--weight", &weight, "--leaf", class.leaf.word()],
            ]
            .concat(),
        )
    };
    let up = [words(&["up", "link", DEV]), rate, trace].concat();
    std::iter::once(up).chain(classes.iter().map(add)).collect()
}

fn up(plan: &Plan) -> Result<()> {
    for line in commands(plan) {
        qlinux(&line.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    for index in plan.tree.leaves() {
        let path = &plan.tree.classes[index].path;
        let cgroup = format!("{LAB}{path}");
        qlinux(&["link", "attach", DEV, path, "--cgroup", &cgroup])?;
    }
    Ok(())
}

/// Runs lines of tc in one go.
fn batch(lines: &str) -> Result<()> {
    let mut child = Command::new("tc")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("tc cannot be started: install iproute2")?;
    let mut pipe = child.stdin.take().context("no pipe to tc")?;
    pipe.write_all(lines.as_bytes())?;
    drop(pipe);
    let out = child.wait_with_output()?;
    let why = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "tc: {}", why.trim());
    Ok(())
}

/// Minor number of the class with this number.
fn minor(index: usize) -> usize {
    0x10 + index
}

/// The class above, in a qdisc whose class 1 has the whole rate.
fn parent_minor(tree: &Tree, class: &Class) -> usize {
    let above = tree.classes.iter().position(|c| c.path == class.parent());
    above.map_or(1, minor)
}

/// Lets packets find their class of qdisc `handle`.
fn filter(text: &mut String, handle: u32, index: usize, class: &Class) -> Result<()> {
    let to = format!("classid {handle}:{:x}", minor(index));
    let head = format!("filter add dev {DEV} parent {handle}:");
    match class.pick {
        Pick::Mark => writeln!(
            text,
            "{head} protocol all prio 1 handle {} fw {to}",
            mark(index)
        )?,
        Pick::From(port) => writeln!(
            text,
            "{head} protocol ip prio 2 u32 match ip sport {port} 0xffff {to}"
        )?,
    }
    Ok(())
}

/// What each class of one qdisc says of itself.
fn classes(
    text: &mut String,
    tree: &Tree,
    handle: u32,
    own: impl Fn(usize, &Class) -> String,
) -> Result<()> {
    for (index, class) in tree.classes.iter().enumerate() {
        let above = match handle {
            1 => format!("1:{:x}", parent_minor(tree, class)),
            _ => format!("{handle}:"),
        };
        let id = format!("{handle}:{:x}", minor(index));
        writeln!(
            text,
            "class add dev {DEV} parent {above} classid {id} {}",
            own(index, class)
        )?;
        if class.leaf != Leaf::Inner {
            filter(text, handle, index, class)?;
            if class.leaf == Leaf::Fq {
                writeln!(text, "qdisc add dev {DEV} parent {id} fq_codel")?;
            }
        }
    }
    Ok(())
}

/// A root of HTB whose class 1:1 has the whole rate.
fn htb_root(rate: u64) -> String {
    format!(
        "qdisc add dev {DEV} root handle 1: htb default 1\n\
         class add dev {DEV} parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit quantum {WHOLE}\n"
    )
}

/// One queue; with a rate it is below a bucket that holds two packets.
fn fifo(rate: Option<u64>) -> String {
    let burst = 2 * WHOLE;
    match rate {
        None => format!("qdisc add dev {DEV} root pfifo limit {LIMIT}\n"),
        Some(rate) => format!(
            "qdisc add dev {DEV} root handle 1: tbf rate {rate}bit burst {burst} limit 3000000\n\
             qdisc add dev {DEV} parent 1:1 handle 2: pfifo limit {LIMIT}\n"
        ),
    }
}

/// The lines of tc that set up `side`.
fn lines(side: Side, plan: &Plan) -> Result<String> {
    let tree = &plan.tree;
    let rate = plan.rate.unwrap_or(UNPACED);
    let share = |index: usize| ((tree.share(index) * rate as f64) as u64).max(8);
    // In proportion to the weight, and enough for the lightest to send a packet in its turn.
    let quantum = |class: &Class| class.weight.div_ceil(tree.least_weight(class)) * WHOLE;
    let below = |kind: &str| format!("qdisc add dev {DEV} parent 1:1 handle 2: {kind}\n");
    let mut text = String::new();
    match side {
        Side::Fifo => text += &fifo(plan.rate),
        Side::Htb => {
            text += &htb_root(rate);
            let own = |index, class: &Class| {
                let (share, quantum) = (share(index), quantum(class));
                format!("htb rate {share}bit ceil {rate}bit quantum {quantum}")
            };
            classes(&mut text, tree, 1, own)?;
        }
        Side::Hfsc => {
            text += &format!(
                "qdisc add dev {DEV} root handle 1: hfsc\n\
                 class add dev {DEV} parent 1: classid 1:1 hfsc ls m2 {rate}bit ul m2 {rate}bit\n"
            );
            let own = |index, _: &Class| format!("hfsc ls m2 {}bit", share(index));
            classes(&mut text, tree, 1, own)?;
        }
        Side::Drr => {
            text += &match plan.rate {
                None => format!("qdisc add dev {DEV} root handle 2: drr\n"),
                Some(rate) => htb_root(rate) + &below("drr"),
            };
            let own = |_, class: &Class| format!("drr quantum {}", quantum(class));
            classes(&mut text, tree, 2, own)?;
        }
        Side::Cake => {
            // Its classes are the flows; the length of a packet is the one that all others count.
            let paced = match plan.rate {
                None => "unlimited".to_owned(),
                Some(rate) => format!("bandwidth {rate}bit"),
            };
            text += &format!("qdisc add dev {DEV} root cake {paced} besteffort flows raw\n");
        }
        Side::FqCodel => text = htb_root(rate) + &below("fq_codel"),
        _ => bail!("{side} is not set up by tc"),
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_htb() {
        let tree = Tree::new([("/a", 1), ("/b", 3), ("/b/x", 1)]);
        let text = lines(Side::Htb, &Plan::mbit(4, tree)).unwrap();
        let last: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            last,
            [
                "class add dev ql0 parent 1:1 classid 1:10 htb rate 1000000bit ceil 4000000bit quantum 1514",
                "filter add dev ql0 parent 1: protocol all prio 1 handle 1 fw classid 1:10",
                "class add dev ql0 parent 1:1 classid 1:11 htb rate 3000000bit ceil 4000000bit quantum 4542",
                "class add dev ql0 parent 1:11 classid 1:12 htb rate 3000000bit ceil 4000000bit quantum 1514",
                "filter add dev ql0 parent 1: protocol all prio 1 handle 3 fw classid 1:12",
            ]
        );
    }

    #[test]
    fn classes_of_qlinux() {
        let of = |tree| {
            let lines = commands(&Plan::mbit(4, tree));
            lines.iter().map(|line| line.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(
            of(Tree::flat(&[1, 4])),
            ["link share ql0 --leaf fifo --rate 4000kbit c0=1 c1=4"]
        );
        assert_eq!(
            of(Tree::new([("/b", 3), ("/b/x", 1)])),
            [
                "up link ql0 --rate 4000kbit",
                "link class add ql0 /b --weight 3 --leaf none",
                "link class add ql0 /b/x --weight 1 --leaf fifo",
            ]
        );
    }

    #[test]
    fn what_a_side_cannot_do() {
        let path = "/n".repeat(8);
        let deep = Tree::new([(path.as_str(), 1)]);
        assert!(unable(Side::Htb, &deep).is_some());
        assert!(unable(Side::Qlinux, &deep).is_none());
        assert!(lines(Side::Qlinux, &Plan::mbit(1, deep)).is_err());
    }
}
