//! Arenas: the buckets of the objects whose hints are the same, modulo the dimensions. Each has a lock of its own.
//!
//! ```text
//!   arena ── current ──► bucket that new objects come into
//!         ── roomy ────► bucket ⇄ bucket …   a quarter or more of each is free again
//!                        bucket, bucket …    full ones are in no list
//! ```
//!
//! An object that does not fit into the current bucket goes into the first roomy one that has room for it, else into a new
//! one; that is the current one then. A bucket whose last object is freed goes back to the slabs, for any arena.
//!
//! Who frees an object and finds the arena locked, or being taken away from its thread, does not wait: the object is put on a
//! stack, and who took it away or whoever has the lock next frees it. Only who takes an arena away waits, until its thread has
//! left it.
#![allow(unsafe_code)] // buckets are raw memory, which the lock guards

mod upkeep;

use std::alloc::GlobalAlloc;
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

use crate::below::Below;
use crate::biased::{self, Biased, Taken};
use crate::bucket::{Bucket, Count, Gap, Place, Shape, ring};
use crate::corruption;
use crate::page_map::PageMap;
use crate::slab::Slabs;
use crate::table::{PART, Table};

/// Arenas of a part that several threads want by turns before it is taken for what all do: each of them costs a membarrier more.
const WANTED_AGAIN: usize = 16;

/// Roomy buckets that are tried before a new one is taken.
const TRIES: usize = 4;

/// Bytes of buckets without objects that arenas keep, so that an object that is freed and made again and again costs no
/// bucket each time.
pub(crate) const KEPT_BYTES: usize = 4 << 20;

/// What all arenas of a context share.
#[derive(Debug)]
pub(crate) struct Supply<A> {
    pub(crate) shape: Shape,
    pub(crate) arenas: Table,
    pub(crate) slabs: Slabs,
    pub(crate) map: PageMap,
    pub(crate) below: Below<A>,
    /// Arenas that may keep a bucket without objects.
    pub(crate) keepers: AtomicUsize,
}

/// All zero bytes are one without buckets. A cache line each.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Arena {
    lock: Biased,
    /// Objects to free, each with the address of the next one in its first bytes.
    waiting: AtomicPtr<u8>,
    chain: UnsafeCell<Chain>,
}

const _: () = assert!(size_of::<Arena>() == 64 && PART <= biased::TOGETHER);

// SAFETY: `chain` is reached by who has the lock only; the pointers in it are to memory of the context, which any thread
// may use.
unsafe impl Sync for Arena {}
// SAFETY: nothing in it is of one thread.
unsafe impl Send for Arena {}

/// What the lock guards. What is atomic is written by who has the lock, and so without an exchange, and read by whoever asks for
/// statistics: no reference to all of it is made.
#[derive(Debug)]
struct Chain {
    current: AtomicPtr<Bucket>,
    /// Of the current bucket, here so that an object's address is known before anything of the bucket's header is.
    data: *mut u8,
    gap: Gap,
    roomy: *mut Bucket,
    count: Count,
}

impl Chain {
    #[inline(always)]
    fn current(&self) -> *mut Bucket {
        self.current.load(Ordering::Relaxed)
    }
}

/// An arena whose lock is held, or the context's own. By value, so that nothing of it has to be in memory.
struct Locked<'a, A> {
    chain: NonNull<Chain>,
    supply: &'a Supply<A>,
}

impl<A> Clone for Locked<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Locked<'_, A> {}

impl Arena {
    /// Memory for an object. `None`: the allocator below has none.
    #[inline(always)]
    pub(crate) fn alloc<A: GlobalAlloc>(&self, units: usize, align: usize, supply: &Supply<A>) -> Option<NonNull<u8>> {
        let Some(_held) = self.lock.own() else { return self.alloc_shared(units, align, supply) };
        // SAFETY: the lock is held until the end.
        unsafe { self.locked(supply).take(self, units, align) }
    }

    #[inline(never)]
    fn alloc_shared<A: GlobalAlloc>(&self, units: usize, align: usize, supply: &Supply<A>) -> Option<NonNull<u8>> {
        self.take_away(supply);
        let _held = self.lock.lock();
        // SAFETY: the lock is held until the end.
        unsafe { self.locked_and_freed(supply).take(self, units, align) }
    }

    /// Whether it is this thread's.
    #[cfg(test)]
    pub(crate) fn is_own(&self) -> bool {
        self.lock.own().is_some()
    }

