//! Who holds which line, and who lost one to another core's store.
//!
//! A miss of a line that was lost is for what others wrote where the core, as long as the cache keeps the line then, accesses
//! a byte of that (true sharing), and else for nothing (false sharing): Dubois et al., ISCA 1993. Until it does the miss is
//! open; what it was not for the core has not seen, and may be what the next one is for.
//!
//! Caches are numbered through all kinds, nearest first. Only machines of several cores have a directory.

use rustc_hash::FxHashMap;

/// A set of caches.
type Bits = Vec<u64>;

/// A cache that lost a line to a store, until it asks for it again.
#[derive(Clone, Copy, Debug)]
struct Loser {
    cache: u32,
    /// Bytes that other cores have written and its own have not seen, as a mask.
    unseen: u64,
}

/// A cache that lost a line to a store and has it again, and of what others wrote no byte was accessed since.
#[derive(Clone, Copy, Debug)]
struct OpenMiss {
    cache: u32,
    /// As [`Loser::unseen`].
    unseen: u64,
    /// Whose miss it was.
    key: u32,
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
    open: FxHashMap<u64, Vec<OpenMiss>>,
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

/// Takes the one that is meant out of those of a line.
fn take_out<T>(of_lines: &mut FxHashMap<u64, Vec<T>>, line: u64, is_meant: impl Fn(&T) -> bool) -> Option<T> {
    if of_lines.is_empty() {
        return None;
    }
    let of_line = of_lines.get_mut(&line)?;
    let place = of_line.iter().position(is_meant)?;
    let meant = of_line.swap_remove(place);
    if of_line.is_empty() {
        of_lines.remove(&line);
    }
    Some(meant)
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
            open: FxHashMap::default(),
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
        self.close(line, cache);
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

    /// `cache` lost the line to a store, and what is [unseen](Self::close).
    pub(super) fn lost(&mut self, line: u64, cache: u32, unseen: u64) {
        self.losers.entry(line).or_default().push(Loser { cache, unseen });
    }

    /// A core has stored these bytes: other cores' caches that lost the line have not seen them.
    pub(super) fn written(&mut self, core: usize, line: u64, bytes: u64) {
        let others = &self.others[core];
        for loser in self.losers.get_mut(&line).into_iter().flatten() {
            if others[loser.cache as usize / 64] >> (loser.cache % 64) & 1 != 0 {
                loser.unseen |= bytes;
            }
        }
    }

    /// The cache asks for the line again: what others wrote to it, and its cores have not seen, if it lost it to a store.
    pub(super) fn asked(&mut self, line: u64, cache: u32) -> Option<u64> {
        take_out(&mut self.losers, line, |loser| loser.cache == cache).map(|loser| loser.unseen)
    }

    /// That miss of the cache was not for any of these bytes so far.
    pub(super) fn open(&mut self, line: u64, cache: u32, unseen: u64, key: u32) {
        self.open.entry(line).or_default().push(OpenMiss { cache, unseen, key });
    }

    /// Whether a miss of one of these caches is open.
    pub(super) fn is_open(&self, line: u64, caches: &[u32]) -> bool {
        !self.open.is_empty()
            && self.open.get(&line).is_some_and(|open| open.iter().any(|miss| caches.contains(&miss.cache)))
    }

    /// These bytes are accessed through the cache: whose open miss was for them.
    pub(super) fn seen(&mut self, line: u64, cache: u32, bytes: u64) -> Option<u32> {
        take_out(&mut self.open, line, |miss| miss.cache == cache && miss.unseen & bytes != 0).map(|miss| miss.key)
    }

    /// The cache gives the line up, so its miss was for nothing, if it is open still: what its cores have not seen.
    pub(super) fn close(&mut self, line: u64, cache: u32) -> u64 {
        take_out(&mut self.open, line, |miss| miss.cache == cache).map_or(0, |miss| miss.unseen)
    }
}
