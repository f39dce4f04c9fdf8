//! The Fiedler vector of a graph: its values put nodes in a row so that those with much weight between them are near.
//!
//! It is the eigenvector of the Laplacian (degrees less weights) of the smallest eigenvalue but 0 (Fiedler 1973), and the least
//! Σ w (x(u) − x(v))² that a vector of length 1 without a mean has; in its order nodes are nearly as near as can be (Juvan and Mohar 1992).
//!
//! It is found by LOBPCG (Knyazev 2001) for one vector: the best combination of where it is, the residual divided by the degrees, and
//! where it came from, again and again. It begins with the distances from an end of the graph, which of a path is nearly the answer.

use crate::graph::Graph;

/// A Fiedler vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Fiedler {
    /// By node; of length 1, with a mean of 0.
    pub vector: Vec<f64>,
    /// Its eigenvalue.
    pub value: f64,
    /// Length of what is left of the Laplacian's product with the vector once the vector times the eigenvalue is taken off, by the
    /// greatest degree.
    pub residual: f64,
}

/// What the residual must come below.
const TOLERANCE: f64 = 1e-9;
/// Steps at most: with light edges between heavy ones it takes thousands.
const MOST_STEPS: usize = 20_000;
/// Of so large graphs that each takes long at least so many: an order that is nearly as good will do.
const LEAST_STEPS: usize = 300;
/// Edges that are gone along in all steps: some seconds.
const MOST_EDGES: usize = 1 << 29;
/// Of what is left of a vector, less is rounding.
const NOTHING: f64 = 1e-14;

impl Fiedler {
    /// Of a connected graph of two nodes or more.
    pub fn of(graph: &Graph) -> Self {
        let laplacian = Laplacian::of(graph);
        let mut at = from_an_end(graph);
        center(&mut at);
        normalize(&mut at);
        let mut before: Option<Vec<f64>> = None;
        let mut found = laplacian.judged(at);
        let each = graph.edge_count() + found.vector.len();
        for _ in 0..(MOST_EDGES / each.max(1)).clamp(LEAST_STEPS, MOST_STEPS) {
            if found.has_converged() {
                break;
            }
            let mut basis = vec![found.vector.clone()];
            for mut candidate in [Some(laplacian.preconditioned(&found)), before.take()].into_iter().flatten() {
                center(&mut candidate);
                // Twice, as once leaves what was rounded.
                for _ in 0..2 {
                    for other in &basis {
                        let part = dot(other, &candidate);
                        add(&mut candidate, -part, other);
                    }
                }
                if normalize(&mut candidate) {
                    basis.push(candidate);
                }
            }
            if basis.len() == 1 {
                break;
            }
            let products: Vec<Vec<f64>> = basis.iter().map(|vector| laplacian.times(vector)).collect();
            let small: Vec<Vec<f64>> =
                basis.iter().map(|a| products.iter().map(|product| dot(a, product)).collect()).collect();
            let (_, shares) = smallest(small);
            let combined = |from: usize| {
                let mut sum = vec![0.0; found.vector.len()];
                basis.iter().zip(&shares).skip(from).for_each(|(vector, &share)| add(&mut sum, share, vector));
                sum
            };
            let (mut next, direction) = (combined(0), combined(1));
            center(&mut next);
            normalize(&mut next);
            before = Some(direction);
            found = laplacian.judged(next);
        }
        found
    }

    /// Whether it is as exact as is asked for.
    pub fn has_converged(&self) -> bool {
        self.residual < TOLERANCE
    }
}

struct Laplacian<'a> {
    graph: &'a Graph,
    degrees: Vec<f64>,
    greatest: f64,
}

impl<'a> Laplacian<'a> {
    fn of(graph: &'a Graph) -> Self {
        let degrees: Vec<f64> = (0..graph.nodes()).map(|node| graph.degree(node) as f64).collect();
        let greatest = degrees.iter().copied().fold(1.0, f64::max);
        Self { graph, degrees, greatest }
    }

    fn times(&self, vector: &[f64]) -> Vec<f64> {
        let of = |(node, (&value, &degree)): (u32, (&f64, &f64))| {
            let others = self.graph.neighbours(node).iter();
            degree * value - others.map(|&(other, weight)| weight as f64 * vector[other as usize]).sum::<f64>()
        };
        (0..).zip(vector.iter().zip(&self.degrees)).map(of).collect()
    }

    fn left_of(&self, vector: &[f64]) -> (f64, Vec<f64>) {
        let mut left = self.times(vector);
        let value = dot(vector, &left);
        add(&mut left, -value, vector);
        (value, left)
    }

    fn judged(&self, vector: Vec<f64>) -> Fiedler {
        let (value, left) = self.left_of(&vector);
        Fiedler { vector, value, residual: dot(&left, &left).sqrt() / self.greatest }
    }

    /// Where to go on: what is left, by the degrees.
    fn preconditioned(&self, at: &Fiedler) -> Vec<f64> {
        let (_, left) = self.left_of(&at.vector);
        left.iter().zip(&self.degrees).map(|(left, degree)| left / degree.max(1.0)).collect()
    }
}

