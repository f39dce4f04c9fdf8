//! Reuse distances of some lines only: those whose hash is below a threshold (SHARDS, FAST 2015).
//!
//! Lines are chosen, not accesses, so all accesses to a chosen line are seen, and the distance between two of them is that
//! among the chosen lines divided by their share. When there are more of them than wanted the threshold is lowered, and
//! those above it are forgotten: memory is bounded whatever the program accesses.

use std::collections::BinaryHeap;
use std::hint::black_box;

use rustc_hash::FxHashMap;

use super::domains::{CoreSets, Domains};
use super::histogram::{Histogram, MissRatios};
use super::{NEAR, Reuse, Use};
use crate::access::TOGETHER;

/// Sampled distances. Takes 100 to 140 bytes a chosen line.
#[derive(Debug)]
pub struct SampledDistances {
    most_lines: usize,
    /// Lines whose hash is below are chosen.
    threshold: u64,
    /// Accesses that one to a chosen line stands for.
    weight: f64,
    lines: FxHashMap<u64, Line>,
    /// Chosen lines by their hash, the largest first.
    chosen: BinaryHeap<(u64, u64)>,
    free: Vec<u32>,
    /// Numbers that were given to lines, and that are free again.
    numbers: u32,
    domains: Domains,
    /// A line that was passed over last: as the threshold never rises, it always is.
    passed_over: u64,
    /// Accesses to chosen lines that were not accessed for long, since anything was last read ahead.
    far: usize,
}

/// A chosen line.
#[derive(Clone, Copy, Debug)]
struct Line {
    number: u32,
    /// Who has used it last.
    last: Use,
}

/// An access to a chosen line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// None at the first access to the line. Its distance is an estimate.
    pub reuse: Option<Reuse>,
    /// Accesses that it stands for.
    pub weight: f64,
    /// Which of [`CLASSES`] sorts of lines it is, each a sample of its own.
    pub class: usize,
}

/// Parts of the lines, by their hashes: how much the parts differ tells how sure an estimate is.
pub const CLASSES: usize = 16;

