//! One program that a process ran, from what a file tells of it to the parts of a session.

use slimline_trace::session::{
    Losses, ProcessState, ProcessSummary, ProcessWriter, SessionError, SessionWriter, Trigger,
};
use slimline_trace::tables::{Mapping, Sample, StackRow, ThreadRow};
use slimline_trace::wire::ThreadEvent;

use super::naming::Naming;
use crate::perf_rings::LiveMappings;
use crate::process_summary::Counts;
use crate::recorder::PartRows;
use crate::sample_rows::SampleRows;
use crate::stack_interner::StackInterner;
use crate::thread_roll::ThreadRoll;
use crate::writer_thread::write_part;

/// Call chains of this length were cut there, by perf's default (`kernel.perf_event_max_stack`).
const CUT_FRAMES: usize = 127;

/// What is known of a process since it began or last called `exec`, and its rows since the last part.
#[derive(Debug)]
pub(super) struct Program {
    pid: u32,
    parent_pid: u32,
    /// Name of its subdirectory.
    directory: String,
    /// Times of the first and the last record of it; 0 before there is one.
    seen_ns: [u64; 2],
    has_ended: bool,
    pub(super) mappings: LiveMappings,
    threads: ThreadRoll,
    naming: Naming,
    stacks: StackInterner,
    rows: SampleRows,
    counts: Counts,
    /// Made with the first part: programs without samples leave nothing behind.
    writer: Option<ProcessWriter>,
}

impl Program {
    /// A program of process `pid`, to be written into the subdirectory `directory`.
    pub(super) fn new(pid: u32, parent_pid: u32, directory: String, mappings: LiveMappings) -> Self {
        Self {
            pid,
            parent_pid,
            directory,
            seen_ns: [0; 2],
            has_ended: false,
            mappings,
            threads: ThreadRoll::default(),
            naming: Naming::default(),
            stacks: StackInterner::default(),
            rows: SampleRows::default(),
            counts: Counts::default(),
            writer: None,
        }
    }

    /// Something of it has this time.
    fn see(&mut self, time_ns: u64) {
        if time_ns == 0 {
            return;
        }
        let [first, last] = &mut self.seen_ns;
        *first = if *first == 0 { time_ns } else { time_ns.min(*first) };
        *last = time_ns.max(*last);
    }

    /// A thread began.
    pub(super) fn thread_began(&mut self, tid: u32, time_ns: u64) {
        self.see(time_ns);
        self.threads.take(tid as usize, &ThreadEvent { time_ns, cpu_ns: 0, tid, ended: 0, name: [0; 16] });
    }

    /// A thread has this name.
    pub(super) fn thread_named(&mut self, tid: u32, time_ns: u64, name: &str) {
        self.see(time_ns);
        self.threads.owner(tid as usize, tid, time_ns);
        self.threads.rename(tid as usize, name);
    }

    /// A thread ended; whether it was the last one.
    pub(super) fn thread_ended(&mut self, tid: u32, time_ns: u64) -> bool {
        self.see(time_ns);
        self.threads.take(tid as usize, &ThreadEvent { time_ns, cpu_ns: 0, tid, ended: 1, name: [0; 16] });
        self.threads.unended() == 0
    }

    /// Memory was mapped.
    pub(super) fn mapped(&mut self, mapping: Mapping) {
        self.see(mapping.first_seen_ns);
        self.mappings.map(mapping);
    }

    /// The thread that a sample of this time is of.
    pub(super) fn thread(&mut self, tid: u32, time_ns: u64) -> ThreadRow {
        self.threads.owner(tid as usize, tid, time_ns)
    }

    /// Names that the file gives by itself.
    pub(super) fn naming(&mut self) -> &mut Naming {
        &mut self.naming
    }

    /// A call path: return addresses, innermost first.
    pub(super) fn stack(&mut self, frames: &[u64]) -> Option<StackRow> {
        self.stacks.sampled(frames, u8::from(frames.len() >= CUT_FRAMES))
    }

    /// Takes a sample.
    pub(super) fn push(&mut self, sample: Sample) {
        if !self.rows.has_room(&mut self.counts) {
            return;
        }
        self.see(sample.time_ns);
        let (thread, no_burst) = (sample.thread, std::iter::empty());
        self.rows.push(sample, no_burst, &mut self.counts);
        self.threads.count_sample(thread);
    }

    /// Whether enough has come together for a part.
    pub(super) fn is_part_due(&self) -> bool {
        self.rows.is_part_due()
    }

    /// It ended, or another one took its place.
    pub(super) fn end(&mut self, time_ns: u64) {
        self.see(time_ns);
        self.has_ended = true;
    }

    /// The process that made it; 0 where that was not seen.
    pub(super) fn parent_pid(&self) -> u32 {
        self.parent_pid
    }

    /// Writes a part.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn write(&mut self, session: &SessionWriter) -> Result<(), SessionError> {
        self.mappings.end(self.seen_ns[1]);
        let (samples, accesses) = self.rows.take();
        let rows = PartRows {
            stacks: std::mem::take(&mut self.stacks.new),
            samples,
            accesses,
            mappings: self.mappings.table(),
            threads: self.threads.rows().clone(),
            names: self.naming.rows().clone(),
            ..PartRows::default()
        };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(session.process(&self.directory)?),
        };
        write_part(writer, &rows)?;
        self.counts.parts += 1;
        Ok(())
    }

    /// Writes what is left; `None` of a program without samples.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn finish(mut self, session: &SessionWriter) -> Result<Option<ProcessSummary>, SessionError> {
        if self.counts.samples == 0 {
            return Ok(None);
        }
        // Also without samples since the last one: threads and mappings may have come.
        self.write(session)?;
        Ok(Some(self.summary()))
    }

    fn summary(&self) -> ProcessSummary {
        ProcessSummary {
            parent_pid: self.parent_pid,
            executable: self.mappings.executable().unwrap_or_default().to_owned(),
            state: if self.has_ended { ProcessState::Exited } else { ProcessState::Running },
            trigger: Trigger::Counter,
            ended_ns: self.seen_ns[1],
            parts: self.counts.parts,
            samples: self.counts.samples,
            weight: self.counts.weight,
            losses: Losses { unwritten_samples: self.counts.unwritten_samples, ..Losses::default() },
            ..ProcessSummary::begun(self.directory.clone(), self.pid, self.seen_ns[0])
        }
    }
}
