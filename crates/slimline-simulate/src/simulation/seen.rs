//! Lines that a cache has held or been asked for.

use rustc_hash::FxHashMap;

/// A set of lines: a bit each, 64 neighbours in one word.
#[derive(Debug, Default)]
pub(super) struct Seen {
    words: FxHashMap<u64, u64>,
}

impl Seen {
    /// Adds a line. Whether it was new.
    pub(super) fn insert(&mut self, line: u64) -> bool {
        let word = self.words.entry(line / 64).or_default();
        let bit = 1 << (line % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}
