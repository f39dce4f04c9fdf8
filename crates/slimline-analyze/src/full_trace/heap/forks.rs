//! What forked children begin with: their parents' blocks as of the fork.

use std::collections::VecDeque;

use super::live_blocks::LiveBlocks;

/// A time stamp and a process, as records name a fork.
type Name = (u64, u64);

/// States that are kept for children that were not seen yet. Most that never come have gone on to another program at once. What
/// two states have in common they share, so one takes little more than what changed since the one before.
const MOST_KEPT: usize = 128;

/// States of parents, each until its child has taken it.
#[derive(Debug, Default)]
pub(super) struct Forks {
    kept: VecDeque<(Name, LiveBlocks)>,
    unknown: u64,
}

impl Forks {
    pub(super) fn keep(&mut self, name: Name, blocks: LiveBlocks) {
        if self.kept.len() == MOST_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((name, blocks));
    }

    /// The state that a child begins with; none where its parent's record is missing or too old.
    pub(super) fn take(&mut self, name: Name) -> Option<LiveBlocks> {
        let place = self.kept.iter().rposition(|(known, _)| *known == name);
        self.unknown += u64::from(place.is_none());
        self.kept.remove(place?).map(|(_, blocks)| blocks)
    }

    /// Children that did not find theirs.
    pub(super) fn unknown(&self) -> u64 {
        self.unknown
    }
}
