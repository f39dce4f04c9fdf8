//! Accesses of chosen data by regions of a program and threads, as the ompP/PAPI paper has them of one range at a time.

pub(crate) mod choice;

use std::collections::BTreeMap;
use std::ops::Range;

use slimline_simulate::simulation::{Counts, Outcome};

use self::choice::Choice;
use crate::full_trace::attributed::own_address;
use crate::full_trace::regions::RangeSource;
use crate::origins::Origins;

/// Data that is counted by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Of a name: that of a variable or a type, `Type.member`, `file:variable`, or `file:line` of an allocation.
    Named(String),
    /// What is at one of the ranges of memory that accesses are told by: its number among [`Origins::ranges`].
    Memory(u32),
}

/// Accesses of one thread, on one path of regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionAccesses {
    /// What the machine did.
    pub counts: Counts,
    /// Bytes loaded and stored.
    pub bytes: u64,
}

impl RegionAccesses {
    fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Who made accesses, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Accessor {
    /// Number of the process in the trace.
    pub process: u32,
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The path of regions, by its process's number; 0 outside of all.
    pub path: u32,
    /// Which of what was chosen; none of other data.
    pub chosen: Option<usize>,
}

/// What was found of chosen data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChosenData {
    /// From the first byte that was accessed to behind the last, in the process's memory; of several objects there may be other data in
    /// between. Empty where nothing was accessed.
    pub reach: Range<u64>,
    /// Titles of the groups of data that it is of, each once.
    pub titles: Vec<String>,
    /// Blocks of these.
    pub blocks: u64,
    /// Most bytes of these at a time, where it is of no member alone.
    pub bytes: Option<u64>,
}

/// Accesses by who made them: those to what lies in several of the chosen are counted in each of these. And what was found of each.
/// `extents` and `bytes` are those of keys.
pub fn region_accesses(
    outcome: &Outcome,
    origins: &Origins,
    (extents, bytes): (&[Range<u64>], &[u64]),
    chosen: &[Chosen],
) -> (BTreeMap<Accessor, RegionAccesses>, Vec<ChosenData>) {
    let mut sums: BTreeMap<Accessor, RegionAccesses> = BTreeMap::new();
    let mut choice = Choice::of(origins, chosen);
    for key in 0..origins.keys().len() as u32 {
        let origin = origins.of(key);
        if origin.accesses == 0 {
            continue;
        }
        let accesses =
            RegionAccesses { counts: outcome.of_key(key), bytes: bytes.get(key as usize).copied().unwrap_or(0) };
        let reach = extents.get(key as usize).map_or(0..0, |reach| own_address(reach.start)..own_address(reach.end));
        for accessor in choice.accessors(key, reach) {
            sums.entry(accessor).and_modify(|sum| sum.add(&accesses)).or_insert_with(|| accesses.clone());
        }
    }
    (sums, choice.found())
}

