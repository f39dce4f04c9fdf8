//! What is recorded of each allocation: counts, and where the block is followed ([`crate::follow`]) the block in the
//! live-heap index with its call path, and an event for a large one.
//!
//! A block that was resized has the path of the last `realloc`: that is where it came to be as large as it is.
//!
//! Order matters, because the address may be given to another thread as soon as the function below has it back: a
//! block leaves the index before it is freed, and enters it after it was allocated.
#![allow(unsafe_code)] // calls the allocator below; pointers of the target

use super::counts;
use super::totals::{self, Leaving};
use super::tracker;
use crate::blocks::{BLOCKS, Removed};
use crate::{follow, next, ranges, recorder, thread};
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;
use slimline_trace::wire::{LARGE_BLOCK_BYTES, RangeKind};

/// Takes notice of a block that the function below has just returned (null: of nothing), and that is not simply passed
/// over ([`super::quick`]).
pub(super) extern "C" fn allocated(block: *mut c_void, bytes: u64, sp: u64, bp: u64) -> *mut c_void {
    if block.is_null() {
        return block;
    }
    let base = block as u64;
    let ends_round = counts::allocation(bytes);
    if bytes < follow::followed_bytes() {
        if !ends_round {
            return block;
        }
        BLOCKS.note_chosen(base);
    }
    if counts::entry() {
        enter_timed(base, bytes, sp, bp);
    } else {
        enter(base, bytes, sp, bp);
    }
    if ends_round {
        counts::settle();
    }
    block
}

/// Enters a block into the index.
#[inline(always)]
fn enter(base: u64, bytes: u64, sp: u64, bp: u64) {
    if follow::stands_for(base, bytes).is_none()
        && let Some(thread) = thread::existing()
        && let Some(mut inside) = thread.enter()
        && let Some(tracker) = tracker::up_to_date(&mut inside)
        // SAFETY: the entry functions pass the stack pointer as it was at their entry.
        && let Some(stack) = unsafe { tracker.known_path(sp, bp) }
        && BLOCKS.insert_within_page(base, bytes, stack)
    {
        thread.counts.followed();
        return;
    }
    enter_otherwise(base, bytes, sp, bp);
}

#[inline(never)]
fn enter_otherwise(base: u64, bytes: u64, sp: u64, bp: u64) {
    if let Some(thread) = thread::current()
        // Else from a signal handler in the middle of this very function: the index doesn't mind, the path is lost.
        && let Some(mut inside) = thread.enter()
        && let Some(tracker) = tracker::of(&mut inside)
    {
        let stack = tracker.call_path(sp, bp);
        note_missing(BLOCKS.insert(base, bytes, stack));
        totals::add(base, bytes, stack);
        thread.counts.followed();
        if bytes >= LARGE_BLOCK_BYTES {
            ranges::tell(thread, &mut tracker.waiting, RangeKind::Allocated, base, bytes, stack, recorder::now_ns());
        }
    } else {
        note_missing(BLOCKS.insert(base, bytes, 0));
    }
}

/// The same, and how long it took.
#[cold]
#[inline(never)]
fn enter_timed(base: u64, bytes: u64, sp: u64, bp: u64) {
    let began = follow::ticks();
    enter(base, bytes, sp, bp);
    if let Some(thread) = thread::existing() {
        thread.counts.cost().note(follow::ticks().wrapping_sub(began), Some(bytes));
    }
}

#[inline]
fn note_missing(blocks: u64) {
    #[cold]
    #[inline(never)]
    fn note(blocks: u64) {
        if let Some(header) = recorder::header() {
            header.blocks_unindexed.fetch_add(blocks, Relaxed);
        }
    }
    if blocks != 0 {
        note(blocks);
    }
}

/// Before the function below frees `block`, which may be in the index; false where that function must not see it.
fn freeing(block: *mut c_void, sp: u64, bp: u64) -> bool {
    let removed = if counts::look() { release_timed(block, sp, bp) } else { release(block, sp, bp) };
    // Else not followed, allocated before recording began, or missing from the index.
    removed.is_some() || !next::is_early(block)
}

/// Takes a block out of the index, if it is there, and spares the next one at its place the look for it.
#[inline(always)]
fn release(block: *mut c_void, sp: u64, bp: u64) -> Option<Removed> {
    let removed = leave(block, sp, bp);
    // Early blocks are never in the index, and always looked for.
    if removed.is_some() || !next::is_early(block) {
        BLOCKS.sweep(block as u64);
    }
    removed
}

/// The same, and how long it took.
#[cold]
#[inline(never)]
fn release_timed(block: *mut c_void, sp: u64, bp: u64) -> Option<Removed> {
    let began = follow::ticks();
    let removed = release(block, sp, bp);
    if let Some(thread) = thread::existing() {
        let ticks = follow::ticks().wrapping_sub(began);
        let bytes = removed.and_then(|removed| BLOCKS.bytes_of(block as u64, removed));
        thread.counts.cost().note(ticks, bytes.map(u64::from));
    }
    removed
}

