//! One process: from its rings to the rows of the next part.

use std::collections::HashMap;
use std::mem::{self, offset_of};
use std::sync::Arc;

use slimline_trace::address::Avma;
use slimline_trace::served::Served;
use slimline_trace::session::{FoundAllocator, ProcessSummary};
use slimline_trace::tables::{
    Access, Accesses, Block, BlockRow, Blocks, Chance, Mappings, Names, Paths, Ranges, Sample, Samples, StackFrames,
    Threads, Within,
};
use slimline_trace::wire::{self, AllocatorEvent, BlockRecord, ProcessHeader, SLOTS, SlotState};

use crate::allocators::Allocators;
use crate::mapping_history::MappingHistory;
use crate::message::{Damaged, Message, SampleMessage, messages};
use crate::pid_namespace::{Numbers, Origin};
use crate::process_summary::{Counts, Recorded};
use crate::range_life::{self, Living, RangeLives};
use crate::ring::ProcessFile;
use crate::sample_rows::SampleRows;
use crate::stack_interner::StackInterner;
use crate::thread_roll::ThreadRoll;

/// Slots that no thread has ever owned after which a quick pass stops looking: threads take the first free slot.
const UNTOUCHED_SLOTS: usize = 16;
/// A forked child writes its parent's call paths down at once; one that has not after so many passes has no room for them.
const PASSES_TO_INHERIT: u32 = 64;
/// Every so many passes all slots are looked at, whatever they look like.
const FULL_PASS_EVERY: u32 = 64;

/// Rows of one part, owned: what travels to the writing thread.
#[derive(Debug, Default)]
pub(crate) struct PartRows {
    pub(crate) stacks: StackFrames,
    pub(crate) blocks: Blocks,
    pub(crate) samples: Samples,
    pub(crate) accesses: Accesses,
    pub(crate) dead_ranges: Ranges,
    pub(crate) live_ranges: Ranges,
    pub(crate) ended_mappings: Mappings,
    pub(crate) mappings: Mappings,
    pub(crate) threads: Threads,
    pub(crate) paths: Paths,
    pub(crate) names: Names,
}

/// What is known of one process, and its rows since the last part.
#[derive(Debug)]
pub(crate) struct Recorder {
    file: ProcessFile,
    numbers: Numbers,
    directory: String,
    executable: Option<String>,
    allocators: Arc<Allocators>,
    found_allocators: Vec<FoundAllocator>,
    stacks: StackInterner,
    ranges: RangeLives,
    /// Ranges of its parent's that wait until their call paths are in its own file.
    inherited: Vec<Living>,
    /// When it was forked from a process whose ranges it has; else 0.
    forked_ns: u64,
    mappings: MappingHistory,
    threads: ThreadRoll,
    blocks: Blocks,
    block_rows: HashMap<BlockRecord, BlockRow>,
    rows: SampleRows,
    passes: u32,
    last_pass_ns: u64,
    is_changed: bool,
    counts: Counts,
    words: Vec<u64>,
}

impl Recorder {
    /// Starts recording the process behind `file`, of these numbers, into the session's subdirectory `directory`.
    pub(crate) fn new(
        file: ProcessFile,
        numbers: Numbers,
        directory: String,
        executable: Option<String>,
        allocators: Arc<Allocators>,
    ) -> Self {
        let pid = (numbers.origin == Origin::Here).then_some(numbers.pid);
        Self {
            file,
            numbers,
            directory,
            executable,
            allocators,
            found_allocators: Vec::new(),
            stacks: StackInterner::default(),
            ranges: RangeLives::default(),
            inherited: Vec::new(),
            forked_ns: 0,
            mappings: MappingHistory::new(pid),
            threads: ThreadRoll::default(),
            blocks: Blocks::default(),
            block_rows: HashMap::new(),
            rows: SampleRows::default(),
            passes: 0,
            last_pass_ns: 0,
            is_changed: false,
            counts: Counts::default(),
            words: Vec::new(),
        }
    }

