//! Misses of simulated caches in two runs. Every access was replayed, so nothing of it is sampled.

use std::collections::BTreeSet;

use super::{DataKey, Renamed, paired};

/// What one machine did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineMisses {
    /// Its name.
    pub name: String,
    /// Its cores; none where not known.
    pub cores: Option<u32>,
    /// Loads and stores.
    pub accesses: u64,
    /// Its caches, nearest first.
    pub caches: Vec<CacheMisses>,
    /// By data; empty where the trace does not tell.
    pub data: Vec<DataMisses>,
}

impl MachineMisses {
    /// In what a machine of this name is another one: every computer is called `host`.
    pub fn differences(&self, new: &Self) -> Vec<Unmatched> {
        let machine = || self.name.clone();
        let cores = self.cores.zip(new.cores).filter(|(old, new)| old != new);
        let cores = cores.map(|(old, new)| Unmatched::Cores { machine: machine(), old, new });
        let caches = self.caches.iter().filter_map(|cache| {
            let other = new.caches.iter().find(|other| other.name == cache.name)?;
            let (old, new) = cache.geometry.zip(other.geometry).filter(|(old, new)| old != new)?;
            Some(Unmatched::Cache { machine: machine(), cache: cache.name.clone(), old, new })
        });
        cores.into_iter().chain(caches).collect()
    }

    /// Whether cycles are the same thing on both: none has a cache that the other one lacks, either.
    pub fn costs_as(&self, new: &Self) -> bool {
        let names = |machine: &Self| machine.caches.iter().map(|cache| cache.name.clone()).collect::<BTreeSet<_>>();
        self.name == new.name && self.differences(new).is_empty() && names(self) == names(new)
    }
}

/// What a cache of a machine did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheMisses {
    /// Its name.
    pub name: String,
    /// What it is; none where not known.
    pub geometry: Option<Geometry>,
    /// Its misses.
    pub misses: u64,
}

/// What a cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Of each.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
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
    /// What has no counterpart.
    pub unmatched: Vec<Unmatched>,
}

/// A machine, or a cache of one, that is not compared, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// Only one run has it.
    OneRun {
        /// `host`, or `host L2`.
        name: String,
        /// Whether it is the new one.
        is_new: bool,
    },
    /// Another computer of the same name: its cores are others.
    Cores {
        /// The machine.
        machine: String,
        /// Of the old run.
        old: u32,
        /// Of the new one.
        new: u32,
    },
    /// Another computer of the same name: a cache is another one.
    Cache {
        /// The machine.
        machine: String,
        /// The cache.
        cache: String,
        /// Of the old run.
        old: Geometry,
        /// Of the new one.
        new: Geometry,
    },
}

