//! Which data should live in a memory that is faster than where it lives, and too small for all.
//!
//! What is saved is known from one simulation: where a line lives changes what it costs to fetch, not which lines caches
//! miss. So each part of data saves the lines that slower memories served of it, times the difference of latencies (Peña
//! and Balaji, "A Data-Oriented Profiler to Assist in Data Partitioning", 5).
//!
//! What can be placed: groups of blocks, whole; and of data that is one block or a variable any range of parts, since a split
//! into two or three buffers is code that people write. To choose so that it fits is a multiple-choice knapsack problem. It
//! is solved by a price of the room (Everett 1963, "Generalized Lagrange multiplier method"): at a price of so many cycles
//! a byte each group takes the range that is worth most beyond it, by itself. The lowest price at which all fit is found by
//! bisection, and what room is left then goes to what gains most by it. At any price what groups are worth beyond it and the
//! price of all room together are at least what any choice saves: so it is known how far from the best the choice can be.

mod ranges;

use std::cmp::Reverse;
use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};

use slimline_simulate::machine::{Machine, Memory};
use slimline_simulate::simulation::Outcome;

use crate::histogram::{Parts, by_part};
use crate::origins::{DataKind, Origins};

/// Halvings of the interval of prices: the last is far below what one line of a byte is worth.
const HALVINGS: u32 = 100;

/// What is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Lines that come from the faster memory.
    pub lines: u64,
    /// Cycles that they take less.
    pub cycles: u64,
}

impl AddAssign for Saved {
    fn add_assign(&mut self, more: Self) {
        self.lines += more.lines;
        self.cycles += more.cycles;
    }
}

impl SubAssign for Saved {
    fn sub_assign(&mut self, less: Self) {
        self.lines -= less.lines;
        self.cycles -= less.cycles;
    }
}

impl Sum for Saved {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let mut sum = Self::default();
        all.for_each(|one| sum += one);
        sum
    }
}

/// Bytes of data, from the first to before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSaved {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset behind the last.
    pub end: u64,
    /// What is saved where it lies in the faster memory.
    pub saved: Saved,
}

/// A group of data that could be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which of [`Origins::data`].
    pub data: u32,
    /// What all of it needs: of blocks what lived at a time, of a variable its extent.
    pub bytes: u64,
    /// Whether ranges of it can be placed, and not only all.
    pub is_divisible: bool,
    /// The parts of which other memories served lines, by offset.
    pub parts: Vec<PartSaved>,
}

/// A range of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset behind the last.
    pub end: u64,
    /// What is saved.
    pub saved: Saved,
}

impl Range {
    /// Room that it takes.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// What is placed: of each candidate, by its number, at most one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// By number.
    pub placed: Vec<(usize, Range)>,
}

impl Placement {
    /// What all of it saves.
    pub fn saved(&self) -> Saved {
        self.placed.iter().map(|(_, range)| range.saved).sum()
    }

    /// Room that it takes.
    pub fn bytes(&self) -> u64 {
        self.placed.iter().map(|(_, range)| range.bytes()).sum()
    }
}

/// How to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The largest data first, while there is room, the last of it by its first bytes.
    Biggest,
    /// Whole data, that first which saves most; what does not fit is left out.
    Whole,
    /// The first bytes of the data that saves most.
    First,
    /// Its last bytes.
    Last,
    /// Of all its ranges that fill the room the one that saves least.
    Coldest,
    /// That which saves most.
    Hottest,
    /// The best that was found.
    Best,
}

impl Choice {
    /// All, the best one last.
    pub const ALL: [Self; 7] =
        [Self::Biggest, Self::Whole, Self::First, Self::Last, Self::Coldest, Self::Hottest, Self::Best];
}

/// What could be placed, and what each choice would save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placements {
    /// What could be, that first which saves most.
    pub candidates: Vec<Candidate>,
    /// What cannot, since nothing is known of it.
    pub unattributed: Saved,
    /// By [`Choice::ALL`]; None where the data that saves most is of many blocks and does not fit.
    pub choices: Vec<(Choice, Option<Placement>)>,
    /// No choice saves more cycles.
    pub at_most_cycles: u64,
}

