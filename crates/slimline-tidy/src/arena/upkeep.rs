//! What is done to arenas by who does not want them: statistics and trimming. None is taken away from its thread for it.

use std::alloc::GlobalAlloc;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering;

use super::locked::Locked;
use super::{Arena, Supply};
use crate::lock::Held;

impl Arena {
    /// How many buckets it has, and whether there is an object in one. Of no single moment while others allocate.
    ///
    /// What waits to be freed is there until [`settle`](Self::settle).
    pub(crate) fn contents(&self, slabs: &Held<'_>) -> (usize, bool) {
        // SAFETY: it is a field that is atomic.
        let buckets = unsafe { (*self.chain.get()).count.buckets() };
        // Only the current bucket may be without objects.
        (buckets, buckets > usize::from(self.is_current_empty(slabs)))
    }

    /// While no slab is given back: a bucket is nobody's current one any more before its slab is.
    fn is_current_empty(&self, _slabs: &Held<'_>) -> bool {
        // SAFETY: it is a field that is atomic. The header that it points to was made, and is given back, under the slabs' lock,
        // which is held; what is read of it is atomic.
        unsafe {
            let current = (*self.chain.get()).current.load(Ordering::Relaxed);
            !current.is_null() && (*current).filled.is_empty()
        }
    }

    /// Frees what waits.
    pub(crate) fn settle<A: GlobalAlloc>(&self, supply: &Supply<A>) {
        if !self.waiting.load(Ordering::Relaxed).is_null() {
            self.visit(supply, |_| ());
        }
    }

    /// Gives back a bucket without objects, if one is kept.
    pub(crate) fn trim<A: GlobalAlloc>(&self, supply: &Supply<A>) {
        self.settle(supply);
        if !self.is_current_empty(&supply.slabs.stay()) {
            return;
        }
        self.visit(supply, |locked| {
            let chain = locked.chain.as_ptr();
            // SAFETY: the lock is held, and the arena owns its current bucket.
            unsafe {
                let Some(current) = NonNull::new((*chain).current()) else { return };
                if !(*current.as_ptr()).filled.is_empty() {
                    return;
                }
                if (*chain).count.keeps() {
                    (*chain).count.keep(false);
                    supply.keepers.fetch_sub(1, Ordering::Relaxed);
                }
                (*chain).current.store(null_mut(), Ordering::Relaxed);
                locked.disown(current);
            }
        });
    }

    /// With what waits freed.
    fn visit<'a, A: GlobalAlloc>(&self, supply: &'a Supply<A>, what: impl Fn(Locked<'a, A>)) {
        loop {
            let borrowed = self.lock.borrow();
            // SAFETY: the lock is held until `borrowed` is dropped, of which `what` keeps nothing.
            what(unsafe { self.locked_and_freed(supply) });
            let from_owner = borrowed.is_from_owner();
            drop(borrowed);
            // Its owner would not look at what others put off meanwhile.
            if !from_owner || self.waiting.load(Ordering::Relaxed).is_null() {
                return;
            }
        }
    }
}
