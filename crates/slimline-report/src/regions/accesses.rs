//! Accesses of chosen data by region and thread.

use std::collections::BTreeMap;

use serde::Serialize;
use slimline_analyze::region_accesses::{Accessor, ChosenData, RegionAccesses};
use slimline_regions::{PathId, Profile};
use slimline_simulate::machine::Machine;

use crate::simulation::csv_cell;

/// Data whose accesses are told, and where they were simulated.
#[derive(Clone, Debug, Serialize)]
pub struct RegionData {
    /// The machine.
    pub machine: String,
    /// Its caches that hold data, nearest first.
    pub caches: Vec<String>,
    /// Cycles of all accesses, one after the other: those to what lies in several of the chosen are in each of these.
    pub cycles: u64,
    /// What was chosen.
    pub chosen: Vec<ChosenRow>,
}

impl RegionData {
    /// What chosen data is called.
    #[must_use]
    pub fn name(&self, chosen: Option<usize>) -> &str {
        chosen_name(&self.chosen, chosen)
    }
}

/// What one of the chosen is called.
pub(super) fn chosen_name(all: &[ChosenRow], chosen: Option<usize>) -> &str {
    match chosen {
        // Of samples: what computes or waits is no data's.
        Some(place) => all.get(place).map_or("no access", |chosen| &chosen.name),
        None if all.is_empty() => "all data",
        None => "other data",
    }
}

/// How data was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// By its name.
    Name,
    /// By its address.
    Address,
    /// By the program, which has it watched.
    Program,
}

/// Chosen data.
#[derive(Clone, Debug, Serialize)]
pub struct ChosenRow {
    /// What it is called here.
    pub name: String,
    /// How it was chosen.
    pub by: ChosenBy,
    /// The process whose memory it is, where it is of one.
    pub pid: Option<u32>,
    /// First byte, in hexadecimal: of memory; of named data the first that was accessed. None where nothing was.
    pub start: Option<String>,
    /// The byte behind: of memory; of named data behind the last that was accessed.
    pub end: Option<String>,
    /// How many bytes that is; of named data those of all of it at a time, none of a member alone.
    pub bytes: Option<u64>,
    /// Groups of data that it is of, where it was accessed.
    pub of: Vec<String>,
    /// Bytes at its start by which what is counted is more than that: none, as each access is told apart.
    pub start_imprecision: u64,
    /// The same at its end.
    pub end_imprecision: u64,
}

impl ChosenRow {
    /// Data of a name.
    #[must_use]
    pub fn named(name: &str, found: &ChosenData) -> Self {
        let is_reached = !found.reach.is_empty();
        let address = |address: u64| is_reached.then(|| format!("{address:#x}"));
        Self {
            name: name.to_owned(),
            by: ChosenBy::Name,
            pid: None,
            start: address(found.reach.start),
            end: address(found.reach.end),
            bytes: found.bytes,
            of: found.titles.clone(),
            start_imprecision: 0,
            end_imprecision: 0,
        }
    }

    /// Memory, which is a process's own, or the same in all.
    #[must_use]
    pub fn memory(name: &str, pid: Option<u32>, (start, bytes): (u64, u64), found: &ChosenData) -> Self {
        Self {
            name: name.to_owned(),
            by: if pid.is_some() { ChosenBy::Program } else { ChosenBy::Address },
            pid,
            start: Some(format!("{start:#x}")),
            end: Some(format!("{:#x}", start.saturating_add(bytes))),
            bytes: Some(bytes),
            of: found.titles.clone(),
            start_imprecision: 0,
            end_imprecision: 0,
        }
    }
}

/// What is told of chosen data, or of other data, in one place.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ByData<C> {
    /// Which of the chosen; none of data that is none of them. Of samples, one more than there are stands for what accesses no memory: it computes,
    /// or waits.
    pub chosen: Option<usize>,
    /// By thread, as times are; none of threads that met no region.
    pub threads: Vec<(Option<u32>, C)>,
    /// Over all threads.
    pub sum: C,
}

/// Accesses that were counted.
pub type DataAccesses = ByData<AccessCounts>;

impl DataAccesses {
    /// A line for each thread, behind what is the same in all.
    pub(super) fn csv(&self, data: &RegionData, start: &str, within: &str) -> String {
        let name = csv_cell(data.name(self.chosen));
        let mut out = String::new();
        for (thread, counts) in &self.threads {
            let AccessCounts { loads, stores, bytes, misses, from_afar, cycles } = counts;
            let thread = thread.map(|thread| thread.to_string()).unwrap_or_default();
            let misses: String = misses.iter().map(|misses| format!("{misses},")).collect();
            out += &format!("{start},{thread},{name},{within},{loads},{stores},{bytes},{misses}{from_afar},{cycles}\n");
        }
        out
    }
}

/// What accesses were, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccessCounts {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Bytes loaded and stored.
    pub bytes: u64,
    /// Misses of each of [`RegionData::caches`].
    pub misses: Vec<u64>,
    /// Lines that were served by a memory that is not near to the core.
    pub from_afar: u64,
    /// Cycles, one access after the other.
    pub cycles: u64,
}

