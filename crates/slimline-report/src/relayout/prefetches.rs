//! Loads of which prefetches were tried.

use std::collections::BTreeSet;

use serde::Serialize;
use slimline_analyze::origins::Origins;
use slimline_analyze::relayout::prefetching::source::Indexed;
use slimline_analyze::relayout::prefetching::{FoundLoads, MeasuredLoads, SearchedLoad};
use slimline_analyze::relayout::{Taken, TimeRatio};

use super::loops::data_of;
use super::{AdvisedCode, ENOUGH, PredictedRow};
use crate::full_trace::known;
use crate::simulation::file_and_line;

/// Loads of which prefetches were tried, and what can't be prefetched.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PrefetchesReport {
    /// Loads that take most of the time, that first.
    pub loads: Vec<PrefetchRow>,
    /// With all that are advised; none where fewer than two are.
    pub together: Option<PredictedRow>,
    /// The chase that takes most of the time; none where none takes much.
    pub chase: Option<ChaseRow>,
}

/// A load whose address comes of an index.
#[derive(Clone, Debug, Serialize)]
pub struct PrefetchRow {
    /// Where it is, as `file:line`; the file by its whole path where it is known.
    pub at: Option<String>,
    /// The function that it is in.
    pub function: Option<String>,
    /// How it is written, where its source is here.
    pub text: Option<String>,
    /// What it loads of.
    pub data: String,
    /// What the index is.
    pub index: String,
    /// From one step's index to the next one's.
    pub index_bytes: i64,
    /// What lies between, which the index is an index of: `b` of `a[b[c[i]]]`.
    pub through: Option<String>,
    /// Part of the program's time, as predicted.
    pub share: f64,
    /// How often it was loaded.
    pub loads: u64,
    /// Steps of a time through its loop, on average; none where nobody knows where that ends, as nothing around it is accessed.
    pub mean_trip_count: Option<f64>,
    /// What later times through its loop load is asked for, too: its index goes on in them.
    pub crosses_ends: bool,
    /// What is advised; none where it should be left alone.
    pub advice: Option<AdvisedPrefetch>,
    /// Why it should be left alone, in words.
    pub reason: Option<String>,
    /// All distances that were tried.
    pub tried: Vec<TriedDistanceRow>,
}

/// A distance that is advised.
#[derive(Clone, Debug, Serialize)]
pub struct AdvisedPrefetch {
    /// Steps ahead.
    pub distance: u32,
    /// What to do: what to write at the beginning of each step. Predicted is by a replay of the same accesses.
    #[serde(flatten)]
    pub change: AdvisedCode,
}

/// A distance that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TriedDistanceRow {
    /// Steps ahead.
    pub distance: u32,
    /// Run time by that of the program as it is, by a part of the accesses.
    pub time_ratio: f64,
}

impl TriedDistanceRow {
    /// What it is, in words.
    pub(crate) fn words(&self) -> String {
        format!("{} steps", self.distance)
    }
}

/// A load whose address comes of what it loaded a step before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChaseRow {
    /// Where it is, as `file:line`.
    pub at: Option<String>,
    /// What it loads of.
    pub data: String,
    /// Part of the program's time, as predicted.
    pub share: f64,
}

/// What is known of how a load is written.
#[derive(Clone, Debug, Default)]
pub struct LoadSource {
    /// Its file, by its whole path where it is known.
    pub file: Option<String>,
    /// The load; none where its source is not here, or it is written otherwise.
    pub indexed: Option<Indexed>,
}

/// What the rows are made of.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchFacts<'a> {
    /// All loads.
    pub found: &'a FoundLoads,
    /// What those take that take most, and what came of prefetching them.
    pub measured: &'a MeasuredLoads,
    /// Of those that were searched.
    pub sources: &'a [LoadSource],
    /// What the program takes, of the same accesses as all that is confirmed.
    pub before: Taken,
    /// With all that are advised; none where fewer than two are.
    pub together: Option<Taken>,
    /// What keys stand for.
    pub origins: &'a Origins,
}

