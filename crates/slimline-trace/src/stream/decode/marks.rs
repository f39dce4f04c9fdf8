//! Headers found by their mark, without walking from one to the next.
//!
//! To walk is to wait for each header, as it says where the next one is. But of a chunk whose other words are addresses and
//! small numbers, every word with the mark is a header: which these are is known of 64 words at a time, and each can be looked up
//! by itself. Where one does not stand where the one before it ends, some word only looks like a header, or something is damaged.

use super::{Decoder, Program, Visits};

/// Words that are looked at together.
const GROUP: usize = 64;

impl Decoder {
    /// Puts the segments that ran into `visits`, and gives all bits that words without a mark have together. None where it takes a walk;
    /// then what is in `visits` means nothing.
    pub(super) fn decode_by_marks(
        &mut self,
        program: &Program,
        words: &[u64],
        visits: &mut Vec<Visits>,
    ) -> Option<u64> {
        visits.clear();
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
                match visits.last_mut() {
                    Some(visits) if visits.segment == known.segment => visits.times += 1,
                    _ => visits.push(Visits { segment: known.segment, at: at as u32 + 1, times: 1 }),
                }
            }
        }
        (end == words.len()).then_some(others)
    }
}

/// Which words have the mark, a bit each, and all bits of the others. By eights, as compilers then do several at a time.
fn marks(words: &[u64; GROUP]) -> (u64, u64) {
    let (mut marks, mut others) = (0, 0);
    for (at, eight) in (0..).step_by(8).zip(words.as_chunks::<8>().0) {
        let of_eight = eight.iter().enumerate().fold(0, |marks, (at, word)| marks | (word >> 63) << at);
        marks |= of_eight << at;
        others |= eight.iter().fold(0, |others, word| others | word & (word >> 63).wrapping_sub(1));
    }
    (marks, others)
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
        }
    }
}
