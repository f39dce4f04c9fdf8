//! A tree as it is walked.

/// Of `Node::feature`: a leaf.
const LEAF: u32 = u32::MAX;
/// Of a leaf's outcome: it has several classes, or none.
const MIXED: u32 = 1 << 31;

/// 16 bytes. The node that follows a split is its left child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Node {
    /// Of a split: values up to it go left.
    threshold: f64,
    /// The feature, and in the lowest bit whether missing values go left. Or [`LEAF`].
    feature: u32,
    /// The right child, or the leaf's outcome: its class, or with [`MIXED`] the number of its list of classes.
    right: u32,
}

const _: () = assert!(size_of::<Node>() == 16);

/// Nodes in the order of a walk that goes left first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// Where the classes of each mixed leaf end in `shares`.
    ends: Vec<u32>,
    /// Classes of mixed leaves, with the weight of each.
    shares: Vec<(u32, u32)>,
    /// By feature: how much impurity its splits took from the tree; 1 in all, or all 0.
    pub(crate) importances: Vec<f64>,
}

/// Where a walk ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome(u32);

impl Tree {
    /// Without nodes, and without importance of any feature.
    pub(crate) fn new(features: usize) -> Self {
        Self { importances: vec![0.0; features], ..Self::default() }
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn add_split(&mut self, feature: u32, threshold: f64, missing_left: bool) {
        self.nodes.push(Node { threshold, feature: feature << 1 | u32::from(missing_left), right: 0 });
    }

    /// The next node is the right child of a split.
    pub(crate) fn begin_right_of(&mut self, split: usize) {
        self.nodes[split].right = self.nodes.len() as u32;
    }

    /// Adds a leaf of such classes with a weight each.
    pub(crate) fn add_leaf(&mut self, classes: &[(u32, u32)]) {
        let right = if let &[(class, _)] = classes {
            class
        } else {
            self.shares.extend(classes);
            self.ends.push(self.shares.len() as u32);
            (self.ends.len() - 1) as u32 | MIXED
        };
        self.nodes.push(Node { threshold: 0.0, feature: LEAF, right });
    }

    /// Where a sample with these values comes to.
    #[inline]
    pub(crate) fn walk(&self, values: &[f64]) -> Outcome {
        let mut at = 0;
        loop {
            let node = &self.nodes[at];
            if node.feature == LEAF {
                return Outcome(node.right);
            }
            let value = values[(node.feature >> 1) as usize];
            let is_left = value <= node.threshold || (node.feature & 1 == 1 && value.is_nan());
            at = if is_left { at + 1 } else { node.right as usize };
        }
    }

    /// Gives a leaf's classes and the share of each; they are 1 together, unless the tree saw no sample.
    #[inline]
    pub(crate) fn shares(&self, outcome: Outcome, mut give: impl FnMut(u32, f64)) {
        let Outcome(outcome) = outcome;
        if outcome & MIXED == 0 {
            return give(outcome, 1.0);
        }
        let list = (outcome & !MIXED) as usize;
        let begin = if list == 0 { 0 } else { self.ends[list - 1] as usize };
        let classes = &self.shares[begin..self.ends[list] as usize];
        let all: u64 = classes.iter().map(|&(_, weight)| u64::from(weight)).sum();
        classes.iter().for_each(|&(class, weight)| give(class, f64::from(weight) / all as f64));
    }
}
