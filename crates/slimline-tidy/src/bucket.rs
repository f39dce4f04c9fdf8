//! A bucket: some bytes of a slab, for objects of one hint. Its header is not in it but in the slab's own memory.
//!
//! ```text
//!   header    arena │ data │ room │ filled │ words (occupancy)          gap    cursor │ limit, of an arena's current bucket
//!   data      ── free ── │ object object object ─── free ───
//!                        ▲ color              ▲ cursor     ▲ limit
//! ```
//!
//! Objects are put at the cursor as long as they fit before the limit, side by side in the order they come; then cursor and
//! limit are moved to the first hole that the next one fits into. The first object of a bucket is not at its beginning but at
//! a line by chance (its color): where arenas have few objects each these would all be in the same few sets of the cache else.
#![allow(unsafe_code)] // words of occupancy are behind the header, as many as a bucket needs

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arena::Arena;
use crate::occupancy::{self, UNIT_BYTES, WORD_UNITS, Word};
use crate::page_map::GRANULE_BYTES;

/// A bucket has room again when this share of it is free: one part of so many. Less would be looked through for little.
const ROOMY_PART: usize = 4;

/// Of a bucket that an object was freed in: any size may fit.
const FREED: u16 = u16::MAX;

/// Units of a line of the cache.
const LINE_UNITS: u64 = 8;

/// Headers begin at a multiple of it where that takes little more memory.
pub(crate) const HEADER_ALIGN: usize = 64;

/// Where a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// With its slab.
    Unowned = 0,
    /// New objects come into it.
    Current,
    /// The same, and it stays when it has none.
    Kept,
    /// In its arena's list of those that have room again.
    Roomy,
    /// In no list.
    Full,
}

/// What changes while an arena owns a bucket, under that arena's lock; else under that of the slabs.
#[derive(Debug)]
pub(crate) struct Room {
    /// In the list of the arena, or of the slab's free ones.
    pub(crate) next: *mut Bucket,
    pub(crate) prev: *mut Bucket,
    /// No hole has more units than this.
    fits: u16,
    pub(crate) place: Place,
}

/// Units of a bucket that are free: where its next objects come. The current bucket's is in the arena, which is looked at
/// before any bucket is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gap {
    cursor: u16,
    limit: u16,
}

impl Gap {
    /// Where an object of `units` begins that begins at a multiple of `align` units. `None`: it does not fit.
    #[inline(always)]
    fn place(self, units: usize, align: usize) -> Option<usize> {
        let at = (usize::from(self.cursor) + align - 1) & !(align - 1);
        (at + units <= usize::from(self.limit)).then_some(at)
    }

    pub(crate) fn fits(self, units: usize, align: usize) -> bool {
        self.place(units, align).is_some()
    }
}

/// How many buckets an arena has, and whether its current one is kept when its last object is freed: four bytes, as more would
/// make an arena two lines of the cache. Written and read as [`Filled`] is.
#[derive(Debug)]
pub(crate) struct Count(AtomicU32);

impl Count {
    const KEEPS: u32 = 1 << 31;

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, count: u32) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn keeps(&self) -> bool {
        self.get() & Self::KEEPS != 0
    }

    pub(crate) fn buckets(&self) -> usize {
        (self.get() & !Self::KEEPS) as usize
    }

    pub(crate) fn more(&self) {
        self.set(self.get() + 1);
    }

    pub(crate) fn less(&self) {
        self.set(self.get() - 1);
    }

    pub(crate) fn keep(&self, keeps: bool) {
        self.set((self.get() & !Self::KEEPS) | (u32::from(keeps) * Self::KEEPS));
    }
}

/// How many objects there are in a bucket, and how many units they have. Written by who has the lock, and so without an
/// exchange; read by whoever asks for statistics.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Filled(AtomicU32);

impl Filled {
    const OBJECT: u32 = 1 << 16;

