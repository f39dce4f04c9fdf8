//! `session.json`: how a session came to be, and what it lost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AddsTo, Imported};

/// The whole content of `session.json`. Fields that came after the first version have a default, so that older sessions
/// can be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Version of the session's format; see [`FORMAT_VERSION`](super::FORMAT_VERSION).
    pub format: u32,
    /// Version of slimline that recorded it.
    pub slimline_version: String,
    /// Whether the recording came to its end. `false` while it runs and where the collector was killed.
    pub complete: bool,
    /// Program and arguments as given; bytes that are not UTF-8 are replaced.
    pub command: Vec<String>,
    /// The program as found: absolute path.
    pub program: String,
    /// Directory in which the command was started.
    pub working_directory: String,
    /// Environment variables that change how a program uses memory or threads.
    pub environment: BTreeMap<String, String>,
    /// Where it ran.
    pub machine: Machine,
    /// How it was recorded.
    pub collector: Collector,
    /// Wall-clock time of the start: nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// `CLOCK_MONOTONIC` of the start: the zero of the tables' times.
    pub started_ns: u64,
    /// `CLOCK_MONOTONIC` of the end; where the recording is not complete, of the last write.
    pub ended_ns: u64,
    /// How the recorded process ended; `None` while it is recorded and where the collector was killed.
    pub end: Option<End>,
    /// Why the recording is not whole: what happened, as a sentence.
    pub stopped_early: Option<String>,
    /// Of a session that was imported: the file, and what in it is no sample of a program.
    #[serde(default)]
    pub imported: Option<Imported>,
    /// The processes recorded, in the order in which they were first seen.
    pub processes: Vec<ProcessSummary>,
}

impl SessionInfo {
    /// Time recorded.
    pub fn duration_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.started_ns)
    }

    /// Samples that reports count: where weights are times, those that have one.
    pub fn counted_samples(&self) -> u64 {
        let counted = |process: &ProcessSummary| match self.collector.weight {
            WeightUnit::TimeNs => process.samples.saturating_sub(process.weightless_samples),
            _ => process.samples,
        };
        self.processes.iter().map(counted).fold(0, u64::saturating_add)
    }
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Instruction set.
    pub architecture: String,
    /// CPU's own name.
    pub cpu: String,
    /// Logical CPUs online.
    pub logical_cpus: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Caches that CPU 0 uses, nearest first.
    pub caches: Vec<Cache>,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`, as the kernel says.
    pub kind: String,
    /// Size.
    pub bytes: u64,
    /// Line size.
    pub line_bytes: u32,
    /// Associativity; 0 where the kernel does not say.
    pub ways: u32,
    /// CPUs that share it, as the kernel lists them.
    pub shared_by: String,
}

/// What interrupts threads to sample them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// perf cpu-clock with `sigtrap`.
    PerfSigtrap,
    /// POSIX timers on the threads' user time, which the kernel serves at its tick.
    ThreadTimer,
    /// perf cpu-clock into ring buffers that slimline reads: nothing of the program is changed.
    PerfRing,
    /// perf, a hardware event: see [`Collector::events`].
    Counter,
    /// None: allocations only.
    Off,
}

impl Trigger {
    /// What it is, in a few words.
    pub fn label(self) -> &'static str {
        match self {
            Self::PerfSigtrap => "perf cpu-clock, sigtrap",
            Self::ThreadTimer => "thread timer, kernel tick",
            Self::PerfRing => "perf cpu-clock, ring buffers",
            Self::Counter => "hardware counter",
            Self::Off => "none",
        }
    }
}

/// What the weight of a session's samples counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightUnit {
    #[default]
    /// Time that a sample stands for: user time of a clock's period.
    TimeNs,
    /// Cycles that the sampled accesses waited for their data, as hardware measured. Accesses overlap and hide behind
    /// each other and behind computing: the sum is no time.
    LatencyCycles,
    /// Occurrences of the sampled event that a sample stands for: its period.
    Period,
    /// Samples: each counts for one, where nothing tells what it stands for.
    Samples,
}

impl WeightUnit {
    /// The name in `session.json` and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimeNs => "time_ns",
            Self::LatencyCycles => "latency_cycles",
            Self::Period => "period",
            Self::Samples => "samples",
        }
    }

    /// What shares of the weight are shares of, in a word.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::TimeNs => "time",
            Self::LatencyCycles => "latency",
            Self::Period => "events",
            Self::Samples => "samples",
        }
    }

    /// Whether shares of the weight are shares of time.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::TimeNs)
    }
}

/// A hardware event that was sampled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledEvent {
    /// As perf spells it: `cpu/mem-loads,ldlat=30/P`, `ibs_op//`.
    pub name: String,
    /// Events from one sample to the next; `None` where the kernel adapts them to a frequency, or where it is not known.
    pub period: Option<u64>,
    /// The frequency it adapts them to: samples a second and thread.
    pub frequency_hz: Option<u64>,
    /// Loads that took fewer cycles were not sampled.
    pub least_latency_cycles: Option<u64>,
}

