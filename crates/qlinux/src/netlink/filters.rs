// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which filters are put back, and how those of u32 are numbered.

use super::message::{attr, attrs, put, u32_attr, Message};
use super::{kind_of, tc_attrs, Tc, RTM_NEWCHAIN, TCA_CHAIN, TCA_OPTIONS};
use std::collections::BTreeSet;

const TCA_U32_HASH: u16 = 2;
const TCA_U32_LINK: u16 = 3;
const TCA_U32_DIVISOR: u16 = 4;
/// The number of the table at which u32 begins, whatever it is called.
const U32_ROOT: u32 = 0xfff0_0000;
const U32_TABLE: u32 = 0xfff0_0000;
/// The name of the first such table; later ones count up from here.
const U32_FIRST: u32 = 0x8000_0000;
const U32_LAST: u32 = 0xffe0_0000;
const U32_STEP: u32 = 0x0010_0000;

/// The filters of one place, preference and kind, as dumped.
struct Group {
    parent: u32,
    chain: u32,
    info: u32,
    kind: String,
    messages: Vec<Message>,
}

/// Filters of one queueing discipline and its classes, from dumps, in the order in
/// which they are put back.
pub(super) fn ordered(dumped: Vec<Message>) -> Vec<Message> {
    let mut groups = grouped(dumped);
    // The kernel numbers the tables of u32 in the order of their making, of a
    // queueing discipline and all its classes together.
    groups.sort_by_key(|group| u32_root(group).unwrap_or(0));
    let all = groups.into_iter().flat_map(in_order);
    // A filter of u32 may lead to a table of another group.
    let (linked, mut all): (Vec<_>, Vec<_>) = all.partition(|m| {
        kind_of(m) == "u32"
            && attr(tc_attrs(m), TCA_OPTIONS).is_some_and(|o| attr(o, TCA_U32_LINK).is_some())
    });
    all.extend(linked);
    all
}

fn grouped(dumped: Vec<Message>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for message in dumped {
        let Some(tc) = Tc::parse(&message.body) else {
            continue;
        };
        let chain = u32_attr(tc_attrs(&message), TCA_CHAIN).unwrap_or(0);
        let kind = kind_of(&message);
        match groups.last_mut() {
            Some(g)
                if (g.parent, g.chain, g.info) == (tc.parent, chain, tc.info) && g.kind == kind =>
            {
                g.messages.push(message);
            }
            _ => groups.push(Group {
                parent: tc.parent,
                chain,
                info: tc.info,
                kind,
                messages: vec![message],
            }),
        }
    }
    groups
}

fn in_order(group: Group) -> Vec<Message> {
    let root = u32_root(&group);
    let Group { kind, messages, .. } = group;
    // Each group begins with a message that has no options.
    let mut filters: Vec<_> = messages
        .into_iter()
        .filter(|m| attr(tc_attrs(m), TCA_OPTIONS).is_some())
        .collect();
    match (kind.as_str(), root) {
        // The kernel puts a new one first.
        ("basic", _) => {
            filters.reverse();
            filters
        }
        ("u32", Some(root)) => u32_in_order(filters, root),
        _ => filters,
    }
}

fn divisor(message: &Message) -> Option<u32> {
    u32_attr(attr(tc_attrs(message), TCA_OPTIONS)?, TCA_U32_DIVISOR)
}

fn handle(message: &Message) -> u32 {
    Tc::parse(&message.body).map_or(0, |tc| tc.handle)
}

/// The oldest table of u32 filters, which is dumped last, is made with the first filter.
fn u32_root(group: &Group) -> Option<u32> {
    if group.kind != "u32" {
        return None;
    }
    let mut tables = group.messages.iter().filter(|m| divisor(m).is_some());
    tables.next_back().map(handle)
}

fn u32_in_order(filters: Vec<Message>, root: u32) -> Vec<Message> {
    let (mut tables, mut keys): (Vec<_>, Vec<_>) =
        filters.into_iter().partition(|m| divisor(m).is_some());
    tables.retain(|m| handle(m) != root);
    tables.reverse();
    keys.sort_by_key(handle);
    tables.extend(keys.into_iter().filter_map(|key| below_root(&key, root)));
    tables
}

/// A filter in the first table says so without the table's number, which may differ.
fn below_root(key: &Message, root: u32) -> Option<Message> {
    let mut tc = Tc::parse(&key.body)?;
    if tc.handle & U32_TABLE != root & U32_TABLE {
        return Some(key.clone());
    }
    tc.handle &= !U32_TABLE;
    let mut body = tc.to_bytes().to_vec();
    for a in attrs(tc_attrs(key)) {
        if a.kind != TCA_OPTIONS {
            put(&mut body, a.kind | a.flag(), a.value);
            continue;
        }
        let mut options = Vec::new();
        for o in attrs(a.value) {
            if o.kind == TCA_U32_HASH {
                put(&mut options, o.kind, &U32_ROOT.to_ne_bytes());
            } else {
                put(&mut options, o.kind | o.flag(), o.value);
            }
        }
        put(&mut body, TCA_OPTIONS, &options);
    }
    Some(Message {
        body,
        ..key.clone()
    })
}

