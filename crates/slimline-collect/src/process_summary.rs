//! What `session.json` tells of one process: what its agent counted, and what the collector did.

use std::io;
use std::mem::offset_of;
use std::path::Path;

use rustix::io::Errno;
use slimline_trace::session::{FoundAllocator, Losses, ProcessState, ProcessSummary, Trigger};
use slimline_trace::wire::{self, FILE_MIB, LEAST_ADDRESS_SPACE, LEAST_DESCRIPTORS, ProcessHeader, SLOTS, TriggerKind};

use crate::allocators::unlooked;
use crate::pid_namespace::Numbers;
use crate::ring::ProcessFile;

/// What the collector took in of one process.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) parts: u32,
    pub(crate) samples: u64,
    pub(crate) weightless_samples: u64,
    pub(crate) weight: u64,
    pub(crate) accesses: u64,
    pub(crate) damaged_messages: u64,
    pub(crate) unwritten_samples: u64,
}

/// What there is to tell of a process.
#[derive(Debug)]
pub(crate) struct Recorded<'a> {
    pub(crate) file: &'a ProcessFile,
    pub(crate) numbers: Numbers,
    pub(crate) directory: &'a str,
    pub(crate) executable: &'a str,
    pub(crate) counts: &'a Counts,
    pub(crate) threads_unended: u64,
    pub(crate) allocators: &'a [FoundAllocator],
    /// When it was forked from a process that is recorded; 0 otherwise.
    pub(crate) forked_ns: u64,
}

impl Recorded<'_> {
    /// As it is now.
    pub(crate) fn summary(&self, now_ns: u64, is_alive: bool) -> ProcessSummary {
        let u64_of = |offset| self.file.header_u64(offset);
        let u32_of = |offset| self.file.header_u32(offset);
        let is_cut = self.file.is_cut();
        let state = match self.file.state() {
            _ if is_cut => ProcessState::Failed,
            state if state == wire::ProcessState::Exited as u32 => ProcessState::Exited,
            state if state == wire::ProcessState::Failed as u32 => ProcessState::Failed,
            _ if is_alive => ProcessState::Running,
            _ => ProcessState::Gone,
        };
        let exited = state == ProcessState::Exited;
        let (mut dropped_messages, mut dropped_samples, mut dropped_weight) = (0_u64, 0_u64, 0_u64);
        for dropped in
            (0..SLOTS).map(|slot| self.file.slot(slot)).filter(|slot| !slot.is_untouched()).map(|slot| slot.dropped())
        {
            dropped_messages = dropped_messages.saturating_add(dropped.0);
            dropped_samples = dropped_samples.saturating_add(dropped.1);
            dropped_weight = dropped_weight.saturating_add(dropped.2);
        }
        ProcessSummary {
            directory: self.directory.to_owned(),
            pid: self.numbers.pid,
            parent_pid: self.numbers.parent_pid,
            executable: self.executable.to_owned(),
            state,
            failure: match state {
                ProcessState::Failed if is_cut => Some("the file that it shares with slimline was cut off".to_owned()),
                ProcessState::Failed => Some(self.file.failure()),
                _ => None,
            },
            trigger: trigger_of(u32_of(offset_of!(ProcessHeader, trigger))),
            trigger_errno: u32_of(offset_of!(ProcessHeader, trigger_errno)),
            between_errno: u32_of(offset_of!(ProcessHeader, between_errno)),
            forked_ns: self.forked_ns,
            started_ns: u64_of(offset_of!(ProcessHeader, started_ns)),
            ended_ns: if exited { u64_of(offset_of!(ProcessHeader, exited_ns)) } else { now_ns },
            parts: self.counts.parts,
            samples: self.counts.samples,
            weightless_samples: self.counts.weightless_samples,
            weight: self.counts.weight,
            accesses: self.counts.accesses,
            allocations: u64_of(offset_of!(ProcessHeader, allocations)),
            allocated_bytes: u64_of(offset_of!(ProcessHeader, allocated_bytes)),
            allocations_followed: u64_of(offset_of!(ProcessHeader, allocations_followed)),
            follow_shift: u32_of(offset_of!(ProcessHeader, follow_shift)),
            followed_bytes: u64_of(offset_of!(ProcessHeader, followed_bytes)),
            user_ns: exited.then(|| u64_of(offset_of!(ProcessHeader, user_ns))),
            system_ns: exited.then(|| u64_of(offset_of!(ProcessHeader, system_ns))),
            sampling_ns: u64_of(offset_of!(ProcessHeader, sampling_ns)),
            allocators: self.allocators.to_vec(),
            unlooked: unlooked(u64_of(offset_of!(ProcessHeader, not_looked_through))),
            adds_to: None,
            losses: Losses {
                dropped_samples,
                dropped_weight,
                dropped_messages,
                damaged_messages: self.counts.damaged_messages,
                triggers_in_agent: u32_of(offset_of!(ProcessHeader, triggers_in_agent)).into(),
                throttled: 0,
                kernel_samples: 0,
                threads_without_ring: u32_of(offset_of!(ProcessHeader, threads_without_ring)).into(),
                threads_without_timer: u64_of(offset_of!(ProcessHeader, threads_without_timer)),
                children_unrecorded: u32_of(offset_of!(ProcessHeader, children_unrecorded)).into(),
                stacks_dropped: u32_of(offset_of!(ProcessHeader, stacks_dropped)).into(),
                blocks_unindexed: u64_of(offset_of!(ProcessHeader, blocks_unindexed)),
                unwritten_samples: self.counts.unwritten_samples,
                threads_uncounted: self.threads_unended,
            },
        }
    }
}

