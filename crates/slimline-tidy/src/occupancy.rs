//! Which units of a bucket are used, and where objects begin: two bits a unit, beside the bucket, not in it.
//!
//! ```text
//!   unit     0 1 2 3 4 5 6 7
//!   used     1 1 1 0 1 1 1 1
//!   begins   1 0 0 0 1 0 1 0      three units, one free, two, two
//! ```
//!
//! An object ends where the next one begins or units are free. So objects need no header, lie without a gap, and what was
//! freed is one hole with the holes beside it without anything being merged.

/// Bytes of a unit: what objects' sizes are rounded up to.
pub const UNIT_BYTES: usize = 8;

/// Units that one word tells of.
pub(crate) const WORD_UNITS: usize = u64::BITS as usize;

/// 64 units. All zero bits are free ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Word {
    used: u64,
    begins: u64,
}

/// Bits `from..to` of a word, `from < to`, up to 64.
#[inline(always)]
fn bits(from: usize, to: usize) -> u64 {
    (u64::MAX >> (WORD_UNITS - (to - from))) << from
}

/// Calls `change` with each word that has some of `from..to`, and those bits.
#[inline(always)]
fn each(words: &mut [Word], from: usize, to: usize, mut change: impl FnMut(&mut Word, u64)) {
    let mut at = from;
    while at < to {
        let word = at / WORD_UNITS;
        let end = to.min((word + 1) * WORD_UNITS);
        change(&mut words[word], bits(at % WORD_UNITS, end - word * WORD_UNITS));
        at = end;
    }
}

/// An object of `units` begins at `at`, where that many are free.
#[inline(always)]
pub(crate) fn take(words: &mut [Word], at: usize, units: usize) {
    each(words, at, at + units, |word, bits| {
        debug_assert_eq!(word.used & bits, 0);
        word.used |= bits;
    });
    words[at / WORD_UNITS].begins |= 1 << (at % WORD_UNITS);
}

/// The object at `at`, of `units`, is no longer there.
#[inline(always)]
pub(crate) fn give(words: &mut [Word], at: usize, units: usize) {
    each(words, at, at + units, |word, bits| word.used &= !bits);
    words[at / WORD_UNITS].begins &= !(1 << (at % WORD_UNITS));
}

/// The units after an object's `from` up to `to` become its own, or free.
pub(crate) fn resize(words: &mut [Word], at: usize, from: usize, to: usize) {
    each(words, at + from, at + to.max(from), |word, bits| word.used |= bits);
    each(words, at + to, at + from.max(to), |word, bits| word.used &= !bits);
}

/// Units of the object at `at` in a bucket of `all`. `None`: no object begins there.
#[inline(always)]
pub(crate) fn length(words: &[Word], at: usize, all: usize) -> Option<usize> {
    let first = at / WORD_UNITS;
    let bit = at % WORD_UNITS;
    if words.get(first)?.begins >> bit & 1 == 0 {
        return None;
    }
    let ends = |word: &Word| word.begins | !word.used;
    // Shifted in two steps: by 64 in one is none.
    let behind = ends(&words[first]) >> bit >> 1;
    if behind != 0 {
        return Some(1 + behind.trailing_zeros() as usize).map(|units| units.min(all - at));
    }
    for (word, number) in words[first + 1..].iter().zip(first + 1..) {
        if ends(word) != 0 {
            return Some(number * WORD_UNITS + ends(word).trailing_zeros() as usize - at);
        }
    }
    Some(all - at)
}

/// Free units from `at` on in a bucket of `all`.
pub(crate) fn free_from(words: &[Word], at: usize, all: usize) -> usize {
    next(words, at, all, |word| word.used) - at
}