/// Takes a block out of the index, if it is there.
#[inline(always)]
fn leave(block: *mut c_void, sp: u64, bp: u64) -> Option<Removed> {
    let removed = BLOCKS.remove(block as u64)?;
    if removed.is_large() {
        freed_large(block as u64, sp, bp, recorder::now_ns());
    } else if let Some(leaving) = Leaving::of(block as u64, removed) {
        leaving.settle();
    }
    Some(removed)
}

#[cold]
#[inline(never)]
fn freed_large(base: u64, sp: u64, bp: u64, time_ns: u64) {
    let Some(thread) = thread::current() else { return };
    let Some(mut inside) = thread.enter() else { return ranges::lost(thread) };
    let Some(tracker) = tracker::of(&mut inside) else { return ranges::lost(thread) };
    let stack = tracker.call_path(sp, bp);
    ranges::tell(thread, &mut tracker.waiting, RangeKind::Freed, base, 0, stack, time_ns);
}

pub(super) unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    align: usize,
    bytes: usize,
    sp: u64,
    bp: u64,
) -> c_int {
    // SAFETY: the caller's own request.
    let error = unsafe { (next::POSIX_MEMALIGN.get())(place, align, bytes) };
    if error == 0 {
        // SAFETY: filled by success. A size of 0 may give a null pointer.
        let block = unsafe { place.read() };
        allocated(block, bytes as u64, sp, bp);
    }
    error
}

/// A block on its way through `realloc`.
struct Reallocation {
    base: u64,
    moving: Option<Removed>,
    leaving: Option<Leaving>,
    time_ns: u64,
}

impl Reallocation {
    /// Before the function below is called.
    fn begin(block: *mut c_void) -> Self {
        let base = block as u64;
        let moving = if block.is_null() { None } else { BLOCKS.begin_move(base) };
        let is_large = moving.is_some_and(Removed::is_large);
        // Its size must be read before the block below can be somebody else's.
        let leaving = moving.and_then(|moving| Leaving::of(base, moving));
        Self { base, moving, leaving, time_ns: if is_large { recorder::now_ns() } else { 0 } }
    }

    /// It returned `new`. With a size of 0 null means that the block was freed, else that nothing happened.
    fn end(self, new: *mut c_void, bytes: usize, sp: u64, bp: u64) {
        if new.is_null() && bytes != 0 {
            if let Some(moving) = self.moving {
                BLOCKS.cancel_move(self.base, moving);
            }
            return;
        }
        if let Some(moving) = self.moving {
            if moving.is_large() {
                freed_large(self.base, sp, bp, self.time_ns);
            }
            if let Some(leaving) = self.leaving {
                leaving.settle();
            }
            // Also where the block stayed: it enters anew, or is passed over.
            BLOCKS.end_move(self.base, moving);
        }
        allocated(new, bytes as u64, sp, bp);
    }
}

pub(super) unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize, sp: u64, bp: u64) -> *mut c_void {
    let reallocation = Reallocation::begin(block);
    let below = if next::is_early(block) { next::realloc_early } else { next::REALLOC.get() };
    // SAFETY: the caller's own request.
    let new = unsafe { below(block, bytes) };
    reallocation.end(new, bytes, sp, bp);
    new
}

pub(super) unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    bytes: usize,
    sp: u64,
    bp: u64,
) -> *mut c_void {
    match count.checked_mul(bytes) {
        // The C library's calls `realloc`, which would come back here: so call that at once.
        // SAFETY: the caller's own request.
        Some(total) => unsafe { realloc(block, total, sp, bp) },
        // SAFETY: the caller's own request, which fails.
        None => unsafe { (next::REALLOCARRAY.get())(block, count, bytes) },
    }
}

pub(super) unsafe extern "C" fn free(block: *mut c_void, sp: u64, bp: u64) {
    if freeing(block, sp, bp) {
        // SAFETY: the caller's own request.
        unsafe { (next::FREE.get())(block) }
    }
}

pub(super) unsafe extern "C" fn free_sized(block: *mut c_void, bytes: usize, sp: u64, bp: u64) {
    if freeing(block, sp, bp) {
        // SAFETY: the caller's own request.
        unsafe { (next::FREE_SIZED.get())(block, bytes) }
    }
}

pub(super) unsafe extern "C" fn free_aligned_sized(block: *mut c_void, align: usize, bytes: usize, sp: u64, bp: u64) {
    if freeing(block, sp, bp) {
        // SAFETY: the caller's own request.
        unsafe { (next::FREE_ALIGNED_SIZED.get())(block, align, bytes) }
    }
}

/// Before an allocator's own `operator delete`.
pub(super) extern "C" fn deleted(block: *mut c_void, sp: u64, bp: u64) {
    freeing(block, sp, bp);
}
