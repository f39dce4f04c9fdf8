//! Blocks: the small heap blocks that samples and bursts touched.

use super::{StackRow, table};
use crate::address::Avma;

table! {
    /// Distinct blocks of one part of the session; a block touched in several parts has a row in each.
    Blocks of
    /// A heap block that was live when it was touched.
    Block in "blocks" {
        /// Start.
        base: Avma as Delta,
        /// Size asked for.
        bytes: u64 as Delta,
        /// Allocation call path.
        stack: Option<StackRow> as Delta,
    }
}
