//! A bounded sample of keys that does not depend on the order or the place in which they were seen.
//!
//! Of all distinct keys the [`Bottom`] keeps the ones with the smallest hash, each with everything ever added to it: a
//! key that is kept at the end was among the smallest at every moment and in every shard, so its value is whole. Where
//! there were no more keys than fit, it is the exact table.

/// What is added up for a key.
pub(crate) trait Add {
    /// Adds `other`.
    fn add(&mut self, other: Self);
}

impl Add for u64 {
    fn add(&mut self, other: Self) {
        *self += other;
    }
}

/// The keys with the smallest hashes, at most `K`, with a value each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bottom<V, const K: usize> {
    /// By hash.
    entries: Vec<Entry<V>>,
    /// Entry found last: most sites that stay in place touch one key again and again.
    last: usize,
    /// Greatest hash that can still get in: that of the last entry once there are `K`. Here because most keys of a full
    /// sample get no further than this comparison.
    limit: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry<V> {
    hash: u64,
    key: u64,
    value: V,
}

impl<V, const K: usize> Default for Bottom<V, K> {
    fn default() -> Self {
        Self { entries: Vec::new(), last: 0, limit: u64::MAX }
    }
}

impl<V: Add + Default, const K: usize> Bottom<V, K> {
    /// Adds `value` to what `key` has.
    #[inline]
    pub(crate) fn add(&mut self, key: u64, value: V) {
        if let Some(of_key) = self.of(key) {
            of_key.add(value);
        }
    }

    /// What `key` has, for adding to it; nothing yet where it is new. `None` where it is not among the smallest.
    #[inline]
    pub(crate) fn of(&mut self, key: u64) -> Option<&mut V> {
        let hash = mix(key);
        if hash <= self.limit { self.of_hashed(hash, key) } else { None }
    }

    fn of_hashed(&mut self, hash: u64, key: u64) -> Option<&mut V> {
        if self.entries.get(self.last).is_none_or(|entry| entry.key != key) {
            self.last = match self.entries.binary_search_by_key(&hash, |entry| entry.hash) {
                Ok(at) => at,
                Err(at) if at == K => return None,
                Err(at) => {
                    self.insert(at, Entry { hash, key, value: V::default() });
                    at
                }
            };
        }
        self.entries.get_mut(self.last).map(|entry| &mut entry.value)
    }

    fn insert(&mut self, at: usize, entry: Entry<V>) {
        if self.entries.len() == K {
            self.entries.pop();
        }
        self.entries.insert(at, entry);
        if self.entries.len() == K {
            self.limit = self.entries[K - 1].hash;
        }
    }

    /// Adds what another saw.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.entries.is_empty() {
            *self = other;
            return;
        }
        for entry in other.entries {
            if entry.hash > self.limit {
                break;
            }
            if let Some(of_key) = self.of_hashed(entry.hash, entry.key) {
                of_key.add(entry.value);
            }
        }
    }

    /// Keys and values, by hash of the key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.entries.iter().map(|entry| (entry.key, &entry.value))
    }
}

/// A bijection of 64 bits that leaves no pattern (the finalizer of SplitMix64; Steele, Lea, Flood 2014). A plain
/// multiplication would keep arithmetic progressions regular, and a GCD of what it selects would find that regularity.
pub(crate) fn mix(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Any cut into shards, any order of merging: the kept keys and their sums are those of one pass, and the sums
        /// are those of all additions.
        #[test]
        fn shards_merge_to_the_whole(
            additions in proptest::collection::vec((0u64..40, 1u64..5, 0usize..4), 0..200)
        ) {
            let mut whole = Bottom::<u64, 8>::default();
            let mut shards = vec![Bottom::<u64, 8>::default(); 4];
            let mut sums = BTreeMap::<u64, u64>::new();
            for &(key, value, shard) in &additions {
                whole.add(key, value);
                shards[shard].add(key, value);
                *sums.entry(key).or_default() += value;
            }
            let mut merged = shards.pop().unwrap();
            while let Some(shard) = shards.pop() {
                merged.merge(shard);
            }
            let rows = |of: &Bottom<u64, 8>| of.iter().map(|(key, value)| (key, *value)).collect::<Vec<_>>();
            prop_assert_eq!(rows(&whole), rows(&merged));
            prop_assert_eq!(whole.iter().count(), sums.len().min(8));
            for (key, value) in whole.iter() {
                prop_assert_eq!(sums[&key], *value);
            }
        }
    }
}