    /// Its process id; `None` where that is not known here.
    pub(crate) fn pid(&self) -> Option<u32> {
        (self.numbers.origin == Origin::Here).then_some(self.numbers.pid)
    }

    /// Whether a thread has, or had, a ring.
    pub(crate) fn has_ring_of(&self, tid: u32) -> bool {
        self.threads.rows().tid.contains(&tid)
            || (0..SLOTS).map(|slot| self.file.slot(slot)).any(|slot| !slot.is_untouched() && slot.tid() == tid)
    }

    /// See [`ProcessFile::events`].
    pub(crate) fn events(&self) -> [u32; 2] {
        self.file.events()
    }

    /// See [`ProcessFile::own_numbers`].
    pub(crate) fn own_numbers(&self) -> (u64, u32) {
        self.file.own_numbers()
    }

    /// See [`ProcessFile::fork`].
    pub(crate) fn fork(&self) -> Option<((u64, u32), u64)> {
        self.file.fork()
    }

    pub(crate) fn started_ns(&self) -> u64 {
        self.file.header_u64(offset_of!(ProcessHeader, started_ns))
    }

    /// The ranges that lived at a time a moment ago. Reads what the process has written by now.
    pub(crate) fn ranges_at(&mut self, time_ns: u64, now_ns: u64) -> Vec<Living> {
        self.drain(now_ns, false);
        self.ranges.alive_at(time_ns)
    }

    /// What is left of its ranges.
    pub(crate) fn into_ranges(self) -> RangeLives {
        self.ranges
    }

    /// The process was forked then, with these ranges. Before anything of it is read.
    pub(crate) fn inherit(&mut self, ranges: Vec<Living>, forked_ns: u64) {
        self.inherited = ranges;
        self.forked_ns = forked_ns;
    }

    /// Gives ranges that it inherited to it, once it has written their call paths down. Whether none are left.
    fn settle_inherited(&mut self, is_last: bool) -> bool {
        let needed = self.inherited.iter().map(|living| living.path).max().unwrap_or(0);
        let is_ready = self.file.header_u32(offset_of!(ProcessHeader, stacks)) >= needed;
        if !is_ready && !is_last && self.passes < PASSES_TO_INHERIT {
            return false;
        }
        for living in mem::take(&mut self.inherited) {
            let stack = self.stacks.allocation(&self.file, living.path);
            self.ranges.push(range_life::Event::inherited(&living, stack, self.forked_ns));
        }
        true
    }

    /// Whether its process may run still.
    pub(crate) fn may_live(&self) -> bool {
        self.numbers.may_live()
    }

