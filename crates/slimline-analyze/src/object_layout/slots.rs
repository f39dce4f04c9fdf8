//! What an allocator of the program's own gives an object: a pool puts objects side by side where the C library's allocator leaves room.
//!
//! ```text
//!   24 bytes   24 bytes   40 bytes ...      from one to the next 24 and 24: a slot of 24
//! ```
//!
//! The least distance that was seen from an object of a size to the next one is what each of that size takes; where none has a neighbour, its
//! own size.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::full_trace::objects::{Object, ObjectOrigin};

/// A neighbour that is further away than this beyond an object's end is none: others were between them that nobody accessed.
const MOST_BETWEEN: u64 = 64;

/// Bytes of objects with what their allocators need beside them.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// By origin: whether it is a call of an allocator of the program's own.
    is_own: Vec<bool>,
    /// By an object's bytes: from its beginning to the next one's.
    distances: FxHashMap<u64, u64>,
}

impl Slots {
    /// Of these objects.
    pub fn of(objects: &[Object], origins: &[ObjectOrigin]) -> Self {
        let is_own: Vec<bool> = origins.iter().map(|origin| origin.is_of_own_allocator).collect();
        let mut own: Vec<&Object> =
            objects.iter().filter(|of| of.index.is_none() && is_own[of.origin as usize]).collect();
        own.sort_unstable_by_key(|of| (of.process, of.start));
        let mut distances = FxHashMap::default();
        for pair in own.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            let end = one.start.saturating_add(one.bytes.max(1));
            // What begins before that is in memory that was reused.
            if one.process != next.process || next.start < end || next.start - end > MOST_BETWEEN {
                continue;
            }
            let distance = next.start - one.start;
            match distances.entry(one.bytes) {
                Entry::Occupied(mut least) if *least.get() > distance => drop(least.insert(distance)),
                Entry::Occupied(_) => {}
                Entry::Vacant(none) => drop(none.insert(distance)),
            }
        }
        Self { is_own, distances }
    }

    /// What an object takes; none if it is the C library's, whose sizes are known, or an element of an array.
    pub(super) fn of_object(&self, object: &Object) -> Option<u64> {
        let is_own = self.is_own.get(object.origin as usize).is_some_and(|is_own| *is_own);
        let distance = || self.distances.get(&object.bytes).copied().unwrap_or(object.bytes.max(1));
        (is_own && object.index.is_none()).then(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pool_gives_is_the_distance_of_neighbours() {
        let of =
            |origin, start, bytes| Object { process: 0, start, bytes, sequence: 1, ordinal: 1, origin, index: None };
        let origin = |is_of_own_allocator| ObjectOrigin { is_of_own_allocator, ..ObjectOrigin::default() };
        let objects = [
            of(1, 0x1000, 24),
            of(1, 0x1018, 40),
            of(1, 0x1040, 24),
            // Its memory was the last one's, and behind it is room.
            of(1, 0x1040, 24),
            of(1, 0x2000, 100),
            of(0, 0x3000, 24),
            of(0, 0x3018, 24),
        ];
        let slots = Slots::of(&objects, &[origin(false), origin(true)]);
        let taken = |at: usize| slots.of_object(&objects[at]);
        assert_eq!([0, 1, 4, 5].map(taken), [Some(24), Some(40), Some(100), None]);
        assert_eq!(slots.of_object(&Object { index: Some(0), ..objects[0] }), None);
    }
}
