//! A number of accesses that was not counted, and how far it may be off.

use crate::places::BATCHES;

/// An estimate. Those of different accesses add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    value: f64,
    /// What parts of the bursts say of it, each for itself.
    batches: [f64; BATCHES],
    /// By which it is off where all paces are off by a standard error, in the same way.
    of_pace: f64,
    /// Variance of what is independent in each of those that were added.
    variance: f64,
}

/// 97.5 % quantile of Student's t for as many degrees of freedom as [`BATCHES`] leave.
const T: f64 = 2.365;
/// The same of the normal distribution.
const Z: f64 = 1.959_963_985;

impl Estimate {
    /// So much, as parts of the evidence say each for itself, of code whose pace has that relative standard error.
    pub(super) fn new(value: f64, batches: [f64; BATCHES], pace_error: f64) -> Self {
        Self { value, batches, of_pace: value * pace_error, variance: 0.0 }
    }

    /// A part of it, 0 to 1, as told by so many bursts that saw any of it, each of which is of one part: their binomial variance.
    #[must_use]
    pub(super) fn part(&self, part: f64, bursts: u64) -> Self {
        let of_part = self.value.powi(2) * part * (1.0 - part) / bursts.max(1) as f64;
        let scaled = self.scaled(part);
        Self { variance: scaled.variance + of_part, ..scaled }
    }

    /// So many times as much.
    #[must_use]
    pub(super) fn scaled(&self, times: f64) -> Self {
        Self {
            value: self.value * times,
            batches: self.batches.map(|of| of * times),
            of_pace: self.of_pace * times,
            variance: self.variance * times * times,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.value += other.value;
        self.batches.iter_mut().zip(other.batches).for_each(|(sum, of)| *sum += of);
        self.of_pace += other.of_pace;
        self.variance += other.variance;
    }

    /// The best one.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Its 95 % interval.
    pub fn interval(&self) -> (f64, f64) {
        let n = BATCHES as f64;
        let mean = self.batches.iter().sum::<f64>() / n;
        let spread = self.batches.iter().map(|of| (of - mean).powi(2)).sum::<f64>() / (n - 1.0) / n;
        let reach = (spread * T * T + (self.of_pace.powi(2) + self.variance) * Z * Z).sqrt();
        ((self.value - reach).max(0.0), self.value + reach)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_kind_add_up_and_others_as_squares() {
        // Parts of the evidence that differ by 1, ±: variance 8 / 7, of the mean 1 / 7.
        let batches = [99.0, 101.0, 99.0, 101.0, 99.0, 101.0, 99.0, 101.0];
        let (low, high) = Estimate::new(100.0, batches, 0.0).interval();
        assert!((high - 100.0 - T / 7.0_f64.sqrt()).abs() < 1e-9 && (100.0 - low - (high - 100.0)).abs() < 1e-9);
        // 3 % off in both, so 6 of 200.
        let mut both = Estimate::new(100.0, [100.0; BATCHES], 0.03);
        both.add(&Estimate::new(100.0, [100.0; BATCHES], 0.03));
        assert_eq!(both.value(), 200.0);
        assert!((both.interval().1 - 200.0 - 6.0 * Z).abs() < 1e-9);
        // Half of it by 100 bursts: 100² · 1/4 / 100 = 25.
        let half = Estimate::new(100.0, [100.0; BATCHES], 0.0).part(0.5, 100);
        assert!((half.value() - 50.0).abs() < 1e-9 && (half.interval().1 - 50.0 - 5.0 * Z).abs() < 1e-9);
        // Never below nothing.
        assert_eq!(half.scaled(2.0).part(0.01, 1).interval().0, 0.0);
        // Of bytes eight times as many, as sure.
        let bytes = half.scaled(8.0);
        assert!((bytes.interval().1 - 8.0 * half.interval().1).abs() < 1e-9);
    }
}
