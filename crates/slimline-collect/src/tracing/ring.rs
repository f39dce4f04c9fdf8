//! Rings of instrumented programs as the collector sees them: shared memory that another process writes while we read.
//!
//! All access goes through atomics, and assembly where whole chunks are copied, so whatever the program does to its mapping,
//! what is read here is some value, never undefined behaviour; every value is then checked. Chunks are copied before anything looks at them. Where a program
//! cuts the file off, zeros are read ([`cut_files`](crate::cut_files)).
#![allow(unsafe_code)] // shared memory is a raw pointer; three functions turn it into atomics, two copy and clear those; a clock

use std::arch::asm;
use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::mapped_path::mapped_path;
use memmap2::{MmapOptions, MmapRaw};
use rustix::thread::futex;
use slimline_trace::stream::record::MAX_SEGMENT_WORDS;
use slimline_trace::stream::ring::{
    BLOCKS, BLOCKS_OFFSET, CHUNK_BYTES, CLOSED_BY_READER, CLOSED_WITHOUT_READER, FILE_BYTES, GATE_OFFSET, HEAD_BYTES,
    MAGIC, OBJECTS_BYTES, OBJECTS_OFFSET, OVERFLOW_BYTES, ObjectHead, RingHeader, RingState, SHARED, SHARED_OFFSET,
    SLOTS, SLOTS_OFFSET, SharedMapping, Slot, SlotState, ThreadBlock, UNKNOWN_BYTES, VERSION, chunk_offset,
};

use super::{Fork, OwnBlock, ProcessLosses, SharedRange};
use crate::cut_files::survive_cut_files;
use crate::pid_namespace::Numbers;

/// Words that a chunk can hold, with what its last record writes beyond it.
pub(super) const CHUNK_WORDS: usize = (CHUNK_BYTES + OVERFLOW_BYTES) / 8;

/// Bytes before any chunk, in whole pages.
const MAPPED_HEAD_BYTES: usize = HEAD_BYTES.next_multiple_of(4096);

/// A mapped ring.
#[derive(Debug)]
pub(super) struct RingFile {
    /// What comes before the chunks.
    head: MmapRaw,
    /// The chunks, mapped when they are first looked at.
    chunks: Box<[OnceLock<MmapRaw>]>,
    file: File,
}

/// Why a ring can't be used.
#[derive(Debug)]
pub(super) enum OpenError {
    /// Not filled in yet: look again later.
    NotReady,
    /// Empty: it will be larger in a moment, unless its process may not make files of that size.
    Empty,
    /// Made by a program that was linked with another version of the runtime.
    Version(u32),
    Io,
}

/// What is known of a chunk beside its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkHead {
    pub(super) slot: usize,
    pub(super) stream: u32,
    pub(super) tid: u32,
    pub(super) thread_pointer: u64,
    pub(super) sequence: u64,
    pub(super) is_full: bool,
    pub(super) began: u64,
    pub(super) ended: u64,
    /// None where nobody knows it.
    pub(super) words: Option<usize>,
}

