//! Lines by number: each line that is ever accessed gets one, in the order of first accesses.

use crate::numbers::Numbers;

/// Lines of a page of this table: those of 4 KiB where lines have 64 bytes.
const PAGE_LINES: usize = 64;
/// Most lines: their times must fit into 32 bits.
pub(super) const MOST: u32 = 1 << 29;
/// No number yet.
const NONE: u32 = u32::MAX;

/// Numbers of lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pages: Numbers,
    /// By the page's number.
    leaves: Vec<[u32; PAGE_LINES]>,
    count: u32,
}

impl Lines {
    /// Lines so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The number of a line, and whether that is new. None where there are [`MOST`] already.
    #[inline]
    pub(super) fn number(&mut self, line: u64) -> Option<(u32, bool)> {
        let page = self.pages.number(line / PAGE_LINES as u64) as usize;
        if page == self.leaves.len() {
            self.leaves.push([NONE; PAGE_LINES]);
        }
        let number = &mut self.leaves[page][(line % PAGE_LINES as u64) as usize];
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

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<[u32; PAGE_LINES]>() + self.pages.bytes()
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
