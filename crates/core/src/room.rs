// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags of a disk's scheduler, and who may choose from how many (core/disk/cello_room.h).

/// Groups, tenants and classes are counted in so many slots.
pub const SLOTS: u32 = 1024;
/// Those from this one on are lent to groups and tenants.
pub const LENT: u32 = 8;
/// What a class counts in, and the next of the others.
pub const CLASSES: u32 = 2;

#[allow(clippy::missing_safety_doc)]
mod c {
    unsafe extern "C" {
        pub fn qcore_room_size() -> usize;
        pub fn qcore_room_lend(room: *mut u64) -> u32;
        pub fn qcore_room_end(room: *mut u64, slot: u32);
        pub fn qcore_room_take(room: *mut u64, at: *const super::At);
        pub fn qcore_room_go(room: *mut u64, at: *const super::At);
        pub fn qcore_room_give(room: *mut u64, at: *const super::At);
        pub fn qcore_room_for(room: *const u64, at: *const super::At, arm: bool, tags: u32) -> u32;
        pub fn qcore_room_left(room: *const u64, at: *const super::At, tags: u32) -> u32;
        pub fn qcore_room_tags(tags: u32, arm: bool, waited_for: bool) -> u32;
        pub fn qcore_room_ample(requests: u32, tags: u32) -> bool;
    }
}

/// Where requests of a group count: as the group's, as the tenant's and as the class's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct At {
    /// Slot of the group.
    pub group: u32,
    /// Slot of the group at the top that it is or belongs to.
    pub tenant: u32,
    /// Slot of the class.
    pub class: u32,
}

impl At {
    fn check(&self) -> &At {
        assert!([self.group, self.tenant, self.class]
            .iter()
            .all(|slot| *slot < SLOTS));
        self
    }
}

/// Who holds how many tags.
pub struct Room(Box<[u64]>);

/// How many of the tags requests have among them for which somebody waits, or nobody does.
pub fn divided(tags: u32, arm: bool, waited_for: bool) -> u32 {
    // SAFETY: it takes numbers.
    unsafe { c::qcore_room_tags(tags, arm, waited_for) }
}

/// Whether so few requests are there in all that each may choose from all tags.
pub fn ample(requests: u32, tags: u32) -> bool {
    // SAFETY: it takes numbers.
    unsafe { c::qcore_room_ample(requests, tags) }
}

impl Default for Room {
    fn default() -> Room {
        // SAFETY: it takes nothing.
        let size = unsafe { c::qcore_room_size() };
        Room(vec![0; size.div_ceil(8)].into_boxed_slice())
    }
}

impl Room {
    /// A slot for a group or a tenant.
    pub fn lend(&mut self) -> u32 {
        // SAFETY: the memory is a room.
        unsafe { c::qcore_room_lend(self.0.as_mut_ptr()) }
    }

    /// It is wanted no more.
    pub fn end(&mut self, slot: u32) {
        assert!(slot < SLOTS);
        // SAFETY: the memory is a room, and the slot one of its.
        unsafe { c::qcore_room_end(self.0.as_mut_ptr(), slot) }
    }

    /// A request took a tag, and waits.
    pub fn take(&mut self, at: &At) {
        // SAFETY: the slots exist.
        unsafe { c::qcore_room_take(self.0.as_mut_ptr(), at.check()) }
    }

    /// It waits no more: the disk has it.
    pub fn go(&mut self, at: &At) {
        // SAFETY: the slots exist.
        unsafe { c::qcore_room_go(self.0.as_mut_ptr(), at.check()) }
    }

    /// It gave one back.
    pub fn give(&mut self, at: &At) {
        // SAFETY: the slots exist.
        unsafe { c::qcore_room_give(self.0.as_mut_ptr(), at.check()) }
    }

    /// How many of the tags the next request may choose from, the first ones, with an arm or
    /// without.
    pub fn choice(&self, at: &At, arm: bool, tags: u32) -> u32 {
        // SAFETY: the slots exist.
        unsafe { c::qcore_room_for(self.0.as_ptr(), at.check(), arm, tags) }
    }

    /// How many more it may have now, without an arm; all of them where nobody leaves any.
    pub fn left(&self, at: &At, tags: u32) -> u32 {
        // SAFETY: the slots exist.
        unsafe { c::qcore_room_left(self.0.as_ptr(), at.check(), tags) }
    }
}