    /// Frees an object.
    ///
    /// # Safety
    ///
    /// It is one of this arena, in this bucket, and is used no longer.
    #[inline(always)]
    pub(crate) unsafe fn free<A: GlobalAlloc>(&self, object: NonNull<u8>, bucket: NonNull<Bucket>, supply: &Supply<A>) {
        // SAFETY: the lock is held while the object is given; the rest is as the caller promises.
        unsafe {
            if let Some(_held) = self.lock.own() {
                self.locked(supply).give(bucket, object.addr().get());
            } else {
                self.free_shared(object, bucket, supply);
            }
        }
    }

    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[inline(never)]
    unsafe fn free_shared<A: GlobalAlloc>(&self, object: NonNull<u8>, bucket: NonNull<Bucket>, supply: &Supply<A>) {
        self.take_away(supply);
        // SAFETY: as in `free`.
        unsafe {
            if let Some(_held) = self.lock.try_lock() {
                self.locked_and_freed(supply).give(bucket, object.addr().get());
            } else {
                self.put_off(object, bucket, supply);
            }
        }
    }

    /// If it is another thread's, with the arenas beside it: where hints tell nothing each of them would be wanted soon, and to
    /// take one away takes as long as for all. Where arenas are threads' own but for a few, only those few are wanted again.
    #[inline(always)]
    fn take_away<A: GlobalAlloc>(&self, supply: &Supply<A>) {
        if let Some(owner) = self.lock.owner_elsewhere() {
            self.take_away_from(owner, supply);
        }
    }

    #[cold]
    fn take_away_from<A: GlobalAlloc>(&self, owner: biased::Owner, supply: &Supply<A>) {
        let beside = supply.arenas.beside(self);
        let wanted = beside.iter().filter(|arena| arena.lock.is_wanted_by_several()).take(WANTED_AGAIN).count();
        let which = if wanted == WANTED_AGAIN { Taken::ForAll } else { Taken::Fresh };
        // What was taken away once is taken alone the second time, as all are that are locked.
        if which == Taken::ForAll || !self.lock.was_taken_away() {
            biased::take_away(owner, beside.iter().map(|arena| &arena.lock), which);
            // Of these who frees did not wait, and nobody else may want them.
            beside.iter().for_each(|arena| arena.settle(supply));
        }
    }

    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[cold]
    unsafe fn put_off<A: GlobalAlloc>(&self, object: NonNull<u8>, bucket: NonNull<Bucket>, supply: &Supply<A>) {
        // The owner's pointer may be to less than a unit, which is written here.
        // SAFETY: a bucket's data are written once, before anybody owns it.
        let object = unsafe { (*bucket.as_ptr()).data }.with_addr(object.addr().get());
        let mut first = self.waiting.load(Ordering::Relaxed);
        loop {
            // SAFETY: an object has a unit or more, which is as much as a pointer needs, at a multiple of its size; nobody
            // uses it any more, and others see it only when it is on the stack.
            unsafe { object.cast::<*mut u8>().write(first) };
            match self.waiting.compare_exchange_weak(first, object, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => first = other,
            }
        }
        // Who had the lock may have looked before the object was there. If somebody has it now, who has it next looks: its owner
        // alone does not, and whose own it is becomes known by the way that all go.
        fence(Ordering::SeqCst);
        if let Some(_held) = self.lock.try_lock() {
            // SAFETY: the lock is held.
            unsafe { self.locked_and_freed(supply) };
        }
    }

