//! Which bytes of each line in first-level data caches were used.

use rustc_hash::FxHashMap;

/// Lines that are in such a cache, by cache and line.
#[derive(Debug, Default)]
pub(super) struct UsedBytes {
    lines: FxHashMap<(u32, u64), Use>,
}

/// How a line is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// Whose access brought it.
    pub(super) key: u32,
    /// The bytes, as a mask.
    pub(super) bytes: u64,
}

impl UsedBytes {
    pub(super) fn came(&mut self, cache: u32, line: u64, key: u32) {
        self.lines.insert((cache, line), Use { key, bytes: 0 });
    }

    pub(super) fn used(&mut self, cache: u32, line: u64, bytes: u64) {
        if let Some(used) = self.lines.get_mut(&(cache, line)) {
            used.bytes |= bytes;
        }
    }

    pub(super) fn left(&mut self, cache: u32, line: u64) -> Option<Use> {
        self.lines.remove(&(cache, line))
    }

    /// Takes out all that is there.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Use> {
        self.lines.drain().map(|(_, used)| used)
    }
}