/// Compares what machines of one name did that are the same.
pub fn compare(old: &[MachineMisses], new: &[MachineMisses]) -> MissChanges {
    let mut changes = MissChanges::default();
    for before in old {
        let Some(after) = new.iter().find(|after| after.name == before.name) else {
            changes.unmatched.push(Unmatched::OneRun { name: before.name.clone(), is_new: false });
            continue;
        };
        let differences = before.differences(after);
        if !differences.is_empty() {
            changes.unmatched.extend(differences);
            continue;
        }
        changes.accesses.push((before.name.clone(), before.accesses, after.accesses));
        let keys = |data: &[DataMisses]| data.iter().map(|data| data.key.clone()).collect::<Vec<_>>();
        let (old_keys, new_keys) = (keys(&before.data), keys(&after.data));
        let pairs = paired(&old_keys, &new_keys);
        changes.renamed.extend(pairs.renamed(&old_keys, &new_keys));
        for CacheMisses { name: cache, misses: all_old, .. } in &before.caches {
            let Some(all_new) = after.caches.iter().find(|other| other.name == *cache).map(|found| found.misses) else {
                changes.unmatched.push(of_one_run(before, cache, false));
                continue;
            };
            let of = |caches: &[(String, u64)]| caches.iter().find(|other| other.0 == *cache).map(|found| found.1);
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
        let is_fresh = |cache: &&CacheMisses| before.caches.iter().all(|other| other.name != cache.name);
        let fresh = after.caches.iter().filter(is_fresh);
        changes.unmatched.extend(fresh.map(|cache| of_one_run(after, &cache.name, true)));
        changes.gone.extend(pairs.old.iter().map(|&row| before.data[row].key.clone()));
        changes.added.extend(pairs.new.iter().map(|&row| after.data[row].key.clone()));
    }
    let is_new = |after: &&MachineMisses| old.iter().all(|before| before.name != after.name);
    let only_new = new.iter().filter(is_new);
    changes.unmatched.extend(only_new.map(|after| Unmatched::OneRun { name: after.name.clone(), is_new: true }));
    // Each machine tells of the same data.
    keep_first(&mut changes.renamed);
    keep_first(&mut changes.gone);
    keep_first(&mut changes.added);
    changes
}

fn of_one_run(machine: &MachineMisses, cache: &str, is_new: bool) -> Unmatched {
    Unmatched::OneRun { name: format!("{} {cache}", machine.name), is_new }
}

/// Leaves the first of each that are the same.
fn keep_first<T: Clone + Ord>(list: &mut Vec<T>) {
    let mut seen = BTreeSet::new();
    list.retain(|item| seen.insert(item.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(name: &str, misses: u64) -> DataMisses {
        DataMisses {
            key: DataKey { name: name.to_owned(), ..DataKey::default() },
            caches: vec![("L1".to_owned(), misses)],
        }
    }

    fn machine(name: &str, misses: u64, data: Vec<DataMisses>) -> MachineMisses {
        let caches = vec![CacheMisses { name: "L1".to_owned(), geometry: None, misses }];
        MachineMisses { name: name.to_owned(), cores: None, accesses: 1000, caches, data }
    }

    fn of_one_run(name: &str, is_new: bool) -> Unmatched {
        Unmatched::OneRun { name: name.to_owned(), is_new }
    }

    #[test]
    fn misses_are_compared_by_cache_and_data() {
        let old = [machine("host", 100, vec![data("a", 60), data("b", 40)]), machine("small", 5, vec![])];
        let new = [machine("host", 150, vec![data("a", 110), data("c", 40)])];
        let found = compare(&old, &new);
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|row| (row.key.as_ref().map(|key| key.name.as_str()), row.growth(), row.all_old))
            .collect();
        assert_eq!(rows, [(None, Some(0.5), 100), (Some("a"), Some(110.0 / 60.0 - 1.0), 100)]);
        assert_eq!((found.gone[0].name.as_str(), found.added[0].name.as_str()), ("b", "c"));
        assert_eq!(found.unmatched, [of_one_run("small", false)]);
    }

    /// Two machines tell of the same data.
    #[test]
    fn data_of_several_machines_is_told_once() {
        let run = |name: &str| ["host", "small"].map(|machine_name| machine(machine_name, 5, vec![data(name, 5)]));
        let found = compare(&run("a"), &run("b"));
        assert_eq!((found.accesses.len(), found.gone.len(), found.added.len()), (2, 1, 1));
        let moved = |function: &str| {
            let mut of = data("a", 5);
            of.key.function = function.to_owned();
            ["host", "small"].map(|name| machine(name, 5, vec![of.clone()]))
        };
        assert_eq!(compare(&moved("f"), &moved("g")).renamed.len(), 1);
    }

    #[test]
    fn another_computer_of_the_same_name_is_another_one() {
        let of = |cores: Option<u32>, bytes: Option<u64>| {
            let mut machine = machine("host", 5, vec![]);
            machine.cores = cores;
            machine.caches[0].geometry = bytes.map(|bytes| Geometry { bytes, ways: 8, line_bytes: 64 });
            [machine]
        };
        let old = of(Some(4), Some(32768));
        let found = compare(&old, &of(Some(8), Some(49152)));
        assert!(found.rows.is_empty() && found.accesses.is_empty());
        let two_levels = || {
            let mut of = of(Some(4), Some(32768));
            of[0].caches.push(CacheMisses { name: "L2".to_owned(), geometry: None, misses: 1 });
            of
        };
        assert!(two_levels()[0].costs_as(&two_levels()[0]));
        assert!(!two_levels()[0].costs_as(&old[0]) && !old[0].costs_as(&two_levels()[0]));
        let geometry = |bytes| Geometry { bytes, ways: 8, line_bytes: 64 };
        let cache = Unmatched::Cache {
            machine: "host".to_owned(),
            cache: "L1".to_owned(),
            old: geometry(32768),
            new: geometry(49152),
        };
        assert_eq!(found.unmatched, [Unmatched::Cores { machine: "host".to_owned(), old: 4, new: 8 }, cache]);
        // What is not known is not another one.
        for new in [of(Some(4), Some(32768)), of(None, None)] {
            let found = compare(&old, &new);
            assert_eq!((found.rows.len(), found.unmatched.len()), (1, 0));
        }
    }

    #[test]
    fn caches_of_either_run_only_are_told() {
        let mut new = machine("host", 5, vec![]);
        new.caches[0].name = "L0".to_owned();
        let found = compare(&[machine("host", 5, vec![])], &[new]);
        assert_eq!(found.unmatched, [of_one_run("host L1", false), of_one_run("host L0", true)]);
        assert!(found.rows.is_empty());
    }
}
