//! Access graphs: a node is an object, and an edge's weight is how often its two were accessed close to each other.
//!
//! Two accesses are close if fewer than a number of accesses by the same thread, the *window*, lie from the one to the other: with a window
//! of 2 they follow each other. Each such pair counts once; pairs of one and the same object don't count.
//!
//! ```text
//!   A B C A D B B C, window 2:   A–B 1   B–C 2   A–C 1   A–D 1   B–D 1
//! ```
//!
//! Pairs are kept as they come, and now and then sorted and added to the edges: 8 bytes for each pair that waits, 16 for each edge. As
//! many may wait as there are edges, so that all of it takes time in proportion to the accesses, but for sorting, and memory to the edges. Most
//! is needed when the graph is made of them, whose edges take 24 bytes: 40 for each edge, and 8 for each object.

use std::borrow::Cow;
use std::collections::VecDeque;

/// Pairs that wait at least until they are added: few are sorted in a cache.
const LEAST_WAITING: usize = 1 << 16;

/// Counts pairs of accesses.
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    window: usize,
    /// By thread: its last accesses, the newest last.
    last: Vec<VecDeque<u32>>,
    nodes: u32,
    /// Pairs, the smaller number in the upper half.
    waiting: Vec<u64>,
    /// Ascending, with how often each occurred.
    edges: Vec<(u64, u64)>,
}

impl GraphBuilder {
    /// Nothing was accessed yet. A `window` below 2 has no pairs.
    pub fn new(window: usize) -> Self {
        Self { window, last: Vec::new(), nodes: 0, waiting: Vec::new(), edges: Vec::new() }
    }

    /// The same of a graph that has at least so many nodes, accessed or not.
    pub fn with_nodes(window: usize, nodes: u32) -> Self {
        Self { nodes, ..Self::new(window) }
    }

    /// An access by a thread, from 0, to an object, from 0.
    #[inline]
    pub fn access(&mut self, thread: u32, object: u32) {
        if thread as usize >= self.last.len() {
            self.last.resize(thread as usize + 1, VecDeque::new());
        }
        self.nodes = self.nodes.max(object + 1);
        let last = &mut self.last[thread as usize];
        for &before in last.iter().filter(|&&before| before != object) {
            let (low, high) = (before.min(object), before.max(object));
            self.waiting.push(u64::from(low) << 32 | u64::from(high));
        }
        if last.len() + 1 >= self.window {
            last.pop_front();
        }
        if self.window > 1 {
            last.push_back(object);
        }
        if self.waiting.len() >= LEAST_WAITING.max(self.edges.len()) {
            self.add_waiting();
        }
    }

    /// Adds them in place: first what is an edge already, then what is left, from the end.
    fn add_waiting(&mut self) {
        self.waiting.sort_unstable();
        let (mut known, mut new) = (0, 0);
        let (mut at, mut kept) = (0, 0);
        while at < self.waiting.len() {
            let pair = self.waiting[at];
            let count = self.waiting[at..].iter().take_while(|other| **other == pair).count();
            known += self.edges[known..].iter().take_while(|edge| edge.0 < pair).count();
            match self.edges.get_mut(known).filter(|edge| edge.0 == pair) {
                Some(edge) => edge.1 += count as u64,
                None => {
                    self.waiting.copy_within(at..at + count, kept);
                    kept += count;
                    new += 1;
                }
            }
            at += count;
        }
        self.waiting.truncate(kept);
        let mut old = self.edges.len();
        self.edges.reserve_exact(new);
        self.edges.resize(old + new, (0, 0));
        let mut free = self.edges.len();
        while let Some(&pair) = self.waiting.last() {
            free -= 1;
            if old > 0 && self.edges[old - 1].0 > pair {
                old -= 1;
                self.edges[free] = self.edges[old];
            } else {
                let count = self.waiting.iter().rev().take_while(|other| **other == pair).count();
                self.waiting.truncate(self.waiting.len() - count);
                self.edges[free] = (pair, count as u64);
            }
        }
    }

    /// The graph of all that was accessed.
    pub fn finish(mut self) -> Graph {
        self.add_waiting();
        self.waiting = Vec::new();
        let ends = |&(pair, weight): &(u64, u64)| ((pair >> 32) as u32, pair as u32, weight);
        Graph::new(self.nodes, self.edges.iter().map(ends))
    }
}

