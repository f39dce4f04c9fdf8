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
//! Who frees an object and finds the arena locked does not wait: the object is put on a stack, and whoever has the lock next
//! frees it.
#![allow(unsafe_code)] // buckets are raw memory, which the lock guards

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::below::Below;
use crate::bucket::{Bucket, Place, Shape, ring};
use crate::corruption;
use crate::lock::{Held, Lock};
use crate::page_map::PageMap;
use crate::slab::{Slab, Slabs};

/// A bucket has room again when this share of it is free: one part of so many. Less would be looked through for little.
const ROOMY_PART: usize = 4;

/// Roomy buckets that are tried before a new one is taken.
const TRIES: usize = 4;

/// Bytes of buckets without objects that arenas keep, so that an object that is freed and made again and again costs no
/// bucket each time.
pub(crate) const KEPT_BYTES: usize = 4 << 20;

/// What all arenas of a context share.
#[derive(Debug)]
pub(crate) struct Supply<A> {
    pub(crate) shape: Shape,
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
    lock: Lock,
    /// Objects to free, each with the address of the next one in its first bytes.
    waiting: AtomicPtr<u8>,
    chain: UnsafeCell<Chain>,
}

const _: () = assert!(size_of::<Arena>() == 64);

// SAFETY: `chain` is reached by who has the lock only; the pointers in it are to memory of the context, which any thread
// may use.
unsafe impl Sync for Arena {}
// SAFETY: nothing in it is of one thread.
unsafe impl Send for Arena {}

/// What the lock guards.
#[derive(Debug)]
struct Chain {
    current: *mut Bucket,
    roomy: *mut Bucket,
    objects: usize,
    /// Of all objects.
    units: usize,
    buckets: u32,
    /// The current bucket is kept when its last object is freed.
    keeps: bool,
}

/// What an arena has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) objects: usize,
    pub(crate) units: usize,
    pub(crate) buckets: usize,
}

/// An arena whose lock is held.
struct Locked<'a, A> {
    chain: &'a mut Chain,
    supply: &'a Supply<A>,
    _held: Held<'a>,
}

impl Arena {
    /// Memory for an object. `None`: the allocator below has none.
    #[inline(always)]
    pub(crate) fn alloc<A: GlobalAlloc>(&self, units: usize, align: usize, supply: &Supply<A>) -> Option<NonNull<u8>> {
        let mut locked = self.locked(self.lock.lock(), supply);
        let object = match locked.take_current(units, align) {
            Some(object) => object,
            None => locked.take_elsewhere(self, units, align)?,
        };
        locked.chain.objects += 1;
        locked.chain.units += units;
        Some(object)
    }

    /// Frees an object.
    ///
    /// # Safety
    ///
    /// It is one of this arena, in this bucket, and is used no longer.
    #[inline(always)]
    pub(crate) unsafe fn free<A: GlobalAlloc>(&self, object: NonNull<u8>, bucket: NonNull<Bucket>, supply: &Supply<A>) {
        if let Some(held) = self.lock.try_lock() {
            // SAFETY: as the caller promises.
            unsafe { self.locked(held, supply).give(bucket, object.addr().get()) };
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.put_off(object, bucket, supply) };
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
        // Who had the lock may have looked before the object was there.
        if let Some(held) = self.lock.try_lock() {
            self.locked(held, supply);
        }
    }

    /// With what waits freed.
    #[inline(always)]
    fn locked<'a, A: GlobalAlloc>(&'a self, held: Held<'a>, supply: &'a Supply<A>) -> Locked<'a, A> {
        // SAFETY: `held` is this arena's lock, which goes into the result beside the reference and so outlives it; whoever
        // else has a reference has the lock.
        let chain = unsafe { &mut *self.chain.get() };
        let mut locked = Locked { chain, supply, _held: held };
        if !self.waiting.load(Ordering::Relaxed).is_null() {
            locked.give_waiting(self);
        }
        locked
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
        let locked = self.locked(self.lock.lock(), supply);
        // SAFETY: the lock is held; the rest is as the caller promises.
        let resized = unsafe { supply.shape.resize(bucket, object.addr().get(), to) };
        let (from, done) = resized.unwrap_or_else(|| corruption("realloc of what is no object"));
        if done {
            locked.chain.units = locked.chain.units + to - from;
        }
        (from, done)
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
        let _locked = self.locked(self.lock.lock(), supply);
        // SAFETY: the lock is held; the rest is as the caller promises.
        let units = unsafe { supply.shape.units_of(bucket, object.addr().get()) };
        units.unwrap_or_else(|| corruption("size of what is no object"))
    }

    /// What is in it.
    pub(crate) fn contents<A: GlobalAlloc>(&self, supply: &Supply<A>) -> Contents {
        let locked = self.locked(self.lock.lock(), supply);
        let chain = &locked.chain;
        Contents { objects: chain.objects, units: chain.units, buckets: chain.buckets as usize }
    }

    /// Gives back a bucket without objects, if one is kept.
    pub(crate) fn trim<A: GlobalAlloc>(&self, supply: &Supply<A>) {
        let mut locked = self.locked(self.lock.lock(), supply);
        if std::mem::take(&mut locked.chain.keeps) {
            supply.keepers.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(current) = NonNull::new(locked.chain.current) {
            // SAFETY: the arena owns its current bucket, and the lock is held.
            unsafe {
                if (*current.as_ptr()).room.live == 0 {
                    locked.chain.current = null_mut();
                    locked.disown(current);
                }
            }
        }
    }
}

