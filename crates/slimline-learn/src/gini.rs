//! Gini impurity of the two sides of a split, kept up to date as samples move from one to the other.
//!
//! Of a side with weight w and n_c of each class, the impurity is 1 − Σ n_c² / w² (Breiman et al., "Classification and Regression Trees",
//! 1984). A split of a node of weight W gains W − Σ n_c²/W before, less w − Σ n_c²/w of both sides after, in units of weight: as the
//! weights add up, the greatest gain is where [`Sides::purity`], Σ l_c²/l + Σ r_c²/r, is greatest. A sample that moves changes two squares,
//! so a candidate costs the same whatever the number of classes. All sums are integers: no order of moving makes another result.

/// What lies left and right.
#[derive(Debug)]
pub(crate) struct Sides {
    /// By class: weight on each side. 8 bytes a class.
    counts: Vec<[u32; 2]>,
    weights: [u64; 2],
    /// Σ of squares over classes.
    squares: [u64; 2],
    /// Which of the two is left.
    left: usize,
}

impl Sides {
    pub(crate) fn new(classes: usize) -> Self {
        Self { counts: vec![[0; 2]; classes], weights: [0; 2], squares: [0; 2], left: 0 }
    }

    /// Puts weight of a class to the right.
    #[inline]
    pub(crate) fn add(&mut self, class: u32, weight: u32) {
        let right = 1 - self.left;
        let count = &mut self.counts[class as usize][right];
        self.squares[right] += grown(*count, weight);
        *count += weight;
        self.weights[right] += u64::from(weight);
    }

    #[inline]
    pub(crate) fn move_left(&mut self, class: u32, weight: u32) {
        let (left, right) = (self.left, 1 - self.left);
        let counts = &mut self.counts[class as usize];
        counts[right] -= weight;
        self.squares[right] -= grown(counts[right], weight);
        self.squares[left] += grown(counts[left], weight);
        counts[left] += weight;
        self.weights[right] -= u64::from(weight);
        self.weights[left] += u64::from(weight);
    }

    /// What was left is right.
    pub(crate) fn swap(&mut self) {
        self.left = 1 - self.left;
    }

    /// Σ l_c²/l + Σ r_c²/r, a side of no weight with 0. At most the weight of both, where each side has one class.
    #[inline]
    pub(crate) fn purity(&self) -> f64 {
        let of = |side: usize| self.squares[side] as f64 / self.weights[side].max(1) as f64;
        of(self.left) + of(1 - self.left)
    }

    pub(crate) fn is_of_one_class(&self) -> bool {
        let weight = self.weights[0] + self.weights[1];
        self.squares[0].max(self.squares[1]) == weight * weight
    }

    /// Takes a class out of both sides: its weight.
    pub(crate) fn take(&mut self, class: u32) -> u32 {
        let [a, b] = std::mem::take(&mut self.counts[class as usize]);
        for (side, count) in [a, b].into_iter().enumerate() {
            self.weights[side] -= u64::from(count);
            self.squares[side] -= u64::from(count) * u64::from(count);
        }
        a + b
    }
}

/// By how much a square grows: (n + w)² − n².
#[inline]
fn grown(count: u32, by: u32) -> u64 {
    u64::from(by) * (2 * u64::from(count) + u64::from(by))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Classes 0 0 0 1 1 2, cut after the third: 9/3 left, (4 + 1)/3 right; uncut (9 + 4 + 1)/6.
    #[test]
    fn by_hand() {
        let mut sides = Sides::new(3);
        [0, 0, 0, 1, 1, 2].into_iter().for_each(|class| sides.add(class, 1));
        assert_eq!(sides.purity(), 14.0 / 6.0);
        assert!(!sides.is_of_one_class());
        [0, 0, 0].into_iter().for_each(|class| sides.move_left(class, 1));
        assert_eq!(sides.purity(), 9.0 / 3.0 + 5.0 / 3.0);
        [1, 1, 2].into_iter().for_each(|class| sides.move_left(class, 1));
        sides.swap();
        assert_eq!(sides.purity(), 14.0 / 6.0);
        assert_eq!([0, 1, 2].map(|class| sides.take(class)), [3, 2, 1]);
        sides.add(1, 7);
        assert!(sides.is_of_one_class());
    }

    proptest! {
        #[test]
        fn as_counted_anew(samples in prop::collection::vec((0..5_u32, 1..4_u32), 1..40), cut in 0..40_usize) {
            let cut = cut.min(samples.len());
            let mut sides = Sides::new(5);
            samples.iter().for_each(|&(class, weight)| sides.add(class, weight));
            samples[..cut].iter().for_each(|&(class, weight)| sides.move_left(class, weight));
            let of = |side: &[(u32, u32)]| {
                let count = |class| side.iter().filter(|of| of.0 == class).map(|of| u64::from(of.1)).sum::<u64>();
                let weight: u64 = (0..5).map(count).sum();
                (0..5).map(|class| count(class).pow(2)).sum::<u64>() as f64 / weight.max(1) as f64
            };
            prop_assert_eq!(sides.purity(), of(&samples[..cut]) + of(&samples[cut..]));
        }
    }
}
