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

/// What the line is called, of a word that is not empty.
#[inline(always)]
pub(super) fn name(word: u64) -> u64 {
    (word >> NUMBER_SHIFT) - 1
}

/// One entry.
pub(super) trait Word: Copy + Default {
    /// Cut to its width: only where it fits.
    fn new(word: u64) -> Self;

    fn told(self) -> u64;

    /// Which of these are of the line that is wanted, a bit each.
    fn are(words: &[Self; LANES], wanted: Self) -> u32;
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

    /// Compilers make one comparison of it.
    #[inline(always)]
    fn are(words: &[Self; LANES], wanted: Self) -> u32 {
        let is = words.map(|word| if word & !(FLAGS as Self) == wanted { Self::MAX } else { 0 });
        is[0] & 1 | is[1] & 2 | is[2] & 4 | is[3] & 8
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
    fn are(words: &[Self; LANES], wanted: Self) -> u32 {
        let is = words.map(|word| u32::from(word ^ wanted <= FLAGS));
        is[0] | is[1] << 1 | is[2] << 2 | is[3] << 3
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

/// Where a line is among these, of which there are [`LANES`] or a multiple of that.
#[inline(always)]
pub(super) fn find<W: Word>(words: &[W], wanted: u64) -> Option<usize> {
    let wanted = W::new(wanted);
    let mut at = 0;
    for lanes in words.as_chunks::<LANES>().0 {
        let bits = W::are(lanes, wanted);
        if bits != 0 {
            return Some(at + bits.trailing_zeros() as usize);
        }
        at += LANES;
    }
    None
}

/// Puts a word before all others, of which the first `used` are in use: what the last one of these was.
#[inline(always)]
pub(super) fn push<W: Word>(words: &mut [W], used: usize, word: u64) -> u64 {
    match words.len() {
        4 => push_to::<W, 4>(words, used, word),
        8 => push_to::<W, 8>(words, used, word),
        12 => push_to::<W, 12>(words, used, word),
        16 => push_to::<W, 16>(words, used, word),
        length => {
            let last = words[used - 1];
            words.copy_within(..length - 1, 1);
            words[0] = W::new(word);
            if let Some(unused) = words.get_mut(used) {
                *unused = W::default();
            }
            last.told()
        }
    }
}

/// The same of so many.
#[inline(always)]
fn push_to<W: Word, const WORDS: usize>(words: &mut [W], used: usize, word: u64) -> u64 {
    let Ok(words) = <&mut [W; WORDS]>::try_from(words) else { return 0 };
    let before = *words;
    *words = std::array::from_fn(|at| if at == 0 { W::new(word) } else { before[at - 1] });
    match words.get_mut(used) {
        Some(unused) => std::mem::take(unused).told(),
        None => before[WORDS - 1].told(),
    }
}

/// Puts a word before all others, in the place of the one at `from`.
#[inline(always)]
pub(super) fn to_front<W: Word>(words: &mut [W], from: usize, word: u64) {
    // Where it is differs from one to the next, so that a branch for each would be guessed wrong.
    let mut newer = W::new(word);
    for (lanes, at) in words.as_chunks_mut::<LANES>().0.iter_mut().zip((0..).step_by(LANES)) {
        if at > from {
            break;
        }
        let before = *lanes;
        for (lane, word) in lanes.iter_mut().enumerate() {
            let moved = if lane == 0 { newer } else { before[lane - 1] };
            *word = if at + lane <= from { moved } else { before[lane] };
        }
        newer = before[LANES - 1];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_all_sizes_do_the_same() {
        for (words, used) in (1..=24_usize).map(|used| (used.next_multiple_of(LANES), used)) {
            let word = |number: usize| packed(number as u64 * 1000) | (number as u64 % 16);
            let in_use: Vec<u64> = (0..used).map(word).collect();
            let of_all = |mut all: Vec<u64>| {
                all.resize(words, 0);
                all
            };
            let wide = of_all(in_use.clone());
            let narrow: Vec<u32> = wide.iter().map(|word| *word as u32).collect();
            for way in 0..used {
                let wanted = packed(way as u64 * 1000);
                assert_eq!((find(&narrow, wanted), find(&wide, wanted)), (Some(way), Some(way)));
                let (mut narrow, mut wide) = (narrow.clone(), wide.clone());
                to_front(&mut narrow, way, packed(5));
                to_front(&mut wide, way, packed(5));
                let mut expected = in_use.clone();
                expected.remove(way);
                expected.insert(0, packed(5));
                assert_eq!(wide, of_all(expected));
                assert_eq!(narrow.iter().map(|&word| word.told()).collect::<Vec<_>>(), wide);
            }
            assert_eq!((find(&narrow, packed(7)), find(&wide, packed(7))), (None, None));
            let (mut narrow, mut wide) = (narrow, wide);
            let last = word(used - 1);
            assert_eq!((push(&mut narrow, used, packed(5)), push(&mut wide, used, packed(5))), (last, last));
            let expected: Vec<u64> = [packed(5)].into_iter().chain(in_use[..used - 1].iter().copied()).collect();
            assert_eq!(wide, of_all(expected));
            assert_eq!(narrow.iter().map(|&word| word.told()).collect::<Vec<_>>(), wide);
        }
        assert_eq!(name(packed(9) | FLAGS), 9);
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
