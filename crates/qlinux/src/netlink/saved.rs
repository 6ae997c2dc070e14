// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queueing discipline that an interface had, kept to be put back.
//!
//! The kernel tells what it has as messages that are nearly those that make it
//! so; [`kinds`] knows the differences. Only what was configured is kept: what
//! the kernel made by itself comes back by itself.

use super::message::Message;
use super::socket::{Refused, Socket};
use super::{
    delete_root, filters, kind_of, kinds, major, name_of, qdiscs, tc_error, Tc, RTM_GETCHAIN,
    RTM_NEWCHAIN, TC_H_ROOT,
};
use crate::{Error, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use nix::errno::Errno;
use nix::libc;
use std::collections::BTreeMap;

const MAGIC: [u8; 8] = *b"qltcsav1";
/// The magic and the length of what follows.
const HEAD: usize = 12;
/// Of many differences, so many are named.
const NAMED_MAX: usize = 3;

/// What was configured at an interface's root: queueing disciplines, classes and
/// filters, in the order in which they are put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    objects: Vec<Message>,
}

impl Saved {
    /// The most bytes that it takes.
    pub const BYTES_MAX: usize = 256 << 10;

    /// Reads it, and refuses what could not be put back as it is.
    pub fn take(index: u32) -> Result<Saved> {
        let found = Found::read(index)?;
        if let Some((kind, why)) = found.refusal() {
            return Err(not_restorable(index, &kind, why));
        }
        let saved = found.described();
        let bytes = saved.to_bytes().len();
        if bytes > Saved::BYTES_MAX {
            let kind = saved.objects.first().map(kind_of).unwrap_or_default();
            let why = format!("it takes {bytes} bytes and {} are kept", Saved::BYTES_MAX);
            return Err(not_restorable(index, &kind, why));
        }
        Ok(saved)
    }

    /// Whether there was only what the kernel makes by itself.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The kind of the queueing discipline at the root.
    pub fn kind(&self) -> Option<String> {
        self.objects.first().map(kind_of)
    }

    /// For keeping, in the byte order of this machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        let objects: Vec<u8> = self.objects.iter().flat_map(Message::to_bytes).collect();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(objects.len() as u32).to_ne_bytes());
        bytes.extend_from_slice(&objects);
        bytes
    }

    /// What [`Saved::to_bytes`] gave; anything may follow it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Saved> {
        let unreadable = |why| Error::SavedQdisc { why };
        let rest = bytes
            .strip_prefix(&MAGIC)
            .ok_or(unreadable("it does not begin as it should"))?;
        let length = super::u32_at(rest, 0)
            .and_then(|length| usize::try_from(length).ok())
            .filter(|length| *length <= Saved::BYTES_MAX - HEAD)
            .ok_or(unreadable("its length is wrong"))?;
        let objects = rest
            .get(4..4 + length)
            .ok_or(unreadable("its end is missing"))?;
        let objects = Message::split(objects).ok_or(unreadable("its objects are torn"))?;
        let known = |m: &Message| {
            matches!(
                m.kind,
                libc::RTM_NEWQDISC | libc::RTM_NEWTCLASS | libc::RTM_NEWTFILTER | RTM_NEWCHAIN
            )
        };
        if !objects.iter().all(|m| known(m) && kinds::is_whole(m)) {
            return Err(unreadable("it has objects of another kind"));
        }
        Ok(Saved { objects })
    }

    /// Deletes what is at the root, puts back what was, and compares. If one step
    /// fails, the kernel's default remains: half of a tree might serve nothing.
    pub fn restore(&self, index: u32) -> Result<()> {
        delete_root(index)?;
        if self.is_empty() {
            return Ok(());
        }
        let mut socket = Socket::open()?;
        for object in &self.objects {
            let request = kinds::request(object, index);
            if let Err(refused) = socket.request(request, NLM_F_CREATE | NLM_F_EXCL) {
                let _ = delete_root(index);
                return Err(step_error(refused, object, index));
            }
        }
        match self.differences(&Found::read(index)?.described()) {
            Some(differences) => Err(Error::RestoredOtherwise {
                dev: name_of(index),
                differences,
            }),
            None => Ok(()),
        }
    }

    /// In what the other differs, in words.
    fn differences(&self, now: &Saved) -> Option<String> {
        let (then, now) = (self.by_name(), now.by_name());
        let mut all: Vec<String> = Vec::new();
        for (name, object) in &then {
            match now.get(name) {
                None => all.push(format!("{name} is missing")),
                Some(found) if found != object => all.push(format!("{name} is set otherwise")),
                Some(_) => {}
            }
        }
        let added = now.keys().filter(|name| !then.contains_key(*name));
        all.extend(added.map(|name| format!("{name} was added")));
        let more = all.len().saturating_sub(NAMED_MAX);
        all.truncate(NAMED_MAX);
        if more > 0 {
            all.push(format!("{more} more"));
        }
        (!all.is_empty()).then(|| all.join(", "))
    }

    fn by_name(&self) -> BTreeMap<String, Vec<&Message>> {
        let mut all: BTreeMap<String, Vec<&Message>> = BTreeMap::new();
        for object in &self.objects {
            all.entry(kinds::name(object)).or_default().push(object);
        }
        all
    }
}

