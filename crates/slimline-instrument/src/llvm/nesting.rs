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

    /// Blocks by the innermost loop around them that has some such block.
    pub fn bodies(&self, blocks: &[Block<'m>], is_such: impl Fn(Block<'m>) -> bool) -> Vec<Vec<Block<'m>>> {
        let are_looked_for: Vec<bool> =
            self.loops.iter().map(|it| it.blocks.iter().any(|block| is_such(*block))).collect();
        let mut bodies = vec![Vec::new(); self.loops.len()];
        for block in blocks {
            let around =
                (0..self.loops.len()).rev().find(|&of| are_looked_for[of] && self.loops[of].blocks.contains(block));
            around.into_iter().for_each(|of| bodies[of].push(*block));
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

    /// Whether a value is a phi of its header.
    pub fn begins_with(&self, phi: Value<'m>) -> bool {
        phi.opcode() == Some(Opcode::Phi) && phi.block() == Some(self.header)
    }
}