/// How a session was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Collector {
    /// Its name: `clock`, `pmu`, or `import` of what another tool recorded.
    pub name: String,
    /// Why not one that tells more; `None` where it was asked for.
    #[serde(default)]
    pub second_best: Option<String>,
    /// What interrupts threads.
    pub trigger: Trigger,
    /// Why that trigger.
    pub trigger_reason: String,
    /// `errno` of perf, where that was tried and refused; 0 otherwise.
    #[serde(default)]
    pub trigger_errno: u32,
    /// What a sample's weight counts.
    pub weight: WeightUnit,
    /// The hardware events sampled; none of a clock.
    #[serde(default)]
    pub events: Vec<SampledEvent>,
    /// Time between two samples of a thread that weigh, as asked of a clock; 0 without one.
    pub period_ns: u64,
    /// Time between two triggers of each of the two clocks that interrupt a thread; 0 for none. The second one's samples
    /// weigh nothing: they say where a thread is.
    #[serde(default)]
    pub clocks_ns: [u64; 2],
    /// Why that period; `None` where the user asked for it.
    #[serde(default)]
    pub period_reason: Option<String>,
    /// CPU time that one trigger takes on this machine (interrupt, signal and a sample without a burst), where it was
    /// measured before the run.
    #[serde(default)]
    pub trigger_cost_ns: Option<u64>,
    /// Length of a burst, as asked.
    pub burst_instructions: u32,
    /// Part of a thread's CPU time, in millionths, that samples could take before bursts were left out.
    /// 0 in sessions that are older than this field.
    #[serde(default)]
    pub budget_ppm: u32,
    /// Whether allocations were tracked.
    pub track_allocations: bool,
    /// Whether exec'd children were recorded too.
    pub follow_children: bool,
    /// Distance between stalled and sampled instruction.
    pub skid: Skid,
}

/// How many instructions after the stalled one a sample shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skid {
    /// The distance that was used.
    pub instructions: u32,
    /// Whether it was measured on this machine before the run; otherwise it is assumed, and `note` says why.
    pub calibrated: bool,
    /// Samples of the known kernel by their distance from its stalled load: \[0\] at it, \[1\] one after…
    pub samples_at_distance: Vec<u64>,
    /// What the numbers mean, for people.
    pub note: String,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It returned or exited.
    Exited {
        /// Exit status.
        status: i32,
    },
    /// A signal ended it.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// It ran on when the recording was ended.
    Detached,
    /// It ended; how is for its parent to know.
    Gone,
}

/// State of a recorded process when it was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// It still ran when recording ended.
    Running,
    /// It ran its exit handlers, or was seen to end from outside.
    Exited,
    /// It is gone without having run its exit handlers: killed, `_exit` or `exec`.
    Gone,
    /// Its agent gave up; see [`ProcessSummary::failure`].
    Failed,
}

