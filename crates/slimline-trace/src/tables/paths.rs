//! Paths: what was allocated by each call path, whether samples touched it or not.

use super::{StackRow, table};

table! {
    /// Call paths whose blocks were counted, in the order of their rows.
    Paths of
    /// What is known of all blocks below 1 MiB of one allocation call path, from those that were counted.
    PathTotal in "paths" {
        /// The call path.
        stack: StackRow as Delta,
        /// Blocks that were counted: what the estimates rest on.
        counted: u64 as Delta,
        /// Most blocks that were alive at one time, estimated.
        peak_blocks: u64 as Delta,
        /// Most bytes that were alive at one time, estimated.
        peak_bytes: u64 as Delta,
    }
}
