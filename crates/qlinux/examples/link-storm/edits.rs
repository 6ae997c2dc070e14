// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random changes, of which many are wrong, and what the model expects of each.

use crate::model::{Class, Said, ID_UNKNOWN};
use crate::{traffic, Storm};
use qlinux::link::{Codel, Discipline, Limits, QueueName, Rate, Who};
use qlinux::{ClassPath, Weight};

const CLASSES: u32 = 10;
const CLASSES_MAX: usize = 28;
const DEPTH_MAX: usize = 5;
const QUEUES: u32 = 14;
const RULES_MAX: usize = 10;
const USERS: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub enum Expect {
    Done,
    Refused,
    /// It may be refused because packets wait.
    UnlessBusy,
}

pub struct Edit {
    /// In words.
    pub what: String,
    pub expect: Expect,
    pub result: Result<(), String>,
}

fn expect(good: bool) -> Expect {
    match good {
        true => Expect::Done,
        false => Expect::Refused,
    }
}

/// One change. What is done is done in the model too.
pub fn any(s: &mut Storm) -> Edit {
    match s.rng.u32(..100) {
        0..=15 => add_class(s),
        16..=25 => del_class(s),
        26..=31 => set_class(s),
        32..=41 => add_queue(s),
        42..=47 => set_queue(s),
        48..=59 => place_queue(s),
        60..=66 => del_queue(s),
        67..=73 => add_rule(s),
        74..=77 => del_rule(s),
        78..=83 => cgroup(s),
        84..=86 => default(s),
        87..=91 => choose(s),
        92..=94 => pace(s),
        95..=96 => grant(s),
        _ => by_number(s),
    }
}

fn weight(s: &mut Storm) -> Weight {
    let n = s.rng.choice([1, 10_000, 0]).unwrap_or(0);
    let n = if n == 0 { s.rng.i64(1..=10_000) } else { n };
    Weight::new(n).expect("it is in range")
}

/// Mostly a class that exists.
fn class(s: &mut Storm) -> String {
    if s.rng.u32(..12) == 0 {
        return "/nosuch".into();
    }
    let at = s.rng.usize(..s.model.classes.len());
    s.model.classes.keys().nth(at).cloned().unwrap_or_default()
}

/// Mostly a queue that exists.
fn queue(s: &mut Storm) -> String {
    if s.rng.u32(..12) == 0 {
        return "nosuch".into();
    }
    let at = s.rng.usize(..s.model.queues.len());
    s.model.queues.keys().nth(at).cloned().unwrap_or_default()
}

fn path(text: &str) -> ClassPath {
    text.parse().expect("a path")
}

fn name(text: &str) -> QueueName {
    text.parse().expect("a queue's name")
}

fn said<T>(result: qlinux::Result<T>) -> Result<(), String> {
    result.map(drop).map_err(|e| e.to_string())
}

fn discipline(s: &mut Storm) -> Discipline {
    let all = [
        Discipline::None,
        Discipline::Fifo,
        Discipline::Sfq,
        Discipline::Fq,
    ];
    s.rng.choice(all).unwrap_or_default()
}

// ---- classes -----------------------------------------------------------------

fn add_class(s: &mut Storm) -> Edit {
    let above = class(s);
    let text = format!("{}/c{}", above.trim_end_matches('/'), s.rng.u32(..CLASSES));
    let (leaf, weight) = (discipline(s), weight(s));
    let inner = s.model.classes.get(&above);
    let inner = inner.is_some_and(|class| class.leaf == Discipline::None);
    let deep = path(&text).components().count() > DEPTH_MAX;
    if inner && (deep || s.model.classes.len() >= CLASSES_MAX) {
        return del_class(s);
    }
    let result = said(s.link().add_class(&path(&text), weight, leaf));
    let good = inner && !s.model.classes.contains_key(&text);
    if result.is_ok() {
        let weight = weight.get();
        s.model.add_class(&text, Class { weight, leaf });
    }
    Edit {
        what: format!("class add {text} {} {weight:?}", leaf.name()),
        expect: expect(good),
        result,
    }
}

