//! The view: what every form of a report shows, as data.
//!
//! This is also the JSON of `slimline report --format json` and `slimline advise --format json`. Names are part of the
//! stable interface; [`SCHEMA`] counts incompatible changes. It is read back whole or not at all: nothing but this
//! version's tests and benchmarks reads it into these types. Shares are of the session's weight and sum to 1 over `groups`, the unattributed one included; a field's share
//! is of its group.

mod coverage;

use serde::{Deserialize, Serialize};
use slimline_trace::served::MemoryLevel;
use slimline_trace::session::{SampledEvent, WeightUnit};

pub use self::coverage::{Coverage, Missing, MissingUse};

/// Version of the JSON. 1: the first.
pub const SCHEMA: u32 = 1;

/// A whole report.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was run and how well it was seen.
    pub session: Session,
    /// Data structures, costliest first; the unattributed rest is among them.
    pub groups: Vec<Group>,
    /// Loops that access memory, costliest first.
    pub loops: Vec<Loop>,
    /// The same weight by code and by thread.
    pub breakdowns: Breakdowns,
    /// How much of the weight is resolved, and why not the rest.
    pub coverage: Coverage,
    /// What to change.
    pub advice: Vec<Advice>,
}

/// A report for each process that has samples, costliest first: `slimline report --per-process --format json`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PerProcess {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The processes.
    pub processes: Vec<ProcessReport>,
}

/// The report of one process alone.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessReport {
    /// Kernel's number.
    pub pid: u32,
    /// Its subdirectory of the session; behind that of its rank, where a parallel run was recorded.
    pub directory: String,
    /// Path of the executable it ran.
    pub executable: String,
    /// Shares are of its own weight.
    pub report: Report,
}

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
    /// Threads with samples.
    pub threads: u64,
    /// Samples.
    pub samples: u64,
    /// Accesses seen in bursts.
    pub accesses: u64,
    /// Weight of all samples.
    pub weight_total: u64,
    /// CPU time in user mode and in the kernel, of all processes that ended.
    pub user_ns: u64,
    /// See `user_ns`. No samples are taken there.
    pub system_ns: u64,
    /// CPU time that slimline's samples took of the program's threads, without the interrupts themselves.
    pub sampling_ns: u64,
    /// Allocations, and the bytes that they asked for.
    pub allocations: u64,
    /// See `allocations`.
    pub allocated_bytes: u64,
    /// Those whose blocks are followed. Accesses to others are given to the groups whose followed blocks the same
    /// instruction accesses.
    pub allocations_followed: u64,
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
    /// Threads that had no ring.
    pub threads: u64,
    /// Forked processes that could not make the file that an agent shares with the collector.
    #[serde(default)]
    pub children: u64,
    /// Allocation call paths that did not fit.
    pub stacks: u64,
    /// Heap blocks that the live-heap index could not take.
    pub blocks: u64,
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

/// How the memory system served the samples of something, as far as hardware tells. Each share is of those of its samples
/// of which it tells; none where it tells of none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Served {
    /// Samples of which it tells anything.
    pub samples: u64,
    /// How long the accesses took; none where it was not measured.
    pub latency: Option<Latency>,
    /// Where the data came from, nearest first.
    pub levels: Vec<ServedBy>,
    /// Those whose translation no TLB had.
    pub tlb_miss_share: Option<f64>,
    /// Those that were locked.
    pub locked_share: Option<f64>,
    /// Those whose data came from beyond their NUMA node.
    pub remote_share: Option<f64>,
    /// Those whose line another core had written (HitM): a hint that threads share it.
    pub modified_share: Option<f64>,
}

/// Latency of sampled accesses.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Latency {
    /// Samples of which it was measured.
    pub samples: u64,
    /// Share of the session's latency; of a field, of its group's.
    pub share: f64,
    /// Mean.
    pub mean_cycles: f64,
    /// Half of the samples took less; none of fewer than 20 samples. To 3 %.
    pub median_cycles: Option<u64>,
    /// 95 % of the samples took less; none of fewer than 200 samples. To 3 %.
    pub p95_cycles: Option<u64>,
    /// Mean of the whole instruction, from dispatch to completion; none where it was not measured.
    pub instruction_mean_cycles: Option<f64>,
    /// Mean of the cycles that it held up others before they could retire; none where it was not measured.
    pub retire_mean_cycles: Option<f64>,
}

/// Samples that one memory level served.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct ServedBy {
    /// `l1`, `line_fill_buffer`, `l2`, `l3`, `l4`, `remote_cache`, `local_dram`, `remote_dram`, `pmem`, `cxl`, `io`,
    /// `uncached`.
    #[serde(with = "level_name")]
    pub level: MemoryLevel,
    /// Share of the samples of which the level is told.
    pub share: f64,
    /// Share of the latency.
    pub latency_share: f64,
}

/// A level as its name.
mod level_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use slimline_trace::served::MemoryLevel;

    pub(super) fn serialize<S: Serializer>(level: &MemoryLevel, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(level.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MemoryLevel, D::Error> {
        let name = String::deserialize(from)?;
        MemoryLevel::from_name(&name).ok_or_else(|| D::Error::custom(format_args!("no memory level: {name}")))
    }
}

/// A share with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<(f64, f64)> for Interval {
    fn from((low, high): (f64, f64)) -> Self {
        Self { low, high }
    }
}

