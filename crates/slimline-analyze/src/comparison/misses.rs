//! Misses of simulated caches in two runs. Every access was replayed, so nothing of it is sampled.

use super::{DataKey, Renamed, paired};

/// What one machine did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineMisses {
    /// Its name.
    pub name: String,
    /// Loads and stores.
    pub accesses: u64,
    /// Its caches by name, nearest first, with their misses.
    pub caches: Vec<(String, u64)>,
    /// By data; empty where the trace does not tell.
    pub data: Vec<DataMisses>,
}

/// Misses of one data structure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataMisses {
    /// What it is.
    pub key: DataKey,
    /// Misses of caches by name.
    pub caches: Vec<(String, u64)>,
}

/// Misses of one cache, in all or of one data structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissChange {
    /// The machine.
    pub machine: String,
    /// The cache.
    pub cache: String,
    /// The data; none of all together.
    pub key: Option<DataKey>,
    /// Misses of the old run.
    pub old: u64,
    /// Of the new one.
    pub new: u64,
    /// All misses of that cache in the old run.
    pub all_old: u64,
}

impl MissChange {
    /// By how much of what it was it has grown: 0.1 is a tenth more; `None` where there were none.
    pub fn growth(&self) -> Option<f64> {
        (self.old > 0).then(|| self.new as f64 / self.old as f64 - 1.0)
    }

    /// By how much of all misses of the cache it has grown.
    pub fn weight(&self) -> f64 {
        (self.new as f64 - self.old as f64) / self.all_old.max(1) as f64
    }
}

/// What became of misses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissChanges {
    /// Of each machine and cache in all, then by data, the largest difference first.
    pub rows: Vec<MissChange>,
    /// Accesses of each machine: its name, of the old and of the new run.
    pub accesses: Vec<(String, u64, u64)>,
    /// Data that was known again by what it is.
    pub renamed: Vec<Renamed>,
    /// Data of the old run only.
    pub gone: Vec<DataKey>,
    /// Data of the new run only.
    pub added: Vec<DataKey>,
    /// Machines, and caches of machines, that only one run has.
    pub unmatched: Vec<String>,
}

/// Compares what machines of one name did.
pub fn compare(old: &[MachineMisses], new: &[MachineMisses]) -> MissChanges {
    let mut changes = MissChanges::default();
    for before in old {
        let Some(after) = new.iter().find(|after| after.name == before.name) else {
            changes.unmatched.push(before.name.clone());
            continue;
        };
        changes.accesses.push((before.name.clone(), before.accesses, after.accesses));
        let keys = |data: &[DataMisses]| data.iter().map(|data| data.key.clone()).collect::<Vec<_>>();
        let (old_keys, new_keys) = (keys(&before.data), keys(&after.data));
        let pairs = paired(&old_keys, &new_keys);
        changes.renamed.extend(pairs.renamed(&old_keys, &new_keys));
        for (cache, all_old) in &before.caches {
            let of = |caches: &[(String, u64)]| caches.iter().find(|other| other.0 == *cache).map(|found| found.1);
            let Some(all_new) = of(&after.caches) else {
                changes.unmatched.push(format!("{} {cache}", before.name));
                continue;
            };
            let row = |key, old, new| MissChange {
                machine: before.name.clone(),
                cache: cache.clone(),
                key,
                old,
                new,
                all_old: *all_old,
            };
            changes.rows.push(row(None, *all_old, all_new));
            let mut by_data: Vec<MissChange> = pairs
                .both
                .iter()
                .map(|&(old, new, _)| (&before.data[old], &after.data[new]))
                .filter_map(|(old, new)| Some(row(Some(new.key.clone()), of(&old.caches)?, of(&new.caches)?)))
                .collect();
            by_data.sort_by_key(|change| std::cmp::Reverse(change.new.abs_diff(change.old)));
            changes.rows.extend(by_data);
        }
        changes.gone.extend(pairs.old.iter().map(|&row| before.data[row].key.clone()));
        changes.added.extend(pairs.new.iter().map(|&row| after.data[row].key.clone()));
    }
    let is_new = |after: &&MachineMisses| old.iter().all(|before| before.name != after.name);
    changes.unmatched.extend(new.iter().filter(is_new).map(|after| after.name.clone()));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_compared_by_cache_and_data() {
        let data = |name: &str, misses| DataMisses {
            key: DataKey { name: name.to_owned(), ..DataKey::default() },
            caches: vec![("L1".to_owned(), misses)],
        };
        let machine = |name: &str, all, data| MachineMisses {
            name: name.to_owned(),
            accesses: 1000,
            caches: vec![("L1".to_owned(), all)],
            data,
        };
        let old = [machine("host", 100, vec![data("a", 60), data("b", 40)]), machine("small", 5, vec![])];
        let new = [machine("host", 150, vec![data("a", 110), data("c", 40)])];
        let found = compare(&old, &new);
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|row| (row.key.as_ref().map(|key| key.name.as_str()), row.growth(), row.weight()))
            .collect();
        assert_eq!(rows, [(None, Some(0.5), 0.5), (Some("a"), Some(110.0 / 60.0 - 1.0), 0.5)]);
        assert_eq!((found.gone[0].name.as_str(), found.added[0].name.as_str()), ("b", "c"));
        assert_eq!(found.unmatched, ["small"]);
    }
}
