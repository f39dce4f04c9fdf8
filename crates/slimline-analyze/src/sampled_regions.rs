//! Time and accesses by regions of a program, threads and chosen data, of a run that was sampled.
//!
//! ```text
//!   samples   ──► time of each (thread, path of regions, data)             with the interval of a share
//!   bursts    ──► its part of the accesses that were seen                  likewise, by bursts: one burst is one path's
//!   both      ──► how often its instructions were executed (`places`) ──► loads and stores that there were
//! ```
//!
//! What an instruction was executed in the whole run is divided among threads and paths as it was seen there, each burst by the time that it stands for. That is known where the
//! pace of its loop is; of the rest there is no estimate of loads and stores. Its error is put together of three: what parts of the bursts say
//! each for itself ([`BATCHES`](crate::places::BATCHES)), the pace's own, and how few bursts tell threads and paths apart.

mod estimate;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use slimline_attribute::tables::Tables;
use slimline_trace::access::{AccessBatch, AccessKind, GroupId, SiteId, ThreadId};

pub use self::estimate::Estimate;
use crate::analysis::{Analysis as _, ShardInfo};
use crate::full_trace::regions::{MemoryRange, RangeSource};
use crate::origins::{DataKind, Origins};
use crate::pace::TriggerCosts;
use crate::places::Places;
use crate::region_accesses::choice::{Choice, widen};
use crate::region_accesses::{Accessor, Chosen, ChosenData};
use crate::sampled_origins::{self, SampledKey};
use crate::share::{Clusters, Share, Tally, Wholes, portion};
use crate::streams::{Stream, StreamState, Streams};

/// Accesses are counted in parts of so many, as one of a block that was not followed is of several groups.
const PARTS: u64 = 1 << 10;
/// Share of what was seen whose pace must be known for an estimate of all that there was.
const LEAST_PACED: f64 = 0.95;

/// Memory that is told apart, at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedRange {
    /// Where, and whose.
    pub range: MemoryRange,
    /// When, in the time of samples.
    pub during_ns: Range<u64>,
}

/// What is told apart before names are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    thread: ThreadId,
    region: u32,
    site: SiteId,
    group: GroupId,
    /// Number of the set of ranges.
    ranges: u32,
    /// It accesses no memory.
    computes: bool,
}

/// What was seen of a key.
#[derive(Clone, Debug, Default)]
struct Seen {
    cost: Tally,
    accesses: u64,
    loads: u64,
    stores: u64,
    bytes: u64,
    /// From the first byte to behind the last.
    reach: Range<u64>,
    object_offset: u64,
}

/// What one burst saw of one key.
#[derive(Clone, Copy, Debug)]
struct Look {
    burst: u32,
    key: u32,
    accesses: u32,
}

/// A burst.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Accesses that it saw.
    accesses: u32,
    /// The time since the burst before. Where bursts are dear a thread has fewer.
    weight: u64,
}

/// One pass over a session. Takes 12 bytes for each instruction that a burst sees.
#[derive(Debug)]
pub struct SampledRegions {
    streams: (Streams, StreamState),
    ranges: Vec<TimedRange>,
    /// Sets of them by number; 0 is none.
    sets: Vec<Vec<u32>>,
    keys: FxHashMap<Key, u32>,
    seen: Vec<(Key, Seen)>,
    looks: Vec<Look>,
    /// What each burst saw, and stands for.
    bursts: Vec<Burst>,
    processes: FxHashMap<ThreadId, u32>,
    whole: Tally,
}

/// What was seen, and what that says of all that there was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledAccesses {
    cost: Tally,
    clusters: Clusters,
    /// Loads that bursts saw.
    pub seen_loads: u64,
    /// Stores, likewise.
    pub seen_stores: u64,
    paced: f64,
    seen: f64,
    loads: Estimate,
    stores: Estimate,
    bytes: Estimate,
}

impl SampledAccesses {
    /// Adds what others of the run did.
    pub fn add(&mut self, other: &Self) {
        self.cost.merge(other.cost);
        self.clusters.merge(&other.clusters);
        self.seen_loads += other.seen_loads;
        self.seen_stores += other.seen_stores;
        self.paced += other.paced;
        self.seen += other.seen;
        self.loads.add(&other.loads);
        self.stores.add(&other.stores);
        self.bytes.add(&other.bytes);
    }

    /// Samples that it has.
    pub fn samples(&self) -> u64 {
        self.cost.samples
    }

