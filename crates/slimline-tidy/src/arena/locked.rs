//! What is done with an arena's buckets by who has its lock.
//!
//! ```text
//!   arena ── current ──► bucket that new objects come into
//!         ── roomy ────► bucket ⇄ bucket …   a quarter or more of each is free again
//!                        bucket, bucket …    full ones are in no list
//! ```
//!
//! An object that does not fit into the current bucket goes into the first roomy one that has room for it, else into a new
//! one; that is the current one then. A bucket whose last object is freed goes back to the slabs, for any arena.

use std::alloc::GlobalAlloc;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Arena, Supply};
use crate::bucket::{Bucket, Count, Gap, Place, ring};
use crate::corruption;

/// Roomy buckets that are tried before a new one is taken.
const TRIES: usize = 4;

/// Where an object may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buckets {
    /// Into one that the arena has.
    Owned,
    /// Into one that it has, or its first one.
    OrFirst,
    /// Into one that it has, or a new one.
    OrNew,
}

/// Bytes of buckets without objects that arenas keep, for each set of arenas, so that an object that is freed and made again and again costs no
/// bucket each time.
const KEPT_BYTES: usize = 4 << 20;

/// What the lock guards. What is atomic is written by who has the lock, and so without an exchange, and read by whoever asks for
/// statistics: no reference to all of it is made.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) current: AtomicPtr<Bucket>,
    /// Of the current bucket, here so that an object's address is known before anything of the bucket's header is.
    data: *mut u8,
    pub(super) gap: Gap,
    roomy: *mut Bucket,
    pub(super) count: Count,
}

impl Chain {
    #[inline(always)]
    pub(super) fn current(&self) -> *mut Bucket {
        self.current.load(Ordering::Relaxed)
    }
}

/// An arena whose lock is held, or the context's own. By value, so that nothing of it has to be in memory.
pub(super) struct Locked<'a, A> {
    pub(super) chain: NonNull<Chain>,
    pub(super) supply: &'a Supply<A>,
}

impl<A> Clone for Locked<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Locked<'_, A> {}

/// In all of them the lock is held, which is what a caller promises; buckets that they are given are the arena's.
impl<A: GlobalAlloc> Locked<'_, A> {
    /// # Safety
    ///
    /// See above.
    #[inline(always)]
    pub(super) unsafe fn take(
        self,
        arena: &Arena,
        units: usize,
        align: usize,
        buckets: Buckets,
    ) -> Option<NonNull<u8>> {
        // SAFETY: as the caller promises.
        unsafe {
            let chain = self.chain.as_ptr();
            if let Some(current) = NonNull::new((*chain).current())
                && let Some(object) = self.supply.shape.take(current, (*chain).data, &mut (*chain).gap, units, align)
            {
                return Some(object);
            }
            self.take_elsewhere(arena, units, align, buckets)
        }
    }

    /// From another gap of the current bucket, else of a roomy one or, if it may be, of a new one, which then is the current one.
    ///
    /// # Safety
    ///
    /// See above.
    #[inline(never)]
    unsafe fn take_elsewhere(self, arena: &Arena, units: usize, align: usize, buckets: Buckets) -> Option<NonNull<u8>> {
        let shape = self.supply.shape;
        // SAFETY: as the caller promises; the arena owns all buckets of its list.
        unsafe {
            let chain = self.chain.as_ptr();
            let in_current =
                NonNull::new((*chain).current()).and_then(|current| shape.gap(current, (*chain).gap, units, align));
            (*chain).gap = match in_current {
                Some(gap) => gap,
                None => self.change_current(arena, units, align, buckets)?,
            };
            shape.take(NonNull::new((*chain).current())?, (*chain).data, &mut (*chain).gap, units, align)
        }
    }

    /// Makes a bucket that has a gap for an object the current one. `None`: there is no memory, or none that has a gap.
    ///
    /// # Safety
    ///
    /// See above.
    unsafe fn change_current(self, arena: &Arena, units: usize, align: usize, buckets: Buckets) -> Option<Gap> {
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
            let may_grow = match buckets {
                Buckets::Owned => false,
                Buckets::OrFirst => (*chain).count.buckets() == 0,
                Buckets::OrNew => true,
            };
            if !may_grow {
                return None;
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
    pub(super) unsafe fn give(self, bucket: NonNull<Bucket>, address: usize) {
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
        let most = self.supply.arenas.sets() * (KEPT_BYTES >> self.supply.shape.bits());
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
    pub(super) unsafe fn disown(self, bucket: NonNull<Bucket>) {
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
    pub(super) unsafe fn give_waiting(self, arena: &Arena) {
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
