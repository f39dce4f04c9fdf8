//! What is learned from: columns of numbers, one a feature, and a label of each sample.
//!
//! Values are kept as ranks among the distinct ones of their column, so that growing trees sorts and compares integers of few bits: 4 bytes
//! a value and 8 a distinct one. Labels, which may be any numbers, are kept as classes from 0: 4 bytes a sample.

use std::fmt;
use std::sync::Arc;

/// Rank of a value that is missing.
pub(crate) const MISSING: u32 = u32::MAX;

/// Samples of one kind, all with the same features.
#[derive(Clone, Debug)]
pub struct Samples {
    columns: Arc<[Column]>,
    /// By sample: its class.
    classes: Vec<u32>,
    /// By class: its label, ascending.
    labels: Arc<[u32]>,
}

/// A feature's values.
#[derive(Debug)]
pub(crate) struct Column {
    /// By sample: where `distinct` has the value, or [`MISSING`].
    pub(crate) ranks: Vec<u32>,
    /// Ascending.
    pub(crate) distinct: Vec<f64>,
}

/// Why samples cannot be learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A column has another number of values than there are labels.
    Length {
        /// The column, from 0.
        column: usize,
        /// How many values it has.
        values: usize,
        /// How many labels there are.
        labels: usize,
    },
    /// There are more samples than [`Samples::MOST`].
    TooManySamples(usize),
    /// There are more classes than [`Samples::MOST_CLASSES`].
    TooManyClasses(usize),
    /// There are fewer samples than folds, or fewer than two folds.
    Folds {
        /// How many folds were wanted.
        folds: usize,
        /// How many samples there are.
        samples: usize,
    },
    /// No number of trees was given, or one of 0.
    NoTrees,
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { column, values, labels } => {
                write!(to, "column {column} has {values} values for {labels} labels")
            }
            Self::TooManySamples(count) => write!(to, "{count} samples are more than {}", Samples::MOST),
            Self::TooManyClasses(count) => write!(to, "{count} classes are more than {}", Samples::MOST_CLASSES),
            Self::Folds { folds, samples } => write!(to, "{samples} samples do not make {folds} folds"),
            Self::NoTrees => write!(to, "a forest has at least one tree"),
        }
    }
}

impl std::error::Error for Error {}

impl Samples {
    /// As many samples there may be: a tree's nodes, of which two are a leaf's, have numbers of 32 bits.
    pub const MOST: usize = 1 << 31;
    /// As many classes there may be: 24 bits beside a weight's 8.
    pub const MOST_CLASSES: usize = 1 << 24;

    /// Of columns with a value of each sample each, and a label of each sample. NaN is a missing value; 0 and −0 are the same, infinities
    /// are values like any.
    pub fn new(columns: Vec<Vec<f64>>, labels: &[u32]) -> Result<Self, Error> {
        if labels.len() > Self::MOST {
            return Err(Error::TooManySamples(labels.len()));
        }
        for (column, values) in columns.iter().enumerate() {
            if values.len() != labels.len() {
                return Err(Error::Length { column, values: values.len(), labels: labels.len() });
            }
        }
        let mut of_classes = labels.to_vec();
        of_classes.sort_unstable();
        of_classes.dedup();
        if of_classes.len() > Self::MOST_CLASSES {
            return Err(Error::TooManyClasses(of_classes.len()));
        }
        let class = |label: &u32| of_classes.partition_point(|other| other < label) as u32;
        let classes = labels.iter().map(class).collect();
        Ok(Self { columns: columns.into_iter().map(Column::of).collect(), classes, labels: of_classes.into() })
    }

    /// How many samples there are.
    pub fn count(&self) -> usize {
        self.classes.len()
    }

    /// How many features each has.
    pub fn feature_count(&self) -> usize {
        self.columns.len()
    }

    /// The labels that there are, ascending.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// A sample's label.
    ///
    /// # Panics
    /// If there is no such sample; so do others that are given samples' numbers.
    pub fn label(&self, sample: u32) -> u32 {
        self.labels[self.classes[sample as usize] as usize]
    }

    /// A sample's value of a feature; NaN if it is missing.
    pub fn value(&self, sample: u32, feature: usize) -> f64 {
        self.columns[feature].value(sample)
    }

    /// The same samples, with labels by chance: each occurs as often as before.
    pub fn shuffled(&self, seed: u64) -> Self {
        let mut other = self.clone();
        fastrand::Rng::with_seed(seed).shuffle(&mut other.classes);
        other
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// By sample, an index into `labels`.
    pub(crate) fn classes(&self) -> &[u32] {
        &self.classes
    }

    pub(crate) fn shared_labels(&self) -> Arc<[u32]> {
        self.labels.clone()
    }
}

impl Column {
    fn of(values: Vec<f64>) -> Self {
        // Adding 0 makes −0 one.
        let mut distinct: Vec<f64> = values.iter().filter(|value| !value.is_nan()).map(|value| value + 0.0).collect();
        distinct.sort_unstable_by(f64::total_cmp);
        distinct.dedup();
        let rank = |value: &f64| distinct.partition_point(|other| other < value) as u32;
        let ranks = values.iter().map(|value| if value.is_nan() { MISSING } else { rank(value) }).collect();
        Self { ranks, distinct }
    }

    pub(crate) fn value(&self, sample: u32) -> f64 {
        match self.ranks[sample as usize] {
            MISSING => f64::NAN,
            rank => self.distinct[rank as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_labels_come_back() {
        let values = vec![2.5, f64::NAN, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY];
        let samples = Samples::new(vec![values.clone()], &[9, 9, 4, 4, 1000, 9]).unwrap();
        assert_eq!(samples.columns()[0].distinct, [f64::NEG_INFINITY, 0.0, 2.5, f64::INFINITY]);
        assert_eq!(samples.columns()[0].ranks, [2, MISSING, 1, 1, 3, 0]);
        assert_eq!(samples.labels(), [4, 9, 1000]);
        for (sample, &value) in (0..).zip(&values) {
            assert!(samples.value(sample, 0) == value || value.is_nan() && samples.value(sample, 0).is_nan());
        }
        assert_eq!((samples.label(2), samples.label(4)), (4, 1000));
    }

    #[test]
    fn columns_are_as_long_as_labels() {
        let error = Samples::new(vec![vec![0.0], vec![]], &[1]).unwrap_err();
        assert_eq!(error, Error::Length { column: 1, values: 0, labels: 1 });
        assert_eq!(error.to_string(), "column 1 has 0 values for 1 labels");
    }

    #[test]
    fn shuffled_labels_are_the_same_ones() {
        let samples = Samples::new(Vec::new(), &[1, 1, 1, 2, 3, 3, 5, 8]).unwrap();
        let mut shuffled: Vec<u32> = (0..8).map(|sample| samples.shuffled(3).label(sample)).collect();
        assert_eq!(shuffled, (0..8).map(|sample| samples.shuffled(3).label(sample)).collect::<Vec<_>>());
        shuffled.sort_unstable();
        assert_eq!(shuffled, [1, 1, 1, 2, 3, 3, 5, 8]);
    }
}
