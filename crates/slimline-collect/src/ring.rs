//! Process files as the collector sees them: shared memory that another process writes while we read.
//!
//! All access goes through atomics, so whatever the target does to its mapping, what is read here is some value, never
//! undefined behaviour; every value is then checked. Messages are copied out of the ring before anything looks at
//! them. Where a target cuts the file off, zeros are read ([`cut_files`](crate::cut_files)), and its recording ends.
//!
//! The file is mapped in parts, as far as it is looked at: address space may be limited here too.
#![allow(unsafe_code)] // shared memory is a raw pointer; three functions turn it into atomics

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use slimline_trace::wire::{
    FILE_BYTES, LONGEST_REFUSAL, MAGIC, PATHS, PATHS_OFFSET, PathTotals, ProcessHeader, ProcessState, RING_BYTES,
    RINGS_OFFSET, SLOTS, SLOTS_OFFSET, STACK_WORDS, STACKS_OFFSET, SlotHeader, SlotState, VERSION,
};

use crate::cut_files::survive_cut_files;

/// Words of one ring.
const RING_WORDS: usize = RING_BYTES / 8;
/// Size of the parts that are mapped behind the slot headers.
const PART_BYTES: usize = 1 << 20;
const PARTS: usize = (FILE_BYTES - STACKS_OFFSET).div_ceil(PART_BYTES);
const _: () = assert!((RINGS_OFFSET - STACKS_OFFSET).is_multiple_of(PART_BYTES));
const _: () = assert!(PART_BYTES.is_multiple_of(RING_BYTES));

/// A mapped process file.
#[derive(Debug)]
pub(crate) struct ProcessFile {
    /// Header and slot headers.
    head: MmapRaw,
    /// What is behind them, mapped when it is first looked at.
    parts: Box<[OnceLock<MmapRaw>]>,
    file: File,
}

