//! Reuse distance: how many other lines are accessed before a line is accessed again.
//!
//! A fully associative cache of `n` lines with LRU replacement hits just those accesses whose distance is less than `n`: so
//! the histogram of distances tells the misses at every size ([`MissRatios`]).
//!
//! With several cores the distance counts what the cache that serves the access has seen (MACPO, ICPP 2014): where the core
//! itself used the line last, its own cache, so its own accesses only; where another core did, the first cache that both
//! have in common, so the accesses of all cores that share that one. In both cases it counts from the last access to the line
//! by anybody.

mod domains;
mod histogram;
mod recency;
mod sampled;
mod sampled_keys;

use std::hint::black_box;

use self::domains::Domains;
pub use self::domains::{CoreSets, CoreSetsError};
pub use self::histogram::{Histogram, MissRatios};
pub use self::sampled::{CLASSES, Estimate, EstimatedMisses, Interval, Sampled, SampledDistances};
pub use self::sampled_keys::{SampledKey, SampledKeys};
use crate::access::TOGETHER;
use crate::numbers::Numbers;

/// Most lines: their times must fit into 32 bits.
const MOST_LINES: u32 = 1 << 29;

/// Exact distances. Takes O(log n) time an access, and 12 bytes a line (300 where it is alone in its page), with 20 to 40 more for each
/// cache or core whose accesses are seen apart.
#[derive(Debug)]
pub struct ReuseDistances {
    lines: Numbers,
    last: Vec<Use>,
    domains: Domains,
    /// Line and number of the last access.
    newest: Option<(u64, u32)>,
    /// Accesses to lines that were not accessed for long, since anything was last read ahead.
    far: usize,
}

/// Nobody has used the line yet.
const NOBODY: Use = Use { core: u32::MAX, key: 0 };
/// What is known of so many lines is near, as they were accessed last.
const NEAR: u32 = 1 << 12;

/// An access that a line was used by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Who.
    pub core: u32,
    /// What the caller calls it: a site, a line of code.
    pub key: u32,
}

/// An access to a line that was accessed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Other lines accessed since, as the cache that serves it has seen them.
    pub distance: u32,
    /// The access before.
    pub previous: Use,
}

/// There are more lines than can be numbered: 2^29, which are 32 GiB of memory at 64 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than 2^29 different lines were accessed: sample the distances, or take longer lines")]
pub struct TooManyLines;

impl ReuseDistances {
    /// Nothing was accessed yet.
    pub fn new(core_sets: CoreSets) -> Self {
        Self { lines: Numbers::default(), last: Vec::new(), domains: Domains::new(core_sets), newest: None, far: 0 }
    }

