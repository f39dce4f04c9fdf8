//! What covered an address at a time.
//!
//! A segment tree over the addresses where anything begins or ends. A range is entered in the O(log n) nodes that
//! together make it up; those in one node all cover the same addresses, so they follow one another in time and a
//! binary search finds the one alive. Addresses reused a million times cost memory for each life once, and a look-up
//! O(log² n).

/// Addresses `start..end` during `from_ns..until_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// First moment.
    pub from_ns: u64,
    /// Moment after the last.
    pub until_ns: u64,
}

impl Extent {
    /// All addresses, always.
    pub const ALL: Self = Self { start: 0, end: u64::MAX, from_ns: 0, until_ns: u64::MAX };

    /// Whether an address at a time is inside.
    pub fn contains(&self, address: u64, time_ns: u64) -> bool {
        (self.start..self.end).contains(&address) && (self.from_ns..self.until_ns).contains(&time_ns)
    }

    /// What is inside both.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
            from_ns: self.from_ns.max(other.from_ns),
            until_ns: self.until_ns.min(other.until_ns),
        }
    }
}

/// Ranges of addresses with their lives; rows are numbered as they were given.
#[derive(Debug)]
pub struct TimedRanges {
    /// Where anything begins or ends, in order; leaf `i` covers `bounds[i]..bounds[i + 1]`.
    bounds: Vec<u64>,
    /// Rows in each node, in order of birth. Node 1 is the root, node `i`'s children are `2i` and `2i + 1`.
    nodes: Vec<Vec<u32>>,
    rows: Vec<Extent>,
}

/// Lives looked at in one node when the latest-born one is over: only ranges whose end was not seen overlap in time.
const LIVES_TRIED: usize = 8;

