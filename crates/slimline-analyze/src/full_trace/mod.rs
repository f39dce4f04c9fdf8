//! Analyses of full traces: of programs whose code writes down every access.
//!
//! ```text
//!   words of a chunk ──► decoder ──► visits ─┬─► counts  loads, stores, bytes by site
//!                                            ├─► heap    the same by allocation site of the block, and by its members
//!                                            ├─► values  what was loaded and stored, where it is told
//!                                            └─► checks  whether the trace is one at all
//! ```
//!
//! A chunk, or the part of it that comes before what other threads did, is one batch ([`TraceBatch`]): the segments that ran,
//! and the words that they wrote. [`TraceAnalysis`] runs it
//! all; [`findings`] puts names to it. Counts of whole segments need no look at their words, so what every run pays for
//! is one addition a segment; the heap costs a look-up an access. What is left out by a [`filter`] is left out of findings:
//! counts are by site, and a site is wanted or not.

pub mod attributed;
mod block_names;
mod calls;
pub mod checks;
pub mod counts;
mod elements;
pub mod filter;
pub mod findings;
mod function_names;
pub mod heap;
pub mod held_values;
mod instructions;
mod keyed;
pub mod object_fields;
pub mod object_structures;
pub mod objects;
pub mod owners;
mod parts;
mod plans;
pub mod regions;
pub mod sampling;
mod shared_memory;
pub mod splitting;
mod spots;
mod statics;
pub mod unseen;
pub mod values;
mod walk;

use std::collections::BTreeSet;
use std::ops::Range;

use slimline_trace::stream::decode::{Decoder, Program, SegmentId, SiteId, Tallies, Visits};
use slimline_trace::stream::order::{Piece, StreamKey};

use self::checks::Checks;
use self::counts::SiteCounts;
use self::filter::{Filter, Unmatched};
use self::heap::HeapAccesses;
use self::sampling::{by_spot, groups_of};
use self::statics::Statics;
use self::values::SiteValues;

/// What a thread or its signal handlers did, a chunk of it or less.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceBatch<'a> {
    /// Number of the process.
    pub process: u32,
    /// Number of its stream.
    pub stream: u32,
    /// The kernel's number of the thread.
    pub tid: u32,
    /// Number of the stream's chunk.
    pub sequence: u64,
    /// What ran, in order.
    pub visits: &'a [Visits],
    /// What [`Visits::at`] are indexes of.
    pub words: &'a [u64],
    /// See [`Piece::is_plain`].
    pub is_plain: bool,
}

impl<'a> TraceBatch<'a> {
    /// The visits of a `range` of a piece of that stream.
    ///
    /// # Panics
    ///
    /// If the piece does not have that many visits.
    pub fn of((process, stream): StreamKey, piece: &'a Piece, range: Range<usize>) -> Self {
        let &Piece { sequence, tid, is_plain, ref visits, ref words, .. } = piece;
        Self { process, stream, tid, sequence, visits: &visits[range], words, is_plain }
    }

    /// The words of each visit, of which its segment has so many; none where some are missing.
    fn words_of_each(&self, visits: Visits, words: u32) -> impl Iterator<Item = &[u64]> {
        visits.places(words).map(move |at| self.words.get(at..at + words as usize).unwrap_or(&[]))
    }
}

/// How often memory was accessed, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Times that something was read. An atomic update reads and writes; each lane of a gather is an access.
    pub loads: u64,
    /// Times that something was written.
    pub stores: u64,
    /// Bytes read.
    pub loaded_bytes: u64,
    /// Bytes written.
    pub stored_bytes: u64,
}

impl Accesses {
    /// Loads and stores.
    pub fn count(&self) -> u64 {
        self.loads.saturating_add(self.stores)
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.loaded_bytes.saturating_add(self.stored_bytes)
    }

