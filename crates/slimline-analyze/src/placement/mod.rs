//! Which data should live in a memory that is faster than where it lives, and too small for all.
//!
//! What is saved is known from one simulation: where a line lives changes what it costs to fetch, not which lines caches
//! miss. So each part of data saves the lines that slower memories served of it, times the difference of latencies (Peña
//! and Balaji, "A Data-Oriented Profiler to Assist in Data Partitioning", 5).
//!
//! What can be placed: groups of blocks, whole; and of data that is one block or a variable one range of parts, since a split
//! into two or three buffers is code that people write. To choose so that it fits is a multiple-choice knapsack problem. It
//! is solved by a price of the room (Everett 1963, "Generalized Lagrange multiplier method"): at a price of so many cycles
//! a byte each group takes the range that is worth most beyond it, by itself. The price at which they just fit is found by
//! bisection. At any price what groups are worth beyond it and the price of all room together are at least what any choice
//! saves: so it is known how far from the best the choice can be.
//!
//! On both sides of that price each group's range is one that is worth most at it. Where groups are led from the one to the
//! other, one by one, until the next does not fit, what is placed and that next one alone save together as much as the
//! bound or more: so the better of both saves at least half of what is possible. What room is left goes to what gains by it.
//! Where that is not all that the bound allows, and the problem is not too large, the best of all choices is looked for
//! ([`exact`]): as a rule it is found, and is the bound then.

mod exact;
mod ranges;

use std::cmp::Reverse;
use std::iter::Sum;
use std::ops::{self, AddAssign, SubAssign};

use slimline_simulate::machine::{Machine, Memory};
use slimline_simulate::simulation::Outcome;

use crate::histogram::{Parts, by_part};
use crate::origins::{DataKind, Origins};

/// Halvings of the interval of prices: the last is far below one cycle a byte.
const HALVINGS: u32 = 100;
/// Names that were seen at places so far apart that their parts are less than one in so many of the bytes between are no one
/// piece of data: of several stacks, or of a pointer's own name.
const MOST_SPREAD: u64 = 64;
/// What floating point may lose, as a part of all cycles.
const LOST: f64 = 1e-12;

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
    pub parts: Vec<Range>,
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

/// What could be placed, and what each choice would save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placements {
    /// What could be, that first which saves most.
    pub candidates: Vec<Candidate>,
    /// What cannot: nothing is known of it, or its name goes over places far apart.
    pub not_placeable: Saved,
    /// Each way once, the best last; None where the data that saves most is of many blocks and does not fit.
    pub choices: Vec<(Choice, Option<Placement>)>,
    /// No choice saves more cycles.
    pub at_most_cycles: u64,
}

/// What living in `fast` would save of all data, if it had so much room; it is one of the machine's memories as
/// [`check_memory`] wants it, and served nothing. `extents` are those of keys, in their order: without them variables take whole
/// parts.
pub fn placements(
    outcome: &Outcome,
    origins: &Origins,
    extents: &[ops::Range<u64>],
    fast: usize,
    room_bytes: u64,
) -> Placements {
    let machine = outcome.machine();
    let near = machine.memory_of_core();
    let saved = |key: u32| {
        let near = near[machine.core_of(origins.of(key).thread) as usize];
        let fast_cycles = machine.memories[fast].latency_cycles[near];
        let counts = outcome.of_key(key);
        let served = machine.memories.iter().zip(&counts.served_by_memory);
        let saved = served.map(|(memory, &lines)| {
            let less = u64::from(memory.latency_cycles[near].saturating_sub(fast_cycles));
            Saved { lines: if less > 0 { lines } else { 0 }, cycles: lines * less }
        });
        // Also what saves nothing says how large data is.
        (counts.accesses() > 0).then(|| saved.sum::<Saved>())
    };
    let mut candidates = Vec::new();
    let mut not_placeable = Saved::default();
    for found in by_part(origins, extents, saved, |sum, more| *sum += *more) {
        match candidate(&found, origins, machine.line_bytes().into()) {
            Some(candidate) if candidate.parts.is_empty() => {}
            Some(candidate) => candidates.push(candidate),
            None => not_placeable += found.parts.iter().map(|(_, saved)| *saved).sum::<Saved>(),
        }
    }
    candidates.sort_by_key(|candidate| Reverse(candidate.saved().cycles));
    choose(candidates, not_placeable, room_bytes)
}

