//! Ranges of one group of data: what is saved where they lie in the other memory.

use std::collections::VecDeque;

use super::{Candidate, Range, Saved, worth};

impl Candidate {
    /// All of it.
    pub(super) fn whole(&self) -> Range {
        Range { start: 0, end: self.bytes, saved: self.saved() }
    }

    /// What is saved where all of it lies there.
    pub fn saved(&self) -> Saved {
        self.parts.iter().map(|part| part.saved).sum()
    }

    /// Of the ranges that fit the one that is worth most beyond its price, cycles a byte; None where nothing is worth its
    /// price. Gaps between parts cost their bytes.
    ///
    /// A range is worth what is saved up to its last part, its end paid, less what is saved before its first part, its start
    /// paid. So each part as the last goes with that first one of which this is least, among those that are near enough:
    /// these are kept in a queue, least first.
    pub(super) fn worth_most(&self, price: f64, room_bytes: u64) -> Option<Range> {
        if !self.is_divisible {
            return Some(self.whole()).filter(|whole| whole.bytes() <= room_bytes && worth(whole, price) > 0.0);
        }
        let mut best: Option<(f64, Range)> = None;
        // What was saved before the part, as a sum and with its start paid.
        let mut firsts: VecDeque<(u64, Saved, f64)> = VecDeque::new();
        let mut so_far = Saved::default();
        for part in &self.parts {
            let before = so_far.cycles as f64 - price * part.start as f64;
            while firsts.back().is_some_and(|&(.., other)| other >= before) {
                firsts.pop_back();
            }
            firsts.push_back((part.start, so_far, before));
            while firsts.front().is_some_and(|&(start, ..)| part.end - start > room_bytes) {
                firsts.pop_front();
            }
            so_far += part.saved;
            let Some(&(start, saved_before, before)) = firsts.front() else { continue };
            let worth = so_far.cycles as f64 - price * part.end as f64 - before;
            if worth > best.map_or(0.0, |(most, _)| most) {
                let mut saved = so_far;
                saved -= saved_before;
                best = Some((worth, Range { start, end: part.end, saved }));
            }
        }
        best.map(|(_, range)| range)
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

    /// The range that begins here, of so many bytes or to the end. Parts that it cuts save nothing.
    pub(super) fn range_at(&self, start: u64, bytes: u64) -> Range {
        let end = start.saturating_add(bytes).min(self.bytes);
        let from = self.parts.partition_point(|part| part.start < start);
        let within = self.parts[from..].iter().take_while(|part| part.end <= end);
        Range { start, end, saved: within.map(|part| part.saved).sum() }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{candidate, candidates};
    use super::*;

    #[test]
    fn gaps_cost_their_bytes() {
        // 100, nothing, 60, 90 in parts of ten bytes.
        let data = candidate(true, 40, &[(0, 100), (20, 60), (30, 90)]);
        let best = |price, room| data.worth_most(price, room).map(|range| (range.start, range.end, range.saved.cycles));
        assert_eq!(best(0.5, 40), Some((0, 40, 250)));
        // The gap and what is behind it are worth 150 for 30 bytes, then less than that.
        assert_eq!(best(4.9, 40), Some((0, 40, 250)));
        assert_eq!(best(5.5, 40), Some((0, 10, 100)));
        assert_eq!(best(10.0, 40), None);
        assert_eq!([best(0.5, 39), best(0.5, 20), best(0.5, 9)], [Some((0, 30, 160)), Some((20, 40, 150)), None]);
        let within = |bytes| data.best_within(bytes).map(|range| (range.start, range.end, range.saved.cycles));
        assert_eq!([10, 20, 30, 40].map(within), [(0, 10, 100), (20, 40, 150), (0, 30, 160), (0, 40, 250)].map(Some));
        assert_eq!((within(9), data.worst_of(10).start, data.worst_of(20).saved.cycles), (None, 10, 60));
        assert_eq!(data.range_at(5, 26).saved.cycles, 60, "parts that are cut save nothing");
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
            let fitting: Vec<&Range> = ranges.iter().filter(|range| range.bytes() <= bytes).collect();
            let most = fitting.iter().map(|range| range.saved.cycles).max().unwrap_or(0);
            prop_assert_eq!(data.best_within(bytes).map_or(0, |range| range.saved.cycles), most);
            let most = fitting.iter().map(|range| super::super::worth(range, price)).fold(0.0, f64::max);
            let found = data.worth_most(price, bytes);
            prop_assert!(found.is_none_or(|range| range.bytes() <= bytes && data.range_at(range.start, range.bytes()) == range));
            let found = found.as_ref().map_or(0.0, |range| super::super::worth(range, price));
            prop_assert!((found - most).abs() < 1e-6, "{} {}", found, most);
            // The same windows, part by part.
            let window = bytes.min(data.bytes);
            let starts = (0..=data.bytes - window).step_by(10);
            let least = starts.map(|start| data.range_at(start, window).saved.cycles).min();
            let tenths = bytes % 10 == 0 && data.bytes % 10 == 0;
            prop_assert!(!tenths || Some(data.worst_of(bytes).saved.cycles) == least);
        }
    }
}