/// One recorded process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessSummary {
    /// Its subdirectory: `p<pid>-<n>`.
    pub directory: String,
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub parent_pid: u32,
    /// Path of the executable it ran.
    pub executable: String,
    /// State when last looked at.
    pub state: ProcessState,
    /// Why its agent gave up.
    pub failure: Option<String>,
    /// What interrupted its threads.
    pub trigger: Trigger,
    /// `errno` of the trigger that was refused; 0 where it was granted.
    pub trigger_errno: u32,
    /// `errno` of the second clock where it was refused; 0 where it was granted, or not asked for.
    #[serde(default)]
    pub between_errno: u32,
    /// `CLOCK_MONOTONIC` of the fork that made it; 0 where it was not forked, or not from a process of the session. Ranges that
    /// began then are its parent's.
    #[serde(default)]
    pub forked_ns: u64,
    /// `CLOCK_MONOTONIC` of its start.
    pub started_ns: u64,
    /// `CLOCK_MONOTONIC` of its end; of the last look where it did not end.
    pub ended_ns: u64,
    /// Parts handed to the writer. In a complete session all of them are there.
    pub parts: u32,
    /// Samples kept.
    pub samples: u64,
    /// Those of them that weigh nothing: of a second clock, which only say where a thread was, and of stores.
    #[serde(default)]
    pub weightless_samples: u64,
    /// Their weight, in the unit that [`Collector::weight`] names.
    #[serde(alias = "weight_ns")]
    pub weight: u64,
    /// Accesses kept.
    pub accesses: u64,
    /// Allocations seen.
    pub allocations: u64,
    /// Bytes they asked for.
    pub allocated_bytes: u64,
    /// Those of them whose blocks are followed: named in samples, with their call path.
    #[serde(default)]
    pub allocations_followed: u64,
    /// At the end one in 2^this of the small blocks was followed.
    #[serde(default)]
    pub follow_shift: u32,
    /// Small ones are those of fewer bytes than this, at the end.
    #[serde(default = "always_followed_bytes")]
    pub followed_bytes: u64,
    /// CPU time in user mode, known once it exited.
    pub user_ns: Option<u64>,
    /// CPU time in the kernel, which has no samples; known once it exited.
    pub system_ns: Option<u64>,
    /// CPU time that the agent's samples took, in all threads, without the interrupts themselves.
    #[serde(default)]
    pub sampling_ns: u64,
    /// Functions of allocators other than the C library's that its objects have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocators: Vec<FoundAllocator>,
    /// In which of its objects they were not looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlooked: Vec<Unlooked>,
    /// The process that this one is a part of, if an agent recorded another part of it. `None` in older sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adds_to: Option<AddsTo>,
    /// What is missing.
    pub losses: Losses,
}

/// A function of an allocator that a process has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundAllocator {
    /// Its name as linked.
    pub function: String,
    /// What became of it.
    pub outcome: HookOutcome,
}

/// Whether a function of an allocator is followed, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOutcome {
    /// It is.
    Followed,
    /// It is too short for a jump.
    Short,
    /// Its first instructions call.
    Calls,
    /// An instruction of its own jumps between its first ones.
    BranchInside,
    /// Its first instructions name an address that their new place can't reach.
    OutOfReach,
    /// Its first instructions are not known.
    UnknownCode,
    /// The kernel refused memory near it, or to have its code changed.
    Refused,
    /// It was found when threads may have been running it already.
    Late,
}

impl HookOutcome {
    /// Why it is not followed, as the end of a sentence; `None` where it is.
    pub fn why_not(self) -> Option<&'static str> {
        Some(match self {
            Self::Followed => return None,
            Self::Short => "it is too short for a jump",
            Self::Calls => "its first instructions call another function",
            Self::BranchInside => "a loop of its own comes back to its first instructions",
            Self::OutOfReach => "its first instructions name an address that is out of reach from elsewhere",
            Self::UnknownCode => "its first instructions can't be moved",
            Self::Refused => "the kernel refused to have its code changed",
            Self::Late => {
                "it was loaded unseen (by a signal handler or a vfork child) or beside other threads, which may be \
                           running it"
            }
        })
    }
}

