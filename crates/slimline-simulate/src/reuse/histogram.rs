//! Histograms of reuse distances, and the misses that follow from them at every size of a cache.

/// How distances are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buckets {
    /// One for each.
    Exact,
    /// One for each below [`FINE`]; above, [`FINE`] / 2 for each doubling: none is wider than 1/32 of its distances.
    Coarse,
}

const FINE: u64 = 64;
const FINE_BITS: u32 = FINE.trailing_zeros();

impl Buckets {
    fn of(self, distance: u64) -> usize {
        match self {
            Self::Coarse if distance >= FINE => {
                let shift = distance.ilog2() - (FINE_BITS - 1);
                (u64::from(shift) * (FINE / 2) + (distance >> shift)) as usize
            }
            _ => distance as usize,
        }
    }

    /// Least distance of a bucket.
    fn start(self, bucket: usize) -> u64 {
        let bucket = bucket as u64;
        match self {
            Self::Coarse if bucket >= FINE => {
                let shift = bucket / (FINE / 2) - 1;
                (bucket - shift * (FINE / 2)) << shift
            }
            _ => bucket,
        }
    }
}

/// How many accesses have which reuse distance. Counts are weights: 1 an access where nothing was sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    buckets: Buckets,
    weights: Vec<f64>,
    first: f64,
}

impl Histogram {
    /// Tells each distance apart: takes 8 bytes for each up to the longest one.
    pub fn exact() -> Self {
        Self { buckets: Buckets::Exact, weights: Vec::new(), first: 0.0 }
    }

    /// Puts distances together that differ by less than 1/32: takes some kilobytes.
    pub fn coarse() -> Self {
        Self { buckets: Buckets::Coarse, ..Self::exact() }
    }

    /// Accesses of this distance.
    pub fn add(&mut self, distance: u64, weight: f64) {
        let bucket = self.buckets.of(distance);
        if bucket >= self.weights.len() {
            self.weights.resize(bucket + 1, 0.0);
        }
        self.weights[bucket] += weight;
    }

    /// Accesses to lines that were never accessed before.
    pub fn add_first(&mut self, weight: f64) {
        self.first += weight;
    }

    /// Takes in all of another one; of coarse ones, a coarse one.
    pub fn merge(&mut self, other: &Self) {
        self.first += other.first;
        for (start, weight) in other.distances() {
            self.add(start, weight);
        }
    }

    /// Accesses to lines that were never accessed before.
    pub fn first(&self) -> f64 {
        self.first
    }

    /// All accesses.
    pub fn total(&self) -> f64 {
        self.first + self.weights.iter().sum::<f64>()
    }

    /// Least distance of each bucket that has any, and its accesses, in order.
    pub fn distances(&self) -> impl Iterator<Item = (u64, f64)> {
        let start = |(bucket, weight): (usize, &f64)| (self.buckets.start(bucket), *weight);
        self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0).map(start)
    }

    /// Mean distance of accesses that have one; of coarse buckets their least. None where no line was accessed again.
    pub fn mean(&self) -> Option<f64> {
        let (sum, count) = self
            .distances()
            .fold((0.0, 0.0), |(sum, count), (start, weight)| (sum + start as f64 * weight, count + weight));
        (count > 0.0).then(|| sum / count)
    }

    /// The misses of caches of all sizes.
    pub fn misses(&self) -> MissRatios {
        let total = self.total();
        let mut misses = total;
        let mut steps = vec![(0, total)];
        for (bucket, weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            // A distance of n needs n + 1 lines. Of wider buckets all have to fit.
            misses -= weight;
            steps.push((self.buckets.start(bucket + 1), misses.max(self.first)));
        }
        MissRatios { total, first: self.first, steps }
    }
}

/// The misses of fully associative caches with LRU replacement, by their size in lines.
#[derive(Clone, Debug, PartialEq)]
pub struct MissRatios {
    total: f64,
    first: f64,
    /// Sizes at which misses become fewer, with what is left from there on; from 0 lines on.
    steps: Vec<(u64, f64)>,
}

impl MissRatios {
    /// Accesses that miss where so many lines fit.
    pub fn misses(&self, lines: u64) -> f64 {
        let after = self.steps.partition_point(|(least, _)| *least <= lines);
        self.steps[after - 1].1
    }

    /// The same as a share of all accesses; none where there are none.
    pub fn ratio(&self, lines: u64) -> Option<f64> {
        (self.total > 0.0).then(|| self.misses(lines) / self.total)
    }

    /// All accesses.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Sizes at which misses become fewer, with those that are left from there on; the first is 0 lines, where all
    /// accesses miss.
    pub fn steps(&self) -> &[(u64, f64)] {
        &self.steps
    }

    /// Least lines with which at most this share of the accesses to lines accessed before misses: 0 for all that it needs.
    pub fn lines_for(&self, share: f64) -> u64 {
        let allowed = self.first + share * (self.total - self.first);
        let enough = self.steps.iter().find(|(_, misses)| *misses <= allowed * (1.0 + f64::EPSILON));
        enough.or(self.steps.last()).map_or(0, |(lines, _)| *lines)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        for buckets in [Buckets::Exact, Buckets::Coarse] {
            let mut next = 0;
            for bucket in 0..400 {
                assert_eq!(buckets.start(bucket), next, "{buckets:?} {bucket}");
                next = buckets.start(bucket + 1);
                for distance in [buckets.start(bucket), next - 1] {
                    assert_eq!(buckets.of(distance), bucket, "{distance}");
                }
                assert!((next - buckets.start(bucket) - 1) * 32 <= buckets.start(bucket));
            }
        }
        assert!(Buckets::Coarse.of(u64::MAX) < 2000);
    }

    /// `a b c a b c a`: two lines hit nothing, three hit all but the first three.
    #[test]
    fn a_cycle_hits_where_all_of_it_fits() {
        let mut histogram = Histogram::exact();
        histogram.add_first(3.0);
        histogram.add(2, 4.0);
        let misses = histogram.misses();
        assert_eq!([0, 1, 2, 3, 100].map(|lines| misses.misses(lines)), [7.0, 7.0, 7.0, 3.0, 3.0]);
        assert_eq!(misses.steps(), [(0, 7.0), (3, 3.0)]);
        assert_eq!((misses.ratio(3), misses.lines_for(0.0), misses.lines_for(1.0)), (Some(3.0 / 7.0), 3, 0));
        assert_eq!((histogram.mean(), histogram.total()), (Some(2.0), 7.0));
        let nothing = Histogram::coarse();
        assert_eq!((nothing.mean(), nothing.misses().ratio(1), nothing.misses().lines_for(0.0)), (None, None, 0));
    }

    proptest! {
        #[test]
        fn coarse_ones_are_never_too_good_and_hardly_too_bad(
            distances in prop::collection::vec((0_u32..20, any::<u32>()), 1..200),
            lines in 1_u64..1 << 20,
        ) {
            let (mut exact, mut coarse) = (Histogram::exact(), Histogram::coarse());
            for (bits, distance) in distances {
                let distance = u64::from(distance) & ((1 << bits) - 1);
                exact.add(distance, 1.0);
                coarse.add(distance, 1.0);
            }
            let (exact, coarse) = (exact.misses(), coarse.misses());
            prop_assert!(coarse.misses(lines) >= exact.misses(lines));
            prop_assert!(coarse.misses(lines + lines / 31 + 1) <= exact.misses(lines));
        }
    }
}
