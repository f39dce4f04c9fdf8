//! Process files as the collector sees them: shared memory that another process writes while we read.
//!
//! All access goes through atomics, so whatever the target does to its mapping, what is read here is some value, never
//! undefined behaviour; every value is then checked. Messages are copied out of the ring before anything looks at
//! them. What this can't survive is a target that shrinks the file (SIGBUS); nothing but malice does that.
#![allow(unsafe_code)] // shared memory is a raw pointer; two functions turn it into atomics

use std::fs::OpenOptions;
use std::io;
use std::mem::offset_of;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use slimline_trace::wire::{
    FILE_BYTES, MAGIC, ProcessHeader, RING_BYTES, RINGS_OFFSET, SLOTS, SLOTS_OFFSET, STACK_WORDS, STACKS_OFFSET,
    SlotHeader, SlotState, VERSION,
};

/// Words of one ring.
const RING_WORDS: usize = RING_BYTES / 8;

/// A mapped process file.
#[derive(Debug)]
pub(crate) struct ProcessFile {
    mapping: MmapRaw,
}

/// Why a process file can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// Not of its full size yet, or its agent has not filled in the header: look again later.
    #[error("not ready yet")]
    NotReady,
    #[error("written by another version of the agent ({found}, this is {VERSION})")]
    Version { found: u32 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ProcessFile {
    /// Maps the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < FILE_BYTES as u64 {
            return Err(OpenError::NotReady);
        }
        let mapping = MmapOptions::new().len(FILE_BYTES).map_raw(&file)?;
        let file = Self { mapping };
        if file.header_u64(offset_of!(ProcessHeader, magic)) != MAGIC || file.state() == 0 {
            return Err(OpenError::NotReady);
        }
        match file.header_u32(offset_of!(ProcessHeader, version)) {
            VERSION => Ok(file),
            found => Err(OpenError::Version { found }),
        }
    }

    /// The word at `offset`, which must be a multiple of 8 inside the file.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.mapping.len());
        // SAFETY: the mapping lives as long as `self`, is page-aligned and readable and writable; the assertion keeps
        // the word inside it and aligned. Atomics may be changed by others at any time.
        unsafe { AtomicU64::from_ptr(self.mapping.as_mut_ptr().add(offset).cast()) }
    }

    /// The half word at `offset`, which must be a multiple of 4 inside the file.
    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.mapping.len());
        // SAFETY: as in `word`. No field is accessed in both sizes.
        unsafe { AtomicU32::from_ptr(self.mapping.as_mut_ptr().add(offset).cast()) }
    }

    /// A field of the header, by its offset.
    pub(crate) fn header_u32(&self, offset: usize) -> u32 {
        self.half(offset).load(Ordering::Acquire)
    }

    /// A field of the header, by its offset.
    pub(crate) fn header_u64(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// The process' state; see [`slimline_trace::wire::ProcessState`].
    pub(crate) fn state(&self) -> u32 {
        self.header_u32(offset_of!(ProcessHeader, state))
    }

    /// Why the agent gave up, in one line.
    pub(crate) fn failure(&self) -> String {
        const BYTES: usize = size_of::<[u8; 256]>();
        let start = offset_of!(ProcessHeader, failure);
        let text: Vec<u8> = (0..BYTES / 8).flat_map(|word| self.header_u64(start + word * 8).to_ne_bytes()).collect();
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).replace(char::is_control, " ")
    }

    /// Asks the agent to stop.
    pub(crate) fn stop(&self) {
        self.half(offset_of!(ProcessHeader, stop)).store(1, Ordering::Release);
    }

    /// The slot `index` < [`SLOTS`].
    pub(crate) fn slot(&self, index: usize) -> Slot<'_> {
        assert!(index < SLOTS);
        Slot { file: self, index }
    }

    /// Word `index` of the stack area, where the agent says that it has been written.
    pub(crate) fn stack_word(&self, index: usize) -> Option<u64> {
        let used = self.header_u64(offset_of!(ProcessHeader, stack_words)).min(STACK_WORDS as u64);
        ((index as u64) < used).then(|| self.word(STACKS_OFFSET + index * 8).load(Ordering::Relaxed))
    }
}

/// The ring of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    file: &'a ProcessFile,
    index: usize,
}

impl Slot<'_> {
    fn field(&self, offset: usize) -> usize {
        SLOTS_OFFSET + self.index * size_of::<SlotHeader>() + offset
    }

    /// See [`SlotState`].
    pub(crate) fn state(&self) -> u32 {
        self.file.header_u32(self.field(offset_of!(SlotHeader, state)))
    }

    /// Whether no thread has ever owned it.
    pub(crate) fn is_untouched(&self) -> bool {
        self.state() == SlotState::Free as u32 && self.head() == 0
    }

    /// Kernel's number of the thread.
    pub(crate) fn tid(&self) -> u32 {
        self.file.header_u32(self.field(offset_of!(SlotHeader, tid)))
    }

    fn head(&self) -> u64 {
        self.file.header_u64(self.field(offset_of!(SlotHeader, head)))
    }

    /// Messages dropped, samples among them, and their weight. Counted over all threads that owned the slot.
    pub(crate) fn dropped(&self) -> (u64, u64, u64) {
        let field = |offset| self.file.header_u64(self.field(offset));
        (
            field(offset_of!(SlotHeader, dropped)),
            field(offset_of!(SlotHeader, dropped_samples)),
            field(offset_of!(SlotHeader, dropped_weight_ns)),
        )
    }

    /// Copies everything written since the last call into `words` (cleared first), in order, and hands its room back.
    /// `Err` where the counts make no sense, as after the target wrote over them; reading then goes on from `head`.
    pub(crate) fn take(&self, words: &mut Vec<u64>) -> Result<(), Garbled> {
        words.clear();
        let tail_word = self.file.word(self.field(offset_of!(SlotHeader, tail)));
        let (head, tail) = (self.head(), tail_word.load(Ordering::Relaxed));
        if head == tail {
            return Ok(());
        }
        let bytes = head.wrapping_sub(tail);
        let sensible = bytes <= RING_BYTES as u64 && head.is_multiple_of(8) && tail.is_multiple_of(8);
        if sensible {
            let ring = RINGS_OFFSET + self.index * RING_BYTES;
            let (start, count) = ((tail / 8) as usize % RING_WORDS, (bytes / 8) as usize);
            words.extend(
                (0..count).map(|word| self.file.word(ring + (start + word) % RING_WORDS * 8).load(Ordering::Relaxed)),
            );
        }
        tail_word.store(head & !7, Ordering::Release);
        if sensible { Ok(()) } else { Err(Garbled) }
    }

    /// Makes the slot of an ended thread free. Its ring must have been drained after the thread ended.
    pub(crate) fn free(&self) {
        let state = self.file.half(self.field(offset_of!(SlotHeader, state)));
        // Fails where the target changed it meanwhile, which then is how it is.
        let _ = state.compare_exchange(
            SlotState::Ended as u32,
            SlotState::Free as u32,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
}

/// The counts of a ring made no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled;
