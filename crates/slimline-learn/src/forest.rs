//! Random forests: many trees, each of other samples and with other features to choose from at each split, whose leaves vote.
//!
//! A tree draws as many samples as there are, with repetition. At each node √N of the N features are drawn (rounded down, at least one;
//! more where those are constant), and the best cut of the best of them in Gini impurity is made; a node of one class is a leaf, and so is
//! one that no feature parts. A vote is a leaf's shares of classes, so that a leaf of several, which is one of samples that have all
//! features in common, votes for each a little; votes are the mean over trees.
//!
//! Where a feature has missing values, each cut is tried with these on either side, and the better side is kept.
//!
//! Time: each of a tree's about 0.63 n samples is sorted at each level for √N features, by a radix sort of ranks: few distinct values are
//! one pass. Memory: of a finished tree 16 bytes a node, that is 32 bytes a leaf, and 8 for each class of leaves with several; there are up
//! to 0.63 n leaves where labels cannot be told from features, few where they can. Per thread, while growing: 12 bytes a sample, 16 to
//! 24 for sorting, and 8 a class.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::grow::Grower;
use crate::samples::Samples;
use crate::tally::{Ballot, Tally};
use crate::tree::Tree;

/// How a forest grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many trees it has.
    pub trees: usize,
    /// How many splits there are from the root to a leaf at most.
    pub most_depth: Option<u32>,
    /// How many samples each side of a split has at least, each counted once however often it was drawn; 0 is as 1.
    pub least_per_leaf: usize,
    /// How many features are tried at each split; the square root of how many there are if `None`. Where most of a few features are noise,
    /// that often tries none but noise.
    pub features_per_split: Option<usize>,
    /// How many samples each tree draws at most; as many as there are if `None`. It bounds the memory of trees.
    pub samples_per_tree: Option<usize>,
    /// Whatever is drawn follows from it. The trees of a forest are the first ones of a greater one of the same seed.
    pub seed: u64,
    /// How many threads grow and vote; 0 is as 1. Results don't depend on it.
    pub threads: usize,
}

/// 100 trees, fully grown, by as many threads as the machine runs at once.
impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            trees: 100,
            most_depth: None,
            least_per_leaf: 1,
            features_per_split: None,
            samples_per_tree: None,
            seed: 0,
            threads,
        }
    }
}

/// Trees that vote.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    trees: Vec<Tree>,
    features: usize,
    /// By class, ascending.
    labels: Arc<[u32]>,
}

/// A label, and which share of the trees voted for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vote {
    /// What is voted for.
    pub label: u32,
    /// Above 0, at most 1.
    pub share: f64,
}

/// Which share of samples were right: their label is that of the most votes, or among those of the most. Of as many votes the smaller label
/// comes first, as in scikit-learn's `predict`; a label without votes never counts. Both are 0 of no samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// The label came first: categorical accuracy.
    pub first: f64,
    /// It came among the first few, as many as were asked for.
    pub top: f64,
}

impl Forest {
    /// Learns from some of the samples, given by their numbers. Of no samples it is a forest whose trees vote for nothing; without
    /// features, each tree votes for what it drew.
    ///
    /// # Panics
    /// If there is no sample of such a number.
    pub fn learn(samples: &Samples, among: &[u32], options: &Options) -> Self {
        let mut random = fastrand::Rng::with_seed(options.seed);
        let seeds: Vec<u64> = (0..options.trees).map(|_| random.u64(..)).collect();
        let next = AtomicUsize::new(0);
        // Each takes the next tree: some are grown sooner than others.
        let grow = || {
            let mut grower = Grower::new(samples, among, options);
            let mut trees = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&seed) = seeds.get(at) else { return trees };
                trees.push((at, grower.grow(seed)));
            }
        };
        let mut trees = vec![Tree::default(); options.trees];
        let mut put = |grown: Vec<(usize, Tree)>| grown.into_iter().for_each(|(at, tree)| trees[at] = tree);
        let threads = options.threads.min(options.trees);
        if threads < 2 {
            put(grow());
        } else {
            std::thread::scope(|scope| {
                let growers: Vec<_> = (0..threads).map(|_| scope.spawn(grow)).collect();
                growers.into_iter().for_each(|grower| put(grower.join().expect("growing does not panic")));
            });
        }
        Self { trees, features: samples.feature_count(), labels: samples.shared_labels() }
    }

    /// How many trees there are.
    pub fn tree_count(&self) -> usize {
        self.trees.len()
    }

    /// How many nodes all trees have.
    pub fn node_count(&self) -> usize {
        self.trees.iter().map(Tree::node_count).sum()
    }

    /// How many features samples have.
    pub fn feature_count(&self) -> usize {
        self.features
    }

    /// Labels of any vote, the most voted for first, of as many votes the smaller one. All shares are 1 together but for rounding.
    ///
    /// # Panics
    /// If there are not as many values as features.
    pub fn votes(&self, values: &[f64]) -> Vec<Vote> {
        assert_eq!(values.len(), self.features, "a value of each feature");
        let mut ballot = Ballot::new(self.labels.len());
        self.trees.iter().for_each(|tree| ballot.add(tree, tree.walk(values)));
        let mut votes: Vec<(u32, f64)> = ballot.votes().collect();
        votes.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let vote = |(class, votes)| Vote { label: self.labels[class as usize], share: votes / self.trees.len() as f64 };
        votes.into_iter().map(vote).collect()
    }

    /// The label of the most votes, of as many votes the smallest; `None` if there is no vote.
    ///
    /// # Panics
    /// As [`Self::votes`].
    pub fn predict(&self, values: &[f64]) -> Option<u32> {
        self.votes(values).first().map(|vote| vote.label)
    }

    /// By feature: how much Gini impurity its splits took away, as share of what all did; 1 in all, or all 0 if no tree has a split that
    /// gained anything.
    ///
    /// The mean decrease in impurity (Breiman 2001; Louppe et al. 2013): of each tree the gains weighted by samples, normalized, and the
    /// mean of these over trees that have splits. Features of many values get some even if they tell nothing (Strobl et al. 2007): see
    /// [`crate::permutation`].
    pub fn gini_importances(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.features];
        for tree in &self.trees {
            sums.iter_mut().zip(&tree.importances).for_each(|(sum, importance)| *sum += importance);
        }
        let all: f64 = sums.iter().sum();
        if all > 0.0 {
            sums.iter_mut().for_each(|sum| *sum /= all);
        }
        sums
    }

    /// How often some of the samples are right, whose labels need not be known to the forest.
    ///
    /// # Panics
    /// If samples have another number of features, or there is no sample of such a number.
    pub fn accuracy(&self, samples: &Samples, among: &[u32], top: usize, threads: usize) -> Accuracy {
        let tally = Tally { forest: self, samples, tree_counts: &[self.trees.len()], top };
        let hits = tally.hits(among, None, threads)[0];
        let share = |hits: u64| hits as f64 / among.len().max(1) as f64;
        Accuracy { first: share(hits.first), top: share(hits.top) }
    }

    pub(crate) fn trees(&self) -> &[Tree] {
        &self.trees
    }

    pub(crate) fn labels(&self) -> &[u32] {
        &self.labels
    }
}
