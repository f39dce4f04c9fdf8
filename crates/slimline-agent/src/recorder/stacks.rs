//! The stack area and the totals by call path: call paths are appended once and named by number ever after.
//!
//! Both are mapped as far as they are used, in steps: a program with few call paths has little of them in its address
//! space.
#![allow(unsafe_code)] // shared memory

use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use slimline_trace::wire::{
    PATHS, PATHS_OFFSET, PathTotals, ProcessHeader, RINGS_OFFSET, STACK_WORDS, STACKS_OFFSET, StackEntry,
};

use crate::kernel;

/// Room on the disk is taken and mapped in steps of this.
const STEP_BYTES: usize = 256 << 10;
const STEP_WORDS: usize = STEP_BYTES / 8;
const STEPS: usize = (RINGS_OFFSET - STACKS_OFFSET) / STEP_BYTES;
const FIRST_OF_TOTALS: usize = (PATHS_OFFSET - STACKS_OFFSET) / STEP_BYTES;
const TOTALS_IN_STEP: usize = STEP_BYTES / size_of::<PathTotals>();
const _: () = assert!((PATHS_OFFSET - STACKS_OFFSET).is_multiple_of(STEP_BYTES));
const _: () = assert!((RINGS_OFFSET - PATHS_OFFSET).is_multiple_of(STEP_BYTES));

/// How often a thread tries for the lock before it does without: the holder only copies a few words, so this is
/// reached only where the holder was stopped for good (by a debugger, or an asynchronous cancellation).
const TRIES: u32 = 10_000;

/// Kernel's number of the thread that appends; 0 for none.
static WRITER: AtomicU64 = AtomicU64::new(0);
/// Where the parts of the stack area are mapped, and then those of the totals; null where they are not yet.
static MAPPED: [AtomicPtr<u8>; STEPS] = [const { AtomicPtr::new(null_mut()) }; STEPS];

/// Numbers given so far, and words of the area that they take. Ours: the target can write over the header's, which are
/// for the reader alone.
static GIVEN: AtomicU32 = AtomicU32::new(0);
static USED_WORDS: AtomicUsize = AtomicUsize::new(0);

/// Lets go of the file's areas: the next file begins with none.
///
/// # Safety
/// No other thread may exist.
pub(super) unsafe fn forget() {
    WRITER.store(0, Relaxed);
    for start in MAPPED.iter().filter(|place| !place.load(Relaxed).is_null()) {
        // SAFETY: mapped by `has_part`; promised by the caller.
        unsafe { kernel::unmap(start.swap(null_mut(), Relaxed), STEP_BYTES) };
    }
    GIVEN.store(0, Relaxed);
    USED_WORDS.store(0, Relaxed);
}

/// Words of the stack area that are in use.
pub(crate) fn used_stack_words() -> usize {
    USED_WORDS.load(Relaxed)
}

/// Copies so many of them, from the first on.
///
/// # Safety
/// `to` must be a place for `words`, which must be in use.
pub(crate) unsafe fn copy_stack_words(to: *mut u64, words: usize) {
    for at in (0..words).step_by(STEP_WORDS) {
        let part = MAPPED[at / STEP_WORDS].load(Relaxed).cast::<u64>();
        // SAFETY: what is in use is mapped; the rest is promised by the caller.
        unsafe { core::ptr::copy_nonoverlapping(part, to.add(at), STEP_WORDS.min(words - at)) };
    }
}

/// Appends a call path (return addresses, innermost first; `cut` as in [`StackEntry`]). Its number, or 0 (counted)
/// where it has no room. The caller makes sure that each path comes once.
///
/// Not to be called from a signal handler: it waits for other threads that append.
pub(crate) fn append_stack(frames: &[u64], cut: u8) -> u32 {
    let Some(header) = super::header() else { return 0 };
    let mut tries = 0;
    while WRITER.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
        tries += 1;
        if tries == TRIES {
            header.stacks_dropped.fetch_add(1, Relaxed);
            return 0;
        }
        if tries % 64 == 0 {
            kernel::yield_now();
        }
        core::hint::spin_loop();
    }
    let number = append(header, frames, cut);
    WRITER.store(0, Release);
    if number == 0 {
        header.stacks_dropped.fetch_add(1, Relaxed);
    }
    number
}

fn append(header: &'static ProcessHeader, frames: &[u64], cut: u8) -> u32 {
    let used = used_stack_words();
    let end = used + 1 + frames.len();
    if end > STACK_WORDS || !super::is_open() {
        return 0;
    }
    let number = GIVEN.load(Relaxed) + 1;
    let mut parts = used / STEP_WORDS..=(end - 1) / STEP_WORDS;
    if !parts.all(has_part) || (number as usize) < PATHS && !has_part(part_of_totals(number)) {
        return 0;
    }
    for (at, word) in (used..).zip(core::iter::once(StackEntry::new(frames.len(), cut).0).chain(frames.iter().copied()))
    {
        let part = MAPPED[at / STEP_WORDS].load(Relaxed).cast::<u64>();
        // SAFETY: the part was just mapped, the lock makes us the only writer, and the reader looks no further than
        // `stack_words`.
        unsafe { part.add(at % STEP_WORDS).write(word) };
    }
    GIVEN.store(number, Relaxed);
    USED_WORDS.store(end, Relaxed);
    header.stacks.store(number, Relaxed);
    header.stack_words.store(end as u64, Release);
    number
}

fn part_of_totals(number: u32) -> usize {
    FIRST_OF_TOTALS + number as usize / TOTALS_IN_STEP
}

/// Maps a part of the areas, if it is not; false where there is no room for it. One caller at a time.
fn has_part(part: usize) -> bool {
    if MAPPED[part].load(Relaxed).is_null() {
        let Some(start) = super::map_part(STACKS_OFFSET + part * STEP_BYTES, STEP_BYTES) else { return false };
        MAPPED[part].store(start.as_ptr(), Release);
    }
    true
}

/// The totals of call path `number`, where it has any.
pub(crate) fn path_totals(number: u32) -> Option<&'static PathTotals> {
    if super::header().is_none() || number == 0 || number as usize >= PATHS {
        return None;
    }
    let part = MAPPED[part_of_totals(number)].load(Acquire).cast::<PathTotals>();
    // SAFETY: mapped by `has_part`, until a forked child with one thread has no use for it.
    (!part.is_null()).then(|| unsafe { &*part.add(number as usize % TOTALS_IN_STEP) })
}
