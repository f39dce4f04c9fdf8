//! One program that a process ran, seen from outside: from the kernel's records to the rows of the next part.

use slimline_trace::address::Avma;
use slimline_trace::served::Served;
use slimline_trace::session::{Losses, ProcessState, ProcessSummary, Trigger};
use slimline_trace::tables::{Mapping, Sample};
use slimline_trace::wire::{Quality, ThreadEvent};

use super::blamer::{Blamer, Plans};
use super::code::{CodeFiles, KnownFiles, Owner};
use super::mappings::LiveMappings;
use super::records::{STACK_POINTER, state_of};
use crate::process_summary::Counts;
use crate::recorder::PartRows;
use crate::sample_rows::SampleRows;
use crate::thread_roll::ThreadRoll;

/// How often `/proc/<pid>/maps` is read at most.
const MAPS_EVERY_NS: u64 = 250_000_000;

/// What is known of a process since it began or last called `exec`, and its rows since the last part.
#[derive(Debug)]
pub(super) struct Image {
    owner: Owner,
    parent_pid: u32,
    directory: String,
    started_ns: u64,
    ended_ns: Option<u64>,
    pub(super) mappings: LiveMappings,
    known_files: KnownFiles,
    plans: Plans,
    threads: ThreadRoll,
    rows: SampleRows,
    counts: Counts,
    lost: u64,
    throttled: u64,
    wants_maps: bool,
    last_maps_ns: Option<u64>,
    is_changed: bool,
}

/// A sample of one of its threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSample {
    pub(super) time_ns: u64,
    pub(super) tid: u32,
    pub(super) ip: u64,
    pub(super) registers: Option<[u64; 17]>,
    pub(super) weight_ns: u64,
}

impl Image {
    /// A program that began at this time, in the session's subdirectory `directory`.
    pub(super) fn new(owner: Owner, directory: String, started_ns: u64) -> Self {
        Self {
            owner,
            parent_pid: 0,
            directory,
            started_ns,
            ended_ns: None,
            mappings: LiveMappings::default(),
            known_files: KnownFiles::default(),
            plans: Plans::default(),
            threads: ThreadRoll::default(),
            rows: SampleRows::default(),
            counts: Counts::default(),
            lost: 0,
            throttled: 0,
            wants_maps: true,
            last_maps_ns: None,
            is_changed: true,
        }
    }

    /// Made by the process `parent_pid`.
    pub(super) fn with_parent(self, parent_pid: u32) -> Self {
        Self { parent_pid, ..self }
    }

    /// With these mappings, as a fork has those of its parent.
    pub(super) fn with_mappings(self, mappings: LiveMappings) -> Self {
        Self { mappings, ..self }
    }

    pub(super) fn parent_pid(&self) -> u32 {
        self.parent_pid
    }

    /// Name of its subdirectory.
    pub(super) fn directory(&self) -> &str {
        &self.directory
    }

    /// A thread began.
    pub(super) fn thread_began(&mut self, tid: u32, time_ns: u64) {
        self.threads.take(tid as usize, &ThreadEvent { time_ns, cpu_ns: 0, tid, ended: 0, name: [0; 16] });
        self.is_changed = true;
    }

    /// A thread has this name.
    pub(super) fn thread_named(&mut self, tid: u32, time_ns: u64, name: &str) {
        // It has a row from now on where its beginning was not seen.
        self.threads.owner(tid as usize, tid, time_ns);
        self.threads.rename(tid as usize, name);
        self.is_changed = true;
    }

    /// A thread ended. Whether it was the last one.
    pub(super) fn thread_ended(&mut self, tid: u32, time_ns: u64) -> bool {
        self.threads.take(tid as usize, &ThreadEvent { time_ns, cpu_ns: 0, tid, ended: 1, name: [0; 16] });
        self.is_changed = true;
        self.threads.unended() == 0
    }

    /// Memory was mapped.
    pub(super) fn mapped(&mut self, mapping: Mapping) {
        self.mappings.map(mapping);
        self.is_changed = true;
    }

    /// `/proc/<pid>/maps` said this.
    pub(super) fn saw_maps(&mut self, time_ns: u64, text: &str) {
        self.mappings.snapshot(time_ns, text);
        self.is_changed = true;
    }

