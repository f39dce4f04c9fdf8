//! A share of the session's weight and how far sampling lets it be off.

use std::ops::Range;

/// Sums of the weights of samples: enough for a share and its error. Integers, so that adding is exact in any order.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Samples.
    pub samples: u64,
    /// Their weight.
    pub weight: u64,
    /// Sum of their weights' squares.
    pub weight_squared: u128,
    /// Part of the weight that belongs here by inference ([`Inferred`](slimline_attribute::tables::Inferred)).
    pub inferred: u64,
}

impl Tally {
    /// Takes one sample in; one that weighs nothing says nothing of shares.
    pub fn add(&mut self, weight: u64) {
        self.samples += u64::from(weight > 0);
        self.weight += weight;
        self.weight_squared += u128::from(weight) * u128::from(weight);
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: Self) {
        self.samples += other.samples;
        self.weight += other.weight;
        self.weight_squared += other.weight_squared;
        self.inferred += other.inferred;
    }

    /// The part of it from `part.start` to `part.end` of 1. Parts that make up 1 add up to the whole.
    pub fn part(&self, part: &Range<f64>) -> Self {
        let weight = portion(self.weight, part);
        Self {
            samples: portion(self.samples, part),
            weight,
            weight_squared: (self.weight_squared as f64 * (part.end - part.start)) as u128,
            inferred: weight,
        }
    }

    /// This part's share of `whole`, with its interval.
    pub fn share_of(&self, whole: &Self) -> Share {
        if whole.weight == 0 {
            return Share { high: 1.0, ..Share::default() };
        }
        let value = self.weight as f64 / whole.weight as f64;
        // What was inferred was inferred from the rest of this part: so much less is known of it.
        let (low, high) = wilson(value, whole.effective_samples() * self.seen_share());
        Share { value, low, high, samples: self.samples }
    }

    /// The interval of a share of this that was found in its samples.
    pub fn interval(&self, share: f64) -> (f64, f64) {
        if self.weight == 0 {
            return (0.0, 1.0);
        }
        wilson(share.clamp(0.0, 1.0), self.effective_samples() * self.seen_share())
    }

    /// Kish's effective number: samples of uneven weight tell less than as many of the same weight.
    pub(crate) fn effective_samples(&self) -> f64 {
        if self.weight == 0 { 0.0 } else { (self.weight as f64).powi(2) / self.weight_squared as f64 }
    }

    /// Part of the weight that was not inferred.
    fn seen_share(&self) -> f64 {
        if self.weight == 0 { 1.0 } else { self.weight.saturating_sub(self.inferred) as f64 / self.weight as f64 }
    }
}

/// The part of `whole` from `part.start` to `part.end` of 1, rounded so that parts that make up 1 add up to the whole.
pub(crate) fn portion(whole: u64, part: &Range<f64>) -> u64 {
    let until = |end: f64| (whole as f64 * end).round() as u64;
    if part.end >= 1.0 { whole - until(part.start).min(whole) } else { until(part.end) - until(part.start) }
}

/// A share, 0 to 1, with its 95 % interval.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Share {
    /// Best estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Samples it rests on.
    pub samples: u64,
}

/// 97.5 % quantile of the normal distribution.
pub(crate) const Z: f64 = 1.959_963_985;

/// Wilson's score interval of a share found in `n` samples (Wilson 1927): unlike the plain one it never leaves [0, 1]
/// and is not empty at 0.
fn wilson(share: f64, n: f64) -> (f64, f64) {
    let n = n.max(1.0);
    let z2 = Z * Z;
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let reach = Z / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    // Rounding may take the ends past the value itself at 0 and 1.
    ((middle - reach).clamp(0.0, share), (middle + reach).clamp(share, 1.0))
}

/// Sums over clusters, as bursts are of accesses: of each how large it is, and how much of it belongs here. Integers, as in
/// [`Tally`].
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Clusters {
    parts: u64,
    squares: u128,
    products: u128,
}

/// The same of all of them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Wholes {
    /// Clusters.
    pub(crate) count: u64,
    /// Their sizes.
    pub(crate) sizes: u64,
    squares: u128,
}

impl Wholes {
    pub(crate) fn add(&mut self, size: u64) {
        self.count += u64::from(size > 0);
        self.sizes += size;
        self.squares += u128::from(size).pow(2);
    }
}

impl Clusters {
    /// Takes in a cluster of which a part belongs here; those of which none does need not be.
    pub(crate) fn add(&mut self, part: u64, size: u64) {
        self.parts += part;
        self.squares += u128::from(part).pow(2);
        self.products += u128::from(part) * u128::from(size);
    }

    /// Adds what others count, of other clusters.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.parts += other.parts;
        self.squares += other.squares;
        self.products += other.products;
    }

    /// The share of the whole with its interval: what is of one cluster is alike, so it counts for as many independent ones as
    /// have the variance that the ratio of the sums has (Cochran 1977, "Sampling Techniques", 6.4 and 9A), and no more than
    /// there are clusters.
    pub(crate) fn share_of(&self, all: &Wholes) -> Share {
        if all.sizes == 0 {
            return Share { high: 1.0, ..Share::default() };
        }
        let (n, sizes) = (all.count as f64, all.sizes as f64);
        let value = self.parts as f64 / sizes;
        let residues = self.squares as f64 - 2.0 * value * self.products as f64 + value * value * all.squares as f64;
        let variance = n / (n - 1.0).max(1.0) * residues.max(0.0) / (sizes * sizes);
        let independent = if variance > 0.0 { value * (1.0 - value) / variance } else { n };
        let (low, high) = wilson(value, independent.min(n));
        Share { value, low, high, samples: all.count }
    }
}

