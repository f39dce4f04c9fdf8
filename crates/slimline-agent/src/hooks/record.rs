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
use crate::blocks::{self, BLOCKS, BlockIndex, INNER, Removed};
use crate::{follow, next, ranges, recorder, thread};
use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use slimline_trace::wire::{LARGE_BLOCK_BYTES, RangeKind};

/// Where blocks are entered, and as what large ones are told.
pub(crate) trait Layer {
    const ALLOCATED: RangeKind;
    const FREED: RangeKind;
    fn blocks() -> &'static BlockIndex;
}

/// Blocks of the C library's allocator, or of one in its place.
pub(crate) struct Outer;

impl Layer for Outer {
    const ALLOCATED: RangeKind = RangeKind::Allocated;
    const FREED: RangeKind = RangeKind::Freed;

    #[inline(always)]
    fn blocks() -> &'static BlockIndex {
        &BLOCKS
    }
}

/// Blocks that an allocator of the program's own cuts out of those, or out of mappings.
pub(crate) struct Inner;

impl Layer for Inner {
    const ALLOCATED: RangeKind = RangeKind::InnerAllocated;
    const FREED: RangeKind = RangeKind::InnerFreed;

    #[inline(always)]
    fn blocks() -> &'static BlockIndex {
        &INNER
    }
}

/// Takes notice of a block that the function below has just returned (null: of nothing), and that is not simply passed
/// over ([`super::quick`]).
pub(super) extern "C" fn allocated(block: *mut c_void, bytes: u64, sp: u64, bp: u64) -> *mut c_void {
    allocated_in::<Outer>(block, bytes, sp, bp)
}

/// The same of a layer.
#[inline(always)]
pub(crate) fn allocated_in<L: Layer>(block: *mut c_void, bytes: u64, sp: u64, bp: u64) -> *mut c_void {
    if block.is_null() {
        return block;
    }
    let base = block as u64;
    let ends_round = counts::allocation(bytes);
    if bytes < follow::followed_bytes() {
        if !ends_round {
            return block;
        }
        L::blocks().note_chosen(base);
    }
    if counts::entry() {
        enter_timed::<L>(base, bytes, sp, bp);
    } else {
        enter::<L>(base, bytes, sp, bp);
    }
    if ends_round {
        counts::settle();
    }
    block
}

/// Enters a block into the index.
#[inline(always)]
fn enter<L: Layer>(base: u64, bytes: u64, sp: u64, bp: u64) {
    if blocks::has_inner() {
        // What lay here is no more, whether its end was seen or not.
        INNER.clear(base, bytes);
    }
    let follow_shift = follow::shift_of(bytes);
    if !follow::is_counted(base, follow_shift)
        && let Some(thread) = thread::existing()
        && let Some(mut inside) = thread.enter()
        && let Some(tracker) = tracker::up_to_date(&mut inside)
        // SAFETY: the entry functions pass the stack pointer as it was at their entry.
        && let Some(stack) = unsafe { tracker.known_path(sp, bp) }
        && L::blocks().insert_within_page(base, bytes, stack, follow_shift)
    {
        thread.counts.followed();
        return;
    }
    enter_otherwise::<L>(base, bytes, follow_shift, sp, bp);
}

#[inline(never)]
fn enter_otherwise<L: Layer>(base: u64, bytes: u64, follow_shift: u32, sp: u64, bp: u64) {
    if let Some(thread) = thread::current()
        // Else from a signal handler in the middle of this very function: the index doesn't mind, the path is lost.
        && let Some(mut inside) = thread.enter()
        && let Some(tracker) = tracker::of(&mut inside)
    {
        let stack = tracker.call_path(sp, bp);
        note_missing(L::blocks().insert(base, bytes, stack, follow_shift));
        if follow::is_counted(base, follow_shift) {
            totals::add(L::blocks(), base, bytes, stack);
        }
        thread.counts.followed();
        if bytes >= LARGE_BLOCK_BYTES {
            let event = ranges::Event::new(L::ALLOCATED, base, bytes, stack, recorder::now_ns());
            tracker.waiting.tell(thread, event);
        }
    } else {
        note_missing(L::blocks().insert(base, bytes, 0, follow_shift));
    }
}

