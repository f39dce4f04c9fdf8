//! Prefetches of loads whose addresses come of indexes, tried beside layouts of structures.

use std::path::Path;

use slimline_analyze::full_trace::attributed::AttributedAccesses;
use slimline_analyze::origins::Origins;
use slimline_analyze::relayout::prefetching::source::indexed;
use slimline_analyze::relayout::prefetching::{DISTANCES, FoundLoads, MeasuredLoads, SearchedLoad, find};
use slimline_analyze::relayout::{Taken, TimeRatio};
use slimline_report::relayout::{LoadSource, PrefetchFacts};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::locality::Walking;
use slimline_simulate::prefetched::{Chosen, Prefetched, Steps};
use slimline_simulate::waiting::Waiting;
use slimline_trace::stream::decode::{Program, SiteId};

use crate::relayouts::{MOST_REPLAYED, MOST_TRIED, Search};
use crate::sources::{text, traced_line};

/// Loads that are looked at, at most.
const MOST_LOADS: usize = 3;

/// Loads that may be prefetched, and what their keys stand for.
pub(crate) struct PrefetchSearch<'a> {
    found: FoundLoads,
    origins: &'a Origins,
    /// Who makes accesses with these keys.
    accesses: fn() -> AttributedAccesses,
}

/// Who measures, in a second pass, what they take, and how their indexes go on.
pub(crate) type MeasuredPrefetches<'a> = (Steps<'a>, Prefetched<'a, Waiting>);

/// What came of prefetching them.
pub(crate) struct TriedPrefetches<'a> {
    search: &'a PrefetchSearch<'a>,
    measured: MeasuredLoads,
    sources: Vec<LoadSource>,
    before: Taken,
    together: Option<Taken>,
}

impl<'a> PrefetchSearch<'a> {
    /// Of what a first pass told: by key, instructions and how they walk.
    pub(crate) fn of(
        program: &Program,
        of_keys: (&[SiteId], &[Walking]),
        origins: &'a Origins,
        accesses: fn() -> AttributedAccesses,
    ) -> Self {
        Self { found: find(program, of_keys, origins), origins, accesses }
    }

    /// Who measures in a second pass; none where there is nothing to be prefetched.
    pub(crate) fn measuring(&self, waiting: Waiting) -> Option<MeasuredPrefetches<'_>> {
        let Self { found, .. } = self;
        (!found.is_empty()).then(|| (Steps::new(&found.keys, &found.copies()), self.prefetched(waiting.by_key(), &[])))
    }

    /// Tries prefetches, on a trace that is described so.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn judge(
        &'a self,
        measured: Option<MeasuredPrefetches<'_>>,
        search: &Search<'_>,
        trace: &AccessTrace,
    ) -> anyhow::Result<TriedPrefetches<'a>> {
        let Some((steps, prefetched)) = measured else {
            let (measured, sources) = Default::default();
            return Ok(TriedPrefetches { search: self, measured, sources, before: Taken::default(), together: None });
        };
        let waited = prefetched.finish().finish();
        let before = search.taken_as_laid_out(&waited, MOST_REPLAYED);
        let mut measured = self.found.measured(&waited, &steps.finish(), MOST_LOADS);
        drop(waited);
        self.try_each(&mut measured.searched, search)?;
        let together = self.confirm(&mut measured.searched, &before, search)?;
        let sources = measured.searched.iter().map(|of| self.source(of, trace)).collect();
        Ok(TriedPrefetches { search: self, measured, sources, before, together })
    }

    /// Tries distances of each load, each with nothing else changed.
    fn try_each(&self, searched: &mut [SearchedLoad], search: &Search<'_>) -> anyhow::Result<()> {
        if searched.is_empty() {
            return Ok(());
        }
        let mut all: Vec<Vec<Chosen<'_>>> = vec![Vec::new()];
        for of in &*searched {
            all.extend(DISTANCES.map(|distance| vec![(&of.indirect, distance)]));
        }
        let mut taken = search.with_prefetches(self, &all, MOST_TRIED)?.into_iter();
        let Some(as_it_is) = taken.next() else { return Ok(()) };
        let ratios: Vec<TimeRatio> = taken.map(|taken| TimeRatio::of(&taken, &as_it_is)).collect();
        for (of, ratios) in searched.iter_mut().zip(ratios.chunks(DISTANCES.len())) {
            of.judge(DISTANCES.into_iter().zip(ratios.iter().copied()).collect());
        }
        Ok(())
    }

    /// Replays all that was measured with each change that is to be advised alone; then with those that are left together.
    fn confirm(
        &self,
        searched: &mut [SearchedLoad],
        before: &Taken,
        search: &Search<'_>,
    ) -> anyhow::Result<Option<Taken>> {
        let chosen = |of: &SearchedLoad| of.advised().map(|distance| (of.indirect.clone(), distance));
        let of_change: Vec<usize> = (0..searched.len()).filter(|&of| searched[of].chosen.is_some()).collect();
        let each: Vec<_> = of_change.iter().filter_map(|&of| chosen(&searched[of])).collect();
        let all: Vec<Vec<Chosen<'_>>> = each.iter().map(|(of, distance)| vec![(of, *distance)]).collect();
        let taken = search.with_prefetches(self, &all, MOST_REPLAYED)?;
        for (&of, taken) in of_change.iter().zip(taken) {
            searched[of].confirm(taken, before);
        }
        let left: Vec<_> = searched.iter().filter_map(chosen).collect();
        if left.len() < 2 {
            return Ok(None);
        }
        let together: Vec<Chosen<'_>> = left.iter().map(|(of, distance)| (of, *distance)).collect();
        Ok(search.with_prefetches(self, &[together], MOST_REPLAYED)?.pop())
    }

    /// Accesses by the keys that these are of.
    pub(crate) fn accesses(&self) -> AttributedAccesses {
        (self.accesses)()
    }

    /// Who hands accesses on with these prefetches.
    pub(crate) fn prefetched<'c>(&'c self, waiting: Waiting, chosen: &[Chosen<'c>]) -> Prefetched<'c, Waiting> {
        Prefetched::new(waiting, &self.found.keys, chosen.to_vec())
    }

    /// How a load is written.
    fn source(&self, of: &SearchedLoad, trace: &AccessTrace) -> LoadSource {
        let origin = self.origins.of(self.found.loads[of.load].keys[0]);
        let (path, line) = traced_line(self.origins.name(origin.line), trace);
        let is_rust = |path: &Path| path.extension().is_some_and(|of| of == "rs");
        let written = path.as_ref().zip(line);
        let indexed = written.and_then(|(path, line)| indexed(&text(path)?, (line, origin.column), is_rust(path)));
        LoadSource { file: path.map(|path| path.display().to_string()), indexed }
    }
}

impl TriedPrefetches<'_> {
    /// What a report is made of.
    pub(crate) fn facts(&self) -> PrefetchFacts<'_> {
        let Self { search, measured, sources, before, together } = self;
        PrefetchFacts {
            found: &search.found,
            measured,
            sources,
            before: *before,
            together: *together,
            origins: search.origins,
        }
    }
}