/// An undirected graph with weights and without loops: the neighbours of each node, one node's behind the other's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Where each node's neighbours begin, and where the last one's end.
    begins: Vec<usize>,
    neighbours: Vec<u32>,
    /// Of the edge to each of them.
    weights: Vec<u64>,
}

impl Graph {
    /// Of so many nodes, and edges between two different ones each, every two at most once.
    ///
    /// # Panics
    /// If an edge names a node that there is not.
    pub fn new(nodes: u32, edges: impl Iterator<Item = (u32, u32, u64)> + Clone) -> Self {
        // Where each one's begin, but one further on: there it is counted up to where the next one's do.
        let mut begins = vec![0; nodes as usize + 2];
        for (a, b, _) in edges.clone() {
            begins[a as usize + 2] += 1;
            begins[b as usize + 2] += 1;
        }
        for node in 2..begins.len() {
            begins[node] += begins[node - 1];
        }
        let ends = begins[nodes as usize + 1];
        let (mut neighbours, mut weights) = (vec![0; ends], vec![0; ends]);
        for (a, b, weight) in edges {
            for (node, other) in [(a, b), (b, a)] {
                let next = &mut begins[node as usize + 1];
                (neighbours[*next], weights[*next]) = (other, weight);
                *next += 1;
            }
        }
        begins.pop();
        Self { begins, neighbours, weights }
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> u32 {
        (self.begins.len() - 1) as u32
    }

    /// How many edges it has.
    pub fn edge_count(&self) -> usize {
        self.neighbours.len() / 2
    }

    /// A node's neighbours, each with the weight of the edge.
    pub fn neighbours(&self, node: u32) -> impl Iterator<Item = (u32, u64)> + Clone {
        let own = self.begins[node as usize]..self.begins[node as usize + 1];
        self.neighbours[own.clone()].iter().copied().zip(self.weights[own].iter().copied())
    }

    /// Each edge once: its two nodes, the smaller first, and its weight.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32, u64)> + Clone {
        (0..self.nodes()).flat_map(|node| {
            let later = self.neighbours(node).filter(move |(other, _)| *other > node);
            later.map(move |(other, weight)| (node, other, weight))
        })
    }

    /// The sum of the weights of all edges.
    pub fn weight(&self) -> u64 {
        self.edges().map(|(.., weight)| weight).sum()
    }

    /// The sum of the weights of a node's edges.
    pub fn degree(&self, node: u32) -> u64 {
        self.neighbours(node).map(|(_, weight)| weight).sum()
    }

