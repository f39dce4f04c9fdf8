//! Visits brought together by segment, so that what one instruction accessed is one column of addresses.
//!
//! As long as no block begins or ends it is the same in which order it is asked whose accesses are, but for what an access tells of
//! what is in its block ([`Elements::learned`](super::elements::Elements::learned)): that is known of those that are asked later. So visits of segments that
//! only load and store are collected, up to one that does more to blocks:
//!
//! ```text
//!   visits     A B B C A B A │ malloc │ …           a, b, c: the words of one visit
//!   columns    A: a₁ a₅ a₇   B: b₂ b₃ b₆   C: c₄
//! ```
//!
//! To bring them together costs less than to have each instruction's state at hand one access after the other.

use slimline_trace::stream::decode::{Program, SegmentId, Told, Visits};

use super::plans::{Plan, PlannedAccess, Plans};
use super::spots::Column;

/// Runs of a segment that room is kept for, beyond four times what was needed last.
const MANY: usize = 1 << 12;

/// Visits that are collected.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// By segment.
    runs: Vec<Vec<Run>>,
    /// Those that have any, in the order in which they were first there.
    segments: Vec<SegmentId>,
    /// By the word of the records of one segment: those of all visits. Addresses that other words tell have none.
    words: Vec<Vec<u64>>,
}

/// Visits of one segment that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Index of the first one's first word.
    at: u32,
    times: u32,
    /// A number for the first access, from which others are counted on: that of the first visit's second site is one more.
    pub(super) first: u32,
}

impl Run {
    /// The numbers of a site's accesses, of the site of this index among so many.
    pub(super) fn numbers(self, site: usize, sites: usize) -> impl Iterator<Item = usize> {
        (0..self.times as usize).map(move |visit| self.first as usize + visit * sites + site)
    }
}

impl Columns {
    pub(super) fn make_room(&mut self, segments: usize) {
        self.runs.resize_with(segments, Vec::new);
    }

    /// Collects visits whose words are all there; `first` is for [`Run::first`].
    #[inline]
    pub(super) fn collect(&mut self, visits: Visits, first: u32) {
        let runs = &mut self.runs[visits.segment.0 as usize];
        if runs.is_empty() {
            self.segments.push(visits.segment);
        }
        runs.push(Run { at: visits.at, times: visits.times, first });
    }

    /// Forgets what was collected, and hands on each load and store of it: its index among those of its segment and how many these are, the
    /// segment's runs, and the column of its addresses.
    #[inline]
    pub(super) fn take_each(
        &mut self,
        (program, plans): (&Program, &Plans),
        words: &[u64],
        mut each: impl FnMut(&PlannedAccess, (usize, usize), &[Run], Column<'_>),
    ) {
        self.take(|segment, runs, columns| {
            let visit_words = program.segments()[segment.0 as usize].words;
            let Plan::LoadsAndStores(accesses) = plans.of(segment) else { return };
            columns.iter_mut().for_each(Vec::clear);
            for (index, access) in accesses.iter().enumerate() {
                let Told { word, distance, .. } = access.told;
                let column = column(words, visit_words, runs, word, columns);
                let distance = i64::from(distance.unwrap_or(0)).cast_unsigned();
                each(access, (index, accesses.len()), runs, Column { words: column, distance });
            }
        });
    }

    /// Forgets what was collected, and hands on the runs of each segment.
    fn take(&mut self, mut each: impl FnMut(SegmentId, &[Run], &mut Vec<Vec<u64>>)) {
        for segment in self.segments.drain(..) {
            let runs = &mut self.runs[segment.0 as usize];
            each(segment, runs, &mut self.words);
            if runs.capacity() > MANY.max(4 * runs.len()) {
                *runs = Vec::new();
            }
            runs.clear();
        }
    }
}

/// One of the words of all visits of a segment, of which each has so many. Put together once: `columns` has those that were.
fn column<'a>(words: &[u64], visit_words: u32, runs: &[Run], word: u32, columns: &'a mut Vec<Vec<u64>>) -> &'a [u64] {
    let word = word as usize;
    if columns.len() <= word {
        columns.resize_with(word + 1, Vec::new);
    }
    let column = &mut columns[word];
    if column.is_empty() {
        let step = 1 + visit_words as usize;
        for run in runs {
            let from = run.at as usize + word;
            match run.times {
                1 => column.push(words[from]),
                times => column.extend((0..times as usize).map(|visit| words[from + visit * step])),
            }
        }
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_together_in_their_order() {
        let mut columns = Columns::default();
        columns.make_room(3);
        // Segment 2 has two words, 0 one: headers are 9.
        let words = [9, 10, 11, 9, 12, 13, 9, 20, 9, 14, 15];
        let visit = |segment, at, times| Visits { segment: SegmentId(segment), at, times };
        for _ in 0..2 {
            columns.collect(visit(2, 1, 2), 0);
            columns.collect(visit(0, 7, 1), 4);
            columns.collect(visit(2, 9, 1), 5);
            let mut found = Vec::new();
            columns.take(|segment, runs, columns| {
                let visit_words = if segment.0 == 2 { 2 } else { 1 };
                columns.iter_mut().for_each(Vec::clear);
                for word in 0..visit_words {
                    let numbers = runs.iter().flat_map(|run| run.numbers(word as usize, visit_words as usize));
                    let column = column(&words, visit_words, runs, word, columns);
                    found.push((segment.0, column.to_vec(), numbers.collect::<Vec<_>>()));
                }
            });
            let expected =
                [(2, vec![10, 12, 14], vec![0, 2, 5]), (2, vec![11, 13, 15], vec![1, 3, 6]), (0, vec![20], vec![4])];
            assert_eq!(found, expected);
        }
        columns.take(|_, _, _| panic!("nothing was collected"));
    }
}