/// One queueing discipline as the kernel told it, and what belongs to it.
struct Node {
    qdisc: Message,
    classes: Vec<Message>,
    chains: Vec<Message>,
    filters: Vec<Message>,
    /// Whether those are all.
    complete: bool,
}

/// A whole tree, parents first.
struct Found(Vec<Node>);

impl Found {
    fn read(index: u32) -> Result<Found> {
        let mut socket = Socket::open()?;
        let tree = tree_order(
            qdiscs(&mut socket)?
                .into_iter()
                .filter_map(|m| Tc::parse(&m.body).map(|tc| (tc, m)))
                .filter(|(tc, _)| tc.index == index && major(tc.handle) != 0)
                .collect(),
        );
        if tree.is_empty() {
            return Ok(Found(Vec::new()));
        }
        let classes = list(&mut socket, libc::RTM_GETTCLASS, index, 0)?.unwrap_or_default();
        let nodes = tree
            .into_iter()
            .map(|(tc, qdisc)| node(&mut socket, index, tc, qdisc, &classes));
        nodes.collect::<Result<_>>().map(Found)
    }

    /// The kind of a queueing discipline that could not be put back, and why.
    fn refusal(&self) -> Option<(String, String)> {
        self.0.iter().find_map(|node| {
            if !node.complete {
                let why = "the kernel cannot list its filters if one is fw without a mark";
                return Some((kind_of(&node.qdisc), why.into()));
            }
            let objects = node.filters.iter().chain([&node.qdisc]);
            let why = objects.filter_map(kinds::refusal).next().or_else(|| {
                filters::tables_collide(&node.filters)
                    .then(|| "its tables of u32 filters would get other numbers".into())
            })?;
            Some((kind_of(&node.qdisc), why))
        })
    }

    fn described(self) -> Saved {
        let mut objects = Vec::new();
        let mut last = Vec::new();
        for node in self.0 {
            objects.push(node.qdisc);
            objects.extend(node.classes);
            last.extend(node.chains);
            last.extend(filters::ordered(node.filters));
        }
        objects.extend(last);
        Saved {
            objects: objects.iter().filter_map(kinds::described).collect(),
        }
    }
}

