//! How many lines of data are accessed at all, as long as they are few.

use rustc_hash::FxHashMap;

use crate::access::{Access, AccessKind, Consumer};

/// Lines that have a bit in one word.
const LINES_OF_WORD: u64 = u64::BITS as u64;

/// Counts different lines of data up to as many as a cache has: of more it keeps nothing, and takes no time.
#[derive(Clone, Debug)]
pub struct Footprint {
    line_bytes: u64,
    most_lines: u64,
    lines: u64,
    /// Accessed lines of 64 in a row, by the number of these.
    words: FxHashMap<u64, u64>,
}

impl Footprint {
    /// Of lines of so many bytes (a power of two), as long as there are no more than this.
    pub fn new(line_bytes: u32, most_lines: u64) -> Self {
        Self { line_bytes: line_bytes.max(1).into(), most_lines, lines: 0, words: FxHashMap::default() }
    }

    /// Bytes of the lines that were accessed; none where there are more than were to be counted.
    pub fn bytes(&self) -> Option<u64> {
        (self.lines <= self.most_lines).then(|| self.lines.saturating_mul(self.line_bytes))
    }

    fn add(&mut self, line: u64) {
        let word = self.words.entry(line / LINES_OF_WORD).or_default();
        let bit = 1 << (line % LINES_OF_WORD);
        if *word & bit == 0 {
            *word |= bit;
            self.lines += 1;
            if self.lines > self.most_lines {
                self.words = FxHashMap::default();
            }
        }
    }
}

impl Consumer for Footprint {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let (first, last) = access.ends();
            for line in first / self.line_bytes..=last / self.line_bytes {
                if self.lines > self.most_lines {
                    return;
                }
                self.add(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Work;

    fn footprint(most_lines: u64, accesses: &[(u64, u32, AccessKind)]) -> Option<u64> {
        let mut footprint = Footprint::new(64, most_lines);
        for &(address, bytes, kind) in accesses {
            footprint.take(&[Access { address, key: 0, bytes, thread: 0, kind, work: Work::USUAL }]);
        }
        footprint.bytes()
    }

    #[test]
    fn lines_count_once() {
        use AccessKind::{Fetch, Load, Store};
        let accesses =
            [(0x1000, 8, Load), (0x1038, 8, Store), (0x103f, 2, Load), (0x1040, 64, Load), (0x9000, 8, Fetch)];
        assert_eq!(footprint(2, &accesses), Some(128));
        assert_eq!(footprint(2, &[]), Some(0));
    }

    #[test]
    fn more_than_is_to_be_counted_is_not() {
        let loads: Vec<_> = (0..3).map(|line| (line * 0x10000, 8, AccessKind::Load)).collect();
        assert_eq!(footprint(3, &loads), Some(192));
        assert_eq!(footprint(2, &loads), None);
        assert_eq!(footprint(2, &[(u64::MAX, u32::MAX, AccessKind::Load)]), None);
    }
}
