//! A forked child goes on with its parent's heap: the blocks, with the numbers of their call paths.
//!
//! The live-heap index and the table of paths are memory like any other and come along. What the numbers mean stands in
//! the parent's process file, though, and the child writes a file of its own: so the rows are taken along too, and
//! become the first rows there, in the same order and so under the same numbers. Threads' caches point into the old
//! file and begin anew.
#![allow(unsafe_code)] // memory of the agent's own

use super::{GENERATION, tracker};
use crate::context::PATHS;
use crate::{kernel, recorder};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use slimline_trace::wire::StackEntry;

/// The parent's rows, between the two calls.
static ROWS: AtomicPtr<u64> = AtomicPtr::new(null_mut());
static ROW_WORDS: AtomicUsize = AtomicUsize::new(0);

/// In a forked child, while the parent's process file is still mapped: records nothing any more, and takes along what
/// [`inherit`] needs if the child is to be recorded.
///
/// # Safety
/// The child must have one thread, and the fork must not have interrupted the agent.
pub(crate) unsafe fn in_forked_child(is_followed: bool) {
    let was_tracked = GENERATION.swap(0, Relaxed) != 0;
    // SAFETY: promised by the caller.
    unsafe { tracker::forget_all() };
    PATHS.in_forked_child();
    if recorder::header().is_none() || !is_followed || !was_tracked {
        return;
    }
    let words = recorder::used_stack_words();
    if let Some(copy) = kernel::map((words * 8).max(1)) {
        // SAFETY: so many words are in use, by our own count; the copy is ours.
        unsafe { recorder::copy_stack_words(copy.as_ptr().cast(), words) };
        ROW_WORDS.store(words, Relaxed);
        ROWS.store(copy.as_ptr().cast(), Relaxed);
    }
}

/// Writes the parent's rows, if any, to this process's file. False where they don't all fit: then numbers would be
/// wrong, and nothing may be recorded under them.
pub(super) fn inherit() -> bool {
    let rows = ROWS.swap(null_mut(), Relaxed);
    if rows.is_null() {
        return true;
    }
    let count = ROW_WORDS.load(Relaxed);
    // SAFETY: our copy.
    let mut words = unsafe { core::slice::from_raw_parts(rows, count) };
    let mut number = 0;
    let all = loop {
        let Some((first, rest)) = words.split_first() else { break true };
        let entry = StackEntry(*first);
        let Some((frames, rest)) = rest.split_at_checked(entry.frames()) else { break false };
        number += 1;
        if recorder::append_stack(frames, entry.cut()) != number {
            break false;
        }
        words = rest;
    };
    // SAFETY: mapped by `in_forked_child`; the last use was above.
    unsafe { kernel::unmap(rows.cast(), (count * 8).max(1)) };
    all
}
