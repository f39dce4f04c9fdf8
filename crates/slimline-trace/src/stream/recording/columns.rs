//! A chunk's words as columns that compress.
//!
//! All words of one place in one segment make a column: the addresses of one site, mostly. Which segments ran is a column
//! too. Numbers are LEB128, so that small ones are short:
//!
//! ```text
//!   count of segments that ran at all, then of each: its header less the mark
//!   count of visits, then of each: index of its segment above
//!   each segment's columns, in the order of its words: a byte, how it is predicted, then for each visit
//!   the difference from the prediction, zigzag
//! ```
//!
//! A column is predicted in the way that makes it shortest ([`Prediction`]).

use std::collections::HashMap;

use crate::stream::decode::{Program, Visit};
use crate::stream::record::HEADER_MARK;

/// What a word is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Prediction {
    /// What it was the last time.
    Last = 0,
    /// As far from the last time as that was from the time before: a walk over an array.
    Stride = 1,
    /// The word before it in the record: another field of one object.
    Neighbor = 2,
}

const PREDICTIONS: [Prediction; 3] = [Prediction::Neighbor, Prediction::Stride, Prediction::Last];

/// A column is predicted from what came before in it: 0 at first, and no stride before the third.
#[derive(Clone, Copy, Default)]
struct Past {
    last: u64,
    before: u64,
    has_begun: bool,
}

impl Past {
    fn predict(self, prediction: Prediction, neighbor: u64) -> u64 {
        match prediction {
            Prediction::Last => self.last,
            Prediction::Stride => self.last.wrapping_add(self.last.wrapping_sub(self.before)),
            Prediction::Neighbor => neighbor,
        }
    }

    fn push(&mut self, word: u64) {
        *self = Self { last: word, before: if self.has_begun { self.last } else { word }, has_begun: true };
    }
}

fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Bytes of a number.
fn length(number: u64) -> u32 {
    (64 - (number | 1).leading_zeros()).div_ceil(7)
}

/// Appends the columns of these visits to `out`.
pub(super) fn encode(program: &Program, words: &[u64], visits: &[Visit], out: &mut Vec<u8>) {
    let mut index_of: HashMap<u32, u32> = HashMap::new();
    let mut segments: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut indexes = Vec::with_capacity(visits.len());
    let mut last = (u32::MAX, 0);
    for visit in visits {
        let segment = visit.segment.0;
        if segment != last.0 {
            let index = *index_of.entry(segment).or_insert_with(|| {
                segments.push((segment, Vec::new()));
                segments.len() as u32 - 1
            });
            last = (segment, index);
        }
        indexes.push(last.1);
        segments[last.1 as usize].1.push(visit.at);
    }
    push_number(out, segments.len() as u64);
    for (segment, _) in &segments {
        push_number(out, program.segments()[*segment as usize].header & !HEADER_MARK);
    }
    push_number(out, visits.len() as u64);
    indexes.iter().for_each(|index| push_number(out, u64::from(*index)));
    for (segment, places) in &segments {
        for word in 0..program.segments()[*segment as usize].words {
            column(words, places, word as usize, out);
        }
    }
}

fn column(words: &[u64], places: &[u32], word: usize, out: &mut Vec<u8>) {
    let at = |place: &u32| *place as usize + word;
    let neighbor = |place: &u32| if word == 0 { 0 } else { words[at(place) - 1] };
    let differences = |prediction: Prediction| {
        let mut past = Past::default();
        places.iter().map(move |place| {
            let value = words[at(place)];
            let difference = value.wrapping_sub(past.predict(prediction, neighbor(place)));
            past.push(value);
            zigzag(difference)
        })
    };
    let bytes = |prediction: &Prediction| differences(*prediction).map(|number| u64::from(length(number))).sum::<u64>();
    let best = PREDICTIONS.into_iter().min_by_key(bytes).unwrap_or(Prediction::Last);
    out.push(best as u8);
    differences(best).for_each(|number| push_number(out, number));
}

/// Takes the columns apart again: the words of a chunk. None where they make none of at most `most_words`.
pub(super) fn decode(program: &Program, mut bytes: &[u8], most_words: usize) -> Option<Vec<u64>> {
    let input = &mut bytes;
    let count = usize::try_from(number(input)?).ok()?;
    let mut segments = Vec::new();
    for _ in 0..count {
        let header = number(input)? | HEADER_MARK;
        segments.push((header, program.segment_of(header)?.words as usize, Vec::new()));
    }
    let count = usize::try_from(number(input)?).ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (header, length, places) = segments.get_mut(usize::try_from(number(input)?).ok()?)?;
        if words.len() + 1 + *length > most_words {
            return None;
        }
        words.push(*header);
        places.push(words.len());
        words.resize(words.len() + *length, 0);
    }
    for (_, length, places) in &segments {
        for word in 0..*length {
            let (&prediction, rest) = input.split_first()?;
            *input = rest;
            let prediction = PREDICTIONS.into_iter().find(|known| *known as u8 == prediction)?;
            let mut past = Past::default();
            for place in places {
                let neighbor = if word == 0 { 0 } else { words[place + word - 1] };
                let value = unzigzag(number(input)?).wrapping_add(past.predict(prediction, neighbor));
                past.push(value);
                words[place + word] = value;
            }
        }
    }
    input.is_empty().then_some(words)
}

fn number(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stream::decode::Decoder;
    use crate::stream::sites::{ModuleBuilder, Site, SiteKind};

    fn program() -> (Program, Vec<u64>) {
        let mut builder = ModuleBuilder::new();
        for loads in [1, 3, 0] {
            builder.segment(vec![Site::new(SiteKind::Load, 8); loads]);
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let headers = program.segments().iter().map(|segment| segment.header).collect();
        (program, headers)
    }

    fn encoded(program: &Program, words: &[u64]) -> Vec<u8> {
        let (mut visits, mut out) = (Vec::new(), Vec::new());
        Decoder::new().decode(program, words, false, &mut visits);
        encode(program, words, &visits, &mut out);
        out
    }

    #[test]
    fn each_prediction_has_its_pattern() {
        let (program, h) = program();
        let walk: Vec<u64> = (0..100).flat_map(|i| [h[0], 0x10_0000 + i * 24]).collect();
        let bytes = encoded(&program, &walk);
        // Two visits of the array's beginning, then zeros.
        assert_eq!(bytes[bytes.len() - 98..], [0; 98]);
        let chase = |i: u64| (0x5000_0000 + i * 7919 % 1024 * 64, i);
        let fields: Vec<u64> = (0..100).map(chase).flat_map(|(a, _)| [h[1], a, a + 8, a + 16]).collect();
        let bytes = encoded(&program, &fields);
        assert_eq!(bytes[bytes.len() - 101..], [&[2_u8][..], &[16; 100]].concat());
        assert_eq!(decode(&program, &bytes, fields.len()).unwrap(), fields);
        assert_eq!(decode(&program, &bytes, fields.len() - 1), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(records in proptest::collection::vec((0..3_usize, any::<[u64; 3]>()), 0..100)) {
            let (program, headers) = program();
            let lengths = [1, 3, 0];
            let words: Vec<u64> = records.iter().flat_map(|(segment, words)| {
                std::iter::once(headers[*segment]).chain(words[..lengths[*segment]].iter().copied()).collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(decode(&program, &encoded(&program, &words), 1 << 15), Some(words));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (program, _) = program();
            if let Some(words) = decode(&program, &bytes, 1 << 12) {
                prop_assert!(words.len() <= 1 << 12);
            }
        }
    }
}