/// A data structure.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Group {
    /// Handle, for `loops` and `advice`.
    pub id: u32,
    /// Name.
    pub name: String,
    /// `heap`, `static`, `stack`, `thread_local`, `mapping`, `unattributed`.
    pub kind: String,
    /// Share of the session's weight.
    pub share: f64,
    /// 95 % interval of `share`.
    pub share_interval: Interval,
    /// Samples that it rests on.
    pub samples: u64,
    /// Loads seen in bursts.
    pub loads: u64,
    /// Stores seen in bursts.
    pub stores: u64,
    /// Objects that samples and bursts touched; where `blocks_estimated`, most of them that were alive at one time
    /// if these are more.
    pub blocks: u64,
    /// Their size.
    pub bytes: u64,
    /// Whether there may be many more than `blocks` and `bytes` say: they outnumber `samples`, or not all were followed.
    pub blocks_at_least: bool,
    /// Whether `blocks` and `bytes` are estimates, from a part of the blocks.
    pub blocks_estimated: bool,
    /// Where it is allocated; none where it isn't.
    pub allocated_at: Option<Place>,
    /// Where it is declared; none where not known.
    pub declared_at: Option<Position>,
    /// Element type; none where debug information does not tell.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Element size; none where there is no evidence.
    pub element_bytes: Option<u64>,
    /// `debug_info` or `stride`.
    pub element_from: Option<String>,
    /// How sure, 0 to 1.
    pub element_confidence: Option<f64>,
    /// All fields that debug information names, else those accessed; by offset.
    pub fields: Vec<Field>,
    /// Pairs with any affinity, strongest first.
    pub affinity: Vec<Affinity>,
    /// Offsets of the fields that belong together, one list a new structure, hottest first.
    pub clusters: Vec<Vec<u64>>,
    /// The element type as declared, holes included, where debug information has it.
    pub layout: Option<Layout>,
    /// Threads that have a hundredth of its time, or of its accesses, or more; the busiest first.
    pub threads: Vec<GroupThread>,
    /// Whether several of them use it at the same time, and one stores; none where not. What that costs is not judged.
    pub sharing: Option<Sharing>,
    /// What hardware tells of its samples; none where nothing.
    pub served: Option<Served>,
}

/// How a thread uses a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct GroupThread {
    /// Kernel's number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Name.
    pub name: String,
    /// Share of the group's weight.
    pub share: f64,
    /// Loads seen in bursts.
    pub loads: u64,
    /// Stores seen in bursts.
    pub stores: u64,
}

/// What is known of a group that several threads use at the same time, one of them storing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Sharing {
    /// `shared`: lines were seen that one thread stored to and another one used. `apart`: of many lines that were met
    /// again, none. `unknown`: too few were met again.
    pub evidence: String,
    /// Cache lines looked at: all that were accessed, or a random part of them.
    pub lines: u64,
    /// Those that more than one window of accesses showed.
    pub lines_met_again: u64,
    /// Those that one thread stored to and another one used.
    pub lines_shared: u64,
}

/// Where something is allocated.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Place {
    /// Function.
    pub function: String,
    /// Source file; none without debug information.
    pub file: Option<String>,
    /// Line; 0 where not known.
    pub line: u32,
    /// Call path, innermost first, as `function file:line`.
    pub stack: Vec<String>,
}

/// A place in the source.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Position {
    /// Source file.
    pub file: String,
    /// Line.
    pub line: u32,
}

/// A field of a group's element.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Field {
    /// Byte offset in the element.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// Name; `+40` where there is none.
    pub name: String,
    /// Share of the group's weight.
    pub share: f64,
    /// 95 % interval of `share`: of sampling the time, not of how a cache line's time was divided among its fields.
    pub share_interval: Interval,
    /// Share of the group's accesses, as bursts and paces tell.
    pub access_share: f64,
    /// 95 % interval of `access_share`: of what samples and bursts showed by chance, not of paces.
    pub access_share_interval: Interval,
    /// Loads seen in bursts.
    pub loads: u64,
    /// Stores seen in bursts.
    pub stores: u64,
    /// Distance between successive accesses in a loop; none where irregular or not seen.
    pub stride_bytes: Option<i64>,
    /// Rows of the report's `loops` that touch it, costliest first.
    pub loops: Vec<usize>,
    /// What hardware tells of its samples; none where nothing.
    pub served: Option<Served>,
}

impl Field {
    /// Whether anything was seen to use it.
    pub fn is_used(&self) -> bool {
        let is_seen = self.share > 0.0 || self.access_share > 0.0 || self.loads + self.stores > 0;
        is_seen || !self.loops.is_empty() || self.served.is_some()
    }

    /// Whether it was only seen to be reached by wide accesses that begin in an earlier field, as vector code makes
    /// them: a store writes it, but whether a load's value of it is used is not visible.
    pub fn is_only_spanned(&self) -> bool {
        let is_begun_in = self.share > 0.0 || self.access_share > 0.0 || self.loads + self.stores > 0;
        self.is_used() && !is_begun_in && self.served.is_none()
    }
}

