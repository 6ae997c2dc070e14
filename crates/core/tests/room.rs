// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags of a disk's scheduler (core/disk/cello_room.h): who holds many leaves some to others.

use proptest::prelude::*;
use qlinux_core::room::{ample, divided, slot, At, Room, SLOTS};
use qlinux_properties::cases;
use std::collections::BTreeMap;

/// Tags as the block layer has them: a request takes the first that is free, of those it may have.
struct Tags {
    room: Room,
    taken: Vec<Option<At>>,
}

/// Of a group at the top, in one of three classes.
fn top(group: u32) -> At {
    let (tenant, class) = (group, group % 3);
    At {
        group,
        tenant,
        class,
    }
}

impl Tags {
    fn new(tags: usize) -> Tags {
        Tags {
            room: Room::default(),
            taken: vec![None; tags],
        }
    }

    /// How many tags a request may choose from, by the definition: a group that holds a quarter
    /// leaves the last one, else a tenant that holds an eighth the last of those, and a class that
    /// holds a sixteenth likewise.
    fn may(&self, at: &At) -> usize {
        let tags = self.taken.len();
        let levels = |at: &At| [(at.group, 4), (at.tenant, 8), (at.class, 16)];
        for (level, (whose, parts)) in levels(at).into_iter().enumerate() {
            let held = self.held_by(|other| levels(other)[level].0 == whose);
            if held >= tags.div_ceil(parts) {
                return (tags - tags.div_ceil(parts)).max(1);
            }
        }
        tags
    }

    /// Whether the group got another tag: the first that is free of those it may choose from.
    fn ask_at(&mut self, at: At) -> bool {
        let tags = self.taken.len();
        let may = self.room.choice(&at, tags as u32) as usize;
        assert_eq!(may, self.may(&at), "{at:?} of {tags}");
        let there = self.taken.iter().flatten().count();
        assert!(!ample(there as u32, tags as u32) || may == tags);
        self.take(at, may)
    }

    fn ask(&mut self, group: u32) -> bool {
        self.ask_at(top(group))
    }

    /// Likewise, of one that has but so many tags to choose from.
    fn ask_for(&mut self, group: u32, tags: u32) -> bool {
        self.take(top(group), self.room.choice(&top(group), tags) as usize)
    }

    fn take(&mut self, at: At, may: usize) -> bool {
        let Some(free) = self.taken[..may].iter().position(Option::is_none) else {
            return false;
        };
        self.taken[free] = Some(at);
        self.room.take(&at);
        true
    }

    fn give(&mut self, tag: usize) {
        if let Some(at) = self.taken[tag].take() {
            self.room.give(&at);
        }
    }

    fn held_by(&self, whose: impl Fn(&At) -> bool) -> usize {
        self.taken.iter().flatten().filter(|at| whose(at)).count()
    }

    fn held(&self, group: u32) -> usize {
        self.held_by(|at| at.group == group)
    }
}

#[test]
fn the_example_of_the_head() {
    let mut tags = Tags::new(128);
    while tags.ask(1) {}
    assert_eq!(tags.held(1), 96);
    assert!((0..12).all(|_| tags.ask(2)));
    // A second that wants all: it has an eighth, then leaves the last eighth to other tenants.
    while tags.ask(2) {}
    assert_eq!(tags.held(2), 16);

    // Many that hold one each are one tenant's, or one class's.
    let mut tags = Tags::new(128);
    let child = |group| At {
        group,
        tenant: 201,
        class: 1,
    };
    assert_eq!((0..200).filter(|g| tags.ask_at(child(*g))).count(), 112);
    let other = |group| At {
        group,
        tenant: group,
        class: 1,
    };
    assert_eq!((202..220).filter(|g| tags.ask_at(other(*g))).count(), 8);
    assert_eq!((220..230).filter(|g| tags.ask(*g / 3 * 3)).count(), 8);
}