/// MurmurHash3's finalizer (A. Appleby): lines beside each other must be chosen as if by chance.
fn hash_of(line: u64) -> u64 {
    let mut hash = line ^ line >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// Share of all lines whose hashes are at most this.
fn share_below(threshold: u64) -> f64 {
    (threshold as f64 + 1.0) / (u64::MAX as f64 + 1.0)
}

/// No address has so large a line.
const NO_LINE: u64 = u64::MAX;

impl SampledDistances {
    /// Nothing was accessed yet. `most_lines` are chosen at a time, at most this share of all, which is between 0 and 1.
    ///
    /// # Panics
    /// Where there are no lines to choose.
    pub fn new(core_sets: CoreSets, most_lines: usize, most_share: f64) -> Self {
        assert!(most_lines > 0 && most_share > 0.0, "nothing would be chosen");
        let threshold = (most_share.min(1.0) * u64::MAX as f64) as u64;
        Self {
            most_lines,
            threshold,
            weight: 1.0 / share_below(threshold),
            lines: FxHashMap::default(),
            chosen: BinaryHeap::new(),
            free: Vec::new(),
            numbers: 0,
            domains: Domains::new(core_sets),
            passed_over: NO_LINE,
            far: 0,
        }
    }

    /// Cores and lines that will be accessed next, at most [`TOGETHER`]. Without it all is as it is with it, but slower where very many lines are
    /// chosen: each access waits for memory by itself then.
    pub(super) fn read_ahead(&mut self, next: impl Iterator<Item = (u32, u64)>) {
        let is_worth_it = self.far > TOGETHER / 4;
        self.far = 0;
        if !is_worth_it {
            return;
        }
        let mut numbers = [(0, 0); TOGETHER];
        let mut count = 0;
        for (core, line) in next.filter(|(_, line)| hash_of(*line) <= self.threshold) {
            if let Some(known) = self.lines.get(&line) {
                numbers[count] = (core, known.number);
                count += 1;
            }
        }
        // Nothing else is between these reads.
        let read = |&(core, number): &(u32, u32)| self.domains.read_ahead(core, number);
        black_box(numbers[..count].iter().map(read).fold(0, |all, read| all ^ read));
    }

    /// Takes an access in. None where its line is not chosen.
    ///
    /// # Panics
    /// Where there is no such core and the line is chosen.
    #[inline]
    pub fn access(&mut self, core: u32, line: u64, key: u32) -> Option<Sampled> {
        if self.passed_over == line {
            return None;
        }
        let hash = hash_of(line);
        if hash > self.threshold {
            self.passed_over = line;
            return None;
        }
        self.chosen(core, line, key, hash)
    }

    fn chosen(&mut self, core: u32, line: u64, key: u32, hash: u64) -> Option<Sampled> {
        assert!(core < self.domains.core_sets().cores(), "core {core} of {}", self.domains.core_sets().cores());
        let now = Use { core, key };
        let weight = self.weight;
        let class = hash as usize % CLASSES;
        if let Some(Line { number, last }) = self.lines.get_mut(&line) {
            let (number, previous) = (*number, std::mem::replace(last, now));
            let among_chosen = self.domains.after(number, core, previous.core);
            self.far += usize::from(among_chosen.is_none_or(|distance| distance > NEAR));
            self.domains.touch(core, number);
            // To the nearest; as many as there can be where it is more.
            let of_all = |distance: u32| (f64::from(distance) * weight + 0.5) as u32;
            let reuse = among_chosen.map(|distance| Reuse { distance: of_all(distance), previous });
            return Some(Sampled { reuse, weight, class });
        }
        let number = self.free.pop().unwrap_or(self.numbers);
        self.numbers = self.numbers.max(number + 1);
        self.lines.insert(line, Line { number, last: now });
        self.chosen.push((hash, line));
        self.domains.touch(core, number);
        if self.lines.len() > self.most_lines {
            self.lower();
        }
        Some(Sampled { reuse: None, weight, class })
    }

    /// Forgets the lines with the largest hash.
    fn lower(&mut self) {
        let Some(&(largest, _)) = self.chosen.peek() else { return };
        self.threshold = largest.saturating_sub(1);
        self.weight = 1.0 / self.share();
        while let Some(&(hash, line)) = self.chosen.peek().filter(|(hash, _)| *hash > self.threshold) {
            debug_assert_eq!(hash, largest);
            self.chosen.pop();
            if let Some(Line { number, .. }) = self.lines.remove(&line) {
                self.domains.forget(number);
                self.free.push(number);
            }
        }
    }

    /// Share of all lines that are chosen, now.
    pub fn share(&self) -> f64 {
        share_below(self.threshold)
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.lines.capacity() * 2 * size_of::<(u64, Line)>()
            + self.chosen.capacity() * size_of::<(u64, u64)>()
            + self.free.capacity() * size_of::<u32>()
            + self.domains.bytes()
    }
}

/// Misses at every size, estimated from chosen lines.
#[derive(Clone, Debug)]
pub struct Estimate {
    classes: Vec<Histogram>,
}

impl Default for Estimate {
    fn default() -> Self {
        Self { classes: vec![Histogram::coarse(); CLASSES] }
    }
}

impl Estimate {
    /// Takes in a chosen access.
    pub fn add(&mut self, sampled: &Sampled) {
        let histogram = &mut self.classes[sampled.class % CLASSES];
        match sampled.reuse {
            Some(reuse) => histogram.add(reuse.distance.into(), sampled.weight),
            None => histogram.add_first(sampled.weight),
        }
    }

    /// Takes in all of another one, of the same lines.
    pub fn merge(&mut self, other: &Self) {
        self.classes.iter_mut().zip(&other.classes).for_each(|(class, more)| class.merge(more));
    }

    /// All classes together.
    pub fn histogram(&self) -> Histogram {
        let mut all = Histogram::coarse();
        self.classes.iter().for_each(|class| all.merge(class));
        all
    }

    /// The curve of misses, where there were so many accesses, chosen or not, and this share of lines was chosen at last.
    pub fn misses(&self, accesses: u64, share: f64) -> EstimatedMisses {
        EstimatedMisses {
            classes: self.classes.iter().map(Histogram::misses).collect(),
            accesses: accesses as f64,
            share,
        }
    }
}

/// A curve of misses with what is known of its error.
#[derive(Clone, Debug)]
pub struct EstimatedMisses {
    classes: Vec<MissRatios>,
    accesses: f64,
    share: f64,
}

/// An estimate and how far it may be off: with 95 % confidence the truth is between `least` and `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub least: f64,
    /// Upper end.
    pub most: f64,
}

