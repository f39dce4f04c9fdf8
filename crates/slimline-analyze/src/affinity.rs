//! Field affinity (StructSlim, equation 7):
//!
//! ```text
//!   A_ij = Σ over loops that use both i and j of (l_i + l_j)  /  Σ over all loops of (l_i + l_j)
//! ```
//!
//! l is a field's weight in a loop. A loop uses a field also where it was seen to access it without ever stalling on it.
//! A traversal that reaches from an outer loop into inner ones, or into functions it calls, counts as one loop.

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
/// Two places belong together where at least half of the turns between them stay on the same stretch of an object.
pub(crate) fn traversals(transitions: &[Transitions], places: &Places) -> BTreeMap<usize, usize> {
    let mut turns: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    let mut traversal: BTreeMap<usize, usize> = BTreeMap::new();
    for turn in transitions {
        let (from, to) = (places.of(turn.from), places.of(turn.to));
        traversal.insert(from, from);
        traversal.insert(to, to);
        let (near, far) = turns.entry((from.min(to), from.max(to))).or_default();
        *near += turn.near;
        *far += turn.far;
    }
    for ((a, b), (near, far)) in turns {
        // One turn may be where a loop ends and another begins.
        if a == b || near < far || near < 2 {
            continue;
        }
        let (a, b) = (traversal[&a], traversal[&b]);
        traversal.values_mut().filter(|of| **of == a.max(b)).for_each(|of| *of = a.min(b));
    }
    traversal
}

/// Affinities of all pairs that have any, strongest first, then by row.
pub(crate) fn affinities(uses: &FieldUses, traversal: &BTreeMap<usize, usize>) -> Vec<Affinity> {
    // Weight by traversal and field; present with 0 where used without cost.
    let mut loops: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
    let mut whole = vec![0.0; uses.shapes.len()];
    for (&(place, field), used) in &uses.uses {
        let of = traversal.get(&place).copied().unwrap_or(place);
        *loops.entry(of).or_default().entry(field).or_default() += used.weight;
        whole[field] += used.weight;
    }
    let mut common: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for fields in loops.values() {
        for (&a, l_a) in fields {
            for (&b, l_b) in fields.range(a + 1..) {
                *common.entry((a, b)).or_default() += l_a + l_b;
            }
        }
    }
    let mut found: Vec<Affinity> = common
        .into_iter()
        .filter(|&(_, common)| common > 0.0)
        // Rounding may take the quotient past 1.
        .map(|((a, b), common)| Affinity { a, b, value: (common / (whole[a] + whole[b])).min(1.0) })
        .collect();
    found.sort_by(|x, y| y.value.total_cmp(&x.value).then((x.a, x.b).cmp(&(y.a, y.b))));
    found
}