impl AccessCounts {
    fn of(machine: &Machine, accesses: &RegionAccesses) -> Self {
        let RegionAccesses { counts, bytes } = accesses;
        Self {
            loads: counts.loads,
            stores: counts.stores,
            bytes: *bytes,
            misses: machine.path(false).into_iter().map(|cache| counts.misses[cache].total()).collect(),
            from_afar: counts.served_from_afar,
            cycles: counts.cycles,
        }
    }
}

/// Accesses of a traced run, to be told by regions.
#[derive(Clone, Copy, Debug)]
pub struct TracedRegions<'a> {
    /// Where they were simulated.
    pub machine: &'a Machine,
    /// Cycles of all of them, each once.
    pub cycles: u64,
    /// Who made them.
    pub accesses: &'a BTreeMap<Accessor, RegionAccesses>,
    /// What was chosen, as accessors have it.
    pub chosen: &'a [ChosenRow],
    /// Numbers of processes in the trace, and in the system, in the order in which they began.
    pub pids: &'a [(u32, u32)],
    /// What ran.
    pub command: &'a [String],
}

impl TracedRegions<'_> {
    /// Accesses of a process, with how many there are.
    pub(super) fn of_process(&self, process: u32) -> impl Iterator<Item = (&Accessor, AccessCounts, u64)> {
        let own = self.accesses.iter().filter(move |(accessor, _)| accessor.process == process);
        own.map(|(accessor, accesses)| {
            (accessor, AccessCounts::of(self.machine, accesses), accesses.counts.loads + accesses.counts.stores)
        })
    }
}

/// What is added up over threads, and over the regions within a region.
pub(super) trait Sum: Clone + Default {
    /// Adds what others are.
    fn add(&mut self, other: &Self);
}

impl Sum for AccessCounts {
    fn add(&mut self, other: &Self) {
        let Self { loads, stores, bytes, misses, from_afar, cycles } = other;
        self.loads += loads;
        self.stores += stores;
        self.bytes = self.bytes.saturating_add(*bytes);
        self.misses.resize(misses.len(), 0);
        self.misses.iter_mut().zip(misses).for_each(|(sum, misses)| *sum += misses);
        self.from_afar += from_afar;
        self.cycles = self.cycles.saturating_add(*cycles);
    }
}

/// Sums by chosen data and thread.
type Sums<S> = BTreeMap<(Option<usize>, Option<u32>), S>;

/// What a process did by its regions.
#[derive(Clone, Debug, Default)]
pub(super) struct ByRegion<S> {
    /// By region, from 0: with the regions within, and without.
    regions: Vec<[Sums<S>; 2]>,
    outside: Sums<S>,
    /// How many are on paths that the profile does not have.
    pub(super) lost: u64,
}

impl<S: Sum> ByRegion<S> {
    /// What each accessor of a process did, and how many that are, in so many regions. `new` has the profile's path of each path that accessors
    /// have, but the root; `region_of` the region of each path.
    pub(super) fn of<'a>(
        of_process: impl Iterator<Item = (&'a Accessor, S, u64)>,
        (profile, new): (&Profile, &[PathId]),
        (regions, region_of): (usize, impl Fn(PathId) -> usize),
    ) -> Self {
        let mut all = Self { regions: vec![Default::default(); regions], outside: BTreeMap::new(), lost: 0 };
        let threads: BTreeMap<u32, u32> =
            profile.threads.iter().map(|thread| (thread.kernel_id, thread.number)).collect();
        for (accessor, own, number) in of_process {
            let whose = (accessor.chosen, threads.get(&accessor.tid).copied());
            let add = |sums: &mut Sums<S>| sums.entry(whose).or_default().add(&own);
            let mut path = match (accessor.path as usize).checked_sub(1).map(|path| new.get(path)) {
                Some(Some(path)) => *path,
                unknown => {
                    if unknown.is_some() {
                        all.lost += number;
                    }
                    add(&mut all.outside);
                    continue;
                }
            };
            add(&mut all.regions[region_of(path)][1]);
            while let Some(node) = profile.node(path) {
                // Recursion is folded: a region is on a path once.
                add(&mut all.regions[region_of(path)][0]);
                path = node.parent;
            }
        }
        all
    }

    /// With the regions within, and without, of the region of that number from 1; as `shown` has them.
    pub(super) fn region<C>(&self, number: usize, shown: impl Fn(&S) -> C) -> [Vec<ByData<C>>; 2] {
        self.regions[number - 1].each_ref().map(|sums| rows(sums, &shown))
    }

    pub(super) fn outside<C>(&self, shown: impl Fn(&S) -> C) -> Vec<ByData<C>> {
        rows(&self.outside, &shown)
    }
}

/// What was chosen first, in its order, then other data.
fn rows<S: Sum, C>(sums: &Sums<S>, shown: &impl Fn(&S) -> C) -> Vec<ByData<C>> {
    let all: Vec<_> = sums.iter().collect();
    let mut rows: Vec<ByData<C>> = Vec::new();
    for of_data in all.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
        let mut sum = S::default();
        of_data.iter().for_each(|(_, counts)| sum.add(counts));
        rows.push(ByData {
            chosen: of_data[0].0.0,
            threads: of_data.iter().map(|((_, thread), counts)| (*thread, shown(counts))).collect(),
            sum: shown(&sum),
        });
    }
    rows.sort_by_key(|row| row.chosen.is_none());
    rows
}
