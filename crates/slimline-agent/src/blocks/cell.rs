//! What the index holds of a block, in one word.

use super::GRANULE_BYTES;
use crate::follow::MAX_LEVEL;
use slimline_trace::wire::COUNTED_SHIFT;

/// Highest stack number that a cell holds.
pub(crate) const MAX_STACK: u32 = (1 << 21) - 1;

/// What a granule says.
///
/// ```text
///   start  31 live │ 30–28 counted │ 27 moving │ 26 begins in the granule's second half │ 25–21 size code │ 20–0 stack
///   size   31 0 │ 30 1 │ 27–20 low bits of the stack, as a check │ 19–0 bytes
/// ```
///
/// The size code is the size itself where the block ends in its granule. `moving`: a `realloc` is under way. `counted`:
/// how many blocks this one stands for in the totals of its call path, see [`Removed::stands_for`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(pub(super) u32);

/// Size codes beyond 16: of a block that is told as range events and only marked here,
pub(super) const LARGE: u32 = 30;
/// and of one whose size is in the next granule.
pub(super) const WIDE: u32 = 31;

impl Cell {
    pub(super) const NONE: Self = Self(0);
    pub(super) const MOVING: u32 = 1 << 27;

    #[inline(always)]
    pub(super) fn start(base: u64, size_code: u32, stack: u32) -> Self {
        let stack = if stack > MAX_STACK { 0 } else { stack };
        Self(1 << 31 | ((base >> 3 & 1) as u32) << 26 | size_code << 21 | stack)
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
        u64::from(self.0 >> 26 & 1) << 3
    }

    #[inline(always)]
    pub(super) fn size_code(self) -> u32 {
        self.0 >> 21 & 31
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

    /// The same, counted for 2^`shift` blocks.
    pub(super) fn counted(self, shift: u32) -> Self {
        Self(self.0 | (shift - COUNTED_FROM) << COUNTED_BIT)
    }

    /// The size that belongs to start `start`, if this is its size.
    pub(super) fn bytes_of(self, start: Self) -> Option<u32> {
        (self.0 >> 30 == 1 && (self.0 >> 20 & 0xff) == start.stack() & 0xff).then_some(self.0 & 0xf_ffff)
    }
}

/// Where `counted` begins, and the shift of which it holds the rest.
const COUNTED_BIT: u32 = 28;
const COUNTED_FROM: u32 = COUNTED_SHIFT - 1;
const _: () = assert!(MAX_LEVEL - COUNTED_FROM < 8);

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
        match self.0.0 >> COUNTED_BIT & 7 {
            0 => None,
            counted => Some(COUNTED_FROM + counted),
        }
    }
}