    /// Objects and units.
    #[inline(always)]
    pub(crate) fn get(&self) -> (usize, usize) {
        let filled = self.0.load(Ordering::Relaxed);
        ((filled / Self::OBJECT) as usize, (filled % Self::OBJECT) as usize)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    #[inline(always)]
    fn add(&self, units: usize) {
        self.0.store(self.0.load(Ordering::Relaxed) + (Self::OBJECT + units as u32), Ordering::Relaxed);
    }

    #[inline(always)]
    fn remove(&self, units: usize) {
        self.0.store(self.0.load(Ordering::Relaxed) - (Self::OBJECT + units as u32), Ordering::Relaxed);
    }

    fn resize(&self, from: usize, to: usize) {
        self.0.store(self.0.load(Ordering::Relaxed) + to as u32 - from as u32, Ordering::Relaxed);
    }
}

/// All zero bytes are one that nobody owns.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Bucket {
    /// Written when it gets an owner; read without a lock by whoever frees an object in it, so that it has one.
    pub(crate) arena: *const Arena,
    pub(crate) data: *mut u8,
    pub(crate) room: Room,
    pub(crate) filled: Filled,
    /// Which one of its slab's it is.
    pub(crate) number: u16,
    words: [Word; 0],
}

const _: () = assert!(size_of::<Bucket>() == 48);

/// The size of all buckets of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Its logarithm.
    bits: u32,
    /// Bytes of a header.
    header_bytes: u32,
    /// Bytes less one: the bits of an address that tell where in its bucket it is.
    within: u32,
    /// The number of words.
    words: u32,
}

impl Shape {
    /// Of buckets of `1 << bits` bytes.
    pub(crate) fn new(bits: u32) -> Self {
        let words = ((1 << bits) / UNIT_BYTES).div_ceil(WORD_UNITS);
        let header = size_of::<Bucket>() + words * size_of::<Word>();
        // With lines of the cache where that takes little, so that few are two lines' that could be one's.
        let aligned = header.next_multiple_of(HEADER_ALIGN);
        let header = if aligned - header <= header / 4 { aligned } else { header };
        Self { bits, header_bytes: header as u32, within: (1 << bits) - 1, words: words as u32 }
    }

    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        self.within as usize + 1
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    #[inline(always)]
    pub(crate) fn units(self) -> usize {
        self.bytes() / UNIT_BYTES
    }

    #[inline(always)]
    pub(crate) fn header_bytes(self) -> usize {
        self.header_bytes as usize
    }