fn node(
    socket: &mut Socket,
    index: u32,
    tc: Tc,
    qdisc: Message,
    classes: &[Message],
) -> Result<Node> {
    let own: Vec<(Tc, Message)> = classes
        .iter()
        .filter_map(|m| Tc::parse(&m.body).map(|tc| (tc, m.clone())))
        .filter(|(class, _)| major(class.handle) == major(tc.handle))
        .filter(|(class, _)| class.handle & 0xffff != 0)
        .collect();
    let own = if kinds::has_classes(&kind_of(&qdisc)) {
        parents_first(own)
    } else {
        Vec::new()
    };
    let mut node = Node {
        qdisc,
        classes: Vec::new(),
        chains: Vec::new(),
        filters: Vec::new(),
        complete: true,
    };
    let holders: Vec<u32> = [tc.handle]
        .into_iter()
        .chain(own.iter().map(|(class, _)| class.handle))
        .collect();
    for holder in holders {
        let chains = list(socket, RTM_GETCHAIN, index, holder)?.unwrap_or_default();
        let Some(found) = list(socket, libc::RTM_GETTFILTER, index, holder)? else {
            node.complete = false;
            continue;
        };
        node.complete &= !filters::lone_fw(&found);
        node.chains.extend(filters::bare_chains(chains, &found));
        node.filters.extend(found);
    }
    node.classes = own.into_iter().map(|(_, class)| class).collect();
    Ok(node)
}

/// What the kernel lists. There are filters that it cannot: `fw` without options,
/// after which it says that its buffer is too small.
fn list(socket: &mut Socket, kind: u16, index: u32, parent: u32) -> Result<Option<Vec<Message>>> {
    let tc = Tc {
        index,
        parent,
        ..Tc::default()
    };
    match socket.dump(&Message::new(kind, &tc.to_bytes())) {
        Ok(all) => Ok(Some(all)),
        Err(refused) if refused.errno == Errno::EMSGSIZE => Ok(None),
        Err(refused) => Err(tc_error(
            refused,
            index,
            "reading the queueing discipline of".into(),
        )),
    }
}

/// The root and all below it, parents first.
fn tree_order(mut all: Vec<(Tc, Message)>) -> Vec<(Tc, Message)> {
    let mut found: Vec<(Tc, Message)> = Vec::new();
    let mut parents = vec![None];
    while let Some(parent) = parents.pop() {
        let below = |tc: &Tc| match parent {
            None => tc.parent == TC_H_ROOT,
            Some(parent) => tc.parent != TC_H_ROOT && major(tc.parent) == parent,
        };
        let (mine, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(tc, _)| below(tc));
        all = others;
        parents.extend(mine.iter().map(|(tc, _)| Some(major(tc.handle))));
        found.extend(mine);
    }
    found
}

/// Classes, each after the one it is in.
fn parents_first(mut classes: Vec<(Tc, Message)>) -> Vec<(Tc, Message)> {
    let parents: BTreeMap<u32, u32> = classes
        .iter()
        .map(|(class, _)| (class.handle, class.parent))
        .collect();
    let depth = |class: u32| {
        std::iter::successors(Some(class), |at| parents.get(at).copied())
            .take(parents.len() + 1)
            .count()
    };
    classes.sort_by_cached_key(|(class, _)| (depth(class.handle), class.handle));
    classes
}

fn not_restorable(index: u32, kind: &str, why: String) -> Error {
    Error::NotRestorable {
        kind: kind.into(),
        dev: name_of(index),
        why,
    }
}

