//! A process that is none: writes a process file as the agent does, for tests.

use std::fs::OpenOptions;
use std::mem::offset_of;
use std::path::Path;

use slimline_trace::access::AccessKind;
use slimline_trace::wire::{
    AccessRecord, FILE_BYTES, MAGIC, MessageKind, ProcessHeader, ProcessState, RING_BYTES, RINGS_OFFSET, RangeKind,
    SLOTS_OFFSET, STACKS_OFFSET, SlotHeader, SlotState, StackEntry, TriggerKind, VERSION,
};

use crate::ring::ProcessFile;

/// The writing end of a process file.
pub(crate) struct SyntheticProcess {
    file: ProcessFile,
}

/// What varies between the samples of a test.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SyntheticSample {
    pub(crate) time_ns: u64,
    pub(crate) frames: Vec<u64>,
    pub(crate) blocks: Vec<(u64, u32, u32)>,
    /// Address and row of `blocks`.
    pub(crate) accesses: Vec<(u64, Option<u16>)>,
    pub(crate) region: u32,
}

impl SyntheticSample {
    /// The message's body in words.
    pub(crate) fn words(&self) -> Vec<u64> {
        let block = if self.blocks.is_empty() { u16::MAX } else { 0 };
        let counts = |low: u64, next: u64, next2: u64, next3: u64| low | next << 16 | next2 << 32 | next3 << 48;
        let mut words = vec![
            self.time_ns,
            self.time_ns / 2, // CPU time
            1_000_000,
            0x401_008,
            0x401_004,
            0x5008,
            0x7fff_0000,
            300 | (self.accesses.len() as u64) << 32,
            counts(self.frames.len() as u64, self.blocks.len() as u64, block.into(), 8),
            // Inverted, burst end at its limit, whole stack; in a region.
            u64::from(AccessKind::LOAD.bits()) | 1 << 8 | u64::from(self.region) << 32,
        ];
        words.extend(&self.frames);
        for &(base, bytes, stack) in &self.blocks {
            words.extend([base, u64::from(bytes) | u64::from(stack) << 32]);
        }
        for &(address, block) in &self.accesses {
            let record = AccessRecord::new(0x401_004, address, 8, AccessKind::STORE, block.unwrap_or(u16::MAX));
            words.extend([record.place, record.cause]);
        }
        words
    }
}

/// Body of a range event.
pub(crate) fn range_words(time_ns: u64, base: u64, bytes: u64, stack: u32, kind: RangeKind) -> Vec<u64> {
    vec![time_ns, base, bytes, u64::from(stack) | u64::from(kind as u32) << 32, 0, 0]
}

/// Body of a thread event; `name` has at most 8 bytes.
pub(crate) fn thread_words(time_ns: u64, tid: u32, is_end: bool, name: &str) -> Vec<u64> {
    let mut bytes = [0; 8];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    vec![time_ns, 7_000, u64::from(tid) | u64::from(is_end) << 32, u64::from_ne_bytes(bytes), 0]
}

/// Bodies of a snapshot of the mappings, in parts of at most `part_bytes`.
pub(crate) fn maps_words(time_ns: u64, text: &str, part_bytes: usize) -> Vec<Vec<u64>> {
    let parts: Vec<&[u8]> = text.as_bytes().chunks(part_bytes).collect();
    let last = parts.len() - 1;
    let message = |(part, text): (usize, &&[u8])| {
        let mut words = vec![time_ns, part as u64 | u64::from(part == last) << 32, text.len() as u64];
        words.extend(text.chunks(8).map(|chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(bytes)
        }));
        words
    };
    parts.iter().enumerate().map(message).collect()
}

impl SyntheticProcess {
    /// Makes the file of a running process with number `pid`.
    pub(crate) fn create(path: &Path, pid: u32) -> Self {
        let file = OpenOptions::new().create_new(true).read(true).write(true).open(path).unwrap();
        file.set_len(FILE_BYTES as u64).unwrap();
        let file = ProcessFile::map(file).unwrap();
        file.put_u32(offset_of!(ProcessHeader, version), VERSION);
        file.put_u32(offset_of!(ProcessHeader, pid), pid);
        file.put_u32(offset_of!(ProcessHeader, trigger), TriggerKind::PerfSigtrap as u32);
        file.put_u64(offset_of!(ProcessHeader, magic), MAGIC);
        let process = Self { file };
        process.set_state(ProcessState::Running);
        process
    }

    pub(crate) fn set_state(&self, state: ProcessState) {
        self.file.put_u32(offset_of!(ProcessHeader, state), state as u32);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.file.header_u32(offset_of!(ProcessHeader, stop)) == 1
    }

    /// A field of a slot's header: overwrites it with anything.
    pub(crate) fn put_slot_u64(&self, slot: usize, offset: usize, value: u64) {
        self.file.put_u64(slot_field(slot, offset), value);
    }

    pub(crate) fn own_slot(&self, slot: usize, tid: u32) {
        self.file.put_u32(slot_field(slot, offset_of!(SlotHeader, tid)), tid);
        self.set_slot_state(slot, SlotState::Owned);
    }

    pub(crate) fn set_slot_state(&self, slot: usize, state: SlotState) {
        self.file.put_u32(slot_field(slot, offset_of!(SlotHeader, state)), state as u32);
    }

    pub(crate) fn slot_state(&self, slot: usize) -> u32 {
        self.file.slot(slot).state()
    }

    /// Writes a message as the agent does; `false` where it does not fit.
    pub(crate) fn push(&self, slot: usize, kind: MessageKind, body: &[u64]) -> bool {
        let head_field = slot_field(slot, offset_of!(SlotHeader, head));
        let head = self.file.header_u64(head_field);
        let tail = self.file.header_u64(slot_field(slot, offset_of!(SlotHeader, tail)));
        let bytes = 8 + body.len() * 8;
        let to_end = RING_BYTES - head as usize % RING_BYTES;
        let pad = if bytes > to_end { to_end } else { 0 };
        if (head - tail) as usize + pad + bytes > RING_BYTES {
            return false;
        }
        if pad > 0 {
            self.put_ring(slot, head, header(MessageKind::Pad, pad));
        }
        let at = head + pad as u64;
        self.put_ring(slot, at, header(kind, bytes));
        for (word, &value) in (1..).zip(body) {
            self.put_ring(slot, at + word * 8, value);
        }
        self.file.put_u64(head_field, at + bytes as u64);
        true
    }

    /// One word of a ring, by its byte count.
    pub(crate) fn put_ring(&self, slot: usize, at: u64, value: u64) {
        self.file.put_u64(RINGS_OFFSET + slot * RING_BYTES + at as usize % RING_BYTES, value);
    }

    /// Appends call paths to the stack area.
    pub(crate) fn put_stacks(&self, stacks: &[&[u64]]) {
        let mut word = self.file.header_u64(offset_of!(ProcessHeader, stack_words)) as usize;
        for frames in stacks {
            self.file.put_u64(STACKS_OFFSET + word * 8, StackEntry::new(frames.len(), 0).0);
            for (next, &frame) in (1..).zip(*frames) {
                self.file.put_u64(STACKS_OFFSET + (word + next) * 8, frame);
            }
            word += 1 + frames.len();
        }
        self.file.put_u64(offset_of!(ProcessHeader, stack_words), word as u64);
    }
}

fn header(kind: MessageKind, bytes: usize) -> u64 {
    u64::from(kind as u16) | (bytes as u64) << 32
}

fn slot_field(slot: usize, offset: usize) -> usize {
    SLOTS_OFFSET + slot * size_of::<SlotHeader>() + offset
}
