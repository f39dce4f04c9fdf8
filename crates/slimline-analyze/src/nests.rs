//! Nests of loops that walk against the layout, as addresses show them: which two loops to exchange, and what accesses cost
//! then; and searches that begin again each time.
//!
//! Instructions are in one loop where their first times around it overlap, in one thread, and are about as many steps long.
//! The nest that they make is gone through again by the simulator, as it is and with its loops exchanged
//! ([`exchange`]). What was observed lies between the replay with empty caches and the one behind it, which says how much
//! of each counts. A change that the replay does not confirm is not told.

pub(crate) mod walker;

use rustc_hash::FxHashMap;
use slimline_simulate::locality::exchange::{self, Order, Stream, Times};
use slimline_simulate::locality::{Costs, LocalityFindings, Walk};

use self::walker::{Walker, Walkers};
use crate::origins::Origins;

/// An exchange saves at least this part of a nest's cycles, and a search that goes on half of its accesses.
const SAVED: f64 = 0.1;
/// The replay of a nest as it is takes at most so many times what was observed, and at least the inverse.
const REPLAYED: f64 = 2.0;
/// Searches that are seen at least, and the part of them that ends by another distance behind the one before than that did:
/// where each goes on by the same, it is a triangle, of which all is needed.
const SEARCHES: u64 = 16;
const UNEVEN: f64 = 0.1;

/// What to change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Exchange the innermost loop with the one around it.
    Interchange {
        /// Mean cycles of an access as the replay has them now.
        replayed: f64,
        /// The same with the loops exchanged.
        predicted: f64,
    },
    /// Begin where the time before ended: none ever ended before that.
    GoOn {
        /// Accesses that are left.
        accesses: u64,
    },
}

/// Accesses of one line of code to one group of data, and how they walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NestWalk {
    /// Which of [`Origins::data`].
    pub data: u32,
    /// Name of the line.
    pub line: u32,
    /// Name of the function.
    pub function: u32,
    /// Name of the line that calls it, where it was inlined: the loops may be around that.
    pub called_at: u32,
    /// From one step of the innermost loop to the next.
    pub inner_bytes: i64,
    /// From one time around the loop to the next.
    pub outer_bytes: i64,
    /// Mean steps.
    pub inner_times: f64,
    /// Mean times around.
    pub outer_times: f64,
    /// Accesses; those that touch several lines count for each.
    pub accesses: u64,
    /// Their cycles.
    pub cycles: u64,
    /// What to do about it.
    pub change: Change,
}

impl NestWalk {
    /// Cycles that the change is predicted to save.
    fn saved(&self) -> f64 {
        let accesses = self.accesses as f64;
        match self.change {
            Change::Interchange { replayed, predicted } => accesses * (replayed - predicted),
            Change::GoOn { accesses: left } => self.cycles as f64 * (1.0 - left as f64 / accesses),
        }
    }

    fn add(&mut self, other: &Self) {
        let (own, others) = (self.accesses as f64, other.accesses as f64);
        let mean = |a: f64, b: f64| (a * own + b * others) / (own + others);
        self.inner_times = mean(self.inner_times, other.inner_times);
        self.outer_times = mean(self.outer_times, other.outer_times);
        self.change = match (self.change, other.change) {
            (Change::Interchange { replayed, predicted }, Change::Interchange { replayed: now, predicted: then }) => {
                Change::Interchange { replayed: mean(replayed, now), predicted: mean(predicted, then) }
            }
            (Change::GoOn { accesses }, Change::GoOn { accesses: more }) => Change::GoOn { accesses: accesses + more },
            (own, _) => own,
        };
        self.accesses += other.accesses;
        self.cycles += other.cycles;
    }
}

/// A walker, with what its accesses cost.
struct Costly {
    walker: Walker,
    costs: Costs,
}

impl Costly {
    fn of(walker: Walker, found: &LocalityFindings) -> Self {
        let mut costs = Costs::default();
        walker.keys.iter().for_each(|&key| costs.add(&found.keys[key as usize].costs));
        Self { walker, costs }
    }

    fn row(&self, origins: &Origins, change: Change) -> NestWalk {
        let Walker { walk, .. } = &self.walker;
        let origin = origins.of(self.walker.key());
        NestWalk {
            data: origin.data,
            line: origin.line,
            function: origin.function,
            called_at: origin.called_at,
            inner_bytes: walk.inner_bytes,
            outer_bytes: walk.outer_bytes,
            inner_times: walk.inner(),
            outer_times: walk.outer(),
            accesses: self.costs.count,
            cycles: self.costs.cycles,
            change,
        }
    }
}

