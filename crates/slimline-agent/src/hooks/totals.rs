//! How much is alive of each call path, from a part of the blocks.
//!
//! Few enough that shared counters cost next to nothing on average.

use crate::blocks::{BlockIndex, Removed};
use crate::recorder;
use core::sync::atomic::Ordering::Relaxed;
use slimline_trace::wire::LARGE_BLOCK_BYTES;

/// Counts a new block that was just entered into the index, if it is not large.
pub(super) fn add(blocks: &BlockIndex, base: u64, bytes: u64, stack: u32) {
    let Some(totals) = recorder::path_totals(stack).filter(|_| bytes < LARGE_BLOCK_BYTES) else { return };
    let Some(shift) = blocks.note_counted(base) else { return };
    totals.counted.fetch_add(1, Relaxed);
    for (live, peak, more) in
        [(&totals.live_blocks, &totals.peak_blocks, 1), (&totals.live_bytes, &totals.peak_bytes, bytes as i64)]
    {
        let more = more << shift;
        // The target can write here too: no sum may panic.
        peak.fetch_max(live.fetch_add(more, Relaxed).wrapping_add(more), Relaxed);
    }
}

/// A block that leaves the index, and what it takes from its path's totals.
pub(super) struct Leaving {
    stack: u32,
    shift: u32,
    bytes: u32,
}

impl Leaving {
    /// Of a block at `base` that is about to leave, or has just left and was not freed yet. None where it was not counted.
    #[inline(always)]
    pub(super) fn of(blocks: &BlockIndex, base: u64, removed: Removed) -> Option<Self> {
        let shift = removed.stands_for()?;
        Some(Self { stack: removed.stack(), shift, bytes: blocks.bytes_of(base, removed)? })
    }

    /// Takes it out.
    #[cold]
    pub(super) fn settle(self) {
        if let Some(totals) = recorder::path_totals(self.stack) {
            totals.live_blocks.fetch_sub(1 << self.shift, Relaxed);
            totals.live_bytes.fetch_sub(i64::from(self.bytes) << self.shift, Relaxed);
        }
    }
}
