//! The records an agent writes into shared memory.
//!
//! One file per process, made by the agent in the private run directory that the collector names in
//! [`RUN_DIRECTORY_VARIABLE`], and read by the collector while the process runs and after it is gone:
//!
//! ```text
//!   0 ┌────────────────────────┐
//!     │ ProcessHeader          │  one page
//!     ├────────────────────────┤  SLOTS_OFFSET
//!     │ SlotHeader × SLOTS     │  one ring's state each; a thread owns one slot
//!     ├────────────────────────┤  STACKS_OFFSET
//!     │ stack words            │  append-only: allocation call paths, see `StackEntry`
//!     ├────────────────────────┤  PATHS_OFFSET
//!     │ PathTotals × PATHS     │  by number of the call path
//!     ├────────────────────────┤  RINGS_OFFSET
//!     │ ring × SLOTS           │  RING_BYTES each, sparse: only touched pages exist
//!     └────────────────────────┘  FILE_BYTES
//! ```
//!
//! Each ring has one writer (its thread, also from the signal handler) and one reader (the collector). `head` and
//! `tail` count bytes for ever; a position in the ring is the count modulo [`RING_BYTES`]. A message is a
//! [`MessageHeader`] and its body, 8-byte aligned, never wrapping: where it would, a [`MessageKind::Pad`] fills the
//! ring up to its end. The writer stores `head` with release order after the message is whole, so a process that is
//! killed leaves only whole messages behind. A message that does not fit is dropped and counted in its slot.
//!
//! Both ends run on one machine from one build, so integers are in native order. A reader must not trust a length:
//! the target can scribble over its own mapping.

mod messages;

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

pub use messages::{
    ALWAYS_FOLLOWED_BYTES, AccessRecord, BlockRecord, BurstEnd, LARGE_BLOCK_BYTES, MAX_RANGE_NAME, MOST_FOLLOWED_BYTES,
    MapsHead, MessageHeader, MessageKind, NO_BLOCK, NO_MODULE, PAGE_BITS, PASSED_OVER, Quality, RangeEvent, RangeKind,
    SampleHead, TAG_BYTES, ThreadEvent,
};

/// Environment variable that names the run directory (absolute path).
pub const RUN_DIRECTORY_VARIABLE: &str = "SLIMLINE_RUN";
/// File name of the agent itself.
pub const AGENT_FILE: &str = "libslimline_agent.so";
/// Name of the [`RunConfig`] file in the run directory.
pub const CONFIG_FILE: &str = "config";
/// A process file that is shorter than this, and not empty, has as many bytes as the number of the error (`errno`) that its
/// process met when it made it. One that stays empty is of a process that may not make files of [`FILE_BYTES`].
pub const LONGEST_REFUSAL: u64 = 4096;
/// How the name of a process file ends; the whole is `<pid>-<n>.ring` with the first `n` that is free.
pub const PROCESS_FILE_EXTENSION: &str = "ring";

/// First bytes of a process file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"slimring");
/// Layout version of everything in this module. Version 1: the first.
pub const VERSION: u32 = 5;

/// Rings in a process file: how many threads can be sampled at the same time. A thread takes the first slot that is
/// free, so that the collector need not look far. A slot is reused after its thread ended and its ring was drained; threads beyond are counted in [`ProcessHeader::threads_without_ring`].
pub const SLOTS: usize = 2048;
/// Size of one ring: 0.1 s at 1 kHz and 2.5 KiB a sample, twice the collector's longest pause between drains.
pub const RING_BYTES: usize = 256 << 10;
/// Words of the stack area: room for about 500,000 call paths of 16 frames. Sparse.
pub const STACK_WORDS: usize = 8 << 20;
/// Most frames kept of any call stack; deeper ones are cut at the outer end and flagged.
pub const MAX_FRAMES: usize = 64;
/// Most instructions in one burst.
pub const MAX_BURST: usize = 512;
/// Most accesses kept of one burst; the burst ends there. An instruction makes one access, seldom two.
pub const MAX_BURST_ACCESSES: usize = 512;
/// Most distinct heap blocks named by one sample; the burst ends where more are touched.
pub const MAX_SAMPLE_BLOCKS: usize = 128;

/// Offset of the slot headers.
pub const SLOTS_OFFSET: usize = 4096;
/// Offset of the stack words.
pub const STACKS_OFFSET: usize = SLOTS_OFFSET + SLOTS * size_of::<SlotHeader>();
/// Offset of the totals of call path 0, which is none.
pub const PATHS_OFFSET: usize = STACKS_OFFSET + STACK_WORDS * 8;
/// Call paths that have totals; later ones have none.
pub const PATHS: usize = 1 << 19;
/// Offset of the first ring.
pub const RINGS_OFFSET: usize = PATHS_OFFSET + PATHS * size_of::<PathTotals>();
/// Size of a process file. Sparse.
pub const FILE_BYTES: usize = RINGS_OFFSET + SLOTS * RING_BYTES;
/// The same in MiB, rounded up: for users.
pub const FILE_MIB: usize = FILE_BYTES.div_ceil(1 << 20);

