//! The Fiedler vector of a graph: its values put nodes in a row so that those with much weight between them are near.
//!
//! It is the eigenvector of the Laplacian (degrees less weights) of the smallest eigenvalue but 0 (Fiedler 1973), and the least
//! Σ w (x(u) − x(v))² that a vector of length 1 without a mean has; in its order nodes are nearly as near as can be (Juvan and Mohar 1992).
//!
//! It is found by LOBPCG (Knyazev 2001) for one vector: the best combination of where it is, the residual divided by the degrees, and
//! where it came from, again and again. Products of the Laplacian with these are combined as they are, so that a step takes one product,
//! of the residual. It begins with the distances from an end of the graph, which of a path is nearly the answer.

use crate::graph::Graph;

/// A Fiedler vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Fiedler {
    /// By node; of length 1, with a mean of 0.
    pub vector: Vec<f64>,
    /// Its eigenvalue.
    pub value: f64,
    /// Length of what is left of the Laplacian's product with the vector once the vector times the eigenvalue is taken off, by the
    /// eigenvalue: about by how much the vector is off where the next eigenvalue is twice as large.
    pub residual: f64,
    /// What of the residual may be rounding: the length of degrees times the vector, by the eigenvalue, times some of the least
    /// differences between numbers.
    pub rounding: f64,
}

/// What the residual must come below, but for rounding: the ends of a path of 500 are told apart.
const TOLERANCE: f64 = 1e-7;
/// Steps after which products are made anew, as what was rounded in combining them adds up.
const STEPS_OF_PRODUCTS: u32 = 64;
/// Of what is left of a vector, less is rounding.
const NOTHING: f64 = 1e-14;

/// A vector, and the Laplacian's product with it.
#[derive(Clone)]
struct Multiplied {
    vector: Vec<f64>,
    product: Vec<f64>,
}

impl Multiplied {
    fn scale(&mut self, by: f64) {
        self.vector.iter_mut().chain(&mut self.product).for_each(|value| *value *= by);
    }

    fn add(&mut self, times: f64, other: &Self) {
        add(&mut self.vector, times, &other.vector);
        add(&mut self.product, times, &other.product);
    }

    /// Whether there was anything to make 1 of.
    fn normalize(&mut self) -> bool {
        let length = dot(&self.vector, &self.vector).sqrt();
        let is_something = length > NOTHING;
        if is_something {
            self.scale(1.0 / length);
        }
        is_something
    }

    /// Takes off what it has of others, which are of length 1 and at right angles. Twice, as once leaves what was rounded.
    fn part_from(&mut self, others: &[Self]) {
        for other in others.iter().chain(others) {
            self.add(-dot(&other.vector, &self.vector), other);
        }
    }
}

impl Fiedler {
    /// Of a connected graph of two nodes or more, in so many steps at most: each goes along all edges once, or twice.
    pub fn of(graph: &Graph, most_steps: u32) -> Self {
        let laplacian = Laplacian::of(graph);
        let mut at = laplacian.multiplied(from_an_end(graph));
        at.normalize();
        let mut before: Option<Multiplied> = None;
        let mut step = 0;
        loop {
            let (found, left) = laplacian.judged(&at);
            if found.has_converged() || step == most_steps {
                return Self { vector: at.vector, ..found };
            }
            step += 1;
            let mut basis = vec![at];
            let mut residual = laplacian.multiplied(laplacian.preconditioned(left));
            // At once, so that its length says what of it is new.
            residual.normalize();
            for mut candidate in [Some(residual), before.take()].into_iter().flatten() {
                candidate.part_from(&basis);
                if candidate.normalize() {
                    basis.push(candidate);
                }
            }
            if basis.len() == 1 {
                return Self { vector: basis.swap_remove(0).vector, ..found };
            }
            let of = |a: &Multiplied| basis.iter().map(|b| dot(&a.vector, &b.product)).collect();
            let (_, shares) = smallest(basis.iter().map(of).collect());
            let mut direction = basis.split_off(1).into_iter().zip(&shares[1..]);
            let (mut sum, share) = direction.next().unwrap_or_else(|| unreachable!("there are two or three"));
            sum.scale(*share);
            direction.for_each(|(other, share)| sum.add(*share, &other));
            at = basis.swap_remove(0);
            at.scale(shares[0]);
            at.add(1.0, &sum);
            if step.is_multiple_of(STEPS_OF_PRODUCTS) {
                at = laplacian.multiplied(at.vector);
            }
            at.normalize();
            before = sum.normalize().then_some(sum);
        }
    }

    /// Whether it is as exact as is asked for.
    pub fn has_converged(&self) -> bool {
        self.residual < TOLERANCE + self.rounding
    }
}

struct Laplacian<'a> {
    graph: &'a Graph,
    degrees: Vec<f64>,
}

