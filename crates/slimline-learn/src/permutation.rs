//! Permutation importance: what accuracy loses where a feature's values are shuffled among samples (Breiman 2001, section 10), here of
//! samples that were held out.
//!
//! Unlike Gini importance it is about 0 of a feature that tells nothing, however many values that has. Of two features that tell the same
//! each may have little, as the other is still there.

use crate::forest::Forest;
use crate::samples::Samples;
use crate::spread::Spread;
use crate::tally::{Hits, Replaced, Tally};

/// By feature: the drops in categorical accuracy, one a repeat. A drop is −1 to 1; of no samples it is 0.
///
/// `held_out` are samples that the forest did not learn from. Time: features · repeats times that of voting on these; memory: outcomes of
/// 256 samples at a time, 4 bytes a tree each, in each thread.
///
/// # Panics
/// As [`Forest::accuracy`].
pub fn permutation_importances(
    forest: &Forest,
    samples: &Samples,
    held_out: &[u32],
    repeats: usize,
    seed: u64,
    threads: usize,
) -> Vec<Spread> {
    of_first_trees((forest, forest.tree_count()), samples, held_out, repeats, seed, threads)
}

/// The same of a forest's first trees.
pub(crate) fn of_first_trees(
    (forest, trees): (&Forest, usize),
    samples: &Samples,
    held_out: &[u32],
    repeats: usize,
    seed: u64,
    threads: usize,
) -> Vec<Spread> {
    let tally = Tally { forest, samples, tree_counts: &[trees], top: 1 };
    let share = |hits: &[Hits]| hits[0].first as f64 / held_out.len().max(1) as f64;
    let before = share(&tally.hits(held_out, None, threads));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut by = held_out.to_vec();
    let mut drop = |feature| {
        random.shuffle(&mut by);
        before - share(&tally.hits(held_out, Some(Replaced { feature, by: &by }), threads))
    };
    (0..samples.feature_count())
        .map(|feature| Spread { values: (0..repeats).map(|_| drop(feature)).collect() })
        .collect()
}
