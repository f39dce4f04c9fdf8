//! What else runs between accesses of a nest.

use rustc_hash::FxHashMap;
use slimline_simulate::access::Access;

/// Accesses between two of a nest that are looked at.
const MOST_BETWEEN: usize = 1024;
/// Other keys of a nest that are told apart.
const MOST_KEYS: usize = 256;

/// Accesses in a nest that do not walk with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKey {
    /// Their key.
    pub key: u32,
    /// How many.
    pub count: u64,
    /// Whether any stores.
    pub stores: bool,
}

/// Accesses since the last one of a nest.
#[derive(Clone, Debug, Default)]
pub(super) struct Between {
    /// Keys, and whether these accesses store.
    accesses: Vec<(u32, bool)>,
    has_more: bool,
}

impl Between {
    pub(super) fn note(&mut self, access: &Access) {
        self.has_more |= self.accesses.len() >= MOST_BETWEEN;
        if !self.has_more {
            self.accesses.push((access.key, access.kind.stores()));
        }
    }

    /// There were none.
    pub(super) fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }

    /// There were more than are looked at.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(super) fn clear(&mut self) {
        self.accesses.clear();
        self.has_more = false;
    }
}

/// Other accesses in a nest, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    of_key: FxHashMap<u32, OtherKey>,
    has_more_keys: bool,
}

impl Others {
    /// Those between two of its accesses are in it.
    pub(super) fn take(&mut self, between: &Between) {
        for &(key, stores) in &between.accesses {
            if self.of_key.len() >= MOST_KEYS && !self.of_key.contains_key(&key) {
                self.has_more_keys = true;
                continue;
            }
            let other = self.of_key.entry(key).or_insert(OtherKey { key, count: 0, stores: false });
            other.count += 1;
            other.stores |= stores;
        }
    }

    /// There are none.
    pub(super) fn is_empty(&self) -> bool {
        self.of_key.is_empty()
    }

    /// There are more keys than are told apart.
    pub(super) fn has_more_keys(&self) -> bool {
        self.has_more_keys
    }

    /// All of them, by key.
    pub(super) fn into_keys(self) -> Vec<OtherKey> {
        let mut all: Vec<OtherKey> = self.of_key.into_values().collect();
        all.sort_unstable_by_key(|other| other.key);
        all
    }
}
