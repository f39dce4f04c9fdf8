//! What is known of 64 neighbouring lines together.
//!
//! Most memory is only ever used by one core (Cuesta et al., ISCA 2011, deactivate coherence for it). A block that one core
//! alone has used belongs to that: no other core's caches can hold a line of it, so nobody need keep a directory of it, and
//! what its caches have seen are a few words. As soon as another core comes it is shared, for good.

use crate::numbers::Numbers;

/// Lines of a block.
pub(super) const BLOCK_LINES: u64 = 64;
/// Several cores have used it.
const SHARED: u32 = u32::MAX;

/// A block, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    number: u32,
    /// The core that uses it; `None`: several do.
    pub(super) owner: Option<usize>,
}

impl Block {
    pub(super) fn is_shared(self) -> bool {
        self.owner.is_none()
    }

    /// The same block, once several cores use it.
    pub(super) fn shared(self) -> Self {
        Self { owner: None, ..self }
    }
}

/// All blocks that were ever used.
#[derive(Debug)]
pub(super) struct Blocks {
    numbers: Numbers,
    /// By block: the core that uses it, or [`SHARED`].
    owners: Vec<u32>,
    /// By block, then kind of cache: the lines that the owner's cache of that kind has seen, a bit each.
    seen: Vec<u64>,
    kinds: usize,
}

impl Blocks {
    /// Of a machine with so many kinds of caches.
    pub(super) fn new(kinds: usize) -> Self {
        Self { numbers: Numbers::default(), owners: Vec::new(), seen: Vec::new(), kinds }
    }

    /// The block of a line that `core` uses: its own if it is new, else whose it was.
    #[inline]
    pub(super) fn enter(&mut self, core: usize, line: u64) -> Block {
        let (number, is_new) = self.numbers.number(line / BLOCK_LINES);
        if is_new {
            self.owners.push(core as u32);
            self.seen.resize(self.seen.len() + self.kinds, 0);
        }
        self.block(number)
    }

    /// The block of a line that was ever used.
    pub(super) fn of(&self, line: u64) -> Option<Block> {
        self.numbers.find(line / BLOCK_LINES).map(|number| self.block(number))
    }

    /// Reads what will be needed of a line's block, so that it is near when it is: any number, for the compiler to keep the
    /// reads.
    #[inline]
    pub(super) fn read_ahead(&self, line: u64) -> u64 {
        let number = self.numbers.find(line / BLOCK_LINES);
        number.map_or(0, |number| u64::from(self.owners[number as usize]) + self.seen[number as usize * self.kinds])
    }

    fn block(&self, number: u32) -> Block {
        let owner = self.owners[number as usize];
        Block { number, owner: (owner != SHARED).then_some(owner as usize) }
    }

    /// The owner's cache of this kind sees a line of its block. Whether that is new to it.
    #[inline]
    pub(super) fn see(&mut self, block: Block, kind: usize, line: u64) -> bool {
        let word = &mut self.seen[block.number as usize * self.kinds + kind];
        let bit = 1 << (line % BLOCK_LINES);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// The lines that the owner's caches have seen, by kind. From now on the block is shared.
    pub(super) fn share(&mut self, block: Block) -> &[u64] {
        self.owners[block.number as usize] = SHARED;
        &self.seen[block.number as usize * self.kinds..][..self.kinds]
    }
}
