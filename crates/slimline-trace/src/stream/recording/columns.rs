//! A chunk's words as columns that compress.
//!
//! All words of one place in one segment make a column: the addresses of one site, mostly. Which segments ran is a column
//! too. Numbers are LEB128, so that small ones are short:
//!
//! ```text
//!   count of segments that ran at all, then of each: its header less the mark
//!   count of runs (visits of one segment that follow each other), then of each: index of its segment above,
//!   then of each: its visits - 1
//!   each segment's columns, in the order of its words: a byte, how it is predicted, then for each visit
//!   the difference from the prediction, zigzag
//! ```
//!
//! A column is predicted in the way that makes samples of it shortest ([`Prediction`]), or as it was the last time, if that was short.

use crate::stream::columns::Columns;
use crate::stream::decode::{KnownSegment, Program, SegmentId, Visits};
use crate::stream::record::HEADER_MARK;

/// What a word is expected to be, from those before it in its column; the first one to be 0, and the second one by no stride.
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

fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
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

/// Numbers of one byte that are read at a time.
const SHORT: usize = 8;
/// Numbers that are written at a time.
const BLOCK: usize = 64;
/// Numbers that a prediction is chosen by: so many at the beginning, in the middle and at the end of a column.
const SAMPLE: usize = 16;
/// Bytes of a short column, beside a byte and a quarter for each word: how it is predicted, and the first two words.
const SHORT_BYTES: usize = 1 + 2 * 9;

/// Makes columns of chunks. Keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct ColumnEncoder {
    columns: Columns,
    /// By segment that ran: its index among those.
    index_of: Vec<u64>,
    /// By segment, then word: how its column was predicted the last time, if that made it short.
    predictions: Vec<Vec<Option<Prediction>>>,
    numbers: Vec<u64>,
}

impl ColumnEncoder {
    /// Appends the columns of these visits to `out`.
    pub(super) fn encode(&mut self, program: &Program, words: &[u64], visits: &[Visits], out: &mut Vec<u8>) {
        let Self { columns, index_of, predictions, numbers } = self;
        columns.make_room(program.segments().len());
        index_of.resize(program.segments().len(), 0);
        predictions.resize_with(program.segments().len(), Vec::new);
        visits.iter().for_each(|visits| columns.collect(*visits));
        push_number(out, columns.segments().len() as u64);
        for (index, segment) in (0..).zip(columns.segments()) {
            index_of[segment.0 as usize] = index;
            push_number(out, program.segments()[segment.0 as usize].header & !HEADER_MARK);
        }
        push_number(out, visits.len() as u64);
        numbers.clear();
        numbers.extend(visits.iter().map(|visits| index_of[visits.segment.0 as usize]));
        push_numbers(out, numbers);
        numbers.clear();
        numbers.extend(visits.iter().map(|visits| u64::from(visits.times - 1)));
        push_numbers(out, numbers);
        columns.take(program, words, |segment, of_segment| {
            let columns = of_segment.all();
            let predictions = &mut predictions[segment.0 as usize];
            predictions.resize(columns.len(), None);
            for (word, (column, prediction)) in columns.iter().zip(predictions).enumerate() {
                let neighbors = word.checked_sub(1).map(|before| columns[before].as_slice());
                let chosen = prediction.unwrap_or_else(|| best(column, neighbors));
                let before = out.len();
                out.push(chosen as u8);
                differences(chosen, column, neighbors, numbers);
                // The first two are of nothing before them, and long.
                let (first, rest) = numbers.split_at(numbers.len().min(2));
                let mut bytes = [0; 2 * 10 + 8];
                let end = first.iter().fold(0, |end, number| end + put_number(&mut bytes[end..], *number));
                out.extend_from_slice(&bytes[..end]);
                push_numbers(out, rest);
                *prediction = (out.len() - before <= SHORT_BYTES + column.len() * 5 / 4).then_some(chosen);
            }
        });
    }
}