    /// The words of a bucket, and the rest of what its lock guards.
    ///
    /// # Safety
    ///
    /// `bucket` is one of this shape, and the lock that guards its room is held, or nobody else can reach it; no other
    /// result for the same bucket is in use.
    #[inline(always)]
    unsafe fn parts<'b>(self, bucket: NonNull<Bucket>) -> (&'b mut Room, &'b mut [Word]) {
        let bucket = bucket.as_ptr();
        // SAFETY: `header_bytes` are those of a `Bucket` and this many words behind it, all within the slab's header
        // memory, which `bucket` points into with the right to all of it; they are zeroed when a slab is made, which is a
        // valid `Word`. Places are borrowed one by one: `arena`, which others may read, is in neither.
        unsafe {
            let words = (&raw mut (*bucket).words).cast::<Word>();
            let count = self.words as usize;
            (&mut (*bucket).room, std::slice::from_raw_parts_mut(words, count))
        }
    }

    /// The header of the bucket that an address is in, of the first one of the addresses' granule.
    ///
    /// # Safety
    ///
    /// `first` is what the map has for the address.
    #[inline(always)]
    pub(crate) unsafe fn bucket(self, first: NonNull<Bucket>, address: usize) -> NonNull<Bucket> {
        let index = (address % GRANULE_BYTES) >> self.bits;
        // SAFETY: a granule is of one slab, and so are the headers of its buckets, which are side by side.
        unsafe { first.byte_add(index * self.header_bytes()) }
    }

    /// Makes an unowned bucket an arena's, and empty.
    ///
    /// # Safety
    ///
    /// `bucket` is of this shape, and nobody else can reach it.
    pub(crate) unsafe fn own(self, bucket: NonNull<Bucket>, arena: &Arena) {
        // SAFETY: as the caller promises, nobody else reads or writes any of it.
        unsafe {
            (*bucket.as_ptr()).arena = arena;
            let (room, words) = self.parts(bucket);
            let units = self.units() as u16;
            *room = Room { next: null_mut(), prev: null_mut(), fits: units, place: Place::Unowned };
            debug_assert!(words.iter().all(|word| *word == Word::default()));
        }
    }

    /// All of a bucket without objects.
    #[inline(always)]
    pub(crate) fn whole(self, bucket: NonNull<Bucket>) -> Gap {
        Gap { cursor: self.color(bucket), limit: self.units() as u16 }
    }

    /// Room for an object of `units` that begins at a multiple of `align` units, in the bucket's gap. `None`: there is none.
    ///
    /// # Safety
    ///
    /// `bucket` is of this shape, data and gap are its own, and its arena's lock is held.
    #[inline(always)]
    pub(crate) unsafe fn take(
        self,
        bucket: NonNull<Bucket>,
        data: *mut u8,
        gap: &mut Gap,
        units: usize,
        align: usize,
    ) -> Option<NonNull<u8>> {
        let at = gap.place(units, align)?;
        gap.cursor = (at + units) as u16;
        // SAFETY: the lock is held, and no other reference to the words is made while these are in use. A gap is within the
        // bucket, and so is `at`, whose data are `bytes` from `data` on.
        unsafe {
            occupancy::take(self.parts(bucket).1, at, units);
            (*bucket.as_ptr()).filled.add(units);
            Some(NonNull::new_unchecked(data.add(at * UNIT_BYTES)))
        }
    }

    /// The first gap behind another one that an object of `units` fits into that begins at a multiple of `align` units, else
    /// the first one of all, if it is worth the search. `None`: there is none.
    ///
    /// # Safety
    ///
    /// As for [`take`](Self::take).
    pub(crate) unsafe fn gap(self, bucket: NonNull<Bucket>, behind: Gap, units: usize, align: usize) -> Option<Gap> {
        // SAFETY: the lock is held, and no other reference to the room is made while these are in use.
        let ((room, words), filled) = unsafe { (self.parts(bucket), &(*bucket.as_ptr()).filled) };
        let free = self.units() - filled.get().1;
        if free.min(usize::from(room.fits)) < units {
            return None;
        }
        let find = |from| occupancy::find(words, self.units(), from, units, align);
        let from = usize::from(behind.limit) / WORD_UNITS;
        // What is before the color of one that was only filled, and what is free of one with room again.
        let again = from > 0 && (room.fits != FREED || self.is_roomy(filled));
        let Some(at) = find(from).or_else(|| if again { find(0) } else { None }) else {
            if align == 1 && (again || from == 0) {
                // An aligned one may need more than it has.
                room.fits = units as u16 - 1;
            }
            return None;
        };
        Some(Gap { cursor: at as u16, limit: (at + occupancy::free_from(words, at, self.units())) as u16 })
    }

    /// Frees the object at an address. Where it was; `None`: there is no object.
    ///
    /// # Safety
    ///
    /// `bucket` is of this shape, the address is in it, and its arena's lock is held.
    #[inline(always)]
    pub(crate) unsafe fn give(self, bucket: NonNull<Bucket>, address: usize) -> Option<Gap> {
        // SAFETY: as in `gap`.
        let ((room, words), filled) = unsafe { (self.parts(bucket), &(*bucket.as_ptr()).filled) };
        let at = self.unit(address)?;
        // SAFETY: `unit` is within the bucket.
        let units = unsafe { occupancy::give(words, at)? };
        filled.remove(units);
        room.fits = FREED;
        Some(Gap { cursor: at as u16, limit: (at + units) as u16 })
    }

    /// Whether a bucket has room again.
    #[inline(always)]
    pub(crate) fn is_roomy(self, filled: &Filled) -> bool {
        self.units() - filled.get().1 >= self.units() / ROOMY_PART
    }

    /// The gap of a bucket after an object in it was freed.
    #[inline(always)]
    pub(crate) fn widen(self, bucket: NonNull<Bucket>, gap: &mut Gap, freed: Gap, empty: bool) {
        if freed.limit == gap.cursor {
            gap.cursor = freed.cursor;
        } else if empty {
            *gap = self.whole(bucket);
        }
    }

    /// Makes the object at an address one of `to` units where it is. Its units before, and whether it could be done.
    /// `None`: there is no object.
    ///
    /// # Safety
    ///
    /// As for [`give`](Self::give); `to` is not 0, and the gap is the bucket's, should it be its arena's current one.
    pub(crate) unsafe fn resize(
        self,
        bucket: NonNull<Bucket>,
        gap: Option<&mut Gap>,
        address: usize,
        to: usize,
    ) -> Option<(usize, bool)> {
        // SAFETY: as in `take`.
        let (room, words) = unsafe { self.parts(bucket) };
        let (at, units) = self.object(words, address)?;
        if to > units && occupancy::free_from(words, at + units, self.units()) < to - units {
            return Some((units, false));
        }
        occupancy::resize(words, at, units, to);
        // SAFETY: `filled` is in neither of the two.
        unsafe { (*bucket.as_ptr()).filled.resize(units, to) };
        room.fits = FREED;
        if let Some(gap) = gap {
            let cursor = usize::from(gap.cursor);
            if at + units == cursor || (at + units < cursor && cursor < at + to) {
                gap.cursor = (at + to) as u16;
            }
        }
        Some((units, true))
    }

    /// Units of the object at an address.
    ///
    /// # Safety
    ///
    /// As for [`give`](Self::give).
    pub(crate) unsafe fn units_of(self, bucket: NonNull<Bucket>, address: usize) -> Option<usize> {
        // SAFETY: as in `take`.
        let (_, words) = unsafe { self.parts(bucket) };
        self.object(words, address).map(|(_, units)| units)
    }

    /// The unit that the first object of a bucket goes to: one at the beginning of a line of the cache.
    #[inline(always)]
    fn color(self, bucket: NonNull<Bucket>) -> u16 {
        // Headers lie side by side: their addresses tell the buckets apart, as numbers would. Multiplied, the upper bits are
        // as good as by chance (Knuth, The Art of Computer Programming 3, 6.4).
        let mixed = (bucket.addr().get() as u32 / 8).wrapping_mul(0x9e37_79b9);
        let lines = self.units() as u64 / LINE_UNITS;
        (((u64::from(mixed) * lines) >> 32) * LINE_UNITS) as u16
    }

    /// The unit of a bucket that an address is that of.
    #[inline(always)]
    fn unit(self, address: usize) -> Option<usize> {
        let offset = address & self.within as usize;
        offset.is_multiple_of(UNIT_BYTES).then_some(offset / UNIT_BYTES)
    }

    fn object(self, words: &[Word], address: usize) -> Option<(usize, usize)> {
        let at = self.unit(address)?;
        // SAFETY: `unit` is within the bucket.
        Some((at, unsafe { occupancy::length(words, at)? }))
    }
}

