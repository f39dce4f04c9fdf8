//! Shared lines of which somebody looked at threads now and then: what happened in between is not known.
//!
//! Where a thread stores to a line, and another one accesses it later on, the line went from the one to the other in between,
//! whatever else happened. So each time that is seen is one time at least. It was for the same bytes where the thread was seen
//! to access what the other one was seen to store, before that was seen to store again, and else for other ones, as far as was
//! seen.

use std::collections::BTreeMap;

use super::line::{Found, Line};
use super::{Part, SharedLine, Uses};

/// What is seen of lines, look by look in the order of time.
#[derive(Debug, Default)]
pub struct ObservedLines {
    lines: BTreeMap<u64, Box<Line>>,
}

impl ObservedLines {
    /// One look at a thread sees it access these parts of a line of so many bytes, all of them of that thread.
    pub fn look(&mut self, line: u64, line_bytes: u32, parts: &[(Part, Uses)]) {
        let Some((Part { thread, .. }, _)) = parts.first() else { return };
        let line = self.lines.entry(line).or_default();
        let mut found = if line.is_taken_from(*thread) { Found::Taken } else { Found::Held };
        for (part, uses) in parts {
            line.access(*thread, *part, part.mask(line_bytes), *uses, std::mem::replace(&mut found, Found::Held));
        }
    }

    /// Lines in the order of their numbers.
    pub fn lines(&self) -> Vec<SharedLine> {
        self.lines.iter().map(|(&number, line)| line.known(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Between;
    use super::*;

    fn part(thread: u32, offset: u32, loads: u64, stores: u64) -> (Part, Uses) {
        (Part { offset, bytes: 8, key: thread, thread }, Uses { loads, stores, ..Uses::default() })
    }

    #[test]
    fn what_is_seen_to_go_from_thread_to_thread() {
        let mut lines = ObservedLines::default();
        // Two count in eight bytes each; a third one reads what the first one counted.
        let looks = [
            vec![part(0, 0, 5, 5)],
            vec![part(1, 8, 2, 2)],
            vec![part(0, 0, 7, 7)],
            vec![part(0, 0, 1, 1)],
            vec![part(2, 0, 1, 0), part(2, 16, 1, 0)],
            vec![part(1, 8, 3, 3)],
            vec![part(0, 0, 1, 1)],
            vec![part(2, 16, 1, 0), part(2, 0, 1, 0)],
        ];
        looks.iter().for_each(|look| lines.look(7, 64, look));
        let [line] = &lines.lines()[..] else { panic!() };
        // First looks tell of nothing: 0 comes back once from 1 and once more; 1 from 0; 2 reads what 0 has stored since.
        let between = |truly, true_bytes, falsely, false_bytes| Between { truly, true_bytes, falsely, false_bytes };
        let expected = [((0, 1), between(0, 0, 3, [0xff, 0xff00])), ((0, 2), between(1, 0xff, 0, [0, 0]))];
        assert_eq!((line.number, &line.pairs[..]), (7, &expected[..]));
        let uses = |loads, stores, true_misses, false_misses| Uses { loads, stores, true_misses, false_misses };
        let of = |thread, offset, uses| (Part { offset, bytes: 8, key: thread, thread }, uses);
        let expected = [
            of(0, 0, uses(14, 14, 0, 2)),
            of(2, 0, uses(2, 0, 1, 0)),
            of(1, 8, uses(5, 5, 0, 1)),
            of(2, 16, uses(2, 0, 0, 0)),
        ];
        assert_eq!(line.parts, expected);
    }

    #[test]
    fn who_only_loads_takes_nothing() {
        let mut lines = ObservedLines::default();
        (0..6).for_each(|n| lines.look(1, 64, &[part(n % 2, 0, 3, 0)]));
        assert!(lines.lines()[0].pairs.is_empty());
    }
}
