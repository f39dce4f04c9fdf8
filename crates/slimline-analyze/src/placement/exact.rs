//! The best choice of all, where few enough can be better than one that is known.
//!
//! Candidates are gone through one by one, with all choices for those so far of which none needs less room and saves more
//! (Nemhauser and Ullmann 1969, "Discrete Dynamic Programming and Capital Allocation"). What the others are worth beyond the
//! price of the room, and the room left at that price, say what a choice can come to at most: one that can't come to more than
//! what is known is dropped, and so few are left.

use std::cmp::Reverse;
use std::iter;

use super::{Candidate, LOST, Range, Ranges, worth};

/// Choices for the first candidates, and ranges of one, that are kept. Of problems that need more what is known stands.
const MOST_KEPT: usize = 1 << 15;
/// Choices and ranges that are looked at.
const MOST_TRIED: usize = 1 << 24;
/// Steps, 56 bytes each, of the choices that were kept.
const MOST_STEPS: usize = 1 << 21;

/// A choice for the first candidates.
#[derive(Clone, Copy)]
struct Chosen {
    bytes: u64,
    cycles: u64,
    /// Its last step among all: how it came about; None at the beginning.
    step: Option<usize>,
    /// Which of the last candidate's ranges comes behind that.
    range: Option<u32>,
}

/// A candidate's range, behind the steps before.
struct Step {
    before: Option<usize>,
    number: usize,
    range: Range,
}

/// What needs room and saves cycles.
trait Saving {
    fn bytes(&self) -> u64;
    fn cycles(&self) -> u64;
}

impl Saving for Chosen {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn cycles(&self) -> u64 {
        self.cycles
    }
}

impl Saving for Range {
    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn cycles(&self) -> u64 {
        self.saved.cycles
    }
}

/// Of what is added that of which none needs less room and saves as much. Never holds more than four times [`MOST_KEPT`], and
/// sorts these only where half of them are new.
struct Kept<T>(Vec<T>);

impl<T: Saving> Kept<T> {
    /// None where too many are left.
    fn add(&mut self, one: T) -> Option<()> {
        self.0.push(one);
        // Not only in the end: there may be many.
        if self.0.len() < 4 * MOST_KEPT {
            return Some(());
        }
        self.prune();
        (self.0.len() <= 2 * MOST_KEPT).then_some(())
    }

    fn prune(&mut self) {
        self.0.sort_unstable_by_key(|one| (one.bytes(), Reverse(one.cycles())));
        let mut most = None;
        self.0.retain(|one| {
            let is_better = most.is_none_or(|most| one.cycles() > most);
            most = most.max(Some(one.cycles()));
            is_better
        });
    }

    /// Those that are left, least room first.
    fn finish(mut self) -> Option<Vec<T>> {
        self.prune();
        (self.0.len() <= MOST_KEPT).then_some(self.0)
    }
}

/// The best of all choices, where that is better than `known` cycles; `known` none where it is not known whether one is.
/// `price` is of the room, in cycles a byte: the nearer to what room is worth, the faster.
pub(super) fn best(candidates: &[Candidate], room_bytes: u64, price: f64, known: u64) -> Option<Option<Ranges>> {
    let worths: Vec<f64> = candidates
        .iter()
        .map(|data| data.worth_most(price, room_bytes).map_or(0.0, |range| worth(&range, price)))
        .collect();
    let all: u64 = candidates.iter().map(|data| data.saved().cycles).sum();
    // What floating point loses must not drop anything.
    let least = known as f64 - LOST * all as f64;
    let mut left = worths.iter().sum::<f64>() + price * room_bytes as f64;
    // No choice with a range that is worth so much less than the best one comes to more than is known.
    let slack = left - least;
    let mut tried = 0;
    let mut steps: Vec<Step> = Vec::new();
    let mut chosen = vec![Chosen { bytes: 0, cycles: 0, step: None, range: None }];
    for (number, (data, most)) in candidates.iter().zip(&worths).enumerate() {
        tried += data.parts.len() * data.parts.len();
        if tried > MOST_TRIED {
            return None;
        }
        let ranges = ranges(data, room_bytes, |range| most - worth(range, price) <= slack)?;
        left -= most;
        let can_be_best = |of: &Chosen| of.cycles as f64 - price * of.bytes as f64 + left > least;
        tried += chosen.len() * (1 + ranges.len());
        if tried > MOST_TRIED {
            return None;
        }
        let mut next = Kept(Vec::new());
        for before in &chosen {
            let with = |(index, range): (u32, &Range)| Chosen {
                bytes: before.bytes + range.bytes(),
                cycles: before.cycles + range.saved.cycles,
                step: before.step,
                range: Some(index),
            };
            let all = iter::once(*before).chain((0..).zip(&ranges).map(with));
            for one in all.filter(|of| of.bytes <= room_bytes && can_be_best(of)) {
                next.add(one)?;
            }
        }
        chosen = next.finish()?;
        for of in &mut chosen {
            if let Some(range) = of.range.take() {
                steps.push(Step { before: of.step, number, range: ranges[range as usize] });
                of.step = Some(steps.len() - 1);
            }
        }
        if steps.len() > MOST_STEPS {
            return None;
        }
    }
    let best = chosen.iter().max_by_key(|of| of.cycles).filter(|of| of.cycles > known);
    Some(best.map(|best| {
        let mut ranges = Ranges(vec![None; candidates.len()]);
        let mut step = best.step;
        while let Some(Step { before, number, range }) = step.map(|step| &steps[step]) {
            ranges.0[*number] = Some(*range);
            step = *before;
        }
        ranges
    }))
}

