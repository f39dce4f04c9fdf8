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

/// Blocks that are in no loop but one, and those within it that are not looked for.
#[derive(Clone, Default)]
pub struct BodyBlocks<'m> {
    /// How often each is gone through in a step, as far as constants say so.
    pub blocks: Vec<(Block<'m>, u64)>,
    /// The index of the one around it, which is before it.
    pub around: Option<usize>,
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

    /// Blocks by the innermost loop around them that has some such block, behind those that have none.
    pub fn bodies(&self, blocks: &[Block<'m>], is_such: impl Fn(Block<'m>) -> bool) -> Vec<BodyBlocks<'m>> {
        let are_looked_for: Vec<bool> =
            self.loops.iter().map(|it| it.blocks.iter().any(|block| is_such(*block))).collect();
        // Loops without such blocks of which it is known how often each goes round.
        let counted: Vec<(&BlocksOfLoop<'m>, u64)> = (self.loops.iter().zip(&are_looked_for))
            .filter_map(|(it, is_looked_for)| Some((it, it.trip_count().filter(|_| !is_looked_for)?)))
            .collect();
        // Of the first so many loops.
        let innermost = |block: Block<'m>, loops: usize| {
            let around = (0..loops).rev().find(|&of| are_looked_for[of] && self.loops[of].blocks.contains(&block));
            around.map_or(0, |of| of + 1)
        };
        let mut bodies = vec![BodyBlocks::default()];
        for (number, it) in self.loops.iter().enumerate() {
            bodies.push(BodyBlocks { blocks: Vec::new(), around: Some(innermost(it.header, number)) });
        }
        for block in blocks {
            let around = counted.iter().filter(|(it, _)| it.blocks.contains(block));
            let times = around.map(|(_, trip_count)| *trip_count).fold(1, u64::saturating_mul);
            bodies[innermost(*block, self.loops.len())].blocks.push((*block, times));
        }
        bodies
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

    /// How often it goes round, where constants say so: something is counted from one to another, by a third.
    fn trip_count(&self) -> Option<u64> {
        let counters = self.header.instructions().into_iter().filter(|it| it.opcode() == Some(Opcode::Phi));
        counters.filter_map(|counter| self.trip_count_by(counter)).min()
    }

    fn trip_count_by(&self, counter: Value<'m>) -> Option<u64> {
        let incoming = counter.incoming();
        let first = incoming.iter().find_map(|of| of.constant())?;
        let next = incoming.into_iter().find(|of| of.opcode() == Some(Opcode::Add))?;
        let step = (next.operand(0)? == counter).then(|| next.operand(1)?.constant()).flatten()?;
        let mut ends = [next, counter].into_iter().flat_map(|of| of.users().into_iter().map(move |user| (of, user)));
        let (compared, comparison, branch) = ends.find_map(|(of, user)| {
            let compares = user.opcode() == Some(Opcode::Compare) && self.computes(user);
            Some((of, user, compares.then(|| self.leaves_by(user)).flatten()?))
        })?;
        let steps = comparison.operand(1)?.constant()?.checked_sub(first)?.checked_div(step)?;
        // Where the step is asked that ends, and not the next one, that is one more.
        let is_behind = compared == counter && branch.successors().contains(&self.header);
        u64::try_from(steps.checked_add(i64::from(is_behind))?).ok().filter(|steps| *steps > 0)
    }

    /// The block that a condition leaves the loop from.
    fn leaves_by(&self, condition: Value<'m>) -> Option<Block<'m>> {
        let branches = condition.users().into_iter().filter(|user| user.opcode() == Some(Opcode::Branch));
        let leaves = |block: &Block<'m>| block.successors().iter().any(|to| !self.blocks.contains(to));
        branches.filter_map(Value::block).find(leaves)
    }

    /// Whether a value is a phi of its header.
    pub fn begins_with(&self, phi: Value<'m>) -> bool {
        phi.opcode() == Some(Opcode::Phi) && phi.block() == Some(self.header)
    }
}
