//! Orders of objects in memory, and what they cost.
//!
//! The *hierarchical* order has communities side by side at each level, the coarsest first, and within the finest ones objects in the order
//! of their Fiedler vector (Miucin 2018, 3.3: by I_n, …, I_1, I_SS). There communities are in the order of their numbers, which say
//! little; here those of one parent are sequenced as objects are, by the graph between them. An order's cost is that of a
//! linear arrangement: the sum of each edge's weight times the distance of its two objects in the row.

use std::borrow::Cow;

use crate::fiedler::Fiedler;
use crate::graph::Graph;
use crate::louvain::levels;

/// The hierarchical order of a graph's nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hierarchical {
    /// All nodes, as they lie one behind the other.
    pub order: Vec<u32>,
    /// Of each level, the finest first: by node the number of its community.
    pub levels: Vec<Vec<u32>>,
    /// Groups of siblings whose Fiedler vector is not as exact as it should be: their order is nearly as good.
    pub inexact: u64,
}

/// Edges that all Fiedler vectors of a level may go along, in all steps: about a minute, but for the least steps of larger graphs.
const MOST_EDGES: usize = 1 << 33;
/// Steps of each: fewer would leave any group where it began; more none needs.
const STEPS: std::ops::RangeInclusive<usize> = 30..=20_000;

impl Hierarchical {
    /// What is drawn is drawn by the seed.
    pub fn of(graph: &Graph, seed: u64) -> Self {
        let most_steps = MOST_EDGES / (2 * graph.edge_count() + graph.nodes() as usize).max(1);
        let most_steps = most_steps.clamp(*STEPS.start(), *STEPS.end()) as u32;
        let levels = levels(graph, seed);
        let mut found = Self { order: (0..graph.nodes()).collect(), levels: Vec::new(), inexact: 0 };
        // From the objects up: by places among those of one parent, then by those of the parents, each time leaving equal ones in their
        // order.
        let mut part = Cow::Borrowed(graph);
        for (number, level) in levels.iter().map(Some).chain([None]).enumerate() {
            let before = number.checked_sub(1).map(|before| levels[before].as_slice());
            let own = |node: usize| before.map_or(node as u32, |before| before[node]);
            let mut parents = vec![0; part.nodes() as usize];
            if let Some(level) = level {
                level.iter().enumerate().for_each(|(node, &parent)| parents[own(node) as usize] = parent);
            }
            let places = found.among_siblings(&part, &parents, most_steps);
            found.order.sort_by_key(|&node| places[own(node as usize) as usize]);
            if level.is_some() {
                part = Cow::Owned(part.between(&parents));
            }
        }
        found.levels = levels;
        found
    }

    /// Each node's place in the sequence of those that have its parent.
    fn among_siblings(&mut self, graph: &Graph, parents: &[u32], most_steps: u32) -> Vec<u32> {
        let mut nodes: Vec<u32> = (0..graph.nodes()).collect();
        nodes.sort_by_key(|&node| parents[node as usize]);
        let mut places = vec![0; nodes.len()];
        for siblings in nodes.chunk_by(|&a, &b| parents[a as usize] == parents[b as usize]) {
            let (sequence, inexact) = in_sequence(&graph.part(siblings), most_steps);
            self.inexact += inexact;
            for (place, at) in (0..).zip(sequence) {
                places[siblings[at as usize] as usize] = place;
            }
        }
        places
    }
}

/// Spectral sequencing: nodes by their Fiedler vector, of one connected part after the other. And of how many parts the vector is not
/// exact. Of both directions it is the one that begins with the smaller node.
fn in_sequence(graph: &Graph, most_steps: u32) -> (Vec<u32>, u64) {
    let (mut sequence, mut inexact) = (Vec::new(), 0);
    for component in graph.components() {
        if component.len() < 3 {
            sequence.extend(component);
            continue;
        }
        let found = Fiedler::of(&graph.part(&component), most_steps);
        inexact += u64::from(!found.has_converged());
        let mut places: Vec<usize> = (0..component.len()).collect();
        places.sort_by(|&a, &b| found.vector[a].total_cmp(&found.vector[b]).then(a.cmp(&b)));
        if places.first() > places.last() {
            places.reverse();
        }
        sequence.extend(places.into_iter().map(|place| component[place]));
    }
    (sequence, inexact)
}

