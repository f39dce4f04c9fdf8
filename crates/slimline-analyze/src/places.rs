//! Places: the innermost loop of each site, or its function where it is in none; and the pace of each.

use std::collections::BTreeMap;

use slimline_attribute::tables::{LoopId, ModuleId, Tables};
use slimline_trace::access::SiteId;

use crate::fields::represented;
use crate::pace::{Pace, instructions_per_ns};
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
    /// Pace of code whose own is not known.
    otherwise: f64,
    /// Whether executions are to be corrected at all.
    timed: bool,
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
        // Where every window's time and length are known. A full trace has neither and needs no correction.
        places.timed = found.streams.iter().all(|stream| stream.executions == 0 || stream.represented > 0)
            && found.streams.iter().any(|stream| stream.represented > 0);
        places.otherwise = places.mean_pace(found);
        places
    }

    /// Pace of the code whose pace is known, by time.
    fn mean_pace(&self, found: &StreamFindings) -> f64 {
        let (mut sum, mut time) = (0.0, 0.0);
        for stream in &found.streams {
            if let Some(pace) = self.paces[self.of(stream.site)] {
                sum += represented(stream, pace);
                time += represented(stream, 1.0);
            }
        }
        if time > 0.0 { sum / time } else { 1.0 }
    }

    /// The place of a site that has accesses.
    pub(crate) fn of(&self, site: SiteId) -> usize {
        self.by_site[&site]
    }

    /// How often a stream of this place was executed: corrected for pace where windows are timed, as seen otherwise.
    pub(crate) fn executions(&self, stream: &Stream, place: usize) -> f64 {
        if !self.timed {
            return stream.executions as f64;
        }
        represented(stream, self.paces[place].unwrap_or(self.otherwise))
    }

    /// Whether the pace of the place is known.
    pub(crate) fn is_paced(&self, place: usize) -> bool {
        self.timed && self.paces[place].is_some()
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