    /// # Safety
    ///
    /// The lock is held as long as the result is used.
    #[inline(always)]
    unsafe fn locked<'a, A: GlobalAlloc>(&self, supply: &'a Supply<A>) -> Locked<'a, A> {
        // SAFETY: it is the address of a field.
        Locked { chain: unsafe { NonNull::new_unchecked(self.chain.get()) }, supply }
    }

    /// With what waits freed.
    ///
    /// # Safety
    ///
    /// As for [`locked`](Self::locked).
    #[inline(always)]
    unsafe fn locked_and_freed<'a, A: GlobalAlloc>(&self, supply: &'a Supply<A>) -> Locked<'a, A> {
        // SAFETY: as the caller promises.
        unsafe {
            let locked = self.locked(supply);
            if !self.waiting.load(Ordering::Relaxed).is_null() {
                locked.give_waiting(self);
            }
            locked
        }
    }

    /// Makes an object one of `to` units where it is. Its units before, and whether it could be done.
    ///
    /// # Safety
    ///
    /// It is one of this arena, in this bucket; `to` is not 0.
    pub(crate) unsafe fn resize<A: GlobalAlloc>(
        &self,
        object: NonNull<u8>,
        bucket: NonNull<Bucket>,
        to: usize,
        supply: &Supply<A>,
    ) -> (usize, bool) {
        let _held = self.lock.lock();
        // SAFETY: the lock is held; the rest is as the caller promises.
        let resized = unsafe {
            let chain = self.locked_and_freed(supply).chain.as_ptr();
            let gap = ((*chain).current() == bucket.as_ptr()).then_some(&mut (*chain).gap);
            supply.shape.resize(bucket, gap, object.addr().get(), to)
        };
        resized.unwrap_or_else(|| corruption("realloc of what is no object"))
    }

    /// Units of an object.
    ///
    /// # Safety
    ///
    /// It is one of this arena, in this bucket.
    pub(crate) unsafe fn units_of<A: GlobalAlloc>(
        &self,
        object: NonNull<u8>,
        bucket: NonNull<Bucket>,
        supply: &Supply<A>,
    ) -> usize {
        let _held = self.lock.lock();
        // SAFETY: the lock is held; the rest is as the caller promises.
        let units = unsafe {
            self.locked_and_freed(supply);
            supply.shape.units_of(bucket, object.addr().get())
        };
        units.unwrap_or_else(|| corruption("size of what is no object"))
    }
}

