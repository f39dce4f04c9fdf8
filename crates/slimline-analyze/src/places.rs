//! Places: the innermost loop of each site, or its function where it is in none; and the pace of each.

use std::collections::BTreeMap;

use slimline_attribute::tables::{LoopId, ModuleId, Tables};
use slimline_trace::access::{GroupId, SiteId};

use crate::pace::{Pace, Pool, Rate, instructions_per_ns};
use crate::sequences::{Sequence, Sequences};
use crate::share::Tally;
use crate::splice::{self, Random, WindowWeight};
use crate::streams::{Stream, StreamFindings};

/// A loop, or a function's code outside of its loops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Innermost loop.
    Loop(LoopId),
    /// Function, by module and name.
    Function(Option<ModuleId>, String),
}

/// All places with accesses.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The rows that numbers of places refer to.
    pub rows: Vec<Place>,
    by_site: BTreeMap<SiteId, usize>,
    /// What was blamed on it, by place.
    costs: Vec<Tally>,
    /// Instructions a nanosecond, by place.
    paces: Vec<Option<Rate>>,
    /// Executions of each stream, where windows are timed. A full trace's are not, and need no correction.
    executed: Option<Executed>,
}

/// Parts of the windows whose differences tell how sure a share of accesses is.
pub(crate) const BATCHES: usize = 8;

/// Executions by group and site.
#[derive(Clone, Debug, Default)]
struct Executed {
    by_stream: BTreeMap<(GroupId, SiteId), f64>,
    /// The same by each of [`BATCHES`] parts of the windows alone ("batch means", Conway 1963).
    in_batches: BTreeMap<(GroupId, SiteId), [f64; BATCHES]>,
}

impl Places {
    pub(crate) fn new(found: &StreamFindings, tables: &Tables) -> Self {
        let mut numbers: BTreeMap<Place, usize> = BTreeMap::new();
        let mut places = Self::default();
        for stream in &found.streams {
            let site = tables.site(stream.site);
            let place = match site.innermost_loop {
                Some(id) => Place::Loop(id),
                None => Place::Function(site.module, site.function().to_owned()),
            };
            let number = *numbers.entry(place).or_insert_with_key(|place| {
                places.rows.push(place.clone());
                places.costs.push(Tally::default());
                places.rows.len() - 1
            });
            places.by_site.insert(stream.site, number);
            places.costs[number].merge(stream.cost);
        }
        let mut pools: Vec<Vec<(u64, &Pool)>> = vec![Vec::new(); places.rows.len()];
        for ((id, grain), pool) in &found.paces.pools {
            if let Some(&place) = numbers.get(&Place::Loop(*id)) {
                pools[place].push((*grain, pool));
            }
        }
        let mut paces: Vec<Vec<(&Pace, Option<u64>)>> = vec![Vec::new(); places.rows.len()];
        for (site, pace, grain) in &found.paces.sites {
            if let Some(&place) = places.by_site.get(site) {
                paces[place].push((pace, *grain));
            }
        }
        places.paces = paces.iter().zip(&pools).map(|(sites, pools)| instructions_per_ns(sites, pools)).collect();
        places.executed = places.executed(found, tables);
        places
    }

    /// How often each stream was executed.
    fn executed(&self, found: &StreamFindings, tables: &Tables) -> Option<Executed> {
        let sequences = &found.sequences;
        if sequences.windows.is_empty() {
            return None;
        }
        let mut by_stream = self.executed_in(sequences, None, found, tables);
        let mut in_batches: BTreeMap<(GroupId, SiteId), [f64; BATCHES]> = BTreeMap::new();
        for batch in 0..BATCHES {
            let part = sequences.part(batch as u64, BATCHES as u64);
            if !part.windows.is_empty() {
                for (stream, of) in self.executed_in(&part, Some(batch), found, tables) {
                    in_batches.entry(stream).or_default()[batch] = of;
                }
            }
        }
        // Streams that are in no kept window: as those that are, on average.
        let key = |stream: &Stream| (stream.group, stream.site);
        let known = found.streams.iter().filter(|stream| by_stream.get(&key(stream)).is_some_and(|of| *of > 0.0));
        let seen: u64 = known.map(|stream| stream.executions).sum();
        let each = by_stream.values().sum::<f64>() / seen.max(1) as f64;
        for stream in &found.streams {
            let of = by_stream.entry(key(stream)).or_default();
            if *of == 0.0 {
                *of = stream.executions as f64 * each;
            }
        }
        Some(Executed { by_stream, in_batches })
    }

