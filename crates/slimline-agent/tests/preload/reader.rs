//! A small reader of process files: takes every message out of every ring and checks that it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use slimline_trace::wire::{
    AccessRecord, BlockRecord, FILE_BYTES, MAGIC, MAX_RANGE_NAME, MapsHead, MessageHeader, MessageKind, PATHS_OFFSET,
    PathTotals, ProcessHeader, RING_BYTES, RINGS_OFFSET, RangeEvent, SLOTS, SLOTS_OFFSET, STACKS_OFFSET, SampleHead,
    SlotHeader, SlotState, StackEntry, ThreadEvent,
};

/// A sample and what follows it.
pub(crate) struct Sample {
    pub(crate) tid: u32,
    pub(crate) head: SampleHead,
    pub(crate) frames: Vec<u64>,
    pub(crate) blocks: Vec<BlockRecord>,
    pub(crate) accesses: Vec<AccessRecord>,
}

/// Everything one process wrote.
#[derive(Default)]
pub(crate) struct Process {
    pub(crate) state: u32,
    pub(crate) pid: u32,
    pub(crate) parent_pid: u32,
    pub(crate) trigger: u32,
    pub(crate) trigger_errno: u32,
    pub(crate) between_errno: u32,
    pub(crate) threads_without_ring: u32,
    pub(crate) children_unrecorded: u32,
    /// CPU time of the threads that ended.
    pub(crate) cpu_ns: u64,
    pub(crate) sampling_ns: u64,
    pub(crate) failure: String,
    pub(crate) begun: BTreeSet<u32>,
    /// When each thread began.
    pub(crate) begun_ns: BTreeMap<u32, u64>,
    pub(crate) ended: BTreeSet<u32>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) ranges: Vec<RangeEvent>,
    /// Who told the range of the same row.
    pub(crate) range_threads: Vec<u32>,
    /// Allocation call paths, and how each was cut; number 1 first.
    pub(crate) stacks: Vec<(Vec<u64>, u8)>,
    pub(crate) allocations: u64,
    pub(crate) allocations_followed: u64,
    pub(crate) follow_shift: u32,
    pub(crate) followed_bytes: u64,
    /// Of each allocation call path: blocks counted, and the most blocks and bytes alive.
    pub(crate) totals: Vec<[u64; 3]>,
    pub(crate) dropped: u64,
    pub(crate) maps: String,
    pub(crate) dropped_weight_ns: u64,
    pub(crate) slots_used: usize,
    /// Messages that can't be right.
    pub(crate) broken: usize,
}

pub(crate) struct Reader {
    directory: PathBuf,
    files: BTreeMap<PathBuf, (File, Process)>,
}

/// Plain records out of bytes.
///
/// Sound for the records of `wire`, which are integers throughout.
#[allow(unsafe_code)]
fn record<T: Copy>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>());
    // SAFETY: long enough, and any bytes are integers.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

fn read<T: Copy>(file: &File, offset: usize) -> T {
    let mut bytes = vec![0; size_of::<T>()];
    file.read_exact_at(&mut bytes, offset as u64).unwrap();
    record(&bytes)
}

impl Reader {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), files: BTreeMap::new() }
    }

    pub(crate) fn samples(&self) -> usize {
        self.files.values().map(|(_, process)| process.samples.len()).sum()
    }

    /// Takes what there is.
    pub(crate) fn drain(&mut self) {
        for entry in std::fs::read_dir(&self.directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "ring") && !self.files.contains_key(&path) {
                let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
                let whole = file.metadata().unwrap().len() == FILE_BYTES as u64;
                if whole && read::<u64>(&file, 0) == MAGIC {
                    self.files.insert(path, (file, Process::default()));
                }
            }
        }
        for (file, process) in self.files.values_mut() {
            for slot in 0..SLOTS {
                drain_slot(file, slot, process);
            }
        }
    }

    /// What all processes wrote, in the order of their files' names.
    pub(crate) fn finish(self) -> Vec<Process> {
        self.files
            .into_values()
            .map(|(file, mut process)| {
                let word = |offset| read::<u32>(&file, offset);
                process.state = word(offset_of!(ProcessHeader, state));
                process.pid = word(offset_of!(ProcessHeader, pid));
                process.parent_pid = word(offset_of!(ProcessHeader, parent_pid));
                process.trigger = word(offset_of!(ProcessHeader, trigger));
                process.trigger_errno = word(offset_of!(ProcessHeader, trigger_errno));
                process.between_errno = word(offset_of!(ProcessHeader, between_errno));
                process.threads_without_ring = word(offset_of!(ProcessHeader, threads_without_ring));
                process.children_unrecorded = word(offset_of!(ProcessHeader, children_unrecorded));
                process.sampling_ns = read(&file, offset_of!(ProcessHeader, sampling_ns));
                let failure: [u8; 256] = read(&file, offset_of!(ProcessHeader, failure));
                process.failure = String::from_utf8_lossy(&failure).trim_end_matches('\0').to_owned();
                process.dropped_weight_ns = (0..SLOTS)
                    .map(|slot| read::<u64>(&file, slot_offset(slot) + offset_of!(SlotHeader, dropped_weight_ns)))
                    .sum();
                process.dropped = (0..SLOTS)
                    .map(|slot| read::<u64>(&file, slot_offset(slot) + offset_of!(SlotHeader, dropped)))
                    .sum();
                process.allocations = read(&file, offset_of!(ProcessHeader, allocations));
                process.allocations_followed = read(&file, offset_of!(ProcessHeader, allocations_followed));
                process.follow_shift = read(&file, offset_of!(ProcessHeader, follow_shift));
                process.followed_bytes = read(&file, offset_of!(ProcessHeader, followed_bytes));
                process.stacks = stacks(&file);
                process.totals = (1..=process.stacks.len())
                    .map(|number| {
                        let at = PATHS_OFFSET + number * size_of::<PathTotals>();
                        [
                            offset_of!(PathTotals, counted),
                            offset_of!(PathTotals, peak_blocks),
                            offset_of!(PathTotals, peak_bytes),
                        ]
                        .map(|offset| read(&file, at + offset))
                    })
                    .collect();
                assert_eq!(process.stacks.len(), word(offset_of!(ProcessHeader, stacks)) as usize);
                process
            })
            .collect()
    }
}