fn del_class(s: &mut Storm) -> Edit {
    let text = class(s);
    let users = s.model.queues.get(&text).map_or(0, |own| own.users);
    let good = s.model.classes.contains_key(&text)
        && text != "/"
        && users == 0
        && !s.model.has_children(&text)
        && !s.model.has_queues(&text);
    let result = said(s.link().del_class(&path(&text)));
    if result.is_ok() {
        s.forget(&text);
        s.model.classes.remove(&text);
        s.model.remove_queue(&text);
    }
    Edit {
        what: format!("class del {text}"),
        expect: if good {
            Expect::UnlessBusy
        } else {
            Expect::Refused
        },
        result,
    }
}

fn set_class(s: &mut Storm) -> Edit {
    let (text, weight) = (class(s), weight(s));
    let good = s.model.classes.contains_key(&text) && text != "/";
    let result = said(s.link().set_class(&path(&text), weight));
    if let (Ok(()), Some(class)) = (&result, s.model.classes.get_mut(&text)) {
        class.weight = weight.get();
    }
    Edit {
        what: format!("class set {text} {weight:?}"),
        expect: expect(good),
        result,
    }
}

// ---- queues ------------------------------------------------------------------

/// Both, one or none; sometimes what cannot be.
fn limits(s: &mut Storm) -> (Limits, bool) {
    let packets = s
        .rng
        .choice([None, Some(0), Some(1), Some(30), Some(65535), Some(65536)]);
    let bytes = s
        .rng
        .choice([None, Some(0), Some(1), Some(100_000), Some(1 << 40)]);
    let (packets, bytes) = (packets.flatten(), bytes.flatten());
    let wrong = matches!(packets, Some(0 | 65536)) || bytes == Some(0);
    (Limits { packets, bytes }, !wrong)
}

fn add_queue(s: &mut Storm) -> Edit {
    let text = format!("q{}", s.rng.u32(..QUEUES));
    let leaf = s.rng.bool().then(|| class(s));
    let weight = weight(s);
    let (limits, right) = limits(s);
    let good = right
        && !s.model.queues.contains_key(&text)
        && leaf.as_ref().is_none_or(|leaf| s.model.is_leaf(leaf));
    let to = leaf.as_deref().map(path);
    let result = said(s.link().add_queue(&text, weight, limits, to.as_ref()));
    if result.is_ok() {
        let limits = (
            limits.packets.unwrap_or(1000),
            limits.bytes.unwrap_or(32 << 20),
        );
        s.model
            .add_queue(&text, weight.get(), Some(limits), leaf.as_deref());
    }
    Edit {
        what: format!("queue add {text} {limits:?} at {leaf:?}"),
        expect: expect(good),
        result,
    }
}

fn set_queue(s: &mut Storm) -> Edit {
    let text = queue(s);
    let weight = s.rng.bool().then(|| weight(s));
    let (limits, right) = limits(s);
    let good = right && s.model.queues.contains_key(&text);
    let result = said(s.link().set_queue(&name(&text), weight, limits));
    if let (Ok(()), Some(queue)) = (&result, s.model.queues.get_mut(&text)) {
        queue.weight = weight.map_or(queue.weight, Weight::get);
        queue.limits.0 = limits.packets.unwrap_or(queue.limits.0);
        queue.limits.1 = limits.bytes.unwrap_or(queue.limits.1);
    }
    Edit {
        what: format!("queue set {text} {weight:?} {limits:?}"),
        expect: expect(good),
        result,
    }
}

/// Attaches or moves it.
fn place_queue(s: &mut Storm) -> Edit {
    let (text, leaf, attach) = (queue(s), class(s), s.rng.u32(..3) == 0);
    let is = s.model.queues.get(&text);
    let right = is.is_some_and(|queue| queue.leaf.is_none() == attach);
    let good = right && !text.starts_with('/') && s.model.is_leaf(&leaf);
    let (what, result) = match attach {
        true => ("attach", s.link().attach_queue(&name(&text), &path(&leaf))),
        false => ("move", s.link().move_queue(&name(&text), &path(&leaf))),
    };
    if let (Ok(()), Some(queue)) = (&result, s.model.queues.get_mut(&text)) {
        queue.leaf = Some(leaf.clone());
    }
    Edit {
        what: format!("queue {what} {text} {leaf}"),
        expect: expect(good),
        result: said(result),
    }
}

