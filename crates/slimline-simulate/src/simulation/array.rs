//! The lines of one cache, by sets, and what makes room in a full one.
//!
//! An entry is one word: the line's number above four bits. Sets whose replacement is by recency keep their entries in
//! that order, the most recent first, so that most look-ups end at the first one; in others a line stays where it is.

use crate::machine::Replacement;

/// Changed since it came here.
pub(super) const DIRTY: u64 = 1;
/// Only in first-level data caches: no other core's caches hold the line, and none waits to see what is written to it. A
/// store changes nothing elsewhere.
pub(super) const QUIET: u64 = 2;
/// Fetched unasked and not used since.
pub(super) const UNUSED: u64 = 4;
const VALID: u64 = 8;
const LINE_SHIFT: u32 = 4;
const FLAGS: u64 = DIRTY | QUIET | UNUSED;
/// Bits of a line's number that an entry holds.
pub(super) const LINE_BITS: u32 = u64::BITS - LINE_SHIFT;

/// SRRIP's values: used now, expected late, expected last.
const RRIP_NEAR: u8 = 0;
const RRIP_LONG: u8 = 2;
const RRIP_DISTANT: u8 = 3;

/// A line with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: u64,
    pub(super) flags: u64,
}

impl Entry {
    pub(super) fn is_dirty(self) -> bool {
        self.flags & DIRTY != 0
    }
}

fn packed(line: u64) -> u64 {
    line << LINE_SHIFT | VALID
}

fn unpacked(word: u64) -> Option<Entry> {
    (word != 0).then_some(Entry { line: word >> LINE_SHIFT, flags: word & FLAGS })
}

/// The set of a line: its number modulo the number of sets.
#[derive(Clone, Copy, Debug)]
enum Sets {
    Mask(u64),
    /// Their number and 2^64 divided by it.
    Modulo(u64, u64),
}

impl Sets {
    fn new(sets: u64) -> Self {
        if sets.is_power_of_two() { Self::Mask(sets - 1) } else { Self::Modulo(sets, u64::MAX / sets) }
    }

    #[inline(always)]
    fn of(self, line: u64) -> usize {
        match self {
            Self::Mask(mask) => (line & mask) as usize,
            Self::Modulo(sets, reciprocal) => {
                // The quotient or one less.
                let quotient = ((u128::from(line) * u128::from(reciprocal)) >> 64) as u64;
                let rest = line - quotient * sets;
                (if rest >= sets { rest - sets } else { rest }) as usize
            }
        }
    }
}

/// What each policy remembers besides the entries.
#[derive(Debug)]
enum Order {
    Recency,
    /// The tree's bits of each set; bit n is of node n, the root is 1, a set bit leads to the right.
    Tree(Vec<u64>),
    Chance(u64),
    /// The predicted interval of each way.
    Intervals(Vec<u8>),
}

/// The lines of one cache.
#[derive(Debug)]
pub(super) struct Array {
    entries: Vec<u64>,
    ways: usize,
    sets: Sets,
    order: Order,
}

impl Array {
    /// An empty one. `number` is which one it is of its kind: by chance each makes its own choices.
    pub(super) fn new(sets: u64, ways: u32, replacement: Replacement, number: u32) -> Self {
        let lines = sets as usize * ways as usize;
        let order = match replacement {
            Replacement::Lru => Order::Recency,
            Replacement::TreePlru => Order::Tree(vec![0; sets as usize]),
            Replacement::Random { seed } => Order::Chance(seed.wrapping_add(u64::from(number))),
            Replacement::Rrip => Order::Intervals(vec![RRIP_DISTANT; lines]),
        };
        Self { entries: vec![0; lines], ways: ways as usize, sets: Sets::new(sets), order }
    }

    /// Whether the most recent line of a set is its first entry.
    pub(super) fn is_by_recency(&self) -> bool {
        matches!(self.order, Order::Recency)
    }

    /// Where the line is.
    #[inline]
    pub(super) fn find(&self, line: u64) -> Option<usize> {
        let first = self.sets.of(line) * self.ways;
        let wanted = packed(line);
        let way = self.entries[first..first + self.ways].iter().position(|word| word ^ wanted <= FLAGS)?;
        Some(first + way)
    }

    /// Reads a line's set, so that it is near when it is used: any number, for the compiler to keep the reads.
    #[inline]
    pub(super) fn read_ahead(&self, line: u64) -> u64 {
        let first = self.sets.of(line) * self.ways;
        // One of each 64 bytes.
        self.entries[first..first + self.ways]
            .iter()
            .step_by(8)
            .fold(self.entries[first + self.ways - 1], |sum, word| sum ^ word)
    }

    /// Whether the line is the one in its set that was used last. Only where replacement is by recency.
    #[inline(always)]
    pub(super) fn is_newest(&self, line: u64) -> bool {
        self.entries[self.sets.of(line) * self.ways] ^ packed(line) <= FLAGS
    }

    /// The line is used again without anything to be told or done: it is its set's most recent one, it was used before,
    /// and a store to it is nobody else's business. Only where replacement is by recency.
    #[inline(always)]
    pub(super) fn is_used_quietly(&mut self, line: u64, is_store: bool) -> bool {
        let word = &mut self.entries[self.sets.of(line) * self.ways];
        if *word & !(DIRTY | QUIET) != packed(line) {
            return false;
        }
        if is_store {
            if *word & QUIET == 0 {
                return false;
            }
            *word |= DIRTY;
        }
        true
    }

    pub(super) fn flags(&self, place: usize) -> u64 {
        self.entries[place] & FLAGS
    }

    /// Sets flags, then clears others.
    pub(super) fn mark(&mut self, place: usize, set: u64, clear: u64) {
        self.entries[place] = (self.entries[place] | set) & !clear;
    }