impl TimedRanges {
    /// An index of `rows`; empty ones are never found.
    pub fn new(rows: Vec<Extent>) -> Self {
        let is_real = |row: &Extent| row.start < row.end && row.from_ns < row.until_ns;
        let mut bounds: Vec<u64> =
            rows.iter().filter(|row| is_real(row)).flat_map(|row| [row.start, row.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len().saturating_sub(1);
        let mut nodes = vec![Vec::new(); 2 * leaves];
        let mut order: Vec<u32> = (0..u32::try_from(rows.len()).unwrap_or(u32::MAX)).collect();
        order.retain(|&row| is_real(&rows[row as usize]));
        order.sort_by_key(|&row| rows[row as usize].from_ns);
        for row in order {
            let extent = &rows[row as usize];
            let mut low = leaves + bounds.partition_point(|&bound| bound < extent.start);
            let mut high = leaves + bounds.partition_point(|&bound| bound < extent.end);
            while low < high {
                if low % 2 == 1 {
                    nodes[low].push(row);
                    low += 1;
                }
                if high % 2 == 1 {
                    high -= 1;
                    nodes[high].push(row);
                }
                low /= 2;
                high /= 2;
            }
        }
        Self { bounds, nodes, rows }
    }

    /// The row that covers an address at a time (the one born last, where several do), and the extent in which this
    /// answer holds.
    pub fn at(&self, address: u64, time_ns: u64) -> (Option<usize>, Extent) {
        let mut valid = Extent::ALL;
        let mut best: Option<usize> = None;
        let Some(leaf) = self.leaf(address, &mut valid) else { return (None, valid) };
        let mut node = leaf;
        while node > 0 {
            let rows = &self.nodes[node];
            let born = rows.partition_point(|&row| self.rows[row as usize].from_ns <= time_ns);
            if let Some(&next) = rows.get(born) {
                valid.until_ns = valid.until_ns.min(self.rows[next as usize].from_ns);
            }
            for &row in rows[..born].iter().rev().take(LIVES_TRIED) {
                let extent = &self.rows[row as usize];
                if extent.until_ns <= time_ns {
                    valid.from_ns = valid.from_ns.max(extent.until_ns);
                    continue;
                }
                valid.from_ns = valid.from_ns.max(extent.from_ns);
                valid.until_ns = valid.until_ns.min(extent.until_ns);
                if best.is_none_or(|best| self.rows[best].from_ns <= extent.from_ns) {
                    best = Some(row as usize);
                }
                break;
            }
            node /= 2;
        }
        (best, valid)
    }

    /// The row that covers an address at the time nearest to the one given.
    pub fn nearest(&self, address: u64, time_ns: u64) -> Option<usize> {
        let mut node = self.leaf(address, &mut Extent::ALL.clone())?;
        let mut best: Option<(u64, usize)> = None;
        while node > 0 {
            for &row in &self.nodes[node] {
                let extent = &self.rows[row as usize];
                let distance = extent.from_ns.saturating_sub(time_ns).max(time_ns.saturating_sub(extent.until_ns - 1));
                if best.is_none_or(|(nearest, _)| distance < nearest) {
                    best = Some((distance, row as usize));
                }
            }
            node /= 2;
        }
        best.map(|(_, row)| row)
    }

    /// The leaf that covers an address; narrows `valid` to the addresses with the same answer.
    fn leaf(&self, address: u64, valid: &mut Extent) -> Option<usize> {
        let after = self.bounds.partition_point(|&bound| bound <= address);
        valid.end = self.bounds.get(after).copied().unwrap_or(u64::MAX);
        let index = after.checked_sub(1)?;
        valid.start = self.bounds[index];
        let leaves = self.bounds.len() - 1;
        (index < leaves).then_some(leaves + index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(start: u64, end: u64, from_ns: u64, until_ns: u64) -> Extent {
        Extent { start, end, from_ns, until_ns }
    }

    #[test]
    fn reused_addresses_go_to_the_life_of_their_time() {
        let index = TimedRanges::new(vec![
            extent(0x1000, 0x3000, 10, 20),
            extent(0x2000, 0x4000, 30, 40),
            extent(0x1000, 0x2000, 35, u64::MAX),
        ]);
        let cases = [
            (0x1800, 10, Some(0)),
            (0x1800, 20, None),
            (0x2800, 19, Some(0)),
            (0x2800, 30, Some(1)),
            (0x2800, 39, Some(1)),
            (0x2800, 40, None),
            (0x1800, 34, None),
            (0x1800, 35, Some(2)),
            (0x4000, 35, None),
            (0xfff, 15, None),
        ];
        for (address, time, row) in cases {
            assert_eq!(index.at(address, time).0, row, "{address:#x} at {time}");
        }
        assert_eq!(index.nearest(0x1800, 26), Some(0));
        assert_eq!(index.nearest(0x1800, 29), Some(2));
        assert_eq!(index.nearest(0x5000, 29), None);
    }

    #[test]
    fn nothing_covers_an_empty_index() {
        let index = TimedRanges::new(vec![extent(5, 5, 0, 9)]);
        assert_eq!(index.at(5, 1), (None, Extent::ALL));
        assert_eq!(index.nearest(5, 1), None);
    }

    prop_compose! {
        fn rows()(rows in prop::collection::vec((0_u64..40, 1_u64..20, 0_u64..40, 1_u64..20), 0..6)) -> Vec<Extent> {
            rows.into_iter().map(|(start, size, from, life)| extent(start, start + size, from, from + life)).collect()
        }
    }

    proptest! {
        #[test]
        fn agrees_with_looking_at_every_row(rows in rows(), address in 0_u64..64, time in 0_u64..64) {
            let index = TimedRanges::new(rows.clone());
            let covering = |address, time| {
                let alive = rows.iter().filter(|row| row.contains(address, time));
                alive.map(|row| row.from_ns).max()
            };
            let (found, valid) = index.at(address, time);
            prop_assert_eq!(found.map(|row| rows[row].from_ns), covering(address, time));
            prop_assert!(found.is_none_or(|row| rows[row].contains(address, time)));
            prop_assert!(valid.contains(address, time));
            // The same answer holds in all of the extent.
            for other in valid.start..valid.end.min(64) {
                for moment in valid.from_ns..valid.until_ns.min(64) {
                    prop_assert_eq!(index.at(other, moment).0, found);
                }
            }
        }
    }
}