fn del_queue(s: &mut Storm) -> Edit {
    let text = queue(s);
    let idle = s.model.queues.get(&text).is_some_and(|q| q.users == 0);
    let good = idle && !text.starts_with('/');
    let result = said(s.link().del_queue(&name(&text)));
    if result.is_ok() {
        s.forget(&text);
        s.model.remove_queue(&text);
    }
    Edit {
        what: format!("queue del {text}"),
        expect: if good {
            Expect::UnlessBusy
        } else {
            Expect::Refused
        },
        result,
    }
}

// ---- who goes where ----------------------------------------------------------

fn add_rule(s: &mut Storm) -> Edit {
    if s.model.rules.len() >= RULES_MAX {
        return del_rule(s);
    }
    let text = queue(s);
    let rng = &mut s.rng;
    let rule = Said {
        six: rng.bool().then(|| rng.bool()),
        ports: rng.bool().then(|| traffic::ports(rng)),
        dscp: (rng.u32(..3) == 0).then(|| rng.u8(0..3) * 8),
        mark: (rng.u32(..3) == 0).then(|| rng.u32(0..3)),
        tcp: rng.u32(..6) == 0,
    };
    let at = rng.bool().then(|| rng.u32(0..12));
    let good = s.model.queues.contains_key(&text);
    let result = said(s.link().add_rule(at, &name(&text), &rule.rule()));
    if result.is_ok() {
        let last = s.model.rules.len();
        let at = at.map_or(last, |at| last.min(at.max(1) as usize - 1));
        s.model.rules.insert(at, (rule, text.clone()));
        s.model.use_queue(&text, 1);
    }
    Edit {
        what: format!("rule add {text} {} at {at:?}", rule.rule()),
        expect: expect(good),
        result,
    }
}

fn del_rule(s: &mut Storm) -> Edit {
    let at = s.rng.u32(0..=s.model.rules.len() as u32 + 1);
    let good = (1..=s.model.rules.len()).contains(&(at as usize));
    let result = said(s.link().del_rule(at));
    if result.is_ok() {
        let (_, queue) = s.model.rules.remove(at as usize - 1);
        s.model.use_queue(&queue, -1);
    }
    Edit {
        what: format!("rule del {at}"),
        expect: expect(good),
        result,
    }
}

fn cgroup(s: &mut Storm) -> Edit {
    let cgroup = s.rng.choice(crate::CGROUPS).unwrap_or("/").to_string();
    let (detach, text) = (s.rng.u32(..3) == 0, queue(s));
    let had = s.model.cgroups.get(&cgroup).cloned();
    let (good, result) = match detach {
        true => (had.is_some(), s.link().detach_cgroup(&path(&cgroup))),
        false => (
            s.model.queues.contains_key(&text),
            s.link().attach_cgroup(&name(&text), &path(&cgroup)),
        ),
    };
    if result.is_ok() {
        if let Some(had) = had {
            s.model.use_queue(&had, -1);
            s.model.cgroups.remove(&cgroup);
        }
        if !detach {
            s.model.use_queue(&text, 1);
            s.model.cgroups.insert(cgroup.clone(), text.clone());
        }
    }
    Edit {
        what: match detach {
            true => format!("detach {cgroup}"),
            false => format!("attach {text} {cgroup}"),
        },
        expect: expect(good),
        result: said(result),
    }
}

fn default(s: &mut Storm) -> Edit {
    let text = queue(s);
    let good = s.model.queues.contains_key(&text);
    let result = said(s.link().set_default(&name(&text)));
    if result.is_ok() {
        let had = std::mem::replace(&mut s.model.default, text.clone());
        s.model.use_queue(&had, -1);
        s.model.use_queue(&text, 1);
    }
    Edit {
        what: format!("default {text}"),
        expect: expect(good),
        result,
    }
}