/// The prediction that makes samples of a column shortest; `neighbors` are the words before those of the column in their records.
fn best(column: &[u64], neighbors: Option<&[u64]>) -> Prediction {
    let last = |at: usize| if at == 0 { 0 } else { column[at - 1] };
    let stride = |at: usize| match at {
        0 | 1 => last(at),
        _ => column[at - 1].wrapping_add(column[at - 1].wrapping_sub(column[at - 2])),
    };
    let neighbor = |at: usize| neighbors.map_or(0, |neighbors| neighbors[at]);
    let difference = |at: usize, expected: u64| zigzag(column[at].wrapping_sub(expected));
    let (middle, end) = (column.len() / 2, column.len());
    let sample = || (0..SAMPLE).chain(middle..middle + SAMPLE).chain(end.saturating_sub(SAMPLE)..end);
    let bytes = |prediction: &Prediction| -> u32 {
        let lengths = sample().filter(|at| *at < end).map(|at| match prediction {
            Prediction::Last => length(difference(at, last(at))),
            Prediction::Stride => length(difference(at, stride(at))),
            Prediction::Neighbor => length(difference(at, neighbor(at))),
        });
        lengths.sum()
    };
    PREDICTIONS.into_iter().min_by_key(bytes).unwrap_or(Prediction::Last)
}

/// Puts how far a column is from its prediction into `out` (cleared first).
fn differences(prediction: Prediction, column: &[u64], neighbors: Option<&[u64]>, out: &mut Vec<u64>) {
    out.clear();
    let from_last = |pair: &[u64; 2]| zigzag(pair[1].wrapping_sub(pair[0]));
    match (prediction, neighbors) {
        (Prediction::Neighbor, Some(neighbors)) => {
            out.extend(column.iter().zip(neighbors).map(|(word, neighbor)| zigzag(word.wrapping_sub(*neighbor))));
        }
        (Prediction::Neighbor, None) => out.extend(column.iter().map(|word| zigzag(*word))),
        (Prediction::Last, _) => {
            out.extend(column.first().map(|first| zigzag(*first)));
            out.extend(column.array_windows().map(from_last));
        }
        (Prediction::Stride, _) => {
            out.extend(column.first().map(|first| zigzag(*first)));
            out.extend(column.array_windows().take(1).map(from_last));
            out.extend(column.array_windows().map(|[first, second, third]| {
                zigzag(third.wrapping_sub(*second).wrapping_sub(second.wrapping_sub(*first)))
            }));
        }
    }
}

/// Appends numbers.
fn push_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    for numbers in numbers.chunks(BLOCK) {
        // Most blocks have small numbers only.
        if numbers.iter().fold(0, |all, number| all | number) < 0x80 {
            out.extend(numbers.iter().map(|number| *number as u8));
        } else {
            push_long_numbers(out, numbers);
        }
    }
}

/// Appends up to [`BLOCK`] numbers of any length.
fn push_long_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    // A number has up to 10 bytes; short ones are written by eight.
    let mut bytes = [0; BLOCK * 10 + 8];
    let mut end = 0;
    for number in numbers {
        end += put_number(&mut bytes[end..], *number);
    }
    out.extend_from_slice(&bytes[..end]);
}

/// Writes a number to the beginning of `bytes`, which must be 10 or more; how many it takes.
fn put_number(bytes: &mut [u8], number: u64) -> usize {
    let length = length(number) as usize;
    if length > 8 {
        for (at, byte) in bytes[..length].iter_mut().enumerate() {
            let more = if at + 1 < length { 0x80 } else { 0 };
            *byte = (number >> (7 * at)) as u8 & 0x7f | more;
        }
        return length;
    }
    // Eight groups of seven bits become bytes: halves, quarters, eighths.
    let halves = number & 0x0fff_ffff | number << 4 & 0x0fff_ffff_0000_0000;
    let quarters = halves & 0x3fff_0000_3fff | halves << 2 & 0x3fff_0000_3fff_0000;
    let eighths = quarters & 0x7f_007f_007f_007f | quarters << 1 & 0x7f00_7f00_7f00_7f00;
    let more = 0x8080_8080_8080_8080 & ((1 << (8 * (length - 1))) - 1);
    bytes[..8].copy_from_slice(&(eighths | more).to_le_bytes());
    length
}