impl PrefetchFacts<'_> {
    pub(super) fn report(&self) -> PrefetchesReport {
        let Self { found, measured, sources, before, together, origins } = *self;
        let chase = measured.chase.map(|(load, share)| {
            let key = found.loads[load].keys[0];
            ChaseRow { at: known(origins.name(origins.of(key).line)), data: data_of(origins, key), share }
        });
        PrefetchesReport {
            loads: measured.searched.iter().zip(sources).map(|(of, source)| self.row(of, source)).collect(),
            together: together.map(|together| PredictedRow::of(&together, &before)),
            chase,
        }
    }

    fn row(&self, of: &SearchedLoad, source: &LoadSource) -> PrefetchRow {
        let Self { found, before, origins, .. } = *self;
        let load = &found.loads[of.load];
        let key = load.keys[0];
        let origin = origins.of(key);
        let (file, line) = file_and_line(origins.name(origin.line));
        let file = source.file.clone().or(file);
        let of_instructions = |instructions: BTreeSet<u32>| {
            let keys = (0..).zip(&found.keys).filter(|(_, role)| instructions.contains(&role.instruction));
            let names: BTreeSet<String> = keys.map(|(key, _)| data_of(origins, key)).collect();
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        let index = of_instructions(load.copies.iter().flat_map(|copy| copy.indexes.clone()).collect());
        let between: BTreeSet<u32> = load.copies.iter().filter_map(|copy| copy.through).collect();
        let through = (!between.is_empty()).then(|| of_instructions(between));
        let row = PrefetchRow {
            at: file.zip(line).map(|(file, line)| format!("{file}:{line}")),
            function: known(origins.name(origin.function)),
            text: source.indexed.as_ref().map(|indexed| indexed.text().to_owned()),
            data: data_of(origins, key),
            index,
            index_bytes: of.indirect.stride,
            through,
            share: of.share,
            loads: of.loads,
            mean_trip_count: of.mean_trip_count,
            crosses_ends: of.indirect.crosses_ends,
            advice: None,
            reason: None,
            tried: of
                .tried
                .iter()
                .map(|&(distance, ratio)| TriedDistanceRow { distance, time_ratio: ratio.expected })
                .collect(),
        };
        let advice = of.advised().zip(of.confirmed).map(|(distance, taken)| AdvisedPrefetch {
            distance,
            change: AdvisedCode {
                title: row.title(distance),
                predicted: PredictedRow::of(&taken, &before),
                cautions: row.cautions(distance),
                code: source
                    .indexed
                    .as_ref()
                    .and_then(|indexed| indexed.prefetch(distance, row.through.is_some(), row.crosses_ends)),
                how: row.how(distance),
            },
        });
        let reason = advice.is_none().then(|| reason(of, &before));
        PrefetchRow { advice, reason, ..row }
    }
}

impl PrefetchRow {
    fn title(&self, distance: u32) -> String {
        let of = self.text.as_deref().unwrap_or(&self.data);
        let place = self.at.as_ref().map_or_else(String::new, |at| {
            let (file, line) = file_and_line(at);
            let file = file.unwrap_or_default();
            let name = file.rsplit('/').next().unwrap_or_default();
            line.map_or_else(String::new, |line| format!(" at {name}:{line}"))
        });
        format!("Prefetch {of} {distance} steps ahead{place}")
    }

    fn cautions(&self, distance: u32) -> Vec<String> {
        let farthest = if self.through.is_some() { 2 * distance } else { distance };
        let index = &self.index;
        let inside = match self.mean_trip_count {
            Some(steps) if self.crosses_ends => format!(
                "{index} is loaded {farthest} steps ahead, and the loop has {steps:.1} steps on average, behind which {index} goes on: what later times through the loop load is asked for, \
                 so {index} must be {farthest} elements longer, of values that are indexes (0), or it must be asked where it ends"
            ),
            trip_count => {
                let of_each = match trip_count {
                    Some(steps) if steps < f64::from(16 * farthest) => format!(
                        "; each time through the loop, of {steps:.1} steps on average, the first {farthest} come without a prefetch"
                    ),
                    // Of one that is long that is little.
                    Some(_) => String::new(),
                    None => format!(
                        "; how many steps the loop has the trace does not tell, as nothing around it is accessed: if they are few less is gained than is predicted, as the first {farthest} come without a prefetch"
                    ),
                };
                format!(
                    "{index} is loaded {farthest} steps ahead: these must be inside it, or it must be {farthest} elements longer, or not asked for in the last steps{of_each}"
                )
            }
        };
        vec![
            inside,
            "a core that has room for the instructions of several steps loads some of them ahead by itself: where steps compute little, less is gained than is predicted; where they compute much, more is".to_owned(),
            "other machines want other distances: it is in steps, of which more fit into the time that memory takes where memory is slower".to_owned(),
        ]
    }

    fn how(&self, distance: u32) -> String {
        match &self.through {
            None => format!(
                "At the beginning of each step, compute the address in {} by the index that {} has {distance} steps later, and give it to __builtin_prefetch \
                 (Rust: core::arch::x86_64::_mm_prefetch).",
                self.data, self.index
            ),
            Some(through) => format!(
                "At the beginning of each step, give __builtin_prefetch (Rust: core::arch::x86_64::_mm_prefetch) the address in {through} by the index that {} \
                 has {} steps later, then that in {} by what {through} has {distance} steps later.",
                self.index,
                2 * distance,
                self.data
            ),
        }
    }
}

fn reason(of: &SearchedLoad, before: &Taken) -> String {
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    match (of.confirmed, of.closest()) {
        (Some(all), Some((distance, ratio))) => format!(
            "prefetched {distance} steps ahead it saved {} of a part of the accesses, and {} of what was replayed",
            percent(ratio.saved()),
            percent(TimeRatio::of(&all, before).saved())
        ),
        (_, Some((distance, ratio))) if ratio.saved() < 0.0 => {
            format!(
                "prefetching takes more time at each distance (the least, {distance} steps: +{})",
                percent(-ratio.saved())
            )
        }
        (_, Some((distance, ratio))) => {
            format!("no distance saves {ENOUGH} (the best, {distance} steps: {})", percent(ratio.saved()))
        }
        (_, None) => "nothing was tried".to_owned(),
    }
}
