//! Blocks: the small heap blocks that samples and bursts touched.

use super::{StackRow, table};
use crate::address::Avma;

table! {
    /// Distinct blocks of one part of the session; a block touched in several parts has a row in each.
    Blocks of
    /// A heap block that was live when it was touched. Start and size 0: any that is not followed, as in
    /// [`BlockRecord::NOT_FOLLOWED`](crate::wire::BlockRecord::NOT_FOLLOWED).
    Block in "blocks" {
        /// Start.
        base: Avma as Delta,
        /// Size asked for.
        bytes: u64 as Delta,
        /// Allocation call path.
        stack: Option<StackRow> as Delta,
    }
}

impl Block {
    /// Whether it stands for all blocks that are not followed.
    pub fn is_not_followed(&self) -> bool {
        self.base.0 == 0
    }
}
