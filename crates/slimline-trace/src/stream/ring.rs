//! Where instrumented code writes: memory that a traced process shares with slimline.
//!
//! One file a process, made by the runtime that is linked into the program, in the private directory that slimline names
//! in [`DIRECTORY_VARIABLE`]:
//!
//! ```text
//!            0 ┌──────────────────────────┐
//!              │ RingHeader               │  one page
//!              ├──────────────────────────┤  SLOTS_OFFSET
//!              │ Slot × SLOTS             │  state of a chunk each
//!              ├──────────────────────────┤  OBJECTS_OFFSET
//!              │ objects                  │  those that have site tables: ObjectHead, path, NUL of each
//!              ├──────────────────────────┤  GATE_OFFSET
//!              │ the gate                 │  one page, which the program also has in the place of its own gate
//!              ├──────────────────────────┤  BLOCKS_OFFSET
//!              │ ThreadBlock × BLOCKS     │  blocks of thread-local variables that were made for one thread
//!              ├──────────────────────────┤  SHARED_OFFSET
//!              │ SharedMapping × SHARED   │  mappings that other processes may share
//!              ├──────────────────────────┤  SLOT_BYTES
//!              │ (nothing)  │ chunk 0     │  SLOT_BYTES: a lower half, and an upper half, the chunk
//!              ├────────────┼─────────────┤
//!              │ (nothing)  │ chunk 1     │
//!              └────────────┴─────────────┘  FILE_BYTES, sparse: only touched pages exist
//! ```
//!
//! The file is mapped at a multiple of [`SLOT_BYTES`]. So one bit of a pointer, [`ROOM_BIT`], says whether it points into
//! a chunk: instrumented code tests it before each record. A record that begins in a chunk may end beyond it, in the
//! next slot's lower half, by less than [`OVERFLOW_BYTES`].
//!
//! A slot is taken by a thread ([`SlotState::Owned`]), filled, published ([`SlotState::Full`]), read, and made free again
//! by the reader, which leaves zeros in it. As each record begins with a word that is not zero, what a killed process left
//! in a slot that it owned ends where a record would have to begin and there is a zero. Likewise a reader may take what is
//! in a slot while its thread goes on writing: a record is whole if another one begins behind it, or if none of its words is 0
//! and it is not of those that may go on.
//!
//! Time stamps are the processor's time stamp counter, of which Linux sees to that all cores have the same.
//!
//! Both ends run on one machine from one build, so integers are in native order. A reader must not trust what it reads:
//! the program can scribble over its own mapping.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Environment variable that names the directory of rings (absolute path).
pub const DIRECTORY_VARIABLE: &str = "SLIMLINE_TRACE";
/// Environment variable; programs begin with [`CLOSED_BY_PROGRAM`] where it is set and not empty.
pub const PAUSED_VARIABLE: &str = "SLIMLINE_TRACE_PAUSED";
/// Environment variable; translated programs tell values where it is set and not empty.
pub const VALUES_VARIABLE: &str = "SLIMLINE_TRACE_VALUES";
/// How the name of a ring's file ends; the whole is `<pid>-<n>.trace` with the first `n` that is free.
pub const FILE_EXTENSION: &str = "trace";

/// First bytes of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"slimtrac");
/// Layout version of everything in this module. Version 1: the first. 2: the gate, and how long it was closed. 3: chunks have
/// time stamps; whether there are several streams. 4: which PID namespace its numbers are of. 5: where objects are. 6: where threads'
/// own variables are. 7: whether threads have words. 8: blocks of threads' own variables that are made while they run. 9: forks,
/// shared mappings, and children that are not traced.
pub const VERSION: u32 = 9;

/// Room of a chunk. The best of 32 KiB to 1 MiB: small enough for a second-level cache, large enough that what an
/// exchange costs is nothing.
pub const CHUNK_BYTES: usize = 1 << 18;
/// Set in pointers into a chunk; clear beyond its end, and in null.
pub const ROOM_BIT: usize = CHUNK_BYTES;
/// From one chunk to the next, and what the mapping's address is a multiple of.
pub const SLOT_BYTES: usize = 2 * CHUNK_BYTES;
/// The last record of a chunk ends less than this beyond it.
pub const OVERFLOW_BYTES: usize = 4096;
/// Chunks in a file: more than the threads that are expected to run at a time. Those beyond go untraced, and are counted.
pub const SLOTS: usize = 512;
/// Most chunks that wait to be read. A thread that would publish another one waits: 8 MiB are what the last-level caches
/// of most machines hold.
pub const MOST_FULL: u32 = 32;