/// Address space that the agent takes at most in a process of one thread with a small heap.
pub const AGENT_BYTES: u64 = 12 << 20;
/// Where address space is limited (`RLIMIT_AS`, `RLIMIT_DATA`), the agent takes at most one part in so many of it.
pub const AGENT_SHARE: u64 = 16;
/// Limits on address space below this leave no room for the agent.
pub const LEAST_ADDRESS_SPACE: u64 = AGENT_BYTES * AGENT_SHARE;
/// Limits on open files below this leave no room for the agent's three descriptors.
pub const LEAST_DESCRIPTORS: u64 = 32;

/// A thread adds what it counted to [`ProcessHeader::allocations`] and the like after this many allocations, and when it
/// ends. The counts of a thread that has not ended lag behind by up to as many.
pub const COUNTS_EVERY: u32 = 4096;

/// What the collector asks of every agent of a run: the whole content of [`CONFIG_FILE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RunConfig {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Which trigger to use; see [`TriggerKind`].
    pub trigger: u32,
    /// Time between two triggers of a thread.
    pub period_ns: u64,
    /// Time between two triggers of a second clock, perf's, which fall between those of the first; 0 for none. Their
    /// samples weigh nothing and have no burst: they say where the thread is.
    pub between_ns: u64,
    /// Instructions to emulate in a burst, at most [`MAX_BURST`]; 0 for none.
    pub burst_instructions: u32,
    /// Instructions between the stalled one and the sampled one, as calibrated: 0 or 1.
    pub skid: u32,
    /// 1 to track allocations.
    pub track_allocations: u32,
    /// 1 to record exec'd children too (their agents look at the same directory), 0 to stay idle in them.
    pub follow_children: u32,
    /// The process that the collector started; only it is recorded where children are not followed. 0: not known yet.
    pub root_pid: u32,
    /// Part of the time, in millionths: samples may take so much of a thread's CPU time before bursts are left out, and
    /// following heap blocks so much before fewer are followed. From a million on neither has a limit.
    pub budget_ppm: u32,
    /// Zero.
    pub reserved: [u32; 2],
}

/// Name of the file of [`AllocatorFunction`]s in the run directory, if the collector has any.
pub const ALLOCATORS_FILE: &str = "allocators";
/// Most of them.
pub const MAX_ALLOCATOR_FUNCTIONS: usize = 512;

/// A function of an allocator other than the C library's, which the agent follows wherever an object has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AllocatorFunction {
    /// Name as linked, NUL-padded.
    pub name: [u8; 496],
    /// How the path of its object ends, NUL-padded; empty: any object.
    pub module: [u8; 240],
    /// An [`AllocatorRole`].
    pub role: u32,
    /// 1 where its blocks lie in those of another allocator, and are what is accessed; 0 where it stands in for the C library's.
    pub is_inner: u32,
    /// 1 where it is followed only if its object defines a `malloc` that comes before the agent's.
    pub needs_own_malloc: u32,
    /// The argument that is the block's size in bytes, from 1; 0: none is, for what has no size.
    pub size: u8,
    /// The argument that the size is to be multiplied by, from 1; 0: none.
    pub count: u8,
    /// The argument that is the block to free or to resize, from 1; 0: none.
    pub block: u8,
    /// The argument that says where the new block's address is stored, from 1; 0: it is returned.
    pub place: u8,
    /// The argument that is the pool, from 1; 0: none.
    pub pool: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// What the size is multiplied by beside that; 1 as a rule.
    pub unit_bytes: u32,
    /// Zero.
    pub padding: [u32; 2],
}

impl AllocatorFunction {
    /// As it lies in memory: what the file of them holds.
    pub fn bytes(&self) -> [u8; size_of::<Self>()] {
        let Self { name, module, role, is_inner, needs_own_malloc, reserved, unit_bytes, padding, .. } = self;
        let arguments = [self.size, self.count, self.block, self.place, self.pool];
        let words = [*role, *is_inner, *needs_own_malloc].map(u32::to_ne_bytes);
        let last = [*unit_bytes, padding[0], padding[1]].map(u32::to_ne_bytes);
        let mut bytes = [0; size_of::<Self>()];
        let mut at = 0;
        for part in [&name[..], module, words.as_flattened(), &arguments, reserved, last.as_flattened()] {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes
    }
}

/// Objects whose functions are never those that are looked for, by the beginning of their file's name.
pub const OBJECTS_WITHOUT_ALLOCATORS: [&str; 5] =
    ["libc.so", "ld-linux", "libslimline_agent", "linux-vdso", "libpthread"];

/// What a function of an allocator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AllocatorRole {
    /// Makes a block.
    Allocate = 0,
    /// Makes a block of another.
    Resize = 1,
    /// Frees one.
    Free = 2,
    /// Frees all blocks of a pool.
    Reset = 3,
}

