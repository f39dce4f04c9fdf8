//! Arenas by number.
#![allow(unsafe_code)] // parts are memory of the allocator below

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::arena::Arena;
use crate::below::Below;

/// Arenas of a part of the table that is made when one of them is first needed.
pub(crate) const PART: usize = 256;

/// As many arenas as a context has. Only parts that are needed are there: 16 KiB each, and eight bytes for each 256 arenas.
#[derive(Debug)]
pub(crate) struct Table {
    parts: NonNull<AtomicPtr<Arena>>,
    arenas: usize,
}

impl Table {
    /// `None`: the allocator below has no memory.
    pub(crate) fn new<A: GlobalAlloc>(arenas: usize, below: &Below<A>) -> Option<Self> {
        let parts = below.alloc_zeroed(Self::layout(arenas)?)?.cast();
        Some(Self { parts, arenas })
    }

    fn layout(arenas: usize) -> Option<Layout> {
        Layout::array::<AtomicPtr<Arena>>(arenas.div_ceil(PART)).ok()
    }

    /// Arenas of a part: one of a small context has no more than that has.
    fn part_layout(&self) -> Layout {
        // 16 KiB at most: no overflow.
        Layout::array::<Arena>(self.arenas.min(PART)).unwrap_or(Layout::new::<Arena>())
    }

    pub(crate) fn arenas(&self) -> usize {
        self.arenas
    }

    fn parts(&self) -> &[AtomicPtr<Arena>] {
        // SAFETY: that many pointers were allocated, all zero, which is null, and are there as long as the table is.
        unsafe { std::slice::from_raw_parts(self.parts.as_ptr(), self.arenas.div_ceil(PART)) }
    }

    /// An arena by its number. `None`: the allocator below has no memory.
    #[inline(always)]
    pub(crate) fn get<A: GlobalAlloc>(&self, number: usize, below: &Below<A>) -> Option<&Arena> {
        assert!(number < self.arenas);
        // SAFETY: as was just asserted, it is the number of an arena, and so of a part.
        let entry = unsafe { self.parts().get_unchecked(number / PART) };
        let mut part = entry.load(Ordering::Acquire);
        if part.is_null() {
            part = self.add(number, entry, below)?;
        }
        // SAFETY: a part is `arenas.min(PART)` arenas, zeroed, which is a valid one, published by a release; it stays until
        // `clear`, which has the table to itself.
        Some(unsafe { &*part.add(number % PART) })
    }

    #[cold]
    fn add<A: GlobalAlloc>(&self, number: usize, entry: &AtomicPtr<Arena>, below: &Below<A>) -> Option<*mut Arena> {
        let new = below.alloc_zeroed(self.part_layout())?;
        let part: *mut Arena = new.as_ptr().cast();
        let begin = number / PART * PART;
        for within in 0..self.arenas.min(PART) {
            // SAFETY: as many were just allocated, zeroed, which is a valid one, and nobody else knows of them.
            unsafe { (*part.add(within)).set_number(begin + within) };
        }
        match entry.compare_exchange(null_mut(), part, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(part),
            Err(other) => {
                // SAFETY: another thread was faster; nobody knows of this one.
                unsafe { below.dealloc(new, self.part_layout()) };
                Some(other)
            }
        }
    }

    /// An arena by its number, if it or a neighbour ever was needed.
    pub(crate) fn peek(&self, number: usize) -> Option<&Arena> {
        self.part(number / PART)?.get(number % PART)
    }

    fn part(&self, which: usize) -> Option<&[Arena]> {
        let part = self.parts()[which].load(Ordering::Acquire);
        // SAFETY: as in `get`.
        (!part.is_null()).then(|| unsafe { std::slice::from_raw_parts(part, self.arenas.min(PART)) })
    }

    /// The arenas that are in one part with an arena. `None`: it is none of these.
    pub(crate) fn beside(&self, arena: &Arena) -> Option<&[Arena]> {
        self.part(arena.number() / PART).filter(|part| part.as_ptr_range().contains(&std::ptr::from_ref(arena)))
    }

    /// Arenas that ever were needed, and their neighbours.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Arena> {
        (0..self.parts().len()).filter_map(|which| self.part(which)).flatten()
    }

    /// Gives all memory back.
    ///
    /// # Safety
    ///
    /// No arena is used any more, and the table only dropped.
    pub(crate) unsafe fn clear<A: GlobalAlloc>(&mut self, below: &Below<A>) {
        for part in self.parts().iter().filter_map(|entry| NonNull::new(entry.load(Ordering::Acquire))) {
            // SAFETY: it was allocated with this layout, and the caller promises that nobody uses it.
            unsafe { below.dealloc(part.cast(), self.part_layout()) };
        }
        if let Some(layout) = Self::layout(self.arenas) {
            // SAFETY: the same of the table itself.
            unsafe { below.dealloc(self.parts.cast(), layout) };
        }
    }
}
