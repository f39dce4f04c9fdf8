//! How the memory system served the sampled accesses: latency, memory level, TLB, locks, lines that other cores wrote.
//!
//! All of it is of samples that a hardware counter took, and of what that counter tells of them: where it samples slow
//! loads only (Intel's `ldlat`), every share here is one of slow loads. Each share is of those samples of which hardware
//! told; where it told of none there is no share.

use std::collections::BTreeMap;
use std::ops::Range;

use slimline_trace::served::{MemoryLevel, Served, Snoop, Translation};

use crate::share::portion;

/// Samples on either side that a quantile needs: fewer, and it is the accident of a few.
const LEAST_BESIDE: f64 = 10.0;
/// Cycles below which each has a bucket of its own; above, an octave has half as many, which are 3 % wide.
const EXACT_CYCLES: u32 = 64;

/// A sum and how many were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub cycles: u64,
}

impl Sum {
    fn add(&mut self, cycles: u64) {
        self.count += 1;
        self.cycles += cycles;
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.cycles += other.cycles;
    }

    fn part(&self, part: &Range<f64>) -> Self {
        Self { count: portion(self.count, part), cycles: portion(self.cycles, part) }
    }

    /// The mean; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.cycles as f64 / self.count as f64)
    }
}

/// How many of those of which it is told are so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Samples of which hardware tells it.
    pub of: u64,
    /// Those that are so.
    pub are: u64,
}

impl Told {
    fn add(&mut self, is: Option<bool>) {
        self.of += u64::from(is.is_some());
        self.are += u64::from(is == Some(true));
    }

    fn merge(&mut self, other: Self) {
        self.of += other.of;
        self.are += other.are;
    }

    fn part(&self, part: &Range<f64>) -> Self {
        Self { of: portion(self.of, part), are: portion(self.are, part) }
    }

    /// The share; `None` where it is told of none.
    pub fn share(&self) -> Option<f64> {
        // Parts are rounded each for itself.
        (self.of > 0).then(|| self.are.min(self.of) as f64 / self.of as f64)
    }
}

/// Sums over sampled accesses. Integers, so that adding is exact in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Samples of which hardware tells anything.
    pub samples: u64,
    /// Latency of the accesses, in cycles.
    pub latency: Sum,
    /// Cycles of the whole instructions.
    pub instruction: Sum,
    /// Cycles that they held up others before these could retire.
    pub retire: Sum,
    /// Those whose translation no TLB had.
    pub tlb_misses: Told,
    /// Those that were locked.
    pub locked: Told,
    /// Those whose data came from beyond their NUMA node.
    pub remote: Told,
    /// Those whose line another core had written: a hint that threads share it.
    pub modified: Told,
    /// By where the data came from.
    levels: BTreeMap<MemoryLevel, Sum>,
    /// Latencies, by bucket.
    latencies: BTreeMap<u16, u64>,
}

impl Service {
    /// Takes a sample in; one of which hardware tells nothing is none.
    pub fn add(&mut self, served: &Served) {
        if *served == Served::UNKNOWN {
            return;
        }
        self.samples += 1;
        if let Some(cycles) = served.latency_cycles {
            self.latency.add(cycles.into());
            *self.latencies.entry(bucket(cycles)).or_default() += 1;
        }
        if let Some(cycles) = served.instruction_cycles {
            self.instruction.add(cycles.into());
        }
        if let Some(cycles) = served.retire_cycles {
            self.retire.add(cycles.into());
        }
        if let Some(level) = served.level {
            self.levels.entry(level).or_default().add(served.latency_cycles.unwrap_or(0).into());
        }
        self.tlb_misses.add(served.translation.map(Translation::is_miss));
        self.locked.add(served.locked);
        self.remote.add(served.is_remote());
        self.modified.add(served.snoop.map(Snoop::is_modified));
    }

    /// Adds what another saw.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.latency.merge(other.latency);
        self.instruction.merge(other.instruction);
        self.retire.merge(other.retire);
        self.tlb_misses.merge(other.tlb_misses);
        self.locked.merge(other.locked);
        self.remote.merge(other.remote);
        self.modified.merge(other.modified);
        for (&level, &sum) in &other.levels {
            self.levels.entry(level).or_default().merge(sum);
        }
        for (&bucket, &count) in &other.latencies {
            *self.latencies.entry(bucket).or_default() += count;
        }
    }

    /// The part of it from `part.start` to `part.end` of 1. Parts that make up 1 add up to the whole.
    pub fn part(&self, part: &Range<f64>) -> Self {
        Self {
            samples: portion(self.samples, part),
            latency: self.latency.part(part),
            instruction: self.instruction.part(part),
            retire: self.retire.part(part),
            tlb_misses: self.tlb_misses.part(part),
            locked: self.locked.part(part),
            remote: self.remote.part(part),
            modified: self.modified.part(part),
            levels: self.levels.iter().map(|(&level, sum)| (level, sum.part(part))).collect(),
            latencies: self.latencies.iter().map(|(&bucket, &count)| (bucket, portion(count, part))).collect(),
        }
    }

    /// Samples and their latency by where the data came from, nearest first; those of which that is told.
    pub fn levels(&self) -> impl Iterator<Item = (MemoryLevel, Sum)> + '_ {
        self.levels.iter().map(|(&level, &sum)| (level, sum)).filter(|(_, sum)| sum.count > 0)
    }

    /// Share of the latency of `whole` that is this one's; 0 where there is none.
    pub fn latency_share_of(&self, whole: &Self) -> f64 {
        self.latency.cycles as f64 / whole.latency.cycles.max(1) as f64
    }

    /// Share of the latency that is a level's; 0 where there is none.
    pub fn latency_part(&self, sum: &Sum) -> f64 {
        sum.cycles as f64 / self.latency.cycles.max(1) as f64
    }

    /// Share of the samples of a level, of those of which the level is told.
    pub fn level_share(&self, sum: &Sum) -> f64 {
        let told: u64 = self.levels.values().map(|sum| sum.count).sum();
        sum.count as f64 / told.max(1) as f64
    }

    /// Latency that this part of the samples stays below, to 3 %; `None` where fewer than ten samples lie beyond it.
    pub fn latency_quantile(&self, part: f64) -> Option<u64> {
        let count = self.latency.count as f64;
        if count * part.min(1.0 - part) < LEAST_BESIDE {
            return None;
        }
        let mut below = 0;
        self.latencies
            .iter()
            .find(|&(_, &samples)| {
                below += samples;
                below as f64 >= count * part
            })
            .map(|(&bucket, _)| least_cycles(bucket))
    }
}