impl<'a> Laplacian<'a> {
    fn of(graph: &'a Graph) -> Self {
        let degrees = (0..graph.nodes()).map(|node| graph.degree(node) as f64).collect();
        Self { graph, degrees }
    }

    /// Of a vector without its mean, which has no product.
    fn multiplied(&self, mut vector: Vec<f64>) -> Multiplied {
        center(&mut vector);
        let of = |(node, (&value, &degree)): (u32, (&f64, &f64))| {
            let others = self.graph.neighbours(node);
            degree * value - others.map(|(other, weight)| weight as f64 * vector[other as usize]).sum::<f64>()
        };
        let product = (0..).zip(vector.iter().zip(&self.degrees)).map(of).collect();
        Multiplied { vector, product }
    }

    /// How good a vector is, which is not copied for that, and what is left of its product.
    fn judged(&self, at: &Multiplied) -> (Fiedler, Vec<f64>) {
        let value = dot(&at.vector, &at.product);
        let mut left = at.product.clone();
        add(&mut left, -value, &at.vector);
        let by = |length: f64| length.sqrt() / value.abs().max(f64::MIN_POSITIVE);
        let terms = at.vector.iter().zip(&self.degrees).map(|(value, degree)| (value * degree).powi(2));
        let rounding = 4.0 * f64::EPSILON * by(terms.sum());
        let found = Fiedler { vector: Vec::new(), value, residual: by(dot(&left, &left)), rounding };
        (found, left)
    }