fn step_error(refused: Refused, object: &Message, index: u32) -> Error {
    if refused.errno == Errno::ENODEV || refused.errno == Errno::EPERM {
        return tc_error(
            refused,
            index,
            format!("putting back {} of", kinds::name(object)),
        );
    }
    Error::NotRestored {
        object: kinds::name(object),
        dev: name_of(index),
        errno: refused.errno,
        why: refused.why(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TCA_KIND, TCA_OPTIONS};
    use super::*;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    fn object(kind: u16, name: &str, handle: u32, parent: u32, options: &[u8]) -> (Tc, Message) {
        let tc = Tc {
            handle,
            parent,
            ..Tc::default()
        };
        let message = Message::new(kind, &tc.to_bytes())
            .with_text(TCA_KIND, name)
            .with(TCA_OPTIONS, options);
        (tc, message)
    }

    fn qdisc(handle: u32, parent: u32) -> (Tc, Message) {
        object(libc::RTM_NEWQDISC, "prio", handle, parent, &[1, 2, 3, 4])
    }

    fn example() -> Saved {
        let objects = [qdisc(0x1_0000, TC_H_ROOT), qdisc(0x2_0000, 0x1_0001)];
        Saved {
            objects: objects.map(|(_, m)| m).into(),
        }
    }

    #[test]
    fn bytes_and_back() {
        for saved in [
            example(),
            Saved {
                objects: Vec::new(),
            },
        ] {
            let mut bytes = saved.to_bytes();
            assert_eq!(Saved::from_bytes(&bytes).unwrap(), saved);
            for length in 0..bytes.len() {
                let said = Saved::from_bytes(&bytes[..length]).unwrap_err();
                assert!(matches!(said, Error::SavedQdisc { .. }));
            }
            bytes.resize(1000, 0);
            assert_eq!(Saved::from_bytes(&bytes).unwrap(), saved);
        }
        let mut long = MAGIC.to_vec();
        long.extend_from_slice(&u32::MAX.to_ne_bytes());
        assert!(Saved::from_bytes(&long).is_err());
    }

    #[test]
    fn what_differs() {
        let saved = example();
        assert_eq!(saved.differences(&saved), None);
        let mut now = example();
        now.objects[0] = object(libc::RTM_NEWQDISC, "prio", 0x1_0000, TC_H_ROOT, &[9]).1;
        now.objects[1] = qdisc(0x3_0000, 0x1_0001).1;
        assert_eq!(
            saved.differences(&now).unwrap(),
            "qdisc prio 1: is set otherwise, qdisc prio 2: is missing, qdisc prio 3: was added"
        );
    }

    #[test]
    fn trees() {
        let all = vec![
            qdisc(0x3_0000, 0x2_0001),
            qdisc(0xffff_0000, 0xffff_fff1),
            qdisc(0x2_0000, 0x1_0005),
            qdisc(0x1_0000, TC_H_ROOT),
            qdisc(0x7_0000, 0x8_0001),
            qdisc(0x8_0000, 0x7_0001),
        ];
        let order: Vec<u16> = tree_order(all)
            .iter()
            .map(|(tc, _)| major(tc.handle))
            .collect();
        assert_eq!(order, [1, 2, 3]);
        let class = |handle, parent| object(libc::RTM_NEWTCLASS, "htb", handle, parent, &[]);
        let all = vec![
            class(0x1_0002, 0x1_0009),
            class(0x1_0009, 0x1_0010),
            class(0x1_0010, TC_H_ROOT),
            // One that is its own parent.
            class(0x1_0011, 0x1_0011),
        ];
        let order: Vec<u32> = parents_first(all).iter().map(|(tc, _)| tc.handle).collect();
        assert_eq!(order, [0x1_0010, 0x1_0009, 0x1_0002, 0x1_0011]);
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn odd_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300),
            changes in proptest::collection::vec((0usize..120, any::<u8>()), 1..5)) {
            let _ = Saved::from_bytes(&bytes);
            let mut headed = MAGIC.to_vec();
            headed.extend_from_slice(&(bytes.len() as u32).to_ne_bytes());
            headed.extend_from_slice(&bytes);
            let _ = Saved::from_bytes(&headed);
            let mut garbled = example().to_bytes();
            for (at, to) in changes {
                if let Some(place) = garbled.get_mut(at) {
                    *place = to;
                }
            }
            if let Ok(saved) = Saved::from_bytes(&garbled) {
                prop_assert!(saved.differences(&saved).is_none());
                for object in &saved.objects {
                    let _ = (kinds::request(object, 1), kinds::name(object));
                }
                prop_assert_eq!(Saved::from_bytes(&saved.to_bytes()).unwrap().objects.len(), saved.objects.len());
            }
        }
    }
}