/// The bucket of a latency.
fn bucket(cycles: u32) -> u16 {
    if cycles < EXACT_CYCLES {
        return cycles as u16;
    }
    let octave = cycles.ilog2() - EXACT_CYCLES.ilog2();
    let half = EXACT_CYCLES / 2;
    (EXACT_CYCLES + octave * half + (cycles >> (octave + 1)) - half) as u16
}

/// The least latency in a bucket.
fn least_cycles(bucket: u16) -> u64 {
    let (bucket, exact) = (u64::from(bucket), u64::from(EXACT_CYCLES));
    if bucket < exact {
        return bucket;
    }
    let half = exact / 2;
    let (octave, place) = ((bucket - exact) / half, (bucket - exact) % half);
    (half + place) << (octave + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(cycles: u32, level: MemoryLevel) -> Served {
        Served { latency_cycles: Some(cycles), level: Some(level), ..Served::UNKNOWN }
    }

    #[test]
    fn sums_are_those_of_the_samples() {
        let mut service = Service::default();
        service.add(&Served::UNKNOWN);
        service.add(&load(4, MemoryLevel::L1));
        service.add(&Served {
            snoop: Some(Snoop::HitModified),
            translation: Some(Translation::Walk),
            locked: Some(true),
            retire_cycles: Some(9),
            ..load(300, MemoryLevel::RemoteDram)
        });
        service.add(&Served { translation: Some(Translation::L2), locked: Some(false), ..load(12, MemoryLevel::L1) });
        // A store: no latency, but where it went.
        service.add(&Served { level: Some(MemoryLevel::L1), ..Served::UNKNOWN });
        assert_eq!((service.samples, service.latency), (4, Sum { count: 3, cycles: 316 }));
        assert_eq!(service.retire.mean(), Some(9.0));
        assert_eq!(service.instruction.mean(), None);
        let levels: Vec<_> = service.levels().collect();
        assert_eq!(levels[0], (MemoryLevel::L1, Sum { count: 3, cycles: 16 }));
        assert_eq!(levels[1], (MemoryLevel::RemoteDram, Sum { count: 1, cycles: 300 }));
        assert_eq!(service.level_share(&levels[0].1), 0.75);
        assert_eq!(service.tlb_misses.share(), Some(0.5));
        assert_eq!(service.locked.share(), Some(0.5));
        assert_eq!(service.remote.share(), Some(0.25));
        assert_eq!(service.modified.share(), Some(1.0));
        assert_eq!(Service::default().locked.share(), None);
    }

    #[test]
    fn quantiles_need_samples_beyond_them() {
        let mut service = Service::default();
        (1..=19).for_each(|cycles| service.add(&load(cycles, MemoryLevel::L2)));
        assert_eq!(service.latency_quantile(0.5), None);
        service.add(&load(20, MemoryLevel::L2));
        assert_eq!(service.latency_quantile(0.5), Some(10));
        assert_eq!(service.latency_quantile(0.95), None);
        (0..180).for_each(|_| service.add(&load(63, MemoryLevel::L2)));
        assert_eq!(service.latency_quantile(0.05), Some(10));
        assert_eq!(service.latency_quantile(0.95), Some(63));
    }

    proptest! {
        #[test]
        fn a_bucket_is_narrow(cycles: u32) {
            let least = least_cycles(bucket(cycles));
            prop_assert!(least <= u64::from(cycles));
            prop_assert!((u64::from(cycles) - least) as f64 <= 0.032 * f64::from(cycles), "{cycles} in {least}");
            prop_assert_eq!(bucket(least as u32), bucket(cycles));
        }

        #[test]
        fn parts_and_shards_are_the_whole(all in proptest::collection::vec((0u32..5000, 0usize..12, any::<bool>()), 0..60), at in 0.0..1.0f64) {
            let mut whole = Service::default();
            let mut shards = [Service::default(), Service::default()];
            for (number, &(cycles, level, locked)) in all.iter().enumerate() {
                let served = Served { locked: Some(locked), ..load(cycles, MemoryLevel::ALL[level]) };
                whole.add(&served);
                shards[number % 2].add(&served);
            }
            let [mut merged, other] = shards;
            merged.merge(&other);
            prop_assert_eq!(&merged, &whole);
            let mut sum = whole.part(&(0.0..at));
            sum.merge(&whole.part(&(at..1.0)));
            prop_assert_eq!(sum.levels().collect::<Vec<_>>(), whole.levels().collect::<Vec<_>>());
            prop_assert_eq!((sum.samples, sum.latency, sum.locked), (whole.samples, whole.latency, whole.locked));
        }
    }
}