/// What living in `fast`, one of the machine's memories, would save of all data, if it had so much room.
pub fn placements(outcome: &Outcome, origins: &Origins, fast: usize, room_bytes: u64) -> Placements {
    let machine = outcome.machine();
    let near = machine.memory_of_core();
    let saved = |key: u32| {
        let near = near[machine.core_of(origins.of(key).thread) as usize];
        let fast_cycles = machine.memories[fast].latency_cycles[near];
        let served = machine.memories.iter().zip(outcome.of_key(key).served_by_memory);
        let saved = served.map(|(memory, lines)| {
            let less = u64::from(memory.latency_cycles[near].saturating_sub(fast_cycles));
            if less > 0 { Saved { lines, cycles: lines * less } } else { Saved::default() }
        });
        Some(saved.sum::<Saved>()).filter(|saved| saved.cycles > 0)
    };
    let mut candidates = Vec::new();
    let mut unattributed = Saved::default();
    for found in by_part(origins, saved, |sum, more| *sum += *more) {
        match candidate(&found, origins) {
            Some(candidate) => candidates.push(candidate),
            None => unattributed += found.parts.iter().map(|(_, saved)| *saved).sum::<Saved>(),
        }
    }
    candidates.sort_by_key(|candidate| Reverse(candidate.saved().cycles));
    choose(candidates, unattributed, room_bytes)
}

/// The memory to place data in where none is asked for: of those that are limited and faster than the one near to some core
/// the fastest.
pub fn fast_memory(machine: &Machine) -> Option<usize> {
    let near = machine.memory_of_core();
    let gains = |memory: &Memory| {
        near.iter().any(|&near| memory.latency_cycles[near] < machine.memories[near].latency_cycles[near])
    };
    let fast = machine.memories.iter().enumerate().filter(|(_, memory)| memory.bytes.is_some() && gains(memory));
    fast.min_by_key(|(_, memory)| memory.latency_cycles.iter().min().copied()).map(|(place, _)| place)
}

fn candidate(found: &Parts<Saved>, origins: &Origins) -> Option<Candidate> {
    let data = &origins.data()[found.data as usize];
    let (bytes, is_divisible) = match data.kind {
        DataKind::Heap if data.blocks > 1 => (data.peak_bytes, false),
        DataKind::Heap | DataKind::Variable => (found.extent_bytes, true),
        DataKind::Unattributed => (0, false),
    };
    // Without parts nothing says how large it is.
    if bytes == 0 || found.part_bytes == 0 {
        return None;
    }
    // What is overlaid may reach beyond.
    let end = |start: u64| if is_divisible { (start + found.part_bytes).min(bytes) } else { start + found.part_bytes };
    let parts = found.parts.iter().map(|&(start, saved)| PartSaved { start, end: end(start), saved });
    Some(Candidate { data: found.data, bytes, is_divisible, parts: parts.collect() })
}

fn choose(candidates: Vec<Candidate>, unattributed: Saved, room_bytes: u64) -> Placements {
    let mut choices: Vec<(Choice, Option<Placement>)> = Vec::new();
    for choice in Choice::ALL {
        let hottest = |range: &dyn Fn(&Candidate, u64) -> Option<Range>| {
            let Some(hottest) = candidates.first() else { return Some(Placement::default()) };
            let range = if hottest.bytes <= room_bytes || !hottest.is_divisible {
                Some(hottest.whole()).filter(|_| hottest.bytes <= room_bytes)
            } else {
                range(hottest, room_bytes)
            };
            range.map(|range| Placement { placed: vec![(0, range)] })
        };
        let placement = match choice {
            Choice::Biggest => Some(biggest(&candidates, room_bytes)),
            Choice::Whole => Some(whole(&candidates, room_bytes)),
            Choice::First => hottest(&|data, room| Some(data.range_at(0, room))),
            Choice::Last => hottest(&|data, room| Some(data.range_at(data.bytes - room, room))),
            Choice::Coldest => hottest(&|data, room| Some(data.worst_of(room))),
            Choice::Hottest => hottest(&|data, room| data.best_within(room)),
            Choice::Best => continue,
        };
        choices.push((choice, placement));
    }
    let (mut best, at_most_cycles) = best(&candidates, room_bytes);
    for other in choices.iter().filter_map(|(_, placement)| placement.as_ref()) {
        if other.saved().cycles > best.saved().cycles {
            best = other.clone();
        }
    }
    best.placed.sort_by_key(|(_, range)| Reverse(range.saved.cycles));
    choices.push((Choice::Best, Some(best)));
    Placements { candidates, unattributed, choices, at_most_cycles }
}

