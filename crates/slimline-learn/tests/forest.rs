//! Forests as a caller sees them: trees by hand, what always holds of votes, data that has nothing to tell, and importances.

use proptest::prelude::*;
use slimline_learn::cross_validation::{self, cross_validate};
use slimline_learn::forest::{Accuracy, Forest, Options, Vote};
use slimline_learn::permutation::permutation_importances;
use slimline_learn::samples::{Error, Samples};

const NAN: f64 = f64::NAN;

fn options(trees: usize) -> Options {
    Options { trees, seed: 7, threads: 1, ..Options::default() }
}

fn everyone(samples: &Samples) -> Vec<u32> {
    (0..samples.count() as u32).collect()
}

fn forest(columns: Vec<Vec<f64>>, labels: &[u32], options: &Options) -> (Forest, Samples) {
    let samples = Samples::new(columns, labels).unwrap();
    (Forest::learn(&samples, &everyone(&samples), options), samples)
}

/// So many samples of each class that each tree draws some: its only cut is half-way.
#[test]
fn two_values_are_one_cut() {
    let values: Vec<f64> = (0..100).map(|at| f64::from(at % 2 * 10)).collect();
    let labels: Vec<u32> = (0..100).map(|at| 20 + at % 2).collect();
    let (forest, _) = forest(vec![values], &labels, &options(30));
    assert_eq!(forest.node_count(), 90);
    assert_eq!(forest.votes(&[-3.0]), [Vote { label: 20, share: 1.0 }]);
    assert_eq!(forest.votes(&[5.0]), [Vote { label: 20, share: 1.0 }]);
    assert_eq!(forest.votes(&[5.1]), [Vote { label: 21, share: 1.0 }]);
    assert_eq!(forest.gini_importances(), [1.0]);
}

