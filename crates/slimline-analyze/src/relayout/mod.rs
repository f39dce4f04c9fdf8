//! Which layout structures should have, and in which order loops should go through them, by trying some on all that a program accessed.
//!
//! Sampled sessions predict a gain ([`advise`](crate::advise)); full traces can prove it. A pass over the trace tells which fields of one
//! element are used together ([`visits`]), which makes layouts that may be better ([`candidates`]). Objects are put where an allocator
//! would have them then ([`addresses`]), and each layout is replayed through the simulated machine. What is told is what came of that.

pub mod addresses;
pub mod allocating;
pub mod candidates;
mod code;
pub mod columns;
pub mod inlining;
pub mod loops;
pub mod prefetching;
pub mod search;
pub mod unstructured;
pub mod visits;

use slimline_simulate::machine::Machine;
use slimline_simulate::relaid::structure_key;
use slimline_simulate::simulation::Counts;
use slimline_simulate::waiting::{Times, Waited};

pub use self::code::{definitions, narrower_type};
pub use crate::advise::definition::{own_name, plain_name};

/// Part of the time that a change must save to be advised, where both ends of its interval save, too.
pub const WORTH_IT: f64 = 0.02;
/// Part of it that it must save where one end does not: less than this predictions are off by often.
pub const WORTH_A_RISK: f64 = 0.05;
/// Of layouts that save nearly as much as the best the simplest is advised: so much of it must be saved.
const NEARLY: f64 = 0.9;

/// What a program took with some layouts: what is needed to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// Cycles of all threads.
    pub times: Times,
    /// Lines that the first level did not have.
    pub first_misses: u64,
    /// Lines that memory served.
    pub memory_lines: u64,
}

impl Taken {
    /// As a machine made it, and allocators of so many cycles.
    pub fn of(waited: &Waited, allocating: f64) -> Self {
        let Times { least, expected, most } = waited.times;
        let times = Times { least: least + allocating, expected: expected + allocating, most: most + allocating };
        Self::of_counts(times, &waited.outcome.total(), waited.outcome.machine())
    }

    /// Of the accesses of one key, whose times were asked for.
    fn of_key(waited: &Waited, key: u32) -> Self {
        let times = waited.of_keys.get(key as usize).copied().unwrap_or_default();
        Self::of_counts(times, &waited.outcome.of_key(key), waited.outcome.machine())
    }

    /// Of some accesses that it counted so.
    fn of_counts(times: Times, counts: &Counts, machine: &Machine) -> Self {
        let path = machine.path(false);
        let misses = |cache: Option<&usize>| cache.map_or(0, |&cache| counts.misses[cache].total());
        Self { times, first_misses: misses(path.first()), memory_lines: misses(path.last()) }
    }
}

/// Run time with another layout by that with the one that there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeRatio {
    /// If misses come one after the other and the program computes little, or all at once and it computes a lot: the lesser of these.
    pub low: f64,
    /// As the model of waiting has it.
    pub expected: f64,
    /// The greater of these.
    pub high: f64,
}

impl TimeRatio {
    /// Of what was taken with each.
    pub fn of(after: &Taken, before: &Taken) -> Self {
        let ratio = |time: fn(&Times) -> f64| match time(&before.times) {
            0.0 => 1.0,
            before => time(&after.times) / before,
        };
        let all = [ratio(|times| times.expected), ratio(|times| times.least), ratio(|times| times.most)];
        let [expected, ..] = all;
        Self { low: all.into_iter().fold(expected, f64::min), expected, high: all.into_iter().fold(expected, f64::max) }
    }

    /// Part of the time that is saved.
    pub fn saved(&self) -> f64 {
        1.0 - self.expected
    }

    /// Whether that is enough to advise it: reports say so in words.
    pub fn is_worth_it(&self) -> bool {
        self.saved() >= if self.high < 1.0 { WORTH_IT } else { WORTH_A_RISK }
    }
}

/// Part of the time that each structure takes: of the sum of what all accesses take, work and waiting.
pub fn shares(waited: &Waited) -> impl Fn(u32) -> f64 + '_ {
    let whole: f64 = waited.keys.iter().sum();
    move |structure| {
        let keys = [structure_key(structure, false), structure_key(structure, true)];
        let own: f64 = keys.iter().filter_map(|key| waited.keys.get(*key as usize)).sum();
        if whole > 0.0 { own / whole } else { 0.0 }
    }
}

/// Which of these is advised, by what each saves, simplest first; none where none is worth it.
pub fn best(ratios: &[TimeRatio]) -> Option<usize> {
    let worth_it = || ratios.iter().enumerate().filter(|(_, ratio)| ratio.is_worth_it());
    let most = worth_it().map(|(_, ratio)| ratio.saved()).fold(0.0, f64::max);
    worth_it().find(|(_, ratio)| ratio.saved() >= most * NEARLY).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
    use slimline_simulate::machine::Machine;
    use slimline_simulate::simulation::{Options, Simulation};
    use slimline_simulate::waiting::Waiting;

    use super::*;

    /// Of two structures that are accessed as often, in the first level.
    #[test]
    fn who_computes_more_takes_more() {
        let machine = Machine::named("dinero-i5").unwrap();
        let mut waiting = Waiting::new(Simulation::new(&machine, &Options::default()).unwrap());
        let access = |(structure, instructions): (u32, f64)| {
            let (key, work) = (structure_key(structure, false), Work::of(instructions));
            Access { address: 64, key, bytes: 8, thread: 0, kind: AccessKind::Store, work }
        };
        // What the first one misses is little beside that.
        waiting.take(&[(0, 3.0), (1, 1.0)].map(access).repeat(10_000));
        let waited = waiting.finish();
        let shares = [0, 1, 2].map(shares(&waited)).map(|share| (share * 100.0).round());
        assert_eq!(shares, [75.0, 25.0, 0.0]);
    }

    #[test]
    fn ratios_have_two_ends() {
        let taken = |least, expected, most| Taken { times: Times { least, expected, most }, ..Taken::default() };
        let ratio = TimeRatio::of(&taken(90.0, 200.0, 600.0), &taken(100.0, 400.0, 2000.0));
        assert_eq!((ratio.low, ratio.expected, ratio.high), (0.3, 0.5, 0.9));
        assert_eq!(TimeRatio::of(&Taken::default(), &Taken::default()).expected, 1.0);
    }

    #[test]
    fn the_simplest_that_saves_nearly_as_much_is_advised() {
        let ratios = |saved: &[f64]| -> Vec<TimeRatio> {
            saved.iter().map(|saved| TimeRatio { low: 0.0, expected: 1.0 - saved, high: 1.0 }).collect()
        };
        assert_eq!(best(&ratios(&[0.1, 0.46, 0.5])), Some(1));
        assert_eq!(best(&ratios(&[-0.3, 0.01])), None);
        // Little is enough where it is sure, and then it is advised before what saves more and may cost.
        let [unsure, sure] = [1.01, 0.99].map(|high| TimeRatio { low: 0.8, expected: 0.97, high });
        assert_eq!(best(&[unsure]), None);
        assert_eq!(best(&[TimeRatio { expected: 0.96, ..unsure }, sure]), Some(1));
        assert_eq!(best(&[TimeRatio { expected: 0.95, ..unsure }]), Some(0));
        assert_eq!(best(&[]), None);
    }
}
