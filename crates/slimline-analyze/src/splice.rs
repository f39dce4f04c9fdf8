//! Splicing: windows are made so long that where they began no longer matters.
//!
//! A clock starts windows where time is spent: at a stall. In a loop with a body longer than a window, what comes just
//! behind the stall is seen too often, and the rest hardly ever. *Which access follows which* does not suffer from
//! that. So each window is continued, where it ends, by another one that came through the same accesses, and so on,
//! as in the matched-block bootstrap of time series (Carlstein, Do, Hall, Hesterberg, Künsch, Bernoulli 4, 1998):
//!
//! ```text
//!   window 1      a b c d e f g|                  ends with  … e f g
//!   window 2            x e f g|h i j k|          goes on behind e f g, ends with  … i j k
//!   window 3                 h i j k|l m a b c|
//!   executed      a b c d e f g h i j k l m a b c …
//! ```
//!
//! Counting begins at a random point of the first [`COUNTED`] instructions and goes on for as many: together a
//! triangular weight, which sees a loop body of p instructions evenly to (p / π `COUNTED`)². Each window speaks
//! for the instructions that the thread executed in its time. Code that does not lead on to other code within that
//! stretch shares nothing with it: the ratio of two phases is that of their times and paces, as it was.
//!
//! Where the same accesses go on in different ways, which are taken how often matters. Windows that begin at a slow
//! access are too many, so the ways that they show are too. Each place to go on from therefore counts by
//!
//! ```text
//!   executions of the access that its window began with / windows that began there
//! ```
//!
//! (Horvitz, Thompson, JASA 47, 1952), for which the executions are those found with the weights before, a few times
//! over. With these weights a loop of 150 turns is told from one of 100 in windows that see 50 of them. What began once
//! or twice proves little: some windows of mean weight are added to each.

mod onward;

use std::ops::Range;

use crate::bottom::mix;
use crate::sequences::{Sequence, Sequences};
use onward::Onward;

/// Instructions that are counted: four windows of the default length. More sees longer bodies evenly; but where code
/// seldom leads on to other code, it multiplies what chance made of the few windows that show it.
const COUNTED: f64 = 1200.0;
/// Times that weights are found anew. More change little.
const ROUNDS: usize = 2;
/// Windows of mean weight added to those that began at an access.
const PRIOR_WINDOWS: f64 = 8.0;
/// Accesses gone through in a round, about: some hundredths of a second.
const STEPS: f64 = 1e7;
/// Times that each window is continued, at most: more take out little of what is drawn.
pub(crate) const MOST_RUNS: u64 = 16;
/// Windows shorter than this many instructions speak for the time they stand for as if they were this long: they begin
/// at a stall, so a very short one says little else.
const LEAST_INSTRUCTIONS: u32 = 32;

/// How much a window speaks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WindowWeight {
    /// CPU time, in any unit.
    pub(crate) time: f64,
    /// Instructions executed in it, likewise.
    pub(crate) instructions: f64,
}

/// Executions of each of `streams` streams, from windows that speak for so much each and are continued up to `most_runs`
/// times.
///
/// Streams that no kept window has have none.
pub(crate) fn executions(
    sequences: &Sequences,
    speak_for: &[WindowWeight],
    streams: usize,
    most_runs: u64,
) -> Vec<f64> {
    let all: f64 = sequences.windows.iter().map(|window| f64::from(window.instructions)).sum();
    let accesses = 1.5 * COUNTED * sequences.accesses.len() as f64 / all * sequences.windows.len() as f64;
    let runs = (STEPS / accesses).clamp(1.0, most_runs as f64) as u64;
    let continued = |onward: &Onward| {
        let mut executed = vec![0.0; streams];
        for (number, window) in sequences.windows.iter().enumerate() {
            let part = speak_for[number].instructions / (COUNTED * runs as f64);
            let mut random = Random::of(u64::from(window.id));
            for _ in 0..runs {
                let from = random.part() * COUNTED;
                count(sequences, onward, number, from..from + COUNTED, &mut random, |stream| {
                    executed[stream as usize] += part;
                });
            }
        }
        executed
    };
    let found = Onward::new(sequences);
    let mut executed = continued(&found);
    for _ in 0..ROUNDS {
        executed = continued(&found.weighted(sequences, &weights(sequences, speak_for, &executed)));
    }
    executed
}

/// What each window's ways on count: executions of the access it began with for each time that one began there.
fn weights(sequences: &Sequences, speak_for: &[WindowWeight], executed: &[f64]) -> Vec<f64> {
    let first = |window: &Sequence| sequences.accesses[window.first] as usize;
    let mut begun = vec![0.0; executed.len()];
    let windows = || sequences.windows.iter().zip(speak_for);
    windows().for_each(|(window, weight)| begun[first(window)] += weight.time);
    let time: f64 = begun.iter().sum();
    let with_windows = executed.iter().zip(&begun).filter(|(_, begun)| **begun > 0.0);
    let mean = with_windows.map(|(executed, _)| executed).sum::<f64>() / time;
    let prior = PRIOR_WINDOWS * time / sequences.windows.len() as f64;
    let each = |access: usize| (executed[access] + mean * prior) / (begun[access] + prior);
    windows().map(|(window, weight)| each(first(window)) * weight.time).collect()
}

/// Continues a window; `count`s the accesses that come between two numbers of instructions from its start.
fn count(
    sequences: &Sequences,
    onward: &Onward,
    from: usize,
    counted: Range<f64>,
    random: &mut Random,
    mut count: impl FnMut(u32),
) {
    let mut window = from;
    let mut at = sequences.windows[from].first;
    let mut instructions = 0.0;
    while instructions < counted.end {
        let Sequence { first, end, instructions: length, .. } = sequences.windows[window];
        let each = f64::from(length.max(LEAST_INSTRUCTIONS)) / (end - first) as f64;
        for &stream in &sequences.accesses[at..end] {
            if instructions >= counted.end {
                return;
            }
            if instructions >= counted.start {
                count(stream);
            }
            instructions += each;
        }
        // Where nothing is known of what follows (an allocation, say), what was seen stands for the rest as well.
        (window, at) = match onward.after(window, random) {
            Some(place) => (sequences.window_of(place), place + 1),
            None => (from, sequences.windows[from].first),
        };
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): what is drawn for a window does not depend on other windows.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(seed: u64) -> Self {
        Self(mix(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 to less than `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Of mean 0 and variance 1, nearly normal: twelve even ones less their mean.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.part()).sum::<f64>() - 6.0
    }

    /// From 0 to less than 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;
