//! Which units of a bucket are used: two bits a unit, beside the bucket, not in it, one where an object begins and one where it
//! ends.
//!
//! ```text
//!   unit     0 1 2 3 4 5 6 7
//!   begins   1 0 0 0 1 0 1 0      three units, one free, two, two
//!   lasts    0 0 1 0 0 1 0 1
//! ```
//!
//! So objects need no header, lie without a gap, what was freed is one hole with the holes beside it without anything being
//! merged, and making or freeing an object is a bit of each. Which units are used is their difference: as numbers, with unit 0
//! the lowest bit, the last bit less the first one is all bits from the first one to that before the last.
#![allow(unsafe_code)] // what tells of each object is looked up without a check

/// Bytes of a unit: what objects' sizes are rounded up to.
pub const UNIT_BYTES: usize = 8;

/// Units that one word tells of.
pub(crate) const WORD_UNITS: usize = u64::BITS as usize;

/// Words of a bucket at most.
const MAX_WORDS: usize = crate::MAX_BUCKET_BYTES / UNIT_BYTES / WORD_UNITS;

/// 64 units. All zero bits are free ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub(crate) struct Word {
    begins: u64,
    lasts: u64,
}

/// Goes through words of a bucket one after the other.
#[derive(Default)]
struct Used {
    /// An object goes on from the word before.
    goes_on: bool,
}

impl Used {
    /// From that word on.
    fn from(words: &[Word], from: usize) -> Self {
        // What is left of a word without the objects of one unit is one bit after the other of either kind.
        let kinds = |word: &Word| (word.begins & !word.lasts, word.lasts & !word.begins);
        let before = words.iter().take(from).rev().map(kinds).find(|(begins, lasts)| begins != lasts);
        Self { goes_on: before.is_some_and(|(begins, lasts)| begins > lasts) }
    }

    /// The units of the next word that are used.
    #[inline(always)]
    fn of(&mut self, word: &Word) -> u64 {
        let (less, below) = word.lasts.overflowing_sub(word.begins);
        let (less, below_one) = less.overflowing_sub(u64::from(self.goes_on));
        self.goes_on = below || below_one;
        less | word.lasts
    }
}

/// The units of all words that are used.
fn used(words: &[Word]) -> [u64; MAX_WORDS] {
    let mut used = Used::default();
    let mut all = [0; MAX_WORDS];
    all.iter_mut().zip(words).for_each(|(bits, word)| *bits = used.of(word));
    all
}

/// The first `count` bits of a word.
#[inline(always)]
fn first(count: usize) -> u64 {
    u64::MAX >> (WORD_UNITS - count.min(WORD_UNITS))
}

#[inline(always)]
fn bit(unit: usize) -> u64 {
    1 << (unit % WORD_UNITS)
}

/// An object of `units` begins at `at`, where that many are free.
///
/// # Safety
///
/// They are units of the words' bucket.
#[inline(always)]
pub(crate) unsafe fn take(words: &mut [Word], at: usize, units: usize) {
    let last = at + units - 1;
    debug_assert!(last / WORD_UNITS < words.len());
    // SAFETY: as the caller promises.
    unsafe {
        words.get_unchecked_mut(at / WORD_UNITS).begins |= bit(at);
        words.get_unchecked_mut(last / WORD_UNITS).lasts |= bit(last);
    }
}

/// The object at `at` is no longer there. Its units; `None`: no object begins there.
///
/// # Safety
///
/// It is a unit of the words' bucket.
#[inline(always)]
pub(crate) unsafe fn give(words: &mut [Word], at: usize) -> Option<usize> {
    // SAFETY: as the caller promises; an object ends within its bucket.
    unsafe {
        let units = length(words, at)?;
        let last = at + units - 1;
        debug_assert!(last / WORD_UNITS < words.len());
        words.get_unchecked_mut(at / WORD_UNITS).begins ^= bit(at);
        words.get_unchecked_mut(last / WORD_UNITS).lasts ^= bit(last);
        Some(units)
    }
}