    /// Adds others to these. A program can write any number of bytes into its trace: sums stay at the most there is.
    pub fn add(&mut self, other: Self) {
        self.loads = self.loads.saturating_add(other.loads);
        self.stores = self.stores.saturating_add(other.stores);
        self.loaded_bytes = self.loaded_bytes.saturating_add(other.loaded_bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(other.stored_bytes);
    }

    /// Takes others away from these, of which they are some.
    fn subtract(&mut self, other: Self) {
        self.loads = self.loads.saturating_sub(other.loads);
        self.stores = self.stores.saturating_sub(other.stores);
        self.loaded_bytes = self.loaded_bytes.saturating_sub(other.loaded_bytes);
        self.stored_bytes = self.stored_bytes.saturating_sub(other.stored_bytes);
    }

    /// As many, of a part of their bytes.
    fn part(self, bytes: u64, all: u64) -> Self {
        let part = |of: u64| (u128::from(of) * u128::from(bytes) / u128::from(all.max(1))) as u64;
        Self { loaded_bytes: part(self.loaded_bytes), stored_bytes: part(self.stored_bytes), ..self }
    }

    /// What is left of these without others, of which they are some.
    fn without(mut self, other: Self) -> Self {
        self.subtract(other);
        self
    }

    /// So many of these.
    fn times(self, times: u64) -> Self {
        Self {
            loads: self.loads.saturating_mul(times),
            stores: self.stores.saturating_mul(times),
            loaded_bytes: self.loaded_bytes.saturating_mul(times),
            stored_bytes: self.stored_bytes.saturating_mul(times),
        }
    }
}

/// All analyses of a full trace.
#[derive(Debug, Default)]
pub struct TraceAnalysis {
    counts: SiteCounts,
    heap: HeapAccesses,
    values: SiteValues,
    checks: Checks,
    filter: Filter,
    /// Of what is passed over.
    tallies: Tallies,
    /// Segments of which it is known what is asked.
    asked: usize,
}

impl TraceAnalysis {
    /// Has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has seen nothing, and has findings of what the filter wants only.
    pub fn of(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Has blocks of one site told apart by the functions that called for them.
    pub fn by_callers(mut self) -> Self {
        self.heap.follow_calls();
        self
    }

    /// Has [`Self::pass_over`] estimate what is not looked up.
    pub fn sampled(mut self) -> Self {
        self.heap.sample();
        self
    }

    /// Tells that the batches to come, of so many words, all of which are looked up or none, were written at another time than those before: shares of
    /// samples differ from one such part to the next.
    pub fn begin_part(&mut self, is_looked_up: bool, words: u64) {
        self.heap.begin_part(is_looked_up, words);
    }

    /// Takes in a batch, after all that it can know of.
    pub fn update(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        self.checks.update(program, batch);
        self.counts.update(program, batch);
        self.heap.update(program, batch);
        self.values.update(program, batch);
    }

    /// Takes in a batch without looking up whose its accesses are: that is estimated from the batches that [`Self::update`] took in,
    /// of an analysis that is [`Self::sampled`].
    pub fn pass_over(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        self.checks.update(program, batch);
        self.counts.update(program, batch);
        self.heap.pass_over(program, batch);
        self.values.update(program, batch);
    }

    /// As [`Self::pass_over`], of a piece of which nothing is decoded yet: what is not asked for need not be. Gives how many of its words are records.
    pub fn pass_over_words(
        &mut self,
        program: &Program,
        decoder: &mut Decoder,
        stream: StreamKey,
        (piece, is_open): (&mut Piece, bool),
    ) -> usize {
        let segments = program.segments().len();
        if self.asked < segments {
            self.asked = segments;
            self.counts.make_room(program);
            self.values.make_room(program);
            self.heap.make_room(program);
            let Self { counts, heap, values, .. } = self;
            let is_asked = |segment| counts.varies(segment) || values.are_told(segment) || heap.is_by_site(segment);
            self.tallies.ask((0..segments as u32).map(SegmentId).map(is_asked));
        }
        let Piece { words, visits, .. } = piece;
        piece.is_plain = decoder.tally(program, words, is_open, visits, &mut self.tallies);
        self.counts.add(&self.tallies);
        self.pass_over(program, &TraceBatch::of(stream, piece, 0..piece.visits.len()));
        if piece.is_plain { piece.words.len() } else { program.records_end(&piece.visits) }
    }

    /// Where the filter wants no access that there was: its lists that match none, which may be no single one. `None` where it
    /// wants some, and where there was none.
    pub fn unmatched(&self, program: &Program) -> Option<Vec<Unmatched>> {
        let accessed = || self.counts.sites(program).filter(|(.., accesses)| accesses.count() > 0);
        let sites = || accessed().map(|(id, ..)| program.site(id));
        let by_spot = by_spot(program, self, None);
        let statics = Statics::of(program, self.heap.blocks(), groups_of(&by_spot));
        let is_wanted = |(id, _, accesses): (SiteId, u64, Accesses)| {
            let spots = by_spot.get(&id).map(Vec::as_slice).unwrap_or_default();
            statics.wanted(&self.filter, program.site(id), accesses, spots).0.count() > 0
        };
        let is_in_vain = sites().next().is_some() && !accessed().any(is_wanted);
        let names: BTreeSet<&str> =
            by_spot.values().flatten().filter_map(|(spot, _)| statics.title(spot.group)).collect();
        is_in_vain.then(|| self.filter.unmatched(sites, &names.into_iter().collect::<Vec<_>>()))
    }

    /// What is wanted.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Accesses by site.
    pub fn counts(&self) -> &SiteCounts {
        &self.counts
    }

    /// Accesses by heap group.
    pub fn heap(&self) -> &HeapAccesses {
        &self.heap
    }

    /// Values by site.
    pub fn values(&self) -> &SiteValues {
        &self.values
    }

    /// What is wrong with the trace.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use slimline_trace::stream::decode::{Decoder, Program, Visits};
    use slimline_trace::stream::sites::{Body, ModuleBuilder, Site};

    use super::TraceBatch;

    /// A program of these segments, and what it writes.
    pub(crate) struct Run {
        program: Program,
        words: Vec<u64>,
        visits: Vec<Visits>,
    }

    /// One with a module of these segments.
    pub(crate) fn program_of(segments: &[&[Site]]) -> Program {
        program_with_bodies(segments, Vec::new())
    }

    /// The same of which it is known what these loops and functions consist of.
    pub(crate) fn program_with_bodies(segments: &[&[Site]], bodies: Vec<Body>) -> Program {
        let mut builder = ModuleBuilder::new();
        builder.bodies(bodies);
        for segment in segments {
            builder.segment(segment.iter().copied());
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        program
    }

    impl Run {
        pub(crate) fn new(segments: &[&[Site]]) -> Self {
            Self { program: program_of(segments), words: Vec::new(), visits: Vec::new() }
        }

        /// The segment runs.
        pub(crate) fn visit(&mut self, segment: u32, words: &[u64]) {
            self.words.push(self.program.segments()[segment as usize].header);
            self.words.extend(words);
            Decoder::new().decode(&self.program, &self.words, false, &mut self.visits);
        }

        pub(crate) fn program(&self) -> &Program {
            &self.program
        }

        pub(crate) fn batch(&self) -> TraceBatch<'_> {
            TraceBatch { tid: 7, visits: &self.visits, words: &self.words, ..TraceBatch::default() }
        }
    }

    /// The words and the visits of these segments.
    pub(crate) fn visits_of(program: &Program, run: &[(u32, Vec<u64>)]) -> (Vec<u64>, Vec<Visits>) {
        let mut words = Vec::new();
        for (segment, own) in run {
            words.push(program.segments()[*segment as usize].header);
            words.extend(own);
        }
        let mut visits = Vec::new();
        Decoder::new().decode(program, &words, false, &mut visits);
        (words, visits)
    }
}
