//! Cross-validation: how well forests tell classes of samples that they did not learn from, and what that is to be compared with.
//!
//! Each fold is held out once. A forest is grown as large as the largest that is asked for, and smaller ones are its first trees. Two things
//! say what an accuracy is worth: the **baseline** always says the most frequent classes of what was learned from, and **shuffled** labels,
//! which features can't tell, say what the same procedure finds in noise (Ojala & Garriga, "Permutation Tests for Studying Classifier
//! Performance", JMLR 11, 2010).
//!
//! Memory: one fold's forest at a time, see [`crate::forest`]. Shuffled labels make the largest trees that there are, of about 20 bytes a
//! sample each.

use crate::folds::Folds;
use crate::forest::{self, Forest};
use crate::permutation;
use crate::samples::{Error, Samples};
use crate::spread::Spread;
use crate::tally::{Hits, Tally};

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many folds there are.
    pub folds: usize,
    /// How many trees forests have.
    pub tree_counts: Vec<usize>,
    /// Among so many classes a sample's is looked for, for the top accuracy.
    pub top: usize,
    /// How often each feature is permuted in each fold.
    pub repeats: usize,
    /// How many samples of each fold at most are voted on again for permutation importances, chosen by chance.
    pub most_permuted: usize,
    /// How often labels are shuffled.
    pub shuffles: usize,
    /// How forests grow. Its seed is that of all; its number of trees is not looked at.
    pub forest: forest::Options,
}

