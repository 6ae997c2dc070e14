// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags of a disk's scheduler (core/disk/cello_room.h): who holds many leaves some to others.

use proptest::prelude::*;
use qlinux_core::room::{ample, divided, At, Room, CLASSES, LENT, SLOTS};
use qlinux_properties::cases;

/// Tags as the block layer has them: a request takes the first that is free, of those it may have.
struct Tags {
    room: Room,
    taken: Vec<Option<At>>,
    /// That wait no more: they are at the disk.
    gone: Vec<bool>,
}

/// Where it counts on each level.
fn levels(at: &At) -> [u32; 3] {
    [at.group, at.tenant, at.class]
}

/// Where a group of a tenant counts, in one of three classes.
fn place(group: u32, tenant: u32, class: u32) -> At {
    At {
        group: LENT + group,
        tenant: LENT + 500 + tenant,
        class: CLASSES + class,
    }
}

/// Of a group at the top.
fn top(group: u32) -> At {
    place(group, group, group % 3)
}

impl Tags {
    fn new(tags: usize) -> Tags {
        Tags {
            room: Room::default(),
            taken: vec![None; tags],
            gone: vec![true; tags],
        }
    }

    /// How many tags a request may choose from, by the definition: a group that holds a quarter
    /// leaves as many, a tenant that holds an eighth likewise, and a class that holds a sixteenth;
    /// and who holds a sixteenth, as a group eight, up to three times as many, by the part of that
    /// which waits, unless he holds all that are held.
    fn may(&self, at: &At) -> usize {
        let tags = self.taken.len();
        let waits = self.waits(at);
        let leaves = [4, 8, 16].into_iter().enumerate().map(|(level, parts)| {
            let held = self.held_by(|other| levels(other)[level] == levels(at)[level]);
            let least = Some(tags.div_ceil(parts)).filter(|part| held >= *part);
            let few = if level == 0 { 8 } else { tags.div_ceil(16) };
            let counts = held >= few && held < self.taken.iter().flatten().count();
            let part = counts.then(|| waits[level] as usize * tags / held);
            let more = part.map_or(0, |part| part * 3 / parts);
            least.unwrap_or(0).max(more)
        });
        (tags - leaves.max().unwrap()).max(1)
    }

    /// How many wait, of each level.
    fn waits(&self, at: &At) -> [u32; 3] {
        [0, 1, 2].map(|level| {
            let waits = |(other, gone): &(&Option<At>, &bool)| {
                !**gone && other.is_some_and(|o| levels(&o)[level] == levels(at)[level])
            };
            self.taken.iter().zip(&self.gone).filter(waits).count() as u32
        })
    }

    /// Whether the group got another tag, for what waits: the first that is free of those it may
    /// choose from.
    fn ask_to_wait(&mut self, at: At) -> bool {
        let tags = self.taken.len();
        let may = self.room.choice(&at, false, tags as u32) as usize;
        assert_eq!(may, self.may(&at), "{at:?} of {tags}");
        let there = self.taken.iter().flatten().count();
        let left = if may == tags {
            tags
        } else {
            may.saturating_sub(there)
        };
        assert_eq!(self.room.left(&at, tags as u32) as usize, left);
        assert!(!ample(there as u32, tags as u32) || may > there);
        self.take(at, may).is_some()
    }

    /// Likewise, for what the disk gets at once.
    fn ask_at(&mut self, at: At) -> bool {
        let waiting = self.gone.clone();
        let got = self.ask_to_wait(at);
        (0..waiting.len())
            .filter(|tag| waiting[*tag])
            .for_each(|tag| self.go(tag));
        got
    }

    fn ask(&mut self, group: u32) -> bool {
        self.ask_at(top(group))
    }

    /// Likewise with an arm, of one that has but so many tags to choose from, and all wait.
    fn ask_arm(&mut self, group: u32, tags: u32) -> bool {
        let may = self.room.choice(&top(group), true, tags);
        self.take(top(group), may as usize).is_some()
    }

