//! A number of accesses that was not counted, and how far it may be off.

use std::collections::BTreeMap;

use crate::places::BATCHES;
use crate::share::{Z, student_t};

/// An estimate. Those of different accesses add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    value: f64,
    /// What parts of the bursts say of it, each for itself.
    batches: [f64; BATCHES],
    /// By which it is off where all paces are off by a standard error, in the same way.
    of_pace: f64,
    /// What it is a part of, by instruction and data: parts of one whole are not independent, and all of it is not divided.
    divided: BTreeMap<usize, Divided>,
}

/// A part of what an instruction was executed in the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Divided {
    /// All of it, in what is counted.
    whole: f64,
    /// The part, 0 to 1.
    part: f64,
    /// Bursts that saw any of it, each of which is of one part.
    bursts: f64,
}

impl Divided {
    /// Binomial.
    fn variance(&self) -> f64 {
        let part = self.part.clamp(0.0, 1.0);
        self.whole.powi(2) * part * (1.0 - part) / self.bursts.max(1.0)
    }
}

impl Estimate {
    /// So much, as parts of the evidence say each for itself, of code whose pace has that relative standard error.
    pub(super) fn new(value: f64, batches: [f64; BATCHES], pace_error: f64) -> Self {
        Self { value, batches, of_pace: value * pace_error, divided: BTreeMap::new() }
    }

    /// A part of it, 0 to 1, as told by so many bursts that saw any of it. `whole` says which whole it is.
    #[must_use]
    pub(super) fn part(&self, whole: usize, part: f64, bursts: f64) -> Self {
        let divided = BTreeMap::from([(whole, Divided { whole: self.value, part, bursts })]);
        Self { divided, ..self.scaled(part) }
    }

    /// So many times as much.
    #[must_use]
    pub(super) fn scaled(&self, times: f64) -> Self {
        let scaled = |of: &Divided| Divided { whole: of.whole * times, ..*of };
        Self {
            value: self.value * times,
            batches: self.batches.map(|of| of * times),
            of_pace: self.of_pace * times,
            divided: self.divided.iter().map(|(whole, of)| (*whole, scaled(of))).collect(),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.value += other.value;
        self.batches.iter_mut().zip(other.batches).for_each(|(sum, of)| *sum += of);
        self.of_pace += other.of_pace;
        for (whole, of) in &other.divided {
            let sum = self.divided.entry(*whole).or_default();
            // Their wholes may be told in different parts of a group that they are of: the mean of them.
            let part = sum.part + of.part;
            if part > 0.0 {
                sum.whole = (sum.whole * sum.part + of.whole * of.part) / part;
            }
            sum.part = part;
            sum.bursts = sum.bursts.max(of.bursts);
        }
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
        let division: f64 = self.divided.values().map(Divided::variance).sum();
        let t = student_t(BATCHES - 1);
        let reach = (spread * t * t + (self.of_pace.powi(2) + division) * Z * Z).sqrt();
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
        assert!((high - 100.0 - 2.365 / 7.0_f64.sqrt()).abs() < 1e-9 && (100.0 - low - (high - 100.0)).abs() < 1e-9);
        // 3 % off in both, so 6 of 200.
        let mut both = Estimate::new(100.0, [100.0; BATCHES], 0.03);
        both.add(&Estimate::new(100.0, [100.0; BATCHES], 0.03));
        assert_eq!(both.value(), 200.0);
        assert!((both.interval().1 - 200.0 - 6.0 * Z).abs() < 1e-9);
        // Half of it by 100 bursts: 100² · 1/4 / 100 = 25.
        let half = Estimate::new(100.0, [100.0; BATCHES], 0.0).part(3, 0.5, 100.0);
        assert!((half.value() - 50.0).abs() < 1e-9 && (half.interval().1 - 50.0 - 5.0 * Z).abs() < 1e-9);
        // Both halves are all, which is not divided; as much of something else is independent.
        let mut all = half.clone();
        all.add(&half);
        assert_eq!(all.interval(), (100.0, 100.0));
        let mut others = half.clone();
        others.add(&Estimate::new(100.0, [100.0; BATCHES], 0.0).part(4, 0.5, 100.0));
        assert!((others.interval().1 - 100.0 - 50.0_f64.sqrt() * Z).abs() < 1e-9);
        // Never below nothing.
        assert_eq!(half.scaled(2.0).part(3, 0.01, 1.0).interval().0, 0.0);
        // Of bytes eight times as many, as sure.
        let bytes = half.scaled(8.0);
        assert!((bytes.interval().1 - 8.0 * half.interval().1).abs() < 1e-9);
    }
}
