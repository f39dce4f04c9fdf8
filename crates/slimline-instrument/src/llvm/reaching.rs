//! Which definition of a value reaches each block, where it has several.
//!
//! Where two reach, a phi joins them: those are the value's definitions from there on. A value is asked about only where it
//! lives: so no phi is made that nobody uses.

use std::collections::{BTreeMap, BTreeSet};

/// What is behind a value in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reaches {
    /// The definition that is in this block.
    Made(usize),
    /// The phi at the beginning of this block.
    Joined(usize),
}

/// A flow graph.
pub(super) struct Flow {
    pub(super) before: Vec<Vec<usize>>,
    /// Of each block, how late it comes where ways back are left out.
    pub(super) place: Vec<usize>,
}

impl Flow {
    pub(super) fn new(successors: &[Vec<usize>]) -> Self {
        let mut place = vec![0; successors.len()];
        super::loops::in_order(successors).into_iter().enumerate().for_each(|(at, block)| place[block] = at);
        Self { before: super::loops::predecessors(successors), place }
    }

    /// Blocks at whose beginnings a value lives that is made in some and used in others.
    pub(super) fn lives(&self, made: &[usize], used: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let mut lives = BTreeSet::new();
        let mut open: Vec<_> = used.into_iter().collect();
        while let Some(block) = open.pop() {
            if !made.contains(&block) && lives.insert(block) {
                open.extend(&self.before[block]);
            }
        }
        lives
    }

    /// What reaches the beginning of each of these blocks, in which it lives.
    pub(super) fn reaching(&self, made: &[usize], lives: &BTreeSet<usize>) -> BTreeMap<usize, Reaches> {
        let mut order: Vec<_> = lives.iter().copied().collect();
        order.sort_by_key(|block| self.place[*block]);
        let mut reaching = BTreeMap::new();
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for &block in &order {
                let known = reaching.get(&block).copied();
                if known == Some(Reaches::Joined(block)) {
                    continue;
                }
                let ends = self.before[block].iter().filter_map(|from| Self::at_end(*from, made, &reaching));
                let Some(new) = ends.reduce(|one, other| if one == other { one } else { Reaches::Joined(block) })
                else {
                    continue;
                };
                if known != Some(new) {
                    reaching.insert(block, new);
                    is_changed = true;
                }
            }
        }
        reaching
    }

    /// What reaches the end of a block.
    pub(super) fn at_end(block: usize, made: &[usize], reaching: &BTreeMap<usize, Reaches>) -> Option<Reaches> {
        if made.contains(&block) { Some(Reaches::Made(block)) } else { reaching.get(&block).copied() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Reaches::*;
    use super::*;

    fn found(successors: &[&[usize]], made: &[usize], used: &[usize]) -> Vec<(usize, Reaches)> {
        let flow = Flow::new(&successors.iter().map(|to| to.to_vec()).collect::<Vec<_>>());
        let lives = flow.lives(made, used.iter().copied());
        flow.reaching(made, &lives).into_iter().collect()
    }

    #[test]
    fn two_definitions_meet_in_a_phi() {
        // 0 → 1 or 2, both → 3 → 4.
        let diamond: &[&[usize]] = &[&[1, 2], &[3], &[3], &[4], &[]];
        assert_eq!(found(diamond, &[1, 2], &[4]), [(3, Joined(3)), (4, Joined(3))]);
        assert_eq!(found(diamond, &[0], &[4]), [(1, Made(0)), (2, Made(0)), (3, Made(0)), (4, Made(0))]);
        assert_eq!(found(diamond, &[1, 2], &[1]), []);
    }

    #[test]
    fn versions_of_a_loop_hand_over() {
        // 0 → 1 or 5. 1 → 2 ⟲ → 3 and 5 → 6 ⟲ → 7, and 2 → 4 → 6, 6 → 8 → 2.
        let versions: &[&[usize]] = &[&[1, 5], &[2], &[2, 3, 4], &[], &[6], &[6], &[6, 7, 8], &[], &[2]];
        let expected = [(2, Joined(2)), (3, Joined(2)), (4, Joined(2)), (6, Joined(6)), (7, Joined(6)), (8, Joined(6))];
        assert_eq!(found(versions, &[1, 5], &[3, 7]), expected);
    }

    proptest! {
        /// Along any way that begins where the value is made, what reaches a block is what was passed last.
        #[test]
        fn what_reaches_is_what_was_passed_last(
            successors in prop::collection::vec(prop::collection::vec(0_usize..8, 0..4), 8),
            made in prop::collection::btree_set(0_usize..8, 1..4),
            used in prop::collection::vec(0_usize..8, 1..4),
            turns in prop::collection::vec(0_usize..4, 60),
        ) {
            let flow = Flow::new(&successors);
            let made: Vec<_> = made.into_iter().collect();
            let lives = flow.lives(&made, used);
            let reaching = flow.reaching(&made, &lives);
            for &first in &made {
                let (mut block, mut last) = (first, Made(first));
                for turn in &turns {
                    let Some(next) = successors[block].get(turn % successors[block].len().max(1)) else { break };
                    block = *next;
                    if made.contains(&block) {
                        last = Made(block);
                        continue;
                    }
                    match reaching.get(&block) {
                        // It lives nowhere behind a block in which it does not.
                        None => break,
                        Some(Joined(joined)) if *joined == block => last = Joined(block),
                        Some(reaches) => prop_assert_eq!(*reaches, last, "at {}", block),
                    }
                }
            }
        }
    }
}
