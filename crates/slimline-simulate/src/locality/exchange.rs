//! What a nest of two loops would cost in another order, exchanged or in tiles: its accesses made again in that order, and simulated.
//!
//! ```text
//!   now    outer 0 0 0 0 1 1 1 1 2 2 2 2 …     exchanged   outer 0 1 2 3 0 1 2 3 …     by tiles    outer 0 0 1 1 0 0 1 1 2 2 3 3 …
//!          inner 0 1 2 3 0 1 2 3 0 1 2 3 …                 inner 0 0 0 0 1 1 1 1 …     of two      inner 0 1 0 1 2 3 2 3 0 1 0 1 …
//! ```

use crate::access::{Access, AccessKind, Work};
use crate::machine::{Machine, MachineError};
use crate::simulation::{Options, Simulation};

/// Most accesses of one time through the nest, but for long inner loops, which are walked [`LEAST_OUTER`] times: of longer
/// nests the loop that is outside in an order is cut short, down to that, and then the one inside.
const MOST_ACCESSES: u64 = 1 << 19;
/// Times around the loop outside that are left at least: a line of the smallest elements.
const LEAST_OUTER: u64 = 64;
/// Accesses of one time through the loop inside at most, of all instructions.
const MOST_INNER: u64 = 1 << 18;

/// One instruction of the nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its first address.
    pub start: u64,
    /// From one time around the inner loop to the next.
    pub inner_bytes: i64,
    /// The same of the outer loop.
    pub outer_bytes: i64,
    /// Bytes of an access.
    pub bytes: u32,
    /// What it does.
    pub kind: AccessKind,
    /// When.
    pub turn: Turn,
    /// What is computed with it.
    pub work: Work,
}

/// How often an instruction is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// In each step.
    Inner,
    /// Once for each time around the outer loop: beside the inner one, in which a register may hold it.
    Outer,
    /// The same, where it is known that no register holds it for the inner loop: another order has a loop of its own for it, before or behind both.
    Apart,
    /// Whenever the outer loop's place has changed, until when a register holds it.
    Held,
}

impl Turn {
    /// Whether it is executed by the outer loop alone.
    #[must_use]
    pub fn is_once_around(self) -> bool {
        matches!(self, Self::Outer | Self::Apart)
    }
}

/// How often each loop goes around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The inner one, as it is now.
    pub inner: u64,
    /// The outer one.
    pub outer: u64,
}

impl Times {
    /// As many as a nest of so many instructions is gone through in this order: what the loop inside reuses from one time around to the next is all of
    /// it, so the other one is cut.
    #[must_use]
    pub fn cut_short(self, streams: usize, order: Order) -> Self {
        let streams = streams.max(1) as u64;
        let cut = |inside: u64, outside: u64| {
            let inside = inside.clamp(1, (MOST_INNER / streams).max(1));
            let most = (MOST_ACCESSES / inside.saturating_mul(streams)).max(LEAST_OUTER);
            (inside, outside.clamp(1, most))
        };
        match order {
            Order::Exchanged => {
                let (outer, inner) = cut(self.outer, self.inner);
                Self { inner, outer }
            }
            Order::Now | Order::Tiled(_) => {
                let (inner, outer) = cut(self.inner, self.outer);
                Self { inner, outer }
            }
        }
    }

    /// What an access counts in a nest that is gone through so short: of what comes with each time around the outer loop alone there are as many as there
    /// would be for all steps of the inner one.
    #[must_use]
    pub fn weight(self, cut_short: Self, turn: Turn) -> f64 {
        match turn.is_once_around() {
            true => cut_short.inner as f64 / self.inner.max(1) as f64,
            false => 1.0,
        }
    }
}

/// In which order the steps of both loops are gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// As it is.
    Now,
    /// The other loop is inside.
    Exchanged,
    /// In squares of so many steps of each loop, as it is within each and from one to the next.
    Tiled(u64),
}