/// Why functions of allocators were not looked for in all objects of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unlooked {
    /// In none.
    Any,
    /// Not in those that are loaded while it runs.
    LoadedLater,
    /// Not in those beyond the first so many.
    BeyondMost,
    /// Not in those that were loaded where the agent could not look.
    Unseen,
}

impl Unlooked {
    /// Which objects, and why, as the end of a sentence.
    pub fn objects(self) -> &'static str {
        match self {
            Self::Any => "any object: the processor can't save its vector registers (XSAVE), or there is no memory",
            Self::LoadedLater => {
                "objects that are loaded while it runs (dlopen): its dynamic linker does not tell of them in a known way, or \
                 other threads were running before the agent"
            }
            Self::BeyondMost => "all objects: more were loaded at a time than the agent keeps",
            Self::Unseen => {
                "what was loaded (dlopen) by a child of vfork, or by a signal handler that interrupted the agent"
            }
        }
    }
}

impl ProcessSummary {
    /// Of a process that began then, runs, and of which nothing was seen yet.
    pub fn begun(directory: String, pid: u32, started_ns: u64) -> Self {
        Self {
            directory,
            pid,
            parent_pid: 0,
            executable: String::new(),
            state: ProcessState::Running,
            failure: None,
            trigger: Trigger::Off,
            trigger_errno: 0,
            between_errno: 0,
            allocators: Vec::new(),
            unlooked: Vec::new(),
            adds_to: None,
            forked_ns: 0,
            started_ns,
            ended_ns: started_ns,
            parts: 0,
            samples: 0,
            weightless_samples: 0,
            weight: 0,
            accesses: 0,
            allocations: 0,
            allocated_bytes: 0,
            allocations_followed: 0,
            follow_shift: 0,
            followed_bytes: always_followed_bytes(),
            user_ns: None,
            system_ns: None,
            sampling_ns: 0,
            losses: Losses::default(),
        }
    }
}

/// Of a session from before the limit could grow.
fn always_followed_bytes() -> u64 {
    crate::wire::ALWAYS_FOLLOWED_BYTES
}

/// What a process did that the tables do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Samples that found the ring full.
    pub dropped_samples: u64,
    /// Their weight.
    #[serde(alias = "dropped_weight_ns")]
    pub dropped_weight: u64,
    /// Messages that found the ring full, samples included.
    pub dropped_messages: u64,
    /// Messages that were damaged: the process wrote over its ring.
    pub damaged_messages: u64,
    /// Triggers that came inside the agent.
    pub triggers_in_agent: u64,
    /// Times that the kernel stopped an event for a while because it came too often.
    #[serde(default)]
    pub throttled: u64,
    /// Samples of the kernel's code, which hardware can't leave out everywhere: they are not kept.
    #[serde(default)]
    pub kernel_samples: u64,
    /// Threads that found no free ring.
    pub threads_without_ring: u64,
    /// Threads that the limit on pending signals left without a timer.
    #[serde(default)]
    pub threads_without_timer: u64,
    /// Forked children that could make no file of their own.
    #[serde(default)]
    pub children_unrecorded: u64,
    /// Allocation call paths that no longer fitted.
    pub stacks_dropped: u64,
    /// Blocks that the live-heap index could not take.
    pub blocks_unindexed: u64,
    /// Samples that were drained and could not be written: the disk was full.
    pub unwritten_samples: u64,
    /// Threads that did not end by themselves, but were killed with their process or left running: the counts of
    /// allocations lack up to [`COUNTS_EVERY`](crate::wire::COUNTS_EVERY) of each.
    #[serde(default)]
    pub threads_uncounted: u64,
}