/// What to change about loops, most cycles saved first.
pub fn nest_walks(found: &LocalityFindings, origins: &Origins) -> Vec<NestWalk> {
    let walkers = Walkers::of(found.keys.iter().map(|key| &key.walking), origins);
    let line_bytes = u64::from(found.machine.line_bytes());
    let costly = |walker: &Walker| Costly::of(walker.clone(), found);
    let mut rows: Vec<NestWalk> = walkers.all.iter().filter_map(|walker| go_on(&costly(walker), origins)).collect();
    let mut nests: FxHashMap<Vec<u32>, Option<Vec<Change>>> = FxHashMap::default();
    for leading in walkers.all.iter().filter(|walker| walker.is_against(line_bytes)) {
        let (nest, times) = walkers.nest_of(leading);
        let keys: Vec<u32> = nest.iter().map(Walker::key).collect();
        let place = keys.iter().position(|&key| key == leading.key());
        let changes = nests.entry(keys).or_insert_with(|| {
            let nest: Vec<Costly> = nest.into_iter().map(|walker| Costly::of(walker, found)).collect();
            interchange(found, times, &nest)
        });
        if let (Some(changes), Some(place)) = (changes, place) {
            rows.push(costly(leading).row(origins, changes[place]));
        }
    }
    merged(rows, origins)
}

/// The sums of what one line of code does to one group of data in one way.
fn merged(rows: Vec<NestWalk>, origins: &Origins) -> Vec<NestWalk> {
    let mut all: Vec<NestWalk> = Vec::new();
    for row in rows {
        let identity = |row: &NestWalk| {
            let is_exchange = matches!(row.change, Change::Interchange { .. });
            (row.data, row.line, row.called_at, row.inner_bytes, row.outer_bytes, is_exchange)
        };
        match all.iter_mut().find(|known| identity(known) == identity(&row)) {
            Some(known) => known.add(&row),
            None => all.push(row),
        }
    }
    // The nest gains, but not each of its lines: what is stored was loaded just before.
    all.retain(|row| match row.change {
        Change::Interchange { replayed, predicted } => predicted <= replayed * (1.0 - SAVED),
        Change::GoOn { .. } => true,
    });
    all.sort_by(|a, b| b.saved().total_cmp(&a.saved()).then_with(|| origins.name(a.line).cmp(origins.name(b.line))));
    all
}

/// What an exchange makes of each access of a nest; nothing where it makes little of all together.
fn interchange(found: &LocalityFindings, times: Times, nest: &[Costly]) -> Option<Vec<Change>> {
    let streams: Vec<Stream> = nest.iter().map(|of| of.walker.stream()).collect();
    let replay = |order| exchange::cycles(&found.machine, &streams, times, order).ok();
    let (now, then) = (replay(Order::Now)?, replay(Order::Exchanged)?);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let cycles: u64 = nest.iter().map(|of| of.costs.cycles).sum();
    let count: u64 = nest.iter().map(|of| of.costs.count * u64::from(of.walker.lanes)).sum();
    let observed = cycles as f64 / count as f64;
    let part = part_cold(observed, mean(&now.cold), mean(&now.warm));
    let mixed = |of: &exchange::Cycles| -> Vec<f64> {
        of.cold.iter().zip(&of.warm).map(|(cold, warm)| part * cold + (1.0 - part) * warm).collect()
    };
    let (now, then) = (mixed(&now), mixed(&then));
    (is_replay_of(observed, mean(&now)) && mean(&then) <= mean(&now) * (1.0 - SAVED)).then(|| {
        let change = |(&replayed, &predicted)| Change::Interchange { replayed, predicted };
        now.iter().zip(&then).map(change).collect()
    })
}

/// How much of what was observed of a nest is as the first time through its replay, with empty caches; the rest is as the next time.
pub(crate) fn part_cold(observed: f64, cold: f64, warm: f64) -> f64 {
    if cold > warm { ((observed - warm) / (cold - warm)).clamp(0.0, 1.0) } else { 1.0 }
}

/// Whether a replay as it is takes about what was observed.
pub(crate) fn is_replay_of(observed: f64, replayed: f64) -> bool {
    (observed / REPLAYED..=observed * REPLAYED).contains(&replayed)
}

/// Searches that need not begin again.
fn go_on(of: &Costly, origins: &Origins) -> Option<NestWalk> {
    let Walk { inner_bytes, outer_bytes, accesses, runs, passes, longest, shorter, uneven, .. } = of.walker.walk;
    // Each looks again at where the one before ended.
    let left = longest + runs - passes;
    let is_search = inner_bytes != 0
        && outer_bytes == 0
        && runs >= SEARCHES
        && shorter == 0
        && uneven as f64 >= runs as f64 * UNEVEN
        && left * 2 <= accesses;
    is_search.then(|| {
        let part = left as f64 / accesses as f64;
        let accesses = (of.costs.count as f64 * part).round() as u64;
        of.row(origins, Change::GoOn { accesses })
    })
}

