//! Threads of a process.

use super::table;

table! {
    /// Threads in the order in which they were first seen.
    Threads of
    /// One thread. The kernel reuses numbers, so `tid` alone may name several.
    Thread in "threads" {
        /// Kernel's number.
        tid: u32 as Delta,
        /// Name as the kernel has it; the last one seen.
        name: String as Dictionary,
        /// When it began, or was first seen.
        began_ns: u64 as Delta,
        /// When it ended; null where it was not seen to.
        ended_ns: Option<u64> as Delta,
        /// Its CPU time, user and kernel, as far as it was told.
        cpu_ns: u64 as Delta,
        /// Samples taken of it and kept.
        samples: u64 as Delta,
    }
}
