//! How many cache lines a loop touches per element it visits, in a given layout.

use super::Subject;
use crate::fields::LINE_BYTES;
use crate::findings::LoopGroup;

/// Elements over which lines are counted: every phase of an element in its line occurs.
const ELEMENTS: u64 = 64;

/// Byte ranges (offset, bytes) that a loop uses of the elements of one array, `spacing` apart.
pub(super) struct Layout {
    pub(super) spacing: u64,
    pub(super) used: Vec<(u64, u64)>,
}

impl Layout {
    /// Lines touched per visit when every `step`th element is visited in turn: a line that the neighbour touched
    /// already costs nothing. Also the lines an element takes up of a cache that holds them all.
    fn in_turn(&self, step: u64) -> f64 {
        let visits = (0..ELEMENTS).flat_map(|visit| self.used_of(visit.saturating_mul(step)));
        lines(visits) as f64 / ELEMENTS as f64
    }

    /// Lines touched per visit when elements are visited in no order: neighbours don't help.
    fn in_disorder(&self) -> f64 {
        (0..ELEMENTS).map(|element| lines(self.used_of(element)) as f64).sum::<f64>() / ELEMENTS as f64
    }

    /// The byte ranges (begin, bytes) that are used of an element.
    fn used_of(&self, element: u64) -> impl Iterator<Item = (u64, u64)> {
        let start = element.saturating_mul(self.spacing);
        self.used.iter().map(move |&(offset, bytes)| (start.saturating_add(offset), bytes))
    }
}

/// How many lines these byte ranges (begin, bytes) touch together. One that is empty touches the line that it is in.
fn lines(ranges: impl Iterator<Item = (u64, u64)>) -> u64 {
    let line_of = |address: u64| address / LINE_BYTES;
    let mut spans: Vec<(u64, u64)> =
        ranges.map(|(begin, bytes)| (line_of(begin), line_of(begin.saturating_add(bytes.max(1) - 1)))).collect();
    spans.sort_unstable();
    let (mut count, mut next) = (0, 0);
    for (first, last) in spans {
        let uncounted = first.max(next)..=last;
        if !uncounted.is_empty() {
            count += uncounted.end() - uncounted.start() + 1;
            next = last + 1;
        }
    }
    count
}

/// How a loop visits elements.
#[derive(Clone, Copy)]
enum Visits {
    /// Every so many, in turn.
    InTurn(u64),
    /// As some index or pointer leads, or not seen how.
    InDisorder,
}

/// Part of the session's weight in which the lines are fetched that a change saves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saved {
    /// As far as is expected.
    pub share: f64,
    /// What of that remains where all computing of the loops goes on meanwhile.
    pub unhidden: f64,
    /// The most that it may be: of elements that are visited in no order, by either bound of what caches hold of them.
    pub most: f64,
}

/// Lines before and after a change, over all loops of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packing {
    before: f64,
    after: f64,
    /// What is saved.
    pub saved: Saved,
    /// Part of `before` in loops without order.
    disordered: f64,
}

impl Packing {
    /// Change of the lines touched, weighted by time: −0.5 is half.
    pub fn change(&self) -> f64 {
        if self.before > 0.0 { self.after / self.before - 1.0 } else { 0.0 }
    }

    /// Whether most of it is in loops that visit elements in no order.
    pub(super) fn is_disordered(&self) -> bool {
        self.disordered * 2.0 > self.before
    }

    /// Counts the group's loops; `before` and `after` give the layouts for the fields a loop uses.
    pub(super) fn of(
        subject: &Subject<'_>,
        before: impl Fn(&[usize]) -> Vec<Layout>,
        after: impl Fn(&[usize]) -> Vec<Layout>,
    ) -> Self {
        let mut packing = Self::default();
        let sum = |layouts: &[Layout], of: &dyn Fn(&Layout) -> f64| layouts.iter().map(of).sum::<f64>();
        for (row, of_group) in subject.loops() {
            let fields: Vec<usize> =
                of_group.fields.iter().filter(|field| !field.only_spanned).map(|field| field.field).collect();
            if fields.is_empty() || of_group.share <= 0.0 {
                continue;
            }
            let (old, new) = (before(&fields), after(&fields));
            let ratio = |of: &dyn Fn(&Layout) -> f64| sum(&new, of) / sum(&old, of);
            let visits = visits(subject, of_group);
            let (left, least) = match visits {
                Visits::InTurn(step) => {
                    let left = ratio(&|layout| layout.in_turn(step));
                    (left, left)
                }
                // Between two bounds: nothing stays in a cache, or all that is hot does and takes less room.
                Visits::InDisorder => {
                    let (alone, held) = (ratio(&Layout::in_disorder), ratio(&|layout| layout.in_turn(1)));
                    ((alone + held) / 2.0, alone.min(held))
                }
            };
            packing.before += of_group.share;
            packing.after += of_group.share * left;
            let saved = of_group.share * (1.0 - left);
            packing.saved.share += saved;
            packing.saved.unhidden += if saved > 0.0 { saved * subject.findings.loops[row].unhidden() } else { saved };
            packing.saved.most += of_group.share * (1.0 - least);
            if matches!(visits, Visits::InDisorder) {
                packing.disordered += of_group.share;
            }
        }
        packing
    }
}

/// How a loop visits the group's elements: as the first field that it uses with some regularity.
fn visits(subject: &Subject<'_>, of_group: &LoopGroup) -> Visits {
    let Some(structure) = subject.group.structure else { return Visits::InTurn(1) };
    // Nodes are taken to lie in the order in which they are visited: it can't be better, and the interval says so.
    if structure.one_per_object {
        return Visits::InTurn(1);
    }
    if !subject.order_is_seen() {
        return Visits::InDisorder;
    }
    let hottest = of_group.fields.iter().find(|field| !field.only_spanned && field.executions > 0.0);
    match hottest.map(|field| field.stride_bytes.map(i64::unsigned_abs)) {
        Some(Some(stride)) if stride >= structure.element_bytes => {
            Visits::InTurn((stride / structure.element_bytes).min(LINE_BYTES))
        }
        Some(None) => Visits::InDisorder,
        // A loop inside of the element, or one that no window showed.
        _ => Visits::InTurn(1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A field that debug information says is a tebibyte, and a real buffer of a gibibyte in each element.
    #[test]
    fn huge_fields_are_counted_without_their_lines() {
        let layout = |spacing, used: &[(u64, u64)]| Layout { spacing, used: used.to_vec() };
        assert_eq!(layout(64, &[(0, 1 << 40)]).in_disorder(), (1_u64 << 34) as f64);
        let buffers = layout(1 << 30, &[(64, (1 << 30) - 64), (0, 8)]);
        assert_eq!(buffers.in_turn(1), (1_u64 << 24) as f64);
        assert_eq!(layout(u64::MAX, &[(u64::MAX, u64::MAX)]).in_turn(64), 1.0 / ELEMENTS as f64);
    }

    proptest! {
        /// The twin puts every line in a set.
        #[test]
        fn lines_are_counted_once(ranges in proptest::collection::vec((0_u64..2000, 0_u64..300), 0..12)) {
            let mut all = BTreeSet::new();
            for &(begin, bytes) in &ranges {
                all.extend(begin / LINE_BYTES..=(begin + bytes.max(1) - 1) / LINE_BYTES);
            }
            prop_assert_eq!(lines(ranges.into_iter()), all.len() as u64);
        }
    }
}