fn biggest(candidates: &[Candidate], room_bytes: u64) -> Placement {
    let mut numbers: Vec<usize> = (0..candidates.len()).collect();
    numbers.sort_by_key(|&number| Reverse(candidates[number].bytes));
    let mut room = room_bytes;
    let mut placement = Placement::default();
    for number in numbers {
        let data = &candidates[number];
        let range = if data.bytes <= room { data.whole() } else { data.range_at(0, room) };
        if range.bytes() > 0 && (data.is_divisible || data.bytes <= room) {
            room -= range.bytes();
            placement.placed.push((number, range));
        }
    }
    placement
}

fn whole(candidates: &[Candidate], room_bytes: u64) -> Placement {
    let mut room = room_bytes;
    let mut placement = Placement::default();
    for (number, data) in candidates.iter().enumerate() {
        if data.bytes <= room {
            room -= data.bytes;
            placement.placed.push((number, data.whole()));
        }
    }
    placement
}

/// The best that was found, and what no choice exceeds.
fn best(candidates: &[Candidate], room_bytes: u64) -> (Placement, u64) {
    let at = |price: f64| {
        let ranges = candidates.iter().enumerate();
        let placed: Vec<_> = ranges.filter_map(|(number, data)| Some((number, data.worth_most(price)?))).collect();
        let placement = Placement { placed };
        let beyond = placement.saved().cycles as f64 - price * placement.bytes() as f64;
        (placement, beyond + price * room_bytes as f64)
    };
    let (free, all_cycles) = at(0.0);
    if free.bytes() <= room_bytes {
        return (free, all_cycles as u64);
    }
    // At the upper price nothing is worth it.
    let densest = |data: &Candidate| data.saved().cycles as f64;
    let (mut low, mut high) = (0.0, 1.0 + candidates.iter().map(densest).fold(0.0, f64::max));
    let (mut found, mut at_most) = (Placement::default(), all_cycles);
    for _ in 0..HALVINGS {
        let price = low + (high - low) / 2.0;
        let (placement, bound) = at(price);
        at_most = at_most.min(bound);
        if placement.bytes() <= room_bytes {
            high = price;
            if placement.saved().cycles > found.saved().cycles {
                found = placement;
            }
        } else {
            low = price;
        }
    }
    // The price leaves out a range that is nearly all of the room; filling it from nothing begins with the best of these.
    // One of both saves at least half of what is possible.
    let mut from_nothing = Placement::default();
    for placement in [&mut found, &mut from_nothing] {
        fill(placement, candidates, room_bytes);
    }
    if from_nothing.saved().cycles > found.saved().cycles {
        found = from_nothing;
    }
    // Cycles are whole; what is added is more than what floating point may have lost.
    (found, (at_most * (1.0 + 1e-12)).floor() as u64)
}

/// Gives the room that is left to what gains most by it, again and again.
fn fill(placement: &mut Placement, candidates: &[Candidate], room_bytes: u64) {
    loop {
        let rest = room_bytes - placement.bytes();
        let has =
            |number: usize| placement.placed.iter().find(|(placed, _)| *placed == number).map(|(_, range)| *range);
        let better = candidates.iter().enumerate().filter_map(|(number, data)| {
            let now = has(number);
            let range = data.best_within(rest + now.map_or(0, |now| now.bytes()))?;
            let gained = range.saved.cycles.checked_sub(now.map_or(0, |now| now.saved.cycles))?;
            (gained > 0).then_some((gained, number, range))
        });
        let Some((_, number, range)) = better.max_by_key(|(gained, number, _)| (*gained, Reverse(*number))) else {
            return;
        };
        placement.placed.retain(|(placed, _)| *placed != number);
        placement.placed.push((number, range));
    }
}

#[cfg(test)]
mod tests;