/// Why a process file can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// Not of its full size yet, or its agent has not filled in the header: look again later.
    #[error("not ready yet")]
    NotReady,
    /// Empty: it will be larger in a moment, unless its process may not make files of that size.
    #[error("empty")]
    Empty,
    /// Its process could not make it.
    #[error("refused")]
    Refused { error: io::Error },
    #[error("written by another version of the agent ({found}, this is {VERSION})")]
    Version { found: u32 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ProcessFile {
    /// Maps the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        match file.metadata()?.len() {
            0 => return Err(OpenError::Empty),
            errno if errno < LONGEST_REFUSAL => {
                return Err(OpenError::Refused { error: io::Error::from_raw_os_error(errno as i32) });
            }
            bytes if bytes < FILE_BYTES as u64 => return Err(OpenError::NotReady),
            _ => {}
        }
        let file = Self::map(file)?;
        if file.header_u64(offset_of!(ProcessHeader, magic)) != MAGIC || file.state() == ProcessState::Starting as u32 {
            return Err(OpenError::NotReady);
        }
        match file.header_u32(offset_of!(ProcessHeader, version)) {
            VERSION => Ok(file),
            found => Err(OpenError::Version { found }),
        }
    }

    /// Maps an open file of full size, whatever is in it.
    pub(crate) fn map(file: File) -> io::Result<Self> {
        survive_cut_files();
        let head = MmapOptions::new().len(STACKS_OFFSET).map_raw(&file)?;
        Ok(Self { head, parts: (0..PARTS).map(|_| OnceLock::new()).collect(), file })
    }

    /// Whether the file has become shorter: what is read of it may be zeros that nobody wrote.
    pub(crate) fn is_cut(&self) -> bool {
        self.file.metadata().map_or(true, |found| found.len() < FILE_BYTES as u64)
    }

    /// The word at `offset`, which must be a multiple of 8 before the stack area.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.head.len());
        // SAFETY: the mapping lives as long as `self`, is page-aligned and readable and writable; the assertion keeps
        // the word inside it and aligned. Atomics may be changed by others at any time.
        unsafe { AtomicU64::from_ptr(self.head.as_mut_ptr().add(offset).cast()) }
    }

    /// The `count` words at `offset`, which must be a multiple of 8; all inside one part. None where it can't be mapped.
    fn words(&self, offset: usize, count: usize) -> Option<&[AtomicU64]> {
        let (part, at) = ((offset - STACKS_OFFSET) / PART_BYTES, (offset - STACKS_OFFSET) % PART_BYTES);
        assert!(at.is_multiple_of(8) && count <= (PART_BYTES - at) / 8);
        let place = &self.parts[part];
        if place.get().is_none() {
            let start = (STACKS_OFFSET + part * PART_BYTES) as u64;
            let mapped = MmapOptions::new().offset(start).len(PART_BYTES).map_raw(&self.file).ok()?;
            // Where another thread was first, its mapping is as good.
            let _ = place.set(mapped);
        }
        // SAFETY: as in `word`, for `count` words.
        Some(unsafe { std::slice::from_raw_parts(place.get()?.as_mut_ptr().add(at).cast(), count) })
    }

    /// The value of a word behind the slot headers.
    fn value(&self, offset: usize) -> Option<u64> {
        Some(self.words(offset, 1)?[0].load(Ordering::Relaxed))
    }

    /// The half word at `offset`, which must be a multiple of 4 before the stack area.
    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.head.len());
        // SAFETY: as in `word`. No field is accessed in both sizes.
        unsafe { AtomicU32::from_ptr(self.head.as_mut_ptr().add(offset).cast()) }
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

    /// Descriptors of the agent's perf events; 0 for none.
    pub(crate) fn events(&self) -> [u32; 2] {
        let start = offset_of!(ProcessHeader, events);
        [start, start + 4].map(|offset| self.header_u32(offset))
    }

    /// Writes a field as the agent does.
    #[cfg(test)]
    pub(crate) fn put_u32(&self, offset: usize, value: u32) {
        self.half(offset).store(value, Ordering::Release);
    }

    /// The process's numbers in its own namespace, which comes first.
    pub(crate) fn own_numbers(&self) -> (u64, u32) {
        (self.header_u64(offset_of!(ProcessHeader, pid_namespace)), self.header_u32(offset_of!(ProcessHeader, pid)))
    }

    /// The [`Self::own_numbers`] of the process that it was forked from, and when; none where it was not.
    pub(crate) fn fork(&self) -> Option<((u64, u32), u64)> {
        let forked_ns = self.header_u64(offset_of!(ProcessHeader, forked_ns));
        let namespace = self.header_u64(offset_of!(ProcessHeader, forked_from_namespace));
        let from = (namespace, self.header_u32(offset_of!(ProcessHeader, forked_from)));
        (forked_ns != 0).then_some((from, forked_ns))
    }

    /// Writes a word as the agent does.
    #[cfg(test)]
    pub(crate) fn put_u64(&self, offset: usize, value: u64) {
        let word = if offset < STACKS_OFFSET { self.word(offset) } else { &self.words(offset, 1).unwrap()[0] };
        word.store(value, Ordering::Release);
    }

    /// The slot `index` < [`SLOTS`].
    pub(crate) fn slot(&self, index: usize) -> Slot<'_> {
        assert!(index < SLOTS);
        Slot { file: self, index }
    }

    /// Word `index` of the stack area, where the agent says that it has been written.
    pub(crate) fn stack_word(&self, index: usize) -> Option<u64> {
        let used = self.header_u64(offset_of!(ProcessHeader, stack_words)).min(STACK_WORDS as u64);
        if (index as u64) < used { self.value(STACKS_OFFSET + index * 8) } else { None }
    }

    /// What was counted of allocation call path `number`: blocks, and the most blocks and bytes alive at a time.
    pub(crate) fn path_totals(&self, number: usize) -> Option<(u64, u64, u64)> {
        let at = PATHS_OFFSET + (number < PATHS).then(|| number * size_of::<PathTotals>())?;
        let field = |offset| self.value(at + offset);
        let counted = field(offset_of!(PathTotals, counted)).filter(|&counted| counted != 0)?;
        // The target can scribble here.
        let peak = |offset| Some((field(offset)? as i64).max(0) as u64);
        Some((counted, peak(offset_of!(PathTotals, peak_blocks))?, peak(offset_of!(PathTotals, peak_bytes))?))
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
    /// `Err` where the counts make no sense, as after the target wrote over them, or the ring can't be mapped; reading
    /// then goes on from `head`.
    pub(crate) fn take(&self, words: &mut Vec<u64>) -> Result<(), Garbled> {
        words.clear();
        let tail_word = self.file.word(self.field(offset_of!(SlotHeader, tail)));
        let (head, tail) = (self.head(), tail_word.load(Ordering::Relaxed));
        if head == tail {
            return Ok(());
        }
        let bytes = head.wrapping_sub(tail);
        let sensible = bytes <= RING_BYTES as u64 && head.is_multiple_of(8) && tail.is_multiple_of(8);
        let ring = self.file.words(RINGS_OFFSET + self.index * RING_BYTES, RING_WORDS).filter(|_| sensible);
        if let Some(ring) = ring {
            let (start, count) = ((tail / 8) as usize % RING_WORDS, (bytes / 8) as usize);
            let to_end = count.min(RING_WORDS - start);
            for run in [&ring[start..start + to_end], &ring[..count - to_end]] {
                words.extend(run.iter().map(|word| word.load(Ordering::Relaxed)));
            }
        }
        tail_word.store(head, Ordering::Release);
        if ring.is_some() { Ok(()) } else { Err(Garbled) }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use slimline_trace::wire::{MAX_FRAMES, MessageKind};

    use super::*;
    use crate::message::{Message, messages};
    use crate::synthetic::{SyntheticProcess, SyntheticSample, maps_words, thread_words};

    fn pair() -> (tempfile::TempDir, SyntheticProcess, ProcessFile) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("7-0.ring");
        let writer = SyntheticProcess::create(&path, 7);
        let reader = ProcessFile::open(&path).unwrap();
        (scratch, writer, reader)
    }

    /// Times of the samples in the ring.
    fn sample_times(file: &ProcessFile) -> Vec<u64> {
        let mut words = Vec::new();
        file.slot(0).take(&mut words).unwrap();
        messages(&words)
            .map(|message| match message {
                Ok(Message::Sample(sample)) => sample.time_ns,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_file_is_opened_once_its_agent_is_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("7-0.ring");
        assert!(matches!(ProcessFile::open(&path), Err(OpenError::Io(_))));
        fs::write(&path, "").unwrap();
        assert!(matches!(ProcessFile::open(&path), Err(OpenError::Empty)));
        fs::write(&path, [0; 28]).unwrap();
        let refused = ProcessFile::open(&path);
        assert!(
            matches!(&refused, Err(OpenError::Refused { error }) if error.raw_os_error() == Some(28)),
            "{refused:?}"
        );
        fs::write(&path, [0; 8192]).unwrap();
        assert!(matches!(ProcessFile::open(&path), Err(OpenError::NotReady)));
        fs::remove_file(&path).unwrap();
        let writer = SyntheticProcess::create(&path, 7);
        writer.set_state(ProcessState::Starting);
        assert!(matches!(ProcessFile::open(&path), Err(OpenError::NotReady)));
        writer.set_state(ProcessState::Running);
        assert!(ProcessFile::open(&path).is_ok());
    }

    #[test]
    fn a_full_ring_takes_no_more_and_loses_nothing() {
        let (_scratch, writer, reader) = pair();
        writer.own_slot(0, 7);
        let sample = |time_ns| SyntheticSample { time_ns, frames: vec![1; 64], ..SyntheticSample::default() };
        let count = (0..).take_while(|&time| writer.push(0, MessageKind::Sample, &sample(time).words())).count() as u64;
        assert!(count > 300, "{count}");
        assert_eq!(sample_times(&reader), (0..count).collect::<Vec<_>>());
        assert!(writer.push(0, MessageKind::Sample, &sample(count).words()), "room was handed back");
        assert_eq!(sample_times(&reader), [count]);
    }

    #[test]
    fn a_killed_writer_leaves_whole_messages() {
        let (_scratch, writer, reader) = pair();
        writer.own_slot(0, 7);
        let sample = SyntheticSample { time_ns: 5, ..SyntheticSample::default() };
        assert!(writer.push(0, MessageKind::Sample, &sample.words()));
        // Killed while it wrote the next: header and half a body beyond `head`.
        let at = 8 + sample.words().len() as u64 * 8;
        writer.put_ring(0, at, 1 | 80 << 32);
        writer.put_ring(0, at + 8, 6);
        assert_eq!(sample_times(&reader), [5]);
        assert!(sample_times(&reader).is_empty());
    }

    #[test]
    fn senseless_counts_are_told_and_survived() {
        for head in [u64::MAX, RING_BYTES as u64 + 8, 12] {
            let (_scratch, writer, reader) = pair();
            writer.put_slot_u64(0, offset_of!(SlotHeader, head), head);
            let mut words = vec![1];
            assert_eq!(reader.slot(0).take(&mut words), Err(Garbled));
            assert!(words.is_empty());
            assert_eq!(reader.slot(0).take(&mut words), Ok(()), "told once: {head:#x}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_reads_as_zeros_and_says_so() {
        let (scratch, writer, reader) = pair();
        writer.own_slot(0, 7);
        assert!(writer.push(0, MessageKind::Sample, &SyntheticSample::default().words()));
        assert!(!reader.is_cut());
        File::options().write(true).open(scratch.path().join("7-0.ring")).unwrap().set_len(0).unwrap();
        assert!(sample_times(&reader).is_empty());
        assert_eq!((reader.state(), reader.stack_word(0)), (0, None));
        assert!(reader.is_cut());
        reader.stop();
    }

    #[test]
    fn the_stack_area_ends_where_the_agent_says() {
        let (_scratch, writer, reader) = pair();
        writer.put_stacks(&[&[10, 20]]);
        assert_eq!([0, 1, 2, 3].map(|word| reader.stack_word(word)), [Some(2), Some(10), Some(20), None]);
        assert_eq!(reader.stack_word(usize::MAX), None);
    }

    /// One step of a writer and a reader that take turns.
    #[derive(Clone, Debug)]
    enum Step {
        Write(SyntheticSample),
        Thread(u32),
        Maps(String),
        Drain,
    }

    fn step() -> impl Strategy<Value = Step> {
        let frames = proptest::collection::vec(1..u64::MAX, 0..=MAX_FRAMES);
        let accesses = proptest::collection::vec((0..1_u64 << 47, Just(None)), 0..512);
        let sample = (any::<u64>(), frames, accesses).prop_map(|(time_ns, frames, accesses)| {
            Step::Write(SyntheticSample { time_ns, frames, blocks: Vec::new(), accesses, region: time_ns as u32 })
        });
        prop_oneof![
            8 => sample,
            2 => (1..99_u32).prop_map(Step::Thread),
            1 => "[a-z /\n-]{1,900}".prop_map(Step::Maps),
            2 => Just(Step::Drain),
        ]
    }

    proptest! {
        /// What goes in comes out, in order and whole, wherever the ring wraps.
        #[test]
        fn everything_written_is_read(steps in proptest::collection::vec(step(), 1..400)) {
            let (_scratch, writer, reader) = pair();
            writer.own_slot(0, 7);
            let mut written: Vec<Vec<u64>> = Vec::new();
            let mut read = Vec::new();
            let mut drain = || {
                let mut words = Vec::new();
                reader.slot(0).take(&mut words).unwrap();
                for message in messages(&words) {
                    read.push(match message.unwrap() {
                        Message::Sample(sample) => SyntheticSample {
                            time_ns: sample.time_ns,
                            frames: sample.frames.to_vec(),
                            blocks: Vec::new(),
                            region: sample.region,
                            accesses: sample.accesses().map(|access| (access.address(), None)).collect(),
                        }.words(),
                        Message::Thread(event) => thread_words(event.time_ns, event.tid, event.ended == 1, "name"),
                        Message::Maps(maps) => {
                            let mut text = Vec::new();
                            maps.append_text(&mut text);
                            maps_words(maps.time_ns, std::str::from_utf8(&text).unwrap(), 4096).remove(0)
                        }
                        Message::Range(..) | Message::Allocator(..) => unreachable!("none was written"),
                    });
                }
            };
            for step in steps {
                let (kind, body) = match step {
                    Step::Write(sample) => (MessageKind::Sample, sample.words()),
                    Step::Thread(tid) => (MessageKind::Thread, thread_words(3, tid, tid % 2 == 0, "name")),
                    Step::Maps(text) => (MessageKind::Maps, maps_words(4, &text, 4096).remove(0)),
                    Step::Drain => {
                        drain();
                        continue;
                    }
                };
                if writer.push(0, kind, &body) {
                    written.push(body);
                }
            }
            drain();
            prop_assert_eq!(read, written);
        }

        /// Whatever the target leaves in its ring: no panic, and an end.
        #[test]
        fn garbage_is_survived(
            garbage in proptest::collection::vec(prop_oneof![any::<u64>(), (0..6_u64, 0..200_u64).prop_map(|(kind, bytes)| kind | bytes << 32)], 1..200),
            head in 0..2000_u64,
        ) {
            let (_scratch, writer, reader) = pair();
            for (word, &value) in garbage.iter().enumerate() {
                writer.put_ring(0, word as u64 * 8, value);
            }
            writer.put_slot_u64(0, offset_of!(SlotHeader, head), head);
            let mut words = Vec::new();
            if reader.slot(0).take(&mut words).is_ok() {
                prop_assert!(messages(&words).count() <= words.len());
            }
        }
    }
}
