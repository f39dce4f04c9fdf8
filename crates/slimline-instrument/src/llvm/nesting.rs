//! Which loop each block is in.

use std::collections::{HashMap, HashSet};

use super::loops::natural_loops;
use super::{Block, Opcode, Value};

/// The loops of some blocks.
pub struct Nesting<'m> {
    loops: Vec<BlocksOfLoop<'m>>,
    /// By block that is in any loop: the innermost one.
    innermost: HashMap<Block<'m>, usize>,
}

/// A natural loop.
pub struct BlocksOfLoop<'m> {
    header: Block<'m>,
    blocks: HashSet<Block<'m>>,
}

/// Where each block may go on to, by their numbers.
pub(super) fn successors_of(blocks: &[Block<'_>]) -> Vec<Vec<usize>> {
    let number: HashMap<_, _> = blocks.iter().enumerate().map(|(number, block)| (block.raw, number)).collect();
    let of = |block: &Block<'_>| block.successors().iter().filter_map(|to| number.get(&to.raw).copied()).collect();
    blocks.iter().map(of).collect()
}

impl<'m> Nesting<'m> {
    /// Of these blocks, the first of which begins.
    #[expect(clippy::mutable_key_type, reason = "handles are compared by what they point to, which stays")]
    pub fn of(blocks: &[Block<'m>]) -> Self {
        let of_loop = |numbers: &[usize]| numbers.iter().map(|number| blocks[*number]).collect::<HashSet<_>>();
        let found = natural_loops(&successors_of(blocks));
        let mut loops: Vec<BlocksOfLoop<'m>> =
            found.iter().map(|it| BlocksOfLoop { header: blocks[it.header], blocks: of_loop(&it.blocks) }).collect();
        // One within another has fewer.
        loops.sort_by_key(|it| std::cmp::Reverse(it.blocks.len()));
        let of_blocks = |(number, it): (usize, &BlocksOfLoop<'m>)| {
            it.blocks.iter().map(move |block| (*block, number)).collect::<Vec<_>>()
        };
        let innermost = loops.iter().enumerate().flat_map(of_blocks).collect();
        Self { loops, innermost }
    }

    /// Blocks by the innermost loop around them that has some such block, behind those that have none, each with the index of the one around it.
    pub fn bodies(
        &self,
        blocks: &[Block<'m>],
        is_such: impl Fn(Block<'m>) -> bool,
    ) -> Vec<(Vec<Block<'m>>, Option<usize>)> {
        let are_looked_for: Vec<bool> =
            self.loops.iter().map(|it| it.blocks.iter().any(|block| is_such(*block))).collect();
        // Of the first so many loops.
        let innermost = |block: Block<'m>, loops: usize| {
            let around = (0..loops).rev().find(|&of| are_looked_for[of] && self.loops[of].blocks.contains(&block));
            around.map_or(0, |of| of + 1)
        };
        let of_loop = |(number, it): (usize, &BlocksOfLoop<'m>)| (Vec::new(), Some(innermost(it.header, number)));
        let mut bodies = vec![(Vec::new(), None)];
        bodies.extend(self.loops.iter().enumerate().map(of_loop));
        for block in blocks {
            bodies[innermost(*block, self.loops.len())].0.push(*block);
        }
        bodies
    }

    /// How often a block is gone through, in each step of a loop with such a block that is around it: as often as the loops between them go
    /// round, or once where that is not known.
    pub fn times(&self, block: Block<'m>, is_such: impl Fn(Block<'m>) -> bool) -> u64 {
        let around = self.loops.iter().filter(|it| it.blocks.contains(&block));
        let without = around.filter(|it| !it.blocks.iter().any(|block| is_such(*block)));
        without.filter_map(BlocksOfLoop::steps).fold(1, u64::saturating_mul)
    }

    /// The innermost loop that a block is in.
    pub fn innermost(&self, block: Block<'m>) -> Option<&BlocksOfLoop<'m>> {
        self.innermost.get(&block).map(|number| &self.loops[*number])
    }
}

impl<'m> BlocksOfLoop<'m> {
    /// Whether a value is computed in it, anew with each step.
    pub fn computes(&self, value: Value<'m>) -> bool {
        value.block().is_some_and(|block| self.blocks.contains(&block))
    }

    /// How often it goes round, where constants say so: something counts by one, from one, to another.
    fn steps(&self) -> Option<u64> {
        let counters = self.header.instructions().into_iter().filter(|it| it.opcode() == Some(Opcode::Phi));
        counters.filter_map(|counter| self.steps_by(counter)).min()
    }

    fn steps_by(&self, counter: Value<'m>) -> Option<u64> {
        let incoming = counter.incoming();
        let first = incoming.iter().find_map(|of| of.constant())?;
        let next = incoming.into_iter().find(|of| of.opcode() == Some(Opcode::Add))?;
        let step = (next.operand(0)? == counter).then(|| next.operand(1)?.constant()).flatten()?;
        let mut users = next.users().into_iter().chain(counter.users());
        let last = users.find_map(|user| {
            let compares = user.opcode() == Some(Opcode::Compare) && self.computes(user);
            compares.then(|| user.operand(1)?.constant()).flatten()
        })?;
        let steps = last.checked_sub(first)?.checked_div(step)?;
        u64::try_from(steps).ok().filter(|steps| *steps > 0)
    }

    /// Whether a value is a phi of its header.
    pub fn begins_with(&self, phi: Value<'m>) -> bool {
        phi.opcode() == Some(Opcode::Phi) && phi.block() == Some(self.header)
    }
}