/// By node, how many edges it is from a node that is as far as any from the first.
fn from_an_end(graph: &Graph) -> Vec<f64> {
    let distances = |start: u32| {
        let mut distances = vec![u32::MAX; graph.nodes() as usize];
        distances[start as usize] = 0;
        let (mut found, mut next) = (vec![start], 0);
        while let Some(&node) = found.get(next) {
            next += 1;
            for &(other, _) in graph.neighbours(node) {
                if distances[other as usize] == u32::MAX {
                    distances[other as usize] = distances[node as usize] + 1;
                    found.push(other);
                }
            }
        }
        (distances, found.last().copied().unwrap_or(start))
    };
    let (_, end) = distances(0);
    // A little of each node's own, so that those as far as each other may part.
    let of = |(node, distance): (usize, u32)| f64::from(distance) + 1e-3 * (node as f64 * 0.618_033_988_75).fract();
    distances(end).0.into_iter().enumerate().map(of).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], times: f64, vector: &[f64]) {
    to.iter_mut().zip(vector).for_each(|(to, value)| *to += times * value);
}

fn center(vector: &mut [f64]) {
    let mean = vector.iter().sum::<f64>() / vector.len() as f64;
    vector.iter_mut().for_each(|value| *value -= mean);
}

/// Whether there was anything to make 1 of.
fn normalize(vector: &mut [f64]) -> bool {
    let length = dot(vector, vector).sqrt();
    if length.is_nan() || length <= NOTHING {
        return false;
    }
    vector.iter_mut().for_each(|value| *value /= length);
    true
}

/// The smallest eigenvalue of a small symmetric matrix, and its vector, by Jacobi's rotations (Golub and Van Loan, 8.5).
fn smallest(mut matrix: Vec<Vec<f64>>) -> (f64, Vec<f64>) {
    let size = matrix.len();
    let mut vectors: Vec<Vec<f64>> =
        (0..size).map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    for _ in 0..100 {
        let off: f64 =
            (0..size).flat_map(|p| (p + 1..size).map(move |q| (p, q))).map(|(p, q)| matrix[p][q].powi(2)).sum();
        if off < f64::MIN_POSITIVE {
            break;
        }
        for (p, q) in (0..size).flat_map(|p| (p + 1..size).map(move |q| (p, q))) {
            if matrix[p][q] == 0.0 {
                continue;
            }
            let theta = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
            let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
            let tangent = if theta == 0.0 { 1.0 } else { tangent };
            let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
            let sine = tangent * cosine;
            for row in matrix.iter_mut().chain(&mut vectors) {
                (row[p], row[q]) = (cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]);
            }
            // Rows p and q of it likewise.
            let (above, below) = matrix.split_at_mut(q);
            for (of_p, of_q) in above[p].iter_mut().zip(&mut below[0]) {
                (*of_p, *of_q) = (cosine * *of_p - sine * *of_q, sine * *of_p + cosine * *of_q);
            }
        }
    }
    let least = (0..size).min_by(|&a, &b| matrix[a][a].total_cmp(&matrix[b][b])).unwrap_or(0);
    (matrix[least][least], vectors.iter().map(|row| row[least]).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(nodes: u32) -> Graph {
        Graph::new(nodes, (1..nodes).map(|node| (node - 1, node, 1)))
    }

    /// 2 − 2 cos(π/n), and cosines.
    #[test]
    fn of_a_path() {
        for nodes in [2, 3, 10, 500] {
            let found = Fiedler::of(&path(nodes));
            let expected = 2.0 - 2.0 * (std::f64::consts::PI / f64::from(nodes)).cos();
            assert!((found.value - expected).abs() < 1e-9, "{nodes}: {} {expected}", found.value);
            let rises = found.vector.windows(2).filter(|pair| pair[0] < pair[1]).count();
            assert!(rises == 0 || rises + 1 == nodes as usize, "{nodes}: {rises}");
            assert!(found.has_converged());
        }
    }

    /// A star's is 1; of a complete graph all but one are its nodes.
    #[test]
    fn of_a_star_and_of_all_with_all() {
        let star = Graph::new(9, (1..9).map(|leaf| (0, leaf, 1)));
        assert!((Fiedler::of(&star).value - 1.0).abs() < 1e-9);
        let all = (0..7).flat_map(|a| (a + 1..7).map(move |b| (a, b, 3)));
        assert!((Fiedler::of(&Graph::new(7, all)).value - 21.0).abs() < 1e-9);
    }

    /// The second smallest eigenvalue by a dense solver: the smallest once the one of constants is moved behind all others.
    fn dense(graph: &Graph) -> f64 {
        let size = graph.nodes() as usize;
        let far = 4.0 * (0..graph.nodes()).map(|node| graph.degree(node) as f64).fold(1.0, f64::max);
        let mut matrix = vec![vec![far; size]; size];
        for (node, row) in (0..).zip(&mut matrix) {
            row[node as usize] += graph.degree(node) as f64;
            graph.neighbours(node).iter().for_each(|&(other, weight)| row[other as usize] -= weight as f64);
        }
        smallest(matrix).0
    }

    proptest! {
        #[test]
        fn as_a_dense_solver(
            nodes in 2..40_u32,
            edges in prop::collection::btree_map((0..40_u32, 0..40_u32), 1..1000_u64, 0..150),
        ) {
            // A path through all of them keeps it connected.
            let more = edges.into_iter().filter(|((a, b), _)| a + 1 < *b && *b < nodes);
            let edges: Vec<_> = (1..nodes).map(|b| (b - 1, b, 1)).chain(more.map(|((a, b), weight)| (a, b, weight))).collect();
            let graph = Graph::new(nodes, edges.into_iter());
            let found = Fiedler::of(&graph);
            let expected = dense(&graph);
            prop_assert!(found.has_converged(), "{}", found.residual);
            prop_assert!((found.value - expected).abs() < 1e-6 * expected.max(1.0), "{} {}", found.value, expected);
        }
    }
}
