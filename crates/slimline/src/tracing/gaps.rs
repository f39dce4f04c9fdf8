//! Which parts of a trace are looked up by who keeps up with the program: all as long as none waits, else one in some thirty.

use std::ops::Range;

use fastrand::Rng;

/// What is passed over behind a part that others waited for, by its words: to look one up takes as long as to pass over some ten of its size,
/// so that it costs a third of what must be done anyway. Not always as many, or what a program does each 33 parts would be seen always or never.
const PASSED_OVER: Range<u64> = 16..48;

/// Chooses.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Else all are looked up.
    keeps_up: bool,
    /// Words of the part before, if that was looked up.
    before: Option<u64>,
    /// Words that are to be passed over yet.
    left: u64,
    chance: Rng,
}

impl Gaps {
    /// There may be some.
    pub(super) fn keeping_up() -> Self {
        Self { keeps_up: true, ..Self::default() }
    }

    /// Whether there may be some.
    pub(super) fn keeps_up(&self) -> bool {
        self.keeps_up
    }

    /// Whether to look up the next part, of so many words, behind which so many wait: the one in which a gap ends is, so that long ones are
    /// chosen as often as they are longer.
    pub(super) fn looks_up(&mut self, words: u64, waiting: usize) -> bool {
        if !self.keeps_up || waiting == 0 {
            self.left = 0;
        } else if let Some(before) = self.before {
            self.left = before.saturating_mul(self.chance.u64(PASSED_OVER));
        }
        let is_looked_up = words >= self.left;
        self.before = is_looked_up.then_some(words);
        self.left = self.left.saturating_sub(words);
        is_looked_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of the gaps between parts of these words that are looked up, where so many wait.
    fn passed_over(gaps: &mut Gaps, parts: impl Iterator<Item = (u64, usize)>) -> Vec<usize> {
        let mut all = vec![0];
        for (words, waiting) in parts {
            match gaps.looks_up(words, waiting) {
                true => all.push(0),
                false => *all.last_mut().unwrap() += 1,
            }
        }
        all.pop();
        all
    }

    #[test]
    fn all_are_looked_up_where_nothing_waits_or_nobody_minds() {
        let none = vec![0; 100];
        assert_eq!(passed_over(&mut Gaps::keeping_up(), (0..100).map(|_| (7, 0))), none);
        assert_eq!(passed_over(&mut Gaps::default(), (0..100).map(|_| (7, 5))), none);
    }

    #[test]
    fn where_others_wait_one_in_some_thirty_is() {
        let all = passed_over(&mut Gaps::keeping_up(), (0..33_000).map(|_| (100, 1)));
        assert_eq!(all[0], 0, "the first one");
        assert!(all[1..].iter().all(|gap| (15..47).contains(gap)), "{all:?}");
        assert!(all[1..].iter().min() != all[1..].iter().max());
        assert!((900..1200).contains(&all.len()), "{}", all.len());
    }

    #[test]
    fn a_gap_ends_where_nothing_waits_any_more() {
        let mut gaps = Gaps::keeping_up();
        assert!(gaps.looks_up(100, 1));
        assert!((0..10).all(|_| !gaps.looks_up(100, 1)));
        assert!(gaps.looks_up(100, 0) && gaps.looks_up(100, 0));
        assert!(!gaps.looks_up(100, 1));
    }

    #[test]
    fn gaps_are_as_long_as_what_was_looked_up() {
        let mut gaps = Gaps::keeping_up();
        assert!(gaps.looks_up(10, 1), "the beginning of a program");
        assert!(gaps.looks_up(10_000, 1), "which is no reason to pass over what it does");
        assert!(!gaps.looks_up(100_000, 1));
        assert!(gaps.looks_up(1_000_000, 1));
    }
}
