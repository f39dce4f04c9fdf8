//! Growing of a tree: of samples drawn by chance, node by node, until a node is of one class or nothing parts it.

use std::ops::Range;

use crate::forest::Options;
use crate::gini::Sides;
use crate::samples::Samples;
use crate::split::{Drawn, Keys, Parts, Split};
use crate::tree::Tree;

/// Grows one tree after the other, in the same memory.
pub(crate) struct Grower<'a> {
    samples: &'a Samples,
    /// Of which samples trees draw theirs.
    among: &'a [u32],
    options: &'a Options,
    drawn: Vec<Drawn>,
    /// By place in `among`.
    times: Vec<u32>,
    sides: Sides,
    keys: Keys,
    features: Features,
    /// A leaf's classes with their weights.
    classes: Vec<(u32, u32)>,
}

/// A node to be made.
struct Pending {
    drawn: Range<usize>,
    depth: u32,
    /// How many features are known to be constant here.
    constants: usize,
    /// The split whose right child it is.
    right_of: Option<usize>,
}

impl<'a> Grower<'a> {
    pub(crate) fn new(samples: &'a Samples, among: &'a [u32], options: &'a Options) -> Self {
        Self {
            samples,
            among,
            options,
            drawn: Vec::new(),
            times: vec![0; among.len()],
            sides: Sides::new(samples.labels().len()),
            keys: Keys::default(),
            features: Features::new(samples.feature_count(), options.features_per_split),
            classes: Vec::new(),
        }
    }

    pub(crate) fn grow(&mut self, seed: u64) -> Tree {
        let mut random = fastrand::Rng::with_seed(seed);
        self.draw(&mut random);
        self.grow_of_drawn(&mut random)
    }

    fn grow_of_drawn(&mut self, random: &mut fastrand::Rng) -> Tree {
        let weight: f64 = self.drawn.iter().map(|drawn| f64::from(drawn.weight())).sum();
        self.features.reset();
        let mut tree = Tree::new(self.samples.feature_count());
        let mut pending = vec![Pending { drawn: 0..self.drawn.len(), depth: 0, constants: 0, right_of: None }];
        while let Some(node) = pending.pop() {
            if let Some(split) = node.right_of {
                tree.begin_right_of(split);
            }
            let at = tree.node_count();
            let Some((split, gain)) = self.split(&node, random) else {
                self.add_leaf(&node, &mut tree);
                continue;
            };
            tree.importances[split.feature as usize] += gain / weight;
            let column = &self.samples.columns()[split.feature as usize];
            tree.add_split(split.feature, split.threshold(column), split.missing_left);
            let middle = node.drawn.start
                + part(&mut self.drawn[node.drawn.clone()], |drawn| split.is_left(column.ranks[drawn.sample as usize]));
            let (depth, constants) = (node.depth + 1, self.features.constants);
            pending.push(Pending { drawn: middle..node.drawn.end, depth, constants, right_of: Some(at) });
            pending.push(Pending { drawn: node.drawn.start..middle, depth, constants, right_of: None });
        }
        let all: f64 = tree.importances.iter().sum();
        if all > 0.0 {
            tree.importances.iter_mut().for_each(|importance| *importance /= all);
        }
        tree
    }

    /// A bootstrap sample: as many as there are, with repetition (Breiman 1996).
    fn draw(&mut self, random: &mut fastrand::Rng) {
        let many = self.options.samples_per_tree.map_or(self.among.len(), |most| most.min(self.among.len()));
        self.times.fill(0);
        for _ in 0..many {
            self.times[random.usize(..self.among.len())] += 1;
        }
        let classes = self.samples.classes();
        let drawn = self.among.iter().zip(&self.times).filter(|(_, times)| **times > 0);
        self.drawn.clear();
        self.drawn.extend(drawn.map(|(&sample, &times)| Drawn::new(sample, classes[sample as usize], times)));
    }