    /// Cores and lines that will be accessed next, a few dozen. Without it all is as it is with it, but slower where lines
    /// were not accessed for long: each access waits for memory by itself then.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn read_ahead(&mut self, next: &[(u32, u64)]) {
        let is_worth_it = self.far > TOGETHER / 4;
        self.far = 0;
        if !is_worth_it {
            return;
        }
        for together in next.chunks(TOGETHER) {
            let mut numbers = [(0, 0); TOGETHER];
            for (&(core, line), found) in together.iter().zip(&mut numbers) {
                *found = (core, self.lines.number(line).0);
            }
            // Nothing else is between these reads.
            let numbers = &numbers[..together.len()];
            let read = |&(core, number): &(u32, u32)| {
                let last = self.last.get(number as usize).map_or(0, |last| last.key);
                u64::from(last) ^ self.domains.read_ahead(core, number)
            };
            black_box(numbers.iter().map(read).fold(0, |all, read| all ^ read));
        }
    }

    /// Takes an access in: the number of the line is its address divided by the line's size. None at the first access.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn access(&mut self, core: u32, line: u64, key: u32) -> Result<Option<Reuse>, TooManyLines> {
        assert!(core < self.domains.core_sets().cores(), "core {core} of {}", self.domains.core_sets().cores());
        let now = Use { core, key };
        if let Some((_, number)) = self.newest.filter(|(newest, _)| *newest == line) {
            let previous = &mut self.last[number as usize];
            // The order of nothing changes.
            if previous.core == core {
                return Ok(Some(Reuse { distance: 0, previous: std::mem::replace(previous, now) }));
            }
        }
        let (number, _) = self.lines.number(line);
        if number >= MOST_LINES {
            return Err(TooManyLines);
        }
        self.newest = Some((line, number));
        if number as usize >= self.last.len() {
            self.last.resize(number as usize + 1, NOBODY);
        }
        let previous = std::mem::replace(&mut self.last[number as usize], now);
        let reuse = if previous == NOBODY {
            None
        } else {
            self.domains.after(number, core, previous.core).map(|distance| Reuse { distance, previous })
        };
        self.far += usize::from(reuse.is_none_or(|reuse| reuse.distance > NEAR));
        self.domains.touch(core, number);
        Ok(reuse)
    }

    /// Lines that were accessed.
    pub fn lines(&self) -> u32 {
        self.lines.count()
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.lines.bytes() + self.last.capacity() * size_of::<Use>() + self.domains.bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// MACPO's tables I and II: data `a b c b d e a`.
    #[test]
    fn published_answers() {
        for (cores, expected) in [([1, 2, 1, 2, 2, 1, 1], 2), ([1, 2, 1, 2, 2, 1, 2], 4)] {
            let mut distances = ReuseDistances::new(CoreSets::new(3, &[vec![1, 2]]).unwrap());
            let found = cores.into_iter().zip(*b"abcbdea").map(|(core, line)| {
                distances.access(core, line.into(), line.into()).unwrap().map(|reuse| reuse.distance)
            });
            assert_eq!(found.last(), Some(Some(expected)));
        }
    }

    /// By its definition, from all accesses so far.
    fn by_definition(sets: &[Vec<u32>], cores: u32, before: &[(u32, u64)], (core, line): (u32, u64)) -> Option<u32> {
        let last = before.iter().rposition(|access| access.1 == line)?;
        let other = before[last].0;
        let seen: Vec<u32> = if other == core {
            vec![core]
        } else {
            let all: Vec<u32> = (0..cores).collect();
            let common = sets.iter().chain([&all]).filter(|set| set.contains(&core) && set.contains(&other));
            common.min_by_key(|set| set.len()).unwrap().clone()
        };
        let between = before[last + 1..].iter().filter(|access| seen.contains(&access.0)).map(|access| access.1);
        Some(between.collect::<std::collections::BTreeSet<_>>().len() as u32)
    }

    /// Misses of a cache of so many lines that pushes out the least recently used one.
    fn misses_of_a_cache(accesses: &[u64], lines: usize) -> f64 {
        let mut held: Vec<u64> = Vec::new();
        let mut misses = 0.0;
        for line in accesses {
            match held.iter().position(|found| found == line) {
                Some(at) => drop(held.remove(at)),
                None => misses += 1.0,
            }
            held.push(*line);
            if held.len() > lines {
                held.remove(0);
            }
        }
        misses
    }

    proptest! {
        #[test]
        fn misses_are_those_of_a_cache_at_every_size(
            accesses in prop::collection::vec(0_u64..60, 1..300),
        ) {
            let accesses: Vec<u64> = accesses.into_iter().map(|line| line * line / 60).collect();
            let mut distances = ReuseDistances::new(CoreSets::new(1, &[]).unwrap());
            let mut histogram = Histogram::exact();
            for line in &accesses {
                match distances.access(0, *line, 0).unwrap() {
                    Some(reuse) => histogram.add(reuse.distance.into(), 1.0),
                    None => histogram.add_first(1.0),
                }
            }
            let misses = histogram.misses();
            for lines in 0..70 {
                prop_assert_eq!(misses.misses(lines), misses_of_a_cache(&accesses, lines as usize), "{} lines", lines);
            }
        }
    }

    proptest! {
        #[test]
        fn equals_its_definition(
            topology in 0_usize..4,
            accesses in prop::collection::vec((0_u32..6, 0_u64..80, 0_u32..4), 0..400),
        ) {
            let sets: &[Vec<u32>] = &[vec![0, 1], vec![2, 3], vec![0, 1, 2, 3], vec![4, 5]];
            let sets = &sets[..[0, 2, 3, 4][topology]];
            let mut distances = ReuseDistances::new(CoreSets::new(6, sets).unwrap());
            let mut before: Vec<(u32, u64)> = Vec::new();
            for (index, (core, line, far)) in accesses.into_iter().enumerate() {
                // The last cores begin late; some lines are far from the others.
                let core = if index < 200 { core % 3 } else { core };
                let line = line * line / 80 + if far == 0 { 1 << 50 } else { 0 };
                // Any lines may be read ahead, whether they come or not.
                if far == 1 {
                    distances.far = TOGETHER;
                    distances.read_ahead(&[(core, line), (0, line + 1), (5, 1 << 50)]);
                }
                let found = distances.access(core, line, index as u32).unwrap();
                let expected = by_definition(sets, 6, &before, (core, line));
                prop_assert_eq!(found.map(|reuse| reuse.distance), expected);
                let previous = before.iter().rposition(|access| access.1 == line);
                let previous = previous.map(|at| Use { core: before[at].0, key: at as u32 });
                prop_assert_eq!(found.map(|reuse| reuse.previous), previous);
                before.push((core, line));
            }
        }
    }
}