    fn take(&mut self, at: At, may: usize) -> Option<usize> {
        let free = self.taken[..may].iter().position(Option::is_none)?;
        self.gone[free] = false;
        self.taken[free] = Some(at);
        self.room.take(&at);
        Some(free)
    }

    fn go(&mut self, tag: usize) {
        if let Some(at) = self.taken[tag].filter(|_| !self.gone[tag]) {
            self.gone[tag] = true;
            self.room.go(&at);
        }
    }

    fn give(&mut self, tag: usize) {
        self.go(tag);
        if let Some(at) = self.taken[tag].take() {
            self.room.give(&at);
        }
    }

    fn held_by(&self, whose: impl Fn(&At) -> bool) -> usize {
        self.taken.iter().flatten().filter(|at| whose(at)).count()
    }

    fn held(&self, group: u32) -> usize {
        self.held_by(|at| at.group == LENT + group)
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
    let child = |group| place(group, 201, 1);
    assert_eq!((0..200).filter(|g| tags.ask_at(child(*g))).count(), 112);
    let other = |group| place(group, group, 1);
    assert_eq!((202..220).filter(|g| tags.ask_at(other(*g))).count(), 8);
    assert_eq!((220..230).filter(|g| tags.ask(*g / 3 * 3)).count(), 8);
}

/// With an arm one that writes back has few tags, however many there are, and leaves some of those
/// few to others that do; who waits for what he asks for may have all.
#[test]
fn what_nobody_waits_for_fills_little() {
    let mut tags = Tags::new(256);
    let few = divided(256, true, false);
    while tags.ask_arm(1, few) {}
    assert_eq!((few, tags.held(1)), (32, 24));
    assert!(tags.ask_arm(2, few));
    while tags.ask_arm(3, 256) {}
    assert!(tags.held(3) > 128);
    assert_eq!(
        [1, 2, 31, 64].map(|n| divided(n, true, false)),
        [1, 2, 31, 32]
    );
    for (arm, waited_for) in [(true, true), (false, true), (false, false)] {
        assert_eq!(divided(256, arm, waited_for), 256);
    }
}

/// Whose requests wait leaves three quarters, and a tenant's and a class's half and a quarter of that.
#[test]
fn those_that_wait_leave_most() {
    let at = place;
    let mut tags = Tags::new(512);
    while tags.ask_to_wait(at(0, 0, 0)) | tags.ask_to_wait(at(1, 1, 1)) {}
    assert_eq!([tags.held(0), tags.held(1)], [64, 64]);
    while tags.ask_at(at(2, 2, 2)) {}
    assert_eq!(
        tags.held(2),
        256,
        "who is served at once may have the others"
    );

    // While few wait they are as others, and where nobody else holds any.
    let mut few = Tags::new(512);
    while few.ask_to_wait(at(0, 0, 0)) {}
    assert_eq!(few.held(0), 384);
    (40..384).for_each(|tag| few.give(tag));
    assert_eq!(
        few.may(&at(0, 0, 0)),
        480,
        "the last sixteenth is for other classes"
    );
    assert!(few.ask_at(at(1, 1, 1)));
    while few.held(0) < 40 {
        assert!(few.ask_to_wait(at(0, 0, 0)));
    }
    let less = [0, 10, 20, 30].map(|n| {
        (0..n).for_each(|tag| few.go(tag));
        few.may(&at(0, 0, 0))
    });
    assert_eq!(less, [128, 224, 320, 416]);

    // Many groups with a few each leave three eighths to other tenants, and those some to another
    // class, as soon as it holds one.
    let mut tags = Tags::new(512);
    assert!(tags.ask_at(at(0, 0, 2)));
    let many = |tags: &mut Tags, tenant| {
        let groups = (0..40).map(|group| at(40 * tenant + group, tenant, 1));
        let few = groups.cycle().take(40 * 20);
        few.filter(|at| tags.ask_to_wait(*at)).count()
    };
    assert_eq!(
        [1, 2, 3, 4, 5].map(|t| many(&mut tags, t)),
        [319, 32, 32, 32, 0]
    );
    while tags.ask_at(at(0, 0, 2)) {}
    assert_eq!(tags.held(0), 64);
}

/// How many of 4,500 requests are served of each group by its weight, one at a time, where each
/// wants more than there are tags, and who waits for one is asked when one came back.
fn served_by(weights: &[usize], tags: usize) -> Vec<usize> {
    let sum: usize = weights.iter().sum();
    let order: Vec<_> = (0..weights.len())
        .flat_map(|group| vec![group; weights[group]])
        .collect();
    let mut tags = Tags::new(tags);
    let mut served = vec![0; weights.len()];
    let mut turn = 0;
    for step in 0..9_000 {
        let group = order[step * 77 % sum];
        let whose = |gone: bool, tags: &Tags| {
            let mut all = tags.taken.iter().zip(&tags.gone);
            all.position(|(at, g)| {
                *g == gone && at.is_some_and(|at| at.group == LENT + group as u32)
            })
        };
        if let Some(done) = whose(true, &tags) {
            tags.give(done);
        }
        if let Some(next) = whose(false, &tags) {
            tags.go(next);
            served[group] += usize::from(step >= 4_500);
        }
        for _ in 0..weights.len() {
            turn = (turn + 1) % weights.len();
            if tags.ask_to_wait(top(turn as u32)) {
                break;
            }
        }
    }
    served
}

#[test]
fn who_is_served_faster_has_more() {
    for (weights, tags) in [
        (vec![2, 2, 4, 5, 12], 256),
        ([vec![36, 84], vec![5; 12]].concat(), 512),
    ] {
        let times = 4_500 / weights.iter().sum::<usize>();
        let all: Vec<_> = weights.iter().map(|weight| weight * times).collect();
        assert_eq!(served_by(&weights, tags), all);
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
            .position(|at| at.is_some_and(|at| at.group == LENT + 1));
        tags.give(its.unwrap());
        assert!(!tags.ask(0) && !tags.ask(2));
    }
}

/// Everybody has a slot of his own, as long as there are some; who comes then has none, and is free
/// to have a tag whatever others without one hold.
#[test]
fn a_slot_for_each() {
    let mut tags = Tags::new(512);
    let mut slots: Vec<_> = (0..SLOTS).map(|_| tags.room.lend()).collect();
    let none = slots.split_off((SLOTS - LENT) as usize);
    assert!(none.iter().all(|slot| *slot < CLASSES));
    slots.sort_unstable();
    assert!(slots.into_iter().eq(LENT..SLOTS));
    tags.room.end(none[0]);
    assert_eq!(tags.room.lend(), none[0]);
    tags.room.end(77);
    tags.room.end(78);
    assert_eq!([0; 3].map(|_| tags.room.lend()), [78, 77, none[0]]);

    let at = At {
        group: none[0],
        tenant: none[0],
        class: CLASSES,
    };
    (0..200).for_each(|_| tags.room.take(&at));
    (0..200).for_each(|_| tags.room.go(&at));
    let other = At {
        class: CLASSES + 1,
        ..at
    };
    assert_eq!(tags.room.choice(&other, false, 512), 512);
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
        turns in prop::collection::vec((0u32..3, any::<prop::sample::Index>(), 0..4), 0..600),
    ) {
        let mut all = Tags::new(tags);
        for (group, tag, what) in turns {
            match what {
                0 => all.give(tag.index(tags)),
                1 => all.go(tag.index(tags)),
                2 => _ = all.ask(group % greedy * 3),
                _ => _ = all.ask_to_wait(top(group % greedy * 3)),
            }
        }
        (0..tags).for_each(|tag| all.go(tag));
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
        prop_assert_eq!(all.room.choice(&top(5), false, tags as u32), tags as u32);
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
        let at = place;
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
