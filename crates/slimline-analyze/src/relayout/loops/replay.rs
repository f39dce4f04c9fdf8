//! What a nest takes in other orders.

use slimline_simulate::access::{Access, Consumer as _};
use slimline_simulate::locality::exchange::{self, Order, Stream, Times as Around, Turn};
use slimline_simulate::machine::{Machine, MachineError};
use slimline_simulate::relaid::structure_key;
use slimline_simulate::simulation::{Options, Simulation};
use slimline_simulate::waiting::{Times, Waiting};

use super::{MeasuredNest, Nest};
use crate::relayout::Taken;

/// Sides of tiles that are tried: of doubles from one line to sixteen.
const TILES: [u64; 5] = [8, 16, 32, 64, 128];
/// The replay of a nest as it is takes at most so many times what was measured, and at least the inverse.
const REPLAYED: f64 = 2.0;
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
struct Passes {
    cold: Cost,
    warm: Cost,
}

impl Passes {
    fn of(machine: &Machine, streams: &[Stream], around: Around, order: Order) -> Result<Self, MachineError> {
        let steps = (around.inner * around.outer) as f64;
        // Pages are there: in whichever order, each is a fault once.
        let simulation = Simulation::new(machine, &Options::default())?;
        let mut waiting = Waiting::new(simulation).without_faults().by_key();
        let keys = [0, 1].map(|pass| structure_key(pass, false));
        let mut batch: Vec<Access> = Vec::with_capacity(BATCH);
        for key in keys {
            exchange::accesses(streams, around, order, |access| {
                batch.push(Access { key, ..access });
                if batch.len() == BATCH {
                    waiting.take(&batch);
                    batch.clear();
                }
            });
        }
        waiting.take(&batch);
        let waited = waiting.finish();
        let [cold, warm] = keys.map(|key| {
            let cost = Cost::of(&Taken::of_key(&waited, key));
            cost.with(&cost, |all, _| all / steps)
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

/// For each order that may be better: which part of what a nest takes is left. None where its replay as it is does not take what was measured.
///
/// # Errors
/// The machine is none.
pub(super) fn in_other_orders(
    machine: &Machine,
    nest: &Nest,
    measured: &MeasuredNest,
) -> Result<Option<Vec<(Order, Cost)>>, MachineError> {
    if measured.steps == 0 {
        return Ok(None);
    }
    let streams: Vec<Stream> = nest.streams.iter().map(|of| of.stream).collect();
    let around = nest.times.cut_short(streams.len());
    let replay = |order| Passes::of(machine, &streams, around, order);
    let now = replay(Order::Now)?;
    let observed = measured.cost.times.expected / measured.steps as f64;
    let (cold, warm) = (now.cold.times.expected, now.warm.times.expected);
    let part = if cold > warm { ((observed - warm) / (cold - warm)).clamp(0.0, 1.0) } else { 1.0 };
    let now = now.mixed(part);
    if !(observed / REPLAYED..=observed * REPLAYED).contains(&now.times.expected) {
        return Ok(None);
    }
    let shorter = around.inner.min(around.outer);
    let has_other_way = streams.iter().any(|stream| is_against_exchanged(stream, u64::from(machine.line_bytes())));
    let tiles = TILES.into_iter().filter(|tile| has_other_way && tile * 2 <= shorter).map(Order::Tiled);
    let left = |order| {
        let then = replay(order)?.mixed(part);
        // What there was none of stays none.
        Ok((order, then.with(&now, |then, now| if now > 0.0 { then / now } else { 1.0 })))
    };
    [Order::Exchanged].into_iter().chain(tiles).map(left).collect::<Result<_, _>>().map(Some)
}
