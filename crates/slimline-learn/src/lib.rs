//! Which features predict a sample's class, how well, and which of them matter.
//!
//! ```text
//!   columns of numbers, labels ──► samples    values as ranks, labels as classes
//!                                     │
//!                                     ├─► forest            trees (grow, split, gini); votes; Gini importances
//!                                     ├─► permutation       what accuracy loses without a feature
//!                                     └─► folds ──► cross_validation   accuracies on samples that were held out, beside
//!                                                                      what a guess and shuffled labels come to
//! ```
//!
//! After Breiman, "Random Forests" (Machine Learning 45, 2001), in the details after scikit-learn's `RandomForestClassifier` (1.4 and
//! later), so that figures can be compared. Everything is the same in every run and for every number of threads: what is drawn is drawn by
//! a seed.
//!
//! Why no crate does this: `smartcore` (0.5) has no importances (its issue 124) and no missing values, `linfa-ensemble` (0.8) bags whole
//! trees with a feature subset each and has no votes, and `ferrolearn-tree` (0.5), which has most of it, sums all classes anew at each
//! candidate, stores a share for every class in every leaf, which thousands of classes make too slow and too large, and knows
//! missing values in single trees only.
//!
//! ```
//! use slimline_learn::cross_validation::{Options, cross_validate};
//! use slimline_learn::samples::Samples;
//!
//! let payload: Vec<f64> = (0..200).map(|sample| f64::from(sample * 7 % 200)).collect();
//! let community: Vec<u32> = payload.iter().map(|&value| (value / 50.0) as u32).collect();
//! let samples = Samples::new(vec![payload, vec![1.0; 200]], &community)?;
//! let found = cross_validate(&samples, &Options { tree_counts: vec![20], ..Options::default() })?;
//! assert!(found.scores[0].accuracy.mean() > 0.9 && found.baseline.accuracy.mean() < 0.3);
//! assert_eq!(found.gini_importances, [1.0, 0.0]);
//! # Ok::<(), slimline_learn::samples::Error>(())
//! ```

pub mod cross_validation;
pub mod folds;
pub mod forest;
mod gini;
mod grow;
pub mod permutation;
mod radix;
pub mod samples;
mod split;
pub mod spread;
mod tally;
mod tree;
