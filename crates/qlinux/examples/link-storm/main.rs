// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random changes of a link while packets come: each does what a model says, or is refused
//! and changes nothing; packets go where the model says, and none is lost from the account.
//!
//!   link-storm DEV EDITS SEED
//!
//! The interface must be up (`qlinux up link`), with 10.0.0.2 and fd00::2 behind it, and
//! the cgroups below /storm must exist.

mod edits;
mod model;
mod traffic;

use edits::Expect;
use fastrand::Rng;
use model::{Found, Model, ID_UNKNOWN};
use qlinux::cgroup::Hierarchy;
use qlinux::link::intf::Counts;
use qlinux::link::{self, Link, Options, Rate};
use qlinux::{ClassPath, Result};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use traffic::Sender;

const CGROUPS: [&str; 4] = ["/storm", "/storm/a", "/storm/a/b", "/storm/c"];
const SENDERS: usize = 8;
/// Edits between two comparisons of everything with the model; what was just created is looked at at once.
const COMPARED: u32 = 8;
/// Edits between two looks at the account.
const ACCOUNT: u32 = 250;
/// Edits between two new trees.
const REPLACE: u32 = 1500;
const PATIENCE: Duration = Duration::from_secs(5);

struct Storm {
    dev: String,
    rng: Rng,
    /// It is let go only while another takes its place.
    link: Option<Link>,
    model: Model,
    senders: Vec<Sender>,
    cgroups: Vec<String>,
    counts: BTreeMap<String, Counts>,
    /// Packets that came to the queue since its counts were read.
    came: BTreeMap<String, u64>,
    /// Edits done, refused, and sent packets.
    done: u64,
    refused: u64,
    sent: u64,
}

/// What is not as it should be.
type Fault = String;

fn fault(error: impl std::fmt::Display) -> Fault {
    error.to_string()
}

impl Storm {
    fn new(dev: &str, seed: u64) -> Result<Storm> {
        let fs = Hierarchy::discover()?;
        let mut rng = Rng::with_seed(seed);
        let mut senders = Vec::new();
        for i in 0..SENDERS {
            let cgroup = rng.choice(CGROUPS).unwrap_or("/");
            senders.push(Sender::open(i % 2 == 0, cgroup, i as u8 / 2 * 8)?);
        }
        fs.move_process(&ClassPath::root(), std::process::id() as i32)
            .map_err(|e| qlinux::Error::io("moving to", fs.mount(), e))?;
        Ok(Storm {
            dev: dev.into(),
            rng,
            link: Some(Link::lock(dev)?),
            model: Model::fresh(),
            senders,
            cgroups: CGROUPS.iter().map(|c| (*c).into()).collect(),
            counts: BTreeMap::new(),
            came: BTreeMap::new(),
            done: 0,
            refused: 0,
            sent: 0,
        })
    }

    fn link(&self) -> &Link {
        self.link.as_ref().expect("the link is held between edits")
    }