/// With an arm one that writes back has few tags, however many there are, and leaves some of those
/// few to others that do; who waits for what he asks for may have all.
#[test]
fn what_nobody_waits_for_fills_little() {
    let mut tags = Tags::new(256);
    let few = divided(256, true, false);
    while tags.ask_for(1, few) {}
    assert_eq!((few, tags.held(1)), (32, 24));
    assert!(tags.ask_for(2, few));
    while tags.ask(3) {}
    assert!(tags.held(3) > 128);
    assert_eq!(
        [1, 2, 31, 64].map(|n| divided(n, true, false)),
        [1, 2, 31, 32]
    );
    for (arm, waited_for) in [(true, true), (false, true), (false, false)] {
        assert_eq!(divided(256, arm, waited_for), 256);
    }
}

#[test]
fn one_tag_is_enough() {
    let mut tags = Tags::new(1);
    assert!(tags.ask(1));
    assert!(!tags.ask(2));
    tags.give(0);
    assert!(tags.ask(2));
}

/// Two that want all leave the last quarter to a third, and take none of it when the third gives
/// one back, however often: of those who ask only the third may have it.
#[test]
fn two_that_want_all_leave_some_to_a_third() {
    let mut tags = Tags::new(128);
    while tags.ask(0) | tags.ask(2) {}
    assert_eq!(tags.held(0) + tags.held(2), 96);
    for _ in 0..300 {
        assert!(tags.ask(1));
        let its = tags
            .taken
            .iter()
            .position(|at| at.is_some_and(|at| at.group == 1));
        tags.give(its.unwrap());
        assert!(!tags.ask(0) && !tags.ask(2));
    }
}

#[test]
fn slots_are_spread() {
    let mut seen = BTreeMap::new();
    // Addresses of structures, as the kernel has them.
    for i in 0..1000u64 {
        *seen
            .entry(slot(0xffff_8881_0000_0000 + i * 192))
            .or_insert(0) += 1;
    }
    assert!(seen.keys().all(|slot| *slot < SLOTS));
    assert!(seen.values().all(|n| *n < 16), "{seen:?}");
}

proptest! {
    #![proptest_config(cases(256))]

    /// Whatever was asked before: beside greedy groups of a class another class gets a tag, and
    /// beside a single one, which has three quarters, another group, too; when all have given
    /// back, everything is as at first.
    #[test]
    fn the_greedy_leave_some(
        tags in 8usize..=256,
        greedy in 1u32..=3,
        turns in prop::collection::vec((0u32..3, any::<prop::sample::Index>(), any::<bool>()), 0..600),
    ) {
        let mut all = Tags::new(tags);
        for (group, tag, gives) in turns {
            if gives {
                all.give(tag.index(tags));
            } else {
                all.ask(group % greedy * 3);
            }
        }
        for _ in 0..tags {
            for group in 0..greedy {
                all.ask(group * 3);
            }
        }
        if greedy == 1 {
            prop_assert!(all.ask(99), "nothing is left beside one");
            prop_assert_eq!(all.held(0), tags - tags.div_ceil(4));
        }
        prop_assert!(all.ask(100), "another class");
        (0..tags).for_each(|tag| all.give(tag));
        prop_assert_eq!(all.room.choice(&top(5), tags as u32), tags as u32);
        let mut anew = Tags::new(tags);
        while all.ask(7) & anew.ask(7) {}
        prop_assert_eq!(all.held(7), anew.held(7));
    }

    /// However many groups a tenant makes, and whatever they held before, another tenant of the
    /// class gets a tag; and however many tenants a class has, another class.
    #[test]
    fn a_crowd_leaves_some(
        tags in 16usize..=256,
        turns in prop::collection::vec((0u32..200, any::<prop::sample::Index>(), any::<bool>()), 0..600),
    ) {
        let at = |group, tenant, class| At { group, tenant, class };
        let mut all = Tags::new(tags);
        for (group, tag, gives) in turns {
            if gives {
                all.give(tag.index(tags));
            } else {
                all.ask_at(at(group, 255, 1));
            }
        }
        for group in (0..200).cycle().take(2 * 256) {
            all.ask_at(at(group, 255, 1));
        }
        prop_assert!(all.ask_at(at(200, 200, 1)), "another tenant");
        for group in (200..250).cycle().take(2 * 256) {
            all.ask_at(at(group, group, 1));
        }
        prop_assert!(all.ask_at(at(250, 250, 0)), "another class");
    }
}