/// The ranges of a candidate that fit and are `wanted`, and of which none is shorter and saves as much; None where they are too
/// many.
fn ranges(data: &Candidate, room_bytes: u64, wanted: impl Fn(&Range) -> bool) -> Option<Vec<Range>> {
    let wanted = |range: &Range| range.saved.cycles > 0 && range.bytes() <= room_bytes && wanted(range);
    let mut kept = Kept(Vec::new());
    if data.is_divisible {
        for (number, first) in data.parts.iter().enumerate() {
            let mut saved = super::Saved::default();
            for last in data.parts[number..].iter().take_while(|part| part.end - first.start <= room_bytes) {
                saved += last.saved;
                let range = Range { start: first.start, end: last.end, saved };
                if wanted(&range) {
                    kept.add(range)?;
                }
            }
        }
    } else if wanted(&data.whole()) {
        kept.add(data.whole())?;
    }
    kept.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That needs so many bytes, and saves so many cycles.
    fn chosen(bytes: u64, cycles: u64) -> Chosen {
        Chosen { bytes, cycles, step: None, range: None }
    }

    #[test]
    fn what_needs_more_and_saves_no_more_is_dropped() {
        let mut kept = Kept(Vec::new());
        for (bytes, cycles) in [(3, 30), (0, 0), (2, 30), (5, 29), (2, 10), (4, 31), (4, 32)] {
            kept.add(chosen(bytes, cycles)).unwrap();
        }
        let left: Vec<_> = kept.finish().unwrap().iter().map(|of| (of.bytes, of.cycles)).collect();
        assert_eq!(left, [(0, 0), (2, 30), (4, 32)]);
    }

    #[test]
    fn there_are_never_more_than_are_allowed() {
        // The more room the more is saved: none can be dropped.
        let mut kept = Kept(Vec::new());
        let added = (0..).take_while(|&n| kept.add(chosen(n, n)).is_some()).count();
        assert_eq!((added, kept.0.len()), (4 * MOST_KEPT - 1, 4 * MOST_KEPT));
        // As many as are held while they come are too many in the end.
        let mut kept = Kept((0..2 * MOST_KEPT as u64).map(|n| chosen(n, n)).collect());
        assert!(kept.add(chosen(0, 0)).is_some() && kept.finish().is_none());
        let kept = Kept((0..MOST_KEPT as u64).map(|n| chosen(n, n)).collect());
        assert!(kept.finish().is_some());
        // One by one, each better than all before: only the last one is left, and all are few.
        let mut kept = Kept(Vec::new());
        let all = 20 * MOST_KEPT as u64;
        (0..all).for_each(|n| kept.add(chosen(all - n, n)).unwrap());
        assert_eq!(kept.finish().unwrap().len(), 1);
    }

    /// Parts of one, two, three bytes and so on, which save as much: hardly two ranges are of one length.
    #[test]
    fn too_many_ranges_are_too_many() {
        let part = |n: u64| Range {
            start: n * (n - 1) / 2,
            end: n * (n + 1) / 2,
            saved: super::super::Saved { lines: 1, cycles: n },
        };
        let data = |parts: u64| Candidate {
            data: 0,
            bytes: parts * (parts + 1) / 2,
            is_divisible: true,
            parts: (1..=parts).map(part).collect(),
        };
        let many = data(2000);
        assert!(ranges(&many, many.bytes, |_| true).is_none());
        let of = |room: u64, most: u64| ranges(&many, room, |range| range.bytes() <= most).map(|ranges| ranges.len());
        // Each number is the length of a part, and of longer ranges often.
        assert_eq!((of(many.bytes, 3), of(3, 9), of(7, 9)), (Some(3), Some(3), Some(7)));
    }
}
