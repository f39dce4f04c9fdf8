//! Where nodes of a small graph are drawn, so that neighbours are near and none lie over each other.
//!
//! After Fruchterman and Reingold, *Graph Drawing by Force-directed Placement* (1991): all nodes push each other away, edges pull, and
//! how far one may go falls from step to step. Each step looks at all pairs of nodes.

use crate::graph::Graph;

const STEPS: usize = 300;
/// How far a node may go in the first step; the whole is 1.
const FARTHEST: f64 = 0.1;
/// What draws all to the middle, so that parts without edges between them do not fly apart.
const TO_MIDDLE: f64 = 0.3;

/// Where each node is, from 0 to 1 across and down.
pub fn positions(graph: &Graph) -> Vec<(f64, f64)> {
    let count = graph.nodes() as usize;
    let apart = (1.0 / count.max(1) as f64).sqrt();
    let most = graph.edges().map(|edge| edge.2).max().unwrap_or(1) as f64;
    // On a spiral, which no two have the same place on and which favours no direction.
    let golden = std::f64::consts::PI * (3.0 - 5.0_f64.sqrt());
    let start = |node: usize| {
        let (radius, angle) = (0.5 * ((node as f64 + 0.5) / count as f64).sqrt(), node as f64 * golden);
        (radius * angle.cos(), radius * angle.sin())
    };
    let mut at: Vec<(f64, f64)> = (0..count).map(start).collect();
    let mut forces = vec![(0.0, 0.0); count];
    for step in 0..STEPS {
        forces
            .iter_mut()
            .zip(&at)
            .for_each(|(force, at)| *force = (-TO_MIDDLE * apart * at.0, -TO_MIDDLE * apart * at.1));
        for a in 0..count {
            for b in a + 1..count {
                let (x, y) = (at[a].0 - at[b].0, at[a].1 - at[b].1);
                let push = apart * apart / (x * x + y * y).max(1e-9);
                add(&mut forces, a, b, (x * push, y * push));
            }
        }
        for (a, b, weight) in graph.edges() {
            let (a, b) = (a as usize, b as usize);
            let (x, y) = (at[a].0 - at[b].0, at[a].1 - at[b].1);
            // The heaviest pulls as the paper has it, light ones less.
            let pull = -x.hypot(y) / apart * (0.1 + 0.9 * weight as f64 / most);
            add(&mut forces, a, b, (x * pull, y * pull));
        }
        let farthest = FARTHEST * (1.0 - step as f64 / STEPS as f64);
        for (at, (x, y)) in at.iter_mut().zip(&forces) {
            let scale = (farthest / x.hypot(*y).max(1e-12)).min(1.0);
            (at.0, at.1) = (at.0 + x * scale, at.1 + y * scale);
        }
    }
    into_square(at)
}

/// To one, and away from the other.
fn add(forces: &mut [(f64, f64)], to: usize, from: usize, (x, y): (f64, f64)) {
    (forces[to].0, forces[to].1) = (forces[to].0 + x, forces[to].1 + y);
    (forces[from].0, forces[from].1) = (forces[from].0 - x, forces[from].1 - y);
}

/// The same shape, as large as it can be.
fn into_square(at: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (least, most) =
            at.iter().map(of).fold((f64::MAX, f64::MIN), |(least, most), x| (least.min(x), most.max(x)));
        (least, (most - least).max(1e-9))
    };
    let ((left, width), (top, height)) = (range(|at| at.0), range(|at| at.1));
    let size = width.max(height);
    at.iter().map(|(x, y)| ((x - left) / size, (y - top) / size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
        (a.0 - b.0).hypot(a.1 - b.1)
    }

    #[test]
    fn neighbours_are_near() {
        // Two groups of 10, all of which know each other, and one edge between them.
        let pairs = |from: u32| (from..from + 10).flat_map(move |a| (a + 1..from + 10).map(move |b| (a, b, 5)));
        let edges: Vec<_> = pairs(0).chain(pairs(10)).chain([(0, 10, 1)]).collect();
        let at = positions(&Graph::new(20, edges.iter().copied()));
        assert!(at.iter().all(|(x, y)| (0.0..=1.0).contains(x) && (0.0..=1.0).contains(y)), "{at:?}");
        let farthest_within = pairs(0).map(|(a, b, _)| distance(at[a as usize], at[b as usize])).fold(0.0, f64::max);
        let nearest_between = (1..10).map(|a| distance(at[a], at[a + 10])).fold(f64::MAX, f64::min);
        assert!(nearest_between > farthest_within, "{nearest_between} {farthest_within} {at:?}");
        let nearest = (0..20).flat_map(|a| (0..a).map(move |b| (a, b))).map(|(a, b)| distance(at[a], at[b]));
        assert!(nearest.fold(f64::MAX, f64::min) > 0.01, "{at:?}");
    }

    #[test]
    fn a_graph_of_one_or_none_is_drawn() {
        assert_eq!(positions(&Graph::new(0, std::iter::empty())), []);
        assert_eq!(positions(&Graph::new(1, std::iter::empty())), [(0.0, 0.0)]);
    }
}
