//! Places: the innermost loop of each site, or its function where it is in none; and the pace of each.

use std::collections::BTreeMap;

use slimline_attribute::tables::{LoopId, ModuleId, Tables};
use slimline_trace::access::{GroupId, SiteId};

use crate::pace::{Pace, instructions_per_ns};
use crate::sequences::Sequence;
use crate::splice;
use crate::streams::{Stream, StreamFindings};
use crate::structure::{KNOWN, Motion};

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
    /// Instructions a nanosecond, by place.
    paces: Vec<Option<f64>>,
    /// Executions of each stream, where windows are timed. A full trace's are not, and need no correction.
    executed: Option<BTreeMap<(GroupId, SiteId), f64>>,
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
                places.rows.len() - 1
            });
            places.by_site.insert(stream.site, number);
        }
        let grains = grains(&found.streams);
        let mut paces: Vec<Vec<(&Pace, Option<u64>)>> = vec![Vec::new(); places.rows.len()];
        for (site, pace) in &found.paces {
            if let Some(&place) = places.by_site.get(site) {
                paces[place].push((pace, grains.get(site).copied()));
            }
        }
        places.paces = paces.iter().map(|sites| instructions_per_ns(sites)).collect();
        places.executed = places.executed(found, tables);
        places
    }

    /// How often each stream was executed: each window speaks for the instructions that the thread executed in its time
    /// at the pace of the place it began in, and what they were is told by [splicing](splice).
    fn executed(&self, found: &StreamFindings, tables: &Tables) -> Option<BTreeMap<(GroupId, SiteId), f64>> {
        let sequences = &found.sequences;
        if sequences.windows.is_empty() {
            return None;
        }
        let began_in = |window: &Sequence| self.of(found.sources[sequences.accesses[window.first] as usize].1);
        let timed: Vec<(f64, Option<f64>)> =
            sequences.windows.iter().map(|window| (window.weight as f64, self.paces[began_in(window)])).collect();
        // Pace of code whose own is not known: the mean by time of the known ones.
        let paced = || timed.iter().filter_map(|&(time, pace)| Some((time, time * pace?)));
        let (time, instructions) = paced().fold((0.0, 0.0), |sum, window| (sum.0 + window.0, sum.1 + window.1));
        let otherwise = if time > 0.0 { instructions / time } else { 1.0 };
        let instructions: Vec<f64> = timed.iter().map(|&(time, pace)| time * pace.unwrap_or(otherwise)).collect();
        let by_source = splice::executions(sequences, &instructions, found.sources.len());
        let mut executed: BTreeMap<(GroupId, SiteId), f64> = BTreeMap::new();
        for (&(group, site), of) in found.sources.iter().zip(by_source) {
            for (owner, part) in tables.owners(group, site) {
                *executed.entry((owner, site)).or_default() += of * (part.end - part.start);
            }
        }
        // Streams that are in no kept window: as those that are, on average.
        let key = |stream: &Stream| (stream.group, stream.site);
        let known = found.streams.iter().filter(|stream| executed.get(&key(stream)).is_some_and(|of| *of > 0.0));
        let seen: u64 = known.map(|stream| stream.executions).sum();
        let each = executed.values().sum::<f64>() / seen.max(1) as f64;
        for stream in &found.streams {
            let of = executed.entry(key(stream)).or_default();
            if *of == 0.0 {
                *of = stream.executions as f64 * each;
            }
        }
        Some(executed)
    }

    /// The place of a site that has accesses.
    pub(crate) fn of(&self, site: SiteId) -> usize {
        self.by_site[&site]
    }

    /// How often a stream was executed: corrected for where windows begin and for pace where they are timed, as seen
    /// otherwise.
    pub(crate) fn executions(&self, stream: &Stream) -> f64 {
        match &self.executed {
            Some(executed) => executed[&(stream.group, stream.site)],
            None => stream.executions as f64,
        }
    }

    /// Whether the pace of the place is known.
    pub(crate) fn is_paced(&self, place: usize) -> bool {
        self.executed.is_some() && self.paces[place].is_some()
    }
}

/// What the offsets of each site's main stream are congruent by, where that is sure and more than one access.
fn grains(streams: &[Stream]) -> BTreeMap<SiteId, u64> {
    let mut main: BTreeMap<SiteId, &Stream> = BTreeMap::new();
    for stream in streams {
        let known = main.entry(stream.site).or_insert(stream);
        if stream.executions > known.executions {
            *known = stream;
        }
    }
    main.into_iter()
        .filter_map(|(site, stream)| {
            let grain = Motion::of(stream).grain.filter(|grain| grain.confidence >= KNOWN)?;
            (grain.bytes > u64::from(stream.bytes.1)).then_some((site, grain.bytes))
        })
        .collect()
}