impl EstimatedMisses {
    /// Share of all accesses that misses where so many lines fit; none where there are no accesses.
    ///
    /// The chosen accesses stand for fewer than there were where some very frequent line was not chosen, for more where one
    /// was. Such lines have short distances, so the difference is taken to be hits (as SHARDS does); the interval has room for
    /// that it is of all sorts. Two more things make an error: which lines were chosen, which the spread of the classes tells; and
    /// that a distance among chosen lines is a count of some out of `lines`, so binomial, which moves the curve sideways.
    pub fn ratio(&self, lines: u64) -> Option<Interval> {
        if self.accesses == 0.0 {
            return None;
        }
        let stood_for: f64 = self.classes.iter().map(MissRatios::total).sum();
        let (fewer, more) = (self.accesses.max(stood_for), self.accesses.min(stood_for).max(1.0));
        let sideways = 1.0 + 2.0 * ((1.0 - self.share) / (self.share * lines.max(1) as f64)).sqrt();
        let (value, _) = self.misses(lines);
        let (least, under) = self.misses((lines as f64 * sideways).ceil() as u64);
        let (most, over) = self.misses((lines as f64 / sideways).floor() as u64);
        Some(Interval {
            value: (value / self.accesses).min(1.0),
            least: ((least - under) / fewer).clamp(0.0, 1.0),
            most: ((most + over) / more).clamp(0.0, 1.0),
        })
    }

    /// Accesses that miss, and how far that may be off because of which lines were chosen.
    fn misses(&self, lines: u64) -> (f64, f64) {
        let misses = self.classes.iter().map(|class| class.misses(lines));
        let (sum, squares) = misses.fold((0.0, 0.0), |(sum, squares), of| (sum + of, squares + of * of));
        // The sum of so many alike has that many times the variance of one.
        let count = CLASSES as f64;
        let variance = (squares - sum * sum / count).max(0.0) / (count - 1.0) * count;
        (sum, if self.share < 1.0 { T_95 * variance.sqrt() } else { 0.0 })
    }
}

/// Student's t for 95 % of both sides, with one less than [`CLASSES`] degrees of freedom.
const T_95: f64 = 2.131;

#[cfg(test)]
mod tests {
    use super::super::ReuseDistances;
    use super::*;

