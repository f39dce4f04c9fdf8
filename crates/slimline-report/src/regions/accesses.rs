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
        match chosen {
            Some(place) => self.chosen.get(place).map_or("", |chosen| &chosen.name),
            None if self.chosen.is_empty() => "all data",
            None => "other data",
        }
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

/// Accesses to chosen data, or to other data, where they were made.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DataAccesses {
    /// Which of [`RegionData::chosen`]; none of data that is none of them.
    pub chosen: Option<usize>,
    /// By thread, as times are; none of threads that met no region.
    pub threads: Vec<(Option<u32>, AccessCounts)>,
    /// Over all threads.
    pub sum: AccessCounts,
}

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

/// Sums by chosen data and thread.
type Sums = BTreeMap<(Option<usize>, Option<u32>), AccessCounts>;

/// Accesses of a process by its regions.
#[derive(Clone, Debug, Default)]
pub(super) struct ByRegion {
    /// By region, from 0: with the regions within, and without.
    regions: Vec<[Sums; 2]>,
    outside: Sums,
    /// Loads and stores on paths that the profile does not have.
    pub(super) lost: u64,
}

impl ByRegion {
    /// Those of the process of a number in the trace, in so many regions. `new` has the profile's path of each path that the trace tells,
    /// but the root; `region_of` the region of each path.
    pub(super) fn of(
        traced: &TracedRegions<'_>,
        process: u32,
        (profile, new): (&Profile, &[PathId]),
        (regions, region_of): (usize, impl Fn(PathId) -> usize),
    ) -> Self {
        let mut all = Self { regions: vec![Default::default(); regions], ..Self::default() };
        let threads: BTreeMap<u32, u32> =
            profile.threads.iter().map(|thread| (thread.kernel_id, thread.number)).collect();
        for (accessor, accesses) in traced.accesses.iter().filter(|(accessor, _)| accessor.process == process) {
            let whose = (accessor.chosen, threads.get(&accessor.tid).copied());
            let own = AccessCounts::of(traced.machine, accesses);
            let add = |sums: &mut Sums| sums.entry(whose).or_default().add(&own);
            let mut path = match (accessor.path as usize).checked_sub(1).map(|path| new.get(path)) {
                Some(Some(path)) => *path,
                unknown => {
                    if unknown.is_some() {
                        all.lost += accesses.counts.loads + accesses.counts.stores;
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

    /// With the regions within, and without, of the region of that number from 1.
    pub(super) fn region(&self, number: usize) -> [Vec<DataAccesses>; 2] {
        self.regions[number - 1].each_ref().map(rows)
    }

    pub(super) fn outside(&self) -> Vec<DataAccesses> {
        rows(&self.outside)
    }
}

/// What was chosen first, in its order, then other data.
fn rows(sums: &Sums) -> Vec<DataAccesses> {
    let mut rows: Vec<DataAccesses> = Vec::new();
    for ((chosen, thread), counts) in sums {
        if rows.last().is_none_or(|row| row.chosen != *chosen) {
            rows.push(DataAccesses { chosen: *chosen, ..DataAccesses::default() });
        }
        let Some(row) = rows.last_mut() else { continue };
        row.threads.push((*thread, counts.clone()));
        row.sum.add(counts);
    }
    rows.sort_by_key(|row| row.chosen.is_none());
    rows
}