/// The memory to place data in where none is asked for: of those that will do the fastest.
pub fn fast_memory(machine: &Machine) -> Option<usize> {
    let near = machine.memory_of_core();
    let fast = (0..machine.memories.len())
        .filter(|&memory| machine.memories[memory].bytes.is_some() && check_memory(machine, memory).is_ok());
    fast.min_by_key(|&memory| near.iter().map(|&near| machine.memories[memory].latency_cycles[near]).min())
}

/// Whether placing data in this memory can be told.
///
/// # Errors
/// In words: why not.
pub fn check_memory(machine: &Machine, memory: usize) -> Result<(), String> {
    let near = machine.memory_of_core();
    let Memory { name, cores, latency_cycles, .. } = &machine.memories[memory];
    if !cores.is_empty() {
        return Err(format!(
            "{name} is near to cores, and holds what they touch first: wanted is one that is near to none"
        ));
    }
    let faster = near.iter().all(|&near| {
        machine.memories.iter().all(|other| other.latency_cycles[near] >= latency_cycles[near])
            && machine.memories[near].latency_cycles[near] > latency_cycles[near]
    });
    if !faster {
        return Err(format!("{name} is not faster than the other memories for all cores"));
    }
    if machine.transfer_cycles.is_some() && machine.cores > 1 {
        return Err(
            "with `transfer` lines that come from other cores' caches count as their memory's: leave it out".to_owned()
        );
    }
    Ok(())
}

/// What is saved is saved by lines, so room is given in whole ones.
fn candidate(found: &Parts<Saved>, origins: &Origins, line_bytes: u64) -> Option<Candidate> {
    let data = &origins.data()[found.data as usize];
    let beside = found.beside_bytes.map(|bytes| bytes / line_bytes * line_bytes);
    let (bytes, is_divisible) = match data.kind {
        // One at a time, as where it is resized, is as one.
        DataKind::Heap | DataKind::Static if data.peak_bytes > found.extent_bytes => (data.peak_bytes, false),
        DataKind::Heap | DataKind::Static => (found.extent_bytes.next_multiple_of(line_bytes), true),
        DataKind::Variable if found.extent_bytes / MOST_SPREAD > found.parts.len() as u64 * found.part_bytes => {
            return None;
        }
        DataKind::Variable => (found.extent_bytes.saturating_sub(beside.iter().sum()), true),
        DataKind::Unattributed => return None,
    };
    // Without parts nothing says how large it is.
    if bytes == 0 || found.part_bytes == 0 {
        return None;
    }
    // What is overlaid may reach beyond.
    let end = |end: u64| if is_divisible { end.min(bytes) } else { end };
    let before = beside[0];
    let saving = found.parts.iter().filter(|(_, saved)| saved.cycles > 0);
    let parts = saving.map(|&(start, saved)| Range {
        start: start.saturating_sub(before),
        end: end((start + found.part_bytes).saturating_sub(before)),
        saved,
    });
    Some(Candidate { data: found.data, bytes, is_divisible, parts: parts.collect() })
}

fn choose(candidates: Vec<Candidate>, not_placeable: Saved, room_bytes: u64) -> Placements {
    let hottest = |window: fn(&Candidate, u64) -> Option<Range>| {
        let Some(hottest) = candidates.first() else { return Some(Placement::default()) };
        let range = if hottest.bytes <= room_bytes {
            Some(hottest.whole())
        } else if hottest.is_divisible {
            window(hottest, room_bytes)
        } else {
            None
        };
        range.map(|range| Placement { placed: vec![(0, range)] })
    };
    let mut choices = vec![
        (Choice::Biggest, Some(biggest(&candidates, room_bytes))),
        (Choice::Whole, Some(whole(&candidates, room_bytes))),
        (Choice::First, hottest(|data, room| Some(data.range_at(0, room)))),
        (Choice::Last, hottest(|data, room| Some(data.range_at(data.bytes - room, room)))),
        (Choice::Coldest, hottest(|data, room| Some(data.worst_of(room)))),
        (Choice::Hottest, hottest(Candidate::best_within)),
    ];
    let (mut best, at_most_cycles) = best(&candidates, room_bytes);
    for other in choices.iter().filter_map(|(_, placement)| placement.as_ref()) {
        if other.saved().cycles > best.saved().cycles {
            best = other.clone();
        }
    }
    best.placed.sort_by_key(|(_, range)| Reverse(range.saved.cycles));
    choices.push((Choice::Best, Some(best)));
    Placements { candidates, not_placeable, choices, at_most_cycles }
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
    let Approximation { mut found, mut at_most, price } = approximation(candidates, room_bytes);
    if at_most > found.cycles()
        && let Some(better) = exact::best(candidates, room_bytes, price, found.cycles())
    {
        found = better.unwrap_or(found);
        at_most = found.cycles();
    }
    found.widen(candidates, room_bytes);
    (found.placement(), at_most.max(found.cycles()))
}