/// Units of the object at `at`. `None`: no object begins there.
///
/// # Safety
///
/// It is a unit of the words' bucket.
#[inline(always)]
pub(crate) unsafe fn length(words: &[Word], at: usize) -> Option<usize> {
    let first = at / WORD_UNITS;
    let begin = at % WORD_UNITS;
    debug_assert!(first < words.len());
    // The next word as well, whether the object goes on there or not, which no branch could foresee. After the last word
    // there is none: but there an object ends in its own.
    let next = (first + 1).min(words.len() - 1);
    // SAFETY: as the caller promises; `next` is that of a word, too.
    let (word, next) = unsafe { (words.get_unchecked(first), words.get_unchecked(next)) };
    if word.begins & bit(at) == 0 {
        return None;
    }
    let ends = word.lasts >> begin | next.lasts << 1 << (WORD_UNITS - 1 - begin);
    if ends != 0 { Some(1 + ends.trailing_zeros() as usize) } else { long(words, at) }
}

/// Of an object that ends in neither the word that it begins in nor the next one's first units.
#[cold]
fn long(words: &[Word], at: usize) -> Option<usize> {
    let next = at / WORD_UNITS + 1;
    let (word, number) = words.get(next..)?.iter().zip(next..).find(|(word, _)| word.lasts != 0)?;
    Some(number * WORD_UNITS + word.lasts.trailing_zeros() as usize + 1 - at)
}

/// The object at `at`, of `from` units, becomes one of `to`.
pub(crate) fn resize(words: &mut [Word], at: usize, from: usize, to: usize) {
    for last in [at + from - 1, at + to - 1] {
        words[last / WORD_UNITS].lasts ^= bit(last);
    }
}

/// Free units from `at` on in a bucket of `all`: none is used up to where an object begins. `at` is not within an object.
pub(crate) fn free_from(words: &[Word], at: usize, all: usize) -> usize {
    next(words, at, all, |word| word.begins) - at
}

/// The first unit from `at` on whose bit is set in what `of` makes of its word; `all` without such.
fn next<W>(words: &[W], at: usize, all: usize, of: impl Fn(&W) -> u64) -> usize {
    let mut from = at;
    while from < all {
        let found = of(&words[from / WORD_UNITS]) >> (from % WORD_UNITS);
        if found != 0 {
            return all.min(from + found.trailing_zeros() as usize);
        }
        from = (from / WORD_UNITS + 1) * WORD_UNITS;
    }
    all
}

/// The first place in a bucket of `all` units, from that word on, where `units` are free that begin at a multiple of `align`
/// units, a power of two. `None`: there is no such place.
pub(crate) fn find(words: &[Word], all: usize, from: usize, units: usize, align: usize) -> Option<usize> {
    if units > WORD_UNITS || align > WORD_UNITS {
        return find_long(words, all, from, units, align);
    }
    let starts = aligned(align);
    // As many steps for most sizes: how many one needs no branch could foresee.
    let steps = if units <= 16 { 4 } else { 6 };
    // Units that a bucket of less than a word does not have are as good as used.
    let mut used = Used::from(words, from);
    let mut free = |word: usize| match words.get(word) {
        Some(word) => !used.of(word) & first(all),
        None => 0,
    };
    let mut low = free(from);
    for word in from..words.len() {
        let high = free(word + 1);
        if low & starts != 0 {
            // Bit n of `runs`: `length` units from n on are free. Twice as many are where that holds of n and n + length.
            let mut runs = u128::from(low) | u128::from(high) << WORD_UNITS;
            let mut length = 1;
            for _ in 0..steps {
                let step = length.min(units - length);
                runs &= runs >> step;
                length += step;
            }
            let found = runs as u64 & starts;
            if found != 0 {
                return Some(word * WORD_UNITS + found.trailing_zeros() as usize);
            }
        }
        low = high;
    }
    None
}

/// Each unit of a word whose number is a multiple of `align`, a power of two.
#[inline(always)]
fn aligned(align: usize) -> u64 {
    const EACH: [u64; 7] =
        [!0, 0x5555_5555_5555_5555, 0x1111_1111_1111_1111, 0x0101_0101_0101_0101, 0x1_0001_0001_0001, 0x1_0000_0001, 1];
    EACH[align.trailing_zeros() as usize]
}

