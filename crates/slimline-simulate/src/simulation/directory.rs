//! Who holds which line, and who lost one to another core's store.
//!
//! Caches are numbered through all kinds, nearest first. Only machines of several cores have a directory.

use rustc_hash::FxHashMap;

/// A set of caches.
type Bits = Vec<u64>;

/// A cache that lost a line to a store, until it asks for it again.
#[derive(Clone, Copy, Debug)]
struct Loser {
    cache: u32,
    /// Bytes that other cores have written since, as a mask.
    written: u64,
}

/// Holders and losers of lines.
#[derive(Debug)]
pub(super) struct Directory {
    words: usize,
    slots: FxHashMap<u64, u32>,
    /// Holders by slot.
    bits: Bits,
    free: Vec<u32>,
    losers: FxHashMap<u64, Vec<Loser>>,
    /// By core: caches that none of its accesses passes.
    others: Vec<Bits>,
    /// By cache: nearer ones of its cores.
    under: Vec<Bits>,
}

fn set_of(words: usize, caches: impl IntoIterator<Item = u32>) -> Bits {
    let mut bits = vec![0; words];
    for cache in caches {
        bits[cache as usize / 64] |= 1 << (cache % 64);
    }
    bits
}

fn members(bits: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    (0..).zip(bits).flat_map(|(word, mut bits)| {
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(word * 64 + bit)
        })
    })
}

impl Directory {
    /// Of so many caches. `others` are, by core, the caches that it does not use; `under`, by cache, the nearer ones of its
    /// cores.
    pub(super) fn new(caches: usize, others: Vec<Vec<u32>>, under: Vec<Vec<u32>>) -> Self {
        let words = caches.div_ceil(64);
        let sets = |sets: Vec<Vec<u32>>| sets.into_iter().map(|set| set_of(words, set)).collect();
        Self {
            words,
            slots: FxHashMap::default(),
            bits: Vec::new(),
            free: Vec::new(),
            losers: FxHashMap::default(),
            others: sets(others),
            under: sets(under),
        }
    }

    /// Whether no cache holds any line.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn holders(&self, line: u64) -> Option<&[u64]> {
        let slot = *self.slots.get(&line)? as usize;
        Some(&self.bits[slot * self.words..][..self.words])
    }

    /// A cache has taken a line in.
    pub(super) fn add(&mut self, line: u64, cache: u32) {
        let slot = *self.slots.entry(line).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.bits.resize(self.bits.len() + self.words, 0);
                (self.bits.len() / self.words - 1) as u32
            })
        });
        self.bits[slot as usize * self.words + cache as usize / 64] |= 1 << (cache % 64);
    }

    /// A cache has a line no more.
    pub(super) fn remove(&mut self, line: u64, cache: u32) {
        let Some(&slot) = self.slots.get(&line) else { return };
        let bits = &mut self.bits[slot as usize * self.words..][..self.words];
        bits[cache as usize / 64] &= !(1 << (cache % 64));
        if bits.iter().all(|&word| word == 0) {
            self.slots.remove(&line);
            self.free.push(slot);
        }
    }

    /// Caches that other cores hold the line in, nearest first, into `found`.
    pub(super) fn others(&self, core: usize, line: u64, found: &mut Vec<u32>) {
        found.clear();
        if let Some(holders) = self.holders(line) {
            found.extend(members(holders.iter().zip(&self.others[core]).map(|(holders, others)| holders & others)));
        }
    }

    /// Whether no other core's cache holds the line, and none lost it.
    pub(super) fn is_quiet(&self, core: usize, line: u64) -> bool {
        let held =
            |holders: &[u64]| holders.iter().zip(&self.others[core]).any(|(holders, others)| holders & others != 0);
        !self.losers.contains_key(&line) && !self.holders(line).is_some_and(held)
    }

    /// Nearer caches than `cache`, of its cores, that hold the line, into `found`.
    pub(super) fn under(&self, cache: u32, line: u64, found: &mut Vec<u32>) {
        found.clear();
        if let Some(holders) = self.holders(line) {
            let under = &self.under[cache as usize];
            found.extend(members(holders.iter().zip(under).map(|(holders, under)| holders & under)));
        }
    }

    /// `cache` lost the line to a store.
    pub(super) fn lost(&mut self, line: u64, cache: u32) {
        self.losers.entry(line).or_default().push(Loser { cache, written: 0 });
    }

    /// A core has stored these bytes: other cores' caches that lost the line have not seen them.
    pub(super) fn written(&mut self, core: usize, line: u64, bytes: u64) {
        let others = &self.others[core];
        for loser in self.losers.get_mut(&line).into_iter().flatten() {
            if others[loser.cache as usize / 64] >> (loser.cache % 64) & 1 != 0 {
                loser.written |= bytes;
            }
        }
    }

    /// The cache asks for the line again: what was written to it by others, if it lost it to a store.
    pub(super) fn asked(&mut self, line: u64, cache: u32) -> Option<u64> {
        let losers = self.losers.get_mut(&line)?;
        let place = losers.iter().position(|loser| loser.cache == cache)?;
        let written = losers.swap_remove(place).written;
        if losers.is_empty() {
            self.losers.remove(&line);
        }
        Some(written)
    }
}
