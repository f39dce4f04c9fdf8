//! Ranges: large heap blocks and mappings, which are found by address and time.

use super::column::named_cell;
use super::{StackRow, table};
use crate::address::{Avma, FileOffset};

/// How an address range came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeOrigin {
    /// A heap block of [`LARGE_BLOCK_BYTES`](crate::wire::LARGE_BLOCK_BYTES) or more.
    Heap,
    /// The program called `mmap` or `mremap`.
    Map,
    /// A thread's block of a module's thread-local storage.
    ThreadLocal,
    /// A block as large of an allocator of the program's own, which cut it out of a block or a mapping.
    InnerHeap,
}

named_cell!(RangeOrigin {
    Heap => "heap",
    Map => "map",
    ThreadLocal => "thread_local",
    InnerHeap => "inner_heap",
});

/// What lies in a range, where it is more than memory of the process's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeSource {
    /// Path of the file that is mapped, or what the kernel calls memory that several may map. Of a long path the end.
    pub name: Option<String>,
    /// Where in the file it begins.
    pub file_offset: Option<FileOffset>,
    /// Whether others may see what is written.
    pub is_shared: Option<bool>,
    /// Of thread-local storage: what was added to the link-time addresses of its module. The C library's control block of
    /// a thread has none.
    pub module_bias: Option<u64>,
}

table! {
    /// Large blocks and mappings, in the order in which they died; those still alive last.
    Ranges of
    /// An address range with its life.
    Range in "ranges" {
        /// Start.
        base: Avma as Delta,
        /// Size.
        bytes: u64 as Delta,
        /// When it came to be.
        born_ns: u64 as Delta,
        /// When it went; null where it outlived the recording.
        died_ns: Option<u64> as Delta,
        /// Call path of the allocation or the `mmap`.
        stack: Option<StackRow> as Delta,
        /// How it came to be.
        origin: RangeOrigin as Dictionary,
        /// What lies there.
        source: RangeSource as Spread,
    }
}
