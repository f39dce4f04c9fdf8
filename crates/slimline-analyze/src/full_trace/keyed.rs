//! Accesses of collected visits, written in their order once it is known whose they are.
//!
//! ```text
//!   visits            A B B C A …
//!   keys, by column   A: one, B: one, C: of each visit
//!   accesses          a₁ b₁ b₂ c₁ a₂ …
//! ```
//!
//! Mostly all visits of an instruction that were collected have one key; what is written of such a segment is its words and constants.

use slimline_simulate::access::{Access, AccessKind, Work};
use slimline_trace::stream::columns::Columns;
use slimline_trace::stream::decode::{Program, SiteId, Visits};

use super::plans::{PlannedAccess, Plans, take_each};
use super::spots::Column;

/// Visits whose accesses are to be written.
#[derive(Debug, Default)]
pub(super) struct Collected {
    columns: Columns,
    /// In their order.
    runs: Vec<Visits>,
    /// Accesses between them, each with how many runs are before it.
    others: Vec<(usize, Access)>,
    /// By index of a planned access: what all of its accesses have in common.
    commons: Vec<Common>,
    /// Of planned accesses whose visits have several keys: those, in their order.
    keys: Vec<u32>,
}

/// What accesses of one instruction have in common.
#[derive(Clone, Copy, Debug)]
struct Common {
    /// Of the record, where the address is.
    word: u32,
    /// From the address in that word to its own, modulo 2⁶⁴.
    distance: u64,
    key: u32,
    bytes: u32,
    kind: AccessKind,
    work: Work,
    /// Where in [`Collected::keys`] the key of its next visit is, where they have several.
    next_key: Option<usize>,
}

/// Thread and process, as they stand in accesses.
type Whose = (u32, u64);

/// Accesses that are written before it is looked whether they are many: few enough that they are near when they are read.
const PART: usize = 1 << 10;

/// Where accesses are written to, one behind the other.
pub(super) struct Written<'a> {
    pub(super) accesses: &'a mut Vec<Access>,
    /// Is told when there are many, and may take them.
    pub(super) many: &'a mut dyn FnMut(&mut Vec<Access>),
}

impl Written<'_> {
    #[inline(always)]
    fn look(&mut self) {
        if self.accesses.len() >= PART {
            (self.many)(self.accesses);
        }
    }
}

impl Default for Common {
    fn default() -> Self {
        Self { word: 0, distance: 0, key: 0, bytes: 0, kind: AccessKind::Load, work: Work::USUAL, next_key: None }
    }
}

impl Common {
    /// The access of a record with these words.
    #[inline(always)]
    fn access(&self, record: &[u64], (thread, space): Whose) -> Access {
        let &Self { word, distance, key, bytes, kind, work, .. } = self;
        Access { address: record[word as usize].wrapping_add(distance) ^ space, key, bytes, thread, kind, work }
    }
}

impl Collected {
    /// Makes room for so many segments.
    pub(super) fn make_room(&mut self, segments: usize) {
        self.columns.make_room(segments);
    }

    /// Collects visits of a segment that only loads and stores, whose words are all there.
    #[inline]
    pub(super) fn collect(&mut self, visits: Visits) {
        self.columns.collect(visits);
        self.runs.push(visits);
    }

    /// An access that comes after all that was collected.
    pub(super) fn add(&mut self, access: Access, accesses: &mut Vec<Access>) {
        match self.runs.len() {
            0 => accesses.push(access),
            runs => self.others.push((runs, access)),
        }
    }

    /// Writes all accesses of what was collected, which is forgotten. `whose` tells the keys of a column: each with how many of
    /// the addresses, one after the other, have it.
    pub(super) fn write(
        &mut self,
        (program, plans): (&Program, &Plans),
        words: &[u64],
        of: Whose,
        mut whose: impl FnMut(SiteId, Column<'_>, &mut dyn FnMut(u32, usize)),
        to: &mut Written<'_>,
    ) {
        let Self { columns, commons, keys, .. } = self;
        keys.clear();
        take_each(columns, (program, plans), words, |index, planned, column| {
            if commons.len() <= index {
                commons.resize(index + 1, Common::default());
            }
            let common = &mut commons[index];
            let &PlannedAccess { told, bytes, kind, work } = planned;
            *common = Common { word: told.word, distance: column.distance, key: 0, bytes, kind, work, next_key: None };
            let all = column.words.len();
            whose(told.site, column, &mut |key, count| {
                if count == all {
                    common.key = key;
                    return;
                }
                common.next_key.get_or_insert(keys.len());
                keys.extend(std::iter::repeat_n(key, count));
            });
        });
        let (mut runs, mut others) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.others));
        let mut done = 0;
        for (before, access) in others.drain(..) {
            self.write_runs((program, plans), &runs[done..before], words, of, to);
            to.accesses.push(access);
            done = before;
        }
        self.write_runs((program, plans), &runs[done..], words, of, to);
        runs.clear();
        (self.runs, self.others) = (runs, others);
    }

    fn write_runs(
        &mut self,
        (program, plans): (&Program, &Plans),
        runs: &[Visits],
        words: &[u64],
        of: Whose,
        to: &mut Written<'_>,
    ) {
        for run in runs {
            let commons = &mut self.commons[plans.loads_and_stores(run.segment)];
            let length = program.segments()[run.segment.0 as usize].words;
            let step = 1 + length as usize;
            let words = &words[run.at as usize..run.end(length)];
            if commons.iter().any(|common| common.next_key.is_some()) {
                for record in words.chunks(step) {
                    to.accesses.extend(commons.iter_mut().map(|common| {
                        if let Some(next) = &mut common.next_key {
                            common.key = self.keys[*next];
                            *next += 1;
                        }
                        common.access(record, of)
                    }));
                    to.look();
                }
                continue;
            }
            match *commons {
                [a] => write_each([a], words, step, of, to),
                [a, b] => write_each([a, b], words, step, of, to),
                [a, b, c] => write_each([a, b, c], words, step, of, to),
                [a, b, c, d] => write_each([a, b, c, d], words, step, of, to),
                _ => {
                    for record in words.chunks(step) {
                        to.accesses.extend(commons.iter().map(|common| common.access(record, of)));
                        to.look();
                    }
                }
            }
        }
    }
}

/// The accesses of records that begin `step` words one behind the other.
#[inline(always)]
fn write_each<const N: usize>(commons: [Common; N], words: &[u64], step: usize, of: Whose, to: &mut Written<'_>) {
    for words in words.chunks(step * (PART / N)) {
        to.accesses.reserve(PART);
        for record in words.chunks(step) {
            // Each where it stays: one that is made elsewhere and copied is waited for.
            commons.iter().for_each(|common| to.accesses.push(common.access(record, of)));
        }
        to.look();
    }
}