/// A socket chooses a queue; sometimes one that was removed, or none.
fn choose(s: &mut Storm) -> Edit {
    let (sender, text) = (s.rng.usize(..s.senders.len()), queue(s));
    let id = match s.model.queues.get(&text) {
        Some(queue) => queue.id,
        None => s.rng.u32(0..=0xffff),
    };
    let leave = s.rng.u32(..4) == 0;
    let exists = s.model.queues.values().any(|queue| queue.id == id);
    let (chosen, sid) = match leave {
        true => (None, 0),
        false => (Some(id), s.link().sid(id)),
    };
    let result = s.senders[sender].choose(chosen, sid);
    Edit {
        what: format!("socket {sender} chooses {chosen:?}"),
        expect: expect(leave || exists && id != ID_UNKNOWN),
        result: result.map_err(|e| e.to_string()),
    }
}

fn grant(s: &mut Storm) -> Edit {
    let (text, user, revoke) = (queue(s), 1000 + s.rng.u64(..USERS), s.rng.bool());
    let whom = Who::User(user as u32);
    let id = s.model.queues.get(&text).map(|queue| queue.id);
    let had = id.is_some_and(|id| s.model.grants.contains(&(user, id)));
    let (what, good, result) = match revoke {
        true => ("revoke", had, s.link().revoke(&name(&text), &whom)),
        false => ("grant", id.is_some(), s.link().grant(&name(&text), &whom)),
    };
    if let (Ok(()), Some(id)) = (&result, id) {
        match revoke {
            true => s.model.grants.remove(&(user, id)),
            false => s.model.grants.insert((user, id)),
        };
    }
    Edit {
        what: format!("{what} {text} {user}"),
        expect: expect(good),
        result: said(result),
    }
}

// ---- the link ----------------------------------------------------------------

fn pace(s: &mut Storm) -> Edit {
    let mbit = 125_000;
    let rate = s.rng.choice([0, 5 * mbit, 20 * mbit, 100 * mbit, 124]);
    let overhead = s
        .rng
        .choice([None, Some(0), Some(38), Some(1025)])
        .flatten();
    let codel = s.rng.choice([
        None,
        Some(Codel::OFF),
        Some(Codel::default()),
        Codel::new(1_000_000, 5_000_000).ok(),
    ]);
    let rate = rate.unwrap_or(0);
    let good = rate != 124 && overhead != Some(1025);
    let to = Some(Rate::from_bytes(rate));
    let result = s.link().set(to, overhead, None, codel.flatten());
    Edit {
        what: format!("rate {rate} overhead {overhead:?}"),
        expect: expect(good),
        result: said(result),
    }
}

/// Calls by numbers that mean nothing, or lines below an sfq or fq leaf.
fn by_number(s: &mut Storm) -> Edit {
    let (queue, node, weight) = (queue(s), s.rng.u32(..10_000), weight(s));
    let which = s.rng.u32(..6);
    let tree = match s.link().tree() {
        Ok(tree) => tree,
        Err(error) => {
            return Edit {
                what: "a look".into(),
                expect: Expect::Done,
                result: Err(error.to_string()),
            }
        }
    };
    let known = tree.number(node).is_some();
    let id = s.model.queues.get(&queue).map_or(0, |queue| queue.id);
    let running = s.link().running();
    let (what, answer) = match which {
        _ if known => return default(s),
        0 => ("rmnod", running.rmnod(node)),
        1 => ("set_weight", running.set_weight(node, weight)),
        2 => ("mknod", running.mknod("x", node, weight, Discipline::Fifo)),
        3 => ("attachq to an inner node", running.attachq(id, 1)),
        4 => ("rmnod of the root", running.rmnod(1)),
        _ => ("attachq", running.attachq(id, node)),
    };
    let result = match answer {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(errno)) => Err(errno.to_string()),
        Err(error) => Err(error.to_string()),
    };
    Edit {
        what: format!("{what} of node {node}, queue {queue}"),
        expect: Expect::Refused,
        result,
    }
}