    /// How often streams were executed, as some windows tell: those that began in a place speak for the instructions that
    /// were executed in its time at its pace, and what they were is told by [splicing](splice). The windows are all, or
    /// those of a batch.
    fn executed_in(
        &self,
        windows: &Sequences,
        batch: Option<usize>,
        found: &StreamFindings,
        tables: &Tables,
    ) -> BTreeMap<(GroupId, SiteId), f64> {
        let most_runs = if batch.is_some() { 1 } else { splice::MOST_RUNS };
        let weights = self.window_weights(windows, batch, found);
        let by_source = splice::executions(windows, &weights, found.sources.len(), most_runs);
        let mut executed: BTreeMap<(GroupId, SiteId), f64> = BTreeMap::new();
        for (&(group, site), of) in found.sources.iter().zip(by_source) {
            for (owner, part) in tables.owners(group, site) {
                *executed.entry((owner, site)).or_default() += of * part.map_or(1.0, |part| part.end - part.start);
            }
        }
        executed
    }

    /// What each window speaks for. A place's time is that of all its samples: where few of them have a window, which
    /// ones do is chance, or in step with the program ("post-stratification", Holt, Smith, JRSS A 142, 1979). Windows of
    /// one place share its time by the time since the windows before them, as where windows are dear a thread has
    /// fewer. Places with hardly a window share what they have: else one window would speak for all the time of one of
    /// them, and none for another.
    ///
    /// For a batch a place's time is as far off as it would be by the batch's part of the samples.
    fn window_weights(&self, windows: &Sequences, batch: Option<usize>, found: &StreamFindings) -> Vec<WindowWeight> {
        /// Windows of a place that has a time of its own.
        const LEAST_WINDOWS: u64 = 4;
        let windows = &windows.windows;
        let place_of = |window: &Sequence| self.of(found.sources[window.blamed as usize].1);
        let mut number = vec![0; self.rows.len()];
        windows.iter().for_each(|window| number[place_of(window)] += 1);
        let joined = self.rows.len();
        let stratum = |place: usize| if number[place] < LEAST_WINDOWS { joined } else { place };
        let mut seen = vec![0.0; joined + 1];
        windows.iter().for_each(|window| seen[stratum(place_of(window))] += window.weight as f64);
        let mut cost = vec![Tally::default(); joined + 1];
        self.costs.iter().enumerate().for_each(|(place, &of)| cost[stratum(place)].merge(of));
        let time_in = |(stratum, cost): (usize, &Tally)| {
            let off = batch.map_or(0.0, |batch| {
                let samples = cost.effective_samples() / BATCHES as f64;
                Random::of((batch * (joined + 1) + stratum) as u64).normal() / samples.max(1.0).sqrt()
            });
            cost.weight as f64 * (1.0 + off).max(0.0)
        };
        let time: Vec<f64> = cost.iter().enumerate().map(time_in).collect();
        // Pace of code whose own is not known: the mean by time of the known ones.
        let paced = || time.iter().zip(&self.paces).filter_map(|(&time, &pace)| Some((time, time * pace?.per_ns)));
        let (all_time, instructions) = paced().fold((0.0, 0.0), |sum, place| (sum.0 + place.0, sum.1 + place.1));
        let otherwise = if all_time > 0.0 { instructions / all_time } else { 1.0 };
        let weight = |window: &Sequence| {
            let place = place_of(window);
            let time = window.weight as f64 * time[stratum(place)] / seen[stratum(place)];
            WindowWeight { time, instructions: time * self.paces[place].map_or(otherwise, |pace| pace.per_ns) }
        };
        windows.iter().map(weight).collect()
    }

    /// The place of a site that has accesses.
    pub(crate) fn of(&self, site: SiteId) -> usize {
        self.by_site[&site]
    }

    /// How often a stream was executed: corrected for where windows begin and for pace where they are timed, as seen
    /// otherwise.
    pub(crate) fn executions(&self, stream: &Stream) -> f64 {
        match &self.executed {
            Some(executed) => executed.by_stream[&(stream.group, stream.site)],
            None => stream.executions as f64,
        }
    }

    /// The same by each of some parts of what was seen; `None` where all was seen.
    pub(crate) fn executions_in_batches(&self, stream: &Stream) -> Option<[f64; BATCHES]> {
        let executed = self.executed.as_ref()?;
        Some(executed.in_batches.get(&(stream.group, stream.site)).copied().unwrap_or_default())
    }

    /// Whether the pace of the place is known.
    pub(crate) fn is_paced(&self, place: usize) -> bool {
        self.pace_error(place).is_some()
    }

    /// How far the pace of the place may be off, where it is known: its relative standard error.
    pub(crate) fn pace_error(&self, place: usize) -> Option<f64> {
        self.executed.as_ref().and(self.paces[place]).map(|pace| pace.error)
    }
}