    /// Loads, stores and bytes that there were, where the pace of nearly all that was seen is known; the rest is taken to be as that.
    pub fn estimates(&self) -> Option<[Estimate; 3]> {
        let is_known = self.seen > 0.0 && self.paced >= LEAST_PACED * self.seen;
        is_known.then(|| [&self.loads, &self.stores, &self.bytes].map(|of| of.scaled(self.seen / self.paced)))
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct SampledRegionFindings {
    /// By who it is of. What accesses no memory, as it computes or waits, has one more than there are for what was chosen.
    pub accesses: BTreeMap<Accessor, SampledAccesses>,
    /// What was found of each of the chosen.
    pub chosen: Vec<ChosenData>,
    /// Weight of all samples.
    pub whole: Tally,
    wholes: Wholes,
}

impl SampledRegionFindings {
    /// The share of the weight of all samples.
    pub fn weight_share(&self, of: &SampledAccesses) -> Share {
        of.cost.share_of(&self.whole)
    }

    /// The share of all accesses that bursts saw.
    pub fn access_share(&self, of: &SampledAccesses) -> Share {
        of.clusters.share_of(&self.wholes)
    }

    /// Accesses that bursts saw, and bursts that saw any.
    pub fn seen(&self) -> (u64, u64) {
        (self.wholes.sizes / PARTS, self.wholes.count)
    }
}

impl SampledRegions {
    /// Has seen nothing; tells these ranges of memory apart, which may overlap.
    pub fn new(trigger_costs: TriggerCosts, ranges: Vec<TimedRange>) -> Self {
        let streams = Streams { trigger_costs };
        Self {
            streams: (streams, streams.start(&ShardInfo::WHOLE)),
            ranges,
            sets: vec![Vec::new()],
            keys: FxHashMap::default(),
            seen: Vec::new(),
            looks: Vec::new(),
            bursts: Vec::new(),
            processes: FxHashMap::default(),
            whole: Tally::default(),
        }
    }

    /// Takes in a batch of a process.
    pub fn update(&mut self, process: u32, batch: &AccessBatch) {
        let Some(thread) = batch.thread else { return };
        self.streams.0.update(&mut self.streams.1, batch);
        self.processes.insert(thread, process);
        let mut samples = 0;
        let mut looks: Vec<Look> = Vec::new();
        for (index, window) in batch.windows.iter().enumerate() {
            let rows = batch.window_rows(index);
            let of_window = rows.clone().filter(|row| batch.evidence[*row].has_cost()).count();
            let regions = &batch.sample_region[samples..samples + of_window];
            samples += of_window;
            let (mut costs, burst) = (regions.iter(), self.bursts.len() as u32);
            let mut size = 0;
            for row in rows {
                let evidence = batch.evidence[row];
                // What a burst runs through is where its sample was, which comes last.
                let region = if evidence.has_cost() { costs.next() } else { regions.last() };
                let (address, bytes, kind) = (batch.address[row].0, batch.bytes[row], batch.kind[row]);
                let ranges = self.set_at((process, window.time_ns), address, bytes.into());
                let region = region.copied().unwrap_or(0);
                let (site, group) = (batch.site[row], batch.group[row]);
                let computes = kind == AccessKind::NONE;
                let key = self.key(Key { thread, region, site, group, ranges, computes }, batch.offset[row]);
                let seen = &mut self.seen[key as usize].1;
                if address != 0 {
                    widen(&mut seen.reach, address..address.saturating_add(u64::from(bytes.max(1))));
                }
                if evidence.has_cost() {
                    seen.cost.add(batch.weight[row]);
                    self.whole.add(batch.weight[row]);
                }
                if evidence.is_execution() {
                    let (loads, stores) = (u64::from(kind.loads()), u64::from(kind.stores()));
                    seen.accesses += 1;
                    seen.loads += loads;
                    seen.stores += stores;
                    seen.bytes += u64::from(bytes);
                    size += 1;
                    match looks.iter_mut().find(|look| look.key == key) {
                        Some(look) => look.accesses += 1,
                        None => looks.push(Look { burst, key, accesses: 1 }),
                    }
                }
            }
            if size > 0 {
                self.bursts.push(Burst { accesses: size, weight: window.weight });
                self.looks.append(&mut looks);
            }
        }
    }

    /// The set of ranges that an access is in.
    fn set_at(&mut self, (process, time_ns): (u32, u64), address: u64, bytes: u64) -> u32 {
        let (first, end) = (address, address.saturating_add(bytes.max(1)));
        let holds = |of: &TimedRange| {
            let MemoryRange { source, start, bytes } = of.range;
            let is_its = match source {
                RangeSource::Asked(_) => true,
                RangeSource::Watched { process: watching, .. } => watching == process,
            };
            is_its && bytes > 0 && of.during_ns.contains(&time_ns) && first < start.saturating_add(bytes) && start < end
        };
        let set: Vec<u32> = (0..).zip(&self.ranges).filter(|(_, of)| holds(of)).map(|(number, _)| number).collect();
        if set.is_empty() {
            return 0;
        }
        let known = self.sets.iter().position(|known| *known == set);
        known.unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        }) as u32
    }

