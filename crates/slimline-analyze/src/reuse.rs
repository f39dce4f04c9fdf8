//! Reuse by data: distances, the cache that it needs, what it waits for, strides, and which lines of code reuse what which
//! others used.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use slimline_simulate::locality::{Cause, Costs, KeyLocality, LocalityFindings, Strides, Walking};

use crate::nests::{NestWalk, nest_walks, of_data as nests_of};
use crate::origins::{By, Origins};
use crate::unrolled::spacing;

/// Data waits where at least this share of its cycles is beyond those of hits in the first level.
const WAITS: f64 = 0.1;

/// What is known of some accesses together.
#[derive(Clone, Debug, Default)]
pub struct Reuse {
    /// Sums, histogram and strides.
    pub locality: KeyLocality,
    /// What most of the waiting is for; none where there is little.
    pub cause: Option<Cause>,
}

impl Reuse {
    fn of<'a>(keys: impl IntoIterator<Item = (u32, &'a KeyLocality)>, origins: &Origins) -> Self {
        let keys: Vec<(u32, &KeyLocality)> = keys.into_iter().collect();
        let mut sum = KeyLocality {
            walking: Walking { strides: strides(&keys, origins), ..Walking::default() },
            ..KeyLocality::default()
        };
        for (_, key) in keys {
            sum.costs.add(&key.costs);
            sum.homed += key.homed;
            sum.near += key.near;
            sum.histogram.merge(&key.histogram);
        }
        Self { cause: main_cause(&sum.costs), locality: sum }
    }
}

/// Strides of all keys; those of the copies that an unrolled loop has of an instruction as of that one.
fn strides(keys: &[(u32, &KeyLocality)], origins: &Origins) -> Strides {
    let mut sum = Strides::default();
    let mut alike: BTreeMap<_, Vec<(u64, &Strides)>> = BTreeMap::new();
    for &(key, KeyLocality { walking, .. }) in keys {
        let stride = walking.strides.most_frequent().first().map_or(0, |stride| stride.bytes);
        match walking.strides.first() {
            // Nobody knows of which instruction keys are without origins.
            Some((address, bytes)) if stride != 0 && !origins.is_empty() => {
                let of_source = origins.of(key).place_in_source();
                let of_loop = (of_source, stride, bytes, walking.kind.stores());
                alike.entry(of_loop).or_default().push((address, &walking.strides));
            }
            _ => sum.merge(&walking.strides),
        }
    }
    for ((_, stride, ..), mut copies) in alike {
        copies.sort_by_key(|(address, _)| *address);
        if stride < 0 {
            copies.reverse();
        }
        let starts: Vec<u64> = copies.iter().map(|(address, _)| *address).collect();
        let of_copies: Vec<&Strides> = copies.iter().map(|(_, strides)| *strides).collect();
        match spacing(stride, &starts) {
            Some(spacing) => sum.merge(&Strides::of_copies(&of_copies, stride, spacing)),
            None => of_copies.into_iter().for_each(|strides| sum.merge(strides)),
        }
    }
    sum
}

/// What these accesses wait for most; none where they hardly wait.
pub fn main_cause(costs: &Costs) -> Option<Cause> {
    let waited: u64 = costs.waited.iter().sum();
    let most = Cause::ALL.into_iter().max_by_key(|&cause| (costs.waited[cause as usize], Reverse(cause)))?;
    (waited > 0 && waited as f64 >= costs.cycles as f64 * WAITS).then_some(most)
}

/// Reuse of a group of data.
#[derive(Clone, Debug)]
pub struct DataReuse {
    /// Which of [`Origins::data`].
    pub data: u32,
    /// All of it.
    pub reuse: Reuse,
    /// Who reuses what whom has used; most cycles first.
    pub pairs: Vec<LinePair>,
    /// Loops to change.
    pub walks: Vec<NestWalk>,
}

/// Accesses of one line of code, by the line that accessed the same line of a cache before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePair {
    /// Name of the line before; none where there was no access before.
    pub before: Option<u32>,
    /// Name of the line.
    pub line: u32,
    /// Their sums.
    pub costs: Costs,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct ReuseFindings {
    /// Of all accesses.
    pub total: Reuse,
    /// By data, most cycles first; none where nobody knows any.
    pub data: Vec<DataReuse>,
}

