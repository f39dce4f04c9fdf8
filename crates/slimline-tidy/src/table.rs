//! The arenas of a context by number.
#![allow(unsafe_code)] // parts are memory of the allocator below

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::arena::Arena;
use crate::below::Below;

/// Arenas of a part of the table that is made when one of them is first needed.
pub(crate) const PART: usize = 256;

/// The arenas of a context by number. Only parts that are needed are there: 16 KiB each, and eight bytes for each 256
/// arenas of the context.
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
            part = self.add(entry, below)?;
        }
        // SAFETY: a part is `arenas.min(PART)` arenas, zeroed, which is a valid one, published by a release; it stays until
        // `clear`, which has the table to itself.
        Some(unsafe { &*part.add(number % PART) })
    }

    #[cold]
    fn add<A: GlobalAlloc>(&self, entry: &AtomicPtr<Arena>, below: &Below<A>) -> Option<*mut Arena> {
        let new = below.alloc_zeroed(self.part_layout())?;
        let part = new.as_ptr().cast();
        match entry.compare_exchange(null_mut(), part, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(part),
            Err(other) => {
                // SAFETY: another thread was faster; nobody knows of this one.
                unsafe { below.dealloc(new, self.part_layout()) };
                Some(other)
            }
        }
    }

    /// The arenas that are in one part with one of these.
    pub(crate) fn beside(&self, arena: &Arena) -> &[Arena] {
        let begin = self.number(arena) / PART;
        let part = self.parts()[begin].load(Ordering::Acquire);
        // SAFETY: as in `get`; the part is there, as an arena of it is.
        unsafe { std::slice::from_raw_parts(part, self.arenas.min(PART)) }
    }

    /// The number of one of these arenas.
    pub(crate) fn number(&self, arena: &Arena) -> usize {
        let wanted = std::ptr::from_ref(arena).addr();
        let within = |part: *mut Arena| {
            let offset = wanted.checked_sub(part.addr())? / size_of::<Arena>();
            (!part.is_null() && offset < PART.min(self.arenas)).then_some(offset)
        };
        let mut parts = self.parts().iter().map(|entry| entry.load(Ordering::Acquire)).enumerate();
        parts.find_map(|(number, part)| Some(number * PART + within(part)?)).unwrap_or(0)
    }

    /// Arenas that ever were needed, and their neighbours.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Arena> {
        self.parts().iter().filter_map(|entry| NonNull::new(entry.load(Ordering::Acquire))).flat_map(|part| {
            // SAFETY: as in `get`.
            unsafe { std::slice::from_raw_parts(part.as_ptr(), self.arenas.min(PART)) }
        })
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