/// A function of an allocator was found in an object of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AllocatorEvent {
    /// Number of the [`AllocatorFunction`].
    pub function: u32,
    /// A [`HookState`].
    pub state: u32,
    /// Where it is.
    pub address: u64,
}

/// What became of a function that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum HookState {
    /// It is followed.
    Followed = 0,
    /// It is too short for a jump.
    Short = 1,
    /// Its first instructions call.
    Calls = 2,
    /// An instruction of its own jumps between its first ones.
    BranchInside = 3,
    /// Its first instructions name an address that their new place can't reach.
    OutOfReach = 4,
    /// Its first instructions are not known.
    UnknownCode = 5,
    /// The kernel refused memory near it, or to have its code changed.
    Refused = 6,
    /// It was found when threads may have been running it already.
    Late = 7,
}

/// Why functions of allocators were not looked for in all objects of a process: bits of
/// [`ProcessHeader::not_looked_through`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum NotLookedThrough {
    /// Nowhere: there is no memory for the list of objects, or the processor can't save its vector registers.
    Any = 1,
    /// The dynamic linker has no place where it tells of objects that are loaded later.
    LoadedLater = 2,
    /// More objects were loaded at a time than are kept.
    BeyondMost = 4,
    /// Something was loaded by a `vfork` child or by a signal handler that interrupted the agent, and nothing since.
    Unseen = 8,
}

/// What interrupts a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TriggerKind {
    /// Nothing: allocations only.
    Off = 0,
    /// perf cpu-clock with `sigtrap`: each thread's own user time, at any rate.
    PerfSigtrap = 1,
    /// A POSIX timer on the thread's user time: the kernel serves it at its tick, usually 250 Hz.
    ThreadTimer = 2,
}

/// State of a process file, in [`ProcessHeader::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProcessState {
    /// The agent is setting up; nothing else in the file is valid yet.
    Starting = 0,
    /// Recording.
    Running = 1,
    /// The process ran its exit handlers; the rings hold everything it will ever write.
    Exited = 2,
    /// The agent gave up; [`ProcessHeader::failure`] says why. The process runs unrecorded.
    Failed = 3,
}

/// The first page of a process file.
#[derive(Debug)]
#[repr(C)]
pub struct ProcessHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// A [`ProcessState`].
    pub state: AtomicU32,
    /// Process id, in its own PID namespace.
    pub pid: AtomicU32,
    /// Parent's process id at the start, likewise.
    pub parent_pid: AtomicU32,
    /// Which namespace that is: the inode of `/proc/self/ns/pid`. 0 where it could not be read.
    pub pid_namespace: AtomicU64,
    /// `CLOCK_MONOTONIC` at the start.
    pub started_ns: AtomicU64,
    /// `CLOCK_MONOTONIC` when the exit handlers ran.
    pub exited_ns: AtomicU64,
    /// The [`TriggerKind`] in use.
    pub trigger: AtomicU32,
    /// `errno` of the trigger that was asked for and refused; 0 where it was granted.
    pub trigger_errno: AtomicU32,
    /// Words used in the stack area.
    pub stack_words: AtomicU64,
    /// Allocation call paths in the stack area.
    pub stacks: AtomicU32,
    /// Allocations whose call path no longer fitted; their blocks have context 0.
    pub stacks_dropped: AtomicU32,
    /// Threads that found no free ring.
    pub threads_without_ring: AtomicU32,
    /// Triggers that came while the thread was inside the agent, before it was ready, or while it had no thread-local storage of
    /// the agent's: counted, not sampled.
    pub triggers_in_agent: AtomicU32,
    /// Blocks that the live-heap index could not keep: no memory, not 8-aligned, or another began in the same 16 bytes.
    pub blocks_unindexed: AtomicU64,
    /// Allocations seen. Those that failed are among them where their blocks would have been passed over.
    pub allocations: AtomicU64,
    /// Bytes asked for by them.
    pub allocated_bytes: AtomicU64,
    /// Those of them whose blocks are followed: in the live-heap index, with their call path.
    pub allocations_followed: AtomicU64,
    /// CPU time of the whole process in user mode when it exited, from `getrusage`.
    pub user_ns: AtomicU64,
    /// CPU time in the kernel likewise: this time has no samples.
    pub system_ns: AtomicU64,
    /// CPU time that taking samples took, in all threads: from inside the handler, so without the interrupt itself.
    pub sampling_ns: AtomicU64,
    /// Set to 1 by the collector when it stops reading for good (the recorded command ended, or the disk is full): the
    /// agent stops its triggers and writes nothing more.
    pub stop: AtomicU32,
    /// `errno` of the second clock that was asked for and refused; 0 where it was granted, or not asked for.
    pub between_errno: AtomicU32,
    /// One new block in 2^this is followed, and all of [`Self::followed_bytes`] or more. 0: all were, always.
    pub follow_shift: AtomicU32,
    /// Forked children that could make no file of their own, as after a change of user: they run unrecorded.
    pub children_unrecorded: AtomicU32,
    /// See [`Self::follow_shift`]: [`ALWAYS_FOLLOWED_BYTES`] at first. Grows up to [`MOST_FOLLOWED_BYTES`].
    pub followed_bytes: AtomicU64,
    /// A bit for each [`NotLookedThrough`].
    pub not_looked_through: AtomicU64,
    /// Of a forked child: `CLOCK_MONOTONIC` at the fork; 0 otherwise. The child begins with its parent's ranges, and with its
    /// allocation call paths under the same numbers.
    pub forked_ns: AtomicU64,
    /// [`Self::pid`] of that parent, which another process may have adopted the child from by now.
    pub forked_from: AtomicU32,
    /// Zero.
    pub reserved: AtomicU32,
    /// [`Self::pid_namespace`] of that parent.
    pub forked_from_namespace: AtomicU64,
    /// Threads that have no samples because the limit on pending signals (`RLIMIT_SIGPENDING`) left no timer for them and
    /// the kernel granted no perf event instead.
    pub threads_without_timer: AtomicU64,
    /// Descriptors of the perf events whose signals are triggers; 0 for none. The collector disables them while a debugger traces
    /// the process, which would see the signals.
    pub events: [AtomicU32; 2],
    /// Why the agent gave up, NUL-terminated UTF-8.
    pub failure: [u8; 256],
}