/// The time stamp of this moment: what is read from now on, was there then.
pub(super) fn now() -> u64 {
    // SAFETY: every x86-64 processor has both.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

impl RingFile {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|_| OpenError::Io)?;
        match file.metadata().map_err(|_| OpenError::Io)?.len() {
            0 => return Err(OpenError::Empty),
            bytes if bytes < FILE_BYTES as u64 => return Err(OpenError::NotReady),
            _ => {}
        }
        let ring = Self::map(file).map_err(|_| OpenError::Io)?;
        let header = |offset| ring.half(offset).load(Ordering::Acquire);
        if header(offset_of!(RingHeader, state)) != RingState::Running as u32
            || ring.word(offset_of!(RingHeader, magic)).load(Ordering::Relaxed) != MAGIC
        {
            return Err(OpenError::NotReady);
        }
        match header(offset_of!(RingHeader, version)) {
            VERSION => Ok(ring),
            found => Err(OpenError::Version(found)),
        }
    }

    fn map(file: File) -> io::Result<Self> {
        survive_cut_files();
        let head = MmapOptions::new().len(MAPPED_HEAD_BYTES).map_raw(&file)?;
        Ok(Self { head, chunks: (0..SLOTS).map(|_| OnceLock::new()).collect(), file })
    }

    /// Whether the file has become shorter: what is read of it may be zeros that nobody wrote.
    pub(super) fn is_cut(&self) -> bool {
        self.file.metadata().map_or(true, |found| found.len() < FILE_BYTES as u64)
    }

    /// All words of a slot's chunk; none where it can't be mapped.
    fn chunk_words(&self, slot: usize) -> &[AtomicU64] {
        let place = &self.chunks[slot];
        if place.get().is_none() {
            let offset = chunk_offset(slot) as u64;
            let Ok(mapped) = MmapOptions::new().offset(offset).len(CHUNK_WORDS * 8).map_raw(&self.file) else {
                // There is no address space left (ulimit -v): nobody could take what is written.
                self.stop();
                return &[];
            };
            // Where another thread was first, its mapping is as good.
            let _ = place.set(mapped);
        }
        // SAFETY: as in `word`, for all words of the mapping.
        place.get().map_or(&[], |chunk| unsafe { std::slice::from_raw_parts(chunk.as_mut_ptr().cast(), CHUNK_WORDS) })
    }

    /// The word at `offset`, which must be a multiple of 8 before the chunks.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.head.len());
        // SAFETY: the mapping lives as long as `self`, is page-aligned and readable and writable; the assertion keeps
        // the word inside it and aligned. Atomics may be changed by others at any time.
        unsafe { AtomicU64::from_ptr(self.head.as_mut_ptr().add(offset).cast()) }
    }

    /// The `count` words at `offset`, which must be a multiple of 8; all before the chunks.
    fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && count <= (self.head.len() - offset) / 8);
        // SAFETY: as in `word`, for `count` words.
        unsafe { std::slice::from_raw_parts(self.head.as_mut_ptr().add(offset).cast(), count) }
    }

    /// The half word at `offset`, which must be a multiple of 4 before the chunks.
    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.head.len());
        // SAFETY: as in `word`. No field is accessed in both sizes.
        unsafe { AtomicU32::from_ptr(self.head.as_mut_ptr().add(offset).cast()) }
    }

    fn u32_at(&self, offset: usize) -> u32 {
        self.half(offset).load(Ordering::Acquire)
    }

    fn u64_at(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Its process, as we know it.
    pub(super) fn numbers(&self) -> Numbers {
        Numbers::here(
            self.pid_namespace(),
            self.u32_at(offset_of!(RingHeader, pid)),
            self.u32_at(offset_of!(RingHeader, parent_pid)),
        )
    }

    pub(super) fn pid_namespace(&self) -> u64 {
        self.u64_at(offset_of!(RingHeader, pid_namespace))
    }

    /// Differs between the programs that one process ran.
    pub(super) fn image(&self) -> u64 {
        self.u64_at(offset_of!(RingHeader, image))
    }

    pub(super) fn started_ns(&self) -> u64 {
        self.u64_at(offset_of!(RingHeader, started_ns))
    }

    pub(super) fn losses(&self) -> ProcessLosses {
        ProcessLosses {
            waits: self.u64_at(offset_of!(RingHeader, waits)),
            waited_ns: self.u64_at(offset_of!(RingHeader, waited_ns)),
            untraced_chunks: self.u64_at(offset_of!(RingHeader, untraced_chunks)),
            untraced_children: self.u32_at(offset_of!(RingHeader, untraced_children)),
            untold_objects: self.u32_at(offset_of!(RingHeader, untold_objects)),
            unseen_forks: self.u32_at(offset_of!(RingHeader, unseen_forks)),
            memory_children: self.u32_at(offset_of!(RingHeader, memory_children)),
            lent_bytes: self.u64_at(offset_of!(RingHeader, lent_bytes)),
            untold_mappings: self.u32_at(offset_of!(RingHeader, shared)).saturating_sub(SHARED as u32),
            untold_blocks: self.u32_at(offset_of!(RingHeader, blocks)).saturating_sub(BLOCKS as u32),
            sequence_gaps: 0,
            has_no_words: self.u64_at(offset_of!(RingHeader, has_no_words)) != 0,
            is_cut_off: self.is_cut(),
            ..ProcessLosses::default()
        }
    }

    /// Which state of its parent a forked child begins with; none where that is not known, or it was not forked.
    pub(super) fn fork(&self) -> Option<Fork> {
        let [stamp, process] =
            [offset_of!(RingHeader, forked_at), offset_of!(RingHeader, forked_from)].map(|field| self.u64_at(field));
        (stamp != 0).then_some(Fork { stamp, process })
    }

    /// How long the program wanted nothing recorded, up to a time that is not after its end.
    pub(super) fn paused_ns(&self, end_ns: u64) -> u64 {
        let since_ns = self.u64_at(offset_of!(RingHeader, paused_since_ns));
        let last_ns = if since_ns == 0 { 0 } else { end_ns.saturating_sub(since_ns) };
        self.u64_at(offset_of!(RingHeader, paused_ns)).saturating_add(last_ns)
    }

    /// Has the program record nothing from now on, or everything again that it wants recorded.
    pub(super) fn set_open(&self, is_open: bool) {
        let gate = self.half(GATE_OFFSET);
        let reason = u32::from(CLOSED_BY_READER).to_le();
        if is_open {
            gate.fetch_and(!reason, Ordering::AcqRel)
        } else {
            gate.fetch_or(reason, Ordering::AcqRel)
        };
    }

    /// Has the program go on untraced.
    pub(super) fn stop(&self) {
        self.half(offset_of!(RingHeader, stop)).store(1, Ordering::Release);
        self.half(GATE_OFFSET).fetch_or(u32::from(CLOSED_WITHOUT_READER).to_le(), Ordering::AcqRel);
        self.wake();
    }

    fn wake(&self) {
        let freed = self.half(offset_of!(RingHeader, freed));
        freed.fetch_add(1, Ordering::AcqRel);
        if self.u32_at(offset_of!(RingHeader, waiting)) != 0 {
            // Nobody waits where this fails.
            let _ = futex::wake(freed, futex::Flags::empty(), u32::MAX >> 1);
        }
    }

    /// Whether any chunk waits to be read.
    pub(super) fn has_full(&self) -> bool {
        self.u32_at(offset_of!(RingHeader, full)) != 0
    }

    fn slot_offset(slot: usize, field: usize) -> usize {
        SLOTS_OFFSET + slot * size_of::<Slot>() + field
    }

    /// All chunks that are full or that threads write, and were taken by `now`: of each stream in their order.
    pub(super) fn chunks(&self, now: u64) -> Vec<ChunkHead> {
        let state = |slot| self.u32_at(Self::slot_offset(slot, offset_of!(Slot, state)));
        let found = (0..SLOTS).filter_map(|slot| match state(slot) {
            full if full == SlotState::Full as u32 => Some(self.head(slot, true)),
            owned if owned == SlotState::Owned as u32 => Some(self.head(slot, false)),
            _ => None,
        });
        let mut chunks: Vec<_> = found.filter(|chunk| (1..=now).contains(&chunk.began)).collect();
        chunks.sort_by_key(|chunk| (chunk.stream, chunk.sequence));
        chunks
    }

    fn head(&self, slot: usize, is_full: bool) -> ChunkHead {
        // Written last: what else is there is of the same chunk.
        let began = self.u64_at(Self::slot_offset(slot, offset_of!(Slot, began)));
        let half = |field| self.u32_at(Self::slot_offset(slot, field));
        let word = |field| self.u64_at(Self::slot_offset(slot, field));
        let words = match half(offset_of!(Slot, bytes)) {
            UNKNOWN_BYTES => None,
            bytes => Some((bytes as usize / 8).min(CHUNK_WORDS)),
        };
        ChunkHead {
            slot,
            stream: half(offset_of!(Slot, stream)),
            tid: half(offset_of!(Slot, tid)),
            thread_pointer: word(offset_of!(Slot, thread_pointer)),
            sequence: word(offset_of!(Slot, sequence)),
            is_full,
            began,
            ended: word(offset_of!(Slot, ended)),
            words,
        }
    }

    /// Copies a chunk from its word `from` on into `words` (cleared first), and makes its slot free, with zeros in it.
    pub(super) fn take(&self, chunk: &ChunkHead, from: usize, words: &mut Vec<u64>) {
        let source = self.chunk_words(chunk.slot);
        let source = &source[..source.len().min(chunk.words.unwrap_or(CHUNK_WORDS))];
        copy(source.get(from..).unwrap_or(&[]), words);
        clear(source);
        self.word(Self::slot_offset(chunk.slot, offset_of!(Slot, began))).store(0, Ordering::Relaxed);
        let full = self.half(offset_of!(RingHeader, full));
        // The program can scribble here.
        let _ = full.fetch_update(Ordering::AcqRel, Ordering::Acquire, |full| full.checked_sub(1));
        let state = self.half(Self::slot_offset(chunk.slot, offset_of!(Slot, state)));
        state.store(SlotState::Free as u32, Ordering::Release);
        self.wake();
    }

    /// Copies a chunk that its thread had when it ended.
    pub(super) fn peek(&self, chunk: &ChunkHead, from: usize, words: &mut Vec<u64>) {
        copy(self.chunk_words(chunk.slot).get(from..).unwrap_or(&[]), words);
    }

    /// Copies what there is of a chunk that its thread goes on writing, from its end down: a thread is done with a record before it writes
    /// the next one, so whatever is copied before a record's words and header they are as they stay.
    pub(super) fn peek_growing(&self, chunk: &ChunkHead, from: usize, words: &mut Vec<u64>) {
        let source = self.chunk_words(chunk.slot).get(from..).unwrap_or(&[]);
        // More zeros than a record has.
        let is_written = |part: &&[AtomicU64]| part.iter().any(|word| word.load(Ordering::Relaxed) != 0);
        let parts = source.chunks(1 + MAX_SEGMENT_WORDS).take_while(is_written).count();
        let source = &source[..source.len().min(parts * (1 + MAX_SEGMENT_WORDS))];
        words.clear();
        words.resize(source.len(), 0);
        for (to, from) in words.iter_mut().zip(source).rev() {
            *to = from.load(Ordering::Acquire);
        }
    }

    /// The blocks that were made for one thread each, from number `from` on, up to one that is not filled in yet.
    pub(super) fn blocks(&self, from: usize) -> Vec<OwnBlock> {
        let end = (self.u32_at(offset_of!(RingHeader, blocks)) as usize).min(BLOCKS);
        let block = |number| {
            let word = |field| self.u64_at(BLOCKS_OFFSET + number * size_of::<ThreadBlock>() + field);
            // Written last.
            let since = word(offset_of!(ThreadBlock, since));
            let [bias, start] = [offset_of!(ThreadBlock, bias), offset_of!(ThreadBlock, start)].map(word);
            (since != 0).then_some(OwnBlock { bias, start, since })
        };
        (from..end).map_while(block).collect()
    }

    /// Shared mappings, from number `from` on, up to one that is not filled in yet.
    pub(super) fn shared_mappings(&self, from: usize) -> Vec<SharedRange> {
        let end = (self.u32_at(offset_of!(RingHeader, shared)) as usize).min(SHARED);
        let mapping = |number| {
            let word = |field| self.u64_at(SHARED_OFFSET + number * size_of::<SharedMapping>() + field);
            // Written last.
            let since = word(offset_of!(SharedMapping, since));
            let [start, bytes] = [offset_of!(SharedMapping, start), offset_of!(SharedMapping, bytes)].map(word);
            let [object, offset] = [offset_of!(SharedMapping, object), offset_of!(SharedMapping, offset)].map(word);
            (since != 0).then_some(SharedRange { start, bytes, object, offset, since })
        };
        (from..end).map_while(mapping).collect()
    }

    /// The objects that have site tables, from byte `from` of their area on, each with its path; and where that ends.
    pub(super) fn objects(&self, from: usize) -> (Vec<(ObjectHead, String)>, usize) {
        let end = (self.u32_at(offset_of!(RingHeader, objects_bytes)) as usize).min(OBJECTS_BYTES);
        if end <= from {
            return (Vec::new(), from);
        }
        // By words, as all else; a path may begin in the middle of one.
        let bytes: Vec<u8> = self
            .words(OBJECTS_OFFSET, OBJECTS_BYTES / 8)
            .iter()
            .take(end.div_ceil(8))
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .collect();
        let mut rest = &bytes[from..end];
        let mut objects = Vec::new();
        while let Some(head) = ObjectHead::read(rest) {
            let behind = &rest[ObjectHead::BYTES..];
            let path = behind.split(|&byte| byte == 0).next().unwrap_or_default();
            objects.push((head, mapped_path(path, 0, Some(self.numbers().pid))));
            rest = behind.get(path.len() + 1..).unwrap_or_default();
        }
        (objects, end)
    }
}

/// Makes `to` what `from` has. In assembly, as compilers copy atomics word by word only: whatever the program writes
/// meanwhile, what is read is some bytes.
fn copy(from: &[AtomicU64], to: &mut Vec<u64>) {
    to.resize(from.len(), 0);
    // SAFETY: both have this many words, and are apart: `to` is ours alone. The direction flag is clear, as everywhere.
    unsafe {
        asm!("rep movsq", inout("rcx") from.len() => _, inout("rsi") from.as_ptr() => _, inout("rdi") to.as_mut_ptr() => _,
            options(nostack, preserves_flags));
    }
}

/// Leaves zeros.
fn clear(words: &[AtomicU64]) {
    // SAFETY: as in `copy`; atomics may be written through a shared reference.
    unsafe {
        asm!("rep stosq", inout("rcx") words.len() => _, inout("rdi") words.as_ptr() => _, in("rax") 0_u64,
            options(nostack, preserves_flags));
    }
}