/// The same, and how long it took.
#[cold]
#[inline(never)]
fn enter_timed<L: Layer>(base: u64, bytes: u64, sp: u64, bp: u64) {
    let began = follow::ticks();
    enter::<L>(base, bytes, sp, bp);
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

/// Before the function below frees `block`, which may be in the index.
pub(crate) fn freeing_in<L: Layer>(block: *mut c_void, sp: u64, bp: u64) {
    if counts::look() {
        release_timed::<L>(block, sp, bp);
    } else {
        release::<L>(block, sp, bp);
    }
}

/// Takes a block out of the index, if it is there, and spares the next one at its place the look for it.
#[inline(always)]
fn release<L: Layer>(block: *mut c_void, sp: u64, bp: u64) -> Option<Removed> {
    let removed = leave::<L>(block, sp, bp);
    L::blocks().sweep(block as u64);
    removed
}

/// The same, and how long it took.
#[cold]
#[inline(never)]
fn release_timed<L: Layer>(block: *mut c_void, sp: u64, bp: u64) -> Option<Removed> {
    let began = follow::ticks();
    let removed = release::<L>(block, sp, bp);
    if let Some(thread) = thread::existing() {
        let ticks = follow::ticks().wrapping_sub(began);
        let bytes = removed.and_then(|removed| L::blocks().bytes_of(block as u64, removed));
        thread.counts.cost().note(ticks, bytes.map(u64::from));
    }
    removed
}

/// Takes a block out of the index, if it is there.
#[inline(always)]
pub(crate) fn leave<L: Layer>(block: *mut c_void, sp: u64, bp: u64) -> Option<Removed> {
    let removed = L::blocks().remove(block as u64)?;
    if blocks::has_inner()
        && let Some(bytes) = L::blocks().bytes_of(block as u64, removed)
    {
        INNER.clear(block as u64, bytes.into());
    }
    if removed.is_large() {
        freed_large::<L>(block as u64, sp, bp, recorder::now_ns());
    } else if let Some(leaving) = Leaving::of(L::blocks(), block as u64, removed) {
        leaving.settle();
    }
    Some(removed)
}

#[cold]
#[inline(never)]
fn freed_large<L: Layer>(base: u64, sp: u64, bp: u64, time_ns: u64) {
    let Some(thread) = thread::current() else { return };
    let Some(mut inside) = thread.enter() else { return ranges::lost(thread) };
    let Some(tracker) = tracker::of(&mut inside) else { return ranges::lost(thread) };
    let stack = tracker.call_path(sp, bp);
    tracker.waiting.tell(thread, ranges::Event::new(L::FREED, base, 0, stack, time_ns));
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
pub(crate) struct Reallocation<L> {
    base: u64,
    moving: Option<Removed>,
    leaving: Option<Leaving>,
    time_ns: u64,
    layer: PhantomData<L>,
}

impl<L: Layer> Reallocation<L> {
    /// Before the function below is called.
    pub(crate) fn begin(block: *mut c_void) -> Self {
        let base = block as u64;
        let moving = if block.is_null() { None } else { L::blocks().begin_move(base) };
        let is_large = moving.is_some_and(Removed::is_large);
        // Its size must be read before the block below can be somebody else's.
        let leaving = moving.and_then(|moving| Leaving::of(L::blocks(), base, moving));
        let time_ns = if is_large { recorder::now_ns() } else { 0 };
        Self { base, moving, leaving, time_ns, layer: PhantomData }
    }

    /// It returned `new`. With a size of 0 null means that the block was freed, else that nothing happened.
    pub(crate) fn end(self, new: *mut c_void, bytes: usize, sp: u64, bp: u64) {
        if new.is_null() && bytes != 0 {
            if let Some(moving) = self.moving {
                L::blocks().cancel_move(self.base, moving);
            }
            return;
        }
        if let Some(moving) = self.moving {
            if moving.is_large() {
                freed_large::<L>(self.base, sp, bp, self.time_ns);
            }
            if let Some(leaving) = self.leaving {
                leaving.settle();
            }
            // Also where the block stayed: it enters anew, or is passed over.
            L::blocks().end_move(self.base, moving);
        }
        allocated_in::<L>(new, bytes as u64, sp, bp);
    }
}

pub(super) unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize, sp: u64, bp: u64) -> *mut c_void {
    let reallocation = Reallocation::<Outer>::begin(block);
    // SAFETY: the caller's own request.
    let new = unsafe { (next::REALLOC.get())(block, bytes) };
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
    freeing_in::<Outer>(block, sp, bp);
    // SAFETY: the caller's own request.
    unsafe { (next::FREE.get())(block) }
}

pub(super) unsafe extern "C" fn free_sized(block: *mut c_void, bytes: usize, sp: u64, bp: u64) {
    freeing_in::<Outer>(block, sp, bp);
    // SAFETY: the caller's own request.
    unsafe { (next::FREE_SIZED.get())(block, bytes) }
}

pub(super) unsafe extern "C" fn free_aligned_sized(block: *mut c_void, align: usize, bytes: usize, sp: u64, bp: u64) {
    freeing_in::<Outer>(block, sp, bp);
    // SAFETY: the caller's own request.
    unsafe { (next::FREE_ALIGNED_SIZED.get())(block, align, bytes) }
}

/// A hooked function has made a block (null: none) of its allocator.
pub(crate) fn made<L: Layer>(block: *mut c_void, bytes: u64, sp: u64, bp: u64) {
    if !block.is_null() {
        // One function of an allocator may have got it from another of its own, and of a pool that was emptied unseen the
        // block before may be there still: this one takes its place.
        leave::<L>(block, sp, bp);
    }
    allocated_in::<L>(block, bytes, sp, bp);
}

/// A hooked function has made a block that is passed over, where the index has, or had, one around.
pub(crate) fn replaced<L: Layer>(block: *mut c_void, sp: u64, bp: u64) {
    leave::<L>(block, sp, bp);
    L::blocks().sweep(block as u64);
}

/// A hooked function is about to free a block (null: none) of its allocator.
pub(crate) fn freed<L: Layer>(block: *mut c_void, sp: u64, bp: u64) {
    freeing_in::<L>(block, sp, bp);
}

/// A block of a pool that is about to be emptied: it was freed with the others, unless it was before.
pub(crate) fn ended(block: u64, sp: u64, bp: u64) {
    leave::<Inner>(block as *mut c_void, sp, bp);
}

/// Before an allocator's own `operator delete`.
pub(super) extern "C" fn deleted(block: *mut c_void, sp: u64, bp: u64) {
    freeing_in::<Outer>(block, sp, bp);
}
