//! The best cut of a node's samples by one feature.

use crate::gini::Sides;
use crate::radix;
use crate::samples::{Column, MISSING};

/// A sample of a tree, drawn once or more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub(crate) sample: u32,
    /// Its class, and below that in 8 bits how often it was drawn.
    packed: u32,
}

const _: () = assert!(size_of::<Drawn>() == 8);

impl Drawn {
    pub(crate) fn new(sample: u32, class: u32, times: u32) -> Self {
        // That one is drawn more often has a probability below 1 / 256!.
        Self { sample, packed: class << 8 | times.min(0xFF) }
    }

    pub(crate) fn class(self) -> u32 {
        class_of(self.packed.into())
    }

    pub(crate) fn weight(self) -> u32 {
        weight_of(self.packed.into())
    }
}

/// A key is a rank, and in its lower half what a drawn sample has packed: sorted keys need no look-up.
fn key(rank: u32, drawn: Drawn) -> u64 {
    u64::from(rank) << 32 | u64::from(drawn.packed)
}

fn rank_of(key: u64) -> u32 {
    (key >> 32) as u32
}

fn class_of(key: u64) -> u32 {
    (key as u32) >> 8
}

fn weight_of(key: u64) -> u32 {
    key as u32 & 0xFF
}

/// Where to cut: ranks up to one go left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Split {
    pub(crate) feature: u32,
    /// The greatest rank on the left.
    pub(crate) rank: u32,
    /// The least rank on the right; [`MISSING`] if nothing but missing values is there.
    pub(crate) next: u32,
    /// Do samples go left whose value is missing?
    pub(crate) missing_left: bool,
    /// [`Sides::purity`] with this split.
    pub(crate) purity: f64,
}

impl Split {
    pub(crate) fn is_left(&self, rank: u32) -> bool {
        if rank == MISSING { self.missing_left } else { rank <= self.rank }
    }

    /// Values up to it go left: half-way between the nearest two, and infinite if only missing values go right.
    pub(crate) fn threshold(&self, column: &Column) -> f64 {
        if self.next == MISSING {
            return f64::INFINITY;
        }
        let (low, high) = (column.distinct[self.rank as usize], column.distinct[self.next as usize]);
        // By halves, as sums may overflow. What lies beside an infinity, or has no value in between, is cut at the lower one.
        let middle = low / 2.0 + high / 2.0;
        if low <= middle && middle < high { middle } else { low }
    }
}

/// What the search for splits needs, again and again.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    keys: Vec<u64>,
    other: Vec<u64>,
    missing: Vec<u64>,
}

/// Whether a feature can part a node's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// All values are one, or all are missing.
    Constant,
    Some,
}

impl Keys {
    /// Puts the best split by a feature into `best` if it is purer than what is there. All samples of the node lie on the right side, and
    /// do so afterwards. Of as pure ones it is the first: cuts at ascending values with missing ones to the right, then to the left, as
    /// scikit-learn's `node_split_best` tries them. At least `least` samples, each counted once, lie on each side.
    ///
    /// Without missing values these go where more samples are, for those who come to the tree later.
    pub(crate) fn search(
        &mut self,
        (feature, column): (u32, &Column),
        drawn: &[Drawn],
        least: usize,
        sides: &mut Sides,
        best: &mut Option<Split>,
    ) -> Parts {
        self.keys.clear();
        self.missing.clear();
        let (mut low, mut high) = (u32::MAX, 0);
        for &drawn in drawn {
            let rank = column.ranks[drawn.sample as usize];
            if rank == MISSING {
                self.missing.push(key(rank, drawn));
            } else {
                (low, high) = (low.min(rank), high.max(rank));
                self.keys.push(key(rank, drawn));
            }
        }
        if self.keys.is_empty() || (low == high && self.missing.is_empty()) {
            return Parts::Constant;
        }
        radix::sort(&mut self.keys, &mut self.other, low, high);

        let present = self.keys.len();
        let mut scan = Scan { feature, all: drawn.len(), least, sides, best };
        if self.missing.is_empty() {
            scan.over(&self.keys, 0, |left| 2 * left > present);
            scan.sides.swap();
            return Parts::Some;
        }
        scan.over(&self.keys, 0, |_| false);
        scan.offer(present, (high, MISSING), false);
        // Now present values are left and missing ones right: the other way round is where the second search begins.
        scan.sides.swap();
        scan.over(&self.keys, self.missing.len(), |_| true);
        scan.sides.swap();
        Parts::Some
    }
}

struct Scan<'a> {
    feature: u32,
    /// Samples of the node.
    all: usize,
    least: usize,
    sides: &'a mut Sides,
    best: &'a mut Option<Split>,
}