/// Why a process has no file that it shares with us.
#[derive(Debug)]
pub(crate) enum NoFile {
    /// It could not make it.
    Refused(io::Error),
    /// It could not make it so large, or, if it is new, had no time to.
    Empty { is_new: bool },
}

/// What is to be said besides where it may have had no time to make its file larger.
pub(crate) const JUST_BEGUN: &str = ", or it had only just begun";

/// A process whose agent could not make the file that it shares with us in `run`.
pub(crate) fn without_file(pid: u32, directory: String, now_ns: u64, why: &NoFile, run: &Path) -> ProcessSummary {
    let failure = match why {
        NoFile::Empty { is_new } => format!(
            "the size of its files is limited to less than the {FILE_MIB} MiB that it shares with slimline (ulimit -f){}",
            if *is_new { JUST_BEGUN } else { "" }
        ),
        NoFile::Refused(error) if error.kind() == io::ErrorKind::OutOfMemory => format!(
            "its address space is limited (ulimit -v or -d) to less than the {} MiB that the agent needs: raise the limit, \
             or record with --out-of-process",
            LEAST_ADDRESS_SPACE >> 20
        ),
        NoFile::Refused(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => format!(
            "its open files are limited (ulimit -n) to less than the {LEAST_DESCRIPTORS} that leave room for the agent's: raise \
             the limit, or record with --out-of-process"
        ),
        NoFile::Refused(error) => {
            let place = run.parent().unwrap_or(run).display();
            format!("it could not make the file that it shares with slimline ({error}); make room in {place}")
        }
    };
    ProcessSummary {
        state: ProcessState::Failed,
        failure: Some(failure),
        ..ProcessSummary::begun(directory, pid, now_ns)
    }
}

/// The trigger that an agent says it uses; a number that is none reads as off.
pub(crate) fn trigger_of(number: u32) -> Trigger {
    const PERF_SIGTRAP: u32 = TriggerKind::PerfSigtrap as u32;
    const THREAD_TIMER: u32 = TriggerKind::ThreadTimer as u32;
    match number {
        PERF_SIGTRAP => Trigger::PerfSigtrap,
        THREAD_TIMER => Trigger::ThreadTimer,
        _ => Trigger::Off,
    }
}