/// Offset of the slots' states.
pub const SLOTS_OFFSET: usize = 4096;
/// Offset of the objects.
pub const OBJECTS_OFFSET: usize = SLOTS_OFFSET + SLOTS * size_of::<Slot>();
/// Room for them. An object that does not fit is not told.
pub const OBJECTS_BYTES: usize = 64 << 10;
/// Offset of the gate: a byte of bits, each a reason not to record anything. In its page there is only
/// [`SEVERAL_OFFSET`] besides.
pub const GATE_OFFSET: usize = OBJECTS_OFFSET + OBJECTS_BYTES;
/// From the gate on: a byte that is 1 once the process has more than one stream, set before the second one has a record.
/// Only then records have time stamps.
pub const SEVERAL_OFFSET: usize = 8;
/// Size and alignment of the gate's page.
pub const GATE_BYTES: usize = 4096;
/// Of the gate: nobody reads.
pub const CLOSED_WITHOUT_READER: u8 = 1;
/// Of the gate: the program, or who began it, wants it so.
pub const CLOSED_BY_PROGRAM: u8 = 2;
/// Of the gate: the reader wants it so, between two windows.
pub const CLOSED_BY_READER: u8 = 4;
/// To `__slimline_note`: nobody but it records what it is given.
pub const NOTED_ALWAYS: u32 = 0;
/// To `__slimline_note`: the calling code has just recorded the same, perhaps where nobody reads.
pub const NOTED_AFTER_RECORD: u32 = 1;
/// To `__slimline_note`: the calling code records the same next, if there is room.
pub const NOTED_BEFORE_RECORD: u32 = 2;
/// Offset of the blocks that were made for one thread each.
pub const BLOCKS_OFFSET: usize = GATE_OFFSET + GATE_BYTES;
/// How many of these there is room for: 64 libraries with thread-local variables in 32 threads. Those beyond are not told.
pub const BLOCKS: usize = 2048;
/// Offset of the shared mappings.
pub const SHARED_OFFSET: usize = BLOCKS_OFFSET + BLOCKS * size_of::<ThreadBlock>();
/// Room for shared mappings, and for each time that one of them ends. Those beyond are counted only.
pub const SHARED: usize = 512;
/// Where the memory ends that a ring has before any chunk.
pub const HEAD_BYTES: usize = SHARED_OFFSET + SHARED * size_of::<SharedMapping>();
/// Size of a ring's file. Sparse.
pub const FILE_BYTES: usize = SLOT_BYTES * (1 + SLOTS) + OVERFLOW_BYTES;
/// The same in MiB, rounded up: for users.
pub const FILE_MIB: usize = FILE_BYTES.div_ceil(1 << 20);

const _: () = assert!(GATE_OFFSET.is_multiple_of(GATE_BYTES) && HEAD_BYTES <= SLOT_BYTES);

/// Offset of a slot's chunk.
pub const fn chunk_offset(slot: usize) -> usize {
    SLOT_BYTES * (1 + slot) + CHUNK_BYTES
}

/// The first page of the file.
#[derive(Debug)]
#[repr(C)]
pub struct RingHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// A [`RingState`]; written last.
    pub state: AtomicU32,
    /// The process, in its own PID namespace.
    pub pid: AtomicU32,
    /// Its parent at that time, likewise.
    pub parent_pid: AtomicU32,
    /// Which namespace that is: the inode of `/proc/self/ns/pid`. 0 where it could not be read.
    pub pid_namespace: AtomicU64,
    /// Differs between the programs that one process ran, by `exec`.
    pub image: AtomicU64,
    /// When the ring was made (`CLOCK_MONOTONIC`).
    pub started_ns: AtomicU64,
    /// 1: nobody reads any more. Set by the reader; the program goes on untraced.
    pub stop: AtomicU32,
    /// Counts chunks that were made free; threads that wait for one wait for it to change (a futex).
    pub freed: AtomicU32,
    /// Threads that wait for `freed`.
    pub waiting: AtomicU32,
    /// Chunks that wait to be read.
    pub full: AtomicU32,
    /// Streams that ever took a chunk.
    pub streams: AtomicU32,
    /// Bytes of the objects.
    pub objects_bytes: AtomicU32,
    /// Times that a thread waited for the reader …
    pub waits: AtomicU64,
    /// … and how long, together.
    pub waited_ns: AtomicU64,
    /// Chunks that were filled and thrown away: nobody read, or no slot was free.
    pub untraced_chunks: AtomicU64,
    /// Forked children that could not make a ring.
    pub untraced_children: AtomicU32,
    /// Objects with site tables that did not fit, or have no path.
    pub untold_objects: AtomicU32,
    /// Blocks that were made for one thread each; of those beyond [`BLOCKS`] nothing is told.
    pub blocks: AtomicU32,
    /// Shared mappings; those beyond [`SHARED`] have no entry.
    pub shared: AtomicU32,
    /// How long [`CLOSED_BY_PROGRAM`] was set, together, but for the last time …
    pub paused_ns: AtomicU64,
    /// … which began then (`CLOCK_MONOTONIC`); 0 where it is not set.
    pub paused_since_ns: AtomicU64,
    /// 1: the process is not instrumented itself and has no room for two words a thread, so nothing of it is traced.
    pub has_no_words: AtomicU64,
    /// Of a forked child: the time stamp of its parent's [`FORKS`](super::record::FORKS) record, or 0.
    pub forked_at: AtomicU64,
    /// The process id in that record.
    pub forked_from: AtomicU64,
    /// Children with memory of their own that were only noticed once they had written to a chunk of this process.
    pub unseen_forks: AtomicU32,
    /// Child processes that have this process's memory and the thread-local storage of the thread that made them.
    pub memory_children: AtomicU32,
    /// Bytes that those and the threads that made them wrote meanwhile, which nobody reads.
    pub lent_bytes: AtomicU64,
}

