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
const SHARED: u64 = u64::MAX;
/// Nobody has.
const NOBODY: u64 = u64::MAX - 1;

/// Who uses a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    Core(usize),
    Shared,
}

/// All blocks. Lines are numbered by them: a line's number is that of its block, and its place in it.
#[derive(Debug)]
pub(super) struct Blocks {
    numbers: Numbers,
    /// By block: its first line.
    first_lines: Vec<u64>,
    /// By block: the core that uses it, [`SHARED`] or [`NOBODY`], then by kind of cache the lines that the owner's cache of
    /// that kind has seen, a bit each.
    rows: Vec<u64>,
    width: usize,
}

impl Blocks {
    /// Of a machine with so many kinds of caches.
    pub(super) fn new(kinds: usize) -> Self {
        let numbers = Numbers::default();
        Self { numbers, first_lines: Vec::new(), rows: Vec::new(), width: 1 + kinds }
    }

    /// The line, numbered, and whether its block is new.
    #[inline(always)]
    pub(super) fn line(&mut self, at: u64) -> (Line, bool) {
        let (block, is_new) = self.numbers.number(at / BLOCK_LINES);
        if is_new {
            self.add(at - at % BLOCK_LINES);
        }
        (Line { at, number: u64::from(block) * BLOCK_LINES + at % BLOCK_LINES }, is_new)
    }

    /// Adds the block that begins with this line.
    #[cold]
    fn add(&mut self, first_line: u64) {
        self.first_lines.push(first_line);
        let owner = self.rows.len();
        self.rows.resize(owner + self.width, 0);
        self.rows[owner] = NOBODY;
    }

    /// The line that has this number.
    pub(super) fn numbered(&self, number: u64) -> Line {
        Line { at: self.first_lines[block(number)] + number % BLOCK_LINES, number }
    }

    #[inline(always)]
    fn row(&self, number: u64) -> usize {
        block(number) * self.width
    }

    /// Reads what will be needed of a line's block, so that it is near when it is: any number, for the compiler to keep the
    /// reads.
    #[inline]
    pub(super) fn read_ahead(&self, line: Line) -> u64 {
        let row = self.row(line.number);
        self.rows[row] ^ self.rows[row + self.width - 1]
    }

    /// Whose the block is of the line with this number.
    #[inline]
    pub(super) fn owner(&self, number: u64) -> Owner {
        match self.rows[self.row(number)] {
            SHARED => Owner::Shared,
            NOBODY => Owner::Nobody,
            core => Owner::Core(core as usize),
        }
    }

    #[inline]
    pub(super) fn is_shared(&self, number: u64) -> bool {
        self.rows[self.row(number)] == SHARED
    }

    /// A core is the first to use the line's block.
    pub(super) fn own(&mut self, core: usize, line: Line) {
        let row = self.row(line.number);
        self.rows[row] = core as u64;
    }

    /// The owner's cache of this kind sees a line of its block. Whether that is new to it.
    #[inline]
    pub(super) fn see(&mut self, kind: usize, line: Line) -> bool {
        let row = self.row(line.number);
        let word = &mut self.rows[row + 1 + kind];
        let is_new = *word & place_bit(line.number) == 0;
        *word |= place_bit(line.number);
        is_new
    }

    /// By kind of cache, the lines of this one's block that the owner's cache has seen, a bit each.
    #[inline(always)]
    pub(super) fn seen(&mut self, line: Line) -> &mut [u64] {
        let row = self.row(line.number);
        &mut self.rows[row + 1..row + self.width]
    }

    /// From now on the line's block is shared. The lines that the owner's caches have seen, by kind.
    pub(super) fn share(&mut self, line: Line) -> &[u64] {
        let row = self.row(line.number);
        self.rows[row] = SHARED;
        &self.rows[row + 1..row + self.width]
    }
}

/// A line's bit in words of its block.
#[inline(always)]
pub(super) fn place_bit(number: u64) -> u64 {
    1 << (number % BLOCK_LINES)
}

#[inline(always)]
fn block(number: u64) -> usize {
    (number / BLOCK_LINES) as usize
}