/// All blocks below [`LARGE_BLOCK_BYTES`] of one allocation call path. Counted is one in 2^[`COUNTED_SHIFT`], or in
/// more where fewer are followed; each stands for as many.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct PathTotals {
    /// Blocks counted.
    pub counted: AtomicU64,
    /// Blocks alive, estimated. In a forked child those of the parent are missing, so it may fall below zero.
    pub live_blocks: AtomicI64,
    /// Their bytes.
    pub live_bytes: AtomicI64,
    /// Most of `live_blocks`.
    pub peak_blocks: AtomicI64,
    /// Most of `live_bytes`.
    pub peak_bytes: AtomicI64,
}

/// See [`PathTotals`].
pub const COUNTED_SHIFT: u32 = 4;

/// State of a ring, in [`SlotHeader::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SlotState {
    /// May be taken by a thread.
    Free = 0,
    /// Belongs to the running thread [`SlotHeader::tid`].
    Owned = 1,
    /// Its thread ended; the collector frees it once it is drained.
    Ended = 2,
}

/// One ring's state. Two cache lines: the writer's and the reader's.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct SlotHeader {
    /// A [`SlotState`].
    pub state: AtomicU32,
    /// Kernel's number of the thread that owns the ring.
    pub tid: AtomicU32,
    /// Bytes ever written.
    pub head: AtomicU64,
    /// Messages that did not fit.
    pub dropped: AtomicU64,
    /// Samples among them.
    pub dropped_samples: AtomicU64,
    /// Their weight.
    pub dropped_weight_ns: AtomicU64,
    /// Fills the writer's line.
    pub writer_padding: [u64; 3],
    /// Bytes ever read; stored by the collector only.
    pub tail: AtomicU64,
    /// Fills the reader's line.
    pub reader_padding: [u64; 7],
}

/// In the stack area: one word `frames | cut << 32`, then `frames` return addresses, innermost first. The first entry
/// has number 1. `cut` as in [`SampleHead::stack_cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct StackEntry(pub u64);

impl StackEntry {
    /// Packs the first word.
    pub fn new(frames: usize, cut: u8) -> Self {
        Self(frames as u64 | u64::from(cut) << 32)
    }

    /// Return addresses that follow.
    pub fn frames(self) -> usize {
        self.0 as u32 as usize
    }

    /// See [`SampleHead::stack_cut`].
    pub fn cut(self) -> u8 {
        (self.0 >> 32) as u8
    }
}

const _: () = {
    assert!(size_of::<RunConfig>() == 64);
    assert!(size_of::<AllocatorFunction>() == 768);
    assert!(size_of::<ProcessHeader>() <= SLOTS_OFFSET);
    assert!(size_of::<SlotHeader>() == 128);
    assert!(size_of::<PathTotals>() == 64);
    assert!(RINGS_OFFSET.is_multiple_of(4096));
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_entry_keeps_both_parts() {
        let entry = StackEntry::new(64, 2);
        assert_eq!((entry.frames(), entry.cut()), (64, 2));
    }
}