    fn key(&mut self, key: Key, object_offset: u64) -> u32 {
        let next = self.seen.len() as u32;
        let number = *self.keys.entry(key).or_insert(next);
        if number == next {
            self.seen.push((key, Seen { object_offset, ..Seen::default() }));
        }
        number
    }

    /// What the keys stand for: what data is chosen among.
    pub fn finish(mut self, tables: &Tables) -> AttributedRegions {
        let streams = self.streams.0.finish(std::mem::take(&mut self.streams.1), tables);
        let places = Places::new(&streams, tables);
        let owned = owned(&self.seen, tables);
        let mut spoken = vec![0.0; self.seen.len()];
        let mut evidence: FxHashMap<(GroupId, SiteId), Evidence> = FxHashMap::default();
        for look in &self.looks {
            let weight = self.bursts[look.burst as usize].weight as f64;
            spoken[look.key as usize] += weight * f64::from(look.accesses);
            let (key, _) = &self.seen[look.key as usize];
            let of = evidence.entry((key.group, key.site)).or_default();
            of.weight += weight;
            of.squares += weight * weight;
        }
        let mut whole: FxHashMap<(GroupId, SiteId), f64> = FxHashMap::default();
        for Owned { key, group, part } in &owned {
            *whole.entry((*group, self.seen[*key].0.site)).or_default() += spoken[*key] * (part.end - part.start);
        }
        let keys = owned.iter().map(|Owned { key, group, .. }| {
            let (Key { thread, region, site, ranges, .. }, seen) = &self.seen[*key];
            let accesses = seen.accesses + u64::from(seen.cost.weight > 0);
            let (thread, region, site, ranges) = (*thread, *region, *site, *ranges);
            SampledKey { thread, region, site, group: *group, object_offset: seen.object_offset, ranges, accesses }
        });
        let process_of = |thread| self.processes.get(&thread).copied().unwrap_or(0);
        let origins = sampled_origins::origins(tables, keys, process_of);
        let ranges = self.ranges.iter().map(|of| of.range).collect();
        let origins = origins.with_ranges(ranges, std::mem::take(&mut self.sets));
        AttributedRegions { regions: self, streams: streams.streams, places, owned, spoken, whole, evidence, origins }
    }
}

/// What is one group's of what was seen of a key.
struct Owned {
    /// Number of the key.
    key: usize,
    group: GroupId,
    part: Range<f64>,
}

/// Accesses to blocks that were not followed, and to addresses that are not known, are of the groups that own them.
fn owned(seen: &[(Key, Seen)], tables: &Tables) -> Vec<Owned> {
    let of_key = |(key, (of, _)): (usize, &(Key, Seen))| {
        let owner = move |(group, part): (_, Option<_>)| Owned { key, group, part: part.unwrap_or(0.0..1.0) };
        tables.owners(of.group, of.site).map(owner).collect::<Vec<_>>()
    };
    seen.iter().enumerate().flat_map(of_key).collect()
}

/// Sums of what bursts stand for.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    weight: f64,
    squares: f64,
}

impl Evidence {
    /// As many bursts that stand for the same say as much (Kish).
    fn bursts(self) -> f64 {
        if self.squares > 0.0 { self.weight * self.weight / self.squares } else { 0.0 }
    }
}

/// What was seen, with the names that it goes by.
pub struct AttributedRegions {
    regions: SampledRegions,
    streams: Vec<Stream>,
    places: Places,
    owned: Vec<Owned>,
    /// By key, accesses that bursts saw, each as much as its burst stands for; and the same of all threads and paths.
    spoken: Vec<f64>,
    whole: FxHashMap<(GroupId, SiteId), f64>,
    /// Bursts that saw an instruction access a group.
    evidence: FxHashMap<(GroupId, SiteId), Evidence>,
    origins: Origins,
}