/// Makes chunks of columns again. Keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct ColumnDecoder {
    /// The segments that ran.
    segments: Vec<(SegmentId, KnownSegment)>,
    /// By their indexes, the runs of each.
    runs: Vec<Vec<Visits>>,
    indexes: Vec<u64>,
    times: Vec<u64>,
    differences: Vec<u64>,
}

impl ColumnDecoder {
    /// Puts the words of a chunk, and what ran, into `words` and `visits` in the place of what is there. None where the columns make no
    /// chunk of at most `most_words`.
    pub(super) fn decode(
        &mut self,
        program: &Program,
        mut bytes: &[u8],
        most_words: usize,
        (words, visits): (&mut Vec<u64>, &mut Vec<Visits>),
    ) -> Option<()> {
        let input = &mut bytes;
        visits.clear();
        self.segments.clear();
        let count = usize::try_from(number(input)?).ok().filter(|count| *count <= most_words)?;
        for index in 0..count {
            let id = program.segment_of(number(input)? | HEADER_MARK)?;
            self.segments.push((id, program.segments()[id.0 as usize]));
            match self.runs.get_mut(index) {
                Some(runs) => runs.clear(),
                None => self.runs.push(Vec::new()),
            }
        }
        // Each has a word, if only a header.
        let count = usize::try_from(number(input)?).ok().filter(|count| *count <= most_words)?;
        numbers(input, count, &mut self.indexes)?;
        numbers(input, count, &mut self.times)?;
        let mut end = 0;
        for (&index, &times) in self.indexes.iter().zip(&self.times) {
            let (segment, known) = self.segments.get(index as usize)?;
            let times = times.checked_add(1)?;
            let run = Visits { segment: *segment, at: end as u32 + 1, times: u32::try_from(times).ok()? };
            let length = times.checked_mul(1 + u64::from(known.words))?;
            if length > (most_words - end) as u64 {
                return None;
            }
            end += length as usize;
            visits.push(run);
            self.runs[index as usize].push(run);
        }
        // Each is written below: it is a header, or of a column.
        words.resize(end, 0);
        for ((_, known), runs) in self.segments.iter().zip(&self.runs) {
            let step = 1 + known.words as usize;
            for run in runs {
                run.places(known.words).for_each(|first| words[first - 1] = known.header);
            }
            let cells = runs.iter().map(|run| run.times as usize).sum();
            for word in 0..known.words as usize {
                let (&prediction, rest) = input.split_first()?;
                *input = rest;
                numbers(input, cells, &mut self.differences)?;
                let cells = Cells { runs, word, step, differences: &self.differences };
                match PREDICTIONS.into_iter().find(|known| *known as u8 == prediction)? {
                    Prediction::Neighbor if word == 0 => {
                        cells.each(|cell, difference| words[cell] = difference);
                    }
                    Prediction::Neighbor => {
                        cells.each(|cell, difference| words[cell] = words[cell - 1].wrapping_add(difference));
                    }
                    Prediction::Last => {
                        let mut last = 0_u64;
                        cells.each(|cell, difference| {
                            last = last.wrapping_add(difference);
                            words[cell] = last;
                        });
                    }
                    Prediction::Stride => {
                        // As if it had come from 0 to the first one and back: the second one is by no stride.
                        let mut last = self.differences.first().map_or(0, |first| unzigzag(*first));
                        let mut stride = last.wrapping_neg();
                        cells.each(|cell, difference| {
                            stride = stride.wrapping_add(difference);
                            last = last.wrapping_add(stride);
                            words[cell] = last;
                        });
                    }
                }
            }
        }
        input.is_empty().then_some(())
    }
}

/// One word of each visit of a segment.
struct Cells<'a> {
    runs: &'a [Visits],
    /// Which one.
    word: usize,
    /// From the words of a visit to those of the next one.
    step: usize,
    /// By visit, zigzag.
    differences: &'a [u64],
}

impl Cells<'_> {
    /// Each one's index, and how far it is from its prediction.
    #[inline]
    fn each(&self, mut each: impl FnMut(usize, u64)) {
        let mut differences = self.differences;
        for run in self.runs {
            let first = run.at as usize + self.word;
            let (own, rest) = differences.split_at(run.times as usize);
            for (visit, difference) in own.iter().enumerate() {
                each(first + visit * self.step, unzigzag(*difference));
            }
            differences = rest;
        }
    }
}

