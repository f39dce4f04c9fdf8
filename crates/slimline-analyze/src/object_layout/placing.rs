//! Objects one behind the other, as an allocator would put them that never reuses memory.
//!
//! Objects that take whole lines lie alike on theirs, all of them: those of 48 bytes, say, which `malloc` gives 64,
//!
//! ```text
//!   lines      |               |               |               |
//!   either     |    48 bytes···|    48 bytes···|                      each is on one line
//!   or         |            48 by|tes···········48 by|tes             each is on two
//! ```
//!
//! and which of the two it is hangs on what happens to be allocated before them, not on their order. So where many come one behind the other, the first
//! begins on that byte of a line on which it did as the program ran; likewise on that byte of half a line where they take multiples of that.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Slots, TooLarge};
use crate::full_trace::objects::Object;

/// Where objects of each process are put: no program's own memory is there, and all of it up to the next process's addresses is free.
pub(crate) const PLACE: u64 = 1 << 47;
/// Bytes of a process's objects at most.
const MOST_BYTES: u64 = 1 << 47;
/// What the C library's allocator needs beside a block, which begins at a multiple of [`ALIGNMENT`], and the least that it takes.
const HEADER_BYTES: u64 = 8;
pub(crate) const ALIGNMENT: u64 = 16;
const LEAST_BYTES: u64 = 32;
/// Of a cache.
const LINE_BYTES: u64 = 64;
/// How many objects must take multiples of a line one behind the other that room is left before them: an eighth of what they take at most.
const RUN: usize = 8;

/// Distance of blocks of so many bytes that the C library allocates one after the other.
pub(crate) fn block_spacing(bytes: u64) -> u64 {
    let with_header = bytes.saturating_add(HEADER_BYTES).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
    with_header.max(LEAST_BYTES)
}

/// Memory that each process's objects have taken so far.
#[derive(Debug)]
pub(super) struct Placing<'a> {
    /// By process: bytes from [`PLACE`] on.
    taken: FxHashMap<u32, u64>,
    slots: &'a Slots,
    /// Bytes behind each object.
    larger_by: u64,
}

/// What an object takes.
#[derive(Clone, Copy, Debug)]
struct Room {
    alignment: u64,
    bytes: u64,
}

impl Room {
    /// The part of a line that it is a multiple of, a power of two.
    fn part_of_line(self) -> u64 {
        1 << self.bytes.trailing_zeros().min(LINE_BYTES.trailing_zeros())
    }
}

impl<'a> Placing<'a> {
    pub(super) fn new(slots: &'a Slots, larger_by: u64) -> Self {
        Self { taken: FxHashMap::default(), slots, larger_by }
    }

    /// Puts them one behind the other. Into `moves` goes how far each moves, modulo 2⁶⁴.
    pub(super) fn in_order(
        &mut self,
        objects: &[Object],
        order: impl IntoIterator<Item = u32>,
        moves: &mut [u64],
    ) -> Result<(), TooLarge> {
        let mut of_processes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for number in order {
            of_processes.entry(objects[number as usize].process).or_default().push(number);
        }
        for (process, order) in of_processes {
            // What the run that goes on is multiples of; less than that where its first one lies is by chance.
            let mut of_run = 1;
            for (at, number) in order.iter().enumerate() {
                let (object, room) = (&objects[*number as usize], self.room(&objects[*number as usize]));
                let part = |number: &u32| self.room(&objects[*number as usize]).part_of_line();
                of_run = room.part_of_line().min(of_run);
                let run = order.get(at..at + RUN).and_then(|run| run.iter().map(part).min()).unwrap_or(1);
                if run > of_run.max(room.alignment) {
                    self.skip_to(process, object.start % run, run);
                    of_run = run;
                }
                moves[*number as usize] = self.take(process, room)?.wrapping_sub(object.start);
            }
        }
        Ok(())
    }

