//! Samples: one row a trigger.

use super::{BlockRow, StackRow, ThreadRow, table};
use crate::access::AccessKind;
use crate::address::Avma;
use crate::wire::{BurstEnd, Quality};

table! {
    /// Samples in the order in which they were drained: in time order within each thread.
    ///
    /// The sample's number in its process is the number of its window of accesses.
    Samples of
    /// One trigger of one thread: what it was stopped at, what that cost, and how much was emulated from there.
    Sample in "samples" {
        /// When.
        time_ns: u64 as Delta,
        /// Whose.
        thread: ThreadRow as Dictionary,
        /// CPU time of its thread, without what samples took.
        cpu_ns: u64 as Delta,
        /// Time this sample stands for.
        weight_ns: u64 as Delta,
        /// Instruction at which the thread was stopped.
        sampled_ip: Avma as Delta,
        /// Blamed instruction; 0 where there is none.
        ip: Avma as Delta,
        /// Address it accesses; 0 where not known.
        address: Avma as Delta,
        /// Stack pointer at the sampled instruction.
        stack_pointer: Avma as Delta,
        /// Size of the blamed access.
        access_bytes: u16 as Dictionary,
        /// What the blamed access does; bit 0 load, bit 1 store, bit 2 atomic.
        kind: AccessKind as Dictionary,
        /// How the address was found.
        quality: Quality as Dictionary,
        /// Small heap block that holds `address`.
        block: Option<BlockRow> as Delta,
        /// Call path, innermost caller first; the sampled instruction itself is not part of it.
        stack: Option<StackRow> as Delta,
        /// Rows of [`Accesses`](super::Accesses) that belong to this sample's window.
        accesses: u32 as Delta,
        /// Instructions emulated in the burst.
        burst_instructions: u32 as Delta,
        /// Why the burst ended.
        burst_end: BurstEnd as Dictionary,
    }
}