/// 5 folds; 100, 200, 400 and 500 trees; the first 5 classes (Miucin 2018, section 3.6). Features are permuted 5 times among 10,000 samples
/// of each fold, labels shuffled 5 times.
impl Default for Options {
    fn default() -> Self {
        Self {
            folds: 5,
            tree_counts: vec![100, 200, 400, 500],
            top: 5,
            repeats: 5,
            most_permuted: 10_000,
            shuffles: 5,
            forest: forest::Options::default(),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossValidation {
    /// By number of trees, ascending.
    pub scores: Vec<Scores>,
    /// Of always the same answer.
    pub baseline: Accuracies,
    /// Of the fewest trees, to be compared with the first of `scores`: one value a shuffle of labels, each a mean over folds.
    pub shuffled: Accuracies,
    /// By feature: mean over folds, of the most trees; 1 in all, or less if in some folds no split gained anything.
    pub gini_importances: Vec<f64>,
    /// By feature: drops in categorical accuracy, of the fewest trees; one value a fold and repeat.
    pub permutation_importances: Vec<Spread>,
    /// How many classes there are.
    pub classes: usize,
    /// How many classes, and so samples, are alone: see [`Folds::alone`]. They count as wrong.
    pub alone: usize,
}

/// Accuracies of forests of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// How many trees they had.
    pub trees: usize,
    /// Share of held-out samples whose class came first, one value a fold. See [`forest::Accuracy`] for votes that are as many.
    pub accuracy: Spread,
    /// Share of those whose class came among the first few.
    pub top: Spread,
}

/// Accuracies to compare with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accuracies {
    /// Share of samples whose class came first.
    pub accuracy: Spread,
    /// Share of those whose class came among the first few.
    pub top: Spread,
}

impl Accuracies {
    fn push(&mut self, hits: Hits, of: usize) {
        self.accuracy.values.push(hits.first as f64 / of as f64);
        self.top.values.push(hits.top as f64 / of as f64);
    }
}

/// Learns and tries. Everything follows from `options.forest.seed`.
///
/// # Errors
/// [`Error::Folds`] if there are fewer samples than folds, or fewer than two folds; [`Error::NoTrees`] if no number of trees is given, or
/// one of 0.
pub fn cross_validate(samples: &Samples, options: &Options) -> Result<CrossValidation, Error> {
    let mut tree_counts = options.tree_counts.clone();
    tree_counts.sort_unstable();
    tree_counts.dedup();
    let (Some(&fewest), Some(&most)) = (tree_counts.first().filter(|fewest| **fewest > 0), tree_counts.last()) else {
        return Err(Error::NoTrees);
    };
    let mut random = fastrand::Rng::with_seed(options.forest.seed);
    let folds = Folds::new(samples, options.folds, random.u64(..))?;
    let threads = options.forest.threads;
    let mut by_trees = vec![Accuracies::default(); tree_counts.len()];
    let mut baseline = Accuracies::default();
    let mut gini_importances = vec![0.0; samples.feature_count()];
    let mut permutation_importances = vec![Spread::default(); samples.feature_count()];
    for fold in 0..folds.count() {
        let (learned, mut held_out) = (folds.learned(fold), folds.held_out(fold));
        let grown = forest::Options { trees: most, seed: random.u64(..), ..options.forest };
        let forest = Forest::learn(samples, &learned, &grown);
        let tally = Tally { forest: &forest, samples, tree_counts: &tree_counts, top: options.top };
        for (accuracies, hits) in by_trees.iter_mut().zip(tally.hits(&held_out, None, threads)) {
            accuracies.push(hits, held_out.len());
        }
        baseline.push(most_frequent(samples, &learned, &held_out, options.top), held_out.len());
        let of_forest = forest.gini_importances();
        gini_importances.iter_mut().zip(of_forest).for_each(|(sum, of)| *sum += of / folds.count() as f64);

        random.shuffle(&mut held_out);
        held_out.truncate(options.most_permuted);
        let seed = random.u64(..);
        let drops = permutation::of_first_trees((&forest, fewest), samples, &held_out, options.repeats, seed, threads);
        for (all, of_fold) in permutation_importances.iter_mut().zip(drops) {
            all.values.extend(of_fold.values);
        }
    }
    let scores = |(trees, Accuracies { accuracy, top })| Scores { trees, accuracy, top };
    Ok(CrossValidation {
        scores: tree_counts.into_iter().zip(by_trees).map(scores).collect(),
        baseline,
        shuffled: shuffled(samples, fewest, options, &mut random)?,
        gini_importances,
        permutation_importances,
        classes: samples.labels().len(),
        alone: folds.alone(),
    })
}

/// How often the classes are right that are the most frequent among `learned`, of as frequent ones the smaller label's.
fn most_frequent(samples: &Samples, learned: &[u32], held_out: &[u32], top: usize) -> Hits {
    let mut counts: Vec<(u32, u32)> = (0..samples.labels().len() as u32).map(|class| (0, class)).collect();
    for &sample in learned {
        counts[samples.classes()[sample as usize] as usize].0 += 1;
    }
    counts.retain(|(count, _)| *count > 0);
    counts.sort_unstable_by_key(|&(count, class)| (std::cmp::Reverse(count), class));
    counts.truncate(top.max(1));
    let among = |classes: &[(u32, u32)]| {
        let is_right = |sample: &&u32| classes.iter().any(|of| of.1 == samples.classes()[**sample as usize]);
        held_out.iter().filter(is_right).count() as u64
    };
    Hits { first: among(&counts[..1]), top: among(&counts[..top.min(counts.len())]) }
}

/// The same procedure, folds included, with labels that mean nothing.
fn shuffled(
    samples: &Samples,
    trees: usize,
    options: &Options,
    random: &mut fastrand::Rng,
) -> Result<Accuracies, Error> {
    let mut found = Accuracies::default();
    for _ in 0..options.shuffles {
        let samples = samples.shuffled(random.u64(..));
        let folds = Folds::new(&samples, options.folds, random.u64(..))?;
        let mut by_fold = Accuracies::default();
        for fold in 0..folds.count() {
            let grown = forest::Options { trees, seed: random.u64(..), ..options.forest };
            let forest = Forest::learn(&samples, &folds.learned(fold), &grown);
            let tally = Tally { forest: &forest, samples: &samples, tree_counts: &[trees], top: options.top };
            let held_out = folds.held_out(fold);
            by_fold.push(tally.hits(&held_out, None, options.forest.threads)[0], held_out.len());
        }
        found.accuracy.values.push(by_fold.accuracy.mean());
        found.top.values.push(by_fold.top.mean());
    }
    Ok(found)
}
