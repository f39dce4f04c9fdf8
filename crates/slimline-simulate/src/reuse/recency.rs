//! Lines in the order of their last accesses, of which one can ask how many come after a line.
//!
//! Each access has a time; a bit for each time says that it is some line's last. How many lines were accessed after a line is then
//! the number of bits after its time: those of its block are counted word by word, whole blocks by a Fenwick tree
//! (P. Fenwick, 1994; the method is Bennett's and Kruskal's, 1975). When all times are used up, the lines that there are
//! get new ones from 0 on, so that all of it takes memory in proportion to the lines.

/// Times of a block. Longer ones take longer to count where there is no instruction for that, shorter ones make more of
/// them.
const BLOCK: usize = 256;
const BLOCK_WORDS: usize = BLOCK / 64;
/// The line was never accessed.
const NEVER: u32 = u32::MAX;
const LEAST_TIMES: usize = 1 << 12;

/// The order of last accesses of lines that have small numbers.
#[derive(Clone, Debug)]
pub(super) struct Recency {
    /// Time of each line's last access.
    last: Vec<u32>,
    /// Line that was accessed at a time, as long as the bit is set.
    line_at: Vec<u32>,
    /// A bit for each time.
    is_last: Vec<u64>,
    /// Fenwick tree of the bits of each block before the open one.
    sums: Vec<u32>,
    /// Bits in all blocks before the open one.
    closed: u32,
    now: usize,
    /// Lines that were ever accessed.
    lines: usize,
    newest: u32,
}

impl Recency {
    pub(super) fn new() -> Self {
        let mut new = Self {
            last: Vec::new(),
            line_at: Vec::new(),
            is_last: Vec::new(),
            sums: Vec::new(),
            closed: 0,
            now: 0,
            lines: 0,
            newest: NEVER,
        };
        new.renumber();
        new
    }

    /// Lines that were accessed after this one was; none if it never was.
    pub(super) fn after(&self, line: u32) -> Option<u32> {
        if line == self.newest {
            return Some(0);
        }
        let time = *self.last.get(line as usize)?;
        if time == NEVER {
            return None;
        }
        let time = time as usize;
        let block = time / BLOCK;
        let is_open = block == self.now / BLOCK;
        let end = if is_open { self.now.div_ceil(64) } else { (block + 1) * BLOCK_WORDS };
        // Shifted twice: by 64 can't be done at once.
        let of_word = (self.is_last[time / 64] >> (time % 64) >> 1).count_ones();
        let of_others: u32 = self.is_last[time / 64 + 1..end].iter().map(|word| word.count_ones()).sum();
        let of_block = of_word + of_others;
        if is_open {
            return Some(of_block);
        }
        let of_open = self.lines as u32 - self.closed;
        Some(of_block + (self.closed - self.up_to(block)) + of_open)
    }

    /// This line is accessed now.
    pub(super) fn touch(&mut self, line: u32) {
        if line == self.newest {
            return;
        }
        if self.now == self.line_at.len() {
            self.renumber();
        }
        let at = line as usize;
        if at >= self.last.len() {
            self.last.resize((at + 1).next_power_of_two(), NEVER);
        }
        let before = self.last[at];
        if before == NEVER {
            self.lines += 1;
        } else {
            let before = before as usize;
            self.is_last[before / 64] &= !(1 << (before % 64));
            if before / BLOCK != self.now / BLOCK {
                self.closed -= 1;
                self.add(before / BLOCK, u32::MAX);
            }
        }
        self.last[at] = self.now as u32;
        self.line_at[self.now] = line;
        self.is_last[self.now / 64] |= 1 << (self.now % 64);
        self.newest = line;
        self.now += 1;
        if self.now.is_multiple_of(BLOCK) {
            self.close();
        }
    }

    /// The open block is full.
    fn close(&mut self) {
        let of_open = self.lines as u32 - self.closed;
        self.add(self.now / BLOCK - 1, of_open);
        self.closed += of_open;
    }

