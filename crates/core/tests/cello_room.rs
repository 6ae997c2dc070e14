// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk's tags among groups (core/cello_room.h).

use proptest::prelude::*;
use qlinux_core::room::{Place, Room};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// Takes what the group gets, at most so many.
fn fill(room: &mut Room, place: Place, most: u32) -> u32 {
    (0..most).take_while(|_| room.take(place)).count() as u32
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tags are not given twice; who holds nothing gets one while there are any; nobody takes
    /// more than it could alone.
    #[test]
    fn never_too_many(
        tags in 1u32..300,
        groups in 1u64..600,
        ops in prop::collection::vec((0u32..6, any::<u64>()), 1..2000),
    ) {
        let mut room = Room::new(tags);
        let mut holds: Vec<Place> = Vec::new();
        let alone = tags - (tags / 8).max(u32::from(tags > 1));
        let mut now_ns = 0;
        for (op, number) in ops {
            now_ns += number % (SECOND / 100);
            if op < 4 {
                let place = room.note(number % groups, now_ns);
                let nothing = room.held(place) == 0;
                let took = room.take(place);
                if took {
                    holds.push(place);
                    prop_assert!(room.held(place) <= alone);
                }
                prop_assert!(took || !nothing || holds.len() == tags as usize);
            } else if !holds.is_empty() {
                room.free(holds.swap_remove(number as usize % holds.len()));
            }
            prop_assert!(holds.len() <= tags as usize);
        }
        // All that ends is forgotten.
        holds.into_iter().for_each(|place| room.free(place));
        let last = room.note(u64::MAX, now_ns + 2 * SECOND);
        prop_assert_eq!(room.groups(), 1);
        prop_assert_eq!(fill(&mut room, last, tags), alone);
    }

    /// Groups that all want as many as they can get have as many each, and what they cannot
    /// take is less than one for each and the reserve.
    #[test]
    fn equal_parts(tags in 16u32..1024, n in 1u64..12) {
        let mut room = Room::new(tags);
        let places: Vec<_> = (0..n).map(|key| room.note(key << 32, 0)).collect();
        // The first one comes much earlier than the others.
        for turn in 0..tags {
            for (i, place) in places.iter().enumerate() {
                if i == 0 || turn > tags / 2 {
                    room.take(*place);
                }
            }
        }
        let held: Vec<_> = places.iter().map(|place| room.held(*place)).collect();
        let part = (tags - tags / 8) / n as u32;
        prop_assert!(held.iter().all(|h| *h == part.max(1)), "{:?} of {}", held, tags);
    }
}

/// One with very many requests, and then another: it gets a tag at once, and half of them as the
/// first one's requests end.
#[test]
fn beside_very_many() {
    let mut room = Room::new(64);
    let many = room.note(1, 0);
    assert_eq!(fill(&mut room, many, 512), 56);
    let few = room.note(2, SECOND);
    assert_eq!(fill(&mut room, few, 12), 1, "of the reserve");
    for _ in 0..100 {
        // It asks again for each that ends.
        room.note(1, SECOND);
        room.free(many);
        room.take(few);
        if !room.take(many) && room.held(many) == 0 {
            panic!("it has nothing");
        }
        if room.held(few) == 28 {
            break;
        }
    }
    assert_eq!((room.held(many), room.held(few)), (28, 28));
}

/// What was not asked for in a second is forgotten, unless it holds tags.
#[test]
fn the_idle_are_forgotten() {
    let mut room = Room::new(64);
    let one = room.note(1, 0);
    let two = room.note(2, 0);
    let three = room.note(3, 0);
    assert!(room.take(one));
    assert_eq!(fill(&mut room, two, 64), 18, "a third");
    (0..18).for_each(|_| room.free(two));
    let two = room.note(2, 2 * SECOND);
    assert_eq!(room.groups(), 2, "not the third: {three:?}");
    assert_eq!(fill(&mut room, two, 64), 28);
    room.free(one);
    room.note(2, 4 * SECOND);
    assert_eq!(room.groups(), 1);
    assert_eq!(fill(&mut room, two, 64), 28, "56 in all");
}

/// More groups than places share them; the tags of each come back.
#[test]
fn more_groups_than_places() {
    let mut room = Room::new(10_000);
    let mut places = BTreeMap::new();
    for key in 0..5000u64 {
        let place = room.note(key, 0);
        let first = !places.contains_key(&place);
        let took = room.take(place);
        assert!(took || !first);
        *places.entry(place).or_insert(0u32) += u32::from(took);
    }
    assert!(places.len() > 200, "{}", places.len());
    assert!(places.values().sum::<u32>() > 4500);
    for (place, held) in places {
        assert_eq!(room.held(place), held);
        (0..held).for_each(|_| room.free(place));
    }
    let alone = room.note(0, 2 * SECOND);
    assert_eq!(fill(&mut room, alone, 10_000), 8750);
}