impl Order {
    /// All steps, by their numbers in the inner and the outer loop as they are now, which is what `step` is called with.
    fn steps(self, Times { inner, outer }: Times, mut step: impl FnMut(u64, u64)) {
        match self {
            Self::Now => (0..outer).for_each(|of_outer| (0..inner).for_each(|of_inner| step(of_inner, of_outer))),
            Self::Exchanged => (0..inner).for_each(|of_inner| (0..outer).for_each(|of_outer| step(of_inner, of_outer))),
            Self::Tiled(tile) => {
                let tile = tile.max(1);
                let tiles = |times: u64| (0..times).step_by(usize::try_from(tile).unwrap_or(usize::MAX));
                for (rows, columns) in tiles(outer).flat_map(|rows| tiles(inner).map(move |columns| (rows, columns))) {
                    for of_outer in rows..outer.min(rows.saturating_add(tile)) {
                        (columns..inner.min(columns.saturating_add(tile)))
                            .for_each(|of_inner| step(of_inner, of_outer));
                    }
                }
            }
        }
    }
}

/// Goes through a nest once, in this order: what each access is, with the number of its stream as its key.
pub fn accesses(streams: &[Stream], times: Times, order: Order, mut access: impl FnMut(Access)) {
    let mut before = None;
    order.steps(times, |inner, outer| {
        // The inner loop goes on where it was.
        let goes_on =
            before.replace((inner, outer)).is_some_and(|(last, of_outer)| of_outer == outer && last + 1 == inner);
        for (key, stream) in (0..).zip(streams) {
            let is_executed = match stream.turn {
                Turn::Inner => true,
                Turn::Outer | Turn::Apart => inner == 0,
                Turn::Held => !goes_on,
            };
            if !is_executed {
                continue;
            }
            let moved = |stride: i64, times: u64| stride.wrapping_mul(times.cast_signed()).cast_unsigned();
            let address = stream
                .start
                .wrapping_add(moved(stream.inner_bytes, inner))
                .wrapping_add(moved(stream.outer_bytes, outer));
            access(Access { address, key, bytes: stream.bytes, thread: 0, kind: stream.kind, work: stream.work });
        }
    });
}

/// Bytes of a vector: what each 64-bit x86 and ARM has, and compilers use unless they are told of more.
const VECTOR_BYTES: u32 = 16;

/// A nest's instructions, as a compiler makes them of the source in some order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// They.
    pub streams: Vec<Stream>,
    /// How often each loop goes around.
    pub times: Times,
    /// Steps of the nest as it is that each of these takes: elements of a vector.
    pub lanes: u64,
}

impl Instructions {
    /// In this order, of those that there are now. The exchanged loop becomes one of vectors where it can (`may_be_vectors` says what addresses do not).
    pub fn of(streams: &[Stream], times: Times, order: Order, may_be_vectors: bool) -> Self {
        let scalar = |streams: &[Stream]| Self { streams: streams.to_vec(), times, lanes: 1 };
        match order {
            Order::Now => scalar(streams),
            Order::Tiled(_) => scalar(&reordered(streams)),
            Order::Exchanged => {
                let streams = reordered(streams);
                let vectors = if may_be_vectors { by_vectors(&streams, times) } else { None };
                vectors.unwrap_or_else(|| scalar(&streams))
            }
        }
    }
}

/// Instructions in another order than they are in now. A sum, which each time around the outer loop has one place of, is loaded before it is stored, and
/// that is one access: in each step that is not in the same loop as the one before, where a register holds it now, or in each step where it is stored in each now, as
/// the compiler does not know that it is not what the next one loads. What else is at the place of the latter has a loop of its own.
fn reordered(streams: &[Stream]) -> Vec<Stream> {
    let turns: Vec<Turn> = streams.iter().map(|of| turn_elsewhere(streams, of)).collect();
    let is_sum = |at: usize| is_stored_sum(&streams[at]) && turns[at] != Turn::Apart;
    let is_load_of = |at: usize, sum: usize| !streams[at].kind.stores() && place(&streams[at]) == place(&streams[sum]);
    // A sum's first step loads what is set before both loops.
    let has_first = |sum: usize| {
        turns[sum] == Turn::Held
            || (0..streams.len()).any(|at| at != sum && place(&streams[at]) == place(&streams[sum]))
    };
    let modified: Vec<bool> = (0..streams.len()).map(|at| is_sum(at) && has_first(at)).collect();
    let mut is_loaded = vec![false; streams.len()];
    let mut work: Vec<Work> = streams.iter().map(|of| of.work).collect();
    for sum in (0..streams.len()).filter(|&at| modified[at]) {
        let loads = || (0..streams.len()).filter(|&at| is_load_of(at, sum));
        let in_each_step = loads().find(|&at| streams[at].turn == Turn::Inner);
        if let Some(load) = in_each_step.or_else(|| loads().next()) {
            is_loaded[load] = true;
            if streams[load].turn == Turn::Inner {
                work[sum] = work[sum].plus(streams[load].work);
            }
        }
    }
    let left = (0..streams.len()).filter(|&at| !is_loaded[at]).map(|at| {
        let kind = if modified[at] { AccessKind::Modify } else { streams[at].kind };
        // What is computed around the inner loop is not computed in each of its steps.
        let work = if turns[at] == Turn::Held { work[at].min(Work::USUAL) } else { work[at] };
        Stream { kind, turn: turns[at], work, ..streams[at] }
    });
    left.collect()
}

