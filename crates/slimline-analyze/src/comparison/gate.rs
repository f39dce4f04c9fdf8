//! What of a comparison is worse than allowed.

use super::chance::beyond_chance;
use super::layouts::{LayoutChanges, MovedField, TypeChange};
use super::misses::{MissChange, MissChanges};
use super::shares::{ShareChange, ShareChanges};

/// How much worse things may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowed {
    /// Percentage of a type's size that it may grow by.
    pub size_percent: f64,
    /// Cache lines that a type may take more.
    pub lines: u64,
    /// Bytes of holes that a type may have more.
    pub hole_bytes: u64,
    /// Share of everything from which on a field is hot.
    pub hot_share: f64,
    /// How much the share of data or of a field may rise, of everything.
    pub share_points: f64,
    /// Percentage of its misses that a cache may have more.
    pub misses_percent: f64,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { size_percent: 10.0, lines: 0, hole_bytes: 0, hot_share: 0.05, share_points: 0.05, misses_percent: 5.0 }
    }
}

/// Whether a growth is more than that percentage of a whole. What is just allowed is not: a hundredth of the percentage would be rounded.
fn exceeds(old: u64, new: u64, percent: f64, whole: u64) -> bool {
    new.saturating_sub(old) as f64 * 100.0 > percent * whole as f64
}

/// Chance that any share is called worse by mistake, whatever else is compared.
pub const LEVEL: f64 = 0.01;

/// [`DataKey::kind`](super::DataKey::kind) of what belongs to no data.
const UNATTRIBUTED: &str = "unattributed";

/// Which rule was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A hot field is on a later line, or on two.
    HotField,
    /// A field lies on two lines and did not.
    Crossing,
    /// A type takes more cache lines.
    Lines,
    /// A type grew.
    Size,
    /// A type has more bytes of holes.
    Holes,
    /// The share of data or of a field rose.
    Share,
    /// A cache misses more.
    Misses,
}

/// What is worse than allowed.
#[derive(Clone, Debug, PartialEq)]
pub enum Regression<'c> {
    /// Of a field of a type: [`Rule::HotField`] or [`Rule::Crossing`].
    Field(&'c TypeChange, &'c MovedField, Rule),
    /// Of a type: [`Rule::Lines`], [`Rule::Size`] or [`Rule::Holes`].
    Type(&'c TypeChange, Rule),
    /// Of data or a field.
    Share(&'c ShareChange),
    /// Of a cache.
    Misses(&'c MissChange),
}

impl Regression<'_> {
    /// The rule that it breaks.
    pub fn rule(&self) -> Rule {
        match self {
            Self::Field(_, _, rule) | Self::Type(_, rule) => *rule,
            Self::Share(_) => Rule::Share,
            Self::Misses(_) => Rule::Misses,
        }
    }
}

/// What is worse of types. `is_named_hot` says of a type and a field's path whether it is hot whatever was measured.
pub fn of_layouts<'c>(
    changes: &'c LayoutChanges,
    allowed: &Allowed,
    is_named_hot: impl Fn(&str, &str) -> bool,
) -> Vec<Regression<'c>> {
    let mut found = Vec::new();
    for change in &changes.changed {
        for moved in &change.moved {
            let is_hot = moved.field.heat >= allowed.hot_share || is_named_hot(&change.name, &moved.field.path);
            if is_hot && (moved.is_on_later_line() || moved.crosses_newly()) {
                found.push(Regression::Field(change, moved, Rule::HotField));
            } else if moved.crosses_newly() {
                found.push(Regression::Field(change, moved, Rule::Crossing));
            }
        }
        let (old, new) = (change.old, change.new);
        if new.lines > old.lines.saturating_add(allowed.lines) {
            found.push(Regression::Type(change, Rule::Lines));
        } else if exceeds(old.bytes, new.bytes, allowed.size_percent, old.bytes) {
            found.push(Regression::Type(change, Rule::Size));
        }
        if new.hole_bytes > old.hole_bytes.saturating_add(allowed.hole_bytes) {
            found.push(Regression::Type(change, Rule::Holes));
        }
    }
    found
}

/// What is worse of shares: what rose by more than is allowed, beyond chance. So a rise of just what is allowed is called worse in a
/// hundredth of all comparisons at most, and no rise almost never. What belongs to no data has no share that could be too large.
pub fn of_shares<'c>(changes: &'c ShareChanges, allowed: &Allowed) -> Vec<Regression<'c>> {
    let chances: Vec<f64> = changes
        .rows
        .iter()
        .map(|row| match row.difference.value > 0.0 && row.key.kind != UNATTRIBUTED {
            true => row.difference.chance(allowed.share_points),
            false => 1.0,
        })
        .collect();
    let beyond = beyond_chance(&chances, LEVEL);
    changes.rows.iter().zip(beyond).filter(|(_, is_beyond)| *is_beyond).map(|(row, _)| Regression::Share(row)).collect()
}

/// What is worse of misses: of a cache in all, and of data whose misses grew by that much of all misses of the cache.
pub fn of_misses<'c>(changes: &'c MissChanges, allowed: &Allowed) -> Vec<Regression<'c>> {
    let is_worse = |row: &&MissChange| exceeds(row.old, row.new, allowed.misses_percent, row.all_old);
    changes.rows.iter().filter(is_worse).map(Regression::Misses).collect()
}

#[cfg(test)]
mod tests {
    use super::super::chance::Sampled;
    use super::super::layouts::{compare, tests::type_};
    use super::super::shares::{self, DataShare};
    use super::super::{DataKey, misses};
    use super::*;