/// Whether a table of u32 that was given a number could not get it again,
/// because the kernel would have given it to another one by then.
pub(super) fn tables_collide(dumped: &[Message]) -> bool {
    let mut groups = BTreeSet::new();
    let mut used = BTreeSet::new();
    let mut next = U32_FIRST;
    for message in ordered(dumped.to_vec()) {
        if kind_of(&message) != "u32" {
            continue;
        }
        let chain = u32_attr(tc_attrs(&message), TCA_CHAIN);
        let place = Tc::parse(&message.body).map(|tc| (tc.parent, tc.info));
        if groups.insert((chain, place)) {
            while !used.insert(next) && next < U32_LAST {
                next += U32_STEP;
            }
        }
        if divisor(&message).is_some() && !used.insert(handle(&message)) {
            return true;
        }
    }
    false
}

/// Whether there is a `fw` that takes the mark for the class and has no filters.
pub(super) fn lone_fw(dumped: &[Message]) -> bool {
    grouped(dumped.to_vec())
        .iter()
        .any(|group| group.kind == "fw" && group.messages.len() == 1)
}

/// The chains that exist without a filter in them, or that have a template.
pub(super) fn bare_chains(chains: Vec<Message>, filters: &[Message]) -> Vec<Message> {
    let number = |m: &Message| u32_attr(tc_attrs(m), TCA_CHAIN).unwrap_or(0);
    let filled: BTreeSet<u32> = filters.iter().map(number).collect();
    chains
        .into_iter()
        .filter(|m| m.kind == RTM_NEWCHAIN)
        .filter(|m| !kind_of(m).is_empty() || !filled.contains(&number(m)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::TCA_KIND;
    use super::*;
    use nix::libc;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    fn filter(kind: &str, preference: u32, handle: u32, options: &[(u16, u32)]) -> Message {
        let tc = Tc {
            index: 1,
            handle,
            parent: 0x1_0000,
            info: preference << 16,
        };
        let mut all = Vec::new();
        for (number, value) in options {
            put(&mut all, *number, &value.to_ne_bytes());
        }
        let head = Message::new(libc::RTM_NEWTFILTER, &tc.to_bytes()).with_text(TCA_KIND, kind);
        match options {
            [] => head,
            _ => head.with(TCA_OPTIONS, &all),
        }
    }

    fn table(preference: u32, handle: u32) -> Message {
        filter("u32", preference, handle, &[(TCA_U32_DIVISOR, 1)])
    }

    fn order(dumped: Vec<Message>) -> Vec<(u32, u32)> {
        let of = |m: &Message| Tc::parse(&m.body).map(|tc| (tc.info >> 16, tc.handle));
        ordered(dumped).iter().filter_map(of).collect()
    }

    #[test]
    fn tables_before_what_leads_to_them() {
        let dumped = vec![
            filter("u32", 1, 0, &[]),
            table(1, 0x8010_0000),
            filter(
                "u32",
                1,
                0x8010_0800,
                &[(TCA_U32_HASH, 0x8010_0000), (TCA_U32_LINK, 0x20_0000)],
            ),
            filter("u32", 2, 0, &[]),
            table(2, 0x0030_0000),
            table(2, 0x0020_0000),
            filter("u32", 2, 0x0020_0800, &[(TCA_U32_HASH, 0x0020_0000)]),
            table(2, 0x8000_0000),
            filter("basic", 3, 0, &[]),
            filter("basic", 3, 2, &[(1, 1)]),
            filter("basic", 3, 1, &[(1, 1)]),
        ];
        assert!(!tables_collide(&dumped));
        let expected = [
            (3, 1),
            (3, 2),
            (2, 0x0020_0000),
            (2, 0x0030_0000),
            (2, 0x0020_0800),
            (1, 0x800),
        ];
        assert_eq!(order(dumped), expected);
    }

    #[test]
    fn numbers_that_are_taken() {
        // The second group's first table would be 801 now.
        let dumped = vec![
            table(1, 0x8000_0000),
            filter("u32", 1, 0x8000_0800, &[(TCA_U32_HASH, 0x8000_0000)]),
            table(2, 0x8020_0000),
            filter("u32", 2, 0x8020_0800, &[(TCA_U32_HASH, 0x8020_0000)]),
            table(3, 0x8010_0000),
            table(3, 0x8030_0000),
        ];
        assert!(tables_collide(&dumped));
    }

    #[test]
    fn fw_without_a_mark() {
        assert!(lone_fw(&[filter("fw", 1, 0, &[])]));
        assert!(!lone_fw(&[
            filter("fw", 1, 0, &[]),
            filter("fw", 1, 5, &[(1, 1)])
        ]));
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn odd_filters(all in proptest::collection::vec(
            (0u32..3, any::<u32>(), proptest::collection::vec((0u16..6, any::<u32>()), 0..4), 0usize..80), 0..8)) {
            let dumped: Vec<Message> = all
                .iter()
                .map(|(preference, handle, options, cut)| {
                    let mut message = filter("u32", *preference, *handle, options);
                    message.body.truncate(*cut);
                    message
                })
                .collect();
            let _ = (tables_collide(&dumped), lone_fw(&dumped), bare_chains(dumped.clone(), &dumped));
            prop_assert!(ordered(dumped.clone()).len() <= dumped.len());
        }
    }
}