/// The same of any length, hole by hole.
fn find_long(words: &[Word], all: usize, from: usize, units: usize, align: usize) -> Option<usize> {
    let used = used(words);
    let mut at = from * WORD_UNITS;
    while at < all {
        let hole = next(&used, at, all, |used| !used);
        let end = next(&used, hole, all, |used| *used);
        let begin = hole.next_multiple_of(align);
        if begin + units <= end {
            return Some(begin);
        }
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Word, find, find_long, free_from, resize};

    fn take(words: &mut [Word], at: usize, units: usize) {
        assert!((at + units - 1) / super::WORD_UNITS < words.len());
        // SAFETY: as was just asserted.
        unsafe { super::take(words, at, units) }
    }

    fn give(words: &mut [Word], at: usize) -> Option<usize> {
        assert!(at / super::WORD_UNITS < words.len());
        // SAFETY: as was just asserted.
        unsafe { super::give(words, at) }
    }

    fn length(words: &[Word], at: usize) -> Option<usize> {
        assert!(at / super::WORD_UNITS < words.len());
        // SAFETY: as was just asserted.
        unsafe { super::length(words, at) }
    }

    #[test]
    fn objects_lie_side_by_side() {
        let mut words = [Word::default()];
        take(&mut words, 0, 3);
        take(&mut words, 4, 2);
        take(&mut words, 6, 2);
        assert_eq!(words[0], Word { begins: 0b0101_0001, lasts: 0b1010_0100 });
        assert_eq!(length(&words, 0), Some(3));
        assert_eq!(length(&words, 1), None);
        assert_eq!(length(&words, 3), None);
        assert_eq!(length(&words, 4), Some(2));
        assert_eq!(length(&words, 6), Some(2));
        assert_eq!(find(&words, 8, 0, 1, 1), Some(3));
        assert_eq!(find(&words, 8, 0, 2, 1), None);
        assert_eq!(give(&mut words, 4), Some(2));
        assert_eq!(give(&mut words, 4), None);
        assert_eq!(find(&words, 8, 0, 3, 1), Some(3));
        assert_eq!(find(&words, 8, 0, 2, 2), Some(4));
        assert_eq!(find(&words, 8, 0, 3, 2), None);
    }

    #[test]
    fn an_object_may_be_longer_than_a_word() {
        let mut words = [Word::default(); 4];
        take(&mut words, 60, 140);
        assert_eq!(length(&words, 60), Some(140));
        assert_eq!(free_from(&words, 200, 256), 56);
        assert_eq!(find(&words, 256, 0, 60, 1), Some(0));
        assert_eq!(find(&words, 256, 0, 61, 1), None);
        give(&mut words, 60);
        take(&mut words, 60, 140);
        resize(&mut words, 60, 140, 196);
        assert_eq!(length(&words, 60), Some(196));
        resize(&mut words, 60, 196, 1);
        assert_eq!(length(&words, 60), Some(1));
        assert_eq!(free_from(&words, 61, 256), 195);
        assert_eq!(give(&mut words, 60), Some(1));
        assert_eq!(words, [Word::default(); 4]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Against a byte a unit: 0 free, else the number of its object.
        #[test]
        fn as_bytes_tell(
            all in prop::sample::select(vec![8_usize, 16, 64, 128, 1024]),
            steps in prop::collection::vec((1..80_usize, 0..8_u32, any::<prop::sample::Index>(), any::<bool>()), 1..60),
        ) {
            let mut words = vec![Word::default(); all.div_ceil(super::WORD_UNITS)];
            let mut slow = vec![0_usize; all];
            let mut live: Vec<(usize, usize)> = Vec::new();
            for (number, (units, align, which, gives)) in (1..).zip(steps) {
                if gives && !live.is_empty() {
                    let (at, units) = live.swap_remove(which.index(live.len()));
                    prop_assert_eq!(length(&words, at), Some(units));
                    prop_assert_eq!(give(&mut words, at), Some(units));
                    slow[at..at + units].fill(0);
                    continue;
                }
                let units = units.min(all);
                let fits = |at: &usize| at + units <= all && slow[*at..at + units].iter().all(|owner| *owner == 0);
                let expected = (0..all).step_by(1 << align).find(fits);
                let found = find(&words, all, 0, units, 1 << align);
                prop_assert_eq!(found, expected);
                prop_assert_eq!(find_long(&words, all, 0, units, 1 << align), expected);
                for from in 1..words.len() {
                    let expected = (0..all).step_by(1 << align).filter(|at| *at >= from * super::WORD_UNITS).find(fits);
                    prop_assert_eq!(find(&words, all, from, units, 1 << align), expected);
                    prop_assert_eq!(find_long(&words, all, from, units, 1 << align), expected);
                }
                if let Some(at) = expected {
                    take(&mut words, at, units);
                    slow[at..at + units].fill(number);
                    live.push((at, units));
                }
            }
        }
    }
}
