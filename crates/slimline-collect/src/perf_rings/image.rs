//! One program that a process ran, seen from outside: from the kernel's records to the rows of the next part.

use std::iter;

use slimline_trace::access::AccessKind;
use slimline_trace::address::Avma;
use slimline_trace::served::Served;
use slimline_trace::session::{Losses, ProcessState, ProcessSummary, Trigger};
use slimline_trace::tables::{Sample, Within};
use slimline_trace::wire::Quality;

use super::blamer::{Blamer, Plans};
use super::code::{CodeFiles, KnownFiles, Owner};
use super::records::{CaughtSample, STACK_POINTER, state_of};
use crate::perf_event::Taken;
use crate::program_run::ProgramRun;

/// How often `/proc/<pid>/maps` is read at most.
const MAPS_EVERY_NS: u64 = 250_000_000;

/// Why there is nothing of a program that ended before it had mapped its file. The kernel tells of its `exec`, takes the
/// events away, which looks as an end does, and only then maps it.
const EVENTS_TAKEN: &str = "the kernel ended its sampling as it began, which it does where a program has more rights than who \
                            starts it (set-user-id, set-group-id, file capabilities) or may not be read";

/// A program, and what is needed to look at its code while it runs on.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) run: ProgramRun,
    /// What the process called itself when it became this program by `exec`.
    exec_name: Option<String>,
    owner: Owner,
    known_files: KnownFiles,
    plans: Plans,
    lost: u64,
    throttled: u64,
    kernel_samples: u64,
    in_agent: u64,
    wants_maps: bool,
    last_maps_ns: Option<u64>,
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
    /// Of a program whose files were mapped by then, in seconds since 1970.
    pub(super) fn new(run: ProgramRun, mapped_by_s: i64) -> Self {
        Self {
            owner: Owner { pid: run.pid(), mapped_by_s },
            run,
            exec_name: None,
            known_files: KnownFiles::default(),
            plans: Plans::default(),
            lost: 0,
            throttled: 0,
            kernel_samples: 0,
            in_agent: 0,
            wants_maps: true,
            last_maps_ns: None,
        }
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

    /// It began by an `exec`, and has this name.
    pub(super) fn began_by_exec(&mut self, name: String) {
        self.exec_name = Some(name);
    }

    /// Records were lost.
    pub(super) fn lost(&mut self, records: u64) {
        self.lost = self.lost.saturating_add(records);
    }

    /// The clock was held back.
    pub(super) fn throttled(&mut self) {
        self.throttled += 1;
    }

    /// The kernel's code was sampled.
    pub(super) fn caught_in_kernel(&mut self) {
        self.kernel_samples += 1;
    }

    /// Whether a sample is of slimline's own code. Counts those, as agents do.
    fn is_in_agent(&mut self, ip: u64) -> bool {
        let is_in_agent = self.run.mappings().is_agent(ip);
        self.in_agent += u64::from(is_in_agent);
        is_in_agent
    }

    /// The hardware sampled an access of a thread.
    pub(super) fn caught(
        &mut self,
        tid: u32,
        time_ns: u64,
        sample: CaughtSample,
        blamer: &mut Blamer,
        files: &mut CodeFiles,
    ) {
        if self.is_in_agent(sample.ip) || !self.run.has_room() {
            return;
        }
        let CaughtSample { ip, has_exact_ip, mut caught, weight } = sample;
        let mappings = self.run.mappings();
        let is_unknown = |address: u64| address != 0 && !mappings.holds(address);
        self.wants_maps |= is_unknown(ip) || is_unknown(caught.address);
        let generation = mappings.generation();
        let mut code = files.of(self.owner, mappings, &mut self.known_files);
        let instruction = blamer.instruction(ip, has_exact_ip, &mut self.plans, generation, &mut code);
        if let Some(instruction) = instruction.filter(|_| caught.address != 0) {
            // What the hardware tells goes before what its code says.
            caught.bytes = if caught.bytes == 0 { instruction.bytes } else { caught.bytes };
            caught.kind = if caught.kind == AccessKind::NONE { instruction.kind } else { caught.kind };
        }
        let quality = match caught.address {
            0 if caught.is_no_access => Quality::NoMemory,
            0 => Quality::Lost,
            _ => Quality::Exact,
        };
        let taken = Taken {
            time_ns,
            thread: self.run.thread(tid, time_ns),
            weight,
            sampled_ip: ip,
            ip: instruction.map_or(ip, |instruction| instruction.ip),
            quality,
            stack_pointer: 0,
            stack: None,
        };
        self.run.push(caught.row(taken), iter::empty());
    }

    /// A thread was interrupted.
    pub(super) fn sampled(&mut self, sample: ThreadSample, blamer: &mut Blamer, files: &mut CodeFiles) {
        if self.is_in_agent(sample.ip) || !self.run.has_room() {
            return;
        }
        let ThreadSample { time_ns, tid, ip, registers, weight_ns } = sample;
        let mappings = self.run.mappings();
        let generation = mappings.generation();
        let mut code = files.of(self.owner, mappings, &mut self.known_files);
        let blamed = match &registers {
            Some(registers) => blamer.blame(state_of(ip, registers), weight_ns, &mut self.plans, generation, &mut code),
            None => blamer.nothing(Quality::NoCode),
        };
        let is_unknown = |address: u64| address != 0 && !mappings.holds(address);
        self.wants_maps |= is_unknown(ip) || is_unknown(blamed.address);
        let row = Sample {
            time_ns,
            thread: self.run.thread(tid, time_ns),
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
            within: Within::default(),
        };
        self.run.push(row, blamer.accesses(self.run.next_window()));
    }

    /// As `session.json` tells it.
    pub(super) fn summary(&self, now_ns: u64, trigger: Trigger, weight_ns: u64) -> ProcessSummary {
        let summary = self.run.summary(now_ns, trigger);
        let losses = Losses {
            // Which of the lost records were samples is not known; nearly all records are.
            dropped_samples: self.lost,
            dropped_weight: self.lost.saturating_mul(weight_ns),
            dropped_messages: self.lost,
            throttled: self.throttled,
            kernel_samples: self.kernel_samples,
            triggers_in_agent: self.in_agent,
            ..summary.losses
        };
        let summary = ProcessSummary { losses, ..summary };
        match &self.exec_name {
            Some(name) if summary.state == ProcessState::Exited && summary.executable.is_empty() && self.lost == 0 => {
                ProcessSummary {
                    state: ProcessState::Failed,
                    failure: Some(EVENTS_TAKEN.to_owned()),
                    executable: name.clone(),
                    ..summary
                }
            }
            _ => summary,
        }
    }
}