/// Where it is at each step.
fn place(of: &Stream) -> (u64, i64, i64, u32) {
    (of.start, of.inner_bytes, of.outer_bytes, of.bytes)
}

/// Whether each time around the outer loop has one place that is stored.
fn is_stored_sum(of: &Stream) -> bool {
    of.kind.stores() && of.inner_bytes == 0
}

/// When one of a nest's instructions is executed in another order.
#[must_use]
pub fn turn_elsewhere(streams: &[Stream], of: &Stream) -> Turn {
    let is_stored_in_each_step =
        || streams.iter().any(|at| is_stored_sum(at) && at.turn == Turn::Inner && place(at) == place(of));
    match of.turn {
        // A scalar in memory, as a bound or a private variable of an outlined function: no element of the outer loop's,
        // so that other orders set or load it as often as there are times around the loop outside.
        Turn::Outer if of.outer_bytes == 0 => Turn::Apart,
        Turn::Outer if is_stored_in_each_step() => Turn::Apart,
        Turn::Outer => Turn::Held,
        turn => turn,
    }
}

/// The exchanged loops, where a compiler can make vectors of the one that is inside then: each instruction goes on by what it accesses there, or loads
/// what stays where it is, which a register holds then; what one step stores is in no other one's way. None where it can't, and where nothing is stored: what
/// registers sum up keeps its order in floating point. What has a loop of its own is as often there as it was.
fn by_vectors(streams: &[Stream], times: Times) -> Option<Instructions> {
    let (beside, streams): (Vec<Stream>, Vec<Stream>) = streams.iter().partition(|of| of.turn == Turn::Apart);
    let widest = streams.iter().map(|of| of.bytes).max().filter(|&bytes| bytes > 0)?;
    let lanes = u64::from(VECTOR_BYTES / widest);
    let is_held = |of: &Stream| of.outer_bytes == 0 && !of.kind.stores();
    let is_vector = |of: &Stream| of.outer_bytes == i64::from(of.bytes);
    if lanes < 2 || times.outer < lanes || !streams.iter().all(|of| is_held(of) || is_vector(of)) {
        return None;
    }
    // The first time around.
    let reach = |of: &Stream| {
        let walked = u64::from(of.bytes) * if is_held(of) { 1 } else { times.outer };
        of.start..of.start.saturating_add(walked)
    };
    let is_in_way = |store: &Stream, other: &Stream| {
        let (own, others) = (reach(store), reach(other));
        store.start != other.start && own.start < others.end && others.start < own.end
    };
    let mut stores = streams.iter().filter(|of| of.kind.stores()).peekable();
    stores.peek()?;
    if stores.any(|store| streams.iter().any(|other| is_in_way(store, other))) {
        return None;
    }
    let by_lanes = |of: &Stream| Stream { outer_bytes: of.outer_bytes.saturating_mul(lanes.cast_signed()), ..*of };
    let vector = |of: &Stream| Stream { bytes: of.bytes.saturating_mul(lanes as u32), ..by_lanes(of) };
    let element = |of: &Stream, lane: u64| {
        let behind = of.outer_bytes.wrapping_mul(lane.cast_signed()).cast_unsigned();
        Stream { start: of.start.wrapping_add(behind), ..by_lanes(of) }
    };
    // What goes with what a register holds goes with one of the others.
    let held = streams.iter().filter(|of| is_held(of)).map(|of| of.work);
    let mut vectors: Vec<Stream> = streams.iter().filter(|of| !is_held(of)).map(vector).collect();
    if let Some(first) = vectors.first_mut() {
        first.work = held.fold(first.work, Work::plus);
    }
    let elements = beside.iter().flat_map(|of| (0..lanes).map(move |lane| element(of, lane)));
    Some(Instructions {
        streams: vectors.into_iter().chain(elements).collect(),
        times: Times { outer: times.outer / lanes, ..times },
        lanes,
    })
}