/// How much two fields are used together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Affinity {
    /// Offset of the one.
    pub a: u64,
    /// Offset of the other.
    pub b: u64,
    /// 0 to 1.
    pub value: f64,
}

/// A structure as declared.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Layout {
    /// Name as the language spells it.
    pub name: String,
    /// `c`, `c++`, `rust`, `fortran`, `other`.
    pub language: String,
    /// Size.
    pub bytes: u64,
    /// Members, in order of offset.
    pub members: Vec<LayoutMember>,
}

/// A member of a structure, or a hole in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LayoutMember {
    /// Byte offset.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// Name; empty for a hole, and for a structure or union without one.
    pub name: String,
    /// Type as the language spells it; empty for a hole.
    pub type_name: String,
    /// First bit and number of bits, for a bit-field.
    pub bits: Option<(u8, u8)>,
    /// How deep it is nested; 0 for a direct member.
    pub depth: u32,
    /// Whether deeper rows follow that make up this one (a nested structure, a union without a name).
    pub nested: bool,
    /// Whether it is a hole at the end of its structure, which no order of the members closes.
    pub padding: bool,
}

impl LayoutMember {
    /// Whether no member uses these bytes.
    pub fn is_hole(&self) -> bool {
        self.type_name.is_empty()
    }
}

/// A loop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Loop {
    /// Function that holds it.
    pub function: String,
    /// Source file; none without debug information.
    pub file: Option<String>,
    /// First line; 0 where not known.
    pub first_line: u32,
    /// Last line.
    pub last_line: u32,
    /// First column, where another loop of `loops` is on the same line.
    pub column: Option<u32>,
    /// File name of the module that holds its code.
    pub module: String,
    /// Lowest link-time address of its code in the module; of copies made by inlining, that of the costliest.
    pub start_address: u64,
    /// The address after the highest.
    pub end_address: u64,
    /// Share of the session's weight.
    pub share: f64,
    /// 95 % interval of `share`.
    pub share_interval: Interval,
    /// The part of `share` that no memory instruction could be blamed for: computing.
    pub no_memory_share: f64,
    /// Nesting, 1 for an outermost loop; of copies made by inlining, that of the costliest.
    pub depth: u32,
    /// Loops around it that are on the same lines, where another loop of `loops` is on them.
    pub inner: u32,
    /// Data it touches, costliest first.
    pub groups: Vec<LoopGroup>,
    /// What hardware tells of its samples; none where nothing.
    pub served: Option<Served>,
}

/// What a loop touches of one group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LoopGroup {
    /// The group.
    pub id: u32,
    /// Share of the session's weight that this loop spends on it.
    pub share: f64,
    /// Samples that `share` rests on; with none the loop was only seen in bursts to access it.
    pub samples: u64,
    /// Offsets of its fields, hottest first.
    pub fields: Vec<u64>,
}

/// The session's weight by something else than data; each sums to 1.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Breakdowns {
    /// By element type.
    pub types: Vec<Row>,
    /// By function.
    pub functions: Vec<Row>,
    /// By source line.
    pub lines: Vec<Row>,
    /// By thread.
    pub threads: Vec<Row>,
}

/// One row of a breakdown.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Row {
    /// Type, function, `file:line` or thread.
    pub name: String,
    /// More words: module, function.
    pub detail: String,
    /// Share of the session's weight.
    pub share: f64,
    /// 95 % interval of `share`.
    pub share_interval: Interval,
    /// Samples.
    pub samples: u64,
}

/// What to change.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Advice {
    /// `split`, `hot_cold_split`, `reorder`, `interchange`; no change: `leave_alone`, or `not_judged` where several
    /// threads use it at once.
    pub kind: String,
    /// The group; of several of one type the costliest.
    pub group: u32,
    /// The others of that type, which it is about as well.
    pub other_groups: Vec<u32>,
    /// One sentence: what to do to what.
    pub title: String,
    /// Offsets of the fields of each new structure, or in their new order.
    pub fields: Vec<Vec<u64>>,
    /// What it would gain; none where nothing is to be changed.
    pub predicted: Option<Predicted>,
    /// `high`, `medium`, `low`.
    pub confidence: String,
    /// The numbers behind it.
    pub why: String,
    /// The new definitions in the program's language; empty where there is nothing to define.
    pub code: String,
    /// Where the structure is declared.
    pub declared_at: Option<Position>,
    /// Lines that touch what moves, as `file:line`.
    pub touched_lines: Vec<String>,
}

impl Advice {
    /// Whether it is to change something.
    pub fn is_change(&self) -> bool {
        self.predicted.is_some()
    }
}

/// A predicted gain.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Predicted {
    /// Change of what `Session::weight` counts, of time where that is time: −0.21 is 21 % less.
    pub cycles: f64,
    /// Its interval.
    pub cycles_interval: Interval,
    /// Change of cache lines touched by the group's loops: −0.5 is half.
    pub lines: f64,
    /// How it was predicted, in a sentence.
    pub method: String,
}