    /// Name of the process' subdirectory.
    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }

    /// Whether the rings hold everything that the process will ever write.
    pub(crate) fn has_ended(&self) -> bool {
        let state = self.file.state();
        state == wire::ProcessState::Exited as u32 || state == wire::ProcessState::Failed as u32
    }

    /// Whether the rings were cut off: nothing that can be read of them now is sure.
    pub(crate) fn is_cut(&self) -> bool {
        self.file.is_cut()
    }

    /// Tells the agent that nobody reads any more.
    pub(crate) fn stop(&self) {
        self.file.stop();
    }

    /// Reads everything that the process has written. Returns how full the fullest ring was, in words.
    pub(crate) fn drain(&mut self, now_ns: u64, all_slots: bool) -> usize {
        let all_slots = all_slots || self.passes.is_multiple_of(FULL_PASS_EVERY);
        self.passes = self.passes.wrapping_add(1);
        let mut words = mem::take(&mut self.words);
        let mut untouched = 0;
        let mut fullest = 0;
        for index in 0..SLOTS {
            let slot = self.file.slot(index);
            if slot.is_untouched() {
                untouched += 1;
                if untouched >= UNTOUCHED_SLOTS && !all_slots {
                    break;
                }
                continue;
            }
            untouched = 0;
            let (state, tid) = (slot.state(), slot.tid());
            if slot.take(&mut words).is_err() {
                self.counts.damaged_messages += 1;
            }
            // The state was read before the ring: what an ended thread wrote is in `words`.
            if state == SlotState::Ended as u32 {
                slot.free();
            }
            if !words.is_empty() {
                fullest = fullest.max(words.len());
                self.take_messages(index, tid, &words);
            }
        }
        self.words = words;
        // See `range_life` for why one pass back.
        if self.settle_inherited(false) {
            self.ranges.settle(self.last_pass_ns);
        }
        self.last_pass_ns = now_ns;
        self.is_changed |= fullest > 0;
        fullest
    }

    fn take_messages(&mut self, slot: usize, tid: u32, words: &[u64]) {
        for message in messages(words) {
            let taken = match message {
                Ok(Message::Sample(sample)) => {
                    self.take_sample(slot, tid, &sample);
                    Ok(())
                }
                Ok(Message::Range(range)) => {
                    let stack = self.stacks.allocation(&self.file, range.event.stack);
                    self.ranges.push(range_life::Event::new(&range, stack));
                    Ok(())
                }
                Ok(Message::Maps(maps)) => self.mappings.push(maps),
                Ok(Message::Thread(event)) => {
                    self.threads.take(slot, &event);
                    Ok(())
                }
                Ok(Message::Allocator(event)) => self.take_allocator(event),
                Err(damaged) => Err(damaged),
            };
            self.counts.damaged_messages += u64::from(taken.is_err());
        }
    }

    /// A function is told for each object that has it, each time that one is loaded, and kept once: there are few names and
    /// outcomes, also where the target makes them up.
    fn take_allocator(&mut self, event: AllocatorEvent) -> Result<(), Damaged> {
        let found = self.allocators.found(event).ok_or(Damaged)?;
        if !self.found_allocators.contains(&found) {
            self.found_allocators.push(found);
        }
        Ok(())
    }

    fn take_sample(&mut self, slot: usize, tid: u32, sample: &SampleMessage<'_>) {
        if !self.rows.has_room(&mut self.counts) {
            return;
        }
        let thread = self.threads.owner(slot, tid, sample.time_ns);
        let stack = self.stacks.sampled(sample.frames, sample.stack_cut);
        let blocks: Vec<BlockRow> = sample.blocks().map(|block| self.block_row(block)).collect();
        let window = self.rows.next_window();
        let accesses = sample.accesses().map(|access| Access {
            window,
            ip: Avma(access.ip()),
            address: Avma(access.address()),
            bytes: match access.bytes() {
                0 => 256,
                bytes => u16::from(bytes),
            },
            kind: access.kind(),
            block: blocks.get(usize::from(access.block())).copied(),
        });
        let row = Sample {
            time_ns: sample.time_ns,
            thread,
            cpu_ns: sample.cpu_ns,
            weight: sample.weight_ns,
            sampled_ip: Avma(sample.sampled_ip),
            ip: Avma(sample.ip),
            address: Avma(sample.address),
            stack_pointer: Avma(sample.stack_pointer),
            access_bytes: sample.access_bytes,
            kind: sample.kind,
            quality: sample.quality,
            block: sample.block.map(|row| blocks[row]),
            stack,
            accesses: 0,
            burst_instructions: sample.burst_instructions,
            burst_end: sample.burst_end,
            served: Served::UNKNOWN,
            within: Within { region: (sample.region != 0).then_some(sample.region) },
        };
        self.rows.push(row, accesses, &mut self.counts);
        self.threads.count_sample(thread);
    }

    fn block_row(&mut self, record: BlockRecord) -> BlockRow {
        if let Some(&row) = self.block_rows.get(&record) {
            return row;
        }
        let stack = self.stacks.allocation(&self.file, record.stack);
        let row = BlockRow::new(self.blocks.len());
        let chance = Chance { follow_shift: Some(record.follow_shift()) };
        self.blocks.push(Block { base: Avma(record.base), bytes: record.bytes().into(), stack, chance });
        self.block_rows.insert(record, row);
        row
    }

    /// Whether enough has come together for a part.
    pub(crate) fn is_part_due(&self) -> bool {
        self.rows.is_part_due() || self.stacks.is_part_due()
    }

    /// Whether a part would say anything that the last one does not.
    pub(crate) fn has_news(&self) -> bool {
        self.is_changed
    }

    /// The rows since the last part. What they name stays valid: blocks are numbered anew, the rest is kept.
    pub(crate) fn take_part(&mut self) -> PartRows {
        self.is_changed = false;
        self.counts.parts += 1;
        self.block_rows.clear();
        // Before the new call paths are taken: some get their row here.
        let paths = self.stacks.paths(&self.file);
        let (samples, accesses) = self.rows.take();
        PartRows {
            stacks: mem::take(&mut self.stacks.new),
            blocks: mem::take(&mut self.blocks),
            samples,
            accesses,
            dead_ranges: mem::take(&mut self.ranges.dead),
            live_ranges: self.ranges.live(),
            // The agent's are distinct lines, each of which may be seen again.
            ended_mappings: Mappings::default(),
            mappings: self.mappings.mappings.clone(),
            threads: self.threads.rows().clone(),
            paths,
            names: Names::default(),
        }
    }

    /// Applies the events that were held back. For the very end, when all rings have been drained.
    pub(crate) fn settle_all(&mut self) {
        self.settle_inherited(true);
        self.ranges.settle(u64::MAX);
    }

    /// The process as `session.json` tells it.
    pub(crate) fn summary(&self, now_ns: u64, is_alive: bool) -> ProcessSummary {
        let recorded = Recorded {
            file: &self.file,
            numbers: self.numbers,
            directory: &self.directory,
            executable: self.executable.as_deref().or(self.mappings.executable()).unwrap_or_default(),
            counts: &self.counts,
            threads_unended: self.threads.unended(),
            allocators: &self.found_allocators,
            forked_ns: self.forked_ns,
        };
        recorded.summary(now_ns, is_alive)
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::session::SessionWriter;
    use slimline_trace::tables::{RangeOrigin, StackEnd};
    use slimline_trace::wire::{MessageKind, RangeKind, SampleHead};

    use super::*;
    use crate::sample_rows::{MOST_PARTS_WAITING, PART_SAMPLES};
    use crate::synthetic::{SyntheticProcess, SyntheticSample, maps_words, range_words, thread_words};

    fn pair() -> (tempfile::TempDir, SyntheticProcess, Recorder) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("7-0.ring");
        let writer = SyntheticProcess::create(&path, 7);
        let numbers = Numbers { pid: 7, parent_pid: 1, origin: Origin::Here };
        let allocators = Arc::new(Allocators::new(&[]));
        let recorder = Recorder::new(ProcessFile::open(&path).unwrap(), numbers, "p7-0".into(), None, allocators);
        (scratch, writer, recorder)
    }

    fn sample(time_ns: u64) -> SyntheticSample {
        SyntheticSample {
            region: 6,
            time_ns,
            frames: vec![0x401_100, 0x401_200],
            blocks: vec![(0x5000, 48, 2), (0x6000, 16, 0)],
            accesses: vec![(0x5008, Some(0)), (0x7000, None), (0x6000, Some(1))],
        }
    }

    #[test]
    fn samples_become_rows_that_name_each_other() {
        let (_scratch, writer, mut recorder) = pair();
        writer.put_stacks(&[&[1], &[0x402_000, 0x402_100]]);
        writer.own_slot(0, 7);
        writer.push(0, MessageKind::Thread, &thread_words(90, 7, false, "main"));
        writer.push(0, MessageKind::Sample, &sample(100).words());
        writer.push(0, MessageKind::Sample, &sample(101).words());
        recorder.drain(200, false);
        let part = recorder.take_part();

        assert_eq!(part.samples.time_ns, [100, 101]);
        assert_eq!(part.samples.stack[0], part.samples.stack[1]);
        assert_eq!(part.samples.accesses, [3, 3]);
        assert_eq!(part.accesses.window, [0, 0, 0, 1, 1, 1]);
        assert_eq!(part.blocks.len(), 2, "the same block has one row");
        let blocks: Vec<_> = part.accesses.block[..3].iter().map(|row| row.map(BlockRow::index)).collect();
        assert_eq!(blocks, [Some(0), None, Some(1)]);
        assert_eq!(part.blocks.stack[1], None, "context 0 is none");
        let stack = part.blocks.stack[0].unwrap();
        let frames: Vec<_> = part.stacks.iter().filter(|frame| frame.stack == stack).collect();
        assert_eq!(frames.iter().map(|frame| frame.return_address.0).collect::<Vec<_>>(), [0x402_000, 0x402_100]);
        assert_eq!(frames[0].end, StackEnd::Outermost);
        assert_eq!((part.threads.name[0].as_str(), part.threads.samples[0]), ("main", 2));

        // The next part: windows and call paths count on, blocks anew.
        writer.push(0, MessageKind::Sample, &sample(102).words());
        recorder.drain(300, false);
        let part = recorder.take_part();
        assert_eq!(part.accesses.window, [2, 2, 2]);
        assert!(part.stacks.is_empty(), "call paths are known already");
        assert_eq!(part.blocks.stack[0], Some(stack));
    }

    #[test]
    fn a_slot_serves_one_thread_after_another() {
        let (_scratch, writer, mut recorder) = pair();
        writer.own_slot(0, 7);
        writer.push(0, MessageKind::Thread, &thread_words(10, 7, false, "first"));
        writer.push(0, MessageKind::Sample, &sample(11).words());
        writer.push(0, MessageKind::Thread, &thread_words(12, 7, true, "first"));
        writer.set_slot_state(0, SlotState::Ended);
        recorder.drain(20, false);
        assert_eq!(writer.slot_state(0), SlotState::Free as u32);
        // The kernel gives the same number out again, and the message that the thread began is lost.
        writer.own_slot(0, 7);
        writer.push(0, MessageKind::Sample, &sample(30).words());
        recorder.drain(40, false);
        let threads = recorder.take_part().threads;
        assert_eq!((threads.tid.as_slice(), threads.samples.as_slice()), (&[7, 7][..], &[1, 1][..]));
        assert_eq!(threads.ended_ns, [Some(12), None]);
    }

    #[test]
    fn ranges_of_all_threads_are_told_in_time_order() {
        let (_scratch, writer, mut recorder) = pair();
        writer.put_stacks(&[&[0x403_000]]);
        writer.own_slot(0, 7);
        writer.own_slot(1, 8);
        writer.push(0, MessageKind::Range, &range_words(30, 0x10_0000, 64, 1, RangeKind::Allocated));
        writer.push(1, MessageKind::Range, &range_words(10, 0x10_0000, 96, 1, RangeKind::Allocated));
        writer.push(1, MessageKind::Range, &range_words(20, 0x10_0000, 0, 0, RangeKind::Freed));
        recorder.drain(100, false);
        recorder.settle_all();
        let part = recorder.take_part();
        assert_eq!((part.dead_ranges.born_ns[0], part.dead_ranges.died_ns[0]), (10, Some(20)));
        assert_eq!((part.live_ranges.born_ns[0], part.live_ranges.origin[0]), (30, RangeOrigin::Heap));
        assert!(part.live_ranges.stack[0].is_some());
    }

    #[test]
    fn snapshots_come_in_parts() {
        let (_scratch, writer, mut recorder) = pair();
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        for part in maps_words(50, &text, 100) {
            assert!(writer.push(0, MessageKind::Maps, &part));
        }
        // Of the second snapshot the first part was dropped: it is left out, and counted.
        for part in &maps_words(60, &text, 100)[1..] {
            writer.push(0, MessageKind::Maps, part);
        }
        writer.own_slot(0, 7);
        recorder.drain(100, false);
        let mappings = recorder.take_part().mappings;
        assert_eq!(mappings.len(), text.lines().count());
        assert!(mappings.last_seen_ns.iter().all(|&seen| seen == 50));
        assert!(recorder.summary(100, true).losses.damaged_messages > 0);
    }

    #[test]
    fn what_the_target_scribbled_over_is_counted_and_nothing_more() {
        let (_scratch, writer, mut recorder) = pair();
        writer.own_slot(0, 7);
        let spoil = |word: usize, value: u64| {
            let mut words = sample(1).words();
            words[word] = value;
            words
        };
        const LENGTHS: usize = offset_of!(SampleHead, burst_instructions) / 8; // and accesses
        const COUNTS: usize = offset_of!(SampleHead, frames) / 8; // blocks, block, bytes
        const KINDS: usize = offset_of!(SampleHead, kind) / 8; // quality, burst end
        const ROWS: usize = size_of::<SampleHead>() / 8;
        for words in [
            spoil(COUNTS, 65),                            // more frames than there may be
            spoil(COUNTS, 2 | 129 << 16),                 // more blocks
            spoil(COUNTS, 2 | 2 << 16 | 2 << 32),         // a block that is not there
            spoil(LENGTHS, 300 | 513 << 32),              // more accesses
            spoil(LENGTHS, 300 | 4 << 32),                // more than the message holds
            spoil(KINDS, 9 << 8),                         // no such quality
            spoil(KINDS, 9 << 16),                        // no such end
            spoil(ROWS + 2 + 4 + 1, 0x401_004 | 2 << 48), // an access to a block that is not there
        ] {
            writer.push(0, MessageKind::Sample, &words);
        }
        writer.push(0, MessageKind::Range, &range_words(1, u64::MAX, 2, 0, RangeKind::Mapped));
        writer.push(0, MessageKind::Sample, &sample(2).words());
        recorder.drain(100, false);
        assert_eq!(recorder.summary(100, true).losses.damaged_messages, 9);
        assert_eq!(recorder.take_part().samples.time_ns, [2]);
    }

    #[test]
    fn memory_is_bounded_where_the_disk_is_slow() {
        let (_scratch, writer, mut recorder) = pair();
        writer.own_slot(0, 7);
        let bound = PART_SAMPLES * MOST_PARTS_WAITING;
        let words = SyntheticSample { time_ns: 1, ..SyntheticSample::default() }.words();
        let mut written = 0;
        while written < bound + 10 {
            if writer.push(0, MessageKind::Sample, &words) {
                written += 1;
            } else {
                recorder.drain(1, false);
            }
        }
        recorder.drain(1, false);
        assert_eq!(recorder.summary(1, true).losses.unwritten_samples, 10);
        assert_eq!(recorder.take_part().samples.len(), bound);
    }

    /// The second clock's weigh nothing, and reports do not count them.
    #[test]
    fn samples_without_weight_are_counted_apart() {
        let (_scratch, writer, mut recorder) = pair();
        writer.own_slot(0, 7);
        let mut between = sample(101).words();
        between[2] = 0;
        for words in [sample(100).words(), between, sample(102).words()] {
            writer.push(0, MessageKind::Sample, &words);
        }
        recorder.drain(200, false);
        let summary = recorder.summary(300, true);
        assert_eq!((summary.samples, summary.weightless_samples), (3, 1));
        let mut info = crate::record::tests::empty_info();
        info.processes = vec![summary.clone(), summary];
        assert_eq!(info.counted_samples(), 4);
        info.collector.weight = slimline_trace::session::WeightUnit::Period;
        assert_eq!(info.counted_samples(), 6);
    }

    #[test]
    fn slots_far_behind_are_found_by_the_full_pass() {
        let (_scratch, writer, mut recorder) = pair();
        recorder.drain(1, false);
        writer.own_slot(2000, 9);
        writer.push(2000, MessageKind::Sample, &sample(5).words());
        assert_eq!(recorder.drain(2, false), 0, "a quick pass stops at untouched slots");
        assert!(recorder.drain(3, true) > 0);
    }

    /// Rows of several parts hold together after a round trip over the disk.
    #[test]
    fn parts_are_read_back_with_everything_they_name() {
        let (scratch, writer, mut recorder) = pair();
        writer.put_stacks(&[&[1], &[0x402_000]]);
        writer.own_slot(0, 7);
        let directory = scratch.path().join("session");
        let info = crate::record::tests::empty_info();
        let session = SessionWriter::create(&directory, &info).unwrap();
        let thread = crate::writer_thread::WriterThread::start(session).unwrap();
        for time in 0..40 {
            writer.push(0, MessageKind::Sample, &sample(time).words());
            if time % 10 == 9 {
                recorder.drain(time, false);
                let rows = recorder.take_part();
                thread.send_part(recorder.directory(), rows);
            }
        }
        let (session, written) = thread.finish();
        written.unwrap();
        let processes = vec![recorder.summary(99, false)];
        session.update(&slimline_trace::session::SessionInfo { processes, ..info }).unwrap();

        let session = slimline_trace::session::Session::open(&directory).unwrap();
        let process = session.load(&session.processes()[0]).unwrap();
        let times: Vec<u64> = process.parts().flat_map(|part| part.unwrap().samples.time_ns).collect();
        assert_eq!(times, (0..40).collect::<Vec<_>>());
        assert_eq!((session.processes()[0].samples, session.processes()[0].accesses), (40, 120));
    }

    /// What a million accesses cost from the ring to the disk, as a multiple of copying their bytes.
    /// `cargo test --release -p slimline-collect -- --ignored --nocapture cost_of_a_million_accesses`
    #[test]
    #[ignore = "a measurement"]
    fn cost_of_a_million_accesses() {
        use std::time::{Duration, Instant};
        const SAMPLES: u64 = 7000;
        let (scratch, writer, mut recorder) = pair();
        let session =
            SessionWriter::create(&scratch.path().join("session"), &crate::record::tests::empty_info()).unwrap();
        let mut parts = session.process("p7-0").unwrap();
        writer.put_stacks(&[&[1, 2, 3]]);
        writer.own_slot(0, 7);
        let (mut drained, mut written, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
        for time in 0..SAMPLES {
            // Two streams over blocks, and a third at random places of a large array.
            let access = |row: u64| match row % 3 {
                0 => (0x5000_0000 + (time * 50 + row / 3) * 64, Some((row / 3 % 16) as u16)),
                1 => (0x6000_0008 + row * 8, None),
                _ => (0x7000_0000 + (time * 1000 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 26) / 8 * 8, None),
            };
            let sample = SyntheticSample {
                region: 6,
                time_ns: time * 1_000_000,
                frames: vec![0x401_000, 0x402_000, 0x403_000 + time % 5],
                blocks: (0..16).map(|block| (0x5000_0000 + (time * 16 + block) * 64, 48, 1)).collect(),
                accesses: (0..150).map(access).collect(),
            };
            let words = sample.words();
            bytes += words.len() * 8;
            assert!(writer.push(0, MessageKind::Sample, &words));
            if time % 50 == 49 {
                let start = Instant::now();
                recorder.drain(time, false);
                drained += start.elapsed();
            }
            if recorder.is_part_due() || time == SAMPLES - 1 {
                let rows = recorder.take_part();
                let start = Instant::now();
                crate::writer_thread::write_part(&mut parts, &rows).unwrap();
                written += start.elapsed();
            }
        }
        let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
        let start = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        let copied = start.elapsed();
        std::hint::black_box(to);
        let accesses = SAMPLES * 150;
        let per_million = |time: Duration| time.as_secs_f64() * 1e3 / accesses as f64 * 1e6;
        println!(
            "{accesses} accesses, {bytes} bytes: drain {:.1} ms, encode and write {:.1} ms a million; {:.1} times memcpy",
            per_million(drained),
            per_million(written),
            (drained + written).as_secs_f64() / copied.as_secs_f64(),
        );
    }
}
