//! Loops of a flow graph. Blocks are numbers, 0 is where it begins; each has the list of those that it may go on to.

use std::collections::HashSet;

/// A natural loop: all that can reach one of the ways back to its header, which all ways into it lead through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loop {
    pub(super) header: usize,
    /// In order.
    pub(super) blocks: Vec<usize>,
    pub(super) is_innermost: bool,
}

impl Loop {
    pub(super) fn has(&self, block: usize) -> bool {
        self.blocks.binary_search(&block).is_ok()
    }
}

/// Who goes on to each block, as often as it does.
pub(super) fn predecessors(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); successors.len()];
    for (from, to) in successors.iter().enumerate() {
        to.iter().for_each(|to| before[*to].push(from));
    }
    before
}

/// Whether there is a way round that passes none of these blocks.
pub(super) fn goes_round(successors: &[Vec<usize>], without: &HashSet<usize>) -> bool {
    let is_left = |block: &usize| !without.contains(block);
    let mut ways_in = vec![0_usize; successors.len()];
    let left = || (0..successors.len()).filter(is_left);
    left().flat_map(|from| &successors[from]).for_each(|to| ways_in[*to] += 1);
    // Whoever has no way in is on no way round.
    let mut open: Vec<_> = left().filter(|block| ways_in[*block] == 0).collect();
    let mut gone = 0;
    while let Some(block) = open.pop() {
        gone += 1;
        for &to in successors[block].iter().filter(|to| is_left(to)) {
            ways_in[to] -= 1;
            if ways_in[to] == 0 {
                open.push(to);
            }
        }
    }
    gone < left().count()
}

/// Blocks that can be reached, each behind those that lead there but for ways back.
pub(super) fn in_order(successors: &[Vec<usize>]) -> Vec<usize> {
    let (mut order, mut seen) = (Vec::new(), vec![false; successors.len()]);
    let mut open = Vec::new();
    if !successors.is_empty() {
        seen[0] = true;
        open.push((0, 0));
    }
    while let Some((block, next)) = open.pop() {
        let Some(&to) = successors[block].get(next) else {
            order.push(block);
            continue;
        };
        open.push((block, next + 1));
        if !std::mem::replace(&mut seen[to], true) {
            open.push((to, 0));
        }
    }
    order.reverse();
    order
}

/// The nearest block that all ways to each lead through; of the first itself, and of those that can't be reached none.
///
/// K. D. Cooper, T. J. Harvey, K. Kennedy: A Simple, Fast Dominance Algorithm (2001).
fn dominators(successors: &[Vec<usize>]) -> Vec<Option<usize>> {
    let (order, before) = (in_order(successors), predecessors(successors));
    let mut place = vec![usize::MAX; successors.len()];
    order.iter().enumerate().for_each(|(at, block)| place[*block] = at);
    let mut nearest = vec![None; successors.len()];
    if let Some(first) = nearest.first_mut() {
        *first = Some(0);
    }
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for &block in order.iter().skip(1) {
            let known = before[block].iter().copied().filter(|from| nearest[*from].is_some());
            let common = known.reduce(|mut one, mut other| {
                while one != other {
                    let further = if place[one] > place[other] { &mut one } else { &mut other };
                    *further = nearest[*further].unwrap_or(0);
                }
                one
            });
            if nearest[block] != common {
                nearest[block] = common;
                is_changed = true;
            }
        }
    }
    nearest
}