impl Scan<'_> {
    /// Moves one sample after the other to the left, where some lie, and offers each place between two ranks.
    fn over(&mut self, keys: &[u64], before: usize, is_missing_left: impl Fn(usize) -> bool) {
        for (at, &key) in keys.iter().enumerate() {
            self.sides.move_left(class_of(key), weight_of(key));
            if let Some(&next) = keys.get(at + 1)
                && rank_of(next) != rank_of(key)
            {
                let left = before + at + 1;
                self.offer(left, (rank_of(key), rank_of(next)), is_missing_left(left));
            }
        }
    }

    #[inline]
    fn offer(&mut self, left: usize, (rank, next): (u32, u32), missing_left: bool) {
        if left < self.least || self.all - left < self.least {
            return;
        }
        let purity = self.sides.purity();
        if self.best.is_none_or(|best| purity > best.purity) {
            *self.best = Some(Split { feature: self.feature, rank, next, missing_left, purity });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::Samples;

    fn best_of(values: &[f64], labels: &[u32], weights: &[u32], least: usize) -> (Option<Split>, Samples) {
        let samples = Samples::new(vec![values.to_vec()], labels).unwrap();
        let drawn: Vec<Drawn> = (0..)
            .zip(samples.classes().iter().zip(weights))
            .map(|(sample, (&class, &weight))| Drawn::new(sample, class, weight))
            .collect();
        let mut sides = Sides::new(samples.labels().len());
        drawn.iter().for_each(|drawn| sides.add(drawn.class(), drawn.weight()));
        let before = sides.purity();
        let mut best = None;
        Keys::default().search((0, &samples.columns()[0]), &drawn, least, &mut sides, &mut best);
        assert_eq!(sides.purity(), before);
        // Nothing was left on the left.
        drawn.iter().for_each(|drawn| sides.move_left(drawn.class(), drawn.weight()));
        (best, samples)
    }

    fn check(values: &[f64], labels: &[u32], (threshold, missing_left, purity): (f64, bool, f64)) {
        let (best, samples) = best_of(values, labels, &vec![1; labels.len()], 1);
        let best = best.unwrap();
        assert_eq!(
            (best.threshold(&samples.columns()[0]), best.missing_left, best.purity),
            (threshold, missing_left, purity)
        );
    }

    const NAN: f64 = f64::NAN;
    const INFINITY: f64 = f64::INFINITY;

    #[test]
    fn by_hand() {
        // 1 | 4: (1 + 0)/1 + (1 + 9)/4.
        check(&[3.0, 1.0, 2.0, 5.0, 4.0], &[1, 0, 1, 1, 0], (1.5, false, 3.5));
        // More on the left: so would missing ones be.
        check(&[1.0, 2.0, 3.0], &[0, 0, 1], (2.5, true, 3.0));
        check(&[1.0, 2.0, NAN, NAN], &[0, 1, 0, 0], (1.5, true, 4.0));
        check(&[1.0, 2.0, NAN, NAN], &[0, 1, 1, 1], (1.5, false, 4.0));
        check(&[1.0, 2.0, NAN, NAN], &[0, 0, 1, 1], (INFINITY, false, 4.0));
        check(&[7.0, 7.0, NAN], &[0, 0, 1], (INFINITY, false, 3.0));
    }

    #[test]
    fn infinities_are_cut_off() {
        check(&[-INFINITY, 1.0], &[0, 1], (-INFINITY, false, 2.0));
        check(&[1.0, INFINITY], &[0, 1], (1.0, false, 2.0));
        check(&[-INFINITY, INFINITY], &[0, 1], (-INFINITY, false, 2.0));
        check(&[f64::MAX / 2.0, f64::MAX], &[0, 1], (f64::MAX * 0.75, false, 2.0));
        // There is nothing between them.
        let next = f64::from_bits(1.0_f64.to_bits() + 1);
        check(&[1.0, next], &[0, 1], (1.0, false, 2.0));
    }

    #[test]
    fn constants_part_nothing() {
        assert_eq!(best_of(&[2.0, 2.0], &[0, 1], &[1, 1], 1).0, None);
        assert_eq!(best_of(&[NAN, NAN], &[0, 1], &[1, 1], 1).0, None);
    }

    /// The purity by counting anew, of samples that a split sends left or right.
    fn purity(is_left: impl Fn(usize) -> bool, labels: &[u32], weights: &[u32]) -> f64 {
        let of = |side: bool| {
            let count = |class| {
                let of_class = (0..labels.len()).filter(|&at| labels[at] == class && is_left(at) == side);
                of_class.map(|at| u64::from(weights[at])).sum::<u64>()
            };
            let weight: u64 = (0..4).map(count).sum();
            (0..4).map(|class| count(class).pow(2)).sum::<u64>() as f64 / weight.max(1) as f64
        };
        of(true) + of(false)
    }

    proptest! {
        /// Its twin tries each value as threshold with missing ones on either side.
        #[test]
        fn none_is_better(
            samples in prop::collection::vec((prop::option::weighted(0.8, -4..4_i32), 0..4_u32, 1..4_u32), 1..400),
            least in 1..5_usize,
        ) {
            let values: Vec<f64> = samples.iter().map(|of| of.0.map_or(NAN, f64::from)).collect();
            let labels: Vec<u32> = samples.iter().map(|of| of.1).collect();
            let weights: Vec<u32> = samples.iter().map(|of| of.2).collect();
            let mut best = None;
            for missing_left in [false, true] {
                for threshold in (-4..4).map(f64::from) {
                    let is_left = |at: usize| if values[at].is_nan() { missing_left } else { values[at] <= threshold };
                    let left = (0..values.len()).filter(|&at| is_left(at)).count();
                    // Missing ones alone on the left are the same as on the right.
                    let has_value = (0..values.len()).any(|at| is_left(at) && !values[at].is_nan());
                    if has_value && left.min(values.len() - left) >= least {
                        best = best.max(Some(purity(is_left, &labels, &weights).to_bits()));
                    }
                }
            }
            let (found, columns) = best_of(&values, &labels, &weights, least);
            prop_assert_eq!(found.map(|found| found.purity.to_bits()), best);
            if let Some(found) = found {
                let threshold = found.threshold(&columns.columns()[0]);
                let is_left = |at: usize| if values[at].is_nan() { found.missing_left } else { values[at] <= threshold };
                prop_assert_eq!(purity(is_left, &labels, &weights), found.purity);
            }
        }
    }
}