/// What is found by a price of the room.
struct Approximation {
    found: Ranges,
    /// Cycles that no choice exceeds.
    at_most: u64,
    /// The price that says so.
    price: f64,
}

/// A choice that saves at least half of what is possible.
fn approximation(candidates: &[Candidate], room_bytes: u64) -> Approximation {
    let at = |price: f64| Ranges(candidates.iter().map(|data| data.worth_most(price, room_bytes)).collect());
    let bound = |ranges: &Ranges, price: f64| {
        ranges.cycles() as f64 - price * ranges.bytes() as f64 + price * room_bytes as f64
    };
    let all_cycles: u64 = candidates.iter().map(|data| data.saved().cycles).sum();
    let mut beyond = at(0.0);
    let (mut at_most, mut its_price) = (beyond.cycles() as f64, 0.0);
    let mut found = beyond.clone();
    if beyond.bytes() > room_bytes {
        // At the upper price nothing is worth it.
        let (mut low, mut high) = (0.0, 1.0 + all_cycles as f64);
        found = at(high);
        for _ in 0..HALVINGS {
            let price = low + (high - low) / 2.0;
            let ranges = at(price);
            let at_price = bound(&ranges, price);
            if at_price < at_most {
                (at_most, its_price) = (at_price, price);
            }
            if ranges.bytes() <= room_bytes {
                (high, found) = (price, ranges);
            } else {
                (low, beyond) = (price, ranges);
            }
        }
        found = led_on(found, &beyond, room_bytes);
    }
    found.fill(candidates, room_bytes);
    // Cycles are whole.
    let at_most = (at_most + LOST * all_cycles as f64).floor() as u64;
    Approximation { found, at_most, price: its_price }
}

/// What a range saves beyond the price of its room, in cycles a byte.
fn worth(range: &Range, price: f64) -> f64 {
    range.saved.cycles as f64 - price * range.bytes() as f64
}

/// From ranges that fit to those of a lower price that do not, group by group, as far as they fit, or the first alone that
/// does not.
fn led_on(mut from: Ranges, to: &Ranges, room_bytes: u64) -> Ranges {
    for number in 0..from.0.len() {
        let before = from.0[number];
        from.0[number] = to.0[number];
        if from.bytes() <= room_bytes {
            continue;
        }
        let mut alone = Ranges(vec![None; from.0.len()]);
        alone.0[number] = to.0[number];
        from.0[number] = before;
        return if alone.cycles() > from.cycles() { alone } else { from };
    }
    from
}

/// The range of each candidate, by number.
#[derive(Clone, Debug)]
struct Ranges(Vec<Option<Range>>);

impl Ranges {
    fn bytes(&self) -> u64 {
        self.0.iter().flatten().map(Range::bytes).sum()
    }

    fn cycles(&self) -> u64 {
        self.0.iter().flatten().map(|range| range.saved.cycles).sum()
    }

    /// Gives the room that is left to what gains by it, hottest data first.
    fn fill(&mut self, candidates: &[Candidate], room_bytes: u64) {
        let mut left = room_bytes - self.bytes();
        for (data, range) in candidates.iter().zip(&mut self.0) {
            let (bytes, cycles) = range.map_or((0, 0), |range| (range.bytes(), range.saved.cycles));
            if let Some(better) = data.best_within(bytes + left).filter(|better| better.saved.cycles > cycles) {
                left = left + bytes - better.bytes();
                *range = Some(better);
            }
        }
    }

    /// What there is room for is not cut, though its ends save nothing.
    fn widen(&mut self, candidates: &[Candidate], room_bytes: u64) {
        let mut left = room_bytes - self.bytes();
        for (data, range) in candidates.iter().zip(&mut self.0) {
            let Some(range) = range else { continue };
            let more = data.bytes.saturating_sub(range.bytes());
            if more <= left {
                left -= more;
                *range = data.whole();
            }
        }
    }

    fn placement(&self) -> Placement {
        let placed = self.0.iter().enumerate().filter_map(|(number, range)| Some((number, (*range)?)));
        Placement { placed: placed.collect() }
    }
}

#[cfg(test)]
mod tests;
