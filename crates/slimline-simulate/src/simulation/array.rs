//! The lines of one cache, by sets, and what makes room in a full one.
//!
//! Sets whose replacement is by recency keep their entries in that order, the most recent first, so that most look-ups end
//! at the first one; in others a line stays where it is. The first [`FRONT`] of all sets are together, and the others behind them:
//!
//! ```text
//!   first ones of set 0 │ of set 1 │ of set 2 │ …    others of set 0 │ of set 1 │ of set 2 │ …
//! ```
//!
//! Of a cache that is far larger than what is used of it only the former are, which are little.

use std::num::NonZero;

pub(super) use super::words::{DIRTY, OPEN, QUIET, UNUSED};
use super::words::{FLAGS, HOST_LINE_WORDS, LANES, Word, Words, find, name, packed, push, to_front, with_words};
use crate::chance::splitmix;
use crate::machine::Replacement;

/// Entries of a set that are beside those of its neighbours.
const FRONT: usize = LANES;

/// Entries that stay in a second level of the host, whatever else is there.
const NEAR_BYTES: usize = 1 << 17;

/// SRRIP's values: used now, expected late, expected last.
const RRIP_NEAR: u8 = 0;
const RRIP_LONG: u8 = 2;
const RRIP_DISTANT: u8 = 3;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its address divided by its size, which says what set it is in.
    pub(super) at: u64,
    /// What it is called in entries of farther caches: another one for each line.
    pub(super) number: u64,
}

/// What lines are called in entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// [`Line::at`]: nobody need know more to look it up.
    Places,
    /// [`Line::number`]: half as long.
    Numbers,
}

/// What a line is called, with its flags: a word that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(NonZero<u64>);

impl Entry {
    /// What the line is called.
    #[inline(always)]
    pub(super) fn name(self) -> u64 {
        name(self.0.get())
    }

    #[inline(always)]
    pub(super) fn is_dirty(self) -> bool {
        self.0.get() & DIRTY != 0
    }
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

/// The lines of a cache that were used last, each in its set. Lines are called by their places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest<'a> {
    /// By set.
    fronts: &'a [[u64; FRONT]],
    sets: Sets,
}

impl Newest<'_> {
    #[inline(always)]
    fn word(self, at: u64) -> u64 {
        self.fronts[self.sets.of(at)][0]
    }

    /// Whether the line is one of them.
    #[inline(always)]
    pub(super) fn is(self, at: u64) -> bool {
        self.word(at) & !FLAGS == packed(at)
    }

    /// That line is used again without anything to be told or done: it was used before, and a store to it is nobody else's
    /// business, nor the first that changes it.
    #[inline(always)]
    pub(super) fn is_used_quietly(self, at: u64, is_store: bool) -> bool {
        // To a load either flag is all the same.
        let same = if is_store { 0 } else { DIRTY | QUIET };
        (self.word(at) ^ (packed(at) | DIRTY | QUIET)) & !same == 0
    }
}

/// The lines of one cache.
#[derive(Debug)]
pub(super) struct Array {
    names: Names,
    words: Words,
    /// The first of the first set, and its other ones.
    begin: usize,
    others: usize,
    /// How many others each set has, with some that are left empty, and from one set's to the next one's.
    behind: usize,
    stride: usize,
    ways: usize,
    sets: Sets,
    order: Order,
}

impl Array {
    /// An empty one. `number` is which one it is of its kind: by chance each makes its own choices.
    pub(super) fn new(sets: u64, ways: u32, replacement: Replacement, number: u32, names: Names) -> Self {
        let lines = sets as usize * ways as usize;
        let order = match replacement {
            Replacement::Lru => Order::Recency,
            Replacement::TreePlru => Order::Tree(vec![0; sets as usize]),
            Replacement::Random { seed } => Order::Chance(seed.wrapping_add(u64::from(number))),
            Replacement::Rrip => Order::Intervals(vec![RRIP_DISTANT; lines]),
        };
        let fronts = (sets as usize * FRONT).next_multiple_of(HOST_LINE_WORDS);
        let behind = (ways as usize).saturating_sub(FRONT).next_multiple_of(LANES);
        // None begins in one of the host's lines and ends in the next.
        let stride = if behind < HOST_LINE_WORDS { behind.next_power_of_two() } else { behind };
        let all = fronts + sets as usize * stride;
        let (words, begin) = match names {
            Names::Places => Words::wide(all),
            Names::Numbers => Words::narrow(all),
        };
        let others = begin + fronts;
        Self { names, words, begin, others, behind, stride, ways: ways as usize, sets: Sets::new(sets), order }
    }