/// Sums up by data.
pub fn findings(found: &LocalityFindings, origins: &Origins) -> ReuseFindings {
    let total = Reuse::of((0..).zip(&found.keys), origins);
    if origins.is_empty() {
        return ReuseFindings { total, data: Vec::new() };
    }
    // What is left of a key's costs is of first accesses.
    let mut first: Vec<Costs> = found.keys.iter().map(|key| key.costs).collect();
    let mut pairs: FxHashMap<(u32, Option<u32>, u32), Costs> = FxHashMap::default();
    for pair in &found.pairs {
        let (before, origin) = (origins.of(pair.before), origins.of(pair.key));
        subtract(&mut first[pair.key as usize], &pair.costs);
        pairs.entry((origin.data, Some(before.line), origin.line)).or_default().add(&pair.costs);
    }
    for (key, costs) in (0..).zip(&first).filter(|(_, costs)| costs.count > 0) {
        let origin = origins.of(key);
        pairs.entry((origin.data, None, origin.line)).or_default().add(costs);
    }
    let mut of_data: FxHashMap<u32, Vec<LinePair>> = FxHashMap::default();
    for ((data, before, line), costs) in pairs {
        of_data.entry(data).or_default().push(LinePair { before, line, costs });
    }
    let mut keys: FxHashMap<u32, Vec<(u32, &KeyLocality)>> = FxHashMap::default();
    for (key, locality) in (0..).zip(&found.keys).filter(|(_, locality)| locality.costs.count > 0) {
        keys.entry(origins.number(key, By::Data)).or_default().push((key, locality));
    }
    let walks = nest_walks(found, origins);
    let mut data: Vec<DataReuse> = keys
        .into_iter()
        .map(|(data, keys)| {
            let mut pairs = of_data.remove(&data).unwrap_or_default();
            let name = |line: Option<u32>| line.map(|line| origins.name(line));
            pairs.sort_by_key(|pair| (Reverse(pair.costs.cycles), name(pair.before), name(Some(pair.line))));
            DataReuse { data, reuse: Reuse::of(keys, origins), pairs, walks: nests_of(&walks, data).copied().collect() }
        })
        .collect();
    data.sort_by_key(|data| (Reverse(data.reuse.locality.costs.cycles), data.data));
    ReuseFindings { total, data }
}

fn subtract(costs: &mut Costs, part: &Costs) {
    costs.count -= part.count;
    costs.reuses -= part.reuses;
    costs.distances -= part.distances;
    costs.cycles -= part.cycles;
    costs.waited.iter_mut().zip(part.waited).for_each(|(sum, less)| *sum -= less);
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
    use slimline_simulate::locality::Locality;
    use slimline_simulate::machine::Machine;

    use super::*;
    use crate::origins::{Data, DataKind, Names, Origin, Thread};

    /// Two arrays, each accessed by two lines of code.
    fn origins() -> Origins {
        let mut names = Names::default();
        let lines = ["a.c:1", "a.c:2"].map(|line| names.number(line));
        let data =
            ["grid", "sum"].map(|name| Data { kind: DataKind::Variable, name: name.to_owned(), ..Data::default() });
        let key = |key: usize| Origin { data: key as u32 / 2, line: lines[key % 2], accesses: 1, ..Origin::default() };
        Origins::new((0..4).map(key).collect(), data.to_vec(), names, vec![Thread { process: 0, tid: 1 }])
    }

    #[test]
    fn sums_by_data_and_pairs_of_lines() {
        let machine = Machine::parse(
            "name = \"m\"\ncores = 1\n[[cache]]\nname = \"L1\"\nlevel = 1\nholds = \"data\"\nsize = 128\nline = 64\n\
             ways = 2\nlatency = 1\n[[memory]]\nname = \"memory\"\nlatency = 11\n",
        );
        let mut locality = Locality::new(&machine.unwrap()).unwrap();
        let access =
            |key, address| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        // Three lines of the grid by line 1, then again by line 2; the sum once.
        let accesses = [access(0, 0), access(0, 64), access(0, 128), access(2, 4096)];
        locality.take(&accesses);
        locality.take(&[access(1, 0), access(1, 64), access(1, 128)]);
        let origins = origins();
        let found = findings(&locality.finish().unwrap(), &origins);
        let [grid, sum] = found.data.as_slice() else { panic!("{found:?}") };
        let costs = |count, reuses, distances, cycles, waited| Costs { count, reuses, distances, cycles, waited };
        assert_eq!(grid.reuse.locality.costs, costs(6, 3, 9, 66, [30, 0, 30, 0, 0]));
        let name = |line: u32| origins.name(line);
        let pairs: Vec<_> =
            grid.pairs.iter().map(|pair| (pair.before.map(name), name(pair.line), pair.costs.count)).collect();
        assert_eq!(pairs, [(None, "a.c:1", 3), (Some("a.c:1"), "a.c:2", 3)]);
        assert_eq!(grid.pairs[1].costs, costs(3, 3, 9, 33, [0, 0, 30, 0, 0]));
        assert_eq!((grid.reuse.cause, sum.reuse.cause), (Some(Cause::FirstUse), Some(Cause::FirstUse)));
        assert_eq!(found.total.locality.costs.count, 7);
        // Three other lines between, so four must fit.
        assert_eq!(grid.reuse.locality.histogram.misses().lines_for(0.0), 4);
        assert_eq!(main_cause(&costs(10, 0, 0, 1000, [0, 50, 40, 0, 0])), None);
    }
}
