//! A thread that makes children: what it notes before a fork, and that a child with all of its memory writes at its cursor.
#![allow(unsafe_code)] // words that the kernel writes

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

use slimline_trace::stream::record::FORKS;
use slimline_trace::stream::ring::NOTED_ALWAYS;

use super::{ThreadState, known_state, note, state};
use crate::entry::{cursor, set_cursor};
use crate::kernel::Signals;
use crate::ring::{self, Fork, Ring};
use crate::{kernel, process};

/// Words of a [`FORKS`] record.
const FORK_WORDS: usize = 3;
/// Children that have a thread's memory at one time.
pub(super) const MOST_LENT: usize = 4;
/// As [`PAUSED_BYTES`](super::PAUSED_BYTES), while there are such children: few, as nothing else says that they have ended.
pub(super) const LENT_BYTES: usize = 1 << 12;

/// The calling thread is about to fork: notes that, and hands all that it wrote up to then to the reader, who is to have it before
/// anything of the child.
pub(crate) fn note_fork() {
    let Some(state) = state() else { return };
    // The child begins at the stamp, and this record no earlier than its chunk: so the chunk comes first.
    let has_place = state.place_of_note().is_some() || state.make_place_of_note(FORK_WORDS * size_of::<u64>());
    let fork = Fork { stamp: ring::stamp(), process: kernel::process_id() };
    let words: [u64; FORK_WORDS] = [FORKS.word(), fork.stamp, fork.process.into()];
    if has_place {
        // SAFETY: a whole record; `fork` is called by code that has its cursor in its place.
        unsafe { note(words.as_ptr(), words.len(), NOTED_ALWAYS) };
    }
    let _signals = Signals::block();
    state.fork.set(fork);
    if let Some(ring) = process::ring() {
        state.publish(ring);
    }
}

/// The fork that made the process, if the calling thread was the one that forked and that is known.
pub(crate) fn fork() -> Option<Fork> {
    known_state().map(|state| state.fork.get()).filter(|fork| fork.stamp != 0)
}

/// In a forked child: nobody noted that fork.
pub(crate) fn forget_fork() {
    if let Some(state) = known_state() {
        state.fork.set(Fork::default());
    }
}

/// The calling thread makes a child process that has all of its memory, the cursor included: what both write goes where nobody reads until
/// the word that this returns is 0. Null where nothing of the thread is recorded, or there are too many: then for good.
pub(crate) extern "C" fn lend() -> *mut c_int {
    let _signals = Signals::block();
    let Some(ring) = process::ring().filter(|_| process::is_ours()) else { return null_mut() };
    ring.header().memory_children.fetch_add(1, Relaxed);
    let Some(state) = state() else { return null_mut() };
    state.publish(ring);
    set_cursor(0);
    match state.lent.iter().find(|word| word.load(Relaxed) == 0) {
        Some(word) => {
            word.store(1, Relaxed);
            word.as_ptr()
        }
        None => {
            state.is_lent_for_good.set(true);
            null_mut()
        }
    }
}

/// There is no such child.
pub(crate) extern "C" fn take_back(word: *mut c_int) {
    // SAFETY: one that `lend` returned.
    unsafe { AtomicI32::from_ptr(word) }.store(0, Relaxed);
}

impl ThreadState {
    /// Hands on what the current stream has; the next record goes into another chunk.
    pub(super) fn publish(&self, ring: Ring) {
        let Some(stream) = self.streams.get(self.current.get()).filter(|stream| stream.has_chunk()) else { return };
        let is_aside = stream.is_aside();
        stream.give_up(ring, cursor());
        if !is_aside {
            set_cursor(0);
        }
    }

    /// Whether a child has all of the thread's memory.
    pub(super) fn is_lent(&self) -> bool {
        self.is_lent_for_good.get() || self.lent.iter().any(|word| word.load(Relaxed) != 0)
    }
}
