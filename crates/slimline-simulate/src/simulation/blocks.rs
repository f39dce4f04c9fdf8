//! What is known of 64 neighbouring lines together.
//!
//! Most memory is only ever used by one core (Cuesta et al., ISCA 2011, deactivate coherence for it). A block that one core
//! alone has used belongs to that: no other core's caches can hold a line of it, so nobody need keep a directory of it, and
//! what its caches have seen are a few words. As soon as another core comes it is shared, for good.

use super::array::Line;
use crate::numbers::Numbers;

/// Lines of a block.
pub(super) const BLOCK_LINES: u64 = 64;
/// Several cores have used it.
const SHARED: u32 = u32::MAX;
/// Nobody has.
const NOBODY: u32 = u32::MAX - 1;

/// Who uses a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    Core(usize),
    Shared,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    first_line: u64,
    /// The core that uses it, or [`SHARED`] or [`NOBODY`].
    owner: u32,
}

/// All blocks. Lines are numbered by them: a line's number is that of its block, and its place in it.
#[derive(Debug)]
pub(super) struct Blocks {
    numbers: Numbers,
    blocks: Vec<Block>,
    /// By block, then kind of cache: the lines that the owner's cache of that kind has seen, a bit each.
    seen: Vec<u64>,
    kinds: usize,
}

impl Blocks {
    /// Of a machine with so many kinds of caches.
    pub(super) fn new(kinds: usize) -> Self {
        let numbers = Numbers::default();
        Self { numbers, blocks: Vec::new(), seen: Vec::new(), kinds }
    }

    /// The line, numbered, and whether its block is new.
    #[inline]
    pub(super) fn line(&mut self, at: u64) -> (Line, bool) {
        let (block, is_new) = self.numbers.number(at / BLOCK_LINES);
        if is_new {
            self.blocks.push(Block { first_line: at - at % BLOCK_LINES, owner: NOBODY });
            self.seen.resize(self.seen.len() + self.kinds, 0);
        }
        (Line { at, number: u64::from(block) * BLOCK_LINES + at % BLOCK_LINES }, is_new)
    }

    /// The line that has this number.
    pub(super) fn numbered(&self, number: u64) -> Line {
        Line { at: self.blocks[block(number)].first_line + number % BLOCK_LINES, number }
    }

    /// Reads what will be needed of a line's block, so that it is near when it is: any number, for the compiler to keep the
    /// reads.
    #[inline]
    pub(super) fn read_ahead(&self, line: Line) -> u64 {
        let block = block(line.number);
        u64::from(self.blocks[block].owner) ^ self.seen[block * self.kinds]
    }

    /// Whose the block is of the line with this number.
    #[inline]
    pub(super) fn owner(&self, number: u64) -> Owner {
        match self.blocks[block(number)].owner {
            SHARED => Owner::Shared,
            NOBODY => Owner::Nobody,
            core => Owner::Core(core as usize),
        }
    }

    #[inline]
    pub(super) fn is_shared(&self, number: u64) -> bool {
        self.blocks[block(number)].owner == SHARED
    }

    /// A core is the first to use the line's block.
    pub(super) fn own(&mut self, core: usize, line: Line) {
        self.blocks[block(line.number)].owner = core as u32;
    }

    /// The owner's cache of this kind sees a line of its block. Whether that is new to it.
    #[inline]
    pub(super) fn see(&mut self, kind: usize, line: Line) -> bool {
        let word = &mut self.seen[block(line.number) * self.kinds + kind];
        let bit = 1 << (line.number % BLOCK_LINES);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// From now on the line's block is shared. The lines that the owner's caches have seen, by kind.
    pub(super) fn share(&mut self, line: Line) -> &[u64] {
        let block = block(line.number);
        self.blocks[block].owner = SHARED;
        &self.seen[block * self.kinds..][..self.kinds]
    }
}

#[inline(always)]
fn block(number: u64) -> usize {
    (number / BLOCK_LINES) as usize
}