    /// The best split of a node and what it gains, in units of weight.
    fn split(&mut self, node: &Pending, random: &mut fastrand::Rng) -> Option<(Split, f64)> {
        let drawn = &self.drawn[node.drawn.clone()];
        drawn.iter().for_each(|drawn| self.sides.add(drawn.class(), drawn.weight()));
        let least = self.options.least_per_leaf.max(1);
        let is_deep = self.options.most_depth.is_some_and(|most| node.depth >= most);
        let mut best = None;
        if !is_deep && drawn.len() / 2 >= least && !self.sides.is_of_one_class() {
            let before = self.sides.purity();
            self.features.begin(node.constants);
            while let Some(feature) = self.features.next(random) {
                let column = (feature, &self.samples.columns()[feature as usize]);
                let parts = self.keys.search(column, drawn, least, &mut self.sides, &mut best);
                self.features.was_tried(parts);
            }
            self.features.end();
            if let Some(split) = best {
                drawn.iter().for_each(|drawn| _ = self.sides.take(drawn.class()));
                // Where it gains nothing, rounding may say less.
                return Some((split, (split.purity - before).max(0.0)));
            }
        }
        None
    }

    /// The node's samples lie in `sides`.
    fn add_leaf(&mut self, node: &Pending, tree: &mut Tree) {
        self.classes.clear();
        for drawn in &self.drawn[node.drawn.clone()] {
            let weight = self.sides.take(drawn.class());
            if weight > 0 {
                self.classes.push((drawn.class(), weight));
            }
        }
        self.classes.sort_unstable();
        tree.add_leaf(&self.classes);
    }
}

/// Puts those that go left before the others: how many they are.
fn part(drawn: &mut [Drawn], is_left: impl Fn(&Drawn) -> bool) -> usize {
    let mut left = 0;
    for at in 0..drawn.len() {
        if is_left(&drawn[at]) {
            drawn.swap(left, at);
            left += 1;
        }
    }
    left
}

/// Which features a node tries: √N drawn without repetition, and beyond that until one is not constant.
///
/// A feature that is constant in a node is so below it: it is drawn there, and counts, but is not looked at. As in scikit-learn
/// (`node_split_best`), with which odds are the same. The row of features has five parts:
///
/// ```text
///   known to be constant and drawn │ known, not drawn │ found constant │ not drawn yet │ tried
///                              drawn              known       constants            open
/// ```
#[derive(Debug)]
struct Features {
    row: Vec<u32>,
    /// Of nodes above: the constant ones, in the order in which they were found.
    found: Vec<u32>,
    most: usize,
    visited: usize,
    drawn: usize,
    known: usize,
    constants: usize,
    open: usize,
    /// Where the one lies that is being tried.
    at: usize,
}

impl Features {
    fn new(count: usize, most: Option<usize>) -> Self {
        let most = most.unwrap_or_else(|| count.isqrt()).max(1);
        Self {
            row: Vec::new(),
            found: vec![0; count],
            most,
            visited: 0,
            drawn: 0,
            known: 0,
            constants: 0,
            open: count,
            at: 0,
        }
    }

    /// Before a tree.
    fn reset(&mut self) {
        self.row.clear();
        self.row.extend(0..self.found.len() as u32);
    }

    /// Before a node of which so many are known to be constant.
    fn begin(&mut self, constants: usize) {
        (self.visited, self.drawn, self.open) = (0, 0, self.row.len());
        (self.known, self.constants) = (constants, constants);
    }

    fn next(&mut self, random: &mut fastrand::Rng) -> Option<u32> {
        let found = self.constants - self.known;
        while self.open > self.constants && (self.visited < self.most || self.visited <= found + self.drawn) {
            self.visited += 1;
            let at = random.usize(self.drawn..self.open - found);
            if at < self.known {
                self.row.swap(at, self.drawn);
                self.drawn += 1;
                continue;
            }
            self.at = at + found;
            return Some(self.row[self.at]);
        }
        None
    }

    fn was_tried(&mut self, parts: Parts) {
        match parts {
            Parts::Constant => {
                self.row.swap(self.at, self.constants);
                self.constants += 1;
            }
            Parts::Some => {
                self.open -= 1;
                self.row.swap(self.at, self.open);
            }
        }
    }

