//! Clusters: which fields make a new structure (StructSlim §5.2).
//!
//! Fields are merged as long as every pair of them has at least [`Rules::together`]; the strongest tie first. Fields
//! that nothing uses, or hardly anything, stay together in one cold rest.

use std::collections::BTreeMap;

use crate::affinity::Affinity;

/// What is clustered by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Affinity from which two fields belong together.
    pub together: f64,
    /// Share of the group's weight, and of its accesses, below which a field is cold.
    pub cold: f64,
}

impl Default for Rules {
    /// Half: two fields that are used together more often than not. The published splits hold from 0.06 to 0.85. What has less
    /// than a hundredth is not parted from what has nothing: from run to run it would be in another structure.
    fn default() -> Self {
        Self { together: 0.5, cold: 0.01 }
    }
}

/// Fields that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Rows of the fields, ascending.
    pub fields: Vec<usize>,
    /// Their share of the group's weight.
    pub share: f64,
    /// Whether it is the rest that hardly anything uses.
    pub cold: bool,
}

/// How much a field is used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heat {
    /// Share of the group's weight.
    pub share: f64,
    /// Share of its accesses: what is accessed again and again on lines that others brought costs nothing itself.
    pub access_share: f64,
    /// Fields with the same number can't be parted.
    pub moves_with: usize,
}

/// Splits fields by their use and their affinities.
///
/// Clusters are by share, the greatest first, the cold rest last. The same input gives the same answer: among equal
/// ties the one of the earlier fields is merged first.
pub fn clusters(fields: &[Heat], affinities: &[Affinity], rules: &Rules) -> Vec<Cluster> {
    let affinity: BTreeMap<(usize, usize), f64> = affinities.iter().map(|tie| ((tie.a, tie.b), tie.value)).collect();
    let tie = |a: usize, b: usize| affinity.get(&(a.min(b), a.max(b))).copied().unwrap_or(0.0);
    // What can't be parted starts as one.
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, field) in fields.iter().enumerate() {
        sets.entry(field.moves_with).or_default().push(row);
    }
    let share = |rows: &[usize]| rows.iter().map(|&row| fields[row].share).sum::<f64>();
    let access_share = |rows: &[usize]| rows.iter().map(|&row| fields[row].access_share).sum::<f64>();
    let (mut hot, cold): (Vec<Vec<usize>>, Vec<Vec<usize>>) =
        sets.into_values().partition(|rows| share(rows).max(access_share(rows)) >= rules.cold);
    // Of a set, the hottest field speaks.
    let hotter = |&a: &usize, &b: &usize| {
        let (x, y) = (fields[a], fields[b]);
        x.share.total_cmp(&y.share).then(x.access_share.total_cmp(&y.access_share)).then(b.cmp(&a))
    };
    let speaker = |rows: &Vec<usize>| vec![rows.iter().copied().max_by(hotter).unwrap_or_default()];
    let mut spoken: Vec<Vec<usize>> = hot.iter().map(speaker).collect();
    let weakest = |a: &[usize], b: &[usize]| {
        a.iter().flat_map(|&a| b.iter().map(move |&b| (a, b))).map(|(a, b)| tie(a, b)).fold(1.0, f64::min)
    };
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for b in 1..hot.len() {
            for a in 0..b {
                let strength = weakest(&spoken[a], &spoken[b]);
                if strength >= rules.together && best.is_none_or(|(than, ..)| strength > than) {
                    best = Some((strength, a, b));
                }
            }
        }
        let Some((_, a, b)) = best else { break };
        let (rows, speakers) = (hot.remove(b), spoken.remove(b));
        hot[a].extend(rows);
        spoken[a].extend(speakers);
    }
    let cluster = |mut rows: Vec<usize>, cold| {
        rows.sort_unstable();
        Cluster { share: share(&rows), fields: rows, cold }
    };
    let mut found: Vec<Cluster> = hot.into_iter().map(|rows| cluster(rows, false)).collect();
    found.sort_by(|x, y| y.share.total_cmp(&x.share).then(x.fields.cmp(&y.fields)));
    if !cold.is_empty() {
        found.push(cluster(cold.into_iter().flatten().collect(), true));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of equal share with these sets and ties: the clusters' rows.
    fn check(sets: &[usize], ties: &[(usize, usize, f64)], expected: &[&[usize]]) {
        let heat = |&moves_with: &usize| Heat { share: 1.0 / sets.len() as f64, access_share: 0.0, moves_with };
        let fields: Vec<Heat> = sets.iter().map(heat).collect();
        let ties: Vec<Affinity> = ties.iter().map(|&(a, b, value)| Affinity { a, b, value }).collect();
        let found = clusters(&fields, &ties, &Rules::default());
        assert_eq!(found.iter().map(|cluster| cluster.fields.as_slice()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_pair_of_a_cluster_is_tied() {
        // A chain is cut at its weaker end: 0 and 2 are never used together.
        check(&[0, 1, 2], &[(0, 1, 0.9), (1, 2, 0.8)], &[&[0, 1], &[2]]);
        check(&[0, 1, 2], &[(0, 1, 0.9), (1, 2, 0.8), (0, 2, 0.5)], &[&[0, 1, 2]]);
        check(&[0, 1, 2], &[(0, 1, 0.49)], &[&[0], &[1], &[2]]);
        // Equal ties: the earlier fields first.
        check(&[0, 1, 2], &[(1, 2, 0.7), (0, 1, 0.7)], &[&[0, 1], &[2]]);
    }

    #[test]
    fn sets_are_never_parted() {
        check(&[0, 1, 0], &[], &[&[0, 2], &[1]]);
        check(&[0, 1, 0], &[(0, 1, 0.6)], &[&[0, 1, 2]]);
    }

    #[test]
    fn cold_is_what_neither_costs_nor_is_accessed() {
        let heat = |share, access_share, moves_with| Heat { share, access_share, moves_with };
        let fields = [heat(1.0, 0.5, 0), heat(0.0, 0.5, 1), heat(0.001, 0.004, 2), heat(0.0, 0.0, 3)];
        let found = clusters(&fields, &[Affinity { a: 0, b: 1, value: 1.0 }], &Rules::default());
        assert_eq!(found[0], Cluster { fields: vec![0, 1], share: 1.0, cold: false });
        assert_eq!((found[1].fields.as_slice(), found[1].cold), (&[2, 3][..], true));
    }
}