    /// The line, which is at `place`, is used. It may be elsewhere from now on.
    #[inline]
    pub(super) fn touch(&mut self, line: u64, place: usize) {
        let set = self.sets.of(line);
        let first = set * self.ways;
        match &mut self.order {
            Order::Recency => {
                // Mostly it is one of the first.
                let mut newer = self.entries[place];
                for word in &mut self.entries[first..=place] {
                    newer = std::mem::replace(word, newer);
                }
            }
            Order::Tree(bits) => lead_away(&mut bits[set], place - first, self.ways),
            Order::Chance(_) => {}
            Order::Intervals(intervals) => intervals[place] = RRIP_NEAR,
        }
    }

    /// Puts a line in that is not there; what left for it.
    pub(super) fn insert(&mut self, line: u64, flags: u64) -> Option<Entry> {
        let set = self.sets.of(line);
        let first = set * self.ways;
        let entries = &mut self.entries[first..first + self.ways];
        let word = packed(line) | flags;
        if let Order::Recency = self.order {
            let last = entries[self.ways - 1];
            entries.copy_within(..self.ways - 1, 1);
            entries[0] = word;
            return unpacked(last);
        }
        let way = entries.iter().position(|&word| word == 0).unwrap_or_else(|| match &mut self.order {
            Order::Recency => self.ways - 1,
            Order::Tree(bits) => victim(bits[set], self.ways),
            Order::Chance(state) => (splitmix(state) % self.ways as u64) as usize,
            Order::Intervals(intervals) => most_distant(&mut intervals[first..first + self.ways]),
        });
        let left = std::mem::replace(&mut entries[way], word);
        match &mut self.order {
            Order::Tree(bits) => lead_away(&mut bits[set], way, self.ways),
            Order::Intervals(intervals) => intervals[first + way] = RRIP_LONG,
            Order::Recency | Order::Chance(_) => {}
        }
        unpacked(left)
    }

    /// Takes a line out.
    pub(super) fn remove(&mut self, line: u64) -> Option<Entry> {
        let place = self.find(line)?;
        let found = unpacked(self.entries[place]);
        let end = (self.sets.of(line) + 1) * self.ways;
        match self.order {
            Order::Recency => {
                self.entries.copy_within(place + 1..end, place);
                self.entries[end - 1] = 0;
            }
            _ => self.entries[place] = 0,
        }
        found
    }
}

/// Turns the bits on the way to `way` away from it.
fn lead_away(bits: &mut u64, way: usize, ways: usize) {
    let mut node = 1;
    let mut half = ways / 2;
    while half > 0 {
        let is_right = way & half != 0;
        *bits = *bits & !(1 << node) | u64::from(!is_right) << node;
        node = 2 * node + usize::from(is_right);
        half /= 2;
    }
}

/// Where the bits lead to.
fn victim(bits: u64, ways: usize) -> usize {
    let mut node = 1;
    while node < ways {
        node = 2 * node + (bits >> node & 1) as usize;
    }
    node - ways
}

/// The first way that is expected last; all grow older until there is one.
fn most_distant(intervals: &mut [u8]) -> usize {
    loop {
        if let Some(way) = intervals.iter().position(|&interval| interval == RRIP_DISTANT) {
            return way;
        }
        intervals.iter_mut().for_each(|interval| *interval += 1);
    }
}

/// Sebastiano Vigna's SplitMix64.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(replacement: Replacement, lines: &[u64]) -> Array {
        let mut array = Array::new(1, 4, replacement, 0);
        for &line in lines {
            match array.find(line) {
                Some(place) => array.touch(line, place),
                None => drop(array.insert(line, 0)),
            }
        }
        array
    }

    fn next_victim(replacement: Replacement, lines: &[u64]) -> u64 {
        filled(replacement, lines).insert(99, 0).map_or(0, |left| left.line)
    }

    #[test]
    fn each_policy_makes_room_as_it_says() {
        assert_eq!(next_victim(Replacement::Lru, &[1, 2, 3, 4, 1]), 2);
        // After 1 2 3 4 the root leads left and the left node to 1; using 1 turns the root to the right, where 3 is older.
        assert_eq!(next_victim(Replacement::TreePlru, &[1, 2, 3, 4]), 1);
        assert_eq!(next_victim(Replacement::TreePlru, &[1, 2, 3, 4, 1]), 3);
        // 1 was used again and is near, so 2 is the first that grows distant.
        assert_eq!(next_victim(Replacement::Rrip, &[1, 2, 3, 4, 1]), 2);
        let chosen = |seed| next_victim(Replacement::Random { seed }, &[1, 2, 3, 4]);
        assert_eq!((0..64).map(chosen).collect::<std::collections::BTreeSet<_>>().len(), 4);
        assert_eq!(chosen(5), chosen(5));
    }

    #[test]
    fn an_empty_way_comes_first() {
        for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random { seed: 1 }, Replacement::Rrip]
        {
            let mut array = filled(replacement, &[1, 2, 3, 4]);
            assert_eq!(array.remove(2), Some(Entry { line: 2, flags: 0 }));
            assert_eq!((array.insert(9, DIRTY), array.find(2)), (None, None));
            assert!(array.remove(9).unwrap().is_dirty());
        }
    }

    #[test]
    fn sets_are_lines_modulo_their_number() {
        for sets in [1, 3, 7, 64, 53_248, (1 << 26) - 1] {
            for line in [0, 1, sets - 1, sets, sets + 1, 12_345_678_901, (1 << LINE_BITS) - 1] {
                assert_eq!(Sets::new(sets).of(line) as u64, line % sets, "{line} of {sets}");
            }
        }
    }
}
