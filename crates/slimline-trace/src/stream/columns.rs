//! Visits brought together by segment, so that what stands in one place of its records is a column.
//!
//! ```text
//!   visits     A B B C A B A          a, b, c: one word of each visit
//!   columns    A: a₁ a₅ a₇   B: b₂ b₃ b₆   C: c₄
//! ```
//!
//! What one instruction accessed follows a pattern, what all of them did does not; and to bring it together costs less than to have each
//! instruction's state at hand one access after the other.

use super::decode::{Program, SegmentId, Visits};

/// Runs of a segment that room is kept for, beyond four times what was needed last.
const MANY: usize = 1 << 12;

/// Visits that are collected.
#[derive(Debug, Default)]
pub struct Columns {
    /// By segment.
    runs: Vec<Vec<Run>>,
    /// Those that have any, in the order in which they were first there.
    segments: Vec<SegmentId>,
    /// By the word of the records of one segment: those of all visits, or nothing as long as nobody asked.
    words: Vec<Vec<u64>>,
}

/// Visits of one segment that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Index of the first one's first word.
    at: u32,
    times: u32,
}

impl Columns {
    /// Makes room for so many segments.
    pub fn make_room(&mut self, segments: usize) {
        self.runs.resize_with(segments, Vec::new);
    }

    /// Collects visits of a segment that there is room for.
    #[inline]
    pub fn collect(&mut self, visits: Visits) {
        let runs = &mut self.runs[visits.segment.0 as usize];
        if runs.is_empty() {
            self.segments.push(visits.segment);
        }
        runs.push(Run { at: visits.at, times: visits.times });
    }

    /// The segments whose visits are collected, in the order in which they were first there.
    pub fn segments(&self) -> &[SegmentId] {
        &self.segments
    }

    /// Forgets what was collected, and hands on what there is of each segment. All words of its visits must be among `words`.
    pub fn take(&mut self, program: &Program, words: &[u64], mut each: impl FnMut(SegmentId, &mut SegmentColumns<'_>)) {
        let Self { runs: by_segment, segments, words: columns } = self;
        for segment in segments.drain(..) {
            let runs = &mut by_segment[segment.0 as usize];
            columns.iter_mut().for_each(Vec::clear);
            let length = program.segments()[segment.0 as usize].words as usize;
            if columns.len() < length {
                columns.resize_with(length, Vec::new);
            }
            let is_single = runs.iter().all(|run| run.times == 1);
            each(segment, &mut SegmentColumns { runs, words, columns: &mut columns[..length], is_single });
            if runs.capacity() > MANY.max(4 * runs.len()) {
                *runs = Vec::new();
            }
            runs.clear();
        }
    }
}

/// All visits of one segment.
#[derive(Debug)]
pub struct SegmentColumns<'a> {
    runs: &'a [Run],
    words: &'a [u64],
    /// By word of a record; those that nobody asked for are empty.
    columns: &'a mut [Vec<u64>],
    /// No run has several visits.
    is_single: bool,
}

impl SegmentColumns<'_> {
    /// One of the words of each visit.
    #[inline]
    pub fn column(&mut self, word: usize) -> &[u64] {
        self.put_together(word);
        &self.columns[word]
    }

    /// All of them.
    pub fn all(&mut self) -> &[Vec<u64>] {
        (0..self.columns.len()).for_each(|word| self.put_together(word));
        self.columns
    }

    fn put_together(&mut self, word: usize) {
        let step = 1 + self.columns.len();
        let column = &mut self.columns[word];
        if !column.is_empty() {
            return;
        }
        let words = &self.words[word..];
        if self.is_single {
            // Half the time of what compilers make of the other.
            column.extend(self.runs.iter().map(|run| words[run.at as usize]));
            return;
        }
        for run in self.runs {
            let from = run.at as usize;
            match run.times {
                1 => column.push(words[from]),
                times => column.extend((0..times as usize).map(|visit| words[from + visit * step])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sites::{ModuleBuilder, Site, SiteKind};
    use super::*;

    #[test]
    fn runs_come_together_in_their_order() {
        let mut builder = ModuleBuilder::new();
        for words in [1, 0, 2] {
            builder.segment(vec![Site::new(SiteKind::Load, 8); words]);
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let mut columns = Columns::default();
        columns.make_room(3);
        // Headers are 9.
        let words = [9, 10, 11, 9, 12, 13, 9, 20, 9, 14, 15, 9, 21];
        let visit = |segment, at, times| Visits { segment: SegmentId(segment), at, times };
        for _ in 0..2 {
            columns.collect(visit(2, 1, 2));
            columns.collect(visit(0, 7, 1));
            columns.collect(visit(2, 9, 1));
            columns.collect(visit(0, 12, 1));
            assert_eq!(columns.segments(), [SegmentId(2), SegmentId(0)]);
            let mut found = Vec::new();
            columns.take(&program, &words, |segment, of_segment| {
                // Asked once, or twice.
                let all = of_segment.all().to_vec();
                for (word, all) in all.iter().enumerate() {
                    let column = of_segment.column(word);
                    assert_eq!(column, all);
                    found.push((segment.0, column.to_vec()));
                }
            });
            let expected = [(2, vec![10, 12, 14]), (2, vec![11, 13, 15]), (0, vec![20, 21])];
            assert_eq!(found, expected);
        }
        columns.take(&program, &words, |_, _| panic!("nothing was collected"));
    }
}