/// Nodes as a search from each part's first node meets them, breadth first, heavier edges first. All are among `starts`, whose order says
/// which are first.
pub fn breadth_first(graph: &Graph, starts: &[u32]) -> Vec<u32> {
    let mut is_seen = vec![false; graph.nodes() as usize];
    let mut order = Vec::with_capacity(is_seen.len());
    let mut others = Vec::new();
    for &start in starts {
        if std::mem::replace(&mut is_seen[start as usize], true) {
            continue;
        }
        let mut next = order.len();
        order.push(start);
        while let Some(&node) = order.get(next) {
            next += 1;
            others.extend(graph.neighbours(node));
            others.sort_unstable_by_key(|&(other, weight)| (std::cmp::Reverse(weight), other));
            for (other, _) in others.drain(..) {
                if !std::mem::replace(&mut is_seen[other as usize], true) {
                    order.push(other);
                }
            }
        }
    }
    order
}

/// Nodes in an order by chance.
pub fn random(nodes: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..nodes).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    order
}

/// The cost of an order's arrangement: Σ w · |φ(u) − φ(v)|, φ a node's place in the order.
///
/// # Panics
/// If the order lacks a node.
pub fn arrangement_cost(graph: &Graph, order: &[u32]) -> u128 {
    let mut places = vec![0_u32; order.len()];
    for (place, &node) in (0..).zip(order) {
        places[node as usize] = place;
    }
    let cost = |(a, b, weight): (u32, u32, u64)| {
        u128::from(weight) * u128::from(places[a as usize].abs_diff(places[b as usize]))
    };
    graph.edges().map(cost).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A path whose nodes have numbers by chance.
    fn mixed_path(nodes: u32, seed: u64) -> (Graph, Vec<u32>) {
        let names = random(nodes, seed);
        (Graph::new(nodes, names.windows(2).map(|pair| (pair[0], pair[1], 1)).collect::<Vec<_>>().into_iter()), names)
    }

    #[test]
    fn a_path_is_sequenced_as_it_is() {
        let (graph, mut names) = mixed_path(60, 5);
        if names[0] > names[59] {
            names.reverse();
        }
        assert_eq!(in_sequence(&graph, 1000), (names.clone(), 0));
        assert_eq!(arrangement_cost(&graph, &names), 59);
    }

    /// Two rings of eight, each node of both in turn, and one edge between them.
    #[test]
    fn communities_lie_side_by_side() {
        let ring = |first: u32| (0..8).map(move |at| (first + 2 * at, first + 2 * ((at + 1) % 8), 10));
        let graph = Graph::new(16, ring(0).chain(ring(1)).chain([(0, 1, 1)]).collect::<Vec<_>>().into_iter());
        let found = Hierarchical::of(&graph, 7);
        let is_even = |node: &u32| node.is_multiple_of(2);
        assert!(found.order[..8].iter().all(is_even) || found.order[8..].iter().all(is_even), "{:?}", found.order);
        assert_eq!(found.inexact, 0);
        let original: Vec<u32> = (0..16).collect();
        assert!(arrangement_cost(&graph, &found.order) < arrangement_cost(&graph, &original));
        assert!(arrangement_cost(&graph, &found.order) < arrangement_cost(&graph, &random(16, 1)));
    }

    #[test]
    fn a_search_takes_heavy_edges_first() {
        let graph = Graph::new(5, [(0, 1, 1), (0, 2, 9), (2, 4, 1)].into_iter());
        assert_eq!(breadth_first(&graph, &[0, 1, 2, 3, 4]), [0, 2, 1, 4, 3]);
        assert_eq!(breadth_first(&graph, &[3, 4, 0, 1, 2]), [3, 4, 2, 0, 1]);
    }

    proptest! {
        #[test]
        fn each_order_has_each_node_once(
            edges in prop::collection::btree_map((0..30_u32, 0..30_u32), 1..9_u64, 0..80),
            seed: u64,
        ) {
            let edges: Vec<_> = edges.into_iter().filter(|((a, b), _)| a < b).map(|((a, b), weight)| (a, b, weight)).collect();
            let graph = Graph::new(30, edges.clone().into_iter());
            for order in [Hierarchical::of(&graph, seed).order, breadth_first(&graph, &(0..30).collect::<Vec<_>>()), random(30, seed)] {
                let by_hand: u128 = edges.iter().map(|&(a, b, weight)| {
                    let place = |node| order.iter().position(|other| *other == node).unwrap();
                    u128::from(weight) * place(a).abs_diff(place(b)) as u128
                }).sum();
                prop_assert_eq!(arrangement_cost(&graph, &order), by_hand);
                let mut sorted = order;
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..30).collect::<Vec<_>>());
            }
        }
    }
}