fn stacks(file: &File) -> Vec<(Vec<u64>, u8)> {
    let words: u64 = read(file, offset_of!(ProcessHeader, stack_words));
    assert!(words <= ((RINGS_OFFSET - STACKS_OFFSET) / 8) as u64);
    let mut bytes = vec![0; words as usize * 8];
    file.read_exact_at(&mut bytes, STACKS_OFFSET as u64).unwrap();
    let mut words = bytes.chunks_exact(8).map(record::<u64>);
    let mut stacks = Vec::new();
    while let Some(first) = words.next() {
        let entry = StackEntry(first);
        let frames: Vec<u64> = words.by_ref().take(entry.frames()).collect();
        assert_eq!(frames.len(), entry.frames(), "whole");
        stacks.push((frames, entry.cut()));
    }
    stacks
}

fn slot_offset(slot: usize) -> usize {
    SLOTS_OFFSET + slot * size_of::<SlotHeader>()
}

fn drain_slot(file: &File, slot: usize, process: &mut Process) {
    let at = slot_offset(slot);
    let state: u32 = read(file, at + offset_of!(SlotHeader, state));
    let (head, mut tail): (u64, u64) =
        (read(file, at + offset_of!(SlotHeader, head)), read(file, at + offset_of!(SlotHeader, tail)));
    if head > 0 {
        process.slots_used = process.slots_used.max(slot + 1);
    }
    let tid: u32 = read(file, at + offset_of!(SlotHeader, tid));
    while tail < head {
        let place = (tail % RING_BYTES as u64) as usize;
        let offset = RINGS_OFFSET + slot * RING_BYTES + place;
        let header: MessageHeader = read(file, offset);
        let bytes = header.bytes as usize;
        if bytes < 8 || !bytes.is_multiple_of(8) || place + bytes > RING_BYTES || tail + bytes as u64 > head {
            process.broken += 1;
            tail = head;
            break;
        }
        let mut body = vec![0; bytes - 8];
        file.read_exact_at(&mut body, (offset + 8) as u64).unwrap();
        process.broken += usize::from(!take(header.kind, &body, tid, process));
        tail += bytes as u64;
    }
    file.write_all_at(&tail.to_ne_bytes(), (at + offset_of!(SlotHeader, tail)) as u64).unwrap();
    if state == SlotState::Ended as u32 {
        let free = SlotState::Free as u32;
        file.write_all_at(&free.to_ne_bytes(), (at + offset_of!(SlotHeader, state)) as u64).unwrap();
    }
}

/// False where the message is not what its kind and its own counts say.
fn take(kind: u16, body: &[u8], tid: u32, process: &mut Process) -> bool {
    const SAMPLE: u16 = MessageKind::Sample as u16;
    const RANGE: u16 = MessageKind::Range as u16;
    const MAPS: u16 = MessageKind::Maps as u16;
    const THREAD: u16 = MessageKind::Thread as u16;
    const PAD: u16 = MessageKind::Pad as u16;
    match kind {
        PAD => true,
        SAMPLE => {
            let head: SampleHead = record(body);
            let (frames, blocks, accesses) =
                (usize::from(head.frames), usize::from(head.blocks), head.accesses as usize);
            let frames_at = size_of::<SampleHead>();
            let accesses_at = frames_at + frames * 8 + blocks * 16;
            if body.len() != accesses_at + accesses * 16 {
                return false;
            }
            process.samples.push(Sample {
                tid,
                head,
                frames: (0..frames).map(|row| record(&body[frames_at + row * 8..])).collect(),
                blocks: (0..blocks).map(|row| record(&body[frames_at + frames * 8 + row * 16..])).collect(),
                accesses: (0..accesses).map(|row| record(&body[accesses_at + row * 16..])).collect(),
            });
            true
        }
        RANGE => {
            let event: RangeEvent = record(body);
            process.ranges.push(event);
            process.range_threads.push(tid);
            let name_bytes = event.name_bytes as usize;
            body.len() == size_of::<RangeEvent>() + name_bytes.next_multiple_of(8) && name_bytes <= MAX_RANGE_NAME
        }
        MAPS => {
            let head: MapsHead = record(body);
            let text = &body[size_of::<MapsHead>()..];
            let Some(text) = text.get(..head.text_bytes as usize) else { return false };
            process.maps.push_str(&String::from_utf8_lossy(text));
            true
        }
        THREAD if body.len() == size_of::<ThreadEvent>() => {
            let event: ThreadEvent = record(body);
            process.cpu_ns += if event.ended == 0 { 0 } else { event.cpu_ns };
            if event.ended == 0 {
                process.begun_ns.insert(event.tid, event.time_ns);
            }
            let set = if event.ended == 0 { &mut process.begun } else { &mut process.ended };
            set.insert(event.tid);
            event.tid == tid
        }
        _ => false,
    }
}