    /// What lines are called.
    pub(super) fn names(&self) -> Names {
        self.names
    }

    /// Makes room for numbers of any size.
    pub(super) fn widen(&mut self) {
        // Wide ones stay as they are.
        let before = self.others - self.begin;
        (self.words, self.begin) = self.words.widened(self.begin);
        self.others = self.begin + before;
    }

    /// Its newest lines, where replacement is by recency and lines are called by their places.
    #[inline(always)]
    pub(super) fn newest(&self) -> Option<Newest<'_>> {
        match (&self.order, &self.words, self.names) {
            (Order::Recency, Words::Wide(words), Names::Places) => {
                Some(Newest { fronts: words[self.begin..self.others].as_chunks().0, sets: self.sets })
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn packed(&self, line: Line) -> u64 {
        packed(match self.names {
            Names::Places => line.at,
            Names::Numbers => line.number,
        })
    }

    /// Where the first ones of a set begin, and where the others.
    #[inline(always)]
    fn places(&self, set: usize) -> (usize, usize) {
        (self.begin + set * FRONT, self.others + set * self.stride)
    }

    /// Where a way of a set is.
    fn place(&self, set: usize, way: usize) -> usize {
        let (front, others) = self.places(set);
        if way < FRONT { front + way } else { others + way - FRONT }
    }

    /// Which way of a set a place is.
    fn way(&self, set: usize, place: usize) -> usize {
        let (front, others) = self.places(set);
        if place < others { place - front } else { place - others + FRONT }
    }

    /// Where the line is.
    #[inline]
    pub(super) fn find(&self, line: Line) -> Option<usize> {
        let (front, others) = self.places(self.sets.of(line.at));
        let wanted = self.packed(line);
        with_words!(&self.words, words => {
            let newest = words[front..].first_chunk::<FRONT>()?;
            if let Some(way) = find(newest, wanted) {
                return Some(front + way);
            }
            // By recency empty ones are the last.
            if newest[FRONT - 1].told() == 0 && matches!(self.order, Order::Recency) {
                return None;
            }
            find(&words[others..others + self.behind], wanted).map(|way| others + way)
        })
    }

    /// Whether it is so small that all of it is near.
    #[inline(always)]
    pub(super) fn is_near(&self) -> bool {
        with_words!(&self.words, words => size_of_val(words.as_slice())) <= NEAR_BYTES
    }

    /// Reads a line's set, so that it is near when it is used: any number, for the compiler to keep the reads.
    #[inline]
    pub(super) fn read_ahead(&self, line: Line) -> u64 {
        let (front, others) = self.places(self.sets.of(line.at));
        let last = self.word(front + FRONT - 1);
        // Where nothing is there, the others are empty.
        if last == 0 || self.behind == 0 { last } else { self.word(others) }
    }

    #[inline(always)]
    fn word(&self, place: usize) -> u64 {
        with_words!(&self.words, words => words[place].told())
    }

    #[inline(always)]
    fn set_word(&mut self, place: usize, word: u64) {
        with_words!(&mut self.words, words => words[place] = Word::new(word));
    }

    pub(super) fn flags(&self, place: usize) -> u64 {
        self.word(place) & FLAGS
    }

    /// Sets flags, then clears others.
    pub(super) fn mark(&mut self, place: usize, set: u64, clear: u64) {
        self.set_word(place, (self.word(place) | set) & !clear);
    }

    /// The line, which is at `place`, is used: it may be elsewhere from now on. Sets flags and clears others; those that it had.
    #[inline]
    pub(super) fn touch(&mut self, line: Line, place: usize, set: u64, clear: u64) -> u64 {
        let of_set = self.sets.of(line.at);
        let (front, others) = self.places(of_set);
        let before = self.word(place);
        let word = (before | set) & !clear;
        if let Order::Recency = self.order {
            with_words!(&mut self.words, words => {
                if place == front {
                    words[front] = Word::new(word);
                } else if place < others {
                    to_front(&mut words[front..front + FRONT], place - front, word);
                } else {
                    let last = push(&mut words[front..front + FRONT], FRONT, word);
                    to_front(&mut words[others..others + self.behind], place - others, last);
                }
            });
            return before & FLAGS;
        }
        self.set_word(place, word);
        let way = self.way(of_set, place);
        match &mut self.order {
            Order::Tree(bits) => lead_away(&mut bits[of_set], way, self.ways),
            Order::Intervals(intervals) => intervals[of_set * self.ways + way] = RRIP_NEAR,
            Order::Recency | Order::Chance(_) => {}
        }
        before & FLAGS
    }

    /// Puts a line in that is not there; what left for it.
    #[inline]
    pub(super) fn insert(&mut self, line: Line, flags: u64) -> Option<Entry> {
        let set = self.sets.of(line.at);
        let (front, others) = self.places(set);
        let word = self.packed(line) | flags;
        if let Order::Recency = self.order {
            let left = with_words!(&mut self.words, words => {
                let last = push(&mut words[front..front + FRONT], self.ways.min(FRONT), word);
                if last == 0 || self.behind == 0 {
                    last
                } else {
                    push(&mut words[others..others + self.behind], self.ways - FRONT, last)
                }
            });
            return NonZero::new(left).map(Entry);
        }
        let intervals_of_set = set * self.ways..(set + 1) * self.ways;
        let empty = (0..self.ways).find(|way| self.word(self.place(set, *way)) == 0);
        let way = empty.unwrap_or_else(|| match &mut self.order {
            Order::Recency => self.ways - 1,
            Order::Tree(bits) => victim(bits[set], self.ways),
            Order::Chance(state) => (splitmix(state) % self.ways as u64) as usize,
            Order::Intervals(intervals) => most_distant(&mut intervals[intervals_of_set]),
        });
        let place = self.place(set, way);
        let left = self.word(place);
        self.set_word(place, word);
        match &mut self.order {
            Order::Tree(bits) => lead_away(&mut bits[set], way, self.ways),
            Order::Intervals(intervals) => intervals[set * self.ways + way] = RRIP_LONG,
            Order::Recency | Order::Chance(_) => {}
        }
        NonZero::new(left).map(Entry)
    }

    /// Takes a line out.
    pub(super) fn remove(&mut self, line: Line) -> Option<Entry> {
        let place = self.find(line)?;
        let found = NonZero::new(self.word(place)).map(Entry);
        match self.order {
            Order::Recency => self.close_up(self.sets.of(line.at), place),
            _ => self.set_word(place, 0),
        }
        found
    }

    /// Moves what is behind a place of a set by one, so that empty ones are the last.
    fn close_up(&mut self, set: usize, place: usize) {
        for way in self.way(set, place)..self.ways {
            let next = if way + 1 < self.ways { self.word(self.place(set, way + 1)) } else { 0 };
            self.set_word(self.place(set, way), next);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::ADDRESS_BITS;

    fn line(number: u64) -> Line {
        Line { at: 0, number }
    }

    fn filled(replacement: Replacement, lines: &[u64]) -> Array {
        let mut array = Array::new(1, 4, replacement, 0, Names::Numbers);
        for line in lines.iter().copied().map(line) {
            match array.find(line) {
                Some(place) => drop(array.touch(line, place, 0, 0)),
                None => drop(array.insert(line, 0)),
            }
        }
        array
    }

    fn next_victim(replacement: Replacement, lines: &[u64]) -> u64 {
        filled(replacement, lines).insert(line(99), 0).map_or(0, Entry::name)
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
            assert_eq!(array.remove(line(2)).map(|left| (left.name(), left.is_dirty())), Some((2, false)));
            assert_eq!((array.insert(line(9), DIRTY), array.find(line(2))), (None, None));
            array.widen();
            assert!(array.remove(line(9)).unwrap().is_dirty());
            assert!(array.find(line(1)).is_some());
        }
    }

    #[test]
    fn sets_are_lines_modulo_their_number() {
        for sets in [1, 3, 7, 64, 53_248, (1 << 26) - 1] {
            for line in [0, 1, sets - 1, sets, sets + 1, 12_345_678_901, (1 << ADDRESS_BITS) - 1] {
                assert_eq!(Sets::new(sets).of(line) as u64, line % sets, "{line} of {sets}");
            }
        }
    }
}