    /// After a node: those known before lie as they did, for its siblings; those found follow, for its children.
    fn end(&mut self) {
        self.row[..self.known].copy_from_slice(&self.found[..self.known]);
        self.found[self.known..self.constants].copy_from_slice(&self.row[self.known..self.constants]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree of these samples, each drawn once.
    fn tree_of(columns: Vec<Vec<f64>>, labels: &[u32]) -> Tree {
        let samples = Samples::new(columns, labels).unwrap();
        let (among, options): (Vec<u32>, _) = ((0..labels.len() as u32).collect(), Options::default());
        let mut grower = Grower::new(&samples, &among, &options);
        grower.drawn = among.iter().map(|&sample| Drawn::new(sample, samples.classes()[sample as usize], 1)).collect();
        grower.grow_of_drawn(&mut fastrand::Rng::with_seed(1))
    }

    /// Impurity of the root is 1 − (9 + 4 + 1)/36 = 22/36. Cut at 3.5 it is 0 and 4/9: half of the samples each. Cut at 5.5 these are pure.
    #[test]
    fn a_tiny_tree_by_hand() {
        let tree = tree_of(vec![vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], &[0, 0, 0, 1, 1, 2]);
        let mut expected = Tree::new(1);
        expected.add_split(0, 3.5, false);
        expected.add_leaf(&[(0, 3)]);
        expected.begin_right_of(0);
        expected.add_split(0, 5.5, true);
        expected.add_leaf(&[(1, 2)]);
        expected.begin_right_of(2);
        expected.add_leaf(&[(2, 1)]);
        expected.importances = vec![1.0];
        assert_eq!(tree, expected);
    }

    /// The second feature parts what the first one can't. Of one feature a split: both are tried only where one is constant.
    #[test]
    fn importances_by_hand() {
        let first = vec![0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        let tree = tree_of(vec![first.clone(), vec![5.0; 8]], &[0, 0, 0, 0, 1, 1, 1, 2]);
        // Uncut (16 + 9 + 1)/8; cut 16/4 + (9 + 1)/4. The rest has no cut.
        assert_eq!(tree.importances, [1.0, 0.0]);
        let tree = tree_of(vec![first.clone(), first], &[0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(tree.importances.iter().sum::<f64>(), 1.0);
        assert_eq!(tree.node_count(), 3);
    }

    #[test]
    fn a_node_tries_the_root_of_the_number_and_goes_past_constants() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut features = Features::new(16, None);
        features.reset();
        features.begin(0);
        let mut tried = Vec::new();
        while let Some(feature) = features.next(&mut random) {
            tried.push(feature);
            features.was_tried(Parts::Some);
        }
        features.end();
        tried.sort_unstable();
        tried.dedup();
        assert_eq!(tried.len(), 4);

        // Only one parts anything: it is found in the end, and below no other is looked at.
        features.begin(0);
        let mut count = 0;
        let mut is_found = false;
        while let Some(feature) = features.next(&mut random) {
            count += 1;
            is_found |= feature == 7;
            features.was_tried(if feature == 7 { Parts::Some } else { Parts::Constant });
        }
        features.end();
        assert!(is_found);
        assert_eq!(features.constants, count - 1);
        for _ in 0..20 {
            let known = features.constants;
            features.begin(known);
            while let Some(feature) = features.next(&mut random) {
                assert!(!features.found[..known].contains(&feature));
                features.was_tried(if feature == 7 { Parts::Some } else { Parts::Constant });
            }
            features.end();
        }
        features.begin(features.constants);
        let mut all = features.row.clone();
        all.sort_unstable();
        assert_eq!(all, (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn parted_samples_are_the_same() {
        let mut drawn: Vec<Drawn> = (0..10).map(|sample| Drawn::new(sample, 0, 1)).collect();
        assert_eq!(part(&mut drawn, |drawn| drawn.sample % 3 == 0), 4);
        let mut left: Vec<u32> = drawn[..4].iter().map(|drawn| drawn.sample).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 3, 6, 9]);
    }
}
