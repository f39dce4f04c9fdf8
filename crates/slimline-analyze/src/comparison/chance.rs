//! Whether two sampled shares differ by more than chance makes them.
//!
//! Each share has a 95 % interval of its own sampling (Wilson's, of the effective number of samples). The difference of two has one by
//! Newcombe's hybrid of both (Newcombe 1998, *Interval estimation for the difference between independent proportions*, method 10): the
//! distance of each value from the end of its own interval that faces the other. The p-value is that of the normal distribution
//! with the same distance; and as many shares are compared at once, Holm's step-down correction (Holm 1979) bounds the chance that
//! any of them is called different though none is.
//!
//! That is the chance of *sampling*. What differs from run to run by itself (addresses, threads, other programs) is not in it.

use crate::share::Z;

/// A share with its 95 % interval, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Best estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Sampled {
    /// The share of a share: of a field in its data, whose share is `self`. Errors are added as those of independent factors.
    #[must_use]
    pub fn of_part(self, part: Self) -> Self {
        let value = self.value * part.value;
        let reach =
            |whole: f64, part_end: f64| (part.value * (whole - self.value)).hypot(self.value * (part_end - part.value));
        Self {
            value,
            low: (value - reach(self.low, part.low)).max(0.0),
            high: (value + reach(self.high, part.high)).min(1.0),
        }
    }
}

/// How two shares differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    /// New minus old.
    pub value: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Difference {
    /// That of two runs.
    pub fn between(old: Sampled, new: Sampled) -> Self {
        let value = new.value - old.value;
        let down = (new.value - new.low).hypot(old.high - old.value);
        let up = (new.high - new.value).hypot(old.value - old.low);
        Self { value, low: value - down, high: value + up }
    }

    /// The chance, of both directions, that shares which are `at_least` apart or less (0: equal) show as much or more.
    pub fn chance(self, at_least: f64) -> f64 {
        let (beyond, reach) = match self.value >= 0.0 {
            true => (self.value - at_least, self.value - self.low),
            false => (-self.value - at_least, self.high - self.value),
        };
        if beyond <= 0.0 {
            return 1.0;
        }
        // Without an error nothing is by chance.
        if reach <= 0.0 { 0.0 } else { two_tails(beyond / reach * Z) }
    }
}

/// Which of several chances are too small to be chance, if no more than `level` is wanted that any is by mistake (Holm).
pub fn beyond_chance(chances: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&a, &b| chances[a].total_cmp(&chances[b]));
    let mut found = vec![false; chances.len()];
    for (rank, &row) in order.iter().enumerate() {
        if chances[row] > level / (chances.len() - rank) as f64 {
            break;
        }
        found[row] = true;
    }
    found
}

/// Chance that a normal number is farther from 0 than `z`: erfc(z / √2), by Abramowitz and Stegun 7.1.26, whose error is below
/// 1.5e-7.
fn two_tails(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let factors = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    (factors.iter().fold(0.0, |sum, factor| (sum + factor) * t) * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tails_are_those_of_the_tables() {
        for (z, expected) in [(0.0, 1.0), (1.0, 0.317_310_5), (Z, 0.05), (2.575_829, 0.01), (4.0, 0.000_063_34)] {
            assert!((two_tails(z) - expected).abs() < 3e-7, "{z}: {}", two_tails(z));
        }
    }

    /// Newcombe's example (a): 56 of 70 and 48 of 80, whose difference of 0.2 has the interval 0.0524 to 0.3339.
    #[test]
    fn intervals_are_those_of_the_paper() {
        let of = |value, low, high| Sampled { value, low, high };
        // Wilson's intervals of both, as the paper has them in method 10.
        let (new, old) = (of(0.8, 0.691_8, 0.877_0), of(0.6, 0.490_5, 0.700_4));
        let found = Difference::between(old, new);
        assert!((found.low - 0.0524).abs() < 2e-4 && (found.high - 0.3339).abs() < 2e-4, "{found:?}");
        // 0.2 of a reach of 0.1476 are 2.66 σ: beyond chance at 1 %, and not at a thousandth; and not beyond a difference of ten points.
        assert!((0.001..0.01).contains(&found.chance(0.0)), "{}", found.chance(0.0));
        assert!(found.chance(0.1) > 0.1);
        let back = Difference::between(new, old);
        assert!((back.value + found.value).abs() < 1e-12 && (back.chance(0.0) - found.chance(0.0)).abs() < 1e-12);
        assert_eq!(Difference::between(old, old).chance(0.0), 1.0);
    }

    /// Of chances 0.01, 0.04, 0.03 and 0.005 at 5 %: 0.005 ≤ 0.05/4, 0.01 ≤ 0.05/3, 0.03 > 0.05/2.
    #[test]
    fn many_comparisons_are_corrected_for() {
        assert_eq!(beyond_chance(&[0.01, 0.04, 0.03, 0.005], 0.05), [true, false, false, true]);
        assert!(beyond_chance(&[], 0.05).is_empty());
    }

    #[test]
    fn a_field_s_share_of_all_has_the_errors_of_both() {
        let group = Sampled { value: 0.5, low: 0.4, high: 0.6 };
        let field = Sampled { value: 0.2, low: 0.1, high: 0.4 };
        let of_all = group.of_part(field);
        // 0.1 − √((0.2 × 0.1)² + (0.5 × 0.1)²) and 0.1 + √((0.2 × 0.1)² + (0.5 × 0.2)²).
        let expected = [0.1, 0.1 - 0.0029_f64.sqrt(), 0.1 + 0.0104_f64.sqrt()];
        for (found, expected) in [of_all.value, of_all.low, of_all.high].into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{of_all:?}");
        }
    }

    proptest! {
        /// Against all subsets in the order of the definition: a chance is beyond if no smaller one fails its own bound.
        #[test]
        fn holm_as_it_is_defined(chances in prop::collection::vec(0.0_f64..0.1, 0..9)) {
            let found = beyond_chance(&chances, 0.05);
            for (row, &chance) in chances.iter().enumerate() {
                let smaller = |bound: f64| chances.iter().filter(|&&other| other < bound).count();
                let expected = chances.iter().filter(|&&other| other <= chance).all(|&other| {
                    other <= 0.05 / (chances.len() - smaller(other)) as f64
                });
                prop_assert_eq!(found[row], expected);
            }
        }
    }
}