    /// Where to go on: what is left, by the degrees.
    fn preconditioned(&self, mut left: Vec<f64>) -> Vec<f64> {
        left.iter_mut().zip(&self.degrees).for_each(|(left, degree)| *left /= degree.max(1.0));
        left
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
            for (other, _) in graph.neighbours(node) {
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

/// The smallest eigenvalue of a small symmetric matrix, and its vector.
fn smallest(matrix: Vec<Vec<f64>>) -> (f64, Vec<f64>) {
    let all = eigen(matrix).into_iter();
    all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
}

/// All eigenvalues of a symmetric matrix, and their vectors, by Jacobi's rotations (Golub and Van Loan, 8.5).
fn eigen(mut matrix: Vec<Vec<f64>>) -> Vec<(f64, Vec<f64>)> {
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
    (0..size).map(|at| (matrix[at][at], vectors.iter().map(|row| row[at]).collect())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEPS: u32 = 20_000;

    fn path(nodes: u32) -> Graph {
        Graph::new(nodes, (1..nodes).map(|node| (node - 1, node, 1)))
    }

    /// 2 − 2 cos(π/n), and cosines.
    #[test]
    fn of_a_path() {
        for nodes in [2, 3, 10, 500] {
            let found = Fiedler::of(&path(nodes), STEPS);
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
        assert!((Fiedler::of(&star, STEPS).value - 1.0).abs() < 1e-9);
        let all = (0..7).flat_map(|a| (a + 1..7).map(move |b| (a, b, 3)));
        assert!((Fiedler::of(&Graph::new(7, all), STEPS).value - 21.0).abs() < 1e-9);
    }

    /// Two rings of light edges, a lighter one between them, and at the end of both a hub with heavy ones.
    #[test]
    fn a_heavy_part_does_not_hide_a_light_one() {
        let ring = |first: u32| (0..20).map(move |at| (first + at, first + (at + 1) % 20, 3));
        let hub = (41..60).map(|leaf| (40, leaf, 1 << 20));
        let joined = [(0, 20, 1), (30, 40, 1)];
        let graph = Graph::new(60, ring(0).chain(ring(20)).chain(hub).chain(joined).collect::<Vec<_>>().into_iter());
        let found = Fiedler::of(&graph, STEPS);
        assert!(found.has_converged(), "{found:?}");
        let side = |nodes: std::ops::Range<usize>| found.vector[nodes].iter().filter(|value| **value > 0.0).count();
        // The hub's twenty at one end, the first ring at the other.
        assert_eq!((side(0..20), side(40..60)), if found.vector[0] > 0.0 { (20, 0) } else { (0, 20) });
    }

    /// The smallest eigenvalues but 0, ascending, with their vectors, by a dense solver: inverse iterations of a few vectors by
    /// Cholesky's factors (Golub and Van Loan, 4.2 and 8.2), once the eigenvalue of constants is moved behind all others.
    fn dense(graph: &Graph) -> Vec<(f64, Vec<f64>)> {
        let size = graph.nodes() as usize;
        let far = (0..graph.nodes()).map(|node| graph.degree(node) as f64).fold(1.0, f64::max);
        let mut factor = vec![vec![far; size]; size];
        for (node, row) in (0..).zip(&mut factor) {
            row[node as usize] += graph.degree(node) as f64;
            graph.neighbours(node).for_each(|(other, weight)| row[other as usize] -= weight as f64);
        }
        let matrix = factor.clone();
        for row in 0..size {
            for column in 0..=row {
                let left = factor[row][column] - dot(&factor[row][..column], &factor[column][..column]);
                factor[row][column] = if row == column { left.sqrt() } else { left / factor[column][column] };
            }
        }
        let solved = |mut vector: Vec<f64>| {
            for row in 0..size {
                vector[row] = (vector[row] - dot(&factor[row][..row], &vector[..row])) / factor[row][row];
            }
            for row in (0..size).rev() {
                vector[row] /= factor[row][row];
                let value = vector[row];
                add(&mut vector[..row], -value, &factor[row][..row]);
            }
            vector
        };
        let mut random = fastrand::Rng::with_seed(1);
        let drawn = |_| (0..size).map(|_| random.f64() - 0.5).collect();
        let mut vectors: Vec<Vec<f64>> = (0..size.min(6)).map(drawn).collect();
        let mut values = Vec::new();
        for _ in 0..200 {
            let mut basis: Vec<Vec<f64>> = Vec::new();
            for mut vector in vectors.into_iter().map(solved) {
                for other in basis.iter().chain(&basis) {
                    let part = dot(other, &vector);
                    add(&mut vector, -part, other);
                }
                let length = dot(&vector, &vector).sqrt();
                vector.iter_mut().for_each(|value| *value /= length);
                basis.push(vector);
            }
            let product = |vector: &Vec<f64>| matrix.iter().map(|row| dot(row, vector)).collect::<Vec<f64>>();
            let products: Vec<Vec<f64>> = basis.iter().map(product).collect();
            let of = |a: &Vec<f64>| products.iter().map(|product| dot(a, product)).collect();
            let mut small = eigen(basis.iter().map(of).collect());
            small.sort_by(|a, b| a.0.total_cmp(&b.0));
            values = small.iter().map(|(value, _)| *value).collect();
            let combined = |(_, shares): &(f64, Vec<f64>)| {
                let mut sum = vec![0.0; size];
                basis.iter().zip(shares).for_each(|(vector, share)| add(&mut sum, *share, vector));
                sum
            };
            vectors = small.iter().map(combined).collect();
        }
        values.into_iter().zip(vectors).collect()
    }

    /// A path through all nodes keeps them connected; others by chance.
    fn connected(nodes: u32, others: u32, most_weight: u64, seed: u64) -> Graph {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut edges: std::collections::BTreeMap<(u32, u32), u64> =
            (1..nodes).map(|b| ((b - 1, b), random.u64(1..=most_weight))).collect();
        for _ in 0..others {
            let (a, b) = (random.u32(0..nodes), random.u32(0..nodes));
            if a != b {
                edges.insert((a.min(b), a.max(b)), random.u64(1..=most_weight));
            }
        }
        Graph::new(nodes, edges.into_iter().map(|((a, b), weight)| (a, b, weight)).collect::<Vec<_>>().into_iter())
    }

    /// The order by a dense solver's vector, where its neighbours in that order differ by more than was asked for.
    #[test]
    fn orders_are_those_of_a_dense_solver() {
        for (nodes, others) in [(40, 30), (150, 100), (300, 200), (500, 400), (500, 2000)] {
            let graph = connected(nodes, others, 50, u64::from(nodes + others));
            let found = Fiedler::of(&graph, STEPS);
            assert!(found.has_converged(), "{nodes} {others}: {}", found.residual);
            let all = dense(&graph);
            let (value, vector) = &all[0];
            assert!((found.value / value - 1.0).abs() < 1e-9, "{nodes} {others}: {} {value}", found.value);
            let product = dot(&found.vector, vector);
            let off = TOLERANCE * value / (all[1].0 - value) * 2.0;
            let mut order: Vec<usize> = (0..nodes as usize).collect();
            order.sort_by(|&a, &b| (product * vector[a]).total_cmp(&(product * vector[b])));
            let mut told = 0;
            for pair in order.windows(2) {
                let apart = (vector[pair[1]] - vector[pair[0]]).abs();
                let is_told = apart > 2.0 * off.max(1e-12);
                told += usize::from(is_told);
                let ours = [pair[0], pair[1]].map(|node| found.vector[node]);
                assert!(!is_told || ours[0] < ours[1], "{nodes} {others}: {pair:?}, {apart} apart, {off} off");
            }
            assert!(told > order.len() * 9 / 10, "{nodes} {others}: only {told} could be told");
        }
    }

    proptest! {
        #[test]
        fn as_a_dense_solver(nodes in 2..40_u32, others in 0..150_u32, most_weight in 1..1000_u64, seed: u64) {
            let graph = connected(nodes, others, most_weight, seed);
            let found = Fiedler::of(&graph, STEPS);
            let expected = dense(&graph)[0].0;
            prop_assert!(found.has_converged(), "{}", found.residual);
            prop_assert!((found.value - expected).abs() < 1e-6 * expected.max(1.0), "{} {}", found.value, expected);
        }
    }
}