/// Mean cycles of an access of each stream; of one that is executed [once for each time around the outer loop](Turn::Outer) for each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycles {
    /// The first time through the nest, with empty caches.
    pub cold: Vec<f64>,
    /// The next time.
    pub warm: Vec<f64>,
}

/// Goes through a nest twice, on one core.
///
/// # Errors
/// The machine is none.
pub fn cycles(machine: &Machine, streams: &[Stream], times: Times, order: Order) -> Result<Cycles, MachineError> {
    let cut = times.cut_short(streams.len(), order);
    let mut simulation = Simulation::new(machine, &Options::default())?;
    let mut pass = || {
        let mut sums = vec![0; streams.len()];
        accesses(streams, cut, order, |access| sums[access.key as usize] += simulation.cost(&access, None).cycles);
        let steps = (cut.inner * cut.outer) as f64;
        sums.into_iter()
            .zip(streams)
            .map(|(sum, of): (u64, _)| sum as f64 * times.weight(cut, of.turn) / steps)
            .collect()
    };
    Ok(Cycles { cold: pass(), warm: pass() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A matrix that is gone through by columns.
    const BY_COLUMNS: Stream = Stream {
        start: 0,
        inner_bytes: 128,
        outer_bytes: 8,
        bytes: 8,
        kind: AccessKind::Load,
        turn: Turn::Inner,
        work: Work::USUAL,
    };

    /// Four lines beside the core, 32 behind.
    fn machine() -> Machine {
        let text = r#"
            name = "small"
            cache = [
                { name = "L1", level = 1, holds = "data", size = 256, line = 64, ways = "full", latency = 1 },
                { name = "L2", level = 2, size = 2048, line = 64, ways = "full", latency = 10 },
            ]
            memory = [{ name = "memory", latency = 100 }]
        "#;
        Machine::parse(text).unwrap()
    }

    #[test]
    fn columns_made_rows_by_hand() {
        // Eight rows of 128 bytes by columns: 16 lines, more than the first level has, and all that the second needs.
        let matrix = BY_COLUMNS;
        // One double a column, kept in the first level by being used each time.
        let sum = Stream { start: 1 << 20, inner_bytes: 0, ..matrix };
        let times = Times { inner: 8, outer: 16 };
        let now = cycles(&machine(), &[matrix, sum], times, Order::Now).unwrap();
        // 16 lines once from memory, each of the other accesses from the second level.
        assert_eq!(now.cold[0], (16.0 * 100.0 + 112.0 * 10.0) / 128.0);
        assert_eq!(now.warm[0], 10.0);
        assert_eq!((now.cold[1], now.warm[1]), ((2.0 * 100.0 + 126.0) / 128.0, (2.0 * 10.0 + 126.0) / 128.0));
        let then = cycles(&machine(), &[matrix, sum], times, Order::Exchanged).unwrap();
        assert_eq!(then.cold[0], (16.0 * 100.0 + 112.0) / 128.0);
        assert_eq!(then.warm[0], (16.0 * 10.0 + 112.0) / 128.0);
        // Its two lines stay beside the two of a row.
        assert_eq!(then.cold[1], (2.0 * 100.0 + 126.0) / 128.0);
    }

    #[test]
    fn long_nests_are_cut_short_and_nothing_overflows() {
        let stream = Stream {
            start: u64::MAX,
            inner_bytes: i64::MIN,
            outer_bytes: 8,
            bytes: 8,
            kind: AccessKind::Store,
            turn: Turn::Inner,
            work: Work::USUAL,
        };
        let times = Times { inner: u64::MAX, outer: 64 };
        let then = cycles(&machine(), &[stream], times, Order::Exchanged).unwrap();
        assert!(then.cold[0] < 100.0 && then.warm[0] > 1.0, "{then:?}");
        let none = cycles(&machine(), &[], Times { inner: 0, outer: 0 }, Order::Now).unwrap();
        assert_eq!(none, Cycles { cold: Vec::new(), warm: Vec::new() });
    }

    #[test]
    fn the_loop_outside_is_cut() {
        let cut = |inner, outer, streams, order| {
            let Times { inner, outer } = Times { inner, outer }.cut_short(streams, order);
            (inner, outer)
        };
        assert_eq!(cut(100_000, 400, 1, Order::Now), (100_000, 64));
        // What 400 steps reuse is not what 64 would.
        assert_eq!(cut(100_000, 400, 1, Order::Exchanged), ((1 << 19) / 400, 400));
        assert_eq!(cut(100_000, 400, 1, Order::Tiled(8)), (100_000, 64));
        assert_eq!(cut(0, 0, 0, Order::Exchanged), (1, 1));
        // However many instructions there are, as many accesses.
        for streams in [1, 3, 1000, 1 << 20] {
            let (inner, outer) = cut(u64::MAX, u64::MAX, streams, Order::Now);
            assert!(inner * outer * streams as u64 <= 64 * (1 << 18).max(streams as u64), "{inner} {outer}");
        }
    }

    fn steps(order: Order, inner: u64, outer: u64) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        order.steps(Times { inner, outer }, |inner, outer| all.push((outer, inner)));
        all
    }

    #[test]
    fn orders_by_hand() {
        assert_eq!(steps(Order::Exchanged, 2, 3), [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]);
        // Three columns and two rows by tiles of two: the last column is a tile of its own.
        assert_eq!(steps(Order::Tiled(2), 3, 2), [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(steps(Order::Tiled(100), 3, 2), steps(Order::Now, 3, 2));
        assert_eq!(steps(Order::Tiled(1), 3, 2), steps(Order::Now, 3, 2));
    }

    #[test]
    fn a_transposition_by_tiles_by_hand() {
        // Sixteen by sixteen doubles, two lines a row, of which one matrix is read by columns.
        let by_rows = Stream {
            start: 0,
            inner_bytes: 8,
            outer_bytes: 128,
            bytes: 8,
            kind: AccessKind::Store,
            turn: Turn::Inner,
            work: Work::USUAL,
        };
        let by_columns = Stream { start: 1 << 20, inner_bytes: 128, outer_bytes: 8, kind: AccessKind::Load, ..by_rows };
        let times = Times { inner: 16, outer: 16 };
        let run = |order| cycles(&machine(), &[by_rows, by_columns], times, order).unwrap();
        // Four lines do not keep a column of sixteen: each of its accesses but the first ones to its 32 lines is served from behind.
        assert_eq!(run(Order::Now).cold[1], (32.0 * 100.0 + 224.0 * 10.0) / 256.0);
        // Two rows of a tile of two are two lines, and so are its columns. Of four columns of tiles one line has what the next one needs, but
        // eight of them lie between.
        let tiled = run(Order::Tiled(2)).cold[1];
        assert_eq!(tiled, (32.0 * 100.0 + (128.0 - 32.0) * 10.0 + 128.0) / 256.0);
        // Exchanged the other one walks across.
        assert_eq!(run(Order::Exchanged).cold[0], run(Order::Now).cold[1]);
    }

    #[test]
    fn sums_are_kept_until_the_outer_loop_goes_on() {
        let sum = Stream {
            start: 64,
            inner_bytes: 0,
            outer_bytes: 8,
            bytes: 8,
            kind: AccessKind::Store,
            turn: Turn::Outer,
            work: Work::USUAL,
        };
        let run = |streams: &[Stream], order| {
            let mut all = Vec::new();
            let Instructions { streams, times, .. } =
                Instructions::of(streams, Times { inner: 4, outer: 2 }, order, false);
            accesses(&streams, times, order, |access| all.push((access.address, access.kind)));
            all
        };
        let once = [(64, AccessKind::Store), (72, AccessKind::Store)];
        assert_eq!(run(&[sum], Order::Now), once);
        let both = [(64, AccessKind::Modify), (72, AccessKind::Modify)];
        assert_eq!(run(&[sum], Order::Exchanged), both.repeat(4));
        assert_eq!(run(&[sum], Order::Tiled(2)), both.repeat(2));
        // Where its source says that no register holds it, it is none.
        let apart = Stream { turn: Turn::Apart, ..sum };
        for order in [Order::Exchanged, Order::Tiled(2)] {
            assert_eq!(run(&[apart], order), once, "{order:?}");
        }
        // What is set before the loops, and stored in each step.
        let stored = Stream { turn: Turn::Inner, ..sum };
        for order in [Order::Exchanged, Order::Tiled(2)] {
            let mut all = run(&[stored, sum], order);
            all.retain(|(_, kind)| *kind == AccessKind::Store);
            assert_eq!(all, once, "{order:?}");
            let all = run(&[stored, sum], order);
            assert_eq!(all.iter().filter(|(_, kind)| *kind == AccessKind::Modify).count(), 8, "{order:?}");
        }
        // A sum in a register beside it is one in memory then.
        let other = Stream { start: 640, ..sum };
        let mut all = run(&[stored, other], Order::Exchanged);
        all.retain(|(address, _)| *address >= 640);
        assert_eq!(all, [640, 648].map(|at| (at, AccessKind::Modify)).repeat(4));
    }

    /// Bounds and shared variables that an outlined function of OpenMP loads each time that it is called.
    #[test]
    fn scalars_in_memory_are_accessed_as_often_in_each_order() {
        let element = Stream { start: 64, inner_bytes: 0, turn: Turn::Outer, ..BY_COLUMNS };
        let scalar = Stream { start: 4096, outer_bytes: 0, ..element };
        let stored = Stream { start: 4104, kind: AccessKind::Store, ..scalar };
        let times = Times { inner: 4, outer: 2 };
        let count = |order, wanted: u64| {
            let made = Instructions::of(&[BY_COLUMNS, element, scalar, stored], times, order, true);
            let mut count = 0;
            accesses(&made.streams, made.times, order, |access| count += u64::from(access.address == wanted));
            count
        };
        // Two times around the outer loop; the element of one of them is needed in each of its four steps.
        assert_eq!([64, 4096, 4104].map(|at| count(Order::Now, at)), [1, 2, 2]);
        assert_eq!([64, 4096, 4104].map(|at| count(Order::Exchanged, at)), [4, 2, 2]);
    }

    #[test]
    fn what_each_step_stores_is_loaded_where_it_was() {
        let of =
            |kind, turn| Stream { start: 64, inner_bytes: 0, outer_bytes: 16, bytes: 8, kind, turn, work: Work::USUAL };
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        // `last[j] = a[i][j]`
        assert_eq!(reordered(&[of(store, Turn::Inner)]), [of(store, Turn::Inner)]);
        // `x[j] += a[i][j]`, of which neither is in a register; with a load behind the inner loop, `y[j] = x[j] / n`, which stays.
        let modify = of(AccessKind::Modify, Turn::Inner);
        let each = [of(load, Turn::Inner), of(store, Turn::Inner)];
        // With the work of both.
        let both = Stream { work: modify.work.plus(modify.work), ..modify };
        assert_eq!(reordered(&each), [both]);
        let behind = [of(load, Turn::Outer), each[0], each[1]];
        assert_eq!(reordered(&behind), [of(load, Turn::Apart), both]);
        // What the register begins with.
        assert_eq!(reordered(&[of(load, Turn::Outer), of(store, Turn::Inner)]), [modify]);
    }

    #[test]
    fn loops_of_their_own_weigh_what_they_do_however_short_a_nest_is_cut() {
        let each = Stream {
            start: 0,
            inner_bytes: 8,
            outer_bytes: 0,
            bytes: 8,
            kind: AccessKind::Load,
            turn: Turn::Inner,
            work: Work::USUAL,
        };
        // A line each time around.
        let once = Stream { start: 1 << 40, inner_bytes: 0, outer_bytes: 64, turn: Turn::Apart, ..each };
        let outer = 1 << 14;
        let cycles = |inner, order| cycles(&machine(), &[each, once], Times { inner, outer }, order).unwrap().cold[1];
        let cut = Times { inner: 4096, outer }.cut_short(2, Order::Exchanged);
        assert_eq!(cut, Times { inner: 64, outer });
        // `outer` lines for all 4096 times around, of which 64 are gone through.
        assert_eq!(cycles(4096, Order::Exchanged), 100.0 / 4096.0);
        assert_eq!(cycles(4096, Order::Now), 100.0 / 4096.0);
        assert_eq!(cycles(64, Order::Exchanged), 100.0 / 64.0);
    }

    #[test]
    fn a_product_is_made_of_vectors_once_its_loops_are_exchanged() {
        // `c[j] += a[k] * b[k][j]`, the inner loop by k: c lies in a register meanwhile, and is loaded before and stored behind.
        let load = BY_COLUMNS;
        let a = Stream { start: 4096, inner_bytes: 8, outer_bytes: 0, ..load };
        let c = Stream { start: 8192, inner_bytes: 0, outer_bytes: 8, turn: Turn::Outer, work: Work::of(40.0), ..load };
        let stored = Stream { kind: AccessKind::Store, ..c };
        let times = Times { inner: 8, outer: 17 };
        let made = |streams: &[Stream], order| Instructions::of(streams, times, order, true);
        let all = [load, a, c, stored];
        let vector = |of: Stream| Stream { outer_bytes: 16, bytes: 16, ..of };
        // What is computed around the inner loop stays there.
        let modified = Stream { kind: AccessKind::Modify, turn: Turn::Held, work: Work::USUAL, ..c };
        let with_a = Stream { work: load.work.plus(a.work), ..vector(load) };
        let expected =
            Instructions { streams: vec![with_a, vector(modified)], times: Times { inner: 8, outer: 8 }, lanes: 2 };
        assert_eq!(made(&all, Order::Exchanged), expected);
        let scalar = |streams: &[Stream]| Instructions { streams: streams.to_vec(), times, lanes: 1 };
        assert_eq!(made(&all, Order::Now), scalar(&all));
        assert_eq!(made(&all, Order::Tiled(4)), scalar(&[load, a, modified]));
        assert_eq!(Instructions::of(&all, times, Order::Exchanged, false), scalar(&[load, a, modified]));
        // A store in each step, as the compiler does not know that it is not what it loads next.
        let each = Stream { turn: Turn::Inner, work: Work::USUAL, ..stored };
        assert_eq!(made(&[c, each], Order::Exchanged).streams, [vector(Stream { turn: Turn::Inner, ..modified })]);
        // Behind these each is divided and goes into a column, in a loop of its own.
        let column = Stream { start: 16_384, outer_bytes: 128, ..stored };
        let in_memory = Stream { kind: AccessKind::Modify, ..each };
        let at = |of: Stream, lane: u64| Stream {
            start: of.start + lane * of.outer_bytes.cast_unsigned(),
            outer_bytes: 2 * of.outer_bytes,
            ..of
        };
        let apart = |of: Stream| Stream { turn: Turn::Apart, ..of };
        let elements = [at(stored, 0), at(stored, 1), at(column, 0), at(column, 1)].map(apart);
        let expected = [&[with_a, vector(in_memory)], &elements[..]].concat();
        let all = [load, a, c, each, stored, apart(column)];
        assert_eq!(made(&all, Order::Exchanged).streams, expected);
        assert_eq!(made(&all, Order::Tiled(4)).streams, [load, a, in_memory, apart(stored), apart(column)]);
        // Where it may be a sum of its own, each step needs it.
        let held = Stream { kind: AccessKind::Modify, turn: Turn::Held, work: Work::USUAL, ..column };
        let expected = [load, a, in_memory, apart(stored), held];
        assert_eq!(made(&[load, a, c, each, stored, column], Order::Exchanged), scalar(&expected));
        // A sum of all in a register; one for each row; what walks otherwise; what the step before stored.
        let before = Stream { start: 0, outer_bytes: 8, ..stored };
        let above = Stream { start: 8, ..load };
        for alone in [
            vec![load],
            vec![Stream { inner_bytes: 8, outer_bytes: 0, ..stored }],
            vec![Stream { outer_bytes: 16, ..load }, stored],
            vec![above, before],
        ] {
            assert_eq!(made(&alone, Order::Exchanged).lanes, 1, "{alone:?}");
        }
    }

    proptest! {
        /// Sorted by their tiles, and within these as they were.
        #[test]
        fn tiles_are_as_if_sorted((tile, inner, outer) in (1_u64..20, 0_u64..40, 0_u64..40)) {
            let mut expected = steps(Order::Now, inner, outer);
            expected.sort_by_key(|(outer, inner)| (outer / tile, inner / tile));
            prop_assert_eq!(steps(Order::Tiled(tile), inner, outer), expected);
        }
    }
}
