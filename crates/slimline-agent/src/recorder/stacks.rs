//! The stack area: allocation call paths, appended once and named by number ever after.
#![allow(unsafe_code)] // shared memory

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};
use slimline_trace::wire::{ProcessHeader, STACK_WORDS, STACKS_OFFSET, StackEntry};

use crate::kernel;

/// Disk room is taken in steps of this.
const STEP_BYTES: usize = 256 << 10;
/// How often a thread tries for the lock before it does without: the holder only copies a few words, so this is
/// reached only where the holder was stopped for good (by a debugger, or an asynchronous cancellation).
const TRIES: u32 = 10_000;

/// Kernel's number of the thread that appends; 0 for none.
static WRITER: AtomicU64 = AtomicU64::new(0);
/// Bytes of the area that have room on the disk.
static ALLOCATED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Starts over, for a new file. No other thread may exist.
pub(super) fn reset() {
    WRITER.store(0, Relaxed);
    ALLOCATED_BYTES.store(0, Relaxed);
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
    let used = header.stack_words.load(Relaxed) as usize;
    let end = used.saturating_add(1 + frames.len());
    if end > STACK_WORDS || !super::is_open() || !make_room(end * 8) {
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
    let number = header.stacks.load(Relaxed) + 1;
    header.stacks.store(number, Relaxed);
    header.stack_words.store(end as u64, Release);
    number
}

fn make_room(bytes: usize) -> bool {
    while ALLOCATED_BYTES.load(Relaxed) < bytes {
        let allocated = ALLOCATED_BYTES.load(Relaxed);
        if !kernel::allocate(super::file(), STACKS_OFFSET + allocated, STEP_BYTES) {
            return false;
        }
        ALLOCATED_BYTES.store(allocated + STEP_BYTES, Relaxed);
    }
    true
}
