//! From which address to which accesses reach, and how many bytes they are, by key.

use std::ops::Range;

use crate::access::{Access, AccessKind, Consumer};

/// Of a key without accesses: any is before and behind.
const NOWHERE: Range<u64> = Range { start: u64::MAX, end: 0 };

/// Hands accesses on, and keeps how far those of each key reach.
pub struct Extents<'a> {
    to: &'a mut (dyn Consumer + Send),
    of_key: Vec<Range<u64>>,
    bytes: Vec<u64>,
}

impl<'a> Extents<'a> {
    /// Nothing was accessed yet.
    pub fn handing_on(to: &'a mut (dyn Consumer + Send)) -> Self {
        Self { to, of_key: Vec::new(), bytes: Vec::new() }
    }

    /// By key: the first address, and that behind the last; an empty range where there was no access.
    pub fn finish(self) -> Vec<Range<u64>> {
        self.of_key
    }

    /// The same, and by key the bytes that were loaded and stored: all of each access.
    pub fn finish_with_bytes(self) -> (Vec<Range<u64>>, Vec<u64>) {
        (self.of_key, self.bytes)
    }
}

impl Consumer for Extents<'_> {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let key = access.key as usize;
            if key >= self.of_key.len() {
                self.of_key.resize(key + 1, NOWHERE);
                self.bytes.resize(key + 1, 0);
            }
            let times = if access.kind == AccessKind::Modify { 2 } else { 1 };
            self.bytes[key] = self.bytes[key].saturating_add(times * u64::from(access.bytes.max(1)));
            let reach = &mut self.of_key[key];
            reach.start = reach.start.min(access.address);
            reach.end = reach.end.max(access.address.saturating_add(access.bytes.into()));
        }
        self.to.take(accesses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Work;

    struct Count(usize);

    impl Consumer for Count {
        fn take(&mut self, accesses: &[Access]) {
            self.0 += accesses.len();
        }
    }

    #[test]
    fn keys_reach_from_the_first_to_the_last() {
        let mut count = Count(0);
        let access = |key, kind, address| Access { address, key, bytes: 8, thread: 0, kind, work: Work::USUAL };
        let mut extents = Extents::handing_on(&mut count);
        extents.take(&[access(2, AccessKind::Load, 100), access(0, AccessKind::Store, 20)]);
        extents.take(&[access(2, AccessKind::Modify, 60), access(2, AccessKind::Fetch, 8)]);
        let (found, bytes) = extents.finish_with_bytes();
        assert_eq!(bytes, [8, 0, 24]);
        assert_eq!((found[2].clone(), found[0].clone(), found[1].is_empty(), count.0), (60..108, 20..28, true, 4));
    }
}