    /// The part of it that has these nodes, ascending, numbered in their order.
    pub fn part(&self, nodes: &[u32]) -> Cow<'_, Self> {
        if nodes.len() == self.nodes() as usize {
            return Cow::Borrowed(self);
        }
        debug_assert!(nodes.is_sorted(), "nodes of a part ascend");
        let mut part = Self::new(0, std::iter::empty());
        for &node in nodes {
            for (other, weight) in self.neighbours(node) {
                if let Ok(place) = nodes.binary_search(&other) {
                    part.neighbours.push(place as u32);
                    part.weights.push(weight);
                }
            }
            part.begins.push(part.neighbours.len());
        }
        Cow::Owned(part)
    }

    /// The graph of its communities, of each node the number of its own: what is within them is left out.
    pub fn between(&self, communities: &[u32]) -> Self {
        let count = communities.iter().map(|&community| community as usize + 1).max().unwrap_or(0);
        let mut members: Vec<u32> = (0..self.nodes()).collect();
        members.sort_by_key(|&node| communities[node as usize]);
        let mut between = Self::new(count as u32, std::iter::empty());
        // To each other community, and which there are.
        let (mut weights, mut near) = (vec![0_u64; count], Vec::new());
        for members in members.chunk_by(|&a, &b| communities[a as usize] == communities[b as usize]) {
            let own = communities[members[0] as usize];
            for (other, weight) in members.iter().flat_map(|&member| self.neighbours(member)) {
                let other = communities[other as usize];
                if other != own {
                    if weights[other as usize] == 0 {
                        near.push(other);
                    }
                    weights[other as usize] += weight;
                }
            }
            near.sort_unstable();
            between.begins[own as usize + 1] = near.len();
            for other in near.drain(..) {
                between.neighbours.push(other);
                between.weights.push(std::mem::take(&mut weights[other as usize]));
            }
        }
        for community in 0..count {
            between.begins[community + 1] += between.begins[community];
        }
        between
    }

    /// Its connected parts, each by its nodes in ascending order; that of the smallest node first.
    pub fn components(&self) -> Vec<Vec<u32>> {
        let mut is_seen = vec![false; self.nodes() as usize];
        let mut components = Vec::new();
        for start in 0..self.nodes() {
            if std::mem::replace(&mut is_seen[start as usize], true) {
                continue;
            }
            let (mut found, mut next) = (vec![start], 0);
            while let Some(&node) = found.get(next) {
                next += 1;
                for (other, _) in self.neighbours(node) {
                    if !std::mem::replace(&mut is_seen[other as usize], true) {
                        found.push(other);
                    }
                }
            }
            found.sort_unstable();
            components.push(found);
        }
        components
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn of_trace(window: usize, trace: &[u32]) -> Graph {
        let mut builder = GraphBuilder::new(window);
        trace.iter().for_each(|&object| builder.access(0, object));
        builder.finish()
    }

    #[test]
    fn the_known_answer() {
        // A B C A D B B C
        let graph = of_trace(2, &[0, 1, 2, 0, 3, 1, 1, 2]);
        let edges: Vec<_> = graph.edges().collect();
        assert_eq!(edges, [(0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 2, 2), (1, 3, 1)]);
        assert_eq!((graph.nodes(), graph.edge_count(), graph.degree(1)), (4, 5, 4));
    }

    #[test]
    fn threads_have_windows_of_their_own() {
        let mut builder = GraphBuilder::new(2);
        for (thread, object) in [(0, 0), (1, 1), (0, 2), (1, 3)] {
            builder.access(thread, object);
        }
        assert_eq!(builder.finish().edges().collect::<Vec<_>>(), [(0, 2, 1), (1, 3, 1)]);
    }

    #[test]
    fn parts_and_components() {
        let graph = Graph::new(6, [(0, 3, 1), (1, 2, 5), (3, 5, 2)].into_iter());
        assert_eq!(graph.components(), [vec![0, 3, 5], vec![1, 2], vec![4]]);
        let part = graph.part(&[1, 3, 5]);
        assert_eq!((part.nodes(), part.edges().collect::<Vec<_>>()), (3, vec![(1, 2, 2)]));
        let between = graph.between(&[0, 0, 1, 2, 2, 1]);
        assert_eq!((between.nodes(), between.edges().collect::<Vec<_>>()), (3, vec![(0, 1, 5), (0, 2, 1), (1, 2, 2)]));
    }

    /// Every pair of accesses, one by one.
    fn brute_force(window: usize, trace: &[u32]) -> BTreeMap<(u32, u32), u64> {
        let mut edges = BTreeMap::new();
        for (at, &a) in trace.iter().enumerate() {
            for &b in trace[at + 1..].iter().take(window.saturating_sub(1)).filter(|&&b| b != a) {
                *edges.entry((a.min(b), a.max(b))).or_default() += 1;
            }
        }
        edges
    }

    proptest! {
        #[test]
        fn counts_are_those_of_all_pairs(window in 0..6_usize, trace in prop::collection::vec(0..9_u32, 0..80)) {
            let graph = of_trace(window, &trace);
            let edges: BTreeMap<_, _> = graph.edges().map(|(a, b, weight)| ((a, b), weight)).collect();
            prop_assert_eq!(edges, brute_force(window, &trace));
        }

        #[test]
        fn what_is_added_in_between_is_the_same(seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let trace: Vec<u32> = (0..3 * LEAST_WAITING).map(|_| random.u32(0..40)).collect();
            let graph = of_trace(2, &trace);
            let all: u64 = graph.edges().map(|(.., weight)| weight).sum();
            prop_assert_eq!(all, trace.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64);
        }
    }
}
