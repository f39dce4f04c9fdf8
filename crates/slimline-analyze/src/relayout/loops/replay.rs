//! What a nest takes in other orders.

use slimline_simulate::access::{Access, Consumer as _};
use slimline_simulate::locality::exchange::{self, Instructions, Order, Stream, Times as Around, Turn};
use slimline_simulate::machine::{Machine, MachineError};
use slimline_simulate::relaid::structure_key;
use slimline_simulate::simulation::{Options, Simulation};
use slimline_simulate::waiting::{Times, Waiting};

use super::MeasuredNest;
use crate::nests::{is_replay_of, part_cold};
use crate::relayout::Taken;

/// Sides of tiles that are tried: of doubles from one line to sixteen.
const TILES: [u64; 5] = [8, 16, 32, 64, 128];
/// Accesses that are made at once.
const BATCH: usize = 4096;

/// What some accesses take, or, each for itself, by what they take as the program is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Cycles.
    pub times: Times,
    /// Lines that the first level did not have.
    pub first_misses: f64,
    /// Lines that memory served.
    pub memory_lines: f64,
}

impl Cost {
    /// What was taken.
    pub(super) fn of(taken: &Taken) -> Self {
        let Taken { times, first_misses, memory_lines } = *taken;
        Self { times, first_misses: first_misses as f64, memory_lines: memory_lines as f64 }
    }

    fn with(&self, other: &Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let (a, b) = (&self.times, &other.times);
        Self {
            times: Times {
                least: of(a.least, b.least),
                expected: of(a.expected, b.expected),
                most: of(a.most, b.most),
            },
            first_misses: of(self.first_misses, other.first_misses),
            memory_lines: of(self.memory_lines, other.memory_lines),
        }
    }

    /// Adds another.
    pub(super) fn add(&mut self, other: &Self) {
        *self = self.with(other, |a, b| a + b);
    }

    /// What is saved where such parts of it are left.
    pub(super) fn less(&self, left: &Self) -> Self {
        self.with(left, |all, left| all * (1.0 - left))
    }

    /// What is left of what a program takes where this is saved.
    pub(super) fn taken_from(&self, before: &Taken) -> Taken {
        let left = Self::of(before).with(self, |all, less| (all - less).max(0.0));
        Taken {
            times: left.times,
            first_misses: left.first_misses.round() as u64,
            memory_lines: left.memory_lines.round() as u64,
        }
    }
}

/// What a nest takes for each step of its inner loop, the first time through it and the next.
#[derive(Debug)]
struct Passes {
    cold: Cost,
    warm: Cost,
}

impl Passes {
    fn of(machine: &Machine, instructions: &Instructions, order: Order) -> Result<Self, MachineError> {
        let Instructions { streams, times, lanes } = instructions;
        let around = times.cut_short(streams.len(), order);
        let steps = (around.inner * around.outer * lanes) as f64;
        let of_outer = times.weight(around, Turn::Outer);
        // Pages are there: in whichever order, each is a fault once.
        let simulation = Simulation::new(machine, &Options::default())?;
        let mut waiting = Waiting::new(simulation).without_faults().by_key();
        // What each step does, and what comes with the outer loop alone.
        let keys = [0, 1].map(|pass| [0, 1].map(|turn| structure_key(2 * pass + turn, false)));
        let mut batch: Vec<Access> = Vec::with_capacity(BATCH);
        for key in keys {
            exchange::accesses(streams, around, order, |access| {
                let is_once_around = streams[access.key as usize].turn.is_once_around();
                batch.push(Access { key: key[usize::from(is_once_around)], ..access });
                if batch.len() == BATCH {
                    waiting.take(&batch);
                    batch.clear();
                }
            });
        }
        waiting.take(&batch);
        let waited = waiting.finish();
        let [cold, warm] = keys.map(|key| {
            let [of_steps, once_around] = key.map(|key| Cost::of(&Taken::of_key(&waited, key)));
            of_steps.with(&once_around, |of_steps, once_around| (of_steps + once_around * of_outer) / steps)
        });
        Ok(Self { cold, warm })
    }

    /// So much of it the first time through.
    fn mixed(&self, part: f64) -> Cost {
        self.cold.with(&self.warm, |cold, warm| part * cold + (1.0 - part) * warm)
    }
}

/// Whether an instruction walks against the layout once the loops are exchanged.
fn is_against_exchanged(stream: &Stream, line_bytes: u64) -> bool {
    let (inner, outer) = (stream.inner_bytes.unsigned_abs(), stream.outer_bytes.unsigned_abs());
    stream.turn == Turn::Inner && outer >= line_bytes && inner < line_bytes
}

/// What nests take in each order, those of the same strides and times once: those of other threads.
#[derive(Debug)]
pub(super) struct Replays<'a> {
    machine: &'a Machine,
    known: Vec<Replay>,
}

#[derive(Debug)]
struct Replay {
    streams: Vec<Stream>,
    times: Around,
    may_be_vectors: bool,
    /// As it is first; with the elements of vectors.
    orders: Vec<(Order, u64, Passes)>,
}

/// What is left in another order of what a nest takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) order: Order,
    /// Elements of the vectors that the inner loop goes by then.
    pub(super) lanes: u64,
    /// Parts of what it takes now.
    pub(super) cost: Cost,
}

