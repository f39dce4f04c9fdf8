//! The arenas of a context, and those of threads' own beside them.
//!
//! ```text
//!   first ── arena 0, arena 1, …        what all threads allocate in
//!   lane of a thread ── arena 0, …      where threads took many turns in the first one
//!   lane of another one ── arena 0, …
//! ```
//!
//! An arena that several threads want by turns has the lines of its lock, its buckets' headers and its objects go from one
//! processor to the other, and who wants it at the same moment waits. After some turns each thread allocates in an arena of the same
//! number in a lane of its own. The objects of one hint then are in as many places as there are such threads, which no two of them write.
#![allow(unsafe_code)] // lanes are memory of the allocator below

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::arena::Arena;
use crate::below::Below;
use crate::biased::{SLOTS, slot};
use crate::table::Table;

/// By threads' slots. 8 KiB, made when the first thread needs a lane.
type Lanes = [AtomicPtr<Table>; SLOTS];

#[derive(Debug)]
pub(crate) struct Arenas {
    first: Table,
    /// Null as long as there is none.
    lanes: AtomicPtr<Lanes>,
    /// Lanes that there are: they stay when their threads end, for the next ones.
    made: AtomicUsize,
}

impl Arenas {
    /// `None`: the allocator below has no memory.
    pub(crate) fn new<A: GlobalAlloc>(arenas: usize, below: &Below<A>) -> Option<Self> {
        Some(Self { first: Table::new(arenas, below)?, lanes: AtomicPtr::new(null_mut()), made: AtomicUsize::new(0) })
    }

    /// An arena by its number. `None`: the allocator below has no memory.
    #[inline(always)]
    pub(crate) fn get<A: GlobalAlloc>(&self, number: usize, below: &Below<A>) -> Option<&Arena> {
        self.first.get(number, below)
    }

    /// This thread's own of a number. `None`: it has no slot, or the allocator below no memory for it.
    pub(crate) fn own<A: GlobalAlloc>(&self, number: usize, below: &Below<A>) -> Option<&Arena> {
        let slot = slot()?;
        let lanes = match self.lanes() {
            Some(lanes) => lanes,
            None => self.make_lanes(below)?,
        };
        let lane = lanes[slot].load(Ordering::Acquire);
        // SAFETY: what is not null is a table that `make_lane` published, which is there until `clear`.
        let lane = unsafe { lane.as_ref() };
        let lane = match lane {
            Some(lane) => lane,
            None => self.make_lane(&lanes[slot], below)?,
        };
        lane.get(number, below)
    }

    fn lanes(&self) -> Option<&Lanes> {
        // SAFETY: what is not null was published by `make_lanes`, and is there until `clear`.
        unsafe { self.lanes.load(Ordering::Acquire).as_ref() }
    }

    #[cold]
    fn make_lanes<A: GlobalAlloc>(&self, below: &Below<A>) -> Option<&Lanes> {
        // All null.
        let new = below.alloc_zeroed(Layout::new::<Lanes>())?.cast::<Lanes>();
        if self.lanes.compare_exchange(null_mut(), new.as_ptr(), Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: another thread was faster; nobody knows of these.
            unsafe { below.dealloc(new.cast(), Layout::new::<Lanes>()) };
        }
        self.lanes()
    }

    /// A slot is one thread's at a time, and that thread does not come here while it is in `below`, which hides its slot: so nobody else makes
    /// its lane. What the thread that had the slot before has made is seen by how the slot was given.
    #[cold]
    fn make_lane<A: GlobalAlloc>(&self, entry: &AtomicPtr<Table>, below: &Below<A>) -> Option<&Table> {
        let place = below.alloc(Layout::new::<Table>())?.cast::<Table>();
        let Some(lane) = Table::new(self.first.arenas(), below) else {
            // SAFETY: it was just taken with this layout, and nobody knows of it.
            unsafe { below.dealloc(place.cast(), Layout::new::<Table>()) };
            return None;
        };
        debug_assert!(entry.load(Ordering::Relaxed).is_null());
        // SAFETY: it is memory for one, which stays until `clear` once it is published.
        unsafe {
            place.write(lane);
            entry.store(place.as_ptr(), Ordering::Release);
            self.made.fetch_add(1, Ordering::Relaxed);
            Some(place.as_ref())
        }
    }

    /// How many arenas there may be of each number.
    pub(crate) fn sets(&self) -> usize {
        1 + self.made.load(Ordering::Relaxed)
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.first).chain(self.made())
    }

    fn made(&self) -> impl Iterator<Item = &Table> {
        // SAFETY: as in `own`.
        let made =
            self.lanes().into_iter().flatten().filter_map(|lane| unsafe { lane.load(Ordering::Acquire).as_ref() });
        made.take(self.made.load(Ordering::Relaxed))
    }

    /// The arenas that are in one part of a table with one of these.
    pub(crate) fn beside<'a>(&'a self, arena: &'a Arena) -> &'a [Arena] {
        let found = self.tables().find_map(|table| table.beside(arena));
        found.unwrap_or(std::slice::from_ref(arena))
    }

    /// All that ever were needed, and their neighbours.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Arena> {
        self.tables().flat_map(Table::present)
    }

    /// The first ones of all numbers, each with threads' own of the same number.
    pub(crate) fn by_number(&self) -> impl Iterator<Item = (&Arena, impl Iterator<Item = &Arena>)> {
        self.first.present().map(|first| {
            // Else there is none.
            let lanes = first.is_crowded().then(|| self.made()).into_iter().flatten();
            (first, lanes.filter_map(|lane| lane.peek(first.number())))
        })
    }

    /// Gives all memory back.
    ///
    /// # Safety
    ///
    /// No arena is used any more, and this only dropped.
    pub(crate) unsafe fn clear<A: GlobalAlloc>(&mut self, below: &Below<A>) {
        let lanes = NonNull::new(*self.lanes.get_mut());
        // SAFETY: it was allocated with these layouts, a lane by `make_lane` and the table of them by `make_lanes`; the caller
        // promises that nobody uses them.
        unsafe {
            if let Some(lanes) = lanes {
                for lane in lanes.as_ref().iter().filter_map(|lane| NonNull::new(lane.load(Ordering::Acquire))) {
                    (*lane.as_ptr()).clear(below);
                    below.dealloc(lane.cast(), Layout::new::<Table>());
                }
                below.dealloc(lanes.cast(), Layout::new::<Lanes>());
            }
            self.first.clear(below);
        }
    }
}
