//! Which of the chosen data an access is to.

use std::ops::Range;

use super::{Accessor, Chosen, ChosenData};
use crate::full_trace::filter::is_called;
use crate::origins::{Data, DataKind, Origins, Thread};

/// Tells keys by what was chosen, and what was found of each.
pub(crate) struct Choice<'a> {
    origins: &'a Origins,
    chosen: &'a [Chosen],
    /// Of those that were chosen by name.
    names: Vec<Option<Named<'a>>>,
    found: Vec<ChosenData>,
    /// Groups of data, of each.
    groups: Vec<Vec<u32>>,
}

impl<'a> Choice<'a> {
    pub(crate) fn of(origins: &'a Origins, chosen: &'a [Chosen]) -> Self {
        Self {
            origins,
            chosen,
            names: chosen.iter().map(|chosen| Named::of(origins, chosen)).collect(),
            found: vec![ChosenData::default(); chosen.len()],
            groups: vec![Vec::new(); chosen.len()],
        }
    }

    /// Who made the accesses of a key, once for each of the chosen that they are in, or for other data. They reach from the first byte to
    /// behind the last.
    pub(crate) fn accessors(&mut self, key: u32, reach: Range<u64>) -> Vec<Accessor> {
        let origin = self.origins.of(key);
        let Thread { process, tid } = self.origins.threads()[origin.thread as usize];
        let is_in = |place: &usize| match (&self.names[*place], &self.chosen[*place]) {
            (Some(named), _) => named.has(self.origins, key),
            (None, Chosen::Memory(range)) => self.origins.ranges_of(key).contains(range),
            (None, Chosen::Named(_)) => false,
        };
        let of: Vec<usize> = (0..self.chosen.len()).filter(is_in).collect();
        for &place in &of {
            if !reach.is_empty() {
                widen(&mut self.found[place].reach, reach.clone());
            }
            if !self.groups[place].contains(&origin.data) {
                self.groups[place].push(origin.data);
            }
        }
        let ones = of.iter().map(|place| Some(*place));
        let all = ones.chain(of.is_empty().then_some(None));
        all.map(|chosen| Accessor { process, tid, path: origin.region, chosen }).collect()
    }

    /// What was found of each of the chosen.
    pub(crate) fn found(self) -> Vec<ChosenData> {
        let Self { origins, chosen, mut found, groups, .. } = self;
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
        found
    }
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

/// Makes a reach one that has another in it, too.
pub(crate) fn widen(reach: &mut Range<u64>, with: Range<u64>) {
    *reach = match reach.is_empty() {
        true => with,
        false => reach.start.min(with.start)..reach.end.max(with.end),
    };
}
