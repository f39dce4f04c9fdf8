//! Whether a trace can be one: the checker of what all other analyses rely on.

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SegmentId};
use slimline_trace::stream::record::ADDRESSES_END;
use slimline_trace::stream::sites::SiteKind;

use super::TraceBatch;

/// What was found wrong, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// Addresses that no program has.
    pub bad_addresses: u64,
    /// Chunks that do not follow the one before of their stream.
    pub sequence_gaps: u64,
    /// Records whose words are not all there.
    pub short_records: u64,
}

impl Violations {
    /// All together.
    pub fn count(&self) -> u64 {
        self.bad_addresses + self.sequence_gaps + self.short_records
    }
}

/// Checks each batch. (What has no known header is counted where chunks are decoded; blocks that are freed and not known,
/// where the heap is followed.)
#[derive(Debug, Default)]
pub struct Checks {
    violations: Violations,
    next: FxHashMap<(u32, u32), u64>,
    /// By segment: which of its words are addresses, a bit each.
    addresses: Vec<u64>,
}

impl Checks {
    pub(super) fn update(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        for segment in self.addresses.len()..program.segments().len() {
            self.addresses.push(address_words(program, SegmentId(segment as u32)));
        }
        // A chunk may come in several batches.
        let next = self.next.entry((batch.process, batch.stream)).or_insert(0);
        self.violations.sequence_gaps += u64::from(![*next, next.wrapping_sub(1)].contains(&batch.sequence));
        *next = batch.sequence.wrapping_add(1);
        if batch.is_plain || is_beyond_doubt(program, batch) {
            return;
        }
        for visits in batch.visits {
            let index = visits.segment.0 as usize;
            let count = program.segments()[index].words;
            let is_address = self.addresses[index];
            for words in batch.words_of_each(*visits, count) {
                self.violations.short_records += u64::from(words.len() != count as usize);
                let is_bad = |(at, word): &(usize, &u64)| is_address >> at & 1 != 0 && **word >= ADDRESSES_END;
                self.violations.bad_addresses += words.iter().enumerate().filter(is_bad).count() as u64;
            }
        }
    }

    /// What was found.
    pub fn violations(&self) -> Violations {
        self.violations
    }
}

/// Whether all words of a batch but its headers are below [`ADDRESSES_END`], as in most chunks: what no header is has no
/// mark, and there are no more marks than headers. That needs no look at records.
fn is_beyond_doubt(program: &Program, batch: &TraceBatch<'_>) -> bool {
    let first = batch.visits.first().map_or(0, |first| first.at as usize - 1);
    let Some(words) = batch.words.get(first..program.records_end(batch.visits).max(first)) else { return false };
    let headers: u64 = batch.visits.iter().map(|visits| u64::from(visits.times)).sum();
    let (mut marks, mut others) = (0, 0);
    for word in words {
        let mark = word >> 63;
        marks += mark;
        others |= word & mark.wrapping_sub(1);
    }
    marks == headers && others < ADDRESSES_END
}

fn address_words(program: &Program, segment: SegmentId) -> u64 {
    let mut bits = 0;
    for (told, site) in program.sites_of(segment) {
        let own: u64 = match site.kind {
            SiteKind::Enter | SiteKind::Leave | SiteKind::Untraced | SiteKind::Acquire | SiteKind::Resumes => 0,
            SiteKind::Region | SiteKind::Unwatch | SiteKind::Forks | SiteKind::Inherits => 0,
            // Lanes that are left out may have any address.
            SiteKind::Gather | SiteKind::Scatter => 0,
            SiteKind::Copy => 0b11,
            _ => 1,
        };
        bits |= own.checked_shl(told.word).unwrap_or(0);
    }
    bits
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::Site;

    use super::super::tests::Run;
    use super::*;

    #[test]
    fn addresses_are_told_from_other_words() {
        let site = |kind| Site::new(kind, 8);
        let mut run = Run::new(&[&[site(SiteKind::Load), site(SiteKind::Copy), site(SiteKind::Store)]]);
        run.visit(0, &[8, 16, 24, u64::MAX, 32]);
        run.visit(0, &[ADDRESSES_END, 16, 24, 1, 1 << 60]);
        run.visit(0, &[8, 16, 1 << 57, 1, 8]);
        let mut checks = Checks::default();
        checks.update(run.program(), &run.batch());
        assert_eq!(checks.violations(), Violations { bad_addresses: 3, ..Violations::default() });
    }

    #[test]
    fn an_address_is_no_header() {
        let mut run = Run::new(&[&[Site::new(SiteKind::Load, 8)]]);
        run.visit(0, &[ADDRESSES_END - 1]);
        let found = |run: &Run| {
            let mut checks = Checks::default();
            checks.update(run.program(), &run.batch());
            checks.violations()
        };
        assert_eq!(found(&run), Violations::default());
        let header = run.program().segments()[0].header;
        run.visit(0, &[header]);
        assert_eq!(found(&run), Violations { bad_addresses: 1, ..Violations::default() });
        let batch = run.batch();
        let short = TraceBatch { words: &batch.words[..3], ..batch };
        let mut checks = Checks::default();
        checks.update(run.program(), &short);
        assert_eq!(checks.violations(), Violations { short_records: 1, ..Violations::default() });
    }

    #[test]
    fn chunks_follow_each_other() {
        let run = Run::new(&[&[Site::new(SiteKind::Load, 8)]]);
        let mut checks = Checks::default();
        for (stream, sequence) in [(0, 0), (1, 0), (0, 1), (0, 1), (0, 3), (0, 4), (1, 1)] {
            checks.update(run.program(), &TraceBatch { stream, sequence, ..run.batch() });
        }
        assert_eq!(checks.violations(), Violations { sequence_gaps: 1, ..Violations::default() });
    }
}
