//! Entries of caches, a word each: what a line is called above four bits.
//!
//! Words have 32 bits as long as numbers are small: a set of 16 lines is 64 bytes then, one line of the cache of the machine
//! that this runs on, and the sets of a cache of hundreds of MiB are small enough to be near.

use std::mem::size_of;

/// Changed since it came here.
pub(super) const DIRTY: u64 = 1;
/// Only in first-level data caches: no other core's caches hold the line, and none waits to see what is written to it. A
/// store changes nothing elsewhere.
pub(super) const QUIET: u64 = 2;
/// Fetched unasked and not used since.
pub(super) const UNUSED: u64 = 4;
/// Only in first-level caches: on its way through these a miss is open (see [`Directory`](super::directory::Directory)).
pub(super) const OPEN: u64 = 8;
pub(super) const FLAGS: u64 = DIRTY | QUIET | UNUSED | OPEN;
const NUMBER_SHIFT: u32 = 4;
/// Numbers below fit into words of 32 bits.
pub(super) const MOST_NARROW: u64 = (1 << (u32::BITS - NUMBER_SHIFT)) - 1;
/// Bytes that caches of today keep together.
const HOST_LINE_BYTES: usize = 64;
/// The most words that these are.
pub(super) const HOST_LINE_WORDS: usize = HOST_LINE_BYTES / size_of::<u32>();

/// What a line is called, without flags; 0 is none.
#[inline(always)]
pub(super) fn packed(name: u64) -> u64 {
    (name + 1) << NUMBER_SHIFT
}

/// What the line is called, if there is one.
#[inline(always)]
pub(super) fn name(word: u64) -> Option<u64> {
    (word >> NUMBER_SHIFT).checked_sub(1)
}

/// One entry.
pub(super) trait Word: Copy + Default {
    /// Cut to its width: only where it fits.
    fn new(word: u64) -> Self;

    fn told(self) -> u64;

    /// Whether both are of the same line.
    fn is(self, other: Self) -> bool;
}

impl Word for u32 {
    #[inline(always)]
    fn new(word: u64) -> Self {
        word as Self
    }

    #[inline(always)]
    fn told(self) -> u64 {
        self.into()
    }

    #[inline(always)]
    fn is(self, other: Self) -> bool {
        (self ^ other) & !(FLAGS as Self) == 0
    }
}

impl Word for u64 {
    #[inline(always)]
    fn new(word: u64) -> Self {
        word
    }

    #[inline(always)]
    fn told(self) -> u64 {
        self
    }

    #[inline(always)]
    fn is(self, other: Self) -> bool {
        (self ^ other) & !FLAGS == 0
    }
}

/// All entries of a cache.
#[derive(Debug)]
pub(super) enum Words {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// Does the same with words of either width.
macro_rules! with_words {
    ($words:expr, $name:ident => $work:expr) => {
        match $words {
            Words::Narrow($name) => $work,
            Words::Wide($name) => $work,
        }
    };
}
pub(super) use with_words;

impl Words {
    /// So many empty ones, and which is the first: such that the sets begin where the host's lines do.
    pub(super) fn narrow(lines: usize) -> (Self, usize) {
        let (words, first) = empty(lines);
        (Self::Narrow(words), first)
    }

    /// The same for numbers of any size.
    pub(super) fn wide(lines: usize) -> (Self, usize) {
        let (words, first) = empty(lines);
        (Self::Wide(words), first)
    }

    /// The same entries, the first of which is `first`, for numbers of any size, and which is the first of them.
    pub(super) fn widened(&self, first: usize) -> (Self, usize) {
        with_words!(self, words => {
            let (mut wide, wide_first) = empty::<u64>(words.len() - first);
            for (wide, word) in wide[wide_first..].iter_mut().zip(&words[first..]) {
                *wide = word.told();
            }
            (Self::Wide(wide), wide_first)
        })
    }
}

fn empty<W: Word>(lines: usize) -> (Vec<W>, usize) {
    let more = HOST_LINE_BYTES / size_of::<W>();
    // All zero, so that memory is only taken where it is used.
    let words = vec![W::default(); lines + more];
    let first = words.as_ptr().align_offset(HOST_LINE_BYTES);
    (words, first.min(more))
}

/// Words that are compared together, where the machine that this runs on can.
pub(super) const LANES: usize = 4;

/// Where a line is in its set.
#[inline]
pub(super) fn find<W: Word>(set: &[W], wanted: u64) -> Option<usize> {
    let wanted = W::new(wanted);
    let (lanes, rest) = set.as_chunks::<LANES>();
    for (at, lanes) in lanes.iter().enumerate() {
        let found = lanes.map(|word| word.is(wanted));
        if found.contains(&true) {
            return found.iter().position(|is_it| *is_it).map(|lane| at * LANES + lane);
        }
    }
    rest.iter().position(|word| word.is(wanted)).map(|way| lanes.as_flattened().len() + way)
}

/// Puts a word before all others. What the last one was.
#[inline]
pub(super) fn push<W: Word>(set: &mut [W], word: u64) -> u64 {
    let last = set[set.len() - 1];
    match set.len() {
        7 => push_to::<W, 7>(set),
        11 => push_to::<W, 11>(set),
        15 => push_to::<W, 15>(set),
        length => set.copy_within(..length - 1, 1),
    }
    set[0] = W::new(word);
    last.told()
}

/// Moves all but the last one on.
#[inline(always)]
fn push_to<W: Word, const WAYS: usize>(set: &mut [W]) {
    let Ok(set) = <&mut [W; WAYS]>::try_from(set) else { return };
    let before = *set;
    set[1..].copy_from_slice(&before[..WAYS - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_all_sizes_do_the_same() {
        for ways in 1..=20_u64 {
            let word = |number: u64| packed(number) | (number % 16);
            let mut narrow: Vec<u32> = (0..ways).map(|way| word(way * 1000) as u32).collect();
            let mut wide: Vec<u64> = (0..ways).map(|way| word(way * 1000)).collect();
            for way in 0..ways {
                let wanted = packed(way * 1000);
                let expected = Some(way as usize);
                assert_eq!((find(&narrow, wanted), find(&wide, wanted)), (expected, expected));
            }
            assert_eq!((find(&narrow, packed(7)), find(&wide, packed(7))), (None, None));
            let last = word((ways - 1) * 1000);
            assert_eq!((push(&mut narrow, packed(5)), push(&mut wide, packed(5))), (last, last));
            let expected: Vec<u64> = [packed(5)].into_iter().chain((0..ways - 1).map(|way| word(way * 1000))).collect();
            assert_eq!(wide, expected);
            assert_eq!(narrow.iter().map(|&word| word.told()).collect::<Vec<_>>(), expected);
        }
        assert_eq!((name(0), name(packed(9) | FLAGS)), (None, Some(9)));
    }

    #[test]
    fn wide_ones_hold_the_same() {
        let (mut words, first) = Words::narrow(3);
        if let Words::Narrow(words) = &mut words {
            words[first + 2] = packed(MOST_NARROW - 1) as u32 | FLAGS as u32;
        }
        let (Words::Wide(wide), first) = words.widened(first) else { panic!() };
        assert_eq!(wide[first..first + 3], [0, 0, packed(MOST_NARROW - 1) | FLAGS]);
    }
}
