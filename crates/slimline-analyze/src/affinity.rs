//! Field affinity (StructSlim, equation 7):
//!
//! ```text
//!   A_ij = Σ over loops that use both i and j of (l_i + l_j)  /  Σ over all loops of (l_i + l_j)
//! ```
//!
//! l is a field's weight in a loop. A loop uses a field also where it was seen to access it without ever stalling on
//! it. A traversal that reaches from an outer loop into inner ones, or into functions it calls, counts as one loop.
//!
//! Where compilers make one access of two fields, that is used together too, and parting them would undo it: so the same
//! equation is asked with instructions as loops and executions as weights, and the greater value holds.

use std::collections::BTreeMap;

use crate::fields::FieldUses;
use crate::neighbors::Transitions;
use crate::places::Places;

/// Affinity of two fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affinity {
    /// Row of the one field.
    pub a: usize,
    /// Row of the other, greater.
    pub b: usize,
    /// 0 to 1.
    pub value: f64,
}

/// For each place of a group the traversal it belongs to: the least number of the places that take turns on the same
/// elements.
///
/// Two places belong together where at least half of the turns between them stay on the same stretch of an object, and
/// where neither of them goes on to other elements more than twice as often as they take such turns. A search that
/// looks at twenty nodes and then hands one of them over is no traversal together with what uses that one.
pub(crate) fn traversals(transitions: &[Transitions], places: &Places) -> BTreeMap<usize, usize> {
    let mut turns: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    let mut moves: BTreeMap<usize, u64> = BTreeMap::new();
    for turn in transitions {
        let (from, to) = (places.of(turn.from), places.of(turn.to));
        moves.entry(from).or_default();
        moves.entry(to).or_default();
        if from == to {
            *moves.entry(from).or_default() += turn.far;
        } else {
            let (near, far) = turns.entry((from.min(to), from.max(to))).or_default();
            *near += turn.near;
            *far += turn.far;
        }
    }
    let mut traversal: BTreeMap<usize, usize> = moves.keys().map(|&place| (place, place)).collect();
    for ((a, b), (near, far)) in turns {
        // One turn may be where a loop ends and another begins.
        if near < far || near < 2 || moves[&a].max(moves[&b]) > 2 * near {
            continue;
        }
        let (a, b) = (traversal[&a], traversal[&b]);
        traversal.values_mut().filter(|of| **of == a.max(b)).for_each(|of| *of = a.min(b));
    }
    traversal
}

/// Weight and executions of a field.
#[derive(Clone, Copy, Default)]
struct Load {
    weight: f64,
    executions: f64,
}

impl Load {
    fn add(&mut self, other: Self) {
        self.weight += other.weight;
        self.executions += other.executions;
    }

    fn plus(mut self, other: Self) -> Self {
        self.add(other);
        self
    }
}

/// Affinities of all pairs that have any, strongest first, then by row.
///
/// Of two fields that never cost anything, executions take the place of weight.
pub(crate) fn affinities(uses: &FieldUses, traversal: &BTreeMap<usize, usize>) -> Vec<Affinity> {
    // By traversal and field; present with no weight where used without cost.
    let mut loops: BTreeMap<usize, BTreeMap<usize, Load>> = BTreeMap::new();
    let mut whole = vec![Load::default(); uses.shapes.len()];
    for (&(place, field), used) in &uses.uses {
        let of = traversal.get(&place).copied().unwrap_or(place);
        let load = Load { weight: used.weight, executions: used.executions };
        loops.entry(of).or_default().entry(field).or_default().add(load);
        whole[field].add(load);
    }
    let mut common: BTreeMap<(usize, usize), Load> = BTreeMap::new();
    for fields in loops.values() {
        for (&a, &l_a) in fields {
            for (&b, &l_b) in fields.range(a + 1..) {
                common.entry((a, b)).or_default().add(l_a.plus(l_b));
            }
        }
    }
    // Rounding may take the quotient past 1.
    let quotient = |part: f64, all: f64| if all > 0.0 { (part / all).min(1.0) } else { 0.0 };
    let value = |pair: (usize, usize), common: Load| {
        let all = whole[pair.0].plus(whole[pair.1]);
        let in_loops = match all.weight > 0.0 {
            true => quotient(common.weight, all.weight),
            false => quotient(common.executions, all.executions),
        };
        let joined = uses.joined.get(&pair).copied().unwrap_or(0.0);
        quotient(joined, all.executions).max(in_loops)
    };
    let mut found: Vec<Affinity> = common
        .into_iter()
        .map(|(pair, common)| Affinity { a: pair.0, b: pair.1, value: value(pair, common) })
        .collect();
    found.retain(|tie| tie.value > 0.0);
    found.sort_by(|x, y| y.value.total_cmp(&x.value).then((x.a, x.b).cmp(&(y.a, y.b))));
    found
}