    fn room(&self, object: &Object) -> Room {
        let &Object { bytes, index, .. } = object;
        if let Some(slot) = self.slots.of_object(object) {
            // What is aligned to a power of two stays so, up to what the C library aligns to.
            let alignment = 1 << slot.trailing_zeros().min(ALIGNMENT.trailing_zeros());
            return Room { alignment, bytes: slot.saturating_add(self.larger_by) };
        }
        let bytes = bytes.saturating_add(self.larger_by);
        if index.is_some() {
            // An element of an array is side by side with the next one.
            return Room { alignment: 1, bytes };
        }
        Room { alignment: ALIGNMENT, bytes: block_spacing(bytes) }
    }

    /// Where so many bytes go that are aligned to as many.
    pub(super) fn aligned(&mut self, process: u32, bytes: u64) -> Result<u64, TooLarge> {
        self.take(process, Room { alignment: bytes, bytes })
    }

    /// What is taken next leaves that when it is divided by a power of two.
    fn skip_to(&mut self, process: u32, remainder: u64, of: u64) {
        let taken = self.taken.entry(process).or_insert(ALIGNMENT);
        *taken += remainder.wrapping_sub(*taken) % of;
    }

    fn take(&mut self, process: u32, room: Room) -> Result<u64, TooLarge> {
        let taken = self.taken.entry(process).or_insert(ALIGNMENT);
        let place = taken.next_multiple_of(room.alignment);
        *taken = place.saturating_add(room.bytes);
        if *taken > MOST_BYTES { Err(TooLarge) } else { Ok(PLACE + place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(start: u64, bytes: u64, index: Option<u32>) -> Object {
        Object { process: 0, start, bytes, sequence: 1, ordinal: 1, origin: 0, index }
    }

    /// Where they go in this order.
    fn places(objects: &[Object], order: &[u32]) -> Vec<u64> {
        let (slots, mut moves) = (Slots::default(), vec![0; objects.len()]);
        Placing::new(&slots, 0).in_order(objects, order.iter().copied(), &mut moves).unwrap();
        moves.iter().zip(objects).map(|(by, of)| of.start.wrapping_add(*by) - PLACE).collect()
    }

    /// 48 bytes, which take 64, from byte 16 of a line on; before, behind and among them is one that takes 48.
    #[test]
    fn objects_of_whole_lines_lie_on_them_as_they_did() {
        let mut objects: Vec<Object> = (0..40).map(|number| object(0x1010 + 64 * number, 48, None)).collect();
        objects.push(object(0x5000, 40, None));
        for at in [0, 20, 40] {
            let mut order: Vec<u32> = (0..40).rev().collect();
            order.insert(at, 40);
            let places = places(&objects, &order);
            assert!(places[..40].iter().all(|place| place % 64 == 16), "{at}: {places:?}");
            let mut sorted = places.clone();
            sorted.sort_unstable();
            // No more is left between any two of them than brings the next run onto its byte.
            assert!(sorted.windows(2).all(|pair| (48..=64 + 48).contains(&(pair[1] - pair[0]))), "{at}: {places:?}");
        }
    }

    #[test]
    fn elements_of_half_a_line_lie_on_halves_as_they_did() {
        let mut objects: Vec<Object> = (0..20).map(|number| object(0x1008 + 32 * number, 32, Some(0))).collect();
        objects.push(object(0x5000, 20, Some(0)));
        let order: Vec<u32> = (0..21).rev().collect();
        assert!(places(&objects, &order)[..20].iter().all(|place| place % 32 == 8));
    }

    /// In turns with what takes 48 room before each would be room that no allocator leaves.
    #[test]
    fn what_others_are_among_is_packed() {
        let turn =
            |number: u64| object(0x1010 + 112 * (number / 2), if number.is_multiple_of(2) { 48 } else { 40 }, None);
        let objects: Vec<Object> = (0..40).map(turn).collect();
        let order: Vec<u32> = (0..40).collect();
        assert_eq!(places(&objects, &order)[39], 16 + 19 * 112 + 64);
    }
}
