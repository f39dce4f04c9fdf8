//! Which blocks were made of which pool, so that emptying a pool ends them. Only followed ones are noted: few, where there
//! are many.
#![allow(unsafe_code)] // pages of the agent's own

use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{kernel, thread};

/// Blocks of a pool, a page of them.
#[repr(C)]
struct Page {
    next: *mut Page,
    count: usize,
    blocks: [u64; 510],
}
const _: () = assert!(size_of::<Page>() == 4096);

/// A pool by its address; one without blocks is none.
#[derive(Clone, Copy)]
struct Pool {
    address: u64,
    first: *mut Page,
}

/// Pools that have blocks at one time; those beyond are emptied unnoticed, and their blocks end where others take their
/// place.
const MOST_POOLS: usize = 4096;
/// Places that a pool may be at, from where its address says on.
const PLACES: usize = 32;
/// How often a thread tries to get at the table while another is at it: a few hundred nanoseconds.
const TRIES: u32 = 100_000;

struct Pools([Pool; MOST_POOLS]);

struct Table(UnsafeCell<Pools>);
// SAFETY: used by the holder of `TAKEN`.
unsafe impl Sync for Table {}
static TABLE: Table = Table(UnsafeCell::new(Pools::NONE));
static TAKEN: AtomicBool = AtomicBool::new(false);

/// In a forked child: whoever was at the table is no more, and what it was doing may be half done.
pub(crate) fn forget() {
    if TAKEN.swap(false, Relaxed) {
        // SAFETY: one thread. The pages stay mapped, as those of the parent's other tables.
        unsafe { *TABLE.0.get() = Pools::NONE };
    }
}

/// Calls `change` with the table; not where there is no way to it.
fn with_table<R>(change: impl FnOnce(&mut Pools) -> R) -> Option<R> {
    // A signal handler of this thread must not find the table taken by it.
    let _inside = thread::current()?.enter()?;
    let is_free = || {
        core::hint::spin_loop();
        TAKEN.compare_exchange_weak(false, true, Acquire, Relaxed).is_ok()
    };
    if !(0..TRIES).any(|_| is_free()) {
        return None;
    }
    // SAFETY: we hold the flag.
    let result = change(unsafe { &mut *TABLE.0.get() });
    TAKEN.store(false, Release);
    Some(result)
}

/// Notes a block of a pool.
pub(super) fn note(pool: u64, block: u64) {
    with_table(|pools| pools.note(pool, block));
}

/// Takes all blocks of a pool, and calls `end` with each, outside of the agent.
pub(super) fn take(pool: u64, end: impl FnMut(u64)) {
    if let Some(first) = with_table(|pools| pools.take(pool)) {
        end_all(first, end);
    }
}

fn end_all(first: *mut Page, mut end: impl FnMut(u64)) {
    let mut page = first;
    while !page.is_null() {
        // SAFETY: nobody else finds it any more.
        let content = unsafe { &*page };
        content.blocks[..content.count].iter().for_each(|&block| end(block));
        let next = content.next;
        // SAFETY: mapped in this size; the last use was above.
        unsafe { kernel::unmap(page.cast(), size_of::<Page>()) };
        page = next;
    }
}

impl Pools {
    const NONE: Self = Self([Pool { address: 0, first: null_mut() }; MOST_POOLS]);

    /// The place of a pool: its own, else a free one.
    fn place(&mut self, address: u64) -> Option<&mut Pool> {
        let first = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        let places = || (0..PLACES).map(|step| (first + step) % MOST_POOLS);
        let is_its = |place: &usize| !self.0[*place].first.is_null() && self.0[*place].address == address;
        let found = places().find(is_its).or_else(|| places().find(|&place| self.0[place].first.is_null()))?;
        Some(&mut self.0[found])
    }

    fn note(&mut self, pool: u64, block: u64) {
        let Some(place) = self.place(pool) else { return };
        // SAFETY: null or a page of ours, which only the holder of the table changes.
        let has_room = unsafe { place.first.as_ref().is_some_and(|page| page.count < page.blocks.len()) };
        if !has_room {
            let Some(memory) = kernel::map(size_of::<Page>()) else { return };
            let page = memory.cast::<Page>().as_ptr();
            // SAFETY: fresh zeros; ours.
            unsafe { (*page).next = place.first };
            *place = Pool { address: pool, first: page };
        }
        // SAFETY: as above; it has room.
        unsafe {
            let page = &mut *place.first;
            page.blocks[page.count] = block;
            page.count += 1;
        }
    }

    fn take(&mut self, pool: u64) -> *mut Page {
        self.place(pool).map_or(null_mut(), |place| core::mem::replace(&mut place.first, null_mut()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    #[test]
    fn a_pool_gives_its_blocks_back_once() {
        let mut pools = Box::new(Pools::NONE);
        for block in 0..1200 {
            pools.note(0x1000, block);
            pools.note(0x2000, block + 10_000);
        }
        let mut taken = |pool| {
            let mut blocks = Vec::new();
            end_all(pools.take(pool), |block| blocks.push(block));
            blocks.sort_unstable();
            blocks
        };
        assert_eq!(taken(0x1000), (0..1200).collect::<Vec<_>>());
        assert!(taken(0x1000).is_empty());
        assert_eq!(taken(0x2000).len(), 1200);
    }
}