/// What the program has watched: its place among the ranges, the process, and its number there.
pub fn watched(origins: &Origins) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..).zip(origins.ranges()).filter_map(|(place, range)| match range.source {
        RangeSource::Watched { process, number } => Some((place, process, number)),
        RangeSource::Asked(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer, Work};
    use slimline_simulate::extents::Extents;
    use slimline_simulate::machine::Machine;
    use slimline_simulate::simulation::{Options, Simulation};

    use super::*;
    use crate::full_trace::findings::Place;
    use crate::full_trace::regions::MemoryRange;
    use crate::origins::{Data, DataKind, Names, Origin, Thread};

    const MACHINE: &str = r#"
        name = "one"
        cache = [{ name = "L1", level = 1, holds = "data", size = 512, line = 64, ways = 8, latency = 1 }]
        memory = [{ name = "memory", latency = 100 }]
    "#;

    /// A variable `grid`, blocks of cells whose mass is accessed, and what is accessed by a pointer that is called `grid`, too.
    fn origins() -> Origins {
        let mut names = Names::default();
        let mass = names.number("cell.mass");
        let place = Place { file: "/src/step.c".to_owned(), line: 7, ..Place::default() };
        let data = |kind, name: &str, type_name: &str| {
            let (name, type_name) = (name.to_owned(), type_name.to_owned());
            Data { kind, name, type_name, allocated_at: place.clone(), blocks: 2, peak_bytes: 640, ..Data::default() }
        };
        let all = vec![
            data(DataKind::Static, "grid", "double"),
            data(DataKind::Heap, "cells", "cell"),
            data(DataKind::Variable, "grid", ""),
        ];
        let key = |data, field, thread, region, ranges| Origin {
            data,
            field,
            thread,
            region,
            ranges,
            accesses: 1,
            ..Origin::default()
        };
        let keys = vec![
            key(0, 0, 0, 0, 0),
            key(0, 0, 0, 3, 1),
            key(0, 0, 1, 3, 2),
            key(1, mass, 1, 3, 0),
            key(1, 0, 1, 0, 0),
            key(2, 0, 0, 3, 0),
            // What nobody accessed is nobody's.
            Origin { accesses: 0, ..key(0, 0, 0, 3, 2) },
        ];
        let threads = vec![Thread { process: 4, tid: 40 }, Thread { process: 4, tid: 41 }];
        let range = |number, start, bytes| MemoryRange { source: RangeSource::Asked(number), start, bytes };
        Origins::new(keys, all, names, threads)
            .with_ranges(vec![range(0, 64, 64), range(1, 64, 128)], vec![Vec::new(), vec![0, 1], vec![1]])
    }

    /// An access of eight bytes each: by key, where.
    fn told(chosen: &[Chosen]) -> (BTreeMap<Accessor, RegionAccesses>, Vec<ChosenData>) {
        let mut simulation = Simulation::new(&Machine::parse(MACHINE).unwrap(), &Options::default()).unwrap();
        let mut extents = Extents::handing_on(&mut simulation);
        let at = [(0, 0), (1, 64), (1, 72), (2, 128), (3, 1024), (4, 1032), (5, 4096)];
        let access =
            |(key, address)| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        extents.take(&at.map(access));
        let (extents, bytes) = extents.finish_with_bytes();
        region_accesses(&simulation.finish(), &origins(), (&extents, &bytes), chosen)
    }

    fn loads(told: &BTreeMap<Accessor, RegionAccesses>, chosen: Option<usize>) -> Vec<(u32, u32, u64)> {
        let of = told.iter().filter(|(accessor, _)| accessor.chosen == chosen);
        of.map(|(accessor, of)| (accessor.tid, accessor.path, of.counts.loads)).collect()
    }

    #[test]
    fn accesses_are_told_by_who_made_them_and_of_what() {
        let named = |name: &str| Chosen::Named(name.to_owned());
        let chosen =
            [named("grid"), named("cell.mass"), named("step.c:7"), Chosen::Memory(0), Chosen::Memory(1), named("cell")];
        let (told, found) = told(&chosen);
        // Not what is accessed by the pointer, as there is such a variable.
        assert_eq!(loads(&told, Some(0)), [(40, 0, 1), (40, 3, 2), (41, 3, 1)]);
        assert_eq!(loads(&told, Some(1)), [(41, 3, 1)]);
        assert_eq!(loads(&told, Some(2)), [(41, 0, 1), (41, 3, 1)]);
        assert_eq!(loads(&told, Some(3)), [(40, 3, 2)]);
        assert_eq!(loads(&told, Some(4)), [(40, 3, 2), (41, 3, 1)]);
        assert_eq!(loads(&told, None), [(40, 3, 1)]);
        let of = |place: usize| (found[place].reach.clone(), found[place].bytes, found[place].titles.join(" "));
        assert_eq!(of(0), (0..136, Some(640), "grid (/src/step.c:7)".to_owned()));
        assert_eq!(of(1), (1024..1032, None, "cells (/src/step.c:7)".to_owned()));
        assert_eq!(of(3), (64..80, Some(64), "grid (/src/step.c:7)".to_owned()));
        let in_region = Accessor { process: 4, tid: 40, path: 3, chosen: Some(4) };
        // Both are in one line.
        assert_eq!((told[&in_region].bytes, told[&in_region].counts.misses[0].total()), (16, 1));
    }

    #[test]
    fn pointers_are_meant_where_no_data_has_the_name() {
        let (told, found) = told(&[Chosen::Named("nothing".to_owned())]);
        assert_eq!((loads(&told, Some(0)), found[0].reach.clone(), found[0].titles.len()), (vec![], 0..0, 0));
        assert_eq!(loads(&told, None).iter().map(|(.., loads)| loads).sum::<u64>(), 7);
        let origins = origins();
        let names = ["grid".to_owned(), "cell.mass".to_owned(), "none".to_owned(), "double".to_owned()];
        assert_eq!(origins.lacking(&names), ["none"]);
        assert_eq!(origins.data_names(), "cell, cells, double, grid");
    }
}