    /// The link is as the model says, every queue's account balances, and what was sent has
    /// come. On several processors another one may still be busy with it.
    fn check(&mut self) -> Result<(), Fault> {
        let end = Instant::now() + PATIENCE;
        loop {
            let found = self.look()?;
            let missing = self.missing(&found);
            let Some(missing) = missing else {
                self.counts = found.counts;
                self.came.clear();
                return Ok(());
            };
            if Instant::now() > end {
                return Err(missing);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn look(&mut self) -> Result<Found, Fault> {
        let found = Found::look(self.link(), &self.cgroups, &self.model.rules).map_err(fault)?;
        for (name, queue) in &mut self.model.queues {
            match found.model.queues.get(name) {
                Some(is) if queue.id == ID_UNKNOWN => queue.id = is.id,
                _ => (),
            }
        }
        if found.model != self.model {
            return Err(found.model.unlike(&self.model));
        }
        for (name, counts) in &found.counts {
            balanced(name, counts, found.held[name])?;
        }
        Ok(found)
    }

    /// Of the packets that were sent, those that no queue counts.
    fn missing(&self, found: &Found) -> Option<Fault> {
        self.came.iter().find_map(|(name, came)| {
            let before = self.counts.get(name).map_or(0, |c| c.enqueued);
            let now = found.counts[name].enqueued;
            let few = now < before + came;
            few.then(|| format!("{came} packets were sent to {name}: {now} came after {before}"))
        })
    }

    /// A queue that is removed takes its counts along.
    fn forget(&mut self, name: &str) {
        self.came.remove(name);
        self.counts.remove(name);
    }

    /// Packets of some sender.
    fn send(&mut self) -> Result<(), Fault> {
        let sender = self.rng.usize(..SENDERS);
        let (sent, packet) = self.senders[sender].send(&mut self.rng).map_err(fault)?;
        let Sender { chosen, cgroup, .. } = &self.senders[sender];
        let name = self.model.queue_of(&packet, *chosen, cgroup);
        *self.came.entry(name.into()).or_default() += sent;
        self.sent += sent;
        Ok(())
    }

    /// The link's account balances, and its packets move.
    fn account(&self) -> Result<(), Fault> {
        let look = || self.link().running().look().map_err(fault);
        let total = || -> Result<u64, Fault> {
            let queues = self.link().running().queues().map_err(fault)?;
            Ok(queues
                .iter()
                .map(|q| q.counts.sent + q.counts.dropped)
                .sum())
        };
        let link = look()?;
        balanced("what is gone", &link.gone, (0, 0))?;
        if link.state.unlocked > 0 {
            return Err(format!("{} packets found no lock", link.state.unlocked));
        }
        let (first, end) = (total()?, Instant::now() + PATIENCE);
        while total()? == first && look()?.packets > 0 {
            if Instant::now() > end {
                return Err(format!("{} packets do not leave", look()?.packets));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Another tree takes the place of this one, whose packets are dropped.
    fn replace(&mut self) -> Result<(), Fault> {
        self.link = None;
        let options = Options {
            replace: true,
            rate: Rate::from_bytes(2_500_000),
            ..Options::default()
        };
        link::up(&self.dev, &options).map_err(fault)?;
        self.link = Some(Link::lock(&self.dev).map_err(fault)?);
        self.model = Model::fresh();
        self.counts.clear();
        self.came.clear();
        // They have a queue of a link that is not there any more, which is none.
        self.senders.iter_mut().for_each(|s| s.chosen = None);
        self.check()
    }

    fn edit(&mut self, number: u32) -> Result<(), Fault> {
        let edit = edits::any(self);
        let what = &edit.what;
        match (edit.expect, &edit.result) {
            (Expect::Done | Expect::UnlessBusy, Ok(())) => self.done += 1,
            (Expect::Refused, Err(_)) => self.refused += 1,
            (Expect::UnlessBusy, Err(e)) if e.contains("packets wait in it") => self.refused += 1,
            (_, Ok(())) => return Err(format!("{what}: was not refused")),
            (_, Err(e)) => return Err(format!("{what}: {e}")),
        }
        self.send()?;
        if number % COMPARED > 0 && self.model.queues.values().all(|q| q.id != ID_UNKNOWN) {
            return Ok(());
        }
        self.check().map_err(|e| format!("after {what}: {e}"))
    }

    fn run(&mut self, edits: u32) -> Result<(), Fault> {
        for i in 1..=edits {
            let at = |e| format!("edit {i}: {e}");
            self.edit(i).map_err(at)?;
            if i % ACCOUNT == 0 {
                self.check().map_err(at)?;
                self.account().map_err(at)?;
            }
            if i % REPLACE == 0 {
                self.replace().map_err(at)?;
            }
        }
        self.link()
            .set(Some(Rate::NONE), None, None, None)
            .map_err(fault)?;
        self.check()?;
        match traffic::drained(&self.senders, PATIENCE) {
            true => Ok(()),
            false => Err("the kernel keeps packets that were sent".into()),
        }
    }
}

/// enqueued = sent + refused + dropped + queued, in packets and bytes.
fn balanced(name: &str, c: &Counts, held: (u32, u64)) -> Result<(), Fault> {
    let packets = c.sent + c.refused + c.dropped + u64::from(held.0);
    let bytes = c.sent_bytes + c.refused_bytes + c.dropped_bytes + held.1;
    match (c.enqueued, c.enqueued_bytes) == (packets, bytes) {
        true => Ok(()),
        false => Err(format!("{name} does not balance: {c:?}, {held:?} queued")),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers = args.get(1).zip(args.get(2));
    let numbers = numbers.and_then(|(e, s)| Some((e.parse().ok()?, s.parse().ok()?)));
    let (Some(dev), Some((edits, seed))) = (args.first(), numbers) else {
        eprintln!("usage: link-storm DEV EDITS SEED");
        return ExitCode::from(2);
    };
    println!("seed {seed}");
    let mut storm = match Storm::new(dev, seed) {
        Ok(storm) => storm,
        Err(error) => {
            println!("not ok storm: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = storm.run(edits);
    let Storm {
        done,
        refused,
        sent,
        ..
    } = storm;
    println!("{done} done, {refused} refused, {sent} packets sent");
    match result {
        Ok(()) => {
            println!("ok storm");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            println!("not ok storm: seed {seed}, {fault}");
            ExitCode::FAILURE
        }
    }
}