impl AttributedRegions {
    /// What there is to choose of.
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// Sums by who it is of: what is in several of the chosen is in each of their sums.
    pub fn find(&self, chosen: &[Chosen]) -> SampledRegionFindings {
        let SampledRegions { seen, looks, bursts, whole, .. } = &self.regions;
        let mut choice = Choice::of(&self.origins, chosen);
        let mut accesses: BTreeMap<Accessor, SampledAccesses> = BTreeMap::new();
        // By key: who they are of, each with how many of so many parts.
        let mut whose: Vec<Vec<(Accessor, u64)>> = vec![Vec::new(); seen.len()];
        for (number, owned) in (0..).zip(&self.owned) {
            let own = self.own(owned);
            for accessor in self.accessors(number, owned, &mut choice, chosen.len()) {
                accesses.entry(accessor).or_default().add(&own);
                whose[owned.key].push((accessor, portion(PARTS, &owned.part)));
            }
        }
        let mut wholes = Wholes::default();
        bursts.iter().for_each(|burst| wholes.add(u64::from(burst.accesses) * PARTS));
        for of_burst in looks.chunk_by(|a, b| a.burst == b.burst) {
            let size = u64::from(bursts[of_burst[0].burst as usize].accesses) * PARTS;
            let mut parts: BTreeMap<Accessor, u64> = BTreeMap::new();
            for look in of_burst {
                for (accessor, part) in &whose[look.key as usize] {
                    *parts.entry(*accessor).or_default() += u64::from(look.accesses) * part;
                }
            }
            for (accessor, part) in parts {
                accesses.entry(accessor).or_default().clusters.add(part, size);
            }
        }
        SampledRegionFindings { accesses, chosen: choice.found(), whole: *whole, wholes }
    }

    /// Who a key is of. What accesses no memory is apart from all data: one more than was chosen.
    fn accessors(&self, number: u32, owned: &Owned, choice: &mut Choice<'_>, chosen: usize) -> Vec<Accessor> {
        let (key, seen) = &self.regions.seen[owned.key];
        let mut accessors = choice.accessors(number, seen.reach.clone());
        if key.computes {
            accessors.truncate(1);
            accessors.iter_mut().for_each(|accessor| accessor.chosen = Some(chosen));
        }
        accessors
    }

    /// Names of the data that most samples are in, which have some.
    pub fn hottest(&self, most: usize) -> Vec<String> {
        let mut weights: BTreeMap<&str, u64> = BTreeMap::new();
        for (number, owned) in (0..).zip(&self.owned) {
            let data = &self.origins.data()[self.origins.of(number).data as usize];
            let (key, seen) = &self.regions.seen[owned.key];
            if matches!(data.kind, DataKind::Heap | DataKind::Static) && !data.name.is_empty() && !key.computes {
                *weights.entry(&data.name).or_default() += portion(seen.cost.weight, &owned.part);
            }
        }
        let mut names: Vec<(&str, u64)> = weights.into_iter().filter(|(_, weight)| *weight > 0).collect();
        names.sort_by_key(|(_, weight)| Reverse(*weight));
        names.into_iter().take(most).map(|(name, _)| name.to_owned()).collect()
    }

    /// What a group has of a key, but for what takes whole bursts.
    fn own(&self, Owned { key, group, part }: &Owned) -> SampledAccesses {
        let (Key { site, group: of, .. }, seen) = &self.regions.seen[*key];
        let length = part.end - part.start;
        let is_whole = *part == (0.0..1.0);
        let mut own = SampledAccesses {
            cost: if is_whole { seen.cost } else { seen.cost.part(part) },
            seen_loads: portion(seen.loads, part),
            seen_stores: portion(seen.stores, part),
            seen: seen.accesses as f64 * length,
            ..SampledAccesses::default()
        };
        let Ok(found) = self.streams.binary_search_by_key(&(*group, *site), |stream| (stream.group, stream.site))
        else {
            return own;
        };
        let stream = &self.streams[found];
        let (place, executions) = (self.places.of(*site), stream.executions as f64);
        if let (Some(error), Some(batches), true) = (
            self.places.pace_error(place),
            self.places.executions_in_batches(stream),
            seen.accesses > 0 && executions > 0.0,
        ) {
            // What one burst runs through is one thread's, on one path. Threads have more bursts for their time or fewer.
            let bursts = self.evidence.get(&(*of, *site)).map_or(0.0, |evidence| evidence.bursts());
            let whole = self.whole.get(&(*group, *site)).copied().unwrap_or(0.0);
            let here = if whole > 0.0 { (self.spoken[*key] * length / whole).min(1.0) } else { 0.0 };
            let all = Estimate::new(self.places.executions(stream), batches, error).part(found, here, bursts);
            let each = |of: u64| of as f64 / seen.accesses as f64;
            own.paced = own.seen;
            own.loads = all.scaled(each(seen.loads));
            own.stores = all.scaled(each(seen.stores));
            own.bytes = all.scaled(each(seen.bytes));
        }
        own
    }
}

#[cfg(test)]
mod tests;
