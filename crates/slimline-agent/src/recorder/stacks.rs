//! The stack area: allocation call paths, appended once and named by number ever after.
#![allow(unsafe_code)] // shared memory

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use slimline_trace::wire::{PATHS, PATHS_OFFSET, PathTotals, ProcessHeader, STACK_WORDS, STACKS_OFFSET, StackEntry};

use crate::kernel;

/// Disk room is taken in steps of this.
const STEP_BYTES: usize = 256 << 10;
/// How often a thread tries for the lock before it does without: the holder only copies a few words, so this is
/// reached only where the holder was stopped for good (by a debugger, or an asynchronous cancellation).
const TRIES: u32 = 10_000;

/// Kernel's number of the thread that appends; 0 for none.
static WRITER: AtomicU64 = AtomicU64::new(0);
/// Bytes of the area that have room on the disk,
static STACK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// and of the totals by call path.
static TOTALS_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Numbers given so far, and words of the area that they take. Ours: the target can write over the header's, which are
/// for the reader alone.
static GIVEN: AtomicU32 = AtomicU32::new(0);
static USED_WORDS: AtomicUsize = AtomicUsize::new(0);

/// Starts over, for a new file. No other thread may exist.
pub(super) fn reset() {
    WRITER.store(0, Relaxed);
    STACK_BYTES.store(0, Relaxed);
    TOTALS_BYTES.store(0, Relaxed);
    GIVEN.store(0, Relaxed);
    USED_WORDS.store(0, Relaxed);
}

/// Words of the stack area that are in use.
pub(crate) fn used_stack_words() -> usize {
    USED_WORDS.load(Relaxed)
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
    if end > STACK_WORDS || !super::is_open() || !make_room(STACKS_OFFSET, &STACK_BYTES, end * 8) {
        return 0;
    }
    let number = GIVEN.load(Relaxed) + 1;
    let totals = (number as usize + 1).min(PATHS) * size_of::<PathTotals>();
    if !make_room(PATHS_OFFSET, &TOTALS_BYTES, totals) {
        return 0;
    }
    let start = core::ptr::from_ref(header).cast::<u8>().cast_mut();
    // SAFETY: the area is mapped behind the header, `end` is inside it, the lock makes us the only writer, and the
    // reader looks no further than `stack_words`.
    unsafe {
        let at = start.add(STACKS_OFFSET).cast::<u64>().add(used);
        at.write(StackEntry::new(frames.len(), cut).0);
        core::ptr::copy_nonoverlapping(frames.as_ptr(), at.add(1), frames.len());
    }
    GIVEN.store(number, Relaxed);
    USED_WORDS.store(end, Relaxed);
    header.stacks.store(number, Relaxed);
    header.stack_words.store(end as u64, Release);
    number
}

/// Takes disk room for the first `bytes` behind `offset`; `taken` says how much there is.
fn make_room(offset: usize, taken: &AtomicUsize, bytes: usize) -> bool {
    while taken.load(Relaxed) < bytes {
        let before = taken.load(Relaxed);
        if !kernel::allocate(super::file(), offset + before, STEP_BYTES) {
            return false;
        }
        taken.store(before + STEP_BYTES, Relaxed);
    }
    true
}

/// The totals of call path `number`, where it has any.
pub(crate) fn path_totals(number: u32) -> Option<&'static PathTotals> {
    let header = super::header().filter(|_| number != 0 && number <= GIVEN.load(Relaxed))?;
    let start = core::ptr::from_ref(header).cast::<u8>();
    // SAFETY: the area is mapped behind the header, and every number that was given has its room in it.
    ((number as usize) < PATHS).then(|| unsafe { &*start.add(PATHS_OFFSET).cast::<PathTotals>().add(number as usize) })
}
