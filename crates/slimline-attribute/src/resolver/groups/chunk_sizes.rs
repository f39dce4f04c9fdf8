//! Which sizes of chunks glibc's `malloc` makes for which requests.

use std::collections::BTreeMap;

use slimline_trace::wire::TAG_BYTES;

/// Chunks are multiples of this.
const ALIGNMENT: u64 = 16;
/// Usable bytes of the smallest chunk.
const LEAST_USABLE_BYTES: u64 = 24;
/// More than any memory has.
const MOST_BYTES: u64 = 1 << 48;
const MOST_BLOCKS: u64 = 1 << 40;

/// The usable size of the chunk that is made for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChunkSize(u64);

/// How well a chunk fits a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::resolver) enum Fit {
    /// Made for one of another size, or kept whole because its rest would be too small for a chunk.
    Larger,
    /// As it is made.
    Exact,
}

impl ChunkSize {
    /// Of a request for so many bytes.
    pub(super) fn of(bytes: u64) -> Self {
        // A damaged file may say any number.
        let chunk = (bytes.min(MOST_BYTES) + TAG_BYTES).next_multiple_of(ALIGNMENT);
        Self((chunk - TAG_BYTES).max(LEAST_USABLE_BYTES))
    }

    /// Usable bytes of the chunks that may be given for the request: the one that is made, and one with a rest that is too small
    /// for another.
    pub(super) fn usable_bytes(self) -> [u64; 2] {
        [self.0, self.0 + ALIGNMENT]
    }

    /// Whether a chunk with so many usable bytes may have been given for the request.
    fn fit(self, usable_bytes: u64) -> Option<Fit> {
        let [exact, larger] = self.usable_bytes();
        match usable_bytes {
            bytes if bytes == exact => Some(Fit::Exact),
            bytes if bytes == larger => Some(Fit::Larger),
            _ => None,
        }
    }
}

/// The sizes of a group's blocks.
#[derive(Clone, Debug, Default)]
pub(in crate::resolver) struct Sizes {
    /// With how many blocks there are of each, roughly.
    seen: BTreeMap<ChunkSize, u64>,
    /// Some call path allocates blocks of several sizes, and not all of these are known.
    pub(super) are_mixed: bool,
}

impl Sizes {
    pub(super) fn add(&mut self, size: ChunkSize, blocks: u64) {
        let before = self.seen.entry(size).or_default();
        *before = before.saturating_add(blocks).min(MOST_BLOCKS);
    }

    /// Whether no size is known.
    pub(super) fn are_none(&self) -> bool {
        self.seen.is_empty()
    }

    /// Whether a chunk with so many usable bytes may be one of these blocks, as far as their sizes are known.
    pub(in crate::resolver) fn fit(&self, usable_bytes: u64) -> Option<Fit> {
        self.seen.keys().filter_map(|size| size.fit(usable_bytes)).max()
    }

    /// How many of the blocks have so many usable bytes, roughly, of those whose size is known.
    pub(in crate::resolver) fn blocks_of(&self, usable_bytes: u64) -> u64 {
        let fitting = self.seen.iter().filter(|(size, _)| size.fit(usable_bytes).is_some());
        fitting.map(|(_, &blocks)| blocks).fold(0, u64::saturating_add)
    }

    /// Whether there may be blocks of any size.
    pub(in crate::resolver) fn are_mixed(&self) -> bool {
        self.are_mixed || self.seen.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_glibc() {
        // malloc_usable_size of glibc 2.36.
        for (bytes, usable) in [(0, 24), (1, 24), (24, 24), (25, 40), (40, 40), (41, 56), (100, 104), (200, 200)] {
            assert_eq!(ChunkSize::of(bytes), ChunkSize(usable), "{bytes}");
        }
        assert!(ChunkSize::of(u64::MAX).fit(24).is_none());
    }

    #[test]
    fn a_rest_that_is_no_chunk_stays_with_the_block() {
        let size = ChunkSize::of(24);
        assert_eq!([24, 40, 56, 8].map(|usable| size.fit(usable)), [Some(Fit::Exact), Some(Fit::Larger), None, None]);
        let mut sizes = Sizes::default();
        sizes.add(ChunkSize::of(24), 5);
        sizes.add(ChunkSize::of(30), 7);
        assert_eq!([24, 40, 56, 72].map(|usable| sizes.blocks_of(usable)), [5, 12, 7, 0]);
        assert_eq!(sizes.fit(40), Some(Fit::Exact));
        assert_eq!(sizes.fit(56), Some(Fit::Larger));
    }
}