const _: () = assert!(size_of::<RingHeader>() == 168);

/// A mapping that other processes may share. All zeros where it is not filled in yet.
#[derive(Debug)]
#[repr(C)]
pub struct SharedMapping {
    /// Its first address.
    pub start: AtomicU64,
    /// Its length.
    pub bytes: AtomicU64,
    /// What is mapped, by a number that is the same in all processes; 0: nothing that is shared any more.
    pub object: AtomicU64,
    /// Offset of the first byte in the object.
    pub offset: AtomicU64,
    /// Time stamp; written last. No access to it is in a stretch that began before.
    pub since: AtomicU64,
}

/// What stands before an object's path, each in eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectHead {
    /// Where one of its mappings begins …
    pub start: u64,
    /// … and which byte of the file that is.
    pub offset: u64,
    /// How far below each thread's pointer its block of the object's thread-local variables begins; 0 where it has none, or where that
    /// differs from thread to thread.
    pub block_below: u64,
}

impl ObjectHead {
    /// Bytes of it.
    pub const BYTES: usize = 24;

    /// As it is written.
    pub const fn words(&self) -> [u64; 3] {
        [self.start, self.offset, self.block_below]
    }

    /// The head that these bytes begin with; none of fewer than [`Self::BYTES`].
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut words = bytes.get(..Self::BYTES)?.chunks_exact(8).map(|word| {
            // Eight bytes each.
            word.try_into().map_or(0, u64::from_ne_bytes)
        });
        Some(Self { start: words.next()?, offset: words.next()?, block_below: words.next()? })
    }
}

/// A block of an object's thread-local variables that the dynamic linker has made for one thread, when that first asked for it: as it does
/// for objects that are loaded while the program runs.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadBlock {
    /// Whose variables: what was added to the object's link-time addresses when it was loaded.
    pub bias: AtomicU64,
    /// Where it begins.
    pub start: AtomicU64,
    /// Time stamp of when the thread took the first of the chunks that it writes, as records that follow in those may be of the block; of
    /// this moment where it has none. Written last; 0: not filled in yet.
    pub since: AtomicU64,
}

/// How far the runtime has come with its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RingState {
    /// Not filled in yet.
    Starting = 0,
    /// It can be read.
    Running = 1,
}

/// State of a chunk.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// A [`SlotState`].
    pub state: AtomicU32,
    /// Bytes of its records, once it is full; [`UNKNOWN_BYTES`]: up to the first word that begins none.
    pub bytes: AtomicU32,
    /// Number of the stream, from 0, in the order in which they took their first chunk: a thread has one, and others
    /// for its signal handlers. Never used again.
    pub stream: AtomicU32,
    /// The kernel's number of it.
    pub tid: AtomicU32,
    /// Number of the stream's chunk, from 0.
    pub sequence: AtomicU64,
    /// Time stamp of when it was taken; written last of what is here, and made 0 before the slot is free. A slot without is
    /// not filled in yet.
    pub began: AtomicU64,
    /// Of when it was published.
    pub ended: AtomicU64,
    /// 1 once its memory was reserved; a slot without is touched by nobody. Written by the runtime.
    pub is_backed: AtomicU32,
    /// Zero.
    pub reserved: AtomicU32,
    /// The thread's pointer, by which it finds its thread-local variables.
    pub thread_pointer: AtomicU64,
    /// Zero.
    pub reserved_too: AtomicU64,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// Who may touch a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SlotState {
    /// Nobody; any thread may take it.
    Free = 0,
    /// The thread that took it.
    Owned = 1,
    /// The reader.
    Full = 2,
}

/// A chunk that was given up by somebody who did not know how much is in it.
pub const UNKNOWN_BYTES: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_the_bit_and_what_follows_them_does_not() {
        for slot in [0, 1, SLOTS - 1] {
            let start = chunk_offset(slot);
            assert!(start & ROOM_BIT != 0 && (start + CHUNK_BYTES - 8) & ROOM_BIT != 0);
            assert!(
                (start + CHUNK_BYTES) & ROOM_BIT == 0 && (start + CHUNK_BYTES + OVERFLOW_BYTES - 8) & ROOM_BIT == 0
            );
            assert!(start + CHUNK_BYTES + OVERFLOW_BYTES <= FILE_BYTES);
        }
    }

    #[test]
    fn a_record_fits_beyond_the_end() {
        const { assert!((1 + super::super::record::MAX_SEGMENT_WORDS) * 8 < OVERFLOW_BYTES) }
    }
}