    /// Whether `/proc/<pid>/maps` should be read now. Says so once.
    pub(super) fn takes_maps(&mut self, now_ns: u64) -> bool {
        let is_time = self.last_maps_ns.is_none_or(|last_ns| now_ns.saturating_sub(last_ns) >= MAPS_EVERY_NS);
        let takes = self.wants_maps && is_time;
        if takes {
            (self.wants_maps, self.last_maps_ns) = (false, Some(now_ns));
        }
        takes
    }

    /// Records were lost.
    pub(super) fn lost(&mut self, records: u64) {
        self.lost = self.lost.saturating_add(records);
    }

    /// The clock was held back.
    pub(super) fn throttled(&mut self) {
        self.throttled += 1;
    }

    /// A thread was interrupted.
    pub(super) fn sampled(&mut self, sample: ThreadSample, blamer: &mut Blamer, files: &mut CodeFiles) {
        if !self.rows.has_room(&mut self.counts) {
            return;
        }
        let ThreadSample { time_ns, tid, ip, registers, weight_ns } = sample;
        let generation = self.mappings.generation();
        let mut code = files.of(self.owner, &self.mappings, &mut self.known_files);
        let blamed = match &registers {
            Some(registers) => blamer.blame(state_of(ip, registers), weight_ns, &mut self.plans, generation, &mut code),
            None => blamer.nothing(Quality::NoCode),
        };
        let is_unknown = |address: u64| address != 0 && self.mappings.at(address).is_none();
        self.wants_maps |= is_unknown(ip) || is_unknown(blamed.address);
        let thread = self.threads.owner(tid as usize, tid, time_ns);
        let row = Sample {
            time_ns,
            thread,
            // Not known from outside.
            cpu_ns: 0,
            weight: weight_ns,
            sampled_ip: Avma(ip),
            ip: Avma(blamed.ip),
            address: Avma(blamed.address),
            stack_pointer: Avma(registers.map_or(0, |registers| registers[STACK_POINTER])),
            access_bytes: blamed.bytes,
            kind: blamed.kind,
            quality: blamed.quality,
            block: None,
            stack: None,
            accesses: 0,
            burst_instructions: blamed.instructions,
            burst_end: blamed.burst_end,
            served: Served::UNKNOWN,
        };
        self.rows.push(row, blamer.accesses(self.rows.next_window()), &mut self.counts);
        self.threads.count_sample(thread);
        self.is_changed = true;
    }

    /// The process has ended, or runs another program from now on.
    pub(super) fn end(&mut self, time_ns: u64) {
        self.ended_ns = Some(time_ns);
        self.mappings.end(time_ns);
        self.is_changed = true;
    }

    /// Whether enough has come together for a part.
    pub(super) fn is_part_due(&self) -> bool {
        self.rows.is_part_due()
    }

    /// Whether a part would say anything that the last one does not.
    pub(super) fn has_news(&self) -> bool {
        self.is_changed
    }

    /// The rows since the last part.
    pub(super) fn take_part(&mut self) -> PartRows {
        self.is_changed = false;
        self.counts.parts += 1;
        let (samples, accesses) = self.rows.take();
        let (mappings, threads) = (self.mappings.table(), self.threads.rows().clone());
        PartRows { samples, accesses, mappings, threads, ..PartRows::default() }
    }

    /// As `session.json` tells it.
    pub(super) fn summary(&self, now_ns: u64, weight_ns: u64) -> ProcessSummary {
        ProcessSummary {
            parent_pid: self.parent_pid,
            executable: self.mappings.executable().unwrap_or_default().to_owned(),
            state: if self.ended_ns.is_some() { ProcessState::Exited } else { ProcessState::Running },
            trigger: Trigger::PerfRing,
            ended_ns: self.ended_ns.unwrap_or(now_ns),
            parts: self.counts.parts,
            samples: self.counts.samples,
            weight: self.counts.weight,
            accesses: self.counts.accesses,
            losses: Losses {
                // Which of the lost records were samples is not known; nearly all records are.
                dropped_samples: self.lost,
                dropped_weight: self.lost.saturating_mul(weight_ns),
                dropped_messages: self.lost,
                damaged_messages: self.counts.damaged_messages,
                throttled: self.throttled,
                unwritten_samples: self.counts.unwritten_samples,
                ..Losses::default()
            },
            ..ProcessSummary::begun(self.directory.clone(), self.owner.pid, self.started_ns)
        }
    }
}