/// The list of an arena's buckets that have room again: a ring, so that one pointer tells both ends.
pub(crate) mod ring {
    use std::ptr::{NonNull, null_mut};

    use super::Bucket;

    /// Puts a bucket that is in no list before the first one, or behind the last.
    ///
    /// # Safety
    ///
    /// All buckets of the list, and this one, are valid, and the arena's lock is held.
    pub(crate) unsafe fn insert(first: &mut *mut Bucket, bucket: NonNull<Bucket>, at_front: bool) {
        let bucket = bucket.as_ptr();
        // SAFETY: as the caller promises; single fields are written by raw pointer, no reference is made.
        unsafe {
            if first.is_null() {
                (*bucket).room.next = bucket;
                (*bucket).room.prev = bucket;
                *first = bucket;
                return;
            }
            let last = (**first).room.prev;
            (*bucket).room.next = *first;
            (*bucket).room.prev = last;
            (*last).room.next = bucket;
            (**first).room.prev = bucket;
            if at_front {
                *first = bucket;
            }
        }
    }

    /// Takes a bucket out of the list that it is in.
    ///
    /// # Safety
    ///
    /// As for [`insert`].
    pub(crate) unsafe fn remove(first: &mut *mut Bucket, bucket: NonNull<Bucket>) {
        let bucket = bucket.as_ptr();
        // SAFETY: as in `insert`.
        unsafe {
            let (next, prev) = ((*bucket).room.next, (*bucket).room.prev);
            if next == bucket {
                *first = null_mut();
                return;
            }
            (*next).room.prev = prev;
            (*prev).room.next = next;
            if *first == bucket {
                *first = next;
            }
        }
    }
}
