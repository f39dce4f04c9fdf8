//! Arenas: the buckets of the objects whose hints are the same, modulo the dimensions. Each has a lock of its own.
//!
//! Who allocates in an arena that other threads allocate in, too, takes turns with them; where there were many, each thread allocates
//! in an arena of its own of the same hint ([`Arenas`]).
//!
//! Who frees an object and finds the arena locked, or being taken away from its thread, does not wait: the object is put on a
//! stack, and who took it away or whoever has the lock next frees it. Only who takes an arena away waits, until its thread has
//! left it.
#![allow(unsafe_code)] // buckets are raw memory, which the lock guards

mod locked;
mod upkeep;

use std::alloc::GlobalAlloc;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

use self::locked::{Buckets, Chain, Locked};
use crate::below::Below;
use crate::biased::{self, Biased, Taken};
use crate::bucket::{Bucket, Shape};
use crate::corruption;
use crate::lanes::Arenas;
use crate::page_map::PageMap;
use crate::slab::Slabs;
use crate::table::PART;

/// Arenas of a part that several threads want by turns before it is taken for what all do: each of them costs a membarrier more.
const WANTED_AGAIN: usize = 16;

/// Turns that threads take in an arena before each allocates in one of its own: each turn has lines of the cache go from one processor to
/// another, which takes longer than all else. Until then, and so where few objects are made at all, they are in one place.
const TURNS: u8 = 250;

/// What all arenas of a context share.
#[derive(Debug)]
pub(crate) struct Supply<A> {
    pub(crate) shape: Shape,
    pub(crate) arenas: Arenas,
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

impl Arena {
    /// Memory for an object, here or where this thread allocates instead. `None`: the allocator below has none.
    #[inline(always)]
    pub(crate) fn alloc<A: GlobalAlloc>(&self, units: usize, align: usize, supply: &Supply<A>) -> Option<NonNull<u8>> {
        let Some(_held) = self.lock.own() else { return self.alloc_shared(units, align, supply) };
        // SAFETY: the lock is held until the end.
        unsafe { self.locked(supply).take(self, units, align, Buckets::OrNew) }
    }

    #[inline(never)]
    fn alloc_shared<A: GlobalAlloc>(&self, units: usize, align: usize, supply: &Supply<A>) -> Option<NonNull<u8>> {
        if self.is_crowded()
            && let Some(own) = supply.arenas.own(self.number(), &supply.below)
        {
            return self.alloc_in_own(own, units, align, supply);
        }
        self.lock.take_turn();
        self.alloc_here(units, align, Buckets::OrNew, supply)
    }

    /// In this thread's own arena of the same number. Before that gets a second bucket, or where there is no memory for one, it may be
    /// in this one: so what was made here until all had their own leaves room for others when it is freed.
    fn alloc_in_own<A: GlobalAlloc>(
        &self,
        own: &Arena,
        units: usize,
        align: usize,
        supply: &Supply<A>,
    ) -> Option<NonNull<u8>> {
        let there = || {
            let _held = self.lock.try_lock()?;
            // SAFETY: the lock is held until the end.
            unsafe { self.locked_and_freed(supply).take(self, units, align, Buckets::Owned) }
        };
        own.alloc_here(units, align, Buckets::OrFirst, supply)
            .or_else(there)
            .or_else(|| own.alloc_here(units, align, Buckets::OrNew, supply))
            .or_else(|| self.alloc_here(units, align, Buckets::Owned, supply))
    }

    /// Whether threads took turns here so often that each has an arena of its own of the same number.
    #[inline(always)]
    pub(crate) fn is_crowded(&self) -> bool {
        self.lock.turns() >= TURNS
    }

    /// In this arena, if need be after other threads.
    fn alloc_here<A: GlobalAlloc>(
        &self,
        units: usize,
        align: usize,
        buckets: Buckets,
        supply: &Supply<A>,
    ) -> Option<NonNull<u8>> {
        self.take_away(supply);
        let _held = self.lock.lock();
        // SAFETY: the lock is held until the end.
        unsafe { self.locked_and_freed(supply).take(self, units, align, buckets) }
    }

    /// That of its hint.
    pub(crate) fn number(&self) -> usize {
        self.lock.number() as usize
    }

    /// Before anybody else knows of it.
    pub(crate) fn set_number(&self, number: usize) {
        self.lock.set_number(number as u32);
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
        if let Some(_held) = self.lock.try_lock() {
            // SAFETY: as in `free`.
            unsafe { self.locked_and_freed(supply).give(bucket, object.addr().get()) };
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.put_off(object, bucket) };
        }
        self.free_put_off(supply);
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
    unsafe fn put_off(&self, object: NonNull<u8>, bucket: NonNull<Bucket>) {
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
    }

    /// Frees what was put off while the lock was held. Where another thread that does not own it has it now, that one comes here next, or
    /// looks before it takes something.
    fn free_put_off<A: GlobalAlloc>(&self, supply: &Supply<A>) {
        loop {
            // Either who puts off finds the lock free, or who leaves it what was put off.
            fence(Ordering::SeqCst);
            if self.waiting.load(Ordering::Relaxed).is_null() {
                return;
            }
            let Some(_held) = self.lock.try_lock() else { return };
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
