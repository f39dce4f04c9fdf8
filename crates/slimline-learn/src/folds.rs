//! Parts of the samples, each of which is held out once while the others are learned from.

use crate::samples::{Error, Samples};

/// Stratified folds: of any two the sizes differ by one at most, and so do the numbers of samples of each class (Kohavi, "A Study of
/// Cross-Validation and Bootstrap", 1995).
///
/// Members of a class are dealt in an order by chance, each to the next fold, beginning where the class before ended: those of classes that
/// have fewer members than there are folds are spread over as many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folds {
    count: usize,
    /// By sample: its fold.
    of: Vec<u32>,
    alone: usize,
    scarce: usize,
}

impl Folds {
    /// So many folds, 2 at least, and at most as many as there are samples.
    pub fn new(samples: &Samples, count: usize, seed: u64) -> Result<Self, Error> {
        if count < 2 || samples.count() < count {
            return Err(Error::Folds { folds: count, samples: samples.count() });
        }
        let mut order: Vec<u32> = (0..samples.count() as u32).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        let class = |&sample: &u32| samples.classes()[sample as usize];
        order.sort_by_key(class);
        let mut of = vec![0; order.len()];
        for (&sample, place) in order.iter().zip(0..) {
            of[sample as usize] = (place % count) as u32;
        }
        let members = || order.chunk_by(|a, b| class(a) == class(b)).map(<[u32]>::len);
        let alone = members().filter(|&members| members == 1).count();
        let scarce = members().filter(|&members| members < count).count();
        Ok(Self { count, of, alone, scarce })
    }

    /// How many folds there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The samples that are learned from while a fold is held out, ascending.
    pub fn learned(&self, fold: usize) -> Vec<u32> {
        self.with(|of| of != fold)
    }

    /// The samples of a fold, ascending.
    pub fn held_out(&self, fold: usize) -> Vec<u32> {
        self.with(|of| of == fold)
    }

    /// How many classes have one sample only: as many samples can't be learned, for where they are held out nothing is known of their class.
    pub fn alone(&self) -> usize {
        self.alone
    }

    /// How many classes have fewer samples than there are folds, those of one included.
    pub fn scarce(&self) -> usize {
        self.scarce
    }

    fn with(&self, is_wanted: impl Fn(usize) -> bool) -> Vec<u32> {
        (0..).zip(&self.of).filter(|(_, of)| is_wanted(**of as usize)).map(|(sample, _)| sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples(labels: &[u32]) -> Samples {
        Samples::new(Vec::new(), labels).unwrap()
    }

    #[test]
    fn few_of_a_class_are_spread() {
        let folds = Folds::new(&samples(&[1, 1, 1, 5, 5, 7]), 3, 1).unwrap();
        assert_eq!((folds.alone(), folds.scarce()), (1, 2));
        for fold in 0..3 {
            assert_eq!(folds.held_out(fold).len(), 2);
            assert_eq!(folds.held_out(fold).iter().filter(|&&sample| sample < 3).count(), 1);
        }
    }

    #[test]
    fn there_are_samples_for_each() {
        assert_eq!(Folds::new(&samples(&[1, 2]), 3, 0), Err(Error::Folds { folds: 3, samples: 2 }));
        assert_eq!(Folds::new(&samples(&[1, 2]), 1, 0), Err(Error::Folds { folds: 1, samples: 2 }));
        assert!(Folds::new(&samples(&[1, 2]), 2, 0).is_ok());
    }

    proptest! {
        #[test]
        fn each_sample_is_held_out_once(labels in prop::collection::vec(0..6_u32, 2..80), count in 2..7_usize, seed: u64) {
            prop_assume!(labels.len() >= count);
            let folds = Folds::new(&samples(&labels), count, seed).unwrap();
            prop_assert_eq!(&folds, &Folds::new(&samples(&labels), count, seed).unwrap());
            let mut all: Vec<u32> = (0..count).flat_map(|fold| folds.held_out(fold)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..labels.len() as u32).collect::<Vec<_>>());
            for fold in 0..count {
                let mut both = [folds.held_out(fold), folds.learned(fold)].concat();
                both.sort_unstable();
                prop_assert_eq!(both, (0..labels.len() as u32).collect::<Vec<_>>());
            }
            for class in 0..6 {
                let of = |fold| folds.held_out(fold).iter().filter(|&&sample| labels[sample as usize] == class).count();
                let (least, most) = ((0..count).map(of).min().unwrap(), (0..count).map(of).max().unwrap());
                prop_assert!(most - least <= 1);
            }
            let sizes = || (0..count).map(|fold| folds.held_out(fold).len());
            prop_assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        }
    }
}