/// The first unit from `at` on whose bit is set in what `of` makes of its word; `all` without such.
fn next(words: &[Word], at: usize, all: usize, of: impl Fn(&Word) -> u64) -> usize {
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

/// The first place in a bucket of `all` units where `units` are free that begin at a multiple of `align` units, a power of
/// two. `None`: there is no such place.
pub(crate) fn find(words: &[Word], all: usize, units: usize, align: usize) -> Option<usize> {
    if units > WORD_UNITS || align > WORD_UNITS {
        return find_long(words, all, units, align);
    }
    let starts = aligned(align);
    // Units that a bucket of less than a word does not have are as good as used.
    let free = |word: usize| match words.get(word) {
        Some(word) => !word.used & bits(0, all.min(WORD_UNITS)),
        None => 0,
    };
    let mut low = free(0);
    for word in 0..words.len() {
        let high = free(word + 1);
        if low & starts != 0 {
            // Bit n of `runs`: `length` units from n on are free. Twice as many are where that holds of n and n + length.
            let mut runs = u128::from(low) | u128::from(high) << WORD_UNITS;
            let mut length = 1;
            while length < units {
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
fn find_long(words: &[Word], all: usize, units: usize, align: usize) -> Option<usize> {
    let mut at = 0;
    while at < all {
        let hole = next(words, at, all, |word| !word.used);
        let end = next(words, hole, all, |word| word.used);
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

    use super::*;

    #[test]
    fn objects_lie_side_by_side() {
        let mut words = [Word::default()];
        take(&mut words, 0, 3);
        take(&mut words, 4, 2);
        take(&mut words, 6, 2);
        assert_eq!(words[0], Word { used: 0b1111_0111, begins: 0b0101_0001 });
        assert_eq!(length(&words, 0, 8), Some(3));
        assert_eq!(length(&words, 1, 8), None);
        assert_eq!(length(&words, 3, 8), None);
        assert_eq!(length(&words, 4, 8), Some(2));
        assert_eq!(length(&words, 6, 8), Some(2));
        assert_eq!(find(&words, 8, 1, 1), Some(3));
        assert_eq!(find(&words, 8, 2, 1), None);
        give(&mut words, 4, 2);
        assert_eq!(find(&words, 8, 3, 1), Some(3));
        assert_eq!(find(&words, 8, 2, 2), Some(4));
        assert_eq!(find(&words, 8, 3, 2), None);
    }

    #[test]
    fn an_object_may_be_longer_than_a_word() {
        let mut words = [Word::default(); 4];
        take(&mut words, 60, 140);
        assert_eq!(length(&words, 60, 256), Some(140));
        assert_eq!(free_from(&words, 200, 256), 56);
        assert_eq!(find(&words, 256, 60, 1), Some(0));
        assert_eq!(find(&words, 256, 61, 1), None);
        resize(&mut words, 60, 140, 196);
        assert_eq!(length(&words, 60, 256), Some(196));
        resize(&mut words, 60, 196, 1);
        assert_eq!(length(&words, 60, 256), Some(1));
        assert_eq!(free_from(&words, 61, 256), 195);
        give(&mut words, 60, 1);
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
        fn as_bytes_tell(all in prop::sample::select(vec![8_usize, 16, 64, 128, 1024]), steps in prop::collection::vec((1..80_usize, 0..8_u32, any::<prop::sample::Index>(), any::<bool>()), 1..60)) {
            let mut words = vec![Word::default(); all.div_ceil(WORD_UNITS)];
            let mut slow = vec![0_usize; all];
            let mut live: Vec<(usize, usize)> = Vec::new();
            for (number, (units, align, which, gives)) in (1..).zip(steps) {
                if gives && !live.is_empty() {
                    let (at, units) = live.swap_remove(which.index(live.len()));
                    prop_assert_eq!(length(&words, at, all), Some(units));
                    give(&mut words, at, units);
                    slow[at..at + units].fill(0);
                    continue;
                }
                let units = units.min(all);
                let fits = |at: &usize| at + units <= all && slow[*at..at + units].iter().all(|owner| *owner == 0);
                let expected = (0..all).step_by(1 << align).find(fits);
                let found = find(&words, all, units, 1 << align);
                prop_assert_eq!(found, expected);
                prop_assert_eq!(find_long(&words, all, units, 1 << align), expected);
                if let Some(at) = expected {
                    take(&mut words, at, units);
                    slow[at..at + units].fill(number);
                    live.push((at, units));
                }
            }
        }
    }
}