/// Neither feature gains anything alone: a tree that stopped there would not tell.
#[test]
fn a_cut_without_gain_is_made() {
    let bit = |shift: u32| (0..400_u32).map(|at| f64::from(at >> shift & 1)).collect::<Vec<_>>();
    let labels: Vec<u32> = (0..400).map(|at| (at ^ at >> 1) & 1).collect();
    let (forest, samples) = forest(vec![bit(0), bit(1)], &labels, &options(20));
    assert_eq!(forest.accuracy(&samples, &everyone(&samples), 1, 1), Accuracy { first: 1.0, top: 1.0 });
    let importances = forest.gini_importances();
    assert!((importances.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

/// Samples that no feature parts share a leaf, which votes as they are.
#[test]
fn leaves_of_several_classes_vote_by_shares() {
    let labels: Vec<u32> = (0..4000).map(|at| u32::from(at % 4 == 0)).collect();
    let (forest, _) = forest(vec![vec![1.0; 4000]], &labels, &options(50));
    let votes = forest.votes(&[1.0]);
    assert_eq!(votes.iter().map(|vote| vote.label).collect::<Vec<_>>(), [0, 1]);
    assert!((votes[0].share - 0.75).abs() < 0.01 && (votes[0].share + votes[1].share - 1.0).abs() < 1e-12);
    assert_eq!(forest.gini_importances(), [0.0]);
}

#[test]
fn missing_values_tell_as_others_do() {
    let values: Vec<f64> = (0..300_i32).map(|at| if at % 3 == 0 { NAN } else { f64::from(at % 3) }).collect();
    let labels: Vec<u32> = (0..300).map(|at| at % 3).collect();
    let (forest, samples) = forest(vec![values], &labels, &options(20));
    assert_eq!([NAN, 1.0, 2.0].map(|value| forest.predict(&[value])), [Some(0), Some(1), Some(2)]);
    assert_eq!(forest.accuracy(&samples, &everyone(&samples), 1, 2).first, 1.0);
}

#[test]
fn limits_hold() {
    let values: Vec<f64> = (0..500).map(f64::from).collect();
    let labels: Vec<u32> = (0..500).collect();
    let grow = |options| forest(vec![values.clone()], &labels, &options).0;
    assert_eq!(grow(Options { most_depth: Some(0), ..options(3) }).node_count(), 3);
    assert!(grow(Options { most_depth: Some(2), ..options(3) }).node_count() <= 3 * 7);
    // No leaf has fewer than 50 of the about 316 that are drawn: at most six leaves.
    assert!(grow(Options { least_per_leaf: 50, ..options(3) }).node_count() <= 3 * 11);
    assert!(grow(Options { samples_per_tree: Some(10), ..options(3) }).node_count() <= 3 * 19);
    assert_eq!(grow(Options { least_per_leaf: 0, ..options(3) }), grow(options(3)));
}

#[test]
fn nothing_to_learn_is_no_vote() {
    let (of_none, _) = forest(vec![Vec::new()], &[], &options(3));
    assert_eq!((of_none.votes(&[1.0]), of_none.predict(&[1.0])), (Vec::new(), None));
    assert_eq!((of_none.gini_importances(), of_none.tree_count()), (vec![0.0], 3));
    let (no_trees, samples) = forest(vec![vec![1.0]], &[4], &options(0));
    assert_eq!(no_trees.predict(&[1.0]), None);
    assert_eq!(no_trees.accuracy(&samples, &[0], 5, 3), Accuracy { first: 0.0, top: 0.0 });
    assert_eq!(no_trees.accuracy(&samples, &[], 5, 3), Accuracy::default());

    let (one, _) = forest(vec![vec![1.0]], &[4], &options(3));
    assert_eq!(one.votes(&[NAN]), [Vote { label: 4, share: 1.0 }]);
    let (one_class, _) = forest(vec![vec![1.0, 2.0, 3.0]], &[4, 4, 4], &options(3));
    assert_eq!((one_class.predict(&[9.0]), one_class.node_count()), (Some(4), 3));
    let (no_features, _) = forest(Vec::new(), &[4, 4, 4, 5], &options(40));
    assert_eq!((no_features.predict(&[]), no_features.gini_importances()), (Some(4), Vec::new()));
    let (all_missing, _) = forest(vec![vec![NAN; 4], vec![3.0; 4]], &[4, 4, 4, 5], &options(40));
    assert_eq!((all_missing.predict(&[0.0, NAN]), all_missing.gini_importances()), (Some(4), vec![0.0, 0.0]));
}

#[test]
fn labels_that_a_forest_does_not_know_are_wrong() {
    let (forest, _) = forest(vec![vec![1.0, 2.0]], &[4, 4], &options(3));
    let others = Samples::new(vec![vec![1.0, 2.0, 3.0]], &[3, 4, 5]).unwrap();
    assert_eq!(forest.accuracy(&others, &[0, 1, 2], 5, 1), Accuracy { first: 1.0 / 3.0, top: 1.0 / 3.0 });
}

#[test]
fn threads_change_nothing() {
    let mut random = fastrand::Rng::with_seed(3);
    let columns: Vec<Vec<f64>> = (0..5).map(|_| (0..700).map(|_| f64::from(random.u32(..50))).collect()).collect();
    let labels: Vec<u32> = (0..700).map(|at| (columns[1][at] / 10.0) as u32 * 3 + random.u32(..2)).collect();
    let learn = |threads| forest(columns.clone(), &labels, &Options { threads, ..options(23) });
    let (one, samples) = learn(1);
    let everyone = everyone(&samples);
    for threads in [0, 2, 3, 40] {
        let (other, _) = learn(threads);
        assert_eq!(one, other);
        assert_eq!(one.accuracy(&samples, &everyone, 5, 1), other.accuracy(&samples, &everyone, 5, threads));
        let importances = |threads| permutation_importances(&one, &samples, &everyone, 2, 5, threads);
        assert_eq!(importances(1), importances(threads));
    }
    // More trees begin with the same ones, and another seed makes others.
    assert_eq!(forest(columns.clone(), &labels, &options(23)).0, one);
    assert_ne!(forest(columns.clone(), &labels, &Options { seed: 8, ..options(23) }).0, one);
    let validate = |threads| {
        let forest = Options { threads, ..options(0) };
        let options = cross_validation::Options { tree_counts: vec![12, 5], shuffles: 2, forest, ..Default::default() };
        cross_validate(&samples, &options).unwrap()
    };
    assert_eq!(validate(1), validate(3));
}

/// Smaller forests are the first trees of the largest: it makes no difference which others are asked for.
#[test]
fn fewer_trees_are_the_first_of_more() {
    let mut random = fastrand::Rng::with_seed(9);
    let labels: Vec<u32> = (0..400).map(|_| random.u32(..4)).collect();
    let near = labels.iter().map(|&label| f64::from(label) + random.f64() * 2.0).collect();
    let samples = Samples::new(vec![near, (0..400).map(f64::from).collect()], &labels).unwrap();
    let validate = |tree_counts: &[usize]| {
        let tree_counts = tree_counts.to_vec();
        let options = cross_validation::Options { tree_counts, shuffles: 1, forest: options(0), ..Default::default() };
        cross_validate(&samples, &options).unwrap()
    };
    let (both, few, many) = (validate(&[3, 30]), validate(&[3]), validate(&[30]));
    assert_eq!(both.scores, [few.scores, many.scores].concat());
    assert_eq!((&both.shuffled, &both.permutation_importances), (&few.shuffled, &few.permutation_importances));
    assert_eq!(both.gini_importances, many.gini_importances);
}

/// A number of each sample's own tells nothing, but has more places to cut than any.
#[test]
fn many_values_are_important_to_gini_only() {
    let mut random = fastrand::Rng::with_seed(11);
    let count = 2000;
    let telling: Vec<f64> = (0..count).map(|_| f64::from(random.u32(..4))).collect();
    let noise: Vec<f64> = (0..count).map(|_| random.f64()).collect();
    // One in five is of a class by chance.
    let labels: Vec<u32> =
        telling.iter().map(|&of| if random.u32(..5) == 0 { random.u32(..4) } else { of as u32 }).collect();
    let samples = Samples::new(vec![telling, noise], &labels).unwrap();
    let options = cross_validation::Options { tree_counts: vec![60], forest: options(0), ..Default::default() };
    let found = cross_validate(&samples, &options).unwrap();
    assert!(found.gini_importances[1] > 0.2, "{:?}", found.gini_importances);
    let [telling, noise] = &found.permutation_importances[..] else { panic!("two features") };
    assert!(telling.mean() > 0.3, "{telling:?}");
    // What it is used for makes things worse, if anything.
    assert!(noise.mean() < 0.03 && noise.mean() > -0.1, "{noise:?}");
    assert_eq!(telling.values.len(), 25);
}

#[test]
fn validation_beside_a_guess_and_beside_noise() {
    let mut random = fastrand::Rng::with_seed(2);
    let source: Vec<f64> = (0..1200).map(|_| f64::from(random.u32(..40))).collect();
    let constant = vec![1.0; 1200];
    let mut labels: Vec<u32> = source.iter().map(|&source| (source / 2.0) as u32).collect();
    // Alone in its class.
    labels[17] = 999;
    let samples = Samples::new(vec![source, constant], &labels).unwrap();
    let options = cross_validation::Options { tree_counts: vec![20, 10, 20], forest: options(0), ..Default::default() };
    let found = cross_validate(&samples, &options).unwrap();
    assert_eq!(found.scores.iter().map(|scores| scores.trees).collect::<Vec<_>>(), [10, 20]);
    for scores in &found.scores {
        assert!((scores.accuracy.mean() - 1199.0 / 1200.0).abs() < 1e-9, "{scores:?}");
        assert_eq!(scores.accuracy.values.len(), 5);
    }
    assert_eq!((found.alone, found.classes), (1, 21));
    assert_eq!(found.gini_importances, [1.0, 0.0]);
    assert_eq!(found.permutation_importances[1].mean(), 0.0);
    assert!((0.03..0.09).contains(&found.baseline.accuracy.mean()), "{:?}", found.baseline);
    assert!((0.2..0.36).contains(&found.baseline.top.mean()), "{:?}", found.baseline);
    assert_eq!(found.shuffled.accuracy.values.len(), 5);
    assert!(found.shuffled.accuracy.greatest() < 0.1, "{:?}", found.shuffled);
    assert!(found.shuffled.top.mean() > found.shuffled.accuracy.mean());
}

#[test]
fn validation_of_what_is_no_data() {
    let validate = |columns, labels: &[u32], tree_counts: &[usize]| {
        let options = cross_validation::Options {
            tree_counts: tree_counts.to_vec(),
            forest: options(0),
            shuffles: 1,
            ..Default::default()
        };
        cross_validate(&Samples::new(columns, labels).unwrap(), &options)
    };
    assert_eq!(validate(vec![], &[], &[2]), Err(Error::Folds { folds: 5, samples: 0 }));
    assert_eq!(validate(vec![], &[1; 9], &[]), Err(Error::NoTrees));
    assert_eq!(validate(vec![], &[1; 9], &[0, 3]), Err(Error::NoTrees));
    let all_alone = validate(vec![vec![NAN; 5]], &[1, 2, 3, 4, 5], &[3]).unwrap();
    assert_eq!((all_alone.alone, all_alone.scores[0].top.mean(), all_alone.baseline.top.mean()), (5, 0.0, 0.0));
    let one_class = validate(vec![vec![f64::INFINITY; 9]], &[8; 9], &[3]).unwrap();
    assert_eq!((one_class.scores[0].accuracy.mean(), one_class.baseline.accuracy.mean()), (1.0, 1.0));
    assert_eq!(one_class.gini_importances, [0.0]);
    assert_eq!(validate(vec![], &[1; 9], &[3]).unwrap().permutation_importances, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Values of any kind, NaN and infinities among them.
    #[test]
    fn votes_are_shares(
        rows in prop::collection::vec((any::<f64>(), prop::sample::select(vec![NAN, 0.0, -0.0, 1.0, f64::INFINITY]), 0..5_u32), 1..60),
        seed: u64,
    ) {
        let columns = vec![rows.iter().map(|row| row.0).collect(), rows.iter().map(|row| row.1).collect()];
        let labels: Vec<u32> = rows.iter().map(|row| row.2).collect();
        let (forest, samples) = forest(columns, &labels, &Options { seed, ..options(15) });
        let mut right = 0;
        for (sample, row) in (0..).zip(&rows) {
            let votes = forest.votes(&[row.0, row.1]);
            prop_assert!((votes.iter().map(|vote| vote.share).sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!(votes.iter().all(|vote| vote.share > 0.0 && labels.contains(&vote.label)));
            prop_assert!(votes.is_sorted_by_key(|vote| (std::cmp::Reverse((vote.share * 1e9).round() as u64), 0)));
            prop_assert_eq!(forest.predict(&[row.0, row.1]), Some(votes[0].label));
            right += u32::from(votes[0].label == samples.label(sample));
        }
        let accuracy = forest.accuracy(&samples, &everyone(&samples), 5, 1);
        prop_assert_eq!(accuracy.first, f64::from(right) / rows.len() as f64);
        prop_assert!(accuracy.top >= accuracy.first);
        let all: f64 = forest.gini_importances().iter().sum();
        prop_assert!(all == 0.0 || (all - 1.0).abs() < 1e-9);
    }
}
