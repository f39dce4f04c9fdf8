//! Objects in arenas, as `slimline-tidy` would have put them by a hint.

use rustc_hash::FxHashMap;

use super::placing::Placing;
use super::{Slots, TooLarge, in_order_of_allocation};
use crate::full_trace::objects::Object;

/// Bytes of a bucket, where a context's maker says nothing.
pub const BUCKET_BYTES: u64 = 4096;
/// Sizes are rounded up to these.
const UNIT_BYTES: u64 = 8;
const LINE_BYTES: u64 = 64;
/// Spreads the lines that buckets begin with: 2⁶⁴ by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where an arena has room.
#[derive(Debug, Default)]
struct Arena {
    /// Where its last bucket begins; 0 is none.
    bucket: u64,
    /// The first byte that is taken of it: what is behind is filled first, then what is before.
    color: u64,
    /// Bytes from there on, with those that were left at the end.
    taken: u64,
}

/// How far each object moves, modulo 2⁶⁴, if those that have an arena are in its buckets in the order of allocation, and the others before them,
/// as [`Arrangement::Allocated`](super::Arrangement::Allocated).
///
/// # Errors
/// If a process's objects are larger than all of its memory.
pub fn in_arenas(objects: &[Object], arenas: &[(u32, u64)], slots: &Slots) -> Result<Vec<u64>, TooLarge> {
    let arena_of: FxHashMap<u32, u64> = arenas.iter().copied().collect();
    let mut order = in_order_of_allocation(objects);
    // Stable: in an arena they stay in the order of allocation.
    order.sort_by_key(|object| {
        let arena = arena_of.get(object).copied();
        (arena.is_some(), objects[*object as usize].process, arena)
    });
    let bytes_of = |number: u32| objects[number as usize].bytes.max(1).next_multiple_of(UNIT_BYTES);
    let arena_for = |number: u32| {
        let arena = arena_of.get(&number).copied()?;
        // An element stays in an array, which has another order now.
        (objects[number as usize].index.is_none() && bytes_of(number) <= BUCKET_BYTES).then_some(arena)
    };
    let (mut placing, mut moves) = (Placing::new(slots, 0), vec![0; objects.len()]);
    placing.in_order(objects, order.iter().copied().filter(|number| arena_for(*number).is_none()), &mut moves)?;
    let mut open = FxHashMap::<(u32, u64), Arena>::default();
    for number in order {
        let Some(arena) = arena_for(number) else { continue };
        let (object, bytes) = (&objects[number as usize], bytes_of(number));
        let own = open.entry((object.process, arena)).or_default();
        let place = match own.place(bytes) {
            Some(place) => place,
            None => {
                *own = Arena::new(placing.aligned(object.process, BUCKET_BYTES)?, arena);
                // One of a whole bucket has it from its beginning.
                own.place(bytes).unwrap_or(own.bucket)
            }
        };
        moves[number as usize] = place.wrapping_sub(object.start);
    }
    Ok(moves)
}

impl Arena {
    fn new(bucket: u64, arena: u64) -> Self {
        let color = (arena.wrapping_add(bucket).wrapping_mul(SPREAD) >> 32) % (BUCKET_BYTES / LINE_BYTES) * LINE_BYTES;
        Self { bucket, color, taken: 0 }
    }

    /// Where the next one goes, if it has room. None before there is a bucket.
    fn place(&mut self, bytes: u64) -> Option<u64> {
        if self.bucket == 0 {
            return None;
        }
        let behind = BUCKET_BYTES - self.color;
        // Not half behind the last byte and half before the first.
        if self.taken < behind && self.taken + bytes > behind {
            self.taken = behind;
        }
        let at = self.taken;
        if at + bytes > BUCKET_BYTES {
            return None;
        }
        self.taken += bytes;
        Some(self.bucket + (self.color + at) % BUCKET_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::placing::PLACE;
    use super::*;

    fn object(process: u32, sequence: u32, bytes: u64, index: Option<u32>) -> Object {
        let start = 0x1000 + 64 * u64::from(sequence) + u64::from(index.unwrap_or(0)) * bytes;
        Object { process, start, bytes, sequence, ordinal: sequence, origin: 0, index }
    }

    fn places(objects: &[Object], arenas: &[(u32, u64)]) -> Vec<u64> {
        let moves = in_arenas(objects, arenas, &Slots::default()).unwrap();
        moves.iter().zip(objects).map(|(by, of)| of.start.wrapping_add(*by)).collect()
    }

    #[test]
    fn an_arena_s_objects_are_side_by_side_in_its_buckets() {
        // 300 objects of 40 bytes in turns in two arenas: 102 fit a bucket, or 101 where one would be half at its end.
        let objects: Vec<Object> = (0..300).map(|number| object(0, number + 1, 40, None)).collect();
        let arenas: Vec<(u32, u64)> = (0..300).map(|number| (number, u64::from(number % 2))).collect();
        let places = places(&objects, &arenas);
        let buckets = |arena: usize| -> HashSet<u64> {
            places.iter().skip(arena).step_by(2).map(|place| place / BUCKET_BYTES).collect()
        };
        assert_eq!((buckets(0).len(), buckets(1).len()), (2, 2));
        assert!(buckets(0).is_disjoint(&buckets(1)));
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 40), "none has a byte of another one");
        assert!(places.iter().all(|place| place % BUCKET_BYTES + 40 <= BUCKET_BYTES));
        let next = places.windows(3).filter(|of| of[2] == of[0] + 40).count();
        assert!(next > 290, "{next}");
    }

    #[test]
    fn what_is_in_none_is_before_them_and_elements_stay_in_arrays() {
        let objects = [
            object(0, 1, 24, None),
            object(0, 2, 5000, None),
            object(0, 3, 24, None),
            object(0, 4, 16, Some(0)),
            object(0, 4, 16, Some(1)),
            object(1, 1, 24, None),
        ];
        let places = places(&objects, &[(0, 7), (1, 7), (3, 9), (4, 8), (5, 7)]);
        // As malloc puts it: the first of all.
        assert_eq!(places[2], PLACE + 16);
        // Larger than a bucket: as malloc puts it, too.
        assert!(places[1] > places[2] && places[1].is_multiple_of(16));
        // The second element has the lower arena.
        assert_eq!(places[3], places[4] + 16);
        // Another process has addresses of its own.
        assert_eq!(places[5] / BUCKET_BYTES, PLACE / BUCKET_BYTES + 1);
    }
}
