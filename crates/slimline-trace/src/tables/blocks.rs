//! Blocks: the small heap blocks that samples and bursts touched.

use super::{StackRow, table};
use crate::address::Avma;
use crate::wire::PASSED_OVER;

table! {
    /// Distinct blocks of one part of the session; a block touched in several parts has a row in each.
    Blocks of
    /// A heap block that was live when it was touched: of the three kinds that a [`BlockRecord`](crate::wire::BlockRecord)
    /// can be.
    Block in "blocks" {
        /// Start.
        base: Avma as Delta,
        /// Size asked for; of a block that was passed over the usable size.
        bytes: u64 as Delta,
        /// Allocation call path.
        stack: Option<StackRow> as Delta,
        /// How likely it was to be followed: a column where that is known of any block.
        chance: Chance as Spread,
    }
}

/// How likely a block was to be followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance {
    /// One in 2^this was when it came to be; [`PASSED_OVER`]: it was not. None where that is not known, as in sessions of
    /// earlier versions.
    pub follow_shift: Option<u8>,
}

impl Chance {
    /// How many blocks that were not followed it stands for, on average. 1 where its chance is not known.
    ///
    /// The agent's shifts are at most 10. A damaged file may hold any; a limit keeps sums over accesses from overflowing.
    pub fn others(self) -> u64 {
        self.follow_shift.map_or(1, |shift| (1_u64 << shift.min(31)) - 1)
    }
}

impl Block {
    /// Whether it is one that was passed over, or stands for all of them.
    pub fn is_not_followed(&self) -> bool {
        self.usable_bytes().is_some() || self.base.0 == 0
    }

    /// The size that the program may use of a block that was passed over, where its bounds are known.
    pub fn usable_bytes(&self) -> Option<u64> {
        (self.chance.follow_shift == Some(PASSED_OVER)).then_some(self.bytes)
    }
}