    /// Adds to a block, modulo 2^32.
    fn add(&mut self, block: usize, count: u32) {
        let mut at = block + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = sum.wrapping_add(count);
            at += at & at.wrapping_neg();
        }
    }

    /// Bits of the blocks up to this one, with it.
    fn up_to(&self, block: usize) -> u32 {
        let mut at = block + 1;
        let mut sum = 0_u32;
        while at > 0 {
            sum = sum.wrapping_add(self.sums[at]);
            at &= at - 1;
        }
        sum
    }

    /// Gives lines new times, from 0 on in the same order, and room for at least as many more.
    fn renumber(&mut self) {
        let mut next = 0;
        for word in 0..self.now.div_ceil(64) {
            let mut left = self.is_last[word];
            while left != 0 {
                let line = self.line_at[word * 64 + left.trailing_zeros() as usize];
                self.line_at[next] = line;
                self.last[line as usize] = next as u32;
                next += 1;
                left &= left - 1;
            }
        }
        // Times are told by 32 bits, as lines are; with a quarter of them in use there is room for three times as many.
        let times = (4 * self.lines).max(LEAST_TIMES).next_power_of_two();
        self.line_at.resize(times, 0);
        self.is_last.clear();
        self.is_last.resize(times / 64, 0);
        self.is_last[..next / 64].fill(u64::MAX);
        if !next.is_multiple_of(64) {
            self.is_last[next / 64] = (1 << (next % 64)) - 1;
        }
        self.sums.clear();
        self.sums.resize(times / BLOCK + 1, 0);
        self.closed = (next / BLOCK * BLOCK) as u32;
        for at in 1..self.sums.len() {
            if at <= next / BLOCK {
                self.sums[at] += BLOCK as u32;
            }
            let above = at + (at & at.wrapping_neg());
            if above < self.sums.len() {
                self.sums[above] += self.sums[at];
            }
        }
        self.now = next;
    }

    /// Forgets a line: as if it had never been accessed.
    pub(super) fn forget(&mut self, line: u32) {
        // Where others only have accessed it there may be no place for it.
        let Some(last) = self.last.get_mut(line as usize) else { return };
        let time = std::mem::replace(last, NEVER);
        if time == NEVER {
            return;
        }
        let time = time as usize;
        self.is_last[time / 64] &= !(1 << (time % 64));
        self.lines -= 1;
        if time / BLOCK != self.now / BLOCK {
            self.closed -= 1;
            self.add(time / BLOCK, u32::MAX);
        }
        if self.newest == line {
            self.newest = NEVER;
        }
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        4 * (self.last.capacity() + self.line_at.capacity() + self.sums.capacity()) + 8 * self.is_last.capacity()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by a list.
    #[derive(Default)]
    struct List(Vec<u32>);

    impl List {
        fn after(&self, line: u32) -> Option<u32> {
            self.0.iter().rev().position(|&found| found == line).map(|after| after as u32)
        }

        fn touch(&mut self, line: u32) {
            self.0.retain(|&found| found != line);
            self.0.push(line);
        }
    }

    #[test]
    fn counts_distinct_lines() {
        let mut recency = Recency::new();
        let after = [0, 1, 2, 1, 3, 4, 0, 0].map(|line| {
            let after = recency.after(line);
            recency.touch(line);
            after
        });
        assert_eq!(after, [None, None, None, Some(1), None, None, Some(4), Some(0)]);
        assert_eq!(recency.lines, 5);
    }

    /// Through many blocks and several renumberings.
    #[test]
    fn cyclic_walks_see_all_other_lines() {
        for lines in [255_u32, 256, 257, 5000] {
            let mut recency = Recency::new();
            for round in 0..12 {
                for line in 0..lines {
                    assert_eq!(recency.after(line), (round > 0).then_some(lines - 1), "{line} of {lines}");
                    recency.touch(line);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn equals_a_list(
            accesses in prop::collection::vec((0_u32..700, 0_u32..50), 0..6000),
        ) {
            let (mut recency, mut list) = (Recency::new(), List::default());
            for (line, doing) in accesses {
                // Squared: some lines far more often than others.
                let line = line * line / 700;
                prop_assert_eq!(recency.after(line), list.after(line));
                if doing == 0 && list.after(line).is_some() {
                    recency.forget(line);
                    list.0.retain(|&found| found != line);
                } else {
                    recency.touch(line);
                    list.touch(line);
                }
                prop_assert_eq!(recency.lines, list.0.len());
            }
        }
    }
}
