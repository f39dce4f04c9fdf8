//! Accesses of chosen data by regions of a program and threads, as the ompP/PAPI paper has them of one range at a time.

use std::collections::BTreeMap;
use std::ops::Range;

use slimline_simulate::simulation::{Counts, Outcome};

use crate::full_trace::attributed::own_address;
use crate::full_trace::filter::is_called;
use crate::full_trace::regions::RangeSource;
use crate::origins::{Data, DataKind, Origins, Thread};

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
    let mut found = vec![ChosenData::default(); chosen.len()];
    let mut groups: Vec<Vec<u32>> = vec![Vec::new(); chosen.len()];
    let names: Vec<Option<Named<'_>>> = chosen.iter().map(|chosen| Named::of(origins, chosen)).collect();
    for key in 0..origins.keys().len() as u32 {
        let origin = origins.of(key);
        if origin.accesses == 0 {
            continue;
        }
        let Thread { process, tid } = origins.threads()[origin.thread as usize];
        let accesses =
            RegionAccesses { counts: outcome.of_key(key), bytes: bytes.get(key as usize).copied().unwrap_or(0) };
        let is_in = |place: &usize| match (&names[*place], &chosen[*place]) {
            (Some(named), _) => named.has(origins, key),
            (None, Chosen::Memory(range)) => origins.ranges_of(key).contains(range),
            (None, Chosen::Named(_)) => false,
        };
        let of: Vec<usize> = (0..chosen.len()).filter(is_in).collect();
        for &place in &of {
            let reach = extents.get(key as usize).filter(|reach| reach.start < reach.end);
            if let Some(reach) = reach {
                widen(&mut found[place].reach, own_address(reach.start)..own_address(reach.end));
            }
            if !groups[place].contains(&origin.data) {
                groups[place].push(origin.data);
            }
        }
        let ones = of.iter().map(|place| Some(*place));
        for chosen in ones.chain(of.is_empty().then_some(None)) {
            let accessor = Accessor { process, tid, path: origin.region, chosen };
            sums.entry(accessor).and_modify(|sum| sum.add(&accesses)).or_insert_with(|| accesses.clone());
        }
    }
    for ((found, chosen), groups) in found.iter_mut().zip(chosen).zip(groups) {
        let data: Vec<&Data> = groups.iter().map(|group| &origins.data()[*group as usize]).collect();
        found.titles = data.iter().map(|data| title(data)).collect();
        found.titles.sort_unstable();
        found.titles.dedup();
        found.blocks = data.iter().map(|data| data.blocks).sum();
        found.bytes = match chosen {
            Chosen::Memory(range) => Some(origins.ranges()[*range as usize].bytes),
            Chosen::Named(name) => {
                let is_whole = data.iter().all(|data| data.is_called(name));
                is_whole.then(|| data.iter().map(|data| data.peak_bytes).sum())
            }
        };
    }
    (sums, found)
}

/// What the program has watched: its place among the ranges, the process, and its number there.
pub fn watched(origins: &Origins) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..).zip(origins.ranges()).filter_map(|(place, range)| match range.source {
        RangeSource::Watched { process, number } => Some((place, process, number)),
        RangeSource::Asked(_) => None,
    })
}

/// Data of a name.
struct Named<'a> {
    name: &'a str,
    /// Known data is called so: pointers and parameters of that name, through which other data is accessed, are not meant.
    is_of_known: bool,
}

impl<'a> Named<'a> {
    fn of(origins: &Origins, chosen: &'a Chosen) -> Option<Self> {
        let Chosen::Named(name) = chosen else { return None };
        let is_known = |data: &Data| matches!(data.kind, DataKind::Heap | DataKind::Static) && data.is_called(name);
        Some(Self { name, is_of_known: origins.data().iter().any(is_known) })
    }

    /// Whether it is what a key is of, or the member that it accesses.
    fn has(&self, origins: &Origins, key: u32) -> bool {
        let origin = origins.of(key);
        let data = &origins.data()[origin.data as usize];
        let is_known = matches!(data.kind, DataKind::Heap | DataKind::Static);
        (is_known || !self.is_of_known) && data.is_called(self.name) || is_called(self.name, origins.name(origin.field))
    }
}

/// What data is called where several are told apart: variables by where they are declared, blocks by where they are allocated.
fn title(data: &Data) -> String {
    let name = if data.name.is_empty() { data.kind.name() } else { &data.name };
    let place = &data.allocated_at;
    match data.kind {
        DataKind::Heap | DataKind::Static if !place.file.is_empty() => {
            format!("{name} ({}:{})", place.file, place.line)
        }
        _ => name.to_owned(),
    }
}

fn widen(reach: &mut Range<u64>, with: Range<u64>) {
    *reach = match reach.is_empty() {
        true => with,
        false => reach.start.min(with.start)..reach.end.max(with.end),
    };
}