/// In all of them the lock is held, which is what a caller promises; buckets that they are given are the arena's.
impl<A: GlobalAlloc> Locked<'_, A> {
    /// # Safety
    ///
    /// See above.
    #[inline(always)]
    unsafe fn take(self, arena: &Arena, units: usize, align: usize) -> Option<NonNull<u8>> {
        // SAFETY: as the caller promises.
        unsafe {
            let chain = self.chain.as_ptr();
            if let Some(current) = NonNull::new((*chain).current())
                && let Some(object) = self.supply.shape.take(current, (*chain).data, &mut (*chain).gap, units, align)
            {
                return Some(object);
            }
            self.take_elsewhere(arena, units, align)
        }
    }

    /// From another gap of the current bucket, else of a roomy one or of a new one, which then is the current one.
    ///
    /// # Safety
    ///
    /// See above.
    #[inline(never)]
    unsafe fn take_elsewhere(self, arena: &Arena, units: usize, align: usize) -> Option<NonNull<u8>> {
        let shape = self.supply.shape;
        // SAFETY: as the caller promises; the arena owns all buckets of its list.
        unsafe {
            let chain = self.chain.as_ptr();
            let in_current =
                NonNull::new((*chain).current()).and_then(|current| shape.gap(current, (*chain).gap, units, align));
            (*chain).gap = match in_current {
                Some(gap) => gap,
                None => self.change_current(arena, units, align)?,
            };
            shape.take(NonNull::new((*chain).current())?, (*chain).data, &mut (*chain).gap, units, align)
        }
    }

    /// Makes a bucket that has a gap for an object the current one. `None`: there is no memory.
    ///
    /// # Safety
    ///
    /// See above.
    unsafe fn change_current(self, arena: &Arena, units: usize, align: usize) -> Option<Gap> {
        // SAFETY: as the caller promises; the arena owns all buckets of its list.
        unsafe {
            let chain = self.chain.as_ptr();
            let mut next = (*chain).roomy;
            for _ in 0..TRIES {
                let Some(bucket) = NonNull::new(next) else { break };
                if let Some(gap) = self.supply.shape.gap(bucket, Gap::default(), units, align) {
                    ring::remove(&mut (*chain).roomy, bucket);
                    self.make_current(bucket);
                    return Some(gap);
                }
                next = (*bucket.as_ptr()).room.next;
                if next == (*chain).roomy {
                    break;
                }
            }
            let bucket = self.supply.slabs.take(arena, &self.supply.map, &self.supply.below)?;
            (*chain).count.more();
            self.make_current(bucket);
            // Behind its color, or from its beginning.
            let whole = self.supply.shape.whole(bucket);
            if whole.fits(units, align) {
                Some(whole)
            } else {
                self.supply.shape.gap(bucket, Gap::default(), units, align)
            }
        }
    }

    /// # Safety
    ///
    /// See above; the bucket is in no list.
    unsafe fn make_current(self, bucket: NonNull<Bucket>) {
        // SAFETY: as the caller promises; the arena owns both.
        unsafe {
            let chain = self.chain.as_ptr();
            let before = (*chain).current();
            (*chain).current.store(bucket.as_ptr(), Ordering::Relaxed);
            (*chain).data = (*bucket.as_ptr()).data;
            (*bucket.as_ptr()).room.place = if (*chain).count.keeps() { Place::Kept } else { Place::Current };
            let Some(before) = NonNull::new(before) else { return };
            if (*before.as_ptr()).filled.is_empty() {
                self.disown(before);
            } else if self.supply.shape.is_roomy(&(*before.as_ptr()).filled) {
                // What did not fit now may fit into the others, which are tried first.
                (*before.as_ptr()).room.place = Place::Roomy;
                ring::insert(&mut (*chain).roomy, before, false);
            } else {
                (*before.as_ptr()).room.place = Place::Full;
            }
        }
    }

    /// Frees the object at an address.
    ///
    /// # Safety
    ///
    /// See above; the address is in the bucket, and an object there is used no longer.
    #[inline(always)]
    unsafe fn give(self, bucket: NonNull<Bucket>, address: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            let Some(freed) = self.supply.shape.give(bucket, address) else { corruption("free of what is no object") };
            let place = (*bucket.as_ptr()).room.place;
            let empty = (*bucket.as_ptr()).filled.is_empty();
            if place == Place::Kept || place == Place::Current {
                self.supply.shape.widen(bucket, &mut (*self.chain.as_ptr()).gap, freed, empty);
                if empty && place == Place::Current {
                    self.emptied(bucket);
                }
            } else if place == Place::Full {
                if self.supply.shape.is_roomy(&(*bucket.as_ptr()).filled) {
                    self.has_room(bucket);
                }
            } else if empty {
                self.emptied(bucket);
            }
        }
    }

    /// # Safety
    ///
    /// See above; the bucket is full no longer, and in no list.
    #[cold]
    unsafe fn has_room(self, bucket: NonNull<Bucket>) {
        // SAFETY: as the caller promises.
        unsafe {
            if (*bucket.as_ptr()).filled.is_empty() {
                return self.disown(bucket);
            }
            (*bucket.as_ptr()).room.place = Place::Roomy;
            ring::insert(&mut (*self.chain.as_ptr()).roomy, bucket, true);
        }
    }

    /// # Safety
    ///
    /// See above; nothing is in the bucket, which is not full.
    #[cold]
    unsafe fn emptied(self, bucket: NonNull<Bucket>) {
        // SAFETY: as the caller promises. A bucket that is given back is in no list and not the current one any more.
        unsafe {
            let chain = self.chain.as_ptr();
            if (*bucket.as_ptr()).room.place == Place::Roomy {
                ring::remove(&mut (*chain).roomy, bucket);
            } else if self.may_keep() {
                (*bucket.as_ptr()).room.place = Place::Kept;
                return;
            } else {
                (*chain).current.store(null_mut(), Ordering::Relaxed);
            }
            self.disown(bucket);
        }
    }

    /// # Safety
    ///
    /// See above.
    unsafe fn may_keep(self) -> bool {
        let keepers = &self.supply.keepers;
        let most = KEPT_BYTES >> self.supply.shape.bits();
        // Some may be one more at the same time: there are no more of them than threads.
        let may = keepers.load(Ordering::Relaxed) < most;
        if may {
            keepers.fetch_add(1, Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe {
                (*self.chain.as_ptr()).count.keep(true);
            }
        }
        may
    }

    /// # Safety
    ///
    /// See above; nothing is in the bucket, and no list has it.
    unsafe fn disown(self, bucket: NonNull<Bucket>) {
        // SAFETY: as the caller promises.
        unsafe {
            (*self.chain.as_ptr()).count.less();
            self.supply.slabs.give(bucket, &self.supply.map, &self.supply.below);
        }
    }

    /// # Safety
    ///
    /// See above.
    #[cold]
    unsafe fn give_waiting(self, arena: &Arena) {
        let mut next = arena.waiting.swap(null_mut(), Ordering::Acquire);
        while let Some(object) = NonNull::new(next) {
            // SAFETY: what is on the stack was put there by `put_off`: an object of this arena that nobody uses, with the
            // next one's address in it, which the exchange makes visible. While it waits its bucket counts it as live, so
            // that the bucket still is the arena's and its slab is there.
            unsafe {
                next = object.cast::<*mut u8>().read();
                let address = object.addr().get();
                let first = NonNull::new_unchecked(self.supply.map.first(address));
                self.give(self.supply.shape.bucket(first, address), address);
            }
        }
    }
}
