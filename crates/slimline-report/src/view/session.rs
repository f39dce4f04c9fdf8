//! The head: what was run, how well it was seen, what was lost.

use serde::{Deserialize, Serialize};
use slimline_trace::session::{SampledEvent, WeightUnit};

use super::Served;

/// What was run and how well it was seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Session {
    /// Command and its arguments.
    pub command: Vec<String>,
    /// Name of the collector (`clock`).
    pub collector: String,
    /// What interrupted the threads (`perf cpu-clock, sigtrap`).
    pub trigger: String,
    /// What weights count, and so what all shares are of: `time_ns`, `latency_cycles`, `period` (events), `samples`.
    pub weight: WeightUnit,
    /// The hardware events that were sampled; none of a clock.
    pub events: Vec<SampledEvent>,
    /// What hardware tells of all samples; none where nothing.
    pub served: Option<Served>,
    /// Samples a second and thread that were asked for; 0 without a clock.
    pub frequency_hz: f64,
    /// Why that many, where slimline chose (`-F auto`).
    pub frequency_reason: Option<String>,
    /// Instructions emulated in a burst, at most.
    pub burst_instructions: u32,
    /// Wall time of the run.
    pub duration_ns: u64,
    /// How the target ended: `exit status 0`, `killed by SIGSEGV`, `still running`…
    pub ended: String,
    /// Whether the session was closed properly.
    pub complete: bool,
    /// Processes recorded.
    pub processes: u64,
    /// Threads, also those without samples.
    pub threads: u64,
    /// Samples.
    pub samples: u64,
    /// Accesses seen in bursts.
    pub accesses: u64,
    /// Weight of all samples.
    pub weight_total: u64,
    /// CPU time in user mode of all processes: of those that told none, the time of their samples.
    pub user_ns: u64,
    /// CPU time in the kernel of the processes that told it. No samples are taken there.
    pub system_ns: u64,
    /// User time that no sample stands for: triggers that were held back, ticks that found another thread, threads and
    /// processes that were not sampled. 0 where samples do not weigh time.
    #[serde(default)]
    pub unsampled_ns: u64,
    /// CPU time that slimline's samples took of the program's threads, without the interrupts themselves.
    pub sampling_ns: u64,
    /// Allocations, and the bytes that they asked for.
    pub allocations: u64,
    /// See `allocations`.
    pub allocated_bytes: u64,
    /// Those whose blocks are followed.
    pub allocations_followed: u64,
    /// Of the accesses to other blocks the part whose data the block's size and its type identify. The data of the rest is
    /// estimated.
    #[serde(default)]
    pub owner_known_share: f64,
    /// At the end, one in 2^this of the small blocks was followed.
    pub follow_shift: u32,
    /// Small blocks: those of fewer bytes than this, at the end.
    pub followed_bytes: u64,
    /// Share of the accesses in bursts that lie in loops whose pace is known: their counts are free of the clock's bias
    /// for slow code.
    pub paced: f64,
    /// Share of weight by how the address was found; sums to 1.
    pub quality: Quality,
    /// Mean instructions in a burst, and why bursts ended, as shares that sum to 1.
    pub bursts: Bursts,
    /// What was lost.
    pub lost: Lost,
    /// What has no name in this report, and why; costliest first.
    pub unnamed: Vec<Unnamed>,
    /// Instructions between the stalled and the sampled one, and the share of calibration samples that agree.
    pub skid: u32,
    /// See `skid`; none where calibration gave no answer and 1 was assumed.
    pub skid_agreement: Option<f64>,
    /// Why there are no samples; none where there are.
    pub no_samples_because: Option<String>,
    /// Sentences a reader must know before trusting the numbers.
    pub notes: Vec<String>,
}

/// Share of weight by how the address of a sample was found. Sums to 1.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Quality {
    /// Registers still held the operands.
    pub exact: f64,
    /// Found by undoing instructions.
    pub inverted: f64,
    /// Address of the next execution of the same instruction.
    pub next_instance: f64,
    /// Instruction known, address not.
    pub lost: f64,
    /// No memory instruction near.
    pub no_memory: f64,
    /// Code could not be read.
    pub no_code: f64,
    /// Several instructions could be to blame.
    #[serde(default)]
    pub ambiguous: f64,
}

/// How long the bursts were.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Bursts {
    /// Bursts that were started: not every sample has one, where they would cost too much.
    pub count: u64,
    /// Mean instructions.
    pub mean_instructions: f64,
    /// Share of bursts by why they ended: `limit`, `unknown`, `unsupported`, `syscall`, `fault`, `full`, `agent`.
    pub ends: Vec<Named>,
}

/// A name and a share.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Named {
    /// Name.
    pub name: String,
    /// Share, 0 to 1.
    pub share: f64,
}

/// What was lost, as counts.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Lost {
    /// Samples that found the ring full.
    pub dropped: u64,
    /// Their weight.
    pub dropped_weight: u64,
    /// Triggers that came while the thread was inside the agent, and times that the kernel stopped an event for a while
    /// because it came too often.
    pub throttled: u64,
    /// Samples whose address is unknown (`lost` and `no_code` above).
    pub unresolved: u64,
    /// Other messages that found the ring full (large blocks, mappings).
    pub messages: u64,
    /// Messages of an agent, records of the kernel, and records and rows of an imported file that were damaged.
    #[serde(default)]
    pub damaged: u64,
    /// Threads that had no ring or no timer.
    pub threads: u64,
    /// Forked processes that could not make the file that an agent shares with the collector.
    #[serde(default)]
    pub children: u64,
    /// Allocation call paths that did not fit.
    pub stacks: u64,
    /// Heap blocks that the live-heap index could not take.
    pub blocks: u64,
    /// Functions of allocators, by name, whose calls are not seen in some process: their code could not be changed.
    #[serde(default)]
    pub allocator_functions: u64,
    /// Samples that could not be written: the disk was full or too slow.
    pub unwritten: u64,
    /// Samples whose call path is deeper than was recorded.
    pub deep_stacks: u64,
    /// Samples whose call path ends where unwinding failed.
    pub broken_stacks: u64,
    /// Threads that did not end by themselves (killed, or gone by `exec`): of each, up to 4095 allocations are missing
    /// from `Session::allocations`.
    pub uncounted_threads: u64,
}

/// Code or data without a name, for one reason.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Unnamed {
    /// `no_address`, `no_mapping`, `no_call_path`, `no_variable`, `no_frame`, `unseen_mapping`, `not_followed`,
    /// `code_in_no_file`, `unreadable_module`, `no_function`, `no_line`, `split_debug_info`, `damaged_debug_info`.
    pub reason: String,
    /// Path of the module that it is about; empty where it is about none.
    pub module: String,
    /// Share of the session's weight.
    pub share: f64,
    /// Accesses concerned, samples and bursts together.
    pub accesses: u64,
}