impl<A: GlobalAlloc> Locked<'_, A> {
    #[inline(always)]
    fn take_current(&mut self, units: usize, align: usize) -> Option<NonNull<u8>> {
        let current = NonNull::new(self.chain.current)?;
        // SAFETY: the arena owns the bucket, and its lock is held.
        unsafe { self.supply.shape.take(current, units, align) }
    }

    /// From a roomy bucket or a new one, which then is the current one.
    #[cold]
    fn take_elsewhere(&mut self, arena: &Arena, units: usize, align: usize) -> Option<NonNull<u8>> {
        let shape = self.supply.shape;
        let mut next = self.chain.roomy;
        for _ in 0..TRIES {
            let Some(bucket) = NonNull::new(next) else { break };
            // SAFETY: the arena owns all buckets of its list, and its lock is held.
            unsafe {
                if let Some(object) = shape.take(bucket, units, align) {
                    ring::remove(&mut self.chain.roomy, bucket);
                    self.make_current(bucket);
                    return Some(object);
                }
                next = (*bucket.as_ptr()).room.next;
            }
            if next == self.chain.roomy {
                break;
            }
        }
        let bucket = self.supply.slabs.take(arena, &self.supply.map, &self.supply.below)?;
        self.chain.buckets += 1;
        self.make_current(bucket);
        self.take_current(units, align)
    }

    fn make_current(&mut self, bucket: NonNull<Bucket>) {
        let before = std::mem::replace(&mut self.chain.current, bucket.as_ptr());
        // SAFETY: the arena owns both, and its lock is held.
        unsafe {
            (*bucket.as_ptr()).room.place = Place::Current;
            let Some(before) = NonNull::new(before) else { return };
            if (*before.as_ptr()).room.live == 0 {
                self.disown(before);
            } else if self.is_roomy(before) {
                // What did not fit now may fit into the others, which are tried first.
                (*before.as_ptr()).room.place = Place::Roomy;
                ring::insert(&mut self.chain.roomy, before, false);
            } else {
                (*before.as_ptr()).room.place = Place::Full;
            }
        }
    }

    /// # Safety
    ///
    /// The arena owns the bucket.
    unsafe fn is_roomy(&self, bucket: NonNull<Bucket>) -> bool {
        // SAFETY: the lock is held.
        usize::from(unsafe { (*bucket.as_ptr()).room.free }) >= self.supply.shape.units() / ROOMY_PART
    }

    /// Frees the object at an address.
    ///
    /// # Safety
    ///
    /// The arena owns the bucket, the address is in it, and an object there is used no longer.
    #[inline(always)]
    unsafe fn give(&mut self, bucket: NonNull<Bucket>, address: usize) {
        // SAFETY: the lock is held; the rest is as the caller promises.
        unsafe {
            let Some(units) = self.supply.shape.give(bucket, address) else { corruption("free of what is no object") };
            self.chain.objects -= 1;
            self.chain.units -= units;
            let room = &raw mut (*bucket.as_ptr()).room;
            if (*room).live == 0 {
                self.emptied(bucket);
            } else if (*room).place == Place::Full && self.is_roomy(bucket) {
                (*room).place = Place::Roomy;
                ring::insert(&mut self.chain.roomy, bucket, true);
            }
        }
    }

    /// # Safety
    ///
    /// The arena owns the bucket, and nothing is in it.
    unsafe fn emptied(&mut self, bucket: NonNull<Bucket>) {
        // SAFETY: the lock is held; the rest is as the caller promises. A bucket that is given back is in no list and not
        // the current one any more.
        unsafe {
            match (*bucket.as_ptr()).room.place {
                Place::Current if self.may_keep() => return,
                Place::Current => self.chain.current = null_mut(),
                Place::Roomy => ring::remove(&mut self.chain.roomy, bucket),
                Place::Full | Place::Unowned => {}
            }
            self.disown(bucket);
        }
    }

    fn may_keep(&mut self) -> bool {
        let keepers = &self.supply.keepers;
        let most = KEPT_BYTES >> self.supply.shape.bits();
        if !self.chain.keeps && keepers.load(Ordering::Relaxed) < most {
            // Some may be one more at the same time: there are no more of them than threads.
            keepers.fetch_add(1, Ordering::Relaxed);
            self.chain.keeps = true;
        }
        self.chain.keeps
    }

    /// # Safety
    ///
    /// The arena owns the bucket, nothing is in it, and no list has it.
    unsafe fn disown(&mut self, bucket: NonNull<Bucket>) {
        self.chain.buckets -= 1;
        // SAFETY: as the caller promises.
        unsafe { self.supply.slabs.give(bucket, &self.supply.map, &self.supply.below) };
    }

    #[cold]
    fn give_waiting(&mut self, arena: &Arena) {
        let mut next = arena.waiting.swap(null_mut(), Ordering::Acquire);
        while let Some(object) = NonNull::new(next) {
            // SAFETY: what is on the stack was put there by `put_off`: an object of this arena that nobody uses, with the
            // next one's address in it, which the exchange makes visible. While it waits its bucket counts it as live, so
            // that the bucket still is the arena's and its slab is there.
            unsafe {
                next = object.cast::<*mut u8>().read();
                let address = object.addr().get();
                let slab = self.supply.map.slab(address);
                self.give(Slab::bucket(slab, address, self.supply.shape), address);
            }
        }
    }
}

/// Arenas of a part of the table that is made when one of them is first needed.
const PART: usize = 256;

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
        let entry = &self.parts()[number / PART];
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
