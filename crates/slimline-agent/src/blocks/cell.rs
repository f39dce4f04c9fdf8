//! What the index holds of a block, in one word.

use super::GRANULE_BYTES;
use crate::follow::MAX_LEVEL;
use slimline_trace::wire::COUNTED_SHIFT;

/// Highest stack number that a cell holds.
pub(crate) const MAX_STACK: u32 = (1 << 20) - 1;

/// What a granule says.
///
/// ```text
///   start  31 live │ 30–27 chance │ 26 moving │ 25 begins in the granule's second half │ 24–20 size code │ 19–0 stack
///   size   31 0 │ 30 1 │ 27–20 low bits of the stack, as a check │ 19–0 bytes
/// ```
///
/// The size code is the size itself where the block ends in its granule. `moving`: a `realloc` is under way. `chance`: n if
/// one block in 2^n was followed when this one was allocated. If n is at least [`COUNTED_SHIFT`], the totals of call paths count
/// every block. If it is less, they count some, and these have n + [`COUNTED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(pub(super) u32);

/// Size codes beyond 16: of a block that is told as range events and only marked here,
pub(super) const LARGE: u32 = 30;
/// and of one whose size is in the next granule.
pub(super) const WIDE: u32 = 31;

impl Cell {
    pub(super) const NONE: Self = Self(0);
    pub(super) const MOVING: u32 = 1 << 26;

    #[inline(always)]
    pub(super) fn start(base: u64, size_code: u32, stack: u32, follow_shift: u32) -> Self {
        let stack = if stack > MAX_STACK { 0 } else { stack };
        Self(1 << 31 | follow_shift << CHANCE_BIT | ((base >> 3 & 1) as u32) << 25 | size_code << 20 | stack)
    }

    #[inline(always)]
    pub(super) fn size(bytes: u64, stack: u32) -> Self {
        Self(1 << 30 | (stack & 0xff) << 20 | bytes as u32)
    }

    #[inline(always)]
    pub(super) fn is_live(self) -> bool {
        self.0 >> 31 != 0
    }

    #[inline(always)]
    pub(super) fn offset(self) -> u64 {
        u64::from(self.0 >> 25 & 1) << 3
    }

    #[inline(always)]
    pub(super) fn size_code(self) -> u32 {
        self.0 >> 20 & 31
    }

    #[inline(always)]
    pub(super) fn stack(self) -> u32 {
        self.0 & MAX_STACK
    }

    /// Whether this is the start of the block at `base`.
    #[inline(always)]
    pub(super) fn begins(self, base: u64) -> bool {
        self.is_live() && self.offset() == base & (GRANULE_BYTES - 1)
    }

    /// One block in 2^this was followed when this one came to be.
    #[inline(always)]
    pub(super) fn follow_shift(self) -> u32 {
        let chance = self.chance();
        if chance >= COUNTED { chance - COUNTED } else { chance }
    }

    #[inline(always)]
    fn chance(self) -> u32 {
        self.0 >> CHANCE_BIT & 15
    }

    /// The same, counted in the totals of its path.
    pub(super) fn counted(self) -> Self {
        let more = if self.chance() < COUNTED_SHIFT { COUNTED } else { 0 };
        Self(self.0 + (more << CHANCE_BIT))
    }

    /// The size that belongs to start `start`, if this is its size.
    pub(super) fn bytes_of(self, start: Self) -> Option<u32> {
        (self.0 >> 30 == 1 && (self.0 >> 20 & 0xff) == start.stack() & 0xff).then_some(self.0 & 0xf_ffff)
    }
}

const CHANCE_BIT: u32 = 27;
/// Added to the chance of a counted block while others are not counted.
const COUNTED: u32 = 16 - COUNTED_SHIFT;
const _: () = assert!(MAX_LEVEL < COUNTED);

/// A block that left the index, or is about to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed(pub(super) Cell);

impl Removed {
    /// Whether it was told as a range event.
    #[inline(always)]
    pub(crate) fn is_large(self) -> bool {
        self.0.size_code() == LARGE
    }

    /// Its call path.
    pub(crate) fn stack(self) -> u32 {
        self.0.stack()
    }

    /// How many blocks it was counted for, as a power of two; None: it was not.
    #[inline(always)]
    pub(crate) fn stands_for(self) -> Option<u32> {
        let chance = self.0.chance();
        (chance >= COUNTED_SHIFT).then_some(if chance >= COUNTED { COUNTED_SHIFT } else { chance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_keeps_how_likely_its_block_was_followed() {
        for follow_shift in 0..=MAX_LEVEL {
            let cell = Cell::start(8, WIDE, MAX_STACK, follow_shift);
            let counted = cell.counted();
            for cell in [cell, counted, Cell(counted.0 | Cell::MOVING)] {
                assert_eq!((cell.follow_shift(), cell.offset()), (follow_shift, 8));
                assert_eq!((cell.size_code(), cell.stack(), cell.is_live()), (WIDE, MAX_STACK, true));
            }
            // One page in 16 is counted while more than one block in 16 is followed, then all are.
            assert_eq!(Removed(cell).stands_for(), (follow_shift >= 4).then_some(follow_shift));
            assert_eq!(Removed(counted).stands_for(), Some(follow_shift.max(4)));
        }
    }
}
