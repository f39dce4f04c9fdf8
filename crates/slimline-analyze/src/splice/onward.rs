//! Where windows can be continued: behind the same accesses in other windows, or further up in their own.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Random;
use crate::bottom::mix;
use crate::sequences::Sequences;

/// Last accesses of a window that must be the same: the first of these numbers for which there are [`LEAST_PLACES`],
/// else a single access wherever it is.
const CONTEXTS: [usize; 5] = [16, 8, 4, 2, 1];
/// Fewer would repeat one window's path as if there were no other.
const LEAST_PLACES: u32 = 8;

/// Places to go on from, by window.
pub(super) struct Onward {
    /// Range of `places` for each window; empty where it can't be continued. Windows that end alike share one.
    of_windows: Vec<Range<u32>>,
    /// Accesses behind which to go on: windows in order inside of each range.
    places: Vec<u32>,
}

/// Hash of the last so many accesses, moved along a window: a polynomial modulo 2⁶⁴ (Karp, Rabin 1987).
struct Rolling {
    hash: u64,
    /// What the access that leaves was multiplied with.
    leaving: u64,
}

impl Rolling {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

    fn new(length: usize) -> Self {
        Self { hash: 0, leaving: (0..length).fold(1, |power: u64, _| power.wrapping_mul(Self::BASE)) }
    }

    fn enter(&mut self, access: u32) {
        self.hash = self.hash.wrapping_mul(Self::BASE).wrapping_add(Self::value(access));
    }

    fn leave(&mut self, access: u32) {
        self.hash = self.hash.wrapping_sub(self.leaving.wrapping_mul(Self::value(access)));
    }

    fn value(access: u32) -> u64 {
        mix(u64::from(access) + 1)
    }

    fn of(accesses: &[u32]) -> u64 {
        let mut rolling = Self::new(accesses.len());
        accesses.iter().for_each(|&access| rolling.enter(access));
        rolling.hash
    }
}

impl Onward {
    pub(super) fn new(sequences: &Sequences) -> Self {
        let mut found = Self { of_windows: vec![0..0; sequences.windows.len()], places: Vec::new() };
        let mut open: Vec<usize> = (0..sequences.windows.len()).collect();
        for context in CONTEXTS {
            let least = if context == 1 { 1 } else { LEAST_PLACES };
            found.resolve(sequences, &open, context, least);
            open.retain(|&window| found.of_windows[window].is_empty());
        }
        found
    }

    /// Continues those of the windows whose last `context` accesses are found in at least `least` places.
    fn resolve(&mut self, sequences: &Sequences, windows: &[usize], context: usize, least: u32) {
        let mut numbers: FxHashMap<u64, u32> = FxHashMap::default();
        let mut ends: Vec<(usize, u32)> = Vec::new();
        for &window in windows {
            let seen = sequences.of(window);
            if let Some(start) = seen.len().checked_sub(context) {
                let next = numbers.len() as u32;
                ends.push((window, *numbers.entry(Rolling::of(&seen[start..])).or_insert(next)));
            }
        }
        let mut places: Vec<(u32, u32)> = Vec::new();
        each_context(sequences, context, |hash, place| {
            if let Some(&number) = numbers.get(&hash) {
                places.push((number, place as u32));
            }
        });
        let mut counts = vec![0_u32; numbers.len()];
        places.iter().for_each(|&(number, _)| counts[number as usize] += 1);
        let mut ranges: Vec<Range<u32>> = Vec::with_capacity(counts.len());
        let mut end = self.places.len() as u32;
        for count in counts {
            let kept = if count < least { 0 } else { count };
            ranges.push(end..end + kept);
            end += kept;
        }
        self.places.resize(end as usize, 0);
        let mut filled: Vec<u32> = ranges.iter().map(|range| range.start).collect();
        for (number, place) in places {
            let number = number as usize;
            if !ranges[number].is_empty() {
                self.places[filled[number] as usize] = place;
                filled[number] += 1;
            }
        }
        ends.into_iter().for_each(|(window, number)| self.of_windows[window] = ranges[number as usize].clone());
    }

    /// The same with each place as often as the weight of its window says; on the whole as many (systematic
    /// resampling; Kitagawa, J. Comput. Graph. Stat. 5, 1996).
    pub(super) fn weighted(&self, sequences: &Sequences, weights: &[f64]) -> Self {
        let mut ranges: Vec<Range<u32>> = self.of_windows.iter().filter(|range| !range.is_empty()).cloned().collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup();
        let mut places = Vec::with_capacity(self.places.len());
        for range in ranges {
            let from = &self.places[range.start as usize..range.end as usize];
            let weights = weights_of(sequences, weights, from);
            let step = weights.iter().sum::<f64>() / from.len() as f64;
            if step <= 0.0 {
                places.extend(from);
                continue;
            }
            let (mut reached, mut at) = (0.0, 0);
            for number in 0..from.len() {
                let wanted = (number as f64 + 0.5) * step;
                while at + 1 < from.len() && reached + weights[at] <= wanted {
                    reached += weights[at];
                    at += 1;
                }
                places.push(from[at]);
            }
        }
        Self { of_windows: self.of_windows.clone(), places }
    }

    /// A place behind which a window can go on.
    pub(super) fn after(&self, window: usize, random: &mut Random) -> Option<usize> {
        let Range { start, end } = self.of_windows[window];
        (start < end).then(|| self.places[start as usize + random.below(u64::from(end - start)) as usize] as usize)
    }
}

/// Hash and last access of each run of `length` accesses in a window that something follows in it.
fn each_context(sequences: &Sequences, length: usize, mut found: impl FnMut(u64, usize)) {
    for window in &sequences.windows {
        let mut rolling = Rolling::new(length);
        for place in window.first..window.end - 1 {
            rolling.enter(sequences.accesses[place]);
            if place >= window.first + length {
                rolling.leave(sequences.accesses[place - length]);
            }
            if place + 1 >= window.first + length {
                found(rolling.hash, place);
            }
        }
    }
}

/// Weights of the windows that places, windows in order, are in.
fn weights_of(sequences: &Sequences, weights: &[f64], places: &[u32]) -> Vec<f64> {
    let mut window = 0;
    let weight = |&place: &u32| {
        if sequences.windows[window].end <= place as usize {
            window = sequences.window_of(place as usize);
        }
        weights[window]
    };
    places.iter().map(weight).collect()
}
