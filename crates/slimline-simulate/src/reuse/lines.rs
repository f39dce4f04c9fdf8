//! Lines by number: each line that is ever accessed gets one, in the order of first accesses.

use rustc_hash::FxHashMap;

/// Lines of a page of this table: those of 4 KiB where lines have 64 bytes.
const PAGE_LINES: usize = 64;
/// Most lines: their times must fit into 32 bits.
pub(super) const MOST: u32 = 1 << 29;
/// No number yet.
const NONE: u32 = u32::MAX;
/// Pages that are found without a look into the table.
const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 6;

/// Numbers of lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Leaf of each page.
    leaf_of: FxHashMap<u64, u32>,
    leaves: Vec<[u32; PAGE_LINES]>,
    /// Pages that were looked up last: page + 1 and leaf.
    recent: Vec<(u64, u32)>,
    count: u32,
}

impl Lines {
    /// Lines so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The number of a line, and whether that is new. None where there are [`MOST`] already.
    pub(super) fn number(&mut self, line: u64) -> Option<(u32, bool)> {
        let (page, place) = (line / PAGE_LINES as u64, (line % PAGE_LINES as u64) as usize);
        let leaf = self.leaf(page);
        let number = &mut self.leaves[leaf as usize][place];
        if *number != NONE {
            return Some((*number, false));
        }
        if self.count == MOST {
            return None;
        }
        *number = self.count;
        self.count += 1;
        Some((self.count - 1, true))
    }

    fn leaf(&mut self, page: u64) -> u32 {
        if self.recent.is_empty() {
            self.recent = vec![(0, 0); RECENT];
        }
        // Arrays are often far apart by powers of two: multiplied by the golden ratio they have places of their own.
        let place = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS);
        let recent = &mut self.recent[place as usize];
        if recent.0 == page + 1 {
            return recent.1;
        }
        let next = self.leaves.len() as u32;
        let leaf = *self.leaf_of.entry(page).or_insert(next);
        if leaf == next {
            self.leaves.push([NONE; PAGE_LINES]);
        }
        *recent = (page + 1, leaf);
        leaf
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<[u32; PAGE_LINES]>() + self.leaf_of.capacity() * 2 * size_of::<(u64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_one_number() {
        let mut lines = Lines::default();
        let far = u64::MAX / 64;
        for (line, expected) in [
            (5, (0, true)),
            (6, (1, true)),
            (5, (0, false)),
            (far, (2, true)),
            (5 + 64 * 64, (3, true)),
            (far, (2, false)),
            (6, (1, false)),
        ] {
            assert_eq!(lines.number(line), Some(expected));
        }
        assert_eq!(lines.count(), 4);
    }
}
