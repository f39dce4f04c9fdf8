//! A sequence of chunks that one piece of code after the other writes: a thread's, or its signal handlers'.

#![allow(unsafe_code)] // shared memory

use core::cell::Cell;

use slimline_trace::stream::record::RESUMES;
use slimline_trace::stream::ring::{CHUNK_BYTES, OVERFLOW_BYTES, ROOM_BIT};

use crate::ring::{Ring, Taken};

/// Zeros at first.
#[repr(C)]
pub(crate) struct Stream {
    /// Address of the chunk that is written; 0: none, or one that nobody reads.
    chunk: Cell<usize>,
    /// Where the next word goes, while the thread's cursor is in another stream.
    kept: Cell<usize>,
    /// Number of the next chunk.
    sequence: Cell<u64>,
    slot: Cell<u32>,
    /// 1 + its number in the ring; 0: none yet.
    number: Cell<u32>,
    /// Some of what was written since its last chunk, or of that one itself, nobody reads.
    has_lost: Cell<bool>,
    /// The chunk has notes only: the cursor leads elsewhere, and `kept` is where they end.
    is_aside: Cell<bool>,
}

impl Stream {
    pub(crate) fn has_chunk(&self) -> bool {
        self.chunk.get() != 0
    }

    /// Remembers where to go on.
    pub(crate) fn keep(&self, cursor: usize) {
        if !self.is_aside() {
            self.kept.set(cursor);
        }
    }

    /// Whether what it has is a chunk of notes, to which no cursor leads.
    pub(crate) fn is_aside(&self) -> bool {
        self.has_chunk() && self.is_aside.get()
    }

    /// Where a note goes, while the cursor is there; none where there is no room for one.
    pub(crate) fn place_of_note(&self, cursor: usize) -> Option<usize> {
        let at = if self.is_aside() { self.kept.get() } else { cursor };
        (self.has_chunk() && self.has_room(at)).then_some(at)
    }

    /// Notes go on there, in a chunk that was taken for them.
    pub(crate) fn put_aside(&self, at: usize) {
        self.is_aside.set(true);
        self.kept.set(at);
    }

    /// Where to go on; 0 where there is no chunk.
    pub(crate) fn kept(&self) -> usize {
        if self.has_chunk() { self.kept.get() } else { 0 }
    }

    pub(crate) fn has_room(&self, at: usize) -> bool {
        at & ROOM_BIT != 0 && self.bytes_up_to(at).is_some()
    }

    /// Bytes of the chunk up to there; none where that is not in it.
    pub(crate) fn bytes_up_to(&self, at: usize) -> Option<u32> {
        let bytes = at.checked_sub(self.chunk.get())?;
        (bytes <= CHUNK_BYTES + OVERFLOW_BYTES).then_some(bytes as u32)
    }

    /// When its chunk was taken; none where it has none.
    pub(crate) fn began(&self, ring: Ring) -> Option<u64> {
        self.has_chunk().then(|| ring.began(self.slot.get()))
    }

    /// Publishes the chunk, which is filled up to `at`; where that is another one, nobody knows how far.
    pub(crate) fn give_up(&self, ring: Ring, at: usize) {
        if self.has_chunk() {
            let is_aside = self.is_aside.replace(false);
            // In which functions the thread is then, notes do not tell.
            self.has_lost.set(self.has_lost.get() || is_aside);
            let at = if is_aside { self.kept.get() } else { at };
            ring.publish(self.slot.get(), self.bytes_up_to(at));
            self.chunk.set(0);
        }
    }

    /// Notes that nobody reads some of what is written.
    pub(crate) fn lose(&self) {
        self.has_lost.set(true);
    }

    /// Takes a chunk; where its first record goes. One that says so comes before it where anything was lost.
    pub(crate) fn take(&self, ring: Ring, tid: u32, path: Option<&core::ffi::CStr>) -> Option<usize> {
        if self.number.get() == 0 {
            self.number.set(ring.new_stream() + 1);
        }
        let Taken { slot, chunk } = ring.take(self.number.get() - 1, tid, self.sequence.get(), path)?;
        self.sequence.set(self.sequence.get() + 1);
        self.slot.set(slot);
        self.chunk.set(chunk);
        if !self.has_lost.replace(false) {
            return Some(chunk);
        }
        // SAFETY: the chunk was just taken, and nobody else writes there.
        unsafe { (chunk as *mut u64).write(RESUMES.word()) };
        Some(chunk + size_of::<u64>())
    }

    /// In a forked child: what was its is its parent's, and in which functions it is nobody tells.
    pub(crate) fn forget(&self) {
        self.chunk.set(0);
        self.is_aside.set(false);
        self.has_lost.set(true);
        self.sequence.set(0);
        self.number.set(0);
    }
}
