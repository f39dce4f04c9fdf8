//! Communities: nodes with more weight between them than their degrees let expect.
//!
//! Louvain's method (Blondel et al., J. Stat. Mech. 2008): each node moves to that of its neighbours' communities where modularity
//! (Newman 2004) gains most, until none does. Who stayed is looked at again when a neighbour has moved elsewhere (Ozaki et al. 2016;
//! Traag et al. 2019), and all of them once nobody is left to look at, as long as that is worth it: rounds are few. Communities are the nodes of the next
//! level's graph, and so on, until nothing moves. Gains are compared in integers, so the same moves are made everywhere.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::graph::Graph;

/// What a round must add to modularity that another one follows. A node with most of the graph's weight, as an array of pointers to all
/// others has, can wander for ever from community to community and gain next to nothing by each move.
const WORTH_A_ROUND: f64 = 1e-6;

/// Levels of communities, the finest first: of each node the number of its community, from 0. Numbers are in the order of each
/// community's smallest node. There is none where no two nodes belong together.
pub fn levels(graph: &Graph, seed: u64) -> Vec<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut level = Level::of(graph);
    let mut levels: Vec<Vec<u32>> = Vec::new();
    loop {
        let communities = level.move_nodes(&mut random);
        if is_each_its_own(&communities) {
            return levels;
        }
        let of_all = match levels.last() {
            Some(before) => before.iter().map(|&node| communities[node as usize]).collect(),
            None => communities.clone(),
        };
        levels.push(of_all);
        level = level.of_communities(&communities);
    }
}

/// How much more of the weight is within communities than their degrees let expect: −½ to 1; 0 of a graph without edges.
///
/// Σ over communities of (weight within) / m − (sum of degrees / 2m)², m the weight of all edges (Newman 2004, eq. 7).
pub fn modularity(graph: &Graph, communities: &[u32]) -> f64 {
    let count = communities.iter().map(|&community| community as usize + 1).max().unwrap_or(0);
    let (mut within, mut degrees) = (vec![0_u64; count], vec![0_u64; count]);
    let mut all = 0_u64;
    for (a, b, weight) in graph.edges() {
        let (of_a, of_b) = (communities[a as usize] as usize, communities[b as usize] as usize);
        all += weight;
        degrees[of_a] += weight;
        degrees[of_b] += weight;
        within[of_a] += if of_a == of_b { weight } else { 0 };
    }
    let all = all as f64;
    let of = |(&within, &degrees): (&u64, &u64)| within as f64 / all - (degrees as f64 / (2.0 * all)).powi(2);
    if all == 0.0 { 0.0 } else { within.iter().zip(&degrees).map(of).sum() }
}

fn is_each_its_own(communities: &[u32]) -> bool {
    communities.iter().zip(0..).all(|(&community, node)| community == node)
}

/// A graph of communities: what is within them is no edge of it, but a part of their degrees.
struct Level<'a> {
    graph: Cow<'a, Graph>,
    /// By node; what is within it counts twice, by each end.
    degrees: Vec<u64>,
    /// Sum of all degrees.
    doubled: u64,
}

impl<'a> Level<'a> {
    fn of(graph: &'a Graph) -> Self {
        let degrees: Vec<u64> = (0..graph.nodes()).map(|node| graph.degree(node)).collect();
        let doubled = degrees.iter().sum();
        Self { graph: Cow::Borrowed(graph), degrees, doubled }
    }

    /// The community of each node once no move gains anything.
    fn move_nodes(&self, random: &mut fastrand::Rng) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.graph.nodes()).collect();
        random.shuffle(&mut order);
        let mut waiting = VecDeque::from_iter(order.iter().copied());
        let mut of: Vec<u32> = (0..self.graph.nodes()).collect();
        let mut is_waiting = vec![true; of.len()];
        let mut totals = self.degrees.clone();
        // To each community that the node has neighbours in.
        let mut weights = vec![0_u64; of.len()];
        let mut near: Vec<u32> = Vec::new();
        let mut has_moved = false;
        // Of a round, which looks at as many as there are nodes: how many it has looked at, and what their moves gained.
        let (mut looked_at, mut gained) = (0_u32, 0_i128);
        loop {
            if looked_at == self.graph.nodes() {
                if self.modularity(gained) < WORTH_A_ROUND {
                    break;
                }
                (looked_at, gained) = (0, 0);
            }

            let Some(node) = waiting.pop_front() else {
                // What communities others left and joined may make one gain that no neighbour's move did: until all stay.
                if !std::mem::take(&mut has_moved) {
                    break;
                }
                waiting.extend(&order);
                is_waiting.fill(true);
                continue;
            };
            is_waiting[node as usize] = false;
            looked_at += 1;
            let own = of[node as usize];
            near.push(own);
            for (other, weight) in self.graph.neighbours(node) {
                let community = of[other as usize];
                if weights[community as usize] == 0 && community != own {
                    near.push(community);
                }
                weights[community as usize] += weight;
            }
            let degree = self.degrees[node as usize];
            totals[own as usize] -= degree;
            // Twice m times what modularity gains: weight to it less what is expected.
            let gain = |community: u32| {
                let (weight, total) = (weights[community as usize], totals[community as usize]);
                i128::from(weight) * i128::from(self.doubled) - i128::from(degree) * i128::from(total)
            };
            // Of as good ones it stays, or takes the first.
            let stayed = gain(own);
            let best = near
                .iter()
                .map(|&community| (gain(community), community))
                .fold((stayed, own), |best, other| if other.0 > best.0 { other } else { best });
            totals[best.1 as usize] += degree;
            of[node as usize] = best.1;
            near.drain(..).for_each(|community| weights[community as usize] = 0);
            if best.1 == own {
                continue;
            }
            has_moved = true;
            gained += best.0 - stayed;
            // Only who is elsewhere could now gain by following.
            for (other, _) in self.graph.neighbours(node).filter(|(other, _)| of[*other as usize] != best.1) {
                if !std::mem::replace(&mut is_waiting[other as usize], true) {
                    waiting.push_back(other);
                }
            }
        }
        numbered(&of)
    }

    /// What gains add to modularity.
    fn modularity(&self, gained: i128) -> f64 {
        2.0 * gained as f64 / (self.doubled as f64 * self.doubled as f64)
    }

    fn of_communities(&self, communities: &[u32]) -> Self {
        let graph = self.graph.between(communities);
        let mut degrees = vec![0; graph.nodes() as usize];
        for (&community, degree) in communities.iter().zip(&self.degrees) {
            degrees[community as usize] += degree;
        }
        Self { graph: Cow::Owned(graph), degrees, doubled: self.doubled }
    }
}