/// All natural loops, by their headers; those of one header are one.
pub(super) fn natural_loops(successors: &[Vec<usize>]) -> Vec<Loop> {
    let (before, nearest) = (predecessors(successors), dominators(successors));
    let dominates = |one: usize, mut other: usize| loop {
        match nearest[other] {
            _ if one == other => return true,
            Some(next) if next != other => other = next,
            _ => return false,
        }
    };
    let mut loops = Vec::new();
    for header in 0..successors.len() {
        let is_back = |from: &usize| nearest[*from].is_some() && dominates(header, *from);
        let mut open: Vec<_> = before[header].iter().copied().filter(is_back).collect();
        if open.is_empty() {
            continue;
        }
        let mut blocks = std::collections::BTreeSet::from([header]);
        while let Some(block) = open.pop() {
            if blocks.insert(block) {
                open.extend(before[block].iter().copied().filter(|from| nearest[*from].is_some()));
            }
        }
        loops.push(Loop { header, blocks: blocks.into_iter().collect(), is_innermost: true });
    }
    let headers: Vec<_> = loops.iter().map(|it| it.header).collect();
    for it in &mut loops {
        it.is_innermost = !headers.iter().any(|header| *header != it.header && it.has(*header));
    }
    loops
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(successors: &[&[usize]]) -> Vec<(usize, Vec<usize>, bool)> {
        let successors: Vec<_> = successors.iter().map(|to| to.to_vec()).collect();
        natural_loops(&successors).into_iter().map(|it| (it.header, it.blocks, it.is_innermost)).collect()
    }

    #[test]
    fn loops_by_hand() {
        assert_eq!(found(&[&[1], &[]]), []);
        // 0 → 1 → 2 → 1, 2 → 3.
        assert_eq!(found(&[&[1], &[2], &[1, 3], &[]]), [(1, vec![1, 2], true)]);
        // A block that is its own loop, in another.
        assert_eq!(found(&[&[1], &[2], &[2, 3], &[1, 4], &[]]), [(1, vec![1, 2, 3], false), (2, vec![2], true)]);
        // Two ways back to one header are one loop.
        assert_eq!(found(&[&[1], &[2, 3], &[1], &[1, 4], &[]]), [(1, vec![1, 2, 3], true)]);
        // Entered at two places it is none.
        assert_eq!(found(&[&[1, 2], &[2], &[1, 3], &[]]), []);
        // 3 can't be reached, and goes into the loop.
        assert_eq!(found(&[&[1], &[1, 2], &[], &[1]]), [(1, vec![1], true)]);
    }

    /// Whether there is a way from one block to another that leaves out a third.
    fn reaches(successors: &[Vec<usize>], from: usize, to: usize, without: Option<usize>) -> bool {
        let (mut open, mut seen) = (vec![from], vec![false; successors.len()]);
        while let Some(block) = open.pop() {
            if Some(block) != without && !std::mem::replace(&mut seen[block], true) {
                open.extend(&successors[block]);
            }
        }
        seen[to]
    }

    #[test]
    fn ways_round_by_hand() {
        let round = |successors: &[&[usize]], without: &[usize]| {
            let successors: Vec<_> = successors.iter().map(|to| to.to_vec()).collect();
            goes_round(&successors, &without.iter().copied().collect())
        };
        assert!(!round(&[&[1, 2], &[2], &[]], &[]));
        // 0 → 1 → 2 → 1, and 2 → 2.
        let nested: &[&[usize]] = &[&[1], &[2], &[1, 2]];
        assert!(round(nested, &[]) && round(nested, &[1]) && !round(nested, &[2]));
        // Entered at two places: 0 → 1 or 2, 1 ⇄ 2.
        assert!(round(&[&[1, 2], &[2], &[1]], &[0]) && !round(&[&[1, 2], &[2], &[1]], &[1]));
        // Both ways from one block to the next.
        assert!(!round(&[&[1, 1], &[2, 2], &[]], &[]));
    }

    proptest! {
        /// By what the words say: a header is on all ways to one that goes back to it, and a block of the loop is one that
        /// reaches a way back without the header.
        #[test]
        fn loops_are_what_they_are_said_to_be(
            successors in prop::collection::vec(prop::collection::vec(0_usize..9, 0..4), 9),
        ) {
            let reachable: Vec<_> = (0..9).map(|block| reaches(&successors, 0, block, None)).collect();
            let dominates = |one: usize, other: usize| one == other || !reaches(&successors, 0, other, Some(one));
            let mut expected = Vec::new();
            for header in 0..9 {
                let backs: Vec<_> = (0..9)
                    .filter(|from| reachable[*from] && successors[*from].contains(&header) && dominates(header, *from))
                    .collect();
                let is_inside = |block: usize| {
                    block == header
                        || reachable[block] && backs.iter().any(|back| reaches(&successors, block, *back, Some(header)))
                };
                if !backs.is_empty() {
                    expected.push((header, (0..9).filter(|block| is_inside(*block)).collect::<Vec<_>>()));
                }
            }
            let found: Vec<_> = natural_loops(&successors).into_iter().map(|it| (it.header, it.blocks)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