/// Puts so many numbers into `out` (cleared first). None where there are not as many.
fn numbers(input: &mut &[u8], count: usize, out: &mut Vec<u64>) -> Option<()> {
    out.clear();
    while out.len() < count {
        // Most have one byte.
        while count - out.len() >= SHORT
            && let Some((bytes, rest)) = input.split_first_chunk::<SHORT>()
            && bytes.iter().all(|byte| *byte < 0x80)
        {
            out.extend(bytes.map(u64::from));
            *input = rest;
        }
        for _ in 0..SHORT.min(count - out.len()) {
            out.push(number(input)?);
        }
    }
    Some(())
}

#[inline]
pub(super) fn number(input: &mut &[u8]) -> Option<u64> {
    // Most are short.
    if let [byte @ ..0x80, rest @ ..] = *input {
        *input = rest;
        return Some(u64::from(*byte));
    }
    if let Some((eight, _)) = input.split_first_chunk()
        && let Some((number, bytes)) = number_within(u64::from_le_bytes(*eight))
    {
        *input = &input[bytes..];
        return Some(number);
    }
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

/// The number that eight bytes begin with, and how many are its own; none where it has more. Whatever its length, the same is done.
#[inline]
fn number_within(eight: u64) -> Option<(u64, usize)> {
    let ends = !eight & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    let last_bit = ends.trailing_zeros();
    // Bytes of seven bits become pairs, fours, one number.
    let own = eight & u64::MAX >> (63 - last_bit) & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = own & 0x007f_007f_007f_007f | (own & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let number = fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Some((number, last_bit as usize / 8 + 1))
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

    /// The words; they must be of the visits that are told.
    fn decode(program: &Program, bytes: &[u8], most_words: usize) -> Option<Vec<u64>> {
        let (mut words, mut visits, mut again) = (vec![7], Vec::new(), Vec::new());
        ColumnDecoder::default().decode(program, bytes, most_words, (&mut words, &mut visits))?;
        // Runs that others wrote may follow on each other.
        let all = |visits: &[Visits]| {
            let of_run = |run: &Visits| {
                let segment = run.segment;
                run.places(program.segments()[segment.0 as usize].words).map(move |at| (segment, at))
            };
            visits.iter().flat_map(of_run).collect::<Vec<_>>()
        };
        Decoder::new().decode(program, &words, false, &mut again);
        assert_eq!(all(&visits), all(&again));
        Some(words)
    }

    fn encoded(program: &Program, words: &[u64]) -> Vec<u8> {
        let (mut visits, mut out) = (Vec::new(), Vec::new());
        Decoder::new().decode(program, words, false, &mut visits);
        ColumnEncoder::default().encode(program, words, &visits, &mut out);
        out
    }

    #[test]
    fn numbers_are_leb128() {
        for shift in 0..64 {
            let powers = [(1_u64 << shift) - 1, 1 << shift, (1 << shift) + 1];
            let (mut singly, mut together) = (Vec::new(), Vec::new());
            powers.iter().for_each(|power| push_number(&mut singly, *power));
            push_numbers(&mut together, &powers);
            assert_eq!(singly, together, "{powers:?}");
        }
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

        /// Of a chunk's columns some bytes are others, or gone.
        #[test]
        fn any_bytes_are_survived(
            others in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            left in any::<prop::sample::Index>(),
        ) {
            let (program, h) = program();
            let words: Vec<u64> = (0..20).flat_map(|i| [h[0], 0x1000 + i * 8, h[1], i, i * i, 7, h[2]]).collect();
            let mut bytes = encoded(&program, &words);
            for (at, other) in others {
                let at = at.index(bytes.len());
                bytes[at] = other;
            }
            bytes.truncate(left.index(2 * bytes.len()));
            if let Some(words) = decode(&program, &bytes, 1 << 12) {
                prop_assert!(words.len() <= 1 << 12);
            }
        }
    }
}