/// The same communities, numbered in the order of their smallest nodes.
fn numbered(of: &[u32]) -> Vec<u32> {
    let mut numbers = vec![u32::MAX; of.len()];
    let mut next = 0;
    let number = |&community: &u32| {
        let number = &mut numbers[community as usize];
        if *number == u32::MAX {
            *number = next;
            next += 1;
        }
        *number
    };
    of.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As of rings whose first nodes an array points to: the array's node gains a little by each of a great many moves.
    #[test]
    fn a_node_with_much_of_the_weight_does_not_wander_for_ever() {
        const RINGS: u32 = 400;
        let of_ring = |ring: u32| (0..64).map(move |at| (ring * 64 + at, ring * 64 + (at + 1) % 64, 47));
        let hub = (0..RINGS).map(|ring| (ring * 64, RINGS * 64, 94));
        let edges: Vec<_> = (0..RINGS).flat_map(of_ring).chain(hub).collect();
        let graph = Graph::new(RINGS * 64 + 1, edges.iter().copied());
        let found = levels(&graph, 1);
        assert!(modularity(&graph, found.last().unwrap()) > 0.85);
    }

    #[test]
    fn two_triangles_are_two_communities() {
        let edges = [(0, 1, 1), (0, 2, 1), (1, 2, 1), (3, 4, 1), (3, 5, 1), (4, 5, 1), (2, 3, 1)];
        let graph = Graph::new(6, edges.into_iter());
        let found = levels(&graph, 1);
        assert_eq!(found.last().unwrap(), &[0, 0, 0, 1, 1, 1]);
        // 3/7 − (7/14)², twice.
        assert!((modularity(&graph, &[0, 0, 0, 1, 1, 1]) - 2.0 * (3.0 / 7.0 - 0.25)).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_edges_has_no_levels() {
        assert!(levels(&Graph::new(3, [].into_iter()), 0).is_empty());
        assert!(levels(&Graph::new(0, [].into_iter()), 0).is_empty());
        assert_eq!(modularity(&Graph::new(3, [].into_iter()), &[0, 1, 2]), 0.0);
    }

    /// By all pairs of nodes: Σ (weight − product of degrees / 2m) / 2m.
    fn modularity_of_pairs(graph: &Graph, communities: &[u32]) -> f64 {
        let doubled = (0..graph.nodes()).map(|node| graph.degree(node)).sum::<u64>() as f64;
        let mut sum = 0.0;
        for a in 0..graph.nodes() {
            for b in (0..graph.nodes()).filter(|&b| communities[a as usize] == communities[b as usize]) {
                let weight = graph.neighbours(a).find(|(other, _)| *other == b).map_or(0, |(_, weight)| weight);
                sum += weight as f64 - graph.degree(a) as f64 * graph.degree(b) as f64 / doubled;
            }
        }
        if doubled == 0.0 { 0.0 } else { sum / doubled }
    }

    proptest! {
        #[test]
        fn levels_only_gain(edges in prop::collection::btree_map((0..20_u32, 0..20_u32), 1..50_u64, 0..60), seed: u64) {
            let edges: Vec<_> = edges.into_iter().filter(|((a, b), _)| a < b).map(|((a, b), weight)| (a, b, weight)).collect();
            let graph = Graph::new(20, edges.into_iter());
            let mut before = modularity(&graph, &(0..20).collect::<Vec<_>>());
            for communities in levels(&graph, seed) {
                let gained = modularity(&graph, &communities);
                prop_assert!((gained - modularity_of_pairs(&graph, &communities)).abs() < 1e-9);
                prop_assert!(gained > before - 1e-12, "{} after {}", gained, before);
                before = gained;
            }
        }
    }
}
