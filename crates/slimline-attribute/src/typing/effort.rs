//! How far a question follows types into types.
//!
//! Damaged debug information has types that are parts of themselves, and types each of which names the one before twice:
//! following those has no end, or one after 2^60 steps. So a question has a depth, and one count of steps for all its
//! branches.

use std::cell::Cell;

/// Types within types deeper than this are taken for damage.
pub(super) const MAX_DEPTH: u32 = 64;

/// Steps that a question may still take, whichever way.
pub(super) struct Effort(Cell<u32>);

impl Effort {
    pub(super) fn of(steps: u32) -> Self {
        Self(Cell::new(steps))
    }

    /// The place where the question begins.
    pub(super) fn begin(&self) -> Descent<'_> {
        Descent { depth: 0, effort: self }
    }
}

/// A place that a question has come to.
#[derive(Clone, Copy)]
pub(super) struct Descent<'e> {
    pub(super) depth: u32,
    effort: &'e Effort,
}

impl Descent<'_> {
    /// One type further; `None` where that is too far.
    pub(super) fn deeper(self) -> Option<Self> {
        let left = self.effort.0.get().checked_sub(1)?;
        self.effort.0.set(left);
        (self.depth < MAX_DEPTH).then_some(Self { depth: self.depth + 1, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places from which a question goes on that branches in two at each.
    fn places(descent: Descent<'_>) -> u64 {
        descent.deeper().map_or(0, |next| 1 + places(next) + places(next))
    }

    #[test]
    fn all_branches_count() {
        let went = places(Effort::of(10_000).begin());
        assert!(went > 1000 && went <= 10_000, "{went}");
        assert!(Effort::of(0).begin().deeper().is_none());
        let effort = Effort::of(u32::MAX);
        let ways = std::iter::successors(Some(effort.begin()), |at| at.deeper());
        assert_eq!(ways.count() as u32, MAX_DEPTH + 1);
    }
}
