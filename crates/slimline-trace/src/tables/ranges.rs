//! Ranges: large heap blocks and mappings, which are found by address and time.

use super::column::named_cell;
use super::{StackRow, table};
use crate::address::Avma;

/// How an address range came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeOrigin {
    /// A heap block of [`LARGE_BLOCK_BYTES`](crate::wire::LARGE_BLOCK_BYTES) or more.
    Heap,
    /// The program called `mmap` or `mremap`.
    Map,
}

named_cell!(RangeOrigin { Heap => "heap", Map => "map" });

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
    }
}
