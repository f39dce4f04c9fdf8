//! Lines in the order of their last accesses, of which one can ask how many come after a line.
//!
//! Each access has a time; a bit for each time says that it is some line's last (Bennett and Kruskal, 1975). How many lines
//! were accessed after a line is then the number of bits after its time: those of its block of times are counted word by
//! word, those of the blocks behind by sums, sums of sums, and so on, [`FAN`] of them at each level. To move a bit changes
//! one sum a level, and only up to the level where its old and its new place have the same one. When all times are used up,
//! the lines that there are get new ones from 0 on, so that all of it takes memory in proportion to the lines.

/// Times of a block. Longer ones take longer to count where there is no instruction for that, shorter ones make more of
/// them.
const BLOCK: usize = 1 << BLOCK_BITS;
const BLOCK_BITS: u32 = 8;
const BLOCK_WORDS: usize = BLOCK / 64;
/// Sums that are added up together: a line of most caches.
const FAN: usize = 1 << FAN_BITS;
const FAN_BITS: u32 = 4;
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
    is_last: Vec<[u64; BLOCK_WORDS]>,
    /// By level: sums of the bits of each block, then of [`FAN`] of those, and so on.
    sums: Vec<Vec<[u32; FAN]>>,
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
            now: 0,
            lines: 0,
            newest: NEVER,
        };
        new.renumber();
        new
    }

    /// Lines that were accessed after this one was; none if it never was.
    #[inline]
    pub(super) fn after(&self, line: u32) -> Option<u32> {
        if line == self.newest {
            return Some(0);
        }
        let time = self.time(line)?;
        let mut after = bits_after(&self.is_last[time / BLOCK], time % BLOCK);
        // The last time that has a bit is before this one.
        let (mut time, mut now) = (time / BLOCK, (self.now - 1) / BLOCK);
        for sums in &self.sums {
            if time == now {
                break;
            }
            after += sum_after(&sums[time / FAN], time % FAN);
            (time, now) = (time / FAN, now / FAN);
        }
        Some(after)
    }

    fn time(&self, line: u32) -> Option<usize> {
        self.last.get(line as usize).filter(|&&time| time != NEVER).map(|&time| time as usize)
    }

    /// Reads what will be needed of this line, so that it is near when it is: any number, for the compiler to keep the reads.
    #[inline]
    pub(super) fn read_ahead(&self, line: u32) -> u64 {
        self.time(line).map_or(0, |time| self.is_last[time / BLOCK][0])
    }

    /// This line is accessed now.
    #[inline]
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
        let now = self.now;
        let before = std::mem::replace(&mut self.last[at], now as u32);
        self.line_at[now] = line;
        self.is_last[now / BLOCK][now % BLOCK / 64] |= 1 << (now % 64);
        if before == NEVER {
            self.lines += 1;
            self.add(now, 1);
        } else {
            self.clear(before as usize);
            self.move_one(before as usize, now);
        }
        self.newest = line;
        self.now += 1;
    }

    fn clear(&mut self, time: usize) {
        self.is_last[time / BLOCK][time % BLOCK / 64] &= !(1 << (time % 64));
    }

    /// Adds to all sums that a time is in, modulo 2^32.
    fn add(&mut self, time: usize, count: u32) {
        let mut at = time / BLOCK;
        for sums in &mut self.sums {
            let sum = &mut sums[at / FAN][at % FAN];
            *sum = sum.wrapping_add(count);
            at /= FAN;
        }
    }

    /// A bit has moved: sums that both times are in stay as they are.
    fn move_one(&mut self, from: usize, to: usize) {
        let (mut from, mut to) = (from / BLOCK, to / BLOCK);
        for sums in &mut self.sums {
            if from == to {
                return;
            }
            sums[from / FAN][from % FAN] -= 1;
            sums[to / FAN][to % FAN] += 1;
            (from, to) = (from / FAN, to / FAN);
        }
    }

    /// Gives lines new times, from 0 on in the same order, and room for at least as many more.
    fn renumber(&mut self) {
        let mut next = 0;
        for (word, mut left) in self.is_last.as_flattened().iter().copied().enumerate() {
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
        self.is_last.resize(times / BLOCK, [0; BLOCK_WORDS]);
        let words = self.is_last.as_flattened_mut();
        words[..next / 64].fill(u64::MAX);
        if !next.is_multiple_of(64) {
            words[next / 64] = (1 << (next % 64)) - 1;
        }
        self.sums.clear();
        let (mut count, mut of_each) = (times / BLOCK, BLOCK);
        loop {
            let mut sums = vec![[0; FAN]; count.div_ceil(FAN)];
            for (at, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
                *sum = next.saturating_sub(at * of_each).min(of_each) as u32;
            }
            self.sums.push(sums);
            if count <= FAN {
                break;
            }
            (count, of_each) = (count.div_ceil(FAN), of_each * FAN);
        }
        self.now = next;
    }

    /// Forgets a line: as if it had never been accessed.
    pub(super) fn forget(&mut self, line: u32) {
        // Where others only have accessed it there may be no place for it.
        let Some(time) = self.time(line) else { return };
        self.last[line as usize] = NEVER;
        self.clear(time);
        self.add(time, u32::MAX);
        self.lines -= 1;
        if self.newest == line {
            self.newest = NEVER;
        }
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let sums: usize = self.sums.iter().map(|sums| size_of_val(sums.as_slice())).sum();
        4 * (self.last.capacity() + self.line_at.capacity()) + size_of_val(self.is_last.as_slice()) + sums
    }
}

/// Bits of a block behind this place.
#[inline]
fn bits_after(block: &[u64; BLOCK_WORDS], place: usize) -> u32 {
    let of_word = |(at, word): (usize, &u64)| {
        let mask = match at.cmp(&(place / 64)) {
            std::cmp::Ordering::Less => 0,
            // Shifted twice: by 64 can't be done at once.
            std::cmp::Ordering::Equal => u64::MAX << (place % 64) << 1,
            std::cmp::Ordering::Greater => u64::MAX,
        };
        (word & mask).count_ones()
    };
    block.iter().enumerate().map(of_word).sum()
}

/// Sum of those behind this place, without a branch: it is anywhere.
#[inline]
fn sum_after(sums: &[u32; FAN], place: usize) -> u32 {
    (0..).zip(sums).map(|(at, sum)| if at > place as u32 { *sum } else { 0 }).sum()
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
