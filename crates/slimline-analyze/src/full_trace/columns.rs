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

use slimline_trace::stream::decode::{Program, SegmentId, Visits};

use super::plans::{Plan, PlannedAccess, Plans};

/// Runs of a segment that room is kept for, beyond four times what was needed last.
const MANY: usize = 1 << 12;

/// Visits that are collected.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// By segment.
    runs: Vec<Vec<Run>>,
    /// Those that have any, in the order in which they were first there.
    segments: Vec<SegmentId>,
    addresses: Vec<u64>,
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
        mut each: impl FnMut(&PlannedAccess, (usize, usize), &[Run], &[u64]),
    ) {
        self.take(|segment, runs, column| {
            let visit_words = program.segments()[segment.0 as usize].words;
            let Plan::LoadsAndStores(accesses) = plans.of(segment) else { return };
            for (index, access) in accesses.iter().enumerate() {
                gather(words, visit_words, runs, access, column);
                each(access, (index, accesses.len()), runs, column);
            }
        });
    }

    /// Forgets what was collected, and hands on the runs of each segment.
    fn take(&mut self, mut each: impl FnMut(SegmentId, &[Run], &mut Vec<u64>)) {
        for segment in self.segments.drain(..) {
            let runs = &mut self.runs[segment.0 as usize];
            each(segment, runs, &mut self.addresses);
            if runs.capacity() > MANY.max(4 * runs.len()) {
                *runs = Vec::new();
            }
            runs.clear();
        }
    }
}

/// Makes `column` the addresses of a load or store in all visits of its segment, of which each has so many words.
fn gather(words: &[u64], visit_words: u32, runs: &[Run], access: &PlannedAccess, column: &mut Vec<u64>) {
    column.clear();
    let step = 1 + visit_words as usize;
    for run in runs {
        let from = run.at as usize + access.told.word as usize;
        match run.times {
            1 => column.push(access.told.address(words[from])),
            times => {
                let words = words[from..].iter().step_by(step).take(times as usize);
                column.extend(words.map(|word| access.told.address(*word)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::AccessKind;
    use slimline_trace::stream::decode::{SiteId, Told};

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
            columns.take(|segment, runs, column| {
                let visit_words = if segment.0 == 2 { 2 } else { 1 };
                for word in 0..visit_words {
                    // That of segment 0 is told by one 3 bytes before it.
                    let distance = (segment.0 == 0).then_some(3);
                    let told = Told { site: SiteId(0), word, distance };
                    let access = PlannedAccess { told, bytes: 8, kind: AccessKind::Load };
                    gather(&words, visit_words, runs, &access, column);
                    let numbers = runs.iter().flat_map(|run| run.numbers(word as usize, visit_words as usize));
                    found.push((segment.0, column.clone(), numbers.collect::<Vec<_>>()));
                }
            });
            let expected =
                [(2, vec![10, 12, 14], vec![0, 2, 5]), (2, vec![11, 13, 15], vec![1, 3, 6]), (0, vec![23], vec![4])];
            assert_eq!(found, expected);
        }
        columns.take(|_, _, _| panic!("nothing was collected"));
    }
}
