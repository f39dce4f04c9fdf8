//! Shares of data and fields in two runs.

use super::chance::{Difference, Sampled, beyond_chance};
use super::{DataKey, Renamed, paired};

/// Data of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataShare {
    /// What it is.
    pub key: DataKey,
    /// Of everything.
    pub share: Sampled,
    /// Its fields by name, with their shares of the data.
    pub fields: Vec<(String, Sampled)>,
}

/// Data, or a field of it, of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareChange {
    /// The data, as the new run has it.
    pub key: DataKey,
    /// The field; none of the data as a whole.
    pub field: Option<String>,
    /// Of everything, in the old run.
    pub old: Sampled,
    /// In the new one.
    pub new: Sampled,
    /// How they differ.
    pub difference: Difference,
    /// Chance that equal shares show that; not corrected for many comparisons.
    pub chance: f64,
    /// Whether it is beyond chance, corrected: 5 % that any row of the comparison is by mistake.
    pub is_beyond_chance: bool,
}

/// What became of shares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShareChanges {
    /// Of data of both runs and its fields, largest difference first.
    pub rows: Vec<ShareChange>,
    /// Data that was known again by what it is.
    pub renamed: Vec<Renamed>,
    /// Data of the old run only, where it has any share.
    pub gone: Vec<(DataKey, Sampled)>,
    /// Data of the new run only, likewise.
    pub added: Vec<(DataKey, Sampled)>,
}

/// Chance that any row of a comparison is called different by mistake.
pub const LEVEL: f64 = 0.05;

/// Compares two runs.
pub fn compare(old: &[DataShare], new: &[DataShare]) -> ShareChanges {
    let keys = |data: &[DataShare]| data.iter().map(|data| data.key.clone()).collect::<Vec<_>>();
    let (old_keys, new_keys) = (keys(old), keys(new));
    let pairs = paired(&old_keys, &new_keys);
    let renamed = pairs.renamed(&old_keys, &new_keys);
    let mut rows = Vec::new();
    for (before, after, _) in pairs.both {
        let (before, after) = (&old[before], &new[after]);
        rows.push(change(after, None, before.share, after.share));
        for (field, share) in &after.fields {
            let earlier = before.fields.iter().find(|(name, _)| name == field);
            // What neither run uses is no comparison to correct for.
            let earlier = earlier.filter(|(_, earlier)| earlier.value > 0.0 || share.value > 0.0);
            if let Some((_, earlier)) = earlier {
                let (was, is) = (before.share.of_part(*earlier), after.share.of_part(*share));
                rows.push(change(after, Some(field.clone()), was, is));
            }
        }
    }
    let chances: Vec<f64> = rows.iter().map(|row| row.chance).collect();
    for (row, is_beyond_chance) in rows.iter_mut().zip(beyond_chance(&chances, LEVEL)) {
        row.is_beyond_chance = is_beyond_chance;
    }
    rows.sort_by(|a, b| b.difference.value.abs().total_cmp(&a.difference.value.abs()));
    let only =
        |data: &[DataShare], rows: &[usize]| rows.iter().map(|&row| (data[row].key.clone(), data[row].share)).collect();
    ShareChanges { rows, renamed, gone: only(old, &pairs.old), added: only(new, &pairs.new) }
}

fn change(data: &DataShare, field: Option<String>, old: Sampled, new: Sampled) -> ShareChange {
    let difference = Difference::between(old, new);
    let chance = difference.chance(0.0);
    ShareChange { key: data.key.clone(), field, old, new, difference, chance, is_beyond_chance: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(value: f64, reach: f64) -> Sampled {
        Sampled { value, low: value - reach, high: value + reach }
    }

    fn data(name: &str, share: Sampled, fields: &[(&str, f64)]) -> DataShare {
        DataShare {
            key: DataKey { name: name.to_owned(), ..DataKey::default() },
            share,
            fields: fields.iter().map(|&(name, share)| (name.to_owned(), sampled(share, 0.05))).collect(),
        }
    }

    #[test]
    fn differences_are_told_with_their_chance() {
        let old = [data("a", sampled(0.3, 0.03), &[("x", 0.5), ("y", 0.5)]), data("b", sampled(0.6, 0.03), &[])];
        let new = [data("a", sampled(0.5, 0.03), &[("x", 0.9), ("z", 0.1)]), data("c", sampled(0.4, 0.03), &[])];
        let found = compare(&old, &new);
        let rows: Vec<_> = found.rows.iter().map(|row| (row.field.as_deref(), row.is_beyond_chance)).collect();
        // x rose from 0.15 to 0.45 of everything, a from 0.3 to 0.5; y and z are of one run each.
        assert_eq!(rows, [(Some("x"), true), (None, true)]);
        assert!((found.rows[0].difference.value - 0.3).abs() < 1e-12);
        assert_eq!((found.gone[0].0.name.as_str(), found.added[0].0.name.as_str()), ("b", "c"));
        let same = compare(&old, &old);
        assert!(same.rows.iter().all(|row| !row.is_beyond_chance) && same.gone.is_empty());
    }
}
