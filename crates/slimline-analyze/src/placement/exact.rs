//! The best choice of all, where few enough can be better than one that is known.
//!
//! Candidates are gone through one by one, with all choices for those so far of which none needs less room and saves more
//! (Nemhauser and Ullmann 1969, "Discrete Dynamic Programming and Capital Allocation"). What the others are worth beyond the
//! price of the room, and the room left at that price, say what a choice can come to at most: one that can't come to more than
//! what is known is dropped, and so few are left.

use super::{Candidate, LOST, Range, Ranges, worth};

/// Choices that are kept, and that are looked at. Of problems that need more what is known stands.
const MOST_KEPT: usize = 1 << 15;
const MOST_TRIED: usize = 1 << 24;

/// A choice for the first candidates.
#[derive(Clone, Copy)]
struct Chosen {
    bytes: u64,
    cycles: u64,
    /// Its last step among all: how it came about; None at the beginning.
    step: Option<usize>,
}

/// A candidate's range, behind the steps before.
struct Step {
    before: Option<usize>,
    number: usize,
    range: Range,
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
    let mut chosen = vec![Chosen { bytes: 0, cycles: 0, step: None }];
    for (number, (data, most)) in candidates.iter().zip(&worths).enumerate() {
        tried += data.parts.len() * data.parts.len();
        if tried > MOST_TRIED {
            return None;
        }
        let ranges = ranges(data, room_bytes, |range| most - worth(range, price) <= slack);
        left -= most;
        let can_be_best = |of: &Chosen| of.cycles as f64 - price * of.bytes as f64 + left > least;
        tried += chosen.len() * ranges.len();
        if tried > MOST_TRIED {
            return None;
        }
        let mut next: Vec<Chosen> = chosen.iter().copied().filter(can_be_best).collect();
        for before in &chosen {
            for range in &ranges {
                let bytes = before.bytes + range.bytes();
                let with = Chosen { bytes, cycles: before.cycles + range.saved.cycles, ..*before };
                if bytes <= room_bytes && can_be_best(&with) {
                    steps.push(Step { before: before.step, number, range: *range });
                    next.push(Chosen { step: Some(steps.len() - 1), ..with });
                }
            }
            // Not only in the end: there may be many.
            if next.len() > 4 * MOST_KEPT {
                next = best_of_each_size(next);
            }
        }
        chosen = best_of_each_size(next);
        if chosen.len() > MOST_KEPT {
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

/// Those of which none needs less room and saves as much.
fn best_of_each_size(mut chosen: Vec<Chosen>) -> Vec<Chosen> {
    chosen.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes).then(b.cycles.cmp(&a.cycles)));
    let mut most = None;
    chosen.retain(|of| {
        let is_better = most.is_none_or(|most| of.cycles > most);
        most = most.max(Some(of.cycles));
        is_better
    });
    chosen
}

/// The ranges of a candidate that fit and are `wanted`, and of which none is shorter and saves as much.
fn ranges(data: &Candidate, room_bytes: u64, wanted: impl Fn(&Range) -> bool) -> Vec<Range> {
    let mut all = Vec::new();
    if data.is_divisible {
        for (number, first) in data.parts.iter().enumerate() {
            let mut saved = super::Saved::default();
            for last in data.parts[number..].iter().take_while(|part| part.end - first.start <= room_bytes) {
                saved += last.saved;
                all.push(Range { start: first.start, end: last.end, saved });
            }
        }
    } else {
        all.extend(Some(data.whole()).filter(|whole| whole.bytes() <= room_bytes));
    }
    all.retain(wanted);
    all.sort_unstable_by_key(|range| (range.bytes(), std::cmp::Reverse(range.saved.cycles)));
    let mut most = 0;
    all.retain(|range| {
        let is_better = range.saved.cycles > most;
        most = most.max(range.saved.cycles);
        is_better
    });
    all
}
