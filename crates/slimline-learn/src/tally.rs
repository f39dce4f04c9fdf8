//! Votes over many samples: how often the right class has most of them, or is among the first.

use std::ops::AddAssign;

use crate::forest::Forest;
use crate::samples::Samples;
use crate::tree::{Outcome, Tree};

/// Samples that go through a tree one after the other, while it lies in the cache.
const BLOCK: usize = 256;

/// The votes for one sample.
#[derive(Debug)]
pub(crate) struct Ballot {
    /// By class.
    votes: Vec<f64>,
    /// Classes with votes.
    voted: Vec<u32>,
}

impl Ballot {
    pub(crate) fn new(classes: usize) -> Self {
        Self { votes: vec![0.0; classes], voted: Vec::new() }
    }

    /// Adds what a tree votes for.
    pub(crate) fn add(&mut self, tree: &Tree, outcome: Outcome) {
        tree.shares(outcome, |class, share| {
            let votes = &mut self.votes[class as usize];
            if *votes == 0.0 {
                self.voted.push(class);
            }
            *votes += share;
        });
    }

    /// Classes with votes, and how many.
    pub(crate) fn votes(&self) -> impl Iterator<Item = (u32, f64)> {
        self.voted.iter().map(|&class| (class, self.votes[class as usize]))
    }

    /// How many classes come before this one: those of more votes, and of as many those of smaller labels. `None` if it has no vote.
    fn before(&self, class: u32) -> Option<usize> {
        let own = self.votes[class as usize];
        let is_before = |&(other, votes): &(u32, f64)| votes > own || (votes == own && other < class);
        (own > 0.0).then(|| self.votes().filter(is_before).count())
    }

    fn clear(&mut self) {
        self.voted.drain(..).for_each(|class| self.votes[class as usize] = 0.0);
    }
}

/// How many samples were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    /// Their class came first.
    pub(crate) first: u64,
    /// It came among the first few.
    pub(crate) top: u64,
}

impl AddAssign for Hits {
    fn add_assign(&mut self, other: Self) {
        self.first += other.first;
        self.top += other.top;
    }
}

/// What a forest is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally<'a> {
    pub(crate) forest: &'a Forest,
    pub(crate) samples: &'a Samples,
    /// After how many of its trees, ascending.
    pub(crate) tree_counts: &'a [usize],
    /// How many classes are the first few.
    pub(crate) top: usize,
}

/// Of one feature the values of other samples, as many as are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced<'a> {
    pub(crate) feature: usize,
    pub(crate) by: &'a [u32],
}

impl Tally<'_> {
    /// By number of trees: how many of the samples `who` are right.
    pub(crate) fn hits(&self, who: &[u32], replaced: Option<Replaced<'_>>, threads: usize) -> Vec<Hits> {
        let each = who.len().div_ceil(threads.max(1)).max(1);
        let part = |at: usize| {
            let range = at * each..((at + 1) * each).min(who.len());
            let replaced = replaced.map(|Replaced { feature, by }| Replaced { feature, by: &by[range.clone()] });
            self.hits_of(&who[range], replaced)
        };
        let parts = who.len().div_ceil(each);
        if parts < 2 {
            return (0..parts).map(part).next().unwrap_or_else(|| vec![Hits::default(); self.tree_counts.len()]);
        }
        let mut sum = vec![Hits::default(); self.tree_counts.len()];
        std::thread::scope(|scope| {
            let part = &part;
            let tallying: Vec<_> = (0..parts).map(|at| scope.spawn(move || part(at))).collect();
            for tallied in tallying {
                let hits = tallied.join().expect("tallying does not panic");
                sum.iter_mut().zip(hits).for_each(|(sum, hits)| *sum += hits);
            }
        });
        sum
    }

    fn hits_of(&self, who: &[u32], replaced: Option<Replaced<'_>>) -> Vec<Hits> {
        let features = self.samples.feature_count();
        assert_eq!(features, self.forest.feature_count(), "as many features as the forest has");
        let trees = &self.forest.trees()[..self.tree_counts.last().copied().unwrap_or(0)];
        let mut hits = vec![Hits::default(); self.tree_counts.len()];
        let mut ballot = Ballot::new(self.forest.labels().len());
        let mut values = vec![0.0; BLOCK * features];
        let mut outcomes = vec![Outcome::default(); BLOCK * trees.len()];
        for (block, who) in who.chunks(BLOCK).enumerate() {
            for feature in 0..features {
                let from = match replaced {
                    Some(replaced) if replaced.feature == feature => &replaced.by[block * BLOCK..][..who.len()],
                    _ => who,
                };
                for (at, &sample) in from.iter().enumerate() {
                    values[at * features + feature] = self.samples.value(sample, feature);
                }
            }
            for (number, tree) in trees.iter().enumerate() {
                for at in 0..who.len() {
                    outcomes[at * trees.len() + number] = tree.walk(&values[at * features..(at + 1) * features]);
                }
            }
            for (at, &sample) in who.iter().enumerate() {
                // A forest may be of other samples, and not know the label.
                let class = self.forest.labels().binary_search(&self.samples.label(sample)).ok();
                let outcomes = &outcomes[at * trees.len()..(at + 1) * trees.len()];
                let mut from = 0;
                for (hits, &to) in hits.iter_mut().zip(self.tree_counts) {
                    for number in from..to {
                        ballot.add(&trees[number], outcomes[number]);
                    }
                    from = to;
                    let before = class.and_then(|class| ballot.before(class as u32));
                    hits.first += u64::from(before == Some(0));
                    hits.top += u64::from(before.is_some_and(|before| before < self.top));
                }
                ballot.clear();
            }
        }
        hits
    }
}