    /// What is accessed, from a generator with a fixed seed.
    fn walk(kind: &str, accesses: usize) -> impl Iterator<Item = u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let kind = kind.to_owned();
        (0..accesses).map(move |index| match kind.as_str() {
            "cycle" => index as u64 % 30_000,
            "random" => random() % 30_000,
            // Half of the accesses to a tenth of the lines, and so on.
            "skewed" => {
                let range = 30_000 >> (random() % 12);
                random() % range.max(1)
            }
            // A small table between passes over a large array.
            "table" => {
                if index % 4 == 0 {
                    (1 << 30) + random() % 500
                } else {
                    index as u64 / 4 % 40_000
                }
            }
            _ => unreachable!(),
        })
    }

    #[test]
    fn the_truth_is_inside_the_interval() {
        for (kind, most_lines) in [("cycle", 1000), ("random", 1000), ("skewed", 1000), ("table", 1500), ("skewed", 64)]
        {
            let accesses = 400_000;
            let core_sets = CoreSets::new(1, &[]).unwrap();
            let mut exact = ReuseDistances::new(core_sets.clone());
            let mut sampled = SampledDistances::new(core_sets, most_lines, 1.0);
            let (mut histogram, mut estimate) = (Histogram::exact(), Estimate::default());
            for line in walk(kind, accesses) {
                match exact.access(0, line, 0).unwrap() {
                    Some(reuse) => histogram.add(reuse.distance.into(), 1.0),
                    None => histogram.add_first(1.0),
                }
                if let Some(found) = sampled.access(0, line, 0) {
                    estimate.add(&found);
                }
            }
            assert!(sampled.share() < 0.1, "{kind}");
            assert!(sampled.bytes() < 400 * most_lines + 40_000, "{kind}: {}", sampled.bytes());
            let truth = histogram.misses();
            let curve = estimate.misses(accesses as u64, sampled.share());
            let sizes: Vec<u64> = (0..17).map(|bits| 1 << bits).chain([500, 3000, 29_000, 31_000, 39_000]).collect();
            let inside = sizes.iter().filter(|lines| {
                let (found, truth) = (curve.ratio(**lines).unwrap(), truth.ratio(**lines).unwrap());
                found.least <= truth + 1e-9 && truth <= found.most + 1e-9
            });
            // 95 % of them; those of one curve are not independent.
            let inside = inside.count();
            assert!(inside + 2 >= sizes.len(), "{kind} with {most_lines}: {inside} of {}", sizes.len());
            for lines in [100, 1000, 10_000] {
                let (found, truth) = (curve.ratio(lines).unwrap(), truth.ratio(lines).unwrap());
                // Whether a very frequent line is chosen is chance.
                let allowed = if most_lines < 100 { 0.3 } else { 0.08 };
                assert!((found.value - truth).abs() < allowed, "{kind} {lines}: {found:?} {truth}");
            }
        }
    }

    /// Lines that one core never touched are forgotten, too; those that are left have their exact distance among each other.
    #[test]
    fn several_cores_forget() {
        let core_sets = || CoreSets::new(3, &[vec![0, 1]]).unwrap();
        let mut sampled = SampledDistances::new(core_sets(), 100, 1.0);
        // The third core has few lines, and the others have theirs by turns.
        let core_of = |line: u64, round: u64| if line < 300 { 2 } else { ((line + round) % 2) as u32 };
        for (round, line) in (0..).zip(walk("random", 20_000)) {
            sampled.access(core_of(line, round), line, 0);
        }
        let mut exact = ReuseDistances::new(core_sets());
        let mut compared = 0;
        for round in 0..4 {
            for line in 0..30_000 {
                let core = core_of(line, round);
                let Some(found) = sampled.access(core, line, 0) else { continue };
                let expected = exact.access(core, line, 0).unwrap();
                // After the first round nothing is new.
                if round > 1 {
                    let distance =
                        expected.map(|expected| (f64::from(expected.distance) / sampled.share()).round() as u32);
                    assert_eq!(found.reuse.map(|reuse| reuse.distance), distance, "{line}");
                    compared += 1;
                }
            }
        }
        assert!(sampled.share() < 0.01 && compared > 100, "{compared}");
    }

    #[test]
    fn all_lines_are_chosen_where_they_are_few() {
        let core_sets = CoreSets::new(1, &[]).unwrap();
        let mut exact = ReuseDistances::new(core_sets.clone());
        let mut sampled = SampledDistances::new(core_sets, 40_000, 1.0);
        for (key, line) in (0..).zip(walk("skewed", 50_000)) {
            let (expected, found) = (exact.access(0, line, key).unwrap(), sampled.access(0, line, key).unwrap());
            assert_eq!((found.reuse, found.weight), (expected, 1.0));
        }
        let mut estimate = Estimate::default();
        estimate.add(&Sampled { reuse: None, weight: 1.0, class: 3 });
        let one = Interval { value: 1.0, least: 1.0, most: 1.0 };
        assert_eq!(estimate.misses(1, 1.0).ratio(10), Some(one));
        assert_eq!(Estimate::default().misses(0, 1.0).ratio(10), None);
    }
}