/// Those of a group of data.
pub fn of_data(walks: &[NestWalk], data: u32) -> impl Iterator<Item = &NestWalk> {
    walks.iter().filter(move |walk| walk.data == data)
}

#[cfg(test)]
pub(crate) mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
    use slimline_simulate::locality::Locality;
    use slimline_simulate::machine::Machine;

    use super::*;
    use crate::origins::{Data, Names, Origin, Thread};

    /// Four lines beside the core, 32 behind.
    pub(crate) const MACHINE: &str = "name = \"m\"\ncores = 2\n\
        [[cache]]\nname = \"L1\"\nlevel = 1\nholds = \"data\"\nsize = 256\nline = 64\nways = \"full\"\nlatency = 1\n\
        [[cache]]\nname = \"L2\"\nlevel = 2\nsize = 2048\nline = 64\nways = \"full\"\nlatency = 10\n\
        [[memory]]\nname = \"memory\"\nlatency = 100\n";

    /// Key by key a group of data and a line of its own, all of one thread but the last, which is the first one's in another.
    fn walks(accesses: impl IntoIterator<Item = (u32, u64)>) -> Vec<NestWalk> {
        walks_of(accesses, 0)
    }

    /// The copy is in another column of the line, so many behind.
    fn walks_of(accesses: impl IntoIterator<Item = (u32, u64)>, columns: u32) -> Vec<NestWalk> {
        let mut locality = Locality::new(&Machine::parse(MACHINE).unwrap()).unwrap();
        let load = |(key, address)| {
            let thread = u32::from(key == 3);
            Access { address, key, bytes: 8, thread, kind: AccessKind::Load, work: Work::USUAL }
        };
        locality.take(&accesses.into_iter().map(load).collect::<Vec<_>>());
        let mut names = Names::default();
        let lines = ["a.c:1", "a.c:2", "a.c:3"].map(|line| names.number(line));
        let key = |key: u32| {
            let thread = u32::from(key == 3);
            // The last one is a copy of the first.
            let column = 5 + key / 4 * columns;
            let key = key % 4;
            Origin { data: key % 3, line: lines[key as usize % 3], column, thread, accesses: 1, ..Origin::default() }
        };
        let threads = [1, 2].map(|tid| Thread { process: 0, tid });
        let origins = Origins::new((0..5).map(key).collect(), vec![Data::default(); 3], names, threads.to_vec());
        nest_walks(&locality.finish().unwrap(), &origins)
    }

    /// Eight rows of 128 bytes, by columns.
    fn columns(key: u32) -> impl Iterator<Item = (u32, u64)> {
        (0..16).flat_map(move |column| (0..8).map(move |row| (key, row * 128 + column * 8)))
    }

    #[test]
    fn what_is_observed_lies_between_two_replays() {
        assert_eq!(
            [10.0, 15.0, 20.0, 5.0, 30.0].map(|observed| part_cold(observed, 20.0, 10.0)),
            [0.0, 0.5, 1.0, 0.0, 1.0]
        );
        assert_eq!(part_cold(10.0, 10.0, 10.0), 1.0);
        assert_eq!([4.0, 5.0, 20.0, 21.0].map(|replayed| is_replay_of(10.0, replayed)), [false, true, true, false]);
    }

    #[test]
    fn a_column_walk_by_hand() {
        let found = walks(columns(0));
        // 16 lines from memory, all else from the second level; then all else from the first.
        let (replayed, predicted) = ((16.0 * 100.0 + 112.0 * 10.0) / 128.0, (16.0 * 100.0 + 112.0) / 128.0);
        let expected = NestWalk {
            data: 0,
            line: 1,
            function: 0,
            called_at: 0,
            inner_bytes: 128,
            outer_bytes: 8,
            inner_times: 8.0,
            outer_times: 16.0,
            accesses: 128,
            cycles: 16 * 100 + 112 * 10,
            change: Change::Interchange { replayed, predicted },
        };
        assert_eq!(found, [expected]);
        // Again and again nothing comes from memory: of two passes half of it.
        let [twice] = walks(columns(0).chain(columns(0)))[..] else { panic!() };
        let (replayed, predicted) = ((replayed + 10.0) / 2.0, (predicted + (16.0 * 10.0 + 112.0) / 128.0) / 2.0);
        assert_eq!(twice.change, Change::Interchange { replayed, predicted });
        // Two threads' are one line of code's.
        let [both] = walks(columns(0).chain(columns(3)))[..] else { panic!() };
        assert_eq!((both.accesses, both.inner_times), (256, 8.0));
    }

    #[test]
    fn an_unrolled_loop_is_as_it_was_written() {
        // By two rows at a time: keys 0 and 4 are copies, of one line.
        let unrolled =
            (0..16).flat_map(|column| (0..8).map(move |row| (row % 2 * 4, u64::from(row) * 128 + column * 8)));
        let [of_copies] = walks(unrolled)[..] else { panic!() };
        let [plain] = walks(columns(0))[..] else { panic!() };
        assert_eq!((of_copies.inner_bytes, of_copies.inner_times, of_copies.outer_times), (128, 8.0, 16.0));
        assert_eq!(of_copies, plain);
    }

    #[test]
    fn neighbors_half_a_stride_apart_are_no_copies() {
        // `x[k] + x[k + m / 2]` by `m`, which is two rows: as above, but for their columns.
        let accesses: Vec<(u32, u64)> = (0..16)
            .flat_map(|column| (0..8).map(move |row| (row % 2 * 4, u64::from(row) * 128 + column * 8)))
            .collect();
        let [of_both] = walks_of(accesses.iter().copied(), 7)[..] else { panic!() };
        assert_eq!((of_both.inner_bytes, of_both.inner_times, of_both.outer_times), (256, 4.0, 16.0));
        let [of_copies] = walks(accesses)[..] else { panic!() };
        assert_eq!((of_copies.accesses, of_copies.inner_bytes), (of_both.accesses, 128));
    }

    #[test]
    fn what_shares_the_loop_is_exchanged_with_it() {
        // What is read by columns is written by rows: an exchange gains nothing.
        let transposed = columns(0).zip((0..16).flat_map(|row| (0..8).map(move |column| row * 128 + column * 8)));
        let transposed = transposed.flat_map(|(read, written)| [read, (1, 0x10_0000 + written)]);
        assert_eq!(walks(transposed), []);
        // A loop of the same shape behind it has nothing to do with it.
        let rows = (0..16).flat_map(|row| (0..8).map(move |column| (1, 0x10_0000 + row * 128 + column * 8)));
        let found = walks(columns(0).chain(rows));
        assert_eq!(found.iter().map(|row| row.data).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn the_loop_around_is_as_long_as_to_one_that_begins_again() {
        // `b[i][j] … a[k][i] * b[i + 1 + k][j]`: rows of b are a line each, and one behind the other.
        let step =
            |row: u64, column: u64, k: u64| [(0, (row + 1 + k) * 64 + column * 8), (1, (1 << 20) + k * 512 + row * 8)];
        let all = (0..4).flat_map(|row| (0..8).flat_map(move |column| (0..5).flat_map(move |k| step(row, column, k))));
        let [found] = walks(all)[..] else { panic!() };
        let Change::Interchange { replayed, predicted } = found.change else { panic!("{found:?}") };
        // Five lines of b for eight columns, each behind four others of both; then one for all eight: of 40 accesses 35 hit in the first level, not the second.
        assert!((replayed - predicted - 35.0 * 9.0 / 40.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn rows_and_triangles_stay() {
        assert_eq!(walks((0..16).flat_map(|row| (0..8).map(move |column| (0, row * 128 + column * 8)))), []);
        // Each time one element more, all of which are needed.
        assert_eq!(walks((1..40).flat_map(|end| (0..end).map(|at| (0, at * 8)))), []);
        // Columns a line wide are no neighbors.
        assert_eq!(walks((0..16).flat_map(|column| (0..8).map(move |row| (0, row * 1024 + column * 64)))), []);
    }

    #[test]
    fn searches_go_on_where_the_one_before_ended() {
        let ends: Vec<u64> = (0..20).map(|search| 10 + search * 3 - search % 3).collect();
        let search =
            |ends: &[u64]| walks(ends.iter().flat_map(|&end| (0..end).map(|at| (1, at * 8))).collect::<Vec<_>>());
        let [found] = search(&ends)[..] else { panic!() };
        let all: u64 = ends.iter().sum();
        assert_eq!((found.data, found.outer_bytes, found.accesses), (1, 0, all));
        // Up to the last one's end, and one access more for each search but the first.
        assert_eq!(found.change, Change::GoOn { accesses: 10 + 19 * 3 - 1 + 19 });
        let back: Vec<u64> = ends.iter().rev().copied().collect();
        assert_eq!(search(&back), []);
    }
}
