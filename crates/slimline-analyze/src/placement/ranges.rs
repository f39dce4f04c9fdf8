//! Ranges of one group of data: what is saved where they lie in the other memory.

use super::{Candidate, PartSaved, Range, Saved};

impl Candidate {
    /// All of it.
    pub(super) fn whole(&self) -> Range {
        Range { start: 0, end: self.bytes, saved: self.saved() }
    }

    /// What is saved where all of it lies there.
    pub fn saved(&self) -> Saved {
        self.parts.iter().map(|part| part.saved).sum()
    }

    /// The range that is worth most beyond its price: cycles a byte. Kadane's algorithm, where the gaps between parts cost
    /// their bytes; None where nothing is worth its price.
    pub(super) fn worth_most(&self, price: f64) -> Option<Range> {
        let worth = |range: &Range| range.saved.cycles as f64 - price * range.bytes() as f64;
        if !self.is_divisible {
            return Some(self.whole()).filter(|whole| worth(whole) > 0.0);
        }
        let mut best: Option<Range> = None;
        let mut ending_here: Option<Range> = None;
        for part in &self.parts {
            let alone = Range { start: part.start, end: part.end, saved: part.saved };
            let longer = ending_here.map(|range| range.and(part));
            let better = longer.filter(|longer| worth(longer) > worth(&alone)).unwrap_or(alone);
            if worth(&better) > best.as_ref().map_or(0.0, worth) {
                best = Some(better);
            }
            ending_here = Some(better);
        }
        best
    }

    /// The range of at most so many bytes that saves most: of those the one that ends first, and of these the shortest.
    pub(super) fn best_within(&self, bytes: u64) -> Option<Range> {
        if !self.is_divisible {
            return Some(self.whole()).filter(|whole| whole.bytes() <= bytes && whole.saved.cycles > 0);
        }
        let mut best: Option<Range> = None;
        let (mut first, mut saved) = (0, Saved::default());
        for (last, part) in self.parts.iter().enumerate() {
            saved += part.saved;
            while first <= last && part.end - self.parts[first].start > bytes {
                saved -= self.parts[first].saved;
                first += 1;
            }
            // Nothing is saved where not even this part fits.
            if saved.cycles > best.map_or(0, |best: Range| best.saved.cycles) {
                best = Some(Range { start: self.parts[first].start, end: part.end, saved });
            }
        }
        best
    }

    /// The range that begins here, of so many bytes or to the end; parts that it cuts count for it by their bytes.
    pub(super) fn range_at(&self, start: u64, bytes: u64) -> Range {
        let end = start.saturating_add(bytes).min(self.bytes);
        let from = self.parts.partition_point(|part| part.end <= start);
        let within = self.parts[from..].iter().take_while(|part| part.start < end);
        Range { start, end, saved: within.map(|part| part.saved_within(start, end)).sum() }
    }

    /// The range of so many bytes that saves least, of those that begin or end where parts do; its bytes may never have
    /// been accessed.
    pub(super) fn worst_of(&self, bytes: u64) -> Range {
        let bytes = bytes.min(self.bytes);
        let last = self.bytes - bytes;
        let begins = self.parts.iter().flat_map(|part| [Some(part.end), part.start.checked_sub(bytes)]);
        let begins = begins.flatten().filter(|&start| start <= last);
        let at = |start| self.range_at(start, bytes);
        begins.map(at).fold(at(0), |best, range| if range.saved.cycles < best.saved.cycles { range } else { best })
    }
}

impl Range {
    /// Up to the end of a part behind it.
    fn and(self, part: &PartSaved) -> Self {
        let mut saved = self.saved;
        saved += part.saved;
        Self { end: part.end, saved, ..self }
    }
}

impl PartSaved {
    /// What is saved of it between two places: as much as it has bytes there.
    fn saved_within(&self, start: u64, end: u64) -> Saved {
        let bytes = self.end.min(end) - self.start.max(start);
        let all = self.end - self.start;
        let portion = |count: u64| (u128::from(count) * u128::from(bytes) / u128::from(all.max(1))) as u64;
        Saved { lines: portion(self.saved.lines), cycles: portion(self.saved.cycles) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{candidate, candidates};
    use super::*;

    #[test]
    fn gaps_cost_their_bytes() {
        // 100, nothing, 60, 90 in parts of ten bytes.
        let data = candidate(true, 40, &[(0, 100), (20, 60), (30, 90)]);
        let best = |price| data.worth_most(price).map(|range| (range.start, range.end, range.saved.cycles));
        assert_eq!(best(0.5), Some((0, 40, 250)));
        // The gap and what is behind it are worth 150 for 30 bytes, then less than that.
        assert_eq!(best(4.9), Some((0, 40, 250)));
        assert_eq!(best(5.5), Some((0, 10, 100)));
        assert_eq!(best(10.0), None);
        let within = |bytes| data.best_within(bytes).map(|range| (range.start, range.end, range.saved.cycles));
        assert_eq!([10, 20, 30, 40].map(within), [(0, 10, 100), (20, 40, 150), (0, 30, 160), (0, 40, 250)].map(Some));
        assert_eq!((within(9), data.worst_of(10).start, data.worst_of(20).saved.cycles), (None, 10, 60));
        assert_eq!(data.range_at(5, 20).saved.cycles, 50 + 30);
    }

    proptest! {
        #[test]
        fn no_range_is_better(data in candidates(1), bytes in 1_u64..80, price in 0.1_f64..12.0) {
            let data = &data[0];
            let ranges = if data.is_divisible {
                let ends = data.parts.iter().map(|part| part.end);
                let starts: Vec<u64> = data.parts.iter().map(|part| part.start).collect();
                ends.flat_map(|end| {
                    starts.iter().filter(move |&&start| start < end).map(move |&start| data.range_at(start, end - start))
                }).collect()
            } else {
                vec![data.whole()]
            };
            let fitting = ranges.iter().filter(|range| range.bytes() <= bytes).map(|range| range.saved.cycles).max();
            prop_assert_eq!(data.best_within(bytes).map_or(0, |range| range.saved.cycles), fitting.unwrap_or(0));
            let worth = |range: &Range| range.saved.cycles as f64 - price * range.bytes() as f64;
            let most = ranges.iter().map(worth).fold(0.0, f64::max);
            let found = data.worth_most(price).as_ref().map_or(0.0, worth);
            prop_assert!((found - most).abs() < 1e-6, "{} {}", found, most);
            // The same windows, byte by byte.
            let window = bytes.min(data.bytes);
            let least = (0..=data.bytes - window).map(|start| data.range_at(start, window).saved.cycles).min();
            let tenths = bytes % 10 == 0 && data.bytes % 10 == 0;
            prop_assert!(!tenths || Some(data.worst_of(bytes).saved.cycles) == least);
        }
    }
}
