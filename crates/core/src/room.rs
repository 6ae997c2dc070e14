// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may take one more of a disk's tags (core/cello_room.h).

mod c {
    unsafe extern "C" {
        pub static qcore_room_size: usize;
        pub fn qcore_room_init(m: *mut u64, tags: u32);
        pub fn qcore_room_note(m: *mut u64, key: u64, now_ns: u64) -> u32;
        pub fn qcore_room_take(m: *mut u64, place: u32) -> bool;
        pub fn qcore_room_free(m: *mut u64, place: u32);
        pub fn qcore_room_groups(m: *const u64) -> u32;
    }
}

/// Where a group is counted: its own, or shared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u32);

/// A disk's tags.
pub struct Room {
    pool: Box<[u64]>,
    places: u32,
    held: Vec<u32>,
}

impl Room {
    /// So many tags.
    pub fn new(tags: u32) -> Room {
        // SAFETY: a constant of the C text.
        let size = unsafe { c::qcore_room_size };
        let mut pool = vec![0; size.div_ceil(8)].into_boxed_slice();
        // SAFETY: the pool is as large as C says.
        unsafe { c::qcore_room_init(pool.as_mut_ptr(), tags) };
        Room {
            pool,
            places: 0,
            held: Vec::new(),
        }
    }

    /// A group asks for tags.
    pub fn note(&mut self, key: u64, now_ns: u64) -> Place {
        // SAFETY: the pool is C's.
        let place = unsafe { c::qcore_room_note(self.pool.as_mut_ptr(), key, now_ns) };
        self.places = self.places.max(place + 1);
        self.held.resize(self.places as usize, 0);
        Place(place)
    }

    /// It takes one, if it may.
    pub fn take(&mut self, place: Place) -> bool {
        assert!(place.0 < self.places, "a place of another disk");
        // SAFETY: the place exists.
        let took = unsafe { c::qcore_room_take(self.pool.as_mut_ptr(), place.0) };
        self.held[place.0 as usize] += u32::from(took);
        took
    }

    /// It gives one back that it took.
    pub fn free(&mut self, place: Place) {
        let held = &mut self.held[place.0 as usize];
        *held = held.checked_sub(1).expect("it holds none");
        // SAFETY: the place exists and holds one.
        unsafe { c::qcore_room_free(self.pool.as_mut_ptr(), place.0) }
    }

    /// Tags the place holds.
    pub fn held(&self, place: Place) -> u32 {
        self.held[place.0 as usize]
    }

    /// How many want tags.
    pub fn groups(&self) -> u32 {
        // SAFETY: the pool is C's.
        unsafe { c::qcore_room_groups(self.pool.as_ptr()) }
    }
}