    fn rules(found: &[Regression<'_>]) -> Vec<Rule> {
        found.iter().map(Regression::rule).collect()
    }

    #[test]
    fn a_hot_field_that_is_pushed_over_the_line_is_told() {
        let old = type_("body", 64, &[("x", 0, 8, 0.4), ("mass", 56, 8, 0.3)]);
        let new = type_("body", 72, &[("extra", 0, 8, 0.0), ("x", 8, 8, 0.4), ("mass", 64, 8, 0.0)]);
        let changes = compare(std::slice::from_ref(&old), &[new]);
        let allowed = Allowed::default();
        // Its heat is that of the old run, where the new one saw none of it.
        let found = of_layouts(&changes, &allowed, |_, _| false);
        assert_eq!(rules(&found), [Rule::HotField, Rule::Lines]);
        let Regression::Field(change, moved, _) = &found[0] else { panic!("{found:?}") };
        let told = (change.name.as_str(), moved.field.path.as_str(), moved.old_offset, moved.field.offset);
        assert_eq!(told, ("body", "mass", 56, 64));
        // Without heat only the type is told, and the field where it is named.
        let allowed = Allowed { hot_share: 2.0, ..allowed };
        assert_eq!(rules(&of_layouts(&changes, &allowed, |_, _| false)), [Rule::Lines]);
        let named = |type_: &str, path: &str| (type_, path) == ("body", "mass");
        assert_eq!(rules(&of_layouts(&changes, &allowed, named)), [Rule::HotField, Rule::Lines]);
        let lax = Allowed { lines: 1, size_percent: 12.5, ..allowed };
        assert!(of_layouts(&changes, &lax, |_, _| false).is_empty());
        let grown = Allowed { lines: 1, size_percent: 12.0, ..lax };
        assert_eq!(rules(&of_layouts(&changes, &grown, |_, _| false)), [Rule::Size]);
        assert!(of_layouts(&compare(std::slice::from_ref(&old), std::slice::from_ref(&old)), &grown, named).is_empty());
    }

    /// 1.15 times 100 is less than 115 as computers have it, and 0.7 / 100 less than 7 / 1000.
    #[test]
    fn what_is_just_allowed_is_allowed() {
        assert!(!exceeds(100, 115, 15.0, 100) && exceeds(100, 116, 15.0, 100));
        assert!(!exceeds(40, 47, 0.7, 1000) && exceeds(40, 48, 0.7, 1000));
        assert!(!exceeds(100, 90, 0.0, 100) && exceeds(0, 1, 5.0, 0));
        let changes = compare(&[type_("t", 100, &[])], &[type_("t", 115, &[])]);
        let allowed = Allowed { size_percent: 15.0, ..Allowed::default() };
        assert!(of_layouts(&changes, &allowed, |_, _| false).is_empty());
    }

    #[test]
    fn holes_and_crossings_are_told() {
        let mut old = type_("t", 128, &[("a", 48, 16, 0.0)]);
        let mut new = type_("t", 128, &[("a", 56, 16, 0.0)]);
        (old.figures.hole_bytes, new.figures.hole_bytes) = (4, 8);
        let changes = compare(&[old], &[new]);
        let allowed = Allowed { hole_bytes: 3, ..Allowed::default() };
        assert_eq!(rules(&of_layouts(&changes, &allowed, |_, _| false)), [Rule::Crossing, Rule::Holes]);
        let allowed = Allowed { hole_bytes: 4, ..allowed };
        assert_eq!(rules(&of_layouts(&changes, &allowed, |_, _| false)), [Rule::Crossing]);
    }

    /// From 30 to 50 %, 5 points of which are allowed: with intervals of ±3 points that is 15 points of a reach of 4.2 (7 σ), with
    /// ±12 of a reach of 17 (1.7 σ).
    #[test]
    fn shares_must_rise_beyond_chance() {
        let run = |share: f64, reach: f64| {
            let share = Sampled { value: share, low: share - reach, high: share + reach };
            [DataShare { key: DataKey::default(), share, fields: Vec::new() }]
        };
        let unattributed = |share: f64| {
            let [data] = run(share, 0.03);
            [DataShare { key: DataKey { kind: UNATTRIBUTED.to_owned(), ..data.key }, ..data }]
        };
        let allowed = Allowed::default();
        let told = |old, new, reach| of_shares(&shares::compare(&run(old, reach), &run(new, reach)), &allowed).len();
        assert_eq!(
            [told(0.3, 0.5, 0.03), told(0.3, 0.5, 0.12), told(0.5, 0.3, 0.03), told(0.3, 0.34, 0.001)],
            [1, 0, 0, 0]
        );
        // What belongs to no data is nobody's to mend.
        let compared = shares::compare(&unattributed(0.3), &unattributed(0.5));
        assert_eq!(of_shares(&compared, &allowed).len(), 0);
    }

    #[test]
    fn misses_are_judged_by_their_part_of_all() {
        let run = |all, of_data| {
            let data = vec![misses::DataMisses { key: DataKey::default(), caches: vec![("L1".to_owned(), of_data)] }];
            let cache = misses::CacheMisses { name: "L1".to_owned(), geometry: None, misses: all };
            [misses::MachineMisses {
                name: "host".to_owned(),
                accesses: 1,
                caches: vec![cache],
                data,
                ..misses::MachineMisses::default()
            }]
        };
        let told = |new: [misses::MachineMisses; 1]| {
            of_misses(&misses::compare(&run(1000, 10), &new), &Allowed::default()).len()
        };
        // The data's misses doubled, which is a hundredth of all.
        assert_eq!([told(run(1010, 20)), told(run(1051, 10)), told(run(1000, 61)), told(run(900, 5))], [0, 1, 1, 0]);
    }
}