impl<'a> Replays<'a> {
    /// None yet.
    pub(super) fn of(machine: &'a Machine) -> Self {
        Self { machine, known: Vec::new() }
    }

    /// For each order that may be better: which part of what a nest takes is left, with vectors where these can be and, of what addresses do not tell, may be. None
    /// where its replay as it is does not take what was measured.
    ///
    /// # Errors
    /// The machine is none.
    pub(super) fn in_other_orders(
        &mut self,
        nest: (Vec<Stream>, Around),
        measured: &MeasuredNest,
        may_be_vectors: bool,
    ) -> Result<Option<Vec<Left>>, MachineError> {
        if measured.steps == 0 {
            return Ok(None);
        }
        let number = self.number_of(nest, may_be_vectors)?;
        let Some(((.., now), others)) = self.known[number].orders.split_first() else { return Ok(None) };
        let observed = measured.cost.times.expected / measured.steps as f64;
        let part = part_cold(observed, now.cold.times.expected, now.warm.times.expected);
        let now = now.mixed(part);
        if !is_replay_of(observed, now.times.expected) {
            return Ok(None);
        }
        // What there was none of stays none.
        let part_of = |then: Cost| then.with(&now, |then, now| if now > 0.0 { then / now } else { 1.0 });
        let left = |(order, lanes, then): &(Order, u64, Passes)| Left {
            order: *order,
            lanes: *lanes,
            cost: part_of(then.mixed(part)),
        };
        Ok(Some(others.iter().map(left).collect()))
    }

    /// Which of those that are known.
    fn number_of(
        &mut self,
        (streams, times): (Vec<Stream>, Around),
        may_be_vectors: bool,
    ) -> Result<usize, MachineError> {
        // Wherever they begin.
        let alike = |a: &Stream, b: &Stream| Stream { start: 0, ..*a } == Stream { start: 0, ..*b };
        let is_nest = |known: &Replay| {
            let is_as_long = known.streams.len() == streams.len() && known.times == times;
            is_as_long
                && known.may_be_vectors == may_be_vectors
                && known.streams.iter().zip(&streams).all(|(known, of)| alike(known, of))
        };
        if let Some(number) = self.known.iter().position(is_nest) {
            return Ok(number);
        }
        let around = times.cut_short(streams.len(), Order::Now);
        let shorter = around.inner.min(around.outer);
        let line_bytes = u64::from(self.machine.line_bytes());
        let has_other_way = streams.iter().any(|stream| is_against_exchanged(stream, line_bytes));
        let tiles = TILES.into_iter().filter(|tile| has_other_way && tile * 2 <= shorter).map(Order::Tiled);
        let orders = [Order::Now, Order::Exchanged].into_iter().chain(tiles);
        let passes = orders.map(|order| {
            let instructions = Instructions::of(&streams, times, order, may_be_vectors);
            Ok((order, instructions.lanes, Passes::of(self.machine, &instructions, order)?))
        });
        let orders = passes.collect::<Result<_, MachineError>>()?;
        self.known.push(Replay { streams, times, may_be_vectors, orders });
        Ok(self.known.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::AccessKind;

    use super::*;
    use slimline_simulate::access::Work;

    /// One cache of eight lines.
    fn machine() -> Machine {
        let text = "name = \"m\"\ncores = 1\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 512, line = 64, \
             ways = 8, latency = 2 }]\nmemory = [{ name = \"m\", latency = 102 }]\n";
        Machine::parse(text).unwrap()
    }

    #[test]
    fn nests_of_other_threads_are_replayed_once() {
        let machine = machine();
        let nest = |start, outer| {
            let kind = AccessKind::Load;
            let stream = Stream {
                start,
                inner_bytes: 128,
                outer_bytes: 8,
                bytes: 8,
                kind,
                turn: Turn::Inner,
                work: Work::USUAL,
            };
            (vec![stream], Around { inner: 8, outer })
        };
        let mut replays = Replays::of(&machine);
        let numbers = [nest(0, 8), nest(1 << 20, 8), nest(0, 9)].map(|nest| replays.number_of(nest, true).unwrap());
        assert_eq!((numbers, replays.known.len()), ([0, 0, 1], 2));
    }

    /// However long the inner loop is, of which 64 times around are gone through once it is outside.
    #[test]
    fn loops_of_their_own_weigh_what_they_do() {
        let machine = machine();
        let kind = AccessKind::Load;
        let each =
            Stream { start: 0, inner_bytes: 64, outer_bytes: 0, bytes: 8, kind, turn: Turn::Inner, work: Work::USUAL };
        let once = Stream { start: 1 << 40, inner_bytes: 0, outer_bytes: 64, turn: Turn::Apart, ..each };
        let lines = |inner, streams: &[Stream]| {
            let times = Around { inner, outer: 1 << 14 };
            let instructions = Instructions { streams: streams.to_vec(), times, lanes: 1 };
            Passes::of(&machine, &instructions, Order::Exchanged).unwrap().cold.memory_lines
        };
        // A line for each time around, beside those of the loop outside: one for each of its.
        for inner in [64, 4096] {
            let own = lines(inner, &[each, once]) - lines(inner, &[each]);
            assert!((own - 1.0 / inner as f64).abs() < 1e-9, "{inner}: {own}");
        }
    }
}
