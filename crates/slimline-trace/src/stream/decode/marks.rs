//! Headers found by their mark, without walking from one to the next.
//!
//! To walk is to wait for each header, as it says where the next one is. But of a chunk whose other words are addresses and
//! small numbers, every word with the mark is a header: which these are is known of 64 words at a time, and each can be looked up
//! by itself. Where one does not stand where the one before it ends, some word only looks like a header, or something is damaged.
#![allow(unsafe_code)] // instructions that not every processor has

use std::arch::x86_64::{
    _mm_extract_epi64, _mm_or_si128, _mm256_andnot_si256, _mm256_castsi256_pd, _mm256_castsi256_si128,
    _mm256_cmpgt_epi64, _mm256_extracti128_si256, _mm256_movemask_pd, _mm256_or_si256, _mm256_set_epi64x,
    _mm256_setzero_si256,
};

use super::{Decoder, Program, SegmentId};

/// Words that are looked at together.
const GROUP: usize = 64;

impl Decoder {
    /// Hands on each segment that ran and where its header is, and gives all bits that words without a mark have together. None where it
    /// takes a walk; then what was handed on means nothing.
    #[inline(always)]
    pub(super) fn by_marks(
        &mut self,
        program: &Program,
        words: &[u64],
        mut each: impl FnMut(SegmentId, u32),
    ) -> Option<u64> {
        let (mut end, mut others) = (0, 0);
        let (groups, rest) = words.as_chunks::<GROUP>();
        let mut last = [0; GROUP];
        last[..rest.len()].copy_from_slice(rest);
        for (group, part) in groups.iter().chain([&last]).enumerate() {
            let (mut marks, unmarked) = marks(part);
            others |= unmarked;
            while marks != 0 {
                let bit = marks.trailing_zeros() as usize;
                marks &= marks - 1;
                let at = group * GROUP + bit;
                let known = self.known(program, part[bit])?;
                if at != end {
                    return None;
                }
                end = at + known.length as usize;
                each(known.segment, at as u32);
            }
        }
        (end == words.len()).then_some(others)
    }
}

/// Which words have the mark, a bit each, and all bits of the others.
#[inline]
fn marks(words: &[u64; GROUP]) -> (u64, u64) {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function may use.
        unsafe { marks_by_fours(words) }
    } else {
        marks_by_ones(words)
    }
}

fn marks_by_ones(words: &[u64; GROUP]) -> (u64, u64) {
    (0..).zip(words).fold((0, 0), |(marks, others), (at, word)| match word >> 63 {
        0 => (marks, others | word),
        _ => (marks | 1 << at, others),
    })
}

/// A quarter of the time of what compilers make of [`marks_by_ones`].
#[target_feature(enable = "avx2")]
fn marks_by_fours(words: &[u64; GROUP]) -> (u64, u64) {
    let none = _mm256_setzero_si256();
    let (mut marks, mut others) = (0, none);
    for (at, four) in (0..).step_by(4).zip(words.as_chunks::<4>().0) {
        let [a, b, c, d] = four.map(u64::cast_signed);
        let four = _mm256_set_epi64x(d, c, b, a);
        let of_four = _mm256_movemask_pd(_mm256_castsi256_pd(four));
        marks |= u64::from(of_four.cast_unsigned()) << at;
        let is_marked = _mm256_cmpgt_epi64(none, four);
        others = _mm256_or_si256(others, _mm256_andnot_si256(is_marked, four));
    }
    let others = _mm_or_si128(_mm256_castsi256_si128(others), _mm256_extracti128_si256::<1>(others));
    (marks, (_mm_extract_epi64::<0>(others) | _mm_extract_epi64::<1>(others)).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_are_those_of_each_word(words in proptest::collection::vec(any::<u64>(), GROUP)) {
            let words: [u64; GROUP] = words.try_into().unwrap();
            let expected = (0..GROUP).filter(|at| words[*at] >> 63 != 0).map(|at| 1 << at).sum::<u64>();
            let others = words.iter().filter(|word| *word >> 63 == 0).fold(0, |others, word| others | word);
            prop_assert_eq!(marks(&words), (expected, others));
            prop_assert_eq!(marks_by_ones(&words), (expected, others));
        }
    }
}
