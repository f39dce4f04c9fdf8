//! One program that a process ran, seen from outside: what the kernel's records, from rings or from a file, tell of its
//! threads and mappings, and its rows since the last part.

use slimline_trace::session::{Losses, ProcessState, ProcessSummary, Trigger};
use slimline_trace::tables::{Access, Mapping, Sample, ThreadRow};
use slimline_trace::wire::ThreadEvent;

use crate::live_mappings::LiveMappings;
use crate::process_summary::Counts;
use crate::recorder::PartRows;
use crate::sample_rows::SampleRows;
use crate::thread_roll::ThreadRoll;

/// What is known of a process since it began or last called `exec`.
#[derive(Debug)]
pub(crate) struct ProgramRun {
    pid: u32,
    parent_pid: u32,
    directory: String,
    /// Times of the first and the last record of it; 0 before there is one.
    seen_ns: [u64; 2],
    has_ended: bool,
    mappings: LiveMappings,
    threads: ThreadRoll,
    rows: SampleRows,
    counts: Counts,
    is_changed: bool,
}

impl ProgramRun {
    /// A program of process `pid`, for the session's subdirectory `directory`. Which process made it is 0 where that was not
    /// seen; a fork begins with the mappings of its parent.
    pub(crate) fn new(pid: u32, parent_pid: u32, directory: String, mappings: LiveMappings) -> Self {
        Self {
            pid,
            parent_pid,
            directory,
            seen_ns: [0; 2],
            has_ended: false,
            mappings,
            threads: ThreadRoll::default(),
            rows: SampleRows::default(),
            counts: Counts::default(),
            is_changed: true,
        }
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The process that made it; 0 where that was not seen.
    pub(crate) fn parent_pid(&self) -> u32 {
        self.parent_pid
    }

    /// Name of its subdirectory.
    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }

    /// What it has mapped.
    pub(crate) fn mappings(&self) -> &LiveMappings {
        &self.mappings
    }

    /// Time of the last record of it.
    pub(crate) fn last_seen_ns(&self) -> u64 {
        self.seen_ns[1]
    }

    /// Samples taken so far.
    pub(crate) fn samples(&self) -> u64 {
        self.counts.samples
    }

    /// Something of it has this time.
    pub(crate) fn see(&mut self, time_ns: u64) {
        self.is_changed = true;
        if time_ns == 0 {
            return;
        }
        let [first, last] = &mut self.seen_ns;
        *first = if *first == 0 { time_ns } else { time_ns.min(*first) };
        *last = time_ns.max(*last);
    }

    /// A thread began.
    pub(crate) fn thread_began(&mut self, tid: u32, time_ns: u64) {
        self.see(time_ns);
        self.threads.take(tid as usize, &ThreadEvent { time_ns, cpu_ns: 0, tid, ended: 0, name: [0; 16] });
    }

    /// A thread has this name.
    pub(crate) fn thread_named(&mut self, tid: u32, time_ns: u64, name: &str) {
        self.see(time_ns);
        // It has a row from now on where its beginning was not seen.
        self.threads.owner(tid as usize, tid, time_ns);
        self.threads.rename(tid as usize, name);
    }

    /// A thread ended; whether it was the last one.
    pub(crate) fn thread_ended(&mut self, tid: u32, time_ns: u64) -> bool {
        self.see(time_ns);
        self.threads.take(tid as usize, &ThreadEvent { time_ns, cpu_ns: 0, tid, ended: 1, name: [0; 16] });
        self.threads.unended() == 0
    }

    /// Memory was mapped.
    pub(crate) fn mapped(&mut self, mapping: Mapping) {
        self.see(mapping.first_seen_ns);
        self.mappings.map(mapping);
    }

    /// `/proc/<pid>/maps` said this.
    pub(crate) fn saw_maps(&mut self, time_ns: u64, text: &[u8]) {
        self.see(time_ns);
        self.mappings.snapshot(time_ns, text, Some(self.pid));
    }

    /// The thread that a sample of this time is of.
    pub(crate) fn thread(&mut self, tid: u32, time_ns: u64) -> ThreadRow {
        self.threads.owner(tid as usize, tid, time_ns)
    }

    /// Whether one more sample may be taken; where not, it is counted as unwritten.
    pub(crate) fn has_room(&mut self) -> bool {
        self.rows.has_room(&mut self.counts)
    }

    /// Number of the next sample's window.
    pub(crate) fn next_window(&self) -> u32 {
        self.rows.next_window()
    }

    /// Takes a sample and the accesses of its window.
    pub(crate) fn push(&mut self, sample: Sample, accesses: impl Iterator<Item = Access>) {
        self.see(sample.time_ns);
        self.threads.count_sample(sample.thread);
        self.rows.push(sample, accesses, &mut self.counts);
    }

    /// It ended, or another one took its place.
    pub(crate) fn end(&mut self, time_ns: u64) {
        self.see(time_ns);
        self.has_ended = true;
    }

    /// Whether enough has come together for a part.
    pub(crate) fn is_part_due(&self) -> bool {
        self.rows.is_part_due()
    }

    /// Whether a part would say anything that the last one does not.
    pub(crate) fn has_news(&self) -> bool {
        self.is_changed
    }

    /// The rows since the last part, without those of which the last part's alone count.
    pub(crate) fn take_rows(&mut self) -> PartRows {
        self.is_changed = false;
        self.counts.parts += 1;
        let (samples, accesses) = self.rows.take();
        PartRows { samples, accesses, ended_mappings: self.mappings.take_ended(), ..PartRows::default() }
    }

    /// The rows since the last part, with what there is now: a reader may find no part after this one.
    pub(crate) fn take_part(&mut self) -> PartRows {
        self.mappings.end(self.seen_ns[1]);
        PartRows { mappings: self.mappings.live(), threads: self.threads.rows().clone(), ..self.take_rows() }
    }

    /// As `session.json` tells it.
    pub(crate) fn summary(&self, now_ns: u64, trigger: Trigger) -> ProcessSummary {
        ProcessSummary {
            parent_pid: self.parent_pid,
            executable: self.mappings.executable().unwrap_or_default().to_owned(),
            state: if self.has_ended { ProcessState::Exited } else { ProcessState::Running },
            trigger,
            ended_ns: if self.has_ended { self.seen_ns[1] } else { now_ns },
            parts: self.counts.parts,
            samples: self.counts.samples,
            weightless_samples: self.counts.weightless_samples,
            weight: self.counts.weight,
            accesses: self.counts.accesses,
            losses: Losses { unwritten_samples: self.counts.unwritten_samples, ..Losses::default() },
            ..ProcessSummary::begun(self.directory.clone(), self.pid, self.seen_ns[0])
        }
    }
}