/// 97.5 % quantile of Student's t for so many degrees of freedom, 3 to 7; for fewer or more that of the nearest.
pub(crate) fn student_t(degrees: usize) -> f64 {
    const QUANTILES: [f64; 5] = [3.182, 2.776, 2.571, 2.447, 2.365];
    QUANTILES[degrees.saturating_sub(3).min(QUANTILES.len() - 1)]
}

/// The 95 % interval of a share that parts of the evidence have each for themselves, given as (part, whole) each: that of
/// their mean (Student's t), around the share that all of them have together. Parts that saw nothing are left out; with
/// fewer than four nothing is known.
pub(crate) fn interval_of_parts(share: f64, parts: impl IntoIterator<Item = (f64, f64)>) -> (f64, f64) {
    let shares: Vec<f64> = parts.into_iter().filter(|(_, whole)| *whole > 0.0).map(|(of, whole)| of / whole).collect();
    if shares.len() < 4 {
        return (0.0, 1.0);
    }
    let t = student_t(shares.len() - 1);
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let reach = t * (variance / n).sqrt();
    ((share - reach).max(0.0), (share + reach).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(samples: u64, weight: u64) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..samples {
            tally.add(weight);
        }
        tally
    }

    #[test]
    fn interval_of_even_weights_is_wilsons() {
        // 20 of 100: the textbook's interval is 0.1334 to 0.2888.
        let share = tally(20, 7).share_of(&tally(100, 7));
        assert_eq!((share.value, share.samples), (0.2, 20));
        assert!((share.low - 0.1334).abs() < 5e-5, "{share:?}");
        assert!((share.high - 0.2888).abs() < 5e-5, "{share:?}");
    }

    #[test]
    fn uneven_weights_widen_it() {
        // One sample that weighs as much as 99 others: effectively 198² / (99² + 99) = 3.96 samples.
        let mut whole = tally(99, 1);
        whole.add(99);
        let uneven = tally(99, 1).share_of(&whole);
        let even = tally(50, 1).share_of(&tally(100, 1));
        assert_eq!(uneven.value, even.value);
        assert!(uneven.high - uneven.low > 3.0 * (even.high - even.low), "{uneven:?} {even:?}");
    }

    #[test]
    fn parts_add_up_and_what_is_inferred_widens() {
        let whole = tally(10, 3);
        let cuts = [0.0, 0.33, 0.34, 0.9, 1.0];
        let mut sum = Tally::default();
        for pair in cuts.windows(2) {
            sum.merge(whole.part(&(pair[0]..pair[1])));
        }
        assert_eq!((sum.samples, sum.weight, sum.inferred), (10, 30, 30));
        let mut half_seen = tally(10, 1);
        half_seen.merge(tally(10, 1).part(&(0.0..1.0)));
        let (seen, inferred) = (tally(20, 1).share_of(&tally(100, 1)), half_seen.share_of(&tally(100, 1)));
        assert_eq!(seen.value, inferred.value);
        // As 10 of 50: the textbook's interval is 0.1124 to 0.3304.
        assert!((inferred.low - 0.1124).abs() < 5e-5 && (inferred.high - 0.3304).abs() < 5e-5, "{inferred:?}");
    }

    #[test]
    fn what_is_of_one_cluster_counts_once() {
        // 100 clusters of ten; of 20 all is part: as 20 of 100.
        let (mut all, mut part, mut spread) = (Wholes::default(), Clusters::default(), Clusters::default());
        (0..100).for_each(|_| all.add(10));
        (0..20).for_each(|_| part.add(10, 10));
        let share = part.share_of(&all);
        // 99 for 100, as the variance is estimated: the textbook's interval of 20 of 100 is 0.1334 to 0.2888.
        assert!((share.low - 0.1334).abs() < 1e-3 && (share.high - 0.2888).abs() < 1e-3, "{share:?}");
        // Two of each: nothing varies, and so it is as sure as one of 100 can be.
        (0..100).for_each(|_| spread.add(2, 10));
        assert_eq!((spread.share_of(&all).value, spread.share_of(&all).low), (0.2, wilson(0.2, 100.0).0));
        assert_eq!(Clusters::default().share_of(&Wholes::default()).high, 1.0);
    }

    #[test]
    fn parts_that_differ_tell_how_sure_their_mean_is() {
        // Shares 0.1, 0.2, 0.3, 0.4: standard deviation 0.12910, of the mean 0.06455; t of 3 is 3.182.
        let parts = [(1.0, 10.0), (4.0, 20.0), (0.3, 1.0), (2.0, 5.0), (0.0, 0.0)];
        let (low, high) = interval_of_parts(0.26, parts);
        assert!((low - (0.26 - 0.2054)).abs() < 1e-4 && (high - (0.26 + 0.2054)).abs() < 1e-4, "{low} {high}");
        assert_eq!(interval_of_parts(0.9, parts).1, 1.0);
        assert_eq!(interval_of_parts(0.5, [(1.0, 2.0); 3]), (0.0, 1.0));
        assert_eq!(interval_of_parts(0.5, [(1.0, 2.0); 8]), (0.5, 0.5));
    }

    #[test]
    fn nothing_seen_is_not_known_to_be_nothing() {
        let none = Tally::default().share_of(&tally(100, 1));
        assert_eq!((none.value, none.low), (0.0, 0.0));
        assert!((none.high - 0.037).abs() < 1e-3);
        assert_eq!(Tally::default().share_of(&Tally::default()).high, 1.0);
        assert_eq!(tally(5, 1).share_of(&tally(5, 1)).high, 1.0);
    }
}
