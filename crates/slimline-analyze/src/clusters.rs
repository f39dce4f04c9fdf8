//! Clusters: which fields make a new structure (StructSlim §5.2).
//!
//! Fields are merged as long as every pair of them has at least [`Rules::together`]; the strongest tie first. Fields that
//! nothing uses, or hardly anything, stay together in one cold rest.

use std::collections::BTreeMap;

use crate::affinity::Affinity;

/// What is clustered by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Affinity from which two fields belong together.
    pub together: f64,
    /// Share of the group's weight below which a field is cold.
    pub cold: f64,
}

impl Default for Rules {
    /// Half: two fields that are used together more often than not. The published splits hold from 0.06 to 0.85.
    fn default() -> Self {
        Self { together: 0.5, cold: 0.005 }
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

/// Splits fields with these shares (of the group's weight) and sets that can't be parted (`moves_with` of each field).
///
/// Clusters are by share, the greatest first, the cold rest last. The same input gives the same answer: among equal
/// ties the one of the earlier fields is merged first.
pub fn clusters(shares: &[f64], moves_with: &[usize], affinities: &[Affinity], rules: &Rules) -> Vec<Cluster> {
    let affinity: BTreeMap<(usize, usize), f64> = affinities.iter().map(|tie| ((tie.a, tie.b), tie.value)).collect();
    let tie = |a: usize, b: usize| affinity.get(&(a.min(b), a.max(b))).copied().unwrap_or(0.0);
    // What can't be parted starts as one.
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (field, &set) in moves_with.iter().enumerate() {
        sets.entry(set).or_default().push(field);
    }
    let share = |fields: &[usize]| fields.iter().map(|&field| shares[field]).sum::<f64>();
    let (mut hot, cold): (Vec<Vec<usize>>, Vec<Vec<usize>>) =
        sets.into_values().partition(|fields| share(fields) >= rules.cold);
    // Of a set, the hottest field speaks.
    let speaker = |fields: &[usize]| {
        fields.iter().copied().max_by(|&a, &b| shares[a].total_cmp(&shares[b]).then(b.cmp(&a))).unwrap_or_default()
    };
    let mut spoken: Vec<Vec<usize>> = hot.iter().map(|fields| vec![speaker(fields)]).collect();
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
        let (fields, speakers) = (hot.remove(b), spoken.remove(b));
        hot[a].extend(fields);
        spoken[a].extend(speakers);
    }
    let cluster = |mut fields: Vec<usize>, cold| {
        fields.sort_unstable();
        Cluster { share: share(&fields), fields, cold }
    };
    let mut found: Vec<Cluster> = hot.into_iter().map(|fields| cluster(fields, false)).collect();
    found.sort_by(|x, y| y.share.total_cmp(&x.share).then(x.fields.cmp(&y.fields)));
    if !cold.is_empty() {
        found.push(cluster(cold.into_iter().flatten().collect(), true));
    }
    found
}
